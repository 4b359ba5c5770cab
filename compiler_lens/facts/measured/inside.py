"""What is worth compiling by itself, where what calls it cannot be: that runs as Python.

Post-processing, books and logging round a network break its graph again and again. Whoever writes such a program anew
compiles the network and leaves the rest alone.

    a chain of calls ──► the first function that leads to nothing that hurts ──► @torch.compile
    what torch.compile was given ──► is not given any more, or passed over
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import nodes_in, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import OF_A_GENERATOR, called
from compiler_lens.facts.measured.bookkeeping import name_at
from compiler_lens.facts.measured.disabled import Disabling
from compiler_lens.facts.measured.given import is_of_one
from compiler_lens.facts.measured.marked_inside import Inside, function_in, is_given
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import CompileSite, Graph, GraphStage, Node, Recording, SourceLine
from compiler_lens.recording.own_files import package_of
from compiler_lens.recording.source_text import Sources, sources

_LEAST = 4  # operators in a network's function: fewer are no graph's worth
_LEAST_OF_OTHERS = 20  # in another one: about 14 take as long eagerly as to launch a graph (torch 2.13, on a CPU)
_SHARE = 0.05  # of all operators
_MOST = 6  # functions that get a mark
_PLAIN = frozenset({"no_grad", "inference_mode", "enable_grad"})  # marks that a function may have
# Who mentions one of these may rely on the names that `torch.compile(module)` gives parameters.
_OF_ITS_WRAPPER = ("_orig_mod", "OptimizedModule", "state_dict", "torch.save", "save_pretrained")
# AOTAutograd compiles no double backward, and nothing that transforms or exports functions looks into what is compiled.
# With CUDA graphs a function that is called again, or another one, writes over what the last call returned.
_REFUSED = (
    "create_graph", "autograd.grad", "autograd.functional", "gradgradcheck", "torch.func", "functorch", "jit.trace",
    "jit.script", "symbolic_trace", "onnx.export", "torch.export", "reduce-overhead", '"max-autotune"',
    "'max-autotune'", "cudagraphs",
)  # fmt: skip

Place = tuple[str, str]  # a file, and the qualified name of a function in it
Chain = Sequence[SourceLine]  # calls, outermost first, and the line that they lead to


class FoundInside(Struct, frozen=True):
    """What can be compiled by itself, and the numbers of chains: the first that hurts, and those that are mended."""

    edit: Inside
    first: int
    taken: AbstractSet[int]


def inside(
    recording: Recording,
    disabling: Disabling,
    own: Ownership,
    hurting: Sequence[Chain],
    mended: AbstractSet[int] = frozenset(),
) -> Iterator[FoundInside]:
    """Yield what can be compiled by itself of each function that torch.compile was given.

    Args:
        recording: a run.
        disabling: its functions.
        own: what is the user's.
        hurting: the calls that lead to what breaks, or was compiled too often.
        mended: numbers of those that lead to what other changes mend.
    """
    chains = _Chains(recording, disabling, own)
    leading = [chains.functions(chains.whole(None, chain)) for chain in hurting]
    by_given: dict[Place, dict[Place, int]] = {}
    for number, functions in enumerate(leading):
        for one in functions if number not in mended else ():
            by_given.setdefault(functions[0], {}).setdefault(one, number)
    if any(word in text for text in chains.known.texts.values() for word in _REFUSED):
        return
    for given, dirty in by_given.items():
        inner = _worth(given, dirty, chains, recording, is_alone=len(by_given) == 1)
        inner = [one for one in inner if not _is_called_elsewhere(one, {*dirty, *inner}, chains.known)]
        edit = _edit(given, inner, _site_of(given, recording, chains.known), chains.known)
        if edit is not None:
            yield FoundInside(edit, min(dirty.values()), {n for n in mended if not {*inner}.isdisjoint(leading[n])})


class _Chains:
    """The calls of the user's functions that lead to lines."""

    def __init__(self, recording: Recording, disabling: Disabling, own: Ownership) -> None:
        self.known = Sources({file: text for file, text in sources(recording).texts.items() if own.owns(file)})
        self._disabling, self._own = disabling, own
        self._stacks = {one.compile_id: one.stack for one in recording.compilations}
        self._names: dict[tuple[str, int], str] = {}

    def whole(self, compile_id: CompileId | None, lines: Chain) -> Chain:
        """Return the calls of the user's functions from what torch.compile was given on."""
        above = self._stacks.get(compile_id, ()) if compile_id else ()
        return self._disabling.from_given(self.within((*above, *lines)))

    def within(self, lines: Chain) -> Chain:
        """Return the calls of the user's functions in what torch compiles by itself."""
        return [at for at in lines if self._own.owns(at.file)]

    def functions(self, chain: Chain) -> list[Place]:
        """Return the functions that a chain goes through."""
        return list(dict.fromkeys((at.file, self._name(at)) for at in chain))

    def is_worth(self, place: Place, operators: int) -> bool:
        """Return whether so many operators of a function are a graph's worth."""
        function = _function(place, self.known)
        is_network = function is not None and self._disabling.is_network(place[0], function)
        return operators >= (_LEAST if is_network else _LEAST_OF_OTHERS)

    def _name(self, at: SourceLine) -> str:
        if (at.file, at.line) not in self._names:
            text = self.known.texts.get(at.file, "")
            site = site_in(text, at.line)  # none at a `def`, with which the stack of what is compiled by itself ends
            line = site.function.lineno if site and site.function else at.line
            self._names[at.file, at.line] = name_at(text, line)
        return self._names[at.file, at.line]


