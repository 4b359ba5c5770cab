"""Where compile time went, and what the caches answered."""

from __future__ import annotations

from rich.text import Text

from compiler_lens.facts.time.phases import PhaseTimes
from compiler_lens.recording.torch_names import Phase
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import DIM, Page, line
from compiler_lens.views import words
from compiler_lens.views.text import percent, seconds

_BAR = 24
_EVENTS = 15


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
