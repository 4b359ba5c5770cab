"""The live line, on a pseudo terminal, fed by hand and by a clock of ours."""

from __future__ import annotations

import fcntl
import io
import os
import re
import select
import struct
import termios
import threading
import time

import pytest

from compiler_lens.capture.progress import Progress
from compiler_lens.recording.event import Event

ERASE = "\x1b[J"
PATIENCE = 600.0  # seconds: only what never comes takes as long, however busy the machine is


class Terminal:
    """A pseudo terminal: what a program writes to `stream` comes out of `read`."""

    def __init__(self, columns: int = 120) -> None:
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stream = os.fdopen(slave, "w", encoding="utf-8")

    def read(self, seconds: float) -> str:
        """All that comes in this time."""
        data, end = b"", time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                data += os.read(self.master, 65536)
        return data.decode()

    def wait_for(self, word: str, seconds: float = PATIENCE) -> str:
        """All that comes up to this word; fails without it."""
        data, end = b"", time.monotonic() + seconds
        while word.encode() not in data:
            assert select.select([self.master], [], [], max(0, end - time.monotonic()))[0], (word, data)
            data += os.read(self.master, 65536)
        return data.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self.master)


class Clock:
    now = 100.0
    ahead_when_drawing = 0.0

    def __call__(self) -> float:
        return self.now + (self.ahead_when_drawing if threading.current_thread() in drawing_threads() else 0.0)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    yield terminal
    terminal.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def progress(terminal, clock):
    progress = Progress(terminal.stream, clock)
    yield progress
    progress.close()
    wait_until(lambda: not drawing_threads())  # close() itself waits no longer than a second


def drawing_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "compiler_lens progress"]


