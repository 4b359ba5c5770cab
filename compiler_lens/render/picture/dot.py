"""A picture in Graphviz's language, for those who take it further. The same recording gives the same bytes."""

from __future__ import annotations

import pydot

from compiler_lens.facts.graphs.levels import BoxKind
from compiler_lens.render.picture.style import fill
from compiler_lens.views.picture.picture import Picture, PictureBox
from compiler_lens.views.text import one_line, times

_SHAPES = {BoxKind.INPUT: "ellipse", BoxKind.OUTPUT: "ellipse", BoxKind.OP: "box", BoxKind.GROUP: "box"}


def to_pydot(picture: Picture, title: str) -> pydot.Dot:
    """Return a picture with nothing opened as a graph of pydot's."""
    graph = pydot.Dot("level", graph_type="digraph", label=_quoted(title), labelloc="t", fontname="Helvetica")
    graph.set_node_defaults(fontname="Helvetica", fontsize="11", style=_quoted("filled,rounded"))
    graph.set_edge_defaults(fontname="Helvetica", fontsize="9", color=_quoted("#93a0b0"))
    for number, drawn in enumerate(picture.boxes):
        graph.add_node(_node(number, drawn))
    for edge in picture.edges:
        graph.add_edge(pydot.Edge(f"n{edge.source}", f"n{edge.target}", label=_quoted(edge.label)))
    return graph


def _node(number: int, drawn: PictureBox) -> pydot.Node:
    inside, edge = fill(drawn.tint)
    name, *more = drawn.lines
    if drawn.box.repeats > 1:
        name += f" {times(drawn.box.repeats)}"
    return pydot.Node(
        f"n{number}",
        label=_quoted(name, *more),
        shape=_SHAPES[drawn.box.kind],
        peripheries="2" if drawn.box.group else "1",
        fillcolor=_quoted(inside),
        color=_quoted(edge),
        tooltip=_quoted(*drawn.tooltip.split("\n")),
    )


def _quoted(*lines: str) -> str:
    """Lines as one quoted string: what stands in them is text, whatever it looks like."""
    plain = (one_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(plain) + '"'
