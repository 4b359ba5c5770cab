"""FILE:FACTORY on a command line: the function of the user's that makes a model and the inputs to call it with."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

import compiler_lens
from compiler_lens.recording.errors import UsageError

# What the help of a command says of it.
CONTRACT = """\
FACTORY is a function of FILE, without parameters. It returns one of

  model, args                       args a tuple, or the only argument
  model, args, kwargs
  {"model": model, "calls": [(args, kwargs), ...]}     calls that differ, in sizes for example

and model is a module or any function."""

_SHAPES = "(model, args), (model, args, kwargs) or {'model': …, 'calls': [(args, kwargs), …]}"
_SHOWN = 4  # lines of a traceback of the user's


class Made(Struct, frozen=True):
    """What a factory returned."""

    model: Any
    calls: Any  # [(args, kwargs), …] as given
    several: bool  # the factory gave a list of calls, not one set of arguments
    phases: Any = None  # pieces of work in place of calls, for a command that takes them


class Target(Struct, frozen=True):
    """FILE:FACTORY, both there as far as can be seen without running anything."""

    file: Path
    name: str

    def make(self, *, takes_phases: bool = False) -> Made:
        """Run the file, and the function. Raises `UsageError` where that fails, or returns something else."""
        spec = importlib.util.spec_from_file_location(self.file.stem, self.file)
        if spec is None or spec.loader is None:
            raise UsageError(f"{self.file} is not a Python file")
        # A module of its own name, with its folder first on the path, as if it were run.
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(self.file.absolute().parent))
        sys.modules.setdefault(self.file.stem, module)  # where dataclasses and pickle look for what is defined in it
        _called(partial(spec.loader.exec_module, module), f"importing {self.file}")
        factory = getattr(module, self.name, None)
        if callable(factory):
            return _made(factory, f"{self.name}() in {self.file}", takes_phases=takes_phases)
        if hasattr(module, self.name):
            raise UsageError(f"{self.name} in {self.file} is not a function: it must return {_SHAPES}")
        from compiler_lens.facts.program.select import nearest

        there = {n: None for n, value in vars(module).items() if callable(value) and not n.startswith("_")}
        meant = nearest(self.name, there)
        raise UsageError(f"no {self.name} in {self.file}{f': did you mean {meant}?' if meant else ''}")


def target(text: str, command: str) -> Target:
    """What is typed, split. Raises `UsageError` where no function is named, or the file is not there."""
    file, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise UsageError(f"which function of it makes the model? compiler-lens {command} {file or text}:FACTORY")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"no such file: {file}")
    return Target(path, name)


def measuring(command: str, name: str) -> Callable[..., Any]:
    """Return a public function that runs models, for a command. Raises `UsageError` where there is no torch."""
    if importlib.util.find_spec("torch") is None:
        raise UsageError(f"{command} runs the model: it needs torch in this Python")
    return getattr(compiler_lens, name)  # type: ignore[no-any-return]


def _made(factory: Callable[[], Any], told: str, *, takes_phases: bool) -> Made:
    made = _called(factory, told)
    if takes_phases and isinstance(made, Mapping) and {"model", "phases"} == set(made):
        return Made(made["model"], None, several=False, phases=made["phases"])
    if isinstance(made, Mapping) and {"model", "calls"} == set(made):
        return Made(made["model"], made["calls"], several=True)
    if isinstance(made, (tuple, list)) and len(made) in {2, 3} and callable(made[0]):
        args = made[1] if isinstance(made[1], (tuple, list)) else (made[1],)
        kwargs = made[2] if len(made) > 2 else {}  # noqa: PLR2004
        if isinstance(kwargs, Mapping):
            return Made(made[0], [(tuple(args), dict(kwargs))], several=False)
    shape = type(made).__name__
    if isinstance(made, (tuple, list)):
        shape = f"({', '.join(type(item).__name__ for item in made)})"
    elif isinstance(made, Mapping):
        shape = f"{{{', '.join(map(repr, made))}}}"
    raise UsageError(f"{told} returned {shape}: it must return {_SHAPES}")


def _called(step: Callable[[], Any], told: str) -> Any:
    """Run code of the user's. Raises `UsageError` with their lines, if it fails."""
    try:
        return step()
    except (Exception, SystemExit) as error:
        from compiler_lens.recording.own_files import is_own
        from compiler_lens.views.text import one_line

        head = f"{told} raised {type(error).__name__}: {one_line(str(error))}"
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_own(frame.filename)]
        lines = [f"  {Path(f.filename).name}:{f.lineno}  {one_line(f.line or '')}" for f in frames[-_SHOWN:]]
        raise UsageError("\n".join([head, *lines])) from error
