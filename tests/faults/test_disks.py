"""A disk that is full, a file that is taken away: the program goes on, nothing is lost from memory, the report says so."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import compiler_lens
from compiler_lens import Lens, load
from compiler_lens.capture.torch_api import inductor
from compiler_lens.recording import journal
from compiler_lens.recording.journal import JournalWriter

X = torch.ones(4)
Functions = Callable[[Lens], list[str]]


def first(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def second(x: torch.Tensor) -> torch.Tensor:
    return x.cos() * 2


def compile_and_run(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert torch.equal(torch.compile(function, backend="eager")(X), function(X))


def the_one_problem(lens: Lens) -> str:
    (problem,) = lens.recording.problems
    assert problem.where == "journal"
    assert problem.message.split()[0] in lens.report(width=300)
    return problem.message


def test_a_full_disk(functions: Functions) -> None:
    with Lens("/dev/full", strict=True) as lens:
        compile_and_run(first)

        assert "No space left" in the_one_problem(lens)
        assert functions(lens) == ["first"]
    assert functions(lens) == ["first"]


def test_a_disk_that_gets_full_in_mid_run(tmp_path: Path, functions: Functions) -> None:
    path = tmp_path / "run.clens"
    with Lens(path, strict=True) as lens:
        compile_and_run(first)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 1000, hard))  # in the middle of an event
        try:
            compile_and_run(second)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        assert functions(lens) == ["first", "second"]
    assert "is incomplete" in the_one_problem(lens)
    assert functions(lens) == ["first", "second"]
    saved = compiler_lens.load(lens.save(tmp_path / "elsewhere.clens"), strict=True)
    assert [c.function for c in saved.compilations] == ["first", "second"]
    cut_off = compiler_lens.load(path)
    assert [c.function for c in cut_off.compilations][:1] == ["first"]
    assert "could not be read" in cut_off.problems[0].message


@pytest.mark.parametrize("path", ["no such folder/run.clens", ".", "/proc/run.clens"])
def test_a_path_that_cannot_be_written(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, functions: Functions
) -> None:
    monkeypatch.chdir(tmp_path)
    with Lens(path, strict=True) as lens:
        compile_and_run(first)

    assert "cannot write" in the_one_problem(lens)
    assert functions(lens) == ["first"]


def test_a_pipe_that_nobody_empties_does_not_stop_the_program(tmp_path: Path, functions: Functions) -> None:
    os.mkfifo(tmp_path / "pipe")
    with Lens(tmp_path / "pipe", strict=True) as lens:
        compile_and_run(first)

    assert "it is a pipe" in the_one_problem(lens)
    assert functions(lens) == ["first"]


def test_what_goes_to_a_device_is_still_there_to_ask_for(functions: Functions) -> None:
    with Lens("/dev/null", strict=True) as lens:
        compile_and_run(first)

    assert functions(lens) == ["first"]
    assert lens.recording.problems == ()


def descriptor_of(lens: Lens) -> int:
    file = lens._session.journal._file
    assert file is not None
    return file._descriptor


def test_the_descriptor_closed_underneath(tmp_path: Path, functions: Functions) -> None:
    with Lens(tmp_path / "run.clens", strict=True) as lens:
        compile_and_run(first)
        os.close(descriptor_of(lens))
        compile_and_run(second)

        assert "Bad file descriptor" in the_one_problem(lens)
    assert functions(lens) == ["first", "second"]


def test_a_users_file_that_got_our_number_is_left_alone(tmp_path: Path, functions: Functions) -> None:
    with Lens(tmp_path / "run.clens", strict=True) as lens:
        number = descriptor_of(lens)
        os.close(number)
        users = os.open(tmp_path / "users.txt", os.O_RDWR | os.O_CREAT)
        assert users == number
        compile_and_run(first)
    os.write(users, b"still open")

    assert (tmp_path / "users.txt").read_bytes() == b"still open"
    assert functions(lens) == ["first"]
    os.close(users)


def test_the_file_deleted_underneath(tmp_path: Path, functions: Functions) -> None:
    with Lens(tmp_path / "run.clens", strict=True) as lens:
        compile_and_run(first)
        (tmp_path / "run.clens").unlink()
        compile_and_run(second)

        assert functions(lens) == ["first", "second"]
    assert functions(lens) == ["first", "second"]  # closed, and gone
    assert "was removed or renamed while it was recorded to" in the_one_problem(lens)
    assert load(lens.save(tmp_path / "run.clens"), strict=True).problems == ()


@pytest.mark.parametrize("how", ["removed", "replaced by another", "renamed"])
def test_the_folder_removed_underneath(
    how: str, tmp_path: Path, functions: Functions, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    lens = Lens(folder / "run.clens", strict=True)
    with lens:
        compile_and_run(first)
        if how == "renamed":
            folder.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(folder)
        if how == "replaced by another":
            folder.mkdir()
            JournalWriter(folder / "run.clens").close()
        compile_and_run(second)
    assert functions(lens) == ["first", "second"]
    assert "was removed or renamed" in the_one_problem(lens)
    assert capsys.readouterr().err == ""  # a test's own folder goes like that
    if how == "renamed":
        assert load(tmp_path / "elsewhere" / "run.clens", strict=True).unfinished == ""


@pytest.mark.parametrize("why", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("moment", ["writing", "the last line", "closing"])
def test_a_disk_that_fails_says_so_once(
    why: int,
    moment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> int:
        raise OSError(why, os.strerror(why))

    lens = Lens(tmp_path / "run.clens", strict=True)
    with lens:
        compile_and_run(first)
        if moment == "writing":
            monkeypatch.setattr(journal._File, "write", fail)
        compile_and_run(second)
        compile_and_run(lambda x: x.tan())
        monkeypatch.setattr(journal._File, "close" if moment == "closing" else "write", fail)
    lens.close()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"compiler_lens: {tmp_path}/run.clens is incomplete: {os.strerror(why)}. " in said
    assert the_one_problem(lens) in said
    saved = load(lens.save(tmp_path / "saved.clens"), strict=True)
    assert [c.function for c in saved.compilations] == ["first", "second", "<lambda>"]
    assert saved.unfinished == ""


def test_the_file_emptied_underneath(tmp_path: Path) -> None:
    with Lens(tmp_path / "run.clens") as lens:
        compile_and_run(first)
        os.truncate(tmp_path / "run.clens", 0)
        compile_and_run(second)

    assert "was changed by somebody else" in " ".join(p.message for p in lens.recording.problems)


def test_a_cache_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor, "cache_folder", lambda: "/proc/nowhere")
    lens = Lens()
    result = torch.compile(first, backend=lens, options={"profile_bandwidth_regex": "unwritable"})(X)
    lens.close()
    recording = lens.recording

    assert torch.allclose(result, first(X), atol=1e-6)
    assert [p.where for p in recording.problems] == ["facts kept for warm runs"]
    assert recording.kernels
    assert recording.kernels[0].nodes
    assert recording.cudagraphs


SMALL_FILES_ONLY = """
import json, resource, sys
import torch
import compiler_lens

resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
with compiler_lens.Lens(sys.argv[1], strict=True) as lens:
    torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(3))
print(json.dumps([len(lens.recording.compilations), [p.message for p in lens.recording.problems]]))
"""


def test_a_limit_on_file_sizes_as_ulimit_sets_it(tmp_path: Path) -> None:
    # The kernel sends a signal beyond the limit; Python ignores it, and so the write fails.
    done = subprocess.run(
        [sys.executable, "-c", SMALL_FILES_ONLY, str(tmp_path / "run.clens")],
        capture_output=True,
        text=True,
        check=True,
    )
    count, messages = json.loads(done.stdout)

    assert count == 1
    assert len(messages) == 1
    assert "is incomplete" in messages[0]
    assert done.stderr == f"compiler_lens: {messages[0]}. The recording stays in memory; lens.save(path) writes it\n"
    assert (tmp_path / "run.clens").stat().st_size == 3000
