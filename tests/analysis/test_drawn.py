"""A branch that one of torch's random numbers decides: both ways in one, with the numbers and gradients of before."""

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.breaks.rewrites import Rewrite, alternatives, rewrite
from compiler_lens.facts.overview.explanation import explain
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources
from tests.alike import FILE, applied, differences, loaded

pytestmark = pytest.mark.usefixtures("lines_of_the_test")

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
HEAD = "import torch\n"
MODULES = """
class Drop(torch.nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
{body}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(5))
        self.drops = torch.nn.ModuleList(Drop(p) for p in (0.0, 0.3, 0.5, 0.7, 1.0)[:{number}])

    def forward(self, x):
        for layer, drop in zip(self.layers, self.drops):
            x = x + drop(layer(x))
        return x
"""


def of_drop(body: str, number: int = 4) -> str:
    """A model of layers, each of which is left out by a number that is drawn."""
    indented = "\n".join(f"        {line}".rstrip() for line in body.strip("\n").split("\n"))
    return HEAD + MODULES.format(body=indented, number=number)


def ran(text: str, backend: str = "", *, is_training: bool = True) -> tuple[list[torch.Tensor], int]:
    """What a model gives in some calls, with all gradients and the next random number; and its graph breaks."""
    torch.compiler.reset()
    torch.manual_seed(3)
    model = loaded(text).Model().train(is_training)
    called = torch.compile(model, backend=backend) if backend else model
    found: list[torch.Tensor] = []
    with Lens(strict=True) as lens:
        for _ in range(6):
            x = torch.randn(2, 3, requires_grad=True)
            result = called(x)
            result.sum().backward()
            found += [result, x.grad]
    found += [torch.tensor(-1e6) if p.grad is None else p.grad for p in model.parameters()]  # none is not zero
    return [*found, torch.rand(())], len(lens.recording.graph_breaks)


def card_of(text: str) -> Rewrite | None:
    torch.compiler.reset()
    with Lens(strict=True) as lens:
        torch.compile(loaded(text).Model(), backend="eager")(torch.randn(2, 3))
    return explain(lens.recording).cards[0].rewrite


DROPS = {
    "a product under a flag, with the flag in the other": """
if self.training and torch.rand(1).item() < self.p:
    return x * 0.0
return x / (1 - self.p) if self.training else x
""",
    "as it is": """
if self.training and torch.rand(1).item() < self.p:
    return x * 0.0
return x
""",
    "a number of no dimensions, with else": """
if self.training and torch.rand(()) < self.p:
    return x * 0.0
else:
    return x
""",
    "two flags and float": """
if self.training and self.p > 0 and float(torch.rand(1, device=x.device)) <= self.p:
    return x * 0.0
return x
""",
    "the rest, by a name": """
keep = 1 - self.p
if not self.training:
    return x
if torch.rand(1).item() >= keep:
    return x * 0
return x / keep
""",
    "under the flag": """
if self.training:
    if (torch.rand(1) < self.p).item():
        return 0 * x
    return x / (1.0 - self.p)
return x
""",
    "a name": """
if self.training and self.p > torch.rand([]).item():
    x = x * 0.0
return x * 1.5
""",
    "a name on either side": """
if self.training and bool(torch.rand(1) < self.p):
    y = -x * 0.0
else:
    y = x * (1 - self.p) + x
return y
""",
}


@pytest.mark.parametrize("name", DROPS)
def test_what_a_drawn_number_decides_is_one_graph_with_the_same_draws_and_gradients(name: str) -> None:
    text = of_drop(DROPS[name])
    found = card_of(text)
    assert found is not None
    better = applied(text, found)
    expected, _ = ran(text)
    _, broken = ran(text, "aot_eager")
    eager, _ = ran(better)
    compiled, left = ran(better, "aot_eager")
    assert broken
    assert not left
    assert all(torch.equal(a, b) for a, b in zip(eager, expected, strict=True))
    torch.testing.assert_close(compiled, expected)
    evaluated, _ = ran(better, is_training=False)
    torch.testing.assert_close(evaluated, ran(text, is_training=False)[0])


def test_a_quotient_that_was_never_computed_is_not_computed() -> None:
    """By a chance of 1 all is dropped, and `1 - p` is 0: zero by zero would be the gradient."""
    text = of_drop(DROPS["a product under a flag, with the flag in the other"], 5)
    found = card_of(text)
    assert found is not None
    assert found.after[0] == "if self.training and 0 <= self.p < 1:"
    expected, got = ran(text)[0], ran(applied(text, found))[0]
    assert not any(one.isnan().any() for one in expected)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def test_a_chance_of_double_is_compared_as_python_does() -> None:
    """A number a little above the one drawn is that in float32, which has the draw's digits."""
    text = HEAD + "def f(x):\n    if torch.rand(1).item() < P:\n        return x * 0.0\n    return x * 2.0\n"
    torch.manual_seed(0)
    drawn = torch.rand(1).item()
    text = text.replace("P", repr(drawn + 1e-12))
    better = applied(text, suggested(text))
    for source in (text, better):
        torch.manual_seed(0)
        assert not loaded(source).f(torch.ones(2)).any()
    torch.compiler.reset()
    torch.manual_seed(0)
    assert not torch.compile(loaded(better).f, backend="aot_eager", fullgraph=True)(torch.ones(2)).any()


