"""The views of a diff: what each answers, and the function that makes it, loaded when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from compiler_lens.recording.errors import UsageError

if TYPE_CHECKING:
    from compiler_lens.facts.compare.model import RecordingDiff
    from compiler_lens.recording.model import Recording
    from compiler_lens.views.diff.pairs import Half, Pair
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

    diff: RecordingDiff
    before: Recording
    after: Recording
    names: tuple[str, str]  # of the two, for the reader
    name: str = ""  # of a kernel
    room: int = 999  # columns for a kernel's name
    halves: tuple[Half, ...] = ()  # both sides, for who can walk through all of it: a page; else nothing
    pairs: tuple[Pair, ...] = ()  # all that stands for each other, if so


class DiffView(Struct, frozen=True):
    """One way to look at a diff."""

    function: str  # in a module beside this one: "around.graphs"
    answers: str = ""  # empty: not listed in the help
    title: str = ""  # in the menu of a page; empty: not there
    count: Callable[[RecordingDiff], int | None] = lambda _: None  # of what it has; 0: nothing to show

    def blocks(self, asked: Asked) -> tuple[Block, ...]:
        """Return what the view says. Raises `UsageError` where it is asked about a kernel that is not there."""
        module, _, name = self.function.partition(".")
        return tuple(getattr(importlib.import_module(f"compiler_lens.views.diff.{module}"), name)(asked))


VIEWS: Mapping[str, DiffView] = {
    SUMMARY: DiffView("summary.whole", "", "Overview"),
    "kernels": DiffView(
        "kernels.kernels", "every change of a kernel, and how it was matched", "Kernels",
        lambda d: len(d.kernels) or (None if d.identical else 0),
    ),
    "kernel": DiffView("kernels.kernel", "one kernel by NAME, of either side: both sources"),
    "code": DiffView("kernels.codes", "every kernel that differs, with its code before and after"),
    "graphs": DiffView(
        "around.graphs", "ops added, gone, moved, changed, for each graph", "Graphs", lambda d: len(d.graphs)
    ),
    "breaks": DiffView(
        "around.breaks", "graph breaks fixed and new; recompiles, frames", "Breaks, recompiles",
        lambda d: len(d.breaks) + len(d.recompiles) + len(d.frames),
    ),
    "autotune": DiffView(
        "around.autotune", "ops for which another choice won", "Autotuning",
        lambda d: sum(change.times for change in d.autotunes),
    ),
    "cudagraphs": DiffView(
        "around.cudagraphs", "CUDA graphs that ended differently", "CUDA graphs", lambda d: len(d.cudagraphs)
    ),
    "times": DiffView(
        "around.compile_times", "compile time by phase; kernel times, where both sides were profiled", "Times",
        lambda d: None if (d.before.phases.timed and d.after.phases.timed) or d.call_times or d.kernel_times else 0,
    ),
    "environment": DiffView(
        "around.environment", "versions and settings that differ", "Environment", lambda d: len(d.settings) or None
    ),
}  # fmt: skip


def diff_view(name: str) -> DiffView:
    """Return a view by its name. Raises `UsageError` where there is none."""
    if name in VIEWS:
        return VIEWS[name]
    from compiler_lens.facts.program.select import nearest

    listed = [other for other, view in VIEWS.items() if view.answers]
    meant = nearest(name, listed)
    raise UsageError(f"no view {name!r}.{f' Did you mean {meant}?' if meant else ''} There are {', '.join(listed)}")
