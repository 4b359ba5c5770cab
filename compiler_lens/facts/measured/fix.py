"""What could be changed about a program so that more of it compiles, and what became of it where it was tried."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.calls import RANDOM_NEEDS
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.each_call import AtEachCall
from compiler_lens.facts.measured.edits import Edit, Lines, Setting, Split, Texts, patch
from compiler_lens.facts.measured.enums import Member
from compiler_lens.facts.measured.other_inputs import OtherCall, OtherInputs, Taken
from compiler_lens.facts.measured.printed import OtherWords
from compiler_lens.facts.measured.properties import IN_EACH_CALL
from compiler_lens.facts.measured.what_if import Counts
from compiler_lens.facts.overview.all_clear import Against
from compiler_lens.facts.overview.eager import EagerPart, Reason
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.fixes import SIZES, CauseClass
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Figures, NextBreak, Results, SourceLine, Tried

RECOMPILES = frozenset(one.value for one in CauseClass)  # kinds of targets
NOT_DONE = "not done after"  # and how long: what is said of a run that was ended
_LARGE = 100  # operators in a graph: of a loop, as a rule
_IN_EAGER = re.compile(r"^if not \w+\.compiler\.is_compiling\(\)(?: and .*)?:$")
_ALWAYS = re.compile(r"^if \w+\.compiler\.is_compiling\(\) or ")
_DEFERS = re.compile(r"\breorderable_logging_functions\b|\b_higher_order_ops\.print\(")
_SAYS_LESS = re.compile(r"\bcompiler\.is_compiling\(\)|\bignore_logging_")
_UNKNOWN = re.compile(r"\.capture_(scalar_outputs|dynamic_output_shape_ops) = True")


class Target(Struct, frozen=True):
    """What an offer is to end: a graph break, a failure, or recompiles."""

    at: SourceLine | None
    kind: str  # torch's type of the break; of recompiles the class of what changed
    frame: str = ""  # the function that torch compiles, in which this is, or which leads there

    @property
    def key(self) -> tuple[str, str, str]:
        """What stays the same where other lines of the file move."""
        return (self.at.file, self.at.code.strip(), self.kind) if self.at else ("", "", self.kind)


class Offer(Struct, frozen=True):
    """A change that may help."""

    target: Target
    edit: Edit
    price: str = ""  # what it takes for granted, or costs
    is_last_resort: bool = False  # tried only for what is left when nothing else helps any more
    takes_value: bool = False  # a tensor's value is taken for granted in compiled code
    needs_aot: bool = False  # what it does shows only where AOTAutograd traces the graph
    keeps_computed: bool = False  # it helps only where all that was in a graph still is
    may_lose: frozenset[tuple[str, str]] = frozenset()  # but these lines, by file and text
    is_final: bool = False  # the last of last resorts: it ends breaks and recompiles only by compiling less
    needs_both: bool = False  # it is believed only where both sides of the branch were taken
    may_raise: bool = False  # in compiled code it raises where what it takes for granted does not hold, as it says
    raises_less: bool = False  # where sizes do not fit without it, they do with it, as it says
    leaves: str = ""  # the name of what compiled code then keeps nothing in, on purpose

    @property
    def at(self) -> SourceLine | None:
        """Where it is made, as far as one line says that: a mark stands above another function than its line is in."""
        edit, about = self.edit, self.target.at
        if (
            isinstance(edit, Lines)
            and len(edit.before) == 1
            and about
            and (edit.file, edit.near) != (about.file, about.line)
        ):
            return SourceLine(edit.file, edit.near, "", edit.before[0])
        return about

    @property
    def drops(self) -> bool:
        """Whether compiled code then leaves out what the program does there, such as to print."""
        return isinstance(self.edit, Lines) and _IN_EAGER.match(self.edit.title) is not None

    @property
    def is_always_taken(self) -> bool:
        """Whether compiled code then takes a branch without asking: where its test is true, as it did before."""
        return isinstance(self.edit, Lines) and _ALWAYS.match(self.edit.title) is not None

    @property
    def silences(self) -> bool:
        """Whether compiled code then leaves out all messages of a kind, wherever they are."""
        return isinstance(self.edit, Setting) and ".ignore_logging_functions = " in self.edit.code

    @property
    def may_say_less(self) -> bool:
        """Whether compiled code may then print less than the program as it is."""
        return _SAYS_LESS.search(self.code) is not None

    @property
    def defers(self) -> bool:
        """Whether what the program prints then comes after the graph has run."""
        return _DEFERS.search(self.code) is not None

    @property
    def moves(self) -> bool:
        """Whether what the program prints, counts and collects then comes after what is computed."""
        return self.defers or isinstance(self.edit, Split)

    @property
    def keeps_less(self) -> bool:
        """Whether attributes in which the program keeps what it computed stay as they are."""
        return self.price == IN_EACH_CALL

    @property
    def draws(self) -> bool:
        """Whether it draws by torch what the program drew by another generator: what is drawn later is another, too."""
        return RANDOM_NEEDS in self.price

    @property
    def gives_unknown(self) -> bool:
        """Whether torch then goes on with a number, or a size, that it does not know."""
        return isinstance(self.edit, Setting) and _UNKNOWN.search(self.edit.code) is not None

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
    package: str = ""  # the installed package in which it happens, where that is not counted in


class Difference(Struct, frozen=True):
    """The first result that is not what it is without a change."""

    # "result", "argument" (changed in place), "error", "gradient", "state" (a parameter or buffer at the end), "call",
    # "object" (what one holds at the end), "generator" (how far a random one has come then)
    kind: str
    call: int  # outermost calls of compiled functions before it
    index: int  # among the values of its kind
    largest: float | None = None  # the largest difference of two elements; None where the shapes or types differ
    # How many there are of its kind, without the change and with it, where only that differs: all else is the same.
    numbers: tuple[int, int] | None = None
    draws: bool = False  # random numbers come from another generator than in the program as it is
    without: str | None = None  # without torch.compile it differs: what it raises there, or empty
    name: str = ""  # of what an object holds, or whose generator it is
    by: str = ""  # the backend that computes this of it, and not of the program as it is
    in_backend: str = ""  # what AOTAutograd, or the program's own backend, raises, and not for the program as it is


class StillEager(Struct, frozen=True):
    """A function that runs eagerly, wholly or in part, and why."""

    function: FunctionName
    reason: str  # in torch's words; empty where it gave none
    parts: tuple[EagerPart, ...] = ()  # what of it; none: its call raised while it was compiled
    report: RecompileReport | None = None  # its recompiles, where they hit the limit


class Observed(Struct, frozen=True):
    """What one run of the program showed."""

    figures: Figures | None  # None: it raised
    counts: Counts | None
    offers: tuple[Offer, ...] = ()
    not_tried: tuple[NotTried, ...] = ()
    targets: tuple[Target, ...] = ()  # all that breaks, fails or is compiled again, the costliest first
    results: Results = Results.UNKNOWN
    difference: Difference | None = None
    zero_gradients: int = 0  # gradients that are zeros where the program as it is has none
    kept_tensors: int = 0  # results that are tensors where the program as it is returns numbers
    error: str = ""  # what it raised, or how it ended, in one line
    error_line: SourceLine | None = None
    calls: int = 0  # outermost calls of compiled functions
    operators: int = 0  # that ran in graphs in all of them
    launches: int = 0  # of graphs: how often one ran in all of them
    parts: tuple[Offer, ...] = ()  # for the end: each divides a function at what still breaks, all go together
    inside: tuple[Offer, ...] = ()  # for the end: each compiles what a function calls, and not the function
    inside_mended: tuple[Offer, ...] = ()  # the same, on top of rewrites of lines, which are among these
    # At the very end, one or the other: they tell torch before the first call of what it finds open as expected.
    told_ahead: tuple[tuple[Offer, ...], ...] = ()
    findings: tuple[Finding, ...] = ()  # all that the recording shows, ranked
    against: tuple[Against, ...] = ()  # what contradicts "nothing to fix", beside findings that ask for a change
    is_markable: bool = False  # a graph breaks in a function that could have a mark of torch's
    computed: frozenset[tuple[str, str]] = frozenset()  # lines, by file and text, of which something is in a graph
    inlined: frozenset[tuple[str, str]] = frozenset()  # functions that torch compiles, each with one that it inlines
    eager: tuple[StillEager, ...] = ()
    kept_out: tuple[str, ...] = ()  # of each break at a call of a function that is kept out of the compiler, its name
    others: OtherInputs = OtherInputs()  # calls with other inputs than the program's own
    refuted_by: OtherCall | None = None  # the first of them that speaks against what was changed
    unseen: tuple[Edit, ...] = ()  # changes whose branch went one way in all that was compared
    printed: OtherWords | None = None  # what the program then prints otherwise
    at_each_call: tuple[AtEachCall, ...] = ()  # functions that run eagerly after a few calls more
    has_convolutions: bool = False  # in graphs that Dynamo captured
    is_told_ahead: bool = False  # of sizes that vary, before they do
    drawn_at: SourceLine | None = None  # the first line of which compiled code draws random numbers, as Inductor does

    @property
    def is_one_sided(self) -> bool:
        """Whether a branch that was changed went one way in all that was compared."""
        return bool(self.unseen)

    @property
    def ways_inside(self) -> tuple[tuple[Offer, ...], ...]:
        """What can be compiled by itself, without rewrites and with them, as far as there is something."""
        return tuple(filter(None, (self.inside, self.inside_mended)))

    @property
    def may_compile_more(self) -> bool:
        """Whether Inductor may compile for each size what Dynamo compiles for all: a convolution's backward."""
        causes = (cause.cause for one in self.recompiled for cause in one.causes)
        return self.has_convolutions and (self.is_told_ahead or any(one in SIZES for one in causes))

    @property
    def recompiled(self) -> tuple[RecompileReport, ...]:
        """What is known of each function that was compiled again."""
        return tuple(one.evidence for one in self.findings if isinstance(one.evidence, RecompileReport))

    @property
    def took_too_long(self) -> bool:
        """Whether it was ended, and raised nothing."""
        return self.error.startswith(NOT_DONE)

    @property
    def unrolled(self) -> tuple[RecompileCause, ...]:
        """Loops whose number of rounds varies, each of which is a large graph: none where graphs are small."""
        is_large = self.operators >= _LARGE * max(self.launches, 1)
        causes = (cause for one in self.recompiled for cause in one.causes)
        return tuple(one for one in causes if one.is_unrolled) if is_large else ()

    @property
    def broken(self) -> frozenset[tuple[str, str, str]]:
        """The keys of all targets."""
        return frozenset(target.key for target in self.targets)

    def is_left_beside(self, other: Target) -> bool:
        """Return whether something is left in what torch compiles together with a function that a change is about."""
        name = other.at.function.rpartition(".")[2] if other.at else ""
        frames = {one.frame for one in self.targets if one.frame}
        return other.frame in frames or any((frame, name) in self.inlined for frame in frames)

    @property
    def cost(self) -> tuple[int, ...]:
        """What hurts most first; a program that raises hurts more than any other."""
        if self.figures is None or self.counts is None:
            return (1,)
        return (0, self.eager_sooner_or_later, *self.counts.cost[:-1])

    @property
    def at_limit(self) -> frozenset[str]:
        """Functions at the recompile limit, by name: what fits no compilation runs eagerly since, with all it calls.

        What is divided has the name of the function that it is a part of.
        """
        limited = (one for one in self.eager if any(part.reason is Reason.LIMIT for part in one.parts))
        return frozenset(one.function.name.partition(INNER)[0] for one in limited)

    @property
    def eager_sooner_or_later(self) -> int:
        """How many functions run eagerly, or would after a few calls more."""
        return (self.figures.eager_functions if self.figures else 0) + len(self.at_each_call)

    def spares(self, before: Observed) -> bool:
        """Return whether there are fewer graph breaks or recompiles than before, and no more of what else hurts.

        Breaks at calls of what is kept out of the compiler are meant, and hurt nobody.
        """
        now, then = self._unmeant, before._unmeant
        if len(now) != len(then):
            return False
        pairs = list(zip(now, then, strict=True))
        return all(one <= other for one, other in pairs) and any(one < other for one, other in pairs[-2:])

    def compiles_less_often(self, before: Observed) -> bool:
        """Return whether there are fewer recompiles than before, no more of what else hurts, and the same results."""
        now, then = self.figures, before.figures
        if now is None or then is None or self.results is not before.results:
            return False
        is_as_whole = self.eager_sooner_or_later <= before.eager_sooner_or_later
        return is_as_whole and now.graph_breaks <= then.graph_breaks and now.recompiles < then.recompiles

    def is_half_of(self, before: Observed) -> bool:
        """Return whether at most half of what hurts is left: for less no function should stay Python for good.

        What ran eagerly may recompile once it is compiled: of fewer eager functions half of what cuts graphs is enough.
        """
        if self.hurts is None or before.hurts is None:
            return before.hurts is None
        compiles_more = self.eager_sooner_or_later < before.eager_sooner_or_later and self.operators >= before.operators
        is_less_cut = compiles_more and 2 * self.cuts <= before.cuts and self.hurts <= before.hurts
        return 2 * self.hurts <= before.hurts or is_less_cut or self.ends_cuts_of(before)

    def ends_cuts_of(self, before: Observed) -> bool:
        """Return whether nothing runs eagerly or breaks any more, where functions did, and as much runs in graphs.

        Of what is compiled since there may be recompiles, as long as these come to an end before the limit.
        """
        is_whole = not (self.figures is None or self.is_cut or self.at_each_call)
        was_eager = before.figures is not None and before.figures.eager_functions > 0
        return is_whole and was_eager and self.operators >= before.operators

    @property
    def _unmeant(self) -> tuple[int, ...]:
        """What hurts, without the breaks that somebody asked for."""
        if len(self.cost) == 1:
            return self.cost
        *eager, breaks, recompiles = self.cost
        others = max(self.figures.graph_breaks - len(self.kept_out), 0) if self.figures else 0
        return *eager, min(breaks, others), recompiles

    @property
    def hurts(self) -> int | None:
        """How many functions run eagerly, breaks are meant by nobody, and recompiles are not as expected."""
        if self.figures is None:
            return None
        meant = len(self.kept_out) + (self.counts.benign_recompiles if self.counts else 0)
        return self.figures.eager_functions + self.figures.graph_breaks + self.figures.recompiles - meant

    @property
    def is_cut(self) -> bool:
        """Whether functions run eagerly, or graphs break where nobody asked for it: not recompiles alone."""
        return self.cuts > 0

    @property
    def cuts(self) -> int:
        """How many functions run eagerly, and breaks are meant by nobody."""
        figures = self.figures
        return figures.eager_functions + figures.graph_breaks - len(self.kept_out) if figures else 0

    def cuts_half_of(self, before: Observed) -> bool:
        """Return whether at most half of what cuts graphs is left, in half of their runs, with no more recompiles."""
        now, then = self.figures, before.figures
        is_less = 2 * self.cuts <= before.cuts and 2 * self.launches <= before.launches
        return is_less and now is not None and then is not None and now.recompiles <= then.recompiles

    @property
    def whole_cost(self) -> tuple[int, ...]:
        """The same with recompiles that are as expected, which hurt least."""
        return (*self.cost, self.counts.benign_recompiles if self.counts else 0)


