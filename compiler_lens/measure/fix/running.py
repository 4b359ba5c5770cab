"""One run of a program in this process, recorded and watched; what came of it goes into the plan's folder."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import itertools
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import torch
from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.capture.recorder import recorded
from compiler_lens.capture.sources import is_kept
from compiler_lens.capture.torch_api import settings
from compiler_lens.capture.torch_api.measuring import guards_untimed, import_inductor
from compiler_lens.facts.measured.other_inputs import OtherInputs
from compiler_lens.measure.fix import results, serving
from compiler_lens.measure.fix.graphs import Graphs
from compiler_lens.measure.fix.logged import OwnLog
from compiler_lens.measure.fix.observing import Observer
from compiler_lens.measure.fix.other_inputs import CountedLines, OtherCalls, impossible
from compiler_lens.measure.fix.outside import Outside
from compiler_lens.measure.fix.plan import ALL, OUTCOME, RECORDING, RESULTS, Outcome, Plan
from compiler_lens.measure.fix.watching import Watch
from compiler_lens.measure.program import Program, as_calls, callable_of, cause, described
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Results

_SEED = 0
_MOST_RECOMPILES = 64
_USED = "used"  # is in a folder of caches while a run uses it


def may_fork() -> bool:
    """Import what a run needs, and return whether a process forked from this one can run a program."""
    with recorded():  # which imports what hooks go into
        import_inductor()
    torch.compiler.list_backends()  # which imports them
    gc.freeze()  # no process that is forked looks through all of torch for garbage, or copies it for that
    return not torch.accelerator.is_available()


def run(plan: Plan, make: Callable[[], tuple[Any, Any]] | None = None) -> None:
    """Run the program as the plan says, and end this process: nothing of it is run any more, also no exit handlers.

    Args:
        plan: what to run. Torch generates nothing, unless the plan says so: graphs run as Dynamo captured them.
        make: for a factory: returns the model, and its calls.
    """
    with contextlib.ExitStack() as stack:
        # Before the recording: it has the stances that the program takes.
        stance = "force_eager" if plan.is_eager else "default"
        is_own = plan.is_eager or plan.has_own_backend
        graphs = Graphs()
        captured = graphs.aot_of_floats if plan.is_aot_of_floats else graphs.captured
        backend = graphs.aot_eager if plan.is_aot else captured
        stack.enter_context(torch.compiler.set_stance(stance, force_backend=None if is_own else backend))
        stack.enter_context(guards_untimed())
        caches = _caches(plan.at.parent) if plan.has_own_backend else None
        if caches:
            stack.enter_context(settings.inductor_draws_as_eager())
            stack.enter_context(settings.caches_in(caches))
        if plan.with_others:  # each kind of inputs may be compiled by itself
            stack.enter_context(settings.dynamo_settings({"recompile_limit": _MOST_RECOMPILES}))
        recorder = stack.enter_context(recorded(plan.at / RECORDING, notes_stance=False))
        observer, lines, outside = Observer(plan.observe), CountedLines(plan.count_lines), Outside(plan.at)
        are_made = plan.with_others and impossible() is None
        others = OtherCalls(lines, graphs, is_compiled=plan.has_own_backend) if are_made else None

        def end(error: BaseException | None = None) -> None:
            outside.end()
            recorder.close()
            if caches:
                (caches / _USED).rmdir()
            _Run(plan, watch, observer, others, lines, log, outside, graphs).end(error)

        watch = Watch(plan.steps, end, others=others, lines=lines, is_noisy=plan.is_noisy, beside=plan.beside)
        log = OwnLog()
        stack.enter_context(watch.watching())
        stack.enter_context(log.hearing())
        _seed()
        serving.serve(plan.texts)
        if not plan.reference:  # the program as it is, for which all is decided
            outside.hear()
        error: BaseException | None = None
        try:
            with observer.observing():
                _program(plan, make)
        except BaseException as raised:  # noqa: BLE001 -- also what ends a process: it is how the program ended
            error = raised
        end(error)


def _caches(folder: Path) -> Path:
    """Return a folder for torch's caches that no other run uses.

    Nor one that was ended while it did: it may have left half a file there, which torch takes for a whole one.
    """
    for number in itertools.count():
        caches = folder / f"caches-{number}"
        caches.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (caches / _USED).mkdir()
            return caches
    raise AssertionError


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


class _Run(Struct, frozen=True):
    """What hears of a run."""

    plan: Plan
    watch: Watch
    observer: Observer
    others: OtherCalls | None
    lines: CountedLines
    log: OwnLog
    outside: Outside
    graphs: Graphs

    def end(self, error: BaseException | None) -> None:
        """Leave what came of it, and end."""
        told = cause if self.plan.is_aot or self.plan.has_own_backend else described
        said, line = told(error) if error is not None and not _is_success(error) else ("", None)
        if isinstance(error, UsageError):
            said = str(error)
        outcome = Outcome(
            _script(self.plan),
            () if self.plan.reference else _loaded(),
            self.watch.calls,
            self.watch.calls_of,
            said=tuple(self.log.said),
            called=self.observer.called,
            counted=self.lines.counted,
            error=said,
            is_inductor=self.watch.is_inductor,
            is_met=self.outside.is_met,
            is_unusable=isinstance(error, UsageError) and error.__cause__ is None,
            error_line=line,
            operators=self.graphs.operators,
            launches=self.graphs.launches,
        )
        outcome = self._with_others(outcome) if self.plan.with_others else self._with_results(outcome)
        (self.plan.at / OUTCOME).write_bytes(msgspec.json.encode(outcome))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # whatever the program put there
                stream.flush()
        os._exit(0)

    def _with_results(self, outcome: Outcome) -> Outcome:
        self.watch.keep_state()
        keeper, plan = self.watch.keeper, self.plan
        outcome = replace(outcome, is_whole=keeper.is_whole)
        if not plan.reference:
            results.save(keeper.kept, plan.at / RESULTS)
        if not plan.reference or outcome.error or not self.watch.calls:
            return outcome
        if plan.is_rough:
            found, difference = results.roughly_compared(*self._both(plan.reference, keeper.kept), plan.unsure)
            return replace(outcome, results=found, difference=difference)
        compared = self._compared(plan.reference, outcome)
        if compared.results is not Results.DIFFER:
            return compared
        if plan.is_kept:
            results.save(keeper.kept, plan.at / RESULTS)
        eager = self._compared(plan.eager, outcome) if plan.eager else compared
        return eager if eager.results is Results.EQUAL else compared

    def _compared(self, with_results: str, outcome: Outcome) -> Outcome:
        """Return how it went with what is another in a file of results."""
        plan = self.plan
        kept, reference = self._both(with_results, self.watch.keeper.kept)
        noisy = results.load(plan.at / plan.noisy) if plan.noisy else ()
        found, difference = results.compared(kept, reference, noisy)
        others = results.names_that_differ(kept, reference)
        sure = [] if ALL in plan.unsure else [name for name in others if name not in plan.unsure]
        if found is Results.EQUAL and sure:
            found, difference = Results.DIFFER, results.named_difference(kept, reference, sure[0])
        return replace(
            outcome,
            results=found,
            difference=difference,
            zero_gradients=results.zero_gradients(kept, reference),
            kept_tensors=results.kept_tensors(kept, reference),
            unsure=results.with_most_of_lists(others, (one.name for one in reference if one.name)),
        )

    def _with_others(self, outcome: Outcome) -> Outcome:
        plan = self.plan
        if self.others is None:
            return replace(outcome, others=OtherInputs(untried=impossible()))
        outcome = replace(outcome, counted_calls=tuple(self.others.counted))
        kept, made = self.others.keeper.kept, OtherInputs(lost=len(self.others.lost), unmade=tuple(self.others.unmade))
        if not plan.reference:
            results.save(kept, plan.at / RESULTS)
            return replace(outcome, others=made)
        calls = results.compared_calls(*self._both(plan.reference, kept), plan.unsure, is_rough=plan.is_rough)
        return replace(outcome, others=replace(made, calls=calls))

    def _both(
        self, with_results: str, kept: Sequence[results.Kept]
    ) -> tuple[Sequence[results.Kept], Sequence[results.Kept]]:
        """What a run kept, and what another one did, but for what the change keeps less of."""
        reference = results.load(self.plan.at / with_results)
        return results.without(kept, self.plan.left), results.without(reference, self.plan.left)


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


def _loaded() -> tuple[str, ...]:
    """The files of all modules that may be the user's."""
    modules: list[object] = list(sys.modules.values())  # the program may put anything there
    files = (vars(one).get("__file__") for one in modules if isinstance(one, ModuleType))
    return tuple(sorted({file for file in files if type(file) is str and file.endswith(".py") and is_kept(file)}))


def _is_success(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code in (None, 0)
