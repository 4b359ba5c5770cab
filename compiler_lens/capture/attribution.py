"""Whose is what happens now: frames under way on this thread, and the compilations that follow from them.

A compilation is known by its CompileContext object: torch keeps that object for a backward that it compiles
later, also after `torch.compiler.reset()`, when compile ids begin again at 0/0.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from compiler_lens.capture.session import Session
from compiler_lens.capture.torch_api import dynamo
from compiler_lens.recording.event import NO_ID, Event, TorchId

Sessions = tuple[Session, ...]


class FrameRecord:
    """One entry of a frame into the compiler, and what follows from it."""

    __slots__ = ("depth", "expected", "facts", "pending", "program", "refused", "run", "sessions", "torch_id")

    def __init__(self, run: int | None, sessions: Sessions, facts: Mapping[str, Any]) -> None:
        self.run = run
        self.sessions = sessions
        self.facts = facts
        self.torch_id: TorchId | None = None  # until its CompileContext is seen
        self.pending: list[Event] = []  # facts of the graph being compiled, for its sidecar
        self.refused: dict[tuple[str, str], tuple[str, tuple[Any, ...]]] = {}  # pairs not fused, until all are known
        self.expected: set[str] = set()  # names of records of torch that must come with it
        self.program = ""  # tells Dynamo graphs apart that AOTAutograd makes one of
        self.depth = 0  # of Inductor's post-grad passes, which call themselves


class _Local(threading.local):
    def __init__(self) -> None:
        self.frames: list[FrameRecord] = []
        self.outside = FrameRecord(None, (), {})
        self.is_ours = False  # our own code is running
        self.import_seconds = 0.0  # importing parts of torch early
        self.alone: Session | None = None  # the only session that hears of this thread


class Attribution:
    """Which record a moment belongs to."""

    def __init__(self) -> None:
        self.local = _Local()
        self._runs = itertools.count()
        self._latest: dict[str, tuple[TorchId, FrameRecord]] = {}
        self._records: weakref.WeakKeyDictionary[Any, FrameRecord] = weakref.WeakKeyDictionary()

    def enter(self, sessions: Sessions, facts: Mapping[str, Any]) -> FrameRecord:
        """Open the record of a frame that enters the compiler on this thread."""
        if not self.local.frames:
            self.local.outside.pending.clear()
        record = FrameRecord(next(self._runs), sessions, facts)
        self.local.frames.append(record)
        return record

    def outside(self, sessions: Sessions) -> FrameRecord:
        """Return the record of what is in no compilation: the frame's around it, or the thread's own, of *sessions*."""
        if self.local.frames:
            return self.local.frames[-1]
        self.local.outside.sessions = sessions
        return self.local.outside

    def of(self, context: Any, sessions: Sessions) -> tuple[FrameRecord, bool]:
        """Return the record of a compilation, and whether it begins with this.

        One that no frame leads to (compiled autograd's, export's, one from before we were here) is of *sessions*.
        """
        record = self._records.get(context)
        if record is not None:
            return record, False
        frames = self.local.frames
        begins = bool(frames) and frames[-1].torch_id is None
        record = frames[-1] if begins else FrameRecord(next(self._runs), sessions, {})
        record.torch_id = dynamo.torch_id(context)
        self._records[context] = record
        self._latest[str(context.compile_id)] = record.torch_id, record
        return record, begins

    def latest(self, compile_id: str) -> tuple[TorchId, FrameRecord | None]:
        """Return the last compilation that torch gave this id."""
        return self._latest.get(compile_id, (NO_ID, None))

    def forget(self, session: Session) -> None:
        """Let go of a session that was closed: compiled code lives on, and its records with it."""
        # Copies, each made in one step: other threads may be compiling.
        records = [*self._records.copy().values(), *(record for _, record in list(self._latest.values()))]
        for record in (*records, *self.local.frames):
            record.sessions = tuple(s for s in record.sessions if s is not session)
