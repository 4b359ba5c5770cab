"""Hooks round functions of torch: put in, taken out, and never in the way.

The original runs exactly once and outside of our own error handling: whatever goes wrong in an observer,
the user's call does not see it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from compiler_lens.capture.torch_api.places import Arguments, Place

Function = Callable[..., Any]
# From the tap, how to read the arguments of a call, and torch's function: the function that goes in its place.
Make = Callable[[Any, Arguments, Function], Function]


class Hook(Struct, frozen=True):
    """A place in torch, and how to wrap what is there."""

    place: Place
    make: Make


class Patch:
    """One function of torch, replaced while somebody records."""

    def __init__(self, holder: Any, attribute: str, make: Callable[[Function], Function]) -> None:
        self._holder = holder
        self._attribute = attribute
        self._original = inspect.getattr_static(holder, attribute)
        is_static = isinstance(self._original, staticmethod)
        function = self._original.__func__ if is_static else self._original
        wrapper = make(function)
        self._replacement = staticmethod(wrapper) if is_static else wrapper
        setattr(holder, attribute, self._replacement)

    def undo(self) -> None:
        """Put the original back, unless somebody has replaced ours: theirs calls ours, which then only passes on."""
        if inspect.getattr_static(self._holder, self._attribute) is self._replacement:
            setattr(self._holder, self._attribute, self._original)


def observe_after(name: str, observer: Callable[..., None]) -> Make:
    """Return a hook that looks at a call once it has returned: `observer(tap, result, *what the place reads)`."""

    def make(tap: Any, arguments: Arguments, original: Function) -> Function:
        @functools.wraps(original)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            tap.safely(name, lambda: observer(tap, result, *arguments.of(args, kwargs)))
            return result

        return hooked

    return make


def observe_before(name: str, observer: Callable[..., None]) -> Make:
    """Return a hook that looks at a call before it changes its arguments: `observer(tap, *what the place reads)`."""

    def make(tap: Any, arguments: Arguments, original: Function) -> Function:
        @functools.wraps(original)
        def hooked(*args: Any, **kwargs: Any) -> Any:
            tap.safely(name, lambda: observer(tap, *arguments.of(args, kwargs)))
            return original(*args, **kwargs)

        return hooked

    return make


def as_if_it_were(hooked: Function, original: Function) -> Function:
    """Give a hook the place of what it wraps, for those who read the stack.

    torch cuts a user's stack at the frame of torch/_dynamo/convert_frame.py, known by its file's name (filter_stack()
    in torch/_dynamo/exc.py, log_dynamo_start() there): a frame of ours before it would be taken for the user's.
    """
    code = original.__code__
    hooked.__code__ = hooked.__code__.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=code.co_firstlineno
    )
    return hooked
