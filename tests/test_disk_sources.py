"""Source text for logs of torch's: only from folders that the reader names, and only what the log quotes. Hostile logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler_lens import diff, load
from compiler_lens.cli import main
from compiler_lens.decode import disk_sources, recording_file
from compiler_lens.decode.disk_sources import with_disk_sources
from compiler_lens.decode.recording_file import save
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording
from compiler_lens.recording.redact import redacted
from compiler_lens.render import console

FIRST, SECOND = "def step(x):", "    return x + 1"
TEXT = f"{FIRST}\n{SECOND}\n\n\nTOKEN = 'a secret of the reader'\n"
BOTH = ((1, FIRST), (2, SECOND))

Log = Callable[..., Path]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Writes a log that names a file, and quotes lines of it."""

    def write(file: str | Path, *quoted: tuple[int, str], begins: int = 0, name: str = "run.log") -> Path:
        lines = (*(quoted or BOTH), (begins, ""))  # the last is the function that was compiled
        stack = [{"line": line, "name": "step", "filename": 0, "loc": code} for line, code in lines]
        head = f"V1121 04:30:00.123000 7 torch/_dynamo/utils.py:2350] {json.dumps({'str': [str(file), 0]})}\n"
        started = {"dynamo_start": {"stack": stack}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}
        path = tmp_path / name
        path.write_text(head + head.replace(json.dumps({"str": [str(file), 0]}), json.dumps(started)))
        return path

    return write


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder that the reader allows, beside a secret that is not in it."""
    folder = tmp_path / "shelf"
    (folder / "pkg").mkdir(parents=True)
    (tmp_path / "secret.py").write_text(TEXT)
    return folder


def texts(recording: Recording) -> list[tuple[str, str]]:
    return [(source.read_from, source.text) for source in recording.sources]


def reasons(recording: Recording) -> list[str]:
    return [gap.reason for gap in recording.unavailable if gap.fact == "source text"]


def test_a_log_reads_no_file_by_itself_and_says_how_to_get_the_text(log: Log, shelf: Path) -> None:
    (shelf / "model.py").write_text(TEXT)
    recording = load(log(shelf / "model.py"))
    assert recording.sources == ()
    assert "--sources DIR" in console.report(recording)
    assert "source text was taken" not in console.report(recording)


@pytest.mark.parametrize(
    "named",
    [
        "{shelf}/pkg/model.py",  # where it is
        "/home/a/proj/pkg/model.py",  # on another machine
        "/home/a/proj/tests/../pkg/model.py",  # as sys.path has it
        "/home/a/./pkg/model.py",
        "C:\\Users\\a\\pkg\\model.py",
        "pkg/model.py",
    ],
)
def test_a_text_is_found_by_the_end_of_its_path_and_the_report_names_what_was_read(
    log: Log, shelf: Path, named: str
) -> None:
    target = shelf / "pkg" / "model.py"
    target.write_text(TEXT)
    (shelf / "model.py").write_text("# another file of that name\n")
    recording = load(log(named.format(shelf=shelf)), sources=shelf)
    assert texts(recording) == [(str(target), TEXT)]
    assert reasons(recording) == []
    assert f"source text was taken from {target}" in console.report(recording, width=400)
    assert str(target) in console.view(recording, "environment", console.page_for(recording, width=400))
    assert str(shelf) not in console.report(redacted(recording), width=400)


def test_several_folders_and_both_sides_of_a_diff(log: Log, shelf: Path, tmp_path: Path) -> None:
    (shelf / "model.py").write_text(TEXT)
    (tmp_path / "other").mkdir()
    one = log("/x/model.py")
    assert texts(load(one, sources=[tmp_path / "other", shelf])) == [(str(shelf / "model.py"), TEXT)]
    two = log("/y/model.py", name="two.log")
    made = diff(one, two, sources=(shelf,))
    assert [len(side.sources) for side in (made.before, made.after)] == [1, 1]
    with pytest.raises(UsageError, match=r"no folder .*/nowhere to take source text from"):
        load(one, sources=tmp_path / "nowhere")


def _nothing(_shelf: Path) -> None:
    """No trap but the name."""


def _write(name: str) -> Callable[[Path], object]:
    return lambda shelf: (shelf / name).write_text(TEXT)


def _link(name: str, to: str) -> Callable[[Path], object]:
    return lambda shelf: (shelf / name).symlink_to(to)


def _huge(shelf: Path) -> None:
    with (shelf / "model.py").open("w") as file:
        file.write(TEXT)
        file.truncate(2_000_001)


# What lies below the folder, and by which name a log asks for it.
TRAPS: dict[str, tuple[Callable[[Path], object], str]] = {
    "absolute": (_nothing, "{shelf}/../secret.py"),
    "upwards": (_nothing, "../secret.py"),
    "upwards with backslashes": (_nothing, "x\\..\\secret.py"),
    "upwards in percents": (_nothing, "/x/%2e%2e/secret.py"),
    "an address": (_nothing, "file://{secret}"),
    "its real name": (_nothing, "{secret}"),
    "a linked file": (_link("model.py", "../secret.py"), "/x/model.py"),
    "a linked file deeper": (_link("pkg/model.py", "../../secret.py"), "/x/pkg/model.py"),
    "a linked folder": (_link("up", ".."), "/x/up/secret.py"),
    "a linked folder in the middle": (_link("pkg/up", "../.."), "/x/pkg/up/shelf/../secret.py"),
    "a hidden name": (_link(".py", "../secret.py"), "/x/.py"),
    "another suffix": (_write("model.txt"), "/x/model.txt"),
    "capitals": (_write("MODEL.PY"), "/x/MODEL.PY"),
    "no suffix": (_write("id_rsa"), "/x/id_rsa"),
    "a slash at the end": (_write("id_rsa"), "/x/id_rsa/"),
    "a zero before the suffix": (_write("id_rsa"), "/x/id_rsa\0.py"),
    "a pipe": (lambda shelf: os.mkfifo(shelf / "model.py"), "/x/model.py"),
    "a device": (_link("model.py", "/dev/zero"), "/x/model.py"),
    "a folder": (lambda shelf: (shelf / "model.py").mkdir(), "/x/model.py"),
    "a huge file": (_huge, "/x/model.py"),
    "not UTF-8": (lambda shelf: (shelf / "model.py").write_bytes(TEXT.encode() + b"\xe9"), "/x/model.py"),
    "half a character": (_nothing, "/x/\ud800.py"),
    "a long name": (_nothing, "/x/" + "a" * 5_000 + ".py"),
    "a deep name": (_nothing, "/a" * 5_000 + "/secret.py"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_hostile_log_gets_nothing(log: Log, shelf: Path, trap: str) -> None:
    """Though it knows the first lines of what it asks for."""
    lay, named = TRAPS[trap]
    lay(shelf)
    recording = load(log(named.format(shelf=shelf, secret=shelf.parent / "secret.py")), sources=shelf)
    assert recording.sources == ()
    assert reasons(recording)


def test_what_a_pipe_holds_is_not_read_either(log: Log, shelf: Path) -> None:
    os.mkfifo(shelf / "model.py")
    pipe = os.open(shelf / "model.py", os.O_RDWR)
    try:
        os.write(pipe, TEXT.encode())
        assert load(log("/x/model.py"), sources=shelf).sources == ()
        assert os.read(pipe, 1_000) == TEXT.encode()
    finally:
        os.close(pipe)


def test_another_name_of_the_same_file_is_a_file_of_the_folder(log: Log, shelf: Path) -> None:
    """A hard link cannot be told from a file; who may make one below the folder may as well put a copy there."""
    os.link(shelf.parent / "secret.py", shelf / "model.py")
    assert texts(load(log("/x/model.py"), sources=shelf)) == [(str(shelf / "model.py"), TEXT)]


def test_the_folder_may_be_a_link_itself_which_the_reader_named(log: Log, shelf: Path, tmp_path: Path) -> None:
    (shelf / "model.py").write_text(TEXT)
    (tmp_path / "linked").symlink_to(shelf)
    recording = load(log("/x/model.py"), sources=tmp_path / "linked" / ".." / "linked")
    assert texts(recording) == [(str(shelf / "model.py"), TEXT)], "and what it leads to is named"


def test_a_folder_that_becomes_a_link_while_we_read_leads_nowhere(
    log: Log, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked on what is open, not on a name that may mean something else a moment later."""
    (shelf / "pkg" / "secret.py").write_text("# harmless\n")
    inside, opened = shelf / "pkg", os.open

    def swapping(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if path == "pkg" and not inside.is_symlink():
            inside.rename(shelf / "was")
            inside.symlink_to(shelf.parent)
        return opened(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(disk_sources.os, "open", swapping)
    assert load(log("/x/pkg/secret.py"), sources=shelf).sources == ()
    assert inside.is_symlink()


@pytest.mark.parametrize(
    ("quoted", "why"),
    [
        (BOTH, ""),
        ((*BOTH, (4, "")), ""),
        ((*BOTH, (5, "TOKEN = 'a secret of the reader' + more")), ""),  # of a statement the file has the beginning
        ((BOTH[0],), "the log says too little of it: one line"),
        ((BOTH[0], (7, FIRST)), "the log says too little of it: one line"),
        ((*BOTH, (5, "TOKEN = ")), "is not what the log quotes"),
        ((*BOTH, (3, "x = 1")), "is not what the log quotes"),
        ((*BOTH, (99, "x = 1")), "is not what the log quotes"),
        ((BOTH[0], (2, SECOND + " + anything")), "is not what the log quotes"),  # one line whole is not several
        (((2, FIRST), (3, SECOND)), "is not what the log quotes"),
    ],
)
def test_several_lines_must_agree_and_none_may_differ(
    log: Log, shelf: Path, quoted: tuple[tuple[int, str], ...], why: str
) -> None:
    (shelf / "model.py").write_text(TEXT)
    recording = load(log("/x/model.py", *quoted), sources=shelf)
    assert len(recording.sources) == (0 if why else 1)
    assert [reason.endswith(why) for reason in reasons(recording)] == ([True] if why else [])
    assert all(reason.startswith("model.py: ") for reason in reasons(recording))


@pytest.mark.parametrize(
    ("begins", "quoted", "is_read"),
    [(1, BOTH[1], True), (1, BOTH[0], False), (2, BOTH[1], False), (2, BOTH[0], False), (4, BOTH[0], False)],
)
def test_where_a_function_begins_agrees_as_a_line_does(
    log: Log, shelf: Path, begins: int, quoted: tuple[int, str], *, is_read: bool
) -> None:
    """Of one that breaks at once the log has no other line. Its first line is not two."""
    (shelf / "model.py").write_text(TEXT)
    assert bool(load(log("/x/model.py", quoted, begins=begins), sources=shelf).sources) == is_read


def test_no_more_is_read_than_so_much(log: Log, shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shelf / "model.py").write_text(TEXT)
    monkeypatch.setattr(disk_sources, "_MOST", len(TEXT) * 2 + 1)
    one = load(log("/x/model.py"), sources=shelf)
    assert len(one.sources) == 1
    names = [{"str": [f"/{number}/model.py", number]} for number in range(4)]
    records = names + [
        {
            "dynamo_start": {"stack": [{"line": n, "name": "f", "filename": i, "loc": code} for n, code in BOTH]},
            "frame_id": i,
            "frame_compile_id": 0,
        }
        for i in range(4)
    ]
    path = log("/x/model.py", name="four.log")
    path.write_text("".join(f"V1121 04:30:00.123000 7 torch/x.py:1] {json.dumps(each)}\n" for each in records))
    assert len(load(path, sources=shelf).sources) == 2


def test_a_recording_of_ours_never_takes_text_from_the_disk(log: Log, shelf: Path, tmp_path: Path) -> None:
    (shelf / "model.py").write_text(TEXT)
    recording = load(log(shelf / "model.py"))
    save(recording, tmp_path / "run.clens")
    assert load(tmp_path / "run.clens", sources=shelf) == recording


def test_what_was_taken_stays_known_when_it_is_saved(log: Log, shelf: Path, tmp_path: Path) -> None:
    (shelf / "model.py").write_text(TEXT)
    recording = load(log("/x/model.py"), sources=shelf)
    save(recording, tmp_path / "run.clens")
    assert load(tmp_path / "run.clens") == recording


# What a command does with the machine: files and folders opened, programs started, connections.
_WATCHED = """\
import sys
from pathlib import Path
import compiler_lens.cli, compiler_lens.cli.show, rich.console, encodings.idna
own = tuple(str(Path(path).resolve()) for path in {{*sys.path, sys.prefix, sys.base_prefix}} if path) + ({out!r},)
def watch(event, args):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(args[0], (str, bytes)):
        path = str(Path(args[0] if isinstance(args[0], str) else args[0].decode()).resolve())
        if not path.startswith(own) and path != {recording!r}:
            print("TOUCHED", event, path, file=sys.stderr)
    elif event.startswith(("subprocess", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "urllib", "ctypes.dlopen")):
        print("TOUCHED", event, args, file=sys.stderr)
sys.addaudithook(watch)
raise SystemExit(compiler_lens.cli.main({command!r}))
"""


@pytest.mark.parametrize("kind", ["log", "recording"])
@pytest.mark.parametrize(
    "command",
    [
        ("show", "REC"), ("show", "REC", "environment"), ("source", "REC", "secret.py"), ("show", "REC", "line", "secret.py:1"),
        ("show", "REC", "--redact"), ("report", "REC", "-o", "OUT/page.html"), ("graph", "REC", "-o", "OUT/graph.svg"),
        ("diff", "REC", "REC", "--code"), ("redact", "REC", "OUT/redacted.clens"),
    ],
    ids=lambda command: f"{command[0]}-{command[-1].rpartition('/')[2]}",
)  # fmt: skip
def test_opening_a_file_touches_nothing_but_the_file(
    log: Log, shelf: Path, tmp_path: Path, command: tuple[str, ...], kind: str
) -> None:
    """The names in it are of files that are there, below the folder at hand, or in the reader's home."""
    secret, recording, out = tmp_path / "secret.py", log(tmp_path / "secret.py"), tmp_path / "out"
    out.mkdir()
    if kind == "recording":
        loaded = load(recording)
        recording = tmp_path / "run.clens"
        save(loaded, recording)
    words = [word.replace("REC", str(recording)).replace("OUT", str(out)) for word in command]
    program = _WATCHED.format(recording=str(recording), out=str(out), command=words)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "Traceback" not in done.stderr
    assert "TOUCHED" not in done.stderr, done.stderr
    everything = done.stdout + "".join(file.read_text(errors="replace") for file in out.iterdir())
    assert "a secret of the reader" not in everything
    assert secret.exists()


@pytest.mark.parametrize(
    "command",
    [
        ("show", "LOG"), ("source", "LOG", "model.py"), ("report", "LOG", "-o", "OUT.html"), ("graph", "LOG", "-o", "OUT.svg"),
        ("redact", "LOG", "OUT.clens"), ("diff", "LOG", "LOG"), ("report", "LOG", "LOG", "-o", "OUT.html"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_command_that_opens_a_log_takes_the_folder(
    log: Log, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (shelf / "model.py").write_text(TEXT)
    taken = []

    def with_sources(*given: object) -> Recording:
        found = with_disk_sources(*given)  # type: ignore[arg-type]
        taken.append(texts(found))
        return found

    monkeypatch.setattr(recording_file, "with_disk_sources", with_sources)
    (tmp_path / "empty").mkdir()
    path, out = str(log("/x/model.py")), str(tmp_path / "out")
    words = [word.replace("LOG", path).replace("OUT", out) for word in command]
    main([*words, "--sources", str(tmp_path / "empty"), "--sources", str(shelf)])
    assert taken == [[(str(shelf / "model.py"), TEXT)]] * command.count("LOG")
    assert main([*words, "--sources", str(tmp_path / "nowhere")]) == UsageError.exit_code
