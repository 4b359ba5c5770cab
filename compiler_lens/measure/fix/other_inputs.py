"""Calls of a compiled function with other inputs than the program's own, made before the program's call.

They are made in a copy of the process, which can change nothing outside of it. There each begins with what the one
before has changed put back, as far as it can be reached from the function.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import FrameType
from typing import Any

import torch
from msgspec import Struct

from compiler_lens.capture.torch_api import dynamo
from compiler_lens.capture.torch_api.measuring import pytree
from compiler_lens.facts.measured.other_inputs import Counted, CountedCall, Unmade, Untried, Way
from compiler_lens.measure.fix.graphs import Graphs
from compiler_lens.measure.fix.inputs import made, not_made, ways
from compiler_lens.measure.fix.objects import Named, generators, held, roots_of
from compiler_lens.measure.fix.results import Keeper, Kept, keep_changed, looked_into, packed
from compiler_lens.measure.program import described, leaves
from compiler_lens.measure.sandbox import copies
from compiler_lens.measure.sandbox.copies import REFUSED, Tell, told_by_a_copy
from compiler_lens.measure.sandbox.restoring import restoring_state

_CALLS = 2  # of each compiled function, that are made with other inputs
_MOST = 24  # of all of them
_SECONDS = 30.0  # that all may take
_SILENCE = 10.0  # seconds for one
_OF_FORKS = "Autograd-and-Fork"  # an error that says nothing of a function: it is only raised in a copy

Reached = Callable[[Any], Sequence[torch.Tensor]]


def impossible() -> Untried | None:
    """Return why calls with other inputs cannot be made here; None where they can."""
    if torch.accelerator.is_available():
        return Untried.ACCELERATOR
    return None if copies.can_keep_memory_apart() else Untried.MEMORY


class CountedLines:
    """Counts how often lines of some files run, while calls are made without torch.compile."""

    def __init__(self, files: frozenset[str]) -> None:
        self._files = files
        self._counts: dict[tuple[str, int], list[int]] = {}
        self._column = 0  # of the counts

    @property
    def counts(self) -> list[tuple[str, int, int, int]]:
        """File, line, how often it ran in the program's own calls, and in others: for `add` in another process."""
        return [(file, line, own, other) for (file, line), (own, other) in self._counts.items()]

    def add(self, counts: Iterable[tuple[str, int, int, int]]) -> None:
        """Add what was counted in a copy of this process, which forgot what was before."""
        for file, line, own, other in counts:
            known = self._counts.setdefault((file, line), [0, 0])
            known[:] = known[0] + own, known[1] + other

    @staticmethod
    def of(call: int, way: Way, counts: Iterable[tuple[str, int, int, int]]) -> CountedCall:
        """Return what was counted in one call with other inputs."""
        lines: dict[str, dict[int, int]] = {}
        for file, line, _, other in counts:
            lines.setdefault(file, {})[line] = other
        return CountedCall(call, way, lines)

    def forget(self) -> None:
        """Count from nothing."""
        self._counts.clear()

    @property
    def counted(self) -> Counted:
        """How often each line ran: in the program's own calls, and in others."""
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for (file, number), (own, other) in self._counts.items():
            found.setdefault(file, {})[number] = own, other
        return found

    @contextlib.contextmanager
    def counting(self, *, with_others: bool = False) -> Iterator[None]:
        """Count the lines of this thread while the block runs."""
        if not self._files or sys.gettrace() is not None:  # a debugger's
            yield
            return
        self._column = int(with_others)
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            key = frame.f_code.co_filename, frame.f_lineno
            self._counts.setdefault(key, [0, 0])[self._column] += 1
        return self._line


