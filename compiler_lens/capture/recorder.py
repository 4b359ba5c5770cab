"""Recorder: a backend for `torch.compile` that records. What a user holds of it is `compiler_lens.Lens`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from compiler_lens.capture import asked, doors, hooks, late_hooks
from compiler_lens.capture.session import Session, SessionOwner
from compiler_lens.capture.tap import ANCHOR, Tap, open_tap
from compiler_lens.capture.torch_api import inductor, structured_trace
from compiler_lens.decode.fold import collector_paused, fold
from compiler_lens.recording.errors import UsageError, writing
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import whole
from compiler_lens.recording.journal_reader import parse_journal
from compiler_lens.recording.model import CaptureProblem, Recording
from compiler_lens.recording.output_files import Product, write_whole

if TYPE_CHECKING:
    from typing_extensions import Self


class Delegates:
    """Hands over to Inductor as `torch.compile(backend="inductor")` would: a wrapper for each mode and its options."""

    def __init__(self) -> None:
        self._wrappers: list[tuple[Any, Callable[..., Any]]] = []

    def wrapper(self, mode: str | None, options: dict[str, Any] | None, name: str | None) -> Callable[..., Any]:
        """Return the wrapper for a mode and options, made at its first use. Raises what torch raises for others."""
        # torch hands over the user's own dict, who may change it for the next model.
        key = (mode, dict(options) if options else options, name)
        for known, wrapper in self._wrappers:
            if known == key:
                return wrapper
        wrapper = inductor.inductor_wrapper(mode, options, name)
        self._wrappers.append((key, wrapper))
        return wrapper

    def reset(self) -> None:
        """Forget CUDA graph pools, as `torch.compiler.reset()` asks of a backend."""
        for _, wrapper in self._wrappers:
            wrapper.reset()  # type: ignore[attr-defined]


class Recorder(SessionOwner):
    """Records what the compiler does, and lets Inductor do it; see `compiler_lens.Lens` for its arguments."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        strict: bool = False,
        progress: bool = True,
        overwrite: bool = False,
        notes_stance: bool = True,  # the one in force: False where it is of ours
    ) -> None:
        target = None if path is None else Path(os.fspath(path).replace("{pid}", str(os.getpid()))).absolute()
        self.__name__ = "compiler_lens"  # torch names a backend by it in its own messages
        self._delegates = Delegates()
        self._progress = _open_progress() if progress else None
        listener = self._progress.event if self._progress else None
        self._session = Session(target, strict=strict, overwrite=overwrite, listener=listener)
        if self.path is not target and self.path is not None:  # to compare paths takes them apart
            self._session.problem("journal", f"{target} is being recorded to already: this recording is {self.path}")
        try:
            at_once = (*hooks.DYNAMO_HOOKS, *doors.DOOR_HOOKS, *asked.ASKED_HOOKS, *late_hooks.GUARD_HOOKS)
            self._tap = open_tap(self._session, at_once)
        except BaseException:
            self._session.journal.close()
            raise
        asked.hear_forks()
        if notes_stance:
            self._tap.safely("stance", asked.look_at_stance, self._tap, self._session)
        self._finalizer = weakref.finalize(self, _close, self._tap, self._session, self._progress)

    # -- as a backend

    def __call__(
        self,
        gm: Any,
        example_inputs: Any,
        *,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
        name: str | None = None,
        **others: Any,
    ) -> Any:
        """Compile a Dynamo graph with Inductor. Called by torch."""
        return self._delegates.wrapper(mode, options, name)(gm, example_inputs, **others)

    def reset(self) -> None:
        """Forget CUDA graph pools, not the recording: torch calls it in `torch.compiler.reset()`."""
        self._delegates.reset()

    # -- as a recorder

    @property
    def path(self) -> Path | None:
        """The file that the recording is written to."""
        return self._session.journal.path

    @property
    def recording(self) -> Recording:
        """Everything recorded so far."""
        self._tap.tell_timed()
        self._tap.safely("hooks of modules", late_hooks.look_at_tables, self._tap)
        self._session.tell_eager()
        self._session.tell_forks()
        with collector_paused():
            events, problems = parse_journal(self._session.journal.contents(), str(self.path or "the recording"))
            if self._session.journal.failure:
                problems += (CaptureProblem("journal", self._session.journal.failure),)
            problems += tuple(CaptureProblem(where, message) for where, message in self._session.unwritten)
            return fold(events, problems, strict=self._session.strict)

    @property
    def overhead_seconds(self) -> float:
        """Seconds of processor time of our own code inside of compilations, in this process, for all open lenses."""
        return self._tap.seconds

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the recording so far to a file. Raises `RecordingFileError` where it cannot be written.

        A recording that is there is written over; for any other file this raises `UsageError`, unless `overwrite`.
        """
        self._tap.tell_timed()
        journal = self._session.journal
        with writing(path):
            if journal.is_open_at(Path(path)):  # it holds everything, and goes on
                return Path(path)
            return write_whole(path, whole(journal.contents()), Product.RECORDING, overwrite=overwrite)

    def close(self) -> None:
        """Stop recording. What was compiled goes on working, and so does this object as a backend."""
        self._finalizer()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise UsageError("this lens is closed and records nothing more: make a new one")

    def __enter__(self) -> Self:
        self._check_open()
        self._session.everything += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.everything -= 1
        if self._session.everything == 0:
            self.close()

    def __deepcopy__(self, _memo: Any) -> Self:
        """A copy of a compiled model is recorded by the same lens."""
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A compiled model may be pickled, as with Inductor. What is loaded compiles, and records nothing."""
        return _closed, (type(self),)


