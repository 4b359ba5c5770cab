"""Where torch.compile was switched off from outside, that is said, with what switched it off."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from compiler_lens.cli.command import interpreter

SCRIPT = """
import torch
torch.compile(lambda x: x * 2, backend="eager")(torch.ones(3))
"""


def recorded(folder: Path, script: str = SCRIPT, **environment: str) -> str:
    """What a user sees of a script under `compiler-lens run`."""
    (folder / "train.py").write_text(script)
    command = [*interpreter(), "-m", "compiler_lens", "run", "-o", "run.clens", "train.py"]
    env = {**os.environ, "COLUMNS": "80", **environment}
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, encoding="utf-8", check=True)
    return " ".join((ran.stdout + ran.stderr).split())


def test_the_setting_that_stops_dynamo_is_named_with_the_variable_that_sets_it(tmp_path: Path) -> None:
    said = recorded(tmp_path, TORCH_COMPILE_DISABLE="1")
    assert "`torch._dynamo.config.disable` is True. `TORCH_COMPILE_DISABLE=1` in the environment sets it" in said


@pytest.mark.long
def test_the_same_where_the_program_sets_it(tmp_path: Path) -> None:
    said = recorded(tmp_path, SCRIPT.replace("import torch", "import torch; torch._dynamo.config.disable = True"))
    assert "`torch._dynamo.config.disable` is True." in said


def test_what_makes_torch_compile_do_nothing_is_named(tmp_path: Path) -> None:
    said = recorded(tmp_path, TORCHDYNAMO_DISABLE="1")
    assert "TORCHDYNAMO_DISABLE=1 is set: torch.compile makes nothing." in said


@pytest.mark.parametrize("argument", [pytest.param("disable=True", marks=pytest.mark.long), 'backend="eager"'])
def test_none_of_it_is_said_to_be_so_where_it_is_not(tmp_path: Path, argument: str) -> None:
    said = recorded(tmp_path, SCRIPT.replace('backend="eager"', argument))
    assert "is set" not in said.replace("where `TORCHDYNAMO_DISABLE=1` is set", "")
    assert "config.disable` is True" not in said
    assert ("or by torch.compile(…, disable=True)" in said) == (argument == "disable=True")
