"""What the user's code does with a Python number: what only an int can be, and what a graph is made for anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from enum import Enum

from compiler_lens.recording.source_text import Definition, Sources, syntax_if_known

_WORD = re.compile(r"[A-Za-z_]\w*")
_DEEPEST = 3  # calls that a number is followed through
_ARITHMETIC = frozenset(("int", "float", "min", "max", "abs", "round"))
_CONTAINERS = frozenset(("ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "list", "dict", "tuple"))
_OF_TEXTS_AND_KEYS = frozenset(("str", "repr", "format", "get", "setdefault"))
# torch's functions and methods that take sizes, and read no tensor there.
SIZED = frozenset((
    "view", "reshape", "expand", "repeat", "unflatten", "zeros", "ones", "empty", "full", "new_zeros", "new_ones",
    "new_empty", "new_full", "arange", "linspace", "eye", "split", "chunk", "narrow", "pad", "roll", "select", "topk",
    "interpolate", "tile", "broadcast_to", "split_with_sizes",
))  # fmt: skip


class Use(Enum):
    """What a number is used for."""

    SLICE = "bounds a slice"
    SIZE = "is a size"
    INDEX = "is an index"
    KEY = "is a key of a list or dict"
    BRANCH = "decides a branch"
    LOOP = "is how often a loop runs"
    TEXT = "is part of a text"


def uses(texts: Sources, file: str, line: int, subject: str, entered: Sequence[Definition] = ()) -> frozenset[Use]:
    """Return what a value is used for in the function around a line, and what that calls with it in the same file.

    Args:
        texts: the texts of files.
        file: of the line.
        line: a line that reads it.
        subject: `n`, `self.cache.filled`: of an attribute, the methods of the class around the line are looked at.
        entered: functions of the file that the compiled code may call; empty if not known: then all of these methods.

    """
    path = _WORD.findall(subject)
    here = texts.function_at(file, line)
    if not path or here is None:
        return frozenset()
    functions = [here.first]
    if len(path) > 1:
        owner = here.name.rpartition(".")[0]
        others = entered or texts.definitions(file)  # a text that a method makes which nothing compiled calls is no use
        functions += [d.first for d in others if owner and d.name.rpartition(".")[0] == owner]
    found: set[Use] = set()
    for first in dict.fromkeys(functions):
        if function := texts.syntax_of(file, first):
            found |= _Reader(texts, file, path[-1] if len(path) > 1 else "").of(function, {subject}, _DEEPEST)
    return frozenset(found)


def makes_text(texts: Sources, file: str, line: int) -> bool:
    """Return whether the statement at a line makes a text of values, or asks a dict for a key, and has no loop."""
    here = texts.function_at(file, line)
    function = texts.syntax_of(file, here.first) if here else None
    around = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and _has(n, line)] if function else []
    if not around:
        return False
    innermost = min(around, key=lambda one: (one.end_lineno or one.lineno) - one.lineno)
    every = [innermost, *(n for one in _head(innermost) for n in ast.walk(one))]
    return any(map(_is_text_or_key, every)) and not any(map(_is_loop, every))


def _is_loop(node: ast.AST) -> bool:
    return isinstance(node, (ast.For, ast.comprehension)) or (isinstance(node, ast.Call) and _called(node) == "range")


def _has(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _head(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the parts of a statement that are no statements in it."""
    yield from (one for one in ast.iter_child_nodes(statement) if not isinstance(one, (ast.stmt, ast.ExceptHandler)))


def _is_text_or_key(node: ast.AST) -> bool:
    match node:
        case ast.FormattedValue() | ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()):
            return True
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Name() | ast.Attribute()]):
            return True
        case ast.Call(args=[first, *_]) if not isinstance(first, ast.Constant):
            return _called(node) in _OF_TEXTS_AND_KEYS
    return False


