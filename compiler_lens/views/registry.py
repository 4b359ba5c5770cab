"""The views of a recording: what each answers, and what it can be asked about.

`show` and its help, the page's menu and the JSON are made from this table. The view NAME is the function `document` of
the module `compiler_lens.views.NAME`, and the type of its facts for programs is `Data` there.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from compiler_lens.recording.errors import UsageError

if TYPE_CHECKING:  # every command of the command line reads this table, `--version` too
    from compiler_lens.facts.program.select import Selection
    from compiler_lens.recording.model import Recording
    from compiler_lens.views.document import Document


class Asks(Enum):
    """What a view can be asked about, as its help writes it."""

    NOTHING = ""
    IDS = "[ID]"
    GRAPH = "[ID [STAGE]]"
    KERNEL = "NAME"
    LAUNCHES = "[ID | LINE | MODULE | KERNEL]"
    LINE = "[LINE | MODULE]"
    FILE = "[FILE[:LINE]]"

    @property
    def most(self) -> int:
        """How many words name it at most."""
        return {Asks.NOTHING: 0, Asks.GRAPH: 2}.get(self, 1)


class View(Struct, frozen=True):
    """One way to look at a recording."""

    name: str
    title: str  # in the page's menu
    answers: str
    asks: Asks = Asks.IDS
    in_page: bool = True  # whether the page shows its document

    def document(self, recording: Recording, selection: Selection) -> Document:
        """Return what the view says of a recording, or of the part of it that was asked for.

        Raises `UsageError` where the recording has nothing of that name.
        """
        made: Document = self._module().document(recording, selection)
        return made

    def documents(self, recording: Recording, selection: Selection) -> Iterator[Document]:
        """Return a document for each thing that the view can be asked about, in the recording's order."""
        made: Iterator[Document] = self._module().documents(recording, selection)
        return made

    @property
    def data(self) -> type:
        """The type of the view's facts for programs."""
        return self._module().Data  # type: ignore[no-any-return]

    def _module(self) -> Any:
        return importlib.import_module(f"compiler_lens.views.{self.name}")


REPORT = "report"
OVERVIEW = View(REPORT, "Overview", "one screen: what happened, what to do next", Asks.NOTHING)

# Of the JSON documents. 1: the first. 2: one shape for every place; "direction" for "part"; a rule for every finding.
FORMAT = 2

# In the order of the help and of the page's menu.
VIEWS: tuple[View, ...] = (
    View("findings", "Findings", "everything worth knowing, ranked: severity, cost, what to change", in_page=False),
    View("source", "Source", "your file line by line: compiled, broken, eager; with FILE[:LINE] that one", Asks.FILE),
    View(
        "kernels",
        "Kernels",
        "every kernel, and the lines and modules that it is for; with ID, LINE, MODULE or KERNEL those of it",
        Asks.LAUNCHES,
    ),
    View(
        "kernel",
        "Kernel",
        "one kernel by NAME, or a part of it: from your lines to its launches and its source",
        Asks.KERNEL,
        in_page=False,
    ),
    View(
        "line",
        "Line",
        "what became of a LINE, model.py:41, or of a MODULE, layers.3.attn; alone, every line with kernels",
        Asks.LINE,
        in_page=False,
    ),
    View(
        "profile",
        "Kernel times",
        "how long each kernel takes, against the least that this device needs; the same can be named as there",
        Asks.LAUNCHES,
        in_page=False,
    ),
    View(
        "fusion", "Fusion", "launches that share memory and are not one kernel: what that costs, and why", in_page=False
    ),
    View("graphs", "Graphs", "compilations; with ID its graphs, with ID STAGE the code of one", Asks.GRAPH),
    View("breaks", "Graph breaks", "graph breaks by place in your code: why, and what to change"),
    View("recompiles", "Recompiles", "what changed from one compilation of a function to the next, and what to do"),
    View("frames", "Functions", "what became of every function: compiled, skipped, failed"),
    View("eager", "Eager", "what runs eagerly, for which reason, and how much of it is known", Asks.NOTHING),
    View("guards", "Guards", "the conditions for reusing compiled code; with ID every one"),
    View("times", "Compile time", "compile time by phase, by compilation, by torch's own events"),
    View("caches", "Caches", "hit, miss or bypass, for every question to torch's caches"),
    View("autotune", "Autotuning", "what max-autotune tried for each op, and what won"),
    View("cudagraphs", "CUDA graphs", "which graphs run as CUDA graphs, and why not the others"),
    View("settings", "Settings", "settings that differ from torch's defaults: by whom, since when, what each touches"),
    View("environment", "Environment", "versions, device, changed settings, gaps in the recording"),
)


BY_NAME: Mapping[str, View] = {view.name: view for view in (OVERVIEW, *VIEWS)}


def checked_view(name: str) -> View:
    """Return the view of a name. Raises `UsageError`, with what there is instead, if there is none."""
    if name in BY_NAME:
        return BY_NAME[name]
    from compiler_lens.facts.program.select import nearest

    names = [view.name for view in VIEWS]
    meant = nearest(name, names)
    hint = f" Did you mean {meant}?" if meant else ""
    raise UsageError(f"no view {name!r}.{hint} There are {', '.join(names)}")


# What other commands print as JSON: where the type of its facts stands.
_OTHERS = {
    "diff": "compiler_lens.views.diff.data",
    "fix": "compiler_lens.views.measured.fix",
    "modes": "compiler_lens.views.measured.modes",
    "what_if": "compiler_lens.views.measured.what_if",
}


def documented(name: str | None = None) -> list[tuple[str, Any]]:
    """Return the name of what is printed as JSON and the type of its facts; all there is, where no name is given.

    Raises `UsageError` for a name that is none of them.
    """
    found = []
    for one in [*BY_NAME, *_OTHERS] if name is None else [name]:
        other = _OTHERS.get(one)
        found.append((one, importlib.import_module(other).Data if other else checked_view(one).data))
    return found
