"""What torch's caches answered."""

from __future__ import annotations

from msgspec.structs import asdict

from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.time.caches import CacheCounts, cache_counts
from compiler_lens.recording.model import CacheOutcome, CacheResult, Recording
from compiler_lens.views import words
from compiler_lens.views.document import Column, Document, Section, line, paragraph, table
from compiler_lens.views.parts import Compiled, Kind, Span, Tone
from compiler_lens.views.text import plural

# AOTAutogradCache and FxGraphCache each say it of their own entry (torch/_functorch/_aot_autograd/autograd_cache.py,
# torch/_inductor/codecache.py).
_SAVED = (
    "est. saved: torch's estimate for each hit, the time that compiling took when the entry was made. That of an "
    "AOTAutograd hit includes its FX graphs, so these times do not add up."
)

_TONES = {CacheResult.HIT: Tone.GOOD, CacheResult.MISS: Tone.WARN, CacheResult.BYPASS: Tone.BAD}


class Data(CacheCounts, frozen=True):
    """Every question to a cache, and its answer."""

    lookups: tuple[CacheOutcome, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return every question to a cache, and its answer."""
    asked = tuple(outcome for outcome in recording.caches if selection.has(outcome))
    counts = cache_counts(recording)
    data = Data(**asdict(counts), lookups=asked)
    if not asked:
        return Document((line("No cache was asked, or none answered."),), data, count=0)
    shown = table(
        asked,
        (Column("id"), lambda one: Compiled(one.compile_id)),
        (Column("cache", tone=Tone.STRONG, choice=True), lambda one: one.layer.value),
        (Column("answer", choice=True), lambda one: Span(one.result.value, _TONES[one.result])),
        (Column("key", Kind.CODE, Tone.QUIET, flexible=True), lambda one: one.key),
        (Column("est. saved", Kind.SECONDS), lambda one: one.seconds_saved),
        (Column("because", flexible=True), lambda one: one.reason),
    )
    is_estimated = any(one.seconds_saved is not None for one in asked)
    note = (paragraph(_SAVED, indent=2, tone=Tone.QUIET),) if is_estimated else ()
    told = f"{words.WARMTH[counts.warmth]}: {counts.warm_compilations:,} of "
    told += f"{plural(counts.asking_compilations, 'compilation')} from cache"
    return Document((Section("Caches", (shown, *note), told),), data, count=len(asked))
