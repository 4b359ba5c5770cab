"""A graph as steps and what flows between them: what is an input, a parameter, saved for the backward, a result."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from itertools import takewhile

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.recording.model import Graph, GraphStage, Node, Recording, SavedTensor
from compiler_lens.recording.torch_names import GRADIENT_PREFIX

_HELD = re.compile(r"_(?:parameters|buffers)_+(?:modules_+)?(?=\w)")  # L_self_modules_up_parameters_weight_
_POSITION = re.compile(r"args_(\d{1,4})")
_WORD = re.compile(r"\w+")
BACKWARDS = (GraphStage.AOT_BACKWARD, GraphStage.POST_GRAD_BACKWARD)


class Role(Enum):
    """What a value is that a graph gets, or gives."""

    INPUT = "input"
    PARAMETER = "parameter"  # or a buffer, or a constant of the graph
    SAVED = "saved"  # kept by the forward for the backward
    TANGENT = "tangent"  # the gradient that a backward starts from
    RESULT = "result"
    GRADIENT = "gradient"  # of a parameter
    SIZE = "size"  # a number, no tensor


# What stands in the box that reads or makes it, and has no box of its own.
HELD = (Role.PARAMETER, Role.SIZE)


class Value(Struct, frozen=True):
    """A value that a graph gets or gives."""

    node: Node
    role: Role
    label: str  # in the author's words where they are known: "weight", "x"


class Within(Struct, frozen=True):
    """A call of a higher-order op that a step stands in."""

    call: Node
    body: str = ""  # which of the graphs that it runs: "true"; empty where there is one, and for the call itself


class Step(Struct, frozen=True):
    """One op with the nodes that only take its results apart."""

    node: Node
    parts: tuple[Node, ...] = ()
    reads: tuple[str, ...] = ()  # names of values, of steps and of inputs
    within: tuple[Within, ...] = ()  # outermost first

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The op and its parts."""
        return (self.node, *self.parts)

    def made(self, place: int) -> Node:
        """Return one of its nodes: there may be thousands."""
        return self.parts[place - 1] if place else self.node


class Flow(Struct, frozen=True):
    """A graph's steps in order: each reads only what earlier ones made."""

    graph: Graph
    steps: tuple[Step, ...]
    makers: Mapping[str, int]  # which step makes a value
    inputs: Mapping[str, Value]
    outputs: tuple[Value, ...]  # a value may be given twice, as a result and as saved
    local: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # inputs of a body: of which steps it consists


def flow(recording: Recording, graph: Graph) -> Flow:
    """Return what flows through one graph of a recording."""
    siblings = [g for g in recording.graphs if g.compile_id == graph.compile_id]
    names = next((c.parameters for c in recording.compilations if c.compile_id == graph.compile_id), ())
    primals = _primals(graph, next((g for g in siblings if g.stage is GraphStage.DYNAMO), None), names)
    inputs = {n.name: _input(n, graph.stage, primals, names) for n in graph.nodes if not n.op.startswith("call_")}
    forwards = [g for g in siblings if g.stage is GraphStage.AOT_FORWARD and g.ordinal == graph.ordinal]
    outputs = _outputs(graph, graph.saved or (forwards[0].saved if forwards else ()), primals)
    steps = steps_of(graph.ops, graph.stage)
    if graph.stage is not GraphStage.DYNAMO:
        steps = _brought_home(steps, {value.node.name for value in outputs if value.role is not Role.SAVED})
    return Flow(graph, steps, _makers(steps), inputs, outputs)


def _makers(steps: Iterable[Step]) -> dict[str, int]:
    return {node.name: number for number, step in enumerate(steps) for node in step.nodes}


def _brought_home(steps: Sequence[Step], results: Collection[str]) -> tuple[Step, ...]:
    """Put what is only saved or copied after its module's last step: torch puts it at the graph's end."""
    makers, read = _makers(steps), set(results)
    loose = [False] * len(steps)
    for place in reversed(range(len(steps))):
        loose[place] = not any(node.name in read for node in steps[place].nodes)
        if not loose[place]:
            read.update(steps[place].reads)
    order: list[tuple[int, int]] = []  # after which step, and which among those
    last: dict[str, tuple[int, int]] = {}
    for place, step in enumerate(steps):
        module, own = step.node.module, (place, place)
        home = last.get(module)
        reads = max((order[makers[name]] for name in step.reads if name in makers), default=(-1, 0))
        if loose[place] and module and home and home >= reads:
            own = (home[0], place)
        order.append(own)
        last[module] = max(own, last.get(module, own))
    return tuple(steps[place] for place in sorted(range(len(steps)), key=order.__getitem__))


def steps_of(nodes: Sequence[Node], stage: GraphStage) -> tuple[Step, ...]:
    """Return the ops of a graph, each with what takes its results apart."""
    ops = {node.name: node for node in (nodes if stage is GraphStage.DYNAMO else _with_modules(nodes))}
    parts: dict[str, list[Node]] = {}
    for node in ops.values():
        maker = ops.get(node.inputs[0]) if node.inputs else None
        # Of a tensor, operator.getitem is an op like any other.
        if node.target == "operator.getitem" and maker is not None and len(maker.specs) != 1:
            parts.setdefault(maker.name, []).append(node)
    taken = {part.name for several in parts.values() for part in several if part.name not in parts}
    steps: list[Step] = []
    later = set(ops)  # which a node of a damaged graph may read
    for node in ops.values():
        reads = dict.fromkeys(name for name in node.inputs if name not in later)
        later.discard(node.name)
        if node.name not in taken:
            own = tuple(part for part in parts.get(node.name, ()) if part.name in taken)
            steps.append(Step(node, own, tuple(reads)))
    return tuple(steps)


