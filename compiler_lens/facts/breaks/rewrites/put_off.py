"""Whether a file allows settings of torch's everywhere in the program: that put messages off, or leave sizes open."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from compiler_lens.facts.breaks.rewrites.messages import is_counted
from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import Function, called, dotted

_PUT_OFF = frozenset({"print", "warn"})
_KEPT_BY_MODULES = frozenset({"running_mean", "running_var", "num_batches_tracked"})  # which a call of them changes
_LOOPS = (ast.For, ast.While)
_OF_ROWS = "capture_dynamic_output_shape_ops"


def _squeezes_all(node: ast.AST) -> bool:
    """Whether it is `x.squeeze()`, or `torch.squeeze(x)`: of which dimension depends on the sizes."""
    match node:
        case ast.Call(func=ast.Attribute(attr="squeeze"), args=[], keywords=[]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="squeeze"), args=[_], keywords=[]):
            return True
    return False


@lru_cache(maxsize=64)
def allows(text: str, setting: str) -> bool:
    """Return whether a setting leaves what a file's messages say, and what it computes, as it is.

    What is printed is written once the graph has run: a tensor as it is by then. And `squeeze()` of rows whose number
    nobody knows keeps them in a graph, where eagerly a single row is no dimension any more.
    """
    if not setting.endswith((_OF_ROWS, "reorderable_logging_functions", "ignore_logging_functions")):
        return True
    try:
        tree = parsed(text)
        if tree is None:
            return True
        if setting.endswith(_OF_ROWS):
            return not any(map(_squeezes_all, ast.walk(tree)))
        if setting.endswith("ignore_logging_functions"):
            return not is_counted(tree)
        return not _prints_what_changes(tree)
    except RecursionError:  # an expression nested deeper than Python's stack
        return False


def _prints_what_changes(tree: ast.Module) -> bool:
    functions = [n for n in ast.walk(tree) if isinstance(n, Function)]
    changed = {one: list(_changed(one)) for one in functions}
    by_functions = Counter(name for names in changed.values() for name in {name for name, _ in names})
    for function in functions:
        printed, own = list(_printed(function)), {name for name, _ in changed[function]}
        known = _names_of_one(function) if printed else {}
        for name, line, in_loop in printed:
            alike = known.get(name, {name})
            if any(one in alike and (in_loop or at > line) for one, at in changed[function]):
                return True
            is_others = "." in name and by_functions[name] > (name in own)
            if is_others or name.rpartition(".")[2] in _KEPT_BY_MODULES:
                return True
    return False


def _printed(function: Function) -> Iterator[tuple[str, int, bool]]:
    """Yield what is printed, by name, with its line, and whether that is in a loop."""
    in_loops = {n for loop in ast.walk(function) if isinstance(loop, _LOOPS) for n in ast.walk(loop)}
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or called(call) not in _PUT_OFF:
            continue
        for node in (n for one in call.args for n in ast.walk(one)):
            if isinstance(node, (ast.Name, ast.Attribute)) and dotted(node):
                yield dotted(node), call.lineno, call in in_loops


def _changed(function: Function) -> Iterator[tuple[str, int]]:
    """Yield what is written in place, by name, with its line."""
    for node in ast.walk(function):
        written: list[ast.expr] = []
        match node:
            case ast.AugAssign(target=target):
                written = [target]
            case ast.Assign(targets=targets):
                written = [one for one in targets if isinstance(one, ast.Subscript) or _is_data(one)]
            case ast.Call(func=ast.Attribute(value=owner), args=args, keywords=words):
                name = called(node)
                is_said = any(word.arg == "inplace" for word in words)
                if is_said or (name.endswith("_") and not name.endswith("__")):
                    written = [owner, *args[:1]]
                written += [word.value for word in words if word.arg == "out"]
        yield from ((name, one.lineno) for one in written if (name := _root(one)))


def _is_data(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "data"


def _root(node: ast.expr) -> str:
    """Return the name of what is written: of `self.ema[0].mul_(2)` `self.ema`."""
    while not dotted(node):
        match node:
            case ast.Subscript(value=value) | ast.Attribute(value=value):
                node = value
            case ast.Call(func=ast.Attribute(value=value)):
                node = value
            case _:
                return ""
    return dotted(node).removesuffix(".data")


def _names_of_one(function: Function) -> dict[str, set[str]]:
    """Return the names that may be views of one another, by each of them."""
    known: dict[str, set[str]] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value) if root := _root(value):
                names = {root, *(dotted(one) for one in targets if dotted(one))}
                every = set[str]().union(names, *(known.get(name, set()) for name in names))
                known.update(dict.fromkeys(every, every))
    return known
