"""Sizes that vary, told to torch before it compiles: at torch.compile, or on a tensor where the function is called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, nodes_in, parsed, site_at
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, Function, called, calls_in, dotted, parameters
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.recording.model import Compilation, CompileId, CompileSite, Recording, SourceLine
from compiler_lens.recording.source_text import Sources, first_line, sources, syntax_if_known

_OF_SIZES = (CauseClass.BATCH_SIZE, CauseClass.SEQUENCE_LENGTH, CauseClass.SIZE)
_IS_FALSE = "dynamic=False"
_SIZE = re.compile(r"(\w+)\.shape\[(\d+)\]")
# What an input of a symbol is called by a guard (torch/_dynamo/source.py), as `L['batch']['x'].size()[1]`.
_INPUT = re.compile(r"L\['(\w+)'\]((?:\['\w+'\]|\[\d+\]|\.[a-zA-Z]\w*){0,4})(?:\.size\(\)\[(\d+)\])?")
_MOST = 4  # lines above a call
_OPEN = "torch takes these sizes for open from the first call on, and makes one graph for all"
_ANY_SIZE = "kernels for any size: fewer compilations, often slower code than for a fixed size"


class Told(Struct, frozen=True):
    """A change, and what it costs."""

    lines: Lines
    price: str


def told_sizes(cause: RecompileCause, recording: Recording, own: Ownership) -> Iterator[Told]:
    """Yield changes that make a size, or an int that a call gives, dynamic from the first compilation on.

    None where another thing changed, or where a line needs the size as a number.
    """
    first = cause.changes[0].recompile.compile_id
    compilation = next((one for one in recording.compilations if one.compile_id == first), None)
    # An int that a graph break hands over is gone with the break.
    is_open = cause.cause in _OF_SIZES or (cause.cause is CauseClass.INT_ARGUMENT and not cause.follows)
    if cause.pinned or not is_open or compilation is None or compilation.definition is None:
        return
    known = sources(recording)
    found = None if cause.is_of_array else _SIZE.fullmatch(cause.subject)
    caller = own.innermost(compilation.stack[:-1]) or _only_call(compilation, known, own)
    size = _Size(found[1], "", int(found[2])) if found else None
    if size and caller and (lines := _marked(compilation, caller, (size,), recording, known)):
        beside = "beside your `dynamic=False`, " if compilation.dynamic is False else ""
        yield Told(lines, f"{beside}only size {size.axis} of `{size.name}` is dynamic, from this call on")
    site = _site_of(compilation, recording, own)
    if site and site.place and (lines := _dynamic(site.place, known)):
        is_replaced = any(_IS_FALSE in line.replace(" ", "") for line in lines.before)
        yield Told(lines, f"your `{_IS_FALSE}` is replaced: {_ANY_SIZE}" if is_replaced else _ANY_SIZE)


class _Size(Struct, frozen=True):
    """A size of what a function is given."""

    name: str  # the parameter
    within: str  # where the tensor is in it: `['sales']`; empty for the tensor itself
    axis: int


def told_ahead(causes: Sequence[RecompileCause], recording: Recording, own: Ownership) -> Iterator[tuple[Told, ...]]:
    """Yield ways to tell torch before the first call of all that became open as it saw another value, as expected.

    First at the calls, if sizes of what all of these give are known; or else where torch.compile is called. Not where
    ints alone became open: sizes that never change would be open with them, and kernels for any size are often slower.
    """
    known = sources(recording)
    expected = [cause for cause in causes if cause.benign]
    if not any(cause.cause in _OF_SIZES for cause in expected):
        return
    frames = {_frame(change.recompile.compile_id) for cause in expected for change in cause.changes}
    first = [one for one in recording.compilations if not one.compile_id.recompile]
    compiled = [one for one in first if _frame(one.compile_id) in frames]
    at_calls: dict[tuple[str, int], Told] = {}
    by_name: dict[tuple[str, int], Told] = {}
    for one in compiled:
        whole = _wholly(one, recording, known, own)
        marked = _at_call(one, recording, known, own)
        for told, found in ((marked or whole, at_calls), (whole, by_name)):
            if told:
                found.setdefault((told.lines.file, told.lines.near), told)
    # Beside a mark for one function, a `dynamic=True` for another may be for both.
    is_mixed = any(told in by_name.values() for told in at_calls.values())
    ways = (by_name, at_calls) if is_mixed else (at_calls, by_name)
    yield from (tuple(found.values()) for found in ways if found)


def _at_call(one: Compilation, recording: Recording, known: Sources, own: Ownership) -> Told | None:
    """Tell of all that becomes open of a function's inputs, where it is called first."""
    frame, caller = _frame(one.compile_id), _only_call(one, known, own) or own.innermost(one.stack[:-1])
    symbols = [symbol for symbol in recording.symbols if _frame(symbol.compile_id) == frame and symbol.source]
    known_first = {symbol.source for symbol in symbols if not symbol.compile_id.recompile}
    found = [
        _INPUT.fullmatch(one) for one in dict.fromkeys(symbol.source for symbol in symbols) if one not in known_first
    ]
    sizes = [_Size(each[1], each[2], int(each[3])) for each in found if each and each[3]]
    is_all = len(sizes) == len(found) and 0 < len(sizes) <= _MOST
    lines = _marked(one, caller, sizes, recording, known) if is_all and caller else None
    return Told(lines, _OPEN) if lines else None


