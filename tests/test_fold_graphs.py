"""Graph texts and node facts joined: stages, origins, saved tensors, decompositions."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens.decode.graph_text import GraphText, read_graph
from compiler_lens.decode.graphs import decompositions, join_graphs
from compiler_lens.decode.origins import NodeFact, NodeFacts, read_node_facts
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    CompileId,
    Direction,
    GraphStage,
    Node,
    SourceLine,
    Subgraph,
    TensorSpec,
    Trust,
)

PAYLOADS = Path(__file__).parent / "payloads"
VERSIONS = ["2.11", "2.13", "2.15"]
ID = CompileId(0, 0)
EVENTS = {
    "dynamo": "dynamo_output_graph",
    "joint": "aot_joint_graph",
    "forward": "aot_forward_graph",
    "backward": "aot_backward_graph",
    "inference": "aot_inference_graph",
    "post_grad": "inductor_post_grad_graph",
    "post_grad_backward": "inductor_post_grad_graph",
}
TRAIN = [stage for stage in EVENTS if stage != "inference"]


def recorded(version, program, stages, facts):
    """The texts of a real program, and the facts of those stages that `facts` names."""
    texts, known = [], []
    for stage in stages:
        stem = PAYLOADS / version / "graphs" / f"{program}.{stage}"
        texts += read_graph(Event(EVENTS[stage], 0.0, text=stem.with_name(f"{stem.name}.txt").read_text()), ID, {})
        if stage in facts:
            meta = {"stage": stage.removesuffix("_backward")}
            text = stem.with_name(f"{stem.name}.facts.json").read_text()
            known += read_node_facts(Event("lens.node_facts", 0.0, meta=meta, text=text), ID, {})
    return texts, known


def joined(version, program="train", stages=TRAIN, facts=TRAIN):
    return {graph.stage: graph for graph in join_graphs(*recorded(version, program, stages, facts), {})}


def by_name(graph):
    return {node.name: node for node in graph.nodes}


def target_of(dynamo, origin):
    return next(node.target for node in dynamo.nodes if node.name == origin)


# -- a real training step


@pytest.mark.parametrize("version", VERSIONS)
def test_graphs_know_their_stage(version):
    assert list(joined(version)) == [
        GraphStage.DYNAMO,
        GraphStage.AOT_JOINT,
        GraphStage.AOT_FORWARD,
        GraphStage.AOT_BACKWARD,
        GraphStage.POST_GRAD,
        GraphStage.POST_GRAD_BACKWARD,
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_dynamo_nodes_get_module_and_whole_stack(version):
    graph = joined(version)[GraphStage.DYNAMO]
    gelu = by_name(graph)["gelu"]
    assert (graph.origins, gelu.module, gelu.module_type) == (Trust.EXACT, "blocks.1", "Block")
    assert [line.line for line in gelu.source] == [27, 16]


@pytest.mark.parametrize("version", VERSIONS)
def test_forward_nodes_point_at_the_dynamo_nodes_they_came_from(version):
    graphs = joined(version)
    for stage in (GraphStage.AOT_JOINT, GraphStage.AOT_FORWARD, GraphStage.POST_GRAD):
        mm = next(n for n in graphs[stage].nodes if n.target == "torch.ops.aten.addmm.default")
        assert graphs[stage].origins is Trust.EXACT
        assert (mm.module, mm.module_type, mm.backward) == ("blocks.0", "Linear", False)
        assert [target_of(graphs[GraphStage.DYNAMO], origin) for origin in mm.origins] == ["torch._C._nn.linear"]
        assert [line.line for line in mm.source] == [27]
        assert mm.original_aten == "aten.addmm.default"


@pytest.mark.parametrize("version", VERSIONS)
def test_backward_nodes_point_at_what_they_differentiate(version):
    graphs = joined(version)
    for stage in (GraphStage.AOT_JOINT, GraphStage.AOT_BACKWARD, GraphStage.POST_GRAD_BACKWARD):
        found = [n for n in graphs[stage].nodes if n.backward and n.module == "blocks.1.norm"]
        origins = {origin for node in found for origin in node.origins}
        assert {target_of(graphs[GraphStage.DYNAMO], o) for o in origins} == {"torch.nn.functional.layer_norm"}
        assert {tuple(line.line for line in node.source) for node in found} == {(27, 15)}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sum_of_gradients_belongs_to_no_op(version):
    add = by_name(joined(version)[GraphStage.AOT_BACKWARD])["add_6"]
    assert (add.backward, add.origins, add.module) == (True, (), "")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_joint_graph_without_facts_takes_those_of_its_forward_and_backward(version):
    facts = [stage for stage in TRAIN if stage != "joint"]
    with_own, without = joined(version)[GraphStage.AOT_JOINT], joined(version, facts=facts)[GraphStage.AOT_JOINT]
    assert without.origins is Trust.EXACT
    known = [(a, b) for a, b in zip(with_own.ops, without.ops, strict=True) if b.origins]
    assert len(known) > 0.8 * len(with_own.ops)
    assert all(a == b for a, b in known)
    assert [n.backward for n in with_own.ops] == [n.backward for n in without.ops]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_forward_says_what_it_keeps_for_the_backward(version):
    graphs = joined(version)
    forward, backward = graphs[GraphStage.AOT_FORWARD], graphs[GraphStage.AOT_BACKWARD]
    inputs = {n.name for n in forward.nodes if n.op == "placeholder"}
    taken = {n.name for n in backward.nodes if n.op == "placeholder" and not n.name.startswith("tangents_")}
    assert {saved.name for saved in forward.saved} == taken
    assert all(saved.is_input == (saved.name in inputs) for saved in forward.saved)
    assert {saved.name: saved.bytes for saved in forward.saved if saved.is_input}["primals_3"] == 4 * 8 * 4
    assert [graph.stage for graph in graphs.values() if graph.saved] == [GraphStage.AOT_FORWARD]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_decomposition_lists_forward_and_backward_apart(version):
    found = {d.node: d for d in decompositions(list(joined(version).values()))}
    linear = next(d for d in found.values() if d.target == "torch._C._nn.linear")
    gelu = found["gelu"]
    assert (gelu.target, gelu.trust) == ("torch._C._nn.gelu", Trust.EXACT)
    assert gelu.forward == (
        "aten.mul.Tensor",
        "aten.mul.Tensor",
        "aten.erf.default",
        "aten.add.Tensor",
        "aten.mul.Tensor",
    )
    assert "aten.exp.default" in gelu.backward
    assert "aten.mm.default" in linear.backward
    assert "aten.addmm.default" in linear.forward
    assert found["neg"].forward == ("aten.neg.default",)
    assert {"a", "b"}.isdisjoint(found)  # what chunk returned, taken apart: no op


# -- without facts: a log that somebody else wrote


@pytest.mark.parametrize("version", VERSIONS)
def test_without_facts_a_node_comes_from_all_nodes_of_its_line(version):
    exact, text = joined(version), joined(version, facts=[])
    assert {stage: graph.origins for stage, graph in text.items()} == {
        stage: Trust.UNKNOWN if stage is GraphStage.DYNAMO else Trust.TEXT for stage in text
    }
    for stage, graph in text.items():
        told = [(a.origins[0], b.origins) for a, b in zip(exact[stage].ops, graph.ops, strict=True) if a.origins]
        assert all(origin in origins for origin, origins in told)


@pytest.mark.parametrize("version", VERSIONS)
def test_without_facts_the_joint_graph_still_tells_gradients(version):
    exact, text = joined(version)[GraphStage.AOT_JOINT], joined(version, facts=[])[GraphStage.AOT_JOINT]
    assert [n.backward for n in exact.ops] == [n.backward for n in text.ops]
    backward = joined(version, facts=[])[GraphStage.AOT_BACKWARD]
    assert [n.backward for n in joined(version)[GraphStage.AOT_BACKWARD].ops] == [n.backward for n in backward.ops]


@pytest.mark.parametrize("version", VERSIONS)
def test_without_facts_a_decomposition_is_given_only_where_the_line_has_one_op(version):
    found = decompositions(list(joined(version, "sizes", ["dynamo", "inference"], []).values()))
    became = {d.node: d.forward for d in found}
    assert became["setitem"][-1] == "aten.select_scatter.default"
    assert became["topk"] == ("aten.topk.default",)  # taking its two tensors apart is no op of its own
    assert {d.trust for d in found} == {Trust.TEXT}
    assert {"gt", "le", "mask"}.isdisjoint(d.node for d in found)  # all on one line


# -- made by hand


def line(number):
    return (SourceLine("a.py", number, "f"),)


def op(name, target="torch.ops.aten.sin.default", inputs=("x",), number=1, **more):
    return Node(name, "call_function", target, inputs, source=line(number), **more)


def graph_text(stage, *nodes, compile_id=ID, **more):
    return GraphText(compile_id, EVENTS[stage], "", nodes, **more)


X = Node("x", "placeholder", "x", specs=(TensorSpec("f32", (2, 3)),))
TANGENT = Node("tangents_1", "placeholder", "tangents_1")


def test_the_pass_of_a_post_grad_graph_is_that_of_its_output_code():
    texts = [graph_text("post_grad", X, op("a")), graph_text("post_grad", X, op("b"))]
    stages = [g.stage for g in join_graphs(texts, [], {ID: [Direction.FORWARD, Direction.BACKWARD]})]
    assert stages == [GraphStage.POST_GRAD, GraphStage.POST_GRAD_BACKWARD]


def test_a_post_grad_graph_without_output_code_is_known_by_the_gradients_it_takes():
    texts = [graph_text("post_grad", X, op("a")), graph_text("post_grad", TANGENT, op("b"))]
    stages = [g.stage for g in join_graphs(texts, [], {ID: [Direction.INFERENCE]})]
    assert stages == [GraphStage.POST_GRAD, GraphStage.POST_GRAD_BACKWARD]


def test_graphs_of_one_stage_are_numbered_within_their_compilation():
    other = CompileId(1, 0)
    texts = [
        graph_text("forward", X, op("a")),
        graph_text("forward", X, op("a"), compile_id=other),
        graph_text("forward", X, op("b")),
    ]
    graphs = join_graphs(texts, [], {})
    assert [(g.compile_id, g.ordinal, g.nodes[1].name) for g in graphs] == [(ID, 0, "a"), (other, 0, "a"), (ID, 1, "b")]


def test_graphs_of_an_attempt_that_torch_gave_up_are_dropped():
    texts = [
        graph_text("dynamo", X, op("old")),
        graph_text("joint", X, op("old")),
        graph_text("dynamo", X, op("new"), attempt=1),
        graph_text("joint", X, op("new"), attempt=1),
        graph_text("post_grad", X, op("new"), attempt=1),
        graph_text("post_grad", TANGENT, op("late")),  # a backward compiled later, under attempt 0
    ]
    assert [g.nodes[-1].name for g in join_graphs(texts, [], {})] == ["new", "new", "new", "late"]


def test_facts_of_two_graphs_of_one_stage_go_to_those_that_have_their_nodes():
    texts = [graph_text("forward", X, op("a")), graph_text("forward", X, op("b"))]
    facts = [NodeFacts(ID, "forward", (NodeFact("x"), NodeFact(n, n.upper(), "M"))) for n in ("b", "a")]
    assert [g.nodes[1].module for g in join_graphs(texts, facts, {})] == ["A", "B"]


def test_facts_of_another_compilation_or_of_other_nodes_are_not_used():
    texts = [graph_text("forward", X, op("a"))]
    facts = [
        NodeFacts(CompileId(0, 1), "forward", (NodeFact("x"), NodeFact("a", "m", "M"))),
        NodeFacts(ID, "forward", (NodeFact("z"),)),
    ]
    (graph,) = join_graphs(texts, facts, {})
    assert (graph.origins, graph.nodes[1].module) == (Trust.UNKNOWN, "")


def test_facts_from_beside_a_cache_entry_are_as_good():
    facts = [NodeFacts(ID, "forward", (NodeFact("x"), NodeFact("a", "m", "M", ("sin",))), cached=True)]
    (graph,) = join_graphs([graph_text("forward", X, op("a"))], facts, {})
    assert (graph.origins, graph.nodes[1].origins) == (Trust.EXACT, ("sin",))


def test_an_op_that_shares_its_number_but_not_its_line_is_not_what_is_differentiated():
    dynamo = graph_text("dynamo", X, op("mul", number=1), op("gt", number=2))
    facts = [
        NodeFacts(ID, "dynamo", (NodeFact("x"), NodeFact("mul", "m", "M"), NodeFact("gt", "m", "M"))),
        NodeFacts(ID, "forward", (NodeFact("x"), NodeFact("gt_1", "m", "M", ("gt",), "", 5), NodeFact("mul_1", "m", "M", ("mul",), "", 5))),
        NodeFacts(ID, "backward", (NodeFact("tangents_1"), NodeFact("mul_2", "m", "M", (), "", 5))),
    ]  # fmt: skip
    texts = [
        dynamo,
        graph_text("forward", X, op("gt_1", number=2), op("mul_1")),
        graph_text("backward", TANGENT, op("mul_2")),
    ]
    backward = join_graphs(texts, facts, {})[-1]
    assert backward.nodes[-1].origins == ("mul",)


def test_a_sum_of_gradients_is_told_by_its_missing_module():
    facts = [
        NodeFacts(ID, "dynamo", (NodeFact("x"), NodeFact("mul", "m", "M"))),
        NodeFacts(ID, "forward", (NodeFact("x"), NodeFact("mul_1", "m", "M", ("mul",), "", 5))),
        NodeFacts(ID, "backward", (NodeFact("mul_2", "m", "M", (), "", 5), NodeFact("add", "", "", (), "", 5))),
    ]
    texts = [
        graph_text("dynamo", X, op("mul")),
        graph_text("forward", X, op("mul_1")),
        graph_text("backward", TANGENT, op("mul_2"), op("add")),
    ]
    backward = join_graphs(texts, facts, {})[-1]
    assert [(n.origins, n.backward) for n in backward.ops] == [(("mul",), True), ((), True)]


def test_facts_of_equal_graphs_are_used_in_their_order():
    texts = [graph_text("forward", X, op("a")), graph_text("forward", X, op("a"))]
    facts = [NodeFacts(ID, "forward", (NodeFact("x"), NodeFact("a", module, "M"))) for module in ("first", "second")]
    assert [g.nodes[1].module for g in join_graphs(texts, facts, {})] == ["first", "second"]


def test_what_the_backward_computes_anew_is_counted_once():
    facts = [
        NodeFacts(ID, "dynamo", (NodeFact("x"), NodeFact("sin"))),
        NodeFacts(ID, "forward", (NodeFact("x"), NodeFact("a", "", "", ("sin",), "", 5))),
        NodeFacts(ID, "backward", (NodeFact("a", "", "", ("sin",), "", 5), NodeFact("b", "", "", (), "", 5))),
    ]
    cos = op("b", "torch.ops.aten.cos.default")
    texts = [
        graph_text("dynamo", X, op("sin", "torch.sin")),
        graph_text("forward", X, op("a")),
        graph_text("backward", X, TANGENT, op("a"), cos),
    ]
    (found,) = decompositions(join_graphs(texts, facts, {}))
    assert (found.forward, found.backward) == (("aten.sin.default",), ("aten.cos.default",))


def test_an_origin_in_a_subgraph_gets_its_full_name():
    body = Subgraph("wrap_body_0", (op("sin", number=4),))
    dynamo = graph_text("dynamo", X, op("sin", number=3), op("cos", number=3), subgraphs=(body,))
    facts = [
        NodeFacts(
            ID, "forward", (NodeFact("x"), NodeFact("sin", "", "", ("sin",)), NodeFact("sin_1", "", "", ("sin",)))
        ),
        NodeFacts(ID, "dynamo", (NodeFact("x"), NodeFact("sin"), NodeFact("cos"))),
    ]
    graphs = join_graphs([dynamo, graph_text("forward", X, op("sin", number=3), op("sin_1", number=4))], facts, {})
    assert [n.origins for n in graphs[1].ops] == [("sin",), ("wrap_body_0.sin",)]
    assert {d.node: d.forward for d in decompositions(graphs)} == {
        "sin": ("aten.sin.default",),
        "cos": (),
        "wrap_body_0.sin": ("aten.sin.default",),
    }


def test_checkpointed_layers_that_share_their_lines_are_told_apart_by_module():
    bodies = tuple(Subgraph(f"wrap_body_{i}", (op("sin", number=4),)) for i in range(2))
    facts = [
        NodeFacts(ID, "dynamo", (NodeFact("x"), *(NodeFact(f"wrap_body_{i}.sin", f"layers.{i}", "L") for i in range(2)))),
        NodeFacts(ID, "forward", (NodeFact("x"), *(NodeFact(f"sin_{i}", f"layers.{i}", "L", ("sin",), "", i) for i in range(2)))),
        NodeFacts(ID, "backward", (NodeFact("tangents_1"), *(NodeFact(f"cos_{i}", f"layers.{i}", "L", (), "", i) for i in range(2)))),
    ]  # fmt: skip
    forward = graph_text("forward", X, *(op(f"sin_{i}", number=4) for i in range(2)))
    backward = graph_text("backward", TANGENT, *(op(f"cos_{i}", number=4) for i in range(2)))
    graphs = join_graphs([graph_text("dynamo", X, subgraphs=bodies), forward, backward], facts, {})
    assert [s.nodes[0].module for s in graphs[0].subgraphs] == ["layers.0", "layers.1"]
    for graph in graphs[1:]:
        assert [node.origins for node in graph.ops] == [("wrap_body_0.sin",), ("wrap_body_1.sin",)]


def test_a_line_with_two_ops_gives_no_decomposition_without_facts():
    dynamo = graph_text(
        "dynamo", X, op("sin", "torch.sin", number=1), op("cos", "torch.cos", number=2), op("add", number=2)
    )
    lowered = graph_text(
        "inference", X, op("sin_1", number=1), op("cos_1", number=2), op("getitem", "operator.getitem", number=1)
    )
    (found,) = decompositions(join_graphs([dynamo, lowered], [], {}))
    assert (found.node, found.target, found.forward, found.trust) == (
        "sin",
        "torch.sin",
        ("aten.sin.default",),
        Trust.TEXT,
    )


def test_without_facts_the_nth_visit_of_a_line_is_the_nth_and_gradients_come_backwards():
    layers = [op("sin", number=1), op("cos", number=2), op("sin_1", number=1), op("cos_1", number=2)]
    forward = [op("f1", number=1), op("f2", number=2), op("f3", number=1), op("f4", number=2)]
    backward = [op("b4", inputs=("tangents_1",), number=2), op("b3", number=1), op("b2", number=2), op("b1", number=1)]
    texts = [graph_text("dynamo", X, *layers), graph_text("joint", X, TANGENT, *forward, *backward)]
    texts.append(graph_text("backward", X, TANGENT, *backward, op("new", number=1)))
    graphs = join_graphs(texts, [], {})
    expected = {
        "f1": "sin",
        "f2": "cos",
        "f3": "sin_1",
        "f4": "cos_1",
        "b4": "cos_1",
        "b3": "sin_1",
        "b2": "cos",
        "b1": "sin",
    }
    assert {n.name: n.origins for n in graphs[1].ops} == {name: (origin,) for name, origin in expected.items()}
    assert {n.name: n.backward for n in graphs[1].ops} == {name: name.startswith("b") for name in expected}
    assert [n.origins for n in graphs[2].ops[3:]] == [("sin",), ("sin", "sin_1")]


def test_without_facts_visits_that_do_not_match_are_not_guessed():
    layers = [op("sin", number=1), op("cos", number=2), op("sin_1", number=1)]
    texts = [graph_text("dynamo", X, *layers), graph_text("inference", X, op("f1", number=1), op("f2", number=3))]
    assert [n.origins for n in join_graphs(texts, [], {})[1].ops] == [("sin", "sin_1"), ()]


def test_a_line_that_a_loop_visits_very_often_is_no_origin_unless_its_visits_match():
    loop = [op(f"{name}_{i}", number=n) for i in range(2000) for n, name in ((1, "sin"), (2, "cos"))]
    lowered = [replace(node, name=f"a_{node.name}") for node in loop]
    matched = join_graphs([graph_text("dynamo", X, *loop), graph_text("inference", X, *lowered)], [], {})
    assert [n.origins for n in matched[1].ops] == [(n.name,) for n in loop]
    mixed = join_graphs([graph_text("dynamo", X, *loop), graph_text("inference", X, *lowered[1:])], [], {})
    assert mixed[1].ops[0].origins == ("cos_0",)
    assert mixed[1].ops[1].origins == ()


def test_sizes_that_the_forward_keeps_are_no_tensors():
    size = Node("s0", "placeholder", "s0")
    forward = graph_text(
        "forward",
        X,
        size,
        replace(op("a"), specs=(TensorSpec("f32", ("s0",)),)),
        Node("output", "output", "output", ("a", "x", "s0", "a")),
    )
    backward = graph_text("backward", replace(X, name="a"), X, size, TANGENT)
    saved = join_graphs([forward, backward], [], {})[0].saved
    assert [(s.name, s.is_input, s.bytes) for s in saved] == [("a", False, None), ("x", True, 24)]


def test_nothing_joins_to_nothing():
    assert join_graphs([], [], {}) == ()
    assert decompositions(()) == ()


# -- growth


def test_a_line_of_very_many_ops_is_no_origin():
    """A list comprehension of n ops would give n origins to each of n nodes."""
    here = (SourceLine("app.py", 3, "f", "y = [x.sin() for _ in range(n)]"),)
    dynamo, joint = (
        GraphText(ID, name, "", tuple(Node(f"sin_{i}", "call_function", "sin", source=here) for i in range(200)))
        for name in ("dynamo_output_graph", "aot_inference_graph")
    )
    _, lowered = join_graphs([dynamo, joint], [], {})
    assert {node.origins for node in lowered.nodes} == {()}
