"""From launches to lines and modules, and back: the same pairs from both ends, on recordings of a GPU and by hand."""

from functools import cache, partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.kernels.lineage import Role
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import (
    CompileId,
    Direction,
    Graph,
    GraphStage,
    Kernel,
    KernelKind,
    Launch,
    Node,
    OutputCode,
    Recording,
    SourceLine,
    Subgraph,
    Trust,
)

DATA = Path(__file__).parent.parent / "gpu/data"
JOURNALS = sorted(path.name for path in DATA.glob("*.clens.gz"))
LOGS = sorted(path.name for path in DATA.glob("*.log.gz"))
ID = CompileId(0, 0)
GENERATED = {KernelKind.TRITON, KernelKind.CPP, KernelKind.TEMPLATE, KernelKind.FOREACH}


@cache
def read(name: str) -> tuple[Recording, Provenance]:
    recording = load(DATA / name, strict=True)
    return recording, Provenance.of(recording)


def places(provenance: Provenance) -> list[tuple]:
    """What a user sees of each launch."""
    return [
        (
            one.kernel.name,
            one.kernel.direction,
            one.launch,
            one.trust,
            one.lines,
            one.modules,
            [s.name for s in one.nodes],
        )
        for one in provenance.lineages
    ]


# -- laws, on real recordings


@pytest.mark.parametrize("name", JOURNALS + LOGS)
def test_lines_find_exactly_the_launches_that_lead_to_them(name):
    _, provenance = read(name)
    forward = {(i, at.file, at.line) for i, one in enumerate(provenance.lineages) for at in one.lines}
    backward = set()
    for _, file, number in forward:
        ops = provenance.at_line(file, number).direct
        found = {id(match.lineage) for match in provenance.launches_of(ops)}
        backward |= {(i, file, number) for i, one in enumerate(provenance.lineages) if id(one) in found}
    assert forward == backward
    assert forward


@pytest.mark.parametrize("name", JOURNALS)
def test_modules_find_exactly_the_launches_that_lead_to_them(name):
    _, provenance = read(name)
    forward = {(i, module) for i, one in enumerate(provenance.lineages) for module in one.modules}
    backward = set()
    for module in provenance.modules:
        found = {id(match.lineage) for match in provenance.launches_of(provenance.in_module(module).direct)}
        backward |= {(i, module) for i, one in enumerate(provenance.lineages) if id(one) in found}
    assert forward == backward


@pytest.mark.parametrize("name", JOURNALS + LOGS)
def test_ties_name_the_nodes_that_tie(name):
    _, provenance = read(name)
    for origin in provenance.origins:
        for match in provenance.launches_of([origin]):
            assert match.nodes
            assert all(origin in traced.origins and traced in match.lineage.nodes for traced in match.nodes)


@pytest.mark.parametrize("name", JOURNALS)
def test_every_generated_and_every_library_kernel_reaches_a_line_exactly(name):
    _, provenance = read(name)
    for one in provenance.lineages:
        if one.kernel.name == "Tensor.copy_":  # a copy between devices: code generation tells nobody of its node
            assert not one.lines
            continue
        assert one.lines, one.kernel.name
        assert one.trust is Trust.EXACT, one.kernel.name
        assert not one.lost


@pytest.mark.parametrize("name", LOGS)
def test_a_log_without_hooks_is_text_and_nothing_more(name):
    _, provenance = read(name)
    assert {one.trust for one in provenance.lineages} == {Trust.TEXT}
    assert all(one.lines for one in provenance.lineages)
    ours = places(read(name.replace(".trace.log", ".clens"))[1])
    for (theirs, direction, launch, _, lines, *_), exact in zip(places(provenance), ours, strict=True):
        assert (theirs, direction, launch) == exact[:3]
        assert {at.line for at in lines} & {at.line for at in exact[4]}, theirs


def test_cold_and_warm_give_the_same():
    for name in ("gpt-max-autotune", "oddities-reduce-overhead"):
        cold, warm = (places(read(f"{name}-{state}.clens.gz")[1]) for state in ("cold", "warm"))
        assert cold == warm


def test_backward_kernels_reach_the_lines_of_the_forward_and_say_so():
    _, provenance = read("gpt-default-cold.clens.gz")
    backward = [one for one in provenance.lineages if one.kernel.direction is Direction.BACKWARD]
    assert len(backward) == 30
    for one in backward:
        roles = {traced.role for traced in one.deciding}
        assert roles <= {Role.DIFFERENTIATES, Role.RECOMPUTES}, one.kernel.name
        assert all(at.file.endswith("models.py") for at in one.lines)
    assert all(any(s.role is Role.DIFFERENTIATES for s in one.deciding) for one in backward)
    gelu = next(origin for origin in provenance.origins if origin.node == "gelu")
    again = [match for match in provenance.launches_of([gelu]) if any(s.role is Role.RECOMPUTES for s in match.nodes)]
    assert {match.lineage.kernel.direction for match in again} == {Direction.BACKWARD}


