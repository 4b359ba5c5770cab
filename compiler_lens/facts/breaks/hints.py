"""torch's own hints on a break: those that say something of this event, and what comes of them here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Remedy, Setting, Shown
from compiler_lens.recording.model import BreakCause

# torch/_dynamo/graph_break_hints.py, the same eight texts in 2.11, 2.13 and 2.15, and what asks for an issue: true of
# any break, so no advice.
_GENERIC = (
    "Your code may result in an error when running in eager.",
    "This is likely to be a Dynamo bug.",
    "This graph break may be difficult to debug.",
    "This graph break is fundamental",
    "It may be possible to write Dynamo tracing rules for this code.",
    "This graph break may have been caused by an earlier graph break.",
    "Please report an issue",
    "Please file an issue",
    "Please open an issue",
    "Report an issue",
    "If it is a Python builtin, please file an issue",
)
# What is of C and no extension: modules that Python brings, methods of tensors and of Python's random numbers.
_PYTHONS_OWN = (
    r"_?(?:time|random|operator|warnings|math|datetime|json|os|posix|io|thread|socket|struct|itertools|functools)\b"
    r"|<unknown module>, qualname: (?:Tensor|Random)\."
)
_BRANCHLESS = "For the common pattern `if tensor_cond"  # it would have each call change what an object keeps
# Hints that torch gives with each break of a type, and what the line or torch's context shows where they are about it.
_ABOUT = (
    ("Use `torch.cond`", re.compile(r"\b(if|elif)\b")),
    (_BRANCHLESS, re.compile(r"^\s*(if|elif)\b")),
    ("Note: Python `or`/`and`", re.compile(r"\b(and|or)\b")),
    ("If you are attempting to call a logging function", re.compile(r"print|warn|log")),
    ("If it is a third-party C/C++ Python extension", re.compile(rf"module: (?!{_PYTHONS_OWN})")),
)
_OF_CONTEXT = ("If you are", "If it is")  # not of the line
_TO_REMOVE = ("Remove the ", "Avoid calling ")
_USES = re.compile(r"Use (`torch\.cond`) to express dynamic control flow\.$")
_SAYS_NOTHING = " Consider using an equivalent alternative function/method"
_BRANCHED = "By itself it is not enough here: the branch on it breaks the graph next."


class Hint(Struct, frozen=True):
    """What torch says to do about this break."""

    text: str  # torch's; of a setting that is offered, the line to write
    check: str = ""  # what comes of it here, as far as that is known
    is_setting: bool = False  # the one that is offered for this line


def specific_hints(cause: BreakCause) -> tuple[str, ...]:
    """Return the hints that say something about this code, without those that torch gives for any break."""
    return tuple(hint for hint in cause.hints if not hint.strip().startswith(_GENERIC))


def hints_for(cause: BreakCause, code: str, remedy: Remedy | None, setting: Setting | None) -> tuple[Hint, ...]:
    """Return what torch says of this event, without what is about other lines than this one.

    Args:
        cause: what torch says about the break.
        code: the line that broke; empty where it is not known.
        remedy: our advice.
        setting: the one that is offered for this line: where torch names the same, it is said once.

    """
    return tuple(dict.fromkeys(_hints(cause, code, remedy, setting)))


def _hints(cause: BreakCause, code: str, remedy: Remedy | None, setting: Setting | None) -> Iterator[Hint]:
    for text in specific_hints(cause):
        if setting and setting.name.rpartition(".")[2] in text:
            yield Hint(setting.code, is_setting=True)
        elif _is_about(text, cause, code) and not _is_said(text, remedy):
            is_wrong = remedy and not setting and "config.capture_scalar_outputs" in text
            check = (remedy.hinted or _BRANCHED) if remedy and is_wrong else ""
            yield Hint(text.strip().partition(_SAYS_NOTHING)[0], check)


def _is_said(hint: str, remedy: Remedy | None) -> bool:
    """Whether ours says all that torch does: to remove it, to use the same function instead, or how not to."""
    if remedy is None:
        return False
    if hint.strip().startswith(_BRANCHLESS):
        return remedy.shown in {Shown.INITIALISES, Shown.CHANGES}
    if hint.startswith(_TO_REMOVE):
        return remedy.change.startswith("Remove ")
    used = _USES.match(hint)
    return used is not None and used[1] in remedy.change


def _is_about(hint: str, cause: BreakCause, code: str) -> bool:
    about = next((pattern for start, pattern in _ABOUT if hint.strip().startswith(start)), None)
    where = cause.context if hint.strip().startswith(_OF_CONTEXT) else code
    is_part = any(where.count(left) != where.count(right) for left, right in ("()", "[]"))  # it goes on below
    return about is None or not where or is_part or about.search(where) is not None
