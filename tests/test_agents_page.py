"""The loop of docs/agents.md, command by command in one folder: each runs, and prints what the page quotes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from compiler_lens.render.json import view_schema
from compiler_lens.views.registry import documented

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
_STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def _steps() -> list[tuple[str, list[str]]]:
    """Each command with the stretches that are quoted of what it prints."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [
        (command, [part for part in re.split(r"^…\n", quoted, flags=re.MULTILINE) if part.strip()])
        for block in blocks
        for command, quoted in _STEP.findall(block)
    ]


def _run(command: str, folder: Path) -> str:
    words = [sys.executable, "-m", "compiler_lens", *command.split()[1:]]
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(words, cwd=folder, env=env, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, f"{command}: {ran.stderr[-2000:]}"
    return ran.stdout


@pytest.mark.long
def test_the_loop_works_as_the_page_has_it(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "train.py").write_text(program)
    steps = _steps()
    assert [command.split()[1] for command, _ in steps] == [
        "run", "show", "fix", "show", "fix", "run", "show", "diff", "show"
    ]  # fmt: skip
    for command, quoted in steps:
        printed = _run(command, tmp_path)
        at = 0
        for part in quoted:  # in this order
            found = printed.find(part.rstrip("\n"), at)
            assert found >= 0, f"`{command}` does not print\n{part}"
            at = found + len(part.rstrip("\n"))
        if "--json" in command:
            document = json.loads(printed)
            Draft202012Validator(view_schema(*documented(document["view"])[0])).validate(document)
    assert "torch.where" in (tmp_path / "train.py").read_text()


@pytest.mark.parametrize("column", ["kind", "rank"])
def test_the_page_explains_all_that_there_is(column: str) -> None:
    from compiler_lens.facts.breaks.ranks import OfferKind, Rank

    for value in {"kind": OfferKind, "rank": Rank}[column]:
        assert f"`{value.value}`" in PAGE
