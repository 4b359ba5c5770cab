"""What compiled as it is written and is probably not meant: dropout without gradients, float64, copies, waits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import (
    Compilation,
    CompileId,
    Graph,
    GraphStage,
    Guard,
    Node,
    Recording,
    SourceLine,
    TensorSpec,
)


class Doubt(Enum):
    """What is probably not meant; its value is the rule of the finding."""

    DROPOUT = "dropout-without-gradients"
    FLOAT64 = "widened-to-double"
    ATTENTION = "attention-by-hand"
    COPY = "device-copy"
    WAIT = "device-wait"


class Unintended(Struct, frozen=True):
    """One line that compiled into what its author probably does not want."""

    doubt: Doubt
    place: SourceLine | None
    compile_ids: tuple[CompileId, ...]
    nodes: tuple[str, ...]  # of the graph, where it begins; one for each time that it is there
    what: str = ""  # the op, the value that is float64, or the devices: "cpu → cuda:0"
    ops: int = 0  # that it makes float64
    total_ops: int = 0  # of their graph
    bytes: int | None = None  # that it moves in one call, as far as sizes are known


class _Found(Struct, frozen=True):
    """One node that is doubtful."""

    doubt: Doubt
    node: Node
    what: str = ""
    ops: int = 0
    total_ops: int = 0
    bytes: int | None = None


def unintended(recording: Recording) -> tuple[Unintended, ...]:
    """Return every doubt, once for each line: the same line in several graphs is one."""
    compiled = {c.compile_id: c for c in recording.compilations}
    gradients = {g.compile_id: _has_gradients(g) for g in recording.guards if g.kind == "GLOBAL_STATE"}
    found: list[tuple[CompileId, _Found]] = []
    for compile_id, stages in grouped(recording.graphs, lambda graph: graph.compile_id).items():
        program = _Program(stages, compiled.get(compile_id), gradients.get(compile_id))
        found += [(compile_id, one) for look in _LOOKS for one in look(program)]
    places = grouped(found, lambda pair: (pair[1].doubt, innermost_own(pair[1].node.source)))
    return tuple(_at(place, pairs) for (_, place), pairs in places.items())


def _at(place: SourceLine | None, pairs: Sequence[tuple[CompileId, _Found]]) -> Unintended:
    ids = tuple(dict.fromkeys(compile_id for compile_id, _ in pairs))
    once = [one for compile_id, one in pairs if compile_id == ids[0]]  # what one call runs
    sizes = [one.bytes for one in once if one.bytes is not None]
    return Unintended(
        once[0].doubt,
        place,
        ids,
        tuple(one.node.name for one in once),
        ", ".join(dict.fromkeys(one.what for one in once)),
        once[0].ops,
        once[0].total_ops,
        sum(sizes) if len(sizes) == len(once) else None,
    )


class _Program(Struct, frozen=True):
    """The graphs of one compilation."""

    stages: Sequence[Graph]
    compilation: Compilation | None
    gradients: bool | None  # whether they were on when it was called; None: that is not known

    def at(self, *stages: GraphStage) -> list[Graph]:
        return [graph for graph in self.stages if graph.stage in stages]

    @property
    def deepest(self) -> list[Graph]:
        """What runs of the forward, as near to it as was recorded."""
        for stages in _FORWARDS:
            if found := self.at(*stages):
                return found
        return []


_FORWARDS = (
    (GraphStage.POST_GRAD,),
    (GraphStage.AOT_INFERENCE, GraphStage.AOT_FORWARD),
    (GraphStage.DYNAMO,),
)
_GRAD_MODE = re.compile(r'"grad_mode": ?(true|false)')  # of GlobalStateGuard in torch/csrc/dynamo/guards.cpp


def _has_gradients(guard: Guard) -> bool | None:
    said = _GRAD_MODE.search(guard.expression)
    return said[1] == "true" if said else None


def _op(node: Node) -> str:
    """`matmul`, of `operator.matmul`, `torch.ops.aten.matmul.default` and the method alike."""
    *before, last = node.target.split(".")
    return before[-1] if node.target.startswith("torch.ops.") and before else last


# -- dropout

_DROPOUT = re.compile(r"(?:alpha_|feature_|feature_alpha_)?dropout[123]?d?_?$")
_WRITTEN_ON = re.compile(r"training\s*=\s*True")
_OFF = ("False", "0", "0.0")


def _dropout(program: _Program) -> Iterator[_Found]:
    """Dropout that is on where no gradient is wanted: `eval()` is missing. `training=True` in the line is meant."""
    gradients = program.gradients
    for graph in program.at(GraphStage.DYNAMO):
        for node in graph.nodes:
            if node.target.endswith("_set_grad_enabled"):
                gradients = "True" in node.arguments
            at = innermost_own(node.source)
            is_written = at is not None and _WRITTEN_ON.search(at.code)
            if gradients is False and not is_written and _drops(_op(node), node.arguments):
                yield _Found(Doubt.DROPOUT, node, _op(node))


def _drops(name: str, arguments: str) -> bool:
    values, named = _arguments(arguments)
    if name == "scaled_dot_product_attention":
        return named.get("dropout_p", "0.0") not in _OFF
    if not _DROPOUT.match(name):
        return False
    p = named.get("p", values[1] if len(values) > 1 else "0.5")
    training = named.get("training", values[2] if len(values) > 2 else "True")  # noqa: PLR2004
    return p not in _OFF and training not in _OFF


def _arguments(text: str) -> tuple[list[str], Mapping[str, str]]:
    """The arguments of a call as torch prints them, those by name apart. Lists within them do not matter here."""
    values, named = [], {}
    for part in text.split(", "):
        name, equals, value = part.partition(" = ")
        if equals:
            named[name.strip()] = value.strip()
        else:
            values.append(part.strip())
    return values, named


# -- float64

_NARROW = ("f32", "bf16", "f16")
_HELD = re.compile(r"_(?:modules|buffers|parameters)_")  # in the name of an input that a module holds
_CASTS = frozenset(("double", "to", "type", "type_as", "_to_copy", "convert_element_type"))
_FEW = 3  # ops: a sum of a few in float64, and back, is what somebody wanted


def _float64(program: _Program) -> Iterator[_Found]:
    """Where float64 meets narrower numbers and all that follows is float64: at a constant, or at the module's own."""
    for graph in program.at(GraphStage.DYNAMO):
        nodes = {node.name: node for node in graph.nodes}
        told: set[str] = set()
        widened: set[str] = set()
        mixes: list[tuple[Node, Node]] = []
        for node in graph.ops:
            inputs = [nodes[name] for name in node.inputs if name in nodes]
            if not _is_64(node):
                continue
            if any(one.name in widened for one in inputs):
                widened.add(node.name)
            elif any(_dtype(one) in _NARROW for one in inputs):
                begins = [_begin(one, nodes) for one in inputs if _is_64(one)]
                if begins and not any(_is_meant(one, nodes, program.compilation) for one in begins):
                    widened.add(node.name)
                    mixes.append((node, begins[0]))
        if len(widened) < _FEW:
            continue
        for node, begin in mixes:
            if begin.name not in told:
                told.add(begin.name)
                at = begin if begin.op.startswith("call_") else node
                yield _Found(Doubt.FLOAT64, at, _called(begin), len(widened), len(graph.ops))


