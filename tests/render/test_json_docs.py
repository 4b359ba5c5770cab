"""The recipes of docs/json.md run as they stand there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"```sh\n(compiler-lens show run\.clens \w+ --json \|\n.*?)```", TEXT, re.DOTALL)
SAID = (r"\d+  broken\.py:9  GB0124\n", r"(?:triton|extern|cpp)\S*\n", r"\d[\d.]*  \[0/0\]\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a recording, and `compiler-lens` as it is installed."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "compiler-lens"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m compiler_lens "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return tmp_path


def run(command: list[str] | str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    environment = {"PATH": path, "PYTHONPATH": str(ROOT)}
    shell = isinstance(command, str)
    return subprocess.run(
        command, shell=shell, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq on the PATH: Debian has it as `jq`")
@pytest.mark.parametrize("number", range(3))
def test_a_recipe_for_jq_says_what_it_promises(number: int, folder: Path) -> None:
    recording = ("pictures/data/broken", "gpu/data/gpt-default-profiled", "pictures/data/broken")[number]
    shutil.copy(ROOT / "tests" / f"{recording}.clens.gz", folder / "run.clens")
    recipe = RECIPES[number].replace('"model.py" and .line == 41', '"models.py" and .line == 25')
    done = run(recipe, folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(SAID[number], done.stdout), done.stdout


def test_the_check_in_python_fails_for_a_break_and_passes_without(folder: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    shutil.copy(ROOT / "tests/pictures/data/broken.clens.gz", folder / "run.clens")
    assert run([sys.executable, "-c", program], folder).returncode == 0
    done = run([sys.executable, "-c", program.replace("GB0170", "GB0124")], folder)
    assert (done.returncode, done.stdout) == (1, "broken.py:9: breaks the graph\n")
