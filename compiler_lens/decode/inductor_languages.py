"""The kernel languages that Inductor writes in and calls: one literal table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from compiler_lens.decode import kernel_language
from compiler_lens.decode.kernel_language import (
    CallText,
    Definitions,
    KernelLanguage,
    KernelText,
    LaunchText,
    SourceFacts,
)
from compiler_lens.decode.op_names import ops_in_kernel_name
from compiler_lens.recording.model import KernelConfig, KernelKind

# -- what the decorator of a Triton kernel says of it: shape, device, configs, and what Inductor noted

# The decorators are functions of torch/_inductor/runtime/triton_heuristics.py.
_DECORATOR = re.compile(r"@triton_heuristics\.(\w+)\(")
_DECORATED = "\n)\n@triton.jit"
_DEVICE = re.compile(r"DeviceProperties\(type='(\w+)', index=(\w+)")
# Literals of the decorator; what is worth keeping is flat: no brace within braces.
_PAIR = re.compile(r"'(\w+)': ('[^']*'|\{[^{}]*\}|\[[^\[\]]*\]|\([^()]*\)|[^,{}\[\]]+)")
_SETTING = re.compile(r"^ *(\w+)=(\{[^{}]*\}|[\w.]+)", re.MULTILINE)
_KEPT = frozenset(
    (
        "size_hints", "reduction_hint", "num_warps", "num_stages", "matrix_instr_nonkdim", "waves_per_eu", "kpack",
        "num_consumer_groups", "num_buffers_warp_spec", "config", "config_args", "signature", "grid_type", "num_load",
        "num_store", "num_reduction", "kernel_num_gb", "kernel_flop", "no_x_dim", "atomic_add_found", "RSPLIT_SIZE",
        "persistent_reduction", "coordinate_descent_tuning", "mutated_arg_names", "autotune_hints", "tiling_scores",
    )
)  # fmt: skip
_USER_CONFIGS = re.compile(r"^[ \t]*configs=\[(.*)\],$", re.MULTILINE)
_WORDS: Mapping[str, Any] = {"True": True, "False": False, "None": None, "set()": []}


def _read_triton(text: KernelText) -> SourceFacts:
    """Read the decorator of a kernel that Inductor wrote, or of a template."""
    match = _DECORATOR.search(text.source)
    end = text.source.find(_DECORATED, match.end()) if match else -1
    if match is None or end < 0:
        return SourceFacts()
    decorator, header = match[1], text.source[match.end() : end]
    meta = _header_values(header)
    shape = decorator
    if decorator == "fixed_config":  # it stands in for the word that says the shape
        shape = "reduction" if meta.get("num_reduction") else "pointwise"
    device = _DEVICE.search(header)
    values = meta.pop("config", None)
    if decorator == "template" and "config_args" in meta:
        values = {**meta.pop("config_args"), **{key: meta[key] for key in ("num_warps", "num_stages") if key in meta}}
    configs = () if values is None else (KernelConfig(values, chosen=True),)
    return SourceFacts(shape, device_name(*device.groups()) if device else "", configs, meta)


def _read_user_triton(text: KernelText) -> SourceFacts:
    """Read a user's own kernel: its shape is not known, its configs are those that it is tried with."""
    facts = _read_triton(text)
    tried = _USER_CONFIGS.search(text.source)
    found = [printed_value(one) for one in re.findall(r"\{[^{}]*\}", tried[1])] if tried else []
    configs = tuple(KernelConfig(values, chosen=len(found) == 1) for values in found if values)
    return SourceFacts("", facts.device, facts.configs or configs, facts.meta)


def _launched_triton(call: CallText, kernels: Definitions) -> LaunchText:
    """Read a launch; where the grid is fixed it stands last: FixedGrid in _inductor/runtime/triton_heuristics.py."""
    launch = kernel_language.launched_by_name(call, kernels)
    if kernels[launch.kernel].facts.meta.get("grid_type") != "FixedGrid":
        return launch
    return LaunchText(launch.kernel, launch.arguments[:-3], f"({', '.join(launch.arguments[-3:])})")


def device_name(kind: str, index: str) -> str:
    """Return a device as torch prints it: `cuda:0`, or `cuda` where its index is not known."""
    return f"{kind}:{index}" if index.isdigit() else kind


def _header_values(header: str) -> dict[str, Any]:
    start = header.find("inductor_meta=")
    pairs = _PAIR.findall(header, max(start, 0))
    signature = _PAIR.findall(header, header.find("'signature'"))[:1]
    told = (*_SETTING.findall(header), *signature, *pairs)
    return {name: printed_value(text) for name, text in told if name in _KEPT}


def printed_value(text: str) -> Any:
    """Return a printed literal's value: a scalar, a flat list or dict; an enum's member and anything else as text."""
    if text[0] in "{[(":
        if ":" in text and "'" in text:
            return {key: printed_value(value) for key, value in _PAIR.findall(text)}
        return [item.strip(" '<>") for item in text[1:-1].split(",") if item.strip()]
    if text[0] == "'":
        return text.strip("'")
    if text in _WORDS:
        return _WORDS[text]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text.rpartition(".")[2]


