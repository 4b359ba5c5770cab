"""Graph breaks belong to lines of the user's own code."""

from pathlib import Path

import pytest
import sample_recordings as samples
import torch
from msgspec.structs import replace

from compiler_lens import Lens
from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.facts.breaks.hints import specific_hints
from compiler_lens.facts.program.coverage import coverage
from compiler_lens.facts.program.ownership import Ownership, innermost_own
from compiler_lens.recording.model import BreakCause, BreakOutcome, GraphStage, Recording, SourceLine
from compiler_lens.recording.own_files import is_own

PACKAGE = SourceLine(
    "/venv/lib/python3.11/site-packages/transformers/models/mixtral/modeling_mixtral.py",
    88,
    "forward",
    "idx = hit.nonzero()",
)
TORCH = SourceLine(
    "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 108, "forward", "return F.linear(...)"
)
PYTHON = SourceLine("/usr/lib/python3.11/copy.py", 153, "deepcopy", "y = copier(memo)")


def recording(*breaks):
    return Recording(graph_breaks=breaks)


@pytest.mark.parametrize(
    "file",
    [
        "/home/user/app/model.py",
        "model.py",
        "C:\\Users\\me\\app\\model.py",
        "/home/user/torch/train.py",
        "/home/user/python3/app.py",
        "/home/user/lib/python_tools/x.py",
        "<stdin>",
        "<ipython-input-3-abc>",
        "/tmp/ipykernel_4242/1234.py",
    ],
)
def test_a_file_outside_of_packages_is_the_users_own(file):
    assert is_own(file)


@pytest.mark.parametrize(
    "file",
    [
        "",
        "/venv/lib/python3.11/site-packages/transformers/trainer.py",
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "C:\\venv\\Lib\\site-packages\\torch\\nn\\functional.py",
        "/usr/lib/python3.11/logging/__init__.py",
        "/root/.pyenv/versions/3.11.7/lib/python3.11/copy.py",
        "/opt/conda/lib/python3.13t/typing.py",
        "/home/me/pytorch/torch/_dynamo/polyfills/__init__.py",
        "/home/me/pytorch/torch/nn/modules/module.py",
        "<frozen importlib._bootstrap>",
        "<string>",
        "<eval_with_key>.12",
        "/tmp/torchinductor_me/ab/cab.py",
        "/home/me/compiler_lens/compiler_lens/capture/hooks.py",
    ],
)
def test_a_file_of_torch_a_package_python_or_nobody_is_not_the_users_own(file):
    assert not is_own(file)


def test_the_innermost_own_line_is_below_all_library_lines():
    mine = SourceLine("/home/user/app/model.py", 41, "forward", "x = self.experts(x)")
    assert innermost_own((samples.CALLED, mine, PACKAGE, TORCH)) == mine
    assert innermost_own((PACKAGE, TORCH)) is None


def test_breaks_inside_libraries_are_grouped_at_the_own_line_that_led_there():
    first = samples.graph_break(1, samples.PRINTING, 18, "log(x)", inside=PYTHON)
    second = samples.graph_break(2, samples.PRINTING, 18, "log(x)", inside=PACKAGE)
    third = samples.graph_break(3, samples.PRINTING, 18, "log(x)", inside=PACKAGE)
    (card,) = break_cards(recording(first, second, third))
    assert (card.place.file, card.place.line, card.own) == (samples.MODEL, 18, True)
    assert card.events == (first, second, third)
    assert card.inside == (PACKAGE, PYTHON), "the most frequent first"


def test_without_a_line_of_the_users_the_innermost_line_that_is_not_torchs_is_the_place():
    event = replace(samples.graph_break(1, samples.PRINTING, 1, ""), user_stack=(PACKAGE, TORCH), location=TORCH)
    (card,) = break_cards(recording(event))
    assert card.place == PACKAGE
    assert not card.own


def test_what_the_user_says_is_theirs_is_theirs():
    event = replace(samples.graph_break(1, samples.PRINTING, 18, "f(x)"), user_stack=(samples.CALLED, PACKAGE, TORCH))
    (card,) = break_cards(recording(event), Ownership(("transformers",)))
    assert (card.place, card.own, card.inside) == (PACKAGE, True, (TORCH,))
    assert Ownership(("/venv/lib/python3.11/site-packages/transformers",)).owns(PACKAGE.file)
    assert not Ownership(("transform",)).owns(PACKAGE.file)


def test_paths_come_as_people_write_them():
    assert Ownership.of("transformers") == Ownership.of(["transformers"]) == Ownership(("transformers",))
    assert Ownership.of([Path("/opt/lib/site-packages/mine"), ""]) == Ownership(("/opt/lib/site-packages/mine",))
    assert Ownership.of(".").owns(str(Path.cwd() / "site-packages" / "x.py"))


def test_a_break_without_a_stack_is_at_its_location_and_one_without_either_nowhere():
    at = SourceLine(samples.MODEL, 7, "f", "print(x)")
    located = replace(samples.graph_break(1, samples.PRINTING, 1, ""), user_stack=(), location=at)
    lost = replace(located, location=None)
    assert [card.place for card in break_cards(recording(located, lost))] == [at, None]


def test_one_line_with_two_causes_is_two_places():
    breaks = (
        samples.graph_break(1, samples.PRINTING, 18, "f(x)"),
        samples.graph_break(2, samples.BRANCHING, 18, "f(x)"),
    )
    assert [card.gb_type for card in break_cards(recording(*breaks))] == [
        samples.PRINTING.gb_type,
        samples.BRANCHING.gb_type,
    ]


