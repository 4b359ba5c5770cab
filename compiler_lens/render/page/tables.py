"""The views that are tables: guards, compile times, caches, autotuning, CUDA graphs, compilations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from compiler_lens.render.page.links import Cell

Block = dict[str, Any]


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, note: str = "") -> Block:
    """A table; a column's name may begin with `#` (figures), `` ` `` (code) or `=` (few values: a choice to filter by).

    Columns without anything in them are left out. What stands beneath in its cells is named after the end of a line.
    """
    listed = list(rows)
    cells = zip(*listed, strict=True) if listed else ((),) * len(columns)
    named = [_column(name, own) for name, own in zip(columns, cells, strict=True) if any(map(_said, own))]
    return {"table": title, "note": note, "size": len(listed), "columns": named}


def _column(name: str, cells: Iterable[Cell]) -> Block:
    """A column: what stands in it, each once, and which of that each row has. Thousands of guards say the same."""
    places: dict[Cell, int] = {}
    rows = [places.setdefault(cell, len(places)) for cell in cells]
    return {"name": name, "cells": list(places), "rows": rows}


def _said(cell: Cell) -> bool:
    return bool(cell if isinstance(cell, str) else cell[0] or any(cell[2:]))


def figure(text: str, value: float | None) -> Cell:
    """A number: how it is written, and what it is sorted by."""
    return "" if value is None else (text, value)
