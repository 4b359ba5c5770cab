"""`diff`: what the compiler did differently, from files, lenses or recordings, as a value that prints itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from compiler_lens.decode.recording_file import load
from compiler_lens.facts.compare import RecordingDiff
from compiler_lens.facts.compare import diff as diff_recordings
from compiler_lens.facts.program.ownership import UserPaths
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording


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

    def html(self, path: str | os.PathLike[str], *, user_paths: UserPaths = (), redact: bool = False) -> Path:
        """Write all of it as one HTML file, side by side. Raises `UsageError` where it cannot be written.

        It holds source code and paths; with `redact` neither, but names of functions, modules and kernels stay.
        """
        from compiler_lens.render.page.diff import write_diff

        write_diff(self, Path(path), user_paths=user_paths, redact=redact)
        return Path(path)

    def to_json(self) -> str:
        """All of it for programs."""
        return diff_json(self.result)

    def __str__(self) -> str:
        return self.report().rstrip("\n")


def diff(before: Source, after: Source) -> Diff:
    """What the compiler did differently: kernels by what they compute, graphs, breaks, recompiles, tuning, time.

        print(compiler_lens.diff("monday.clens", "today.clens"))
        assert compiler_lens.diff(lens_of_default, lens_of_max_autotune).same_kernels

    Names and numbers of kernels and buffers, paths, line numbers, ids and times are no difference.

    Args:
        before: a recording's path, a TORCH_TRACE log, a `Lens`, or a `Recording`.
        after: the same.

    Raises:
        RecordingFileError: no such file, or no recording.
    """
    left, right = _recording(before, "before"), _recording(after, "after")
    return Diff(left, right, diff_recordings(left, right), (_name(before, "BEFORE"), _name(after, "AFTER")))


def diff_json(result: RecordingDiff) -> str:
    """Return what differs, for programs."""
    from compiler_lens.render.json import document_json
    from compiler_lens.views.diff.data import data

    return document_json("diff", data(result))


def _recording(source: Source, side: str) -> Recording:
    if isinstance(source, Recording):
        return source
    if isinstance(source, (str, os.PathLike)):
        return load(source)
    found = getattr(source, "recording", None)
    if not isinstance(found, Recording):
        raise UsageError(f"{side} is a {type(source).__name__}: give a path, a Lens or a Recording")
    return found


def _name(source: Source, otherwise: str) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else otherwise
