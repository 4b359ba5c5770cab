"""In what two launches differ that are each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct, field

from compiler_lens.facts.compare.model import Aspect, Difference
from compiler_lens.facts.compare.programs import Called
from compiler_lens.facts.compare.source import (
    call,
    constants,
    constants_given,
    normalised,
    sizes_given,
    without_memory,
    without_numbers,
)
from compiler_lens.facts.kernels.kernels import unusual_language
from compiler_lens.recording.model import Kernel, KernelConfig, KernelKind, Node

_WARPS = ("num_warps", "num_stages", "num_ctas", "num_buffers_warp_spec", "num_consumer_groups", "waves_per_eu")
_NOT_CODE = {Aspect.KIND, Aspect.OPS, Aspect.FUSED, Aspect.SIZES, Aspect.DTYPE, Aspect.REDUCTION, Aspect.TEMPLATE}

# Ops that only look at memory in another way: which kernel they are counted to says nothing.
_VIEWS = frozenset(
    f"torch.ops.aten.{op}"
    for op in (
        "view.default", "_unsafe_view.default", "reshape.default", "permute.default", "transpose.int", "t.default",
        "squeeze.dim", "squeeze.dims", "squeeze.default", "unsqueeze.default", "expand.default", "select.int",
        "slice.Tensor", "as_strided.default", "alias.default", "detach.default", "split.Tensor",
        "split_with_sizes.default", "unbind.int",
    )
) | {"operator.getitem", "_operator.getitem"}  # fmt: skip


class Texts(Struct, frozen=True):
    """What is read from kernels' code, each kernel once."""

    code: dict[tuple[str, str], str] = field(default_factory=dict)  # by name and source

    def of(self, kernel: Kernel) -> str:
        """Return the normalised code of a kernel."""
        key = kernel.name, kernel.source
        if key not in self.code:
            self.code[key] = normalised(kernel)
        return self.code[key]


class Matched(Struct, frozen=True):
    """Two launches that are each other, and what is known of their nodes."""

    before: Called
    after: Called
    texts: Texts
    nodes: tuple[Mapping[str, Node], ...]  # of each side, by name
    names: Mapping[str, str]  # of nodes before, to nodes after
    elsewhere: tuple[Collection[str], Collection[str]]  # nodes of these that other launches of their side compute too


def is_compute(node: Node) -> bool:
    """Return whether a node is an op that computes, or moves memory."""
    return node.op.startswith("call_") and node.target not in _VIEWS


def differences(pair: Matched) -> tuple[Difference, ...]:
    """Return all differences but those of a configuration that was chosen by timing."""
    before, after = pair.before.kernel, pair.after.kernel
    found = [
        *_kind(before, after),
        *_nodes(pair),
        *_reduction(before, after),
        *_mapping(Aspect.TEMPLATE, constants(before), constants(after)),
        *_signature(before, after),
        *(_given(pair) if {before.kind, after.kind} == {KernelKind.USER} else ()),
        *_mapping(Aspect.TILING, _hints(before), _hints(after), both=True),
    ]
    if before.kind is after.kind:
        found += _code(pair, {difference.aspect for difference in found})
    return tuple(found)


def configurations(before: Kernel, after: Kernel) -> tuple[tuple[Difference, ...], bool]:
    """Return how the chosen configurations differ; and whether only timing decided so, among equal candidates."""
    one, other = _chosen(before), _chosen(after)
    if one is None or other is None:
        return (), True
    found = (
        *_mapping(Aspect.TILING, *_apart(one, other, warps=False)),
        *_mapping(Aspect.WARPS, *_apart(one, other, warps=True)),
    )
    return found, _candidates(before) == _candidates(after)


def _apart(one: KernelConfig, other: KernelConfig, *, warps: bool) -> list[dict[str, str]]:
    both = one.values.keys() & other.values.keys()  # a log names a template's constants, too
    return [{n: str(c.values[n]) for n in both if (n in _WARPS) is warps} for c in (one, other)]


def _chosen(kernel: Kernel) -> KernelConfig | None:
    return next((config for config in kernel.configs if config.chosen), None)


