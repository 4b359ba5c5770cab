"""What differs between two recordings: a summary of ten lines."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from compiler_lens.facts.compare.model import BreakChange, RecordingDiff, Side
from compiler_lens.facts.time.phases import Phase
from compiler_lens.render.console.page import BAD, DIM, GOOD, TITLE, WARN, Page, line, paragraph
from compiler_lens.views import words
from compiler_lens.views.console import diff_words as told
from compiler_lens.views.console.diff_around_words import (
    autotune_line,
    cudagraph_line,
    frame_line,
    graph_lines,
    is_cause,
)
from compiler_lens.views.profile_words import UNUSABLE
from compiler_lens.views.text import plural, seconds

_CHANGES = 4  # the biggest changes of kernels that a summary tells
_PLACES = 2
_NAME = 44  # columns for a kernel's name
_PHASES = 3
_ARROW = "→"
_SAME_TIME = 0.05  # seconds: phases that differ by less are not told


def diff_lines(d: RecordingDiff, page: Page) -> list[Text]:
    """The summary: what was compared, what the kernels do differently, and what else."""
    lines = paragraph(line(("Diff", TITLE), (f"  {settings_words(d)}", DIM)), page.width, 0, limit=2)
    lines += _gaps(d, page)
    lines += _paragraphs(cause(d), page)
    lines += _kernels(d, page)
    lines += _paragraphs(around(d), page)
    lines += _times(d, page)
    return lines


def diff_summary(d: RecordingDiff) -> list[str]:
    """The same as plain lines, without settings and compile times."""
    changes = [told.change_line(change, _NAME) for change in d.kernels[:_CHANGES]]
    return [*(text for _, text, _ in cause(d)), _kernels_line(d), *changes, *(text for _, text, _ in around(d))]


def _paragraphs(parts: Iterator[tuple[str, str, str]], page: Page) -> list[Text]:
    """Each text with its style, on two lines at most."""
    return [one for _, text, style in parts for one in paragraph(text, page.width, 0, style, limit=2)]


def settings_words(d: RecordingDiff) -> str:
    """What was asked of the compiler, and where, as far as it differs."""
    changes = [f"{s.name} {s.before or 'default'} {_ARROW} {s.after or 'default'}" for s in d.settings]
    return ", ".join(changes) or "no setting differs"


def _gaps(d: RecordingDiff, page: Page) -> Iterator[Text]:
    for text in gap_words(d):
        yield from paragraph(text, page.width, 0, WARN)


def gap_words(d: RecordingDiff) -> list[str]:
    """A word on a side that could not be recorded or read whole."""
    sides = (("BEFORE", d.before), ("AFTER", d.after))
    return [text for name, side in sides for text in _side_gaps(name, side)]


def _side_gaps(name: str, side: Side) -> Iterator[str]:
    if side.unfinished:
        yield words.unfinished(side.unfinished, name)
    if side.problems > bool(side.unfinished):
        told = plural(side.problems, "problem")
        yield f"{name} has gaps, which may be what differs: {told} while it was recorded or read"
    if not side.is_timed_well:
        yield f"{name}: {UNUSABLE}"


def _kernels_line(d: RecordingDiff) -> str:
    return told.kernels_line(d)


def _kernels(d: RecordingDiff, page: Page) -> Iterator[Text]:
    yield from paragraph(_kernels_line(d), page.width, 0, GOOD if d.same_kernels else "", limit=2)
    for change in d.kernels[:_CHANGES]:
        yield from paragraph(told.change_line(change, page.width // 2 - 6), page.width, 2, "", limit=2)
    if len(d.kernels) > _CHANGES:
        yield line((f"… {plural(len(d.kernels) - _CHANGES, 'more change')}", DIM), indent=2)


def cause(d: RecordingDiff) -> Iterator[tuple[str, str, str]]:
    """Where the program itself differs, that: the kernels follow from it. As `around` tells the rest."""
    if is_cause(d.graphs):
        yield from (("graphs", text, "") for text in graph_lines(d.graphs))


def around(d: RecordingDiff) -> Iterator[tuple[str, str, str]]:
    """What differs around the kernels: a line each, with the view that has all of it, and its style."""
    if not is_cause(d.graphs):
        yield from (("graphs", text, "") for text in graph_lines(d.graphs))
    for frame in d.frames[:_PLACES]:
        yield "breaks", frame_line(frame), ""
    if d.breaks:
        yield "breaks", _breaks(d.breaks), BAD if any(b.after > b.before for b in d.breaks) else GOOD
    if d.recompiles:
        counts = [sum(getattr(r, side) for r in d.recompiles) for side in ("before", "after")]
        worse = counts[1] > counts[0]
        yield "breaks", f"Recompiles: {counts[0]:,} {_ARROW} {counts[1]:,}", BAD if worse else GOOD
    if d.cudagraphs:
        yield "cudagraphs", cudagraph_line(d.cudagraphs), ""
    if d.autotunes:
        yield "autotune", autotune_line(d.autotunes), ""


def _breaks(changes: tuple[BreakChange, ...]) -> str:
    fixed, new = [sum(not getattr(b, side) for b in changes) for side in ("after", "before")]
    other = len(changes) - fixed - new
    counts = [(fixed, "fixed"), (new, "new"), (other, "at a place that breaks more or less often")]
    return f"Graph breaks: {', '.join(f'{n:,} {what}' for n, what in counts if n)}"


def _times(d: RecordingDiff, page: Page) -> Iterator[Text]:
    if compiling := compile_time_words(d):
        yield from paragraph(compiling, page.width, 0, DIM, limit=3)
    for text in call_words(d):
        yield from paragraph(text, page.width, 0)


def compile_time_words(d: RecordingDiff) -> str:
    """`Compile time: 6.34 s → 9.28 s`, and the phases that differ most; nothing where a side was not timed."""
    before, after = d.before.phases, d.after.phases
    if not (before.timed and after.timed):
        return ""
    apart = [(phase, values) for phase, values in phase_rows(d) if abs(values[0] - values[1]) > _SAME_TIME]
    phases = "; ".join(_phase(phase, values, d) for phase, values in apart[:_PHASES])
    return f"Compile time: {seconds(before.total)} {_ARROW} {seconds(after.total)}{f': {phases}' if phases else ''}"


def call_words(d: RecordingDiff) -> list[str]:
    """What one call of the model takes, and its kernels, where both sides were profiled."""
    found = []
    if kernel_time := d.kernel_times:
        found.append(f"Kernels in one call: {told.spent(kernel_time)} ({told.gain(kernel_time)}){timed_words(d)}")
    if call := d.call_times:
        found.append(f"One call of the model: {told.spent(call)} ({told.gain(call)}){told.idle(d)}")
    return found


def timed_words(d: RecordingDiff) -> str:
    """Which launches these times are of, where not all were timed on both sides."""
    if all(timed == there for timed, there in d.timed_launches):
        return ""
    before, after = (f"{timed:,} of {there:,}" for timed, there in d.timed_launches)
    return f"; only of launches timed on both sides, {before} {_ARROW} {after}"


def _phase(phase: Phase, took: tuple[float, float], d: RecordingDiff) -> str:
    before, after = d.before.files, d.after.files
    is_telling = phase is Phase.KERNEL_COMPILATION and 2 * min(before, after) < max(before, after)
    files = f" for {before:,} {_ARROW} {after:,} C++ files" if is_telling else ""
    return f"{words.PHASES[phase]} {seconds(took[0])} {_ARROW} {seconds(took[1])}{files}"


def phase_rows(d: RecordingDiff) -> list[tuple[Phase, tuple[float, float]]]:
    """Seconds of each phase on both sides, those that differ most first."""
    sides = [dict(side.phases.both) for side in (d.before, d.after)]
    pairs = [(phase, (sides[0].get(phase, 0.0), sides[1].get(phase, 0.0))) for phase in Phase]
    return sorted((pair for pair in pairs if any(pair[1])), key=lambda pair: -abs(pair[1][0] - pair[1][1]))
