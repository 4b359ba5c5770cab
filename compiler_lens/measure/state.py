"""What a call of the user's program may change, kept and put back, bit for bit.

Everything that can be reached from the program and its inputs is kept: tensors, attributes, lists and dicts, variables
of closures, global names that the user's own functions mention, plain attributes of the user's own classes, random
generators. Not reached are other objects of libraries, global names that only methods other than `forward` and
`__call__` mention, and whatever lives outside of Python.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from compiler_lens.analysis.ownership import is_own

_ATOMS = (str, bytes, int, float, complex, bool, type(None), ModuleType, BuiltinFunctionType, CodeType)

# What is kept of a class: functions, properties and other descriptors are its code.
_PLAIN = (str, bytes, int, float, complex, bool, type(None), tuple, list, dict, set, deque, bytearray, torch.Tensor)

# Objects with state whose classes are torch's or the standard library's.
_OPEN = (torch.nn.Module, torch.optim.Optimizer, SimpleNamespace, argparse.Namespace)

_MISSING = object()


class State:
    """A state to come back to."""

    def __init__(self, *roots: Any) -> None:
        self._values = _reached(roots)
        self._undo = [undo for value in self._values if (undo := _keep(value)) is not None]
        self.tensors = [value for value in self._values if isinstance(value, torch.Tensor)]
        self._tensors = [_Tensor(tensor) for tensor in self.tensors]
        self._memory = list(_memory(self.tensors))

    def restore(self) -> None:
        """Put everything back that has changed."""
        for undo in self._undo:
            undo()
        for tensor in self._tensors:
            tensor.restore()
        for here, kept in self._memory:
            if not torch.equal(here, kept.to(here.device)):
                here.copy_(kept)
        for tensor in self._tensors:
            tensor.restore_version()


# -- what is reached


def _reached(roots: Iterable[Any]) -> list[Any]:
    """Every value that holds state, once; the roots themselves first."""
    seen: dict[int, Any] = {}
    todo: deque[Any] = deque(roots)
    while todo:
        value = todo.popleft()
        if isinstance(value, _ATOMS) or id(value) in seen:
            continue
        seen[id(value)] = value
        todo.extend(_children(value))
    return list(seen.values())


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, type):
        yield from _of_class(value)
    elif isinstance(value, Mapping):
        yield from list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from value
    elif isinstance(value, CellType):
        yield from _contents(value)
    elif isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, torch.Tensor):
        yield from _of_tensor(value)
    if not isinstance(value, type) and _is_open(value):
        yield from _of_object(value)


def _contents(cell: CellType) -> Iterator[Any]:
    with contextlib.suppress(ValueError):  # empty
        yield cell.cell_contents


def _of_function(function: FunctionType) -> Iterator[Any]:
    yield vars(function)  # what a decorator wraps is in there too
    if not is_own(function.__code__.co_filename):
        return
    yield from (function.__closure__ or (), function.__defaults__, function.__kwdefaults__)
    yield _Globals(function)
    yield from _globals(function).values()


def _globals(function: FunctionType) -> dict[str, Any]:
    return {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}


def _names(code: CodeType) -> set[str]:
    """Every global name, and attribute, that code mentions, in the functions inside of it too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _of_object(value: Any) -> Iterator[Any]:
    kind, slots = type(value), _Slots(value)
    if isinstance(getattr(value, "__dict__", None), dict):
        yield vars(value)
    yield slots
    yield from slots.values.values()
    yield kind
    yield from (getattr(kind, name, None) for name in ("forward", "__call__"))


def _of_class(kind: type) -> Iterator[Any]:
    """What a class of the user's has of its own, and its bases."""
    if _is_own_class(kind):
        yield _Class(kind)
        yield from _plain(kind).values()
        yield from kind.__bases__


def _plain(kind: type) -> dict[str, Any]:
    """The attributes of a class that are no code; `_name_` is Python's own, or an enumeration's."""
    return {name: v for name, v in _named(kind).items() if isinstance(v, _PLAIN)}