def test_nodes_name_the_aten_node_that_they_are():
    recording, provenance = read("gpt-default-cold.clens.gz")
    stages = {Direction.FORWARD: GraphStage.AOT_FORWARD, Direction.BACKWARD: GraphStage.AOT_BACKWARD}
    graphs = {graph.stage: {node.name for node in graph.nodes} for graph in recording.graphs}
    traced_nodes = [(one.kernel.direction, traced) for one in provenance.lineages for traced in one.nodes]
    assert all(
        not traced.aten_node or traced.aten_node in graphs[stages[direction]] for direction, traced in traced_nodes
    )
    assert sum(bool(traced.aten_node) for _, traced in traced_nodes) / len(traced_nodes) > 0.95
    made_by_passes = [traced.name for _, traced in traced_nodes if not traced.aten_node]
    assert all("select_scatter" in name for name in made_by_passes)


def test_what_a_pass_made_leads_to_what_its_result_goes_into():
    _, provenance = read("oddities-reduce-overhead-cold.clens.gz")
    softmax = next(one for one in provenance.lineages if "prepare_softmax_online" in one.kernel.name)
    assert [(s.role, [o.node for o in s.origins]) for s in softmax.nodes] == [(Role.FEEDS, ["softmax"])]


# -- by hand


def at(number: int, file: str = "/home/user/app/net.py") -> SourceLine:
    return SourceLine(file, number, "forward", f"line {number}")


def op(name: str, number: int = 1, *inputs: str, target: str = "torch.ops.aten.sin.default", **more) -> Node:
    source = (at(number),) if number else ()
    return Node(name, "call_function", target, inputs, source=source, **more)


def graph(stage: GraphStage, *nodes: Node, trust: Trust = Trust.EXACT, **more) -> Graph:
    return Graph(ID, stage, "", nodes, origins=trust, **more)


def kernel(*launches: tuple[str, ...], name: str = "k", direction: Direction = Direction.FORWARD, **more) -> Kernel:
    made = tuple(Launch(i, (), nodes) for i, nodes in enumerate(launches))
    nodes = tuple(dict.fromkeys(node for launch in launches for node in launch))
    fields = {"nodes": nodes, "trust": Trust.EXACT, "launches": made} | more
    return Kernel(ID, direction, name, KernelKind.CPP, **fields)


def built(*graphs: Graph, kernels: tuple[Kernel, ...]) -> Provenance:
    return Provenance.of(Recording(graphs=graphs, kernels=kernels))


def layers(count: int = 12) -> tuple[Graph, ...]:
    dynamo = [op(f"l{i}", 5, module=f"layers.{i}.attn", module_type="Attn") for i in range(count)]
    lowered = [op(f"a{i}", 5, origins=(f"l{i}",), module=f"layers.{i}.attn") for i in range(count)]
    return graph(GraphStage.DYNAMO, *dynamo), graph(GraphStage.POST_GRAD, *lowered)


def test_twelve_equal_layers_are_told_apart():
    provenance = built(*layers(), kernels=(kernel(*((f"a{i}",) for i in range(12))),))
    for i in range(12):
        matches = provenance.launches_of(provenance.in_module(f"layers.{i}").every)
        assert [(match.lineage.launch, match.lineage.modules) for match in matches] == [(i, (f"layers.{i}.attn",))]
    assert len(provenance.launches_of(provenance.in_module("layers").every)) == 12
    assert len(provenance.launches_of(provenance.at_line("/home/user/app/net.py", 5).direct)) == 12


def test_a_module_is_not_one_whose_name_begins_alike():
    provenance = built(*layers(), kernels=(kernel(*((f"a{i}",) for i in range(12))),))
    assert len(provenance.in_module("layers.1").every) == 1
    assert provenance.in_module("layer").every == ()
    assert len(provenance.in_module("layers.1.attn").direct) == 1


def test_launches_that_nobody_told_apart_are_the_kernels():
    several = kernel(("a0",), ("a1",))
    several = replace(several, launches=tuple(replace(launch, nodes=()) for launch in several.launches))
    (one,) = built(*layers(), kernels=(several,)).lineages
    assert one.launch is None
    assert one.called is None
    assert one.modules == ("layers.0.attn", "layers.1.attn")


