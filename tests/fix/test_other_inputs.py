"""Calls with other inputs than the program's own: which are made, what is compared, and what of that is told."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from msgspec.structs import replace

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.facts.breaks import rewrites
from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.fix import Fix, Observed, Offer, Target, Trial
from compiler_lens.facts.measured.other_inputs import (
    CountedCall,
    Gave,
    Inputs,
    OtherCall,
    OtherInputs,
    Sides,
    Taken,
    Untried,
    Way,
    compared,
    sides,
)
from compiler_lens.measure.fix.graphs import Graphs
from compiler_lens.measure.fix.inputs import made, not_made, ways
from compiler_lens.measure.fix.other_inputs import CountedLines, OtherCalls, impossible
from compiler_lens.measure.fix.plan import RESULTS, Outcome, Plan, Program
from compiler_lens.measure.fix.process import Limits, Processes
from compiler_lens.measure.sandbox import copies
from compiler_lens.recording.model import SourceLine
from compiler_lens.render.console import fix_report

BRANCH = """\
    import torch

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(4))
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            x = x * self.scale
            if x.sum() > 1:
                x = x + {add}
            else:
                x = x * 2
            return x

    model = Scaled()
    compiled = torch.compile(model)
    for n in range(2):
        compiled(torch.ones(4)).sum().backward()
    print("calls", model.calls)
    """


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    home = str(Path(compiler_lens.__file__).parent.parent)
    with Processes([sys.executable], home, {**os.environ, "PYTHONHASHSEED": "0"}, Limits(120)) as opened:
        yield opened


@pytest.fixture
def run(processes: Processes, tmp_path: Path) -> Callable[..., Outcome]:
    """Run a script with other inputs, too."""
    script = tmp_path / "train.py"

    def of(text: str, name: str, **how: Any) -> Outcome:
        script.write_text(dedent(text))
        plan = Plan(Program(str(script)), str(tmp_path / name), with_others=True, **how)
        ended = processes.run(plan)
        assert not ended.outcome.error, ended.printed
        assert "calls 2" in ended.printed or "calls" not in text
        return ended.outcome

    return of


@pytest.mark.skipif(torch.version.cuda is not None, reason="no backward after a fork, once that build made one")
def test_what_only_other_inputs_show_is_found(run: Callable[..., Outcome], tmp_path: Path) -> None:
    text = dedent(BRANCH)
    first = run(text.format(add=1), "first", is_eager=True, count_lines=frozenset({str(tmp_path / "train.py")}))
    reference = str(tmp_path / "first" / RESULTS)
    same = run(text.format(add=1), "same", reference=reference).others
    assert {(one.call, one.inputs, one.gave) for one in same.calls} == {
        (call, inputs, Gave.SAME) for call in range(2) for inputs in Inputs if inputs.has_other_tensors
    }
    # With the program's own inputs the test is always true, and this changes what it gives where it is false.
    wrong = run(text.format(add=1).replace("x * 2", "x * 3"), "wrong", reference=reference).others
    assert {one.inputs for one in wrong.differing} == {Inputs.NEGATED, Inputs.ZEROS, Inputs.NAN, Inputs.ONE_ROW} - {
        one.inputs for one in wrong.calls if one.gave is Gave.SAME
    }
    assert wrong.against(may_raise=True) == OtherCall(0, Inputs.NEGATED, Gave.OTHER, "result", 0, 1.0)
    lines = first.counted[str(tmp_path / "train.py")]
    place = SourceLine(str(tmp_path / "train.py"), 12, "forward", "if x.sum() > 1:")
    (taken,) = sides([place], {place.file: text}, {place.file: lines})
    assert (taken.true, taken.false) == (2, 0)
    assert (taken.other_true > 0, taken.other_false > 0) == (True, True)


@pytest.mark.parametrize(
    ("change", "gave", "kind"),
    [
        (("x * 2", "(x * 2).double()"), Gave.OTHER, "result"),
        (("x * 2", "x.detach() * 2"), Gave.OTHER, "gradient"),
        (("x * 2", "x * torch.ones(3)"), Gave.ERROR, ""),
        (("x = x * self.scale", "y = x.mul_(2) / 2; x = y * self.scale"), Gave.OTHER, "argument"),
    ],
)
def test_dtypes_gradients_errors_and_changed_arguments_are_compared(
    run: Callable[..., Outcome], tmp_path: Path, change: tuple[str, str], gave: Gave, kind: str
) -> None:
    text = dedent(BRANCH).format(add=1)
    run(text, "first", is_eager=True)
    found = run(text.replace(*change), "changed", reference=str(tmp_path / "first" / RESULTS)).others
    negated = next(one for one in found.calls if one.inputs is Inputs.NEGATED)
    assert (negated.gave, negated.kind) == (gave, kind)


class Given(NamedTuple):
    """An argument of a call with other inputs."""

    value: Any
    is_contiguous: bool
    requires_grad: bool


def inputs_of(*given: Any, gradients: bool = True) -> dict[Inputs, list[Given]]:
    """What a function is given in calls with other inputs, which are made in a copy of this process."""

    def told(*args: Any) -> list[Any]:
        flags = [(getattr(a, "requires_grad", False), a.is_contiguous() if torch.is_tensor(a) else True) for a in args]
        return [*(a.detach() if torch.is_tensor(a) else a for a in args), *(flag for pair in flags for flag in pair)]

    others = OtherCalls(CountedLines(frozenset()), Graphs())
    with torch.set_grad_enabled(gradients):
        others.before(told, 0, (given, {}), lambda _: [])
    assert not others.lost
    found: dict[Inputs, list[Any]] = {}
    for one in others.keeper.kept:
        found.setdefault(Inputs(one.inputs), []).append(one.value)
    count = len(given)
    return {
        inputs: [Given(values[n], values[count + 2 * n + 1], values[count + 2 * n]) for n in range(count)]
        for inputs, values in found.items()
    }


def test_inputs_are_made_of_the_programs_own() -> None:
    x, places, mask = torch.tensor([[1.0, -2.0], [3.0, 4.0]]), torch.tensor([0, 1]), torch.tensor([True, False])
    made = {inputs: [one.value for one in given] for inputs, given in inputs_of(x, places, mask, 3).items()}
    assert list(made) == [inputs for inputs in Inputs if inputs.has_other_tensors]
    negated, turned, inverted, number = made[Inputs.NEGATED]
    assert torch.equal(negated, -x)
    assert (turned.tolist(), inverted.tolist(), number) == ([1, 0], [False, True], 3)
    assert [one.tolist() for one in made[Inputs.ZEROS][:3]] == [[[0, 0], [0, 0]], [0, 0], [False, False]]
    assert torch.equal(made[Inputs.ONES][1], places)  # it may be an index
    assert made[Inputs.NAN][0].isnan().sum() == 1
    assert (made[Inputs.HALF][0].dtype, made[Inputs.DOUBLE][0].dtype) == (torch.float16, torch.float64)
    assert [len(one) for one in made[Inputs.ONE_ROW][:3]] == [1, 1, 1]
    assert torch.equal(made[Inputs.STRIDED][0], x)
    assert not inputs_of(x)[Inputs.STRIDED][0].is_contiguous
    assert inputs_of(x)[Inputs.GRADIENTS][0].requires_grad
    assert torch.equal(x, torch.tensor([[1.0, -2.0], [3.0, 4.0]]))


def test_what_is_the_same_or_cannot_be_made_is_left_out() -> None:
    assert set(inputs_of(torch.tensor([1, 2]))) == {Inputs.NEGATED, Inputs.ZEROS, Inputs.ONE_ROW, Inputs.STRIDED}
    assert Inputs.GRADIENTS not in inputs_of(torch.ones(2), gradients=False)
    assert Inputs.ONE_ROW not in inputs_of(torch.ones(2), torch.ones(3))
    assert set(inputs_of(torch.tensor(3))) == {Inputs.ZEROS}
    assert inputs_of(3) == inputs_of(torch.ones(2).to_sparse()) == {}


def test_one_tensor_that_is_given_twice_stays_one() -> None:
    x, others = torch.ones(2), OtherCalls(CountedLines(frozenset()), Graphs())
    others.before(lambda a, b: a is b, 0, ((x, x), {}), lambda _: [])
    assert {one.value for one in others.keeper.kept if one.kind == "result"} == {True}


# -- what such a call may not do


def tries(do: Callable[[], object]) -> OtherCalls:
    """Make one call with other inputs after another of a function that does something."""
    others = OtherCalls(CountedLines(frozenset()), Graphs())
    others.before(lambda x: (do(), x * 2)[1], 0, ((torch.ones(2),), {}), lambda _: [])
    return others


DOING: dict[str, Callable[[Path], object]] = {
    "write": lambda path: path.write_text("lost"),
    "torch.save": lambda path: torch.save({"loss": 0.0}, path),
    "torch.save to a name": lambda path: torch.save({"loss": 0.0}, str(path)),
    "remove": lambda path: path.unlink(),
    "rename": lambda path: path.rename(path.with_suffix(".old")),
    "another program": lambda path: subprocess.run(["rm", str(path)], check=True),
    "a shell": lambda path: 1 / (os.system(f"rm {path}") == 0),
    "the system, past Python": lambda path: 1 / (ctypes.CDLL(None).unlink(str(path).encode()) == 0),
}


@pytest.mark.parametrize("name", DOING)
def test_a_call_with_other_inputs_changes_no_file(name: str, tmp_path: Path) -> None:
    if "past Python" in name and not copies.landlock_version():
        pytest.skip("the kernel has no Landlock")
    kept = tmp_path / "best.pt"
    kept.write_text("mine")
    found = tries(lambda: DOING[name](kept))
    assert {one.kind for one in found.keeper.kept} == {"error"}
    assert (list(tmp_path.iterdir()), kept.read_text()) == ([kept], "mine")


def test_what_is_open_is_neither_written_nor_read_on(tmp_path: Path) -> None:
    log, data = tmp_path / "log.txt", tmp_path / "data.txt"
    data.write_text("one\ntwo\n")
    with log.open("w") as written, data.open("rb", buffering=0) as read:

        def do() -> None:
            print("other", file=written, flush=True)
            read.readline()

        tries(do)
        written.write("own\n")
        assert read.readline() == b"one\n"
    assert log.read_text() == "own\n"


def _mapped(path: Path) -> torch.Tensor:
    return torch.from_numpy(np.memmap(path, dtype="float32", mode="r+", shape=(2000,)))


def _of_torch(path: Path) -> torch.Tensor:
    return torch.from_file(str(path), shared=True, size=2000)


def _without_a_name(path: Path) -> torch.Tensor:
    mapped = _mapped(path)
    path.unlink()
    return mapped


SHARED: dict[str, Callable[[Path], torch.Tensor]] = {
    "np.memmap": _mapped,
    "torch.from_file": _of_torch,
    "a file that was removed": _without_a_name,
    "share_memory_": lambda _: torch.zeros(2000).share_memory_(),
    "an anonymous map": lambda _: torch.frombuffer(mmap.mmap(-1, 8000), dtype=torch.float32),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_call_with_other_inputs_writes_to_no_memory_that_others_see(name: str, tmp_path: Path) -> None:
    path = tmp_path / "replay.mm"
    path.write_bytes(bytes(8000))
    kept = SHARED[name](path)
    kept[3] = 5.0
    found = OtherCalls(CountedLines(frozenset()), Graphs())
    found.before(lambda x: kept.sub_(1).sum() + 0 * x.sum().nan_to_num(), 0, ((torch.ones(2),), {}), lambda _: [])
    results = [one.value for one in found.keeper.kept if one.kind == "result"]
    assert results, found.lost
    assert float(results[0]) == 5.0 - 2000  # what stood there is seen in the copy, and its own change
    assert kept.tolist() == [0.0, 0.0, 0.0, 5.0, *[0.0] * 1996]
    if path.exists():
        assert not any(path.read_bytes()[16:])


def test_a_map_that_is_longer_than_its_file_costs_no_call(tmp_path: Path) -> None:
    path = tmp_path / "cut.mm"
    path.write_bytes(bytes(3 * mmap.PAGESIZE))
    kept = np.memmap(path, dtype="uint8", mode="r+")
    os.truncate(path, mmap.PAGESIZE)
    path.unlink()
    found = OtherCalls(CountedLines(frozenset()), Graphs())
    found.before(lambda x: x + int(kept[0]), 0, ((torch.ones(2),), {}), lambda _: [])
    assert not found.lost
    assert found.keeper.kept


def test_where_shared_memory_cannot_be_found_no_calls_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert impossible() is (Untried.ACCELERATOR if torch.accelerator.is_available() else None)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(copies, "_MAPS", Path("/proc/self/none"))
    assert impossible() is Untried.MEMORY


def test_a_call_that_ends_the_process_or_never_ends_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler_lens.measure.fix.other_inputs._SILENCE", 3.0)
    others = OtherCalls(CountedLines(frozenset()), Graphs())

    def do(x: torch.Tensor) -> torch.Tensor:
        if x.isnan().any():
            os._exit(3)
        while x.max() > 100:
            time.sleep(0.1)
        return x

    others.before(do, 4, ((torch.ones(2),), {}), lambda _: [])
    assert others.lost == [(4, Way(Inputs.LARGE)), (4, Way(Inputs.NAN))]
    assert {one.inputs for one in others.keeper.kept} == {one.value for one in Inputs if one.has_other_tensors} - {
        Inputs.LARGE.value, Inputs.NAN.value,
    }  # fmt: skip


def test_what_speaks_against_a_change_is_what_the_program_may_get() -> None:
    def found(inputs: Inputs, gave: Gave) -> OtherInputs:
        return OtherInputs((OtherCall(0, Inputs.ZEROS, Gave.SAME), OtherCall(1, inputs, gave)))

    assert found(Inputs.NEGATED, Gave.OTHER).against(may_raise=True)
    assert found(Inputs.NEGATED, Gave.NO_ERROR).against(may_raise=True)
    assert found(Inputs.NEGATED, Gave.ERROR).against(may_raise=False)
    assert not found(Inputs.NEGATED, Gave.ERROR).against(may_raise=True)
    assert not found(Inputs.NEGATED, Gave.NO_ERROR).against(may_raise=False, raises_less=True)
    assert found(Inputs.NEGATED, Gave.ERROR).against(may_raise=False, raises_less=True)
    assert not found(Inputs.HALF, Gave.OTHER).against(may_raise=False)
    in_both = found(Inputs.NEGATED, Gave.ERROR_IN_BOTH)
    assert (in_both.differing, in_both.same, in_both.raising) == ((), 1, 1)
    assert found(Inputs.FLAG, Gave.OTHER).against(may_raise=False)
    assert found(Inputs.NUMBER, Gave.OTHER).against(may_raise=False)
    known, further = (OtherCall(1, Inputs.NEGATED, Gave.OTHER, kind) for kind in ("result", "generator"))
    assert not found(Inputs.NEGATED, Gave.OTHER).but([OtherCall(1, Inputs.NEGATED, Gave.ERROR)]).differing
    assert OtherInputs((known,)).but([further]).differing == (known,)
    assert not OtherInputs((further,)).but([known]).calls
    (one, other) = (OtherCall(1, Inputs.FLAG, Gave.OTHER, argument=name) for name in ("a=True", "b=True"))
    assert OtherInputs((one, other)).but([one]).calls == (other,)


@pytest.mark.parametrize(
    ("largest", "kind", "inputs", "is_left_out"),
    [
        (500.0, "result", Inputs.LARGE, True),
        (5_000.0, "result", Inputs.LARGE, False),
        (500.0, "argument", Inputs.LARGE, False),
        (500.0, "result", Inputs.NEGATED, False),
        (None, "result", Inputs.LARGE, False),  # another shape
    ],
)
def test_what_rounding_moves_as_far_says_nothing(
    largest: float | None, kind: str, inputs: Inputs, is_left_out: bool
) -> None:
    moved = OtherCall(1, Inputs.LARGE, Gave.OTHER, "result", 0, 100.0)
    found = OtherInputs((OtherCall(1, inputs, Gave.OTHER, kind, 0, largest),)).but_rounded([moved])
    assert found.calls == () if is_left_out else found.against(may_raise=False)


# -- bools and numbers


class Flags(torch.nn.Module):
    def forward(self, x: Any, scale: Any, parts: Any = None, *rest: Any, update: bool = False, quiet: Any = 3) -> Any:
        return x * scale, parts, rest, update, quiet


GIVEN = ((torch.ones(2), 0.5, {"a": True, "b": [0.0, 2, float("inf")]}, True), {"quiet": False})


@pytest.mark.parametrize("of", [lambda one: one, lambda one: one.forward, lambda one: one.__call__])
def test_each_bool_and_number_is_another_by_itself(of: Callable[[Flags], Any]) -> None:
    flags = Flags()
    every = [way for way in ways(of(flags), GIVEN) if not way.inputs.has_other_tensors]
    assert {way: flags(*new[0], **new[1])[1:] for way in every if (new := made(way, of(flags), GIVEN))} == {
        Way(Inputs.FLAG, "parts['a']=False"): ({**GIVEN[0][2], "a": False}, (True,), False, False),
        Way(Inputs.FLAG, "argument 4=False"): (GIVEN[0][2], (False,), False, False),
        Way(Inputs.FLAG, "quiet=True"): (GIVEN[0][2], (True,), False, True),
        Way(Inputs.FLAG, "update=True"): (GIVEN[0][2], (True,), True, False),
        Way(Inputs.NUMBER, "scale=0.25"): (GIVEN[0][2], (True,), False, False),
        Way(Inputs.NUMBER, "parts['b'][0]=0.5"): ({"a": True, "b": [0.5, 2, float("inf")]}, (True,), False, False),
    }
    assert [Way.of(way.text) for way in every] == every
    assert made(Way(Inputs.NUMBER, "scale=0.25"), of(flags), GIVEN)[0][1] == 0.25


def test_bools_and_numbers_are_turned_a_few_alone() -> None:
    given = ([True] * 40 + [1.0] * 40,), {}
    found = [way.inputs for way in ways(print, given)]
    assert (found.count(Inputs.FLAG), found.count(Inputs.NUMBER), len(found)) == (6, 3, 9)


def test_what_no_other_tensors_are_made_of_is_named() -> None:
    class Batch:
        pass

    assert not_made(((3, None), {"name": "x"})) == ""
    assert not_made(((Batch(), 3), {})) == "Batch"
    sparse = torch.eye(2).to_sparse()
    assert not_made(((Batch(), torch.ones(2), sparse), {})) == "Tensor (torch.float32, torch.sparse_coo)"
    assert not_made(((torch.ones(2, dtype=torch.complex64),), {})) == "Tensor (torch.complex64)"
    assert not_made(((torch.ones(0),), {})) == "Tensor (torch.float32, empty)"


FLAG = """\
    import torch

    @torch.compile
    def scaled(x, double=False, *, factor=1.0):
        if x.sum() > 1:
            x = x + 1
        else:
            x = x * 2
        if factor == 0.5 and x.isnan().any():
            raise ValueError
        return x

    for n in range(2):
        scaled(torch.ones(4){given})
    """


# -- what fix says


def fixed(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main(["fix", *args, "train.py"]) == 0
    return json.loads(capsys.readouterr().out) if "--json" in args else capsys.readouterr().out


def test_a_change_that_is_wrong_for_other_inputs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(BRANCH).format(add=1))

    def wrong(*args: Any) -> Rewrite | None:
        right = real(*args)
        return right and replace(right, after=tuple(one.replace("x * 2", "x * 3") for one in right.after))

    real = rewrites.rewrite
    monkeypatch.setattr(rewrites, "rewrite", wrong)
    found = fixed(capsys, "--json")
    tried = next(one for one in found["tried"] if "where" in one["offer"])
    assert tried["results"] == "differ"
    assert tried["difference"] == "with other inputs (negated) result 1 of call 1 differs by 1"
    assert "x * 3" not in str(found["best"])


@pytest.mark.parametrize(
    "case",
    [
        ("", "x + (2 if double else 1)", "with other inputs (double=True) result 1 of call 1 differs by 1"),
        pytest.param(
            (", False", "x + (2 if double else 1)", "with other inputs (double=True) result 1 of call 1 differs by 1"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            (", factor=4.0", "x + factor / 4", "with other inputs (factor=2.0) result 1 of call 1 differs by 0.5"),
            marks=pytest.mark.long,
        ),
    ],
    ids=["a default", "given", "a number"],
)
def test_a_change_that_is_right_for_one_value_of_a_bool_or_a_number_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: tuple[str, str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given, wrong, said = case
    Path("train.py").write_text(dedent(FLAG).format(given=given))

    def changed(*args: Any) -> Rewrite | None:
        right = real(*args)
        return right and replace(right, after=tuple(one.replace("x + 1", wrong) for one in right.after))

    real = rewrites.rewrite
    monkeypatch.setattr(rewrites, "rewrite", changed)
    found = fixed(capsys, "--json")
    tried = next(one for one in found["tried"] if "where" in one["offer"])
    assert (tried["results"], tried["difference"]) == ("differ", said)
    assert wrong not in str(found["best"])


UNMADE = """\
    import torch

    class Batch:
        def __init__(self, x):
            self.x = x

    @torch.compile
    def doubled(batch, limit):
        if not limit:
            raise ValueError
        print("doubled")
        return batch.x * 2

    for n in range(2):
        doubled(Batch(torch.ones(4)), True)
    """


def test_other_inputs_that_cannot_be_made_are_said_and_an_error_in_both_is_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(UNMADE))
    found = fixed(capsys, "--json")
    best = next(one["other_inputs"] for one in found["tried"] if one["other_inputs"]["calls"])
    assert best["unmade"] == [{"call": 0, "given": "Batch"}, {"call": 1, "given": "Batch"}]
    assert {(one["argument"], one["gave"]) for one in best["calls"]} == {("limit=False", "error_in_both")}
    shown = " ".join(fixed(capsys, "--width", "200").split())
    assert "Calls 1, 2 were not tried with other tensors: of Batch none can be made." in shown
    assert (
        "2 calls with other inputs (limit=False) raise in the program as it is, too, and say nothing of the change."
        in shown
    )
    assert "with the same results." in shown


@pytest.mark.long
def test_how_often_each_side_was_taken_is_said_and_what_the_program_did_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(BRANCH).format(add=1))
    found = fixed(capsys, "--json")
    (one,) = found["best"]["sides"]
    assert (one["at"]["line"], one["true"], one["false"]) == (12, 2, 0)
    assert one["other_true"] > 0 < one["other_false"]
    best = " + ".join(found["best"]["offers"])
    (calls,) = (trial["other_inputs"]["calls"] for trial in found["tried"] if trial["offer"] == best)
    assert all(call["gave"] == "same" for call in calls)
    shown = " ".join(fixed(capsys, "--width", "200").split())
    assert "train.py:12 if x.sum() > 1: true 2, false 0; with other inputs true" in shown
    assert f"with the same results, also in {len(calls)} calls with" in shown


def test_a_side_that_was_never_taken_is_said() -> None:
    at = SourceLine("train.py", 14, "forward", "if x.sum() > 1:")
    gave = OtherCall(0, Inputs.HALF, Gave.ERROR, error="TypeError: no")
    seen = Observed(None, None, others=OtherInputs((gave,), lost=2, untried=Untried.ENDED))
    offer = Offer(Target(at, "Data-dependent branching"), Lines("train.py", 14, ("a",), ("b",)))
    best = Trial((offer,), {}, None, seen, helps=True)
    text = fix_report(Fix(seen, (best,), best, sides=Taken((Sides(at, 2, 0, 7, 0),), 1)), width=100)
    assert "It was never false: what the change gives then is not known." in text
    assert "- float16: call 1 raises TypeError: no" in text
    assert "2 calls with other inputs took too long or ended the process" in text
    assert "With other inputs it was not tried: the run" in text


EARLY = """\
    import torch

    @torch.compile
    def f(x):
        keep = x > 0
        if keep.sum() == 0:
            return x[:0]
        return x[keep] * 2

    for _ in range(3):
        f(torch.tensor([1.0, -2.0, 3.0]))
    """


@pytest.mark.parametrize(
    ("inputs", "gave", "times"),
    [
        (Inputs.ZEROS, Gave.SAME, (2, 1)),
        (Inputs.ZEROS, Gave.ERROR_IN_BOTH, (2, 0)),
        (Inputs.ONE_ROW, Gave.OTHER, (2, 0)),
        (Inputs.NAN, Gave.SAME, (2, 0)),  # both sides give a nan
    ],
)
def test_only_lines_of_calls_that_gave_the_same_speak_for_a_change(
    inputs: Inputs, gave: Gave, times: tuple[int, int]
) -> None:
    counted = {"train.py": {6: (2, 5)}}
    ran = [CountedCall(call, Way(inputs), {"train.py": {6: 1, 7: 3}}) for call in (0, 1)]
    found = compared(counted, ran, OtherInputs((OtherCall(1, inputs, gave),)))
    assert found["train.py"][6] == times
    assert found["train.py"].get(7, (0, 0)) == (0, 3 * times[1])


ONE_WAY = "its test went one way only in what was compiled and compared: what it gives the other way is not known"


@pytest.mark.parametrize(
    "case",
    [
        ("", "", ""),
        ("x > 0", "x > 1e9", ""),
        ("return x[:0]", "return x[:1]", "with other inputs (zeros) result 1 of call 1 differs"),
        pytest.param(
            (
                "keep = x > 0\n    if keep.sum() == 0:\n        return x[:0]",
                "keep = torch.arange(len(x)) > 0\n    if keep.sum() == 0:\n        return x[:1]",
                ONE_WAY,
            ),
            marks=pytest.mark.long,
        ),
        pytest.param(
            (
                "x > 0",
                "~x.isnan()",
                ONE_WAY,
            ),
            marks=pytest.mark.long,
        ),
    ],
    ids=[
        "the same for no rows",
        "it always returns early, and what follows is the program's own",
        "something else",
        "something else for sizes that the program may not have",
        "not known",
    ],
)
def test_an_early_return_is_left_to_eager_only_where_it_was_seen_to_be_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], case: tuple[str, str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    old, new, said = case
    Path("train.py").write_text(dedent(EARLY).replace(old, new) if old else dedent(EARLY))
    found = fixed(capsys, "--json")
    left = [one for one in found["tried"] if "keep.sum() == 0)" in one["offer"]]
    assert left
    if said:
        assert {one["difference"] for one in left if one["results"] == "differ"} == {said}
        assert "is_compiling" not in str(found["best"])
    else:
        assert (found["best"]["after"]["graph_breaks"], found["best"]["results"]) == (0, "equal")
        assert "if not torch.compiler.is_compiling() and (keep.sum() == 0):" in found["best"]["patch"]


def test_what_stands_behind_a_branch_that_always_left_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mask that is nowhere true shows nothing of a rewrite of what it chooses."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(BEHIND))
    found = fixed(capsys, "--json")
    assert "if not torch.compiler.is_compiling() and (not dead.any()):" in found["best"]["patch"]
    assert "torch.where(" not in found["best"]["patch"]
    tried = [one for one in found["tried"] if "torch.where(" in one["offer"] and one["results"] == "differ"]
    assert ONE_WAY in {one["difference"] for one in tried}


BEHIND = """
    import torch

    table, sizes = torch.ones(4), torch.ones(4)

    def step(x):
        dead = sizes < x.abs().mean() * 0 - 1e9
        if not dead.any():
            return x * 2
        table[dead] = table[dead] * 0.5
        sizes[dead] = 1.0
        return x * 2

    compiled = torch.compile(step)
    for _ in range(3):
        compiled(torch.randn(3))
