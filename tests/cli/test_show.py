"""`compiler-lens show`, from the command line to the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "gold"))

import sample_recordings as samples  # noqa: E402 -- it lies beside the gold files

from compiler_lens.cli import main  # noqa: E402
from compiler_lens.decode import recording_file  # noqa: E402
from compiler_lens.recording.errors import RecordingFileError  # noqa: E402
from compiler_lens.recording.journal import JournalWriter  # noqa: E402


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    """Whatever is opened is the broken sample."""
    monkeypatch.setattr(recording_file, "open_recording", lambda path, **_: samples.broken())
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def said(capsys, *args):
    status = main(["show", *args])
    out, err = capsys.readouterr()
    return status, out, err


def test_without_a_view_it_is_the_report_for_this_file(capsys):
    status, out, err = said(capsys, "run.clens")
    assert (status, err) == (0, "")
    assert "3 of 6 functions compiled" in out
    assert "compiler-lens show run.clens findings" in out.splitlines()[-1]
    assert "\x1b" not in out, "no colours without a terminal"


@pytest.mark.parametrize("view", [[], ["findings"]])
def test_commands_that_are_suggested_read_the_recording_in_the_same_way(view, capsys):
    options = [
        "--sources",
        "a b",
        "--sources",
        "src",
        "--user-path",
        "lib",
        "--max-size",
        "500M",
        "--max-nesting",
        "300",
    ]
    out = said(capsys, "run.clens", *view, *options)[1]
    commands = [line for line in out.splitlines() if "compiler-lens show" in line]
    assert commands
    assert all(
        c.endswith(" --sources 'a b' --sources src --user-path lib --max-size 524288000 --max-nesting 300")
        for c in commands
    )
    assert "--sources" not in said(capsys, "run.clens", *view, *options, "--redact")[1]


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["breaks"], "Data-dependent branching (GB0170)"),
        (["breaks", "4/0"], "1 break at 1 line"),
        (["graphs"], "Compilations  18"),
        (["graphs", "[0/0]"], "forward saves for backward"),
        (["graphs", "0/0", "forward"], "def forward(self, x):"),
        (["kernels"], "cpp_fused_add_mul_1"),
        (["kernels", "0/0"], "4 with 4 launches"),
        (["kernel", "cpp_fused_add_mul_1"], "out[0] = in[0];"),
        (["kernel", "cpp_fused_add_mul_1", "--id", "0/0"], "out[0] = in[0];"),
        (["recompiles", "5"], "tensor 'lr' size mismatch"),
        (["guards", "0/0"], "check_tensor(L['x']"),
        (["caches"], "AOTAutograd  miss"),
        (["times"], "lazy backward"),
        (["frames"], "compiled in 2 parts"),
        (["autotune"], "triton_mm_3"),
        (["cudagraphs"], "mutated inputs"),
        (["environment"], "torch     2.13.0"),
    ],
)
def test_every_view_has_its_command(capsys, args, part):
    status, out, err = said(capsys, "run.clens", *args)
    assert (status, err) == (0, "")
    assert part in out


@pytest.mark.parametrize("args", [[], ["breaks"], ["kernel", "cpp_fused_add_mul_1"], ["graphs", "0/0", "dynamo"]])
def test_each_view_is_json_on_demand(capsys, args):
    status, out, _ = said(capsys, "run.clens", *args, "--json")
    assert status == 0
    assert json.loads(out)["view"] == (args[0] if args else "report")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["kernals"], "no view 'kernals'. Did you mean kernels? There are findings, source,"),
        (["graphs", "9/9"], "no compilation '9/9' in this recording: it has 0/0, 0/1,"),
        (["graphs", "0/0", "foward"], "Did you mean forward?"),
        (["kernel", "cpp_fused_add_mul_2"], "Did you mean cpp_fused_add_mul_1?"),
        (["kernel"], "which kernel?"),
        (["breaks", "0/0", "0/1"], "too much: 0/1"),
        (["breaks", "--id", "0/0"], "--id goes with `kernel`"),
    ],
)
def test_what_is_not_there_is_one_line_that_says_what_is(capsys, args, message):
    status, out, err = said(capsys, "run.clens", *args)
    assert (status, out) == (2, "")
    assert err.startswith("compiler-lens: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record(folder, *names):
    for age, name in enumerate(names):
        JournalWriter(folder / name).close()
        os.utime(folder / name, (1e9 - age, 1e9 - age))


@pytest.mark.parametrize(("args", "view"), [([], ""), (["breaks"], " breaks"), (["kernel", "k"], " kernel k")])
def test_without_a_recording_it_says_what_to_type(capsys, folder, args, view):
    status, out, err = said(capsys, *args)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"show which recording? Type compiler-lens show FILE{view}, and FILE is" in err
    record(folder, "a b.clens")
    told = "compiler-lens: show which recording? Did you mean"
    assert said(capsys, *args) == (2, "", f"{told}? compiler-lens show 'a b.clens'{view}\n")
    record(folder, "new.clens", "a b.clens")
    assert said(capsys, *args) == (2, "", f"{told} the newest? compiler-lens show new.clens{view}\n")


def test_a_file_that_is_called_like_a_view_is_a_recording(capsys, folder):
    record(folder, "breaks")
    assert said(capsys, "breaks")[0] == 0


def test_a_folder_stands_for_the_only_recording_in_it(capsys, folder):
    (folder / "runs").mkdir()
    record(folder / "runs", "a.clens")
    status, out, _ = said(capsys, "runs")
    assert status == 0
    assert "compiler-lens show runs/a.clens" in out
    record(folder / "runs", "new.clens", "a.clens")
    status, out, err = said(capsys, "runs", "breaks")
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        "compiler-lens: runs holds 2 recordings. Did you mean the newest? compiler-lens show runs/new.clens breaks",
        "  runs/new.clens",
        "  runs/a.clens",
    ]


def test_a_width_that_nothing_fits_in_is_refused(capsys):
    assert said(capsys, "run.clens", "--width", "40")[0] == 0
    for width in ("39", "0", "-3"):
        status, out, err = said(capsys, "run.clens", "--width", width)
        assert (status, out) == (2, "")
        assert err == f"compiler-lens: --width {width} is too narrow: 40 columns or more\n"


def test_a_file_that_cannot_be_opened_is_one_line_too(capsys, monkeypatch):
    def refuse(path, **_):
        raise RecordingFileError(f"{path} is no recording")

    monkeypatch.setattr(recording_file, "open_recording", refuse)
    assert said(capsys, "x.txt") == (1, "", "compiler-lens: x.txt is no recording\n")


def test_the_width_is_as_asked_for(capsys):
    _, out, _ = said(capsys, "run.clens", "--width", "120")
    assert out == (ROOT / "tests/gold/broken-120.txt").read_text(encoding="utf-8").replace("REC", "run.clens")


def test_a_terminal_has_colours_unless_refused(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[" in said(capsys, "run.clens")[1]
    assert "\x1b[" not in said(capsys, "run.clens", "--no-color")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in said(capsys, "run.clens")[1]


def test_ctrl_c_ends_it_quietly(capsys, monkeypatch):
    def interrupt(path, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(recording_file, "open_recording", interrupt)
    assert said(capsys, "run.clens") == (130, "", "")


def child(code, **more):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "gold")])
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**inherited, "PYTHONPATH": path, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


SHOW = """
import sys, sample_recordings
from compiler_lens.decode import recording_file
from compiler_lens.cli import main
recording_file.open_recording = lambda path, **_: sample_recordings.{sample}()
sys.exit(main(["show", "run.clens", {args}]))
"""


def test_a_closed_pipe_ends_it_quietly():
    process = child(SHOW.format(sample="many", args='"kernels", "--json"'))
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


def test_a_terminal_without_unicode_gets_ascii():
    process = child(SHOW.format(sample="hostile", args=""), PYTHONIOENCODING="ascii:strict", PYTHONUTF8="0")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.isascii()


def test_help_needs_neither_torch_nor_rich():
    code = """
import sys
from compiler_lens.cli import main
try:
    main(["show", "--help"])
finally:
    assert not {"torch", "rich"} & set(sys.modules)
"""
    process = child(code)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    for view in ("breaks", "graphs", "kernel", "recompiles", "guards", "caches", "times", "frames", "cudagraphs"):
        assert view.encode() in out


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("compiler-lens 0.")
