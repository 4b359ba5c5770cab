"""What differs around the kernels: graphs, environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from compiler_lens.facts.compare.model import GraphChange, NodeChange, Verdict
from compiler_lens.recording.model import CompileId, Graph, GraphStage
from compiler_lens.render.page.diff.code import compared
from compiler_lens.render.page.diff.context import Both
from compiler_lens.render.page.links import Cell, address
from compiler_lens.render.page.tables import figure, table
from compiler_lens.views import words
from compiler_lens.views.diff import around_words as around
from compiler_lens.views.diff import words as told
from compiler_lens.views.environment import environment_facts

_VERDICTS: Mapping[Verdict, str] = {**told.VERDICTS, Verdict.IDENTICAL: "moved", Verdict.REMOVED: "gone"}
_COMPARED = 1_500  # lines of a graph's code, where every line may differ by a number
_ROOM = 20_000  # lines of all graphs together

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
        around.node_modules(node),
        both.files.at(node.line) if node.line else "",
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


# -- environments


def environment_rows(both: Both) -> list[tuple[str, str, str]]:
    """Where each side was recorded."""
    sides = [dict(environment_facts(half.recording.environment)) for half in both.halves]
    return [(name, *(side.get(name, "") for side in sides)) for name in dict.fromkeys((*sides[0], *sides[1]))]  # type: ignore[misc]
