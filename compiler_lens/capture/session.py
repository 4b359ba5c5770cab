"""What one open lens receives: events into its journal, problems beside them; and whose is what happens now.

Frames are under way on a thread, and compilations follow from them. A compilation is known by its CompileContext
object: torch keeps that object for a backward that it compiles later, also after `torch.compiler.reset()`, when compile
ids begin again at 0/0.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import mmap
import os
import platform
import sys
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from compiler_lens.capture.sources import source_event
from compiler_lens.capture.torch_api import dynamo, graphs
from compiler_lens.capture.torch_api.printed import Known
from compiler_lens.recording.errors import visible
from compiler_lens.recording.event import NO_ID, Event, TorchId
from compiler_lens.recording.journal import JournalWriter, TimedRow, encoded, unpacked

_MOST_FORKS = 256  # lines that fork: more of them share the last byte
_MOST_CALLS = 10_000  # eager calls that wait to be told


class Session:
    """The recording end of a lens: its journal, and whom else to tell.

    `everything` counts the `with` blocks open on it: above zero it receives every compilation of the process,
    else only those that name its lens as backend.
    """

    def __init__(
        self, path: Path | None, *, strict: bool, overwrite: bool, listener: Callable[[Event], None] | None
    ) -> None:
        self.journal = JournalWriter(path, overwrite=overwrite)
        self.strict = strict
        self.everything = 0
        self.unwritten: list[tuple[str, str]] = []  # problems that the journal could not take
        self._listener = listener
        self.only_writes = listener is None  # nobody else is told of an event as it comes
        self._said: set[str | bytes] = set()
        self._files: set[str] = set()  # whose text was asked for
        self._has_failed = False
        # Calls under a stance, until they are told. No lock: a signal's handler may call, and a fork have it held.
        self._eager: deque[tuple[str, str, int]] = deque()
        self._forks: dict[tuple[str, int], int] = {}  # lines that fork, and which byte of the memory below is of each
        self._compiling: mmap.mmap | None = None  # shared with the forks: 1 where one has compiled
        self._pid = os.getpid()
        self._forking: dict[int, int] = {}  # the byte of the fork that each thread makes: a fork finds its own here
        self.is_described = False
        self._say_failure()

    def take(self, event: Event, *, waits: bool = False) -> None:
        """Keep one event; where it waits, it is written with the next."""
        if self._compiling is not None and event.name == "lens.frame_start" and (fork := self._own_fork()) is not None:
            self._compiling[fork] = 1
        self.journal.append(event, waits=waits)
        if self.journal.failure:
            self._say_failure()
        if self._listener is not None:
            for one in unpacked(event):
                self._listener(one)

    @property
    def is_watched(self) -> bool:
        """Whether somebody wants to hear of each event as it comes."""
        return self._listener is not None

    def count_eager(self, call: tuple[str, str, int]) -> None:
        """Count a call that a stance makes eager; it is told with all others of its function."""
        self._eager.append(call)
        if len(self._eager) >= _MOST_CALLS:
            self.tell_eager()

    def tell_eager(self) -> None:
        """Note how many calls ran eagerly since this was last told."""
        counted: Counter[tuple[str, str, int]] = Counter()
        with contextlib.suppress(IndexError):
            while True:
                counted[self._eager.popleft()] += 1
        for (function, file, line), calls in counted.items():
            facts = {"function": function, "file": file, "line": line, "calls": calls}
            self.take(Event("lens.eager_calls", time.time(), meta=facts))

    def begin_fork(self, at: tuple[str, int]) -> None:
        """Note that a line is about to fork: whether that process compiles, it can say in memory that both have.

        What a fork forks has the fork's place there.
        """
        if os.getpid() != self._pid:
            if (fork := self._own_fork()) is not None:
                self._forking[threading.get_ident()] = fork
            return
        if self._compiling is None:
            self._compiling = mmap.mmap(-1, _MOST_FORKS)
            self.only_writes = False
        fork = self._forks.setdefault(at, len(self._forks))
        self._forking[threading.get_ident()] = min(fork, _MOST_FORKS - 1)

    def _own_fork(self) -> int | None:
        """Which fork this process is: the thread that made it is its main one. None where it is none, or not known."""
        return self._forking.get(threading.main_thread().ident or 0) if os.getpid() != self._pid else None

    def tell_forks(self) -> None:
        """Note which lines forked processes that have compiled so far."""
        for (file, line), fork in self._forks.items():
            compiled = self._compiling is not None and bool(self._compiling[min(fork, _MOST_FORKS - 1)])
            event = Event("lens.child", time.time(), meta={"file": file, "line": line, "compiled": compiled})
            if self.is_first(event):
                self.take(event)

    def close(self) -> None:
        """Let go of the file."""
        self.tell_eager()
        self.tell_forks()
        self.journal.close()
        self._say_failure()

    def _say_failure(self) -> None:
        """Say once that the file does not hold everything: whoever counts on it may never ask for the report."""
        # Where the file is gone: a folder of tests goes, and is meant to.
        if self._has_failed or not self.journal.failure or self.journal.is_gone:
            return
        self._has_failed = True
        # No warning of Python's, which a filter may raise. The stream may be closed, or anything else of the user's.
        with contextlib.suppress(Exception):
            told = f"{self.journal.failure}. The recording stays in memory; lens.save(path) writes it"
            sys.stderr.write(f"compiler_lens: {visible(told)}\n")

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

    def is_first(self, event: Event) -> bool:
        """Return whether nothing like it was noted yet: a stance may be taken in each step of a loop."""
        told = encoded([event.name, event.meta])  # which takes a quarter of what their repr() does
        is_first = told not in self._said
        self._said.add(told)
        return is_first

    def describe_once(self, config: Mapping[str, str]) -> None:
        """Keep the environment as it is when the first frame compiles, with its settings, which are often made late."""
        if not self.is_described:
            self.is_described = True
            # What compiles is told next.
            self.take(Event("lens.environment", time.time(), meta=describe_environment(config)), waits=True)

    def keep_sources(self, files: Iterable[str], *, waits: bool = False) -> None:
        """Keep the text of files that were not kept yet."""
        new = set(files) - self._files
        for file in sorted(new) if new else ():
            self._files.add(file)
            if event := source_event(file):
                self.take(event, waits=waits)

    def unavailable(self, fact: str, reason: str) -> None:
        """Say once that this torch does not offer a fact."""
        if fact not in self._said:
            self._said.add(fact)
            self.take(Event("lens.unavailable", time.time(), meta={"fact": fact, "reason": reason}))


class SessionOwner:
    """What records into a session of its own: a lens."""

    _session: Session


def owner_of(backend: Any) -> Session | None:
    """Return the session of a lens that is somebody's backend; None for any other, of which no attribute is read.

    Reading one may run the user's code; so may `isinstance`, by a property `__class__`.
    """
    return vars(backend)["_session"] if issubclass(type(backend), SessionOwner) else None


_PACKAGES = ("torch", "triton", "transformers", "numpy", "compiler_lens")


@functools.cache
def _versions() -> dict[str, str]:
    """The packages that are installed. Reading a version takes half a millisecond."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


