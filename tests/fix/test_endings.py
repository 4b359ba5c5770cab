"""A function whose end stays Python does what it did: results, gradients, messages, eagerly and compiled."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.cli import main
from compiler_lens.facts.measured.bookkeeping import function_at, surely_stored
from compiler_lens.facts.measured.edits import EndApart, Lines, edited
from compiler_lens.facts.measured.endings import ending, with_ending
from compiler_lens.recording.model import Outcome
from tests.alike import loaded

HEAD = "import torch\n\n\n"

# The line that breaks, and the program.
PROGRAMS = {
    "a check that is caught": (
        "assert not torch.isnan(total)",
        """
        def step(x, weights):
            \"\"\"Weighted.\"\"\"
            parts = []
            for w in weights:
                parts.append((x * w).mean())  # each
            # together
            try:
                total = sum(parts)
                assert not torch.isnan(total)
            except AssertionError:
                print("nan")
                total = torch.zeros((), requires_grad=True)
            return total
        """,
    ),
    "another loss in place of one that is not finite": (
        "if not torch.isfinite(loss):",
        """
        def step(x, weights, *, by=1.0):
            y = x * sum(weights)
            loss = y.log().sum() * by
            if not torch.isfinite(loss):
                print("loss", loss.item())
                loss = torch.zeros_like(loss)
            return loss, y
        """,
    ),
    "numbers of what is computed": (
        "scale = y.abs().max().item()",
        """
        def step(x, weights):
            y = x * sum(weights)
            x = y + 1
            scale = y.abs().max().item()
            return x / (scale + 1), scale
        """,
    ),
    "numbers of a tensor, one after the other": (
        "for n in set((x > 1).long().tolist()):",
        """
        def step(x, weights):
            y = (x * sum(weights)).sin()
            for n in set((x > 1).long().tolist()):
                y = y + n
            return y
        """,
    ),
}


def run(text: str, *, compiled: bool) -> tuple[list[Any], list[str]]:
    """What it returns, with gradients, and how graphs break."""
    torch._dynamo.reset()
    module = loaded(text)
    step = torch.compile(module.__dict__["step"], backend="eager") if compiled else module.__dict__["step"]
    out: list[Any] = []
    with Lens(strict=True) as lens:
        for scale in (1.0, -1.0, float("nan")):
            x = (torch.arange(1.0, 4.0) * scale).requires_grad_()
            found = step(x, [1.0, 2.0])
            loss = found[0] if isinstance(found, tuple) else found
            if loss.requires_grad:
                loss.sum().backward()
            out += [*(found if isinstance(found, tuple) else [found]), x.grad]
    return out, [event.root.gb_type for event in lens.recording.graph_breaks]


@pytest.mark.parametrize(("line", "text"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_function_whose_end_stays_python_does_what_it_did(
    line: str, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + dedent(text).lstrip()
    new = with_ending(text, "step", line)
    assert new is not None
    wanted, _ = run(text, compiled=False)
    said = capfd.readouterr()
    for compiled in (False, True):
        found, breaks = run(new, compiled=compiled)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
        assert (breaks, capfd.readouterr()) == ([], said)
    assert run(text, compiled=True)[1], "nothing broke: the test proves nothing"
    assert with_ending(new, "step", line) is None  # once
    assert new.count("#") == text.count("#")


def test_a_method_hands_itself_on() -> None:
    text = HEAD + dedent("""
        class Model(torch.nn.Module):
            def forward(self, x, on=True):
                y = self.net(x) if on else x
                if y.isnan().any():
                    y = y.nan_to_num()
                return y
    """).lstrip("\n")
    assert with_ending(text, "Model.forward", "if y.isnan().any():") == HEAD + dedent("""
        class Model(torch.nn.Module):
            @torch._dynamo.decorators.skip
            def forward(self, x, on=True):
                y = self.forward_computed(x, on)
                if y.isnan().any():
                    y = y.nan_to_num()
                return y

            def forward_computed(self, x, on):
                y = self.net(x) if on else x
                return y
    """).lstrip("\n")


def test_a_function_in_another_stays_there_with_what_it_closes_over() -> None:
    text = HEAD + dedent("""
        def main(net, log):
            @torch.compile(backend="eager")
            def step(x, y):
                loss = (net(x) - y).pow(2).mean()
                value = loss.item()
                if value > 3:
                    log.warning("large")
                return loss, value

            return step
    """).lstrip("\n")
    new = with_ending(text, function_at(text, 5), "value = loss.item()")
    assert new is not None
    assert "        loss = step_computed(x, y)\n        value = loss.item()\n" in new
    names = loaded(new).__dict__
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        step = names["main"](torch.nn.Linear(2, 2), None)
        loss, value = step(torch.ones(2), torch.zeros(2))
    assert loss.item() == value
    assert not lens.recording.graph_breaks
    assert [graph.stage.value for graph in lens.recording.graphs] == ["dynamo"]


def test_a_loop_that_keeps_the_numbers_of_a_tensor_stays_python_too(capfd: pytest.CaptureFixture[str]) -> None:
    text = HEAD + dedent("""
        seen = []


        def step(x, weights):
            y = x * sum(weights)
            far = y > 2
            if far.any():
                places = far.nonzero().squeeze(-1)
                for i in places:
                    seen.append(y[i].item())
                y[places] = torch.rand(len(places))
            return y, len(seen)
    """).lstrip("\n")
    new = with_ending(text, "step", "for i in places:")
    assert new is not None
    torch.manual_seed(1)
    wanted, _ = run(text, compiled=False)
    for compiled in (False, True):
        torch.manual_seed(1)
        found, breaks = run(new, compiled=compiled)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
        assert not breaks
    assert run(text, compiled=True)[1], "nothing broke: the test proves nothing"


def test_numbers_that_are_taken_right_above_are_a_part_of_the_end() -> None:
    text = f"{HEAD}def step(x):\n    y = x.sin()\n    n = (x - y).sum().item()\n    z = y * 2\n"
    text += "    m = z.sum().item()\n    k = z.mean().item()\n    return z, time.time(), k, m + n\n"
    found = ending(text, "step", "return z, time.time(), k, m + n")
    assert found is not None
    assert ast.unparse(found.end[0]) == "m = z.sum().item()"
    assert list(found.moved.values()) == ["kept", "kept_2"]


LAYERS = dedent("""
    import random
    import torch


    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
            self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(4, 4)) for _ in range(3))

        def forward(self, x):
            y = self.first(x).relu() + 1
            for layer in self.layers:
                if self.training and random.gauss(0, 1) > 0.3:
                    continue
                y = layer(y)
            return self.head(y).squeeze(-1)
