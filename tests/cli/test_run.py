"""`compiler-lens run`: what a script can see and do is compared with a run by Python alone."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import torch

import compiler_lens
from compiler_lens.decode.recording_file import load
from compiler_lens.recording.journal import JournalWriter
from compiler_lens.recording.journal_reader import read_journal
from compiler_lens.recording.model import THE_END, GraphStage

RUN = (sys.executable, "-m", "compiler_lens", "run")
PACKAGE_HOME = str(Path(compiler_lens.__file__).parents[1])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "PYTHONSAFEPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), PACKAGE_HOME])))
    return tmp_path


def script(code: str, name: str = "script.py") -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(code))
    return name


def start(*command: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        env={**os.environ, **environment},
    )


def same_as_python(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run it both ways, without a report, and compare all that came out."""
    plain = start(sys.executable, *arguments, stdin=stdin)
    ours = start(*RUN, "--no-report", *arguments, stdin=stdin)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert re.sub("0x[0-9a-f]+", "", ours.stderr) == re.sub("0x[0-9a-f]+", "", plain.stderr)
    return ours


# -- what a script sees

LOOK = """
    import os, sys, inspect
    print(__name__, __file__, __spec__ and __spec__.name, __package__, type(__builtins__), sorted(globals()))
    print(sys.argv, sys.path, len(inspect.stack()), sys.flags, sys.modules["__main__"].__dict__ is globals())
    print({key: value for key, value in os.environ.items() if key != "_"})
    print("torch" in sys.modules, "compiler_lens" in sys.modules)
"""


@pytest.mark.parametrize(
    "arguments",
    [["a", "-o", "y"], ["--", "-m"], ["-h"], ["--no"], ["--no-report", "--strict", "-"], ["", "a b", "-1"]],
)
def test_everything_behind_the_script_is_the_scripts(folder, arguments):
    done = same_as_python(script(LOOK, "sub/script.py"), *arguments)
    assert str(["sub/script.py", *arguments]) in done.stdout
    assert not Path("y").exists()


def test_a_module_is_run_as_python_does(folder):
    script("", "package/__init__.py")
    script(LOOK, "package/__main__.py")
    script(LOOK, "package/module.py")
    same_as_python("-m", "package", "-o", "y")
    same_as_python("-m", "package.module", "-m", "z")
    assert Path("package.clens").exists()
    assert Path("module.clens").exists()
    assert same_as_python("-m", "missing").returncode == 1


def test_a_folder_a_zip_and_the_standard_input_are_run_as_python_does(folder):
    script(LOOK, "app/__main__.py")
    with zipfile.ZipFile("app.pyz", "w") as file:
        file.write("app/__main__.py", "__main__.py")
    same_as_python("app", "x")
    same_as_python("app.pyz", "x")
    same_as_python("-", "x", stdin=textwrap.dedent(LOOK).replace("__file__", "0"))
    Path("empty").mkdir()
    assert same_as_python("empty").returncode == 1


@pytest.mark.parametrize("value", ["", "somewhere:else", None])
def test_the_environment_is_as_it_was(folder, monkeypatch, value):
    driver = script(
        f"import sys; sys.path.insert(0, {PACKAGE_HOME!r}); import compiler_lens.__main__ as m; sys.exit(m.main())"
    )
    look = script(
        "import os, sys; print(os.environ.get('PYTHONPATH'), sys.path, [k for k in os.environ if 'LENS' in k])", "b.py"
    )
    environment = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
    if value is not None:
        environment["PYTHONPATH"] = value
    outputs = [
        subprocess.run([sys.executable, *front, look], env=environment, capture_output=True, text=True, check=True)
        for front in ([], [driver, "run", "--no-report"])
    ]
    assert outputs[0].stdout == outputs[1].stdout


