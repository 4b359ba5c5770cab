"""Kernels for the page of two recordings: tables of what differs, and for each pair both sides of all that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from compiler_lens.facts.compare.model import Case, Difference, LaunchRef, MatchMethod, Times
from compiler_lens.facts.kernels.kernels import fused_op_count
from compiler_lens.facts.kernels.launch_work import Traffic
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.recording.model import BufferAccess, Kernel, Launch, SourceLine, Trust
from compiler_lens.render.page.diff.code import compared
from compiler_lens.render.page.diff.context import Both, Half
from compiler_lens.render.page.diff.pairs import Pair, by_change
from compiler_lens.render.page.diff.tuning import tried_table
from compiler_lens.render.page.links import Cell
from compiler_lens.render.page.tables import Block, figure, table
from compiler_lens.views import words
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.code import SAME_CODE
from compiler_lens.views.diff.difference_words import ASPECTS, differences
from compiler_lens.views.lineage import modules_text
from compiler_lens.views.text import flops, microseconds, milliseconds, nbytes, number, plural

_LISTED = 99  # differences of one pair, told
_SIDES = ("before", "after")


def change_table(both: Both) -> Block:
    """Every change once, what weighs most first."""
    columns = ("change", "=verdict", "=match", "#launches", "#before", "#after", "#difference")
    rows = [
        (
            (told.change_words(change), None, href),
            told.verdict(change),
            _method(change.method),
            _launches(change.cases),
            *time_cells(change.times),
        )
        for change, href in zip(both.diff.kernels, change_hrefs(both), strict=True)
    ]
    return table("Changes", columns, rows, note=plural(len(rows), "change"))


def change_hrefs(both: Both) -> list[str]:
    """Where each change is told: that of one pair by the pair itself."""
    listed = by_change(both.pairs, len(both.diff.kernels))
    return [f"#/kernel/{own[0].key}" if len(own) == 1 else f"#/change/{number}" for number, own in enumerate(listed, 1)]


def changes(both: Both) -> list[dict[str, Any]]:
    """Each change by itself, with its pairs."""
    return [
        {
            "name": told.change_words(change),
            "verdict": told.verdict(change),
            "method": _method(change.method),
            "times": told.microseconds(change.times).removeprefix("; "),
            "table": pair_table("Kernels", own),
        }
        for change, own in zip(both.diff.kernels, by_change(both.pairs, len(both.diff.kernels)), strict=True)
    ]


def pair_table(title: str, pairs: Sequence[Pair]) -> Block:
    """Pairs, as they are matched, with how each differs."""
    columns = (
        "kernel", "`how it differs", "#before", "#after", "#difference", "=verdict", "=match", "#launches", "=id",
        "=pass",
    )  # fmt: skip
    ids = {one.compile_id for pair in pairs for one in (*pair.first.before, *pair.first.after)}
    rows = [_row(pair, with_id=len(ids) > 1) for pair in pairs]
    return table(title, columns, rows, note=plural(len(rows), "pair"))


def _row(pair: Pair, *, with_id: bool) -> Sequence[Cell]:
    one = (pair.first.after or pair.first.before)[0]
    return (
        (told.names(pair.first), None, f"#/kernel/{pair.key}"),
        differences(pair.first.differences, _LISTED) or told.grouping(pair.first),
        *time_cells(pair.times),
        pair.verdict,
        _method(pair.method),
        _launches(pair.cases),
        f"[{one.compile_id}]" if with_id else "",
        words.PASSES[one.direction],
    )


def _method(method: MatchMethod | None) -> str:
    return told.METHODS[method] if method else ""


def _launches(cases: Sequence[Case]) -> Cell:
    before, after = (sum(len(getattr(case, side)) for case in cases) for side in _SIDES)
    return figure(f"{before:,}" if before == after else f"{before:,} → {after:,}", max(before, after))


def time_cells(times: Times | None) -> tuple[Cell, Cell, Cell]:
    """Before, after, and the difference where it is above noise."""
    if times is None:
        return "", "", ""
    less = f"{-times.gain:+,.1f} µs".replace("-", "\N{MINUS SIGN}") if times.above_noise else "noise"
    before, after = told.amounts(times)
    return (
        figure(f"{before} µs", times.before),
        figure(f"{after} µs", times.after),
        figure(less, -times.gain if times.above_noise else 0.0),
    )


# -- one pair


def pair_details(both: Both) -> list[dict[str, Any]]:
    """What each pair's own view shows, in the order of `Both.pairs`."""
    codes: dict[object, dict[str, Any]] = {}
    found = []
    for pair in both.pairs:
        if pair.code not in codes:
            codes[pair.code] = _code(pair, both)
        found.append(_details(pair, both) | {"code": codes[pair.code]})
    return found


