"""The end of a function stays Python: what asks for values, and computes little, runs after what is compiled.

A graph break near the end of what torch.compile was given leaves a few ops after it, which cost more than they gain: a
check of the loss, a metric, a list of numbers. The statements stay in their order, so nothing is computed otherwise;
what they compute of tensors in any case is computed before them (`beforehand`).

Of a function whose graph breaks in a loop torch compiles nothing, but what it calls, by itself. There the end begins
with the loop, and may call modules, for which nothing changes: what stands above the loop is compiled.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import OF_TENSORS, Function, called, calls_in, dotted, parameters
from compiler_lens.facts.measured.beforehand import OF_DISTRIBUTIONS, beforehand, has_distributions
from compiler_lens.facts.measured.bookkeeping import MARK, brought, is_borrowed, may_be_two, surely_stored
from compiler_lens.facts.measured.called import function_named, qualified
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.reached import is_taken
from compiler_lens.facts.measured.training import is_effect, training_end, training_head
from compiler_lens.recording.source_text import LOOPS

_MOST = 12  # calls and operators in an end: more than that is no check, and worth a graph
_HEAVY = frozenset({"addmm", "bmm", "conv1d", "conv2d", "conv3d", "einsum", "linear", "matmul", "mm",
                    "scaled_dot_product_attention"})  # fmt: skip
# What a light end may call: functions of these, and methods that tensors, lists and texts have.
_OF = frozenset({"torch", "F", "np", "numpy", "math", "random", "time", "logging", "warnings", "log", "logger",
                 "LOGGER", "LOG"})  # fmt: skip
_METHODS = OF_TENSORS | {"append", "bool", "cpu", "dim", "double", "float", "format", "half", "int", "numpy", "round",
                          "size", "to", "tolist", "unbind"}  # fmt: skip
# What takes the values of a tensor one by one, in a loop, and keeps them: it computes nothing.
_TAKING = frozenset({"append", "appendleft", "add", "bool", "float", "int", "item", "len", "print", "round", "str",
                     "tolist"})  # fmt: skip


class Ending(Struct, frozen=True):
    """A function in two."""

    site: Site
    function: ast.FunctionDef
    text: Sequence[ast.stmt]  # its docstring
    head: Sequence[ast.stmt]  # what stays Python before the core: of a training step alone
    core: Sequence[ast.stmt]
    end: Sequence[ast.stmt]
    outputs: Sequence[str]  # what the end reads of the core
    moved: Mapping[ast.expr, str]  # what the end computes in any case, and the name of what the core computes for it
    has_layers: bool = False  # it begins with a loop over modules, each of which is compiled by itself
    is_training: bool = False  # it begins with the backward pass, or where gradients are set to zero for it
    is_given_apart: bool = False  # the end's first call got a line above it, for what is computed for it

    @property
    def lines(self) -> range:
        """The lines that stay Python, or in which something does, as the file has them."""
        first, last = self.end[0].lineno, self.function.end_lineno or self.function.lineno
        return range(first - self.is_given_apart, last + 1 - self.is_given_apart)

    def calls(self, name: str) -> bool:
        """Return whether the first statement of the end calls a function, by its qualified name."""
        owner, _, last = name.rpartition(".")
        return any(dotted(call.func) == (f"self.{last}" if owner else last) for call in calls_in(self.end[0]))


def ending(text: str, name: str, code: str) -> Ending | None:
    """Return a function, by its qualified name, that ends with the statement in which a line stands.

    What that statement computes for a function that it calls first stands above it then: `return pick(net(x), n)`.
    None where the line stands there more than once, the end is no light one, or the text does not show what it reads.
    """
    if (found := _ending(text, name, code)) is not None:
        return found
    apart = _with_argument_apart(text, name, code)
    found = _ending(*apart) if apart else None
    return replace(found, is_given_apart=True) if found else None


def _ending(text: str, name: str, code: str) -> Ending | None:
    tree = parsed(text)
    function = function_named(tree, name) if tree else None
    if tree is None or not isinstance(function, ast.FunctionDef) or not may_be_two(function):
        return None
    if any(isinstance(n, ast.Lambda) for n in _nodes(function.body)):
        return None
    lines, body = text.split("\n"), function.body
    with_it = [n for n, one in enumerate(body) if any(line.strip() == code for line in lines[_span(one)])]
    site = site_in(text, body[0].lineno)
    if site is None or not site.has_torch_at_top or len(with_it) != 1:
        return None
    loop, functions = _loop_around(body[with_it[0]], code, lines), _known(tree, name)
    begins = _begins(body, _first(function), with_it[0])
    if with_it[0] == training_end(body):
        begins = [with_it[0]]
    found = (_parted(site, function, begin, loop, functions) for begin in begins)
    return next((one for one in found if one is not None), None)


def training_begins(text: str, name: str) -> str:
    """Return the line with which the end of a training step begins; empty where a function has no such end."""
    tree = parsed(text)
    function = function_named(tree, name) if tree else None
    number = training_end(function.body) if function else None
    return text.split("\n")[function.body[number].lineno - 1].strip() if function and number is not None else ""


def _first(function: ast.FunctionDef) -> int:
    """Return which statement comes after the docstring."""
    return int(ast.get_docstring(function, clean=False) is not None)


def _begins(body: Sequence[ast.stmt], first: int, last: int) -> Iterable[int]:
    """Return where an end may begin: with the numbers of tensors that are taken right above it, or without them."""
    above = last
    while above - 1 > first and _takes_number(body[above - 1]):
        above -= 1
    return dict.fromkeys((above, last))


def _loop_around(one: ast.stmt, code: str, lines: Sequence[str]) -> ast.For | None:
    """Return a statement if it is a loop, and a line stands in its body: of its function nothing is compiled then."""
    inside = isinstance(one, ast.For) and any(code == line.strip() for part in one.body for line in lines[_span(part)])
    return one if inside and isinstance(one, ast.For) else None


def _takes_number(one: ast.stmt) -> bool:
    match one:
        case ast.Assign(targets=[ast.Name()], value=value):
            return any(called(call) in {"item", "tolist"} for call in calls_in(value))
    return False


def _parted(
    site: Site, function: ast.FunctionDef, begin: int, loop: ast.For | None, functions: Mapping[str, Function]
) -> Ending | None:
    """Return a function with an end that begins with one of its statements; None where that is no light one."""
    first, is_training = _first(function), begin == training_end(function.body)
    begins = first + (training_head(function.body[first:begin]) if is_training else 0)
    head, core, end = function.body[first:begins], function.body[begins:begin], function.body[begin:]
    if not core or any(isinstance(n, ast.Return) for n in _nodes(core)):
        return None
    known = surely_stored(core) | set(parameters(function))
    moved = _named(function, beforehand(site, end, known))
    inside = {n for one in moved for n in ast.walk(one)}
    rest = [n for n in _nodes(end) if n not in inside]
    effects = {n for n in rest if is_training and is_effect(n)}
    layers = {n for n in rest if isinstance(n, ast.Call) and _is_of_layer(n, loop)} if loop else frozenset[ast.AST]()
    if not _is_light([n for n in rest if n not in layers | effects and n is not loop], site.text, functions):
        return None
    read = _names(rest, ast.Load)
    outputs = [n for n in _names(_nodes(core), ast.Store) if n in read]
    if not (outputs or moved) or not set(outputs) <= known:
        return None
    text = function.body[:first]
    return Ending(site, function, text, head, core, end, outputs, moved, bool(layers), is_training)


def _named(function: ast.FunctionDef, found: Iterable[ast.expr]) -> Mapping[ast.expr, str]:
    used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | set(parameters(function))
    free = (name for name in ("kept", *(f"kept_{n}" for n in range(2, 99))) if name not in used)
    return dict(zip(found, free, strict=False))


def _with_argument_apart(text: str, name: str, code: str) -> tuple[str, str, str] | None:
    """Return a text in which a call's first argument, which is computed first, has a line of its own, and the call's.

    None where the line is no statement of the function, or does more before it computes that.
    """
    tree = parsed(text)
    function = function_named(tree, name) if tree else None
    lines = text.split("\n")
    body = function.body if isinstance(function, ast.FunctionDef) else []
    there = [one for one in body if lines[one.lineno - 1].strip() == code and one.lineno == one.end_lineno]
    called_first = _called_first(there[0]) if len(there) == 1 else None
    known = _known(tree, name) if tree else {}
    match called_first:
        case ast.Call(func=other, args=[ast.Call() | ast.Subscript() | ast.BinOp() as first, *_]) if calls_in(first):
            callee = known.get(dotted(other))
        case _:
            return None
    if callee is None:
        return None
    site = site_in(text, there[0].lineno)
    if site is None:
        return None
    taken = [one for one in parameters(callee) if one != "self"]
    new = site.free((*taken, "computed")[0])
    rest = site.lines([(first, new)])[0]
    pad = " " * there[0].col_offset
    above, below = lines[: there[0].lineno - 1], lines[there[0].lineno :]
    return "\n".join([*above, f"{pad}{new} = {site.source(first)}", f"{pad}{rest}", *below]), name, rest.strip()


def _called_first(node: ast.stmt) -> ast.expr | None:
    """Return the call that is all of a statement but a `return`, or a name that it is given."""
    match node:
        case ast.Return(value=value) | ast.Expr(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            return value
    return None


def with_ending(text: str, name: str, code: str) -> str | None:
    """Return a text in which the end of a function stays Python; None where that cannot be done, or is done."""
    found = ending(text, name, code) if "\r" not in text else None
    if found is None:
        return None
    site, function, inner = found.site, found.function, f"{found.function.name}{INNER}"
    own = parameters(function)
    in_class = own[:1] == ("self",)
    if is_taken(text, inner, name) or is_borrowed(text, function.name) or in_class != ("." in name):
        return None
    lines = site.text.split("\n")
    used = {*_names([*_nodes(found.core), *_nodes(found.moved)], ast.Load), *found.outputs}
    given = ", ".join(one for one in own if one in used and not (in_class and one == "self"))
    pad, deep = " " * function.col_offset, " " * function.body[0].col_offset
    given_inside = ", ".join(filter(None, ("self" if in_class else "", given)))
    makes, last = ", ".join((*found.outputs, *found.moved.values())), found.core[-1].end_lineno or 0
    above = [*found.text, *found.head]
    begin = (above[-1].end_lineno if above else None) or function.body[0].lineno - 1
    outer = [
        *lines[function.lineno - 1 : begin],
        f"{deep}{makes} = {'self.' if in_class else ''}{inner}({given})",
        *_edited(found, lines)[last - function.lineno + 1 :],
    ]
    computed = [f"{deep}{new} = {site.source(node)}" for node, new in found.moved.items()]
    core = [f"{pad}def {inner}({given_inside}):", *lines[begin:last], *computed, f"{deep}return {makes}"]
    apart = [""] if function.col_offset else ["", ""]
    before, after = lines[: function.lineno - 1], lines[function.end_lineno or 0 :]
    return "\n".join([*before, f"{pad}@{site.torch}.{MARK}", *outer, *apart, *core, *after])


def _edited(found: Ending, lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the function, in which its end has the names of what is computed before."""
    function = found.function
    last = lines[(function.end_lineno or 0) - 1].encode()[function.end_col_offset or 0 :].decode()  # a comment
    text = found.site.edited(function, tuple(found.moved.items()))
    return f"{' ' * function.col_offset}{text}{last}".split("\n")


