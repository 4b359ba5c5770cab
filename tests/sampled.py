"""Which cases of a long table run at each check, and which only where `pytest -m long` asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def one_of(each: int, cases: Mapping[str, Any] | Iterable[str]) -> list[Any]:
    """Return the cases of a table as parameters: one of each few as it is, the others marked `long`.

    Args:
        each: of how many one runs at each check.
        cases: their names; or values by their names, of which a tuple is several arguments.

    """
    items = cases.items() if isinstance(cases, Mapping) else ((name, name) for name in cases)
    found = []
    for number, (name, value) in enumerate(items):
        marks = () if number % each == 0 else (pytest.mark.long,)
        found.append(pytest.param(*(value if isinstance(value, tuple) else (value,)), id=name, marks=marks))
    return found
