"""A function whose graph broke: its graphs in order, and what runs in Python between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.program.coverage import Coverage, Function, coverage
from compiler_lens.recording.model import CompileId, Graph, GraphStage, Recording, SourceLine
from compiler_lens.recording.resume_names import resumed
from compiler_lens.recording.source_text import sources

_OTHERS = 2  # recompiles of one part that are shown besides the one that was asked for


class Cut(Struct, frozen=True):
    """A graph break after a graph."""

    card: BreakCard
    number: int  # of the card, among all
    lines: tuple[SourceLine, ...]  # the line that breaks, where it is known
    resumes: int = 0  # the line where the function goes on


class Piece(Struct, frozen=True):
    """One graph of a function, and the break that ends it; without a graph, where everything runs in Python."""

    compile_id: CompileId
    graph: Graph | None
    cut: Cut | None = None
    part: int = 0  # counted from 1, where the backend was given the graph in parts (DDPOptimizer splits it)
    parts: int = 0
    line: int = 0  # where it goes on after a break; 0: the beginning of the function
    instead: bool = False  # runs in place of the one before: of another branch, or compiled again and cut elsewhere


class FramePieces(Struct, frozen=True):
    """A function's graphs in order."""

    name: str
    pieces: tuple[Piece, ...]


class FrameGraphs(Struct, frozen=True):
    """What the graphs of any function are found by: made once for all of a recording's."""

    functions: Mapping[CompileId, Function]
    graphs: Mapping[CompileId, Graph]
    cuts: Mapping[CompileId, Cut]
    splits: Mapping[CompileId, Sequence[Graph]]  # the forward graphs, in the order in which they run
    order: Mapping[CompileId, int]  # in which the compilations were made

    @classmethod
    def of(cls, recording: Recording, covered: Coverage, cards: Sequence[BreakCard]) -> FrameGraphs:
        """Return them for a recording, its functions and its graph breaks."""
        graphs: dict[CompileId, Graph] = {}
        splits: dict[CompileId, list[Graph]] = {}
        for graph in recording.graphs:
            if graph.stage is GraphStage.DYNAMO:
                graphs.setdefault(graph.compile_id, graph)
            elif graph.stage in {GraphStage.AOT_FORWARD, GraphStage.AOT_INFERENCE}:
                splits.setdefault(graph.compile_id, []).append(graph)
        for several in splits.values():
            several.sort(key=lambda graph: graph.ordinal)
        functions = {each: function for function in reversed(covered.functions) for each in function.compile_ids}
        order = {each.compile_id: number for number, each in enumerate(recording.compilations)}
        return cls(functions, graphs, _cuts(recording, cards), splits, order)

    def pieces(self, compile_id: CompileId, wanted: CompileId | None = None) -> FramePieces:
        """Return the graphs of a compilation's function; of recompiles the wanted one and what ran with it."""
        function = self.functions.get(compile_id)
        if function is None:
            return FramePieces(str(compile_id), tuple(self._shown(compile_id, 0, instead=False)))
        parts = self._parts(function)
        at = next((place for place, part in enumerate(parts) if wanted in part.ids), 0)
        found: list[Piece] = []
        before = None
        for place, part in enumerate(parts):
            first = self._chosen(part, parts[at], wanted, place < at)
            instead = False
            if before is not None and before.line == part.line > 0:
                instead = all(self.cuts[i].resumes != part.line for i in before.ids if i in self.cuts)
            # The one whose break comes first stands last, before the part that goes on there.
            shown = sorted(self._ends(part, first), key=lambda i: -self.cuts[i].resumes if i in self.cuts else -inf)
            for number, one in enumerate(shown):
                found += self._shown(one, part.line, instead=instead or number > 0)
            before = part
        return FramePieces(function.name.name, tuple(found))

    def _parts(self, function: Function) -> list[_FramePart]:
        """Its frames by the line where each goes on; where that says nothing, as they were first reached."""
        found: list[tuple[tuple[int, int], _FramePart]] = []
        starts = 0
        for frame in function.frames:
            ids = [c.compile_id for c in frame.compilations]
            shown = [i for i in ids if i in self.graphs or i in self.cuts] or ids
            line = frame.resumes_at or 0
            starts += not line
            found.append(((starts, line), _FramePart(line, tuple(shown))))
        return [part for _, part in sorted(found, key=lambda each: each[0])]

    def _chosen(self, part: _FramePart, anchor: _FramePart, wanted: CompileId | None, before: bool) -> CompileId:
        """The compilation that ran with the one wanted: made right after it; none was needed: the one before it."""
        if wanted is None or part is anchor:
            return wanted if wanted in part.ids else part.ids[0]
        at = self.order.get(wanted, 0)
        end = min((n for i in anchor.ids if (n := self.order.get(i, 0)) > at), default=len(self.order))
        after = [] if before else [i for i in part.ids if at < self.order.get(i, 0) < end]
        earlier = [i for i in part.ids if self.order.get(i, 0) < at]
        return (*after, *reversed(earlier), *part.ids)[0]

    def _ends(self, part: _FramePart, first: CompileId) -> list[CompileId]:
        """One compilation of a part, and recompiles that end otherwise: at another break, or at none."""
        breaks = {i: self.cuts[i].number if i in self.cuts else 0 for i in part.ids}
        others = {end: i for i, end in reversed(breaks.items()) if end != breaks[first]}
        return [first, *sorted(others.values(), key=part.ids.index)[:_OTHERS]]

    def _shown(self, compile_id: CompileId, line: int, *, instead: bool) -> list[Piece]:
        """One graph, or the parts that it was split into; what ends it comes after the last."""
        graph, cut = self.graphs.get(compile_id), self.cuts.get(compile_id)
        splits = self.splits.get(compile_id, ())
        if len(splits) < 2:  # noqa: PLR2004 -- it is whole
            return [Piece(compile_id, graph, cut, line=line, instead=instead)] if graph or cut else []
        found = [Piece(compile_id, each, None, n, len(splits), line) for n, each in enumerate(splits, 1)]
        found[0], found[-1] = replace(found[0], instead=instead), replace(found[-1], cut=cut)
        return found


class _FramePart(Struct, frozen=True):
    """A frame of a function: its beginning, or what goes on after a break."""

    line: int  # where it goes on; 0: the beginning
    ids: tuple[CompileId, ...]  # its compilations that show something


def frame_pieces(recording: Recording, compile_id: CompileId) -> FramePieces:
    """Return the graphs of the function that one compilation belongs to, that compilation's own among them."""
    graphs = FrameGraphs.of(recording, coverage(recording), break_cards(recording))
    return graphs.pieces(compile_id, wanted=compile_id)


def _cuts(recording: Recording, cards: Sequence[BreakCard]) -> Mapping[CompileId, Cut]:
    known = sources(recording)
    found: dict[CompileId, Cut] = {}
    for number, card in enumerate(cards, 1):
        for event in card.events:
            place = card.place or event.location
            lines = (place,) if place else ()
            if place and known.has(place.file):
                lines = (SourceLine(place.file, place.line, place.function, known.line(place.file, place.line)),)
            rest = resumed(event.resume_function or "")
            found.setdefault(event.compile_id, Cut(card, number, lines, rest.line if rest else 0))
    return found
