"""Cold or warm: what torch's compile caches answered."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from msgspec import Struct

from compiler_lens.recording.model import CacheLayer, CacheResult, CompileId, Recording


class Warmth(Enum):
    """How much of the compiling was answered from caches."""

    COLD = "cold"
    WARM = "warm"
    PARTLY = "partly_warm"
    UNKNOWN = "unknown"  # no cache was asked, or none is known to have been


class Answers(Struct, frozen=True):
    """How often a cache gave an answer."""

    layer: CacheLayer
    result: CacheResult
    count: int


class CacheCounts(Struct, frozen=True):
    """How much of the compiling came from caches."""

    warmth: Warmth
    warm_compilations: int  # they needed no Inductor
    asking_compilations: int
    results: tuple[Answers, ...]


def cache_counts(recording: Recording) -> CacheCounts:
    """Return how much of the compiling came from caches, by compilation and by cache."""
    by_id: dict[CompileId, dict[CacheLayer, set[CacheResult]]] = {}
    for one in recording.caches:
        by_id.setdefault(one.compile_id, {layer: set() for layer in CacheLayer})[one.layer].add(one.result)
    # An AOTAutograd hit brings everything; without one, all of the FX graphs must have been found.
    hit = CacheResult.HIT
    warm = sum(hit in r[CacheLayer.AOT_AUTOGRAD] or r[CacheLayer.FX_GRAPH] == {hit} for r in by_id.values())
    warmth = Warmth.UNKNOWN
    if by_id:
        warmth = Warmth.WARM if warm == len(by_id) else Warmth.PARTLY if warm else Warmth.COLD
    results = Counter((one.layer, one.result) for one in recording.caches)
    answers = tuple(Answers(layer, result, count) for (layer, result), count in results.items())
    return CacheCounts(warmth, warm, len(by_id), answers)
