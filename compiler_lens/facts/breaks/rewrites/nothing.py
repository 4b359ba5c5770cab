"""Statements that do nothing where a mask is nowhere true, so that nobody need ask first."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import OfBothSides, Rewrite
from compiler_lens.facts.breaks.rewrites import memory, sides, syntax
from compiler_lens.facts.breaks.rewrites.assignments import Assignment, has_effect, is_repeatable
from compiler_lens.facts.breaks.rewrites.groups import ERRORS_OF_NONE, places_of, stays_in
from compiler_lens.facts.breaks.rewrites.masks import is_mask
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, is_number, loads, of_torch
from compiler_lens.recording.model import BreakCause

_COUNTED = "SymNodeVariable"  # in what torch says of a jump
_EVERY_TIME = "what is written there is computed every time"
_ADDING = frozenset({"index_add_", "index_copy_", "index_add", "index_copy"})


def left_out(site: Site, node: ast.If) -> Rewrite | None:
    """Leave out `if m.any():`, or `if not m.all():`, before what only writes where `m` is true, or is not."""
    mask = any_of(site, node.test)
    if mask is None or site.edited(node).startswith("elif"):
        return None
    needs = _of_nothing(site, node, node.body, mask)
    if needs is None:
        return None
    lines = [line for one in node.body for line in replace(site, statement=one).lines()]
    return site.rewrite(lines, needs)


def gone_on(site: Site, node: ast.If) -> Rewrite | None:
    """Leave out `if not m.any(): continue` in a loop, where what follows only writes where `m` is true."""
    loop = site.around[-1] if site.around else None
    mask = none_of(site, node.test)
    is_alone = len(node.body) == 1 and not node.orelse
    if mask is None or not is_alone or not isinstance(loop, (ast.For, ast.While)) or node not in loop.body:
        return None
    if not site.following:
        return None
    needs = _of_nothing(site, loop, site.following, mask)
    if needs is None:
        return None
    first = site.following[0]
    return site.rewrite(replace(site, statement=first).lines(), needs, last=first)


def gone_on_for_none(site: Site, cause: BreakCause) -> Rewrite | None:
    """Leave out `if rows.numel() == 0: continue` in a loop, where what follows only writes rows by these places."""
    loop, node = site.around[-1] if site.around else None, site.statement
    match node:
        case ast.If(test=test, body=[ast.Continue()], orelse=[]) if isinstance(loop, ast.For) and node in loop.body:
            rows = _counted(site, test) if is_on_a_count(cause) else ""
        case _:
            return None
    beside = (_names(one.targets[0]) for one in loop.body if isinstance(one, ast.Assign) and len(one.targets) == 1)
    places = next((names for names in beside if rows in names), set())
    if not places or not site.following:
        return None
    named = {ast.dump(ast.Name(name, ast.Load())) for name in places}
    if not _writes_chosen(site, loop, site.following, named, rows):
        return None
    first = site.following[0]
    none = f"where there are no `{rows}` it is computed for no rows, which is no error, and leaves nothing behind"
    return site.rewrite(replace(site, statement=first).lines(), none, last=first)


def _counted(site: Site, test: ast.expr) -> str:
    """Return the name of the rows of which a test asks whether there are none; empty of another test."""
    count = _no_rows(test)
    value = site.value_of(count.id) if isinstance(count, ast.Name) else None
    match value if value is not None else count:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="numel" | "nelement" | "size")):
            return name
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            return name
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=0)):
            return name
    return ""


def _names(target: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def early_return(site: Site, cause: BreakCause) -> Rewrite | None:
    """Let compiled code go on past `if not m.any(): return …`: what follows may give the same for no rows."""
    match site.statement:
        case ast.If(test=test, body=[ast.Return()], orelse=[]) if not site.edited(site.statement).startswith("elif"):
            pass
        case _:
            return None
    return gone_past(site, cause, test, "what follows gives the same for no rows") if site.following else None


def gone_past(site: Site, cause: BreakCause, test: ast.expr, why: str) -> Rewrite | None:
    """Leave a branch for no rows, or a mask that is nowhere true, to eager: a trial has to see both of its sides."""
    mask = none_of(site, test)
    rows = _no_rows(test) if is_on_a_count(cause) else None
    if (mask is None and rows is None) or not is_repeatable(site, test):
        return None
    where = f"`{_text(site, mask)}` is nowhere true" if mask is not None else f"`{ast.unparse(rows or test)}` is 0"
    return left_to_eager(site, test, f"goes on where {where}: {why}")


def left_to_eager(site: Site, test: ast.expr, why: str) -> Rewrite | None:
    """Have compiled code pass over a branch: a trial has to see both of its sides."""
    is_and = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
    asked = f"not {site.torch}.compiler.is_compiling() and {site.source(test) if is_and else site.atom(test)}"
    return _asked(site, test, asked, why)


def always(site: Site, test: ast.expr, why: str) -> Rewrite | None:
    """Have compiled code always take a branch: a trial has to see both of its sides."""
    return _asked(site, test, f"{site.torch}.compiler.is_compiling() or {site.atom(test)}", why)


def _asked(site: Site, test: ast.expr, asked: str, why: str) -> Rewrite | None:
    """Ask something else than a test, of which a trial has to see both sides."""
    found = site.edit([(test, asked)], f"compiled code {why}")
    return OfBothSides(found.before, found.after, found.is_complete, found.needs) if found else None


def shortcut(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Leave `if m.all(): return …`, or `m = None`, to eager: what follows may give the same by a longer way."""
    match site.statement:
        case ast.If(test=test, body=[ast.Return(value=value)], orelse=[]) if site.following:
            pass
        case ast.If(test=test, body=[ast.Assign(targets=[ast.Name()], value=value)], orelse=[]) if _asks_of_all(test):
            pass
        case _:
            return None
    is_elif = site.edited(site.statement).startswith("elif")
    if is_elif or not is_repeatable(site, test) or not (_is_there(value) or _asks_of_all(test)):
        return None
    if value is not None and any(has_effect(call) for call in syntax.calls_in(value)):
        return None
    return left_to_eager(site, test, "does not ask, and always does what follows, which gives the same")


