"""What a call of the user's program may change, kept and put back, bit for bit: all that `reached` finds."""

from __future__ import annotations

import functools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable
from types import CellType
from typing import Any

import torch

from compiler_lens.measure.sandbox.reached import Attributes, Globals, Slots, children, contents, reached
from compiler_lens.measure.sandbox.tensors import Tensors


class State:
    """A state to come back to."""

    def __init__(self, *roots: Any) -> None:
        self.values = reached(roots)
        self.tensors = [value for value in self.values if isinstance(value, torch.Tensor)]
        self._undo = [undo for value in self.values if (undo := _keep(value)) is not None]
        self._tensors = Tensors(self.tensors)

    def restore(self) -> None:
        """Put everything back that has changed."""
        for undo in self._undo:
            undo()
        self._tensors.restore()


# -- how a value is kept


def _keep(value: Any) -> Callable[[], object] | None:
    """A function that puts a value's content back; None for what has none, or is kept as a tensor."""
    if isinstance(value, (Globals, Slots, Attributes)):
        return value.restore
    if undo := _keep_generator(value):
        return undo
    if isinstance(value, bytearray):
        return functools.partial(_restore_bytes, value, bytes(value))
    if (type(value).__module__, type(value).__name__) == ("numpy", "ndarray"):
        return functools.partial(_restore_array, value, value.copy())
    if isinstance(value, dict):
        return functools.partial(_restore_dict, value, dict(value))
    restore = next((restore for kind, restore in _RESTORERS if isinstance(value, kind)), None)
    return restore and functools.partial(restore, value, list(children(value)))


def _keep_generator(value: Any) -> Callable[[], object] | None:
    """The same for a source of random numbers."""
    numpy = sys.modules.get("numpy.random")
    if isinstance(value, torch.Generator):
        return functools.partial(value.set_state, value.get_state())
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return functools.partial(value.setstate, value.getstate())
    if numpy and isinstance(value, (numpy.Generator, numpy.BitGenerator)):
        bits = getattr(value, "bit_generator", value)
        return functools.partial(setattr, bits, "state", bits.state)
    if numpy and isinstance(value, numpy.RandomState):
        return functools.partial(value.set_state, value.get_state(legacy=False))
    return None


def _same(now: Iterable[Any], then: Iterable[Any]) -> bool:
    now, then = list(now), list(then)
    return len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True))


def _restore_dict(value: dict[Any, Any], kept: dict[Any, Any]) -> None:
    if not (_same(value, kept) and _same(value.values(), kept.values())):
        value.clear()
        value.update(kept)


def _restore_list(value: list[Any], kept: list[Any]) -> None:
    if not _same(value, kept):
        value[:] = kept


def _restore_collection(value: Any, kept: list[Any]) -> None:
    if not _same(value, kept):
        value.clear()
        (value.extend if isinstance(value, deque) else value.update)(kept)


def _restore_cell(cell: CellType, kept: list[Any]) -> None:
    if not _same(contents(cell), kept):
        del cell.cell_contents
        for content in kept:
            cell.cell_contents = content


def _restore_bytes(value: bytearray, kept: bytes) -> None:
    if value != kept:
        value[:] = kept


def _restore_array(value: Any, kept: Any) -> None:
    if value.flags.writeable:
        value[...] = kept


_RESTORERS = (
    (list, _restore_list),
    (set, _restore_collection),
    (deque, _restore_collection),
    (CellType, _restore_cell),
)
