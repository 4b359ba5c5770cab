"""What torch calls a value and what the author calls it: `kwargs['input_ids']` of torch's wrapper is input_ids."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from msgspec import Struct

from compiler_lens.facts.program.coverage import resumed_line
from compiler_lens.recording.model import Compilation, Graph, GraphBreak, SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.source_text import Sources

# torch/_dynamo/external_utils.py (2.11 to 2.15) has the functions `inner(*args, **kwargs)` that stand in for the
# forward of a library's module; the module is their `fn`.
_WRAPPER = re.compile(r"(^|/)torch/_dynamo/external_utils\.py$")
# Optimizer.profile_hook_step() there wraps every step as `wrapper(*args, **kwargs)`.
_OPTIMIZER = re.compile(r"(^|/)torch/optim/optimizer\.py$")

_LOCAL = re.compile(r"\bL\[(?P<quote>['\"])(?P<name>.*?)(?P=quote)\]")
_GLOBAL = re.compile(r"\bG\[(?P<quote>['\"])(?P<name>.*?)(?P=quote)\]")
_BUILTIN = re.compile(r"\bG\['__builtins_dict__\w*'\]\['(\w+)'\]")
_IMPORTED = re.compile(r"\bG\['__import_(\w+?)'\]")
# Where nn.Module keeps its attributes, written out: self._modules['attn'].act, self.__dict__['_modules']['attn'].act.
_KEPT = re.compile(
    r"(?:\.__dict__\['_(?:modules|parameters|buffers)'\]|\._(?:modules|parameters|buffers))\['([^']+)'\]"
)
_IN_DICT = re.compile(r"\.__dict__\['(\w+)'\]")
_SIZE = re.compile(r"\.size\(\)\[(\d+)\]")
_STRIDE = re.compile(r"\.stride\(\)\[(\d+)\]")
_POSITIONAL = re.compile(r"\bargs\[(\d+)\]")
_KEYWORD = re.compile(r"\bkwargs\['(\w+)'\]")
_MODULE = re.compile(r"(?<![\w.'\"])fn(?=[.\[]|$)")
_ON_STACK = re.compile(r"\b___stack\d+\b")

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


class Names(Struct, frozen=True):
    """What is needed to name the values that one compilation guards."""

    wrapper: bool = False  # the frame is torch's wrapper: `args`, `kwargs` and `fn` are not the user's
    parameters: tuple[str, ...] = ()  # of the function that the wrapper calls
    captured: bool = False  # the function is defined inside of another one: other names than these may be its variables
    own: frozenset[str] = frozenset()  # all names in the function's own signature; empty if not known
    break_line: int | None = None  # of a resume function: the line of the break
    stack_value: str = ""  # what that line computes, where it can only be one thing

    def is_captured(self, root: str) -> bool:
        """Return whether a name is a variable of the function around."""
        return self.captured and bool(self.own) and root.isidentifier() and root not in self.own | {"self", "cls"}


def is_wrapper(compilation: Compilation) -> bool:
    """Return whether a compilation is of torch's wrapper around a library's module."""
    return _WRAPPER.search(compilation.file.replace("\\", "/")) is not None


def names_of(compilation: Compilation, graphs: Iterable[Graph], breaks: Iterable[GraphBreak], texts: Sources) -> Names:
    """Return how to name what a compilation guards: what torch says of the function, else what its source says."""
    line = resumed_line(compilation)
    if line is not None:
        return Names(break_line=line, stack_value=_stack_value(texts.line(compilation.file, line), breaks, line))
    if is_wrapper(compilation):
        return Names(wrapper=True, parameters=compilation.parameters or _parameters_by_line(graphs, texts))
    if compilation.function == "wrapper" and _OPTIMIZER.search(compilation.file.replace("\\", "/")):
        return Names(wrapper=True, parameters=("self",))
    return _of_function(compilation, texts)


def readable(source: str, names: Names) -> str:
    """Return a source or a guard of torch's in the author's words; `args[0]` stays where nothing is known."""
    text = _LOCAL.sub(lambda m: m["name"], source)
    text = _BUILTIN.sub(r"\1", text)
    text = _IMPORTED.sub(lambda m: m[1].replace("_dot_", "."), text)
    text = _GLOBAL.sub(lambda m: m["name"], text)
    text = _KEPT.sub(lambda m: f"[{m[1]}]" if m[1].isdigit() else f".{m[1]}", text)
    text = _IN_DICT.sub(r".\1", text)
    text = _STRIDE.sub(r".stride(\1)", _SIZE.sub(r".shape[\1]", text))
    if names.wrapper:
        text = _MODULE.sub("self", _KEYWORD.sub(r"\1", text))
        text = _POSITIONAL.sub(lambda m: _parameter(names, int(m[1])), text)
    return text.replace("___stack0", names.stack_value) if names.stack_value else text


def phrase(text: str, names: Names) -> str:
    """Return the same for a person: what has no name is described by where it is."""
    if names.wrapper and (found := _POSITIONAL.match(text)):
        number = int(found[1])
        ordinal = _ORDINALS[number] if number < len(_ORDINALS) else f"{number + 1}th"
        return _of(text[found.end() :], f"the {ordinal} argument ({found[0]})")
    if names.break_line is not None and (found := _ON_STACK.match(text)):
        return _of(text[found.end() :], f"the value at line {names.break_line}")
    return text


def _of(rest: str, what: str) -> str:
    return f"{rest.removeprefix('.')} of {what}" if rest else what


def _parameter(names: Names, number: int) -> str:
    return names.parameters[number] if number < len(names.parameters) else f"args[{number}]"


def _parameters_by_line(graphs: Iterable[Graph], texts: Sources) -> tuple[str, ...]:
    """Those of the function around the outermost line that a graph of the frame was traced at."""
    for graph in graphs:
        for at in (node.source[0] for node in graph.nodes if node.source):
            function = None if _WRAPPER.search(at.file) else texts.function_at(at.file, at.line)
            if function is not None and is_own(at.file):
                return function.parameters
    return ()


def _of_function(compilation: Compilation, texts: Sources) -> Names:
    at = compilation.definition or SourceLine(compilation.file, compilation.line)
    around = [d for d in texts.definitions(at.file) if d.line <= at.line <= d.last]
    function = max((d for d in around if at.line in {d.line, d.first}), key=lambda d: d.line, default=None)
    if function is None:
        return Names()
    signature = _signature(texts, at.file, function.first)
    captured = any(d.line < function.line and function.name.startswith(f"{d.name}.") for d in around)
    return Names(parameters=function.parameters, captured=captured, own=signature | frozenset(function.parameters))


def _signature(texts: Sources, file: str, first: int) -> frozenset[str]:
    """Every name up to the end of a signature: *args and **kwargs among them, and no harm in a few more."""
    found: set[str] = set()
    for number in range(first, first + 40):
        line = texts.line(file, number)
        head, end, _ = line.partition("):") if "):" in line else line.partition(") ->")
        found |= set(re.findall(r"\w+", head))
        if end or line.rstrip().endswith(":"):
            break
    return frozenset(found)


def _stack_value(line: str, breaks: Iterable[GraphBreak], number: int) -> str:
    """What the stack holds after a break: the value of the line's statement, where that is the call that broke."""
    try:
        tree = ast.parse(line.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # part of a statement
        return ""
    value = getattr(tree.body[0], "value", None) if len(tree.body) == 1 else None
    if not isinstance(value, ast.Call):
        return ""
    several = sum(isinstance(node, ast.Call) for node in ast.walk(value)) > 1
    method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
    told = " ".join(b.root.gb_type for b in breaks if any(at.line == number for at in b.user_stack[-1:]))
    return "" if several and not (method and f".{method}()" in told) else ast.unparse(value)
