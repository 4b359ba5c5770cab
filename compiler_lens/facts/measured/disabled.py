"""Functions that cannot be compiled at all: `torch.compiler.disable`, for a trial when all else has been tried.

What is left of such a function is many graph breaks, recompiles and pieces between. With the mark it is one break, at
its call, and what stands around it is compiled. A network is no such function: what breaks it is to be mended.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_at
from compiler_lens.facts.breaks.rewrites.syntax import OF_A_GENERATOR, Function, dotted
from compiler_lens.facts.measured.bookkeeping import name_at
from compiler_lens.facts.measured.called import qualified
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import GraphStage, Recording, SourceLine
from compiler_lens.recording.own_files import package_of
from compiler_lens.recording.source_text import COMPREHENSIONS, LOOPS, Sources, first_line, sources

_ABOVE = frozenset({"staticmethod", "classmethod", "property", "torch.no_grad", "torch.inference_mode"})
_BY_PYTHON = ("forward", "__")  # names that nobody has to write for a call
_LONGEST = 60  # characters of a reason
# Of torch's types of breaks, those that say nothing to whoever reads a mark.
_WORDS: Mapping[str, str] = {
    "Attempted to call function marked as skipped": "it calls what torch does not trace",
    "Data dependent operator": "it asks for a tensor's number",
    "Data-dependent branching": "it branches on a tensor's value",
    "Dynamic shape operator": "its sizes depend on values",
    "Unsupported Tensor.item() call with capture_scalar_outputs=False": "it asks for a tensor's number",
    "invalid call to builtin op handler": "it calls a builtin of Python's as torch does not trace",
}
_MOST = 3  # functions that lead to one line

Place = tuple[str, int]


class Mark(Struct, frozen=True):
    """The mark on a function."""

    lines: Lines
    name: str  # of the function, qualified
    price: str
    may_lose: frozenset[tuple[str, str]]  # lines, by file and text, of which something may be in no graph any more


class Disabling:
    """The functions of a recording that can be marked.

    Args:
        recording: a run.
        own: what is the user's.
        computed: their lines of which something is in a graph.
    """

    def __init__(self, recording: Recording, own: Ownership, computed: frozenset[SourceLine]) -> None:
        self._known, self._computed = sources(recording), computed
        self._sites, self._graphs = recording.sites, recording.graphs
        self._stacks = {one.compile_id: one.stack for one in recording.compilations}
        self._texts = {file: text for file, text in self._known.texts.items() if own.owns(file)}
        self._own = own

    @functools.cached_property
    def _trees(self) -> Mapping[str, ast.Module]:
        return {name: tree for name, text in self._texts.items() if (tree := parsed(text))}

    @functools.cached_property
    def _uses(self) -> Mapping[str, Sequence[Place]]:
        return _uses(self._trees)

    def marks(self, chain: Sequence[SourceLine], reason: str) -> Iterator[Mark]:
        """Yield marks on functions that lead to a line, the innermost first.

        Args:
            chain: the calls that lead there, outermost first, and the line.
            reason: torch's type of the break.
        """
        own = self.from_given([at for at in chain if self._own.owns(at.file)])
        found: dict[Place, Mark] = {}
        for number in reversed(range(len(own))):
            if any(_is_in_a_loop(at, self._known) for at in own[:number]):
                continue
            at, site = own[number], _site(self._known, own[number])
            function = site.function if site else None
            if site and function and (at.file, function.lineno) not in found and self._is_markable(at, site, function):
                found[at.file, function.lineno] = self._mark(at, site, function, reason)
        yield from list(found.values())[:_MOST]

    def from_given(self, chain: Sequence[SourceLine]) -> Sequence[SourceLine]:
        """Return the calls from what torch.compile was given on; none where it is not among them."""
        given = [n for n, at in enumerate(chain) if (site := _site(self._known, at)) and self._is_given(at.file, site)]
        return chain[given[-1] :] if given else ()

    def _is_given(self, file: str, site: Site) -> bool:
        lines = _lines(site.function) if site.function else ()
        return any(one.defined.file == file and one.defined.line in lines for one in self._sites)

    def _is_markable(self, at: SourceLine, site: Site, function: Function) -> bool:
        tree = parsed(site.text)
        marks = [dotted(getattr(one, "func", one)) for one in function.decorator_list]
        is_plain = isinstance(function, ast.FunctionDef) and _ABOVE.issuperset(marks)
        if tree is None or not is_plain or package_of(at.file) or not site.has_torch_at_top:
            return False
        if not name_at(site.text, function.lineno) or any(
            isinstance(node, OF_A_GENERATOR) for node in ast.walk(function)
        ):
            return False
        if self._is_given(at.file, site) or INNER in function.name:  # which was made to be compiled
            return False
        return not self.is_network(at.file, function) and not _asks_for_layers(tree, function)

    def is_network(self, file: str, function: Function) -> bool:
        """Return whether something is computed with parameters in the function, or in what it calls."""
        lines = _lines(function)
        below = {
            one for one, stack in self._stacks.items() if any(at.file == file and at.line in lines for at in stack)
        }
        for graph in self._graphs:
            if graph.stage is GraphStage.DYNAMO:
                is_below = graph.compile_id in below  # torch compiles by itself what a broken function calls
                within = [
                    n for n in graph.all_ops if is_below or any(at.file == file and at.line in lines for at in n.source)
                ]
                if any(one.op == "call_module" or any("_parameters_" in name for name in one.inputs) for one in within):
                    return True
        return False

    def _mark(self, at: SourceLine, site: Site, function: Function, reason: str) -> Mark:
        name = name_at(site.text, function.lineno)
        reason = _WORDS.get(reason, reason)
        said = reason if len(reason) <= _LONGEST and reason.isprintable() and not set('"\\') & set(reason) else ""
        head = site.text.split("\n")[function.lineno - 1].strip()
        mark = f'@{site.torch}.compiler.disable(reason="{said or "it breaks the graph"}")'
        price = (
            f"`{name}` runs as Python then, by your own mark, with all that it calls: nothing of it is compiled, and"
            " the graph of its caller is cut at its call"
        )
        return Mark(
            Lines(at.file, function.lineno, (head,), (mark, head)), name, price, self._may_lose(at.file, function)
        )

    def _may_lose(self, file: str, function: Function) -> frozenset[tuple[str, str]]:
        """Return the lines of a function, and of those that nothing else calls, that stand nowhere else."""
        within = _with_its_own(self._trees, self._uses, file, function)
        inside = {at for at in self._computed if any(at.file == one and at.line in lines for one, lines in within)}
        return frozenset(_texts(inside) - _texts(self._computed - inside))


def _texts(lines: frozenset[SourceLine] | set[SourceLine]) -> set[tuple[str, str]]:
    return {(at.file, at.code.strip()) for at in lines}


def _site(known: Sources, at: SourceLine) -> Site | None:
    try:
        return site_at(known, at)
    except RecursionError:
        return None


def _is_in_a_loop(at: SourceLine, known: Sources) -> bool:
    """Whether a call is made again and again: a graph break at each costs more than what it spares."""
    site = _site(known, at)
    if site is None:
        return True
    inner = ast.walk(site.statement)
    return (
        isinstance(site.statement, LOOPS)
        or any(isinstance(one, LOOPS) for one in site.around)
        or any(isinstance(node, COMPREHENSIONS) for node in inner)
    )


def _lines(function: Function) -> range:
    return range(first_line(function), (function.end_lineno or function.lineno) + 1)


def _asks_for_layers(tree: ast.Module, function: Function) -> bool:
    """Whether a method reads what its class makes of `torch.nn`: layers, parameters."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and function in node.body]
    layers: set[str] = set()
    for node in (inner for one in classes for inner in ast.walk(one)):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Call(func=func)):
                if dotted(func).startswith(("nn.", "torch.nn.")):
                    layers.add(name)
    return any(isinstance(node, ast.Attribute) and node.attr in layers for node in ast.walk(function))


def _with_its_own(
    trees: Mapping[str, ast.Module], uses: Mapping[str, Sequence[Place]], file: str, function: Function
) -> Sequence[tuple[str, range]]:
    """Return the lines of a function, and of all that only it and these call, by their names."""
    found = [(file, _lines(function))]
    named = [(at, one) for at, tree in trees.items() for one in qualified(tree).values()]
    named = [(at, one) for at, one in named if not one.name.startswith(_BY_PYTHON)]
    is_more = True
    while is_more:
        more = [
            (at, _lines(one))
            for at, one in named
            if (at, _lines(one)) not in found
            and (places := uses.get(one.name))
            and all(any(where == of and line in lines for of, lines in found) for where, line in places)
        ]
        found += more
        is_more = bool(more)
    return found


def _uses(trees: Mapping[str, ast.Module]) -> Mapping[str, Sequence[Place]]:
    """Return where each name is read."""
    uses: dict[str, list[Place]] = {}
    for file, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    uses.setdefault(name, []).append((file, node.lineno))
    return uses
