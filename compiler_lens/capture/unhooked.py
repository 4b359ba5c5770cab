"""Code that was compiled without the hooks of some modules, and does not look whether they have any."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from compiler_lens.capture.session import FrameRecord
from compiler_lens.capture.torch_api import module_hooks


class Unhooked(Struct, frozen=True, eq=False):
    """What one frame was compiled without."""

    guards: weakref.ref[Any]
    record: FrameRecord
    tables: dict[int, weakref.ref[Any]]  # of hooks, by their id

    @property
    def is_in_use(self) -> bool:
        """Whether torch still runs this code: a reset drops it."""
        return module_hooks.is_in_use(self.guards())

    def leaves_out(self, table: Any) -> bool:
        """Whether it was compiled without what now is in a table."""
        known = self.tables.get(id(table))
        return known is not None and known() is table


class Late(Struct, frozen=True, eq=False):
    """A hook that was registered where code was compiled without it."""

    table: weakref.ref[Any]
    key: int  # its own, in that table
    left_out: tuple[Unhooked, ...]
    facts: Mapping[str, Any]  # to note

    @property
    def is_still_in(self) -> bool:
        """Whether nobody took it out again."""
        return self.key in (self.table() or ())


def keep(kept: dict[int, Unhooked], guards: Any, record: FrameRecord, tables: Iterable[Any]) -> bool:
    """Keep what a frame was compiled without until its guards are gone; return whether there is anything."""
    of = {id(table): weakref.ref(table) for table in tables}
    if of and record.sessions:
        # No function of ours as its callback: the garbage collector may call it where Dynamo looks.
        gone = functools.partial(kept.pop, id(guards))
        kept[id(guards)] = Unhooked(weakref.ref(guards, gone), record, of)
    return bool(of and record.sessions)
