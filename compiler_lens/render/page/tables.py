"""The views that are tables: guards, compile times, caches, autotuning, CUDA graphs, compilations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.tuned import run_otherwise
from compiler_lens.facts.program.compilations import CompilationRow, compile_seconds
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.time.caches import cache_summary
from compiler_lens.facts.time.phases import Phase, phase_times
from compiler_lens.recording.model import AutotuneResult, Compilation, CompileId, Outcome, Recording, Span
from compiler_lens.render.page.ink import Cell, PageLinks, plain
from compiler_lens.views import words
from compiler_lens.views.console.times import SAVED, total_words, worker_lines
from compiler_lens.views.text import milliseconds, number, percent, plural, seconds

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


def compile_id_cell(compile_id: CompileId) -> Cell:
    """A compile id, which leads to its graphs."""
    return f"[{compile_id}]", None, PageLinks.graph(compile_id)


def time_blocks(recording: Recording, ink: PageLinks) -> list[Block]:
    """Phases, compilations, torch's own timed events."""
    phases = phase_times(recording.spans)
    found: list[Block] = []
    if phases.timed:
        parts = (phases.forward, phases.backward)
        rows: list[Sequence[Cell]] = [
            (
                words.PHASES[phase], figure(seconds(value), value), figure(percent(value, phases.total), value),
                *(figure(seconds(part[phase]), part[phase]) if part.get(phase) else "" for part in parts),
            )
            for phase, value in phases.both
        ]  # fmt: skip
        told = ", ".join((total_words(phases), *plain(worker_lines(phases))))
        found.append(table("By phase", ("phase", "#total", "#share", "#forward", "#lazy backward"), rows, note=told))
    ranked = sorted(recording.compilations, key=lambda c: -(compile_seconds(c) or 0.0))
    columns = ("id", "function", "at", "#forward", "#lazy backward")
    found.append(table("By compilation", columns, [_compilation(c, ink) for c in ranked]))
    return [*found, *_events(recording.spans)]


def _compilation(compilation: Compilation, ink: PageLinks) -> Sequence[Cell]:
    name = function_name(compilation)
    return (
        compile_id_cell(compilation.compile_id),
        name.name,
        ink.place_cell(name) if name.file else "",
        figure(seconds(compilation.seconds), compilation.seconds),
        figure(seconds(compilation.backward_seconds), compilation.backward_seconds),
    )


def _events(spans: Sequence[Span]) -> list[Block]:
    own: defaultdict[str, float] = defaultdict(float)
    for span in spans:
        own[span.name] += span.self_seconds
    calls = Counter(span.name for span in spans)
    ranked = sorted(own.items(), key=lambda item: -item[1])
    rows = [(name, figure(seconds(value), value), figure(number(calls[name]), calls[name])) for name, value in ranked]
    return [table("torch's timed events", ("`event", "#self time", "#calls"), rows)] if rows else []


def cache_blocks(recording: Recording, _: PageLinks) -> list[Block]:
    """Every question to a cache, and its answer."""
    summary = cache_summary(recording)
    rows: list[Sequence[Cell]] = [
        (compile_id_cell(c.compile_id), c.layer.value, c.result.value, c.key,
         figure(seconds(c.seconds_saved), c.seconds_saved), c.reason)
        for c in recording.caches
    ]  # fmt: skip
    if not rows:
        return []
    told = f"{words.WARMTH[summary.warmth]}: {summary.warm:,} of {plural(summary.asked, 'compilation')} from cache"
    saved = [{"text": SAVED}] if any(c.seconds_saved is not None for c in recording.caches) else []
    return [table("Caches", ("id", "=cache", "=answer", "`key", "#est. saved", "because"), rows, note=told), *saved]


