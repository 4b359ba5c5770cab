"""Calls of what torch.compile made: heard only while all of them are eager, or a hook waits for the next one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from compiler_lens.capture import sources
from compiler_lens.capture.hooks import before
from compiler_lens.capture.session import owner_of
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import asked, dynamo
from compiler_lens.capture.unhooked import Unhooked
from compiler_lens.recording.event import NO_ID, Event


def written(wrapped: Any, module: Any) -> list[FunctionType]:
    """Return what its author wrote, innermost last: of a module its forward."""
    if module is not None:
        wrapped = vars(module).get("forward") or getattr(type(module), "forward", None)
    return sources.decorated(wrapped)


def tell_late(tap: Tap) -> None:
    """Note the hooks that wait, where they are still in and code that runs leaves them out."""
    waiting, tap.late_hooks = tap.late_hooks, []
    for late in waiting:
        for code in late.left_out if late.is_still_in else ():
            if code.is_in_use:
                tell(tap, code, late.facts)


def tell(tap: Tap, code: Unhooked, facts: Mapping[str, Any]) -> None:
    """Note a hook that some code was compiled without."""
    record = code.record
    tap.tell_first(record, Event("lens.late_hook", time.time(), record.run, record.torch_id or NO_ID, meta=facts))


def stop_hearing(tap: Tap) -> None:
    """Take the hook out again that each call comes through, where nothing needs it."""
    if not tap.late_hooks and not asked.forces_eager(asked.stance_in_force()):
        tap.withdraw(asked.CALLS)


def _called(tap: Tap, callback: Any) -> None:
    if not callable(callback):  # of what is disabled, or of no compiled function
        return
    if asked.forces_eager(asked.stance_in_force()):
        _count(tap, callback)
    else:
        tell_late(tap)
        stop_hearing(tap)


def _count(tap: Tap, callback: Any) -> None:
    wrapped = asked.called()
    chain = written(wrapped, asked.module_in(wrapped))
    call = ("", "", 0)
    if chain:
        at, name = chain[-1].__code__, chain[-1].__qualname__.replace("<locals>.", "")
        call = (name, at.co_filename, at.co_firstlineno) if sources.is_kept(at.co_filename) else (name, "", 0)
    tap.count_eager(call, owner_of(dynamo.compiler_of(dynamo.innermost_backend(callback))))


CALL_HOOK = before(asked.CALLS, "calls", _called)