def _span(one: ast.stmt) -> slice:
    return slice(one.lineno - 1, one.end_lineno)


def _known(tree: ast.Module, name: str) -> Mapping[str, Function]:
    """Return the functions that one of a file may call, as it writes them: `pick`, and `self.pick` of its class.

    No method is among them that calls more of its object than methods: that may be a layer.
    """
    owner = f"{name.rpartition('.')[0]}."
    found = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    own = {f"self.{key.removeprefix(owner)}": one for key, one in qualified(tree).items() if key.startswith(owner)}
    if owner == ".":
        return found
    return found | {key: one for key, one in own.items() if _called_of_self(one) <= own.keys()}


def _called_of_self(function: Function) -> frozenset[str]:
    names = (dotted(call.func) for call in calls_in(function))
    return frozenset(name for name in names if name.startswith("self."))


def _is_light(end: Sequence[ast.AST], text: str, functions: Mapping[str, Function]) -> bool:
    """Return whether statements, by all their nodes, compute little, as far as the text shows: no module is called."""
    methods = _METHODS | (OF_DISTRIBUTIONS if has_distributions(text) else frozenset())
    calls = [n for n in end if isinstance(n, ast.Call)]
    is_known = all(_is_known(call, {*functions, *vars(builtins)}, methods) for call in calls)
    is_short = len(calls) + sum(isinstance(n, ast.BinOp) for n in end) <= _MOST
    is_heavy = any(called(call) in _HEAVY for call in calls) or any(isinstance(n, ast.MatMult) for n in end)
    return is_known and is_short and not is_heavy and all(_is_taking(n) for n in end if isinstance(n, LOOPS))


