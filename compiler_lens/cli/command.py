"""What a command is, and what several of them share: options, checks, how they print and how they end."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from compiler_lens.recording.errors import RecordingFileError, UsageError, visible, writing
from compiler_lens.recording.output_files import Product, check_may_be_written

if TYPE_CHECKING:
    from compiler_lens.recording.model import Recording

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
PIPE_CLOSED = 141  # 128 + SIGPIPE

# What a terminal without Unicode shows instead.
_ASCII = str.maketrans({"…": "...", "⋮": ":", "·": "|", "→": "->", "×": "x", "█": "#", "µ": "u", "–": "-"})  # noqa: RUF001

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DIGITS = 12  # of a size, at most
_IN_MEMORY = 64 << 20  # characters of what is printed as a whole; more of it waits in a file
_AT_ONCE = 1 << 20

Argument = tuple[tuple[str, ...], dict[str, Any]]


class Command(Struct, frozen=True):
    """A command of the command line: what its help says, what it takes, and what runs it."""

    run: Callable[[argparse.Namespace], int]
    help: str
    usage: str  # after its name
    description: str
    epilog: str
    arguments: tuple[Argument, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of what it does not take
    allows_abbreviations: bool = True


def argument(*names: str, **details: Any) -> Argument:
    """Return what `add_argument` of argparse takes."""
    return names, details


def look(json: str = "the same facts as JSON") -> tuple[Argument, ...]:
    """Return the options that say how an answer is printed."""
    return (
        argument("--json", action="store_true", help=f"for programs: {json}"),
        argument("--width", metavar="N", type=int, help="columns; by default the terminal's, 80 without one"),
        argument(
            "--no-color", dest="color", action="store_const", const=False, help="no colours; NO_COLOR=1 does the same"
        ),
    )


def user_path(more: str = "; may be repeated") -> Argument:
    """Return the option that says what counts as the user's own code."""
    told = f"a file, folder or package to count as your own code{more}"
    return argument("--user-path", metavar="P", action="append", default=[], help=told)


def size(text: str) -> int:
    """Return the bytes that `500M`, `4G` or a plain number mean."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if unit not in _UNITS or not digits.isdecimal() or not 0 < len(digits) < _DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: 500M and 4G are some")
    return int(digits) * _UNITS[unit]


A_RECORDING = argument("recording", metavar="REC", help="a recording, a TORCH_TRACE log, or a folder with one of them")
SOURCES = argument(
    "--sources", metavar="DIR", action="append", default=[],
    help="for a TORCH_TRACE log, which has no source text: take it from the .py files below DIR; may be repeated",
)  # fmt: skip
LIMITS = (
    argument(
        "--max-size",
        metavar="SIZE",
        type=size,
        help="how much text a recording may hold, unpacked; by default 1G",
    ),
    argument(
        "--max-nesting",
        metavar="N",
        type=int,
        help="how deep arrays and objects may stand in each other in a line of it; by default 200",
    ),
)
REDACT = argument("--redact", action="store_true", help="without source text, and without the paths of files")
FORCE = argument("--force", action="store_true", help="write over a file that is there and that we did not write")


def interpreter() -> list[str]:
    """Return what starts an interpreter like the present one, with its flags."""
    # multiprocessing uses the same function.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return [sys.executable, *flags]


def check_script(script: str, command: str) -> None:
    """Raise `UsageError` for what is there and is no script, or is not there."""
    from compiler_lens.recording.journal_reader import is_journal
    from compiler_lens.recording.torch_log import is_torch_log

    file = Path(script)
    if not file.exists():
        hint = ""
        if file.name.startswith("python"):
            hint = f" (leave it out: compiler-lens {command} script.py)"
        elif file.name == "torchrun" and command == "run":
            hint = " (run it round us: torchrun --no-python compiler-lens run script.py)"
        raise UsageError(f"no such script: {script}{hint}")
    if not file.is_file() or not os.access(file, os.R_OK):
        return  # Python has the word
    show = f"compiler-lens show {shlex.quote(str(file))}"
    if is_journal(file):
        raise UsageError(f"{file} is a recording, not a script. To see it: {show}")
    # Not by what is in it alone: a script may hold lines of a log.
    if file.suffix in {".log", ".gz"} and is_torch_log(file):
        raise UsageError(f"{file} is a TORCH_TRACE log, not a script. To see it: {show}")


def in_front(rest: Sequence[str], arguments: Iterable[Argument]) -> tuple[list[str], list[str]]:
    """Return what stands after a script's name and is spelled like an option of ours, with its value; and the rest."""
    takes_value = {name: "action" not in how or how["action"] == "append" for names, how in arguments for name in names}
    ours: list[str] = []
    others: list[str] = []
    words = iter(rest)
    for word in words:
        name, equals, _ = word.partition("=")
        if word == "--":  # what follows is meant for the script
            others += [word, *words]
        elif not name.startswith("-") or name not in takes_value:
            others.append(word)
        else:
            ours += [word, *islice(words, 1 if takes_value[name] and not equals else 0)]
    return ours, others