def _candidates(kernel: Kernel) -> object:
    """What a configuration was chosen from: coordinate descent starts there, and ends where timing leads it."""
    timed = [c for c in kernel.configs if c.milliseconds is not None]
    descends = bool(kernel.meta.get("coordinate_descent_tuning"))
    return {tuple(sorted((n, str(v)) for n, v in c.values.items())) for c in timed or kernel.configs}, descends


def _kind(before: Kernel, after: Kernel) -> Iterator[Difference]:
    library = before.kind.is_library and after.kind.is_library
    if before.kind is not after.kind and not library:
        yield Difference(Aspect.KIND, "", _maker(before), _maker(after))
    elif before.language != after.language and not library:
        yield Difference(Aspect.KIND, "", before.language, after.language)
    elif library and before.name != after.name:
        yield Difference(Aspect.KIND, "", before.name, after.name)


def _maker(kernel: Kernel) -> str:
    if kernel.kind.is_library:
        return kernel.name
    kind = "" if kernel.language and kernel.kind is KernelKind.OTHER else kernel.kind.value
    return f"{unusual_language(kernel)} {kind}".strip()


def _nodes(pair: Matched) -> Iterator[Difference]:
    """Yield what the nodes show: ops gained and lost, and nodes that are the same in all but their op, shape, dtype."""
    there = set(pair.after.launch.nodes)
    both = [(name, pair.names[name]) for name in pair.before.launch.nodes if pair.names.get(name) in there]
    found: list[Difference] = []
    for name, other in both:
        one, theirs = pair.nodes[0].get(name), pair.nodes[1].get(other)
        if one and theirs:
            found += _node(one, theirs)
            # What it is given: a sum over the batch is as large as before, and so is what a library's call writes.
            inputs = zip(one.inputs, theirs.inputs, strict=True) if len(one.inputs) == len(theirs.inputs) else ()
            for given, other_given in inputs:
                if given in pair.nodes[0] and other_given in pair.nodes[1]:
                    found += _specs(pair.nodes[0][given], pair.nodes[1][other_given])
    swapped = [difference for difference in found if difference.aspect is Aspect.OPS]
    before, after = {difference.before for difference in swapped}, {difference.after for difference in swapped}
    gone = _ops(pair.before, pair.nodes[0], {b for b, _ in both}, pair.elsewhere[0]) - before - after
    come = _ops(pair.after, pair.nodes[1], {a for _, a in both}, pair.elsewhere[1]) - before - after
    yield from (_with_kin(d, gone, come) if d.aspect is Aspect.OPS else d for d in found)
    gone, come = gone - _kin(before, gone), come - _kin(after, come)
    if both and gone != come:
        yield Difference(Aspect.FUSED, "", " ".join(sorted(gone - come)), " ".join(sorted(come - gone)))


def _with_kin(difference: Difference, gone: Collection[str], come: Collection[str]) -> Difference:
    before = {difference.before} | _kin({difference.before}, gone)
    after = {difference.after} | _kin({difference.after}, come)
    return Difference(Aspect.OPS, "", " ".join(sorted(before)), " ".join(sorted(after)))


def _kin(targets: Collection[str], others: Collection[str]) -> set[str]:
    """The derivatives of ops, or what they are derivatives of: a backward computes some of the forward once more."""
    stems = {target.replace("_backward", "") for target in targets}
    return {other for other in others if other.replace("_backward", "") in stems}


def _ops(called: Called, nodes: Mapping[str, Node], same: set[str], elsewhere: Collection[str]) -> set[str]:
    own = (nodes[name] for name in called.launch.nodes if name in nodes and name not in same and name not in elsewhere)
    return {node.original_aten or node.target for node in own if is_compute(node)}


def _node(before: Node, after: Node) -> Iterator[Difference]:
    if before.target != after.target:
        told = before.original_aten, after.original_aten
        same = told[0] == told[1] or not all(told)
        yield Difference(Aspect.OPS, "", *((before.target, after.target) if same else told))
    yield from _specs(before, after)


