"""What was tried before a kernel was chosen: max-autotune's choices for an op, a Triton kernel's configs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.recording.errors import reading
from compiler_lens.recording.event import Event
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import CompileId, Direction
from compiler_lens.recording.model import AutotuneChoice, AutotuneResult, Kernel, KernelConfig, KernelKind


class TritonTuning(Struct, frozen=True):
    """The configs that a Triton kernel was tried with, or the one it was given."""

    compile_id: CompileId
    kernel: str
    configs: tuple[Mapping[str, Any], ...]  # values, milliseconds, registers, spills, shared_bytes, chosen
    cached: bool = False
    # What torch's triton_kernel_info says; empty: our hook's word.
    info: Mapping[str, Any] = field(default_factory=dict)
    backward: bool | None = None  # whether the kernel is a backward's; None where nobody said


_KINDS: Mapping[str, KernelKind] = {kind.value: kind for kind in KernelKind}


def read_autotune(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[AutotuneResult, ...]:
    """Read what max-autotune timed for one op: the fastest choice first, those that failed last."""
    meta = event.meta
    with reading("an autotuning"):
        choices = []
        for name, kind, milliseconds, detail in meta["choices"]:
            known = _KINDS.get(kind, KernelKind.TEMPLATE)
            choices.append(AutotuneChoice(str(name), known, milliseconds, str(detail)))
        choices.sort(key=_speed)
        op, inputs = str(meta["op"]), tuple(map(str, meta["inputs"]))
    seconds, precompile = meta.get("seconds"), meta.get("precompile_seconds")
    return (AutotuneResult(compile_id, op, inputs, tuple(choices), seconds, precompile, event.cached),)


def read_triton_configs(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[TritonTuning, ...]:
    """Read the configs that a Triton kernel was timed with, as our hook saw it."""
    with reading("triton configs"):
        configs = tuple(dict(row) for row in event.meta["configs"])
        kernel, backward = str(event.meta["kernel"]), event.meta.get("backward")
        return (TritonTuning(compile_id, kernel, configs, event.cached, backward=backward),)


# check_autotune_cache() in torch/_inductor/runtime/triton_heuristics.py writes these keys. The third is where
# coordinate descent started, not where it ended.
_CONFIG_KEYS: Mapping[str, bool] = {"only_config": True, "best_config": True, "coordesc_tuning_start_config": False}


def read_triton_kernel_info(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[TritonTuning, ...]:
    """Return what torch says of each Triton kernel of one output code: compile time, tuning cache, an only config."""
    with reading("triton_kernel_info"):
        tunings = []
        for kernel, values in json.loads(event.text or "").items():
            info, configs = dict(values), []
            for key, chosen in _CONFIG_KEYS.items():
                if info.get(key) is not None:
                    configs.append({"values": dict(info[key]), "chosen": chosen})
            known = {key: value for key, value in info.items() if key not in _CONFIG_KEYS}
            known = known or {"autotune_cache_state": "unknown"}
            tunings.append(TritonTuning(compile_id, str(kernel), tuple(configs), info=known))
        return tuple(tunings)


# -- joined with kernels


def with_tunings(kernels: Sequence[Kernel], tunings: Iterable[TritonTuning]) -> tuple[Kernel, ...]:
    """Return the same kernels with the configs that they were tried with."""
    # Forward and backward may have kernels of one name, and torch does not say which one it means: they are tuned in
    # the order in which they were compiled.
    named: dict[tuple[CompileId, str, bool | None], list[int]] = defaultdict(list)
    for index, kernel in enumerate(kernels):
        for name in {kernel.name, str(kernel.meta.get("compiled_as", kernel.name))}:
            for backward in (None, kernel.direction is Direction.BACKWARD):
                named[kernel.compile_id, name, backward].append(index)
    groups = grouped(tunings, lambda each: (bool(each.info), (each.compile_id, each.kernel, each.backward)))
    found: dict[int, list[TritonTuning]] = defaultdict(list)
    for (_, key), entries in groups.items():
        indices = named.get(key, [])
        if len(indices) == 1:
            found[indices[0]] += entries
        elif len(indices) == len(entries):
            for index, entry in zip(indices, entries, strict=True):
                found[index].append(entry)
    return tuple(_tuned(kernel, found[index]) if index in found else kernel for index, kernel in enumerate(kernels))


def _tuned(kernel: Kernel, tunings: Sequence[TritonTuning]) -> Kernel:
    timed = [row for tuning in tunings if not tuning.info for row in tuning.configs]
    known = [row for tuning in tunings if tuning.info for row in tuning.configs]
    configs = _configs(timed) or kernel.configs or _configs(known)  # a template's source says more than torch's log
    # CachingAutotuner.run() in torch/_inductor/runtime/triton_heuristics.py goes on from the fastest of the configs, so
    # that one is not what runs. A config chosen without a time is the hook's word on where the descent ended.
    descended = bool(kernel.meta.get("coordinate_descent_tuning")) and kernel.kind is KernelKind.TRITON
    if timed and descended and not any(row.get("chosen") and row.get("milliseconds") is None for row in timed):
        configs = tuple(replace(config, chosen=False) for config in configs)
    info = {key: value for tuning in tunings for key, value in tuning.info.items()}
    return replace(kernel, configs=configs, meta={**kernel.meta, **info})


def _configs(rows: Sequence[Mapping[str, Any]]) -> tuple[KernelConfig, ...]:
    """Each config once: of those that came twice the later timing holds, if it has one, and the later choice."""
    by_values: dict[tuple[tuple[str, str], ...], Mapping[str, Any]] = {}
    for row in rows:
        key = tuple(sorted((name, str(value)) for name, value in row["values"].items()))
        if row.get("milliseconds") is not None or key not in by_values:
            by_values[key] = row
    chosen = next((row["values"] for row in reversed(rows) if row.get("chosen")), None)
    configs = []
    for row in by_values.values():
        measured = {name: row.get(name) for name in ("milliseconds", "registers", "spills", "shared_bytes")}
        configs.append(KernelConfig(dict(row["values"]), **measured, chosen=row["values"] == chosen))
    return tuple(sorted(configs, key=_speed))


def _speed(timed: AutotuneChoice | KernelConfig) -> float:
    return inf if timed.milliseconds is None else timed.milliseconds
