"""Profiles of real calls on a CPU: what is measured, what is left as it was, what is refused."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from programs import by_size
from torch import nn

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.cli import measure as cli_measure
from compiler_lens.measure.profile import profiler, record
from compiler_lens.measure.profile import run as runs
from compiler_lens.measure.profile.ceilings import best_of, device_name, product_notes
from compiler_lens.measure.profile.profiler import kernels_named, traced
from compiler_lens.measure.profile.run import Run, Timed, timed_calls, wait_notes
from compiler_lens.measure.program import Call, Program
from compiler_lens.measure.sandbox.restoring import restoring_state
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Ceilings, Direction, KernelKind, ProfileNote, Recording, Remark, Trust
from compiler_lens.render.results import Profiled

Write = Callable[[str], Path]
CPU = torch.device("cpu")
SHORT = Ceilings("a CPU", 1e10, {"f32": 1e11}, 1.0)


@pytest.fixture
def _no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds to measure."""
    monkeypatch.setattr(record, "measure_ceilings", lambda device, dtypes: SHORT)


class Net(nn.Module):
    """Whatever a call may change: running statistics, a count, random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 16)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("in the model")
        return self.down(nn.functional.dropout(self.norm(self.up(x)).relu(), 0.5))


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profiled, Path]:
    """One model with C++ kernels, forward and backward; the journal of it."""
    path = tmp_path_factory.mktemp("profile") / "run.clens"
    torch.manual_seed(0)
    model, x = Net(), torch.randn(8, 16)
    model(x).sum().backward()
    before = snapshot(model, x)
    with torch.enable_grad(), compiler_lens.Lens(path, strict=True, progress=False) as lens:
        result = lens.profile(model, x, training=True, repeats=3)
        assert compare(before, snapshot(model, x)) == []
        assert lens.recording.profiles == result.recording.profiles
        return result, path


def remarks(result: Profiled) -> set[Remark]:
    return {note.remark for note in result.profile.notes}


def snapshot(model: nn.Module, x: torch.Tensor) -> dict[str, object]:
    tensors = {name: t.detach().clone() for name, t in [*model.named_parameters(), *model.named_buffers()]}
    grads = {f"{name}.grad": p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    owners = {f"{name}.grad is": id(p.grad) for name, p in model.named_parameters()}
    return {
        **tensors, **grads, **owners, "x": x.clone(), "random": torch.get_rng_state(), "grad": torch.is_grad_enabled(),
        "profiler": torch.autograd._profiler_enabled(), "attributes": sorted(vars(model)),
        "counters": {name: dict(counts) for name, counts in torch._dynamo.utils.counters.items()},
        "versions": [p._version for p in model.parameters()],
    }  # fmt: skip


def compare(before: dict[str, object], after: dict[str, object]) -> list[str]:
    same = {
        name: torch.equal(value, after[name]) if isinstance(value, torch.Tensor) else value == after[name]
        for name, value in before.items()
    }
    return [name for name, is_same in same.items() if not is_same]


def test_every_launch_has_a_time(profiled: tuple[Profiled, Path]) -> None:
    result, _ = profiled
    found = result.profile
    launches = {(k.direction, k.name, i) for k in result.recording.kernels for i in range(len(k.launches))}
    assert {(t.direction, t.kernel, t.launch) for t in found.launches} == launches
    assert {k.kind for k in result.recording.kernels} >= {KernelKind.CPP, KernelKind.EXTERN}
    assert all(t.microseconds > 0 and t.runs == 1 and t.trust is Trust.EXACT for t in found.launches)


def test_the_call_is_measured_without_the_profiler(profiled: tuple[Profiled, Path]) -> None:
    found = profiled[0].profile
    assert found.calls == 3
    assert found.training
    assert found.timer == "torch.profiler"
    assert found.microseconds > 0
    assert found.busy_microseconds > 0
    assert remarks(profiled[0]) >= {Remark.LOSS_ADDED, Remark.TIMING_COST}
    assert "aten::sum" in {other.name for other in found.others}


def test_calls_that_wait_for_a_processor_are_made_again_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of a busy machine wait for each other: all calls take a thousand times as long, each alike."""
    rounds = iter(
        [Timed([0.15] * 5, [0.25] * 5), Timed([0.12] * 5, [0.25, 0.25, 0.25, 1.0, 1.0]), Timed([0.13] * 5, [0.1] * 5)]
    )
    monkeypatch.setattr(runs, "_PAUSE", 0.0)
    monkeypatch.setattr(runs, "_watched", lambda *_: next(rounds))
    found = timed_calls(lambda: None, 5, CPU)
    assert found.seconds == [0.12] * 5, "the quietest of three"
    assert not list(rounds)
    assert list(wait_notes(found, found.seconds)) == [ProfileNote(Remark.KEPT_WAITING, number=0.25)]
    quiet, uneven = Timed([7e-5] * 5, [1.0] * 5), Timed([7e-5, *[0.15] * 4], [1.0] * 5)
    monkeypatch.setattr(runs, "_watched", lambda *_: quiet)
    assert timed_calls(lambda: None, 5, CPU) is quiet
    assert not list(wait_notes(quiet, quiet.seconds))
    rounds = iter([uneven, quiet])
    monkeypatch.setattr(runs, "_watched", lambda *_: next(rounds))
    assert timed_calls(lambda: None, 5, CPU) is quiet
    assert {note.remark for note in wait_notes(uneven, uneven.seconds)} == {Remark.UNEVEN}


