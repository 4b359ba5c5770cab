"""A branch that compiled code takes for granted: no break is left, results are the same, and a wrong one is an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.facts.measured.assumed import Assumption, assumed
from compiler_lens.facts.measured.edits import edited
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/app/user_model.py"
VALUES = BreakCause("Data-dependent branching", context="attempted to jump with TensorVariable()")
ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
SIZES = BreakCause("UserError: Consider annotating your code: Could not guard on data-dependent expression 2*u0 <= 9")
BRANCH = """\
import torch


def f(x, image=None):
    if image is not None and (x > 100).any():
        parts = [x * 2]
        return parts[0]
    return x + 1
"""


def offered(text: str, cause: BreakCause = VALUES, containing: str = "    if ") -> list[Assumption]:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if containing in line)
    at = SourceLine(FILE, number, "f", text.split("\n")[number - 1].strip())
    return list(assumed(at, cause, Sources({FILE: text})))


def function(text: str, one: Assumption) -> Any:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if one.before[0] in line)
    made = edited(one.lines(SourceLine(FILE, number, "f", one.before[0])), {FILE: text}, FILE)
    assert made is not None
    space: dict[str, Any] = {}
    exec(compile(made[FILE], FILE, "exec"), space)
    return space["f"]


def original(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, FILE, "exec"), space)
    return space["f"]


@pytest.mark.parametrize("outcome", [True, False])
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_the_branch_that_was_meant_compiles_whole_and_the_other_is_an_error(outcome: bool, backend: str) -> None:
    one = offered(BRANCH)[not outcome]
    assert f"is taken to be {str(outcome).lower()}, as in this run" in one.price
    assert "is an error there" in one.price
    assert one.after[:1] == ("if torch.compiler.is_compiling() and (image is not None):",)
    f, low, high = function(BRANCH, one), torch.ones(3), torch.full((3,), 200.0)
    meant, other = (high, low) if outcome else (low, high)
    torch.compiler.reset()
    compiled = torch.compile(f, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(meant, meant), original(BRANCH)(meant, meant))
    with pytest.raises(RuntimeError):
        compiled(other, other)
    torch.testing.assert_close(compiled(other), original(BRANCH)(other))  # it is not asked


@pytest.mark.parametrize("outcome", [True, False])
def test_without_compile_both_branches_are_as_they_were(outcome: bool) -> None:
    f = function(BRANCH, offered(BRANCH)[not outcome])
    for x in (torch.ones(3), torch.full((3,), 200.0)):
        for image in (None, x):
            torch.testing.assert_close(f(x, image), original(BRANCH)(x, image))


NUMBER = BRANCH.replace(
    "    if image is not None and (x > 100).any():", "    high = (x > 100).any().item()\n    if high:"
)


@pytest.mark.parametrize("outcome", [True, False])
def test_a_number_that_says_yes_or_no_is_taken_for_granted_where_it_is_made(outcome: bool) -> None:
    f = function(NUMBER, offered(NUMBER, ITEM, "high = ")[not outcome])
    x = torch.full((3,), 200.0 if outcome else 1.0)
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(f, backend="eager", fullgraph=True)(x), original(NUMBER)(x))
    torch.testing.assert_close(f(-x), original(NUMBER)(-x))


LENGTH = """\
import torch


def f(x, n):
    rows = torch.zeros(n.item(), 2)
    if x.size(0) >= rows.size(0) * 2 - 1:
        return rows + 1
    return rows * 2
"""


@torch._dynamo.config.patch(capture_scalar_outputs=True)
@pytest.mark.parametrize("outcome", [True, False])
def test_torch_checks_what_a_branch_asks_of_sizes(outcome: bool) -> None:
    one = offered(LENGTH, SIZES)[not outcome]
    sign = ">=" if outcome else "<"
    assert one.after[1] == f"    torch._check(x.size(0) {sign} rows.size(0) * 2 - 1)"
    f, x, n = function(LENGTH, one), torch.ones(10), torch.tensor(4 if outcome else 7)
    torch.compiler.reset()
    compiled = torch.compile(f, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, n), original(LENGTH)(x, n))
    with pytest.raises((RuntimeError, torch._dynamo.exc.TorchRuntimeError)):
        compiled(x, torch.tensor(7 if outcome else 4))


OTHERS = {
    "a call before it": BRANCH.replace("image is not None", "load(image)"),
    "a tensor before it": BRANCH.replace("image is not None", "x.sum() > 0"),
    "an elif": BRANCH.replace("    if image", "    if x is None:\n        pass\n    elif image"),
    "a handler": BRANCH.replace("    if ", "    try:\n        if ").replace("return", "    return"),
    "no test": BRANCH.replace("    if image is not None and (x > 100).any():", "    for x in image:"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_is_taken_for_granted_of(name: str) -> None:
    text = OTHERS[name]
    containing = {"an elif": "elif", "a handler": "        if ", "no test": "    for "}.get(name, "    if ")
    assert not any("image" in line for one in offered(text, VALUES, containing) for line in one.after[:1])


PROGRAM = (
    BRANCH
    + """

class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        parts = []
        for n in range(3):
            parts.append(f(self.layer(x), x))
            if parts[-1].sum() > 1e6:
                break
        return parts


if __name__ == "__main__":
    torch.manual_seed(0)
    step = torch.compile(M())
    for n in (1, 2):
        step(torch.randn(2, 3) * n)[-1].sum().backward()
"""
)


@pytest.mark.long
def test_fix_tries_it_last_in_a_package_and_nowhere_else(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    parts, program = PROGRAM.split('\n\nif __name__ == "__main__":\n')
    install("leaky", parts, train="import torch\nfrom leaky import M\n\n" + dedent(program), own=PROGRAM)
    assert main(["fix", "--own-inputs", "--json", "own.py"]) == 0
    assert "_assert_async" not in capsys.readouterr().out
    assert main(["fix", "--own-inputs", "--json", "--include", "leaky", "train.py"]) == 0
    data = json.loads(capsys.readouterr().out)
    best = data["best"]
    assert (best["results"], best["after"]["graph_breaks"], best["after"]["eager_functions"]) == ("equal", 0, 0)
    assert "+            if not torch.compiler.is_compiling() and (parts[-1].sum() > 1e6):" in best["patch"]
    assert any(one["error"] for one in data["tried"]), "the check of the other branch fails"
