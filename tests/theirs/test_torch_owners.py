"""torch's own wrappers, live: what they break by design is to know, and what is lost there is said from the user's line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.nn.utils import parametrizations, parametrize, prune
from torch.optim.swa_utils import AveragedModel
from tqdm import tqdm

from compiler_lens import Lens, explain
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.program.owners import Whose


@pytest.fixture(autouse=True)
def one_process_group() -> Iterator[None]:
    torch._dynamo.reset()
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def recorded(run: Callable[[], Any]) -> Lens:
    with Lens(strict=True) as lens:
        run()
    return lens


def found(lens: Lens, label: str) -> list[Finding]:
    return [finding for finding in explain(lens.recording).findings if finding.owner.label == label]


def next_list(lens: Lens) -> str:
    return " ".join(lens.report(color=False, width=120).partition("\nNext\n")[2].split())


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


class Net(nn.Module):
    def __init__(self, *, talks: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.talks = talks

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        if self.talks:
            print("blocks are done")
        return x


def test_ddp_round_a_model_is_to_know() -> None:
    model = torch.compile(nn.parallel.DistributedDataParallel(Net()), backend="eager")
    lens = recorded(lambda: model(torch.ones(2, 8)).sum().backward())
    of_ddp = found(lens, "DistributedDataParallel")
    assert len(of_ddp) > 1
    assert all(finding.benign and finding.owner.whose is Whose.BY_DESIGN for finding in of_ddp)
    assert "Nothing must be changed, but there is: 2 places where graphs are cut on purpose (test_torch" in next_list(
        lens
    )
    for words in ("Remove it", "log outside", "contextlib.py"):
        assert words not in next_list(lens)


def test_a_print_below_ddp_is_the_users_and_first(capsys: pytest.CaptureFixture[str]) -> None:
    ddp = nn.parallel.DistributedDataParallel(Net(talks=True))

    def step(x: Tensor) -> Tensor:
        with ddp.no_sync():
            return ddp(x).sum()

    lens = recorded(lambda: [torch.compile(step, backend="eager")(torch.ones(2, 8)) for _ in range(2)])
    first = explain(lens.recording).findings[0]
    assert first.owner.is_yours
    assert first.place
    assert first.place.code.strip() == 'print("blocks are done")'
    for finding in found(lens, "DistributedDataParallel"):
        assert finding.owner.line
        assert finding.owner.line.file == __file__
    assert capsys.readouterr().out


def test_fsdp_round_blocks_says_to_compile_the_blocks() -> None:
    mesh, net = init_device_mesh("cpu", (1,)), Net()
    for block in net.blocks:
        fully_shard(block, mesh=mesh)  # type: ignore[call-overload]
    fully_shard(net, mesh=mesh)  # type: ignore[call-overload]
    lens = recorded(lambda: torch.compile(net, backend="eager")(torch.ones(2, 8)))
    (finding,) = found(lens, "FSDP")
    assert finding.place
    assert finding.place.code.strip() == "x = block(x)"
    assert "By design of FSDP" in next_list(lens)
    assert "`block.compile()` and then `fully_shard(block)`" in next_list(lens)
    assert "talks to the compiler" not in next_list(lens)
    assert "Call it right before" not in next_list(lens)

    torch._dynamo.reset()
    right = Net()
    for block in right.blocks:
        block.compile(backend="eager")
        fully_shard(block, mesh=mesh)  # type: ignore[call-overload]
    lens = recorded(lambda: fully_shard(right, mesh=mesh)(torch.ones(2, 8)))  # type: ignore[call-overload]
    assert not lens.recording.graph_breaks
    assert {c.outcome.value for c in lens.recording.compilations} == {"compiled"}


def test_an_optimizer_and_its_scheduler_are_to_know_and_backward_is_to_do() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step(x: Tensor) -> None:
        net(x).sum().backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

    lens = recorded(lambda: [torch.compile(step, backend="eager")(torch.ones(2, 8)) for _ in range(3)])
    for label in ("torch.optim", "a learning rate scheduler"):
        assert found(lens, label)
        assert all(finding.benign for finding in found(lens, label))
    schedulers = {finding.place.code.strip() for finding in found(lens, "a learning rate scheduler") if finding.place}
    assert schedulers == {"scheduler.step()"}
    worth = [finding for finding in explain(lens.recording).findings if not finding.benign]
    places = [finding.place.code.strip() for finding in worth if finding.place]
    assert places[0] == "net(x).sum().backward()"
    assert places[1:] == [] or torch.__version__ < "2.12"


def test_grad_scaler_is_to_know_and_clipping_has_its_argument() -> None:
    net, scaler = Net(), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(loss: Tensor) -> None:
        loss = scaler.scale(loss)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()

    scaler.scale(net(torch.ones(2, 8)).sum()).backward()
    lens = recorded(lambda: torch.compile(step, backend="eager")(torch.ones(())))
    assert found(lens, "GradScaler")
    assert all(finding.benign for finding in found(lens, "GradScaler"))
    assert found(lens, "clip_grad_norm_")
    assert "leave `error_if_nonfinite` at False" in next_list(lens)
    assert "torch.where" not in next_list(lens)


def test_an_averaged_model_is_updated_outside() -> None:
    net = Net()
    average = AveragedModel(net)

    def step(x: Tensor) -> Tensor:
        y = net(x)
        average.update_parameters(net)
        return y

    lens = recorded(lambda: [torch.compile(step, backend="eager")(torch.ones(2, 8)) for _ in range(2)])
    assert found(lens, "AveragedModel")
    assert "Call `update_parameters` after the compiled function" in next_list(lens)
    assert "average.update_parameters(net)" in next_list(lens)


def test_tqdm_is_a_librarys_at_the_line_that_calls_it() -> None:
    def run(x: Tensor) -> Tensor:
        for _ in tqdm(range(2), disable=True):
            x = x + 1
        return x

    lens = recorded(lambda: torch.compile(run, backend="eager")(torch.ones(2)))
    (finding, *_) = found(lens, "tqdm")
    assert finding.owner.whose is Whose.LIBRARY
    assert "Loop without `tqdm` in the compiled function" in next_list(lens)


class Symmetric(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return w.triu() + w.triu(1).transpose(-1, -2)


class Exp(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * ctx.saved_tensors[0]


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.symmetric = nn.Linear(8, 8)
        parametrize.register_parametrization(self.symmetric, "weight", Symmetric())
        self.pruned = prune.l1_unstructured(nn.Linear(8, 8), "weight", 0.5)
        self.normed = parametrizations.weight_norm(nn.Linear(8, 8))

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x: Tensor) -> Tensor:
        return Exp.apply(self.normed(self.pruned(self.symmetric(x))))


def test_parametrizations_and_autocast_decorators_break_nothing() -> None:
    lens = recorded(lambda: torch.compile(Decorated(), backend="eager")(torch.ones(2, 8)))
    assert not lens.recording.graph_breaks
    assert "Nothing to fix" in next_list(lens)


def test_the_users_own_disabled_function_stays_theirs() -> None:
    @torch.compiler.disable
    def apart(x: Tensor) -> Tensor:
        return x + 1

    lens = recorded(lambda: torch.compile(lambda x: apart(x) * 2, backend="eager")(torch.ones(2)))
    assert all(finding.owner.is_yours for finding in explain(lens.recording).findings)


def test_a_tensor_distributed_inside_is_to_be_distributed_before() -> None:
    mesh = init_device_mesh("cpu", (1,))

    def sharded(x: Tensor) -> Tensor:
        return (distribute_tensor(x, mesh, [Shard(0)]) * 2).redistribute(placements=[Replicate()]).to_local()

    lens = recorded(lambda: torch.compile(sharded, backend="eager")(torch.ones(2, 8)))
    assert found(lens, "DTensor")
    assert "Inside DTensor" in next_list(lens)
    assert "once, before the compiled function, and pass it DTensors" in next_list(lens)
    assert "custom_op" not in next_list(lens)

    def given(x: DTensor) -> Tensor:
        return (x * 2).redistribute(placements=[Replicate()]).to_local()

    x = distribute_tensor(torch.ones(2, 8), mesh, [Shard(0)])
    lens = recorded(lambda: torch.compile(given, backend="eager")(x))
    assert not lens.recording.graph_breaks, "what is advised compiles whole"


def test_a_module_distributed_inside_is_to_be_distributed_before() -> None:
    mesh, linear = init_device_mesh("cpu", (1,)), nn.Linear(8, 8)

    def sharded(x: Tensor) -> Tensor:
        distribute_module(linear, mesh)
        return x + 1

    lens = recorded(lambda: torch.compile(sharded, backend="eager")(torch.ones(2, 8)))
    assert found(lens, "DTensor")
    assert "`register_fake`" not in next_list(lens)


def test_a_mesh_made_inside_is_to_be_made_before() -> None:
    def meshed(x: Tensor) -> Tensor:
        mesh = init_device_mesh("cpu", (1,))
        return DTensor.from_local(x, mesh, [Shard(0)]).to_local()

    def run() -> None:
        with contextlib.suppress(Exception):  # torch 2.13 fails on it
            torch.compile(meshed, backend="eager")(torch.ones(2, 8))

    lens = recorded(run)
    assert found(lens, "DeviceMesh")
    assert "Make the mesh before the compiled function" in next_list(lens)
    assert "Put the `with` round" not in next_list(lens)


def test_copies_of_data_parallel_in_threads_are_its_design() -> None:
    net = Net()

    def apart(x: Tensor) -> Tensor:
        first, second = nn.parallel.parallel_apply([net, net], [(x,), (x,)], devices=[0, 0])
        return first + second

    def run() -> None:
        with contextlib.suppress(Exception):  # of a device that is not here, in eager
            torch.compile(apart, backend="eager")(torch.ones(2, 8))

    lens = recorded(run)
    assert found(lens, "DataParallel")
    assert all(finding.owner.whose is Whose.BY_DESIGN for finding in found(lens, "DataParallel"))
    assert "Use `DistributedDataParallel` of the compiled model" in next_list(lens)

    lens = recorded(lambda: torch.compile(nn.DataParallel(net), backend="eager")(torch.ones(2, 8)))
    assert not lens.recording.graph_breaks, "without a device it is the module"


UNATTACHED = """
class Lit(torch.nn.Module):
    @property
    def trainer(self):
        raise RuntimeError("Lit is not attached to a `Trainer`.")  # as lightning/pytorch/core/module.py does

    def forward(self, x):
        return x * self.trainer.world_size
"""


def test_a_lightning_module_without_a_trainer_is_known_by_what_it_raises(tmp_path: Path) -> None:
    """torch has the user's line alone: the one in Lightning that raises is not in the failure's stack."""
    file = tmp_path / "model.py"
    file.write_text(UNATTACHED)
    scope = {"torch": torch}
    exec(compile(UNATTACHED, str(file), "exec"), scope)
    torch._dynamo.reset()
    with Lens(strict=True) as lens, pytest.raises(Exception, match="Observed exception"):
        torch.compile(scope["Lit"](), backend="eager", fullgraph=True)(torch.ones(3))
    (finding,) = [one for one in explain(lens.recording).findings if not one.benign]
    assert finding.owner.label == "Lightning"
    said = " ".join(lens.report(color=False, width=120).split())
    assert "A LightningModule asks for its Trainer, and this one has none." in said
    assert "self.net = torch.compile(self.net)" in said
