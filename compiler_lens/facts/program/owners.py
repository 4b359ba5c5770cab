"""Whose a break, a skip or a recompile is: the user's, a library's, a wrapper's by design; what to do from there."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from msgspec import Struct

from compiler_lens.facts.data_file import read_data
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.own_files import is_machinery, package_of, slashed
from compiler_lens.recording.resume_names import plain_function

_FILE = Path(__file__).with_name("owners.toml")
_LONGEST = 10_000  # characters of a context that are looked at


class Whose(Enum):
    """Whom something belongs to that keeps code from being compiled, or has it compiled again."""

    YOURS = "yours"
    LIBRARY = "library"
    BY_DESIGN = "by_design"  # a library's, which means it so


class Owner(Struct, frozen=True):
    """Whose it is, and what can be done about it from code of the user's own."""

    whose: Whose = Whose.YOURS
    label: str = ""  # of a library or wrapper, as a reader knows it
    means: str = ""  # what happens there; empty where we know only whose it is
    change: str = ""  # what to do in one's own code
    harmless: bool = False  # what it wraps is compiled all the same
    line: SourceLine | None = None  # of the user's own, which leads there

    @property
    def is_yours(self) -> bool:
        """Whether the user's own code does it."""
        return self.whose is Whose.YOURS


class Wrapper(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the table says of one library, or of a part of it."""

    label: str
    files: tuple[str, ...]
    functions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()  # what its own exceptions say: torch forgets the line that raised one
    by_design: bool = False
    harmless: bool = False
    covers: bool = False  # what these files call is theirs, too
    means: str
    change: str

    def fit(self, at: SourceLine) -> int:
        """Return how much of a path it knows: 0 if it is not about this line."""
        if self.functions and plain_function(at.function) not in self.functions:
            return 0
        path = "/" + slashed(at.file)
        return max((len(file) for file in self.files if f"/{file}" in path), default=0)


@functools.cache
def _general() -> str:
    text: str = read_data(_FILE)["general"]
    return text


@functools.cache
def wrappers() -> tuple[Wrapper, ...]:
    """Return the table. Raise TypeError or KeyError for a field that the file has wrong."""
    return tuple(
        Wrapper(
            **entry | {name: tuple(entry.get(name, ())) for name in ("files", "functions", "errors")},
        )
        for entry in read_data(_FILE)["owners"].values()
    )


# The file or folder of what Dynamo would not call, in its context: "file matches MOD_SKIPLIST (/…/x.py)",
# "filename: `/…/x.py`", "file is under skip directory (/…/tqdm/)".
_CALLED_FILE = re.compile(r"[(`](/[^()`\n]+(?:\.py|/))[)`]")
_CALLED_MODULE = re.compile(r"^module: ([\w.]+)")
_CALLED_NAME = re.compile(r"qualname: ([\w.<>]+)")


def owner_of(stack: Iterable[SourceLine], own: Ownership, cause: BreakCause | None = None) -> Owner:
    """Return whose the innermost line of a stack is.

    Args:
        stack: outermost first.
        own: what counts as the user's.
        cause: of a break, which names what the last line calls.

    """
    lines = tuple(stack)
    last = max((n for n, at in enumerate(lines) if own.owns(at.file)), default=-1)
    line, inside, called = (lines[last] if last >= 0 else None), lines[last + 1 :], _called(cause)
    if called and own.owns(called[-1].file):
        return Owner(line=line)
    covering = tuple(at for at in inside if any(wrapper.covers and wrapper.fit(at) for wrapper in wrappers()))
    is_deeper = False  # in code of a library that a wrapper called, and that it does not answer for
    for at in covering or (*called, *reversed(inside)):
        longest, wrapper = max(((wrapper.fit(at), wrapper) for wrapper in wrappers()), key=lambda fit: fit[0])
        if not longest or (is_deeper and wrapper.by_design):
            is_deeper = is_deeper or (not is_machinery(at.file) and package_of(at.file) != "")
        else:
            whose = Whose.BY_DESIGN if wrapper.by_design else Whose.LIBRARY
            return Owner(whose, wrapper.label, wrapper.means, wrapper.change, wrapper.harmless, line)
    # What a line of the user's calls directly is theirs to call or not: what a library's line calls is not.
    packages = (package_of(at.file) for at in reversed(inside) if not is_machinery(at.file))
    package = next(filter(None, packages), "")
    return library(package, line) if package else Owner(line=line)


def owner_by_error(cause: BreakCause, line: SourceLine | None) -> Owner | None:
    """Return whose exception a failure is that came through a line of the user's, by its message."""
    said = f"{cause.context[:_LONGEST]} {cause.explanation[:_LONGEST]}"
    for one in wrappers():
        if any(error in said for error in one.errors):
            whose = Whose.BY_DESIGN if one.by_design else Whose.LIBRARY
            return Owner(whose, one.label, one.means, one.change, one.harmless, line)
    return None


def library(name: str, line: SourceLine | None) -> Owner:
    """Return the owner of a line in a package that the table says nothing of."""
    return Owner(Whose.LIBRARY, name, change=_general().format(package=name), line=line)


def _called(cause: BreakCause | None) -> tuple[SourceLine, ...]:
    """What the innermost line calls, where torch names its file; by its module first, as one may wrap another's."""
    context = cause.context[:_LONGEST] if cause else ""
    if (file := _CALLED_FILE.search(context)) is None:
        return ()
    name, module = _CALLED_NAME.search(context), _CALLED_MODULE.search(context)
    function = name[1].rpartition(".")[2] if name else ""
    path = f"{file[1]}__init__.py" if file[1].endswith("/") else file[1]
    known = (f"{module[1].replace('.', '/')}.py",) if module else ()
    return tuple(SourceLine(one, 0, function) for one in (*known, path))
