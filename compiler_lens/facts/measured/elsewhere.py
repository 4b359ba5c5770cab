"""What other lines, in any file that is known, do with an attribute or a name that a change is about.

A change of one line is right only as long as nobody else relies on what it was: a file that is never compiled may store
a value, and a function of another file may read one while compiled code runs.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.effects import changed
from compiler_lens.facts.breaks.rewrites.site import nodes_in, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, parameters
from compiler_lens.recording.own_files import is_own, package_of, slashed
from compiler_lens.recording.source_text import Sources

# Methods of lists, dicts, sets and queues that change them. Those of tensors end with an underscore.
_CHANGING = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
    "intersection_update", "move_to_end", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault",
    "sort", "symmetric_difference_update", "update",
})  # fmt: skip
_SETTING = frozenset({"setattr", "delattr", "__setattr__", "__delattr__"})
_READING = frozenset({"getattr", "attrgetter"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp)
_LIBRARY = sys.stdlib_module_names | {"numpy", "torch"}
_DEFINED = re.compile(r"^[ \t]*(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_CLASS = re.compile(r"^[ \t]*class (\w+)\s*\(([^)]*)\)", re.MULTILINE)
_ALIAS = re.compile(r"\b(\w+) as (\w+)")
_NAME = re.compile(r"\w+")

_IsIt = Callable[[ast.AST], bool]


class Attribute(Struct, frozen=True):
    """An attribute of the objects of a class."""

    name: str
    owner: str  # the class, by its name
    file: str  # which defines the class


def class_around(text: str, line: int) -> str:
    """Return the name of the innermost class around a line; empty where there is none."""
    tree = parsed(text)
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)] if tree else []
    here = [one for one in classes if one.lineno <= line <= (one.end_lineno or 0)]
    return max(here, key=lambda one: one.lineno).name if here else ""


def is_changed(one: Attribute, known: Sources, but: AbstractSet[ast.AST] = frozenset()) -> bool:
    """Return whether any line, but for some, stores or deletes an attribute, or changes in place what it holds."""
    related = _related(one, known)
    return any(
        _is_changed_in(tree, one.name, related, but)
        or _is_set_by_name(tree, one.name, is_any=_is_about(one, file, text))
        for file, text in _files(one.file, known)
        if (one.name in text or _is_about(one, file, text)) and (tree := parsed(text))
    )


def _is_changed_in(tree: ast.Module, name: str, related: AbstractSet[str], but: AbstractSet[ast.AST]) -> bool:
    mine = _attributes(tree, name, related)
    return any(not isinstance(n.ctx, ast.Load) for n in mine - but) or _changes(tree, mine.__contains__, but)


def says_what_varies(code: str, file: str, given: AbstractSet[str], known: Sources) -> bool:
    """Return whether a message that is written into compiled code has an attribute which may have several values.

    Each value would be compiled by itself: another file sets it, or objects of what is compiled share its code.

    Args:
        code: what is written.
        file: where.
        given: the classes of the modules that torch.compile was given.
        known: the files.
    """
    tree = parsed(code.strip()) if "._assert_async(" in code else None
    texts = (n for n in (ast.walk(tree) if tree else ()) if isinstance(n, ast.JoinedStr))
    names = {n.attr for one in texts for n in ast.walk(one) if isinstance(n, ast.Attribute)}
    if not names:
        return False
    there = (n for n in nodes_in(other_texts(file, known)) if isinstance(n, ast.Attribute) and n.attr in names)
    is_set = any(not isinstance(n.ctx, ast.Load) for n in there)
    return is_set or any(_is_made_often(name, known) for name in given)


def _is_made_often(name: str, known: Sources) -> bool:
    """Return whether files make several objects of a class."""
    trees = [parsed(text) for text in known.texts.values() if name in text]
    made = [one for tree in trees if tree for one in calls_in(tree) if called(one) == name]
    loops = [n for tree in trees if tree for n in ast.walk(tree) if isinstance(n, _LOOPS)]
    return len(made) > 1 or any(one in calls_in(loop) for loop in loops for one in made)


def is_read(one: Attribute, known: Sources) -> bool:
    """Return whether a function of another file reads an attribute, or a name of the module's: it may run meanwhile."""
    related = _related(one, known)
    return any(
        file != one.file and one.name in text and (tree := parsed(text)) and _is_read_in(tree, one.name, related)
        for file, text in _files(one.file, known)
    )


def _is_read_in(tree: ast.Module, name: str, related: AbstractSet[str]) -> bool:
    nodes = [n for one in ast.walk(tree) if isinstance(one, _FUNCTIONS) for n in ast.walk(one)]
    mine = _attributes(tree, name, related)
    imported = {n.asname or n.name for n in ast.walk(tree) if isinstance(n, ast.alias) and n.name == name}
    is_named = any(isinstance(n, ast.Constant) and n.value == name for n in nodes)
    return (
        not mine.isdisjoint(nodes)
        or any(isinstance(n, ast.Name) and n.id in imported for n in nodes)
        or (is_named and any(called(n) in _READING for n in nodes))
    )


