"""Changes to the text of files: lines in place of others, a setting at the top of a script; and a patch of them."""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.messages import LEVELS
from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in
from compiler_lens.facts.measured.along import Along, with_numbers
from compiler_lens.facts.measured.bookkeeping import MARK, split
from compiler_lens.facts.measured.called import function_named
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.endings import with_ending
from compiler_lens.facts.measured.folded import asks_by_name
from compiler_lens.facts.measured.marked_inside import Inside, with_inside
from compiler_lens.facts.measured.parts import with_parts
from compiler_lens.facts.measured.relatives import methods_of_relatives
from compiler_lens.recording.source_text import first_line

_MARKED = re.compile(r"(?:async )?def (?P<name>\w+)")
_SETTING = re.compile(r"torch(\._dynamo\.(?:config\.\w+ = .+|trace_rules\.add\(\"logging\"\)))")
# Dynamo follows what a function that it passes over calls, also a logger's methods, and breaks in them (torch 2.13).
_LOGGING_APART = 'torch._dynamo.trace_rules.add("logging")'
_MODULES = re.compile(r"\b(warnings|logging)\.")
_DEFINED = re.compile(r"^def (\w+)\(", re.MULTILINE)
_ENVIRONMENT = re.compile(r"\b(environ|putenv|load_dotenv)\b|\bsys\.path\.")
_CONTEXT = 3  # lines around a change
_TAKES_NUMBERS = ".capture_scalar_outputs = True"  # under this a number that torch does not know is equal to itself

Texts = Mapping[str, str]  # of files, by path


class Lines(Struct, frozen=True):
    """Lines to write in place of others of a file."""

    file: str
    near: int  # the line that this is about
    before: tuple[str, ...]  # dedented
    after: tuple[str, ...]
    imports: str = ""  # a module that what is written needs, and that the file does not import
    definitions: tuple[str, ...] = ()  # functions that what is written calls, which the file is to have once

    @property
    def title(self) -> str:
        """The change in a few words of code: its first new line, and of a mark also which function has it."""
        lines = [line.strip() for line in self.after if line.strip()] or [""]
        new = next((n for n, line in enumerate(lines) if line not in map(str.strip, self.before)), 0)
        first, *others = lines[new:]
        marked = next(filter(None, map(_MARKED.match, others)), None) if first.startswith("@") else None
        return f"{first} def {marked['name']}" if marked else first


class Setting(Struct, frozen=True):
    """A setting of torch's to make where the program begins."""

    code: str  # "torch._dynamo.config.capture_scalar_outputs = True"

    @property
    def title(self) -> str:
        """The change in a few words of code."""
        return self.code


class Split(Struct, frozen=True):
    """A function made two: what keeps books stays Python, and calls what computes."""

    file: str
    name: str  # qualified
    collected: tuple[str, ...] = ()  # lines of functions that it calls, which add to lists of the module's

    @property
    def title(self) -> str:
        """The change in a few words of code."""
        return f"def {self.name.rpartition('.')[2]}{INNER}(…): …"

    @property
    def code(self) -> str:
        """The same."""
        return self.title


class EndApart(Struct, frozen=True):
    """A function made two: its end stays Python, and what stands before it is compiled."""

    file: str
    name: str  # qualified
    begins: str  # the line in the first statement of that end, without blanks around
    marked: Lines | None = None  # a mark on a function that the end calls: torch would compile that by itself

    @property
    def title(self) -> str:
        """The change in a few words of code."""
        return f"def {self.name.rpartition('.')[2]}{INNER}(…): … before {self.begins}"

    @property
    def code(self) -> str:
        """The same."""
        return self.title


class Apart(Struct, frozen=True):
    """A function in parts: the statements in which some lines stand stay Python, what is between them is compiled."""

    file: str
    name: str  # qualified
    lines: tuple[str, ...]  # without blanks around

    @property
    def title(self) -> str:
        """The change in a few words of code."""
        return f"def {self.name.rpartition('.')[2]}(…) in parts, without {self.lines[0]}"

    @property
    def code(self) -> str:
        """The same."""
        return self.title


