"""Lists of the module's, and of objects, that compiled code adds to: Python does that after the call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.calls import only_says
from compiler_lens.facts.breaks.rewrites.site import Site, only_line, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, is_pure_call, parameters
from compiler_lens.facts.measured.called import named_functions
from compiler_lens.facts.measured.reached import free, identifiers, reached
from compiler_lens.recording.source_text import first_line

INNER = "_computed"  # after the name of the part that is compiled
ADDING = frozenset({"append", "extend", "add", "appendleft"})
OF_ANY = frozenset({"vars", "dir", "getattr", "__dict__"})  # what reads attributes that it does not name
_OF_SETS = frozenset({"add", "sort", "pow", "div", "sub"})  # which other things than tensors have, too
_LISTS = frozenset({"list", "deque", "set"})  # what is called for a new one
_COUNTERS = frozenset({"Counter", "dict", "set"})  # of which `update` adds numbers, and keeps nothing else


class Collected(Struct, frozen=True):
    """A line that adds to a list which is there after the call, and what compiled code keeps for it."""

    site: Site
    call: ast.Call
    kept: str  # as code, where the line stands
    made: str  # what Python adds of that `value`
    attribute: str = ""  # in which the object holds the list; empty of a list of the module's
    argument: str = ""  # the argument that is the list, or has it
    key: str = ""  # the number of a round, by which the argument has it

    @property
    def owner(self) -> ast.expr:
        """The list."""
        assert isinstance(self.call.func, ast.Attribute)  # noqa: S101 -- `added` asks for a method
        return self.call.func.value


def added(site: Site, node: ast.stmt, names: AbstractSet[str] = ADDING) -> ast.Call | None:
    """Return the call that adds to a list of the object's, or of the module's, and gives nothing."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name), args=[_], keywords=[]) as call):
            root = next(roots(owner), "")
            is_outside = root == "self" or (root and root not in site.local())
            is_pure = all(gives_a_value(site, n) for n in ast.walk(call) if n is not call)
            return call if name in names and is_outside and is_pure else None
    return None


def gives_a_value(site: Site, node: ast.AST) -> bool:
    """Return whether a part of an expression computes, and changes nothing."""
    is_computed = isinstance(node, ast.Call) and is_pure_call(node) and called(node) not in _OF_SETS
    return is_computed or only_says(site, node)


