"""A level in Graphviz's language, for those who take it further. The same recording gives the same bytes."""

from __future__ import annotations

import pydot

from compiler_lens.facts.graphs.level_boxes import Box, BoxKind, Level
from compiler_lens.render.picture.style import fill
from compiler_lens.views.picture import labels
from compiler_lens.views.picture.facts import facts
from compiler_lens.views.picture.tints import tint
from compiler_lens.views.text import one_line

_SHAPES = {BoxKind.INPUT: "ellipse", BoxKind.OUTPUT: "ellipse", BoxKind.OP: "box", BoxKind.GROUP: "box"}


def to_pydot(level: Level, title: str) -> pydot.Dot:
    """Return one level, its groups closed."""
    graph = pydot.Dot("level", graph_type="digraph", label=_quoted(title), labelloc="t", fontname="Helvetica")
    graph.set_node_defaults(fontname="Helvetica", fontsize="11", style=_quoted("filled,rounded"))
    graph.set_edge_defaults(fontname="Helvetica", fontsize="9", color=_quoted("#93a0b0"))
    for number, box in enumerate(level.boxes):
        graph.add_node(_node(number, box, level.group.module))
    for edge in level.edges:
        words = labels.edge_label(edge) if len(edge.values) > 1 or level.boxes[edge.source].group else ""
        graph.add_edge(pydot.Edge(f"n{edge.source}", f"n{edge.target}", label=_quoted(words)))
    return graph


def _node(number: int, box: Box, within: str) -> pydot.Node:
    inside, edge = fill(tint(box))
    told = labels.lines(box, within)
    name = f"{told[0]} \N{MULTIPLICATION SIGN}{box.repeats}" if box.repeats > 1 else told[0]
    return pydot.Node(
        f"n{number}",
        label=_quoted(name, *told[1:]),
        shape=_SHAPES[box.kind],
        peripheries="2" if box.group else "1",
        fillcolor=_quoted(inside),
        color=_quoted(edge),
        tooltip=_quoted(*facts(box).split("\n")),
    )


def _quoted(*lines: str) -> str:
    """Lines as one quoted string: what stands in them is text, whatever it looks like."""
    plain = (one_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(plain) + '"'
