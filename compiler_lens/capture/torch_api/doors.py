"""The ways into the compiler without a frame of Dynamo's: what is called, and what it is known by."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from msgspec import Struct

from compiler_lens.capture.torch_api.places import Place

_FACT = "compilations without torch.compile, and the calls that they come from"


class Door(Struct, frozen=True):
    """A function of torch that compiles or traces what it is given."""

    place: Place
    name: str  # as PyTorch's users call it
    backend: str  # what compiles; empty where nothing does


DOORS = (
    Door(Place("torch._inductor", "compile", _FACT), "torch._inductor.compile", "inductor"),
    # torch._inductor.standalone_compile() takes it from there when called.
    Door(
        Place("torch._inductor.standalone_compile", "standalone_compile", _FACT),
        "torch._inductor.standalone_compile",
        "inductor",
    ),
    # Both aoti_compile_and_package() and torch._export.aot_compile() call it.
    Door(Place("torch._inductor", "aot_compile", _FACT), "AOTInductor", "inductor"),
    Door(Place("torch.export._trace", "_export", _FACT), "torch.export", ""),
    # make_fx() returns a function, which calls this.
    Door(Place("torch.fx.experimental.proxy_tensor", "_MakefxTracer.trace", _FACT), "make_fx", ""),
    # aot_function(), aot_module() and aot_module_simplified() begin with it, and close the stack once all is compiled.
    Door(Place("torch._functorch.aot_autograd", "create_aot_state", _FACT, ("stack",)), "AOTAutograd", "aot_autograd"),
)


# No hook goes round it: importing its module takes a second, and many a caller has its name before a lens opens.
_COMPILE_FX = Door(Place("torch._inductor.compile_fx", "compile_fx", _FACT), "compile_fx", "inductor")


class Caller(Struct, frozen=True):
    """Who called a door."""

    file: str = ""
    line: int = 0
    door: Door | None = None  # that it came through on its way to the one which has the hook


def caller(is_wanted: Callable[[str], bool], within: FrameType | None = None) -> Caller:
    """Return the innermost call under way on this thread whose file is wanted; one without a file if none is.

    Asked of the calls that a frame is in, where one is given.
    """
    seen: set[str] = set()
    through: Door | None = None
    name = _COMPILE_FX.place.name
    # Frames alone: a stack of torch's or of traceback's would read every line of source.
    frame: FrameType | None = within or sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_code.co_name == name and frame.f_globals.get("__name__") == _COMPILE_FX.place.module:
            through = _COMPILE_FX
        if file not in seen and is_wanted(file):
            return Caller(file, frame.f_lineno, through)
        seen.add(file)
        frame = frame.f_back
    return Caller(door=through)


def raised_at(error: BaseException, is_wanted: Callable[[str], bool]) -> dict[str, Any]:
    """Return the innermost line that an error came through and whose file is wanted; nothing if none is."""
    found: dict[str, Any] = {}
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if is_wanted(code.co_filename):
            text = linecache.getline(code.co_filename, line).strip()
            found = {"file": code.co_filename, "line": line, "function": code.co_name, "code": text}
    return found


def printed(error: BaseException) -> str:
    """Return an error as Python prints it, without those that it came of."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__, chain=False))
