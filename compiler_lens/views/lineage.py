"""Where launches come from, in words: modules folded, and a small tree from line to node."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from compiler_lens.facts.kernels.lineage import Lineage, Origin, Role, TracedNode
from compiler_lens.recording.ids import SourcePlace
from compiler_lens.recording.model import SourceLine, Trust
from compiler_lens.views import words
from compiler_lens.views.document import Branch
from compiler_lens.views.parts import At, Part, Tone, code, quiet, strong
from compiler_lens.views.text import times

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_MODULES = 6
_NODES = 6

# What a node has to do with an op of the user's.
ROLES: Mapping[Role, str] = {
    Role.COMPUTES: "{}",
    Role.DIFFERENTIATES: "gradient of {}",
    Role.RECOMPUTES: "{}, recomputed",
    Role.FEEDS: "added by the compiler, goes into {}",
}


class TracedLaunch(Struct, frozen=True):
    """One launch and all that its nodes come from."""

    launch: int | None
    trust: Trust
    lines: tuple[SourceLine, ...]
    modules: tuple[str, ...]
    nodes: tuple[TracedNode, ...]
    lost: tuple[str, ...]


def folded_modules(paths: Iterable[str]) -> list[str]:
    """Return modules, those that differ in a number only once: `layers.0…11.norm`, and how many they are."""
    patterns: dict[str, dict[str, None]] = defaultdict(dict)
    for path in paths:
        patterns[_NUMBER.sub("*", path)][path] = None
    folded: list[str] = []
    for pattern, members in patterns.items():
        text = pattern
        columns = [sorted(set(map(int, column))) for column in zip(*map(_NUMBER.findall, members), strict=True)]
        varying = [column for column in columns if len(column) > 1]
        if len(varying) == 1 and varying[0] == list(range(varying[0][0], varying[0][-1] + 1)):
            for column in columns:
                shown = str(column[0]) if len(column) == 1 else f"{column[0]}…{column[-1]}"
                text = text.replace("*", shown, 1)
        folded.append(f"{text} {times(len(members))}" if len(members) > 1 else next(iter(members)))
    return folded


def modules_text(paths: Iterable[str], most: int = 2) -> str:
    """Return the first of the modules, and how many more there are."""
    return first(folded_modules(paths), most)


def first(texts: Sequence[str], most: int) -> str:
    """Return the first of some texts, and how many more there are: `a, b +3`."""
    more = f" +{len(texts) - most:,}" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def lines_of(lineages: Iterable[Lineage]) -> tuple[SourceLine, ...]:
    """Return the user's lines that launches work for, each once, file by file."""
    found = {at.place: at for one in lineages for at in one.lines}
    return tuple(sorted(found.values(), key=lambda at: (at.file, at.line)))


class _Work(Struct):
    """What is done for one op of the user's."""

    origins: dict[int, Origin] = field(default_factory=dict)
    nodes: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))  # by ATen op


_Modules = dict[str, dict[tuple[Role, str], _Work]]  # by modules, then by what is done for which op


def branches(lineages: Iterable[Lineage]) -> tuple[tuple[Branch, ...], int]:
    """Return from line to module to torch op to ATen op to node what launches do; for layers that are alike once.

    With it comes how many are alike in the first such place; 0 where none are.
    """
    lines: dict[SourcePlace, SourceLine] = {}
    found: dict[SourcePlace, _Modules] = {}
    for lineage in lineages:
        for node in lineage.nodes:
            for origin in node.origins:
                at = origin.line or SourceLine("", 0)
                lines.setdefault(at.place, at)
                modules = found.setdefault(at.place, {}).setdefault(_NUMBER.sub("*", origin.module), {})
                work = modules.setdefault((node.role, words.op_name(origin.target)), _Work())
                work.origins[origin.number] = origin
                if node.target is not None:
                    work.nodes[words.op_name(node.original_aten or node.target)][node.name] = None
    counts = (len(work.origins) for each in found.values() for listed in each.values() for work in listed.values())
    alike = next((count for count in counts if count > 1), 0)
    return tuple(_line_branch(lines[place], modules) for place, modules in found.items()), alike


def _line_branch(at: SourceLine, modules: _Modules) -> Branch:
    where: Part = At(at, Tone.STRONG) if at.file else strong("a line that torch does not report")
    children: list[Branch] = []
    for path, listed in modules.items():
        own = tuple(_work_branch(role, target, work) for (role, target), work in listed.items())
        if not path:
            children += own
            continue
        origins = [origin for work in listed.values() for origin in work.origins.values()]
        kinds = ", ".join(dict.fromkeys(origin.module_type for origin in origins if origin.module_type))
        named = modules_text((origin.module for origin in origins), _MODULES)
        children.append(Branch((named, quiet(f"  {kinds}")), own, limit=1))
    return Branch((where, "  ", code(at.code.strip())), tuple(children), limit=1)


def _work_branch(role: Role, target: str, work: _Work) -> Branch:
    several = f" {times(len(work.origins))}" if len(work.origins) > 1 else ""
    head = ROLES[role].format(target or "this line") + several
    ops = "; ".join(f"{op}: {first(list(names), _NODES)}" for op, names in work.nodes.items())
    return Branch((head, quiet(f" → {ops}") if ops else ""), limit=3)


def unlinked(lineages: Iterable[Lineage]) -> list[str]:
    """Return the nodes that lead to no line."""
    found = [name for one in lineages for name in (*(s.name for s in one.nodes if not s.origins), *one.lost)]
    return list(dict.fromkeys(found))
