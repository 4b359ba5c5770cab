"""The laws of kernels over a graph: a box holds ops of its launch alone, and as many as the list of kernels tells."""

from __future__ import annotations

from collections import Counter

import made
import pytest
from msgspec.structs import replace

from compiler_lens import draw, load
from compiler_lens.facts.graphs.levels import BoxKind, levels
from compiler_lens.facts.kernels.kernels import fused_op_count, view_nodes
from compiler_lens.facts.kernels.launches import launches_by_graph
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import Direction, GraphStage, Kernel, KernelKind, Launch, Recording
from compiler_lens.views.picture.labels import lines, tooltip

STAGES = {GraphStage.POST_GRAD, GraphStage.POST_GRAD_BACKWARD}
RECORDED = sorted(
    path.name.removesuffix(".clens.gz") for folder in (made.DATA, made.GPU) for path in folder.glob("*.clens.gz")
)


def drawn(name):
    recording = made.recorded(name)
    for graph in recording.graphs:
        if graph.stage in STAGES:
            calls = {call.place: call for several in launches_by_graph(recording, graph).values() for call in several}
            yield recording, levels(recording, graph, kernels=True), calls


def kernel_groups(group):
    for child in group.children:
        if not isinstance(child, int):
            yield from [child] if child.kernel else kernel_groups(child)


def working(known, group):
    steps = known.flow.steps[group.first : group.last]
    return [node for step in steps for node in step.nodes if not is_view(node.target)]


@pytest.mark.parametrize("name", RECORDED)
def test_every_op_in_a_kernels_box_is_one_of_that_launch(name):
    for _, known, calls in drawn(name):
        for group in kernel_groups(known.root):
            places = {known.launched[step] and known.launched[step][0] for step in range(group.first, group.last)}
            assert len(places) == 1
            own = set(calls[places.pop()].nodes)
            names = [node.name.rpartition(".")[2] for node in working(known, group)]
            assert names, group.label
            assert set(names) <= own, group.label


@pytest.mark.parametrize("name", RECORDED)
def test_the_parts_of_a_launch_have_as_many_ops_as_the_list_of_kernels_tells(name):
    for recording, known, calls in drawn(name):
        views = view_nodes(recording.graphs)
        told: Counter[int] = Counter()
        parts: Counter[int] = Counter()
        for group in kernel_groups(known.root):
            place, _ = known.launched[group.first]
            assert group.share.ops == len(working(known, group))
            told[place] += group.share.ops + group.share.again
            parts[place] += 1
            assert group.share.part == parts[place] <= group.share.parts
        for place, count in told.items():
            kernel = calls[place].kernel
            one = Kernel(
                kernel.compile_id, kernel.direction, "", kernel.kind, launches=(kernel.launches[calls[place].number],)
            )
            assert count == fused_op_count(one, views), kernel.name


# -- made by hand


def kernel(name, *launches, kind=KernelKind.CPP):
    return Kernel(made.ID, Direction.FORWARD, name, kind, launches=tuple(Launch(n, "", nodes) for n, nodes in launches))


def known_of(ops, *kernels):
    graph = made.graph_of(ops, stage=GraphStage.POST_GRAD)
    return levels(Recording(graphs=(graph,), kernels=kernels), graph, kernels=True)


def boxes(known):
    shown = [box for box in known.level().boxes if box.kind in {BoxKind.OP, BoxKind.GROUP}]
    return [(box.group.label if box.group else box.nodes[0].name, [node.name for node in box.nodes]) for box in shown]


def chain_of(*names):
    return [made.op(name, before) for name, before in zip(names, ("x", *names), strict=False)]


def test_a_kernel_at_both_ends_of_a_graph_swallows_nothing_between():
    """`arange` is counted to the last kernel, which stores it, and read by the first, which has it inside."""
    ops = [made.op("iota"), made.op("a", "x", "iota"), made.op("b", "a"), made.op("c", "b")]
    known = known_of(ops, kernel("first", (1, ("a",))), kernel("mid", (2, ("b",))), kernel("last", (3, ("c", "iota"))))
    assert boxes(known) == [("iota", ["iota"]), ("first", ["a"]), ("mid", ["b"]), ("last", ["c"])]
    assert [(group.share.ops, group.share.again) for group in kernel_groups(known.root)] == [(1, 0), (1, 0), (1, 1)]


def test_what_stands_between_two_ops_of_a_kernel_parts_it():
    library = kernel("extern_kernels.add", (2, ("c",)), kind=KernelKind.EXTERN)
    known = known_of(chain_of("a", "b", "c", "d"), kernel("k", (1, ("a", "d"))), library)
    assert boxes(known) == [("k", ["a"]), ("b", ["b"]), ("extern_kernels.add", ["c"]), ("k", ["d"])]
    shown = [box for box in known.level().boxes if box.group and box.group.label == "k"]
    assert [lines(box)[1] for box in shown] == ["C++ · part 1 of 2, 1 op", "C++ · part 2 of 2, 1 op"]
    assert "part 1 of 2: what stands between is not of this kernel" in tooltip(shown[0])


