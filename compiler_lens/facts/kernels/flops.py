"""How much a library call or a filled-in template computes: floating-point operations of a node, from its graph alone.

Counted as `torch.utils.flop_counter` does: a multiplication and an addition are two operations, a mask or causality
saves none, and only what multiplies matrices counts.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from math import prod

from msgspec import Struct

from compiler_lens.facts.kernels.kernels import is_generated
from compiler_lens.facts.kernels.lineage import op_packet
from compiler_lens.recording.ids import CompileId, GraphId, LaunchId
from compiler_lens.recording.model import Graph, Kernel, KernelKind, Node, Recording

Shape = tuple[int, ...]


class Work(Struct, frozen=True):
    """Operations, and the type of the numbers that are multiplied."""

    flops: int
    dtype: str  # "bf16"


class _Unknown(Exception):  # noqa: N818 -- never leaves this file
    """A size is symbolic, or is not recorded."""


class _Call(Struct, frozen=True):
    node: Node
    nodes: Mapping[str, Node]
    arguments: Sequence[str]  # positional, as printed

    def shape(self, index: int) -> Shape:
        """Return the shape of an argument, by its position."""
        return _shape(self.nodes.get(self.arguments[index]))

    @property
    def result(self) -> Shape:
        return _shape(self.node)


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
    """Return how much every launch that multiplies matrices computes."""
    kernels: dict[GraphId, list[Kernel]] = defaultdict(list)
    for kernel in recording.kernels:
        # A kernel of another kind only names what came before it.
        if not is_generated(kernel) or kernel.kind in {KernelKind.TEMPLATE, KernelKind.OTHER}:
            kernels[kernel.code_id.graph].append(kernel)
    found: dict[LaunchId, Work] = {}
    for graph in recording.graphs:
        for launch, work in _shared_out(graph, kernels.get(graph.id, ())):
            known = found.get(launch)
            found[launch] = Work(work.flops + known.flops, known.dtype) if known else work
    return found


def dtypes_multiplied(recording: Recording, ids: Container[CompileId]) -> tuple[str, ...]:
    """Return the types of numbers whose matrices these compilations multiply, the most work first."""
    total: dict[str, int] = defaultdict(int)
    for launch, work in launch_work(recording).items():
        if launch.code.compile_id in ids:
            total[work.dtype] += work.flops
    return tuple(sorted(total, key=lambda dtype: -total[dtype]))


def _shared_out(graph: Graph, kernels: Sequence[Kernel]) -> Iterator[tuple[LaunchId, Work]]:
    """Yield each node's work with the first launch that names it: later ones name it as where inputs came from."""
    if not kernels:
        return
    nodes = {node.name: node for node in graph.nodes}
    works = {node.name: work for node in graph.nodes if (work := node_work(node, nodes)) is not None}
    launches = [(launch, k, index) for k in kernels for index, launch in enumerate(k.launches)] if works else []
    for launch, kernel, index in sorted(launches, key=lambda found: found[0].line):
        for name in launch.nodes or (kernel.nodes if len(kernel.launches) == 1 else ()):
            work = works.pop(name, None)
            if work is not None:
                yield kernel.launch_id(index), work


# -- sizes


def _shape(node: Node | None) -> Shape:
    if node is None or not node.specs:
        raise _Unknown
    sizes = node.specs[0].shape
    known = tuple(size for size in sizes if isinstance(size, int))
    if len(known) < len(sizes):
        raise _Unknown
    return known


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


# -- formulas


def _product(call: _Call, first: int = 0) -> int:
    """Return the operations for two stacks of matrices, (…, m, k) and (…, k, n)."""
    *batch, m, k = call.shape(first)
    return 2 * prod(batch) * m * k * call.shape(first + 1)[-1]


def _linear(call: _Call) -> int:
    # The weight may be packed, and then has any shape.
    return 2 * prod(call.result) * call.shape(0)[-1]


def _conv(x: Shape, weight: Shape, out: Shape, *, transposed: bool) -> int:
    return 2 * x[0] * prod((x if transposed else out)[2:]) * prod(weight)


def _convolution(call: _Call) -> int:
    transposed = len(call.arguments) > 6 and call.arguments[6] == "True"  # noqa: PLR2004
    return _conv(call.shape(0), call.shape(1), call.result, transposed=transposed)


def _convolution_plain(call: _Call, *, transposed: bool = False) -> int:
    return _conv(call.shape(0), call.shape(1), call.result, transposed=transposed)


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
_FORMULAS: Mapping[str, Callable[[_Call], int]] = {
    "aten.mm": _product,
    "aten._int_mm": _product,
    "aten._scaled_mm": _product,
    "aten.bmm": _product,
    "aten.addmm": partial(_product, first=1),
    "aten.baddbmm": partial(_product, first=1),
    "aten.linear": _linear,
    "mkldnn._linear_pointwise": _linear,
    "mkl._mkl_linear": _linear,
    "onednn.qlinear_pointwise": _linear,
    "aten.convolution": _convolution,
    "aten._convolution": _convolution,
    "aten.cudnn_convolution": _convolution_plain,
    "aten.miopen_convolution": _convolution_plain,
    "mkldnn._convolution_pointwise": _convolution_plain,
    "mkldnn._convolution_transpose_pointwise": partial(_convolution_plain, transposed=True),
    "aten.convolution_backward": _convolution_backward,
    "aten._scaled_dot_product_flash_attention": _attention,
    "aten._scaled_dot_product_efficient_attention": _attention,
    "aten._scaled_dot_product_cudnn_attention": _attention,
    "aten._scaled_dot_product_fused_attention_overrideable": _attention,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten._scaled_dot_product_flash_attention_backward": _attention_backward,
    "aten._scaled_dot_product_efficient_attention_backward": _attention_backward,
    "aten._scaled_dot_product_cudnn_attention_backward": _attention_backward,
    "aten._scaled_dot_product_fused_attention_overrideable_backward": _attention_backward,
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}