class _Reader:
    """Follows a value through the functions of a file: by the attribute that it is, and by names."""

    def __init__(self, texts: Sources, file: str, attribute: str) -> None:
        self._texts, self._file, self._attribute = texts, file, attribute

    def of(self, function: ast.AST, names: set[str], deeper: int) -> frozenset[Use]:
        """Return what a function uses the value for; `names` are those that it has there."""
        nodes = list(ast.walk(function))
        assigned = [n for n in nodes if isinstance(n, ast.Assign)]
        for one in sorted(assigned, key=lambda n: n.lineno):
            if self._is(one.value, names):
                names = names | {target.id for target in one.targets if isinstance(target, ast.Name)}
        found = {use for node in nodes for use in self._uses(node, names)}
        for node in nodes if deeper else ():
            if isinstance(node, ast.Call) and _called(node) not in SIZED:
                found |= self._handed_on(node, names, deeper - 1)
        return frozenset(found)

    def _is(self, node: ast.AST | None, names: set[str]) -> bool:  # noqa: PLR0911 -- one for each kind of node
        """Whether an expression is the value, or arithmetic on it."""
        match node:
            case ast.Name(id=name):
                return name in names
            case ast.Attribute(attr=attribute):
                return bool(self._attribute) and attribute == self._attribute
            case ast.BinOp(left=left, right=right):
                if any(isinstance(side, ast.Call) and _called(side) not in _ARITHMETIC for side in (left, right)):
                    return False  # most likely a tensor's
                return self._is(left, names) or self._is(right, names)
            case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
                return False
            case ast.Compare(left=left, comparators=others):
                return any(self._is(one, names) for one in (left, *others))
            case ast.UnaryOp(operand=operand):
                return self._is(operand, names)
            case ast.Call(args=arguments) if _called(node) in _ARITHMETIC:
                return any(self._is(one, names) for one in arguments)
        return False

    def _uses(self, node: ast.AST, names: set[str]) -> Iterator[Use]:
        match node:
            case ast.Slice(lower=lower, upper=upper, step=step):
                if any(self._is(one, names) for one in (lower, upper, step)):
                    yield Use.SLICE
            case ast.Subscript(value=base, slice=key) if any(self._is(part, names) for part in _parts(key)):
                yield Use.KEY if self._is_container(base) else Use.INDEX
            case ast.Call(args=arguments, keywords=keywords):
                given = [part for one in (*arguments, *(k.value for k in keywords)) for part in _parts(one)]
                if any(self._is(one, names) for one in given):
                    yield from {"range": (Use.LOOP,), "str": (Use.TEXT,)}.get(_called(node), ())
                    yield from (Use.SIZE,) if _called(node) in SIZED else ()
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
                asked = (part for n in ast.walk(test) for part in _compared(n))
                if self._is(test, names) or any(self._is(one, names) for one in asked):
                    yield Use.BRANCH
            case ast.FormattedValue(value=value) if self._is(value, names):
                yield Use.TEXT

    def _is_container(self, base: ast.expr) -> bool:
        """Whether what is indexed is Python's own, as far as the file shows how it is made."""
        if isinstance(base, (ast.Name, ast.Attribute)):
            made = _made(syntax_if_known(self._texts.texts[self._file]), type(base), _name(base))
            return any(map(_is_display, made))
        return isinstance(base, (ast.Dict, ast.List, ast.Tuple))

    def _handed_on(self, call: ast.Call, names: set[str], deeper: int) -> frozenset[Use]:
        """What a function of the same file does with it that it is handed to."""
        given: dict[int | str | None, bool] = {i: self._is(one, names) for i, one in enumerate(call.args)}
        given |= {one.arg: self._is(one.value, names) for one in call.keywords}
        if not any(given.values()):
            return frozenset()
        named = [d for d in self._texts.definitions(self._file) if d.name.rpartition(".")[2] == _called(call)]
        function = self._texts.syntax_of(self._file, named[0].first) if len(named) == 1 else None
        if function is None:
            return frozenset()
        theirs = {p for i, p in enumerate(named[0].parameters) if given.get(i) or given.get(p)}
        return self.of(function, theirs, deeper)


def _made(tree: ast.Module | None, kind: type[ast.expr], name: str) -> Iterator[ast.expr]:
    """Yield what is assigned to a name, or to an attribute of that name of whatever object."""
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _assigned(target, node.value)]
        elif isinstance(node, ast.AnnAssign) and node.value:
            pairs = [(node.target, node.value)]
        else:
            continue
        yield from (value for target, value in pairs if isinstance(target, kind) and _name(target) == name)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _is_display(value: ast.expr) -> bool:
    """Whether an expression makes a list, a dict, or a module's own kind of these."""
    if isinstance(value, ast.Call):
        return _called(value) in _CONTAINERS
    return isinstance(value, (ast.List, ast.Dict, ast.Tuple, ast.ListComp, ast.DictComp))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _compared(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):  # whether it is None, which no number decides
            return
        case ast.Compare(left=left, comparators=others):
            yield from (left, *others)
        case ast.BoolOp(values=values):
            yield from values
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand


def _parts(node: ast.expr) -> list[ast.expr]:
    """The elements of a tuple or list, else the expression itself."""
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def _called(call: ast.Call) -> str:
    return _name(call.func)
