"""What a branch is there for, as far as its own lines show: to end something, to save work, or to compute."""

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
    """Return what the `if` at a line is there for; None where there is none, or its text is not known."""
    try:
        site = site_at(sources, at)
    except RecursionError:  # an expression nested deeper than Python's stack
        return None
    match site.statement if site else None:
        case ast.If(body=[ast.Raise(), *_], orelse=[]):
            return Arm.RAISES
        case ast.If(body=[*_, ast.Raise() | ast.Return() | ast.Break()]):
            return Arm.ENDS
        case ast.If(test=test, body=[ast.Continue(), *_], orelse=[]) if _asks_for_nothing(test):
            return Arm.SAVES_WORK
        case ast.If():
            return Arm.OTHER
    return None


def _asks_for_nothing(test: ast.expr) -> bool:
    """Whether a test is like `mask.sum() == 0`, `mask.sum() < 1` or `not mask.any()`."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=0)]):
            return True
        case ast.Compare(ops=[ast.Lt()], comparators=[ast.Constant(value=1)]):
            return True
    return False
