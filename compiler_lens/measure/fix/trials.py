"""A program's offers, tried: the program as it is, twice; then each change in a process of its own."""

from __future__ import annotations

import os
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.backend import is_of_backend
from compiler_lens.facts.breaks.rewrites.site import site_in
from compiler_lens.facts.measured.called import Called, named
from compiler_lens.facts.measured.calls_moved import with_calls_moved
from compiler_lens.facts.measured.draws import draws_of_numpy
from compiler_lens.facts.measured.each_call import at_each_call
from compiler_lens.facts.measured.edits import Apart, Edit, EndApart, Lines, Split, Texts, edited, without_logging_apart
from compiler_lens.facts.measured.enums import compared_with_members
from compiler_lens.facts.measured.fix import (
    Difference,
    Fix,
    NotCompiledBecause,
    Observed,
    Offer,
    Otherwise,
    OwnBackend,
    Trial,
    as_it_was,
    together,
)
from compiler_lens.facts.measured.in_place import beside, in_place
from compiler_lens.facts.measured.in_python import NEARLY_ALL, is_mark
from compiler_lens.facts.measured.marked_inside import Inside, as_written, without_around
from compiler_lens.facts.measured.marks_moved import with_marks_moved, with_marks_on_parts
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.measured.other_inputs import (
    Counted,
    CountedCall,
    OtherCall,
    OtherInputs,
    Sides,
    Taken,
    Untried,
    compared,
    sides,
)
from compiler_lens.facts.measured.printed import Known, known
from compiler_lens.facts.measured.time_for_all import enough_for_all
from compiler_lens.facts.overview.eager import Extent
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.measure.fix.plan import ALL, RESULTS, Outcome, Plan, Program
from compiler_lens.measure.fix.process import LAST_STRETCH, Ended, OutOfTime, Processes
from compiler_lens.measure.fix.search import Search
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording, Results, SourceLine
from compiler_lens.recording.source_text import Sources

_SHOWN = 3  # lines of what a program printed last
_OPEN_FLOATS = ("zf", "zuf")  # how torch names the symbols of floats: SymT.UNSPECIFIED_FLOAT, UNBACKED_FLOAT
_PART_FOR_FIGURES = 6
_OWN_BACKEND = 240.0  # seconds for a run that generates code
_DRIFTING, _DRIFT = frozenset({"gradient", "result"}), 1e-2  # what rounding moves from call to call, a little
# What a trial shows of results, and whether more was told ahead, which may compile more.
_COMPARED = ("results", "difference", "others", "calls", "printed", "is_told_ahead")
_LONGER, _AT_LEAST = 3, 60.0  # of the seconds of a run as it is, and seconds, for one with a change, or other inputs


# What speaks against changes with the own backend: what it raises, a call with other inputs, another result.
Refused = str | OtherCall | Difference
_BY_ITS_OWN: Mapping[str, bool] = {"has_own_backend": True, "is_rough": True}


class Asked(Struct, frozen=True):
    """What to try, and how."""

    program: Program
    own: Ownership = Ownership()
    steps: int = 0  # end each run after so many outermost calls of compiled functions; 0: run to the end
    included: tuple[str, ...] = ()  # folders of installed packages that `own` counts in
    own_inputs: bool = False  # make no calls with other inputs than the program's own


def tried(asked: Asked, processes: Processes, tell: Callable[[str], object]) -> Fix:
    """Try the offers of a program. `tell` hears of each run before it begins.

    Raises `UsageError` where the program as it is does not come to its end, or fails without torch.compile, too.
    """
    with tempfile.TemporaryDirectory(prefix="compiler_lens-") as folder:
        return _Runs(asked, processes, Path(folder), tell).result()


class _Others(Struct, frozen=True):
    """What the program as it is gives for other inputs, without torch.compile."""

    reference: str  # the file of results
    counted: Counted  # how often lines ran
    counted_calls: tuple[CountedCall, ...]  # in each call
    calls: int  # of the program's own, that were made
    untried: Untried | None = None


class _Compiled(Struct, frozen=True):
    """How the program as it is compiles for other inputs."""

    unsure: tuple[OtherCall, ...] = ()  # calls that give something else than without torch.compile
    is_aot: bool = True  # AOTAutograd takes its graphs, as Inductor has it do
    gives_up: bool = False  # on some of them, which torch then runs eagerly


