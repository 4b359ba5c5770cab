"""What was tried before a kernel was chosen: max-autotune's choices for an op, a Triton kernel's configs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.decode.shared_text import EACH_ITS_OWN, Texts
from compiler_lens.recording.event import Event
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import NO_COMPILATION, CompileId, Direction
from compiler_lens.recording.model import AutotuneChoice, AutotuneResult, Kernel, KernelConfig, KernelKind
from compiler_lens.recording.shape import Figure, Scalar, read_json, shaped


class TritonTuning(Struct, frozen=True):
    """The configs that a Triton kernel was tried with, or the one it was given."""

    compile_id: CompileId
    kernel: str
    configs: tuple[KernelConfig, ...]
    cached: bool = False
    # What torch's triton_kernel_info says; empty: our hook's word.
    info: Mapping[str, Any] = field(default_factory=dict)
    backward: bool | None = None  # whether the kernel is a backward's; None where nobody said


_KINDS: Mapping[str, KernelKind] = {kind.value: kind for kind in KernelKind}


class _Autotuning(Struct, frozen=True):
    op: str
    inputs: tuple[str, ...]
    choices: tuple[tuple[str, str, Figure | None, str], ...]  # name, kind, milliseconds, details
    seconds: Figure | None = None
    precompile_seconds: Figure | None = None


def read_autotune(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[AutotuneResult, ...]:
    """Read what max-autotune timed for one op: the fastest choice first, those that failed last."""
    told = shaped(_Autotuning, event.meta)
    choices = [
        AutotuneChoice(name, _KINDS.get(kind, KernelKind.TEMPLATE), milliseconds, detail)
        for name, kind, milliseconds, detail in told.choices
    ]
    choices.sort(key=_speed)
    seconds, precompile = told.seconds, told.precompile_seconds
    return (AutotuneResult(compile_id, told.op, told.inputs, tuple(choices), seconds, precompile, event.cached),)


class _Configs(Struct, frozen=True):
    kernel: str
    configs: tuple[KernelConfig, ...]
    backward: bool | None = None


def read_triton_configs(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[TritonTuning, ...]:
    """Read the configs that a Triton kernel was timed with, as our hook saw it."""
    told = shaped(_Configs, event.meta)
    return (TritonTuning(compile_id, told.kernel, told.configs, event.cached, backward=told.backward),)


# check_autotune_cache() in torch/_inductor/runtime/triton_heuristics.py writes these keys. The third is where
# coordinate descent started, not where it ended.
_Pairs = tuple[tuple[str, Scalar], ...]
_CONFIG_KEYS: Mapping[str, bool] = {"only_config": True, "best_config": True, "coordesc_tuning_start_config": False}


def read_triton_kernel_info(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[TritonTuning, ...]:
    """Return what torch says of each Triton kernel of one output code: compile time, tuning cache, an only config."""
    tunings = texts.read(read_info, event.text or "")
    return tuple(replace(tuning, compile_id=compile_id) for tuning in tunings)


def read_info(text: str) -> tuple[TritonTuning, ...]:
    """Read what torch says of Triton kernels, as of no compilation."""
    tunings = []
    for kernel, info in read_json(dict[str, dict[str, Any]], text).items():
        configs = []
        for key, chosen in _CONFIG_KEYS.items():
            if info.get(key) is not None:
                configs.append(KernelConfig(dict(shaped(_Pairs, info[key])), chosen=chosen))
        known = shaped(dict[str, Scalar], {key: value for key, value in info.items() if key not in _CONFIG_KEYS})
        known = known or {"autotune_cache_state": "unknown"}
        tunings.append(TritonTuning(NO_COMPILATION, kernel, tuple(configs), info=known))
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
    timed = [config for tuning in tunings if not tuning.info for config in tuning.configs]
    known = [config for tuning in tunings if tuning.info for config in tuning.configs]
    configs = _configs(timed) or kernel.configs or _configs(known)  # a template's source says more than torch's log
    # CachingAutotuner.run() in torch/_inductor/runtime/triton_heuristics.py goes on from the fastest of the configs, so
    # that one is not what runs. A config chosen without a time is the hook's word on where the descent ended.
    descended = bool(kernel.meta.get("coordinate_descent_tuning")) and kernel.kind is KernelKind.TRITON
    if timed and descended and not any(each.chosen and each.milliseconds is None for each in timed):
        configs = tuple(replace(config, chosen=False) for config in configs)
    info = {key: value for tuning in tunings for key, value in tuning.info.items()}
    return replace(kernel, configs=configs, meta={**kernel.meta, **info})


def _configs(told: Sequence[KernelConfig]) -> tuple[KernelConfig, ...]:
    """Each config once: of those that came twice the later timing holds, if it has one, and the later choice."""
    by_values: dict[tuple[tuple[str, str], ...], KernelConfig] = {}
    for config in told:
        key = tuple(sorted((name, str(value)) for name, value in config.values.items()))
        if config.milliseconds is not None or key not in by_values:
            by_values[key] = config
    chosen = next((config.values for config in reversed(told) if config.chosen), None)
    configs = [replace(config, chosen=config.values == chosen) for config in by_values.values()]
    return tuple(sorted(configs, key=_speed))


def _speed(timed: AutotuneChoice | KernelConfig) -> float:
    return inf if timed.milliseconds is None else timed.milliseconds
