"""Where the user's code writes a value that recompiles are about."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Definition, Sources

WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"\b(\w+)\(")
_INSIDE = re.compile(r"(?:len\(|the keys of |[^ ]+ in )(?P<holder>[\w.\[\]'\"]+)|(?P<item>[\w.]+)\[[^\[\]]*\]\Z")
_CHANGING = "append|extend|insert|pop|popleft|appendleft|remove|clear|add|discard|update|setdefault|popitem"


def writing_line(texts: Sources, at: SourceLine, subject: str, entered: Iterable[Definition] = ()) -> SourceLine | None:
    """Return the line that computes a value anew from itself, or puts something into what holds it; None if none does.

    Args:
        texts: the texts of files.
        at: a line that reads the value: it is looked at first, then its function, its class, and what else was entered.
        subject: the value: `self.step`, `len(self.cache)`.
        entered: functions of the same file that the compiled code may call.

    """
    written = _written(subject)
    if not written:
        return None
    if written.search(at.code):
        return at
    here = texts.function_at(at.file, at.line)
    owner = here.name.rpartition(".")[0] if here else ""
    inside = sorted(entered, key=lambda d: (not owner or d.name.rpartition(".")[0] != owner, d.line))
    for function in [here, *inside] if here else []:
        numbers = range(function.line, function.last + 1)
        if found := next((n for n in numbers if written.search(texts.line(at.file, n))), None):
            return replace(
                at, line=found, code=texts.line(at.file, found).strip(), function=function.name.rpartition(".")[2]
            )
    return None


def entered_from(texts: Sources, file: str, line: int) -> tuple[Definition, ...]:
    """Return the functions of a file that one of them may call, itself first: by their names, so some too many.

    A module is called by no name of its own: each `forward` counts as called, `__init__` never.
    """
    start = texts.function_at(file, line)
    named: dict[str, list[Definition]] = {}
    for one in texts.definitions(file):
        named.setdefault(one.name.rpartition(".")[2], []).append(one)
    found = {start: None} if start else {}
    waiting = list(found)
    while waiting:
        function = waiting.pop()
        body = "\n".join(texts.line(file, n) for n in range(function.line, function.last + 1))
        for name in {"forward", *_CALL.findall(body)} & named.keys() - {"__init__"}:
            waiting += named[name]
            found |= dict.fromkeys(named.pop(name))
    return tuple(found)


def _written(subject: str) -> re.Pattern[str] | None:
    """`self.calls += 1`, `self.calls = self.calls + 1`; of a list or dict `self.seen.append(x)`, `self.seen[i] = x`."""
    held = _INSIDE.match(subject)
    *path, last = WORD.findall((held["holder"] or held["item"]) if held else subject.removeprefix("global ")) or [""]
    if not last:
        return None
    name = (r"[.'\"]" if path else r"(?<![\w.])") + rf"{re.escape(last)}\b"
    if held:
        return re.compile(rf"{name}(?:\.(?:{_CHANGING})\(|\[[^\]=]{{0,80}}\]\s*\+?=(?!=)|\s*\+=)")
    anew = rf"{name}['\"\]]*\s*(?:(?:[-+*/%|&^@]|<<|>>)+=|(?:,[^=]{{0,80}})?=(?!=).*{name})"
    return re.compile(rf"{anew}|\bsetattr\(.{{0,80}}{name}.{{0,80}}{name}")
