"""A function in parts computes what it did, eagerly and compiled, and its parts are compiled without a break."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.cli import main
from compiler_lens.facts.measured.arguments import with_arguments
from compiler_lens.facts.measured.edits import Apart, edited
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.measured.parts import in_parts, stays, with_parts
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import Outcome
from tests.alike import loaded

HEAD = "import torch\nfrom torch import nn\n\ncalls = 0\n\n\n"
STEP = '''
    def step(x, scale=1.0, *, bias=None):
        """Scaled."""
        global calls
        y = torch.sin(x) * scale
        # of its own size
        top = y.abs().max().item()
        if bias is not None:
            y = y + bias
        z = torch.cos(y) / (1 + y.abs())
        calls += 1
        if top > 0.9:
            z = z * 2
        z = z.exp() - x
        return z.sum() + top
'''
BREAKING = ("top = y.abs().max().item()", "if top > 0.9:")


def divided(text: str, name: str, lines: tuple[str, ...]) -> str:
    new = with_parts(text, name, lines)
    assert new is not None
    return new


def test_statements_that_break_stay_and_what_is_between_them_is_compiled() -> None:
    text = HEAD + dedent(STEP).lstrip()
    new = divided(text, "step", BREAKING)
    before, after = loaded(text), loaded(new)
    for scale in (0.1, 3.0):
        x = torch.linspace(-2, 2, 5) * scale
        for given in ({}, {"scale": 2.0}, {"bias": torch.ones(5)}):
            wanted = before.__dict__["step"](x, **given)
            torch.testing.assert_close(after.__dict__["step"](x, **given), wanted, rtol=0, atol=0)
    assert before.__dict__["calls"] == after.__dict__["calls"] == 6

    torch._dynamo.reset()
    compiled = torch.compile(after.__dict__["step"], backend="eager")
    with Lens(strict=True) as lens:
        torch.testing.assert_close(compiled(torch.ones(5)), before.__dict__["step"](torch.ones(5)))
    made = [one.function for one in lens.recording.compilations if one.outcome is Outcome.COMPILED]
    assert made == ["step_computed", "step_computed_2", "step_computed_3"]
    assert not lens.recording.graph_breaks


def test_a_part_gets_what_it_reads_and_returns_what_is_read_after_it() -> None:
    new = divided(HEAD + dedent(STEP).lstrip(), "step", BREAKING)
    assert "@torch._dynamo.decorators.skip\ndef step(x, scale=1.0, *, bias=None):\n" in new
    assert "    y = step_computed(x, scale)\n    # of its own size\n    top = y.abs()" in new
    assert "    z = step_computed_2(bias, y)\n    calls += 1\n    if top > 0.9:\n" in new
    assert "    return step_computed_3(x, z, top)\n" in new


NET = (
    HEAD
    + dedent("""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
            self.seen = []

        def forward(self, x, rows):
            h = torch.relu(self.body(x))
            out = self.head(h)
            if self.training:
                return self.loss(out, rows)
            return self.pick(out)

        def loss(self, out, rows):
            total = out.sum() * 0
            for row, one in zip(out, rows):
                if row.sum() > 0:
                    total = total + row[one > 0].sum()
            self.seen.append(total.item())
            return total

        def pick(self, out):
            kept = []
            for row in out:
                if row.max() > 0:
                    kept.append(row.argmax().item())
            return kept
""").lstrip()
)


@pytest.mark.parametrize("mark", ["torch.no_grad()", "torch.inference_mode()"])
def test_what_runs_without_gradients_does_so_in_parts(mark: str) -> None:
    text = f"{HEAD}def other(x):\n    return x + 1\n\n\n@{mark}\n{dedent(STEP).lstrip()}"
    new = divided(text, "step", BREAKING)
    assert f'    """Scaled."""\n    with {mark}:\n        return step_python(x, scale, bias)\n\n\n@torch._dynamo' in new
    assert new.count(mark) == 1
    before, after = loaded(text).__dict__["step"], loaded(new).__dict__["step"]
    x = torch.linspace(-2, 2, 5, requires_grad=True)
    torch.testing.assert_close(after(x, 2.0, bias=x), before(x, 2.0, bias=x), rtol=0, atol=0)
    assert not after(x).requires_grad
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(after, backend="eager")(x)
    made = [one.function for one in lens.recording.compilations if one.outcome is Outcome.COMPILED]
    assert made == ["step_computed", "step_computed_2", "step_computed_3"]


def test_counters_before_and_after_what_a_part_computes_stay_python() -> None:
    text = """
