"""What runs eagerly while nothing says so: a failure that is suppressed, a wrapper whose graph holds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed
from torch import Tensor, nn
from torch._dynamo.backends.debugging import aot_eager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from compiler_lens import Lens, explain


def screen(lens: Lens) -> str:
    """The first screen without line breaks."""
    return " ".join(lens.report(color=False, width=120).split())


def rules(lens: Lens) -> list[str]:
    return [finding.rule for finding in explain(lens.recording).findings if not finding.benign]


class Head(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin() + 1


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = Head()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * 2


def fails(_gm: object, _inputs: object) -> object:
    raise NotImplementedError("no kernel for this today")


@pytest.mark.parametrize("suppressed", [True, False])
def test_a_suppressed_failure_is_no_compiled_function(suppressed: bool) -> None:
    with Lens(strict=True) as lens, torch._dynamo.config.patch(suppress_errors=suppressed):
        model = torch.compile(Tower(), backend=fails if suppressed else aot_eager)
        for _ in range(2):
            model(torch.ones(4))
    shown = screen(lens)
    assert ("Nothing to fix" in shown) == (not suppressed)
    if suppressed:
        assert rules(lens) == ["failure-suppressed"] * 2  # torch tries what the first one calls
        assert "Nothing was compiled; 2 run eagerly: Tower.forward (test_nothing_runs_compiled.py:" in shown
        assert "0 graphs" in shown
        assert "`suppress_errors` hides that: " in shown
        assert "no kernel for this today" in shown
        assert "Take away `torch._dynamo.config.suppress_errors = True`" in shown


def test_a_suppressed_failure_of_an_op_has_its_line_and_the_op(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_args: object) -> None:
        raise AssertionError("not today")

    def outer(x: Tensor) -> Tensor:
        return inverted(x) * 2

    def inverted(x: Tensor) -> Tensor:
        return torch.erfinv(x.cos())

    from torch._inductor.lowering import lowerings

    monkeypatch.setitem(lowerings, torch.ops.aten.erfinv.default, cannot)
    with Lens(strict=True) as lens, torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(outer, backend=lens)(torch.ones(4))
    first = explain(lens.recording).findings[0]
    assert first.place is not None
    assert (first.rule, first.place.code) == ("failure-suppressed", "return torch.erfinv(x.cos())")
    shown = screen(lens)
    assert "AssertionError: not today target: aten.erfinv.default." in shown
    assert "StorageBox" not in shown


def test_a_suppressed_failure_with_advice_of_its_own_has_that_too() -> None:
    @torch.library.custom_op("silences::thrice", mutates_args=())
    def thrice(x: Tensor) -> Tensor:
        return x * 3

    def scaled(x: Tensor) -> Tensor:
        return thrice(x + 1)

    with Lens(strict=True) as lens, torch._dynamo.config.patch(suppress_errors=True):
        torch.compile(scaled, backend="eager")(torch.ones(4))
    first = explain(lens.recording).findings[0]
    assert first.place is not None
    assert first.place.code == "return thrice(x + 1)"  # not torch's own custom_ops.py
    shown = screen(lens)
    assert "silences.thrice.default" in shown
    assert "Register a fake kernel" in shown


@pytest.fixture
def one_process_group() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def sharded(model: nn.Module) -> nn.Module:
    return fully_shard(model, mesh=init_device_mesh("cpu", (1,)))  # type: ignore[no-any-return, call-overload]


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "DistributedDataParallel": nn.parallel.DistributedDataParallel, "FSDPSequential": sharded
}  # fmt: skip


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.usefixtures("one_process_group")
def test_a_wrapper_whose_graph_holds_nothing_says_so_and_what_helps_helps(name: str) -> None:
    with Lens(strict=True) as lens:
        torch.compile(WRAPPERS[name](layers()), backend="aot_eager")(torch.ones(2, 8)).sum().backward()
    shown = screen(lens)
    assert rules(lens)[0] == "wrapper-holds-nothing"
    assert f"`{name}` breaks the graph, and what it wraps runs eagerly" in shown
    assert "Compile before you wrap: `model = torch.compile(model)` first" in shown

    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        WRAPPERS[name](torch.compile(layers(), backend="aot_eager"))(torch.ones(2, 8)).sum().backward()
    assert "wrapper-holds-nothing" not in rules(lens)
    assert len([graph for graph in lens.recording.graphs if graph.stage.value == "dynamo"]) == 1


def test_an_op_without_a_fake_kernel_is_told_to_register_one() -> None:
    @torch.library.custom_op("silences::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return twice(x) + 1

    with Lens(strict=True) as lens, pytest.raises(torch._dynamo.exc.TorchRuntimeError):
        torch.compile(Twice(), backend="eager")(torch.ones(4))
    assert "Register a fake kernel" in screen(lens)
    assert "report it to PyTorch" not in screen(lens)

    twice.register_fake(torch.empty_like)
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(Twice(), backend="eager")(torch.ones(4))
    assert "Nothing to fix" in screen(lens)


class Disabled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @torch.compiler.disable
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()  # type: ignore[no-any-return]


def test_modules_that_the_user_keeps_out_are_no_wrappers_doing() -> None:
    with Lens(strict=True) as lens:
        torch.compile(nn.Sequential(Disabled(), Disabled()), backend="eager")(torch.ones(2, 4))
    explained = explain(lens.recording)
    assert rules(lens) == ["all-disabled"]
    place = explained.findings[0].place
    assert place is not None
    assert (place.file, place.code) == (__file__, "@torch.compiler.disable")
    shown = screen(lens)
    assert "Compile before you wrap" not in shown
    assert "a mark here keeps `Disabled.forward` out of the compiler" in shown
    assert "torch's hint: Remove the `torch.compiler.disable` call" in shown
    assert explained.cards[0].owner.is_yours
