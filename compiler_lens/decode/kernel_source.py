"""The kernels that an output code defines, each read by its language."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from compiler_lens.decode.inductor_languages import ANY_ASYNC_COMPILE, INDUCTOR_LANGUAGES
from compiler_lens.decode.installed_languages import Installed
from compiler_lens.decode.kernel_language import KernelDefinition, KernelLanguage, KernelText
from compiler_lens.decode.wrapper import comments_above, dotted


def definitions(tree: ast.Module, lines: Sequence[str], installed: Installed) -> Mapping[str, KernelDefinition]:
    """Return every kernel that the module defines, by name, in the order of its text."""
    defined: dict[str, KernelDefinition] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            kernel = _definition(target.id, statement.value, comments_above(lines, statement.lineno), installed)
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
    text = KernelText(name, dotted(call.func), source, tuple(variables))
    language = _language(text, installed)
    if language is None:
        return None
    facts = language.read(text)
    if strings[0] not in (name, source):  # without unique names: what triton and its tuning call it
        facts = replace(facts, meta={**facts.meta, "compiled_as": strings[0]})
    return KernelDefinition(name, language, source.strip("\n"), facts, language.origins(comments, name))


def _language(text: KernelText, installed: Installed) -> KernelLanguage | None:
    for language in INDUCTOR_LANGUAGES:
        if language.makes(text):
            return language
    for language in installed():
        if language.makes(text):
            return language
    return ANY_ASYNC_COMPILE if text.maker.startswith("async_compile.") else None
