"""Both sides of all that is known of kernels that stand for each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.kernels.kernels import fused_op_count
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import BufferAccess, Kernel, Launch, Trust
from compiler_lens.views import document as doc
from compiler_lens.views import words
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.around import tried
from compiler_lens.views.diff.kernels import LISTED, TIMES, code_blocks, pair_became, time_cells
from compiler_lens.views.diff.pairs import Half, Pair
from compiler_lens.views.diff.views import Asked
from compiler_lens.views.document import Block, Column, Section, Table, paragraph
from compiler_lens.views.kernel import config_table
from compiler_lens.views.lineage import modules_text
from compiler_lens.views.parts import At, Cell, Kind, Part, Span, Tone, ToView, code
from compiler_lens.views.text import flops, microseconds, nbytes, plural

_LONGEST = 400  # characters of a line of source
_MEASURED = "takes in one call"


class _One(Struct, frozen=True):
    """A kernel of one side of a pair, with those of its launches that the pair is about."""

    kernel: Kernel
    lineages: Sequence[Lineage]
    half: Half
    launch: Launch | None  # the first of them


def pair_blocks(asked: Asked, pair: Pair) -> Iterator[Block]:
    """Yield what became of kernels, their facts, lines, code, launches, and what was tried for them."""
    case, sides = pair.first, [_kernels(pair, 0, asked.halves[0]), _kernels(pair, 1, asked.halves[1])]
    if pair.change is not None:
        yield paragraph(ToView(f"change {pair.change + 1}", "change", pair.change + 1))
    times = told.microseconds(pair.times).removeprefix("; ")
    yield doc.KeyFigures(tuple(filter(None, (told.case_names(case), pair_became(pair), times))))
    if listed := told.differences(case.differences, LISTED):
        yield paragraph(listed, tone=Tone.STRONG)
    yield _facts(sides)
    if lines := _lines(sides):
        yield Section("From your lines", (Table((Column(), Column(), Column()), lines, is_short=True),))
    sources = (one.kernel.lexer for side in sides for one in side if one.kernel.source)
    yield Section("Code", code_blocks(*pair.code, next(sources, "python")), "without names, paths and comments")
    if len(pair.cases) > 1:
        yield Section(plural(len(pair.cases), "launch", "launches"), (_launches(asked, pair),))
    results = [next((r for one in side if (r := one.half.tuned.result(one.lineages))), None) for side in sides]
    if any(results):
        yield tried(results, "autotuning tried ")
    for side in sides:
        for one in side:
            configs = one.kernel.configs
            if len(configs) > 1 or (configs and config_table(configs).rows[0][1:5] != (None,) * 4):
                yield Section(f"{one.kernel.name}: {plural(len(configs), 'config')}", (config_table(configs),))
    if case.differences:
        columns = Column("what", choice=True), Column("name"), Column("before", Kind.CODE), Column("after", Kind.CODE)
        rows = tuple(
            (told.ASPECTS[d.aspect], words.op_name(d.name) if "." in d.name else d.name, d.before, d.after)
            for d in case.differences
        )
        yield doc.Aside("every value that differs", (Table(columns, rows, title="Every difference"),))


def _kernels(pair: Pair, side: int, half: Half) -> list[_One]:
    refs = (one for case in pair.cases for one in (case.before, case.after)[side])
    return [
        _One(kernel, half.lineages(launches), half, half.launch(launches[0]))
        for launches in grouped(refs, lambda one: one.kernel_id).values()
        if (kernel := half.kernel(launches[0]))
    ]


def _facts(sides: Sequence[Sequence[_One]]) -> Table:
    """A column for each kernel, a row for each fact; marked where one kernel stands for one and they differ."""
    columns = [Column(unseen="fact")]
    for side, listed in zip(("before", "after"), sides, strict=True):
        columns += [Column(f"{side} {one.kernel.name}") for one in listed]
    facts = [_of(one) for side in sides for one in side]
    alone = [len(side) for side in sides] == [1, 1]
    rows: list[tuple[Cell, ...]] = []
    for name in dict.fromkeys(name for each in facts for name in each):
        cells = [each.get(name, "") for each in facts]
        marked = alone and name != _MEASURED and cells[0] != cells[1]
        rows.append((name, *(Span(cell, Tone.WARN) if marked and cell else cell for cell in cells)))
    return Table(tuple(columns), tuple(rows), is_short=True)


def _of(one: _One) -> dict[str, str]:
    kernel, costs, launch = one.kernel, one.half.costs, one.launch
    took, count = costs.microseconds(one.lineages), costs.flops(one.lineages)
    traffic = costs.traffic(one.lineages)
    chosen = next((config for config in kernel.configs if config.chosen), None)
    several = len(one.lineages) > 1
    each = ", each launch" if several else ""
    # A library's kernel is called for many ops.
    nodes = [traced.node for own in one.lineages for traced in own.nodes if traced.node and not traced.is_view]
    ops = dict.fromkeys(words.op_name(op) for op in [n.original_aten or n.target for n in nodes] or kernel.aten)
    counted = plural(fused_op_count(kernel, costs.views), "op")
    exact = "" if traffic and traffic.trust is Trust.EXACT else "~"
    facts = {
        "kind": ", ".join(filter(None, (words.kernel_kind(kernel), kernel.device))),
        "computes": f"{counted}: {', '.join(ops)}" if ops else counted,
        "launches": f"{len(one.lineages) or len(kernel.launches):,}",
        _MEASURED: microseconds(took) if took is not None else "",
        f"reads{each}": _memory(launch.reads) if launch else "",
        f"writes{each}": _memory(launch.writes) if launch else "",
        "moves in all": f"{exact}{nbytes(traffic.bytes)}" if traffic and several else "",
        "multiplies": flops(count) if count else "",
        "config": ", ".join(f"{name}={value}" for name, value in sorted(chosen.values.items())) if chosen else "",
        "grid": launch.grid if launch else "",
        "modules": modules_text((module for lineage in one.lineages for module in lineage.modules), 4),
    }
    return {name: value for name, value in facts.items() if value}


def _memory(accesses: Sequence[BufferAccess]) -> str:
    sizes = [access.bytes for access in accesses if access.bytes is not None]
    whole = nbytes(sum(sizes) if len(sizes) == len(accesses) else None)
    return f"{whole} in {plural(len(accesses), 'buffer')}" if accesses else ""


def _lines(sides: Sequence[Sequence[_One]]) -> tuple[tuple[Cell, ...], ...]:
    """The user's lines behind the pair: of both sides, or of one. Line numbers are no difference, the text is."""
    before, after = (
        {(at.function, at.code.strip() or str(at.line)): at for one in side for own in one.lineages for at in own.lines}
        for side in sides
    )
    rows: list[tuple[Cell, ...]] = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        sign, tone = ("", Tone.QUIET) if old and new else ("-", Tone.BAD) if old else ("+", Tone.GOOD)
        at: tuple[Part, ...] = tuple(At(one, tone) for one in (old, new) if one)
        if old and new:
            is_there = (old.file.rpartition("/")[2], old.line) == (new.file.rpartition("/")[2], new.line)
            at = at[1:] if is_there else (at[0], " → ", at[1])
        rows.append((Span(sign, tone), at, code(key[1][:_LONGEST])))
    return tuple(rows)


def _launches(asked: Asked, pair: Pair) -> Table:
    """Where the output code of each side launches them."""
    rows: list[tuple[Cell, ...]] = []
    for case in pair.cases:
        both = list(zip((case.before, case.after), asked.halves, strict=True))
        called = (", ".join(f"line {at.line}" for one in side if (at := half.launch(one))) for side, half in both)
        side, half = both[1] if case.after else both[0]
        modules = modules_text(module for one in side for own in half.lineages([one]) for module in own.modules)
        rows.append((*called, modules, *time_cells(case.times)))
    columns = Column("before", Kind.CODE), Column("after", Kind.CODE), Column("modules"), *TIMES
    return Table(columns, tuple(rows))