def _is_of_layer(call: ast.Call, loop: ast.For) -> bool:
    """Return whether a call is of a module, by its text: of the object's, or of what a loop is over."""
    is_own = isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "self"
    return is_own or dotted(call.func) in _names(ast.walk(loop.target), ast.Store)


def _is_taking(loop: ast.AST) -> bool:
    """Return whether a loop goes over values one by one, and calls nothing but what keeps, counts or says them.

    What Python does with the numbers of a tensor breaks a graph in any case.
    """
    if not isinstance(loop, ast.For):
        return False
    is_over_numbers = any(called(call) == "tolist" for call in calls_in(loop.iter))
    calls = [call for one in (*loop.body, *loop.orelse) for call in calls_in(one)]
    return all(called(call) in _TAKING for call in (calls if is_over_numbers else calls_in(loop)))


def _is_known(call: ast.Call, functions: AbstractSet[str], methods: AbstractSet[str]) -> bool:
    if dotted(call.func) in functions:
        return True
    match call.func:
        case ast.Attribute(attr=name):
            return name in methods or dotted(call.func).partition(".")[0] in _OF
    return False


def _nodes(every: Iterable[ast.AST]) -> Iterator[ast.AST]:
    return (n for one in every for n in ast.walk(one))


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> Sequence[str]:
    """Return the names that are read, or written, once each; a name that is added to is both."""
    found: dict[str, None] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, context):
            found[node.id] = None
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = None
        elif context is ast.Store:
            found.update(dict.fromkeys(brought([node])))
    return tuple(found)