def test_a_call_that_sleeps_does_not_wait_for_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who was taken off it does: what a program waits for by itself is its own time."""
    monkeypatch.setattr(runs, "_switches", lambda: 0)
    assert not runs._watched(lambda: runs.time.sleep(0.001), 3).is_held_up
    taken_off = iter(range(9))
    monkeypatch.setattr(runs, "_switches", lambda: next(taken_off))
    assert runs._watched(lambda: runs.time.sleep(0.01), 3).is_held_up


def test_a_cpu_with_one_thread_has_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, told in ((1, "1 thread"), (2, "2 threads")):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=count: count)
        assert device_name(torch.device("cpu")).endswith(f", {told}")


def test_ceilings_are_of_the_types_that_are_multiplied(profiled: tuple[Profiled, Path]) -> None:
    ceilings = profiled[0].profile.ceilings
    assert set(ceilings.flops_per_second) == {"f32"}
    assert ceilings.bytes_per_second
    assert ceilings.launch_microseconds
    assert ceilings.device


def test_the_journal_holds_the_profile(profiled: tuple[Profiled, Path]) -> None:
    result, path = profiled
    loaded = compiler_lens.load(path, strict=True)
    assert loaded.profiles == (result.profile,)
    assert not loaded.problems


def test_no_kernel_stays_wrapped(profiled: tuple[Profiled, Path]) -> None:
    from torch._inductor.codecache import PyCodeCache

    held = [value for module in PyCodeCache.modules for value in vars(module).values()]
    assert held
    assert not any(isinstance(value, profiler._Named) for value in held)


def test_kernels_are_unwrapped_after_an_error_too(profiled: tuple[Profiled, Path]) -> None:
    recording = profiled[0].recording
    with kernels_named(recording.output_codes, recording.kernels) as found:
        assert found == sum(k.kind is KernelKind.CPP for k in recording.kernels)
    with pytest.raises(ZeroDivisionError), kernels_named(recording.output_codes, recording.kernels):
        _ = 1 / 0
    test_no_kernel_stays_wrapped(profiled)


def test_it_prints_and_goes_to_json(profiled: tuple[Profiled, Path], capsys: pytest.CaptureFixture[str]) -> None:
    result, path = profiled
    text = result.report(width=80, color=False)
    assert any(told.startswith("Profile  ") for told in text.splitlines()[:6])  # after what speaks against it
    assert all(len(line) <= 80 for line in text.splitlines() if "compiler-lens show" not in line)
    assert main(["show", str(path), "profile", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(result.to_json())
    assert len([row for kernel in shown["profile"]["kernels"] for row in kernel["launches"]]) == len(
        result.profile.launches
    )


@pytest.mark.usefixtures("_no_ceilings")
def test_a_model_that_is_compiled_is_used_as_it_is() -> None:
    model, x = Head(), torch.randn(2, 8)
    with torch.no_grad(), compiler_lens.Lens(strict=True, progress=False) as lens:
        compiled = torch.compile(model, backend=lens)
        compiled(x)
        result = lens.profile(compiled, x, repeats=3)
        assert len(result.recording.compilations) == 1
        assert [t.runs for t in result.profile.launches] == [1.0]
        inner = Head()
        inner.compile(backend=lens)
        lens.profile(lambda x: inner(x) + 0, x, repeats=3)  # what it reaches is compiled
        recording = lens.recording
        assert not any("lambda" in c.function for c in recording.compilations)
        assert len(recording.profiles) == 2
        assert "aten::add" in {other.name for other in recording.profiles[1].others}


@pytest.mark.usefixtures("_no_ceilings")
def test_a_profile_leaves_no_compiled_code_that_counts_for_the_limit_of_recompiles() -> None:
    x = torch.randn(2, 8)
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=1):
        for _ in range(2):
            assert compiler_lens.profile(_product, x, repeats=1).profile.launches
        compiled: list[object] = []
        torch.compile(_product, backend=lambda module, _: compiled.append(module) or module.forward)(x)
        assert compiled


@pytest.mark.usefixtures("_no_ceilings")
def test_a_profile_leaves_what_torch_counts_and_has_learned_of_sizes() -> None:
    compiled = torch.compile(by_size, backend="eager")
    for size in (8, 4):
        compiled(torch.randn(size, 3))
    before = {name: dict(counts) for name, counts in torch._dynamo.utils.counters.items()}
    compiler_lens.profile(_product, torch.randn(2, 8), repeats=1)
    assert {name: dict(counts) for name, counts in torch._dynamo.utils.counters.items()} == before
    with compiler_lens.Lens(progress=False, strict=True) as lens:
        for size in (8, 4, 5):
            compiled(torch.randn(size, 3))
    assert len(lens.recording.compilations) == 1


@pytest.mark.usefixtures("_no_ceilings")
def test_of_several_calls_the_times_are_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Timed([1e-3, 1e-3, 1e-2] * 2)
    monkeypatch.setattr(record, "timed_calls", lambda *_: told)
    calls = [((torch.randn(2, 8),), {}), ((torch.randn(2, 8),), {}), ((torch.randn(2, 8).double(),), {})]
    with torch.no_grad():
        result = compiler_lens.profile(_product, calls=calls, repeats=2)
    assert result.profile.calls == 6
    assert result.profile.microseconds == pytest.approx(4000.0), "the mean of calls that differ"
    assert sum(time.runs for time in result.profile.launches) == pytest.approx(1.0)
    assert sorted(time.runs for time in result.profile.launches) == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.usefixtures("_no_ceilings")
def test_without_training_a_model_is_called_without_gradients_if_it_can_be() -> None:
    """What a forward keeps for a backward is no part of inference."""
    x = torch.randn(2, 8)
    result = compiler_lens.profile(Head(), x, repeats=1)
    assert {k.direction for k in result.recording.kernels} == {Direction.INFERENCE}
    assert Remark.NO_GRADIENTS in remarks(result)
    with compiler_lens.Lens(progress=False) as lens:
        found = lens.profile(Head(), x, repeats=1)
        assert {k.direction for k in found.recording.kernels} == {Direction.INFERENCE}

    def own_backward(x: torch.Tensor) -> torch.Tensor:
        loss = (x @ x.t()).sum()
        loss.backward()
        return loss

    needed = compiler_lens.profile(own_backward, x.clone().requires_grad_(), repeats=1)
    assert Remark.NO_GRADIENTS not in remarks(needed)


@pytest.mark.usefixtures("_no_ceilings")
def test_a_model_that_is_compiled_keeps_its_gradients() -> None:
    model, x = Head(), torch.randn(2, 8)
    with compiler_lens.Lens(progress=False) as lens:
        compiled = torch.compile(model, backend=lens)
        compiled(x)
        result = lens.profile(compiled, x, repeats=1)
    assert len(result.recording.compilations) == 1, "another grad mode compiles anew"
    assert Remark.NO_GRADIENTS not in remarks(result)


class Head(nn.Module):
    """A library's work alone: quickly compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def _product(x: torch.Tensor) -> torch.Tensor:
    return x.t() @ x


