"""`compiler-lens profile`, `what-if` and `modes`: run a model, and print how it does."""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from compiler_lens.cli.command import FORCE, Command, argument, check_can_be_written, check_width, look, printed, write
from compiler_lens.cli.factory import CONTRACT, Target, measuring, target
from compiler_lens.recording.errors import UsageError, visible
from compiler_lens.recording.output_files import Product
from compiler_lens.recording.source_text import expression
from compiler_lens.views.text import one_line

_PROFILE_DESCRIPTION = """\
Compile a model, call it, and time every kernel on the device: the possible saving of each, measured against the least
time that this very device needs for as many bytes and operations."""

_PROFILE_EPILOG = (
    CONTRACT
    + """ Of several calls the times are those of one, on average.

  compiler-lens profile model.py:make
  compiler-lens profile model.py:make layers.3.attn      only the kernels of a LINE, a MODULE, or by NAME
  compiler-lens profile model.py:make --mode reduce-overhead --training -o run.clens
  compiler-lens show run.clens profile
"""
)

_WHAT_IF_DESCRIPTION = """\
Compile a model under each setting of torch.compile that could matter to it, as far as Dynamo goes (nothing is
generated), and count graphs, graph breaks, recompiles and frames that run eagerly."""

_WHAT_IF_EPILOG = (
    CONTRACT
    + """ One set of arguments is called twice.

  compiler-lens what-if model.py:make
  compiler-lens what-if model.py:make --json | jq .best
"""
)

_MODES_DESCRIPTION = """\
Run a model as it is and under the modes of torch.compile, each from a clean start: time per call, time to compile with
empty and with full caches, memory, kernels, error; and what the kernels of each mode do differently from default's."""

_MODES_EPILOG = (
    CONTRACT
    + """ Or, to time pieces of work apart:

  {"model": model, "phases": [compiler_lens.Phase("prefill", run, tokens=128), ...]}     run(model) does the work

  compiler-lens modes model.py:make
  compiler-lens modes model.py:make --modes eager,default,max-autotune --svg modes.svg -o recordings
  compiler-lens modes model.py:make --option "tuned=mode:max-autotune,max_autotune_conv_backends:ATEN"
"""
)

_LOG_LEVEL = "KINETO_LOG_LEVEL"


def _answer(result: Any, args: argparse.Namespace, *part: str) -> str:
    """What was measured, as it is asked for."""
    if args.json:
        return str(result.to_json(*part)) + "\n"
    return str(result.report(*part, width=args.width, color=args.color))


# -- profile


def profile(args: argparse.Namespace) -> int:
    """Make the model, time it, print the table."""
    check_width(args.width)
    wanted = target(args.target, "profile")
    check_can_be_written(args.output, Product.RECORDING, overwrite=args.force)
    with _quiet_profiler():
        return printed(partial(_profile, wanted), args)


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


def _profile(wanted: Target, args: argparse.Namespace) -> str:
    with contextlib.redirect_stdout(sys.stderr):  # what the user's code prints is no part of the answer
        made = wanted.make()
        result = measuring("profile", "profile")(
            made.model, calls=made.calls, mode=args.mode, path=args.output, overwrite=args.force,
            training=args.training, repeats=args.repeats,
        )  # fmt: skip
    if args.output and not result.path:
        sys.stderr.write(f"compiler-lens: {visible(args.output)} could not be written to its end\n")
    try:
        return _answer(result, args, args.part)
    except UsageError:  # what was measured is shown all the same
        write(_answer(result, args, ""))
        raise


# -- what-if


def what_if(args: argparse.Namespace) -> int:
    """Make the model, try, print the table."""
    check_width(args.width)
    wanted = target(args.target, "what-if")
    return printed(partial(_what_if, wanted), args)


def _what_if(wanted: Target, args: argparse.Namespace) -> str:
    with contextlib.redirect_stdout(sys.stderr):  # as above
        made = wanted.make()
        tried = measuring("what-if", "what_if")
        result = tried(made.model, calls=made.calls * (1 if made.several else 2), training=args.training)
    return _answer(result, args)


# -- modes


def modes(args: argparse.Namespace) -> int:
    """Make the model, measure, print the table."""
    check_width(args.width)
    if not args.seconds > 0:
        raise UsageError(f"--seconds {args.seconds:g}: there must be some time to measure in")
    options = dict(map(_option, args.option))
    wanted = target(args.target, "modes")
    check_can_be_written(args.svg, Product.PICTURE, overwrite=args.force)
    return printed(partial(_modes, wanted, options), args)


