"""A view's facts as JSON, and the JSON Schema that says what stands there: a public interface.

Each document is an object with "format", "view" and the fields of the view's `Data`; of a recording, also with what it
lacks. An enum is its value, a compile id
its text, a place in a file a `Place`; a number that JSON cannot write is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from msgspec import Struct

from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.codec import DIALECT, Instead, Schema, Substitutes, plain_fields, schema_of
from compiler_lens.recording.ids import SourcePlace
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.recording.own_files import program_root
from compiler_lens.views.registry import BY_NAME, FORMAT, REPORT, checked_view

_AT_ONCE = 10_000
# What every document of a recording says of it, as every view does in its first line.
_LACKS = {
    "unfinished": "Why the recording has no end: still written, or its process ended early. Empty where it has one.",
    "damage": "Which bytes of its file could not be read. Empty where all could.",
}


class Place(Struct, frozen=True):
    """A place in a file of Python. Lines count from 1, columns from 0 in characters; null where torch did not say."""

    file: str  # below the program's folder relative to it
    line: int
    end_line: int | None
    column: int | None
    end_column: int | None
    function: str
    code: str  # the text of the line; empty where it is not known


def view_json(recording: Recording, name: str = REPORT, selection: Selection = EVERYTHING) -> str:
    """Return one view of a recording as a document."""
    return "".join(view_parts(recording, name, selection))


def view_parts(recording: Recording, name: str = REPORT, selection: Selection = EVERYTHING) -> Iterator[str]:
    """Return the same document in parts: as a whole it can be larger than the recording that it was made of."""
    data = checked_view(name).document(recording, selection).data
    return _parts(name, data, recording, {field: getattr(recording, field) for field in _LACKS})


def document_json(view: str, data: Any, recording: Recording | None = None) -> str:
    """Return a document, in ASCII.

    Args:
        view: its name.
        data: the facts, a frozen `Struct`.
        recording: whose program's folder paths are relative to; None leaves paths as they are.
    """
    return "".join(_parts(view, data, recording, {}))


def _parts(view: str, data: Any, recording: Recording | None, lacks: Mapping[str, str]) -> Iterator[str]:
    root = program_root(recording) if recording else ""
    each = partial(plain_fields, substitutes=_substitutes(root))
    # A few thousand bits at a time: a document's bits are several times as large as plain values.
    encoder = json.JSONEncoder(indent=1, allow_nan=False, check_circular=False, default=each)
    bits = encoder.iterencode({"format": FORMAT, "view": view, **lacks} | each(data))
    return iter(lambda: "".join(islice(bits, _AT_ONCE)), "")


def view_schema(view: str, kind: Any) -> Schema:
    """Return the JSON Schema of the documents of a view whose facts are of type *kind*."""
    facts = schema_of(kind, _substitutes(""))
    head: Schema = {"format": {"const": FORMAT}, "view": {"const": view}}
    if view in BY_NAME:
        head |= {field: {"type": "string", "description": meaning} for field, meaning in _LACKS.items()}
    named = {"$id": f"urn:compiler_lens:{FORMAT}:{view}", "type": "object", "properties": head, "required": list(head)}
    return {"$schema": DIALECT, **named, **facts}


def any_schema(schemas: Sequence[Schema]) -> Schema:
    """Return the JSON Schema of the documents of any of these views."""
    names = [schema["$id"] for schema in schemas]
    any_of = [{"$ref": name} for name in names]
    return {"$schema": DIALECT, "anyOf": any_of, "$defs": dict(zip(names, schemas, strict=True))}


def _substitutes(root: str) -> Substitutes:
    def place(at: SourcePlace) -> Place:
        file = at.file.removeprefix(root)
        return Place(file, at.line, at.end_line, at.column, at.end_column, at.function, "")

    def line(at: SourceLine | FunctionName) -> Place:
        function, code = (at.name, "") if isinstance(at, FunctionName) else (at.function, at.code)
        return Place(at.file.removeprefix(root), at.line, None, None, None, function, code)

    return {
        SourceLine: Instead(Place, line),
        SourcePlace: Instead(Place, place),
        FunctionName: Instead(Place, line),
    }
