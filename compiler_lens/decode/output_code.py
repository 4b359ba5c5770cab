"""Inductor's output code: kernels with all their launches, and the buffers that they work on."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from msgspec.structs import replace

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
    direction = next((one for one in Direction if one.value in aot_id(text)), Direction.INFERENCE)
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
    kernels = _kernels(partial(Kernel, compile_id, direction), defined, calls, aot_id(text))
    return (OutputCode(compile_id, direction, text, path, buffers), *kernels)


def _kernels_and_calls(text: str) -> str:
    """Return what is read, at its lines: the rest is more than half of what there is to parse of a small graph."""
    # write_header() ends the imports and names of functions with this; a C++ wrapper has no such line
    start = max(text.find("\nasync_compile = AsyncCompile()\n"), 0)
    # add_benchmark_harness() ends the file with functions that make inputs and time the call
    end = text.rfind("\ndef get_args():", text.rfind("async_compile.wait("))
    return "\n" * text.count("\n", 0, start) + text[start : None if end < 0 else end]


def _is_cpp_wrapper(tree: ast.Module) -> bool:
    # CppWrapperCpu.generate_end() in codegen/cpp_wrapper_cpu.py wraps its C++ in this one assignment
    assigned = [statement.targets[0] for statement in tree.body if isinstance(statement, ast.Assign)]
    return any(isinstance(target, ast.Name) and target.id == "cpp_wrapper_src" for target in assigned)


def _kernels(
    make: Callable[..., Kernel], defined: Mapping[str, KernelDefinition], calls: Sequence[KernelCall], aot: str
) -> Iterator[Kernel]:
    by_name: dict[str, list[KernelCall]] = defaultdict(list)
    for call in calls:
        by_name[call.name].append(call)
    for name, definition in defined.items():
        yield _defined_kernel(make, definition, by_name.pop(name, []), aot)
    for name, called in by_name.items():
        language, launches = called[0].language, tuple(call.launch for call in called)
        yield make(
            name,
            language.kind,
            aten=_each(launch.aten for launch in launches) or language.origins((), name).aten,
            launches=launches,
            device=called[0].device,
            meta={"aot_id": aot},
            language=language.name,
        )


def _defined_kernel(
    make: Callable[..., Kernel], definition: KernelDefinition, calls: Sequence[KernelCall], aot: str
) -> Kernel:
    language, facts, origins = definition.language, definition.facts, definition.origins
    launches = tuple(call.launch for call in calls)
    if len(launches) == 1 and origins.nodes:  # of several, the definition's comment names the first only
        launches = (replace(launches[0], nodes=origins.nodes),)
    nodes = origins.nodes or _each(launch.nodes for launch in launches)
    return make(
        definition.name,
        language.kind,
        facts.shape,
        definition.source,
        nodes=nodes,
        aten=origins.aten or _each(launch.aten for launch in launches),
        trust=Trust.TEXT if nodes else Trust.UNKNOWN,
        launches=launches,
        configs=facts.configs,
        device=facts.device or (calls[0].device if calls else ""),
        meta={"aot_id": aot, **facts.meta, **origins.meta},
        language=language.name,
        lexer=language.lexer,
    )


def _each(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(lists)))
