"""Which functions that torch.compile was given each call has compiled again: past the limit all of one runs eagerly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import Compilation, Outcome, Recording, SourceLine

_LEAST = 3  # calls: the second may be the one in which torch learns that a number or a size varies
# What may have any number of values. Of others, such as a dtype, a program has a few, and each is compiled once.
_OF_MANY_VALUES = frozenset((
    CauseClass.BATCH_SIZE, CauseClass.SEQUENCE_LENGTH, CauseClass.SIZE, CauseClass.SHAPE_EXPRESSION,
    CauseClass.INT_ARGUMENT, CauseClass.FLOAT_ARGUMENT, CauseClass.OBJECT_IDENTITY, CauseClass.LIST_LENGTH,
    CauseClass.DICT_KEYS, CauseClass.MODULE_ATTRIBUTE, CauseClass.OBJECT_ATTRIBUTE, CauseClass.GLOBAL,
    CauseClass.CLOSURE, CauseClass.OPTIMIZER,
))  # fmt: skip


class Calls(Struct, frozen=True):
    """How often what torch.compile made of a function was called from outside of compiled code."""

    defined: SourceLine  # file, line and qualified name of the function; of a module's forward
    calls: int


class AtEachCall(Struct, frozen=True):
    """A function that each of its calls had compiled again, for another value."""

    name: str  # qualified
    calls: int
    limit: int  # compilations that torch keeps of it


def at_each_call(
    recording: Recording, called: Sequence[Calls], reports: Iterable[RecompileReport]
) -> tuple[AtEachCall, ...]:
    """Return the functions that were compiled at each call, for another value at least twice.

    Or of which all that has something in a graph was. Where a graph breaks, and what stands before it was compiled
    once, that stays so past the limit: only the rest of the function runs eagerly then. What hit the limit is none of
    these: it is counted among what runs eagerly.
    """
    every = list(reports)
    functions = grouped([one for one in recording.compilations if one.definition], _function)
    found: list[AtEachCall] = []
    for (file, name), compiled in functions.items():
        calls = sum(one.calls for one in called if (one.defined.file, one.defined.function) == (file, name))
        report = next((one for one in every if any(_subjects(one, _ids(compiled)))), None)
        if report and calls >= _LEAST and _is_whole(compiled, calls, report):
            found.append(AtEachCall(name, calls, report.allowed))
    return tuple(found)


def _is_whole(compiled: Sequence[Compilation], calls: int, report: RecompileReport) -> bool:
    """Whether nothing of a function stays compiled once no more compilations of it are kept."""
    frames = grouped(compiled, lambda one: (one.compile_id.epoch, one.compile_id.frame)).values()
    is_begun = any(_is_at_each(one, calls, report) for one in frames if not _is_part(one[0]))
    in_graphs = [one for one in frames if any(c.outcome is not Outcome.EMPTY for c in one)]
    return is_begun or all(_is_at_each(one, calls, report) for one in in_graphs)


def _is_part(compilation: Compilation) -> bool:
    at = compilation.definition
    return bool(compilation.resumes) or (at is not None and at.function != _function(compilation)[1])


def _function(compilation: Compilation) -> tuple[str, str]:
    """Return the file and name of the function that a compilation is of, or of a part or the rest of which it is."""
    at = compilation.definition
    return (at.file, at.function.partition(INNER)[0]) if at else ("", "")


def _ids(compiled: Iterable[Compilation]) -> set[CompileId]:
    return {one.compile_id for one in compiled}


def _is_at_each(frame: Sequence[Compilation], calls: int, report: RecompileReport) -> bool:
    """Whether a frame was compiled as often as its function was called, and at least twice for one thing."""
    is_compiled = all(one.outcome in {Outcome.COMPILED, Outcome.EMPTY} for one in frame)
    several = Counter(_subjects(report, _ids(frame))).values()
    return is_compiled and len(frame) >= calls and max(several, default=0) >= _LEAST - 1


def _subjects(report: RecompileReport, compiled: Container[CompileId]) -> Iterator[str]:
    """Yield what was another value in each recompile of a frame that is not as expected."""
    for cause in report.causes:
        if cause.cause in _OF_MANY_VALUES and cause.changed and not cause.benign:
            yield from (cause.changed for one in cause.changes if one.recompile.compile_id in compiled)
