"""The views that are tables: guards, compile times, caches, autotuning, CUDA graphs, compilations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from compiler_lens.facts.program.compilations import compile_seconds
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.time.phases import phase_times
from compiler_lens.recording.model import CompileId, Recording, Span
from compiler_lens.recording.torch_names import Phase
from compiler_lens.render.page.ink import Cell, PageLinks
from compiler_lens.views import words
from compiler_lens.views.text import seconds

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


def strip(recording: Recording) -> dict[str, Any]:
    """The whole run: every compilation in order, its seconds by phase, and what happened in it."""
    spans: defaultdict[CompileId | None, list[Span]] = defaultdict(list)
    for span in recording.spans:
        spans[span.compile_id].append(span)
    breaks = Counter(event.compile_id for event in recording.graph_breaks)
    again = {recompile.compile_id for recompile in recording.recompiles}
    phases = list(Phase)
    bars = []
    for each in sorted(recording.compilations, key=lambda c: c.started):
        took = compile_seconds(each)
        times = phase_times(spans.get(each.compile_id, ()))
        told = f"[{each.compile_id}] {function_name(each).name}, {seconds(took)}"
        bars.append(
            [
                PageLinks.graph(each.compile_id),
                told,
                took or 0.0,
                [round(times.forward.get(phase, 0.0) + times.backward.get(phase, 0.0), 6) for phase in phases],
                breaks[each.compile_id],
                int(each.compile_id in again),
            ]
        )
    return {"phases": [words.PHASES[phase] for phase in phases], "bars": bars}
