"""The report: one screen that says what was compiled, what was not, and what to do next, which comes last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rich.text import Text

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.kernels.kernels import (
    autotune_winners,
    cudagraph_states,
    is_generated,
    launch_count,
)
from compiler_lens.facts.overview.summary import Summary, summarize
from compiler_lens.facts.program.compilations import CompilationRow, folded
from compiler_lens.facts.program.coverage import Function, Treatment
from compiler_lens.facts.program.ownership import UserPaths
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.facts.time.caches import CacheSummary, Warmth
from compiler_lens.recording.model import CacheLayer, CacheResult, Environment, Outcome, Recording
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import (
    BAD,
    CODE,
    DIM,
    GOOD,
    PLACE,
    WARN,
    Page,
    Part,
    command,
    joined,
    line,
    paragraph,
    title,
)
from compiler_lens.views import words
from compiler_lens.views.advice import changed, effect, often
from compiler_lens.views.console.compilations import compilation_table
from compiler_lens.views.console.next_steps import next_steps
from compiler_lens.views.console.times import phase_table, total_words, worker_lines
from compiler_lens.views.text import number, plural, seconds, times


@dataclass(frozen=True, slots=True)
class Room:
    """How many entries each section may show; `show REC VIEW` has the rest."""

    places: int
    causes: int
    rows: int
    kernels: int
    phases: int
    gaps: int
    hints: int  # how many of the next steps come with torch's hint
    wrapped: int  # lines that the effect of a graph break may take


_SCREEN = 60  # lines
_ROOMS = (
    Room(6, 5, 12, 10, 8, 4, 3, 2),
    Room(4, 3, 7, 4, 4, 2, 3, 2),
    Room(4, 3, 5, 3, 3, 1, 3, 1),
    Room(3, 2, 4, 2, 2, 1, 3, 1),
    Room(3, 2, 3, 1, 1, 1, 3, 1),
    Room(3, 2, 3, 1, 1, 1, 2, 1),
    Room(3, 2, 3, 1, 1, 1, 1, 1),
)


def report_lines(recording: Recording, page: Page, user_paths: UserPaths = ()) -> list[Text]:
    """All lines of the one screen: as much as it holds, and no more."""
    summary = summarize(recording, user_paths)
    lines: list[Text] = []
    for room in _ROOMS:
        lines = _sections(recording, summary, page, room)
        if len(lines) <= _SCREEN:
            break
    return lines


def _sections(recording: Recording, summary: Summary, page: Page, room: Room) -> list[Text]:
    sections = (
        _headline(recording, summary, page),
        _breaks(summary, page, room),
        _recompiles(summary, page, room),
        _graphs(summary, page, room),
        _kernels(recording, summary, page, room),
        _times(summary, page, room),
        _gaps(recording, page, room),
        next_steps(recording, summary, page, room.hints),
    )
    lines: list[Text] = []
    for section in sections:
        lines += [Text(), *section] if section and lines else section
    return lines


def _headline(recording: Recording, summary: Summary, page: Page) -> list[Text]:
    lines = [
        line(("compiler_lens", "bold"), (f"  {' · '.join(setting(recording.environment, summary, page))}", DIM)),
        *unfinished_lines(recording, page),
        *paragraph(verdict(summary, page), page.width, 0, "", 4),
    ]
    if summary.coverage.frames or recording.graph_breaks:
        told = Text(", ").join(line(figure) for figure in figures(recording, summary))
        lines += paragraph(told.append("."), page.width, 0)
    return lines


def unfinished_lines(recording: Recording, page: Page) -> list[Text]:
    """That a recording has no end, before anything that is read as the whole."""
    told = words.unfinished(recording.unfinished)
    return paragraph(told, page.width, 0, WARN) if told else []


def setting(environment: Environment, summary: Summary, page: Page) -> Iterable[str]:
    """What was run, and with what."""
    yield environment.argv[0].rsplit("/", 1)[-1] if environment.argv else page.target
    if environment.rank is not None:
        yield f"rank {environment.rank}"
    if environment.torch:
        yield f"torch {environment.torch}"
    if environment.device:
        yield environment.device
    if summary.modes:
        yield f"mode {joined(summary.modes, 3)}"
    if summary.options:
        yield f"options {joined([f'{name}={value}' for name, value in summary.options], 3)}"


def verdict(summary: Summary, page: Page) -> Text:
    """`3 of 5 functions compiled; 2 run eagerly: `MoE.forward` (model.py:41), …`."""
    covered = summary.coverage
    counted = [f for f in covered.functions if f.treatment is not Treatment.EMPTY]
    if not covered.frames:
        return line(("Nothing was compiled: no frame entered the compiler.", BAD))
    compiled = sum(f.treatment.is_compiled for f in counted)
    partly, total = covered.treatments.get(Treatment.PARTLY_EAGER, 0), len(counted)
    if not counted:
        return line(("Nothing was compiled", BAD), f": {plural(len(covered.frames), 'frame')} with nothing to compile.")
    rest = Text()
    for kind, told in words.TREATMENTS_COUNTED.items():
        if found := covered.treated(kind):
            rest.append("; ").append(_named(len(found), _after(found, kind, told), found, page))
    if not compiled and not partly:
        return line((_nothing_whole(summary, total), BAD), rest, ".")
    style = GOOD if covered.treatments.get(Treatment.WHOLE, 0) == total else WARN
    head = (
        f"All {total:,} functions compiled"
        if 1 < compiled == total
        else f"{compiled:,} of {plural(total, 'function')} compiled"
    )
    return line((head, f"bold {style}"), rest, ".")


def _nothing_whole(summary: Summary, total: int) -> str:
    """Where no function is compiled for all of its calls: graphs there may be all the same."""
    if not summary.graphs:
        return "Nothing was compiled"
    if not summary.coverage.treatments.get(Treatment.LIMIT):
        return f"0 of {plural(total, 'function')} compiled"
    return f"0 of {plural(total, 'function')} {'stays' if total == 1 else 'stay'} compiled"


def _after(found: tuple[Function, ...], kind: Treatment, told: tuple[str, str]) -> tuple[str, str]:
    """What became of functions; of a single one that hit the limit also after how many compilations."""
    if kind is not Treatment.LIMIT or len(found) > 1:
        return told
    limited = (frame.compilations for frame in found[0].frames if frame.outcome is Outcome.RECOMPILE_LIMIT)
    made = max((sum(c.outcome is Outcome.COMPILED for c in compilations) for compilations in limited), default=0)
    return (f"was compiled {often(made)}, then {told[0]}" if made else told[0]), told[1]


def _named(count: int, told: tuple[str, str], functions: tuple[Function, ...], page: Page) -> Text:
    names = [f"{f.name.name} ({page.at(f.name)})" if f.name.file else f.name.name for f in functions]
    return line(f"{count:,} {told[count != 1]}: ", (joined(names, 3), PLACE))


def figures(recording: Recording, summary: Summary) -> Iterable[Part]:
    """The counts of a headline."""
    yield plural(summary.graphs, "graph")
    if recording.graph_breaks:
        breaks, places = len(recording.graph_breaks), len(summary.cards)
        yield plural(breaks, "graph break") + (f" at {plural(places, 'place')}" if places < breaks else ""), WARN
    if recording.recompiles:
        yield plural(len(recording.recompiles), "recompile"), WARN
    yield plural(len(recording.kernels), "kernel")
    if summary.seconds is not None:
        warmth = warmth_words(summary.caches)
        yield f"{seconds(summary.seconds)} spent compiling" + (f" ({warmth})" if warmth else "")


def warmth_words(caches: CacheSummary) -> str:
    """How much came from caches; empty where none told."""
    if caches.warmth is Warmth.PARTLY:
        return f"partly warm: {caches.warm:,} of {caches.asked:,} from cache"
    return words.WARMTH[caches.warmth]


def _breaks(summary: Summary, page: Page, room: Room) -> list[Text]:
    if not summary.cards:
        return []
    events = sum(len(card.events) for card in summary.cards)
    lines = [title("Graph breaks", f"{plural(events, 'break')} at {plural(len(summary.cards), 'place')}")]
    for card in summary.cards[: room.places]:
        lines += _card(card, page, room)
    return lines + _more(len(summary.cards) - room.places, "place", "breaks", page)


def _card(card: BreakCard, page: Page, room: Room) -> list[Text]:
    where = page.at(card.place) if card.place else "unknown place"
    function = f" in {plain_function(card.place.function)}" if card.place and card.place.function else ""
    code = f"  {card.place.code.strip()}" if card.place else ""
    known = f" ({card.cause.gbid})" if card.cause.gbid else ""
    inside = f", inside {page.at(card.inside[0])}" if card.inside else ""
    told = line((effect(card), WARN), f": {card.gb_type}{known}{inside}")
    return [
        line((f"{times(len(card.events)):>5}  ", WARN), (where, PLACE), function, (code, CODE)),
        *paragraph(told, page.width, 7, "", room.wrapped),
    ]


def _times_word(count: int, total: int) -> str:
    return "" if count == total else f" {times(count)}"


def _recompiles(summary: Summary, page: Page, room: Room) -> list[Text]:
    if not summary.reports:
        return []
    total = sum(report.recompiles for report in summary.reports)
    lines = [title("Recompiles", f"{plural(total, 'recompile')} of {plural(len(summary.reports), 'function')}")]
    for report in summary.reports[: room.causes]:
        lines += _report(report, page, room)
    return lines + _more(len(summary.reports) - room.causes, "function", "recompiles", page)


def _report(report: RecompileReport, page: Page, room: Room) -> list[Text]:
    place = f"  {page.at(report.function)}" if report.function.file else ""
    price = f"  {seconds(report.seconds)}" if report.seconds else ""
    limit = "  limit hit: eager for anything new" if report.limit else "  as expected" if report.benign else ""
    head = line(
        (f"{times(report.recompiles):>5}  ", WARN), (report.function.name, PLACE), (place, DIM), price,
        (limit, WARN if report.limit else DIM),
    )  # fmt: skip
    told = [line(changed(cause), indent=7) for cause in report.causes[: room.wrapped]]
    return [head, *told]


def _graphs(summary: Summary, page: Page, room: Room) -> list[Text]:
    passed_over = {c.compile_id for frame in summary.coverage.library for c in frame.compilations}
    own = tuple(row for row in summary.rows if row.compile_ids[0] not in passed_over)
    if not own:
        return []
    rows = folded(own)
    shown = set(sorted(range(len(rows)), key=lambda i: _weight(rows[i]), reverse=True)[: room.rows])
    library = f"; {plural(len(passed_over), 'library frame')} passed over" if passed_over else ""
    lines = [title("Compilations", f"{number(len(own))}, with ops per graph{library}")]
    lines += compilation_table([row for i, row in enumerate(rows) if i in shown], page)
    hidden = sum(row.times for i, row in enumerate(rows) if i not in shown)
    return lines + _more(hidden, "compilation", "graphs", page)


def _weight(row: CompilationRow) -> tuple[bool, float, int]:
    """What a reader would miss most: what did not compile, then what took longest."""
    trouble = row.outcome not in {Outcome.COMPILED, Outcome.EMPTY}
    return trouble, row.seconds or 0.0, row.dynamo_ops or 0


def _kernels(recording: Recording, summary: Summary, page: Page, room: Room) -> list[Text]:
    if not recording.kernels:
        return []
    kinds = words.kind_counts(recording.kernels)
    counted = f"{number(len(recording.kernels))} with {plural(launch_count(recording.kernels), 'launch', 'launches')}"
    lines = [title("Kernels", f"{counted}: {kinds}")]
    fusing = [group for group in summary.kernels if group.op_count > 1 and is_generated(group.first)]
    rows = [
        (
            group.first.name,
            words.kernel_kind(group.first),
            f"{group.op_count:,} ops",
            joined([words.op_name(op) for op, _ in group.fused], 12),
            times(len(group.kernels)) if len(group.kernels) > 1 else "",
        )
        for group in fusing[: room.kernels]
    ]
    columns = (
        Column(style=PLACE, flexible=True, middle=True),
        Column(),
        Column(right=True),
        Column(flexible=True, style=CODE),
        Column(),
    )
    lines += table(columns, rows, page.width)
    hidden = len(recording.kernels) - sum(len(group.kernels) for group in fusing[: room.kernels])
    return [*lines, *_more(hidden, "kernel", "kernels", page), *_modes(recording, page)]


def _modes(recording: Recording, page: Page) -> Iterable[Text]:
    states = cudagraph_states(recording.cudagraphs)
    if states:
        yield line(
            f"CUDA graphs: {', '.join(f'{n:,} {words.CUDAGRAPHS[state]}' for state, n in states.items())}", indent=2
        )
    if recording.autotunes:
        winners = Counter(autotune_winners(recording.autotunes)).most_common()
        won = ", ".join(f"{words.KERNEL_KINDS[kind]} {times(n)}" for kind, n in winners)
        tried = sum(len(r.choices) for r in recording.autotunes)
        text = f"Autotuning: {plural(tried, 'choice')} for {plural(len(recording.autotunes), 'op')}"
        text += f" in {words.tuning_time(recording.autotunes)}, won by {won or 'none'}"
        yield from paragraph(text, page.width, 2, "", 2)


def _times(summary: Summary, page: Page, room: Room) -> list[Text]:
    if not summary.phases.timed or not summary.phases.total:
        return []
    heading = title("Compile time", total_words(summary.phases))
    phases = phase_table(summary.phases, page, room.phases)
    return [heading, *phases, *worker_lines(summary.phases), *_caches(summary.caches)]


def _caches(caches: CacheSummary) -> Iterable[Text]:
    told = []
    for layer in CacheLayer:
        counts = {result: caches.results.get((layer, result), 0) for result in CacheResult}
        asked = sum(counts.values())
        if asked:
            passed = f" ({counts[CacheResult.BYPASS]:,} bypassed)" if counts[CacheResult.BYPASS] else ""
            told.append(f"{layer.value} {counts[CacheResult.HIT]:,} of {asked:,} hit{passed}")
    if told:
        yield line((f"cache lookups: {', '.join(told)}", DIM), indent=2)


def _gaps(recording: Recording, page: Page, room: Room) -> list[Text]:
    problems = Counter((p.where, p.message) for p in recording.problems).most_common()
    missing = Counter((u.fact, u.reason) for u in recording.unavailable).most_common()
    if not problems and not missing:
        return []
    told = [(words.gap(what, why), n, BAD) for (what, why), n in problems[: room.gaps]]
    told += [(f"{what}: {why}", n, "") for (what, why), n in missing[: room.gaps]]
    lines = [title("Gaps", "not in this recording, though it may have happened")]
    for text, n, style in told:
        lines += paragraph(line((text, style), _times_word(n, 1)), page.width, 2, "", 2)
    hidden = max(len(problems) - room.gaps, 0) + max(len(missing) - room.gaps, 0)
    return lines + _more(hidden, "gap", "environment", page)


def _more(count: int, noun: str, view: str, page: Page) -> list[Text]:
    """The line that says what the screen has no room for, and how to see it."""
    return [command(f"… {plural(count, f'more {noun}')}: ", page.show(view))] if count > 0 else []
