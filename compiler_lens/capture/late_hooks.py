"""What guards are on, and hooks that a program registers on a module that is compiled already: nothing in a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from compiler_lens.capture import sources
from compiler_lens.capture.hooks import after
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import guards, module_hooks
from compiler_lens.capture.torch_api.doors import caller
from compiler_lens.capture.torch_api.places import Hook
from compiler_lens.capture.unhooked import keep
from compiler_lens.recording.event import NO_ID, Event

_NAME = "hooks of modules"


def _built(tap: Tap, result: Any, made: Any) -> None:
    if not (telling := guards.telling(made)):
        return
    builder, manager = result
    if members := guards.members(builder, telling):
        tap.note("lens.members", {"members": members}, waits=True)
    if keep(tap.unhooked, manager, tap.here(), guards.not_looked_for(builder, telling)):
        tap.install(_REGISTRATIONS)  # now there is something to be late for


def _of_a_module(kind: str) -> Callable[..., None]:
    def observe(tap: Tap, handle: Any, module: Any) -> None:
        if tap.is_outside:
            _late(tap, kind, type(module).__name__, module_hooks.table_of(handle))

    return observe


def _of_all_modules(kind: str) -> Callable[..., None]:
    def observe(tap: Tap, handle: Any) -> None:
        asker = module_hooks.asker()
        is_theirs = asker is not None and sources.is_kept(asker.f_code.co_filename)
        if tap.is_outside and is_theirs and len(module_hooks.table_of(handle)) == 1:  # else it compiled with another
            _late(tap, kind, "", None)

    return observe


def _late(tap: Tap, kind: str, module: str, table: Any) -> None:
    """Note a hook where code that runs was compiled without; of all modules where there is no table."""
    found = [one for one in list(tap.unhooked.values()) if (table is None or one.leaves_out(table)) and one.is_in_use]
    if not found:
        return
    at = caller(sources.is_kept)
    facts = {"hook": kind, "module": module, "file": at.file, "line": at.line}
    for record in (one.record for one in found):
        tap.tell_first(record, Event("lens.late_hook", time.time(), record.run, record.torch_id or NO_ID, meta=facts))


def _registration(name: str) -> Hook:
    kind = module_hooks.OF_A_MODULE.get(name)
    observer = _of_all_modules(module_hooks.OF_ALL_MODULES[name]) if kind is None else _of_a_module(kind)
    return after(module_hooks.registers(name), _NAME, observer)


_REGISTRATIONS = tuple(map(_registration, (*module_hooks.OF_A_MODULE, *module_hooks.OF_ALL_MODULES)))
GUARD_HOOKS = (after(guards.BUILT, "guards as they are made", _built),)
