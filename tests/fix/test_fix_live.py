"""`compiler-lens fix` on real programs: torch.compile in processes of its own, as a user has it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

import compiler_lens
from compiler_lens import load
from compiler_lens.cli import main
from compiler_lens.cli.command import interpreter
from compiler_lens.cli.fix import _not_to_be_applied
from compiler_lens.facts.measured.edits import Setting
from compiler_lens.facts.measured.fix import Fix, NotCompiledBecause, Observed, Offer, OwnBackend, Target, Trial
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.measured.printed import OtherWords
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.measure.fix.plan import Outcome, Plan, Program
from compiler_lens.measure.fix.process import Limits, Processes
from compiler_lens.recording.model import Figures, Results
from compiler_lens.render.json import view_schema
from compiler_lens.views.registry import documented
from tests.sampled import one_of


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(dedent(text).lstrip())


def fixed(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[Any, str]:
    """What it says as JSON, and beside it."""
    assert main(["fix", "--own-inputs", "--json", *args]) == 0
    said, beside = capsys.readouterr()
    document = json.loads(said)
    Draft202012Validator(view_schema(*documented("fix")[0])).validate(document)
    return document, beside


MODEL = """
    import functools

    import torch
    from torch import nn

    from .parts import bounded


    def logged(method):
        @functools.wraps(method)
        def wrapper(*args, **kwargs):
            return method(*args, **kwargs)

        return wrapper


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        @logged
        def forward(self, x):
            y = self.linear(x)
            print("linear")
            return bounded(y).sum()
"""
PARTS = """
    def bounded(x):
        if x.sum() > 0:
            x = x * 2
        else:
            x = x - 1
        return x
"""
TRAIN = """
    import argparse

    import torch

    from .model import Net

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--steps", type=int)
        net = torch.compile(Net())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(parser.parse_args().steps):
            optimizer.zero_grad()
            net(torch.randn(4, 8)).backward()
            optimizer.step()

    if __name__ == "__main__":
        main()  # whose model is gone when the program ends
"""


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("patch"), reason="needs patch")
def test_a_package_is_trained_with_its_breaks_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several files, relative imports, a decorated method, arguments, gradients; applied, and undone by the patch."""
    written(tmp_path, {"pkg/model.py": MODEL, "pkg/parts.py": PARTS, "pkg/train.py": TRAIN})
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.py")}
    monkeypatch.chdir(tmp_path)
    found, beside = fixed(capsys, "--apply", "-m", "pkg.train", "--steps", "2")
    assert (found["calls"], found["deterministic"]) == (2, True)
    assert found["best"]["before"]["graph_breaks"] >= 3
    assert found["best"]["after"] == {"graph_breaks": 0, "recompiles": 0, "eager_functions": 0}
    assert found["best"]["results"] == "equal"
    assert {finding["kind"] for finding in found["findings"]} >= {"graph-break"}
    assert found["best"]["files"] == [str(tmp_path / "pkg" / "model.py"), str(tmp_path / "pkg" / "parts.py")]
    assert "x = torch.where(x.sum() > 0, x * 2, x - 1)" in (tmp_path / "pkg" / "parts.py").read_text()
    assert (tmp_path / "pkg" / "parts.py").read_text().startswith("import torch\n")
    undo = beside.rpartition("undo it with: ")[2]
    assert subprocess.run(undo, shell=True, check=False, stdout=subprocess.DEVNULL).returncode == 0
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.py")} == before


def test_a_program_that_raises_is_compared_with_itself_in_eager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = """
        import torch

        @torch.compile
        def step(x):
            with torch._dynamo.error_on_graph_break(True):
                if x.sum() > 0:
                    x = x + 1
            return x

        for _ in range(1000):
            step(torch.ones(3))
    """
    written(tmp_path, {"step.py": script})
    monkeypatch.chdir(tmp_path)
    found, _ = fixed(capsys, "--steps", "2", "--patch", "step.patch", "step.py")
    assert found["calls"] == 2
    assert found["tried"][0]["before"] is None
    assert found["best"]["results"] == "equal"
    assert found["best"]["after"]["graph_breaks"] == 0
    assert (tmp_path / "step.patch").read_text() == found["best"]["patch"]
    assert (tmp_path / "step.py").read_text() == dedent(script).lstrip()


