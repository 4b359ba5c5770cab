"""A process for each run of the program: started, given a time, and read when it has ended.

Importing torch takes longer than most runs: one process does it, and forks for each run. With an accelerator every run
begins from nothing, as its driver does not survive a fork.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec
from msgspec import Struct

from compiler_lens.decode.recording_file import load
from compiler_lens.measure.fix.plan import ERRORS, FORKS, OUTCOME, OUTPUT, RECORDING, Outcome, Plan
from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.model import Recording

if TYPE_CHECKING:
    from typing_extensions import Self

_PLAN = "plan.json"
_LAST_STRETCH = 0.35  # of the time for all runs
_TAIL = 4_000  # bytes of what a program said last
_MOST = 1 << 21  # bytes of what it printed
_START = (
    "import sys; sys.path.append(sys.argv[1]); from compiler_lens.cli.tried_program import main; main(sys.argv[2:])"
)


class Ended(Struct, frozen=True):
    """How a run ended."""

    outcome: Outcome
    recording: Recording
    printed: str = ""  # all of it, and what its own lines log, or more than anybody reads
    last: str = ""  # what it said last, an error if there is one
    is_late: bool = False  # it was stopped when its time was over


class OutOfTime(Exception):  # noqa: N818 -- no error: what is known by then is shown
    """Ends a search when the time for all its runs is over."""


class Processes:
    """Runs plans, a process for each, while its `with` block is open.

    Args:
        python: how an interpreter like this one is started.
        home: the folder that our package is in.
        environment: of the processes.
        timeout: seconds for each.
        within: seconds for all of them; None: as long as they take.
    """

    def __init__(
        self,
        python: Sequence[str],
        home: str,
        environment: Mapping[str, str],
        timeout: float,
        within: float | None = None,
    ) -> None:
        self._last = math.inf if within is None else time.monotonic() + within
        self._end = math.inf if within is None else self._last - _LAST_STRETCH * within
        self._command = [*python, "-c", _START, home]
        self._environment, self._timeout = dict(environment), timeout
        self._server: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        server = self._stack.enter_context(self._started([]))
        if _line(server.stdout) == FORKS:
            self._server = server
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin_last_stretch(self) -> None:
        """Run on until the time for all runs is over: until here a part of it is kept for what comes last."""
        self._end = self._last

    def run(self, plan: Plan, longest: float | None = None) -> Ended:
        """Run a plan to its end, or for so many seconds if that is less than all runs have.

        Raises `OutOfTime` once the time for all runs is over, or all but what is kept of it.
        """
        left = max(self._end - time.monotonic(), 0.0)
        if not left:
            raise OutOfTime
        seconds = min(self._timeout, longest or self._timeout, left)
        folder = plan.at
        folder.mkdir()
        (folder / _PLAN).write_bytes(msgspec.json.encode(plan))
        status = self._forked(folder, seconds) if self._server else self._fresh(folder, seconds)
        if status is None and seconds == left:
            raise OutOfTime
        try:
            outcome = msgspec.json.decode((folder / OUTCOME).read_bytes(), type=Outcome)
        except (OSError, msgspec.MsgspecError):
            outcome = Outcome(error=_died(status, seconds))
        try:
            recording = load(folder / RECORDING)
        except RecordingFileError:
            recording = Recording()
        printed = _read(folder / OUTPUT)
        last = _tail(folder / ERRORS) or printed[-_TAIL:]
        return Ended(outcome, recording, "\n".join((printed, *outcome.said)), last, is_late=status is None)

    def _fresh(self, folder: Path, seconds: float) -> int | None:
        """Run in a new interpreter: its exit status, or None if it is late."""
        with contextlib.ExitStack() as stack:
            output, errors = (stack.enter_context((folder / name).open("wb")) for name in (OUTPUT, ERRORS))
            process = stack.enter_context(self._started([str(folder / _PLAN)], output, errors))
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None

    def _forked(self, folder: Path, seconds: float) -> int | None:
        """Run in a process forked from the one that has torch: its exit status, or None if it is late."""
        server = self._server
        if server is None or server.stdin is None or server.stdout is None:
            raise AssertionError
        server.stdin.write(f"{folder / _PLAN}\n".encode())
        server.stdin.flush()
        process = int(_line(server.stdout) or 0)
        is_done = False
        try:
            is_done = bool(select.select([server.stdout], [], [], seconds)[0])
        finally:
            _end(process)
            if not is_done:  # it may have no group of its own yet
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            status = _line(server.stdout)
        return int(status or -signal.SIGKILL) if is_done else None

    @contextlib.contextmanager
    def _started(
        self, arguments: list[str], output: IO[bytes] | None = None, errors: IO[bytes] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a process whose output goes into files; without them it is asked, and answers, by its streams."""
        # A group of its own: Ctrl-C is for us, and whatever it leaves running ends with it.
        process = subprocess.Popen(  # noqa: S603 -- Python, and the user's own program
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL if output else subprocess.PIPE,
            stdout=output or subprocess.PIPE,
            stderr=errors,
            env=self._environment,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end(process.pid)
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _line(stream: IO[bytes] | None) -> str:
    return stream.readline().decode().strip() if stream else ""


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(_MOST).decode("utf-8", "replace")


def _tail(file: Path) -> str:
    with file.open("rb") as opened:
        opened.seek(max(file.stat().st_size - _TAIL, 0))
        return opened.read().decode("utf-8", "replace").strip()


def _died(status: int | None, seconds: float) -> str:
    if status is None:
        return f"not done after {seconds:g} s"
    if status < 0:
        return f"killed by {signal.Signals(-status).name}" if -status in set(signal.Signals) else f"signal {-status}"
    return f"it ended by itself, with exit status {status}"