# -- for measurements: functions, as a user of a lens needs none of them


def note(recorder: Recorder, name: str, meta: dict[str, Any]) -> None:
    """Add an event of our own to a recording."""
    recorder._session.take(Event(name, time.time(), meta=meta))


def whole_file(recorder: Recorder) -> str:
    """Return where the whole recording is; empty where it is in no file."""
    return "" if recorder.path is None or recorder._session.journal.failure else str(recorder.path)


def alone(recorder: Recorder) -> contextlib.AbstractContextManager[None]:
    """Record what this thread compiles in the block, and let no other recorder hear of it."""
    return recorder._tap.alone(recorder._session)


@contextlib.contextmanager
def recorded(path: Path | None = None, *, overwrite: bool = False, notes_stance: bool = True) -> Iterator[Recorder]:
    """Record all that the block compiles, and let no other recorder hear of it."""
    recorder = Recorder(path, progress=False, overwrite=overwrite, notes_stance=notes_stance)
    with contextlib.closing(recorder), recorder, alone(recorder):
        yield recorder


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Keep what this thread does in the block from all recorders."""
    with recorded(notes_stance=False) if is_anybody_recording() else contextlib.nullcontext():
        yield


def complete(recorder: Recorder) -> None:
    """Put in what could not be put in before: torch was half imported when the recorder was made."""
    recorder._tap.safely("hooks", recorder._tap.install_late)


def is_anybody_recording() -> bool:
    """Return whether a lens is open in this process."""
    tap = vars(structured_trace.trace_logger()).get(ANCHOR)
    return tap is not None and bool(tap.sessions)


def _closed(kind: type[Recorder]) -> Recorder:
    recorder = kind(progress=False)
    recorder.close()
    return recorder


def _open_progress() -> Any:
    try:
        if sys.stderr is None or not sys.stderr.isatty():
            return None
    except (AttributeError, OSError, ValueError):  # closed, or something else in its place
        return None
    from compiler_lens.capture.progress import Progress

    return Progress(sys.stderr)


def _close(tap: Tap, session: Session, progress: Any) -> None:
    try:
        with contextlib.suppress(Exception):  # what is lost costs less than a hook of ours left behind
            tap.safely("hooks of modules", late_hooks.tell_all, tap)
        tap.dismiss(session)
        late_hooks.forget(tap)
    finally:
        session.close()
        if progress is not None:
            progress.close()
