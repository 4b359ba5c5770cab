"""Where compilations begin and end, and what torch counts of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler_lens.decode import frames
from compiler_lens.decode.fold import fold
from compiler_lens.decode.frames import FrameEnd, FrameStart, Metrics, ResumeName
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, SourceLine

PAYLOADS = Path(__file__).parent.parent / "payloads"
VERSIONS = ("2.11", "2.13", "2.15")
ID = CompileId(1, 0)
APP = "/home/user/app/ex.py"


def load(version: str, name: str) -> tuple[Event, dict[int, str]]:
    values = json.loads((PAYLOADS / version / "frames" / f"{name}.json").read_text())
    files = {int(number): file for number, file in values["files"].items()}
    return Event(values["name"], 7.5, attempt=2, meta=values["meta"]), files


def start(version: str, name: str) -> FrameStart:
    event, files = load(version, name)
    (found,) = frames.read_dynamo_start(event, ID, files)
    return found


def metrics(version: str, name: str) -> Metrics:
    event, files = load(version, name)
    (found,) = frames.read_metrics(event, ID, files)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_torchs_start_ends_its_stack_with_the_frame(version: str) -> None:
    found = start(version, "start")
    assert (found.function, found.file, found.line) == ("branch", APP, 21)
    assert found.stack[-1] == SourceLine(APP, 21, "branch")
    assert found.stack[0] == SourceLine("/home/user/app/main.py", 17, "<module>", "f()")
    assert (found.compile_id, found.at, found.attempt, found.backend) == (ID, 7.5, 2, "")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_resume_function_starts_under_its_own_name(version: str) -> None:
    assert start(version, "resume_start").function == "torch_dynamo_resume_in_branch_at_23"


def test_our_start_knows_what_the_frame_is_compiled_with() -> None:
    meta = {
        "function": "forward", "file": "m.py", "line": 3, "backend": "inductor", "mode": "max-autotune",
        "options": {"epilogue_fusion": True}, "dynamic": False, "module": "Block",
    }  # fmt: skip
    (found,) = frames.read_frame_start(Event("lens.frame_start", 7.5, attempt=1, meta=meta), ID, {})
    options = {"epilogue_fusion": "True"}
    assert found == FrameStart(
        ID, 7.5, (), "forward", "m.py", 3, 1, "inductor", "max-autotune", options, dynamic=False, module="Block"
    )


def test_our_start_may_know_little() -> None:
    (found,) = frames.read_frame_start(Event("lens.frame_start", 7.5, meta={"mode": None, "options": None}), ID, {})
    assert found == FrameStart(ID, 7.5)


def test_our_end_tells_result_and_reason() -> None:
    meta = {"result": "none", "reason": "no ops"}
    assert frames.read_frame_end(Event("lens.frame_end", 9.0, meta=meta), ID, {}) == (
        FrameEnd(ID, 9.0, "none", "no ops"),
    )
    with pytest.raises(PayloadError):
        frames.read_frame_end(Event("lens.frame_end", 9.0), ID, {})


@pytest.mark.parametrize("version", VERSIONS)
def test_metrics_keep_counts_and_times_and_drop_configurations(version: str) -> None:
    found = metrics(version, "metrics")
    values = found.values
    assert not found.backward
    assert (values["co_name"], values["co_filename"], values["co_firstlineno"]) == ("branch", APP, 21)
    assert (values["graph_op_count"], values["has_guarded_code"], values["is_forward"]) == (3, True, True)
    assert values["guard_count"] > 0
    assert values["entire_frame_compile_time_s"] > 0
    assert values["dynamo_cumulative_compile_time_us"] > 0
    assert "fail_type" not in values
    assert not [name for name in values if name.endswith("_config")]
    assert not {"graph_node_shapes", "stack_trace"} & set(values)
    assert len(json.dumps(dict(values))) < 4_000


@pytest.mark.parametrize("version", VERSIONS)
def test_metrics_of_a_skipped_frame_say_why(version: str) -> None:
    values = metrics(version, "skipped_metrics").values
    assert values["fail_type"] == "Unsupported"
    assert values["fail_reason"].startswith("Data-dependent branching\n")
    assert (values["fail_user_frame_filename"], values["fail_user_frame_lineno"]) == (APP, 40)


@pytest.mark.parametrize("version", VERSIONS)
def test_metrics_of_a_recompile_give_its_reason(version: str) -> None:
    assert metrics(version, "recompiled_metrics").values["recompile_reason"].startswith("0/0: a == 3")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_backwards_metrics_are_told_apart(version: str) -> None:
    found = metrics(version, "backward_metrics")
    assert found.backward
    assert found.values["backward_cumulative_compile_time_us"] > 0


def test_metrics_alone_name_the_function_and_no_line_is_line_zero() -> None:
    meta = {"compile_id": "0/0", "co_name": "f", "co_filename": "f.py", "co_firstlineno": None}
    alone = fold([Event("compilation_metrics", 1.0, 0, (0, 0, None), meta=meta)], strict=True)
    (compilation,) = alone.compilations
    assert (compilation.function, compilation.file, compilation.line) == ("f", "f.py", 0)


def test_bytecode_names_a_resume_function() -> None:
    name = "torch_dynamo_resume_in_forward_at_23"
    event = Event(f"{name}_ORIGINAL_BYTECODE", 1.0, text=" 23  0 RESUME")
    assert frames.read_bytecode_name(event, ID, {}) == (ResumeName(ID, name),)
    assert frames.read_bytecode_name(Event("forward_ORIGINAL_BYTECODE", 1.0), ID, {}) == ()


def test_a_start_without_a_stack_is_an_error() -> None:
    with pytest.raises(PayloadError):
        frames.read_dynamo_start(Event("dynamo_start", 1.0, meta={"stack": []}), ID, {})
