"""What each setting does to a program, measured: the figures, the choice of trials, the advice."""

import logging
from collections.abc import Callable

import programs
import pytest
import torch

import compiler_lens
from compiler_lens.capture.torch_api.settings import has_setting
from compiler_lens.facts.measured.what_if import Trial, WhatIf
from compiler_lens.measure.what_if import CHANGES

Find = Callable[[WhatIf, str], Trial]


def names(result: WhatIf) -> list[str]:
    return [trial.name for trial in result.trials]


def cost(trial: Trial) -> tuple[int, int, int, int]:
    """Frames that run eagerly, breaks, recompiles, graphs."""
    after = trial.after
    assert after is not None, trial.error
    return after.eager_frames, after.breaks, after.recompiles, after.graphs


def test_item_is_captured(trial: Find) -> None:
    result = compiler_lens.what_if(programs.item, torch.randn(4))
    assert cost(result.baseline) == (0, 2, 0, 3)
    assert cost(trial(result, "capture_scalar_outputs")) == (0, 0, 0, 1)
    assert result.best is trial(result, "capture_scalar_outputs")
    assert result.best.code == ("torch._dynamo.config.capture_scalar_outputs = True",)
    assert result.best.before == result.baseline.after


def test_the_figures_are_those_of_a_lens() -> None:
    with compiler_lens.Lens(progress=False, strict=True) as lens:
        compiled, x = torch.compile(programs.item, backend="eager"), torch.randn(4)
        for _ in range(2):
            compiled(x)
    counts = compiler_lens.what_if(programs.item, x).baseline.after
    recording = lens.recording
    assert counts is not None
    assert counts.breaks == len(recording.graph_breaks)
    assert counts.graphs == sum(graph.stage.value == "dynamo" for graph in recording.graphs)
    assert counts.compilations == len(recording.compilations)
    assert counts.seconds > 0


def test_nonzero_gets_a_size_unknown_at_compile_time(trial: Find) -> None:
    result = compiler_lens.what_if(programs.rows, torch.randn(4, 4))
    assert cost(result.baseline) == (0, 1, 0, 2)
    assert cost(trial(result, "capture_dynamic_output_shape_ops")) == (0, 0, 0, 1)
    assert result.best is trial(result, "capture_dynamic_output_shape_ops")


def test_a_break_below_a_call_is_one_break_with_nested_graph_breaks(trial: Find) -> None:
    result = compiler_lens.what_if(programs.calls_printing, torch.randn(4))
    assert cost(result.baseline)[1] == 2
    if has_setting("nested_graph_breaks"):
        assert cost(trial(result, "nested_graph_breaks")) == (0, 1, 0, 2)
    assert cost(trial(result, "reorderable_logging_functions")) == (0, 0, 0, 1)
    assert result.best is trial(result, "reorderable_logging_functions")


def test_logging_is_left_out(trial: Find) -> None:
    result = compiler_lens.what_if(programs.logging_function, torch.randn(4))
    assert cost(result.baseline) == (0, 1, 0, 2)
    assert cost(trial(result, "ignore_logging_functions")) == (0, 0, 0, 1)


def test_an_lstm_is_compiled(trial: Find) -> None:
    result = compiler_lens.what_if(programs.Tagger(), torch.randn(3, 2, 4))
    assert cost(result.baseline)[1] > 0
    assert cost(trial(result, "allow_rnn")) == (0, 0, 0, 1)
    assert result.best is trial(result, "allow_rnn")


def test_a_growing_batch_is_compiled_once_with_dynamic_sizes(trial: Find) -> None:
    calls = [((torch.randn(size, 3),), {}) for size in (8, 4, 5)]
    result = compiler_lens.what_if(programs.by_size, calls=calls)
    assert result.calls == 12  # the three, until a recompile limit would show
    assert cost(result.baseline) == (0, 0, 1, 2)
    assert cost(trial(result, "dynamic=True")) == (0, 0, 0, 1)
    assert cost(trial(result, "mark_dynamic")) == (0, 0, 0, 1)
    assert trial(result, "mark_dynamic").code == ("torch._dynamo.mark_dynamic(x, 0)",)
    assert cost(trial(result, "assume_static_by_default")) == (0, 0, 0, 1)
    assert not any(" + " in name for name in names(result)), "three ways to one thing"


