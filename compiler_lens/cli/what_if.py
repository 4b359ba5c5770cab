"""`compiler-lens what-if`: try the settings that could matter on a model, and print what each would do."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from compiler_lens.cli.output import check_width, printed
from compiler_lens.errors import UsageError

_DESCRIPTION = """\
Compile a model under each setting of torch.compile that could matter to it, as far as Dynamo goes (nothing is
generated), and count graphs, graph breaks, recompiles and frames that run eagerly."""

_EPILOG = """\
FACTORY is a function of FILE, without parameters. It returns one of

  model, args                       args a tuple, or the only argument
  model, args, kwargs
  {"model": model, "calls": [(args, kwargs), ...]}     calls that differ, in sizes for example

and model is a module or any function. One set of arguments is called twice.

  compiler-lens what-if model.py:make
  compiler-lens what-if model.py:make --json | jq .best
"""

_SHAPES = "(model, args), (model, args, kwargs) or {'model': …, 'calls': [(args, kwargs), …]}"
_SHOWN = 4  # lines of a traceback of the user's


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
    parser.add_argument("--json", action="store_true", help="for programs: the same facts as JSON")
    parser.add_argument("--width", metavar="N", type=int, help="columns; by default the terminal's, 80 without one")
    parser.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR=1 does the same")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the model, try, print the table."""
    check_width(args.width)
    file, name = _target(args.target)
    return printed(lambda: _text(args, file, name))


def _text(args: argparse.Namespace, file: Path, name: str) -> str:
    with contextlib.redirect_stdout(sys.stderr):  # what the user's code prints is no part of the answer
        model, calls = _made(_factory(file, name), f"{name}() in {file}")
        result = _what_if()(model, calls=calls, training=args.training)
    return str(result.to_json() + "\n" if args.json else result.report(**_look(args)))


def _look(args: argparse.Namespace) -> dict[str, Any]:
    return {"width": args.width, "color": False if args.no_color else None}


def _what_if() -> Callable[..., Any]:
    try:
        from compiler_lens.measure.what_if import what_if
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError("what-if runs the model: it needs torch in this Python") from error
    return what_if


def _target(text: str) -> tuple[Path, str]:
    file, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"which function of it makes the model? compiler-lens what-if {file or text}:FACTORY")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"no such file: {file}")
    return path, name


def _factory(file: Path, name: str) -> Callable[[], Any]:
    module = _imported(file)
    factory = getattr(module, name, None)
    if callable(factory):
        return factory  # type: ignore[no-any-return]
    if hasattr(module, name):
        raise UsageError(f"{name} in {file} is no function: it must return {_SHAPES}")
    from compiler_lens.analysis.select import nearest

    there = {n: None for n, value in vars(module).items() if callable(value) and not n.startswith("_")}
    meant = nearest(name, there)
    raise UsageError(f"no {name} in {file}{f': did you mean {meant}?' if meant else ''}")


def _imported(file: Path) -> ModuleType:
    """The file as a module of its own name, with its folder first on the path, as if it were run."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.absolute().parent))
    sys.modules.setdefault(file.stem, module)  # where dataclasses and pickle look for what is defined in it
    _called(lambda: spec.loader.exec_module(module), f"importing {file}")  # type: ignore[union-attr]
    return module


def _made(factory: Callable[[], Any], told: str) -> tuple[Any, Any]:
    """What a factory returned: a model, and its calls."""
    made = _called(factory, told)
    if isinstance(made, Mapping) and {"model", "calls"} == set(made):
        return made["model"], made["calls"]
    if isinstance(made, (tuple, list)) and len(made) in {2, 3} and callable(made[0]):
        args = made[1] if isinstance(made[1], (tuple, list)) else (made[1],)
        kwargs = made[2] if len(made) > 2 else {}  # noqa: PLR2004
        if isinstance(kwargs, Mapping):
            return made[0], [(tuple(args), dict(kwargs))] * 2
    raise UsageError(f"{told} returned {_shape(made)}: it must return {_SHAPES}")


def _shape(made: Any) -> str:
    if isinstance(made, (tuple, list)):
        return f"({', '.join(type(item).__name__ for item in made)})"
    return f"{{{', '.join(map(repr, made))}}}" if isinstance(made, Mapping) else type(made).__name__


def _called(step: Callable[[], Any], told: str) -> Any:
    """Run code of the user's. Raises `UsageError` with their lines, if it fails."""
    try:
        return step()
    except (Exception, SystemExit) as error:
        from compiler_lens.analysis.ownership import is_own
        from compiler_lens.render.text import one_line

        head = f"{told} raised {type(error).__name__}: {one_line(str(error))}"
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
        lines = [f"  {Path(f.filename).name}:{f.lineno}  {one_line(f.line or '')}" for f in frames[-_SHOWN:]]
        raise UsageError("\n".join([head, *lines])) from error
