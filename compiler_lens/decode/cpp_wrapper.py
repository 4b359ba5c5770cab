"""C++ that Inductor writes to run a graph, of AOTInductor or with `cpp_wrapper`: its kernels and the calls of them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.decode.graph_text import split_commas
from compiler_lens.decode.kernel_language import KernelText

# CppWrapperCpu.write_wrapper_decl() and generate_end() in torch/_inductor/codegen/cpp_wrapper_cpu.py.
_ENTRY = re.compile(r"(?:void |std::\S+ )?(?:AOTInductorModel::_?(?:const_)?run_impl|inductor_entry_impl)\(")
_CPP_KERNEL = re.compile(r'extern "C"\s+\w+\s+(\w+)\(')
# DeferredTritonCallWrapper in codegen/cpp_wrapper_gpu.py keeps them as comments; without AOTInductor they stand in the
# docstring of what is tuned at compile time.
_TRITON_KERNEL = re.compile(r"\s*(?:\w+ = )?async_compile\.triton\('(\w+)', '''$")
_CALL = re.compile(r"\s*(?:AOTI_TORCH_ERROR_CODE_CHECK\()?(\w+)\((.*)\);$")
_LIBRARY = re.compile(r"aoti_torch_(cpu|cuda|xpu|mps)_\w+|aoti_torch_proxy_executor_call_function")
_CAST = re.compile(r"\([\w ]+\*\)\((\w+)\.data_ptr\(\)\)")
_STREAM = re.compile(r"stream\d*")
_COMMENT = re.compile(r"\s*// (Topologically Sorted Source Nodes: .*)")


class CppCall(Struct, frozen=True):
    """A call in the function that runs the graph."""

    line: int  # from 1
    function: str  # a kernel that is defined, or one of torch's libraries: "aoti_torch_cpu_addmm_out"
    arguments: tuple[str, ...]
    comments: tuple[str, ...]  # Inductor's above it, as they stand in Python
    device: str  # where the function's name says it


def read_kernels(lines: Sequence[str]) -> Mapping[str, KernelText]:
    """Return the kernels that are defined, by name."""
    found: dict[str, KernelText] = {}
    number = start = 0  # of the lines that belong to the next kernel: its include, and functions that it calls
    while number < len(lines):
        line = lines[number]
        if line.startswith("#include"):
            start = number
        elif match := _TRITON_KERNEL.match(line):
            end = _next(lines, number + 1, lambda text: text.lstrip().startswith("'''"))
            source = textwrap.dedent("\n".join(lines[number + 1 : end]))
            found.setdefault(match[1], KernelText(match[1], "async_compile.triton", source))
            number = end
        elif match := _CPP_KERNEL.match(line):
            number = _next(lines, number, lambda text: text.endswith((")", ";")))
            if number < len(lines) and not lines[number].endswith(";"):  # else it is only declared
                number = _next(lines, number, lambda text: text.startswith("}"))
                source = "\n".join(lines[start : number + 1])
                found.setdefault(match[1], KernelText(match[1], "async_compile.cpp", source))
                start = number + 1
        number += 1
    return found


def _next(lines: Sequence[str], start: int, fits: Callable[[str], bool]) -> int:
    return next((number for number in range(start, len(lines)) if fits(lines[number])), len(lines))


def read_calls(lines: Sequence[str], kernels: Mapping[str, KernelText]) -> Iterator[CppCall]:
    """Yield the calls of kernels and of torch's libraries, in the order in which they run."""
    inside, comment = False, ""
    for number, line in enumerate(lines, 1):
        if not inside:
            inside = _ENTRY.match(line) is not None
        elif line.startswith("}"):
            inside = False
        elif match := _COMMENT.match(line):
            comment = f"# {match[1]}"
        elif match := _CALL.match(line):
            function, device = match[1], ""
            text = match[2].removesuffix(")") if "AOTI_TORCH_ERROR_CODE_CHECK(" in line else match[2]
            if function.removeprefix("call_") in kernels:
                function = function.removeprefix("call_")
            elif library := _LIBRARY.fullmatch(function):
                device = library[1] or ""
            else:
                continue
            yield CppCall(number, function, _arguments(text), (comment,) if comment else (), device)
            comment = ""


def _arguments(text: str) -> tuple[str, ...]:
    """What a call is given, without the casts of memory to pointers, and without what every launch is given."""
    given = [_CAST.sub(r"\1", argument) for argument in split_commas(text)]
    # Of Triton kernels the device's number and the stream come last, of AOTInductor's also where their binaries are.
    for number, argument in enumerate(given):
        if argument == "this->device_idx_" or _STREAM.fullmatch(given[min(number + 1, len(given) - 1)]):
            return tuple(given[:number])
    return tuple(given)
