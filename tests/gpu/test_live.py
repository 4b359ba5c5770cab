"""On a GPU: `pytest -m gpu tests/gpu`."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_results_on_a_gpu_are_those_of_inductor(mode: str, tmp_path: Path) -> None:
    import compiler_lens

    def work(backend: object) -> torch.Tensor:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).cuda()
        compiled = torch.compile(model, backend=backend, mode=mode)
        x = torch.randn(32, 64, device="cuda")
        for _ in range(3):
            torch.compiler.cudagraph_mark_step_begin()
            model.zero_grad()
            compiled(x).square().sum().backward()
        return torch.cat([p.grad.flatten().clone() for p in model.parameters()])

    expected = work("inductor")
    lens = compiler_lens.Lens(tmp_path / "r.clens", strict=True)
    try:
        assert torch.equal(work(lens), expected)
        recording = lens.recording
    finally:
        lens.close()

    assert any(kernel.kind.value == "triton" for kernel in recording.kernels)
    states = {outcome.state.value for outcome in recording.cudagraphs}
    assert states == ({"not_requested"} if mode == "default" else {"captured"})
