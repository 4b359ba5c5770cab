"""Which offers to try, and on top of which: each by itself, then what helped together, then what that brought up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from compiler_lens.facts.measured.edits import Edit, Lines, Split, Texts, edited
from compiler_lens.facts.measured.enough import NotWorth, not_worth, only_says_so, takes_too_much
from compiler_lens.facts.measured.fix import (
    RECOMPILES,
    Difference,
    Fix,
    NotTried,
    NotTriedBecause,
    Observed,
    Offer,
    Trial,
)
from compiler_lens.facts.measured.in_python import compiles_inside, kept_from_graphs, runs_less
from compiler_lens.facts.measured.other_inputs import OtherCall
from compiler_lens.measure.fix.choices import (
    CLEARLY,
    MANY,
    State,
    as_one,
    compiles_beyond,
    compiles_more,
    compiles_rounds,
    defines,
    doubtful,
    fewer,
    has_more,
    in_order,
    is_enough,
    is_kept_out,
    is_of_given,
    is_rewrite,
    is_worth_launches,
    keeps_enough,
    kept_as_written,
    launches_less,
    leaves_less,
    loses,
    once,
    one_for_each_target,
    outermost_marks,
    preferred,
    ranked,
    runs_more,
    stands_in,
    unknowns,
    unrolls_less,
    without,
    without_offer,
)
from compiler_lens.recording.model import Results

_MOST = 40  # trials
_MOST_DEEPER = 2  # changes of a round that are gone on from, though more breaks with them
_DEEPEST = 4  # functions that call one another and are divided one after the other

Attempt = Callable[[Texts, tuple[Offer, ...]], Observed]
Expect = Callable[[Sequence[tuple[Texts, tuple[Offer, ...]]]], object]
More = Callable[[Observed], Observed]
Confirm = Callable[[Observed, Texts, tuple[Offer, ...]], Observed]


class Search:
    """The trials of one program, in the making.

    Args:
        first: the program as it is.
        texts: its files.
        script: the file that it begins with.
        attempt: runs the program with other texts, for the last of some offers.
        more: adds the last resorts to the offers of what an attempt returned; None: there are none.
        confirm: looks closer at an attempt that is built upon, or the best, and returns what that showed.
        expect: hears which attempts come next, so that they may run meanwhile.
    """

    def __init__(  # noqa: PLR0913, PLR0917 -- what it is about, and what it asks
        self,
        first: Observed,
        texts: Texts,
        script: str,
        attempt: Attempt,
        more: More | None = None,
        confirm: Confirm | None = None,
        expect: Expect = lambda _: None,
    ) -> None:
        self._more, self._confirm, self._expect = more, confirm, expect
        self._is_compared = confirm is not None  # results can be, but for those that are not known yet
        self._confirmed: set[tuple[Offer, ...]] = set()
        self._first = State(first, texts)
        self._by_texts = {frozenset(texts.items()): self._first}  # what came of them
        self._script, self._attempt = script, attempt
        self._tried: list[Trial] = []
        self._states: dict[tuple[Offer, ...], State] = {}  # what came of them
        self._is_careful = False  # each state is looked at closer before more is tried on top of it
        self._by_value = False  # values are taken for granted first; no setting gives unknown numbers
        self._puts_off_unknown = False  # nor does one at first
        self._refuses_unknown = False  # nor does one where it was seen to be wrong
        self._failed: set[Edit] = set()  # they raised, or changed results: what is on top of them would, too
        self._failed_on_unknown: set[Edit] = set()  # the same of, and on top of, settings that give unknown numbers
        self._raised: dict[Edit, frozenset[Edit]] = {}  # of these what raised, on top of what else
        self._not_tried: dict[NotTried, None] = dict.fromkeys(first.not_tried)
        self._ahead = 0
        self._shown: Trial | None = None  # what was returned as the best
        self._has_enough = False  # nothing hurts any more, with nearly all operators in graphs

    @property
    def ahead(self) -> tuple[int, int]:
        """How many trials may follow the one that begins: of what is being gone through, and of all; no more."""
        most = _MOST - len(self._tried) - 1
        return min(self._ahead, most), most

    def result(self) -> Fix:
        """Try until nothing improves."""
        if self._is_enough_inside(self._first):  # first, as it may end most at once
            return self._concluded()
        state = self._walked(self._without_unknown_first() or self._first)
        if self._has_enough:
            return self._concluded()
        if state.observed.broken and (others := self._before_assumptions(state)) is not None:
            # What a number may be taken for shows where torch breaks at it, not where it goes on with an unknown one.
            self._by_value = True
            state = self._walked(others)
            self._by_value = False
            self._failed_on_unknown.clear()  # with values in place of most of them it may do
            self._walked(state)
        return self._concluded()

    def _without_unknown_first(self) -> State | None:
        """Return what comes without settings that give unknown numbers, nor values, if nothing breaks in it.

        The program's own backend may refuse unknown numbers, which shows late, and with them all on top of them.
        """
        if not any(one.gives_unknown for one in self._first.observed.offers):
            return None
        self._puts_off_unknown, state = True, self._first
        while state.observed.broken and (better := self._round(state)) is not None:
            state = better
        self._puts_off_unknown = False
        return None if state.observed.broken else state

    def _is_enough_inside(self, state: State) -> bool:
        """Try what can be compiled by itself on top of a state; return whether nothing is left to do then."""
        seen = state.observed
        found = [self._try(state, offers) for offers in seen.ways_inside] if seen.is_cut else []
        # Where rewrites of lines may mend all that breaks, one graph for all is better.
        enough = [one for one in found if one and seen.inside_mended and is_enough(one.observed, self._first.observed)]
        self._has_enough = any(self._is_confirmed(one.offers) for one in enough)
        return self._has_enough

    def hurried(self) -> Fix:
        """Return what is best of what was tried, and of functions in parts on top of that."""
        self._by_value = False
        return replace(self._found(self._with_less_in_python()), is_unfinished=True, is_hurried=True)

    def so_far(self) -> Fix:
        """Return what is best of what was tried, and try nothing more."""
        looked_at, self._confirm = self._confirm, None
        self._pass_over_suspects()
        best = self._best()
        is_unchecked = bool(best and looked_at and best.offers not in self._confirmed)
        return replace(self._found(best), is_unfinished=True, is_unchecked=is_unchecked)

    def known_so_far(self) -> Fix:
        """Return what is best of what was tried without settings that give unknown numbers, and try nothing more."""
        self._set_aside(lambda trial: trial.gives_unknown)
        return self.so_far()

    def _pass_over_suspects(self) -> None:
        """Take it that no change helps, before it is looked at, that may be what made others give something else."""
        checked = [one for one in self._tried if one.offers in self._confirmed]
        refuted = [set(_suspects(one)) for one in checked if one.observed.results is Results.DIFFER]
        vouched = {o for one in checked if one.observed.results is not Results.DIFFER for o in one.offers}
        # Where each of them is right beside others, it is not known which must not stand together.
        suspects = set[Offer]().union(*((one - vouched) or one for one in refuted))
        self._set_aside(
            lambda trial: (
                trial.offers not in self._confirmed
                and (bool(suspects.intersection(trial.offers)) or any(one.needs_both for one in trial.offers))
            )
        )

    def again_without_unknown(self, why: str | OtherCall | Difference) -> Fix:
        """Try on without settings that give unknown numbers, as what compiles the best speaks against that."""
        self.refuse_unknown(why)
        self._walked(self._first)
        return self._concluded()

    def without_unknown(self, why: str | OtherCall | Difference) -> Fix:
        """Return what is best of what was tried without settings that give unknown numbers."""
        self.refuse_unknown(why)
        return self._concluded()

    def without_inside(self) -> Fix:
        """Return what is best without changes that compile what a function calls in place of it."""
        self._set_aside(lambda trial: compiles_inside(trial.offers))
        return self._concluded()

    def _set_aside(self, is_refused: Callable[[Trial], bool]) -> None:
        """Take it that some trials do not help."""
        self._tried = [replace(one, helps=False) if is_refused(one) else one for one in self._tried]

    @property
    def best(self) -> Trial | None:
        """What is best of what was tried."""
        return self._best()

    @property
    def seems_best(self) -> Trial | None:
        """What is best of what was tried, as far as that is known without a closer look."""
        return min((one for one in self._tried if one.helps), key=preferred, default=None)

    def refuse_unknown(self, why: str | OtherCall | Difference) -> None:
        """Take it that settings that give unknown numbers do not help, as what compiles the best raises an error.

        Or as it makes something else of a call with other inputs.
        """
        refused = self._shown or self._best()
        if refused is not None and refused.observed.is_told_ahead:  # what it was before may do
            self._failed |= {one.edit for one in refused.last}
        elif refused is None or refused.gives_unknown:
            self._refuses_unknown = True
            self._set_aside(lambda trial: trial.gives_unknown)
        else:  # results that are tensors: of the same memory as others, as it seems
            tensors = {one.edit for one in refused.offers if is_rewrite(one) and ".detach()" in one.code}
            self._failed |= tensors
            self._set_aside(lambda trial: not tensors.isdisjoint(one.edit for one in trial.offers))
        if refused is not None:
            observed = replace(refused.observed, results=Results.DIFFER)
            if isinstance(why, OtherCall):
                observed = replace(observed, refuted_by=why)
            elif isinstance(why, Difference):
                observed = replace(observed, difference=why)
            else:
                observed = replace(observed, difference=Difference("error", 0, 0, in_backend=why))
            self._tried[self._place(refused.offers)] = replace(refused, observed=observed, helps=False)

    def _concluded(self) -> Fix:
        best = self._best()
        if best and self._improved_without_split(best):
            best = self._best()
        if best and self._improved_without_marks(best):
            best = self._best()
        best = self._with_less_in_python()
        return self._found(self._told_ahead(self._with_hidden(best)) if best else None)

    def _with_less_in_python(self) -> Trial | None:
        """Try what else can be done by leaving functions to Python, and the best with as few of these as will do."""
        best = self._best()
        if self._improved_by_marks(best):
            best = self._best()
        if self._improved_inside(best):
            best = self._best()
        if self._improved_without_unknown(best):
            best = self._best()
        if self._improved_in_parts(best) or self._improved_with_more(best):
            best = self._best()
        return self._with_lines_in_python(self._pruned(self._with_rewrites(best))) if best else None

    def _found(self, best: Trial | None) -> Fix:
        self._shown = best
        last = best.observed if best else self._first.observed
        # Where one of several changes of a line is made, the others do not find the line any more.
        done = {offer.target.key for trial in self._tried for offer in trial.offers}
        left = [
            one
            for one in (*last.not_tried, *self._not_tried)
            if one.target.key in last.broken
            and not (one.reason is NotTriedBecause.NOT_THERE and one.target.key in done)
        ]
        return Fix(self._first.observed, tuple(self._tried), best, once(left, self._first.texts), self._first.texts)

    def _best(self) -> Trial | None:
        cost = self._first.observed.whole_cost
        while True:
            helping = [
                one for one in self._tried if one.observed.whole_cost < cost and one.helps and self._ends_enough(one)
                and one.observed.at_limit <= self._first.observed.at_limit
                and (one.observed.results is not Results.UNKNOWN or not self._is_compared)
            ]  # fmt: skip
            best = min(helping, key=preferred, default=None)
            if best is None:
                return None
            best = min(leaves_less(best, helping), key=preferred, default=best)
            best = min(launches_less(best, helping), key=lambda one: one.observed.launches, default=best)
            best = min(compiles_more(best, helping), key=preferred, default=best)
            best = min(runs_more(best, helping, self._first.observed), key=preferred, default=best)
            best = min(unrolls_less(best, helping), key=preferred, default=best)
            is_confirmed = self._is_confirmed(best.offers)
            if not is_confirmed:
                self._without_culprits(best.offers)
            found = self._tried[self._place(best.offers)]
            if is_confirmed and found.observed.whole_cost == best.observed.whole_cost:  # a closer look may count more
                return found

    def _ends_enough(self, trial: Trial) -> bool:
        """Return whether a trial ends half of what hurts, by all counts, where functions stay Python for it."""
        is_half = trial.observed.is_half_of(self._first.observed)
        return not kept_from_graphs(trial.offers) or is_half or self._ends_unrolling(trial.observed)

    def _ends_unrolling(self, seen: Observed) -> bool:
        """Return whether the program as it is has a large graph for each number of rounds, and this has not."""
        return bool(self._first.observed.unrolled) and not seen.unrolled

    def _place(self, offers: tuple[Offer, ...]) -> int:
        return next(number for number, trial in enumerate(self._tried) if trial.offers == offers)

    def _is_confirmed(self, offers: tuple[Offer, ...]) -> bool:
        """Look closer at what some offers did, once, and return whether they still help."""
        place = self._place(offers)
        trial, state = self._tried[place], self._states[offers]
        if self._confirm is None or offers in self._confirmed:
            return trial.helps
        observed = self._confirm(state.observed, state.texts, offers)
        self._confirmed.add(offers)
        # What counts more in a closer look may be no gain; what counts the same is what it was.
        cost = observed.whole_cost
        is_less = cost < self._first.observed.whole_cost or cost <= state.observed.whole_cost
        helps = trial.helps and observed.results is not Results.DIFFER and is_less
        self._states[offers] = self._by_texts[frozenset(state.texts.items())] = replace(state, observed=observed)
        self._tried[place] = replace(trial, observed=observed, helps=helps, is_checked=True)
        if trial.helps and not helps and (len(offers) == 1 or self._is_vouched_for(offers[:-1])):
            self._failed.add(offers[-1].edit)
        return helps

    def _is_vouched_for(self, offers: tuple[Offer, ...]) -> bool:
        """Whether some offers were looked at closer, and are right."""
        return offers in self._confirmed and self._states[offers].observed.results is not Results.DIFFER

    def _is_refuted(self, offers: tuple[Offer, ...]) -> bool:
        """Whether some offers were looked at closer, and give something else."""
        return offers in self._confirmed and self._states[offers].observed.results is Results.DIFFER

    def _without_culprits(self, offers: tuple[Offer, ...]) -> State | None:
        """Find which of several changes a closer look speaks against; return the program with the others, if right.

        None where that does not show. Changes were made one after the other, and a later one may need an earlier one:
        so of those made first so many are looked at as are half of what is in doubt, until one is left.
        """
        begun = None
        while len(offers) > 1 and self._is_refuted(offers):
            right, rest = self._told_apart(offers)
            begun = self._states.get(right) or begun
            _, rest = self._made(self._first, rest)
            found = self._state_with(rest) if rest and rest != right else None
            if found is None or found.observed.error:
                break
            offers = found.offers
            if self._is_confirmed(offers):
                return self._states[offers]
        return begun

    def _told_apart(self, offers: tuple[Offer, ...]) -> tuple[tuple[Offer, ...], tuple[Offer, ...]]:
        """Take the changes that are wrong among some for that; return which are right, and all others; or nothing."""
        unseen = self._states[offers].observed.unseen
        if unseen:
            self._fail(*((one,) for one in offers if one.edit in unseen))
            return (), tuple(one for one in offers if one.edit not in unseen)
        right, wrong = self._narrowed(offers)
        if wrong - right != 1:
            return (), ()
        self._fail(offers[:wrong])
        return offers[:right], (*offers[:right], *offers[wrong:])

    def _narrowed(self, offers: tuple[Offer, ...]) -> tuple[int, int]:
        """Return how many of the first of refuted offers are right, and of how many more they are not."""
        wrong = next((size for size in range(1, len(offers)) if self._is_refuted(offers[:size])), len(offers))
        right = max((size for size in range(1, wrong) if self._is_vouched_for(offers[:size])), default=0)
        doubtful = set(range(right + 1, wrong))
        while doubtful:
            size = min(doubtful, key=lambda one: abs(2 * one - right - wrong))
            doubtful.discard(size)
            found = self._state_with(offers[:size])
            if found is None or found.observed.error or found.observed.results is Results.DIFFER:
                continue  # it was run without the others, and is wrong for another reason
            self._is_confirmed(found.offers)
            right, wrong = (right, size) if self._is_refuted(found.offers) else (size, wrong)
            doubtful &= set(range(right + 1, wrong))
        return right, wrong

    def _fail(self, *several: tuple[Offer, ...]) -> None:
        """Take it that of each of these offers the last is wrong, and so is what has all of them."""
        self._failed.update(offers[-1].edit for offers in several)
        for place, trial in enumerate(self._tried):
            if any(set(offers) <= set(trial.offers) for offers in several):
                self._tried[place] = replace(trial, helps=False)

    def _walked(self, first: State) -> State:
        """Return what comes of a state once nothing improves.

        A closer look takes longer than a trial, so only the last state gets one. Where that refutes it, it goes on
        without the change that is wrong. Where it does not show which one is, all is gone through again, with a look
        at each state: what was tried is known then.
        """
        last = self._walk(first)
        while last is not first and not self._has_enough:
            if not (self._is_careful or self._is_confirmed(last.offers)):
                rest = self._without_culprits(last.offers)
                self._is_careful = rest is None
                last = self._walk(rest or first)
                continue
            looked_at = self._states[last.offers]
            if looked_at.observed.cost <= last.observed.cost:
                break
            last = self._walk(looked_at)  # that look has counted more, and has offers for it
        return last

    def _walk(self, state: State) -> State:
        while (better := self._round(state) or self._beyond(state) or self._last_round(state)) is not None:
            state = better
            if self._is_enough_inside(state):
                break
        return state

    def _beyond(self, base: State) -> State | None:
        """Go on from what hurts more for now: it compiles clearly more, which has breaks of its own, and these end."""
        made = len(base.offers)
        more = [
            self._states[trial.offers]
            for trial in self._tried
            if trial.offers[:made] == base.offers and compiles_beyond(trial.observed, base.observed)
            and not any(offer.is_last_resort for offer in trial.offers)
            and not {one.target.key for one in trial.offers[made:]} & trial.observed.broken
        ]  # fmt: skip
        if not (more and base.observed.broken):
            return None
        begin = found = max(more, key=lambda one: one.observed.operators)
        while (better := self._round(found)) is not None:
            found = better
        return found if found is not begin and self._is_better(found, base) else None

    def _holds(self, offers: tuple[Offer, ...]) -> bool:
        """Return whether some offers help, as far as it is known by now."""
        return self._is_confirmed(offers) if self._is_careful else self._tried[self._place(offers)].helps

    def _before_assumptions(self, state: State) -> State | None:
        """Return a state without what was taken for granted and without unknown numbers; None if no value may be."""
        seen = (self._first.observed, *(trial.observed for trial in self._tried))
        if self._more is None or not any(offer.takes_value for one in seen for offer in one.offers):
            return None
        rest = tuple(one for one in state.offers if not (one.gives_unknown or one.is_last_resort))
        return self._try(self._first, rest) if rest and rest != state.offers else self._first

    def _improved_without_split(self, best: Trial) -> bool:
        """Try what else is offered for a function in two: each call of it from compiled code breaks the graph."""
        split = next((one for one in best.offers if isinstance(one.edit, Split)), None)
        if split is None or not best.observed.broken:
            return False
        rest = tuple(one for one in best.offers if one is not split)
        others = {one.edit: one for trial in self._tried for one in trial.offers if one.target.key == split.target.key}
        found = [self._try(self._first, (*rest, one)) for one in others.values() if not isinstance(one.edit, Split)]
        return self._goes_on(found, best)

    def _improved_without_marks(self, best: Trial) -> bool:
        """Try the very last offers in place of the last resorts, of which some leave graph breaks on purpose."""
        rest = tuple(one for one in best.offers if one.is_final or not one.is_last_resort)
        if len(rest) == len(best.offers) or not best.observed.broken:
            return False
        base = (self._try(self._first, rest) or self._states.get(rest)) if rest else self._first
        if base is None:
            return False
        return self._goes_on([self._try(base, (one,)) for one in base.observed.offers if one.is_final], best)

    def _improved_by_marks(self, best: Trial | None) -> bool:
        """Keep out whole what cannot be mended, each by a mark on the outermost function, and nothing within it."""
        before = best.observed if best else self._first.observed
        begin = self._state_with(tuple(one for one in best.offers if not one.is_last_resort)) if best else None
        begin = begin or self._first
        marks = outermost_marks(begin.observed.offers) if before.hurts else ()
        found = self._try(begin, marks) if len(marks) > 1 else None
        if found is None or not self._is_better(found, begin):
            return False
        self._walk(found)
        return True

    def _improved_inside(self, best: Trial | None) -> bool:
        """Compile by itself what does compile, and not what calls it, on top of what mends lines where they stand."""
        before = best.observed if best else self._first.observed
        if not (before.is_cut or before.kept_out):
            state = self._states.get(best.offers) if best and compiles_inside(best.offers) else None
            return state is not None and self._with_less_inside(state)
        begin = self._state_with(tuple(one for one in best.offers if not one.is_last_resort)) if best else None
        states = (self._first,) if begin is None else (begin, self._first)
        for state, offers in [(begun, way) for begun in states for way in begun.observed.ways_inside]:
            found = self._try(state, offers)
            if found is None:
                continue
            is_better, now = self._is_better(found, state), found.observed
            # What ends too little by itself may do so with what else is offered then.
            goes_on = is_better or (now.results is Results.EQUAL and now.cost < state.observed.cost)
            last = self._walk(found) if goes_on else found
            if self._with_less_inside(last) or is_better or last is not found:
                return True
        return False

    def _improved_without_unknown(self, best: Trial | None) -> bool:
        """Leave settings that give unknown numbers out of what has more in graphs than functions by themselves."""
        helping = [one for one in self._tried if one.helps and one.observed.results is Results.EQUAL]
        more = min(compiles_more(best, helping, may_be_unknown=True), key=preferred, default=None) if best else None
        rest = tuple(one for one in more.offers if not one.gives_unknown) if more else ()
        known = {one.target.key for one in rest}
        mended = tuple(one for one in self._mended() if one.target.key not in known)
        for offers in dict.fromkeys((rest, (*mended, *rest))) if rest else ():
            found = self._try(self._first, self._made(self._first, offers)[1])
            if found is not None and more is not None and self._is_as_good(found, more):
                return True
        return False

    def _with_less_inside(self, state: State) -> bool:
        """Leave out each function that is compiled by itself, where some are compiled again and again."""
        counts = state.observed.counts
        if counts is None or counts.recompiles == counts.benign_recompiles:
            return False
        every = (
            tuple(less if one is offer else one for one in state.offers)
            for offer in state.offers
            for less in fewer(offer)
        )
        found = [self._try(self._first, offers) for offers in every]
        return any(one is not None and self._tried[self._place(one.offers)].helps for one in found)

    def _improved_in_parts(self, best: Trial | None) -> bool:
        """Divide the functions in which graphs still break, on top of what else helps, or else of nothing."""
        before = best.observed if best else self._first.observed
        if not (before.unrolled or (before.hurts and (before.parts or before.is_cut))):
            return False
        made = tuple(one for one in best.offers if not one.is_final) if best else ()
        begin = self._state_with(made) if made else None
        if begin is not None and not begin.observed.parts:
            begin = self._without_eager(begin)
        begins = (begin, self._most_compiled(begin or self._first), self._first)
        return any(self._is_better_in_parts(one, before) for one in begins if one is not None)

    def _most_compiled(self, base: State) -> State | None:
        """Return what compiles clearly more than a state, or in far fewer graphs, though it may break as often."""
        more = [
            one
            for one in self._states.values()
            if compiles_beyond(one.observed, base.observed)
            and not any(offer.is_last_resort or offer.edit in self._failed for offer in one.offers)
            and not self._is_refuted(one.offers)
        ]
        return max(more, key=lambda one: (one.observed.operators, -one.observed.launches), default=None)

    def _state_with(self, offers: tuple[Offer, ...]) -> State | None:
        """Return the program with these offers alone, which is tried now if it was not."""
        return self._states.get(offers) or (self._try(self._first, offers) if offers else None)

    def _without_eager(self, state: State) -> State:
        """Leave out what defines functions in those of which nothing is compiled all the same: these may be divided."""
        eager = {one.function.name.rpartition(".")[2] for one in state.observed.eager}
        rest = tuple(one for one in state.offers if not (defines(one) and one.target.frame in eager))
        return (self._state_with(rest) if rest else None) or state

    def _is_better_in_parts(self, begin: State, before: Observed) -> bool:
        """Divide functions, then those that break as they now stand apart; return whether that costs less."""
        state = self._in_parts(begin)
        added = [one for one in state.offers if one not in begin.offers]
        is_kept = bool(added) and self._is_worth_it(added, state.observed, begin.observed)
        is_less = is_kept and state.observed.whole_cost < before.whole_cost
        is_right = state.observed.results is Results.EQUAL
        if not is_less and not (added and is_right and compiles_rounds(state.observed, before)):
            return False
        place = self._place(state.offers)
        self._tried[place] = replace(self._tried[place], helps=True)
        return True

    def _in_parts(self, begin: State) -> State:
        """Divide functions, then those that break as they now stand apart, as far as that gives the same."""
        state = begin
        for _ in range(_DEEPEST):
            found = self._divided_once(state) or self._divided(state, state.observed.parts)
            if found is None or found.observed.error or found.observed.results is not Results.EQUAL:
                break
            state = self._with_new_mended(found)
        return state

    def _with_new_mended(self, state: State) -> State:
        """Mend what breaks in the parts of functions and nobody knew of: nothing of these was compiled before."""
        known = {offer.target.key for trial in self._tried for offer in trial.offers}
        seen = state.observed
        offers = tuple(one for one in seen.offers if one.target.key not in known and not one.is_last_resort)
        if not offers:
            return state
        found = self._round(replace(state, observed=replace(seen, offers=offers)))
        return self._with_new_mended(found) if found is not None else state

    def _divided_once(self, state: State) -> State | None:
        """Divide functions again, of which a part is to be divided, where that is as much; not their parts."""
        offers = as_one(state.offers, state.observed.parts)
        every = self._made(self._first, offers)[1] if offers != state.offers else ()
        found = self._state_with(every) if len(every) == len(offers) else None
        if found is None or found.observed.error or found.observed.results is not Results.EQUAL:
            return None
        is_less = found.observed.cost < state.observed.cost and found.observed.operators >= state.observed.operators
        return found if is_less else None

    def _improved_with_more(self, best: Trial | None) -> bool:
        """Divide functions where what compiles others by themselves takes much out of graphs, on top of what mends."""
        if best is None or not compiles_inside(best.offers):
            return False
        first = self._first.observed
        # What ran eagerly runs so still, where no more is in graphs, and what torch says of it is gone.
        is_only_quiet = bool(first.eager) and best.observed.operators <= first.operators
        if first.operators < CLEARLY * best.observed.operators and not is_only_quiet:
            return False
        _, mended = self._made(self._first, self._mended())
        begin = self._state_with(mended) or self._first
        state = self._in_parts(begin)
        if state is not begin and state.observed.hurts:
            state = self._last_round(state) or state
        now, then = state.observed, best.observed
        is_more = has_more(now, then)
        is_less = (now.hurts or 0) <= max(then.hurts or 0, (self._first.observed.hurts or 0) // 2)
        if state is begin or not (is_more or is_worth_launches(now, then)) or not is_less or now.is_cut:
            return False
        place = self._place(state.offers)
        self._tried[place] = replace(self._tried[place], helps=True)
        return True

    def _is_worth_it(self, added: Sequence[Offer], now: Observed, begin: Observed) -> bool:
        """Whether functions may be divided: of what the program as it is has, at most half is left then.

        With as much in graphs as that has: where what is divided runs eagerly for the most part, more may be for now.
        """
        first = self._first.observed
        why = not_worth(added, now, begin)
        if why is None or not now.is_half_of(first):
            return why is None
        return why is NotWorth.ENDS_TOO_LITTLE or (why is NotWorth.RUNS_LESS and not runs_less(added, now, first))

    def _divided(self, state: State, parts: tuple[Offer, ...]) -> State | None:
        """Divide functions; where one of the parts raises as it is compiled, its line stays Python, too."""
        found = self._try(state, parts) if parts else None
        line = found.observed.error_line if found else None
        for _ in range(_DEEPEST if line else 0):
            with_line = tuple(map(partial(without, line), parts))
            if line is None or with_line == parts:
                break
            parts = with_line
            found = self._try(state, parts)
            line = found.observed.error_line if found else None
        return found

    def _goes_on(self, found: Iterable[State | None], best: Trial) -> bool:
        """Go on from the first state that costs less than a trial; return whether there is one."""
        better = [one for one in found if one is not None and one.observed.whole_cost < best.observed.whole_cost]
        return any(self._walk(one) for one in better)

    def _pruned(self, best: Trial) -> Trial:
        """Leave out what the other offers of a trial do as well without, the first ones first."""
        # As far as it is known. A line that is mended says more than a setting for all of them.
        needless, less = sorted(doubtful(best.offers), key=lambda one: not one.gives_unknown), best
        self._ahead = len(needless)
        self._expect_each(self._first, _without_each(best, needless))
        for number, offer in enumerate(needless, 1):
            self._ahead -= 1
            rest = without_offer(less.offers, offer, less.texts)
            found = self._try(self._first, rest) if rest else None
            if found is not None and self._is_as_good(found, less):
                less = self._tried[self._place(found.offers)]
                self._expect_each(self._first, _without_each(less, needless[number:]))
        self._expect([])
        if less is best or not self._is_confirmed(less.offers):
            return best
        seen = self._tried[self._place(less.offers)]  # as it is after that look, which may count more
        return best if seen.observed.cost > best.observed.cost else seen

    def _is_as_good(self, found: State, than: Trial) -> bool:
        """Return whether a state does what a trial does; if so it helps, though a mark may keep more from graphs.

        A function in two leaves lines to Python: compared with the program as it is, a mark would seem to.
        """
        place, now, before = self._place(found.offers), found.observed, than.observed
        # Of recompiles as expected there may be more, if a function less is Python.
        is_less = len(kept_from_graphs(found.offers)) < len(kept_from_graphs(than.offers))
        is_more = now.cost > before.cost if is_less else now.whole_cost > before.whole_cost
        is_wrong = bool(now.error) or now.results is not before.results or is_more
        is_wrong |= now.operators < before.operators and runs_less(found.offers, now, before)
        if is_wrong or takes_too_much(found.offers, now, before):
            return False
        self._tried[place] = replace(self._tried[place], helps=True)
        return True

    def _with_lines_in_python(self, best: Trial) -> Trial:
        """Leave a line to Python as it is, where its function is Python anyway, if a rewrite of it loses something."""
        lost = tuple(one for one in best.offers if loses(one))
        for rewrites in dict.fromkeys((lost, *((one,) for one in lost))):
            offers = kept_as_written(best.offers, rewrites) if rewrites else ()
            _, every = self._made(self._first, offers)
            found = self._state_with(every) if len(every) == len(offers) else None
            if found is None or not self._is_as_good(found, best) or not self._is_confirmed(found.offers):
                continue
            best = self._tried[self._place(found.offers)]
            if rewrites == lost:
                break
        return best

    def _with_rewrites(self, best: Trial) -> Trial:
        """Make what mended lines where they stand again where the best leaves functions to Python without it.

        These are made before the functions are divided: what is mended is compiled then.
        """
        known = {one.target.key for one in best.offers if not kept_from_graphs([one])}
        new = [one for one in self._mended() if one.target.key not in known and not is_kept_out(one, best.offers)]
        if not new or not kept_from_graphs(best.offers):
            return best
        several = [tuple(new), *((one,) for one in new if len(new) > 1)]
        return next((found for offers in several if (found := self._on_its_way(offers, best)) is not None), best)

    def _on_its_way(self, offers: tuple[Offer, ...], best: Trial) -> Trial | None:
        """Return a trial with offers made before those that it has, if that is as good; those that can be made then."""
        _, every = self._made(self._first, (*offers, *best.offers))
        found = self._state_with(every)
        if found is None or not self._is_as_good(found, best) or not self._is_confirmed(found.offers):
            return None
        return self._tried[self._place(found.offers)]

    def _mended(self) -> Iterable[Offer]:
        """Return of each line that a rewrite has mended the first that did, with nothing that speaks against it."""
        found: dict[tuple[str, str, str], Offer] = {}
        for trial in self._tried:
            seen = trial.observed
            is_right = trial.helps and not seen.error and seen.results is Results.EQUAL
            for one in trial.last if is_right else ():
                is_mended = is_rewrite(one) and one.target.key not in seen.broken and one.edit not in self._failed
                if is_mended and not (one.may_say_less or one.defers):
                    found.setdefault(one.target.key, one)
        return found.values()

    def _with_hidden(self, best: Trial) -> Trial:
        """Make what helped by itself again where it does no harm, and what it does may be hidden by what is left.

        Torch tells of one cause for each compilation, and compiles no further what runs eagerly from its first break:
        whoever mends by hand what is left would find the other causes again.
        """
        hidden: list[Offer] = []
        texts = best.texts
        for offer in self._helped():
            known = {one.target.key for one in (*best.offers, *hidden)} | best.observed.broken
            is_made = offer.edit in {one.edit for one in best.offers}
            is_hidden = not is_made and offer.target.key not in known and best.observed.is_left_beside(offer.target)
            new = edited(offer.edit, texts, self._script) if is_hidden else None
            if new is not None:
                hidden, texts = [*hidden, offer], new
        if not hidden:
            return best
        every = (*best.offers, *hidden)
        same = next((trial.offers for trial in self._tried if set(trial.offers) == set(every)), every)
        found = self._states.get(same) or self._try(self._states[best.offers], tuple(hidden))
        if found is None or found.observed.whole_cost > best.observed.whole_cost:
            return best
        # The same texts may have been tried as other changes.
        place, is_equal = self._place(found.offers), found.observed.results is best.observed.results
        self._tried[place] = replace(self._tried[place], helps=is_equal)
        return self._tried[place] if self._is_confirmed(found.offers) else best

    def _told_ahead(self, best: Trial) -> Trial:
        """Tell torch before the first call of what it finds open as expected: each of these costs a compilation.

        It changes nothing that is computed, so what a closer look at the best showed is known of it. What is left may
        ask for a change where it did not: torch names one cause of each recompile.
        """
        ways = best.observed.told_ahead
        alone = dict.fromkeys((one,) for several in ways for one in several if len(several) > 1)
        for several in (*ways, *alone):
            offers = tuple(one for one in several if not is_of_given(one, best.offers))
            found = self._try(self._states[best.offers], offers) if offers else None
            if found is not None and found.observed.compiles_less_often(best.observed):
                place, then = self._place(found.offers), best.observed
                known = {name: getattr(then, name) for name in ("others", "refuted_by", "unseen")}
                seen = replace(found.observed, is_told_ahead=True, **known)
                told = replace(self._tried[place], observed=seen, helps=True, is_checked=best.is_checked)
                self._tried[place] = told
                self._states[found.offers] = replace(found, observed=seen)
                self._confirmed.add(found.offers)
                return told
        return best

    def _helped(self) -> Iterable[Offer]:
        """Return what compiled more when it was made, each once, but last resorts."""
        found: dict[Edit, Offer] = {}
        for trial in self._tried:
            *others, last = trial.offers
            before = self._states.get(tuple(others)) if others else self._first
            is_plain = not (last.is_last_resort or last.needs_both or last.edit in self._failed)
            if before is None:  # several were made at once, and it does not show what the last of them did
                continue
            if trial.helps and is_plain and trial.observed.cost < before.observed.cost:
                found.setdefault(last.edit, last)
        return found.values()

    def _last_round(self, base: State) -> State | None:
        seen = base.observed
        if self._more is None or not (seen.is_markable or any(offer.is_last_resort for offer in seen.offers)):
            return None
        seen = self._more(seen) if seen.is_markable else seen
        rounds = (tuple(one for one in seen.offers if one.is_final is is_final) for is_final in (False, True))
        states = (replace(base, observed=replace(seen, offers=offers)) for offers in rounds)
        return next((found for one in states if (found := self._round(one, is_last=True)) is not None), None)

    def _round(self, base: State, *, is_last: bool = False) -> State | None:
        """Try the offers of a state on top of it: many at once, or each and then what helps; None where none does."""
        offered = [one for one in base.observed.offers if one.is_last_resort is is_last]
        if self._puts_off_unknown:
            offered = [one for one in offered if not (one.gives_unknown or one.takes_value)]
        if self._by_value:
            offered = sorted((one for one in offered if not one.gives_unknown), key=lambda one: not one.takes_value)
            if (found := self._all_values(base, offered)) is not None:
                return found
        elif not is_last and (found := self._many_at_once(base, offered)) is not None:
            return found
        helping, rest = self._each(base, offered, is_last=is_last)
        deeper = [] if is_last else list(self._deeper(base, rest))
        if not helping and not deeper:
            return self._beside(base, rest)
        every = [state.offers[-1] for state in helping]
        order = sorted(
            [*helping, *deeper],
            key=lambda one: (ranked(one)[0], len(one.observed.broken), *ranked(one)[1:], unknowns(one)),
        )
        # What only comes past its break waits for the next round, if something else makes more compile by itself.
        gaining = [state for state in helping if state.observed.cost < base.observed.cost]
        together = one_for_each_target(gaining or helping) if helping else ()
        if len(together) > 1:
            self._ahead = 0
            found = self._try(base, together)
            is_kinder = found is not None and self._is_better(found, base) and ranked(found) < ranked(order[0])
            if found is not None and (is_kinder or self._is_better(found, order[0])):
                order.insert(0, found)
        if (more := self._beside(order[0], rest)) is not None:
            order.insert(0, more)
        best = next((self._states[one.offers] for one in order if self._holds(one.offers)), None)
        return replace(best, waiting=tuple(one for one in every if one not in best.offers)) if best else None

    def _deeper(self, base: State, states: Iterable[State]) -> Iterator[State]:
        """Write otherwise what asks for a number that is a tensor now, say: that breaks where nothing did before."""
        for state in itertools.islice(filter(partial(_moves_on, base), states), _MOST_DEEPER):
            # One line may break in two ways: torch compiles the function by itself once it was skipped.
            new = {(file, code) for file, code, _ in state.observed.broken - base.observed.broken}
            rewrites: dict[tuple[str, str], Offer] = {}
            for one in state.observed.offers:
                file, code, _ = one.target.key
                if isinstance(one.edit, Lines) and not one.is_last_resort and (file, code) in new:
                    rewrites.setdefault((file, code), one)
            found = self._try(state, tuple(rewrites.values())) if rewrites.keys() == new else None
            if found is not None and self._is_better(found, base):
                yield found

    def _beside(self, base: State, states: Iterable[State]) -> State | None:
        """Make what brings nothing by itself on top of a state: of two causes of recompiles one hides the other."""
        made, broken = {offer.edit for offer in base.offers}, base.observed.broken
        new = [one for one in one_for_each_target(states) if one.edit not in made and one.target.key in broken]
        was_tried = not made and len(new) == 1
        if was_tried or not any(one.target.kind in RECOMPILES for one in new):
            return None
        found = self._try(base, tuple(new))
        is_less = found is not None and found.observed.cost < base.observed.cost
        return found if found is not None and is_less and self._is_better(found, base) else None

    def _each(self, base: State, offered: Sequence[Offer], *, is_last: bool) -> tuple[list[State], list[State]]:
        """Return what comes of each offer by itself: where that helps, and where it does no harm."""
        helping: list[State] = []
        harmless: list[State] = []
        # A setting may take a break away that a change of the line ends too, and only both what comes after it.
        waiting = [one for one in base.waiting if one.is_last_resort is is_last and one not in offered]
        waiting = [one for one in waiting if not (self._by_value and one.gives_unknown)]
        again = [one for one in waiting if base.observed.broken and one.target.key not in base.observed.broken]
        self._ahead = len(offered) + len(again) + 1  # the last one is of those together that help
        self._expect_each(base, ((offer,) for offer in (*offered, *again)))
        for offer in (*offered, *again):
            self._ahead -= 1
            found = self._try(base, (offer,))
            is_more = found is not None and (offer not in again or found.observed.cost < base.observed.cost)
            if found is not None and is_more and self._is_better(found, base):
                helping.append(found)
                if self._leaves_nothing(found):
                    break
            elif found is not None and not found.observed.error and found.observed.results is not Results.DIFFER:
                harmless.append(found)
        self._expect([])
        return helping, harmless

    def _leaves_nothing(self, state: State) -> bool:
        """Return whether rewrites of lines end all that hurts, with nearly all in one graph a call."""
        is_plain = all(
            is_rewrite(one) and not (one.may_say_less or one.defers or one.takes_value) for one in state.offers
        )
        return is_plain and not state.observed.printed and is_enough(state.observed, self._first.observed)

    def _many_at_once(self, base: State, offered: Iterable[Offer]) -> State | None:
        """Make an offer for each of many things at once: a run of each would take long. None: there are a few only.

        Where one did not end what it is for, the next one for that takes its place.
        """
        choices: dict[tuple[str, str, str], list[Offer]] = {}
        for offer in sorted(offered, key=lambda one: (one.silences, one.drops, one.gives_unknown, one.needs_both)):
            choices.setdefault(offer.target.key, []).append(offer)
        if len(choices) < MANY:
            return None
        best = base
        while True:
            self._ahead = 0
            chosen = {options[0].edit: options[0] for options in choices.values()}
            found = self._as_far_as_they_help(base, in_order(chosen.values()))
            if found is base or (best is not base and not self._is_better(found, best)):
                return best if best is not base else None
            best = found
            broken = {code for _, code, _ in found.observed.broken}
            stuck = [key for key, options in choices.items() if options[1:] and stands_in(options[0], broken)]
            if not stuck:
                return best
            choices.update((key, choices[key][1:]) for key in stuck)

    def _as_far_as_they_help(self, base: State, offers: tuple[Offer, ...]) -> State:
        """Return a state with these offers: all of them, or what helps of each half on top of the other."""
        _, made = self._made(base, (one for one in offers if one.edit not in self._failed))
        half = len(made) // 2
        self._expect_each(base, (made, made[:half]))
        found = self._try(base, made) if made else None
        if found is not None and self._is_better(found, base) and self._holds(found.offers):
            return self._states[found.offers]
        if len(made) < 2:  # noqa: PLR2004 -- one has no halves
            return base
        return self._as_far_as_they_help(self._as_far_as_they_help(base, made[:half]), made[half:])

    def _made(self, base: State, offers: Iterable[Offer]) -> tuple[Texts, tuple[Offer, ...]]:
        """Return the texts of a state with offers made one after the other, and those that could be."""
        texts, made = base.texts, []
        for offer in offers:
            new = edited(offer.edit, texts, self._script)
            if new is not None:
                texts = new
                made.append(offer)
        return texts, tuple(made)

    def _all_values(self, base: State, offered: Iterable[Offer]) -> State | None:
        """Take all values for granted at once: what is needless among them is left out in the end."""
        values = {offer.target.key: offer for offer in offered if offer.takes_value}
        found = self._try(base, tuple(values.values())) if len(values) > 1 else None
        return found if found is not None and self._is_better(found, base) else None

    def _try(self, base: State, offers: tuple[Offer, ...]) -> State | None:
        """Make offers on top of a state; None where that cannot be done, or was."""
        every = self._on_top(base, offers)
        if every is None:
            return None
        offers, is_unknown = every[len(base.offers) :], any(offer.gives_unknown for offer in every)
        texts, done = self._made(base, offers)
        if len(done) < len(offers):
            if len(offers) == 1:
                self._not_tried[NotTried(offers[0].target, "", NotTriedBecause.NOT_THERE)] = None
            return None
        same = self._by_texts.get(frozenset(texts.items()))
        if same is not None:
            return same if set(same.offers) - set(base.offers) else None
        if len(self._tried) >= _MOST:
            self._not_tried.update((NotTried(o.target, "", NotTriedBecause.LIMIT), None) for o in offers)
            return None
        found = self._states[every] = State(self._attempt(texts, every), texts, every)
        self._by_texts[frozenset(texts.items())] = found
        helps = self._is_better(found, base)
        figures, is_checked = self._first.observed.figures, self._confirm is None
        self._tried.append(Trial(every, texts, figures, found.observed, helps, len(offers), is_checked))
        is_wrong = found.observed.results is Results.DIFFER or (found.observed.error and not base.observed.error)
        if len(offers) == 1 and is_wrong:
            (self._failed_on_unknown if is_unknown else self._failed).add(offers[0].edit)
            if is_unknown and found.observed.error:
                self._raised[offers[0].edit] = frozenset(offer.edit for offer in every)
        return found

    def _on_top(self, base: State, offers: Iterable[Offer]) -> tuple[Offer, ...] | None:
        """Return the offers of a state with others; None where none is new, or one of these failed before."""
        made = {offer.edit for offer in base.offers}
        new = in_order({offer.edit: offer for offer in offers if offer.edit not in made}.values())
        every = (*base.offers, *new)
        is_unknown = any(offer.gives_unknown for offer in every)
        if is_unknown and (self._refuses_unknown or self._puts_off_unknown):
            return None
        failed = self._failed | self._failed_on_unknown if is_unknown else self._failed
        has_failed = any(offer.edit in failed and not self._may_do_now(offer.edit, every) for offer in new)
        return None if has_failed or not new else every  # a setting that another break asked for is not new

    def _expect_each(self, base: State, several: Iterable[Sequence[Offer]]) -> None:
        """Say which of several offers on top of a state would run."""
        found: list[tuple[Texts, tuple[Offer, ...]]] = []
        for every in filter(None, (self._on_top(base, offers) for offers in several)):
            texts, done = self._made(base, every[len(base.offers) :])
            if len(done) == len(every) - len(base.offers) and frozenset(texts.items()) not in self._by_texts:
                found.append((texts, every))
        self._expect(found)

    def _may_do_now(self, edit: Edit, every: Iterable[Offer]) -> bool:
        """Whether what raised, as torch knew no number, may do by now: what it ran is kept out of the graph since."""
        raised = self._raised.get(edit)
        kept_out = (one.edit for one in every if one.is_last_resort or isinstance(one.edit, Split))
        return raised is not None and any(one not in raised for one in kept_out)

    def _is_better(self, found: State, base: State) -> bool:
        """Whether more is compiled, or the program came past what an offer was for, and it computes the same."""
        now, before = found.observed, base.observed
        if now.results is Results.DIFFER or (now.error and not before.error):
            return False
        is_seen = self._confirm is not None and now.results is Results.EQUAL
        if not is_seen and any(offer.needs_both for offer in found.offers):
            return False
        if now.results is not Results.EQUAL and any(offer.is_last_resort or offer.needs_both for offer in found.offers):
            return False
        added = [offer for offer in found.offers if offer not in base.offers]
        # A setting that keeps other numbers than NumPy's in graphs is no way to what can be compared.
        is_open = self._is_compared and now.results is Results.UNKNOWN and any(one.gives_unknown for one in added)
        if is_open or not keeps_enough(added, now, before):
            return False
        if now.cost != before.cost:
            return now.spares(before) if only_says_so(added, now, before) else now.cost < before.cost
        return any(offer.target.key not in now.broken for offer in added) and now.broken != before.broken


def _moves_on(base: State, state: State) -> bool:
    """Whether the last offer ends what it is for, and brings up more than that."""
    now = state.observed
    is_ended, is_more = state.offers[-1].target.key not in now.broken, bool(now.broken - base.observed.broken)
    return is_ended and is_more and now.cost > base.observed.cost


def _suspects(refuted: Trial) -> Iterable[Offer]:
    """Return which of refuted offers may be wrong: those whose branch went one way, if all else was the same."""
    seen = refuted.observed
    return [one for one in refuted.offers if one.edit in seen.unseen or not seen.unseen or seen.refuted_by]


def _without_each(trial: Trial, needless: Iterable[Offer]) -> Iterable[tuple[Offer, ...]]:
    return (without_offer(trial.offers, offer, trial.texts) for offer in needless)