def test_a_call_is_found_by_every_line_that_led_there():
    inner, outer, torch = at(9), at(3), at(80, "/usr/lib/python3/site-packages/torch/nn/functional.py")
    dynamo = graph(GraphStage.DYNAMO, replace(op("x"), source=(outer, inner, torch)))
    provenance = built(dynamo, graph(GraphStage.POST_GRAD, op("a", 9, origins=("x",))), kernels=(kernel(("a",)),))
    (one,) = provenance.lineages
    assert one.lines == (inner,)
    assert provenance.origins[0].stack == (outer, inner, torch)
    assert [origin.node for origin in provenance.at_line(outer.file, 3).calls] == ["x"]
    assert provenance.at_line(outer.file, 3).direct == ()
    assert [origin.node for origin in provenance.at_line(inner.file, 9).direct] == ["x"]
    assert provenance.at_line(torch.file, 80).every == ()


def test_the_weakest_link_counts():
    dynamo, lowered = layers(1)
    for changed in (
        ((replace(dynamo, origins=Trust.UNKNOWN), lowered), kernel(("a0",))),
        ((dynamo, replace(lowered, origins=Trust.TEXT)), kernel(("a0",))),
        ((dynamo, lowered), kernel(("a0",), trust=Trust.TEXT)),
    ):
        assert built(*changed[0], kernels=(changed[1],)).lineages[0].trust is Trust.TEXT
    assert built(dynamo, lowered, kernels=(kernel(("a0",)),)).lineages[0].trust is Trust.EXACT


def test_nodes_without_an_origin_give_no_link():
    nodes = (op("a", 0), op("b", 0))
    provenance = built(
        graph(GraphStage.DYNAMO, op("x")), graph(GraphStage.POST_GRAD, *nodes), kernels=(kernel(("a", "c")),)
    )
    (one,) = provenance.lineages
    assert (one.lines, one.modules, one.trust, one.lost) == ((), (), Trust.UNKNOWN, ("c",))


def test_without_its_graph_a_kernel_is_lost_and_not_guessed():
    (one,) = built(graph(GraphStage.DYNAMO, op("a")), kernels=(kernel(("a",)),)).lineages
    assert (one.nodes, one.lost, one.trust) == ((), ("a",), Trust.UNKNOWN)


def test_a_line_alone_is_taken_from_the_graphs_text_but_not_for_a_sum_of_gradients():
    lowered = graph(
        GraphStage.POST_GRAD_BACKWARD, op("copy", 4), op("add", 5, target="torch.ops.aten.add.Tensor", backward=True)
    )
    copy, add = built(lowered, kernels=(kernel(("copy",), ("add",), direction=Direction.BACKWARD),)).lineages
    assert (copy.lines, copy.trust) == ((at(4),), Trust.TEXT)
    assert add.lines == ()


def test_what_it_feeds_counts_only_where_a_launch_computes_nothing_else():
    dynamo = graph(GraphStage.DYNAMO, op("x", 1), op("y", 2))
    made = op("made", 0)
    lowered = graph(GraphStage.POST_GRAD, made, op("a", 1, "made", origins=("x",)), op("b", 2, origins=("y",)))
    alone, both = built(dynamo, lowered, kernels=(kernel(("made",), ("made", "b")),)).lineages
    assert (alone.lines, alone.deciding[0].role) == ((at(1),), Role.FEEDS)
    assert both.lines == (at(2),)
    made = built(dynamo, lowered, kernels=(kernel(("made", "b")),))
    assert made.launches_of(made.at_line(at(1).file, 1).direct) == ()


def test_what_feeds_half_the_graph_says_nothing():
    dynamo = graph(GraphStage.DYNAMO, *(op(f"x{i}", i + 1) for i in range(40)))
    users = (op(f"a{i}", i + 1, "made", origins=(f"x{i}",)) for i in range(40))
    (one,) = built(dynamo, graph(GraphStage.POST_GRAD, op("made", 0), *users), kernels=(kernel(("made",)),)).lineages
    assert one.lines == ()


def test_gradients_do_not_reach_through_the_sums_of_a_residual_stream():
    dynamo = graph(GraphStage.DYNAMO, *(op(f"x{i}", i + 1) for i in range(4)))
    adds = (op(f"add{i}", 0, f"add{i - 1}", target="torch.ops.aten.add.Tensor", backward=True) for i in range(4))
    grads = (op(f"g{i}", i + 1, f"add{i}", origins=(f"x{i}",), backward=True) for i in range(4))
    nodes = [node for pair in zip(adds, grads, strict=True) for node in pair]
    lowered = graph(GraphStage.POST_GRAD_BACKWARD, *nodes)
    first, *_ = built(dynamo, lowered, kernels=(kernel(("add0",), direction=Direction.BACKWARD),)).lineages
    assert first.lines == (at(1),)


