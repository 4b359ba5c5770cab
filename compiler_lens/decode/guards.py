"""What compiled code takes for granted: guards, sizes that became symbols, and why a frame was compiled again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.shared_text import EACH_ITS_OWN, Texts
from compiler_lens.decode.stacks import STRING, read_comment, read_stack, read_traceback, split_comment
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import NO_COMPILATION
from compiler_lens.recording.model import CompileId, EnumMember, Guard, GuardFailure, Recompile, Symbol
from compiler_lens.recording.shape import read_json, shaped

_HEAD = "TREE_GUARD_MANAGER:"
_FOOT = "\nGuard latency = "
# GuardManagerWrapper.__str__() in torch/_dynamo/guards.py: "| | +- TENSOR_MATCH: ..." below its manager.
_LINE = re.compile(r"^((?:\| )*)\+- (?=\w+(?:: |$)|KeyValueManager pair )")
_MANAGER = re.compile(r"^(?:(?:Key|Value)Manager: )?\w*GuardManager: source=(.*)$")
_MANAGER_FACTS = re.compile(r", (?:accessed_by=|type=<).*$")
# Guards that torch adds to every frame carry a line of its own, without code.
_TORCHS_OWN = "_dynamo/"


def read_guards(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[Guard, ...]:
    """Read every leaf of the guard tree, with what it guards and the user's line that asked for it."""
    tree = texts.read(read_tree, event.text or "")
    return tuple(replace(guard, compile_id=compile_id) for guard in tree)


def read_tree(text: str) -> tuple[Guard, ...]:
    """Read a guard tree; what comes of it is of no compilation. Raises `PayloadError` for a text that is none."""
    if not text.lstrip("\n").startswith(_HEAD):
        raise PayloadError(f"not a guard tree: {text[:80]!r}")
    guards: list[Guard] = []
    sources: list[str] = []  # of the managers that the entry at hand is below of
    for depth, entry in _entries(text):
        del sources[depth:]
        manager = _MANAGER.match(entry)
        kind, _, said = entry.partition(": ")
        above = sources[-1] if sources else ""
        if manager or not said:
            # Also a pair of a dict, and an aliasing guard that torch printed in full under another manager.
            sources.append(_MANAGER_FACTS.sub("", manager[1]) if manager else above)
            continue
        expression, comment = split_comment(said)
        line, _ = read_comment(comment)
        if line is not None and not line.code and line.file.startswith(_TORCHS_OWN):
            line = None
        guards.append(Guard(NO_COMPILATION, kind, expression, above, line))
    return tuple(guards)


def _entries(text: str) -> Iterator[tuple[int, str]]:
    """Depth and text of every entry of the tree. An entry may have many lines: torch 2.11 prints what it guards."""
    depth, entry = -1, [""]
    for line in text.partition(_FOOT)[0].split("\n"):
        found = _LINE.match(line)
        if found is None:
            if depth >= 0 and line:
                entry.append(line)
            continue
        if depth >= 0:
            yield depth, "\n".join(entry)
        depth, entry = len(found[1]) // 2, [line[found.end() :]]
    if depth >= 0:
        yield depth, "\n".join(entry)


class _Members(Struct, frozen=True):
    members: Mapping[str, str]


def read_members(event: Event, _id: CompileId, _files: Mapping[int, str]) -> tuple[EnumMember, ...]:
    """Read which members of enums the guards of a frame are on."""
    told = shaped(_Members, event.meta).members
    return tuple(shaped(EnumMember, {"address": _address(at), "name": name}) for at, name in told.items())


