"""A tensor's value that compiled code takes for a constant: no break is left, and another value is an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.facts.measured.constants import _CONSTANTS, Constant, constants
from compiler_lens.facts.measured.edits import edited
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/app/user_model.py"
OPERATOR = BreakCause("Data dependent operator", context="aten._local_scalar_dense.default")
BRANCH = BreakCause("Data-dependent branching", context="attempted to jump with TensorVariable()")
ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
PLACES = BreakCause("Dynamic shape operator", context="aten.nonzero.default")
LENGTH = BreakCause("UserError: Consider annotating your code. Could not extract specialized integer from u2")
REPEATED = BreakCause("Dynamic shape operator", context="aten.repeat_interleave.Tensor")


def unmarked(text: str) -> str:
    return text.replace("  # here", "")


def offered(text: str, cause: BreakCause) -> Constant | None:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if line.endswith("# here"))
    at = SourceLine(FILE, number, "f", unmarked(text).split("\n")[number - 1].strip())
    return constants(at, cause, Sources({FILE: unmarked(text)}))


def function(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, FILE, "exec"), space)
    return space["f"]


def changed(text: str, cause: BreakCause) -> str:
    one = offered(text, cause)
    assert one is not None
    made = edited(one.lines, {FILE: unmarked(text)}, FILE)
    assert made is not None
    return made[FILE]


def program(*lines: str) -> str:
    return "\n".join(("import torch", "", "", "def f(x, n):", *(f"    {line}" for line in lines), ""))


X = torch.arange(12.0).reshape(3, 4)
PROGRAMS = {
    "a list": (
        program("parts = []", "for h, w in n.tolist():  # here", "    parts.append(x[:h, :w].sum())", "return parts"),
        OPERATOR, torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 3]]),
    ),
    "a list of sizes": (
        program("return [part.sum() for part in torch.split(x, n.tolist(), dim=1)]  # here"),
        OPERATOR, torch.tensor([1, 3]), torch.tensor([2, 2]),
    ),
    "a number": (program("return x.new_zeros(n.item()) + 1  # here"), ITEM, torch.tensor([2]), torch.tensor([3])),
    "int": (program("return x.new_zeros(int(n) + 1)  # here"), ITEM, torch.tensor(2), torch.tensor(3)),
    "a size": (program("return torch.arange(0, n, dtype=x.dtype)  # here"), OPERATOR, torch.tensor(2), torch.tensor(3)),
    "sizes in a tuple": (
        program("both = (n, n + 1)", "return torch.nn.functional.pad(x, both)  # here"),
        OPERATOR, torch.tensor(2), torch.tensor(3),
    ),
    "a bound": (program("return x[:, :n] * 2  # here"), ITEM, torch.tensor(2), torch.tensor(3)),
    "a length": (
        program("length = x.shape[0]", "if length <= n:  # here", "    return x + 1", "return x - 1"),
        BRANCH, torch.tensor(5), torch.tensor(1),
    ),
    "a mask": (program("return x[n > 1] * 2  # here"), PLACES, torch.tensor([0, 2, 3]), torch.tensor([0, 0, 3])),
    "a mask of a name": (
        program("keep = n > 1", "return x.T[:, keep], x[keep]  # here"),
        PLACES, torch.tensor([0, 2, 3]), torch.tensor([0, 0, 3]),
    ),
    "places": (program("return x[torch.where(n)[0]]  # here"), PLACES, torch.tensor([0, 2, 3]), torch.tensor([0, 0, 3])),
    "places in a tensor": (program("return n.nonzero()  # here"), PLACES, torch.tensor([0, 2]), torch.tensor([2, 2])),
    "rows": (
        program("every = n.unique()", "return [x[row] for row in every]  # here"),
        LENGTH, torch.tensor([2, 0, 2]), torch.tensor([2, 1, 2]),
    ),
    "draws": (
        program("return torch.multinomial(x.abs() + 1, n, replacement=False).shape  # here"),
        OPERATOR, torch.tensor(2), torch.tensor(3),
    ),
    "repeated": (
        program("return torch.repeat_interleave(x, n, dim=0)  # here"),
        REPEATED, torch.tensor([0, 2, 1]), torch.tensor([1, 2, 1]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_it_compiles_whole_computes_the_same_and_another_value_is_an_error(name: str, backend: str) -> None:
    text, cause, n, other = PROGRAMS[name]
    f, f_before = function(changed(text, cause)), function(text)
    torch.compiler.reset()
    compiled = torch.compile(f, backend=backend, fullgraph=True)  # which lets torch have sizes that it does not know
    torch.testing.assert_close(compiled(X, n), f_before(X, n))
    torch.testing.assert_close(compiled(X + 1, n.clone()), f_before(X + 1, n))
    with pytest.raises(RuntimeError, match="another value than in the call that was compiled"):
        compiled(X, other)


@pytest.mark.long
def test_inductor_keeps_the_check() -> None:
    text, cause, n, other = PROGRAMS["a mask"]
    compiled = torch.compile(function(changed(text, cause)), fullgraph=True)
    torch.testing.assert_close(compiled(X, n), function(text)(X, n))
    with pytest.raises(RuntimeError, match="another value than in the call that was compiled"):
        compiled(X, other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_compile_it_is_as_it_was(name: str) -> None:
    text, cause, *numbers = PROGRAMS[name]
    f, f_before = function(changed(text, cause)), function(text)
    for n in numbers:
        torch.testing.assert_close(f(X, n), f_before(X, n))


def test_with_another_size_it_compiles_again() -> None:
    text = program("return x[:, : int(n + x.shape[1] - 4)]  # here")
    f, f_before, n = function(changed(text, ITEM)), function(text), torch.tensor(2)
    torch.compiler.reset()
    compiled = torch.compile(f, backend="eager", fullgraph=True, dynamic=False)
    for x in (torch.ones(2, 4), torch.ones(2, 6), torch.ones(2, 4)):
        torch.testing.assert_close(compiled(x, n), f_before(x, n))


def test_what_it_calls_stands_once_above_the_class_and_below_the_imports() -> None:
    text = dedent("""\
        '''Rows.'''
        import torch


        # Rows of numbers.
        @torch.no_grad()
        def f(x, n):
            first = x[: int(n)]
            last = x[int(n) :]  # here
            return first, last
        """)
    once = changed(text, ITEM)
    twice = changed(once.replace("int(n)]", "int(n)]  # here"), ITEM)
    assert twice.count("def _constant(") == twice.count("def _value_while_compiling(") == 1
    assert twice.index("import torch\n") < twice.index("def _constants(") < twice.index("# Rows of numbers.\n@torch")
    torch.compiler.reset()
    x, n = torch.arange(4), torch.tensor(3)
    torch.testing.assert_close(torch.compile(function(twice), backend="eager", fullgraph=True)(x, n), (x[:3], x[3:]))


def test_of_a_call_only_sizes_are_asked() -> None:
    text = program("mode, value = n[1:]", "return torch.nn.functional.pad(x, n[0], mode, value)  # here")
    assert "pad(x, _constants(n[0]), mode, value)" in changed(text, OPERATOR)


OTHERS = {
    "a test of elements": (program("if (x > n).any():  # here", "    return x + 1", "return x"), BRANCH),
    "a constant": (program("return x[:, :2].clone()  # here"), ITEM),
    "a known size": (program("size = x.shape[0]", "return torch.zeros(size)  # here"), OPERATOR),
    "two indices": (program("m = n", "return x[m] + x[n]  # here"), PLACES),
    "a handler": (program("try:", "    return int(n)  # here", "except ValueError:", "    return 0"), ITEM),
    "another kind": (program("return int(n)  # here"), BreakCause("Unsupported method call")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_is_taken_for_a_constant_of(name: str) -> None:
    assert offered(*OTHERS[name]) is None


def test_what_is_taken_for_granted_is_said() -> None:
    one = offered(PROGRAMS["a list"][0], OPERATOR)
    assert one is not None
    assert one.price.startswith("in compiled code `n.tolist()` is taken to be what it is in the call that is compiled")
    assert "a call for which it is another is an error there" in one.price


LIBRARY = """\
import torch


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stride = torch.nn.Buffer(torch.tensor(2))
        self.layer = torch.nn.Linear(4, 4)

    def more(self, x):
        length = x.shape[-1]
        return torch.ceil((length + 1) / self.stride).to(torch.int64)

    def pad(self, x, paddings):
        if x.shape[-1] <= max(paddings):
            return x
        return torch.nn.functional.pad(x, paddings, "reflect")

    def forward(self, x, sizes):
        x = self.pad(self.layer(x), (self.stride, self.more(x)))
        return [part.sum() for part in torch.split(x, sizes.tolist(), dim=0)]