def test_a_cached_graph_without_facts_has_those_of_the_aten_graph_for_the_nodes_that_it_kept():
    dynamo = graph(GraphStage.DYNAMO, op("x", 1, module="m"), op("y", 2))
    before = graph(GraphStage.AOT_FORWARD, op("a", 1, origins=("x",)), op("b", 1, origins=("x",)))
    made = op("b", 2, origins=("y",), target="torch.ops.aten.cos.default")
    lowered = graph(GraphStage.POST_GRAD, op("a", 1, origins=("y", "x")), made, trust=Trust.TEXT)
    kept, other = built(dynamo, before, lowered, kernels=(kernel(("a",), ("b",)),)).lineages
    assert (kept.lines, kept.modules, kept.trust) == ((at(1),), ("m",), Trust.EXACT)
    assert (other.lines, other.trust) == ((at(2),), Trust.TEXT)


def test_names_that_an_inner_graph_uses_too_are_told_apart_by_ops_or_not_at_all():
    dynamo = graph(GraphStage.DYNAMO, op("x", 1), op("y", 2))
    body = Subgraph("true_graph_0", (op("a", 2, origins=("y",), original_aten="aten.cos.default"),))
    lowered = graph(
        GraphStage.POST_GRAD, op("a", 1, origins=("x",), original_aten="aten.sin.default"), subgraphs=(body,)
    )
    told, untold = (kernel(("a",), name=name, aten=aten) for name, aten in (("k", ("aten.cos",)), ("l", ())))
    one, other = built(dynamo, lowered, kernels=(told, untold)).lineages
    assert (one.lines, one.trust) == ((at(2),), Trust.TEXT)
    assert (other.lines, other.lost) == ((), ("a",))


def test_a_launch_in_the_function_of_an_inner_graph_is_of_that_graph():
    dynamo = graph(GraphStage.DYNAMO, op("x", 1), op("y", 2), op("z", 3))
    bodies = (("true_graph_0", "y"), ("false_graph_0", "z"))
    inner = tuple(Subgraph(name, (op("mm", 2, origins=(origin,)),)) for name, origin in bodies)
    lowered = graph(GraphStage.POST_GRAD, op("add", 1, origins=("x",)), subgraphs=inner)
    code = "def false_graph_0(args):\n  mm()\ndef true_graph_0(args):\n  mm()\n\nclass Runner:\n  def call(self, args):\n  mm()"
    launches = tuple(Launch(line, (), (name,)) for line, name in ((2, "mm"), (4, "mm"), (8, "add")))
    called = kernel(("mm",), ("mm",), ("add",), launches=launches)
    recording = Recording(
        graphs=(dynamo, lowered), kernels=(called,), output_codes=(OutputCode(ID, Direction.FORWARD, code),)
    )
    lineages = Provenance.of(recording).lineages
    assert [one.lines for one in lineages] == [(at(3),), (at(2),), (at(1),)]
    assert {one.trust for one in lineages} == {Trust.EXACT}


def test_a_comment_names_dynamo_nodes_and_an_ambiguous_name_names_none():
    dynamo = graph(GraphStage.DYNAMO, op("x", 1), op("y", 2))
    lowered = graph(
        GraphStage.POST_GRAD_BACKWARD,
        op("y", 3, origins=("x",), backward=True),
        op("g", 1, origins=("x",), backward=True),
    )
    launches = tuple(Launch(i, (), source_nodes=(name,)) for i, name in enumerate(("x", "y", "g", "nobody")))
    commented = Kernel(ID, Direction.BACKWARD, "k", KernelKind.TRITON, launches=launches)
    x, y, g, nobody = built(dynamo, lowered, kernels=(commented,)).lineages
    assert (x.lines, x.trust, x.deciding[0].role) == ((at(1),), Trust.TEXT, Role.RECOMPUTES)
    assert (g.lines, g.trust, g.deciding[0].role) == ((at(1),), Trust.TEXT, Role.DIFFERENTIATES)
    assert (y.lines, nobody.lines) == ((), ())


def test_a_name_that_two_dynamo_graphs_of_a_compilation_have_tells_nothing():
    first, second = graph(GraphStage.DYNAMO, op("x", 1)), graph(GraphStage.DYNAMO, op("x", 2), op("y", 3), ordinal=1)
    lowered = graph(GraphStage.POST_GRAD, op("a", 0, origins=("x",)), op("b", 0, origins=("y",)))
    x, y = built(first, second, lowered, kernels=(kernel(("a",), ("b",)),)).lineages
    assert (x.lines, y.lines) == ((), (at(3),))


