"""Recordings made on an H200 with torch 2.11 and triton 3.6, read where there is no GPU."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from compiler_lens import load
from compiler_lens.recording.model import CudagraphState, Direction, GraphStage, Kernel, KernelKind, Recording, Trust

DATA = Path(__file__).parent / "data"
JOURNALS = sorted(path.name.removesuffix(".clens.gz") for path in DATA.glob("*.clens.gz"))


@cache
def recording(name: str) -> Recording:
    return load(DATA / f"{name}.clens.gz", strict=True)


def timed(kernel: Kernel) -> dict[str, float]:
    return {str(c.values): c.milliseconds for c in kernel.configs if c.milliseconds is not None}


@pytest.mark.parametrize("name", JOURNALS)
def test_everything_is_read(name: str) -> None:
    found = recording(name)

    assert not found.problems
    assert found.environment.device == "NVIDIA H200"
    assert all(c.mode == name.split("-", 1)[1].rpartition("-")[0] for c in found.compilations)
    assert not found.unavailable
    assert all(graph.origins is Trust.EXACT for graph in found.graphs)


@pytest.mark.parametrize("name", JOURNALS)
def test_every_triton_kernel_has_source_nodes_launches_and_configs(name: str) -> None:
    kernels = [k for k in recording(name).kernels if k.kind in (KernelKind.TRITON, KernelKind.TEMPLATE)]

    assert kernels
    for kernel in kernels:
        assert "def " in kernel.source, kernel.name
        assert kernel.trust is Trust.EXACT, kernel.name
        assert kernel.nodes, kernel.name
        assert kernel.launches, kernel.name
        assert kernel.configs, kernel.name


@pytest.mark.parametrize("name", [n for n in JOURNALS if n.startswith("gpt")])
def test_one_config_of_each_tuned_kernel_is_the_chosen_one(name: str) -> None:
    for kernel in recording(name).kernels:
        if kernel.configs:
            assert sum(config.chosen for config in kernel.configs) == 1, kernel.name


def test_kernels_name_nodes_of_their_own_graph() -> None:
    found = recording("gpt-max-autotune-cold")
    stages = {Direction.FORWARD: GraphStage.POST_GRAD, Direction.BACKWARD: GraphStage.POST_GRAD_BACKWARD}
    names = {graph.stage: {node.name for node in graph.nodes} for graph in found.graphs}

    for kernel in found.kernels:
        assert set(kernel.nodes) <= names[stages[kernel.direction]], kernel.name


def test_autotuning_tells_every_choice_of_every_matmul() -> None:
    found = recording("gpt-max-autotune-cold")

    assert len(found.autotunes) == 12
    assert sum(len(result.choices) for result in found.autotunes) == 252
    for result in found.autotunes:
        assert result.winner is not None
        times = [c.milliseconds for c in result.choices if c.milliseconds is not None]
        assert times == sorted(times)
        assert result.margin is None or result.margin >= 1
        assert result.seconds is not None
    failed = [c for result in found.autotunes for c in result.choices if c.milliseconds is None]
    assert failed, "a template that needs more shared memory than there is stays in the table, without a time"


def test_convolutions_are_tuned_too() -> None:
    assert {result.op for result in recording("resnet-max-autotune-cold").autotunes} >= {"convolution"}


def test_a_warm_run_tells_what_the_cold_run_told() -> None:
    cold, warm = recording("gpt-max-autotune-cold"), recording("gpt-max-autotune-warm")

    assert Counter(c.result.value for c in warm.caches) == {"hit": len(warm.caches)}
    assert [(k.name, k.nodes, k.source) for k in warm.kernels] == [(k.name, k.nodes, k.source) for k in cold.kernels]
    # Coordinate descent starts anew in each process, and may end elsewhere: the timed configs are those of the cache.
    assert [timed(k) for k in warm.kernels] == [timed(k) for k in cold.kernels]
    assert [(a.op, a.choices) for a in warm.autotunes] == [(a.op, a.choices) for a in cold.autotunes]
    assert [(g.stage, g.nodes) for g in warm.graphs] == [(g.stage, g.nodes) for g in cold.graphs]


def test_cuda_graphs_of_each_mode() -> None:
    states = {
        name: [outcome.state for outcome in recording(f"gpt-{name}-cold").cudagraphs]
        for name in ("default", "reduce-overhead", "max-autotune")
    }

    assert states == {
        "default": [CudagraphState.NOT_REQUESTED] * 2,
        "reduce-overhead": [CudagraphState.CAPTURED] * 2,
        "max-autotune": [CudagraphState.CAPTURED] * 2,
    }


@pytest.mark.parametrize("state", ["cold", "warm"])
def test_why_cuda_graphs_take_less_than_all(state: str) -> None:
    found = {outcome.compile_id.frame: outcome for outcome in recording(f"oddities-reduce-overhead-{state}").cudagraphs}

    assert found[0].state is CudagraphState.PARTITIONED
    assert "cpp_fused" in found[0].reason
    assert found[1].state is CudagraphState.SKIPPED
    assert "mutated inputs" in found[1].reason
    assert found[1].user_stack[-1].code == "x.add_(1)"
    assert found[2].state is found[3].state is CudagraphState.CAPTURED


def test_the_backward_is_known_by_what_it_differentiates() -> None:
    found = recording("gpt-default-cold")
    backward = next(graph for graph in found.graphs if graph.stage is GraphStage.AOT_BACKWARD)
    forward = next(graph for graph in found.graphs if graph.stage is GraphStage.AOT_FORWARD)

    assert sum(bool(node.origins) for node in backward.ops) / len(backward.ops) > 0.9
    assert any(tensor.bytes and not tensor.is_input for tensor in forward.saved)


@pytest.mark.parametrize("name", ["gpt-max-autotune-cold", "resnet-max-autotune-cold"])
def test_a_log_of_torchs_own_tells_the_same_kernels(name: str) -> None:
    ours, theirs = recording(name), load(DATA / f"{name}.trace.log.gz", strict=True)

    assert [(k.name, k.kind, k.source, len(k.launches)) for k in theirs.kernels] == [
        (k.name, k.kind, k.source, len(k.launches)) for k in ours.kernels
    ]
    assert [(g.stage, len(g.nodes)) for g in theirs.graphs] == [(g.stage, len(g.nodes)) for g in ours.graphs]
