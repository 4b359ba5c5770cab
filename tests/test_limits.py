"""No file costs more than it weighs: what is no recording, never ends, unpacks to more than it should, or is damaged."""

from __future__ import annotations

import gzip
import json
import os
import socket
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler_lens import LensError, load
from compiler_lens.cli import main
from compiler_lens.decode.recording_file import save
from compiler_lens.recording.journal_reader import is_journal, read_journal
from compiler_lens.recording.torch_log import is_torch_log
from compiler_lens.render.json import view_json

HEADER = b'{"compiler_lens":2,"pid":1}\n'
SOURCE = b'{"e":"lens.source","at":1,"m":{"file":"a.py"},"x":"x = 1"}\n'


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(data: bytes, name: str = "r.clens") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def refused(path: Path, **options: int) -> str:
    with pytest.raises(LensError) as caught:
        load(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


# -- what is no recording


def read_by_us() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="no /proc/self/io on this system")
@pytest.mark.parametrize("start", [b"", b"\x00\x01no recording\n", b"[" * 5000, b"x" * 9999], ids=["0", "1", "[", "x"])
def test_a_wrong_file_is_refused_after_its_first_4_kib(file, start: bytes) -> None:
    path = file(start)
    os.truncate(path, 3 << 30)  # a sparse file
    refused(path)
    before = read_by_us()
    assert "is not a recording" in refused(path)
    assert read_by_us() - before < 40_000


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="no /proc/self/io on this system")
def test_zeros_after_what_is_packed_are_not_read(file) -> None:
    path = file(gzip.compress(HEADER + SOURCE))
    load(path)
    os.truncate(path, 3 << 30)  # a sparse file
    before = read_by_us()
    assert len(load(path, max_size=10_000).sources) == 1
    assert read_by_us() - before < 80_000


def test_a_file_of_empty_parts_ends_at_the_first(file) -> None:
    path = file(gzip.compress(HEADER + SOURCE) + gzip.compress(b"") * 3 + gzip.compress(SOURCE))
    recording = load(path)
    assert len(recording.sources) == 1
    assert any("has an empty part" in problem.message for problem in recording.problems)


def test_what_is_packed_is_read_up_to_its_damage(file) -> None:
    packed = bytearray(gzip.compress(HEADER + SOURCE))
    packed[-8:-4] = b"sums"
    recording = load(file(bytes(packed)))
    assert len(recording.sources) == 1
    assert any("cannot be unpacked to its end" in problem.message for problem in recording.problems)


@pytest.mark.parametrize("data", [b"\x1f\x8b\x08\x00" + b"\xff" * 99, b"\x1f\x8b" + bytes(99)])
def test_what_cannot_be_unpacked_at_all_is_no_recording_and_not_one_that_has_just_begun(file, data: bytes) -> None:
    assert "is not a recording: it cannot be unpacked" in refused(file(data))
    assert "holds nothing yet" in refused(file(data[:2]))


