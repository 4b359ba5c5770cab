"""Autotuning: the choices that Inductor and Triton timed, as plain data for events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from compiler_lens.capture.torch_api.places import Place

CHOICES = Place(
    "torch._inductor.select_algorithm",
    "AlgorithmSelectorCache.log_results",
    "autotuning tables",
    ("name", "input_nodes", "timings", "elapse", "precompile_elapse"),
)
_TUNER = "torch._inductor.runtime.triton_heuristics"
TRITON_CONFIGS = Place(_TUNER, "CachingAutotuner.benchmark_all_configs", "timings of Triton configs", ("self",))
TRITON_DESCENT = Place(
    _TUNER,
    "CachingAutotuner.coordinate_descent_tuning",
    "the Triton configs that coordinate descent ends at",
    ("self",),
)


def choices_table(name: str, input_nodes: Any, timings: Any, seconds: float, precompile: float) -> dict[str, Any]:
    """Return the meta of a `lens.autotune` event, from the arguments of AlgorithmSelectorCache.log_results()."""
    sizes = [", ".join(map(str, node.get_size())) for node in input_nodes]
    types = [str(node.get_dtype()).removeprefix("torch.") for node in input_nodes]
    choices: list[list[Any]] = []
    for choice, time in sorted(timings.items(), key=lambda item: float(item[1])):
        text = str(getattr(choice, "description", "") or "")[:300]
        choices.append([choice.name, _choice_kind(choice), _milliseconds(time), text])
    return {
        "op": name,
        "inputs": [f"{dtype}[{size}]" for dtype, size in zip(types, sizes, strict=True)],
        "choices": choices,
        "seconds": seconds,
        "precompile_seconds": precompile,
    }


def _milliseconds(time: Any) -> float | None:
    return float(time) if math.isfinite(float(time)) else None


def _choice_kind(choice: Any) -> str:
    kind = type(choice).__name__
    for word in ("Extern", "Triton", "CUTLASS", "Cutlass", "CUDATemplate", "Cpp"):
        if word in kind:
            return "extern" if word == "Extern" else "template"
    return kind


def triton_configs(tuner: Any, result: Any) -> dict[str, Any]:
    """Return the meta of a `lens.triton_configs` event, from a CachingAutotuner and what it came to.

    That is a benchmark's timings of launchers, or the launcher that coordinate descent ended at: chosen, and not timed
    for us.
    """
    timings = list(result.items()) if isinstance(result, Mapping) else [(result, math.inf)]
    fastest = min(timings, key=lambda pair: pair[1])[0] if timings else None
    rows: list[dict[str, Any]] = []
    for launcher, time in timings:
        config = launcher.config
        row = {
            "values": {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages},
            "milliseconds": _milliseconds(time),
            "registers": getattr(launcher, "n_regs", None),
            "spills": getattr(launcher, "n_spills", None),
            "shared_bytes": getattr(launcher, "shared", None),
            "chosen": launcher is fastest,
        }
        rows.append(row)
    kernel = str(tuner.inductor_meta.get("kernel_name") or tuner.fn.__name__)
    return {"kernel": kernel, "configs": rows, "backward": bool(getattr(tuner, "is_backward", False))}


def compile_id_of(tuner: Any) -> str:
    """Return the compile id that a CachingAutotuner comes from: it runs at the first call, in no compilation."""
    return str(getattr(tuner, "compile_id", None) or "")
