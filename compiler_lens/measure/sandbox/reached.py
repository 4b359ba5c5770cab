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
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from compiler_lens.capture.torch_api.measuring import is_traceable_wrapper_subclass
from compiler_lens.recording.own_files import is_own

_SIMPLE = (str, bytes, int, float, complex, bool, type(None))
_ATOMS = (*_SIMPLE, types.ModuleType, types.BuiltinFunctionType, types.CodeType)

# What is kept of a class: functions, properties and other descriptors are its code.
_PLAIN = (*_SIMPLE, tuple, list, dict, set, deque, bytearray, torch.Tensor)

# Objects with state whose classes are torch's or the standard library's.
_OPEN = (torch.nn.Module, torch.optim.Optimizer, types.SimpleNamespace, argparse.Namespace)


class NamedValues:
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
    if isinstance(value, _OPEN) or _is_foreign(type(value)):
        yield from _of_object(value)


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    yield vars(function)  # what a decorator wraps is in there too
    if is_own(function.__code__.co_filename):
        yield from (function.__closure__ or (), function.__defaults__, function.__kwdefaults__)
        table, names = function.__globals__, _names(function.__code__)
        mentioned = NamedValues(
            lambda: {name: table[name] for name in names if name in table}, table.__setitem__, lambda _: None
        )
        yield from (mentioned, *mentioned.values.values())


def _names(code: types.CodeType) -> set[str]:
    """Every global name, and attribute, that code mentions, in the functions inside of it too."""
    inside = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
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
    kept = NamedValues(slots, lambda member, v: member.__set__(value, v), lambda member: member.__delete__(value))
    yield from (kept, *kept.values.values(), kind)
    yield from (getattr(kind, name, None) for name in ("forward", "__call__"))


def _of_class(kind: type) -> Iterator[Any]:
    """What a class of the user's has of its own, and its bases."""
    # What is typed at a prompt or in a notebook has a module without a file.
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or "<stdin>"
    if not (_is_foreign(kind) and is_own(file)):
        return
    code = {name for name, value in vars(kind).items() if not isinstance(value, _PLAIN)}

    def plain() -> dict[str, Any]:
        # `_name_` is Python's own, or an enumeration's.
        own = {name: v for name, v in vars(kind).items() if not (name.startswith("_") and name.endswith("_"))}
        return {name: v for name, v in own.items() if name not in code}

    kept = NamedValues(plain, functools.partial(type.__setattr__, kind), functools.partial(type.__delattr__, kind))
    yield from (kept, *kept.values.values(), *kind.__bases__)


def _is_foreign(kind: type) -> bool:
    """Whether a class is not the standard library's, torch's, numpy's or ours."""
    package = str(kind.__module__).partition(".")[0]
    return package not in sys.stdlib_module_names and package not in {"torch", "compiler_lens", "numpy"}
