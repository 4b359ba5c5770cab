"""A process for each run of the program: started, given a time, and read when it has ended.

Importing torch takes longer than most runs: one process does it, and forks for each run. With an accelerator every run
begins from nothing, as its driver does not survive a fork. Runs that are expected may begin before their turn, while
others still run; each is a process of its own, so that changes nothing of what comes of it.
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
from msgspec.structs import replace

from compiler_lens.decode.recording_file import load
from compiler_lens.facts.measured.fix import NOT_DONE
from compiler_lens.measure.fix import machine
from compiler_lens.measure.fix.plan import BEGUN, ENDED, ERRORS, FORKS, OUTCOME, OUTPUT, RECORDING, Outcome, Plan
from compiler_lens.recording.errors import RecordingFileError, UsageError
from compiler_lens.recording.model import Recording

if TYPE_CHECKING:
    from typing_extensions import Self

_PLAN = "plan.json"
LAST_STRETCH = 0.35  # of the time for all runs
_KILLED = 10.0  # seconds, after which it is not waited for what was killed
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


class _Begun(Struct):
    """A run that has begun."""

    plan: Plan
    process: int
    at: float  # when, by the monotonic clock
    seconds: float  # that it may take


class Limits(Struct, frozen=True):
    """What runs may take."""

    timeout: float  # seconds for each
    within: float | None = None  # seconds for all of them; None: as long as they take
    jobs: int = 1  # that may run at once, if memory is left for them


class Processes:
    """Runs plans, a process for each, while its `with` block is open.

    Args:
        python: how an interpreter like this one is started.
        home: the folder that our package is in.
        environment: of the processes.
        limits: what they may take.
    """

    def __init__(self, python: Sequence[str], home: str, environment: Mapping[str, str], limits: Limits) -> None:
        self._first = time.monotonic()
        within = math.inf if limits.within is None else limits.within
        self._last = self._first + within
        self._end = self._last if math.isinf(within) else self._last - LAST_STRETCH * within
        self._command = [*python, "-c", _START, home]
        self._environment, self._timeout, self._jobs = dict(environment), limits.timeout, limits.jobs
        self._server: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.ExitStack()
        self._expected: list[tuple[Plan, float]] = []  # with the seconds that each may take
        self._begun: list[_Begun] = []  # before their turn
        self._ended: dict[int, int] = {}  # exit statuses, by process
        self._largest = 0  # bytes that a run took

    def __enter__(self) -> Self:
        server = self._stack.enter_context(self._started([]))
        if _line(server.stdout) == FORKS:
            self._server = server
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._begun:  # with what these have started
            _end(one.process)
        self._stack.close()

    @property
    def elapsed(self) -> float:
        """Seconds that have gone by since it was made."""
        return time.monotonic() - self._first

    @property
    def left(self) -> float:
        """Seconds that all runs have yet."""
        return self._last - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the time is over, so that no run begins."""
        return time.monotonic() >= self._end

    def begin_last_stretch(self) -> None:
        """Run on until the time for all runs is over: until here a part of it is kept for what comes last."""
        self._end = self._last

    def one_at_a_time(self) -> None:
        """Begin no run before its turn any more."""
        self._jobs = 1

    def expect(self, plans: Sequence[Plan], longest: float) -> None:
        """Hear which runs may come next, each for so many seconds: as many as may run at once begin before their turn.

        Those that began so and are not among them are ended: nobody asks for them any more.
        """
        wanted = [] if self._jobs == 1 or self._server is None else list(plans)
        kept = [one for one in self._begun if any(_is_same(one.plan, plan) for plan in wanted)]
        for one in self._begun:
            if one not in kept:
                self._stop(one)
        self._begun = kept
        new = [plan for plan in wanted if not any(_is_same(one.plan, plan) for one in kept)]
        self._expected = [(plan, min(self._timeout, longest)) for plan in new]

    def run(self, plan: Plan, longest: float | None = None) -> Ended:
        """Run a plan to its end, or for so many seconds if that is less than all runs have.

        Raises `OutOfTime` once the time for all runs is over, or all but what is kept of it.
        """
        if self.is_over:
            raise OutOfTime
        seconds = min(self._timeout, longest or self._timeout)
        if self._server:
            begun = self._taken(plan) or self._fork(plan, seconds)
            is_alone = begun.plan is plan and not (self._begun or self._expected)
            status = self._waited(begun)
            if status is None and not (is_alone or self.is_over):
                self.expect([], seconds)  # others took the time that it has when it runs alone
                begun = self._fork(replace(plan, folder=f"{plan.folder}-alone"), seconds)
                status = self._waited(begun)
            plan, seconds = begun.plan, begun.seconds
        else:
            status = self._fresh(plan, min(seconds, self._end - time.monotonic()))
        if status is None and self.is_over:
            raise OutOfTime
        return _ended(plan, status, seconds)

    def _taken(self, plan: Plan) -> _Begun | None:
        """Take a run that has begun before its turn; None where it has not."""
        self._expected = [(one, longest) for one, longest in self._expected if not _is_same(one, plan)]
        found = next((one for one in self._begun if _is_same(one.plan, plan)), None)
        self._begun = [one for one in self._begun if one is not found]
        return found

    def _fresh(self, plan: Plan, seconds: float) -> int | None:
        """Run in a new interpreter: its exit status, or None if it is late."""
        folder = _written(plan)
        with contextlib.ExitStack() as stack:
            output, errors = (stack.enter_context((folder / name).open("wb")) for name in (OUTPUT, ERRORS))
            process = stack.enter_context(self._started([str(folder / _PLAN)], output, errors))
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None

    def _fork(self, plan: Plan, seconds: float) -> _Begun:
        """Begin a run in a process forked from the one that has torch."""
        stdin = self._server.stdin if self._server else None
        if stdin is None:
            raise AssertionError
        stdin.write(f"{_written(plan) / _PLAN}\n".encode())
        stdin.flush()
        while (process := self._hear()) is None:
            pass
        return _Begun(plan, process, time.monotonic(), seconds)

    def _hear(self) -> int | None:
        """Read what the process that has torch says next; return the number of a process that has begun, if it is that.

        Raises `UsageError` where it has died.
        """
        said = _line(self._server.stdout if self._server else None).split()
        if not said:
            raise UsageError("the process that starts the runs was ended, for want of memory perhaps: try --jobs 1")
        if said[0] == BEGUN:
            self._ended.pop(int(said[1]), None)  # a number that another process had before it
            return int(said[1])
        if said[0] == ENDED:  # else the rest of a line that an interrupt has cut
            process, status, largest = map(int, said[1:])
            self._ended[process], self._largest = status, max(self._largest, largest)
        return None

    def _waited(self, begun: _Begun) -> int | None:
        """Wait for a run, and begin others meanwhile: its exit status, or None if it is late."""
        until = min(begun.at + begun.seconds, self._end)
        goes_on = False
        try:
            while begun.process not in self._ended:
                while self._expected and len(self._begun) + 1 < self._jobs and self._has_memory():
                    self._begun.append(self._fork(*self._expected.pop(0)))
                if not self._says_something(until - time.monotonic()):
                    # What is asked for once more in the last stretch is half done then.
                    goes_on = self.is_over and self._end < self._last and self._jobs > 1
                    return None
                self._hear()
            return self._ended[begun.process]
        finally:
            if goes_on:
                self._begun.append(begun)
            else:
                self._stop(begun)

    def _says_something(self, seconds: float) -> bool:
        stream = self._server.stdout if self._server else None
        return stream is not None and bool(select.select([stream], [], [], max(seconds, 0))[0])

    def _has_memory(self) -> bool:
        """Whether what is left is enough for the runs that have begun, and one more, as large as the largest so far."""
        free = machine.free_memory()
        return free is None or 0 < (2 + len(self._begun)) * self._largest < free

    def _stop(self, begun: _Begun) -> None:
        """End a run, and what it has left running, and wait until it is over."""
        _end(begun.process)
        if begun.process not in self._ended:  # it may have no group of its own yet
            with contextlib.suppress(ProcessLookupError):
                os.kill(begun.process, signal.SIGKILL)
        while begun.process not in self._ended and self._says_something(_KILLED):
            self._hear()

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
            bufsize=0,  # what was read ahead would not show whether there is more to read
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


def _is_same(one: Plan, other: Plan) -> bool:
    """Whether two runs are the same but for where they leave what they are asked for."""
    return replace(one, folder=other.folder) == other


def _written(plan: Plan) -> Path:
    """Write a plan into its folder, and return that."""
    plan.at.mkdir()
    (plan.at / _PLAN).write_bytes(msgspec.json.encode(plan))
    return plan.at


def _ended(plan: Plan, status: int | None, seconds: float) -> Ended:
    folder = plan.at
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
        return f"{NOT_DONE} {seconds:.0f} s"
    if status < 0:
        return f"killed by {signal.Signals(-status).name}" if -status in set(signal.Signals) else f"signal {-status}"
    return f"it ended by itself, with exit status {status}"
