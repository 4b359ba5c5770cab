"""What cannot be compiled at all is kept out as the very last of all changes, and what stands around it is compiled."""

from __future__ import annotations

import json
import linecache
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens
from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import EndApart, Lines
from compiler_lens.facts.measured.enough import only_says_so
from compiler_lens.facts.measured.fix import Observed, Offer, StillEager, Target
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.measured.what_if import Counts
from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.measure.fix.choices import keeps_enough
from compiler_lens.recording.model import Figures, SourceLine

PROGRAM = """
    import numpy as np
    import torch
    from torch import nn


    def padded(kept, size):
        return kept + [np.zeros(8, dtype=np.float32)] * (size - len(kept))


    class Frontend:
        def __init__(self, limit):
            self.limit = limit

        def __call__(self, sound):
            frames = (sound * 2).numpy().reshape(-1, 8)
            frames = frames - frames.mean()
            kept = []
            for frame in frames:
                if (frame * frame).mean() > self.limit:
                    kept.append(frame)
            for frame in list(kept):
                if frame.min() > 0:
                    kept.remove(frame)
            return torch.from_numpy(np.stack(padded(kept[:4], 4)))


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.frontend = Frontend(0.5)
            self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, sound):
            sound = sound + 1
            features = self.frontend(sound)
            hidden = self.first(features).relu()
            return self.second(hidden).mean(0)


    torch.manual_seed(0)
    net = torch.compile(Net(), backend="eager")
    for step in range(3):
        net(torch.randn(64)).square().sum().backward()
"""
MARK = '@torch.compiler.disable(reason="'


