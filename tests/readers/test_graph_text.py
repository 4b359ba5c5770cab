"""Graphs read from torch's printing of them are the graphs that torch had."""

import json
from pathlib import Path

import pytest

from compiler_lens.decode.graph_text import read_graph
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, SourceLine, TensorSpec

PAYLOADS = Path(__file__).parent.parent / "payloads"
TEXTS = sorted(PAYLOADS.glob("*/graphs/*.txt"))


def read(text, name="dynamo_output_graph"):
    (graph,) = read_graph(Event(name, 0.0, text=text), CompileId(0, 0), {})
    return graph


def module(body, signature='self, x : "f32[2][1]cpu", y: "f32[2][1]cpu"', more=""):
    lines = "".join(f"        {line}\n" for line in body)
    return f"class GraphModule(torch.nn.Module):\n    def forward({signature}):\n{lines}{more}"


def nodes(body, **kwargs):
    return {node.name: node for node in read(module(body, **kwargs)).nodes}


def only(line, **kwargs):
    found = nodes([line], **kwargs)
    (node,) = [n for n in found.values() if n.op != "placeholder"]
    return node


def as_live(node):
    spec = node.specs[0] if node.specs else None
    shown = spec and [spec.dtype, [*map(str, spec.shape)], [*map(str, spec.stride)], spec.device]
    line = node.source[-1].line if node.source else None
    return [node.name, node.op, node.target, list(node.inputs), shown, line]


# -- real payloads, beside what the live graph said


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parts[-3]} {p.stem}")
def test_every_node_read_from_text_is_the_live_node(path):
    live = json.loads(path.with_suffix(".live.json").read_text())
    graph = read(path.read_text())
    assert [as_live(node) for node in graph.nodes] == live.pop("")
    assert {s.name: [as_live(node) for node in s.nodes] for s in graph.subgraphs} == live


def test_payloads_of_three_torch_versions_are_there():
    assert {path.parts[-3] for path in TEXTS} == {"2.11", "2.13", "2.15"}
    assert {path.stem.split(".")[1] for path in TEXTS} >= {
        "dynamo",
        "joint",
        "forward",
        "backward",
        "inference",
        "post_grad",
        "post_grad_backward",
    }


def test_the_text_is_kept_whole_with_the_events_name_and_attempt():
    text = (PAYLOADS / "2.13/graphs/branches.dynamo.txt").read_text()
    (graph,) = read_graph(Event("aot_joint_graph", 0.0, attempt=2, text=text), CompileId(1, 2), {})
    assert (graph.name, graph.code, graph.attempt, graph.compile_id) == ("aot_joint_graph", text, 2, CompileId(1, 2))


def test_graphs_of_higher_order_ops_do_not_mix_with_the_main_graph():
    graph = read((PAYLOADS / "2.13/graphs/branches.dynamo.txt").read_text())
    assert [s.name for s in graph.subgraphs] == ["wrap_body_0", "cond_true_0", "cond_false_0"]
    assert [n.target for n in graph.subgraphs[0].nodes if n.op == "call_function"] == ["operator.matmul", "torch.sin"]
    assert "sin" not in {n.name for n in graph.nodes}


def test_a_subgraph_of_a_subgraph_carries_both_names():
    inner = "    class outer(torch.nn.Module):\n        def forward(self, a):\n            return (a,)\n\n"
    inner += "        class inner(torch.nn.Module):\n            def forward(self, b):\n                return (b,)\n"
    inner += "\n    class other(torch.nn.Module):\n        def forward(self, c):\n            return (c,)\n"
    graph = read(module(["return (x,)"], more="\n" + inner))
    assert [(s.name, s.nodes[0].name) for s in graph.subgraphs] == [
        ("outer", "a"),
        ("outer.inner", "b"),
        ("other", "c"),
    ]


def test_nodes_carry_the_users_line():
    graph = read((PAYLOADS / "2.13/graphs/sizes.dynamo.txt").read_text())
    topk = next(n for n in graph.nodes if n.name == "topk")
    assert topk.source == (SourceLine("/home/user/app/ex.py", 43, "sizes", "best, where = torch.topk(x, 2)"),)


# -- forms of a line


