"""What a user wrote, as it is while it compiles: the text of files, and what a frame's function is called there."""

from __future__ import annotations

import inspect
import linecache
import os
import re
import stat
import sysconfig
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

from compiler_lens.capture.torch_api import dynamo
from compiler_lens.recording.event import Event
from compiler_lens.recording.resume_names import resumed

_LONGEST = 1_000_000  # characters: nobody wrote more than that by hand
_NAMED = re.compile(r'File \\?"([^"\\\n]+)\\?", line \d')  # in a stack as Python prints it, also inside of JSON
_PACKAGES = ("site-packages", "dist-packages")
_OURS = str(Path(__file__).parents[1]) + os.sep
_BOUND = (staticmethod, classmethod, MethodType)
_DEEPEST = 20  # decorators round one function


def files_named(text: str | None) -> set[str]:
    """Return the files of Python that stacks in a text go through, or what looks like one in a message."""
    named = _NAMED.findall(text) if text else ()
    return {file for file in named if file.endswith(".py") or file in linecache.cache}  # which has cells and scripts


def source_event(file: str) -> Event | None:
    """Return a file's text as an event; None for torch's own files, the standard library's, and what has no text."""
    if not is_kept(file) or not _is_text(file):
        return None
    text = "".join(linecache.getlines(file))
    return Event("lens.source", time.time(), meta={"file": file}, text=text) if 0 < len(text) <= _LONGEST else None


def _is_text(file: str) -> bool:
    """Whether a file can be read at once: a pipe would not end, a device might not."""
    if file in linecache.cache:
        return True
    try:
        found = Path(file).stat()
    except OSError:  # linecache looks for it along sys.path
        return True
    except ValueError:  # a name that no file can have
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= 4 * _LONGEST  # of UTF-8, a character has 4 bytes at most


@lru_cache(1024)  # every frame of a stack is asked for
def is_kept(file: str) -> bool:
    """Return whether a file may be somebody's model: not torch's, not ours, not the standard library's."""
    torchs, standard = _folders()
    if not file or file.startswith(("<eval_with_key>", "<frozen", torchs, _OURS)):
        return False
    inside = file.removeprefix(standard)
    return inside == file or any(package in inside for package in _PACKAGES)


@cache
def _folders() -> tuple[str, str]:
    """Where torch and the standard library are. Asking sysconfig takes a third of a millisecond."""
    import torch

    return str(Path(torch.__file__).parent) + os.sep, sysconfig.get_path("stdlib")


def definition(code: CodeType, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the author calls a function, its place and parameters; empty for a resume function.

    Asked of a frame's code and its local variables.
    """
    if resumed(code.co_name):
        return {}
    function = _module_forward(code, values)
    name = function.__qualname__ if function is not None else getattr(code, "co_qualname", code.co_name)
    code = function.__code__ if function is not None else code
    place = {"file": code.co_filename, "line": code.co_firstlineno, "name": name.replace("<locals>.", "")}
    parameters = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    is_method = parameters[:1] in (["self"], ["cls"])
    return {"definition": place, "parameters": parameters[1:] if is_method else parameters}


def _module_forward(code: CodeType, values: Mapping[str, Any]) -> FunctionType | None:
    """For torch's wrapper around a module, and for decorators around its forward: that forward as it was written.

    Of a method of a module that has a decorator of torch's, as `@torch.no_grad()`, it is that method.
    """
    if (method := dynamo.wrapped_method(code, values)) is not None:
        return next(reversed(decorated(method)), None)
    module = dynamo.wrapped_module(code, values)
    receiver = module
    if module is None and code.co_argcount:  # what a method calls self
        receiver = values.get(code.co_varnames[0])
    elif module is None and code.co_flags & inspect.CO_VARARGS:  # what a decorator's wrapper has as args[0]
        rest = values.get(code.co_varnames[code.co_kwonlyargcount])
        receiver = rest[0] if isinstance(rest, tuple) and rest else None
    # Without running the user's code.
    chain = decorated(inspect.getattr_static(receiver, "forward", None)) if dynamo.module_class(receiver) else []
    is_forward = module is not None or any(function.__code__ is code for function in chain)
    return chain[-1] if chain and is_forward else None


def decorated(found: Any) -> list[FunctionType]:
    """Return a function and what its decorators wrap, innermost last. Other objects are not asked: nothing."""
    chain: list[FunctionType] = []
    while len(chain) < _DEEPEST:
        if type(found) in _BOUND:
            found = found.__func__
        if type(found) is not FunctionType:
            break
        chain.append(found)
        found = vars(found).get("__wrapped__")
    return chain
