"""Twelve equal layers, really compiled: every launch belongs to its layer, forward and backward."""

from collections import Counter
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import compiler_lens  # noqa: E402
from compiler_lens.facts.kernels.lineage import Role  # noqa: E402
from compiler_lens.facts.kernels.provenance import Provenance  # noqa: E402
from compiler_lens.recording.model import Direction, KernelKind, Recording, Trust  # noqa: E402

LAYERS = 12


@pytest.fixture(autouse=True, scope="module")
def _cache_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A graph that others left in Inductor's cache without a lens says nothing of where its kernels come from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture(scope="module")
def recording() -> Iterator[Recording]:
    """A training step, with Inductor."""
    torch.manual_seed(0)
    with compiler_lens.Lens(strict=True) as lens:
        torch.compile(Net(), backend=lens)(torch.randn(4, 8)).sum().backward()
    return lens.recording


def test_each_launch_belongs_to_its_layer(recording: Recording) -> None:
    provenance = Provenance.of(recording)
    assert all(one.lines and one.trust is Trust.EXACT and not one.lost for one in provenance.lineages)
    forward = Counter[tuple[KernelKind, str]]()
    for one in provenance.lineages:
        if one.kernel.direction is Direction.FORWARD:
            layers = {module.split(".")[1] for module in one.modules}
            assert len(layers) == 1, (one.kernel.name, one.modules)
            forward[one.kernel.kind, layers.pop()] += 1
    for i in range(LAYERS):
        assert forward[KernelKind.EXTERN, str(i)] == forward[KernelKind.CPP, str(i)] == 1
        matches = provenance.launches_of(provenance.in_module(f"layers.{i}").every)
        both = {match.lineage.kernel.direction for match in matches}
        assert both == {Direction.FORWARD, Direction.BACKWARD}


def test_the_layers_line_is_found_from_every_launch_and_finds_every_launch(recording: Recording) -> None:
    provenance = Provenance.of(recording)
    line = Layer.forward.__code__.co_firstlineno + 1
    assert {at.line for one in provenance.lineages for at in one.lines} == {line}
    matches = provenance.launches_of(provenance.at_line(__file__, line).direct)
    assert len(matches) == len(provenance.lineages)
    roles = Counter(match.role for match in matches if match.lineage.kernel.direction is Direction.BACKWARD)
    assert set(roles) == {Role.DIFFERENTIATES}
    calls = provenance.at_line(__file__, Net.forward.__code__.co_firstlineno + 2)
    assert not calls.direct
    assert len(provenance.launches_of(calls.calls)) == len(matches)