def _details(pair: Pair, both: Both) -> dict[str, Any]:
    case = pair.first
    listed = differences(case.differences, _LISTED)
    sides = [[one for each in pair.cases for one in getattr(each, side)] for side in _SIDES]
    kernels = [_kernels(side, half) for side, half in zip(sides, both.halves, strict=True)]
    return {
        "key": pair.key,
        "name": told.names(case),
        "kernels": [one.kernel for one in (*case.before, *case.after)],
        "where": told.case_names(case),
        "verdict": pair.verdict,
        "method": _method(pair.method),
        "change": None if pair.change is None else pair.change + 1,
        "told": listed,
        "times": told.microseconds(pair.times).removeprefix("; "),
        "differences": _differences(case.differences),
        "facts": _facts(kernels),
        "lines": _lines(kernels, both),
        "tuned": _tuned(kernels),
        "launches": _each_launch(pair, both),
        "configs": [block for side in kernels for one in side if (block := _configs(one))],
    }


class _One(Struct, frozen=True):
    """A kernel of one side of a pair, with those of its launches that the pair is about."""

    kernel: Kernel
    lineages: Sequence[Lineage]
    half: Half
    launch: Launch | None  # the first of them


def _kernels(side: Iterable[LaunchRef], half: Half) -> list[_One]:
    grouped: dict[object, list[LaunchRef]] = {}
    for one in side:
        grouped.setdefault(one.kernel_id, []).append(one)
    found = []
    for launches in grouped.values():
        kernel = half.kernel(launches[0])
        if kernel is not None:
            found.append(_One(kernel, half.lineages(launches), half, half.launch(launches[0])))
    return found


def _differences(found: Sequence[Difference]) -> Block | None:
    """Every value that differs, whole."""
    rows = [(ASPECTS[d.aspect], words.op_name(d.name) if "." in d.name else d.name, d.before, d.after) for d in found]
    return table("Every difference", ("=what", "name", "`before", "`after"), rows) if rows else None


def _facts(kernels: Sequence[Sequence[_One]]) -> dict[str, Any]:
    """A column for each kernel, a row for each fact; marked where one kernel stands for one and they differ."""
    columns = [(side, one) for side, listed in zip(_SIDES, kernels, strict=True) for one in listed]
    told_of = [_of(one) for _, one in columns]
    names = list(dict.fromkeys(name for facts in told_of for name in facts))
    alone = [len(side) for side in kernels] == [1, 1]
    rows = []
    for name in names:
        cells = [facts.get(name, "") for facts in told_of]
        rows.append([name, cells, int(alone and name not in _MEASURED and cells[0] != cells[1])])
    return {"columns": [[side, one.kernel.name] for side, one in columns], "rows": rows, "alone": alone}


_MEASURED = frozenset(("takes in one call",))


def _of(one: _One) -> dict[str, str]:
    kernel, costs, launch = one.kernel, one.half.costs, one.launch
    took, count = costs.microseconds(one.lineages), costs.flops(one.lineages)
    chosen = next((config for config in kernel.configs if config.chosen), None)
    several = len(one.lineages) > 1
    each = ", each launch" if several else ""
    facts = {
        "kind": ", ".join(filter(None, (words.kernel_kind(kernel), kernel.device))),
        "computes": _computes(one),
        "launches": f"{len(one.lineages) or len(kernel.launches):,}",
        "takes in one call": microseconds(took) if took is not None else "",
        f"reads{each}": _memory(launch.reads) if launch else "",
        f"writes{each}": _memory(launch.writes) if launch else "",
        "moves in all": _moved(costs.traffic(one.lineages)) if several else "",
        "multiplies": flops(count) if count else "",
        "config": ", ".join(f"{name}={value}" for name, value in sorted(chosen.values.items())) if chosen else "",
        "grid": launch.grid if launch else "",
        "modules": modules_text((module for lineage in one.lineages for module in lineage.modules), 4),
    }
    return {name: value for name, value in facts.items() if value}


