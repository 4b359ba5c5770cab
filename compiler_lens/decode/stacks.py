"""Where in the user's program: torch's structured stacks, Python's printed ones, and the comments after guards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from sys import intern
from typing import Any

from msgspec import Struct

from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.shape import Count, shaped

UNKNOWN_FILE = "<unknown>"  # stands for one whose name was interned before anybody listened

# augment_exc_message() in torch/_dynamo/exc.py puts a third blank before the first frame; the function is missing
# where torch prints only a place.
_FRAME = re.compile(r"^ {2,3}File \"(?P<file>.*)\", line (?P<line>\d{1,9})(?:, in (?P<function>.*))?$")
_REPEATED = re.compile(r"^ {2}\[Previous line repeated (\d{1,18}) more times?\]$")
_DEEPEST = 1000  # frames, as for Python itself, and one for each character: a stranger's line may name any number
_MARKS = re.compile(r"^[\s~^]+$")

# What a guard's text is scanned for: strings, and the comment that torch puts after it.
# A quote after a backslash begins no string: of many such after an odd one, each would be looked for to the end.
STRING = r"'(?<!\\')[^'\\]*(?:\\.[^'\\]*)*'|\"(?<!\\\")[^\"\\]*(?:\\.[^\"\\]*)*\""
_STRING_OR_COMMENT = re.compile(rf"{STRING}|(?<! ) {{2,}}# ", re.DOTALL)
# get_verbose_code_parts() in torch/_dynamo/guards.py.
_HINT = " (HINT: "
# format_frame() in torch/utils/_traceback.py: "x = y + 1  # app/train.py:12 in step". torch shortens the file's name.
_PLACE = re.compile(
    r"(?:(?P<code>.*?)  # )?(?P<file>[^\s#:(][^\n#:(]*):(?P<line>\d{1,9}) in (?P<function>[\w.<>]+)(?P<rest>.*)",
    re.DOTALL,
)


class _Stack(Struct, frozen=True):
    stack: tuple[_Frame, ...]


class _Frame(Struct, frozen=True):
    filename: int | str | None = None
    line: Count | None = None
    name: str | None = None
    loc: str | None = None


def source_line(file: str, line: int, function: str, code: str) -> SourceLine:
    """Return a line whose texts are there once: a recording names few lines, and each of them often."""
    return SourceLine(intern(file), line, intern(function), intern(code))


def read_stack(stack: Any, files: Mapping[int, str]) -> tuple[SourceLine, ...]:
    """Read a structured stack, outermost first. `files` has the names that torch sent as numbers."""
    lines = []
    for frame in shaped(_Stack, {"stack": stack or ()}).stack:
        file = frame.filename
        name = file if isinstance(file, str) else files.get(-1 if file is None else file, UNKNOWN_FILE)
        lines.append(source_line(name, frame.line or 0, frame.name or "", (frame.loc or "").strip()))
    return tuple(lines)


def read_traceback(text: str) -> tuple[SourceLine, ...]:
    """Read a stack as Python 3.10 to 3.13 and torch print it, outermost first; code of several lines becomes one."""
    frames: list[tuple[re.Match[str], list[str]]] = []
    for line in text.splitlines():
        if found := _FRAME.match(line):
            frames.append((found, []))
        elif repeated := _REPEATED.match(line):
            frames += frames[-1:] * min(int(repeated[1]), min(_DEEPEST, len(text)) - len(frames))
        elif frames and line.startswith("    ") and not _MARKS.match(line):
            frames[-1][1].append(line.strip())
    lines: list[SourceLine] = []
    for (found, parts), before in zip(frames, [None, *frames], strict=False):
        if before is not None and found is before[0]:
            lines.append(lines[-1])
            continue
        code = ""
        for part in parts:
            is_inside = not code or code[-1] in "([{" or part[0] in ")]}"
            code += part if is_inside else f" {part}"
        lines.append(source_line(found["file"], int(found["line"]), found["function"] or "", code))
    return tuple(lines)


def split_comment(text: str) -> tuple[str, str]:
    """Return a guard's text without the comment that torch wrote after it, and that comment."""
    # A `#` in a string is not one; an odd apostrophe hides the comment from this search.
    found = next((f for f in _STRING_OR_COMMENT.finditer(text) if f[0].startswith(" ")), None)
    expression, comment = (text[: found.start()], text[found.end() :]) if found else text.partition("  # ")[::2]
    if _HINT in expression:  # after a guard that no line asked for
        expression, _, hint = text.partition(_HINT)
        comment = _HINT + hint
    return expression.strip(), comment.strip()


def read_comment(comment: str) -> tuple[SourceLine | None, str]:
    """Read the place that a guard's comment names, and what else it says."""
    found = _PLACE.match(comment)
    if found is None:
        return None, comment
    line = source_line(found["file"], int(found["line"]), found["function"], (found["code"] or "").strip())
    return line, found["rest"].strip()
