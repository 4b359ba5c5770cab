"""Operations of a node, against those that torch's own counter finds; and which launch they belong to."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.kernels.launch_work import Work, dtypes_multiplied, launch_work, node_work, positional
from compiler_lens.recording.model import (
    CompileId,
    Direction,
    Graph,
    GraphStage,
    Kernel,
    KernelKind,
    Launch,
    Node,
    Recording,
    TensorSpec,
)

GPU = Path(__file__).parent.parent / "gpu" / "data"


@cache
def recording(name: str) -> Recording:
    return load(GPU / f"{name}.clens.gz", strict=True)


def spec(*shape: int | str, dtype: str = "f32") -> TensorSpec:
    return TensorSpec(dtype, shape)


def graph_of(function: Callable[..., object], *inputs: object) -> dict[str, Node]:
    """The nodes of a function as a recording has them."""
    from torch.fx.experimental.proxy_tensor import make_fx

    made = make_fx(function, tracing_mode="fake")(*inputs)
    nodes = {}
    for node in made.graph.nodes:
        value = node.meta.get("val")
        specs = (spec(*map(int, value.shape)),) if hasattr(value, "shape") else ()
        arguments = [*map(str, node.args), *(f"{key}={value}" for key, value in node.kwargs.items())]
        nodes[node.name] = Node(
            node.name, node.op, f"torch.ops.{node.target}", specs=specs, arguments=", ".join(arguments)
        )
    return nodes


def counted(function: Callable[..., object], *inputs: object) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        function(*inputs)
    return int(counter.get_total_flops())


def ours(function: Callable[..., object], *inputs: object) -> int:
    nodes = graph_of(function, *inputs)
    works = [node_work(node, nodes) for node in nodes.values()]
    return sum(work.flops for work in works if work)


def cases() -> list[tuple[str, Callable[..., object], tuple[object, ...]]]:
    import torch
    from torch.nn import functional as F  # noqa: N812

    aten = torch.ops.aten

    def t(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, device="meta")

    def conv_backward(transposed: bool, mask: list[bool]) -> Callable[..., object]:
        return lambda out, x, w: aten.convolution_backward(
            out, x, w, [0], [2, 2], [1, 1], [1, 1], transposed, [0, 0], 1, mask
        )

    q, k, v = t(2, 4, 16, 8), t(2, 4, 24, 8), t(2, 4, 24, 8)
    log = t(2, 4, 16)
    return [
        ("mm", torch.mm, (t(3, 5), t(5, 7))),
        ("addmm", torch.addmm, (t(7), t(3, 5), t(5, 7))),
        ("addmm by name", lambda a, b, c: torch.addmm(a, b, c, beta=2, alpha=0.5), (t(7), t(3, 5), t(5, 7))),
        ("bmm", torch.bmm, (t(4, 3, 5), t(4, 5, 7))),
        ("baddbmm", torch.baddbmm, (t(4, 3, 7), t(4, 3, 5), t(4, 5, 7))),
        ("conv1d", F.conv1d, (t(2, 6, 30), t(8, 6, 3))),
        ("conv2d", lambda x, w: F.conv2d(x, w, stride=2, padding=1), (t(2, 6, 30, 20), t(8, 6, 3, 3))),
        ("grouped", lambda x, w: F.conv2d(x, w, groups=3), (t(2, 6, 30, 20), t(9, 2, 3, 3))),
        ("transposed", lambda x, w: F.conv_transpose2d(x, w, stride=2), (t(2, 6, 10, 12), t(6, 4, 3, 3))),
        ("conv_backward", conv_backward(False, [True, True, True]), (t(2, 8, 15, 10), t(2, 6, 30, 20), t(8, 6, 3, 3))),
        ("its weight only", conv_backward(False, [False, True, False]), (t(2, 8, 15, 10), t(2, 6, 30, 20), t(8, 6, 3, 3))),
        ("transposed back", conv_backward(True, [True, True, False]), (t(2, 4, 19, 23), t(2, 6, 10, 12), t(6, 4, 3, 3))),
        ("flash", aten._scaled_dot_product_flash_attention, (q, k, v)),
        ("efficient", lambda *a: aten._scaled_dot_product_efficient_attention(*a, None, True), (q, k, v)),
        ("efficient back", lambda o, log, *a: aten._scaled_dot_product_efficient_attention_backward(
            o, *a, None, o, log, log, log, 0.0, [True, True, True, False]), (q, log, q, k, v)),
        ("nothing", lambda a: torch.relu(a) + 1, (t(3),)),
    ]  # fmt: skip


@pytest.mark.parametrize("index", range(16))
def test_as_many_as_torch_counts(index: int) -> None:
    pytest.importorskip("torch")
    name, function, inputs = cases()[index]
    assert ours(function, *inputs) == counted(function, *inputs), name


def node(target: str, arguments: str, *specs: TensorSpec) -> Node:
    return Node("n", "call_function", f"torch.ops.{target}", specs=specs, arguments=arguments)


def placeholders(**specs: TensorSpec) -> dict[str, Node]:
    return {name: Node(name, "placeholder", name, specs=(one,)) for name, one in specs.items()}


def test_forms_of_the_cpu_that_torch_does_not_count() -> None:
    inputs = placeholders(x=spec(3, 5, dtype="bf16"), w=spec(1, 999), q=spec(2, 4, 16, 8), k=spec(2, 4, 24, 8))
    linear = node("mkldnn._linear_pointwise.default", "x, w, None, 'none', [], ''", spec(3, 7))
    attention = node("aten._scaled_dot_product_flash_attention_for_cpu.default", "q, k, k, 0.0, True")
    assert node_work(linear, inputs) == Work(2 * 3 * 5 * 7, "bf16")
    assert node_work(attention, inputs) == Work(2 * 2 * 4 * 16 * 24 * 16, "f32")


def test_the_type_is_that_of_the_factors() -> None:
    inputs = placeholders(bias=spec(7, dtype="f32"), a=spec(3, 5, dtype="bf16"), b=spec(5, 7, dtype="bf16"))
    assert node_work(node("aten.addmm.default", "bias, a, b", spec(3, 7)), inputs) == Work(210, "bf16")


@pytest.mark.parametrize("a", [spec("s0", 5), spec(3, "s1")])
def test_symbolic_sizes_are_not_counted(a: TensorSpec) -> None:
    assert node_work(node("aten.mm.default", "a, b", spec(3, 7)), placeholders(a=a, b=spec(5, 7))) is None


def test_unknown_ops_and_missing_nodes_are_not_counted() -> None:
    assert node_work(node("aten.add.Tensor", "a, b"), placeholders(a=spec(3), b=spec(3))) is None
    assert node_work(node("aten.mm.default", "a, b"), {}) is None
    assert node_work(node("aten.mm.default", ""), {}) is None
    assert node_work(node("aten.convolution_backward.default", "a, a, a"), placeholders(a=spec(1, 1, 1, 1))) is None


def test_the_gradient_of_a_grouped_convolution_multiplies_as_often_as_the_convolution() -> None:
    """torch.utils.flop_counter does not divide that of the weight by the groups: 96 times too many, here."""
    tensors = placeholders(out=spec(2, 96, 8, 8), x=spec(2, 96, 8, 8), w=spec(96, 1, 3, 3))
    forward = node_work(node("aten.convolution.default", "x, w, None, [1, 1]", spec(2, 96, 8, 8)), tensors)
    options = "[0], [1, 1], [1, 1], [1, 1], False, [0, 0], 96"
    back = node_work(node("aten.convolution_backward.default", f"out, x, w, {options}, [True, True, False]"), tensors)
    assert forward is not None
    assert back is not None
    assert back.flops == 2 * forward.flops == 4 * 2 * 96 * 8 * 8 * 9


@pytest.mark.parametrize("given", ["", ", [1, 1], [0, 0], [1, 1]", ", [1, 1], [0, 0], [1, 1], False"])
def test_a_convolution_is_counted_however_many_of_its_arguments_are_printed(given: str) -> None:
    tensors = placeholders(x=spec(2, 3, 8, 8), w=spec(4, 3, 3, 3))
    found = node_work(node("aten.convolution.default", f"x, w, None{given}", spec(2, 4, 6, 6)), tensors)
    assert found == Work(2 * 2 * 6 * 6 * 4 * 3 * 3 * 3, "f32")


def test_a_transposed_convolution_multiplies_for_each_of_its_inputs() -> None:
    tensors = placeholders(x=spec(2, 4, 6, 6), w=spec(4, 3, 3, 3))
    printed = "x, w, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1"
    found = node_work(node("aten.convolution.default", printed, spec(2, 3, 8, 8)), tensors)
    assert found == Work(2 * 2 * 6 * 6 * 4 * 3 * 3 * 3, "f32")


def test_arguments_are_split_where_they_end() -> None:
    assert positional("a, [1, 2], (3, {4: 5}), b, dim=1, c=[1, 2]") == ["a", "[1, 2]", "(3, {4: 5})", "b"]
    assert positional("") == []
    assert positional("out=buf3") == []


def test_each_product_belongs_to_one_launch_and_never_to_a_kernel_that_only_follows_it() -> None:
    found = recording("gpt-default-cold")
    works = launch_work(found)
    kinds = {k.name: k.kind for k in found.kernels}
    assert {kinds[launch.kernel] for launch in works} == {KernelKind.EXTERN, KernelKind.FALLBACK}
    # A block of width d: the four linear layers are 12·d² weights, each of which multiplies each of the 2048 tokens.
    linear = [w.flops for p, w in works.items() if p.code.direction is not Direction.BACKWARD and "addmm" in p.kernel]
    assert sum(linear) == 2 * 2048 * 12 * 512**2
    back = [w.flops for p, w in works.items() if p.code.direction is Direction.BACKWARD and "mm" in p.kernel]
    assert sum(back) == 2 * sum(linear)
    assert dtypes_multiplied(found, {found.kernels[0].compile_id}) == ("bf16",)
    assert dtypes_multiplied(found, set()) == ()


def test_a_kernel_that_only_follows_a_product_does_not_compute_it() -> None:
    graph = Graph(
        CompileId(0, 0), GraphStage.POST_GRAD, "", (*placeholders(a=spec(3, 5), b=spec(5, 7)).values(), product())
    )
    kernel = Kernel(
        CompileId(0, 0), Direction.INFERENCE, "k", KernelKind.TRITON, launches=(Launch(1, (), nodes=("n",)),)
    )
    assert not launch_work(Recording(graphs=(graph,), kernels=(kernel,)))
    library = replace(kernel, kind=KernelKind.EXTERN)
    assert [w.flops for w in launch_work(Recording(graphs=(graph,), kernels=(library,))).values()] == [210]


def product() -> Node:
    return node("aten.mm.default", "a, b", spec(3, 7))


def test_templates_multiply_too() -> None:
    works = launch_work(recording("resnet-max-autotune-cold"))
    # Five convolutions of 3x3, the first of three channels; and the head.
    assert sum(w.flops for w in works.values()) == 2 * 8 * 1024 * 9 * 64 * (3 + 4 * 64) + 2 * 8 * 64 * 10
    assert any("triton_tem" in launch.kernel for launch in works)
