"""What `compiler-lens fix` does in the process of a trial: it runs the user's program as a plan says."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compiler_lens.cli.factory import Target
from compiler_lens.measure.fix import plan as plans
from compiler_lens.measure.fix.plan import Plan

_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)
_WORKERS = "TORCH_WARM_POOL"
_MOST_AT_ONCE = 1 << 16  # bytes
_KILO = 1024  # what Linux counts memory in


def main(plan: Sequence[str]) -> None:
    """Run the program of a plan, a file of ours, and end with it; without one, fork for each plan that is asked for."""
    _die_with_the_command()
    sys.argv[1:] = []
    if plan:
        _run(Path(plan[0]))
    from compiler_lens.measure.fix import running

    with _without_workers():
        may_fork = running.may_fork()
    if may_fork:
        _serve()


@contextlib.contextmanager
def _without_workers() -> Iterator[None]:
    """Have Inductor start no processes that compile where it is imported (torch/_inductor/async_compile.py)."""
    before = os.environ.get(_WORKERS)
    os.environ[_WORKERS] = "0"
    try:
        yield
    finally:
        os.environ.pop(_WORKERS)
        if before is not None:
            os.environ[_WORKERS] = before


def _serve() -> None:
    """Fork for each plan that is asked for, and say when one has ended, until nobody asks any more."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking)
    _answer(plans.FORKS)
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, _MOST_AT_ONCE)
            _reap()
        if 0 in ready:
            plan = os.read(0, _MOST_AT_ONCE)  # one: whoever asks waits until it has begun
            if not plan:
                return
            _fork(Path(os.fsdecode(plan).rstrip("\n")))


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while (found := os.wait4(-1, os.WNOHANG))[0]:
            process, status, used = found
            _answer(f"{plans.ENDED} {process} {os.waitstatus_to_exitcode(status)} {used.ru_maxrss * _KILO}")


def _die_with_the_command() -> None:
    """Whoever kills the command means its trials, too."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


def _fork(plan: Path) -> None:
    process = os.fork()
    if not process:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        _die_with_the_command()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in enumerate((plans.OUTPUT, plans.ERRORS), 1):
            with plan.with_name(name).open("wb") as stream:
                os.dup2(stream.fileno(), number)
        _run(plan)
    _answer(f"{plans.BEGUN} {process}")


def _answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run(plan: Path) -> None:
    asked = msgspec.json.decode(plan.read_bytes(), type=Plan)
    from compiler_lens.measure.fix.running import run

    def make() -> tuple[Any, Any]:
        made = Target(Path(asked.program.target), asked.program.factory).make()
        return made.model, made.calls * (1 if made.several else 2)

    run(asked, make if asked.program.factory else None)
