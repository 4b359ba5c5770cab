"""What builds kernels is killed meanwhile, as a machine without memory does: torch's own error comes out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import compiler_lens

# In place of g++. It asks its version as it does, and is killed where it builds code of Inductor's.
COMPILER = """#!/bin/sh
case "$*" in
  *--version*) exec g++ "$@" ;;
  *.cpp*) case "$KILLED" in
      worker) test "$PPID" = "$PROGRAM" || kill -9 "$PPID" ;;
      compiler) exec g++ -wrapper "$0.each" "$@" ;;
    esac ;;
esac
exec g++ "$@"
"""
EACH = """#!/bin/sh
case "$1" in *cc1plus) kill -9 $$ ;; esac
exec "$@"
"""

PROGRAM = """
import contextlib, json, os, sys
import torch
import torch._inductor.config
import compiler_lens

torch._inductor.config.cpp_cache_precompile_headers = False  # is built first, in a folder with a name by chance

def doubled(x):
    return x.sin() * 2

os.environ["PROGRAM"] = str(os.getpid())  # for the compile workers' compiler
said = []
for path in (None, sys.argv[1]):
    torch._dynamo.reset()
    with compiler_lens.Lens(path, strict=True) if path else contextlib.nullcontext():
        try:
            torch.compile(doubled)(torch.ones(3))
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
print(json.dumps(said))
"""


@pytest.mark.parametrize(
    ("killed", "error"),
    [
        ("compiler", "Killed signal terminated program"),
        pytest.param("worker", "BrokenProcessPool", marks=pytest.mark.long),
    ],
)
def test_the_error_is_torchs_own_and_the_recording_has_it(killed: str, error: str, tmp_path: Path) -> None:
    compiler = tmp_path / "killed-g++"
    for path, text in ((compiler, COMPILER), (tmp_path / "killed-g++.each", EACH)):
        path.write_text(text)
        path.chmod(0o755)
    settings = {"KILLED": killed, "CXX": str(compiler), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    if killed == "worker":
        settings["TORCHINDUCTOR_FX_COMPILE_MODE"] = "SUBPROCESS"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "run.clens")],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    plain, recorded = json.loads(done.stdout)
    assert error in plain
    assert recorded == plain
    recording = compiler_lens.load(tmp_path / "run.clens", strict=True)
    assert recording.problems == ()
    assert [(c.outcome.value, c.reason[:100]) for c in recording.compilations] == [("failed", plain[:100])]
