"""Every suggested rewrite is proven: the user's text with it compiles without that break and computes the same."""

import contextlib
import io
import linecache
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.breaks.rewrites import Rewrite, alternative, rewrite
from compiler_lens.facts.overview.explanation import explain
from compiler_lens.recording.model import BreakCause, GraphBreak, SourceLine
from compiler_lens.recording.source_text import Sources
from tests.alike import applied

BRANCH = BreakCause("Data-dependent branching", context="attempted to jump with TensorVariable()")
ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
SHAPE = BreakCause("Dynamic shape operator", context="aten.nonzero.default")
FILE = "/home/user/app/user_model.py"
UP = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 4.0, 0.5]])
INPUTS = (UP, -UP, UP * 10)

HEAD = """\
import copy, logging, random, time, warnings
import numpy as np
import torch
import torch.nn.functional as F

class OnceLogger(logging.Logger):
    def warning_once(self, *args):
        self.warning(*args)
logger = OnceLogger("user")
"""


@pytest.fixture(autouse=True)
def _lines_of_the_test() -> Iterator[None]:
    yield
    linecache.cache.pop(FILE, None)
    sys.modules.pop("user_model", None)


def loaded(text: str) -> ModuleType:
    """The user's module, with its lines where torch looks for them."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    module = ModuleType("user_model")
    sys.modules["user_model"] = module  # torch.cond's functions are found by the name of their module
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def places_of(text: str, *inputs: torch.Tensor):
    """The breaks of `f` compiled once, and what it gives for each input."""
    torch.compiler.reset()
    compiled = torch.compile(loaded(text).f, backend="eager")
    with Lens(strict=True) as lens, contextlib.redirect_stdout(io.StringIO()):
        results = [compiled(x.clone()) for x in inputs]
    return [Place(b.root, own_line(b)) for b in lens.recording.graph_breaks], results


class Place(NamedTuple):
    """A break at a line of the user's own."""

    cause: BreakCause
    line: SourceLine


def own_line(event: GraphBreak) -> SourceLine:
    lines = [line for line in (*event.user_stack, event.location) if line and line.file == FILE]
    return lines[-1]


def at(text: str, line: int) -> SourceLine:
    return SourceLine(FILE, line, "f", text.split("\n")[line - 1].strip())


def suggestion(text: str, cause: BreakCause, containing: str) -> Rewrite | None:
    """What is suggested for the first line with some words in it."""
    number = next(n for n, line in enumerate(text.split("\n"), 1) if containing in line)
    return rewrite(cause, Sources({FILE: text}), at(text, number))


def proven(source: str, fill: str = "", inputs: tuple[torch.Tensor, ...] = INPUTS) -> Rewrite:
    """Compiles the source, takes the rewrite of its first break, and holds it to its promise."""
    text = HEAD + source
    places, _ = places_of(text, inputs[0])
    assert places, "nothing broke: the test proves nothing"
    found = rewrite(places[0].cause, Sources({FILE: text}), places[0].line)
    assert found is not None, places[0]
    assert found.is_complete == (not fill)
    better = applied(text, found).replace("...", fill) if fill else applied(text, found)
    left, results = places_of(better, *inputs)
    assert not left
    original, eager = loaded(text).f, loaded(better).f
    for x, result in zip(inputs, results, strict=True):
        expected = original(x.clone())
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(eager(x.clone()), expected)
    return found


BRANCHES = {
    "if and else": """
def f(x):
    if x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y * 2
""",
    "if alone": """
def f(x):
    y = x * 2
    if (x > 3).any():
        y = y / 2  # a remark
    return y
""",
    "two targets, the test reads the first": """
def f(x):
    z = x
    if x.sum() > 0:
        x = x + 1
        z = x * 2
    else:
        x = x - 1
        z = x * 3
    return x, z
""",
    "augmented": """
def f(x):
    x = x.clone()
    if x.sum() > 0:
        x += 1
    return x
""",
    "augmented on both sides": """
def f(x):
    x = x.clone()
    if x.sum() > 0:
        x *= x.max()
    else:
        x -= 2
    return x
""",
    "augmented with the same operator": """
def f(x):
    x = x.clone()
    if x.sum() > 0:
        x -= x.max() + 1
    else:
        x -= 2
    return x
""",
    "return and else": """
def f(x):
    if x.sum() > 0:
        return x.exp()
    else:
        return torch.zeros_like(x)
""",
    "return and then return": """
def f(x):
    if not x.sum() > 0:
        return x + 1

    return x - 1
""",
    "elif": """
def f(x, big=False):
    if big:
        x = x * 100
    elif x.sum() > 0:
        x = x + 1
    else:
        x = x - 1
    return x
""",
    "elif with item": """
def f(x, big=False):
    if big:
        x = x * 100
    elif x.sum().item() > 0:
        x = x + 1
    return x
""",
    "elif that returns": """
def f(x, big=False):
    if big:
        return x * 100
    elif x.sum().item() > 0:
        return x + 1
    else:
        return x - 1
""",
    "elif of tensors": """
def f(x):
    if x.sum() > 5:
        y = x + 1
    elif x.sum() < -5:
        y = x * 2
    else:
        y = x - 1
    return y
""",
    "elif of tensors without an end": """
def f(x):
    y = x * 1
    if x.sum() > 5:
        y = y + 1
    elif x.sum() < -5:
        y = y * 2
    return y
""",
    "what torch says is a tensor": """
class Gate:
    big = None

    def __call__(self, x):
        return x.sum() > 0

gate = Gate()

def f(x):
    if gate(x):
        x = x + x.abs()
    return x
""",
    "not what torch says is a tensor": """
class Gate:
    def __call__(self, x):
        return x.sum() > 0

gate = Gate()

def f(x):
    if not gate(x):
        x = x + x.abs()
    return x
""",
    "and, or": """
def f(x):
    if x.sum() > 0 and (x.max() < 20 or not x.min() < 0):
        x = x + 1
    return x
""",
    "between": """
def f(x):
    if 0 < x.sum() < 20:
        x = x + 1
    return x
""",
    "a name for the test": """
def f(x):
    big = x.sum() > 0
    if big:
        x = x + 1
    return x
""",
    "in": """
def f(x):
    y = x.abs()
    if 1.0 in y:
        y = y * 2
    return y
""",
    "not in": """
def f(x):
    y = x.abs()
    if x.max() not in y and x.sum() > 0:
        y = y * 2
    return y + 1
""",
    "in, as a value": """
def f(x):
    return x.exp() * 2 if 2 in x.abs() else x.exp() + 1
""",
    "a number as test": """
def f(x):
    if x.sum():
        x = x + 1
    return x
""",
    "item in the test": """
def f(x):
    if x.sum().item() > 0:
        x = x + 1
    return x
""",
    "bool in the test": """
def f(x):
    if bool((x > 3).any()):
        x = x + 1
    return x
""",
    "numbers": """
def f(x):
    if x.sum() > 0:
        scale = 2.0
    else:
        scale = 0.5
    return x * scale
""",
    "conditional expression": """
def f(x):
    return 2 * (x + 1 if x.sum() > 0 else -x)
""",
    "torch.equal": """
def f(x):
    if torch.equal(x, x.abs()):
        x = x + 1
    return x
""",
    "torch.allclose": """
def f(x):
    if torch.allclose(x, x.abs(), atol=1e-3):
        x = x + 1
    return x
""",
    "over several lines": """
def f(x):
    if (
        x.sum()  # of all
        > 0
    ):
        y = (
            x
            + 1
        )
    else:
        y = x - 1
    return y
""",
    "not ASCII": """
def f(x):
    größe = x * 2
    if größe.sum() > 0:  # größer
        größe = größe + 1
    return größe
""",
}


@pytest.mark.parametrize("source", BRANCHES.values(), ids=BRANCHES.keys())
def test_a_branch_becomes_where(source):
    found = proven(source)
    assert any("torch.where(" in line for line in found.after)


SAVES_WORK = {
    "a write of a number": "def f(x):\n    m = x > 3\n    x = x * 1\n    if m.any():\n        x[m] = 0.5\n    return x\n",
    "in place": "def f(x):\n    m = x > 3\n    x = x * 1\n    if m.any():\n        x.masked_fill_(m, 2.0)\n    return x\n",
    "two of them": """
def f(x):
    m = x > 3
    y = x * 2
    if m.any():
        x = x.masked_fill(m, 1.0)  # a remark
        y.masked_fill_(m, -1.0)
    return x + y
""",
}


