"""Every suggested rewrite is proven: the user's text with it compiles without that break and computes the same."""

import contextlib
import io
import random
from typing import Any, NamedTuple

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.breaks.rewrites import Rewrite, alternatives, rewrite
from compiler_lens.facts.breaks.rewrites.site import site_at
from compiler_lens.facts.overview.explanation import explain
from compiler_lens.recording.model import BreakCause, GraphBreak, SourceLine
from compiler_lens.recording.source_text import Sources
from tests.alike import FILE, applied, loaded

BRANCH = BreakCause("Data-dependent branching", context="attempted to jump with TensorVariable()")
ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
SHAPE = BreakCause("Dynamic shape operator", context="aten.nonzero.default")
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


pytestmark = pytest.mark.usefixtures("lines_of_the_test")


def alternative(*given: Any) -> Rewrite | None:
    """The first thing else to write."""
    return next(alternatives(*given), None)


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
    "a fill by a mask seen from further": """
def f(x):
    m = x.sum(1) > 3
    if m.any():
        x = x.masked_fill(m.unsqueeze(1), 0.5)
    return x
""",
    "a fill by a mask with one more dimension": """
def f(x):
    m = x.sum(1) > 3
    if m.any():
        x = x.masked_fill(m[:, None], 0.5)
    return x
""",
    "a sum": "def f(x):\n    m = x > 3\n    if m.sum() > 0:\n        x = x.masked_fill(m, torch.finfo(x.dtype).min)\n    return x * 2\n",
    "what a mask leaves": """
def f(x):
    return g(x, x < 3)

def g(x, m):
    if not m.all():
        x = x.masked_fill(~m, float("-inf"))
    return x
""",
    "what a mask leaves, seen from further": """
def f(x):
    keep = x.sum(1) < 3
    if not torch.all(keep):
        x = x.masked_fill(~keep[:, None], -1.0)
        x = x.masked_fill((~keep).unsqueeze(1), -2.0)
    return x
""",
    "what a mask leaves, by other words": """
def f(x):
    keep, y = x < 3, x * 2
    if not bool(keep.all()):
        x = x.masked_fill(keep.logical_not(), -1.0)
        y.masked_fill_(torch.logical_not(keep), -1.0)
        y = y.masked_fill(keep == 0, -2.0)
    return x + y
""",
    "what an inverse leaves": "def f(x):\n    m = x > 3\n    if not (~m).all():\n        x = x.masked_fill(m, 1.0)\n    return x\n",
    "a write where a mask is false": "def f(x):\n    m = x < 3\n    x = x * 1\n    if not m.all():\n        x[~m] = 0.5\n    return x\n",
    "an inverse": "def f(x):\n    m = x < 3\n    if (~m).any():\n        x = x.masked_fill(~m[:, :], 1.0)\n    return x\n",
}  # fmt: skip
BESIDE_PYTHON = {
    "a mask that may be none": """
def f(x):
    return g(x, x < 3) + g(x, None)

def g(x, m):
    if m is not None and not m.all():
        x = x.masked_fill(~m, float("-inf"))
    return x
""",
    "over lines": """
def f(x, fill=True, mode="train"):
    m = x > 3
    if (
        (fill or mode == "all")
        and mode == "train"
        and m.any()
    ):
        x = x.masked_fill(m, 0.5)
    return x
""",
}


@pytest.mark.parametrize("source", (SAVES_WORK | BESIDE_PYTHON).values(), ids=SAVES_WORK | BESIDE_PYTHON)
def test_a_check_that_only_saves_work_is_left_out(source):
    found = proven(source)
    assert not any(word in line for line in found.after for word in ("all()", "any(", "sum(", "where(", "cond("))


CHOSEN = {
    "what a mask chooses": """
def f(x):
    m = x > 3
    if m.any():
        x = torch.where(m, torch.ones_like(x), x)
    return x
""",
    "what a mask leaves, seen from further": """
def f(x):
    keep = x.sum(1) < 3
    if not keep.all():
        x = torch.where(keep[:, None], x, 0.5 * x)
    return x
""",
}


@pytest.mark.parametrize("source", CHOSEN.values(), ids=CHOSEN)
def test_a_check_before_a_choice_by_its_mask_is_left_out(source):
    found = proven(source)
    assert len(found.after) == 1
    assert "the dtype of what it replaces" in found.needs


COUNTED = """
class Scaler(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cold = 0

    def forward(self, x):
        mean = x.abs().mean(1)
        m = mean < 0.1
        if m.any():
            self.cold += int({counted}.sum())
            mean = torch.where(m, 1.0, mean)
        return x / mean[:, None]
"""


def test_a_count_of_what_a_mask_chooses_adds_nothing_where_it_is_nowhere_true():
    found = suggestion(COUNTED.format(counted="m"), BRANCH, "if m.any")
    assert found is not None
    assert found.after == ("self.cold += int(m.sum())", "mean = torch.where(m, 1.0, mean)")


def test_a_count_of_something_else_is_asked_for_first():
    found = suggestion(COUNTED.format(counted="x"), BRANCH, "if m.any")
    assert found is None or not found.is_complete or "self.cold += int(x.sum())" not in found.after


def test_what_python_asks_before_it_stays_in_front_of_a_fill():
    masked, over_lines = (proven(source).after for source in BESIDE_PYTHON.values())
    assert masked == ("if m is not None:", '    x = x.masked_fill(~m, float("-inf"))')
    assert over_lines[0] == 'if (fill or mode == "all") and mode == "train":'


def test_a_fill_that_may_have_another_shape_by_its_mask_says_so():
    source = "def f(x):\n    m = x < 3\n    if not m.all():\n        x{}(~m, 0.0)\n    return x\n"
    said = "`x` is in no dimension smaller than the mask"
    new, in_place = (suggestion(source.format(f), BRANCH, "if") for f in (" = x.masked_fill", ".masked_fill_"))
    assert new is not None
    assert in_place is not None
    assert said in new.needs
    assert said not in in_place.needs  # which is an error then


MODULE_FILL = """
class Net(torch.nn.Module):
    def __init__(self):
        {made}

    def forward(self, x):
        m = x > 3
        if not m.all():
            x = x.masked_fill(~m, self.fill)
        return x
"""