import torch


class Net:
    def forward(self, x):
        self.calls += 1
        y = torch.sin(x) + 1
        self.stats["halves"] += 1
        z = torch.cos(y) * 2
        self.stats["frames"] += 1
        if z.sum().item() > 0:
            z = z + 1
        return z
"""
    found = in_parts(text, "Net.forward", ["if z.sum().item() > 0:"])
    assert found is not None
    (part,) = found.parts
    assert [ast.unparse(one) for one in part.statements] == [
        "y = torch.sin(x) + 1",
        "self.stats['halves'] += 1",
        "z = torch.cos(y) * 2",
    ]


def test_methods_have_parts_in_their_class_and_none_that_only_call_another_method() -> None:
    new = divided(NET, "Net.forward", ("return self.loss(out, rows)",))
    assert "        out = self.forward_computed(x)\n        if self.training:\n" in new
    assert "            return self.loss(out, rows)\n        return self.pick(out)\n" in new
    assert "    def forward_computed(self, x):\n        h = torch.relu(self.body(x))\n" in new
    assert "forward_computed_2" not in new


def test_parts_of_several_functions_have_names_of_their_own() -> None:
    once = divided(NET, "Net.forward", ("return self.loss(out, rows)",))
    text = once + "\n\ndef forward(x):\n    y = x.sin() + x.cos()\n    n = y.sum().item()\n    return y * n + x.exp()\n"
    new = divided(text, "forward", ("n = y.sum().item()",))
    assert "\ndef forward_computed_2(x):\n" in new
    assert "\ndef forward_computed_3(x, y, n):\n" in new
    again = divided(new, "forward_computed_3", ("return y * n + x.exp()",))
    assert "@torch._dynamo.decorators.skip\ndef forward_computed_3(x, y, n):\n    return y * n + x.exp()\n" in again


def test_what_stays_is_known_by_its_lines() -> None:
    found = in_parts(NET, "Net.forward", ["return self.loss(out, rows)"])
    assert found is not None
    assert stays(found, NET) == {"if self.training:", "return self.loss(out, rows)", "return self.pick(out)"}


LEFT = {
    "a name that may not be there": "def step(x):\n    if x.dim() > 1:\n        z = x\n    n = x.sum().item()\n"
    "    y = x.sin() + z.cos()\n    return y\n",
    "a name that only one side writes": "def step(x):\n    n = x.sum().item()\n    if x.dim() > 1:\n"
    "        z = x.sin() + x.cos()\n    y = n\n    return z\n",
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_statements_whose_names_are_not_sure_are_no_part(text: str) -> None:
    assert "step_computed" not in divided(HEAD + text, "step", ("n = x.sum().item()", "y = n"))


SAME_NAMES = """
def step(x, rows=3):
    h = torch.relu(x) + 1
    k = 5
    if h.sum().item() > 0:
        big = {k: v for k, v in enumerate([b for b in (1, 2)])}
        h = h * len(big)
    parts = [torch.sigmoid(b) * b for b in (h, h + k) if b.dim()]
    if rows == 4:
        return parts
    return torch.stack([b.amax() + b.amin() for b in parts]) * k