Edit = Lines | Setting | Split | EndApart | Apart | Inside | Along


def edited(edit: Edit, texts: Texts, script: str) -> Texts | None:
    """Return the texts with an edit made; None where its lines are not there any more, or it changes nothing.

    Args:
        edit: what to change.
        texts: the files as they are, the script among them.
        script: the file that the program begins with, where settings are made.
    """
    if isinstance(edit, Inside):
        return with_inside(edit, texts)
    file = script if isinstance(edit, Setting) else edit.file
    text = texts.get(file)
    if text is None or "\r" in text.replace("\r\n", ""):  # a line's end that only old machines know
        return None
    if isinstance(edit, Setting) and _TAKES_NUMBERS in edit.code:
        asked = {name: _asking_for_nan(one) for name, one in texts.items()}
        if None in asked.values():
            return None
        texts = {name: one for name, one in asked.items() if one is not None}
        text = texts[file]
    if isinstance(edit, Split):
        new = split(text, edit.name, edit.collected)
    elif isinstance(edit, Along):
        new = with_numbers(text, edit)
    elif isinstance(edit, Apart):
        new = with_parts(text, edit.name, edit.lines, methods_of_relatives(texts, edit.name))
    elif isinstance(edit, EndApart):
        marked = _with_lines(text, edit.marked) if edit.marked else text
        new = with_ending(marked, edit.name, edit.begins) if marked else None
    else:
        new = _with_lines(text, edit) if isinstance(edit, Lines) else _with_setting(text, edit.code)
    if new is not None and isinstance(edit, (Split, EndApart, Apart)):
        new = _divided(new, text, edit, texts)
    return None if new is None or new == text or parsed(new) is None else {**texts, file: new}


def _divided(new: str, text: str, edit: Split | EndApart | Apart, texts: Texts) -> str | None:
    """Return a text with a function divided; None where a class that shares its objects has a part's name already."""
    inner = f"{edit.name.rpartition('.')[2]}{INNER}"
    is_added = new.count(f"def {inner}(") > text.count(f"def {inner}(")
    if is_added and inner in methods_of_relatives(texts, edit.name):
        return None
    return (_with_setting(new, _LOGGING_APART) or new) if logs(new, edit.name) else new


def without_logging_apart(texts: Texts) -> Texts:
    """Return texts without what has torch pass over `logging`, where no function is passed over any more."""
    if any(f".{MARK}" in text for text in texts.values()):
        return texts
    return {file: text.replace(f"{_LOGGING_APART}\n", "") for file, text in texts.items()}


def logs(text: str, name: str) -> bool:
    """Return whether a function writes messages by a logger."""
    tree = parsed(text)
    function = function_named(tree, name) if tree else None
    calls = calls_in(function) if function else []
    methods = [call for call in calls if isinstance(call.func, ast.Attribute) and called(call) in LEVELS]
    return any(called(call) != "log" or len(call.args) > 1 for call in methods)  # else a tensor's, or one of their own


def _asking_for_nan(text: str) -> str | None:
    found = asks_by_name(text)
    if found is None or not found[1] or re.search(r"^import math$", found[0], re.MULTILINE):
        return found[0] if found else None
    return _importing(found[0], ["import math"])


def _with_lines(text: str, edit: Lines) -> str | None:
    lines = text.split("\n")
    ending = "\r" if lines[0].endswith("\r") else ""
    # Where the same lines stand several times, those round the line that this is about.
    starts = sorted(_starts(lines, edit.before), key=lambda start: _distance(start, edit))
    if not starts:
        return None
    start = starts[0]
    indent = _indent(lines[start])
    after = [f"{indent}{line}{ending}" if line else ending for line in edit.after]
    new: str | None = "\n".join([*lines[:start], *after, *lines[start + len(edit.before) :]])
    if edit.definitions and new is not None:
        new = _defining(new, start + 1, edit.definitions)
    if edit.imports and new is not None:
        return _importing_torch(new, edit) if edit.imports == "torch" else _importing(new, [f"import {edit.imports}"])
    return new


