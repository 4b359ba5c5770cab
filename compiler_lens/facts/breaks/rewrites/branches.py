"""Rewrites of branches, assertions and loops that depend on a tensor's values."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile

from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import assignments as assigned
from compiler_lens.facts.breaks.rewrites import drawn, memory, nothing, sides
from compiler_lens.facts.breaks.rewrites.assignments import Assignment
from compiler_lens.facts.breaks.rewrites.calls import BY_METHOD, is_drawn, only_says, said_by
from compiler_lens.facts.breaks.rewrites.loops import ends
from compiler_lens.facts.breaks.rewrites.masks import is_mask
from compiler_lens.facts.breaks.rewrites.plain import is_plain_text
from compiler_lens.facts.breaks.rewrites.site import Change, Site, number_at, parsed
from compiler_lens.facts.breaks.rewrites.syntax import (
    NOT_ON_TENSORS,
    SIMPLE,
    called,
    calls_in,
    dotted,
    has_no_dimensions,
    is_boolean,
    is_number,
    loads,
    of_torch,
    parameters,
)
from compiler_lens.recording.model import BreakCause

_SAME_SHAPE = "both sides are computed every time and give tensors of one shape and dtype"
_GUARDED = "what the test guards is computed every time: where that gives no number, gradients through it are nan"
_WRITTEN = "the value is computed, and written, every time"
_JUMP = "attempted to jump with"  # in torch's context: what was to decide
_NEUTRAL = {ast.Add: "0", ast.Sub: "0", ast.Mult: "1", ast.Div: "1"}  # x += 0 and x *= 1 change nothing
_LEAVING = (ast.Return, ast.Break, ast.Continue)
_NEVER = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Starred)
_OF_TRAINING = ("BatchNorm", "InstanceNorm", "Dropout")  # modules
_WIDEST = 100
_MOST_STATEMENTS = 60


def branching(site: Site, cause: BreakCause) -> Rewrite | None:
    """Rewrite a statement that asks a tensor for a bool."""
    return _branching(site, cause, may_be_guarded=False)


def guarded_branching(site: Site, cause: BreakCause) -> Rewrite | None:
    """Rewrite a branch whose test may be there so that a quotient, a root or a logarithm has a number."""
    is_known = drawn.chosen(site, cause) is not None or _branching(site, cause, may_be_guarded=False) is not None
    return None if is_known else _branching(site, cause, may_be_guarded=True)


def counted(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Rewrite `n = m.sum().item()` together with the branch below that alone asks for it."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if _number_of_tensor(site, name) is not None:
            reads = site.loads(name)
        case _:
            return None
    number = number_at(site.following, reads[0].lineno) if reads else None
    if number is None or number > _MOST_BETWEEN:
        return None
    branch, between = site.following[number], site.following[:number]
    if not all(isinstance(one, SIMPLE) for one in between):
        return None
    if not isinstance(branch, ast.If) or len(reads) != len(loads(branch.test, name)):
        return None
    inner = replace(site, line=branch.lineno, statement=branch, following=site.following[number + 1 :])
    found = _branching(inner, BreakCause("Data-dependent branching"), may_be_guarded=False)
    lines = site.text.split("\n")
    own, end = site.statement, site.statement.end_lineno or site.statement.lineno
    head, kept = lines[own.lineno - 1 : branch.lineno - 1], lines[end : branch.lineno - 1]
    is_whole = not any(line[: own.col_offset].strip() for line in head)
    if found is None or not found.before[0].startswith("if ") or not is_whole:
        return None
    before = (*(line[own.col_offset :].rstrip() for line in head), *found.before)
    after = (*(line[own.col_offset :].rstrip() for line in kept), *found.after)
    return Rewrite(before, after, is_complete=found.is_complete, needs=found.needs)


def _branching(site: Site, cause: BreakCause, *, may_be_guarded: bool) -> Rewrite | None:
    statement, found = site.statement, None
    if any(isinstance(n, _NEVER) for n in ast.walk(statement)) or _asks_for_a_symbol(site, cause):
        return None
    if isinstance(statement, (ast.Assert, ast.If, ast.While)):
        test, needs = _asked_for(site, cause, statement.test)
        if not test:
            return _nested(site, cause, may_be_guarded=may_be_guarded)
        needs = sides.joined(needs, _of_dimensions(site, statement.test))
        if isinstance(statement, ast.Assert):
            found, needs = checked(site, test, statement.msg, "AssertionError"), _of_test(site, statement.test)
        elif isinstance(statement, ast.While):
            found = _while_loop(site, statement, test)
        elif nothing.is_check_alone(site, statement):
            found, needs = nothing.left_out(site, statement), ""
        elif isinstance(statement.body[0], ast.Continue):
            found, needs = nothing.gone_on(site, statement), ""
        else:
            found = _written(site, statement, test) or _said_and_chosen(site, statement, test)
            found = found or _branch(site, statement, test, may_be_guarded=may_be_guarded)
        found = replace(found, needs=sides.joined(found.needs, needs)) if found else None
    elif isinstance(statement, SIMPLE):
        found = _conditional_expression(site, may_be_guarded=may_be_guarded) or _truth(site)
    return found


def _asks_for_a_symbol(site: Site, cause: BreakCause) -> bool:
    """Return whether a size or another number of the graph decides, and no tensor that `torch.where` could ask."""
    asked = getattr(site.statement, "test", None)
    tests = [asked] if asked else [n.test for n in ast.walk(site.statement) if isinstance(n, ast.IfExp)]
    return "SymNode" in cause.context and not all(_is_surely_tensor(site, test) for test in tests)


def _asked_for(site: Site, cause: BreakCause, asked: ast.expr) -> tuple[str, str]:
    """Return a test as a bool tensor, and what that takes for granted; empty where it may be something else."""
    if _is_of_others(site, asked):
        return "", ""
    test = _condition(site, asked) if _is_asked_by(cause, asked) else None
    if test is not None:
        return test, _of_test(site, asked)
    if cause.gb_type != "Data-dependent branching" or _JUMP not in cause.context or "SymNode" in cause.context:
        return "", ""
    match asked:  # torch says that what it asks for is a tensor
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() | ast.Attribute() | ast.Call() as value):
            return f"{site.source(value)} == 0", f"`{site.source(value)}` is a tensor without dimensions in each call"
        case ast.Name() | ast.Attribute() | ast.Call():
            return f"{site.source(asked)} != 0", f"`{site.source(asked)}` is a tensor without dimensions in each call"
    return "", ""


def _is_of_others(site: Site, asked: ast.expr) -> bool:
    """Whether a test is of what another call of the function gives it no tensor for."""
    names = {n.id for n in ast.walk(asked) if isinstance(n, ast.Name)}
    return not names.isdisjoint(site.given_otherwise) and not _is_surely_tensor(site, asked)


def _is_asked_by(cause: BreakCause, test: ast.expr) -> bool:
    """Return whether it is the test that broke, not a statement on the same line."""
    if cause.gb_type == "Data-dependent branching":
        return True
    names = {called(n) for n in ast.walk(test)}
    if cause.gb_type == "Data dependent operator":
        return any(f"aten.{name}." in cause.context for name in names if name)
    if "Random.random" in cause.context:
        return "random" in names
    if any(isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.In, ast.NotIn)) for n in ast.walk(test)):
        names.add("item")  # `in` asks for a bool
    return cause.gb_type.startswith("Unsupported Tensor.item()") and bool(names & {"item", "bool", "float", "int"})


def checked(site: Site, test: str, message: ast.expr | None, error: str) -> Rewrite | None:
    """Write an assertion on the device, with what of its message needs no tensor's value: all that is known as it is.

    AOTAutograd drops an assertion that has no message (torch 2.13).
    """
    said, written, is_cut = "", "", message is not None and not isinstance(message, ast.Constant)
    match message:
        case ast.Constant(value=str(words)):
            said = words
        case ast.JoinedStr() if is_plain_text(site, message):
            written, is_cut = site.source(message), False
        case ast.JoinedStr(values=parts):
            said = "".join(str(p.value) if isinstance(p, ast.Constant) else "..." for p in parts).strip(". :")
            is_cut = not all(isinstance(part, ast.Constant) for part in parts)
    other = f"no `except {error}` of a caller catches it" if error else "not its own"
    needs = "" if error == "RuntimeError" else f"the error is then a RuntimeError: {other}"
    needs = sides.joined(needs, "its message is then without values" if is_cut else "")
    needs = sides.joined(needs, "on a GPU a failed check ends the process's CUDA context")
    return site.rewrite([f"{site.torch}._assert_async({test}, {written or repr(said or test)})"], needs)


# -- if


def _branch(site: Site, node: ast.If, test: str, *, may_be_guarded: bool = False) -> Rewrite | None:
    is_elif = site.edited(node).startswith("elif")
    first, second, last = assigned.assignments(node.body), assigned.assignments(node.orelse), None
    match node:
        case ast.If(body=[ast.Raise(exc=ast.expr() as error)], orelse=[]):
            return None if is_elif else raised(site, node.test, error, test)
        case ast.If(body=[*_, ast.Break()]) | ast.If(orelse=[ast.If()]):
            return _chain(site, node, test) if node.orelse else _search(site, node, test)
        case ast.If(body=[*_, ast.Return()]):
            match (*node.body, *(node.orelse or site.following[:1])):
                case (ast.Return(value=ast.expr() as value), ast.Return(value=ast.expr() as other) as otherwise):
                    first, second = [Assignment("", value)], [Assignment("", other)]
                    last = None if node.orelse else otherwise
    if first is None or second is None or (last and is_elif):
        return None
    names, both = [a.name for a in first], [*first, *second]
    fits = names == [a.name for a in second] if second else all(map(site.defined_before, names))
    if not fits:
        return None
    are_simple = [assigned.is_simple_value(a.value) for a in both]
    if all(are_simple):
        return _chosen(site, node.test, test, first, second, last, may_be_guarded=may_be_guarded)
    mixed = any(simple and not assigned.stays_tensor(site, a) for a, simple in zip(both, are_simple, strict=True))
    return None if mixed or is_elif else _cond(site, test, first, second, last)


def _nested(site: Site, cause: BreakCause, *, may_be_guarded: bool) -> Rewrite | None:
    """Write `if m is not None: …` for `if m is not None and m.any(): …`, with what becomes of the rest within it."""
    match site.statement:
        case ast.If(test=ast.BoolOp(op=ast.And(), values=values), body=body, orelse=[]) as node:
            pass
        case _:
            return None
    plain = list(takewhile(lambda one: _is_of_python(site, one), values))
    if not plain or len(plain) == len(values) or site.edited(node).startswith("elif"):
        return None
    if any(isinstance(n, _LEAVING) for one in body for n in ast.walk(one)):  # it is about more than the branch
        return None
    rest = values[len(plain) :]
    asked = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(ast.And(), rest), node.test)
    within = replace(site, statement=ast.copy_location(ast.If(asked, body, []), node))
    found = _branching(within, cause, may_be_guarded=may_be_guarded)
    if found is None or any(f"{site.torch}.cond(" in line for line in found.after):
        return None  # beside torch.cond stands the whole statement once more
    outer = " and ".join(site.atom(one) if isinstance(one, ast.BoolOp) else site.source(one) for one in plain)
    inner = (f"    {line}".rstrip() for line in found.after)
    return replace(found, after=(f"if {outer}:", *inner))


def _is_of_python(site: Site, node: ast.expr) -> bool:
    """Return whether a part of a test is a plain value of Python's by its syntax, not a tensor."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_of_python(site, operand)
        case ast.BoolOp(values=values):
            return all(_is_of_python(site, value) for value in values)
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]) | ast.Compare(comparators=[ast.Constant(value=str())]):
            return True
        case ast.Call(func=ast.Name(id="isinstance" | "hasattr" | "callable" | "len")):
            return True
        case ast.Compare():
            return _is_of_sizes(site, node)
    return bool(dotted(node)) and not _is_surely_tensor(site, node) and dotted(node) not in site.arrays


