"""What a program's objects hold, by where it stands: attributes, lists and dicts, variables of closures, global names.

A change may leave every result as it is, and count, collect or draw otherwise: that shows here. Objects of libraries'
own classes are gone through as the user's are, those of torch and of the standard library are not.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from compiler_lens.measure.fix.results import exact, is_array
from compiler_lens.measure.sandbox.state import is_foreign, names_in
from compiler_lens.recording.own_files import is_own

_PLAIN = (str, bytes, bool, int, float, complex, type(None), torch.dtype, torch.device, torch.Size)
_MOST = 20_000  # values
# Attributes of modules that are torch's, not the user's.
_OF_MODULES = frozenset({*vars(torch.nn.Module()), "_compiled_call_impl"})
_IN_MODULES = ("_parameters", "_buffers", "_modules")
_OF_TORCH = "_torchdynamo_"  # how what torch.compile puts on a module begins: addresses, which differ now and then

Named = tuple[str, Any]


def held(roots: Iterable[Named], *, with_weights: bool = True) -> dict[str, Any]:
    """Return plain values and tensors that can be reached from some roots, by path: `Net.blocks.0.calls`.

    Args:
        roots: objects, with what their paths begin with.
        with_weights: parameters and buffers of modules as well.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    left = deque(roots)
    while left and len(found) < _MOST:
        path, value = left.popleft()
        value = exact(value)
        if isinstance(value, _PLAIN):
            found[path] = value if isinstance(value, (bool, int, float, complex, str, type(None))) else repr(value)
        elif isinstance(value, torch.Tensor):
            found[path] = value
        elif id(value) not in seen:
            seen.add(id(value))
            left.extend(_children(path, value, with_weights=with_weights))
    return found


def generators() -> dict[str, str]:
    """Return what random generators go on with, by whose they are: alike where that is the same.

    Python's is none of them: who compiles draws from it, too.
    """
    states = {"torch": bytes(torch.get_rng_state().tolist())}  # torch may be there without NumPy
    if numpy := sys.modules.get("numpy.random"):
        _, numbers, place, *_ = numpy.get_state()
        states["numpy"] = numbers.tobytes() + str(place).encode()
    return {name: hashlib.sha256(state).hexdigest() for name, state in states.items()}


def roots_of(function: Any) -> Iterator[Named]:
    """Yield what a function, as torch.compile was given it, is reached by: the object that it is bound to, itself."""
    if isinstance(function, types.MethodType):
        yield type(function.__self__).__name__, function.__self__
        yield "", function.__func__
    else:
        yield type(function).__name__, function


def _children(path: str, value: Any, *, with_weights: bool) -> Iterator[Named]:
    if isinstance(value, torch.nn.Module):
        yield from _of_module(path, value, with_weights=with_weights)
    elif isinstance(value, Mapping):
        items = list(value.items())
        if isinstance(value, Counter):  # one that it does not have is as one of zero
            items = [(key, one) for key, one in items if not (isinstance(one, (int, float)) and one == 0)]
        yield f"len({path})", len(items)
        for number, (key, one) in enumerate(items):
            yield f"{path}[{key!r}]" if isinstance(key, (str, int, bool)) else f"{path}[{number}.]", one
    elif isinstance(value, (list, tuple, deque)):
        yield f"len({path})", len(value)
        yield from ((f"{path}[{number}]", one) for number, one in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield path, repr(sorted(map(repr, (one for one in value if isinstance(one, _PLAIN)))))
    else:
        yield from _of_object(path, value)


def _of_object(path: str, value: Any) -> Iterator[Named]:
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield from roots_of(value)
    elif isinstance(value, partial):
        yield from ((path, part) for part in (value.func, value.args, value.keywords))
    elif isinstance(value, type):
        yield from _of_class(value)
    elif is_array(value):
        yield path, str(value.tolist())
    elif isinstance(value, types.SimpleNamespace) or is_foreign(type(value)):
        yield from ((f"{path}.{name}", one) for name, one in _attributes(value))
        yield "", type(value)


def _of_module(path: str, module: torch.nn.Module, *, with_weights: bool) -> Iterator[Named]:
    for part in _IN_MODULES if with_weights else _IN_MODULES[2:]:
        yield from ((f"{path}.{name}", one) for name, one in vars(module)[part].items())
    own = (one for one in vars(module).items() if one[0] not in _OF_MODULES and not one[0].startswith(_OF_TORCH))
    yield from ((f"{path}.{name}", one) for name, one in own)
    yield "", type(module)


def _of_function(function: types.FunctionType) -> Iterator[Named]:
    if not is_own(function.__code__.co_filename):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it has no value yet
            yield f"{function.__qualname__}: {name}", cell.cell_contents
    table = function.__globals__
    yield from ((name, table[name]) for name in sorted(names_in(function.__code__)) if name in table)


def _of_class(kind: type) -> Iterator[Named]:
    if not is_foreign(kind):
        return
    plain = (*_PLAIN, list, dict, set, deque)
    own = ((name, one) for name, one in vars(kind).items() if not name.startswith("__"))
    yield from ((f"{kind.__name__}.{name}", one) for name, one in own if isinstance(one, plain))


def _attributes(value: Any) -> Iterator[Named]:
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        yield from own.items()
    for base in type(value).__mro__:
        for name, member in vars(base).items() if "__slots__" in vars(base) else ():
            if isinstance(member, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # empty
                    yield name, member.__get__(value)
