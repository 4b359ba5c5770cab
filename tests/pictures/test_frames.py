"""A function's graphs with its breaks: in the order of its lines, alternatives told as such, what ran together."""

from __future__ import annotations

import made
from msgspec.structs import replace

from compiler_lens import draw
from compiler_lens.facts.graphs.frame_graphs import frame_pieces
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    Compilation,
    CompileId,
    GraphBreak,
    Outcome,
    Recording,
    SourceLine,
)


def recorded(*compiled):
    """Compilations in their order: an id, the line where it goes on, the line where it breaks; 0: none."""
    compilations, graphs, breaks = [], [], []
    for name, start, end in compiled:
        frame, recompile = map(int, name.split("/"))
        compile_id = CompileId(frame, recompile)
        function = f"torch_dynamo_resume_in_f_at_{start}" if start else "f"
        compilations.append(Compilation(compile_id, function, "m.py", start or 1, Outcome.COMPILED))
        graphs.append(replace(made.graph_of(made.chain(2)), compile_id=compile_id))
        if end:
            place = SourceLine("m.py", end, "f", "broken()")
            resume = f"torch_dynamo_resume_in_f_at_{end}"
            cause = (BreakCause("Data-dependent branching"),)
            breaks.append(GraphBreak(compile_id, 0, cause, "", (place,), place, BreakOutcome.SPLIT, resume))
    return Recording(compilations=tuple(compilations), graphs=tuple(graphs), graph_breaks=tuple(breaks))


def told(recording, wanted="0/0"):
    frame, recompile = map(int, wanted.split("/"))
    return [
        f"{'or ' if piece.instead else ''}{piece.compile_id}@{piece.line}"
        + (f" cut {piece.cut.lines[0].line}" if piece.cut else "")
        for piece in frame_pieces(recording, CompileId(frame, recompile)).pieces
    ]


def test_a_part_that_is_reached_later_stands_where_its_line_is():
    """The first call takes no branch; the second one breaks inside of it, and goes on from there to the same end."""
    recording = recorded(("0/0", 0, 5), ("1/0", 5, 9), ("2/0", 9, 0), ("1/1", 5, 7), ("3/0", 7, 9))
    assert told(recording) == ["0/0@0 cut 5", "1/0@5 cut 9", "or 1/1@5 cut 7", "3/0@7 cut 9", "2/0@9"]
    svg = draw(recording, "frame").svg
    assert [text in svg for text in (">or graph [1/1], from line 5<", ">graph [3/0], from line 7<")] == [True, True]
    assert "5 graphs, 3 graph breaks<" in svg


def test_two_branches_behind_one_break_are_told_as_such():
    assert told(recorded(("0/0", 0, 5), ("1/0", 5, 0), ("2/0", 5, 0))) == ["0/0@0 cut 5", "1/0@5", "or 2/0@5"]


def test_two_breaks_of_one_line_are_no_branches():
    recording = recorded(("0/0", 0, 5), ("1/0", 5, 5), ("2/0", 5, 0))
    assert told(recording) == ["0/0@0 cut 5", "1/0@5 cut 5", "2/0@5"]


def test_of_a_recompile_the_later_parts_are_those_that_ran_with_it():
    recording = recorded(
        ("0/0", 0, 5), ("1/0", 5, 9), ("2/0", 9, 0), ("1/1", 5, 9), ("2/1", 9, 0), ("1/2", 5, 9), ("2/2", 9, 0)
    )
    assert told(recording, "1/1") == ["0/0@0 cut 5", "1/1@5 cut 9", "2/1@9"]
    assert told(recording, "1/2") == ["0/0@0 cut 5", "1/2@5 cut 9", "2/2@9"]
    assert told(recording, "2/1") == ["0/0@0 cut 5", "1/1@5 cut 9", "2/1@9"]


def test_a_later_part_that_did_for_the_recompile_too_is_shown_with_it():
    recording = recorded(("0/0", 0, 5), ("1/0", 5, 0), ("0/1", 0, 5), ("0/2", 0, 5), ("1/1", 5, 0))
    assert told(recording, "0/1") == ["0/1@0 cut 5", "1/0@5"]
    assert told(recording, "0/2") == ["0/2@0 cut 5", "1/1@5"]


def test_the_recompile_that_breaks_first_stands_before_the_part_that_goes_on_there():
    recording = recorded(("0/0", 0, 5), ("1/0", 5, 7), ("2/0", 7, 9), ("3/0", 9, 0), ("1/1", 5, 9))
    assert told(recording) == ["0/0@0 cut 5", "1/1@5 cut 9", "or 1/0@5 cut 7", "2/0@7 cut 9", "3/0@9"]