def _written(site: Site, node: ast.If, test: str) -> Rewrite | None:
    """Write `x[m & test] = 1` for `if test: x[m] = 1`."""
    match node:
        case ast.If(body=[ast.Assign(targets=[ast.Subscript(slice=mask)], value=value) as write], orelse=[]):
            pass
        case _:
            return None
    if not is_mask(site, mask) or not is_number(value) or site.edited(node).startswith("elif"):
        return None
    line = site.edited(write, [(mask, f"({site.source(mask)}) & ({test})")])
    return site.rewrite(line.split("\n"), "what is written there is computed every time")


def _said_and_chosen(site: Site, node: ast.If, test: str) -> Rewrite | None:
    """Leave the messages that a branch begins with to eager, and choose by what is left of it."""
    said = list(takewhile(bool, (said_by(site, one) for one in node.body)))
    rest = node.body[len(said) :]
    is_elif = site.edited(node).startswith("elif")
    if any(isinstance(one, ast.Raise) for one in rest):  # what is said explains it
        return None
    if not said or not rest or node.orelse or is_elif or not all(only_says(site, n) for n in ast.walk(node.test)):
        return None
    branch = ast.copy_location(ast.If(node.test, rest, []), node)
    inner = replace(site, statement=branch)
    found = _written(inner, branch, test) or _branch(inner, branch, test)
    if found is None or not found.is_complete:
        return None
    messages = [line for one in node.body[: len(said)] for line in replace(site, statement=one).lines()]
    lines = [
        f"if not {site.torch}.compiler.is_compiling() and {site.atom(node.test)}:",
        *(f"    {line}".rstrip() for line in messages),
        *found.after,
    ]
    names = " and ".join(f"`{name}`" for name in dict.fromkeys(said))
    last = next(iter(site.following), None) if isinstance(rest[-1], ast.Return) else None  # what is returned else
    return site.rewrite(lines, sides.joined(found.needs, f"compiled code then runs without this {names}"), last=last)


