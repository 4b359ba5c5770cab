"""What things are known by is theirs alone, in every recording that there is."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Hashable, Iterable
from functools import cache
from pathlib import Path

import pytest

from compiler_lens import load
from compiler_lens.recording.ids import (
    POST_GRADS,
    CodeId,
    CompileId,
    Direction,
    GraphId,
    GraphStage,
    KernelId,
    LaunchId,
    SourcePlace,
)
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.recording.resume_names import bytecode_of, plain_function, resume_name, resumed

TESTS = Path(__file__).parent
RECORDINGS = sorted(TESTS.rglob("*.clens*"))
FACTS = TESTS.parent / "compiler_lens" / "facts"


@cache
def recording(path: Path) -> Recording:
    return load(path)


def twice(ids: Iterable[Hashable]) -> list[Hashable]:
    return [one for one, times in Counter(ids).items() if times > 1]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_no_two_things_share_an_id(path: Path) -> None:
    found = recording(path)
    assert not twice(graph.id for graph in found.graphs)
    assert not twice(code.id for code in found.output_codes)
    assert not twice(kernel.id for kernel in found.kernels)
    assert not twice(time.id for profile in found.profiles for time in profile.launches)
    assert not twice(one.compile_id for one in found.compilations if one.compile_id.frame is not None)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_ids_lead_from_what_ran_to_where_it_comes_from(path: Path) -> None:
    found = recording(path)
    graphs, codes = {graph.id for graph in found.graphs}, {code.id for code in found.output_codes}
    kernels = {kernel.id: kernel for kernel in found.kernels}
    assert {kernel.code_id for kernel in found.kernels} <= codes
    if any(graph.stage in POST_GRADS for graph in found.graphs):
        assert {code.graph for code in codes} <= graphs
    for time in (time for profile in found.profiles for time in profile.launches):
        assert time.id == kernels[time.kernel_id].launch_id(time.launch)


def test_ids_say_which_is_which() -> None:
    code = CodeId(CompileId(0, 1), Direction.BACKWARD, 2)
    assert code.graph == GraphId(CompileId(0, 1), GraphStage.POST_GRAD_BACKWARD, 2)
    assert code.traced == GraphId(CompileId(0, 1), GraphStage.AOT_BACKWARD, 2)
    forward, inference = (CodeId(CompileId(0, 1), d) for d in (Direction.FORWARD, Direction.INFERENCE))
    assert forward != inference
    assert forward.graph == inference.graph
    assert forward.traced != inference.traced
    assert KernelId(code, "k") != LaunchId(code, "k", 0)
    assert CompileId(3, 1, 2).of_frame == CompileId(3, 7, 2).of_frame != CompileId(3, 1).of_frame
    assert SourceLine("m.py", 3, "f", "x = 1").place == SourceLine("m.py", 3).place == SourcePlace("m.py", 3)
    assert (CompileId(None, None).or_none, CompileId(None, None, 1).or_none) == (None, CompileId(None, None, 1))


def test_names_of_resume_functions_are_read_as_they_are_made() -> None:
    name = resume_name("forward", 23)
    assert name == "torch_dynamo_resume_in_forward_at_23"
    again = resume_name(name, 40)
    for one, function, line in ((name, "forward", 23), (again, name, 40)):
        found = resumed(one)
        assert found is not None
        assert (found.function, found.line, plain_function(one)) == (function, line, function)
    assert resumed("forward_at_23") is None
    assert plain_function("forward") == "forward"
    assert bytecode_of(f"{name}_ORIGINAL_BYTECODE") == name
    assert bytecode_of("forward_ORIGINAL_BYTECODE") == bytecode_of(name) == ""


@pytest.mark.parametrize("path", sorted(FACTS.rglob("*.py")), ids=lambda path: str(path.relative_to(FACTS)))
def test_no_fact_is_keyed_by_where_an_object_lies_in_memory(path: Path) -> None:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    assert not [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "id"]
