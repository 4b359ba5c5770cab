"""The memory that Inductor's output code allocates, takes over, and gets back from library kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.wrapper import Step, dotted, source_text
from compiler_lens.recording.model import Buffer, TensorSpec

_BUFFER = re.compile(r"(\w+_)?buf\d+$")  # a subgraph's are called true_graph_0_buf0

# torch.fx's short names, dtype_abbrs in torch/utils/_dtype_abbrs.py
_DTYPES: Mapping[str, str] = {
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
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            launched = statement.lineno in launch_lines
            buffer = _buffer(
                statement.targets[0].id, statement.value, _Place(device, lines, buffers), launched=launched
            )
            if buffer is not None:
                buffers[buffer.name] = buffer
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            _note_checked_spec(statement.value, _Place(device, lines, buffers))
    return tuple(buffers.values())


class _Place(Struct, frozen=True):
    device: str
    lines: Sequence[str]
    buffers: dict[str, Buffer]  # those so far

    def spec_of(self, name: str) -> TensorSpec | None:
        known = self.buffers.get(name)
        return known.spec if known else None


def _buffer(name: str, value: ast.expr, place: _Place, *, launched: bool) -> Buffer | None:
    if isinstance(value, ast.Name) and (value.id in place.buffers or _BUFFER.match(name)):
        return Buffer(name, place.spec_of(value.id), reuses=value.id)
    if isinstance(value, ast.Subscript) and dotted(value.value) in place.buffers:
        return Buffer(name, None)  # one of several results of a library kernel
    allocated = _allocated(name, value, place) if isinstance(value, ast.Call) else None
    return allocated or (Buffer(name, None) if launched and _BUFFER.match(name) else None)


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
        return Buffer(name, _spec(TensorSpec(_dtype_of(call), (), None, _device_of(call, place)), call.args, place))
    return None


def _dtype_of(call: ast.Call) -> str:
    return _dtype(next((k.value for k in call.keywords if k.arg == "dtype"), call.args[-1]))


def _device_of(call: ast.Call, place: _Place) -> str:
    named = next((k.value for k in call.keywords if k.arg == "device"), None)
    if isinstance(named, ast.Constant):
        return str(named.value)
    return "cpu" if dotted(call.func).startswith("empty_strided_cpu") else place.device


def _spec(base: TensorSpec | None, shape_and_stride: Sequence[ast.expr], place: _Place) -> TensorSpec:
    shape, stride = (_sizes(node, place.lines) for node in shape_and_stride[:2])
    return replace(base or TensorSpec("", ()), shape=shape, stride=stride)


def _sizes(node: ast.expr, lines: Sequence[str]) -> tuple[int | str, ...]:
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List)) else []
    return tuple(
        e.value if isinstance(e, ast.Constant) and isinstance(e.value, int) else source_text(e, lines) for e in elements
    )


def _dtype(node: ast.expr) -> str:
    name = dotted(node).removeprefix("torch.")
    return _DTYPES.get(name, name)


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
