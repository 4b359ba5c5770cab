"""Both sides of a branch, computed by whatever functions they call, and a choice: for a trial to judge."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.assignments import OPERATORS, Assignment, does_more, is_guarded
from compiler_lens.facts.breaks.rewrites.branches import tensor_test
from compiler_lens.facts.breaks.rewrites.calls import said_by
from compiler_lens.facts.breaks.rewrites.groups import stays_in
from compiler_lens.facts.breaks.rewrites.masks import is_mask
from compiler_lens.facts.breaks.rewrites.nothing import any_of, is_on_a_count
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, indices, is_number, loads, pairs
from compiler_lens.recording.model import BreakCause

_PRICE = (
    "both sides are computed at each call: neither may raise, or have no finite gradient, where the other one is meant;"
    " a number that they change is a tensor from then on"
)
_UNSAID = "compiled code then runs without the message"
_MOST = 20  # statements
_ON_A_TENSOR = "TensorVariable"  # in what torch says of a jump: the test is one tensor, not a part of it
_OF_SOME = frozenset({"masked_select", "narrow", "nonzero", "topk", "unique"})
_IN_PLACE = frozenset({
    "add_", "addcdiv_", "addcmul_", "clamp_", "clamp_max_", "clamp_min_", "div_", "lerp_", "masked_fill_", "mul_",
    "neg_", "sub_",
})  # fmt: skip
_ONE_BY_ONE = frozenset({"mul_", "div_"})  # by 1 nothing


class _Side(Struct, frozen=True):
    """What one side of a branch assigns that is asked for after it."""

    lines: tuple[str, ...]
    names: dict[str, str]  # by the target's text: what holds it
    written: frozenset[str]  # those that are changed in place


def both_sides(site: Site, cause: BreakCause) -> Rewrite | None:  # noqa: PLR0911 -- one for each shape
    """Compute what is under `if test:`, and under its `else:`, at each call, and choose by torch.where."""
    branch = _branch(site)
    test = tensor_asked(site, cause, branch.test) if branch else ""
    if branch is None or not test:
        return None
    asked, body, orelse = branch.test, branch.body, branch.orelse
    if len(body) + len(orelse) > _MOST or any(map(_gives_none, (*body, *orelse))):
        return None
    if not orelse and (scaled := _scaled(site, body, test)):
        return scaled
    if not orelse and any(_takes_some(site, one) for one in body):
        return None
    values = [Assignment("", node) for one in (*body, *orelse) for node in ast.walk(one) if isinstance(node, ast.BinOp)]
    if is_guarded(site, asked, values, only_errors=True):
        return None
    first, second = _side(site, body, "if"), _side(site, orelse, "else")
    if first is None or second is None or not first.names:
        return None
    fits = first.names.keys() == second.names.keys() if orelse else all(_is_there(site, one) for one in first.names)
    if not fits or (not orelse and any(_is_none(site, one) for one in first.names)):
        return None
    asks = _named(site, asked)
    written = first.written | second.written
    chosen = [
        _kept(target, f"{site.torch}.where({asks}, {name}, {second.names.get(target, target)})", written)
        for target, name in first.names.items()
    ]
    return site.rewrite([f"{asks} = {test}", *first.lines, *second.lines, *chosen], _PRICE)


def _takes_some(site: Site, one: ast.stmt) -> bool:
    """Return whether a name is left a part of what it had, `x = x[keep]`: the sizes of the sides differ."""
    given = [pair for target in one.targets for pair in pairs(target, one.value)] if isinstance(one, ast.Assign) else []
    names = {dotted(target) for target, _ in given} - {""}
    parts = [
        n for _, value in given for n in ast.walk(value) if isinstance(n, ast.Subscript) and dotted(n.value) in names
    ]
    return any(_is_shorter(site, index) for part in parts for index in indices(part))


def _is_shorter(site: Site, index: ast.expr) -> bool:
    """Return whether an index may take fewer places than there are, of the dimension that it is for."""
    if isinstance(index, ast.Slice):
        return index.lower is not None or index.upper is not None
    own = site.function.body if site.function else []
    made = [
        n for one in own for n in ast.walk(one) if isinstance(n, ast.Assign) and dotted(index) in map(dotted, n.targets)
    ]
    return is_mask(site, index) or any(is_mask(site, one.value) for one in made)


def _gives_none(one: ast.stmt) -> bool:
    return isinstance(one, ast.Assign) and _is_constant_none(one.value)


def _is_constant_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_none(site: Site, name: str) -> bool:
    """Whether a name was set to None last before the statement: no value to choose."""
    nodes = list(ast.walk(site.function)) if site.function else []
    stores = (n for n in nodes if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Store))
    before = [n.lineno for n in stores if n.lineno < site.statement.lineno and dotted(n) == name]
    last = [n for n in nodes if isinstance(n, ast.Assign) and n.lineno == max(before, default=0)]
    given = (pair for one in last for target in one.targets for pair in pairs(target, one.value))
    return any(dotted(target) == name and _is_constant_none(value) for target, value in given)


def returned(site: Site, cause: BreakCause) -> Rewrite | None:  # noqa: PLR0911 -- one for each shape
    """Compute what follows `if test: return …` at each call, and keep it, or return it, where the test is false."""
    branch, following = _branch(site), site.following
    test = tensor_asked(site, cause, branch.test) if branch and not branch.orelse else ""
    match branch:
        case ast.If(body=[ast.Return(value=early)]) if test and following and len(following) <= _MOST:
            pass
        case _:
            return None
    if site.around or site.function is None or following[-1] is not site.function.body[-1]:
        return None
    *rest, last = following
    is_value = isinstance(last, ast.Return) and last.value is not None
    if is_value != (early is not None and ast.unparse(early) != "None"):
        return None
    values = (early, last.value if isinstance(last, ast.Return) else None)
    have_none = all(one is not None and syntax.has_no_dimensions(one) for one in values)
    if is_value and not (have_none or all(map(_keeps_size, (early, *following)))):
        return None  # one would be spread to the size of the other
    if not is_value and not isinstance(last, ast.Return):
        rest.append(last)
    said = [] if is_value else [one for one in rest if _says(site, one)]
    rest = [one for one in rest if one not in said]
    whole = _with_following(branch, following)
    # what the early return gives is what it was before the rest
    is_changed = early is not None and any(loads(early, name) for one in rest for name in syntax.stored(one))
    # where a value is returned, nobody reads a name after it
    side = _side(replace(site, statement=whole, following=()), rest, "else", is_last=is_value)
    if side is None or not (side.names or is_value):
        return None
    asks = _named(site, branch.test)
    chosen, first = _only_else(site, asks, side), ""
    if is_value and isinstance(last, ast.Return) and last.value is not None and early is not None:
        value = _finite(site, last.value, branch.test, asks, side.names)
        given, is_tuple = site.source(early), isinstance(early, ast.Tuple) or isinstance(last.value, ast.Tuple)
        if is_tuple or any(one.partition(" = ")[0] in given.split() for one in chosen):
            return None
        if is_changed:
            first, given = f"{site.free('early')} = {given}", site.free("early")
        chosen = [f"result = {site.torch}.where({asks}, {given}, {value})", *chosen, "return result"]
        chosen = [f"return {site.torch}.where({asks}, {given}, {value})"] if not side.names else chosen
    chosen += _said_in_eager(site, said, asks)
    price = f"{_PRICE}; {_UNSAID}" if said else _PRICE
    begin = [f"{asks} = {test}", first] if first else [f"{asks} = {test}"]
    return site.rewrite([*begin, *side.lines, *chosen], price, last=last)


def _finite(site: Site, value: ast.expr, test: ast.expr, asks: str, names: dict[str, str]) -> str:
    """Return a value that divides by nothing that a test asked for: where it is true, the gradient would be nan."""
    asked = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    changes = _by_names(value, names)
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            by = node.right
            if asked & {n.id for n in ast.walk(by) if isinstance(n, ast.Name)} and not is_number(by):
                inner = [(n, new) for n, new in changes if n in ast.walk(by)]
                changes = [(n, new) for n, new in changes if (n, new) not in inner]
                changes.append((by, f"{site.torch}.where({asks}, 1, {site.source(by, inner)})"))
    return site.source(value, changes)


def continued(site: Site, cause: BreakCause) -> Rewrite | None:
    """Compute what follows `if test: continue` in each round, and keep it where the test is false."""
    branch, following = _branch(site), site.following
    loop = site.around[-1] if site.around else None
    match branch, loop:
        case ast.If(body=[ast.Continue()], orelse=[]), ast.For(body=body) if branch in body and following:
            test = "" if is_on_a_count(cause) else tensor_asked(site, cause, branch.test)
        case _:
            return None
    if not test or len(following) > _MOST:
        return None
    whole = _with_following(branch, following)
    side = _side(replace(site, statement=whole, following=()), following, "else")
    if side is None or not side.names or not all(_is_there(site, one) for one in side.names):
        return None
    asks = _named(site, branch.test)
    return site.rewrite([f"{asks} = {test}", *side.lines, *_only_else(site, asks, side)], _PRICE, last=following[-1])


def _with_following(branch: ast.If, following: Sequence[ast.stmt]) -> ast.If:
    """Return a branch that leaves with what follows in it: names that stay there need no choice."""
    whole, last = ast.copy_location(ast.If(branch.test, [*branch.body, *following], []), branch), following[-1]
    whole.end_lineno, whole.end_col_offset = last.end_lineno, last.end_col_offset
    return whole


def _only_else(site: Site, asks: str, side: _Side) -> list[str]:
    """Return lines that keep what a side gives where a test is false, and else what was there."""
    return [
        _kept(target, f"{site.torch}.where({asks}, {target}, {name})", side.written)
        for target, name in side.names.items()
    ]


def _says(site: Site, statement: ast.stmt) -> bool:
    """Return whether a statement is a message, or messages that compiled code leaves out already."""
    match statement:
        case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as asked), body=body, orelse=[]):
            return called(asked) == "is_compiling" and all(said_by(site, one) for one in body)
    return bool(said_by(site, statement))


def _said_in_eager(site: Site, said: Sequence[ast.stmt], asks: str) -> Iterator[str]:
    """Yield lines with messages, which eager code says where it comes to them, as before."""
    if said:
        yield f"if not {site.torch}.compiler.is_compiling() and not {asks}:"
    for one in said:
        for message in one.body if isinstance(one, ast.If) else [one]:
            yield from (f"    {line}" for line in site.dedented(message))


def _keeps_size(node: ast.AST | None) -> bool:
    """Whether nothing in a value, or a statement, is a part of a tensor that has another size."""
    nodes = list(ast.walk(node)) if node is not None else []
    names = {called(one) for one in nodes if isinstance(one, ast.Call)}
    index = [one.slice for one in nodes if isinstance(one, ast.Subscript)]
    parts = [part for one in index for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
    whole = all(isinstance(one, ast.Constant) or ast.unparse(one) == ":" for one in parts)
    return whole and names.isdisjoint(_OF_SOME)


def _kept(target: str, value: str, written: Collection[str]) -> str:
    return f"{target}.copy_({value})" if target in written else f"{target} = {value}"


def _branch(site: Site) -> ast.If | None:
    """Return the statement where it is a branch that begins as one; None of an `elif`."""
    node = site.statement
    return node if isinstance(node, ast.If) and not site.edited(node).startswith("elif") else None


def needless(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Leave out `if m.any():` before what chooses by `m`: where that is nowhere true, all stays what it is."""
    branch = _branch(site)
    mask = any_of(site, branch.test) if branch and not branch.orelse else None
    if branch is None or mask is None or not all(_keeps(site, one, mask) for one in branch.body):
        return None
    lines = [line for one in branch.body for line in site.dedented(one)]
    return site.rewrite(lines, "what is computed for none is computed at each call, and its gradient is zeros then")


