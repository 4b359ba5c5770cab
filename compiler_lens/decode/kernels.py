"""Kernels read from output codes, joined with what our hooks saw of them; output codes, numbered."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.output_code import aot_id
from compiler_lens.decode.tuning import TritonTuning, with_tunings
from compiler_lens.recording.errors import reading
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import POST_GRADS, CodeId, CompileId, Direction, GraphId
from compiler_lens.recording.model import Graph, Kernel, Launch, Node, OutputCode, Trust

_DEF = re.compile(r"\s*def (\w+)\(")


class KernelNodes(Struct, frozen=True):
    """Our hook's word on which post-grad nodes each kernel computes, one entry per code generation call, in order."""

    compile_id: CompileId
    direction: Direction
    kernels: tuple[tuple[str, tuple[str, ...]], ...]  # kernel name, node names
    cached: bool = False
    ops: tuple[tuple[str, ...], ...] = ()  # the scheduler's names for each entry of `kernels`


class CodeKey(Struct, frozen=True):
    """What torch's cache calls one compiled graph, in the order in which the graphs were done."""

    compile_id: CompileId
    direction: Direction
    key: str


def read_kernel_nodes(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[KernelNodes, ...]:
    """Read one entry per code generation call, in order: a kernel launched twelve times has twelve."""
    with reading("kernel nodes"):
        entries = tuple((str(name), tuple(map(str, nodes))) for name, nodes in event.meta["kernels"])
        ops = tuple(tuple(map(str, names)) for names in event.meta.get("ops", ()))  # older recordings have none
        return (KernelNodes(compile_id, Direction(event.meta["part"]), entries, event.cached, ops),)


# -- which output code a fact is of


class _OfProgram(Protocol):
    """What is said of an output code, in the order in which those were written."""

    @property
    def compile_id(self) -> CompileId: ...
    @property
    def direction(self) -> Direction: ...


Fact = TypeVar("Fact", bound=_OfProgram)


def _program(of: _OfProgram) -> GraphId:
    """A compilation's program, by its first post-grad graph.

    On a cache hit a hook may call an inference graph "forward": that is the same, as only one of the two exists.
    """
    return CodeId(of.compile_id, of.direction).graph


def by_graph(kernels: Iterable[Kernel], facts: Iterable[Fact]) -> dict[GraphId, Fact]:
    """Return what our hook saw of each output code, by the graph of the code.

    Both are in the same order; so it is known where there is one fact for each code.
    """
    ordinals: dict[GraphId, dict[int, None]] = defaultdict(dict)
    for kernel in kernels:
        ordinals[_program(kernel)][kernel.ordinal] = None
    found: dict[GraphId, Fact] = {}
    for program, listed in _by_program(facts).items():
        if len(listed) == len(ordinals[program]):
            for ordinal, fact in zip(ordinals[program], listed, strict=True):
                found[replace(program, ordinal=ordinal)] = fact
    return found


def _by_program(facts: Iterable[Fact]) -> dict[GraphId, list[Fact]]:
    told: dict[GraphId, list[Fact]] = defaultdict(list)
    for fact in facts:
        told[_program(fact)].append(fact)
    return told


def number_output_codes(codes: Iterable[OutputCode], keys: Iterable[CodeKey] = ()) -> tuple[OutputCode, ...]:
    """Return the same output codes with their keys, numbered: DDP splits make several for one compilation and pass."""
    codes = tuple(codes)
    ordinals = _ordinals((_program(code), aot_id(code.code)) for code in codes)
    counts = Counter(program for program, _ in {*zip(map(_program, codes), ordinals, strict=True)})
    # A graph is done after its code is written and before the next one's is, so they come in one order.
    told = {program: listed for program, listed in _by_program(keys).items() if len(listed) == counts[program]}
    numbered = []
    for code, ordinal in zip(codes, ordinals, strict=True):
        listed = told.get(_program(code))
        numbered.append(replace(code, ordinal=ordinal, key=listed[ordinal].key if listed else ""))
    return tuple(numbered)


def _ordinals(codes: Iterable[tuple[GraphId, str]]) -> list[int]:
    """For each program and id of AOTAutograd's its number within the program."""
    seen: dict[GraphId, dict[str, int]] = defaultdict(dict)
    return [seen[program].setdefault(aot, len(seen[program])) for program, aot in codes]


# -- kernels and their nodes

# The node lists of one kernel name, one for each code generation call, in order.
_NodeLists = Mapping[str, Sequence[tuple[str, ...]]]


def join_kernels(
    kernels: Sequence[Kernel], nodes: Sequence[KernelNodes], tunings: Sequence[TritonTuning]
) -> tuple[Kernel, ...]:
    """Return the same kernels, with exact nodes and the configs tried, and numbered by output code."""
    ordinals = _ordinals((_program(kernel), str(kernel.meta.get("aot_id", ""))) for kernel in kernels)
    numbered = [replace(kernel, ordinal=ordinal) for kernel, ordinal in zip(kernels, ordinals, strict=True)]
    told = _node_lists(numbered, nodes)
    joined = [_with_nodes(kernel, told.get(kernel.code_id.graph, {}).get(kernel.name, ())) for kernel in numbered]
    return with_tunings(joined, tunings)


# Which name our hook gets (on 2.11, 2.13 and 2.15 alike):
# - triton and C++: codegen_comment() in codegen/triton.py and codegen/cpp.py passes what define_kernel() returned, the
#   final name; CUTLASS, CuteDSL, NVGEMM likewise. A multi-kernel goes by its own name (codegen/simd.py), so the kernels
#   that it chooses from have no entry.
# - extern: ExternKernel.codegen_comment() in ir.py passes get_kernel_name(), the text of the call: "extern_kernels.mm",
#   "torch.ops.aten.topk.default". A user's Triton kernel passes its numbered name.
# - nothing for mix-order reductions (codegen_comment(node_schedule, None) in codegen/simd.py), scatter and index_put
#   fallbacks, device copies and in-place random fills.
# - the hook gets the nodes of all parts for each part of a combo kernel (codegen_combo_kernel() in codegen/simd.py).
def _node_lists(kernels: Sequence[Kernel], nodes: Sequence[KernelNodes]) -> dict[GraphId, _NodeLists]:
    matched = by_graph(kernels, nodes)
    told = _by_program(nodes)
    found = {}
    for kernel in kernels:
        graph, program = kernel.code_id.graph, _program(kernel)
        if graph not in found and program in told:
            # Where it is not known which belongs to which: what a name computes still is, over all of them.
            found[graph] = _by_name([matched[graph]] if graph in matched else told[program])
    return found


def _by_name(entries: Iterable[KernelNodes]) -> _NodeLists:
    lists: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for entry in entries:
        for name, nodes in entry.kernels:
            lists[name].append(nodes)
    return lists


def _with_nodes(kernel: Kernel, lists: Sequence[tuple[str, ...]]) -> Kernel:
    nodes = tuple(dict.fromkeys(node for listed in lists for node in listed))
    if not nodes:
        return kernel
    launches = kernel.launches
    if len(lists) == len(launches):  # both are in the order of code generation
        launches = tuple(replace(launch, nodes=listed) for launch, listed in zip(launches, lists, strict=True))
    return replace(kernel, nodes=nodes, trust=Trust.EXACT, launches=launches)


# -- launches inside of a branch


def in_bodies(kernels: Sequence[Kernel], graphs: Iterable[Graph], codes: Iterable[OutputCode]) -> tuple[Kernel, ...]:
    """Return the same kernels; where graphs run others, each launch with the nodes of the one that it stands in.

    torch counts to a launch in a branch also what the graph around it does, up to the condition.
    """
    lowered = {graph.id: graph for graph in graphs if graph.stage in POST_GRADS and graph.subgraphs}
    if not lowered:
        return tuple(kernels)
    functions = {code.id: _functions(code.code) for code in codes if code.id.graph in lowered}
    kept = []
    for kernel in kernels:
        graph, known = lowered.get(kernel.code_id.graph), functions.get(kernel.code_id)
        kept.append(_in_bodies(kernel, graph, known) if graph and known else kernel)
    return tuple(kept)


def _functions(code: str) -> list[tuple[int, str]]:
    """The line on which each function begins, and its name."""
    lines = enumerate(code.split("\n"), 1)
    return [(number, match[1]) for number, text in lines if (match := _DEF.match(text))]


def _in_bodies(kernel: Kernel, graph: Graph, functions: Sequence[tuple[int, str]]) -> Kernel:
    inner = {each.name: _calls(each.nodes) for each in graph.subgraphs}

    def own(launch: Launch) -> Launch:
        at = bisect_right(functions, launch.line, key=lambda function: function[0])
        # The code of a graph inside of one is a function of that graph's name (codegen_subgraph in wrapper.py).
        there = inner.get(functions[at - 1][1] if at else "", frozenset())
        nodes = tuple(node for node in launch.nodes if node in there)
        return replace(launch, nodes=nodes) if nodes else launch

    launches = tuple(map(own, kernel.launches))
    if not launches or not all(launch.nodes for launch in launches):
        return replace(kernel, launches=launches)
    return replace(kernel, launches=launches, nodes=tuple(dict.fromkeys(n for each in launches for n in each.nodes)))


def _calls(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(node.name for node in nodes if node.op.startswith("call_"))
