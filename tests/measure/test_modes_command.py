"""`compiler-lens modes`: what it prints and writes, and its errors, a line each."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler_lens.cli import main

Write = Callable[[str], Path]
MADE = """
import torch
from compiler_lens import Phase

def make():
    print("in the factory")
    return torch.sin, torch.ones(3)

def parts():
    return {"model": torch.sin, "phases": [Phase("prefill", lambda model: model(torch.ones(3)), tokens=3)]}
"""


def test_rows_are_told_as_they_are_done_and_printed(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg = tmp_path / "chart.svg"
    words = [
        "modes",
        f"{write(MADE)}:make",
        "--modes",
        "eager",
        "--seconds",
        "0.05",
        "--svg",
        str(svg),
        "--width",
        "80",
    ]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Call  ")
    assert out.splitlines()[-1] == "Only eager was measured: there is nothing to compare it with."
    assert "in the factory" not in out
    assert err.count("eager: call ") == 2, "one line for each pass"
    ET.parse(svg)


def test_json_and_phases(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["modes", f"{write(MADE)}:parts", "--modes", "eager", "--seconds", "0.05", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["view"], data["phases"], data["best"]) == ("modes", ["prefill"], "eager")
    assert data["rows"][0]["tokens_per_second"]["prefill"] > 0


def test_options_of_a_row_are_values(monkeypatch: pytest.MonkeyPatch, write: Write) -> None:
    from compiler_lens.cli.measure import _option

    assert _option("a b=mode:max-autotune,max_autotune_gemm_backends:ATEN,CPP,coordinate_descent_tuning:False") == (
        "a b",
        {"mode": "max-autotune", "max_autotune_gemm_backends": "ATEN,CPP", "coordinate_descent_tuning": False},
    )
    assert _option("n=a.b:3,c:none") == ("n", {"a.b": 3, "c": None})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--modes", "eager,fastest"], "torch.compile has no mode fastest: it has eager, default, "),
        (["--modes", ","], "nothing to measure"),
        (["--option", "tuned"], "--option takes NAME=KEY:VALUE"),
        (["--option", "=a:1"], "--option takes NAME=KEY:VALUE"),
        (["--option", "tuned=maxautotune:1"], "Inductor has no option maxautotune: did you mean max_autotune?"),
        (["--seconds", "0"], "there must be some time"),
        (["--width", "10"], "too narrow"),
    ],
)
def test_errors_are_one_line(words: list[str], said: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["modes", f"{write(MADE)}:make", *words]) == 2
    err = capsys.readouterr().err.removeprefix("in the factory\n")
    assert err.startswith("compiler-lens: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_chart_that_cannot_be_written_is_one_line(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["modes", f"{write(MADE)}:make", "--modes", "eager", "--seconds", "0.05", "--svg", "/nowhere/chart.svg"]
    assert main(words) != 0
    assert capsys.readouterr().err == "compiler-lens: cannot write /nowhere/chart.svg: no folder /nowhere\n", "at once"