def test_nothing_of_it_is_imported_before_it_is_asked_for() -> None:
    import subprocess
    import sys

    code = "import sys, compiler_lens; compiler_lens.Lens(progress=False).close(); assert not [m for m in sys.modules if 'measure' in m and 'compiler_lens' in m]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_each_call_begins_without_gradients() -> None:
    """What CUDA graphs write is written over by the next replay: it must not be added to."""
    model, x = Head(), torch.randn(2, 8)
    with restoring_state(model, x) as kept:
        run = Run(Program(model, (Call((x,), {}),), training=True), kept)
        run()
        once = model.linear.weight.grad.clone()
        run()
        assert torch.equal(model.linear.weight.grad, once)
    assert model.linear.weight.grad is None


def test_products_in_less_precision_are_said() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        assert list(product_notes(("f32", "bf16"))) == [ProfileNote(Remark.LESS_PRECISION, "high")]
        assert not list(product_notes(("bf16",)))
        torch.set_float32_matmul_precision("highest")
        assert not list(product_notes(("f32",)))
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("runs", "best", "made"),
    [
        ([2.0, 2.1, 2.2, 1.0], 2.0, 3),
        ([9.0, 2.0, 2.1, 2.2, 1.0], 2.0, 4),
        ([2.0, 2.1, 9.0, 2.9, 2.2, 2.3, 1.0], 2.0, 6),
        ([2.0, *[9.0] * 11], 2.0, 10),  # busy all the time
    ],
)
def test_a_ceiling_is_measured_again_where_runs_disagree(runs: list[float], best: float, made: int) -> None:
    left = iter(runs)
    assert best_of(lambda: next(left)) == best
    assert len(list(left)) == len(runs) - made


