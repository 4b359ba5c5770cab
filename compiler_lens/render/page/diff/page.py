"""What differs between two recordings as one HTML file, put together as the page of one recording is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.recording.redact import redacted_diff
from compiler_lens.render.page.diff.context import Both
from compiler_lens.render.page.diff.kernels import change_table, changes, pair_details, pair_table
from compiler_lens.render.page.diff.overview import overview
from compiler_lens.render.page.diff.tuning import autotune_blocks
from compiler_lens.render.page.diff.views import graph_views
from compiler_lens.render.page.pool import packed, shelved
from compiler_lens.render.page.shell import own_file, rendered, script, write
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.views import Compared
from compiler_lens.views.text import number, plural

# Views, as the page's script and addresses call them, with their names; in the order of the page's menu.
_VIEWS: Mapping[str, str] = {
    "overview": "Overview",
    "kernels": "Kernels",
    "graphs": "Graphs",
    "breaks": "Breaks, recompiles",
    "autotune": "Autotuning",
    "cudagraphs": "CUDA graphs",
    "times": "Times",
    "environment": "Environment",
}


def diff_page(compared: Compared, *, user_paths: UserPaths = (), redact: bool = False) -> str:
    """The whole page. With `redact`, without source text and without the folders of files."""
    before, after, result, names = compared.before, compared.after, compared.result, compared.names
    if redact:
        before, after, result = redacted_diff(before, after, result, Ownership.of(user_paths).owns)
        names = ("BEFORE", "AFTER")
    both = Both.of(before, after, result, names, user_paths)
    return rendered(
        "diff/page.html",
        own_file("page.css") + own_file("diff.css"),
        script("elements", "code", "tables", "diff", "search", "views"),
        **overview(both),
        views=_views(both),
        redact=redact,
        data=list(_data(both)),
    )


def write_diff(compared: Compared, target: Path, *, user_paths: UserPaths = (), redact: bool = False) -> None:
    """Write the page to a file. Raises `UsageError` where it cannot be written."""
    write(diff_page(compared, user_paths=user_paths, redact=redact), target)


def _views(both: Both) -> list[tuple[str, str, str]]:
    """Each view that has something to show, with how much that is."""
    d = both.diff
    timed = (d.before.phases.timed and d.after.phases.timed) or d.call_times or d.kernel_times
    counts: dict[str, int | None] = {
        "overview": None,
        "kernels": len(d.kernels) or (None if both.pairs else 0),
        "graphs": len(d.graphs),
        "breaks": len(d.breaks) + len(d.recompiles) + len(d.frames),
        "autotune": sum(change.times for change in d.autotunes),
        "cudagraphs": len(d.cudagraphs),
        "times": None if timed else 0,
        "environment": len(d.settings) or None,
    }
    return [
        (view, name, "" if counts[view] is None else number(counts[view]))
        for view, name in _VIEWS.items()
        if counts[view] != 0
    ]


def _data(both: Both) -> Iterator[tuple[str, str]]:
    """What the script reads, by name; the texts last, for then all are known."""
    yield "main", packed({"search": _found(both)})
    yield "kernels", packed(_kernels(both))
    yield "change", packed(changes(both))
    yield from shelved("kernel", ((one["key"], one) for one in pair_details(both)))
    graphs = graph_views(both)
    yield "graphs", packed([(one["key"], f"{one['name']} {one['where']}", one["note"], one["count"]) for one in graphs])
    yield from shelved("graph", ((one["key"], one) for one in graphs))
    yield "autotune", packed(autotune_blocks(both) if both.diff.autotunes else [])
    yield from both.pool.parts()


def _found(both: Both) -> list[list[str]]:
    """What the search finds: kernels by the names of either side."""
    return [
        [name, pair.verdict, f"#/kernel/{pair.key}", told.case_names(pair.first)]
        for pair in both.pairs
        for name in dict.fromkeys(one.kernel for one in (*pair.first.before, *pair.first.after))
    ]


def _kernels(both: Both) -> dict[str, Any]:
    """The tables of the kernels: what differs; what does not, folded into a line."""
    d = both.diff
    differing = [pair for pair in both.pairs if pair.change is not None]
    same = [pair for pair in both.pairs if pair.change is None and not pair.retuned]
    retuned = [pair for pair in both.pairs if pair.retuned]
    many = plural(sum(len(pair.cases) for pair in same), "launch", "launches")
    return {
        "line": told.kernels_line(d),
        "changes": change_table(both) if len(differing) > len(d.kernels) else None,
        "pairs": pair_table("Kernels that differ", differing) if differing else None,
        "retuned": [told.retuned_line(d), pair_table("Autotuned differently", retuned)] if retuned else None,
        "same": [f"{many} identical", pair_table("Identical", same)] if same else None,
    }
