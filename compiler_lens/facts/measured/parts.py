"""A function in parts: the statements that break its graph stay Python, what stands between them is compiled.

The last of all offers. Torch divides a function at each graph break itself, but not where the break is in a loop or in
a `with`, and not any more once the function was compiled too often: then nothing of it is compiled. Divided by hand,
each part is one graph, and has a limit of its own. The statements stay in their order.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from itertools import count, islice

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, parameters
from compiler_lens.facts.measured.arguments import with_arguments
from compiler_lens.facts.measured.bookkeeping import (
    MARK,
    is_borrowed,
    is_of_numbers,
    loaded,
    may_be_two,
    stored,
    surely_stored,
)
from compiler_lens.facts.measured.called import function_named, qualified
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.live import needed
from compiler_lens.facts.measured.loops import grows, with_rounds
from compiler_lens.facts.measured.reached import free, identifiers

_LEAST, _LEAST_OF_ROUND = 2, 4  # calls and operators in a part: less is no graph's worth, but a layer by itself is
# What computes nothing of a tensor, or is no part of a graph.
_NO_GRAPH = frozenset({"append", "backward", "cpu", "detach", "dict", "enumerate", "extend", "float", "get", "heapify",
                       "heappop", "heappush", "heappushpop", "heapreplace", "int",
                       "isinstance", "item", "items", "keys", "len", "list", "max", "min", "next", "print", "range",
                       "round", "set", "size", "step", "str", "tolist", "tuple", "update", "values", "zero_grad",
                       "zip"})  # fmt: skip

# What makes a tensor of numbers that are known: by itself it is no graph's worth.
_FILLS = frozenset({"arange", "clone", "empty", "empty_like", "eye", "full", "full_like", "new_empty", "new_full",
                    "new_ones", "new_zeros", "ones", "ones_like", "tensor", "zeros", "zeros_like"})  # fmt: skip

_COMPILE = "torch.compile"
_NN = frozenset({"nn", "torch.nn"})
_LISTS = frozenset({"ModuleDict", "ModuleList", "Sequential"})
_CONTEXTS = frozenset({"enable_grad", "inference_mode", "no_grad"})
_PYTHON = "_python"  # after the name of what runs within one of these
# What goes through a generator before it returns.
_AT_ONCE = frozenset({"ModuleList", "Sequential", "all", "any", "dict", "extend", "frozenset", "join", "list", "max",
                      "min", "set", "sorted", "sum", "tuple", "update"})  # fmt: skip
_OF_NAMES = frozenset({"dir", "eval", "exec", "locals", "vars"})  # what sees the names of its function


class Part(Struct, frozen=True):
    """Statements that become a function."""

    statements: Sequence[ast.stmt]
    given: Sequence[str]  # what they read
    makes: Sequence[str]  # what is read after them
    returns: bool  # the last one is the function's own `return`

    @property
    def pad(self) -> str:
        """What its lines begin with."""
        return " " * self.statements[0].col_offset


class _Block(Struct, frozen=True):
    """Statements of a function that run one after the other."""

    body: Sequence[ast.stmt]
    before: AbstractSet[str]  # names that have a value where it begins
    may: AbstractSet[str]  # names that may have one
    after: AbstractSet[str]  # names that are read once it has ended, or in another round
    left: AbstractSet[str] = frozenset()  # names that are read where a round is left early, by `break` or `continue`
    is_round: bool = False  # of a loop

    def read_after(self, at: int) -> AbstractSet[str]:
        """Return the names that may be read after the first statements of it."""
        rest = self.body[at:]
        return needed(rest, self.after) | (self.left if any(map(_leaves_round, rest)) else frozenset())


class _Known(Struct, frozen=True):
    """What is known of a function that is divided."""

    written: Sequence[str]  # lines of its file
    kept: Collection[str]  # those that stay, without blanks around
    own: AbstractSet[str]  # functions that are compiled where they are called
    layers: AbstractSet[str]  # names of torch's own modules that its loops go through
    shared: AbstractSet[str]  # names of the module that it gives a value to
    is_method: bool
    indent: int  # of the function's own statements
    parameters: Sequence[str]

    def breaks(self, one: ast.stmt) -> bool:
        """Whether one of the lines that stay stands in a statement."""
        return any(self.written[n].strip() in self.kept for n in range(one.lineno - 1, _end(one)))

    def has_own_lines(self, statements: Sequence[ast.stmt]) -> bool:
        """Whether statements can be moved by whole lines, further to the left."""
        pad = " " * statements[0].col_offset
        texts = [n for one in statements for n in ast.walk(one) if isinstance(n, (ast.JoinedStr, ast.Constant))]
        if any(n.lineno != n.end_lineno for n in texts):
            return len(pad) <= self.indent
        lines = self.written[statements[0].lineno - 1 : _end(statements[-1])]
        return lines[0].startswith(pad) and all(not line.strip() or line.startswith(pad) for line in lines)


class InParts(Struct, frozen=True):
    """A function, and its parts."""

    site: Site
    function: ast.FunctionDef
    parts: Sequence[Part]
    names: Sequence[str]  # of the functions that the parts become
    context: ast.expr | None = None  # the mark that has all of it run without gradients
    inner: str = ""  # with that mark, the name of what runs within it

    @property
    def is_method(self) -> bool:
        """Whether it is one."""
        return _is_method(self.function)

    @property
    def is_given(self) -> bool:
        """Whether it has a mark that gives it to `torch.compile`."""
        marks = (one.func if isinstance(one, ast.Call) else one for one in self.function.decorator_list)
        return any(dotted(mark) == _COMPILE for mark in marks)

    @property
    def of(self) -> str:
        """What its parts are called by."""
        return "self." if self.is_method else ""

    @property
    def pad(self) -> str:
        """What its first line begins with."""
        return " " * self.function.col_offset

    @property
    def deep(self) -> str:
        """What the lines of its body begin with."""
        return " " * self.function.body[0].col_offset

    @property
    def blank(self) -> Sequence[str]:
        """What stands between two functions."""
        return [""] if self.function.col_offset else ["", ""]


def in_parts(text: str, name: str, lines: Collection[str], others: AbstractSet[str] = frozenset()) -> InParts | None:
    """Return a function, by its qualified name, in parts, of which none has one of some lines.

    There may be no part at all: then all of it stays Python. None where it cannot be divided. `others` are names that
    no part may have, beside those of the text.
    """
    named = with_arguments(text, name, lines, _NO_GRAPH)
    found = _with_rounds_in_parts(named.text, name, named.staying, others) if named.names else None
    if found is not None and named.names <= {made for part in found.parts for made in part.makes}:
        return found
    return _with_rounds_in_parts(text, name, lines, others)


def _with_rounds_in_parts(text: str, name: str, lines: Collection[str], others: AbstractSet[str]) -> InParts | None:
    rounds, kept = with_rounds(text, name, lines)
    if rounds != text:
        found = _in_parts(rounds, name, kept, others)
        if found is not None and any(part.pad > found.deep for part in found.parts):
            return found
    return _in_parts(text, name, lines, others)


def _in_parts(text: str, name: str, kept: Collection[str], others: AbstractSet[str]) -> InParts | None:
    """Return a function in parts, with its text as it is."""
    tree = parsed(text) if "\r" not in text else None
    function = function_named(tree, name) if tree else None
    context = _context(function) if isinstance(function, ast.FunctionDef) else None
    if tree is None or not isinstance(function, ast.FunctionDef) or not _is_divisible(function, context):
        return None
    if is_borrowed(text, function.name) or _is_method(function) != ("." in name):
        return None
    nodes = [n for one in function.body for n in ast.walk(one)]
    if _computes_later(nodes) or any(dotted(n.func) in _OF_NAMES for n in nodes if isinstance(n, ast.Call)):
        return None
    site = site_in(text, function.body[0].lineno)
    if site is None or not site.has_torch_at_top or "self" in stored(function.body):
        return None
    body = function.body[int(ast.get_docstring(function, clean=False) is not None) :]
    known = _Known(text.split("\n"), kept, _own(tree, name), _layers(tree, name, nodes), _globals(body),
                   _is_method(function), body[0].col_offset, parameters(function))  # fmt: skip
    if not any(known.breaks(one) for one in body):
        return None
    begin = frozenset(parameters(function)) - known.shared
    parts = list(_parts(_Block(body, begin, begin, frozenset()), known))
    names = list(islice(_free_names(tree, function.name, others), len(parts)))
    within = free(f"{function.name}{_PYTHON}", identifiers([tree])) if context else ""
    return InParts(site, function, parts, names, context, within)


def _is_method(function: ast.FunctionDef) -> bool:
    return parameters(function)[:1] == ("self",)


def _computes_later(nodes: Sequence[ast.AST]) -> bool:
    """Whether something is computed with what names stand for then: by a function, or a generator that is kept."""
    calls = (n for n in nodes if isinstance(n, ast.Call) and called(n) in _AT_ONCE)
    at_once = {argument for call in calls for argument in call.args}
    return any(isinstance(n, ast.Lambda) or (isinstance(n, ast.GeneratorExp) and n not in at_once) for n in nodes)


def _context(function: ast.FunctionDef) -> ast.expr | None:
    """Return the innermost mark of a function if it is `torch.no_grad()` or one like it: torch's wrapper is not ours.

    That has one code for all functions that it wraps, and what is told of this code holds for all of them.
    """
    match function.decorator_list[-1:]:
        case [ast.Call(func=func, args=[], keywords=[]) as mark] if called(mark) in _CONTEXTS and dotted(func):
            return mark
    return None


def _is_divisible(function: ast.FunctionDef, context: ast.expr | None) -> bool:
    other = copy(function)
    other.decorator_list = [one for one in function.decorator_list if one is not context]
    return may_be_two(other, also=(ast.Global,))


def _free_names(tree: ast.Module, name: str, others: AbstractSet[str]) -> Iterator[str]:
    base, used = name.partition(INNER)[0], identifiers([tree]) | others
    every = (f"{base}{INNER}{f'_{number}' if number > 1 else ''}" for number in count(1))
    return (one for one in every if one not in used)


def _globals(body: Sequence[ast.stmt]) -> AbstractSet[str]:
    return {name for one in body for n in ast.walk(one) if isinstance(n, ast.Global) for name in n.names}


def _own(tree: ast.Module, name: str) -> AbstractSet[str]:
    """Return the functions of a file as one of them calls them: torch compiles each by itself where it is called.

    Layers are no such: torch compiles its own modules only as a part of what calls them.
    """
    owner = f"{name.rpartition('.')[0]}."
    methods = (key.removeprefix(owner) for key in qualified(tree) if key.startswith(owner))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)} | {f"self.{one}" for one in methods}


def _layers(tree: ast.Module, name: str, nodes: Iterable[ast.AST]) -> AbstractSet[str]:
    """Return the names by which the loops of a method go through lists of torch's own modules."""
    owner = name.rpartition(".")[0]
    classes = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == owner]
    lists = {attribute for one in classes for attribute in _lists_of_layers(one)}
    loops = [n for n in nodes if isinstance(n, ast.For)]
    over = [loop for loop in loops if any(dotted(n) in lists for n in ast.walk(loop.iter))]
    return {target for loop in over for target in stored([loop.target])}