def _named(kind: type) -> dict[str, Any]:
    return {name: v for name, v in vars(kind).items() if not (name.startswith("_") and name.endswith("_"))}


def _of_tensor(tensor: torch.Tensor) -> Iterator[Any]:
    yield vars(tensor)
    if tensor.is_leaf or tensor.retains_grad:
        yield tensor.grad
    if is_traceable_wrapper_subclass(tensor):
        yield from (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])


def _is_open(value: Any) -> bool:
    """Whether it is an object whose attributes are part of the program: a module, an optimizer, one of the user's."""
    if isinstance(value, torch.jit.ScriptModule):
        return False
    return isinstance(value, _OPEN) or _is_foreign(type(value))


def _is_foreign(kind: type) -> bool:
    """Whether a class is not the standard library's, torch's, numpy's or ours."""
    package = str(kind.__module__).partition(".")[0]
    return package not in sys.stdlib_module_names and package not in {"torch", "compiler_lens", "numpy"}


def _is_own_class(kind: type) -> bool:
    # What is typed at a prompt or in a notebook has a module without a file.
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or "<stdin>"
    return _is_foreign(kind) and is_own(file)


class _Globals:
    """The global names that a function mentions."""

    def __init__(self, function: FunctionType) -> None:
        self.table, self.values = function.__globals__, _globals(function)

    def restore(self) -> None:
        for name, value in self.values.items():
            if self.table.get(name, self) is not value:
                self.table[name] = value


class _Slots:
    """The attributes of an object that are not in a `__dict__`."""

    def __init__(self, value: Any) -> None:
        kinds = [kind for kind in type(value).__mro__ if "__slots__" in vars(kind)]
        members = [m for kind in kinds for m in vars(kind).values() if isinstance(m, MemberDescriptorType)]
        self._value, self._members = value, members
        self.values = self._now()

    def _now(self) -> dict[MemberDescriptorType, Any]:
        found: dict[MemberDescriptorType, Any] = {}
        for member in self._members:
            with contextlib.suppress(AttributeError):  # empty
                found[member] = member.__get__(self._value)
        return found

    def restore(self) -> None:
        # By the descriptors: a frozen dataclass refuses to be set.
        now = self._now()
        for member in self._members:
            if member not in self.values and member in now:
                member.__delete__(self._value)
            elif now.get(member, _MISSING) is not self.values.get(member, _MISSING):
                member.__set__(self._value, self.values[member])


class _Class:
    """The plain attributes of a class."""

    def __init__(self, kind: type) -> None:
        self._kind, self._names, self._plain = kind, frozenset(vars(kind)), _plain(kind)

    def restore(self) -> None:
        now = _named(self._kind)
        for name in now.keys() - self._names:
            type.__delattr__(self._kind, name)
        for name, value in self._plain.items():
            if now.get(name, self) is not value:
                type.__setattr__(self._kind, name, value)


# -- how a value is kept


def _keep(value: Any) -> Callable[[], object] | None:
    """A function that puts a value's content back; None for what has none, or is kept as a tensor."""
    if isinstance(value, (_Globals, _Slots, _Class)):
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
    return restore and functools.partial(restore, value, list(_children(value)))


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
    if not _same(_contents(cell), kept):
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

# -- tensors


class _Tensor:
    """A tensor's own properties; its bytes are kept apart, several tensors may share them."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._alias = tensor.detach()
        self._is_leaf, self._requires_grad = tensor.is_leaf, tensor.requires_grad
        self._has_grad = tensor.is_leaf or tensor.retains_grad
        self._grad = tensor.grad if self._has_grad else None
        self._version = None if tensor.is_inference() else tensor._version  # noqa: SLF001 -- has no other name

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
        if self._version is not None and self._tensor._version != self._version:  # noqa: SLF001
            torch._C._autograd._unsafe_set_version_counter((self._tensor,), (self._version,))  # noqa: SLF001


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
