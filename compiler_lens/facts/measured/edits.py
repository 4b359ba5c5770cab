"""Changes to the text of files: lines in place of others, a setting at the top of a script; and a patch of them."""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import parsed

_SETTING = re.compile(r"torch(\._dynamo\.config\.\w+ = .+)")
_MODULES = re.compile(r"\b(warnings|logging)\.")
_DEFINED = re.compile(r"^def (\w+)\(", re.MULTILINE)
_CONTEXT = 3  # lines around a change

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
        """The change in a few words of code."""
        return next((line.strip() for line in self.after if line.strip()), "")


class Setting(Struct, frozen=True):
    """A setting of torch's to make where the program begins."""

    code: str  # "torch._dynamo.config.capture_scalar_outputs = True"

    @property
    def title(self) -> str:
        """The change in a few words of code."""
        return self.code


Edit = Lines | Setting


def edited(edit: Edit, texts: Texts, script: str) -> Texts | None:
    """Return the texts with an edit made; None where its lines are not there any more, or it changes nothing.

    Args:
        edit: what to change.
        texts: the files as they are, the script among them.
        script: the file that the program begins with, where settings are made.
    """
    file = edit.file if isinstance(edit, Lines) else script
    text = texts.get(file)
    if text is None or "\r" in text.replace("\r\n", ""):  # a line's end that only old machines know
        return None
    new = _with_lines(text, edit) if isinstance(edit, Lines) else _with_setting(text, edit.code)
    return None if new is None or new == text or parsed(new) is None else {**texts, file: new}


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
    return _importing(new, [f"import {edit.imports}"]) if edit.imports and new is not None else new


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
    first = min(node.lineno for node in (whole, *getattr(whole, "decorator_list", ())))
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
    for statement in tree.body:
        for name in statement.names if isinstance(statement, ast.Import) else ():
            needed = [one for one in needed if one != f"import {name.asname or name.name}"]  # which stands above
            if name.name == "torch":
                line = f"{name.asname or 'torch'}{found[1]}"
                return _after(text, statement.end_lineno or statement.lineno, [*needed, line])
    return _importing(text, [*needed, "import torch", code])


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
        last = min(node.lineno for node in (first, *getattr(first, "decorator_list", ()))) - 1
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