""").lstrip("\n")
DRAWN = "if self.training and random.gauss(0, 1) > 0.3:"


def in_training(text: str) -> tuple[list[Any], set[str], set[str]]:
    """What a model gives, with gradients; how its graphs break, and the functions of the file that are compiled."""
    torch._dynamo.reset()
    module = loaded(text)
    torch.manual_seed(0)
    random.seed(0)
    model = module.__dict__["Model"]()
    compiled = torch.compile(model, backend="eager")
    with Lens(strict=True) as lens:
        out = [compiled(torch.ones(2, 4) * n) for n in range(4)]
        sum(out).sum().backward()
    breaks = {event.root.gb_type for event in lens.recording.graph_breaks}
    given = {one.function for one in lens.recording.compilations if one.outcome is Outcome.COMPILED}
    return [*out, *(one.grad for one in model.parameters())], breaks, {name.rpartition(".")[2] for name in given}


def test_a_loop_that_leaves_layers_out_stays_python_and_what_is_above_it_is_compiled() -> None:
    new = with_ending(LAYERS, "Model.forward", DRAWN)
    assert new is not None
    assert "        y = self.forward_computed(x)\n        for layer in self.layers:\n" in new
    wanted, breaks, before = in_training(LAYERS)
    found, after, compiled = in_training(new)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert breaks, "nothing broke: the test proves nothing"
    assert "forward_computed" not in before
    assert not after
    assert "forward_computed" in compiled


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("y = layer(y)", "y = layer(y) @ y"),
        ("y = layer(y)", "y = other(y)"),
        ("return self.head(y).squeeze(-1)", "return self.parts.head(y)"),
    ],
)
def test_a_loop_that_computes_more_than_its_layers_is_worth_a_graph(line: str, instead: str) -> None:
    assert with_ending(LAYERS.replace(line, instead), "Model.forward", DRAWN) is None


NOT_LIGHT = {
    "a module": "    return self.head(y) if y.sum() > 0 else y",
    "a module of what it is given": "    return net.head(y) if y.sum() > 0 else y",
    "a product of matrices": "    return y @ y if y.sum() > 0 else y",
    "a layer's function": "    return F.linear(y, y) if y.sum() > 0 else y",
    "a loop over rows": "    for row in y:\n        if y.sum() > 0:\n            y = y - row\n    return y",
    "a loop that computes": "    for row in y.sum().tolist():\n        y = torch.sin(y)\n    return y",
    "a loop": "    while y.sum() > 0:\n        y = y - 1\n    return y",
    "another function that it was given": "    return net(y) if y.sum() > 0 else y",
    "a name that may not be there": "    return z if y.sum() > 0 else y",
    "much": "    if y.sum() > 0:\n" + "".join(f"        y = y.add({n})\n" for n in range(13)) + "    return y",
}


@pytest.mark.parametrize("end", NOT_LIGHT.values(), ids=NOT_LIGHT)
def test_an_end_that_computes_more_is_worth_a_graph(end: str) -> None:
    begin = "def step(self, x, net):\n    y = x.sin()\n    if net is None:\n        z = y\n"
    line = next(line.strip() for line in end.split("\n") if "y.sum()" in line)
    assert with_ending(f"{HEAD}{begin}{end}\n", "step", line) is None
    assert ending(f"{HEAD}{begin}    return y if y.sum() > 0 else x\n", "step", "return y if y.sum() > 0 else x")


@pytest.mark.parametrize(
    "text",
    [
        "def step(x):\n    if x.dim() == 1:\n        return x\n    y = x.sin()\n    return y.sum().item()\n",
        "def step(x):\n    return x.sum().item()\n",
        "@torch.no_grad()\ndef step(x):\n    y = x.sin()\n    return y.sum().item()\n",
        "def step(*x):\n    y = x[0].sin()\n    return y.sum().item()\n",
        "def step(x):\n    y = x.sin()\n    return lambda: y.sum().item()\n",
        "def step(x):\n    import logging\n    y = x.sin()\n    n = y.sum().item()\n    logging.info(n)\n    return y\n",
        "def step(x):\n    y = x.sin()\n    return y.sum().item()\n\n\nclass Other:\n    step = Net.step\n",
        "def step(x):\n    x.sin_()\n    return x.sum().item()\n\n\ndef step_computed():\n    pass\n",
    ],
    ids=[
        "a way out",
        "nothing before",
        "a decorator",
        "any number",
        "a function",
        "an import",
        "borrowed",
        "its name is taken",
    ],
)
def test_what_cannot_be_made_two_is_left(text: str) -> None:
    line = next(line.strip() for line in text.split("\n") if ".item()" in line)
    assert with_ending(HEAD + text, "step", line) is None


@pytest.mark.long
def test_fix_tries_an_end_in_python_when_nothing_else_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = PROGRAMS["a check that is caught"]
    monkeypatch.chdir(tmp_path)
    call = "compiled = torch.compile(step)\nfor n in range(3):\n    compiled(torch.ones(4) * n, [1.0, 2.0])\n"
    Path("train.py").write_text(f"{HEAD}{dedent(text).lstrip()}\n\n{call}")
    assert main(["fix", "--json", "train.py"]) == 0
    found = json.loads(capsys.readouterr().out)["best"]
    assert found["results"] == "equal"
    assert (found["after"]["graph_breaks"], found["after"]["eager_functions"]) == (0, 0)
    assert "+def step_computed(x, weights):" in found["patch"]


PICKED = """
def net(x):
    return (x * 2).sin()