def test_a_size_that_changed_once_is_nothing_to_try() -> None:
    calls = [((torch.randn(size, 3),), {}) for size in (8, 4)]
    result = compiler_lens.what_if(programs.by_size, calls=calls)
    assert cost(result.baseline) == (0, 0, 1, 2)
    assert not any(trial.helps for trial in result.trials)
    assert result.best is None
    assert str(result) == "Nothing to try: 2 graphs, no breaks, 1 recompile in 10 calls, as expected"


def test_where_graphs_break_a_benign_recompile_is_no_gain(trial: Find) -> None:
    """The lines that break, break again when a size changes: to have that once is no better program."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return programs.by_size(x) * x.sum().item()

    result = compiler_lens.what_if(program, calls=[((torch.randn(size, 3),), {}) for size in (8, 4)])
    assert result.baseline.after is not None
    assert result.baseline.after.breaks == 2
    assert result.baseline.after.benign_breaks == 1
    assert cost(trial(result, "dynamic=True"))[1] == 1
    assert not trial(result, "dynamic=True").helps
    assert result.best is trial(result, "capture_scalar_outputs")


def test_a_recompile_too_many_is_worth_a_setting(trial: Find) -> None:
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        calls = [((torch.randn(size, 3),), {}) for size in (8, 4, 5)]
        result = compiler_lens.what_if(programs.by_size, calls=calls)
    assert cost(result.baseline) == (0, 0, 2, 3)
    assert not result.is_clean
    assert result.best is trial(result, "dynamic=True")


def test_marks_leave_no_trace_on_the_inputs(trial: Find) -> None:
    inputs = [torch.randn(size, 3) for size in (1, 8, 4)]
    inputs[0].mine = "kept"
    result = compiler_lens.what_if(programs.by_size, calls=[((x,), {}) for x in inputs])
    assert not trial(result, "mark_dynamic").error
    assert [vars(x) for x in inputs] == [{"mine": "kept"}, {}, {}]


def test_marks_name_arguments_as_the_user_does(trial: Find) -> None:
    def program(pair: list[torch.Tensor], *, mask: torch.Tensor) -> torch.Tensor:
        return pair[1].sin() + mask.sum() + pair[0].sum()

    calls = [(([torch.randn(2), torch.randn(size)],), {"mask": torch.randn(3, size)}) for size in (8, 4)]
    result = compiler_lens.what_if(program, calls=calls)
    assert trial(result, "mark_dynamic").code == (
        "torch._dynamo.mark_dynamic(pair[1], 0)",
        "torch._dynamo.mark_dynamic(mask, 1)",
    )


def test_a_counter_in_a_module(trial: Find) -> None:
    module = programs.Counting()
    result = compiler_lens.what_if(module, calls=[((torch.randn(4),), {})] * 12)
    assert cost(result.baseline)[0] == 1, "over the recompile limit"
    assert cost(result.baseline)[2] == 8
    assert cost(trial(result, "allow_unspec_int_on_nn_module")) == (0, 0, 1, 2)
    assert module.step == 0


def test_experts_by_hand_need_the_op_captured(trial: Find) -> None:
    result = compiler_lens.what_if(programs.BranchFree(), torch.randn(6, 8))
    assert cost(result.baseline)[1] > 0
    assert cost(trial(result, "capture_dynamic_output_shape_ops")) == (0, 0, 0, 1)


def test_experts_with_a_branch_need_a_change_in_the_code() -> None:
    result = compiler_lens.what_if(programs.Experts(), torch.randn(6, 8))
    assert result.best is None
    report = result.report(width=100)
    assert "Nothing tried here helps: the breaks need a change in the code" in report
    assert "programs.py:" in report
    assert "Data-dependent branching" in report, "what would break next"


def test_two_that_help_are_tried_together(trial: Find) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return programs.rows(x) * x.sum().item()

    result = compiler_lens.what_if(program, torch.randn(4, 4))
    both = trial(result, "capture_scalar_outputs + capture_dynamic_output_shape_ops")
    assert cost(both) == (0, 0, 0, 1)
    assert result.best is both
    assert len(both.code) == 2


def test_what_is_asked_for_only_behind_another_change_is_followed(trial: Find) -> None:
    """A break in a loop skips the frame, and hides what stands behind it."""

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x[x > 0] * 2
            programs.logger.debug("once more")
        return x

    result = compiler_lens.what_if(program, torch.rand(6))
    assert result.baseline.after is not None
    assert "ignore_logging_functions" not in names(result)
    assert cost(trial(result, "capture_dynamic_output_shape_ops + ignore_logging_functions")) == (0, 0, 0, 1)


def test_nothing_that_torch_does_not_ask_for_is_tried() -> None:
    result = compiler_lens.what_if(programs.branching, torch.randn(4))
    assert names(result) == ["as it is"]
    assert {one.name for one in result.not_tried} == {change.name for change in CHANGES}
    assert all(one.reason for one in result.not_tried)
    assert "No setting could help: the breaks need a change in the code" in str(result)


def test_a_clean_program() -> None:
    result = compiler_lens.what_if(torch.nn.Linear(4, 4), torch.randn(2, 4))
    assert names(result) == ["as it is"]
    assert str(result) == "Nothing to try: 1 graph, no breaks, no recompiles"


@pytest.mark.parametrize("stance", ["force_eager", "eager_on_recompile"])
def test_a_stance_of_the_programs_is_named_and_kept(stance: str) -> None:
    try:
        torch.compiler.set_stance(stance)
        result = compiler_lens.what_if(torch.nn.Linear(4, 4), torch.randn(2, 4))
        said = " ".join(str(result).split())
        assert torch._dynamo.eval_frame._stance.stance == stance
    finally:
        torch.compiler.set_stance("default")
    assert result.stance is not None
    assert result.stance.name == stance
    assert said.startswith(f"The program takes the stance `{stance}`: calls ")
    assert "Here it was tried without." in said
    assert "Nothing to try" not in said
    assert "Nothing else to try: 1 graph" in said


def test_what_never_enters_the_compiler_is_not_called_one_without_tensor_ops() -> None:
    with torch._dynamo.config.patch(disable=True):
        result = compiler_lens.what_if(torch.nn.Linear(4, 4), torch.randn(2, 4))
    assert str(result) == "Nothing entered the compiler, so nothing could be tried."


def test_what_is_in_force_already_is_not_tried() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        result = compiler_lens.what_if(programs.rows, torch.randn(4, 4))
    assert "capture_scalar_outputs" not in names(result)
    assert {n.name: n.reason for n in result.not_tried}["capture_scalar_outputs"] == "set already"


def test_a_trial_that_raises_is_a_row(trial: Find) -> None:
    result = compiler_lens.what_if(programs.needs_a_bound, torch.full((2,), 1.5))
    row = trial(result, "capture_scalar_outputs")
    assert row.after is None
    assert not row.helps
    assert "\n" not in row.error
    assert row.error_line is not None
    assert row.error_line.file == programs.__file__
    assert f"programs.py:{row.error_line.line}" in result.report(width=100)


def test_a_program_that_fails_without_torch_compile_is_the_users_error() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such day")

    with pytest.raises(compiler_lens.UsageError, match=r"fails without torch\.compile, too: ValueError: no such day"):
        compiler_lens.what_if(program, torch.randn(3))


def test_a_compiled_model_is_tried_as_it_was_written(trial: Find) -> None:
    compiled = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4)), backend="aot_eager")
    assert cost(compiler_lens.what_if(compiled, torch.randn(2, 4)).baseline) == (0, 0, 0, 1)
    function = torch.compile(programs.item, backend="aot_eager")
    assert cost(trial(compiler_lens.what_if(function, torch.randn(4)), "capture_scalar_outputs")) == (0, 0, 0, 1)


def test_nothing_is_generated_for_a_piece_compiled_by_itself() -> None:
    """Below a function that is kept out, the inner model is compiled for itself, by the backend that it names."""
    reached = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., object]:
        reached.append(graph)
        return graph.forward

    inner = torch.compile(torch.nn.Linear(4, 4), backend=backend)

    @torch.compiler.disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    def program(x: torch.Tensor) -> torch.Tensor:
        return outside(x).sin()

    compiler_lens.what_if(program, torch.randn(2, 4))
    assert not reached
    program(torch.randn(2, 4))
    assert reached, "afterwards it is"


def test_outer_lenses_see_nothing(trial: Find) -> None:
    lens = compiler_lens.Lens(progress=False, strict=True)
    with compiler_lens.Lens(progress=False, strict=True) as everything:
        result = everything.what_if(programs.item, torch.randn(4))
        assert lens.what_if(programs.item, torch.randn(4)).best is not None
        assert not everything.recording.compilations
        assert not everything.recording.graph_breaks
        assert not everything.recording.problems
        torch.compile(programs.printing, backend="eager")(torch.randn(3))
        assert len(everything.recording.graph_breaks) == 1, "it goes on recording"
    assert not lens.recording.compilations
    lens.close()
    assert result.best is trial(result, "capture_scalar_outputs")


def test_torch_is_quiet_and_its_loggers_are_as_before(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    levels = [logging.getLogger(name).level for name in ("torch", "torch._dynamo", "torch.fx")]
    compiler_lens.what_if(programs.Counting(), calls=[((torch.randn(4),), {})] * 10)
    compiler_lens.what_if(programs.calls_printing, torch.randn(4))
    assert capfd.readouterr() == ("", "")
    assert levels == [logging.getLogger(name).level for name in ("torch", "torch._dynamo", "torch.fx")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"calls": []}, "calls is a list"),
        ({"calls": 3}, "calls is a list"),
        ({"calls": [1], "x": 2}, "not both"),
    ],
)
def test_calls_that_cannot_be_meant(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(compiler_lens.UsageError, match=said):
        compiler_lens.what_if(programs.item, **arguments)


def test_what_is_no_model() -> None:
    with pytest.raises(compiler_lens.UsageError, match="needs a model or a function"):
        compiler_lens.what_if(3, torch.randn(4))
    with pytest.raises(compiler_lens.UsageError, match="without a shape"):
        compiler_lens.what_if(torch.nn.LazyLinear(4), torch.randn(4))


def test_a_backward_runs_only_if_asked_for() -> None:
    module = torch.nn.Linear(4, 4)
    ran = []
    module.weight.register_hook(lambda _: ran.append(True))
    compiler_lens.what_if(module, torch.randn(2, 4))
    assert not ran
    compiler_lens.what_if(module, torch.randn(2, 4), training=True)
    assert ran
    assert module.weight.grad is None
    with pytest.raises(compiler_lens.UsageError, match="nothing that the call returns needs a gradient"):
        compiler_lens.what_if(programs.item, torch.randn(2), training=True)


class Growing(torch.nn.Module):
    """Every call finds one more in a list: no setting of torch's makes that one compilation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append("x")
        return x * len(self.seen)


