"""Guards, from the tree in which torch prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from compiler_lens.decode.stacks import read_comment, split_comment
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, Guard, SourceLine

_HEAD = "TREE_GUARD_MANAGER:"
_FOOT = "\nGuard latency = "
# GuardManagerWrapper.__str__() in torch/_dynamo/guards.py: "| | +- TENSOR_MATCH: ..." below its manager.
_LINE = re.compile(r"^((?:\| )*)\+- (?=\w+(?:: |$)|KeyValueManager pair )")
_MANAGER = re.compile(r"^(?:(?:Key|Value)Manager: )?\w*GuardManager: source=(.*)$")
_MANAGER_FACTS = re.compile(r", (?:accessed_by=|type=<).*$")
_ROOT = "RootGuardManager"
# Guards that torch adds to every frame carry a line of its own, without code.
_TORCHS_OWN = "_dynamo/"


def read_guards(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Guard, ...]:
    """Read every leaf of the guard tree, with what it guards and the user's line that asked for it."""
    text = event.text or ""
    if not text.lstrip("\n").startswith(_HEAD):
        raise PayloadError(f"{event.name}: not a guard tree: {text[:80]!r}")
    return tuple(_guard(compile_id, kind, said, source) for kind, said, source in _leaves(text))


def _leaves(text: str) -> Iterator[tuple[str, str, str]]:
    """Kind, text and guarded source of every leaf."""
    sources: list[str] = []  # of the managers that the line at hand is below of
    for depth, entry in _entries(text):
        del sources[depth:]
        manager = _MANAGER.match(entry)
        kind, _, said = entry.partition(": ")
        if manager or not said:
            # Also a pair of a dict, and an aliasing guard that torch printed in full under another manager.
            above = sources[-1] if sources else ""
            sources.append(_MANAGER_FACTS.sub("", manager[1]) if manager else above)
        else:
            yield kind, said, sources[-1] if sources else ""


def _entries(text: str) -> Iterator[tuple[int, str]]:
    """Depth and text of every entry of the tree. An entry may have many lines: torch 2.11 prints what it guards."""
    depth, entry = -1, ""
    for line in text.partition(_FOOT)[0].split("\n"):
        found = _LINE.match(line)
        if found is None:
            entry = f"{entry}\n{line}" if depth >= 0 and line else entry
            continue
        if depth >= 0:
            yield depth, entry
        depth, entry = len(found[1]) // 2, line[found.end() :]
    if depth >= 0:
        yield depth, entry


def _guard(compile_id: CompileId, kind: str, said: str, source: str) -> Guard:
    expression, comment = split_comment(said)
    line, _ = read_comment(comment)
    return Guard(compile_id, kind, expression, source, None if line is None or _is_torchs(line) else line)


def _is_torchs(line: SourceLine) -> bool:
    return not line.code and line.file.startswith(_TORCHS_OWN)