@pytest.mark.parametrize(
    ("made", "is_offered"),
    [
        ("self.fill = 0.5", True),
        ("self.fill = torch.nn.Parameter(torch.ones(()))", False),
        ("self.fill: torch.Tensor = nn.Parameter(torch.ones(()))", False),
        ("self.register_buffer('fill', torch.ones(()))", False),
    ],
)
def test_what_fills_is_no_parameter_which_would_get_a_gradient(made, is_offered):
    found = suggestion(MODULE_FILL.format(made=made), BRANCH, "if")
    is_bare = found is not None and found.after == ("x = x.masked_fill(~m, self.fill)",)
    assert is_bare is is_offered


NESTED = {
    "a flag": ("on", "x = x + 1"),
    "a flag that is off": ("not off", "x = x + 1"),
    "two flags": ("on and x.dim() == 2", "x = x + 1"),
    "a size": ("x.numel() > 0", "x = x.abs()"),
    "a shape": ("x.shape[0] > 1", "x *= 2"),
    "what may be none": ("bias is not None", "x = x - bias"),
    "a type": ("isinstance(bias, torch.Tensor)", "x = x - bias"),
}


@pytest.mark.parametrize("tested", ["x.sum() > 3", "(x > 3).any() and (x < 25).all()"])
@pytest.mark.parametrize(("plain", "line"), NESTED.values(), ids=NESTED)
def test_what_python_asks_stays_a_branch_around_what_a_tensor_decides(plain, line, tested):
    source = f"""
def f(x, on=True, off=False, bias=torch.ones(())):
    x = x * 1
    if {plain} and {tested}:
        {line}
    return x
"""
    found = proven(source)
    assert found.after[0] == f"if {plain}:"
    assert "torch.where(" in found.after[1]


def test_an_error_that_python_asks_for_first_is_checked_there():
    found = proven(
        "def f(x, strict=True):\n    if strict and x.isnan().any():\n        raise ValueError('nan')\n    return x + 1\n"
    )
    assert found.after == ("if strict:", "    torch._assert_async(~x.isnan().any(), 'nan')")


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
    assert any("torch.cond(" in line for line in found.after)


ROWS = """
class Book(torch.nn.Module):
    def __init__(self, size, dim):
        super().__init__()
        self.register_buffer("embed", {embed})
        self.register_buffer("copied", self.embed.clone())
        self.register_buffer("count", torch.ones(size))

    def forward(self, x):
        expired = self.count < 0.5
        {write}
        return x
"""


@pytest.mark.parametrize(
    ("embed", "write", "written"),
    [
        ("torch.randn(size, dim)", "self.embed[expired] = x[expired]", "torch.where(expired[:, None], x, self.embed)"),
        ("torch.zeros((size, dim))", "self.copied[expired] = 0.0", "torch.where(expired[:, None], torch.full_like("),
        ("torch.randn(size, dim, 2)", "self.embed[~expired] *= 2", "torch.where((~expired)[:, None, None], self.embed"),
        ("torch.randn(size)", "self.embed[expired] = x[expired]", "torch.where(expired, x, self.embed)"),
        ("made(size, dim)", "self.embed[expired] = x[expired]", "torch.where(expired, x, self.embed)"),
        (
            "torch.randn(dim).uniform_()",
            "x[expired] = self.embed.to(x.dtype)",
            "torch.where(expired[..., None], self.embed",
        ),
    ],
)
def test_a_mask_of_rows_has_the_dimensions_of_what_it_is_for(embed, write, written):
    found = suggestion(HEAD + ROWS.format(embed=embed, write=write), SHAPE, write)
    assert written in found.after[0]


NET = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bright, self.dark = torch.nn.Sequential({layer}), torch.nn.Linear(3, 3)

    def forward(self, x):
        if x.sum() > 0:
            x = self.bright(x)
        else:
            x = {dark}
        return x
"""


@pytest.mark.parametrize(
    ("layer", "dark", "is_offered"),
    [
        ("torch.nn.Linear(3, 3)", "self.dark(x)", True),
        ("torch.nn.BatchNorm1d(3)", "self.dark(x)", False),
        ("torch.nn.Dropout(0.5)", "self.dark(x)", False),
        ("torch.nn.Linear(3, 3)", "torch.nn.functional.dropout(x)", False),
    ],
)
def test_what_may_keep_statistics_or_drop_values_is_in_no_cond(layer, dark, is_offered):
    found = suggestion(HEAD + NET.format(layer=layer, dark=dark), BRANCH, "if x.sum")
    assert any("torch.cond(" in line for line in (found.after if found else ())) is is_offered


SWITCHED_OFF = {
    "cond": "def f(x):\n    if x.sum() > 0:\n        y = scaled(x)\n    else:\n        y = shifted(x)\n    return y\n",
    "cond returned": "def f(x):\n    if x.sum() > 0:\n        return scaled(x)\n    return shifted(x)\n",
}


@pytest.mark.parametrize("source", SWITCHED_OFF.values(), ids=SWITCHED_OFF)
def test_without_compiling_a_branch_is_one_and_takes_gradients(source):
    text = f"{HEAD}def scaled(x):\n    return x * 3\n\n\ndef shifted(x):\n    return x.sin()\n\n\n{source}"
    found = suggestion(text, BRANCH, "if x.sum")
    better, x = applied(text, found), UP.clone().requires_grad_()
    with torch._dynamo.config.patch(disable=True):
        loaded(better).f(x).sum().backward()
    expected = UP.clone().requires_grad_()
    loaded(text).f(expected).sum().backward()
    torch.testing.assert_close(x.grad, expected.grad)


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


if torch.__version__ < "2.12":  # which breaks there for other reasons
    del CHECKS["check of all with an error"]


@pytest.mark.parametrize(("source", "words"), CHECKS.values(), ids=CHECKS.keys())
def test_a_check_becomes_an_asynchronous_one(source, words):
    found = proven(source)
    assert found.after[0].startswith("torch._assert_async(")
    assert words in found.after[0]
    assert "RuntimeError" in found.needs
    assert "CUDA context" in found.needs
    assert ("its message is then without values" in found.needs) == ("x}" in source or "Error(x" in source)


NAMED = """
def check(x, where, limit=0.5):
    if torch.isnan(x).any():
        raise FloatingPointError(f"NaN activations in {where}, {limit:.2f}")
    return x

class Block:
    def __init__(self, name):
        self.name, self.every = name, 3

    def __call__(self, x):
        return check(x, self.name) + check(x + 1, "sum")

block = Block(f"block{0}")

def f(x):
    return block(x)
