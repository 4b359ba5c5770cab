"""`torch.compile(model, backend="compiler_lens")`: the lens that torch loads by name.

torch loads the entry point once a process and keeps what it got in its own registry; so does `named_lens`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from compiler_lens.capture.torch_api import compat

NAME = "compiler_lens"


def named_lens() -> Any:
    """The lens behind `backend="compiler_lens"`, or None if nobody has used that name yet."""
    return compat.registered_backend(NAME)


def __getattr__(name: str) -> Any:
    if name != NAME:
        raise AttributeError(name)
    from compiler_lens.lens import Lens

    # A name in a string leaves the user no object to ask: the report at the end names the file, for closer looks.
    lens = Lens(Path(tempfile.gettempdir()) / f"compiler_lens-{os.getpid()}.clens")
    atexit.register(_report_at_exit, lens, os.getpid())
    return lens


def _report_at_exit(lens: Any, pid: int) -> None:
    if os.getpid() != pid or sys.stderr is None:  # a forked child leaves: the recording is its parent's
        return
    with contextlib.suppress(OSError, ValueError):  # the program closed it
        if lens.recording.compilations:
            print(lens.report(), file=sys.stderr)  # noqa: T201 -- its only way to speak
