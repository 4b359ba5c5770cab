"""The calling part of Inductor's output code: its statements in the order of running, the memory that they allocate."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.inductor_languages import device_name
from compiler_lens.recording.model import Buffer, TensorSpec
from compiler_lens.recording.shape import MOST


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


def read_runs(tree: ast.Module, lines: Sequence[str]) -> Mapping[range, int]:
    """Return how often one call of the graph runs each function, by its lines, where that is more than once."""
    functions = {function.name: function for function in _functions(tree)}
    scope = _Scope(lines, functions, _partition_names(tree), set())
    callers: dict[str, list[str]] = {}
    for name, function in functions.items():
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and (called := _called_function(node, scope)) in functions:
                callers.setdefault(called, []).append(name)
    runs: dict[str, int] = {}

    def count(name: str) -> int:
        if name not in runs:
            runs[name] = 1  # of a function that calls itself, and of one that nothing calls
            runs[name] = min(sum(map(count, callers.get(name, ()))) or 1, MOST)
        return runs[name]

    every = {range(f.lineno, (f.end_lineno or f.lineno) + 1): count(name) for name, f in functions.items()}
    return {span: times for span, times in every.items() if times > 1}


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


# -- memory: what is allocated, taken over, and got back from library kernels

_BUFFER = re.compile(r"(\w+_)?buf\d+$")  # a subgraph's are called true_graph_0_buf0

# torch.fx's short names, dtype_abbrs in torch/utils/_dtype_abbrs.py
DTYPES: Mapping[str, str] = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "b8",
    "complex32": "c32", "complex64": "c64", "complex128": "c128", "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3fnuz", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu", "float4_e2m1fn_x2": "f4e2m1fn_x2",
}  # fmt: skip


def read_buffers(steps: Sequence[Step], lines: Sequence[str], launch_lines: Collection[int]) -> tuple[Buffer, ...]:
    """Return every buffer, in the order of first assignment; what a kernel called in `launch_lines` returns is one."""
    buffers: dict[str, Buffer] = {}
    for statement, device in steps:
        value, place = getattr(statement, "value", None), _Place(device, lines, buffers)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            is_named = _BUFFER.match(name) is not None
            if isinstance(value, ast.Name) and (value.id in buffers or is_named):
                buffers[name] = Buffer(name, place.spec_of(value.id), reuses=value.id)
            elif isinstance(value, ast.Subscript) and dotted(value.value) in buffers:
                buffers[name] = Buffer(name, None)  # one of several results of a library kernel
            elif isinstance(value, ast.Call) and (allocated := _allocated(name, value, place)):
                buffers[name] = allocated
            elif is_named and statement.lineno in launch_lines:
                buffers[name] = Buffer(name, None)
        elif isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
            _note_checked_spec(value, place)
    return tuple(buffers.values())


class _Place(Struct, frozen=True):
    device: str
    lines: Sequence[str]
    buffers: dict[str, Buffer]  # those so far

    def spec_of(self, name: str) -> TensorSpec | None:
        known = self.buffers.get(name)
        return known.spec if known else None


def _allocated(name: str, call: ast.Call, place: _Place) -> Buffer | None:
    called = dotted(call.func)
    if called == "*.as_strided" and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Call):
        whole = _allocated(name, call.func.value, place)  # allocated larger than it is used
        return replace(whole, spec=_spec(whole.spec, call.args, place)) if whole else None
    if called == "reinterpret_tensor":
        source = dotted(call.args[0])
        return Buffer(name, _spec(place.spec_of(source), call.args[1:3], place), reuses=source)
    if called == "alloc_from_pool":  # pool, offset, dtype, shape, stride
        spec = TensorSpec(_dtype(call.args[2]), (), None, place.device)
        return Buffer(name, _spec(spec, call.args[3:5], place), reuses=dotted(call.args[0]))
    if "empty_strided" in called:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        device = "cpu" if called.startswith("empty_strided_cpu") else place.device
        if isinstance(named := given.get("device"), ast.Constant):
            device = str(named.value)
        base = TensorSpec(_dtype(given.get("dtype") or call.args[-1]), (), None, device)
        return Buffer(name, _spec(base, call.args, place))
    return None


def _spec(base: TensorSpec | None, shape_and_stride: Sequence[ast.expr], place: _Place) -> TensorSpec:
    sizes: list[tuple[int | str, ...]] = []
    for node in shape_and_stride[:2]:
        row: list[int | str] = []
        for size in node.elts if isinstance(node, (ast.Tuple, ast.List)) else ():
            if isinstance(size, ast.Constant) and type(size.value) is int and size.value < MOST:
                row.append(size.value)
            else:
                row.append(source_text(size, place.lines))
        sizes.append(tuple(row))
    shape, stride = sizes
    return replace(base or TensorSpec("", ()), shape=shape, stride=stride)


def _dtype(node: ast.expr) -> str:
    name = dotted(node).removeprefix("torch.")
    return DTYPES.get(name, name)


def _note_checked_spec(call: ast.Call, place: _Place) -> None:
    # A library kernel's result is allocated out of sight; the assertion after it says shape and stride, on 2.15
    # (assert_tensor_metadata) also the dtype.
    called = dotted(call.func)
    if called not in ("assert_size_stride", "assert_tensor_metadata"):
        return
    known = place.buffers.get(dotted(call.args[0]))
    if known is not None and known.spec is None:
        dtype = _dtype(call.args[3]) if called == "assert_tensor_metadata" else ""
        spec = _spec(TensorSpec(dtype, (), None, place.device), call.args[1:3], place)
        place.buffers[known.name] = replace(known, spec=spec)