def pick(scores, seen, power=2.0):
    scores = scores ** power
    for n in set(seen.tolist()):
        if scores[n] > 0:
            scores[n] = scores[n] / 2
    return scores.softmax(0)


def step(x, weights):
    return pick(net(x * sum(weights)), torch.arange(2), 3.0)
"""
LAST = "return pick(net(x * sum(weights)), torch.arange(2), 3.0)"


def test_what_is_computed_for_a_function_that_stays_python_is_compiled() -> None:
    mark = Lines(
        "ends.py",
        8,
        ("def pick(scores, seen, power=2.0):",),
        ("@torch.compiler.disable", "def pick(scores, seen, power=2.0):"),
    )
    text = HEAD + PICKED.lstrip()
    new = edited(EndApart("ends.py", "step", LAST, mark), {"ends.py": text}, "ends.py")
    assert new is not None
    assert new["ends.py"].endswith(
        dedent("""
        @torch._dynamo.decorators.skip
        def step(x, weights):
            scores = step_computed(x, weights)
            return pick(scores, torch.arange(2), 3.0)


        def step_computed(x, weights):
            scores = net(x * sum(weights))
            return scores
    """)
    )
    wanted, _ = run(text, compiled=False)
    for compiled in (False, True):
        found, breaks = run(new["ends.py"], compiled=compiled)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
        assert not breaks
    assert run(text, compiled=True)[1], "nothing broke: the test proves nothing"
    apart = with_ending(text, "step", LAST)
    assert apart is not None
    assert run(apart, compiled=True)[1], "without the mark torch compiles that function by itself"


OF_A_CLASS = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3, 3)
        torch.nn.init.eye_(self.net.weight)

    def pick(self, scores, seen):
        for n in set(seen.tolist()):
            if scores[n] > 0:
                return scores * 2
        return self.halved(scores)

    def halved(self, scores):
        return scores / 2

    def head(self, x):
        return self.net(x)

    def forward(self, x, weights):
        return self.pick(self.net(x * sum(weights))[:2], torch.arange(2))


step = Model()
"""


