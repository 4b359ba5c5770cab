"""Modes measured on a real program: the rows, what fails in them, and that everything is afterwards as it was."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

import compiler_lens
from compiler_lens import Modes, Phase, UsageError, compare_modes
from compiler_lens.facts.measured.modes import Row, compiled_of
from compiler_lens.measure.modes.compare import differences, file_name, with_sameness

QUICK = {"seconds": 0.05}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Threads that wait for one another on a busy machine take longer than all the rest."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Net(nn.Module):
    """Has what a call may change: a parameter's gradient, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, 8))
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return (torch.relu(x) * self.weight).sum(-1)


def of_state(net: Net) -> list[object]:
    """What must not change."""
    return [net.weight.tolist(), net.weight.grad, net.mean.tolist(), net.weight.dtype, net.mean._version]


def test_rows_are_measured_and_nothing_else_changes(tmp_path: Path) -> None:
    net, x = Net(), torch.linspace(-2, 3, 32).reshape(4, 8)
    other = compiler_lens.Lens(progress=False, strict=True)
    torch.manual_seed(7)
    config = torch._inductor.config.get_config_copy()
    before = of_state(net), torch.get_rng_state().tolist(), random.getstate(), x.tolist(), torch.is_grad_enabled()
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR"), os.environ.get("TRITON_CACHE_DIR")
    told: list[str] = []
    with other:
        result = compare_modes(
            net, x, modes=("eager", "default"), options={"tuned, all": {"mode": "max-autotune", "epilogue_fusion": True}},
            folder=tmp_path / "a" / "b", each=lambda _, name: told.append(name), **QUICK,
        )  # fmt: skip
        assert not other.recording.compilations, "another lens heard of it"
    after = of_state(net), torch.get_rng_state().tolist(), random.getstate(), x.tolist(), torch.is_grad_enabled()
    assert after == before
    assert (os.environ.get("TORCHINDUCTOR_CACHE_DIR"), os.environ.get("TRITON_CACHE_DIR")) == folder
    assert torch._inductor.config.get_config_copy() == config
    assert torch.get_default_dtype() == torch.float32

    assert [row.name for row in result.rows] == ["eager", "default", "tuned, all"]
    assert not any(row.failure for row in result.rows)
    assert told == [name for order in result.orders for name in order]
    assert all(sorted(order) == sorted(row.name for row in result.rows) for order in result.orders)
    eager, default, tuned = result.rows
    assert all(len(row.timings[0].passes) == 2 for row in result.rows)
    assert eager.compiled is None
    assert default.compiled is not None
    assert (default.compiled.graphs, default.compiled.breaks, default.compiled.kernels) == (1, 0, 1)
    assert default.cold_seconds
    assert default.warm_seconds is not None
    assert tuned.arguments == {"mode": "max-autotune", "epilogue_fusion": "True"}
    assert result.reference == "fp64"
    for row in result.rows:
        assert row.deviation is not None
        assert row.deviation.relative < 1e-6
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["default.clens", "tuned_all.clens"]
    assert len(compiler_lens.load(tmp_path / "a" / "b" / "default.clens").kernels) == 1
    assert result.diffs["tuned, all"].same_kernels
    assert "all identical" in result.report(width=80, color=False)
    assert Modes.from_json(result.to_json()).report(width=80) == result.report(width=80)


def test_what_was_compiled_once_is_found_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    build = torch._inductor.cpp_builder.CppBuilder.build
    monkeypatch.setattr(
        torch._inductor.cpp_builder.CppBuilder, "build", lambda self: (built.append(self), build(self))[1]
    )
    after: list[int] = []
    x = torch.linspace(-2, 3, 32).reshape(4, 8)
    result = compare_modes(Net(), x, modes="default", each=lambda *_: after.append(len(built)), **QUICK)
    assert len(after) == len(result.orders) == 2
    assert after[0] > 0
    assert after[1] == after[0]


def test_a_training_step_is_timed_and_its_gradients_compared() -> None:
    net, x = Net(), torch.linspace(-2, 3, 32).reshape(4, 8)
    result = compare_modes(net, x, modes=("eager", "default"), training=True, **QUICK)
    assert result.phases == ("step",)
    assert result.training
    default = result.row("default")
    assert default is not None
    assert not default.failure
    assert default.compiled is not None
    assert default.compiled.graphs == 2, "there is no backward"
    assert default.deviation is not None
    assert default.deviation.relative < 1e-6
    assert net.weight.grad is None


def only_eager(x: torch.Tensor) -> torch.Tensor:
    if torch.compiler.is_compiling():
        raise MemoryError("no room here")
    return x.sin()