def _starts(lines: Sequence[str], before: Sequence[str]) -> Iterator[int]:
    for start, line in enumerate(lines[: len(lines) - len(before) + 1]):
        indent = _indent(line)
        if line[len(indent) :].rstrip() == before[0] and all(
            not there[: len(indent)].strip() and there[len(indent) :].rstrip() == wanted
            for there, wanted in zip(lines[start:], before, strict=False)
        ):
            yield start


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _distance(start: int, edit: Lines) -> int:
    first, last = start + 1, start + len(edit.before)
    return max(first - edit.near, edit.near - last, 0)


def _defining(text: str, line: int, definitions: Sequence[str]) -> str | None:
    """Return a text with functions above the statement of the module around a line, but those that it has."""
    tree = parsed(text)
    whole = next((one for one in tree.body if line <= (one.end_lineno or 0)), None) if tree else None
    if tree is None or whole is None:
        return None
    named = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    missing = [one for one in definitions if not named & set(_DEFINED.findall(one))]
    first = first_line(whole)
    above = text.split("\n")[: first - 1]
    while above and above[-1].startswith("#"):  # a comment on what follows
        above.pop()
    return _after(text, len(above), [line for one in missing for line in (*one.splitlines(), "", "")])


# -- settings, and the imports that they need


def _with_setting(text: str, code: str) -> str | None:
    found, tree = _SETTING.fullmatch(code), parsed(text)
    if found is None or tree is None:
        return None
    needed = [f"import {name}" for name in sorted(set(_MODULES.findall(code)))]
    imports = _imports_of_torch(tree)
    if not imports:
        return _importing(text, [*needed, "import torch", code]) if _may_import_first(text, tree) else None
    for body, statement in reversed(imports):  # from below: those above stay where they are
        name = _torch_in(statement)
        above = {f"import {one}" for one in _modules_above(tree, statement.lineno)}
        setting = f"{name or 'torch'}{found[1]}"
        if setting in _settings_below(text, _last_import(body, statement)):
            continue
        lines = [one for one in needed if one not in above] + ([] if name else ["import torch"])
        new = _below(text, body, _last_import(body, statement), [*lines, setting])
        if new is None:
            return None
        text = new
    return text


def _settings_below(text: str, statement: ast.stmt) -> Sequence[str]:
    """Return the settings that stand right below a statement."""
    below = (line.strip() for line in text.split("\n")[statement.end_lineno or statement.lineno :])
    return list(takewhile(lambda line: "._dynamo." in line, below))


def _importing_torch(text: str, edit: Lines) -> str | None:
    """Return a text in which what an edit has written finds torch; None where that would import it too early."""
    tree = parsed(text)
    imports = _imports_of_torch(tree) if tree else []
    if tree is None:
        return None
    if not imports:
        return _importing(text, ["import torch"]) if _may_import_first(text, tree) else None
    body, statement = imports[0]
    if body is tree.body:
        return _below(text, body, statement, ["import torch"])
    # Below an `if` or a `try`: where torch is not there, functions are still made, and those with a mark would raise.
    is_global = any(statement in block for one in tree.body if not _is_scope(one) for block in _blocks(one))
    is_mark = any(line.lstrip().startswith("@") for line in edit.after)
    return text if is_global and not is_mark and _torch_in(statement) == "torch" else None


