"""Kernels for the page: a table of all, and for each what it is, from the user's lines down to its source."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from compiler_lens.facts.kernels.fusion import UnfusedLaunches, causes, unfused
from compiler_lens.facts.kernels.kernel_rows import Costs, KernelRow
from compiler_lens.facts.kernels.kernels import is_generated, launch_count
from compiler_lens.facts.kernels.library_calls import computed_ops
from compiler_lens.facts.kernels.lineage import Lineage, is_view
from compiler_lens.facts.kernels.tuned import Tuned
from compiler_lens.recording.model import Direction, Kernel, SourceLine, Trust
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.ink import Cell, PageLinks, mood, plain
from compiler_lens.render.page.tables import Block, compile_id_cell, figure, table, tuned_block
from compiler_lens.views import words
from compiler_lens.views.console.fusion import why_apart
from compiler_lens.views.console.kernels import (
    access_lines,
    computes,
    config_rows,
    cost_lines,
    doubt_lines,
    measured_lines,
    moved,
)
from compiler_lens.views.console.lineage import branch_lines, branches, modules_text, unlinked
from compiler_lens.views.console.profile import profile_head
from compiler_lens.views.page.gains import Tile, cost_of, gain_cell, tiles
from compiler_lens.views.text import flops, microseconds, nbytes, number, plural, times

_COLUMNS = (
    "kernel\ncomputes", "=id", "=pass", "=kind", "#ops", "#launches", "#time", "#could gain\nbound by",
    "#moves\nmultiplies", "lines\nmodules",
)  # fmt: skip
_OPS = 6  # of a kernel, in the table
_COUNT = re.compile(r"\N{MULTIPLICATION SIGN}(\d+)")


def kernel_table(matter: PageContext) -> Block:
    """Every kernel: the slowest first, if that was measured, else the one that fuses most."""
    recording, ink = matter.recording, matter.ink
    rows = [_row(one, matter.costs, ink) for one in matter.rows]
    kinds = words.kind_counts(recording.kernels)
    launches = plural(launch_count(recording.kernels), "launch", "launches")
    measured = plain(measured_lines(recording, matter.rows, matter.costs, ink.page))
    doubts = plain(doubt_lines(list(recording.kernels), ink.page))
    told = [f"{number(len(rows))} with {launches}: {kinds}", *measured, *doubts]
    head = [(text, mood(line)) for line in profile_head(recording, ink.page) if (text := line.plain.strip())]
    return table("Kernels", _COLUMNS, rows, note="; ".join(told)) | {"lead": head}


def _row(row: KernelRow, costs: Costs, ink: PageLinks) -> Sequence[Cell]:
    kernel = row.group.first
    modules = modules_text(module for one in row.lineages for module in one.modules)
    lines = {(at.file, at.line): at for one in row.lineages for at in one.lines}
    cost = cost_of(row, costs)
    return (
        (kernel.name, kernel.name, ink.kernel(kernel), *_ops(row)),
        compile_id_cell(kernel.compile_id),
        words.PASSES[kernel.direction],
        words.kernel_kind(kernel),
        figure(number(row.group.op_count), row.group.op_count),
        figure(number(row.launches), row.launches),
        figure(microseconds(row.microseconds), row.microseconds),
        gain_cell(cost) if cost else "",
        _work(row),
        _places([lines[key] for key in sorted(lines)], modules, ink),
    )


def _ops(row: KernelRow) -> tuple[str, str]:
    """What it computes: the first ops, and all of them to be found by."""
    fused = [(op, n) for op, n in row.group.fused if not is_view(op)]
    called = () if is_generated(row.group.first) else computed_ops(row.lineages)
    own = [(op, 1) for op in called] or fused or row.group.fused
    names = [f"{words.op_name(op)} {times(n)}" if n > 1 else words.op_name(op) for op, n in own]
    more = f" +{len(names) - _OPS}" if len(names) > _OPS else ""
    return ", ".join(names[:_OPS]) + more, " ".join(names)


def _work(row: KernelRow) -> Cell:
    """What it moves, and what it multiplies."""
    if row.traffic is None and row.flops is None:
        return ""
    return (
        moved(row.traffic), row.traffic.bytes if row.traffic else "", "",
        "" if row.flops is None else flops(row.flops), "", row.flops,
    )  # fmt: skip


def _places(lines: Sequence[SourceLine], modules: str, ink: PageLinks) -> Cell:
    """`model.py:22, 24`, each with its address; and the modules."""
    told: list[tuple[str, str]] = []
    for number_, at in enumerate(lines):
        again = number_ > 0 and lines[number_ - 1].file == at.file
        told.append((str(at.line) if again else ink.at(at), ink.href(at)))
    return ("", None, tuple(told), modules, modules) if told or modules else ""


def kernel_details(matter: PageContext) -> list[dict[str, Any]]:
    """What each kernel's own view shows, in the order of `Recording.kernels`."""
    pairs: defaultdict[int, list[UnfusedLaunches]] = defaultdict(list)
    for pair in unfused(matter.recording):
        for index in {pair.first.index, pair.second.index}:
            pairs[index].append(pair)
    rows, tuned = {id(row.group.first): row for row in matter.rows}, Tuned.of(matter.recording)
    found = []
    for index, kernel in enumerate(matter.recording.kernels):
        lineages = matter.provenance.of_kernel(index)
        tried = tuned.result(lineages)
        more = {
            "apart": _apart(index, pairs.get(index, ()), matter.ink),
            "tiles": _tiles(rows.get(id(kernel)), matter),
            "tuned": tuned_block(tried) if tried else None,
        }
        found.append(_details(kernel, lineages, matter) | more)
    return found


