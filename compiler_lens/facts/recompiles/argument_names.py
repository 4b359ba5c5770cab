"""What torch calls a value and what the author calls it: `kwargs['input_ids']` of torch's wrapper is input_ids."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable

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

# What torch writes, and the author: in this order.
_IN_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\bL\[(['\"])(.*?)\1\]"), r"\2"),
    (re.compile(r"\bG\['__builtins_dict__\w*'\]\['(\w+)'\]"), r"\1"),
    (re.compile(r"\bG\['__import_(\w+?)'\]"), lambda m: m[1].replace("_dot_", ".")),
    (re.compile(r"\bG\[(['\"])(.*?)\1\]"), r"\2"),
    # Where nn.Module keeps its attributes: self._modules['attn'].act, self.__dict__['_modules']['attn'].act.
    (
        re.compile(
            r"(?:\.__dict__\['_(?:modules|parameters|buffers)'\]|\._(?:modules|parameters|buffers))\['([^']+)'\]"
        ),
        lambda m: f"[{m[1]}]" if m[1].isdigit() else f".{m[1]}",
    ),
    (re.compile(r"\.__dict__\['(\w+)'\]"), r".\1"),
    (re.compile(r"\.size\(\)\[(\d+)\]"), r".shape[\1]"),
    (re.compile(r"\.stride\(\)\[(\d+)\]"), r".stride(\1)"),
)
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
        if compilation.parameters:
            return Names(wrapper=True, parameters=compilation.parameters)
        # those of the function around the outermost line that a graph of the frame was traced at
        lines = (node.source[0] for graph in graphs for node in graph.nodes if node.source)
        outermost = (at for at in lines if is_own(at.file) and not _WRAPPER.search(at.file))
        functions = (texts.function_at(at.file, at.line) for at in outermost)
        return Names(wrapper=True, parameters=next((f.parameters for f in functions if f), ()))
    if compilation.function == "wrapper" and _OPTIMIZER.search(compilation.file.replace("\\", "/")):
        return Names(wrapper=True, parameters=("self",))
    return _of_function(compilation, texts)


def readable(source: str, names: Names) -> str:
    """Return a source or a guard of torch's in the author's words; `args[0]` stays where nothing is known."""
    text = source
    for pattern, words in _IN_WORDS:
        text = pattern.sub(words, text)
    if names.wrapper:
        text = _MODULE.sub("self", _KEYWORD.sub(r"\1", text))
        known = dict(enumerate(names.parameters))
        text = _POSITIONAL.sub(lambda m: known.get(int(m[1]), f"args[{int(m[1])}]"), text)
    return text.replace("___stack0", names.stack_value) if names.stack_value else text


def phrase(text: str, names: Names) -> str:
    """Return the same for a person: what has no name is described by where it is."""
    what = ""
    if names.wrapper and (found := _POSITIONAL.match(text)):
        number = int(found[1])
        what = f"the {_ORDINALS[number] if number < len(_ORDINALS) else f'{number + 1}th'} argument ({found[0]})"
    elif names.break_line is not None and (found := _ON_STACK.match(text)):
        what = f"the value at line {names.break_line}"
    rest = text[found.end() :].removeprefix(".") if what and found else ""
    return f"{rest} of {what}" if rest else what or text


def _of_function(compilation: Compilation, texts: Sources) -> Names:
    at = compilation.definition or SourceLine(compilation.file, compilation.line)
    around = [d for d in texts.definitions(at.file) if d.line <= at.line <= d.last]
    function = max((d for d in around if at.line in {d.line, d.first}), key=lambda d: d.line, default=None)
    if function is None:
        return Names()
    own = set(function.parameters)
    # Every name up to the end of the signature: *args and **kwargs among them, and no harm in a few more.
    for number in range(function.first, function.first + 40):
        line = texts.line(at.file, number)
        head, end, _ = line.partition("):") if "):" in line else line.partition(") ->")
        own |= set(re.findall(r"\w+", head))
        if end or line.rstrip().endswith(":"):
            break
    captured = any(d.line < function.line and function.name.startswith(f"{d.name}.") for d in around)
    return Names(parameters=function.parameters, captured=captured, own=frozenset(own))


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
