"""A function of torch that a hook goes round: where it is, what it shows, which arguments are read; and the hook.

A hook runs the original exactly once and outside of our own error handling: whatever goes wrong in an observer, the
user's call does not see it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

from msgspec import Struct

from compiler_lens.capture.torch_api.frames import Sees, have_dynamo_see


class NotOfferedError(Exception):
    """This torch does not have a function, or has one that takes other arguments. The message names what is missing."""


class HalfImportedError(Exception):
    """The module that has a function is just being imported."""


Function = Callable[..., Any]


class Arguments(Struct, frozen=True):
    """Reads the arguments that an observer wants, by position or by name as the call gave them."""

    wanted: tuple[tuple[str, int, Any], ...]  # name, position, default; "*name" stands for all from there on

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the wanted arguments of one call, in the order in which they are wanted."""
        found: list[Any] = []
        for name, position, default in self.wanted:
            if name in kwargs:
                found.append(kwargs[name])
            elif name.startswith("*"):
                found.append(args[position:])
            else:
                found.append(args[position] if position < len(args) else default)
        return found


class Place(Struct, frozen=True, eq=False):
    """A function of torch, and what we learn there. Known by itself: each time a frame compiles it is looked up."""

    module: str
    name: str  # "function" or "Class.method"
    fact: str
    reads: tuple[str, ...] = ()  # the parameters that our observer reads; "*args" for the rest of the positional ones
    needs: tuple[str, ...] = ()  # what else it reads: attributes of classes in this or another module, "module:A.b"

    @property
    def is_being_imported(self) -> bool:
        """Whether its module cannot be had yet: a lens may open in the middle of torch's imports, which go in circles.

        torch/_inductor/standalone_compile.py imports torch._dynamo; importing AOTAutograd at that moment fails, as it
        wants a class of that half imported file.
        """
        if (own := sys.modules.get(self.module)) is not None:
            return _is_half_imported(own)
        return any(_is_half_imported(m) for name, m in list(sys.modules.items()) if name.startswith("torch."))

    def resolve(self) -> tuple[Any, str] | None:
        """Return the object that holds the function and the attribute's name; None if this torch has no such thing."""
        try:
            holder: Any = sys.modules.get(self.module) or importlib.import_module(self.module)
            *path, attribute = self.name.split(".")
            for part in path:
                holder = getattr(holder, part)
            getattr(holder, attribute)
        except Exception:  # noqa: BLE001 -- an import may fail in any way, and torch will say so itself
            return None
        return holder, attribute

    def find(self) -> Found:
        """Return where this is, and how to read the arguments of a call.

        Raises `NotOfferedError` if this torch has no such function, or one that does not give what is read;
        `HalfImportedError` while nobody knows.
        """
        found = _known(self)
        return found if found.stands else _looked_for(self)


class Found(Struct, frozen=True, eq=False):
    """A function of torch that was found."""

    holder: Any  # the module or class that has it
    attribute: str
    standing: Any  # what is there, a staticmethod as it is
    arguments: Arguments

    @property
    def stands(self) -> bool:
        """Whether the same is still there."""
        return vars(self.holder).get(self.attribute) is self.standing


@lru_cache(64)  # lenses are opened again and again, and torch has the same functions
def _known(place: Place) -> Found:
    return _looked_for(place)


def _looked_for(place: Place) -> Found:
    if place.is_being_imported:
        raise HalfImportedError
    found = place.resolve()
    if found is None:
        raise NotOfferedError(f"{place.module}.{place.name}")
    for need in place.needs:
        module, _, name = need.partition(":")
        if Place(module, name, place.fact).resolve() is None:
            raise NotOfferedError(f"{module}.{name}")
    standing = _standing(*found)
    try:
        return Found(*found, standing, _arguments(place, _function_of(standing)))
    except (TypeError, ValueError) as error:
        raise NotOfferedError(f"parameters of {place.module}.{place.name}") from error


def _function_of(standing: Any) -> Any:
    return standing.__func__ if isinstance(standing, (staticmethod, classmethod)) else standing


def _is_half_imported(module: Any) -> bool:
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def _standing(holder: Any, attribute: str) -> Any:
    """What a module or class has under a name, a staticmethod as it is."""
    return vars(holder)[attribute] if attribute in vars(holder) else inspect.getattr_static(holder, attribute)


