"""Kernels read from output codes, joined with what our hooks saw of them; output codes, numbered."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.output_code import aot_id
from compiler_lens.decode.tuning import TritonTuning, with_tunings
from compiler_lens.recording.event import Event
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import POST_GRADS, CodeId, CompileId, Direction, GraphId
from compiler_lens.recording.model import Graph, Kernel, OutputCode, Trust
from compiler_lens.recording.shape import shaped

_DEF = re.compile(r"\s*def (\w+)\(")


class KernelNodes(Struct, frozen=True):
    """Our hook's word on which post-grad nodes each kernel computes, one entry per code generation call, in order."""

    compile_id: CompileId
    direction: Direction
    kernels: tuple[tuple[str, tuple[str, ...]], ...]  # kernel name, node names
    cached: bool = False
    ops: tuple[tuple[str, ...], ...] = ()  # the scheduler's names for each entry of `kernels`


class _Calls(Struct, frozen=True):
    part: Direction
    kernels: tuple[tuple[str, tuple[str, ...]], ...]
    ops: tuple[tuple[str, ...], ...] = ()  # older recordings have none


class CodeKey(Struct, frozen=True):
    """What torch's cache calls one compiled graph, in the order in which the graphs were done."""

    compile_id: CompileId
    direction: Direction
    key: str


