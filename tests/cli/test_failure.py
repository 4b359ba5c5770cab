"""What a mistake of ours looks like from the command line: one line, and never a traceback unless it is asked for."""

from __future__ import annotations

import contextlib

import pytest

from compiler_lens import lens
from compiler_lens.cli import main, run
from compiler_lens.decode import recording_file
from compiler_lens.recording.model import CaptureProblem, Recording
from compiler_lens.render import console

COMMANDS = [
    ["show", "run.clens"],
    ["show", "run.clens", "breaks"],
    ["show", "run.clens", "breaks", "--json"],
    ["source", "run.clens", "model.py"],
]
TOLD = "compiler-lens: {} failed: ValueError: a b; {}please report it, with --traceback for details\n"


def fail(*_, **__):
    raise ValueError("a \x1b[2Jb")


class Unreadable:
    """A recording that nobody can look at."""

    def __getattr__(self, name):
        fail()


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """Everything fails that finds or shows something."""
    monkeypatch.setattr(recording_file, "open_recording", lambda path, **_: Unreadable())
    for module, name in ((console, "report"), (console, "report_on"), (lens, "what_if")):
        monkeypatch.setattr(module, name, fail)
    (tmp_path / "model_to_fail.py").write_text("def make(): return print, ()")
    return ["what-if", f"{tmp_path / 'model_to_fail.py'}:make"]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_it_is_one_line_and_a_status_of_its_own(command, broken, capsys):
    assert main(command) == 3
    assert capsys.readouterr() == ("", TOLD.format(command[0], ""))


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_recording_is_called_intact_where_all_of_it_can_be_read(is_whole, broken, capsys, monkeypatch):
    problems = () if is_whole else (CaptureProblem("lens.fusion", "unknown"),)
    monkeypatch.setattr(recording_file, "open_recording", lambda *_, **__: Recording(problems=problems))
    assert main(["show", "run.clens"]) == 3
    told = "the recording is intact; " if is_whole else ""
    assert capsys.readouterr() == ("", TOLD.format("show", told))


def test_where_there_is_no_recording_none_is_mentioned(broken, capsys):
    assert main(broken) == 3
    assert capsys.readouterr() == ("", TOLD.format("what-if", ""))


def test_a_script_that_cannot_be_started_is_told_so(capsys, monkeypatch, tmp_path):
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run.os, "execve", fail)
    assert main(["run", "train.py"]) == 3
    assert capsys.readouterr().err == TOLD.format("run", "")


def test_a_traceback_is_there_for_the_asking(broken):
    for command in [*COMMANDS, broken]:
        with pytest.raises(ValueError, match="a "):
            main([*command, "--traceback"])


def test_it_is_one_line_whatever_it_says(broken, capsys, monkeypatch):
    def long(*_, **__):
        raise ValueError("many\nlines " * 1000)

    monkeypatch.setattr(recording_file, "open_recording", lambda *_, **__: Recording())
    for error in (long, lambda *_, **__: (_ for _ in ()).throw(AssertionError)):
        monkeypatch.setattr(console, "report_on", error)
        assert main(["show", "run.clens"]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert len(line) < 450
    assert "failed: AssertionError; the recording is intact; please" in line


def test_the_option_is_on_every_command_and_in_no_help(capsys):
    for command in ("run", "show", "source", "what-if"):
        with contextlib.suppress(SystemExit):
            main([command, "--help"])
        assert "--traceback" not in capsys.readouterr().out


def test_a_script_keeps_an_option_of_that_name(monkeypatch, tmp_path):
    """Only before the script's name it is ours."""
    script = tmp_path / "train.py"
    script.write_text("")
    became = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run.os, "execve", lambda _, python, __: became.append(python[-2:]))
    with contextlib.suppress(TypeError):  # execve does not come back
        main(["run", "--traceback", str(script), "--traceback"])
    assert became == [[str(script), "--traceback"]]
