"""What was tried before a kernel was chosen: max-autotune's choices for an op, a Triton kernel's configs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from compiler_lens.decode.facts import TritonTuning
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import AutotuneChoice, AutotuneResult, CompileId, KernelKind


def read_autotune(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[AutotuneResult, ...]:
    """What max-autotune timed for one op: the fastest choice first, those that failed last."""
    meta = event.meta
    try:
        choices = sorted((_choice(row) for row in meta["choices"]), key=_speed)
        op, inputs = str(meta["op"]), tuple(map(str, meta["inputs"]))
    except (KeyError, TypeError, ValueError) as error:
        raise PayloadError(f"an autotuning of an unknown shape: {error!r}") from error
    seconds, precompile = meta.get("seconds"), meta.get("precompile_seconds")
    return (AutotuneResult(compile_id, op, inputs, tuple(choices), seconds, precompile, event.cached),)


_KINDS: Mapping[str, KernelKind] = {kind.value: kind for kind in KernelKind}


def _choice(row: Sequence[Any]) -> AutotuneChoice:
    name, kind, milliseconds, detail = row
    return AutotuneChoice(str(name), _KINDS.get(kind, KernelKind.TEMPLATE), milliseconds, str(detail))


def _speed(choice: AutotuneChoice) -> float:
    return float("inf") if choice.milliseconds is None else choice.milliseconds


def read_triton_configs(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[TritonTuning, ...]:
    """The configs that a Triton kernel was timed with, as our hook saw it."""
    try:
        configs = tuple(dict(row) for row in event.meta["configs"])
        kernel, backward = str(event.meta["kernel"]), event.meta.get("backward")
        return (TritonTuning(compile_id, kernel, configs, event.cached, backward=backward),)
    except (KeyError, TypeError, ValueError) as error:
        raise PayloadError(f"triton configs of an unknown shape: {error!r}") from error


# check_autotune_cache() in torch/_inductor/runtime/triton_heuristics.py writes these keys. The third is where
# coordinate descent started, not where it ended.
_CONFIG_KEYS: Mapping[str, bool] = {"only_config": True, "best_config": True, "coordesc_tuning_start_config": False}


def read_triton_kernel_info(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[TritonTuning, ...]:
    """What torch tells of each Triton kernel of one output code: compile time, tuning cache, an only config."""
    try:
        kernels = json.loads(event.text or "")
        return tuple(_kernel_info(compile_id, str(name), dict(info)) for name, info in kernels.items())
    except (AttributeError, TypeError, ValueError) as error:
        raise PayloadError(f"triton_kernel_info of an unknown shape: {error!r}") from error


def _kernel_info(compile_id: CompileId, kernel: str, info: dict[str, Any]) -> TritonTuning:
    configs = [
        {"values": dict(info[key]), "chosen": chosen}
        for key, chosen in _CONFIG_KEYS.items()
        if info.get(key) is not None
    ]
    known = {key: value for key, value in info.items() if key not in _CONFIG_KEYS}
    return TritonTuning(compile_id, kernel, tuple(configs), info=known or {"autotune_cache_state": "unknown"})
