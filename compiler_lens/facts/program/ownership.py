"""Whose a file is: the user's own, or a package's, torch's, the standard library's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from compiler_lens.recording.model import SourceLine

UserPaths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

# Files that nobody who uses torch.compile wrote: installed packages, the standard library, a source checkout of torch,
# code that torch generated, code without a file. `<stdin>` and `<ipython-input-3-…>` are the user's.
_NOT_OWN = re.compile(
    r"(^|/)(site-packages|dist-packages)/"
    r"|/lib(64)?/python3(\.\d+)?t?/"
    r"|^<(frozen |string>|eval_with_key>|eval with|__array_function__|unknown)"
    r"|/torchinductor_[^/]*/"
    r"|(^|/)compiler_lens/(capture/|cli/|measure/|lens\.py)"  # our own hooks stand in torch's stacks
    r"|(^|/)torch/(_dynamo|_inductor|_functorch|_higher_order_ops|_ops|_tensor|_library|nn/modules|nn/functional|nn/parallel"
    r"|fx|optim|autograd|distributed|utils/_)(/|\.|_)",
)
_MACHINERY = re.compile(r"(^|/)((site-packages|dist-packages)/torch|compiler_lens/(capture|measure))/")


@dataclass(frozen=True, slots=True)
class Ownership:
    """What counts as the user's own code.

    `paths` are files, folders or packages that are the user's besides what is not installed: `transformers`,
    `/opt/lib/python3.11/site-packages/mymodel`, `vendor/models`.
    """

    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: UserPaths = ()) -> Ownership:
        """From what a user gives: one path or several, as text or as `Path`; `.` is the working directory."""
        several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        texts = [os.fspath(path) for path in several]
        return cls(tuple(str(Path(text).absolute()) if text.startswith(".") else text for text in texts if text))

    def owns(self, file: str) -> bool:
        """Whether a file is the user's own."""
        return is_own(file) or (bool(file) and any(_is_in(_plain(file), _plain(path)) for path in self.paths))

    def innermost(self, stack: Iterable[SourceLine]) -> SourceLine | None:
        """The innermost own line of a stack (outermost first)."""
        own = [line for line in stack if self.owns(line.file)]
        return own[-1] if own else None


def is_own(file: str) -> bool:
    """Whether a file is the user's: not torch's, not an installed package's, not the standard library's."""
    return bool(file) and _NOT_OWN.search(_plain(file)) is None


def is_machinery(file: str) -> bool:
    """Whether a file is torch's or ours: its lines in a stack tell a user nothing."""
    return _MACHINERY.search(_plain(file)) is not None


def innermost_own(stack: Iterable[SourceLine]) -> SourceLine | None:
    """The innermost line of a stack (outermost first) that the user wrote."""
    return Ownership().innermost(stack)


def _plain(path: str) -> str:
    return path.replace("\\", "/").rstrip("/")


def _is_in(file: str, path: str) -> bool:
    return file == path or file.startswith(f"{path}/") or f"/{path.lstrip('./')}/" in file or file.endswith(f"/{path}")
