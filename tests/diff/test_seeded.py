"""One thing is changed, on real compiles: it is found, and nothing else is told."""

import pytest
from msgspec.structs import replace
from two_recordings import compared, cpu, edited, gpu

from compiler_lens.facts.compare import diff
from compiler_lens.facts.compare.model import Aspect, KernelChange, MatchMethod, RecordingDiff, Verdict
from compiler_lens.recording.model import Graph, GraphStage, Kernel, KernelConfig, KernelKind, Node, Recording


def graph_told(d: RecordingDiff, stage: GraphStage) -> dict[tuple[str, str], int]:
    return {(n.before, n.after): n.times for g in d.graphs if g.stage is stage for n in g.nodes}


def nothing_but(d: RecordingDiff, *names: str) -> None:
    for name in ("frames", "breaks", "recompiles", "autotunes", "cudagraphs", "settings", "graphs", "kernels"):
        assert bool(getattr(d, name)) is (name in names), name


def test_one_op() -> None:
    d = compared("base", "op")

    nothing_but(d, "graphs", "kernels")
    relu, silu = "torch.nn.functional.relu f32[8, 32]", "torch.nn.functional.silu f32[8, 32]"
    assert graph_told(d, GraphStage.DYNAMO) == {(relu, silu): 2}
    forward = [change for change in d.kernels if change.verdict is Verdict.CHANGED]
    assert [(c.aspects, len(c.cases)) for c in forward] == [((Aspect.OPS,), 2)]
    assert {(x.before, x.after) for x in forward[0].differences} == {("aten.relu.default", "aten.silu.default")}
    assert len(d.identical) == 20
    assert all("relu" not in one.kernel for case in d.identical for one in case.before)


def test_one_shape() -> None:
    d = compared("base", "shape")

    nothing_but(d, "settings", "graphs", "kernels")
    assert [(s.name, s.before, s.after) for s in d.settings] == [("input x", "f32[8, 16]", "f32[24, 16]")]
    assert {change.verdict for change in d.kernels} == {Verdict.CHANGED}
    assert sum(len(change.cases) for change in d.kernels) == 29
    assert {change.method for change in d.kernels} == {MatchMethod.ORIGINS}
    for change in d.kernels:
        assert Aspect.SIZES in change.aspects
        assert set(change.aspects) <= {Aspect.SIZES, Aspect.ACCESS}
    changed = {(before, after) for before, after in graph_told(d, GraphStage.DYNAMO)}
    assert ("torch.nn.functional.relu f32[8, 32]", "torch.nn.functional.relu f32[24, 32]") in changed
    assert all(before.partition(" ")[0] == after.partition(" ")[0] for before, after in changed)


def test_one_dtype() -> None:
    d = compared("base", "dtype")

    nothing_but(d, "settings", "graphs", "kernels")
    assert [(s.name, s.before, s.after) for s in d.settings] == [("input x", "f32[8, 16]", "f64[8, 16]")]
    assert {change.aspects for change in d.kernels} == {(Aspect.DTYPE,)}
    assert {(x.before, x.after) for c in d.kernels for x in c.differences} == {("f32", "f64")}
    assert sum(len(change.cases) for change in d.kernels) == 29


def test_one_option() -> None:
    d = compared("base", "option")

    nothing_but(d, "settings", "kernels")
    assert [(s.name, s.before, s.after) for s in d.settings] == [("options", "", "max_fusion_size=1")]
    assert len(d.identical) == 20
    assert Verdict.ADDED not in {c.verdict for c in d.kernels}
    assert Verdict.REMOVED not in {c.verdict for c in d.kernels}


def test_templates_take_over_from_the_library() -> None:
    d = diff(gpu("gpt-default-cold"), gpu("gpt-max-autotune-cold"))
    made: dict[object, list[KernelChange]] = {}
    for c in d.kernels:
        kinds = c.verdict, tuple(one.kind for one in c.first.before), c.first.after[0].kind
        made.setdefault(kinds, []).append(c)
    library, triton, template = KernelKind.EXTERN, KernelKind.TRITON, KernelKind.TEMPLATE

    (merged,) = made[Verdict.MERGED, (library, triton), template]
    assert len(merged.cases) == 4
    replaced = made[Verdict.CHANGED, (library,), template]
    told = {(x.before, x.after) for c in replaced for x in c.differences if x.aspect is Aspect.KIND}
    assert told == {("extern_kernels.addmm", "template"), ("extern_kernels.mm", "template")}
    cases = [case for c in replaced for case in c.cases]
    assert len(cases) == 5
    assert all("mm" in one.ops[0] or len(one.ops) > 1 for case in cases for one in case.before)
    tuned = [c for c in d.kernels if set(c.aspects) <= {Aspect.TILING, Aspect.WARPS} and c.verdict is Verdict.CHANGED]
    assert sum(len(c.cases) for c in tuned) == 24
    assert {c.method for c in tuned} == {MatchMethod.SOURCE}
    assert not d.graphs


# -- edited recordings of a GPU


def one_kernel(recording: Recording, name: str, change: dict[str, object]) -> Recording:
    kernels = tuple(replace(k, **change) if k.name == name else k for k in recording.kernels)  # type: ignore[arg-type]
    return replace(recording, kernels=kernels)


