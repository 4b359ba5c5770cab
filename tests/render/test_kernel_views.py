"""Kernels, one kernel and a line, in the terminal and as JSON: from the user's line to the launch, and back."""
# ruff: noqa: RUF001 -- the sign that the views print

import json
import re
from functools import cache
from pathlib import Path

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.cli import main
from compiler_lens.facts.kernels.lineage import Role
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.program.select import Selection
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
    SourceLine,
    Trust,
)
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for
from compiler_lens.render.json import view_json
from compiler_lens.views import lineage
from compiler_lens.views.lineage import folded_modules
from compiler_lens.views.text import microseconds

DATA = Path(__file__).parent.parent / "gpu/data"
ID = CompileId(0, 0)
LINE = SourceLine("/home/user/net.py", 3, "forward", "y = x.sin()")
HOSTILE = "\x1b[2Jl\u202eine\n\x07"


@cache
def gpt(name: str = "gpt-default-profiled.clens.gz") -> Recording:
    return load(DATA / name, strict=True)


def shown(recording: Recording, name: str, *, width: int = 100, **selection: str) -> str:
    return view(recording, name, page_for(recording, width=width, color=False), Selection(**selection))


def data(recording: Recording, name: str, **selection: str) -> dict:
    return json.loads(view_json(recording, name, Selection(**selection)))


def layers(count: int = 12, name: str = "/home/user/app/net.py", code: str = "return self.proj(x)") -> Recording:
    """As many equal layers, each with its own launch of the one kernel."""
    at = (SourceLine(name, 5, "forward", code),)
    dynamo = tuple(
        Node(f"l{i}", "call_function", "torch.sin", source=at, module=f"layers.{i}.attn") for i in range(count)
    )
    lowered = tuple(
        Node(f"a{i}", "call_function", "torch.ops.aten.sin.default", origins=(f"l{i}",)) for i in range(count)
    )
    launches = tuple(Launch(100 + i, (f"buf{i}",), (f"a{i}",)) for i in range(count))
    graphs = (
        Graph(ID, stage, "", nodes, origins=Trust.EXACT)
        for stage, nodes in ((GraphStage.DYNAMO, dynamo), (GraphStage.POST_GRAD, lowered))
    )
    kernel = Kernel(
        ID,
        Direction.FORWARD,
        "cpp_fused_sin_0",
        KernelKind.CPP,
        nodes=tuple(n.name for n in lowered),
        trust=Trust.EXACT,
        launches=launches,
    )
    return Recording(graphs=tuple(graphs), kernels=(kernel,))


def took(kernel: str) -> str:
    """What the launches of one kernel of `gpt` take in a call, added up from the recording itself."""
    launches = [t for t in gpt().profiles[-1].launches if t.kernel.endswith((f".{kernel}", f"_{kernel}"))]
    return microseconds(sum(t.microseconds * t.runs for t in launches))


# -- folding


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        ([f"layers.{i}.norm" for i in range(12)], ["layers.0…11.norm ×12"]),
        (["layers.3.norm"], ["layers.3.norm"]),
        (["layers.0.norm", "layers.2.norm"], ["layers.*.norm ×2"]),
        ([f"a.{i}.b.{j}" for i in range(2) for j in range(2)], ["a.*.b.* ×4"]),
        ([f"a.1.b.{j}" for j in range(3)], ["a.1.b.0…2 ×3"]),
        (["norm_1", "norm_2"], ["norm_1", "norm_2"]),
        (["0", "1"], ["0…1 ×2"]),
        ([], []),
    ],
)
def test_modules_that_differ_in_a_number_are_told_once(paths, told):
    assert folded_modules(paths) == told


# -- all kernels


def test_kernels_come_with_lines_modules_memory_and_time():
    text = shown(gpt(), "kernels")
    assert f"of the {microseconds(gpt().profiles[-1].busy_microseconds)} that the device works in a call" in text
    first = text.split("\n  extern_kernels.mm\n")[1].split("\n")
    assert first[0] == f"      [0/0] backward  {took('mm')}, extern, 1 op, 8 launches, 76.0 MiB, 25.8 GFLOPs"
    assert first[1].startswith("      models.py:22, 24, 25 of net.down, net.up +2  mm")


