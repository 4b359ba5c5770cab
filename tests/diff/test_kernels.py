"""Launches matched, by hand: split, merged, regrouped; what torch says of a template; time."""

import json
import re

from msgspec.structs import replace
from two_recordings import gpu, mirrored

from compiler_lens.facts.compare import diff
from compiler_lens.facts.compare.model import Aspect, Difference, LaunchRef, MatchMethod, RecordingDiff, Times, Verdict
from compiler_lens.recording.model import (
    Compilation,
    CompileId,
    Direction,
    Graph,
    GraphStage,
    Kernel,
    KernelKind,
    Launch,
    LaunchTime,
    Node,
    Outcome,
    OutputCode,
    Profile,
    Recording,
    TensorSpec,
)
from compiler_lens.render.results import Diff
from compiler_lens.views.diff.pairs import side_code
from compiler_lens.views.diff.summary import call_words
from compiler_lens.views.diff.words import change_line, difference

ID = CompileId(0, 0)


def nodes(text: str, size: int = 8) -> tuple[Node, ...]:
    """`a:add b:mul`: a chain of ops."""
    made: list[Node] = [Node("x", "placeholder", "x", specs=(TensorSpec("f32", (size,)),))]
    for direction in text.split():
        name, _, op = direction.partition(":")
        target = f"torch.ops.aten.{op or name}.default"
        spec = TensorSpec("f32", (size,))
        made.append(Node(name, "call_function", target, (made[-1].name,), (spec,), arguments=made[-1].name))
    return tuple(made)


def made(graph: str, *kernels: str, times: dict[str, tuple[float, float]] | None = None, size: int = 8) -> Recording:
    """A recording of one program; a kernel is `a,b` for the nodes that it computes, `lib:a` for a library's."""
    built = []
    for line, text in enumerate(kernels):
        library, _, names = text.rpartition(":")
        covered = tuple(names.split(","))
        name = f"extern_kernels.{covered[0]}" if library else f"triton_poi_{'_'.join(covered)}_{line}"
        kind = KernelKind.EXTERN if library == "lib" else KernelKind.TEMPLATE if library else KernelKind.TRITON
        if library == "tem":
            name = f"triton_tem_{line}"
        source = "" if kind is KernelKind.EXTERN else f"@triton.jit\ndef {name}(in_ptr0):\n    {' '.join(covered)}"
        launch = Launch(line, ("buf0",), covered)
        shape = "" if library else "pointwise"
        built.append(Kernel(ID, Direction.INFERENCE, name, kind, shape, source, covered, launches=(launch,)))
    profiles = ()
    if times is not None:
        by_name = {k.nodes[0]: k.name for k in built}
        profiles = (
            Profile(
                5,
                100.0,
                1.0,
                50.0,
                tuple(
                    LaunchTime(ID, Direction.INFERENCE, 0, by_name[first], 0, micro, spread, 2.0)
                    for first, (micro, spread) in times.items()
                ),
            ),
        )
    return Recording(
        compilations=(Compilation(ID, "f", "/m.py", 1, Outcome.COMPILED),),
        graphs=(Graph(ID, GraphStage.POST_GRAD, "", nodes(graph, size)),),
        output_codes=(OutputCode(ID, Direction.INFERENCE, ""),),
        kernels=tuple(built),
        profiles=profiles,
    )


def told(d: RecordingDiff) -> list[tuple[Verdict, int, int]]:
    return [(c.verdict, len(c.first.before), len(c.first.after)) for c in d.kernels]


def test_one_kernel_became_two_and_back() -> None:
    one, two = made("a b c", "a,b,c"), made("a b c", "a,b", "c")

    assert told(diff(one, two)) == [(Verdict.SPLIT, 1, 2)]
    assert told(diff(two, one)) == [(Verdict.MERGED, 2, 1)]


def test_a_boundary_that_moved() -> None:
    d = diff(made("a b c d", "a,b", "c,d"), made("a b c d", "a", "b,c,d"))

    assert told(d) == [(Verdict.REGROUPED, 2, 2)]
    moved = Difference(Aspect.MOVED, "torch.ops.aten.b.default", "triton_poi_a_b_0", "triton_poi_b_c_d_1")
    assert d.kernels[0].differences == (moved,)
    assert change_line(d.kernels[0]).endswith(" (regrouped: b moved)")
    assert difference(moved) == "b moved from triton_poi_a_b_0 to triton_poi_b_c_d_1"


def test_boundaries_that_moved_are_told_together_where_the_same_moved() -> None:
    """Twelve layers have kernels of twelve names."""
    names = "a b c d", "e f:b g h"
    before = made(" ".join(names), "a,b", "c,d", "e,f", "g,h")
    after = made(" ".join(names), "a", "b,c,d", "e", "f,g,h")

    (change,) = diff(before, after).kernels
    assert [[d.name for d in case.differences] for case in change.cases] == [["torch.ops.aten.b.default"]] * 2
    assert change.differences == ()  # between other kernels each time


