"""Kernels and calls in the C++ that Inductor writes: of AOTInductor, and with `cpp_wrapper`."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_lens.decode.cpp_wrapper import read_buffers, read_calls, read_kernels
from compiler_lens.decode.fold import fold
from compiler_lens.decode.output_code import read_output_code
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    Buffer,
    CompileId,
    Direction,
    Kernel,
    KernelKind,
    OutputCode,
    Recording,
    Unavailable,
)

PAYLOADS = Path(__file__).parents[1] / "payloads"


def aoti(torch: str, *names: str) -> tuple[Event, ...]:
    folder = PAYLOADS / torch / "aot_inductor"
    texts = {"wrapper": "inductor_aot_wrapper_code", "kernels": "inductor_aot_kernel_code"}
    return tuple(
        Event(
            "graph_dump",
            0.0,
            meta={"name": texts[name], "filename": f"/tmp/{name}.cpp"},
            text=(folder / f"{name}.txt").read_text(),
        )
        for name in names
    )


def told(kernels: tuple[Kernel, ...]) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(k.name, k.kind.value, k.shape, k.launches[0].arguments[:2]) for k in kernels]


def test_aot_inductor_on_a_cpu() -> None:
    recording = fold(aoti("2.13", "wrapper", "kernels"))
    (code,) = recording.output_codes
    assert told(recording.kernels) == [
        ("cpp_fused__softmax_0", "cpp", "reduction", ("arg2_1", "buf0")),
        ("cpp_fused_mul_relu_sin_sum_1", "cpp", "pointwise", ("buf2", "buf3")),
        ("aoti_torch_cpu_addmm_out", "extern", "", ("buf1", "buf0")),
        ("aoti_torch_cpu_cumsum", "fallback", "", ("buf3", "0L")),
    ]
    assert recording.unavailable == recording.problems == ()
    softmax, mul, product, _ = recording.kernels
    assert softmax.source.startswith(
        '#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C"  void  cpp_fused__softmax_0('
    )
    assert "cpp_fused__softmax_0" not in mul.source
    assert mul.source.endswith("\n}")
    lines = code.code.split("\n")
    assert all(k.name in lines[k.launches[0].line - 1] for k in recording.kernels)
    assert (product.device, product.launches[0].aten) == ("cpu", ("aten.t", "aten.addmm"))
    assert code.path == "/tmp/wrapper.cpp"
    assert [(c.function, c.door, c.outcome.value) for c in recording.compilations] == [
        ("AOTInductor", "AOTInductor", "compiled")
    ]


def test_aot_inductor_on_a_gpu() -> None:
    kernels = fold(aoti("2.11", "wrapper", "kernels")).kernels
    assert [(k.name, k.kind.value, k.device, k.launches[0].arguments) for k in kernels[:3]] == [
        ("triton_per_fused_addmm_mul_relu_sin_sum_0", "triton", "cuda:0", ("buf4", "l_bias", "buf5", "64L", "32L")),
        ("triton_per_fused_cumsum_1", "triton", "cuda:0", ("buf6", "1L", "64L")),
        (
            "triton_per_fused__softmax_exp_prepare_softmax_online_sub_2", "triton", "cuda:0",
            ("arg2_1", "buf9", "32L", "64L"),
        ),
    ]  # fmt: skip
    assert kernels[0].source.startswith("import triton\n")
    assert kernels[0].aten == ("aten.addmm", "aten.relu", "aten.sin", "aten.mul", "aten.sum")
    assert [(k.name, k.kind) for k in kernels[3:]] == [
        ("aoti_torch_cuda_topk", KernelKind.FALLBACK), ("aoti_torch_cuda_mm_out", KernelKind.EXTERN),
    ]  # fmt: skip


def test_a_wrapper_without_its_kernels_still_has_their_calls() -> None:
    """A log may end between the two files."""
    recording = fold(aoti("2.13", "wrapper"))
    assert [k.name for k in recording.kernels] == ["aoti_torch_cpu_addmm_out", "aoti_torch_cpu_cumsum"]
    assert fold(aoti("2.13", "kernels")) == Recording()


def test_each_wrapper_has_the_kernels_that_come_after_it() -> None:
    codes = fold((*aoti("2.13", "wrapper", "kernels"), *aoti("2.11", "wrapper"))).output_codes
    assert ["cpp_prefix.h" in code.code for code in codes] == [True, False]


def _spec(buffer: Buffer) -> str:
    spec = buffer.spec
    return f"{spec.dtype}{list(spec.shape)}{list(spec.stride or ())}{spec.device or ''}" if spec else ""


def test_buffers_of_cpp_are_those_that_its_lines_allocate() -> None:
    (code,) = fold(aoti("2.13", "wrapper")).output_codes
    assert [(b.name, _spec(b), b.spec and b.spec.bytes, b.reuses) for b in code.buffers] == [
        ("buf0", "f32[8][1]cpu", 32, ""),
        ("buf6", "f32[4, 1][1, 4]cpu", 16, ""),
        ("buf8", "f32[4, 1][1, 4]cpu", 16, ""),
        ("buf9", "f32[4, 8][8, 1]cpu", 128, ""),
        ("buf1", "f32[4, 8][8, 1]cpu", 128, ""),
        ("buf2", "f32[4, 8][8, 1]cpu", 128, "buf1"),
        ("buf3", "f32[8][1]cpu", 32, ""),
        ("buf5", "[8][1]", None, ""),  # a library's result, whose dtype no line says
    ]
    (code,) = fold(aoti("2.11", "wrapper")).output_codes
    assert [b.name for b in code.buffers if b.spec is None] == ["buf1", "buf2"]  # the two results of topk


# As codegen_alloc_from_pool(), codegen_reinterpret_view() and make_allocation() of torch 2.13 write them.
_POOL = """void inductor_entry_impl(
    const int64_t int_array_0[] = {s77, 64L};
    static constexpr int64_t int_array_1[] = {64L, 1L};
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(1, int_array_2, int_array_3, cached_torch_dtype_uint8, cached_torch_device_type_cuda, 0, &pool1_handle));
    RAIIAtenTensorHandle pool1(pool1_handle);
    AtenTensorHandle tmp_tensor_handle_0;
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch__alloc_from_pool(pool1, 0, cached_torch_dtype_bfloat16, 2, int_array_0, int_array_1, &tmp_tensor_handle_0));
    auto buf0 = RAIIAtenTensorHandle(tmp_tensor_handle_0);
    auto buf1 = wrap_with_raii_handle_if_needed(reinterpret_tensor_wrapper(buf0, 2, int_array_1, int_array_1, 0L));  // reuse
    RAIIAtenTensorHandle buf2(buf9_handle);
    auto arg0_1 = std::move(inputs[0]);
}
    auto buf3 = std::move(buf1);