def test_what_may_never_end_is_refused_at_once(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe.clens", tmp_path / "folder.clens.gz"
    os.mkfifo(pipe)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.clens"))
        assert "is a pipe" in refused(pipe)
        assert "cannot open" in refused(tmp_path / "socket.clens")
        assert "is a device" in refused(Path("/dev/zero"))
        assert "holds no recording" in refused(folder)
        assert "holds no recording" in refused(tmp_path), "none of them is looked into"
        assert not is_torch_log(pipe)
        assert main(["show", str(pipe)]) == 1


# -- too much of it


def test_a_bomb_is_refused_while_it_is_unpacked(file) -> None:
    path = file(gzip.compress(HEADER + b'{"@":1,"is":"' + bytes(200 << 20)), "bomb.clens.gz")
    assert path.stat().st_size < 300_000
    tracemalloc.start()
    message = refused(path, max_size=64 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "a line of more than 16,777,216 bytes" in message
    assert "--max-size 128M" in message
    assert peak < 40 << 20


def test_a_limit_names_itself_and_the_option_that_raises_it(file, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(HEADER + SOURCE * 80_000)
    message = refused(path, max_size=1 << 20)
    assert "holds more than 1,048,576 bytes of text" in message
    long = SOURCE.replace(b"x = 1", b"x = 1;" * 99)
    packed = file(gzip.compress(HEADER + long * 3_000), "r.clens.gz")
    assert "holds more than 1,048,576 bytes of text" in refused(packed, max_size=1 << 20)
    assert main(["show", str(path), "--max-size", "1M"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "--max-size 5M" in line
    assert main(["show", str(path), "--max-size", "8M"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "has more than 32,768 events" in line
    assert "--max-size 16M" in line
    assert main(["show", str(path), "--max-size", "32M"]) == 0


def test_timed_events_of_one_line_count_one_by_one(file) -> None:
    rows = b",".join([b'["a","B",1]'] * 10_000)
    line = b'{"e":"lens.timed","at":1,"m":{"rows":[' + rows + b"]}}\n"
    assert len(line) < 1 << 17
    assert "events" in refused(file(HEADER + line), max_size=1 << 21)


@pytest.mark.parametrize("statements", [b"a = b()", b"a"])
def test_lines_of_some_characters_count_for_more(file, statements: bytes) -> None:
    text = (statements + rb"\n") * 20_000
    assert len(text) < 1 << 18
    graph = b'{"e":"aot_forward_graph","at":1,"id":[0,0,null],"x":"' + text + b'"}\n'
    told = b'{"@":0,"is":"' + text[: len(text) // 4] + b'"}\n'
    refer = b'{"e":"aot_forward_graph","at":1,"id":[0,0,null],"x":{"@":0}}\n'
    for name, data in {"a.clens": HEADER + graph, "b.clens": HEADER + told + refer * 3}.items():
        assert "bytes of text" in refused(file(data, name), max_size=1 << 20)
        load(file(data, name), max_size=1 << 22)
    log = file(record((statements.decode() + "\n") * 20_000), "c.log")
    assert "bytes of text" in refused(log, max_size=1 << 20)


@pytest.mark.parametrize("code", [r"a=b()\n" * 200_001, "a=b();" * 200_001, "x=[" + "a," * (8 << 20) + "]"])
def test_generated_code_that_is_too_long_for_its_tree_is_kept_as_text(file, code: str) -> None:
    line = f'{{"e":"inductor_output_code","at":1,"id":[0,0,null],"x":"{code}"}}\n'
    recording = load(file(HEADER + line.encode()))
    (kept,), (missing,) = recording.output_codes, recording.unavailable
    assert len(kept.code) == len(code.replace(r"\n", "\n"))
    assert (missing.fact, missing.reason.startswith("output code of more than")) == ("kernels", True)


@pytest.mark.parametrize("written", ["", "G", "4X", "-1", "1.5G", "9" * 5000])
def test_a_size_that_is_none_is_refused(written: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "r.clens", "--max-size", written])
    assert "is no size" in capsys.readouterr().err


def record(payload: str, name: str = "dynamo_start", second: int = 0) -> bytes:
    head = f'V1121 04:30:{second:02}.123000 7 torch/x.py:1] {{"{name}": {{}}}}\n'
    return (head + "".join(f"\t{line}\n" for line in payload.split("\n"))).encode()


def test_a_log_has_the_same_limits(file) -> None:
    assert "a line of more than" in refused(file(record("x" * (9 << 20)), "a.log"), max_size=16 << 20)
    assert "events" in refused(file(record("") * 5000, "b.log"), max_size=1 << 20)
    assert "bytes of text" in refused(file(gzip.compress(record("x" * 9999) * 200), "c.log.gz"), max_size=1 << 20)
    assert load(file(record("x") * 10, "d.log"), max_size=1 << 20).compilations == ()


# -- a bad line

BAD = {
    "digits": b'{"e":"chromium_event","at":' + b"9" * 6000 + b"}",
    "digits within": b'{"e":"chromium_event","at":1,"m":{"ts":' + b"9" * 6000 + b"}}",
    "endless": b'{"e":"chromium_event","at":1e999}',
    "Infinity": b'{"e":"chromium_event","at":Infinity}',
    "no number": b'{"e":"chromium_event","at":"now"}',
    "true": b'{"e":"chromium_event","at":1,"run":true}',
    "negative": b'{"e":"chromium_event","at":1,"run":-1}',
    "an id": b'{"e":"chromium_event","at":1,"id":[0,"0",null]}',
    "a short id": b'{"e":"chromium_event","at":1,"id":[0]}',
    "a list": b'{"e":"chromium_event","at":1,"m":[1]}',
    "a name": b'{"e":7,"at":1}',
    "no name": b'{"at":1}',
    "a text": b'{"@":1,"is":7}',
    "a number": b'{"@":[],"is":"x"}',
    "no text": b'{"e":"lens.source","at":1,"m":{"file":"b.py"},"x":{"@":9}}',
    "no such": b'{"e":"lens.source","at":1,"m":{"file":{"@":[9]}},"x":"y"}',
    "two": b'{"e":"chromium_event","at":1} {}',
    "half": b'{"e":"chromium_event"',
    "not text": b'{"e":"\xff"}',
    "nothing": b"null",
}


@pytest.mark.parametrize("line", BAD.values(), ids=BAD)
def test_a_bad_line_costs_itself_alone(file, line: bytes) -> None:
    recording = load(file(HEADER + SOURCE + line + b"\n" + SOURCE))
    assert len(recording.sources) == 2
    (problem,) = recording.problems
    assert f"is damaged at line 3: {len(line) + 1:,} bytes could not be read" in problem.message
    assert recording.unfinished == "", "its end is there"
    assert "in 2 lines from line 2 on" in load(file(HEADER + (line + b"\n" + SOURCE) * 2)).problems[0].message


def nested(depth: int, inner: str = "[]") -> bytes:
    """A line with arrays, or objects, in each other."""
    begin, end = (inner[0], inner[1]) if inner == "[]" else ('{"a":', "}")
    deep = begin * (depth - 2) + inner + end * (depth - 2)
    return f'{{"e":"compilation_metrics","at":1,"run":0,"id":[0,0,null],"m":{{"a":{deep}}}}}\n'.encode()


@pytest.mark.parametrize("inner", ["[]", "{}"])
def test_a_line_that_is_nested_too_deeply_costs_itself_and_says_so(file, inner: str) -> None:
    deep = nested(201, inner)
    assert not load(file(HEADER + nested(200, inner) + SOURCE)).problems
    for line in (deep, nested(100_000, inner)):
        recording = load(file(HEADER + SOURCE + line + SOURCE))
        assert len(recording.sources) == 2
        (problem,) = recording.problems
        assert "is nested more than 200 deep" in problem.message
        assert f"at line 3: {len(line):,} bytes could not be read" in problem.message
    assert not load(file(HEADER + deep), max_nesting=201).problems
    assert main(["show", str(file(HEADER + deep)), "--max-nesting", "300"]) == 0


def test_what_may_be_nested_can_be_written_and_read_again(file, tmp_path: Path) -> None:
    frame = b'{"e":"lens.frame_start","at":1,"run":0,"id":[0,0,null],"m":{"function":"f"}}\n'
    recording = load(file(HEADER + frame + nested(400)), max_nesting=400)
    assert recording.compilations[0].metrics
    save(recording, tmp_path / "again.clens")
    assert load(tmp_path / "again.clens").compilations == recording.compilations
    with pytest.raises(LensError, match="from 1 to 400"):
        load(tmp_path / "again.clens", max_nesting=401)


def test_a_line_of_too_many_values_costs_itself_and_says_so(file) -> None:
    """An empty array takes twenty times the three bytes that it is written with."""
    dense = b'{"e":"chromium_event","at":1,"m":{"a":[' + b"[]," * 2_000_000 + b"0]}}\n"
    saved = (
        dense.replace(b"chromium_event", b"lens.recording")
        .replace(b'"a":[', b'"compilations":[[')
        .replace(b"0]", b"0]]")
    )
    tracemalloc.start()
    recording = load(file(HEADER + SOURCE + dense + SOURCE))
    peak = tracemalloc.get_traced_memory()[1]
    kept = load(file(HEADER + saved))
    tracemalloc.stop()
    assert len(recording.sources) == 2
    assert [problem.message.split(": ", 1)[1] for problem in recording.problems] == [
        f"{len(dense):,} bytes could not be read"
    ]
    assert "holds more than 1,048,576 values" in recording.problems[0].message
    assert peak < 4 * len(dense)
    assert "it holds more than 1,048,576 values" in kept.problems[0].message
    assert "no JSON" in load(file(HEADER + dense), max_size=2 << 30).problems[0].message, (
        "it is read, and means nothing"
    )


def peak(act: Callable[[], object]) -> int:
    """The most memory that is in use while something is done, in bytes, above what was in use before."""
    tracemalloc.start()
    kept = act()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del kept
    return most


def timed_events(count: int) -> bytes:
    span = b'{"e":"chromium_event","at":1,"m":{"name":"dynamo%d","ph":"%s","ts":%d}}\n'
    return HEADER + b"".join(span % (i // 2 % 50, b"BE"[i % 2 :][:1], i) for i in range(count))


def test_memory_grows_with_the_text_and_names_are_in_it_once(file) -> None:
    few, many = timed_events(10_000), timed_events(40_000)
    paths = file(few, "few.clens"), file(many, "many.clens")
    load(paths[0])
    assert peak(lambda: load(paths[1])) - peak(lambda: load(paths[0])) < 2.5 * (len(many) - len(few))


def test_a_saved_recording_is_read_part_by_part_and_its_names_are_there_once(tmp_path: Path) -> None:
    path = tmp_path / "saved.clens"
    save(load(Path(__file__).parent / "gpu/data/decoder-default-profiled.clens.gz"), path)
    assert peak(lambda: load(path)) < 3 * path.stat().st_size


def test_a_document_is_made_part_by_part(file) -> None:
    recording = load(file(timed_events(20_000)))
    size = len(view_json(recording, "times"))
    assert peak(lambda: view_json(recording, "times")) < 3 * size


def test_a_document_that_is_printed_is_never_there_as_a_whole(file, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = timed_events(10_000), timed_events(40_000)
    paths = file(few, "few.clens"), file(many, "many.clens")
    with Path(os.devnull).open("w") as nowhere:
        monkeypatch.setattr(sys, "stdout", nowhere)
        main(["show", str(paths[0]), "times", "--json"])
        most = [peak(lambda path=path: main(["show", str(path), "times", "--json"])) for path in paths]
    assert most[1] - most[0] < 2.5 * (len(many) - len(few))


def test_a_text_counts_each_time_that_an_event_refers_to_it(file) -> None:
    text = b'{"@":1,"is":"' + b"x" * 100_000 + b'"}\n'
    named = b'{"e":"lens.source","at":1,"m":{"file":"a.py"},"x":{"@":1}}\n'
    assert load(file(HEADER + text + named * 9), max_size=1 << 20).sources
    assert "holds more than 1,048,576 bytes of text" in refused(file(HEADER + text + named * 10), max_size=1 << 20)


def test_what_python_writes_and_json_has_not_is_read(file) -> None:
    line = '{"e":"chromium_event","at":1,"m":{"a":NaN,"b":"\ud800"}}\n'.encode("utf-8", "surrogatepass")
    ((event,), problems) = read_journal(file(HEADER + line))
    assert event.meta["b"] == "\ud800"
    assert problems == ()


@pytest.mark.parametrize("version", ["-1", "0", "true", "1.5", '"2"', "null", "[]", "[" * 3000])
def test_a_version_that_is_none_is_no_recording(file, version: str) -> None:
    path = file(f'{{"compiler_lens":{version}}}\n'.encode() + SOURCE)
    assert is_journal(path)
    assert "is not a recording" in refused(path)


def test_a_version_of_any_length_is_one_short_line(file) -> None:
    assert len(refused(file(b'{"compiler_lens":' + b"9" * 4000 + b"}\n"))) < 400


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_journal_cut_anywhere_opens(file, *, is_packed: bool) -> None:
    """As its reader sees one that is being written."""
    whole = HEADER.replace(b"}", b',"closes":1}') + (SOURCE + b'{"@":1,"is":"long"}\n' + SOURCE) * 2
    for end in range(len(HEADER) + 11, len(whole)):
        data = gzip.compress(whole[:end]) if is_packed else whole[:end]
        recording = load(file(data))
        assert len(recording.sources) >= whole[:end].count(SOURCE)
        assert recording.unfinished


def test_times_and_numbers_of_a_log_may_be_anything(file) -> None:
    span = '{\n"name": "dynamo",\n"ts": %s,\n"ph": "B"\n}'
    for stamp in ("9" * 400, "99999999999999999", "0", "1e5", "-1"):
        assert load(file(record(span % stamp, "chromium_event"))).compilations == ()
    odd = b'V1299 99:99:99.999999999 999999999999999999 x.py:1] {"dynamo_start": {}, "frame_id": true}\n'
    assert load(file(odd)).compilations == ()
    os.utime(file(odd), (2e11, 2e11))
    load(file(odd))
    deep = json.dumps({"dynamo_start": {}}).replace("{}", "[" * 90_000 + "]" * 90_000)
    assert load(file(record("") + b"V1121 04:30:00.1 7 x.py:1] " + deep.encode() + b"\n")).problems