class Trial(Struct, frozen=True):
    """Offers that were made together, and what that showed."""

    offers: tuple[Offer, ...]
    texts: Texts  # of all files, as they were then
    before: Figures | None  # of the program as it is
    observed: Observed
    helps: bool  # more is compiled than without its last offers, and it computes the same as far as is known
    new: int = 1  # how many of its offers, the last ones, were made at once
    is_checked: bool = True  # it was looked at closer, or nobody asked for that

    @property
    def gives_unknown(self) -> bool:
        """Whether one of its settings gives numbers or sizes that torch does not know."""
        return any(offer.gives_unknown for offer in self.offers)

    @property
    def may_be_refused(self) -> bool:
        """Whether a backend may not take it: unknown numbers and sizes, and tensors in place of numbers."""
        return self.observed.kept_tensors > 0 or self.gives_unknown

    @property
    def last(self) -> tuple[Offer, ...]:
        """The offers that were made on top of the others."""
        return self.offers[-self.new :]


class NotCompiledBecause(Enum):
    """Why it is not known how the program's own backend takes a change."""

    LATE = "late"  # it was not done in time
    RAISES = "raises"  # for the program as it is as well
    ENDED = "ended"  # somebody ended it before that, or its time was over
    BEGUN = "begun"  # the same, while that ran


