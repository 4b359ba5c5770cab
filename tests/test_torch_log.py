"""Logs that torch wrote itself. The payloads are of a script with a graph break, two recompiles and a reset."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import time
from pathlib import Path

import pytest

from compiler_lens.recording import torch_log
from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId
from compiler_lens.recording.torch_log import is_torch_log, read_torch_log, torch_log_files

PAYLOADS = Path(__file__).parent / "payloads"
LOGS = {version: PAYLOADS / version / "trace.log.gz" for version in ("2.11", "2.13", "2.15")}

every_version = pytest.mark.parametrize("version", LOGS)


def record(  # noqa: PLR0913 -- the parts of a record
    name: str = "dynamo_start",
    payload: str | None = None,
    *,
    time: str = "1121 04:30:00.123000",
    pid: int = 7,
    metadata: object = None,
    checksum: str | None = None,
    **context: object,
) -> str:
    """A record as `TorchLogsFormatter.format` of torch writes it."""
    line = {name: {} if metadata is None else metadata, **context}
    if payload is not None:
        line["has_payload"] = checksum or hashlib.md5(payload.encode()).hexdigest()
    text = f"V{time} {pid} torch/_dynamo/utils.py:2350] {json.dumps(line)}"
    return text + "".join(f"\n\t{part}" for part in payload.split("\n")) + "\n" if payload is not None else text + "\n"


def span(name: str, phase: str, *, ts: float = 1795235400123000.5, **context: object) -> str:
    payload = json.dumps({"name": name, "ts": ts, "args": {}, "ph": phase}, indent=0)
    return record("chromium_event", payload, **context)


def frame(number: int, recompile: int = 0) -> dict[str, object]:
    return {"frame_id": number, "frame_compile_id": recompile, "attempt": 0}


@pytest.fixture
def log(tmp_path):
    """Writes a log and reads it."""

    def write(*records: str, **options: object) -> tuple[tuple[Event, ...], tuple[str, ...]]:
        path = tmp_path / "dedicated_log_torch_trace_x.log"
        path.write_text("".join(records))
        events, problems = read_torch_log(path, **options)
        return events, tuple(problem.message for problem in problems)

    return write


@every_version
def test_a_log_of_each_torch_is_read_whole(version):
    events, problems = read_torch_log(LOGS[version])
    assert problems == ()
    names = [event.name for event in events]
    assert names.count("dynamo_start") == 6
    assert names.count("dynamo_graph_break_reason") == 2
    assert names.count("aot_joint_graph") == 2


@every_version
def test_every_payload_comes_back_as_torch_hashed_it(version):
    chunks = gzip.decompress(LOGS[version].read_bytes()).split(b'"has_payload": "')[1:]
    hashes = [chunk[:32].decode() for chunk in chunks]
    texts = [event.text for event in read_torch_log(LOGS[version])[0] if event.text is not None]
    assert [hashlib.md5(text.encode()).hexdigest() for text in texts] == hashes


@every_version
def test_an_artifact_goes_by_its_own_name(version):
    events = read_torch_log(LOGS[version])[0]
    (graph_break, _) = (event for event in events if event.name == "dynamo_graph_break_reason")
    assert graph_break.meta == {"name": "dynamo_graph_break_reason", "encoding": "string"}
    assert graph_break.text.startswith("Graph break in user code at /home/user/app/ex.py:6\n")
    assert not any(event.name == "artifact" for event in events)


@every_version
def test_an_interned_file_name_comes_as_text_and_number(version):
    events = read_torch_log(LOGS[version])[0]
    interned = {event.meta["id"]: event.meta["text"] for event in events if event.name == "str"}
    start = next(event for event in events if event.name == "dynamo_start")
    assert interned[start.meta["stack"][-1]["filename"]] == "/home/user/app/ex.py"


@every_version
def test_a_compile_id_used_again_after_a_reset_is_another_run(version):
    events = read_torch_log(LOGS[version])[0]
    runs = [(event.torch_id[:2], event.run) for event in events if event.name == "dynamo_start"]
    assert runs == [((0, 0), 0), ((1, 0), 1), ((0, 1), 2), ((1, 1), 3), ((2, 0), 4), ((0, 0), 5)]


@every_version
def test_a_lazy_backward_belongs_to_the_run_of_its_forward(version):
    events = read_torch_log(LOGS[version])[0]
    # The script calls backward() on the newer function first.
    assert [(event.torch_id[0], event.run) for event in events if event.name == "bwd_compilation_metrics"] == [
        (0, 5),
        (2, 4),
    ]


@every_version
def test_what_torch_says_before_dynamo_start_belongs_to_the_new_run(version):
    events = read_torch_log(LOGS[version])[0]
    reasons = [event.run for event in events if event.name == "recompile_reasons"]
    assert reasons == [2, 3]
    first_of_last = next(event for event in events if event.run == 5)
    assert json.loads(first_of_last.text)["name"] == "dynamo"


def test_a_reset_is_seen_without_timed_events(log):
    start = record("dynamo_start", **frame(0))
    again = record("dynamo_start", frame_id=0, frame_compile_id=0, attempt=1)
    events, _ = log(start, again, record("aot_joint_graph", "g", **frame(0)), start, record("dynamo_error", **frame(0)))
    assert [event.run for event in events] == [0, 0, 0, 1, 1]
    assert [event.attempt for event in events] == [0, 1, 0, 0, 0]


def test_compiled_autograd_counts_from_zero_after_a_reset_too(log):
    autograd = {"compiled_autograd_id": 0}
    life = (
        span("compiled_autograd", "B", **autograd),
        record("compiled_autograd_graph", "graph", **autograd),
        record("dynamo_start", **autograd, **frame(0)),
    )
    events, problems = log(*life, *life)
    assert problems == ()
    assert [(event.torch_id, event.run) for event in events] == [
        ((None, None, 0), 0),
        ((None, None, 0), 0),
        ((0, 0, 0), 1),
        ((None, None, 0), 2),
        ((None, None, 0), 2),
        ((0, 0, 0), 3),
    ]


def test_a_forked_childs_compilations_are_not_its_parents(log):
    events, _ = log(record(**frame(0)), record(**frame(0), pid=8), record("dynamo_error", **frame(0)))
    assert [(event.run, event.thread) for event in events] == [(0, 0), (1, 8), (0, 0)]


@pytest.mark.parametrize(
    "payload", ["", "\n", "\ttabbed\n\t\ttwice", "a\r\nb\fc\x1cd", "V1121 04:30:00.1 1 x:1] {}\n", "Ω\u2028\n\n"]
)
def test_a_payload_survives_the_indentation(log, payload):
    events, problems = log(record("aot_joint_graph", payload), record())
    assert problems == ()
    assert [event.text for event in events] == [payload, None]


def test_an_event_outside_of_any_compilation_has_no_run(log):
    events, _ = log(record("torch_version"))
    assert events[0].run is None
    assert events[0].torch_id == (None, None, None)


def test_rank_and_subgraph_are_among_the_metadata(log):
    events, _ = log(record("aot_forward_graph", "g", rank=3, subgraph_name="true_graph_0", **frame(0)))
    assert events[0].meta == {"rank": 3, "subgraph_name": "true_graph_0"}


def test_only_wanted_events_carry_their_payload(log):
    records = (record("aot_joint_graph", "graph"), record("describe_tensor", "tensor", checksum="0" * 32))
    events, problems = log(*records, wanted=frozenset({"aot_joint_graph"}))
    assert [(event.name, event.text) for event in events] == [("aot_joint_graph", "graph"), ("describe_tensor", None)]
    assert problems == ()


# -- time


def test_a_timed_event_tells_the_year_and_the_zone(log):
    # 04:30 of a zone 9 h east of Greenwich is 19:30 of the day before.
    stamp = 1795203000.123
    events, _ = log(record(time="1121 04:29:59.000000"), span("dynamo", "B", ts=stamp * 1e6))
    assert [event.at for event in events] == pytest.approx([stamp - 1.123, stamp])


@pytest.mark.parametrize("hours", [5.5, 5.75, 12.75, -3.5, 0.0])
def test_zones_differ_by_quarters_of_an_hour(log, hours):
    # What was said before the first timed event was said up to some minutes earlier.
    stamp = 1795203000.123 + 9 * 3600
    local = time.strftime("%m%d %H:%M:%S", time.gmtime(stamp + hours * 3600))
    events, _ = log(span("dynamo", "B", ts=stamp * 1e6).replace("1121 04:30:00.123000", f"{local}.123000"))
    assert [event.at for event in events] == pytest.approx([stamp])


@pytest.fixture
def in_utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_utc")
def test_without_timed_events_the_files_own_time_tells_the_year(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(record(time="1231 23:59:59.500000") + record(time="0101 00:00:00.500000"))
    os.utime(path, (1767225605, 1767225605))  # 2026-01-01T00:00:05Z
    assert [event.at for event in read_torch_log(path)[0]] == [1767225599.5, 1767225600.5]


# -- damage


def test_a_log_cut_off_anywhere_gives_what_is_there_and_says_so(tmp_path):
    whole = record("dynamo_start") + record("aot_joint_graph", "first\nsecond") + record("aot_forward_graph", "third")
    path = tmp_path / "a.log"
    ends = {len(whole[:n].encode()) for n in (len(record("dynamo_start")), len(whole) - 1, len(whole))}
    ends.add(whole.index("V1121", whole.index("second")) - 1)
    ends.add(whole.index("V1121", whole.index("second")))
    ends.add(len(record("dynamo_start")) - 1)
    for end in range(60, len(whole)):
        path.write_text(whole[:end])
        events, problems = read_torch_log(path)
        assert [problem.message for problem in problems] == (
            [] if end in ends else ["the log is cut off in its last record"]
        ), whole[:end]
        assert len(events) >= whole[:end].count("\nV1121") - 1


def test_a_damaged_payload_is_kept_and_told_with_its_compilation(log, tmp_path):
    start = record("dynamo_start", **frame(2, 1))
    events, messages = log(start, start, record("aot_joint_graph", "graph", checksum="0" * 32, **frame(2, 1)), start)
    assert events[2].text == "graph"
    assert messages == ("the payload of aot_joint_graph is damaged: its checksum differs",)
    problem = read_torch_log(tmp_path / "dedicated_log_torch_trace_x.log")[1][0]
    assert problem.compile_id == CompileId(2, 1, epoch=1)


@pytest.mark.parametrize(
    "garbage",
    ["Traceback (most recent call last):\n", "\n", "\0\0\0\0", 'V1121 04:30:00.1 7 x.py:1] {"cut', "[[[[" * 9999],
)
def test_foreign_lines_cost_nothing_but_themselves(log, garbage):
    events, messages = log(record("dynamo_start"), garbage.rstrip("\n") + "\n", record("dynamo_error"))
    assert [event.name for event in events] == ["dynamo_start", "dynamo_error"]
    assert all("not a record of torch's" in message for message in messages)
    assert len(messages) == (1 if garbage.strip() else 0)


def test_a_truncated_gzip_gives_what_can_be_unpacked(tmp_path):
    path = tmp_path / "a.log.gz"
    packed = LOGS["2.13"].read_bytes()
    path.write_bytes(packed[: len(packed) * 9 // 10])
    events, problems = read_torch_log(path)
    assert "unpacked" in problems[0].message
    assert len(events) > 0.7 * len(read_torch_log(LOGS["2.13"])[0])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (bytes(range(256)) * 100, "is not a TORCH_TRACE log"),
        (b"W1121 04:30:00.123000 7 torch/x.py:1] [0/0] hello\n", "is not a TORCH_TRACE log"),
        (b"\x1f\x8bnot gzip", "is not a recording: it cannot be unpacked"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "a.log"
    path.write_bytes(content)
    assert not is_torch_log(path)
    with pytest.raises(RecordingFileError, match=words) as caught:
        read_torch_log(path)
    assert "\n" not in str(caught.value)


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(RecordingFileError, match="is a folder"):
        read_torch_log(tmp_path)
    with pytest.raises(RecordingFileError, match="No such file"):
        read_torch_log(tmp_path / "missing.log")
    assert not is_torch_log(tmp_path)
    assert not is_torch_log(tmp_path / "missing.log")


def test_a_folder_gives_each_processs_log_by_rank(tmp_path):
    for name in ("rank_10_b", "rank_2_a", "q", "rank_0_z"):
        (tmp_path / f"dedicated_log_torch_trace_{name}.log").write_text(record())
    (tmp_path / "notes.txt").write_text("no log")
    (tmp_path / "folder").mkdir()
    names = [path.stem.removeprefix("dedicated_log_torch_trace_") for path in torch_log_files(tmp_path)]
    assert names == ["q", "rank_0_z", "rank_2_a", "rank_10_b"]
    assert torch_log_files(tmp_path / "folder") == ()


# -- cost


class Searched:
    """Stands for the pattern that cuts a log, and counts the bytes that it is let look at."""

    def __init__(self, pattern):
        self.pattern, self.size = pattern, 0

    def split(self, text):
        self.size += len(text)
        return self.pattern.split(text)


def test_reading_grows_linearly_also_with_one_huge_payload(tmp_path, monkeypatch):
    searched = Searched(torch_log._BOUNDARY)
    monkeypatch.setattr(torch_log, "_BOUNDARY", searched)
    path = tmp_path / "a.log.gz"  # unpacked in small blocks, as it does not shrink much
    text = record("inductor_output_code", "\n".join(random.choices(CODE, k=400_000))) + record()
    path.write_bytes(gzip.compress(text.encode(), 1))
    events, problems = read_torch_log(path)
    assert (len(events), problems) == (2, ())
    assert len(text) <= searched.size < 4 * len(text), "a part was looked at over and over"


CODE = [f"buf{number} = {number * 7919 % 104729}" for number in range(10_000)]


def test_a_line_of_a_payload_costs_no_call_of_its_own(tmp_path, calls_of):
    path = tmp_path / "a.log"

    def calls(lines):
        path.write_text("".join(record("aot_joint_graph", "line of a graph\n" * lines, **frame(n)) for n in range(50)))
        return calls_of(lambda: read_torch_log(path))

    calls(1)
    assert calls(2_000) < 1.2 * calls(2) + 200
