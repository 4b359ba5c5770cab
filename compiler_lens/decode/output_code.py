"""Inductor's output code: kernels with all their launches, and the buffers that they work on."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler_lens.decode.buffers import read_buffers
from compiler_lens.decode.kernel_source import KernelDefinition, definitions
from compiler_lens.decode.wrapper import KernelCall, read_calls, read_steps
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, Direction, Kernel, KernelKind, OutputCode, Trust, Unavailable

# write_header() in torch/_inductor/codegen/wrapper.py: "# AOT ID: ['0_forward']"
_AOT_ID = re.compile(r"# AOT ID: \[(.*?)\]")
_AOT_ID_WITHIN = 500


def aot_id(code: str) -> str:
    """Which AOTAutograd graph an output code is for: "0_forward". No two output codes of a process share it."""
    match = _AOT_ID.search(code, 0, _AOT_ID_WITHIN)
    return match[1].replace("'", "") if match else ""


def read_output_code(
    event: Event, compile_id: CompileId, _files: Mapping[int, str]
) -> tuple[OutputCode | Kernel | Unavailable, ...]:
    """The output code with its buffers, then its kernels; of C++ wrappers only the text."""
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
    defined = _with_choices({kernel.name: kernel for kernel in definitions(tree, lines)})
    steps = read_steps(tree, lines)
    calls = read_calls(tree, steps, lines, defined)
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
    return own + [_foreign_kernel(compile_id, direction, called, shared) for called in by_name.values()]


def _with_choices(defined: Mapping[str, KernelDefinition]) -> dict[str, KernelDefinition]:
    # A multi-kernel is several kernels that compute the same, to be tried when run: any of them tells its nodes.
    full = dict(defined)
    for name, kernel in defined.items():
        first = defined.get(next(iter(kernel.meta.get("choices", ())), ""))
        if first is not None:
            full[name] = replace(kernel, nodes=first.nodes, aten=first.aten, source_nodes=first.source_nodes)
    return full


def _defined_kernel(
    compile_id: CompileId,
    direction: Direction,
    d: KernelDefinition,
    calls: Sequence[KernelCall],
    shared: Mapping[str, Any],
) -> Kernel:
    launches = tuple(call.launch for call in calls)
    if len(launches) == 1:  # of several, the definition's comment tells of the first only
        launches = (replace(launches[0], nodes=d.nodes),)
    return Kernel(
        compile_id,
        direction,
        d.name,
        d.kind,
        d.shape,
        d.source,
        nodes=d.nodes,
        aten=d.aten or _launched_aten(calls),
        trust=Trust.TEXT if d.nodes else Trust.UNKNOWN,
        launches=launches,
        configs=d.configs,
        device=d.device or (calls[0].device if calls else ""),
        meta={**shared, **d.meta},
    )


def _foreign_kernel(
    compile_id: CompileId, direction: Direction, calls: Sequence[KernelCall], shared: Mapping[str, Any]
) -> Kernel:
    first = calls[0]
    return Kernel(
        compile_id,
        direction,
        first.name,
        first.kind or KernelKind.EXTERN,
        aten=_launched_aten(calls) or _aten_of(first.name),
        launches=tuple(call.launch for call in calls),
        device=first.device,
        meta=dict(shared),
    )


def _launched_aten(calls: Sequence[KernelCall]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op for call in calls for op in call.launch.aten))


def _aten_of(name: str) -> tuple[str, ...]:
    # torch.ops.aten.topk.default -> aten.topk; aten.scatter_reduce_.two -> aten.scatter_reduce_
    parts = name.removeprefix("torch.ops.").split(".")
    return (".".join(parts[:2]),) if len(parts) > 2 else ()  # noqa: PLR2004  namespace, op, overload