def test_the_users_own_sitecustomize_still_runs(folder, monkeypatch):
    script("import sys; sys.here = __file__", "site/sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "site"), os.environ["PYTHONPATH"]]))
    look = script("import sys, sitecustomize; print(sys.here, sitecustomize.__file__)")
    assert str(folder / "site") in same_as_python(look).stdout


def test_interpreter_options_are_kept(folder):
    look = script("import sys; print(sys.flags.optimize, sys.warnoptions, sys._xoptions)")
    done = start(sys.executable, "-O", "-W", "error::UserWarning", "-X", "faulthandler", *RUN[1:], "--no-report", look)
    assert done.stdout == "1 ['error::UserWarning'] {'faulthandler': True}\n"


def test_an_interpreter_without_our_way_in_is_refused(folder):
    home = script(
        f"import sys; sys.path.insert(0, {PACKAGE_HOME!r}); import compiler_lens.__main__ as m; sys.exit(m.main())"
    )
    done = start(sys.executable, "-E", home, "run", script("", "b.py"))
    assert done.returncode == 2
    assert "python -E" in done.stderr


# -- how a script ends


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('text')", 1),
        ("raise SystemExit", 0),
        ("1 / 0", 1),
        ("def f():\n    try:\n        1 / 0\n    except Exception as e:\n        raise ValueError('x') from e\nf()", 1),
        ("this is no python", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import os; os._exit(5)", 5),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import atexit, sys; atexit.register(sys.exit, 4); print(1)", 0),
        ("import atexit; atexit.register(lambda: 1 / 0)", 0),
        ("import sys; sys.excepthook = lambda *a: print('mine', a[0], a[2].tb_next); 1 / 0", 1),
        ("import threading; threading.Thread(target=lambda: 1 / 0).start()", 0),
        ("import traceback; traceback.print_stack()", 0),
        ("import compiler_lens; raise compiler_lens.LensError('of the script')", 1),
        ("import sys; sys.stderr = None; sys.stdout.close(); sys.stdout = None", 0),
        ("import os; os.fork() or print('child', flush=True); os.wait() if os.getpid() == os.getpgid(0) else 0", None),
    ],
)
def test_a_script_ends_as_under_python(folder, code, status):
    done = same_as_python(script(code))
    assert status is None or done.returncode == status


def test_standard_input_reaches_the_script(folder):
    assert same_as_python(script("print(input(), __import__('sys').stdin.read())"), stdin="a\nb").stdout == "a b\n"


def test_classes_of_main_can_be_pickled_and_spawned(folder):
    same_as_python(
        script("""
            import multiprocessing, os, pickle, sys
            class Point: pass
            def work(point):
                print(type(point), __name__, sys.argv, [k for k in os.environ if "LENS" in k], flush=True)
            if __name__ == "__main__":
                print(pickle.loads(pickle.dumps(Point())).__class__ is Point, flush=True)
                for method in ("spawn", "fork", "forkserver"):
                    process = multiprocessing.get_context(method).Process(target=work, args=(Point(),))
                    process.start()
                    process.join()
                    print(process.exitcode, flush=True)
        """),
        "x",
    )


