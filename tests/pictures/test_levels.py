"""The laws of the tree of levels, for graphs of all kinds."""

from __future__ import annotations

from collections import Counter

import made
import pytest
from msgspec.structs import replace

from compiler_lens import draw
from compiler_lens.facts.graphs.graph_choice import choose_module
from compiler_lens.facts.graphs.level_tree import GroupKind
from compiler_lens.facts.graphs.levels import LIMIT, BoxKind, levels
from compiler_lens.facts.kernels.graph_flow import Role, Value
from compiler_lens.recording.model import Compilation, GraphStage, Node, Outcome, Recording, SavedTensor, SourceLine
from compiler_lens.views.picture.labels import tooltip

REAL = [
    "trig",
    "broken",
    "gpt-default-cold",
    "gpt-max-autotune-warm",
    "resnet-max-autotune-cold",
    "oddities-reduce-overhead-cold",
    "hops",
    "hops-kernels",
    "ddp",
]


def all_levels():
    for name in REAL:
        recording = made.recorded(name)
        for graph in recording.graphs:
            yield f"{name} {graph.compile_id} {graph.stage.value}", levels(recording, graph)
            if graph.stage in {GraphStage.POST_GRAD, GraphStage.POST_GRAD_BACKWARD}:
                yield f"{name} {graph.compile_id} {graph.stage.value} kernels", levels(recording, graph, kernels=True)
    for name, ops in {
        "chain": made.chain(1000),
        "blocks": made.blocks(48),
        "many blocks of two kinds": [*made.blocks(5), *made.chain(3)],
        "wild": made.wild(700),
        "wilder": made.wild(3000, seed=5),
        "one": made.chain(1),
        "none": [],
        "one line": made.chain(500, source=(SourceLine("m.py", 3, "f", "y"),)),
        "deep": made.chain(90, module=".".join("abcdefgh" * 30)),
    }.items():
        yield name, made.levels_of(ops)
    wide = [made.op(f"p{k}", "x") for k in range(300)]
    yield "wide", made.levels_of(wide, outputs=[node.name for node in wide])
    inputs = tuple(f"i{k}" for k in range(200))
    yield "inputs", made.levels_of([made.op(f"q{k}", name) for k, name in enumerate(inputs)], inputs=inputs)


CASES = dict(all_levels())


@pytest.fixture(params=CASES, ids=str)
def known(request):
    return CASES[request.param]


def within(group):
    for child in group.children:
        if isinstance(child, int):
            yield child
        else:
            yield from within(child)


def test_every_op_is_in_exactly_one_leaf(known):
    names = Counter(node.name for step in known.flow.steps for node in step.nodes)
    assert list(within(known.root)) == list(range(len(known.flow.steps)))
    assert max(names.values(), default=1) == 1
    assert {name for name in names if "." not in name} == {node.name for node in known.flow.graph.ops}
    assert sum(names.values()) == sum(known.op_count(known.root))


def test_no_two_groups_have_one_identity(known):
    assert max(Counter(group.id for group in known.root.walk()).values()) == 1


def test_every_step_reads_only_what_earlier_ones_made(known):
    for number, step in enumerate(known.flow.steps):
        for name in step.reads:
            assert known.flow.makers.get(name, -1) < number
            assert name in known.flow.makers or name in known.flow.inputs, name


def test_no_level_is_above_the_limit(known):
    assert max(len(known.level(group).boxes) for group in known.groups()) <= LIMIT <= 80


def test_the_boxes_of_a_level_hold_its_ops_folded_ones_included(known):
    for group in known.groups():
        boxes = [box for box in known.level(group).boxes if box.kind in {BoxKind.OP, BoxKind.GROUP}]
        held = [node.name for box in boxes for node in box.nodes]
        steps = known.flow.steps[group.first : group.last]
        assert held == [node.name for step in steps for node in step.nodes]
        for box in boxes:
            each = {1 if isinstance(member, int) else len(member) for member in box.members}
            assert len(each) == 1
            assert box.repeats == len(box.members)


def test_the_edges_of_a_level_are_those_of_the_graph_between_its_boxes(known):
    for group in known.groups():
        level = known.level(group)
        owner = {
            node.name: number
            for number, box in enumerate(level.boxes)
            if box.kind in {BoxKind.OP, BoxKind.GROUP}
            for node in box.nodes
        }
        expected = {
            (owner[read], owner[step.node.name], read)
            for step in known.flow.steps
            if step.node.name in owner
            for read in (step.reads if known.flow.graph.subgraphs else step.node.inputs)
            if read in owner and owner[read] != owner[step.node.name]
        }
        found = {
            (edge.source, edge.target, value.name)
            for edge in level.edges
            for value in edge.values
            if level.boxes[edge.source].kind in {BoxKind.OP, BoxKind.GROUP}
            and level.boxes[edge.target].kind in {BoxKind.OP, BoxKind.GROUP}
        }
        assert found == expected


