"""What could be changed about a program so that more of it compiles, and what became of it where it was tried."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from compiler_lens.facts.measured.edits import Edit, Lines, Texts, patch
from compiler_lens.facts.measured.what_if import Counts
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.recording.model import Figures, Results, SourceLine, Tried


class Target(Struct, frozen=True):
    """What an offer is to end: a graph break, a failure, or recompiles."""

    at: SourceLine | None
    kind: str  # torch's type of the break; of recompiles the class of what changed

    @property
    def key(self) -> tuple[str, str, str]:
        """What stays the same where other lines of the file move."""
        return (self.at.file, self.at.code.strip(), self.kind) if self.at else ("", "", self.kind)


class Offer(Struct, frozen=True):
    """A change that may help."""

    target: Target
    edit: Edit
    price: str = ""  # what it takes for granted, or costs

    @property
    def code(self) -> str:
        """What it has the user write."""
        return "\n".join(self.edit.after) if isinstance(self.edit, Lines) else self.edit.code


class NotTriedBecause(Enum):
    """Why an offer was not tried."""

    NO_EDIT = "no_edit"  # no edit can be made of it
    SKETCH = "sketch"  # what there is of it leaves a part to the user
    NOT_OWN = "not_own"  # the line is not the user's
    NOT_THERE = "not_there"  # the line is not in the file as it is, or the file is no UTF-8
    LIMIT = "limit"  # enough was tried


class NotTried(Struct, frozen=True):
    """Something to change that no edit can be made of, or whose edit could not be made."""

    target: Target
    change: str  # what to do, as advised
    reason: NotTriedBecause


class Difference(Struct, frozen=True):
    """The first result that is not what it is without a change."""

    kind: (
        str  # "result", "argument" (changed in place), "gradient", "state" (a parameter or buffer at the end), "count"
    )
    call: int  # outermost calls of compiled functions before it
    index: int  # among the values of its kind
    largest: float | None = None  # the largest difference of two elements; None where the shapes or types differ


class Observed(Struct, frozen=True):
    """What one run of the program showed."""

    figures: Figures | None  # None: it raised
    counts: Counts | None
    offers: tuple[Offer, ...] = ()
    not_tried: tuple[NotTried, ...] = ()
    broken: frozenset[tuple[str, str, str]] = frozenset()  # keys of all targets
    results: Results = Results.UNKNOWN
    difference: Difference | None = None
    error: str = ""  # what it raised, or how it ended, in one line
    error_line: SourceLine | None = None
    calls: int = 0  # outermost calls of compiled functions
    findings: tuple[Finding, ...] = ()  # all that the recording shows, ranked

    @property
    def cost(self) -> tuple[int, ...]:
        """What hurts most first; a program that raises hurts more than any other."""
        if self.figures is None or self.counts is None:
            return (1,)
        return (0, self.figures.eager_functions, *self.counts.cost[:-1])


class Trial(Struct, frozen=True):
    """Offers that were made together, and what that showed."""

    offers: tuple[Offer, ...]
    texts: Texts  # of all files, as they were then
    before: Figures | None  # of the program as it is
    observed: Observed
    helps: bool  # more is compiled than without its last offers, and it computes the same as far as is known


class Fix(Struct, frozen=True):
    """All that was tried on a program."""

    first: Observed  # the program as it is
    tried: tuple[Trial, ...] = ()
    best: Trial | None = None
    not_tried: tuple[NotTried, ...] = ()
    texts: Texts = {}  # the user's files as they are
    folder: str = ""  # where the patch is made
    is_deterministic: bool = True  # two runs of the program as it is computed the same
    reference_is_eager: bool = False  # it raised when compiled: results are compared with those without torch.compile

    @property
    def by_themselves(self) -> tuple[Tried, ...]:
        """What each offer did by itself, for whoever reads the recording."""
        return tuple(
            Tried(
                offer.target.at, offer.target.kind, offer.code, trial.before, trial.observed.figures,
                trial.observed.results, trial.observed.error,
            )
            for trial in self.tried
            for offer in trial.offers
            if len(trial.offers) == 1
        )  # fmt: skip

    @property
    def changed(self) -> tuple[str, ...]:
        """The files that the best trial changes."""
        after = self.best.texts if self.best else {}
        return tuple(file for file in sorted(after) if after[file] != self.texts[file])

    @property
    def patch(self) -> str:
        """What the best trial changes as a unified diff, for `patch -p0` in the folder; empty where nothing helped."""
        return patch(self.texts, self.best.texts, self.folder) if self.best else ""
