"""Graphs for the page: of every compilation its stages, as code and as pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from compiler_lens.facts.graphs.graph_bodies import op_count
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.recording.model import CompileId, Graph
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.links import address
from compiler_lens.render.page.pictures import Album, Shown, stage_key
from compiler_lens.render.page.pool import Pool
from compiler_lens.views import words
from compiler_lens.views.picture.labels import kept_words, op_words

# How the page's buttons call a stage within its compilation, in their order: a group, and a short name in it.
_BUTTONS: Mapping[str, tuple[str, str]] = {
    "dynamo": ("", "Dynamo"),
    "joint": ("", "joint"),
    "forward": ("", "forward"),
    "inference": ("", "inference"),
    "backward": ("", "backward"),
    "training": ("", "both"),
    "post_grad": ("post-grad", "forward"),
    "post_grad_backward": ("post-grad", "backward"),
    "kernels": ("kernels", "forward"),
    "kernels_backward": ("kernels", "backward"),
    "frame": ("", "breaks"),
    "code-forward": ("code", "forward"),
    "code-inference": ("code", "inference"),
    "code-backward": ("code", "backward"),
}
_PLACES = {key: place for place, key in enumerate(_BUTTONS)}


def graph_data(context: PageContext) -> list[dict[str, Any]]:
    """Every compilation with its graphs and its output code, in order."""
    recording, links, pool = context.recording, context.links, context.pool
    graphs: defaultdict[CompileId, list[Graph]] = defaultdict(list)
    for graph in recording.graphs:
        graphs[graph.compile_id].append(graph)
    codes: defaultdict[CompileId, list[dict[str, Any]]] = defaultdict(list)
    for code in recording.output_codes:
        told = f"output code, {words.PASSES[code.direction]}" + (f", graph {code.ordinal + 1}" if code.ordinal else "")
        key = f"code-{code.direction.value}" + (f"-{code.ordinal}" if code.ordinal else "")
        codes[code.compile_id].append({"key": key, "name": told, "note": "", "code": pool.add(code.code)})
    found, pictures = [], _drawn(context, graphs)
    for each in {c.compile_id: c for c in recording.compilations}.values():
        name = function_name(each)
        levels, more = pictures[each.compile_id]
        own = [
            _graph(graph, pool) | {"levels": shown}
            for graph, shown in zip(graphs[each.compile_id], levels, strict=True)
        ]
        found.append(
            {
                "id": str(each.compile_id),
                "key": address(each.compile_id),
                "function": name.name,
                "at": links.at(name) if name.file else "",
                "href": links.href(name) if name.file else "",
                "stages": _named(*own, *more, *codes[each.compile_id]),
            }
        )
    return found


def _drawn(
    context: PageContext, graphs: Mapping[CompileId, Sequence[Graph]]
) -> dict[CompileId, tuple[list[Shown], list[dict[str, Any]]]]:
    """Pictures by compilation. Where there is not room for all, the first of each frame come first."""
    album = Album.of(context, graphs)
    ids = sorted(dict.fromkeys(c.compile_id for c in context.recording.compilations), key=_again)
    return {compile_id: album.of_compilation(compile_id) for compile_id in ids}


def _named(*stages: dict[str, Any]) -> list[dict[str, Any]]:
    """In the order of their buttons, with what stands on these."""
    found = []
    for stage in stages:
        key, _, part = stage["key"].rpartition("-") if stage["key"][-1].isdigit() else (stage["key"], "", "")
        group, short = _BUTTONS[key]
        number = f" {int(part) + 1}" if part else ""
        found.append((_PLACES[key], int(part or 0), stage | {"group": group, "short": short + number}))
    return [stage for *_, stage in sorted(found, key=lambda one: one[:2])]


def _again(compile_id: CompileId) -> int:
    return compile_id.recompile or 0


def _graph(graph: Graph, pool: Pool) -> dict[str, Any]:
    told = [op_words(*op_count(graph))]
    if graph.saved:
        told.append(kept_words(graph.saved))
    number = f", graph {graph.ordinal + 1}" if graph.ordinal else ""
    return {
        "key": stage_key(graph),
        "name": words.STAGES[graph.stage] + number,
        "note": "; ".join(told),
        "code": pool.add(graph.code) if graph.code else None,
    }
