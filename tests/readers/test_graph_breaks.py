"""Breaks and errors of three torch versions, as torch told them of `ex.py`; torch's own tracebacks are shortened."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from compiler_lens.decode.frames import Failure
from compiler_lens.decode.graph_breaks import (
    read_causes,
    read_dynamo_error,
    read_graph_break,
    read_reason,
    with_callers,
)
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import BreakOutcome, CompileId, GraphBreak, SourceLine

PAYLOADS = Path(__file__).parent.parent / "payloads"
VERSIONS = ("2.11", "2.13", "2.15")
ID = CompileId(3, 1)
SPLIT, REST, FRAME = BreakOutcome.SPLIT, BreakOutcome.SKIPPED_REST, BreakOutcome.SKIPPED_FRAME


class Expected(NamedTuple):
    outcome: BreakOutcome
    reason: str  # how it begins
    line: int
    function: str
    depth: int  # of the user's stack
    causes: tuple[tuple[str, str | None], ...]


TRACING = "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y)"
REST_TOLD = (
    "Encountered graph break that we cannot resume from. "
    "Compiling up to the previous resumable state, then skipping the rest of the function."
)
FRAME_TOLD = "Failed to handle graph break gracefully. Skipping the function and falling back to eager."
PRINT = ("Failed to trace builtin operator", "GB0059")
BRANCH = ("Data-dependent branching", "GB0170")
ITEM = ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "GB0124")

EXPECTED = {
    "nested_print": Expected(SPLIT, TRACING, 13, "inner_print", 5, (PRINT,)),
    "nested_graph_breaks": Expected(SPLIT, TRACING, 13, "inner_print", 5, (PRINT,)),
    "verbose": Expected(SPLIT, TRACING, 13, "inner_print", 5, (PRINT,)),
    "branch": Expected(SPLIT, "", 23, "branch", 3, (BRANCH,)),
    "item": Expected(SPLIT, TRACING, 29, "item", 3, (ITEM,)),
    "loop": Expected(FRAME, FRAME_TOLD, 40, "loop", 3, (BRANCH, ("graph break in loop", "GB7000"))),
    "try_block": Expected(FRAME, FRAME_TOLD, 47, "trying", 3, (ITEM,)),
    "context_manager": Expected(
        FRAME, FRAME_TOLD, 62, "under", 3, (PRINT, ("Graph break under GenericContextWrappingVariable", "GB0066"))
    ),
    "message": Expected(SPLIT, TRACING, 83, "explicit_msg", 3, (("Call to `torch._dynamo.graph_break()`", "GB0025"),)),
    "disabled": Expected(
        SPLIT, TRACING, 90, "calls_disabled", 3, (("Skip calling `torch.compiler.disable()`d function", "GB0098"),)
    ),
    "multiline_call": Expected(SPLIT, TRACING, 113, "multiline", 3, (PRINT,)),
    "observed": Expected(FRAME, FRAME_TOLD, 129, "raises", 3, (("Observed exception", "GB0088"),)),
    "rest": Expected(REST, REST_TOLD, 200, "attr", 3, (("Tensor with grad_fn()", "GB0104"),)),
}


def payload(version: str, name: str) -> str:
    return (PAYLOADS / version / "breaks" / f"{name}.txt").read_text()


def the_break(version: str, name: str) -> GraphBreak:
    (found,) = read_graph_break(Event("dynamo_graph_break_reason", 1.0, attempt=2, text=payload(version, name)), ID, {})
    return found


def the_failure(version: str, name: str) -> Failure:
    (found,) = read_dynamo_error(Event("dynamo_error", 1.0, text=payload(version, f"{name}.error")), ID, {})
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", EXPECTED)
def test_a_break_tells_outcome_place_stack_and_causes(version: str, name: str) -> None:
    found, expected = the_break(version, name), EXPECTED[name]
    assert found.outcome is expected.outcome
    assert found.reason == expected.reason
    assert found.location is not None
    assert (found.location.file, found.location.line) == ("/home/user/app/ex.py", expected.line)
    assert found.location.function == expected.function
    assert found.location == found.user_stack[-1]
    assert len(found.user_stack) == expected.depth
    assert tuple((cause.gb_type, cause.gbid) for cause in found.causes) == expected.causes
    assert all(cause.explanation for cause in found.causes)
    assert (found.compile_id, found.attempt, found.text) == (ID, 2, payload(version, name))


@pytest.mark.parametrize("path", sorted(PAYLOADS.glob("*/breaks/*.txt")), ids=lambda p: f"{p.parts[-3]}/{p.stem}")
def test_every_payload_is_read_and_no_frame_of_torchs_tracing_is_taken_for_the_users(path: Path) -> None:
    event = Event("dynamo_graph_break_reason", 1.0, text=path.read_text())
    if path.stem.endswith(".error"):
        (failure,) = read_dynamo_error(event, ID, {})
        assert failure.message
        return
    (found,) = read_graph_break(event, ID, {})
    assert not any("symbolic_convert.py" in frame.file or "output_graph.py" in frame.file for frame in found.user_stack)
    assert found.root.gb_type
    assert "Traceback" not in found.root.context.partition("Exception:")[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_user_stack_begins_at_the_program(version: str) -> None:
    stack = the_break(version, "nested_print").user_stack
    assert [frame.function for frame in stack] == ["<module>", "b_nested", "outer_print", "middle_print", "inner_print"]
    assert [frame.code for frame in stack[2:]] == [
        "return middle_print(x.sin()) - 1",
        "return inner_print(x) * 2",
        'print("hi")',
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_values_of_several_lines_are_kept_whole(version: str) -> None:
    told = the_break(version, "message").root
    assert told.explanation == "User-inserted graph break. Message: I want\nto look at x\n\n  here"
    assert told.hints == ("Remove the `torch._dynamo.graph_break()` call.",)
    assert told.context.endswith(r"{'msg': ConstantVariable(str: 'I want\nto look at x\n\n  here')}`")


def test_the_values_that_a_branch_was_computed_from_stay_in_its_explanation() -> None:
    told = the_break("2.13", "branch").root
    assert "\n  The branch condition involves a tensor computed as follows:\n" in told.explanation
    assert told.explanation.endswith("gt = gt(sum_1, 0)")
    assert told.hints[-1] == "Use `torch.cond` to express dynamic control flow."
    assert told.context == "attempted to jump with TensorVariable()"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_break_without_hints_has_none(version: str) -> None:
    told = the_break(version, "rest").root
    assert told.hints == ()
    assert told.context.endswith(" TensorVariable() grad_fn")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_higher_order_operator_is_told_apart_from_the_cause(version: str) -> None:
    told = the_break(version, "higher_order_op").root
    assert (told.gb_type, told.gbid) == PRINT
    assert told.higher_order_op == "autograd.Function"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "outcome"), [("user_error", SPLIT), ("user_error_rest", REST)])
def test_an_error_that_the_registry_does_not_know_is_told_in_torchs_words(
    version: str, name: str, outcome: BreakOutcome
) -> None:
    found = the_break(version, name)
    assert found.outcome is outcome
    assert found.root.gb_type.startswith("UserError: ")
    assert found.root.gbid is None
    assert found.root.explanation in payload(version, name)
    assert "data-dependent expression u0" in found.root.explanation.partition("\n")[0]
    assert found.root.explanation.endswith("#constrain-as-size-example")
    assert found.location == found.user_stack[-1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_backend_that_gives_up_is_told_twice(version: str) -> None:
    first, second = the_break(version, "wont_convert"), the_break(version, "backend_exception")
    assert first.root.gb_type == "DataDependentOutputException: aten._local_scalar_dense.default"
    assert first.location == SourceLine("/home/user/app/ex.py", 249, "plain")
    assert second.root.gb_type == "Backend compiler exception"
    assert second.root.context.startswith("Backend: data_dep_backend\n")
    assert {first.outcome, second.outcome} == {FRAME}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_break_outside_of_tracing_skips_the_frame(version: str) -> None:
    found = the_break(version, "convert_frame_skip")
    assert found.outcome is FRAME
    assert found.reason.startswith("Graph break: torch.compile cannot properly resume from this graph break")
    assert (found.root.gb_type, found.root.gbid) == ("Excessive RestartAnalysis() calls", "GB0052")
    assert found.location == SourceLine("/home/user/app/ex.py", 664, "restarts")


def test_a_break_inside_torch_is_placed_where_torch_says() -> None:
    found = the_break("2.13", "inside_torch")
    assert found.location is not None
    assert found.location.file.endswith("torch/nn/modules/linear.py")
    assert found.user_stack[2] == SourceLine(
        "/home/user/app/ex.py", 94, "deep", "return copy.deepcopy(nn.Linear(8, 8))(x)"
    )


def test_code_of_several_lines_becomes_one() -> None:
    assert the_break("2.15", "multiline_call").user_stack[-1].code == 'print("a", z.shape, "b",)'


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "gb_type", "line"),
    [
        ("fullgraph", "Data-dependent branching", 23),
        ("fullgraph_print", "Failed to trace builtin operator", 13),
        ("observed", "Observed exception", 129),
        ("skipped_loop", "Data-dependent branching", 40),
    ],
)
def test_an_error_of_the_registrys_kinds_has_a_cause_and_a_line(
    version: str, name: str, gb_type: str, line: int
) -> None:
    failure = the_failure(version, name)
    assert failure.cause is not None
    assert failure.cause.gb_type == gb_type
    assert failure.cause.hints
    assert "from user code" not in failure.cause.context
    assert failure.line is not None
    assert (failure.line.file, failure.line.line) == ("/home/user/app/ex.py", line)
    assert failure.message == f"Unsupported: {gb_type}"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_backend_is_told_in_its_own_words(version: str) -> None:
    failure = the_failure(version, "backend")
    assert failure.cause is None
    assert failure.line is None
    assert failure.message == (
        "BackendCompilerFailed: backend='failing_backend' raised:\nRuntimeError: the backend: said no\nin two lines"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_of_a_chain_of_exceptions_the_last_is_told(version: str) -> None:
    failure = the_failure(version, "user_error")
    assert failure.message.startswith("UserError: ")
    assert failure.message.endswith("#constrain-as-size-example")
    assert failure.line == SourceLine("/home/user/app/ex.py", 134, "symint_branch", "if n > 3:")


def test_a_traceback_within_a_message_is_part_of_the_message() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\nmod.Bad: a worker said:\n'
    text += 'Traceback (most recent call last):\n  File "b.py", line 2, in g\nValueError: no\n'
    (failure,) = read_dynamo_error(Event("dynamo_error", 1.0, text=text), ID, {})
    assert failure.message.startswith("Bad: a worker said:\nTraceback")


IN_A_LOOP = """\
Graph break in user code at /home/user/train.py:6
Graph Break Reason: Failed to handle graph break gracefully. Skipping the function and falling back to eager. \
Graph break encountered:

