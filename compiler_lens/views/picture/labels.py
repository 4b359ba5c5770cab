"""What stands in a box: short lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from compiler_lens.facts.graphs.level_tree import Group, GroupKind
from compiler_lens.facts.graphs.levels import Box, BoxKind
from compiler_lens.facts.kernels.graph_flow import Role, Value
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import Node, SavedTensor, TensorSpec
from compiler_lens.views.picture.tints import Tint, work
from compiler_lens.views.text import microseconds, nbytes, number, one_line, percent, plural
from compiler_lens.views.words import kernel_kind
from compiler_lens.views.words import op_name as whole_name

_LONGEST = 34  # characters of a line in a box
_OPS = 26  # characters of the ops that a kernel's box names
_ARGUMENTS = 16
_NAMED = 3  # parameters that are named one by one
_NUMBERS = re.compile(r"[-+\d.e, \[\]]*")
_SHAPES_SAY = frozenset({"view", "reshape", "expand", "embedding", "broadcast_in_dim"})  # what these ops are given


def op_name(target: str) -> str:
    """Return an op as it is written in a box: a higher-order op has its own name alone."""
    return whole_name(target).removeprefix("higher_order.")


def op_words(own: int, inside: int = 0) -> str:
    """Return how many ops a graph has, and how many more the graphs have that they run."""
    return plural(own, "op") + (f", {number(inside)} more in the graphs that they run" if inside else "")


def short(text: str, limit: int = _LONGEST) -> str:
    """Return a line that fits a box: of a long one the two ends, which tell names apart."""
    text = one_line(text, 4 * limit)
    if len(text) <= limit:
        return text
    return f"{text[: limit * 2 // 3 - 1]}…{text[-(limit - limit * 2 // 3) :]}"


def lines(box: Box, within: str = "") -> tuple[str, ...]:
    """Return the lines of a box, its name first. `within` is the module whose level it stands in."""
    if box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}:
        return _of_values(box)
    found = _of_group(box, box.group) if box.group else _of_op(box.nodes, within)
    found += [_recomputed(box), *_held(box), time_words(box)]
    return tuple(line for line in found if line) or (box.nodes[0].op,)


def name(box: Box) -> str:
    """Return what a group is called: `h.0 … h.11` for brothers folded into one."""
    first, last = box.members[0], box.members[-1]
    if isinstance(first, int) or isinstance(last, int) or first.label == last.label or not box.group:
        return box.group.label if box.group else ""
    return f"{first.label} … {last.label}"


def time_words(box: Box) -> str:
    """Return what the launches in a box took, and which part that is of all of the graph."""
    if box.spent is None:
        return ""
    share = percent(box.spent.microseconds, box.spent.whole)
    return f"{microseconds(box.spent.microseconds)}, {share}{' together' if box.repeats > 1 else ''}"


def specs_of(nodes: Iterable[Node]) -> str:
    """Return how many tensors of which shape there are."""
    return _specs([spec for node in nodes for spec in node.specs])


def amount(nodes: Iterable[Node]) -> str:
    """Return the memory that values take; nothing where a size may vary: a part would look like the whole."""
    total = _total([spec.bytes for node in nodes for spec in node.specs])
    return f" · {total}" if total else ""


def kept_words(saved: Sequence[SavedTensor]) -> str:
    """Return what a forward keeps for its backward: what it makes, which takes memory, and inputs, there anyway."""
    made = [tensor.bytes for tensor in saved if not tensor.is_input]
    total = _total(made)
    inputs = f"; {plural(len(saved) - len(made), 'input')} kept alive" if len(made) < len(saved) else ""
    return f"{plural(len(made), 'tensor')} saved for the backward{f', {total}' if total else ''}{inputs}"


def _total(sizes: Sequence[int | None]) -> str:
    known = [size for size in sizes if size is not None]
    return nbytes(sum(known)) if known and len(known) == len(sizes) else ""


def _specs(specs: Sequence[TensorSpec]) -> str:
    if not specs:
        return ""
    if len(set(map(str, specs))) > 1:
        return plural(len(specs), "tensor")
    several = f" \N{MULTIPLICATION SIGN}{len(specs)}" if len(specs) > 1 else ""
    return short(str(specs[0])) + several


# -- an op


def _of_op(nodes: Sequence[Node], within: str) -> list[str]:
    node = nodes[0]
    name = op_name(node.target)
    call = f"{name} {_arguments(node)}".strip()
    # Of an op with several results, those that are used.
    parts = [spec for part in nodes[1:] for spec in part.specs]
    return [short(call if len(call) <= _LONGEST else name), _module(node.module, within), _specs(parts or node.specs)]


def _module(module: str, within: str) -> str:
    """A module's path from where one stands."""
    if not module or module == within:
        return ""
    return short(module.removeprefix(f"{within}.") if within else module)