def test_what_several_kernels_compute_has_not_moved() -> None:
    d = diff(made("a b c d", "a,b", "b,c,d"), made("a b c d", "a", "b,c", "d"))

    moved = [difference.name for change in d.kernels for case in change.cases for difference in case.differences]
    assert moved == ["torch.ops.aten.d.default"]


def test_an_op_and_its_derivative_that_went_together_are_told_together() -> None:
    """A backward computes some of the forward once more."""
    before, after = made("a:gelu b:gelu_backward c", "a,b,c"), made("a:silu_backward c", "a,c")

    (change,) = diff(before, after).kernels
    assert ": gelu, gelu_backward → silu_backward" in change_line(change)
    assert "no longer" not in change_line(change)
    (back,) = diff(after, before).kernels
    assert ": silu_backward → gelu, gelu_backward" in change_line(back)
    (apart,) = diff(made("a:gelu b:relu c", "a,b,c"), made("a:silu c", "a,c")).kernels
    assert "no longer" in change_line(apart)  # another op is no derivative


def test_kernels_side_by_side_are_matched_each_to_its_own() -> None:
    d = diff(made("a b c", "a", "b", "c"), made("a b c", "c", "b", "a"))

    assert d.same_kernels
    assert {case.before[0].kernel[:12] for case in d.identical} == {case.after[0].kernel[:12] for case in d.identical}


def test_a_template_that_is_said_to_compute_what_it_reads() -> None:
    """torch counts to a template the nodes of what it reads; they are another kernel's."""
    before = made("n m:mm", "n", "lib:m")
    after = made("n m:mm", "n", "tem:m,n")
    d = diff(before, after)

    assert told(d) == [(Verdict.CHANGED, 1, 1)]
    assert d.kernels[0].aspects == (Aspect.KIND,)
    assert len(d.identical) == 1


def test_an_op_computed_anew_in_two_kernels_does_not_join_them() -> None:
    d = diff(made("r a b", "r,a", "r,b"), made("r a b c", "r,a", "r,b,c"))

    assert told(d) == [(Verdict.CHANGED, 1, 1)]
    (difference,) = [x for x in d.kernels[0].differences if x.aspect is Aspect.FUSED]
    assert (difference.before, difference.after) == ("", "torch.ops.aten.c.default")


def test_other_nodes_with_the_same_ops_are_matched_by_them() -> None:
    one = made("a:add b:mul", "a,b")
    other = replace(made("p:add q:mul", "p,q"), graphs=())
    d = diff(replace(one, graphs=()), other)
    assert {c.verdict for c in d.kernels} == {Verdict.REMOVED, Verdict.ADDED}

    with_ops = [
        replace(r, kernels=tuple(replace(k, aten=("aten.add", "aten.mul")) for k in r.kernels))
        for r in (replace(one, graphs=()), other)
    ]
    d = diff(*with_ops)
    assert [(c.verdict, c.method) for c in d.kernels] == [(Verdict.CHANGED, MatchMethod.OPS)]


def test_the_size_of_a_librarys_call_counts() -> None:
    """Its code does not hold it."""
    d = diff(made("m:mm", "lib:m"), made("m:mm", "lib:m", size=16))

    assert told(d) == [(Verdict.CHANGED, 1, 1)]
    assert [(x.aspect, x.before, x.after) for x in d.kernels[0].differences] == [(Aspect.SIZES, "[8]", "[16]")]


OWN = """
@triton_heuristics.user_autotune(
    configs=[],
    triton_meta={'signature': {'x': '*fp32', 'n': 'i32', 'BLOCK': 'constexpr'}, 'constants': {'BLOCK': 128}},
)
@triton.jit
def mine(x, n, BLOCK: tl.constexpr):
    tl.store(x + i, 1.0, mask=i < n)
"""


def own(size: str = "1000", grid: str = "(8, 1, 1)", block: str = "128", nodes: tuple[str, ...] = ()) -> Recording:
    """A program that calls a Triton kernel of the user's."""
    r = made("a", "lib:a")
    meta = {"signature": {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}}
    launch = Launch(1, ("buf1", size), nodes, grid=grid)
    source = OWN.replace("'BLOCK': 128", f"'BLOCK': {block}")
    kernel = Kernel(
        ID, Direction.INFERENCE, "mine_0", KernelKind.USER, "", source, nodes, launches=(launch,), meta=meta
    )
    return replace(r, kernels=(kernel,))


