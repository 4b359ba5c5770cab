"""What a program's own lines log, whatever handlers make of it: a change may have them say something else."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from typing import Any

from compiler_lens.capture.torch_api.frames import Sees, have_dynamo_see
from compiler_lens.capture.torch_api.places import Function, Place, put_in
from compiler_lens.recording.own_files import is_own

_HANDLE = Place("logging", "Logger.handle", "what is logged", ("record",))
_MOST = 1 << 20  # characters


class OwnLog:
    """Keeps messages that the user's own lines log and a logger lets through."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._left = _MOST

    @contextlib.contextmanager
    def hearing(self) -> Iterator[None]:
        """Hear of all messages while the block runs."""
        undo = put_in(_HANDLE.find(), self._round)
        # It runs where Dynamo breaks a graph to log; `put_in` has made code of its own of it.
        have_dynamo_see(Sees.WHAT_IT_CALLS, [logging.Logger.handle.__code__])
        have_dynamo_see(Sees.NOTHING, [OwnLog._hear.__code__])
        try:
            yield
        finally:
            undo()

    def _round(self, original: Function) -> Function:
        @functools.wraps(original)
        def handle(logger: logging.Logger, record: logging.LogRecord) -> Any:
            self._hear(record)
            return original(logger, record)

        return handle

    def _hear(self, record: logging.LogRecord) -> None:
        if self._left <= 0 or not is_own(record.pathname):
            return
        with contextlib.suppress(Exception):  # arguments that do not fit the text: its handlers complain of that
            said = f"{record.levelname} {record.getMessage()}"
            self._left -= len(said)
            self.said.append(said)