def raised(site: Site, asked: ast.expr, error: ast.expr, test: str) -> Rewrite | None:
    """Write an assertion on the device for `if asked: raise error`, where a test is the same as a tensor."""
    inverse = f"~({test})"
    if test.startswith("~(") and parsed(test[2:-1].strip()):  # the bracket closes at the end
        inverse = test[2:-1]
    elif is_boolean(asked) and called(asked):
        inverse = f"~{test}"
    made, arguments = (error.func, error.args) if isinstance(error, ast.Call) else (error, [])
    return checked(site, inverse, arguments[0] if arguments else None, dotted(made))


def _alike(site: Site, one: ast.expr, other: ast.expr) -> bool:
    """Whether at least one of two values is a tensor or a number by its looks: a bare name may be anything."""
    bare = (ast.Name, ast.Attribute, ast.Subscript)
    return any(not isinstance(n, bare) or site.is_tensor(n) for n in (one, other))


def _chosen(  # noqa: PLR0913, PLR0917 -- both sides of a branch
    site: Site,
    asked: ast.expr,
    test: str,
    first: list[Assignment],
    second: list[Assignment],
    last: ast.stmt | None,
    *,
    may_be_guarded: bool = False,
) -> Rewrite | None:
    """Write torch.where for the same targets on either side."""
    both = [*first, *second]
    kept = [one for a in first for one in assigned.kept_above(site, asked, a)]
    safe = [node for node, *_ in kept] + [node for a in second for node, *_ in assigned.kept_above(site, asked, a)]
    changes = [(inner, new) for _, inner, new in kept]
    is_guarded = assigned.is_guarded(site, asked, both, but=safe)
    errs = assigned.is_guarded(site, asked, both, but=safe, only_errors=may_be_guarded)
    if not all(assigned.stays_tensor(site, a) for a in both) or errs:
        return None
    lines: list[str] = []
    if len(first) > 1:  # the test may read what the first line assigns
        name = site.free("chosen")
        lines, test = [f"{name} = {test}"], name
    taken: list[str] = []
    others = second or [Assignment(a.name, ast.Name(a.name)) for a in first]
    for one, other in zip(first, others, strict=True):
        head = f"{one.name} = " if one.name else "return "
        of_one = [change for change in changes if change[0] in ast.walk(one.value)]
        a, b = assigned.new_value(site, one, of_one), assigned.new_value(site, other) if second else one.name
        is_in_place = one.operator and (other.operator is one.operator if second else one.operator in _NEUTRAL)
        if is_in_place and one.operator:
            head, a = f"{one.name} {assigned.OPERATORS[one.operator]}= ", site.source(one.value, of_one)
            b = site.source(other.value) if second else _NEUTRAL[one.operator]
            taken.append(_of_operands(site, one, other if second else None))
        elif (found := _of_sides(site, [one, other], safe)) is not None:
            taken.append(found)
        else:
            return None
        line = f"{head}{site.torch}.where({test}, {a}, {b})"
        parts = [f"{head}{site.torch}.where(", *(f"    {part}," for part in (test, a, b)), ")"]
        lines += [line] if len(line) <= _WIDEST else parts
    if site.edited(site.statement).startswith("elif"):
        lines = ["else:", *(f"    {line}" for line in lines)]
    is_optional = not second and all(a.operator for a in first)
    needs = _WRITTEN if is_optional else _of_shapes(site, [*first, *others])
    return site.rewrite(lines, sides.joined(needs, _GUARDED if is_guarded else "", *taken), last=last)


