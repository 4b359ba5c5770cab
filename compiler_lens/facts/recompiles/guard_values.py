"""What every entry of a recompiled frame wanted: the values in its guards and of its symbols, by the author's names.

What torch calls `kwargs['input_ids']` of its wrapper is input_ids to the author.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.program.coverage import resumed_line
from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.model import Compilation, CompileId, Graph, GraphBreak, Guard, Recording, SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.source_text import Sources, syntax_if_known

# torch/_dynamo/external_utils.py (2.11 to 2.15) has the functions `inner(*args, **kwargs)` that stand in for the
# forward of a library's module; the module is their `fn`.
_WRAPPER = re.compile(rf"(^|/){re.escape(WRAPPER_FILE)}$")
# Optimizer.profile_hook_step() there wraps every step as `wrapper(*args, **kwargs)`.
_OPTIMIZER = re.compile(r"(^|/)torch/optim/optimizer\.py$")

# What torch writes, and the author: in this order.
_IN_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\bL\[(?:'([^'\n]*)'|\"([^\"\n]*)\")\]"), r"\1\2"),
    (re.compile(r"\bG\['__builtins_dict__\w*'\]\['(\w+)'\]"), r"\1"),
    (re.compile(r"\bG\['__import_(\w+?)'\]"), lambda m: m[1].replace("_dot_", ".")),
    (re.compile(r"\bG\[(?:'([^'\n]*)'|\"([^\"\n]*)\")\]"), r"\1\2"),
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
    # An iterator over a tuple has no length; how many elements it has left decides what is compiled.
    (re.compile(r"\b___tuple_iterator_len\(([\w.]{1,200})\)"), r"len(list(\1))"),
)
_POSITIONAL = re.compile(r"\bargs\[(\d+)\]")
_KEYWORD = re.compile(r"\bkwargs\['(\w+)'\]")
_MODULE = re.compile(r"(?<![\w.'\"])fn(?:\.__self__)?(?=[.\[]|$)")
_ON_STACK = re.compile(r"\b___stack(\d+)\b")  # of a resume function: what its line had computed before the break

FROM_NUMPY = "___from_numpy("  # of what is NumPy's, which the compiler takes for a tensor
UNNAMED = "a value that torch does not name"
# Functions of Dynamo's (torch/_dynamo/source.py, 2.11 to 2.15) that guards find values with: nobody wrote them.
_OF_TORCH = re.compile(r"\b(?P<name>___[a-z_]{1,60}|(?:dict|list)\.__getitem__)\(")
_NO_NAME = re.compile(r"\b(?:___\w|SYNTHETIC_LOCAL\[|random_value_\d)")
_ITEMS = frozenset(("dict.__getitem__", "list.__getitem__", "___odict_getitem"))
_DEEPEST = 8  # of them within each other
_FIELDS: Mapping[str, str] = {"___namedtuple_fields": "._fields"}

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


_DOOR = "torch/_dynamo/eval_frame.py"  # of calls of what torch.compile made


class Names(Struct, frozen=True):
    """What is needed to name the values that one compilation guards."""

    wrapper: bool = False  # the frame is torch's wrapper: `args`, `kwargs` and `fn` are not the user's
    parameters: tuple[str, ...] = ()  # of the function that the wrapper calls
    captured: bool = False  # the function is defined inside of another one: other names than these may be its variables
    keywords: str = ""  # what its signature calls `**kwargs`
    own: frozenset[str] = frozenset()  # all names in the function's own signature; empty if not known
    break_line: int | None = None  # of a resume function: the line of the break
    stack_value: str = ""  # what that line computes, where it can only be one thing
    is_outermost: bool = True  # no function of the user's that was called through torch.compile calls it

    def is_captured(self, root: str) -> bool:
        """Return whether a name is a variable of the function around."""
        return self.captured and bool(self.own) and root.isidentifier() and root not in self.own | {"self", "cls"}

    def comes_with_each_call(self, value: str) -> bool:
        """Return whether a value is, or is in, what the outermost compiled call is given."""
        root = value.partition(".")[0].partition("[")[0]
        is_given = root in self.own if self.own or self.break_line else True  # a resume function has variables, too
        return is_given and root not in {"self", "cls"} and self.is_outermost


def is_wrapper(compilation: Compilation) -> bool:
    """Return whether a compilation is of torch's wrapper around a library's module."""
    return _WRAPPER.search(compilation.file.replace("\\", "/")) is not None


def names_of(compilation: Compilation, graphs: Iterable[Graph], breaks: Iterable[GraphBreak], texts: Sources) -> Names:
    """Return how to name what a compilation guards: what torch says of the function, else what its source says."""
    return replace(_names_of(compilation, graphs, breaks, texts), is_outermost=_is_outermost(compilation))


def _is_outermost(compilation: Compilation) -> bool:
    """Whether nothing of the user's stands between a frame and the call of what torch.compile made."""
    files = [at.file.replace("\\", "/") for at in compilation.stack[:-1]]
    doors = [number for number, file in enumerate(files) if file.endswith(_DOOR)]
    return not doors or not any(map(is_own, files[doors[-1] + 1 :]))


