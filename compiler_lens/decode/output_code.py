"""Inductor's output code: kernels with all their launches, each read by its language, and the buffers they work on."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode import cpp_wrapper, kernel_language, wrapper
from compiler_lens.decode.graph_text import GraphText
from compiler_lens.decode.inductor_languages import ANY_ASYNC_COMPILE, INDUCTOR_LANGUAGES, cpp_library
from compiler_lens.decode.kernel_language import Installed, KernelDefinition, KernelLanguage, KernelText, LaunchText
from compiler_lens.decode.shared_text import EACH_ITS_OWN, Texts
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import NO_COMPILATION
from compiler_lens.recording.model import Buffer, CompileId, Direction, Kernel, Launch, OutputCode, Trust, Unavailable
from compiler_lens.recording.source_text import syntax

# write_header() in torch/_inductor/codegen/wrapper.py: "# AOT ID: ['0_forward']"
_AOT_ID = re.compile(r"# AOT ID: \[([^\[\]\n]*)\]")
_AOT_ID_WITHIN = 500
# A statement of six characters takes 3.5 kB as a tree. A graph of 57,000 nodes has a tenth of this.
_MOST_STATEMENTS, _MOST_READ = 200_000, 16 << 20
_TOO_MUCH = (
    f"output code of more than {_MOST_STATEMENTS:,} lines or 16 MiB is kept as text: its kernels are not looked for"
)
_IN_CPP = "no kernel was found in the C++ that this graph was compiled to, which is kept as text"


def aot_id(code: str) -> str:
    """Return which AOTAutograd graph an output code is for: "0_forward". No two of a process share it."""
    match = _AOT_ID.search(code, 0, _AOT_ID_WITHIN)
    return match[1].replace("'", "") if match else ""


class CodeText(Struct, frozen=True):
    """What the text of an output code says, of whichever compilation it is."""

    aot_id: str
    buffers: tuple[Buffer, ...] = ()
    kernels: tuple[Kernel, ...] = ()  # of no compilation
    unavailable: str = ""  # why there are no kernels

    def values(self, code: OutputCode) -> tuple[OutputCode | Kernel | Unavailable, ...]:
        """Return an output code of this text with its buffers, then its kernels."""
        own = [replace(kernel, compile_id=code.compile_id, direction=code.direction) for kernel in self.kernels]
        missing = (Unavailable("kernels", self.unavailable, code.compile_id),) if self.unavailable else ()
        return (replace(code, buffers=self.buffers), *own, *missing)


_OF_NONE = NO_COMPILATION, Direction.INFERENCE


def read_output_code(
    event: Event,
    compile_id: CompileId,
    _files: Mapping[int, str],
    by: Callable[[str], CodeText] | None = None,
    texts: Texts = EACH_ITS_OWN,
    graphs: Sequence[GraphText] = (),
) -> tuple[OutputCode | Kernel | Unavailable, ...]:
    """Return the output code with its buffers, then its kernels.

    `by` reads its text, with the kernel languages that other packages add; `texts` and `graphs` are those read before.
    """
    text = event.text or ""
    read = texts.read(by or read_code, text)
    before = graphs[-1] if graphs and graphs[-1].compile_id == compile_id else None
    path = str(event.meta.get("filename") or event.meta.get("file_path") or "")
    return read.values(OutputCode(compile_id, _direction(read.aot_id, before), text, path))


def read_code(text: str, installed: Installed = tuple) -> CodeText:
    """Read an output code. Raises `PayloadError` for what is neither Python nor C++.

    `installed` gives the kernel languages that other packages add.
    """
    read = _kernels_and_calls(text)
    if len(read) > _MOST_READ or read.count("\n") + read.count(";") > _MOST_STATEMENTS:
        return CodeText(aot_id(text), unavailable=_TOO_MUCH)
    try:
        tree: ast.Module | None = syntax(read)
    except SyntaxError as error:
        if "#include" not in text:
            raise PayloadError(f"output code is neither Python nor C++: {error}") from error
        tree = None
    # CppWrapperCpu.generate_end() in codegen/cpp_wrapper_cpu.py wraps its C++ in one assignment.
    targets = [statement.targets[0] for statement in (tree.body if tree else ()) if isinstance(statement, ast.Assign)]
    if tree is None or any(isinstance(target, ast.Name) and target.id == "cpp_wrapper_src" for target in targets):
        return _read_cpp(text)
    lines = text.split("\n")
    defined = _definitions(tree, lines, installed)
    steps = wrapper.read_steps(tree, lines)
    calls = _calls(steps, _Reader(lines, defined, wrapper.wrapped_externs(tree), installed))
    for span, runs in wrapper.read_runs(tree, lines).items():
        calls = [replace(c, launch=replace(c.launch, runs=runs)) if c.launch.line in span else c for c in calls]
    buffers = wrapper.read_buffers(steps, lines, {call.launch.line for call in calls})
    aot = aot_id(text)
    return CodeText(aot, buffers, tuple(_kernels(partial(Kernel, *_OF_NONE), defined, calls, aot)))


def _direction(aot: str, graph: GraphText | None) -> Direction:
    """By AOTAutograd's name; of an Inductor that was called without it, by the graph that torch sends just before."""
    unsaid = Direction.BACKWARD if graph and graph.takes_gradients else Direction.INFERENCE
    return next((one for one in Direction if one.value in aot), Direction.INFERENCE if aot else unsaid)