def test_a_missing_script_is_one_clear_line(folder):
    done = start(*RUN, "-o", "precious", "missing.py", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().splitlines()[-1].endswith("no such script: missing.py")
    assert "Traceback" not in done.stderr
    assert not Path("precious").exists()
    assert "compiler-lens run script.py" in start(*RUN, "python", "s.py").stderr


LOG = 'V1121 04:30:00.123000 71 torch/_dynamo/convert_frame.py:1] {"dynamo_start": {"stack": []}}\n'


def test_a_recording_or_a_log_in_the_place_of_a_script_is_one_clear_line(folder):
    JournalWriter(folder / "a b.clens").close()
    Path("torch.log").write_text(LOG)
    Path("torch.log.gz").write_bytes(gzip.compress(LOG.encode()))
    for name, what, typed in (
        ("a b.clens", "recording", "'a b.clens'"),
        ("torch.log", "TORCH_TRACE log", "torch.log"),
        ("torch.log.gz", "TORCH_TRACE log", "torch.log.gz"),
    ):
        done = start(*RUN, "-o", "new.clens", name)
        told = f"compiler-lens: {name} is a {what}, not a script. To see it: compiler-lens show {typed}\n"
        assert (done.returncode, done.stdout, done.stderr) == (2, "", told)
    assert not Path("new.clens").exists()
    assert same_as_python(script(f'LOG = """\n{LOG}"""\nprint(LOG)')).returncode == 0


# -- where the recording goes


def test_without_a_name_no_recording_is_written_over(folder):
    Path("other").mkdir()
    code = script("import os; os.chdir('other')", "train.py")
    for _ in range(3):
        start(*RUN, "--no-report", code)
    assert sorted(path.name for path in folder.rglob("*.clens")) == ["train-2.clens", "train-3.clens", "train.clens"]


def test_a_name_is_taken_as_it_is_and_a_folder_gets_a_file(folder):
    code = script("pass", "train.py")
    Path("out").mkdir()
    for output in ("a.clens", "a.clens", "out", "{pid}.x"):
        assert start(*RUN, "--no-report", "-o", output, code).returncode == 0
    assert Path("a.clens").exists()
    assert Path("out/train.clens").exists()
    assert len(list(folder.glob("*.clens"))) == 1
    assert len(list(folder.glob("*.x"))) == 1


def test_a_file_that_is_no_recording_is_not_written_over(folder):
    Path("model.py").write_text("precious")
    done = start(*RUN, "-o", "model.py", script("print(1)"))
    assert (done.returncode, done.stdout) == (2, "")
    assert Path("model.py").read_text() == "precious"


def test_ranks_write_a_file_each(folder):
    code = script("pass", "train.py")
    start(*RUN, "--no-report", code, WORLD_SIZE="2", RANK="1")
    start(*RUN, "--no-report", "-o", "a.clens", code, WORLD_SIZE="2", RANK="0")
    start(*RUN, "--no-report", "-o", "b.clens", code, WORLD_SIZE="1", RANK="0")
    assert sorted(path.name for path in folder.glob("*.clens")) == ["a.rank0.clens", "b.clens", "train.rank1.clens"]


def test_a_named_file_that_cannot_be_made_is_said_before_the_script_runs(folder):
    done = start(*RUN, "-o", "missing/a.clens", script("print(1)"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"no folder {Path('missing').absolute()}\n")
    assert done.stderr.count("\n") == 1


def test_an_empty_file_of_the_users_is_there_after_a_run_that_recorded_nothing(folder):
    Path("a.clens").touch()
    done = start(*RUN, "-o", "a.clens", script("print(1)"))
    assert done.stderr.endswith("what was there before stays.\n")
    assert Path("a.clens").read_text() == ""


# -- what is recorded

COMPILE = """
    import os, sys
    import torch

    @torch.compile(backend="eager")
    def double(x):
        return x * 2

    print(double(torch.ones(2)).tolist())
    exec(sys.argv[1])
"""


def recorded(path: str, *, is_closed: bool = True) -> list[str]:
    events, problems = read_journal(Path(path))
    assert [problem.where for problem in problems] == ([] if is_closed else [THE_END])
    return [event.name for event in events]


@pytest.mark.parametrize(
    ("ending", "status", "reported"),
    [
        ("pass", 0, True),
        pytest.param("sys.exit(3)", 3, True, marks=pytest.mark.long),
        pytest.param("raise ValueError", 1, True, marks=pytest.mark.long),
        ("raise KeyboardInterrupt", -signal.SIGINT, True),
        pytest.param("os._exit(5)", 5, False, marks=pytest.mark.long),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL, False),
    ],
)
def test_the_recording_is_there_however_the_script_ends(folder, ending, status, reported):
    done = start(*RUN, "--strict", "-o", "a.clens", script(COMPILE), ending)
    assert (done.returncode, done.stdout) == (status, "[2.0, 2.0]\n"), done.stderr
    assert "dynamo_output_graph" in recorded("a.clens", is_closed=reported)
    last = done.stderr.splitlines()[-1] if done.stderr else ""
    assert (last == "Recorded in a.clens, open it again with: compiler-lens show a.clens") is reported


def test_a_script_that_imports_torch_and_compiles_nothing_leaves_an_empty_recording_and_says_so(folder):
    for code in ("import torch", "import torch\ntorch.compile(lambda x: x)", "import torch, sys\nsys.exit(3)"):
        done = start(*RUN, "--strict", "-o", "a.clens", script(code))
        assert set(recorded("a.clens")) <= {"lens.files", "lens.compile_site"}
        first, *_, last = done.stderr.splitlines()
        assert first == "The script imported torch, but called nothing that torch.compile made."
        assert last.endswith("compiler-lens show a.clens")


def test_a_script_that_never_imports_torch_leaves_no_recording_and_says_so(folder):
    done = start(*RUN, "--strict", script("print(1)"))
    told = "compiler-lens: torch was not imported, and only this process counts: no report, and no recording kept.\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", told)
    assert not list(folder.glob("*.clens"))


@pytest.mark.parametrize(
    ("code", "line", "why"),
    [
        ("import torch\ndef f():\n    raise ValueError('x')\nf()", "ValueError at script.py:3", "nothing was compiled"),
        pytest.param(
            "import torch\n\njson.loads('x')",
            "NameError at script.py:3",
            "nothing was compiled",
            marks=pytest.mark.long,
        ),
        ("import json\njson.loads('x')", "JSONDecodeError at script.py:2", "torch was not imported"),
        ("def f(:", "SyntaxError at script.py:1", "torch was not imported"),
        ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E", "E at script.py:3", "torch was not imported"),
    ],
)
def test_a_script_that_fails_before_it_compiles_leaves_no_recording_and_says_so(folder, code, line, why):
    plain = start(sys.executable, script(code))
    done = start(*RUN, "--strict", "script.py")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    raised, told = done.stderr.removeprefix(plain.stderr).splitlines()
    assert raised == f"The script raised {line}"
    assert told.startswith(f"compiler-lens: {why}")
    assert not list(folder.glob("*.clens"))