def _address(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise PayloadError(f"an address that is no number: {text[:40]}")
    return int(text[:20])


class _Symbol(Struct, frozen=True):
    symbol: str
    source: str | None = None
    sources: tuple[str, ...] | None = None
    val: Any = None
    value: Any = None
    vr: str | None = None
    reason: str | None = None
    user_stack: Any = None


def read_symbols(event: Event, compile_id: CompileId, files: Mapping[int, str]) -> tuple[Symbol, ...]:
    """Read one symbol, as torch made it or as torch gave it up (torch/fx/experimental/symbolic_shapes.py)."""
    told = shaped(_Symbol, event.meta)
    symbol = Symbol(
        compile_id,
        told.symbol,
        # A symbol that came out of the computation has no source; one that several inputs share has several.
        source=told.source or ", ".join(told.sources or ()),
        value=str(told.val or told.value or ""),
        value_range=told.vr or "",
        specialized=event.name == "symbolic_shape_specialization",
        reason=told.reason or "",
        user_stack=read_stack(told.user_stack, files),
    )
    return (symbol,)


# -- recompiles: the guard that failed, and the values that torch gives

# get_guard_fail_reason_helper() in torch/_dynamo/guards.py: "0/1: x == 3  # code  # app.py:3 in f", then the stack.
_ENTRY = re.compile(r"(\S+): ")
_STACK = "\nUser stack trace:\n"
# A remark that only names the line of torch that made the guard.
_TORCHS_LINE = re.compile(r"\S+:\d+ in \S+")


def read_recompiles(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[Recompile, ...]:
    """Read one recompile, with the failure of every entry that was there: the newest first, as torch lists them."""
    return (Recompile(compile_id, texts.read(read_failures, event.text or "")),)


def read_failures(text: str) -> tuple[GuardFailure, ...]:
    """Read the failures of a recompile."""
    # trace_structured() sends one reason as it is and several as JSON, under the same name
    reasons = read_json(tuple[str, ...], text) if text.startswith("[") else (text,)
    return tuple(map(_failure, reasons))


# What torch adds after a failed guard on a tensor that is a parameter; the values stand before it.
_OF_PARAMETER = ". Guard failed on a parameter,"


def _failure(reason: str) -> GuardFailure:
    entry = _ENTRY.match(reason)
    if entry is None:
        raise PayloadError(f"a recompile reason without a compile id: {reason[:80]!r}")
    said, _, stack = reason[entry.end() :].partition(_STACK)
    text, comment = split_comment(said)
    place, remark = read_comment(comment)
    # What torch says in brackets after a guard's place; of a range's two bounds, after the first.
    hint, more, _ = remark.removeprefix("(").partition(") and ")
    hint = hint if more else hint.removesuffix(")")
    hint = "" if _TORCHS_LINE.fullmatch(hint) else hint.removeprefix("HINT: ")
    stack_lines = read_traceback(stack) or ((place,) if place else ())
    values = read_values(text.partition(_OF_PARAMETER)[0])
    return GuardFailure(entry[1], text, values.source, values.old, values.new, stack_lines, hint)


class GuardValues(Struct, frozen=True):
    """What a guard was on, and its values as torch writes them; empty where torch does not say."""

    source: str = ""
    old: str = ""  # the value it wanted
    new: str = ""  # the one it got


_TENSOR = (
    r"tensor '(?P<source>.*)' [\w ]+ mismatch[^.']*\. [Ee]xpected "
    r"(?:requires_grad=|device index to be )?(?P<old>.*?)(?:, actual (?P<new>.*))?\Z"
)
_BACKEND = (
    r"(?P<source>BACKEND_MATCH) failure:(?:.*?Cached backend: (?P<old>(?:(?!Cached backend: ).)*?)\. "
    r"New backend: (?P<new>(?:(?!(?:Cached|New) backend: ).)*?)\. If this)?"
)
# Sentences of torch/csrc/dynamo/guards.cpp and guards.py in torch/_dynamo; only these have the new value.
_SENTENCES = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        _TENSOR,
        # torch 2.11 and 2.13 have a stray quote before "but".
        r"expected type of '(?P<source>.*)' to be (?P<old>(?:(?!' to be ).)*?), '? ?but found (?P<new>.*)\Z",
        r"GLOBAL_STATE changed: (?P<source>.*)\Z",
        _BACKEND,
        # CacheEntry invalidated by a weak reference of its guards: invalidate() in torch/_dynamo/guards.py.
        r"Cache line invalidated because (?P<source>.*) got deallocated\Z",
        r"Duplicate tensors found: \[(?P<source>.*)\]",
        r"(?:KeyError on|IndexError on|getattr failed on source|\w+Accessor: [^\n]*? on) (?P<source>.*)\Z",
        # The guard is on an address; torch 2.11 prints the object after `type=`, later ones its type.
        r"___check_(?:obj|type)_id\((?P<source>.*), \d+\)(?:, type=(?P<old>.*))?\Z",
        # DictGuardManager says what it found false, not what it wants.
        r"(?P<source>len\(.*\)) != (?P<old>\d+)\Z",
    )
)

