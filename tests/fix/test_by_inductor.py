"""What Inductor makes of the best is compared with what it makes of the program as it is, and roughly: it rounds."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.facts.measured.fix import Difference
from compiler_lens.measure.fix.plan import ALL
from compiler_lens.measure.fix.results import Keeper, Kept, roughly_compared
from compiler_lens.measure.fix.running import _USED, _caches
from compiler_lens.recording.model import Results

# Inductor 2.13 makes `addmm` without `alpha` of these two, on a CPU.
PROGRAM = """\
    import torch

    class Covariance(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(8, 8)
            self.register_buffer("cov", torch.eye(8))

        def forward(self, x):
            y = self.lin(x)
            {first}
            print("step", len(x))
            self.cov = (self.cov * 0.9).add({outer}, alpha=0.1)
            return y @ self.cov

    torch.manual_seed(0)
    model = torch.compile(Covariance())
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(16, 8))
    """
LOSES_ALPHA = pytest.mark.skipif(torch.__version__ < "2.13", reason="this torch computes it as it is written")


def _fixed(first: str, outer: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    Path("train.py").write_text(dedent(PROGRAM).format(first=first, outer=outer))
    assert main(["fix", "--own-inputs", *options, "train.py"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.long
@LOSES_ALPHA
def test_a_change_with_which_inductor_computes_something_else_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = json.loads(_fixed("outer = x.t() @ y", "outer", capsys, "--json"))
    whole = [one for one in found["tried"] if one["after"]["graph_breaks"] == 0 and "in parts" not in one["offer"]]
    assert len(whole) > 1
    assert {one["results"] for one in whole} == {"differ"}
    assert {one["difference"] for one in whole} == {"with Inductor result 1 of call 1 differs by 26.6"}
    assert (found["best"]["results"], found["best"]["after"]["graph_breaks"]) == ("equal", 0)
    assert any("in parts" in offer for offer in found["best"]["offers"])  # they are two graphs, as they were


@LOSES_ALPHA
def test_what_inductor_computes_otherwise_of_the_program_as_it_is_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = _fixed("pass", "x.t() @ y", capsys, "--width", "200")
    assert "Graph breaks 1 → 0, " in said
    assert (
        "With Inductor, the program as it is computes something else than without torch.compile: result 1 of call 1"
        " differs by 26.6. These changes do not mend that." in said
    )


def _compared(value: object, other: object, **of: Any) -> tuple[Results, Difference | None]:
    one, two = (Kept(of.get("kind", "result"), 0, 0, side, name=of.get("name", "")) for side in (value, other))
    return roughly_compared([one], [two], of.get("unsure", frozenset()))


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (torch.tensor([1.0, 1e-9]), torch.tensor([1.005, -1e-9])),  # rounding that has grown for some calls
        (torch.tensor(1e-7), torch.tensor(-1e-7)),
        (torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0])),
        (torch.arange(200), torch.arange(200).index_fill(0, torch.tensor([7]), 190)),  # an index of two that are alike
        (torch.tensor([True, False]), torch.tensor([True, True])),
        (torch.zeros(0), torch.zeros(0)),
        (31, 32),
        (0.5, torch.tensor(0.5)),
        ("a", "a"),
    ],
)
def test_what_rounding_may_make_of_a_result_is_the_same(value: object, other: object) -> None:
    assert _compared(value, other) == (Results.EQUAL, None)


@pytest.mark.parametrize(
    ("value", "other", "largest"),
    [
        (torch.tensor([1.0, 0.5]), torch.tensor([1.0, 0.6]), 0.1),
        (torch.tensor([0.0, float("nan")]), torch.tensor([0.5, 0.5]), None),
        (torch.tensor([1, 2, 3]), torch.tensor([1, 2, 9]), 6.0),
        (torch.zeros(2), torch.zeros(3), None),
        (torch.tensor(3j), torch.tensor(4j), None),
        (31, 96, 65.0),
        ("a", "b", None),
    ],
)
def test_what_no_rounding_makes_of_a_result_differs(value: object, other: object, largest: float | None) -> None:
    found, difference = _compared(value, other)
    assert found is Results.DIFFER
    assert difference is not None
    assert difference.kind == "result"
    assert largest is None or difference.largest == pytest.approx(largest)


def test_of_what_objects_hold_numbers_are_compared() -> None:
    assert _compared([32.0001], [96.0001], kind="object", name="model.count")[0] is Results.DIFFER
    assert _compared([32.0001], [32.01], kind="object", name="model.count")[0] is Results.EQUAL
    assert _compared(["a"], ["b"], kind="object", name="model.name")[0] is Results.EQUAL
    for unsure in ({"model.count"}, {ALL}):
        assert _compared([1.0], [9.0], kind="object", name="model.count", unsure=frozenset(unsure))[0] is Results.EQUAL


def test_a_call_that_is_not_made_differs_and_gradients_are_not_asked_for() -> None:
    one, two = Kept("result", 0, 0, 1.0), Kept("result", 1, 0, 1.0)
    assert roughly_compared([one], [one, two])[1] == Difference("call", 1, 0, numbers=(2, 1))
    gradients = [Kept("gradient", 1, 0, torch.tensor(value)) for value in (1.0, 9.0)]
    assert roughly_compared([one, gradients[0]], [one, gradients[1]]) == (Results.EQUAL, None)


def test_each_part_of_a_large_tensor_is_compared() -> None:
    parts = ["(9, 9)", torch.ones(3), torch.tensor(1.0)]
    kept, other = ([Kept("result", 0, 0, part) for part in side] for side in (parts, [*parts[:2], torch.tensor(3.0)]))
    assert roughly_compared(kept, kept) == (Results.EQUAL, None)
    assert roughly_compared(kept, other) == (Results.DIFFER, Difference("result", 0, 0, 2.0))


def test_a_run_has_caches_that_no_ended_run_wrote_to(tmp_path: Path) -> None:
    first, second = _caches(tmp_path), _caches(tmp_path)  # the first is still in use, or was ended
    assert first != second
    (second / _USED).rmdir()
    assert _caches(tmp_path) == second


def test_arrays_are_compared_by_their_elements() -> None:
    keeper = Keeper()
    keeper.keep("result", 0, [np.arange(3.0), np.array(0.5, dtype=np.float32), np.float64(0.5)])
    table, *numbers = (one.value for one in keeper.kept)
    assert torch.equal(table, torch.arange(3.0, dtype=torch.float64))
    assert numbers == [0.5, 0.5]