def is_mentioned(one: Attribute, known: Sources) -> bool:
    """Return whether another file names an attribute, or a name of the module's: it may write it as well as read it."""
    related, module = _related(one, known), slashed(one.file).rpartition("/")[2].removesuffix(".py")
    return any(
        file != one.file and one.name in text and (tree := parsed(text)) and _is_named_in(tree, one, related, module)
        for file, text in _files(one.file, known)
    )


def _is_named_in(tree: ast.Module, one: Attribute, related: AbstractSet[str], module: str) -> bool:
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    taken = {alias.name for n in imports if (n.module or "").rpartition(".")[2] == module for alias in n.names}
    is_named = any(isinstance(n, ast.Constant) and n.value == one.name for n in ast.walk(tree))
    return bool(
        _attributes(tree, one.name, related)
        or taken & {one.name, "*"}
        or (is_named and any(called(n) in _READING | _SETTING for n in ast.walk(tree)))
    )


def mentions(tree: ast.Module, one: Attribute, known: Sources) -> Iterator[ast.AST]:
    """Yield where a file reads an attribute, or a name of the module's."""
    if one.owner:
        found: Iterable[ast.AST] = _attributes(tree, one.name, _related(one, known))
    else:
        found = (n for n in ast.walk(tree) if one.name in {getattr(n, "id", None), getattr(n, "attr", None)})
    yield from (n for n in found if isinstance(getattr(n, "ctx", None), ast.Load))


def is_changed_within(function: ast.AST, parts: Sequence[ast.AST], known: Sources) -> bool:
    """Return whether a function changes in place what some of its expressions give, or has one do so that it calls."""
    nodes = list(ast.walk(function))
    names = frozenset(_names_of(nodes, parts.__contains__))
    calls = (n for n in nodes if isinstance(n, ast.Call))
    given = {called(one) for one in calls if any(n in parts or getattr(n, "id", "") in names for n in _given(one))}
    return _changes(function, parts.__contains__) or any(_is_changing(text, given) for text in known.texts.values())


def _given(call: ast.Call) -> Iterator[ast.AST]:
    return (n for one in (*call.args, *call.keywords) for n in ast.walk(one))


def _is_changing(text: str, names: AbstractSet[str]) -> bool:
    """Return whether a file has a function of one of some names, or an object, that changes what it is given."""
    tree = parsed(text) if any(name in text for name in names) else None
    nodes = list(ast.walk(tree)) if tree else []
    made = [n.value for n in nodes if isinstance(n, ast.Assign) and not names.isdisjoint(_last(n.targets))]
    classes = {called(n) for one in made for n in ast.walk(one)}
    methods = [one for n in nodes if isinstance(n, ast.ClassDef) and n.name in classes for one in n.body]
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name in names]
    functions += [one for one in methods if isinstance(one, ast.FunctionDef) and one.name in {"forward", "__call__"}]
    is_in_place = any(isinstance(n, ast.keyword) and n.arg == "inplace" for one in made for n in ast.walk(one))
    return is_in_place or any(changed(one) & frozenset(parameters(one)) - {"self"} for one in functions)


def _last(targets: Sequence[ast.expr]) -> Iterator[str]:
    return (dotted(one).rpartition(".")[2] for one in targets)


def is_result_changed(one: Attribute, known: Sources) -> bool:
    """Return whether any line changes in place what a function returns, or a method of a class."""
    names = {one.name}
    if one.name in {"forward", "__call__"}:  # an object is called, by the names that are given to it
        names |= {name for _, text in _files(one.file, known) for name in _objects(text, one.owner)}
    return any(
        any(name in text for name in names)
        and (tree := parsed(text))
        and _changes(tree, lambda node: called(node) in names)
        for _, text in _files(one.file, known)
    )


def _objects(text: str, owner: str) -> Iterator[str]:
    """Yield the names, and the attributes, that a file gives to objects of a class."""
    tree = parsed(text) if owner in text else None
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign) and any(called(n) == owner for n in ast.walk(node.value)):
            yield from (name for target in node.targets if (name := dotted(target).rpartition(".")[2]))


def is_handed_on(text: str, functions: Sequence[ast.AST], known: Sources) -> bool:
    """Return whether functions of a file give an object that they call, or their own, to one whose text is not known.

    That may read all of it. Functions of torch's, and of Python's own library, do not.
    """
    tree = parsed(text)
    calls = [call for one in functions for call in calls_in(one)]
    objects = {"self", *(dotted(call.func) for call in calls)} - {""}
    unknown = _unknown(tree, known) if tree else frozenset[str]()
    return any(
        dotted(call.func).partition(".")[0] in unknown
        and any(dotted(one) in objects for one in (*call.args, *(key.value for key in call.keywords)))
        for call in calls
    )


def other_texts(file: str, known: Sources) -> Sequence[str]:
    """Return the texts of the user's files but one."""
    return [text for other, text in known.texts.items() if other != file and not package_of(other)]


