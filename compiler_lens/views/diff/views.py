"""The views of a diff: what each answers, and the function that makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from compiler_lens.facts.compare.model import RecordingDiff
from compiler_lens.facts.program.select import nearest
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording
from compiler_lens.views.diff.around import autotune, breaks, compile_times, environment, graphs
from compiler_lens.views.diff.code import codes, kernel
from compiler_lens.views.diff.kernels import kernels
from compiler_lens.views.diff.summary import summary
from compiler_lens.views.document import Block, Command

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


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a diff is wanted."""

    compared: Compared
    name: str  # of a kernel
    room: int  # columns for a kernel's name


def _summary(asked: Asked) -> tuple[Block, ...]:
    d = asked.compared.result
    more = ["kernels", "code"] if d.kernels else []
    more += [view for view, found in (("graphs", d.graphs), ("breaks", d.breaks), ("autotune", d.autotunes)) if found]
    if not more and d.is_empty:
        return summary(d, asked.room)
    others = ", ".join([*more, "times", "environment"])
    return *summary(d, asked.room), Command(f"more ({others}): ", more[0] if more else "times", indent=0)


@dataclass(frozen=True, slots=True)
class DiffView:
    """One way to look at a diff."""

    answers: str  # empty: not listed in the help
    blocks: Callable[[Asked], tuple[Block, ...]]


VIEWS: Mapping[str, DiffView] = {
    SUMMARY: DiffView("", _summary),
    "kernels": DiffView(
        "every change of a kernel, and how it was matched", lambda asked: kernels(asked.compared.result)
    ),
    "kernel": DiffView(
        "one kernel by NAME, of either side: both sources",
        lambda asked: kernel(asked.compared.result, asked.compared.before, asked.compared.after, asked.name),
    ),
    "code": DiffView("", lambda asked: codes(asked.compared.result, asked.compared.before, asked.compared.after)),
    "graphs": DiffView("ops added, gone, moved, changed, for each graph", lambda asked: graphs(asked.compared.result)),
    "breaks": DiffView("graph breaks fixed and new; recompiles, frames", lambda asked: breaks(asked.compared.result)),
    "autotune": DiffView("ops for which another choice won", lambda asked: autotune(asked.compared.result)),
    "times": DiffView(
        "compile time by phase; kernel times, where both sides were profiled",
        lambda asked: compile_times(asked.compared.result),
    ),
    "environment": DiffView("versions and settings that differ", lambda asked: environment(asked.compared.result)),
}


def diff_view(name: str) -> DiffView:
    """Return a view by its name. Raises `UsageError` where there is none."""
    if name in VIEWS:
        return VIEWS[name]
    listed = [other for other, view in VIEWS.items() if view.answers]
    meant = nearest(name, listed)
    raise UsageError(f"no view {name!r}.{f' Did you mean {meant}?' if meant else ''} There are {', '.join(listed)}")
