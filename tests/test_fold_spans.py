"""Starts and ends become nested spans, and no second is counted twice."""

from __future__ import annotations

from compiler_lens.decode.whole import TimedMark, join_spans
from compiler_lens.recording.model import CompileId, Span


def mark(name: str, phase: str, at: float, thread: int = 1) -> TimedMark:
    return TimedMark(None, name, phase, at, thread)


def spans(*marks: TimedMark) -> dict[str, Span]:
    return {span.name: span for span in join_spans(marks)}


def test_what_is_nested_is_taken_off_the_span_around_it_and_only_off_that_one():
    found = spans(
        mark("dynamo", "B", 10.0),
        mark("backend_compile", "B", 11.0),
        mark("Scheduler.codegen", "B", 12.0),
        mark("Scheduler.codegen", "E", 15.0),
        mark("compile_file", "B", 15.5),
        mark("compile_file", "E", 16.0),
        mark("backend_compile", "E", 17.0),
        mark("dynamo", "E", 20.0),
    )
    assert {name: span.seconds for name, span in found.items()} == {
        "dynamo": 10.0, "backend_compile": 6.0, "Scheduler.codegen": 3.0, "compile_file": 0.5,
    }  # fmt: skip
    assert {name: span.self_seconds for name, span in found.items()} == {
        "dynamo": 4.0, "backend_compile": 2.5, "Scheduler.codegen": 3.0, "compile_file": 0.5,
    }  # fmt: skip
    assert {name: span.depth for name, span in found.items()} == {
        "dynamo": 0, "backend_compile": 1, "Scheduler.codegen": 2, "compile_file": 2,
    }  # fmt: skip
    assert sum(span.self_seconds for span in found.values()) == 10.0


def test_threads_nest_by_themselves():
    found = spans(
        mark("dynamo", "B", 0.0), mark("compile_file", "B", 1.0, thread=2), mark("compile_file", "E", 4.0, thread=2),
        mark("dynamo", "E", 5.0),
    )  # fmt: skip
    assert found["dynamo"].self_seconds == 5.0
    assert found["compile_file"].self_seconds == 3.0
    assert [span.depth for span in found.values()] == [0, 0]


def test_a_span_that_an_exception_left_open_ends_nowhere_and_takes_nothing():
    found = spans(mark("dynamo", "B", 0.0), mark("build_guards", "B", 1.0), mark("dynamo", "E", 3.0))
    assert list(found) == ["dynamo"]
    assert found["dynamo"].self_seconds == 3.0


def test_an_end_without_a_start_and_a_start_without_an_end_are_left_out():
    assert spans(mark("gc", "E", 1.0), mark("dynamo", "B", 2.0)) == {}


def test_the_spans_come_in_order_of_their_starts_the_outer_one_first():
    marks = (
        mark("dynamo", "B", 1.0), mark("build_guards", "B", 1.0), mark("build_guards", "E", 2.0), mark("dynamo", "E", 3.0),
        mark("gc", "B", 0.5, thread=2), mark("gc", "E", 9.0, thread=2),
    )  # fmt: skip
    assert [span.name for span in join_spans(marks)] == ["gc", "dynamo", "build_guards"]


def test_a_clock_that_was_set_back_makes_no_negative_time():
    found = spans(mark("dynamo", "B", 5.0), mark("gc", "B", 6.0), mark("gc", "E", 9.0), mark("dynamo", "E", 4.0))
    assert (found["dynamo"].seconds, found["dynamo"].self_seconds) == (0.0, 0.0)


def test_the_outermost_span_takes_the_id_that_its_compilation_got_meanwhile():
    owner = CompileId(3, 0)
    start, end = mark("dynamo", "B", 0.0), TimedMark(owner, "dynamo", "E", 1.0, 1)
    assert join_spans((start, end))[0].compile_id == owner


def test_the_end_of_what_never_began_costs_no_look_at_all_that_is_open(calls_of):
    def calls(count):
        marks = [mark(f"open {n}", "B", 1.0) for n in range(count)] + [mark("other", "E", 2.0)] * count
        return calls_of(lambda: join_spans(marks))

    assert calls(400) < 5 * calls(100)
