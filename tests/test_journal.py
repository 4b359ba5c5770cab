"""The journal: what goes in comes out, up to any damage, whatever the disk does."""

import gzip
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import FORMAT_VERSION, JournalWriter, timed_rows, whole
from compiler_lens.recording.journal_reader import is_journal, parse_journal, read_journal
from compiler_lens.recording.model import THE_END

LONG = "line\n" * 200
EVENTS = (
    Event("plain", 1.5),
    Event("full", 2.25, 3, (0, 1, None), 2, {"a": 1, "b": [1, {"c": None}], "long": LONG}, LONG, 7, True),
    Event("odd", 3.0, text='quotes " and \\ and \u2028 and \ud800 alone and \x00'),
    Event("same text", 4.0, text=LONG),
)


def written(path: Path | None, events: tuple[Event, ...] = EVENTS) -> JournalWriter:
    writer = JournalWriter(path)
    for event in events:
        writer.append(event)
    return writer


def test_events_come_back_as_they_went_in(tmp_path: Path) -> None:
    written(tmp_path / "r.clens").close()

    assert read_journal(tmp_path / "r.clens") == (EVENTS, ())


def test_timed_events_are_one_line_and_come_back_one_by_one(tmp_path: Path) -> None:
    of = (4, (1, 0, None), 0, 7)
    rows = [("a", "B", 2e15), ("b", "B", 2e15 + 1.5), ("b", "E", 2e15 + 2.25)]
    writer = written(tmp_path / "r.clens", (timed_rows(rows, *of), Event("between", 2e9)))
    assert len(writer.contents().splitlines()) == 1 + 2
    writer.append(timed_rows([("a", "E", 2e15 + 4)], *of))
    writer.close()

    def event(name: str, phase: str, time: float) -> Event:
        run, torch_id, attempt, thread = of
        meta = {"name": name, "ph": phase, "ts": time}
        return Event("chromium_event", time / 1e6, run, torch_id, attempt, meta, None, thread)

    wanted = (*(event(*row) for row in rows), Event("between", 2e9), event("a", "E", 2e15 + 4))
    assert read_journal(tmp_path / "r.clens") == (wanted, ())


@pytest.mark.parametrize(
    "rows", ['[["a","B"]]', '[["a","B","now"]]', '[[1,"B",2.0]]', '[["a","B",1e300]]', "7", "null"]
)
def test_a_line_of_timed_events_that_is_damaged_costs_itself(rows: str) -> None:
    line = f'{{"e":"lens.timed","at":1.0,"m":{{"rows":{rows}}}}}\n'
    data = written(None).contents() + line.encode("utf-8") + b'{"e":"after","at":9.0}\n'
    events, (problem,) = parse_journal(data, "r")
    assert events == (*EVENTS, Event("after", 9.0))
    assert f"{len(line):,} bytes could not be read" in problem.message


def test_memory_and_file_hold_the_same_bytes(tmp_path: Path) -> None:
    in_file, in_memory = written(tmp_path / "r.clens"), written(None)

    assert in_file.contents() == in_memory.contents() == (tmp_path / "r.clens").read_bytes()


def test_contents_are_there_after_close(tmp_path: Path) -> None:
    writer = written(tmp_path / "r.clens")
    before = writer.contents()
    writer.close()
    writer.append(Event("too late", 9.0))

    assert parse_journal(writer.contents(), "r") == parse_journal(before, "r") == (EVENTS, ())


def test_a_file_that_is_not_closed_has_no_end(tmp_path: Path) -> None:
    """Still being written, or the process was killed: each of its lines is whole, and nothing else would say so."""
    path = tmp_path / "r.clens"
    writer = written(path)
    events, (problem,) = read_journal(path)
    assert (events, problem.where) == (EVENTS, THE_END)
    assert "still being written, or the process ended early" in problem.message
    assert parse_journal(writer.contents(), "r") == (EVENTS, ()), "who writes it knows that it goes on"
    path.with_suffix(".saved").write_bytes(whole(writer.contents()))
    assert read_journal(path.with_suffix(".saved")) == (EVENTS, ())
    if (child := os.fork()) == 0:
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert read_journal(path)[1] == (problem,), "a child that ends does not end what its parent writes"
    writer.close()
    writer.close()
    assert read_journal(path) == (EVENTS, ())
    assert whole(path.read_bytes()) == path.read_bytes()


def test_recordings_from_before_there_was_an_end_have_one(tmp_path: Path) -> None:
    path = tmp_path / "r.clens"
    written(path).close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([b'{"compiler_lens":1,"pid":1}\n', *lines[1:-1]]))
    assert read_journal(path) == (EVENTS, ())
    path.write_bytes(path.read_bytes()[:-1])
    assert [problem.where for problem in read_journal(path)[1]] == [THE_END]


