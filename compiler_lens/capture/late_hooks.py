"""What guards are on, and hooks that a program registers on a module that is compiled already: nothing in a call."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any

from compiler_lens.capture import sources
from compiler_lens.capture.calls import CALL_HOOK, tell, tell_late
from compiler_lens.capture.hooks import after
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import guards, module_hooks
from compiler_lens.capture.torch_api.doors import caller
from compiler_lens.capture.torch_api.places import Hook
from compiler_lens.capture.unhooked import Late, keep

_NAME = "hooks of modules"


def _built(tap: Tap, result: Any, made: Any) -> None:
    if not (telling := guards.telling(made)):
        return
    builder, manager = result
    if members := guards.members(builder, telling):
        tap.note("lens.members", {"members": members}, waits=True)
    if keep(tap.unhooked, manager, tap.here(), guards.not_looked_for(builder, telling)):
        if not tap.knows(_REGISTRATIONS[0].place):
            atexit.register(_at_exit, tap)  # earlier than torch drops its code there
        tap.install(_REGISTRATIONS)  # now there is something to be late for


def _of_a_module(kind: str) -> Callable[..., None]:
    def observe(tap: Tap, handle: Any, module: Any) -> None:
        table = module_hooks.table_of(handle)
        tap.registered[id(table)] = {handle.id, *(tap.registered.get(id(table), set()) & table.keys())}
        if tap.is_outside:
            _late(tap, handle, kind, type(module).__name__)

    return observe


def _of_all_modules(kind: str) -> Callable[..., None]:
    def observe(tap: Tap, handle: Any) -> None:
        asker = module_hooks.asker()
        is_theirs = asker is not None and sources.is_kept(asker.f_code.co_filename)
        if tap.is_outside and is_theirs and len(module_hooks.table_of(handle)) == 1:  # else it compiled with another
            _late(tap, handle, kind, "")

    return observe


def _late(tap: Tap, handle: Any, kind: str, module: str) -> None:
    """Keep a hook until a call runs code that was compiled without it; it may be taken out before that."""
    table, every = module_hooks.table_of(handle), list(tap.unhooked.values())
    found = [one for one in every if (not module or one.leaves_out(table)) and one.is_in_use]
    if found:
        at = caller(sources.is_kept)
        facts = {"hook": kind, "module": module, "file": at.file, "line": at.line}
        tap.late_hooks.append(Late(handle.hooks_dict_ref, handle.id, tuple(found), facts))
        tap.install((CALL_HOOK,))


def look_at_tables(tap: Tap) -> None:
    """Note hooks that were put into the tables of modules by hand, which nobody hears of."""
    by_hand = [
        (table, one)
        for one in list(tap.unhooked.values())
        if one.is_in_use
        for table in (known() for known in one.tables.values())
        if table and table.keys() - tap.registered.get(id(table), set())
    ]
    for owner, kind, table in module_hooks.owners([table for table, _ in by_hand]) if by_hand else ():
        facts = {"hook": kind, "module": type(owner).__name__, "by_hand": True}
        for code in (one for mine, one in by_hand if mine is table):
            tell(tap, code, facts)


def tell_all(tap: Tap) -> None:
    """Note what waits, and what stands in tables, as a recording ends."""
    tell_late(tap)
    look_at_tables(tap)


def forget(tap: Tap) -> None:
    """Leave Python's exit as it was, once nobody records."""
    if not tap.sessions:
        atexit.unregister(_at_exit)


def _at_exit(tap: Tap) -> None:
    tap.safely(_NAME, tell_all, tap)


def _registration(name: str) -> Hook:
    kind = module_hooks.OF_A_MODULE.get(name)
    observer = _of_all_modules(module_hooks.OF_ALL_MODULES[name]) if kind is None else _of_a_module(kind)
    return after(module_hooks.registers(name), _NAME, observer)


_REGISTRATIONS = tuple(map(_registration, (*module_hooks.OF_A_MODULE, *module_hooks.OF_ALL_MODULES)))
GUARD_HOOKS = (after(guards.BUILT, "guards as they are made", _built),)
