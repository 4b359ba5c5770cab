"""What a run of a program writes outside of its process, where another run at the same time would meet it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from pathlib import Path
from typing import Any

import torch

_WRITING = os.O_WRONLY | os.O_RDWR
# Python's audit events of what only one process does at a time: a name is taken, or something is gone.
_ALONE = frozenset({"os.rename", "os.remove", "shutil.rmtree", "socket.bind", "sqlite3.connect", "fcntl.flock",
                    "fcntl.lockf", "os.lockf"})  # fmt: skip


class Outside:
    """Hears what this process writes and reads from here on: to its end, for Python forgets no audit hook.

    Args:
        own: a folder of ours, which is no other run's.
    """

    def __init__(self, own: Path) -> None:
        self._own = os.path.realpath(own)
        self._written: set[str] = set()
        self._is_met = False
        self._is_over = False

    @property
    def is_met(self) -> bool:
        """Whether another run at the same time would meet this one."""
        return self._is_met or (torch.distributed.is_available() and torch.distributed.is_initialized())

    def hear(self) -> None:
        """Begin."""
        sys.addaudithook(self._hear)
        save = torch.save  # which opens its file where Python does not hear of it

        @functools.wraps(save)
        def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            if isinstance(f, (str, os.PathLike)):
                self._open(os.fspath(f), is_written=True)
            save(obj, f, *args, **kwargs)

        torch.save = saved

    def end(self) -> None:
        """Hear nothing more: what follows is ours."""
        self._is_over = True

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _ALONE and not self._is_over:
            self._is_met = True
        elif event == "open" and not self._is_over:
            file, _, flags = args
            if isinstance(file, (str, bytes)):
                self._open(os.fsdecode(file), is_written=isinstance(flags, int) and bool(flags & _WRITING))

    def _open(self, name: str, *, is_written: bool) -> None:
        """Note a file that is opened: one that is written and read may be another run's by then."""
        with contextlib.suppress(OSError, ValueError):  # no path at all: whoever opens it is told so
            self._note(os.path.realpath(name), is_written=is_written)

    def _note(self, path: str, *, is_written: bool) -> None:
        if path == os.devnull or path.startswith(f"{self._own}{os.sep}"):
            return
        if is_written:
            self._written.add(path)
        elif path in self._written:
            self._is_met = True
