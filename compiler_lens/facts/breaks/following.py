"""After this fix: what of the same function breaks the graph next, as far as the recording or a trial knows it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.program.coverage import Function, Lines
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import BreakOutcome, CompileId, GraphBreak, Outcome, SourceLine, Tried
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.source_text import Sources

_MOST = 8  # of the breaks that follow one
_TO_THE_END = (Outcome.COMPILED, Outcome.EMPTY)  # where no break is of the compilation
_GIVEN_UP = (BreakOutcome.SKIPPED_FRAME, BreakOutcome.SKIPPED_REST)


class Known(Enum):
    """Where something is known from."""

    RECORDED = "recorded"
    TRIED = "tried"  # it came up in a copy of the program, where the break was mended


class Following(Struct, frozen=True):
    """A place of the same function that breaks the graph, too: the next thing, once this one is mended."""

    line: SourceLine
    gb_type: str
    known: Known


class Broken(Struct, frozen=True):
    """A place of the user's that breaks the graph."""

    place: SourceLine
    gb_type: str
    events: tuple[GraphBreak, ...]
    tried: tuple[Tried, ...] = ()


class Beyond(Struct, frozen=True):
    """What comes after a break."""

    following: tuple[Following, ...] = ()
    unseen: Lines | None = None  # lines that Dynamo never came to


def beyond(
    every: Sequence[Broken], homes: Mapping[CompileId, Function], known: Sources
) -> Mapping[tuple[SourceLine, str], Beyond]:
    """Return what breaks after each of all places of a program, by place and type."""
    found: dict[tuple[SourceLine, str], Beyond] = {}
    for unordered in grouped(every, lambda one: _function(one.place, known)).values():
        group = sorted(unordered, key=lambda one: one.place.line)
        there = {(one.place.line, one.gb_type) for one in group}
        for one in group:
            below = bisect_right(group, one.place.line, key=lambda other: other.place.line)
            following = (*_recorded(group[below : below + _MOST]), *_brought_up(one, there))
            unseen = None if following else _unseen(one, homes, known)
            found[one.place, one.gb_type] = Beyond(following, unseen)
    return found


def _function(at: SourceLine, known: Sources) -> tuple[str, int | str]:
    around = known.function_at(at.file, at.line)
    return at.file, around.line if around else plain_function(at.function)


def _recorded(below: Sequence[Broken]) -> Iterator[Following]:
    yield from (Following(one.place, one.gb_type, Known.RECORDED) for one in below)


def _brought_up(one: Broken, there: Container[tuple[int, str]]) -> Iterator[Following]:
    """Give what broke only where an offer for a break was tried."""
    for new in dict.fromkeys(new for trial in one.tried for new in trial.next):
        if (new.line.line, new.gb_type) not in there:
            yield Following(new.line, new.gb_type, Known.TRIED)


def _unseen(one: Broken, homes: Mapping[CompileId, Function], known: Sources) -> Lines | None:
    """Return the lines after a break that Dynamo stopped at for good."""
    at = one.place
    around = known.function_at(at.file, at.line)
    if around is None or at.line >= around.last:
        return None
    given_up = (homes[e.compile_id] for e in one.events if e.outcome in _GIVEN_UP and e.compile_id in homes)
    ours = [f for f in given_up if f.name.file == at.file and f.name.line in {around.line, around.first}]
    is_unseen = bool(ours) and not any(_went_on(function, at.line) for function in ours)
    return Lines(at.file, at.line + 1, around.last) if is_unseen else None


def _went_on(function: Function, line: int) -> bool:
    """Whether other calls may have come past a line: traced to the function's end, or resumed further on."""
    for frame in function.frames:
        broken = {event.compile_id for event in frame.breaks}
        ended = [c for c in frame.compilations if c.outcome in _TO_THE_END]
        if ((frame.resumes_at or 0) > line and ended) or any(c.compile_id not in broken for c in ended):
            return True
    return False
