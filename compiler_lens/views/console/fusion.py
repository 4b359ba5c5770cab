"""How far kernels are fused: which launches share memory and are not one, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from rich.text import Text

from compiler_lens.facts.kernels.fusion import Cause, CodeFusion, LaunchRef, PairGroup, UnfusedLaunches, causes, fusion
from compiler_lens.facts.kernels.fusion_reasons import Reason
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.ids import KernelId, LaunchId
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import CODE, DIM, PLACE, WARN, Page, joined, line, paragraph, title
from compiler_lens.views import fusion_words, words
from compiler_lens.views.console.lineage import lines_text
from compiler_lens.views.text import nbytes, number, plural, times

_PAIRS = 6
_NEIGHBOURS = 8
_NODES = 6

Lines = Mapping[LaunchId | KernelId, tuple[SourceLine, ...]]


def fusion_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC fusion [ID]` shows: for each compiled graph what was not fused, the costliest first."""
    codes = fusion(recording, selection)
    if not codes:
        return _nothing(recording, page)
    lineages = Provenance.of(recording, Ownership.of(selection.user_paths)).lineages
    at = {one.id: one.lines for one in lineages}
    compilations = {c.compile_id: c for c in recording.compilations}
    lines = [title("Fusion", _head(sum(code.ops for code in codes), sum(code.launches for code in codes)))]
    for code in codes:
        advice = partial(
            fusion_words.remedy, compilation=compilations.get(code.code.compile_id), environment=recording.environment
        )
        lines += [Text(), *_code(code, advice, at, page)]
    return lines


def neighbour_lines(pairs: Sequence[UnfusedLaunches], index: int, page: Page) -> list[Text]:
    """The launches that share memory with those of the kernel at this place, and are not part of it."""
    if not pairs:
        return []
    found = [(cause, one) for cause in causes(pairs) for one in cause.groups]
    found.sort(key=lambda pair: -pair[1].bytes)
    reasons: dict[str, list[tuple[str, ...]]] = {}
    for cause, one in found[:_NEIGHBOURS]:
        reasons.setdefault(why_apart(cause, one.first), []).append(_neighbour(one, index))
    columns = (Column(right=True), Column(), Column(), Column(style=PLACE, flexible=True, middle=True))
    told = line(
        ("not fused with", PLACE), ("  what one kernel would not have to move, and why there are two", DIM), indent=2
    )
    lines = [told]
    for said, rows in reasons.items():
        lines += [*paragraph(said, page.width, 4, "", 2), *table(columns, rows, page.width, 6)]
    return [*lines, *_more(len(found) - _NEIGHBOURS, 4)]


def _neighbour(alike: PairGroup, index: int) -> tuple[str, ...]:
    pair = alike.first
    is_first = pair.first.index == index
    other = pair.second if is_first else pair.first
    told = "after it" if is_first else "before it"
    several = times(len(alike.pairs)) if len(alike.pairs) > 1 else ""
    return _saved(alike), several, told, other.kernel.name


def why_apart(cause: Cause, pair: UnfusedLaunches) -> str:
    """What keeps a pair apart."""
    if cause.reason is Reason.OTHER:
        return pair.unfused.reason
    return fusion_words.reason(cause.reason, cause.library)


def _nothing(recording: Recording, page: Page) -> list[Text]:
    if not recording.kernels:
        return [line("No kernels.")]
    told = (
        "This recording does not tell what launches read and write: that is heard from Inductor while it compiles, "
        "not from a TORCH_TRACE log, nor from a cache that was filled without compiler_lens."
    )
    return [title("Fusion"), *paragraph(told, page.width, 2)]


def _code(code: CodeFusion, advice: Callable[[Cause], str], at: Lines, page: Page) -> list[Text]:
    graph = f", graph {code.code.ordinal + 1}" if code.code.ordinal else ""
    head = _head(code.ops, code.launches)
    lines = [line((f"[{code.code.compile_id}] {words.PASSES[code.code.direction]}{graph}", PLACE), (f"  {head}", DIM))]
    if code.symbolic and code.causes:
        lines += paragraph("sizes vary here: bytes are those of the call that it was compiled in", page.width, 2, DIM)
    if not code.causes:
        lines.append(line("no two launches share memory", indent=2))
    for cause in code.causes:
        lines += _cause(cause, advice(cause), at, page)
    return [*lines, *_again(code, page)]


