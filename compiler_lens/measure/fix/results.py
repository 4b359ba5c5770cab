"""What a program computes, kept and compared: results of compiled calls, gradients, parameters at the end.

What its objects hold, and how far random generators have come, is kept by name and compared where both runs have it: a
change may well put a number into a buffer, or add a list of its own.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isclose, isnan
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.measured.fix import Difference
from compiler_lens.facts.measured.other_inputs import NOISE, Gave, OtherCall, Way
from compiler_lens.measure.fix.plan import ALL
from compiler_lens.recording.model import Results

_MOST = 256 << 20  # bytes that are kept of a run
_LARGEST = 1 << 20  # elements of a tensor that is kept whole
_SAMPLE = 1 << 16  # elements that are kept of a larger one, besides its mean
_FEW = 1 << 16  # elements of a tensor that an object holds, which is looked into
# What torch.testing.assert_close allows of a number, by dtype.
_ROUNDING = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-6, torch.float64: 1e-7}
# What no rounding makes of a result, unless it grows from call to call.
_ROUGH = frozenset({"result", "object"})
_FAR, _NOTHING = 1e-2, 1e-5  # of the largest number in it, and for what is zero but for rounding
_CALLS = 10  # a program that trains drifts apart by rounding: in so many calls by as much again
_DRIFT = 1e-3  # of it: a result that another run, which only rounds otherwise, has otherwise, may drift as far
_FEW_OTHERS = 0.02  # of whole numbers: indices of what is largest, say
_SUM = 2.5e-5  # of the largest, of a sum of thousands of rows in float32, chosen or not
_CLOSE = 1e-4  # of numbers that objects hold, which were tensors of any dtype

_BEGUN = time.time()
_CLOCK = "time.time()"

_PLAIN = (bool, int, float, complex, str, type(None))


class Kept(Struct, frozen=True):
    """One value."""

    kind: str  # as in `Difference`
    call: int
    index: int
    value: Any  # a tensor on the CPU, or a plain value; of anything else its type's name
    inputs: str = ""  # how they were made, of a call with others than the program's own
    name: str = ""  # where an object holds it; then the value is a list of its parts


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

    def keep_named(self, kind: str, call: int, values: Mapping[str, Any], inputs: str = "") -> None:
        """Keep values of one kind that have names."""
        for name, value in values.items():
            if self.is_whole:
                self.kept.append(Kept(kind, call, 0, self._parts(value), inputs, name))

    def _parts(self, value: Any) -> list[Any]:
        if is_array(value) and value.ndim and value.dtype.kind in "biufc":
            value = torch.tensor(value.tolist(), dtype=torch.float64 if value.dtype.kind == "f" else None)
        if not isinstance(value, torch.Tensor) or torch.nn.parameter.is_lazy(value):
            value = exact(value)
            return [_CLOCK if _is_of_clock(value) else value if isinstance(value, _PLAIN) else type(value).__qualname__]
        parts = _parts(value.detach())
        self._bytes += sum(part.nbytes for part in parts if isinstance(part, torch.Tensor))
        return parts


def _is_of_clock(value: Any) -> bool:
    """Whether a number is what the clock showed in this run: in another it is another, once enough time is over."""
    return type(value) is float and _BEGUN <= value <= time.time()


def _parts(tensor: torch.Tensor) -> list[Any]:
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested:
        return [type(tensor).__qualname__, str(tensor.dtype), "" if tensor.is_nested else str(tuple(tensor.shape))]
    if tensor.numel() <= _LARGEST:
        return [tensor.to("cpu", copy=True)]
    flat = tensor.reshape(-1)
    mean = flat.abs().mean() if tensor.is_complex() else flat.to(torch.float32).mean()
    return [str(tuple(tensor.shape)), flat[:: len(flat) // _SAMPLE].to("cpu", copy=True), mean.cpu()]


def exact(value: Any) -> Any:
    """Return a number of NumPy's, or one or a text of a class of its own, as Python's: others are not read again."""
    if _is_numpys(value) or (is_array(value) and not value.ndim):
        value = value.item()
    made = ((bool, bool), (int, int.__int__), (float, float.__float__), (complex, complex), (str, str.__str__))
    make = next((make for kind, make in made if isinstance(value, kind)), None)
    return make(value) if make and type(value) not in _PLAIN else value


def _is_numpys(value: Any) -> bool:
    """Whether a value is a number of NumPy's: no array, of whatever class."""
    return any((kind.__module__, kind.__name__) == ("numpy", "generic") for kind in type(value).__mro__)


def is_array(value: Any) -> bool:
    """Return whether a value is an array of NumPy's, which need not be there."""
    return (type(value).__module__, type(value).__name__) == ("numpy", "ndarray")