def _is_scope(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


_Import = tuple[list[ast.stmt], ast.stmt]  # a block, and a statement of it


def _imports_of_torch(tree: ast.Module) -> list[_Import]:
    """Return where a script imports torch: the first at its top level, else all that stand within others.

    Torch reads the environment when it is imported, and may not be there: nothing imports it before the script does.
    """
    for finds in (_torch_in, _is_of_torch):
        first = next((one for one in tree.body if finds(one)), None)
        if first is not None:
            return [(tree.body, first)]
    blocks = list(_blocks(tree))
    for finds in (_torch_in, _is_of_torch):
        found = [(block, next(filter(finds, block))) for block in blocks if any(map(finds, block))]
        if found:
            return sorted(found, key=lambda one: one[1].lineno)
    return []


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements in a node, but those that are for type checkers alone."""
    for _, value in ast.iter_fields(node):
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST) and not (isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test)):
                yield from _blocks(one)
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value


def _torch_in(statement: ast.stmt) -> str:
    """Return the name that torch gets by a statement, if it imports it as a whole."""
    for name in statement.names if isinstance(statement, ast.Import) else ():
        if name.name == "torch":
            return name.asname or "torch"
        if name.name.startswith("torch.") and not name.asname:
            return "torch"
    return ""


def _is_of_torch(statement: ast.stmt) -> bool:
    modules = [name.name for name in statement.names] if isinstance(statement, ast.Import) else []
    if isinstance(statement, ast.ImportFrom) and not statement.level:
        modules = [statement.module or ""]
    return any(module.split(".")[0] == "torch" for module in modules)


def _modules_above(tree: ast.Module, line: int) -> set[str]:
    imports = (one for one in tree.body if isinstance(one, ast.Import) and one.lineno <= line)
    return {name.asname or name.name for one in imports for name in one.names}


def _may_import_first(text: str, tree: ast.Module) -> bool:
    """Whether a script that does not import torch itself does nothing before what torch finds when it is imported."""
    return bool(tree.body) and not _ENVIRONMENT.search(text)


def _last_import(body: Sequence[ast.stmt], first: ast.stmt) -> ast.stmt:
    """Return the last of the imports that follow one in a block, with nothing else between them."""
    following = body[body.index(first) :]
    return list(takewhile(lambda one: isinstance(one, (ast.Import, ast.ImportFrom)), following))[-1]


def _below(text: str, body: Sequence[ast.stmt], statement: ast.stmt, added: Sequence[str]) -> str | None:
    """Return a text with lines below a statement of a block; None where the block has no lines of its own."""
    last = statement.end_lineno or statement.lineno
    lines = text.split("\n")
    indent = _indent(lines[statement.lineno - 1])
    if not any(one.lineno == statement.lineno and one.col_offset == len(indent) for one in body):
        return None
    return _after(text, last, [indent + one for one in added])


def _importing(text: str, added: Sequence[str]) -> str | None:
    """Return a text with lines before its first statement, but after what must come first of all."""
    tree = parsed(text)
    if tree is None:
        return None
    last = 0
    for number, statement in enumerate(tree.body):
        is_docstring = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_docstring and not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        last = statement.end_lineno or statement.lineno
    if not last and tree.body:  # after comments at the top: an encoding, `#!`
        first = tree.body[0]
        last = first_line(first) - 1
    following = next((statement for statement in tree.body if statement.lineno > last), None)
    is_apart = isinstance(following, (ast.Import, ast.ImportFrom)) or not text.split("\n")[last].strip()
    return _after(text, last, added if is_apart else [*added, ""])


def _after(text: str, number: int, added: Sequence[str]) -> str:
    lines = text.split("\n")
    ending = "\r" if lines[0].endswith("\r") else ""
    return "\n".join([*lines[:number], *(line + ending for line in added), *lines[number:]])


# -- patches


def patch(before: Texts, after: Texts, folder: str) -> str:
    """Return what differs as a unified diff, which `patch -p0` makes in that folder, and `patch -p0 -R` undoes."""
    return "".join(
        _of_file(os.path.relpath(file, folder), before[file], after[file])
        for file in sorted(after)
        if before[file] != after[file]
    )


def _of_file(name: str, before: str, after: str) -> str:
    # A tab ends a name that has spaces in it.
    end = "\t" if " " in name else ""
    left, right = _ended(before), _ended(after)
    changes = difflib.unified_diff(left, right, name + end, name + end, n=_CONTEXT)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in changes)


def _ended(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines
