"""What every entry of a recompiled frame wanted: the values in its guards and of its symbols, by the author's names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from compiler_lens.recording.model import CompileId, Guard, Recording, SourceLine

Rename = Callable[[CompileId, str], str]

# The names that c10 has for dtypes, in failed guards; torch's own in Python stand in the guards themselves.
DTYPES: Mapping[str, str] = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}  # fmt: skip

# TENSOR_MATCH and TYPE_MATCH in torch/_dynamo/guards.py; a size that may vary is None.
_TENSOR = re.compile(
    r"check_tensor\(.*?, (?P<type>\w+), DispatchKeySet\((?P<keys>[^)]*)\), torch\.(?P<dtype>\w+), device=\w+, "
    r"requires_grad=(?P<requires_grad>\w+), size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]\)"
)
_KIND = re.compile(
    r"___check_(?P<what>obj|type)_id\((?P<source>.*), (?P<id>\d+)\)(?:, type=(?P<type>.*))?\Z", re.DOTALL
)
_EQUALS = re.compile(r"(?P<source>.+?) (?:==|is) (?P<value>.+)\Z", re.DOTALL)
_CLASS = re.compile(r"(?:<class '(?:[^']*\.)?)?(?P<name>[A-Za-z_]\w*)(?:'>)?")  # an address is not a class
_STATE = "___check_global_state() against "
_AUTOCAST_CPU = 0  # the first of the devices in at::autocast's table, the second is CUDA
# c10/core/ScalarType.h
_SCALAR_TYPES: Mapping[str, str] = {"5": "float16", "6": "float32", "7": "float64", "15": "bfloat16"}


class EntryValues(Struct, frozen=True):
    """What one compilation was compiled for."""

    values: Mapping[str, str] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()  # sizes and numbers that may be any: `values` has the one that was seen
    dicts: frozenset[str] = frozenset()  # what `len(…)` was asked of as of a dict
    lines: Mapping[str, SourceLine] = field(default_factory=dict)  # where each was first needed

    def rank(self, tensor: str) -> int | None:
        """Return how many dimensions a tensor had."""
        found = self.values.get(f"dim of {tensor}")
        return None if found is None else int(found)

    def of_one_class(self, name: str, other: EntryValues) -> bool:
        """Return whether two compilations took a value of one class, or both had nothing to ask of it."""
        kinds = self.kind(name), other.kind(name)
        if any(kinds) or not self.values or not other.values:
            return kinds[0] == kinds[1] != ""
        return not any(key in values for values in (self.values, other.values) for key in (name, *_asked(name)))

    def kind(self, name: str) -> str:
        """Return what class a value was of, "None" for None; empty if that is not known, and for True and False."""
        told = next((self.values[key] for key in _asked(name) if key in self.values), "")
        if self.values.get(name) == "None" or told in {"None", "<class 'NoneType'>"}:
            return "None"
        found = _CLASS.fullmatch(told)
        return "" if found is None or found["name"] == "bool" else found["name"]


def _asked(name: str) -> tuple[str, str]:
    return f"type of {name}", f"identity of {name}"


def entry_values(recording: Recording, wanted: frozenset[CompileId], rename: Rename) -> Mapping[CompileId, EntryValues]:
    """Return the values of those compilations that took part in a recompile."""
    values: dict[CompileId, dict[str, str]] = {i: {} for i in wanted}
    varying: dict[CompileId, set[str]] = {i: set() for i in wanted}
    dicts: dict[CompileId, set[str]] = {i: set() for i in wanted}
    lines: dict[CompileId, dict[str, SourceLine]] = {i: {} for i in wanted}
    for guard in recording.guards:
        if guard.compile_id in wanted:
            values[guard.compile_id].update(_of_guard(guard, rename))
            if guard.user_line and guard.source:
                lines[guard.compile_id].setdefault(rename(guard.compile_id, guard.source), guard.user_line)
            if guard.kind == "DICT_LENGTH":
                dicts[guard.compile_id].add(rename(guard.compile_id, guard.source))
    for symbol in recording.symbols:
        if symbol.compile_id in wanted and symbol.source and symbol.value:
            name = rename(symbol.compile_id, symbol.source)
            values[symbol.compile_id].setdefault(name, symbol.value)
            if not symbol.specialized:
                varying[symbol.compile_id].add(name)
    return {i: EntryValues(values[i], frozenset(varying[i]), frozenset(dicts[i]), lines[i]) for i in wanted}


def _of_guard(guard: Guard, rename: Rename) -> Iterator[tuple[str, str]]:
    said = guard.expression
    if guard.kind == "GLOBAL_STATE":
        yield from _global_state(said.partition(_STATE)[2])
    elif found := _TENSOR.match(said):
        sizes, strides = (found[key].split(", ") if found[key] else [] for key in ("size", "stride"))
        name = rename(guard.compile_id, guard.source)
        yield f"dim of {name}", str(len(sizes))
        for key in ("type", "dtype", "requires_grad", "keys"):
            yield f"{key} of {name}", found[key]
        yield from ((f"{name}.shape[{axis}]", size) for axis, size in enumerate(sizes) if size != "None")
        yield from ((f"{name}.stride({axis})", stride) for axis, stride in enumerate(strides) if stride != "None")
    elif found := _KIND.match(said):
        name = rename(guard.compile_id, found["source"])
        yield f"{'identity' if found['what'] == 'obj' else 'type'} of {name}", found["type"] or found["id"]
        yield f"address of {name}", found["id"]
    elif said.startswith("not ") and guard.kind in {"LENGTH_CHECK", "DICT_LENGTH", "SEQUENCE_LENGTH"}:
        yield f"len({rename(guard.compile_id, guard.source)})", "0"
    elif guard.kind != "LAMBDA_GUARD" and (found := _EQUALS.match(said)):
        yield rename(guard.compile_id, found["source"]), found["value"]


def _global_state(text: str) -> Iterator[tuple[str, str]]:
    try:
        state = json.loads(text)
        enabled = state.get("autocast_state", {}).get("enabled", [])
    except (ValueError, AttributeError):
        return
    for name, value in state.items():
        if isinstance(value, (bool, int)):
            text = str(value)
            yield f"global {name}", _SCALAR_TYPES.get(text, text) if name == "default_dtype" else text
    if isinstance(enabled, list) and enabled:
        yield "global autocast(cpu)_enabled", str(enabled[_AUTOCAST_CPU])