{other}graph break in loop
  Explanation: torch.compile detected a graph break in a for/while loop.

  Developer debug context: frame skipped: run (/home/user/train.py line 4)

User code traceback:
  File "/home/user/train.py", line 6, in run
    if np.random.uniform(0, 1) < 0.5:

Traceback (most recent call last):
  File "/torch/_dynamo/utils.py", line 4231, in run_node
    return node.target(*args, **kwargs)
torch._dynamo.exc.UserError: Could not guard on data-dependent expression zuf0

Caused by: if np.random.uniform(0, 1) < 0.5:

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/torch/_dynamo/exc.py", line 723, in unimplemented
    raise Unsupported(
torch._dynamo.exc.Unsupported: graph break in loop
  Explanation: torch.compile detected a graph break in a for/while loop.
"""
PRINTS = "Failed to print\n  Explanation: it prints\n\n*** While handling this graph break, another graph break occurred: ***\n\n"


@pytest.mark.parametrize(
    ("text", "causes"),
    [
        (
            IN_A_LOOP.format(other=""),
            ["UserError: Could not guard on data-dependent expression zuf0", "graph break in loop"],
        ),
        (IN_A_LOOP.format(other=PRINTS), ["Failed to print", "graph break in loop"]),
        (IN_A_LOOP.format(other="").partition("\nTraceback")[0], ["graph break in loop"]),
    ],
)
def test_a_break_in_a_loop_is_told_with_the_error_that_it_came_of(text: str, causes: list[str]) -> None:
    """The message names another break that came first, but of an error only the traceback has it."""
    found = read_reason(text)
    assert [one.gb_type for one in found.causes] == causes
    assert len(causes) == 1 or "Caused by" in found.root.explanation or found.root.gb_type.startswith("Failed")


def line(number: int, function: str, file: str = "net.py") -> SourceLine:
    return SourceLine(file, number, function, f"line {number}")


@pytest.mark.parametrize(
    ("told", "frames", "full"),
    [
        ([("main", 1), ("forward", 9)], [("forward", 5), ("forward", 9)], ["main:1", "forward:5", "forward:9"]),
        (
            [("main", 1), ("step", 3), ("forward", 9), ("loss", 11)],
            [("step", 3), ("forward", 5), ("forward", 7), ("forward", 9), ("loss", 11)],
            ["main:1", "step:3", "forward:5", "forward:7", "forward:9", "loss:11"],
        ),
        ([("main", 1), ("forward", 9)], [], ["main:1", "forward:9"]),
        ([("main", 1), ("forward", 9)], [("forward", 5), ("forward", 8)], ["main:1", "forward:9"]),  # another break's
    ],
)
def test_callers_of_one_name_that_torch_leaves_out_are_put_back(
    told: list[tuple[str, int]], frames: list[tuple[str, int]], full: list[str]
) -> None:
    stack = tuple(line(number, function) for function, number in told)
    found = with_callers(stack, [("net.py", number, function, f"line {number}") for function, number in frames])
    assert [f"{one.function}:{one.line}" for one in found] == full
    assert all(one == line(one.line, one.function) for one in found)


def test_frames_of_another_shape_are_an_error() -> None:
    text = "Graph break in user code at net.py:5\nGraph Break Reason: no\n\nUser code traceback:\n"
    event = Event("dynamo_graph_break_reason", 0.0, meta={"frames": [["net.py", "5", "f"]]}, text=text)
    with pytest.raises(PayloadError):
        read_graph_break(event, ID, {})


def test_an_unknown_beginning_is_an_error() -> None:
    with pytest.raises(PayloadError, match="an unknown beginning: 'Something else'"):
        read_graph_break(Event("dynamo_graph_break_reason", 1.0, text="Something else"), ID, {})
    with pytest.raises(PayloadError):
        read_dynamo_error(Event("dynamo_error", 1.0, text="no traceback"), ID, {})


PRINT_REGISTRY = """
import json, pathlib, sys
from torch._dynamo import exc
registry = json.loads(pathlib.Path(exc.__file__).with_name("graph_break_registry.json").read_text())
keys = ("Gb_type", "Context", "Explanation", "Hints")
rows = [(number, [row[key] for key in keys]) for number, rows in registry.items() for row in rows]
json.dump([(number, row, exc.format_graph_break_message(*row)) for number, row in rows], sys.stdout)
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="the registry is torch's")
def test_all_of_torchs_registry_is_read_back() -> None:
    # In a process of its own: no test of a reader has torch loaded.
    done = subprocess.run([sys.executable, "-c", PRINT_REGISTRY], capture_output=True, check=True, text=True)
    rows = json.loads(done.stdout)
    assert len(rows) > 400
    numbers: dict[str, set[str]] = {}
    for number, (gb_type, *_), _text in rows:
        numbers.setdefault(gb_type, set()).add(number)
    for _number, (gb_type, context, explanation, hints), text in rows:
        (cause,) = read_causes(text)
        assert (cause.gb_type, cause.context, cause.explanation) == (gb_type, context.strip(), explanation.strip())
        assert cause.hints == tuple(hint.strip() for hint in hints)
        assert cause.gbid in numbers[gb_type]
