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
from torch._subclasses import FakeTensorMode

from compiler_lens.facts.breaks.rewrites import Rewrite, rewrite
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources
from tests.sampled import one_of

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
        results = [one for one in (result if isinstance(result, tuple) else (result,)) if isinstance(one, torch.Tensor)]
        for one in results:
            if one.requires_grad and one.is_floating_point():
                one.sum().backward(retain_graph=True)
    except Exception as error:  # noqa: BLE001 -- whatever it raises is what it does
        return [error]
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
        except (AssertionError, RuntimeError):  # of bools that differ
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
    return x.is_floating_point() and all(one.dtype == x.dtype or is_of_integers(one) for one in s)


def is_of_integers(s: torch.Tensor) -> bool:
    return not s.is_floating_point() and s.dtype != torch.bool


def fits(s: torch.Tensor) -> bool:
    return s.numel() == 1 and bool(s.isfinite()) and abs(float(s.detach())) < 2**63


def is_of_numpys(*tensors: torch.Tensor) -> bool:
    same = len({one.dtype for one in tensors}) == 1 and tensors[0].dtype in {torch.float32, torch.float64}
    return same and all(one.dim() for one in tensors)


def is_of_numpys_alone(*tensors: torch.Tensor) -> bool:
    return is_of_numpys(*tensors) and not any(one.requires_grad for one in tensors)


# Parts of conditions, with N for each tensor that they name, or for several.
HOLDS: Mapping[str, Callable[..., bool]] = {
    "N without dimensions": lambda *s: all(one.dim() == 0 for one in s),
    "N with one dimension": lambda s: s.dim() == 1,
    "N of a floating-point dtype": of_a_floating_dtype,
    "N of a floating-point dtype, N of the same or of integers, all on one device": of_a_floating_dtype,
    "N of float32": is_wide,
    "N of float32, N of float32 or int64, all on one device": (
        lambda x, *s: is_wide(x) and all(one.dtype in {torch.float32, torch.int64} for one in s)
    ),
    "what it meets of a floating-point dtype, N of the same or of integers, all on one device": (
        lambda s: s.dtype == torch.float32
    ),
    "N within int64, and not nan": fits,
    "no autocast around it: that makes N float32": lambda _: True,  # of the inputs that say so it is not
    "numbers are then rounded as float32 is": lambda: True,  # which assert_close allows for
    "N without requires_grad: of a leaf that has it the deepcopy has it, too, of another it is an error": (
        lambda x: not x.requires_grad
    ),
    "N has the shape, dtype and device of N": lambda v, x: (v.shape, v.dtype) == (x.shape, x.dtype),
    "N is a number in each call, and no nan": lambda s: s == s,  # noqa: PLR0124 -- which nan is not
    "N has no views, and is none": lambda _: True,  # as the functions here have it
    "neither N nor N is written in place later": lambda *_: True,
    "nothing that was computed of N is still to run backward": lambda _: True,
    "N: float32 or float64, with dimensions": is_of_numpys,
    "N: float32 or float64, with dimensions, and without requires_grad": is_of_numpys_alone,
    "N: both float32 or both float64, with dimensions, and without requires_grad": is_of_numpys_alone,
    "all of them are float32, or all int64, without dimensions, and on the device where their list is to be": (
        lambda s, t: s.dtype == t.dtype and s.dtype in {torch.float32, torch.int64} and s.dim() == t.dim() == 0
    ),
    "all of them are float32, without dimensions, and on the device where their list is to be": (
        lambda s, t: s.dtype == t.dtype == torch.float32 and s.dim() == t.dim() == 0
    ),
    "of no copies it is a tensor without rows, where torch.stack is an error": lambda n: n > 0,
    "neither is empty, or a view (.detach(), .data) of the other's memory": (
        lambda x, y: x is y or bool(x.numel() and y.numel() and x.data_ptr() != y.data_ptr())
    ),
}
# Conditions that do not name what they are about.
NAMED = {"all of them": ("s", "t"), "of no copies": ("n",), "neither is empty": ("x", "y")}
ZERO = "where Python raises ZeroDivisionError, there is inf or nan"


def holds(needs: str, given: Arguments, before: list[Any]) -> bool:
    """Whether what a rewrite takes for granted is so for some arguments."""
    parts = needs.split("; ") if needs else []
    if ZERO in parts and isinstance(before[0], ZeroDivisionError):
        return False
    if given.get("autocast") and any(part.startswith("no autocast around it") for part in parts):
        return False
    return all(part_holds(part, given) for part in parts if part != ZERO)