def _with_modules(ops: Sequence[Node]) -> list[Node]:
    """Return the ops; sums of gradients, which no line wrote, are given the module that they stand in."""
    following, after = "", [""] * len(ops)
    for place in reversed(range(len(ops))):
        after[place] = following
        following = ops[place].module or following
    modules = {node.name: node.module for node in ops}
    filled = list(ops)
    for place, node in enumerate(ops):
        if not node.module and not node.origins and (node.backward or not node.source):
            read = [modules[name] for name in node.inputs if name in modules]
            module = max(common(read), common((read[-1], after[place]) if read else ()), key=len)
            modules[node.name] = module
            filled[place] = replace(node, module=module) if module else node
    return filled


def common(modules: Iterable[str]) -> str:
    """Return the innermost module around all of these."""
    split = [module.split(".") for module in modules]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*split, strict=False))
    return ".".join(parts[0] for parts in same)


# -- inputs and outputs


def _primals(graph: Graph, dynamo: Graph | None, names: Sequence[str]) -> list[Value]:
    """Return the Dynamo graph's inputs: a graph of AOTAutograd takes them in the same order."""
    if dynamo is None or graph is dynamo:
        return []
    given = [_dynamo_input(node, names) for node in dynamo.nodes if node.op == "placeholder"]
    for node in graph.nodes:
        if node.op == "placeholder" and node.name.startswith(("primals_", "arg")):
            number = _number(node.name)
            # Where AOTAutograd took inputs apart or dropped some, numbers say nothing.
            if number is None or number >= len(given) or given[number].node.specs != node.specs:
                return []
    return given


def _number(name: str) -> int | None:
    """Return which input `primals_3` or `arg2_1` is, from 0."""
    if name.startswith("primals_") and name[8:].isdecimal():
        return int(name[8:]) - 1
    number = name[3:].partition("_")[0] if name.startswith("arg") else ""
    return int(number) if number.isdecimal() else None


def _dynamo_input(node: Node, names: Sequence[str]) -> Value:
    """Return an input; `names` are the parameters of a function that torch calls with `*args` and `**kwargs`."""
    if held := _HELD.search(node.target):
        return Value(node, Role.PARAMETER, node.target[held.end() :].rstrip("_"))
    plain = node.target.removeprefix("L_").rstrip("_") if node.target.startswith("L_") else node.name
    position = _POSITION.fullmatch(plain)
    if position and int(position[1]) < len(names):
        plain = names[int(position[1])]
    return Value(node, Role.INPUT if node.specs else Role.SIZE, plain.removeprefix("kwargs_") or node.name)


def _input(node: Node, stage: GraphStage, primals: Sequence[Value], names: Sequence[str]) -> Value:
    if node.op == "get_attr":
        return Value(node, Role.PARAMETER, node.name)
    if stage is GraphStage.DYNAMO:
        return _dynamo_input(node, names)
    if node.name.startswith(GRADIENT_PREFIX):
        return Value(node, Role.TANGENT, f"gradient of output {node.name.removeprefix(GRADIENT_PREFIX)}")
    number = _number(node.name)
    known = primals[number] if number is not None and number < len(primals) else None
    if known and (known.role is Role.PARAMETER or stage not in BACKWARDS):
        return Value(node, known.role, known.label)
    role = Role.SAVED if stage in BACKWARDS else Role.INPUT
    return Value(node, role if node.specs else Role.SIZE, known.label if known else node.name)


def _outputs(graph: Graph, saved: Sequence[SavedTensor], primals: Sequence[Value]) -> tuple[Value, ...]:
    nodes = {node.name: node for node in graph.nodes}
    output = next((node for node in reversed(graph.nodes) if node.op == "output"), None)
    if output is None:
        return ()
    given = [word for word in _WORD.findall(output.arguments) if word in nodes or word == "None"]
    if not set(output.inputs) <= set(given):
        given = list(output.inputs)
    if saved and graph.stage not in BACKWARDS:  # after the saved tensors come the sizes that are saved
        while given and given[-1] in nodes and not nodes[given[-1]].specs:
            given.pop()
    labelled = zip(given, _roles(graph.stage, given, saved, primals), strict=True)
    return tuple(Value(nodes[name], role, label) for name, (role, label) in labelled if name in nodes)


def _roles(
    stage: GraphStage, given: Sequence[str], saved: Sequence[SavedTensor], primals: Sequence[Value]
) -> list[tuple[Role, str]]:
    """Return what each result is, and its label."""
    results = [(Role.RESULT, name) for name in given]
    if stage in BACKWARDS or stage is GraphStage.AOT_JOINT:
        first = len(given) - len(primals) if stage is GraphStage.AOT_JOINT else 0
        if primals and first >= 0 and first + len(primals) == len(given):
            for of in primals:
                role = Role.GRADIENT if of.role is Role.PARAMETER else Role.RESULT
                results[first] = role, f"gradient of {of.label}"
                first += 1
        elif stage in BACKWARDS:
            results = [(Role.GRADIENT, name) for name in given]
    if stage in {GraphStage.AOT_FORWARD, GraphStage.POST_GRAD}:
        kept = {tensor.name for tensor in saved}
        last = max(len(given) - len(saved), 1)  # results come first
        if not kept.issuperset(given[last:]):
            last = max((place for place, name in enumerate(given, 1) if name not in kept), default=1)
        results[last:] = [(Role.SAVED, name) for name in given[last:]]
    return results
