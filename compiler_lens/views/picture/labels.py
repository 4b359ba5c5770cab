"""What stands in a box: short lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from compiler_lens.facts.graphs.level_boxes import Box, BoxKind, Edge
from compiler_lens.facts.graphs.level_tree import Group, GroupKind
from compiler_lens.facts.kernels.graph_flow import Role, Value
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import Node, SavedTensor, TensorSpec
from compiler_lens.views.picture.tints import Tint, work
from compiler_lens.views.text import microseconds, nbytes, number, one_line, percent, plural
from compiler_lens.views.words import kernel_kind
from compiler_lens.views.words import op_name as whole_name

_LONGEST = 34  # characters of a line in a box
_ARGUMENTS = 16
_NAMED = 3  # parameters that are named one by one
_NUMBERS = re.compile(r"[-+\d.e, \[\]]*")


def op_name(target: str) -> str:
    """An op as it is written in a box: a higher-order op has its own name alone."""
    return whole_name(target).removeprefix("higher_order.")


def op_words(own: int, inside: int = 0) -> str:
    """How many ops a graph has, and how many more the graphs have that they run."""
    return plural(own, "op") + (f", {number(inside)} more in the graphs that they run" if inside else "")


def short(text: str, limit: int = _LONGEST) -> str:
    """A line that fits a box: of a long one the two ends, which tell names apart."""
    text = one_line(text, 4 * limit)
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3 - 1]}…{text[-(limit - limit * 2 // 3) :]}"


def lines(box: Box, within: str = "") -> tuple[str, ...]:
    """The lines of a box, its name first. `within` is the module whose level it stands in."""
    if box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}:
        return _ends(box)
    told = _group_lines(box, box.group) if box.group else _op_lines(box, within)
    return tuple(line for line in (*told, _recomputed(box), *_held(box), time_words(box)) if line) or (box.nodes[0].op,)


def _recomputed(box: Box) -> str:
    """How much of a backward's box is the forward once more."""
    working = sum(not is_view(node.target) for node in box.nodes) // box.repeats
    if not box.recomputed or box.recomputed >= working:
        return "recomputed" if box.recomputed else ""
    return f"{plural(box.recomputed, 'op')} recomputed"


def time_words(box: Box) -> str:
    """What the launches in a box took, and which part that is of all of the graph."""
    if box.spent is None:
        return ""
    share = percent(box.spent.microseconds, box.spent.whole)
    return f"{microseconds(box.spent.microseconds)}, {share}{' together' if box.repeats > 1 else ''}"


def _op_lines(box: Box, within: str) -> list[str]:
    node = box.nodes[0]
    name = op_name(node.target)
    extra = _arguments(node)
    module = relative(node.module, within)
    told = f"{name} {extra}".strip()
    return [short(told if len(told) <= _LONGEST else name), module and short(module), _specs(_results(box.nodes))]


def _results(nodes: Sequence[Node]) -> list[TensorSpec]:
    """What an op gives: of an op with several results, those that are used."""
    parts = [spec for part in nodes[1:] for spec in part.specs]
    return parts or list(nodes[0].specs)


def _specs(specs: Sequence[TensorSpec]) -> str:
    if not specs:
        return ""
    if len(set(map(str, specs))) == 1:
        return short(str(specs[0])) + (f" \N{MULTIPLICATION SIGN}{len(specs)}" if len(specs) > 1 else "")
    return plural(len(specs), "tensor")


def _arguments(node: Node) -> str:
    """Numbers that belong to the op: the exponent, the dimension; not what is known from the shapes."""
    if op_name(node.target) in {"view", "reshape", "expand", "embedding", "broadcast_in_dim"}:
        return ""
    unsaid = {*node.inputs, "None", *(("True", "False") if node.inputs else ())}
    text = ", ".join(part for part in map(str.strip, node.arguments.split(", ")) if part not in unsaid)
    plain = _NUMBERS.fullmatch(text) or text in {"True", "False"}
    return text if len(text) <= _ARGUMENTS and plain else ""


def relative(module: str, within: str) -> str:
    """A module's path from where one stands."""
    if not module or module == within:
        return ""
    return module.removeprefix(f"{within}.") if within else module


