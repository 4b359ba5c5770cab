"""What a call of the user's program may change, kept and put back, bit for bit: all that `reached` finds.

Tensors are kept as their own properties, and the bytes that they lie in, which several may share.
"""

from __future__ import annotations

import contextlib
import operator
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType
from typing import Any

import torch

from compiler_lens.capture.torch_api.measuring import is_traceable_wrapper_subclass, set_version, version_of
from compiler_lens.measure.sandbox.reached import NamedValues, reached


class State:
    """A state to come back to."""

    def __init__(self, *roots: Any) -> None:
        self.values = reached(roots)
        self.tensors = [value for value in self.values if isinstance(value, torch.Tensor)]
        self._undo = [undo for value in self.values if (undo := _keep(value)) is not None]
        self._kept = [_Tensor(tensor) for tensor in self.tensors]
        self._memory = list(_memory(self.tensors))

    def restore(self) -> None:
        """Put everything back that has changed."""
        for undo in self._undo:
            undo()
        for tensor in self._kept:
            tensor.restore()
        for here, kept in self._memory:
            if not torch.equal(here, kept.to(here.device)):
                here.copy_(kept)
        for tensor in self._kept:
            tensor.restore_version()


# -- all but tensors


def _keep(value: Any) -> Callable[[], object] | None:
    """A function that puts a value's content back; None for what has none, or is kept as a tensor."""
    if isinstance(value, NamedValues):
        return value.restore
    if undo := _keep_generator(value):
        return undo
    if isinstance(value, bytearray):
        return partial(operator.setitem, value, slice(None), bytes(value))
    if (type(value).__module__, type(value).__name__) == ("numpy", "ndarray"):
        return partial(_restore_array, value, value.copy())
    if isinstance(value, (dict, list, set, deque, CellType)):
        return partial(_restore_content, value, _content(value))
    return None


def _keep_generator(value: Any) -> Callable[[], object] | None:
    """The same for a source of random numbers."""
    numpy = sys.modules.get("numpy.random")
    if isinstance(value, torch.Generator):
        return partial(value.set_state, value.get_state())
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        return partial(value.setstate, value.getstate())
    if numpy and isinstance(value, (numpy.Generator, numpy.BitGenerator)):
        bits = getattr(value, "bit_generator", value)
        return partial(setattr, bits, "state", bits.state)
    if numpy and isinstance(value, numpy.RandomState):
        return partial(value.set_state, value.get_state(legacy=False))
    return None


def _restore_array(value: Any, kept: Any) -> None:
    if value.flags.writeable:
        value[...] = kept


def _content(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, CellType):
        with contextlib.suppress(ValueError):  # it has no value yet
            return [value.cell_contents]
        return []
    return list(value)


def _restore_content(value: Any, kept: list[Any]) -> None:
    now = _content(value)
    if len(now) == len(kept) and all(map(operator.is_, now, kept)):
        return
    if isinstance(value, CellType):
        del value.cell_contents
        for content in kept:
            value.cell_contents = content
    elif isinstance(value, list):
        value[:] = kept
    else:
        value.clear()
        half = len(kept) // 2
        if isinstance(value, dict):
            value.update(dict(zip(kept[:half], kept[half:], strict=True)))  # a Counter would count pairs
        else:
            (value.extend if isinstance(value, deque) else value.update)(kept)


# -- tensors


class _Tensor:
    """A tensor's own properties."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._alias = tensor.detach()
        self._is_leaf, self._requires_grad = tensor.is_leaf, tensor.requires_grad
        self._has_grad = tensor.is_leaf or tensor.retains_grad
        self._grad = tensor.grad if self._has_grad else None
        self._version = None if tensor.is_inference() else version_of(tensor)

    def restore(self) -> None:
        tensor = self._tensor
        if self._is_leaf and not tensor.is_leaf:  # changed in place, by what needs a gradient
            with contextlib.suppress(RuntimeError):  # a view
                tensor.detach_()
        if _layout(tensor) != _layout(self._alias):
            tensor.data = self._alias
        if self._is_leaf and tensor.is_leaf and tensor.requires_grad is not self._requires_grad:
            tensor.requires_grad_(self._requires_grad)
        if self._has_grad and tensor.grad is not self._grad:
            tensor.grad = self._grad

    def restore_version(self) -> None:
        """Autograd counts changes in place: a backward of the user's own may come yet, and must find none."""
        if self._version is not None and version_of(self._tensor) != self._version:
            set_version(self._tensor, self._version)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    try:
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
    except (RuntimeError, NotImplementedError):  # sparse, a wrapper
        return (tensor.shape, tensor.dtype)


def _memory(tensors: Iterable[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The bytes that tensors lie in, each stretch once, with a copy."""
    seen: set[tuple[Any, ...]] = set()
    for tensor in tensors:
        here = _bytes(tensor)
        if here is None or (key := (str(here.device), here.data_ptr(), here.numel())) in seen:
            continue
        seen.add(key)
        try:
            yield here, here.clone()
        except torch.OutOfMemoryError:
            yield here, here.cpu()


def _bytes(tensor: torch.Tensor) -> torch.Tensor | None:
    """The stretch of memory from a tensor's first element to its last, as a tensor of bytes."""
    if tensor.device.type == "meta" or is_traceable_wrapper_subclass(tensor) or not tensor.numel():
        return None
    try:
        width = tensor.element_size()
        extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        storage, start = tensor.untyped_storage(), tensor.storage_offset() * width
        if storage.nbytes() < start + extent * width:
            return None
        empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        return empty.set_(storage, start, (extent * width,), (1,))
    except (RuntimeError, NotImplementedError):  # sparse and opaque tensors have no storage
        return None