def _lists_of_layers(owner: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes of a class that begin as a list of torch's own modules, such as `self.blocks`."""
    for one in ast.walk(owner):
        match one:
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.Call() as made) if called(made) in _LISTS:
                inner = [call for argument in made.args for call in calls_in(argument)]
                if any(dotted(call.func).rpartition(".")[0] in _NN for call in inner):
                    yield dotted(target)


def _end(one: ast.stmt | ast.expr) -> int:
    return one.end_lineno or one.lineno


def _parts(block: _Block, known: _Known) -> Iterator[Part]:
    """Yield what can be compiled of a block: what stands between the statements that stay, and within these."""
    body, first = block.body, 0
    for at, one in enumerate((*body, None)):
        if one is not None and not _stays(one, block, known):
            continue
        begin, end = _without_plain(body, first, at)
        part = _part(block, begin, end, known) if _is_worth(body[begin:end], block, known) else None
        if part is not None:
            yield part
        if one is not None:
            yield from (part for inner in _blocks(block, at) for part in _parts(inner, known))
        first = at + 1


def _stays(one: ast.stmt, block: _Block, known: _Known) -> bool:
    """Whether a statement is Python: it breaks graphs, or leaves its block, or grows what each round has more of."""
    is_other = known.written[one.lineno - 1][one.col_offset :].startswith("elif")
    shares = bool(stored([one]) & known.shared or _globals([one]))
    return is_other or shares or known.breaks(one) or _may_leave(one) or (block.is_round and grows(one))