def _computes(one: _One) -> str:
    """The ops of these launches: a library's kernel is called for many."""
    nodes = [traced.node for each in one.lineages for traced in each.nodes if traced.node and not traced.is_view]
    ops = [node.original_aten or node.target for node in nodes] or one.kernel.aten
    count = plural(fused_op_count(one.kernel, one.half.costs.views), "op")
    names = ", ".join(dict.fromkeys(words.op_name(op) for op in ops))
    return f"{count}: {names}" if names else count


def _memory(accesses: Sequence[BufferAccess]) -> str:
    if not accesses:
        return ""
    sizes = [access.bytes for access in accesses if access.bytes is not None]
    whole = nbytes(sum(sizes) if len(sizes) == len(accesses) else None)
    return f"{whole} in {plural(len(accesses), 'buffer')}"


def _lines(kernels: Sequence[Sequence[_One]], both: Both) -> list[list[str]]:
    """The user's lines behind the pair: of both sides, or of one. Line numbers are no difference, the text is."""
    sides = [_texts(listed) for listed in kernels]
    found = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        places = [both.files.at(side[key]) if key in side else "" for side in sides]
        mark = "=" if all(places) else "-" if places[0] else "+"
        found.append([mark, " → ".join(dict.fromkeys(filter(None, places))), key[1][:400]])
    return found


def _texts(listed: Sequence[_One]) -> dict[tuple[str, str], SourceLine]:
    lines = [at for one in listed for lineage in one.lineages for at in lineage.lines]
    return {(at.function, at.code.strip() or str(at.line)): at for at in lines}


def _each_launch(pair: Pair, both: Both) -> Block | None:
    """Where the output code of each side launches them."""
    if len(pair.cases) == 1:
        return None
    columns = ("`before", "`after", "modules", "#before takes", "#after takes", "#difference")
    rows: list[Sequence[Cell]] = []
    for case in pair.cases:
        before, after = (_called(side, half) for side, half in zip((case.before, case.after), both.halves, strict=True))
        rows.append((before, after, _modules(case, both), *time_cells(case.times)))
    return table(plural(len(rows), "launch", "launches"), columns, rows)


def _called(side: Sequence[LaunchRef], half: Half) -> str:
    return ", ".join(f"line {launch.line}" for one in side if (launch := half.launch(one)))


def _modules(case: Case, both: Both) -> str:
    side, half = (case.after, both.after) if case.after else (case.before, both.before)
    return modules_text(module for one in side for each in half.lineages([one]) for module in each.modules)


def _moved(traffic: Traffic | None) -> str:
    return f"{'' if traffic.trust is Trust.EXACT else '~'}{nbytes(traffic.bytes)}" if traffic else ""


def _tuned(kernels: Sequence[Sequence[_One]]) -> Block | None:
    """What autotuning tried for the op of the pair."""
    results = [next((r for one in side if (r := one.half.tuned.result(one.lineages))), None) for side in kernels]
    return tried_table(*results) if any(results) else None


def _configs(one: _One) -> Block | None:
    rows = [
        (
            ", ".join(f"{name}={value}" for name, value in config.values.items()),
            "" if config.milliseconds is None else milliseconds(config.milliseconds),
            "" if config.registers is None else number(config.registers),
            "" if config.spills is None else number(config.spills),
            "" if config.shared_bytes is None else nbytes(config.shared_bytes),
            "chosen" if config.chosen else "",
        )
        for config in one.kernel.configs
    ]
    columns = ("`config", "#time", "#registers", "#spills", "#shared memory", "chosen")
    if len(rows) == 1 and not any(rows[0][1:5]):
        return None
    return table(f"{one.kernel.name}: {plural(len(rows), 'config')}", columns, rows) if rows else None


def _code(pair: Pair, both: Both) -> dict[str, Any]:
    left, right = pair.code
    language = next((k.lexer for k in _sources(pair, both) if k.source), "python")
    texts = {"before": both.pool.add("\n".join(left)), "after": both.pool.add("\n".join(right)), "language": language}
    if left == right:
        return texts | {"same": SAME_CODE}
    return texts | compared(left, right)


def _sources(pair: Pair, both: Both) -> Iterable[Kernel]:
    for side, half in zip((pair.first.before, pair.first.after), both.halves, strict=True):
        yield from (kernel for one in side if (kernel := half.kernel(one)))