@functools.cache
def _machine() -> dict[str, str]:
    """What stays as it is while the process runs."""
    cores = f"CPU, {os.cpu_count()} cores"
    return {"python": platform.python_version(), "platform": _platform(), "device": cores}


def _platform() -> str:
    """The same as `platform.platform()`, which runs `uname -p`: no process is started in the user's program."""
    system = os.uname()
    libc = (os.confstr("CS_GNU_LIBC_VERSION") or "") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    known = (system.sysname, system.release, system.machine, libc and f"with-{libc.replace(' ', '')}")
    return "-".join(filter(None, known))


def describe_environment(config: Mapping[str, str]) -> dict[str, Any]:
    """Return the meta of a `lens.environment` event, with these settings.

    Does not start CUDA: the program may fork yet.
    """
    import torch
    from torch import distributed

    on_cuda = torch.cuda.is_initialized()
    is_distributed = distributed.is_available() and distributed.is_initialized()
    return {
        "torch": str(torch.__version__),  # with the build: the wheel's metadata leaves out `+cu130`
        "triton": _versions().get("triton", ""),
        **_machine(),
        **({"device": str(torch.cuda.get_device_name())} if on_cuda else {}),
        "threads": int(torch.get_num_threads()),
        "argv": [str(word)[:300] for word in sys.argv[:50]],
        "pid": os.getpid(),
        "rank": distributed.get_rank() if is_distributed else None,
        "config": config,
        "versions": _versions(),
    }


