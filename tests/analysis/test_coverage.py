"""Every frame is counted once, under the name that its author knows."""

import pytest
import sample_recordings as samples

from compiler_lens.facts.program.coverage import FunctionName, Treatment, coverage, function_name
from compiler_lens.recording.model import BreakOutcome, Outcome, Recording


def covered(*compilations, breaks=()):
    return coverage(Recording(compilations=compilations, graph_breaks=breaks))


def test_a_frame_is_its_compilations_and_counts_once():
    found = covered(samples.compilation(0), samples.compilation(0, 1), samples.compilation(1, function="other"))
    assert [len(frame.compilations) for frame in found.frames] == [2, 1]
    assert found.counts[Outcome.COMPILED] == 2


@pytest.mark.parametrize("outcome", list(Outcome))
def test_each_outcome_has_a_count_of_its_own(outcome):
    assert dict(covered(samples.compilation(0, outcome=outcome)).counts) == {outcome: 1}


def test_a_frame_that_breaks_before_its_first_op_runs_eagerly_though_torch_calls_it_empty():
    frame = samples.compilation(0, function="step", line=10, outcome=Outcome.EMPTY)
    rest = samples.graph_break(0, samples.BRANCHING, 12, "print(x)", BreakOutcome.SKIPPED_REST)
    assert covered(frame).functions[0].treatment is Treatment.EMPTY
    assert covered(frame, breaks=(rest,)).functions[0].treatment is Treatment.EAGER


def test_a_frame_that_ended_in_the_recompile_limit_runs_eagerly_whatever_was_compiled_before():
    found = covered(
        samples.compilation(0), samples.compilation(0, 8, outcome=Outcome.RECOMPILE_LIMIT, reason="too many")
    )
    assert found.frames[0].outcome is Outcome.RECOMPILE_LIMIT
    assert found.frames[0].reason == "too many"


def test_an_error_that_reached_the_user_outweighs_everything():
    found = covered(samples.compilation(0), samples.compilation(0, 1, outcome=Outcome.FAILED))
    assert found.frames[0].outcome is Outcome.FAILED


def test_torchs_wrapper_around_a_module_goes_by_the_modules_class_and_where_it_was_called():
    assert function_name(samples.module(0, name="GPT")) == FunctionName("GPT", samples.APP, 34, module=True)


def test_a_module_whose_class_nobody_told_is_still_not_called_inner():
    assert function_name(samples.module(0, name="")).name == "module"


def test_a_function_of_the_users_that_is_named_inner_keeps_its_name():
    assert function_name(samples.compilation(0, function="inner")).name == "inner"


def test_modules_that_share_the_wrappers_frame_number_are_told_apart():
    found = covered(samples.module(0, name="Encoder"), samples.module(0, 1, name="Decoder"))
    assert [frame.name.name for frame in found.frames] == ["Encoder", "Decoder"]


def test_resume_functions_belong_to_the_function_that_they_resume():
    resume = samples.compilation(1, function="torch_dynamo_resume_in_step_at_18", line=18)
    (function,) = covered(samples.compilation(0, function="step", line=10), resume).functions
    assert function.name.name == "step"
    assert [frame.resumes_at for frame in function.frames] == [None, 18]
    assert function.parts == 2


def test_a_function_is_in_parts_where_a_break_cut_it_or_it_has_several_graphs():
    def treatment(*breaks, graphs=1):
        made = [samples.compilation(0), samples.compilation(1, function="torch_dynamo_resume_in_step_at_18", line=18)]
        (function,) = covered(*made[:graphs], breaks=breaks).functions
        return function.treatment

    assert treatment() is Treatment.WHOLE
    assert treatment(samples.graph_break(0, samples.PRINTING, 18, "print()")) is Treatment.SPLIT
    assert treatment(graphs=2) is Treatment.SPLIT


def test_of_two_functions_with_one_name_the_resume_function_belongs_to_the_one_around_its_line():
    first = samples.compilation(0, function="forward", line=10)
    second = samples.compilation(1, function="forward", line=40)
    rest = samples.compilation(2, function="torch_dynamo_resume_in_forward_at_31", line=31)
    functions = covered(first, second, rest).functions
    assert [[frame.id.frame for frame in function.frames] for function in functions] == [[0, 2], [1]]


def test_a_resume_function_whose_beginning_was_not_recorded_goes_by_its_functions_name():
    (function,) = covered(samples.compilation(0, function="torch_dynamo_resume_in_step_at_18")).functions
    assert function.name.name == "step"


@pytest.mark.parametrize("outcome", [Outcome.SKIPPED, Outcome.EMPTY])
def test_library_frames_that_dynamo_passed_over_are_not_the_users(outcome):
    typing = samples.compilation(1, function="cast", file="/usr/lib/python3.11/typing.py", outcome=outcome)
    found = covered(samples.compilation(0), typing)
    assert len(found.frames) == 1
    assert [frame.name.name for frame in found.library] == ["cast"]


def test_a_library_frame_that_broke_is_one_that_the_user_waits_for():
    skipped = samples.compilation(
        1, function="forward", file=samples.TORCH + "nn/modules/rnn.py", outcome=Outcome.SKIPPED
    )
    assert not covered(skipped, breaks=(samples.graph_break(1, samples.PRINTING, 9, "rnn(x)"),)).library


def test_the_same_number_after_a_reset_is_another_frame_of_the_same_function():
    from msgspec.structs import replace

    first = samples.compilation(0)
    found = covered(first, replace(first, compile_id=samples.compile_id(0, 0, epoch=1)))
    assert len(found.frames) == 2
    assert len(found.functions) == 1


@pytest.mark.parametrize("make", [samples.broken, samples.many, samples.clean, samples.empty])
def test_the_counts_of_outcomes_add_up_to_the_frames(make):
    found = coverage(make())
    assert sum(found.counts.values()) == len(found.frames)
    assert sum(len(function.frames) for function in found.functions) == len(found.frames)