def test_a_users_own_kernel_is_not_the_same_on_another_shape() -> None:
    """Its code holds neither the sizes nor the grid, nor the constants that it is called with."""
    assert diff(own(), own()).is_empty
    for other, expected, line in (
        (own("2000"), [(Aspect.SIZES, "n", "1000", "2000")], "mine_0: sizes 1000 → 2000"),
        (own(grid="(16, 1, 1)"), [(Aspect.SIZES, "grid", "[8, 1, 1]", "[16, 1, 1]")], "mine_0: sizes 8 → 16"),
        (own(block="256"), [(Aspect.TILING, "BLOCK", "128", "256")], "mine_0: BLOCK 128 → 256"),
    ):
        (change,) = diff(own(), other).kernels
        assert [(x.aspect, x.name, x.before, x.after) for x in change.differences] == expected
        assert (change.verdict, change_line(change)) == (Verdict.CHANGED, line)
        (back,) = diff(other, own()).kernels
        assert mirrored(back) == change
    grown = replace(own(nodes=("a",)), graphs=made("a", "a", size=16).graphs)
    (change,) = diff(own(nodes=("a",)), grown).kernels
    assert [(x.aspect, x.before, x.after) for x in change.differences] == [(Aspect.SIZES, "[8]", "[16]")]


def test_times_of_some_launches_say_of_how_many() -> None:
    before = made("a b c", "a", "b", "c", times={"a": (10.0, 1.0), "b": (5.0, 1.0)})
    after = made("a b c", "a", "b,c", times={"a": (9.0, 1.0), "b": (9.0, 1.0)})
    d = diff(before, after)
    assert d.timed_launches == ((1, 3), (1, 2))
    assert call_words(d)[0] == (
        "Kernels in one call: 20.0 → 18.0 µs (not above noise); only of launches timed on both sides, 1 of 3 → 1 of 2"
    )
    assert json.loads(Diff(before, after, d).to_json())["timed_launches"] == {"before": [1, 3], "after": [1, 2]}
    whole = made("a b", "a", "b", times={"a": (10.0, 1.0), "b": (5.0, 1.0)})
    assert "timed on both sides" not in call_words(diff(whole, whole))[0]


def test_another_function_of_the_library_is_a_change() -> None:
    def called(name: str) -> Recording:
        r = made("m:addmm", "lib:m")
        return replace(r, kernels=tuple(replace(k, name=f"extern_kernels.{name}") for k in r.kernels))

    (change,) = diff(called("addmm"), called("bias_addmm")).kernels
    assert [(x.aspect, x.before, x.after) for x in change.differences] == [
        (Aspect.KIND, "extern_kernels.addmm", "extern_kernels.bias_addmm")
    ]
    assert change_line(change) == "extern_kernels.addmm → extern_kernels.bias_addmm"


def test_another_language_is_a_change_of_kind() -> None:
    def written(language: str, kind: KernelKind) -> Recording:
        r = made("m:mm", "tem:m")
        return replace(r, kernels=tuple(replace(k, language=language, kind=kind, source=language) for k in r.kernels))

    for after, kind, said in (
        ("CUTLASS", KernelKind.TEMPLATE, "Triton → CUTLASS"),
        ("Toy", KernelKind.OTHER, "template → Toy"),
    ):
        (change,) = diff(written("Triton", KernelKind.TEMPLATE), written(after, kind)).kernels
        assert change.aspects == (Aspect.KIND,)
        assert [difference(x) for x in change.differences] == [said]


def test_time_is_per_call_and_only_above_noise() -> None:
    before = made("a b c", "a", "b", "c", times={"a": (10.0, 1.0), "b": (5.0, 1.0), "c": (7.0, 0.0)})
    after = made("a b c", "a", "tem:b", "c", times={"a": (10.4, 1.0), "b": (2.0, 0.5), "c": (7.0, 0.0)})
    d = diff(before, after)

    (change,) = d.kernels
    assert change.times == Times(10.0, 4.0, 2.0, 1.0)  # two runs in each call
    assert change.times.above_noise
    same = {case.before[0].kernel: case.times for case in d.identical}
    assert not same["triton_poi_a_0"].above_noise
    assert d.kernel_times is not None
    assert (d.kernel_times.before, round(d.kernel_times.after, 6)) == (44.0, 38.8)