SAVES_WORK |= {
    "a fill by a mask of the caller's": """
low = float("-inf")

def f(x):
    return g(x, x > 3)

def g(x, m):
    if m.any():
        x = x.masked_fill(m, low)
    return x
""",
    "any of torch": "def f(x):\n    m = x > 3\n    if torch.any(m):\n        x = x.masked_fill(m, value=-1)\n    return x * 2\n",
    "a sum": "def f(x):\n    m = x > 3\n    if m.sum() > 0:\n        x = x.masked_fill(m, torch.finfo(x.dtype).min)\n    return x * 2\n",
}  # fmt: skip


@pytest.mark.parametrize("source", SAVES_WORK.values(), ids=SAVES_WORK)
def test_a_check_that_only_saves_work_is_left_out(source):
    found = proven(source)
    assert not any(word in line for line in found.after for word in ("any(", "sum(", "where("))


@pytest.mark.parametrize(
    "taken",
    ["loss = loss.sqrt()", "loss = loss * torch.log(loss)", "loss = loss.rsqrt() * 2", "loss = 1 + loss.reciprocal()"],
)
@pytest.mark.parametrize("test", ["loss > 1", "loss >= 0.5"])
def test_a_root_of_what_is_above_a_number_has_the_same_gradient(taken, test):
    """The side that is not taken has a number and a gradient, too: a gradient of 0 times infinity is none."""
    source = f"def f(x):\n    loss = (x * x).sum() * 1\n    if {test}:\n        {taken}\n    return loss\n"
    found = proven(source, inputs=(UP, UP / 100, UP * 0))
    assert f".clamp(min={test.split()[-1]})" in found.after[0]
    gradients = []
    for text in (HEAD + source, applied(HEAD + source, found)):
        for scale in (1, 0.01, 0):
            x = (UP * scale).requires_grad_()
            loaded(text).f(x).backward()
            gradients.append(x.grad)
    torch.testing.assert_close(gradients[:3], gradients[3:])
    assert all(one.isfinite().all() for one in gradients)


GUARDED = {
    "a root": "def f(x):\n    if x.min() > 0:\n        return x.sqrt()\n    return x\n",
    "a quotient": "def f(x, n):\n    x = x.exp()\n    if n > 0:\n        x = x / n\n    return x\n",
    "a logarithm": "def f(x):\n    return x.log() if x.min() > 0 else x\n",
}


@pytest.mark.parametrize("source", GUARDED.values(), ids=GUARDED)
def test_what_the_test_guards_is_chosen_only_to_be_tried(source):
    line = "if" if "    if" in source else "return"
    assert suggestion(HEAD + source, BRANCH, line) is None
    number = next(n for n, code in enumerate((HEAD + source).split("\n"), 1) if code.strip().startswith(line))
    found = alternative(BRANCH, Sources({FILE: HEAD + source}), at(HEAD + source, number))
    assert "torch.where(" in found.after[0]
    assert "gradients through it are nan" in found.needs


def test_what_is_an_error_without_its_test_is_not_even_tried():
    source = "def f(x, n):\n    x = x.exp()\n    if n > 0:\n        x = x // n\n    return x\n"
    number = (HEAD + source).split("\n").index("    if n > 0:") + 1
    assert alternative(BRANCH, Sources({FILE: HEAD + source}), at(HEAD + source, number)) is None


UNNAMED = {
    "a bare argument": "def f(x, t):\n    if t > 0:\n        x = x + 1\n    return x\n",
    "a bare test": "def f(x, t):\n    y = x * 1\n    if t:\n        y = x\n    return y * 2\n",
    "a comparison of arguments": "def f(x, t):\n    if (x > t).any():\n        x = x - t\n    return x\n",
}


@pytest.mark.parametrize("source", UNNAMED.values(), ids=UNNAMED)
def test_what_was_a_tensor_whenever_it_was_compiled_is_one(source):
    text = HEAD + source
    torch.compiler.reset()
    with Lens(strict=True) as lens:
        torch.compile(loaded(text).f, backend="eager")(UP, torch.tensor(1.0))
    (card,) = explain(lens.recording).cards
    assert card.rewrite is not None
    assert "torch.where(" in card.rewrite.after[0]
    better = loaded(applied(text, card.rewrite)).f
    for t in (1.0, 0.0, -1.0):
        torch.testing.assert_close(better(UP, torch.tensor(t)), loaded(text).f(UP, torch.tensor(t)))


def test_what_was_a_number_in_another_call_is_no_tensor():
    text = HEAD + "def f(x, n):\n    if x.sum() > 0:\n        n = n + 1\n    return x * n\n"
    torch.compiler.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(loaded(text).f, backend="eager")
        compiled(UP, torch.tensor(1.0))
        compiled(UP, 1)
    assert [card.rewrite for card in explain(lens.recording).cards] == [None]


COND = {
    "both sides are costly": """
layer = torch.nn.Linear(3, 3)
other = torch.nn.Linear(3, 3)

def f(x):
    if x.sum() > 0:
        h = layer(x)
        y = h * 2
    else:
        h = other(x)
        y = h
    return y + h
""",
    "only if": """
layer = torch.nn.Linear(3, 3)

def f(x, k=2):
    z = x * 2
    if z.sum() > 0:
        x = layer(x) + z * k
    return x
""",
    "returns": """
layer = torch.nn.Linear(3, 3)

def f(x):
    if x.sum() > 0:
        return layer(x)
    return x
""",
}


@pytest.mark.parametrize("source", COND.values(), ids=COND.keys())
def test_a_branch_of_calls_becomes_cond(source):
    with torch.no_grad(), torch.random.fork_rng():
        text = "torch.manual_seed(0)\n" + source
        found = proven(text)
    assert "torch.cond(" in found.after[-1]


CHECKS = {
    "check of all": ("def f(x):\n    torch._check_tensor_all(x > -1e9)\n    return x + 1\n", ""),
    "check of all with an error": (
        "def f(x):\n    torch._check_tensor_all_with(ValueError, x > -1e9, lambda: 'bad')\n    return x + 1\n",
        "'bad'",
    ),
    "assert": ("def f(x):\n    assert x.sum() > -1e9, f'bad: {x}'\n    return x + 1\n", "'bad'"),
    "assert both": ("def f(x):\n    assert x.min() > -999 and x.max() < 999\n    return x + 1\n", ""),
    "raise": (
        "def f(x):\n    if x.isnan().any():\n        raise ValueError('it is nan')\n    return x + 1\n",
        "it is nan",
    ),
    "raise unless": ("def f(x):\n    if not x.isfinite().all():\n        raise ValueError\n    return x + 1\n", ""),
    "raise on a comparison": ("def f(x):\n    if x.max() > 999:\n        raise ValueError(x)\n    return x + 1\n", ""),
}


@pytest.mark.parametrize(("source", "words"), CHECKS.values(), ids=CHECKS.keys())
def test_a_check_becomes_an_asynchronous_one(source, words):
    found = proven(source)
    assert found.after[0].startswith("torch._assert_async(")
    assert words in found.after[0]
    assert "RuntimeError" in found.needs
    assert "CUDA context" in found.needs
    assert ("its message is then without values" in found.needs) == ("x}" in source or "Error(x" in source)


CHECKED = """
import contextlib

class Check(torch.nn.Module):
    def forward(self, x):
        if x.isnan().any():
            raise ValueError("nan")
        return x * 2

def check(x):
    if x.isinf().any():
        raise ValueError("inf")
    return x * 2

def through(x):
    return check(x) + 1

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.check = Check()

    def forward(self, x):
        return self.check(x)

model = torch.compile(Model())
"""
CAUGHT = {
    "a call": ("inf", "try:\n    check(x)\nexcept ValueError:\n    pass\n"),
    "a call through another": ("inf", "try:\n    y = through(x) * 2\nexcept Exception:\n    raise\n"),
    "a call of what is compiled": (
        "inf",
        "fast = torch.compile(check)\ntry:\n    fast(x)\nexcept ValueError:\n    pass\n",
    ),
    "suppress": ("inf", "def g(x):\n    with contextlib.suppress(ValueError):\n        return through(x)\n"),
    "a call of the module": (
        "nan",
        "def g(x):\n    try:\n        return model(x)\n    except ValueError:\n        return x\n",
    ),
    "a call of its module": (
        "nan",
        "def g(x):\n    try:\n        return Check()(x) + model.check(x)\n    except ValueError:\n        return x\n",
    ),
}


