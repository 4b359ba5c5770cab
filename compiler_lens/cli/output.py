"""What the commands share that print something: the text for this terminal, its width, and how they end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from compiler_lens.recording.errors import RecordingFileError, UsageError

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
PIPE_CLOSED = 141  # 128 + SIGPIPE

# What a terminal without Unicode shows instead.
_ASCII = str.maketrans({"…": "...", "⋮": ":", "·": "|", "→": "->", "×": "x", "█": "#", "µ": "u", "–": "-"})  # noqa: RUF001


def printed(text: Callable[[], str]) -> int:
    """Print what a command has to say; its exit status. A closed pipe and Ctrl-C end it without a word."""
    try:
        write(text())
    except BrokenPipeError:
        _let_go()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def write(text: str) -> None:
    """Write to the standard output, with what its encoding has."""
    encoding = sys.stdout.encoding or "utf-8"
    if not encoding.lower().replace("-", "").startswith("utf"):
        text = text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _let_go()
        raise RecordingFileError(f"cannot write to the standard output: {error.strerror or error}") from error


def _let_go() -> None:
    """Python flushes standard output once more when it exits, and would complain then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def add_look(parser: argparse.ArgumentParser, json: str = "the same facts as JSON") -> None:
    """Add the options that say how an answer is printed."""
    parser.add_argument("--json", action="store_true", help=f"for programs: {json}")
    parser.add_argument("--width", metavar="N", type=int, help="columns; by default the terminal's, 80 without one")
    parser.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR=1 does the same")


def add_user_path(parser: argparse.ArgumentParser, more: str = "; may be repeated") -> None:
    """Add the option that says what counts as the user's own code."""
    told = f"a file, folder or package to count as your own code{more}"
    parser.add_argument("--user-path", metavar="P", action="append", help=told)


def check_width(width: int | None) -> None:
    """Raise `UsageError` for a width that nothing fits in."""
    from compiler_lens.render.console.page import MIN_WIDTH

    if width is not None and width < MIN_WIDTH:
        raise UsageError(f"--width {width} is too narrow: {MIN_WIDTH} columns or more")


def check_is_other_file(target: Path, *recordings: str | None) -> None:
    """Raise `UsageError` for a file that would be written over what it is made from."""
    for recording in filter(None, recordings):
        if target.exists() and Path(recording).exists() and target.samefile(recording):
            raise UsageError(f"{target} is the recording itself: give another name")


def check_can_be_written(path: str | None) -> None:
    """Raise `RecordingFileError` for a file that cannot be written: said before minutes of measuring."""
    if not path:
        return
    file = Path(path)
    if file.is_dir() or not file.parent.is_dir():
        raise RecordingFileError(
            f"cannot write {path}: {'it is a folder' if file.is_dir() else f'no folder {file.parent}'}"
        )
    was_there = file.exists()
    try:
        file.open("ab").close()
    except OSError as error:
        raise RecordingFileError(f"cannot write {path}: {error.strerror or error}") from error
    if not was_there:
        file.unlink(missing_ok=True)
