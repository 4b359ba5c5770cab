"""Opening recordings: what it leaves behind in the process."""

import gc
import os
from pathlib import Path

import pytest

from compiler_lens import Lens, RecordingFileError, load
from compiler_lens.decode.fold import collector_paused
from compiler_lens.decode.recording_file import recordings_in
from compiler_lens.recording.journal import JournalWriter


@pytest.fixture
def collector() -> object:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_the_collector_runs_again_after_a_file_that_does_not_open(tmp_path: Path, collector: None) -> None:
    gc.enable()
    with pytest.raises(RecordingFileError):
        load(tmp_path / "missing.clens")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(collector: None) -> None:
    gc.disable()
    with collector_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_a_folder_with_one_recording_is_that_recording(tmp_path: Path) -> None:
    (tmp_path / "notes.clens").write_text("no recording")
    with pytest.raises(RecordingFileError, match=r"holds no recording \(\*.clens\) and no TORCH_TRACE log"):
        load(tmp_path)
    JournalWriter(tmp_path / "a.clens").close()
    assert load(tmp_path).compilations == ()


def test_of_several_recordings_in_a_folder_one_must_be_named_and_the_newest_stands_first(tmp_path: Path) -> None:
    for age, name in enumerate(("b.clens", "c.clens", "a.clens")):
        JournalWriter(tmp_path / name).close()
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    assert [path.name for path in recordings_in(tmp_path)] == ["b.clens", "c.clens", "a.clens"]
    with pytest.raises(RecordingFileError, match=r"holds 3 recordings.*\n.*b.clens\n.*c.clens\n"):
        load(tmp_path)


def test_a_lens_that_cannot_write_says_so_at_once_and_names_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Lens(tmp_path / "nowhere" / "run.clens", progress=False) as lens:
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"cannot write {tmp_path}/nowhere/run.clens: there is no folder {tmp_path}/nowhere" in said
    told = lens.report(width=200, color=False)
    assert "cannot write" in told
    assert "could not read" not in told
    assert "show" not in told or str(tmp_path) not in told.partition("show")[2]
    assert load(lens.save(tmp_path / "saved.clens"), strict=True).unfinished == ""


def test_a_name_that_no_file_can_have_is_an_error_of_ours() -> None:
    for name in ("a\0b", "a\ud800b"):
        with pytest.raises(RecordingFileError, match="cannot open a"):
            load(name)
