"""A rewrite of a call computes what the line did, for each input that its condition admits, and for all without one.

The rewrite is made by the real rule; both texts run eagerly. What differs where a condition does not hold is the user's to check,
so each part of a condition has a test here that says of an input whether it holds: a new one fails until it has, too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from compiler_lens.facts.breaks.rewrites import Rewrite, rewrite
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/home/user/app/user_model.py"
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
NUMPY = "Tensor.numpy() with trace_numpy=False"
HEAD = "import copy\nimport numpy as np\nimport torch\n\n\n"

Arguments = dict[str, Any]


def loaded(text: str) -> ModuleType:
    module = ModuleType("user_model")
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def rewritten(text: str, cause: BreakCause) -> tuple[Rewrite, str]:
    """The rewrite of the first line for which there is one, and the text with it."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        found = rewrite(cause, Sources({FILE: text}), SourceLine(FILE, number, "f", line.strip()))
        if found is not None and found.is_complete:
            indent = line[: len(line) - len(line.lstrip())]
            after = [f"{indent}{one}" for one in found.after]
            return found, "\n".join([*lines[: number - 1], *after, *lines[number - 1 + len(found.before) :]])
    raise AssertionError("nothing is offered")


# -- what a function does with its arguments


def outcome(function: Callable[..., Any], given: Arguments) -> list[Any]:
    """What it returns or raises, the gradients that it leaves, and its arguments afterwards."""
    arguments = copied(given)
    try:
        result = function(**arguments)
    except Exception as error:  # noqa: BLE001 -- whatever it raises is what it does
        return [error]
    results = [one for one in (result if isinstance(result, tuple) else (result,)) if isinstance(one, torch.Tensor)]
    for one in results:
        if one.requires_grad and one.is_floating_point():
            one.sum().backward(retain_graph=True)
    kinds = [(one.requires_grad, one.device) if isinstance(one, torch.Tensor) else one for one in results]
    gradients = [one.grad for one in arguments.values() if isinstance(one, torch.Tensor) and one.is_leaf]
    return [result, kinds, gradients, list(arguments.values())]


def copied(given: Arguments) -> Arguments:
    """The same, where two that share their memory still do."""
    made: dict[int, Any] = {}
    for one in given.values():
        if isinstance(one, torch.Tensor) and id(one) not in made:
            made[id(one)] = one.detach().as_strided(one.shape, one.stride()).clone(memory_format=torch.preserve_format)
            made[id(one)].requires_grad_(one.requires_grad)
    return {name: made.get(id(one), one) for name, one in given.items()}


def are_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        try:
            torch.testing.assert_close(other, one, equal_nan=True)
        except AssertionError:
            return False
        return True
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(are_same, one, other))
    if isinstance(one, Exception) or isinstance(other, Exception):
        return isinstance(one, Exception) and isinstance(other, Exception)
    return bool(one == other)


# -- when a condition holds


def value(text: str, given: Arguments) -> Any:
    return eval(text, {"torch": torch, "np": np}, dict(given))


def is_wide(x: torch.Tensor) -> bool:
    return x.dtype == torch.float32


def of_a_floating_dtype(x: torch.Tensor, *s: torch.Tensor) -> bool:
    return x.is_floating_point() and all(one.dtype == x.dtype or not one.is_floating_point() for one in s)


def fits(s: torch.Tensor) -> bool:
    return s.numel() == 1 and bool(s.isfinite()) and abs(float(s)) < 2**63


HOLDS: Mapping[str, Callable[..., bool]] = {
    r"`(.+)` has no dimensions": lambda s: s.dim() == 0,
    r"`(.+)` has one dimension": lambda s: s.dim() == 1,
    r"`(.+)` has a floating-point dtype": of_a_floating_dtype,
    r"`(.+)` has a floating-point dtype, `(.+)` the same or an integer one, and both are on one device": (
        of_a_floating_dtype
    ),
    r"`(.+)` is float32": is_wide,
    r"`(.+)` is float32, `(.+)` too or int64, and both are on one device": (
        lambda x, s: is_wide(x) and s.dtype in {torch.float32, torch.int64}
    ),
    r"`(.+)` fits into int64, and is not nan": fits,
    r"numbers are then rounded as float32 is": lambda: True,  # which assert_close allows for
}
ZERO = "where Python raises ZeroDivisionError, there is inf or nan"


