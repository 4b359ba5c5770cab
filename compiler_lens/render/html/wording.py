"""What the user wrote between quotes, found in what torch says: the values in guards, a message, names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from compiler_lens.analysis.source import sources
from compiler_lens.model import Recording

_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r"""(?<!\[)(['"])((?:(?!\1)[^\\]|\\.)+)\1""", re.DOTALL)
_SUBSCRIPT = re.compile(r"[\w)\]]\[\Z")  # what is quoted behind it is a name: an argument's, a module's
_SENTENCE = 8  # characters of several words that are nobody else's
_SHORTEST = 5  # and of a literal of one word

_Needle = tuple[str, int, str]  # a text, where in it its first word begins, what stands for it


@dataclass(frozen=True, slots=True)
class Wording:
    """Texts that are not to be told, by their first word: a text of any length is gone through once."""

    needles: Mapping[str, tuple[_Needle, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, recordings: Iterable[Recording], files: Mapping[str, str]) -> Wording:
        """Of recordings; `files` are the user's own, with what each is called instead."""
        several = list(recordings)
        guarded = dict.fromkeys(text for recording in several for text in _compared(recording))
        written = [text for recording in several for text in _literals(recording, files)]
        numbers = {text: f"text{n}" for n, text in enumerate(dict.fromkeys((*guarded, *written)), 1)}
        found = [(file, file.rpartition("/")[2], called) for file, called in files.items() if _WORD.search(file)]
        needles = [(file, file.find(base), called) for file, base, called in found]
        needles += [(base, 0, called) for _, base, called in found]
        needles += [
            (text, 0, told) for text, told in numbers.items() if len(text) >= _SENTENCE and len(text.split()) > 1
        ]
        needles += [
            (f"{quote}{text}{quote}", 1, f"{quote}{told}{quote}") for text, told in numbers.items() for quote in "'\""
        ]
        return cls(_by_word(needles))

    def hidden(self, text: str) -> str:
        """A text with a number for what is not to be told."""
        if not self.needles:
            return text
        parts, told = [], 0
        for word in _WORD.finditer(text):
            for needle, offset, instead in self.needles.get(word[0], ()):
                begin = word.start() - offset
                if begin >= told and text.startswith(needle, begin) and not _is_name(text, begin, needle):
                    parts += [text[told:begin], instead]
                    told = begin + len(needle)
                    break
        return "".join((*parts, text[told:])) if parts else text


def _is_name(text: str, begin: int, needle: str) -> bool:
    """Whether what is quoted is a key or a class: names stay."""
    if needle[0] not in "'\"":
        return False
    return text.endswith("<class ", 0, begin) or bool(_SUBSCRIPT.search(text, max(begin - 2, 0), begin))


def _by_word(needles: Iterable[tuple[str, int, str]]) -> Mapping[str, tuple[_Needle, ...]]:
    """The longest first."""
    found: dict[str, list[_Needle]] = {}
    for needle, start, instead in sorted(dict.fromkeys(needles), key=lambda each: (-len(each[0]), each[0])):
        word = _WORD.search(needle, start)
        if word:
            found.setdefault(word[0], []).append((needle, word.start(), instead))
    return {word: tuple(several) for word, several in found.items()}


def _compared(recording: Recording) -> Iterator[str]:
    """The strings that guards compare with."""
    said = [guard.expression.partition("==")[2] for guard in recording.guards]
    for recompile in recording.recompiles:
        for failure in recompile.failures:
            said += [failure.text.partition("==")[2], failure.old, failure.new]
    for text in dict.fromkeys(said):
        yield from (quoted[2] for quoted in _QUOTED.finditer(text) if not quoted[2].startswith("torch."))


def _literals(recording: Recording, files: Mapping[str, str]) -> Iterator[str]:
    known = sources(recording)
    for file in files:
        yield from (text for text in known.literals(file) if len(text) >= _SHORTEST)