def roots(node: ast.expr) -> Iterator[str]:
    """Yield the name that `a` is of `a`, `a.b` and `a["b"]`."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=owner) | ast.Subscript(value=owner, slice=ast.Constant() | ast.Name()):
            yield from roots(owner)


def collects(text: str, line: int) -> bool:
    """Return whether a line adds to a list what compiled code may keep for later."""
    return _collected(text, line) is not None


def added_to(text: str, line: int) -> frozenset[str]:
    """Return the name of the list that a line adds to, or of the attribute that holds it; none of another line."""
    found = _collected(text, line)
    if found is None or found.argument:
        return frozenset()
    holder = found.owner
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    return frozenset({found.attribute or dotted(holder).rpartition(".")[2]})


def _collected(text: str, line: int) -> Collected | None:
    site = site_in(text, line)
    if site and (found := _added_to_argument(site)):
        return found
    call = added(site, site.statement, ADDING | {"update"}) if site else None
    if site is None or call is None or not isinstance(call.func, ast.Attribute) or called(call) == "extend":
        return None
    is_update = called(call) == "update"
    if is_update and called(call.args[0]) != "tolist":
        return None
    attribute = _list_of_object(site, call.func.value, _is_new_counter if is_update else _is_new_list)
    is_outside = not any(n.id in site.local() for n in ast.walk(call.func.value) if isinstance(n, ast.Name))
    if is_for_eager(site) or not (attribute or (is_outside and not is_update)):
        return None
    kept, made = _kept(site, call.args[0])
    return Collected(site, call, kept, made, attribute) if attribute or made != "value" else None


def _kept(site: Site, value: ast.expr) -> tuple[str, str]:
    """Return what compiled code keeps of a value, and what Python makes of that.

    A number is one of then: what it is of may change in place before the call ends.
    """
    match value:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item" | "tolist" as name), args=[]):
            return f"{site.atom(tensor)}.detach().clone()", f"value.{name}()"
        case ast.Call(func=ast.Name(id="float" | "int" as name), args=[tensor]) if site.is_tensor(tensor):
            return f"{site.atom(tensor)}.detach().clone()", f"{name}(value)"
    return site.source(value), "value"


def _added_to_argument(site: Site) -> Collected | None:
    """Return a line that adds to a list which its function is given, and does nothing else with, beside such lines."""
    match site.statement:
        case ast.Expr(value=ast.Call() as call) if site.function and (owner := _appended_to(site.statement)):
            root = next(roots(owner), "")
        case _:
            return None
    if root == "self" or root not in parameters(site.function) or root in site.uses().stores or is_for_eager(site):
        return None
    others = filter(None, map(_appended_to, ast.walk(site.function)))
    loaded = [n for one in others for n in ast.walk(one) if isinstance(n, ast.Name) and n.id == root]
    own = [n.id for n in ast.walk(owner) if isinstance(n, ast.Name) and n.id in site.uses().stores]
    if len(loaded) != len(site.loads(root)) or len(own) > 1 or not set(own) <= _numbers_of_rounds(site):
        return None
    return Collected(site, call, *_kept(site, call.args[0]), argument=root, key="".join(own))


def _numbers_of_rounds(site: Site) -> frozenset[str]:
    """Return the names that loops around a statement count their rounds with, and nothing else is given."""
    found = set[str]()
    for one in site.around:
        match one:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))):
                found.add(name)
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=ast.Name(id="enumerate"))):
                found.add(name)
    return frozenset(name for name in found if len(site.uses().stores.get(name, ())) == 1)


def _appended_to(node: ast.AST) -> ast.expr | None:
    """Return the list that a statement adds one thing to, and does no more."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[_], keywords=[])):
            return owner
    return None


def has_lines(site: Site, statement: ast.stmt) -> bool:
    """Return whether nothing else stands in the lines of a statement, and it is no `elif`."""
    lines = [line.encode() for line in site.text.split("\n")]
    before = lines[statement.lineno - 1][: statement.col_offset].strip()
    after = lines[(statement.end_lineno or statement.lineno) - 1][statement.end_col_offset or 0 :].strip()
    return not before and (not after or after.startswith(b"#")) and not site.edited(statement).startswith("elif")


def is_for_eager(site: Site) -> bool:
    """Return whether a branch around a statement asks what is compiling: what compiled code adds is kept already."""
    tests = (one.test for one in site.around if isinstance(one, ast.If))
    return any(called(n) == "is_compiling" for test in tests for n in ast.walk(test))


def _list_of_object(site: Site, owner: ast.expr, is_new: Callable[[ast.expr | None], bool]) -> str:
    """Return the attribute in which a method's object holds a list, as the file shows; empty if it may be another."""
    tree, own = parsed(site.text), parameters(site.function)[:1] if site.function else ()
    match owner:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if tree and own == ("self",):
            pass
        case _:
            return ""
    given: list[ast.expr | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value) if any(_is_attribute(one, name) for one in targets):
                given.append(value)
            case ast.AnnAssign(target=target, value=value) if _is_attribute(target, name):
                given.append(value)
    return name if given and all(map(is_new, given)) else ""


def _is_attribute(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _is_new_list(node: ast.expr | None) -> bool:
    match node:
        case ast.List() | ast.ListComp():
            return True
        case ast.Call(func=function):
            return dotted(function).rpartition(".")[2] in _LISTS
    return False


def _is_new_counter(node: ast.expr | None) -> bool:
    match node:
        case ast.Dict() | ast.DictComp() | ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=function):
            return dotted(function).rpartition(".")[2] in _COUNTERS
    return False


