"""What a branch is there for, as far as its own lines tell: to end something, to save work, or to compute."""

from __future__ import annotations

import ast
from enum import Enum

from compiler_lens.facts.breaks.rewrites.site import site_at
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources


class Arm(Enum):
    """What happens where the test of an `if` is true."""

    RAISES = "raises"  # an error, and nothing else
    ENDS = "ends"  # a `return`, a `break`
    SAVES_WORK = "saves work"  # on to the next round of a loop, since there is nothing to compute with
    OTHER = "other"


def arm_at(sources: Sources, at: SourceLine) -> Arm | None:
    """Of the `if` at a line; None where there is none, or its text is not known."""
    try:
        site = site_at(sources, at)
    except RecursionError:  # an expression nested deeper than Python's stack
        return None
    node = site.statement if site else None
    if not isinstance(node, ast.If):
        return None
    if isinstance(node.body[0], ast.Raise) and not node.orelse:
        return Arm.RAISES
    if isinstance(node.body[-1], (ast.Raise, ast.Return, ast.Break)):
        return Arm.ENDS
    is_next = isinstance(node.body[0], ast.Continue) and not node.orelse
    return Arm.SAVES_WORK if is_next and _asks_for_nothing(node.test) else Arm.OTHER


def _asks_for_nothing(test: ast.expr) -> bool:
    """`mask.sum() == 0`, `not mask.any()`."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.comparators[0], ast.Constant):
        return False
    number, sign = test.comparators[0].value, test.ops[0]
    return (number == 0 and isinstance(sign, (ast.Eq, ast.LtE))) or (number == 1 and isinstance(sign, ast.Lt))
