"""Whose a file is: the user's own, or a package's, torch's, the standard library's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.own_files import is_own, slashed

UserPaths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Ownership(Struct, frozen=True):
    """What counts as the user's own code.

    `paths` are files, folders or packages that are the user's besides what is not installed: `transformers`,
    `/opt/lib/python3.11/site-packages/mymodel`, `vendor/models`.
    """

    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: UserPaths = ()) -> Ownership:
        """Make one of what a user gives: one path or several, as text or as `Path`; `.` is the working directory."""
        several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        texts = [os.fspath(path) for path in several]
        return cls(tuple(str(Path(text).absolute()) if text.startswith(".") else text for text in texts if text))

    def owns(self, file: str) -> bool:
        """Return whether a file is the user's own."""
        at = slashed(file)
        for path in map(slashed, self.paths if file and not is_own(file) else ()):
            if at == path or at.startswith(f"{path}/") or f"/{path.lstrip('./')}/" in at or at.endswith(f"/{path}"):
                return True
        return is_own(file)

    def innermost(self, stack: Iterable[SourceLine]) -> SourceLine | None:
        """Return the innermost own line of a stack (outermost first)."""
        own = [line for line in stack if self.owns(line.file)]
        return own[-1] if own else None


def innermost_own(stack: Iterable[SourceLine]) -> SourceLine | None:
    """Return the innermost line of a stack (outermost first) that the user wrote."""
    return Ownership().innermost(stack)
