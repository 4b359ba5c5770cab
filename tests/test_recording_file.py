"""Opening recordings: what it leaves behind in the process."""

import gc
from pathlib import Path

import pytest

from compiler_lens import RecordingFileError, load
from compiler_lens.fold_collector import collector_paused


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
