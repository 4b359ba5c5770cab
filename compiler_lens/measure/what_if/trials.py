"""What if: every configuration of torch.compile that could matter, tried on the real model and counted."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from compiler_lens.capture.recorder import Recorder, alone
from compiler_lens.capture.torch_api import dynamo, settings
from compiler_lens.facts.measured.what_if import NotTried, Trial, WhatIf, breaks_left, count
from compiler_lens.measure.program import Call, Program, as_calls, callable_of, described, must_run
from compiler_lens.measure.sandbox.restoring import code_caches_apart, quiet, restoring_state
from compiler_lens.measure.what_if.changes import CHANGES, MARKS, SCALARS, SIZES, TWINS, Change, wanted
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording, SourceLine

_MOST = 16  # trials: each compiles the whole program

_Chosen = tuple[Change, ...]


def tried(model: Callable[..., Any], given: tuple[Any, Any, Any], *, training: bool) -> WhatIf:
    """Try what could matter on a model, of which `given` are inputs, named inputs and calls. See `what_if`."""
    function, dynamic = callable_of(model, "what_if")
    calls = as_calls(*given)
    # One call is made twice: what only shows at the second, like a counter, then shows.
    program = Program(function, calls * 2 if given[2] is None else calls, training, dynamic)
    with quiet(), restoring_state(program.function, program.inputs) as kept, code_caches_apart():
        # torch imports what it compiles with: that time is not the first trial's.
        tiny = Program(lambda x: x * x.shape[0], tuple(Call((torch.zeros(size),), {}) for size in (3, 4)))
        _observe(tiny, ())
        return _Session(program, kept.restore).result()


class _Session:
    """The trials of one program, in the making."""

    def __init__(self, program: Program, restore: Callable[[], None]) -> None:
        self._program, self._restore = program, restore
        self._marks = _marks(program.function, program.calls)
        self._done: dict[frozenset[str], Trial] = {}
        self._wanted: dict[frozenset[str], _Chosen] = {}

    def result(self) -> WhatIf:
        baseline = self._try(())
        first = self._possible(self._wanted[frozenset()])
        for change in first:
            self._follow((change,))
        if any(change in (SCALARS, SIZES) for change in first):
            self._follow(self._possible((SCALARS, SIZES)))
        helped = [change for change in first if self._done[frozenset((change.name,))].helps]
        twins = [change for change in helped if change.name in TWINS]
        self._follow(tuple(change for change in helped if change not in twins[1:]))
        tried = {name for names in self._done for name in names}
        left = [change for change in CHANGES if change.name not in tried]
        not_tried = tuple(NotTried(change.name, self._obstacle(change) or change.unless) for change in left)
        return WhatIf((baseline, *list(self._done.values())[1:]), not_tried, len(self._program.calls))

    def _follow(self, chosen: _Chosen) -> None:
        """Try some changes; then also what torch asks for only once these are made."""
        if not chosen or len(self._done) >= _MOST or _names(chosen) in self._done:
            return
        self._try(chosen)
        known = {change.name for change in self._wanted[frozenset()]}
        order = [change.name for change in CHANGES]
        for change in self._possible(self._wanted[_names(chosen)]):
            if change.name not in known and change not in chosen and change.is_asked_for:
                self._follow(tuple(sorted((*chosen, change), key=lambda one: order.index(one.name))))

    def _try(self, chosen: _Chosen) -> Trial:
        try:
            recording, error, line = _observe(self._program, chosen)
        finally:
            self._restore()
        if error and not chosen:
            try:
                with must_run():
                    self._program.run(self._program.function)
            finally:
                self._restore()
        after = None if error else count(recording)
        trial = self._done[_names(chosen)] = Trial(
            name=" + ".join(change.name for change in chosen) or "as it is",
            code=tuple(text for change in chosen for text in change.code),
            price="; ".join(change.price for change in chosen),
            before=self._done[frozenset()].after if chosen else after,
            after=after,
            error=error,
            error_line=line,
            left=breaks_left(recording),
            problems=recording.problems,
        )
        self._wanted[_names(chosen)] = wanted(recording, self._marks)
        return trial

    def _possible(self, changes: Sequence[Change]) -> _Chosen:
        return tuple(change for change in changes if not self._obstacle(change))

    def _obstacle(self, change: Change) -> str:
        """Why it need not be tried; empty if it can be."""
        if not all(map(settings.has_setting, change.config)):
            return "this torch does not have it"
        is_set = bool(change.config) and settings.is_set(change.config)
        is_dynamic = change.dynamic is not None and change.dynamic == self._program.dynamic
        return "set already" if is_set or is_dynamic else ""


def _names(chosen: _Chosen) -> frozenset[str]:
    return frozenset(change.name for change in chosen)


# -- one trial


def _observe(program: Program, changes: Sequence[Change]) -> tuple[Recording, str, SourceLine | None]:
    """Compile the program under the changes, as far as Dynamo goes, and make its calls: what that shows, and raises."""
    dynamic = next((change.dynamic for change in changes if change.dynamic is not None), program.dynamic)
    config = {name: value for change in changes for name, value in change.config.items()}
    dynamo.forget_compiled_code()  # each trial begins without
    with (
        contextlib.closing(Recorder(progress=False)) as recorder,
        settings.dynamo_settings(config),
        alone(recorder),
        # No piece of the program that is compiled by itself reaches Inductor either.
        torch.compiler.set_stance("default", force_backend=captured),
    ):
        for change in changes:
            for call, position, dim in change.marks:
                dynamo.mark_dynamic(program.calls[call].tensors[position][1], dim)
        error, line = "", None
        try:
            program.run(torch.compile(program.function, backend=captured, dynamic=dynamic))
        except UsageError:
            raise
        except Exception as raised:  # noqa: BLE001 -- whatever the program raises is this trial's result
            error, line = described(raised)
        return recorder.recording, error, line


def captured(graph_module: Any, _inputs: Any) -> Any:
    """Return the graph as torch captured it: a backend that generates nothing."""
    return graph_module.forward


# -- marks on the inputs whose sizes differ from call to call


def _marks(function: Callable[..., Any], calls: Sequence[Call]) -> Change | None:
    """Marks for the sizes of input tensors that differ; None if none do."""
    tables = [{str(path): (path, tensor) for path, tensor in call.tensors} for call in calls]
    found: dict[str, tuple[int, ...]] = {}
    for key, (_, tensor) in tables[0].items():
        shapes = {tuple(table[key][1].shape) for table in tables if key in table}
        if len({len(shape) for shape in shapes}) == 1:
            dims = tuple(dim for dim in range(tensor.dim()) if len({shape[dim] for shape in shapes}) > 1)
            if dims:
                found[key] = dims
    places = tuple(
        (call, position, dim)
        for call, table in enumerate(tables)
        for position, key in enumerate(table)
        for dim in found.get(key, ())
    )
    names = _parameters(function)
    code = tuple(_written(names, tables[0][key][0], dims) for key, dims in found.items())
    return Change(MARKS.name, code, MARKS.price, MARKS.unless, marks=places) if places else None


def _written(names: Sequence[str], path: Any, dims: tuple[int, ...]) -> str:
    (first, *rest) = path[1:]
    where = getattr(first, "idx", None)
    if where is None:
        name = str(getattr(first, "key", first))
    else:
        name = names[where] if where < len(names) else f"args[{where}]"
    return f"torch._dynamo.mark_dynamic({name}{''.join(map(str, rest))}, {dims[0] if len(dims) == 1 else list(dims)})"


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        known = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function).parameters
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in known.items() if parameter.kind in positional]