def _names_of(compilation: Compilation, graphs: Iterable[Graph], breaks: Iterable[GraphBreak], texts: Sources) -> Names:
    line = resumed_line(compilation)
    if line is not None:
        value = _stack_value(texts.line(compilation.file, line), breaks, line)
        function = texts.function_at(compilation.file, line)
        return Names(own=frozenset(function.parameters if function else ()), break_line=line, stack_value=value)
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


def authored(text: str) -> str:
    """Return a source in the author's words without the functions that torch finds it with: `x` for `___as_tensor(x)`.

    What then still is nobody's expression has no name.
    """
    for _ in range(_DEEPEST):
        found = _OF_TORCH.search(text)
        if found is None:
            break
        inside, index, end = _arguments(text, found.end())
        is_item = index and found["name"] in _ITEMS
        item = f"[{index}]" if is_item else _FIELDS.get(found["name"], "")
        text = f"{text[: found.start()]}{inside}{item}{text[end:]}"
    return UNNAMED if _NO_NAME.search(text) else text


def _arguments(text: str, start: int) -> tuple[str, str, int]:
    """Return the first argument of a call, the others, and where the call ends."""
    depth, comma = 0, -1
    for place in range(start, len(text)):
        if text[place] in "([{":
            depth += 1
        elif text[place] in ")]}":
            depth -= 1
        elif text[place] == "," and not depth and comma < 0:
            comma = place
        if depth < 0:
            first = text[start : place if comma < 0 else comma]
            return first, text[comma + 1 : place].strip() if comma >= 0 else "", place + 1
    return text[start:], "", len(text)


def phrase(text: str, names: Names) -> str:
    """Return the same for a person: what has no name is described by where it is."""
    return authored(_phrase(text, names))


def _phrase(text: str, names: Names) -> str:
    what = ""
    if names.wrapper and (found := _POSITIONAL.match(text)):
        number = int(found[1])
        what = f"the {_ORDINALS[number] if number < len(_ORDINALS) else f'{number + 1}th'} argument ({found[0]})"
    elif names.break_line is not None and (found := _ON_STACK.match(text)):
        what = _of_line(found, names.break_line)
    elif (line := names.break_line) is not None:
        return _ON_STACK.sub(lambda m: _of_line(m, line), text)
    rest = text[found.end() :].removeprefix(".") if what and found else ""
    return f"{rest} of {what}" if rest else what or text


def stack_names(text: str) -> tuple[str, ...]:
    """Return torch's names of values on the stack in a guard of its, each once."""
    return tuple(dict.fromkeys(found[0] for found in _ON_STACK.finditer(text)))


def _of_line(on_stack: re.Match[str], line: int) -> str:
    number = int(on_stack[1])
    which = f"{_ORDINALS[number] if number < len(_ORDINALS) else f'{number + 1}th'} " if number else ""
    return f"the {which}value at line {line}"


def _of_function(compilation: Compilation, texts: Sources) -> Names:
    at = compilation.definition or SourceLine(compilation.file, compilation.line)
    around = [d for d in texts.definitions(at.file) if d.line <= at.line <= d.last]
    function = max((d for d in around if at.line in {d.line, d.first}), key=lambda d: d.line, default=None)
    if function is None:
        return Names()
    own, keywords = set(function.parameters), ""
    # Every name up to the end of the signature: *args and **kwargs among them, and no harm in a few more.
    for number in range(function.first, function.first + 40):
        line = texts.line(at.file, number)
        head, end, _ = line.partition("):") if "):" in line else line.partition(") ->")
        own |= set(re.findall(r"\w+", head))
        keywords = next(iter(re.findall(r"\*\*(\w+)", head)), keywords)
        if end or line.rstrip().endswith(":"):
            break
    captured = any(d.line < function.line and function.name.startswith(f"{d.name}.") for d in around)
    return Names(parameters=function.parameters, captured=captured, keywords=keywords, own=frozenset(own))


