"""The end of a training step: from the backward pass on, torch compiles nothing of it, or the optimizer by itself.

What stands before it computes the loss. Lines that come first, and set gradients to zero or count, stay Python, too.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from compiler_lens.facts.breaks.rewrites.syntax import called, is_number

_BACKWARD, _ZEROED = "backward", "zero_grad"
# What a training step calls beside: of optimizers, schedulers, gradient scalers, and of torch.nn.utils.
_EFFECTS = frozenset({_BACKWARD, _ZEROED, "clip_grad_norm_", "clip_grad_value_", "parameters", "scale", "step",
                      "unscale_", "update"})  # fmt: skip


def is_effect(node: ast.AST) -> bool:
    """Return whether a call belongs to the end of a training step."""
    return isinstance(node, ast.Call) and called(node) in _EFFECTS


def training_end(body: Sequence[ast.stmt]) -> int | None:
    """Return with which statement of a function the end of a training step begins; None where it has no such end."""
    backward = [number for number, one in enumerate(body) if _calls(one, {_BACKWARD})]
    if not backward:
        return None
    begin = backward[0]
    while begin and _calls(body[begin - 1], {_ZEROED}):
        begin -= 1
    return begin


def training_head(body: Sequence[ast.stmt]) -> int:
    """Return how many of the first statements of a function set gradients to zero, or count."""
    return next((number for number, one in enumerate(body) if not (_calls(one, {_ZEROED}) or _counts(one))), len(body))


def _calls(statement: ast.stmt, names: Collection[str]) -> bool:
    """Return whether all that a statement does is to call a method by one of some names."""
    return (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and called(statement.value) in names
    )


def _counts(statement: ast.stmt) -> bool:
    match statement:
        case ast.AugAssign(target=ast.Attribute(), value=value):
            return is_number(value)
    return False
