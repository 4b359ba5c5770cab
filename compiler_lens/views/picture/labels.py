"""What stands in a box, in short lines; and what the mouse over a box or a line says: all that is known of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compiler_lens.facts.graphs.level_tree import Group, GroupKind
from compiler_lens.facts.graphs.levels import Box, BoxKind, Spent
from compiler_lens.facts.kernels.graph_flow import Role, Value
from compiler_lens.facts.kernels.launch_costs import Bound
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import Node, SavedTensor
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
_TOOLTIP_LINES = 40
_TENSORS = 12  # that a line's tooltip names
# What a kernel's time is spent on.
_BOUNDS: Mapping[Bound, str] = {
    Bound.MEMORY: "bound by memory",
    Bound.COMPUTE: "bound by compute",
    Bound.LAUNCH: "as short as a launch can be",
    Bound.NEITHER: "neither compute- nor memory-bound",
    Bound.UNKNOWN: "not known what bounds it",
}


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


def time_words(box: Box) -> str:
    """Return what the launches in a box took, and which part that is of all of the graph."""
    if box.spent is None:
        return ""
    share = percent(box.spent.microseconds, box.spent.whole)
    return f"{microseconds(box.spent.microseconds)}, {share}{' together' if box.repeats > 1 else ''}"


def specs_of(nodes: Iterable[Node]) -> str:
    """Return how many tensors of which shape there are."""
    specs = [spec for node in nodes for spec in node.specs]
    if len(set(map(str, specs))) > 1:
        return plural(len(specs), "tensor")
    several = f" \N{MULTIPLICATION SIGN}{len(specs)}" if len(specs) > 1 else ""
    return short(str(specs[0])) + several if specs else ""


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


# -- the lines of a box


def lines(box: Box, within: str = "") -> tuple[str, ...]:
    """Return the lines of a box, its name first. `within` is the module whose level it stands in."""
    if box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}:
        return _lines_of_values(box)
    found = _lines_of_group(box, box.group) if box.group else _lines_of_op(box.nodes, within)
    if box.recomputed:  # how much of a backward's box is the forward once more
        working = sum(not is_view(node.target) for node in box.nodes) // box.repeats
        found.append("recomputed" if box.recomputed >= working else f"{plural(box.recomputed, 'op')} recomputed")
    keeps = [value for value in box.gives if value.role is Role.SAVED]
    gradients = [value for value in box.gives if value.role is Role.GRADIENT]
    found += [
        _read(box, "", "parameter", Role.PARAMETER),
        _read(box, "reads ", "input", Role.INPUT, Role.TANGENT),
        _read(box, "saved: ", "saved tensor", Role.SAVED),
        f"saves {_counted(keeps, 'tensor')}" if keeps else "",
        f"gives {_counted(gradients, 'gradient')}" if gradients else "",
        time_words(box),
    ]
    return tuple(line for line in found if line) or (box.nodes[0].op,)


def _lines_of_values(box: Box) -> tuple[str, ...]:
    """What comes in or goes out."""
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


def _lines_of_op(nodes: Sequence[Node], within: str) -> list[str]:
    node = nodes[0]
    name, module = op_name(node.target), node.module
    call = f"{name} {_arguments(node)}".strip()
    if module == within:
        module = ""
    elif within:  # its path from where one stands
        module = module.removeprefix(f"{within}.")
    # Of an op with several results, those that are used.
    return [short(call if len(call) <= _LONGEST else name), short(module), specs_of(nodes[1:]) or specs_of([node])]


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


def _lines_of_group(box: Box, group: Group) -> list[str]:
    if group.kernel:
        # How many ops it computes, as the list of kernels counts them; of one in several boxes, which part it is.
        share, counted = group.share, []
        if share and share.parts > 1:
            counted.append(f"part {share.part} of {share.parts}")
        counted.append(op_words(share.ops if share else len(box.nodes)))
        if share and share.again:
            counted.append(f"{share.again} again")
        called = op_name(group.label) if group.label.startswith("torch.ops.") else group.label
        return [short(called), f"{kernel_kind(group.kernel)} · {', '.join(counted)}", _fused(box.nodes)]
    ops = op_words(len(box.nodes) // box.repeats) + (" each" if box.repeats > 1 else "")
    if group.kind is GroupKind.STRETCH:
        common = Counter(op_name(node.target) for node in box.nodes).most_common(3)
        return [f"ops {group.first + 1:,} to {group.last:,}", short(", ".join(name for name, _ in common)), ops]
    if group.kind is GroupKind.LINE:
        stack = box.nodes[0].source
        return [short(group.label), short(stack[-1].code.strip()) if stack else "", ops]
    bodies = [each.label for each in group.children if not isinstance(each, int) and each.kind is GroupKind.BODY]
    return [short(_group_name(box)), short(group.detail), ops, short(", ".join(bodies))]


def _group_name(box: Box) -> str:
    """What a group is called: `h.0 … h.11` for brothers folded into one."""
    first, last = box.members[0], box.members[-1]
    if isinstance(first, int) or isinstance(last, int) or first.label == last.label or not box.group:
        return box.group.label if box.group else ""
    return f"{first.label} … {last.label}"


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


# -- tooltips


def tooltip(box: Box) -> str:
    """Return all that is known of a box, a line each."""
    found: list[str] = []
    if box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}:
        found += [f"{value.role.value}: {_named(value)}" for value in box.values]
        found += [f"{'from' if box.kind is BoxKind.INPUT else 'to'} {place}" for place in box.places]
    elif box.group:
        found += _about_group(box, box.group)
    else:
        for node in box.nodes:
            found += _about_node(node)
    if box.spent:
        found += _about_time(box.spent)
        if box.group and box.group.kernel:
            others = {cost.kernel.name for cost in box.spent.launches} - {box.group.kernel.name}
            found += [f"with {name}, which goes on with the same ops" for name in sorted(others)]
    found += [f"reads {value.role.value} {_named(value)}" for value in box.reads]
    found += [f"gives {value.role.value} {_named(value)}" for value in box.gives]
    shown = [one_line(line) for line in found[:_TOOLTIP_LINES]]
    if len(found) > _TOOLTIP_LINES:
        shown.append(f"… {number(len(found) - _TOOLTIP_LINES)} more")
    return "\n".join(shown)


def tensors(nodes: Sequence[Node]) -> str:
    """Return the tensors that go along a line, each with its shape."""
    named = [f"{node.name} {' '.join(map(str, node.specs))}".strip() for node in nodes[:_TENSORS]]
    if len(nodes) > _TENSORS:
        named.append(f"{len(nodes) - _TENSORS} more")
    return one_line(", ".join(named))


def _named(value: Value) -> str:
    label = "" if value.label == value.node.name else f" ({value.node.name})"
    return f"{value.label}{label} {', '.join(map(str, value.node.specs))}".strip()


def _about_node(node: Node) -> Iterator[str]:
    yield f"{node.name} = {node.target}({node.arguments})"
    for spec in node.specs:
        size = f", {nbytes(spec.bytes)}" if spec.bytes is not None else ""
        stride = f", stride {list(spec.stride)}" if spec.stride is not None else ""
        yield f"  {spec}{stride}{', ' + spec.device if spec.device else ''}{size}"
    if node.module:
        yield f"  module {node.module}{f' ({node.module_type})' if node.module_type else ''}"
    if node.origins:
        yield f"  {'differentiates' if node.backward else 'from'} {', '.join(node.origins)}"
    if node.original_aten:
        yield f"  from {node.original_aten}"
    for place in node.source[-1:]:
        yield f"  {place.file}:{place.line} in {place.function}: {place.code.strip()}"


def _about_group(box: Box, group: Group) -> Iterator[str]:
    yield f"{group.kind.value} {group.module or _group_name(box)} {group.detail}".rstrip()
    if box.repeats > 1:
        yield f"{box.repeats} alike: {_group_name(box)}"
    if group.kernel:
        yield f"{kernel_kind(group.kernel)}, {plural(len(group.kernel.launches), 'launch', 'launches')}"
    if group.share and group.share.parts > 1:
        yield f"part {group.share.part} of {group.share.parts}: what stands between is not of this kernel"
    if group.share and group.share.again:
        yield f"computes {op_words(group.share.again)} again that stand where they are computed first"
    count = Counter(op_name(node.target) for node in box.nodes).most_common(12)
    yield f"{op_words(len(box.nodes))}: " + ", ".join(f"{op} \N{MULTIPLICATION SIGN}{n}" for op, n in count)


def _about_time(spent: Spent) -> Iterator[str]:
    """Per call of the model: how long, how near to what the device can do, and what bounds it."""
    count = len(spent.launches)
    several = f" in {plural(count, 'launch', 'launches')}" if count > 1 else ""
    share = percent(spent.microseconds, spent.whole)
    yield f"{microseconds(spent.microseconds)} per call{several}, {share} of the graph's kernels"
    moved = [cost.traffic.bytes * cost.time.runs for cost in spent.launches if cost.traffic]
    if moved and len(moved) == count and spent.microseconds:
        rate = sum(moved) / spent.microseconds  # megabytes per second, decimal as devices are sold and profiles have it
        speed = f"{rate / 1e6:.3g} TB/s" if rate >= 1e6 else f"{rate / 1e3:.3g} GB/s"  # noqa: PLR2004 -- a million
        ceiling = spent.launches[0].memory_share if count == 1 else None
        near = f", {percent(ceiling, 1)} of what the device copies" if ceiling is not None else ""
        yield f"moves {nbytes(sum(moved))}, {speed}{near}"
    bounds: dict[str, float] = {}
    for cost in spent.launches:
        words = _BOUNDS[cost.bound]
        bounds[words] = bounds.get(words, 0.0) + cost.total
    for words, took in sorted(bounds.items(), key=lambda each: -each[1]):
        yield f"{words}: {microseconds(took)}" if len(bounds) > 1 else words
