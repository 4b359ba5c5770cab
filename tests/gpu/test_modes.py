"""Modes on a GPU: graphs recorded and counted, memory, and nothing left behind. `pytest -m gpu tests/gpu`."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_rows_on_a_gpu() -> None:
    from compiler_lens import compare_modes

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).cuda()
    x = torch.randn(32, 64, device="cuda")
    compare_modes(model, x, modes="eager", seconds=0.05)  # what a process allocates once
    before = torch.cuda.memory_allocated(), torch.cuda.get_rng_state().tolist()
    result = compare_modes(model, x, modes=("eager", "default", "reduce-overhead"), seconds=0.2)
    assert (torch.cuda.memory_allocated(), torch.cuda.get_rng_state().tolist()) == before

    rows = {row.name: row for row in result.rows}
    assert not any(row.failure for row in rows.values())
    assert all(row.peak_bytes is not None and row.peak_bytes >= 0 for row in rows.values())
    assert rows["default"].compiled.captured == 0
    assert rows["reduce-overhead"].compiled.captured == 1
    assert all(row.deviation.relative < 1e-2 for row in rows.values())
    assert torch.cuda.get_device_name() in result.report(width=120, color=False)


def test_a_training_step_on_a_gpu() -> None:
    from compiler_lens import compare_modes

    model = torch.nn.Linear(32, 32).cuda()
    x = torch.randn(8, 32, device="cuda")
    result = compare_modes(model, x, modes=("eager", "reduce-overhead"), training=True, seconds=0.1)
    row = result.row("reduce-overhead")
    assert not row.failure
    assert row.compiled.captured == 2
    assert model.weight.grad is None


def test_an_output_that_was_written_over_is_a_row() -> None:
    from compiler_lens import Phase, compare_modes

    model = torch.nn.Linear(32, 32).cuda()
    x = torch.randn(8, 32, device="cuda")

    def run(compiled: object) -> object:
        first = compiled(x)
        torch.compiler.cudagraph_mark_step_begin()
        second = compiled(x)
        return first + second  # the first is gone

    result = compare_modes(model, phases=(Phase("pair", run),), modes=("reduce-overhead", "eager"), seconds=0.1)
    row = result.row("reduce-overhead")
    assert "overwritten by a subsequent run" in row.failure
    assert row.failure_line is not None
    assert "the first is gone" in row.failure_line.code
    assert result.row("eager").seconds


def test_no_room_is_a_row() -> None:
    from compiler_lens import Phase, compare_modes

    def hungry(x: "torch.Tensor") -> "torch.Tensor":
        return x.sin()

    def run(model: object) -> object:
        if model is not hungry:
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        return model(torch.ones(8, device="cuda"))

    result = compare_modes(hungry, phases=(Phase("call", run),), modes=("default", "eager"), seconds=0.1)
    assert result.row("default").failure.startswith("OutOfMemoryError")
    assert result.row("eager").seconds
