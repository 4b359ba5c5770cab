"""A branch that computes nothing: it counts, or says something, and leaves, so `torch.where` has nothing to choose."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from compiler_lens.facts.breaks.remedies import Shown
from compiler_lens.facts.breaks.rewrites.site import NOTHING_SEEN, SeenTensors, Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, is_boolean
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

_LONGEST = 100  # characters of a line that advice has in it
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.expr_context)
_SAID = {"print": "print", "sys.stdout.write": "print", "warnings.warn": "warn"}
_LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})
_LOGGERS = frozenset({"logging", "logger", "log", "_logger", "_log"})
_NUMBERS = frozenset({"item", "tolist", "int", "float", "bool", "len", "size", "numel"})
_EFFECTS = frozenset({"count", "set the flag", "print", "log", "warn"})
_LEAVING = frozenset({"raise", "stop"})


def told(site: Site, branch: ast.If) -> Shown | None:
    """Return what a branch is there for that only has side effects, or leaves with nothing; None for any other."""
    does = _does(site, branch)
    if does is None:
        return None
    effects = _EFFECTS.intersection(does)
    match branch.body[-1]:
        case ast.Continue() | ast.Break() if effects:
            return Shown.SKIPS_COUNTED if effects == {"count"} else Shown.SKIPS_TOLD
        case ast.Return(value=value) if not effects:
            return Shown.TELLS if _gives_nothing(value) else None
    if effects == {"count"} and _LEAVING.isdisjoint(does):
        return Shown.COUNTS
    return Shown.TELLS if effects else None


def words_for(sources: Sources, at: SourceLine, seen: SeenTensors = NOTHING_SEEN) -> Mapping[str, str]:
    """Return what advice on such a branch says in the user's names: what it asks for, what it does, and the count."""
    try:
        site = site_at(sources, at, seen)
    except RecursionError:
        return {}
    branch = site.statement if site else None
    does = _does(site, branch) if site and isinstance(branch, ast.If) else None
    if site is None or does is None or not isinstance(branch, ast.If):
        return {}
    found = {
        "asked": _listed([f"`{name}`" for name in _asked(site, branch.test)]),
        "does": _listed(["test", *does]),
        "count": next(filter(None, (_counted(site, branch.test, one) for one in branch.body)), ""),
    }
    return {key: text for key, text in found.items() if text}


def _does(site: Site, branch: ast.If) -> Sequence[str] | None:
    """Return what a branch does, a verb each; None where it computes something, too."""
    verbs = [_verb(site, one) for one in branch.body] if not branch.orelse else [None]
    known = [verb for verb in verbs if verb is not None]
    return tuple(filter(None, dict.fromkeys(known))) if len(known) == len(verbs) else None


def _verb(site: Site, statement: ast.stmt) -> str | None:  # noqa: PLR0911 -- one for each kind
    match statement:
        case ast.Expr(value=ast.Call(func=func)) if said := _said(func):
            return said
        case ast.AugAssign() if _is_count(site, statement):
            return "count"
        case ast.Assign(targets=[ast.Attribute()], value=ast.Constant(value=bool())):
            return "set the flag"
        case ast.Raise():
            return "raise"
        case ast.Return(value=value) if value is None or all(isinstance(n, _PLAIN) for n in ast.walk(value)):
            return "stop"
        case ast.Break():
            return "stop"
        case ast.Pass() | ast.Continue() | ast.Expr(value=ast.Constant()):
            return ""
    return None


def _said(function: ast.expr) -> str:
    """Return what a call does that is a message by its name; empty for any other."""
    owner, _, level = dotted(function).rpartition(".")
    is_logged = level in _LEVELS and owner.rpartition(".")[2].lower() in _LOGGERS
    return "log" if is_logged else _SAID.get(dotted(function), "")


def _is_count(site: Site, statement: ast.AugAssign) -> bool:
    """Whether a statement counts with an int, as far as its text shows: `x += 1` of a tensor computes."""
    match statement:
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=ast.Constant(value=int())):
            values = site.uses().values.get(target.id, ()) if isinstance(target, ast.Name) else ()
            of_int = [one for one in values if isinstance(one, ast.Constant) and isinstance(one.value, int)]
            return bool(of_int) or (isinstance(target, (ast.Attribute, ast.Subscript)) and not site.is_tensor(target))
    return False


def _gives_nothing(value: ast.expr | None) -> bool:
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return any(one is None or (isinstance(one, ast.Constant) and one.value is None) for one in parts)


def _asked(site: Site, test: ast.expr) -> Sequence[str]:
    """Return the names of the function's own that a test asks for: tensors, if it is known which of them are."""
    found = dict.fromkeys(name for name in _names(test) if name.partition(".")[0] in site.local())
    names = [name for name in found if name.partition(".")[0] not in {"self", "cls"}]
    return [name for name in names if name in site.tensors] or names or list(found)


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names and the attributes that an expression reads, in the order of the text."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner)):
            yield from _names(owner)
            for one in (*node.args, *(word.value for word in node.keywords)):
                yield from _names(one)
        case ast.Call():
            for one in (*node.args, *(word.value for word in node.keywords)):
                yield from _names(one)
        case ast.Name() | ast.Attribute() if name := dotted(node):
            yield name
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _names(child)


def _counted(site: Site, test: ast.expr, statement: ast.stmt) -> str:
    """Return the line that counts in a tensor; empty where the test is not seen to be one of tensors."""
    match statement:
        case ast.AugAssign(target=target, op=op, value=ast.Constant(value=int(number))) if _is_count(site, statement):
            name, asked = site.source(target), _as_tensor(site, test)
            factor = "" if number == 1 else f"{number} * "
            line = f"{name} = {name} {'+' if isinstance(op, ast.Add) else '-'} {factor}({asked})"
            return line if asked and len(line) <= _LONGEST else ""
    return ""


def _as_tensor(site: Site, test: ast.expr) -> str:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call() as inner) if called(inner) in {"any", "all"}:
            return f"~{site.source(inner)}"
        case ast.Compare(left=ast.Call(func=ast.Attribute(value=value, attr="item"), args=[]), ops=[_]):
            changes = [(test.left, site.atom(value))]
            is_one = sum(called(call) in _NUMBERS for call in calls_in(test)) == 1
            return site.edited(test, changes) if is_one and is_boolean(test) else ""
    is_of_numbers = any(called(call) in _NUMBERS for call in calls_in(test))
    return site.source(test) if is_boolean(test) and not is_of_numbers else ""


def _listed(items: Sequence[str]) -> str:
    *others, last = items or [""]
    return f"{', '.join(others)} and {last}" if others else last
