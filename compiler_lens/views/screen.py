"""The first screen: what was compiled, what was not, and what to do next, which comes last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard, lines_of
from compiler_lens.facts.kernels.kernels import launch_count
from compiler_lens.facts.kernels.lineage import is_generated
from compiler_lens.facts.overview.explanation import Summary
from compiler_lens.facts.overview.shared import summary_of
from compiler_lens.facts.program.compilations import folded
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CacheLayer, CacheResult, CudagraphState, Outcome, Recording
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.views import words
from compiler_lens.views.advice import belongs, changed, effect
from compiler_lens.views.compilations import compilation_table
from compiler_lens.views.document import Block, Column, Section, Table, line, paragraph
from compiler_lens.views.headline import gaps, headline, more, setting
from compiler_lens.views.parts import At, Kind, Part, Parts, Span, Tone, code, quiet, strong
from compiler_lens.views.steps import next_steps
from compiler_lens.views.text import joined, number, plural, seconds, times
from compiler_lens.views.times import compile_time, phase_table


class Room(Struct, frozen=True):
    """How many entries each section may show; `show REC VIEW` has the rest."""

    places: int
    causes: int
    rows: int
    kernels: int
    phases: int
    gaps: int
    hints: int  # how many of the next steps come with torch's hint
    wrapped: int  # lines that the effect of a graph break may take


# The first that a screen has room for.
ROOMS = (
    Room(6, 5, 12, 10, 8, 4, 3, 2),
    Room(4, 3, 7, 4, 4, 2, 3, 2),
    Room(4, 3, 5, 3, 3, 1, 3, 1),
    Room(3, 2, 4, 2, 2, 1, 3, 1),
    Room(3, 2, 3, 1, 1, 1, 3, 1),
    Room(3, 2, 3, 1, 1, 1, 2, 1),
    Room(3, 2, 3, 1, 1, 1, 1, 1),
)


def screen(recording: Recording, selection: Selection, room: Room) -> tuple[Block, ...]:
    """Return the first screen, with as much in each section as there is room for."""
    summary = summary_of(recording, selection)
    return (
        line(strong("compiler_lens"), quiet("  "), *setting(recording.environment, summary)),
        *headline(recording, summary),
        *_breaks(summary, room),
        *_recompiles(summary, room),
        *_graphs(summary, room),
        *_kernels(recording, summary, room),
        *_times(summary, room),
        *gaps(recording, room.gaps),
        next_steps(recording, summary, room.hints),
    )


def _breaks(summary: Summary, room: Room) -> Iterator[Section]:
    if not summary.cards:
        return
    blocks: list[Block] = []
    for card in summary.cards[: room.places]:
        where: Part = At(card.place, Tone.STRONG) if card.place else strong("unknown place")
        function = f" in {plain_function(card.place.function)}" if card.place and card.place.function else ""
        source = card.place.code.strip() if card.place else ""
        counted = Span(f"{times(len(card.events)):>5}  ", Tone.WARN)
        blocks.append(line(counted, where, function, "  ", code(source)))
        known = f" ({card.cause.gbid})" if card.cause.gbid else ""
        inside: Parts = (", inside ", At(card.inside[0])) if card.inside else ()
        told = Span(effect(card), Tone.WARN), f": {card.gb_type}{known}", *inside, *_whose(card)
        blocks.append(paragraph(*told, indent=7, limit=room.wrapped))
    lines = lines_of(summary.cards)
    blocks += more(len(summary.cards) - room.places, "line" if lines == len(summary.cards) else "cause", "breaks")
    events = sum(len(card.events) for card in summary.cards)
    yield Section("Graph breaks", tuple(blocks), f"{plural(events, 'break')} at {plural(lines, 'line')}")


def _whose(card: BreakCard) -> Parts:
    """`, by design of DistributedDataParallel, from train.py:13`; nothing of the user's."""
    if card.owner.is_yours:
        return ()
    led = card.owner.line if card.owner.line != card.place else None
    whose = belongs(card.owner)
    return f", {whose[0].lower()}{whose[1:]}", *((", from ", At(led)) if led else ())


