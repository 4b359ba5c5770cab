"""No frame of ours is seen by Dynamo, though hooks and handlers run where its frame callback is active."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from compiler_lens.capture.torch_api.frames import Sees, have_dynamo_see

_PACKAGE = __name__.partition(".")[0]


@cache
def pass_over_our_frames(*observing: CodeType) -> None:
    """Have Dynamo pass over every function of ours that is loaded; in what `observing` call it sees nothing at all.

    Once for the life of the process: a code object keeps what it was told.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == _PACKAGE]
    codes = {code for module in modules for code in _codes_of(module)}
    have_dynamo_see(Sees.WHAT_IT_CALLS, codes)
    have_dynamo_see(Sees.NOTHING, observing)


def _codes_of(module: ModuleType) -> Iterator[CodeType]:
    for value in list(vars(module).values()):
        members = vars(value).values() if isinstance(value, type) else (value,)
        for function in map(_function, members):
            # An Enum has `enum`'s own functions among its members.
            if function is not None and function.__code__.co_filename == module.__file__:
                yield from _with_inner(function.__code__)


def _function(value: Any) -> FunctionType | None:
    for name in ("__func__", "fget", "__wrapped__"):  # of methods, properties, context managers
        value = getattr(value, name, value)
    return value if isinstance(value, FunctionType) else None


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _with_inner(inner)
