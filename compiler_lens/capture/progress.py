"""A live line on a terminal about the compilation under way.

    compiling step (train.py:41) · backward · autotuning mm · 83 s · 2 graphs · 31 kernels · 1 compiled

The compiling threads only leave notes in `Progress.event`; a thread of ours, which lives while something compiles,
draws them. The line stands below the cursor's, and the cursor stays where the user's program left it: what that
prints, a half line or a progress bar of its own included, stays whole.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from msgspec import Struct, field

from compiler_lens.recording.errors import visible
from compiler_lens.recording.event import WRAPPER_FILE, Event
from compiler_lens.recording.ids import GraphStage
from compiler_lens.recording.resume_names import resumed
from compiler_lens.recording.torch_names import BACKWARD_SPAN, GRAPH_RECORDS, OUTPUT_CODE_RECORD, Phase, phase_of

_KERNEL = " = async_compile."

_NONE = -1  # no descriptor

_DRAWINGS_PER_SECOND = 8
_SHOW_AFTER = 1.0  # seconds of compiling: most compilations are over before anybody wonders
_REST_AFTER = 0.5  # seconds without a compilation: the next one follows a break, or never

_ERASE = "\x1b[J"  # from the cursor to the end of the screen: the line below, or ours if the cursor moved onto it
_ROOM_BELOW = "\x1bD\x1bM"  # down and up again, scrolling where the screen ends; the column stays
_BELOW, _BACK = "\x1b7\r\x1b[B", "\x1b8"  # save the cursor and go to the next line; restore it


class _Frame(Struct):
    run: int | None
    is_backward: bool  # compiled at the first call of backward(), when its frame has long been left
    label: str
    start: float


class _Work(Struct):
    """What one thread compiles: its frames, innermost last, and torch's spans around what it does right now."""

    frames: list[_Frame] = field(default_factory=list)
    spans: list[str] = field(default_factory=list)
    touched: float = 0.0

    def leave(self, run: int | None, *, is_backward: bool) -> None:
        """This frame, and all that began inside of it, is over."""
        at = next((n for n, f in enumerate(self.frames) if (f.run, f.is_backward) == (run, is_backward)), None)
        if at is not None:
            del self.frames[at:]
        if not self.frames:
            self.spans.clear()