# -- which compilation, and whose

Sessions = tuple[Session, ...]


class Moment(Struct, frozen=True):
    """When something happens, and in which compilation."""

    record: FrameRecord
    is_inside: bool  # of a compilation, which has an id
    attempt: int
    at: float = field(default_factory=time.time)
    thread: int = field(default_factory=threading.get_ident)

    def event(self, name: str, meta: Mapping[str, Any], text: str | None = None, *, cached: bool = False) -> Event:
        """Return an event of then."""
        record = self.record
        run = record.run if self.is_inside or record.is_call else None
        torch_id = record.torch_id if self.is_inside and record.torch_id is not None else NO_ID
        return Event(name, self.at, run, torch_id, self.attempt, meta, text, self.thread, cached)


class FrameRecord(Struct, eq=False):
    """One entry of a frame into the compiler, and what follows from it."""

    run: int | None
    sessions: Sessions
    facts: Mapping[str, Any]
    torch_id: TorchId | None = None  # until its CompileContext is seen
    pending: list[Event] = field(default_factory=list)  # facts of the graph being compiled, for its sidecar
    # Pairs not fused, until all are known.
    refused: dict[tuple[str, str], tuple[str, tuple[Any, ...]]] = field(default_factory=dict)
    timed: list[tuple[TimedRow, int, int]] = field(default_factory=list)  # that wait; with their attempt and thread
    # What is noted with the next event, as of the moment beside it: the name of the step, and the step.
    later: list[tuple[str, Callable[[Moment], object], Moment]] = field(default_factory=list)
    expected: set[str] = field(default_factory=set)  # names of records of torch that must come with it
    program: str = ""  # tells Dynamo graphs apart that AOTAutograd makes one of
    depth: int = 0  # of Inductor's post-grad passes, which call themselves
    is_eager: bool = False  # its backend is torch's own that hands back the graph, and can neither crash nor hang

    @property
    def is_call(self) -> bool:
        """Whether it is a call of torch's compiler itself, without a frame of Dynamo's and its compile id."""
        return "door" in self.facts

    def keep_sources(self, files: Iterable[str], *, waits: bool = False) -> None:
        """Keep the text of files that it points to."""
        for session in self.sessions:
            session.keep_sources(files, waits=waits)


class Thread(Struct, eq=False):
    """What a thread is at."""

    frames: list[FrameRecord] = field(default_factory=list)
    outside: FrameRecord = field(default_factory=lambda: FrameRecord(None, (), {}))
    is_ours: bool = False  # our own code is running
    import_seconds: float = 0.0  # importing parts of torch early
    alone: Session | None = None  # the only session that hears of this thread
    guards: Known | None = None  # of the frame that compiles


class _Local(threading.local):
    def __init__(self) -> None:
        self.thread = Thread()


_Kept = dict[int | None, tuple[FrameRecord, "weakref.ref[Any]"]]


def _keep(records: _Kept, key: int, record: FrameRecord, *, while_alive: Any) -> None:
    """Keep a record until an object of torch's is gone. Not by a dictionary of weakref: Dynamo would see its callback.

    The garbage collector calls back where it happens to run, also in what Dynamo looks at; `dict.pop` has no frame.
    """
    records[key] = record, weakref.ref(while_alive, functools.partial(records.pop, key))