# -- refused


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(UsageError, match="not int"):
        compiler_lens.profile(3)
    with compiler_lens.Lens(progress=False) as lens, pytest.raises(UsageError, match="not int"):
        lens.profile(3)


def test_a_module_without_shapes_is_refused() -> None:
    lazy, x = nn.Sequential(nn.LazyLinear(4)), torch.ones(2, 3)
    with pytest.raises(UsageError, match="lazy module"):
        compiler_lens.profile(lazy, x)
    with compiler_lens.Lens(progress=False) as lens:
        for model in (lazy, torch.compile(lazy, backend=lens)):
            with pytest.raises(UsageError, match="lazy module"):
                lens.profile(model, x)
    assert lazy[0].has_uninitialized_params()


def test_a_model_that_fails_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"cannot be called: .*shapes cannot be") as raised:
        compiler_lens.profile(nn.Linear(4, 4), torch.ones(2, 3))
    assert "\n" not in str(raised.value)


def test_nothing_compiled_is_no_profile() -> None:
    with pytest.raises(UsageError, match="nothing of the model was compiled"):
        compiler_lens.profile(lambda x: x.shape, torch.ones(3))
    other = torch.compile(_product, backend="eager")
    with compiler_lens.Lens(progress=False) as lens, pytest.raises(UsageError, match="backend=lens"):
        lens.profile(lambda x: other(x), torch.ones(2, 2))  # noqa: PLW0108 -- not compiled itself


def test_a_closed_lens_is_refused() -> None:
    lens = compiler_lens.Lens(progress=False)
    lens.close()
    with pytest.raises(UsageError, match="closed"):
        lens.profile(_product, torch.ones(2, 2))


def test_two_profilers_at_once_are_refused() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as theirs:
        with pytest.raises(UsageError, match="another profiler"):
            compiler_lens.profile(_product, torch.ones(2, 2))
        torch.ones(2) + 1
    assert "aten::add" in {event.name for event in theirs.events()}


def test_a_device_that_torch_cannot_trace_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.profiler, "supported_activities", lambda: {torch.profiler.ProfilerActivity.CPU})
    with pytest.raises(UsageError, match="cannot time work on mps"):
        traced(lambda: None, 1, torch.device("mps"))


def test_training_without_a_gradient_is_refused() -> None:
    with pytest.raises(UsageError, match="needs a gradient"):
        compiler_lens.profile(_product, torch.ones(2, 2), training=True)


def test_an_error_while_profiling_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("stop")

    model, x = nn.BatchNorm1d(4), torch.randn(3, 4)
    model.weight.grad = torch.ones(4)
    compiled = torch.compile(model, backend="eager")
    before = snapshot(model, x)
    monkeypatch.setattr(record, "warm_up", lambda lens, run: (run(), failing())[1])
    with compiler_lens.Lens(progress=False) as lens, pytest.raises(RuntimeError, match="stop"):
        lens.profile(compiled, x, training=True)
    assert compare(before, snapshot(model, x)) == []