"""
NAMED_TEST = "if torch.isnan"


def test_a_check_says_the_numbers_and_texts_that_it_said():
    found = proven(NAMED)
    assert found.after == ('torch._assert_async(~torch.isnan(x).any(), f"NaN activations in {where}, {limit:.2f}")',)
    assert "without values" not in found.needs
    better = applied(HEAD + NAMED, found)
    torch._dynamo.reset()
    for backend in ("eager", "aot_eager"):
        compiled = torch.compile(loaded(better).f, backend=backend, fullgraph=True)
        with pytest.raises(RuntimeError, match=r"NaN activations in block0, 0\.50"):
            compiled(UP * float("nan"))


@pytest.mark.parametrize(
    ("was", "then"),
    [
        ('check(x + 1, "sum")', "check(x + 1, x.mean())"),  # a tensor, or what may be one
        ('check(x + 1, "sum")', "check(x + 1, **given)"),
        ('check(x + 1, "sum")', "check(x + 1, self.last)"),
        ('check(x + 1, "sum")', "sum(check(x, i) for i in range(3))"),  # another one in each call
        ("{where}", "{where.upper()}"),
        ("{where}", "{x}"),
        ("{limit:.2f}", "{x.shape[0]}"),
        ("{limit:.2f}", "{limit:.{places}f}"),
        ("    if torch.isnan", "    limit = limit * 2\n    if torch.isnan"),
        ("self.name, self.every = name, 3", "self.name = measured()"),
        ("        return check(x, self.name)", "        self.name += str(x)\n        return check(x, self.name)"),
        ('f"block{0}"', "names[0]"),
    ],
)
def test_a_check_says_no_value_that_may_be_a_tensor_or_another(was, then):
    assert was in NAMED
    assert "without values" not in suggestion(HEAD + NAMED, BRANCH, NAMED_TEST).needs
    found = suggestion(HEAD + NAMED.replace(was, then), BRANCH, NAMED_TEST)
    assert "'NaN activations in" in found.after[0]
    assert "without values" in found.needs


@pytest.mark.parametrize(("kind", "is_said"), [("bool", True), ("str", False), ("int", False)])
def test_a_check_says_of_what_is_annotated_only_what_has_two_values(kind, is_said):
    text = NAMED.replace("where, limit=0.5", f"where: {kind}, limit=0.5").replace('"sum"', "names[0]")
    assert ("{where}" in suggestion(HEAD + text, BRANCH, NAMED_TEST).after[0]) is is_said


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


# What catches an error wherever it is put: a context manager, a decorator, a function that calls what it is given.
MANAGED = """
import contextlib, functools

class Error(Exception):
    pass

class Bad(Error, ValueError):
    pass

def check(x):
    if x.isinf().any():
        raise Bad("inf")
    return x * 2
"""
REACHING = {
    "a context manager": "@contextlib.contextmanager\ndef skip():\n    try:\n        yield\n    except KINDS:\n        pass\n",
    "a decorator": (
        "def tolerate(fn):\n    def inner(*args):\n        try:\n            return fn(*args)\n        except KINDS:\n"
        "            return None\n    return inner\n"
    ),
    "a function of a function": "def safely(fn, x):\n    try:\n        return fn(x)\n    except KINDS:\n        return x\n",
    "an object that has it": (
        "class Loop:\n    def __init__(self, model=None):\n        self.model = model or check\n    def run(self, x):\n"
        "        try:\n            return self.model(x)\n        except KINDS:\n            return x\n"
    ),
    "one of several": "def g(x):\n    try:\n        return STEPS['a'](x)\n    except KINDS:\n        return x\n",
    "a future": "def g(x):\n    try:\n        return pool.submit(h, x).result()\n    except KINDS:\n        return x\n",
    "a task": "async def g(task):\n    try:\n        return await task\n    except KINDS:\n        return None\n",
    "a library's decorator": "@retry(on=KINDS)\ndef g(x):\n    return h(x)\n",
    "a tuple": "FATAL = (KINDS, OSError)\n",
}


@pytest.mark.parametrize("caller", REACHING.values(), ids=REACHING)
def test_an_error_that_the_file_catches_around_anything_stays_as_it_is(caller):
    line = "if x.isinf"
    for kinds in ("Bad", "Error", "(KeyError, ValueError)"):
        assert suggestion(HEAD + MANAGED + caller.replace("KINDS", kinds), BRANCH, line) is None
    for kinds in ("KeyError", "(OSError, queue.Empty)" if "except" in caller else "OSError"):
        found = suggestion(f"{HEAD}import queue\n{MANAGED}{caller.replace('KINDS', kinds)}", BRANCH, line)
        assert found.after == ("torch._assert_async(~x.isinf().any(), 'inf')",)
    if "except KINDS" in caller:
        for kinds in ("except:", "except Exception:", "except errors:"):
            assert suggestion(HEAD + MANAGED + caller.replace("except KINDS:", kinds), BRANCH, line) is None
    if "yield" in caller:
        unknown = MANAGED.replace("class Bad(Error", "class Bad(mine.Error")
        assert suggestion(HEAD + unknown + caller.replace("KINDS", "OSError"), BRANCH, line) is None
        asserted = MANAGED.replace("if x.isinf().any():\n        raise Bad(", "assert x.isinf().any(), (")
        for kinds, is_offered in (("AssertionError", False), ("Bad", True)):
            found = suggestion(HEAD + asserted + caller.replace("KINDS", kinds), BRANCH, "assert x")
            assert (found is not None) == is_offered


@pytest.mark.parametrize(
    ("caller", "other"),
    [
        ("class Skip:\n    def __exit__(self, kind, *_):\n        return kind is Bad\n", ("kind is Bad", "None")),
        ("class Skip:\n    def __exit__(self, kind, *_):\n        return self.on\n", ("return self.on", "self.on = 1")),
        ("skip = contextlib.suppress(Bad)\n", ("contextlib.suppress(Bad)", "contextlib.nullcontext()")),
        (
            "class T:\n    def test(self):\n        self.assertRaises(Error, model, 1)\n",
            ("assertRaises(Error", "assertTrue(0"),
        ),
    ],
)
def test_an_error_that_an_object_keeps_to_itself_stays_as_it_is(caller, other):
    assert suggestion(HEAD + MANAGED + caller, BRANCH, "if x.isinf") is None
    assert suggestion(HEAD + MANAGED + caller.replace(*other), BRANCH, "if x.isinf") is not None


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt", "StopIteration", "GeneratorExit", "Stop"])
def test_what_ends_a_program_or_a_loop_is_no_error(kind):
    text = MANAGED.replace("class Error(Exception)", "class Stop(BaseException)").replace(
        "Bad(Error, ValueError)", "Bad(Stop)"
    )
    assert suggestion(HEAD + text.replace('Bad("inf")', f"{kind}(42)"), BRANCH, "if x.isinf") is None


SEARCHED = """
TABLE = [1.0, 2.0, 3.0]