def _is_there(value: ast.expr | None) -> bool:
    """Whether a value is nothing, or is there already: `x`, `x, None`."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(one is None or isinstance(one, (ast.Constant, ast.Name)) for one in parts)


def longer_way(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Let compiled code always do what stands under `if not m.all():`: of a mask that is true it may give the same."""
    match site.statement:
        case ast.If(test=test, body=body, orelse=[]) if not site.edited(site.statement).startswith("elif"):
            pass
        case _:
            return None
    given = [pair for one in body if isinstance(one, ast.Assign) for pair in syntax.pairs(one.targets[0], one.value)]
    are_names = all(isinstance(one, ast.Assign) for one in body) and all(isinstance(x, ast.Name) for x, _ in given)
    if not are_names or any(has_effect(call) for one in body for call in syntax.calls_in(one)):
        return None
    if not (_asks_of_all(test) or _only_picks(site, given)) or not is_repeatable(site, test):
        return None
    return always(site, test, "does not ask, and always does what stands there, which gives the same")


def _only_picks(site: Site, given: Sequence[tuple[ast.expr, ast.expr]]) -> bool:
    """Whether names keep what a mask chooses of what they had, `x = x[keep]`: of all it is the same."""
    masks = {dotted(name) for name, value in given if is_mask(site, value)}
    picked = [(name, value) for name, value in given if dotted(name) not in masks]
    are_parts = all(
        isinstance(value, ast.Subscript)
        and dotted(value.value) == dotted(name)
        and (dotted(value.slice) in masks or is_mask(site, value.slice))
        for name, value in picked
    )
    return bool(picked) and are_parts


def _asks_of_all(test: ast.expr) -> bool:
    """Whether a test asks for all elements of a mask, or for any."""
    return any(called(call) in {"all", "any"} for call in syntax.calls_in(test))


def is_on_a_count(cause: BreakCause) -> bool:
    """Return whether a test asks for a number of rows that torch does not know when it compiles."""
    return _COUNTED in cause.context or cause.gb_type.startswith("UserError: ")


def _no_rows(test: ast.expr) -> ast.expr | None:
    """Return the number of `n == 0`, `n < 1` and `not n`."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=0)]):
            return left
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Constant(value=1)]):
            return left
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
    return None


def filled(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Let compiled code write where `m` is true without `if m.any():`: of no rows it may compute nothing."""
    match site.statement:
        case ast.If(test=test, body=body, orelse=[]) if not site.edited(site.statement).startswith("elif"):
            mask = any_of(site, test)
        case _:
            return None
    if mask is None or not is_repeatable(site, test) or not all(_fills(site, one, mask) for one in body):
        return None
    why = f"does that also where `{_text(site, mask)}` is nowhere true: of no rows it computes nothing"
    return always(site, test, why)


