"""A branch that compiled code takes for granted, with a check that it is so: what is left when nothing else helps.

Without torch.compile the line does what it did. In compiled code a call that was meant for the other branch is an
error, never another result. Which branch it is only a trial shows: the check of the wrong one fails there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.branches import tensor_test
from compiler_lens.facts.breaks.rewrites.site import Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, is_boolean, is_pure_call
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

_VALUES = ("Data-dependent branching", "Data dependent operator", "Unsupported Tensor.item() call")
_SIZES = "Could not guard on data-dependent expression"
_OF_PYTHON = frozenset({"isinstance", "hasattr", "len"})
_INVERSE = {ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "=="}
_ON_A_GPU = "; on a GPU a failed check ends the process's CUDA context"


class Assumption(Struct, frozen=True):
    """A test whose outcome is taken for granted in compiled code."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    price: str
    needs_import: bool = False

    def lines(self, at: SourceLine) -> Lines:
        """Return the edit of a line's file."""
        return Lines(at.file, at.line, self.before, self.after, imports="torch" if self.needs_import else "")


class _Asked(Struct, frozen=True):
    """What of a test the compiler cannot know."""

    node: ast.expr
    before: tuple[str, ...] = ()  # what has to hold for it to be asked


def assumed(at: SourceLine, cause: BreakCause, known: Sources) -> Iterator[Assumption]:
    """Yield a change for each outcome of the test at a line; none where it is not clear what the test asks."""
    is_of_sizes = _SIZES in f"{cause.gb_type} {cause.explanation}"
    if not is_of_sizes and not cause.gb_type.startswith(_VALUES):
        return
    try:
        site = site_at(known, at)
        if site is None or site.function is None or any(type(one).__name__.startswith("Try") for one in site.around):
            return
        for outcome in (True, False):
            found = _of_sizes(site, outcome=outcome) if is_of_sizes else _of_values(site, cause, outcome=outcome)
            if found is not None:
                yield found
    except RecursionError:  # an expression nested deeper than Python's stack
        return


def _of_values(site: Site, cause: BreakCause, *, outcome: bool) -> Assumption | None:
    """Check on the device what a branch, or a number that says yes or no, asks a tensor for."""
    match site.statement:
        case ast.If(test=test) if not site.edited(site.statement).startswith("elif"):
            asked = _asked(site, test)
            tensor = tensor_test(site, cause, asked.node)
        case ast.Assign(targets=[ast.Name()], value=ast.Call() as value):
            asked, tensor = _Asked(value), _of_number(site, value)
        case _:
            return None
    if not tensor:
        return None
    here = f"{site.torch}.compiler.is_compiling()"
    text = site.source(asked.node)
    inner = text if isinstance(asked.node, (ast.Call, ast.Name, ast.Attribute, ast.Subscript)) else f"({text})"
    new = f"{here} or {inner}" if outcome else f"not {here} and {inner}"
    is_whole = asked.node is getattr(site.statement, "test", None) or asked.node is getattr(
        site.statement, "value", None
    )
    checked = tensor if outcome else f"~({tensor})"
    check = f"{site.torch}._assert_async({checked}, {checked!r})"  # without a message AOTAutograd drops it
    head = " and ".join((here, *asked.before))
    lines = [f"if {head}:", f"    {check}", *site.lines([(asked.node, new if is_whole else f"({new})")])]
    return _assumption(site, lines, text, outcome=outcome, more=_ON_A_GPU)


def _of_number(site: Site, value: ast.Call) -> str:
    """Return the tensor of `mask.any().item()`, which is true or false."""
    match value:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[], keywords=[]):
            pass
        case ast.Call(func=ast.Name(id="bool"), args=[tensor], keywords=[]):
            pass
        case _:
            return ""
    is_known = is_boolean(tensor) or (called(tensor) in {"any", "all"} and isinstance(tensor, ast.Call))
    return site.source(tensor) if is_known and (not isinstance(tensor, ast.Call) or is_pure_call(tensor)) else ""


def _of_sizes(site: Site, *, outcome: bool) -> Assumption | None:
    """Let torch check, and so know, what a branch asks of sizes that it does not know."""
    match site.statement:
        case ast.If(test=test) if not site.edited(site.statement).startswith("elif"):
            asked = _asked(site, test)
        case _:
            return None
    match asked.node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _INVERSE:
            text = site.source(asked.node)
            inverse = f"{site.source(left)} {_INVERSE[type(op)]} {site.source(right)}"
        case _:
            return None
    if any(called(call) not in {"size", "len", "dim", "numel"} for call in calls_in(asked.node)):
        return None
    head = " and ".join((f"{site.torch}.compiler.is_compiling()", *asked.before))
    lines = [f"if {head}:", f"    {site.torch}._check({text if outcome else inverse})", *site.lines()]
    return _assumption(site, lines, text, outcome=outcome)


def _assumption(site: Site, lines: list[str], text: str, *, outcome: bool, more: str = "") -> Assumption | None:
    found = site.rewrite(lines)
    if found is None or "\n" in text:
        return None
    price = (
        f"in compiled code `{text}` is taken to be {'true' if outcome else 'false'}, as in this run; a call for which"
        f" it is not is an error there{more}"
    )
    return Assumption(found.before, found.after, price, needs_import=not site.imports_torch)


def _asked(site: Site, test: ast.expr) -> _Asked:
    """Return the last part of a test, where all before it is Python's alone: `b` of `a is not None and b`."""
    match test:
        case ast.BoolOp(op=op, values=[*before, last]) if all(_is_plain(site, one) for one in before):
            parts = [f"({site.source(one)})" for one in before]
            inner = _asked(site, last)
            kept = parts if isinstance(op, ast.And) else [f"not {part}" for part in parts]
            return _Asked(inner.node, (*kept, *inner.before))
    return _Asked(test)


def _is_plain(site: Site, node: ast.expr) -> bool:
    """Whether a part of a test may be asked twice, and is no tensor."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    compares = [n for n in ast.walk(node) if isinstance(n, ast.Compare)]
    is_identity = bool(compares) and all(isinstance(op, (ast.Is, ast.IsNot)) for one in compares for op in one.ops)
    are_calls_known = all(called(call) in _OF_PYTHON for call in calls_in(node))
    return (
        are_calls_known
        and not any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))
        and (is_identity or not names & site.tensors)
    )
