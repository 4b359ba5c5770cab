"""What was raised while torch compiled: by an operator that was asked what it returns, or by torch; in their words."""

from __future__ import annotations

import ast

from compiler_lens.recording.model import BreakCause, Compilation
from compiler_lens.recording.source_text import expression

_ASKED = " when making fake tensor call"  # how types of such breaks end: `TypeError when making fake tensor call`
_GOT = "): got "  # before the error, after the call with all its arguments
# The same error raises and breaks a graph: what a number is that torch does not know. A break has it as a UserError.
_NOT_KNOWN, _IN_BREAKS = "GuardOnDataDependentSymNode: ", "UserError: "


def raised(cause: BreakCause) -> str:
    """Return an operator's error with its message, whole; empty for any other cause of a break."""
    kind, is_asked, _ = cause.gb_type.partition(_ASKED)
    if not is_asked:
        return ""
    if got := cause.explanation.rpartition(_GOT)[2].strip():
        return _in_words(got)
    # `TypeError <built-in function matmul>: matmul(): argument …`
    return f"{kind}: {message}" if (message := cause.context.partition(": ")[2].strip()) else ""


def failure_of(compilation: Compilation) -> BreakCause | None:
    """Return why a compilation failed, as if it were a graph break; None where torch gave no reason."""
    if compilation.failure or not compilation.reason:
        return compilation.failure
    reason = compilation.reason
    if reason.startswith(_NOT_KNOWN):
        reason = _IN_BREAKS + reason.removeprefix(_NOT_KNOWN)
    return BreakCause(reason.partition("\n")[0].strip(), explanation=reason)


def _in_words(error: str) -> str:
    """Return `ValueError: no` of `ValueError('no')`."""
    try:
        match expression(error):
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(message))]):
                return f"{name}: {message.strip()}"
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a repr of its own
        pass
    return error
