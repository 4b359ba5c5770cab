"""What the page's script reads: JSON in compressed packs, and texts, each once, in packs of their own."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from compiler_lens.views.text import clean

Ref = tuple[int, int]  # which pack of texts, and which text in it

_ESCAPED = ("\\u", "\\t", "\\r", "\\b", "\\f")  # how JSON writes what is to be cleaned
_PACK = 300_000  # characters: opening a text inflates no more than this
_SHELF = 250_000  # and opening one of many things no more than this

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def packed(data: Any) -> str:
    """JSON, cleaned, compressed, in base64: nothing in it can end a script element. The same data give the same."""
    return _compressed(_clean_json(data))


def shelved(name: str, things: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Things by key, in packs that can be opened each by itself; `name` has the keys of all, pack by pack."""
    keys: list[list[str]] = []
    packs: list[list[str]] = []
    room = 0
    for key, thing in things:
        if room <= 0:
            keys.append([])
            packs.append([])
            room = _SHELF
        keys[-1].append(key)
        packs[-1].append(_clean_json(thing))
        room -= len(packs[-1][-1])
    yield name, packed(keys)
    for number, pack in enumerate(packs):
        yield f"{name}-{number}", _compressed(f"[{','.join(pack)}]")


def _compressed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode("ascii")


def _clean_json(data: Any) -> str:
    text = _json(data)
    if not text.isprintable() or any(escape in text for escape in _ESCAPED):
        return _json(cleaned(data))
    return text


def cleaned(data: Any) -> Any:
    """The same data without anything that could steer a reader's eye: control characters, turns of direction."""
    if isinstance(data, str):
        return clean(data)
    if isinstance(data, dict):
        return {clean(key): cleaned(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [cleaned(value) for value in data]
    return data


class Pool(Struct):
    """Long texts, each kept once."""

    packs: list[list[str]] = field(default_factory=lambda: [[]])
    compared: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, Any]] = field(default_factory=dict)
    _known: dict[str, Ref] = field(default_factory=dict)
    _room: int = _PACK

    def add(self, text: str) -> Ref:
        """Where the text is from now on."""
        known = self._known.get(text)
        if known is None:
            if self._room <= 0:
                self.packs.append([])
                self._room = _PACK
            self.packs[-1].append(text)
            self._room -= len(text)
            known = self._known[text] = (len(self.packs) - 1, len(self.packs[-1]) - 1)
        return known

    def parts(self) -> Iterator[tuple[str, str]]:
        """Every pack by name, compressed."""
        for number, texts in enumerate(self.packs):
            yield f"texts-{number}", packed(texts)
