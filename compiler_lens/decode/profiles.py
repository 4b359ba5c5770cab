"""Kernel times that were measured: `lens.profile` events, written by us."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compiler_lens.recording.codec import packed, unpacked
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import Profile, Remark

# The columns of the tables that format 1 wrote; it had the names of kernels once, and numbers in place of them.
_LAUNCH = ("compile_id", "direction", "ordinal", "kernel", "launch", "microseconds", "spread", "runs",
           "device_kernels", "trust")  # fmt: skip
_OTHER = ("name", "microseconds", "runs")
_NOTE = ("remark", "name", "number", "of")


def profile_meta(profile: Profile) -> dict[str, Any]:
    """Return a profile as the meta of an event."""
    meta: dict[str, Any] = packed(profile)
    return meta


def read_profile(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Profile, ...]:
    """Return the profile that an event holds."""
    try:
        return (unpacked(Profile, _from_tables(event.meta) if "names" in event.meta else event.meta),)
    except (PayloadError, KeyError, TypeError, ValueError, IndexError) as error:
        raise PayloadError(f"a profile of an unknown shape: {error}") from error


def _from_tables(meta: Mapping[str, Any]) -> dict[str, Any]:
    names = meta["names"]
    launches = _rows(_LAUNCH, meta["launches"])
    for launch in launches:
        launch["compile_id"] = str(CompileId(*launch["compile_id"]))
        launch["kernel"] = names[launch["kernel"]]
        launch["device_kernels"] = [names[number] for number in launch["device_kernels"]]
    # Notes were sentences until remarks became facts.
    notes = [[Remark.WORDS.value, note, None, None] if isinstance(note, str) else note for note in meta["notes"]]
    return {**meta, "launches": launches, "others": _rows(_OTHER, meta["others"]), "notes": _rows(_NOTE, notes)}


def _rows(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]