def test_kernels_that_compute_the_same_are_one_entry_with_all_names():
    text = shown(gpt(), "kernels", width=140)
    assert "  triton_poi_fused__to_copy_3  ×3\n" in text
    assert "the same: triton_poi_fused__to_copy_8, triton_poi_fused__to_copy_13\n" in text


def test_kernels_of_a_module_count_its_launches_alone():
    text = shown(layers(), "kernels", place="layers.3")
    assert text.startswith("Kernels  1 with 1 launch: 1 C++\n")
    assert "net.py:5 of layers.3.attn" in text
    assert shown(layers(), "kernels", place="net.py:5").startswith("Kernels  1 with 12 launches: 1 C++\n")


# -- one kernel


def test_a_kernel_is_followed_from_the_line_to_the_launch():
    text = shown(gpt(), "kernel", kernel="gelu_view_8")
    tree = text.partition("known from the compiler itself\n")[2].partition("  1 launch")[0]
    assert tree.split("\n")[:4] == [
        "    models.py:25  return x + self.down(F.gelu(self.up(self.norm_2(x))))",
        "      net  Block",
        "        gelu → gelu: convert_element_type_18, mul_6, mul_4, convert_element_type_17, add_5, erf +1",
        "      net.up  Linear",
    ]
    for direction in (
        "reads 8.0 MiB in 1 buffer",
        "writes 8.0 MiB in 1 buffer",
        f"takes {took('gelu_view_8')} a call, in 1 run",
        "not fused with",
    ):
        assert direction in text
    assert text.index("takes ") < text.index("not fused") < text.index("import triton")


def test_a_backward_kernel_says_what_it_differentiates_and_what_it_computes_again():
    text = shown(gpt(), "kernel", kernel="norm_backward_view_6")
    assert "gradient of layer_norm → native_layer_norm_backward: " in text
    assert "layer_norm, recomputed → native_layer_norm: " in text
    assert "added by the compiler, goes into add → add: add_9" in text


def layout(*generated: str) -> Recording:
    """A convolution of a library's, and a kernel before it that Inductor counts to it."""
    targets = {"convolution": "torch.ops.aten.convolution.default", "relu": "torch.ops.aten.relu.default"}
    nodes = tuple(Node(name, "call_function", target) for name, target in targets.items())
    graph = Graph(ID, GraphStage.POST_GRAD, "", nodes, origins=Trust.EXACT)
    aten = ("aten.relu", "aten.mean", "aten.convolution")
    copy = Kernel(ID, Direction.INFERENCE, "cpp_0", KernelKind.CPP, nodes=generated, launches=(Launch(3, ()),))
    called = Kernel(
        ID, Direction.INFERENCE, "extern_kernels.convolution", KernelKind.EXTERN, nodes=("relu", "convolution"), aten=aten,
        launches=(Launch(5, ()),),
    )  # fmt: skip
    return Recording(graphs=(graph,), kernels=(copy, called))


@pytest.mark.parametrize(
    ("generated", "told"),
    [
        (("convolution",), "copies what extern_kernels.convolution reads into the layout that it wants"),
        (("relu", "convolution"), "also makes ready what extern_kernels.convolution reads"),
        (("relu",), ""),
    ],
)
def test_a_copy_for_a_library_is_not_called_what_the_library_computes(generated, told):
    recording = layout(*generated)
    for text in (shown(recording, "kernels"), shown(recording, "kernel", kernel="cpp_0")):
        assert told in " ".join(text.split())
        assert told or "extern_kernels.convolution reads" not in text
    late = replace(recording.kernels[0], launches=(Launch(7, ()),))
    assert "convolution reads" not in shown(replace(recording, kernels=(late, recording.kernels[1])), "kernels")


def test_a_librarys_call_is_listed_with_what_it_is_called_for():
    text = shown(layout("convolution"), "kernels")
    assert "mean" not in text
    assert re.search(r"extern_kernels.convolution\n.*1 launch\n +convolution\n", text)


def test_launches_for_other_layers_are_folded():
    text = shown(layers(), "kernel", kernel="cpp_fused_sin_0")
    assert "layers.0…11.attn ×12" in text
    assert "sin ×12 → sin: a0, a1, a2, a3, a4, a5 +6" in text
    assert "    ×12  layers.0…11.attn ×12  net.py:5  output code lines 100, 101, 102, …" in text