class AotiText(Struct, frozen=True):
    """One of the files of C++ that AOTInductor writes for a graph."""

    compile_id: CompileId
    name: str
    text: str
    path: str


# AotCodeCompiler.compile() in torch/_inductor/codecache.py writes the second right after the first.
_AOTI_WRAPPER, _AOTI_KERNELS = "inductor_aot_wrapper_code", "inductor_aot_kernel_code"


def read_aoti_text(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[AotiText, ...]:
    """Read one of AOTInductor's files; what else goes by the name of this event is nothing of ours."""
    name = event.meta.get("name")
    if name not in (_AOTI_WRAPPER, _AOTI_KERNELS):
        return ()
    if not isinstance(event.text, str):
        raise PayloadError(f"{name} without a text")
    return (AotiText(compile_id, name, event.text, str(event.meta.get("filename") or "")),)


def read_aoti(files: Sequence[AotiText]) -> list[OutputCode | Kernel | Unavailable]:
    """Return what `read_output_code` would of all graphs of AOTInductor's: the two files of each are one code."""
    found: list[OutputCode | Kernel | Unavailable] = []
    known: dict[tuple[str, str], tuple[str, CodeText]] = {}
    for file, then in zip(files, (*files[1:], None), strict=False):
        if file.name == _AOTI_WRAPPER:
            both = file.text, then.text if then and then.name == _AOTI_KERNELS else ""
            if both not in known:
                text = "\n".join(both) if both[1] else both[0]
                known[both] = text, _read_cpp(text)
            text, read = known[both]
            found += read.values(OutputCode(file.compile_id, Direction.INFERENCE, text, file.path))
    return found


def _read_cpp(text: str) -> CodeText:
    lines, aot = text.split("\n"), aot_id(text)
    texts = cpp_wrapper.read_kernels(lines)
    defined = {name: found for name, text in texts.items() if (found := _define(text, (), tuple))}
    calls = []
    for call in cpp_wrapper.read_calls(lines, texts):
        language = defined[call.function].language if call.function in defined else cpp_library(call.function)
        of = language.origins(call.comments, call.function)
        launch = Launch(call.line, call.arguments, of.nodes, "", of.source_nodes, of.aten)
        calls.append(_Call(call.function, language, launch, call.device))
    made = tuple(_kernels(partial(Kernel, *_OF_NONE), defined, calls, aot))
    return CodeText(aot, cpp_wrapper.read_buffers(lines), made, "" if made else _IN_CPP)


def _kernels_and_calls(text: str) -> str:
    """Return what is read, at its lines: the rest is more than half of what there is to parse of a small graph."""
    # _compile_to_module_lines() in torch/_inductor/graph.py puts what was tuned at compile time first, as a docstring
    tuned = text.find('\n"""\n') if text.startswith('r"""\n') else 0
    # write_header() ends the imports and names of functions with this; a C++ wrapper has no such line
    start = max(text.find("\nasync_compile = AsyncCompile()\n", max(tuned, 0)), 0)
    # add_benchmark_harness() ends the file with functions that make inputs and time the call
    end = text.rfind("\ndef get_args():", text.rfind("async_compile.wait("))
    return "\n" * text.count("\n", 0, start) + text[start : None if end < 0 else end]


def _kernels(
    make: Callable[..., Kernel], defined: Mapping[str, KernelDefinition], calls: Sequence[_Call], aot: str
) -> Iterator[Kernel]:
    by_name: dict[str, list[_Call]] = {name: [] for name in defined}
    for call in calls:
        by_name.setdefault(call.name, []).append(call)
    for name, called in by_name.items():
        launches = tuple(call.launch for call in called)
        device, aten = called[0].device if called else "", _each(launch.aten for launch in launches)
        if name not in defined:
            language, meta = called[0].language, {"aot_id": aot}
            aten = aten or language.origins((), name).aten
            yield make(
                name, language.kind, aten=aten, launches=launches, device=device, meta=meta, language=language.name
            )
            continue
        definition = defined[name]
        language, facts, origins = definition.language, definition.facts, definition.origins
        if len(launches) == 1 and origins.nodes:  # of several, the definition's comment names the first only
            launches = (replace(launches[0], nodes=origins.nodes),)
        nodes = origins.nodes or _each(launch.nodes for launch in launches)
        yield make(
            name,
            language.kind,
            facts.shape,
            definition.source,
            nodes=nodes,
            aten=origins.aten or aten,
            trust=Trust.TEXT if nodes else Trust.UNKNOWN,
            launches=launches,
            configs=facts.configs,
            device=facts.device or device,
            meta={"aot_id": aot, **facts.meta, **origins.meta},
            language=language.name,
            lexer=language.lexer,
        )


def _each(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(lists)))


