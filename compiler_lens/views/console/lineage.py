"""Where launches come from, as text: modules and lines folded, and a small tree from line to node."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from compiler_lens.facts.kernels.lineage import Lineage, NodeProvenance, Origin, Role
from compiler_lens.recording.model import SourceLine
from compiler_lens.render.console.page import CODE, DIM, PLACE, Page, line, paragraph
from compiler_lens.views import words
from compiler_lens.views.text import plural, times

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_LINES = 12
_MODULES = 6
_NODES = 6


def folded_modules(paths: Iterable[str]) -> list[str]:
    """Modules that differ in a number only, once: `layers.0…11.norm`, and how many they are."""
    patterns: dict[str, dict[str, None]] = defaultdict(dict)
    for path in paths:
        patterns[_NUMBER.sub("*", path)][path] = None
    return [_folded(pattern, list(members)) for pattern, members in patterns.items()]


def _folded(pattern: str, members: Sequence[str]) -> str:
    if len(members) == 1:
        return members[0]
    numbers = [sorted(set(map(int, column))) for column in zip(*map(_NUMBER.findall, members), strict=True)]
    varying = [column for column in numbers if len(column) > 1]
    shown = iter(numbers)
    if len(varying) == 1 and varying[0] == list(range(varying[0][0], varying[0][-1] + 1)):
        pattern = re.sub(r"\*", lambda _: _range(next(shown)), pattern)
    return f"{pattern} {times(len(members))}"


def _range(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}…{numbers[-1]}"


def modules_text(paths: Iterable[str], most: int = 2) -> str:
    """The first of the modules, and how many more there are."""
    return _first(folded_modules(paths), most)


def lines_text(lines: Iterable[SourceLine], page: Page, most: int = 3) -> str:
    """`models.py:22, 24, 25 +2`: the first of the lines, and how many more there are."""
    told: list[str] = []
    last = ""
    for at in lines:
        told.append(str(at.line) if at.file == last else page.name(at))
        last = at.file
    return _first(told, most)


def _first(texts: Sequence[str], most: int) -> str:
    more = f" +{len(texts) - most:,}" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


@dataclass(slots=True)
class _Leaf:
    origins: dict[int, Origin] = field(default_factory=dict)
    nodes: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))  # by ATen op


Branch = Mapping[str, Mapping[tuple[Role, str], _Leaf]]  # by modules, then by what is done for which op


def tree_lines(lineages: Sequence[Lineage], page: Page) -> list[Text]:
    """From line to module to torch op to ATen op to node. Launches that do the same for other layers are told once."""
    found = branches(lineages)
    made: list[Text] = []
    for at, branch in found[:_LINES]:
        made += [*_place(at, page), *branch_lines(branch, page)]
    more = len(found) - _LINES
    return made + ([line((f"… {plural(more, 'line')} more with --json", DIM), indent=4)] if more > 0 else [])


def branches(lineages: Sequence[Lineage]) -> list[tuple[SourceLine, Branch]]:
    """What launches do, by the user's line that it is for."""
    places: dict[tuple[str, int], SourceLine] = {}
    found: dict[tuple[str, int], dict[str, dict[tuple[Role, str], _Leaf]]] = {}
    for lineage in lineages:
        for traced in lineage.nodes:
            for origin in traced.origins:
                at = origin.line or SourceLine("", 0)
                key = (at.file, at.line)
                places.setdefault(key, at)
                modules = found.setdefault(key, {}).setdefault(_NUMBER.sub("*", origin.module), {})
                _note(modules.setdefault((traced.role, words.op_name(origin.target)), _Leaf()), traced, origin)
    return [(places[key], branch) for key, branch in found.items()]


def _note(leaf: _Leaf, traced: NodeProvenance, origin: Origin) -> None:
    leaf.origins[origin.number] = origin
    if traced.node is not None:
        leaf.nodes[words.op_name(traced.node.original_aten or traced.node.target)][traced.name] = None


def _place(at: SourceLine, page: Page) -> Iterator[Text]:
    where = page.at(at) if at.file else "a line that torch does not tell"
    made = line((where, PLACE), (f"  {at.code.strip()}", CODE), indent=4)
    made.truncate(page.width, overflow="ellipsis")
    yield made


def branch_lines(branch: Branch, page: Page) -> Iterator[Text]:
    """What is done for one line: its modules, and below each the ops."""
    for modules, leaves in branch.items():
        origins = [origin for leaf in leaves.values() for origin in leaf.origins.values()]
        if modules:
            kinds = ", ".join(dict.fromkeys(origin.module_type for origin in origins if origin.module_type))
            names = _first(folded_modules(origin.module for origin in origins), _MODULES)
            yield line(names, (f"  {kinds}", DIM), indent=6)
        for (role, target), leaf in leaves.items():
            yield from _leaf(role, target, leaf, page, 8 if modules else 6)


def _leaf(role: Role, target: str, leaf: _Leaf, page: Page, indent: int) -> list[Text]:
    several = f" {times(len(leaf.origins))}" if len(leaf.origins) > 1 else ""
    head = (words.ROLES[role].format(target or "this line"), several)
    ops = "; ".join(f"{op}: {_first(list(names), _NODES)}" for op, names in leaf.nodes.items())
    return paragraph(line(*head, (f" → {ops}" if ops else "", DIM)), page.width, indent, "", 3)


def unlinked(lineages: Iterable[Lineage]) -> list[str]:
    """Nodes that lead to no line."""
    found = [name for one in lineages for name in (*(s.name for s in one.nodes if not s.origins), *one.lost)]
    return list(dict.fromkeys(found))
