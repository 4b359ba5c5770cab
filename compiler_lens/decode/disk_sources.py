"""Source text for a log that holds none: from the folders that the reader names, and from nowhere else.

A log is a stranger's file, and may name any path. None is opened by that name: its last parts, as plain names, are
looked for below each folder. That also finds what another machine or checkout has elsewhere.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import BytesIO, TextIOWrapper
from typing import BinaryIO

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.decode.compilations import name_definitions
from compiler_lens.recording.errors import RecordingFileError, UsageError
from compiler_lens.recording.model import Recording, SourceFile, SourceLine, Unavailable
from compiler_lens.recording.opening import opened
from compiler_lens.recording.own_files import is_own, slashed
from compiler_lens.recording.source_text import Sources

Folders = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_FACT = "source text"
_HOW = "the log has none; --sources DIR, or load(log, sources=DIR), takes it from the .py files below DIR"
_FEW = "the log says too little of it: one line"
_NOT_THERE = "no .py file of that name that can be read is below {}"
_CHANGED = "what is below {} is not what the log quotes"

_FEWEST = 2  # lines and functions that agree: one line is in many files
_LONGEST = 2_000_000  # bytes of a file
_MOST = 20_000_000  # bytes of all files that are read
_DEEPEST = 40  # folders of a path

# Not of anybody's model: torch's own files and the standard library's, as for what a lens keeps.
_LIBRARY = re.compile(r"-packages/torch/|/lib(64)?/python3[^/]*/(?!(site|dist)-packages/)")


def with_disk_sources(recording: Recording, folders: Folders = ()) -> Recording:
    """Return a log's recording with the text of those files below the folders that say what the log quotes of them.

    Raises:
        UsageError: one of the folders is not there.
    """
    several = (folders,) if isinstance(folders, str | os.PathLike) else tuple(folders)
    wanted = _known(recording)
    files: list[SourceFile] = []
    missing: dict[str, list[str]] = defaultdict(list)
    with ExitStack() as stack:
        shelf = _Shelf(several, stack)
        for file, known in sorted(wanted.items()):
            text_or_why = shelf.find(file, known) if several else _HOW
            if isinstance(text_or_why, SourceFile):
                files.append(text_or_why)
            elif is_own(file):
                missing[text_or_why].append(file)
    told = (why if why == _HOW else f"{_named(names)}: {why}" for why, names in missing.items())
    return replace(
        recording,
        sources=tuple(files),
        compilations=name_definitions(recording.compilations, files),
        unavailable=(*recording.unavailable, *(Unavailable(_FACT, reason) for reason in told)),
    )


def _named(files: Sequence[str]) -> str:
    names = [slashed(file).rpartition("/")[2] for file in files]
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")  # noqa: PLR2004


class _Known(Struct, frozen=True):
    """What a log says of a file."""

    lines: set[tuple[int, str]] = field(default_factory=set)  # by number: the text
    functions: set[tuple[int, str]] = field(default_factory=set)  # of those that were compiled, by their first line

    @property
    def is_enough(self) -> bool:
        """Whether that can tell the file from others."""
        return _count(self.lines, self.functions) >= _FEWEST

    def agrees(self, text: str) -> bool:
        """Return whether a text has each line in its place, and several lines and functions whole.

        A log may quote a statement where the file has only its first line there.
        """
        source = Sources({"": text})
        lines = [(source.line("", number).strip(), code) for number, code in self.lines]
        if not all(line and code.startswith(line) for line, code in lines):
            return False
        same = {(number, code) for number, code in self.lines if source.line("", number).strip() == code}
        if _count(same, ()) >= _FEWEST:
            return True
        defined = {(one.line, one.name.rpartition(".")[2]) for one in source.definitions("")}
        return _count(same, self.functions & defined) >= _FEWEST


def _count(lines: Iterable[tuple[int, str]], functions: Iterable[tuple[int, str]]) -> int:
    """Return how many different lines these are: neither two of the same text, nor a function's first line twice."""
    return len({number for number, _ in functions}.union({code: number for number, code in sorted(lines)}.values()))


def _known(recording: Recording) -> Mapping[str, _Known]:
    """Return what a log says of each file of somebody's program."""
    places = [at for event in recording.graph_breaks for at in event.user_stack]
    places += [at for graph in recording.graphs for node in graph.nodes for at in node.source]
    for compilation in recording.compilations:
        places += [SourceLine(compilation.file, compilation.line), *compilation.stack]
    known: dict[str, _Known] = defaultdict(_Known)
    for at in places:
        if at.file and not at.file.startswith("<") and _LIBRARY.search(slashed(at.file)) is None:
            about, code = known[at.file], at.code.strip()
            if code and at.line > 0:
                about.lines.add((at.line, code))
    for compilation in recording.compilations:
        if compilation.file in known and compilation.line > 0:
            known[compilation.file].functions.add((compilation.line, compilation.function))
    return known


class _Shelf:
    """The folders of which texts may be read, and how much of them still may."""

    def __init__(self, folders: Sequence[str | os.PathLike[str]], stack: ExitStack) -> None:
        self._folders: list[tuple[str, int]] = []
        self._left = _MOST
        for folder in folders:
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except (OSError, ValueError) as error:
                raise UsageError(f"no folder {os.fspath(folder)} to take source text from") from error
            stack.callback(os.close, descriptor)
            self._folders.append((os.path.realpath(folder), descriptor))
        self._below = " or ".join(f"'{path}'" for path, _ in self._folders)

    def find(self, file: str, known: _Known) -> SourceFile | str:
        """Return the text of a file of the log, or why there is none."""
        if not known.is_enough:
            return _FEW
        why = _NOT_THERE
        for tail in _tails(file):
            for path, descriptor in self._folders:
                text = self._text(descriptor, tail)
                if text and known.agrees(text):
                    return SourceFile(file, text, "/".join((path, *tail)))
                why = _CHANGED if text else why
        return why.format(self._below)

    def _text(self, folder: int, tail: Sequence[str]) -> str:
        try:
            with _opened_below(folder, tail) as file:
                if os.fstat(file.fileno()).st_size > min(_LONGEST, self._left):
                    return ""
                data = file.read(_LONGEST)
            text = TextIOWrapper(BytesIO(data), encoding="utf-8-sig").read()
        except (OSError, ValueError, RecordingFileError):  # not there; a link; a pipe; not UTF-8; a name no file has
            return ""
        self._left -= len(text)
        return text


def _tails(file: str) -> Iterator[tuple[str, ...]]:
    """The ends of a file's path, the longest first: none goes up, or begins anywhere but at its folder."""
    parts = file.replace("\\", "/").split("/")
    plain = next((i for i in range(len(parts), 0, -1) if parts[i - 1] in {"", ".", ".."}), 0)
    if file.endswith(".py"):
        yield from (tuple(parts[i:]) for i in range(max(plain, len(parts) - _DEEPEST), len(parts)))


def _opened_below(folder: int, tail: Sequence[str]) -> BinaryIO:
    """Return a file below a folder, opened; no link is followed. Raises what `opened` raises, or ValueError."""
    folders: list[int] = []
    try:
        for name in tail[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            folders.append(folder := os.open(name, flags, dir_fd=folder))
        return opened(tail[-1], below=folder, follow=False)
    finally:
        for descriptor in folders:
            os.close(descriptor)
