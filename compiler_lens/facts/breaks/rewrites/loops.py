"""Rewrites of loops that a tensor ends."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.rewrites.assignments import (
    as_function,
    as_tuple,
    assignments,
    is_guarded,
    is_simple_value,
    new_value,
    runs_in_cond,
    stays_tensor,
)
from compiler_lens.facts.breaks.rewrites.site import Rewrite, Site
from compiler_lens.facts.breaks.rewrites.syntax import loads

_MOST_STATEMENTS = 60


def search(site: Site, node: ast.If, test: str) -> Rewrite | None:
    """Write `for …: …; if test: break` with a tensor that says whether it is over."""
    loop = site.around[-1] if site.around else None
    if not isinstance(loop, ast.For) or loop.orelse or node.orelse or len(node.body) != 1:
        return None
    if len(loop.body) > _MOST_STATEMENTS or node not in loop.body:
        return None
    number = loop.body.index(node)
    before, after = assignments(loop.body[:number]), assignments(loop.body[number + 1 :])
    both = [*(before or ()), *(after or ())]
    if before is None or after is None or not both or len({a.name for a in both}) != len(both):
        return None
    around, head = site.at(loop), site.head(loop)
    if not head or _is_read_elsewhere(site, loop) or is_guarded(site, node.test, both):
        return None
    if not all(is_simple_value(a.value) and stays_tensor(site, a) and around.defined_before(a.name) for a in both):
        return None
    done = site.free("done")
    device = next((f", device={a.name}.device" for a in both if a.name in site.tensors), "")
    lines = [f"{done} = {site.torch}.zeros((), dtype={site.torch}.bool{device})", *head]
    steps = [f"    {a.name} = {site.torch}.where({done}, {a.name}, {new_value(site, a)})" for a in both]
    lines += [*steps[: len(before)], f"    {done} = {done} | ({test})", *steps[len(before) :]]
    needs = "the loop then always runs to its end, and what it changes keeps its shape and dtype"
    return around.rewrite(lines, needs)


def _is_read_elsewhere(site: Site, loop: ast.For) -> bool:
    """Whether what the loop counts by may be read after it: it then has another value, as the loop does not stop."""
    names = [n for n in ast.walk(loop.target) if not isinstance(n, (ast.Tuple, ast.List, ast.expr_context))]
    if not all(isinstance(n, ast.Name) for n in names):
        return True
    return any(len(site.loads(n.id)) > len(loads(loop, n.id)) for n in names if isinstance(n, ast.Name))


def while_loop(site: Site, node: ast.While, test: str) -> Rewrite | None:
    """Write a `while` that a tensor ends as torch's `while_loop`."""
    body = assignments(node.body)
    if body is None or node.orelse or not all(runs_in_cond(a.value) for a in body):
        return None
    names = [a.name for a in body]
    if not all(site.defined_before(n) and n in site.tensors for n in names):
        return None
    proceed, step = site.free("proceed"), site.free("step")
    lines = [f"def {proceed}({', '.join(names)}):", f"    return {test}"]
    lines += as_function(site, step, names, body, names)
    lines[-1] = f"    return {as_tuple(names)}"
    lines.append(f"{as_tuple(names)} = {site.torch}._higher_order_ops.while_loop({proceed}, {step}, {as_tuple(names)})")
    return site.rewrite(lines, "what the loop changes keeps its shape and dtype")