def test_a_method_that_stays_python_is_called_by_the_end() -> None:
    text, last = HEAD + OF_A_CLASS.lstrip(), "return self.pick(self.net(x * sum(weights))[:2], torch.arange(2))"
    head = "def pick(self, scores, seen):"
    mark = Lines("ends.py", 10, (head,), ("@torch.compiler.disable", head))
    new = edited(EndApart("ends.py", "Model.forward", last, mark), {"ends.py": text}, "ends.py")
    assert new is not None
    assert "        scores = self.forward_computed(x, weights)\n        return self.pick(scores, " in new["ends.py"]
    found = ending(text, "Model.forward", last)
    assert found is not None
    assert (found.calls("Model.pick"), found.calls("pick")) == (True, False)
    assert ending(text.replace(last, "return self.head(x.sin())"), "Model.forward", "return self.head(x.sin())") is None
    torch.manual_seed(0)
    wanted, _ = run(text, compiled=False)
    for compiled in (False, True):
        torch.manual_seed(0)
        result, breaks = run(new["ends.py"], compiled=compiled)
        torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)
        assert not breaks


QUEUED = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3, 3)
        self.register_buffer("queue", torch.zeros(6, 3))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def enqueue(self, keys):
        at = int(self.place)
        self.queue[at : at + len(keys)] = keys
        self.place[0] = (at + len(keys)) % 6

    def forward(self, x, weights):
        if x.dim() == 1:
            rows = x[None, :3]
        else:
            rows = x
        with torch.no_grad():
            keys = rows * sum(weights)
        loss = (self.net(rows) @ self.queue.clone().t()).logsumexp(1).sum()
        self.enqueue(keys)
        return loss, dict(zip(["first", "last"], keys.unbind()))