def part_holds(part: str, given: Arguments) -> bool:
    names = next((names for words, names in NAMED.items() if part.startswith(words)), None)
    if names is None:
        test, names = re.sub(r"`[^`]+`( and `[^`]+`)*", "N", part), re.findall(r"`([^`]+)`", part)
    else:
        test = part.replace("`", "")
    assert test in HOLDS, "no test says when it holds"
    try:
        return HOLDS[test](*(value(name, given) for name in names))
    except (RuntimeError, IndexError, TypeError):  # as the sum of what has none: the line is an error, too
        return True


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


def under_autocast_or_not() -> Iterator[Arguments]:
    for given in alone():
        yield {**given, "autocast": False}
        yield {**given, "autocast": True}


def with_a_number() -> Iterator[Arguments]:
    for one, other in itertools.product(DTYPES, DTYPES):
        for x, s in itertools.product(itertools.islice(tensors(one), 0, None, 2), numbers(other)):
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
    "divided by its largest of any sign": (
        "def f(x):\n    scale = x.abs().max().item()\n    return x / scale\n", alone,
    ),
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
    "divided by its product": (
        "def f(x, autocast):\n    with torch.autocast('cpu', enabled=autocast):\n        return x / x.prod().item()\n",
        under_autocast_or_not,
    ),
    "divided by its largest, under autocast": (
        "def f(x, autocast):\n    with torch.autocast('cpu', enabled=autocast):\n        return x / x.max().item()\n",
        under_autocast_or_not,
    ),
    "times": ("def f(x, s):\n    return x.abs() * s.item()\n", with_a_number),
    "plus": ("def f(x, s):\n    return s.item() + x.abs()\n", with_a_number),
    "over": ("def f(x, s):\n    return x.abs() / s.item()\n", with_a_number),
    "to the power": ("def f(x, s):\n    return x.abs() ** s.item()\n", with_a_number),
    "less what is negative": ("def f(x, s):\n    return x.abs() - -s.item()\n", with_a_number),
    "times a quotient": ("def f(x, s):\n    return x.abs() * (1 / s.item())\n", with_a_number),
    "over a little more": ("def f(x, s):\n    return x.abs() / (s.item() + 1e-6)\n", with_a_number),
    "times, before it is written": (
        "def f(x, s):\n    y = x.abs() * s.item()\n    s.mul_(3)\n    return y\n", with_a_number,
    ),
    "times an int, before it is written": (
        "def f(x, s: torch.Tensor):\n    y = x.abs() * int(s)\n    s.mul_(3)\n    return y\n", with_a_number,
    ),
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


@pytest.mark.parametrize(("text", "inputs"), one_of(3, OF_NUMBERS))
def test_a_tensor_in_place_of_a_number_computes_the_same(text: str, inputs: Callable[[], Iterator[Arguments]]) -> None:
    found, admitted, others = agrees(text, BreakCause(ITEM), inputs())
    assert admitted >= 10
    assert bool(found.needs) == bool(others), "a condition that nothing needs"


OF_ALL = (
    "amax", "amin", "logsumexp", "max", "mean", "median", "min", "norm", "prod", "std", "sum", "var",
)  # fmt: skip


@pytest.mark.parametrize("name", OF_ALL)
def test_what_autocast_gives_in_float32_is_said_of_nothing_else(name: str) -> None:
    with FakeTensorMode(), torch._C._DisableAutocast():  # a GPU's, without one
        torch.set_autocast_enabled("cuda", True)
        x = torch.empty(4, dtype=torch.float16, device="cuda")
        is_widened = getattr(x, name)(*([0] if name == "logsumexp" else [])).dtype != torch.float16
    found, _ = rewritten(f"{HEAD}def f(x):\n    return x / x.{name}().item()\n", BreakCause(ITEM))
    assert ("no autocast around it" in found.needs) == is_widened


def test_a_name_that_means_another_tensor_by_then_is_not_said() -> None:
    text = "def f(x):\n    n = x.max().item()\n    x = x.half()\n    return x * n\n"
    found, _ = rewritten(HEAD + text, BreakCause(ITEM))
    assert found.needs.startswith("what it meets of a floating-point dtype, `x.max()` of the same or of integers")


# -- other calls


def with_another() -> Iterator[Arguments]:
    """Two tensors, of equal and of different forms; the same one twice; one that shares the other's memory."""
    for one, other in itertools.product(DTYPES, DTYPES):
        for x, y in itertools.product(itertools.islice(tensors(one), 0, None, 2), list(tensors(other))):
            if x.shape == y.shape or x.numel() == 1 or y.numel() == 1:
                yield {"x": x, "y": y}
    for dtype in DTYPES:
        for x in tensors(dtype):
            yield {"x": x, "y": x}