def _fills(site: Site, one: ast.stmt, mask: ast.expr) -> bool:
    """Return whether a statement writes what a mask chooses, or names that nothing else asks for."""
    match one:
        case ast.Assign(targets=[target]):
            leaves = target.elts if isinstance(target, ast.Tuple) else [target]
        case _:
            return False
    inside = set(ast.walk(site.statement))
    return all(
        ast.dump(leaf.slice) == ast.dump(mask)
        if isinstance(leaf, ast.Subscript)
        else isinstance(leaf, ast.Name) and inside.issuperset(site.loads(leaf.id)) and not site.escapes(leaf.id)
        for leaf in leaves
    )


def is_check_alone(site: Site, node: ast.If) -> bool:
    """Return whether all under `if m.any():` writes where `m` is true: to choose by that check would be absurd."""
    mask = any_of(site, node.test)
    if mask is None or node.orelse:
        return False
    are_fills = all(_filled(one, mask) or _changes_only(site, one, mask) for one in node.body)
    return are_fills or _is_for_none(site, node, node.body, mask)


def any_of(site: Site, asked: ast.expr) -> ast.expr | None:
    """Return `m` of `m.any()`, `torch.any(m)`, `m.sum() > 0` and their like; `~m` of `not m.all()`."""
    match _meant(site, asked):
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return any_of(site, inner)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            whole = _all_of(site, operand)
            return None if whole is None else _inverse(whole)
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=[ast.Constant(value=0)]):
            return _reduced(site, left, "sum")
        case other:
            return _reduced(site, other, "any")


def _all_of(site: Site, asked: ast.expr) -> ast.expr | None:
    """Return `m` of `m.all()`, and `bool(m.all())`."""
    match _meant(site, asked):
        case ast.Call(func=ast.Name(id="bool"), args=[inner]):
            return _all_of(site, inner)
        case other:
            return _reduced(site, other, "all")


def _inverse(mask: ast.expr) -> ast.expr:
    """Return `~m` of `m`, and `m` of `~m`."""
    match mask:
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return operand
    return ast.UnaryOp(ast.Invert(), mask)


def _text(site: Site, mask: ast.expr) -> str:
    """Return a mask's text, also of an inverse that does not stand in the file."""
    match mask:
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return f"~{site.atom(operand)}"
    return site.source(mask)


def none_of(site: Site, asked: ast.expr) -> ast.expr | None:
    """Return `m` of `not m.any()`, `m.sum() == 0` and their like."""
    match _meant(site, asked):
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = any_of(site, operand)
            return found if found is not None else _reduced(site, operand, "sum")
        case ast.Compare(left=left, ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=0)]):
            return _reduced(site, left, "sum")
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Constant(value=1)]):
            return _reduced(site, left, "sum")
    return None


def _meant(site: Site, node: ast.expr) -> ast.expr:
    """Return what a name was assigned, where that is the same now."""
    value = site.value_of(node.id) if isinstance(node, ast.Name) else None
    return value if value is not None and memory.is_as_it_was(site, value) else node


def _reduced(site: Site, node: ast.expr, by: str) -> ast.expr | None:
    """Return what is reduced over all dimensions by a function, or a method."""
    match _meant(site, node):
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _reduced(site, inner, by)
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
            return _reduced(site, inner, by)
        case ast.Call(func=ast.Attribute(attr=name), args=[inner], keywords=[]) as call if of_torch(call):
            return inner if name == by else None
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[]):
            return inner if name == by else None
    return None


# -- what does nothing


def _of_nothing(site: Site, block: ast.stmt, statements: Sequence[ast.stmt], mask: ast.expr) -> str | None:
    """Return what it takes for granted to run statements where a mask is nowhere true; None if they may do more."""
    if not is_repeatable(site, mask):
        return None
    if all(_changes_only(site, one, mask) for one in statements):
        kept = [_of_filled(site, one, mask) for one in statements]
        known = [said for said in kept if said is not None]
        return sides.joined(_EVERY_TIME, *known) if len(known) == len(kept) else None
    if not _is_for_none(site, block, statements, mask):
        return None
    none = f"where `{_text(site, mask)}` is nowhere true it is then computed for no rows, which is no error"
    return sides.joined(none, "its parameters have a gradient of zeros in place of none")


