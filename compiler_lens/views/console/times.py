"""Where compile time went, and what the caches answered."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from compiler_lens.facts.program.compilations import compile_seconds
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.time.caches import cache_summary
from compiler_lens.facts.time.phases import Phase, PhaseTimes, phase_times
from compiler_lens.recording.model import CacheResult, Recording, Span
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import BAD, CODE, DIM, GOOD, PLACE, WARN, Page, line, paragraph, title
from compiler_lens.views import words
from compiler_lens.views.console.recompiles import named
from compiler_lens.views.text import number, percent, plural, seconds

_BAR = 24
_EVENTS = 15

# AOTAutogradCache and FxGraphCache each tell it of their own entry (torch/_functorch/_aot_autograd/autograd_cache.py,
# torch/_inductor/codecache.py).
SAVED = (
    "est. saved: torch's estimate for each hit, the time that compiling took when the entry was made. That of an "
    "AOTAutograd hit includes its FX graphs, so these times do not add up."
)

_RESULT_STYLES = {CacheResult.HIT: GOOD, CacheResult.MISS: WARN, CacheResult.BYPASS: BAD}


def time_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC times [ID]` shows: phases, compilations, torch's own timed events."""
    spans = [s for s in recording.spans if selection.has(s)]
    phases = phase_times(spans)
    lines: list[Text] = []
    if phases.timed:
        lines = [title("Compile time", total_words(phases)), *_phases_apart(phases, page), *worker_lines(phases)]
    compilations = _compilations(recording, selection, page)
    events = _events(spans, page)
    parts = [part for part in (lines, compilations, events) if part]
    return [one for i, part in enumerate(parts) for one in ([Text()] if i else []) + part] or [
        line("No compile times.")
    ]


def phase_table(phases: PhaseTimes, page: Page, most: int = len(Phase)) -> list[Text]:
    """A line per phase with its share and a bar; beyond `most`, the shorter ones as one."""
    rows = [(words.PHASES[phase], value) for phase, value in phases.both]
    if len(rows) > most + 1:
        rest = rows[most:]
        rows = [*rows[:most], (f"{len(rest)} more", sum(value for _, value in rest))]
    longest = max((value for _, value in rows), default=0.0)
    columns = (Column(), Column(right=True), Column(right=True, style=DIM), Column(style="blue"))
    cells = [
        (name, seconds(value), percent(value, phases.total), "█" * round(_BAR * value / longest))
        for name, value in rows
    ]
    return table(columns, cells, page.width)


def _phases_apart(phases: PhaseTimes, page: Page) -> list[Text]:
    """The same, with forward and backward in columns of their own."""
    if not phases.backward_seconds:
        return phase_table(phases, page)
    parts = (phases.forward, phases.backward)
    rows = [
        (words.PHASES[phase], seconds(value), percent(value, phases.total), *(_some(part.get(phase)) for part in parts))
        for phase, value in phases.both
    ]
    columns = (
        Column(), Column("total", right=True), Column(right=True, style=DIM),
        Column("forward", right=True), Column("lazy backward", right=True),
    )  # fmt: skip
    return table(columns, rows, page.width)


def _some(value: float | None) -> str:
    return seconds(value) if value else ""


def cache_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC caches [ID]` shows: every question to a cache, and its answer."""
    asked = [c for c in recording.caches if selection.has(c)]
    if not asked:
        return [line("No cache was asked, or none told us.")]
    summary = cache_summary(recording)
    counted = f"{words.WARMTH[summary.warmth]}: {summary.warm:,} of {plural(summary.asked, 'compilation')} from cache"
    columns = (
        Column("id", style=DIM), Column("cache", style=PLACE), Column("answer"),
        Column("key", style=DIM, flexible=True),
        Column("est. saved", right=True), Column("because", flexible=True),
    )  # fmt: skip
    rows = [
        (
            f"[{c.compile_id}]", c.layer.value, line((c.result.value, _RESULT_STYLES[c.result])), c.key,
            "" if c.seconds_saved is None else seconds(c.seconds_saved), c.reason,
        )
        for c in asked
    ]  # fmt: skip
    note = paragraph(SAVED, page.width, 2, DIM) if any(c.seconds_saved is not None for c in asked) else []
    return [title("Caches", counted), *table(columns, rows, page.width), *note]


def total_words(phases: PhaseTimes) -> str:
    """Seconds in all, a lazy backward apart."""
    apart = ""
    if phases.backward_seconds:
        apart = f": forward {seconds(phases.forward_seconds)}, lazy backward {seconds(phases.backward_seconds)}"
    return f"{seconds(phases.total)}{apart}"


def worker_lines(phases: PhaseTimes) -> list[Text]:
    """What compile workers did at the same time: no part of the total."""
    told = f"beside that, {seconds(phases.parallel)} of kernel compilation in parallel workers"
    return [line((told, DIM), indent=2)] if phases.parallel else []


def _compilations(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    rows = [
        (f"[{c.compile_id}]", named(function_name(c), page), seconds(c.seconds), seconds(c.backward_seconds))
        for c in sorted(recording.compilations, key=lambda c: -(compile_seconds(c) or 0.0))
        if selection.has(c)
    ]
    columns = (
        Column("id", style=DIM), Column("function", flexible=True), Column("forward", right=True),
        Column("lazy backward", right=True),
    )  # fmt: skip
    return [title("By compilation"), *table(columns, rows, page.width)] if rows else []


def _events(spans: list[Span], page: Page) -> list[Text]:
    own: Counter[str] = Counter()
    for span in spans:
        own[span.name] += span.self_seconds  # type: ignore[assignment]  # a Counter adds up seconds as well
    calls = Counter(span.name for span in spans)
    rows = [(name, seconds(value), number(calls[name])) for name, value in own.most_common(_EVENTS)]
    columns = (Column("event", flexible=True, style=CODE), Column("self time", right=True), Column("calls", right=True))
    return (
        [title("torch's timed events", f"the longest {len(rows)}"), *table(columns, rows, page.width)] if rows else []
    )
