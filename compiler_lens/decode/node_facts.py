"""What our hooks saw of live FX graphs: `lens.node_facts`, written by `capture.graphs.node_facts`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from compiler_lens.decode.stacks import read_traceback
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, SourceLine

# torch/fx/traceback.py, GRADIENT_ACC_SPECIAL_STACK: a sum of gradients carries the number of whichever forward op
# came last, so the number says nothing.
_GRADIENT_SUM = "Gradient addition node due to multiple use"
# Dynamo names a module by where it found it. The compiled module itself is what its forward calls it, `self` as a
# rule, or `fn` in a wrapper of torch's own (torch/_dynamo/external_utils.py, `wrap_inline`).
_ROOT = re.compile(r"[LG]\['(\w+)'\]\.?")
_UNTOLD = frozenset({"self", "fn"})
_ITEM = re.compile(r"\[['\"]?([^'\"\]]+)['\"]?\]")


class NodeFact(Struct, frozen=True):
    """What live objects say of one node, beyond the text."""

    name: str
    module: str = ""
    module_type: str = ""
    origins: tuple[str, ...] = ()
    original_aten: str = ""
    seq_nr: int | None = None  # autograd's number: shared by a forward op and its backward
    source: tuple[SourceLine, ...] = ()


class NodeFacts(Struct, frozen=True):
    """Our hook's facts about all nodes of one graph, to be joined with its text by node name."""

    compile_id: CompileId
    stage: str  # dynamo, joint, forward, backward, inference, post_grad
    facts: tuple[NodeFact, ...]
    cached: bool = False
    attempt: int = 0


def read_node_facts(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[NodeFacts, ...]:
    """Read modules, stacks and origins of all nodes of one graph."""
    try:
        values = json.loads(event.text or "")
        receiver = event.meta.get("receiver")
        own = _UNTOLD if receiver is None else frozenset({receiver or "self"})
        stage, facts = event.meta["stage"], tuple(_facts(values, own))
    except (ValueError, LookupError, TypeError) as error:
        raise PayloadError(f"{event.name}: {error!r}") from error
    return (NodeFacts(compile_id, stage, facts, event.cached, event.attempt),)


def _facts(values: Mapping[str, Any], own: frozenset[str]) -> list[NodeFact]:
    modules: list[tuple[str, str]] = [(module_path(path, own), kind) for path, kind in values["modules"]]
    stacks = [read_traceback(text) for text in values["stacks"]]
    sums = {number for number, text in enumerate(values["stacks"]) if _GRADIENT_SUM in text}
    modules.append(("", ""))  # what the index -1 finds
    stacks.append(())
    facts = []
    for name, origins, module, aten, number, stack in values["nodes"]:
        path, kind = modules[int(module)]
        told = None if stack in sums else number
        facts.append(NodeFact(name, path, kind, tuple(origins), aten, told, stacks[int(stack)]))
    return facts


def module_path(name: str, own: frozenset[str] = _UNTOLD) -> str:
    """Return `L['self'].layers.0` as the user writes it, `layers.0`; empty for the compiled module, one of *own*."""
    path = _ROOT.sub(lambda m: "" if m[1] in own else f"{m[1]}.", name, count=1)
    return _ITEM.sub(r".\1", path).strip(".")
