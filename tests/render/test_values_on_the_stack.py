"""What torch calls `___stack0`: a value that a line had computed when its graph broke, in its author's words."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from compiler_lens import Lens
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.guard_values import Names, phrase, stack_names
from compiler_lens.recording.model import CompileId
from compiler_lens.render.console import page_for, view


def labelled(x: Tensor, n: str) -> Tensor:
    label = ("step" + n, x.sum().item())
    return x * len(label[0]) + label[1]


def test_a_guard_on_a_value_of_the_stack_says_what_that_is_and_of_which_line() -> None:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(labelled, backend="eager")
        for n in ("a", "bb", "ccc"):
            compiled(torch.ones(3), n)
    recording, line = lens.recording, labelled.__code__.co_firstlineno + 1
    said = f"is a value that line {line} had computed when the graph broke there, handed to what goes on after that."

    def shown(name: str, *ids: CompileId) -> str:
        selection = Selection(ids=frozenset(ids) or None)
        return " ".join(view(recording, name, page_for(recording, width=120, color=False), selection).split())

    assert f"`___stack0` {said} [1/1] ___stack0 == 'stepa'" in shown("recompiles")
    assert shown("recompiles").count("had computed") == 1  # not below a guard of another value
    every = shown("guards", CompileId(1, 1))
    assert "`___stack0`" in every
    assert "had computed when the graph broke there" in every
    assert "had computed" not in shown("guards", CompileId(0, 0))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("___stack0", "the value at line 4"),
        ("___stack0.shape[0]", "shape[0] of the value at line 4"),
        ("___stack1", "the second value at line 4"),
        ("len(___stack0)", "len(the value at line 4)"),
        ("x", "x"),
    ],
)
def test_a_value_on_the_stack_is_called_by_its_line_wherever_it_stands(text: str, words: str) -> None:
    assert phrase(text, Names(break_line=4)) == words


def test_each_name_is_found_once() -> None:
    assert stack_names("L['___stack0'] == 3 and ___stack2 is ___stack0") == ("___stack0", "___stack2")
