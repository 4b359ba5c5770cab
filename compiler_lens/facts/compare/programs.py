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
)  # fmt: skip

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
        return tuple(node.target for graph in self._recognised_by() for node in graph.ops)

    @property
    def shapes(self) -> tuple[str, ...]:
        """The shapes and dtypes of what it is given and of what it computes."""
        return tuple(str(spec) for graph in self._recognised_by() for node in graph.nodes for spec in node.specs)

    def _recognised_by(self) -> list[Graph]:
        return [self.graphs[stage, 0] for stage in _TELLING if (stage, 0) in self.graphs][:1]


def compiled(recording: Recording) -> list[Compiled]:
    """Return the compilations of a recording with what belongs to them, in order."""
    graphs: defaultdict[CompileId, dict[tuple[GraphStage, int], Graph]] = defaultdict(dict)
    for graph in recording.graphs:
        graphs[graph.compile_id][graph.stage, graph.ordinal] = graph
    kernels: defaultdict[CompileId, dict[CodeId, list[Kernel]]] = defaultdict(dict)
    for code in recording.output_codes:
        kernels[code.compile_id].setdefault(code.id, [])
    for kernel in recording.kernels:
        kernels[kernel.compile_id].setdefault(kernel.code_id, []).append(kernel)
    known = {one.compile_id for one in recording.compilations}
    strays = [Compilation(i, "?", "", 0, Outcome.UNFINISHED) for i in {**graphs, **kernels} if i not in known]
    made: list[Compiled] = []
    for one in (*recording.compilations, *strays):
        # Frames that Dynamo skipped share the id that stands for none.
        own, codes = graphs.pop(one.compile_id, {}), kernels.pop(one.compile_id, {})
        name = function_name(one).name
        if one.module and name == one.function:
            name = f"{one.module}.{name}"
        made.append(Compiled(one, name, own, tuple(_program(code, of, own) for code, of in codes.items())))
    return made


def _program(code: CodeId, kernels: Sequence[Kernel], graphs: Mapping[tuple[GraphStage, int], Graph]) -> Program:
    calls = [(launch.line, k.name, number, k) for k in kernels for number, launch in enumerate(k.launches)]
    calls.sort(key=lambda call: call[:3])
    launches = tuple(Called(k, k.launches[number], number, at) for at, (_, _, number, k) in enumerate(calls))
    stages = LOWERED[code.direction], TRACED[code.direction]
    graph = next((graphs[stage, code.ordinal] for stage in stages if (stage, code.ordinal) in graphs), None)
    return Program(code, graph, launches)


Paired = tuple[list[tuple[Compiled, Compiled]], list[Compiled], list[Compiled]]


def pair_compilations(before: Sequence[Compiled], after: Sequence[Compiled]) -> Paired:
    """Return compilations that are each other, and what is left on each side.

    By what the author calls the function; of several of that name, those of equal ops on equal shapes, then of equal
    ops, then in their order. What is left then, by its ops: a function that was renamed.
    """

    def name(c: Compiled) -> Hashable:
        return c.function, c.compilation.module, bool(c.compilation.resumes)

    keys: tuple[Callable[[Compiled], Hashable], ...] = (
        lambda c: (name(c), c.ops, c.shapes),
        lambda c: (name(c), c.ops),
        name,
        lambda c: (c.ops, c.shapes) if c.ops else None,
    )
    pairs: list[tuple[Compiled, Compiled]] = []
    left, right = list(before), list(after)
    for key in keys:
        found, left, right = kth(left, right, key, key)
        pairs += found
    if left and right and max(len(left), len(right)) <= _COMPARED:
        found, left, right = _alike(left, right)
        pairs += found
    return pairs, left, right


def _alike(left: Sequence[Compiled], right: Sequence[Compiled]) -> Paired:
    """The most alike first."""
    ops, others = ([Counter(one.ops) for one in side] for side in (left, right))
    found: list[tuple[float, int, int, int, int]] = []
    for i, one in enumerate(ops):
        for j, other in enumerate(others):
            share = (one & other).total() / ((one | other).total() or 1)
            if share >= _ALIKE:
                found.append((-share, min(i, j), max(i, j), i, j))
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for *_, i, j in sorted(found):
        if i not in pairs and j not in taken:
            pairs[i] = j
            taken.add(j)
    rests = set(range(len(left))) - pairs.keys(), set(range(len(right))) - taken
    matched = [(left[i], right[j]) for i, j in pairs.items()]
    return matched, [left[i] for i in sorted(rests[0])], [right[j] for j in sorted(rests[1])]


def pair_programs(before: Compiled | None, after: Compiled | None) -> list[tuple[Program | None, Program | None]]:
    """Pair the programs of a compilation by direction and number; forward and inference are the same to this."""
    left, right = (
        {(p.id.direction is Direction.BACKWARD, p.id.ordinal): p for p in one.programs} if one else {}
        for one in (before, after)
    )
    return [(left.get(slot), right.get(slot)) for slot in sorted({*left, *right})]