def _arguments(place: Place, function: Function) -> Arguments:
    parameters = list(inspect.signature(function).parameters.values())
    by_name = {f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name: p for p in parameters}
    lacking = [name for name in place.reads if name not in by_name]
    if lacking:
        raise NotOfferedError(f"parameter {', '.join(lacking)} of {place.module}.{place.name}")
    wanted: list[tuple[str, int, Any]] = []
    for name in place.reads:
        one = by_name[name]
        position = sys.maxsize if one.kind is one.KEYWORD_ONLY else parameters.index(one)
        wanted.append((name, position, one.default))
    return Arguments(tuple(wanted))


class Hook(Struct, frozen=True):
    """A place in torch, and how to wrap what is there."""

    place: Place
    # From the tap, how to read arguments, and torch's function. The tap is kept as `tap` alone: another one may come.
    make: Callable[[Any, Arguments, Function], Function]


_OURS = " (compiler_lens)"  # how the names of frames of hooks end
_OUR_FILES = str(Path(__file__).parents[1]) + os.sep  # records of which only we hear are rendered within our frames


def without_our_frames(stack: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a stack as torch symbolizes it, without our frames."""
    # Hundreds of frames a compilation, and `in` takes a fifth of what startswith() does.
    return [frame for frame in stack if _OURS not in frame["name"] and _OUR_FILES not in frame["filename"]]


class Ready(Struct, frozen=True, eq=False):
    """What goes in place of one function of torch; it leaves things as they are where somebody has replaced it."""

    found: Found
    replacement: Any

    def put_in(self) -> Callable[[], None]:
        """Replace torch's function, and return what puts it back. Somebody's who replaced ours calls ours."""
        setattr(self.found.holder, self.found.attribute, self.replacement)
        return self._take_out

    def _take_out(self) -> None:
        found = self.found
        if vars(found.holder).get(found.attribute) is self.replacement:
            setattr(found.holder, found.attribute, found.standing)


def put_in(found: Found, make: Callable[[Function], Function]) -> Callable[[], None]:
    """Replace one function of torch by what `make` makes of it, under its name, and return what puts it back."""
    return _made(found, make).put_in()


def put_in_hook(found: Found, hook: Hook, tap: Any, idle: Any) -> Callable[[], None]:
    """Put a hook in that tells a tap, and return what takes it out and has it tell an idle one.

    Its function is made once a process: a lens may be opened for each compilation, and then all is cold. It keeps no
    tap that is done, which the garbage collector would find in the middle of somebody's compilation.
    """
    ready, cell = _made_of(found, hook)
    cell.cell_contents = tap
    take_out = ready.put_in()

    def undo() -> None:
        take_out()
        if cell.cell_contents is tap:
            cell.cell_contents = idle

    return undo


@lru_cache(64)
def _made_of(found: Found, hook: Hook) -> tuple[Ready, CellType]:
    """Return what goes in for a hook, and where it has the tap that it tells."""
    ready = _made(found, functools.partial(hook.make, None, found.arguments))
    hooked = _function_of(ready.replacement)
    return ready, (hooked.__closure__ or ())[hooked.__code__.co_freevars.index("tap")]


def _made(found: Found, make: Callable[[Function], Function]) -> Ready:
    function = _function_of(found.standing)
    wrapper = make(function)
    wrapper.__code__ = _in_place_of(function, wrapper.__code__)
    _show_as(wrapper, function)
    # What Dynamo traces in place of a function: a compiled function may call make_fx.
    vars(wrapper)["_torchdynamo_inline"] = function
    return Ready(found, staticmethod(wrapper) if isinstance(found.standing, staticmethod) else wrapper)


def _show_as(wrapper: Function, function: Function) -> None:
    """Do for functions what functools.wraps does, in a third of the time."""
    if type(function) is not FunctionType:
        functools.update_wrapper(wrapper, function)
        return
    wrapper.__name__, wrapper.__qualname__ = function.__name__, function.__qualname__
    wrapper.__module__, wrapper.__doc__ = function.__module__, function.__doc__
    vars(wrapper).update(vars(function), __wrapped__=function)


@lru_cache(64)  # by torch's function: its code would be hashed each time, with all the texts in it
def _in_place_of(function: Function, ours: CodeType) -> CodeType:
    """Our code under the name of what it wraps, for those who read the stack.

    torch cuts a user's stack at the frame of torch/_dynamo/convert_frame.py, known by its file's name (filter_stack()
    in torch/_dynamo/exc.py): a frame of ours before it would be taken for the user's.
    """
    code = getattr(function, "__code__", None)
    if code is not None:
        name = code.co_name + _OURS
        ours = ours.replace(co_filename=code.co_filename, co_name=name, co_firstlineno=code.co_firstlineno)
    have_dynamo_see(Sees.WHAT_IT_CALLS, [ours])  # a code object keeps what it was told
    return ours
