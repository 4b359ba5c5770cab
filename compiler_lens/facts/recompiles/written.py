"""Where the user's code writes a value that recompiles are about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Definition, Sources

WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"\b(\w+)\(")
_INSIDE = re.compile(r"(?:len\(|the keys of |[^ ]+ in )(?P<holder>[\w.\[\]'\"]+)|(?P<item>[\w.]+)\[[^\[\]]*\]\Z")
_CHANGING = "append|extend|insert|pop|popleft|appendleft|remove|clear|add|discard|update|setdefault|popitem"


def writing_lines(
    texts: Sources,
    at: SourceLine,
    subject: str,
    entered: Iterable[Definition] = (),
    ran: Iterable[tuple[str, int]] = (),
) -> tuple[SourceLine, ...]:
    """Return the line that computes a value anew from itself, or puts something into what holds it; none if none does.

    Several, if it is not known that the compiled code runs any of them: those of other functions of the file, too.

    Args:
        texts: the texts of files.
        at: a line that reads the value: it is looked at first, then its function, its class, and what else was entered.
        subject: the value: `self.step`, `len(self.cache)`.
        entered: functions of the same file that the compiled code may call.
        ran: lines, by file and number, that the compiled code is known to run.

    """
    written = _written(subject)
    if not written:
        return ()
    if written.search(at.code):
        return (at,)
    here = texts.function_at(at.file, at.line)
    owner = here.name.rpartition(".")[0] if here else ""
    inside = sorted(entered, key=lambda d: (not owner or d.name.rpartition(".")[0] != owner, d.line))
    found: list[int] = []
    for function in [here, *inside] if here else []:
        numbers = range(function.line, function.last + 1)
        found += [n for n in numbers if n not in found and written.search(texts.line(at.file, n))]
    passed = [n for file, n in {(at.file, at.line), *ran} if file == at.file]
    known = next((n for n in found if _is_run(texts, at.file, n, passed)), None)
    if known is not None or not found:
        return () if known is None else (_line_at(texts, at, known),)
    return tuple(_line_at(texts, at, n) for n in sorted({*found, *_others(texts, at.file, subject, written)}))


def assigns(texts: Sources, file: str, subject: str, entered: Iterable[Definition]) -> bool:
    """Return whether some functions of a file give an attribute, or an entry, a value, of whatever it is computed."""
    *path, last = WORD.findall(subject)
    given = re.compile(rf"[.'\"]{re.escape(last)}['\"\]]*\s*(?:[-+*/%]|//|\*\*)?=(?!=)") if path else None
    lines = (texts.line(file, n) for one in entered for n in range(one.line, one.last + 1))
    return given is not None and any(given.search(text) for text in lines)


def _is_run(texts: Sources, file: str, number: int, passed: Iterable[int]) -> bool:
    """Whether a line runs whenever its function does, or stands in the same branches as one that ran."""
    arms = texts.arms(file, number)
    if not arms:
        return True
    return any(arms <= (texts.arms(file, n) or frozenset()) for n in passed)


def _others(texts: Sources, file: str, subject: str, written: re.Pattern[str]) -> Iterator[int]:
    """The lines of a file that give an attribute a value, in whichever function, but where the object is made."""
    *path, last = [""] if _INSIDE.match(subject) else WORD.findall(subject.removeprefix("global "))
    given = (
        re.compile(rf"\A\s*[\w.\[\]]{{1,200}}\.{re.escape(last)}\s*(?:[^\s\w=!<>]{{1,2}})?=(?!=)") if path else written
    )
    for number, text in enumerate(texts.lines(file), 1):
        if given.search(text) and not text.lstrip().startswith("#"):
            function = texts.function_at(file, number)
            if function is None or not function.name.endswith("__init__"):
                yield number


def _line_at(texts: Sources, at: SourceLine, number: int) -> SourceLine:
    function = texts.function_at(at.file, number)
    name = function.name.rpartition(".")[2] if function else "<module>"
    return replace(at, line=number, code=texts.line(at.file, number).strip(), function=name)


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
