"""Profiles there and back, and what is no profile."""

import json

import pytest

from compiler_lens.decode.whole import read_profile
from compiler_lens.recording.codec import packed
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    Ceilings,
    CompileId,
    Direction,
    LaunchTime,
    OtherTime,
    Profile,
    ProfileNote,
    Remark,
    Trust,
)

PROFILE = Profile(
    calls=5,
    microseconds=120.5,
    spread=1.25,
    busy_microseconds=80.0,
    launches=(
        LaunchTime(CompileId(0, 1, 2), Direction.FORWARD, 0, "k", 1, 3.5, 0.25, 2.0, ("k",)),
        LaunchTime(
            CompileId(None, None, 0, 3), Direction.BACKWARD, 1, "mm", 0, 9.0, 0.0, 0.5, ("gemm", "k"), Trust.TEXT
        ),
    ),
    others=(OtherTime("aten::sum", 4.5, 1.0),),
    ceilings=Ceilings("a device", 1e12, {"bf16": 1e15}, None),
    timer="torch.profiler",
    training=True,
    notes=(ProfileNote(Remark.TOO_FEW), ProfileNote(Remark.OTHER_COUNT, "k", 3, 2)),
)


def read(meta: object) -> tuple[Profile, ...]:
    return read_profile(Event("lens.profile", 0.0, meta=meta), CompileId(None, None), {})


# As format 1 wrote it: tables, with the names of kernels once.
TABLES = {
    **{name: getattr(PROFILE, name) for name in ("calls", "microseconds", "spread", "busy_microseconds", "timer")},
    "training": True,
    "launches": [
        [[0, 1, 2, None], "forward", 0, 0, 1, 3.5, 0.25, 2.0, [0], "exact"],
        [[None, None, 0, 3], "backward", 1, 1, 0, 9.0, 0.0, 0.5, [2, 0], "text"],
    ],
    "names": ["k", "mm", "gemm"],
    "others": [["aten::sum", 4.5, 1.0]],
    "ceilings": {
        "device": "a device",
        "bytes_per_second": 1e12,
        "flops_per_second": {"bf16": 1e15},
        "launch_microseconds": None,
    },
    "notes": [["too_few", "", None, None], ["other_count", "k", 3, 2]],
}


@pytest.mark.parametrize("meta", [packed(PROFILE), TABLES], ids=["now", "format 1"])
def test_what_is_written_is_read(meta: dict[str, object]) -> None:
    assert read(json.loads(json.dumps(meta))) == (PROFILE,)


def test_a_note_from_before_remarks_were_facts_is_its_words() -> None:
    (found,) = read({**TABLES, "notes": ["a note", ["by_place", "", None, None]]})
    assert found.notes == (ProfileNote(Remark.WORDS, "a note"), ProfileNote(Remark.BY_PLACE))


@pytest.mark.parametrize(
    "change",
    [
        {"launches": [[1]]},
        {"names": []},
        {"ceilings": {"x": 1}},
        {"others": [1]},
        {"notes": None},
        {"notes": [["nobody", "", None, None]]},
        {"notes": [["words", 3, None, None]]},
    ],
)
def test_another_shape_is_no_profile(change: dict[str, object]) -> None:
    with pytest.raises(PayloadError, match="a profile of an unknown shape"):
        read({**TABLES, **change})
    with pytest.raises(PayloadError):
        read({})


def launch(**change: object) -> dict[str, object]:
    return {"launches": [{**packed(PROFILE)["launches"][0], **change}]}


@pytest.mark.parametrize(
    "change",
    [
        {"calls": "5"},
        {"calls": None},
        {"microseconds": "120"},
        {"microseconds": float("nan")},
        {"spread": float("inf")},
        {"busy_microseconds": [1]},
        {"timer": 3},
        {"others": [{"name": "aten::sum", "microseconds": "4", "runs": 1.0}]},
        {"ceilings": {"device": "a device", "bytes_per_second": "fast"}},
        {"ceilings": {"device": "a device", "flops_per_second": {"bf16": []}}},
        {"ceilings": {"device": "a device", "flops_per_second": "much"}},
        launch(compile_id="0"),
        launch(compile_id=[0, 1]),
        launch(launch={}),
        launch(microseconds=10**400),
        launch(runs=None),
    ],
)
def test_a_number_that_is_none_is_a_problem_of_the_recording_and_no_traceback_of_a_view(
    change: dict[str, object],
) -> None:
    with pytest.raises(PayloadError, match="a profile of an unknown shape"):
        read({**packed(PROFILE), **change})
