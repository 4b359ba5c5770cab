"""The views of a diff: what each answers, and the function that makes it, loaded when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from compiler_lens.recording.errors import UsageError

if TYPE_CHECKING:
    from compiler_lens.facts.compare.model import RecordingDiff
    from compiler_lens.recording.model import Recording
    from compiler_lens.views.document import Block

SUMMARY = "summary"


class Compared(Protocol):
    """Two recordings and what differs between them."""

    @property
    def before(self) -> Recording: ...
    @property
    def after(self) -> Recording: ...
    @property
    def result(self) -> RecordingDiff: ...
    @property
    def names(self) -> tuple[str, str]:
        """What to type for the two, or what the reader knows them by."""


class Asked(Struct, frozen=True):
    """What of a diff is wanted."""

    compared: Compared
    name: str  # of a kernel
    room: int  # columns for a kernel's name

    @property
    def diff(self) -> RecordingDiff:
        """What differs."""
        return self.compared.result


class DiffView(Struct, frozen=True):
    """One way to look at a diff."""

    function: str  # in a module beside this one: "around.graphs"
    answers: str = ""  # empty: not listed in the help

    def blocks(self, asked: Asked) -> tuple[Block, ...]:
        """Return what the view says. Raises `UsageError` where it is asked about a kernel that is not there."""
        module, _, name = self.function.partition(".")
        made: tuple[Block, ...] = getattr(importlib.import_module(f"compiler_lens.views.diff.{module}"), name)(asked)
        return made


VIEWS: Mapping[str, DiffView] = {
    SUMMARY: DiffView("summary.whole"),
    "kernels": DiffView("kernels.kernels", "every change of a kernel, and how it was matched"),
    "kernel": DiffView("code.kernel", "one kernel by NAME, of either side: both sources"),
    "code": DiffView("code.codes"),
    "graphs": DiffView("around.graphs", "ops added, gone, moved, changed, for each graph"),
    "breaks": DiffView("around.breaks", "graph breaks fixed and new; recompiles, frames"),
    "autotune": DiffView("around.autotune", "ops for which another choice won"),
    "times": DiffView("around.compile_times", "compile time by phase; kernel times, where both sides were profiled"),
    "environment": DiffView("around.environment", "versions and settings that differ"),
}


def diff_view(name: str) -> DiffView:
    """Return a view by its name. Raises `UsageError` where there is none."""
    if name in VIEWS:
        return VIEWS[name]
    from compiler_lens.facts.program.select import nearest

    listed = [other for other, view in VIEWS.items() if view.answers]
    meant = nearest(name, listed)
    raise UsageError(f"no view {name!r}.{f' Did you mean {meant}?' if meant else ''} There are {', '.join(listed)}")