def _blocks(block: _Block, at: int) -> Iterator[_Block]:
    """Yield the blocks of a statement of a block that have lines of their own."""
    one = block.body[at]
    before = block.before | surely_stored(block.body[:at])
    may = block.may | stored(block.body[: at + 1])
    after = block.read_after(at + 1)
    match one:
        case ast.For(target=target, body=body):
            targets = stored([target])
            again = (needed(body) - targets) | needed(one.orelse, after) | after
            yield _Block(body, before | targets, may, again, again, is_round=True)
        case ast.While(test=test, body=body):
            again = needed(body) | loaded([test]) | needed(one.orelse, after) | after
            yield _Block(body, before, may, again, again, is_round=True)
        case ast.If():
            for body in (one.body, one.orelse):
                yield replace(block, body=body, before=before, may=may, after=after)
        case ast.With():
            names = stored(filter(None, (item.optional_vars for item in one.items)))
            yield replace(block, body=one.body, before=before | names, may=may, after=after)


def _without_plain(body: Sequence[ast.stmt], first: int, last: int) -> tuple[int, int]:
    """Return where a part begins and ends without counters before and after it: compiled, each count is another one."""
    while first < last and _is_plain(body[first]):
        first += 1
    while first < last and _is_plain(body[last - 1]):
        last -= 1
    return first, last


