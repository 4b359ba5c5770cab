"""Calls of a compiled function with other inputs than the program's own, made before the program's call.

What such a call changes is put back, as far as it can be reached from the function, so that the program goes on as if
it had not been made.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

import torch

from compiler_lens.capture.torch_api import dynamo
from compiler_lens.capture.torch_api.measuring import pytree
from compiler_lens.facts.measured.other_inputs import Counted, Inputs
from compiler_lens.measure.fix.results import Keeper
from compiler_lens.measure.program import described, leaves
from compiler_lens.measure.sandbox.restoring import restoring_state

_CALLS = 2  # of each compiled function, that are made with other inputs
_MOST = 8  # of all of them
_SECONDS = 20.0  # that all may take
_LARGE = 1_000

Reached = Callable[[Any], Sequence[torch.Tensor]]
_Keep = Callable[[str, Sequence[Any]], None]


class CountedLines:
    """Counts how often lines of some files run, while calls are made without torch.compile."""

    def __init__(self, files: frozenset[str]) -> None:
        self._files = files
        self._counts: dict[tuple[str, int], list[int]] = {}
        self._column = 0  # of the counts

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
    """

    def __init__(self, lines: CountedLines) -> None:
        self.keeper = Keeper()
        self._lines = lines
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
        begun = time.perf_counter()
        written, _ = dynamo.as_written(function)
        with restoring_state(written, given) as kept:
            for inputs in Inputs:
                others = _made(inputs, given)
                if others is not None and time.perf_counter() - begun + self._seconds <= _SECONDS:
                    self._one(function, others, reached, partial(self._keep, inputs, call))
                    kept.restore()
        self._seconds += time.perf_counter() - begun

    def _keep(self, inputs: Inputs, call: int, kind: str, values: Sequence[Any]) -> None:
        self.keeper.keep(kind, call, values, inputs.value)

    def _one(self, function: Callable[..., Any], given: Any, reached: Reached, keep: _Keep) -> None:
        tensors = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]
        copies = [tensor.detach().clone() for tensor in tensors]
        try:
            with self._lines.counting(with_others=True):
                result = function(*given[0], **given[1])
            changed = [tensor for tensor, copy in zip(tensors, copies, strict=True) if not _is_same(tensor, copy)]
            gradients = _gradients(result, [*reached(result), *tensors])
        except Exception as error:  # noqa: BLE001 -- what the function raises is what it gives
            keep("error", [described(error)[0]])
            return
        keep("result", leaves(result))
        keep("argument", changed)
        keep("gradient", gradients)


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


# -- the inputs


def _made(inputs: Inputs, given: Any) -> Any:
    """Return arguments made of others; None where they would be the same, or cannot be made."""
    tensors = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]
    if not all(map(_is_plain, tensors)) or (inputs is Inputs.ONE_ROW and not _have_rows(tensors)):
        return None
    if inputs is Inputs.GRADIENTS and not torch.is_grad_enabled():
        return None
    new = {id(one): _new(inputs, one) for one in tensors}  # one tensor that is given twice stays one
    if all(new[id(one)] is one for one in tensors):
        return None
    return pytree.tree_map_only(torch.Tensor, lambda one: new[id(one)], given)


def _is_plain(tensor: torch.Tensor) -> bool:
    is_known = type(tensor) in {torch.Tensor, torch.nn.Parameter} and tensor.layout is torch.strided
    return is_known and not (tensor.is_nested or tensor.is_meta or tensor.is_quantized or tensor.is_inference())


def _have_rows(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all tensors have the same number of rows, more than one."""
    rows = {len(one) if one.dim() else 1 for one in tensors}
    return len(rows) == 1 and rows != {1}


def _new(inputs: Inputs, tensor: torch.Tensor) -> torch.Tensor:
    """Return another tensor in place of one; that one itself where there is none of this kind."""
    kind = "float" if tensor.is_floating_point() else "bool" if tensor.dtype is torch.bool else "int"
    make = None if tensor.is_complex() or not tensor.numel() else _NEW[inputs].get(kind)
    with torch.no_grad():
        made = make(tensor.detach()) if make else None
    if made is None:
        return tensor
    return made.requires_grad_(tensor.requires_grad or inputs is Inputs.GRADIENTS) if kind == "float" else made


def _turned(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.flip(*range(tensor.dim()))


def _with_nan(tensor: torch.Tensor) -> torch.Tensor:
    new = tensor.clone()
    new[(0,) * tensor.dim()] = torch.nan
    return new


def _strided(tensor: torch.Tensor) -> torch.Tensor | None:
    return torch.stack((tensor, tensor), -1)[..., 0] if tensor.dim() else None


def _first_row(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].clone()


_Make = Callable[[torch.Tensor], "torch.Tensor | None"]
_NEW: Mapping[Inputs, Mapping[str, _Make]] = {
    Inputs.NEGATED: {"float": torch.neg, "bool": torch.logical_not, "int": _turned},  # an index may not be negative
    Inputs.ZEROS: dict.fromkeys(("float", "bool", "int"), torch.zeros_like),
    Inputs.ONES: dict.fromkeys(("float", "bool"), torch.ones_like),
    Inputs.LARGE: {"float": lambda tensor: tensor * _LARGE},
    Inputs.NAN: {"float": _with_nan},
    Inputs.HALF: {"float": lambda tensor: None if tensor.dtype is torch.float16 else tensor.half()},
    Inputs.DOUBLE: {"float": lambda tensor: None if tensor.dtype is torch.float64 else tensor.double()},
    Inputs.ONE_ROW: dict.fromkeys(("float", "bool", "int"), _first_row),
    Inputs.STRIDED: dict.fromkeys(("float", "bool", "int"), _strided),
    Inputs.GRADIENTS: {"float": lambda tensor: None if tensor.requires_grad else tensor.clone()},
}
