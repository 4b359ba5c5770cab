"""`compiler-lens source`: the user's file line by line: compiled, broken, eager."""

from __future__ import annotations

import argparse

from compiler_lens.cli import show
from compiler_lens.cli.output import add_look, add_user_path

_EPILOG = """\
FILE is any ending of a file's path: model.py, models/model.py. Without one: the list of your files that
something happened in, and the first of them.

examples:
  compiler-lens source run.clens
  compiler-lens source run.clens model.py
  compiler-lens source run.clens model.py:41     the lines around line 41
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "source",
        help="your file line by line: compiled, broken, eager",
        usage="compiler-lens source REC [FILE[:LINE]] [--user-path P] [--json] [--width N] [--no-color]",
        description="Show a file of yours with what became of each of its lines; the same as show REC source.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recording", metavar="REC", nargs="?", help="a recording, or a folder with one")
    parser.add_argument("what", metavar="FILE[:LINE]", nargs="*", help="the file; with a line, what is around it")
    add_user_path(parser, "")
    add_look(parser)
    parser.set_defaults(run=show.run, view="source", id=None, redact=False)
