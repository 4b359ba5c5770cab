"""C++ that Inductor writes to run a graph, of AOTInductor or with `cpp_wrapper`: kernels, calls of them, buffers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.graph_text import split_commas
from compiler_lens.decode.kernel_language import KernelText
from compiler_lens.decode.wrapper import DTYPES
from compiler_lens.recording.model import Buffer, TensorSpec
from compiler_lens.recording.shape import MOST

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


def _running(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of the functions that run the graph, with their numbers."""
    inside = False
    for number, line in enumerate(lines, 1):
        if inside:
            inside = not line.startswith("}")
        if inside:
            yield number, line
        elif not line.startswith("}"):
            inside = _ENTRY.match(line) is not None


def read_calls(lines: Sequence[str], kernels: Mapping[str, KernelText]) -> Iterator[CppCall]:
    """Yield the calls of kernels and of torch's libraries, in the order in which they run."""
    comment = ""
    for number, line in _running(lines):
        if match := _COMMENT.match(line):
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


# -- memory: make_allocation(), codegen_alloc_from_pool() and codegen_reinterpret_view() in codegen/cpp_wrapper_cpu.py

_SIZES = re.compile(r"\s*(?:static )?const(?:expr)? int64_t (\w+)\[\] = \{([^}]*)\};$")
_MADE = re.compile(r"\s*AOTI_TORCH_ERROR_CODE_CHECK\(aoti_torch_(\w+)\((.*)\)\);$")
_OWNED = re.compile(r"\s*(?:RAIIAtenTensorHandle (\w+)\(|auto (\w+) = RAIIAtenTensorHandle\()(\w+)\);")
_MOVED = re.compile(r"\s*auto (\w+) = std::move\((\w+)\);")
_VIEWED = re.compile(r"\s*auto (\w+) = \w+\(reinterpret_tensor_wrapper\((\w+), \d+L?, (\w+), (\w+), ")
_CHECKED = re.compile(r"\bassert_size_stride\((\w+), \{([^{}]*)\}, \{([^{}]*)\}")


def read_buffers(lines: Sequence[str]) -> tuple[Buffer, ...]:
    """Return every buffer, in the order of allocation; of what a library allocates the dtype is not known."""
    buffers: dict[str, Buffer] = {}
    sizes: dict[str, tuple[int | str, ...]] = {}
    made: dict[str, Buffer] = {}  # by handle, until something owns it
    for _, line in _running(lines):
        if match := _SIZES.match(line):
            sizes[match[1]] = _sizes(match[2])
        elif match := _MADE.match(line):
            made |= _made(match[1], split_commas(match[2]), sizes)
        elif (match := _OWNED.match(line)) and match[3] in made:
            name = match[1] or match[2]
            buffers[name] = replace(made[match[3]], name=name)
        elif (match := _MOVED.match(line)) and match[2] in buffers:
            buffers[match[1]] = Buffer(match[1], buffers[match[2]].spec, reuses=match[2])
        elif (match := _VIEWED.match(line)) and match[2] in buffers:
            spec = buffers[match[2]].spec or TensorSpec("", ())
            spec = replace(spec, shape=sizes.get(match[3], ()), stride=sizes.get(match[4], ()))
            buffers[match[1]] = Buffer(match[1], spec, reuses=match[2])
        elif (match := _CHECKED.search(line)) and match[1] in buffers and buffers[match[1]].spec is None:
            spec = TensorSpec("", _sizes(match[2]), _sizes(match[3]))
            buffers[match[1]] = replace(buffers[match[1]], spec=spec)
    return tuple(buffers.values())


def _made(function: str, given: Sequence[str], sizes: Mapping[str, tuple[int | str, ...]]) -> dict[str, Buffer]:
    """What a call of torch's C functions allocates, by the handles that it is given for it."""
    handles = [argument.removeprefix("&") for argument in given if argument.startswith("&")]
    if function.startswith("empty_strided"):
        shape, stride, dtype, device = (argument.rpartition("_type_")[2] or argument for argument in given[1:5])
        spec = TensorSpec(_dtype(dtype), sizes.get(shape, ()), sizes.get(stride, ()), device)
        return dict.fromkeys(handles, Buffer("", spec))
    if function == "_alloc_from_pool":  # pool, offset, dtype, dimensions, shape, stride
        spec = TensorSpec(_dtype(given[2]), sizes.get(given[4], ()), sizes.get(given[5], ()))
        return dict.fromkeys(handles, Buffer("", spec, reuses=given[0]))
    return dict.fromkeys(handles, Buffer("", None))


def _dtype(name: str) -> str:
    name = name.removeprefix("cached_torch_dtype_")
    return DTYPES.get(name, name)


def _sizes(text: str) -> tuple[int | str, ...]:
    numbers = [number.strip().removesuffix("L") for number in text.split(",")]
    return tuple(int(n) if n.isdecimal() and len(n) < len(str(MOST)) else n for n in numbers if n)
