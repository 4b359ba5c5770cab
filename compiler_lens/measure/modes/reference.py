"""What the results should be: the program run in double precision, and how far others are from that."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import torch

from compiler_lens.capture.torch_api.measuring import TorchDispatchMode
from compiler_lens.facts.measured.modes import Deviation
from compiler_lens.measure.program import leaves

Results = list[torch.Tensor]

_WIDER = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
          torch.complex64: torch.complex128}  # fmt: skip
_CHANCE = 0.05  # two runs of a program that draws no random numbers do not differ by more


def kept(result: Any) -> Results:
    """Return the floating tensors of a result, as doubles in main memory: a later call may write over the others."""
    tensors = [leaf for leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
    return [_double(leaf) for leaf in tensors if leaf.is_floating_point() or leaf.is_complex()]


def gradients(tensors: Iterable[torch.Tensor]) -> Results:
    """Return the gradients that a backward left, in the tensors' order."""
    return [_double(t.grad) for t in tensors if t.is_leaf and t.grad is not None]


def _double(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu()  # before it is widened: not every device has doubles
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64, copy=True)


def widen(tensors: Iterable[torch.Tensor]) -> None:
    """Make doubles of all floating tensors, in place, that share memory as they do: `State.restore` undoes it."""
    narrow = [tensor for tensor in tensors if tensor.dtype in _WIDER]
    users = Counter(map(_memory, narrow))
    wide: dict[Hashable, torch.Tensor] = {}
    for tensor in narrow:
        place, dtype = _memory(tensor), _WIDER[tensor.dtype]
        tensor.grad = None
        if users[place] == 1:
            tensor.data = tensor.data.to(dtype)
            continue
        if place not in wide:
            whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
            wide[place] = whole.to(dtype)
        tensor.data = wide[place].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    torch.set_default_dtype(torch.float64)


def _memory(tensor: torch.Tensor) -> Hashable:
    try:
        return tensor.device, tensor.dtype, tensor.untyped_storage().data_ptr() or id(tensor)
    except (RuntimeError, NotImplementedError):  # sparse and opaque tensors have no storage
        return id(tensor)


class Doubles(TorchDispatchMode):  # type: ignore[misc]  # torch does not type it
    """No op makes less than doubles, though the program asks for bf16 or f32 by name."""

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def wider(value: Any) -> Any:
            return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value

        if func is not torch.ops.aten.view.dtype:  # which takes the very bits for another type
            args = tuple(map(wider, args))
            kwargs = {name: wider(value) for name, value in (kwargs or {}).items()}
        return func(*args, **(kwargs or {}))


def deviation(results: Sequence[torch.Tensor], reference: Sequence[torch.Tensor]) -> Deviation | None:
    """Return how far results are from a reference. None if there is nothing to compare, or it has another form."""
    if not reference or [t.shape for t in results] != [t.shape for t in reference]:
        return None
    pairs = [(a, b) for a, b in zip(results, reference, strict=True) if b.numel()]
    if not pairs:
        return None
    relative: list[float] = []
    for result, expected in pairs:
        apart, size = (float(torch.linalg.vector_norm(t)) for t in (result - expected, expected))
        relative.append(0.0 if apart == 0.0 else apart / size if size else math.inf)
    largest = [float((result - expected).abs().max()) for result, expected in pairs]
    return Deviation(*(max(math.inf if math.isnan(v) else v for v in values) for values in (relative, largest)))


def depends_on_chance(results: Sequence[torch.Tensor], again: Sequence[torch.Tensor]) -> bool:
    """Return whether two runs with different seeds differ by more than rounding."""
    found = deviation(results, again)
    return found is not None and not found.relative <= _CHANCE