@pytest.mark.long
def test_a_change_with_which_the_program_prints_another_number_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is returned is the same, but no longer what the caller changes in place."""
    script = """
        import torch

        @torch.compile(backend="eager")
        def step(x):
            if x.sum() > 9:
                x = x.clamp(max=3)
            return x

        for size in (1.0, 10.0):
            x = torch.full((3,), size)
            step(x).add_(1)
            print(x.sum().item())
    """
    written(tmp_path, {"step.py": script})
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--apply", "step.py"]) == 2
    said = capsys.readouterr()
    assert "nothing was applied: the program prints something else then" in said.err
    assert (tmp_path / "step.py").read_text() == dedent(script).lstrip()


def test_a_program_that_is_not_deterministic_is_said_to_be_so_and_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = """
        import os

        import torch

        @torch.compile
        def step(x):
            print("step")
            return x + 1

        step(torch.full((3,), float(os.getpid())))
    """
    written(tmp_path, {"step.py": script})
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--apply", "step.py"]) == 2
    said = capsys.readouterr().err
    assert "nothing was applied: the results could not be compared" in said
    assert (tmp_path / "step.py").read_text() == dedent(script).lstrip()


def test_what_was_not_looked_at_whole_is_not_written() -> None:
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    assert not _not_to_be_applied(Fix(seen), seen)
    assert "prints something else" in _not_to_be_applied(Fix(seen), replace(seen, printed=OtherWords("8", "4")))
    assert "could not be compared" in _not_to_be_applied(Fix(seen), replace(seen, results=Results.UNKNOWN))
    unknown = Offer(Target(None, "break"), Setting("torch._dynamo.config.capture_scalar_outputs = True"))
    for because in (NotCompiledBecause.LATE, NotCompiledBecause.ENDED):
        own = OwnBackend(because=because)
        for offers, is_asked in (((unknown,), True), ((), False)):
            best = Trial(offers, {}, None, seen, helps=True)
            said = _not_to_be_applied(Fix(seen, best=best, own_backend=own), seen)
            assert ("Give it longer" in said) is is_asked


TRAINS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.register_buffer("mean", torch.zeros(8))
            self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

        def forward(self, x):
            self.count += 1
            with torch.no_grad():
                self.mean += 0.1 * x.mean(0)
            return self.norm(self.linear(x - self.mean)).square().mean()

    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    fast = torch.compile(net, backend="eager")

    @torch.compile(backend="eager")
    def step(x):
        net(x).backward()
        print("step")
        optimizer.step()

    for size in (4, 6, 7):
        fast(torch.randn(size, 8)).backward()
        step(torch.randn(size, 8))
"""


def test_a_run_compiles_what_the_program_compiles_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers assigned in place, running statistics, an optimizer: as many breaks, recompiles and eager functions."""
    written(tmp_path, {"train.py": TRAINS})
    monkeypatch.chdir(tmp_path)
    recording = [sys.executable, "-m", "compiler_lens", "run", "-o", "train.clens", "train.py"]
    subprocess.run(recording, check=True, stdout=subprocess.DEVNULL)
    with Processes(
        interpreter(), str(Path(compiler_lens.__file__).parent.parent), os.environ, Limits(300)
    ) as processes:
        ended = processes.run(Plan(Program("train.py"), str(tmp_path / "out")))
    assert sum(one.calls for one in ended.outcome.calls_of) == 6
    outcome = replace(ended.outcome, loaded=(), operators=0, launches=0, calls_of=())
    assert outcome == Outcome(str(tmp_path / "train.py"), calls=6)
    assert ended.outcome.operators > ended.outcome.launches >= ended.outcome.calls  # those of the optimizer are none
    largest = max(sum(node.op.startswith("call_") for node in graph.nodes) for graph in ended.recording.graphs)
    assert largest > 2 * ended.outcome.operators / ended.outcome.launches > 2  # the largest is the optimizer's
    plain, tried = (observed(one, Ownership()) for one in (load(tmp_path / "train.clens"), ended.recording))
    assert plain.figures == tried.figures
    assert plain.broken == tried.broken
    rules = [[one.rule for one in seen.findings if not one.rule.startswith("phase-")] for seen in (plain, tried)]
    assert rules[0] == rules[1]  # how long a phase takes is not compared
    assert plain.figures is not None
    assert plain.figures.graph_breaks > 1 < plain.figures.recompiles


_COMPILED = "@torch.compile(backend='eager')\ndef f(x):\n    return x + 1\n\n"
SILENT = {
    "stance": (
        f"{_COMPILED}torch.compiler.set_stance('force_eager')\nf(torch.ones(2))",
        ("takes the stance `force_eager`",),
    ),
    "discarded": (
        "net = torch.nn.Linear(2, 2)\ntorch.compile(net)\nnet(torch.ones(2))",
        ("gives `Linear` to torch.compile and does nothing with what that returns",),
    ),
    "sequential": (
        "net = torch.nn.Sequential(torch.nn.Linear(2, 2))\nnet.compile()\nnet(torch.ones(2))",
        ("gives `Sequential` to torch.compile",),
    ),
    "suppressed": (
        """
