"""The graphs that higher-order ops run, in the places of their calls; and graphs that a backend was given in parts."""

from __future__ import annotations

import re

import made
import pytest
from msgspec.structs import replace

from compiler_lens import draw
from compiler_lens.facts.graphs.frame_graphs import frame_pieces
from compiler_lens.facts.graphs.graph_bodies import op_count
from compiler_lens.facts.graphs.graph_choice import choose, choose_module
from compiler_lens.facts.graphs.level_tree import GroupKind
from compiler_lens.facts.graphs.levels import BoxKind, levels
from compiler_lens.facts.kernels.graph_flow import Role
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import GraphStage, Node, Recording, Subgraph


def known(compile_id, stage="dynamo", name="hops", **others):
    return levels(made.recorded(name), choose(made.recorded(name), stage, compile_id).graph, **others)


def calls(known):
    return [group for group in known.groups() if group.kind is GroupKind.CALL]


def bodies(known):
    return [group.label for group in known.groups() if group.kind is GroupKind.BODY]


def name_of(box):
    if box.group:
        return box.group.label
    return box.nodes[0].name if box.kind is BoxKind.OP else f"{box.kind.value} {box.nodes[0].name}"


def arrows(known, group):
    level = known.level(group)
    return {(name_of(level.boxes[edge.source]), name_of(level.boxes[edge.target])) for edge in level.edges}


def inside(known, group):
    return [node.name for step in known.flow.steps[group.first : group.last] for node in step.nodes]


@pytest.mark.parametrize(
    ("compile_id", "stage", "label", "detail", "within"),
    [
        ("0/0", "dynamo", "cond", "", ["true", "false"]),
        ("0/0", "inference", "cond", "", ["true", "false"]),
        ("1/0", "dynamo", "while_loop", "", ["condition", "body"]),
        ("1/0", "inference", "while_loop", "", ["condition", "body"]),
        ("2/0", "dynamo", "blocks.0", "tag_activation_checkpoint", []),
        ("3/0", "dynamo", "autograd_function_apply", "", ["forward", "backward"]),
        ("4/0", "dynamo", "invoke_subgraph", "", []),
        ("4/0", "backward", "invoke_subgraph", "", []),
        ("6/0", "dynamo", "flex_attention", "", ["score_mod", "mask_mod"]),
        ("6/0", "inference", "flex_attention", "", ["score_mod", "mask_mod"]),
    ],
)
def test_a_call_opens_into_what_it_runs(compile_id, stage, label, detail, within):
    found = known(compile_id, stage)
    call = calls(found)[0]
    assert (call.label, call.detail, bodies(found)) == (label, detail, within)
    assert found.level(call).boxes


def test_each_branch_reads_the_operands_and_gives_the_result():
    found = known("0/0")
    (call,) = calls(found)
    assert inside(found, call) == [
        "cond.true.matmul", "cond.true.sin", "cond.true.add", "cond.false.cos", "cond.false.mul", "cond", "getitem",
    ]  # fmt: skip
    assert [name_of(box) for box in found.level(call).boxes[:3]] == ["true", "false", "cond"]
    assert arrows(found, call) == {
        ("input l_x_", "true"), ("input l_x_", "false"), ("input l_w_", "true"), ("input gt", "cond"),
        ("true", "cond"), ("false", "cond"), ("cond", "output getitem"),
    }  # fmt: skip
    read = found.flow.steps[found.flow.makers["cond"]].reads
    assert read == ("gt", "cond.true.add", "cond.false.mul")


def test_checkpointed_blocks_fold_under_their_modules_name():
    found = known("2/0")
    boxes = [box for box in found.level().boxes if box.group]
    assert [(box.repeats, box.group.label, box.group.module) for box in boxes] == [(3, "blocks.0", "blocks.0")]
    assert len([v for v in boxes[0].reads if v.role is Role.PARAMETER]) == 12
    assert choose_module(found, "blocks.0").label == "blocks.0"
    assert ">blocks.0 … blocks.2" in draw(made.recorded("hops"), "dynamo", "2/0", depth=0).svg


