"""Launches that share memory and are not one kernel: why, and what that costs."""

import ast
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.kernels.fusion import causes, fusion, neighbours, saved, unfused
from compiler_lens.facts.kernels.fusion_reasons import Reason, reason_of
from compiler_lens.facts.kernels.library_calls import Library, library_of
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import (
    AutotuneChoice,
    AutotuneResult,
    BufferAccess,
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
    UnfusedPair,
)

ID = CompileId(0, 0)


def kernel(name, *ops, kind=KernelKind.TRITON, reads="", nodes="", direction=Direction.FORWARD, **fields):
    launches = tuple(
        Launch(line, (), tuple(nodes.split()), ops=tuple(op.split()), reads=accesses(reads))
        for line, op in enumerate(ops, 1)
    )
    return Kernel(ID, direction, name, kind, launches=launches, **fields)


def accesses(names, size=8):
    return tuple(BufferAccess(name, size) for name in names.split())


def unfused_pair(first, second, reason="", shared="x", size=8):
    return UnfusedPair(ID, Direction.FORWARD, first, second, reason, accesses(shared, size))


def recording(kernels, unfused, **fields):
    return Recording(kernels=tuple(kernels), unfused=tuple(unfused), **fields)


MM = kernel("extern_kernels.mm", "op1", kind=KernelKind.EXTERN)
POINTWISE = kernel("triton_poi_0", "op2", reads="x")
REDUCTION = kernel("triton_red_1", "op3 op4", reads="x buf2")


def test_torchs_word_is_the_reason_between_two_kernels_of_inductors():
    (pair,) = unfused(recording([POINTWISE, REDUCTION], [unfused_pair("op2", "op3", "exceeds max fusion")]))
    assert (pair.reason, pair.library, pair.bytes) == (Reason.TOO_MANY_OPS, None, 8)
    assert (pair.first.kernel, pair.second.kernel, pair.second.launch.line) == (POINTWISE, REDUCTION, 1)


def test_a_librarys_call_is_the_reason_whatever_torch_says():
    (pair,) = unfused(recording([MM, REDUCTION], [unfused_pair("op1", "op3", "no shared data")]))
    assert (pair.reason, pair.library) == (Reason.LIBRARY, Library.PRODUCT)


def test_two_calls_of_libraries_are_a_reason_of_their_own():
    other = kernel("aten.convolution", "op2", kind=KernelKind.EXTERN)
    (pair,) = unfused(recording([MM, other], [unfused_pair("op1", "op2")]))
    assert (pair.reason, pair.library) == (Reason.LIBRARIES, None)


def test_a_part_of_a_concatenation_is_not_read_by_its_own_name():
    (pair,) = unfused(recording([POINTWISE, REDUCTION], [unfused_pair("op2", "op3", shared="buf7")]))
    assert pair.reason is Reason.JOINED


def test_a_kernel_of_the_users_is_the_reason():
    own = kernel("mine_0", "op1", kind=KernelKind.USER)
    (pair,) = unfused(recording([own, POINTWISE], [unfused_pair("op1", "op2")]))
    assert pair.reason is Reason.USER_KERNEL


def test_a_product_that_autotuning_chose_is_told_apart():
    choices = (AutotuneChoice("mm", KernelKind.EXTERN, 1.0), AutotuneChoice("triton_mm_0", KernelKind.TEMPLATE, 2.0))
    tuned = AutotuneResult(ID, "mm", (), choices)
    (pair,) = unfused(recording([MM, POINTWISE], [unfused_pair("op1", "op2")], autotunes=(tuned,)))
    assert pair.library is Library.CHOSEN
    only = replace(tuned, choices=choices[:1])
    (pair,) = unfused(recording([MM, POINTWISE], [unfused_pair("op1", "op2")], autotunes=(only,)))
    assert pair.library is Library.PRODUCT


@pytest.mark.parametrize(
    ("name", "kind", "library"),
    [
        ("extern_kernels.addmm", KernelKind.EXTERN, Library.PRODUCT),
        ("extern_kernels.bmm", KernelKind.EXTERN, Library.PRODUCT),
        ("torch.ops.mkldnn._linear_pointwise.default", KernelKind.EXTERN, Library.PRODUCT),
        ("extern_kernels.convolution", KernelKind.EXTERN, Library.CONVOLUTION),
        (
            "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default",
            KernelKind.FALLBACK,
            Library.ATTENTION,
        ),
        ("torch.ops.aten.topk.default", KernelKind.FALLBACK, Library.NO_LOWERING),
        ("torch.ops.aten.lgamma.default", KernelKind.FALLBACK, Library.NO_LOWERING),
        ("torch.ops.aten.mm.dtype", KernelKind.FALLBACK, Library.PRODUCT),
        ("Tensor.copy_", KernelKind.FALLBACK, Library.COPY),
        ("triton_tem_fused_mm_0", KernelKind.TEMPLATE, None),
    ],
)
def test_why_a_call_is_a_librarys(name, kind, library):
    assert library_of(kernel(name, kind=kind), {}) is library


