"""Which names of a function were tensors, and of which dtypes, whenever torch compiled it: a rewrite need not guess."""

from __future__ import annotations

import re

from compiler_lens.facts.breaks.rewrites.site import Seen, SeenTensors
from compiler_lens.recording.model import Recording
from compiler_lens.recording.resume_names import resumed

_LOCAL = re.compile(r"L\['(\w{1,200})'\](?:\._(?:buffers|parameters)\['(\w{1,200})'\])?")
_DTYPE = re.compile(r"DispatchKeySet\([^()]{0,1000}\), torch\.(\w{1,50}),")
_SIZE = re.compile(r"size=\[([^\[\]]{0,1000})\], stride=\[([^\[\]]{0,1000})\]")
# torch/_dynamo/guards.py: what is asked of a local that is no tensor.
_OF_OTHERS = frozenset({
    "TYPE_MATCH", "EQUALS_MATCH", "CONSTANT_MATCH", "ID_MATCH", "NONE_MATCH", "BOOL_MATCH", "TRUE_MATCH",
    "FALSE_MATCH", "LENGTH_CHECK", "DICT_LENGTH", "FUNCTION_MATCH", "CLOSURE_MATCH",
})  # fmt: skip


def seen_tensors(recording: Recording) -> SeenTensors:
    """Return, by file and first line of a function, what guards know as tensors, and never as another thing.

    A function is compiled from its begin, and from where a graph broke: a local is seen where one of them reads it.
    """
    homes = {one.compile_id: one.definition for one in recording.compilations if one.definition}
    starts = {one.compile_id: resumed(one.function) for one in recording.compilations if one.resumes}
    tensors: dict[str, dict[int, dict[str, set[Seen]]]] = {}
    others: set[tuple[str, int, str]] = set()
    for guard in recording.guards:
        home, local = homes.get(guard.compile_id), _LOCAL.fullmatch(guard.source)
        if home is None or local is None:
            continue
        name = ".".join(filter(None, local.groups()))
        if guard.kind == "TENSOR_MATCH":
            known = tensors.setdefault(home.file, {}).setdefault(home.line, {}).setdefault(name, set())
            start = starts.get(guard.compile_id)
            known.add(_seen(guard.expression, start.line if start else 0))
        elif guard.kind in _OF_OTHERS:
            others.add((home.file, home.line, name))
    return {
        file: {
            line: {name: frozenset(known) for name, known in names.items() if (file, line, name) not in others}
            for line, names in by.items()
        }
        for file, by in tensors.items()
    }


def _seen(expression: str, line: int) -> Seen:
    dtype, found = _DTYPE.search(expression), _SIZE.search(expression)
    if found is None:
        return Seen(dtype[1] if dtype else "", None, line)
    size, stride = _numbers(found[1]), _numbers(found[2])
    dense = True
    step: int | None = 1
    for many, one in zip(reversed(size), reversed(stride), strict=False):
        dense &= one is None or step is None or one == step or many == 1
        step = step * many if step is not None and many is not None else None
    return Seen(dtype[1] if dtype else "", len(size), line, dense)


def _numbers(text: str) -> list[int | None]:
    """Return numbers beside each other; None for those that change."""
    return [int(one) if one.strip().isdecimal() else None for one in text.split(",")] if text.strip() else []
