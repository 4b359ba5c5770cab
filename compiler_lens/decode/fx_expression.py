"""The right-hand sides of printed FX nodes, and the types that FX prints beside their names.

How FX prints a node is in torch/fx/graph.py, `CodeGen._gen_python_code.emit_node`.
"""

from __future__ import annotations

import math
import operator
import re
from collections import deque
from collections.abc import Container, Iterator

from compiler_lens.recording.model import TensorSpec

# `magic_methods` of torch/fx/graph.py: these are printed as operators.
BINARY = {
    "==": "operator.eq", "!=": "operator.ne", "<": "operator.lt", ">": "operator.gt", "<=": "operator.le",
    ">=": "operator.ge", "+": "operator.add", "-": "operator.sub", "*": "operator.mul", "//": "operator.floordiv",
    "/": "operator.truediv", "%": "operator.mod", "**": "operator.pow", "<<": "operator.lshift",
    ">>": "operator.rshift", "&": "operator.and_", "|": "operator.or_", "^": "operator.xor", "@": "operator.matmul",
}  # fmt: skip
UNARY = {"-": "operator.neg", "~": "operator.invert", "+": "operator.pos"}
# `inplace_methods` of the same file.
INPLACE = {
    "+=": "operator.iadd", "&=": "operator.iand", "//=": "operator.ifloordiv", "<<=": "operator.ilshift",
    "%=": "operator.imod", "*=": "operator.imul", "@=": "operator.imatmul", "|=": "operator.ior",
    "**=": "operator.ipow", ">>=": "operator.irshift", "-=": "operator.isub", "/=": "operator.itruediv",
    "^=": "operator.ixor",
}  # fmt: skip

_OPERATORS = r"==|!=|<=|>=|<<|>>|//|\*\*|[-+*/%&|^@<>]"
_STRING = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_HEAD = re.compile(r"([A-Za-z_]\w*)((?:\.\w+)*)(\()?")
_SIMPLE_BINARY = re.compile(rf"([\w.]+) ({_OPERATORS}) (.+)", re.DOTALL)
_SIMPLE_ITEM = re.compile(r"(\w+)\[(.+)\]", re.DOTALL)
_UNARY = re.compile(r"([-+~])([A-Za-z_]\w*)")
_MARKS = re.compile(rf"{_STRING}|[(\[{{]|[)\]}}]| (?:{_OPERATORS}) |,", re.DOTALL)
_GETATTR = re.compile(r"getattr\(([^\s(),]+), \"([^\"]*)\"\)")
_SELF = re.compile(r"self\.([^(]+)(?:\((.*)\))?", re.DOTALL)
_NAMES = re.compile(rf"{_STRING}|(?<![\w.])([A-Za-z_]\w*)(?!\w|\s?=[^=])", re.DOTALL)
_SPEC = re.compile(r"(\w+)\[([^\]]*)\](?:\[([^\]]*)\])?([a-z][\w:]*)?")

# FX prints a function from outside torch as one name, `math_floor` (`CodeGen` add_global).
_FLATTENED = {
    **{f"math_{name}": f"math.{name}" for name in dir(math)},
    **{f"_operator_{name}": f"operator.{name}" for name in dir(operator)},
}

Expression = tuple[str, str, str]  # op, target, arguments


def read_expression(text: str, known: Container[str]) -> Expression:
    """Read what a node computes; `known` are the nodes so far, to know `x.view(2)` from `torch.relu(x)`."""
    head = _HEAD.match(text)
    if head is None:
        return _operation(text)
    root, path, paren = head.groups()
    if paren and text[-1] == ")":
        return _call(root, path[1:], text[head.end() : -1], known)
    if paren and root == "getattr" and not path:
        return _attribute_call(text, known)
    if path and head.end() == len(text):
        return _attribute(root, path[1:], known)
    return _operation(text)