def save(kept: Sequence[Kept], path: Path) -> None:
    """Write what a run computed, for `load`."""
    torch.save([packed(one) for one in kept], path)


def packed(one: Kept) -> list[Any]:
    """Return a value as what `Kept` is made of again."""
    return [one.kind, one.call, one.index, one.value, one.inputs, one.name]


def load(path: Path) -> list[Kept]:
    """Return what another process of ours wrote: tensors and plain values, nothing else is unpickled."""
    return [Kept(*entry) for entry in torch.load(path, weights_only=True)]


def compared(
    kept: Sequence[Kept], reference: Sequence[Kept], noisy: Sequence[Kept] = ()
) -> tuple[Results, Difference | None]:
    """Return whether two runs computed the same, up to the rounding that torch.testing allows for a dtype.

    Args:
        kept: what one run computed.
        reference: what the other did.
        noisy: the same of that, begun with parameters that are rounded otherwise. An optimizer such as Adam divides a
            gradient by its size: one that is zero but for rounding moves its parameter as far as any other.
    """
    kept, reference, noisy = _unnamed(kept), _unnamed(reference), _unnamed(noisy)
    if _counts(kept) != _counts(reference):
        kept, reference, noisy = _with_gradients(kept), _with_gradients(reference), _with_gradients(noisy)
        kept = _without_zeros(kept, reference)
    rounding = _rounding(reference, noisy)
    for place, (one, other) in enumerate(zip(kept, reference, strict=False)):
        if (one.kind, one.call, one.index) != (other.kind, other.call, other.index):
            break
        if _is_close(one.value, other.value) or _is_zero_for_none(one, other) or _is_kept_tensor(one, other):
            continue
        largest = _largest(one.value, other.value)
        if one.kind == other.kind == "gradient" and _is_rounded(one.value, other.value, largest):
            continue
        is_rounding = place in rounding and largest is not None and largest <= rounding[place]
        if not (is_rounding and getattr(one.value, "dtype", None) is getattr(other.value, "dtype", None)):
            return Results.DIFFER, Difference(one.kind, one.call, one.index, largest)
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


def roughly_compared(
    kept: Sequence[Kept], reference: Sequence[Kept], unsure: AbstractSet[str] = frozenset()
) -> tuple[Results, Difference | None]:
    """Return the same for a run that rounds otherwise: of results, and of numbers that objects hold in the end.

    Args:
        kept: what one run computed.
        reference: what the other did.
        unsure: names of what objects hold that need not be the same.
    """
    before, after = _calls(reference), _calls(kept)
    if before != after:
        return Results.DIFFER, Difference("call", min(before, after), 0, numbers=(before, after))
    known = _in_places(reference)
    for place, one in _in_places(kept).items():
        other = known.get(place)
        is_asked = one.kind in _ROUGH and not (one.name and (one.name in unsure or ALL in unsure))
        if is_asked and other is not None and _is_far(one, other):
            values = (side.value[0] if side.name else side.value for side in (one, other))
            return Results.DIFFER, Difference(one.kind, one.call, one.index, _largest(*values), name=one.name)
    return Results.EQUAL, None


def _in_places(kept: Iterable[Kept]) -> Mapping[tuple[object, ...], Kept]:
    """Return what was kept by where it was; the parts of a large tensor have numbers."""
    found: dict[tuple[object, ...], Kept] = {}
    parts: Counter[tuple[object, ...]] = Counter()
    for one in kept:
        name = (one.kind, one.call, one.index, one.name)
        place = (*name, parts[name])
        found[place] = one
        parts[name] += 1
    return found


def _held(one: Kept) -> Any:
    """Return a value, also of what an object holds, which is kept in a list."""
    return one.value[0] if one.name and len(one.value) == 1 else one.value


def _is_far(one: Kept, other: Kept) -> bool:
    """Whether two values are not the same by far; of what objects hold numbers alone are asked for."""
    if _is_zero_for_none(one, other):
        return False
    mine, its = _held(one), _held(other)
    numbers = [_number(mine), _number(its)]
    far = _FAR * (1 + one.call / _CALLS)
    if None not in numbers:
        is_whole = isinstance(mine, int) and isinstance(its, int)
        one_number, other_number = (torch.tensor([number], dtype=torch.float64) for number in numbers)
        return _is_apart(one_number, other_number, far, is_whole=is_whole)
    if one.name or not (isinstance(mine, torch.Tensor) and isinstance(its, torch.Tensor)):
        return not one.name and bool(mine != its)
    is_whole = not (mine.is_floating_point() or mine.is_complex())
    return mine.shape != its.shape or _is_apart(mine, its, far, is_whole=is_whole)


