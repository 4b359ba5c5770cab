"""Structs as plain JSON values and back, and as a JSON Schema: all by their type hints.

A `Struct` is an object with its fields' names; an enum is its value; a tuple, a sequence or a set is an array; a
mapping is an object; a type with a `parse` method (`CompileId`) is its text. A number that JSON cannot write (infinity,
NaN) is null. No class name is ever written: of a union the first member that fits is read, and members that look alike
tell themselves apart by a field whose hint is a `Literal`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from math import isfinite
from reprlib import repr as short
from sys import intern
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct, field
from msgspec.structs import asdict, fields

from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.shape import Figure, Whole

Value = TypeVar("Value")
Reader = Callable[[Any], Any]
Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_UNIONS = (Union, UnionType)
_BOUNDED: Mapping[Any, Any] = {int: Whole, float: Figure}  # what a number is, at least
_SCALARS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


# -- writing


class Instead(Struct, frozen=True):
    """What is written instead of the values of a type."""

    kind: Any  # the type that is written, which a schema describes
    make: Callable[[Any], Any]


Substitutes = Mapping[Any, Instead]  # by type


def plain(value: Any, substitutes: Substitutes = MappingProxyType({})) -> Any:
    """Return *value* as what JSON has, every field of every `Struct` in it. What is none of the above is its `str`.

    Args:
        value: what to write.
        substitutes: what to write instead of the values of some types.
    """
    return _plain(value, partial(_fields, asdict, substitutes))


def plain_fields(value: Struct, substitutes: Substitutes) -> Any:
    """Return a `Struct` as `plain` does, but each `Struct` in it as it is: an encoder asks for one after the other."""

    def kept(inner: Any) -> Any:
        if type(inner) in substitutes:
            return kept(substitutes[type(inner)].make(inner))
        return str(inner) if hasattr(type(inner), "parse") else inner

    value = kept(value)
    return {name: _plain(item, kept) for name, item in asdict(value).items()}


def packed(value: Any) -> Any:
    """Return *value* as `plain` does, without the fields that have their default: what `unpacked` reads back."""
    return _plain(value, partial(_fields, _telling_fields, {}))


def _plain(value: Any, of_struct: Callable[[Any], Any]) -> Any:  # noqa: PLR0911 -- one for each kind
    kind = type(value)
    if kind is str or value is None or kind is int or kind is bool:
        return value
    if kind is float:
        return value if isfinite(value) else None
    if kind is tuple or kind is list:
        return [_plain(item, of_struct) for item in value]
    if isinstance(value, Enum):
        return value.value
    if hasattr(kind, "__struct_fields__"):
        return of_struct(value)
    if isinstance(value, Mapping):
        return {str(_plain(key, str)): _plain(item, of_struct) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((_plain(item, of_struct) for item in value), key=repr)
    if isinstance(value, (str, int)):  # of a class of its own
        return value
    return [_plain(item, of_struct) for item in value] if isinstance(value, Sequence) else str(value)


def _fields(chosen: Callable[[Any], Mapping[str, Any]], substitutes: Substitutes, value: Any) -> Any:
    kind = type(value)
    of_struct = partial(_fields, chosen, substitutes)
    if kind in substitutes:
        return _plain(substitutes[kind].make(value), of_struct)
    if hasattr(kind, "parse"):
        return str(value)
    return {name: _plain(item, of_struct) for name, item in chosen(value).items()}


def _telling_fields(value: Any) -> Mapping[str, Any]:
    told = {}
    for name, default in _defaults(type(value)):  # type: ignore[arg-type]  # a type is hashable
        item = getattr(value, name)
        if item is not default and item != default:
            told[name] = item
    return told


@cache
def _defaults(kind: type) -> Sequence[tuple[str, Any]]:
    made = [(f.name, f.default if f.default_factory is NODEFAULT else f.default_factory()) for f in fields(kind)]
    return tuple(made)


# -- reading


def unpacked(kind: type[Value], data: Any) -> Value:
    """Return the value of type *kind* that `packed` or `plain` wrote as *data*.

    Fields that are not there have their default, and keys that are no field are passed over. Raises `PayloadError`
    where *data* does not fit.
    """
    value: Value = _reader(kind)(data)  # type: ignore[arg-type]  # a type is hashable
    return value


@cache
def _reader(hint: Any) -> Reader:  # noqa: C901, PLR0911 -- one for each kind of hint
    hint = _BOUNDED.get(hint, hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        bounds = next((one for one in arguments if isinstance(one, Meta)), None)
        return partial(_number, arguments[0], bounds) if bounds else _reader(arguments[0])
    if hint is Any or hint is object:
        return lambda data: data
    if hint is str:
        return _text
    if hint is None or hint in _SCALARS:
        return partial(_scalar, hint or NoneType)
    if origin is Literal:
        return partial(_literal, arguments)
    if origin in _UNIONS:
        readers = [_reader(member) for member in arguments if member is not NoneType]
        return partial(_member, readers, NoneType in arguments)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return partial(_converted, hint)
    if hasattr(hint, "parse"):
        return partial(_converted, hint.parse)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return partial(_struct, hint)
    if not isinstance(origin, type):
        raise TypeError(f"no way to read {hint!r}")
    if issubclass(origin, Mapping):
        return partial(_mapping, _reader(arguments[0]), _reader(arguments[1]))
    if origin is tuple and Ellipsis not in arguments:
        return partial(_row, [_reader(argument) for argument in arguments])
    make = next((made for made in (tuple, list, frozenset) if issubclass(origin, made)), tuple)
    return partial(_array, make, _reader(arguments[0]))


def _number(kind: Callable[[Any], Any], bounds: Meta, data: Any) -> Any:
    if type(data) not in (kind, int):
        raise PayloadError(f"{short(data)} is not a number")
    if not bounds.ge <= data <= bounds.le:
        raise PayloadError(f"a number is not between {bounds.ge} and {bounds.le}")
    return kind(data)


def _text(data: Any) -> str:
    # Names are there once, whatever refers to them: a recording is written with each in full.
    return intern(_scalar(str, data))


def _scalar(kind: type, data: Any) -> Any:
    if type(data) is not kind:
        raise PayloadError(f"{short(data)} is not {'null' if kind is NoneType else f'of type {kind.__name__}'}")
    return data


def _literal(choices: Sequence[Any], data: Any) -> Any:
    if data not in choices:
        raise PayloadError(f"{short(data)} is not one of {', '.join(map(repr, choices))}")
    return data


def _converted(convert: Callable[[Any], Any], data: Any) -> Any:
    try:
        return convert(data)
    except (ValueError, TypeError) as error:
        raise PayloadError(str(error)) from error


def _member(readers: Sequence[Reader], is_optional: bool, data: Any) -> Any:
    if is_optional and data is None:
        return None
    for each in readers[:-1]:
        with suppress(PayloadError):
            return each(data)
    return readers[-1](data)


def _struct(kind: type[Struct], data: Any) -> Any:
    if not isinstance(data, Mapping):
        raise PayloadError(f"{short(data)} is not an object for {kind.__name__}")
    known = _field_readers(kind)
    try:
        return kind(**{name: known[name](item) for name, item in data.items() if name in known})
    except TypeError as error:
        raise PayloadError(str(error)) from error


@cache
def _field_readers(kind: type[Struct]) -> Mapping[str, Reader]:
    hints = _hints(kind)
    return {name: _reader(hints[name]) for name in kind.__struct_fields__}


def _mapping(key: Reader, item: Reader, data: Any) -> Any:
    if not isinstance(data, Mapping):
        raise PayloadError(f"{short(data)} is not an object")
    return {key(name): item(each) for name, each in data.items()}


def _array(make: Callable[[Any], Any], item: Reader, data: Any) -> Any:
    if not isinstance(data, (list, tuple)):
        raise PayloadError(f"{short(data)} is not an array")
    return make([item(each) for each in data])


def _row(items: Sequence[Reader], data: Any) -> Any:
    if not isinstance(data, (list, tuple)):
        raise PayloadError(f"{short(data)} is not an array")
    if len(data) != len(items):
        raise PayloadError(f"{short(data)} does not have {len(items)} items")
    return tuple([item(each) for item, each in zip(items, data, strict=True)])


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)


# -- describing


def schema_of(kind: Any, substitutes: Substitutes = MappingProxyType({})) -> Schema:
    """Return the JSON Schema (draft 2020-12) of what `plain` writes of values of type *kind*.

    `Struct`s and enums stand under `$defs` by their name, described by the first paragraph of their docstring;
    `Annotated[T, "…"]` describes a field. Raises `ValueError` where two types share a name.
    """
    made = _Definitions(substitutes)
    root = made.schema(kind)
    definitions = {name: schema for name, (_, schema) in sorted(made.known.items())}
    return {"$schema": DIALECT, **root, "$defs": definitions}


class _Definitions(Struct, frozen=True):
    substitutes: Substitutes
    known: dict[str, tuple[Any, Schema]] = field(default_factory=dict)

    def schema(self, hint: Any) -> Schema:  # noqa: C901, PLR0911 -- one for each kind of hint
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            words = " ".join(word for word in arguments[1:] if isinstance(word, str))
            return {**self.schema(arguments[0]), **({"description": words} if words else {})}
        if hint is Any or hint is object:
            return {}
        if hint is None or hint in _SCALARS:
            return {"type": _SCALARS[hint or NoneType]}
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in _UNIONS:
            members = [self.schema(argument) for argument in arguments]
            if all(set(member) == {"type"} for member in members):
                return {"type": [member["type"] for member in members]}
            return {"anyOf": members}
        if isinstance(hint, type) and issubclass(hint, (Struct, Enum)):
            return self._named(hint)
        if not isinstance(origin, type):
            raise TypeError(f"no schema for {hint!r}")
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.schema(arguments[1])}
        if origin is tuple and Ellipsis not in arguments:
            items = [self.schema(argument) for argument in arguments]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "items": self.schema(arguments[0])}

    def _named(self, hint: Any) -> Schema:
        kind = self.substitutes[hint].kind if hint in self.substitutes else hint
        name = kind.__name__
        known = self.known.get(name)
        if known is None:
            self.known[name] = (kind, {})  # first of all: a type may hold others of its own
            made: Schema = {"description": " ".join((kind.__doc__ or "").partition("\n\n")[0].split())}
            if issubclass(kind, Enum):
                made["enum"] = [member.value for member in kind]
            elif hasattr(kind, "parse"):
                made["type"] = "string"
            else:
                hints = _hints(kind)
                properties = {field_name: self.schema(hints[field_name]) for field_name in kind.__struct_fields__}
                made |= {"type": "object", "properties": properties, "required": list(properties)}
            self.known[name] = (kind, made)
        elif known[0] is not kind:
            raise ValueError(f"two types are called {name}: {known[0].__module__} and {kind.__module__}")
        return {"$ref": f"#/$defs/{name}"}
