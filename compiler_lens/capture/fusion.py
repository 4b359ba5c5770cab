"""What Inductor's scheduler made one kernel of, what that reads and writes, and which neighbours it left apart.

Read once for each scheduler, after its last decision.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from compiler_lens.capture.torch_api.scheduler import FusedNode, Sizes, fused_node, real_names

Pair = tuple[int, int]  # of positions in the scheduler's order, the smaller first
# What WhyNoFuse said, by the two names, the latest last.
Refused = Mapping[tuple[str, str], tuple[str, tuple[Any, ...]]]

# In torch/_inductor/scheduler.py, of a pair that was tried the wrong way round: no word on the pair.
_WRONG_WAY = "node1 must go before node2"
_END_OF_OP = re.compile(r"op\d+(?=_|$)")
_REASON_LIMIT = 300


def describe(nodes: Sequence[Any], refused: Refused, outputs: Iterable[str]) -> dict[str, Any]:
    """Return the meta of a `lens.fusion` event: a scheduler's nodes, and pairs that share memory and stayed apart."""
    finals = [fused_node(node) for node in nodes]
    _move_outputs(finals)
    _move_parts(finals)
    names = real_names(nodes)
    return {
        "nodes": [[f.ops, f.kind, _rows(f.reads, names), _rows(f.writes, names)] for f in finals],
        "refusals": _refusals(finals, refused, frozenset(outputs), names),
    }


def _rows(sizes: Sizes, names: Mapping[str, str]) -> list[tuple[str, int | None]]:
    found: Sizes = {}
    for name, size in sizes.items():
        real = names.get(name, name)
        found[real] = max(size, found.get(real, 0))
    return [(name, size or None) for name, size in found.items()]


def _move_outputs(finals: Iterable[FusedNode]) -> None:
    # What a library's call writes is the parts of the tuple that it returns: nodes of their own, without a kernel.
    makers: dict[str, FusedNode] = {}
    for final in finals:
        if final.kind != "MultiOutput":
            makers.update(dict.fromkeys(final.owned, final))
            continue
        for name in final.uses:
            maker = makers.get(name, final)
            maker.writes = {**{n: size for n, size in maker.writes.items() if n != name}, **final.writes}
            maker.owned.update(final.owned)
            makers.update(dict.fromkeys(final.owned, maker))
        final.owned, final.uses = {}, {}


def _move_parts(finals: Sequence[FusedNode]) -> None:
    # What reads a concatenation reads its parts: the kernels of these write into it, and no kernel joins them.
    sizes = {name: size for final in finals for name, size in final.writes.items() if final.has_kernel}
    readers = _readers(finals)
    for final in finals:
        parts = {name: sizes[name] for name in final.uses if name in sizes} if not final.has_kernel else {}
        readers_of_all = [n for name in final.owned for n in readers[name] if finals[n].has_kernel]
        if parts and readers_of_all:  # one reader of many parts: all readers of all parts would be n squared
            finals[readers_of_all[0]].joined.update(parts)


def _readers(finals: Iterable[FusedNode]) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for number, final in enumerate(finals):
        for name in final.uses:
            found[name].append(number)
    return found


# -- neighbours that were left apart


def _refusals(
    finals: Sequence[FusedNode], refused: Refused, outputs: frozenset[str], names: Mapping[str, str]
) -> list[Any]:
    said = _last_words(finals, refused)
    readers = _readers(finals)
    makers = {name: number for number, final in enumerate(finals) if final.has_kernel for name in final.owned}
    pairs = set(said)
    for number, final in enumerate(finals):
        pairs.update((makers[name], number) for name in final.joined if makers.get(name, number) < number)
    for name, numbers in readers.items():
        if name in makers:
            pairs.update((makers[name], reader) for reader in numbers)
        # Of the readers of one buffer, each with the next one only: all pairs of n readers would be n squared.
        pairs.update(pairwise(number for number in numbers if finals[number].has_kernel))
    for_one = {name for name, numbers in readers.items() if len(numbers) == 1} - outputs
    rows: list[Any] = []
    for pair in sorted(pairs):
        first, second = (finals[n] for n in pair)
        shared = _shared(first, second, for_one) if first.has_kernel and second.has_kernel else {}
        if shared:
            rows.append([first.ops[0], second.ops[0], said.get(pair, ""), _rows(shared, names)])
    return rows


def _last_words(finals: Sequence[FusedNode], refused: Refused) -> dict[Pair, str]:
    """torch's reason for each pair: the last on the two as they ended, else the last on what became a part of them."""
    at = {op: number for number, final in enumerate(finals) for op in final.ops}
    whole = {"_".join(final.ops) for final in finals}
    words: dict[Pair, str] = {}
    certain: set[Pair] = set()
    for (first, second), (reason, arguments) in refused.items():
        one, other = sorted((at.get(_first_op(first, at), -1), at.get(_first_op(second, at), -1)))
        is_certain = first in whole and second in whole
        if one in (-1, other) or reason == _WRONG_WAY or ((one, other) in certain and not is_certain):
            continue
        words[one, other] = _formatted(reason, arguments)
        if is_certain:
            certain.add((one, other))
    return words


def _first_op(name: str, known: Mapping[str, Any]) -> str:
    """The first op of a fused node's name, "op1_op2" or in a subgraph "true_graph_0_op1_true_graph_0_op2"."""
    ends = (match.end() for match in _END_OF_OP.finditer(name))
    return next((name[:end] for end in ends if name[:end] in known), name)


def _formatted(reason: str, arguments: tuple[Any, ...]) -> str:
    try:
        return (reason % arguments if arguments else reason)[:_REASON_LIMIT]
    except (TypeError, ValueError):
        return reason[:_REASON_LIMIT]


def _shared(first: FusedNode, second: FusedNode, for_one: Container[str]) -> Sizes:
    """What one kernel in place of the two would not move: it keeps what it made, and reads once what both read."""
    found: Sizes = {name: 2 * size for name, size in second.joined.items() if name in first.writes}
    for name in second.reads.keys() & (first.reads.keys() | first.writes.keys()):
        size = second.reads[name]
        if name in first.writes:
            found[name] = size + (first.writes[name] if name in for_one else 0)
            continue
        # Whether they read the same of it: of what begins elsewhere only the larger may hold the other.
        one, other = first.starts.get(name, frozenset()), second.starts.get(name, frozenset())
        larger = one if first.reads[name] > size else other
        if one & other or ("0" in larger and first.reads[name] != size):
            found[name] = min(size, first.reads[name])
    return dict(sorted(found.items()))