"""


@dataclasses.dataclass(frozen=True)
class Inner:
    mask: torch.Tensor


@dataclasses.dataclass
class Molecules:
    x: torch.Tensor
    inner: Inner
    rows: list[torch.Tensor]
    name: str = "batch"


def test_of_a_batch_that_is_a_dataclass_another_one_is_made() -> None:
    x = torch.tensor([1.0, 2.0])
    given = Molecules(x, Inner(torch.tensor([True, False])), [x, torch.tensor([3, 4])])
    assert Way(Inputs.NEGATED) in ways(print, ((given,), {}))
    ((new,), _) = made(Way(Inputs.NEGATED), print, ((given,), {}))
    assert (new.x.tolist(), new.inner.mask.tolist(), new.name) == ([-1, -2], [False, True], "batch")
    assert new.rows[0] is new.x
    assert new.rows[1].tolist() == [4, 3]
    assert (given.x.tolist(), given.inner.mask.tolist(), given.rows[1].tolist()) == ([1, 2], [True, False], [3, 4])
    assert not_made(((given,), {})) == "Tensor (torch.float32)"


def test_what_holds_itself_is_looked_into_so_far_only() -> None:
    given = SimpleNamespace(x=torch.ones(2))
    given.itself = given
    ((new,), _) = made(Way(Inputs.ZEROS), print, ((given,), {}))
    assert new.x.tolist() == new.itself.x.tolist() == [0, 0]
