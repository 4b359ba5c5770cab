"""Profiles there and back, and what is no profile."""

import json

import pytest

from compiler_lens.decode.profiles import profile_meta, read_profile
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


def test_what_is_written_is_read() -> None:
    meta = json.loads(json.dumps(profile_meta(PROFILE)))
    assert read(meta) == (PROFILE,)
    assert meta["names"] == ["k", "mm", "gemm"]  # each once


def test_a_note_from_before_remarks_were_facts_is_its_words() -> None:
    (found,) = read({**profile_meta(PROFILE), "notes": ["a note", ["by_place", "", None, None]]})
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
    meta = profile_meta(PROFILE)
    with pytest.raises(PayloadError, match="a profile of an unknown shape"):
        read({**meta, **change})
    with pytest.raises(PayloadError):
        read({})


LAUNCH = profile_meta(PROFILE)["launches"][0]
CEILINGS = profile_meta(PROFILE)["ceilings"]


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
        {"names": [{}, "mm", "gemm"]},
        {"others": [["aten::sum", "4", 1.0]]},
        {"ceilings": {**CEILINGS, "bytes_per_second": "fast"}},
        {"ceilings": {**CEILINGS, "flops_per_second": {"bf16": []}}},
        {"ceilings": {**CEILINGS, "flops_per_second": "much"}},
        {"launches": [[[0, 1, None, None], *LAUNCH[1:]]]},
        {"launches": [[["0", 1, 2, None], *LAUNCH[1:]]]},
        {"launches": [[*LAUNCH[:4], {}, *LAUNCH[5:]]]},
        {"launches": [[*LAUNCH[:5], 10**400, *LAUNCH[6:]]]},
        {"launches": [[*LAUNCH[:7], None, *LAUNCH[8:]]]},
    ],
)
def test_a_number_that_is_none_is_a_problem_of_the_recording_and_no_traceback_of_a_view(
    change: dict[str, object],
) -> None:
    with pytest.raises(PayloadError, match="a profile of an unknown shape"):
        read({**profile_meta(PROFILE), **change})