def test_edges_never_go_in_a_circle(known):
    for group in known.groups():
        level = known.level(group)
        kinds = [box.kind for box in level.boxes]
        for edge in level.edges:
            inner = kinds[edge.source] is not BoxKind.INPUT and kinds[edge.target] is not BoxKind.OUTPUT
            assert edge.source < edge.target or not inner


def test_what_comes_in_is_in_a_box_or_noted_where_it_is_read(known):
    for group in known.groups():
        level = known.level(group)
        steps = known.flow.steps[group.first : group.last]
        made_here = {node.name for step in steps for node in step.nodes}
        read = {name for step in steps for name in step.reads} - made_here
        elsewhere = {
            name for name, (first, last) in known.flow.local.items() if not first <= group.first <= group.last <= last
        }
        known_names = read & (set(known.flow.inputs) - elsewhere | set(known.flow.makers))
        shown = {node.name for box in level.boxes if box.kind is BoxKind.INPUT for node in box.nodes}
        noted = {value.node.name for box in level.boxes for value in box.reads}
        assert shown | noted == known_names
        assert not shown & noted


# -- single facts


def test_equal_blocks_fold_into_one_box():
    level = made.levels_of(made.blocks(12)).level()
    (box,) = [box for box in level.boxes if box.kind is BoxKind.GROUP]
    assert (box.repeats, box.group.label, len(box.nodes)) == (12, "layers.0", 96)


def test_a_block_that_differs_stands_by_itself():
    ops = made.blocks(12)
    ops[40] = replace(ops[40], target="torch.other")
    level = made.levels_of(ops).level()
    assert [(box.repeats, box.group.label) for box in level.boxes if box.group] == [
        (5, "layers.0"),
        (1, "layers.5"),
        (6, "layers.6"),
    ]


def test_blocks_that_are_wired_differently_are_not_alike():
    ops = made.blocks(4)
    ops[12] = replace(ops[12], inputs=(ops[8].name,))  # in layers.1, past three ops
    level = made.levels_of(ops).level()
    assert [box.repeats for box in level.boxes if box.group] == [1, 1, 2]


def test_a_module_called_twice_is_two_boxes():
    ops = [made.op("a", "x", module="act"), made.op("a2", "a", module="act"), made.op("b", "a2")]
    ops += [made.op("c", "b", module="act"), made.op("c2", "c", module="act")]
    level = made.levels_of(ops).level()
    assert [box.group.label if box.group else box.nodes[0].name for box in level.boxes[:3]] == ["act", "b", "act"]


def test_a_module_of_one_op_is_that_op():
    level = made.levels_of([made.op("a", "x", module="m.norm"), made.op("b", "a", module="m.up")]).level()
    assert [box.kind for box in level.boxes[:2]] == [BoxKind.GROUP, BoxKind.INPUT]
    (inner,) = [box.group for box in level.boxes if box.group]
    assert inner.label == "m"
    assert not any(isinstance(child, int) is False for child in inner.children)


