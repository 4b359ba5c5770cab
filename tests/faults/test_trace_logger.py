"""Torch's trace logger belongs to everybody: what others do to it, and what we must not do to them."""

import json
import logging
import logging.config
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo.utils import ChromiumEventLogger
from torch._logging import _internal

from compiler_lens import Lens, load
from compiler_lens.capture import recorder
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import structured_trace
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal_reader import read_journal
from compiler_lens.recording.torch_names import UNREAD_METRICS

X = torch.ones(4)
Events = Callable[[Lens], tuple[Event, ...]]
Functions = Callable[[Lens], list[str]]


def first(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def second(x: torch.Tensor) -> torch.Tensor:
    return x.cos() * 2


def run(function: Callable[[torch.Tensor], torch.Tensor], backend: Any = "aot_eager") -> None:
    assert torch.equal(torch.compile(function, backend=backend)(X), function(X))


class Collector(logging.Handler):
    """Somebody else who listens."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.names: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", {})
        value = next((k for k in metadata if k not in ("frame_id", "frame_compile_id", "attempt", "stack")), "")
        self.names.append(metadata["artifact"]["name"] if value == "artifact" else value)


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The logger, put back by hand: here others change it."""
    logger = structured_trace.trace_logger()
    before = logger.level, logger.propagate, logger.disabled, list(logger.handlers)
    yield logger
    logger.setLevel(before[0])
    logger.propagate, logger.disabled = before[1:3]
    logger.handlers = before[3]


def taps(logger: logging.Logger) -> list[logging.Handler]:
    return [handler for handler in logger.handlers if isinstance(handler, Tap)]


def test_after_our_handler_was_taken_off_the_next_frame_is_whole(logger: logging.Logger, functions: Functions) -> None:
    with Lens(strict=True) as lens:
        run(first)
        logger.handlers.clear()
        run(second)
    recording = lens.recording

    assert functions(lens) == ["first", "second"]
    assert len(recording.graphs) == 4
    assert [p.where for p in recording.problems] == ["trace"]
    assert "may be missing" in lens.report()


class Once(logging.Handler):
    """Takes itself off at its first record, as torch's own does without TORCH_TRACE."""

    def emit(self, _record: logging.LogRecord) -> None:
        structured_trace.trace_logger().removeHandler(self)


def test_a_handler_that_newer_pythons_take_off_a_copy_of_the_list_is_no_change_of_ours(
    logger: logging.Logger, functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_of_python_3_14(self: logging.Logger, handler: logging.Handler) -> None:
        handlers = self.handlers.copy()
        handlers.remove(handler)
        self.handlers = handlers

    monkeypatch.setattr(logging.Logger, "removeHandler", as_of_python_3_14)
    logger.addHandler(Once())
    with Lens(strict=True) as lens:
        run(first)
        assert taps(logger) == list(logger.handlers)
        run(second)

    assert functions(lens) == ["first", "second"]
    assert not lens.recording.problems


def test_a_handler_taken_off_in_mid_compilation_is_told(logger: logging.Logger) -> None:
    def vandal(gm: Any, _inputs: Any) -> Any:
        logger.handlers = []
        return gm.forward

    with Lens(strict=True) as lens:
        run(first, vandal)

    assert [p.where for p in lens.recording.problems] == ["trace"]


def test_a_second_lens_finds_the_first_ones_hooks_though_the_handlers_are_gone(
    logger: logging.Logger, events: Events
) -> None:
    with Lens(strict=True) as one:
        logger.handlers.clear()
        with Lens(strict=True) as other:
            assert one._tap is other._tap
            assert len(taps(logger)) == 1
            run(first)

    assert Counter(e.name for e in events(one))["lens.node_facts"] == 2
    assert Counter(e.name for e in events(other))["lens.node_facts"] == 2


def test_set_logs_in_mid_run_changes_nothing(functions: Functions) -> None:
    with Lens(strict=True) as lens:
        run(first)
        torch._logging.set_logs(dynamo=logging.ERROR)
        try:
            run(second)
        finally:
            torch._logging.set_logs()

    assert functions(lens) == ["first", "second"]
    assert lens.recording.problems == ()


def test_disabled_logging_does_not_silence_the_trace(functions: Functions) -> None:
    logging.disable(logging.CRITICAL)
    try:
        with Lens(strict=True) as lens:
            run(first)
    finally:
        logging.disable(logging.NOTSET)

    assert functions(lens) == ["first"]
    assert {g.stage.value for g in lens.recording.graphs} == {"dynamo", "inference"}


@pytest.mark.parametrize(
    "config", [{}, {"loggers": {"torch": {"level": "DEBUG", "handlers": ["all"]}}}, {"disable_existing_loggers": False}]
)
def test_a_logging_config_of_the_users(
    config: dict[str, Any], logger: logging.Logger, functions: Functions, tmp_path: Path
) -> None:
    others = {name: (log.handlers[:], log.level, log.propagate, log.disabled) for name, log in _loggers()}
    file = tmp_path / "users.log"
    handlers = {"all": {"class": "logging.FileHandler", "filename": str(file), "level": "DEBUG", "formatter": "named"}}
    config = {"version": 1, "formatters": {"named": {"format": "<%(name)s>"}}, "handlers": handlers, **config}
    try:
        with Lens(strict=True) as lens:
            logging.config.dictConfig(config)
            run(first)
    finally:
        for name, log in _loggers():
            log.handlers, level, log.propagate, log.disabled = others.get(name, ([], logging.NOTSET, True, False))
            log.setLevel(level)

    assert functions(lens) == ["first"]
    assert {g.stage.value for g in lens.recording.graphs} == {"dynamo", "inference"}
    assert "<torch.__trace>" not in file.read_text()
    assert ("<torch._dynamo" in file.read_text()) is ("loggers" in config)


def _loggers() -> list[tuple[str, logging.Logger]]:
    known = logging.Logger.manager.loggerDict.items()
    return [("", logging.getLogger()), *((name, log) for name, log in known if isinstance(log, logging.Logger))]


def listened_to(*, with_lens: bool, before: bool) -> tuple[list[str], Lens | None]:
    torch._dynamo.reset()
    logger, collector = structured_trace.trace_logger(), Collector()
    if before:
        logger.addHandler(collector)
    lens = Lens(strict=True) if with_lens else None
    if not before:
        logger.addHandler(collector)
    try:
        with lens or torch.no_grad():
            run(first)
    finally:
        logger.removeHandler(collector)
    return collector.names, lens


@pytest.mark.parametrize("before", [True, False])
def test_others_who_listen_hear_all_that_they_would_without_us(*, before: bool, events: Events) -> None:
    listened_to(with_lens=False, before=before)  # file names are told once a process
    without, _ = listened_to(with_lens=False, before=before)
    with_us, lens = listened_to(with_lens=True, before=before)

    assert with_us == without
    assert lens is not None
    names = {e.name for e in events(lens)}
    assert {"dynamo_start", "dynamo_output_graph", "aot_inference_graph", "compilation_metrics"} <= names


def trace_log(folder: Path, *, with_lens: bool) -> tuple[list[Any], Lens | None]:
    """What TORCH_TRACE writes of one compilation."""
    torch._dynamo.reset()
    handler = _internal.LazyTraceHandler(str(folder))
    handler.setFormatter(_internal.TorchLogsFormatter(trace=True))
    structured_trace.trace_logger().addHandler(handler)
    lens = Lens(strict=True) if with_lens else None
    try:
        with lens or torch.no_grad():
            run(first)
    finally:
        structured_trace.trace_logger().removeHandler(handler)
        handler.close()
    (file,) = folder.iterdir()
    return [json.loads(line.partition("] ")[2]) for line in file.read_text().splitlines() if line[:1] == "V"], lens


def test_the_trace_log_of_torch_is_the_same_with_a_lens(tmp_path: Path) -> None:
    trace_log(tmp_path / "warm up", with_lens=False)  # file names are told once a process
    # In one line, which is in the callers' stacks.
    (without, _), (with_us, lens) = (trace_log(tmp_path / str(lens), with_lens=lens) for lens in (False, True))

    assert [sorted(record) for record in with_us] == [sorted(record) for record in without]
    assert len(with_us) > 20
    # torch leaves out as many frames as it has of its own, and one of the user's: with our hook among its own, it has it.
    for ours, theirs in zip(_stacks(with_us), _stacks(without), strict=True):
        assert [frame for frame in ours if frame in theirs] == theirs
    assert lens is not None
    live, log = lens.recording, load(tmp_path / "True", strict=True)
    for kind in ("compilations", "graphs", "guards", "spans"):
        assert len(getattr(live, kind)) == len(getattr(log, kind)) > 0, kind


def _stacks(records: list[Any]) -> list[Any]:
    return [record["dynamo_start"]["stack"] for record in records if "dynamo_start" in record]


def metrics(lens: Lens, events: Events) -> dict[str, Any]:
    (event,) = (event for event in events(lens) if event.name == "compilation_metrics")
    return dict(event.meta)


def test_metrics_are_those_that_torch_sends_and_not_copied_first(
    monkeypatch: pytest.MonkeyPatch, logger: logging.Logger, events: Events
) -> None:
    with Lens(strict=True) as lens:
        logger.addHandler(Collector())
        run(first)
        logger.removeHandler(logger.handlers[-1])
    theirs = metrics(lens, events)
    torch._dynamo.reset()
    monkeypatch.setattr("dataclasses.asdict", lambda _metrics: pytest.fail("torch copies them"))
    with Lens(strict=True) as lens:
        run(first)
    ours = metrics(lens, events)

    assert list(ours) == list(theirs)
    assert {key: type(value) for key, value in ours.items()} == {key: type(value) for key, value in theirs.items()}
    assert None not in ours.values()
    assert not ours.keys() & UNREAD_METRICS  # 40 kB with each compilation
    same = ("co_name", "guard_count", "graph_op_count", "non_compliant_ops", "restart_reasons")
    assert [ours[key] for key in same] == [theirs[key] for key in same]


def records(events: tuple[Event, ...]) -> list[Any]:
    """What does not change from one compilation to the next of the same function; but not timed events."""
    texts = [(event.text or "").partition("Guard latency")[0] for event in events]
    found = zip(events, texts, strict=True)
    return [(e.name, sorted(e.meta), text) for e, text in found if e.name not in ("chromium_event", "lens.node_facts")]


def test_a_record_that_only_we_want_is_what_torch_renders_for_others(logger: logging.Logger, events: Events) -> None:
    run(first)  # what is told once a process
    found = []
    for others in ([], [Collector()]):
        torch._dynamo.reset()
        with Lens(strict=True) as lens:
            for handler in others:
                logger.addHandler(handler)
            run(first)
            for handler in others:
                logger.removeHandler(handler)
        found.append(records(events(lens)))
    alone, beside = found

    assert alone == beside
    assert {"dynamo_start", "dynamo_output_graph", "dynamo_cpp_guards_str", "compilation_metrics"} <= {
        n for n, *_ in alone
    }


def test_where_only_we_listen_no_log_record_is_made(monkeypatch: pytest.MonkeyPatch, logger: logging.Logger) -> None:
    with Lens(strict=True) as lens:
        run(first)  # the LazyTraceHandler that is there at first finds out that it has no folder
        monkeypatch.setattr(logger, "makeRecord", lambda *_, **__: pytest.fail("a log record"))
        run(second)

    assert len(lens.recording.compilations) == 2


def test_a_payload_that_cannot_be_rendered_is_a_problem_and_not_the_users() -> None:
    def payload() -> str:
        raise ZeroDivisionError

    with Lens() as lens:
        run(first)
        _internal.trace_structured("dynamo_start", payload_fn=payload, expect_trace_id=False)

    assert [(p.where, p.message) for p in lens.recording.problems] == [("dynamo_start", "ZeroDivisionError: ")]


def test_records_of_another_shape_do_not_disturb() -> None:
    with Lens() as lens:
        logger = structured_trace.trace_logger()
        logger.debug("hello")
        logger.debug("", extra={"metadata": None})
        logger.debug("", extra={"metadata": {"artifact": None}})
        logger.debug("", extra={"metadata": {"artifact": {}}})
        assert not lens.recording.problems
        logger.debug("", extra={"metadata": {"dynamo_start": 7}, "payload": 3})

    assert [p.where for p in lens.recording.problems] == ["dynamo_start"]


def timed(events: tuple[Event, ...]) -> list[tuple[str, str]]:
    return [(e.meta["name"], e.meta["ph"]) for e in events if e.name == "chromium_event"]


def other_sender(self: Any, *what: Any) -> dict[str, Any]:
    name, time_ns, phase = what[:3]
    sent = {"name": name, "ts": time_ns / 1000, "ph": phase}
    torch._logging.trace_structured("chromium_event", payload_fn=lambda: sent, expect_trace_id=False)
    torch._dynamo.utils.record_chromium_event_internal(sent)
    return sent


@pytest.mark.parametrize("is_changed", [False, True])
def test_timed_events_are_those_that_torch_sends_whoever_sends_them(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch, *, is_changed: bool
) -> None:
    sender = ChromiumEventLogger._log_timed_event.__code__
    found = []
    for listens in (False, True):
        torch._dynamo.reset()
        began = time.time()
        with monkeypatch.context() as changed, Lens(strict=True) as lens:
            if is_changed:
                changed.setattr(ChromiumEventLogger, "_log_timed_event", other_sender)
            if listens:
                logger.addHandler(Collector())
            run(first)
            if not listens:
                passed_over = vars(logger.handlers)["_passed_over"].values()
                assert (other_sender.__code__ if is_changed else sender) in passed_over
        logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, Collector)]
        spans = lens.recording.spans
        found.append([span.name for span in spans])
        assert all(began <= span.start <= span.start + span.seconds <= time.time() for span in spans)
    assert "backend_compile" in found[0]
    assert found[0] == found[1]


def test_timed_events_that_wait_are_there_as_soon_as_somebody_asks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    heard: list[Event] = []
    line = SimpleNamespace(event=heard.append, close=lambda: None)
    begins = ("backend_compile", "B")
    seen = []

    def look() -> None:
        seen.append(begins in timed(read_journal(tmp_path / "r.clens")[0]))

    def asks(graph: Any, _inputs: Any) -> Any:
        look()
        lens.save(tmp_path / "r.clens")
        look()
        return graph.forward

    def closes(graph: Any, _inputs: Any) -> Any:
        look()
        lens.close()
        look()
        return graph.forward

    def follows(graph: Any, _inputs: Any) -> Any:
        seen.append(begins in timed(tuple(heard)))
        return graph.forward

    for backend in (asks, closes):
        lens = Lens(tmp_path / "r.clens", strict=True)
        with lens:
            run(first, backend)
        torch._dynamo.reset()
    monkeypatch.setattr(recorder, "_open_progress", lambda: line)
    with Lens(strict=True):
        run(first, follows)
    assert seen == [False, True, False, True, True]