def _is_read_within(found: Collected, text: str, name: str) -> bool:
    """Return whether a list that a line adds to is read where compiled code may come: it would lack what is added."""
    if found.site.function is None:
        return True
    inner = [f"{name}{INNER}", *(key for key, one in named_functions(text) if one is found.site.function)]
    nodes = [n for one in reached(text, [name, *inner]) for n in ast.walk(one) if n is not found.owner]
    if any(map(hands_itself_on, nodes)):
        return True
    if found.attribute:
        of_any = any(getattr(n, key, None) in OF_ANY for n in nodes for key in ("id", "attr"))
        return of_any or any(found.attribute in (getattr(n, "attr", None), getattr(n, "value", None)) for n in nodes)
    owner = ast.dump(found.owner)
    return any(ast.dump(n) == owner for n in nodes if isinstance(n, ast.expr))


def hands_itself_on(node: ast.AST) -> bool:
    """Return whether an object gives itself to something that it was given, which may read all of it."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=args, keywords=keywords):
            given = (*args, *(one.value for one in keywords))
            return any(isinstance(one, ast.Name) and one.id == "self" for one in given)
    return False


def collecting(text: str, code: str, name: str) -> tuple[str, list[str]] | None:
    """Return a text whose line adds to another list where it is compiled, and the lines that empty that one.

    Args:
        text: a file's.
        code: the line.
        name: the function's that is to have those lines, qualified.
    """
    line, tree = only_line(text, code), parsed(text)
    found = _collected(text, line) if line else None
    if found is None or tree is None or found.site.statement.lineno != found.site.statement.end_lineno:
        return None
    if _is_read_within(found, text, name) or not has_lines(found.site, found.site.statement):
        return None
    site, call = found.site, found.call
    if found.argument and site.function not in [one for key, one in named_functions(text) if key == name]:
        return None  # what another function is given is not at hand after the call
    new = free("added", identifiers([tree]))
    lines = text.split("\n")
    pad = " " * site.statement.col_offset
    beside = "self" if found.attribute else found.key
    lines[site.statement.lineno - 1 : site.statement.lineno] = [
        f"{pad}if {site.torch}.compiler.is_compiling():",
        f"{pad}    {new}.append({f'({beside}, {found.kept})' if beside else found.kept})",
        f"{pad}else:",
        f"{pad}    {site.source(call)}",
    ]
    there = identifiers(one for key, one in named_functions(text) if key == name)
    value, owner = free("value", there), free("owner", there)
    each, adding = value, site.source(found.owner)
    if found.attribute:
        each, adding = f"{owner}, {value}", f"{owner}.{found.attribute}"
    elif found.key:
        at = free("at", there)
        keys = [n for n in ast.walk(found.owner) if isinstance(n, ast.Name) and n.id == found.key]
        each, adding = f"{at}, {value}", site.source(found.owner, [(n, at) for n in keys])
    made = found.made.replace("value", value)
    new_text = with_list("\n".join(lines), site.statement.lineno, new)
    taken = free("taken", there)
    return new_text, [taking(new, taken), f"for {each} in {taken}:", f"    {adding}.{called(call)}({made})"]


def taking(name: str, taken: str) -> str:
    """Return a line that takes out of a list what is in it, before anything is done with that, which may raise."""
    return f"{taken}, {name}[:] = {name}[:], []"


def with_list(text: str, line: int, name: str, *more: str) -> str:
    """Return a text with an empty list of the module's above the statement around a line, and more lines after it."""
    return above(text, line, [f"{name} = []  # of one call: compiled code finds it empty", "", "", *more])


def above(text: str, line: int, new: Sequence[str]) -> str:
    """Return a text with new lines above the statement of the module's around a line."""
    tree, lines = parsed(text), text.split("\n")
    top = next((one for one in tree.body if one.lineno <= line <= (one.end_lineno or 0)), None) if tree else None
    first = first_line(top) if top else 1
    while lines[first - 2].startswith("#") and first > 1:  # a comment on what follows
        first -= 1
    return "\n".join([*lines[: first - 1], *new, *lines[first - 1 :]])
