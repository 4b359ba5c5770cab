"""What `compiler-lens run` does in the process of the script that it records: before it compiles, and after it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import replace

from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.recording.errors import visible
from compiler_lens.recording.journal import began_here
from compiler_lens.recording.model import DAMAGE, Environment, Recording, SourceLine
from compiler_lens.views.text import one_line

if TYPE_CHECKING:
    from compiler_lens.lens import Lens


_COMPILED_CALL = "torch/_dynamo/eval_frame.py"  # what torch.compile returns is a function there


def put_by(path: str) -> Path:
    """Return where a copy of an earlier recording lies while this process records to its name."""
    file = Path(path)
    return file.with_name(f"{file.stem}.before-{os.getpid()}{file.suffix}")


def open_lens(path: str, options: frozenset[str]) -> Lens | None:
    """Begin to record all that this process compiles. Without strict, a failure of ours leaves the script alone."""
    try:
        from compiler_lens.lens import lens_in

        return lens_in(Path(path), strict="strict" in options, progress="progress" in options).__enter__()
    except Exception as error:
        if "strict" in options:
            raise
        _say(visible(f"compiler-lens: nothing can be recorded: {type(error).__name__}: {error}"))
        return None


def complete(lens: Lens) -> None:
    """See to it that all is recorded, now that more of torch is imported."""
    from compiler_lens.capture.recorder import complete as complete_recorder

    complete_recorder(lens)


def finish(lens: Lens | None, path: str, options: frozenset[str]) -> None:
    """Say what was recorded, on the standard error: the standard output is the script's."""
    if lens is not None:
        lens.close()
    try:
        _say_what_was_recorded(lens, path, options)
    finally:
        put_by(path).unlink(missing_ok=True)


def _say_what_was_recorded(lens: Lens | None, path: str, options: frozenset[str]) -> None:
    if "report" not in options or sys.stderr is None:
        return
    where = Path(path) if lens is None else lens.path
    if where is not None and not began_here(where):  # a device, or somebody put another file in its place
        where = None
    if lens is None and where is None:  # which was said before the script
        _say("compiler-lens: nothing was compiled: no report, and no recording.")
        return
    try:
        from compiler_lens.decode.recording_file import load

        recording = load(path) if lens is None else lens.recording
        for text in _told(recording, where, path, sys.stderr):
            _say(text)
    except Exception as error:
        if "strict" in options:
            raise
        kept = f"\nThe recording is {where}" if where else ""
        _say(visible(f"compiler-lens: no report: {type(error).__name__}: {error}{kept}", keeps_lines=True))


def _told(recording: Recording, where: Path | None, wanted: str, stream: TextIO) -> Iterator[str]:
    """How the script ended, if not well; then the report and where the recording is, if there is one to keep."""
    raised = _raised()
    if raised:
        yield raised
    has_torch = "torch" in sys.modules
    # whether nothing was recorded but the circumstances
    is_bare = (
        replace(recording, environment=Environment(), sources=(), sites=(), children=(), unavailable=()) == Recording()
    )
    if is_bare and (raised or not has_torch):
        kept = _left_of_nothing(where, put_by(wanted))
        why = (
            "nothing was compiled before that" if has_torch else "torch was not imported, and only this process counts"
        )
        yield f"compiler-lens: {why}: no report, and {kept}."
        return
    if is_bare:
        off = " TORCHDYNAMO_DISABLE=1 is set: torch.compile makes nothing." if _is_off() else ""
        yield f"The script imported torch, but called nothing that torch.compile made.{off}"
    from compiler_lens.render.console import report

    name = _shortest(where) if where else ""
    color = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    yield report(recording, width=_width(stream), color=color, path=name or "REC")
    yield from _whether_it_raises_without()
    failure = next((problem.message for problem in recording.problems if problem.where in {"journal", DAMAGE}), None)
    if failure:
        yield f"{'The recording is not whole' if where else 'There is no recording'}: {visible(failure)}"
    elif not where:
        yield f"There is no recording: {_shortest(Path(wanted))} does not hold it"
    else:
        yield f"Recorded in {name}, open it again with: compiler-lens show {shlex.quote(name)}"


def _is_off() -> bool:
    """Whether torch.compile returns what it is given (torch/_dynamo/eval_frame.py)."""
    return os.environ.get("TORCHDYNAMO_DISABLE") == "1"


def _left_of_nothing(where: Path | None, earlier: Path) -> str:
    """Take away a recording of nothing, or put back what it was written over; return what is there then."""
    file = os.path.realpath(where) if where else ""  # a link of the user's stays
    if file and earlier.exists():
        shutil.move(earlier, file)
        return "what was there before stays"
    if file:
        Path(file).unlink(missing_ok=True)
    return "no recording kept"


def _raised() -> str:
    """The exception that ended the script; Python leaves it in `sys` when it prints it."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return ""
    lines = [SourceLine(f.f_code.co_filename, number) for f, number in traceback.walk_tb(error.__traceback__)]
    lines += [SourceLine(f.filename, f.lineno or 0) for f in getattr(error, "real_stack", None) or ()]  # torch's
    if isinstance(error, SyntaxError) and error.filename:
        lines.append(SourceLine(error.filename, error.lineno or 0))
    at = innermost_own(lines)
    where = f" at {_shortest(Path(at.file))}:{at.line}" if at else ""
    return one_line(f"The script raised {type(error).__name__}{where}")


def _whether_it_raises_without() -> Iterator[str]:
    """How to see whether an error out of a compiled call comes of compiling: nothing that was recorded says so."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return
    files = {frame.f_code.co_filename.replace("\\", "/") for frame, _ in traceback.walk_tb(error.__traceback__)}
    if any(file.endswith(_COMPILED_CALL) for file in files):
        from compiler_lens.measure.program import cause

        said, at = cause(error)
        where = f" at {_shortest(Path(at.file))}:{at.line}, `{one_line(at.code, 80)}`" if at else ""
        yield f"  {one_line(said + where)}"
        yield f"  {type(error).__name__} came out of a call of what torch.compile made. Whether it does without:"
        yield f"    TORCH_COMPILE_DISABLE=1 {visible(shlex.join(['python', *_typed()]))}"
        yield "  If not, only compiled code raises: a step above may end that, and compiler-lens fix tries what may."


def _typed() -> list[str]:
    """What was typed after `python`: `run` hands on -B for PYTHONDONTWRITEBYTECODE, and -u for PYTHONUNBUFFERED."""
    from compiler_lens.cli.command import interpreter

    begin = len(interpreter())
    options, given = sys.orig_argv[1:begin], sys.orig_argv[begin:]
    return [*(option for option in options if option != "-B"), *given[given[:1] == ["-u"] :]]


def _width(stream: TextIO) -> int:
    # Of the standard error's terminal: shutil asks the standard output, which is often a pipe.
    with contextlib.suppress(OSError, ValueError):
        return int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(stream.fileno()).columns
    return shutil.get_terminal_size((80, 24)).columns


def _shortest(path: Path) -> str:
    with contextlib.suppress(ValueError, OSError):
        return visible(min(str(path), os.path.relpath(path), key=len))
    return visible(str(path))


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed terminal or pipe
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