def test_a_region_that_is_called_again_is_there_again():
    found = known("4/0")
    (box,) = [box for box in found.level().boxes if box.group]
    assert box.repeats == 3
    assert [group.label for group in box.members] == ["invoke_subgraph"] * 3
    assert inside(found, box.members[1])[0] == "invoke_subgraph_1.matmul"
    reads = [step.reads for step in found.flow.steps if step.node.name.endswith(".matmul")]
    assert [read[0] for read in reads] == ["l_x_", "x", "x_1"]


def test_a_call_in_a_branch_opens_too():
    found = known("5/0")
    outer, inner = calls(found)
    assert inside(found, inner)[0].startswith("cond.true.cond.true.")
    assert outer.first <= inner.first <= inner.last <= outer.last
    assert bodies(found) == ["true", "true", "false", "false"]


def test_what_a_backward_gives_is_no_part_of_the_call():
    found = known("3/0")
    read = found.flow.steps[found.flow.makers["autograd_function_apply"]].reads
    assert read
    assert not [name for name in read if ".backward." in name]


def test_what_only_a_body_is_given_comes_from_nowhere_else():
    found = known("6/0")
    score = next(group for group in found.groups() if group.label == "score_mod")
    given = {value.label for box in found.level(score).boxes if box.kind is BoxKind.INPUT for value in box.values}
    assert given == {"score", "q_idx", "kv_idx"}
    outer = [box for box in found.level().boxes if box.kind is BoxKind.INPUT]
    assert not [value for box in outer for value in box.values if "." in value.node.name]


def test_kernels_stand_in_the_branches_that_launch_them():
    found = known("0/0", "kernels", name="hops-kernels", kernels=True)
    of = {group.kernel.name: inside(found, group) for group in found.groups() if group.kernel}
    assert of["cpp_fused_add_gt_sin_1"] == ["cond.true.sin", "cond.true.add"]
    assert of["cpp_fused_cos_gt_mul_2"] == ["cond.false.cos", "cond.false.mul"]
    assert of["cpp_fused_relu_3"] == ["relu"]


# -- made by hand


def held(name, target=""):
    return Node(name, "get_attr", target or name)


def body(name, *ops, takes=("a",), gives=None):
    places = [Node(each, "placeholder", each, specs=made.SPEC) for each in takes]
    last = gives or ops[-1].name
    return Subgraph(name, (*places, *ops, Node("output", "output", "output", (last,), arguments=f"({last},)")))


def hop(name, *inputs, target="wrap", **others):
    return made.op(name, *inputs, target=f"torch.ops.higher_order.{target}", **others)


def of_calls(ops, *subgraphs):
    attributes = {name: held(name) for each in subgraphs if "." not in (name := each.name)}
    graph = made.graph_of([*attributes.values(), *ops], subgraphs=subgraphs)
    return levels(Recording(graphs=(graph,)), graph)


def test_a_body_that_does_nothing_is_passed_through():
    found = of_calls([hop("w", "b", "x")], body("b", gives="a"))
    assert [(step.node.name, step.reads) for step in found.flow.steps] == [("w", ("x",))]


def test_an_operand_that_is_given_twice():
    found = of_calls([hop("w", "b", "x", "x")], body("b", made.op("s", "a", "c"), takes=("a", "c")))
    assert [step.reads for step in found.flow.steps] == [("x",), ("w.s",)]


def test_a_graph_that_is_missing_leaves_the_call_a_box():
    found = of_calls([hop("w", "b", "x")])
    assert [box.kind for box in found.level().boxes if box.kind is not BoxKind.INPUT] == [BoxKind.OP, BoxKind.OUTPUT]


def test_calls_in_calls_in_calls_end():
    """Each body runs the next one twice: 2 ** 40 steps, were there no limit."""
    graphs = [body("b", held("n"), hop("p", "n", "a"), hop("q", "n", "p"))]
    path = "b"
    for _ in range(40):
        path += ".n"
        graphs.append(body(path, held("n"), hop("p", "n", "a"), hop("q", "n", "p")))
    found = of_calls([hop("w", "b", "x")], *graphs)
    assert len(found.flow.steps) < 30_000
    assert op_count(found.flow.graph)[0] == 1


