"""Which functions breaks cut, and how many graphs lie in them and in what they call."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler_lens.analysis.coverage import plain_function
from compiler_lens.model import Compilation, CompileId, GraphBreak, GraphStage, Recording, SourceLine

_Function = tuple[str, str, int]  # a file, a function's own name, its first line


@dataclass(frozen=True, slots=True)
class FunctionsCut:
    """Where frames and graphs are: by each compiled function on the way to one."""

    frames: Mapping[CompileId, Compilation]
    starts: Mapping[tuple[str, str], tuple[int, ...]]  # first lines of the compiled functions of one name in one file
    graphs: Mapping[_Function, frozenset[int]]

    def broken(self, events: Iterable[GraphBreak]) -> set[_Function]:
        """The functions whose frames broke."""
        found = (self.frames.get(i) for i in {event.compile_id for event in events})
        return {_function(frame.file, frame.function, frame.line, self.starts) for frame in found if frame}

    def graphs_in(self, functions: Iterable[_Function]) -> int:
        """How many graphs these functions, and all that is called from them, fell into."""
        return len(frozenset().union(*(self.graphs.get(function, frozenset()) for function in functions)))


def functions_cut(recording: Recording) -> FunctionsCut:
    """Every Dynamo graph, by the functions on the stack of its frame."""
    frames = {c.compile_id: c for c in recording.compilations if c.compile_id.frame is not None}
    lines: dict[tuple[str, str], set[int]] = defaultdict(set)
    for frame in frames.values():
        if not frame.resumes:  # a resume function begins at its break
            lines[frame.file, frame.function].add(frame.line)
    starts = {name: tuple(sorted(found)) for name, found in lines.items()}
    graphs: dict[_Function, set[int]] = defaultdict(set)
    for number, graph in enumerate(g for g in recording.graphs if g.stage is GraphStage.DYNAMO):
        if around := frames.get(graph.compile_id):
            own = SourceLine(around.file, around.line, around.function)
            for at in {*around.stack[:-1], own}:
                graphs[_function(at.file, at.function, at.line, starts)].add(number)
    return FunctionsCut(frames, starts, {function: frozenset(numbers) for function, numbers in graphs.items()})


def _function(file: str, function: str, line: int, starts: Mapping[tuple[str, str], tuple[int, ...]]) -> _Function:
    """The function that a line is in: of several with one name in one file, the last that starts before it."""
    name = plain_function(function)
    known = starts.get((file, name), ())
    at = bisect_right(known, line)
    return file, name, known[at - 1] if at else 0
