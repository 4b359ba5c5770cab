"""What we read from torch's printing, beside the graphs that torch has in hand."""

import pytest

torch = pytest.importorskip("torch")

import functorch.compile  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402

import compiler_lens  # noqa: E402
from compiler_lens.decode.graph_text import read_graph  # noqa: E402
from compiler_lens.recording.event import Event  # noqa: E402
from compiler_lens.recording.model import CompileId, GraphStage  # noqa: E402


class Keeper:
    """A backend that reads every graph it sees from its text, and compares."""

    def __init__(self):
        self.seen = []

    def __call__(self, graph_module, inputs):
        self.check("dynamo_output_graph", graph_module, expanded_def=False)
        lower = aot_autograd(
            fw_compiler=lambda g, _: self.check("aot_forward_graph", g),
            bw_compiler=lambda g, _: self.check("aot_backward_graph", g),
            inference_compiler=lambda g, _: self.check("aot_inference_graph", g),
            partition_fn=self.partition,
        )
        return lower(graph_module, inputs)

    def partition(self, joint, *args, **kwargs):
        self.check("aot_joint_graph", joint)
        return functorch.compile.default_partition(joint, *args, **kwargs)

    def check(self, name, graph_module, *, expanded_def=True):
        text = graph_module.print_readable(
            print_output=False, include_stride=True, include_device=True, expanded_def=expanded_def
        )
        (graph,) = read_graph(Event(name, 0.0, text=text), CompileId(0, 0), {})
        assert [seen(node) for node in graph.nodes] == [live(node) for node in graph_module.graph.nodes]
        self.seen.append(name)
        return functorch.compile.make_boxed_func(graph_module.forward)


def seen(node):
    spec = node.specs[0] if node.specs else None
    return node.name, node.op, node.target, [*node.inputs], spec and ([*map(str, spec.shape)], spec.device)


def live(node):
    value = node.meta.get("val", node.meta.get("example_value"))
    spec = ([*map(str, value.shape)], str(value.device)) if isinstance(value, torch.Tensor) else None
    return node.name, node.op, target_of(node.target), [n.name for n in node.all_input_nodes], spec


def target_of(target):
    if isinstance(target, str):
        return target
    if getattr(target, "__module__", "") == "_operator":
        return f"operator.{target.__name__}"
    return torch.fx.node._get_qualified_name(target)


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2))

    def forward(self, x):
        y = self.layers(x)
        y[:, 0] = 0
        y *= -y
        return y.flatten(1).softmax(-1), y[0, 1:, ...]


def sizes(x, n):
    a = x.new_ones(x.shape[0] * n + 1)
    return (a[: x.shape[0] // 2] ** 2).sum() + (x > 0).float().mean() + x.sin().sum()


def branches(x):
    return torch.cond(x.sum() > 0, lambda t: t.sin() + 1, lambda t: t.cos() - 2, (x,))


TRAINING = ["dynamo_output_graph", "aot_joint_graph", "aot_forward_graph", "aot_backward_graph"]
INFERENCE = ["dynamo_output_graph", "aot_inference_graph"]


@pytest.mark.parametrize(
    ("program", "inputs", "stages"),
    [
        (Convolution, lambda: [torch.randn(2, 3, 8, 8)], TRAINING),
        (lambda: nn.GRUCell(4, 4), lambda: [torch.randn(2, 4)], TRAINING),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16), lambda: [torch.randn(3, 2, 8)], TRAINING),
        (lambda: sizes, lambda: [torch.randn(5, 3, requires_grad=True), 3], TRAINING),
        (lambda: branches, lambda: [torch.randn(4)], INFERENCE),
    ],
    ids=["convolution", "recurrent cell", "transformer", "dynamic sizes", "branches"],
)
def test_a_graph_read_from_text_equals_the_graph_in_hand(program, inputs, stages):
    torch._dynamo.reset()
    keeper = Keeper()
    out = torch.compile(program(), backend=keeper, dynamic=program() is sizes)(*inputs())
    out = out[0] if isinstance(out, tuple) else out
    if out.requires_grad:
        out.sum().backward()
    assert keeper.seen == stages


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.straight, lambda t: t.cos(), (x,))

    def straight(self, x):
        return self.linear(x).sin()


def test_what_a_branch_runs_has_its_module_and_the_lines_that_led_there():
    torch._dynamo.reset()
    with compiler_lens.Lens(progress=False, strict=True) as lens:
        torch.compile(Branching(), backend="aot_eager")(torch.randn(2, 4)).sum().backward()
    stages = {graph.stage: graph for graph in lens.recording.graphs}
    for stage in (GraphStage.DYNAMO, GraphStage.AOT_FORWARD):
        ops = [node for part in stages[stage].subgraphs for node in part.nodes if node.op.startswith("call_")]
        assert [node.module for node in ops if "linear" in node.target or "addmm" in node.target] == ["linear"]
        (sine,) = [node for node in ops if "sin" in node.target and "cos" not in node.target]
        functions = [line.function for line in sine.source]
        assert functions == ["forward", "straight"], stage