def holds(needs: str, given: Arguments, before: list[Any]) -> bool:
    """Whether what a rewrite takes for granted is so for some arguments."""
    parts = needs.split("; ") if needs else []
    if ZERO in parts and isinstance(before[0], ZeroDivisionError):
        return False
    return all(part_holds(part, given) for part in parts if part != ZERO)


def part_holds(part: str, given: Arguments) -> bool:
    for pattern, test in HOLDS.items():
        if found := re.fullmatch(pattern, part):
            try:
                return test(*(value(text, given) for text in found.groups()))
            except (RuntimeError, IndexError, TypeError):  # as the sum of what has none: the line is an error, too
                return True
    raise AssertionError(f"no test says when it holds: {part}")


def agrees(text: str, cause: BreakCause, inputs: Iterator[Arguments]) -> tuple[Rewrite, int, int]:
    """A rewrite, how many inputs its condition admits, and how many others differ. It fails where an admitted one does."""
    found, better = rewritten(HEAD + text, cause)
    old, new, admitted, others = loaded(HEAD + text).f, loaded(better).f, 0, 0
    for given in inputs:
        before, after = outcome(old, given), outcome(new, given)
        if holds(found.needs, given, before):
            assert are_same(before, after), (found.after, given, before, after)
            admitted += 1
        else:
            others += not are_same(before, after)
    return found, admitted, others


# -- numbers

