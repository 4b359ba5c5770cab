"""Phases are torch's timed events by another name: no second is lost or counted twice."""

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.facts.time.phases import phase_times
from compiler_lens.recording.model import Span
from compiler_lens.recording.torch_names import Phase, phase_of

OWNER = samples.compile_id(0)
FORWARD = samples.spans(OWNER, 0.0)
BACKWARD = samples.spans(OWNER, 50.0, backward=True)


def test_the_phases_add_up_to_the_outermost_events():
    times = phase_times((*FORWARD, *BACKWARD))
    assert times.total == pytest.approx(FORWARD[0].seconds + BACKWARD[0].seconds)
    assert sum(seconds for _, seconds in times.both) == pytest.approx(times.total)


def test_a_lazy_backward_is_told_apart_from_its_forward():
    times = phase_times((*FORWARD, *BACKWARD))
    assert times.forward_seconds == pytest.approx(FORWARD[0].seconds)
    assert times.backward_seconds == pytest.approx(BACKWARD[0].seconds)


def test_a_backward_compiled_together_with_its_forward_is_no_lazy_one():
    inner = Span(OWNER, "compile_fx.<locals>.bw_compiler", 1.0, 1.0, 1, 1, 1.0)
    outer = Span(OWNER, "dynamo", 0.0, 3.0, 1, 0, 2.0)
    times = phase_times((outer, inner))
    assert times.backward_seconds == 0
    assert times.forward_seconds == 3.0


def test_compile_workers_ran_beside_and_are_not_in_the_total():
    worker = Span(None, "compile_file", 2.0, 5.0, 9, 0, 5.0)
    times = phase_times((*FORWARD, worker))
    assert times.parallel_seconds == 5.0
    assert times.total == pytest.approx(FORWARD[0].seconds)


def test_an_event_without_an_id_belongs_to_what_it_is_nested_in():
    nested = Span(None, "compile_file", 51.0, 2.0, 1, 3, 2.0)
    times = phase_times((*FORWARD, *BACKWARD, nested))
    assert times.backward_seconds == pytest.approx(BACKWARD[0].seconds + 2.0)
    assert times.parallel_seconds == 0


def test_the_order_of_the_spans_does_not_matter():
    assert phase_times(reversed((*FORWARD, *BACKWARD))) == phase_times((*FORWARD, *BACKWARD))


def test_two_threads_keep_their_own_forward_and_backward():
    other = tuple(replace(span, thread=2, start=span.start - 50.0) for span in BACKWARD)
    times = phase_times((*FORWARD, *other))
    assert times.forward_seconds == pytest.approx(FORWARD[0].seconds)
    assert times.backward_seconds == pytest.approx(BACKWARD[0].seconds)


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("bytecode_tracing", Phase.TRACING),
        ("compile_attempt_3", Phase.TRACING),
        ("build_guards", Phase.GUARDS),
        ("aot_trace_joint_graph", Phase.AOT),
        ("pass.joint_graph_passes.pass_pattern_0", Phase.PASSES),
        ("GraphLowering.run", Phase.LOWERING),
        ("Scheduler.fused_nodes", Phase.SCHEDULING),
        ("Scheduler.codegen", Phase.CODE_GENERATION),
        ("async_compile.wait", Phase.KERNEL_COMPILATION),
        ("compile_file", Phase.KERNEL_COMPILATION),
        ("mm_template_autotuning", Phase.AUTOTUNING),
        ("CachingAutotuner.benchmark_all_configs", Phase.AUTOTUNING),
        ("AOTAutogradCache.inductor_load", Phase.CACHES),
        ("gc", Phase.OTHER),
        ("something torch adds one day", Phase.OTHER),
    ],
)
def test_torchs_events_belong_to_phases(name, phase):
    assert phase_of(name) is phase


def test_no_events_is_no_time_and_says_so():
    assert not phase_times(()).timed
    assert phase_times(FORWARD).timed
