"""A program that goes wrong in the shape of a real issue, and what is true of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from msgspec import Struct, toml

PROGRAMS = Path(__file__).with_name("programs")
ROOT = "# root"  # marks the line that is to blame


class Fix(Struct, frozen=True, forbid_unknown_fields=True):
    """Lines of the program, and the right ones in their place."""

    old: str
    new: str


class Truth(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What stands in the TOML file beside a program."""

    kind: str  # "break", "recompile", "eager": nothing compiled, or eager in silence; "fine": there is nothing to do
    cause: str  # a regular expression: what a right explanation says
    change: str  # a regular expression: what right advice says where it is no rewrite that can be applied
    never: str = ""  # a regular expression: what no advice may say
    breaks: int = 0  # by design, and left by the fix
    recompiles: int = 0  # that are meant, and left by the fix: a size that varies, one for each mode
    fix: tuple[Fix, ...]


class Case(Struct, frozen=True):
    """A program with its truth."""

    name: str
    source: str
    truth: Truth

    @property
    def issue(self) -> str:
        """Return the issue whose shape it has, as owner/repo#number."""
        found = re.search(r"[\w.-]+/[\w.-]+#\d+", ast.get_docstring(ast.parse(self.source)) or "")
        if found is None:
            raise ValueError(f"{self.name}.py: its docstring names no issue")
        return found[0]

    @property
    def root(self) -> int:
        """Return the number of the line that is to blame."""
        marked = [number for number, line in enumerate(self.source.splitlines(), 1) if line.rstrip().endswith(ROOT)]
        if len(marked) != 1:
            raise ValueError(f"{self.name}.py: {len(marked)} lines end in {ROOT!r}, not 1")
        return marked[0]

    @property
    def fixed(self) -> str:
        """Return the program as it should be."""
        source = self.source
        for fix in self.truth.fix:
            if source.count(fix.old) != 1:
                raise ValueError(f"{self.name}.toml: stands {source.count(fix.old)} times in the program: {fix.old!r}")
            source = source.replace(fix.old, fix.new)
        return source


def every_case() -> list[Case]:
    """Return all of them, by name."""
    return [case(path.stem) for path in sorted(PROGRAMS.glob("*.py"))]


def case(name: str) -> Case:
    """Return one; raise OSError where there is none."""
    truth = toml.decode((PROGRAMS / f"{name}.toml").read_bytes(), type=Truth)
    return Case(name, (PROGRAMS / f"{name}.py").read_text(), truth)
