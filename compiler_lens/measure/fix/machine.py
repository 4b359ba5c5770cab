"""How much of this machine runs of a program may use at once."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_GROUP = Path("/sys/fs/cgroup")  # of a container
_KILO = 1024


def cores() -> int:
    """Return how many cores this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _text(_GROUP / "cpu.max").partition(" ")
    with contextlib.suppress(ValueError):
        count = min(count, max(int(quota) // int(period), 1))
    return count


def free_memory() -> int | None:
    """Return how many bytes may still be used; None where that is not known."""
    found = [int(line.split()[1]) * _KILO for line in _text(Path("/proc/meminfo")).splitlines() if "MemAvail" in line]
    with contextlib.suppress(ValueError):
        found.append(int(_text(_GROUP / "memory.max")) - int(_text(_GROUP / "memory.current")))
    return min(found, default=None)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
