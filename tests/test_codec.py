"""Dataclasses to plain JSON values and back; the schema says what is written."""

import json
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Struct, defstruct, field

from compiler_lens import load
from compiler_lens.recording.codec import DIALECT, packed, plain, schema_of, unpacked
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import Recording

RECORDINGS = sorted(Path(__file__).parent.rglob("*.clens*"))


class Colour(Enum):
    """What it looks like."""

    RED = "red"


class Circle(Struct, frozen=True):
    """Round."""

    radius: float
    kind: Literal["circle"] = "circle"


class Square(Struct, frozen=True):
    side: float
    kind: Literal["square"] = "square"


class Tree(Struct, frozen=True):
    """A node, and what

    is below it."""

    name: Annotated[str, "as it is printed"]
    children: "tuple[Tree, ...]" = ()


class Everything(Struct, frozen=True):
    """One of each."""

    number: int
    text: str | None = None
    share: float = 0.5
    yes: bool = False
    colour: Colour = Colour.RED
    pair: tuple[int, str] = (0, "")
    several: Sequence[float] = ()
    names: frozenset[str] = frozenset()
    sizes: tuple[int | str, ...] = ()
    shape: Circle | Square | None = None
    by_id: Mapping[CompileId, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    compile_id: CompileId = field(default_factory=lambda: CompileId(0, 0))


FULL = Everything(
    3, "a", 2.0, True, Colour.RED, (1, "b"), (1.5, 2.0), frozenset(("y", "x")), (1, "s0"), Square(2.0),
    {CompileId(1, 2, 3): 4}, {"a": [1, None]}, CompileId(None, None, 0, 5),
)  # fmt: skip


@cache
def recording(path: Path) -> Recording:
    return load(path)


@pytest.mark.parametrize("value", [FULL, Everything(1)])
def test_what_is_written_is_read(value: Everything) -> None:
    for write in (plain, packed):
        assert unpacked(Everything, json.loads(json.dumps(write(value)))) == value


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_every_recording_survives(path: Path) -> None:
    found = recording(path)
    assert unpacked(Recording, json.loads(json.dumps(packed(found)))) == found


def test_plain_has_every_field_and_packed_those_that_say_something() -> None:
    assert plain(Circle(1.0)) == {"radius": 1.0, "kind": "circle"}
    assert packed(Everything(1)) == {"number": 1}
    assert packed(Everything(1, yes=True)) == {"number": 1, "yes": True}


def test_ids_and_enums_are_text_sets_are_in_order_and_what_json_cannot_write_is_null() -> None:
    data = plain(FULL)
    assert (data["by_id"], data["compile_id"], data["colour"]) == ({"1/2@3": 4}, "!5", "red")
    assert data["names"] == ["x", "y"]
    assert plain([math.inf, -math.inf, math.nan, 1.5]) == [None, None, None, 1.5]


@pytest.mark.parametrize(
    "compile_id",
    [
        CompileId(0, 0),
        CompileId(12, 3, 1),
        CompileId(None, None),
        CompileId(None, None, 2),
        CompileId(None, None, 0, 7),
        CompileId(1, 2, 3, 4),
        CompileId(5, None),
    ],
)
def test_an_id_is_read_from_its_text(compile_id: CompileId) -> None:
    assert CompileId.parse(str(compile_id)) == compile_id


@pytest.mark.parametrize("text", ["", "x", "0", "0/", "/0", "0/0@", "!/1", "0/0/0", "!1/"])
def test_another_text_is_no_id(text: str) -> None:
    with pytest.raises(ValueError, match="is not a compile id"):
        CompileId.parse(text)


def test_of_a_union_the_member_that_fits_is_read() -> None:
    assert unpacked(Everything, {"number": 1, "shape": {"radius": 1, "kind": "circle"}}).shape == Circle(1.0)
    assert unpacked(Everything, {"number": 1, "shape": {"side": 1, "kind": "square"}}).shape == Square(1.0)


def test_keys_of_a_newer_version_are_passed_over() -> None:
    assert unpacked(Circle, {"radius": 1.0, "colour": "red"}) == Circle(1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"number": "1"},
        {"number": True},
        {"number": 1.5},
        {"number": None},
        {"number": 1, "text": 2},
        {"number": 1, "share": "a"},
        {"number": 1, "share": math.nan},
        {"number": 1, "share": 10**400},
        {"number": 1, "colour": "blue"},
        {"number": 1, "pair": [1]},
        {"number": 1, "several": "12"},
        {"number": 1, "shape": {"kind": "triangle"}},
        {"number": 1, "by_id": {"x": 1}},
        {"number": 1, "options": []},
        [],
    ],
)
def test_what_does_not_fit_is_said(wrong: Any) -> None:
    with pytest.raises(PayloadError):
        unpacked(Everything, wrong)


def test_a_schema_says_what_is_written() -> None:
    schema = schema_of(Everything)
    assert schema["$schema"] == DIALECT
    assert schema["$ref"] == "#/$defs/Everything"
    made = schema["$defs"]["Everything"]
    assert made["required"] == list(plain(FULL))
    assert made["description"] == "One of each."
    told = made["properties"]
    assert told["text"] == {"type": ["string", "null"]}
    assert told["colour"] == {"$ref": "#/$defs/Colour"}
    assert told["several"] == {"type": "array", "items": {"type": "number"}}
    assert told["by_id"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert told["options"] == {"type": "object", "additionalProperties": {}}
    assert told["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert told["shape"] == {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}, {"type": "null"}]}
    assert schema["$defs"]["Colour"] == {"description": "What it looks like.", "enum": ["red"]}
    assert schema["$defs"]["CompileId"]["type"] == "string"
    assert schema["$defs"]["Circle"]["properties"]["kind"] == {"enum": ["circle"]}


def test_a_type_that_holds_itself_has_a_schema() -> None:
    tree = schema_of(Tree)["$defs"]["Tree"]
    assert tree["properties"] == {
        "name": {"type": "string", "description": "as it is printed"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
    }
    assert tree["description"] == "A node, and what"


def test_two_types_of_one_name_have_no_schema() -> None:
    class Other(Struct, frozen=True):
        one: Circle
        two: Any

    other = defstruct("Circle", [("x", int)], frozen=True)
    Other.__annotations__["two"] = other
    with pytest.raises(ValueError, match="two types are called Circle"):
        schema_of(Other)


def test_a_recording_has_a_schema() -> None:
    assert json.loads(json.dumps(schema_of(Recording)))["$defs"].keys() >= {"Graph", "Node", "Kernel", "Trust"}
