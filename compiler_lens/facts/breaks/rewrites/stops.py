"""Loops that a tensor ends early, `if err < tol: break`: all rounds, of which those after the end change nothing."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.assignments import OPERATORS, does_more
from compiler_lens.facts.breaks.rewrites.both import tensor_asked
from compiler_lens.facts.breaks.rewrites.nothing import gone_past
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import calls_in, loads, parameters
from compiler_lens.recording.model import BreakCause

_PRICE = (
    "all rounds of the loop are computed, also those after its end: none may raise, or have no finite gradient; counts"
    " that it keeps are tensors"
)
_MOST = 20  # statements


def goes_on(site: Site, cause: BreakCause) -> Rewrite | None:
    """Let compiled code go on past `if not m.any(): break`: the rounds that follow may change nothing."""
    match site.statement:
        case ast.If(test=test, body=[ast.Break() | ast.Continue()], orelse=[]):
            pass
        case _:
            return None
    is_elif = site.edited(site.statement).startswith("elif")
    return None if is_elif else gone_past(site, cause, test, "that changes nothing")


def all_rounds(site: Site, cause: BreakCause) -> Rewrite | None:
    """Write a loop with a `break` that a tensor decides on as one of all rounds, and a mask that says if it goes on."""
    node, loop = site.statement, site.around[-1] if site.around else None
    match node:
        case ast.If(test=test, body=[*before, ast.Break()], orelse=[]) if isinstance(loop, ast.For):
            asked = tensor_asked(site, cause, test)
        case _:
            return None
    if not asked or loop.orelse or node not in loop.body or site.function is None or len(loop.body) > _MOST:
        return None
    rounds = _Rounds(site, loop)
    place, ends = loop.body.index(node), site.free("ends")
    lines: list[str] = []
    is_known = all(rounds.take(one, rounds.going, lines) for one in loop.body[:place])
    lines.append(f"{ends} = {asked}")
    is_known &= all(rounds.take(one, f"{rounds.going} & {ends}", lines) for one in before)
    lines.append(f"{rounds.going} = {rounds.going} & ~{ends}")
    is_known &= all(rounds.take(one, rounds.going, lines) for one in loop.body[place + 1 :])
    head = site.head(loop)
    if not is_known or not head or not rounds.kept:
        return None
    first = replace(site, statement=loop, following=())
    begin = f"{rounds.going} = {site.torch}.ones((), dtype={site.torch}.bool{rounds.device()})"
    return first.rewrite([begin, *head, *(f"    {line}" for line in lines)], _PRICE)


class _Rounds:
    """The statements of a loop, with what they assign kept as it is after the end."""

    def __init__(self, site: Site, loop: ast.For) -> None:
        self.going = site.free("going")
        self.kept: list[str] = []  # names that have a value from before
        self._site, self._loop = site, loop

    def take(self, one: ast.stmt, going: str, lines: list[str]) -> bool:
        """Add a statement's lines; return whether it is known."""
        site, found = self._site, self._assigned(one)
        if found is None or any(map(does_more, calls_in(one))):
            return False
        named, values = found
        if not any(map(self._is_kept, named)):
            lines += site.dedented(one)
            return True
        if len(values) != len(named):
            return False
        if len(named) > 1:  # the values are of what the names were
            news = [site.free(f"new_{name}") for name in named]
            lines.append(f"{', '.join(news)} = {', '.join(values)}")
            values = news
        for name, value in zip(named, values, strict=True):
            if self._is_kept(name):
                self.kept.append(name)
                lines.append(f"{name} = {site.torch}.where({going}, {value}, {name})")
            else:
                lines.append(f"{name} = {value}")
        return True

    def _assigned(self, one: ast.stmt) -> tuple[list[str], list[str]] | None:
        """Return the names that a statement assigns, and what it gives each; no values where one gives several."""
        site = self._site
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return [name], [site.source(value)]
            case ast.Assign(targets=[ast.Tuple(elts=leaves)], value=value):
                names = [leaf.id for leaf in leaves if isinstance(leaf, ast.Name)]
                several = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(names) else []
                return (names, [site.source(each) for each in several]) if len(names) == len(leaves) else None
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if type(op) in OPERATORS:
                is_given = site.function is not None and name in parameters(site.function)
                text = site.source(value)
                by = text if isinstance(value, (ast.Name, ast.Constant, ast.Call)) else f"({text})"
                return None if is_given else ([name], [f"{name} {OPERATORS[type(op)]} {by}"])
        return None

    def _is_kept(self, name: str) -> bool:
        """Whether a name's value of one round is asked for in the next one, or after the loop."""
        inner = self._of_loop(name)
        stores = [line for line in self._site.uses().stores.get(name, ()) if self._loop.lineno < line]
        first = min(stores, default=0)
        is_before = any(n.lineno < first for n in inner) or any(
            self._is_augmented(one, name) for one in self._loop.body
        )
        is_after = any(n.lineno > (self._loop.end_lineno or 0) for n in self._site.loads(name))
        reads_itself = any(
            isinstance(one, ast.Assign) and loads(one.value, name) and one.lineno == first for one in self._loop.body
        )
        return is_before or is_after or reads_itself

    def _of_loop(self, name: str) -> Sequence[ast.Name]:
        return [n for one in self._loop.body for n in loads(one, name)]

    @staticmethod
    def _is_augmented(one: ast.stmt, name: str) -> bool:
        return isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name) and one.target.id == name

    def device(self) -> str:
        """Return where the mask is to be: beside a tensor that the loop keeps, where one is known."""
        known = next((name for name in self.kept if name in self._site.tensors), "")
        return f", device={known}.device" if known else ""
