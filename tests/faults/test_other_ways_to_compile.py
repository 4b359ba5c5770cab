"""torch.export, AOTInductor, DDP, compiled autograd: they work as ever while a lens is open, and are recorded."""

import gc
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor
import torch.distributed
from functorch.compile import aot_function, aot_module, nop
from torch import Tensor, nn
from torch._dynamo import compiled_autograd
from torch._dynamo.backends.debugging import aot_eager
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

from compiler_lens import Lens
from compiler_lens.capture.session import FrameRecord
from compiler_lens.capture.torch_api import settings
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    Compilation,
    CompileId,
    Direction,
    GraphStage,
    KernelKind,
    Outcome,
    Recording,
    Trust,
)

X = torch.ones(4)
Events = Callable[[Lens], tuple[Event, ...]]
Functions = Callable[[Lens], list[str]]


class SineNet(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin() * 2


def double_cosine(x: Tensor) -> Tensor:
    return x.cos() * 2


@pytest.mark.parametrize("strict", [True, False])
def test_export_is_what_it_is_without_a_lens(*, strict: bool, functions: Functions) -> None:
    def code() -> str:
        torch._dynamo.reset()
        return str(torch.export.export(SineNet(), (X,), strict=strict).graph)

    plain = code()
    with Lens(strict=True) as lens:
        exported = code()
        torch.compile(double_cosine, backend="eager")(X)

    assert exported == plain
    assert "double_cosine" in functions(lens)


@pytest.mark.parametrize("model", [SineNet(), nn.Linear(4, 4)])
def test_an_export_is_no_compilation_that_never_ends(model: nn.Module) -> None:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.export.export(model, (X,), strict=True)
    (export,) = lens.recording.compilations
    told = (export.function, export.outcome, export.reason)
    assert told == ("torch.export", Outcome.TRACED, "traced by torch.export, which compiles nothing")
    assert [graph.compile_id for graph in lens.recording.graphs] == [export.compile_id]


def _line(function: Callable[..., object], word: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if word in line)


def test_what_is_only_traced_is_no_compilation() -> None:
    with Lens(strict=True) as lens:
        for _ in range(3):
            make_fx(double_cosine)(X)
        torch.export.export(SineNet(), (X,))
    recording = lens.recording
    assert [(c.door, c.outcome) for c in recording.compilations] == [
        *[("make_fx", Outcome.TRACED)] * 3, ("torch.export", Outcome.TRACED),
    ]  # fmt: skip
    assert {Path(c.file).name for c in recording.compilations} == {Path(__file__).name}
    assert recording.compilations[0].line == _line(test_what_is_only_traced_is_no_compilation, "make_fx(double")
    shown = lens.report(color=False, width=200)
    assert "Nothing was compiled; 2 calls only traced graphs: make_fx (test_other_ways_to_compile.py:" in shown
    assert "Nothing entered the compiler" in shown
    assert recording.problems == ()


def _doors(recording: Recording) -> list[tuple[str, str, int, int]]:
    """Each compilation's call and outcome, how many output codes and kernels it has."""
    return [
        (
            c.door, c.outcome.value, sum(code.compile_id == c.compile_id for code in recording.output_codes),
            sum(kernel.compile_id == c.compile_id for kernel in recording.kernels),
        )
        for c in recording.compilations
    ]  # fmt: skip


def test_inductor_without_dynamo() -> None:
    x = X.clone().requires_grad_()
    with Lens(strict=True) as lens:
        graph = torch.fx.symbolic_trace(double_cosine)
        first, second = torch._inductor.compile(graph, [x]), torch._inductor.compile(graph, [X])
        torch.compile(double_cosine)(X)
        artifact = torch._inductor.standalone_compile(make_fx(double_cosine)(X), [X])
        second(X), artifact(X)
        first(x)[0].sum().backward()  # its backward is compiled now, and is the first's
    recording = lens.recording
    assert _doors(recording) == [
        ("torch._inductor.compile", "compiled", 2, 2),
        ("torch._inductor.compile", "compiled", 1, 1),
        ("", "compiled", 1, 1),
        ("make_fx", "traced", 0, 0),
        ("torch._inductor.standalone_compile", "compiled", 1, 1),
    ]
    assert [str(c.compile_id) for c in recording.compilations] == ["@1", "@2", "0/0", "@3", "@4"]
    assert all(kernel.nodes and kernel.trust is Trust.EXACT for kernel in recording.kernels)
    assert all(span.compile_id for span in recording.spans if span.name == "code_gen")
    assert recording.problems == recording.unavailable == ()
    shown = lens.report(color=False, width=200)
    assert "All 3 functions compiled." in shown  # two calls stand on one line
    assert "unfinished" not in shown


def test_aot_autograd_without_dynamo() -> None:
    x = X.clone().requires_grad_()
    plain = aot_function(double_cosine, fw_compiler=nop)
    with Lens(strict=True) as lens:
        aot_function(double_cosine, fw_compiler=nop)(x).sum().backward()
        aot_module(nn.Linear(4, 4), fw_compiler=nop)(x).sum().backward()
    plain(X)  # nobody records it
    recording = lens.recording
    assert _doors(recording) == [("AOTAutograd", "compiled", 0, 0)] * 2
    stages = [(str(g.compile_id), g.stage.value) for g in recording.graphs]
    assert stages == [(i, stage) for i in ("@1", "@2") for stage in ("joint", "forward", "backward")]
    assert "Both calls compiled." in lens.report(color=False, width=200)


def test_compile_fx_is_known_by_its_own_name() -> None:
    x = X.clone().requires_grad_()
    with Lens(strict=True) as lens:  # its name was there before the lens
        compile_fx(torch.fx.symbolic_trace(lambda x: (x.cos() * 3,)), [x])(x)[0].sum().backward()
    recording = lens.recording
    (compiled,) = recording.compilations
    assert (compiled.door, compiled.function, compiled.backend) == ("compile_fx", "compile_fx", "inductor")
    assert compiled.line == _line(test_compile_fx_is_known_by_its_own_name, "compile_fx(torch")
    assert _doors(recording) == [("compile_fx", "compiled", 2, 2)]
    assert all(kernel.trust is Trust.EXACT for kernel in recording.kernels)
    assert "1 of 1 call compiled." in lens.report(color=False, width=200)


def test_a_backward_that_aot_function_has_inductor_compile_later_is_its_own() -> None:
    x = X.clone().requires_grad_()
    inductor = {"fw_compiler": compile_fx_inner, "decompositions": select_decomp_table()}
    with Lens(strict=True) as lens:
        first, second = (aot_function(f, **inductor)(x) for f in (lambda x: x.sin() * 5, lambda x: x.cos() * 7))
        second.sum().backward()
        first.sum().backward()
    recording = lens.recording
    assert _doors(recording) == [("AOTAutograd", "compiled", 2, 2)] * 2
    for each in recording.compilations:
        codes = [code for code in recording.output_codes if code.compile_id == each.compile_id]
        assert [code.direction for code in codes] == [Direction.INFERENCE, Direction.BACKWARD]
        ops = {node.target for g in recording.graphs if g.id == codes[1].id.graph for node in g.nodes}
        assert ("aten.cos" in str(ops)) == (each is recording.compilations[0])  # the gradient of its sine
    assert len({code.id for code in recording.output_codes}) == len(recording.output_codes)
    assert {g.stage for g in recording.graphs if g.compile_id.or_none is None} == set[GraphStage]()


def test_a_call_is_kept_no_longer_than_what_it_compiled() -> None:
    def records() -> int:
        gc.collect()
        return sum(type(each) is FrameRecord and each.is_call for each in gc.get_objects())

    before = records()
    with Lens(strict=True):
        kept = [aot_function(double_cosine, fw_compiler=nop)(X.clone().requires_grad_()) for _ in range(5)]
        assert records() - before == 5  # their backwards may be compiled yet
        kept.pop().sum().backward()
        kept.clear()
        assert records() == before


def test_a_compiler_that_fails_without_dynamo_is_a_failure() -> None:
    def fails(_gm: object, _inputs: object) -> object:
        raise NotImplementedError("no such op here")

    with Lens(strict=True) as lens:
        with pytest.raises(NotImplementedError):
            aot_function(double_cosine, fw_compiler=fails)(X)
        make_fx(double_cosine)(X)
    assert [(c.door, c.outcome.value, c.reason) for c in lens.recording.compilations] == [
        ("AOTAutograd", "failed", "NotImplementedError: no such op here"),
        ("make_fx", "traced", "traced by make_fx, which compiles nothing"),
    ]
    assert "Nothing was compiled; 1 failed: AOTAutograd" in lens.report(color=False, width=200)


def test_aot_inductors_code_and_kernels_are_recorded(tmp_path: Path) -> None:
    with Lens(strict=True) as lens:
        program = torch.export.export(SineNet(), (X,))
        package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    recording = lens.recording
    (code,), (kernel,), (_, compiled) = recording.output_codes, recording.kernels, recording.compilations
    assert _doors(recording) == [("torch.export", "traced", 0, 0), ("AOTInductor", "compiled", 1, 1)]
    assert compiled.line == _line(test_aot_inductors_code_and_kernels_are_recorded, "package = ")
    assert f"{kernel.name}(" in code.code.split("\n")[kernel.launches[0].line - 1]
    assert (kernel.kind, kernel.aten, kernel.nodes, kernel.trust) == (
        KernelKind.CPP, ("aten.mul", "aten.sin"), ("mul", "sin"), Trust.EXACT
    )  # fmt: skip
    assert recording.problems == recording.unavailable == ()
    assert "1 of 1 call compiled." in lens.report(color=False, width=200)
    assert torch.allclose(torch._inductor.aoti_load_package(package)(X), SineNet()(X), atol=1e-6)
    assert "AOTI_DEVICE_KEY" in torch._inductor.config.aot_inductor.metadata  # which torch puts there itself
    with torch._inductor.config.patch(max_fusion_size=7):
        assert "_inductor.config.aot_inductor.metadata" not in settings.Settings().lines()


def test_a_failed_export_is_a_failure() -> None:
    def branch(x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x

    class Branch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return branch(x)

    torch._dynamo.reset()
    with Lens(strict=True) as lens, pytest.raises(torch._dynamo.exc.Unsupported):
        torch.export.export(Branch(), (X,), strict=True)
    assert [c.outcome for c in lens.recording.compilations] == [Outcome.FAILED]


@pytest.mark.long
def test_export_and_aot_inductor_stay_out_of_a_lens_that_is_a_backend(tmp_path: Path, events: Events) -> None:
    with Lens(strict=True) as everything:
        lens = Lens(strict=True)
        program = torch.export.export(SineNet(), (X,), strict=True)
        package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
        result = torch._inductor.aoti_load_package(package)(X)
        lens.close()

    assert torch.allclose(result, SineNet()(X), atol=1e-6)
    assert {e.name for e in events(lens)} <= {"lens.files", "str"}
    assert everything.recording.problems == ()


@pytest.fixture
def one_process_group() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(512, 512) for _ in range(4)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


@pytest.mark.usefixtures("one_process_group")
def test_ddp_splits_a_graph_and_all_its_parts_belong_to_one_compilation() -> None:
    calls: list[int] = []

    def backend(gm: Any, inputs: Any) -> Any:
        calls.append(len(gm.graph.nodes))
        return aot_eager(gm, inputs)

    def step() -> tuple[Tensor, Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.parallel.DistributedDataParallel(Layers(), bucket_cap_mb=1.1)
        result = torch.compile(model, backend=backend)(torch.ones(2, 512)).sum()
        result.backward()
        return result, model.module.layers[0].weight.grad

    plain = step()
    without = calls[:]
    calls.clear()
    with Lens(strict=True) as lens:
        recorded = step()
    recording = lens.recording
    (forward,) = [c for c in recording.compilations if c.function == "forward"]
    stages = [g.stage.value for g in recording.graphs if g.compile_id == forward.compile_id]

    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))
    assert calls == without
    assert len(calls) > 1
    assert stages.count("dynamo") == 1
    assert stages.count("forward") == stages.count("backward") == len(calls)
    assert recording.problems == ()


def _with_id(recording: Recording) -> list[Compilation]:
    """Without the frames that Dynamo passed over: the garbage collector may run anything in mid-call."""
    return [c for c in recording.compilations if c.compile_id != CompileId(None, None, c.compile_id.epoch)]


def test_compiled_autograd() -> None:
    def gradient() -> Tensor:
        torch._dynamo.reset()
        x = X.clone().requires_grad_()
        loss = torch.compile(lambda x: (x * x).sin().sum(), backend="aot_eager")(x)
        with compiled_autograd._enable(torch.compile(backend="eager")):
            loss.backward()
        assert x.grad is not None
        return x.grad

    plain = gradient()
    with Lens(strict=True) as lens:
        bystander = Lens(strict=True)
        recorded = gradient()
    bystander.close()
    recording = lens.recording

    assert torch.equal(plain, recorded)
    assert [(c.function, c.compile_id.autograd, c.outcome.value) for c in _with_id(recording)] == [
        ("<lambda>", None, "compiled"),
        ("forward", 0, "compiled"),
    ]
    assert bystander.recording.compilations == ()


def test_compiled_autograd_by_a_lens_as_its_backend() -> None:
    lens = Lens(strict=True)
    lens._delegates.wrapper = lambda *_args: aot_eager  # type: ignore[method-assign]
    x = X.clone().requires_grad_()
    loss = torch.compile(lambda x: (x * x).sin().sum(), backend="aot_eager")(x)
    with compiled_autograd._enable(torch.compile(backend=lens)):
        loss.backward()
    lens.close()

    assert [(c.function, c.compile_id.autograd) for c in _with_id(lens.recording)] == [("forward", 0)]
    assert lens.recording.graphs