"""


def test_buffers_of_cpp_in_a_pool_and_as_views() -> None:
    assert [(b.name, _spec(b), b.reuses) for b in read_buffers(_POOL.split("\n"))] == [
        ("pool1", "u8[][]cuda", ""),
        ("buf0", "bf16['s77', 64][64, 1]", "pool1"),
        ("buf1", "bf16[64, 1][64, 1]", "buf0"),
    ]


def test_a_cpp_wrapper_of_a_compiled_function() -> None:
    text = (PAYLOADS / "2.15/output_code/cpp_wrapper.txt").read_text()
    code, *kernels = read_output_code(Event("inductor_output_code", 0.0, text=text), CompileId(0, 0), {})
    assert isinstance(code, OutputCode)
    assert [(k.name, k.kind.value, k.launches[0].arguments) for k in kernels if isinstance(k, Kernel)] == [
        ("triton_poi_fused_relu_0", "triton", ("buf1", "4096L")),
        ("aoti_torch_cuda_mm_out", "extern", ("buf0", "arg0_1", "arg1_1")),
    ]


def test_python_after_what_was_tuned_at_compile_time_is_read_as_python() -> None:
    text = (PAYLOADS / "2.13/output_code/cnn_forward_cpu.txt").read_text()
    tuned = f'r"""\nCompile-time auto-tuning block: \n\nasync_compile = AsyncCompile()\nk = async_compile.cpp(1)\n"""\n{text}'
    plain, shifted = (
        read_output_code(Event("inductor_output_code", 0.0, text=t), CompileId(0, 0), {}) for t in (text, tuned)
    )
    assert [type(v) for v in shifted] == [type(v) for v in plain]
    assert [k.name for k in shifted if isinstance(k, Kernel)] == [k.name for k in plain if isinstance(k, Kernel)]


@pytest.mark.parametrize(
    "text",
    [
        'extern "C"  void  f(int\n' * 50,
        "async_compile.triton('k', '''\n" * 50,
        "inductor_entry_impl(\n  f(((((\n",
        "}",
        "",
    ],
)
def test_what_is_cut_off_is_no_error(text: str) -> None:
    lines = text.split("\n")
    assert list(read_calls(lines, read_kernels(lines))) == []
    assert read_buffers(lines) == ()


def test_what_is_not_aot_inductors_is_left_out() -> None:
    found = fold((Event("graph_dump", 0.0, meta={"name": "inductor_aot_header_code"}, text="class A {}"),))
    assert found == Recording()


def test_a_wrapper_without_kernels_says_so() -> None:
    event = Event("graph_dump", 0.0, meta={"name": "inductor_aot_wrapper_code"}, text="int x;")
    recording = fold((event,))
    assert [u.fact for u in recording.unavailable] == ["kernels"]
    assert recording.output_codes[0].direction is Direction.INFERENCE
    assert isinstance(recording.unavailable[0], Unavailable)