def _head(ops: int, launches: int) -> str:
    counted = plural(launches, "launch", "launches")
    return f"{plural(ops, 'op')} in {counted}" if ops else counted


def _cause(cause: Cause, advice: str, at: Lines, page: Page) -> list[Text]:
    cost = _saved(cause) if _is_known(cause) else "an unknown amount"
    figures = f"{cost} in {plural(len(cause.pairs), 'pair')}: "
    told = Text.assemble((figures, WARN), fusion_words.reason(cause.reason, cause.library))
    lines = paragraph(told, page.width, 2)
    if cause.reason is Reason.LIBRARIES:  # as many as the model has layers, and nothing to be done
        return lines
    lines += paragraph(advice, page.width, 4, DIM)
    columns = (
        Column(right=True),
        Column(),
        Column(style=PLACE, flexible=True, middle=True),
        Column(flexible=True, middle=True),
        Column(style=DIM, flexible=True),
    )
    lines += table(columns, [_row(one, at, page) for one in cause.groups[:_PAIRS]], page.width, 4)
    return [*lines, *_said_by_torch(cause, page), *_more(len(cause.groups) - _PAIRS, 4)]


def _row(alike: PairGroup, at: Lines, page: Page) -> tuple[str, ...]:
    pair = alike.first
    several = times(len(alike.pairs)) if len(alike.pairs) > 1 else ""
    lines = [place for side in (pair.first, pair.second) for place in _lines(side, at)]
    places = {line.place: line for line in lines}
    told = lines_text(places.values(), page, 2)
    return _saved(alike), several, pair.first.kernel.name, f"→ {pair.second.kernel.name}", told


def _lines(side: LaunchRef, at: Lines) -> Sequence[SourceLine]:
    return at.get(side.id) or at.get(side.kernel.id, ())


def _saved(group: PairGroup | Cause) -> str:
    return nbytes(group.bytes if _is_known(group) else None)


def _is_known(group: PairGroup | Cause) -> bool:
    return any(access.bytes is not None for pair in group.pairs for access in pair.unfused.shared)


def _said_by_torch(cause: Cause, page: Page) -> list[Text]:
    said = Counter(pair.unfused.reason for pair in cause.pairs if pair.unfused.reason)
    if not said:
        return []
    sentence, count = said.most_common(1)[0]
    others = f", and {plural(len(said) - 1, 'more of the kind', 'more of the kind')}" if len(said) > 1 else ""
    meant = fusion_words.MEANT.get(sentence, "")
    return paragraph(f"torch: {sentence}{meant}{others}", page.width, 4, DIM, 2) if count else []


def _again(code: CodeFusion, page: Page) -> list[Text]:
    lines: list[Text] = []
    if code.repeated:
        names = [f"{words.op_name(node.target)} {times(len(node.launches))}" for node in code.repeated]
        told = f"{plural(len(names), 'op')} computed again in another launch, not stored: "
        lines += _counted(told, _ranked(names), page)
    if code.rematerialized:
        names = [words.op_name(node.target) for node in code.rematerialized]
        told = f"{plural(len(names), 'op')} of the forward computed again here, not kept for the backward: "
        lines += _counted(told, _ranked(names), page)
    return lines


def _ranked(names: Iterable[str]) -> list[str]:
    return [f"{number(count)} {name}" for name, count in Counter(names).most_common()]


def _counted(told: str, names: Sequence[str], page: Page) -> list[Text]:
    return paragraph(line(told, (joined(names, _NODES), CODE)), page.width, 2, "", 3)


def _more(count: int, indent: int) -> list[Text]:
    return [line((f"… {count:,} more in --json", DIM), indent=indent)] if count > 0 else []
