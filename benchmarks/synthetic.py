"""Large journals out of small real ones: many compilations, or graphs of many nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from compiler_lens.recording.event import NO_ID, Event
from compiler_lens.recording.journal import JournalWriter
from compiler_lens.recording.journal_reader import read_journal

GRAPHS = frozenset(
    (
        "dynamo_output_graph",
        "aot_joint_graph",
        "aot_forward_graph",
        "aot_backward_graph",
        "aot_inference_graph",
        "inductor_post_grad_graph",
    )
)
CODES = GRAPHS | {"inductor_output_code"}
_ASSIGNED = re.compile(r'^ +(\w+)(?:: "[^"\n]*")? = (?!\w+$)', re.MULTILINE)
_NAME = re.compile(r"\b[a-z_]\w*\b")


def journal_of_compilations(source: Path, target: Path) -> Callable[[int], Path]:
    """A function that writes a journal with so many compilations, with the events of the real ones in *source*."""
    events, _ = read_journal(source)
    own = [event for event in events if event.torch_id != NO_ID]
    real = len({event.torch_id for event in own})

    def make(count: int) -> Path:
        return _write(target, (*(e for e in events if e.torch_id == NO_ID), *_repeated(own, count // real)))

    return make


def _repeated(events: Sequence[Event], times: int) -> Iterator[Event]:
    frames = 1 + max(event.torch_id[0] or 0 for event in events)
    runs = 1 + max(event.run or 0 for event in events)
    for number in range(times):
        for event in events:
            frame, recompile, autograd = event.torch_id
            # A comment of its own keeps the journal from storing the texts of all compilations once.
            text = f"{event.text}\n# {number}" if event.name in CODES else event.text
            yield replace(
                event,
                run=(event.run or 0) + number * runs,
                torch_id=((frame or 0) + number * frames, recompile, autograd),
                at=event.at + number,
                text=text,
            )


def journal_of_wide_graphs(source: Path, target: Path) -> Callable[[int], Path]:
    """A function that writes the journal in *source* with each node copied, so that there are about so many in all."""
    events, _ = read_journal(source)
    real = sum(len(_assigned(event)) for event in events if event.name in GRAPHS)

    def make(nodes: int) -> Path:
        return _write(target, _widened(events, max(nodes // real, 1)))

    return make


def _assigned(event: Event) -> list[str]:
    return _ASSIGNED.findall(event.text or "")


def _widened(events: Sequence[Event], copies: int) -> Iterator[Event]:
    names = frozenset(name for event in events if event.name in GRAPHS for name in _assigned(event))
    for event in events:
        if event.name in GRAPHS:
            yield replace(event, text="\n".join(_wide_lines((event.text or "").split("\n"), names, copies)))
        elif event.name == "lens.node_facts":
            yield replace(event, text=_wide_facts(json.loads(event.text or ""), names, copies))
        else:
            yield event


def _wide_lines(lines: Iterable[str], names: frozenset[str], copies: int) -> Iterator[str]:
    for line in lines:
        yield line
        if _ASSIGNED.match(line):
            yield from (_renamed(line, names, number) for number in range(1, copies))


def _renamed(line: str, names: frozenset[str], number: int) -> str:
    return _NAME.sub(lambda match: _copy_name(match[0], names, number), line)


def _copy_name(name: str, names: frozenset[str], number: int) -> str:
    return f"{name}_copy{number}" if name in names and number else name


def _wide_facts(values: dict[str, Any], names: frozenset[str], copies: int) -> str:
    shift = 1 + max((row[4] or 0 for row in values["nodes"]), default=0)
    rows = []
    for name, origins, module, aten, number, stack in values["nodes"]:
        for copy in range(copies if name in names else 1):
            origin_names = [_copy_name(origin, names, copy) for origin in origins]
            own_number = None if number is None else number + copy * shift
            rows.append([_copy_name(name, names, copy), origin_names, module, aten, own_number, stack])
    return json.dumps({**values, "nodes": rows})


def _write(target: Path, events: Iterable[Event]) -> Path:
    writer = JournalWriter(target)
    for event in events:
        writer.append(event)
    writer.close()
    return target
