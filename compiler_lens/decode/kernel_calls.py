"""The calls in an output code that launch kernels, each read by its kernel's language."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from compiler_lens.decode.inductor_languages import INDUCTOR_LANGUAGES
from compiler_lens.decode.installed_languages import Installed
from compiler_lens.decode.kernel_language import (
    CallText,
    KernelDefinition,
    KernelLanguage,
    LaunchText,
    launched_by_name,
)
from compiler_lens.decode.wrapper import Step, comments_above, dotted, source_text, wrapped_externs
from compiler_lens.recording.model import Launch


class KernelCall(Struct, frozen=True):
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


def read_calls(
    tree: ast.Module,
    steps: Sequence[Step],
    lines: Sequence[str],
    kernels: Mapping[str, KernelDefinition],
    installed: Installed,
) -> tuple[KernelCall, ...]:
    """Return all launches among these steps, in their order."""
    reader = _Reader(lines, kernels, wrapped_externs(tree), installed)
    found: list[tuple[int, str, KernelLanguage, LaunchText]] = []
    for statement, device in steps:
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
            launched = reader.launched(statement.value)
            if launched is not None:
                found.append((statement.value.lineno, device, *launched))
    above = _origin_comments(lines, {line for line, *_ in found})
    calls: list[KernelCall] = []
    for line, device, language, read in found:
        comments = (above[line],) if line in above else comments_above(lines, line)
        of = language.origins(comments, "")
        launch = Launch(line, read.arguments, of.nodes, read.grid, of.source_nodes, of.aten)
        calls.append(KernelCall(read.kernel, language, launch, device))
    return tuple(calls)


def _origin_comments(lines: Sequence[str], launched: Collection[int]) -> Mapping[int, str]:
    # Inductor's comment stands above its launch, maybe with `stream0 = ...` between; C++ kernels and scatters have
    # none. Those of kernel definitions are not indented, and kernel sources hold none.
    comments = [(n, line.lstrip()) for n, line in enumerate(lines, 1) if line[:1] == " " and "Original ATen: [" in line]
    waiting = list(reversed(comments))
    above: dict[int, str] = {}
    for line in sorted(launched):
        while waiting and waiting[-1][0] < line:
            above[line] = waiting.pop()[1]
    return above


_Launched = tuple[KernelLanguage, LaunchText]


class _Reader(Struct, frozen=True):
    lines: Sequence[str]
    kernels: Mapping[str, KernelDefinition]
    functions: Mapping[str, str]  # of the file
    installed: Installed

    def launched(self, call: ast.Call) -> _Launched | None:
        """Return the launch that a call is, and the language that knows it; None where it is not one."""
        function = dotted(call.func)
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
            work = _tensor_method(call, language.methods) if language.methods else None
            if work is not None and not function.startswith("torch."):
                method, inner = work
                receiver = source_text(method.value, self.lines)
                return language, LaunchText(f"Tensor.{method.attr}", (receiver, *self._arguments(inner)))
        return None

    def _of_defined(self, language: KernelLanguage, function: str, call: ast.Call) -> _Launched | None:
        launch = language.launch(self._text(function, call), self.kernels)
        return (language, launch) if launch is not None and launch.kernel in self.kernels else None

    def _arguments(self, call: ast.Call) -> tuple[str, ...]:
        return launched_by_name(self._text("", call), self.kernels).arguments

    def _text(self, function: str, call: ast.Call) -> CallText:
        keywords = {str(k.arg): source_text(k.value, self.lines) for k in call.keywords}
        return CallText(function, tuple(source_text(a, self.lines) for a in call.args), keywords)


def _tensor_method(call: ast.Call, methods: Collection[str]) -> tuple[ast.Attribute, ast.Call] | None:
    """Return the first of these methods that a chain of calls calls."""
    found = None
    node: ast.expr = call
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in methods:
            found = node.func, node
        node = node.func.value
    return found