def fixed(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> Any:
    (folder / "train.py").write_text(dedent(text).lstrip())
    assert main(["fix", "--own-inputs", "--json", "--apply", "train.py"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.long
def test_a_front_end_in_numpy_is_kept_out_and_the_network_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    best = fixed(tmp_path, capsys, PROGRAM)["best"]
    assert best["results"] == "equal"
    assert best["after"] == {"graph_breaks": 1, "recompiles": 0, "eager_functions": 0}
    assert best["before"]["graph_breaks"] > 1
    assert f"    {MARK}" in (tmp_path / "train.py").read_text()


@pytest.mark.long
def test_what_asks_for_layers_of_its_own_is_not_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.replace("self.limit = limit", "self.limit = limit; self.layer = nn.Linear(64, 64)")
    text = text.replace("(sound * 2)", "self.layer(sound).detach()")
    assert MARK not in str(fixed(tmp_path, capsys, text)["tried"])


TEXT = """\
import torch
from msgspec.structs import replace
from torch import nn

LAYER = nn.Linear(3, 3)

def broken(x):
    torch._dynamo.graph_break()
    torch._dynamo.graph_break()
    return helped(x) * shared(x)

def helped(x):
    torch._dynamo.graph_break()
    return x.sin()

def shared(x):
    return x.cos()

def network(x):
    x = LAYER(x)
    torch._dynamo.graph_break()
    return x

@torch.no_grad()
def decorated(x):
    torch._dynamo.graph_break()
    return x

@str
def replaced(x):
    return x

def given(x):
    return broken(x + 1) + shared(x)

def given_network(x):
    return network(x + 1)

def given_twice(x):
    for _ in range(2):
        x = helped(x)
    return x

def given_listed(x):
    return [helped(x) for _ in range(2)][0]

def given_decorated(x):
    return decorated(x + 1)

def given_itself(x):
    torch._dynamo.graph_break()
    return x * 2
"""
FILE = "/home/user/app/disabled_model.py"


def offered(monkeypatch: pytest.MonkeyPatch, name: str, file: str = FILE) -> dict[str, Offer]:
    """Return the marks on functions, by what is marked, that are offered where one of them is compiled."""
    monkeypatch.setitem(linecache.cache, file, (len(TEXT), None, TEXT.splitlines(keepends=True), file))
    module = ModuleType("disabled_model")
    exec(compile(TEXT, file, "exec"), module.__dict__)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(getattr(module, name), backend="eager")(torch.ones(3))
    offers = observed(lens.recording, Ownership((str(Path(file).parent),))).offers
    return {one.edit.before[-1]: one for one in offers if one.is_final and isinstance(one.edit, Lines)}


def test_the_innermost_is_offered_first_and_what_only_it_calls_may_be_in_no_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = offered(monkeypatch, "given")
    assert set(found) == {"def broken(x):", "def helped(x):"}
    assert found["def helped(x):"].may_lose == {(FILE, "return x.sin()")}
    assert found["def helped(x):"].price.startswith("`helped` runs as Python then, by your own mark, with all that it")
    within = {text for _, text in found["def broken(x):"].may_lose}
    assert "return x.cos()" not in within
    assert "return helped(x) * shared(x)" in within


@pytest.mark.parametrize("name", ["given_network", "given_twice", "given_listed", "given_itself"])
def test_a_network_a_loops_function_and_what_was_given_are_not_marked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered(monkeypatch, name) == {}


def test_the_mark_stands_below_those_that_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(offered(monkeypatch, "given_decorated")) == {"def decorated(x):"}


def test_nothing_of_a_package_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered(monkeypatch, "given", "/usr/lib/python3/site-packages/some/disabled_model.py") == {}


def seen(eager: int, breaks: int, recompiles: int, *computed: str) -> Observed:
    counts = Counts(1, breaks, eager, 1, recompiles, 0.0)
    lines = frozenset(("a.py", line) for line in computed)
    return Observed(Figures(breaks, recompiles, eager), counts, computed=lines)


@pytest.mark.parametrize(
    ("now", "is_enough"),
    [
        (seen(0, 1, 0, "a"), True),
        (seen(1, 1, 1, "a", "b"), True),
        (seen(1, 0, 2, "a"), True),
        (seen(1, 1, 2, "a", "b"), False),  # more than half is left
        (seen(0, 3, 2, "a"), False),  # nothing but less that is looked at
        (seen(0, 1, 3, "a"), False),
        (seen(0, 4, 0, "a"), False),
        (seen(2, 1, 0, "a"), False),
        (seen(0, 1, 0, "b"), False),  # what else was in a graph
    ],
)
def test_there_are_to_be_fewer_breaks_or_recompiles_and_no_more_of_anything(now: Observed, is_enough: bool) -> None:
    line = SourceLine("a.py", 1, "f", "b")
    mark = Offer(
        Target(line, "break"), Lines("a.py", 1, ("b",), ("c",)), is_last_resort=True, is_final=True,
        keeps_computed=True, may_lose=frozenset({("a.py", "b")}),
    )  # fmt: skip
    assert keeps_enough([mark], now, seen(1, 3, 2, "a", "b")) is is_enough


@pytest.mark.parametrize(
    ("frames", "eager", "is_enough"),
    [
        (["other", "another"], [], True),
        (["other", "step_computed"], [], False),
        (["other", "step"], [], False),
        (["other"], ["Model.step_computed"], False),
    ],
)
def test_an_end_in_python_is_worth_it_where_nothing_is_left_in_its_function(
    frames: list[str], eager: list[str], is_enough: bool
) -> None:
    """However much is left in others."""
    line = SourceLine("a.py", 1, "f", "b")
    targets = tuple(Target(line, "break", frame) for frame in frames)
    before, end = seen(1, 9, 2, "a", "b"), EndApart("a.py", "Model.step", "b")
    left = tuple(StillEager(FunctionName(name), "") for name in eager)
    before = replace(before, operators=20)
    now = replace(seen(1, 8, 2, "a", "b"), targets=targets, eager=left, operators=20)
    offer = Offer(targets[0], end, is_last_resort=True, is_final=True, keeps_computed=True)
    assert keeps_enough([offer], now, before) is is_enough
    assert not keeps_enough([replace(offer, edit=Lines("a.py", 1, ("b",), ("c",)))], now, before)
    if is_enough:
        for operators in (18, 0):  # what leaves functions to Python, and runs less in graphs, is no gain
            assert not keeps_enough([offer], replace(now, operators=operators), before)
        assert not keeps_enough([offer], replace(now, operators=0), replace(before, operators=0))


def test_a_function_that_ran_eagerly_is_no_better_for_a_mark_that_has_it_so() -> None:
    line = SourceLine("a.py", 1, "f", "b")
    mark = Offer(Target(line, "break"), EndApart("a.py", "step", "b"), is_last_resort=True, keeps_computed=True)
    before, now = (replace(seen(eager, 1, 2, "a"), operators=20) for eager in (1, 0))
    assert only_says_so([mark], now, before)
    assert not only_says_so([mark], replace(now, operators=21), before)
    assert not only_says_so([replace(mark, edit=Lines("a.py", 1, ("b",), ("c",)))], now, before)
    assert not only_says_so([mark], before, before)
