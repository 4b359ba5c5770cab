"""Bytes of a launch: as the scheduler tells them, and as the output code lets one see them."""

from functools import cache
from pathlib import Path

from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.kernels.launch_work import Traffic, launch_traffic
from compiler_lens.recording.model import (
    Buffer,
    BufferAccess,
    CompileId,
    Direction,
    Kernel,
    KernelKind,
    Launch,
    OutputCode,
    Recording,
    TensorSpec,
    Trust,
)

DATA = Path(__file__).parent.parent / "measure" / "data"
GPU = Path(__file__).parent.parent / "gpu" / "data"


@cache
def recording(path: Path) -> Recording:
    return load(path, strict=True)


def of(found: Recording, name: str, launch: int = 0) -> Traffic | None:
    kernel = next(k for k in found.kernels if k.name == name)
    return launch_traffic(found).get(kernel.launch_id(launch))


def test_what_the_scheduler_tells_counts() -> None:
    launch = Launch(1, ("a", "b"), reads=(BufferAccess("a", 12), BufferAccess("c", 8)), writes=(BufferAccess("b", 4),))
    kernel = Kernel(CompileId(0, 0), Direction.INFERENCE, "k", KernelKind.TRITON, launches=(launch,))
    assert of(Recording(kernels=(kernel,)), "k") == Traffic(20, 4, Trust.EXACT)


def test_an_unknown_size_makes_the_whole_unknown() -> None:
    launch = Launch(1, ("a", "b"), reads=(BufferAccess("a", None),), writes=(BufferAccess("b", 4),))
    kernel = Kernel(CompileId(0, 0), Direction.INFERENCE, "k", KernelKind.TRITON, launches=(launch,))
    assert of(Recording(kernels=(kernel,)), "k") is None


def test_bytes_at_the_size_of_compiling_are_not_those_of_every_call() -> None:
    launch = Launch(1, ("a", "b"), reads=(BufferAccess("a", 12),), writes=(BufferAccess("b", 4),))
    kernel = Kernel(CompileId(0, 0), Direction.INFERENCE, "k", KernelKind.TRITON, launches=(launch,))
    for size, known in ((3, True), ("s0", False)):
        buffers = (Buffer("a", TensorSpec("f32", (size,))), Buffer("b", TensorSpec("f32", (1,))))
        code = OutputCode(CompileId(0, 0), Direction.INFERENCE, "", buffers=buffers)
        assert (of(Recording(kernels=(kernel,), output_codes=(code,)), "k") is not None) is known


def test_a_cast_reads_four_bytes_and_writes_two() -> None:
    found = _untold(recording(GPU / "gpt-default-cold.clens.gz"))
    assert of(found, "triton_poi_fused__to_copy_1") == Traffic(1536 * 512 * 4, 1536 * 512 * 2, Trust.TEXT)


def test_what_is_changed_in_place_is_read_and_written() -> None:
    found = recording(DATA / "resnet-default.clens.gz")  # its buffer comes from a convolution, without a type
    name = "triton_poi_fused__to_copy_convolution_relu_2"
    image = 8 * 64 * 32 * 32 * 2
    assert of(found, name) == Traffic(image + 64 * 4, image, Trust.TEXT)


def test_a_library_reads_views_by_their_own_size() -> None:
    found = _untold(recording(GPU / "gpt-default-cold.clens.gz"))
    out, tokens, weight = 2048 * 1536 * 2, 2048 * 512 * 2, 1536 * 512 * 2
    assert of(found, "extern_kernels.addmm") == Traffic(1536 * 2 + tokens + weight, out, Trust.TEXT)


def test_a_buffer_that_nobody_described_is_not_left_out() -> None:
    found = _untold(recording(GPU / "gpt-default-cold.clens.gz"))
    assert of(found, "extern_kernels.addmm", 1) is None  # its input is one of the results of attention


def test_parameters_of_a_cpp_kernel() -> None:
    source = (
        'extern "C"  void kernel(float* in_out_ptr0,\n const at::BFloat16* in_ptr0,\n float* out_ptr0, int64_t ks0)'
    )
    launch = Launch(1, ("arg0_1", "arg1_1", "arg0_1", "s0"))
    base = recording(GPU / "gpt-default-cold.clens.gz")
    node = next(n for g in base.graphs for n in g.nodes if n.op == "placeholder")
    graph = next(g for g in base.graphs if g.stage.value == "post_grad")
    size = 8 * 256 * 512
    nodes = tuple(replace(node, name=name) for name in ("arg0_1", "arg1_1"))
    kernel = Kernel(
        graph.compile_id, Direction.FORWARD, "cpp_fused_0", KernelKind.CPP, source=source, launches=(launch,)
    )
    found = Recording(graphs=(replace(graph, nodes=nodes),), kernels=(kernel,))
    assert of(found, "cpp_fused_0") == Traffic(size * 4 + size * 2, 2 * size * 4, Trust.TEXT)


def test_the_authors_names_for_parameters_say_nothing() -> None:
    launch = Launch(1, ("primals_1", "primals_1"))
    base = recording(GPU / "gpt-default-cold.clens.gz")
    meta = {"signature": {"in_ptr0": "*fp32", "out_ptr0": "*fp32"}}
    kernel = replace(base.kernels[0], name="mine_0", kind=KernelKind.USER, launches=(launch,), meta=meta)
    assert of(replace(base, kernels=(kernel,)), "mine_0") is None
    assert of(replace(base, kernels=(replace(kernel, kind=KernelKind.TRITON),)), "mine_0") is not None


def _untold(found: Recording) -> Recording:
    """As a recording was before launches told what they move."""
    kernels = tuple(
        replace(k, launches=tuple(replace(launch, reads=(), writes=()) for launch in k.launches)) for k in found.kernels
    )
    return replace(found, kernels=kernels)
