"""Launches joined with the scheduler's nodes: what they read and write, which were left apart."""

import pytest

from compiler_lens.decode.fusion import FinalNode, Fusion, join_fusion
from compiler_lens.decode.kernels import KernelNodes
from compiler_lens.recording.model import BufferAccess, CompileId, Direction, Kernel, KernelKind, Launch, UnfusedPair

ID = CompileId(0, 0)


def kernel(name, *lines, kind=KernelKind.TRITON, direction=Direction.FORWARD, ordinal=0):
    return Kernel(ID, direction, name, kind, launches=tuple(Launch(line, ()) for line in lines), ordinal=ordinal)


def access(text):
    """`buf0 64, buf1` as accesses; one without a number is of unknown size."""
    parts = [direction.split() for direction in text.split(", ")] if text else []
    return tuple(BufferAccess(direction[0], int(direction[1]) if len(direction) > 1 else None) for direction in parts)


def node(ops, reads="", writes="", kind="SchedulerNode"):
    return FinalNode(tuple(ops.split()), kind, access(reads), access(writes))


def fusion(*nodes, apart=(), direction=Direction.FORWARD):
    return Fusion(ID, direction, nodes, tuple((a, b, why, access(shared)) for a, b, why, shared in apart))


def told(*calls, direction=Direction.FORWARD):
    entries = tuple((name, ()) for name, _ in calls)
    return KernelNodes(ID, direction, entries, ops=tuple(tuple(ops.split()) for _, ops in calls))


def launches(kernels):
    return {(k.name, launch.line): launch for k in kernels for launch in k.launches}


def test_each_launch_of_a_kernel_has_its_own_ops_reads_and_writes():
    kernels = [kernel("k", 1, 9), kernel("extern_kernels.mm", 5, kind=KernelKind.EXTERN)]
    calls = told(("k", "op0"), ("extern_kernels.mm", "op1"), ("k", "op2 op3"))
    nodes = fusion(
        node("op0", "x 8", "buf0 8"), node("op1", "buf0 8", "buf1 8", "ExternKernelOut"), node("op2 op3", "buf1 8", "y")
    )
    joined, _ = join_fusion(kernels, [calls], [nodes])
    found = launches(joined)
    assert [found["k", 1].ops, found["extern_kernels.mm", 5].ops, found["k", 9].ops] == [
        ("op0",), ("op1",), ("op2", "op3"),
    ]  # fmt: skip
    assert found["k", 1].reads == access("x 8")
    assert found["k", 9].writes == access("y")


def test_several_nodes_in_one_kernel_read_from_memory_what_none_of_them_wrote_before():
    calls = told(("cpp_0", "op0 op1"))
    nodes = fusion(node("op0", "x 8, w 4", "buf0 8"), node("op1", "buf0 8, x 16, w 4", "buf1 4"))
    (joined,), _ = join_fusion([kernel("cpp_0", 1)], [calls], [nodes])
    assert joined.launches[0].reads == access("x 16, w 4")
    assert joined.launches[0].writes == access("buf0 8, buf1 4")


def test_parts_of_a_buffer_in_one_kernel_add_up_to_no_more_than_there_is():
    calls = told(("a", "op0"), ("cpp_0", "op1 op2 op3"))
    parts = [node(f"op{n}", "buf0 32", f"buf{n} 32") for n in (1, 2, 3)]
    (_, joined), _ = join_fusion(
        [kernel("a", 1), kernel("cpp_0", 2)], [calls], [fusion(node("op0", "", "buf0 64"), *parts)]
    )
    assert joined.launches[0].reads == access("buf0 64")


def test_a_part_of_a_node_has_no_figures_of_its_own():
    calls = told(("a", "op0"), ("b", "op1"))
    joined, _ = join_fusion([kernel("a", 1), kernel("b", 2)], [calls], [fusion(node("op0 op1", "x 8", "y 8"))])
    assert [(k.launches[0].ops, k.launches[0].reads) for k in joined] == [(("op0",), ()), (("op1",), ())]


def test_what_no_hook_hears_of_is_found_by_its_place():
    kernels = [kernel("a", 1), kernel("Tensor.copy_", 2, kind=KernelKind.FALLBACK), kernel("b", 3)]
    nodes = fusion(
        node("op0"), node("op1", kind="MultiOutput"), node("op2", "x 8", "y 8", "DeviceCopy"), node("op3", "y 8", "z 8")
    )
    joined, _ = join_fusion(kernels, [told(("a", "op0"), ("b", "op3"))], [nodes])
    assert joined[1].launches[0].ops == ("op2",)
    assert joined[1].launches[0].reads == access("x 8")


def test_of_several_launches_for_one_node_the_generated_one_has_it():
    kernels = [kernel("Tensor.zero_", 1, kind=KernelKind.FALLBACK), kernel("mix", 2), kernel("Tensor.sum", 3, kind=KernelKind.FALLBACK)]  # fmt: skip
    joined, _ = join_fusion([*kernels, kernel("b", 4)], [told(("b", "op1"))], [fusion(node("op0", "x 8"), node("op1"))])
    assert [k.launches[0].ops for k in joined] == [(), ("op0",), (), ("op1",)]


def test_where_places_do_not_match_nothing_is_guessed():
    kernels = [kernel("a", 1), kernel("c", 2), kernel("b", 3)]
    joined, _ = join_fusion(kernels, [told(("a", "op0"), ("b", "op1"))], [fusion(node("op0"), node("op1"))])
    assert joined[1].launches[0].ops == ()


def test_pairs_left_apart_are_of_two_launches():
    kernels = [kernel("a", 1), kernel("cpp", 2)]
    apart = [
        ("op0", "op1", "why", "buf0 8"),
        ("op1", "op2", "one kernel after all", "buf1 8"),
        ("op2", "op9", "", "x 1"),
    ]
    nodes = fusion(node("op0"), node("op1"), node("op2"), apart=apart)
    _, unfused = join_fusion(kernels, [told(("a", "op0"), ("cpp", "op1 op2"))], [nodes])
    assert unfused == (UnfusedPair(ID, Direction.FORWARD, "op0", "op1", "why", access("buf0 8")),)


def test_output_codes_of_one_compilation_are_kept_apart_by_their_order():
    kernels = [kernel("k", 1), kernel("k", 1, ordinal=1), kernel("k", 1, direction=Direction.BACKWARD)]
    calls = [told(("k", "op0")), told(("k", "op0")), told(("k", "op0"), direction=Direction.BACKWARD)]
    nodes = [
        fusion(node("op0", f"{x} 8"), direction=direction)
        for x, direction in (("a", Direction.FORWARD), ("b", Direction.INFERENCE))
    ]
    joined, _ = join_fusion(kernels, calls, [*nodes, fusion(node("op0", "c 8"), direction=Direction.BACKWARD)])
    assert [k.launches[0].reads for k in joined] == [access("a 8"), access("b 8"), access("c 8")]
    unsure, _ = join_fusion(kernels, calls, nodes[:1])
    assert all(not launch.ops for k in unsure for launch in k.launches)


@pytest.mark.parametrize("calls", [[], [KernelNodes(ID, Direction.FORWARD, (("k", ("mm",)),))]])
def test_older_recordings_join_as_before(calls):
    kernels = (kernel("k", 1),)
    assert join_fusion(kernels, calls, []) == (kernels, ())
