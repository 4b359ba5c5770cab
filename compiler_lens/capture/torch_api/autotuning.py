"""Autotuning: the choices that Inductor and Triton timed, as plain data for events."""

from __future__ import annotations

import math
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
    fastest_first = sorted(timings.items(), key=lambda item: float(item[1]))
    return {
        "op": name,
        "inputs": [_input_text(node) for node in input_nodes],
        "choices": [
            [
                choice.name,
                _choice_kind(choice),
                _milliseconds(time),
                str(getattr(choice, "description", "") or "")[:300],
            ]
            for choice, time in fastest_first
        ],
        "seconds": seconds,
        "precompile_seconds": precompile,
    }


def _milliseconds(time: Any) -> float | None:
    return float(time) if math.isfinite(float(time)) else None


def _input_text(node: Any) -> str:
    dtype = str(node.get_dtype()).removeprefix("torch.")
    return f"{dtype}[{', '.join(map(str, node.get_size()))}]"


def _choice_kind(choice: Any) -> str:
    kind = type(choice).__name__
    for word in ("Extern", "Triton", "CUTLASS", "Cutlass", "CUDATemplate", "Cpp"):
        if word in kind:
            return "extern" if word == "Extern" else "template"
    return kind


def triton_configs(tuner: Any, timings: Any) -> dict[str, Any]:
    """Return the meta of a `lens.triton_configs` event, from a CachingAutotuner and its benchmark's result."""
    fastest = min(timings, key=lambda launcher: timings[launcher]) if timings else None
    rows = [_config_row(launcher, time, chosen=launcher is fastest) for launcher, time in timings.items()]
    return {"kernel": _kernel_name(tuner), "configs": rows, "backward": _is_backward(tuner)}


def descent_config(tuner: Any, launcher: Any) -> dict[str, Any]:
    """Return the same for where coordinate descent ended: chosen, and not timed for us."""
    row = _config_row(launcher, math.inf, chosen=True)
    return {"kernel": _kernel_name(tuner), "configs": [row], "backward": _is_backward(tuner)}


def _kernel_name(tuner: Any) -> str:
    return str(tuner.inductor_meta.get("kernel_name") or tuner.fn.__name__)


def _is_backward(tuner: Any) -> bool:
    return bool(getattr(tuner, "is_backward", False))


def compile_id_of(tuner: Any) -> str:
    """Return the compile id that a CachingAutotuner comes from: it runs at the first call, in no compilation."""
    return str(getattr(tuner, "compile_id", None) or "")


def _config_row(launcher: Any, time: Any, *, chosen: bool) -> dict[str, Any]:
    config = launcher.config
    return {
        "values": {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages},
        "milliseconds": _milliseconds(time),
        "registers": getattr(launcher, "n_regs", None),
        "spills": getattr(launcher, "n_spills", None),
        "shared_bytes": getattr(launcher, "shared", None),
        "chosen": chosen,
    }
