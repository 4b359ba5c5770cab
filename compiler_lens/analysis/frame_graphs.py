"""A function whose graph broke: its graphs in order, and what runs in Python between them."""

from __future__ import annotations

from dataclasses import dataclass

from compiler_lens.analysis.cards import BreakCard, break_cards
from compiler_lens.analysis.coverage import Function, coverage
from compiler_lens.analysis.ownership import Ownership
from compiler_lens.analysis.source import sources
from compiler_lens.model import CompileId, Graph, GraphStage, Recording, SourceLine

_LINES = 6  # of Python, shown between two graphs


@dataclass(frozen=True, slots=True)
class Cut:
    """A graph break after a graph."""

    card: BreakCard
    number: int  # of the card, among all
    lines: tuple[SourceLine, ...]  # the line that breaks, and those up to where the next graph begins


@dataclass(frozen=True, slots=True)
class Piece:
    """One graph of a function, and the break that ends it; without a graph, where everything runs in Python."""

    compile_id: CompileId
    graph: Graph | None
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class FramePieces:
    """A function's graphs in order."""

    name: str
    pieces: tuple[Piece, ...]


def frame_pieces(recording: Recording, compile_id: CompileId, own: Ownership | None = None) -> FramePieces:
    """The graphs of the function that a compilation belongs to; of recompiles, the first each."""
    function = next((f for f in coverage(recording, own).functions if compile_id in f.compile_ids), None)
    ids = _ids(function) if function else [compile_id]
    graphs: dict[CompileId, Graph] = {}
    for graph in recording.graphs:
        if graph.stage is GraphStage.DYNAMO:
            graphs.setdefault(graph.compile_id, graph)
    cuts = _cuts(recording, own)
    pieces = [Piece(each, graphs.get(each), cuts.get(each)) for each in ids]
    kept = tuple(piece for piece in pieces if piece.graph or piece.cut)
    return FramePieces(function.name.name if function else str(compile_id), kept)


def _ids(function: Function) -> list[CompileId]:
    """One compilation of each part, in the order in which the parts were first reached."""
    return [frame.compilations[0].compile_id for frame in function.frames if frame.compilations]


def _cuts(recording: Recording, own: Ownership | None) -> dict[CompileId, Cut]:
    known = sources(recording)
    found: dict[CompileId, Cut] = {}
    for number, card in enumerate(break_cards(recording, own), 1):
        for event in card.events:
            place = card.place or event.location
            lines = (place,) if place else ()
            if place and known.has(place.file):
                lines = (SourceLine(place.file, place.line, place.function, known.line(place.file, place.line)),)
            found.setdefault(event.compile_id, Cut(card, number, lines[:_LINES]))
    return found
