"""Nothing that was recorded, and no name of a file, acts on the terminal that it is printed on."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from msgspec.structs import replace

import compiler_lens
from compiler_lens.cli import main, recorded_script
from compiler_lens.decode.recording_file import save
from compiler_lens.lens import Lens
from compiler_lens.recording.errors import LensError, UsageError
from compiler_lens.recording.model import CaptureProblem, Recording, SourceFile
from compiler_lens.render.console import html_fragment
from compiler_lens.views.diff import views as diff_views
from compiler_lens.views.registry import VIEWS, Asks

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "gold"))

import sample_recordings as samples
from planted import STRUCTURE, filled, planted
from shown import RECORDINGS

# ESC, CSI, OSC 8 (a link), OSC 52 (the clipboard), their eight-bit forms, marks that turn the direction of writing,
# a half character; what rich takes for markup.
MARKUP = "[bold][link=x]"
ACTS = (
    "\x1b[2J\x1b[31m\x1b]8;;http://x\x07\x1b]52;c;QQ==\x1b\\\x9b2J\x9d0;t\x9c\x85\x80\r\b\x07\x7f\x00\x1bc"
    "\u202a\u202e\u2066\u2069\u2028\ud800\x1b"
)
_ACTING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_COLORS = re.compile(r"\x1b\[[0-9;]*m")  # rich's own


def plant(field: str, text: str) -> str:
    return text if text and field in STRUCTURE else f"{text}{MARKUP}{ACTS}"


SHOWN: dict[str, Callable[[], Recording]] = {
    **{name: RECORDINGS[name] for name in ("made-broken", "breaks", "hops", "gpt-max-autotune")},
    "every field": lambda: filled(Recording, plant),
}


@pytest.fixture(scope="module", params=SHOWN)
def hostile(request: pytest.FixtureRequest) -> Recording:
    return planted(SHOWN[request.param](), plant)


def printed(words: list[str], recording: Recording | None = None) -> tuple[int, str]:
    """The status of a command, and all that it prints."""
    out, opened = io.StringIO(), contextlib.nullcontext()
    if recording is not None:
        opened = mock.patch("compiler_lens.decode.recording_file.open_recording", return_value=recording)
    with opened, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            status = main(words)
        except SystemExit as ended:  # argparse
            status = int(ended.code or 0)
    return status, out.getvalue()


def is_calm(text: str, *, color: bool = False) -> bool:
    found = _ACTING.search(_COLORS.sub("", text) if color else text)
    assert not found, ascii(text[max(0, found.start() - 80) : found.end() + 20])
    return True


@pytest.mark.parametrize("view", ["", *(view.name for view in VIEWS)])
def test_no_view_lets_a_recording_act(view: str, hostile: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["show", "REC", *([view] if view else [])]
    if view and next(one for one in VIEWS if one.name == view).asks is Asks.KERNEL:
        if not hostile.kernels:
            return
        words.append(hostile.kernels[0].name)
    for more in (["--width", "100", "--no-color"], ["--width", "100"], ["--json"]):
        monkeypatch.setenv("FORCE_COLOR", "1")
        status, text = printed([*words, *more], hostile)
        assert status == 0, text
        assert is_calm(text, color=more == ["--width", "100"])
        assert view or "\x1b[" in text or more != ["--width", "100"]  # the colours were asked for


def test_markup_of_rich_is_text(hostile: Recording) -> None:
    for view in ("guards", "environment", "frames"):
        assert MARKUP in printed(["show", "REC", view, "--no-color", "--width", "2000"], hostile)[1]


def test_no_view_of_two_recordings_lets_them_act(hostile: Recording) -> None:
    other = planted(hostile, lambda field, text: text if field in STRUCTURE else f"{text}\x1b[2J.")
    made = compiler_lens.diff(hostile, other)
    for view in diff_views.VIEWS:
        for name in [one.name for one in hostile.kernels[:3]] if view == "kernel" else [""]:
            for width in (80, 160):
                for color in (False, True):
                    with contextlib.suppress(UsageError):
                        assert is_calm(made.report(view, name, width=width, color=color), color=color)
    assert is_calm(made.to_json())


def test_no_value_acts_when_it_is_printed_or_shown_in_a_notebook(hostile: Recording) -> None:
    assert is_calm(repr(hostile))
    html = html_fragment(hostile)  # of a lens
    assert is_calm(html)
    assert "<script" not in html


NAME = ACTS.replace("\x00", "").replace("/", "").replace("\ud800", "\udcff")  # what a file can be called


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files whose names act: two recordings, two that are none, a program."""
    monkeypatch.chdir(tmp_path)
    for n in (1, 2):
        save(RECORDINGS["breaks"](), tmp_path / f"{NAME}{n}.clens")
    (tmp_path / f"{NAME}.txt").write_text("no recording\n")
    (tmp_path / f"{NAME}.py").write_text("def make(): raise ValueError('\\x1b[2J')\n")
    Path(tmp_path, f"{NAME}.d").mkdir()
    return tmp_path