def _of_shapes(site: Site, values: Sequence[Assignment]) -> str:
    """Return that values are alike; empty of plain numbers alone, which are."""
    are_numbers = all(a.operator is None and sides.is_number(site, a.value) for a in values)
    return "" if are_numbers else _SAME_SHAPE


def _of_sides(
    site: Site, values: Sequence[Assignment], but: Sequence[ast.AST] = (), *, at: ast.expr | None = None
) -> str | None:
    """Return what it takes for granted to choose between values by torch.where; None where that is likely wrong.

    It is an expression that chooses, at a place in the statement, or the statement itself.
    """
    name = values[0].name
    is_alike = all(a.operator or b.operator or _alike(site, a.value, b.value) for a, b in pairwise(values))
    if not is_alike or not sides.fit(site, values, at):
        return None
    if any(a.operator for a in values) and not memory.is_own(site, name):
        return None  # what is changed in place has another name, too
    is_kept = at is None or memory.is_kept(site, at)
    is_as_good, memory_needs = sides.keeps_memory(site, values, name) if is_kept else (True, "")
    if not is_as_good:
        return None
    return sides.joined(memory_needs, sides.about_numbers(site, values), sides.gradients(site, values, but=but))


def _of_operands(site: Site, one: Assignment, other: Assignment | None) -> str:
    """Return what `x *= torch.where(test, 0.1, 1)` takes for granted."""
    values = [one, other] if other else [one]
    numbers = [a.value for a in values if sides.is_number(site, a.value)]
    said = sides.rounded(site, numbers) if len(numbers) == len(values) else ""
    return sides.joined(said, sides.gradients(site, [*values, Assignment(one.name, ast.Name(one.name))]))


def _chain(site: Site, node: ast.If, test: str) -> Rewrite | None:
    """Write `if …: y = a; elif …: y = b; else: y = c` as one torch.where within another."""
    tests, arms = [node.test], [node.body]
    texts: list[str | None] = [test]
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        tests.append(node.test)
        arms.append(node.body)
        texts.append(_condition(site, node.test))
    last = assigned.assignments(node.orelse) if node.orelse else []
    given = [assigned.assignments(arm) for arm in arms]
    if last is None or None in given or None in texts or not all(assigned.is_repeatable(site, t) for t in tests[1:]):
        return None
    every = [*(one for arm in given for one in arm or ()), *last]
    names = {one.name for one in every}
    if len(names) != 1 or any(len(arm or ()) != 1 for arm in given) or not (last or site.defined_before(every[0].name)):
        return None
    are_simple = all(assigned.is_simple_value(a.value) and assigned.stays_tensor(site, a) for a in every)
    is_guarded = any(assigned.is_guarded(site, one, every) for one in tests) or _guards_itself(
        ast.BoolOp(ast.And(), tests)
    )
    either = [*every, *([] if last else [Assignment(every[0].name, ast.Name(every[0].name))])]
    taken = _of_sides(site, either) if are_simple and not is_guarded else None
    if taken is None:
        return None
    new = assigned.new_value(site, every[-1]) if last else every[0].name
    for said, one in reversed(list(zip(texts, every, strict=False))):
        new = f"{site.torch}.where({said}, {assigned.new_value(site, one)}, {new})"
    lines = [f"{every[0].name} = {new}"]
    if len(lines[0]) > _WIDEST:
        return None
    if site.edited(site.statement).startswith("elif"):
        lines = ["else:", f"    {lines[0]}"]
    of_tests = [said for one in tests[1:] for said in (_of_test(site, one), _of_dimensions(site, one))]
    return site.rewrite(
        lines, sides.joined(_of_shapes(site, either).replace("both sides", "all sides"), taken, *of_tests)
    )


def _may_be_in_training(site: Site, assigned: Iterable[Assignment]) -> bool:
    """Return whether values may be of modules that do more than to compute while they are in training.

    In torch.cond one that keeps statistics raises, and what is dropped is drawn once more for the backward.
    """
    calls = [call for one in assigned for call in calls_in(one.value)]
    is_module = any(dotted(call.func).startswith("self.") for call in calls)
    return any("dropout" in called(call) for call in calls) or (
        is_module and any(word in site.text for word in _OF_TRAINING)
    )


