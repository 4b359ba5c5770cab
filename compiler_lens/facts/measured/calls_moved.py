"""What `torch.compile(model.loss)` gave, given by marks on the parts of a function that was divided.

The function then needs no mark for the compiler to pass over it, and is called as it is. While that is tried it stays
given: what its calls return can be compared then.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import calls_in, dotted
from compiler_lens.facts.measured.bookkeeping import MARK
from compiler_lens.facts.measured.marked_inside import COMPILE, function_in, replaced_once
from compiler_lens.facts.measured.marks_moved import parts_called, with_marks_above
from compiler_lens.recording.source_text import first_line

_Texts = Mapping[str, str]
_Divided = tuple[str, str]  # the file of a function, and its qualified name
_SAME_MODULE = frozenset({"bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "to", "train"})
_FORWARD = ".forward"
_OWN_NAMES = "_orig_mod"  # in what torch.compile makes of a module: who asks for it needs that


class _Given(Struct, frozen=True):
    """A call that gives a divided function, or a module that has it, to torch.compile."""

    file: str
    call: str  # as it is written
    argument: str
    words: str  # its other arguments
    is_always: bool  # it stands in no branch: a mark says nothing of when


def with_calls_moved(texts: _Texts, divided: Sequence[_Divided]) -> _Texts:
    """Return texts in which calls of torch.compile that give divided functions are marks on the parts of these.

    The same texts where a function has other marks, or is given in a way that one mark for all cannot say.

    Args:
        texts: the user's files, with functions divided.
        divided: these functions. Those that have no mark for the compiler to pass over them stay.
    """
    passed = {one: function for one in divided if (function := _passed_over(texts, one)) is not None}
    given = [one for file, text in texts.items() for one in _givings(file, text, [name for _, name in passed])]
    is_one = len({one.words for one in given}) == 1 and all(one.is_always for one in given)
    if not is_one or any(_OWN_NAMES in text for text in texts.values()):
        return texts
    moved = dict(texts)
    for file in dict.fromkeys(file for file, _ in passed):
        here = {name: function for (there, name), function in passed.items() if there == file}
        new = _with_marks(texts[file], here, given[0].words)
        if new is None:
            return texts
        moved[file] = new
    for one in given:
        moved[one.file] = replaced_once(moved[one.file], one.call, one.argument)
    return moved


def _passed_over(texts: _Texts, divided: _Divided) -> ast.FunctionDef | None:
    """Return a function if the mark for the compiler to pass over it is the only one that it has."""
    function = function_in(texts.get(divided[0], ""), divided[1])
    marks = [dotted(mark) for mark in function.decorator_list] if function else []
    return function if len(marks) == 1 and marks[0].endswith(f".{MARK}") else None


def _with_marks(text: str, functions: Mapping[str, ast.FunctionDef], words: str) -> str | None:
    """Return a text with marks that give parts to torch.compile, and none on the functions that call them.

    None where a function has no parts, or the words say what is not known where its parts are defined.
    """
    divided = [(function, parts_called(text, name, function)) for name, function in functions.items()]
    if not all(parts and _is_known(words, text, first_line(function)) for function, parts in divided):
        return None
    passed_over = dotted(divided[0][0].decorator_list[0])
    mark = passed_over.replace(MARK, "compile") + (f"({words})" if words else "")
    return with_marks_above(text, divided, [f"@{mark}"])


def _is_known(words: str, text: str, line: int) -> bool:
    """Return whether a module binds each name in the arguments of a call once, and above a line."""
    asked, tree = parsed(f"_({words})"), parsed(text)
    if asked is None or tree is None:
        return False
    bound = [name for one in tree.body if (one.end_lineno or 0) < line for name in _bound(one)]
    stored = [name for node in ast.walk(tree) if isinstance(node, ast.stmt) for name in _bound(node)]
    names = {node.id for node in ast.walk(asked) if isinstance(node, ast.Name)} - {"_"}
    return all(name in bound and stored.count(name) == 1 for name in names)


def _bound(statement: ast.stmt) -> Iterable[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(one.asname or one.name).partition(".")[0] for one in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [one.id for one in targets if isinstance(one, ast.Name)]


# -- where it was given


def _givings(file: str, text: str, divided: Sequence[str]) -> Iterator[_Given]:
    """Yield the calls in a text that give one of some functions to torch.compile."""
    tree = parsed(text)
    if tree is None:
        return
    classes = {name.removesuffix(_FORWARD) for name in divided if name.endswith(_FORWARD)}
    modules = classes | {name for node in ast.walk(tree) for name in _made(node, classes)}
    branches = [node for node in ast.walk(tree) if isinstance(node, (ast.If, ast.IfExp)) and not _is_main(node)]
    in_branches = {call for one in branches for call in calls_in(one)}
    for call in calls_in(tree):
        if dotted(call.func) == COMPILE and len(call.args) == 1 and _is_of(call.args[0], modules, divided):
            written, argument = (ast.get_source_segment(text, one) or "" for one in (call, call.args[0]))
            words = ", ".join(_as_written(text, one) for one in call.keywords)
            yield _Given(file, written, argument, words, call not in in_branches)


def _as_written(text: str, word: ast.keyword) -> str:
    """Return a keyword with its value, in one line."""
    value = ast.get_source_segment(text, word.value) or ""
    return f"{word.arg}={value}" if word.arg and "\n" not in value else ast.unparse(word)


def _is_main(node: ast.If | ast.IfExp) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test))


def _made(node: ast.AST, classes: Collection[str]) -> Iterable[str]:
    """Return what is assigned an object of one of some classes: `self.model`."""
    if not isinstance(node, ast.Assign) or not _is_object(node.value, classes):
        return ()
    return filter(None, map(dotted, node.targets))


def _is_object(node: ast.expr, classes: Collection[str]) -> bool:
    """Return whether a value is an object of one of some classes: `Model(3).to(device)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_MODULE:
        node = node.func.value
    return isinstance(node, ast.Call) and dotted(node.func) in classes


def _is_of(given: ast.expr, modules: Collection[str], divided: Sequence[str]) -> bool:
    """Return whether a value is one of some functions, a method of an object, or a module of which it is `forward`."""
    name = dotted(given)
    methods = {one.rpartition(".")[2] for one in divided if "." in one}
    is_method = isinstance(given, ast.Attribute) and given.attr in methods
    return is_method or name in divided or name in modules or _is_object(given, modules)