@pytest.mark.parametrize("code", ["import", "print()", "import torch._dynamo; raise ValueError"])
def test_an_earlier_recording_stays_where_there_is_nothing_to_record(folder, code):
    with compiler_lens.Lens("r.clens"):
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    before = Path("r.clens").read_bytes()
    done = start(*RUN, "-o", "r.clens", script(code))
    assert done.stderr.endswith("no report, and what was there before stays.\n")
    assert Path("r.clens").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["r.clens", "script.py"]


def test_a_failure_after_compiling_is_told_before_the_report(folder):
    done = start(*RUN, "--strict", script(COMPILE + "    raise KeyError(1)"), "pass")
    assert done.stderr.count("The script raised KeyError at script.py:11\ncompiler_lens  script.py") == 1
    assert done.stderr.splitlines()[-1].endswith("compiler-lens show script.clens")


RAISES_COMPILED = """
    import sys
    import numpy as np
    import torch

    def limit(x):
        return x * max(0.05, float(np.percentile(x.numpy(), 10)))

    def checked(x):
        if x.sum() > 0:
            raise ValueError("positive")
        return x

    made = torch.compile({"limit": limit, "checked": checked}[sys.argv[1]], backend="eager")
    print(made(torch.ones(4)).sum().item())
"""


@pytest.mark.parametrize(("name", "code"), [pytest.param("limit", 0, marks=pytest.mark.long), ("checked", 1)])
def test_an_error_out_of_a_compiled_call_says_how_to_see_whether_it_comes_of_compiling(folder, name, code):
    unwritten = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}  # which `run` hands on as -B and -u
    done = start(*RUN, script(RAISES_COMPILED), name, "-u", **unwritten)
    assert done.returncode == 1
    before, said, after = done.stderr.partition(
        "came out of a call of what torch.compile made. Whether it does without:\n"
    )
    assert said
    what, where = before.splitlines()[-2].rsplit(" at script.py:", 1)
    assert what.strip().startswith({"limit": "TypeError: ", "checked": "ValueError: positive"}[name])
    assert where.partition(", `")[2].startswith({"limit": "return x * max(", "checked": "raise ValueError("}[name])
    command = after.splitlines()[0].strip()
    assert command == f"TORCH_COMPILE_DISABLE=1 python script.py {name} -u"
    variable, _python, *rest = command.split()
    assert start(sys.executable, *rest, **dict([variable.split("=")])).returncode == code
    assert done.stderr.splitlines()[-1].endswith("compiler-lens show script.clens")


@pytest.mark.long
def test_an_error_of_a_script_that_compiles_is_not_laid_to_compiling(folder):
    done = start(*RUN, script(COMPILE + "    raise KeyError(1)"), "pass")
    assert "The script raised KeyError" in done.stderr
    assert "came out of a call" not in done.stderr


def test_what_compiles_in_threads_and_exit_handlers_is_recorded(folder):
    code = COMPILE + "    import atexit, threading\n    @atexit.register\n    def late(): double(torch.ones(2, 2))\n"
    code += "    threading.Thread(target=lambda: double(torch.ones(3, dtype=torch.int32))).start()\n"
    done = start(*RUN, "--strict", script(code), "pass")
    assert recorded("script.clens").count("dynamo_output_graph") == 3, done.stderr


@pytest.mark.parametrize(
    "first",
    [
        pytest.param("torch._inductor", marks=pytest.mark.long),
        "torch._functorch.aot_autograd",
        pytest.param("torch._dynamo", marks=pytest.mark.long),
        "torch",
    ],
)
def test_every_hook_is_in_place_whatever_of_torch_the_script_imports_first(folder, first):
    code = script(f"import {first}\n" + textwrap.dedent(COMPILE).replace('"eager"', '"aot_eager"'))
    done = start(*RUN, "--strict", "-o", "a.clens", code, "pass")
    assert done.returncode == 0, done.stderr
    recording = load("a.clens")
    assert [u for u in recording.unavailable if u.fact.startswith("origins")] == []
    assert [
        n.origins
        for g in recording.graphs
        if g.stage is GraphStage.AOT_INFERENCE
        for n in g.nodes
        if n.op == "call_function"
    ] == [("mul",)]