def _cond(
    site: Site, test: str, first: list[Assignment], second: list[Assignment], last: ast.stmt | None
) -> Rewrite | None:
    both = [*first, *second]
    targets, local = [a.name for a in first], site.local()
    others = second or [Assignment(a.name, ast.Name(a.name)) for a in first]
    kept = [sides.keeps_memory(site, pair, pair[0].name) for pair in zip(first, others, strict=True)]
    in_place = [a.name for a in both if a.operator]
    if not all(assigned.runs_in_cond(a.value) for a in both) or not all(is_as_good for is_as_good, _ in kept):
        return None
    if not all(memory.is_own(site, name) for name in in_place) or _may_be_in_training(site, both):
        return None
    # Tensors and names to be changed; the functions see all others as they stand around them.
    loaded = [n.id for a in both for n in ast.walk(a.value) if isinstance(n, ast.Name)]
    loaded += [a.name for a in both if a.operator or not second]
    known = [n for n in dict.fromkeys(loaded) if n in local and (n in site.tensors or n in targets)]
    operands = [name for name in known if site.defined_before(name)]
    if_true, if_false = site.free("if_true"), site.free("if_false")
    head = f"{', '.join(targets)} = " if targets != [""] else "return "
    lines = [
        *assigned.as_function(site, if_true, operands, first, targets),
        *assigned.as_function(site, if_false, operands, second, targets),
        f"{head}{site.torch}.cond({test}, {if_true}, {if_false}, {assigned.as_tuple(operands)})",
    ]
    needs = (
        "both functions give tensors of one shape, dtype and layout, and change nothing else: no batch norm, no dropout"
    )
    needs = sides.joined(
        needs, "parameters that only one of them uses have a gradient of zeros in place of none", *dict(kept).values()
    )
    return site.rewrite(_in_graphs_alone(site, lines, last), needs, last=last)


def _in_graphs_alone(site: Site, lines: Sequence[str], last: ast.stmt | None) -> list[str]:
    """Write what runs in compiled code alone: where torch.compile is switched off, torch.cond takes no gradient."""
    kept = [*site.lines(), *(replace(site, statement=last).lines() if last else ())]
    here = (f"    {line}".rstrip() for line in lines)
    return [f"if {site.torch}.compiler.is_compiling():", *here, "else:", *(f"    {line}".rstrip() for line in kept)]