def say_what_is_passed_on(args: argparse.Namespace, name: str, arguments: Iterable[Argument]) -> None:
    """Say on the standard error which options of ours the script gets, as they stand after its name.

    Those are not said that a script's own text has: it knows them itself.
    """
    script, *rest = args.command
    ours, others = in_front(rest, arguments)
    text = "" if args.module else _text(script)
    unknown = [word for word in ours if word.startswith("-") and not _has_literal(text, word.partition("=")[0])]
    if unknown:
        asked = ["compiler-lens", name, *ours, *(["-m"] if args.module else []), script, *others]
        told = f"{script} gets {shlex.join(ours)}, as all that stands after its name. If it is meant for compiler-lens"
        sys.stderr.write(f"compiler-lens: {visible(f'{told}, write: {shlex.join(asked)}')}\n")
        sys.stderr.flush()


def _text(script: str) -> str:
    with contextlib.suppress(OSError):
        if Path(script).is_file():
            return Path(script).read_text(encoding="utf-8", errors="replace")
    return ""


def _has_literal(text: str, option: str) -> bool:
    return f'"{option}"' in text or f"'{option}'" in text


def opened(args: argparse.Namespace) -> Recording:
    """Return the recording that a command was given, read as its options say. Raises what `load` raises."""
    from compiler_lens.decode.recording_file import open_recording

    return open_recording(args.recording, sources=args.sources, max_size=args.max_size, max_nesting=args.max_nesting)


def printed(text: Callable[[argparse.Namespace], str | Iterable[str]], args: argparse.Namespace) -> int:
    """Print what a command has to say, as a whole or in parts. A closed pipe and Ctrl-C end it without a word.

    Returns its exit status.
    """
    try:
        said = text(args)
        for part in (said,) if isinstance(said, str) else said:
            write(part)
    except BrokenPipeError:
        _let_go()
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def all_or_none(parts: Iterable[str]) -> Iterator[str]:
    """Return the same text once all of it is made: where making it fails in the middle, nothing of it was printed."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", newline="") as made:
        made.writelines(parts)
        made.seek(0)
        yield from iter(lambda: made.read(_AT_ONCE), "")


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
        said = f"cannot write to the standard output, which is cut: {error.strerror or error}"
        raise RecordingFileError(said) from error


def _let_go() -> None:
    """Python flushes standard output once more when it exits, and would complain then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_width(width: int | None) -> None:
    """Raise `UsageError` for a width that nothing fits in."""
    from compiler_lens.render.console.page import MIN_WIDTH

    if width is not None and width < MIN_WIDTH:
        raise UsageError(f"--width {width} is too narrow: {MIN_WIDTH} columns or more")


def check_target(target: Path, product: Product, *made_from: str | None, overwrite: bool) -> None:
    """Raise `UsageError` for a file that would be written over what it is made from, or over one that is not ours."""
    for recording in filter(None, made_from):
        if target.exists() and Path(recording).exists() and target.samefile(recording):
            raise UsageError(f"{target} is the recording itself: give another name")
    with writing(target):
        check_may_be_written(target, product, overwrite=overwrite)


def check_can_be_written(path: str | None, product: Product, *, overwrite: bool) -> None:
    """Raise `RecordingFileError` or `UsageError` for a file that cannot be written, before minutes of measuring."""
    if not path:
        return
    file = Path(path)
    if file.is_dir() or not file.parent.is_dir():
        raise RecordingFileError(
            f"cannot write {path}: {'it is a folder' if file.is_dir() else f'no folder {file.parent}'}"
        )
    with writing(path):
        check_may_be_written(file, product, overwrite=overwrite)
        if file.exists():
            if not os.access(file, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        else:  # where a link leads, nothing may be yet; a folder says yes to the superuser and takes no file
            tempfile.TemporaryFile(dir=Path(os.path.realpath(file)).parent).close()
