"""State that a module sets up at its first call (`if not self.initialized: self.set_up(x)`): that call runs eagerly.

A tensor says whether it is done, and each call asks it: that breaks the graph. Python asks before the call, and has it
run without being compiled where something is to be set up; compiled code takes it for done.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, only_line, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, is_text, parameters
from compiler_lens.facts.measured.called import function_named
from compiler_lens.facts.measured.collected import has_lines
from compiler_lens.facts.measured.own_state import class_around, derived, is_module, modules_of
from compiler_lens.facts.measured.reached import free, identifiers

EAGERLY = "{eagerly}"  # in lines before a call: that call, of which nothing is compiled
_MADE = frozenset({"Tensor", "tensor", "zeros", "as_tensor", "BoolTensor", "ByteTensor", "LongTensor"})
_WRITTEN = frozenset({"copy_", "fill_", "logical_not_", "add_", "fill", "__setitem__"})


class SetUp(Struct, frozen=True):
    """A branch on a buffer that says whether its module is set up, and what is asked for then."""

    site: Site
    owner: ast.ClassDef
    test: ast.expr  # of the branch
    is_done: bool  # the branch is come to where it is set up, and leaves the method


def sets_up(text: str, line: int) -> bool:
    """Return whether a line is a branch of a module's that sets state up at its first call."""
    return _found(text, line) is not None


def setting_up(text: str, code: str, name: str) -> tuple[str, list[str]] | None:
    """Return a text in which compiled code takes state for set up, and the lines that have a call do it eagerly.

    Args:
        text: a file's.
        code: the line of the branch.
        name: the function's that is to have those lines, qualified: a method of what torch.compile was given.
    """
    line, tree = only_line(text, code), parsed(text)
    found = _found(text, line) if line else None
    outer = function_named(tree, name) if tree else None
    if (
        found is None
        or tree is None
        or outer is None
        or outer is found.site.function
        or parameters(outer)[:1] != ("self",)
    ):
        return None
    site, module = found.site, free("module", identifiers([outer]))
    asked = f"{site.torch}.compiler.is_compiling()"
    new = f"{asked} or {site.atom(found.test)}" if found.is_done else f"not {asked} and {site.atom(found.test)}"
    written = site.edit([(found.test, new)])
    if written is None:
        return None
    lines, statement = text.split("\n"), site.statement
    pad = " " * statement.col_offset
    lines[statement.lineno - 1 : statement.end_lineno] = [f"{pad}{one}".rstrip() for one in written.after]
    names = [n for n in ast.walk(found.test) if isinstance(n, ast.Name) and n.id == "self"]
    here = site.source(found.test, [(n, module) for n in names])
    is_open = _negated(found.test, here) if found.is_done else here
    return "\n".join(lines), [
        f"for {module} in {modules_of(tree, outer, site.torch)}:",
        f"    if isinstance({module}, {found.owner.name}) and {is_open}:",
        f"        {EAGERLY}  # it is set up in this call",
    ]


def _negated(test: ast.expr, text: str) -> str:
    return f"not {text}" if isinstance(test, ast.Attribute) else f"not ({text})"


def _found(text: str, line: int) -> SetUp | None:
    site, tree = site_in(text, line), parsed(text)
    method = site.function if site else None
    if site is None or tree is None or not isinstance(method, ast.FunctionDef) or not has_lines(site, site.statement):
        return None
    owner = _module(tree, method)
    match site.statement:
        case ast.If(test=test, body=body, orelse=[]) if owner:
            is_done = len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is None
        case _:
            return None
    flags = [n for n in ast.walk(test) if isinstance(n, ast.Attribute) and _is_buffer(owner, n.attr)]
    is_own = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)} - {"bool", "int"} == {"self"} and len(flags) == 1
    if not is_own or is_done is not (_asks_for(test) is True) or _asks_for(test) is None:
        return None
    flag, part = flags[0].attr, method.body if is_done else body
    mentions = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == flag]
    made = [n for n in ast.walk(owner) if isinstance(n, ast.Assign) and _makes(n) == flag]
    within = {n for one in (*part, test, *made) for n in ast.walk(one)}
    is_first = not is_done or site.statement in [one for one in method.body if not is_text(one)][:1]
    is_closed = (
        is_first and all(n in within for n in mentions) and any(_sets(n, flag) for one in part for n in ast.walk(one))
    )
    returns = any(isinstance(n, ast.Return) and n.value for one in part for n in ast.walk(one))
    return SetUp(site, owner, test, is_done) if is_closed and not returns else None


def _module(tree: ast.Module, method: ast.FunctionDef) -> ast.ClassDef | None:
    """Return the module whose method one is, also where others derive from it, as long as it is theirs as well."""
    owner = class_around(tree, method)
    if owner is None or not is_module(owner):
        return None
    named = (n for one in derived(tree, owner) for n in one.body if isinstance(n, ast.FunctionDef))
    return owner if all(n.name != method.name for n in named) else None


def _asks_for(test: ast.expr) -> bool | None:
    """Return whether a test is for a flag that is set, or for one that is not; None of another test."""
    match test:
        case ast.Attribute(value=ast.Name(id="self")):
            return True
        case (
            ast.Call(func=ast.Attribute(value=of, attr="item" | "all" | "any"), args=[])
            | ast.Call(func=ast.Name(id="bool" | "int"), args=[of])
        ):
            return _asks_for(of)
        case ast.UnaryOp(op=ast.Not(), operand=of):
            inner = _asks_for(of)
            return None if inner is None else not inner
        case ast.Compare(left=of, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]) if value in (0, 1):
            inner = _asks_for(of)
            return None if inner is None else inner is bool(value)
        case ast.BoolOp(op=ast.And(), values=[ast.Attribute(attr="training"), of]):
            return False if _asks_for(of) is False else None
    return None


def _is_buffer(owner: ast.ClassDef, name: str) -> bool:
    """Return whether a module has a buffer, or a parameter, of that name, which says no at first."""
    for node in ast.walk(owner):
        match node:
            case ast.Call(func=ast.Attribute(attr="register_buffer"), args=[ast.Constant(value=key), value, *_]):
                pass
            case ast.Assign(value=ast.Call(args=[value, *_])) if key := _makes(node):
                pass
            case _:
                continue
        if key == name and isinstance(value, ast.Call) and called(value) in _MADE:
            return all(not n.value for n in _constants(value) if isinstance(n.value, (bool, int, float)))
    return False


def _makes(one: ast.Assign) -> str:
    """Return the name of a parameter, or a buffer, that a module is given; empty of anything else."""
    match one:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)],
            value=ast.Call(func=ast.Attribute(attr="Parameter" | "Buffer")),
        ):
            return name
    return ""


def _constants(made: ast.Call) -> Iterator[ast.Constant]:
    if called(made) != "zeros":
        yield from (n for one in made.args for n in ast.walk(one) if isinstance(n, ast.Constant))


def _sets(node: ast.AST, flag: str) -> bool:
    match node:
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return name == flag
        case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in _WRITTEN:
            return dotted(of) in (f"self.{flag}", f"self.{flag}.data")
        case ast.Subscript(value=of, ctx=ast.Store()):
            return dotted(of) in (f"self.{flag}", f"self.{flag}.data")
    return False
