"""What one open lens receives: events into its journal, problems beside them; and where they were recorded."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from compiler_lens.capture.sources import source_event
from compiler_lens.capture.torch_api import settings
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import JournalWriter

_PACKAGES = ("torch", "triton", "transformers", "numpy", "compiler_lens")


class Session:
    """The recording end of a lens: its journal, and whom else to tell.

    `everything` counts the `with` blocks open on it: above zero it receives every compilation of the process,
    else only those that name its lens as backend.
    """

    def __init__(self, path: Path | None, *, strict: bool, listener: Callable[[Event], None] | None) -> None:
        self.journal = JournalWriter(path)
        self.strict = strict
        self.everything = 0
        self.unwritten: list[tuple[str, str]] = []  # problems that the journal could not take
        self._listener = listener
        self._said: set[str] = set()
        self._files: set[str] = set()  # whose text was asked for
        self.is_described = False

    def take(self, event: Event) -> None:
        """Keep one event."""
        self.journal.append(event)
        if self._listener is not None:
            self._listener(event)

    def problem(self, where: str, message: str) -> None:
        """Keep word of something that went wrong. Does not raise."""
        try:
            self.take(Event("lens.problem", time.time(), meta={"where": where, "message": message}))
        except Exception:  # noqa: BLE001 -- then the journal itself, or who listens, is what fails
            self.unwritten.append((where, message))

    def is_news(self, skip: Event) -> bool:
        """Return whether a frame's skip was not said yet: torch passes over some frames anew at every call."""
        place = f"{skip.meta['file']}:{skip.meta['line']} {skip.meta['function']} {skip.meta['reason']}"
        is_news = place not in self._said
        self._said.add(place)
        return is_news

    def describe_once(self, dynamic: bool | None) -> None:
        """Keep the environment as it is when the first frame compiles: settings are often made late."""
        if not self.is_described:
            self.is_described = True
            self.take(Event("lens.environment", time.time(), meta=describe_environment(dynamic)))

    def keep_sources(self, files: Iterable[str]) -> None:
        """Keep the text of files that were not kept yet."""
        for file in sorted(set(files) - self._files):
            self._files.add(file)
            if event := source_event(file):
                self.take(event)

    def unavailable(self, fact: str, reason: str) -> None:
        """Say once that this torch does not offer a fact."""
        if fact not in self._said:
            self._said.add(fact)
            self.take(Event("lens.unavailable", time.time(), meta={"fact": fact, "reason": reason}))


def owner_of(backend: Any) -> Session | None:
    """Return the session of a lens that is somebody's backend; None for any other backend."""
    session = getattr(backend, "_session", None)
    return session if isinstance(session, Session) else None


def describe_environment(dynamic: bool | None) -> dict[str, Any]:
    """Return the meta of a `lens.environment` event, while a frame compiles that was given this `dynamic`.

    Does not start CUDA: the program may fork yet.
    """
    import torch
    from torch import distributed

    versions: dict[str, str] = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    on_cuda = torch.cuda.is_initialized()
    is_distributed = distributed.is_available() and distributed.is_initialized()
    return {
        "torch": str(torch.__version__),  # with the build: the wheel's metadata leaves out `+cu130`
        "triton": versions.get("triton", ""),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": str(torch.cuda.get_device_name()) if on_cuda else f"CPU, {os.cpu_count()} cores",
        "threads": int(torch.get_num_threads()),
        "argv": [str(word)[:300] for word in sys.argv[:50]],
        "pid": os.getpid(),
        "rank": distributed.get_rank() if is_distributed else None,
        "config": settings.config_lines(dynamic),
        "versions": versions,
    }
