"""What if: every configuration of torch.compile that could matter, tried on the real model and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler_lens.facts.measured.what_if import NotTried, Trial, WhatIf, breaks_left, count
from compiler_lens.measure.calls import as_calls
from compiler_lens.measure.program import Program, callable_of, described, placed
from compiler_lens.measure.sandbox.restoring import code_caches_apart, quiet, restoring_state
from compiler_lens.measure.what_if.changes import CHANGES, MARKS, SCALARS, SIZES, Change, wanted
from compiler_lens.measure.what_if.marks import marks
from compiler_lens.measure.what_if.trial import Observed, observe, obstacle, warm_up
from compiler_lens.recording.errors import UsageError

_ORDER = [change.name for change in CHANGES]
_MOST = 16  # trials: each compiles the whole program

# Three ways to one thing: together they are no more than the first.
_TWINS = ("dynamic=True", MARKS.name, "assume_static_by_default", "specialize_int", "specialize_float")

_Chosen = tuple[Change, ...]


def tried(model: Callable[..., Any], given: tuple[Any, Any, Any], *, training: bool) -> WhatIf:
    """Try what could matter on a model, of which `given` are inputs, named inputs and calls. See `what_if`."""
    function, dynamic = callable_of(model, "what_if")
    program = Program(function, as_calls(*given), training, dynamic)
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

    def result(self) -> WhatIf:
        baseline = self._try(())
        first = self._possible(self._wanted[frozenset()])
        for change in first:
            self._follow((change,))
        if any(change in (SCALARS, SIZES) for change in first):
            self._follow(self._possible((SCALARS, SIZES)))
        helped = tuple(change for change in first if self._done[frozenset((change.name,))].helps)
        twins = [change for change in helped if change.name in _TWINS]
        self._follow(tuple(change for change in helped if change not in twins[1:]))
        return WhatIf((baseline, *list(self._done.values())[1:]), self._not_tried(), len(self._program.calls))

    def _follow(self, chosen: _Chosen) -> None:
        """Try some changes; then also what torch asks for only once these are made."""
        if not chosen or len(self._done) >= _MOST or _names(chosen) in self._done:
            return
        self._try(chosen)
        known = {change.name for change in self._wanted[frozenset()]}
        for change in self._possible(self._wanted[_names(chosen)]):
            if change.name not in known and change not in chosen and change.asked_by:
                self._follow(tuple(sorted((*chosen, change), key=lambda one: _ORDER.index(one.name))))

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
            raise UsageError(placed(f"the model fails without torch.compile, too: {message}", line)) from error
        finally:
            self._restore()

    def _possible(self, changes: Sequence[Change]) -> _Chosen:
        return tuple(change for change in changes if not self._obstacle(change))

    def _obstacle(self, change: Change) -> str:
        if change.dynamic is not None and change.dynamic == self._program.dynamic:
            return "set already"
        return obstacle(change.config)

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