def _keeps(site: Site, one: ast.stmt, mask: ast.expr) -> bool:
    """Whether a statement changes nothing that is asked for after the branch, where a mask is nowhere true."""
    match one:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=of, attr="clone"))):
            return dotted(of) == name
        case ast.Assign(targets=[target], value=ast.Call(func=ast.Attribute(attr="where"), args=[chosen, _, kept])):
            owner = target.value if isinstance(target, ast.Subscript) else target
            is_kept = bool(dotted(owner)) and dotted(owner) == dotted(kept)
            return (is_kept and _is_of(site, chosen, mask)) or _is_inner(site, target)
        case ast.Assign(targets=[target]):
            return _is_inner(site, target)
    return False


def _is_inner(site: Site, target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and stays_in(site, site.statement, target.id)


def _is_of(site: Site, chosen: ast.expr, mask: ast.expr) -> bool:
    """Whether what chooses is a mask, or the same with more dimensions."""
    value = site.value_of(chosen.id) if isinstance(chosen, ast.Name) else None
    for one in (chosen, value):
        match one:
            case ast.Call(func=ast.Attribute(value=inner, attr="unsqueeze")) | ast.Subscript(value=inner):
                one = inner  # noqa: PLW2901 -- the same with more dimensions
        if one is not None and ast.dump(one) == ast.dump(mask):
            return True
    return False


def tensor_asked(site: Site, cause: BreakCause, asked: ast.expr) -> str:
    """Return a test as a bool tensor; empty where it is something else."""
    if is_on_a_count(cause):
        return _counted(site, asked)
    if test := tensor_test(site, cause, asked):
        return test
    is_one = _ON_A_TENSOR in cause.context and isinstance(asked, (ast.Name, ast.Subscript, ast.Attribute, ast.Call))
    return f"{site.atom(asked)}.bool()" if is_one else ""


def _counted(site: Site, asked: ast.expr) -> str:
    """Return a test of how many rows there are, of which torch knows none when it compiles, as a tensor."""
    match asked:
        case ast.Compare(left=left, ops=[_], comparators=[ast.Constant(value=int())]):
            return site.source(asked, [(left, f"{site.torch}.scalar_tensor({site.source(left)})")])
        case ast.Name() | ast.Call() | ast.Subscript():
            return f"{site.torch}.scalar_tensor({site.source(asked)}).bool()"
    return ""


def _scaled(site: Site, body: Sequence[ast.stmt], test: str) -> Rewrite | None:
    """Multiply by 1 where nothing is to be multiplied: `scale = …; for p in …: p.grad.mul_(scale)` under a branch."""
    match body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value), *rest] if rest:
            pass
        case _:
            return None
    if not all(_only_scales(one, name) for one in rest) or not stays_in(site, site.statement, name):
        return None
    factor = f"{name} = {site.torch}.where({test}, {site.source(value)}, 1.0)"
    lines = [line for one in rest for line in site.dedented(one)]
    return site.rewrite([factor, *lines], "what was not to be multiplied is multiplied by 1")


