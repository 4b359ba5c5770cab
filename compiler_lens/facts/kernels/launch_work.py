"""How much a launch computes and moves: floating-point operations of its nodes, and bytes between it and memory.

Operations are counted as `torch.utils.flop_counter` does: a multiplication and an addition are two, a mask or causality
saves none, and only what multiplies matrices counts; library calls and filled-in templates do. Bytes are those that the
scheduler counted, or else what the arguments in the output code show.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache, partial
from math import prod

from msgspec import Struct

from compiler_lens.facts.kernels.lineage import is_generated, op_packet
from compiler_lens.recording.ids import CodeId, CompileId, GraphId, LaunchId
from compiler_lens.recording.model import DTYPE_BYTES, Kernel, KernelKind, Launch, Node, Recording, TensorSpec, Trust

Shape = tuple[int, ...]


class Work(Struct, frozen=True):
    """Operations, and the type of the numbers that are multiplied."""

    flops: int
    dtype: str  # "bf16"


class Traffic(Struct, frozen=True):
    """Bytes between memory and one launch."""

    read: int
    written: int
    trust: Trust = Trust.EXACT  # TEXT: each argument counted whole, from the output code

    @property
    def bytes(self) -> int:
        """Both ways together."""
        return self.read + self.written


# -- operations


class _Unknown(Exception):  # noqa: N818 -- never leaves this file
    """A size is symbolic, or is not recorded."""


class _Call(Struct, frozen=True):
    node: Node
    nodes: Mapping[str, Node]
    arguments: Sequence[str]  # positional, as printed

    def shape(self, index: int | None = None) -> Shape:
        """Return the shape of an argument, by its position; without one, of the result."""
        node = self.node if index is None else self.nodes.get(self.arguments[index])
        if node is None or not node.specs:
            raise _Unknown
        sizes = node.specs[0].shape
        known = tuple(size for size in sizes if isinstance(size, int))
        if len(known) < len(sizes):
            raise _Unknown
        return known


def node_work(node: Node, nodes: Mapping[str, Node]) -> Work | None:
    """Return what a node computes; None if it multiplies no matrices, or where a size is symbolic or not recorded."""
    op = op_packet(node.target)
    formula = _FORMULAS.get(op)
    if formula is None:
        return None
    call = _Call(node, nodes, positional(node.arguments))
    try:
        flops = formula(call)
    except (_Unknown, IndexError, ValueError):
        return None
    factor = nodes.get(call.arguments[1 if op in _TOTAL_FIRST else 0])
    return Work(flops, factor.specs[0].dtype if factor and factor.specs else "")


def launch_work(recording: Recording) -> dict[LaunchId, Work]:
    """Return how much every launch that multiplies matrices computes.

    Each node counts for the first launch that names it: later ones name it as where their inputs came from.
    """
    kernels: dict[GraphId, list[Kernel]] = defaultdict(list)
    for kernel in recording.kernels:
        # A kernel of another kind only names what came before it.
        if not is_generated(kernel) or kernel.kind in {KernelKind.TEMPLATE, KernelKind.OTHER}:
            kernels[kernel.code_id.graph].append(kernel)
    found: dict[LaunchId, Work] = {}
    for graph in recording.graphs:
        if graph.id not in kernels:
            continue
        nodes = {node.name: node for node in graph.nodes}
        works = {node.name: work for node in graph.nodes if (work := node_work(node, nodes)) is not None}
        own = kernels[graph.id] if works else ()
        launches = [(launch, kernel, index) for kernel in own for index, launch in enumerate(kernel.launches)]
        for launch, kernel, index in sorted(launches, key=lambda each: each[0].line):
            for name in launch.nodes or (kernel.nodes if len(kernel.launches) == 1 else ()):
                work = works.pop(name, None)
                if work is not None:
                    known = found.get(kernel.launch_id(index))
                    found[kernel.launch_id(index)] = Work(work.flops + known.flops, known.dtype) if known else work
    return found


def dtypes_multiplied(recording: Recording, ids: Container[CompileId]) -> tuple[str, ...]:
    """Return the types of numbers whose matrices these compilations multiply, the most work first."""
    total: dict[str, int] = defaultdict(int)
    for launch, work in launch_work(recording).items():
        if launch.code.compile_id in ids:
            total[work.dtype] += work.flops
    return tuple(sorted(total, key=lambda dtype: -total[dtype]))


_TOKEN = re.compile(r"[\[\](){},=]")


def positional(printed: str) -> list[str]:
    """Return the positional arguments of a printed call."""
    found: list[str] = []
    depth = start = 0
    for token in _TOKEN.finditer(printed):
        sign = token[0]
        if sign in "[({":
            depth += 1
        elif sign in "])}":
            depth -= 1
        elif depth == 0 and sign == "=":
            return found
        elif depth == 0:
            found.append(printed[start : token.start()].strip())
            start = token.end()
    last = printed[start:].strip()
    return [*found, last] if last else found


def _product(call: _Call, first: int = 0) -> int:
    """Return the operations for two stacks of matrices, (…, m, k) and (…, k, n)."""
    *batch, m, k = call.shape(first)
    return 2 * prod(batch) * m * k * call.shape(first + 1)[-1]


def _linear(call: _Call) -> int:
    # The weight may be packed, and then has any shape.
    return 2 * prod(call.shape()) * call.shape(0)[-1]


def _conv(x: Shape, weight: Shape, out: Shape, *, transposed: bool) -> int:
    return 2 * x[0] * prod((x if transposed else out)[2:]) * prod(weight)


def _convolution(call: _Call, *, transposed: bool | None = None) -> int:
    if transposed is None:
        transposed = len(call.arguments) > 6 and call.arguments[6] == "True"  # noqa: PLR2004
    return _conv(call.shape(0), call.shape(1), call.shape(), transposed=transposed)


def _convolution_backward(call: _Call) -> int:
    out, x, weight = call.shape(0), call.shape(1), call.shape(2)
    transposed, mask = call.arguments[7] == "True", call.arguments[10].strip("[]() ").split(",")
    # Each gradient multiplies as often as the forward; with groups too, where torch's counter has it wrong.
    wanted = sum(one.strip() == "True" for one in mask[:2])
    return wanted * _conv(x, weight, out, transposed=transposed)


def _attention(call: _Call) -> int:
    (b, h, q, d), k, v = call.shape(0), call.shape(1), call.shape(2)
    return 2 * b * h * q * k[2] * (d + v[3])


def _attention_backward(call: _Call) -> int:
    # The gradient of the result comes first: scores once more, then three products with d, two with the values' size.
    (b, h, q, d), k, v = call.shape(1), call.shape(2), call.shape(3)
    return 2 * b * h * q * k[2] * (3 * d + 2 * v[3])


_TOTAL_FIRST = frozenset(("aten.addmm", "aten.baddbmm"))  # what is added to stands before the factors
_ATTENTIONS = (
    "flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable",
    "flash_attention_for_cpu",
)  # fmt: skip
_OPS: Mapping[Callable[[_Call], int], tuple[str, ...]] = {
    _product: ("aten.mm", "aten._int_mm", "aten._scaled_mm", "aten.bmm"),
    partial(_product, first=1): ("aten.addmm", "aten.baddbmm"),
    _linear: ("aten.linear", "mkldnn._linear_pointwise", "mkl._mkl_linear", "onednn.qlinear_pointwise"),
    _convolution: ("aten.convolution", "aten._convolution"),
    partial(_convolution, transposed=False): (
        "aten.cudnn_convolution", "aten.miopen_convolution", "mkldnn._convolution_pointwise",
    ),
    partial(_convolution, transposed=True): ("mkldnn._convolution_transpose_pointwise",),
    _convolution_backward: ("aten.convolution_backward",),
    _attention: tuple(f"aten._scaled_dot_product_{name}" for name in _ATTENTIONS),
    _attention_backward: tuple(f"aten._scaled_dot_product_{name}_backward" for name in _ATTENTIONS),
}  # fmt: skip
_FORMULAS = {op: formula for formula, ops in _OPS.items() for op in ops}


# -- bytes


class _Sizes(Struct, frozen=True):
    """What is known of an output code's values."""

    specs: Mapping[str, TensorSpec]  # of buffers and inputs
    nodes: Mapping[str, Node]

    def bytes(self, argument: str, dtype: str = "") -> int | None:
        """Return the size of what a call is given: a buffer, or a view of one."""
        view = _VIEW.match(argument)
        spec = self.specs.get(view[1] if view else argument)
        if spec is None:
            return None
        shape = [int(s) if s.isdigit() else s for s in positional(view[2])] if view else spec.shape
        known = [size for size in shape if isinstance(size, int)]
        width = DTYPE_BYTES.get(dtype or spec.dtype)
        return None if width is None or len(known) < len(shape) else int(prod(known) * width)