def test_as_many_calls_are_made_as_a_recompile_limit_takes_to_show() -> None:
    result = compiler_lens.what_if(Growing(), torch.randn(4))
    assert result.calls >= torch._dynamo.config.recompile_limit + 2
    assert result.baseline.after is not None
    assert result.baseline.after.eager_frames == 1
    assert result.worst is not None
    assert result.worst.gb_type.startswith("recompile: ")
    assert "Nothing to try" not in str(result)


def test_a_higher_limit_is_no_cure_for_what_is_compiled_at_every_call() -> None:
    result = compiler_lens.what_if(Growing(), torch.randn(4))
    assert result.best is None
    assert "*" not in str(result)


def test_several_inputs_are_called_in_turn_until_a_limit_shows() -> None:
    result = compiler_lens.what_if(Growing(), calls=[(torch.randn(4),), (torch.randn(4),), (torch.randn(4),)])
    assert result.calls == 12
    assert result.baseline.after is not None
    assert result.baseline.after.eager_frames == 1


def tell(x: torch.Tensor) -> torch.Tensor:
    print("x")
    return x * 2


def searching(x: torch.Tensor) -> torch.Tensor:
    rounds = 0
    while rounds < 2:
        if x.sum() > 0:
            x = x + 1
        rounds += 1
    return tell(x)


def test_what_leaves_the_worst_break_has_no_star(trial: Find) -> None:
    result = compiler_lens.what_if(searching, torch.randn(4))
    assert result.worst is not None
    assert result.worst.line is not None
    assert result.worst.line.code.strip() == "if x.sum() > 0:"
    printed = trial(result, "reorderable_logging_functions")
    assert printed.helps
    assert result.best is None
    assert result.beside is printed
    said = " ".join(str(result).split())
    assert "Nothing tried here ends what hurts most" in said
    assert "Beside that, breaks" in said
    assert "*" not in said.partition("Nothing tried here")[0]


def test_a_setting_that_only_an_offer_names_is_tried(trial: Find) -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * torch.nn.Parameter(torch.ones(4))

    assert "graph_break_on_nn_param_ctor" not in {change.name for change in CHANGES}
    result = compiler_lens.what_if(scaled, torch.randn(4))
    assert trial(result, "graph_break_on_nn_param_ctor").code == (
        "torch._dynamo.config.graph_break_on_nn_param_ctor = False",
    )
