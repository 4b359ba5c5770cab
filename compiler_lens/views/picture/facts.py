"""All that is known of a box, for the mouse over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from compiler_lens.facts.graphs.graph_times import Spent
from compiler_lens.facts.graphs.level_boxes import Box, BoxKind
from compiler_lens.facts.kernels.graph_flow import Value
from compiler_lens.facts.kernels.roofline import Bound
from compiler_lens.recording.model import Node
from compiler_lens.views.picture.labels import name, op_name, op_words
from compiler_lens.views.text import microseconds, nbytes, number, one_line, percent, plural
from compiler_lens.views.words import kernel_kind

_FACTS = 40  # lines of a tooltip
# What a kernel's time is spent on.
BOUND_WORDS: Mapping[Bound, str] = {
    Bound.MEMORY: "bound by memory",
    Bound.COMPUTE: "bound by compute",
    Bound.LAUNCH: "as short as a launch can be",
    Bound.NEITHER: "far below what memory and compute allow",
    Bound.UNKNOWN: "not known what bounds it",
}


def facts(box: Box) -> str:
    """All that is known of a box, a line each."""
    told = _group_facts(box) if box.group else [fact for node in box.nodes for fact in _node_facts(node)]
    if box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}:
        told = [f"{value.role.value}: {_named(value)}" for value in box.values]
        told += [f"{'from' if box.kind is BoxKind.INPUT else 'to'} {place}" for place in box.places]
    if box.spent:
        told += _time_facts(box.spent)
        if box.group and box.group.kernel:
            others = {cost.kernel.name for cost in box.spent.launches} - {box.group.kernel.name}
            told += [f"with {name}, which goes on with the same ops" for name in sorted(others)]
    held = [f"reads {value.role.value} {_named(value)}" for value in box.reads]
    given = [f"gives {value.role.value} {_named(value)}" for value in box.gives]
    every = [one_line(line) for line in (*told, *held, *given)]
    more = [f"… {number(len(every) - _FACTS)} more"] if len(every) > _FACTS else []
    return "\n".join(every[:_FACTS] + more)


def _named(value: Value) -> str:
    spec = ", ".join(map(str, value.node.specs))
    label = "" if value.label == value.node.name else f" ({value.node.name})"
    return f"{value.label}{label} {spec}".strip()


def _node_facts(node: Node) -> Iterable[str]:
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


def _per_second(megabytes: float) -> str:
    """In the decimal units in which devices are sold, as the profile has it."""
    return f"{megabytes / 1e6:.3g} TB/s" if megabytes >= 1e6 else f"{megabytes / 1e3:.3g} GB/s"  # noqa: PLR2004 -- a million


def _time_facts(spent: Spent) -> list[str]:
    """Per call of the model: how long, how near to what the device can do, and what bounds it."""
    count = len(spent.launches)
    several = f" in {plural(count, 'launch', 'launches')}" if count > 1 else ""
    share = percent(spent.microseconds, spent.whole)
    told = [f"{microseconds(spent.microseconds)} per call{several}, {share} of the graph's kernels"]
    moved = [cost.traffic.bytes * cost.time.runs for cost in spent.launches if cost.traffic]
    if moved and len(moved) == count and spent.microseconds:
        ceiling = spent.launches[0].memory_share if count == 1 else None
        near = f", {percent(ceiling, 1)} of what the device copies" if ceiling is not None else ""
        told.append(f"moves {nbytes(sum(moved))}, {_per_second(sum(moved) / spent.microseconds)}{near}")
    bounds: dict[str, float] = {}
    for cost in spent.launches:
        bounds[BOUND_WORDS[cost.bound]] = bounds.get(BOUND_WORDS[cost.bound], 0.0) + cost.total
    ranked = sorted(bounds.items(), key=lambda each: -each[1])
    return told + [f"{words}: {microseconds(took)}" if len(ranked) > 1 else words for words, took in ranked]


def _group_facts(box: Box) -> list[str]:
    group = box.group
    if group is None:
        return []
    count = Counter(op_name(node.target) for node in box.nodes).most_common(12)
    head = [f"{group.kind.value} {group.module or name(box)} {group.detail}".rstrip()]
    if box.repeats > 1:
        head.append(f"{box.repeats} alike: {name(box)}")
    if group.kernel:
        head.append(f"{kernel_kind(group.kernel)}, {plural(len(group.kernel.launches), 'launch', 'launches')}")
    if group.share and group.share.parts > 1:
        head.append(f"part {group.share.part} of {group.share.parts}: what stands between is none of this kernel")
    if group.share and group.share.again:
        head.append(f"computes {op_words(group.share.again)} again that stand where they are computed first")
    return [
        *head,
        f"{op_words(len(box.nodes))}: " + ", ".join(f"{op} \N{MULTIPLICATION SIGN}{n}" for op, n in count),
    ]