def _dtype(node: Node) -> str:
    return node.specs[0].dtype if len(node.specs) == 1 else ""


def _is_64(node: Node) -> bool:
    return _dtype(node) == "f64"


def _begin(node: Node, nodes: Mapping[str, Node]) -> Node:
    """The first node that is float64 on the way to one that is."""
    seen: set[str] = set()
    while node.name not in seen:
        seen.add(node.name)
        node = next((nodes[name] for name in node.inputs if name in nodes and _is_64(nodes[name])), node)
    return node


def _is_meant(begin: Node, nodes: Mapping[str, Node], compilation: Compilation | None) -> bool:
    """Whether somebody asked for float64: a tensor that is cast, or an argument of the function."""
    if begin.op == "placeholder":
        names = ("args", "kwargs", *(compilation.parameters if compilation else ()))
        return any(f"{begin.target}_".startswith(f"L_{name}_") for name in names)
    is_cast = _op(begin) in _CASTS
    return is_cast and any(nodes[name].specs for name in begin.inputs if name in nodes)


def _called(begin: Node) -> str:
    """What a reader knows it by: `self.mean`, `MEAN`, or the op that makes it."""
    if begin.op != "placeholder":
        return _op(begin).removeprefix("torch__dynamo_utils_wrapped_")
    name = _HELD.sub(".", begin.target.removeprefix("L_").removeprefix("G_")).rstrip("_")
    return f"self.{name.removeprefix('self_')}" if name.startswith("self_") else name


# -- attention

