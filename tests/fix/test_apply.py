"""Files are changed whole or not at all, and only as they were tried."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens.cli import fix as command
from compiler_lens.facts.measured.edits import Setting
from compiler_lens.facts.measured.fix import Fix, Observed, Offer, Target, Trial
from compiler_lens.recording.errors import LensError
from compiler_lens.recording.model import Figures, Results, SourceLine
from compiler_lens.render.console import fix_report
from compiler_lens.views.measured.fix import data


@pytest.fixture
def fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fix:
    """Two files, both to be changed."""
    monkeypatch.chdir(tmp_path)
    before = {str(tmp_path / name): f"{name}\n" for name in ("a.py", "b.py")}
    for file, text in before.items():
        Path(file).write_text(text)
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    after = {file: f"{text}new\n" for file, text in before.items()}
    best = Trial((Offer(Target(None, "break"), Setting("x = 1")),), after, Figures(1, 0, 0), seen, helps=True)
    return Fix(seen, (best,), best, texts=before, folder=str(tmp_path))


def files(fix: Fix) -> dict[str, str]:
    return {file: Path(file).read_text() for file in fix.texts}


def test_files_are_changed_and_the_patch_undoes_it(fix: Fix, capsys: pytest.CaptureFixture[str]) -> None:
    assert fix.best is not None
    Path("a.fix.patch").write_text("mine")
    Path("a.py").chmod(0o750)
    command._apply(fix)
    assert files(fix) == fix.best.texts
    assert Path("a.py").stat().st_mode & 0o777 == 0o750
    assert Path("a.fix.patch").read_text() == "mine"
    undo = capsys.readouterr().err.rpartition("undo it with: ")[2]
    assert "a.fix-2.patch" in undo
    subprocess.run(undo, shell=True, check=True, stdout=subprocess.DEVNULL)
    assert files(fix) == fix.texts


def test_what_is_left_is_said_last_and_how_to_get_a_patch_only_to_whom_has_none(fix: Fix) -> None:
    assert fix.best is not None
    left = replace(fix.best, observed=replace(fix.best.observed, figures=Figures(0, 0, 3)))
    shown = {written: fix_report(replace(fix, best=left), width=120, is_written=written) for written in (False, True)}
    assert all("3 functions still run eagerly.\n" in text for text in shown.values())
    assert all(text.index("still run eagerly") < text.index("with the same results.") for text in shown.values())
    assert "Again with --patch FILE" in shown[False]
    assert "--patch" not in shown[True]
    assert "still" not in fix_report(fix, width=120)


def test_what_took_minutes_is_kept_as_a_patch(fix: Fix, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fix.best is not None
    kept = command._kept(fix)
    shown = fix_report(fix, width=120, kept=kept)
    assert "Again" not in shown
    subprocess.run(shown.rpartition("To have it written: ")[2], shell=True, check=True, stdout=subprocess.DEVNULL)
    assert files(fix) == fix.best.texts
    Path(kept).unlink()
    monkeypatch.setattr(command.tempfile, "mkstemp", lambda *_: os.open("/nowhere/at/all", os.O_RDONLY))
    assert command._kept(fix) == ""
    assert command._kept(replace(fix, best=None)) == ""


def test_where_a_trial_raised_is_told_by_the_line_of_the_users_file() -> None:
    """In the copy that was changed the same line stands two lines below."""
    text = "import torch\n\n\ndef f(x):\n    return x.no\n"
    at = SourceLine("train.py", 7, "f", "return x.no")
    raised = Observed(None, None, error="AttributeError: no", error_line=at)
    offer = Offer(Target(None, "break"), Setting("x = 1"))
    trial = Trial((offer,), {"train.py": f"\n\n{text}"}, None, raised, helps=False)
    fix = Fix(raised, (trial,), texts={"train.py": text})
    assert data(fix).tried[0].error_place == replace(at, line=5)
    assert "train.py:5: AttributeError" in fix_report(fix, width=120)


def test_what_raises_only_when_compiled_is_not_called_nothing_to_fix() -> None:
    shown = fix_report(Fix(Observed(None, None, error="RuntimeError: no", calls=1)), width=120)
    assert "Nothing could be tried." in shown
    assert "RuntimeError: no" in shown


def test_a_file_that_has_changed_since_stops_all(fix: Fix) -> None:
    Path("b.py").write_text("other\n")
    with pytest.raises(LensError, match=r"b\.py has changed since it was tried"):
        command._apply(fix)
    assert Path("a.py").read_text() == "a.py\n"
    assert not list(Path().glob("*.patch"))


def test_where_the_second_cannot_be_written_the_first_is_put_back(fix: Fix, monkeypatch: pytest.MonkeyPatch) -> None:
    real = command.put_in_place

    def put(target: Path, content: bytes) -> None:
        if target.name == "b.py":
            raise OSError(28, "No space left on device")
        real(target, content)

    monkeypatch.setattr(command, "put_in_place", put)
    with pytest.raises(LensError, match=r"cannot write .*b\.py: No space left"):
        command._apply(fix)
    assert files(fix) == fix.texts


@pytest.mark.parametrize("results", [Results.UNKNOWN, Results.DIFFER])
def test_without_equal_results_nothing_is_changed(fix: Fix, results: Results) -> None:
    assert fix.best is not None
    unsure = replace(fix.best, observed=replace(fix.best.observed, results=results))
    with pytest.raises(LensError, match="results could not be compared"):
        command._apply(replace(fix, best=unsure))
    assert files(fix) == fix.texts