def _worth(
    given: Place, dirty: Mapping[Place, int], chains: _Chains, recording: Recording, *, is_alone: bool
) -> Sequence[Place]:
    """Return what a function calls that leads to nothing that hurts, and is a graph's worth."""
    operators: Counter[Place] = Counter()  # in one graph, at most
    for graph in recording.graphs:
        here: Counter[Place] = Counter()
        for node in _of_inputs(graph) if graph.stage is GraphStage.DYNAMO else ():
            # The stack of what is compiled by itself does not show a caller of which nothing is compiled.
            chain = chains.whole(graph.compile_id, node.source) or (chains.within(node.source) if is_alone else ())
            functions = chains.functions(chain)
            if functions and (is_alone or functions[0] == given):
                here.update([one for one in functions if one not in dirty][:1])
        operators |= here
    most = [(one, many) for one, many in operators.most_common(_MOST) if many >= _SHARE * operators.total()]
    return [one for one, many in most if _may_have_a_mark(one, chains.known) and chains.is_worth(one, many)]


def _of_inputs(graph: Graph) -> Iterator[Node]:
    """Yield the operators of a graph whose result its inputs, or what it reads, have part in.

    The rest is the same in each call: what NumPy makes of numbers, and a cache of Python's would keep.
    """
    for nodes in (graph.nodes, *(one.nodes for one in graph.subgraphs)):
        reached = {one.name for one in nodes if one.op in {"placeholder", "get_attr"}}
        for node in nodes:  # in the order in which they run
            if node.op.startswith("call_") and not reached.isdisjoint(node.inputs):
                reached.add(node.name)
                yield node


def _is_called_elsewhere(place: Place, within: AbstractSet[Place], known: Sources) -> bool:
    """Whether a function is mentioned beside those that are about it: it would be compiled there, too.

    A module is called by no name of its own.
    """
    name = place[1].rpartition(".")[2]
    found = [(one[0], function) for one in within if (function := _function(one, known))]
    inside = {(file, line) for file, of in found for line in range(of.lineno, (of.end_lineno or of.lineno) + 1)}
    mentioned = (
        (file, node.lineno)
        for file, text in known.texts.items()
        for node in nodes_in([text])
        if isinstance(node, ast.Attribute | ast.Name) and name in {getattr(node, "attr", ""), getattr(node, "id", "")}
    )
    return name != "forward" and any(at not in inside for at in mentioned)


def _function(place: Place, known: Sources) -> ast.FunctionDef | None:
    return function_in(known.texts.get(place[0], ""), place[1])


def _may_have_a_mark(place: Place, known: Sources) -> bool:
    function = _function(place, known)
    if function is None or package_of(place[0]):
        return False
    others = [one for one in function.decorator_list if not is_given(one)]
    marks = [called(one) if isinstance(one, ast.Call) else "" for one in others]
    site = site_in(known.texts[place[0]], function.body[0].lineno)
    is_later = any(isinstance(node, OF_A_GENERATOR) for node in ast.walk(function))
    return bool(site and site.has_torch_at_top) and _PLAIN.issuperset(marks) and not is_later


def _site_of(given: Place, recording: Recording, known: Sources) -> CompileSite | None:
    """Return where a function was given to torch.compile, if that is one place alone."""
    file, name = given
    found = [one for one in recording.sites if one.defined.file == file]
    text = known.texts.get(file, "")
    found = [one for one in found if name_at(text, one.defined.line) == name]
    others = [one for one in recording.sites if one not in found]
    is_one = len({one.place for one in found}) == 1 and all(one.place != found[0].place for one in others)
    return found[0] if is_one else None


def _edit(given: Place, inner: Sequence[Place], site: CompileSite | None, known: Sources) -> Inside | None:
    """Return the change; None where what torch.compile is told can be written only where it is."""
    function, place = _function(given, known), site.place if site else None
    if function is None or site is None or place is None or not inner or not _may_have_a_mark(given, known):
        return None
    marks = [mark for mark in function.decorator_list if is_given(mark)]
    at, text = (given[0] if marks else place.file), known.texts.get(given[0] if marks else place.file, "")
    call: ast.expr | None = marks[0] if marks else _call_at(text, place.line)
    keywords = call.keywords if isinstance(call, ast.Call) else []
    if call is None or not is_of_one(text, call, known) or not all(map(_is_known, keywords)):
        return None
    written = "" if marks else ast.get_source_segment(text, call) or ""
    is_kept = bool(site.module) and any(word in one for one in known.texts.values() for word in _OF_ITS_WRAPPER)
    told = _written(keywords, text)
    return Inside(*given, tuple(sorted(inner)), told, "" if marks else at, written, is_kept and not marks)


def _call_at(text: str, line: int) -> ast.Call | None:
    """Return the one call at a line that gives something to torch.compile."""
    tree = parsed(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    there = [one for one in calls if called(one) == "compile" and one.lineno <= line <= (one.end_lineno or 0)]
    return there[0] if len(there) == 1 and len(there[0].args) <= 1 else None


def _written(keywords: Iterable[ast.keyword], text: str) -> str:
    return ", ".join(f"{one.arg}={ast.get_source_segment(text, one.value)}" for one in keywords)


def _is_known(keyword: ast.keyword) -> bool:
    """Whether the value of a keyword is the same wherever it is written."""
    names: Iterable[ast.AST] = ast.walk(keyword.value)
    return keyword.arg is not None and not any(isinstance(node, (ast.Name, ast.Call)) for node in names)