def _stack_value(line: str, breaks: Iterable[GraphBreak], number: int) -> str:
    """What the stack holds after a break: the value of the line's statement, where that is the call that broke."""
    tree = syntax_if_known(line.strip())  # not of a part of a statement
    value = getattr(tree.body[0], "value", None) if tree and len(tree.body) == 1 else None
    if not isinstance(value, ast.Call):
        return ""
    several = sum(isinstance(node, ast.Call) for node in ast.walk(value)) > 1
    method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
    told = " ".join(b.root.gb_type for b in breaks if any(at.line == number for at in b.user_stack[-1:]))
    return "" if several and not (method and f".{method}()" in told) else ast.unparse(value)


# -- values

Rename = Callable[[CompileId, str], str]

# The names that c10 has for dtypes, in failed guards; torch's own in Python stand in the guards themselves.
DTYPES: Mapping[str, str] = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}  # fmt: skip

# TENSOR_MATCH and TYPE_MATCH in torch/_dynamo/guards.py; a size that may vary is None.
_TENSOR = re.compile(
    r"check_tensor\(.*?, (?P<type>\w+), DispatchKeySet\((?P<keys>[^()]*)\), torch\.(?P<dtype>\w+), device=\w+, "
    r"requires_grad=(?P<requires_grad>\w+), size=\[(?P<size>[^\[\]]*)\], stride=\[(?P<stride>[^\[\]]*)\]\)"
)
_KIND = re.compile(
    r"___check_(?P<what>obj|type)_id\((?P<source>.*), (?P<id>\d+)\)(?:, type=(?P<type>.*))?\Z", re.DOTALL
)
_SAME = re.compile(r"(?P<first>L\[[^ ]+) is (?P<second>L\[[^ ]+)\Z")
_EQUALS = re.compile(r"(?P<source>.+?) (?:==|is) (?P<value>.+)\Z", re.DOTALL)
_CLASS = re.compile(r"(?:<class '(?:[^']*\.)?)?(?P<name>[A-Za-z_]\w*)(?:'>)?")  # an address is not a class
_LITERAL = re.compile(r"-?\d+(\.\d*(?:e[-+]?\d+)?|e[-+]?\d+)?\Z")
_STATE = "___check_global_state() against "
_AUTOCAST_CPU = 0  # the first of the devices in at::autocast's table, the second is CUDA
# c10/core/ScalarType.h
_SCALAR_TYPES: Mapping[str, str] = {"5": "float16", "6": "float32", "7": "float64", "15": "bfloat16"}


class EntryValues(Struct, frozen=True):
    """What one compilation was compiled for."""

    values: Mapping[str, str] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()  # sizes and numbers that may be any: `values` has the one that was seen
    dicts: frozenset[str] = frozenset()  # what `len(…)` was asked of as of a dict
    lines: Mapping[str, SourceLine] = field(default_factory=dict)  # where each was first needed
    pins: Mapping[str, SourceLine] = field(default_factory=dict)  # sizes that a line of the user's needs as a number

    def is_tensor(self, name: str) -> bool:
        """Return whether a value was a tensor, or one with another argument."""
        return f"dim of {name}" in self.values or f"twin of {name}" in self.values

    def rank(self, tensor: str) -> int | None:
        """Return how many dimensions a tensor had."""
        found = self.values.get(f"dim of {tensor}")
        return None if found is None else int(found)

    def keys_of(self, name: str) -> tuple[str, ...]:
        """Return the keys of a dict that something was asked of."""
        found = re.findall(rf"(?:^|\W){re.escape(name)}\['(\w+)'\]", "\n".join(self.values), re.MULTILINE)
        return tuple(dict.fromkeys(found))

    def of_one_class(self, name: str, other: EntryValues) -> bool:
        """Return whether two compilations took a value of one class, or both had nothing to ask of it."""
        kinds = self.kind(name), other.kind(name)
        if any(kinds) or not self.values or not other.values:
            return kinds[0] == kinds[1] != ""
        return not any(key in values for values in (self.values, other.values) for key in (name, *_asked(name)))

    def kind(self, name: str) -> str:
        """Return what class a value was of, "None" for None; empty if that is not known, and for True and False."""
        told = next((self.values[key] for key in _asked(name) if key in self.values), "")
        if self.values.get(name) == "None" or told in {"None", "<class 'NoneType'>"}:
            return "None"
        if not told and (value := self.values.get(name)):
            return literal_class(value)
        found = _CLASS.fullmatch(told)
        return "" if found is None or found["name"] == "bool" else found["name"]


