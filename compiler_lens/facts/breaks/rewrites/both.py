"""Both sides of a branch, computed by whatever functions they call, and what is chosen of them: for a trial to judge."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.assignments import has_effect
from compiler_lens.facts.breaks.rewrites.branches import tensor_test
from compiler_lens.facts.breaks.rewrites.groups import stays_in
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import dotted
from compiler_lens.recording.model import BreakCause

_PRICE = (
    "both sides are computed at each call: neither may raise, or have no finite gradient, where the other one is meant"
)
_MOST = 20  # statements


class _Side(Struct, frozen=True):
    """What one side of a branch assigns that is asked for after it."""

    lines: tuple[str, ...]
    names: dict[str, str]  # by the target's text: what holds it


def both_sides(site: Site, cause: BreakCause) -> Rewrite | None:
    """Compute what is under `if test:`, and under its `else:`, at each call, and choose by torch.where."""
    match site.statement:
        case ast.If(test=asked, body=body, orelse=orelse) if not site.edited(site.statement).startswith("elif"):
            pass
        case _:
            return None
    test = tensor_test(site, cause, asked)
    statements = [*body, *orelse]
    is_simple = all(isinstance(one, (ast.Assign, ast.AugAssign)) for one in statements) and len(statements) <= _MOST
    if not test or not is_simple or any(map(has_effect, _calls(statements))):
        return None
    first, second = _side(site, body, "if"), _side(site, orelse, "else")
    if first is None or second is None or (orelse and first.names.keys() != second.names.keys()):
        return None
    if not first.names or not all(_is_there(site, name) for name in first.names if not orelse):
        return None
    asks = site.free(_named(asked))
    chosen = [
        f"{target} = {site.torch}.where({asks}, {name}, {second.names.get(target, target)})"
        for target, name in first.names.items()
    ]
    return site.rewrite([f"{asks} = {test}", *first.lines, *second.lines, *chosen], _PRICE)


def _calls(statements: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    return (call for one in statements for call in syntax.calls_in(one))


def _is_there(site: Site, target: str) -> bool:
    """Whether something has a value before the branch, as far as the text shows."""
    return not target.isidentifier() or site.defined_before(target)


def _named(asked: ast.expr) -> str:
    names = [n.id for n in ast.walk(asked) if isinstance(n, ast.Name) and n.id not in ("torch", "self")]
    return f"has_{names[0]}" if names else "is_so"


def _side(site: Site, body: Sequence[ast.stmt], suffix: str) -> _Side | None:
    """Return a side's statements with names of their own for what is asked for after them."""
    renamed: dict[str, str] = {}  # by the name: in what follows it
    names: dict[str, str] = {}
    lines: list[str] = []
    for one in body:
        changes: list[Change] = []
        value = one.value if isinstance(one, (ast.Assign, ast.AugAssign)) else one
        changes += [
            (n, renamed[n.id]) for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in renamed
        ]
        for leaf in _leaves(one):
            text = site.source(leaf)
            if isinstance(leaf, ast.Name) and stays_in(site, site.statement, leaf.id):
                continue
            if not _is_plain(leaf):
                return None
            if isinstance(one, ast.AugAssign):
                return None
            names[text] = names.get(text) or site.free(f"{_word(text)}_{suffix}")
            changes.append((leaf, names[text]))
            if isinstance(leaf, ast.Name):
                renamed[leaf.id] = names[text]
        lines += site.dedented(one, changes)
    return _Side(tuple(lines), names)


def _leaves(one: ast.stmt) -> list[ast.expr]:
    match one:
        case ast.Assign(targets=[ast.Tuple(elts=leaves)]):
            return leaves
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            return [target]
    return []


def _is_plain(leaf: ast.expr) -> bool:
    match leaf:
        case ast.Name():
            return True
        case ast.Subscript(value=ast.Name(), slice=ast.Constant()):
            return True
    return False


def _word(text: str) -> str:
    return "_".join(filter(None, "".join(c if c.isalnum() else " " for c in text).split()))
