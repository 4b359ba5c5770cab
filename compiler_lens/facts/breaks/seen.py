"""Which names of a function were tensors, and of which dtypes, whenever torch compiled it: a rewrite need not guess."""

from __future__ import annotations

import re

from compiler_lens.facts.breaks.rewrites.site import SeenTensors
from compiler_lens.recording.model import Recording

_LOCAL = re.compile(r"L\['(\w{1,200})'\](?:\._(?:buffers|parameters)\['(\w{1,200})'\])?")
_DTYPE = re.compile(r"DispatchKeySet\([^()]{0,1000}\), torch\.(\w{1,50}),")
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
    tensors: dict[str, dict[int, dict[str, set[str]]]] = {}
    others: set[tuple[str, int, str]] = set()
    for guard in recording.guards:
        home, local = homes.get(guard.compile_id), _LOCAL.fullmatch(guard.source)
        if home is None or local is None:
            continue
        name = ".".join(filter(None, local.groups()))
        if guard.kind == "TENSOR_MATCH":
            dtype = _DTYPE.search(guard.expression)
            known = tensors.setdefault(home.file, {}).setdefault(home.line, {}).setdefault(name, set())
            known.add(dtype[1] if dtype else "")
        elif guard.kind in _OF_OTHERS:
            others.add((home.file, home.line, name))
    return {
        file: {
            line: {name: frozenset(known) for name, known in names.items() if (file, line, name) not in others}
            for line, names in by.items()
        }
        for file, by in tensors.items()
    }