_SOFTMAX = ("softmax", "_softmax")
_PRODUCTS = frozenset(("matmul", "bmm", "baddbmm", "einsum", "__matmul__"))
_FUSED = "scaled_dot_product"  # in the names of all ops that torch replaces attention by, and of those of users
_STEPS = 12  # from a product to the softmax and on: scale, mask, bias, casts, dropout, views
_BATCHED = 3  # dimensions of scores; a matrix of two is rather a layer with a softmax in it


def _attention(program: _Program) -> Iterator[_Found]:
    """Product, softmax, product where Inductor put no fused attention; not where the weights are used otherwise."""
    lowered = program.at(GraphStage.POST_GRAD)
    if not lowered or any(_FUSED in node.target for graph in lowered for node in graph.nodes):
        return
    for graph in program.at(GraphStage.DYNAMO):
        nodes = {node.name: node for node in graph.nodes}
        users: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                users.setdefault(name, []).append(node)
        for node in graph.ops:
            if _op(node) not in _SOFTMAX or len(_shape(node)) < _BATCHED:
                continue
            if _is_attention(node, nodes) and _is_only_weights(node, users):
                yield _Found(Doubt.ATTENTION, node, bytes=node.specs[0].bytes)


def _shape(node: Node) -> Sequence[int | str]:
    return node.specs[0].shape if len(node.specs) == 1 else ()


def _is_product(node: Node) -> bool:
    return _op(node) in _PRODUCTS


def _is_attention(softmax: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether a softmax is of a product of two activations, with elementwise ops in between."""
    node = softmax
    for _ in range(_STEPS):
        inputs = [nodes[name] for name in node.inputs if name in nodes]
        # of a sum with a mask or a bias the way that a product leads to
        wide = [one for one in inputs if len(_shape(one)) >= _BATCHED and one.op != "placeholder"]
        if not wide:
            return False
        node = next((one for one in wide if _is_product(one)), wide[0])
        if _is_product(node):
            return not any("_parameters_" in name for name in node.inputs)
    return False


def _is_only_weights(softmax: Node, users: Mapping[str, list[Node]]) -> bool:
    """Whether all that is made of it goes into one product: weights that are returned need be there."""
    node = softmax
    for _ in range(_STEPS):
        after = users.get(node.name, [])
        if len(after) != 1 or after[0].op == "output":
            return False
        if _is_product(after[0]):
            return bool(after[0].inputs) and len(_shape(after[0])) >= _BATCHED
        node = after[0]
    return False


# -- devices

_HOST = "cpu"
_COPIES = frozenset(("_to_copy", "device_put", "to", "cuda", "cpu"))
_WAITS = frozenset(("_local_scalar_dense", "item", "tolist", "nonzero", "masked_select", "_unique2"))


def _copies(program: _Program) -> Iterator[_Found]:
    """Copies between devices in the middle of a graph: not of what comes in from the CPU, nor of what goes out."""
    for graph in program.deepest:
        nodes = {node.name: node for node in graph.nodes}
        given = {name for node in graph.nodes if node.op == "output" for name in node.inputs}
        for node in graph.ops:
            if _op(node) not in _COPIES:
                continue
            source = next((nodes[name] for name in node.inputs if name in nodes), None)
            spec, before = _spec(node), _spec(source) if source else None
            if not (spec and before and spec.device and before.device) or node.name in given:
                continue
            is_input = source is not None and source.op == "placeholder" and before.device.startswith(_HOST)
            if spec.device != before.device and not is_input:
                yield _Found(Doubt.COPY, node, f"{before.device} → {spec.device}", bytes=spec.bytes)


def _spec(node: Node) -> TensorSpec | None:
    return node.specs[0] if len(node.specs) == 1 else None


def _waits(program: _Program) -> Iterator[_Found]:
    """Values that the CPU must know, and so waits for the device that computes them."""
    for graph in program.deepest:
        nodes = {node.name: node for node in graph.nodes}
        for node in graph.ops:
            name = _op(node)
            source = next((nodes[one] for one in node.inputs if one in nodes), None) if name in _WAITS else None
            spec = _spec(source) if source else None
            if spec and spec.device and not spec.device.startswith(_HOST):
                yield _Found(Doubt.WAIT, node, "item" if name == "_local_scalar_dense" else name.lstrip("_"))


_LOOKS: tuple[Callable[[_Program], Iterator[_Found]], ...] = (_dropout, _float64, _attention, _copies, _waits)
