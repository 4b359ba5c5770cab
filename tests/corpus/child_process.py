"""A child process of pytest on torch's tests, with our plugin in it and caches of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_PLUGIN = Path(__file__).parent / "child"
_PACKAGE = Path(__file__).parents[2]  # where compiler_lens is, for an environment that it is not installed in
_OPTIONS = (
    "-c",
    os.devnull,
    "--noconftest",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:logging",
    "-q",
    "--assert=plain",
    "-p",
    "observing",
)


@contextmanager
def pytest_child(sources: Path, words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run pytest in the folder of torch's tests while the block runs; then end what is left of it, and its caches."""
    folder = tempfile.mkdtemp(prefix="corpus-")
    path = os.pathsep.join(map(str, (_PLUGIN, _PACKAGE, sources, *filter(None, [os.environ.get("PYTHONPATH")]))))
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "",  # large files, which many processes import
        "TMPDIR": folder,
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_VEC_ISA_OK": "1",  # what the processor says of itself is enough
        "OMP_NUM_THREADS": "2",
    }
    command = [sys.executable, "-m", "pytest", *_OPTIONS, "--rootdir", str(sources), *words]
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            cwd=sources,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # its own children, too
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)


def wait(child: subprocess.Popen[bytes], is_stuck: Callable[[], bool]) -> int | None:
    """Return a child's status when it has ended; None if it got stuck first."""
    while child.poll() is None and not is_stuck():
        time.sleep(0.2)
    return child.poll()
