"""What a run of a program writes outside of its process, where another run at the same time would meet it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_WRITING = os.O_WRONLY | os.O_RDWR
# Python's audit events of what only one process does at a time, or of what nothing is heard of.
_ALONE = frozenset({"os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "socket.bind", "sqlite3.connect",
                    "fcntl.flock", "fcntl.lockf", "os.lockf", "subprocess.Popen", "os.system",
                    "os.posix_spawn"})  # fmt: skip
_OWN_CACHE = f"{os.sep}__pycache__{os.sep}"  # Python's, which it puts in place whole


class Outside:
    """Hears what this process writes and reads from here on: to its end, for Python forgets no audit hook.

    Args:
        own: a folder of ours, which is no other run's.
    """

    def __init__(self, own: Path) -> None:
        self._own = os.path.realpath(own)
        self._written: set[str] = set()
        self._read: set[str] = set()
        self._is_met = False
        self._is_over = False

    @property
    def is_met(self) -> bool:
        """Whether another run at the same time would meet this one."""
        is_in_group = torch.distributed.is_available() and torch.distributed.is_initialized()
        return self._is_met or is_in_group or "multiprocessing.shared_memory" in sys.modules

    def hear(self) -> None:
        """Begin."""
        sys.addaudithook(self._hear)
        self._hear_torch(torch, "save", self._saved)  # which opens its file where Python does not hear of it
        if torch.distributed.is_available():
            self._hear_torch(torch.distributed, "init_process_group", self._met)

    @staticmethod
    def _hear_torch(module: Any, name: str, hear: Callable[..., object]) -> None:
        original = getattr(module, name)

        @functools.wraps(original)
        def heard(*args: Any, **kwargs: Any) -> Any:
            hear(*args, **kwargs)
            return original(*args, **kwargs)

        setattr(module, name, heard)

    def _saved(self, _object: Any = None, f: Any = None, *_: Any, **_more: Any) -> None:
        if isinstance(f, (str, os.PathLike)):
            self._open(os.fspath(f), os.O_WRONLY)

    def _met(self, *_: Any, **_more: Any) -> None:
        self._is_met = True

    def end(self) -> None:
        """Hear nothing more: what follows is ours."""
        self._is_over = True

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._is_over or (event != "open" and event not in _ALONE):
            return
        if event != "open":
            self._is_met |= not any(isinstance(one, str) and _OWN_CACHE in one for one in args)
        elif isinstance(args[0], (str, bytes)):
            self._open(os.fsdecode(args[0]), args[2] if isinstance(args[2], int) else 0)

    def _open(self, name: str, flags: int) -> None:
        """Note a file that is opened: one that is written and read may be another run's by then."""
        with contextlib.suppress(OSError, ValueError):  # no path at all: whoever opens it is told so
            path = os.path.realpath(name)
            if path == os.devnull or path.startswith(f"{self._own}{os.sep}") or _OWN_CACHE in path:
                return
            (self._written if flags & _WRITING else self._read).add(path)
            is_both = flags & os.O_RDWR and not flags & os.O_APPEND
            self._is_met |= bool(is_both) or path in self._written & self._read
