"""A whole recording as `save` wrote it, in one event: what in it cannot be read costs itself alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec import Raw
from msgspec.json import decode

from compiler_lens.recording.codec import unpacked
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import CaptureProblem, Node, Recording
from compiler_lens.recording.shape import read_part


def read_recording(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[Recording | CaptureProblem, ...]:
    """Read a recording without the values that do not fit, and say which these are."""
    kept: dict[str, Any] = {}
    problems = []
    for name in Recording.__struct_fields__:
        found = []
        for number, (part, is_item) in enumerate(_parts(event.meta.get(name, []))):
            try:
                value = read_part(part) if isinstance(part, Raw) else part
                found.append(_checked(unpacked(Recording, {name: [value] if is_item else value})))
            except PayloadError as error:  # noqa: PERF203 -- each costs itself alone
                problems.append(CaptureProblem(event.name, f"{name}[{number}]: {error}"))
        values = [getattr(each, name) for each in found]
        if values:
            kept[name] = values[0] if name == "environment" else tuple(chain.from_iterable(values))
    return Recording(**kept), *problems


def _parts(value: Any) -> Iterator[tuple[Any, bool]]:
    """The items of an array, each as its text if the array is one; or what is no array."""
    if isinstance(value, Raw) and bytes(memoryview(value)[:1]) == b"[":
        value = decode(value, type=list[Raw])
    if isinstance(value, list):
        yield from ((each, True) for each in value)
    else:
        yield value, False


def _checked(recording: Recording) -> Recording:
    for graph in recording.graphs:
        for nodes in (graph.nodes, *(inner.nodes for inner in graph.subgraphs)):
            _check_order(nodes)
    return recording


def _check_order(nodes: Iterable[Node]) -> None:
    """Raise `PayloadError` where two nodes share a name, or one reads what comes after it."""
    known: set[str] = set()
    for node in nodes:
        if node.name in known or not known.issuperset(node.inputs):
            raise PayloadError(f"the node {node.name!r} is made twice, or of what is not there yet")
        known.add(node.name)
