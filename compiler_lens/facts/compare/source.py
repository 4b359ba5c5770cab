"""Generated code without what differs from one compiling to the next: names, numbers, paths, comments, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping

from compiler_lens.recording.model import Kernel, KernelKind, Launch

_PYTHON_COMMENT = re.compile(r"(?m)^[ \t]*#.*$|(?<![ \t])[ \t]+#\s.*$")
_CPP_COMMENT = re.compile(r"(?m)(?:^|[ \t])//.*$")
_BLANK = re.compile(r"\n\s*\n")
_NUMBERED = re.compile(r"\b(buf|arg|primals_|tangents_|getitem_|constant|_frozen_param|tmp)\d+(?:_\d+)?\b")
_INCLUDE = re.compile(r'#include\s+"[^"]*/([^"/]+)"')
_CACHED_NAME = re.compile(r"\bc[a-z2-7]{50,52}\b")  # torch._inductor.codecache: "c" + base32 of a SHA-256
_PATH = re.compile(r"""(['"])/[^'"\n]*\1""")
_GRAPH = re.compile(r"\bgraph_\d+_")  # before a kernel's name, where C++ kernels report to the profiler
_NUMBER = re.compile(r"\b\d+(?:\.\d*)?(?:e[-+]?\d+)?(?=L?\b)")
_CONSTANT = re.compile(r"(?m)^[ \t]*(\w+)\s*:\s*tl\.constexpr\s*=[ \t]*(\S+(?:[ \t]+\S+)*)[ \t]*$")
_CONSTANTS = re.compile(r"'constants': \{([^{}]*)\}")  # of a kernel of the user's, above its code
_SETTING = re.compile(r"'(\w+)': ([^,]+)")
_ABOVE = "@triton.jit"  # above it stand settings and notes, which are compared by themselves

# Names in a library's call, but the names of its parameters, what is looked up in a module, and texts.
_VALUE = re.compile(r"(?<![.'\"\w])(?!(?:reinterpret_tensor|None|True|False|torch)\b)[A-Za-z_]\w*\b(?![(=.'\"])")

# Lines that read or write memory: what differs there alone is a stride or an index.
_MEMORY = re.compile(r"\btl\.(?:load|store|atomic_\w+)\(|loadu\(|\.store\(|_ptr\d+\[")


def normalised(kernel: Kernel) -> str:
    """Return a kernel's code, comparable. Empty for a library's."""
    known: dict[str, str] = {}
    return _NUMBERED.sub(lambda found: known.setdefault(found[0], f"{found[1]}{len(known)}"), readable(kernel))


def readable(kernel: Kernel) -> str:
    """Return a kernel's code without its name, paths and comments: of a Triton kernel the function alone."""
    text = kernel.source
    if not text:
        return ""
    if _ABOVE in text:
        text = text[text.index(_ABOVE) + len(_ABOVE) :]
    is_cpp = "#include" in text or 'extern "C"' in text
    text = (_CPP_COMMENT if is_cpp else _PYTHON_COMMENT).sub("", text)
    text = _CACHED_NAME.sub("cached", _INCLUDE.sub(r'#include "\1"', text))
    text = _GRAPH.sub("graph_", _PATH.sub("'path'", text.replace(kernel.name, "kernel")))
    return _BLANK.sub("\n", text).strip()


def call(kernel: Kernel, launch: Launch) -> str:
    """Return a library's call as text, what it is given numbered in order: sizes, strides and constants stay."""
    if kernel.source:
        return ""
    known: dict[str, str] = {}
    return _VALUE.sub(lambda found: known.setdefault(found[0], f"b{len(known)}"), ", ".join(launch.arguments))


def without_numbers(text: str) -> str:
    """Return what is left of code when sizes and strides do not count."""
    return _NUMBER.sub("N", text)


def without_memory(text: str) -> str:
    """Return what is left when lines that read and write memory do not count."""
    return "\n".join(line for line in text.splitlines() if not _MEMORY.search(line))


def constants(kernel: Kernel) -> Mapping[str, str]:
    """Return the constants of a Triton template: BLOCK_M, GROUP_M, ALLOW_TF32."""
    return dict(_CONSTANT.findall(kernel.source)) if kernel.kind is KernelKind.TEMPLATE else {}


def constants_given(kernel: Kernel) -> Mapping[str, str]:
    """Return the constants that a kernel of the user's own is called with: BLOCK."""
    found = _CONSTANTS.search(kernel.source)
    return dict(_SETTING.findall(found[1])) if found else {}


def sizes_given(kernel: Kernel, launch: Launch) -> Mapping[str, str]:
    """Return the numbers that a user's own kernel is called with, and its grid: its code does not hold them."""
    signature = kernel.meta.get("signature")
    types = signature if isinstance(signature, Mapping) else {}
    names = [str(name) for name, of in types.items() if of != "constexpr"]
    if len(names) != len(launch.arguments):
        names = [f"argument {number}" for number in range(1, len(launch.arguments) + 1)]
    given = {n: value for n, value in zip(names, launch.arguments, strict=True) if not value.isidentifier()}
    return given | ({"grid": f"[{launch.grid.strip('()')}]"} if launch.grid else {})
