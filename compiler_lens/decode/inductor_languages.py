"""The kernel languages that Inductor writes in and calls: one literal table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from compiler_lens.decode.kernel_language import (
    CallText,
    KernelDefinition,
    KernelLanguage,
    KernelOrigins,
    KernelText,
    LaunchText,
    SourceFacts,
    launched_by_name,
    origins_in_comments,
)
from compiler_lens.decode.op_names import ops_in_kernel_name
from compiler_lens.decode.triton_source import launched_triton, read_triton, read_user_triton
from compiler_lens.recording.model import KernelKind


def _read_multi_kernel(text: KernelText) -> SourceFacts:
    return SourceFacts(meta={"choices": list(text.names)})


def _read_cpp(text: KernelText) -> SourceFacts:
    # CppKernel.reduction_cse in codegen/cpp.py names every accumulator so
    return SourceFacts("reduction" if "tmp_acc" in text.source else "pointwise", "cpu")


def _read_cpp_template(_text: KernelText) -> SourceFacts:
    return SourceFacts("template", "cpu")


def _read_template(text: KernelText) -> SourceFacts:
    return SourceFacts("template", meta={"backend": text.maker.rpartition(".")[2]})


def _read_other(text: KernelText) -> SourceFacts:
    return SourceFacts(meta={"backend": text.maker.rpartition(".")[2]})


def _read_metal(_text: KernelText) -> SourceFacts:
    return SourceFacts(meta={"backend": "metal"})


_POINTER = re.compile(r"c_void_p\((\w.*)\.data_ptr\(\)\)")
_STREAM = re.compile(r"(?:raw_)?stream\d*|c_void_p\((?:raw_)?stream\d*\)")


def _launched_pointers(call: CallText, kernels: Mapping[str, KernelDefinition]) -> LaunchText:
    """Read `k.k(c_void_p(buf0.data_ptr()), 8, None, c_void_p(stream0))`: call_kernel() in codegen/cutlass/kernel.py."""
    launch = launched_by_name(call, kernels)
    given = [found[1] if (found := _POINTER.fullmatch(a)) else a for a in launch.arguments]
    return LaunchText(launch.kernel, tuple(a for a in given if not _STREAM.fullmatch(a)))


def _launched_metal(call: CallText, _kernels: Mapping[str, KernelDefinition]) -> LaunchText:
    """Read `generated_kernel_0(buf0, arg0_1, threads=[64], group_size=[64])`: call_kernel() in codegen/mps.py."""
    return LaunchText(call.function.partition(".")[0], call.arguments, call.keywords.get("threads", ""))


def _comments_or(ops_of: Callable[[str], tuple[str, ...]]) -> Callable[[Sequence[str], str], KernelOrigins]:
    def origins(comments: Sequence[str], name: str) -> KernelOrigins:
        found = origins_in_comments(comments, name)
        return found if found.aten else replace(found, aten=ops_of(name))

    return origins


def _op_called(name: str) -> tuple[str, ...]:
    # torch.ops.aten.topk.default -> aten.topk; aten.scatter_reduce_.two -> aten.scatter_reduce_
    parts = name.removeprefix("torch.ops.").split(".")
    return (".".join(parts[:2]),) if len(parts) > 2 else ()  # noqa: PLR2004  namespace, op, overload


# Work that the wrapper does with plain tensor methods: device copies (codegen_device_copy), zeroed workspaces
# (make_zero_buffer), the last step of a mix-order reduction (codegen/simd.py), carried values of a while loop.
_TENSOR_WORK = frozenset(
    ("copy_", "zero_", "fill_", "clone", "sum", "prod", "amin", "amax", "any", "all", "mean", "argmin", "argmax")
)
_TRITON, _CPP = ("async_compile.triton",), ("async_compile.cpp", "async_compile.cpp_pybinding")
_TEMPLATE = KernelKind.TEMPLATE
_OR_NAME, _OR_OP = _comments_or(ops_in_kernel_name), _comments_or(_op_called)  # C++ kernels have no comment

# The makers are the methods of AsyncCompile in torch/_inductor/async_compile.py. Of several languages with one maker
# those that say what a source holds come first.
INDUCTOR_LANGUAGES: tuple[KernelLanguage, ...] = (
    KernelLanguage(
        "Triton", _TEMPLATE, _TRITON, "@triton_heuristics.template(",
        read=read_triton, launch=launched_triton, origins=_OR_NAME,
    ),
    KernelLanguage(
        "Triton", KernelKind.FOREACH, _TRITON, "@triton_heuristics.foreach(", read=read_triton, launch=launched_triton
    ),
    KernelLanguage(
        "Triton", KernelKind.USER, _TRITON, "@triton_heuristics.user_autotune(",
        read=read_user_triton, launch=launched_triton,
    ),
    KernelLanguage("Triton", KernelKind.TRITON, _TRITON, read=read_triton, launch=launched_triton),
    KernelLanguage(
        "Triton", KernelKind.TRITON, ("async_compile.multi_kernel", "async_compile.size_hint_multi_kernel"),
        read=_read_multi_kernel,
    ),
    # CppTemplate.header() in codegen/cpp_template.py includes it, no other C++ kernel does
    KernelLanguage(
        "C++", _TEMPLATE, _CPP, "#include <c10/util/Unroll.h>", lexer="cpp", read=_read_cpp_template, origins=_OR_NAME
    ),
    KernelLanguage("C++", KernelKind.CPP, _CPP, lexer="cpp", read=_read_cpp, origins=_OR_NAME),
    # `cuda` on 2.11; `cutlass`, `cuda` or `xpu` from 2.13 on
    KernelLanguage(
        "CUTLASS", _TEMPLATE, ("async_compile.cutlass", "async_compile.cuda", "async_compile.xpu"), lexer="cpp",
        read=_read_template, launch=_launched_pointers, origins=_OR_NAME,
    ),
    KernelLanguage(
        "Composable Kernel", _TEMPLATE, ("async_compile.rocm",), lexer="cpp",
        read=_read_template, launch=_launched_pointers, origins=_OR_NAME,
    ),
    KernelLanguage("CuteDSL", _TEMPLATE, ("async_compile.cutedsl",), read=_read_template, origins=_OR_NAME),
    KernelLanguage("FlyDSL", _TEMPLATE, ("async_compile.flydsl",), read=_read_template, origins=_OR_NAME),
    KernelLanguage(
        "NVIDIA Universal GEMM", _TEMPLATE, ("async_compile.nv_universal_gemm",), read=_read_template, origins=_OR_NAME
    ),
    KernelLanguage("Pallas", makers=("async_compile.pallas",), read=_read_other),
    KernelLanguage("Halide", makers=("async_compile.halide",), read=_read_other, launch=_launched_pointers),
    # codegen/metal_flex_attention_template.py defines its own without AsyncCompile, as codegen/mps.py did before 2.13
    KernelLanguage(
        "Metal", makers=("async_compile.metal", "compile_mps_shader"), lexer="cpp",
        read=_read_metal, launch=_launched_metal,
    ),
    KernelLanguage(
        "", KernelKind.EXTERN, origins=_OR_OP,
        libraries=(
            "extern_kernels.", "torch.ops.mkldnn.", "torch.ops.mkl.", "torch.ops.onednn.",
            "torch.ops.mkldnn_prepacked.", "torch.ops.quantized.", "_quantized.",
        ),
    ),
    KernelLanguage(
        "", KernelKind.FALLBACK, libraries=("torch.ops.", "aten.", "inductor_ops."), methods=_TENSOR_WORK,
        origins=_OR_OP,
    ),
)  # fmt: skip

# Another backend of Inductor's that neither we nor an installed package knows: its kernels are shown as "other".
ANY_ASYNC_COMPILE = KernelLanguage("", read=_read_other)