# -- the kernels that it defines


def _definitions(tree: ast.Module, lines: Sequence[str], installed: Installed) -> Mapping[str, KernelDefinition]:
    """Every kernel that the module defines, by name, in the order of its text."""
    defined: dict[str, KernelDefinition] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                comments = wrapper.comments_above(lines, statement.lineno)
                kernel = _definition(target.id, statement.value, comments, installed)
                if kernel is not None:
                    defined[target.id] = kernel
    for name, kernel in defined.items():
        # A multi-kernel is several kernels that compute the same, to be tried when run: any of them has its nodes.
        first = next(iter(kernel.facts.meta.get("choices", ())), "")
        if first in defined:
            defined[name] = replace(kernel, origins=replace(defined[first].origins, meta=kernel.origins.meta))
    return defined


def _definition(name: str, call: ast.Call, comments: Sequence[str], installed: Installed) -> KernelDefinition | None:
    strings = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if not strings:
        return None
    source = max((one for one in strings if one != name), key=len, default="")
    others = [argument for argument in call.args if not isinstance(argument, ast.Constant)]
    variables = [node.id for argument in others for node in ast.walk(argument) if isinstance(node, ast.Name)]
    text = KernelText(name, wrapper.dotted(call.func), source, tuple(variables))
    kernel = _define(text, comments, installed)
    if kernel is not None and strings[0] not in (name, source):
        # Without unique names: what triton and its tuning call it.
        facts = replace(kernel.facts, meta={**kernel.facts.meta, "compiled_as": strings[0]})
        return replace(kernel, facts=facts)
    return kernel


def _define(text: KernelText, comments: Sequence[str], installed: Installed) -> KernelDefinition | None:
    language = next((one for one in INDUCTOR_LANGUAGES if one.makes(text)), None)
    language = language or next((one for one in installed() if one.makes(text)), None)
    if language is None and text.maker.startswith("async_compile."):
        language = ANY_ASYNC_COMPILE
    if language is None:
        return None
    origins = language.origins(comments, text.name)
    return KernelDefinition(text.name, language, text.source.strip("\n"), language.read(text), origins)


# -- the calls that launch kernels


class _Call(Struct, frozen=True):
    """One launch, with the name and the language of its kernel."""

    name: str
    language: KernelLanguage
    launch: Launch
    device: str


