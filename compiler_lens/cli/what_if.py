"""`compiler-lens what-if`: try the settings that could matter on a model, and print what each would do."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

from compiler_lens.cli.factory import CONTRACT, Target, measuring, target
from compiler_lens.cli.output import add_look, check_width, printed

_DESCRIPTION = """\
Compile a model under each setting of torch.compile that could matter to it, as far as Dynamo goes (nothing is
generated), and count graphs, graph breaks, recompiles and frames that run eagerly."""

_EPILOG = (
    CONTRACT
    + """ One set of arguments is called twice.

  compiler-lens what-if model.py:make
  compiler-lens what-if model.py:make --json | jq .best
"""
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "what-if",
        help="try settings on a model, and count what each would do",
        usage="compiler-lens what-if FILE:FACTORY [--training] [--json] [--width N] [--no-color]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="FILE:FACTORY", help="a Python file, and the function that makes the model")
    parser.add_argument("--training", action="store_true", help="run a backward after each call")
    add_look(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the model, try, print the table."""
    check_width(args.width)
    wanted = target(args.target, "what-if")
    return printed(lambda: _text(args, wanted))


def _text(args: argparse.Namespace, wanted: Target) -> str:
    with contextlib.redirect_stdout(sys.stderr):  # what the user's code prints is no part of the answer
        made = wanted.make()
        what_if = measuring("what-if", "what_if")
        result = what_if(made.model, calls=made.calls * (1 if made.several else 2), training=args.training)
    return str(result.to_json() + "\n" if args.json else result.report(**_look(args)))


def _look(args: argparse.Namespace) -> dict[str, Any]:
    return {"width": args.width, "color": False if args.no_color else None}
