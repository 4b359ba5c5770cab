"""Recordings that are of the right types and otherwise strange: ids that nothing has, names twice, circles, wild numbers.

They are made from the types of `recording.model`, and pass by all that decoding checks: whatever a view takes for
granted of a recording is found here.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import sample_recordings as samples
import seeds
from hypothesis import strategies as st
from msgspec import Meta, Struct
from msgspec.structs import replace
from mutated import TEXTS, Draw, one_of

from compiler_lens import load
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import Recording

_FILES = (
    "pictures/data/broken",
    "pictures/data/hops-kernels",
    "diff/data/inference",
    "measure/data/resnet-default",
    "gpu/data/resnet-default-profiled",
)
_NAMES = (
    "mul",
    "mul_1",
    "x",
    "buf0",
    "self",
    "arg0_1",
    "output",
    "aten.mul.Tensor",
    "/home/user/app/model.py",
    "f32",
    "s0",
    "L['x']",
)
_INTS = (0, 1, 2, 3, 7, -1, -7, 41, 1000, 2**31, 2**62, -(2**62))
_FLOATS = (0.0, 1.0, 0.5, -1.0, 1e-12, 1e9, 1.7e9, 1e18, -1e18)
_NUMBER, _COUNT = st.integers(0, 2**20), st.sampled_from((1, 1, 2, 3, 5, 8))
Where = tuple[Any, ...]  # a type and a field of it; "item" for what is in it
_HERE = st.sampled_from((True, False, False, False))


@cache
def recordings() -> tuple[Recording, ...]:
    """Return the recordings that parts are changed of."""
    made = (samples.broken(), samples.clean(), samples.hostile(), samples.nothing_compiled(), samples.many(4))
    return (*made, *(load(seeds.TESTS / f"{name}.clens.gz") for name in _FILES))  # each quick to show


@cache
def small_recordings() -> tuple[Recording, ...]:
    """Return those that others are compared with."""
    return tuple(recording for recording in recordings() if len(recording.kernels) < 10)


@st.composite
def changed_recordings(draw: Draw) -> Recording:
    """A recording of which some parts are replaced by others of their types, left out, repeated or turned round."""
    made = one_of(draw, recordings())
    for _ in range(draw(_COUNT)):
        field = one_of(draw, [name for name in Recording.__struct_fields__ if getattr(made, name)])
        inner = _changed(draw, getattr(made, field), _hints(Recording)[field], (Recording, field))
        made = replace(made, **{field: inner})
    return made


def _changed(draw: Draw, value: Any, hint: Any, where: Where) -> Any:
    """The same with one part of it changed; *where* says which field of what it stands in."""
    if isinstance(value, CompileId):
        return draw(of_type(CompileId))
    if isinstance(value, Struct) and not draw(_HERE):
        kind = type(value)
        field = one_of(draw, kind.__struct_fields__)
        inner = _changed(draw, getattr(value, field), _hints(kind)[field], (kind, field))
        return replace(value, **{field: inner})
    if isinstance(value, tuple) and value:
        return _changed_items(draw, value, get_args(_there(hint))[0], where)
    others = _values().get(where, ())
    return one_of(draw, others) if others and not draw(_HERE) else draw(of_type(hint))


def _there(hint: Any) -> Any:
    """What it is if it is not None."""
    return next((each for each in get_args(hint) if get_origin(each) is tuple), hint)


def _changed_items(  # noqa: PLR0911 -- one for each way
    draw: Draw, value: tuple[Any, ...], item: Any, where: Where
) -> tuple[Any, ...]:
    at = draw(_NUMBER) % len(value)
    match draw(_NUMBER) % 12:
        case 0:
            return ()
        case 1:
            return value[:at] + value[at + 1 :]
        case 2:
            return (*value[: at + 1], *value[at:])
        case 3:
            return value[::-1]
        case 4:
            return (*value, draw(of_type(item)))
        case 5:
            other = one_of(draw, _values().get(where, (value,)))
            return (*value, *other[:20])
    return (*value[:at], _changed(draw, value[at], item, (*where, "item")), *value[at + 1 :])


@cache
def _values() -> Mapping[Where, Sequence[Any]]:
    """Some values of each field of each type in all recordings."""
    found: dict[Where, list[Any]] = {}

    def walk(value: Any, where: Where) -> None:
        known = found.setdefault(where, [])
        if len(known) < 200 and value not in known[-3:]:
            known.append(value)
        if isinstance(value, Struct):
            for name in value.__struct_fields__:
                walk(getattr(value, name), (type(value), name))
        elif isinstance(value, tuple):
            for each in value[:100]:
                walk(each, (*where, "item"))

    for recording in recordings():
        walk(recording, ())
    return found


# -- from nothing


def made_recordings() -> st.SearchStrategy[Recording]:
    """Small recordings of anything that the types allow."""
    return of_type(Recording)


@cache
def of_type(hint: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911 -- one for each kind of hint
    """Values of a type, of few names and numbers, so that many of them are the same."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is CompileId:
        few = st.sampled_from((0, 0, 1, 2))
        usual = st.builds(CompileId, few, few)
        return st.one_of(
            usual,
            usual,
            st.sampled_from(
                (
                    CompileId(None, None),
                    CompileId(0, 0, 1),
                    CompileId(None, None, 0, 0),
                    CompileId(3, None),
                    CompileId(-1, -1, -1, -1),
                )
            ),
        )
    if origin is Annotated:
        bounds = next(one for one in arguments if isinstance(one, Meta))
        return of_type(arguments[0]).filter(lambda number: bounds.ge <= number <= bounds.le)
    if origin in (Union, types.UnionType):
        return st.one_of(*(of_type(each) for each in arguments))
    if origin is tuple:
        return st.lists(of_type(arguments[0]), max_size=3).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=2)
    simple: Mapping[Any, Callable[[], st.SearchStrategy[Any]]] = {
        str: lambda: st.one_of(st.sampled_from(_NAMES), st.sampled_from(TEXTS)),
        int: lambda: st.sampled_from(_INTS),
        float: lambda: st.sampled_from(_FLOATS),
        bool: st.booleans,
        type(None): st.none,
        Any: lambda: st.sampled_from((None, 0, -1, 1.5, "x", "", [], 10**12)),
    }
    if hint in simple:
        return simple[hint]()
    if issubclass(hint, Enum):
        return st.sampled_from(tuple(hint))
    hints = _hints(hint)
    return st.builds(
        hint, **{name: st.deferred(lambda each=hints[name]: of_type(each)) for name in hint.__struct_fields__}
    )


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind, include_extras=True)
