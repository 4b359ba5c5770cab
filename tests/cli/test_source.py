"""`compiler-lens source`, from the command line to the exit status."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "gold"))

import sample_recordings as samples

from compiler_lens.cli import main
from compiler_lens.decode import recording_file


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    """Whatever is opened is the broken sample."""
    monkeypatch.setattr(recording_file, "open_recording", lambda path, **_: samples.broken())
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def said(capsys, *args):
    status = main([*args])
    return (status, *capsys.readouterr())


@pytest.mark.parametrize("rest", [[], ["model.py"], ["model.py:18"], ["app/model.py", "--json"], ["--width", "120"]])
def test_it_is_the_view_of_show(capsys, rest):
    told = said(capsys, "source", "run.clens", *rest)
    assert told == said(capsys, "show", "run.clens", "source", *rest)
    assert (told[0], told[2]) == (0, "")
    assert "model.py" in told[1]


def test_a_line_is_asked_for_with_the_file(capsys):
    _, out, _ = said(capsys, "source", "run.clens", "model.py:28")
    assert 'print("hi")' in out
    _, out, _ = said(capsys, "source", "run.clens", "model.py:34")
    assert 'print("hi")' not in out
    assert "if x.sum() > i:" in out


def test_a_file_that_is_not_there_is_told_with_what_there_is(capsys):
    status, out, err = said(capsys, "source", "run.clens", "modle.py")
    assert (status, out) == (2, "")
    assert samples.MODEL in err
    assert "Did you mean model.py?" in err


def test_more_than_one_file_is_too_much(capsys):
    status, _, err = said(capsys, "source", "run.clens", "model.py", "41")
    assert status == 2
    assert "too much: 41" in err


def test_json_is_for_programs(capsys):
    _, out, _ = said(capsys, "source", "run.clens", "--json")
    assert json.loads(out)["view"] == "source"


def test_without_a_recording_it_says_what_to_type(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, _, err = said(capsys, "source")
    assert status == 2
    assert "source" in err