_VIEW = re.compile(r"reinterpret_tensor\((\w+), \(([^()]*)\)")


def launch_traffic(recording: Recording) -> dict[LaunchId, Traffic]:
    """Return for every launch what it moves; none where a size is symbolic or not recorded."""
    buffers = {code.id: code.buffers for code in recording.output_codes}
    graphs = {graph.id: graph for graph in recording.graphs}
    sizes: dict[CodeId, _Sizes] = {}
    found: dict[LaunchId, Traffic] = {}
    for kernel in recording.kernels:
        own = kernel.code_id
        if own not in sizes:
            nodes = graphs[own.graph].nodes if own.graph in graphs else ()
            specs = {node.name: node.specs[0] for node in nodes if node.op == "placeholder" and node.specs}
            specs |= {buffer.name: buffer.spec for buffer in buffers.get(own, ()) if buffer.spec is not None}
            sizes[own] = _Sizes(specs, {node.name: node for node in nodes})
        by_arguments = _generated if is_generated(kernel) else _library
        for index, launch in enumerate(kernel.launches):
            traffic = _counted(launch, sizes[own].specs) or by_arguments(kernel, launch, sizes[own])
            if traffic is not None:
                found[kernel.launch_id(index)] = traffic
    return found


def _counted(launch: Launch, specs: Mapping[str, TensorSpec]) -> Traffic | None:
    """Return what the scheduler counted."""
    accesses = (*launch.reads, *launch.writes)
    for access in accesses:
        # The scheduler counts a symbolic size as it was when it compiled: other calls have other sizes.
        spec = specs.get(access.name)
        if spec is not None and any(isinstance(size, str) for size in spec.shape):
            return None
    reads, writes = ([access.bytes for access in each] for each in (launch.reads, launch.writes))
    return _traffic(reads, writes, Trust.EXACT) if accesses else None


