"""Compilations that no frame of Dynamo's leads to: a hook round each call that begins one."""

from __future__ import annotations

import functools
from typing import Any

from compiler_lens.capture import hooks, sources
from compiler_lens.capture.hooks import frame_error, note_kernels
from compiler_lens.capture.session import FrameRecord
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import doors
from compiler_lens.capture.torch_api.doors import Door
from compiler_lens.capture.torch_api.places import Arguments, Function, Hook


def _hook(door: Door) -> Hook:
    """A hook round a call that compiles; one that is given an ExitStack goes on until that is closed."""

    def make(tap: Tap, arguments: Arguments, original: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            record = _enter(tap, door)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                _leave(tap, record, error)
                raise
            if not door.place.reads:
                _leave(tap, record, None)
            elif record is not None:
                leave = functools.partial(_leave, tap, record)
                stack = functools.partial(arguments.of, args, kwargs)
                tap.safely("call", lambda: stack()[0].push(lambda _kind, error, _trace: leave(error)))
            return result

        return hooked

    return Hook(door.place, make)


def _enter(tap: Tap, door: Door) -> FrameRecord | None:
    entered: list[FrameRecord] = []

    def enter() -> None:
        if door.place.reads:
            tap.install(hooks.AOT_HOOKS)  # what they are round comes next
        if tap.is_outside:  # else what is under way calls it: AOTAutograd traces by make_fx
            caller = doors.caller(sources.is_kept)
            name, backend = (caller.door or door).name, (caller.door or door).backend
            facts = {"door": name, "function": name, "file": caller.file, "line": caller.line, "backend": backend}
            record = tap.enter(facts, None)
            entered.append(record)
            tap.begin(record)
            if backend == "inductor":
                tap.install(hooks.INDUCTOR_HOOKS)

    tap.safely("call", enter)
    return entered[0] if entered else None


def _leave(tap: Tap, record: FrameRecord | None, error: BaseException | None) -> None:
    if record is None:
        return

    def leave() -> None:
        if error is None:
            note_kernels(tap, record.pending)  # of AOTInductor, whose graph is never made ready to be called
        else:
            tap.note("lens.call_error", doors.raised_at(error, sources.is_kept), doors.printed(error))
        ended = {"result": "code" if record.facts["backend"] else "none", "reason": ""}
        tap.leave(record, ended if error is None else frame_error(error))

    tap.safely("call", leave)
    tap.attribution.out_of(record)


DOOR_HOOKS = tuple(map(_hook, doors.DOORS))