def test_a_row_that_fails_is_a_row() -> None:
    def run(model: object) -> torch.Tensor:
        if model is only_eager:
            return only_eager(torch.ones(3))
        raise torch.OutOfMemoryError("no room for 20 GiB\nand more lines")  # the line that must be found

    result = compare_modes(only_eager, phases=[Phase("call", run)], modes=("default", "eager"), **QUICK)
    default = result.row("default")
    assert default is not None
    assert default.failure == "OutOfMemoryError: no room for 20 GiB"
    assert default.failure_line is not None
    assert "the line that must be found" in default.failure_line.code
    assert default.seconds is None
    assert result.eager is not None
    assert result.eager.seconds
    assert result.report(width=80, color=False).count("no room for 20 GiB") == 1


def test_what_the_compiler_says_comes_without_its_wrapping(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("this compiler is broken")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", broken)
    result = compare_modes(torch.sin, torch.ones(3), modes=("eager", "default"), **QUICK)
    default = result.row("default")
    assert default is not None
    assert default.failure == "RuntimeError: this compiler is broken"


@pytest.mark.parametrize("kind", [RuntimeError, TypeError])
def test_an_op_that_fails_on_fake_tensors_gives_its_own_reason(kind: type[Exception]) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise kind("there is no such shape\nand more lines")

    with torch.library._scoped_library("compiler_lens_tests", "FRAGMENT") as library:
        library.define("broken(Tensor x) -> Tensor")
        library.impl("broken", torch.sin, "CPU")
        torch.library.register_fake("compiler_lens_tests::broken", broken, lib=library)
        result = compare_modes(torch.ops.compiler_lens_tests.broken, torch.ones(3), modes=("eager", "default"), **QUICK)
    default = result.row("default")
    assert default is not None
    assert default.failure == f"{kind.__name__}: there is no such shape"


def test_phases_are_timed_apart() -> None:
    seen: list[str] = []

    def phase(name: str, result: torch.Tensor) -> Phase:
        def run(_model: object) -> torch.Tensor:
            seen.append(name)
            return result

        return Phase(name, run, tokens=16)

    result = compare_modes(
        torch.sin, phases=(phase("prefill", torch.ones(2)), phase("decode", torch.ones(3, dtype=torch.long))),
        modes="eager", **QUICK,
    )  # fmt: skip
    assert result.phases == ("prefill", "decode")
    assert result.eager is not None
    assert [timing.tokens for timing in result.eager.timings] == [16, 16]
    assert not seen, "a list of the user's was left changed"


@dataclass
class Out:
    """What a program returns, and torch takes for one value."""

    inner: object


def test_results_in_dataclasses_are_compared() -> None:
    net, x = nn.Linear(3, 3), torch.ones(2, 3)
    result = compare_modes(lambda x: Out({"y": Out(net(x))}), x, modes="eager", training=True, **QUICK)
    assert result.reference == "fp64"
    assert result.rows[0].deviation is not None
    assert result.rows[0].deviation.relative < 1e-5


def test_the_error_is_the_largest_of_all_calls() -> None:
    """Not that of the last one: its results are exact."""
    calls = [((torch.full((4,), 1e-9),), {}), ((torch.ones(4),), {})]
    for given in (calls, calls[::-1]):
        result = compare_modes(lambda x: (x + 1) - 1, calls=given, modes="eager", **QUICK)
        assert result.rows[0].deviation is not None
        assert result.rows[0].deviation.relative == 1.0
    exact = compare_modes(lambda x: (x + 1) - 1, calls=calls[1:], modes="eager", **QUICK)
    assert exact.rows[0].deviation is not None
    assert exact.rows[0].deviation.relative == 0.0


def cast(x: torch.Tensor) -> torch.Tensor:
    return (x.to(torch.bfloat16) @ x.to(torch.bfloat16)).float() @ torch.eye(16, dtype=torch.float32)


def test_the_reference_is_in_doubles_though_the_program_casts() -> None:
    """Else eager would have no error, and all that rounds elsewhere would be called wrong."""
    result = compare_modes(cast, torch.linspace(-1, 1, 256).reshape(16, 16), modes="eager", **QUICK)
    assert result.reference == "fp64"
    assert result.rows[0].deviation is not None
    assert 1e-4 < result.rows[0].deviation.relative < 1e-1


class Views(nn.Module):
    """Writes into a buffer, and reads what it wrote through another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 4))
        self.second = self.rows[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows[1] += x
        return self.second * 1.0


def test_tensors_that_share_memory_share_it_in_doubles() -> None:
    views = Views()
    result = compare_modes(views, torch.ones(4) / 3, modes="eager", **QUICK)
    assert result.reference == "fp64"
    assert result.rows[0].deviation is not None
    assert result.rows[0].deviation.relative < 1e-6
    assert views.second.data_ptr() == views.rows[1].data_ptr()
    assert views.rows.dtype == torch.float32


def test_a_program_that_draws_numbers_is_not_compared() -> None:
    result = compare_modes(torch.nn.Dropout(0.5), torch.ones(64), modes="eager", **QUICK)
    assert result.reference == ""
    assert any("draws random numbers" in note for note in result.notes)


def test_a_program_that_does_not_run_in_fp64_is_compared_with_eager() -> None:
    def strict(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise TypeError("floats only")
        return x @ x

    x = torch.rand(3, 3)
    result = compare_modes(strict, x, modes="eager", **QUICK)
    assert result.reference == "eager"
    assert any("does not run in fp64" in note for note in result.notes)
    assert x.dtype == torch.float32


def test_a_function_with_a_backward_of_its_own_gets_gradients() -> None:
    weight = torch.ones(3, requires_grad=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = (weight * x).sum()
        loss.backward()
        return loss.detach()

    result = compare_modes(step, torch.ones(3), modes="eager", **QUICK)
    assert result.eager is not None
    assert result.eager.seconds
    assert weight.grad is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"modes": ("eager", "fastest")}, "torch.compile has no mode fastest"),
        ({"modes": ()}, "nothing to measure"),
        ({"options": {"a": {"max_autotun": True}}}, "did you mean max_autotune?"),
        ({"options": {"default": {"max_autotune": True}}}, "two rows are named default"),
        ({"phases": [Phase("a", torch.sin)]}, "give either inputs or phases"),
    ],
)
def test_what_cannot_be_meant_is_one_line(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compare_modes(torch.sin, torch.ones(3), **arguments)


@pytest.mark.parametrize("phases", [3, [3], [], [Phase("a", torch.sin), Phase("a", torch.cos)]])
def test_phases_that_cannot_be_meant_are_one_line(phases: object) -> None:
    with pytest.raises(UsageError, match="phases"):
        compare_modes(torch.sin, phases=phases)


def counted(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
    seen.append(0)
    return x.sin() + len(seen)


@pytest.mark.long
def test_a_program_that_never_comes_to_rest_is_said_not_to() -> None:
    seen: list[int] = []
    result = compare_modes(counted, torch.ones(3), seen, modes=("eager", "default"), **QUICK)
    default = result.row("default")
    assert default is not None
    assert default.compiled is not None
    assert default.compiled.late
    assert "still compiling in timed calls" in result.report(width=80, color=False)
    assert not seen


def test_eager_is_eager_though_parts_are_compiled() -> None:
    """`Module.compile` leaves no wrapper that could be taken off."""
    ran: list[str] = []

    def backend(module: torch.fx.GraphModule, _: object) -> object:
        ran.append("compiled")
        return module.forward

    net = Net()
    net.compile(backend=backend)
    result = compare_modes(net, torch.ones(2, 8), modes="eager", **QUICK)
    assert result.row("eager") is not None
    assert not ran
    net(torch.ones(2, 8))
    assert ran


def test_a_model_that_fails_as_it_is_is_said_to() -> None:
    with pytest.raises(UsageError, match=r"fails without torch\.compile, too"):
        compare_modes(nn.Linear(2, 2), torch.ones(3), modes="eager", **QUICK)


@pytest.mark.parametrize(("name", "file"), [("a/../b", "a_.._b"), ("..", "row"), ("max-autotune", "max-autotune")])
def test_a_rows_name_as_a_file_stays_in_its_folder(name: str, file: str) -> None:
    assert file_name(name) == file


def test_rows_with_the_very_kernels_of_default_are_marked() -> None:
    """Two recordings of the same kernels, one of them replayed as a CUDA graph."""
    data = Path(__file__).parent.parent / "gpu" / "data"
    made = {
        name: compiler_lens.load(data / f"resnet-{name}-profiled.clens.gz") for name in ("default", "reduce-overhead")
    }
    made["max-autotune"] = made["default"]
    diffs = differences(made)
    assert diffs["reduce-overhead"].same_kernels
    rows = with_sameness([Row(name, compiled=compiled_of(one)) for name, one in made.items()], diffs)
    assert [row.name for row in rows if row.compiled and row.compiled.same_as_default] == ["max-autotune"]
    assert with_sameness([Row("failed")], diffs) == (Row("failed"),)