def _tiles(row: KernelRow | None, matter: PageContext) -> list[Tile]:
    return tiles(row, matter.recording, matter.costs) if row else []


def kernel_lines(matter: PageContext) -> list[list[Any]]:
    """Each kernel's address, name and lines, in the order of `Recording.kernels`: all that the source view asks for."""
    files, found = matter.ink.files, []
    for index, kernel in enumerate(matter.recording.kernels):
        lines = {(files[at.file], at.line): None for one in matter.provenance.of_kernel(index) for at in one.lines
                 if at.file in files}  # fmt: skip
        found.append([matter.ink.kernels[id(kernel)], kernel.name, list(lines)])
    return found


def _details(kernel: Kernel, lineages: Sequence[Lineage], matter: PageContext) -> dict[str, Any]:
    ink, costs = matter.ink, matter.costs
    where = (f"[{kernel.compile_id}]", words.PASSES[kernel.direction], words.kernel_kind(kernel), kernel.device)
    linked = [one for one in lineages if one.lines]
    doubtful = [] if costs.is_usable else plain(cost_lines(lineages, costs, ink.page))
    lost = unlinked(lineages)
    tree = [_branch(at, branch, ink) for at, branch in branches(linked)]
    return {
        "key": ink.kernels[id(kernel)],
        "name": kernel.name,
        "where": ", ".join(filter(None, where)),
        "graph": PageLinks.graph(kernel.compile_id),
        "backward": kernel.direction is Direction.BACKWARD,
        "computes": _computes(kernel, linked, costs),
        "alike": _alike(tree),
        "tree": tree,
        "aten": [] if linked else [words.op_name(op) for op in kernel.aten],
        "lost": f"from no line that is known: {', '.join(lost)}" if lost else "",
        "memory": plain(access_lines(kernel, ink.page)),
        "doubtful": doubtful,
        "launches": _launches(kernel, lineages, costs, ink),
        "configs": _configs(kernel),
        "source": matter.pool.add(kernel.source) if kernel.source else None,
        "language": kernel.lexer,
    }


def _computes(kernel: Kernel, linked: Sequence[Lineage], costs: Costs) -> str:
    told = f"{computes(kernel, costs)}, {words.TRUST[kernel.trust]}"
    if kernel.trust is Trust.EXACT and any(one.trust is Trust.TEXT for one in linked):
        told += f"; their lines are {words.TRUST[Trust.TEXT]}"
    return told


def _alike(tree: Sequence[dict[str, Any]]) -> str:
    """A word on the counts in a tree."""
    several = next((count for branch in tree for _, told in branch["lines"] for count in _COUNT.findall(told)), "")
    return f"; \N{MULTIPLICATION SIGN}{several} stands for {several} that are alike" if several else ""


def _branch(at: Any, branch: Any, ink: PageLinks) -> dict[str, Any]:
    lines = [one.plain for one in branch_lines(branch, ink.page)]
    return {
        "at": ink.at(at) if at.file else "a line that torch does not tell",
        "href": ink.href(at),
        "code": at.code.strip()[:400],
        "lines": [[(len(line) - len(line.lstrip())) // 2 - 3, line.strip()] for line in lines],
    }


def _launches(kernel: Kernel, lineages: Sequence[Lineage], costs: Costs, ink: PageLinks) -> Block | None:
    if not kernel.launches:
        return None
    told = {one.launch: one for one in lineages}
    rows: list[Sequence[Cell]] = []
    for number_, launch in enumerate(kernel.launches):
        one = told.get(number_)
        took = costs.microseconds([one]) if one else None
        traffic = costs.traffic([one]) if one else None
        at = one.lines[0] if one and one.lines else None
        rows.append(
            (
                figure(f"line {launch.line}", launch.line),
                modules_text(one.modules) if one else "",
                ink.place_cell(at),
                figure(microseconds(took), took),
                figure(moved(traffic), traffic.bytes if traffic else None),
                f"({', '.join(launch.arguments)})",
                launch.grid,
            )
        )
    columns = ("output code", "modules", "at", "#time", "#moves", "`arguments", "`grid")
    return table(plural(len(rows), "launch", "launches"), columns, rows)


def _configs(kernel: Kernel) -> Block | None:
    rows = config_rows(kernel)
    columns = ("`config", "#time", "#registers", "#spills", "#shared memory", "chosen")
    return table(plural(len(rows), "config"), columns, rows) if rows else None


def _apart(index: int, pairs: Sequence[UnfusedLaunches], ink: PageLinks) -> Block | None:
    found = [(cause, one) for cause in causes(pairs) for one in cause.groups]
    found.sort(key=lambda pair: -pair[1].bytes)
    rows: list[Sequence[Cell]] = []
    for cause, alike in found:
        pair = alike.first
        is_first = pair.first.index == index
        other = (pair.second if is_first else pair.first).kernel
        rows.append(
            (
                figure(nbytes(alike.bytes), alike.bytes),
                figure(times(len(alike.pairs)), len(alike.pairs)) if len(alike.pairs) > 1 else "",
                (other.name, other.name, ink.kernel(other)),
                "after it" if is_first else "before it",
                why_apart(cause, pair),
            )
        )
    told = "what one kernel would not have to move, and why there are two"
    columns = ("#shares", "#times", "kernel", "runs", "why there are two")
    return table("Not fused with", columns, rows, note=told) if rows else None
