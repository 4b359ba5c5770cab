"""A recording without the source text and the paths in it: what is left is structure, and the names in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, TypeVar

from compiler_lens.recording.model import (
    CompileId,
    Direction,
    Graph,
    GraphBreak,
    Kernel,
    KernelKind,
    OutputCode,
    Recording,
    SourceLine,
)
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.wording import Wording

_PACKAGES = re.compile(r"^.*/((?:site|dist)-packages/)")
_STANDARD = re.compile(r"^.*/(lib(?:64)?/python3[^/]*/)")
# A path in a text: from a root, a home or a drive; of a quoted one, spaces belong to it.
_PATH = re.compile(
    r"""(?<=["'])(?:~|[A-Za-z]:)?[/\\][^"'\n]*|(?<![\w.)\]/])(?:~|[A-Za-z]:)?[/\\][\w.@+~-]+(?:[/\\][\w.@+~-]+)+"""
)
# A path from nowhere is one by what its file's name ends with: other texts divide.
_RELATIVE = re.compile(
    r"(?<![\w./\\:@~-])(?!torch[/\\])(?:[\w.@+~-]+[/\\])+[\w.@+~-]*"
    r"\.(?:py|pyi|ipynb|txt|md|csv|tsv|jsonl?|ya?ml|toml|ini|cfg|log|npy|npz|pkl|pt|pth|bin|ckpt|safetensors|onnx|parquet|h5|db|zip|gz|tar|so|sh|cu|cpp|h)\b"
)
_QUOTED_LINE = re.compile(r"(?<=, code: )[^\n]*")  # of a line, where torch tells of a tensor's origin
_COMMENT = re.compile(
    r"[ \t]*#[^\n]*|^[ \t]*//[^\n]*", re.MULTILINE
)  # in torch's own printing, comments hold the user's lines and folders
_Value = TypeVar("_Value")
_SHORTEST = 8  # characters of a line of source: less is in every program
_OWN = "..."  # instead of a kernel that the user wrote
# As `define_user_defined_triton_kernel` of torch/_inductor/codegen/wrapper.py writes it.
_WRITTEN = r"(?ms)(^%s = async_compile\.\w+\('[^']*', ''').*?(''', device_str=)"


def redacted(recording: Recording) -> Recording:
    """The same recording for other eyes. Names of functions, modules, arguments and kernels stay."""
    return _blank(recording, _Black.of(recording))


def redacted_diff(before: Recording, after: Recording, result: _Value) -> tuple[Recording, Recording, _Value]:
    """Two recordings and what differs between them; a file has the same number in all of them."""
    ink = _Black.of(before, after)
    return _blank(before, ink), _blank(after, ink), ink.value(result)


def _blank(recording: Recording, ink: _Black) -> Recording:
    blank = replace(recording, sources=(), environment=replace(recording.environment, argv=(), platform="", pid=None))
    return ink.value(blank)  # type: ignore[no-any-return]  # what goes in comes out


@dataclass(frozen=True, slots=True)
class _Black:
    """What is to be blackened: files have numbers instead of names, lines of source nothing."""

    files: Mapping[str, str]
    lines: frozenset[str]
    wording: Wording | None  # in prose
    kernels: Mapping[tuple[CompileId, Direction], tuple[str, ...]] = field(default_factory=dict)  # the user's own

    @classmethod
    def of(cls, *recordings: Recording) -> _Black:
        """All files and lines of source that the recordings know."""
        found = [at for recording in recordings for at in _places(recording)]
        sources = [source for recording in recordings for source in recording.sources]
        files = dict.fromkeys([source.file for source in sources] + [at.file for at in found])
        texts = (line for source in sources for line in source.text.splitlines())
        lines = {line.strip() for line in (*texts, *(at.code for at in found))}
        names = _names(files)
        own = {file: name for file, name in names.items() if is_own(file) and name != file}
        kernels: dict[tuple[CompileId, Direction], tuple[str, ...]] = {}
        for kernel in (kernel for recording in recordings for kernel in recording.kernels):
            if kernel.kind is KernelKind.USER:
                place = kernel.compile_id, kernel.direction
                kernels[place] = (*kernels.get(place, ()), kernel.name)
        kept = frozenset(line for line in lines if len(line) >= _SHORTEST)
        return cls(names, kept, Wording.of(recordings, own), kernels)

    def value(self, value: Any) -> Any:
        """Anything that a recording holds, without what nobody should see."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (tuple, list)):
            return type(value)(self.value(each) for each in value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(each) for key, each in value.items()}
        if is_dataclass(value) and not isinstance(value, type):
            return self.each(value)
        return value

    def each(self, value: Any) -> Any:
        """A value made of fields."""
        if isinstance(value, SourceLine):
            return replace(value, file=self.files.get(value.file, ""), code="", function=self.text(value.function))
        if isinstance(value, GraphBreak):
            value = replace(value, text="")
        if isinstance(value, (Graph, OutputCode, Kernel)):
            return replace(self, wording=None).fields_of(self.code(value))  # names and figures, no prose
        return self.fields_of(value)

    def fields_of(self, value: Any) -> Any:
        """A value with all of its fields blackened."""
        return replace(value, **{one.name: self.field(value, one.name) for one in fields(value) if one.init})

    def code(self, value: Graph | OutputCode | Kernel) -> Graph | OutputCode | Kernel:
        """Generated code without comments, and without the kernels that the user wrote."""
        if isinstance(value, Kernel):
            own = value.kind is KernelKind.USER and value.source
            return replace(value, source=_OWN if own else _COMMENT.sub("", value.source))
        code = _COMMENT.sub("", value.code)
        if isinstance(value, OutputCode):
            for name in self.kernels.get((value.compile_id, value.direction), ()):
                code = re.sub(_WRITTEN % re.escape(name), rf"\1\n{_OWN}\n\2", code)
        return replace(value, code=code)

    def field(self, value: Any, name: str) -> Any:
        """One field; a file has a name of its own."""
        inside = getattr(value, name)
        if isinstance(inside, (int, float, Enum)) or inside is None:
            return inside
        return self.files.get(inside, "") if name == "file" else self.value(inside)

    def text(self, text: str) -> str:
        """A text of torch's or the user's: no path in it, no line of source and no wording of the user's."""
        if len(text) >= _SHORTEST and ("\n" in text or text.strip() in self.lines):
            text = "\n".join("" if line.strip() in self.lines else line for line in text.split("\n"))
        text = _QUOTED_LINE.sub("…", text) if self.wording else text
        if "/" in text or "\\" in text:
            text = _PATH.sub(self._path, text)
            text = _RELATIVE.sub("…", text) if self.wording else text
        return self.wording.hidden(text) if self.wording else text

    def _path(self, found: re.Match[str]) -> str:
        path = found[0]
        return self.files.get(path) or _without_folder(path)


def _places(value: Any) -> Iterator[SourceLine]:
    """Every line and file that something points to."""
    if isinstance(value, SourceLine):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _places(each)
    elif is_dataclass(value) and not isinstance(value, type):
        file = getattr(value, "file", "")
        if file:
            yield SourceLine(file, 0)
        for one in fields(value):
            inside = getattr(value, one.name)
            if not isinstance(inside, (str, int, float, Enum)):
                yield from _places(inside)


def _names(files: Iterable[str]) -> Mapping[str, str]:
    """The user's own files by number; those of packages by their place in the package."""
    names: dict[str, str] = {}
    for file in sorted(set(files)):
        plain = file.replace("\\", "/")
        packaged = _PACKAGES.search(plain) or _STANDARD.search(plain)
        if packaged:
            names[file] = f"/{packaged[1]}{plain[packaged.end() :]}"
        elif not file or file.startswith("<") or not is_own(file):
            names[file] = file if file.startswith("<") else f"/{PurePosixPath(plain).name}" if file else ""
        else:
            names[file] = f"file{1 + sum(name.startswith('file') for name in names.values())}.py"
    return names


def _without_folder(path: str) -> str:
    plain = path.replace("\\", "/")
    packaged = _PACKAGES.search(plain)
    return f"…/{packaged[1]}{plain[packaged.end() :]}" if packaged else "…"