class _Runs:
    def __init__(self, asked: Asked, processes: Processes, folder: Path, tell: Callable[[str], object]) -> None:
        self._asked, self._processes, self._folder, self._tell = asked, processes, folder, tell
        self._number = 0
        self._expected = 0  # runs that were said to come
        self._reference = ""
        self._base: Texts = {}  # in place of what is on disk, in each run
        self._texts: Texts = {}
        self._loaded: Texts = {}  # of the user's files that it imports, compiled or not
        self._printed: Known | None = None  # by the program as it is
        self._unsure: frozenset[str] = frozenset()  # names of what its objects hold, another in each run
        self._moved: tuple[OtherCall, ...] | None = None  # calls with other inputs that rounding moves, once asked for
        self._noisy: str | None = None  # what it computes with parameters that are rounded otherwise, once asked for
        self._is_alike_in_eager = False  # what it computes, compiled and not
        self._eager = ""  # what it computes without torch.compile, where that is the same but for rounding
        self._is_of_numpy = False  # results are compared with those without torch.compile, which alone are NumPy's
        self._is_for_inductor = False  # all that torch.compile was given
        self._is_aot = False  # AOTAutograd takes the graphs of each run, as it asks for recompiles of its own
        self._called: tuple[Called, ...] = ()
        self._recordings: list[tuple[Observed, Recording]] = []
        self._longest = 0.0  # seconds, of a run with a change, or with other inputs
        self._others: _Others | None = None  # once a change has helped
        self._compiled: _Compiled | None = None  # once that gives something else with other inputs
        self._search: Search | None = None
        self._as_it_is: Outcome | None = None  # with the program's own backend, once asked for
        self._by_backend: dict[tuple[Offer, ...], OwnBackend | Refused] = {}  # what the program's own made of changes
        self._begun_by_its_own: tuple[Offer, ...] = ()  # of the last run with that
        self._numbers: dict[Edit, int] = {}  # of changes, in the order in which they are made

    def result(self) -> Fix:
        ended, taken = self._begun("the program as it is")
        if not (ended.outcome.calls or ended.outcome.error):
            known = self._all_texts(ended)
            offers = tuple(in_place(ended.recording, self._asked.own, Sources(known)))
            if found := self._in_place(ended, known, offers) if offers else None:
                return found
        return self._with_methods(self._result(ended, taken), ended)

    def _with_methods(self, found: Fix, as_it_is: Ended) -> Fix:
        """Compile methods as well that are called past what torch.compile made of their module, where they compile."""
        known = self._all_texts(as_it_is)
        offers = tuple(beside(as_it_is.recording, self._asked.own, Sources(known)))
        if not offers or found.is_unfinished or found.otherwise or not found.is_deterministic or self._asked.steps:
            return found
        best = found.best
        texts: Texts = {**known, **(best.texts if best else {})}
        offers, texts = _made(offers, texts, as_it_is.outcome.script)
        if not offers:  # the best has other lines there
            return found
        every, self._reference = (*(best.offers if best else ()), *offers), ""
        try:
            self._tell_of(every, "which is compared with itself without torch.compile")
            plan = self._plan(texts, every)
            ended = self._processes.run(plan, self._longest)
            self._reference = str(plan.at / RESULTS)
            seen, before = self._seen(ended), best.observed if best else found.first
            eager = self._processes.run(replace(self._plan(texts, every), is_eager=True), self._longest)
            is_right = not (ended.outcome.error or eager.outcome.error) and _is_same(eager)
            helps = is_right and seen.cost <= before.cost and seen.operators > before.operators
            seen = replace(seen, results=Results.EQUAL if is_right else seen.results)
            made = Trial(every, texts, found.first.figures, seen, helps=helps, new=len(offers))
            own = self._with_own_backend(made) if helps else None
        except (KeyboardInterrupt, OutOfTime):
            return found
        found = replace(found, tried=(*found.tried, made))
        if not helps or isinstance(own, Refused):
            return found
        return self._with_folder(replace(found, best=made, texts=known, own_backend=own))

    def _all_texts(self, ended: Ended) -> Texts:
        """Return the user's files that a run loaded, and those that its recording has."""
        return {**self._loaded, **_texts(ended.outcome.script, ended, self._asked.own)}

    def _with_folder(self, found: Fix) -> Fix:
        return replace(found, folder=_folder(found.changed, self._asked.included))

    def _in_place(self, as_it_is: Ended, known: Texts, offers: tuple[Offer, ...]) -> Fix | None:
        """Go on from the program with modules compiled in place, where torch.compile's own are never called."""
        made, texts = _made(offers, known, as_it_is.outcome.script)
        if made != offers:
            return None
        first = self._seen(as_it_is)
        before = self._reference, self._longest, self._loaded, self._is_for_inductor, self._is_aot
        self._base, self._reference = texts, ""
        begun: tuple[Ended, float] | None = None
        with suppress(UsageError):  # it is late, say
            begun = self._begun(f"change {together(range(1, len(offers) + 1))}: {offers[0].edit.title}")
        if begun is None or begun[0].outcome.error or not begun[0].outcome.calls:
            self._base = {}
            self._reference, self._longest, self._loaded, self._is_for_inductor, self._is_aot = before
            return None
        self._numbers = {offer.edit: number for number, offer in enumerate(offers, 1)}
        found = self._result(*begun)
        moved = Trial(offers, texts, first.figures, found.first, helps=True, new=len(offers))
        own: OwnBackend | Refused | None = None
        try:
            self._tell("the same without torch.compile")
            is_right = _is_same(self._run(is_eager=True)) and found.is_deterministic and found.otherwise is None
            if is_right and found.best is None:
                own = self._with_own_backend(moved)
        except (KeyboardInterrupt, OutOfTime):
            is_right = False
        is_right = is_right and not isinstance(own, Refused)
        seen = replace(found.first, results=Results.EQUAL if is_right else Results.UNKNOWN)
        moved = replace(moved, observed=seen, helps=is_right)
        trials = (replace(one, offers=(*offers, *one.offers), before=first.figures) for one in found.tried)
        best = found.best and replace(found.best, offers=(*offers, *found.best.offers), before=first.figures)
        if best is None and is_right and not isinstance(own, Refused):
            best, found = moved, replace(found, own_backend=own)
        return self._with_folder(replace(found, first=first, tried=(moved, *trials), best=best, texts=known))

    def _begun(self, what: str) -> tuple[Ended, float]:
        """Run the program, by which trials are judged, and return it with the seconds that it took."""
        self._tell(what)
        begun = time.monotonic()
        ended = self._run()
        # Other inputs may make a program much longer: a loop as often as a number says.
        taken = time.monotonic() - begun
        self._longest = _LONGER * taken + _AT_LEAST
        if ended.is_late:
            raise UsageError(
                f"the program as it is was {ended.outcome.error}: give it longer with --timeout SECONDS, or end it"
                " after N calls of what torch.compile made with --steps N"
            )
        if ended.outcome.is_unusable:
            raise UsageError(ended.outcome.error)
        if ended.outcome.is_met:
            self._processes.one_at_a_time()
        self._loaded = dict(_read(file for file in ended.outcome.loaded if self._asked.own.owns(file)))
        return self._with_reference(ended), taken

    def _result(self, ended: Ended, taken: float) -> Fix:
        is_eager = bool(ended.outcome.error)
        first = self._seen(ended)
        if not (first.offers or first.parts or first.inside or first.is_markable):
            is_asked = first.calls and not is_eager
            otherwise = self._computed_otherwise(ended.recording) if is_asked else None
            return Fix(first, not_tried=first.not_tried, reference_is_eager=is_eager, otherwise=otherwise)
        # What it computes without torch.compile as well, it computes twice.
        self._tell(
            f"the program as it is, without torch.compile (it took {taken:.0f} s, a change takes as long or less)"
        )
        again = self._run(is_eager=True, is_kept=True)
        in_eager = self._results()
        self._is_alike_in_eager = _is_same(again)
        reference, otherwise = ended, None
        if not (is_eager or self._is_alike_in_eager) and draws_of_numpy(ended.recording):
            self._tell("the program as it is, without torch.compile, twice more, as only that draws NumPy's numbers")
            self._reference = ""
            reference, self._is_of_numpy, self._is_alike_in_eager = self._run(is_eager=True), True, True
            self._reference = self._results()
            again = self._run(is_eager=True)
        if not (is_eager or self._is_alike_in_eager):
            self._tell("the program as it is, once more, as without torch.compile it computes something else")
            again = self._run()
            otherwise = self._computed_otherwise(ended.recording)
            self._eager = "" if otherwise or draws_of_numpy(ended.recording) else in_eager
        self._unsure = frozenset(again.outcome.unsure)
        first = self._noted(replace(first, calls=again.outcome.calls), ended.recording)
        is_deterministic = _is_same(again)
        if not is_deterministic:
            self._reference = ""
        elif not (ended.outcome.error or again.outcome.error):
            self._printed = known(reference.printed, again.printed)
        texts = {**_texts(ended.outcome.script, ended, self._asked.own), **self._base}
        # What is baked into compiled code by mistake shows at the second call.
        more = self._with_last_resorts if first.calls > 1 and is_deterministic else None
        self._texts = texts
        self._search = Search(
            first, texts, ended.outcome.script, self._attempt, more,
            self._confirm if is_deterministic else None, self._expect,
        )  # fmt: skip
        found = self._searched(self._search)
        return replace(
            found,
            sides=self._sides(found.best),
            folder=_folder(found.changed, self._asked.included),
            is_deterministic=is_deterministic,
            reference_is_eager=is_eager,
            draws_of_numpy=self._is_of_numpy,
            otherwise=otherwise,
            included=self._asked.included,
            is_aot=self._is_aot,
        )

    def _computed_otherwise(self, recording: Recording) -> Otherwise | None:
        """Return what the program as it is computes otherwise without torch.compile, and by more than rounding.

        None where it draws NumPy's random numbers, which compiled code does not, or computes another in each run.
        """
        if draws_of_numpy(recording):
            return None
        self._tell("the program as it is, without torch.compile, whether it computes the same")
        eager = self._processes.run(replace(self._plan(), is_eager=True, is_rough=True)).outcome
        differs = eager.difference
        if eager.error or differs is None:
            return None
        self._tell("the program as it is, once more, as without torch.compile it computes something else")
        if self._processes.run(replace(self._plan(), is_rough=True)).outcome.results is not Results.EQUAL:
            return None
        return Otherwise(differs, tuple(compared_with_members(self._loaded)))

    def _with_reference(self, ended: Ended) -> Ended:
        """Return the program as it is, by which trials are judged, and take what their results are compared with."""
        if not ended.outcome.error:
            self._reference = self._results()
        ended = self._as_inductor_has_it(ended)
        if ended.outcome.error:
            self._reference_without_compile(ended)
        return ended

    def _as_inductor_has_it(self, ended: Ended) -> Ended:
        """Return the program as it is with AOTAutograd, if Inductor compiles it and more recompiles come of that.

        A float that Dynamo leaves open may have to be one number once AOTAutograd has its graph: each other number
        then compiles again (torch/fx/passes/_tensorify_python_scalars.py). Or Dynamo raises where it goes on with an
        open one (2.13, an open float in the text of a message), and comes to no such place with AOTAutograd.
        """
        self._is_for_inductor = ended.outcome.is_inductor
        if not self._may_pin(ended.recording):
            return ended
        self._tell("the program as it is, with AOTAutograd")
        found = self._processes.run(replace(self._plan(), is_aot_of_floats=True), self._longest)
        if found.outcome.error:
            return ended
        is_raised = bool(ended.outcome.error)  # by what Dynamo makes of an open float, say
        if not is_raised and self._is_as_seldom(found, ended):
            return ended
        rounds_otherwise = not is_raised and not _is_same(found)
        if rounds_otherwise:
            found = self._processes.run(replace(self._plan(), is_aot_of_floats=True, reference=""), self._longest)
        if is_raised or rounds_otherwise:  # all is compared with what it computes so
            self._reference = self._results()
        self._is_aot = True
        return found

    def _is_as_seldom(self, found: Ended, ended: Ended) -> bool:
        """Whether the program compiles no more often with AOTAutograd, or with its own backend."""
        is_no_more = self._seen(found).cost <= self._seen(ended).cost
        return is_no_more or self._is_as_seldom_by_its_own(self._plan(), ended.recording)

    def _is_as_seldom_by_its_own(self, plan: Plan, recording: Recording) -> bool:
        """Whether Inductor compiles again no more often than in a recording, though AOTAutograd alone does.

        Inductor takes some floats as numbers of its graph which any other backend has to know.
        """
        self._tell("the same with the program's own backend, as AOTAutograd alone compiles more often")
        # Of the time for all runs no large part: what it would show changes figures, no advice.
        longest = min(_OWN_BACKEND, self._processes.left / _PART_FOR_FIGURES)
        ended = self._processes.run(replace(plan, has_own_backend=True), longest)
        is_known = not (ended.outcome.error or ended.is_late)
        return is_known and self._recompiles(ended) <= len(recording.recompiles)

    def _may_pin(self, recording: Recording) -> bool:
        """Whether Inductor compiles the program, and AOTAutograd may ask for one number where Dynamo left it open."""
        return self._is_for_inductor and any(one.name.startswith(_OPEN_FLOATS) for one in recording.symbols)

    def _searched(self, search: Search) -> Fix:
        """Search to the end, or until somebody ends it, or the time for it is over."""
        enough = 0
        try:
            try:
                found = search.result()
            except OutOfTime:
                enough = self._enough_for(search)
                self._processes.begin_last_stretch()
                # First what may make a program raise: dividing functions takes what time there is.
                own = self._with_own_backend(search.best, min(_OWN_BACKEND, self._processes.left) / 2)
                if isinstance(own, Refused):
                    search.refuse_unknown(own)
                found = search.hurried()
            else:
                self._processes.begin_last_stretch()  # what is left to do is to look closer
                while isinstance(own := self._with_own_backend(found.best), Refused):
                    found = search.again_without_unknown(own)
            own, written = self._with_own_backend(found.best), self._written(found.best)
            while isinstance(own, Refused) or (found.best and written is None):
                found = search.without_unknown(own) if isinstance(own, Refused) else search.without_inside()
                own, written = self._with_own_backend(found.best), self._written(found.best)
            found = _with_best(found, written)
        except (KeyboardInterrupt, OutOfTime) as ended:
            enough = max(enough, self._enough_for(search) if isinstance(ended, OutOfTime) else 0)
            found = _unchecked_as_written(search.so_far())
            own = self._by_its_own_so_far(found.best)
        if self._may_raise(found.best, own):
            known = _unchecked_as_written(search.known_so_far())
            if known.best:
                found, own = known, self._by_its_own_so_far(known.best)
        return replace(found, own_backend=own, enough_within=enough)

    def _may_raise(self, best: Trial | None, own: OwnBackend | None) -> bool:
        """Whether Inductor was not seen to take numbers and sizes that the best leaves unknown."""
        is_unseen = own is not None and own.is_unseen
        return self._is_for_inductor and is_unseen and best is not None and best.gives_unknown

    def _enough_for(self, search: Search) -> int:
        near, _ = search.ahead
        return enough_for_all(self._processes.elapsed, self._number, near + 1, LAST_STRETCH)

    def _by_its_own_so_far(self, best: Trial | None) -> OwnBackend | None:
        """Return what is known of the best with the program's own backend, where no more is tried."""
        if best is None or not (self._is_for_inductor or best.may_be_refused):
            return None
        known, is_begun = self._by_backend.get(best.offers), self._begun_by_its_own == best.offers
        because = NotCompiledBecause.BEGUN if is_begun else NotCompiledBecause.ENDED
        return known if isinstance(known, OwnBackend) else OwnBackend(because=because)

    def _written(self, best: Trial | None) -> Trial | None:
        """Return a trial with the texts that the user is to have; None where these do not do what was tried."""
        texts = _as_written(best)
        for moved in _with_marks_moved(best, texts) if best and texts and not self._asked.steps else ():
            if best and (found := self._run_as_written(best, moved, NEARLY_ALL)):
                return found
        if best is None or texts is None or texts == best.texts:
            return best if texts is not None else None
        if self._asked.steps:  # calls of what is given, which are fewer then
            return replace(best, texts=texts)
        return self._run_as_written(best, texts)

    def _run_as_written(self, best: Trial, texts: Texts, least: float = 0.0) -> Trial | None:
        """Run texts as the user is to have them; None where that does not do what was tried, or less in graphs."""
        self._tell_of(best.offers, "as they are written")
        ended = self._processes.run(replace(self._plan(texts, best.offers), reference=""), self._longest)
        seen, of_trial = self._with_words(self._seen(ended), ended.printed, best.offers), best.observed
        is_less = seen.operators < least * of_trial.operators
        if seen.error or seen.results is Results.DIFFER or seen.cost > of_trial.cost or is_less:
            return None
        # What is compared was given to torch.compile: it is not any more.
        kept = {name: getattr(of_trial, name) for name in _COMPARED}
        return replace(best, texts=texts, observed=replace(seen, **kept))

    def _with_own_backend(self, best: Trial | None, longest: float = _OWN_BACKEND) -> OwnBackend | Refused | None:
        """Return what the program's own backend makes of unknown numbers and sizes; a text where it raises for them.

        It may not take them, and then raises where the program as it is breaks its graph before them. Nor may it keep
        apart two results of which one has no gradient: Inductor 2.13 makes one tensor of `y + 0 * z` and `y.detach()`.
        Whatever it takes, it may compute something else of it than it does of the program as it is.
        None: it is another backend than Inductor, and there are none of these.
        """
        if best is None or not (self._is_for_inductor or best.may_be_refused):
            return None
        known = self._by_backend.get(best.offers)
        is_late = isinstance(known, OwnBackend) and known.because is NotCompiledBecause.LATE  # there is more time now
        if known is None or is_late:
            known = self._compiled_by_its_own(best, longest) if best.may_be_refused else OwnBackend()
            if self._is_for_inductor and isinstance(known, OwnBackend) and known.because is None:
                known = self._computed_by_its_own(best, known, longest)
            self._by_backend[best.offers] = known
        return known

    def _computed_by_its_own(self, best: Trial, known: OwnBackend, longest: float) -> OwnBackend | Refused:
        """Return the same with how often Inductor compiles again, and with what it computes otherwise.

        It may do so of the program as it is, too, and where rounding alone makes results others, nothing is known.
        """
        self._tell_of(best.offers, "with Inductor")
        self._begin_by_its_own(best)
        ended = self._processes.run(replace(self._plan(best.texts, best.offers), **_BY_ITS_OWN), longest)
        names = _backends(ended) or known.names
        if ended.is_late:
            return replace(known, names=names, because=NotCompiledBecause.LATE)
        found = replace(known, names=names, recompiles=self._recompiles(ended))
        differs = ended.outcome.difference
        if not (ended.outcome.error or differs):
            return found
        as_it_is = self._as_it_is_by_its_own()
        if ended.outcome.error:
            raises = replace(known, names=names, because=NotCompiledBecause.RAISES)
            return raises if as_it_is.error else ended.outcome.error
        if as_it_is.error or as_it_is.difference:
            return replace(found, difference=as_it_is.difference)
        return found if differs is None or self._is_of_rounding() else replace(differs, by="Inductor")

    def _begin_by_its_own(self, best: Trial) -> None:
        if not self._processes.is_over:
            self._begun_by_its_own = best.offers

    def _as_it_is_by_its_own(self) -> Outcome:
        """Return what the program as it is does with its own backend."""
        if self._as_it_is is None:
            self._tell("the program as it is, with its own backend")
            self._as_it_is = self._processes.run(replace(self._plan(), **_BY_ITS_OWN), _OWN_BACKEND).outcome
        return self._as_it_is

    def _is_of_rounding(self) -> bool:
        """Whether the program as it is computes something else where its parameters are rounded otherwise."""
        self._tell("the program as it is, with parameters that are rounded otherwise")
        plan = replace(self._plan(), is_rough=True, is_noisy=True, is_eager=self._is_of_numpy)
        return self._processes.run(plan, self._longest).outcome.results is not Results.EQUAL

    def _compiled_by_its_own(self, best: Trial, longest: float) -> OwnBackend | Refused:
        self._tell_of(best.offers, "with the program's own backend")
        self._begin_by_its_own(best)
        ended = self._run_by_its_own(self._plan(best.texts, best.offers), longest)
        names = _backends(ended)
        if not ended.outcome.error or ended.is_late:
            if ended.is_late:
                return OwnBackend(names, NotCompiledBecause.LATE)
            others = self._others_by_its_own(ended.outcome.others)
            return others.otherwise or OwnBackend(names, others=others, recompiles=self._recompiles(ended))
        raises = OwnBackend(names, NotCompiledBecause.RAISES)
        return raises if self._as_it_is_by_its_own().error else ended.outcome.error

    def _run_by_its_own(self, plan: Plan, longest: float = _OWN_BACKEND) -> Ended:
        """Run with the program's own backend, also for other inputs where these were tried without a change."""
        if self._others is not None and not self._others.untried:
            plan = self._with_others(self._others, plan, is_aot=plan.is_aot)
        return self._processes.run(replace(plan, **_BY_ITS_OWN), longest)

    def _others_by_its_own(self, others: OtherInputs) -> OtherInputs:
        """Return what the program's own backend makes of other inputs, but for what is so without the changes, too."""
        if not others.differing:
            return others
        self._tell("the program as it is, with its own backend and other inputs")
        known = self._run_by_its_own(self._plan()).outcome
        return OtherInputs() if known.error else others.but(known.others.differing)

    def _sides(self, best: Trial | None) -> Taken:
        if self._others is None or best is None:
            return Taken()
        # What stays Python asks what it asked: nothing of it is another.
        changed = (
            one for one in best.offers if not (isinstance(one.edit, (EndApart, Apart, Inside)) or is_mark(one.edit))
        )
        places = self._places(changed)
        counted = compared(self._others.counted, self._others.counted_calls, best.observed.others)
        return Taken(sides(places, self._texts, counted), self._others.calls)

    def _unseen(self, offers: tuple[Offer, ...], known: _Others, others: OtherInputs) -> tuple[Edit, ...]:
        """Return the changes that have to be seen on both sides of their branch, and were on one alone.

        Seen is what gave the same with them and without them.
        """
        asked = [one for one in offers if one.needs_both]
        counted = compared(known.counted, known.counted_calls, others) if asked else {}
        found: dict[Edit, None] = {}
        for one in asked:
            seen = sides(self._places([one]), self._texts, counted)
            # What follows is the program's own, with the branch or without it.
            is_gone_past = one.drops and all(side.true + side.other_true for side in seen)
            if not seen or (any(_lacks(one, side) for side in seen) and not is_gone_past):
                found[one.edit] = None
            elif is_gone_past and any(side.is_one_sided for side in seen):
                found.update(dict.fromkeys(self._after_branch(one, offers)))
        return tuple(found)

    def _after_branch(self, branch: Offer, offers: Iterable[Offer]) -> Iterator[Edit]:
        """Yield other changes of lines that come after a branch in its function, which always left before them."""
        rewrites = [one for one in offers if isinstance(one.edit, Lines) and not is_mark(one.edit)]
        for here in self._places([branch]):
            site = site_in(self._texts.get(here.file, ""), here.line)
            last = (site.function.end_lineno or 0) if site and site.function else 0
            for one in rewrites:
                if any(at.file == here.file and here.line < at.line <= last for at in self._places([one])):
                    yield one.edit

    def _places(self, offers: Iterable[Offer]) -> Sequence[SourceLine]:
        """Return the lines of the user's files that offers are about, each once."""
        return list(dict.fromkeys(as_it_was(one.target.at, self._texts) for one in offers if one.target.at))

    def _reference_without_compile(self, failed: Ended) -> None:
        self._tell("the program without torch.compile, as it raises with it")
        ended = self._run(is_eager=True)
        if ended.outcome.error:
            last = [line for line in ended.last.splitlines() if line.strip()][-_SHOWN:]
            at = failed.outcome.error_line
            where = f" ({at.file}:{at.line})" if at else ""
            said = f"the program fails without torch.compile, too: {ended.outcome.error}{where}"
            raise UsageError("\n  ".join([said, *last]))
        self._reference = self._results()

    def _run(
        self,
        *,
        is_eager: bool = False,
        is_kept: bool = False,
        observe: frozenset[str] = frozenset(),
    ) -> Ended:
        return self._processes.run(replace(self._plan(), is_eager=is_eager, is_kept=is_kept, observe=observe))

    def _plan(self, texts: Texts | None = None, offers: tuple[Offer, ...] = ()) -> Plan:
        """Return a run of the program as it is, or with other texts, in which some offers were made."""
        self._number += 1
        return self._in_folder(str(self._number), texts, offers)

    def _in_folder(self, name: str, texts: Texts | None, offers: tuple[Offer, ...]) -> Plan:
        folder = self._folder / name
        served = {os.path.realpath(file): text for file, text in (texts or self._base).items()}
        asked = self._asked
        return Plan(
            asked.program, str(folder), served, asked.steps, self._reference, self._noisy or "", self._eager,
            frozenset({ALL}) if any(offer.keeps_less for offer in offers) else self._unsure,
            frozenset(offer.leaves for offer in offers if offer.leaves), beside=_beside(offers),
            is_aot=any(offer.needs_aot for offer in offers), is_aot_of_floats=self._is_aot,
        )  # fmt: skip

    def _results(self) -> str:
        return str(self._folder / str(self._number) / RESULTS)

    def _expect(self, changed: Sequence[tuple[Texts, tuple[Offer, ...]]]) -> None:
        """Hear which attempts come next, if nothing is learned before that makes them needless."""
        self._processes.expect([self._ahead(texts, offers) for texts, offers in changed], self._longest)

    def _ahead(self, texts: Texts, offers: tuple[Offer, ...]) -> Plan:
        self._expected += 1
        return self._in_folder(f"ahead-{self._expected}", texts, offers)

    def _attempt(self, texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        self._tell(f"{self._number - 1}{self._how_many_more()}{self._best_so_far()}: {self._named(offers)}")
        # A change may make a loop endless: nobody waits for that as long as for the longest of programs.
        ended = self._processes.run(self._plan(texts, offers), self._longest)
        if self._noisy is None and _may_be_rounding(ended.outcome.difference):
            self._noisy = self._rounded_otherwise()
            ended = self._processes.run(self._plan(texts, offers), self._longest) if self._noisy else ended
        ended = self._without_around(ended)
        seen = _with_draws(self._seen(ended), offers)
        return self._noted(self._with_words(seen, ended.printed, offers), ended.recording)

    def _rounded_otherwise(self) -> str:
        """Return what the program as it is computes where its parameters are rounded otherwise; empty if it fails."""
        self._tell("the program as it is, with parameters that are rounded otherwise")
        plan = replace(self._plan(), reference="", is_noisy=True, is_eager=self._is_of_numpy)
        return "" if self._processes.run(plan, self._longest).outcome.error else str(plan.at / RESULTS)

    def _with_words(self, seen: Observed, printed: str, offers: tuple[Offer, ...]) -> Observed:
        """Return the same with what the program prints otherwise; other results where these are other words."""
        if self._printed is None or seen.error:
            return seen
        # A line that is left out where it stands, the diff shows; a setting is to lose no message unseen.
        may_lack = any(one.may_say_less for one in offers) and not any(one.silences for one in offers)
        may_move = any(one.defers for one in offers)
        other = self._printed.other(printed, may_lack=may_lack, may_move=may_move)
        # What is told later, and with another number, is told of what has changed meanwhile. A tensor in place of a
        # number is another key of a dict, and another element of a set.
        is_of_kept = seen.kept_tensors > 0 and other is not None and not other.may_be_a_time
        is_other = other is not None and (any(one.moves for one in offers) or not other.is_number or is_of_kept)
        return replace(seen, printed=other, results=Results.DIFFER if is_other else seen.results)

    def _best_so_far(self) -> str:
        """Say what is known to help: whoever ends it now gets that."""
        best = self._search.seems_best if self._search else None
        if best is None or best.before is None or best.observed.figures is None:
            return ""
        before, after = best.before, best.observed.figures
        breaks = f"graph breaks {before.graph_breaks} → {after.graph_breaks}"
        return (
            f" (best so far: {self._named(best.offers)}, {breaks}, recompiles {before.recompiles} → {after.recompiles})"
        )

    def _how_many_more(self) -> str:
        if self._search is None:
            return ""
        near, most = self._search.ahead
        return f", then at most {near} more in this round and {most} in all" if near else f", then at most {most} more"

    def _tell_of(self, offers: tuple[Offer, ...], how: str) -> None:
        self._tell(f"{self._number - 1}: {self._named(offers)}, {how}")

    def _named(self, offers: tuple[Offer, ...]) -> str:
        """Name changes by their numbers, as the table has them, and those that are new by what they write."""
        new = [offer.edit for offer in offers if offer.edit not in self._numbers]
        for edit in new:
            self._numbers[edit] = len(self._numbers) + 1
        label = together([self._numbers[offer.edit] for offer in offers])
        titles = "; ".join(edit.title for edit in new)
        return f"change{'s' if len(offers) > 1 else ''} {label}{f': {titles}' if new else ''}"

    def _confirm(self, seen: Observed, texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        """Return the same with what calls with other inputs give; other results where these speak against it."""
        if seen.results is Results.EQUAL:
            self._processes.expect(list(self._looks(seen, texts, offers)), self._longest)
            seen = self._also_in_eager(seen, texts, offers)
        if seen.results is Results.EQUAL:
            seen = self._as_aot_counts(seen, texts, offers)
        if seen.results is not Results.EQUAL:
            self._processes.expect([], self._longest)
            return seen
        if self._others is None:
            self._others = self._without_a_change()
        known, untried = _Compiled(), self._others.untried
        ended = self._further(texts, offers, self._others)
        if ended.outcome.error or ended.outcome.others.differing:  # which may be so without the change, too
            known = self._compiled_as_it_is(self._others)
            if ended.outcome.error and not (known.is_aot or untried):
                ended = self._further(texts, offers, self._others, is_aot=False)
        if known.is_aot and ended.outcome.error and not ended.is_late:
            differs = Difference("error", ended.outcome.calls, 0, in_backend=ended.outcome.error)
            return self._noted(replace(seen, results=Results.DIFFER, difference=differs), self._recording_of(seen))
        seen = self._as_backend_takes_it(seen, texts, offers, ended.recording)
        others = self._compared_others(ended.outcome, self._others, known, offers)
        refuted_by = _against(others, offers)
        unseen = tuple(dict.fromkeys((*self._unseen(offers, self._others, others), *_not_compiled(offers, seen))))
        found = replace(seen, others=others, refuted_by=refuted_by, unseen=unseen)
        if refuted_by or unseen:
            found = replace(found, results=Results.DIFFER)
        return self._noted(found, self._recording_of(seen))

    @property
    def _is_known_in_eager(self) -> bool:
        """Whether what a change computes without torch.compile can be compared."""
        return self._is_alike_in_eager or bool(self._eager)

    def _looks(self, seen: Observed, texts: Texts, offers: tuple[Offer, ...]) -> Iterator[Plan]:
        """Yield the runs of a closer look that are known before it begins."""
        if self._is_known_in_eager:
            yield replace(self._ahead(texts, offers), is_eager=True)
        if not self._is_aot and self._may_pin(self._recording_of(seen)):
            yield replace(self._ahead(texts, offers), is_aot_of_floats=True)
        if self._others is not None:
            yield self._with_others(self._others, self._ahead(texts, offers), is_aot=True)

    def _further(self, texts: Texts, offers: tuple[Offer, ...], known: _Others, *, is_aot: bool = True) -> Ended:
        """Run a change as Inductor begins with it, and with other inputs where that can be."""
        self._tell_of(offers, "with AOTAutograd" if known.untried else "with other inputs")
        plan = self._with_others(known, self._plan(texts, offers), is_aot=is_aot)
        return self._processes.run(plan, self._longest)

    @staticmethod
    def _with_others(known: _Others, plan: Plan, *, is_aot: bool) -> Plan:
        if known.untried:
            return replace(plan, is_aot=is_aot)
        return replace(plan, with_others=True, reference=known.reference, is_aot=is_aot)

    def _also_in_eager(self, seen: Observed, texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        """Return the same where the change computes the same without torch.compile, too; else other results.

        Code that compiles runs eagerly as well: past the recompile limit, under a stance, where somebody debugs.
        """
        if not self._is_known_in_eager:
            return seen
        self._tell_of(offers, "without torch.compile")
        ended = self._processes.run(replace(self._plan(texts, offers), is_eager=True), self._longest).outcome
        if not ended.error and ended.results is Results.EQUAL:
            return seen
        differs = ended.difference or Difference("error", ended.calls, 0)
        found = replace(seen, results=Results.DIFFER, difference=replace(differs, without=ended.error))
        return self._noted(found, self._recording_of(seen))

    def _as_aot_counts(self, seen: Observed, texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        """Return the same with what AOTAutograd counts, where that is more: a change may bring floats into a graph."""
        if self._is_aot or not self._may_pin(self._recording_of(seen)):
            return seen
        counted = self._counted(seen, offers, replace(self._plan(texts, offers), is_aot_of_floats=True))
        if counted is seen or self._is_as_seldom_by_its_own(self._plan(texts, offers), self._recording_of(seen)):
            return seen
        return counted

    def _counted(self, seen: Observed, offers: tuple[Offer, ...], plan: Plan) -> Observed:
        """Return the same with what a run with AOTAutograd counts, where that is more."""
        self._tell_of(offers, "counted with AOTAutograd")
        ended = self._without_around(self._processes.run(plan, self._longest))
        counted = self._seen(ended)
        if ended.outcome.error or counted.cost <= seen.cost:
            return seen
        counted = replace(counted, results=seen.results, difference=seen.difference, printed=seen.printed)
        return self._noted(counted, ended.recording)

    def _as_backend_takes_it(
        self, seen: Observed, texts: Texts, offers: tuple[Offer, ...], recording: Recording
    ) -> Observed:
        """Return the same with what AOTAutograd counts, where it gives up on graphs of a change, and of no others.

        Torch then says nothing but a warning, and runs the lines eagerly, as after a graph break: where they ask a
        tensor for a number of which Dynamo knows nothing (`torch.arange(end)` of a tensor that a function is given).
        """
        if not (self._others and any(map(is_of_backend, recording.graph_breaks))):
            return seen
        if self._compiled_as_it_is(self._others).gives_up:
            return seen
        return self._counted(seen, offers, replace(self._plan(texts, offers), is_aot=True))

    def _without_a_change(self) -> _Others:
        """Make calls with other inputs of the program as it is, if they are asked for, without torch.compile."""
        is_own = self._asked.own_inputs
        how = "without torch.compile, for which lines run" if is_own else "with other inputs, without torch.compile"
        self._tell(f"the program as it is, {how}")
        plan = replace(self._plan(), with_others=not is_own, reference="")
        plan = replace(plan, is_eager=True, count_lines=frozenset(self._texts))
        outcome = self._processes.run(plan, self._longest).outcome
        untried = outcome.others.untried if outcome.calls else Untried.ENDED
        untried = Untried.OWN_INPUTS if is_own else untried
        return _Others(self._results(), outcome.counted, outcome.counted_calls, outcome.calls, untried)

    def _compiled_as_it_is(self, others: _Others) -> _Compiled:
        """Make calls with other inputs of the program as it is, compiled: what is wrong without a change is not its."""
        if self._compiled is None:
            self._tell("the program as it is, with other inputs")
            ended = self._processes.run(self._with_others(others, self._plan(), is_aot=True), self._longest)
            found, gives_up = ended.outcome, any(map(is_of_backend, ended.recording.graph_breaks))
            is_aot = not found.error
            if not (is_aot or others.untried):
                plan = self._with_others(others, self._plan(), is_aot=False)
                found = self._processes.run(plan, self._longest).outcome
            self._compiled = _Compiled(found.others.differing, is_aot, gives_up)
        return self._compiled

    def _compared_others(
        self, outcome: Outcome, made: _Others, known: _Compiled, offers: tuple[Offer, ...]
    ) -> OtherInputs:
        """Return the calls with other inputs of a run that say something of what some offers changed."""
        if made.untried or not outcome.calls:
            return OtherInputs(untried=made.untried or Untried.ENDED)
        others = outcome.others.but(known.unsure)
        refuted_by = _against(others, offers)
        return others.but_rounded(self._moved_by_rounding(made)) if refuted_by and refuted_by.largest else others

    def _moved_by_rounding(self, others: _Others) -> tuple[OtherCall, ...]:
        """Return calls with other inputs that give something else as soon as parameters are rounded otherwise.

        With inputs that are 1,000 times as large, attention may go all to one of two keys that are nearly alike.
        """
        if self._moved is None:
            self._tell("the program as it is, with other inputs and parameters that are rounded otherwise")
            plan = replace(self._with_others(others, self._plan(), is_aot=False), is_eager=True, is_noisy=True)
            self._moved = self._processes.run(plan, self._longest).outcome.others.differing
        return self._moved

    def _recompiles(self, ended: Ended) -> int:
        return len(self._without_around(ended).recording.recompiles)

    def _without_around(self, ended: Ended) -> Ended:
        return replace(ended, recording=without_around(ended.recording, self._texts))

    def _noted(self, seen: Observed, recording: Recording) -> Observed:
        self._recordings.append((seen, recording))
        return seen

    def _recording_of(self, seen: Observed) -> Recording:
        return next(recording for one, recording in self._recordings if one is seen)

    def _with_last_resorts(self, seen: Observed) -> Observed:
        """Return the same with marks on functions among its offers, once their calls were heard."""
        if not self._called:
            self._tell("the program without torch.compile, for what its functions return")
            ended = self._run(is_eager=True, observe=frozenset(self._texts))
            self._called = named(ended.outcome.called, self._texts)
        found = observed(self._recording_of(seen), self._asked.own, self._called, self._loaded)
        return replace(seen, offers=found.offers)

    def _seen(self, ended: Ended) -> Observed:
        outcome = ended.outcome
        seen = observed(ended.recording, self._asked.own, self._called, self._loaded)
        # As the program as it is, it computes something else for as long as compiled code draws other numbers.
        is_comparable = not (self._is_of_numpy and draws_of_numpy(ended.recording))
        is_known = bool(self._reference) and (is_comparable or outcome.results is Results.EQUAL)
        return replace(
            seen,
            figures=None if outcome.error else seen.figures,
            results=outcome.results if is_known else Results.UNKNOWN,
            difference=outcome.difference if is_comparable else None,
            zero_gradients=outcome.zero_gradients,
            kept_tensors=outcome.kept_tensors,
            error=outcome.error,
            error_line=outcome.error_line,
            calls=outcome.calls,
            at_each_call=at_each_call(ended.recording, outcome.calls_of, seen.recompiled),
            operators=outcome.operators,
            launches=outcome.launches,
        )


def _against(others: OtherInputs, offers: Iterable[Offer]) -> OtherCall | None:
    """Return the first call with other inputs that speaks against some changes."""
    made = list(offers)
    may_raise, raises_less = any(one.may_raise for one in made), any(one.raises_less for one in made)
    return others.against(may_raise=may_raise, raises_less=raises_less)


def _made(offers: Iterable[Offer], texts: Texts, script: str) -> tuple[tuple[Offer, ...], Texts]:
    """Return those of some offers whose lines are there, one on top of the other, and the texts with them."""
    made: list[Offer] = []
    for offer in offers:
        if (changed := edited(offer.edit, texts, script)) is not None:
            made.append(offer)
            texts = changed
    return tuple(made), texts


def _lacks(offer: Offer, side: Sides) -> bool:
    """Return whether a branch did not go the way in which a change has compiled code go another; else either way."""
    if offer.drops:
        return not side.true + side.other_true
    return not side.false + side.other_false if offer.is_always_taken else side.is_one_sided


def _not_compiled(offers: Iterable[Offer], seen: Observed) -> Iterator[Edit]:
    """Yield changes that have to be seen on both sides of a branch, in functions of which nothing is compiled.

    What compiled code would do is not known of these: the run was the program's own, and did what it does.
    """
    whole = (one for one in seen.eager if any(part.extent is Extent.EVERY_CALL for part in one.parts))
    eager = {one.function.name.rpartition(".")[2] for one in whole}
    yield from (one.edit for one in offers if one.needs_both and one.target.frame in eager)


def _beside(offers: Iterable[Offer]) -> frozenset[tuple[str, str]]:
    """Return the functions that changes compile by themselves, by their real files: the program had none of them."""
    inner = (place for one in offers if isinstance(one.edit, Inside) for place in one.edit.inner)
    return frozenset((os.path.realpath(file), name) for file, name in inner)


def _as_written(best: Trial | None) -> Texts | None:
    """Return the texts of a trial as the user is to have them; None where that cannot be written."""
    texts: Texts | None = best.texts if best else {}
    for offer in best.offers if best else ():
        texts = as_written(offer.edit, texts) if texts and isinstance(offer.edit, Inside) else texts
    return texts


def _with_marks_moved(best: Trial, texts: Texts) -> Sequence[Texts]:
    """Return texts with torch.compile's marks on what is compiled, in place of on functions that are Python.

    First those in which what calls of torch.compile give is marked, too, or all that was divided. None where nothing
    can be moved.
    """
    edits = (one.edit for one in best.offers)
    divided = {(one.file, one.name): None for one in edits if isinstance(one, Split | EndApart | Apart)}
    moved = texts
    for file, name in divided:
        if file in moved:
            moved = {**moved, file: with_marks_moved(moved[file], name)}
    ways = (with_calls_moved(moved, [*divided]), with_marks_on_parts(texts, [*divided]), moved)
    found = [without_logging_apart(one) for one in ways]
    return [one for at, one in enumerate(found) if one not in (texts, *found[at + 1 :])]


def _with_best(found: Fix, written: Trial | None) -> Fix:
    tried = tuple(written if written and one is found.best else one for one in found.tried)
    broken = written.observed.broken if written else None  # less may break as it is written
    left = tuple(one for one in found.not_tried if broken is None or one.target.key in broken)
    return replace(found, tried=tried, best=written, not_tried=left)


def _unchecked_as_written(found: Fix) -> Fix:
    """Return the same with the best as it is written, which nobody has run."""
    texts = _as_written(found.best)
    if found.best is None or texts == found.best.texts:
        return found
    best = replace(found.best, texts=texts) if texts else None
    return replace(_with_best(found, best), is_unchecked=best is not None)


def _backends(ended: Ended) -> tuple[str, ...]:
    """Return the names of the backends that a run compiled with."""
    return tuple(dict.fromkeys(one.backend for one in ended.recording.compilations if one.backend))


def _is_same(ended: Ended) -> bool:
    """Whether a run as it is computed the same as the one before; what its objects hold may follow from the clock."""
    difference = ended.outcome.difference
    return ended.outcome.results is Results.EQUAL or bool(difference and difference.name)


def _may_be_rounding(difference: Difference | None) -> bool:
    if difference is None or not difference.largest:
        return False
    return difference.kind == "state" or (difference.kind in _DRIFTING and difference.largest < _DRIFT)


def _with_draws(seen: Observed, offers: tuple[Offer, ...]) -> Observed:
    """Return the same with a difference that says whether random numbers come from another generator."""
    if seen.difference is None or not any(one.draws for one in offers):
        return seen
    return replace(seen, difference=replace(seen.difference, draws=True))


def _folder(files: Iterable[str], included: Iterable[str]) -> str:
    """Return where a patch of these files is made: where a package lies, here, or where all of them are."""
    parents = [Path(file).parent for file in files]
    for folder in (*(Path(package).parent for package in included), Path.cwd()):
        if all(parent.is_relative_to(folder) for parent in parents):
            return str(folder)
    return os.path.commonpath(parents)


def _texts(script: str, ended: Ended, own: Ownership) -> Texts:
    """Return the user's files that may be changed, by the names that the recording has for them."""
    files = [script, *(source.file for source in ended.recording.sources if own.owns(source.file))]
    return dict(_read(dict.fromkeys(files)))


def _read(files: Iterable[str]) -> Iterable[tuple[str, str]]:
    for file in files:
        path = Path(file)
        try:
            with path.open("rb") as opened:
                encoding, _ = tokenize.detect_encoding(opened.readline)
            if encoding == "utf-8":
                yield file, path.read_bytes().decode("utf-8")
        except (OSError, SyntaxError, UnicodeDecodeError):  # a cell of a notebook, another encoding
            continue