COMMANDS = """
show NAME.clens|show NAME.txt|show NAME.d|show .|show NAME1.clens NAME|show NAME1.clens graphs NAME|show NAME1.clens graphs 0/0 NAME
show NAME1.clens kernel NAME|show NAME1.clens line NAME|show NAME1.clens source NAME|show NAME1.clens kernels NAME
show NAME1.clens --NAME|show NAME1.clens --width NAME|show NAME1.clens breaks 0/0 NAME|show NAME1.clens|show NAME1.clens breaks --id NAME
source NAME.clens|source NAME1.clens NAME.py|source NAME.d|source NAME1.clens NAME.py:41|NAME|schema NAME
report NAME.txt|report NAME1.clens|report NAME1.clens NAME2.clens|report NAME1.clens NAME.html|report NAME1.clens -o NAME1.clens
report NAME1.clens -o NAME.d/NAME/x.html|report NAME1.clens -o NAME.d
graph NAME1.clens -o NAME.svg|graph NAME1.clens -o NAME|graph NAME1.clens NAME|graph NAME1.clens --stage NAME|graph NAME1.clens --module NAME
graph NAME1.clens --depth NAME|graph NAME.clens|graph NAME1.clens -o NAME.d/NAME/x.svg
diff NAME1.clens NAME2.clens|diff NAME1.clens NAME.clens|diff NAME1.clens NAME.txt|diff NAME1.clens NAME2.clens NAME
diff NAME1.clens NAME2.clens kernel NAME|diff NAME1.clens NAME2.clens breaks NAME
redact NAME1.clens NAME3.clens|redact NAME1.clens NAME1.clens|redact NAME1.clens NAME.d/NAME/x|redact NAME.txt x
run NAME|run NAME.d|run NAME1.clens|run -o NAME.txt NAME.py|run --NAME
what-if NAME|what-if NAME.py:NAME|what-if NAME.py:make|what-if NAME.py:other|what-if NAMENAME.py:make|profile NAME.py:make -o NAME.txt
profile NAME.py:make|profile NAME.py:make -o NAME.d/NAME/x.clens|modes NAME.py:make --option NAME|modes NAME.py:make --svg NAME.d/NAME/x.svg
modes NAME.py:make --seconds NAME
"""


@pytest.mark.parametrize("command", re.split(r"[|\n]", COMMANDS.strip()))
def test_no_command_lets_what_was_typed_act(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.execve", mock.Mock(side_effect=SystemExit))
    status, text = printed([word.replace("NAME", NAME) for word in command.split()])
    assert is_calm(text)
    assert status != 3, text
    assert "Traceback" not in text


def test_an_error_says_which_file_it_was() -> None:
    for error in (LensError("no \x1b[2J.clens"), UsageError("no \x1b[2J.clens")):
        assert str(error) == r"no \x1b[2J.clens"
    assert str(LensError("two\nlines")) == "two\nlines"


def test_what_is_said_at_the_end_of_a_script_does_not_act(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = planted(RECORDINGS["breaks"](), plant)
    for problem in ((), (CaptureProblem("journal", f"cannot write {NAME}"),)):
        whole = Recording(compilations=recording.compilations, problems=problem)
        monkeypatch.setattr("compiler_lens.decode.recording_file.load", lambda _, whole=whole: whole)
        recorded_script.finish(None, str(folder / f"{NAME}1.clens"), frozenset(["report"]))
        assert is_calm(capsys.readouterr().err.replace(r"\x1b", ""))
    monkeypatch.setattr("compiler_lens.lens.Lens", mock.Mock(side_effect=ValueError(ACTS)))
    assert recorded_script.open_lens(NAME, frozenset()) is None
    monkeypatch.setattr("compiler_lens.decode.recording_file.load", mock.Mock(side_effect=ValueError(ACTS)))
    recorded_script.finish(None, str(folder / f"{NAME}1.clens"), frozenset(["report"]))
    assert is_calm(capsys.readouterr().err)


def test_a_lens_whose_file_cannot_be_written_says_so_calmly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Lens(folder / NAME / "x" / "y.clens", progress=False) as lens:
        assert is_calm(repr(lens))
    said = capsys.readouterr().err
    assert "compiler_lens: " in said
    assert is_calm(said)


def test_what_python_says_of_a_recorded_text_is_not_shown(tmp_path):
    """From 3.12 on by default: that a string escapes what needs no escape, quoting it."""
    path = tmp_path / "run.clens"
    text = SourceFile(samples.MODEL, 'x = "\\\x1b"\n' * 50)
    save(replace(samples.broken(), sources=(text,)), path)
    command = [sys.executable, "-W", "always", "-m", "compiler_lens", "show", str(path), "breaks"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
