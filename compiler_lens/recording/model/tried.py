"""What was offered for a program, made in it, and what that did."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from compiler_lens.recording.model.lines import SourceLine
from compiler_lens.recording.shape import Count


class Results(Enum):
    """Whether a program computes the same as without a change."""

    EQUAL = "equal"
    DIFFER = "differ"
    UNKNOWN = "unknown"  # it raised, or two runs of the program as it is differ


class Figures(Struct, frozen=True):
    """How much of a program was compiled."""

    graph_breaks: Count
    recompiles: Count
    eager_functions: Count  # functions that run eagerly, from some line on or after too many recompiles, or failed


class NextBreak(Struct, frozen=True):
    """A place that breaks the graph once what comes before it does not any more."""

    line: SourceLine
    gb_type: str


class Tried(Struct, frozen=True):
    """One offer, made in a copy of the program."""

    place: SourceLine | None  # of what it is for
    kind: str  # torch's type of the graph break; of recompiles the class of what changed
    code: str  # the lines to write, or the setting
    before: Figures | None  # of the program as it is; None: it raised
    after: Figures | None
    results: Results
    error: str = ""  # what it raised, in one line
    next: tuple[NextBreak, ...] = ()  # what broke the graph then, and did not before
    beside: Count = 0  # other offers that were made with it; 0: it was made by itself
    is_checked: bool = True  # it was looked at closer, with other inputs above all, or has no need of it

    @property
    def is_better(self) -> bool:
        """Whether it computes the same, and less of the program runs eagerly, breaks or is compiled again."""
        if self.before is None or self.after is None or self.results is not Results.EQUAL:
            return False
        one, other = self.after, self.before
        return (one.eager_functions, one.graph_breaks, one.recompiles) < (
            other.eager_functions,
            other.graph_breaks,
            other.recompiles,
        )

    def is_for(self, place: SourceLine | None, kind: str) -> bool:
        """Return whether it is for what is there: by the text of the line, as lines may have moved."""
        if self.place is None or place is None or self.kind != kind or self.place.code.strip() != place.code.strip():
            return False
        one, other = self.place.file, place.file  # a script may be known by its name alone
        return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")
