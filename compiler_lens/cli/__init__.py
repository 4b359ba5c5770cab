"""The command line: `compiler-lens COMMAND …`, one file per command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from compiler_lens.cli.mixed import MixedParser
from compiler_lens.recording.errors import LensError

_DESCRIPTION = """\
See what torch.compile did to your program: what was compiled and what was not,
where graphs break and why, which kernels came out, and where compile time went.
"""

_EXAMPLES = """\
start here:
  compiler-lens run -o run.clens train.py     record a script as it is
  compiler-lens show run.clens                one screen: what happened, what to do next
  compiler-lens show run.clens breaks         every graph break, with torch's advice
  compiler-lens report run.clens              all of it as one HTML file
  compiler-lens graph run.clens               a graph as a picture
  compiler-lens diff old.clens new.clens      what the compiler did differently
  compiler-lens redact run.clens out.clens    the same for other eyes: no source text, no paths
  compiler-lens what-if model.py:make         which setting of torch.compile would help
  compiler-lens modes model.py:make           which mode of torch.compile is fastest
  compiler-lens profile model.py:make         how long each kernel takes, and its possible saving

Or in Python: lens = compiler_lens.Lens(); torch.compile(model, backend=lens);
call the model; print(lens.report()).
"""


_LONGEST = 300  # what an exception says, at most
_BROKEN = 3  # the exit status where something of ours failed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 if it did what was asked for."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        return int(args.run(args))
    except LensError as error:
        sys.stderr.write(f"compiler-lens: {error}\n")
        return error.exit_code
    except Exception as error:
        if args.traceback:
            raise
        sys.stderr.write(f"compiler-lens: {_told(error, args)}\n")
        return _BROKEN


def _told(error: Exception, args: argparse.Namespace) -> str:
    """A mistake of ours in one line."""
    from compiler_lens.views.text import one_line

    do = "run" if "command" in args else "show"
    intact = "the recording is intact; " if "recording" in args else ""
    said = one_line(f"{type(error).__name__}: {error}").rstrip(": ")[:_LONGEST]
    return f"cannot {do} this: {said}; {intact}please report it, with --traceback for details"


def _parser() -> argparse.ArgumentParser:
    from compiler_lens.cli import diff, graph, modes, profile, redact, report, run, schema, show, source, what_if

    parser = argparse.ArgumentParser(
        prog="compiler-lens",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=MixedParser
    )
    for command in (run, show, report, source, graph, diff, redact, what_if, profile, modes, schema):
        command.add_parser(commands)
    for added in commands.choices.values():
        added.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
    return parser


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from compiler_lens import __version__

        sys.stdout.write(f"compiler-lens {__version__}\n")
        parser.exit()
