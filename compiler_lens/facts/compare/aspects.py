"""In what two launches differ that are each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest

from msgspec import Struct, field

from compiler_lens.facts.compare import source
from compiler_lens.facts.compare.model import Aspect, Difference
from compiler_lens.facts.compare.programs import Called
from compiler_lens.facts.kernels.kernels import unusual_language
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import Kernel, KernelKind, Node

_WARPS = ("num_warps", "num_stages", "num_ctas", "num_buffers_warp_spec", "num_consumer_groups", "waves_per_eu")
_NOT_CODE = {Aspect.KIND, Aspect.OPS, Aspect.FUSED, Aspect.SIZES, Aspect.DTYPE, Aspect.REDUCTION, Aspect.TEMPLATE}


class Texts(Struct, frozen=True):
    """What is read from kernels' code, each kernel once."""

    code: dict[tuple[str, str], str] = field(default_factory=dict)  # by name and source

    def of(self, kernel: Kernel) -> str:
        """Return the normalised code of a kernel."""
        key = kernel.name, kernel.source
        if key not in self.code:
            self.code[key] = source.normalised(kernel)
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
    return node.op.startswith("call_") and not is_view(node.target)


def differences(pair: Matched) -> tuple[Difference, ...]:
    """Return all differences but those of a configuration that was chosen by timing."""
    found = [*_kind(pair.before.kernel, pair.after.kernel), *_nodes(pair), *_settings(pair)]
    if pair.before.kernel.kind is pair.after.kernel.kind:
        found += _code(pair, {difference.aspect for difference in found})
    return tuple(found)


def configurations(before: Kernel, after: Kernel) -> tuple[tuple[Difference, ...], bool]:
    """Return how the chosen configurations differ; and whether only timing decided so, among equal candidates."""
    one, other = (next((c.values for c in kernel.configs if c.chosen), None) for kernel in (before, after))
    if one is None or other is None:
        return (), True
    both = one.keys() & other.keys()  # a log names a template's constants, too
    found: list[Difference] = []
    for aspect, names in ((Aspect.TILING, both.difference(_WARPS)), (Aspect.WARPS, both.intersection(_WARPS))):
        found += _mapping(aspect, *({name: str(values[name]) for name in names} for values in (one, other)))
    return tuple(found), _candidates(before) == _candidates(after)


def _candidates(kernel: Kernel) -> object:
    """What a configuration was chosen from: coordinate descent starts there, and ends where timing leads it."""
    timed = [c for c in kernel.configs if c.milliseconds is not None]
    descends = bool(kernel.meta.get("coordinate_descent_tuning"))
    return {tuple(sorted((n, str(v)) for n, v in c.values.items())) for c in timed or kernel.configs}, descends


def _kind(before: Kernel, after: Kernel) -> Iterator[Difference]:
    if before.kind.is_library and after.kind.is_library:
        if before.name != after.name:
            yield Difference(Aspect.KIND, "", before.name, after.name)
    elif before.kind is not after.kind:
        yield Difference(Aspect.KIND, "", _maker(before), _maker(after))
    elif before.language != after.language:
        yield Difference(Aspect.KIND, "", before.language, after.language)


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
    for name, other_name in both:
        one, other = pair.nodes[0].get(name), pair.nodes[1].get(other_name)
        if not (one and other):
            continue
        if one.target != other.target:
            ops = one.original_aten, other.original_aten
            is_finer = ops[0] == ops[1] or not all(ops)
            found.append(Difference(Aspect.OPS, "", *((one.target, other.target) if is_finer else ops)))
        found += _specs(one, other)
        # What it is given: a sum over the batch is as large as before, and so is what a library's call writes.
        inputs = zip(one.inputs, other.inputs, strict=True) if len(one.inputs) == len(other.inputs) else ()
        for given, other_given in inputs:
            if given in pair.nodes[0] and other_given in pair.nodes[1]:
                found += _specs(pair.nodes[0][given], pair.nodes[1][other_given])
    before = {difference.before for difference in found if difference.aspect is Aspect.OPS}
    after = {difference.after for difference in found if difference.aspect is Aspect.OPS}
    gone = _ops(pair.before, pair.nodes[0], {*pair.elsewhere[0], *(b for b, _ in both)}) - before - after
    come = _ops(pair.after, pair.nodes[1], {*pair.elsewhere[1], *(a for _, a in both)}) - before - after
    for difference in found:
        if difference.aspect is Aspect.OPS:
            old, new = {difference.before}, {difference.after}
            ops = " ".join(sorted(old | _kin(old, gone))), " ".join(sorted(new | _kin(new, come)))
            yield Difference(Aspect.OPS, "", *ops)
        else:
            yield difference
    gone, come = gone - _kin(before, gone), come - _kin(after, come)
    if both and gone != come:
        yield Difference(Aspect.FUSED, "", " ".join(sorted(gone - come)), " ".join(sorted(come - gone)))


