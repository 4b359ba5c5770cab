"""The calls in an output code that launch kernels, each read by its kernel's language."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_lens.decode.inductor_languages import INDUCTOR_LANGUAGES
from compiler_lens.decode.installed_languages import Installed
from compiler_lens.decode.kernel_language import Call, KernelDefinition, KernelLanguage, KernelLaunch, launched_by_name
from compiler_lens.decode.wrapper import Step, comments_above, dotted, source_text, wrapped_externs
from compiler_lens.recording.model import Launch


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One launch, with the name and the language of its kernel."""

    name: str
    language: KernelLanguage
    launch: Launch
    device: str


# Functions that the wrapper calls beside kernels, and the first names of those that have dots.
_BOOKKEEPING = frozenset(
    (
        "assert_size_stride", "assert_size_stride_grouped", "assert_alignment", "assert_tensor_metadata",
        "alloc_from_pool", "copy_if_misaligned", "get_raw_stream", "reinterpret_tensor", "args", "self", "torch", "*",
    )
)  # fmt: skip


def read_calls(
    tree: ast.Module,
    steps: Sequence[Step],
    lines: Sequence[str],
    kernels: Mapping[str, KernelDefinition],
    installed: Installed,
) -> tuple[KernelCall, ...]:
    """Return all launches among these steps, in their order."""
    reader = _Reader(lines, kernels, wrapped_externs(tree), installed)
    calls: list[KernelCall] = []
    for statement, device in steps:
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
            found = reader.launched(statement.value)
            if found is not None:
                language, line, read = found
                launch = Launch(line, read.arguments, grid=read.grid)
                calls.append(KernelCall(read.kernel, language, launch, device))
    return _with_origins(calls, lines)


_Found = tuple[KernelLanguage, int, KernelLaunch]  # with the line of the call


@dataclass(frozen=True, slots=True)
class _Reader:
    lines: Sequence[str]
    kernels: Mapping[str, KernelDefinition]
    functions: Mapping[str, str]  # of the file
    installed: Installed

    def launched(self, call: ast.Call) -> _Found | None:
        function = dotted(call.func)
        function = self.functions.get(function) or function
        head = function.partition(".")[0]
        if head in self.kernels:
            language = self.kernels[head].language
            launch = language.launch(self._text(function, call), self.kernels)
            return None if launch is None else (language, call.lineno, launch)
        for language in INDUCTOR_LANGUAGES:
            if language.libraries and function.startswith(language.libraries):
                return language, call.lineno, self._by_function(function, call)
        if "." in function and head != "torch":
            for language in INDUCTOR_LANGUAGES:
                work = _tensor_method(call, language.methods) if language.methods else None
                if work is not None:
                    name, receiver, inner = work
                    launch = self._by_function(name, inner)
                    arguments = (source_text(receiver, self.lines), *launch.arguments)
                    return language, inner.lineno, replace(launch, arguments=arguments)
        if head in _BOOKKEEPING or head in self.functions or head.startswith("empty_strided"):
            return None
        return self._launched_by_others(function, call)

    def _launched_by_others(self, function: str, call: ast.Call) -> _Found | None:
        for language in self.installed():
            if language.libraries and function.startswith(language.libraries):
                return language, call.lineno, self._by_function(function, call)
            launch = language.launch(self._text(function, call), self.kernels)
            if launch is not None and launch.kernel in self.kernels:
                return language, call.lineno, launch
        return None

    def _text(self, function: str, call: ast.Call) -> Call:
        keywords = {str(k.arg): source_text(k.value, self.lines) for k in call.keywords}
        return Call(function, tuple(source_text(a, self.lines) for a in call.args), keywords)

    def _by_function(self, function: str, call: ast.Call) -> KernelLaunch:
        return replace(launched_by_name(self._text(function, call), self.kernels), kernel=function)


def _tensor_method(call: ast.Call, methods: Collection[str]) -> tuple[str, ast.expr, ast.Call] | None:
    """Return the first of these methods in a chain of calls: its name, what it is called of, and the call."""
    found = None
    node: ast.expr = call
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in methods:
            found = f"Tensor.{node.func.attr}", node.func.value, node
        node = node.func.value
    return found


def _with_origins(calls: Sequence[KernelCall], lines: Sequence[str]) -> tuple[KernelCall, ...]:
    # Inductor's comment stands above its launch, maybe with `stream0 = ...` between; C++ kernels and scatters have
    # none. Those of kernel definitions are not indented, and kernel sources hold none.
    numbered = [(n, line) for n, line in enumerate(lines, 1) if line[:1] == " " and "Original ATen: [" in line]
    waiting = list(reversed(numbered))
    above: dict[int, str] = {}
    for line in sorted({call.launch.line for call in calls}):
        while waiting and waiting[-1][0] < line:
            above[line] = waiting.pop()[1]
    made = []
    for call in calls:
        comment = above.get(call.launch.line)
        comments = comments_above(lines, call.launch.line) if comment is None else (comment.lstrip(),)
        found = call.language.origins(comments, "")
        launch = replace(call.launch, aten=found.aten, source_nodes=found.source_nodes, nodes=found.nodes)
        made.append(replace(call, launch=launch))
    return tuple(made)