@pytest.mark.parametrize(
    ("expression", "op", "target", "inputs"),
    [
        ("torch.ops.aten.add.Tensor(x, y)", "call_function", "torch.ops.aten.add.Tensor", ("x", "y")),
        ("x.view(-1, 2)", "call_method", "view", ("x",)),
        ("x.add(y, alpha = 2)", "call_method", "add", ("x", "y")),
        ("self.weight", "get_attr", "weight", ()),
        ("self.block.weight", "get_attr", "block.weight", ()),
        ("self.block.layer(x)", "call_module", "block.layer", ("x",)),
        ('getattr(self.layers, "0").weight', "get_attr", "layers.0.weight", ()),
        ('getattr(getattr(self.layers, "0"), "a-b")(x, y)', "call_module", "layers.0.a-b", ("x", "y")),
        ("x.shape", "call_function", "getattr", ("x",)),
        ("getattr(x, 'grad', None)", "call_function", "getattr", ("x",)),
        ("x[0]", "call_function", "operator.getitem", ("x",)),
        ("x[(slice(None, None, None), y)]", "call_function", "operator.getitem", ("x", "y")),
        ("(x, y)[0]", "call_function", "operator.getitem", ("x", "y")),
        ("x + y", "call_function", "operator.add", ("x", "y")),
        ("2 ** y", "call_function", "operator.pow", ("y",)),
        ("-1 * y", "call_function", "operator.mul", ("y",)),
        ("x @ y", "call_function", "operator.matmul", ("x", "y")),
        ("x / 2", "call_function", "operator.truediv", ("x",)),
        ("x == y", "call_function", "operator.eq", ("x", "y")),
        ("(x, 1) == y", "call_function", "operator.eq", ("x", "y")),
        ("x << y", "call_function", "operator.lshift", ("x", "y")),
        ("-x", "call_function", "operator.neg", ("x",)),
        ("~x", "call_function", "operator.invert", ("x",)),
        ("math_floor(x)", "call_function", "math.floor", ("x",)),
        ("_operator_index(x)", "call_function", "operator.index", ("x",)),
        ("torch.sym_max(x, 1)", "call_function", "torch.sym_max", ("x",)),
        (
            "torch.ops.higher_order.cond(x, y, {'k': [y]}, (x,))",
            "call_function",
            "torch.ops.higher_order.cond",
            ("x", "y"),
        ),
    ],
)
def test_an_expression_is_the_node_that_fx_printed_so(expression, op, target, inputs):
    node = only(f'a: "f32[2][1]cpu" = {expression};  x = y = None')
    assert (node.name, node.op, node.target, node.inputs) == ("a", op, target, inputs)


@pytest.mark.parametrize(
    ("line", "target", "arguments"),
    [
        ("x += y;  iadd = x;  x = y = iadd = None", "operator.iadd", "x, y"),
        ('x //= 2;  b: "f32[2][1]cpu" = x', "operator.ifloordiv", "x, 2"),
        ("x[0] = y;  setitem = x;  setitem = None", "operator.setitem", "x, 0, y"),
        ("x[(0, slice(1, None, None))] = 1.0;  setitem = x", "operator.setitem", "x, (0, slice(1, None, None)), 1.0"),
    ],
)
def test_operators_in_place_are_nodes_too(line, target, arguments):
    node = only(line)
    assert (node.op, node.target, node.arguments) == ("call_function", target, arguments)


def test_a_name_that_is_a_keyword_an_attribute_or_in_a_string_is_no_input():
    signature = "self, x, scale, float32, none, dim"
    line = "a = f(x, 'none', \"dim\", torch.float32, device(type='scale'), scale = 0.5, dim = dim)"
    assert only(line, signature=signature).inputs == ("x", "dim")


def test_arguments_are_kept_as_printed_with_the_receiver_of_a_method_first():
    assert only("a = x.view(2, -1);  x = None").arguments == "x, 2, -1"
    assert only("a = torch.add(x, y, alpha = 2);  x = y = None").arguments == "x, y, alpha = 2"


def test_a_string_that_looks_like_the_end_of_a_line_stays_an_argument():
    node = only("a = f(x, ';  y = None');  x = None")
    assert (node.inputs, node.arguments) == (("x",), "x, ';  y = None'")


def test_an_argument_printed_over_several_lines_stays_one_node():
    found = nodes(["a = f(x, Spec(", "  b = 1,", "));  x = None", "c = g(a, y);  a = y = None", "return (c,)"])
    assert [n for n in found if found[n].op == "call_function"] == ["a", "c"]
    assert found["c"].inputs == ("a", "y")


def test_a_node_of_a_python_type_has_no_spec():
    assert only("a : torch.SymInt = torch.sym_int(x)").specs == ()
    assert only('a: "Sym(Max(1, u0))" = torch.sym_max(x, 1)').specs == ()


@pytest.mark.parametrize(
    ("annotation", "spec"),
    [
        ("f32[][]cpu", TensorSpec("f32", (), (), "cpu")),
        ("bf16[s0, 64][64, 1]cuda:0", TensorSpec("bf16", ("s0", 64), (64, 1), "cuda:0")),
        (
            "i64[Max(1, u0), 3*s1][1, Max(1, u0)]cpu",
            TensorSpec("i64", ("Max(1, u0)", "3*s1"), (1, "Max(1, u0)"), "cpu"),
        ),
        ("f32[((s0//2)), 2]", TensorSpec("f32", ("((s0//2))", 2))),
        ("DTensor(f32[4, 8][8, 1]cuda:1, S(0)R)", TensorSpec("f32", (4, 8), (8, 1), "cuda:1")),
    ],
)
def test_shapes_keep_their_symbols(annotation, spec):
    assert only(f'a: "{annotation}" = torch.sin(x)').specs == (spec,)