def _kin(targets: Collection[str], others: Collection[str]) -> set[str]:
    """The derivatives of ops, or what they are derivatives of: a backward computes some of the forward once more."""
    stems = {target.replace("_backward", "") for target in targets}
    return {other for other in others if other.replace("_backward", "") in stems}


def _ops(called: Called, nodes: Mapping[str, Node], but: Collection[str]) -> set[str]:
    own = (nodes[name] for name in called.launch.nodes if name in nodes and name not in but)
    return {node.original_aten or node.target for node in own if is_compute(node)}


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


def _settings(pair: Matched) -> Iterator[Difference]:
    """Yield what a kernel is made and called with: loops, a template's constants, types, the user's own sizes."""
    before, after = pair.before.kernel, pair.after.kernel
    if before.kind is after.kind:
        if before.shape != after.shape:
            yield Difference(Aspect.REDUCTION, "", before.shape, after.shape)
        hints = [str(kernel.meta.get("reduction_hint", "")) for kernel in (before, after)]
        if all(hints) and hints[0] != hints[1]:
            yield Difference(Aspect.REDUCTION, "reduction_hint", *hints)
    yield from _mapping(Aspect.TEMPLATE, source.constants(before), source.constants(after))
    types = pointers(before), pointers(after)
    # Only where both have as many: else more is different than types.
    if before.kind is after.kind and len(types[0]) == len(types[1]):
        for one, other in dict.fromkeys(zip(*types, strict=True)):
            if one != other:
                yield Difference(Aspect.DTYPE, "", one, other)
    if {before.kind, after.kind} == {KernelKind.USER}:
        given = (source.sizes_given(one.kernel, one.launch) for one in (pair.before, pair.after))
        yield from _mapping(Aspect.SIZES, *given)
        yield from _mapping(Aspect.TILING, source.constants_given(before), source.constants_given(after))
    sizes = [kernel.meta.get("size_hints") for kernel in (before, after)]
    if all(sizes) and all(isinstance(one, Mapping) for one in sizes):
        named = ({f"size_hints.{name}": str(value) for name, value in one.items()} for one in sizes)  # type: ignore[union-attr]
        yield from _mapping(Aspect.TILING, *named)


def pointers(kernel: Kernel) -> tuple[str, ...]:
    """Return the types of what a Triton kernel points to: fp32, bf16."""
    signature = kernel.meta.get("signature")
    types = map(str, signature.values()) if isinstance(signature, Mapping) else ()
    return tuple(t[1:] for t in types if t.startswith("*"))


def _mapping(aspect: Aspect, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield Difference(aspect, name, before.get(name, ""), after.get(name, ""))


def _code(pair: Matched, known: set[Aspect]) -> Iterator[Difference]:
    """Yield what only the code shows."""
    if known & _NOT_CODE:
        return
    before, after = pair.before.kernel, pair.after.kernel
    one, other = pair.texts.of(before), pair.texts.of(after)
    if one != other:
        is_index = any(left(one) == left(other) for left in (source.without_memory, source.without_numbers))
        lines = zip_longest(one.splitlines(), other.splitlines(), fillvalue="")
        first = next((line.strip(), theirs.strip()) for line, theirs in lines if line != theirs)
        yield Difference(Aspect.ACCESS if is_index else Aspect.CODE, "", *first)
    called = source.call(before, pair.before.launch), source.call(after, pair.after.launch)
    if before.name == after.name and called[0] != called[1] and Aspect.ACCESS not in known:
        is_index = source.without_numbers(called[0]) == source.without_numbers(called[1])
        yield Difference(Aspect.ACCESS if is_index else Aspect.CODE, "", *called)