class M(torch.nn.Module):
    def __init__(self, given=None):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Identity() for _ in range(3))
        self.given, self.rest = given, iter(TABLE)
        self.steps = 3

    def f(self, x, items, named: list[float]):
        y = x.exp()
        rest = iter(TABLE)
        own = [1.0, 2.0]
        for step in FINITE:
            y = y * 0.9
            if y.max() < 0.5:
                break
        return y
"""


@pytest.mark.parametrize(
    "iterated",
    ["range(3)", "range(self.steps)", "TABLE", "self.layers", "self.layers[1:]", "enumerate(self.layers)", "own", "named", "x",
     "zip(x, TABLE)", "[1] * 3", "x.unbind()", "reversed(range(3))", "itertools.product(TABLE, own)"],
)  # fmt: skip
def test_a_loop_that_ends_runs_to_its_end(iterated):
    assert suggestion(HEAD + SEARCHED.replace("FINITE", iterated), BRANCH, "if y.max") is not None


@pytest.mark.parametrize(
    "iterated",
    ["itertools.count()", "itertools.cycle(TABLE)", "count(1)", "iter(draw, None)", "iter(TABLE)", "radii()", "self.radii()",
     "rest", "self.rest", "self.given", "items", "zip(rest, TABLE)", "zip(TABLE, itertools.count())", "enumerate(items)",
     "map(f, TABLE)", "(n for n in TABLE)", "range(10**9)", "range(1_000_000)", "itertools.islice(rest, 3)"],
)  # fmt: skip
def test_a_loop_that_may_have_no_end_or_leaves_a_rest_stops_where_it_stops(iterated):
    assert suggestion(HEAD + SEARCHED.replace("FINITE", iterated), BRANCH, "if y.max") is None


TWICE = {
    "the middle of a chain": (BRANCH, "if 0", "    if 0.1 < VALUE.max() < 9:\n        x = x * 2\n    return x\n"),
    "a later part of and": (BRANCH, "if x", "    if x.any() and VALUE.any():\n        x = x * 2\n    return x\n"),
    "a later test": (
        BRANCH, "if x", "    if x.any():\n        x = x * 2\n    elif VALUE.any():\n        x = x * 3\n    return x\n",
    ),
    "what ends a loop": (
        BRANCH, "if V", "    for _ in range(3):\n        x = x * 2\n        if VALUE.max() > 9:\n            break\n    return x\n",
    ),
    "a mask of a mean": (SHAPE, "return", "    return x[(VALUE > 0.5)].mean()\n"),
    "a mask of what is changed": (SHAPE, "x[", "    x[VALUE > 0.5] *= 2\n    return x\n"),
    "a mask that nobody need ask": (
        BRANCH, "if ", "    if (VALUE > 0.5).any():\n        x[VALUE > 0.5] = 0\n    return x\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("cause", "line", "body"), TWICE.values(), ids=TWICE)
def test_what_draws_or_counts_is_computed_as_often_as_it_was(cause, line, body):
    head = HEAD + "def f(self, x):\n    x = x.exp()\n"
    for value in ("torch.rand(2, 3)", "self.energy(x)", "torch.rand_like(x)", "F.dropout(x)", "torch.bernoulli(x)"):
        text = head + body.replace("VALUE", value)
        assert suggestion(text, cause, line.replace("V", value)) is None
    for value in ("x.abs()", "torch.sigmoid(x)", "F.relu(x)"):
        text = head + body.replace("VALUE", value)
        assert suggestion(text, cause, line.replace("V", value)) is not None


def test_an_early_return_that_draws_is_asked_for():
    text = "    if (VALUE > 0.5).sum() == 0:\n        return x\n    return x * 2\n"
    for value, is_offered in (("torch.rand_like(x)", False), ("self.energy(x)", False), ("x.abs()", True)):
        whole = HEAD + "def f(self, x):\n" + text.replace("VALUE", value)
        number = next(n for n, code in enumerate(whole.split("\n"), 1) if "if (" in code)
        assert (alternative(BRANCH, Sources({FILE: whole}), at(whole, number)) is not None) == is_offered


ARRAYS = """
def norm(x, table):
    peak = table.max()
    s = x.abs().mean().item()
    return torch.RESULT(table / peak * s) + x
"""


def test_what_may_be_an_array_is_no_tensor():
    line = "s = x.abs"
    assert suggestion(HEAD + ARRAYS.replace("RESULT", "abs"), ITEM, line) is not None
    for wrapping in ("as_tensor", "from_numpy", "tensor"):
        assert suggestion(HEAD + ARRAYS.replace("RESULT", wrapping), ITEM, line) is None
    plain = HEAD + ARRAYS.replace("RESULT", "abs")
    for call in (
        "norm(1, np.ones(3))", "norm(1, table=np.ones(3) / 2)", "rows = np.load('t')[0]\nnorm(1, rows)",
        "norm(1, torch.ones(3).numpy())",
    ):  # fmt: skip
        assert suggestion(f"{plain}\n{call}\n", ITEM, line) is None
    assert suggestion(f"{plain}\nrows = torch.ones(3)\nnorm(1, rows)\n", ITEM, line) is not None
    made = plain.replace("peak = ", "table = np.asarray(table)\n    peak = ")
    assert suggestion(made, ITEM, line) is None


@pytest.mark.parametrize(("seen", "is_offered"), [({"x"}, False), ({"x", "table"}, True), (set(), True)])
def test_a_parameter_that_torch_saw_as_no_tensor_is_none_in_a_file_with_numpy(seen, is_offered):
    text = HEAD + ARRAYS.replace("RESULT", "abs")
    lines = text.split("\n")
    number, first = (next(n for n, code in enumerate(lines, 1) if words in code) for words in ("s = x", "def norm"))
    known = {FILE: {first: dict.fromkeys(seen, frozenset())}}
    found = rewrite(ITEM, Sources({FILE: text}), at(text, number), known)
    assert (found is not None) == is_offered
    without = text.replace("import numpy as np", "import copy")
    assert rewrite(ITEM, Sources({FILE: without}), at(without, number), known) is not None


HELPER = """
def scale(self, x, where=DEFAULT, by=2):
    x[where] = 0.0
    return x