def with_a_count() -> Iterator[Arguments]:
    for dtype in DTYPES:
        for x, n in itertools.product(tensors(dtype), (0, 1, 3)):
            yield {"x": x, "n": n}


def two_numbers() -> Iterator[Arguments]:
    for given in with_two_numbers():
        yield {"s": given["s"], "t": given["t"]}
    yield from ({"s": torch.tensor([1.0]), "t": torch.tensor([2.0])}, {"s": torch.tensor(1.0), "t": torch.tensor(2)})


DEEP = BreakCause("copy.deepcopy()", context="copy.deepcopy(TensorVariable())")
DATA = BreakCause("Failed to mutate tensor data attribute")
POINTER = BreakCause("Data pointer comparison")
STACK = BreakCause("Could not extract specialized integer from data-dependent expression")
OF_OTHERS: dict[str, tuple[BreakCause, str, Callable[[], Iterator[Arguments]]]] = {
    "a deep copy": (
        DEEP, "def f(x: torch.Tensor):\n    y = copy.deepcopy(x)\n    y *= 2\n    return x.detach() + y\n", alone,
    ),
    "data of a new tensor": (
        DATA, "def f(x, y):\n    x.data = y * 2\n    return x + 1\n", with_another,
    ),
    "data of an argument": (DATA, "def f(x, y):\n    x.data = y\n    return x + 1\n", with_another),
    "a sine": (BreakCause(NUMPY), "def f(x):\n    return torch.from_numpy(np.sin(x.numpy())) + 1\n", alone),
    "a sine without a gradient": (
        BreakCause(NUMPY), "def f(x):\n    return x * torch.from_numpy(np.sin(x.detach().numpy()))\n", alone,
    ),
    "an absolute value on the CPU": (
        BreakCause(NUMPY), "def f(x):\n    return torch.as_tensor(np.abs(x.detach().cpu().numpy()))\n", alone,
    ),
    "the larger ones": (
        BreakCause(NUMPY), "def f(x, y):\n    return torch.from_numpy(np.maximum(x.numpy(), y.numpy()))\n",
        with_another,
    ),
    "a list of numbers": (BreakCause(ITEM), "def f(s, t):\n    return torch.tensor([s.item(), t.item()])\n", two_numbers),
    "a list of floats": (
        BreakCause(ITEM),
        "def f(s: torch.Tensor, t: torch.Tensor):\n    return torch.tensor([float(s), t.item()])\n", two_numbers,
    ),
    "copies": (STACK, "def f(x, n):\n    return torch.stack([x] * n) * 2\n", with_a_count),
    "one memory": (
        POINTER, "def f(x, y):\n    if x.data_ptr() == y.data_ptr():\n        return 1\n    return 2\n",
        with_another,
    ),
}  # fmt: skip
OF_OTHERS |= {
    f"np.{name}": (BreakCause(NUMPY), f"def f(x):\n    return torch.from_numpy(np.{name}(x.detach().numpy()))\n", alone)
    for name in (
        "cos", "tan", "tanh", "exp", "log", "log1p", "expm1", "sqrt", "square", "floor", "ceil",
    )
}  # fmt: skip


@pytest.mark.parametrize(("cause", "text", "inputs"), OF_OTHERS.values(), ids=OF_OTHERS)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_another_call_computes_the_same(
    cause: BreakCause, text: str, inputs: Callable[[], Iterator[Arguments]]
) -> None:
    found, admitted, others = agrees(text, cause, inputs())
    assert admitted >= 8
    assert found.needs
    assert others, "a condition that nothing needs"


LOCAL_SCALAR = BreakCause("Data dependent operator", context="aten._local_scalar_dense.default")
OF_ARRAYS = {
    "above a share": "limit = max(0.1, float(np.percentile(a, 10)))\n    return torch.from_numpy(a > limit)",
    "a share first": "limit = max(float(np.quantile(a, 0.3)), 0.1)\n    return torch.from_numpy(limit <= a)",
    "below its mean": "limit = min(-1, float(np.mean(a)))\n    return torch.from_numpy(a < limit)",
    "its mean first": "limit = min(float(np.mean(a)), 1e-3)\n    return torch.from_numpy(a - limit)",
    "its largest": "largest = float(np.max(a))\n    return torch.from_numpy(a / largest)",
}


