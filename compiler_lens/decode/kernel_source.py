"""A kernel's definition in Inductor's output code: its source, and what the lines around the source tell of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler_lens.decode.op_names import ops_in_kernel_name
from compiler_lens.recording.model import KernelConfig, KernelKind


@dataclass(frozen=True, slots=True)
class KernelDefinition:
    """One `name = async_compile.<backend>(..., source)` of an output code. `source_nodes` are Dynamo's."""

    name: str
    line: int
    kind: KernelKind
    shape: str = ""
    source: str = ""
    nodes: tuple[str, ...] = ()
    aten: tuple[str, ...] = ()
    source_nodes: tuple[str, ...] = ()
    configs: tuple[KernelConfig, ...] = ()
    device: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def grid_arguments(self) -> int:
        """How many of a launch's last arguments are its grid: FixedGrid in _inductor/runtime/triton_heuristics.py."""
        return 3 if self.meta.get("grid_type") == "FixedGrid" else 0


# The methods of AsyncCompile in torch/_inductor/async_compile.py. "triton" says more in its decorator, "cpp_pybinding"
# in its includes. CUTLASS is `cuda` on 2.11, `cutlass`, `cuda` or `xpu` from 2.13 on.
_BACKENDS: Mapping[str, KernelKind] = {
    "triton": KernelKind.TRITON,
    "multi_kernel": KernelKind.TRITON,
    "size_hint_multi_kernel": KernelKind.TRITON,
    "cpp": KernelKind.CPP,
    "cpp_pybinding": KernelKind.CPP,
    "cuda": KernelKind.TEMPLATE,
    "xpu": KernelKind.TEMPLATE,
    "cutlass": KernelKind.TEMPLATE,
    "rocm": KernelKind.TEMPLATE,
    "cutedsl": KernelKind.TEMPLATE,
    "flydsl": KernelKind.TEMPLATE,
    "nv_universal_gemm": KernelKind.TEMPLATE,
}
# The decorators of torch/_inductor/runtime/triton_heuristics.py that say who wrote a Triton kernel.
_DECORATED: Mapping[str, KernelKind] = {
    "template": KernelKind.TEMPLATE,
    "foreach": KernelKind.FOREACH,
    "user_autotune": KernelKind.USER,
}

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

# get_kernel_metadata() in torch/_inductor/utils.py writes the comments, the same on 2.11, 2.13 and 2.15.
ORIGINS = re.compile(r"Source Nodes: \[(.*?)\], Original ATen: \[(.*)\]")
_FRAGMENT_NODE = re.compile(r"#   %(\w+) : .*?= call_\w+\[target=")
_NODE_MAPPING = re.compile(r"#   (\w+) => (.+)")


