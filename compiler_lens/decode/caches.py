"""What torch's compile caches answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CacheLayer, CacheOutcome, CacheResult, CompileId

_LAYERS = {"fx_graph": CacheLayer.FX_GRAPH, "aotautograd": CacheLayer.AOT_AUTOGRAD}
_BUNDLED = "_bundled"


def read_cache(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[CacheOutcome, ...]:
    """Read one question to one cache. The layer and the answer are in the event's name, the rest is JSON."""
    layer, _, answer = event.name.partition("_cache_")
    try:
        values = json.loads(event.text or "")
        outcome = CacheOutcome(
            compile_id,
            _LAYERS[layer.removesuffix(_BUNDLED)],
            CacheResult(answer),
            key=values.get("key") or "",
            reason=values.get("cache_bypass_reason") or "",
            seconds_saved=_seconds_saved(values),
            bundled=layer.endswith(_BUNDLED),
        )
    except (ValueError, LookupError, AttributeError) as error:
        raise PayloadError(f"{event.name}: {error!r}") from error
    return (outcome,)


def _seconds_saved(values: Mapping[str, Any]) -> float | None:
    # FxGraphCache counts in nanoseconds (torch/_inductor/codecache.py), AOTAutogradCache in milliseconds
    # (torch/_functorch/_aot_autograd/autograd_cache.py).
    for name, unit in (("time_saved_ns", 1e9), ("time_saved_ms", 1e3)):
        saved = values.get(name)
        if saved is not None:
            return float(saved) / unit
    return None