def _frame(compile_id: CompileId) -> tuple[int, int | None]:
    """Return which frame it is: torch counts them anew after a reset."""
    return compile_id.epoch, compile_id.frame


def _only_call(one: Compilation, known: Sources, own: Ownership) -> SourceLine | None:
    """Return the only line that calls a function by its name: torch's stack lacks who calls what has a mark (2.13)."""
    texts = {file: text for file, text in known.texts.items() if own.owns(file)}
    found = [
        SourceLine(file, node.lineno, "", "")
        for file, text in texts.items()
        for node in nodes_in([text])
        if isinstance(node, ast.Call) and called(node) == one.function
    ]
    return found[0] if len(found) == 1 else None


def _wholly(one: Compilation, recording: Recording, known: Sources, own: Ownership) -> Told | None:
    """Tell where torch.compile is called for a function, or for the only one that it was called for."""
    here = _sites(recording, own)
    site = _site_of(one, recording, own) or (here[0] if len(here) == 1 else None)
    lines = _dynamic(site.place, known) if site and site.place else None
    return Told(lines, _ANY_SIZE) if lines else None


def _sites(recording: Recording, own: Ownership) -> list[CompileSite]:
    return [site for site in recording.sites if site.place and own.owns(site.place.file)]


def _site_of(one: Compilation, recording: Recording, own: Ownership) -> CompileSite | None:
    """Return where torch.compile is called for a function, or for what a method or a part of it belongs to."""
    defined, here = one.definition, _sites(recording, own)
    if defined is None:
        return None
    named = [site for site in here if (site.defined.file, site.defined.line) == (defined.file, defined.line)]
    beside = [site for site in here if site.defined.file == defined.file and _is_beside(site.defined, defined)]
    return named[0] if named else beside[0] if len(beside) == 1 else None


def _is_beside(given: SourceLine, other: SourceLine) -> bool:
    """Return whether a function is of the class of what torch.compile is given, or was divided off it."""
    owner = given.function.rpartition(".")[0]
    return other.function.startswith((f"{owner}." if owner else "\n", f"{given.function}{INNER}"))


def _dynamic(at: SourceLine, known: Sources) -> Lines | None:
    """Write `dynamic=True` where torch.compile is called, or is a decorator."""
    tree = syntax_if_known(known.texts.get(at.file, ""))
    compiles = [found for node in ast.walk(tree) for found in _compiles(node, at.line)] if tree else []
    if len(compiles) != 1 or compiles[0].lineno != compiles[0].end_lineno:
        return None
    node = compiles[0]
    line = known.texts[at.file].split("\n")[node.lineno - 1]
    given = next((k.value for k in node.keywords if k.arg == "dynamic"), None) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and any(k.arg is None for k in node.keywords) and "dynamic" in known.texts[at.file]:
        return None  # it may be given twice
    if given is not None:
        if not (isinstance(given, ast.Constant) and given.value in {False, None}):
            return None
        new = _replaced(line, given, "True")
    elif isinstance(node, ast.Call):
        end = len(line.encode()[: node.end_col_offset].decode()) - 1
        new = f"{line[:end]}{', ' if node.args or node.keywords else ''}dynamic=True{line[end:]}"
    else:
        new = _replaced(line, node, f"{dotted(node)}(dynamic=True)")
    return Lines(at.file, node.lineno, (line.strip(),), (new.strip(),))