def _is_apart(one: torch.Tensor, other: torch.Tensor, far: float, *, is_whole: bool) -> bool:
    """Whether elements differ by more than a part of the largest; of whole numbers more than a few, and by two."""
    if not one.numel() or (is_whole and float((one != other).double().mean()) <= _FEW_OTHERS):
        return False
    dtype = torch.complex128 if one.is_complex() else torch.float64
    one, other = (torch.nan_to_num(side.to(dtype)) for side in (one, other))
    nothing = 1.0 if is_whole else _NOTHING
    return bool((one - other).abs().max() > far * other.abs().max() + nothing)


def _counts(kept: Sequence[Kept]) -> Counter[int]:
    """Return how many tensors each call may have gradients for."""
    return Counter(one.call for one in kept if one.kind == "gradient")


def _with_gradients(kept: Sequence[Kept]) -> list[Kept]:
    """Leave out tensors that have none: a graph of more code has more inputs, also of what needs no gradient there."""
    numbers: Counter[tuple[int, str]] = Counter()
    found: list[Kept] = []
    for one in kept:
        if one.kind != "gradient":
            found.append(one)
        elif one.value is not None:
            key = one.call, one.inputs
            found.append(replace(one, index=numbers[key]))
            numbers[key] += 1
    return found


def _without_zeros(kept: Sequence[Kept], reference: Sequence[Kept]) -> Sequence[Kept]:
    """Leave out gradients that are zeros, of calls whose results need none in another run: nobody chose any rows."""
    having = {(one.call, one.inputs) for one in reference if one.kind == "gradient"}
    return [
        one
        for one in kept
        if one.kind != "gradient"
        or (one.call, one.inputs) in having
        or not isinstance(one.value, torch.Tensor)
        or bool(one.value.any())
    ]


def _unnamed(kept: Sequence[Kept]) -> Sequence[Kept]:
    return [one for one in kept if not one.name]


def _rounding(reference: Sequence[Kept], noisy: Sequence[Kept]) -> Mapping[int, float]:
    """Return how far rounding alone may move numbers, by their places among all values; nothing if others differ.

    What a program goes on with drifts, a little further in each call: parameters, and then all that comes of them. A
    change may round otherwise in each call, and the other run does so once, before the first.
    """
    if len(reference) != len(noisy):
        return {}
    found: dict[int, float] = {}
    for place, (one, other) in enumerate(zip(reference, noisy, strict=True)):
        moved = _largest(one.value, other.value) if _is_floating(one.value) and _is_floating(other.value) else None
        if moved is None and not _is_close(one.value, other.value):
            return {}
        if moved is not None:
            most = math.inf if one.kind == "state" else _DRIFT * (_largest(one.value, 0 * one.value) or 0.0)
            found[place] = min(NOISE * (1 + one.call) * moved, most)
    return found


def _is_floating(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, torch.Tensor) and value.is_floating_point())


def names_that_differ(kept: Iterable[Kept], reference: Iterable[Kept]) -> tuple[str, ...]:
    """Return the names of all named values that two runs have, and have otherwise."""
    before = {one.name: one for one in reference if one.name}
    both = ((one, before[one.name]) for one in kept if one.name in before)
    return tuple(one.name for one, other in both if not _is_alike(one.value, other.value))