def test_an_op_of_no_kernel_is_none_of_the_one_around_it_a_view_is():
    around = kernel("k", (1, ("a", "c")))
    assert boxes(known_of(chain_of("a", "b", "c"), around)) == [("k", ["a"]), ("b", ["b"]), ("k", ["c"])]
    first, between, last = chain_of("a", "b", "c")
    view = replace(between, target="torch.ops.aten.permute.default")
    assert boxes(known_of([first, view, last], around)) == [("k", ["a", "b", "c"])]


def test_an_op_of_no_kernel_that_a_launch_does_not_read_stands_behind_it():
    ops = [made.op("a", "x"), made.op("s", "a"), made.op("b", "a")]
    assert boxes(known_of(ops, kernel("k", (1, ("a", "b"))))) == [("k", ["a", "b"]), ("s", ["s"])]


def test_an_op_of_no_kernel_that_needs_none_of_a_launch_stands_before_it():
    ops = [made.op("a", "x"), made.op("w"), made.op("b", "a", "w")]
    assert boxes(known_of(ops, kernel("k", (1, ("a", "b"))))) == [("w", ["w"]), ("k", ["a", "b"])]


def test_a_library_call_is_no_part_of_the_kernel_that_lays_out_its_input():
    conv = "torch.ops.aten.convolution.default"
    ops = [made.op("a", "x"), made.op("conv", "a", target=conv), made.op("b", "conv")]
    layout = kernel("cpp_fused_convolution_0", (1, ("a", "conv")))
    library = kernel("extern_kernels.convolution", (2, ("conv",)), kind=KernelKind.EXTERN)
    known = known_of(ops, layout, library, kernel("cpp_fused_add_1", (3, ("b", "conv"))))
    assert boxes(known) == [
        ("cpp_fused_convolution_0", ["a"]), ("extern_kernels.convolution", ["conv"]), ("cpp_fused_add_1", ["b"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("called", "of"),
    [("extern_kernels.bias_addmm", "addmm"), ("aten.index_put_", "index_put"), ("aten.sdpa_flash", "le")],
)
def test_which_op_a_library_call_is_of_its_name_tells(called, of):
    ops = [made.op("a", "x"), made.op("b", "a", target=f"torch.ops.aten.{of}.default"), made.op("c", "b")]
    call = kernel(called, (2, ("b", "c")), kind=KernelKind.FALLBACK)
    found = dict(boxes(known_of(ops, kernel("k", (1, ("a", "b"))), call)))
    assert found == ({"k": ["a", "b"], called: ["c"]} if of == "le" else {"k": ["a"], called: ["b", "c"]})


def test_a_library_call_has_ops_that_are_not_called_like_it():
    ops = [made.op("m", "x", target="torch.ops.aten.mm.default"), made.op("a", "m")]
    fused = kernel("extern_kernels._mm_plus_mm", (1, ("m", "a")), kind=KernelKind.EXTERN)
    assert boxes(known_of(ops, fused)) == [("extern_kernels._mm_plus_mm", ["m", "a"])]


@pytest.mark.parametrize(
    ("name", "stage", "told"),
    [
        (
            "gpt-max-autotune-cold.trace.log",
            "kernels",
            "5 of 17 launches in no box: what they compute is not recorded",
        ),
        ("oddities-reduce-overhead-cold.clens", "kernels", "2 of 4 launches in no box: what they compute"),
    ],
)
def test_launches_in_no_box_are_told(name, stage, told):
    recording = load(made.GPU / f"{name}.gz")
    drawing = draw(recording, stage, "0/0")
    assert told in drawing.svg
    for other, known, _ in drawn("gpt-default-cold"):
        assert not known.unplaced_launches
        assert "in no box" not in draw(other, stage).svg


def test_a_launch_of_what_other_boxes_have_is_told():
    known = known_of(chain_of("a"), kernel("k", (1, ("a",))), kernel("l", (2, ("gone",))), kernel("m", (3, ())))
    assert [call.kernel.name for call in known.unplaced_launches] == ["l", "m"]


def test_an_op_that_is_computed_again_stands_where_it_is_computed_first():
    known = known_of(chain_of("a", "b"), kernel("k", (1, ("a",))), kernel("l", (2, ("a", "b"))))
    box = known.level().boxes[1]
    assert lines(box)[1] == "C++ · 1 op, 1 again"
    assert "computes 1 op again that stand where they are computed first" in tooltip(box)


def test_a_transposed_weight_stands_where_it_is_read():
    """torch reads such views at no launch: they would all stand at the top."""
    view = made.op("t", "w", target="torch.ops.aten.permute.default")
    ops = [made.op("a", "x"), view, made.op("b", "a", "t")]
    assert boxes(known_of(ops, kernel("k", (1, ("a",))), kernel("l", (2, ("b",))))) == [
        ("k", ["a"]), ("t", ["t"]), ("l", ["b"]),
    ]  # fmt: skip
