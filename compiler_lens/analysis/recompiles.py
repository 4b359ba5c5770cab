"""Why frames were compiled again: recompiles grouped by cause, with the values that changed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from compiler_lens.analysis.coverage import FunctionName, frame_key, function_name
from compiler_lens.model import GuardFailure, Recompile, Recording

_ENTRY = re.compile(r"(\d+)/(\d+)")
# What differs between two failures of one cause: numbers, addresses among them, and quoted or listed values.
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class RecompileCause:
    """All recompiles of one function for one cause."""

    function: FunctionName
    failure: GuardFailure | None  # the first; None: torch gave no reason
    recompiles: tuple[Recompile, ...]
    changes: tuple[tuple[str, str], ...]  # old and new value of each, where torch told both


def deciding_failure(recompile: Recompile) -> GuardFailure | None:
    """Of the entries that did not fit, the newest one's failure: the older ones were outgrown before."""
    return max(recompile.failures, key=_entry_number, default=None)


def recompile_causes(recording: Recording) -> tuple[RecompileCause, ...]:
    """Every recompile, grouped by function and cause, the most frequent first.

    The groups partition the recompiles: their sizes add up to the number in the recording.
    """
    names = {c.compile_id: function_name(c) for c in recording.compilations}
    frames = {frame_key(c.compile_id): function_name(c) for c in reversed(recording.compilations)}
    groups: dict[tuple[FunctionName, str, str], list[Recompile]] = {}
    for recompile in recording.recompiles:
        name = names.get(recompile.compile_id) or frames.get(frame_key(recompile.compile_id), FunctionName("?"))
        failure = deciding_failure(recompile)
        key = (name, failure.source, _VARIABLE.sub("#", failure.text)) if failure else (name, "", "")
        groups.setdefault(key, []).append(recompile)
    causes = (_cause(key[0], tuple(group)) for key, group in groups.items())
    return tuple(sorted(causes, key=lambda cause: -len(cause.recompiles)))


def _entry_number(failure: GuardFailure) -> tuple[int, int]:
    found = _ENTRY.search(failure.entry)
    return (int(found[1]), int(found[2])) if found else (-1, -1)


def _cause(function: FunctionName, recompiles: tuple[Recompile, ...]) -> RecompileCause:
    failures = [f for f in map(deciding_failure, recompiles) if f]
    changes = tuple((f.old, f.new) for f in failures if f.old or f.new)
    return RecompileCause(function, failures[0] if failures else None, recompiles, changes)