def test_a_long_function_without_modules_falls_into_lines():
    ops = [
        replace(node, source=(SourceLine("m.py", 10 + k // 20, "f", f"y{k // 20} = …"),))
        for k, node in enumerate(made.chain(200))
    ]
    level = made.levels_of(ops).level()
    assert [box.group.label for box in level.boxes if box.group] == [f"m.py:{10 + k}" for k in range(10)]
    assert {box.group.kind for box in level.boxes if box.group} == {GroupKind.LINE}


def test_lines_of_a_function_that_another_one_calls_are_its_own():
    outer = SourceLine("m.py", 3, "f", "return inner(y)")
    ops = [
        replace(node, source=(outer, SourceLine("m.py", 10 + k // 20, "inner", f"y{k // 20} = y.sin()")))
        for k, node in enumerate(made.chain(200))
    ]
    svg = draw(Recording(graphs=(made.graph_of(ops),)), "dynamo").svg
    assert ">m.py:10<" in svg
    assert ">y0 = y.sin()<" in svg
    assert ">return inner(y)<" not in svg


@pytest.mark.parametrize(("depth", "groups"), [(39, 39), (40, 40), (41, 40), (90, 40)])
def test_modules_within_modules_are_opened_so_far_and_the_rest_is_one(depth, groups):
    names = [f"m{k}" for k in range(depth)]
    paths = [".".join(names[: k + 1]) for k in range(groups - 1)] + [".".join(names)]
    ops, last = [], "x"
    for path in paths:
        for part in "ab":
            ops.append(made.op(f"{part}{path.count('.')}", last, module=path))
            last = ops[-1].name
    group, labels = made.levels_of(ops).root, []
    while inner := [child for child in group.children if not isinstance(child, int)]:
        (group,) = inner
        labels.append(group.label)
    assert (len(labels), ".".join(labels), group.module) == (groups, paths[-1], paths[-1])


def test_parameters_are_no_boxes():
    weight = Node("w", "placeholder", "L_self_modules_up_parameters_weight_", specs=made.SPEC)
    graph = made.graph_of([made.op("a", "x", "w")])
    graph = replace(graph, nodes=(weight, *graph.nodes))
    level = levels(Recording(graphs=(graph,)), graph).level()
    assert [(value.label, value.role) for value in level.boxes[0].reads] == [("weight", Role.PARAMETER)]
    assert [box.kind for box in level.boxes] == [BoxKind.OP, BoxKind.INPUT, BoxKind.OUTPUT]


def test_saved_tensors_are_noted_in_the_box_that_makes_them():
    saved = (SavedTensor("n0", made.SPEC[0], is_input=False),)
    graph = made.graph_of(made.chain(2), outputs=["n1", "n0"], stage=GraphStage.AOT_FORWARD, saved=saved)
    level = levels(Recording(graphs=(graph,)), graph).level()
    assert [(value.node.name, value.role) for value in level.boxes[0].gives] == [("n0", Role.SAVED)]
    assert [box.nodes[0].name for box in level.boxes if box.kind is BoxKind.OUTPUT] == ["n1"]


def test_sizes_behind_the_saved_tensors_make_no_results_of_them():
    """Where shapes are dynamic, the backward is given sizes as well."""
    saved = (SavedTensor("n0", made.SPEC[0], is_input=False),)
    size = made.op("size", "x", target="torch.ops.aten.sym_size.int", specs=())
    graph = made.graph_of(
        [*made.chain(2), size], outputs=["n1", "n0", "size"], stage=GraphStage.AOT_FORWARD, saved=saved
    )
    level = levels(Recording(graphs=(graph,)), graph).level()
    assert [box.nodes[0].name for box in level.boxes if box.kind is BoxKind.OUTPUT] == ["n1"]
    assert [value.node.name for box in level.boxes for value in box.gives] == ["n0"]


def test_a_result_that_is_saved_too_is_still_a_result():
    saved = (SavedTensor("n1", made.SPEC[0], is_input=False),)
    graph = made.graph_of(made.chain(2), outputs=["n1", "n1"], stage=GraphStage.AOT_FORWARD, saved=saved)
    level = levels(Recording(graphs=(graph,)), graph).level()
    assert [box.nodes[0].name for box in level.boxes if box.kind is BoxKind.OUTPUT] == ["n1"]
    assert [value.role for value in level.boxes[1].gives] == [Role.SAVED]


def test_inputs_have_the_names_of_the_author_in_the_aten_graphs_too():
    recording = made.recorded("trig")
    backward = next(graph for graph in recording.graphs if graph.stage is GraphStage.AOT_BACKWARD)
    ends = [box for box in levels(recording, backward).level().boxes if box.values]
    assert {(box.values[0].role, box.values[0].label) for box in ends} == {
        (Role.SAVED, "x"),
        (Role.TANGENT, "gradient of output 1"),
        (Role.RESULT, "gradient of x"),
    }


def test_sums_of_gradients_stand_in_the_module_around_them():
    recording = made.recorded("gpt-default-cold")
    joint = next(graph for graph in recording.graphs if graph.stage is GraphStage.AOT_BACKWARD)
    assert not [
        box for box in levels(recording, joint).level().boxes if box.kind is BoxKind.OP and not box.nodes[0].source
    ]


def test_kernels_hold_the_ops_of_their_launch():
    recording = made.recorded("trig")
    graph = next(graph for graph in recording.graphs if graph.stage is GraphStage.POST_GRAD)
    (box,) = [box for box in levels(recording, graph, kernels=True).level().boxes if box.group]
    assert box.group.kernel.name == box.group.label == "cpp_fused_add_cos_pow_sin_0"
    assert {node.name for node in box.nodes} == set(box.group.kernel.launches[0].nodes)


def test_every_launch_with_ops_is_a_box():
    recording = made.recorded("gpt-default-cold")
    graph = next(graph for graph in recording.graphs if graph.stage is GraphStage.POST_GRAD)
    known = levels(recording, graph, kernels=True)
    kernels = Counter(group.kernel.name for group in known.groups() if group.kernel)
    forward = {kernel.name for kernel in recording.kernels if kernel.direction.value == "forward"}
    assert set(kernels) <= forward
    assert len(kernels) >= 10


def test_growth_is_nearly_linear(calls_of):
    def every_level(ops):
        known = made.levels_of(ops)
        return [known.level(group) for group in known.groups()]

    def work(count):
        ops = made.blocks(count, width=12)
        ops = [replace(node, target=f"{node.target}{k}") for k, node in enumerate(ops)]  # nothing folds
        return calls_of(lambda: every_level(ops))

    assert work(400) / work(100) < 6


def test_a_result_that_is_read_on_is_one_box():
    ops = [made.op("a", "x", module="m"), made.op("b", "a", module="m"), made.op("c", "b")]
    known = made.levels_of(ops, outputs=["b", "c"])
    inner = next(group for group in known.groups() if group.module == "m")
    ends = [box for box in known.level(inner).boxes if box.kind is BoxKind.OUTPUT]
    assert [(box.nodes[0].name, box.places) for box in ends] == [("b", ())]


def test_a_backward_has_its_own_kernels():
    recording = made.recorded("trig")
    graph = next(graph for graph in recording.graphs if graph.stage is GraphStage.POST_GRAD_BACKWARD)
    known = levels(recording, graph, kernels=True)
    assert {group.kernel.name for group in known.groups() if group.kernel} == {"cpp_fused_add_cos_mul_neg_pow_sin_0"}


def test_what_is_only_saved_stands_with_its_module():
    """torch puts such views, and the copies into a batch norm's statistics, at the end of the graph."""
    ops = [made.op("a", "x", module="m.one"), made.op("b", "a", module="m.one"), made.op("c", "b", module="m.two")]
    tail = [made.op("t", "a", module="m.one"), made.op("t2", "t", module="m.one")]
    saved = (SavedTensor("t2", made.SPEC[0], is_input=False),)
    graph = made.graph_of([*ops, *tail], outputs=["c", "t2"], stage=GraphStage.AOT_FORWARD, saved=saved)
    known = levels(Recording(graphs=(graph,)), graph)
    assert [step.node.name for step in known.flow.steps] == ["a", "b", "t", "t2", "c"]


def test_what_reads_later_values_stays_where_it_is():
    ops = [made.op("a", "x", module="m"), made.op("b", "a", module="n"), made.op("t", "b", module="m")]
    ops.append(made.op("c", "b", module="n"))
    saved = (SavedTensor("t", made.SPEC[0], is_input=False),)
    graph = made.graph_of(ops, outputs=["c", "t"], stage=GraphStage.AOT_FORWARD, saved=saved)
    known = levels(Recording(graphs=(graph,)), graph)
    assert [step.node.name for step in known.flow.steps] == ["a", "b", "t", "c"]


def test_inputs_of_a_wrapper_have_the_names_of_its_function():
    given = [
        Node(name, "placeholder", target, specs=made.SPEC)
        for name, target in (("l_args_0_", "L_args_0_"), ("l_args_7_", "L_args_7_"), ("k", "L_kwargs_input_ids_"))
    ]
    graph = made.graph_of([made.op("a", "l_args_0_", "l_args_7_", "k")])
    graph = replace(graph, nodes=(*given, *graph.nodes))
    compiled = Compilation(made.ID, "inner", "f.py", 1, Outcome.COMPILED, parameters=("tokens", "mask"))
    known = levels(Recording(graphs=(graph,), compilations=(compiled,)), graph)
    assert [known.flow.inputs[node.name].label for node in given] == ["tokens", "args_7", "input_ids"]


def test_modules_are_found_by_their_ends_and_where_they_are_no_group():
    ops = made.blocks(3)
    known = made.levels_of(ops)
    assert choose_module(known, "layers.1").module == "layers.1"
    assert choose_module(known, "1.part1").module == "layers.1.part1"
    ops += [made.op("one", "b2_7", module="head.norm"), made.op("two", "one", module="tail")]
    known = made.levels_of(ops)
    group = choose_module(known, "norm")  # a single op, which is a box of its own module's level
    assert [node.name for step in known.flow.steps[group.first : group.last] for node in step.nodes] == ["one"]


def test_a_tooltip_has_an_end():
    box = next(box for box in made.levels_of(made.blocks(12)).level().boxes if box.group)
    many = replace(box, reads=tuple(Value(node, Role.PARAMETER, node.name) for node in box.nodes))
    told = tooltip(many).split("\n")
    assert len(told) == 41
    assert told[-1].startswith("… ")