def _recompiles(summary: Summary, room: Room) -> Iterator[Section]:
    if not summary.recompiles:
        return
    blocks: list[Block] = []
    for report in summary.recompiles[: room.causes]:
        counted = Span(f"{times(report.recompiles):>5}  ", Tone.WARN)
        place: Parts = (quiet("  "), At(report.function, Tone.QUIET)) if report.function.file else ()
        price = f"  {seconds(report.seconds)}" if report.seconds else ""
        ended: Part = quiet("  as expected") if report.benign else ""
        if report.limit:
            ended = Span(f"  limit hit: {'an error' if report.is_error else 'eager'} for anything new", Tone.WARN)
        blocks.append(line(counted, strong(report.function.name), *place, price, ended))
        blocks += [line(changed(*causes), indent=7) for causes in report.subjects[: room.wrapped]]
    blocks += more(len(summary.recompiles) - room.causes, "function", "recompiles")
    total = sum(report.recompiles for report in summary.recompiles)
    told = f"{plural(total, 'recompile')} of {plural(len(summary.recompiles), 'function')}"
    yield Section("Recompiles", tuple(blocks), told)


def _graphs(summary: Summary, room: Room) -> Iterator[Section]:
    passed_over = {c.compile_id for frame in summary.coverage.library for c in frame.compilations}
    own = tuple(row for row in summary.rows if row.compile_ids[0] not in passed_over)
    if not own:
        return
    rows = folded(own)
    # What a reader would miss most: what did not compile, then what took longest.
    weights = [
        (row.outcome not in {Outcome.COMPILED, Outcome.TRACED, Outcome.EMPTY}, row.seconds or 0.0, row.dynamo_ops or 0)
        for row in rows
    ]
    shown = set(sorted(range(len(rows)), key=lambda i: weights[i], reverse=True)[: room.rows])
    table = compilation_table([row for i, row in enumerate(rows) if i in shown])
    hidden = sum(row.times for i, row in enumerate(rows) if i not in shown)
    library = f"; {plural(len(passed_over), 'library frame')} passed over" if passed_over else ""
    told = f"{number(len(own))}, with ops per graph{library}"
    yield Section("Compilations", (table, *more(hidden, "compilation", "graphs")), told)


def _kernels(recording: Recording, summary: Summary, room: Room) -> Iterator[Section]:
    if not recording.kernels:
        return
    counted = f"{number(len(recording.kernels))} with {plural(launch_count(recording.kernels), 'launch', 'launches')}"
    fusing = [group for group in summary.kernels if group.op_count > 1 and is_generated(group.first)]
    columns = (
        Column(tone=Tone.STRONG, flexible=True, middle=True), Column(), Column(kind=Kind.COUNT),
        Column(flexible=True, tone=Tone.CODE), Column(kind=Kind.TIMES),
    )  # fmt: skip
    rows = tuple(
        (
            group.first.name, words.kernel_kind(group.first), f"{group.op_count:,} ops",
            joined([words.op_name(op) for op, _ in group.fused], 12), len(group.kernels),
        )
        for group in fusing[: room.kernels]
    )  # fmt: skip
    hidden = len(recording.kernels) - sum(len(group.kernels) for group in fusing[: room.kernels])
    blocks = (Table(columns, rows), *more(hidden, "kernel", "kernels"), *_modes(recording))
    yield Section("Kernels", blocks, f"{counted}: {words.kind_counts(recording.kernels)}")


def _modes(recording: Recording) -> Iterator[Block]:
    states = Counter(o.state for o in recording.cudagraphs if o.state is not CudagraphState.NOT_REQUESTED)
    if states:
        told = ", ".join(f"{n:,} {words.CUDAGRAPHS[state]}" for state, n in states.items())
        yield line(f"CUDA graphs: {told}", indent=2)
    if recording.autotunes:
        winners = Counter(result.winner.kind for result in recording.autotunes if result.winner).most_common()
        won = ", ".join(f"{words.KERNEL_KINDS[kind]} {times(n)}" for kind, n in winners)
        tried = sum(len(r.choices) for r in recording.autotunes)
        text = f"Autotuning: {plural(tried, 'choice')} for {plural(len(recording.autotunes), 'op')}"
        text += f" in {words.tuning_time(recording.autotunes)}, won by {won or 'none'}"
        yield paragraph(text, indent=2, limit=2)


def _times(summary: Summary, room: Room) -> Iterator[Section]:
    if not summary.phases.timed or not summary.phases.total:
        return
    told = []
    for layer in CacheLayer:
        counts = Counter({answer.result: answer.count for answer in summary.caches.results if answer.layer is layer})
        asked = sum(counts.values())
        if asked:
            passed = f" ({counts[CacheResult.BYPASS]:,} bypassed)" if counts[CacheResult.BYPASS] else ""
            told.append(f"{layer.value} {counts[CacheResult.HIT]:,} of {asked:,} hit{passed}")
    lookups = (line(quiet(f"cache lookups: {', '.join(told)}"), indent=2),) if told else ()
    yield compile_time(summary.phases, phase_table(summary.phases, room.phases), *lookups)
