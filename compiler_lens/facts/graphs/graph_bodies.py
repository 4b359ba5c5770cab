"""The graphs that higher-order ops run, put in their place: a call's steps stand among those of the graph around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.kernels.graph_flow import Flow, Role, Step, Value, Within, steps_of
from compiler_lens.facts.kernels.launches import Launched
from compiler_lens.recording.model import Graph, Node, Subgraph

_HIGHER_ORDER = "torch.ops.higher_order."
_DEEPEST = 8  # calls in each other
_MOST = 20_000  # steps inside of calls: a body that is called often stands at each of its calls
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"\b\w+\b(?!')")  # no text of one word

# What an op calls the graphs that it runs, in the order of its arguments (torch/_higher_order_ops).
_NAMES: Mapping[str, tuple[str, ...]] = {
    "cond": ("true", "false"),
    "while_loop": ("condition", "body"),
    "while_loop_stack_output": ("condition", "body"),
    "autograd_function_apply": ("forward", "backward"),
    "flex_attention": ("score_mod", "mask_mod"),
    "flex_attention_backward": ("score_mod", "score_mod's gradient", "mask_mod"),
}
# What those are given that take none of the call's own arguments.
_GIVEN: Mapping[str, tuple[str, ...]] = {
    "score_mod": ("score", "b", "h", "q_idx", "kv_idx"),
    "mask_mod": ("b", "h", "q_idx", "kv_idx"),
}
_APART = frozenset({"backward"})  # what it gives is no part of the call's result

# The steps of one graph in their order, and the launch that computes each, for the name of a graph inside of one.
Ordered = Callable[[str, Flow], tuple[Flow, list[Launched]]]


class Body(Struct, frozen=True):
    """A graph that a call runs."""

    name: str  # "true", "score_mod"; empty where there is only one
    graph: Subgraph
    held: str = ""  # the attribute that the call is given; none where the call names the graph itself


def bodies(node: Node, names: Mapping[str, Node], inner: Mapping[str, Subgraph], scope: str = "") -> tuple[Body, ...]:
    """Return the graphs that a call runs, in the order of its arguments.

    Args:
        node: the call.
        names: the nodes of the graph it stands in.
        inner: all graphs inside of the whole one, by their paths.
        scope: the path of the graph that the call stands in.
    """
    prefix = f"{scope}." if scope else ""
    if node.op == "call_module":
        own = inner.get(prefix + node.target)
        return (Body("", own),) if own else ()
    # The same graph may be held under one name and read under several.
    held = [name for name in node.inputs if name in names and names[name].op == "get_attr"]
    found = [(name, graph) for name in held if (graph := inner.get(prefix + names[name].target))]
    words = _NAMES.get(node.target.removeprefix(_HIGHER_ORDER), ()) if len(found) > 1 else ("",)
    if len(words) != len(found):
        words = tuple(graph.name.rpartition(".")[2] for _, graph in found)
    return tuple(Body(word, graph, name) for word, (name, graph) in zip(words, found, strict=True))


def op_count(graph: Graph) -> tuple[int, int]:
    """Return how many ops a graph has, as Dynamo counts them: all calls; and how many more the graphs that they run."""
    if not graph.subgraphs:
        return len(graph.ops), 0
    inner = {each.name: each for each in graph.subgraphs}
    known: dict[str, int] = {}

    def inside(scope: str, nodes: Sequence[Node]) -> int:
        names = {node.name: node for node in nodes}
        return sum(whole(body.graph) for node in nodes if _calls(node) for body in bodies(node, names, inner, scope))

    def whole(body: Subgraph) -> int:
        if body.name not in known:
            known[body.name] = sum(map(_calls, body.nodes)) + inside(body.name, body.nodes)
        return known[body.name]

    return len(graph.ops), inside("", graph.nodes)


def _calls(node: Node) -> bool:
    return node.op.startswith("call_")


def with_bodies(flowing: Flow, launched: list[Launched], ordered: Ordered) -> tuple[Flow, list[Launched]]:
    """Return the flow with the steps of all bodies before the calls that run them, and the launch of each step."""
    if not flowing.graph.subgraphs:
        return flowing, launched
    inner = {each.name: each for each in flowing.graph.subgraphs}
    opening = _Opening(flowing, ordered, inner, inputs=dict(flowing.inputs))
    opening.add(_Scope("", "", flowing.steps, {n.name: n for n in flowing.graph.nodes}, launched, {}))
    makers = {node.name: number for number, step in enumerate(opening.steps) for node in step.nodes}
    inputs = {name: value for name, value in opening.inputs.items() if name not in opening.held}
    found = replace(flowing, steps=tuple(opening.steps), makers=makers, inputs=inputs, local=opening.local)
    return found, opening.launched


class _Scope(Struct, frozen=True):
    """A graph at one of its calls."""

    path: str  # of the graph
    prefix: str  # of its nodes' names at this call: the same graph may stand at several
    steps: Sequence[Step]
    names: Mapping[str, Node]
    launched: Sequence[Launched]
    given: Mapping[str, str]  # what its inputs are in the graph around it
    within: tuple[Within, ...] = ()

    def named(self, name: str) -> str:
        """What a name of a body is in the whole flow."""
        return self.given.get(name) or f"{self.prefix}{name}"


class _Opening(Struct):
    """A flow under way."""

    flowing: Flow
    ordered: Ordered
    inner: Mapping[str, Subgraph]
    inputs: dict[str, Value]
    steps: list[Step] = field(default_factory=list)
    launched: list[Launched] = field(default_factory=list)
    local: dict[str, tuple[int, int]] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)  # attributes that are bodies
    left: int = _MOST

    def add(self, scope: _Scope) -> None:
        for step, launch in zip(scope.steps, scope.launched, strict=True):
            found = bodies(step.node, scope.names, self.inner, scope.path) if len(scope.within) < _DEEPEST else ()
            # Of a graph with too much inside, calls stay closed.
            room = sum(len(body.graph.nodes) for body in found)
            if found and room <= self.left:
                self.left -= room
                self._call(scope, step, launch, found)
            else:
                self._emit(scope, step, launch, map(scope.named, step.reads), scope.within)

    def _call(self, scope: _Scope, step: Step, launch: Launched, found: Sequence[Body]) -> None:
        node, call = step.node, f"{scope.prefix}{step.node.name}"
        held = {body.held for body in found if body.held}
        self.held.update(f"{scope.prefix}{name}" for name in held)
        last = [word.end() for word in _NAME.finditer(node.arguments) if word[0] in held]
        rest = node.arguments[max(last, default=0) :]
        operands = [word for word in _WORD.findall(rest) if word in node.inputs and word not in held]
        taken: set[str] = set()
        given: list[str] = []
        first = len(self.steps)
        for body in found:
            places = [n.name for n in body.graph.nodes if n.op == "placeholder"]
            names = dict(zip(places, operands, strict=True)) if len(places) == len(operands) else {}
            taken.update(names.values())
            outputs = self._body(scope, step, body, {name: scope.named(of) for name, of in names.items()})
            given.extend(() if body.name in _APART else outputs)
        own = (scope.named(name) for name in step.reads if name not in held and name not in taken)
        self._emit(scope, step, launch, (*own, *given), (*scope.within, Within(node)))
        if len(found) == 1:  # body and call are one box
            inside = [name for name in reversed(self.local) if name.rpartition(".")[0] == call]
            self.local.update(dict.fromkeys(inside, (first, len(self.steps))))

    def _body(self, scope: _Scope, step: Step, body: Body, given: Mapping[str, str]) -> list[str]:
        """Put in the steps of a body; what it returns."""
        graph, nodes = body.graph, body.graph.nodes
        prefix = f"{scope.prefix}{step.node.name}." + (f"{body.name}." if body.name else "")
        steps = steps_of([n for n in nodes if _calls(n)], self.flowing.graph.stage)
        makers = {node.name: number for number, each in enumerate(steps) for node in each.nodes}
        inner, launched = self.ordered(graph.name, replace(self.flowing, steps=steps, makers=makers))
        within = (*scope.within, Within(step.node, body.name))
        opened = _Scope(graph.name, prefix, inner.steps, {n.name: n for n in nodes}, launched, given, within)
        first = len(self.steps)
        self.add(opened)
        labels = iter(_GIVEN.get(body.name, ()))
        for node in nodes:
            label = next(labels, node.name) if node.op == "placeholder" else node.name
            if node.op == "get_attr" or (node.op == "placeholder" and node.name not in given):
                name, role = f"{prefix}{node.name}", Role.PARAMETER if node.op == "get_attr" else Role.INPUT
                self.inputs[name] = Value(replace(node, name=name), role, label)
                self.local[name] = (first, len(self.steps))
        output = next((node for node in reversed(nodes) if node.op == "output"), None)
        return [opened.named(name) for name in output.inputs] if output else []

    def _emit(
        self, scope: _Scope, step: Step, launch: Launched, reads: Iterable[str], within: tuple[Within, ...]
    ) -> None:
        read = tuple(dict.fromkeys(reads))  # two of its inputs may be the same value
        node, parts = step.node, step.parts
        if scope.prefix:
            node = replace(node, name=f"{scope.prefix}{node.name}", inputs=read)
            parts = tuple(
                replace(part, name=f"{scope.prefix}{part.name}", inputs=tuple(map(scope.named, part.inputs)))
                for part in parts
            )
        self.launched.append(launch)
        self.steps.append(Step(node, parts, read, within))
