"""What runs eagerly, why, and how much of it is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from compiler_lens.facts.overview.eager import Eager, EagerPart, Extent, Reason, Runs, eager
from compiler_lens.facts.overview.shared import summary_of
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.views.document import Block, Column, Document, Paragraph, Section, Table, paragraph
from compiler_lens.views.parts import At, Cell, Kind, Parts, Span, Tone
from compiler_lens.views.text import one_line, plural

_REASONS: Mapping[Reason, str] = {
    Reason.GRAPH_BREAK: "graph break",
    Reason.SKIPPED: "passed over",
    Reason.GENERATOR: "a generator",
    Reason.SUPPRESSED: "suppressed error",
    Reason.AROUND: "the function around it runs eagerly",
    Reason.LIMIT: "recompile limit",
    Reason.STANCE: "stance",
    Reason.DISABLED: "disabled",
    Reason.NEVER_CALLED: "never called: given to torch.compile",
    Reason.WRAPPER: "no graph holds what it wraps",
}
_EXTENTS: Mapping[Extent, str] = {
    Extent.EVERY_CALL: "every call",
    Extent.IN_FORCE: "every call meanwhile",
    Extent.SINCE: "every call since",
    Extent.GIVEN: "calls of what that line gave",
    Extent.UNFIT: "calls that fit no compilation",
    Extent.REST: "the rest of every call",
    Extent.BETWEEN: "that line of every call",
}
_SHARES: Mapping[Runs, str] = {
    Runs.PARTLY: "in part",
    Runs.EAGERLY: "not at all",
    Runs.FAILED: "raised while it was compiled",
    Runs.UNFINISHED: "unfinished",
}
_TONES: Mapping[Extent, Tone] = {
    Extent.EVERY_CALL: Tone.BAD,
    Extent.IN_FORCE: Tone.BAD,
    Extent.SINCE: Tone.BAD,
    Extent.BETWEEN: Tone.PLAIN,
}
_NOT_COUNTED = (
    "Calls that find their code compiled are not counted: nothing is recorded there. So no share of all calls is "
    "known, and what runs eagerly may run once or a million times."
)


class Data(Struct, frozen=True):
    """What runs eagerly, and how many calls are known."""

    functions: Mapping[Runs, int]
    compiling_calls: int
    eager_calls: int
    parts: tuple[EagerPart, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return what runs eagerly, the most first, and what is known of how often."""
    found = eager(recording, summary_of(recording, selection))
    data = Data(found.functions, found.compiling_calls, found.eager_calls, found.parts)
    is_all = not found.parts and set(found.functions) <= {Runs.COMPILED}
    blocks: list[Block] = [paragraph(_share(found), indent=2, tone=Tone.GOOD if is_all else Tone.WARN)]
    if found.parts:
        columns = (
            Column("function", tone=Tone.STRONG, flexible=True, middle=True),
            Column("how much", choice=True),
            Column("calls", Kind.COUNT),
        )
        rows = tuple((_name(part), Span(_extent(part), _tone(part)), part.calls) for part in found.parts)
        shown = Table(columns, rows, beneath=tuple((_why(part),) for part in found.parts))
        blocks.append(shown)
    blocks += _known(found)
    return Document((Section("Eager", tuple(blocks), "what runs eagerly, and why"),), data, count=len(found.parts))


def _share(found: Eager) -> str:
    """`Of 5 functions 3 run compiled, 1 in part, 1 not at all.`"""
    total = sum(found.functions.values())
    if not total:
        return "No function entered the compiler." if not found.parts else "Nothing ran compiled."
    compiled = found.functions.get(Runs.COMPILED, 0)
    if compiled == total:
        end = "" if not found.parts else ", but for what follows"
        return f"{plural(total, 'function')} entered the compiler, and {'runs' if total == 1 else 'run'} compiled{end}."
    parts = [f"{compiled:,} {'runs' if compiled == 1 else 'run'} compiled"]
    for runs, how in _SHARES.items():
        if count := found.functions.get(runs):
            parts.append(f"{count:,} {how}")
    return f"Of {plural(total, 'function')} that entered the compiler {', '.join(parts)}."


def _known(found: Eager) -> Iterator[Block]:
    known = f"Known: {plural(found.compiling_calls, 'call')} that code was compiled for, and "
    known += f"{plural(found.eager_calls, 'call')} that ran eagerly. "
    yield paragraph(known, _NOT_COUNTED, indent=2, tone=Tone.QUIET)


def _name(part: EagerPart) -> Cell:
    if part.function is None:
        return "every function"
    if not part.function.file:
        return part.function.name
    return (part.function.name, "  ", At(part.function, Tone.QUIET))


def _extent(part: EagerPart) -> str:
    lines = part.lines
    if part.extent is Extent.REST and len(lines) == 1:
        first, last = lines[0].first, lines[0].last
        return f"line {first} on" if last is None else f"line {first}" if last == first else f"lines {first}-{last}"
    return _EXTENTS[part.extent]


def _tone(part: EagerPart) -> Tone:
    return _TONES.get(part.extent, Tone.WARN)


def _why(part: EagerPart) -> Paragraph:
    at: Parts = (" at ", At(part.place)) if part.place else ()
    why = one_line(part.why.strip().partition("\n")[0], 200)
    return Paragraph((_REASONS[part.reason], *at, f": {why}" if why else ""), indent=6, tone=Tone.QUIET, limit=3)