def imported(text: str, known: Sources) -> Sequence[str]:
    """Return the texts of the user's files that a file imports by their names."""
    tree = parsed(text)
    nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))] if tree else []
    names = {part for n in nodes for one in n.names for part in one.name.split(".")}
    names |= {part for n in nodes if isinstance(n, ast.ImportFrom) for part in (n.module or "").split(".")}
    files = ((slashed(file).rpartition("/")[2].removesuffix(".py"), file) for file in known.texts)
    return [known.texts[file] for name, file in files if name in names and not package_of(file)]


def _unknown(tree: ast.Module, known: Sources) -> frozenset[str]:
    """Return what a file imports of which no text is known."""
    defined = {name for text in known.texts.values() for name in _DEFINED.findall(text)}
    defined |= {name for file in known.texts for name in slashed(file).removesuffix(".py").split("/")[-2:]}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            names = ((one, f"{module}.{one.name}".strip(".")) for one in node.names)
            found |= {
                (one.asname or one.name).partition(".")[0]
                for one, whole in names
                if whole.partition(".")[0] not in _LIBRARY and whole.rpartition(".")[2] not in defined
            }
    return frozenset(found)


def _is_about(one: Attribute, file: str, text: str) -> bool:
    """Return whether a file defines a class, or names it."""
    return file == one.file or one.owner in _NAME.findall(text)


def _files(file: str, known: Sources) -> Iterator[tuple[str, str]]:
    """Yield the user's files, or those of the package that a file is of, with their texts."""
    package = package_of(file)
    for other, text in known.texts.items():
        if package_of(other) == package if package else is_own(other) or other == file:
            yield other, text


# -- whose attribute it is


def _related(one: Attribute, known: Sources) -> frozenset[str]:
    """Return the names of a class, of those that are made of it, and of all that these are made of."""
    texts = known.texts.values()
    bases = [(name, set(_NAME.findall(of))) for text in texts for name, of in _CLASS.findall(text)]
    bases += [(alias, {name}) for text in texts for name, alias in _ALIAS.findall(text)]
    found = {one.owner}
    while more := {name for name, of in bases if of & found} - found:
        found |= more
    while more := {base for name, of in bases if name in found for base in of} - found:
        found |= more
    return frozenset(found)


def _attributes(tree: ast.Module, name: str, related: AbstractSet[str]) -> frozenset[ast.Attribute]:
    """Return where a file names an attribute, but for where methods of other classes do that of their own object."""
    every = {n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == name}
    others = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name not in related)
    theirs = {n for one in others for n in ast.walk(one) if isinstance(n, ast.Attribute) and dotted(n.value) == "self"}
    return frozenset(every - theirs)


# -- what is written


def _is_set_by_name(tree: ast.Module, name: str, *, is_any: bool) -> bool:
    """Return whether a file sets attributes by texts that may be this name; `is_any`: those that it does not show."""
    nodes = list(ast.walk(tree))
    is_named = any(isinstance(n, ast.Constant) and n.value == name for n in nodes)
    if (is_any or is_named) and any(map(_gives_all, nodes)):
        return True
    calls = [n for n in nodes if isinstance(n, ast.Call) and called(n) in _SETTING]
    texts = [[one.value for one in call.args[:2] if isinstance(one, ast.Constant)] for call in calls]
    return any(name in given or (is_any and not given) for given in texts)


def _gives_all(node: ast.AST) -> bool:
    """Return whether an expression is the dict of an object's attributes."""
    match node:
        case ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars"), args=[_]):
            return True
    return False


def _changes(tree: ast.AST, is_it: _IsIt, but: AbstractSet[ast.AST] = frozenset()) -> bool:
    """Return whether a file changes in place what some expressions give, also by a name that it gives that."""
    nodes = [n for n in ast.walk(tree) if n not in but]
    names = frozenset(_names_of(nodes, is_it))

    def is_one(node: ast.AST) -> bool:
        return is_it(node) or (isinstance(node, ast.Name) and node.id in names)

    return any(is_one(inner) for node in nodes for owner in _changed_by(node) for inner in _chain(owner))


def _names_of(nodes: Iterable[ast.AST], is_it: _IsIt) -> Iterator[str]:
    """Yield the names that are given what some expressions give, or a part of it."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                targets = [target]
            case ast.NamedExpr(target=target, value=value):
                targets = [target]
            case _:
                continue
        if any(map(is_it, _chain(value))):
            yield from (n.id for one in targets for n in ast.walk(one) if isinstance(n, ast.Name))


def _chain(node: ast.AST) -> Iterator[ast.AST]:
    """Yield `a.b[0].c()`, and what that is a part of, or a method's result of."""
    while True:
        yield node
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case _:
                return


def _changed_by(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a piece of syntax changes in place."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if _is_in_place(name):
            yield owner
        case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()) | ast.Attribute(value=owner, ctx=ast.Store()):
            yield owner
        case ast.AugAssign(target=target):
            yield target
        case ast.keyword(arg="out", value=value):
            yield value


def _is_in_place(name: str) -> bool:
    return name in _CHANGING or (name.endswith("_") and not name.endswith("__"))
