"""Functions whose own frame alone Dynamo cannot trace: `torch.compiler.disable(recursive=False)`, for a trial."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.rewrites.site import Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import OF_A_GENERATOR, Function, calls_in, dotted
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import GraphStage, Node, Recording, SourceLine
from compiler_lens.recording.source_text import Sources, syntax_if_known

_OF_NUMBERS = ("operator.", "torch.sym_", "math.")  # what a graph calls for numbers
_WRAPS = frozenset(("functools.wraps", "wraps"))


def computed_lines(recording: Recording, own: Ownership) -> frozenset[SourceLine]:
    """Return the user's lines of which something is computed in a graph that Dynamo captured."""
    return frozenset(_computed(recording, own))


def _computed(recording: Recording, own: Ownership) -> Iterator[SourceLine]:
    for graph in recording.graphs:
        if graph.stage is not GraphStage.DYNAMO:
            continue
        for node in graph.all_ops:
            theirs = [line for line in node.source if own.owns(line.file)]
            if theirs and not _is_of_numbers(node):
                yield theirs[-1]


def _is_of_numbers(node: Node) -> bool:
    """Return whether a node computes a number of numbers, as Python does: a size, a counter that is an input."""
    return not node.specs and node.target.startswith(_OF_NUMBERS)


def kept_out(at: SourceLine, known: Sources, computed: frozenset[SourceLine]) -> tuple[Lines, str] | None:
    """Return the mark on the function around a line, and its price.

    None where a tensor is computed in the function itself, which would run eagerly then, or nothing that it calls is
    seen to compute one.
    """
    try:
        site = site_at(known, at)
    except RecursionError:
        return None
    function = site.function if site else None
    tree = syntax_if_known(site.text) if site else None
    if site is None or tree is None or not isinstance(function, ast.FunctionDef) or not site.imports_torch:
        return None
    lines = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    computes = any(line.file == at.file and line.line in lines for line in computed)
    if computes or not _is_plain(function) or not _leads_to_tensors(function, tree, computed):
        return None
    return _mark(site, function, at), (
        f"`{function.name}` itself runs as Python, with a graph break at each call of it; what it calls is compiled by"
        " itself"
    )


def _is_plain(function: Function) -> bool:
    """Return whether a function returns when it was called, and is not what another mark makes of it."""
    is_marked = any(dotted(getattr(one, "func", one)) not in _WRAPS for one in function.decorator_list)
    return not is_marked and not any(isinstance(node, OF_A_GENERATOR) for node in ast.walk(function))


def _mark(site: Site, function: Function, at: SourceLine) -> Lines:
    head = site.text.split("\n")[function.lineno - 1].strip()
    return Lines(at.file, function.lineno, (head,), (f"@{site.torch}.compiler.disable(recursive=False)", head))


def _leads_to_tensors(function: Function, tree: ast.Module, computed: frozenset[SourceLine]) -> bool:
    """Return whether a function calls what it was given, or a function of which something is in a graph."""
    names = {line.function.rpartition(".")[2] for line in computed}
    given = {argument.arg for one in _around(function, tree) for argument in _parameters(one)} - {"self", "cls"}
    for call in calls_in(function):
        called = dotted(call.func)
        if called.rpartition(".")[2] in names or called in given:
            return bool(computed)
        if called.startswith(("self.", "cls.")) and "forward" in names:  # a module of its own
            return True
    return False


def _around(function: Function, tree: ast.Module) -> Iterator[Function]:
    """Yield the functions that a function stands in, and itself."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.lineno <= function.lineno <= (node.end_lineno or 0):
            yield node


def _parameters(function: Function) -> Iterator[ast.arg]:
    yield from (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