step = Model()
"""


def test_names_are_there_that_a_block_without_gradients_or_both_branches_give() -> None:
    text, head = HEAD + QUEUED.lstrip(), ("@torch.no_grad()", "def enqueue(self, keys):")
    mark = Lines("ends.py", 11, head, (head[0], "@torch.compiler.disable", head[1]))
    new = edited(EndApart("ends.py", "Model.forward", "self.enqueue(keys)", mark), {"ends.py": text}, "ends.py")
    assert new is not None
    assert "        keys, loss = self.forward_computed(x, weights)\n        self.enqueue(keys)\n" in new["ends.py"]
    torch.manual_seed(0)
    wanted, broken = run(text, compiled=True)
    assert broken
    for compiled in (False, True):
        torch.manual_seed(0)
        result, breaks = run(new["ends.py"], compiled=compiled)
        torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)
        assert not breaks
    suppressing = text.replace("with torch.no_grad():", "with contextlib.suppress(ValueError):")
    assert ending(suppressing, "Model.forward", "self.enqueue(keys)") is None


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("a, *b = c\nd += 1\ne: int = 2\nf: int", "abde"),
        ("if a:\n    b = c = 1\nelse:\n    b = d = 2", "b"),
        ("if a:\n    b = 1", ""),
        ("with torch.autocast('cpu'), torch.no_grad():\n    a = 1", "a"),
        ("with torch.no_grad(), suppress(ValueError):\n    a = 1", ""),
        ("for a in b:\n    c = 1", ""),
    ],
)
def test_names_that_surely_are_there_after_some_statements(text: str, stored: str) -> None:
    assert surely_stored(ast.parse(text).body) == set(stored)


@pytest.mark.parametrize(
    "line",
    [
        "return pick(x, net(x))",  # it is no first argument
        "return pick(*net(x))",
        "return pick(x, net(x)).sum() + 1",
        "return other(net(x), x)",  # nobody knows what that is
        "x.y = pick(net(x), x)",  # what is written to is asked for first, or not: no name
        "return pick(net(x), net)(x)",
    ],
)
def test_an_argument_stays_where_it_is_not_the_first_thing_that_is_computed(line: str) -> None:
    text = f"{HEAD}{PICKED.lstrip().partition('def step')[0]}def step(x, other):\n    {line}\n"
    assert ending(text, "step", line) is None
    there = text.replace(f"    {line}", "    return pick(net(x), x)")
    found = ending(there, "step", "return pick(net(x), x)")
    assert found is not None
    assert (found.lines.start, found.calls("pick"), found.calls("net")) == (len(there.split("\n")) - 1, True, False)


@pytest.mark.long
def test_fix_keeps_sampling_after_a_network_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    call = "compiled = torch.compile(step)\nfor n in range(1, 4):\n    compiled(torch.ones(4, requires_grad=True) / n, [1.0, 2.0])\n"
    Path("generate.py").write_text(f"{HEAD}{PICKED.lstrip()}\n\n{call}")
    assert main(["fix", "--json", "--own-inputs", "generate.py"]) == 0
    found = json.loads(capsys.readouterr().out)["best"]
    assert found["results"] == "equal"
    assert (found["after"]["graph_breaks"], found["after"]["eager_functions"]) == (0, 0)
    assert "+@torch.compiler.disable(" in found["patch"]
    assert "+def step_computed(x, weights):" in found["patch"]


SEVERAL = HEAD + dedent("""
    class Carts:
        def __init__(self, n):
            self.state, self.steps, self.over = torch.zeros(n, 2), torch.zeros(n), []

        @torch.compile(backend="eager")
        def step(self, force):
            self.state = self.state + 0.1 * force.sin().unsqueeze(1)
            self.steps += 1
            done = self.state.abs().sum(1) > 0.3
            if done.any():
                places = done.nonzero().squeeze(-1)
                for i in places:
                    self.over.append(self.steps[i].item())
                self.state[places] = torch.rand(len(places), 2) * 0.1
                self.steps[places] = 0
            return self.state, done


    @torch.compile(backend="eager")
    def loss(w, x):
        y = (x * w).sum(1)
        far = (y - 1).abs().mean().item()
        if far > 0.9:
            print("far", round(far, 3))
            y = y * 0.0
        return (y - 1).pow(2).mean() + 0.1 * (x - w).pow(2).mean()


    torch.manual_seed(0)
    carts, w = Carts(3), torch.ones(2, requires_grad=True)
    for n in range(12):
        state, _ = carts.step(torch.arange(3.0) + n)
        loss(w, state).backward()
    print(carts.over, w.grad)
""").lstrip("\n")


@pytest.mark.long
def test_fix_leaves_the_ends_of_several_functions_to_python_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """None of them ends half of what hurts in both; a message in one of them is said as it is."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(SEVERAL)
    assert main(["fix", "--json", "train.py"]) == 0
    told = json.loads(capsys.readouterr().out)
    found, prices = told["best"], " ".join(one["price"] for one in told["tried"])
    assert found["results"] == "equal"
    assert (found["after"]["graph_breaks"], found["after"]["eager_functions"]) == (0, 0)
    assert not found["sides"]  # no test is another
    assert "`loss` is Python from `far = (y - 1).abs().mean().item()` on" in prices
    assert "`loss_computed`, which is compiled, with what it computes of tensors in any case from there on" in prices
    assert "+    def step_computed(self, force):" in found["patch"]
    assert "+    kept_2 = 0.1 * (x - w).pow(2).mean()" in found["patch"]
    assert "is_compiling" not in found["patch"]


@pytest.mark.long
def test_fix_leaves_a_loop_over_layers_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    call = "random.seed(0)\nmodel = torch.compile(Model())\nfor n in range(4):\n    model(torch.ones(2, 4) * n)\n"
    Path("train.py").write_text(f"{LAYERS}\n\n{call}")
    assert main(["fix", "--json", "--own-inputs", "train.py"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["best"]["results"] == "equal"
    assert (told["best"]["after"]["graph_breaks"], told["best"]["after"]["eager_functions"]) == (0, 0)
    assert "+    def forward_computed(self, x):" in told["best"]["patch"]
    assert any(
        "modules that it calls from there on are compiled each by itself" in one["price"] for one in told["tried"]
    )