def test_what_leads_to_no_line_is_named():
    recording = layers(1)
    kernel = replace(recording.kernels[0], launches=(Launch(1, (), ("a0", "nobody")),))
    text = shown(replace(recording, kernels=(kernel,)), "kernel", kernel="cpp_fused_sin_0")
    assert "    from no line that is known: nobody\n" in text


def test_lines_that_only_comments_tell_are_called_approximate():
    text = shown(gpt("gpt-max-autotune-cold.trace.log.gz"), "kernel", kernel="gelu_view_11")
    assert "computes 7 ops, approximate: read from comments in the generated code" in text
    assert "  their ops are approximate" not in shown(gpt(), "kernels")
    line = shown(gpt("gpt-max-autotune-cold.trace.log.gz"), "line", place="models.py:25")
    assert "\n  these links are approximate: read from comments in the generated code\n" in line


def test_every_role_has_words():
    assert set(lineage.ROLES) == set(Role)
    assert all("{}" in told for told in lineage.ROLES.values())


# -- a line


def test_a_line_has_its_kernels_of_both_passes_and_who_shares_them():
    text = shown(gpt(), "line", place="models.py:24")
    assert text.startswith("models.py:24  x = x + self.out(y)\n  2 torch ops: linear, add\n    of net.out, net\n")
    assert re.search(r"\n  forward  5 kernels, 5 launches, [\d.]+ µs in all\n", text)
    assert re.search(r"\n  backward  8 kernels, 9 launches, [\d.]+ µs in all\n", text)
    assert "1 of 4 launches  all of it" in text
    assert "  in the same launches\n    models.py:25  " in text


def test_ops_of_a_line_that_was_compiled_twice_are_said_to_be_of_two_compilations():
    ids = (ID, CompileId(0, 1))
    graphs = tuple(
        Graph(i, GraphStage.DYNAMO, "", (Node("x", "call_function", "torch.sin", source=(LINE,)),)) for i in ids
    )
    whole = shown(Recording(graphs=graphs), "line", place="net.py:3")
    assert "1 torch op in each of 2 compilations: sin" in whole
    assert "compilations" not in shown(Recording(graphs=graphs[:1]), "line", place="net.py:3").split("\n")[1]


def test_kernels_that_lead_to_no_line_are_named_where_they_may_belong():
    ids = (ID, CompileId(1, 0))
    node = Node("x", "call_function", "torch.sin", source=(LINE,))
    graphs = (Graph(ID, GraphStage.DYNAMO, "", (node,)),)
    made = tuple(Kernel(i, Direction.INFERENCE, f"cpp_{n}", KernelKind.CPP, nodes=("new",)) for n, i in enumerate(ids))
    text = shown(Recording(graphs=graphs, kernels=made), "line", place="net.py:3")
    assert "that lead to no line, and may be of this one: cpp_0 in [0/0]\n" in text
    assert "cpp_1" not in text
    assert "lead to no line" not in shown(gpt(), "line", place="models.py:24")


def test_a_module_is_told_like_a_line():
    text = shown(gpt(), "line", place="net.qkv")
    assert text.startswith("net.qkv  Linear\n  1 torch op: linear\n")
    assert "only views" in text


def test_all_lines_are_listed_with_the_launches_of_both_passes():
    rows = [line.split()[:3] for line in shown(gpt(), "line").split("\n") if "models.py:2" in line and "return" in line]
    assert rows == [["models.py:25", "9", "16"]]


@pytest.mark.parametrize("name", ["kernels", "line", "kernel"])
def test_a_hostile_recording_does_nothing_to_the_terminal(name):
    recording = layers(3, name=f"/home/{HOSTILE}.py", code=HOSTILE)
    kernel = replace(recording.kernels[0], name=HOSTILE, device=HOSTILE)
    recording = replace(recording, kernels=(kernel,))
    for selection in (
        {"kernel": HOSTILE} if name == "kernel" else {},
        {"kernel": HOSTILE} if name == "kernel" else {"place": "layers.1"},
    ):
        for line in shown(recording, name, **selection).split("\n"):
            assert line.isprintable()