CALL
"""


def test_an_index_that_other_calls_give_otherwise_is_no_mask():
    text = HEAD + HELPER.replace("DEFAULT", "None").replace("CALL", "")
    found = suggestion(text, SHAPE, "x[where]")
    assert "`where` is a tensor of bools in each call" in found.needs
    for call in ("net.scale(t, slice(0, 1))", "net.scale(t, [1])", "net.scale(t, where=3)", "scale(net, t, range(2))"):
        assert suggestion(text + call, SHAPE, "x[where]") is None
    assert suggestion(text + "net.scale(t, t > 0, 3)", SHAPE, "x[where]") is not None
    assert suggestion(text.replace("where=None", "where=0"), SHAPE, "x[where]") is None


def test_a_parameter_that_other_calls_give_a_number_is_no_tensor():
    for body in ("return x * 2 if k > 0 else x * 3", "if k:\n        x = x * 2\n    return x"):
        text = f"{HEAD}def f(x, k):\n    {body}\n"
        number = next(n for n, code in enumerate(text.split("\n"), 1) if "if k" in code)
        seen = {FILE: {number - 1: dict.fromkeys(("x", "k"), frozenset())}}
        assert rewrite(BRANCH, Sources({FILE: text}), at(text, number), seen) is not None
        for other in (f"{text}f(x, 3)\n", f"{text}f(x, k=float(y))\n", text.replace("k):", "k=1):")):
            assert rewrite(BRANCH, Sources({FILE: other}), at(other, number), seen) is None


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


def test_a_message_that_is_left_to_eager_stays_where_its_function_runs_eagerly(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """As the rewrite says of itself: after a break in a loop the rest of the function is eager, and prints."""
    text = f"{HEAD}def f(x):\n    print('said')\n    return x * 2\n"
    places, _ = places_of(text, UP)
    found = rewrite(places[0].cause, Sources({FILE: text}), places[0].line)
    assert found is not None
    assert found.needs.endswith(", and what still runs eagerly with it")
    capfd.readouterr()
    after = applied(text, found)
    torch.compile(loaded(after).f, backend="eager")(UP)
    assert capfd.readouterr().out == ""
    broken = "    x = x.exp()\n    torch._dynamo.graph_break()\n    for _ in range(2):\n        torch._dynamo.graph_break()\n"
    after = after.replace("def f(x):\n", f"def f(x):\n{broken}")
    torch._dynamo.reset()
    torch.compile(loaded(after).f, backend="eager")(UP)
    assert capfd.readouterr().out == "said\n"


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
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
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


def test_numpys_random_numbers_come_from_torch():
    source = "def f(x):\n    return x.abs() * np.random.rand()\n"
    found = suggestion(HEAD + source, BreakCause("Data dependent operator"), "np.random")
    better = applied(HEAD + source, found)
    left, (result,) = places_of(better, UP)
    assert not left
    assert "torch.rand(()" in better
    assert "torch.manual_seed" in found.needs
    assert bool(((result >= 0) & (result <= UP.abs())).all())


DRAWN = {
    "a number": "def f(x):\n    return x.abs() * random.random()\n",
    "a name": "def f(x):\n    scale = 2 * random.random()\n    return x.abs() * scale\n",
    "a branch": "def f(x):\n    x = x.abs()\n    if random.random() < 0.7:\n        x = x * 0\n    return x\n",
    "an interval": "def f(x):\n    x = x.abs()\n    if random.uniform(0.2, 0.8) < 0.7:\n        x = x * 0\n    return x\n",
}
BY_C = BreakCause("Attempted to call function marked as skipped", context="qualname: Random.random")
ON_DRAWN = BreakCause("Data-dependent branching", context="attempted to jump with UnspecializedPythonVariable()")


@pytest.mark.parametrize("source", DRAWN.values(), ids=DRAWN)
def test_pythons_random_numbers_are_drawn_as_they_were_in_one_graph(source):
    drawn, cause = ("random.random", BY_C) if "random.random" in source else ("if random", ON_DRAWN)
    text = HEAD + source
    assert places_of(text, UP)[0]
    found = suggestion(text, cause, drawn)
    better = applied(text, found)
    assert "torch.rand(" not in better
    random.seed(3)
    left, results = places_of(better, *INPUTS)
    random.seed(3)
    assert not left
    torch.testing.assert_close(results, [loaded(text).f(x.clone()) for x in INPUTS], rtol=0, atol=0)


def test_a_number_that_a_branch_asks_for_is_drawn_in_the_graph_only_where_both_lines_are_written_so():
    text = HEAD + "def f(x):\n    p = random.random()\n    if p < 0.7:\n        x = x * 0\n    return x\n"
    assert suggestion(text, BY_C, "random.random") is None
    line = at(text, text[: text.index("random.random")].count("\n") + 1)
    drawn = alternative(BY_C, Sources({FILE: text}), line)
    assert drawn.after == ("p = random.uniform(0.0, 1.0)",)
    half = applied(text, drawn)
    line = at(half, half[: half.index("if p")].count("\n") + 1)
    written = [
        one for one in alternatives(ON_DRAWN, Sources({FILE: half}), line) if "as_tensor(p" in "".join(one.after)
    ]
    random.seed(3)
    left, results = places_of(applied(half, written[0]), *INPUTS)
    random.seed(3)
    assert not left
    torch.testing.assert_close(results, [loaded(text).f(x.clone()) for x in INPUTS], rtol=0, atol=0)


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
    assert found.after[0] == head
    assert found.needs.startswith("compiled code then runs without this `log.warning` and `print`, ")


def test_what_a_branch_says_is_left_to_eager_and_the_rest_is_chosen(capfd: pytest.CaptureFixture[str]) -> None:
    text = SAID.replace('log.warning("large: %s", y.max())', 'print("large", y.max())')
    text = text.replace("print(y.shape, y.mean())", "y = y / 2")
    found = proven(text, inputs=(UP, -UP.abs()))
    heads = ["if not torch.compiler.is_compiling", "    print", "y = torch.where"]
    assert [line.partition("(")[0] for line in found.after] == heads
    assert "without this `print`" in found.needs
    module = loaded(applied(HEAD + text, found))
    capfd.readouterr()
    module.f(UP)
    assert capfd.readouterr().out == "large tensor(8.)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("print(y.shape, y.mean())", "print(seen.pop())"),
        ("y.max() > 0.9", "seen.pop() > 0.9"),
        ("    return y", "    else:\n        y = y / 2\n    return y"),
    ],
)
def test_a_test_that_is_there_for_more_is_asked(old: str, new: str) -> None:
    text = HEAD + SAID.replace(old, new)
    found = suggestion(text, BreakCause("Data-dependent branching", context="attempted to jump with"), "    if ")
    assert found is None or "is_compiling" not in found.after[0]


EFFECT = BreakCause("Attempted to call function marked as skipped")
COUNTING = """\
class RunLogger:
    def __init__(self):
        self.nans = 0

    def warning(self, text, *args):
        self.nans += 1
