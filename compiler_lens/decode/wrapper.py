"""The calling part of Inductor's output code: which kernels it launches, in which order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler_lens.decode.kernel_source import ORIGINS, KernelDefinition, device_name, names
from compiler_lens.recording.model import KernelKind, Launch


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One launch, with the name and, for what the output code does not define, the kind of its kernel."""

    name: str
    kind: KernelKind | None
    launch: Launch
    device: str


@dataclass(slots=True)
class _Scope:
    lines: Sequence[str]
    functions: Mapping[str, ast.FunctionDef]
    partitions: Sequence[str]
    entered: set[str]


@dataclass(frozen=True, slots=True)
class _Names:
    kernels: Mapping[str, KernelDefinition]
    wrapped: Mapping[str, str]  # functions that only call an extern kernel


Step = tuple[ast.stmt, str]  # a statement, and the device that it runs on

_GUARD = re.compile(r"torch\.(\w+)\.(?:_DeviceGuard|device)\((\w+)\)")  # an index, or on 2.15 maybe a name
_OP_ROOTS = ("torch.ops.", "aten.", "inductor_ops.", "_quantized.")
_LIBRARIES = re.compile(r"torch\.ops\.(mkldnn|mkl|onednn|mkldnn_prepacked|quantized)\.|_quantized\.")
# Work that the wrapper does with plain tensor methods: device copies (codegen_device_copy), zeroed workspaces
# (make_zero_buffer), the last step of a mix-order reduction (codegen/simd.py), carried values of a while loop.
_TENSOR_WORK = frozenset(
    ("copy_", "zero_", "fill_", "clone", "sum", "prod", "amin", "amax", "any", "all", "mean", "argmin", "argmax")
)


def read_steps(tree: ast.Module, lines: Sequence[str]) -> tuple[Step, ...]:
    """Every statement of the wrapper, in the order in which Inductor generated them, which is that of running."""
    functions = {function.name: function for function in _functions(tree)}
    scope = _Scope(lines, functions, _partition_names(tree), {n for n, f in functions.items() if _wrapped_extern(f)})
    steps = [*_enter("call", scope)]
    for name in functions:  # what no call reaches still is in the file
        steps += _enter(name, scope)
    return tuple(steps)


def read_calls(
    tree: ast.Module, steps: Sequence[Step], lines: Sequence[str], kernels: Mapping[str, KernelDefinition]
) -> tuple[KernelCall, ...]:
    """All launches among these steps, in their order."""
    wrapped = {f.name: extern for f in _functions(tree) if (extern := _wrapped_extern(f))}
    known = _Names(kernels, wrapped)
    calls = [call for statement, device in steps if (call := _kernel_call(statement, device, known, lines))]
    return _with_origins(calls, _origin_comments(lines))


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
    """`a.b.c` as text; `*.c` for an attribute of anything but a name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "*")
    return ".".join(reversed(parts))


def _kernel_call(statement: ast.stmt, device: str, known: _Names, lines: Sequence[str]) -> KernelCall | None:
    outer = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if not isinstance(outer, ast.Call):
        return None
    name, kind, call = _kernel_called(outer, known)
    if not name:
        return None
    receiver = [call.func.value] if name.startswith("Tensor.") and isinstance(call.func, ast.Attribute) else []
    arguments = [source_text(a, lines) for a in (*receiver, *call.args)]
    arguments += [source_text(k, lines) for k in call.keywords if k.arg != "stream"]
    grid_size = known.kernels[name].grid_arguments if name in known.kernels else 0
    kept, grid = arguments[: len(arguments) - grid_size], arguments[len(arguments) - grid_size :]
    launch = Launch(call.lineno, tuple(kept), grid=f"({', '.join(grid)})" if grid else "")
    return KernelCall(name, kind, launch, device)


def _kernel_called(call: ast.Call, known: _Names) -> tuple[str, KernelKind | None, ast.Call]:
    called = dotted(call.func)
    called = known.wrapped.get(called, called)
    head = called.partition(".")[0]
    if head in known.kernels:  # k.run(...) for triton, k.k(...) for CUTLASS, k(...) for C++
        return head, None, call
    if called.startswith("extern_kernels.") or _LIBRARIES.match(called):
        return called, KernelKind.EXTERN, call
    if called.startswith(_OP_ROOTS):
        return called, KernelKind.FALLBACK, call
    if head == "torch" or "." not in called:
        return "", None, call
    return _tensor_work(call)


def _tensor_work(call: ast.Call) -> tuple[str, KernelKind | None, ast.Call]:
    name, found = "", call
    node: ast.expr = call
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _TENSOR_WORK:
            name, found = f"Tensor.{node.func.attr}", node
        node = node.func.value
    return name, KernelKind.FALLBACK, found


def _origin_comments(lines: Sequence[str]) -> list[tuple[int, str]]:
    # Those of kernel definitions are not indented, and kernel sources hold none.
    return [(n, line) for n, line in enumerate(lines, 1) if line[:1] == " " and "Original ATen: [" in line]


def _with_origins(calls: Sequence[KernelCall], comments: Sequence[tuple[int, str]]) -> tuple[KernelCall, ...]:
    # A comment stands above its launch, maybe with `stream0 = ...` between; C++ kernels and scatters have none.
    waiting = list(reversed(comments))
    above: dict[int, str] = {}
    for line in sorted({call.launch.line for call in calls}):
        while waiting and waiting[-1][0] < line:
            above[line] = waiting.pop()[1]
    return tuple(_with_origin(call, above.get(call.launch.line, "")) for call in calls)


def _with_origin(call: KernelCall, comment: str) -> KernelCall:
    origin = ORIGINS.search(comment)
    if origin is None:
        return call
    bare = call.launch
    launch = Launch(bare.line, bare.arguments, bare.nodes, bare.grid, names(origin[1]), names(origin[2]))
    return KernelCall(call.name, call.kind, launch, call.device)


def source_text(node: ast.expr | ast.keyword, lines: Sequence[str]) -> str:
    """What stands in the file for this expression."""
    line = lines[node.lineno - 1]
    if node.end_lineno != node.lineno or not line.isascii():  # columns count bytes
        return ast.unparse(node)
    return line[node.col_offset : node.end_col_offset]