DTYPES = (
    torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip
NUMBERS = (0.0, 1.0, 3.0, 0.1, -2.5, 250.0, 60_000.0, 1e-7, float("nan"), float("inf"))


def numbers(dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """A tensor of each number that a dtype has."""
    for number in NUMBERS:
        whole = torch.tensor(number, dtype=torch.float64)
        if dtype.is_floating_point or float(whole.to(dtype)) == number:
            yield whole.to(dtype)


def tensors(dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """Tensors of every form."""
    flat = torch.tensor([3.0, 0.5, 0.0, 2.0, 1.0, 250.0]).to(dtype)
    for one in (flat, flat.reshape(3, 2).t(), flat[1], flat[:1], flat[2:], flat[:0]):
        yield one.clone()
        if dtype.is_floating_point:
            yield -one
            yield one.clone().requires_grad_()
    if dtype.is_floating_point:
        yield torch.tensor([1.0, float("nan"), float("inf")], dtype=dtype)


def alone() -> Iterator[Arguments]:
    for dtype in DTYPES:
        for x in tensors(dtype):
            yield {"x": x}


def with_a_number() -> Iterator[Arguments]:
    for one, other in itertools.product(DTYPES, DTYPES):
        for x, s in itertools.product(itertools.islice(tensors(one), 0, None, 3), numbers(other)):
            yield {"x": x, "s": s}
            if other == torch.float32:
                yield {"x": x, "s": s.reshape(1)}
                yield {"x": x, "s": s.clone().requires_grad_()}


def with_two_numbers() -> Iterator[Arguments]:
    for one, other in itertools.product(DTYPES, DTYPES):
        x = next(tensors(one))
        for s, t in itertools.product(numbers(other), numbers(other)):
            yield {"x": x, "s": s, "t": t}


def with_numbers() -> Iterator[Arguments]:
    for one, other in itertools.product(DTYPES, DTYPES):
        for x, s in itertools.product(itertools.islice(tensors(one), 0, None, 4), list(tensors(other))):
            yield {"x": x, "s": s.detach()}


OF_NUMBERS: dict[str, tuple[str, Callable[[], Iterator[Arguments]]]] = {
    "divided by its largest": ("def f(x):\n    return x / x.max().item()\n", alone),
    "less its mean": ("def f(x):\n    return x - x.mean().item()\n", alone),
    "times its sum": ("def f(x):\n    return x * x.sum().item()\n", alone),
    "plus the place of its largest": ("def f(x):\n    return x + x.argmax().item()\n", alone),
    "to the power of its largest": ("def f(x):\n    return x ** x.max().item()\n", alone),
    "in place, by its largest": ("def f(x):\n    x *= x.max().item()\n    return x + 1\n", alone),
    "in place, by a part of it": ("def f(x: torch.Tensor):\n    x *= x[0].item()\n    return x + 1\n", alone),
    "scaled to its largest": ("def f(x):\n    return x * (1 / (x.max().item() + 1e-6))\n", alone),
    "its largest, before it is written": (
        "def f(x):\n    n = x.max().item()\n    x.add_(1)\n    return x * n\n", alone,
    ),
    "times": ("def f(x, s):\n    return x.abs() * s.item()\n", with_a_number),
    "plus": ("def f(x, s):\n    return s.item() + x.abs()\n", with_a_number),
    "over": ("def f(x, s):\n    return x.abs() / s.item()\n", with_a_number),
    "to the power": ("def f(x, s):\n    return x.abs() ** s.item()\n", with_a_number),
    "less what is negative": ("def f(x, s):\n    return x.abs() - -s.item()\n", with_a_number),
    "times a quotient": ("def f(x, s):\n    return x.abs() * (1 / s.item())\n", with_a_number),
    "over a little more": ("def f(x, s):\n    return x.abs() / (s.item() + 1e-6)\n", with_a_number),
    "times what was there": (
        "def f(x, s):\n    n = s.item()\n    s.mul_(3)\n    return x.abs() * n\n", with_a_number,
    ),
    "times a part of what was there": (
        "def f(x, s):\n    n = s.view(-1)[0].item()\n    s.mul_(3)\n    return x.abs() * n\n", with_a_number,
    ),
    "a quotient of what was there": (
        "def f(x, s):\n    n = s.item() / 2\n    s.mul_(3)\n    return x.abs() * n\n", with_a_number,
    ),
    "times an int": ("def f(x, s: torch.Tensor):\n    return x.abs() * int(s)\n", with_a_number),
    "an int of what was there": (
        "def f(x, s: torch.Tensor):\n    n = int(s)\n    s.mul_(3)\n    return x.abs() * n\n", with_a_number,
    ),
    "times a float": ("def f(x, s: torch.Tensor):\n    return x.abs() * float(s)\n", with_a_number),
    "times a half of a float": ("def f(x, s: torch.Tensor):\n    return x.abs() * (float(s) / 2)\n", with_a_number),
    "times a difference": ("def f(x, s, t):\n    return x.abs() * (s.item() - t.item())\n", with_two_numbers),
    "times a sum": ("def f(x, s, t):\n    return x.abs() * (s.item() + t.item())\n", with_two_numbers),
    "times a product": ("def f(x, s, t):\n    return x.abs() * (s.item() * t.item())\n", with_two_numbers),
    "times a quotient of two": ("def f(x, s, t):\n    return x.abs() * (s.item() / t.item())\n", with_two_numbers),
    "one after the other": ("def f(x, s, t):\n    return x.abs() * s.item() + t.item()\n", with_two_numbers),
    "each of several": (
        "def f(x, s):\n    x = x.abs()\n    for v in s.tolist():\n        x = x * v\n    return x\n", with_numbers,
    ),
    "each of several, which it writes": (
        "def f(x, s):\n    x = x.abs()\n    for v in s.tolist():\n        s.add_(1)\n        x = x * v\n    return x\n",
        with_numbers,
    ),
    "each of several, halved": (
        "def f(x, s):\n    x = x.abs()\n    for v in s.tolist():\n        x = x + v / 2\n    return x\n", with_numbers,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "inputs"), OF_NUMBERS.values(), ids=OF_NUMBERS)
def test_a_tensor_in_place_of_a_number_computes_the_same(text: str, inputs: Callable[[], Iterator[Arguments]]) -> None:
    found, admitted, others = agrees(text, BreakCause(ITEM), inputs())
    assert admitted >= 10
    assert bool(found.needs) == bool(others), "a condition that nothing needs"


def test_a_name_that_means_another_tensor_by_then_is_not_said() -> None:
    text = "def f(x):\n    n = x.max().item()\n    x = x.half()\n    return x * n\n"
    found, _ = rewritten(HEAD + text, BreakCause(ITEM))
    assert found.needs.startswith("what it meets has a floating-point dtype, `x.max()` the same or an integer one")
