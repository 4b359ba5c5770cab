"""What measuring gives, as values that print themselves: a profile, trials of settings, a comparison of modes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from compiler_lens.facts.measured.modes import Comparison, Deviation, Row
from compiler_lens.facts.measured.what_if import WhatIf
from compiler_lens.recording.codec import unpacked
from compiler_lens.recording.errors import PayloadError, RecordingFileError
from compiler_lens.recording.model import Profile, Recording
from compiler_lens.render.json import document_json
from compiler_lens.views.registry import FORMAT

if TYPE_CHECKING:
    from typing_extensions import Self


class Profiled(Struct, frozen=True):
    """A profile with the recording that it belongs to. It prints itself."""

    recording: Recording
    profile: Profile
    path: str = ""  # of the recording, if it is in a file

    def report(self, part: str = "", *, width: int | None = None, color: bool | None = None) -> str:
        """Return the call, then every kernel with its possible saving; and what to do.

        `part`: only the kernels of a line, `model.py:41`, of a module, `layers.3.attn`, or of that name. Raises
        `UsageError` where there is none.
        """
        from compiler_lens.render.console import profile_report

        return profile_report(self.recording, width=width, color=color, path=self.path, part=part)

    def to_json(self, part: str = "") -> str:
        """Return the same for programs."""
        from compiler_lens.facts.program.select import EVERYTHING, select_launches
        from compiler_lens.render.json import view_json

        return view_json(self.recording, "profile", select_launches(self.recording, part) if part else EVERYTHING)

    def __str__(self) -> str:
        return self.report().rstrip("\n")


class WhatIfResult(WhatIf, frozen=True):
    """A `WhatIf` that prints itself."""

    def report(self, *, width: int | None = None, color: bool | None = None) -> str:
        """Return the trials as a table that ends with what to do."""
        from compiler_lens.render.console import what_if_report

        return what_if_report(self, width=width, color=color)

    def to_json(self) -> str:
        """Return the same for programs."""
        return what_if_json(self)

    def __str__(self) -> str:
        return self.report().rstrip("\n")


class Modes(Comparison, frozen=True):
    """A `Comparison` that prints itself, with the recordings of its cold compiles."""

    recordings: Mapping[str, Recording] = field(default_factory=dict)  # by row; not in JSON
    diffs: Mapping[str, Any] = field(default_factory=dict)  # each compiled row against default; not in JSON

    @classmethod
    def of(cls, found: Comparison, recordings: Mapping[str, Recording], diffs: Mapping[str, Any]) -> Self:
        """Return a comparison with its recordings and their differences."""
        return cls(**_values(found), recordings=recordings, diffs=diffs)

    def report(self, *, width: int | None = None, color: bool | None = None) -> str:
        """Return the rows as a table, the differences between their kernels, and what to use."""
        from compiler_lens.render.console import modes_report

        return modes_report(self, width=width, color=color)

    def to_json(self) -> str:
        """Return the same for programs, and for `from_json`."""
        return modes_json(self)

    def svg(self, title: str = "") -> str:
        """Return a bar chart of the times."""
        from compiler_lens.render.chart import modes_chart

        return modes_chart(self, title)

    def save_svg(self, path: str | os.PathLike[str], title: str = "") -> Path:
        """Write the chart to a file. Raises `RecordingFileError` where it cannot be written."""
        target = Path(path)
        try:
            target.write_text(self.svg(title), encoding="utf-8")
        except OSError as error:
            raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
        return target

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote; without recordings, their differences as text. Raises `RecordingFileError`."""
        return cls(**_values(comparison_of(text)))

    def __str__(self) -> str:
        return self.report().rstrip("\n")


def what_if_json(result: WhatIf) -> str:
    """Return trials for programs."""
    from compiler_lens.views.measured.what_if import data

    return document_json("what_if", data(result))


def modes_json(result: Comparison) -> str:
    """Return a comparison for programs, and for `comparison_of`."""
    from compiler_lens.views.measured.modes import data

    return document_json("modes", data(result))


def comparison_of(text: str) -> Comparison:
    """Return what `modes_json` wrote, whichever format it had. Raises `RecordingFileError` for any other text."""
    try:
        data = json.loads(text)
        if data["view"] != "modes" or data["format"] not in range(1, FORMAT + 1):
            raise RecordingFileError(f"this is {data['view']}, format {data['format']}, and not modes, format {FORMAT}")
        found = unpacked(Comparison, {**data, "rows": [], "diffs_told": data["diffs"]})
        return replace(found, rows=tuple(map(_row, data["rows"])))
    except (PayloadError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordingFileError("this is not the JSON of a comparison of modes") from error


def _row(data: Mapping[str, Any]) -> Row:
    row, deviation = unpacked(Row, {**data, "deviation": None}), data["deviation"]
    if deviation is None:
        return row
    # JSON has no infinity
    known = {name: math.inf if value is None else float(value) for name, value in deviation.items()}
    return replace(row, deviation=Deviation(**known))


def _values(comparison: Comparison) -> dict[str, Any]:
    return asdict(comparison)