def _is_plain(one: ast.stmt) -> bool:
    """Whether a statement counts, or begins with a number or an empty list: nothing of that is a tensor."""
    match one:
        case ast.AugAssign(target=ast.Attribute() | ast.Subscript(value=ast.Attribute()), value=ast.Constant()):
            return True
        case ast.AugAssign(target=ast.Name(), value=ast.Constant(value=int())):
            return True
        case ast.Assign(value=value):
            return is_of_numbers(one) or not any(isinstance(n, (ast.Name, ast.Call)) for n in ast.walk(value))
    return False


def _may_leave(one: ast.stmt) -> bool:
    """Whether a statement may end its function, or a round, from within: what calls a part would have to, too."""
    if isinstance(one, ast.Return):
        return False
    return any(isinstance(n, ast.Return) for n in ast.walk(one)) or _leaves_round(one)


def _leaves_round(one: ast.stmt) -> bool:
    """Whether a statement may end a round of a loop that it stands in."""
    nodes = list(ast.walk(one))
    ends = [n for n in nodes if isinstance(n, (ast.Break, ast.Continue))]
    own = {n for loop in nodes if isinstance(loop, (ast.For, ast.While)) for one in loop.body for n in ast.walk(one)}
    return not own.issuperset(ends)


def _part(block: _Block, first: int, last: int, known: _Known) -> Part | None:
    """Return some statements of a block as a part; None where it does not show what they read and make."""
    statements, before = block.body[first:last], block.body[:first]
    if not known.has_own_lines(statements):
        return None
    values = (block.before | surely_stored(before)) - known.shared
    read, kept = needed(statements), surely_stored(statements)
    made = block.read_after(last) & stored(statements)
    if read & ((block.may | stored(before)) - values) or not made <= kept | values:
        return None
    passed = values - {"self"} if known.is_method else values
    given = (read | (made - kept)) & passed
    returns = isinstance(statements[-1], ast.Return)
    return Part(statements, _in_order(given, statements, known), _in_order(made, statements, known), returns)


def _in_order(names: AbstractSet[str], statements: Sequence[ast.stmt], known: _Known) -> list[str]:
    """Return names as somebody would write them: parameters first, as the function has them, then as they are met."""
    nodes = [n for one in statements for n in ast.walk(one) if isinstance(n, ast.Name)]
    met = (n.id for n in sorted(nodes, key=lambda n: (n.lineno, n.col_offset)))
    every = dict.fromkeys((*known.parameters, *met, *sorted(names)))
    return [name for name in every if name in names]