def test_a_long_text_stands_once(tmp_path: Path) -> None:
    written(tmp_path / "r.clens").close()

    assert (tmp_path / "r.clens").read_text(errors="replace").count("line\\n" * 200) == 1


def test_each_of_many_long_texts_stands_once(tmp_path: Path) -> None:
    texts = [f"{number} \ud800" + LONG for number in range(50)]
    events = tuple(Event("e", 1.0, meta={"long": text}) for text in texts * 2)
    written(tmp_path / "r.clens", events).close()

    assert read_journal(tmp_path / "r.clens") == (events, ())
    assert (tmp_path / "r.clens").read_bytes().count(b'"is":') == len(texts)


def test_what_json_does_not_have_is_written_as_text_and_a_number_of_any_class_as_a_number() -> None:
    class Count(int):
        """As an IntEnum, or a number of NumPy's."""

    class Time(float):
        pass

    writer = written(None, (Event("e", 1.0, meta={"numbers": [Count(0), Time(0.5)], "other": [LONG.__class__]}),))
    ((event,), problems) = parse_journal(writer.contents(), "r")

    assert event.meta == {"numbers": [0, 0.5], "other": ["<class 'str'>"]}
    assert not problems


def test_every_event_is_on_disk_before_the_next(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "r.clens")
    for count, event in enumerate(EVENTS, start=1):
        writer.append(event)
        assert len(read_journal(tmp_path / "r.clens")[0]) == count
    writer.close()


def test_an_event_that_waits_is_written_with_the_next_or_when_somebody_asks(tmp_path: Path) -> None:
    path = tmp_path / "r.clens"

    def on_disk() -> list[str]:
        return [event.name for event in read_journal(path)[0]]

    writer = JournalWriter(path)
    writer.append(Event("first", 1.0), waits=True)
    writer.append(Event("second", 2.0), waits=True)
    assert on_disk() == []
    writer.append(Event("third", 3.0))
    assert on_disk() == ["first", "second", "third"]
    writer.append(Event("fourth", 4.0), waits=True)
    writer.contents()
    assert on_disk()[3:] == ["fourth"]
    writer.append(Event("fifth", 5.0), waits=True)
    assert writer.is_open_at(path)
    assert on_disk()[4:] == ["fifth"]
    writer.append(Event("last", 6.0), waits=True)
    writer.close()
    assert on_disk()[5:] == ["last"]


