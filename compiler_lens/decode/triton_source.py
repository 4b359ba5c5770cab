"""What the decorator of a Triton kernel says of it: shape, device, configs, and what Inductor noted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compiler_lens.decode.kernel_language import (
    CallText,
    KernelDefinition,
    KernelText,
    LaunchText,
    SourceFacts,
    launched_by_name,
)
from compiler_lens.recording.model import KernelConfig

# The decorators are functions of torch/_inductor/runtime/triton_heuristics.py.
_DECORATOR = re.compile(r"@triton_heuristics\.(\w+)\((.*?)\n\)\n@triton\.jit", re.DOTALL)
_DEVICE = re.compile(r"DeviceProperties\(type='(\w+)', index=(\w+)")
# Literals of the decorator; what is worth keeping is flat: no brace within braces.
_PAIR = re.compile(r"'(\w+)': ('[^']*'|\{[^{}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{}\[\]]+)")
_SETTING = re.compile(r"^ *(\w+)=(\{[^{}]*\}|[\w.]+)", re.MULTILINE)
_KEPT = frozenset(
    (
        "size_hints", "reduction_hint", "num_warps", "num_stages", "matrix_instr_nonkdim", "waves_per_eu", "kpack",
        "num_consumer_groups", "num_buffers_warp_spec", "config", "config_args", "signature", "grid_type", "num_load",
        "num_store", "num_reduction", "kernel_num_gb", "kernel_flop", "no_x_dim", "atomic_add_found", "RSPLIT_SIZE",
        "persistent_reduction", "coordinate_descent_tuning", "mutated_arg_names", "autotune_hints", "tiling_scores",
    )
)  # fmt: skip
_USER_CONFIGS = re.compile(r"^\s*configs=\[(.*)\],$", re.MULTILINE)
_WORDS: Mapping[str, Any] = {"True": True, "False": False, "None": None, "set()": []}


def read_triton(text: KernelText) -> SourceFacts:
    """Read the decorator of a kernel that Inductor wrote, or of a template."""
    match = _DECORATOR.search(text.source)
    if match is None:
        return SourceFacts()
    decorator, header = match.groups()
    meta = _header_values(header)
    shape = decorator
    if decorator == "fixed_config":  # it stands in for the word that says the shape
        shape = "reduction" if meta.get("num_reduction") else "pointwise"
    device = _DEVICE.search(header)
    values = meta.pop("config", None)
    if decorator == "template" and "config_args" in meta:
        values = {**meta.pop("config_args"), **{key: meta[key] for key in ("num_warps", "num_stages") if key in meta}}
    configs = () if values is None else (KernelConfig(values, chosen=True),)
    return SourceFacts(shape, device_name(*device.groups()) if device else "", configs, meta)


def read_user_triton(text: KernelText) -> SourceFacts:
    """Read a user's own kernel: its shape is not known, its configs are those that it is tried with."""
    facts = read_triton(text)
    tried = _USER_CONFIGS.search(text.source)
    found = [printed_value(one) for one in re.findall(r"\{[^{}]*\}", tried[1])] if tried else []
    configs = tuple(KernelConfig(values, chosen=len(found) == 1) for values in found if values)
    return SourceFacts("", facts.device, facts.configs or configs, facts.meta)


def launched_triton(call: CallText, kernels: Mapping[str, KernelDefinition]) -> LaunchText:
    """Read a launch; where the grid is fixed it stands last: FixedGrid in _inductor/runtime/triton_heuristics.py."""
    launch = launched_by_name(call, kernels)
    if kernels[launch.kernel].facts.meta.get("grid_type") != "FixedGrid":
        return launch
    return LaunchText(launch.kernel, launch.arguments[:-3], f"({', '.join(launch.arguments[-3:])})")


def device_name(kind: str, index: str) -> str:
    """Return a device as torch prints it: `cuda:0`, or `cuda` where its index is not known."""
    return f"{kind}:{index}" if index.isdigit() else kind


def _header_values(header: str) -> dict[str, Any]:
    start = header.find("inductor_meta=")
    pairs = _PAIR.findall(header, max(start, 0))
    signature = _PAIR.findall(header, header.find("'signature'"))[:1]
    return {
        name: printed_value(text) for name, text in (*_SETTING.findall(header), *signature, *pairs) if name in _KEPT
    }


def printed_value(text: str) -> Any:
    """Return a printed literal's value: a scalar, a flat list or dict; an enum's member and anything else as text."""
    if text[0] in "{[(":
        if ":" in text and "'" in text:
            return {key: printed_value(value) for key, value in _PAIR.findall(text)}
        return [item.strip(" '<>") for item in text[1:-1].split(",") if item.strip()]
    if text[0] == "'":
        return text.strip("'")
    if text in _WORDS:
        return _WORDS[text]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text.rpartition(".")[2]