def literal_class(text: str) -> str:
    """Return the class of a number or a string as a guard writes it; empty for anything else."""
    if text[:1] in {"'", '"'}:
        return "str"
    found = _LITERAL.match(text)
    return "" if found is None else "int" if found[1] is None else "float"


def _asked(name: str) -> tuple[str, str]:
    return f"type of {name}", f"identity of {name}"


def entry_values(recording: Recording, wanted: frozenset[CompileId], rename: Rename) -> Mapping[CompileId, EntryValues]:
    """Return the values of those compilations that took part in a recompile."""
    values: dict[CompileId, dict[str, str]] = {i: {} for i in wanted}
    varying: dict[CompileId, set[str]] = {i: set() for i in wanted}
    dicts: dict[CompileId, set[str]] = {i: set() for i in wanted}
    lines: dict[CompileId, dict[str, SourceLine]] = {i: {} for i in wanted}
    pins: dict[CompileId, dict[str, SourceLine]] = {i: {} for i in wanted}
    first: dict[tuple[CompileId, str], SourceLine] = {}  # that pinned a size to a value: others are pinned to be alike
    members = {str(member.address): member.name for member in recording.members}
    for guard in recording.guards:
        if guard.compile_id in wanted:
            values[guard.compile_id].update(_of_guard(guard, rename, members))
            if guard.user_line and guard.source:
                lines[guard.compile_id].setdefault(rename(guard.compile_id, guard.source), guard.user_line)
            if guard.kind == "DICT_LENGTH":
                dicts[guard.compile_id].add(rename(guard.compile_id, guard.source))
    for symbol in recording.symbols:
        if symbol.compile_id in wanted and symbol.source and symbol.value:
            name = rename(symbol.compile_id, symbol.source)
            values[symbol.compile_id].setdefault(name, symbol.value)
            if not symbol.specialized:
                varying[symbol.compile_id].add(name)
            elif at := innermost_own(symbol.user_stack):
                pins[symbol.compile_id][name] = first.setdefault((symbol.compile_id, symbol.value), at)
    return {i: EntryValues(values[i], frozenset(varying[i]), frozenset(dicts[i]), lines[i], pins[i]) for i in wanted}


def _of_guard(guard: Guard, rename: Rename, members: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    said = guard.expression
    if guard.kind == "GLOBAL_STATE":
        yield from _global_state(said.partition(_STATE)[2])
    elif found := _TENSOR.match(said):
        sizes, strides = (found[key].split(", ") if found[key] else [] for key in ("size", "stride"))
        name = rename(guard.compile_id, guard.source)
        yield f"dim of {name}", str(len(sizes))
        for key in ("type", "dtype", "requires_grad", "keys"):
            yield f"{key} of {name}", found[key]
        yield from ((f"{name}.shape[{axis}]", size) for axis, size in enumerate(sizes) if size != "None")
        yield from ((f"{name}.stride({axis})", stride) for axis, stride in enumerate(strides) if stride != "None")
    elif found := _KIND.match(said):
        name = rename(guard.compile_id, found["source"])
        if found["what"] == "obj":
            yield f"identity of {name}", members.get(found["id"]) or found["type"] or found["id"]
        else:
            yield f"type of {name}", found["type"] or found["id"]
        yield f"address of {name}", found["id"]
    elif said.startswith("not ") and guard.kind in {"LENGTH_CHECK", "DICT_LENGTH", "SEQUENCE_LENGTH"}:
        yield f"len({rename(guard.compile_id, guard.source)})", "0"
    elif guard.kind == "LAMBDA_GUARD" and (found := _SAME.match(said)):  # one tensor came as two arguments
        first, second = (rename(guard.compile_id, found[which]) for which in ("first", "second"))
        yield f"twin of {second}", first
    elif guard.kind != "LAMBDA_GUARD" and (found := _EQUALS.match(said)):
        yield rename(guard.compile_id, found["source"]), found["value"]


def _global_state(text: str) -> Iterator[tuple[str, str]]:
    try:
        state = json.loads(text)
        enabled = state.get("autocast_state", {}).get("enabled", [])
    except (ValueError, AttributeError):
        return
    for name, value in state.items():
        if isinstance(value, (bool, int)):
            text = str(value)
            yield f"global {name}", _SCALAR_TYPES.get(text, text) if name == "default_dtype" else text
    if isinstance(enabled, list) and enabled:
        yield "global autocast(cpu)_enabled", str(enabled[_AUTOCAST_CPU])