def read_kernel_nodes(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[KernelNodes, ...]:
    """Read one entry per code generation call, in order: a kernel launched twelve times has twelve."""
    told = shaped(_Calls, event.meta)
    return (KernelNodes(compile_id, told.part, told.kernels, event.cached, told.ops),)


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
    for program, listed in grouped(facts, _program).items():
        if len(listed) == len(ordinals[program]):
            for ordinal, fact in zip(ordinals[program], listed, strict=True):
                found[replace(program, ordinal=ordinal)] = fact
    return found


def number_output_codes(codes: Iterable[OutputCode], keys: Iterable[CodeKey] = ()) -> tuple[OutputCode, ...]:
    """Return the same output codes with their keys, numbered: DDP splits make several for one compilation and pass."""
    codes = tuple(codes)
    ordinals = _ordinals((_program(code), aot_id(code.code)) for code in codes)
    counts = Counter(program for program, _ in {*zip(map(_program, codes), ordinals, strict=True)})
    told = grouped(keys, _program)
    numbered = []
    for code, ordinal in zip(codes, ordinals, strict=True):
        # A graph is done after its code is written and before the next one's is, so they come in one order.
        program = _program(code)
        listed = told[program] if program in told and len(told[program]) == counts[program] else []
        numbered.append(replace(code, ordinal=ordinal, key=listed[ordinal].key if listed else ""))
    return tuple(numbered)


def _ordinals(codes: Iterable[tuple[GraphId, str]]) -> list[int]:
    """For each program and id of AOTAutograd's its number within the program."""
    seen: dict[GraphId, dict[str, int]] = defaultdict(dict)
    return [seen[program].setdefault(aot, len(seen[program])) for program, aot in codes]


# -- kernels and their nodes


# Which name our hook gets (on 2.11, 2.13 and 2.15 alike):
# - triton and C++: codegen_comment() in codegen/triton.py and codegen/cpp.py passes what define_kernel() returned, the
#   final name; CUTLASS, CuteDSL, NVGEMM likewise. A multi-kernel goes by its own name (codegen/simd.py), so the kernels
#   that it chooses from have no entry.
# - extern: ExternKernel.codegen_comment() in ir.py passes get_kernel_name(), the text of the call: "extern_kernels.mm",
#   "torch.ops.aten.topk.default". A user's Triton kernel passes its numbered name.
# - nothing for mix-order reductions (codegen_comment(node_schedule, None) in codegen/simd.py), scatter and index_put
#   fallbacks, device copies and in-place random fills.
# - the hook gets the nodes of all parts for each part of a combo kernel (codegen_combo_kernel() in codegen/simd.py).
def join_kernels(
    kernels: Sequence[Kernel], nodes: Sequence[KernelNodes], tunings: Sequence[TritonTuning]
) -> tuple[Kernel, ...]:
    """Return the same kernels, with exact nodes and the configs tried, and numbered by output code."""
    ordinals = _ordinals((_program(kernel), str(kernel.meta.get("aot_id", ""))) for kernel in kernels)
    numbered = [replace(kernel, ordinal=ordinal) for kernel, ordinal in zip(kernels, ordinals, strict=True)]
    matched, told = by_graph(numbered, nodes), grouped(nodes, _program)
    lists: dict[GraphId, dict[str, list[tuple[str, ...]]]] = {}  # by name, one for each code generation call, in order
    joined = []
    for kernel in numbered:
        graph = kernel.code_id.graph
        if graph not in lists:
            lists[graph] = defaultdict(list)
            # Where it is not known which belongs to which: what a name computes still is, over all of them.
            for entry in [matched[graph]] if graph in matched else told.get(_program(kernel), ()):
                for name, listed in entry.kernels:
                    lists[graph][name].append(listed)
        own, launches = lists[graph].get(kernel.name, []), kernel.launches
        computed = tuple(dict.fromkeys(node for listed in own for node in listed))
        if len(own) == len(launches):  # both are in the order of code generation
            launches = tuple(replace(launch, nodes=listed) for launch, listed in zip(launches, own, strict=True))
        exact = replace(kernel, nodes=computed, trust=Trust.EXACT, launches=launches)
        joined.append(exact if computed else kernel)
    return with_tunings(joined, tunings)


# -- launches inside of a branch


def in_bodies(kernels: Sequence[Kernel], graphs: Iterable[Graph], codes: Iterable[OutputCode]) -> tuple[Kernel, ...]:
    """Return the same kernels; where graphs run others, each launch with the nodes of the one that it stands in.

    torch counts to a launch in a branch also what the graph around it does, up to the condition.
    """
    lowered: dict[GraphId, dict[str, frozenset[str]]] = {}  # the ops of each graph inside of one, by its name
    for graph in graphs:
        if graph.stage in POST_GRADS and graph.subgraphs:
            lowered[graph.id] = {
                each.name: frozenset(node.name for node in each.nodes if node.op.startswith("call_"))
                for each in graph.subgraphs
            }
    functions_of = cache(_functions)  # several codes may be one text
    functions = {code.id: functions_of(code.code) for code in codes if code.id.graph in lowered}
    kept = list(kernels)
    for index, kernel in enumerate(kernels if lowered else ()):
        if functions.get(kernel.code_id):
            kept[index] = _in_bodies(kernel, lowered[kernel.code_id.graph], functions[kernel.code_id])
    return tuple(kept)


def _functions(code: str) -> Sequence[tuple[int, str]]:
    """The line on which each function begins, and its name."""
    lines = enumerate(code.split("\n"), 1)
    return [(number, match[1]) for number, text in lines if (match := _DEF.match(text))]


def _in_bodies(kernel: Kernel, inner: Mapping[str, frozenset[str]], functions: Sequence[tuple[int, str]]) -> Kernel:
    launches = []
    for launch in kernel.launches:
        at = bisect_right(functions, launch.line, key=lambda function: function[0])
        # The code of a graph inside of one is a function of that graph's name (codegen_subgraph in wrapper.py).
        there = inner.get(functions[at - 1][1] if at else "", frozenset())
        nodes = tuple(node for node in launch.nodes if node in there)
        launches.append(replace(launch, nodes=nodes) if nodes else launch)
    kernel = replace(kernel, launches=tuple(launches))
    if not launches or not all(launch.nodes for launch in launches):
        return kernel
    return replace(kernel, nodes=tuple(dict.fromkeys(node for each in launches for node in each.nodes)))