def test_an_error_in_a_traced_call_stops_the_profiler() -> None:
    calls: list[int] = []

    def step() -> None:
        calls.append(1)
        if len(calls) > 2:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        traced(step, 3, CPU)
    assert not torch.autograd._profiler_enabled()
    assert traced(lambda: None, 1, CPU)


# -- the command


def test_the_command_does_not_log_for_other_tracers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    with cli_measure._quiet_profiler():
        assert os.environ["KINETO_LOG_LEVEL"] == "6"
    assert "KINETO_LOG_LEVEL" not in os.environ
    monkeypatch.setenv("KINETO_LOG_LEVEL", "1")
    with cli_measure._quiet_profiler():
        assert os.environ["KINETO_LOG_LEVEL"] == "1", "the user's own"


@pytest.mark.usefixtures("_no_ceilings")
def test_the_command(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "def make():\n    print('in the factory')\n    return nn.Linear(8, 4), torch.randn(2, 8)\n"
    out = tmp_path / "made.clens"
    assert main(["profile", f"{write(text)}:make", "-o", str(out), "--width", "80", "--no-color"]) == 0
    told, err = capsys.readouterr()
    assert "in the factory" in err
    assert "a call, median of" in told
    assert "addmm" in told
    recording: Recording = compiler_lens.load(out, strict=True)
    assert len(recording.profiles) == 1
    assert main(["profile", f"{write(text)}:make", "--json", "--training"]) == 0
    assert json.loads(capsys.readouterr().out)["profile"]["training"] is True


HEAD = "def make():\n    return nn.Linear(8, 4), torch.randn(2, 8)\n"


@pytest.mark.usefixtures("_no_ceilings")
def test_the_next_step_is_one_that_can_be_made(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a recording there is none to show; a library's call has no source."""
    assert main(["profile", f"{write(HEAD)}:make", "--repeats", "2", "--no-color"]) == 0
    told = capsys.readouterr().out
    assert "median of 2," in told
    assert "keep the recording: -o REC" in told
    assert "compiler-lens show" not in told
    text = "def make():\n    return lambda x: (x @ x).sin(), torch.randn(9, 9)\n"
    out = tmp_path / "made.clens"
    assert main(["profile", f"{write(text)}:make", "fused_sin_0", "-o", str(out), "--no-color"]) == 0
    told = capsys.readouterr().out
    assert f"compiler-lens show {out} kernel fused_sin_0" in told
    assert "\nfused_sin_0\n  1 kernel with 1 launch, " in told
    assert "  mm  " not in told


@pytest.mark.usefixtures("_no_ceilings")
def test_what_was_measured_is_shown_though_the_part_that_was_named_is_not_there(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", f"{write(HEAD)}:make", "layers.3", "--repeats", "2", "--no-color"]) == 2
    told, err = capsys.readouterr()
    assert "addmm" in told
    assert "no line, no module and no kernel 'layers.3'" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "/nowhere/made.clens"], "cannot write /nowhere/made.clens"),
        (["-o", "/proc/made.clens"], "cannot write /proc/made.clens"),
        (["-o", "made_model.py"], "made_model.py is there and is not a recording"),
        (["--mode", "max-autotun"], "torch.compile has no mode max-autotun: it has default, "),
        (["--repeats", "0"], "1 or more, not 0"),
    ],
)
def test_what_would_fail_at_the_end_fails_at_once(
    words: list[str], said: str, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(HEAD)
    monkeypatch.chdir(path.parent)
    before = path.read_bytes()
    assert main(["profile", f"{path}:make", *words]) != 0
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("def make():\n    return 3", "make", "returned int: it must return (model, args)"),
        ("def make(): pass", "", "compiler-lens profile "),
        ("def make():\n    return nn.Linear(2, 2), torch.ones(1, 3)", "make", "the model cannot be called"),
    ],
)
def test_the_commands_refusals(
    text: str, name: str, said: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", f"{write(text)}:{name}"]) == 2
    assert said in capsys.readouterr().err
