"""A function whose graph broke: its graphs in order, and what runs in Python between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_lens.analysis.cards import BreakCard, break_cards
from compiler_lens.analysis.coverage import Coverage, Function, coverage
from compiler_lens.analysis.ownership import Ownership
from compiler_lens.analysis.source import sources
from compiler_lens.model import CompileId, Graph, GraphStage, Recording, SourceLine


@dataclass(frozen=True, slots=True)
class Cut:
    """A graph break after a graph."""

    card: BreakCard
    number: int  # of the card, among all
    lines: tuple[SourceLine, ...]  # the line that breaks, where it is known


@dataclass(frozen=True, slots=True)
class Piece:
    """One graph of a function, and the break that ends it; without a graph, where everything runs in Python."""

    compile_id: CompileId
    graph: Graph | None
    cut: Cut | None = None
    part: int = 0  # counted from 1, where the backend was given the graph in parts (DDPOptimizer splits it)
    parts: int = 0


@dataclass(frozen=True, slots=True)
class FramePieces:
    """A function's graphs in order."""

    name: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class FrameGraphs:
    """What the graphs of any function are found by: made once for all of a recording's."""

    functions: Mapping[CompileId, Function]
    graphs: Mapping[CompileId, Graph]
    cuts: Mapping[CompileId, Cut]
    splits: Mapping[CompileId, Sequence[Graph]]

    @classmethod
    def of(cls, recording: Recording, covered: Coverage, cards: Sequence[BreakCard]) -> FrameGraphs:
        """Of a recording, its functions and its graph breaks."""
        graphs: dict[CompileId, Graph] = {}
        for graph in recording.graphs:
            if graph.stage is GraphStage.DYNAMO:
                graphs.setdefault(graph.compile_id, graph)
        functions: dict[CompileId, Function] = {}
        for function in covered.functions:
            for compile_id in function.compile_ids:
                functions.setdefault(compile_id, function)
        return cls(functions, graphs, _cuts(recording, cards), _splits(recording))

    def pieces(self, compile_id: CompileId, wanted: CompileId | None = None) -> FramePieces:
        """The graphs of the function that a compilation belongs to; of recompiles, the one wanted, else the first."""
        function = self.functions.get(compile_id)
        ids = self._ids(function, wanted) if function else [compile_id]
        found = (_pieces(i, self.graphs.get(i), self.cuts.get(i), self.splits.get(i, ())) for i in ids)
        kept = tuple(piece for pieces in found for piece in pieces if piece.graph or piece.cut)
        return FramePieces(function.name.name if function else str(compile_id), kept)

    def _ids(self, function: Function, wanted: CompileId | None) -> list[CompileId]:
        """One compilation of each part that shows something, in the order in which the parts were first reached."""
        found: list[CompileId] = []
        for frame in function.frames:
            ids = [c.compile_id for c in frame.compilations]
            shown = [i for i in ids if i in self.graphs or i in self.cuts] or ids
            found += [wanted] if wanted and wanted in shown else shown[:1]
        return found


def frame_pieces(recording: Recording, compile_id: CompileId, own: Ownership | None = None) -> FramePieces:
    """The graphs of the function that one compilation belongs to, that compilation's own among them."""
    graphs = FrameGraphs.of(recording, coverage(recording, own), break_cards(recording, own))
    return graphs.pieces(compile_id, wanted=compile_id)


def _pieces(compile_id: CompileId, graph: Graph | None, cut: Cut | None, splits: Sequence[Graph]) -> list[Piece]:
    """One graph, or the parts that it was split into; what ends it comes behind the last."""
    if len(splits) <= 1:
        return [Piece(compile_id, graph, cut)]
    *before, last = (Piece(compile_id, each, None, n, len(splits)) for n, each in enumerate(splits, 1))
    return [*before, replace(last, cut=cut)]


def _splits(recording: Recording) -> Mapping[CompileId, list[Graph]]:
    """The forward graphs of each compilation, in the order in which they run."""
    found: dict[CompileId, list[Graph]] = {}
    for graph in recording.graphs:
        if graph.stage in {GraphStage.AOT_FORWARD, GraphStage.AOT_INFERENCE}:
            found.setdefault(graph.compile_id, []).append(graph)
    return {each: sorted(graphs, key=lambda graph: graph.ordinal) for each, graphs in found.items()}


def _cuts(recording: Recording, cards: Sequence[BreakCard]) -> Mapping[CompileId, Cut]:
    known = sources(recording)
    found: dict[CompileId, Cut] = {}
    for number, card in enumerate(cards, 1):
        for event in card.events:
            place = card.place or event.location
            lines = (place,) if place else ()
            if place and known.has(place.file):
                lines = (SourceLine(place.file, place.line, place.function, known.line(place.file, place.line)),)
            found.setdefault(event.compile_id, Cut(card, number, lines))
    return found
