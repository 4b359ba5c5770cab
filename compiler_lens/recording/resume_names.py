"""The names that Dynamo gives to resume functions: the rest of a function, compiled after a graph break.

torch/_dynamo/resume_execution.py calls them torch_dynamo_resume_in_FUNCTION_at_LINE (2.11 to 2.15).
"""

from __future__ import annotations

import re

from msgspec import Struct

_PREFIX = "torch_dynamo_resume_in_"
_NAME = re.compile(r"(.+)_at_(\d{1,9})$")
# An artifact with a function's bytecode: torch_dynamo_resume_in_forward_at_23_ORIGINAL_BYTECODE.
_BYTECODE = "_ORIGINAL_BYTECODE"


class Resumed(Struct, frozen=True):
    """What the name of a resume function says."""

    function: str  # that it is the rest of; may be a resume function itself
    line: int  # of the break that it resumes after


def resumed(name: str) -> Resumed | None:
    """Return what a resume function's name says; None for the name of any other function."""
    found = _NAME.match(name.partition(_PREFIX)[2]) if _PREFIX in name else None
    return Resumed(found[1], int(found[2])) if found else None


def resume_name(function: str, line: int) -> str:
    """Return the name of the function that resumes *function* after the graph break at *line*."""
    return f"{_PREFIX}{function}_at_{line}"


def plain_function(name: str) -> str:
    """Return the name of the function itself, without what torch adds for a resume function; of several, one level."""
    found = resumed(name)
    return found.function if found else name


def bytecode_of(artifact: str) -> str:
    """Return the name of the resume function whose bytecode an artifact holds; empty for any other artifact."""
    name = artifact.removesuffix(_BYTECODE)
    return name if name != artifact and name.startswith(_PREFIX) else ""


def is_bytecode(artifact: str) -> bool:
    """Return whether an artifact holds the bytecode of a function that Dynamo compiled."""
    return artifact.endswith(_BYTECODE)