def autotune_blocks(recording: Recording, _: PageLinks) -> list[Block]:
    """Every op that was tuned with its winner; then for each its candidates, the fastest first."""
    others = run_otherwise(recording, Provenance.of(recording).lineages) if recording.autotunes else {}
    results = enumerate(recording.autotunes)
    rows = [(*_won(result), words.runs_otherwise(others.get(index))) for index, result in results]
    columns = ("=id", "op", "`inputs", "`winner", "=kind", "#time", "#next best", "#choices", "#spent", "the winner is")
    note = f"{plural(len(rows), 'op')}, {words.tuning_time(recording.autotunes)}"
    return [table("Autotuning", columns, rows, note=note), *map(tuned_block, recording.autotunes)] if rows else []


def _won(result: AutotuneResult) -> Sequence[Cell]:
    winner, spent = result.winner, (result.seconds or 0.0) + (result.precompile_seconds or 0.0)
    took = winner.milliseconds if winner else None
    after = result.choices[1].milliseconds if winner and len(result.choices) > 1 else None
    return (
        compile_id_cell(result.compile_id), result.op, ", ".join(result.inputs), winner.name if winner else "",
        words.KERNEL_KINDS[winner.kind] if winner else "", figure(milliseconds(took or 0.0), took),
        figure(milliseconds(after or 0.0), after), figure(number(len(result.choices)), len(result.choices)),
        figure(seconds(spent), spent),
    )  # fmt: skip


def tuned_block(result: AutotuneResult) -> Block:
    """All that was tried for an op."""
    margin = f", the winner {result.margin:.2f} times faster than the next" if result.margin else ""
    spent = f"{seconds(result.seconds)} to measure, {seconds(result.precompile_seconds)} to compile"
    rows: list[Sequence[Cell]] = [
        (
            c.name, words.KERNEL_KINDS[c.kind],
            ("failed", 1e9) if c.milliseconds is None else (milliseconds(c.milliseconds), c.milliseconds),
            "winner" if c is result.winner else "", c.detail,
        )
        for c in result.choices
    ]  # fmt: skip
    heading = f"[{result.compile_id}] {result.op}({', '.join(result.inputs)})"
    note = f"{plural(len(result.choices), 'choice')}, {spent}{margin}"
    return table(heading, ("`choice", "kind", "#time", "won", "`detail"), rows, note=note)


def cudagraph_blocks(recording: Recording, ink: PageLinks) -> list[Block]:
    """Which compiled graphs run as CUDA graphs, and why not the others."""
    rows: list[Sequence[Cell]] = [
        (
            compile_id_cell(o.compile_id), words.PASSES[o.direction] if o.direction else "", words.CUDAGRAPHS[o.state],
            figure(f"{o.partitions:,}", o.partitions) if o.partitions else "", o.reason,
            ink.place_cell(o.user_stack[-1] if o.user_stack else None),
        )
        for o in recording.cudagraphs
    ]  # fmt: skip
    columns = ("id", "=pass", "=state", "#partitions", "because", "at")
    return [table("CUDA graphs", columns, rows, note=plural(len(rows), "graph"))] if rows else []


def compilation_blocks(compilations: Iterable[CompilationRow], ink: PageLinks) -> list[Block]:
    """Every compilation with the ops of its graphs."""
    rows = []
    for row in compilations:
        rest = f" after line {row.resumes_at}" if row.resumes_at is not None else ""
        rows.append(
            (
                compile_id_cell(row.compile_ids[0]), f"{row.name.name}{rest}",
                ink.place_cell(row.name) if row.name.file else "",
                *(figure(number(n), n) for n in (row.dynamo_ops, row.forward_ops, row.backward_ops, row.kernels)),
                figure(seconds(row.seconds), row.seconds),
                words.OUTCOMES[row.outcome] if row.outcome is not Outcome.COMPILED else "",
            )
        )  # fmt: skip
    columns = ("id", "function", "at", "#Dynamo ops", "#forward ops", "#backward ops", "#kernels", "#time", "=outcome")
    return [table("Compilations", columns, rows, note=plural(len(rows), "compilation"))] if rows else []


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