@pytest.mark.parametrize("where", ["before it is written", "after it is written"])
@pytest.mark.parametrize("name", ["r.clens", None])
def test_an_interrupt_loses_no_event_and_repeats_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None, where: str
) -> None:
    writer = JournalWriter(tmp_path / name if name else None)
    write = writer._write

    def interrupted(data: bytes) -> None:
        if where.startswith("after"):
            write(data)
        raise KeyboardInterrupt

    writer.append(EVENTS[0], waits=True)
    monkeypatch.setattr(writer, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.append(EVENTS[1])
    monkeypatch.undo()
    for event in EVENTS[2:]:
        writer.append(event)
    writer.close()

    assert parse_journal(writer.contents(), "r") == (EVENTS, ())


def test_an_event_that_cannot_be_written_keeps_no_later_one() -> None:
    class Unprintable:
        __str__ = None  # type: ignore[assignment]

    writer = JournalWriter(None)
    with pytest.raises(TypeError):
        writer.append(Event("e", 1.0, meta={"value": Unprintable()}))
    writer.append(EVENTS[0])

    assert parse_journal(writer.contents(), "r") == (EVENTS[:1], ())


def test_a_forked_child_does_not_write_what_waits(tmp_path: Path) -> None:
    """Nor does it wait for a lock that another thread had when it was forked."""
    path = tmp_path / "r.clens"
    writer = JournalWriter(path)
    writer.append(EVENTS[0], waits=True)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with writer._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait()
    if (child := os.fork()) == 0:
        signal.alarm(30)
        os._exit(0 if writer.is_open_at(path) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read_journal(path)[0] == ()
    done.set()
    thread.join()
    writer.close()
    assert read_journal(path) == (EVENTS[:1], ())


@pytest.mark.parametrize("lost", [1, 60, 300])
def test_a_cut_off_file_opens_up_to_the_cut(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "r.clens"
    written(path).close()
    path.write_bytes(path.read_bytes()[:-lost])
    events, problems = read_journal(path)

    if lost > 1:  # without its line's end alone, the last event is whole
        assert events == EVENTS[: len(events)]
        assert len(events) < len(EVENTS)
        assert "could not be read" in problems[0].message


def test_a_damaged_file_opens_without_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "r.clens"
    written(path).close()
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"\xff" + lines[2][1:]
    path.write_bytes(b"\n".join(lines))
    events, problems = read_journal(path)

    assert events == (EVENTS[0], EVENTS[2]), "the text of the second and the last could not be read"
    assert "in 3 lines from line 3 on" in problems[0].message


def test_a_newer_format_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "r.clens").write_text(json.dumps({"compiler_lens": FORMAT_VERSION + 1}) + "\n")

    with pytest.raises(RecordingFileError, match="upgrade"):
        read_journal(tmp_path / "r.clens")


@pytest.mark.parametrize("data", [b"\x00\x01", b"{}\n", b"hello\n", b"[1]\n"])
def test_a_file_of_somebody_else_is_one_clear_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "r").write_bytes(data)

    assert not is_journal(tmp_path / "r")
    with pytest.raises(RecordingFileError, match="not a recording"):
        read_journal(tmp_path / "r")


def test_however_far_it_is_written_it_is_neither_damaged_nor_something_else(tmp_path: Path) -> None:
    path = tmp_path / "r.clens"
    written(path).close()
    data = path.read_bytes()
    header = data.index(b"\n") + 1
    for size in range(header - 1):
        path.write_bytes(data[:size])
        with pytest.raises(RecordingFileError, match="holds nothing yet"):
            read_journal(path)
    for size in range(header - 1, len(data)):
        path.write_bytes(data[:size])
        events, problems = read_journal(path)
        assert events == EVENTS[: len(events)]
        assert [problem.where for problem in problems] in ([THE_END], [])
        assert all(problem.message.startswith("it is still being written") for problem in problems)
        assert problems or events == EVENTS


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(RecordingFileError, match="cannot open"):
        read_journal(tmp_path / "nowhere")


def test_an_unwritable_path_goes_on_in_memory(tmp_path: Path) -> None:
    writer = written(tmp_path / "no such folder" / "r.clens")

    assert "cannot write" in (writer.failure or "")
    assert parse_journal(writer.contents(), "r")[0] == EVENTS


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_loses_nothing_from_memory() -> None:
    writer = written(Path("/dev/full"))

    assert "No space left" in (writer.failure or "")
    assert parse_journal(writer.contents(), "r")[0] == EVENTS


def test_a_deleted_file_is_still_readable_while_open(tmp_path: Path) -> None:
    writer = written(tmp_path / "r.clens")
    (tmp_path / "r.clens").unlink()

    assert parse_journal(writer.contents(), "r")[0] == EVENTS
    writer.close()


def test_two_writers_of_one_path_do_not_mix(tmp_path: Path) -> None:
    first, second = written(tmp_path / "r.clens"), written(tmp_path / "r.clens", EVENTS[:1])

    assert first.path != second.path
    assert parse_journal(first.contents(), "r")[0] == EVENTS
    assert parse_journal(second.contents(), "r")[0] == EVENTS[:1]
    first.close()
    second.close()


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "r.clens")

    def work(number: int) -> None:
        for count in range(200):
            writer.append(Event("e", float(count), number, text=f"{number} {count} " * 50))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events, problems = parse_journal(writer.contents(), "r")
    writer.close()

    assert not problems
    assert len(events) == 800


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    writer = written(tmp_path / "r.clens")
    child = os.fork()
    if child == 0:
        writer.append(Event("child", 0.0))
        os._exit(0)
    os.waitpid(child, 0)

    assert parse_journal(writer.contents(), "r")[0] == EVENTS
    writer.close()


def test_a_gzipped_journal_opens_and_a_cut_one_up_to_the_cut(tmp_path: Path) -> None:
    data = gzip.compress(whole(written(None).contents()))
    (tmp_path / "whole.clens.gz").write_bytes(data)
    (tmp_path / "cut.clens.gz").write_bytes(data[:-60])

    assert is_journal(tmp_path / "whole.clens.gz")
    assert read_journal(tmp_path / "whole.clens.gz") == (EVENTS, ())
    events, problems = read_journal(tmp_path / "cut.clens.gz")
    assert events == EVENTS[: len(events)]
    assert problems


def test_a_damaged_or_joined_gzip_file_says_so_or_is_read_whole(tmp_path: Path) -> None:
    data = gzip.compress(whole(written(None).contents()))
    (tmp_path / "bad.clens.gz").write_bytes(data[:-8] + bytes(8))  # the check sum
    assert read_journal(tmp_path / "bad.clens.gz")[0] == EVENTS
    assert "unpacked" in read_journal(tmp_path / "bad.clens.gz")[1][0].message

    data = whole(written(None).contents())
    (tmp_path / "two.clens.gz").write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]))
    assert read_journal(tmp_path / "two.clens.gz") == (EVENTS, ())


@pytest.mark.parametrize("line", [b'{"e":"str","at":1}', b'{"e":"lens.files","at":1,"m":{"files":[1]}}'])
def test_an_odd_event_costs_only_itself(tmp_path: Path, line: bytes) -> None:
    from compiler_lens import load

    (tmp_path / "r.clens").write_bytes(whole(written(None, EVENTS[:1]).contents() + line + b"\n"))
    assert len(load(tmp_path / "r.clens").problems) == 1