def kernel(recording: Recording, part: str) -> Kernel:
    return next(k for k in recording.kernels if part in k.name and len(k.launches) == 1)


def only_change(d: RecordingDiff, aspect: Aspect) -> tuple[str, str, str]:
    nothing_but(d, "kernels")
    (change,) = d.kernels
    assert len(change.cases) == 1
    assert change.aspects == (aspect,)
    (difference,) = change.differences
    return difference.name, difference.before, difference.after


def test_a_configuration_that_was_not_timed() -> None:
    """A heuristic has one candidate: another one is a decision of the compiler's."""
    one = gpu("gpt-default-cold")
    found = kernel(one, "triton_per_fused__to_copy_native")
    config = KernelConfig({**found.configs[0].values, "num_warps": 8}, chosen=True)
    d = diff(one, one_kernel(one, found.name, {"configs": (config,)}))

    assert only_change(d, Aspect.WARPS) == ("num_warps", "1", "8")
    assert d.kernels[0].method is MatchMethod.SOURCE


def test_a_configuration_chosen_by_timing_is_no_difference() -> None:
    one = gpu("gpt-default-cold")
    found = kernel(one, "triton_poi_fused__to_copy_1")
    swapped = tuple(replace(config, chosen=not config.chosen) for config in found.configs)
    d = diff(one, one_kernel(one, found.name, {"configs": swapped}))

    assert d.is_empty
    assert [case.before[0].kernel for case in d.retuned] == [found.name]


@pytest.mark.parametrize(
    ("old", "new", "aspect"),
    [
        ("512*x0", "640*x0", Aspect.ACCESS),
        ("tl.where(xmask, tmp1, 0)", "tl.where(xmask, tmp1, 1.5)", Aspect.ACCESS),
        ("libdevice.rsqrt(tmp20)", "libdevice.sqrt(tmp20)", Aspect.CODE),
    ],
)
def test_other_code(old: str, new: str, aspect: Aspect) -> None:
    one = gpu("gpt-max-autotune-cold")
    found = kernel(one, "triton_per_fused__to_copy_native")
    assert old in found.source
    d = diff(one, one_kernel(one, found.name, {"source": found.source.replace(old, new)}))

    _, before, after = only_change(d, aspect)
    assert before != after


def test_another_tile_of_a_template() -> None:
    one = gpu("gpt-max-autotune-cold")
    found = kernel(one, "triton_tem_fused__to_copy_mm_t_3")
    source = found.source.replace("BLOCK_N : tl.constexpr = 128", "BLOCK_N : tl.constexpr = 64")
    d = diff(one, one_kernel(one, found.name, {"source": source}))

    assert only_change(d, Aspect.TEMPLATE) == ("BLOCK_N", "128", "64")


def test_size_hints_and_the_kind_of_reduction() -> None:
    one = gpu("gpt-default-cold")
    found = kernel(one, "triton_per_fused__to_copy_native")
    changed = {"shape": "reduction", "source": found.source.replace("tmp27", "tmp27 + 0")}
    d = diff(one, one_kernel(one, found.name, changed))

    assert only_change(d, Aspect.REDUCTION) == ("", "persistent_reduction", "reduction")


def nodes(recording: Recording, stage: GraphStage, change: object) -> Recording:
    def graph(old: Graph) -> Graph:
        return replace(old, nodes=tuple(change(old.nodes))) if old.stage is stage else old  # type: ignore[operator]

    return replace(recording, graphs=tuple(map(graph, recording.graphs)))


def test_an_op_that_is_gone() -> None:
    one = gpu("gpt-default-cold")
    d = diff(one, nodes(one, GraphStage.DYNAMO, lambda all_: [n for n in all_ if n.name != "gelu"]))

    nothing_but(d, "graphs")
    ((change,),) = [g.nodes for g in d.graphs]
    assert (change.verdict, change.after, change.nodes) == (Verdict.REMOVED, "", (("gelu", ""),))
    assert change.line is not None
    assert "F.gelu" in change.line.code


def test_an_op_that_moved() -> None:
    one = gpu("gpt-default-cold")

    def moved(all_: tuple[Node, ...]) -> list[Node]:
        rest = [n for n in all_ if n.name != "gelu"]
        return [*rest[:14], *(n for n in all_ if n.name == "gelu"), *rest[14:]]

    d = diff(one, nodes(one, GraphStage.DYNAMO, moved))
    ((change,),) = [g.nodes for g in d.graphs]
    assert (change.verdict, change.nodes) == (Verdict.IDENTICAL, (("gelu", "gelu"),))


def test_an_argument_that_changed() -> None:
    one = cpu("base")

    def other(node: Node) -> Node:
        if "log_softmax" not in node.target or node.op != "call_method":
            return node
        return replace(node, arguments=node.arguments.replace("-1", "0"))

    d = diff(one, edited(one, other))
    (change,) = [n for g in d.graphs for n in g.nodes if g.stage is GraphStage.DYNAMO]
    assert change.verdict is Verdict.CHANGED
    assert "(%, -1)" in change.before
    assert "(%, 0)" in change.after