@pytest.mark.parametrize("text", OF_ARRAYS.values(), ids=OF_ARRAYS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_number_of_numpys_in_place_of_one_of_pythons_computes_the_same(text: str) -> None:
    text = f"def f(x):\n    a = x.detach().numpy()\n    {text}\n"
    found, admitted, _ = agrees(text, LOCAL_SCALAR, alone())
    assert admitted >= 8
    assert not found.needs
    asked = BreakCause("UserError: Could not guard on data-dependent expression Max(0.1, zuf0)")
    assert rewrite(asked, Sources({FILE: HEAD + text}), at_end(HEAD + text)) == found  # where the number is compared


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_number_of_numpys_compared_with_an_argument_says_that_it_is_no_nan() -> None:
    text = "def f(x, s=0.1):\n    a = x.numpy()\n    limit = max(s, float(np.mean(a)))\n    return torch.tensor(a > limit)\n"
    found, _, others = agrees(text, LOCAL_SCALAR, ({"x": x, "s": s} for x in tensors(torch.float32) for s in NUMBERS))
    assert found.after == ("limit = np.fmax(s, np.mean(a))",)
    assert others


def at_end(text: str) -> SourceLine:
    lines = text.rstrip("\n").split("\n")
    return SourceLine(FILE, len(lines), "f", lines[-1].strip())


NOT_OFFERED = {
    "a number of NumPy's that goes elsewhere, too": (
        LOCAL_SCALAR,
        "def f(x):\n    a = x.numpy()\n    n = float(np.mean(a))\n    return torch.tensor(a > n), n\n",
    ),
    "a number of NumPy's that another array meets": (
        LOCAL_SCALAR,
        "def f(x, y):\n    a = x.numpy()\n    b = y.numpy()\n    n = float(np.mean(a))\n    return torch.tensor(b > n)\n",
    ),
    "a mean of each row by NumPy": (
        LOCAL_SCALAR,
        "def f(x):\n    a = x.numpy()\n    n = float(np.mean(a, 0))\n    return torch.tensor(a > n)\n",
    ),
    "a product by NumPy, which is another of matrices": (
        BreakCause(NUMPY), "def f(x):\n    return torch.from_numpy(np.dot(x.numpy(), x.numpy()))\n",
    ),
    "a sign by NumPy, which is nan of nan": (
        BreakCause(NUMPY), "def f(x):\n    return torch.from_numpy(np.sign(x.numpy()))\n",
    ),
    "an array of something else": (
        BreakCause(NUMPY), "def f(x, a):\n    return torch.from_numpy(np.maximum(x.numpy(), a))\n",
    ),
    "flags compared, and added up": (BreakCause(ITEM), "def f(x, s):\n    return x.abs() * ((s > 0).item() + 1)\n"),
    "a message that gives a queue's next": (
        BreakCause("Failed to trace builtin operator"), "def f(x, left):\n    print(left.get())\n    return x\n",
    ),
    "a message that gives a queue's next at once": (
        BreakCause("Failed to trace builtin operator"), "def f(x, left):\n    print(left.get(False))\n    return x\n",
    ),
    "a message that adds to a set": (
        BreakCause("Failed to trace builtin operator"), "def f(x, seen):\n    print(seen.add(1))\n    return x\n",
    ),
    "a message that waits for a thread": (
        BreakCause("Failed to trace builtin operator"), "def f(x, other):\n    print(other.join())\n    return x\n",
    ),
    "a gradient of what was computed above": (
        BreakCause("setattr() on Tensor.requires_grad"),
        "def f(x):\n    y = x * 2\n    x.requires_grad = True\n    return x + y\n",
    ),
    "a gradient in a branch": (
        BreakCause("setattr() on Tensor.requires_grad"),
        "def f(x, on):\n    if on:\n        x.requires_grad = True\n    return x\n",
    ),
    "a gradient where the function says": (
        BreakCause("setattr() on Tensor.requires_grad"), "def f(x, on):\n    x.requires_grad = on\n    return x\n",
    ),
    "a parameter of a name that is taken": (
        BreakCause("Attempted to use `torch.nn.Parameter()` constructor with Dynamo"),
        "def f(self, x):\n    w = torch.nn.Parameter(torch.ones(3))\n    return x * w * self.w\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("cause", "text"), NOT_OFFERED.values(), ids=NOT_OFFERED)
def test_what_would_be_another_is_not_offered(cause: BreakCause, text: str) -> None:
    text = HEAD + text
    lines = text.split("\n")
    places = [SourceLine(FILE, number, "f", line.strip()) for number, line in enumerate(lines, 1)]
    assert [rewrite(cause, Sources({FILE: text}), place) for place in places] == [None] * len(places)