# -- the other languages


def _read_multi_kernel(text: KernelText) -> SourceFacts:
    return SourceFacts(meta={"choices": list(text.names)})


def _read_cpp(text: KernelText) -> SourceFacts:
    # CppKernel.reduction_cse in codegen/cpp.py names every accumulator so
    return SourceFacts("reduction" if "tmp_acc" in text.source else "pointwise", "cpu")


def _read_template(text: KernelText) -> SourceFacts:
    return SourceFacts("template", meta={"backend": text.maker.rpartition(".")[2]})


def _read_other(text: KernelText) -> SourceFacts:
    return SourceFacts(meta={"backend": text.maker.rpartition(".")[2]})


_POINTER = re.compile(r"c_void_p\((\w.*)\.data_ptr\(\)\)")
_STREAM = re.compile(r"(?:raw_)?stream\d*|c_void_p\((?:raw_)?stream\d*\)")


def _launched_pointers(call: CallText, kernels: Definitions) -> LaunchText:
    """Read `k.k(c_void_p(buf0.data_ptr()), 8, None, c_void_p(stream0))`: call_kernel() in codegen/cutlass/kernel.py."""
    launch = kernel_language.launched_by_name(call, kernels)
    given = [found[1] if (found := _POINTER.fullmatch(a)) else a for a in launch.arguments]
    return LaunchText(launch.kernel, tuple(a for a in given if not _STREAM.fullmatch(a)))


def _launched_metal(call: CallText, _kernels: Definitions) -> LaunchText:
    """Read `generated_kernel_0(buf0, arg0_1, threads=[64], group_size=[64])`: call_kernel() in codegen/mps.py."""
    return LaunchText(call.function.partition(".")[0], call.arguments, call.keywords.get("threads", ""))


def _comments_or(
    ops_of: Callable[[str], tuple[str, ...]],
) -> Callable[[Sequence[str], str], kernel_language.KernelOrigins]:
    def origins(comments: Sequence[str], name: str) -> kernel_language.KernelOrigins:
        found = kernel_language.origins_in_comments(comments, name)
        return found if found.aten else replace(found, aten=ops_of(name))

    return origins


def _op_called(name: str) -> tuple[str, ...]:
    # torch.ops.aten.topk.default -> aten.topk; aten.scatter_reduce_.two -> aten.scatter_reduce_
    parts = name.removeprefix("torch.ops.").split(".")
    return (".".join(parts[:2]),) if len(parts) > 2 else ()  # noqa: PLR2004  namespace, op, overload


def _shim_called(name: str) -> tuple[str, ...]:
    # get_c_shim_func_name() in codegen/cpp_wrapper_cpu.py: aoti_torch_cpu_addmm_out
    op = re.fullmatch(r"aoti_torch_(?:cpu|cuda|xpu|mps)_(\w+?)(?:_out)?", name)
    return (f"aten.{op[1]}",) if op else ()


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
        read=_read_triton, launch=_launched_triton, origins=_OR_NAME,
    ),
    KernelLanguage(
        "Triton", KernelKind.FOREACH, _TRITON, "@triton_heuristics.foreach(", read=_read_triton, launch=_launched_triton
    ),
    KernelLanguage(
        "Triton", KernelKind.USER, _TRITON, "@triton_heuristics.user_autotune(",
        read=_read_user_triton, launch=_launched_triton,
    ),
    KernelLanguage("Triton", KernelKind.TRITON, _TRITON, read=_read_triton, launch=_launched_triton),
    KernelLanguage(
        "Triton", KernelKind.TRITON, ("async_compile.multi_kernel", "async_compile.size_hint_multi_kernel"),
        read=_read_multi_kernel,
    ),
    # CppTemplate.header() in codegen/cpp_template.py includes it, no other C++ kernel does
    KernelLanguage(
        "C++", _TEMPLATE, _CPP, "#include <c10/util/Unroll.h>", lexer="cpp", origins=_OR_NAME,
        read=lambda _text: SourceFacts("template", "cpu"),
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
        read=lambda _text: SourceFacts(meta={"backend": "metal"}), launch=_launched_metal,
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

# What a C++ wrapper calls of torch: "aoti_torch_cpu_addmm_out"; of the products and convolutions the name begins so.
_PRODUCT = re.compile(r"aoti_torch_[a-z]+_(?=mkldnn_|mkl_|\w*convolution|\w*linear|\w*mm(?:_out)?\Z)\w+")


def cpp_library(function: str) -> KernelLanguage:
    """Return the language of a function of torch's that a C++ wrapper calls."""
    kind = KernelKind.EXTERN if _PRODUCT.fullmatch(function) else KernelKind.FALLBACK
    return KernelLanguage("", kind, origins=_comments_or(_shim_called))


# Another backend of Inductor's that neither we nor an installed package knows: its kernels are shown as "other".
ANY_ASYNC_COMPILE = KernelLanguage("", read=_read_other)
