"""What a function computes once for each key and keeps in a dict: compiled code computes it in each call instead.

Each new key has the next call compile again, up to the limit. A graph that computes it again reads no dict.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.effects import changes_nothing
from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_at, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, is_new_tensor, parameters
from compiler_lens.facts.measured.collected import has_lines
from compiler_lens.facts.measured.computed import only_computes
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.elsewhere import (
    Attribute,
    class_around,
    is_changed_within,
    is_mentioned,
    is_result_changed,
    mentions,
)
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

# What runs later, or has no places in the text before Python 3.12.
_APART = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.JoinedStr)
OF_SIZES = frozenset({"device", "dim", "dtype", "ndim", "new_ones", "new_tensor", "new_zeros", "numel", "shape",
                       "size"})  # fmt: skip
IN_DICT = (
    "compiled code computes it in each call, of attributes as they are then, and keeps nothing in `{held}`; it does not"
    " read any more what is there already, or what somebody else puts there"
)


class Memo(Struct, frozen=True):
    """`if key not in held: …; held[key] = value`, and what reads `held[key]` after it, in the same block."""

    site: Site  # of the `if`
    held: str
    key: ast.expr
    body: Sequence[ast.stmt]  # what computes the value
    value: ast.expr
    reads: Sequence[ast.Subscript]

    @property
    def branch(self) -> ast.stmt:
        """The `if`."""
        return self.site.statement

    @property
    def after(self) -> Sequence[ast.stmt]:
        """The statements after it, up to the last that reads the dict."""
        last = max((n.lineno for n in self.reads), default=0)
        return [one for one in self.site.following if one.lineno <= last]


def unmemoized(at: SourceLine, known: Sources) -> tuple[Lines, str] | None:
    """Have compiled code compute what the function of a line keeps in a dict, and name that; None for other lines.

    The dict is read by that function alone, and what it keeps is computed by torch of the function's arguments. No file
    puts anything else into it, or changes in place what is in it.
    """
    memo = _memo(at, known)
    # What was computed under autocast has another dtype than what was kept before it.
    if memo is None or _is_anothers(memo, at, known) or any("autocast" in text for text in known.texts.values()):
        return None
    site, last = memo.site, memo.after[-1]
    is_returned = isinstance(last, ast.Return) and list(memo.reads) == [last.value] and len(memo.after) == 1
    found = site.rewrite(_returning(memo)) if is_returned else site.rewrite(_naming(memo), last=last)
    if found is None:
        return None
    return Lines(at.file, site.line, found.before, found.after), memo.held


# -- the text


def _returning(memo: Memo) -> Sequence[str]:
    site = memo.site
    first = f"if {site.torch}.compiler.is_compiling():"
    return [first, *_computed(memo), f"    return {site.source(memo.value)}", *site.lines()]


def _naming(memo: Memo) -> Sequence[str]:
    """Return the lines that give what is kept a name, and read that: the name that the next line gives it, if any."""
    site, (following, *_) = memo.site, memo.after
    match following:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if list(memo.reads) == [value]:
            rest: list[str] = []
        case _:
            name = site.free("kept")
            rest = _with_name(memo, name)
    return [
        f"if {site.torch}.compiler.is_compiling():",
        *_computed(memo),
        f"    {name} = {site.source(memo.value)}",
        "else:",
        *(f"    {line}".rstrip() for line in site.lines()),
        f"    {name} = {memo.held}[{site.source(memo.key)}]",
        *rest,
    ]


def _with_name(memo: Memo, name: str) -> list[str]:
    """Return the lines after the branch with a name for what is read of the dict."""
    site, begin = memo.site, memo.branch.end_lineno or 0
    pad, lines = site.statement.col_offset, site.text.split("\n")
    found: list[str] = []
    for one in memo.after:
        found += [line[pad:].rstrip() for line in lines[begin : one.lineno - 1]]
        inside = set(ast.walk(one))
        first, *rest = site.edited(one, [(read, name) for read in memo.reads if read in inside]).split("\n")
        found += [first, *(line[pad:] for line in rest)]
        begin = one.end_lineno or one.lineno
    return found


def _computed(memo: Memo) -> list[str]:
    return [line for one in memo.body for line in _lines(memo.site, one)]


def _lines(site: Site, one: ast.stmt) -> list[str]:
    first, *rest = site.edited(one).split("\n")
    return [f"    {first}", *(f"    {line[one.col_offset :]}".rstrip() for line in rest)]


# -- which statements


def _memo(at: SourceLine, known: Sources) -> Memo | None:
    inner = site_at(known, at)
    function = inner.function if inner else None
    if inner is None or not isinstance(function, ast.FunctionDef) or not inner.imports_torch:
        return None
    for test in (n for n in ast.walk(function) if isinstance(n, ast.If)):
        site = site_in(inner.text, test.lineno)
        found = _kept(site, test) if site and site.statement.lineno == test.lineno else None
        if found and _first(found) <= at.line <= (found.after[-1].end_lineno or 0):
            return found if _is_its_own(found, function) else None
    return None


def _first(memo: Memo) -> int:
    """Return the line of the branch, or of what its key is computed in: that is where a size in it has to be known."""
    value = memo.site.value_of(memo.key.id) if isinstance(memo.key, ast.Name) else None
    return min(memo.site.line, value.lineno if value else memo.site.line)


def _kept(site: Site, test: ast.If) -> Memo | None:
    match test:
        case ast.If(
            test=ast.Compare(left=key, ops=[ast.NotIn()], comparators=[held]),
            body=[*body, ast.Assign(targets=[ast.Subscript(value=written, slice=at)], value=value)],
            orelse=[],
        ) if dotted(held) and dotted(held) == dotted(written) and ast.dump(key) == ast.dump(at):
            reads = list(_reads(site.following, dotted(held), ast.dump(key)))
            found = Memo(site, dotted(held), key, body, value, reads)
            return found if reads and has_lines(site, test) else None
    return None


def _reads(following: Sequence[ast.stmt], held: str, key: str) -> Iterator[ast.Subscript]:
    for node in (n for one in following for n in ast.walk(one)):
        match node:
            case ast.Subscript(value=read, slice=at, ctx=ast.Load()) if dotted(read) == held and ast.dump(at) == key:
                yield node


# -- whether compiled code may compute it


def _is_its_own(memo: Memo, function: ast.FunctionDef) -> bool:
    """Return whether all that is kept is computed by torch of what the function has, and read where it stands."""
    name = memo.held.removeprefix("self.")
    if "." in name or not all(map(_names_something, memo.body)):
        return False
    computed, made = (*memo.body, memo.value), _stored(memo.body)
    tree = parsed(memo.site.text)
    return (
        tree is not None
        and _is_apart(memo, made, function)
        and all(changes_nothing(call, memo.site.tensors) for call in calls_in(memo.key))
        and only_computes(tree, memo.site, computed)
        and not any(_is_of_values(memo, node) for one in computed for node in ast.walk(one))
        and _is_keyed(memo, function, computed)
    )


def _is_keyed(memo: Memo, function: ast.FunctionDef, computed: Sequence[ast.AST]) -> bool:
    """Return whether all that the function has and that is computed with is in the key: else what is kept is older."""
    value = memo.site.value_of(memo.key.id) if isinstance(memo.key, ast.Name) else None
    key = {n.id for one in (memo.key, value) if one for n in ast.walk(one) if isinstance(n, ast.Name)}
    own = {*parameters(function), *_stored(function.body)} - _stored(memo.body) - {"self"}
    parents = memo.site.parents()
    used = [n for one in computed for n in ast.walk(one) if isinstance(n, ast.Name) and n.id in own]
    return all(n.id in key or getattr(parents.get(n), "attr", "") == "device" for n in used)


def _names_something(one: ast.stmt) -> bool:
    return isinstance(one, ast.Assign) and all(map(_is_name, one.targets))


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Tuple) and all(map(_is_name, node.elts)))


def _stored(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names, and the attributes, that some statements give a value."""
    every = [n for one in nodes for n in ast.walk(one) if not isinstance(getattr(n, "ctx", ast.Load()), ast.Load)]
    return frozenset(
        n.id if isinstance(n, ast.Name) else n.attr for n in every if isinstance(n, (ast.Name, ast.Attribute))
    )


