"""What can be reached from the user's program: every value that holds state which a call may change.

Tensors, attributes, lists and dicts, variables of closures, global names that the user's own functions mention, plain
attributes of the user's own classes, random generators. Not reached are other objects of libraries, global names that
only methods other than `forward` and `__call__` mention, and whatever lives outside of Python.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
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

from compiler_lens.capture.torch_api.tensors import is_traceable_wrapper_subclass
from compiler_lens.recording.own_files import is_own

_ATOMS = (str, bytes, int, float, complex, bool, type(None), ModuleType, BuiltinFunctionType, CodeType)

# What is kept of a class: functions, properties and other descriptors are its code.
_PLAIN = (str, bytes, int, float, complex, bool, type(None), tuple, list, dict, set, deque, bytearray, torch.Tensor)

# Objects with state whose classes are torch's or the standard library's.
_OPEN = (torch.nn.Module, torch.optim.Optimizer, SimpleNamespace, argparse.Namespace)

_MISSING = object()


def reached(roots: Iterable[Any]) -> list[Any]:
    """Return every value that holds state, once; the roots themselves first."""
    seen: dict[int, Any] = {}
    todo: deque[Any] = deque(roots)
    while todo:
        value = todo.popleft()
        if isinstance(value, _ATOMS) or id(value) in seen:
            continue
        seen[id(value)] = value
        todo.extend(children(value))
    return list(seen.values())


def children(value: Any) -> Iterator[Any]:
    """Give the values that one value holds."""
    if isinstance(value, type):
        yield from _of_class(value)
    elif isinstance(value, Mapping):
        yield from list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from value
    elif isinstance(value, CellType):
        yield from contents(value)
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


def contents(cell: CellType) -> Iterator[Any]:
    """Give what a variable of a closure holds, if it has a value yet."""
    with contextlib.suppress(ValueError):
        yield cell.cell_contents


def _of_function(function: FunctionType) -> Iterator[Any]:
    yield vars(function)  # what a decorator wraps is in there too
    if not is_own(function.__code__.co_filename):
        return
    yield from (function.__closure__ or (), function.__defaults__, function.__kwdefaults__)
    yield Globals(function)
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
    kind, slots = type(value), Slots(value)
    if isinstance(getattr(value, "__dict__", None), dict):
        yield vars(value)
    yield slots
    yield from slots.values.values()
    yield kind
    yield from (getattr(kind, name, None) for name in ("forward", "__call__"))


def _of_class(kind: type) -> Iterator[Any]:
    """What a class of the user's has of its own, and its bases."""
    if _is_own_class(kind):
        yield Attributes(kind)
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


class Globals:
    """The global names that a function mentions."""

    def __init__(self, function: FunctionType) -> None:
        self.table, self.values = function.__globals__, _globals(function)

    def restore(self) -> None:
        """Give each its value of before."""
        for name, value in self.values.items():
            if self.table.get(name, self) is not value:
                self.table[name] = value


class Slots:
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
        """Give each its value of before."""
        # By the descriptors: a frozen value refuses to be set.
        now = self._now()
        for member in self._members:
            if member not in self.values and member in now:
                member.__delete__(self._value)
            elif now.get(member, _MISSING) is not self.values.get(member, _MISSING):
                member.__set__(self._value, self.values[member])


class Attributes:
    """The plain attributes of a class."""

    def __init__(self, kind: type) -> None:
        self._kind, self._names, self._plain = kind, frozenset(vars(kind)), _plain(kind)

    def restore(self) -> None:
        """Give each its value of before, and drop new ones."""
        now = _named(self._kind)
        for name in now.keys() - self._names:
            type.__delattr__(self._kind, name)
        for name, value in self._plain.items():
            if now.get(name, self) is not value:
                type.__setattr__(self._kind, name, value)
