"""Which nodes a launch computes, of all that torch counts to it."""

from pathlib import Path

from compiler_lens import load
from compiler_lens.facts.kernels.fusion import computed, fusion
from compiler_lens.recording.model import (
    BufferAccess,
    CompileId,
    Direction,
    Graph,
    GraphStage,
    Launch,
    Node,
    TensorSpec,
)

GPU = Path(__file__).parents[1] / "gpu" / "data"
FULL, PART, ONE = (TensorSpec("f32", shape, ()) for shape in ((64, 8), (8, 8), (8,)))


def node(name, inputs="", spec=FULL, target="aten.mul.Tensor", op="call_function"):
    return Node(name, op, "" if op == "placeholder" else f"torch.ops.{target}", tuple(inputs.split()), (spec,))


def graph(*nodes):
    inputs = (node("x", op="placeholder"), node("w", op="placeholder"))
    used = {name for one in nodes for name in one.inputs}
    results = tuple(one.name for one in nodes if one.name not in used)
    return Graph(CompileId(0, 0), GraphStage.POST_GRAD, "", (*inputs, *nodes, Node("output", "output", "", results)))


def launch(nodes, reads="", **writes):
    sizes = {"full": FULL.bytes, "part": PART.bytes, "one": ONE.bytes}
    wrote = tuple(BufferAccess(name, sizes[size]) for name, size in writes.items())
    return Launch(1, (), tuple(nodes.split()), reads=tuple(BufferAccess(n, None) for n in reads.split()), writes=wrote)


def told(*args):
    return [" ".join(sorted(names)) for names in computed(*args)]


def test_what_two_launches_make_of_the_same_inputs_both_compute():
    known = graph(node("a", "x"), node("b", "a w"), node("c", "a"))
    assert told(known, [launch("a b", "x w", buf0="full"), launch("a c", "x", buf1="full")]) == ["a b", "a c"]


def test_the_second_half_of_a_split_sum_computes_nothing_of_what_went_into_the_first():
    total = node("sum_1", "b", ONE, "aten.sum.dim_IntList")
    known = graph(node("a", "x"), node("b", "a w"), total, node("c", "sum_1", ONE))
    halves = [launch("a b sum_1", "x w", buf0="part"), launch("a b sum_1 c", "buf0", buf1="one")]
    assert told(known, halves) == ["a b sum_1", ""]


def test_a_template_that_reads_a_converted_weight_does_not_convert_it():
    known = graph(node("cast", "w", PART), node("view", "cast", PART, "aten.view.default"), node("mm", "x view"))
    launches = [launch("cast", "w", buf0="part"), launch("cast view mm", "x buf0", buf1="full")]
    assert told(known, launches) == ["cast", "mm view"]
    launches[1] = launch("cast mm", "x buf0", buf1="full")  # through a view that nobody counts
    assert told(known, launches) == ["cast", "mm"]
    assert told(known, [launches[0], launch("cast view mm", "x w", buf1="full")]) == ["cast", "cast mm view"]


def test_a_constant_is_no_work_and_an_unknown_launch_tells_nothing():
    known = graph(node("full"), node("a", "x full"), node("b", "full"))
    assert told(known, [launch("full a", "x"), launch("full b"), launch("a")]) == ["a", "", ""]
    known = graph(node("table", op="get_attr"), node("a", "x table"))
    assert told(known, [launch("a", "x constant0")]) == ["a"]  # code generation has a name of its own for it


def test_kernels_that_read_a_result_are_not_said_to_compute_it_again():
    *_, backward = fusion(load(GPU / "gpt-default-profiled.clens.gz"))
    assert backward.code.direction is Direction.BACKWARD
    # triton_red_fused_gelu_gelu_backward_sum_view_5 loads the gradient of gelu and sums it up: no erf, no mul.
    assert {one.node for one in backward.repeated} == {"convert_element_type_38", "add_2", "sub_1", "mul_2"}
    names = {side.kernel.name.rpartition("_")[2] for one in backward.repeated for side in one.launches}
    assert names == {"6", "10"}  # both load primals_1, addmm_1, getitem_12 and rsqrt_1
