"""What of several offers is tried first, what is best of several states, and what of the best may be needless."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.edits import Apart, Edit, EndApart, Lines, Split, Texts
from compiler_lens.facts.measured.enough import may_lose, not_worth
from compiler_lens.facts.measured.fix import NotTried, Observed, Offer, Trial, as_it_was
from compiler_lens.facts.measured.in_python import (
    NEARLY_ALL,
    compiles_inside,
    is_mark,
    kept_from_graphs,
    left_to_python,
    price,
    runs_less,
)
from compiler_lens.facts.measured.marked_inside import Inside, function_in, inside_price
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Results, SourceLine

_LARGE = 40  # operators in a graph: its launch is a small part of it
_NEARLY_ENOUGH = 0.8  # of the operators that ran in graphs
CLEARLY = 1.1  # times as many
_MUCH = 1.4  # times as many operators
_A_PART = 2  # and less: of what is in graphs as the program is, too little to count for much
_EACH = 16  # operators that take as long eagerly as a launch of a graph does, with its guards
MANY = 4  # things that are broken: for fewer each offer is tried by itself, which shows what each does


class State(Struct, frozen=True):
    """The program with some offers made."""

    observed: Observed
    texts: Texts
    offers: tuple[Offer, ...] = ()
    waiting: tuple[Offer, ...] = ()  # they helped in the round before, and another one for the same thing was made


def ranked(found: State | Trial) -> tuple[tuple[int, ...], bool, int, int]:
    """Return what is best of several: what compiles most; of equals what keeps most of what the program does."""
    silenced, dropped = sum(one.silences for one in found.offers), sum(one.drops for one in found.offers)
    return found.observed.whole_cost, found.observed.printed is not None, silenced, dropped


def unknowns(found: State | Trial) -> int:
    """Return how many settings give numbers that torch does not know, of which others may then ask."""
    return sum(one.gives_unknown for one in found.offers)


def preferred(trial: Trial) -> tuple[object, ...]:
    """Return what is best of all that was tried: what hurts least, leaves least to Python, and is shortest.

    Of equals lines that are mended come before settings for all of them that give unknown numbers.
    """
    _, *keeps = ranked(trial)
    changes = sum(len(one.edit.inner) if isinstance(one.edit, Inside) else 1 for one in trial.offers)
    hurts = price(trial.offers, trial.observed)
    return *hurts, *keeps, len(left_to_python(trial.offers)), unknowns(trial), changes


def launches_less(best: Trial, helping: Iterable[Trial]) -> Iterable[Trial]:
    """Yield what does as well as a trial, and launches graphs clearly less often with as much in them."""
    *alike, _, _ = preferred(best)
    for one in helping:
        now, then = one.observed, best.observed
        is_less = CLEARLY * now.launches < then.launches and CLEARLY * now.operators >= then.operators
        if is_less and list(preferred(one)[:-2]) == alike:
            yield one


def leaves_less(best: Trial, helping: Iterable[Trial]) -> Iterable[Trial]:
    """Yield what divides no function, and compiles as much as a trial that does, in as few graphs, and less often.

    That has fewer graph breaks alone because what they stand in is Python then.
    """
    now = best.observed
    is_divided = any(isinstance(one.edit, Apart) for one in best.offers)
    for one in helping if is_divided else ():
        seen = one.observed
        if kept_from_graphs(one.offers) or not (seen.figures and now.figures):
            continue
        is_as_much = seen.operators >= now.operators and seen.launches <= now.launches
        if is_as_much and seen.figures.recompiles < now.figures.recompiles and seen.at_limit <= now.at_limit:
            yield one


def compiles_more(best: Trial, helping: Iterable[Trial], *, may_be_unknown: bool = False) -> Iterable[Trial]:
    """Yield what has clearly more in graphs than what compiles by itself what a function calls, in no more launches.

    All that still breaks there is the call of what a mark keeps out. With `may_be_unknown` also what has a setting that
    gives unknown numbers.
    """
    now = best.observed
    for one in helping if compiles_inside(best.offers) else ():
        seen = one.observed
        takes = one.gives_unknown is not may_be_unknown or any(isinstance(offer.edit, Apart) for offer in one.offers)
        is_more = _has_clearly_more(seen, now)
        is_as_good = not (seen.is_cut or seen.at_each_call) and (seen.hurts or 0) <= (now.hurts or 0)
        if is_more and is_as_good and not takes:
            yield one


def has_more(more: Observed, fewer: Observed) -> bool:
    """Return whether clearly more runs in graphs, in no more launches, or more in clearly fewer that break no more."""
    if _has_clearly_more(more, fewer):
        return True
    breaks, others = (one.figures.graph_breaks if one.figures else 0 for one in (more, fewer))
    return breaks <= others and more.operators > fewer.operators and CLEARLY * more.launches <= fewer.launches


def _has_clearly_more(more: Observed, fewer: Observed) -> bool:
    return more.operators >= CLEARLY * fewer.operators and more.launches <= fewer.launches


def runs_more(best: Trial, helping: Iterable[Trial], first: Observed) -> Iterable[Trial]:
    """Yield what ends half of what hurts, with clearly more in graphs than a trial that leaves functions to Python.

    But where that compiles by itself what is worth it, of what runs in graphs as the program is a good part, nothing
    that takes something for granted, and nothing that keeps more of the program out than is so now. Of what compiles
    less than such a part it is enough to end half of what cuts graphs, with no more recompiles.
    """
    is_chosen = compiles_inside(best.offers) and _A_PART * best.observed.operators >= first.operators
    for one in helping if left_to_python(best.offers) else ():
        new = [offer for offer in one.offers if offer not in best.offers]
        is_all = one.observed.operators >= NEARLY_ALL * first.operators
        takes = is_chosen and any(offer.gives_unknown or (offer.is_last_resort and not is_all) for offer in new)
        is_more = runs_less(best.offers, best.observed, one.observed)
        is_more |= compiles_inside(best.offers) and is_worth_launches(one.observed, best.observed)
        is_more &= one.observed.eager_sooner_or_later <= best.observed.eager_sooner_or_later
        is_half = one.observed.is_half_of(first) or (not is_chosen and one.observed.cuts_half_of(first))
        if is_more and not takes and is_half and not _does_as_much(best.observed, one.observed):
            yield one


def _does_as_much(whole: Observed, cut: Observed) -> bool:
    """Return whether one has nearly as much in graphs as another, in no more launches, and cuts none as that does."""
    is_clean = not (whole.hurts or whole.at_each_call) and cut.is_cut
    return is_clean and whole.operators >= _NEARLY_ENOUGH * cut.operators and whole.launches <= cut.launches


def unrolls_less(best: Trial, helping: Iterable[Trial]) -> Iterable[Trial]:
    """Yield what compiles the rounds of loops, where a trial compiles one large graph for each number of them."""
    return (one for one in helping if compiles_rounds(one.observed, best.observed))


def compiles_rounds(now: Observed, before: Observed) -> bool:
    """Return whether rounds of loops are compiled, nearly all of what ran in graphs of whole loops."""
    is_as_whole = now.eager_sooner_or_later <= before.eager_sooner_or_later and now.cuts <= before.cuts
    is_as_much = now.operators >= _NEARLY_ENOUGH * before.operators
    return bool(before.unrolled) and not now.unrolled and is_as_whole and is_as_much


def is_enough(found: Observed, first: Observed) -> bool:
    """Return whether nothing hurts any more, and nearly all operators are in one graph a call, or in large ones.

    Where functions ran eagerly nobody knows how many these are: then there are as many as ran in graphs before.
    """
    is_right = not found.error and found.results is Results.EQUAL and found.hurts == 0 and not found.at_each_call
    share = 1 if first.figures is None or first.figures.eager_functions else _NEARLY_ENOUGH
    most = max(found.calls, found.operators // _LARGE)
    return is_right and found.launches <= most and found.operators >= share * first.operators


def compiles_beyond(more: Observed, base: Observed) -> bool:
    """Return whether clearly more runs in graphs, and in fewer of them, or as much in half of them.

    Whatever breaks in what is compiled now.
    """
    is_right = not more.error and more.results is Results.EQUAL
    is_more = more.operators >= _MUCH * base.operators and more.launches < base.launches
    is_whole = more.operators >= NEARLY_ALL * base.operators and 2 * more.launches <= base.launches
    return is_right and (is_more or is_whole)


def is_worth_launches(more: Observed, fewer: Observed) -> bool:
    """Return whether so much more runs in graphs that it makes up for launching more of them."""
    added = more.operators - fewer.operators
    return more.operators >= _MUCH * fewer.operators and added >= _EACH * (more.launches - fewer.launches)


def outermost_marks(offered: Iterable[Offer]) -> tuple[Offer, ...]:
    """Return of the marks for one thing the one on the outermost function: the innermost is offered first.

    It keeps out what those within it would.
    """
    marks = [offer for offer in offered if offer.is_final and is_mark(offer.edit)]
    found = grouped(marks, lambda offer: offer.target.key).values()
    return tuple(replace(several[-1], may_lose=may_lose(several)) for several in found)


def once(left: Iterable[NotTried], texts: Texts) -> tuple[NotTried, ...]:
    """Return what was not tried, each once, by the lines of the files as they are."""
    found: dict[tuple[object, ...], NotTried] = {}
    for one in left:
        at = as_it_was(one.target.at, texts) if one.target.at else None
        key = (at and at.place, one.target.kind, one.change, one.reason)
        found.setdefault(key, replace(one, target=replace(one.target, at=at)))
    return tuple(found.values())


def doubtful(offers: tuple[Offer, ...]) -> Sequence[Offer]:
    """Return what other offers may make needless: of many, not a rewrite of the very line that breaks.

    Nor of a few, if functions stay Python: these come first, and what compiles more stays.
    """
    if compiles_inside(offers):  # what it leaves to Python needs no other change
        return [one for one in offers if not isinstance(one.edit, Inside)]
    if python := [one for one in offers if kept_from_graphs([one])]:
        # What compiled code would leave out, such as a message, may be a line that Python runs by now.
        others = [
            one for one in offers if one not in python
            and (not is_rewrite(one) or one.drops or is_kept_out(one, python) or _is_in_divided(one, python))
        ]  # fmt: skip
        return [*python, *others] if len(offers) > 1 else ()
    if len(offers) < MANY:
        return offers if len(offers) > 1 else ()
    wide = [one for one in offers if not isinstance(one.edit, Lines) or one.is_last_resort]
    kinds, is_split = {one.target.kind for one in wide}, any(isinstance(one.edit, (Split, EndApart)) for one in wide)
    says_less = [one for one in offers if one.may_say_less or one.defers] if is_split else []
    return [one for one in offers if one in wide or one in says_less or one.target.kind in kinds]


def _is_in_divided(offer: Offer, others: Iterable[Offer]) -> bool:
    """Whether a line that is mended stands in a function of which another change leaves the end to Python."""
    name = offer.target.at.function.rpartition(".")[2] if offer.target.at else ""
    ends = [one.edit for one in others if isinstance(one.edit, EndApart)]
    return any(one.name.rpartition(".")[2] == name for one in ends)


def is_rewrite(offer: Offer) -> bool:
    """Whether it mends lines of the user's own where they stand."""
    return isinstance(offer.edit, Lines) and not (offer.is_last_resort or offer.needs_both)