def reduced_sides(site: Site, cause: BreakCause) -> Rewrite | None:
    """Choose between what is made of two selections, where they are of other sizes: `loss[loss > t]`, or `loss[:n]`."""
    branch = _branch(site)
    test = tensor_asked(site, cause, branch.test) if branch else ""
    return _reduced(site, branch.body, branch.orelse, test) if branch and test else None


def _reduced(site: Site, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], test: str) -> Rewrite | None:
    match body, orelse:
        case [ast.Assign(targets=[ast.Name(id=name)], value=one)], [ast.Assign(targets=[target], value=other)]:
            if dotted(target) != name:
                return None
        case [ast.Assign(targets=[ast.Name(id=name) as target], value=one)], []:
            other = _loaded(target)
        case _:
            return None
    match site.following[:1]:
        case (ast.Return(value=ast.expr() as value) as last,):
            head = "return "
        case (ast.Assign(targets=[ast.Name() as made], value=value) as last,):
            head = f"{made.id} = "
        case _:
            return None
    reads, selections = loads(value, name), [n for n in (one, other) if isinstance(n, ast.Subscript)]
    later = [n for n in site.loads(name) if n.lineno > (last.end_lineno or 0)]
    if len(reads) != 1 or not selections or (later and head != f"{name} = ") or site.around:
        return None
    if not _may_reduce(site, reads[0], value):
        return None
    asks, first, second = site.free("chosen"), site.free(f"{name}_if"), site.free(f"{name}_else")
    lines = [
        f"{asks} = {test}",
        f"{first} = {site.source(value, [(reads[0], site.source(one))])}",
        f"{second} = {site.source(value, [(reads[0], site.source(other))])}",
        f"{head}{site.torch}.where({asks}, {first}, {second})",
    ]
    return site.rewrite(lines, _PRICE, last=last)


