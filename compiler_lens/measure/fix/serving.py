"""A program with other texts in place of some of its files: what Python would read from disk comes from here."""

from __future__ import annotations

import builtins
import linecache
import os
import runpy
import sys
import types
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any


def serve(texts: Mapping[str, str]) -> None:
    """Have this process import these texts, by real path, in place of what the files hold; they are not touched."""
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> Any:
        text = texts.get(os.path.realpath(loader.path))
        return original(loader, fullname) if text is None else _compiled(text, loader.path)

    # Also what is loaded from its path, or run as a module, comes by it.
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def run_script(path: str, args: Sequence[str], texts: Mapping[str, str]) -> None:
    """Run a script as Python does: it is `__main__`, and its folder comes first on the path."""
    file = Path(path).absolute()
    text = texts.get(os.path.realpath(file))
    code = _compiled(text, str(file)) if text is not None else _code(file.read_bytes(), str(file))
    main = types.ModuleType("__main__")
    vars(main).update(__file__=str(file), __builtins__=builtins, __loader__=SourceFileLoader("__main__", str(file)))
    sys.modules["__main__"] = main
    sys.argv = [path, *args]
    sys.path[0] = str(file.resolve().parent)
    exec(code, vars(main))  # noqa: S102 -- the user's own program


def run_module(name: str, args: Sequence[str]) -> None:
    """Run a module as `python -m` does."""
    sys.argv = [name, *args]
    sys.path[0] = str(Path.cwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _code(text: str | bytes, file: str) -> types.CodeType:
    return compile(text, file, "exec", dont_inherit=True)


def _compiled(text: str, file: str) -> types.CodeType:
    # For tracebacks, for torch's stacks and for whoever asks for a function's source: without a date it stays.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return _code(text, file)