def wait_until(condition, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def start(run: int = 0, **meta: object) -> Event:
    return Event("lens.frame_start", 0.0, run, meta={"function": "step", "file": "/app/train.py", "line": 41, **meta})


def end(run: int = 0, result: str = "code") -> Event:
    return Event("lens.frame_end", 0.0, run, meta={"result": result})


def span(name: str, phase: str, run: int | None = 0) -> Event:
    return Event("chromium_event", 0.0, run, meta={"name": name, "ph": phase, "ts": 0.0})


def test_the_line_tells_frame_phase_time_and_counts(progress, terminal, clock):
    for event in (
        start(0),
        Event("dynamo_output_graph", 0.0, 0),
        Event(
            "inductor_output_code",
            0.0,
            0,
            text="a = async_compile.triton(\nb = async_compile.cpp(\nasync_compile.wait()",
        ),
        end(0),
        start(1),
        span("dynamo", "B"),
        span("Scheduler.codegen", "B"),
        span("some span of a later torch", "B"),
    ):
        progress.event(event)
    clock.now += 7
    line = terminal.wait_for("compiled")
    assert "compiling step (train.py:41) · generating code · 7 s · 1 graph · 2 kernels · 1 compiled" in line


def test_names_cannot_act_on_the_terminal(progress, terminal, clock):
    progress.event(start(file="/app/\x9b2J\r\n.py", module="Net\x1b[2J\u202e"))
    progress.event(span("m\x1b]0;t\x07_template_autotuning", "B"))
    clock.now += 2
    line = terminal.wait_for("compiled").partition("compiling ")[2]
    assert line.startswith(r"Net\x1b[2J\u202e (\x9b2J\r\n.py:41) · autotuning m\x1b]0;t\x07 · 2 s")


def test_a_span_that_ends_gives_way_to_the_one_around_it(progress, terminal, clock):
    for event in (start(), span("dynamo", "B"), span("build_guards", "B"), span("build_guards", "E")):
        progress.event(event)
    clock.now += 2
    assert " · tracing · " in terminal.wait_for("compiled")


def test_a_lazy_backward_is_told_by_its_frames_name(progress, terminal, clock):
    for event in (start(3), end(3), span("entire_backward_compile", "B", 3), span("compile_file", "B", 3)):
        progress.event(event)
    clock.now += 2
    assert "step (train.py:41) · backward · compiling C++ · " in terminal.wait_for("compiled")
    progress.event(span("entire_backward_compile", "E", 3))
    assert terminal.wait_for(ERASE)
    wait_until(lambda: terminal.read(0.3) == "")


def test_autotuning_names_the_op(progress, terminal, clock):
    progress.event(start())
    progress.event(span("mm_template_autotuning", "B"))
    clock.now += 2
    assert " · autotuning mm · " in terminal.wait_for("compiled")


def test_a_module_is_told_by_its_class_or_by_the_line_that_calls_it(progress, terminal, clock):
    wrapper = {"function": "inner", "file": "/lib/torch/_dynamo/external_utils.py", "line": 67}
    stack = [{"line": 41, "filename": 1}, {"line": 6, "filename": 2}, {"line": 67, "filename": 3}]
    progress.event(Event("lens.files", 0.0, meta={"files": {"1": "/app/train.py"}}))
    progress.event(Event("str", 0.0, meta={"id": 2, "text": "/lib/torch/nn/modules/module.py"}))
    progress.event(start(0, **wrapper, module="GPT"))
    progress.event(start(1, **wrapper))
    progress.event(Event("dynamo_start", 0.0, 1, meta={"stack": stack}))
    clock.now += 2
    assert "compiling GPT > module (train.py:41) · " in terminal.wait_for("compiled")


def test_a_resume_function_is_the_rest_of_its_function(progress, terminal, clock):
    progress.event(start(function="torch_dynamo_resume_in_my_step_at_45", line=45))
    clock.now += 2
    assert "compiling rest of my_step (train.py:45) · " in terminal.wait_for("compiled")


def test_nested_frames_and_other_threads_are_told(progress, terminal, clock):
    progress.event(start(0, function="outer"))
    progress.event(start(1, function="inner"))
    other = threading.Thread(target=progress.event, args=(start(2),))
    other.start()
    other.join()
    clock.now += 1
    progress.event(span("dynamo", "B", 1))
    clock.now += 2
    assert "outer (train.py:41) > inner (train.py:41) (and 1 more)" in terminal.wait_for("compiled")


@pytest.mark.parametrize("columns", [20, 60])
def test_a_narrow_terminal_loses_counts_first_and_never_wraps(monkeypatch, clock, columns):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal(columns)
    progress = Progress(terminal.stream, clock)
    progress.event(start())
    progress.event(span("dynamo", "B"))
    clock.now += 2
    line = terminal.wait_for("\x1b[0m").split("\x1b[0m")[0].split("\x1b[2m")[-1]
    progress.close()
    terminal.close()
    assert len(line) < columns
    assert line.startswith("compiling step (train.py:41) · tracing · 2 s"[: columns - 1])


def test_a_short_compilation_shows_nothing(progress, terminal, clock):
    progress.event(start())
    clock.now += 0.9
    assert terminal.read(0.4) == ""
    progress.event(end())
    clock.now += 10
    assert terminal.read(0.4) == ""


def test_the_line_is_erased_at_once_and_not_at_the_next_drawing(monkeypatch, progress, terminal, clock):
    monkeypatch.setattr("compiler_lens.capture.progress._DRAWINGS_PER_SECOND", 0.0001)
    clock.ahead_when_drawing = 2.0
    progress.event(start())
    terminal.wait_for("compiling")
    progress.event(end())
    assert terminal.wait_for(ERASE)  # the next drawing is hours away


def test_the_line_goes_with_the_compilation_and_the_thread_soon_after(progress, terminal, clock):
    progress.event(start())
    clock.now += 2
    terminal.wait_for("compiling")
    progress.event(end())
    assert terminal.wait_for(ERASE)
    terminal.read(0.2)
    clock.now += 2
    wait_until(lambda: not drawing_threads())
    assert terminal.read(0.2) == ""
    progress.event(start(1))
    clock.now += 2
    terminal.wait_for("compiling")


def test_nothing_is_left_at_close(progress, terminal, clock):
    progress.event(start())
    clock.now += 2
    terminal.wait_for("compiling")
    progress.close()
    wait_until(lambda: not drawing_threads())
    assert terminal.read(0.3).endswith(ERASE)
    progress.event(start(1))
    assert not drawing_threads()


def test_the_users_cursor_and_line_are_left_alone(progress, terminal, clock):
    progress.event(start())
    clock.now += 2
    drawing = "".join(terminal.wait_for("\x1b8") for _ in range(3))
    drawing = drawing[: drawing.rindex("\x1b8") + len("\x1b8")]
    assert "compiling" in drawing
    # Erasing goes forward only; all else happens between saving the cursor and restoring it, on the line below.
    assert re.sub(r"\x1b7\r\x1b\[B[^\n\r]*?\x1b8", "", drawing).replace("\x1bD\x1bM", "").replace(ERASE, "") == ""


@pytest.mark.parametrize("stream", [io.StringIO(), None, "pipe", "closed"], ids=["text", "none", "pipe", "closed"])
def test_anything_but_a_terminal_gets_nothing(monkeypatch, clock, stream):
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = os.pipe()
    if isinstance(stream, str):
        file = os.fdopen(os.dup(writer), "w")
        if stream == "closed":
            file.close()
        stream = file
    progress = Progress(stream, clock)
    progress.event(start())
    clock.now += 5
    progress.event(span("dynamo", "B"))
    assert not drawing_threads()
    progress.close()
    os.close(writer)
    assert os.read(reader, 100) == b"" if stream is None or isinstance(stream, io.StringIO) else True
    os.close(reader)


def test_a_dumb_terminal_gets_nothing(monkeypatch, terminal, clock):
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress(terminal.stream, clock)
    progress.event(start())
    assert not drawing_threads()


def test_a_terminal_that_goes_away_harms_nobody(terminal, progress, clock):
    progress.event(start())
    clock.now += 2
    terminal.wait_for("compiling")
    os.dup2(os.open(os.devnull, os.O_RDONLY), terminal.stream.fileno())
    time.sleep(0.3)
    progress.event(end())
    progress.close()


@pytest.mark.parametrize(
    "event",
    [
        Event("chromium_event", 0.0),
        Event("chromium_event", 0.0, meta={"name": ["x"], "ph": 3}),
        Event("chromium_event", 0.0, meta={"name": "dynamo", "ph": "E"}),
        Event("lens.frame_start", 0.0, meta={"file": 3}),
        Event("lens.frame_end", 0.0, 77),
        Event("inductor_output_code", 0.0, text=None),
        Event("never heard of", 0.0),
    ],
)
def test_no_event_makes_it_raise(progress, event):
    progress.event(event)


def test_a_forked_child_draws_nothing(progress, terminal, clock):
    child = os.fork()
    if child == 0:
        progress.event(start())
        clock.now += 100
        progress.event(span("dynamo", "B"))
        os._exit(len(drawing_threads()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert terminal.read(0.3) == ""