@pytest.mark.parametrize(("kind", "caller"), CAUGHT.values(), ids=CAUGHT)
def test_an_error_that_a_caller_catches_stays_as_it_is(kind, caller):
    line = f"if x.is{kind}().any()"
    assert suggestion(HEAD + CHECKED + caller, BRANCH, line) is None
    without = caller.replace("try:", "if True:").replace("contextlib.suppress(ValueError)", "open(x)")
    without = without.replace("except ValueError:", "if True:").replace("except Exception:", "if True:")
    found = suggestion(HEAD + CHECKED + without, BRANCH, line)
    assert found.after == (f"torch._assert_async(~x.is{kind}().any(), '{kind}')",)
    assert "a RuntimeError: no `except ValueError` of a caller catches it" in found.needs


def test_an_error_that_is_one_of_torchs_says_nothing_of_its_type():
    found = suggestion(HEAD + CHECKED.replace("ValueError", "RuntimeError"), BRANCH, "if x.isinf().any()")
    assert found.needs == "on a GPU a failed check ends the process's CUDA context"


def test_an_error_that_the_same_function_suppresses_stays_as_it_is():
    source = "import contextlib\ndef f(x):\n    with contextlib.suppress(ValueError):\n        if x.isnan().any():\n            raise ValueError\n    return x\n"
    assert suggestion(HEAD + source, BRANCH, "if x.isnan") is None


@pytest.mark.parametrize("name", ["assert", "raise", "raise unless", "raise on a comparison", "check of all"])
def test_the_asynchronous_check_still_finds_what_is_wrong(name):
    text = HEAD + CHECKS[name][0]
    places, _ = places_of(text, UP)
    better = applied(text, rewrite(places[0].cause, Sources({FILE: text}), places[0].line))
    bad = {
        "check of all": -1e12,
        "assert": -1e12,
        "raise": float("nan"),
        "raise unless": float("inf"),
        "raise on a comparison": 1e6,
    }[name]
    with pytest.raises(RuntimeError):
        places_of(better, UP + bad)
    torch.compiler.reset()
    compiled = torch.compile(loaded(better).f, backend="aot_eager", fullgraph=True)  # which drops some assertions
    compiled(UP)
    with pytest.raises(RuntimeError):
        compiled(UP + bad)


LOOPS = {
    "break at the end": """
def f(x):
    for i in range(5):
        x = x + i
        if x.sum() > 12:
            break
    return x
""",
    "break in the middle": """
def f(x):
    y = x * 2
    for i in range(5):
        x = x + i
        if x.sum() > 12:
            break
        y = y - x
    return x, y
""",
    "while": """
def f(x):
    step = x.abs().mean()
    while x.sum() < 12:
        x = x + step
    return x
""",
    "while with two": """
def f(x):
    y = x.abs()
    x = x.clone()
    while x.sum().item() < 12 and y.max() < 1e6:
        y = y * 2
        x += y
    return x, y
""",
}