def test_views_are_known_as_such():
    views = (op("a", target="torch.ops.aten.permute.default"), op("b", target="operator.getitem"), op("c"))
    provenance = built(graph(GraphStage.POST_GRAD, *views), kernels=(kernel(("a", "b", "c")),))
    assert [traced.is_view for traced in provenance.lineages[0].nodes] == [True, True, False]


def test_a_line_is_found_by_the_end_of_its_files_path_if_one_file_has_it():
    here, there = at(9), at(3, "/home/user/lib/net.py")
    dynamo = graph(GraphStage.DYNAMO, replace(op("x"), source=(here,)), replace(op("y"), source=(there,)))
    provenance = built(dynamo, kernels=())
    assert [origin.node for origin in provenance.at_line(here.file, 9).direct] == ["x"]
    for text in ("app/net.py", "./app/net.py", "user/app/net.py"):
        assert provenance.at_line(text, 9) == provenance.at_line(here.file, 9)
    assert provenance.at_line("pp/net.py", 9).every == provenance.at_line("app/net.py", 10).every == ()
    short = built(dynamo, graph(GraphStage.DYNAMO, replace(op("z"), source=(at(1, "net.py"),))), kernels=())
    assert short.at_line("net.py", 9).every == ()
    with pytest.raises(UsageError, match=r"'net.py' is the end of several files"):
        provenance.at_line("net.py", 9)


@pytest.mark.parametrize(("outputs", "found"), [(("new",), ["x"]), (("new", "new"), [])])
def test_what_a_pass_put_in_place_of_an_output_is_that_output(outputs, found):
    """As where a pass of Inductor's moves a number of the CPU's: no origin is left, and the result is the same."""
    before = graph(GraphStage.AOT_INFERENCE, op("mul", 9, origins=("x",)), Node("output", "output", "output", ("mul",)))
    new = Node("new", "call_function", "torch.ops.aten.mul.Tensor", ("arg",))
    after = graph(GraphStage.POST_GRAD, new, Node("output", "output", "output", outputs))
    made = kernel(("new",), direction=Direction.INFERENCE)
    (one,) = built(graph(GraphStage.DYNAMO, op("x", 9)), before, after, kernels=(made,)).lineages
    assert [origin.node for origin in one.origins] == found


def test_nothing_is_an_empty_answer():
    provenance = Provenance.of(Recording())
    assert (provenance.lineages, provenance.origins, provenance.modules) == ((), (), ())
    assert provenance.at_line("a.py", 1).every == provenance.in_module("").every == ()


def test_following_twice_as_much_takes_twice_as_long(calls_of):
    def chain(size: int) -> Recording:
        dynamo = graph(GraphStage.DYNAMO, *(op(f"x{i}", i + 1, module=f"m.{i}") for i in range(size)))
        made = [op(f"c{i}", 0, f"c{i - 1}", "c0") for i in range(size)]
        users = [op(f"a{i}", i + 1, "c0", f"c{size - 1}", origins=(f"x{i}",)) for i in range(size)]
        lowered = graph(GraphStage.POST_GRAD, *made, *users)
        one = kernel(*((f"a{i}", f"c{i}") for i in range(size)))
        return Recording(graphs=(dynamo, lowered), kernels=(one, *(kernel((f"a{i}",)) for i in range(size))))

    small, large = (calls_of(partial(Provenance.of, chain(size))) for size in (200, 800))
    assert large < 5 * small


# -- live


def test_a_checkpointed_model_has_the_origins_of_each_layer():
    """Layers of one class share their lines; only the subgraphs' own nodes tell whose they are."""
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    import compiler_lens

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return torch.tanh(self.linear(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    with compiler_lens.Lens(strict=True) as lens:
        torch.compile(Net(), backend="aot_eager")(torch.randn(2, 4)).sum().backward()
    by_stage = {graph.stage: graph for graph in lens.recording.graphs}
    dynamo = by_stage[GraphStage.DYNAMO]
    assert [s.nodes[-2].module for s in dynamo.subgraphs] == ["layers.0", "layers.1"]
    for stage in (GraphStage.AOT_FORWARD, GraphStage.AOT_BACKWARD):
        modules = {
            node.module: node.origins[0] for node in by_stage[stage].ops if node.origins and "tanh" in node.origins[0]
        }
        assert modules == {f"layers.{i}": f"wrap_body_{i}.tanh" for i in range(2)}
