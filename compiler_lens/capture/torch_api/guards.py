"""The guards of a frame as they are made, with the values that they are on: what torch prints has not all of it."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from enum import EnumMeta
from typing import Any

from compiler_lens.capture.torch_api.module_hooks import FACT
from compiler_lens.capture.torch_api.places import Place

_MODULE = "torch._dynamo.guards"
_EMPTY = "EMPTY_NN_MODULE_HOOKS_DICT"
_SAME = "ID_MATCH"
BUILT = Place(
    _MODULE,
    "CheckFunctionManager.build_guards",
    f"{FACT}, and which member of an enum a guard is on",
    ("sorted_guards",),
    needs=(f"{_MODULE}:GuardBuilder.{_EMPTY}", f"{_MODULE}:GuardBuilder.{_SAME}", f"{_MODULE}:GuardBuilder.get"),
)


def telling(guards: Sequence[Any]) -> list[Any]:
    """Return the guards that are asked below: of most frames none, and each frame comes here."""
    kinds = vars(sys.modules[_MODULE])["GuardBuilder"]
    wanted = getattr(kinds, _EMPTY), getattr(kinds, _SAME)
    return [guard for guard in guards if getattr(guard.create_fn, "func", guard.create_fn) in wanted]


def not_looked_for(builder: Any, guards: Sequence[Any]) -> Iterator[OrderedDict[Any, Any]]:
    """Yield the empty tables of hooks that a frame was compiled with, and that its guards do not look into.

    torch leaves these guards out, for speed: GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT() in torch/_dynamo/guards.py.
    """
    if not sys.modules["torch._dynamo.config"].skip_nnmodule_hook_guards:
        return
    for guard in guards:
        if guard.create_fn_name() == _EMPTY and isinstance(table := builder.get(guard), OrderedDict):
            yield table


def members(builder: Any, guards: Sequence[Any]) -> Mapping[str, str]:
    """Return the members of enums that guards are on by their address, which torch after 2.11 prints with the class."""
    found: dict[str, str] = {}
    for guard in guards:
        if guard.create_fn_name() == _SAME:
            value = builder.get(guard)
            if issubclass(type(type(value)), EnumMeta):
                found[str(id(value))] = _named(value)
    return found


def _named(value: Any) -> str:
    """Return how a member of an enum is written: of several flags each, by its number what is no sum of flags."""
    kind, own = type(value), vars(value)
    name, number = own.get("_name_"), own.get("_value_")
    if not isinstance(number, int) or (isinstance(name, str) and name.isidentifier()):
        return f"{kind.__name__}.{name}"
    known = {flag: vars(one).get("_value_") for flag, one in vars(kind).get("_member_map_", {}).items()}
    flags = {flag: bit for flag, bit in known.items() if isinstance(bit, int) and bit.bit_count() == 1 and bit & number}
    if not number or sum(flags.values()) != number:
        return f"{kind.__name__}({number})"
    return "|".join(f"{kind.__name__}.{flag}" for flag in flags)