def _is_worth(statements: Sequence[ast.stmt], block: _Block, known: _Known) -> bool:
    """Whether statements compute enough for a graph, as far as the text shows."""
    statements = [one for one in statements if not _is_for_later(one)]
    calls = [call for one in statements for call in calls_in(one) if called(call) not in _NO_GRAPH]
    calls = [call for call in calls if dotted(call.func) not in known.own]
    told = [one.value for one in statements if isinstance(one, ast.Expr)]  # `self.cell.reset()`
    calls = [call for call in calls if call.args or call.keywords or call not in told]
    operators = [n for one in statements for n in ast.walk(one) if isinstance(n, (ast.BinOp, ast.Compare))]
    is_layer = any(call.args and _is_layer(call, known) for call in calls)
    least = _LEAST_OF_ROUND if block.is_round else _LEAST
    computes = bool(operators) or any(called(call) not in _FILLS for call in calls)
    return bool(calls) and (is_layer or (computes and len(calls) + len(operators) >= least))


def _is_layer(call: ast.Call, known: _Known) -> bool:
    name = dotted(call.func)
    return name.startswith("self.") or name in known.layers


def _is_for_later(one: ast.stmt) -> bool:
    """Whether a statement does something else where it is compiled: it only keeps what Python has to do."""
    return isinstance(one, ast.If) and any(called(call) == "is_compiling" for call in calls_in(one.test))


def with_parts(text: str, name: str, lines: Collection[str], others: AbstractSet[str] = frozenset()) -> str | None:
    """Return a text in which a function is in parts; None where that cannot be done: arguments as of `in_parts`."""
    found = in_parts(text, name, lines, others)
    if found is None:
        return None
    written, function, context = found.site.text.split("\n"), found.function, found.context
    mark, at = f"{found.pad}@{found.site.torch}.{MARK}", function.lineno - 1
    before, outer = written[:at], [mark]
    if context is not None:
        has_text = ast.get_docstring(function, clean=False) is not None
        at = _end(function.body[0]) if has_text else function.body[0].lineno - 1
        before = [*before[: context.lineno - 1], *before[_end(context) :]]
        outer = [mark, *written[function.lineno - 1 : at], *_within(found, context, mark)]
    for part, inner in zip(found.parts, found.names, strict=True):
        begin, end = part.statements[0].lineno - 1, _end(part.statements[-1])
        makes = "return " if part.returns else f"{', '.join(part.makes)} = " if part.makes else ""
        outer += [*written[at:begin], f"{part.pad}{makes}{found.of}{inner}({', '.join(part.given)})"]
        at = end
    after = written[_end(function) :]
    return "\n".join([*before, *outer, *written[at : _end(function)], *_definitions(found, written), *after])


def _within(found: InParts, context: ast.expr, mark: str) -> Iterator[str]:
    """Yield what calls a function within a context, and how that begins."""
    own = parameters(found.function)
    passed = ", ".join(own[found.is_method :])
    yield f"{found.deep}with {found.site.source(context)}:"
    yield f"{found.deep}    return {found.of}{found.inner}({passed})"
    yield from found.blank
    yield from (mark, f"{found.pad}def {found.inner}({', '.join(own)}):")


def _definitions(found: InParts, written: Sequence[str]) -> Iterator[str]:
    """Yield the functions that the parts become."""
    for part, inner in zip(found.parts, found.names, strict=True):
        yield from found.blank
        yield f"{found.pad}def {inner}({', '.join((*(('self',) if found.is_method else ()), *part.given))}):"
        deeper = len(part.pad) - len(found.deep)
        for line in written[part.statements[0].lineno - 1 : _end(part.statements[-1])]:
            yield line.removeprefix(" " * deeper)
        if part.makes and not part.returns:
            yield f"{found.deep}return {', '.join(part.makes)}"


def stays(found: InParts, text: str) -> AbstractSet[str]:
    """Return the lines that stay Python, without blanks around, as a text has them."""
    written = found.site.text.split("\n")
    body = range(found.function.body[0].lineno - 1, _end(found.function))
    inside = {n for part in found.parts for n in range(part.statements[0].lineno - 1, _end(part.statements[-1]))}
    had = {line.strip() for line in text.split("\n")}
    return {written[n].strip() for n in body if n not in inside} & had