torch._dynamo.config.suppress_errors = True

@torch.library.custom_op("fix_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@torch.compile(backend="eager")
def f(x):
    return twice(x)

f(torch.ones(2))
""",
        (
            "1 function runs eagerly; no edit can be tried for that:",
            "`f`: compiling it failed, and `suppress_errors` hides that",
        ),
    ),
}


@pytest.mark.parametrize("name", one_of(2, list(SILENT)))
def test_what_runs_eagerly_without_a_word_is_not_called_nothing_to_fix(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, said = SILENT[name]
    (tmp_path / "step.py").write_text(f"import torch\n\n{script}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--width", "200", "step.py"]) == 0
    shown = capsys.readouterr().out
    assert "othing to fix" not in shown
    assert all(text in shown for text in said), shown


def test_a_program_that_compiles_whole_has_nothing_to_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "step.py").write_text(f"import torch\n\n{_COMPILED}f(torch.ones(2))\n")
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "step.py"]) == 0
    assert capsys.readouterr().out.startswith("Nothing to fix: no graph breaks")


BUT = {
    "recompiles": (f"{_COMPILED}for n in (2, 3):\n    f(torch.ones(n))", "1 recompile in"),
    "children": (
        (
            "import subprocess, sys, torch.multiprocessing as mp\n"
            f"{_COMPILED}f(torch.ones(2))\n"
            "if __name__ == '__main__':\n"
            "    process = mp.get_context('spawn').Process(target=print)\n    process.start()\n    process.join()"
        ),
        "processes that are not recorded",
    ),
    "cut on purpose": (
        (
            "@torch.compiler.disable\ndef g(x):\n    return x * 2\n\n"
            "@torch.compile(backend='eager')\ndef f(x):\n    return g(x + 1) + 1\n\nf(torch.ones(2))"
        ),
        "1 place where graphs are cut on purpose",
    ),
}


@pytest.mark.parametrize(
    "name", ["cut on purpose", *(pytest.param(one, marks=pytest.mark.long) for one in BUT if one != "cut on purpose")]
)
def test_what_contradicts_an_all_clear_is_said_by_fix_as_by_show(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, said = BUT[name]
    (tmp_path / "step.py").write_text(f"import torch\n\n{script}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--width", "140", "step.py"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Nothing to fix" not in shown
    assert "Nothing must be changed, but there is: " in shown
    assert said in shown


SLEEPS = ("import time\ntime.sleep(60)", "3", "not done after 3 s")
RAISES = ("import torch\nraise ValueError('no data')", "300", "fails without torch.compile, too: ValueError: no data")


@pytest.mark.parametrize("case", [SLEEPS, RAISES], ids=("sleeps", "raises"))
def test_a_program_that_cannot_be_tried_is_one_line_and_a_status(
    case: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, timeout, said = case
    (tmp_path / "step.py").write_text(script)
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--timeout", timeout, "step.py"]) == 2
    assert said in capsys.readouterr().err


def test_a_factory_that_is_not_there_is_said_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "step.py").write_text("print('from the program')\n")
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "step.py:nope"]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == ["compiler-lens: no nope in step.py"]


def test_a_script_that_compiles_nothing_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "step.py").write_text("open('runs', 'a').write('x')\nimport sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "step.py"]) == 0
    assert "Nothing that torch.compile made was called" in capsys.readouterr().out
    assert (tmp_path / "runs").read_text() == "x"


def _hears() -> None:
    """Have Ctrl-C end what is started: where a shell started us in the background, it would be ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_ends_it_with_all_that_the_program_started(tmp_path: Path) -> None:
    script = """
        import subprocess, time
        open("pid", "w").write(f"{subprocess.Popen(['sleep', '600']).pid}\\n")
        time.sleep(600)
    """
    written(tmp_path, {"step.py": script})
    command = [sys.executable, "-m", "compiler_lens", "fix", "step.py"]
    started = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, preexec_fn=_hears)  # noqa: PLW1509
    pid, patience = tmp_path / "pid", time.monotonic() + 120
    while not (pid.exists() and pid.read_text().endswith("\n")):
        assert time.monotonic() < patience
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    assert started.communicate(timeout=60)[1] == b"running the program as it is\n"
    assert started.returncode == 130
    status = Path("/proc", pid.read_text().strip(), "status")
    assert not status.exists() or "zombie" in status.read_text()


