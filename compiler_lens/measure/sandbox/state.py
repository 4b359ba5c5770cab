"""What a call of the user's program may change, kept and put back, bit for bit: all that can be reached from it.

Tensors, attributes, lists and dicts, variables of closures, global names that the user's own functions mention, plain
attributes of the user's own classes, random generators. Not reached are other objects of libraries, global names that
only methods other than `forward` and `__call__` mention, and whatever lives outside of Python.

Tensors are kept as their own properties, and the bytes that they lie in, which several may share.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import operator
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from compiler_lens.capture.torch_api.measuring import is_traceable_wrapper_subclass, set_version, version_of
from compiler_lens.recording.own_files import is_own


class State:
    """A state to come back to."""

    def __init__(self, *roots: Any) -> None:
        self.values = _reached(roots)
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


# -- what can be reached

_SIMPLE = (str, bytes, int, float, complex, bool, type(None))
_ATOMS = (*_SIMPLE, types.ModuleType, types.BuiltinFunctionType, types.CodeType)

# What is kept of a class: functions, properties and other descriptors are its code.
_PLAIN = (*_SIMPLE, tuple, list, dict, set, deque, bytearray, torch.Tensor)

# Objects with state whose classes are torch's or the standard library's.
_OPEN = (torch.nn.Module, torch.optim.Optimizer, types.SimpleNamespace, argparse.Namespace)


class _NamedValues:
    """Values that are no content of an object that is reached: global names, slots, attributes of a class.

    Args:
        now: returns all of them, by name or descriptor.
        put: sets one.
        drop: deletes one that has come since.
    """

    def __init__(
        self, now: Callable[[], dict[Any, Any]], put: Callable[[Any, Any], object], drop: Callable[[Any], object]
    ) -> None:
        self._now, self._put, self._drop = now, put, drop
        self.values = now()

    def restore(self) -> None:
        """Give each its value of before, and drop new ones."""
        now = self._now()
        for name in now.keys() - self.values.keys():
            self._drop(name)
        for name, value in self.values.items():
            if now.get(name, self) is not value:
                self._put(name, value)


def _reached(roots: Iterable[Any]) -> list[Any]:
    """Return every value that holds state, once; the roots themselves first."""
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
    """Give the values that one value holds."""
    if isinstance(value, type):
        yield from _of_class(value)
        return
    if isinstance(value, Mapping):
        yield from list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from value
    elif isinstance(value, types.CellType):
        with contextlib.suppress(ValueError):  # it has no value yet
            yield value.cell_contents
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, torch.Tensor):
        yield from _of_tensor(value)
    if isinstance(value, _OPEN) or is_foreign(type(value)):
        yield from _of_object(value)


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    yield vars(function)  # what a decorator wraps is in there too
    if is_own(function.__code__.co_filename):
        yield from (function.__closure__ or (), function.__defaults__, function.__kwdefaults__)
        table, names = function.__globals__, names_in(function.__code__)
        mentioned = _NamedValues(
            lambda: {name: table[name] for name in names if name in table}, table.__setitem__, lambda _: None
        )
        yield from (mentioned, *mentioned.values.values())


def names_in(code: types.CodeType) -> set[str]:
    """Return every global name, and attribute, that code mentions, in the functions inside of it too."""
    inside = [names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inside)


def _of_tensor(tensor: torch.Tensor) -> Iterator[Any]:
    yield vars(tensor)
    if tensor.is_leaf or tensor.retains_grad:
        yield tensor.grad
    if is_traceable_wrapper_subclass(tensor):
        yield from (getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])


def _of_object(value: Any) -> Iterator[Any]:
    """What an object whose attributes are part of the program has: a module, an optimizer, one of the user's."""
    if isinstance(value, torch.jit.ScriptModule):
        return
    kind = type(value)
    if isinstance(getattr(value, "__dict__", None), dict):
        yield vars(value)
    own = [member for base in kind.__mro__ if "__slots__" in vars(base) for member in vars(base).values()]
    members = [member for member in own if isinstance(member, types.MemberDescriptorType)]

    def slots() -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for member in members:
            with contextlib.suppress(AttributeError):  # empty
                found[member] = member.__get__(value)
        return found

    # By the descriptors: a frozen value refuses to be set.
    kept = _NamedValues(slots, lambda member, v: member.__set__(value, v), lambda member: member.__delete__(value))
    yield from (kept, *kept.values.values(), kind)
    yield from (getattr(kind, name, None) for name in ("forward", "__call__"))


def _of_class(kind: type) -> Iterator[Any]:
    """What a class of the user's has of its own, and its bases."""
    # What is typed at a prompt or in a notebook has a module without a file.
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or "<stdin>"
    if not (is_foreign(kind) and is_own(file)):
        return
    code = {name for name, value in vars(kind).items() if not isinstance(value, _PLAIN)}

    def plain() -> dict[str, Any]:
        # `_name_` is Python's own, or an enumeration's.
        own = {name: v for name, v in vars(kind).items() if not (name.startswith("_") and name.endswith("_"))}
        return {name: v for name, v in own.items() if name not in code}

    kept = _NamedValues(plain, functools.partial(type.__setattr__, kind), functools.partial(type.__delattr__, kind))
    yield from (kept, *kept.values.values(), *kind.__bases__)


def is_foreign(kind: type) -> bool:
    """Return whether a class is not the standard library's, torch's, numpy's or ours."""
    package = str(kind.__module__).partition(".")[0]
    return package not in sys.stdlib_module_names and package not in {"torch", "compiler_lens", "numpy"}


# -- all but tensors


def _keep(value: Any) -> Callable[[], object] | None:
    """A function that puts a value's content back; None for what has none, or is kept as a tensor."""
    if isinstance(value, _NamedValues):
        return value.restore
    if undo := _keep_generator(value):
        return undo
    if isinstance(value, bytearray):
        return functools.partial(operator.setitem, value, slice(None), bytes(value))
    if (type(value).__module__, type(value).__name__) == ("numpy", "ndarray"):
        return functools.partial(_restore_array, value, value.copy())
    if isinstance(value, (dict, list, set, deque, types.CellType)):
        return functools.partial(_restore_content, value, _content(value))
    return None


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


def _restore_array(value: Any, kept: Any) -> None:
    if value.flags.writeable:
        value[...] = kept


def _content(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, types.CellType):
        with contextlib.suppress(ValueError):  # it has no value yet
            return [value.cell_contents]
        return []
    return list(value)


def _restore_content(value: Any, kept: list[Any]) -> None:
    now = _content(value)
    if len(now) == len(kept) and all(map(operator.is_, now, kept)):
        return
    if isinstance(value, types.CellType):
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
