"""What a program computes, kept and compared: results of compiled calls, gradients, parameters at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct

from compiler_lens.facts.measured.fix import Difference
from compiler_lens.facts.measured.other_inputs import Gave, Inputs, OtherCall
from compiler_lens.recording.model import Results

_MOST = 256 << 20  # bytes that are kept of a run
_LARGEST = 1 << 20  # elements of a tensor that is kept whole
_SAMPLE = 1 << 16  # elements that are kept of a larger one, besides its mean

_PLAIN = (bool, int, float, complex, str, type(None))


class Kept(Struct, frozen=True):
    """One value."""

    kind: str  # as in `Difference`
    call: int
    index: int
    value: Any  # a tensor on the CPU, or a plain value; of anything else its type's name
    inputs: str = ""  # how they were made, of a call with others than the program's own


class Keeper:
    """Keeps values of a run, in the order in which they come, up to a size."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self._bytes = 0

    @property
    def is_whole(self) -> bool:
        """Whether everything was kept."""
        return self._bytes <= _MOST

    def keep(self, kind: str, call: int, values: Iterable[Any], inputs: str = "") -> None:
        """Keep values of one kind."""
        for index, value in enumerate(values):
            if self.is_whole:
                self.kept += [Kept(kind, call, index, part, inputs) for part in self._parts(value)]

    def _parts(self, value: Any) -> list[Any]:
        if not isinstance(value, torch.Tensor) or torch.nn.parameter.is_lazy(value):
            return [value if isinstance(value, _PLAIN) else type(value).__qualname__]
        parts = _parts(value.detach())
        self._bytes += sum(part.nbytes for part in parts if isinstance(part, torch.Tensor))
        return parts


def _parts(tensor: torch.Tensor) -> list[Any]:
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested:
        return [type(tensor).__qualname__, str(tensor.dtype), "" if tensor.is_nested else str(tuple(tensor.shape))]
    if tensor.numel() <= _LARGEST:
        return [tensor.to("cpu", copy=True)]
    flat = tensor.reshape(-1)
    mean = flat.abs().mean() if tensor.is_complex() else flat.to(torch.float32).mean()
    return [str(tuple(tensor.shape)), flat[:: len(flat) // _SAMPLE].to("cpu", copy=True), mean.cpu()]


def save(kept: Sequence[Kept], path: Path) -> None:
    """Write what a run computed, for `load`."""
    torch.save([[one.kind, one.call, one.index, one.value, one.inputs] for one in kept], path)


def load(path: Path) -> list[Kept]:
    """Return what another process of ours wrote: tensors and plain values, nothing else is unpickled."""
    return [Kept(*entry) for entry in torch.load(path, weights_only=True)]


def compared(kept: Sequence[Kept], reference: Sequence[Kept]) -> tuple[Results, Difference | None]:
    """Return whether two runs computed the same, up to the rounding that torch.testing allows for a dtype."""
    for one, other in zip(kept, reference, strict=False):
        if (one.kind, one.call, one.index) != (other.kind, other.call, other.index):
            break
        if not _is_close(one.value, other.value) and not _is_zero_for_none(one, other):
            return Results.DIFFER, Difference(one.kind, one.call, one.index, _largest(one.value, other.value))
    else:
        if len(kept) == len(reference):
            return Results.EQUAL, None
    before, after = _calls(reference), _calls(kept)
    if before != after:
        return Results.DIFFER, Difference("call", min(before, after), 0, numbers=(before, after))
    counted, counted_before = (Counter((k.kind, k.call) for k in side) for side in (kept, reference))
    kind, call = next(key for key in (*counted_before, *counted) if counted[key] != counted_before[key])
    numbers = counted_before[kind, call], counted[kind, call]
    return Results.DIFFER, Difference(kind, call, 0, numbers=numbers)


def zero_gradients(kept: Sequence[Kept], reference: Sequence[Kept]) -> int:
    """Return how many gradients are zeros where another run has none: the same, but to an optimizer with a memory."""
    return sum(_is_zero_for_none(one, other) for one, other in zip(kept, reference, strict=False))


def _is_zero_for_none(one: Kept, other: Kept) -> bool:
    is_new = one.kind == other.kind == "gradient" and other.value is None and isinstance(one.value, torch.Tensor)
    return is_new and not bool(one.value.any())


def compared_calls(kept: Sequence[Kept], reference: Sequence[Kept]) -> tuple[OtherCall, ...]:
    """Return what calls with other inputs gave, beside the same calls of another run; of those that both made."""
    made, others = _by_call(kept), _by_call(reference)
    return tuple(_compared_call(key, values, others[key]) for key, values in made.items() if key in others)


def _by_call(kept: Sequence[Kept]) -> Mapping[tuple[int, str], Sequence[Kept]]:
    found: dict[tuple[int, str], list[Kept]] = {}
    for one in kept:
        found.setdefault((one.call, one.inputs), []).append(one)
    return found


def _compared_call(key: tuple[int, str], kept: Sequence[Kept], reference: Sequence[Kept]) -> OtherCall:
    call, inputs = key[0], Inputs(key[1])
    raises, raised = (side[0].kind == "error" for side in (kept, reference))
    if raises or raised:
        gave = Gave.ERROR_IN_BOTH if raises and raised else Gave.ERROR if raises else Gave.NO_ERROR
        return OtherCall(call, inputs, gave, error=str(kept[0].value) if raises else "")
    results, difference = compared(kept, reference)
    if results is Results.EQUAL or difference is None:
        return OtherCall(call, inputs, Gave.SAME)
    return OtherCall(call, inputs, Gave.OTHER, difference.kind, difference.index, difference.largest)


def _calls(kept: Sequence[Kept]) -> int:
    return len({one.call for one in kept if one.kind in {"result", "error"}})


def _is_close(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, (torch.Tensor, float, complex)):
        try:
            torch.testing.assert_close(one, other, equal_nan=True)
        except (AssertionError, RuntimeError, ValueError):
            return False
        return True
    return bool(one == other)


def _largest(one: Any, other: Any) -> float | None:
    try:
        if isinstance(one, torch.Tensor):
            return float((one.to(torch.float64) - other.to(torch.float64)).abs().max())
        return abs(float(one) - float(other))
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return None