def with_most_of_lists(names: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return names with those of all values of lists of which most are among them, of short times: some are alike."""
    all_known = list(known)
    inside, of_all = Counter(map(_list_of, names)), Counter(map(_list_of, all_known))
    alike = (one for one in all_known if _list_of(one) and 2 * inside[_list_of(one)] > of_all[_list_of(one)])
    return tuple(dict.fromkeys((*names, *alike)))


def _list_of(name: str) -> str:
    """The name of the list that a named value is an element of; empty of any other."""
    owner, _, number = name.removesuffix("]").rpartition("[")
    return owner if number.isdigit() else ""


def named_difference(kept: Sequence[Kept], reference: Sequence[Kept], name: str) -> Difference:
    """Return how a named value of two runs differs."""
    one, other = (next(k for k in side if k.name == name) for side in (kept, reference))
    return Difference(one.kind, one.call, 0, _largest(one.value[0], other.value[0]), name=name)


def zero_gradients(kept: Sequence[Kept], reference: Sequence[Kept]) -> int:
    """Return how many gradients are zeros where another run has none: the same, but to an optimizer with a memory."""
    return sum(_is_zero_for_none(one, other) for one, other in zip(kept, reference, strict=False))


def kept_tensors(kept: Sequence[Kept], reference: Sequence[Kept]) -> int:
    """Return how many results are tensors where another run has the same as Python's numbers."""
    return sum(_is_kept_tensor(one, other) for one, other in zip(kept, reference, strict=False))


def _is_kept_tensor(one: Kept, other: Kept) -> bool:
    is_new = one.kind == other.kind == "result" and isinstance(one.value, torch.Tensor) and one.value.dim() == 0
    return is_new and isinstance(other.value, (bool, int, float)) and _is_alike([one.value], [other.value])


def _is_zero_for_none(one: Kept, other: Kept) -> bool:
    is_new = one.kind == other.kind == "gradient" and other.value is None and isinstance(one.value, torch.Tensor)
    return is_new and not bool(one.value.any())


def looked_into(values: Mapping[str, Any]) -> Mapping[str, Sequence[Any]]:
    """Return what objects hold, to compare it before and after a call: of large tensors the shape and dtype alone."""
    return {name: _few(value) for name, value in values.items()}


def keep_changed(
    keeper: Keeper, call: int, before: Mapping[str, Sequence[Any]], values: Mapping[str, Any], inputs: str
) -> None:
    """Keep what a call changed of what objects hold, and the names of all of that.

    Args:
        keeper: keeps it.
        call: the number of the call.
        before: by `looked_into`.
        values: what they hold after it, by name.
        inputs: how the inputs of the call were made.
    """
    now = looked_into(values)
    new = {name: value for name, value in now.items() if name not in before or not _is_alike(value, before[name])}
    keeper.kept += [Kept("object", call, 0, list(value), inputs, name) for name, value in new.items()]
    keeper.kept.append(Kept("names", call, 0, "\n".join(dict.fromkeys((*before, *now))), inputs, ALL))


def _few(value: Any) -> Sequence[Any]:
    if isinstance(value, torch.Tensor) and value.numel() > _FEW:
        return [str(tuple(value.shape)), str(value.dtype)]
    if isinstance(value, torch.Tensor):
        return [] if torch.nn.parameter.is_lazy(value) else _parts(value.detach())
    return [value]


def without(kept: Sequence[Kept], left: Collection[str]) -> Sequence[Kept]:
    """Return what was kept but for what some objects hold, by the last name of each."""
    if not left:
        return kept
    others = [one for one in kept if not _is_of(one.name, left)]
    return [
        replace(one, value="\n".join(name for name in one.value.split("\n") if not _is_of(name, left)))
        if one.name == ALL
        else one
        for one in others
    ]


def _is_of(name: str, holders: Collection[str]) -> bool:
    path = name.removeprefix("len(").partition("[")[0].removesuffix(")")
    return not {*path.split(".")}.isdisjoint(holders)


def compared_calls(
    kept: Sequence[Kept], reference: Sequence[Kept], unsure: AbstractSet[str] = frozenset(), *, is_rough: bool = False
) -> tuple[OtherCall, ...]:
    """Return what calls with other inputs gave, beside the same calls of another run; of those that both made.

    Args:
        kept: what one run computed.
        reference: what the other did.
        unsure: names of what objects hold that need not be the same.
        is_rough: what one run generated rounds otherwise.
    """
    made, others = (_by_call(_sure(side, unsure)) for side in (kept, reference))
    both = {key: (values, others[key]) for key, values in made.items() if key in others}
    if is_rough:
        both = {key: (_but_for_rounding(values, known), known) for key, (values, known) in both.items()}
    return tuple(_compared_call(key, values, known) for key, (values, known) in both.items())


def _but_for_rounding(kept: Sequence[Kept], reference: Sequence[Kept]) -> Sequence[Kept]:
    """Return values, and those of another run in place of what is nearly the same."""
    known = _in_places(reference)
    pairs = ((one, known.get(place)) for place, one in _in_places(kept).items())
    return [replace(one, value=other.value) if other and _is_near(one, other) else one for one, other in pairs]


def _is_near(one: Kept, other: Kept) -> bool:
    mine, its = _held(one), _held(other)
    if not (_is_floating(mine) and _is_floating(its)):
        return False
    mine, its = (torch.as_tensor(side) for side in (mine, its))
    if mine.shape != its.shape or mine.dtype is not its.dtype or mine.is_meta or its.is_meta:
        return False
    return torch.equal(mine.isfinite(), its.isfinite()) and not _is_apart(mine, its, _FAR, is_whole=False)


def _sure(kept: Sequence[Kept], unsure: AbstractSet[str]) -> Sequence[Kept]:
    """Return what has to be the same: where an element of a list has not, no other of that list has, as with times."""
    if ALL in unsure:
        return _unnamed(kept)
    lists = {_list_of(name) for name in unsure} - {""}
    return [one for one in kept if not (one.name and (one.name in unsure or _list_of(one.name) in lists))]


def _by_call(kept: Sequence[Kept]) -> Mapping[tuple[int, str], Sequence[Kept]]:
    found: dict[tuple[int, str], list[Kept]] = {}
    for one in kept:
        found.setdefault((one.call, one.inputs), []).append(one)
    return found


def _compared_call(key: tuple[int, str], kept: Sequence[Kept], reference: Sequence[Kept]) -> OtherCall:
    call, way = key[0], Way.of(key[1])
    raises, raised = (side[0].kind == "error" for side in (kept, reference))
    if raises or raised:
        gave = Gave.ERROR_IN_BOTH if raises and raised else Gave.ERROR if raises else Gave.NO_ERROR
        return OtherCall(call, way.inputs, gave, error=str(kept[0].value) if raises else "", argument=way.argument)
    _, difference = compared(kept, reference)
    difference = difference or _other_change(kept, reference)
    if difference is None:
        return OtherCall(call, way.inputs, Gave.SAME, argument=way.argument)
    found = difference.kind, difference.index, difference.largest
    gave = Gave.NAN if difference.kind == "gradient" and _is_nan_anyhow(kept, reference) else Gave.OTHER
    if gave is Gave.NAN and (other := _other_change(kept, reference)):
        gave, difference = Gave.OTHER, other
        found = other.kind, other.index, other.largest
    return OtherCall(call, way.inputs, gave, *found, name=difference.name, argument=way.argument)


def _is_nan_anyhow(kept: Sequence[Kept], reference: Sequence[Kept]) -> bool:
    """Whether gradients differ only by nans, and are those of a result that is nan: no step is made of such ones."""
    values = (one.value for one in reference if one.kind == "result")
    if not any(isinstance(one, torch.Tensor) and not one.is_meta and bool(one.isnan().any()) for one in values):
        return False
    sides = [[one.value for one in _with_gradients(_unnamed(side))] for side in (kept, reference)]
    return len(sides[0]) == len(sides[1]) and all(map(_is_close_or_nan, *sides))


def _is_close_or_nan(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)) or one.shape != other.shape:
        return _is_close(one, other)
    return one.dtype is other.dtype and _is_close(one, torch.where(one.isnan(), one, other))


