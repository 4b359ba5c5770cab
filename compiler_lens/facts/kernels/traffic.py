"""How many bytes a launch moves: as the scheduler told, else as its arguments in the output code let one see."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler_lens.facts.kernels.flops import op_packet, positional
from compiler_lens.facts.kernels.kernels import is_generated
from compiler_lens.recording.ids import CodeId, LaunchId
from compiler_lens.recording.model import (
    DTYPE_BYTES,
    BufferAccess,
    Kernel,
    KernelKind,
    Launch,
    Node,
    OutputCode,
    Recording,
    TensorSpec,
    Trust,
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes between memory and one launch."""

    read: int
    written: int
    trust: Trust = Trust.EXACT  # TEXT: each argument counted whole, from the output code

    @property
    def bytes(self) -> int:
        """Both ways together."""
        return self.read + self.written


def launch_traffic(recording: Recording) -> dict[LaunchId, Traffic]:
    """For every launch what it moves; none where a size is symbolic or not recorded."""
    codes = {code.id: code for code in recording.output_codes}
    graphs = {graph.id: graph for graph in recording.graphs}
    scenes: dict[CodeId, _Scene] = {}
    found: dict[LaunchId, Traffic] = {}
    for kernel in recording.kernels:
        own = kernel.code_id
        if own not in scenes:
            graph = graphs.get(own.graph)
            nodes = {node.name: node for node in graph.nodes} if graph else {}
            scenes[own] = _Scene(_specs(codes.get(own), nodes), nodes)
        scene = scenes[own]
        for index, launch in enumerate(kernel.launches):
            traffic = _told(launch, scene) or _seen(kernel, launch, scene)
            if traffic is not None:
                found[kernel.launch_id(index)] = traffic
    return found


@dataclass(frozen=True, slots=True)
class _Scene:
    specs: Mapping[str, TensorSpec]  # of buffers and inputs
    nodes: Mapping[str, Node]


def _specs(code: OutputCode | None, nodes: Mapping[str, Node]) -> Mapping[str, TensorSpec]:
    found = {n.name: n.specs[0] for n in nodes.values() if n.op == "placeholder" and n.specs}
    return found | {b.name: b.spec for b in (code.buffers if code else ()) if b.spec is not None}


def _told(launch: Launch, scene: _Scene) -> Traffic | None:
    accesses = (*launch.reads, *launch.writes)
    # The scheduler counts a symbolic size as it was when it compiled: other calls have other sizes.
    if not accesses or any(_is_symbolic(scene.specs.get(access.name)) for access in accesses):
        return None
    read, written = _total(launch.reads), _total(launch.writes)
    return None if read is None or written is None else Traffic(read, written)


def _is_symbolic(spec: TensorSpec | None) -> bool:
    return spec is not None and any(isinstance(size, str) for size in spec.shape)


def _total(accesses: Iterable[BufferAccess]) -> int | None:
    return _sum([access.bytes for access in accesses])


def _sum(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


# -- from the output code


def _seen(kernel: Kernel, launch: Launch, scene: _Scene) -> Traffic | None:
    if not is_generated(kernel):
        return _library(kernel, launch, scene)
    parameters = _parameters(kernel)
    sizes: dict[str, list[int | None]] = defaultdict(list)
    for (name, dtype), argument in zip(parameters, launch.arguments, strict=False):
        if dtype:
            size = _size(argument, scene, dtype)
            for way in _ways(name):
                sizes[way].append(size)
    read, written = _sum(sizes["read"]), _sum(sizes["written"])
    return Traffic(read, written, Trust.TEXT) if parameters and read is not None and written is not None else None


def _ways(parameter: str) -> tuple[str, ...]:
    # The names that Inductor gives: KernelArgs in torch/_inductor/codegen/common.py
    if parameter.startswith("in_out_ptr"):
        return ("read", "written")
    return ("written",) if parameter.startswith(("out_ptr", "ws_ptr")) else ("read",)


_POINTERS: Mapping[str, str] = {
    "*fp64": "f64", "*fp32": "f32", "*fp16": "f16", "*bf16": "bf16", "*i64": "i64", "*i32": "i32", "*i16": "i16",
    "*i8": "i8", "*i1": "b8", "*u8": "u8", "*fp8e4nv": "f8e4m3fn", "*fp8e5": "f8e5m2",
    "double": "f64", "float": "f32", "at::Half": "f16", "half": "f16", "at::BFloat16": "bf16", "bfloat16": "bf16",
    "int64_t": "i64", "int32_t": "i32", "int16_t": "i16", "int8_t": "i8", "uint8_t": "u8", "bool": "b8",
}  # fmt: skip
_CPP = re.compile(r'extern "C"[^(]*\bkernel\w*\(([^)]*)\)')
_CPP_PARAMETER = re.compile(r"(?:const\s+)?([\w:]+)\s*\*\s*(?:__restrict__\s+)?(\w+)")


def _parameters(kernel: Kernel) -> list[tuple[str, str]]:
    """Name and type of each parameter of a kernel; the type is empty for what is no memory."""
    if kernel.kind is KernelKind.USER:  # its author names them as they like
        return []
    signature = kernel.meta.get("signature")
    if isinstance(signature, Mapping):
        return [(str(name), _POINTERS.get(str(kind), "")) for name, kind in signature.items()]
    declared = _CPP.search(kernel.source)
    return [_cpp_parameter(one) for one in declared[1].split(",")] if declared else []


def _cpp_parameter(declared: str) -> tuple[str, str]:
    found = _CPP_PARAMETER.search(declared)
    return (found[2], _POINTERS.get(found[1], "")) if found else (declared, "")


def _library(kernel: Kernel, launch: Launch, scene: _Scene) -> Traffic | None:
    """What a library reads are its arguments, and what it writes is its result."""
    sizes = [_size(argument, scene) for argument in launch.arguments if _is_memory(argument)]
    out = next((a.removeprefix("out=") for a in launch.arguments if a.startswith("out=")), "")
    written = _size(out, scene) if out else _result(kernel, launch, scene)
    read = _sum(sizes)
    return None if read is None or written is None or not sizes else Traffic(read, written, Trust.TEXT)


def _result(kernel: Kernel, launch: Launch, scene: _Scene) -> int | None:
    op = kernel.name.removeprefix("torch.ops.").split(".")
    name = op[1] if len(op) > 1 else op[0]
    for node in _named(launch, scene):
        if op_packet(node.target).rpartition(".")[2] == name and node.specs:
            return _sum([spec.bytes for spec in node.specs])
    return None


def _named(launch: Launch, scene: _Scene) -> Iterator[Node]:
    return (scene.nodes[name] for name in launch.nodes if name in scene.nodes)


_VIEW = re.compile(r"reinterpret_tensor\((\w+), \(([^)]*)\)")


def _is_memory(argument: str) -> bool:
    is_name = argument.isidentifier() and argument not in {"None", "True", "False"}
    return is_name or bool(_VIEW.match(argument))


def _size(argument: str, scene: _Scene, dtype: str = "") -> int | None:
    view = _VIEW.match(argument)
    spec = scene.specs.get(view[1] if view else argument)
    if spec is None:
        return None
    shape = [int(s) if s.isdigit() else s for s in positional(view[2])] if view else spec.shape
    known = [size for size in shape if isinstance(size, int)]
    width = DTYPE_BYTES.get(dtype or spec.dtype)
    return None if width is None or len(known) < len(shape) else int(prod(known) * width)
