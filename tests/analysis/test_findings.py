"""What is worth doing next, ranked."""

from pathlib import Path

import sample_recordings as samples
from msgspec.structs import replace

import compiler_lens
from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.evidence import (
    CacheBypassed,
    CudagraphsSkipped,
    DeviceIdle,
    DisabledOnPurpose,
    FrameFailed,
    NothingSeen,
    PhaseDominates,
    TinyGraphs,
)
from compiler_lens.facts.overview.explanation import summarize
from compiler_lens.facts.overview.findings import Basis, Severity
from compiler_lens.facts.program.coverage import Function
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    CacheLayer,
    CacheOutcome,
    CacheResult,
    CudagraphState,
    GraphStage,
    Outcome,
    Recording,
    Span,
)
from compiler_lens.recording.torch_names import Phase
from compiler_lens.views.advice import advice


def kinds(recording):
    """What there is to fix."""
    return [type(finding.evidence) for finding in summarize(recording).findings if not finding.benign]


def benign(recording):
    """What there is to know."""
    return [finding.evidence for finding in summarize(recording).findings if finding.benign]


def test_errors_come_first_then_what_runs_eagerly_then_what_is_split():
    assert kinds(samples.broken()) == [FrameFailed, BreakCard, RecompileReport, BreakCard]
    assert [type(evidence) for evidence in benign(samples.broken())][:1] == [RecompileReport]


def test_skipped_cuda_graphs_are_a_finding_where_there_is_a_gpu():
    assert kinds(replace(samples.broken(), kernels=(samples.triton_kernel(),)))[-1] is CudagraphsSkipped


GPU = Path(__file__).parent.parent / "gpu" / "data"


def test_a_device_that_mostly_waits_is_a_finding_of_a_profile():
    recording = compiler_lens.load(GPU / "gpt-default-profiled.clens.gz", strict=True)
    (found,) = summarize(recording).findings

    assert (found.severity, found.basis) == (Severity.MEDIUM, Basis.MEASURED)
    assert isinstance(found.evidence, DeviceIdle)
    (profile,) = recording.profiles
    assert found.evidence.microseconds == profile.microseconds
    assert found.evidence.idle == profile.microseconds - profile.busy_microseconds
    told = advice(replace(found, evidence=replace(found.evidence, microseconds=2029.0, idle=1802.0)))
    assert "waits 89 % of a call, as measured: 1.8 ms of 2.03 ms" in told.what
    assert 'mode="reduce-overhead"' in told.change

    tuned = replace(recording.compilations[0], mode="max-autotune-no-cudagraphs")
    (found,) = summarize(replace(recording, compilations=(tuned,))).findings
    assert 'mode="max-autotune"' in advice(found).change


def test_where_the_device_works_or_cuda_graphs_launch_there_is_no_such_finding():
    recording = compiler_lens.load(GPU / "gpt-default-profiled.clens.gz", strict=True)
    (profile,) = recording.profiles
    working = replace(profile, busy_microseconds=0.6 * profile.microseconds)
    on_cpu = tuple(replace(kernel, device="cpu") for kernel in recording.kernels)
    captured = tuple(replace(outcome, state=CudagraphState.CAPTURED) for outcome in recording.cudagraphs)

    for changed in (
        replace(recording, profiles=()),
        replace(recording, profiles=(working,)),
        replace(recording, kernels=on_cpu),
        replace(recording, cudagraphs=captured),  # asked for by an option
        compiler_lens.load(GPU / "gpt-reduce-overhead-profiled.clens.gz", strict=True),
        replace(recording, profiles=(replace(profile, spread=profile.microseconds),)),  # not usable
    ):
        assert kinds(changed) == []


def test_a_break_that_also_made_a_compilation_fail_is_told_once():
    recording = samples.broken()
    failed = next(c for c in recording.compilations if c.outcome is Outcome.FAILED)
    at = replace(failed, failure_line=replace(failed.failure_line, line=18))
    changed = replace(recording, compilations=tuple(at if c is failed else c for c in recording.compilations))
    assert kinds(changed) == [FrameFailed, BreakCard, RecompileReport]
    assert len(summarize(changed).findings[0].evidence.card.events) == 2


def test_a_clean_model_has_nothing_to_fix():
    assert kinds(samples.clean()) == []


def test_where_nothing_was_compiled_that_is_the_finding():
    assert kinds(samples.empty()) == [NothingSeen]


def test_one_recompile_is_how_torch_learns_and_no_finding_but_a_second_for_the_same_cause_is():
    step = samples.compilation(0)
    assert kinds(Recording(compilations=(step,), recompiles=(samples.recompile(0, 1, "8", "4"),))) == []
    again = (samples.recompile(0, 1, "8", "4"), samples.recompile(0, 2, "4", "2"))
    assert kinds(Recording(compilations=(step,), recompiles=again)) == [RecompileReport]


