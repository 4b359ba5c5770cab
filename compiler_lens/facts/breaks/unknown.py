"""Where numbers that torch does not know were taken from tensors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.recording.model import BreakCause, CompileId, SourceLine, Symbol

# `u0` is an int, `zuf0` a float (torch/fx/experimental/symbolic_shapes.py); the type of the error has its expression.
_SYMBOL = re.compile(r"\b(?:zuf|u)\d{1,6}\b")
_ASKED = "data-dependent expression "
_LONGEST = 2_000  # characters of the type


def taken_at(cause: BreakCause, ids: Iterable[CompileId], symbols: Iterable[Symbol]) -> tuple[SourceLine, ...]:
    """Return the user's lines that took the numbers of an error from tensors, each once; none if it names none."""
    asked = cause.gb_type[:_LONGEST].partition(_ASKED)[2]
    names = set(_SYMBOL.findall(asked))
    if not names:
        return ()
    wanted = set(ids)
    made = (innermost_own(one.user_stack) for one in symbols if one.compile_id in wanted and one.name in names)
    return tuple(dict.fromkeys(at for at in made if at))