def _other_change(kept: Sequence[Kept], reference: Sequence[Kept]) -> Difference | None:
    """Return what one call leaves otherwise than the other, of what is there in both."""
    sides = [{one.name: one for one in side if one.name} for side in (kept, reference)]
    known = [set(side[ALL].value.split("\n")) if ALL in side else set() for side in sides]
    names = [*sorted(known[0] & known[1]), *(name for name, one in sides[0].items() if one.kind == "generator")]
    for name in names:
        one, other = (side.get(name) for side in sides)
        is_alike = _is_alike(one.value, other.value) if one and other else one is other
        if not is_alike:
            some = one or other
            largest = _largest(one.value[0], other.value[0]) if one and other else None
            return Difference(some.kind if some else "object", 0, 0, largest, name=name)
    return None


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


def _is_rounded(one: Any, other: Any, largest: float | None) -> bool:
    """Whether two gradients are as close as sums are of terms as large as the largest number in them, in any order."""
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)) or one.dtype is not other.dtype:
        return False
    rounding = _SUM if one.dtype is torch.float32 else _ROUNDING.get(one.dtype, 0.0)
    return largest is not None and largest <= rounding * float(other.detach().abs().max())


def _is_alike(parts: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two values that an object holds are the same: a number may be a tensor instead, and is less exact."""
    if len(parts) != len(others):
        return False
    for one, other in zip(parts, others, strict=True):
        numbers = _number(one), _number(other)
        close = 0.0 if isinstance(one, int) and isinstance(other, int) else _CLOSE  # a count is not rounded
        if None in numbers:
            if not _is_close(one, other):
                return False
        elif not (isclose(*numbers, rel_tol=close, abs_tol=close) or all(map(isnan, numbers))):  # type: ignore[arg-type]
            return False
    return True


def _number(value: Any) -> float | None:
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex() and not value.is_meta:
        return float(value)
    return float(value) if isinstance(value, (bool, int, float)) else None


def _largest(one: Any, other: Any) -> float | None:
    try:
        if isinstance(one, torch.Tensor):
            return float((one.to(torch.float64) - other.to(torch.float64)).abs().max())
        return abs(float(one) - float(other))
    except (RuntimeError, TypeError, ValueError, AttributeError):
        return None