def _call(root: str, path: str, arguments: str, known: Container[str]) -> Expression:
    if path and root in known:
        return "call_method", path, f"{root}, {arguments}" if arguments else root
    if path and root == "self":
        return "call_module", path, arguments
    if root == "getattr" and '"' in arguments:
        return _attribute_call(f"getattr({arguments})", known)
    function = f"{root}.{path}" if path else root
    return "call_function", _FLATTENED.get(function, function), arguments


def _attribute(root: str, path: str, known: Container[str]) -> Expression:
    if root == "self" and root not in known:
        return "get_attr", path, ""
    return "call_function", "getattr", f"{root}, {path!r}"


def _attribute_call(text: str, known: Container[str]) -> Expression:
    """`getattr(self.layers, "0")(x)`: how FX prints a path with a part that is no identifier (`_format_target`)."""
    flat, count = text, 1
    while count:
        flat, count = _GETATTR.subn(r"\1.\2", flat)
    if match := _SELF.fullmatch(flat):
        path, arguments = match.groups()
        return ("get_attr", path, "") if arguments is None else ("call_module", path, arguments)
    root, dot, rest = flat.partition(".")
    if dot and root in known:
        path, paren, arguments = rest.partition("(")
        return _call(root, path, arguments[:-1], known) if paren else _attribute(root, path, known)
    return "call_function", "getattr", text.removeprefix("getattr(").removesuffix(")")


def _operation(text: str) -> Expression:
    if match := _SIMPLE_BINARY.fullmatch(text):
        return "call_function", BINARY[match[2]], f"{match[1]}, {match[3]}"
    if match := _SIMPLE_ITEM.fullmatch(text):
        return "call_function", "operator.getitem", f"{match[1]}, {match[2]}"
    if match := _UNARY.fullmatch(text):
        return "call_function", UNARY[match[1]], match[2]
    for depth, mark, start, end in _marks(text):
        if depth == 0 and mark[0] == " ":
            return "call_function", BINARY[mark[1:-1]], f"{text[:start]}, {text[end:]}"
        if depth == 1 and mark == "[" and start and text[-1] == "]":
            return "call_function", "operator.getitem", f"{text[:start]}, {text[end:-1]}"
    return "call_function", text, text


def _marks(text: str) -> Iterator[tuple[int, str, int, int]]:
    """Brackets, infix operators and commas outside of strings, with the depth that they leave."""
    depth = 0
    for match in _MARKS.finditer(text):
        mark = match[0]
        depth += (mark in "([{") - (mark in ")]}")
        if mark[0] not in "'\"":
            yield depth, mark, match.start(), match.end()


def split_commas(text: str) -> list[str]:
    """Return the parts between the commas that are inside no bracket and no string."""
    parts, begin = [], 0
    for depth, mark, start, end in _marks(text):
        if depth == 0 and mark == ",":
            parts.append(text[begin:start].strip())
            begin = end
    return [*parts, text[begin:].strip()]


def is_closed(text: str) -> bool:
    """Return whether every bracket that it opens is closed."""
    return all(depth <= 0 for depth, *_ in deque(_marks(text), maxlen=1))


def names_in(text: str, known: Container[str]) -> tuple[str, ...]:
    """Return the nodes that an argument list names, in order; no keywords, no attributes, no words in strings."""
    return tuple(dict.fromkeys([name for name in _NAMES.findall(text) if name in known]))


def read_specs(annotation: str) -> tuple[TensorSpec, ...]:
    """Read `f32[s0, 64][64, 1]cpu`, alone or in a subclass's brackets. Empty for `Sym(s0)` and anything else."""
    match = _SPEC.search(annotation)
    if match is None or annotation.startswith("Sym("):
        return ()
    dtype, shape, stride, device = match.groups()
    return (TensorSpec(dtype, _sizes(shape), None if stride is None else _sizes(stride), device),)


def _sizes(text: str) -> tuple[int | str, ...]:
    parts = split_commas(text) if "(" in text else text.split(", ")
    return tuple(int(part) if part.isdigit() else part for part in parts if part)
