"""Inductor's output code: kernels with all their launches, and the buffers that they work on."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler_lens.decode.buffers import read_buffers
from compiler_lens.decode.installed_languages import Installed
from compiler_lens.decode.kernel_calls import KernelCall, read_calls
from compiler_lens.decode.kernel_language import KernelDefinition
from compiler_lens.decode.kernel_source import definitions
from compiler_lens.decode.wrapper import read_steps
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, Direction, Kernel, OutputCode, Trust, Unavailable

# write_header() in torch/_inductor/codegen/wrapper.py: "# AOT ID: ['0_forward']"
_AOT_ID = re.compile(r"# AOT ID: \[(.*?)\]")
_AOT_ID_WITHIN = 500


def aot_id(code: str) -> str:
    """Return which AOTAutograd graph an output code is for: "0_forward". No two of a process share it."""
    match = _AOT_ID.search(code, 0, _AOT_ID_WITHIN)
    return match[1].replace("'", "") if match else ""


def read_output_code(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], installed: Installed = tuple
) -> tuple[OutputCode | Kernel | Unavailable, ...]:
    """Return the output code with its buffers, then its kernels; of C++ wrappers only the text.

    `installed` gives the kernel languages that other packages add.
    """
    text = event.text or ""
    direction = _part(aot_id(text))
    path = str(event.meta.get("filename") or event.meta.get("file_path") or "")
    try:
        tree = ast.parse(_kernels_and_calls(text))
    except SyntaxError as error:
        if "#include" not in text:
            raise PayloadError(f"output code is neither Python nor C++: {error}") from error
        tree = None
    if tree is None or _is_cpp_wrapper(tree):
        reason = "this graph was compiled with a C++ wrapper: its calls are C++, which is kept as text"
        return OutputCode(compile_id, direction, text, path), Unavailable("kernels", reason, compile_id)
    lines = text.split("\n")
    defined = definitions(tree, lines, installed)
    steps = read_steps(tree, lines)
    calls = read_calls(tree, steps, lines, defined, installed)
    buffers = read_buffers(steps, lines, {call.launch.line for call in calls})
    kernels = _kernels(compile_id, direction, defined, calls, {"aot_id": aot_id(text)})
    return (OutputCode(compile_id, direction, text, path, buffers), *kernels)


def _kernels_and_calls(text: str) -> str:
    """What is read, at its lines: the rest is more than half of what there is to parse of a small graph."""
    # write_header() ends the imports and names of functions with this; a C++ wrapper has no such line
    start = max(text.find("\nasync_compile = AsyncCompile()\n"), 0)
    # add_benchmark_harness() ends the file with functions that make inputs and time the call
    end = text.rfind("\ndef get_args():", text.rfind("async_compile.wait("))
    return "\n" * text.count("\n", 0, start) + text[start : None if end < 0 else end]


def _part(aot: str) -> Direction:
    return next((direction for direction in Direction if direction.value in aot), Direction.INFERENCE)


def _is_cpp_wrapper(tree: ast.Module) -> bool:
    # CppWrapperCpu.generate_end() in codegen/cpp_wrapper_cpu.py wraps its C++ in this one assignment
    return any(
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id == "cpp_wrapper_src"
        for statement in tree.body
    )


def _kernels(
    compile_id: CompileId,
    direction: Direction,
    defined: Mapping[str, KernelDefinition],
    calls: Sequence[KernelCall],
    shared: Mapping[str, Any],
) -> list[Kernel]:
    by_name: dict[str, list[KernelCall]] = defaultdict(list)
    for call in calls:
        by_name[call.name].append(call)
    own = [_defined_kernel(compile_id, direction, d, by_name.pop(name, []), shared) for name, d in defined.items()]
    return own + [_library_kernel(compile_id, direction, called, shared) for called in by_name.values()]


def _defined_kernel(
    compile_id: CompileId,
    direction: Direction,
    d: KernelDefinition,
    calls: Sequence[KernelCall],
    shared: Mapping[str, Any],
) -> Kernel:
    nodes = d.origins.nodes
    launches = tuple(call.launch for call in calls)
    if len(launches) == 1:  # of several, the definition's comment names the first only
        launches = (replace(launches[0], nodes=nodes or launches[0].nodes),)
    return Kernel(
        compile_id,
        direction,
        d.name,
        d.language.kind,
        d.facts.shape,
        d.source,
        nodes=nodes,
        aten=d.origins.aten or _launched_aten(calls),
        trust=Trust.TEXT if nodes else Trust.UNKNOWN,
        launches=launches,
        configs=d.facts.configs,
        device=d.facts.device or (calls[0].device if calls else ""),
        meta={**shared, **d.facts.meta, **d.origins.meta},
        language=d.language.name,
        lexer=d.language.lexer,
    )


def _library_kernel(
    compile_id: CompileId, direction: Direction, calls: Sequence[KernelCall], shared: Mapping[str, Any]
) -> Kernel:
    first = calls[0]
    return Kernel(
        compile_id,
        direction,
        first.name,
        first.language.kind,
        aten=_launched_aten(calls) or first.language.origins((), first.name).aten,
        launches=tuple(call.launch for call in calls),
        device=first.device,
        meta=dict(shared),
        language=first.language.name,
    )


def _launched_aten(calls: Sequence[KernelCall]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op for call in calls for op in call.launch.aten))