"""


def test_what_a_comprehension_names_is_not_the_functions() -> None:
    text = HEAD + SAME_NAMES.lstrip()
    new = divided(text, "step", ("if h.sum().item() > 0:",))
    assert "parts = step_computed_2(h, k)" in new
    before, after = loaded(text).__dict__["step"], loaded(new).__dict__["step"]
    for rows in (3, 4):
        for one, other in zip(before(torch.ones(3), rows), after(torch.ones(3), rows), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


NEVER = {
    "a generator that is kept": "def step(x):\n    y = x.sin() + 1\n    late = (y * n for n in (1, 2))\n"
    "    t = y.sum().item()\n    y = x + t\n    return sum(late) + y\n",
    "a function that waits": "def step(x):\n    async def late(): return x\n    y = x.sin() + 1\n    return y.sum().item()\n",
    "any number": "def step(*x):\n    y = x[0].sin() + 1\n    return y.sum().item()\n",
    "a function": "def step(x):\n    y = x.sin() + 1\n    return lambda: y.sum().item()\n",
    "its names are read": "def step(x):\n    y = x.sin() + 1\n    n = y.sum().item()\n    return locals()\n",
    "a generator": "def step(x):\n    y = x.sin() + 1\n    yield y.sum().item()\n",
    "another decorator": "@torch.jit.ignore\ndef step(x):\n    y = x.sin() + 1\n    return y.sum().item()\n",
    "borrowed": "def step(x):\n    y = x.sin() + 1\n    return y.sum().item()\n\n\nclass Other:\n    step = Net.step\n",
    "the line is elsewhere": "def step(x):\n    return x.sin() + 1\n\n\ndef other(y):\n    return y.sum().item()\n",
}


@pytest.mark.parametrize("text", NEVER.values(), ids=NEVER)
def test_what_cannot_be_divided_is_left(text: str) -> None:
    line = next(line.strip() for line in text.split("\n") if ".item()" in line)
    assert with_parts(HEAD + text, "step", [line]) is None


@pytest.mark.parametrize(
    ("mark", "is_given"),
    [("@torch.compile", True), ("@torch.compile(dynamic=True)", True), ("@torch.no_grad()", False)],
)
def test_it_is_known_whether_a_function_is_given_to_torch_compile(mark: str, is_given: bool) -> None:
    text = NET.replace("    def forward(", f"    {mark}\n    def forward(")
    found = in_parts(text, "Net.forward", ("return self.loss(out, rows)",))
    assert found is not None
    assert found.is_given is is_given


def test_an_edit_divides_one_function() -> None:
    edit = Apart("net.py", "Net.forward", ("return self.loss(out, rows)",))
    new = edited(edit, {"net.py": NET}, "net.py")
    assert new == {"net.py": with_parts(NET, "Net.forward", edit.lines)}
    assert edit.title == edit.code == "def forward(…) in parts, without return self.loss(out, rows)"


RUN = """
torch.manual_seed(0)
net = Net()
compiled = torch.compile(net)
for n in range(4):
    compiled(torch.ones(3, 4) * (n - 1), torch.eye(3, 2)).backward()
net.eval()
with torch.no_grad():
    print(compiled(torch.ones(3, 4), None))
"""


# What asks for layers is a network, and gets no mark.
WITH_LAYERS = (
    NET.replace("self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 2)", "self.body = nn.Linear(4, 4)")
    .replace("        self.seen = []", "        self.head = nn.Linear(4, 2)\n        self.seen = []")
    .replace("total = out.sum() * 0", "total = out.sum() * 0 + self.head.bias.sum() * 0")
    .replace("for row in out:", "for row in out + self.head.bias * 0:")
)


def best_of(text: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    Path("train.py").write_text(text)
    assert main(["fix", "--json", "--own-inputs", "train.py"]) == 0
    best: dict[str, Any] = json.loads(capsys.readouterr().out)["best"]
    assert best["results"] == "equal"
    return best


def test_fix_divides_what_breaks_in_loops_also_where_that_shows_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    best = best_of(WITH_LAYERS + RUN, capsys)
    assert (best["after"]["eager_functions"], best["after"]["graph_breaks"]) == (0, 0)
    for name in ("forward", "loss", "pick"):
        assert f"+    @torch._dynamo.decorators.skip\n     def {name}(self" in best["patch"]
    assert "+    def forward_computed(self, x):\n" in best["patch"]


def test_two_marks_are_better_than_three_functions_in_parts_that_compile_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The breaks at their calls are meant."""
    monkeypatch.chdir(tmp_path)
    best = best_of(NET + RUN, capsys)
    assert (best["after"]["eager_functions"], best["after"]["graph_breaks"]) == (0, 2)
    assert [offer.partition("(")[0] for offer in best["offers"]] == ["@torch.compiler.disable"] * 2


