"""One run of a program in this process, recorded and watched; what came of it goes into the plan's folder."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch

from compiler_lens.capture.recorder import recorded
from compiler_lens.measure.fix import results, serving
from compiler_lens.measure.fix.observing import Observer
from compiler_lens.measure.fix.plan import OUTCOME, RECORDING, RESULTS, Outcome, Plan
from compiler_lens.measure.fix.watching import Watch
from compiler_lens.measure.program import Program, as_calls, callable_of, described
from compiler_lens.measure.what_if import captured
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Results

_SEED = 0


def may_fork() -> bool:
    """Import what a run needs, and return whether a process forked from this one can run a program."""
    with recorded():  # which imports what hooks go into
        pass
    return not torch.accelerator.is_available()


def run(plan: Plan, make: Callable[[], tuple[Any, Any]] | None = None) -> None:
    """Run the program as the plan says, and end this process: nothing of it is run any more, also no exit handlers.

    Args:
        plan: what to run. Torch generates nothing: graphs run as Dynamo captured them.
        make: for a factory: returns the model, and its calls.
    """
    with contextlib.ExitStack() as stack:
        # Before the recording: it has the stances that the program takes.
        stance = "force_eager" if plan.is_eager else "default"
        backend = None if plan.is_eager else "aot_eager" if plan.is_aot else captured
        stack.enter_context(torch.compiler.set_stance(stance, force_backend=backend))
        recorder = stack.enter_context(recorded(plan.at / RECORDING, notes_stance=False))
        observer = Observer(plan.observe)
        watch = Watch(plan.steps, lambda: _end(plan, watch, observer, recorder.close))
        stack.enter_context(watch.watching())
        _seed()
        serving.serve(plan.texts)
        error: BaseException | None = None
        try:
            with observer.observing():
                _program(plan, make)
        except BaseException as raised:  # noqa: BLE001 -- also what ends a process: it is how the program ended
            error = raised
        _end(plan, watch, observer, recorder.close, error)


def _program(plan: Plan, make: Callable[[], tuple[Any, Any]] | None) -> None:
    program = plan.program
    if make is not None:
        model, calls = make()
        function, dynamic = callable_of(model, "fix")
        called = Program(function, as_calls((), {}, calls), training=program.training, dynamic=dynamic)
        called.run(torch.compile(function, dynamic=dynamic))
    elif program.is_module:
        serving.run_module(program.target, program.args)
    else:
        serving.run_script(program.target, program.args, plan.texts)


def _seed() -> None:
    """Begin with the same random numbers in each run."""
    random.seed(_SEED)
    torch.manual_seed(_SEED)
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy").random.seed(_SEED)


def _end(
    plan: Plan,
    watch: Watch,
    observer: Observer,
    close: Callable[[], None],
    error: BaseException | None = None,
) -> None:
    """Leave what came of it, and end."""
    close()
    watch.keep_state()
    kept = watch.keeper.kept
    found: tuple[Results, Any] = Results.UNKNOWN, None
    said, line = described(error) if error is not None and not _is_success(error) else ("", None)
    if isinstance(error, UsageError):
        said = str(error)
    is_unusable = isinstance(error, UsageError) and error.__cause__ is None
    if not plan.reference:
        results.save(kept, plan.at / RESULTS)
    elif not said and watch.calls:
        found = results.compared(kept, results.load(plan.at / plan.reference))
    whole = watch.keeper.is_whole
    called = observer.called
    outcome = Outcome(
        _script(plan),
        watch.calls,
        *found,
        is_whole=whole,
        called=called,
        error=said,
        is_unusable=is_unusable,
        error_line=line,
    )
    (plan.at / OUTCOME).write_bytes(msgspec.json.encode(outcome))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # whatever the program put there
            stream.flush()
    os._exit(0)


def _script(plan: Plan) -> str:
    """The file that the program begins with."""
    name = plan.program.target
    if not plan.program.is_module:
        return str(Path(name).absolute())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:  # a package
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ImportError:  # which the program raised, too
        return ""
    return (spec.origin if spec else None) or ""


def _is_success(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code in (None, 0)