@pytest.mark.parametrize("source", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_that_a_tensor_ends(source):
    proven(source, inputs=(UP, -UP, UP * 0.1, UP * 10))


NUMBERS = {
    "item": "def f(x):\n    return x * x.sum().item()\n",
    "item of a name": "def f(x):\n    s = x.sum()\n    return x * s.item()\n",
    "item in two steps": "def f(x):\n    s = 1 / x.sum().item()\n    t = -s\n    y = x.exp()\n    return y * t + x * s\n",
    "augmented": "def f(x):\n    y = x.clone()\n    y += x.mean().item()\n    return y\n",
    "float": "def f(x):\n    return x / float(x.max() + 50)\n",
    "int": "def f(x):\n    return x + int(x.max())\n",
    "float of item": "def f(x):\n    return x + float(x.max().item())\n",
    "two of them": "def f(x):\n    return (x - x.min().item()) / (x.max().item() - x)\n",
    "tolist": "def f(x):\n    y = x.exp()\n    for s in x.sum(1).tolist():\n        y = y * s\n    return y\n",
    "stack": "def f(x):\n    return torch.tensor([x.sum().item(), x.max().item()]) + 1\n",
}


@pytest.mark.parametrize("source", NUMBERS.values(), ids=NUMBERS.keys())
def test_a_python_number_stays_a_tensor(source):
    proven(source)


FLOATS = {
    "times": "def f(x, n):\n    return x.abs() * float(n.sum())\n",
    "negative": "def f(x, n):\n    return x.abs() - -float(n.sum())\n",
    "divided": "def f(x, n):\n    return x.abs() / float(n.sum())\n",
    "in two steps": "def f(x, n):\n    s = float(n.sum())\n    return x.abs() + s\n",
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("source", FLOATS.values(), ids=FLOATS.keys())
def test_a_float_of_any_tensor_keeps_the_dtype(source, dtype):
    found = suggestion(HEAD + source, ITEM, "float(")
    old, new = loaded(HEAD + source).f, loaded(applied(HEAD + source, found)).f
    for number in (torch.tensor([3, 4]), torch.tensor([0.5, 1.25])):
        x = torch.tensor([1, 2, 3]).to(dtype)
        torch.testing.assert_close(new(x, number), old(x, number))


def test_a_number_takes_no_gradient_and_its_rewrite_neither():
    text = HEAD + NUMBERS["item"]
    found = suggestion(text, ITEM, "item()")
    gradients = []
    for version in (text, applied(text, found)):
        x = UP.clone().requires_grad_()
        loaded(version).f(x).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


MASKS = {
    "sum": "def f(x):\n    return x[x > 0].sum()\n",
    "mean": "def f(x):\n    m = x > 0\n    return x / x[m].mean()\n",
    "max": "def f(x):\n    return x[x < 100].max()\n",
    "min": "def f(x):\n    keep = ~(x > 1) & (x < 50)\n    return x[keep].min()\n",
    "function": "def f(x):\n    return torch.sum(x[x > 0])\n",
    "masked_select": "def f(x):\n    return torch.masked_select(x, x > 0).sum()\n",
    "write": "def f(x):\n    x = x.clone()\n    x[x < 0] = x[x < 0].exp() * 2\n    return x\n",
    "write of another": "def f(x):\n    y = x * 3\n    m = y > 4\n    y[m] = x[m] - 1\n    return y\n",
    "augmented write": "def f(x):\n    x = x.clone()\n    x[x < 0] *= 2\n    return x\n",
    "write where what is no name": """
def f(x):
    chosen = (x > 0).int()
    y = torch.zeros_like(x)
    y[chosen.bool()] = x[chosen.bool()]
    return y
""",
    "write where an argument says": """
rows = torch.tensor([[True, False, True], [False, True, False]])

def f(x):
    return g(x, rows.view(6))

def g(x, chosen):
    y = torch.zeros(6)
    x = x.view(6)
    y[chosen.view(-1)] = x[chosen.view(-1)]
    return y
""",
    "write where another mask is not": """
def f(x):
    inside = (x >= 0) & (x <= 4)
    outside = ~inside
    y = torch.zeros_like(x)
    y[outside] = x[outside]
    return y
""",
    "rows": """
def f(x):
    out = torch.zeros_like(x)
    choice = (x.sum(1) > 0).long()
    for e in range(2):
        i = torch.where(choice == e)[0]
        if i.numel() == 0:
            continue
        out.index_add_(0, i, F.relu(x[i]) * (e + 1) * choice[i, None])
    return out
""",
    "rows by nonzero": """
def f(x):
    chosen = x.sum(1) > 0
    i = torch.nonzero(chosen).squeeze(-1)
    out = torch.ones_like(x)
    out[i] = x[i] * 2
    return out
""",
    "rows added": """
def f(x):
    chosen = x.sum(1) > 0
    out = torch.ones_like(x)
    (i,) = torch.where(chosen)
    out[i] += x[i] * 2
    return out
""",
}


@pytest.mark.parametrize("source", MASKS.values(), ids=MASKS.keys())
def test_a_mask_keeps_the_shape(source):
    proven(source)


@pytest.mark.parametrize("test", ["x.sum() == 0", "(x > 0).any()", "x.max().item() > 2"])
def test_a_write_where_a_mask_is_true_in_a_branch_has_both_in_its_mask(test):
    found = proven(f"def f(x):\n    if {test}:\n        x[x < 1] = 1\n    return x * 2\n", inputs=(UP, -UP, UP * 0))
    assert found.after == (f"x[(x < 1) & ({test.replace('.item()', '')})] = 1",)
    assert found.needs == "what is written there is computed every time"


@pytest.mark.parametrize(
    "branch",
    [
        "if x.sum() == 0:\n        x[x < 1] = x.max()",
        "if x.sum() == 0:\n        x[i] = 1",
        "if x.sum() == 0:\n        x[x < 1] = 1\n        x[x > 3] = 2",
        "if x.sum() == 0:\n        x[x < 1] = 1\n    else:\n        x = x + 1",
    ],
)
def test_any_other_write_in_a_branch_stays_there(branch):
    text = HEAD + f"def f(x, i):\n    {branch}\n    return x * 2\n"
    found = suggestion(text, BreakCause("Data-dependent branching"), "if x.sum()")
    assert found is None or "x[(" not in "".join(found.after)


BUFFER = """
import torch

class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Buffer(torch.arange(4.0))

    def forward(self, x):
        self.table = self.table.to(device=x.device, dtype=x.dtype)
        return x + self.table[: x.shape[-1]]

m = M()

def f(x):
    return m(x)
"""


def test_a_buffer_is_converted_where_it_is_another_alone():
    cause = BreakCause("Unsupported python_type() call", context="GetAttrVariable(TensorVariable(), persistent)")
    found = suggestion(BUFFER, cause, "self.table = self.table.to")
    better, x = applied(BUFFER, found), torch.ones(3)
    left, (result,) = places_of(better, x)
    assert not left
    torch.testing.assert_close(result, loaded(BUFFER).f(x), rtol=0, atol=0)
    torch.testing.assert_close(loaded(better).f(x.double()), loaded(BUFFER).f(x.double()), rtol=0, atol=0)
    assert loaded(better).m.table.dtype is torch.float32
    for other in ("self.other.to(device=x.device)", "self.table.to(x)", "self.table.to(dtype=kind())"):
        text = BUFFER.replace("self.table.to(device=x.device, dtype=x.dtype)", other)
        assert suggestion(text, cause, "self.table = ") is None


CUDNN = """
import torch

def f(x):
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=False):
        x = x * 2
    return x + 1
"""


def test_flags_of_cudnn_are_left_out_of_a_context_that_has_more():
    places, (before,) = places_of(CUDNN, torch.ones(3))
    assert places
    found = alternative(places[0].cause, Sources({FILE: CUDNN}), places[0].line)
    assert found.after == ("with torch.no_grad():",)
    assert "cuDNN then computes" in found.needs
    assert rewrite(places[0].cause, Sources({FILE: CUDNN}), places[0].line) is None, "a trial has to show it"
    left, (result,) = places_of(applied(CUDNN, found), torch.ones(3))
    assert not left
    torch.testing.assert_close(result, before)
    alone = CUDNN.replace("torch.no_grad(), ", "")
    assert alternative(places[0].cause, Sources({FILE: alone}), places[0].line) is None


FILLS = {
    "a float": "def f(x):\n    x[x > 2] = 2.5\n    return x\n",
    "a negative float": "def f(x):\n    x[x > 2] = -2.5\n    return x\n",
    "an int": "def f(x):\n    x[x > 2] = 0\n    return x\n",
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("source", FILLS.values(), ids=FILLS.keys())
def test_a_write_of_a_number_leaves_the_rest_as_it_is(source, dtype):
    found = suggestion(HEAD + source, SHAPE, "x[x > 2]")
    old, new = loaded(HEAD + source).f, loaded(applied(HEAD + source, found)).f
    x = torch.tensor([-(2**24) - 1, 1, 3]).to(dtype)
    torch.testing.assert_close(new(x.clone()), old(x.clone()), rtol=0, atol=0, equal_nan=True)
    left, _ = places_of(applied(HEAD + source, found), x)
    assert not left


@pytest.mark.parametrize("count", [100_000, 3, 0])
def test_a_mean_is_right_where_its_sum_is_no_float16(count):
    text = HEAD + MASKS["mean"].replace("x / x[m].mean()", "x[m].mean()")
    found = suggestion(text, SHAPE, "mean()")
    x = torch.cat([torch.full((count,), 2.5), -torch.ones(7)]).half()
    torch.testing.assert_close(loaded(applied(text, found)).f(x), loaded(text).f(x), equal_nan=True)


EFFECTS = {
    "texts beside each other": (
        "def f(x):\n    x = x + 1\n    logger.warning(\n        'so '\n        f'{x.dim()} '\n        'long',\n    )\n    return x * 2\n"
    ),
    "print": "def f(x):\n    x = x + 1\n    print('hi', x.shape)\n    return x * 2\n",
    "over lines": "def f(x):\n    x = x + 1\n    print(\n        'hi',\n        x.shape,\n    )\n    return x * 2\n",
    "logger": "def f(x):\n    x = x + 1\n    logger.debug('hi %s', x)\n    return x * 2\n",
    "once": "def f(x):\n    x = x + 1\n    logger.warning_once(\n        'hi'\n    )\n    return x * 2\n",
    "logging": "def f(x):\n    x = x + 1\n    logging.info('hi')\n    return x * 2\n",
    "warn": "def f(x):\n    x = x + 1\n    warnings.warn('hi', stacklevel=2)\n    return x * 2\n",
}


@pytest.mark.parametrize("source", EFFECTS.values(), ids=EFFECTS.keys())
@pytest.mark.filterwarnings("ignore:hi")
def test_a_message_is_left_to_eager(source):
    found = proven(source)
    assert found.after[0] == "if not torch.compiler.is_compiling():"


COPIES = {
    "deepcopy": "def f(x):\n    y = x.exp()\n    z = copy.deepcopy(y)\n    z += 1\n    return y, z\n",
    "data": "def f(x):\n    y = x.clone()\n    y.data = x * 2\n    return y + 1\n",
}


@pytest.mark.parametrize("source", COPIES.values(), ids=COPIES.keys())
def test_a_copy(source):
    found = proven(source)
    assert ("requires_grad" in found.needs) == ("deepcopy" in source)


@pytest.mark.parametrize("sign", ["==", "!="])
def test_the_same_memory_is_the_same_tensor(sign):
    source = f"def f(x):\n    y = x + 1\n    if x.data_ptr() {sign} y.data_ptr():\n        return y * 2\n    return x\n"
    found = proven(source)
    assert found.after == (f"if x {'is' if sign == '==' else 'is not'} y:",)


def test_numpy_becomes_torch():
    with torch._dynamo.config.patch(trace_numpy=False):
        text = "def f(x):\n    y = torch.from_numpy(np.sin(x.detach().cpu().numpy()))\n    return y + 1\n"
        found = suggestion(HEAD + text, BreakCause("Tensor.numpy() with trace_numpy=False"), "from_numpy")
        left, (result,) = places_of(applied(HEAD + text, found), UP)
    assert not left
    torch.testing.assert_close(result, UP.sin() + 1)


@pytest.mark.parametrize("drawn", ["np.random.uniform(0, 1)", "random.random()"])
@pytest.mark.parametrize("training", [False, True])
def test_a_number_that_decides_in_training_alone_is_drawn_in_training_alone(drawn, training):
    body = (
        f"        p = {drawn}\n        if not (self.training and (p < 0.5)):\n            x = x * 2\n        return x\n"
    )
    module = "class M(torch.nn.Module):\n    def forward(self, x):\n" + body
    text = HEAD + module + f"m = M().train({training})\ndef f(x):\n    return m(x)\n"
    places, _ = places_of(text, UP)
    assert places
    known = Sources({FILE: text})
    assert rewrite(places[0].cause, known, places[0].line) is None, "in training it does not help"
    found = alternative(places[0].cause, known, places[0].line)
    assert found.after == (f"p = {drawn} if self.training else 0.0",)
    assert found.needs.endswith("in training it still breaks the graph")
    state = torch.get_rng_state()
    left, (result,) = places_of(applied(text, found), UP)
    assert torch.equal(torch.get_rng_state(), state), "another draw of torch's is as it was"
    assert bool(left) == training
    assert training or torch.equal(result, UP * 2)


EXPERTS = """
import torch
from torch import nn

class Experts(nn.ModuleDict):
    none = 1

    def __init__(self):
        super().__init__()
        for n in range(3):
            self[f"expert_{n}"] = nn.Linear(4, 4)

    def forward(self, x, chosen, weights):
        out = torch.zeros_like(x)
        mask = nn.functional.one_hot(chosen, num_classes=3).permute(2, 1, 0)
        HIT
        for number in hit:
            ROWS
            y = self[NAME](x[None, rows].reshape(-1, x.shape[-1])) * weights[rows, slot, None]
            out.index_add_(0, rows, y.to(x.dtype))
        return out

torch.manual_seed(0)
experts = Experts()

def f(chosen):
    return experts(torch.ones(len(chosen), 4) * torch.arange(4), chosen, chosen / 2 + 1)
"""
FIRST = """number = number[0]
            if number == self.none:
                continue
            slot, rows = torch.where(mask[number])"""
BY_NUMBER = """which = int(number.item())
            slot, rows = torch.where(mask[which].squeeze(0))
            if rows.numel() == 0:
                continue
            if which >= 2:
                scale = x[rows]
            else:
                scale = x[rows] * 2"""
HITS = {
    "rows of nonzero": (
        "hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()",
        "slot, rows = torch.where(mask[number].squeeze(0))", 'f"expert_{number[0]}"',
    ),
    "numbers": (
        "hit = (mask.sum(dim=(-1, -2)) > 0).nonzero().squeeze(-1)",
        "slot, rows = torch.where(mask[number])", 'f"expert_{number}"',
    ),
    "the first of each row, where one number is no expert": (
        "hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()", FIRST, 'f"expert_{number}"',
    ),
    "a number of each, and a branch by it": (
        "hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero(as_tuple=False)", BY_NUMBER, 'f"expert_{which}"',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("hit", "rows", "name"), HITS.values(), ids=HITS)
def test_a_loop_over_the_experts_that_were_chosen_runs_for_all(hit, rows, name):
    text = EXPERTS.replace("HIT", hit).replace("ROWS", rows).replace("NAME", name)
    choices = [torch.tensor(c) for c in ([[0, 1], [1, 2], [0, 2]], [[1, 1], [1, 1], [1, 1]], [[2, 0], [2, 0], [0, 2]])]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        places, _ = places_of(text, choices[0])
        line = next(n for n, code in enumerate(text.split("\n"), 1) if "hit = " in code)
        assert places, "the loop is over a number of rows that depends on the data"
        found = rewrite(SHAPE, Sources({FILE: text}), at(text, line))
        assert "gradient of zeros in place of none" in found.needs
        better = applied(text, found)
        left, results = places_of(better, *choices)
    assert not left
    for given, result in zip(choices, results, strict=True):
        torch.testing.assert_close(result, loaded(text).f(given))


OTHERS = {
    "a branch by the rows": "if rows[0] > 1:\n                scale = 1",
    "a branch that leaves a name": "if number > 1:\n                out_of = weights[rows]",
    "another way out": "if len(rows) > 1:\n                continue",
    "a mean of the rows": "total = total + weights[rows].mean()",
    "a counter": "count += 1",
    "a list": "seen.append(rows)",
    "a largest of the rows": "high = weights[rows].max()",
    "a name that is read later": "out_of = weights[rows]",
}


@pytest.mark.parametrize("line", OTHERS.values(), ids=OTHERS)
def test_a_loop_over_the_experts_that_does_more_is_left_alone(line):
    hit, rows, name = HITS["numbers"]
    text = EXPERTS.replace("HIT", hit).replace("ROWS", rows + "\n            LINE").replace("NAME", name)
    text = text.replace("        return out", "        return out, out_of")
    text = text.replace("        hit =", "        total, high, count, seen = 0, 0, 0, []\n        hit =")
    assert suggestion(text.replace("LINE", "low = weights[rows]"), SHAPE, "hit = ") is not None
    assert suggestion(text.replace("LINE", line), SHAPE, "hit = ") is None


def test_a_loop_that_adds_means_of_groups_is_left_alone():
    hit, rows, name = HITS["numbers"]
    text = EXPERTS.replace("HIT", hit).replace("ROWS", rows).replace("NAME", name)
    assert suggestion(text.replace("index_add_(0, rows,", "index_add_(0, number,"), SHAPE, "hit = ") is None


PRINTS = {
    "a value": "print('sum', x.sum())",
    "a tensor": "print(x.abs())",
    "a number": "print('sum', x.sum().item())",
    "a format": "print(f'{{sum}} {x.sum().item():.2f} and {x.max():>8.3f}')",
}


@pytest.mark.parametrize("line", PRINTS.values(), ids=PRINTS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_graph_prints_what_python_printed(line, backend, capfd):
    text = HEAD + f"def f(x):\n    x = x + 1\n    {line}\n    return x * 2\n"
    found = alternative(
        BreakCause("Failed to trace builtin operator"),
        Sources({FILE: text}),
        at(text, text[: text.index("print(")].count("\n") + 1),
    )
    torch.compiler.reset()
    compiled = torch.compile(loaded(applied(text, found)).f, backend=backend, fullgraph=True)
    capfd.readouterr()
    results = [compiled(x) for x in INPUTS]
    printed = capfd.readouterr().out
    expected = [loaded(text).f(x) for x in INPUTS]
    torch.testing.assert_close(results, expected)
    said = capfd.readouterr().out
    assert printed == said


@pytest.mark.parametrize(
    "line",
    [
        "print('shape', x.shape)",
        "print(name)",
        "print(name, x.sum())",
        "print(x.sum(), end='')",
        "print(int(x.sum()))",
        "print(f'{float(x.sum())}')",
    ],
)
def test_what_may_be_no_number_is_not_printed_by_the_graph(line):
    text = HEAD + f"def f(x, name):\n    x = x + 1\n    {line}\n    return x * 2\n"
    assert (
        alternative(
            BreakCause("Failed to trace builtin operator"),
            Sources({FILE: text}),
            at(text, text[: text.index("print(")].count("\n") + 1),
        )
        is None
    )


RANDOM = {
    "random": ("def f(x):\n    return x.abs() * random.random()\n", "Attempted to call function marked as skipped"),
    "numpy": ("def f(x):\n    return x.abs() * np.random.rand()\n", "Data dependent operator"),
    "a branch": (
        "def f(x):\n    x = x.abs()\n    if random.random() < 0.5:\n        x = x * 0\n    return x\n",
        "Attempted to call function marked as skipped",
    ),
}


@pytest.mark.parametrize(("source", "kind"), RANDOM.values(), ids=RANDOM.keys())
def test_random_numbers_come_from_torch(source, kind):
    line = "np.random" if "np." in source else "random.random"
    found = suggestion(HEAD + source, BreakCause(kind, context="qualname: Random.random"), line)
    better = applied(HEAD + source, found)
    left, (result,) = places_of(better, UP)
    assert not left
    assert "torch.rand(()" in better
    assert "torch.manual_seed" in found.needs
    assert bool(((result >= 0) & (result <= UP.abs())).all())


# -- sketches: what stands for `...` is the test's


def test_no_line_takes_the_place_of_one_that_reads_the_clock():
    """`now = ...` would be no rewrite."""
    cause = BreakCause("Attempted to call function marked as skipped", context="module: time, qualname: time")
    text = HEAD + "def f(x):\n    now = time.time()\n    return x * 2 + 0 * now\n"
    assert suggestion(text, cause, "time.time()") is None


SAID = """\
def f(x):
    y = x * 2
    if y.max() > 0.9 or bool(x.isnan().any()):
        log.warning("large: %s", y.max())
        print(y.shape, y.mean())
    return y
"""


def test_a_test_that_is_there_for_messages_alone_is_asked_in_eager_alone(capfd: pytest.CaptureFixture[str]) -> None:
    found = proven("log = logging.getLogger('train')\n\n\n" + SAID, inputs=(UP, -UP.abs()))
    head = "if not torch.compiler.is_compiling() and (y.max() > 0.9 or bool(x.isnan().any())):"
    assert (found.after[0], found.needs) == (head, "compiled code then runs without this `log.warning` and `print`")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("print(y.shape, y.mean())", "y = y / 2"),
        ("print(y.shape, y.mean())", "print(seen.pop())"),
        ("y.max() > 0.9", "seen.pop() > 0.9"),
        ("    return y", "    else:\n        y = y / 2\n    return y"),
    ],
)
def test_a_test_that_is_there_for_more_is_asked(old: str, new: str) -> None:
    text = HEAD + SAID.replace(old, new)
    found = suggestion(text, BreakCause("Data-dependent branching", context="attempted to jump with"), "    if ")
    assert found is None or "is_compiling" not in found.after[0]


TIMED = """\
def f(x):
    start = time.perf_counter()
    x = x * 2
    taken = (time.perf_counter() - start) * 1000
    if not torch.compiler.is_compiling():
        print(taken, start)
    return x
"""


def test_a_clock_for_messages_that_are_left_to_eager_is_asked_there_alone(capfd: pytest.CaptureFixture[str]) -> None:
    text, kinds = HEAD + TIMED, []
    for _ in range(2):
        places, _ = places_of(text, UP)
        kinds.append(places[0].cause.gb_type)
        found = rewrite(places[0].cause, Sources({FILE: text}), places[0].line)
        assert found is not None
        text = applied(text, found)
    left, (result,) = places_of(text, UP)
    assert (left, "wrong time" in found.needs) == ([], True)
    torch.testing.assert_close(result, UP * 2)
    capfd.readouterr()
    loaded(text).f(UP)
    taken, start = map(float, capfd.readouterr().out.split())
    assert 0 <= taken < start * 1000  # without torch.compile it is as it was


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x\n", "return x * start\n"),
        ("if not torch.compiler.is_compiling():", "if taken > 1:"),
        ("if not torch.compiler.is_compiling():", "if torch.compiler.is_compiling():"),
        ("x = x * 2", "start = time.time()"),
        ("print(taken, start)", "pass\n    else:\n        print(start)"),
    ],
)
def test_a_clock_that_anything_else_reads_is_asked(old: str, new: str) -> None:
    cause = BreakCause("Attempted to call function marked as skipped", context="module: time, qualname: perf_counter")
    assert suggestion(HEAD + TIMED, cause, "start = time") is not None
    assert suggestion(HEAD + TIMED.replace(old, new), cause, "start = time") is None


@pytest.mark.parametrize("divided", ["x = x / norm", "x /= norm"])
def test_a_quotient_by_what_is_above_a_number_is_chosen(divided):
    """As gradients are clipped: the test is not there for norms of 0."""
    source = f"def f(x):\n    x, norm = x * 1, x.norm()\n    if norm > 1.0:\n        {divided}\n    return x * 0.1\n"
    found = proven(source, inputs=(UP, UP / 100, UP * 0))
    assert len(found.after) == 1
    assert "torch.where(norm > 1.0, " in found.after[0]
    assert "gradients are nan where the side that is not chosen has no finite value" in found.needs


def test_a_tensor_that_requires_grad_is_made_outside():
    source = "zeros = torch.zeros(3)\n\ndef f(x):\n    y = torch.zeros(3, requires_grad=True)\n    return x + y\n"
    assert proven(source, fill="zeros").after == ("y = ...",)


def test_a_parameter_is_made_in_init():
    text = """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        w = torch.nn.Parameter(torch.ones(3))
        return x * w

f = Model()
"""
    places, (expected,) = places_of(text, UP)
    found = rewrite(places[0].cause, Sources({FILE: text}), places[0].line)
    assert not found.is_complete
    assert found.after == ("w = self.w",)
    assert found.needs == "`self.w = torch.nn.Parameter(torch.ones(3))` in `__init__`: it is then one for all calls"
    better = applied(text, found).replace(
        "__init__()\n", "__init__()\n        self.w = torch.nn.Parameter(torch.ones(3))\n"
    )
    left, (result,) = places_of(better, UP)
    assert not left
    torch.testing.assert_close(result, expected)


def test_a_parameter_of_the_function_requires_grad_before_the_call():
    text = HEAD + "def f(x):\n    x.requires_grad = True\n    return x * 2\n"
    found = suggestion(text, BreakCause("setattr() on Tensor.requires_grad"), "requires_grad")
    assert (found.is_complete, found.after) == (False, ("...",))
    left, _ = places_of(applied(text, found), UP.clone().requires_grad_())
    assert not left


# -- what must be None


NONE = {
    "a side effect in a branch": (BRANCH, "if", "def f(x, seen):\n    if x.sum() > 0:\n        seen.append(x)\n    return x\n"),
    "a call with a side effect": (BRANCH, "if", "def f(x, s):\n    y = x\n    if x.sum() > 0:\n        y = s.pop() + x\n    return y\n"),
    "in place": (BRANCH, "if", "def f(x):\n    y = x\n    if x.sum() > 0:\n        y = x.add_(1)\n    return y\n"),
    "in place by argument": (
        BRANCH, "if", "def f(x):\n    y = x\n    if x.sum() > 0:\n        y = F.relu(x, inplace=True)\n    return y\n",
    ),
    "random": (BRANCH, "if", "def f(x):\n    if x.sum() > 0:\n        x = x * torch.rand(3)\n    return x\n"),
    "other targets": (
        BRANCH, "if", "def f(x):\n    y = z = x\n    if x.sum() > 0:\n        y = x + 1\n    else:\n        z = x\n    return y + z\n",
    ),
    "another order": (
        BRANCH, "if",
        "def f(x):\n    if x.sum() > 0:\n        y = x\n        z = y + 1\n    else:\n        z = x\n        y = z + 1\n    return y + z\n",
    ),
    "a target without a value": (BRANCH, "if", "def f(x):\n    if x.sum() > 0:\n        y = x + 1\n    return y\n"),
    "an attribute": (BRANCH, "if", "def f(self, x):\n    if x.sum() > 0:\n        self.y = x + 1\n    return x\n"),
    "an element": (BRANCH, "if", "def f(x):\n    if x.sum() > 0:\n        x[0] = 1\n    return x\n"),
    "not numbers": (BRANCH, "if", "def f(x):\n    if x.sum() > 0:\n        k = 'a'\n    else:\n        k = 'b'\n    return k\n"),
    "None": (BRANCH, "if", "def f(x):\n    y = x\n    if x.sum() > 0:\n        y = None\n    return y\n"),
    "names of anything": (
        BRANCH, "if", "def f(x, a, b):\n    if x.sum() > 0:\n        k = a\n    else:\n        k = b\n    return k(x)\n",
    ),
    "values and indices": (
        BRANCH, "if", "def f(x):\n    y = x\n    if x.sum() > 0:\n        y = x.max(1)\n    else:\n        y = x.min(1)\n    return y\n",
    ),
    "two values": (BRANCH, "if", "def f(x):\n    if x.sum() > 0:\n        return x, 1\n    return x, 2\n"),
    "a test that guards another": (
        BRANCH, "if", "def f(x, m):\n    if m is not None and m.any():\n        x = x + 1\n    return x\n",
    ),
    "a test of anything": (BRANCH, "if", "def f(x, on):\n    if on and x.any():\n        x = x + 1\n    return x\n"),
    "a write where something else is true": (
        BRANCH, "if", "def f(x, k):\n    m = x > 3\n    if m.any():\n        x[k] = 0.5\n    return x\n",
    ),
    "a write of what may be an error": (
        BRANCH, "if", "def f(x, s):\n    m = x > 3\n    if m.any():\n        x[m] = s.pop()\n    return x\n",
    ),
    "a write where an index of numbers says": (
        BRANCH, "if", "def f(x, k):\n    if k.any():\n        x[k] = 0.0\n    return x\n",
    ),
    "a write of a largest of none": (
        BRANCH, "if", "def f(x):\n    m = x > 3\n    if m.any():\n        x[m] = x[m].max()\n    return x\n",
    ),
    "a fill of what may be an error": (
        BRANCH, "if", "def f(x):\n    m = x > 3\n    if m.any():\n        x = x.masked_fill(m, x[m].max())\n    return x\n",
    ),
    "a fill by another mask": (
        BRANCH, "elif", "def f(x, n):\n    m = x > 3\n    if n:\n        x = x + 1\n    elif m.any():\n        x = x.masked_fill(m, 1)\n    return x\n",
    ),
    "a write of so many rows": (
        BRANCH, "if", "def f(x, rows):\n    m = x > 3\n    if m.any():\n        x[m] = rows\n    return x\n",
    ),
    "a write, or another": (
        BRANCH, "if", "def f(x):\n    m = x > 3\n    if m.any():\n        x[m] = 0\n    else:\n        x[0] = 1\n    return x\n",
    ),
    "a write and a count": (
        BRANCH, "if", "def f(x, s):\n    m = x > 3\n    if m.any():\n        x[m] = 0\n        s.n += 1\n    return x\n",
    ),
    "in what may be a list": (BRANCH, "if", "def f(x, seen):\n    if 1.0 in seen:\n        x = x + 1\n    return x\n"),
    "anything in a tensor": (BRANCH, "if", "def f(x, k):\n    y = x.abs()\n    if k in y:\n        y = y + 1\n    return y\n"),
    "walrus": (BRANCH, "if", "def f(x):\n    if (s := x.sum()) > 0:\n        x = x + s\n    return x\n"),
    "raise after more": (BRANCH, "if", "def f(x):\n    if x.any():\n        print(x)\n        raise ValueError\n    return x\n"),
    "while that counts": (BRANCH, "while", "def f(x):\n    n = 0\n    while x.sum() < 9:\n        x = x + 1\n        n = n + 1\n    return n\n"),
    "search with return": (BRANCH, "if", "def f(xs):\n    for x in xs:\n        if x.any():\n            return x\n    return None\n"),
    "loop with else": (
        BRANCH, "if", "def f(x):\n    for _ in range(3):\n        x = x + 1\n        if x.any():\n            break\n    else:\n        x = x * 2\n    return x\n",
    ),
    "a division that the test guards": (BRANCH, "if", "def f(x, n):\n    if n > 0:\n        x = x / n\n    return x.exp()\n"),
    "a division by what the test is made of": (
        BRANCH, "if", "def f(x):\n    n = x.sum()\n    if x.any():\n        x = x / n\n    return x\n",
    ),
    "a division in place": (BRANCH, "if", "def f(x, n):\n    x = x.exp()\n    if n > 0:\n        x //= n\n    return x\n"),
    "a guarded root": (BRANCH, "if", "def f(x):\n    if x.min() > 0:\n        return x.sqrt()\n    return x\n"),
    "a guarded log": (BRANCH, "return", "def f(x):\n    return x.log() if x.min() > 0 else x\n"),
    "a guarded power": (BRANCH, "if", "def f(x):\n    y = x + 1\n    if x.min() > 0:\n        y = x ** 0.5\n    return y\n"),
    "a guarded selection": (
        BRANCH, "if", "def f(x, m):\n    y = x.sum()\n    if m.any():\n        y = x[m].max()\n    return y\n",
    ),
    "a guarded division in a loop": (
        BRANCH, "if",
        "def f(x, n):\n    for _ in range(3):\n        n = n - 1\n        if n == 0:\n            break\n        x = x.exp() / n\n    return x\n",
    ),
    "a test of the size before": (
        BRANCH, "if", "def f(x):\n    if x.numel() > 0 and x.max() > 5:\n        x = x + 1\n    return x\n",
    ),
    "a test of the length before": (
        BRANCH, "if", "def f(x, xs):\n    if len(xs) == 0 or x.max() > 5:\n        x = x + 1\n    return x\n",
    ),
    "a test of the shape before": (
        BRANCH, "if", "def f(x):\n    if x.shape[0] > 0 and x.max() > 5:\n        x = x + 1\n    return x\n",
    ),
    "a test of the divisor before": (
        BRANCH, "if", "def f(x, n):\n    if n > 0 and (x.max() // n) > 5:\n        x = x + 1\n    return x\n",
    ),
    "a count": (BRANCH, "if", "def f(x, n):\n    if x.sum() > 0:\n        n += 1\n    return x[:n]\n"),
    "a count beside a call": (
        BRANCH, "if", "def f(x, n, k):\n    if x.sum() > 0:\n        x = layer(x)\n        n += k\n    return x[:n]\n",
    ),
    "a count written out": (BRANCH, "if", "def f(x, n):\n    if x.sum() > 0:\n        n = n + 1\n    return x[:n]\n"),
    "a count on both sides": (
        BRANCH, "if", "def f(x, n):\n    if x.sum() > 0:\n        n += 1\n    else:\n        n -= 1\n    return x[:n]\n",
    ),
    "a count written out in a loop": (
        BRANCH, "if", "def f(x, n):\n    for _ in range(3):\n        n = n + 1\n        if x.sum() > 9:\n            break\n    return x[:n]\n",
    ),
    "a count in a loop": (
        BRANCH, "if", "def f(x, n):\n    for _ in range(3):\n        n += 1\n        if x.sum() > 9:\n            break\n    return x[:n]\n",
    ),
    "loop whose number is read": (
        BRANCH, "if", "def f(x):\n    for i in range(3):\n        x = x + 1\n        if x.sum() > 9:\n            break\n    return x, i\n",
    ),
    "loop that counts by an attribute": (
        BRANCH, "if",
        "def f(self, x):\n    for self.i in range(3):\n        x = x + 1\n        if x.sum() > 9:\n            break\n    return x\n",
    ),
    "elif that only raises": (
        ITEM, "elif", "def f(x, n):\n    if n:\n        x = x + 1\n    elif x.sum().item() > 0:\n        raise ValueError\n    return x\n",
    ),
    "elif that returns before the end": (
        ITEM, "elif", "def f(x, n):\n    if n:\n        x = x + 1\n    elif x.sum().item() > 0:\n        return x - 1\n    return x\n",
    ),
    "elif of calls": (
        ITEM, "elif",
        "def f(x, n):\n    if n:\n        x = x + 1\n    elif x.sum().item() > 0:\n        x = g(x)\n    else:\n        x = h(x)\n    return x\n",
    ),
    "elif that ends a loop": (
        ITEM, "elif",
        "def f(x, n):\n    for _ in range(3):\n        x = x + 1\n        if n:\n            x = x * 2\n        elif x.sum().item() > 9:\n            break\n    return x\n",
    ),
    "a number for a size": (ITEM, "item", "def f(x):\n    n = (x > 0).sum().item()\n    return x[:n]\n"),
    "a number returned": (ITEM, "item", "def f(x):\n    return x.sum().item()\n"),
    "a number for math": (ITEM, "item", "def f(x):\n    return x * math.sqrt(x.sum().item())\n"),
    "a number kept": (ITEM, "item", "def f(x, seen):\n    s = x.sum().item()\n    seen.append(s)\n    return x * s\n"),
    "a number with numbers": (ITEM, "item", "def f(x, n):\n    return n * x.sum().item()\n"),
    "a number for range": (ITEM, "int(", "def f(x):\n    for _ in range(int(x.max())):\n        x = x + 1\n    return x\n"),
    "tried": (ITEM, "item", "def f(x):\n    try:\n        y = x * x.sum().item()\n    except ValueError:\n        y = x\n    return y\n"),
    "a branch by another cause": (ITEM, "if", "def f(x):\n    if x.any(): x = x * x.sum().item()\n    return x\n"),
    "mask of a shape unknown": (SHAPE, "return", "def f(x, m):\n    return x[m].sum()\n"),
    "masked values": (SHAPE, "return", "def f(x):\n    return x[x > 0]\n"),
    "masked values normed": (SHAPE, "x[m] =", "def f(x):\n    m = x > 0\n    x[m] = x[m] - x[m].mean()\n    return x\n"),
    "a write of anything": (SHAPE, "x[m] =", "def f(self, x):\n    m = x > 0\n    x[m] = self.fill\n    return x\n"),
    "a mean of anything": (SHAPE, "return", "def f(x):\n    m = x > 0\n    return (x * 2)[m].mean()\n"),
    "masked values sorted": (SHAPE, "x[m] =", "def f(x):\n    m = x > 0\n    x[m] = x[m].sort().values\n    return x\n"),
    "indices used twice": (
        SHAPE, "where", "def f(x, o, c):\n    i = torch.where(c == 1)[0]\n    o[i] = x[i]\n    return o, i\n",
    ),
    "text over lines": (
        BreakCause("Failed to trace builtin operator"), "print", "def f(x):\n    print('''a\n  b''', x)\n    return x\n",
    ),
    "two statements on a line": (BRANCH, "if", "def f(x):\n    y = x; z = y + 1 if x.any() else y\n    return z\n"),
    "print of what counts": (
        BreakCause("Failed to trace builtin operator"), "print", "def f(self, x):\n    print('seen', self.count(x))\n    return x\n",
    ),
    "print that keeps a value": (
        BreakCause("Failed to trace builtin operator"), "print", "def f(x):\n    print(n := x.shape[0])\n    return x * n\n",
    ),
    "flags added up": (ITEM, "item", "def f(x, a, b):\n    n = a.any().item() + b.any().item()\n    return x * n\n"),
    "a power of a number": (ITEM, "item", "def f(x, n):\n    return x * 2 ** n.item()\n"),
    "print for its value": (BreakCause("Failed to trace builtin operator"), "print", "def f(x):\n    y = print(x)\n    return y\n"),
    "copy of anything": (
        BreakCause("copy.deepcopy()", context="copy.deepcopy(TensorVariable())"), "deep", "def f(s):\n    return copy.deepcopy(s)\n",
    ),
    "not of a Python bool": (
        BRANCH, "assert", "def f(x, n):\n    assert not (n > 3) or (x > 0).all()\n    return x\n",
    ),
    "not of a bool of a Python bool": (
        BRANCH, "if", "def f(x, n):\n    if not bool(n > 3) or x.any():\n        x = x + 1\n    return x\n",
    ),
    "an assertion by another cause": (ITEM, "assert", "def f(x, n):\n    assert n > 3, x.item()\n    return x\n"),
    "another kind": (BreakCause("Something else"), "if", BRANCHES["if and else"]),
    "not Python": (BRANCH, "if", "def f(x):\n    if x.sum() > 0:\n        y = = 2\n"),
    "outside of functions": (BRANCH, "if", "x = torch.ones(3)\nif x.any():\n    x = x + 1\n"),
}  # fmt: skip


@pytest.mark.parametrize(("cause", "line", "text"), NONE.values(), ids=NONE.keys())
def test_nothing_is_better_than_nonsense(cause, line, text):
    assert suggestion(text, cause, line) is None


def test_a_line_alone_is_enough_for_a_statement():
    line = SourceLine("/elsewhere.py", 7, "f", "y = x + 1 if x.sum() > 0 else -x")
    assert rewrite(BRANCH, Sources(), line) == Rewrite(
        ("y = x + 1 if x.sum() > 0 else -x",),
        ("y = torch.where(x.sum() > 0, x + 1, -x)",),
        is_complete=True,
        needs="both sides are computed every time and give tensors of one shape and dtype",
    )


@pytest.mark.parametrize("code", ["", "if x.sum() > 0:", "else:", "x = ("])
def test_a_line_alone_is_not_enough_for_a_block(code):
    assert rewrite(BRANCH, Sources(), SourceLine("/elsewhere.py", 7, "f", code)) is None


def test_a_file_that_has_changed_is_not_believed():
    text = HEAD + BRANCHES["if and else"]
    line = next(n for n, code in enumerate(text.split("\n"), 1) if "if x" in code)
    assert rewrite(BRANCH, Sources({FILE: text}), SourceLine(FILE, line, "f", "if y.sum() > 0:")) is None


def test_a_file_without_torch_is_told_to_import_it():
    text = "def f(x):\n    if x.sum() > 0:\n        x = x + 1\n    return x\n"
    assert suggestion(text, BRANCH, "if").needs.endswith("; `import torch`")
    assert suggestion("import torch as th\n" + text, BRANCH, "if").after == ("x = th.where(x.sum() > 0, x + 1, x)",)
    for_types = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import torch\n\n"
    assert suggestion(for_types + text, BRANCH, "if x").needs.endswith("; `import torch`")


HUGE = {
    "a line": "    y = x" + " + 1" * 250_000,
    "a nested line": "    y = " + "(" * 150 + "x" + ")" * 150,
    "a deep line": "    y = x" + " + x.sum().item()" * 55,
    "a deep function": "    z = x" + " + 1" * 4_000 + "\n    y = x * x.sum().item()",
}


@pytest.mark.parametrize("line", HUGE.values(), ids=HUGE.keys())
@pytest.mark.parametrize("cause", [BRANCH, ITEM, SHAPE], ids=lambda c: c.gb_type[:12])
def test_a_huge_line_is_survived(cause, line):
    text = f"def f(x):\n{line}\n    return y\n"
    rewrite(cause, Sources({FILE: text}), SourceLine(FILE, text.count("\n") - 1, "f", ""))
    rewrite(cause, Sources(), SourceLine(FILE, 1, "f", line))


BREAKS = """\
    if x.sum() > {n}:
        x = x + {n}
    y{n} = x * x.max().item()
    z{n} = x.abs() * float(y{n}.sum())
    x[x > {n}] *= 2
    w{n} = x[x > {n}].mean() + z{n}
    i = torch.where(x > {n})[0]
    x[i] = w{n}[i]
    x = x * random.random() + 1 if x.any() else x
    for k in range(3):
        x = x + k
        if x.sum() > {n}:
            break
    if random.random() < {n} and not x.any():
        x = x - y{n}
    else:
        x = x.exp() / w{n}
    assert not x.isnan().any(), "nan"
"""


def every_rewrite(count: int, end: str = "\n") -> list[Rewrite | None]:
    """What is suggested for every line of one function with so many breaks of each kind."""
    text = "def f(x):\n" + "".join(BREAKS.format(n=n) for n in range(count)) + "    return x\n"
    lines, texts = text.split("\n"), Sources({FILE: text.replace("\n", end)})
    causes = (BRANCH, ITEM, SHAPE, BreakCause("Attempted to call function marked as skipped", context="Random.random"))
    return [rewrite(c, texts, SourceLine(FILE, n, "f", line)) for n, line in enumerate(lines, 1) for c in causes]


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "dos"])
def test_the_work_grows_with_the_breaks_of_a_function(calls_of, end):
    few, many = calls_of(lambda: every_rewrite(20, end)), calls_of(lambda: every_rewrite(80, end))
    assert many < 1.3 * 4 * few
    assert sum(found is not None for found in every_rewrite(20, end)) > 20 * 5


