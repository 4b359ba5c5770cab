"""Where the view of graphs begins: every function that has a picture, as its graphs and the breaks between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from compiler_lens.facts.graphs.frame_graphs import FrameGraphs, FramePieces
from compiler_lens.facts.graphs.graph_bodies import op_count
from compiler_lens.facts.program.coverage import Function, Treatment
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.links import PageLinks, address
from compiler_lens.views.frames import treated
from compiler_lens.views.picture.labels import op_words
from compiler_lens.views.picture.sheet import piece_words
from compiler_lens.views.text import times

_FUNCTIONS = 200  # the table below has all
_PIECES = 12  # of a function
_PREFERRED = ("frame", "dynamo", "forward", "inference", "post_grad", "kernels")
_WHOLE = frozenset((Treatment.WHOLE, Treatment.EMPTY))


def gallery(context: PageContext, graphs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The functions, cut ones first, the user's own before a library's, then by size."""
    drawn = {one["key"]: one for one in graphs}
    frames = FrameGraphs.of(context.recording, context.summary.coverage, context.summary.cards)
    ranked = sorted(
        context.summary.coverage.functions, key=lambda f: (f.treatment in _WHOLE, not f.own, -_size(f, frames))
    )
    found = (_card(each, frames, drawn, context.links) for each in ranked[:_FUNCTIONS])
    return [card for card in found if card]


def _size(function: Function, frames: FrameGraphs) -> int:
    return sum(len(frames.graphs[each].nodes) for each in function.compile_ids if each in frames.graphs)


def _card(
    function: Function, frames: FrameGraphs, drawn: Mapping[str, dict[str, Any]], links: PageLinks
) -> dict[str, Any] | None:
    picture = _picture(function, drawn)
    if picture is None:
        return None
    to, shown = picture
    pieces = [
        _counted(piece, len(list(same)))
        for piece, same in groupby(_pieces(frames.pieces(function.compile_ids[0]), links))
    ]
    return {
        "name": function.name.name,
        "at": links.at(function.name) if function.name.file else "",
        "href": links.href(function.name) if function.name.file else "",
        "treated": treated(function),
        "mood": "good" if function.treatment.is_compiled else "warn",
        "to": to,
        "picture": shown,
        "pieces": pieces[:_PIECES],
        "more": max(0, len(pieces) - _PIECES),
    }


def _picture(function: Function, drawn: Mapping[str, dict[str, Any]]) -> tuple[str, Any] | None:
    """Its graphs and breaks; of what is whole the top of its first graph. The address, and where the picture is."""
    known = [drawn[key] for i in function.compile_ids if (key := address(i)) in drawn]
    stages = {stage["key"]: (one["key"], stage) for one in reversed(known) for stage in one["stages"]}
    for key in _PREFERRED:
        if key in stages and stages[key][1].get("levels"):
            compile_key, stage = stages[key]
            return f"#/graphs/{compile_key}/{key}", stage["levels"][0][3]
    return None


def _counted(piece: tuple[str, str, str], count: int) -> tuple[str, str, str]:
    """Breaks at one place, one after another, as one."""
    told, more, to = piece
    return (told, f"{more} {times(count)}", to) if count > 1 else piece


def _pieces(found: FramePieces, links: PageLinks) -> Iterator[tuple[str, str, str]]:
    """Graphs and breaks in order: what it is, a word on it, where it leads to."""
    for piece in found.pieces:
        if piece.graph is not None:
            yield piece_words(piece), op_words(*op_count(piece.graph)), PageLinks.graph(piece.compile_id)
        if piece.cut is not None:
            card = piece.cut.card
            where = f" {links.at(card.place)}" if card.place else ""
            told = "or, without a graph, " if piece.instead and piece.graph is None else ""
            yield "break", f"{told}{card.gb_type}{where}", f"#/breaks/{piece.cut.number}"
