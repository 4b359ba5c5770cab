"""State that a function keeps of a number (`if top > self.best: self.best = top`): Python does that after the call.

A branch on a number of a tensor's breaks the graph, and an attribute that is another number then has the next call
compile again. Compiled code only adds the tensor to a list; the statements are a method, which Python calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.calls import said_by
from compiler_lens.facts.breaks.rewrites.site import Change, Site, only_line, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, is_text, parameters
from compiler_lens.facts.measured.called import named_functions, qualified
from compiler_lens.facts.measured.collected import (
    INNER,
    OF_ANY,
    gives_a_value,
    hands_itself_on,
    has_lines,
    is_for_eager,
    taking,
    with_list,
)
from compiler_lens.facts.measured.reached import free, identifiers, reached

_KEPT = "_kept"  # after the name of the function that has the statements
_OF_NUMBERS = frozenset({"min", "max", "abs", "round", "float", "int", "bool"})
# What a number may be made of, beside names, attributes and calls.
_PARTS = (
    ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.expr_context, ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip


class Taken(Struct, frozen=True):
    """A tensor of which statements take a number."""

    node: ast.expr
    kept: str  # what compiled code keeps, as code


class Kept(Struct, frozen=True):
    """Statements of a method that keep state, with the numbers that they take."""

    site: Site
    function: ast.FunctionDef
    name: str  # the method's, qualified
    block: Sequence[ast.stmt]
    taken: Sequence[Taken]

    @property
    def nodes(self) -> frozenset[ast.AST]:
        """All that the statements are made of."""
        return frozenset(n for one in self.block for n in ast.walk(one))

    @property
    def written(self) -> frozenset[str]:
        """The attributes that they set."""
        return frozenset(n.attr for n in self.nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))


def keeps(text: str, line: int) -> bool:
    """Return whether a line stands in statements that keep state, and may wait until the call is over."""
    return _kept(text, line) is not None


def kept_in(text: str, line: int) -> frozenset[str]:
    """Return the attributes that statements around a line set, which may wait; none of another line."""
    found = _kept(text, line)
    return found.written if found else frozenset()


def keeping(text: str, code: str, name: str) -> tuple[str, list[str]] | None:
    """Return a text in which what keeps state waits where it is compiled, and the lines that do it after the call.

    Args:
        text: a file's.
        code: a line of what keeps state.
        name: the function's that is to have those lines, qualified.
    """
    line, tree = only_line(text, code), parsed(text)
    found = _kept(text, line) if line else None
    if found is None or tree is None or _is_used_within(found, text, name):
        return None
    used = identifiers([tree])
    added, method = free("added", used), free(f"{found.function.name}{_KEPT}", used)
    new = with_list("\n".join(_written(found, added, method)), found.block[0].lineno, added)
    there = identifiers(one for key, one in named_functions(text) if key == name)
    owner, values = free("owner", there), free("values", there)
    taken = free("taken", there)
    return new, [taking(added, taken), f"for {owner}, *{values} in {taken}:", f"    {owner}.{method}(*{values})"]


# -- which statements


def _kept(text: str, line: int) -> Kept | None:
    site, tree = site_in(text, line), parsed(text)
    function = site.function if site else None
    if site is None or tree is None or not isinstance(function, ast.FunctionDef) or is_for_eager(site):
        return None
    name = next((name for name, one in qualified(tree).items() if one is function and "." in name), "")
    is_method = bool(name) and parameters(function)[:1] == ("self",) and not function.decorator_list
    if not is_method or "__setattr__" in text or any(type(one).__name__.startswith("Try") for one in site.around):
        return None
    runs = (run for body in _bodies(function.body) for run in _runs(site, body) if _stands_in(line, run))
    found = (_checked(site, function, name, run) for run in runs if not _is_whole(function, run))
    return next((one for one in found if one is not None), None)


def _bodies(body: Sequence[ast.stmt]) -> Iterator[Sequence[ast.stmt]]:
    """Yield a block of statements and those in it, the outer ones first."""
    yield body
    for one in body:
        for name in ("body", "orelse"):
            yield from _bodies(getattr(one, name, ()) if isinstance(one, (ast.If, ast.For, ast.With)) else ())


def _runs(site: Site, body: Sequence[ast.stmt]) -> Iterator[Sequence[ast.stmt]]:
    """Yield statements that follow one another and keep state, or take a number for it."""
    run: list[ast.stmt] = []
    for one in body:
        if _keeps(site, one):
            run.append(one)
            continue
        yield run
        run = []
    yield run


def _stands_in(line: int, run: Sequence[ast.stmt]) -> bool:
    return any(one.lineno <= line <= (one.end_lineno or 0) for one in run)


def _is_whole(function: ast.FunctionDef, run: Sequence[ast.stmt]) -> bool:
    return not [one for one in function.body if one not in run and not is_text(one)]


def _keeps(site: Site, node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name()], value=value):
            return _is_number(site, value)
        case ast.Assign(targets=[target], value=value) | ast.AugAssign(target=target, value=value):
            return _is_attribute(target) and _is_number(site, value)
        case ast.If(test=test, body=body, orelse=orelse):
            return _is_number(site, test) and all(_keeps(site, one) for one in (*body, *orelse))
        case ast.Expr(value=ast.Call(args=args, keywords=[])):
            return bool(said_by(site, node)) and all(_is_number(site, one) for one in args)
    return False


def _is_attribute(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and dotted(node.value) == "self"


def _is_number(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is made of numbers, as far as it shows: what names hold is looked at later."""
    if _takes(site, node) is not None or isinstance(node, ast.Name) or _is_attribute(node):
        return True
    if isinstance(node, ast.Call):
        is_known = dotted(node.func) in _OF_NUMBERS or dotted(node.func).startswith("math.")
        return is_known and not node.keywords and all(_is_number(site, one) for one in node.args)
    inner = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
    return isinstance(node, _PARTS) and all(_is_number(site, one) for one in inner)


