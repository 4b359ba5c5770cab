"""What differs around the kernels, as tables: graphs, autotuning, CUDA graphs, environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from compiler_lens.analysis.diff.model import AutotuneChange, GraphChange, NodeChange, Verdict
from compiler_lens.model import AutotuneChoice, AutotuneResult, CompileId, Graph, GraphStage, Recording
from compiler_lens.render import words
from compiler_lens.render.console import diff_around_words as around
from compiler_lens.render.console import diff_words as told
from compiler_lens.render.console.environment import environment_facts
from compiler_lens.render.html.diff.code import compared
from compiler_lens.render.html.diff.matter import Both
from compiler_lens.render.html.ink import Cell, address
from compiler_lens.render.html.tables import Block, figure, table
from compiler_lens.render.text import milliseconds, plural

_VERDICTS: Mapping[Verdict, str] = {**told.VERDICTS, Verdict.IDENTICAL: "moved", Verdict.REMOVED: "gone"}
_COMPARED = 1_500  # lines of a graph's code, where every line may differ by a number
_ROOM = 20_000  # lines of all graphs together
_SIDES = ("before", "after")

_Graphs = Sequence[Mapping[tuple[CompileId, GraphStage, int], Graph]]


def graph_views(both: Both) -> list[dict[str, Any]]:
    """Each graph that differs: its ops, and its code before and after."""
    graphs = [{(g.compile_id, g.stage, g.ordinal): g for g in reversed(half.recording.graphs)} for half in both.halves]
    taken: Counter[str] = Counter()
    found, room = [], _ROOM
    for change in both.diff.graphs:
        code = _codes(change, graphs)
        room -= max(map(len, code))
        found.append(_graph(change, both) | {"code": _code(code, both) if all(code) and room >= 0 else None})
        key = found[-1]["key"]
        taken[key] += 1
        found[-1]["key"] = f"{key}/{taken[key]}" if taken[key] > 1 else key
    return found


def _graph(change: GraphChange, both: Both) -> dict[str, Any]:
    ids = " → ".join(dict.fromkeys(f"[{i}]" for i in (change.before, change.after)))
    number = f", graph {change.ordinal + 1}" if change.ordinal else ""
    counts = {verdict: sum(n.times for n in change.nodes if n.verdict is verdict) for verdict in _VERDICTS}
    note = ", ".join(f"{n:,} {_VERDICTS[v]}" for v, n in counts.items() if n)
    columns = ("=what", "`op", "#times", "module", "at")
    rows = [_node(node, both) for node in change.nodes]
    return {
        "key": f"{address(change.after)}/{change.stage.value}" + (f"-{change.ordinal}" if change.ordinal else ""),
        "name": f"{words.STAGES[change.stage]}{number}",
        "where": f"{ids} {change.function}",
        "note": note,
        "count": len(rows),
        "table": table("Ops", columns, rows, note=note),
    }


def _node(node: NodeChange, both: Both) -> Sequence[Cell]:
    return (
        _VERDICTS[node.verdict],
        around.node_change(node),
        figure(f"{node.times:,}", node.times) if node.times > 1 else "",
        node.module,
        both.page.at(node.line) if node.line else "",
    )


def _codes(change: GraphChange, graphs: _Graphs) -> tuple[list[str], list[str]]:
    """Both texts, without comments, as those hold paths and line numbers; nothing where there is too much of it."""
    ids = (change.before, change.after)
    found = [side.get((each, change.stage, change.ordinal)) for side, each in zip(graphs, ids, strict=True)]
    left, right = (_lines(graph) if graph else [] for graph in found)
    return (left, right) if max(len(left), len(right)) <= _COMPARED else ([], [])


def _lines(graph: Graph) -> list[str]:
    return [line for line in graph.code.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _code(code: tuple[list[str], list[str]], both: Both) -> dict[str, Any]:
    before, after = (both.pool.add("\n".join(lines)) for lines in code)
    return {"before": before, "after": after, "language": "python"} | compared(*code)


# -- autotuning


def autotune_blocks(both: Both) -> list[Block]:
    """Where another choice won, or only one side chose at all; then all that was tried there."""
    changes = both.diff.autotunes
    columns = ("`op", "`inputs", "#times", "before", "#took before", "after", "#took after")
    rows = [
        (
            change.op, " ".join(change.inputs), figure(f"{change.times:,}", change.times) if change.times > 1 else "",
            around.choice(change.before), _took(change.before), around.choice(change.after), _took(change.after),
        )
        for change in changes
    ]  # fmt: skip
    tried = [_results(half.recording) for half in both.halves]
    note = around.autotune_line(changes).partition(": ")[2]
    return [table("Autotuning", columns, rows, note=note), *(_tried(change, tried) for change in changes)]


def _took(choice: AutotuneChoice | None) -> Cell:
    return figure(milliseconds(choice.milliseconds), choice.milliseconds) if choice else ""


_Tried = Mapping[tuple[str, tuple[str, ...]], list[AutotuneResult]]


def _results(recording: Recording) -> _Tried:
    found: dict[tuple[str, tuple[str, ...]], list[AutotuneResult]] = {}
    for result in recording.autotunes:
        found.setdefault((result.op, result.inputs), []).append(result)
    return found


def _tried(change: AutotuneChange, tried: Sequence[_Tried]) -> Block:
    """The candidates of both sides, each once."""
    winners, key = (change.before, change.after), (change.op, change.inputs)
    sides = [_choices(known.get(key, ()), won) for known, won in zip(tried, winners, strict=True)]
    rows = [
        (
            choice, *(_candidate(side.get((choice, detail))) for side in sides),
            ", ".join(name for name, side, won in zip(_SIDES, sides, winners, strict=True)
                      if won is not None and side.get((choice, detail)) == won), detail,
        )
        for choice, detail in dict.fromkeys((*sides[1], *sides[0]))
    ]  # fmt: skip
    heading = f"{change.op}({', '.join(change.inputs)})"
    return table(heading, ("`choice", "#before", "#after", "won", "`detail"), rows, note=plural(len(rows), "choice"))


def _choices(results: Sequence[AutotuneResult], won: AutotuneChoice | None) -> dict[tuple[str, str], AutotuneChoice]:
    """By what they are: a template's name has a number that says nothing."""
    result = next((one for one in results if one.winner == won), None)
    return {(around.choice(one), one.detail): one for one in reversed(result.choices)} if result else {}


def _candidate(choice: AutotuneChoice | None) -> Cell:
    if choice is None:
        return ""
    return ("failed", 1e9) if choice.milliseconds is None else _took(choice)


# -- environments


def environment_rows(both: Both) -> list[tuple[str, str, str]]:
    """Where each side was recorded."""
    sides = [dict(environment_facts(half.recording.environment)) for half in both.halves]
    return [(name, *(side.get(name, "") for side in sides)) for name in dict.fromkeys((*sides[0], *sides[1]))]  # type: ignore[misc]
