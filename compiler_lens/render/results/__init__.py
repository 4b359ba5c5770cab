"""What `diff` and measuring give, as values that print themselves: two recordings, a profile, trials, modes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from compiler_lens.decode.disk_sources import Folders
from compiler_lens.decode.recording_file import load
from compiler_lens.facts.compare import RecordingDiff
from compiler_lens.facts.compare import diff as diff_recordings
from compiler_lens.facts.measured.modes import Comparison, Deviation, Row
from compiler_lens.facts.measured.what_if import WhatIf
from compiler_lens.facts.program.ownership import UserPaths
from compiler_lens.recording.codec import unpacked
from compiler_lens.recording.errors import PayloadError, RecordingFileError, UsageError, writing
from compiler_lens.recording.model import Profile, Recording
from compiler_lens.recording.output_files import Product, write_whole
from compiler_lens.render.json import document_json, view_json
from compiler_lens.views.registry import FORMAT

if TYPE_CHECKING:
    from typing_extensions import Self


class HasRecording(Protocol):
    """A lens."""

    @property
    def recording(self) -> Recording: ...


Source = str | os.PathLike[str] | Recording | HasRecording


class Diff(Struct, frozen=True):
    """What differs between two recordings. Prints as ten lines; `report` has the views behind them, `html` a page."""

    before: Recording
    after: Recording
    result: RecordingDiff  # all of it, as values
    names: tuple[str, str] = ("BEFORE", "AFTER")  # what to type for the two

    @property
    def is_empty(self) -> bool:
        """Whether the compiler did the same: kernels, graphs, breaks, recompiles, CUDA graphs. Times do not count."""
        return self.result.is_empty

    @property
    def same_kernels(self) -> bool:
        """Whether no kernel differs."""
        return self.result.same_kernels

    def report(
        self, view: str = "summary", name: str = "", *, width: int | None = None, color: bool | None = None
    ) -> str:
        """One view as text: `summary`, `kernels`, `kernel` with its name, `code`, `graphs`, `breaks`, `times`, …"""
        from compiler_lens.render.console import diff_report

        return diff_report(self, view, name, width=width, color=color)

    def html(
        self,
        path: str | os.PathLike[str],
        *,
        user_paths: UserPaths = (),
        redact: bool = False,
        overwrite: bool = False,
    ) -> Path:
        """Write all of it as one HTML file, side by side. Raises `UsageError` where it cannot be written.

        It holds source code and paths; with `redact` neither, but names of functions, modules and kernels stay. Only a
        page of ours is written over, unless `overwrite`.
        """
        from compiler_lens.render.page.diff import write_diff

        write_diff(self, Path(path), user_paths=user_paths, redact=redact, overwrite=overwrite)
        return Path(path)

    def to_json(self) -> str:
        """All of it for programs."""
        from compiler_lens.views.diff.data import data

        return document_json("diff", data(self.result))

    def __str__(self) -> str:
        return self.report().rstrip("\n")


def diff(
    before: Source,
    after: Source,
    *,
    sources: Folders = (),
    max_size: int | None = None,
    max_nesting: int | None = None,
) -> Diff:
    """What the compiler did differently: kernels by what they compute, graphs, breaks, recompiles, tuning, time.

        print(compiler_lens.diff("monday.clens", "today.clens"))
        assert compiler_lens.diff(lens_of_default, lens_of_max_autotune).same_kernels

    Names and numbers of kernels and buffers, paths, line numbers, ids and times are no difference.

    Args:
        before: a recording's path, a TORCH_TRACE log, a `Lens`, or a `Recording`.
        after: the same.
        sources: for logs, the folders of which source text may be taken, as for `load`.
        max_size: how many bytes of text a file may hold, as for `load`.
        max_nesting: how deep arrays and objects may stand in each other in a line, as for `load`.

    Raises:
        RecordingFileError: no such file, or no recording.
    """
    read = partial(load, sources=sources, max_size=max_size, max_nesting=max_nesting)
    left, right = _recording(before, "before", read), _recording(after, "after", read)
    names = [os.fspath(one) if isinstance(one, (str, os.PathLike)) else "" for one in (before, after)]
    return Diff(left, right, diff_recordings(left, right), (names[0] or "BEFORE", names[1] or "AFTER"))


def _recording(source: Source, side: str, read: Callable[[str | os.PathLike[str]], Recording]) -> Recording:
    if isinstance(source, Recording):
        return source
    if isinstance(source, (str, os.PathLike)):
        return read(source)
    found = getattr(source, "recording", None)
    if not isinstance(found, Recording):
        raise UsageError(f"{side} is a {type(source).__name__}: give a path, a Lens or a Recording")
    return found


# -- measured


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
        from compiler_lens.views.measured.what_if import data

        return document_json("what_if", data(self))

    def __str__(self) -> str:
        return self.report().rstrip("\n")


class Modes(Comparison, frozen=True):
    """A `Comparison` that prints itself, with the recordings of its cold compiles."""

    recordings: Mapping[str, Recording] = field(default_factory=dict)  # by row; not in JSON
    diffs: Mapping[str, Any] = field(default_factory=dict)  # each compiled row against default; not in JSON

    @classmethod
    def of(cls, found: Comparison, recordings: Mapping[str, Recording], diffs: Mapping[str, Any]) -> Self:
        """Return a comparison with its recordings and their differences."""
        return cls(**asdict(found), recordings=recordings, diffs=diffs)

    def report(self, *, width: int | None = None, color: bool | None = None) -> str:
        """Return the rows as a table, the differences between their kernels, and what to use."""
        from compiler_lens.render.console import modes_report

        return modes_report(self, width=width, color=color)

    def to_json(self) -> str:
        """Return the same for programs, and for `from_json`."""
        from compiler_lens.views.measured.modes import data

        return document_json("modes", data(self))

    def svg(self, title: str = "") -> str:
        """Return a bar chart of the times."""
        from compiler_lens.render.chart import modes_chart

        return modes_chart(self, title)

    def save_svg(self, path: str | os.PathLike[str], title: str = "", *, overwrite: bool = False) -> Path:
        """Write the chart to a file. Raises `RecordingFileError` where it cannot be written.

        Only a picture of ours is written over; for any other file this raises `UsageError`, unless `overwrite`.
        """
        with writing(path):
            return write_whole(path, self.svg(title).encode(), Product.PICTURE, overwrite=overwrite)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote; without recordings, their differences as text. Raises `RecordingFileError`."""
        return cls(**asdict(comparison_of(text)))

    def __str__(self) -> str:
        return self.report().rstrip("\n")


def comparison_of(text: str) -> Comparison:
    """Return what `Modes.to_json` wrote, whichever format it had. Raises `RecordingFileError` for any other text."""
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
