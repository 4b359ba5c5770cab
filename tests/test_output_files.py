"""What we write: whole or not at all, and never over what somebody else wrote."""

import atexit
import errno
import fcntl
import gzip
import os
import resource
import stat
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler_lens import Lens, Recording, UsageError, diff, lens, load
from compiler_lens.cli import main
from compiler_lens.cli.command import check_can_be_written
from compiler_lens.decode.recording_file import save
from compiler_lens.facts.measured.modes import Comparison
from compiler_lens.recording import output_files
from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.journal import JournalWriter
from compiler_lens.recording.output_files import Product, write_whole
from compiler_lens.render.picture.drawing import Drawing
from compiler_lens.render.results import Modes

TRIG = str(Path(__file__).parent / "pictures" / "data" / "trig.clens.gz")
MODES = Comparison(rows=(), phases=())
USERS = "def of_the_user(): ...\n"

# Each way to write a file: the ending of its name, and what writes it.
Writing = Callable[..., object]
WAYS: dict[str, tuple[str, Writing]] = {
    "Lens": ("clens", lambda path, **how: Lens(path, **how).close()),
    "Lens.save": ("clens", lambda path, **how: closed_lens().save(path, **how)),
    "Lens.html": ("html", lambda path, **how: closed_lens().html(path, **how)),
    "Diff.html": ("html", lambda path, **how: diff(Recording(), Recording()).html(path, **how)),
    "Drawing.svg": ("svg", lambda path, **how: drawing().save(path, **how)),
    "Modes.svg": ("svg", lambda path, **how: Modes.of(MODES, {}, {}).save_svg(path, **how)),
    "save": ("clens", lambda path, **how: save(Recording(), path, **how)),
    "save, gzipped": ("clens.gz", lambda path, **how: save(Recording(), path, **how)),
    "report": ("html", lambda path, **how: command("report", TRIG, "-o", str(path), **how)),
    "report of two": ("html", lambda path, **how: command("report", TRIG, TRIG, "-o", str(path), **how)),
    "graph as SVG": ("svg", lambda path, **how: command("graph", TRIG, "-o", str(path), **how)),
    "graph as DOT": ("dot", lambda path, **how: command("graph", TRIG, "-o", str(path), **how)),
    "redact": ("clens", lambda path, **how: command("redact", TRIG, str(path), **how)),
}


def closed_lens() -> Lens:
    lens = Lens()
    lens.close()
    return lens


def drawing() -> Drawing:
    from compiler_lens import draw

    return draw(load(TRIG))


def command(*words: str, overwrite: bool = False) -> None:
    if main([*words, *(["--force"] if overwrite else [])]) != 0:
        raise UsageError("and said so")