def _takes(site: Site, node: ast.expr) -> Taken | None:
    """Return the tensor of which an expression takes the number, if it does no more than that."""
    match node:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[], keywords=[]):
            pass
        case ast.Call(func=ast.Name(id="float" | "int"), args=[tensor], keywords=[]) if site.is_tensor(tensor):
            pass
        case _:
            return None
    is_pure = all(gives_a_value(site, one) for one in ast.walk(tensor))
    return Taken(tensor, f"{site.atom(tensor)}.detach().clone()") if is_pure else None


def _taken(site: Site, node: ast.AST) -> Iterator[Taken]:
    """Yield the tensors of which a statement takes numbers, in the order of the text."""
    found = _takes(site, node) if isinstance(node, ast.expr) else None
    if found is not None:
        yield found
        return
    for one in ast.iter_child_nodes(node):
        yield from _taken(site, one)


# -- whether they may wait


def _checked(site: Site, function: ast.FunctionDef, name: str, run: Sequence[ast.stmt]) -> Kept | None:
    """Return statements that may wait as far as their own function shows; None if they may not."""
    found = Kept(site, function, name, run, tuple(one for node in run for one in _taken(site, node)))
    nodes, inside = found.nodes, {n for one in found.taken for n in ast.walk(one.node)}
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    texts = (n for n in nodes if isinstance(n, (ast.Constant, ast.JoinedStr)))
    if (
        not found.written
        or any(n.lineno != n.end_lineno for n in texts)
        or not all(has_lines(site, one) for one in run)
    ):
        return None
    if any(site.escapes(one) or not _is_within(function, one, nodes) for one in stored):
        return None
    if not _reads_its_own(run, inside, _fixed(site, stored)):
        return None
    return found if all(_may_be_first(function, one, run, stored, found.written) for one in found.taken) else None


def _reads_its_own(run: Sequence[ast.stmt], but: AbstractSet[ast.AST], known: AbstractSet[str]) -> bool:
    """Return whether statements read no names, outside some nodes, but those that they set before, and known ones."""
    own = {"self", *known}
    for one in run:
        loads = (n for n in ast.walk(one) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n not in but)
        if not {n.id for n in loads} <= own:
            return False
        match one:
            case ast.Assign(targets=[ast.Name(id=name)]):
                own.add(name)
    return True


def _is_within(function: ast.FunctionDef, name: str, nodes: AbstractSet[ast.AST]) -> bool:
    """Return whether a name is used by some nodes of a function alone, and is no parameter."""
    uses = {n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name}
    return uses <= nodes and name not in parameters(function)


def _fixed(site: Site, stored: AbstractSet[str]) -> frozenset[str]:
    """Return names that are the same all the time: of Python's, and those that the module alone sets, once."""
    tree = parsed(site.text)
    nodes = list(ast.walk(tree)) if tree else []
    written = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    at_top = [one for one in (tree.body if tree else ()) if isinstance(one, (ast.Import, ast.ImportFrom)) or _sets(one)]
    names = {n.id for one in at_top for n in ast.walk(one) if isinstance(n, ast.Name)}
    imported = [n for one in at_top for n in ast.walk(one) if isinstance(n, ast.alias)]
    names |= {(one.asname or one.name).partition(".")[0] for one in imported}
    once = {one for one in names if written.count(one) <= 1}
    return frozenset((once | _OF_NUMBERS | {"print"}) - stored - site.local())


def _sets(one: ast.stmt) -> bool:
    """Return whether a statement gives names to numbers and texts, or to a logger, which do not change."""
    match one:
        case ast.Assign(value=ast.Call() as value):
            return called(value) == "getLogger"
        case ast.Assign(value=value):
            return all(isinstance(n, (*_PARTS, ast.Tuple)) for n in ast.walk(value))
    return False