def test_calls_of_calls_end_by_their_number_too():
    """Ten calls in each body, eight deep."""
    graphs, path = [], "b"
    for _ in range(8):
        inner = [hop(f"p{k}", "n", "a") for k in range(10)]
        graphs.append(body(path, held("n"), *inner, gives="p9"))
        path += ".n"
    graphs.append(body(path, made.op("s", "a")))
    found = of_calls([hop("w", "b", "x")], *graphs)
    assert len(found.flow.steps) < 30_000
    assert op_count(found.flow.graph) == (1, sum(10**k for k in range(1, 9)) + 10**8)


def test_bodies_without_known_names_have_their_own():
    found = of_calls(
        [hop("w", "one", "two", "x", target="novel")], body("one", made.op("s", "a")), body("two", made.op("t", "a"))
    )
    assert bodies(found) == ["one", "two"]


def test_ops_are_counted_as_dynamo_counts_them():
    recording = made.recorded("hops")
    counts = {str(g.compile_id): op_count(g) for g in recording.graphs if g.stage is GraphStage.DYNAMO}
    assert counts["0/0"] == (5, 5)
    assert counts["4/0"] == (6, 9)
    dynamo = [g for g in recording.graphs if g.stage is GraphStage.DYNAMO]
    told = {c.compile_id: c.op_count for c in recording.compilations}
    assert [len(g.ops) for g in dynamo] == [op_count(g)[0] for g in dynamo]
    assert all(told[g.compile_id] == op_count(g)[0] for g in dynamo if told[g.compile_id] is not None)
    svg = draw(recording, "dynamo", "0/0").svg
    assert re.search(r">5 ops, 5 more in the graphs that they run<", svg)


# -- parts


def test_a_graph_that_ddp_splits_is_shown_in_order():
    recording = made.recorded("ddp")
    (compile_id,) = {graph.compile_id for graph in recording.graphs}
    pieces = frame_pieces(recording, compile_id).pieces
    assert [(piece.part, piece.parts, piece.graph.ordinal) for piece in pieces] == [(1, 3, 0), (2, 3, 1), (3, 3, 2)]
    svg = draw(recording, "frame").svg
    places = [svg.index(f"graph [4/0], part {n} of 3<") for n in (1, 2, 3)]
    assert places == sorted(places)
    assert "1 graph, compiled in 3 parts, 0 graph breaks" in svg


def test_of_very_many_parts_the_first_are_shown():
    recording = made.recorded("ddp")
    (first, *_) = [graph for graph in recording.graphs if graph.stage is GraphStage.AOT_FORWARD]
    dynamo = next(graph for graph in recording.graphs if graph.stage is GraphStage.DYNAMO)
    graphs = (dynamo, *(replace(first, ordinal=number) for number in range(25)))
    svg = draw(replace(recording, graphs=graphs), "frame").svg
    assert svg.count(">graph [4/0], part ") == 20
    assert "compiled in 25 parts, 0 graph breaks; 5 more<" in svg


def test_any_part_can_be_drawn():
    recording = made.recorded("ddp")
    drawing = draw(recording, "forward", part=3)
    assert drawing.title.endswith("part 3 of 3")
    assert "layers.2.0" in drawing.svg
    assert drawing.name == "forward-4_0-3"
    for part, told in ((4, "it has 3"), (0, "it has 3"), (-1, "it has 3")):
        with pytest.raises(UsageError, match=told):
            draw(recording, "forward", part=part)
    with pytest.raises(UsageError, match="it is whole"):
        draw(recording, "dynamo", part=2)
    assert draw(recording, "dynamo", part=1).title == draw(recording, "dynamo").title


# -- recomputed


def recomputed(compile_id, stage):
    found = known(compile_id, stage)
    return {box.group.label if box.group else box.nodes[0].name: box.recomputed for box in found.level().boxes}


def test_what_a_checkpoint_computes_again_is_marked():
    found = recomputed("2/0", "backward")
    assert found == {"blocks.2": 2, "blocks.0": 2} | {key: 0 for key in found if "blocks" not in key}
    assert "recomputed<" in draw(made.recorded("hops"), "training", "2/0").svg
    assert not any(recomputed("2/0", "forward").values())


def test_ops_that_the_backward_computes_again_are_marked_and_its_own_are_not():
    found = levels(made.recorded("trig"), choose(made.recorded("trig"), "backward").graph)
    assert {box.nodes[0].name for box in found.level().boxes if box.recomputed} == {"sin", "cos"}
