"""What changes leave to Python, and what that costs: functions, calls of them that cut graphs, launches of graphs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.edits import Apart, Edit, EndApart, Lines, Split
from compiler_lens.facts.measured.fix import Observed, Offer
from compiler_lens.facts.measured.marked_inside import Inside

_DEFINED = re.compile(r"\bdef (\w{1,200})\(")
Place = tuple[str, str | int]  # a file, and a function of it by its name, or by its line where it has a mark

# Operators of a graph that make up for one more launch of it and for the function in parts that it takes. About 14 take
# as long eagerly as a launch with its guards (torch 2.13, Inductor on a CPU); up to 32, one mark that is plain to read
# is preferred to functions in parts that may run such graphs in half the time.
A_LAUNCH = 32
NEARLY_ALL, _HALF = 0.9, 0.5  # of the operators that ran in graphs
_THIRD = 3
_LEAST = 4  # of so many lines at least one is compiled: they are the ones that compute most, as a rule


def left_to_python(offers: Iterable[Offer]) -> AbstractSet[Place]:
    """Return the functions that are Python with some offers, each once, however often it was divided."""
    return frozenset(place for offer in offers for place in _of(offer.edit))


def kept_from_graphs(offers: Iterable[Offer]) -> AbstractSet[Place]:
    """Return those of which more stays Python than what keeps books."""
    return left_to_python(one for one in offers if not isinstance(one.edit, Split))


def is_mark(edit: Edit) -> bool:
    """Return whether it is `torch.compiler.disable` on a function."""
    return isinstance(edit, Lines) and ".compiler.disable" in edit.title and edit.title.startswith("@")


def compiles_inside(offers: Iterable[Offer]) -> bool:
    """Return whether some offers compile by itself what a function calls, which was chosen by what it computes."""
    return any(isinstance(one.edit, Inside) for one in offers)


def function_of(edit: Edit) -> str:
    """Return the name of the function that an edit keeps in Python; empty where it keeps none, or does not show it."""
    if isinstance(edit, Split | EndApart | Apart | Inside):
        return edit.name
    found = _DEFINED.search("\n".join(edit.before)) if isinstance(edit, Lines) and is_mark(edit) else None
    return found[1] if found else ""


def _of(edit: Edit) -> Iterator[Place]:
    if isinstance(edit, (Split, EndApart, Apart, Inside)):
        yield edit.file, edit.name.partition(INNER)[0]
    if isinstance(edit, EndApart) and edit.marked:
        yield edit.marked.file, edit.marked.near
    if isinstance(edit, Lines) and is_mark(edit):
        yield edit.file, edit.near


def price(offers: Iterable[Offer], seen: Observed) -> tuple[int, ...]:
    """Return what hurts of a program with some offers, the worst first: its figures, and what stays Python in them.

    A break at the call of what a mark keeps out is no break that is left to mend. All such calls of a function count
    like one recompile, and so does each function that is Python.
    """
    figures, counts, made = seen.figures, seen.counts, list(offers)
    if figures is None or counts is None:
        return seen.whole_cost
    breaks = counts.breaks - counts.benign_breaks
    unmeant = min(breaks, max(counts.breaks - len(seen.kept_out), 0))
    # What torch.compile is given no more breaks no graph, once that is written.
    not_given = {one.edit.name for one in made if isinstance(one.edit, Inside) and not one.edit.is_kept}
    kept_out = [name for name in seen.kept_out if name not in not_given]
    aside = counts.recompiles - counts.benign_recompiles + len(kept_from_graphs(made)) + len(frozenset(kept_out))
    eager = (0, seen.eager_sooner_or_later, counts.eager_frames)
    return *eager, unmeant, aside, min(breaks - unmeant, len(kept_out)), counts.benign_recompiles


def runs_less(made: Sequence[Offer], now: Observed, before: Observed) -> bool:
    """Return whether clearly less runs in graphs, beyond what is spared as graphs that do little are not launched.

    Of what is compiled by itself it says nothing how many lines that are, and half of the operators are enough, or a
    third, where many graphs that do little are not launched: with less the program is not compiled any more.
    """
    is_chosen = compiles_inside(made)
    if is_chosen and now.launches < now.calls:  # what it compiles is not even run in each call
        return True
    if is_chosen and _THIRD * now.operators < before.operators:
        return True
    if now.operators > (_HALF if is_chosen else NEARLY_ALL) * before.operators:
        return False
    lost, spared = before.operators - now.operators, _launched_again(before) - _launched_again(now)
    # What stands between parts is a loop as a rule, of which a graph of each round may be large.
    is_apart = any(isinstance(one.edit, Apart) for one in made) and now.operators < _HALF * before.operators
    is_most = is_apart or (not is_chosen and is_most_lost(now, before))
    return not now.operators or lost > A_LAUNCH * spared or is_most


def _launched_again(seen: Observed) -> int:
    """Return how many graphs are launched beside one for each call of what torch.compile was given."""
    return max(seen.launches - seen.calls, 0)


def is_most_lost(now: Observed, before: Observed) -> bool:
    """Return whether of the lines of which something was in a graph most are in none."""
    return _LEAST * len(before.computed & now.computed) < len(before.computed)
