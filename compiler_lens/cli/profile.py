"""`compiler-lens profile`: time every kernel of a model in real calls, and print how good each is."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compiler_lens.cli.factory import CONTRACT, Target, measuring, target
from compiler_lens.cli.output import add_look, check_can_be_written, check_width, printed, write
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.journal import is_journal

_DESCRIPTION = """\
Compile a model, call it, and time every kernel on the device: the possible saving of each, measured against the least
time that this very device needs for as many bytes and operations."""

_EPILOG = (
    CONTRACT
    + """ Of several calls the times are those of one, on average.

  compiler-lens profile model.py:make
  compiler-lens profile model.py:make layers.3.attn      only the kernels of a LINE, a MODULE, or by NAME
  compiler-lens profile model.py:make --mode reduce-overhead --training -o run.clens
  compiler-lens show run.clens profile
"""
)

_LOG_LEVEL = "KINETO_LOG_LEVEL"
_USAGE = (
    "compiler-lens profile FILE:FACTORY [LINE | MODULE | NAME] [--mode M] [--training] [--repeats N] [-o REC]\n"
    "         [--json] [--width N] [--no-color]"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "profile",
        help="time every kernel of a model, and say how good each is",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="FILE:FACTORY", help="a Python file, and the function that makes the model")
    parser.add_argument(
        "part",
        metavar="PART",
        nargs="?",
        default="",
        help="a line, model.py:41, a module, layers.3.attn, or a kernel's name",
    )
    parser.add_argument("--mode", metavar="M", help="of torch.compile: reduce-overhead, max-autotune, …")
    parser.add_argument("--training", action="store_true", help="run a backward after each call")
    parser.add_argument("--repeats", metavar="N", type=int, help="calls to time; by default half a second of them")
    parser.add_argument("-o", "--output", metavar="REC", help="keep the recording, with the profile in it")
    add_look(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the model, time it, print the table."""
    check_width(args.width)
    wanted = target(args.target, "profile")
    _check_output(args.output)
    with _quiet_profiler():
        return printed(lambda: _text(args, wanted))


@contextlib.contextmanager
def _quiet_profiler() -> Iterator[None]:
    """Without the lines that torch's profiler (2.13, kineto) logs above its errors, for other tracers: `USDT:…`."""
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "6"  # USDT is 5
    try:
        yield
    finally:
        os.environ.pop(_LOG_LEVEL, None)


def _text(args: argparse.Namespace, wanted: Target) -> str:
    with contextlib.redirect_stdout(sys.stderr):  # what the user's code prints is no part of the answer
        made = wanted.make()
        result = measuring("profile", "profile")(
            made.model, calls=made.calls, mode=args.mode, path=args.output, training=args.training, repeats=args.repeats
        )
    if args.output and not result.path:
        sys.stderr.write(f"compiler-lens: {args.output} could not be written to its end\n")
    try:
        return _shown(result, args, args.part)
    except UsageError:  # what was measured is shown all the same
        write(_shown(result, args, ""))
        raise


def _shown(result: Any, args: argparse.Namespace, part: str) -> str:
    if args.json:
        return str(result.to_json(part)) + "\n"
    return str(result.report(part, width=args.width, color=False if args.no_color else None))


def _check_output(path: str | None) -> None:
    check_can_be_written(path)
    there = Path(path) if path else None
    if there and there.is_file() and there.stat().st_size and not is_journal(there):
        raise UsageError(f"{path} is there and is not a recording: name another file with -o")
