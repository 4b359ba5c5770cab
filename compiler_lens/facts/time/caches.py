"""Cold or warm: what torch's compile caches answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from compiler_lens.recording.model import CacheLayer, CacheOutcome, CacheResult, CompileId, Recording


class Warmth(Enum):
    """How much of the compiling was answered from caches."""

    COLD = "cold"
    WARM = "warm"
    PARTLY = "partly_warm"
    UNKNOWN = "unknown"  # no cache was asked, or none is known to have been


class CacheSummary(Struct, frozen=True):
    """Compilations that asked a cache, and how many needed no Inductor."""

    warmth: Warmth
    warm: int  # compilations answered from a cache
    asked: int  # compilations that asked one
    results: Mapping[tuple[CacheLayer, CacheResult], int]


def cache_summary(recording: Recording) -> CacheSummary:
    """Return what the caches answered, per compilation and per layer."""
    by_id: dict[CompileId, list[CacheOutcome]] = {}
    for outcome in recording.caches:
        by_id.setdefault(outcome.compile_id, []).append(outcome)
    warm = sum(_is_warm(outcomes) for outcomes in by_id.values())
    results = Counter((o.layer, o.result) for o in recording.caches)
    warmth = Warmth.PARTLY
    if not by_id:
        warmth = Warmth.UNKNOWN
    elif not warm:
        warmth = Warmth.COLD
    elif warm == len(by_id):
        warmth = Warmth.WARM
    return CacheSummary(warmth, warm, len(by_id), results)


def _is_warm(outcomes: list[CacheOutcome]) -> bool:
    """An AOTAutograd hit brings everything; without one, all of the FX graphs must have been found."""
    results = {layer: {o.result for o in outcomes if o.layer is layer} for layer in CacheLayer}
    return CacheResult.HIT in results[CacheLayer.AOT_AUTOGRAD] or results[CacheLayer.FX_GRAPH] == {CacheResult.HIT}
