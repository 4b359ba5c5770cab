"""`compiler-lens redact`: a recording for other eyes, as a recording."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler_lens.cli.output import add_user_path, check_is_other_file, printed

_DESCRIPTION = """\
Write a recording without source text, strings, your own Triton kernels, and the folders and names of your files.
Names of functions, modules, arguments, keys and kernels stay. What is written is a recording like any other: `show`,
`report`, `graph` and `diff` take it."""

_EPILOG = """\
examples:
  compiler-lens redact run.clens for-a-bug-report.clens.gz
  compiler-lens redact /tmp/torch_trace/ log.clens         from a TORCH_TRACE log that we did not write
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "redact",
        help="a recording without source text and paths, as a recording",
        usage="compiler-lens redact REC OUT [--user-path P]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recording", metavar="REC", help="a recording, a TORCH_TRACE log, or a folder with one of them")
    parser.add_argument("out", metavar="OUT", help="the file to write; gzipped, if its name ends with .gz")
    add_user_path(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the redacted recording and say where it is."""
    return printed(lambda: _text(args))


def _text(args: argparse.Namespace) -> str:
    from compiler_lens.decode.recording_file import load, save
    from compiler_lens.facts.program.ownership import Ownership
    from compiler_lens.recording.redact import redacted
    from compiler_lens.views.text import nbytes

    target = Path(args.out)
    check_is_other_file(target, args.recording, None)
    save(redacted(load(args.recording), Ownership.of(tuple(args.user_path or ())).owns), target)
    return f"{target}  {nbytes(target.stat().st_size)}\n"
