"""What each row's compiler did differently from default's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from compiler_lens.facts.measured.modes import DEFAULT, Compiled, Row
from compiler_lens.recording.model import Recording


def differences(recordings: Mapping[str, Recording]) -> dict[str, Any]:
    """For each row but default, the `RecordingDiff` from default's recording to its own."""
    from compiler_lens.facts.compare import diff

    before = recordings.get(DEFAULT)
    if before is None:
        return {}
    return {name: diff(before, after) for name, after in recordings.items() if name != DEFAULT}


def with_sameness(rows: Iterable[Row], diffs: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows, with those marked that run what default runs."""
    rows = tuple(rows)
    default = next((row.compiled for row in rows if row.name == DEFAULT), None)
    return tuple(_marked(row, default, diffs.get(row.name)) for row in rows)


def _marked(row: Row, default: Compiled | None, diff: Any) -> Row:
    made = row.compiled
    if made is None or default is None or diff is None:
        return row
    # Not `is_empty`: that a mode asks for CUDA graphs, and gets none, changes nothing in what runs.
    alike = (made.captured, made.breaks) == (default.captured, default.breaks)
    return replace(row, compiled=replace(made, same_as_default=alike and diff.same_kernels and not diff.retuned))
