"""The examples that compare modes run, small, and leave what they promise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compiler_lens import Modes

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "modes"),
    [
        pytest.param("modes_resnet152", "eager", marks=pytest.mark.long),
        pytest.param("modes_vit", "eager,default", marks=pytest.mark.long),
        ("modes_llama", "eager"),
    ],  # compiling takes a minute
)
def test_an_example_leaves_its_table_and_chart(name: str, modes: str, tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--small", "--modes", modes, "-o", "out"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8", timeout=1800, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    result = Modes.from_json((tmp_path / "out" / f"{name}.json").read_text(encoding="utf-8"))
    assert not any(row.failure for row in result.rows)
    assert result.reference == "fp64"
    assert result.report(width=80, color=False) in ran.stdout
    assert (tmp_path / "out" / f"{name}.svg").stat().st_size > 0
    for mode in modes.split(",")[1:]:
        assert (tmp_path / "out" / name / f"{mode}.clens").stat().st_size > 0
