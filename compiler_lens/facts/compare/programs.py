"""Which compilations of two recordings are each other, and which of their programs: forward, backward."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.compare.align import kth
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.recording.ids import LOWERED, TRACED, CodeId
from compiler_lens.recording.model import (
    Compilation,
    CompileId,
    Direction,
    Graph,
    GraphStage,
    Kernel,
    Launch,
    Outcome,
    Recording,
)

_ALIKE = 0.5  # share of ops in common from which on a function is the other one, renamed
_COMPARED = 200  # compilations left over on a side, that are compared with each other

# The graph by which a compilation is recognised, the first that is there.
_TELLING = (GraphStage.DYNAMO, GraphStage.AOT_FORWARD, GraphStage.AOT_INFERENCE, GraphStage.POST_GRAD)


class Called(Struct, frozen=True):
    """One launch, with its kernel."""

    kernel: Kernel
    launch: Launch
    number: int  # among the launches of its kernel
    position: int  # among those of its program


class Program(Struct, frozen=True):
    """What Inductor made of one graph."""

    id: CodeId
    graph: Graph | None  # the one that it lowered
    launches: tuple[Called, ...]


class Compiled(Struct, frozen=True):
    """One compilation, with its graphs and programs."""

    compilation: Compilation
    function: str
    graphs: Mapping[tuple[GraphStage, int], Graph]
    programs: tuple[Program, ...]

    @property
    def ops(self) -> tuple[str, ...]:
        """The ops by which it is recognised."""
        graph = self._recognised_by()
        return tuple(node.target for node in graph.ops) if graph else ()

    @property
    def shapes(self) -> tuple[str, ...]:
        """The shapes and dtypes of what it is given and of what it computes."""
        graph = self._recognised_by()
        return tuple(str(spec) for node in graph.nodes for spec in node.specs) if graph else ()

    def _recognised_by(self) -> Graph | None:
        return next((self.graphs[stage, 0] for stage in _TELLING if (stage, 0) in self.graphs), None)


def compiled(recording: Recording) -> list[Compiled]:
    """Return the compilations of a recording with what belongs to them, in order."""
    graphs: defaultdict[CompileId, _Graphs] = defaultdict(dict)
    for graph in recording.graphs:
        graphs[graph.compile_id][graph.stage, graph.ordinal] = graph
    kernels: defaultdict[CompileId, _Kernels] = defaultdict(dict)
    for code in recording.output_codes:
        kernels[code.compile_id].setdefault(code.id, [])
    for kernel in recording.kernels:
        kernels[kernel.compile_id].setdefault(kernel.code_id, []).append(kernel)
    # Frames that Dynamo skipped share the id that stands for none.
    made = [_compiled(c, graphs.pop(c.compile_id, {}), kernels.pop(c.compile_id, {})) for c in recording.compilations]
    strays = (Compilation(i, "?", "", 0, Outcome.UNFINISHED) for i in dict.fromkeys((*graphs, *kernels)))
    return [*made, *(_compiled(c, graphs.get(c.compile_id, {}), kernels.get(c.compile_id, {})) for c in strays)]


_Graphs = dict[tuple[GraphStage, int], Graph]
_Kernels = dict[CodeId, list[Kernel]]


def _compiled(compilation: Compilation, graphs: _Graphs, kernels: _Kernels) -> Compiled:
    programs: list[Program] = []
    for code, members in kernels.items():
        calls = [(launch.line, k.name, number, k) for k in members for number, launch in enumerate(k.launches)]
        calls.sort(key=lambda call: call[:3])
        launches = tuple(Called(k, k.launches[number], number, at) for at, (_, _, number, k) in enumerate(calls))
        stages = LOWERED[code.direction], TRACED[code.direction]
        graph = next((graphs[stage, code.ordinal] for stage in stages if (stage, code.ordinal) in graphs), None)
        programs.append(Program(code, graph, launches))
    name = function_name(compilation).name
    if compilation.module and name == compilation.function:
        name = f"{compilation.module}.{name}"
    return Compiled(compilation, name, graphs, tuple(programs))


Paired = tuple[list[tuple[Compiled, Compiled]], list[Compiled], list[Compiled]]


def pair_compilations(before: Sequence[Compiled], after: Sequence[Compiled]) -> Paired:
    """Return compilations that are each other, and what is left on each side.

    By what the author calls the function; of several of that name, those of equal ops on equal shapes, then of equal
    ops, then in their order. What is left then, by its ops: a function that was renamed.
    """
    keys: tuple[Callable[[Compiled], Hashable], ...] = (
        lambda c: (_name(c), c.ops, c.shapes),
        lambda c: (_name(c), c.ops),
        _name,
        lambda c: (c.ops, c.shapes) if c.ops else None,
    )
    pairs: list[tuple[Compiled, Compiled]] = []
    left, right = list(before), list(after)
    for key in keys:
        found, left, right = kth(left, right, key, key)
        pairs += found
    found, left, right = _alike(left, right)
    return [*pairs, *found], left, right


def _name(one: Compiled) -> Hashable:
    return one.function, one.compilation.module, bool(one.compilation.resumes)


def _alike(left: Sequence[Compiled], right: Sequence[Compiled]) -> Paired:
    """The most alike first."""
    if not left or not right or max(len(left), len(right)) > _COMPARED:
        return [], list(left), list(right)
    sides = [[(i, one, Counter(one.ops)) for i, one in enumerate(side)] for side in (left, right)]
    found = [
        (-share, min(i, j), max(i, j), i, j)
        for i, _, ops in sides[0]
        for j, _, others in sides[1]
        if (share := _share(ops, others)) >= _ALIKE
    ]
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for *_, i, j in sorted(found):
        if i not in pairs and j not in taken:
            pairs[i] = j
            taken.add(j)
    matched = [(left[i], right[j]) for i, j in pairs.items()]
    return (
        matched,
        [one for i, one in enumerate(left) if i not in pairs],
        [one for j, one in enumerate(right) if j not in taken],
    )


def _share(ops: Counter[str], others: Counter[str]) -> float:
    both, either = (ops & others).total(), (ops | others).total()
    return both / either if either else 0.0


def pair_programs(before: Compiled | None, after: Compiled | None) -> list[tuple[Program | None, Program | None]]:
    """Pair the programs of a compilation by direction and number; forward and inference are the same to this."""
    left, right = ({_slot(p): p for p in one.programs} if one else {} for one in (before, after))
    return [(left.get(slot), right.get(slot)) for slot in sorted({*left, *right})]


def _slot(program: Program) -> tuple[bool, int]:
    return program.id.direction is Direction.BACKWARD, program.id.ordinal