_LIBRARIES = tuple(language for language in INDUCTOR_LANGUAGES if language.libraries or language.methods)

# Functions that the wrapper calls beside kernels, and the first names of those that have dots.
_BOOKKEEPING = frozenset(
    (
        "assert_size_stride", "assert_size_stride_grouped", "assert_alignment", "assert_tensor_metadata",
        "alloc_from_pool", "copy_if_misaligned", "get_raw_stream", "reinterpret_tensor", "args", "self", "torch", "*",
    )
)  # fmt: skip


def _calls(steps: Sequence[wrapper.Step], reader: _Reader) -> list[_Call]:
    """All launches among these steps, in their order."""
    found: list[tuple[int, str, KernelLanguage, LaunchText]] = []
    for statement, device in steps:
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
            launched = reader.launched(statement.value)
            if launched is not None:
                found.append((statement.value.lineno, device, *launched))
    # Inductor's comment stands above its launch, maybe with `stream0 = ...` between; C++ kernels and scatters have
    # none. Those of kernel definitions are not indented, and kernel sources hold none.
    numbered = enumerate(reader.lines, 1)
    comments = [(n, line.lstrip()) for n, line in numbered if line[:1] == " " and "Original ATen: [" in line]
    comments.reverse()
    above: dict[int, str] = {}
    for number in sorted({number for number, *_ in found}):
        while comments and comments[-1][0] < number:
            above[number] = comments.pop()[1]
    calls = []
    for number, device, language, read in found:
        own = (above[number],) if number in above else wrapper.comments_above(reader.lines, number)
        of = language.origins(own, "")
        launch = Launch(number, read.arguments, of.nodes, read.grid, of.source_nodes, of.aten)
        calls.append(_Call(read.kernel, language, launch, device))
    return calls


_Launched = tuple[KernelLanguage, LaunchText]


class _Reader(Struct, frozen=True):
    lines: Sequence[str]
    kernels: Mapping[str, KernelDefinition]
    functions: Mapping[str, str]  # of the file, each with the extern kernel that it only calls
    installed: Installed

    def launched(self, call: ast.Call) -> _Launched | None:
        """Return the launch that a call is, and the language that knows it; None where it is not one."""
        function = wrapper.dotted(call.func)
        function = self.functions.get(function) or function
        head = function.partition(".")[0]
        if head in self.kernels:
            return self._of_defined(self.kernels[head].language, function, call)
        ours = self._of_library(_LIBRARIES, function, call)
        if ours or head in _BOOKKEEPING or head in self.functions or head.startswith("empty_strided"):
            return ours
        for language in self.installed():
            found = self._of_library((language,), function, call) or self._of_defined(language, function, call)
            if found is not None:
                return found
        return None

    def _of_library(self, languages: Iterable[KernelLanguage], function: str, call: ast.Call) -> _Launched | None:
        for language in languages:
            if language.libraries and function.startswith(language.libraries):
                return language, LaunchText(function, self._arguments(call))
            work, node = None, cast("ast.expr", call)  # the first of the language's methods in a chain of calls
            while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in language.methods:
                    work = node.func, node
                node = node.func.value
            if work is not None and not function.startswith("torch."):
                method, inner = work
                receiver = wrapper.source_text(method.value, self.lines)
                return language, LaunchText(f"Tensor.{method.attr}", (receiver, *self._arguments(inner)))
        return None

    def _of_defined(self, language: KernelLanguage, function: str, call: ast.Call) -> _Launched | None:
        launch = language.launch(self._text(function, call), self.kernels)
        return (language, launch) if launch is not None and launch.kernel in self.kernels else None

    def _arguments(self, call: ast.Call) -> tuple[str, ...]:
        return kernel_language.launched_by_name(self._text("", call), self.kernels).arguments

    def _text(self, function: str, call: ast.Call) -> kernel_language.CallText:
        keywords = {str(k.arg): wrapper.source_text(k.value, self.lines) for k in call.keywords}
        return kernel_language.CallText(
            function, tuple(wrapper.source_text(a, self.lines) for a in call.args), keywords
        )