def _modes(wanted: Target, options: dict[str, dict[str, Any]], args: argparse.Namespace) -> str:
    compare = measuring("modes", "compare_modes")
    names = {}
    if args.modes is not None:
        names["modes"] = [name.strip() for name in args.modes.split(",") if name.strip()]
    with contextlib.redirect_stdout(sys.stderr):  # as above
        made = wanted.make(takes_phases=True)
        result = compare(
            made.model, calls=made.calls, phases=made.phases, training=args.training, options=options,
            seconds=args.seconds, folder=args.output, overwrite=args.force, each=_tell, **names,
        )  # fmt: skip
    if args.svg:
        result.save_svg(args.svg, overwrite=args.force)
    return _answer(result, args)


def _tell(result: Any, name: str) -> None:
    """One line when a row has been measured: the next may take minutes."""
    row = result.row(name)
    took = row.failure or ", ".join(f"{t.phase} {t.median * 1e3:.4g} ms" for t in row.timings)
    sys.stderr.write(f"{one_line(name)}: {one_line(took, 100)}\n")
    sys.stderr.flush()


def _option(text: str) -> tuple[str, dict[str, Any]]:
    """`NAME=KEY:VALUE,…` as a row's name and its options; a comma in a value is none that a key follows."""
    name, equals, rest = text.partition("=")
    pairs = [part.partition(":") for part in re.split(r",(?=[\w.-]+:)", rest)]
    if not name or not equals or not all(key and colon for key, colon, _ in pairs):
        raise UsageError(f"--option takes NAME=KEY:VALUE,KEY:VALUE, a row's name and its options, not {text}")
    values: dict[str, Any] = {}
    for key, _, value in pairs:
        word = {"true": "True", "false": "False", "none": "None"}.get(value.lower(), value)
        try:
            values[key] = ast.literal_eval(expression(word.strip()))
        except (ValueError, SyntaxError):
            values[key] = value
    return name, values


_TARGET = argument("target", metavar="FILE:FACTORY", help="a Python file, and the function that makes the model")

COMMANDS = {
    "profile": Command(
        run=profile,
        help="time every kernel of a model, and say how good each is",
        usage="FILE:FACTORY [LINE | MODULE | NAME] [--mode M] [--training] [--repeats N] [-o REC]\n"
        "         [--force] [--json] [--width N] [--no-color]",
        description=_PROFILE_DESCRIPTION,
        epilog=_PROFILE_EPILOG,
        arguments=(
            _TARGET,
            argument(
                "part", metavar="PART", nargs="?", default="",
                help="a line, model.py:41, a module, layers.3.attn, or a kernel's name",
            ),
            argument("--mode", metavar="M", help="of torch.compile: reduce-overhead, max-autotune, …"),
            argument("--training", action="store_true", help="run a backward after each call"),
            argument("--repeats", metavar="N", type=int, help="calls to time; by default half a second of them"),
            argument("-o", "--output", metavar="REC", help="keep the recording, with the profile in it"),
            FORCE,
            *look(),
        ),
    ),
    "what-if": Command(
        run=what_if,
        help="try settings on a model, and count what each would do",
        usage="FILE:FACTORY [--training] [--json] [--width N] [--no-color]",
        description=_WHAT_IF_DESCRIPTION,
        epilog=_WHAT_IF_EPILOG,
        arguments=(
            _TARGET,
            argument("--training", action="store_true", help="run a backward after each call"),
            *look(),
        ),
    ),
    "modes": Command(
        run=modes,
        help="measure a model under modes of torch.compile, and say which to use",
        usage="FILE:FACTORY [--modes A,B] [--option NAME=KEY:VALUE,...] [--training] [--seconds S]\n"
        "         [--svg FILE] [-o FOLDER] [--force] [--json] [--width N] [--no-color]",
        description=_MODES_DESCRIPTION,
        epilog=_MODES_EPILOG,
        arguments=(
            _TARGET,
            argument(
                "--modes", metavar="A,B", help="rows to measure: eager, default, reduce-overhead, …; by default all"
            ),
            argument(
                "--option", metavar="NAME=KEY:VALUE,...", action="append", default=[],
                help="one more row, with options of Inductor's",
            ),
            argument("--training", action="store_true", help="forward and backward"),
            argument(
                "--seconds", metavar="S", type=float, default=2.0,
                help="to spend on timing each row; compiling comes on top",
            ),
            argument("--svg", metavar="FILE", help="write a bar chart"),
            argument("-o", "--output", metavar="FOLDER", help="keep a recording of each row's cold compile"),
            FORCE,
            *look(),
        ),
    ),
}  # fmt: skip