def test_the_script_decides_what_torch_finds_in_the_environment(folder):
    done = start(
        *RUN,
        "--strict",
        script("""
            import os, sys
            assert "torch" not in sys.modules
            os.environ["TORCHDYNAMO_SUPPRESS_ERRORS"] = "1"
            import torch
            import importlib.util, torch._dynamo as dynamo
            print(dynamo.config.suppress_errors, type(dynamo.__spec__.loader).__name__, sys.meta_path[0])
            print("exec_module" in vars(dynamo.__spec__.loader))
        """),
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("True SourceFileLoader")
    assert "Recorder" not in first
    assert second == "False"


@pytest.mark.long
def test_looking_for_the_compiler_without_loading_it_does_not_open_the_lens(folder):
    done = start(
        *RUN,
        "--strict",
        "-o",
        "a.clens",
        script("import importlib.util\nassert importlib.util.find_spec('torch._dynamo')" + textwrap.dedent(COMPILE)),
        "pass",
    )
    assert done.returncode == 0, done.stderr
    assert "dynamo_output_graph" in recorded("a.clens")


def test_a_lens_that_cannot_open_leaves_the_script_alone(folder):
    script("", "torch/__init__.py")
    script("", "torch/_dynamo/__init__.py")
    code = script("import torch._dynamo; print(1)")
    done = start(*RUN, code)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "Gaps" in done.stderr
    assert start(*RUN, "--strict", code).returncode == 1


def test_a_forked_child_does_not_report(folder):
    done = start(*RUN, script("import os, sys\nif os.fork() == 0: sys.exit(0)\nos.wait()"))
    assert done.stderr.count("no recording kept") == 1


# -- what is the user's


def test_a_file_that_the_script_put_in_the_recordings_place_is_the_users(folder):
    code = "from pathlib import Path\nPath('notes.txt').unlink()\nPath('notes.txt').write_text('precious')\n"
    done = start(*RUN, "--strict", "-o", "notes.txt", script(f"{code}import torch, torch._dynamo\n1 / 0"))
    assert Path("notes.txt").read_text() == "precious"
    assert done.stderr.endswith("nothing was compiled before that: no report, and no recording kept.\n")
    done = start(*RUN, "-o", "other.txt", script(code.replace("notes", "other")))
    assert Path("other.txt").read_text() == "precious"
    assert done.stderr == "compiler-lens: nothing was compiled: no report, and no recording.\n"
    done = start(*RUN, "-o", "third.txt", script(code.replace("notes", "third") + textwrap.dedent(COMPILE)), "pass")
    assert Path("third.txt").read_text() == "precious"
    assert done.stderr.splitlines()[-1] == "There is no recording: third.txt does not hold it"


def test_a_program_that_runs_is_no_recording(folder):
    shutil.copy(shutil.which("sleep"), "prog")
    running = subprocess.Popen(["./prog", "600"])
    try:
        done = start(*RUN, "-o", "prog", script("print(1)"))
    finally:
        running.kill()
        running.wait()
    assert Path("prog").stat().st_size > 0
    first, last = done.stderr.splitlines()
    assert "Text file busy" in first
    assert last == "compiler-lens: nothing was compiled: no report, and no recording."


def test_the_recording_of_another_process_is_its_own(folder):
    other = JournalWriter(folder / "x.clens")
    try:
        for code, kept in (("print(1)", False), ("import torch", True)):
            done = start(*RUN, "-o", "x.clens", script(code))
            first, *_, last = done.stderr.splitlines()
            assert "x.clens is being recorded to already: this recording is" in first
            (own,) = set(folder.glob("*.clens")) - {folder / "x.clens"} if kept else [folder / "none"]
            assert ("Recorded in" in last) is kept
            assert last.endswith(own.name if kept else "no recording kept.")
            assert own.exists() is kept
    finally:
        other.close()
    assert read_journal(folder / "x.clens") == ((), ())


def test_a_link_to_the_recording_stays(folder):
    Path("link.clens").symlink_to("target.clens")
    start(*RUN, "-o", "link.clens", script("print(1)"))
    assert Path("link.clens").is_symlink()
    assert not Path("target.clens").exists()


def test_a_name_that_nobody_gave_is_made_anew_for_the_user_alone(folder):
    (folder / "shared").mkdir()
    for name in ("shared/train.clens", "train.clens"):
        Path(name).symlink_to(folder / "planted")
    code = "import glob, os; print(*(f'{p} {os.stat(p).st_mode:o}' for p in glob.glob('**/train-*', recursive=True)))"
    for output in ([], ["-o", "shared"]):
        done = start(*RUN, *output, script(code, "train.py"))
        assert done.stdout.strip() == f"{Path(*output[1:], 'train-2.clens')} 100600"
    assert not Path("planted").exists()
