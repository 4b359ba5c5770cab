"""Names that tests of another version of PyTorch import, and this one lacks: so that the file's other tests run.

A condition that is missing (`HAS_CUDA`) is false; what is decorated by something missing is skipped; a test that needs
such a name itself fails, in every run alike.
"""

from __future__ import annotations

import ast
import importlib
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Missing:
    """Stands for a name that this torch does not have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        is_decorator = len(args) == 1 and not kwargs and (isinstance(args[0], type) or hasattr(args[0], "__code__"))
        return unittest.skip(f"this torch has no {self._name}")(args[0]) if is_decorator else self

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (object,)


def supply_missing_names(path: Path, known: set[Path]) -> None:
    """Put a `Missing` wherever a file of tests, or one that it imports from beside it, imports what torch lacks."""
    if path in known:
        return
    known.add(path)
    for module, name in _imported(path):
        if module.startswith("torch"):
            _supply(module, name)
        else:
            for beside in _beside(path, module, name):
                supply_missing_names(beside, known)


def _imported(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def _beside(path: Path, module: str, name: str) -> Iterator[Path]:
    """The files that a module's name may mean: from the file's folder, and from the two above."""
    for dotted in (module, f"{module}.{name}".strip(".")):
        for folder in path.parents[:3]:
            file = folder.joinpath(*dotted.split(".")).with_suffix(".py")
            if dotted and file.is_file():
                yield file


def _supply(place: str, name: str) -> None:
    try:
        module = importlib.import_module(place)
    except Exception:  # noqa: BLE001 -- torch lacks it as a whole: the tests' own import says so
        return
    if name in {"", "*"} or hasattr(module, name):
        return
    try:
        importlib.import_module(f"{place}.{name}")
    except ImportError:
        setattr(module, name, Missing(f"{place}.{name}"))