class OtherCalls:
    """Makes calls with other inputs, and keeps what they give.

    Args:
        lines: counts the lines that run in these calls.
        graphs: what AOTAutograd makes of a graph shows in the program's own calls; these run what Dynamo captured.
        is_compiled: the function is compiled by its own backend: calls are made once it was, with inputs for which the
            same code runs, as nothing can be compiled in a copy. What a compiler would write, it may not.
    """

    def __init__(self, lines: CountedLines, graphs: Graphs, *, is_compiled: bool = False) -> None:
        self.keeper = Keeper()
        self.lost: list[tuple[int, Way]] = []  # calls that did not come to their end
        self.unmade: list[Unmade] = []
        self.counted: list[CountedCall] = []  # how often lines ran in each
        self._lines, self._graphs = lines, graphs
        self._is_compiled = is_compiled
        self._made: dict[int, int] = {}  # calls of each function, by its number
        self._seconds = 0.0

    @property
    def is_done(self) -> bool:
        """Whether no more calls are made."""
        return sum(self._made.values()) >= _MOST or self._seconds > _SECONDS

    def before(self, function: Callable[..., Any], call: int, given: Any, reached: Reached) -> None:
        """Make a call of the program with other inputs, before the program makes it.

        Args:
            function: what torch.compile made.
            call: the number of outermost calls before it.
            given: its arguments: a tuple and a dict.
            reached: returns the leaves, in one order in each run, that a result has gradients for.
        """
        number = self._made.get(id(function), 0)
        if self.is_done or number >= _CALLS:
            return
        self._made[id(function)] = number + 1
        if self._is_compiled and not number:
            return
        begun = time.perf_counter()
        left = [way for way in ways(dynamo.as_written(function)[0], given) if self._is_wanted(way)]
        if not (self._is_compiled or any(way.inputs.has_other_tensors for way in left)):
            self.unmade.append(Unmade(call, not_made(given)))
        while left and self._seconds + time.perf_counter() - begun <= _SECONDS:
            calls = partial(self._in_a_copy, _Asked(function, call, given, reached, tuple(left), self._is_compiled))
            for message in told_by_a_copy(calls, _SILENCE):
                self._hear(message, call, left.pop(0))
            # Where not all are told, the copy came to its end in the first one that is left.
            self.lost += [(call, one) for one in left[:1]]
            left = left[1:]
        self.lost += [(call, one) for one in left]
        self._seconds += time.perf_counter() - begun

    def _is_wanted(self, way: Way) -> bool:
        return not self._is_compiled or (way.inputs.is_alike and way.inputs.has_other_tensors)

    def _hear(self, message: bytes, call: int, way: Way) -> None:
        kept, counts = torch.load(io.BytesIO(message), weights_only=True)
        self.keeper.kept += [Kept(*one) for one in kept]
        self._lines.add(counts)
        self.counted += [CountedLines.of(call, way, counts)] if counts else []

    def _in_a_copy(self, asked: _Asked, tell: Tell) -> None:
        torch.set_num_threads(1)  # the threads of this process were not copied
        self._graphs.is_plain = True
        written, _ = dynamo.as_written(asked.function)
        with restoring_state(written, asked.given) as state:
            for way in asked.ways:
                random.seed(0)  # how far it has come in this process depends on what was compiled in it
                self._lines.forget()
                kept = _called(asked, way, self._lines)
                state.restore()
                buffer = io.BytesIO()
                torch.save(([packed(one) for one in kept], self._lines.counts), buffer)
                tell(buffer.getvalue())


class _Asked(Struct, frozen=True):
    """A call to make with other inputs."""

    function: Callable[..., Any]
    call: int
    given: Any
    reached: Reached
    ways: tuple[Way, ...]
    is_compiled: bool  # by a backend that may write, of which an error says nothing


def _called(asked: _Asked, way: Way, lines: CountedLines) -> Sequence[Kept]:
    """Make a call, and return what it gives."""
    written, _ = dynamo.as_written(asked.function)
    given, keeper = made(way, written, asked.given), Keeper()
    tensors = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]
    copies = [tensor.detach().clone() for tensor in tensors]
    roots = [*roots_of(written), *_named(given)]
    before = looked_into(held(roots))
    try:
        with lines.counting(with_others=True):
            result = asked.function(*given[0], **given[1])
        changed = [tensor for tensor, copy in zip(tensors, copies, strict=True) if not _is_same(tensor, copy)]
        gradients = _gradients(result, [*asked.reached(result), *tensors])
    except Exception as error:  # noqa: BLE001 -- what the function raises is what it gives
        if not ((asked.is_compiled and REFUSED in str(error)) or _OF_FORKS in str(error)):
            keeper.keep("error", asked.call, [described(error)[0]], way.text)
        return keeper.kept
    keeper.keep("result", asked.call, leaves(result), way.text)
    keeper.keep("argument", asked.call, changed, way.text)
    keeper.keep("gradient", asked.call, gradients, way.text)
    keep_changed(keeper, asked.call, before, held(roots), way.text)
    keeper.keep_named("generator", asked.call, generators(), way.text)
    return keeper.kept


def _named(given: Any) -> list[Named]:
    """Return arguments with what they are called: those by position by their numbers."""
    return [*((f"argument {number}", one) for number, one in enumerate(given[0], 1)), *given[1].items()]


def _gradients(result: Any, wanted: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """Run a backward from all that a result has, and return the gradients of leaves, which keep those that they had."""
    ends = [leaf for leaf in leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not ends or not torch.is_grad_enabled():
        return []
    every = {id(leaf): leaf for leaf in wanted if leaf.is_leaf and leaf.requires_grad}
    before = [leaf.grad for leaf in every.values()]
    for leaf in every.values():
        leaf.grad = None
    try:
        torch.autograd.backward([(end.abs() if end.is_complex() else end).sum() for end in ends])
        return [leaf.grad for leaf in every.values()]
    finally:
        for leaf, gradient in zip(every.values(), before, strict=True):
            leaf.grad = gradient


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    kept = one.detach()
    return kept.shape == other.shape and bool(torch.allclose(kept, other, rtol=0, atol=0, equal_nan=True))