def test_placeholders_go_by_the_name_that_nodes_read():
    found = nodes(
        ["l_x_ = L_x_", "a = l_x_ + s0;  l_x_ = None"], signature='self, s0: "Sym(s0)", L_x_: "f32[s0][1]cpu"'
    )
    assert list(found) == ["s0", "l_x_", "a"]
    assert (found["l_x_"].op, found["l_x_"].target, found["l_x_"].specs[0].shape) == ("placeholder", "L_x_", ("s0",))
    assert found["a"].inputs == ("l_x_", "s0")


def test_signatures_with_defaults_stars_and_types_are_read():
    signature = "self, a : list, b: \"f32[2, 3]\" = (1, 'x, y'), c : typing_Optional[torch.Tensor] = None, *rest"
    found = nodes(["return (rest,)"], signature=signature)
    assert [(n.name, n.target, n.arguments) for n in found.values() if n.op == "placeholder"] == [
        ("a", "a", ""),
        ("b", "b", "(1, 'x, y')"),
        ("c", "c", "None"),
        ("rest", "*rest", ""),
    ]


def test_boxed_calls_name_their_inputs_in_the_body():
    body = [
        "args_iter = iter(args_list)",
        "p = next(args_iter)",
        "q = next(args_iter)",
        "args_list.clear()",
        "a = p + q",
    ]
    found = nodes(body, signature="self, args_list")
    assert [(n.name, n.op) for n in found.values()] == [
        ("p", "placeholder"),
        ("q", "placeholder"),
        ("a", "call_function"),
    ]


def test_arguments_boxed_on_their_own_line_belong_to_the_call():
    body = ["a_boxed_arg_0 = [x, y];  x = y = None", "a = torch.cat(a_boxed_arg_0, 1);  a_boxed_arg_0 = None"]
    node = only("\n        ".join(body))
    assert (node.name, node.inputs, node.arguments) == ("a", ("x", "y"), "[x, y], 1")


def test_the_output_is_a_node_whatever_others_are_called():
    found = nodes(["output = x + y;  x = y = None", "return (output, None)"])
    assert (found["output_1"].op, found["output_1"].inputs) == ("output", ("output",))


def test_an_output_over_several_lines_loses_only_its_comments():
    found = nodes(
        ["a = x + y", "return pytree.tree_unflatten([", "    a,  # Grad(y)", "    None,  # None", "], self._out_spec)"]
    )
    assert (found["output"].inputs, found["output"].arguments) == (("a",), "[a, None]")


def test_a_comment_holds_until_the_next_one():
    body = [
        "# File: a.py:1 in f, code: u",
        "a = x + y",
        "b = a + y",
        "# No stacktrace found for following nodes",
        "c = b + y",
    ]
    body += ["# Annotation: {'k': 1} ac_graph_id: 2 - MUST_SAVE File: b.py:7 in <lambda>, code: v, w: 2", "d = c + y"]
    found = nodes(body)
    assert found["a"].source == found["b"].source == (SourceLine("a.py", 1, "f", "u"),)
    assert found["c"].source == ()
    assert found["d"].source == (SourceLine("b.py", 7, "<lambda>", "v, w: 2"),)


def test_torch_2_15_says_which_nodes_are_gradients():
    body = [
        "# File: a.py:1 in f, code: u",
        "a = x + y",
        "# Backward of forward node: File: a.py:1 in f, code: u",
        "b = a + y",
    ]
    found = nodes(body)
    assert (found["a"].backward, found["b"].backward) == (False, True)
    assert found["b"].source == found["a"].source


def test_metadata_printed_between_nodes_is_no_node():
    found = nodes(["a = x + y", '"""', "val: 'b = c'", '"""', "d = a + y"])
    assert [n for n in found if found[n].op == "call_function"] == ["a", "d"]


def test_a_graph_without_any_op_is_a_graph():
    assert [n.op for n in read(module(["pass"])).nodes] == ["placeholder", "placeholder"]


@pytest.mark.parametrize("text", [None, "", "no graph", "class GraphModule(torch.nn.Module):\n    x = 1\n"])
def test_what_is_no_graph_is_a_payload_error(text):
    with pytest.raises(PayloadError):
        read(text)


def test_reading_is_linear_in_the_graph(calls_of):
    def calls(count):
        body = ["# File: a.py:1 in f, code: u"]
        body += [
            f'a{i}: "f32[2][1]cpu" = torch.ops.aten.add.Tensor(x, y, alpha = {i});  b = None' for i in range(count)
        ]
        text = module([*body, "return (x,)"])
        return calls_of(lambda: read(text))

    assert calls(8000) < 1.2 * 4 * calls(2000)