def _traffic(reads: Sequence[int | None], writes: Sequence[int | None], trust: Trust) -> Traffic | None:
    """Return the sums of sizes, None if one is not known."""
    if None in reads or None in writes:
        return None
    return Traffic(sum(size or 0 for size in reads), sum(size or 0 for size in writes), trust)


_POINTERS: Mapping[str, str] = {
    "*fp64": "f64", "*fp32": "f32", "*fp16": "f16", "*bf16": "bf16", "*i64": "i64", "*i32": "i32", "*i16": "i16",
    "*i8": "i8", "*i1": "b8", "*u8": "u8", "*fp8e4nv": "f8e4m3fn", "*fp8e5": "f8e5m2",
    "double": "f64", "float": "f32", "at::Half": "f16", "half": "f16", "at::BFloat16": "bf16", "bfloat16": "bf16",
    "int64_t": "i64", "int32_t": "i32", "int16_t": "i16", "int8_t": "i8", "uint8_t": "u8", "bool": "b8",
}  # fmt: skip
_CPP = re.compile(r'extern "C"[^("]*\bkernel\w*\(([^()]*)\)')
_CPP_PARAMETER = re.compile(r"(?<![\w:])([\w:]+)\s*\*\s*(?:__restrict__\s+)?(\w+)")


def _generated(kernel: Kernel, launch: Launch, sizes: _Sizes) -> Traffic | None:
    """Count the arguments of a kernel of Inductor's by the names that it gives to parameters."""
    parameters = _parameters(kernel)
    reads: list[int | None] = []
    writes: list[int | None] = []
    for (name, dtype), argument in zip(parameters, launch.arguments, strict=False):
        if dtype:
            size = sizes.bytes(argument, dtype)
            # KernelArgs in torch/_inductor/codegen/common.py
            if name.startswith(("in_out_ptr", "out_ptr", "ws_ptr")):
                writes.append(size)
            if not name.startswith(("out_ptr", "ws_ptr")):
                reads.append(size)
    return _traffic(reads, writes, Trust.TEXT) if parameters else None


def _parameters(kernel: Kernel) -> Sequence[tuple[str, str]]:
    """Return name and type of each parameter of a kernel; the type is empty for what is not memory."""
    if kernel.kind is KernelKind.USER:  # its author names them as they like
        return []
    signature = kernel.meta.get("signature")
    if isinstance(signature, Mapping):
        return [(str(name), _POINTERS.get(str(kind), "")) for name, kind in signature.items()]
    return _cpp_parameters(kernel.source)


@lru_cache(maxsize=256)  # a source may be that of many kernels, and is asked for each launch
def _cpp_parameters(source: str) -> Sequence[tuple[str, str]]:
    declared = _CPP.search(source)
    found = []
    for one in declared[1].split(",") if declared else ():
        pointer = _CPP_PARAMETER.search(one)
        found.append((pointer[2], _POINTERS.get(pointer[1], "")) if pointer else (one, ""))
    return found


def _library(kernel: Kernel, launch: Launch, sizes: _Sizes) -> Traffic | None:
    """Count the arguments of a library's call as read, and its result as written."""
    names = [a for a in launch.arguments if (a.isidentifier() and a not in {"None", "True", "False"}) or _VIEW.match(a)]
    out = next((a.removeprefix("out=") for a in launch.arguments if a.startswith("out=")), "")
    written: list[int | None] = [sizes.bytes(out) if out else None]
    if not out:
        op = kernel.name.removeprefix("torch.ops.").split(".")
        name = op[1] if len(op) > 1 else op[0]
        for node in (sizes.nodes[one] for one in launch.nodes if one in sizes.nodes):
            if op_packet(node.target).rpartition(".")[2] == name and node.specs:
                written = [spec.bytes for spec in node.specs]
                break
    return _traffic([sizes.bytes(one) for one in names], written, Trust.TEXT) if names else None