@pytest.mark.parametrize("way", WAYS)
def test_a_file_of_the_users_is_written_over_only_if_asked_for(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ending, write = WAYS[way]
    users, linked, hard = (tmp_path / f"{name}.{ending}" for name in ("users", "linked", "hard"))
    users.write_text(USERS)
    linked.symlink_to(users)
    os.link(users, hard)
    for path in (users, linked, hard):
        with pytest.raises(UsageError) as refused:
            write(path)
        said = f"{refused.value}\n{capsys.readouterr().err}"
        assert f"{path} is there and is not a " in said
        assert "--force" in said
        assert users.read_text() == hard.read_text() == USERS
    write(linked, overwrite=True)
    assert linked.is_symlink()
    assert users.read_bytes() not in {USERS.encode(), b""}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(p.name for p in (users, linked, hard))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_ours_or_empty_is_written_over_as_ever(way: str, tmp_path: Path) -> None:
    ending, write = WAYS[way]
    target = tmp_path / f"ours.{ending}"
    target.touch(mode=0o640)
    for _ in range(2):
        write(target)
        assert target.stat().st_size
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
        assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_page_is_not_written_over_a_recording(tmp_path: Path) -> None:
    JournalWriter(tmp_path / "run.clens").close()
    with pytest.raises(UsageError, match="is there and is not a page"):
        command_of_page(tmp_path / "run.clens")
    assert load(tmp_path / "run.clens").unfinished == ""


def command_of_page(path: Path) -> None:
    WAYS["Lens.html"][1](path)


def test_a_png_of_ours_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = b"\x89PNG\r\n\x1a\n" + bytes(25) + b"and so on"
    monkeypatch.setitem(sys.modules, "cairosvg", types.SimpleNamespace(svg2png=lambda **_: drawn))
    for _ in range(2):
        assert drawing().save(tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "x.png").write_bytes((tmp_path / "x.png").read_bytes().replace(b"compiler_lens", b"someone_elses"))
    with pytest.raises(UsageError):
        drawing().save(tmp_path / "x.png")


@pytest.mark.parametrize("name", ["plain.txt", "packed.gz", "cut_off.gz", "binary"])
def test_what_only_looks_like_ours_is_not(name: str, tmp_path: Path) -> None:
    begun = gzip.compress(b'{"another": 1}')
    content = {"plain.txt": b'{"compiler_len', "packed.gz": begun, "cut_off.gz": begun[:-9], "binary": bytes(99)}[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError):
        JournalWriter(tmp_path / name)
    assert (tmp_path / name).read_bytes() == content


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command_of_page(page)
    before = page.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(UsageError, match=r"cannot write .*: File too large"):
            command_of_page(page)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert page.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("reason", [errno.EACCES, errno.EROFS, errno.EBUSY])
def test_where_no_file_can_be_put_in_its_place_it_is_written_itself(
    reason: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a folder that may not be changed, or where the file itself is mounted (a container's volume).
    def refuse(*_: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(output_files.Path, "replace", refuse)
    with pytest.raises(OSError, match=os.strerror(reason)):
        write_whole(tmp_path / "new", b"new", Product.PAGE)
    (tmp_path / "there").touch()
    write_whole(tmp_path / "there", b"new", Product.PAGE)
    assert (tmp_path / "there").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_recording_in_the_making_is_not_replaced(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "run.clens")
    with pytest.raises(UsageError, match=r"run.clens is being recorded to: name another file"):
        save(Recording(), tmp_path / "run.clens")
    writer.close()
    save(Recording(), tmp_path / "run.clens")


def test_a_lens_that_is_saved_to_its_own_file_goes_on(tmp_path: Path) -> None:
    with Lens(tmp_path / "run.clens") as lens:
        (tmp_path / "link").symlink_to(tmp_path / "run.clens")
        assert lens.save(tmp_path / "link") == tmp_path / "link"
        assert load(tmp_path / "run.clens").unfinished
        lens._session.problem("here", "after it was saved")
    assert [problem.message for problem in load(tmp_path / "run.clens").problems] == ["after it was saved"]


def test_a_pipe_and_a_device_take_a_page(tmp_path: Path) -> None:
    command_of_page(Path("/dev/null"))
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
    write_whole(f"/dev/fd/{writer}", b"all of it", Product.PAGE)
    assert os.read(reader, 99) == b"all of it"
    os.close(reader)
    os.close(writer)


def test_a_file_that_may_not_be_read_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.clens").write_text(USERS)

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(output_files.os, "open", refuse)
    with pytest.raises(RecordingFileError, match=r"cannot write .*x\.clens: Permission denied"):
        save(Recording(), tmp_path / "x.clens")
    assert (tmp_path / "x.clens").read_text() == USERS


def test_a_script_is_not_made_a_recording_of_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(USERS)
    for words in (["-o", str(script)], ["--force", "-o", str(script)]):
        assert main(["run", *words, str(script)]) == 2
        assert "is the script itself: name another file with -o" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text(USERS)
    assert main(["run", "-o", str(tmp_path / "notes.txt"), str(script)]) == 2
    assert "is there and is not a recording" in capsys.readouterr().err
    assert script.read_text() == (tmp_path / "notes.txt").read_text() == USERS


@pytest.mark.parametrize("product", Product)
def test_whether_a_file_can_be_written_is_found_out_without_touching_it(product: Product, tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("target")
    check_can_be_written(str(link), product, overwrite=False)
    assert link.is_symlink()
    assert not (tmp_path / "target").exists()
    os.mkfifo(pipe)
    check_can_be_written(str(pipe), product, overwrite=False)  # nobody reads it
    elsewhere = tmp_path / "elsewhere"
    elsewhere.symlink_to("missing/target")
    with pytest.raises(RecordingFileError, match=r"cannot write .*elsewhere: No such file or directory"):
        check_can_be_written(str(elsewhere), product, overwrite=False)


def test_the_file_of_the_lens_by_name_is_made_anew_for_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"compiler_lens-{os.getpid()}.clens").symlink_to(tmp_path / "planted")
    by_name = lens.compiler_lens
    try:
        by_name.close()
        assert stat.filemode(by_name.path.lstat().st_mode) == "-rw-------"
        assert by_name.path.parent == tmp_path
        assert load(by_name.path).problems == ()
        assert not (tmp_path / "planted").exists()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
        in_memory = lens.compiler_lens
        in_memory.close()
        assert in_memory.path is None
        assert "No such file or directory. The recording stays in memory" in capsys.readouterr().err
    finally:
        atexit.unregister(lens._report_at_exit)
