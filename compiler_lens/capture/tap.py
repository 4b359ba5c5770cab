"""The process's one subscription to torch, shared by all open lenses.

a frame enters Dynamo ──► FrameRecord (whose is it?) ──┐
a trace record, a hook's observation ──────────────────┴─► Event ──► the sessions that it belongs to
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from types import FunctionType, MethodType
from typing import Any

from compiler_lens.capture.session import Attribution, FrameRecord, Moment, Session, owner_of
from compiler_lens.capture.sidecar import Entry
from compiler_lens.capture.sources import files_named
from compiler_lens.capture.torch_api import dynamo, inductor, printed, settings, structured_trace
from compiler_lens.capture.torch_api.places import (
    Found,
    HalfImportedError,
    Hook,
    NotOfferedError,
    Place,
    put_in_hook,
    without_our_frames,
)
from compiler_lens.capture.trace import Subscription, TraceHandler, cache_answer
from compiler_lens.capture.unhooked import Late, Unhooked
from compiler_lens.capture.unseen import pass_over_our_frames
from compiler_lens.recording.errors import CaptureError
from compiler_lens.recording.event import NO_ID, Event
from compiler_lens.recording.journal import TIMED, timed_meta, timed_rows

ANCHOR = "compiler_lens_tap"  # the attribute of torch's trace logger that holds the process's tap

# Sent with the user's stack, as text.
_STACKED = frozenset(("dynamo_graph_break_reason", "dynamo_error"))


# Written with what follows at once, with nothing of the user's in between: of a graph the facts of its nodes, if there
# is that hook; in a frame its end.
_BEFORE_NODES = "dynamo_output_graph"
_BEFORE_END = frozenset(("dynamo_cpp_guards_str", "compilation_metrics"))
_MAY_WAIT = _BEFORE_END | {_BEFORE_NODES}  # unrendered: what is done with the next takes a third of what it takes here
_ATTEMPT_AND_THREAD = itemgetter(1, 2)  # of a timed event that waits
# torch's own word where a frame cannot be compiled and no error is due, as of a generator.
_SUPPRESSED = "an error was suppressed during compilation"


class _StrictError(CaptureError):
    """On its way out to the user of a strict lens."""


def _is_of_a_signal(error: Exception) -> bool:
    """Whether a handler of a signal raised this: it may run at any line of ours, and means the user's call."""
    found = map(signal.getsignal, signal.valid_signals())
    codes = {handler.__code__ for handler in found if isinstance(handler, (FunctionType, MethodType))}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