def _arguments(node: Node) -> str:
    """Numbers that belong to the op: the exponent, the dimension; not what is known from the shapes."""
    if op_name(node.target) in _SHAPES_SAY:
        return ""
    unsaid = {*node.inputs, "None"}
    if node.inputs:
        unsaid |= {"True", "False"}
    text = ", ".join(part for part in map(str.strip, node.arguments.split(", ")) if part not in unsaid)
    plain = _NUMBERS.fullmatch(text) or text in {"True", "False"}
    return text if len(text) <= _ARGUMENTS and plain else ""


# -- a group


def _of_group(box: Box, group: Group) -> list[str]:
    if group.kernel:
        called = op_name(group.label) if group.label.startswith("torch.ops.") else group.label
        return [short(called), f"{kernel_kind(group.kernel)} · {_share_words(box, group)}", _fused(box.nodes)]
    ops = op_words(len(box.nodes) // box.repeats) + (" each" if box.repeats > 1 else "")
    if group.kind is GroupKind.STRETCH:
        common = Counter(op_name(node.target) for node in box.nodes).most_common(3)
        return [f"ops {group.first + 1:,} to {group.last:,}", short(", ".join(name for name, _ in common)), ops]
    if group.kind is GroupKind.LINE:
        stack = box.nodes[0].source
        return [short(group.label), short(stack[-1].code.strip()) if stack else "", ops]
    bodies = [each.label for each in group.children if not isinstance(each, int) and each.kind is GroupKind.BODY]
    return [short(name(box)), short(group.detail), ops, short(", ".join(bodies))]


def _share_words(box: Box, group: Group) -> str:
    """How many ops a kernel computes, as the list of kernels counts them; of one in several boxes, which part it is."""
    share = group.share
    if share is None:
        return op_words(len(box.nodes))
    found = [f"part {share.part} of {share.parts}"] if share.parts > 1 else []
    found.append(op_words(share.ops))
    if share.again:
        found.append(f"{share.again} again")
    return ", ".join(found)


def _fused(nodes: Sequence[Node]) -> str:
    """The ops of a kernel, as many as there is room for: what computes first, what only moves data last."""
    targets = dict.fromkeys(node.target for node in nodes if node.target != "operator.getitem")
    computing = sorted(targets, key=lambda target: work(target) in {Tint.VIEW, Tint.COPY})
    names = list(dict.fromkeys(map(op_name, computing)))
    shown = names[:1]
    for each in names[1:]:
        if len(", ".join((*shown, each))) > _OPS:
            break
        shown.append(each)
    more = f", +{len(names) - len(shown)}" if len(names) > len(shown) else ""
    return short(", ".join(shown) + more)


# -- what it reads and gives


def _recomputed(box: Box) -> str:
    """How much of a backward's box is the forward once more."""
    working = sum(not is_view(node.target) for node in box.nodes) // box.repeats
    if not box.recomputed or box.recomputed >= working:
        return "recomputed" if box.recomputed else ""
    return f"{plural(box.recomputed, 'op')} recomputed"


def _held(box: Box) -> list[str]:
    keeps = [value for value in box.gives if value.role is Role.SAVED]
    gradients = [value for value in box.gives if value.role is Role.GRADIENT]
    return [
        _read(box, "", "parameter", Role.PARAMETER),
        _read(box, "reads ", "input", Role.INPUT, Role.TANGENT),
        _read(box, "saved: ", "saved tensor", Role.SAVED),
        f"saves {_counted(keeps, 'tensor')}" if keeps else "",
        f"gives {_counted(gradients, 'gradient')}" if gradients else "",
    ]


def _read(box: Box, verb: str, noun: str, *roles: Role) -> str:
    """Some values: by name where they are few, with the memory that they take where they are many."""
    values = [value for value in box.reads if value.role in roles]
    if not values:
        return ""
    if len(values) <= _NAMED and box.repeats == 1:
        return short(verb + ", ".join(dict.fromkeys(value.label for value in values)))
    return ("" if verb.endswith(": ") else verb) + _counted(values, noun)


def _counted(values: Sequence[Value], noun: str) -> str:
    return plural(len(values), noun) + amount(value.node for value in values)


def _of_values(box: Box) -> tuple[str, ...]:
    """The lines of what comes in or goes out."""
    values, specs = box.values, specs_of(value.node for value in box.values)
    if box.places:
        arrow = "from" if box.kind is BoxKind.INPUT else "to"
        what = values[0].label if len(values) == 1 else plural(len(values), "tensor")
        more = f" and {len(box.places) - 1} more" if len(box.places) > 1 else ""
        return (short(what), short(f"{arrow} {box.places[0]}{more}"), specs)
    if len(values) == 1:
        label = values[0].label
        role = {Role.RESULT: "output ", Role.SAVED: "saved "}.get(values[0].role, "")
        return (short(label if label.startswith("gradient") else role + label), specs)
    nouns = {Role.RESULT: "output", Role.TANGENT: "gradient", Role.SAVED: "saved tensor"}
    kinds = Counter(value.role for value in values)
    return (", ".join(plural(count, nouns.get(role, "input")) for role, count in kinds.items()), specs)