class Progress:
    """Draws the line on *stream*, a terminal. On anything else it does nothing.

    `event` may be called from any thread; it takes a few microseconds, draws nothing and never raises.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pid = os.getpid()
        self._terminal = _terminal(stream)
        self._separator = " · " if "utf" in (getattr(stream, "encoding", None) or "").lower() else " - "
        self._encoding = getattr(stream, "encoding", None) or "ascii"
        self._works: dict[int, _Work] = {}
        self._labels: dict[int | None, str] = {}  # by run
        self._files: dict[int, str] = {}  # by the numbers that torch sends for their names
        self._graphs = self._kernels = self._compiled = 0
        self._busy_since: float | None = None
        self._last = 0.0
        self._is_shown = False
        self._is_closed = self._terminal == _NONE
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()  # a signal or the garbage collector may come in between
        self._wake = threading.Event()

    def event(self, event: Event) -> None:
        """Take note of an event."""
        if self._is_closed or os.getpid() != self._pid:
            return
        try:
            self._note(event)
        except Exception:  # noqa: BLE001 -- we are inside the user's compilation, and a wrong line harms nobody
            self._is_closed = True

    def close(self) -> None:
        """Erase the line and end the thread."""
        self._is_closed = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and os.getpid() == self._pid:
            thread.join(timeout=1.0)

    # -- noting: on the compiling threads

    def _note(self, event: Event) -> None:
        now = self._last = self._clock()
        ident = threading.get_ident()
        work = self._works.get(ident) or self._works.setdefault(ident, _Work())
        work.touched = now
        if event.name == "chromium_event":
            self._note_span(work, event, now)
        elif event.name in ("lens.frame_start", "dynamo_start", "lens.frame_end"):
            self._note_frame(work, event, now)
        elif GRAPH_RECORDS.get(event.name) is GraphStage.DYNAMO:
            self._graphs += 1
        elif event.name == OUTPUT_CODE_RECORD:
            self._kernels += (event.text or "").count(_KERNEL)
        elif event.name == "str":
            self._files[event.meta["id"]] = event.meta["text"]
        elif event.name == "lens.files":
            self._files.update((int(number), file) for number, file in event.meta["files"].items())
        if not (work.frames or work.spans):
            self._works.pop(ident, None)
            if not self._works:
                self._wake.set()  # erase at once, also what is just being drawn: the program goes on printing
        elif self._thread is None:
            self._start(now)

    def _note_frame(self, work: _Work, event: Event, now: float) -> None:
        if event.name == "lens.frame_start":
            self._labels[event.run] = _frame_label(event.meta)
            work.frames.append(_Frame(event.run, False, self._labels[event.run], now))
        elif event.name == "lens.frame_end":
            self._compiled += event.meta.get("result") == "code"
            work.leave(event.run, is_backward=False)
        elif work.frames and work.frames[-1].run == event.run and work.frames[-1].label == _WRAPPER:
            # A module's frame is a wrapper in torch: the user's line that calls it says more.
            stack = event.meta.get("stack") or ()
            places = [(self._files.get(frame.get("filename", -1), ""), frame.get("line")) for frame in stack]
            users = [(file, line) for file, line in places if file and "/torch/" not in file]
            if users:
                work.frames[-1].label = self._labels[event.run] = _placed("module", *users[-1])

    def _note_span(self, work: _Work, event: Event, now: float) -> None:
        span = str(event.meta.get("name"))
        begins = event.meta.get("ph") == "B"
        if span == BACKWARD_SPAN and begins:
            label = f"{self._labels.get(event.run, 'a function')}{self._separator}backward"
            work.frames.append(_Frame(event.run, True, label, now))
        elif span == BACKWARD_SPAN:
            work.leave(event.run, is_backward=True)
        elif _phase_words(span) is not None and begins:
            work.spans.append(span)
        elif span in work.spans:
            del work.spans[len(work.spans) - 1 - work.spans[::-1].index(span) :]

    def _start(self, now: float) -> None:
        with self._starting:
            if self._thread is not None or self._is_closed:
                return
            if self._busy_since is None:
                self._busy_since = now
            self._wake.clear()
            thread = threading.Thread(target=self._draw_on, name="compiler_lens progress", daemon=True)
            thread.start()
            self._thread = thread

    # -- drawing: on our thread

    def _draw_on(self) -> None:
        with contextlib.suppress(Exception):  # a traceback of ours has no place on the user's terminal
            while not self._is_closed and self._draw():
                if self._wake.wait(1 / _DRAWINGS_PER_SECOND):
                    self._wake.clear()
        self._erase()
        self._busy_since = None
        self._thread = None

    def _draw(self) -> bool:
        """Bring the line up to date; False when nothing has compiled for a while."""
        now = self._clock()
        if not self._works:
            self._erase()
            return now - self._last < _REST_AFTER
        if self._busy_since is not None and now - self._busy_since >= _SHOW_AFTER:
            line, width = self._line(now), 79
            with contextlib.suppress(OSError):
                width = (os.get_terminal_size(self._terminal).columns or 80) - 1
            while len(line) > width and line.count(self._separator) > 2:  # noqa: PLR2004 -- frame, phase, time are kept
                line = line.rpartition(self._separator)[0]
            if self._write(f"{_ERASE}{_ROOM_BELOW}{_BELOW}\x1b[2m{line[:width]}\x1b[0m{_BACK}"):
                self._is_shown = True
        return True

    def _line(self, now: float) -> str:
        works = sorted(self._works.copy().values(), key=lambda work: work.touched)
        framed = [work for work in works if work.frames]
        work = (framed or works)[-1] if works else _Work()
        frames = work.frames.copy()
        start = frames[0].start if frames else self._busy_since or now
        label = " > ".join(frame.label for frame in (frames[:1] + frames[1:][-1:]))
        phase = next((words for span in work.spans[::-1] if (words := _phase_words(span))), "")
        more = f" (and {len(framed) - 1} more)" if len(framed) > 1 else ""
        counts = [
            f"{n} {word}{'' if n == 1 else 's'}" for n, word in ((self._graphs, "graph"), (self._kernels, "kernel"))
        ]
        parts = [
            f"compiling {label}{more}".strip(),
            phase,
            f"{now - start:.0f} s",
            *counts,
            f"{self._compiled} compiled",
        ]
        return visible(self._separator.join(part for part in parts if part))

    def _erase(self) -> None:
        if self._is_shown:
            self._write(_ERASE)
            self._is_shown = False

    def _write(self, text: str) -> bool:
        # Past the stream's buffer: a fork while we held its lock would leave it locked in the child for good.
        try:
            os.write(self._terminal, text.encode(self._encoding, "replace"))
        except (OSError, LookupError):
            return False
        return True


def _terminal(stream: TextIO) -> int:
    """The descriptor of a terminal that understands cursor movements."""
    from rich.console import Console

    try:
        return stream.fileno() if stream.isatty() and not Console(file=stream).is_dumb_terminal else _NONE
    except (OSError, ValueError, AttributeError):
        return _NONE


# -- words: what the line calls frames, and what torch is doing to them

_PHASES: Mapping[Phase, str] = {
    Phase.TRACING: "tracing",
    Phase.GUARDS: "building guards",
    Phase.AOT: "autograd",
    Phase.PASSES: "rewriting the graph",
    Phase.LOWERING: "lowering",
    Phase.SCHEDULING: "fusing",
    Phase.CODE_GENERATION: "generating code",
    Phase.KERNEL_COMPILATION: "compiling kernels",
    Phase.AUTOTUNING: "autotuning",
}
_SPANS: Mapping[str, str] = {
    "compiled_autograd": "tracing the backward",
    "AOTAutogradCache.inductor_load": "loading from the cache",
    "compile_file": "compiling C++",
}
# Autotuning an op of the user's: mm_template_autotuning (AlgorithmSelectorCache in _inductor/select_algorithm.py).
_ENDINGS = (("_template_precompiling", "compiling choices for "), ("_template_autotuning", "autotuning "))
_WRAPPER = "a module"


def _phase_words(span: str) -> str | None:
    """What torch does during a timed span; None for a span that says no more than the one around it."""
    for ending, words in _ENDINGS:
        if span.endswith(ending):
            return words + span.removesuffix(ending)
    return _SPANS.get(span) or _PHASES.get(phase_of(span))


def _frame_label(meta: Mapping[str, Any]) -> str:
    """The label of a frame, from the meta of `lens.frame_start`: `step (train.py:41)`."""
    file = meta.get("file") or ""
    if file.endswith(WRAPPER_FILE):
        return str(meta.get("module") or _WRAPPER)
    function = meta.get("module") or meta.get("function") or "a function"
    rest = resumed(function)
    return _placed(f"rest of {rest.function}" if rest else function, file, meta.get("line"))


def _placed(name: str, file: str, line: int | None) -> str:
    return f"{name} ({file.rpartition('/')[2]}:{line})" if file else name
