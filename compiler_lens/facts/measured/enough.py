"""Whether marks that compile less are worth it: what they keep out of graphs, and what they end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum

from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.edits import Apart, EndApart, Lines, Split
from compiler_lens.facts.measured.fix import Observed, Offer
from compiler_lens.facts.measured.in_python import compiles_inside, is_most_lost, left_to_python, runs_less

_LITTLE = 4  # operators in a graph: some 14 take as long eagerly as its launch does
_MARKED = re.compile(r"\bdef (\w{1,200})\(")
_RETURNS = re.compile(r"return [\w., ]{1,200}")


class NotWorth(Enum):
    """Why a mark that keeps a function out of graphs is not built upon."""

    TAKES_TOO_MUCH = "takes_too_much"  # lines that were in a graph are in none, beside those that it may keep out
    RUNS_LESS = "runs_less"  # fewer operators run in graphs, or none
    ENDS_TOO_LITTLE = "ends_too_little"  # more than half of what hurts is left, and not all in other functions
    MORE_OF_ELSE = "more_of_else"  # something else that hurts is more


def not_worth(added: Sequence[Offer], now: Observed, before: Observed) -> NotWorth | None:
    """Return why the marks among some offers are not built upon; None where they are, or there are none."""
    if takes_too_much(added, now, before):
        return NotWorth.TAKES_TOO_MUCH
    marks = [offer for offer in added if offer.keeps_computed]
    if left_to_python(added) and (runs_less(added, now, before) or _is_idle(now, before)):
        return NotWorth.RUNS_LESS
    if marks and not (now.is_half_of(before) or all(_is_whole(offer, now) for offer in marks)):
        return NotWorth.ENDS_TOO_LITTLE
    is_final = any(offer.is_final for offer in added)
    return NotWorth.MORE_OF_ELSE if is_final and not (now.spares(before) or now.ends_cuts_of(before)) else None


def _is_idle(now: Observed, before: Observed) -> bool:
    """Return whether what is compiled is so little that each launch takes longer than it spares."""
    return now.launches > before.launches and now.operators < _LITTLE * now.launches


def divides(offers: Iterable[Offer]) -> bool:
    """Return whether functions are Python with some offers, which call others that are compiled."""
    return any(isinstance(offer.edit, Apart | EndApart | Split) for offer in offers)


def only_says_so(added: Iterable[Offer], now: Observed, before: Observed) -> bool:
    """Return whether functions that ran eagerly are Python by a mark now, and no more runs in graphs."""
    is_fewer = now.figures and before.figures and now.figures.eager_functions < before.figures.eager_functions
    return bool(is_fewer) and divides(added) and now.operators <= before.operators


def _is_whole(offer: Offer, now: Observed) -> bool:
    """Return whether nothing is left in the function whose end a change leaves to Python: others may have more."""
    if not isinstance(offer.edit, EndApart):
        return False
    name = offer.edit.name.rpartition(".")[2]
    left = {one.frame for one in now.targets} | {one.function.name.rpartition(".")[2] for one in now.eager}
    return not left & {name, f"{name}{INNER}"}


def takes_too_much(added: Sequence[Offer], now: Observed, before: Observed) -> bool:
    """Return whether marks among some offers keep out of graphs what they may not.

    Functions in parts may lose the lines that stay Python, but not all but a few of what was compiled: that is no gain.
    """
    if compiles_inside(added):
        return False
    if any(isinstance(offer.edit, Apart) for offer in added) and is_most_lost(now, before):
        return True
    is_marked = any(offer.keeps_computed for offer in added)
    kept = now.computed | may_lose(added) | _rewritten(added)
    return is_marked and not all(_only_hands_over(code, added) for _, code in before.computed - kept)


def _only_hands_over(code: str, added: Iterable[Offer]) -> bool:
    """Return whether a line asks a tensor for a number and gives it to a function that is Python from then on.

    That number was in a graph. What else the line computes is in one still, or it would be kept out by another line.
    What comes of numbers at the end of a graph has the line that returns.
    """
    if _RETURNS.fullmatch(code):
        return True
    names = {name for offer in added if offer.keeps_computed for name in _MARKED.findall(offer.code)}
    return ".item()" in code and any(f"{name}(" in code for name in names)


def _rewritten(offers: Iterable[Offer]) -> frozenset[tuple[str, str]]:
    """Return the lines that others stand in place of."""
    edits = (offer.edit for offer in offers if isinstance(offer.edit, Lines))
    return frozenset((one.file, line.strip()) for one in edits for line in one.before if line not in one.after)


def may_lose(offers: Iterable[Offer]) -> frozenset[tuple[str, str]]:
    """Return the lines that some offers may take out of graphs."""
    return frozenset[tuple[str, str]]().union(*(offer.may_lose for offer in offers))
