"""What `compare_modes` gives: the comparison, which prints itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler_lens.facts.measured.modes import Comparison
from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.model import Recording

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Modes(Comparison):
    """A `Comparison` that prints itself, with the recordings of its cold compiles."""

    recordings: Mapping[str, Recording] = field(default_factory=dict)  # by row; not in JSON
    diffs: Mapping[str, Any] = field(default_factory=dict)  # each compiled row against default; not in JSON

    def report(self, *, width: int | None = None, color: bool | None = None) -> str:
        """The rows as a table, the differences between their kernels, and what to use."""
        from compiler_lens.views.console.modes import modes_report

        return modes_report(self, width=width, color=color)

    def to_json(self) -> str:
        """The same for programs, and for `from_json`."""
        from compiler_lens.views.modes_file import modes_json

        return modes_json(self)

    def svg(self, title: str = "") -> str:
        """A bar chart of the times."""
        from compiler_lens.render.chart import modes_chart

        return modes_chart(self, title)

    def save_svg(self, path: str | os.PathLike[str], title: str = "") -> Path:
        """Write the chart to a file. Raises `RecordingFileError` where it cannot be written."""
        return saved(path, self.svg(title))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote; without recordings, their differences as text. Raises `RecordingFileError`."""
        from compiler_lens.views.modes_file import comparison_of

        found = comparison_of(text)
        return cls(**{one.name: getattr(found, one.name) for one in fields(Comparison)})

    def __str__(self) -> str:
        return self.report().rstrip("\n")


def saved(path: str | os.PathLike[str], text: str) -> Path:
    """Write text to a file. Raises `RecordingFileError` where it cannot be written."""
    target = Path(path)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
    return target
