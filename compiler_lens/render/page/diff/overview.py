"""What the page of two recordings says first: the console's summary, with where each line leads to."""

from __future__ import annotations

from typing import Any

from compiler_lens.facts.compare.model import RecordingDiff, Times
from compiler_lens.facts.time.caches import cache_summary
from compiler_lens.recording.model import Recording
from compiler_lens.recording.torch_names import Phase
from compiler_lens.render.page.diff.context import Both
from compiler_lens.render.page.diff.kernels import change_hrefs
from compiler_lens.render.page.diff.views import environment_rows
from compiler_lens.views import words
from compiler_lens.views.diff import around_words
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.summary import around, cause, compile_time_words, gap_words, phase_rows, timed_words
from compiler_lens.views.text import plural, short_paths

_CHANGES = 8


def overview(both: Both) -> dict[str, Any]:
    """What the templates of the page's own text need."""
    d = both.diff
    return {
        "d": d,
        "told": told,
        "around_words": around_words,
        "files": both.files,
        "names": [short_paths(both.names)[name] for name in both.names],
        "verdict": told.kernels_line(d),
        "gaps": gap_words(d),
        "counts": told.launch_counts(d) if d.kernels else [],
        "changes": [(told.change_line(d.kernels[n]), href) for n, href in enumerate(change_hrefs(both)[:_CHANGES])],
        "cause": [(view, text) for view, text, _ in cause(d)],
        "around": [(view, text, tone.value) for view, text, tone in around(d)],
        "compiling": compile_time_words(d),
        "phases": _phases(d),
        "caches": [_caches(half.recording) for half in both.halves],
        "spans": _spans(d),
        "notes": [text.removeprefix("; ") for text in (timed_words(d), told.idle(d)) if text] if d.kernel_times else [],
        "facts": environment_rows(both),
    }


def _phases(d: RecordingDiff) -> list[tuple[str, float, float]]:
    """In the order of compiling, to be read as a whole."""
    if not (d.before.phases.timed and d.after.phases.timed):
        return []
    rows = sorted(phase_rows(d), key=lambda row: list(Phase).index(row[0]))
    return [(words.PHASES[phase], *both) for phase, both in rows]


def _caches(recording: Recording) -> str:
    summary = cache_summary(recording)
    if not summary.asked:
        return ""
    return f"{words.WARMTH[summary.warmth]}: {summary.warm:,} of {plural(summary.asked, 'compilation')} from cache"


def _spans(d: RecordingDiff) -> list[tuple[str, Times]]:
    """What one call of the model consists of, where both sides were profiled."""
    found = (("one call of the model", d.call_times), ("kernels", d.kernel_times), ("idle", d.idle_times))
    return [(name, times) for name, times in found if times]
