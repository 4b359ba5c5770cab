"""Tensors as they were: their own properties, and the bytes that they lie in, which several may share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from compiler_lens.capture.torch_api.tensors import is_traceable_wrapper_subclass, set_version, version_of


class Tensors:
    """Tensors to come back to, bit for bit."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = [_Tensor(tensor) for tensor in tensors]
        self._memory = list(_memory(tensors))

    def restore(self) -> None:
        """Put everything back that has changed."""
        for tensor in self._tensors:
            tensor.restore()
        for here, kept in self._memory:
            if not torch.equal(here, kept.to(here.device)):
                here.copy_(kept)
        for tensor in self._tensors:
            tensor.restore_version()


class _Tensor:
    """A tensor's own properties; its bytes are kept apart, several tensors may share them."""

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
        yield here, _copy(here)


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


def _copy(here: torch.Tensor) -> torch.Tensor:
    try:
        return here.clone()
    except torch.OutOfMemoryError:
        return here.cpu()
