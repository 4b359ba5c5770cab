"""Where the value comes from that a branch asks for, as far as torch's words on its computation are sure."""

from __future__ import annotations

import re

from msgspec import Struct

from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.own_files import is_own

# torch's own words, format_tensor_computation_trace() in torch/_dynamo/symbolic_convert.py, 2.13 to 2.15: inputs of the
# graph first, each at the line that first used it, then calls of functions, the condition's own last. Of the inputs
# only a number that Python draws is made at its line, RandomValueSource in torch/_dynamo/source.py.
_BLOCK = re.compile(
    r'^ *# File "([^"\n]+)", line (\d{1,9}), in (\S+), code: ([^\n]*)\n'
    r" +(?:(\w+) = [^\n(]*\(([^\n]*)\)$|(random_value_\d+): graph input )",
    re.MULTILINE,
)
_STRING = re.compile(r"'[^'\n]*'")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?![\w.(=])")
_CONSTANTS = {"None", "True", "False", "Ellipsis"}


class _Call(Struct, frozen=True):
    """One call of a function that leads to the condition."""

    at: SourceLine
    inputs: tuple[str, ...]  # names of what it is given


def computed_at(explanation: str, place: SourceLine | None) -> SourceLine | None:
    """Return the line, another than the branch's, that computes what it asks for; None where that is not sure.

    torch leaves out methods and what leads to them, and an input of the graph stands at a line that need only name it.
    """
    calls = {name or drawn: _Call(SourceLine(file, int(line), function, code), _names(given))
             for file, line, function, code, name, given, drawn in _BLOCK.findall(explanation)}  # fmt: skip
    if place is None or not calls:
        return None
    wanted, before = [next(reversed(calls))], set[str]()
    found: dict[SourceLine, None] = {}
    while wanted:
        name = wanted.pop()
        if name in before:
            continue
        before.add(name)
        if (call := calls.get(name)) is None:
            return None
        if (call.at.file, call.at.line) == (place.file, place.line):
            wanted += call.inputs
        else:
            found[call.at] = None
    return next(iter(found)) if len(found) == 1 and all(is_own(at.file) for at in found) else None


def _names(given: str) -> tuple[str, ...]:
    return tuple(name for name in _NAME.findall(_STRING.sub("", given)) if name not in _CONSTANTS)