def definitions(tree: ast.Module, lines: Sequence[str]) -> Iterator[KernelDefinition]:
    """Every kernel that the module defines, in the order of its text."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            backend = _backend(statement.value)
            if backend and isinstance(statement.value, ast.Call):
                comments = _comments_above(lines, statement.lineno)
                yield _definition(statement.targets[0].id, backend, statement.value, comments)


def _backend(value: ast.expr) -> str:
    if not isinstance(value, ast.Call):
        return ""
    function = value.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.attr if function.value.id == "async_compile" else ""
    # codegen/mps.py defines its kernels without AsyncCompile
    return "metal" if isinstance(function, ast.Name) and function.id == "compile_mps_shader" else ""


def _comments_above(lines: Sequence[str], lineno: int) -> list[str]:
    first = lineno - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return list(lines[first : lineno - 1])


def _definition(name: str, backend: str, call: ast.Call, comments: Sequence[str]) -> KernelDefinition:
    strings = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    source = max(strings, key=len, default="") if "multi_kernel" not in backend else ""
    kind, shape, device, meta = _described(backend, source)
    if strings and strings[0] not in (name, source):
        meta["compiled_as"] = strings[0]  # without unique names: what triton and its tuning call it
    if "multi_kernel" in backend and len(call.args) > 1:
        meta["choices"] = [n.id for n in ast.walk(call.args[1]) if isinstance(n, ast.Name)]
    aten, source_nodes, nodes, mapping, path = _origins(comments)
    meta.update({k: v for k, v in (("source_nodes", mapping), ("path", path)) if v})
    if not aten and kind in (KernelKind.CPP, KernelKind.TEMPLATE):
        aten = ops_in_kernel_name(name)
    configs = _configs(kind, source, meta)
    return KernelDefinition(
        name, call.lineno, kind, shape, source.strip("\n"), nodes, aten, source_nodes, configs, device, meta
    )


def _described(backend: str, source: str) -> tuple[KernelKind, str, str, dict[str, Any]]:
    kind = _BACKENDS.get(backend, KernelKind.OTHER)
    if backend == "triton":
        return _described_by_decorator(source)
    if kind is KernelKind.CPP:
        return (*_described_by_cpp(source), "cpu", {})
    shape = "template" if kind is KernelKind.TEMPLATE else ""
    return kind, shape, "", {} if backend in ("multi_kernel", "cpp_pybinding") else {"backend": backend}


def _described_by_cpp(source: str) -> tuple[KernelKind, str]:
    # CppTemplate.header() in codegen/cpp_template.py includes it, no other C++ kernel does
    if "#include <c10/util/Unroll.h>" in source:
        return KernelKind.TEMPLATE, "template"
    # CppKernel.reduction_cse in codegen/cpp.py names every accumulator so
    return KernelKind.CPP, "reduction" if "tmp_acc" in source else "pointwise"


def _described_by_decorator(source: str) -> tuple[KernelKind, str, str, dict[str, Any]]:
    match = _DECORATOR.search(source)
    if match is None:
        return KernelKind.TRITON, "", "", {}
    decorator, header = match.groups()
    meta = _header_values(header)
    kind = _DECORATED.get(decorator, KernelKind.TRITON)
    shape = "" if kind is KernelKind.USER else decorator
    if decorator == "fixed_config":  # it stands in for the word that tells the shape
        shape = "reduction" if meta.get("num_reduction") else "pointwise"
    device = _DEVICE.search(header)
    return kind, shape, device_name(*device.groups()) if device else "", meta


def device_name(kind: str, index: str) -> str:
    """A device as torch prints it: `cuda:0`, or `cuda` where its index is not known."""
    return f"{kind}:{index}" if index.isdigit() else kind


def _header_values(header: str) -> dict[str, Any]:
    start = header.find("inductor_meta=")
    pairs = _PAIR.findall(header, max(start, 0))
    signature = _PAIR.findall(header, header.find("'signature'"))[:1]
    return {
        name: printed_value(text) for name, text in (*_SETTING.findall(header), *signature, *pairs) if name in _KEPT
    }


def printed_value(text: str) -> Any:
    """A printed literal as its value: a scalar, a flat list or dict; an enum's member and anything else as text."""
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


_WORDS: Mapping[str, Any] = {"True": True, "False": False, "None": None, "set()": []}


def _configs(kind: KernelKind, source: str, meta: dict[str, Any]) -> tuple[KernelConfig, ...]:
    if kind is KernelKind.TEMPLATE and "config_args" in meta:
        values = {**meta.pop("config_args"), **{key: meta[key] for key in ("num_warps", "num_stages") if key in meta}}
        return (KernelConfig(values, chosen=True),)
    if "config" in meta:
        return (KernelConfig(meta.pop("config"), chosen=True),)
    tried = _USER_CONFIGS.search(source) if kind is KernelKind.USER else None
    if tried is None:
        return ()
    found = [printed_value(text) for text in re.findall(r"\{[^{}]*\}", tried[1])]
    return tuple(KernelConfig(values, chosen=len(found) == 1) for values in found if values)


def _origins(comments: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], dict[str, Any], str]:
    aten: tuple[str, ...] = ()
    source_nodes: tuple[str, ...] = ()
    nodes: dict[str, None] = {}
    mapping: dict[str, list[str]] = {}
    path = ""
    for comment in comments:
        if node := _FRAGMENT_NODE.match(comment):
            nodes[node[1]] = None
        elif origin := _NODE_MAPPING.match(comment):
            mapping[origin[1]] = origin[2].split(", ")
        elif listed := ORIGINS.search(comment):
            source_nodes, aten = names(listed[1]), names(listed[2])
        elif comment.startswith("# Original path: "):  # of a user's Triton kernel
            path = comment.removeprefix("# Original path: ")
    return aten, source_nodes, tuple(nodes), mapping, path


def names(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list."""
    return tuple(text.split(", ")) if text else ()