"""
TRAIN = """\
import torch
from lasting import M

if __name__ == "__main__":
    torch.manual_seed(0)
    step = torch.compile(M())
    for n in (1, 2):
        step(torch.randn(3, 4) * n, torch.tensor([1, 2]))[-1].backward()
"""


@pytest.mark.long
def test_fix_tries_it_last_in_a_package_and_nowhere_else(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("lasting", LIBRARY, train=TRAIN, own=LIBRARY + "\n\n" + TRAIN.split("\n\n", 1)[1])
    assert main(["fix", "--own-inputs", "--json", "own.py"]) == 0
    assert "_value_while_compiling" not in capsys.readouterr().out
    assert main(["fix", "--own-inputs", "--json", "--include", "lasting", "train.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    after = best["after"]
    assert (best["results"], after["graph_breaks"], after["eager_functions"], after["recompiles"]) == ("equal", 0, 0, 0)
    assert "torch.split(x, _constant(sizes), dim=0)" in best["patch"]


def test_a_tuple_of_values_stays_one() -> None:
    namespace = {"torch": torch, "_constant": lambda value: value}
    exec(_CONSTANTS.format(torch="torch"), namespace)
    compiled = torch.compile(lambda x, size: x * (x.shape == namespace["_constants"](size)), backend="eager")
    assert compiled(torch.ones(2, 3), (2, 3)).sum() == 6
    assert compiled(torch.ones(2, 3), (2, 4)).sum() == 0
