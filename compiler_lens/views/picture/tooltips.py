"""What the mouse over a box or a line says: all that is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from compiler_lens.facts.graphs.level_tree import Group
from compiler_lens.facts.graphs.levels import Box, BoxKind, Spent
from compiler_lens.facts.kernels.graph_flow import Value
from compiler_lens.facts.kernels.launch_costs import Bound
from compiler_lens.recording.model import Node
from compiler_lens.views.picture.labels import name, op_name, op_words
from compiler_lens.views.text import microseconds, nbytes, number, one_line, percent, plural
from compiler_lens.views.words import kernel_kind

_LINES = 40  # of a tooltip
_NAMED = 12  # tensors that a line's tooltip names
# What a kernel's time is spent on.
BOUND_WORDS: Mapping[Bound, str] = {
    Bound.MEMORY: "bound by memory",
    Bound.COMPUTE: "bound by compute",
    Bound.LAUNCH: "as short as a launch can be",
    Bound.NEITHER: "far below what memory and compute allow",
    Bound.UNKNOWN: "not known what bounds it",
}


def tooltip(box: Box) -> str:
    """Return all that is known of a box, a line each."""
    lines: list[str] = []
    if box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}:
        lines += [f"{value.role.value}: {_named(value)}" for value in box.values]
        lines += [f"{'from' if box.kind is BoxKind.INPUT else 'to'} {place}" for place in box.places]
    elif box.group:
        lines += _of_group(box, box.group)
    else:
        for node in box.nodes:
            lines += _of_node(node)
    if box.spent:
        lines += _of_time(box.spent)
        if box.group and box.group.kernel:
            others = {cost.kernel.name for cost in box.spent.launches} - {box.group.kernel.name}
            lines += [f"with {name}, which goes on with the same ops" for name in sorted(others)]
    lines += [f"reads {value.role.value} {_named(value)}" for value in box.reads]
    lines += [f"gives {value.role.value} {_named(value)}" for value in box.gives]
    shown = [one_line(line) for line in lines[:_LINES]]
    if len(lines) > _LINES:
        shown.append(f"… {number(len(lines) - _LINES)} more")
    return "\n".join(shown)


def tensors(nodes: Sequence[Node]) -> str:
    """Return the tensors that go along a line, each with its shape."""
    named = [f"{node.name} {' '.join(map(str, node.specs))}".strip() for node in nodes[:_NAMED]]
    if len(nodes) > _NAMED:
        named.append(f"{len(nodes) - _NAMED} more")
    return one_line(", ".join(named))


def _named(value: Value) -> str:
    label = "" if value.label == value.node.name else f" ({value.node.name})"
    return f"{value.label}{label} {', '.join(map(str, value.node.specs))}".strip()


def _of_node(node: Node) -> Iterable[str]:
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


def _of_group(box: Box, group: Group) -> Iterable[str]:
    yield f"{group.kind.value} {group.module or name(box)} {group.detail}".rstrip()
    if box.repeats > 1:
        yield f"{box.repeats} alike: {name(box)}"
    if group.kernel:
        yield f"{kernel_kind(group.kernel)}, {plural(len(group.kernel.launches), 'launch', 'launches')}"
    if group.share and group.share.parts > 1:
        yield f"part {group.share.part} of {group.share.parts}: what stands between is none of this kernel"
    if group.share and group.share.again:
        yield f"computes {op_words(group.share.again)} again that stand where they are computed first"
    count = Counter(op_name(node.target) for node in box.nodes).most_common(12)
    yield f"{op_words(len(box.nodes))}: " + ", ".join(f"{op} \N{MULTIPLICATION SIGN}{n}" for op, n in count)


def _of_time(spent: Spent) -> Iterable[str]:
    """Per call of the model: how long, how near to what the device can do, and what bounds it."""
    count = len(spent.launches)
    several = f" in {plural(count, 'launch', 'launches')}" if count > 1 else ""
    share = percent(spent.microseconds, spent.whole)
    yield f"{microseconds(spent.microseconds)} per call{several}, {share} of the graph's kernels"
    moved = [cost.traffic.bytes * cost.time.runs for cost in spent.launches if cost.traffic]
    if moved and len(moved) == count and spent.microseconds:
        ceiling = spent.launches[0].memory_share if count == 1 else None
        near = f", {percent(ceiling, 1)} of what the device copies" if ceiling is not None else ""
        yield f"moves {nbytes(sum(moved))}, {_per_second(sum(moved) / spent.microseconds)}{near}"
    bounds: dict[str, float] = {}
    for cost in spent.launches:
        words = BOUND_WORDS[cost.bound]
        bounds[words] = bounds.get(words, 0.0) + cost.total
    for words, took in sorted(bounds.items(), key=lambda each: -each[1]):
        yield f"{words}: {microseconds(took)}" if len(bounds) > 1 else words


def _per_second(megabytes: float) -> str:
    """In the decimal units in which devices are sold, as the profile has it."""
    return f"{megabytes / 1e6:.3g} TB/s" if megabytes >= 1e6 else f"{megabytes / 1e3:.3g} GB/s"  # noqa: PLR2004 -- a million
