"""What breaks next once a break is mended: hidden by a function that was given up, brought up by a trial, recorded."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.cli.command import interpreter
from compiler_lens.facts.breaks.following import Known

HIDING = """
    import torch

    def grow(x):
        rounds = 0
        while rounds < 2:
            print("round", rounds)
            rounds += 1
        print("done")
        return x * 2

    torch.compile(grow, backend="eager")(torch.ones(3))
"""


def run(script: str, folder: Path) -> Path:
    """A script recorded as a user does it."""
    folder.joinpath("train.py").write_text(dedent(script).lstrip())
    command = [*interpreter(), "-m", "compiler_lens", "run", "-o", "run.clens", "train.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return Path("run.clens")


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return run(HIDING, tmp_path)


def card_at(recording: Path, line: int) -> Any:
    cards = compiler_lens.explain(compiler_lens.load(recording)).cards
    return next(card for card in cards if card.place and card.place.line == line)


def test_a_function_that_was_given_up_says_which_lines_nobody_has_looked_at(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = card_at(recorded, 6)
    assert (card.unseen.first, card.unseen.last, card.following) == (7, 9, ())
    capsys.readouterr()
    for view in ("", "breaks", "findings"):
        assert main(["show", str(recorded), *filter(None, [view])]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "Dynamo gave up at line 6 and never came to lines 7 to 9 of `grow`" in said
    assert main(["show", str(recorded), "breaks", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["cards"]
    assert (shown["unseen"]["first"], shown["unseen"]["last"]) == (7, 9)


@pytest.mark.long
def test_a_trial_shows_the_break_that_was_hidden_by_the_line_of_the_users_file(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("train.py").read_text()
    assert main(["fix", "--own-inputs", "--beside", str(recorded), "train.py"]) == 0
    assert Path("train.py").read_text() == before
    card = card_at(recorded, 6)
    assert [(one.line.line, one.line.code.strip(), one.known) for one in card.following] == [
        (8, 'print("done")', Known.TRIED)
    ]
    assert card.unseen is None
    capsys.readouterr()
    assert main(["show", str(recorded)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert 'After this fix it breaks at line 8 (`print("done")`), as the trial showed.' in said
    assert main(["show", str(recorded), "breaks", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["cards"]
    assert [(one["line"]["line"], one["known"]) for one in shown["following"]] == [(8, "tried")]


def test_breaks_of_the_recording_follow_each_other_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = run(HIDING.replace("while rounds < 2:", "if rounds < 2:"), tmp_path)
    card = card_at(recording, 6)
    assert [(one.line.line, one.known) for one in card.following] == [(8, Known.RECORDED)]
    assert card.unseen is None
    assert card_at(recording, 8).following == ()
    capsys.readouterr()
    assert main(["show", str(recording), "breaks"]) == 0
    assert "After this fix `grow` still breaks at line 8." in " ".join(capsys.readouterr().out.split())


PASSED = """
    import torch

    def loss(x):
        high = x.sum().item()
        y = x * 2
        if high > 1:
            print(f"high {high:.2f}")
            return None
        return y + 1

    compiled = torch.compile(loss, backend="eager")
    for value in (0.0, 0.1, 2.0):
        compiled(torch.full((3,), value))
"""


def test_lines_that_another_call_came_to_are_not_called_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = run(PASSED, tmp_path)
    assert card_at(recording, 7).unseen is None
    capsys.readouterr()
    assert main(["show", str(recording)]) == 0
    assert "never came to" not in " ".join(capsys.readouterr().out.split())