def test_an_empty_answer_is_a_sentence():
    assert shown(Recording(), "line") == "No kernel here leads to a line.\n"
    assert shown(samples.clean(), "line", place="model.py:99").strip().endswith("has an op of it.")


# -- for programs


def test_kernels_as_json_have_lines_modules_and_figures():
    found = {kernel["name"]: kernel for kernel in data(gpt(), "kernels")["kernels"]}
    assert len(found) == len({kernel.name for kernel in gpt().kernels})
    mm = found["extern_kernels.mm"]
    assert {at["line"] for at in mm["lines"]} == {22, 24, 25}
    assert mm["modules"] == ["net.down", "net.up", "net.out", "net.qkv"]
    assert mm["flops"] == 25769803776
    assert mm["traffic"]["trust"] == "exact"
    assert mm["microseconds"] > 60


def test_a_kernel_as_json_has_every_launch_with_every_node():
    (kernel,) = data(gpt(), "kernel", kernel="extern_kernels.addmm")["kernels"]
    assert [one["launch"] for one in kernel["lineages"]] == [0, 1, 2, 3]
    for one in kernel["lineages"]:
        (node,) = (node for node in one["nodes"] if node["target"] == "torch.ops.aten.addmm.default")
        assert node["role"] == "computes"
        assert node["trust"] == "exact"
        assert node["aten_node"] == node["name"]
        (origin,) = node["origins"]
        assert origin["target"] == "torch._C._nn.linear"
        assert origin["module"] in one["modules"]


def test_a_line_as_json_has_what_the_view_shows():
    found = data(gpt(), "line", place="models.py:24")
    assert (found["line"], found["code"], found["fate"]) == (24, "x = x + self.out(y)", "kernels")
    assert [op["node"] for op in found["ops"]] == ["linear_1", "x"]
    provenance = Provenance.of(gpt())
    matches = provenance.launches_of(provenance.at_line(found["file"], 24).direct)
    assert [(one["kernel"], one["launch"]) for one in found["launches"]] == [
        (match.lineage.kernel.name, match.lineage.launch) for match in matches
    ]
    assert {"launches": 5, "line": 25} in [
        {"launches": one["launches"], "line": one["line"]["line"]} for one in found["shares"]
    ]


def test_all_lines_as_json():
    (row,) = (row for row in data(gpt(), "line")["lines"] if row["line"]["line"] == 25)
    assert (row["forward"], row["backward"]) == (9, 16)


# -- typed


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["kernels", "models.py:24"], "Kernels  "),
        (["kernels", "net.qkv"], "Kernels  "),
        (["kernels", "0/0"], "Kernels  "),
        (["kernels", "0"], "Kernels  "),
        (["kernels", "gelu_view_8"], "Kernels  1 with 1 launch: "),
        (["profile", "gelu_view_8"], "Profile  "),
        (["profile", "models.py:24"], "Profile  "),
        (["profile", "0/0"], "Profile  "),
        (["line", "models.py:24"], "models.py:24  "),
        (["line", "net.norm_1"], "net.norm_1  LayerNorm"),
        (["line"], "Lines  "),
        (["kernel", "gelu_view_8"], "triton_poi_fused_gelu_view_8\n"),
        (["kernel", "gelu_view_8", "--json"], "{"),
        (["line", "net.qkv", "--json"], "{"),
    ],
)
def test_what_is_typed_is_found(typed, told, capsys):
    assert main(["show", str(DATA / "gpt-default-profiled.clens.gz"), *typed]) == 0
    assert capsys.readouterr().out.startswith(told)


def test_what_is_typed_wrongly_is_answered_in_a_line(capsys):
    for typed in (
        ["kernel", "gelu_vew_8"],
        ["kernels", "net.qkw"],
        ["profile", "net.qkw"],
        ["line", "models.py"],
        ["kernels", "9/9"],
    ):
        assert main(["show", str(DATA / "gpt-default-profiled.clens.gz"), *typed]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert len(err.splitlines()) == 1


def test_a_lines_source_leads_to_its_kernels(capsys):
    assert main(["source", str(DATA / "gpt-default-profiled.clens.gz"), "models.py:24"]) == 0
    assert "  its kernels (5 forward, 8 backward): compiler-lens show " in capsys.readouterr().out
