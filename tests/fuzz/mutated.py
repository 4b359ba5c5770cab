"""Input as a stranger could have made it: journals, logs and payloads with some of their parts changed.

Every choice is hypothesis's, which finds the fewest and smallest changes that still make a fault.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import seeds
from doors import MARK
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

TEXTS = (
    "", "x", " ", "\n", "\t", "0", "-1", "None", "[", ")", '"', "a.b", "/", "%s", "{x}", "\x00", "\x1b]0;odd\x07", "\x1b[2J", "\x9b31m",
    "\ud800", "\u202eabc", "\u2028", "é" * 3, "\U0001f600", MARK, "]]>", "--", "a" * 100_000, "\n" * 3_000, "(" * 500, "1" * 400, "../" * 50,
)  # fmt: skip
VALUES = (
    None, True, False, 0, 1, -1, 7, 1.5, -0.0, 10**12, 2**63, -(2**63), 10**400, 1e308, math.inf, math.nan,
    [], {}, [[]], [None], ["a"], [1, 2, 3], {"a": 1}, {"@": 0}, {"@": 10**9}, *TEXTS,
)  # fmt: skip
_PIECES = re.compile(r"\w+|\s+|[^\w\s]")
_ODD_TEXT, _ODD_VALUE = st.sampled_from(TEXTS), st.sampled_from(VALUES)
_NUMBER = st.integers(0, 2**20)
_COUNT = st.sampled_from((1, 1, 1, 2, 3, 5))
_DEEPER = st.sampled_from((True, True, True, True, False))
_SPAN = st.sampled_from((1, 1, 2, 3, 10, 100))


def one_of(draw: Draw, items: Sequence[Any]) -> Any:
    """Return any of these."""
    return items[draw(_NUMBER) % len(items)]


# -- a text


def changed_text(draw: Draw, text: str) -> str:
    """Return a text with some of its words, or of its lines, left out, repeated, moved or replaced."""
    kept = text[:200_000]
    pieces = kept.splitlines(keepends=True) if draw(_DEEPER) is False else _PIECES.findall(kept)
    if not pieces:
        return str(draw(_ODD_TEXT))
    for _ in range(draw(_COUNT)):
        at, span = draw(_NUMBER) % len(pieces), draw(_SPAN)
        match draw(_NUMBER) % 7:
            case 0:
                del pieces[at : at + span]
            case 1:
                pieces[at:at] = pieces[at : at + span]
            case 2:
                other = draw(_NUMBER) % len(pieces)
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case 3:
                pieces[at] = draw(_ODD_TEXT)
            case 4:
                pieces.insert(at, draw(_ODD_TEXT))
            case 5:
                pieces[at] = one_of(draw, pieces)
            case _:
                del pieces[at + 1 :]
        pieces = pieces or [""]
    return "".join(pieces)


# -- a JSON value


def changed(draw: Draw, value: Any) -> Any:
    """Return a JSON value with one of its parts changed; a text that is JSON itself, in its own parts."""
    if isinstance(value, (dict, list)) and value and draw(_DEEPER):
        return _changed_inside(draw, value)
    if isinstance(value, str) and value and draw(_DEEPER):
        if value[0] in "[{" and draw(_DEEPER):
            with suppress(ValueError):
                return json.dumps(changed(draw, json.loads(value)))
        return changed_text(draw, value)
    if type(value) in (int, float) and draw(_DEEPER):
        return one_of(draw, (value + 1, value - 1, -value, value * 1000, str(value)))
    return draw(_ODD_VALUE)


def _changed_inside(draw: Draw, value: Any) -> Any:
    """An object or an array with one of its items changed, left out, repeated, or in the place of another."""
    keys: Sequence[Any] = list(value) if isinstance(value, dict) else range(len(value))
    key, made = one_of(draw, keys), value.copy()
    inner = made[key]
    goes_on = isinstance(inner, (dict, list, str)) and inner and draw(_DEEPER)
    way = 3 if goes_on else draw(_NUMBER) % 6
    if way == 0:
        del made[key]
    elif way == 1:
        other = one_of(draw, keys)
        made[key], made[other] = made[other], made[key]
    elif way == 2 and isinstance(made, list):
        made[key:key] = [inner] * draw(_SPAN)
    elif way == 2:
        made[draw(_ODD_TEXT)[:50]] = inner
    else:
        made[key] = changed(draw, inner)
    return made


def _rearrange(draw: Draw, items: list[bytes], at: int, how: int) -> None:
    """Leave one item out (0), repeat it (1), or let it change places with another (2)."""
    match how:
        case 0:
            del items[at]
        case 1:
            items[at:at] = [items[at]] * draw(_SPAN)
        case 2:
            other = draw(_NUMBER) % len(items)
            items[at], items[other] = items[other], items[at]


# -- a journal


@st.composite
def journals(draw: Draw) -> bytes:
    """A journal with some lines changed, left out, repeated or in another order."""
    seed = one_of(draw, seeds.journals())
    lines = list(seed.lines)
    for _ in range(draw(_COUNT)):
        name = one_of(draw, sorted(seed.events))
        at = one_of(draw, seed.events[name]) % len(lines)
        match draw(_NUMBER) % 9:
            case 0 | 1 | 2 as how:
                _rearrange(draw, lines, at, how)
            case 3:
                lines.append(lines[at])
            case _:
                lines[at] = changed(draw, lines[at])
        lines = lines or [seed.lines[0]]
    return written(lines)


def texts_of(*names: str) -> st.SearchStrategy[bytes]:
    """Journals in which the texts that belong to events of these names are changed, and nothing else."""
    having = [seed for seed in seeds.journals() if any(name in seed.texts for name in names)]
    places = {seed.name: sorted({at for name in names for at in seed.texts.get(name, ())}) for seed in having}

    @st.composite
    def made(draw: Draw) -> bytes:
        seed = one_of(draw, having)
        lines = list(seed.lines)
        for _ in range(draw(_COUNT)):
            at = one_of(draw, places[seed.name])
            text = str(lines[at]["is"])
            is_json = text[:1] in ("{", "[") and draw(_DEEPER)
            lines[at] = {**lines[at], "is": changed(draw, text) if is_json else changed_text(draw, text)}
        return written(lines)

    return made()


def written(lines: Sequence[Any]) -> bytes:
    """Return the lines of a journal as the bytes of its file."""
    return b"".join(json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n" for line in lines)


# -- bytes: what no value of JSON is


def damaged(sources: Callable[[], Sequence[bytes]]) -> st.SearchStrategy[bytes]:
    """Files with stretches left out, repeated, moved and replaced, wherever that is."""

    @st.composite
    def made(draw: Draw) -> bytes:
        data = bytearray(one_of(draw, sources()))
        for _ in range(draw(_COUNT)):
            at, span = draw(_NUMBER) % (len(data) + 1), draw(_SPAN)
            match draw(_NUMBER) % 5:
                case 0:
                    del data[at : at + span]
                case 1:
                    data[at:at] = data[at : at + span]
                case 2:
                    data[at : at + span] = draw(st.binary(max_size=8))
                case 3:
                    data[at:at] = draw(_ODD_TEXT).encode("utf-8", "surrogatepass")
                case _:
                    del data[at:]
        return bytes(data)

    return made()


# -- torch's own logs

_PARTS = re.compile(rb"([^\n]*?\] )(\{[^\n]*)((?:\n|.)*)")


@st.composite
def logs(draw: Draw) -> bytes:
    """A log of TORCH_TRACE with some records changed, left out, repeated or in another order."""
    records = [*one_of(draw, seeds.logs())]
    for _ in range(draw(_COUNT)):
        at = draw(_NUMBER) % len(records)
        match draw(_NUMBER) % 7:
            case 0 | 1 | 2 as how:
                _rearrange(draw, records, at, how)
            case _:
                records[at] = _changed_record(draw, records[at])
        records = records or [b""]
    return b"".join(records)


def _changed_record(draw: Draw, record: bytes) -> bytes:
    parts = _PARTS.match(record)
    values: Any = None
    with suppress(ValueError):  # it may have been changed before
        values = json.loads(parts[2]) if parts else None
    if parts is None or values is None or not draw(_DEEPER):
        return changed_text(draw, record.decode("utf-8", "replace")).encode("utf-8", "surrogatepass")
    head, written, payload = parts.groups()
    if len(payload) > 1 and draw(_DEEPER):
        text = changed(draw, payload[1:].replace(b"\n\t", b"\n").decode("utf-8", "replace"))
        body = str(text).encode("utf-8", "surrogatepass").replace(b"\n", b"\n\t")
        return head + written + b"\n\t" + body + b"\n"
    return head + json.dumps(changed(draw, values)).encode() + payload


# -- what stands beside a cache entry; what a comparison of modes was written as

_KEPT = (
    "lens.kernel_nodes",
    "lens.node_facts",
    "lens.fusion",
    "lens.autotune",
    "lens.triton_configs",
    "lens.cudagraph",
)


@st.composite
def sidecars(draw: Draw) -> bytes:
    """What a run keeps beside a cache entry, changed."""
    seed = one_of(draw, [journal for journal in seeds.journals() if any(name in journal.events for name in _KEPT)])
    wanted = {at for name in _KEPT for at in (*seed.events.get(name, ()), *seed.texts.get(name, ()))}
    lines = [line for at, line in enumerate(seed.lines) if at in wanted]
    for _ in range(draw(_COUNT)):
        at = draw(_NUMBER) % len(lines)
        lines[at] = changed(draw, lines[at])
    return written([{"compiler_lens": 1, "pid": 1}, *lines])


@st.composite
def modes(draw: Draw) -> bytes:
    """The JSON of a comparison of modes, changed."""
    value = json.loads((seeds.TESTS / "fuzz" / "modes.json").read_text())
    for _ in range(draw(_COUNT)):
        value = changed(draw, value)
    return json.dumps(value).encode()
