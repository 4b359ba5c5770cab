"""What is compared beside the results of compiled calls: what is printed, what eager gives, what a backend takes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import cast

import pytest
from msgspec.structs import replace

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import Lines, Setting
from compiler_lens.facts.measured.fix import (
    Fix,
    NotCompiledBecause,
    Observed,
    Offer,
    OwnBackend,
    StillEager,
    Target,
    Trial,
)
from compiler_lens.facts.measured.other_inputs import Gave, Inputs, OtherCall, OtherInputs
from compiler_lens.facts.measured.printed import OtherWords, known
from compiler_lens.facts.overview.eager import EagerPart, Extent, Reason
from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.measure.fix import trials
from compiler_lens.measure.fix.plan import Program
from compiler_lens.measure.fix.process import Limits, OutOfTime, Processes
from compiler_lens.measure.fix.search import Search
from compiler_lens.recording.model import Figures, Results, SourceLine
from compiler_lens.render.console import fix_report


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("step 1 loss 0.1234\ndone", "step 1 loss 0.1235\ndone"),  # rounded
        ("tensor([ 0.1, -0.2])", "tensor([-0.0, -0.2])".replace("-0.0", " 0.1")),
        ("tensor([ 0.0000])", "tensor([-0.0000])"),
        ("loss nan", "loss nan"),
        ("at 0x7f00", "at 0x7fff"),
        ("a\n\nb", "a\nb\n"),
    ],
)
def test_the_same_is_the_same_up_to_what_rounding_shows(before: str, after: str) -> None:
    program = known(before, before)
    assert program is not None
    assert program.other(after) is None


@pytest.mark.parametrize(
    ("before", "after", "other"),
    [
        ('{"2": 4} 1', '{"tensor(2)": 1} 4', OtherWords('{"2": 4} 1', '{"tensor(2)": 1} 4')),
        ("a\nb", "a", OtherWords("b", "")),
        ("a", "a\nb", OtherWords("", "b")),
        ("3 rows", "0 rows", OtherWords("3 rows", "0 rows", is_number=True)),
        ("loss 0.50", "loss 0.53", OtherWords("loss 0.50", "loss 0.53", is_number=True)),
        ("loss 0.5", "loss nan", OtherWords("loss 0.5", "loss nan", is_number=True)),
        ("a\nb", "b\na", OtherWords("a", "b", is_number=True)),
    ],
)
def test_what_is_other_is_shown(before: str, after: str, other: OtherWords) -> None:
    program = known(before, before)
    assert program is not None
    assert program.other(after) == other


def test_what_differs_by_itself_says_nothing() -> None:
    program = known("loss 1.5\ntook 0.31 s", "loss 1.5\ntook 0.35 s")
    assert program is not None
    assert program.other("loss 1.5\ntook 9.99 s") is None
    assert program.other("loss 2.5\ntook 9.99 s") == OtherWords("loss 1.5", "loss 2.5", is_number=True)
    assert known("in /tmp/abc", "in /tmp/xyz") is None


def test_what_a_change_leaves_out_or_defers_is_meant() -> None:
    printed = "step 1: 0.5\nstep 2: 0.7\ndone"
    program = known(printed, printed)
    assert program is not None
    assert program.other("step 2: 0.7\ndone", may_lack=True) is None
    assert program.other("step 2: 0.9\ndone", may_lack=True) == OtherWords("step 1: 0.5", "step 2: 0.9", is_number=True)
    assert program.other("done\nstep 1: 0.5\nstep 2: 0.7", may_move=True) is None
    assert program.other("step 1: 0.5\nstep 2: 0.7\nfailed", may_lack=True, may_move=True) is not None


PROGRAM = """\
    import logging, torch

    def step(x):
        return sine(x) + {add}

    calls = []

    @torch.library.custom_op("compared::sine", mutates_args=())
    def sine(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @sine.register_fake
    def _(x):
        calls.append(x.shape)
        if False and len(calls) > 1:
            raise ValueError("more than Dynamo asks")
        return torch.empty_like(x)

    compiled = torch.compile(step)
    for n in range(2):
        logging.warning("to the standard error")
        is_more = compiled(torch.ones(3)).sum().item() > {limit}
        print("step", n, is_more)
    """


class Runs:
    """Trials of a script, each with another text of it."""

    def __init__(self, script: Path, opened: Processes, program: str = PROGRAM.format(add=1, limit=0)) -> None:
        self.script, self.processes = script, opened
        self.text = dedent(program)
        script.write_text(self.text)
        self.said: list[str] = []
        self.runs = trials._Runs(trials.Asked(Program(str(script))), opened, script.parent, self.said.append)
        ended, again = self.runs._run(), None
        self.runs._reference = self.runs._results()
        self.runs._is_alike_in_eager = True
        self.runs._unsure = frozenset(self.runs._run(is_eager=True).outcome.unsure)
        again = self.runs._run()
        self.first = self.runs._noted(self.runs._seen(again), again.recording)
        self.runs._printed = known(ended.printed, again.printed)

    def seen(self, text: str, code: str = "") -> tuple[Observed, Offer]:
        offer = Offer(Target(None, "break"), Setting(code))
        return self.runs._attempt({str(self.script): text}, (offer,)), offer


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    home = str(Path(compiler_lens.__file__).parent.parent)
    with Processes([sys.executable], home, {**os.environ, "PYTHONHASHSEED": "0"}, Limits(120)) as opened:
        yield Runs(tmp_path_factory.mktemp("runs") / "train.py", opened)


def test_a_run_that_prints_other_words_gives_other_results(runs: Runs) -> None:
    same, _ = runs.seen(runs.text)
    assert (same.results, same.printed) == (Results.EQUAL, None)
    other, _ = runs.seen(runs.text.replace("> 0", "> 9"))
    assert (other.results, other.printed) == (Results.DIFFER, OtherWords("step 0 True", "step 0 False"))


def test_a_run_that_prints_other_numbers_says_so(runs: Runs) -> None:
    text = runs.text.replace('"step", n', '"step", n + 1')
    other, _ = runs.seen(text)
    assert (other.results, other.printed) == (Results.EQUAL, OtherWords("step 0 True", "step 1 True", is_number=True))
    # Told later, and otherwise: what it tells of has changed meanwhile.
    deferred, _ = runs.seen(text, "torch._dynamo.config.reorderable_logging_functions = {print}")
    assert deferred.results is Results.DIFFER


def test_a_run_that_logs_other_words_gives_other_results(runs: Runs) -> None:
    other, _ = runs.seen(runs.text.replace("to the standard error", "elsewhere"))
    said = OtherWords("WARNING to the standard error", "WARNING elsewhere")
    assert (other.results, other.printed) == (Results.DIFFER, said)


def test_a_run_after_which_objects_hold_something_else_gives_other_results(runs: Runs) -> None:
    other, _ = runs.seen(f"{runs.text}\nseen = 1\nn += 1\n")
    assert other.results is Results.DIFFER
    assert other.difference is not None
    assert (other.difference.kind, other.difference.name, other.difference.largest) == ("object", "n", 1.0)
    further, _ = runs.seen(f"{runs.text}\ntorch.rand(1)\n")
    assert further.difference is not None
    assert (further.difference.kind, further.difference.name) == ("generator", "torch")


def test_a_change_that_leaves_messages_out_prints_less(runs: Runs) -> None:
    text = runs.text.replace("    print(", "    if n: print(")
    other, _ = runs.seen(text)
    assert (other.results, other.printed) == (Results.DIFFER, OtherWords("step 0 True", ""))
    left_out, _ = runs.seen(text, "if not torch.compiler.is_compiling():")
    assert (left_out.results, left_out.printed) == (Results.EQUAL, None)


def test_a_setting_that_silences_all_messages_is_to_lose_none(runs: Runs) -> None:
    silencing = "torch._dynamo.config.ignore_logging_functions = {logging.Logger.info}"
    lost, _ = runs.seen(runs.text.replace("    print(", "    if n: print("), silencing)
    assert (lost.results, lost.printed) == (Results.DIFFER, OtherWords("step 0 True", ""))
    none, _ = runs.seen(runs.text, silencing)
    assert (none.results, none.printed) == (Results.EQUAL, None)


@pytest.mark.parametrize(
    ("change", "without"),
    [
        ("sine(x) + (1 if torch.compiler.is_compiling() else 2)", ""),
        ("sine(x) + (1 if torch.compiler.is_compiling() else None)", "TypeError: unsupported operand"),
    ],
)
def test_what_differs_without_torch_compile_is_refused(runs: Runs, change: str, without: str) -> None:
    text = runs.text.replace("sine(x) + 1", change)
    seen, offer = runs.seen(text)
    assert seen.results is Results.EQUAL
    found = runs.runs._also_in_eager(seen, {str(runs.script): text}, (offer,))
    assert found.results is Results.DIFFER
    assert found.difference is not None
    assert (found.difference.without or "").startswith(without)
    assert found.difference.without is not None
    same, offer = runs.seen(runs.text)
    assert runs.runs._also_in_eager(same, {str(runs.script): runs.text}, (offer,)) is same


def test_what_aot_autograd_does_not_take_is_refused(runs: Runs) -> None:
    text = runs.text.replace("if False and", "if")
    seen, offer = runs.seen(text)
    assert seen.results is Results.EQUAL  # Dynamo asks once
    found = runs.runs._confirm(seen, {str(runs.script): text}, (offer,))
    assert found.results is Results.DIFFER
    assert found.difference is not None
    assert "more than Dynamo asks" in found.difference.in_backend
    same, offer = runs.seen(runs.text)
    assert runs.runs._confirm(same, {str(runs.script): runs.text}, (offer,)).results is Results.EQUAL


ENDING = """\
    import torch

    def places(x, end):
        torch._dynamo.graph_break()
        return x + torch.arange(x.shape[0])

    compiled, end = torch.compile(places), torch.tensor(3)
    for n in range(2):
        compiled(torch.ones(3) * n, end)
    """


def test_what_a_backend_gives_up_on_counts_as_the_break_that_torch_makes_of_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(dedent(ENDING))
    home = str(Path(compiler_lens.__file__).parent.parent)
    with Processes([sys.executable], home, {**os.environ, "PYTHONHASHSEED": "0"}, Limits(120)) as opened:
        runs = Runs(script, opened, ENDING)
        whole = runs.text.replace("    torch._dynamo.graph_break()\n", "")
        given_up = whole.replace("arange(x.shape[0])", "arange(end)")
        found = []
        for text in (whole, given_up):
            seen, offer = runs.seen(text)
            assert seen.figures == Figures(0, 0, 0)  # Dynamo has it in a graph
            found.append(runs.runs._confirm(seen, {str(script): text}, (offer,)))
        assert found[0].figures == Figures(0, 0, 0)
        assert found[1].figures is not None
        assert found[1].figures.graph_breaks > 0
        assert [one.at and one.at.code for one in found[1].targets] == ["return x + torch.arange(end)"]


# Of the number that the setting makes unknown the program's own backend knows nothing.
PICKY = """\
    import torch

    def picky(graph, inputs):
        targets = " ".join(str(node.target) for node in graph.graph.nodes)
        if "sum" in targets and "arange" in targets:  # in one graph
            raise ValueError("no unknown numbers")
        return graph.forward

    def step(x):
        return x * 2, torch.arange(int(x.sum().item()))

    compiled = torch.compile(step, backend=picky)
    for n in (1, 2):
        compiled(torch.ones(3) * n)
    """


@pytest.mark.long
def test_a_setting_that_the_programs_own_backend_refuses_is_not_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(dedent(PICKY))
    main(["fix", "--own-inputs", "--json", str(script)])
    found = json.loads(capsys.readouterr().out)
    refused = [one for one in found["tried"] if "no unknown numbers" in one["difference"]]
    assert [one["offer"] for one in refused] == ["torch._dynamo.config.capture_scalar_outputs = True"]
    assert found["best"] is None
    script.write_text(dedent(PICKY).replace("raise ValueError", "str"))
    main(["fix", "--json", str(script)])
    best = json.loads(capsys.readouterr().out)["best"]
    assert "capture_scalar_outputs" in best["patch"]
    assert best["backends"] == ["picky"]


@pytest.mark.long
def test_own_inputs_leaves_out_other_inputs_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What AOTAutograd, or eager, does with a change is asked all the same."""
    script = tmp_path / "train.py"
    script.write_text(dedent(TOTAL))
    main(["fix", "--own-inputs", "--json", str(script)])
    said, told = capsys.readouterr()
    assert {one["other_inputs"]["untried"] for one in json.loads(said)["tried"]} == {None, "own_inputs"}
    assert "with AOTAutograd" in told
    assert ", without torch.compile" in told
    assert "with other inputs" not in told


UNKNOWN = Offer(Target(None, "break"), Setting("torch._dynamo.config.capture_scalar_outputs = True"))


@pytest.mark.parametrize("offer", [UNKNOWN, Offer(Target(None, "break"), Setting("torch._dynamo.config.x = 1"))])
def test_what_was_ended_before_its_own_backend_had_it_is_not_checked(offer: Offer, runs: Runs) -> None:
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    best = Trial((offer,), {}, Figures(1, 0, 0), seen, helps=True)

    class Searched:
        def result(self) -> Fix:
            raise KeyboardInterrupt

        def so_far(self) -> Fix:
            return Fix(seen, (best,), best, is_unfinished=True)

    found = runs.runs._searched(cast("Search", Searched()))
    assert found.is_checked is (offer is not UNKNOWN)
    assert ("It was not tried with its own backend" in fix_report(found, width=200)) is (offer is UNKNOWN)


@pytest.mark.parametrize("is_over", [False, True])
def test_what_was_ended_while_its_own_backend_had_it_was_begun(
    is_over: bool, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over: how much would do is said."""
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    best = Trial((UNKNOWN,), {}, Figures(1, 0, 0), seen, helps=True)

    def run(*_: object) -> None:
        raise OutOfTime

    monkeypatch.setattr(Processes, "is_over", property(lambda _: is_over))
    monkeypatch.setattr(runs.processes, "run", run)
    monkeypatch.setattr(runs.runs, "_begun_by_its_own", ())

    class Searched:
        ahead = (3, 20)

        def result(self) -> Fix:
            return Fix(seen, (best,), best)

        def so_far(self) -> Fix:
            return Fix(seen, (best,), best, is_unfinished=True)

    found = runs.runs._searched(cast("Search", Searched()))
    assert not found.is_checked
    said = "It was not tried with its own" if is_over else "It was begun, and not finished, with its own backend"
    assert said in fix_report(found, width=200)
    assert found.enough_within > 0
    assert f"--within {found.enough_within} would probably do" in fix_report(found, width=200)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (OwnBackend(("inductor",)), ""),
        (
            OwnBackend(("eager",)),
            'It was tried with backend="eager", not with Inductor, the default backend, which may',
        ),
        (
            OwnBackend(("inductor",), NotCompiledBecause.LATE),
            'took too long, with backend="inductor", which may refuse',
        ),
        (OwnBackend(("inductor",), NotCompiledBecause.RAISES), "The program as it is raises, too, with"),
    ],
)
def test_what_is_not_known_of_unknown_numbers_is_said(own: OwnBackend, words: str) -> None:
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    best = Trial((UNKNOWN,), {}, Figures(1, 0, 0), seen, helps=True)
    shown = fix_report(Fix(seen, (best,), best, own_backend=own), width=300).replace("`", "")
    assert ("may refuse what follows from a number or a size that torch does not know" in shown) is bool(words)
    assert words in shown


# What is printed above the change of `total` tells of it as it is after that, once the print is put off.
TOTAL = """\
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x):
            print("total", self.total)
            self.total.add_(x.detach())
            return x * self.total

    step = torch.compile(Net())
    for n in range(3):
        step(torch.ones(2) + n)
    """


def test_what_is_left_is_the_change_that_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(dedent(TOTAL))
    main(["fix", "--own-inputs", "--json", str(script)])
    found = json.loads(capsys.readouterr().out)
    assert not [one for one in found["tried"] if "reorderable" in one["offer"] and one["results"] == "equal"]
    assert "reorderable" not in found["best"]["patch"]


# A key's bias moves no result: its gradient is zero but for rounding, and Adam makes a step of that.
BIASED = """\
    import torch

    torch.manual_seed(0)
    keys = torch.nn.Linear(4, 4)
    adam = torch.optim.Adam(keys.parameters(), lr=0.01)

    def step(q, x):
        return ((q @ keys(x).T).softmax(-1) @ x).square().mean()

    compiled = torch.compile(step)
    for n in range(3):
        adam.zero_grad()
        compiled(torch.randn(5, 4), torch.randn(5, 4)).backward()
        adam.step()
    """


def test_what_only_rounding_moves_is_the_same(tmp_path: Path) -> None:
    home, script = str(Path(compiler_lens.__file__).parent.parent), tmp_path / "train.py"
    text = dedent(BIASED)
    script.write_text(text)
    with Processes([sys.executable], home, {**os.environ, "PYTHONHASHSEED": "0"}, Limits(120)) as opened:
        said: list[str] = []
        runs = trials._Runs(trials.Asked(Program(str(script))), opened, tmp_path, said.append)
        runs._run()
        runs._reference = runs._results()
        offer = Offer(Target(None, "break"), Setting(""))
        rounded = text.replace("(q @ keys(x).T)", "((2 * q) @ (keys(x) / 3).T * 1.5)")
        same = runs._attempt({str(script): rounded}, (offer,))
        assert same.results is Results.EQUAL, same.difference
        assert any("rounded otherwise" in line for line in said)
        other = runs._attempt({str(script): text.replace("range(3)", "range(2)")}, (offer,))
        assert other.results is Results.DIFFER
        moved = runs._attempt({str(script): f"{text}\nkeys.weight.data += 0.01\n"}, (offer,))
        assert moved.difference is not None
        assert moved.difference.kind == "state"


@pytest.mark.parametrize(
    ("gave", "inputs", "refuses"),
    [
        (Gave.OTHER, Inputs.NEGATED, True),
        (Gave.ERROR, Inputs.ZEROS, True),
        (Gave.NO_ERROR, Inputs.NAN, False),  # as it is the program raises for it, so it can have had none
        (Gave.OTHER, Inputs.ONE_ROW, False),
        (Gave.SAME, Inputs.ONES, False),
    ],
)
def test_what_its_own_backend_makes_of_other_inputs_refuses_unknown_numbers(
    gave: Gave, inputs: Inputs, refuses: bool
) -> None:
    found = OtherInputs((OtherCall(1, inputs, gave),)).otherwise
    assert (found is not None) is refuses


# With an unknown number in its graph the backend computes something else of inputs that the program does not have.
ODD = """\
    import torch

    def odd(graph, inputs):
        targets = " ".join(str(node.target) for node in graph.graph.nodes)
        is_whole = "sum" in targets and "arange" in targets

        def run(*given):
            found = graph.forward(*given)
            return [one + 1 if is_whole and (one < 0).any() else one for one in found]

        return run

    def step(x):
        return x * 2, torch.arange(int(x.abs().sum().item()))

    compiled = torch.compile(step, backend=odd)
    for n in (1, 2):
        compiled(torch.ones(3) * n)
    """


def test_other_inputs_are_tried_with_the_programs_own_backend_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(dedent(ODD))
    main(["fix", "--json", str(script)])
    found = json.loads(capsys.readouterr().out)
    refused = [one for one in found["tried"] if "capture_scalar_outputs" in one["offer"]]
    assert "with other inputs (negated) result 1 of call 2 differs" in refused[0]["difference"]
    assert found["best"] is None


def test_what_its_own_backend_makes_of_inputs_that_the_program_cannot_have_is_told() -> None:
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    best = Trial((UNKNOWN,), {}, Figures(1, 0, 0), seen, helps=True)
    others = OtherInputs((OtherCall(1, Inputs.NAN, Gave.NO_ERROR),))
    shown = fix_report(Fix(seen, (best,), best, own_backend=OwnBackend(("inductor",), others=others)), width=120)
    assert "With its own backend and other inputs it gives something else:" in shown
    assert "- a nan among them: call 2 does not raise, as it does without the change" in shown


def test_what_both_sides_give_is_not_known_of_a_function_of_which_nothing_is_compiled() -> None:
    """A run of it is the program's own: what stands for compiled code alone was not in it."""
    at, name = SourceLine("a.py", 3, "loss", "if hit.sum() == 0:"), FunctionName("loss", "a.py", 1)
    edit = Lines("a.py", 3, ("if hit.sum() == 0:",), ("if not torch.compiler.is_compiling() and (hit.sum() == 0):",))
    offer = Offer(Target(at, "jump", "loss"), edit, needs_both=True)
    part = EagerPart(name, Reason.GRAPH_BREAK, Extent.EVERY_CALL, "", at)
    for extent, found in ((Extent.EVERY_CALL, [edit]), (Extent.REST, []), (Extent.UNFIT, [])):
        seen = Observed(None, None, eager=(StillEager(name, "", (replace(part, extent=extent),)),))
        assert list(trials._not_compiled([offer, replace(offer, needs_both=False)], seen)) == found
    other = replace(offer, target=Target(at, "jump", "step"))
    seen = Observed(None, None, eager=(StillEager(name, "", (part,)),))
    assert not list(trials._not_compiled([other], seen))
