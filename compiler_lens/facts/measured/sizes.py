"""Sizes that vary, told to torch before it compiles: at torch.compile, or on a tensor where the function is called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_at
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, Function, called, calls_in, dotted, parameters
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.recording.model import Compilation, Recording, SourceLine
from compiler_lens.recording.source_text import Sources, first_line, sources, syntax_if_known

_OF_SIZES = (CauseClass.BATCH_SIZE, CauseClass.SEQUENCE_LENGTH, CauseClass.SIZE)
_IS_FALSE = "dynamic=False"
_SIZE = re.compile(r"(\w+)\.shape\[(\d+)\]")


class Told(Struct, frozen=True):
    """A change, and what it costs."""

    lines: Lines
    price: str


def told_sizes(cause: RecompileCause, recording: Recording, own: Ownership) -> Iterator[Told]:
    """Yield changes that make a size dynamic from the first compilation on.

    None where another thing changed, or where a line needs the size as a number.
    """
    first = cause.changes[0].recompile.compile_id
    compilation = next((one for one in recording.compilations if one.compile_id == first), None)
    if cause.pinned or cause.cause not in _OF_SIZES or compilation is None or compilation.definition is None:
        return
    known, defined = sources(recording), compilation.definition
    found = None if cause.is_of_array else _SIZE.fullmatch(cause.subject)
    caller = own.innermost(compilation.stack[:-1])
    if found and caller and (lines := _marked(compilation, caller, found[1], int(found[2]), known)):
        beside = "beside your `dynamic=False`, " if compilation.dynamic is False else ""
        yield Told(lines, f"{beside}only size {found[2]} of `{found[1]}` is dynamic, from this call on")
    for one in recording.sites:
        at = one.place
        if at and own.owns(at.file) and (one.defined.file, one.defined.line) == (defined.file, defined.line):
            if lines := _dynamic(at, known):
                price = "kernels for any size: fewer compilations, often slower code than for a fixed size"
                is_replaced = any(_IS_FALSE in line.replace(" ", "") for line in lines.before)
                yield Told(lines, f"your `{_IS_FALSE}` is replaced: {price}" if is_replaced else price)
            return


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


def _marked(compilation: Compilation, caller: SourceLine, name: str, axis: int, known: Sources) -> Lines | None:
    """Write `maybe_mark_dynamic` above the statement that calls the function, of the tensor that it gives."""
    defined, site = compilation.definition, site_at(known, caller)
    tree = syntax_if_known(known.texts.get(defined.file, "")) if defined else None
    functions = (n for n in ast.walk(tree) if isinstance(n, Function)) if tree else iter(())
    function = next((one for one in functions if defined and defined.line in _head(one)), None)
    if site is None or function is None or not isinstance(site.statement, SIMPLE):
        return None
    names = [one for one in parameters(function) if one != "self"]
    given = _given(site, function.name, names.index(name)) if name in names else None
    line = site.text.split("\n")[site.statement.lineno - 1].strip()
    if given is None:
        return None
    mark = f"{site.torch}._dynamo.maybe_mark_dynamic({given}, {axis})"
    return Lines(
        caller.file, site.statement.lineno, (line,), (mark, line), imports="" if site.imports_torch else "torch"
    )


def _head(function: Function) -> range:
    return range(first_line(function), function.lineno + 1)


def _given(site: Site, function: str, position: int) -> str | None:
    """Return the name that the only call in a statement with so many arguments gives there.

    What the function is called there is not known: `net(x)` is of its `forward`, `compiled(x)` of any. But a call of
    another function of the file leads to it only by what that one calls.
    """
    tree = parsed(site.text)
    others = {one.name for one in ast.walk(tree) if isinstance(one, Function)} - {function} if tree else set[str]()
    calls = [call for call in calls_in(site.statement) if len(call.args) > position and not _is_torchs(site, call)]
    if any(called(call) in others for call in calls):
        return None
    match [call.args[position] for call in calls]:
        case [ast.Name(id=name)]:
            return name
    return None


def _is_torchs(site: Site, call: ast.Call) -> bool:
    return dotted(call.func).split(".")[0] == site.torch
