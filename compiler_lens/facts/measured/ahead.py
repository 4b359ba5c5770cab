"""What a module looks at before it computes (`if int(ids.max()) >= len(self.table): self.grow()`), asked ahead.

What is looked at is given to the whole call, and handed on as it is. So Python may ask for it before the call, and
compiled code does not have to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, only_line, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, is_text, parameters
from compiler_lens.facts.measured.called import function_named, qualified
from compiler_lens.facts.measured.own_state import (
    class_around,
    is_module,
    methods_of,
    module_around,
    modules_of,
    values_of,
)
from compiler_lens.facts.measured.reached import free, identifiers, reached

_CHECK = "_check"  # after the name of the method that has what is asked
_PARTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.If, ast.Expr, ast.Raise, ast.Pass)
_NEVER = (
    ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Lambda, ast.Delete, ast.Global, ast.Nonlocal,
    ast.comprehension,
)  # fmt: skip
_REGISTERING = frozenset({"register_buffer", "register_parameter", "add_module", "register_module"})
_OF_ANY = frozenset({"setattr", "delattr", "vars", "__dict__", "apply", "load_state_dict"})


class Check(Struct, frozen=True):
    """The statements that a method begins with, which look at what it is given, and change its object alone."""

    site: Site
    owner: ast.ClassDef
    method: ast.FunctionDef
    block: tuple[ast.stmt, ...]
    asked: tuple[str, ...]  # parameters
    changed: frozenset[str]  # attributes of the object


def is_check(text: str, line: int) -> bool:
    """Return whether a line stands in what a module looks at before it computes."""
    return _check(text, line) is not None


def set_ahead(text: str, line: int) -> frozenset[str]:
    """Return the attributes that are set where a line stands, in what a module looks at; none of another line."""
    found = _check(text, line)
    return found.changed if found else frozenset()


def asking(text: str, code: str, name: str) -> tuple[str, list[str]] | None:
    """Return a text in which compiled code does not look at what it is given, and the lines that do it before the call.

    Args:
        text: a file's.
        code: a line of what is looked at.
        name: the function's that is to have those lines, qualified: a method of what torch.compile was given.
    """
    line, tree = only_line(text, code), parsed(text)
    found = _check(text, line) if line else None
    if found is None or tree is None or not _is_handed_on(found, text, tree, name):
        return None
    method = free(f"{found.method.name}{_CHECK}", identifiers([tree]))
    new = _written(found, method)
    there = function_named(tree, name)
    module = free("module", identifiers([there]) if there else frozenset())
    return new, [
        f"for {module} in {modules_of(tree, there, found.site.torch)}:",
        f"    if isinstance({module}, {found.owner.name}):",
        f"        {module}.{method}({', '.join(found.asked)})",
    ]


# -- what is looked at


def _check(text: str, line: int) -> Check | None:
    site, tree = site_in(text, line), parsed(text)
    method = site.function if site else None
    if site is None or tree is None or not isinstance(method, ast.FunctionDef) or method.decorator_list:
        return None
    owner = module_around(tree, method)
    if owner is None:
        return None
    block = _block(method, line)
    own = _run(owner, block)
    asked = _names(block, ast.Load) & frozenset(parameters(method)) - {"self"}
    changed = frozenset(name for one in (*block, *own) for name in _changed(one))
    if not (
        asked and changed and _is_closed(site, method, block, asked) and all(map(_may_be_repeated, (*block, *own)))
    ):
        return None
    others = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one not in {*owner.body}]
    if any(_is_about(n, changed) for one in others for n in ast.walk(one)):
        return None
    return Check(site, owner, method, block, tuple(one for one in parameters(method) if one in asked), changed)


def _is_closed(site: Site, method: ast.FunctionDef, block: Sequence[ast.stmt], asked: AbstractSet[str]) -> bool:
    """Return whether statements read no more than what is asked, and what follows them nothing of theirs."""
    stored, read = _names(block, ast.Store), _names(block, ast.Load)
    rest = method.body[method.body.index(block[-1]) + 1 :] if block else []
    is_apart = bool(rest) and not stored & (_names(rest, ast.Load) | asked)
    is_known = not read & (_OF_ANY | (site.local() - stored - asked - {"self"}))
    return is_apart and is_known and not any(site.escapes(one) for one in stored | asked)


def _block(method: ast.FunctionDef, line: int) -> tuple[ast.stmt, ...]:
    """Return the statements that a method begins with, up to one that a line is of and what follows from that."""
    body = [one for one in method.body if not is_text(one)]
    last = next((n for n, one in enumerate(body) if one.lineno <= line <= (one.end_lineno or 0)), None)
    if last is None:
        return ()
    block = body[: last + 1]
    for one in body[last + 1 :]:
        if not (isinstance(one, ast.If) and _names([one.test], ast.Load) & _names(block, ast.Store)):
            break
        block.append(one)
    nodes = [n for one in block for n in ast.walk(one)]
    is_plain = all(isinstance(n, _PARTS) for n in nodes if isinstance(n, ast.stmt))
    is_whole = is_plain and not any(isinstance(n, _NEVER) for n in nodes) and all(map(_keeps, nodes))
    return tuple(block) if is_whole else ()


def _keeps(node: ast.AST) -> bool:
    """Return whether a statement gives a name a value, or changes the object alone."""
    match node:
        case ast.Assign(targets=targets):
            return all(isinstance(one, ast.Name) or dotted(one).startswith("self.") for one in targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return isinstance(target, ast.Name) or dotted(target).startswith("self.")
        case ast.Expr(value=value):
            return isinstance(value, ast.Call) and dotted(value.func).startswith("self.")
        case ast.Call(func=ast.Attribute(attr=name)):
            return not (name.endswith("_") and not name.endswith("__"))  # in place
    return True


def _may_be_repeated(one: ast.stmt) -> bool:
    """Return whether a statement does nothing more when it runs again: it sets names, or stands under a test."""
    counts = any(isinstance(n, ast.AugAssign) and not isinstance(n.target, ast.Name) for n in ast.walk(one))
    return (
        not counts and not isinstance(one, ast.Expr) and not any(_changed(one) if isinstance(one, ast.Assign) else ())
    )


def _names(nodes: Sequence[ast.AST], context: type[ast.expr_context]) -> frozenset[str]:
    every = (n for one in nodes for n in ast.walk(one) if isinstance(n, ast.Name))
    return frozenset(n.id for n in every if isinstance(n.ctx, context))


def _run(owner: ast.ClassDef, block: Sequence[ast.stmt]) -> Sequence[ast.FunctionDef]:
    """Return the methods of its own that a class runs with some statements."""
    known, found = methods_of(owner), dict[str, ast.FunctionDef]()
    left: list[ast.AST] = list(block)
    while left:
        calls = [dotted(call.func).removeprefix("self.") for call in calls_in(left.pop())]
        new = {name: known[name] for name in calls if name in known and name not in found}
        found |= new
        left += new.values()
    return list(found.values())


def _changed(one: ast.AST) -> Iterator[str]:
    """Yield the attributes of its object that a piece of a method sets, or registers anew."""
    for node in ast.walk(one):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[ast.Constant(value=str(name)), *_]):
                if called(node) in _REGISTERING:
                    yield name


def _is_about(node: ast.AST, attributes: AbstractSet[str]) -> bool:
    """Return whether a piece of another function mentions such an attribute of another object than its own."""
    if isinstance(node, ast.Constant):
        return node.value in attributes
    return isinstance(node, ast.Attribute) and node.attr in attributes and dotted(node.value) != "self"


# -- whether it is given to the whole call


def _is_handed_on(found: Check, text: str, tree: ast.Module, name: str) -> bool:
    """Return whether what is looked at is given to a function, and reaches the method as it is."""
    begin = function_named(tree, name)
    outer = class_around(tree, begin)
    is_given = begin is not None and set(found.asked) <= set(parameters(begin))
    if begin is found.method or not is_given or outer is None or not is_module(outer):
        return False
    own = {found.method, *_run(found.owner, found.block)}
    functions = [one for one in reached(text, [name]) if isinstance(one, ast.FunctionDef) and one not in own]
    calls = [(one, call) for one in functions for call in calls_in(one)]
    given = [(one, call) for one, call in calls if _calls(found, tree, call)]
    is_reached = bool(given) and all(_gives(found, one, call) for one, call in given)
    return is_reached and all(_is_kept(found.asked, one, tree) for one in functions)


def _calls(found: Check, tree: ast.Module, call: ast.Call) -> bool:
    """Return whether a call is one of the method, as the file shows."""
    if found.method.name != "forward":
        return called(call) == found.method.name
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return any(called(value) == found.owner.name for _, value in values_of(tree, name) or ())
    return False


def _gives(found: Check, function: ast.FunctionDef, call: ast.Call) -> bool:
    """Return whether a call gives the method what its own function was given, under the same names."""
    own = parameters(found.method)[1:]
    given = {**dict(zip(own, call.args, strict=False)), **{one.arg or "": one.value for one in call.keywords}}
    values = {name: given.get(name) for name in found.asked}
    return all(
        isinstance(value, ast.Name) and value.id == name and name in parameters(function)
        for name, value in values.items()
    )


def _is_kept(asked: Sequence[str], function: ast.FunctionDef, tree: ast.Module) -> bool:
    """Return whether a function hands on what it is given, and never something else in its place."""
    own = set(asked) & set(parameters(function))
    if own & _names([function], ast.Store):
        return False
    if any(_is_changing(n, own) for n in ast.walk(function)):
        return False
    for call in calls_in(function):
        values = [*call.args, *(one.value for one in call.keywords)]
        made = [one for one in values if not isinstance(one, ast.Name) and _names([one], ast.Load) & own]
        if made and _may_be_own(call, function, tree):
            return False
    return True


def _is_changing(node: ast.AST, names: AbstractSet[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
            return name in names and method.endswith("_") and not method.endswith("__")
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
            return name in names
        case ast.AugAssign(target=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))):
            return name in names
    return False


def _may_be_own(call: ast.Call, function: ast.FunctionDef, tree: ast.Module) -> bool:
    """Return whether what is called may be a function, or a module, of the file's."""
    classes = {one.name for one in tree.body if isinstance(one, ast.ClassDef)}
    functions = {key.rpartition(".")[2] for key in qualified(tree)}
    match call.func:
        case ast.Name(id=name):
            return name in functions or name in _names([function], ast.Store) or name in parameters(function)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            values = values_of(tree, name)
            return name in functions or not values or any(called(value) in classes for _, value in values)
        case ast.Attribute(attr=name):
            return name in functions
    return True


# -- the text


def _written(found: Check, name: str) -> str:
    """Return the file's text with what is looked at in a method of its own, which compiled code does not call."""
    lines, method = found.site.text.split("\n"), found.method
    first, last, end = found.block[0].lineno, found.block[-1].end_lineno or 0, method.end_lineno or 0
    pad, deep = " " * method.col_offset, " " * method.body[0].col_offset
    asks = [
        f"{deep}if not {found.site.torch}.compiler.is_compiling():",
        f"{deep}    self.{name}({', '.join(found.asked)})",
    ]
    own = [
        f"{pad}@{found.site.torch}.compiler.disable",  # Dynamo would compile it where Python calls it
        f"{pad}def {name}({', '.join(['self', *found.asked])}):",
        *lines[first - 1 : last],
    ]
    return "\n".join([*lines[: first - 1], *asks, *lines[last:end], "", *own, *lines[end:]])