def _conditional_expression(site: Site, *, may_be_guarded: bool = False) -> Rewrite | None:
    """Write torch.where for `a if test else b`."""
    found = [n for n in ast.walk(site.statement) if isinstance(n, ast.IfExp)]
    if len(found) != 1:
        return None
    node, first, second = found[0], found[0].body, found[0].orelse
    if not (assigned.is_simple_value(first) and assigned.is_simple_value(second)):
        return None
    match site.parents().get(node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            both = [Assignment(name, first), Assignment(name, second)]
        case ast.Attribute(attr=name) if name.endswith("_"):
            return None  # it is written in place, which one of them shows
        case _:
            both = [Assignment("", first), Assignment("", second)]
    test = _condition(site, node.test) if not _is_of_others(site, node.test) else None
    taken = _of_sides(site, both, at=node)
    if test is None or taken is None or assigned.is_guarded(site, node.test, both, only_errors=may_be_guarded):
        return None
    new = f"{site.torch}.where({test}, {site.source(first)}, {site.source(second)})"
    guarded = _GUARDED if assigned.is_guarded(site, node.test, both) else ""
    return site.edit(
        [(node, new)],
        sides.joined(
            _of_shapes(site, both), guarded, taken, _of_test(site, node.test), _of_dimensions(site, node.test)
        ),
    )


def _truth(site: Site) -> Rewrite | None:
    """Write `a & b` for `a and b` of bool tensors, outside of a test."""
    found = [n for n in ast.walk(site.statement) if isinstance(n, ast.BoolOp)]
    test = _condition(site, found[0]) if len(found) == 1 and all(map(is_boolean, found[0].values)) else None
    if test is None:
        return None
    new = test if site.parents().get(found[0]) is site.statement else f"({test})"
    return site.edit([(found[0], new)], "all of them are tensors without dimensions, and are computed every time")


# -- loops


def _search(site: Site, node: ast.If, test: str) -> Rewrite | None:
    """Write `for …: …; if test: break` with a tensor that says whether it is over."""
    loop = site.around[-1] if site.around else None
    if not isinstance(loop, ast.For) or loop.orelse or node.orelse or len(node.body) != 1:
        return None
    if len(loop.body) > _MOST_STATEMENTS or node not in loop.body:
        return None
    number = loop.body.index(node)
    before, after = assigned.assignments(loop.body[:number]), assigned.assignments(loop.body[number + 1 :])
    both = [*(before or ()), *(after or ())]
    if before is None or after is None or not both or len({a.name for a in both}) != len(both):
        return None
    # What it counts by has another value after it, as the loop then does not stop.
    counters = [n for n in ast.walk(loop.target) if not isinstance(n, (ast.Tuple, ast.List, ast.expr_context))]
    are_read_within = all(isinstance(n, ast.Name) and _is_read_within(site, loop, n.id) for n in counters)
    if not are_read_within or not ends(site, loop.iter) or not assigned.is_repeatable(site, node.test):
        return None
    around, head = replace(site, statement=loop, following=()), site.head(loop)
    are_tensors = all(site.is_tensor(a.computed) and assigned.stays_tensor(site, a) for a in both)
    fit = all(assigned.is_simple_value(a.value) and around.defined_before(a.name) for a in both)
    are_own = all(memory.is_own(around, a.name) for a in both if a.operator)
    if not head or assigned.is_guarded(site, node.test, both) or not (are_own and are_tensors and fit):
        return None
    done = site.free("done")
    device = next((f", device={a.name}.device" for a in both if a.name in site.tensors), "")
    lines = [f"{done} = {site.torch}.zeros((), dtype={site.torch}.bool{device})", *head]
    steps = [f"    {a.name} = {site.torch}.where({done}, {a.name}, {assigned.new_value(site, a)})" for a in both]
    lines += [*steps[: len(before)], f"    {done} = {done} | ({test})", *steps[len(before) :]]
    needs = "the loop then always runs to its end, and what it changes keeps its shape and dtype"
    is_finite = all(sides.has_finite_gradient(a.computed) for a in both)
    nan = "" if is_finite else "gradients are nan where what it would compute next has no finite value or slope"
    return around.rewrite(lines, sides.joined(needs, nan))


def _is_read_within(site: Site, loop: ast.For, name: str) -> bool:
    return not site.escapes(name) and len(site.loads(name)) == len(loads(loop, name))


def _while_loop(site: Site, node: ast.While, test: str) -> Rewrite | None:
    """Write a `while` that a tensor ends as torch's `while_loop`."""
    body = assigned.assignments(node.body)
    if body is None or node.orelse or not all(assigned.runs_in_cond(a.value) for a in body):
        return None
    names = [a.name for a in body]
    if not all(site.defined_before(n) and n in site.tensors for n in names):
        return None
    if not all(memory.is_own(site, a.name) for a in body if a.operator):
        return None
    proceed, step, both = site.free("proceed"), site.free("step"), assigned.as_tuple(names)
    lines = [f"def {proceed}({', '.join(names)}):", f"    return {test}"]
    lines += assigned.as_function(site, step, names, body, names)
    lines[-1] = f"    return {both}"
    lines.append(f"{both} = {site.torch}._higher_order_ops.while_loop({proceed}, {step}, {both})")
    # torch 2.13 takes the gradient of one time where the loop does not run
    runs = "where gradients are taken the loop runs at least once: else those of `while_loop` are wrong"
    listed = " and ".join(f"`{name}`" for name in names)
    dense = f"{listed} contiguous before the loop, else it is an error"  # as a step's, whose strides it compares
    copied = (
        f"where it does not run, {listed} is then a copy" if any(memory.is_kept_later(site, n) for n in names) else ""
    )
    return site.rewrite(lines, sides.joined("what the loop changes keeps its shape and dtype", dense, copied, runs))


# -- tests

_OF_A_TENSOR = frozenset({"equal", "allclose", "item"})  # calls that `_condition` makes tensors again
_SIZES = frozenset({"numel", "nelement", "len", "size", "shape", "dim", "ndim", "hasattr", "isinstance"})
_OVER_ALL = frozenset({
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "median", "min", "norm", "prod",
    "std", "sum", "var",
})  # fmt: skip
_SMALL = 256  # whole numbers up to it are of bfloat16
_MOST_BETWEEN = 20  # statements
_LOOPS = (ast.For, ast.While)
_RISKY = (ast.Subscript, ast.Div, ast.FloorDiv, ast.Mod)


def _condition(site: Site, node: ast.expr) -> str | None:
    """Return a test as an expression that is a bool tensor; None if it may be something else."""
    return None if _is_of_sizes(site, node) else _as_tensor(site, node)


def _is_of_sizes(site: Site, node: ast.expr) -> bool:
    """Return whether a test compares sizes alone, which gives a bool of Python's."""
    match node:
        case ast.BoolOp(values=values):
            return all(_is_of_sizes(site, value) for value in values)
        case ast.Compare():
            values = [site.value_of(n.id) or n for n in ast.walk(node) if isinstance(n, ast.Name)]
            parts = [n for value in (node, *values) for n in ast.walk(value)]
            has_size = any(getattr(n, "attr", getattr(n, "id", "")) in _SIZES for n in parts)
            return has_size and not _is_surely_tensor(site, node)
    return False


def _as_tensor(site: Site, node: ast.expr) -> str | None:  # noqa: C901, PLR0911, PLR0912 -- one for each kind of syntax
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            # `~` of a Python bool is a number: -1 and -2 are both true
            inner = _as_tensor(site, operand) if _is_surely_tensor(site, operand) else None
            return inner and f"~({inner})"
        case ast.BoolOp(op=op, values=values):
            parts = [_as_tensor(site, value) for value in values]
            sign = " & " if isinstance(op, ast.And) else " | "
            # all of them are then computed, whatever the first one is
            if not all(assigned.is_repeatable(site, value) for value in values[1:]):
                return None
            return None if None in parts or _guards_itself(node) else sign.join(f"({part})" for part in parts)
        case ast.Compare(left=member, ops=[ast.In() | ast.NotIn() as op], comparators=[tensor]):
            if not site.is_tensor(tensor) or not (is_number(member) or site.is_tensor(member)):
                return None
            return f"{'' if isinstance(op, ast.In) else '~'}({site.atom(tensor)} == {site.atom(member)}).any()"
        case ast.Compare(ops=ops):
            if any(isinstance(op, NOT_ON_TENSORS) for op in ops):
                return None
            changes = list(_python_numbers(site, node))
            if _asks_for_numbers(site, node, changes):
                return None
            if len(ops) == 1:
                return site.source(node, changes)
            if not all(assigned.is_repeatable(site, one) for one in node.comparators[:-1]):
                return None  # which are computed twice
            terms = [
                site.source(t, [c for c in changes if c[0] in ast.walk(t)]) for t in (node.left, *node.comparators)
            ]
            signs = [ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2] for op in ops]
            return " & ".join(f"({a} {sign} {b})" for a, sign, b in zip(terms, signs, terms[1:], strict=False))
        case ast.Call(func=ast.Name(id="int"), args=[number]):
            return f"{_whole(site, number)} != 0" if site.is_tensor(_item_of(number)) else None
        case ast.Call(func=ast.Name(id="bool" | "float"), args=[inner_test]):
            return _as_tensor(site, inner_test)
        case ast.Call(func=ast.Attribute(value=owner, attr="item")):
            return _as_tensor(site, owner)
        case ast.Name(id=name) if (given := _number_of_tensor(site, name)) is not None:
            return _as_tensor(site, given) if memory.is_as_it_was(site, given) else None
        case ast.Call(func=ast.Attribute(attr="equal"), args=[one, other]) if of_torch(node):
            return f"({site.source(one)} == {site.source(other)}).all()"
        case ast.Call(func=ast.Attribute(value=owner, attr="allclose") as function) if of_torch(node):
            return f"{site.edited(node, [(function, f'{dotted(owner)}.isclose')])}.all()"
    value = site.value_of(node.id) if isinstance(node, ast.Name) else node
    if isinstance(node, ast.Name) and value is not None and any(map(is_drawn, ast.walk(value))):
        return f"{site.torch}.as_tensor({node.id})"  # a bool of Python's
    if value is not None and is_boolean(value):
        return site.source(node)
    return f"{site.source(node)} != 0" if site.is_tensor(node) else None