def test_a_launch_that_one_profile_does_not_have_takes_no_time_on_neither_side() -> None:
    """One side was profiled in inference, the other in training: the backward did not become slower."""
    before = made("a b c", "a", "b,c", times={"a": (10.0, 1.0)})
    after = made("a b c", "a", "b", "c", times={"a": (9.0, 1.0), "b": (5.0, 1.0), "c": (7.0, 0.0)})
    d = diff(before, after)
    assert [(change.verdict, change.times) for change in d.kernels] == [(Verdict.SPLIT, None)]
    assert d.kernel_times is not None
    assert (d.kernel_times.before, d.kernel_times.after) == (20.0, 18.0)
    known = made("a b", "a", "b", times={"a": (10.0, 1.0)})
    (removed,) = diff(known, made("a", "a", times={"a": (10.0, 1.0)})).kernels
    assert removed.times is None  # nobody knows what it took
    (added,) = diff(made("a", "a", times={"a": (1.0, 0.0)}), made("a b", "a", "b", times={"b": (5.0, 1.0)})).kernels
    assert added.times == Times(0.0, 10.0, 0.0, 2.0)


def test_a_launch_whose_nodes_a_log_does_not_tell_is_matched_by_its_ops_where_the_code_differs() -> None:
    known = gpu("gpt-max-autotune-profiled")
    d = diff(gpu("gpt-max-autotune-cold.trace.log.gz"), known)  # in float32, and without nodes where calls are several
    verdicts = {change.verdict for change in d.kernels for case in change.cases for one in (*case.before, *case.after)
                if one.kernel == "triton_red_fused_sum_1"}  # fmt: skip
    assert verdicts == {Verdict.CHANGED}
    back = diff(known, gpu("gpt-max-autotune-cold.trace.log.gz"))
    assert [change.cases for change in back.kernels] == [mirrored(change.cases) for change in d.kernels]


def test_of_several_profiles_the_last_one_tells_the_times_as_it_tells_the_calls() -> None:
    """Inference was profiled, then training: one call is not both."""
    first = made("a b", "a", "b", times={"a": (10.0, 1.0)})
    second = made("a b", "a", "b", times={"b": (5.0, 1.0)})
    both = replace(first, profiles=(*first.profiles, *second.profiles))
    d = diff(both, both)
    assert d.kernel_times is not None
    assert (d.kernel_times.before, d.kernel_times.after) == (10.0, 10.0)  # b, twice in a call


def test_without_a_profile_on_both_sides_there_are_no_times() -> None:
    d = diff(made("a b", "a", "b", times={"a": (10.0, 1.0)}), made("a b", "a", "tem:b"))

    assert d.kernel_times is None
    assert d.kernels[0].times is None


def test_twelve_layers_changed_alike_are_one_change() -> None:
    names = [f"m{i}" for i in range(12)]
    graph = " ".join(f"{name}:mm" for name in names)
    before = made(graph, *(f"lib:{name}" for name in names))
    kernels = tuple(replace(k, name="extern_kernels.mm") for k in before.kernels)
    d = diff(replace(before, kernels=kernels), made(graph, *(f"tem:{name}" for name in names)))

    assert [(c.verdict, len(c.cases)) for c in d.kernels] == [(Verdict.CHANGED, 12)]


def test_each_node_counts_where_it_is_most_at_home() -> None:
    """Another kernel changed as well: the template is still the library's call, and no part of that change."""
    d = diff(made("k n m:mm", "k,n", "lib:m"), made("n m:mm", "n", "tem:m,n"))

    assert sorted(told(d), key=repr) == [(Verdict.CHANGED, 1, 1)] * 2


def test_an_op_computed_anew_in_many_kernels_does_not_join_those_that_changed() -> None:
    before = made("r a b d x y", "r,a", "r,b", "r,d", "x", "y")
    after = made("r a b d x y", "r,a", "r,b,x", "r,d,y")

    assert [(c.verdict, len(c.cases)) for c in diff(before, after).kernels] == [(Verdict.MERGED, 2)]


def test_the_second_half_of_a_reduction_is_told_by_a_node_that_its_first_half_has_too() -> None:
    """torch counts the sum to both kernels that a large one is split into."""
    d = diff(gpu("gpt-default-profiled"), gpu("gpt-default-cold"))

    assert {change.verdict for change in d.kernels} == {Verdict.CHANGED}
    assert sum(len(change.cases) for change in d.kernels) == 8


def test_numbers_of_temporaries_are_names() -> None:
    one = gpu("gpt-default-cold")
    kernels = tuple(
        replace(k, source=re.sub(r"\btmp(\d+)", lambda found: f"tmp{int(found[1]) + 40}", k.source))
        for k in one.kernels
    )
    assert diff(one, replace(one, kernels=kernels)).is_empty


def test_a_launch_that_a_damaged_recording_lacks_is_shown_without_its_arguments() -> None:
    of = CompileId(0, 0)
    lacking = Kernel(of, Direction.INFERENCE, "extern_kernels.mm", KernelKind.EXTERN, "mm", "")
    ref = LaunchRef(of, Direction.INFERENCE, 0, lacking.name, lacking.kind, lacking.shape, 5, 0)
    assert side_code([ref], lambda _: lacking) == ("extern_kernels.mm()",)