def is_kept_out(offer: Offer, others: Iterable[Offer]) -> bool:
    """Whether a line that is mended stands in a function which another change keeps out of the compiler."""
    at = offer.target.at
    if at is None or not is_rewrite(offer):
        return False
    edits = [one.edit.marked if isinstance(one.edit, EndApart) else one.edit for one in others]
    marked = [one for one in edits if isinstance(one, Lines) and is_mark(one)]
    name = at.function.rpartition(".")[2]
    return any(
        one.before[0].partition("(")[0].split()[-1:] == [name]
        or (name.startswith("<") and one.near < at.line)  # a lambda stands in another
        for one in marked
        if one.file == at.file and one.before
    )


def in_order(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Return offers as they can be made one after the other.

    What has lines wait comes early: it does not know them once they are written otherwise. But a rewrite that only
    moves such a line comes before it, as it knows what stands around that by its text.
    """
    every = list(offers)
    collected = {line for one in every if isinstance(one.edit, Split) for line in one.edit.collected}

    def place(offer: Offer) -> int:
        edit = offer.edit
        if isinstance(edit, Lines) and collected & _stripped(edit.before) & _stripped(edit.after):
            return 0
        return 1 if isinstance(edit, Split) and edit.collected else 2

    return tuple(sorted(every, key=place))


def _stripped(lines: Iterable[str]) -> set[str]:
    return {one.strip() for one in lines}


def is_of_given(offer: Offer, others: Iterable[Offer]) -> bool:
    """Whether it changes a call of torch.compile that another change takes away once it is written."""
    calls = [one.edit.call for one in others if isinstance(one.edit, Inside) and one.edit.call]
    lines = "\n".join(offer.edit.before) if isinstance(offer.edit, Lines) else ""
    return any(call in lines for call in calls)


def defines(offer: Offer) -> bool:
    """Whether what it writes has a function in it: what does is not divided."""
    is_function = isinstance(offer.edit, Lines) and ("lambda" in offer.code or "def " in offer.code)
    return is_function or isinstance(offer.edit, (Split, EndApart, Apart))


def keeps_enough(added: Sequence[Offer], now: Observed, before: Observed) -> bool:
    """Whether what marks of torch's keep out of graphs is no more than they may, and worth it."""
    return not_worth(added, now, before) is None


def stands_in(offer: Offer, lines: AbstractSet[str]) -> bool:
    """Whether what an offer has written, or the line that it is for, is among some lines."""
    at = offer.target.at
    written = {line.strip() for line in offer.code.splitlines()}
    return bool(written & lines) or bool(at and at.code.strip() in lines)


def without(line: SourceLine | None, offer: Offer) -> Offer:
    """Return a function in parts without another line, if that is of this function."""
    edit = offer.edit
    if line is None or not isinstance(edit, Apart) or line.file != edit.file:
        return offer
    name, own = line.function.rpartition(".")[2], edit.name.rpartition(".")[2]
    if name.partition(INNER)[0] != own.partition(INNER)[0]:
        return offer
    code = line.code.strip()
    lines, lost = tuple(dict.fromkeys((*edit.lines, code))), offer.may_lose | {(edit.file, code)}
    return replace(offer, edit=replace(edit, lines=lines), may_lose=lost)


def as_one(offers: Iterable[Offer], parts: Iterable[Offer]) -> tuple[Offer, ...]:
    """Return offers of which each that divides a function leaves to Python what is to be divided of its parts, too.

    A function that is divided once reads better than one of which a part is divided again.
    """
    later = [one for one in parts if isinstance(one.edit, Apart)]
    return tuple(_with_parts_of(one, later) for one in offers)


def _with_parts_of(offer: Offer, parts: Sequence[Offer]) -> Offer:
    edit = offer.edit
    if not isinstance(edit, Apart):
        return offer
    begins = f"{edit.name}{INNER}"
    own = [(one, one.edit) for one in parts if isinstance(one.edit, Apart) and one.edit.file == edit.file]
    own = [(one, other) for one, other in own if other.name.startswith(begins)]
    lines = dict.fromkeys((*edit.lines, *(line for _, other in own for line in other.lines)))
    return replace(offer, edit=replace(edit, lines=tuple(lines)), may_lose=may_lose((offer, *(one for one, _ in own))))


def without_offer(offers: tuple[Offer, ...], other: Offer, texts: Texts) -> tuple[Offer, ...]:
    """Return some offers without another one; what divides the computing part of a function in two divides all of it.

    That part is the function itself without the change that makes it two, and what is Python by that stays so.

    Args:
        offers: what is made.
        other: one of them.
        texts: the files with all of them made.
    """
    rest = tuple(one for one in offers if one is not other)
    if not isinstance(other.edit, Split):
        return rest
    stays = _lines_in_python(other.edit, texts)
    if other.target.at is not None:  # which may be written otherwise there
        stays = [*stays, other.target.at.code.strip()]
    return tuple(_of_whole(one, other.edit, stays) for one in rest)


def _lines_in_python(split: Split, texts: Texts) -> Sequence[str]:
    """Return the lines of a function in two that stay Python, without the call of its part and what it returns."""
    text = texts.get(split.file, "")
    function = function_in(text, split.name)
    if function is None:
        return ()
    lines = text.split("\n")[function.body[0].lineno - 1 : function.end_lineno]
    stripped = filter(None, map(str.strip, lines))
    return [line for line in stripped if INNER not in line and not line.startswith("return")]


def _of_whole(offer: Offer, split: Split, stays: Sequence[str]) -> Offer:
    edit, part = offer.edit, f"{split.name}{INNER}"
    if not (isinstance(edit, Apart) and edit.name == part and edit.file == split.file):
        return offer
    lines = tuple(dict.fromkeys((*edit.lines, *stays)))
    lost = offer.may_lose | {(edit.file, line) for line in stays}
    price = offer.price.replace(f"`{part}`", f"`{split.name}`")
    return replace(offer, edit=replace(edit, name=split.name, lines=lines), price=price, may_lose=lost)


def loses(offer: Offer) -> bool:
    """Whether lines that are written otherwise have a program say less, or keep tensors where there were numbers."""
    is_plain = isinstance(offer.edit, Lines) and not offer.is_last_resort
    return is_plain and (offer.may_say_less or offer.drops or ".detach()" in offer.code)


def kept_as_written(offers: Sequence[Offer], rewrites: Collection[Offer]) -> tuple[Offer, ...]:
    """Return offers without some rewrites, with the lines of these left to Python by functions in parts.

    Nothing where the function of one is not in parts.
    """
    rest = [one for one in offers if one not in rewrites]
    for rewrite in rewrites:
        with_line = [_with_line_of(rewrite, one) for one in rest]
        if with_line == rest:
            return ()
        rest = with_line
    return tuple(rest)


def _with_line_of(rewrite: Offer, offer: Offer) -> Offer:
    found, edit = without(rewrite.target.at, offer), rewrite.edit
    if found is offer or not isinstance(edit, Lines):
        return found
    return replace(found, may_lose=found.may_lose | {(edit.file, line) for line in _stripped(edit.after)})


def fewer(offer: Offer) -> Iterator[Offer]:
    """Yield a change that compiles several functions by themselves without each of them."""
    edit = offer.edit
    if isinstance(edit, Inside) and len(edit.inner) > 1:
        for left_out in edit.inner:
            inner = tuple(one for one in edit.inner if one != left_out)
            less = replace(edit, inner=inner)
            yield replace(offer, edit=less, price=inside_price(less))


def one_for_each_target(states: Iterable[State]) -> tuple[Offer, ...]:
    """Return the last offer of each state; of several for one thing that of the best.

    One line that is left out is better than all messages of its kind, although that may end more breaks.
    """
    found: dict[tuple[str, str, str], Offer] = {}
    for state in sorted(states, key=lambda one: (one.offers[-1].silences, *ranked(one))):
        offer = state.offers[-1]
        found.setdefault(offer.target.key, offer)
    edits: Mapping[Edit, Offer] = {offer.edit: offer for offer in found.values()}
    return tuple(edits.values())