@pytest.mark.long
def test_a_change_that_makes_the_program_endless_is_ended_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not after the time that the longest of programs may take."""
    monkeypatch.setattr("compiler_lens.measure.fix.trials._AT_LEAST", 2.0)
    program = """
        import time
        import torch

        def f(x):
            x = x * 2
            print("so far")
            return x + 1

        while "is_compiling" in f.__code__.co_names:
            time.sleep(0.1)
        torch.compile(f, backend="eager")(torch.ones(2))
        """
    written(tmp_path, {"endless.py": program})
    monkeypatch.chdir(tmp_path)
    found, _ = fixed(capsys, "endless.py")
    errors = [one["error"] for one in found["tried"] if one.get("error")]
    assert errors
    seconds = [float(error.removeprefix("not done after ").removesuffix(" s")) for error in errors]
    assert max(seconds) < 300


SLOW = """
    import os
    import time

    import torch


    @torch.compile
    def step(x):
        if x.sum() > 0:
            x = x * 2
        return x


    for sign in (1, -1):
        print(step(sign * torch.ones(3)))
    time.sleep(float(os.environ.get("SLOW", "0")))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_what_is_ended_shows_what_helped_by_then(tmp_path: Path, how: signal.Signals) -> None:
    written(tmp_path, {"train.py": SLOW})
    command = [sys.executable, "-m", "compiler_lens", "fix", "train.py"]
    home = str(Path(compiler_lens.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([home, os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=_hears,  # noqa: PLW1509
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stderr
        for said in process.stderr:
            if ": change" in said and "without torch.compile" in said:  # it is known to help by now
                process.send_signal(how)
                break
        shown = process.stdout.read()
        assert process.wait() == 130
    assert "It was ended before all was tried" in shown
    assert "+    x = torch.where(x.sum() > 0, x * 2, x)" in shown
    assert "Not tried yet: other inputs" in shown


def test_a_time_for_all_runs_ends_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {"train.py": SLOW})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOW", "600")
    assert main(["fix", "--within", "3", "train.py"]) == 2
    assert "not done within 3 s: give it longer" in capsys.readouterr().err


NUMPY = """\
    import numpy as np
    import torch
    from torch import nn

    torch.manual_seed(0)
    np.random.seed(0)
    net = nn.Linear(4, 4)

    def noise(x):
        scale = np.random.rand(1).item()
        return x * scale

    def step(x):
        y = net(x).tanh().sin()
        return noise(y).cos().exp()

    compiled = torch.compile(step, backend="eager")
    for _ in range(4):
        print(round(compiled(torch.ones(2, 4)).sum().item(), 4))
    """


def test_what_draws_numpys_numbers_is_compared_with_what_it_does_without_compiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dynamo draws them by torch's generator: what leaves them to Python gives other results than the program as it is."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(NUMPY))
    assert main(["fix", "--own-inputs", "--patch", "x.patch", "train.py"]) == 0
    shown = " ".join(capsys.readouterr()[0].split())
    assert "Compiled code draws what the program asks NumPy for by torch's generator" in shown
    assert "with the same results" in shown
    done = subprocess.run(["patch", "-p0", "-i", "x.patch"], capture_output=True, text=True, check=True)
    assert "train.py" in done.stdout
    numbers = [
        subprocess.run(
            [sys.executable, "train.py"], capture_output=True, text=True, check=True,
            env={**os.environ, "TORCH_COMPILE_DISABLE": is_off},
        ).stdout
        for is_off in ("0", "1")
    ]  # fmt: skip
    assert numbers[0] == numbers[1]