def _compiles(node: ast.AST, line: int) -> Iterator[ast.expr]:
    """Yield the call of torch.compile, or the decorator without a call, that is meant by a line."""
    match node:
        case ast.Call(func=ast.Attribute(attr="compile") | ast.Name(id="compile")) if node.lineno == line:
            yield node
        case ast.FunctionDef(decorator_list=marks, lineno=begin):
            bare = (mark for mark in marks if not isinstance(mark, ast.Call) and line in (mark.lineno, begin))
            yield from (mark for mark in bare if dotted(mark).split(".")[-1] == "compile")


def _replaced(line: str, node: ast.expr, new: str) -> str:
    data = line.encode()
    return data[: node.col_offset].decode() + new + data[node.end_col_offset :].decode()


def _marked(
    compilation: Compilation, caller: SourceLine, sizes: Sequence[_Size], recording: Recording, known: Sources
) -> Lines | None:
    """Write `maybe_mark_dynamic` above the statement that calls the function, of the tensors that it gives.

    None where the caller is compiled itself: torch raises where it traces such a mark.
    """
    defined, site = compilation.definition, site_at(known, caller)
    if site and site.function and _is_compiled(caller.file, site.function, recording):
        return None
    tree = syntax_if_known(known.texts.get(defined.file, "")) if defined else None
    functions = (n for n in ast.walk(tree) if isinstance(n, Function)) if tree else iter(())
    function = next((one for one in functions if defined and defined.line in _head(one)), None)
    if site is None or function is None or not isinstance(site.statement, SIMPLE):
        return None
    names = [one for one in parameters(function) if one != "self"]
    marks: list[str] = []
    for one in sizes:
        given = _given(site, function.name, one.name, names) if one.name in names else None
        if given is None:
            return None
        marks.append(f"{site.torch}._dynamo.maybe_mark_dynamic({given}{one.within}, {one.axis})")
    line = site.text.split("\n")[site.statement.lineno - 1].strip()
    return Lines(
        caller.file, site.statement.lineno, (line,), (*marks, line), imports="" if site.imports_torch else "torch"
    )


def _is_compiled(file: str, function: Function, recording: Recording) -> bool:
    lines = range(first_line(function), (function.end_lineno or 0) + 1)
    return any(one.file == file and one.line in lines for one in recording.compilations)


def _head(function: Function) -> range:
    return range(first_line(function), function.lineno + 1)


def _given(site: Site, function: str, parameter: str, names: Sequence[str]) -> str | None:
    """Return the name that the only call in a statement which gives a function this parameter has for it.

    What the function is called there is not known: `net(x)` is of its `forward`, `compiled(x)` of any. But a call of
    another function of the file leads to it only by what that one calls.
    """
    tree = parsed(site.text)
    others = {one.name for one in ast.walk(tree) if isinstance(one, Function)} - {function} if tree else set[str]()
    found = ((call, _argument(call, parameter, names)) for call in calls_in(site.statement))
    calls = [(call, given) for call, given in found if given is not None and not _is_torchs(site, call)]
    calls = [(call, given) for call, given in calls if called(call) == function] or calls
    if any(called(call) in others for call, _ in calls):
        return None
    match [given for _, given in calls]:
        case [(ast.Name() | ast.Attribute(value=ast.Name())) as one]:
            return site.source(one)
        case [ast.Subscript(value=ast.Name(), slice=ast.Constant()) as one]:
            return site.source(one)
    return None


def _argument(call: ast.Call, parameter: str, names: Sequence[str]) -> ast.expr | None:
    """Return what a call gives a parameter of a function, if it is a call of that."""
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    by_name = {one.arg: one.value for one in call.keywords}
    if not by_name.keys() <= {*names}:
        return None
    position = names.index(parameter)
    return call.args[position] if len(call.args) > position else by_name.get(parameter)


def _is_torchs(site: Site, call: ast.Call) -> bool:
    return dotted(call.func).split(".")[0] == site.torch