def suggested(text: str) -> Rewrite | None:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if "rand" in line)
    return rewrite(ITEM, Sources({FILE: text}), SourceLine(FILE, number, "f", text.split("\n")[number - 1].strip()))


ALIKE = {
    "floats": "if torch.rand(1).item() < {p}:\n    return x * 0.0\nreturn x / 0.5",
    "as it is": "if torch.rand(1).item() < {p}:\n    return x * 0.0\nreturn x",
    "two": "if torch.rand(1).item() < {p}:\n    return x + y * 0.0\nreturn x + y",
    "a new name": "y = x.abs()\nif torch.rand(1).item() < {p}:\n    y = y * 0.0\ny += 1\nreturn y",
}
MAY_DIFFER = {"dtype": "one shape and dtype", "values": "a new tensor", "raises": "one shape and dtype"}


@pytest.mark.parametrize("p", [0.2, 0.8])
@pytest.mark.parametrize("name", ALIKE)
def test_both_ways_are_right_for_every_input_or_it_is_said(name: str, p: float) -> None:
    """Neither nan and inf nor zeros of the way that is not taken come into results and gradients."""
    parameters = "x, y" if name == "two" else "x"
    body = "".join(f"    {line}\n" for line in ALIKE[name].format(p=p).split("\n"))
    text = f"{HEAD}def f({parameters}):\n{body}"
    found = suggested(text)
    assert found is not None
    assert "torch.where(torch.rand(1).reshape(()).double() < " in "".join(found.after)
    differing = differences(loaded(text), loaded(applied(text, found)))
    assert all(MAY_DIFFER.get(what, "nothing") in found.needs for what in differing), differing


LEFT = {
    "a layer has parameters that had no gradient": "return x\nreturn x + self.layer(x)",
    "a parameter of one side alone": "return x\nreturn x + x * self.scale",
    "a product of two": "return x * y\nreturn x * y * 0.5",
    "what has no gradient": "return torch.zeros_like(x)\nreturn x",
    "a draw": "return x\nreturn x + torch.rand_like(x)",
    "a number out of all bounds": "return x * 1e300\nreturn x",
    "a divisor that nothing bounds": "return x * 0.0\nreturn x / self.keep",
    "the same on both sides": "return x\nreturn x",
}


@pytest.mark.parametrize("name", LEFT)
def test_what_may_keep_draw_or_change_gradients_is_not_computed_without_need(name: str) -> None:
    one, other = LEFT[name].split("\n")
    text = f"{HEAD}def f(self, x, y):\n    if self.training and torch.rand(1).item() < self.p:\n        {one}\n    {other}\n"
    assert suggested(text) is None


TESTS = {
    "a call would be asked twice": "self.count() and torch.rand(1).item() < self.p",
    "Python's number": "self.training and random.random() < self.p",
    "a generator": "self.training and torch.rand(1, generator=g).item() < self.p",
    "a draw before the flag": "torch.rand(1).item() < self.p and self.training",
    "two draws": "self.training and torch.rand(1).item() < torch.rand(1).item()",
    "a chance that is a tensor": "self.training and torch.rand(1).item() < y.sigmoid()",
}


@pytest.mark.parametrize("name", TESTS)
def test_a_test_that_is_more_than_one_draw_stays(name: str) -> None:
    text = f"{HEAD}def f(self, x, y, g):\n    if {TESTS[name]}:\n        return x * 0.0\n    return x / (1 - self.p)\n"
    assert suggested(text) is None


def test_a_number_that_was_computed_before_is_asked_itself() -> None:
    """What it was computed of may be another by now."""
    text = f"""{HEAD}def f(self, x):
    keep = 1 - self.p
    self.count()
    if torch.rand(1).item() < self.p:
        return x * 0.0
    return x / keep
"""
    found = suggested(text)
    assert found is not None
    assert found.after[0] == "if 1e-06 < keep <= 1:"


def test_a_quotient_by_the_chance_has_no_rewrite_that_may_divide_by_zero() -> None:
    text = (
        HEAD
        + "def f(self, x):\n    if torch.rand(()) >= self.keep:\n        return x * 0.0\n    return x / self.keep\n"
    )
    branch = BreakCause("Data-dependent branching", context="attempted to jump with TensorVariable()")
    line = SourceLine(FILE, 3, "f", text.split("\n")[2].strip())
    found = rewrite(branch, Sources({FILE: text}), line)
    assert found is not None
    assert found.after[0] == "if 1e-06 < self.keep <= 1:"
    assert not list(alternatives(branch, Sources({FILE: text}), line))