@pytest.mark.parametrize(
    ("code", "is_said"),
    [
        ("total += loss.item()", True),
        ('print("loss", float(out["val_loss"]))', True),
        ("return [l.item() for l in losses]", True),
        ("scale = x.abs().max().item()", False),
        ("n = closses.item()", False),
        ("n = lossless.item()", False),
        ("", False),
    ],
)
def test_only_of_a_line_that_reads_a_loss_it_is_said_to_leave_that(code, is_said):
    cause = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False", "GB0124")
    (card,) = break_cards(recording(samples.graph_break(1, cause, 18, code)))
    assert card.remedy.name == "item"
    assert card.remedy.leave == ("Reading a loss for the log belongs outside of the compiled function." * is_said)


@pytest.mark.parametrize(
    "make", [samples.broken, samples.many, samples.hostile, samples.nothing_compiled, samples.empty]
)
def test_the_cards_partition_the_events(make):
    breaks = make().graph_breaks
    grouped = [event for card in break_cards(make()) for event in card.events]
    assert len(grouped) == len(breaks)
    assert set(grouped) == set(breaks)


def test_a_place_that_makes_frames_run_eagerly_comes_before_one_that_only_splits():
    often = [samples.graph_break(i, samples.PRINTING, 18, "print()") for i in range(9)]
    once = samples.graph_break(20, samples.BRANCHING, 30, "if x:", BreakOutcome.SKIPPED_FRAME)
    cards = break_cards(recording(*often, once))
    assert [card.gb_type for card in cards] == [samples.BRANCHING.gb_type, samples.PRINTING.gb_type]
    assert cards[0].frames_that(BreakOutcome.SKIPPED_FRAME) == 1
    assert cards[1].outcomes == ((BreakOutcome.SPLIT, 9),)


def test_the_cause_is_the_root_not_what_happened_while_handling_it():
    (card,) = break_cards(recording(samples.graph_break(4, samples.BRANCHING, 28, "if x:", then=(samples.IN_LOOP,))))
    assert card.cause == samples.BRANCHING


def test_a_break_without_a_cause_is_a_break_all_the_same():
    (card,) = break_cards(recording(replace(samples.graph_break(1, samples.PRINTING, 18, "f()"), causes=())))
    assert card.gb_type == "Graph break of unknown cause"
    assert specific_hints(card.cause) == ()


def test_hints_that_fit_any_break_are_no_advice():
    cause = BreakCause("x", hints=(samples.FUNDAMENTAL, samples.GENERIC, "Use `torch.cond`.", *samples.IN_LOOP.hints))
    assert specific_hints(cause) == ("Use `torch.cond`.",)


def test_functions_of_one_name_in_one_file_are_counted_apart():
    one, other = (samples.compilation(i, function="forward", line=line) for i, line in ((1, 10), (2, 50)))
    rest = samples.compilation(
        3, function="torch_dynamo_resume_in_forward_at_12", resumes="forward", line=12, stack=(samples.CALLED,)
    )
    graphs = tuple(samples.graph(c.compile_id, GraphStage.DYNAMO, 4) for c in (one, other, rest))
    event = samples.graph_break(1, samples.PRINTING, 12, "print()")
    (card,) = break_cards(Recording(compilations=(one, other, rest), graphs=graphs, graph_breaks=(event,)))
    assert (card.parts, card.functions_that(BreakOutcome.SPLIT)) == (2, 1)


def test_the_parts_of_a_function_are_without_recompiles_and_without_the_other_way_of_a_branch():
    first = samples.compilation(1, function="forward", line=10)
    again = replace(first, compile_id=replace(first.compile_id, recompile=1))
    ways = tuple(
        samples.compilation(i, function="torch_dynamo_resume_in_forward_at_12", resumes="forward", line=12)
        for i in (2, 3)
    )
    made = (first, again, *ways)
    graphs = tuple(samples.graph(c.compile_id, GraphStage.DYNAMO, 4) for c in made)
    event = samples.graph_break(1, samples.BRANCHING, 12, "if x.sum() > 0:")
    run = Recording(compilations=made, graphs=graphs, graph_breaks=(event,))
    (card,) = break_cards(run)
    (function,) = coverage(run).functions
    assert (card.parts, function.parts) == (2, 2)
    inside = samples.graph_break(2, samples.PRINTING, 12, "f(print(x))")
    (function,) = coverage(replace(run, graph_breaks=(event, inside))).functions
    assert function.parts == 3  # the line broke twice: what is behind the second time follows what is behind the first


def test_beside_code_to_write_nothing_says_to_leave_it():
    def logged(x):
        loss = x.sum()
        return x / loss.item()

    def guarded(x):
        if torch.isnan(x).any():
            raise ValueError("nan")
        return x + 1

    with Lens(strict=True) as lens:
        for function in (logged, guarded):
            torch._dynamo.reset()
            torch.compile(function, backend="eager")(torch.ones(3))
    cards = break_cards(lens.recording)
    written = [card for card in cards if card.rewrite and card.rewrite.is_complete]
    assert {card.remedy.name for card in written} == {"item", "check_that_raises"}
    assert not [card.remedy.leave for card in written if card.remedy.leave]