def _is_apart(memo: Memo, made: frozenset[str], function: ast.FunctionDef) -> bool:
    """Return whether what is computed stays within the branch, and the key is the same wherever it is read."""
    site, after = memo.site, memo.after
    inside = set(ast.walk(memo.branch))
    is_read = any(n not in inside for name in made for n in site.loads(name))
    key = {getattr(n, "id", getattr(n, "attr", None)) for n in ast.walk(memo.key)}
    is_other = bool(key & (made | _stored(after)) or any(site.escapes(name) for name in made))
    apart = [n for one in function.body for n in ast.walk(one) if isinstance(n, _APART)]
    is_late = any(read in set(ast.walk(one)) for one in apart for read in memo.reads)
    return not (is_read or is_other or is_late)


def _is_of_values(memo: Memo, node: ast.AST) -> bool:
    """Return whether a value is computed of the numbers in a tensor that the key does not have: they may be others."""
    if not isinstance(node, ast.Name) or not memo.site.is_tensor(node) or node.id in _stored(memo.body):
        return False
    parent = memo.site.parents().get(node)
    is_size = isinstance(parent, ast.Attribute) and parent.attr in OF_SIZES
    return not is_size and node.id not in {n.id for n in ast.walk(memo.key) if isinstance(n, ast.Name)}


def _is_anothers(memo: Memo, at: SourceLine, known: Sources) -> bool:
    """Return whether others have to do with the dict, or may change in place what is in it."""
    site, (owner, _, name) = memo.site, memo.held.rpartition(".")
    made_of, tree = class_around(site.text, at.line), parsed(site.text)
    held = Attribute(name, made_of if owner else "", at.file)
    own = {n for one in (memo.branch, *memo.reads) for n in ast.walk(one)}
    if tree is None or any(n not in own for n in mentions(tree, held, known)) or is_mentioned(held, known):
        return True
    function = site.function
    if function is None or is_changed_within(function, memo.reads, known):
        return True
    accessor = Attribute(function.name, made_of, at.file)
    return any(_may_return(site, one) for one in memo.reads) and is_result_changed(accessor, known)


def _may_return(site: Site, read: ast.expr) -> bool:
    """Return whether a function may return what it reads, or a view of it, as far as what is around it shows."""
    parent = site.parents().get(read)
    return not isinstance(parent, ast.expr) or not (is_new_tensor(parent) or called(parent) in {"cat", "stack"})