class Attribution:
    """Which record a moment belongs to."""

    def __init__(self) -> None:
        self.local = _Local()  # to ask it takes longer than what is asked for: once a function
        self._runs = itertools.count()
        self._latest: dict[str, tuple[TorchId, FrameRecord]] = {}
        # By the id of a CompileContext, a call's without one of its TracingContext: torch keeps that for the backward.
        self.by_context: _Kept = {}
        # And without either by AOTAutograd's number of the graph, as long as torch keeps that for the backward.
        self._calls: _Kept = {}

    def enter(self, sessions: Sessions, facts: Mapping[str, Any]) -> FrameRecord:
        """Open the record of a frame that enters the compiler on this thread."""
        thread = self.local.thread
        if not thread.frames:
            thread.outside.pending.clear()
        record = FrameRecord(next(self._runs), sessions, facts)
        thread.frames.append(record)
        return record

    def outside(self, sessions: Callable[[], Sessions]) -> FrameRecord:
        """Return the record of what is in no compilation: the frame's around it, or the thread's own, of *sessions*."""
        tracing, thread = dynamo.tracing_context(), self.local.thread
        if thread.frames:
            record = thread.frames[-1]
            if record.is_call and tracing is not None:
                _keep(self.by_context, id(tracing), record, while_alive=tracing)
            return record
        if later := self.by_context.get(id(tracing)):  # a backward that is compiled later
            return later[0]
        if self._calls and (later := self._calls.get(graphs.number_in_progress())):
            return later[0]
        thread.outside.sessions = sessions()
        return thread.outside

    def remember(self, number: int, graph_module: Any) -> None:
        """Note that AOTAutograd makes a graph in a call on this thread which leaves nothing else to know it by."""
        frames = self.local.thread.frames
        if frames and frames[-1].is_call and dynamo.tracing_context() is None:
            _keep(self._calls, number, frames[-1], while_alive=graph_module)

    def first_of(self, context: Any, sessions: Callable[[], Sessions]) -> tuple[FrameRecord, bool]:
        """Return the record of a compilation that is not in `by_context` yet, and whether it begins.

        One that no frame leads to (compiled autograd's, export's, one from before we were here) is of *sessions*.
        """
        frames = self.local.thread.frames
        if frames and frames[-1].is_call:  # export goes through Dynamo, and AOTInductor takes over export's compile id
            _keep(self.by_context, id(context), frames[-1], while_alive=context)
            return frames[-1], False
        begins = bool(frames) and frames[-1].torch_id is None
        record = frames[-1] if begins else FrameRecord(next(self._runs), sessions(), {})
        record.torch_id = dynamo.torch_id(context)
        _keep(self.by_context, id(context), record, while_alive=context)
        self._latest[str(context.compile_id)] = record.torch_id, record
        return record, True

    def out_of(self, record: FrameRecord) -> None:
        """Leave an entry, and all that were made in it."""
        frames = self.local.thread.frames
        if record in frames:
            del frames[frames.index(record) :]

    def latest(self, compile_id: str) -> tuple[TorchId, FrameRecord | None]:
        """Return the last compilation that torch gave this id."""
        return self._latest.get(compile_id, (NO_ID, None))

    def records(self) -> list[FrameRecord]:
        """Return the records of all compilations that torch keeps."""
        # Copies, each made in one step: other threads may be compiling.
        return [record for record, _ in (*self.by_context.values(), *self._calls.values())]

    def forget(self, session: Session) -> None:
        """Let go of a session that was closed: compiled code lives on, and its records with it."""
        latest = [record for _, record in list(self._latest.values())]
        for record in (*self.records(), *latest, *self.local.thread.frames):
            record.sessions = tuple(s for s in record.sessions if s is not session)