def _may_reduce(site: Site, read: ast.AST, whole: ast.AST) -> bool:
    """Return whether something that is called may make one size of any that a name has."""
    parents, node = site.parents(), read
    while node is not whole and node in parents:
        node = parents[node]
        if isinstance(node, ast.Call) and called(node) not in syntax.ELEMENTWISE:
            return True
    return False


def _only_scales(one: ast.stmt, name: str) -> bool:
    """Whether a statement changes something only as far as a number is not 1."""
    match one:
        case ast.For(body=body, orelse=[]):
            return not loads(one.iter, name) and all(_only_scales(inner, name) for inner in body)
        case ast.If(test=test, body=body, orelse=[]):
            return not loads(test, name) and all(_only_scales(inner, name) for inner in body)
        case ast.Expr(value=ast.Call(args=[by], keywords=[]) as call):
            return called(call) in _ONE_BY_ONE and _is_factor(by, name)
        case ast.AugAssign(op=ast.Mult() | ast.Div(), value=by):
            return _is_factor(by, name)
    return False


def _is_factor(by: ast.expr, name: str) -> bool:
    match by:
        case ast.Name(id=named):
            return named == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=named), attr="to")):
            return named == name
    return False


def _is_there(site: Site, target: str) -> bool:
    """Whether something has a value before the branch, as far as the text shows."""
    return not target.isidentifier() or site.defined_before(target)