HOSTILE = {
    "a chain of elif": "    if x.sum() > 0:\n        y = 0\n"
    + "".join(f"    elif x.sum() > {n}:\n        y = {n}\n" for n in range(1_000)),
    "a sum of texts": "    y = " + " +\\\n        ".join(['"a"'] * 1_500) + "\n    z = x * x.sum().item()\n",
    "a list over lines": "    y = [\n" + "        x * x.sum().item(),\n" * 3_000 + "    ]\n",
    "a list on two lines": "    y = [\n        1, "
    + "x * x.sum().item(), " * 40
    + "\n"
    + "x * x.max().item(), " * 3_000
    + "]\n",
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_source_gives_nothing_and_soon(calls_of, code):
    text = f"def f(x):\n{code}    return x\n"
    lines = text.split("\n")
    places = [SourceLine(FILE, n, "f", lines[n - 1]) for n in (2, 3, 4, len(lines) // 2)]

    def found() -> list[Rewrite | None]:
        return [rewrite(cause, Sources({FILE: text}), place) for place in places for cause in (BRANCH, ITEM, SHAPE)]

    assert found() == [None] * 12
    assert calls_of(found) < 12 * 1_000


def test_a_line_of_a_megabyte_gives_nothing():
    assert rewrite(ITEM, Sources(), SourceLine(FILE, 1, "f", "y = x * x.item()" + " + 1" * 250_000)) is None
