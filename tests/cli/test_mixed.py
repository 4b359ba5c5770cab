"""A command's arguments in any order."""

from __future__ import annotations

import pytest

from compiler_lens.cli import _parser


@pytest.mark.parametrize(
    "words",
    [
        "graph r.clens 0/0 --stage kernels -o k.svg",
        "graph r.clens --stage kernels 0/0 -o k.svg",
        "graph --stage kernels r.clens -o k.svg 0/0",
        "graph --stag=kernels r.clens -ok.svg 0/0",
        "graph r.clens --stag kernels -o k.svg 0/0",
        "graph r.clens --stag kernels --out k.svg 0/0",
        "graph --stage kernels -o k.svg -- r.clens 0/0",
        "graph --stage kernels r.clens -o k.svg -- 0/0",
    ],
)
def test_options_stand_anywhere(words):
    args = _parser().parse_args(words.split())
    assert (args.recording, args.id, args.stage, args.output) == ("r.clens", "0/0", "kernels", "k.svg")


@pytest.mark.parametrize("words", ["show r.clens --json graphs 0/0", "show r.clens graphs --width 90 0/0 --json"])
def test_in_show_too(words):
    args = _parser().parse_args(words.split())
    assert (args.recording, args.view, args.what, args.json) == ("r.clens", "graphs", ["0/0"], True)


def test_what_is_a_scripts_own_stays_in_its_place():
    args = _parser().parse_args(["run", "-o", "r.clens", "train.py", "--epochs", "3", "-o", "x"])
    assert (args.output, args.command) == ("r.clens", ["train.py", "--epochs", "3", "-o", "x"])


@pytest.mark.parametrize("own", ["--out", "--mod", "--stri", "--no-rep"])
def test_an_option_of_a_script_is_not_the_beginning_of_one_of_ours(own):
    args = _parser().parse_args(["run", "train.py", own, "x"])
    assert (args.output, args.module, args.strict, args.no_report) == (None, False, False, False)
    assert args.command == ["train.py", own, "x"]


def test_ours_are_not_abbreviated_before_a_script(capsys):
    with pytest.raises(SystemExit):
        _parser().parse_args(["run", "--out", "r.clens", "train.py"])
    assert "--out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["graph r.clens -o", "report r.clens -o", "graph r.clens --nope 0/0", "graph r.clens 0/0 1/0"]
)
def test_an_option_without_its_value_takes_no_other_argument(words, capsys):
    """`report r.clens -o` would else write over the recording."""
    with pytest.raises(SystemExit):
        _parser().parse_args(words.split())
    told = capsys.readouterr().err
    assert "expected one argument" in told or "unrecognized arguments" in told