def _is_for_none(site: Site, block: ast.stmt, statements: Sequence[ast.stmt], mask: ast.expr) -> bool:
    """Whether statements write the rows that are chosen by a mask, and keep nothing else: with no rows, nothing."""
    # Else it may be an index of numbers, which writes where one is 0.
    return is_mask(site, mask) and _writes_chosen(site, block, statements, {ast.dump(mask)}, _root_of(mask))


def _writes_chosen(  # noqa: PLR0911 -- one for each kind of statement
    site: Site, block: ast.stmt, statements: Sequence[ast.stmt], places: set[str], root: str
) -> bool:
    names = set[str]()
    for statement in statements:
        if any(has_effect(call) and called(call) not in _ADDING for call in syntax.calls_in(statement)):
            return False
        if any(called(call) in ERRORS_OF_NONE for call in syntax.calls_in(statement)):
            return False
        match statement:
            case ast.Assign(targets=[ast.Name() | ast.Tuple() as target], value=value):
                assigned = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                if root in assigned or not all(_is_used_after(site, block, n, statement) for n in assigned):
                    return False
                found = places_of(value)
                if found is not None and ast.dump(found) in places:
                    places |= {ast.dump(ast.Name(n, ast.Load())) for n in assigned}
                elif not _is_chosen(value, places, names):
                    return False
                names |= assigned
            case (
                ast.Assign(targets=[ast.Subscript(slice=where)], value=value)
                | ast.AugAssign(target=ast.Subscript(slice=where), value=value)
                | ast.Expr(ast.Call(func=ast.Attribute(attr="index_add_" | "index_copy_"), args=[_, where, value]))
            ):
                is_written = _is_chosen(value, places, names) or is_number(sides.without_sign(value))
                if ast.dump(where) not in places or not is_written:
                    return False
            case _:
                return False
    return True


def _is_chosen(value: ast.expr, places: set[str], names: set[str]) -> bool:
    """Whether a value is made of the rows that were chosen."""
    selected = any(isinstance(n, ast.Subscript) and ast.dump(n.slice) in places for n in ast.walk(value))
    return selected or any(loads(value, name) for name in names)


def _is_used_after(site: Site, block: ast.stmt, name: str, statement: ast.stmt) -> bool:
    """Whether a name is one of a block alone, and read there after it is assigned."""
    return stays_in(site, block, name) and all(read.lineno > statement.lineno for read in loads(block, name))


def _root_of(mask: ast.expr) -> str:
    return mask.id if isinstance(mask, ast.Name) else ""


def _of_filled(site: Site, statement: ast.stmt, mask: ast.expr) -> str | None:
    """Return what it takes for granted to fill where nothing may be true; None where that is likely wrong."""
    fill, needs = _filled(statement, mask), ""
    name = dotted(sides.without_sign(fill)) if fill is not None else ""
    if name and not sides.is_number(site, ast.Name(name)) and not _is_constant_of_file(site, name):
        if site.function is not None and name in _may_be_none(site.function):
            return None
        needs = f"`{name}` is a number in each call"
    if _chosen(statement, mask) is not None:
        needs = "what is chosen has the dtype of what it replaces"
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            pair = [Assignment(target, value), Assignment(target, ast.Name(target))]
            is_as_good, of_memory = sides.keeps_memory(site, pair, target)
            # of a smaller one torch makes one of the mask's shape
            no_smaller = f"`{target}` is in no dimension smaller than the mask"
            return sides.joined(needs, no_smaller, of_memory) if is_as_good else None
    return needs