def _may_be_first(
    function: ast.FunctionDef, one: Taken, run: Sequence[ast.stmt], stored: AbstractSet[str], written: AbstractSet[str]
) -> bool:
    """Return whether a tensor may be computed before the statements: they do that in any case, or it is there."""
    nodes = list(ast.walk(one.node))
    names = {n.id for n in nodes if isinstance(n, ast.Name)}
    if one.node in {n for n in nodes if dotted(n) == "self"} or names & stored:
        return False
    if written & {n.attr for n in nodes if isinstance(n, ast.Attribute)}:
        return False
    before = [n for n in function.body if isinstance(n, ast.Assign) and n.lineno < run[0].lineno]
    there = {target.id for n in before for target in n.targets if isinstance(target, ast.Name)}
    is_there = isinstance(one.node, ast.Name) and one.node.id in {*there, *parameters(function)}
    return is_there or any(one.node in _always(statement) for statement in run)


def _always(statement: ast.stmt) -> frozenset[ast.AST]:
    """Return what is evaluated whenever a statement runs: of a branch its test, and of that only what comes first."""
    nodes = ast.walk(statement.test if isinstance(statement, ast.If) else statement)
    inner = {n for n in ast.walk(statement) if isinstance(n, (ast.BoolOp, ast.IfExp))}
    late = {n for one in inner for part in ast.iter_child_nodes(one) for n in ast.walk(part)}
    return frozenset(set(nodes) - late)


def _is_used_within(found: Kept, text: str, name: str) -> bool:
    """Return whether compiled code may read what waits to be written, or write what is read by then."""
    functions = reached(text, [name, f"{name}{INNER}", found.name])
    nodes = [n for one in functions for n in ast.walk(one) if n not in found.nodes]
    if any(hands_itself_on(n) or {getattr(n, "id", ""), getattr(n, "attr", "")} & OF_ANY for n in nodes):
        return True
    tree = parsed(text)
    own = {key.rpartition(".")[2] for key in (qualified(tree) if tree else ())}
    attributes = {n.attr for n in found.nodes if isinstance(n, ast.Attribute) and _is_attribute(n)}
    elsewhere = {value for n in nodes for key in ("attr", "value") if isinstance(value := getattr(n, key, None), str)}
    is_open = any(one in elsewhere and (one in found.written or not _is_plain(text, one)) for one in attributes)
    is_switched = "training" in attributes and bool(elsewhere & {"train", "eval"})
    return is_open or is_switched or bool(attributes & own)


def _is_plain(text: str, attribute: str) -> bool:
    """Return whether an attribute is a number that stays what it is: the file sets it in `__init__`, to constants."""
    tree = parsed(text)
    makers = [one for name, one in (qualified(tree) if tree else {}).items() if name.endswith(".__init__")]
    inside = {n for one in makers for n in ast.walk(one)}
    every = list(ast.walk(tree)) if tree else []
    plain = [n for n in inside if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)]
    known = {target for one in plain for target in one.targets}
    written = [n for n in every if isinstance(n, ast.Attribute) and n.attr == attribute and not _is_read(n)]
    return bool(written) and known.issuperset(written)


def _is_read(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


# -- the text


def _written(found: Kept, added: str, method: str) -> Sequence[str]:
    """Return the lines of the file with the statements in a method below, which the function calls or has wait."""
    site, function, lines = found.site, found.function, found.site.text.split("\n")
    changes = _arguments(found)
    pad, here = " " * function.col_offset, " " * found.block[0].col_offset
    tensors = {new: node for node, new in changes}  # one that is read twice is given once
    given = ", ".join(site.source(node) for node in tensors.values())
    kept = {one.node: one.kept for one in found.taken}
    values = [kept[node] for node in tensors.values()]
    waiting = [
        f"{here}if {site.torch}.compiler.is_compiling():",
        f"{here}    {added}.append(({', '.join(['self', *values])}{'' if values else ','}))",
        f"{here}else:",
        f"{here}    self.{method}({given})",
    ]
    # Dynamo would compile it where Python calls it, for each number that it keeps.
    body = [f"{pad}@{site.torch}.compiler.disable", f"{pad}def {method}({', '.join(['self', *tensors])}):"]
    first, last, end = found.block[0].lineno, found.block[-1].end_lineno or 0, function.end_lineno or 0
    moved = _moved(found, changes, " " * function.body[0].col_offset)
    return [*lines[: first - 1], *waiting, *lines[last:end], "", *body, *moved, *lines[end:]]


def _moved(found: Kept, changes: Sequence[Change], pad: str) -> Iterator[str]:
    """Yield the statements with the comments between them, at another indentation."""
    lines, end = found.site.text.split("\n"), found.block[0].lineno - 1
    for one in found.block:
        yield from (f"{pad}{line.strip()}".rstrip() for line in lines[end : one.lineno - 1])
        inside = [change for change in changes if change[0] in set(ast.walk(one))]
        first, *rest = found.site.edited(one, inside).split("\n")
        yield from (f"{pad}{first}", *(f"{pad}{line[one.col_offset :]}".rstrip() for line in rest))
        end = one.end_lineno or 0


def _arguments(found: Kept) -> Sequence[Change]:
    """Return the tensors with the names that they have in the method: their own, or new ones."""
    used, changes = set(identifiers([found.function])), list[Change]()
    for one in found.taken:
        name = one.node.id if isinstance(one.node, ast.Name) else free("value", used)
        used.add(name)
        changes.append((one.node, name))
    return changes