def test_the_recompile_limit_is_worse_than_other_recompiles_and_has_its_price():
    limit, other = (f for f in summarize(samples.broken()).findings if isinstance(f.evidence, RecompileReport))
    assert (limit.severity, other.severity) == (Severity.HIGH, Severity.INFO)
    assert limit.evidence.recompiles == 8
    assert limit.seconds == limit.evidence.seconds > 0


def test_a_frame_skipped_without_a_break_is_a_finding_of_its_own():
    skipped = samples.compilation(0, outcome=Outcome.SKIPPED, reason="frame was generated by exec()")
    assert kinds(Recording(compilations=(skipped,))) == [Function]


def test_a_call_that_is_disabled_on_purpose_is_benign():
    cause = BreakCause("Skip calling `torch.compiler.disable()`d function")
    recording = Recording(
        compilations=(samples.compilation(0),), graph_breaks=(samples.graph_break(0, cause, 7, "f(x)"),)
    )
    assert kinds(recording) == []
    assert [type(evidence) for evidence in benign(recording)] == [DisabledOnPurpose]


def test_a_disabled_call_that_costs_the_whole_function_is_not_benign():
    cause = BreakCause("Skip calling `torch.compiler.disable()`d function")
    lost = samples.graph_break(0, cause, 7, "f(x)", BreakOutcome.SKIPPED_FRAME)
    recording = Recording(compilations=(samples.compilation(0, outcome=Outcome.SKIPPED),), graph_breaks=(lost,))
    (finding,) = summarize(recording).findings
    assert (finding.severity, type(finding.evidence)) == (Severity.HIGH, BreakCard)


def test_a_limit_that_no_recompile_was_recorded_of_is_a_finding_all_the_same():
    hit = samples.compilation(0, 8, outcome=Outcome.RECOMPILE_LIMIT, reason="recompile_limit reached")
    assert kinds(Recording(compilations=(hit,))) == [Function]


def test_a_cache_that_refuses_a_graph_is_a_minor_finding_with_its_reason():
    refused = CacheOutcome(samples.compile_id(0), CacheLayer.AOT_AUTOGRAD, CacheResult.BYPASS, reason="custom op")
    finding = summarize(replace(samples.clean(), caches=(refused,))).findings[0]
    assert (finding.severity, finding.evidence) == (Severity.LOW, CacheBypassed(CacheLayer.AOT_AUTOGRAD, (refused,)))
    below = replace(refused, layer=CacheLayer.FX_GRAPH, reason="HigherOrderOperator: cond")
    other = replace(below, compile_id=samples.compile_id(1))
    for caches, told in (((refused, below), [(refused,)]), ((refused, below, other), [(refused,), (other,)])):
        found = [one.evidence for one in summarize(replace(samples.clean(), caches=caches)).findings]
        assert [one.outcomes for one in found if isinstance(one, CacheBypassed)] == told, "the same graph: said once"


def test_three_graphs_of_a_few_ops_are_a_finding_only_where_breaks_made_them():
    def program(*breaks, ops=(2, 2, 2)):
        frames = [samples.compilation(0), *(resumed(at) for at in (20, 30))]
        graphs = tuple(samples.graph(c.compile_id, GraphStage.DYNAMO, n) for c, n in zip(frames, ops, strict=True))
        return Recording(compilations=tuple(frames), graphs=graphs, graph_breaks=breaks)

    def resumed(at):
        name = f"torch_dynamo_resume_in_step_at_{at}"
        return samples.compilation(at, function=name, resumes="step", line=10)

    cut = samples.graph_break(0, samples.PRINTING, 20, "print()")
    assert TinyGraphs in kinds(program(cut))
    assert TinyGraphs in kinds(program(cut, ops=(3, 1, 3)))
    assert TinyGraphs not in kinds(program(cut, ops=(3, 3, 4)))
    assert TinyGraphs not in kinds(program(cut, ops=(90, 3, 3)))
    alone = Recording(
        compilations=(samples.compilation(0),), graphs=(samples.graph(samples.compile_id(0), GraphStage.DYNAMO, 2),)
    )
    assert kinds(alone) == []


def test_a_long_compile_time_in_one_phase_is_good_to_know():
    def timed(seconds):
        span = Span(samples.compile_id(0), "async_compile.wait", 0.0, seconds, self_seconds=seconds)
        return Recording(compilations=(samples.compilation(0),), spans=(span,))

    assert benign(timed(60.0)) == [PhaseDominates(Phase.KERNEL_COMPILATION, 1.0)]
    assert benign(timed(2.0)) == []


def test_the_mode_is_only_told_where_a_backend_was_recorded():
    assert summarize(Recording(compilations=(samples.compilation(0, backend=""),))).modes == ()
    assert summarize(samples.clean()).modes == ("default",)
