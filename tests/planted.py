"""Recordings in which every text is somebody else's: what nobody may see, or what must not act, stands in each field."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.recording.ids import CompileId

Plant = Callable[[str, str], str]  # from the name of a field, "Guard.expression", and its text to another text

# Where another text would leave a view nothing to show: an op that is none, a tensor of no type.
STRUCTURE = frozenset(
    ("Node.op", "Node.target", "TensorSpec.dtype", "TensorSpec.device", "Guard.kind", "Kernel.shape", "Kernel.device")
)


def planted(value: Any, plant: Plant, field: str = "") -> Any:
    """Return the same values with other texts, the keys of mappings among them."""
    if isinstance(value, str):
        return plant(field, value)
    if isinstance(value, (tuple, list)):
        return type(value)(planted(each, plant, field) for each in value)
    if isinstance(value, Mapping):
        return {planted(key, plant, field): planted(each, plant, field) for key, each in value.items()}
    if not isinstance(value, Struct) or isinstance(value, CompileId):
        return value
    of = type(value).__name__
    return replace(
        value, **{name: planted(getattr(value, name), plant, f"{of}.{name}") for name in value.__struct_fields__}
    )


def filled(kind: Any, plant: Plant, field: str = "") -> Any:  # noqa: PLR0911 -- one for each kind of type
    """Return a value of a type with something in each of its fields, and in each that this holds."""
    if kind in {str, Any}:
        return plant(field, "")
    if kind in {int, float, bool, type(None)}:
        return kind() if kind is type(None) else kind(1)
    if kind is CompileId:
        return CompileId(0, 0)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = {name: hint for name, hint in get_type_hints(kind).items() if name in kind.__struct_fields__}
        return kind(**{name: filled(hint, plant, f"{kind.__name__}.{name}") for name, hint in hints.items()})
    inside = get_args(kind)
    if get_origin(kind) in {Union, types.UnionType}:
        return filled(str if str in inside else inside[0], plant, field)
    if get_origin(kind) is tuple:
        return tuple(filled(each, plant, field) for each in inside if each is not Ellipsis)
    return {filled(inside[0], plant, field): filled(inside[1], plant, field)}