class Tap(TraceHandler):
    """Receives everything, gives each session its own. Lives on torch's trace logger, nowhere else."""

    def __init__(self, *, is_done: bool = False) -> None:
        super().__init__()
        self.sessions: tuple[Session, ...] = ()
        self.attribution = Attribution()
        self.local = self.attribution.local
        self.cache_entries: dict[tuple[int | None, bool], Entry] = {}  # of a run's forward (or inference) and backward
        self.unhooked: dict[int, Unhooked] = {}  # code made without hooks of modules, by the id of its guards
        self.registered: dict[int, set[int]] = {}  # hooks by their own ids, by the id of the table that they are in
        self.late_hooks: list[Late] = []  # until a compiled call runs without them
        self.seconds = 0.0  # of processor time, in our own code while others compiled
        self._is_done = is_done
        self._heard: set[str] = set()  # names of all records that ever came
        # What undoes each hook that is in, or why this torch has no such place.
        self._late: tuple[Hook, ...] = ()  # whose modules were half imported when they were to go in
        self._hooked: dict[Place, Callable[[], None] | str] = {}
        self._lock = threading.RLock()  # garbage collection may close another lens while we hold it
        self.is_watched = False  # a session wants timed events at once
        self._subscription = Subscription(self)
        self._settings = settings.settings_of_process()
        self.settings_set: set[str] = set()  # the names of those that were set since hooks are there to hear of it

    # -- opening and closing

    def serve(self, session: Session, hooks: tuple[Hook, ...]) -> bool:
        """Begin to serve a session, and put hooks in; False if the last one has just left, and with it this tap."""
        with self._lock:
            if self._is_done:
                return False
            self._serve((*self.sessions, session))

        def note_files() -> None:
            files = {str(number): name for name, number in structured_trace.interned_files().items()}
            session.take(Event("lens.files", time.time(), meta={"files": files}), waits=True)

        thread = self.local.thread
        was_ours, thread.is_ours = thread.is_ours, True  # no compilation waits for it: nothing asks for the time
        try:
            observing = (Tap.safely.__code__, Tap.without_our_frames.__code__)
            self.safely("frames of ours", pass_over_our_frames, *observing)
            self.safely("file names", note_files)
            self.safely("trace", self._listen)
            self.safely("registry", lambda: dynamo.register_lenses(lambda backend: owner_of(backend) is not None))
            self.safely("hooks", self.install, hooks)
        finally:
            thread.is_ours = was_ours
        return True

    def dismiss(self, session: Session) -> None:
        """Stop serving a session; with the last one, leave torch as it was."""
        with self._lock:
            with contextlib.suppress(Exception):  # what is lost costs less than a hook left behind
                self.tell_timed()
            self._serve(tuple(s for s in self.sessions if s is not session))
            with contextlib.suppress(Exception):  # so does a record too many
                self.attribution.forget(session)
            if self.sessions or self._is_done:
                return
            self._is_done = True
            steps: list[Callable[[], object]] = [self._subscription.give_back, dynamo.forget_lenses]
            steps += [undo for undo in reversed(self._hooked.values()) if not isinstance(undo, str)]
            self._hooked.clear()
            inductor.cudagraph_logger().removeFilter(self._hear_skip)
            for step in steps:
                with contextlib.suppress(Exception):  # what cannot be undone must not keep the rest
                    step()
            # Last: whoever opens a lens meanwhile waits for this one to be gone, and finds torch as it was.
            vars(structured_trace.trace_logger()).pop(ANCHOR, None)

    def _serve(self, sessions: tuple[Session, ...]) -> None:
        self.sessions = sessions
        self.is_watched = any(session.is_watched for session in sessions)

    def _listen(self) -> None:
        with self._lock:
            if not self._is_done:
                inductor.cudagraph_logger().addFilter(self._hear_skip)
                self._subscription.take()

    def _hear_skip(self, record: logging.LogRecord) -> bool:
        """A filter: Inductor says there alone that a CUDA graph is skipped when it comes to run."""
        self.safely("CUDA graph", lambda: self.note("lens.cudagraph_skip", {"message": record.getMessage()}))
        return True

    def _stay_subscribed(self) -> None:
        if not self.sessions:
            return
        if self._late:
            self.install_late()
        self._subscription.hide_rendering()  # a listener may have come or gone
        if not self._subscription.is_whole:
            self._listen()
            message = "somebody changed torch's trace logger: what was compiled just before may be missing"
            for session in self.sessions:
                session.problem("trace", message)

    def install(self, hooks: tuple[Hook, ...]) -> None:
        """Put hooks in, once; say which this torch has no place for.

        This may import parts of torch that the compilation at hand is about to import: that time is not ours.
        """
        start = time.thread_time()
        lacking = [hook for hook in hooks if hook.place not in self._hooked]
        # All imports before the first hook: a module that takes a function by name must take torch's own.
        found = [(hook, _found(hook.place)) for hook in lacking]
        late = [hook for hook, place in found if place is None]
        self._late = (*(hook for hook in self._late if hook not in lacking), *late)
        self.local.thread.import_seconds += time.thread_time() - start
        with self._lock:
            for hook, place in found:
                if place is None or self._is_done or hook.place in self._hooked:
                    continue  # closed, or another thread's meanwhile
                if isinstance(place, str):
                    self._hooked[hook.place] = place
                else:
                    self._hooked[hook.place] = put_in_hook(place, hook, self, _idle())
        for hook in hooks:
            reason = self._hooked.get(hook.place)
            if isinstance(reason, str):
                for session in self.sessions:
                    session.unavailable(hook.place.fact, reason)

    def knows(self, place: Place) -> bool:
        """Return whether a hook is in, or this torch has no such place."""
        return place in self._hooked

    def withdraw(self, place: Place) -> None:
        """Take out a hook that is not to stay until the last lens closes."""
        with self._lock:
            undo = self._hooked.pop(place, "")
        if not isinstance(undo, str):
            undo()

    def install_late(self) -> None:
        """Put in the hooks whose modules were half imported when a lens opened, as far as they are there now."""
        if self._late:
            self.install(self._late)

    # -- frames

    @contextlib.contextmanager
    def alone(self, session: Session) -> Iterator[None]:
        """Have what this thread compiles in the block recorded by this session and by no other."""
        thread = self.local.thread
        before, thread.alone = thread.alone, session
        try:
            yield
        finally:
            thread.alone = before

    def hearers(self) -> tuple[Session, ...]:
        """Return the sessions that hear of what this thread does."""
        alone = self.local.thread.alone
        return self.sessions if alone is None else (alone,)

    def _recorders(self, owner: Session | None = None) -> tuple[Session, ...]:
        alone = self.local.thread.alone
        if alone is not None:
            return (alone,)
        return tuple([session for session in self.sessions if session is owner or session.everything])

    def enter(self, facts: Mapping[str, Any], owner: Session | None) -> FrameRecord:
        """Note that a frame enters the compiler."""
        self._stay_subscribed()
        if self.local.thread.frames or dynamo.compile_context() is not None:
            # The compilation around it must not take this frame for its own, and its timed events come before.
            self._tell_timed_of(self.here())
        return self.attribution.enter(self._recorders(owner), facts)

    @property
    def is_outside(self) -> bool:
        """Whether nothing compiles on this thread, and somebody would record it if it did."""
        return not self.local.thread.frames and dynamo.compile_context() is None and bool(self._recorders())

    def leave(self, record: FrameRecord, meta: Mapping[str, Any]) -> None:
        """Note that a frame leaves the compiler."""
        record.pending.clear()  # left by a compilation that failed, or that no Inductor finished
        record.refused = {}
        self._tell_timed_of(record)
        thread = self.local.thread
        thread.guards = None
        now = time.time()
        if record.torch_id is not None or record.is_call:
            event = Event("lens.frame_end", now, record.run, record.torch_id or NO_ID, meta=meta)
            self._give(record.sessions, event)
        elif meta.get("reason"):
            event = Event("lens.frame_skipped", now, record.run, meta={**record.facts, **meta})
            hearers = tuple(s for s in record.sessions if s.is_news(event))
            if meta["reason"] == _SUPPRESSED:  # only the function's text tells whether it is a generator
                for session in hearers:
                    session.keep_sources([record.facts["file"]])
            self._give(hearers, event)
        if meta.get("result") == "code" and not record.is_call:
            record.expected.update(structured_trace.OF_A_FRAME)
            if thread.frames[:1] == [record] and record.torch_id is not None and record.torch_id[2] is None:
                record.expected.update(structured_trace.OF_AN_OUTERMOST_FRAME)
            self.notice_missing(record)
        self._stay_subscribed()

    def notice_missing(self, record: FrameRecord) -> None:
        """Say which of the expected records this torch never sends: none has ever come, though we were listening."""
        if not record.expected <= self._heard and self._subscription.is_whole:
            for name in sorted(record.expected - self._heard):
                for session in record.sessions:
                    reason = f"not offered by this torch: the record {name}"
                    session.unavailable(structured_trace.EXPECTED[name], reason)

    # -- events

    def safely(self, where: str, step: Callable[..., object], *arguments: Any) -> None:
        """Run a step of ours inside the user's compilation: its errors become problems of the sessions."""
        thread = self.local.thread
        if thread.is_ours:
            try:
                step(*arguments)
            except Exception as error:  # noqa: BLE001 -- see below
                self.keep_error(where, error)
            return
        start, imports = time.thread_time(), thread.import_seconds
        try:
            thread.is_ours = True  # in here: an interrupt may come at any call
            step(*arguments)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is ours and not the user's
            self.keep_error(where, error)
        finally:
            thread.is_ours = False
            self.seconds += time.thread_time() - start - (thread.import_seconds - imports)

    def without_our_frames(self, stack: Any) -> Any:
        """Return a stack that torch has made, without our frames. Nothing in here waits for anything, either."""
        start = time.perf_counter()
        try:
            return without_our_frames(stack)
        except Exception as error:  # noqa: BLE001 -- as in `safely`
            self.keep_error("stack", error)
            return stack
        finally:
            if not self.local.thread.is_ours:
                self.seconds += time.perf_counter() - start

    def keep_error(self, where: str, error: Exception) -> None:
        """Make an error of ours a problem of the sessions; raise it where they are strict."""
        if isinstance(error, _StrictError) or _is_of_a_signal(error):
            raise error
        message = type(error).__name__
        try:
            try:
                message = f"{message}: {error}"
            except Exception:  # noqa: BLE001 -- an exception of somebody else's, which cannot say what it is
                message = f"{message}: (it cannot be printed)"
            for session in self.hearers():
                session.problem(where, message)
        except Exception:  # noqa: BLE001 -- a RecursionError leaves no room for a call of ours
            for session in self.hearers():
                session.unwritten.append((where, message))
        if any(session.strict for session in self.hearers()):
            raise _StrictError(f"{where}: {message}") from error

    def take(self, name: str, meta: Any, text: str | None) -> None:
        """Note a record of torch's trace."""
        meta = structured_trace.told(name, meta)
        self.safely(name, self._note_record, name, meta, text)

    def render(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Note a record that nobody else wants."""
        if name not in _MAY_WAIT or not self._put_off(name, parameters):
            self.safely(name, self._render, name, parameters)

    def _render(self, name: str, parameters: Mapping[str, Any]) -> None:
        self._note_record(name, *structured_trace.rendered(name, parameters))

    def _put_off(self, name: str, parameters: Mapping[str, Any]) -> bool:
        """Have a record rendered with what is noted next, if that follows for sure. Nothing in here waits, either."""
        start = time.perf_counter()
        try:
            render = functools.partial(self._render_then, name, parameters)
            if not self.later(name, render, at_the_end=name in _BEFORE_END):
                return False
            self._heard.add(name)
        except Exception as error:  # noqa: BLE001 -- as in `safely`
            self.keep_error(name, error)
        self.seconds += time.perf_counter() - start
        return True

    def _render_then(self, name: str, parameters: Mapping[str, Any], moment: Moment) -> None:
        meta, text = structured_trace.rendered(name, parameters, self.local.thread.guards)
        self._give(moment.record.sessions, moment.event(name, meta, text), waits=True)

    def later(self, where: str, step: Callable[[Moment], object], *, at_the_end: bool = False) -> bool:
        """Have a step done with what is noted next of the frame that compiles now, as of this moment.

        Returns False, and does nothing, where that may be long after: but at a frame's end, it is for a backend that
        may crash, or hang.
        """
        frames, context = self.local.thread.frames, dynamo.compile_context()
        if self.is_watched or not frames or context is None:
            return False
        frame = frames[-1]
        known = self.attribution.by_context.get(id(context))
        if known is None or known[0] is not frame or not (at_the_end or frame.is_eager):
            return False
        frame.later.append((where, step, Moment(frame, True, context.attempt)))
        return True

    def print_guards(self, guard_manager: Any) -> None:
        """Print the guards that a frame has got, for their record, which comes when that takes eight times as long."""
        frame, thread = self.here(), self.local.thread
        is_put_off = self._subscription.is_alone and not self.is_watched and thread.frames[-1:] == [frame]
        if is_put_off and frame.sessions:
            thread.guards = guard_manager, printed.guard_tree(guard_manager)
            self._catch_up(frame)

    def hear_timed(self, event: Any) -> None:
        """Note a timed event of a compilation that begins, or of none; or of any, where somebody wants it at once."""
        row = structured_trace.timed_row(event)
        if row[1] not in structured_trace.BEGIN_AND_END:  # an instant
            return
        context = dynamo.compile_context()
        if context is None:
            self.note(TIMED, timed_meta(row), waits=True)
            return
        record = self.here()  # it may begin
        record.timed.append((row, context.attempt, threading.get_ident()))
        if self.is_watched:
            self._tell_timed_of(record)

    def tell_timed(self) -> None:
        """Hand over all that waits beside its compilation."""
        for record in self.attribution.records():
            self._tell_timed_of(record)

    def _catch_up(self, record: FrameRecord) -> None:
        """Note what was to be noted later."""
        while record.later:
            where, step, moment = record.later.pop(0)
            self.safely(where, step, moment)

    def _tell_timed_of(self, record: FrameRecord) -> None:
        if record.later:
            self._catch_up(record)
        heard, record.timed = record.timed, []
        for of, some in itertools.groupby(heard, _ATTEMPT_AND_THREAD):
            rows = [row for row, _, _ in some if row[1] in structured_trace.BEGIN_AND_END]  # else an instant
            if rows:
                event = timed_rows(rows, record.run, record.torch_id or NO_ID, *of)
                self._give(record.sessions, event, waits=True)

    def _note_record(self, name: str, meta: Any, text: str | None) -> None:
        self._heard.add(name)
        if name == "str":
            self.note(name, {"text": meta[0], "id": meta[1]}, None)
        else:
            if text is not None and name.startswith("fx_graph_cache_"):
                meta, text = cache_answer(meta, text)
            if name in _STACKED and (frames := dynamo.frames_left_out()):
                meta = {**meta, "frames": frames}
            event = self.note(name, meta, text, waits=self._is_followed(name))
            if name in _STACKED:
                self.here().keep_sources(files_named(text))
            if name == "triton_kernel_info":  # sent when code is generated, not when the graph comes from a cache
                self.here().pending.append(event)

    def _is_followed(self, name: str) -> bool:
        if name == _BEFORE_NODES:
            return callable(self._hooked.get(dynamo.DYNAMO_GRAPH))
        return name in _BEFORE_END and bool(self.local.thread.frames)

    def moment(self) -> Moment:
        """Return which compilation what happens now is in."""
        context = dynamo.compile_context()
        record = self._record(context)
        is_inside = context is not None and record.torch_id is not None
        return Moment(record, is_inside, context.attempt if is_inside else 0)

    def note(
        self, name: str, meta: Mapping[str, Any], text: str | None = None, *, cached: bool = False, waits: bool = False
    ) -> Event:
        """Record something that happens now, for the sessions whose compilation is under way."""
        moment = self.moment()
        return self.keep(moment.record, moment.event(name, meta, text, cached=cached), waits=waits)

    def keep(self, record: FrameRecord, event: Event, *, waits: bool = False) -> Event:
        """Hand an event to the sessions that its record is of."""
        if not waits and (record.later or (record.timed and not record.is_eager)):  # of such, at the frame's end
            self._tell_timed_of(record)
        # Interned file names come once a process, whoever compiles; nobody knows whose CUDA graph runs.
        is_process_wide = event.name == "str" or (
            event.name == "lens.cudagraph_skip" and dynamo.compile_context() is None
        )
        self._give(self.sessions if is_process_wide else record.sessions, event, waits=waits)
        return event

    def note_once(self, name: str, meta: Mapping[str, Any], owner: Session | None, *, waits: bool = False) -> None:
        """Record something that is in no compilation, for the sessions that were not told it yet."""
        event = Event(name, time.time(), meta=meta)
        self._give([session for session in self._recorders(owner) if session.is_first(event)], event, waits=waits)

    def tell_once(self, session: Session, name: str, meta: Mapping[str, Any]) -> None:
        """Record something that is in no compilation for one session, if it hears now and was not told it yet."""
        event = Event(name, time.time(), meta=meta)
        if session in self.hearers() and session.is_first(event):
            self._give((session,), event)

    def tell_first(self, record: FrameRecord, event: Event) -> None:
        """Record something that happens after a compilation, for those who heard of that and were not told it yet."""
        self._give([session for session in record.sessions if session.is_first(event)], event)

    def count_eager(self, call: tuple[str, str, int], owner: Session | None) -> None:
        """Count a call of a compiled function that a stance makes eager: its name, file and line."""
        for session in self._recorders(owner):
            session.count_eager(call)

    def note_later(self, name: str, meta: Mapping[str, Any], compile_id: str) -> Event:
        """Record something that happens at run time, for the compilation that torch names as its origin."""
        torch_id, record = self.attribution.latest(compile_id)
        run, sessions = (record.run, record.sessions) if record else (None, self._all_seeing())
        event = Event(name, time.time(), run, torch_id, 0, meta, None, threading.get_ident())
        self._give(sessions, event)
        return event

    def here(self) -> FrameRecord:
        """Return the record of what happens now. Without sessions nobody keeps it, and hooks need not collect it."""
        return self._record(dynamo.compile_context())

    def _record(self, context: Any) -> FrameRecord:
        if context is None:
            return self.attribution.outside(self._all_seeing)
        if known := self.attribution.by_context.get(id(context)):
            return known[0]
        record, is_new = self.attribution.first_of(context, self._all_seeing)
        if is_new:
            self.begin(record)
        return record

    def begin(self, record: FrameRecord) -> None:
        """Note that a compilation begins."""
        facts = record.facts
        begun = dict(facts)
        self.safely("settings", self._add_settings, begun, record.sessions)
        if not facts:  # no frame leads to it
            return
        event = Event("lens.frame_start", time.time(), record.run, record.torch_id or NO_ID, 0, begun)
        waits = not record.is_call  # for torch's own word that the frame begins, which comes before it is looked at
        self._give(record.sessions, event, waits=waits)
        defined = facts.get("definition") or {}
        record.keep_sources({facts.get("file", ""), defined.get("file", "")}, waits=waits)

    def _add_settings(self, facts: dict[str, Any], sessions: tuple[Session, ...]) -> None:
        are_heard = callable(self._hooked.get(settings.SET)) and callable(self._hooked.get(settings.TAKEN_BACK))
        facts["config"] = self._settings.lines(facts.get("dynamic"), self.settings_set if are_heard else None)
        for session in sessions:
            if not session.is_described:
                self.safely("environment", session.describe_once, facts["config"])

    def _all_seeing(self) -> tuple[Session, ...]:
        is_told_whose = callable(self._hooked.get(dynamo.FRAME))
        return self._recorders() if is_told_whose else self.hearers()

    def _give(self, sessions: Iterable[Session], event: Event, *, waits: bool = False) -> None:
        for session in sessions:
            if session not in self.sessions:
                continue
            if waits and session.only_writes:
                session.journal.waiting.append(event)
            else:
                session.take(event, waits=waits)


@functools.cache
def _idle() -> Tap:
    """Return the tap of hooks that are out, and were put round by somebody's: it serves nobody."""
    return Tap(is_done=True)


def _found(place: Place) -> Found | str | None:
    """Where a place is, or why this torch does not have it; None as long as that is not known."""
    try:
        return place.find()
    except HalfImportedError:
        return None
    except NotOfferedError as lack:
        return f"not offered by this torch: {lack}"


def open_tap(session: Session, hooks: tuple[Hook, ...]) -> Tap:
    """Subscribe a session to torch, through the process's tap; the hooks are those to put in at once."""
    while True:
        tap: Tap = vars(structured_trace.trace_logger()).setdefault(ANCHOR, Tap())
        try:
            if tap.serve(session, hooks):
                return tap
        except BaseException:
            tap.dismiss(session)
            raise
