"""What the user wrote between quotes, found in what torch says: the values in guards, a message, names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from compiler_lens.recording.model import Recording
from compiler_lens.recording.source_text import sources

_TOKEN = re.compile(r"\w+|\W+")
_QUOTED = re.compile(r"""(['"])((?:(?!\1)[^\\]|\\.){1,400})\1""", re.DOTALL)
_NAMED = re.compile(r"(?:[\w)\]]\[|<class )\Z")  # after it comes a name: of an argument, a module, a class
_SENTENCE = 8  # characters of several words that are nobody else's
_SHORTEST = 5  # and of a literal of one word
_LINE = 14  # and of a line of source, in the midst of others' words
_CALL_OF_TORCH = re.compile(r"torch[\w.]*\(\)")  # torch's own advice names such
_HEADS = (9, 7, 5, 3)  # tokens by which a text of several words is found: words, and what stands between them

_Needle = tuple[str, str]  # a text, and what stands for it


class Wording(Struct, frozen=True):
    """Texts that must not be shown: a text of any length is gone through once, however many there are."""

    quoted: Mapping[str, str]  # what stands for it between quotes
    heads: Mapping[str, tuple[_Needle, ...]] = field(default_factory=dict)  # texts of several words, the longest first
    firsts: frozenset[str] = frozenset()  # words that these begin with

    @classmethod
    def of(cls, recordings: Iterable[Recording], files: Mapping[str, str], lines: Iterable[str] = ()) -> Wording:
        """Return the wording of recordings.

        `files` are the user's own, each with what it is called instead; `lines` are those of any source.
        """
        several = list(recordings)
        guarded = [text for recording in several for text in _compared(recording)]
        for recording in several:
            known = sources(recording)
            guarded += [text for file in files for text in known.literals(file) if len(text) >= _SHORTEST]
        told = {text: f"text{n}" for n, text in enumerate(dict.fromkeys(guarded), 1)}
        needles = [(text, name) for text, name in told.items() if len(text) >= _SENTENCE and len(text.split()) > 1]
        needles += [(file.rpartition("/")[2], called) for file, called in files.items()]
        needles += [(line, "…") for line in lines if len(line) >= _LINE and not _CALL_OF_TORCH.fullmatch(line)]
        heads = _by_head(needles)
        return cls(told, heads, frozenset(_TOKEN.match(head)[0] for head in heads))  # type: ignore[index]

    def hidden(self, text: str) -> str:
        """Return a text with a number for what must not be shown."""
        if "'" in text or '"' in text:
            text = self._without_quoted(text)
        return self._without_needles(text) if self.heads else text

    def _without_quoted(self, text: str) -> str:
        parts: list[str] = []
        told = at = 0
        while found := _QUOTED.search(text, at):
            at = found.start() + 1  # an apostrophe opens nothing
            instead = self.quoted.get(found[2])
            if instead and not _NAMED.search(text, max(at - 8, 0), at - 1):
                parts += [text[told:at], instead, found[1]]
                told = at = found.end()
        return "".join([*parts, text[told:]])

    def _without_needles(self, text: str) -> str:
        parts: list[str] = []
        tokens = [(found.start(), found.end()) for found in _TOKEN.finditer(text)]
        told = 0
        for number, (begin, end) in enumerate(tokens):
            if begin >= told and text[begin:end] in self.firsts:
                needle = self._needle(text, [end for _, end in tokens[number : number + _HEADS[0]]], begin)
                if needle:
                    parts += [text[told:begin], needle[1]]
                    told = begin + len(needle[0])
        return "".join([*parts, text[told:]])

    def _needle(self, text: str, ends: list[int], begin: int) -> _Needle | None:
        for count in _HEADS:
            if count <= len(ends):
                for needle in self.heads.get(text[begin : ends[count - 1]], ()):
                    if text.startswith(needle[0], begin):
                        return needle
        return None


def _by_head(needles: Iterable[_Needle]) -> Mapping[str, tuple[_Needle, ...]]:
    found: dict[str, list[_Needle]] = {}
    for text, told in sorted(dict.fromkeys(needles), key=lambda each: (-len(each[0]), each)):
        plain = re.sub(r"\A\W+|\W+\Z", "", text)
        tokens = _TOKEN.findall(plain)[: _HEADS[0]]
        if len(tokens) >= _HEADS[-1]:
            found.setdefault("".join(tokens), []).append((plain, told))
    return {head: tuple(several) for head, several in found.items()}


def _compared(recording: Recording) -> Iterator[str]:
    """The strings that guards compare with."""
    said = [guard.expression.partition("==")[2] for guard in recording.guards]
    for recompile in recording.recompiles:
        for failure in recompile.failures:
            said += [failure.text.partition("==")[2], failure.old, failure.new]
    for text in dict.fromkeys(said):
        for quoted in _QUOTED.finditer(text):
            if not (quoted[2].startswith("torch.") or _NAMED.search(text, max(quoted.start() - 8, 0), quoted.start())):
                yield quoted[2]
