"""The C++ compiler is killed while it builds a kernel, as a machine without memory does: torch's own error comes out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import compiler_lens

# In place of g++. It asks its version as it does, and is killed where it builds code of Inductor's.
COMPILER = """#!/bin/sh
case "$*" in
  *--version*) exec g++ "$@" ;;
  *.cpp*) case "$KILLED" in
      driver) kill -9 $$ ;;
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

said = []
for killed in ("compiler", "driver"):
    os.environ["KILLED"] = killed
    for path in (None, sys.argv[1] + killed):
        torch._dynamo.reset()
        with compiler_lens.Lens(path, strict=True) if path else contextlib.nullcontext():
            try:
                torch.compile(doubled)(torch.ones(3))
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}")
print(json.dumps(said))
"""


def test_the_error_is_torchs_own_and_the_recording_has_it(tmp_path: Path) -> None:
    compiler = tmp_path / "killed-g++"
    for path, text in ((compiler, COMPILER), (tmp_path / "killed-g++.each", EACH)):
        path.write_text(text)
        path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "run.")],
        env={**os.environ, "CXX": str(compiler), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    compiler_plain, compiler_recorded, driver_plain, driver_recorded = json.loads(done.stdout)
    assert "Killed signal terminated program" in compiler_plain
    assert "CppCompileError" in driver_plain
    assert (compiler_recorded, driver_recorded) == (compiler_plain, driver_plain)
    for killed, said in (("compiler", compiler_plain), ("driver", driver_plain)):
        recording = compiler_lens.load(tmp_path / f"run.{killed}", strict=True)
        assert recording.problems == ()
        assert [c.outcome.value for c in recording.compilations] == ["failed"]
        assert recording.compilations[0].reason[:200] == said[:200]
