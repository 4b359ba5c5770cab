"""The same program is told alike by the open lens, a saved file, a run on a warm cache and torch's own log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from told import structure

import compiler_lens

BROKEN = ("nested", "two_breaks", "loop_with_branch", "unrebuilt", "CountingMoE", "RowMoE")
SOURCES = Path(__file__).parents[1]  # toys and models
CLEAN = ("generated", "Attention")
NAMES = (*BROKEN, *CLEAN)


def run(how: str, folder: Path, backend: str, *names: str, **environment: str) -> None:
    script = Path(__file__).with_name("told.py")
    variables = {**os.environ, **environment}
    subprocess.run(
        [sys.executable, str(script), how, str(folder), backend, *names],
        check=True, env=variables, capture_output=True, timeout=1800,
    )  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each program recorded: what the lens said, and the saved file."""
    folder = tmp_path_factory.mktemp("live")
    run("live", folder, "eager", *NAMES)
    return folder


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A TORCH_TRACE log of each program: no lens anywhere near."""
    root = tmp_path_factory.mktemp("logs")
    run("logged", root, "eager", *NAMES, TORCH_TRACE=str(root / "trace"))
    return {name: root / name for name in NAMES}


def told(folder: Path, name: str) -> dict[str, object]:
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_file_tells_what_the_lens_told(name, recorded):
    loaded = structure(compiler_lens.explain(compiler_lens.load(recorded / f"{name}.clens")))
    assert json.loads(json.dumps(loaded)) == told(recorded, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.long
def test_torchs_own_log_tells_what_the_lens_told(name, recorded, logs):
    loaded = structure(compiler_lens.explain(compiler_lens.load(logs[name], sources=SOURCES)))
    assert json.loads(json.dumps(loaded)) == told(recorded, name)


@pytest.mark.long
def test_a_warm_run_is_told_as_the_cold_one(tmp_path):
    """Inductor's caches answer; what broke is found again all the same."""
    cold, warm = tmp_path / "cold", tmp_path / "warm"
    for folder in (cold, warm):
        folder.mkdir()
        run("live", folder, "inductor", "helper_branch", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"))
    assert told(cold, "helper_branch") == told(warm, "helper_branch")
    assert any(c.result.value == "hit" for c in compiler_lens.load(warm / "helper_branch.clens").caches)
    assert told(cold, "helper_branch")["cards"]
