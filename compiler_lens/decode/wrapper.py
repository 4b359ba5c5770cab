"""The calling part of Inductor's output code: its statements, in the order of running."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.decode.triton_source import device_name


class _Scope(Struct):
    lines: Sequence[str]
    functions: Mapping[str, ast.FunctionDef]
    partitions: Sequence[str]
    entered: set[str]


Step = tuple[ast.stmt, str]  # a statement, and the device that it runs on

_GUARD = re.compile(r"torch\.(\w+)\.(?:_DeviceGuard|device)\((\w+)\)")  # an index, or on 2.15 maybe a name


def read_steps(tree: ast.Module, lines: Sequence[str]) -> tuple[Step, ...]:
    """Return every statement of the wrapper, in the order of running, which is that of code generation."""
    functions = {function.name: function for function in _functions(tree)}
    scope = _Scope(lines, functions, _partition_names(tree), {n for n, f in functions.items() if _wrapped_extern(f)})
    steps = [*_enter("call", scope)]
    for name in functions:  # what no call reaches still is in the file
        steps += _enter(name, scope)
    return tuple(steps)


def wrapped_externs(tree: ast.Module) -> Mapping[str, str]:
    """Return the module's functions, each with the extern kernel that it does nothing but call, or ""."""
    return {function.name: _wrapped_extern(function) for function in _functions(tree)}


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement
        elif isinstance(statement, ast.ClassDef) and statement.name == "Runner":
            yield from (m for m in statement.body if isinstance(m, ast.FunctionDef) and m.name == "call")


def _wrapped_extern(function: ast.FunctionDef) -> str:
    # define_extern_kernel_profile_wrapper() of 2.15: `def extern_kernels_X_3(*args, **kwargs): return X(...)`
    last = function.body[-1]
    if function.args.kwarg and isinstance(last, ast.Return) and isinstance(last.value, ast.Call):
        return dotted(last.value.func)
    return ""


def _partition_names(tree: ast.Module) -> Sequence[str]:
    for statement in reversed(tree.body):
        value = statement.value if isinstance(statement, ast.Assign) else None
        if isinstance(value, ast.Call) and dotted(value.func) == "Runner" and value.keywords:
            return [node.id for node in ast.walk(value.keywords[0].value) if isinstance(node, ast.Name)]
    return []


def _enter(name: str, scope: _Scope) -> Iterator[Step]:
    if name in scope.functions and name not in scope.entered:
        scope.entered.add(name)
        yield from _steps(scope.functions[name].body, "cpu", scope)


def _steps(body: Sequence[ast.stmt], device: str, scope: _Scope) -> Iterator[Step]:
    # A partition or a subgraph was generated where it is first called: that order pairs launches with code generation.
    for statement in body:
        if isinstance(statement, (ast.Expr, ast.Assign)):
            if isinstance(statement.value, ast.Call):
                yield from _enter(_called_function(statement.value, scope), scope)
            yield statement, device
        elif isinstance(statement, ast.With):
            guard = _GUARD.search(source_text(statement.items[0].context_expr, scope.lines))
            yield from _steps(statement.body, device_name(*guard.groups()) if guard else device, scope)
        elif isinstance(statement, (ast.If, ast.While, ast.For)):
            yield from _steps(statement.body, device, scope)
            yield from _steps(statement.orelse, device, scope)


def _called_function(call: ast.Call, scope: _Scope) -> str:
    if isinstance(call.func, ast.Subscript):  # self.partitions[0](partition0_args)
        index = call.func.slice
        number = index.value if isinstance(index, ast.Constant) and isinstance(index.value, int) else -1
        return scope.partitions[number] if 0 <= number < len(scope.partitions) else ""
    return call.func.id if isinstance(call.func, ast.Name) else ""


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` as text; `*.c` for an attribute of anything but a name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "*")
    return ".".join(reversed(parts))


def source_text(node: ast.expr | ast.keyword, lines: Sequence[str]) -> str:
    """Return what stands in the file for this expression."""
    line = lines[node.lineno - 1]
    if node.end_lineno != node.lineno or not line.isascii():  # columns count bytes
        return ast.unparse(node)
    return line[node.col_offset : node.end_col_offset]


def comments_above(lines: Sequence[str], line: int) -> Sequence[str]:
    """Return the comment lines that stand directly above this one, without what indents them."""
    first = line - 1
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return [one.lstrip() for one in lines[first : line - 1]]