_STRING_OR_EQUALS = re.compile(rf"{STRING}| == ", re.DOTALL)
_RANGE = re.compile(r"(?:(?P<low>-?\d+) <= )?(?P<source>[^<>=]+?)(?: <= (?P<high>-?\d+))?\Z")
_SIZE = re.compile(r"(?<![\w.\[\]'\"])[\w.\[\]'\"]+\.(?:size|stride|storage_offset)\(\)(?:\[\d+\])?")
_AS_TENSOR = re.compile(r"___as_tensor\((?P<source>[\w.\[\]'\"]+)\)\.item\(\)")
_IN_BRACKETS = re.compile(r"\(?(?P<minus>-?)(?P<number>[\d.]+(?:e[-+]?\d+)?)\)?\Z")
_IDENTITY = re.compile(r"(?P<source>\S+) is (?P<old>.+)\Z", re.DOTALL)
# SEQUENCE_LENGTH() in torch/_dynamo/guards.py writes `not x` for `len(x) == 0`.
_EMPTY = re.compile(r"not (?P<source>[\w.\[\]'\"]+)\Z")
_PREDICATE = re.compile(r"(?P<negated>not )?(?P<source>[\w.]+\(.*\))\Z", re.DOTALL)


def read_values(text: str) -> GuardValues:
    """Read the values in a failed guard, without its comment."""
    for sentence in _SENTENCES:
        if found := sentence.match(text):
            values = found.groupdict()
            return GuardValues(*((values.get(name) or "").strip() for name in ("source", "old", "new")))
    size = _SIZE.search(text)
    first_size = GuardValues(size[0]) if size else GuardValues()  # all that is known of a guard that computes
    equals = next((found for found in _STRING_OR_EQUALS.finditer(text) if found[0] == " == "), None)
    if equals:
        left, right = text[: equals.start()], text[equals.end() :]
        size = _SIZE.search(left)
        computed = (size and size[0] != left) or _SIZE.search(right) or "___as_tensor(" in right
        return first_size if computed else _of_float(left, right)
    return _without_equals(text) or first_size


def _of_float(left: str, right: str) -> GuardValues:
    """The two sides of an equation; of a float that torch 2.11 made a tensor to see whether it varies, that float."""
    found = _AS_TENSOR.search(left)
    if found is None:
        return GuardValues(left, right)
    source, value = found["source"], _IN_BRACKETS.match(right)
    before, after = left[: found.start()], left[found.end() :]
    if value and (before, after) == ("((-1)*", ")"):
        return GuardValues(source, value["number"] if value["minus"] else f"-{value['number']}")
    return GuardValues(source, "" if before or after else right)


def _without_equals(text: str) -> GuardValues | None:
    if found := _IDENTITY.match(text):
        return GuardValues(found["source"], found["old"])
    if found := _EMPTY.match(text):
        return GuardValues(f"len({found['source']})", "0")
    if found := _PREDICATE.match(text):
        return GuardValues(found["source"], str(not found["negated"]))
    found = _RANGE.match(text)
    if found is None or not (found["low"] or found["high"]):
        return None
    bounds = ((">=", found["low"]), ("<=", found["high"]))
    return GuardValues(found["source"], ", ".join(f"{sign} {bound}" for sign, bound in bounds if bound))