class OwnBackend(Struct, frozen=True):
    """What the program's own backend makes of the best: of Inductor always, else of unknown numbers and sizes."""

    names: tuple[str, ...] = ()  # as torch.compile was told: "inductor"
    because: NotCompiledBecause | None = None  # None: it compiles it
    others: OtherInputs = OtherInputs()  # calls with other inputs, for which the same code ran
    recompiles: int | None = None  # in that run; None where that is not known
    difference: Difference | None = None  # what it computes otherwise of the program as it is, too

    @property
    def is_inductor(self) -> bool:
        """Whether the default backend is among them."""
        return any("inductor" in name for name in self.names)

    @property
    def is_unseen(self) -> bool:
        """Whether nobody saw it compile to the end: it took too long, or was ended, or not begun."""
        return self.because in {NotCompiledBecause.ENDED, NotCompiledBecause.BEGUN, NotCompiledBecause.LATE}


class Otherwise(Struct, frozen=True):
    """What the program as it is computes otherwise without torch.compile."""

    difference: Difference
    members: tuple[Member, ...] = ()  # lines that compare with a member of an `IntEnum`, which may be why


class Fix(Struct, frozen=True):
    """All that was tried on a program."""

    first: Observed  # the program as it is
    tried: tuple[Trial, ...] = ()
    best: Trial | None = None
    not_tried: tuple[NotTried, ...] = ()
    texts: Texts = {}  # the user's files as they are
    folder: str = ""  # where the patch is made
    is_aot: bool = False  # AOTAutograd took the graphs of all runs: it asks for recompiles of its own
    is_deterministic: bool = True  # two runs of the program as it is computed the same
    reference_is_eager: bool = False  # it raised when compiled: results are compared with those without torch.compile
    draws_of_numpy: bool = False  # compiled code draws others than NumPy: results are compared in the same way
    included: tuple[str, ...] = ()  # folders of installed packages whose files were changed in copies, too
    otherwise: Otherwise | None = None  # without any change
    sides: Taken = Taken()  # of the branches that the best trial changes
    is_unfinished: bool = False  # it was ended before all was tried
    is_hurried: bool = False  # and that because time is kept for a closer look at the best
    enough_within: int = 0  # seconds that would probably do, where its time was over
    is_unchecked: bool = False  # and before the best was looked at closer
    own_backend: OwnBackend | None = None  # None: nothing in the best asks for a run with it

    @property
    def is_checked(self) -> bool:
        """Whether the best was looked at as closely as it is meant to be."""
        if self.best is None or not self.best.may_be_refused or self.own_backend is None:
            return not self.is_unchecked
        return not (self.is_unchecked or self.own_backend.is_unseen)

    @property
    def of_each(self) -> tuple[Tried, ...]:
        """What each offer did by itself, or else with the others of the best, for whoever reads the recording.

        Of a function that is divided only a title can be shown: it is told where it was looked at closer.
        """
        best = self.best.offers if self.best else ()
        alone = [trial for trial in self.tried if len(trial.offers) == 1]
        known = {trial.offers[0].edit for trial in alone}
        made = [(trial.offers[0], trial) for trial in alone]
        made += [(offer, self.best) for offer in best if offer.edit not in known] if self.best else []
        sure = {offer.edit for offer in best} if self.is_checked else set()
        checked = [(offer, trial, trial.is_checked or not trial.helps or offer.edit in sure) for offer, trial in made]
        return tuple(
            Tried(
                offer.target.at, offer.target.kind, offer.code, trial.before, trial.observed.figures,
                trial.observed.results, trial.observed.error, () if len(trial.offers) > 1 else self._next(trial),
                len(trial.offers) - 1, is_checked,
            )
            for offer, trial, is_checked in checked
            if is_checked or isinstance(offer.edit, Lines | Setting)
        )  # fmt: skip

    def _next(self, alone: Trial) -> tuple[NextBreak, ...]:
        """Return what breaks once an offer is made; on top of it, what more comes up in the same function."""
        (offer,), at = alone.offers, alone.offers[0].target.at
        found: dict[tuple[str, str, str], NextBreak] = {}
        for trial in self.tried if alone.helps else ():
            if offer not in trial.offers:
                continue
            for target in trial.observed.targets:
                line = target.at
                is_near = line and at and (line.file, line.function) == (at.file, at.function)
                if line and target.key not in self.first.broken and (trial is alone or is_near):
                    found.setdefault(target.key, NextBreak(as_it_was(line, self.texts), target.kind))
        return tuple(found.values())

    def as_it_was(self, line: SourceLine | None) -> SourceLine | None:
        """Return a line of a changed file as it stands in the user's; as it is where it is none of theirs."""
        return as_it_was(line, self.texts) if line else None

    @property
    def changed(self) -> tuple[str, ...]:
        """The files that the best trial changes."""
        after = self.best.texts if self.best else {}
        return tuple(file for file in sorted(after) if after[file] != self.texts[file])

    @property
    def patch(self) -> str:
        """What the best trial changes as a unified diff, for `patch -p0` in the folder; empty where nothing helped."""
        return patch(self.texts, self.best.texts, self.folder) if self.best else ""


def as_it_was(line: SourceLine, texts: Texts) -> SourceLine:
    """Return a line of a changed file as it stands in the user's."""
    known = texts.get(line.file, "").split("\n")
    same = [number for number, text in enumerate(known, 1) if text.strip() == line.code.strip()]
    return replace(line, line=min(same, key=lambda number: abs(number - line.line), default=line.line))


def together(numbers: Sequence[int]) -> str:
    """Return the numbers of changes that are made together: `1 to 4 + 7`."""
    runs: list[list[int]] = []
    for one in sorted(numbers):
        if runs and runs[-1][-1] == one - 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    return " + ".join(f"{run[0]} to {run[-1]}" if run[2:] else " + ".join(map(str, run)) for run in runs)
