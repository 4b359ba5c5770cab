"""What if: every configuration of torch.compile that could matter, tried on the real model and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from compiler_lens.facts.measured.what_if import NotTried, Trial, WhatIf, breaks_left, count
from compiler_lens.measure.calls import as_calls, marks
from compiler_lens.measure.changes import CHANGES, MARKS, SCALARS, SIZES, Change, wanted
from compiler_lens.measure.restoring_state import code_caches_apart, restoring_state
from compiler_lens.measure.settings import quiet
from compiler_lens.measure.trial import (
    Observed,
    Program,
    callable_of,
    described,
    has_setting,
    is_set,
    observe,
    warm_up,
)
from compiler_lens.recording.errors import UsageError

if TYPE_CHECKING:
    from compiler_lens.recording.model import SourceLine

_MOST = 16  # trials: each compiles the whole program

_Chosen = tuple[Change, ...]


class Result(WhatIf):
    """A `WhatIf` that prints itself."""

    __slots__ = ()

    def report(self, *, width: int | None = None, color: bool | None = None) -> str:
        """The trials as a table that ends with what to do."""
        from compiler_lens.views.console.what_if import what_if_report

        return what_if_report(self, width=width, color=color)

    def to_json(self) -> str:
        """The same for programs."""
        from compiler_lens.views.console.what_if import what_if_json

        return what_if_json(self)

    def __str__(self) -> str:
        return self.report().rstrip("\n")


def what_if(
    model: Callable[..., Any], *inputs: Any, calls: Any = None, training: bool = False, **kwargs: Any
) -> Result:
    """Try the settings that could matter on a model, and say what each would do to graphs, breaks and recompiles.

        print(compiler_lens.what_if(model, x))
        print(compiler_lens.what_if(model, calls=[((x,), {}), ((longer,), {})]))

    Nothing is generated: graphs run as Dynamo captured them. One set of inputs is called twice. What a call may
    change (parameters, buffers, gradients, attributes, random states, inputs) is afterwards as it was before. Not put
    back: other objects of libraries (iterators, `array.array`, locks), global names that only methods other than
    `forward` and `__call__` mention, sparse tensors that are changed in place, and what is outside of Python.

    torch keeps compiled code per process and cannot set it aside: what the process has compiled before is dropped,
    and compiles again when it is next called (quickly, from warm caches). Call this before you train, or beside it.

    Args:
        calls: several sets of inputs, `[(args, kwargs), …]`: sizes that differ between them are tried as dynamic.
        training: run a backward after each call, from `.loss` or the sum of the first result that has a gradient.

    Raises:
        UsageError: the model cannot be called with these inputs, or cannot be tried.
    """
    function, dynamic = callable_of(model, "what_if")
    program = Program(function, as_calls(inputs, kwargs, calls), training, dynamic)
    with quiet(), restoring_state(program.function, program.inputs) as kept, code_caches_apart():
        warm_up()
        return _Session(program, kept.restore).result()


class _Session:
    """The trials of one program, in the making."""

    def __init__(self, program: Program, restore: Callable[[], None]) -> None:
        self._program, self._restore = program, restore
        self._marks = marks(program.function, program.calls)
        self._done: dict[frozenset[str], Trial] = {}
        self._wanted: dict[frozenset[str], _Chosen] = {}

    def result(self) -> Result:
        baseline = self._try(())
        first = self._possible(self._wanted[frozenset()])
        for change in first:
            self._follow((change,))
        if any(change in (SCALARS, SIZES) for change in first):
            self._follow(self._possible((SCALARS, SIZES)))
        helped = tuple(change for change in first if self._done[frozenset((change.name,))].helps)
        self._follow(_without_twins(helped))
        return Result((baseline, *list(self._done.values())[1:]), self._not_tried(), len(self._program.calls))

    def _follow(self, chosen: _Chosen) -> None:
        """Try some changes; then also what torch asks for only once these are made."""
        if not chosen or len(self._done) >= _MOST or _names(chosen) in self._done:
            return
        self._try(chosen)
        known = {change.name for change in self._wanted[frozenset()]}
        for change in self._possible(self._wanted[_names(chosen)]):
            if change.name not in known and change not in chosen and change.asked_by:
                self._follow(_in_order((*chosen, change)))

    def _try(self, chosen: _Chosen) -> Trial:
        try:
            observed = observe(self._program, chosen)
        finally:
            self._restore()
        if observed.error and not chosen:
            self._check_eager()
        before = self._done[frozenset()].after if chosen else None
        trial = _trial(chosen, observed, before)
        self._done[_names(chosen)] = trial
        self._wanted[_names(chosen)] = wanted(observed.recording, self._marks)
        return trial

    def _check_eager(self) -> None:
        """Raise `UsageError` if the program fails without torch.compile, too."""
        try:
            self._program.run(self._program.function)
        except UsageError:
            raise
        except Exception as error:
            message, line = described(error)
            raise UsageError(f"the model fails without torch.compile, too: {message}{_at(line)}") from error
        finally:
            self._restore()

    def _possible(self, changes: Sequence[Change]) -> _Chosen:
        return tuple(change for change in changes if not self._obstacle(change))

    def _obstacle(self, change: Change) -> str:
        if not all(map(has_setting, change.config)):
            return "this torch does not have it"
        if is_set(change) or (change.dynamic is not None and change.dynamic == self._program.dynamic):
            return "set already"
        return ""

    def _not_tried(self) -> tuple[NotTried, ...]:
        tried = {name for names in self._done for name in names}
        left = [change for change in CHANGES if change.name not in tried]
        return tuple(NotTried(change.name, self._obstacle(change) or change.unless) for change in left)


def _trial(chosen: _Chosen, observed: Observed, before: Any) -> Trial:
    after = None if observed.error else count(observed.recording)
    return Trial(
        name=" + ".join(change.name for change in chosen) or "as it is",
        code=tuple(line for change in chosen for line in change.code),
        price="; ".join(change.price for change in chosen),
        before=before if chosen else after,
        after=after,
        error=observed.error,
        error_line=observed.error_line,
        left=breaks_left(observed.recording),
        problems=observed.recording.problems,
    )


def _names(chosen: _Chosen) -> frozenset[str]:
    return frozenset(change.name for change in chosen)


def _in_order(chosen: _Chosen) -> _Chosen:
    order = [change.name for change in CHANGES]
    return tuple(sorted(chosen, key=lambda change: order.index(change.name)))


# Three ways to one thing: together they are no more than the first.
_TWINS = ("dynamic=True", MARKS.name, "assume_static_by_default", "specialize_int", "specialize_float")


def _without_twins(helped: _Chosen) -> _Chosen:
    twins = [change for change in helped if change.name in _TWINS]
    return tuple(change for change in helped if change not in twins[1:])


def _at(line: SourceLine | None) -> str:
    return f" ({line.file}:{line.line})" if line else ""