def _number_of_tensor(site: Site, name: str) -> ast.Call | None:
    """Return the call that made a Python number of a tensor, where a name is nothing else."""
    match site.value_of(name):
        case ast.Call(func=ast.Attribute(attr="item"), args=[]) as call:
            return call
        case ast.Call(func=ast.Name(id="int" | "float" | "bool"), args=[_]) as call:
            return call
    return None


def _asks_for_numbers(site: Site, test: ast.expr, changes: Sequence[Change]) -> bool:
    """Whether a test is of Python's numbers still, when all that can be a tensor again is one."""
    changed = {n for node, _ in changes for n in ast.walk(node)}
    names = (n for n in ast.walk(test) if isinstance(n, ast.Name) and n not in changed)
    return any(_number_of_tensor(site, n.id) is not None for n in names)


def _item_of(node: ast.expr) -> ast.expr:
    """Return `x` of `x.item()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="item"), args=[]):
            return owner
    return node


def _whole(site: Site, node: ast.expr) -> str:
    """Return what `int(x)` is, as a tensor."""
    tensor = _item_of(node)
    is_whole = called(tensor) in {"argmax", "argmin", "numel"} or (_is_truth(tensor) and not _is_reckoned(site, node))
    return site.source(tensor) if is_whole else f"{site.atom(tensor)}.long()"


def _may_not_fit(site: Site, number: ast.expr) -> bool:
    return not _is_truth(_item_of(number)) and _whole(site, number).endswith(".long()")


def _is_truth(tensor: ast.expr) -> bool:
    return called(tensor) in {"any", "all"}


def _is_reckoned(site: Site, node: ast.expr) -> bool:
    """Whether something is computed with a number: two bools are added to a bool, not to a number."""
    above = site.parents().get(node)
    while isinstance(above, ast.Call):
        above = site.parents().get(above)
    return isinstance(above, (ast.BinOp, ast.UnaryOp, ast.AugAssign))


def _of_test(site: Site, asked: ast.expr) -> str:
    """Return what it takes for granted to ask for a test as a tensor."""
    said: dict[str, None] = {}  # in order
    names = (n.id for n in ast.walk(asked) if isinstance(n, ast.Name))
    numbers = [call for name in names if (call := _number_of_tensor(site, name)) is not None]
    for node in (n for part in (asked, *numbers) for n in ast.walk(part)):
        match node:
            case ast.Call(func=ast.Attribute(attr="equal"), args=[one, other]) if of_torch(node):
                said[f"`{site.source(one)}` and `{site.source(other)}` have one shape and dtype"] = None
            case ast.Call(func=ast.Name(id="int"), args=[number]) if _may_not_fit(site, number):
                said[f"`{site.source(_item_of(number))}` fits int64"] = None
            case ast.Compare() if _is_of_floats(site, node):
                said["the test is computed in the tensor's dtype"] = None
            case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod(), right=divisor):
                if any(True for _ in _python_numbers(site, divisor)):
                    said[f"`{site.source(_item_of(divisor))}` is not 0"] = None
    if any(isinstance(n, ast.BoolOp) for n in ast.walk(asked)):
        said["all of the test is computed every time"] = None
    return sides.joined(*said)


def _of_dimensions(site: Site, asked: ast.expr) -> str:
    """Return that a test has none, where its text does not show that: torch.where would choose by each element."""
    return "" if _has_no_dimensions(site, asked) else "the test has no dimensions"


def _is_float(site: Site, node: ast.AST) -> bool:
    value = _number_of_tensor(site, node.id) if isinstance(node, ast.Name) else node
    return value is not None and called(value) in {"item", "float"}


def _is_of_floats(site: Site, node: ast.Compare) -> bool:
    """Whether Python numbers of tensors are compared with what is not the same in each of their dtypes."""
    parts = (node.left, *node.comparators)
    is_python = any(_is_float(site, n) for part in parts for n in ast.walk(part))
    others = [part for part in parts if not _is_float(site, part)]
    is_alone = len(others) == len(parts) - 1
    return is_python and not (is_alone and all(_is_in_every_dtype(n) for n in others))


def _is_in_every_dtype(node: ast.expr) -> bool:
    """Whether a number is the same in the floating dtypes with the fewest digits."""
    number = sides.without_sign(node)
    value = number.value if isinstance(number, ast.Constant) else None
    if not isinstance(value, (int, float)) or abs(value) > _SMALL:
        return False
    return value == int(value) or (abs(value * 4) <= _SMALL and value * 4 == int(value * 4))


def _has_no_dimensions(  # noqa: C901, PLR0912 -- one for each kind of syntax
    site: Site, node: ast.expr, depth: int = 10
) -> bool:
    """Whether a test is one bool for sure."""
    match node:
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.BoolOp(values=parts):
            pass
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return True
        case ast.Compare(left=left, comparators=others):
            parts = [left, *others]
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.Call(func=ast.Name(id="bool" | "float" | "int"), args=[inner]):
            parts = [_item_of(inner)]
        case ast.Call(func=ast.Attribute(value=owner, attr="item"), args=[]):
            parts = [owner]
        case ast.Call(func=ast.Attribute(attr="equal" | "allclose")) if of_torch(node):
            return True
        case ast.Call(args=[_], keywords=[]) if of_torch(node):
            return called(node) in _OVER_ALL
        case ast.Call(func=ast.Attribute(value=inner, attr="abs" | "sqrt" | "exp" | "log" | "detach"), args=[]):
            parts = [inner]
        case ast.Name(id=name) if given := _given_before(site, name):
            parts = given
        case ast.Attribute(value=ast.Call(func=ast.Attribute(attr="finfo" | "iinfo"))):
            return True
        case _:
            return is_drawn(node) or isinstance(node, ast.Constant) or has_no_dimensions(node)
    return depth > 0 and all(_has_no_dimensions(site, part, depth - 1) for part in parts)


def _given_before(site: Site, name: str) -> list[ast.expr]:
    """Return all that a name is assigned before the statement; empty where that is not all that may change it."""
    if site.function is None or name in parameters(site.function) or any(isinstance(s, _LOOPS) for s in site.around):
        value = site.value_of(name)
        return [value] if value else []
    before = [n for n in site.uses().stores.get(name, ()) if n < site.statement.lineno]
    values = [v for v in site.uses().values.get(name, ()) if v.lineno < site.statement.lineno]
    return values if len(values) == len(before) else []


def _guards_itself(node: ast.BoolOp) -> bool:
    """Whether a later part of `and` and `or` may be an error where an earlier one has decided."""
    asked = [n for value in node.values[:-1] for n in ast.walk(value)]
    later = [n for value in node.values[1:] for n in ast.walk(value)]
    sizes = any(getattr(n, "attr", "") in _SIZES or getattr(n, "id", "") in _SIZES for n in asked)
    return sizes or any(isinstance(n, _RISKY) or called(n) in ("masked_select", "div", "reciprocal") for n in later)


def _is_surely_tensor(site: Site, node: ast.expr) -> bool:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner) | ast.Call(func=ast.Name(id="bool"), args=[inner, *_]):
            return _is_surely_tensor(site, inner)
        case ast.BoolOp(values=values):
            return any(_is_surely_tensor(site, value) for value in values)
    return site.is_tensor(node) or any(True for _ in _python_numbers(site, node)) or called(node) in _OF_A_TENSOR


def _python_numbers(site: Site, node: ast.expr) -> Iterator[Change]:
    """Calls that make a Python number of a tensor, each with the tensor; Python's random numbers as they are drawn."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="item")):
            yield node, site.atom(owner)
        case ast.Name(id=name) if (given := _number_of_tensor(site, name)) is not None:
            if memory.is_as_it_was(site, given):
                yield from ((node, text) for part, text in _python_numbers(site, given) if part is given)
        case ast.Call(func=ast.Name(id="int"), args=[number]) if site.is_tensor(_item_of(number)):
            yield node, _whole(site, number)
        case ast.Call(func=ast.Name(id="float"), args=[tensor]) if site.is_tensor(_item_of(tensor)):
            yield node, f"({site.source(_item_of(tensor))})"
        case ast.Call(func=function) if is_drawn(node):
            yield node, _as_drawn(site, BY_METHOD.get(dotted(function)) or site.source(node))
        case ast.Name(id=name) if (value := site.value_of(name)) is not None and is_drawn(value):
            yield node, _as_drawn(site, name)
        case _:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    yield from _python_numbers(site, part)


def _as_drawn(site: Site, number: str) -> str:
    """Return one of Python's random numbers as a tensor, with all its digits."""
    names = sorted({n.id for n in ast.walk(site.statement) if isinstance(n, ast.Name)} & site.tensors)
    device = next((f", device={n}.device" for n in names if site.defined_before(n)), "")
    return f"{site.torch}.as_tensor({number}, dtype={site.torch}.float64{device})"


def tensor_test(site: Site, cause: BreakCause, asked: ast.expr) -> str:
    """Return what a test that breaks the graph asks a tensor for, as a bool tensor; empty where it may be none."""
    return _asked_for(site, cause, asked)[0]