def _specs(before: Node, after: Node) -> Iterator[Difference]:
    for one, other in zip(before.specs, after.specs, strict=False):
        if one.dtype != other.dtype:
            yield Difference(Aspect.DTYPE, "", one.dtype, other.dtype)
        if one.shape != other.shape:
            shapes = [f"[{', '.join(map(str, spec.shape))}]" for spec in (one, other)]
            yield Difference(Aspect.SIZES, "", *shapes)
        elif one.stride != other.stride and one.stride and other.stride:
            strides = [f"({', '.join(map(str, stride))})" for stride in (one.stride, other.stride)]
            yield Difference(Aspect.ACCESS, "stride", *strides)


def _reduction(before: Kernel, after: Kernel) -> Iterator[Difference]:
    if before.kind is not after.kind:
        return
    if before.shape != after.shape:
        yield Difference(Aspect.REDUCTION, "", before.shape, after.shape)
    hints = [str(kernel.meta.get("reduction_hint", "")) for kernel in (before, after)]
    if all(hints) and hints[0] != hints[1]:
        yield Difference(Aspect.REDUCTION, "reduction_hint", *hints)


def _hints(kernel: Kernel) -> Mapping[str, str]:
    hints = kernel.meta.get("size_hints")
    return {f"size_hints.{name}": str(value) for name, value in hints.items()} if isinstance(hints, Mapping) else {}


def _signature(before: Kernel, after: Kernel) -> Iterator[Difference]:
    """Types of the pointers; only where both have as many: else more is different than types."""
    sides = pointers(before), pointers(after)
    if before.kind is after.kind and len(sides[0]) == len(sides[1]):
        for one, other in dict.fromkeys(zip(*sides, strict=True)):
            if one != other:
                yield Difference(Aspect.DTYPE, "", one, other)


def pointers(kernel: Kernel) -> tuple[str, ...]:
    """Return the types of what a Triton kernel points to: fp32, bf16."""
    signature = kernel.meta.get("signature")
    types = map(str, signature.values()) if isinstance(signature, Mapping) else ()
    return tuple(t[1:] for t in types if t.startswith("*"))


def _given(pair: Matched) -> Iterator[Difference]:
    """What a kernel of the user's own is called with."""
    sides = (pair.before, pair.after)
    before, after = (sizes_given(one.kernel, one.launch) for one in sides)
    yield from _mapping(Aspect.SIZES, before, after)
    before, after = (constants_given(one.kernel) for one in sides)
    yield from _mapping(Aspect.TILING, before, after)


def _mapping(
    aspect: Aspect, before: Mapping[str, str], after: Mapping[str, str], *, both: bool = False
) -> Iterator[Difference]:
    if both and not (before and after):
        return
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield Difference(aspect, name, before.get(name, ""), after.get(name, ""))


def _code(pair: Matched, known: set[Aspect]) -> Iterator[Difference]:
    """Yield what only the code shows."""
    before, after = pair.before.kernel, pair.after.kernel
    one, other = pair.texts.of(before), pair.texts.of(after)
    called = call(before, pair.before.launch), call(after, pair.after.launch)
    if known & _NOT_CODE:
        return
    if one != other:
        aspect = Aspect.ACCESS if _only_indices(one, other) else Aspect.CODE
        yield Difference(aspect, "", *_first_line(one, other))
    if before.name == after.name and called[0] != called[1] and Aspect.ACCESS not in known:
        aspect = Aspect.ACCESS if without_numbers(called[0]) == without_numbers(called[1]) else Aspect.CODE
        yield Difference(aspect, "", *called)


def _only_indices(one: str, other: str) -> bool:
    return without_memory(one) == without_memory(other) or without_numbers(one) == without_numbers(other)


def _first_line(one: str, other: str) -> tuple[str, str]:
    lines, others = one.splitlines(), other.splitlines()
    for line, theirs in zip(lines, others, strict=False):
        if line != theirs:
            return line.strip(), theirs.strip()
    rest = (lines[len(others) :] or [""])[0], (others[len(lines) :] or [""])[0]
    return rest[0].strip(), rest[1].strip()
