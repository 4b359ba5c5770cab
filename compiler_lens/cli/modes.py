"""`compiler-lens modes`: measure a model under modes of torch.compile, and print which to use."""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
import sys
from collections.abc import Sequence
from typing import Any

from compiler_lens.cli.factory import CONTRACT, Target, measuring, target
from compiler_lens.cli.output import add_look, check_can_be_written, check_width, printed
from compiler_lens.recording.errors import UsageError
from compiler_lens.views.text import one_line

_DESCRIPTION = """\
Run a model as it is and under the modes of torch.compile, each from a clean start: time per call, time to compile with
empty and with full caches, memory, kernels, error; and what the kernels of each mode do differently from default's."""

_EPILOG = (
    CONTRACT
    + """ Or, to time pieces of work apart:

  {"model": model, "phases": [compiler_lens.Phase("prefill", run, tokens=128), ...]}     run(model) does the work

  compiler-lens modes model.py:make
  compiler-lens modes model.py:make --modes eager,default,max-autotune --svg modes.svg -o recordings
  compiler-lens modes model.py:make --option "tuned=mode:max-autotune,max_autotune_conv_backends:ATEN"
"""
)
_USAGE = (
    "compiler-lens modes FILE:FACTORY [--modes A,B] [--option NAME=KEY:VALUE,...] [--training] [--seconds S]\n"
    "         [--svg FILE] [-o FOLDER] [--json] [--width N] [--no-color]"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "modes",
        help="measure a model under modes of torch.compile, and say which to use",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("target", metavar="FILE:FACTORY", help="a Python file, and the function that makes the model")
    add("--modes", metavar="A,B", help="rows to measure: eager, default, reduce-overhead, …; by default all")
    add(
        "--option",
        metavar="NAME=KEY:VALUE,...",
        action="append",
        default=[],
        help="one more row, with options of Inductor's",
    )
    add("--training", action="store_true", help="forward and backward")
    add("--seconds", metavar="S", type=float, default=2.0, help="to spend on timing each row; compiling comes on top")
    add("--svg", metavar="FILE", help="write a bar chart")
    add("-o", "--output", metavar="FOLDER", help="keep a recording of each row's cold compile")
    add_look(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the model, measure, print the table."""
    check_width(args.width)
    if not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: there must be some time to measure in")
    options = dict(map(_option, args.option))
    wanted = target(args.target, "modes")
    check_can_be_written(args.svg)
    return printed(lambda: _text(args, wanted, options))


def _text(args: argparse.Namespace, wanted: Target, options: dict[str, dict[str, Any]]) -> str:
    compare = measuring("modes", "compare_modes")
    with contextlib.redirect_stdout(sys.stderr):  # what the user's code prints is no part of the answer
        made = wanted.make(takes_phases=True)
        modes = {} if args.modes is None else {"modes": _names(args.modes)}
        result = compare(
            made.model, calls=made.calls, phases=made.phases, training=args.training, options=options,
            seconds=args.seconds, folder=args.output, each=_tell, **modes,
        )  # fmt: skip
    if args.svg:
        result.save_svg(args.svg)
    if args.json:
        return str(result.to_json()) + "\n"
    return str(result.report(width=args.width, color=False if args.no_color else None))


def _tell(result: Any, name: str) -> None:
    """One line when a row has been measured: the next may take minutes."""
    row = result.row(name)
    took = row.failure or ", ".join(f"{t.phase} {t.median * 1e3:.4g} ms" for t in row.timings)
    sys.stderr.write(f"{one_line(name)}: {one_line(took, 100)}\n")
    sys.stderr.flush()


def _names(text: str) -> Sequence[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _option(text: str) -> tuple[str, dict[str, Any]]:
    """`NAME=KEY:VALUE,…` as a row's name and its options; a comma in a value is none that a key follows."""
    name, equals, rest = text.partition("=")
    pairs = [part.partition(":") for part in re.split(r",(?=[\w.-]+:)", rest)]
    if not name or not equals or not all(key and colon for key, colon, _ in pairs):
        raise UsageError(f"--option takes NAME=KEY:VALUE,KEY:VALUE, a row's name and its options, not {text}")
    return name, {key: _value(value) for key, _, value in pairs}


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
