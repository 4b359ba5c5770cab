"""What the functions of a program were given and returned when it ran eagerly."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import Function
from compiler_lens.recording.source_text import syntax_if_known


class Seen(Struct, frozen=True):
    """A value, as far as it matters to who calls the function: of a tensor no elements."""

    kind: str  # "tensor"; "plain" for None, numbers and text; "tuple" of tensors; "module"; "other"
    text: str = ""  # of a plain value what Python writes for it, else its type's name
    shape: tuple[int, ...] = ()
    dtype: str = ""  # "float32"
    device: str = ""
    is_contiguous: bool = True
    requires_grad: bool = False
    shares: bool = False  # memory with an argument, or with another result
    parts: tuple[Seen, ...] = ()


class Call(Struct, frozen=True):
    """One call."""

    given: tuple[tuple[str, Seen], ...]  # parameters, with their names
    returned: Seen
    changed: tuple[str, ...] = ()  # parameters that are tensors and were changed in place


class Called(Struct, frozen=True):
    """Calls of one function."""

    file: str
    line: int  # of its `def`
    calls: tuple[Call, ...]  # the first ones, each but once
    is_whole: bool = True  # these are all
    name: str = ""  # qualified, as the text has it


def named(called: Iterable[Called], texts: Mapping[str, str]) -> tuple[Called, ...]:
    """Return calls with the names that functions have in the texts of their files."""
    names: dict[tuple[str, int], str] = {}
    for file, text in texts.items():
        if tree := syntax_if_known(text):
            names |= {(file, function.lineno): name for name, function in qualified(tree).items()}
    return tuple(replace(one, name=names.get((one.file, one.line), "")) for one in called)


def qualified(tree: ast.Module) -> dict[str, Function]:
    """Return the functions of a text by the names that Python gives them: of a module, and of its classes."""
    found: dict[str, Function] = {}
    left: list[tuple[str, Sequence[ast.stmt]]] = [("", tree.body)]
    while left:
        name, body = left.pop()
        for statement in body:
            if isinstance(statement, Function):
                found[f"{name}{statement.name}"] = statement
            elif isinstance(statement, ast.ClassDef):
                left.append((f"{name}{statement.name}.", statement.body))
    return found


def function_named(tree: ast.Module, name: str) -> Function | None:
    """Return a function by its qualified name, or the one in another function that alone has a name."""
    inside = [one for one in functions_in(tree) if one.name == name]
    return qualified(tree).get(name) or (inside[0] if len(inside) == 1 else None)


def functions_in(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Return all functions of a text, also those in others."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def named_functions(text: str) -> Sequence[tuple[str, ast.AST]]:
    """Return the functions of a text with their names, qualified but of those in others, which may be lambdas."""
    tree = parsed(text)
    if tree is None:
        return ()
    found: list[tuple[str, ast.AST]] = list(qualified(tree).items())
    outer = {one for _, one in found}
    found += [(one.name, one) for one in functions_in(tree) if one not in outer]
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as value):
                found.append((name, value))
    return found
