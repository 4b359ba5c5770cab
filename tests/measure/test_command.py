"""`compiler-lens what-if`, and the table that it prints."""

import json
from collections.abc import Callable
from pathlib import Path

import programs
import pytest
import torch
from msgspec.structs import asdict

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.facts.measured.what_if import Counts, Left, NotTried, Trial, WhatIf
from compiler_lens.recording.model import CaptureProblem, SourceLine
from compiler_lens.render.console import what_if_report
from compiler_lens.render.results import WhatIfResult

Write = Callable[[str], Path]
ITEM = """
def model(x):
    print("in the model")
    return x * x.sum().item()

def make():
    print("in the factory")
    return model, torch.ones(3)
"""


def counts(eager: int, breaks: int, recompiles: int, graphs: int) -> Counts:
    return Counts(graphs, breaks, eager, graphs, recompiles, 0.25)


def made(*trials: tuple[str, Counts | None], **more: object) -> WhatIf:
    before = trials[0][1]
    rows = [Trial(name, (f"config.{name} = True",), "a price", before, after, **more) for name, after in trials]
    return WhatIf(tuple(rows), (NotTried("allow_rnn", "no break at an RNN"), NotTried("other", "set already")))


def test_the_table_is_printed(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", f"{write(ITEM)}:make", "--width", "80", "--no-color"]) == 0
    out, err = capsys.readouterr()
    assert "torch._dynamo.config.capture_scalar_outputs = True" in out.splitlines()[-2]
    assert "in the" not in out
    assert err == "in the factory\n"
    assert all(len(line) <= 80 for line in out.splitlines() if "torch._dynamo" not in line)
    assert len(out.splitlines()) <= 24


def test_json_has_everything(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", f"{write(ITEM)}:make", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["view"] == "what_if"
    assert data["calls"] == 2
    assert data["trials"][0]["after"]["breaks"] == 2
    assert data["best"] in [trial["name"] for trial in data["trials"] if trial["helps"]]


@pytest.mark.parametrize(
    "factory",
    [
        "def make():\n    return nn.Linear(2, 2), (torch.ones(1, 2),), {}",
        "def make():\n    return nn.Linear(2, 2), (), {'input': torch.ones(1, 2)}",
        "def make():\n    return {'model': nn.Linear(2, 2), 'calls': [((torch.ones(1, 2),), {})]}",
        "def make():\n    return {'model': nn.Linear(2, 2), 'calls': [torch.ones(1, 2)]}",
    ],
)
def test_what_a_factory_may_return(factory: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", f"{write(factory)}:make"]) == 0
    assert capsys.readouterr().out == "Nothing to try: 1 graph, no breaks, no recompiles\n"


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("def make():\n    return 3", "make", "returned int: it must return (model, args)"),
        ("def make():\n    return torch.ones(1), nn.Linear(1, 1)", "make", "returned (Tensor, Linear)"),
        ("def make():\n    return {'model': 1}", "make", "returned {'model'}"),
        ("def make():\n    return nn.Linear(2, 2), torch.ones(1, 3)", "make", "fails without torch.compile, too"),
        (
            "def make():\n    raise ValueError('no\\nweights')",
            "make",
            "raised ValueError: no weights\n  made_model.py:4",
        ),
        ("def make():\n    raise SystemExit(3)", "make", "raised SystemExit: 3"),
        ("raise KeyError('x')", "make", "importing"),
        ("def make():\n    return (", "make", "SyntaxError"),
        ("make = 3", "make", "make in"),
        ("def make(): pass", "mak", "did you mean make?"),
        ("def make(): pass", "", "which function of it"),
    ],
)
def test_what_cannot_be_tried_is_one_clear_message(
    text: str, name: str, said: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", f"{write(text)}:{name}"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("compiler-lens: ")
    assert said in err
    assert "Traceback" not in err


def test_no_such_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", "nowhere.py:make"]) == 2
    assert capsys.readouterr().err == "compiler-lens: no such file: nowhere.py\n"
    assert main(["what-if", "nowhere.py:make", "--width", "3"]) == 2


@pytest.mark.parametrize("width", [80, 120])
def test_the_best_row_is_marked_and_what_to_do_comes_last(width: int) -> None:
    result = made(("as it is", counts(1, 3, 0, 2)), ("much", counts(0, 1, 0, 1)), ("little", counts(0, 2, 0, 1)))
    lines = what_if_report(result, width=width, color=False).splitlines()
    assert [line.split()[1] for line in lines if line.lstrip().startswith("*")] == ["much"]
    assert lines[-2] == "Frames that run eagerly 1 → 0, breaks 3 → 1, graphs 2 → 1, with"
    assert lines[-1] == "    config.much = True"
    assert "Not tried: other (set already); 1 setting that nothing here asks for (in --json)" in lines
    assert all(len(line) <= width for line in lines)


def test_an_error_stands_below_its_row() -> None:
    result = made(
        ("as it is", counts(0, 1, 0, 2)), ("worse", None), error="UserError: no \x1b[31mguard", error_line=SourceLine("/a/m.py", 3)
    )  # fmt: skip
    lines = what_if_report(result, width=80, color=False).splitlines()
    row = next(i for i, line in enumerate(lines) if "worse" in line)
    assert lines[row].split()[1:] == ["-"] * 5
    assert lines[row + 1] == "      m.py:3: UserError: no guard"


def test_names_from_the_program_do_nothing_to_a_terminal() -> None:
    left = (Left("a \x1b]0;title\x07break", SourceLine("/a/\x1b[2Jm.py", 3)),)
    told = what_if_report(made(("as it is", counts(0, 1, 0, 2)), left=left), width=80, color=False)
    assert "\x1b" not in told
    assert "m.py:3  a break" in told


def test_figures_that_cannot_be_trusted_say_so() -> None:
    problems = (CaptureProblem("guards", "no such key"),)
    told = what_if_report(made(("as it is", counts(0, 0, 0, 0)), problems=problems), width=80, color=False)
    assert "1 thing could not be recorded, figures may be too low: no such key" in told


def test_nothing_compiled_is_no_success() -> None:
    result = compiler_lens.what_if(lambda: 3)
    assert str(result) == "Nothing to try: nothing was compiled, there are no tensor ops"


def test_of_two_equal_trials_the_shorter_is_best() -> None:
    result = made(("as it is", counts(0, 2, 0, 2)), ("long", counts(0, 0, 0, 1)), ("short", counts(0, 0, 0, 1)))
    longer = Trial("longer", ("a", "b"), "", result.baseline.after, counts(0, 0, 0, 1))
    assert WhatIf((result.baseline, longer, result.trials[2])).best is result.trials[2]
    assert json.loads(WhatIfResult(**asdict(result)).to_json())["best"] == "long"


def test_color_is_only_color() -> None:
    result = compiler_lens.what_if(programs.rows, torch.randn(3, 3))
    assert "\x1b[" in result.report(width=80, color=True)
    assert "\x1b[" not in result.report(width=80, color=False)
