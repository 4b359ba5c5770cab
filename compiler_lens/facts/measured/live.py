"""Which names statements read of what was there before them, branch by branch and round by round."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from compiler_lens.facts.measured.bookkeeping import loaded, stored, surely_stored


def needed(statements: Iterable[ast.stmt], after: AbstractSet[str] = frozenset()) -> AbstractSet[str]:
    """Return the names that statements read before they surely have another value, and so what is read after them.

    Args:
        statements: in their order.
        after: the names that are read after the last of them.
    """
    found: set[str] = set()
    known: frozenset[str] = frozenset()
    for one in statements:
        found |= _needed_by(one) - known
        known |= surely_stored([one])
    return found | (after - known)


def _needed_by(one: ast.stmt) -> AbstractSet[str]:
    match one:
        case ast.For():
            inner = needed(one.body) - stored([one.target])
            return loaded([one.iter, one.target]) | inner | needed(one.orelse)
        case ast.While() | ast.If():
            return loaded([one.test]) | needed(one.body) | needed(one.orelse)
        case ast.With():
            begins = [*(item.context_expr for item in one.items), *filter(None, (i.optional_vars for i in one.items))]
            return loaded(begins) | (needed(one.body) - stored(begins))
    return loaded([one])
