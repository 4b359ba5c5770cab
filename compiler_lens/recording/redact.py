"""A recording without the source text and the paths in it: what is left is structure, and the names in it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import count
from pathlib import PurePosixPath
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.recording import model
from compiler_lens.recording.model import CodeId, CompileId, KernelKind, Recording, SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.source_text import sources

_PACKAGES = re.compile(r"^.*/((?:site|dist)-packages/)")
_STANDARD = re.compile(r"^.*/(lib(?:64)?/python3[^/]*/)")
# A path in a text: from a root, a home or a drive; of a quoted one, spaces belong to it.
_PATH = re.compile(
    r"""(?<=["'])(?:~|[A-Za-z]:)?[/\\][^"'\n]*|(?<![\w.)\]/])(?:~|[A-Za-z]:)?[/\\][\w.@+~-]+(?:[/\\][\w.@+~-]+)+"""
)
# A path from nowhere is one by what its file's name ends with: other texts divide.
_RELATIVE = re.compile(
    r"(?<![\w./\\:@+~-])(?!torch[/\\])(?:[\w.@+~-]+[/\\])+[\w.@+~-]*"
    r"\.(?:py|pyi|ipynb|txt|md|csv|tsv|jsonl?|ya?ml|toml|ini|cfg|log|npy|npz|pkl|pt|pth|bin|ckpt|safetensors|onnx|parquet|h5|db|zip|gz|tar|so|sh|cu|cpp|h)\b"
)
# Without folders one between quotes, of data alone: names of ops and of code have dots, too.
_DATA_FILE = re.compile(
    r"(?<=['\"])[^'\"/\\\n]{1,200}"
    r"\.(?:txt|md|csv|tsv|jsonl?|ya?ml|toml|ini|cfg|npy|npz|pkl|pt|pth|bin|ckpt|safetensors|onnx|parquet|h5|zip)(?=['\"])"
)
_QUOTED_LINE = re.compile(r"(?<=, code: )[^\n]*")  # of a line, where torch says where a tensor comes from
# A line with its place, where torch says why it compiles again: `  # CODE  # FILE:LINE in FUNCTION`.
_GUARDED_LINE = re.compile(r"(?<![ \t])[ \t]+# [^\n]*")
_PLACED = re.compile(r":\d+ in ")
# What somebody said to torch, in a sentence of torch's: a message, a reason, an exception. It ends where torch goes on.
_TOLD = re.compile(
    r"(Message: |with message |\(reason: |\bReason: | raised:\n|\braised exception \w+|\bgot \w+(?=\()"
    r"|failed with |Exception:)(.*?)(?=\n {0,8}(?:Hint|Explanation|Developer debug context): |\Z)",
    re.DOTALL,
)
# A value in what torch calls a variable; one that is longer than what is looked for between quotes.
_CONSTANT = re.compile(r"""(\(str: )('(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z))""", re.DOTALL)
_LONG = re.compile(
    r"""(\A|== |, |[\[{(])(b?'(?:[^'\\]|\\.){401,}(?:'|\Z)|b?"(?:[^"\\]|\\.){401,}(?:"|\Z))""", re.DOTALL
)
# In torch's own printing, comments hold the user's lines and folders.
_COMMENT = re.compile(r"(?<![ \t])[ \t]*#[^\n]*|^[ \t]*//[^\n]*", re.MULTILINE)
_WITHIN = re.compile(r"\w(?:.*\w)?", re.DOTALL)  # from its first word to its last
_Value = TypeVar("_Value")
_SHORTEST = 8  # characters of a line of source: less is in every program
_OWN = "..."  # instead of a kernel that the user wrote
# As `define_user_defined_triton_kernel` of torch/_inductor/codegen/wrapper.py writes it.
_WRITTEN = re.compile(r"^(\w+) = async_compile\.\w+\('[^']*', '''", re.MULTILINE)
_WRITTEN_TO = "''', device_str="


def redacted(recording: Recording, owns: Callable[[str], bool] = is_own) -> Recording:
    """Return the same recording for other eyes: names of functions, modules, arguments and kernels stay.

    `owns` says which files are the user's: their names, and the strings that are written in them, go.
    """
    return _blank(recording, _Black.of([recording], owns))


def redacted_diff(
    before: Recording, after: Recording, result: _Value, owns: Callable[[str], bool] = is_own
) -> tuple[Recording, Recording, _Value]:
    """Return two recordings and what differs between them; a file has the same number in all of them."""
    ink = _Black.of([before, after], owns)
    return _blank(before, ink), _blank(after, ink), ink.value(result)


def _blank(recording: Recording, ink: _Black) -> Recording:
    blank = replace(
        recording, sources=(), tried=(), environment=replace(recording.environment, argv=(), platform="", pid=None)
    )
    return ink.value(blank)  # type: ignore[no-any-return]  # what goes in comes out


class _Black(Struct, frozen=True):
    """What is to be blackened: files have numbers instead of names, lines of source nothing."""

    files: Mapping[str, str]
    lines: frozenset[str]
    wording: Wording
    of_code: Wording  # in graphs and kernels: between quotes only
    kernels: Mapping[CodeId, Sequence[str]]  # the user's own
    # What texts became, others and those of code: a name comes at each node, and many events may refer to one text.
    known: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    bare: dict[tuple[str, frozenset[str]], str] = field(default_factory=dict)  # code, by the kernels that it is without

    @classmethod
    def of(cls, recordings: Sequence[Recording], owns: Callable[[str], bool]) -> _Black:
        """Return all files and lines of source that the recordings know."""
        found = [at for recording in recordings for at in _places(recording)]
        sources = [source for recording in recordings for source in recording.sources]
        files = dict.fromkeys([source.file for source in sources] + [at.file for at in found])
        texts = (line for text in dict.fromkeys(source.text for source in sources) for line in text.splitlines())
        lines = {line.strip() for line in (*texts, *(at.code for at in found))}
        names = _names(files, owns)
        own = {file: name for file, name in names.items() if owns(file) and name != file}
        kernels: dict[CodeId, list[str]] = defaultdict(list)
        for kernel in (kernel for recording in recordings for kernel in recording.kernels):
            if kernel.kind is KernelKind.USER:
                kernels[kernel.code_id].append(kernel.name)
        kept = frozenset(line for line in lines if len(line) >= _SHORTEST)
        wording = Wording.of(recordings, own, kept)
        return cls(names, kept, wording, Wording(wording.quoted, keys=wording.keys, lengths=wording.lengths), kernels)

    def value(self, value: Any) -> Any:
        """Return anything that a recording holds, without what nobody should see."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, (int, float, Enum, CompileId)):
            return value
        if isinstance(value, (tuple, list)):
            return type(value)(self.value(each) for each in value)
        if isinstance(value, Mapping):
            return {self.value(key): self.value(each) for key, each in value.items()}
        if isinstance(value, SourceLine):
            return replace(value, file=self.files.get(value.file, ""), code="", function=self.text(value.function))
        return self._fields(value) if isinstance(value, Struct) else value

    def _fields(self, value: Any) -> Any:
        if isinstance(value, model.GraphBreak):
            value = replace(value, text="")
        ink = self
        if isinstance(value, (model.Graph, model.OutputCode, model.Kernel)):
            ink, value = replace(self, wording=self.of_code), self._code(value)
        hidden = {}
        for name in value.__struct_fields__:
            inside = getattr(value, name)
            is_file = name == "file" and isinstance(inside, str)  # which has a name of its own
            hidden[name] = self.files.get(inside, "") if is_file else ink.value(inside)
        return replace(value, **hidden)

    def _code(self, value: model.Graph | model.OutputCode | model.Kernel) -> Any:
        """Generated code without comments, and without the kernels that the user wrote."""
        if isinstance(value, model.Kernel):
            own = value.kind is KernelKind.USER and value.source
            return replace(value, source=_OWN if own else self._bare(value.source))
        hidden = self.kernels.get(value.id, ()) if isinstance(value, model.OutputCode) else ()
        return replace(value, code=self._bare(value.code, frozenset(hidden)))

    def _bare(self, code: str, kernels: frozenset[str] = frozenset()) -> str:
        """Code without comments, and without the sources of these kernels."""
        key = code, kernels
        if key not in self.bare:
            self.bare[key] = _without_sources(_COMMENT.sub("", code), kernels)
        return self.bare[key]

    def text(self, text: str) -> str:
        """Return a text of torch's or the user's: no path in it, no line of source and no wording of the user's."""
        known = self.known[self.wording is self.of_code]
        if text not in known:
            known[text] = self._text(text)
        return known[text]

    def _text(self, text: str) -> str:
        if len(text) >= _SHORTEST and ("\n" in text or text.strip() in self.lines):
            text = "\n".join("" if line.strip() in self.lines else line for line in text.split("\n"))
        if self.wording is not self.of_code:
            text = _GUARDED_LINE.sub(_unplaced, _QUOTED_LINE.sub("…", text))
            text = _DATA_FILE.sub("…", _TOLD.sub(self._said, text))
            text = _LONG.sub(r"\1…", _CONSTANT.sub(self._said, text))
        if "/" in text or "\\" in text:
            text = _RELATIVE.sub("…", _PATH.sub(self._path, text))
        return self.wording.hidden(text)

    def _said(self, found: re.Match[str]) -> str:
        return found[1] + self.wording.quoted.get(found[2].strip("'\""), "…")

    def _path(self, found: re.Match[str]) -> str:
        plain = found[0].replace("\\", "/")
        packaged = _PACKAGES.search(plain)
        return self.files.get(found[0]) or (f"…/{packaged[1]}{plain[packaged.end() :]}" if packaged else "…")


def _unplaced(found: re.Match[str]) -> str:
    place = found[0].find("# ", found[0].index("#") + 2)
    return "" if place >= 0 and _PLACED.search(found[0], place) else found[0]


def _places(value: Any) -> Iterator[SourceLine]:
    """Every line and file that something points to."""
    if isinstance(value, SourceLine):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _places(each)
    elif isinstance(value, Struct):
        file = getattr(value, "file", "")
        if file:
            yield SourceLine(file, 0)
        for name in value.__struct_fields__:
            inside = getattr(value, name)
            if not isinstance(inside, (str, int, float, Enum, CompileId)):
                yield from _places(inside)


def _names(files: Iterable[str], owns: Callable[[str], bool]) -> Mapping[str, str]:
    """The user's own files by number; those of packages by their place in the package."""
    names: dict[str, str] = {}
    numbers = count(1)
    for file in sorted(set(files)):
        plain = file.replace("\\", "/")
        if not file or file.startswith("<"):
            names[file] = file
        elif owns(file):
            names[file] = f"file{next(numbers)}.py"
        elif packaged := _PACKAGES.search(plain) or _STANDARD.search(plain):
            names[file] = f"/{packaged[1]}{plain[packaged.end() :]}"
        else:
            names[file] = f"/{PurePosixPath(plain).name}"
    return names


# -- what the user wrote between quotes, found in what torch says: the values in guards, a message, names of files

_TOKEN = re.compile(r"\w+|\W+")
_QUOTED = re.compile(r"""(['"])((?:(?!\1)[^\\]|\\.){1,400})\1""", re.DOTALL)
# After it comes a name, of a variable, a module, a class, and not a key.
_NAMED = re.compile(
    r"(?:\b[LG]\[|\._(?:modules|parameters|buffers)\[|\.__\w{1,20}__\[|__builtins_dict\w{0,9}'\]\[|<class )b?\Z"
)
_BEFORE = 40  # characters that tell
# What Dynamo calls an input: where it comes from, with an underscore for all that is no letter and no digit.
_INPUT = re.compile(r"\b[LGlg]_\w+")
_ATTRIBUTE = re.compile(r"(?<=, )'\w+'\)(?= == |\Z)|(?<=dict_contains\()'\w+'(?=, [^,]*\.__dict__\)\Z)")
_OWNERS = frozenset(("modules", "parameters", "buffers"))  # a name follows
_SENTENCE = 8  # characters of several words that are nobody else's
_SHORTEST_WORD = 5  # and of a literal of one word
_LINE = 14  # and of a line of source, in the midst of others' words
_CALL_OF_TORCH = re.compile(r"torch[\w.]*\(\)")  # torch's own advice names such
_HEADS = (9, 7, 5, 3)  # tokens by which a text of several words is found: words, and what stands between them

_Needle = tuple[str, str]  # a text, and what stands for it
_Parts = tuple[str, ...]


class Wording(Struct, frozen=True):
    """Texts that must not be shown: a text of any length is gone through once, however many there are."""

    quoted: Mapping[str, str]  # what stands for it between quotes
    needles: Mapping[str, str] = field(default_factory=dict)  # what stands for texts of several words
    heads: Mapping[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # lengths of these by how they begin, longest first
    firsts: frozenset[str] = frozenset()  # words that these begin with
    keys: Mapping[_Parts, str] = field(default_factory=dict)  # what stands for it in the name of an input
    lengths: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of these, by their first part

    @classmethod
    def of(cls, recordings: Iterable[Recording], files: Mapping[str, str], lines: Iterable[str] = ()) -> Wording:
        """Return the wording of recordings.

        `files` are the user's own, each with what it is called instead; `lines` are those of any source.
        """
        several = list(recordings)
        guarded = [text for recording in several for text in _compared(recording)]
        for recording in several:
            known = sources(recording)
            guarded += [text for file in files for text in known.literals(file) if len(text) >= _SHORTEST_WORD]
        told = {text: f"text{n}" for n, text in enumerate(dict.fromkeys(guarded), 1)}
        needles = [(text, name) for text, name in told.items() if len(text) >= _SENTENCE and len(text.split()) > 1]
        needles += [(file.rpartition("/")[2], called) for file, called in files.items()]
        needles += [(line, "…") for line in lines if len(line) >= _LINE and not _CALL_OF_TORCH.fullmatch(line)]
        plain, heads = _by_head(needles)
        firsts = frozenset(_TOKEN.match(head)[0] for head in heads)  # type: ignore[index]
        keys = {parts: called for text, called in reversed(told.items()) for parts in _as_input(text)}
        lengths: dict[str, set[int]] = {}
        for parts in keys:
            lengths.setdefault(parts[0], set()).add(len(parts))
        longest = {first: tuple(sorted(several, reverse=True)) for first, several in lengths.items()}
        return cls(told, plain, heads, firsts, keys, longest)

    def hidden(self, text: str) -> str:
        """Return a text with a number for what must not be shown."""
        if "'" in text or '"' in text:
            text = self._without_quoted(text)
        if self.keys and "_" in text:
            text = _INPUT.sub(self._input, text)
        return self._without_needles(text) if self.heads else text

    def _without_quoted(self, text: str) -> str:
        parts: list[str] = []
        told = at = 0
        while found := _QUOTED.search(text, at):
            at = found.start() + 1  # an apostrophe opens nothing
            instead = self.quoted.get(found[2])
            if instead and not _NAMED.search(text, max(at - _BEFORE, 0), at - 1):
                parts += [text[told:at], instead, found[1]]
                told = at = found.end()
        return "".join([*parts, text[told:]])

    def _input(self, found: re.Match[str]) -> str:
        """The name of an input, without the keys that lead to it."""
        parts = found[0].split("_")
        made, at = parts[:2], 2
        while at < len(parts):
            lengths = () if made[-1] in _OWNERS else self.lengths.get(parts[at], ())
            length = next((n for n in lengths if tuple(parts[at : at + n]) in self.keys), 0)
            made.append(self.keys[tuple(parts[at : at + length])] if length else parts[at])
            at += length or 1
        return "_".join(made)

    def _without_needles(self, text: str) -> str:
        parts: list[str] = []
        tokens = [(found.start(), found.end()) for found in _TOKEN.finditer(text)]
        told = 0
        for number, (begin, end) in enumerate(tokens):
            if begin >= told and text[begin:end] in self.firsts:
                needle = self._needle(text, [end for _, end in tokens[number : number + _HEADS[0]]], begin)
                if needle:
                    parts += [text[told:begin], self.needles[needle]]
                    told = begin + len(needle)
        return "".join([*parts, text[told:]])

    def _needle(self, text: str, ends: list[int], begin: int) -> str:
        heads = (text[begin : ends[tokens - 1]] for tokens in _HEADS if tokens <= len(ends))
        found = (text[begin : begin + length] for head in heads for length in self.heads.get(head, ()))
        return next((needle for needle in found if needle in self.needles), "")


def _without_sources(code: str, kernels: AbstractSet[str]) -> str:
    """Output code without the sources of these kernels."""
    parts, told = [], 0
    for begun in _WRITTEN.finditer(code):
        end = code.find(_WRITTEN_TO, begun.end()) if begun[1] in kernels and begun.start() >= told else told
        if end < 0:
            break
        if end > told:
            parts += [code[told : begun.end()], f"\n{_OWN}\n"]
            told = end
    return "".join([*parts, code[told:]])


def _by_head(needles: Iterable[_Needle]) -> tuple[Mapping[str, str], Mapping[str, tuple[int, ...]]]:
    by_text: dict[str, str] = {}
    lengths: dict[str, set[int]] = {}
    for text, told in sorted(dict.fromkeys(needles), key=lambda each: (-len(each[0]), each)):
        within = _WITHIN.search(text)
        plain = within[0] if within else ""
        tokens = _TOKEN.findall(plain)[: _HEADS[0]]
        if len(tokens) >= _HEADS[-1]:
            by_text.setdefault(plain, told)
            lengths.setdefault("".join(tokens), set()).add(len(plain))
    return by_text, {head: tuple(sorted(several, reverse=True)) for head, several in lengths.items()}


def _as_input(text: str) -> Iterator[_Parts]:
    """A key as Dynamo writes it into an input's name, and as torch.fx then does."""
    plain = re.sub(r"[^a-zA-Z0-9]+", "_", text).strip("_")
    for form in (plain, re.sub(r"(?<=[a-z])([A-Z])", r"_\1", plain).lower()):
        if form:
            yield tuple(form.split("_"))


def _compared(recording: Recording) -> Iterator[str]:
    """The strings that guards compare with, and those that they look up."""
    # What is asked of an object itself are names of attributes.
    asked = dict.fromkeys(guard.expression for guard in recording.guards if guard.kind != "GLOBAL_STATE")
    said = [_ATTRIBUTE.sub("", expression) for expression in asked]
    said += [symbol.source for symbol in recording.symbols]
    for recompile in recording.recompiles:
        for failure in recompile.failures:
            said += [failure.text, failure.source, failure.old, failure.new]
    for text in dict.fromkeys(said):
        for quoted in _QUOTED.finditer(text):
            before = max(quoted.start() - _BEFORE, 0)
            if not (quoted[2].startswith("torch.") or _NAMED.search(text, before, quoted.start())):
                yield quoted[2]
