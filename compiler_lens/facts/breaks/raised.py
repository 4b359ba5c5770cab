"""What an operator raised where the compiler asked it what it returns, in its own words."""

from __future__ import annotations

import ast

from compiler_lens.recording.model import BreakCause

_ASKED = " when making fake tensor call"  # how types of such breaks end: `TypeError when making fake tensor call`
_GOT = "): got "  # before the error, after the call with all its arguments


def raised(cause: BreakCause) -> str:
    """Return an operator's error with its message, whole; empty for any other cause of a break."""
    kind, is_asked, _ = cause.gb_type.partition(_ASKED)
    if not is_asked:
        return ""
    if got := cause.explanation.rpartition(_GOT)[2].strip():
        return _in_words(got)
    # `TypeError <built-in function matmul>: matmul(): argument …`
    return f"{kind}: {message}" if (message := cause.context.partition(": ")[2].strip()) else ""


def _in_words(error: str) -> str:
    """Return `ValueError: no` of `ValueError('no')`."""
    try:
        match ast.parse(error, mode="eval").body:
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(message))]):
                return f"{name}: {message.strip()}"
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a repr of its own
        pass
    return error
