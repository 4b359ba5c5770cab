"""What `compiler-lens run` does in the process of the script that it records: before it compiles, and after it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from compiler_lens.lens import Lens
    from compiler_lens.model import Recording


def open_lens(path: str, options: frozenset[str]) -> Lens | None:
    """Begin to record all that this process compiles. Without strict, a failure of ours leaves the script alone."""
    try:
        from compiler_lens.lens import Lens

        return Lens(path, strict="strict" in options, progress="progress" in options).__enter__()
    except Exception as error:
        if "strict" in options:
            raise
        _say(f"compiler-lens: nothing can be recorded: {type(error).__name__}: {error}")
        return None


def finish(lens: Lens | None, path: str, options: frozenset[str]) -> None:
    """Say what was recorded, on the standard error: the standard output is the script's."""
    if lens is not None:
        lens.close()
    if "report" not in options or sys.stderr is None:
        return
    try:
        recording, target = _recording(lens, path)
        _say(_report(recording, target, sys.stderr))
        _say(_closing_line(recording, target))
    except Exception as error:
        if "strict" in options:
            raise
        _say(f"compiler-lens: no report: {type(error).__name__}: {error}\nThe recording is {path}")


def _recording(lens: Lens | None, path: str) -> tuple[Recording, Path]:
    from compiler_lens.recording_file import load

    if lens is None:
        return load(path), Path(path)
    return lens.recording, lens.path or Path(path)


def _report(recording: Recording, path: Path, stream: TextIO) -> str:
    from compiler_lens.render.console import report

    color = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return report(recording, width=_width(stream), color=color, path=_shortest(path))


def _width(stream: TextIO) -> int:
    # Of the standard error's terminal: shutil asks the standard output, which is often a pipe.
    with contextlib.suppress(OSError, ValueError):
        return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns
    return shutil.get_terminal_size((80, 24)).columns


def _closing_line(recording: Recording, path: Path) -> str:
    failure = next((problem.message for problem in recording.problems if problem.where == "journal"), None)
    if failure:
        return f"The recording is not whole: {failure}"
    name = _shortest(path)
    return f"Recorded in {name}, open it again with: compiler-lens show {shlex.quote(name)}"


def _shortest(path: Path) -> str:
    with contextlib.suppress(ValueError, OSError):
        return min(str(path), os.path.relpath(path), key=len)
    return str(path)


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed terminal or pipe
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
