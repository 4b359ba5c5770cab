"""Options after a script's name are the script's: those that look like ours are said, and how to write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compiler_lens.cli import main

PLAIN = "import torch\n"
KNOWS = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--steps', type=int)\n"


def said(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "compiler_lens", *words], capture_output=True, text=True, timeout=600, check=False
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("compiler-lens:") and " gets " in line]
    return "\n".join(lines)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)
    Path("plain.py").write_text(PLAIN)
    Path("knows.py").write_text(KNOWS)


@pytest.mark.parametrize(
    ("words", "got", "instead"),
    [
        (
            ("fix", "plain.py", "--epochs", "2", "--steps=3", "a b"),
            "--steps=3",
            "compiler-lens fix --steps=3 plain.py --epochs 2 'a b'",
        ),
        (("run", "-m", "plain", "--strict"), "--strict", "compiler-lens run --strict -m plain"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (("fix", "plain.py", "--patch", "f"), "--patch f", "compiler-lens fix --patch f plain.py"),
                (("run", "plain.py", "-o", "x"), "-o x", "compiler-lens run -o x plain.py"),
            )
        ),
    ],
)
def test_an_option_of_ours_after_the_name_is_said_with_how_to_write_it(
    words: tuple[str, ...], got: str, instead: str
) -> None:
    line = said(*words)
    assert f"gets {got}, as" in line
    assert line.endswith(f"write: {instead}")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("fix", "plain.py", "--epochs", "2"), marks=pytest.mark.long),
        ("fix", "plain.py", "--", "--patch", "f"),
        ("fix", "knows.py", "--steps", "3"),  # its own text has the option
        pytest.param(("fix", "--steps", "3", "plain.py"), marks=pytest.mark.long),
        ("run", "--no-report", "plain.py", "-o", "x"),  # it says nothing at all
    ],
)
def test_what_is_the_scripts_for_sure_is_not_said(words: tuple[str, ...]) -> None:
    assert said(*words) == ""


def test_a_factory_takes_none_and_says_where_they_belong(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model.py").write_text("def make(): ...\n")
    assert main(["fix", "model.py:make", "--patch", "f"]) == 2
    assert "Write: compiler-lens fix --patch f model.py:make" in capsys.readouterr().err