"""
# What a file shows a name to be, the call, and what it is in a file where the same call is a message.
NO_MESSAGES = {
    "a class that counts": (COUNTING + "logger = RunLogger()", "logger.warning('large')", "logger = logging.getLogger()"),
    "a class that counts, within": (
        COUNTING + "class M:\n    def __init__(self):\n        self.logger = RunLogger()", "self.logger.warning('large')",
        "class M:\n    def __init__(self, logger):\n        self.logger = logger or logging.getLogger(__name__)",
    ),
    "an argument of some kind": (COUNTING, "log.warning('large')", "from mine import RunLogger"),
    "an annotated argument": (
        "class M:\n    def __init__(self, logger: 'Optional[CSVLogger]'):\n        self.logger = logger",
        "self.logger.info('large')",
        "class M:\n    def __init__(self, logger: logging.Logger | None):\n        self.logger = logger",
    ),
    "a logger that counts": (
        "class Counting(logging.Logger):\n    def warning(self, *args):\n        self.n += 1\nlogger = Counting('a')",
        "logger.warning('large')",
        "class Plain(logging.Logger):\n    def warning(self, *args):\n        super().warning(*args)\nlogger = Plain('a')",
    ),
    "a handler that counts": (
        "class Count(logging.Handler):\n    def emit(self, record):\n        self.n += 1\nlogger = logging.getLogger()",
        "logger.warning('large')",
        "class Count(Handler):\n    def other(self):\n        self.n += 1\nlogger = logging.getLogger()",
    ),
    "a filter": ("logger.addFilter(counted)", "logger.info('large')", "logger.addHandler(logging.StreamHandler())"),
    "a method that is another": ("logger.info = seen.append", "logger.info('large')", "logger.other = seen.append"),
    "another's class": ("logger = CSVLogger('runs')", "logger.info('large')", "logger = structlog.get_logger('runs')"),
    "a list": ("log = []", "log.warning('large')", "def g():\n    log = []\nclass C:\n    def log(self): pass"),
    "a list, set elsewhere": (
        "def g():\n    global log\n    log = RunLog()", "log.warning('large')", "def g():\n    log = RunLog()",
    ),
    "a value of a name": ("", "logger.log('loss', 0.5)", "logger.log(logging.INFO, 'loss')"),
    "values by name": ("", "self.logger.log({'loss': 0.5})", "self.logger.log(20, 'loss')"),
    "a file of one's own": ("", "print(1, 2, sep=',', file=self.out)", "print(1, 2, sep=',', file=sys.stderr)"),
    "words that are not known": ("", "print(1, **how)", "print(1, end='')"),
    "another print": ("def print(*args):\n    seen.append(args)", "print('large')", "class A:\n    def print(self): pass"),
    "output that is read": (
        "def g(x):\n    with contextlib.redirect_stdout(out):\n        f(x)", "print('large')", "def g(x):\n    return f(x)",
    ),
    "output that goes elsewhere": ("sys.stdout = Tee()", "sys.stdout.write('large')", "stdout = Tee()"),
    "warnings that are counted": (
        "def g(x):\n    with warnings.catch_warnings(record=True) as w:\n        f(x)", "warnings.warn('large')", "import warnings",
    ),
    "warnings that are errors": (
        "warnings.simplefilter('error')", "warnings.warn('large')", "warnings.simplefilter('ignore')",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("known", "call", "other"), NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_what_the_file_shows_to_be_more_than_a_message_is_done(known, call, other):
    head = HEAD.partition("class OnceLogger")[0]
    for body in (f"    {call}\n", f"    if x.max() > 3:\n        {call}\n"):
        cause = BRANCH if "if " in body else EFFECT
        text = f"\ndef f(self, x, log=None):\n    x = x + 1\n{body}    return x * 2\n".replace("__name__", "'m'")
        if known.startswith(("log = ", "def g():")):
            text = text.replace(", log=None", "")
        found = suggestion(head + known + text, cause, body.strip().partition("\n")[0])
        assert found is None
        if call == other or (known == "" and "(" in other and other.startswith(call.partition("(")[0])):
            text, rest = text.replace(call, other), ""
        else:
            rest = other
        found = suggestion(
            head + rest + text, cause, body.strip().partition("\n")[0].replace(call, other if not rest else call)
        )
        assert "is_compiling" in found.after[0]


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
    "a test of anything or of a tensor": (
        BRANCH, "if", "def f(x, on):\n    if on or x.any():\n        x = x + 1\n    return x\n",
    ),
    "a test of anything, or else": (
        BRANCH, "if", "def f(x, on):\n    if on and x.any():\n        x = x + 1\n    else:\n        x = x - 1\n    return x\n",
    ),
    "a test of what a function says": (
        BRANCH, "if", "def f(x, s):\n    if s.pop() and x.any():\n        x = x + 1\n    return x\n",
    ),
    "a test of anything that is asked last": (
        BRANCH, "if", "def f(x, on):\n    if x.any() and on:\n        x = x + 1\n    return x\n",
    ),
    "elif of anything and of a tensor": (
        BRANCH, "elif", "def f(x, on):\n    if on is None:\n        x = x * 2\n    elif on and x.any():\n        x = x + 1\n    return x\n",
    ),
    "a return on a flag and a tensor": (
        BRANCH, "if", "def f(x, on):\n    if on and x.any():\n        return x + 1\n    return x\n",
    ),
    "a break on a flag and a tensor": (
        BRANCH, "if",
        "def f(x, on):\n    for _ in range(3):\n        x = x + 1\n        if on and x.any():\n            break\n    return x\n",
    ),
    "a count on a flag and a tensor": (
        BRANCH, "if", "def f(self, x, on):\n    if on and x.any():\n        self.n += 1\n    return x\n",
    ),
    "a call on a flag and a tensor": (
        BRANCH, "if", "def f(x, on):\n    if on and x.any():\n        x = layer(x)\n    return x\n",
    ),
    "a fill where another mask is false": (
        BRANCH, "if", "def f(x, k):\n    m = x > 3\n    if not m.all():\n        x.masked_fill_(~k, 0.5)\n    return x\n",
    ),
    "a fill where a mask is false, and more": (
        BRANCH, "if",
        "def f(x, s):\n    m = x > 3\n    if not m.all():\n        x = x.masked_fill(~m, 0.5)\n        s.append(x)\n    return x\n",
    ),
    "a fill where a mask is false, or else": (
        BRANCH, "if",
        "def f(x, s):\n    m = x > 3\n    if not m.all():\n        x.masked_fill_(~m, 0.5)\n    else:\n        x[0] = 1\n    return x\n",
    ),
    "a fill by a mask that is another by then": (
        BRANCH, "if",
        "def f(x, k):\n    m = x > 3\n    if not m.all():\n        m = k\n        x.masked_fill_(~m, 0.5)\n    return x\n",
    ),
    "a fill by a mask that was another when it was asked": (
        BRANCH, "if full",
        "def f(x, k):\n    m = x > 3\n    full = not m.all()\n    m = k\n    if full:\n        x.masked_fill_(~m, 0.5)\n    return x\n",
    ),
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
        BRANCH, "if", "def f(x):\n    if x.numel() == 0 or x.max() > 5:\n        x = x + 1\n    return x\n",
    ),
    "a test of the length before": (
        BRANCH, "if", "def f(x, xs):\n    if len(xs) == 0 or x.max() > 5:\n        x = x + 1\n    return x\n",
    ),
    "a test of the shape before": (
        BRANCH, "if", "def f(x):\n    if x.shape[0] == 0 or x.max() > 5:\n        x = x + 1\n    return x\n",
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


CLOCK = BreakCause("Attempted to call function marked as skipped", context="module: time, qualname: perf_counter")
# A line of each rule that makes something else of a name, with what would let others read that name.
ESCAPING = {
    "a number": (ITEM, "item", "    n = x.norm().item()\n    return x / n\n", "n"),
    "a number for a branch": (
        ITEM, "item", "    n = (x > 1).sum().item()\n    if n > 2:\n        x = x + 1\n    return x\n", "n",
    ),
    "one of two numbers": (BRANCH, "if", "    k = 2.0 if x.mean() > 0 else 0.5\n    return x * k\n", "k"),
    "a branch with numbers": (
        BRANCH, "if", "    if x.mean() > 0:\n        k = 2.0\n    else:\n        k = 0.5\n    return x * k\n", "k",
    ),
    "what a loop counts by": (
        BRANCH, "if",
        "    y = x * 1\n    for k in range(3):\n        y = y + 1\n        if y.sum() > 9:\n            break\n    return y\n", "k",
    ),
    "numbers of a list": (
        ITEM, "for", "    y = x.exp()\n    for v in y[0].tolist():\n        y = y + v\n    return y\n", "v",
    ),
    "chosen rows": (
        SHAPE, "where", "    out = torch.ones_like(x)\n    i = torch.where(x.sum(1) > 0)[0]\n    out[i] = x[i] * 2\n    return out\n", "i",
    ),
    "a clock": (
        CLOCK, "perf",
        "    t = time.perf_counter()\n    if not torch.compiler.is_compiling():\n        print(t)\n    return x * 2\n", "t",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("cause", "line", "body", "name"), ESCAPING.values(), ids=ESCAPING)
def test_a_name_that_others_read_stays_what_it_is(cause, line, body, name):
    alone = f"{name} = 0\ndef f(x):\n{body}"
    assert suggestion(HEAD + alone, cause, line) is not None
    assert suggestion(HEAD + alone.replace("(x):\n", f"(x):\n    global {name}\n"), cause, line) is None
    within = "".join(f"    {text}\n" for text in alone.replace("(x):\n", f"(x):\n    nonlocal {name}\n").splitlines())
    assert suggestion(f"{HEAD}def make():\n{within}    return f, lambda: {name}\n", cause, line) is None
    written = f"    def g():\n        nonlocal {name}\n        {name} = 3\n    g()\n    return"
    assert suggestion(HEAD + alone.replace("    return", written), cause, line) is None
    every = alone.replace("    return", "    log.append(locals())\n    return")
    assert suggestion(HEAD + every, cause, line) is None


def test_numbers_of_groups_and_for_training_that_others_read_stay_what_they_are():
    hit, rows, name = HITS["numbers"]
    text = EXPERTS.replace("HIT", hit).replace("ROWS", rows).replace("NAME", name)
    assert suggestion(text, SHAPE, "hit = ") is not None
    assert suggestion(text.replace("out = ", "global hit; out = "), SHAPE, "hit = ") is None
    line = "        p = np.random.uniform(0, 1)\n"
    body = f"    def forward(self, x):\n{line}        return x * 2 if self.training and p < 0.5 else x\n"
    cause = BreakCause("Attempted to call function marked as skipped")
    for first, is_offered in (("", True), ("        global p\n", False)):
        text = f"{HEAD}class M(torch.nn.Module):\n{body.replace(line, first + line)}"
        number = text.split("\n").index(line.rstrip("\n")) + 1
        assert (alternative(cause, Sources({FILE: text}), at(text, number)) is not None) == is_offered


NUMBER = "(1 if x.sum() > 0 else 0)"


@pytest.mark.parametrize(
    "line",
    [
        f"level = 1 + {NUMBER}\n    seen[level] = x",
        f"level = 1 + {NUMBER}\n    x = x[:level]",
        f"self.level = 2 * {NUMBER}",
        f"x = x.roll(1 + {NUMBER}, 0)",
        f"return x, 1 + {NUMBER}",
        f"x = x[{NUMBER} + 1]",
        "k = WIDTH if x.sum() > 0 else 1\n    self.k = k",
        "k = WIDTH if x.sum() > 0 else 1\n    x = x[:k]",
        "if x.sum() > 0:\n        k = WIDTH\n    else:\n        k = 1\n    seen[k] = x",
        "k = self.wide * 2 if x.sum() > 0 else self.slim * 2\n    self.k = k",
        "k = self.wide * 2 if x.sum() > 0 else self.slim * 2\n    width = k + 1\n    seen.append(width)",
        (
            "y = x.exp()\n    k = 0\n    for _ in range(3):\n        y = y + 1\n        k = 3\n        if x.sum() > y.sum():\n"
            "            break\n    x = x[:k]"
        ),
    ],
)
def test_a_value_that_may_be_a_number_is_no_tensor_where_others_may_ask_for_it(line):
    text = f"{HEAD}WIDTH = 4\ndef f(self, x, seen):\n    x = x.exp()\n    {line}\n    return x\n"
    assert suggestion(text, BRANCH, "x.sum() >") is None


@pytest.mark.parametrize(
    "line",
    [
        f"y = x * {NUMBER}",
        f"y = x - 2 * x * {NUMBER}",
        f"y = x.clone()\n    y *= {NUMBER}",
        "k = WIDTH if x.sum() > 0 else 1\n    y = x * k",
        "y = WIDTH * 2 if x.sum() > 0 else x",
        (
            "y = x.exp()\n    k = x * 0\n    for _ in range(3):\n        y = y + 1\n        k = x * 3\n        if x.sum() > y.sum():\n"
            "            break\n    y = x + k"
        ),
    ],
)
def test_a_number_that_only_tensors_meet_is_chosen(line):
    text = f"{HEAD}WIDTH = 4\ndef f(x):\n    x = x.exp()\n    {line}\n    return y\n"
    found = suggestion(text, BRANCH, "x.sum() >")
    assert found is not None
    better = loaded(applied(text, found)).f
    for x in INPUTS:
        torch.testing.assert_close(better(x), loaded(text).f(x) + torch.zeros(2, 3), check_dtype=False)


def test_a_number_that_is_read_above_in_a_loop_or_in_a_function_stays_one():
    line = "k = 2 if x.sum() > 0 else 1\n"
    for text in (
        f"def f(x):\n    k = 1\n    for _ in range(3):\n        x = x[:k] + 1\n        {line}    return x\n",
        f"def f(x):\n    def first():\n        return x[:k]\n    {line}    return x * k + first()\n",
        f"def f(x):\n    first = lambda: x[:k]\n    {line}    return x * k + first()\n",
    ):
        assert suggestion(HEAD + text, BRANCH, " if ") is None
    alone = f"def f(x):\n    k = 1\n    x = x * k\n    {line}    return x * k\n"
    assert suggestion(HEAD + alone, BRANCH, " if ") is not None


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


@pytest.mark.parametrize("end", ["\n", pytest.param("\r\n", marks=pytest.mark.long)], ids=["unix", "dos"])
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


def test_an_array_of_numpys_is_no_tensor():
    text = HEAD + "def f(x):\n    ranks = {}\n    m = x > 0\n    return ranks[m].sum()\n"
    assert suggestion(text.format("torch.argsort(x)"), SHAPE, "return") is not None
    assert suggestion(text.format("np.argsort(x) + 1"), SHAPE, "return") is None


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("x.sum(-1, keepdim=x.shape[1] > 2)", "x.sum(-1, keepdim=True if x.shape[1] > 2 else False)"),
        ("torch.sum(x, -1, wide)", "torch.sum(x, -1, True if wide else False)"),
        ("torch.sort(x, descending=wide, dim=-1)[0]", "torch.sort(x, descending=True if wide else False, dim=-1)[0]"),
        ("x.sort(-1, wide)[0]", "x.sort(-1, True if wide else False)[0]"),
        (
            "x.sum(-1, keepdim=(wide if wide else wide))",
            "x.sum(-1, keepdim=(True if (wide if wide else wide) else False))",
        ),
    ],
)
def test_a_flag_that_is_a_comparison_of_sizes_is_decided_by_python(line, after):
    source = f"def f(x):\n    wide = x.shape[1] > 2\n    return {line}\n"
    with torch._dynamo.config.patch(assume_static_by_default=False):
        found = proven(source)
    assert (found.after, found.needs) == ((f"return {after}",), "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("F.dropout(x, 0.5, wide)", "<function dropout at 0x7f>: dropout(): argument 'train' (position 3)"),
        ("x.sum(*flags)", "sum: sum(): argument 'keepdim' (position 2)"),
        ("x.sum(-1, wide) + x.sum(-1, wide)", "sum: sum(): argument 'keepdim' (position 2)"),
        ("self.sum(x, wide)", "sum: sum(): argument 'keepdim' (position 2)"),
        ("x.amax(-1, wide)", "sum: sum(): argument 'keepdim' (position 2)"),
        ("x.sum(-1)", "sum: sum(): argument 'keepdim' (position 2)"),
    ],
)
def test_a_flag_is_left_where_it_does_not_show_which_one_is_refused(line, said):
    cause = BreakCause("TypeError when making fake tensor call", context=f"TypeError {said} must be bool, not SymBool")
    assert suggestion(f"{HEAD}def f(self, x, wide, flags):\n    return {line}\n", cause, line) is None


@pytest.mark.parametrize(
    ("before", "within", "name"),
    [
        ("import torch", "", "torch"),
        ("import torch as th", "", "th"),
        ("import torch.nn.functional", "", "torch"),
        ("import torch.nn.functional as F\nimport torch", "", "torch"),
        ("try:\n    import torch as th\nexcept ImportError:\n    th = None", "", "th"),
        ("import torch as th", "import torch\n    ", "torch"),
        ("import torch.nn.functional as F", "", ""),
        ("from torch import nn", "", ""),
        ("def other():\n    import torch", "", ""),
        ("class Other:\n    import torch", "", ""),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", "", ""),
    ],
)
def test_what_is_written_calls_torch_by_a_name_that_is_there(before: str, within: str, name: str) -> None:
    text = f"{before}\ndef f(x):\n    {within}if x.sum() > 3:\n        print(x)\n    return x\n"
    number = text[: text.index("if x.sum")].count("\n") + 1
    at = SourceLine("/app/model.py", number, "f", "if x.sum() > 3:")
    site = site_at(Sources({"/app/model.py": text}), at)
    assert site is not None
    assert (site.torch, site.imports_torch) == (name or "torch", bool(name))
    found = rewrite(BreakCause("Data-dependent branching"), Sources({"/app/model.py": text}), at)
    assert found is not None
    assert found.after[0].startswith(f"if not {name or 'torch'}.compiler.is_compiling()")
    assert ("`import torch`" in found.needs) is not bool(name)