def _named(site: Site, asked: ast.expr) -> str:
    mask = any_of(site, asked)
    match asked:
        case ast.Compare(left=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="sum")), ops=[ast.Eq()],
                         comparators=[ast.Constant(value=0)]):  # fmt: skip
            return site.free(f"no_{name}")
    return site.free(f"has_{mask.id}" if isinstance(mask, ast.Name) else "chosen")


class _Assigned(Struct, frozen=True):
    """What a statement assigns, or changes in place."""

    leaves: Sequence[ast.expr]
    parts: Sequence[ast.expr]  # of what it computes
    text: str  # of the value, with `{}` for each part
    is_in_place: bool = False

    @property
    def are_numbers(self) -> bool:
        """Whether each target is given a number."""
        return self.text == ", ".join(["{}"] * len(self.leaves)) and all(map(is_number, self.parts))


class _Names(Struct):
    """Names for what a side assigns, in the making."""

    suffix: str
    is_last: bool = False  # nothing of the function follows: names are as good as inner ones
    by_target: dict[str, str] = field(default_factory=dict)  # by the target's text: what holds it
    written: set[str] = field(default_factory=set)  # those that are changed in place


def _side(site: Site, body: Sequence[ast.stmt], suffix: str, *, is_last: bool = False) -> _Side | None:
    """Return a side's statements with names of their own for what is asked for after them."""
    names = _Names(suffix, is_last)
    lines = _lines(site, body, names)
    return None if lines is None else _Side(tuple(lines), names.by_target, frozenset(names.written))


def _lines(site: Site, body: Sequence[ast.stmt], names: _Names, *, always: bool = True) -> list[str] | None:
    """Return statements with names of their own for what they assign; `always` of those that no branch is around."""
    lines: list[str] = []
    for one in body:
        made = _branched(site, one, names) if isinstance(one, ast.If) else _line(site, one, names, always=always)
        if made is None:
            return None
        lines += made
    return lines


def _branched(site: Site, one: ast.If, names: _Names) -> list[str] | None:
    """Return a branch of Python's own, before which what it assigns has the value that it had."""
    before = dict(names.by_target)
    test = site.source(one.test, _by_names(one.test, before))
    body = _lines(site, one.body, names, always=False)
    orelse = _lines(site, one.orelse, names, always=False)
    new = [target for target in names.by_target if target not in before]
    if not body or orelse is None or any(map(does_more, syntax.calls_in(one.test))):
        return None
    if not all(_is_there(site, target) for target in new):
        return None
    other = ["else:", *(f"    {line}" for line in orelse)] if orelse else []
    begin = [f"{names.by_target[target]} = {target}" for target in new]
    return [*begin, f"if {test}:", *(f"    {line}" for line in body), *other]


