"""`compiler-lens report` and `graph` where the file to write, or the browser, is not what they hope for."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from compiler_lens.cli import main

BROKEN = Path(__file__).parent.parent / "pictures" / "data" / "broken.clens.gz"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    file = tmp_path / "run.clens"
    file.write_bytes(gzip.decompress(BROKEN.read_bytes()))
    return file


@pytest.mark.parametrize(
    "args", [["report", "REC"], ["report", "OTHER", "REC"], ["report", "REC", "OTHER"], ["graph", "REC"]]
)
def test_a_recording_is_not_written_over(recording: Path, args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    kept = recording.read_bytes()
    drawn = recording.rename(recording.with_suffix(".svg")) if args[0] == "graph" else recording
    given = [{"REC": str(drawn), "OTHER": str(BROKEN)}.get(arg, arg) for arg in args]
    assert main([*given, "-o", str(drawn.parent / "." / drawn.name)]) == 2
    assert "is the recording itself" in capsys.readouterr().err
    assert drawn.read_bytes() == kept


@pytest.mark.parametrize("there", [True, False])
def test_a_browser_that_is_not_there_is_said(
    recording: Path, there: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url) or there)
    assert main(["report", str(recording), "-o", str(recording.with_suffix(".html")), "--open"]) == 0
    assert asked == [recording.with_suffix(".html").as_uri()]
    assert ("no browser was found" in capsys.readouterr().out) == (not there)


@pytest.mark.parametrize("command", ["report", "graph"])
def test_a_terminal_without_unicode_is_told_all_the_same(
    recording: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(told, encoding="ascii"))
    target = recording.with_suffix(".svg" if command == "graph" else ".html")
    assert main([command, str(recording), "-o", str(target)]) == 0
    assert told.getvalue().startswith(str(target).encode())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("command", ["report", "graph", "show"])
def test_an_output_that_takes_nothing_is_one_plain_line(command: str, recording: Path) -> None:
    with Path("/dev/full").open("w") as full:
        code = f"import sys; from compiler_lens.cli import main; sys.exit(main(['{command}', 'run.clens']))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=recording.parent,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "compiler-lens: cannot write to the standard output, which is cut: No space left on device\n",
    )
