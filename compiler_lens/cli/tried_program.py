"""What `compiler-lens fix` does in the process of a trial: it runs the user's program as a plan says."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compiler_lens.cli.factory import Target
from compiler_lens.measure.fix import plan as plans
from compiler_lens.measure.fix.plan import Plan

_PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2)


def main(plan: Sequence[str]) -> None:
    """Run the program of a plan, a file of ours, and end with it; without one, fork for each plan that is asked for."""
    _die_with_the_command()
    sys.argv[1:] = []
    if plan:
        _run(Path(plan[0]))
    from compiler_lens.measure.fix import running

    if running.may_fork():
        _answer(plans.FORKS)
        while line := sys.stdin.readline():
            _fork(Path(line.rstrip("\n")))


def _die_with_the_command() -> None:
    """Whoever kills the command means its trials, too."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)


def _fork(plan: Path) -> None:
    process = os.fork()
    if not process:
        os.setsid()
        _die_with_the_command()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in enumerate((plans.OUTPUT, plans.ERRORS), 1):
            with plan.with_name(name).open("wb") as stream:
                os.dup2(stream.fileno(), number)
        _run(plan)
    _answer(str(process))
    _answer(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])))


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