def test_layers_fold_and_the_costliest_comes_first():
    kernels = [kernel(f"triton_poi_fused_add_{n}", f"op{n}", reads="x") for n in range(6)]
    pairs = [unfused_pair(f"op{n}", f"op{n + 1}", "no shared data", f"buf{n}", 8 + n) for n in range(0, 6, 2)]
    pairs = [replace(pair, shared=(*pair.shared, *accesses("x"))) for pair in pairs]
    found = causes(unfused(recording(kernels, [*pairs, unfused_pair("op1", "op2", "", "y", 500)])))
    assert [(cause.reason, len(cause.groups), len(cause.pairs)) for cause in found] == [
        (Reason.JOINED, 1, 1),
        (Reason.DIFFERENT_ORDER, 1, 3),
    ]
    assert [pair.bytes for pair in found[1].groups[0].pairs] == [20, 18, 16]


def test_a_read_is_saved_once():
    pairs = [unfused_pair("op1", "op3"), unfused_pair("op2", "op3"), unfused_pair("op1", "op2")]
    kernels = [kernel("a", "op1"), POINTWISE, REDUCTION]
    assert saved(unfused(recording(kernels, pairs))) == 16


def test_two_launches_are_one_pair_however_many_of_their_ops_share_memory():
    """A C++ kernel has several ops of the scheduler's that read the same buffer."""
    told = [
        unfused_pair("op1", "op3", size=32),
        unfused_pair("op1", "op4", size=32),
        unfused_pair("op1", "op4", "why", "x y"),
    ]
    (pair,) = unfused(recording([MM, REDUCTION], told))
    assert [(access.name, access.bytes) for access in pair.unfused.shared] == [("x", 32), ("y", 8)]
    assert (pair.bytes, saved([pair]), pair.unfused.reason) == (40, 40, "why")


def test_what_a_launch_reads_is_saved_once_also_by_several_of_its_ops():
    kernels = [kernel("a", "op1"), POINTWISE, REDUCTION]
    assert saved(unfused(recording(kernels, [unfused_pair("op1", "op3"), unfused_pair("op2", "op4")]))) == 8


def test_neighbours_are_those_of_the_kernels_own_launches():
    pairs = [unfused_pair("op1", "op2", size=4), unfused_pair("op2", "op3"), unfused_pair("op1", "op3")]
    found = neighbours(recording([MM, POINTWISE, REDUCTION], pairs), [1])
    assert [(pair.first.kernel.name, pair.second.kernel.name) for pair in found[1]] == [
        ("triton_poi_0", "triton_red_1"),
        ("extern_kernels.mm", "triton_poi_0"),
    ]


def test_a_selection_leaves_other_compilations_out():
    told = recording([MM, POINTWISE], [unfused_pair("op1", "op2")])
    assert unfused(told, Selection(ids=frozenset({CompileId(1, 0)}))) == ()
    assert fusion(told, Selection(ids=frozenset({CompileId(1, 0)}))) == ()
    assert len(fusion(told, Selection(ids=frozenset({ID})))) == 1


def call(name, target="aten.add.Tensor", **fields):
    return Node(name, "call_function", f"torch.ops.{target}", ("x",), **fields)


def test_ops_computed_again_are_told_and_steps_of_a_reduction_are_not():
    spec = (TensorSpec("f32", (8,)),)
    told = (("add", "aten.add.Tensor"), ("sum_1", "aten.sum.dim_IntList"), ("view", "aten.view.default"))
    nodes = (Node("x", "placeholder", "x", specs=spec), *(call(*each, specs=spec) for each in told), call("mul"))
    graph = Graph(ID, GraphStage.POST_GRAD, "", nodes)
    kernels = [kernel(name, op, nodes="add sum_1 view", reads="x") for name, op in (("a", "op0"), ("b", "op1"))]
    (code,) = fusion(recording([*kernels, kernel("c", "op2", nodes="mul")], [], graphs=(graph,)))
    assert [(one.node, len(one.launches)) for one in code.repeated] == [("add", 2)]
    assert (code.ops, code.launches, code.rematerialized) == (3, 3, ())


def test_ops_of_the_forward_in_a_backward_are_rematerialized():
    nodes = (call("erf", "aten.erf.default"), call("mul_1", backward=True), call("view", "aten.view.default"))
    constant = Node("full", "call_function", "torch.ops.aten.full.default")
    graph = Graph(ID, GraphStage.AOT_BACKWARD, "", (*nodes, constant))
    (code,) = fusion(recording([kernel("a", "op0", direction=Direction.BACKWARD)], [], graphs=(graph,)))
    assert [node.name for node in code.rematerialized] == ["erf"]