def _group_lines(box: Box, group: Group) -> list[str]:
    ops = op_words(len(box.nodes) // box.repeats) + (" each" if box.repeats > 1 else "")
    if group.kernel:
        called = op_name(group.label) if group.label.startswith("torch.ops.") else group.label
        return [short(called), f"{kernel_kind(group.kernel)} · {_share_words(box, group)}", _fused(box.nodes)]
    if group.kind is GroupKind.STRETCH:
        common = ", ".join(name for name, _ in Counter(op_name(n.target) for n in box.nodes).most_common(3))
        return [f"ops {group.first + 1:,} to {group.last:,}", short(common), ops]
    if group.kind is GroupKind.LINE:
        return [short(group.label), short(box.nodes[0].source[-1].code.strip()) if box.nodes[0].source else "", ops]
    bodies = [each.label for each in group.children if not isinstance(each, int) and each.kind is GroupKind.BODY]
    return [short(name(box)), short(group.detail), ops, short(", ".join(bodies))]


def _share_words(box: Box, group: Group) -> str:
    """How many ops a kernel computes, as the list of kernels counts them; of one in several boxes, which part it is."""
    share = group.share
    if share is None:
        return op_words(len(box.nodes))
    told = [f"part {share.part} of {share.parts}"] if share.parts > 1 else []
    return ", ".join((*told, op_words(share.ops), *((f"{share.again} again",) if share.again else ())))


def _fused(nodes: Sequence[Node]) -> str:
    """The ops of a kernel, as many as there is room for."""
    named = (node.target for node in nodes if node.target != "operator.getitem")
    # What computes comes first, what only moves data last.
    targets = sorted(dict.fromkeys(named), key=lambda target: work(target) in {Tint.VIEW, Tint.COPY})
    names = list(dict.fromkeys(map(op_name, targets)))
    shown = max(sum(end <= _LONGEST - 6 for end in accumulate(len(name) + 2 for name in names)), 1)
    more = f", +{len(names) - shown}" if len(names) > shown else ""
    return short(", ".join(names[:shown]) + more)


def name(box: Box) -> str:
    """What a group is called: `h.0 … h.11` for brothers folded into one."""
    first, last = box.members[0], box.members[-1]
    if isinstance(first, int) or isinstance(last, int) or first.label == last.label or not box.group:
        return box.group.label if box.group else ""
    return f"{first.label} … {last.label}"


def _held(box: Box) -> list[str]:
    per = box.repeats
    parameters = [value for value in box.reads if value.role is Role.PARAMETER]
    saved = [value for value in box.reads if value.role is Role.SAVED]
    others = [value for value in box.reads if value.role in {Role.INPUT, Role.TANGENT}]
    keeps = [value for value in box.gives if value.role is Role.SAVED]
    gradients = [value for value in box.gives if value.role is Role.GRADIENT]
    return [
        _few("", parameters, "parameter", per),
        _few("reads ", others, "input", per),
        _few("saved: ", saved, "saved tensor", per),
        _few("saves ", keeps, "tensor", per, named=False),
        _few("gives ", gradients, "gradient", per, named=False),
    ]


def _few(verb: str, values: Sequence[Value], noun: str, repeats: int, *, named: bool = True) -> str:
    """Some values: by name where they are few, with the memory that they take where they are many."""
    if not values:
        return ""
    if named and len(values) <= _NAMED and repeats == 1:
        return short(verb + ", ".join(dict.fromkeys(value.label for value in values)))
    return f"{'' if verb.endswith(': ') else verb}{plural(len(values), noun)}{amount(value.node for value in values)}"


def amount(nodes: Iterable[Node]) -> str:
    """The memory that values take; nothing where one has a size that may vary: a part would look like the whole."""
    sizes = [spec.bytes for node in nodes for spec in node.specs]
    known = [size for size in sizes if size is not None]
    return f" · {nbytes(sum(known))}" if known and len(known) == len(sizes) else ""


def _ends(box: Box) -> tuple[str, ...]:
    values = box.values
    if box.places:
        arrow = "from" if box.kind is BoxKind.INPUT else "to"
        what = values[0].label if len(values) == 1 else plural(len(values), "tensor")
        more = f" and {len(box.places) - 1} more" if len(box.places) > 1 else ""
        return (short(what), short(f"{arrow} {box.places[0]}{more}"), _spec_of(values))
    if len(values) == 1:
        told = {Role.RESULT: "output ", Role.SAVED: "saved "}.get(values[0].role, "")
        label = values[0].label
        return (short(label if label.startswith("gradient") else told + label), _spec_of(values))
    kinds = Counter(value.role for value in values)
    nouns = {Role.RESULT: "output", Role.TANGENT: "gradient", Role.SAVED: "saved tensor"}
    return (", ".join(plural(count, nouns.get(role, "input")) for role, count in kinds.items()), _spec_of(values))


def _spec_of(values: Sequence[Value]) -> str:
    return _specs([spec for value in values for spec in value.node.specs])


def kept_words(saved: Sequence[SavedTensor]) -> str:
    """What a forward keeps for its backward: what it makes, which takes memory, and inputs, which are there anyway."""
    made = [tensor.bytes for tensor in saved if not tensor.is_input]
    known = [size for size in made if size is not None]
    size = f", {nbytes(sum(known))}" if known and len(known) == len(made) else ""
    inputs = f"; {plural(len(saved) - len(made), 'input')} kept alive" if len(made) < len(saved) else ""
    return f"{plural(len(made), 'tensor')} saved for the backward{size}{inputs}"


def edge_label(edge: Edge) -> str:
    """How many tensors of which shape go along a line."""
    return _specs([spec for node in edge.values for spec in node.specs])