def _line(site: Site, one: ast.stmt, names: _Names, *, always: bool) -> list[str] | None:
    """Return a statement that assigns with names of its own."""
    found, known = _assigned(site, one), names.by_target
    if found is None or any(map(does_more, (call for part in found.parts for call in syntax.calls_in(part)))):
        return None
    if (
        always and not names.is_last and found.are_numbers and not any(_is_inner(site, leaf) for leaf in found.leaves)
    ):  # these need no name
        known |= {site.source(x): site.source(part) for x, part in zip(found.leaves, found.parts, strict=True)}
        return []
    values = [site.source(part, _by_names(part, known)) for part in found.parts]
    targets = []
    for leaf in found.leaves:
        target = site.source(leaf)
        if not (_is_inner(site, leaf) or (names.is_last and isinstance(leaf, ast.Name))):
            if not _is_plain(leaf):
                return None
            if found.is_in_place:
                names.written.add(target)
            if not known.get(target, "").isidentifier():
                known[target] = site.free(f"{_word(target)}_{names.suffix}")
            target = known[target]
        targets.append(target)
    return [f"{', '.join(targets)} = {found.text.format(*values)}"]


def _assigned(site: Site, one: ast.stmt) -> _Assigned | None:  # noqa: PLR0911 -- one for each kind of statement
    match one:
        case ast.Assign(targets=[ast.Tuple(elts=leaves)], value=ast.Tuple(elts=values)) if len(leaves) == len(values):
            return _Assigned(leaves, values, ", ".join("{}" for _ in values))
        case ast.Assign(targets=[ast.Tuple(elts=leaves)], value=value):
            return _Assigned(leaves, [value], "{}")
        case ast.Assign(targets=[target], value=value):
            return _Assigned([target], [value], "{}")
        case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value) if type(op) in OPERATORS:
            if site.function is None or name in syntax.parameters(site.function):  # the caller's changes with it
                return None
            return _Assigned([target], [_loaded(target), value], _added(op, value))
        case ast.AugAssign(target=ast.Attribute() as target, op=op, value=value) if type(op) in OPERATORS:
            return _Assigned([target], [target, value], _added(op, value), is_in_place=_is_buffer(site, target))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=name)) as call) if dotted(target):
            return _in_place(site, target, name, call)
    return None


def _added(op: ast.operator, value: ast.expr) -> str:
    is_one = isinstance(value, (ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.Subscript))
    return f"{{}} {OPERATORS[type(op)]} {'{}' if is_one else '({})'}"


def _is_buffer(site: Site, target: ast.Attribute) -> bool:
    """Whether the file registers a buffer of an attribute's name: that is the same tensor before and after."""
    return any(f"register_buffer({quote}{target.attr}{quote}" in site.text for quote in "\"'")


def _loaded(target: ast.Name) -> ast.expr:
    return ast.copy_location(ast.Name(target.id, ast.Load()), target)


def _in_place(site: Site, target: ast.expr, name: str, call: ast.Call) -> _Assigned | None:
    """Return what `x.add_(1)` computes, in a new tensor."""
    args, torch = call.args, site.torch
    if name == "copy_" and len(args) == 1:
        return _Assigned([target], args, "{}", is_in_place=True)
    if name == "zero_" and not args:
        return _Assigned([target], [target], f"{torch}.zeros_like({{}})", is_in_place=True)
    if name == "fill_" and len(args) == 1:
        return _Assigned([target], [target, *args], f"{torch}.full_like({{}}, {{}})", is_in_place=True)
    if name not in _IN_PLACE or any(isinstance(one, ast.Starred) for one in args):
        return None
    words = [k for k in call.keywords if k.arg]
    given = ", ".join([*("{}" for _ in args), *(f"{k.arg}={{}}" for k in words)])
    return _Assigned(
        [target], [target, *args, *(k.value for k in words)], f"{{}}.{name[:-1]}({given})", is_in_place=True
    )


def _by_names(node: ast.AST, names: dict[str, str]) -> list[Change]:
    """Return the changes that read names of a side's own in place of what they hold."""
    return [(one, names[dotted(one)]) for one in _outermost(node, names)]


def _outermost(node: ast.AST, names: dict[str, str]) -> Iterator[ast.expr]:
    """Yield what is read of some names, by the text of each."""
    if isinstance(node, ast.expr) and dotted(node) in names:
        yield node
        return
    for inner in ast.iter_child_nodes(node):
        yield from _outermost(inner, names)


def _is_plain(leaf: ast.expr) -> bool:
    """Whether a target can be given a tensor: a name, an element, or an attribute."""
    match leaf:
        case ast.Name() | ast.Attribute() | ast.Subscript(value=ast.Name(), slice=ast.Constant()):
            return True
    return False


def _word(text: str) -> str:
    return "_".join("".join(c if c.isalnum() else " " for c in text.removeprefix("self.")).split())
