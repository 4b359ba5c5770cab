"""`compiler-lens diff`: what the compiler did differently in one recording than in another."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from compiler_lens.cli.command import LIMITS, SOURCES, Command, argument, check_width, look, printed
from compiler_lens.recording.errors import RecordingFileError, UsageError
from compiler_lens.views.diff.views import SUMMARY, VIEWS, diff_view

if TYPE_CHECKING:
    from compiler_lens.render.results import Diff

_DIFFERS = 1  # the exit status that --exit-code asks for, as git's

_EPILOG = (
    "views:\n"
    + "\n".join(f"  {name:<12} {view.answers}" for name, view in VIEWS.items() if view.answers)
    + """

Names and numbers of kernels and buffers, paths, line numbers, ids and times are no difference.

examples:
  compiler-lens diff default.clens tuned.clens
  compiler-lens diff default.clens tuned.clens kernels
  compiler-lens diff default.clens tuned.clens --code
  compiler-lens diff main.clens branch.clens --exit-code    1 if anything differs, 0 if not
  compiler-lens report default.clens tuned.clens    all of it as one HTML file, side by side
"""
)


def run(args: argparse.Namespace) -> int:
    """Print one view. Say at once what is wrong with the command; reading large recordings takes a moment."""
    diff_view(args.view)
    if (args.view == "kernel") != bool(args.name):
        said = "which kernel? compiler-lens diff BEFORE AFTER kernel NAME, and `kernels` lists the names"
        raise UsageError(f"too much: {args.name}" if args.name else said)
    if args.code and args.view not in {SUMMARY, "kernel"}:
        raise UsageError(f"--code is a view of its own: leave out {args.view}")
    check_width(args.width)
    from compiler_lens.render.results import diff

    for path in (args.before, args.after):
        if not Path(path).exists():
            raise UsageError(f"no such file: {path}")
    try:
        made = diff(args.before, args.after, sources=args.sources, max_size=args.max_size, max_nesting=args.max_nesting)
    except RecordingFileError as error:
        raise UsageError(str(error)) from error
    status = printed(partial(_text, made), args)
    return status or (_DIFFERS if args.exit_code and not made.is_empty else 0)


def _text(made: Diff, args: argparse.Namespace) -> str:
    if args.json:
        return made.to_json() + "\n"
    view = "code" if args.code and args.view == SUMMARY else args.view
    return made.report(view, args.name, width=args.width, color=args.color)


COMMANDS = {
    "diff": Command(
        run=run,
        help="what the compiler did differently in two recordings",
        usage="BEFORE AFTER [VIEW] [NAME] [--code] [--exit-code] [--sources DIR]"
        " [--max-size SIZE] [--max-nesting N] [--json] [--width N] [--no-color]",
        description="Compare two recordings: kernels by what they compute, graphs, breaks, recompiles, tuning, time.",
        epilog=_EPILOG,
        arguments=(
            argument("before", metavar="BEFORE", help="a recording, a TORCH_TRACE log, or a folder with one of them"),
            argument("after", metavar="AFTER", help="the same"),
            argument("view", metavar="VIEW", nargs="?", default=SUMMARY, help="what to look at, see below"),
            argument("name", metavar="NAME", nargs="?", default="", help="after `kernel`, the kernel's name"),
            argument(
                "--code", action="store_true", help="the code of what changed, side by side from 120 columns"
            ),
            argument(
                "--exit-code", action="store_true", help="exit status 1 if anything differs, as git diff has it"
            ),
            SOURCES,
            *LIMITS,
            *look(json="everything as JSON"),
        ),
    )
}  # fmt: skip
