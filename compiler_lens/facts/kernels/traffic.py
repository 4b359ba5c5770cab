"""How many bytes a launch moves: as the scheduler counted, or as its arguments in the output code show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from msgspec import Struct

from compiler_lens.facts.kernels.flops import positional
from compiler_lens.facts.kernels.kernels import is_generated
from compiler_lens.facts.kernels.lineage import op_packet
from compiler_lens.recording.ids import CodeId, LaunchId
from compiler_lens.recording.model import (
    DTYPE_BYTES,
    Graph,
    Kernel,
    KernelKind,
    Launch,
    Node,
    OutputCode,
    Recording,
    TensorSpec,
    Trust,
)


class Traffic(Struct, frozen=True):
    """Bytes between memory and one launch."""

    read: int
    written: int
    trust: Trust = Trust.EXACT  # TEXT: each argument counted whole, from the output code

    @property
    def bytes(self) -> int:
        """Both ways together."""
        return self.read + self.written


def launch_traffic(recording: Recording) -> dict[LaunchId, Traffic]:
    """Return for every launch what it moves; none where a size is symbolic or not recorded."""
    codes = {code.id: code for code in recording.output_codes}
    graphs = {graph.id: graph for graph in recording.graphs}
    scenes: dict[CodeId, _Scene] = {}
    found: dict[LaunchId, Traffic] = {}
    for kernel in recording.kernels:
        own = kernel.code_id
        if own not in scenes:
            scenes[own] = _scene(codes.get(own), graphs.get(own.graph))
        for index, launch in enumerate(kernel.launches):
            traffic = _counted(launch, scenes[own]) or _seen(kernel, launch, scenes[own])
            if traffic is not None:
                found[kernel.launch_id(index)] = traffic
    return found


class _Scene(Struct, frozen=True):
    specs: Mapping[str, TensorSpec]  # of buffers and inputs
    nodes: Mapping[str, Node]


def _scene(code: OutputCode | None, graph: Graph | None) -> _Scene:
    nodes = graph.nodes if graph else ()
    specs = {node.name: node.specs[0] for node in nodes if node.op == "placeholder" and node.specs}
    specs |= {buffer.name: buffer.spec for buffer in (code.buffers if code else ()) if buffer.spec is not None}
    return _Scene(specs, {node.name: node for node in nodes})


def _counted(launch: Launch, scene: _Scene) -> Traffic | None:
    accesses = (*launch.reads, *launch.writes)
    for access in accesses:
        # The scheduler counts a symbolic size as it was when it compiled: other calls have other sizes.
        spec = scene.specs.get(access.name)
        if spec is not None and any(isinstance(size, str) for size in spec.shape):
            return None
    read, written = (_sum([access.bytes for access in each]) for each in (launch.reads, launch.writes))
    return Traffic(read, written) if accesses and read is not None and written is not None else None


def _sum(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


# -- from the output code


def _seen(kernel: Kernel, launch: Launch, scene: _Scene) -> Traffic | None:
    if not is_generated(kernel):
        return _library(kernel, launch, scene)
    parameters = _parameters(kernel)
    reads: list[int | None] = []
    writes: list[int | None] = []
    for (name, dtype), argument in zip(parameters, launch.arguments, strict=False):
        if dtype:
            size = _size(argument, scene, dtype)
            # The names that Inductor gives: KernelArgs in torch/_inductor/codegen/common.py
            if name.startswith(("in_out_ptr", "out_ptr", "ws_ptr")):
                writes.append(size)
            if not name.startswith(("out_ptr", "ws_ptr")):
                reads.append(size)
    read, written = _sum(reads), _sum(writes)
    return Traffic(read, written, Trust.TEXT) if parameters and read is not None and written is not None else None


_POINTERS: Mapping[str, str] = {
    "*fp64": "f64", "*fp32": "f32", "*fp16": "f16", "*bf16": "bf16", "*i64": "i64", "*i32": "i32", "*i16": "i16",
    "*i8": "i8", "*i1": "b8", "*u8": "u8", "*fp8e4nv": "f8e4m3fn", "*fp8e5": "f8e5m2",
    "double": "f64", "float": "f32", "at::Half": "f16", "half": "f16", "at::BFloat16": "bf16", "bfloat16": "bf16",
    "int64_t": "i64", "int32_t": "i32", "int16_t": "i16", "int8_t": "i8", "uint8_t": "u8", "bool": "b8",
}  # fmt: skip
_CPP = re.compile(r'extern "C"[^(]*\bkernel\w*\(([^)]*)\)')
_CPP_PARAMETER = re.compile(r"(?:const\s+)?([\w:]+)\s*\*\s*(?:__restrict__\s+)?(\w+)")


def _parameters(kernel: Kernel) -> list[tuple[str, str]]:
    """Return name and type of each parameter of a kernel; the type is empty for what is not memory."""
    if kernel.kind is KernelKind.USER:  # its author names them as they like
        return []
    signature = kernel.meta.get("signature")
    if isinstance(signature, Mapping):
        return [(str(name), _POINTERS.get(str(kind), "")) for name, kind in signature.items()]
    declared = _CPP.search(kernel.source)
    found = []
    for one in declared[1].split(",") if declared else ():
        pointer = _CPP_PARAMETER.search(one)
        found.append((pointer[2], _POINTERS.get(pointer[1], "")) if pointer else (one, ""))
    return found


def _library(kernel: Kernel, launch: Launch, scene: _Scene) -> Traffic | None:
    """Count the arguments of a library's call as read, and its result as written."""
    names = [a for a in launch.arguments if (a.isidentifier() and a not in {"None", "True", "False"}) or _VIEW.match(a)]
    read = _sum([_size(name, scene) for name in names])
    out = next((a.removeprefix("out=") for a in launch.arguments if a.startswith("out=")), "")
    written = _size(out, scene) if out else _result(kernel, launch, scene)
    return None if read is None or written is None or not names else Traffic(read, written, Trust.TEXT)


def _result(kernel: Kernel, launch: Launch, scene: _Scene) -> int | None:
    op = kernel.name.removeprefix("torch.ops.").split(".")
    name = op[1] if len(op) > 1 else op[0]
    for node in (scene.nodes[one] for one in launch.nodes if one in scene.nodes):
        if op_packet(node.target).rpartition(".")[2] == name and node.specs:
            return _sum([spec.bytes for spec in node.specs])
    return None


_VIEW = re.compile(r"reinterpret_tensor\((\w+), \(([^)]*)\)")


def _size(argument: str, scene: _Scene, dtype: str = "") -> int | None:
    view = _VIEW.match(argument)
    spec = scene.specs.get(view[1] if view else argument)
    if spec is None:
        return None
    shape = [int(s) if s.isdigit() else s for s in positional(view[2])] if view else spec.shape
    known = [size for size in shape if isinstance(size, int)]
    width = DTYPE_BYTES.get(dtype or spec.dtype)
    return None if width is None or len(known) < len(shape) else int(prod(known) * width)