def sentences():
    """Every reason that the installed torch may give: what is passed to a `WhyNoFuse`."""
    torch = pytest.importorskip("torch")
    for path in sorted((Path(torch.__file__).parent / "_inductor").rglob("*.py")):
        text = path.read_text()
        if "WhyNoFuse" in text:
            yield from (_text(node.args[0]) for node in ast.walk(ast.parse(text)) if _is_reason(node))


def _is_reason(node):
    function = node.func if isinstance(node, ast.Call) and node.args else None
    if isinstance(function, ast.Call):
        return isinstance(function.func, ast.Name) and function.func.id.startswith("WhyNoFuse")
    return isinstance(function, ast.Name) and function.id == "why"


def _text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(direction.value if isinstance(direction, ast.Constant) else "buf0" for direction in node.values)
    return node.value


def test_every_reason_of_torchs_is_known():
    found = {sentence: reason_of(sentence) for sentence in sentences()}
    assert len(found) > 50
    assert [sentence for sentence, reason in found.items() if reason in (Reason.OTHER, Reason.NOT_TRIED)] == []


def test_an_unknown_sentence_and_none_are_told_apart():
    assert (reason_of(""), reason_of("the moon is full")) == (Reason.NOT_TRIED, Reason.OTHER)


_IS_SIZE = re.compile(r"^[\d\s*/+()-]*$|^s\d+$|_r?\d*_?x?numel$")  # an argument that is no buffer
PROFILED = sorted((Path(__file__).parent.parent / "gpu/data").glob("*-profiled.clens.gz"))


def computed_nodes(lineages, code):
    of_code = [one for one in lineages if one.kernel.code_id == code]
    return {traced.name for one in of_code for traced in one.nodes if not traced.is_view}


@pytest.mark.parametrize("path", PROFILED, ids=lambda path: path.name.partition(".")[0])
def test_on_a_gpu_every_launch_has_ops_of_its_own_and_says_what_it_moves(path):
    told = load(path, strict=True)
    lineages = Provenance.of(told).lineages
    for code in fusion(told):
        kernels = [k for k in told.kernels if k.code_id == code.code]
        ops = [op for k in kernels for launch in k.launches for op in launch.ops]
        assert len(ops) == len(set(ops))
        assert code.ops == len(computed_nodes(lineages, code.code))
        launches = [launch for k in kernels for launch in k.launches]
        assert all(launch.ops and launch.writes for launch in launches)
        reading_nothing = [launch for launch in launches if not launch.reads]
        assert all(len(launch.arguments) == 2 for launch in reading_nothing)  # it fills a buffer: that and how far
        assert code.launches == sum(len(k.launches) for k in kernels)
        assert code.causes
        assert not {cause.reason for cause in code.causes} & {Reason.OTHER, Reason.NO_KERNEL}
    assert sum(code.launches for code in fusion(told)) == sum(len(k.launches) for k in told.kernels)
    assert len(unfused(told)) == len(told.unfused)


@pytest.mark.parametrize("path", PROFILED, ids=lambda path: path.name.partition(".")[0])
def test_what_a_launch_moves_is_what_it_is_given(path):
    """The hook hears of the scheduler's buffers, the output code was printed later: both speak of the same memory."""
    told = load(path, strict=True)
    taken = {
        (code.compile_id, code.direction): {b.name: b.reuses for b in code.buffers if b.reuses}
        for code in told.output_codes
    }
    for kernel in told.kernels:
        if kernel.kind is KernelKind.TRITON:
            renamed = taken[kernel.compile_id, kernel.direction]
            for launch in kernel.launches:
                moved = {access.name for access in (*launch.reads, *launch.writes)}
                given = {buffer.removesuffix(".item()") for buffer in launch.arguments if not _IS_SIZE.search(buffer)}
                assert moved - given <= {renamed.get(name) for name in given}  # in place: it goes by its new name
                assert {renamed.get(name) for name in given - moved} <= moved  # read in place, and never written


def test_the_work_grows_with_the_recording_and_not_faster(calls_of):
    def of_size(count):
        ids = [CompileId(n, 0) for n in range(count)]
        kernels = [replace(one, compile_id=i) for i in ids for one in (MM, POINTWISE, REDUCTION)]
        pairs = [replace(unfused_pair(*pair), compile_id=i) for i in ids for pair in (("op1", "op2"), ("op2", "op3"))]
        graphs = tuple(Graph(i, GraphStage.POST_GRAD, "", ()) for i in ids)
        return recording(kernels, pairs, graphs=graphs)

    small, large = of_size(100), of_size(400)
    assert calls_of(lambda: fusion(large)) < 5 * calls_of(lambda: fusion(small))
