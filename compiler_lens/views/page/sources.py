"""The user's files for the page: what became of each line, and the kernels that work for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler_lens.facts.kernels.kernel_rows import Costs
from compiler_lens.facts.kernels.lineage import LaunchMatch
from compiler_lens.facts.overview.line_story import Asked, LineStory, story_of
from compiler_lens.facts.overview.source_view import FileView, LineFacts
from compiler_lens.recording.model import Direction
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.ink import PageLinks, address, plain
from compiler_lens.views import words
from compiler_lens.views.advice import changed, why
from compiler_lens.views.console import source as console
from compiler_lens.views.console.line import (
    inside_lines,
    is_only_views,
    launches_words,
    ops_lines,
    share_words,
)
from compiler_lens.views.console.source import marks_of
from compiler_lens.views.text import microseconds, plural

_LONGEST = 2_000  # characters of a line of source
_SHARES = 12
LEGEND = console.LEGEND | {"+": "compiled, in the graphs beside it"}


def source_data(matter: PageContext) -> list[dict[str, Any]]:
    """All files that something happened in."""
    return [_file(view, matter) for view in matter.views]


def _file(view: FileView, matter: PageContext) -> dict[str, Any]:
    lines: dict[str, Any] = {}
    for number, facts in view.facts.items():
        asked = Asked(view.file, number, "", matter.provenance.at_line(view.file, number))
        story = story_of(matter.recording, matter.provenance, asked, view)
        lines[str(number)] = _facts(facts, matter.ink) | _story(story, matter.costs, matter.ink)
    return {
        "name": matter.ink.files[view.file],
        "own": view.own,
        "counts": _counts(view),
        "breaks": view.breaks,
        "text": matter.pool.add("\n".join(_cut(line) for line in view.text)) if view.text else None,
        "functions": [[one.line, one.name] for one in view.seen],
        "lines": lines,
    }


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} … {len(line) - _LONGEST:,} more characters"


def _counts(view: FileView) -> str:
    broken = f"{plural(view.breaks, 'graph break')} at {plural(len(view.cards), 'line')}" if view.cards else ""
    not_compiled = f"{view.uncompiled_lines:,} not" if view.uncompiled_lines else ""
    return ", ".join(filter(None, (broken, f"{plural(view.compiled_lines, 'line')} compiled", not_compiled)))


def _facts(facts: LineFacts, ink: PageLinks) -> dict[str, Any]:
    told = [["!", f"break {one.number}", f": {why(one.card)}", f"#/breaks/{one.number}"] for one in facts.cards]
    told += [["!", "follows", f" from break {n}", f"#/breaks/{n}"] for n in facts.follows]
    told += [["|", f"break {n}", " is in what is called here", f"#/breaks/{n}"] for n in facts.calls_break]
    told += [["x", "failed here", f": {failure}", "#/frames"] for failure in facts.failures]
    told += [["g", "recompiled", f": {changed(cause)}", "#/recompiles"] for cause in facts.guards]
    return {
        "marks": marks_of(facts),
        "code": _cut(facts.code),
        "ids": [[str(i), ink.graph(i), address(i)] for i in facts.compiled],
        "told": told,
    }


def _story(story: LineStory, costs: Costs, ink: PageLinks) -> dict[str, Any]:
    shares = [[ink.at(at), ink.href(at), plural(n, "launch", "launches"), at.code.strip()[:200]]
              for at, n in story.shares[:_SHARES]]  # fmt: skip
    return {
        "ops": plain(ops_lines(story, ink.page)),
        "fate": words.FATES[story.fate],
        "kernels": [_kernel(members, costs) for members in _by_kernel(story.launches, costs)],
        "inside": plain(inside_lines(story, ink.page)),
        "shares": shares,
    }


def _by_kernel(matches: Sequence[LaunchMatch], costs: Costs) -> list[list[LaunchMatch]]:
    """What takes longest for the line first, where that was measured."""
    found: dict[int, list[LaunchMatch]] = {}
    for match in sorted(matches, key=is_only_views):
        found.setdefault(match.lineage.index, []).append(match)
    return sorted(found.values(), key=lambda members: -(_took(members, costs) or 0.0))


def _took(members: Sequence[LaunchMatch], costs: Costs) -> float | None:
    return costs.microseconds(match.lineage for match in members if not is_only_views(match))


def _kernel(members: Sequence[LaunchMatch], costs: Costs) -> list[Any]:
    """Its place among the kernels; whether it is of the backward; its launches, share and time for this line."""
    took = _took(members, costs)
    lineage = members[0].lineage
    return [
        lineage.index,
        int(lineage.kernel.direction is Direction.BACKWARD),
        launches_words(members),
        share_words(members),
        "" if took is None else microseconds(took),
    ]