def _may_be_none(function: syntax.Function) -> set[str]:
    """The parameters that are None where the caller does not give them."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(named), reversed(arguments.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    return {a.arg for a, default in pairs if isinstance(default, ast.Constant) and default.value is None}


def _is_constant_of_file(site: Site, name: str) -> bool:
    """Whether a name is assigned once in the file, at its top, and a number."""
    tree = parsed(site.text)
    if tree is None or name in site.local():
        return False
    every = [n for n in tree.body if isinstance(n, ast.Assign) and name in syntax.targets(n)]
    return len(every) == 1 and _is_number_at_hand(every[0].value) and not dotted(every[0].value)


def _changes_only(site: Site, statement: ast.stmt, mask: ast.expr) -> bool:
    """Whether a statement changes elements where a mask is true, and nothing where it is nowhere so."""
    value = _filled(statement, mask)
    if value is not None:  # torch fills by a mask of bools alone, and with one number
        return _is_number_at_hand(value) and not _is_of_module(site, value)
    if (chosen := _chosen(statement, mask)) is not None:
        return is_repeatable(site, chosen) and not _is_of_module(site, chosen)
    match statement:
        case ast.AugAssign(op=ast.Add(), value=value) if is_mask(site, mask):
            counted = _reduced(site, value, "sum")  # nothing is added where it counts none
            return counted is not None and ast.dump(counted) == ast.dump(mask)
        case ast.Assign(targets=[ast.Subscript(slice=where)], value=value):
            # Any other value may be an error where there is nothing to write: a tensor of so many rows.
            return ast.dump(where) == ast.dump(mask) and is_mask(site, mask) and is_number(sides.without_sign(value))
    return False


def _filled(statement: ast.stmt, mask: ast.expr) -> ast.expr | None:
    """Return what `x = x.masked_fill(m, 0)`, or the same in place, fills with where a mask is true."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="masked_fill_"), args=[where, *given], keywords=named)):
            pass
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=filled), attr="masked_fill"),
                args=[where, *given],
                keywords=named,
            ),
        ) if name == filled:
            pass
        case _:
            return None
    values = [*given, *(keyword.value for keyword in named)]
    return values[0] if len(values) == 1 and ast.dump(_seen_from(where)) == ast.dump(_seen_from(mask)) else None


def _chosen(statement: ast.stmt, mask: ast.expr) -> ast.expr | None:
    """Return `a` of `x = torch.where(m, a, x)`, and of `torch.where(~m, x, a)`."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Attribute(attr="where"), args=[where, one, other], keywords=[]) as call,
        ) if of_torch(call):
            pass
        case _:
            return None
    if dotted(other) == name and ast.dump(_seen_from(where)) == ast.dump(_seen_from(mask)):
        return one
    if dotted(one) == name and ast.dump(_seen_from(where)) == ast.dump(_inverse(_seen_from(mask))):
        return other
    return None


def _seen_from(node: ast.expr) -> ast.expr:
    """Return `m` of `m.unsqueeze(1)` and `m[:, None]`, which are nowhere true where `m` is not.

    What is true where `m` is 0 is `~m`, however it is written.
    """
    if (inverted := _inverted(node)) is not None:
        return _inverse(_seen_from(inverted))
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="unsqueeze"), args=[ast.Constant() | ast.UnaryOp()]):
            return _seen_from(owner)
        case ast.Subscript(value=owner, slice=ast.Tuple(elts=parts)) if all(map(_keeps_all, parts)):
            return _seen_from(owner)
    return node


def _inverted(node: ast.expr) -> ast.expr | None:
    """Return `m` of `~m`, `m.logical_not()` and `m == 0`."""
    match node:
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return operand
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return left
        case ast.Call(func=ast.Attribute(value=owner, attr="logical_not"), args=args, keywords=[]):
            operands = args if of_torch(node) else [owner, *args]
            return operands[0] if len(operands) == 1 else None
    return None


def _keeps_all(part: ast.expr) -> bool:
    match part:
        case ast.Slice(lower=None, upper=None, step=None) | ast.Constant(value=None):
            return True
    return isinstance(part, ast.Constant) and part.value is ...


def _is_of_module(site: Site, node: ast.expr) -> bool:
    """Whether a value is a parameter or a buffer, by the text: one that fills nothing has zeros as its gradient."""
    name, tree = dotted(node).rpartition(".")[2], parsed(site.text)
    for one in ast.walk(tree) if tree and name else ():
        match one:
            case ast.Assign(targets=[ast.Attribute(attr=made)], value=ast.Call() as call) if made == name:
                is_made = called(call) in {"Parameter", "Buffer"}
            case ast.AnnAssign(target=ast.Attribute(attr=made), value=ast.Call() as call) if made == name:
                is_made = called(call) in {"Parameter", "Buffer"}
            case ast.Call(args=[ast.Constant(value=made), *_]) if made == name:
                is_made = called(one) in {"register_parameter", "register_buffer"}
            case _:
                is_made = False
        if is_made:
            return True
    return False


def _is_number_at_hand(node: ast.expr) -> bool:
    """Whether a value is there whatever was asked: a number, a name, `float("-inf")`, `torch.finfo(x.dtype).min`."""
    match sides.without_sign(node):
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant()]):
            return True
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="finfo" | "iinfo"), args=[kind])):
            return bool(dotted(kind))
        case other:
            return is_number(other) or bool(dotted(other))
