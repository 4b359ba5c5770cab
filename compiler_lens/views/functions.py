"""How a function is named beside its place."""

from __future__ import annotations

from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.views.parts import At, Parts, Tone, quiet, strong


def named(function: FunctionName) -> Parts:
    """Return a function's name and the place of its definition, where that is known."""
    if not function.file:
        return (strong(function.name),)
    return strong(function.name), quiet("  "), At(function, Tone.QUIET)
