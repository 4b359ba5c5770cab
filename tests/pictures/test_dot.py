"""A picture as DOT, for pydot and for graphviz: what is in it is what is drawn, and its text is text."""

from __future__ import annotations

import made
import pydot
import pytest
from graphviz import Source

from compiler_lens import UsageError, draw
from compiler_lens.facts.graphs.levels import BoxKind

PICTURES = [
    ("trig", "dynamo"),
    ("gpt-default-cold", "backward"),
    ("gpt-default-cold", "kernels"),
    ("hops-kernels", "dynamo"),
    ("resnet-max-autotune-cold", "dynamo"),
]
# Text that has a meaning in DOT: quotes and escapes, a record's fields, HTML, a port, a comment, keywords.
HOSTILE = [
    '"',
    "\\",
    '\\"',
    "a\\nb\\l",
    "{a|<b> c}",
    "<<b>bold</b>>",
    "n0:se",
    "// /* #",
    "subgraph",
    "];n9 -> n0;",
    "é模 \x00\n",
]


def parsed(text):
    (graph,) = pydot.graph_from_dot_data(text)
    return graph


@pytest.mark.parametrize(("name", "stage"), PICTURES)
def test_it_has_the_boxes_and_edges_of_the_level(name, stage):
    drawing = draw(made.recorded(name), stage)
    graph = parsed(drawing.dot)
    boxes = {node.get_name(): node for node in graph.get_nodes() if node.get_name() not in {"node", "edge"}}
    assert list(boxes) == [f"n{number}" for number in range(len(drawing.level.boxes))]
    for node, box in zip(boxes.values(), drawing.level.boxes, strict=True):
        assert node.get("peripheries") == ("2" if box.group else "1")
        assert node.get("shape") == ("ellipse" if box.kind in {BoxKind.INPUT, BoxKind.OUTPUT} else "box")
    edges = [(edge.get_source(), edge.get_destination()) for edge in graph.get_edges()]
    assert edges == [(f"n{edge.source}", f"n{edge.target}") for edge in drawing.level.edges]
    assert not graph.get_subgraphs()


def test_pydot_has_what_the_text_has():
    drawing = draw(made.recorded("trig"), "dynamo")
    graph = drawing.pydot()
    assert isinstance(graph, pydot.Dot)
    assert graph.to_string() == drawing.dot
    graph.add_node(pydot.Node("mine"))
    assert "mine" not in drawing.dot


def test_graphviz_gets_the_text():
    drawing = draw(made.recorded("trig"), "dynamo")
    source = drawing.graphviz()
    assert isinstance(source, Source)
    assert source.source == drawing.dot
    assert source.filename == "dynamo-0_0.gv"


@pytest.mark.parametrize(
    "way", [lambda d: d.dot, lambda d: d.pydot(), lambda d: d.graphviz()], ids=["dot", "pydot", "graphviz"]
)
def test_several_graphs_have_no_dot(way):
    drawing = draw(made.recorded("trig"), "training")
    with pytest.raises(UsageError, match="no DOT of forward and backward"):
        way(drawing)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_anybodys_stays_in_its_box(text):
    ops = [made.op(f"n{k}", f"n{k - 1}" if k else "x", target=f"torch.ops.{text}", module=text) for k in range(3)]
    ops.append(made.op(text, "n2", target=text))
    drawing = draw(made.Recording(graphs=(made.graph_of(ops),)), "dynamo", depth=0)
    graph = parsed(drawing.dot)
    nodes = [node.get_name() for node in graph.get_nodes() if node.get_name() not in {"node", "edge"}]
    assert nodes == [f"n{number}" for number in range(len(drawing.level.boxes))]
    assert len(graph.get_edges()) == len(drawing.level.edges)
    for node in graph.get_nodes():
        label = node.get("label")
        assert label is None or (label.startswith('"') and label.endswith('"'))