ROUNDS = """
import random

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(8, 2, 16, 0.0) for _ in range(3)])
        self.named = nn.ModuleList([Named() for _ in range(2)])

    def forward(self, x, drop):
        for block in self.blocks:
            if random.random() < drop:
                continue
            x = block(x)
        for named in self.named:
            x = named(x)
            print(1)
        return x


class Named(nn.Module):
    def forward(self, x):
        return x.sin()
"""


def test_a_round_that_calls_a_module_of_torchs_is_a_part() -> None:
    """Torch compiles its own modules only as a part of what calls them; those of the user by themselves."""
    new = divided(ROUNDS, "Policy.forward", ("if random.random() < drop:", "print(1)"))
    assert "            x = self.forward_computed(x, block)\n" in new
    assert "            x = named(x)\n" in new
    module = loaded(new).__dict__["Policy"]().eval()
    compiled = torch.compile(module, backend="eager")
    x = torch.randn(4, 2, 8)
    wanted = loaded(ROUNDS).__dict__["Policy"]()
    wanted.load_state_dict(module.state_dict())
    with Lens(strict=True) as lens, torch.no_grad():
        torch.testing.assert_close(compiled(x, 0.0), wanted.eval()(x, 0.0), rtol=0, atol=0)
    targets = " ".join(str(node.target) for graph in lens.recording.graphs for node in graph.nodes)
    assert "layer_norm" in targets


CODEC = """
    class Codec(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(4, 4), nn.Linear(4, 4)

        def quantize(self, x, scale=1.0):
            return torch.round(x * (2 if x.sum().item() > 0 else 4)) * scale

        def forward(self, x):
            codes = self.quantize(self.encoder(x).tanh(), scale=0.5)  # breaks
            return self.decoder(codes).relu()
    """
QUANTIZED = "codes = self.quantize(self.encoder(x).tanh(), scale=0.5)  # breaks"


def test_what_a_call_that_stays_is_given_is_computed_in_a_part() -> None:
    text = HEAD + dedent(CODEC)
    new = divided(text, "Codec.forward", (QUANTIZED,))
    assert "        quantize_input = self.encoder(x).tanh()\n        return quantize_input\n" in new
    assert "        codes = self.quantize(quantize_input, scale=0.5)  # breaks\n" in new
    before, after = (loaded(one).__dict__["Codec"]() for one in (text, new))
    after.load_state_dict(before.state_dict())
    x = torch.randn(3, 4)
    torch.testing.assert_close(after(x), before(x))


def test_the_line_of_a_call_that_stays_may_be_in_no_graph(tmp_path: Path) -> None:
    file = tmp_path / "codec.py"
    file.write_text(HEAD + dedent(CODEC))
    module = ModuleType("codec")
    exec(compile(file.read_text(), str(file), "exec"), module.__dict__)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(module.__dict__["Codec"](), backend="eager")(torch.randn(3, 4))
    offers = {one.edit.name: one for one in observed(lens.recording, Ownership()).parts if isinstance(one.edit, Apart)}
    assert (str(file), QUANTIZED) in offers["Codec.forward"].may_lose


@pytest.mark.parametrize(
    "call",
    [
        "self.quantize(x.tanh(), scale=0.5)",  # nothing of a layer
        "self.quantize(self.encoder(x).sum().item(), scale=0.5)",
        "self.quantize(*self.encoder(x).split(2))",
        "self.quantize(self.encoder(x), scale=next(self.scales))",
        "self.quantizers[0](self.encoder(x))",
    ],
)
def test_what_a_call_is_given_stays_where_that_is_no_part(call: str) -> None:
    text = HEAD + dedent(CODEC).replace("self.quantize(self.encoder(x).tanh(), scale=0.5)", call)
    new = with_parts(text, "Codec.forward", (f"codes = {call}  # breaks",))
    assert new is not None
    assert "_input" not in new


@pytest.mark.parametrize("line", ["if x is not None: x = self.vq(self.net(x))", "x = self.vq(self.net(x)); x = x + 1"])
def test_a_line_with_more_than_a_call_stays_as_it_is(line: str) -> None:
    text = f"class Net:\n    def forward(self, x):\n        {line}\n        return x\n"
    named = with_arguments(text, "Net.forward", [line], frozenset())
    assert (named.text, named.names) == (text, frozenset())
