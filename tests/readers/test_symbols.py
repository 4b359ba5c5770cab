"""Symbols of three torch versions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler_lens.decode.guards import read_symbols
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, SourceLine, Symbol

PAYLOADS = Path(__file__).parent.parent / "payloads"
VERSIONS = ("2.11", "2.13", "2.15")
ID = CompileId(0, 1)
APP = "/home/user/app/ex.py"
NONZERO = SourceLine(APP, 151, "nonzero", "return y[y.nonzero()].sum()")

EXPECTED = {
    "size": Symbol(
        ID, "s77", "L['x'].size()[0]", "4", "[2, int_oo]",
        user_stack=(SourceLine(APP, 303, "plus", "def plus(x): return x + 1"),),
    ),
    "integer": Symbol(
        ID, "s71", "L['a']", "4", "[-int_oo, int_oo]",
        user_stack=(SourceLine(APP, 322, "times", "def times(x, a): return x * a"),),
    ),
    "item": Symbol(ID, "u0", "", "", "[-int_oo, int_oo]", user_stack=(NONZERO,)),
    "pinned": Symbol(
        ID, "s77", "L['x'].size()[0]", "6", "", specialized=True, reason="range_refined_to_singleton",
        user_stack=(SourceLine(APP, 508, "spec", "assert x.shape[0] == 6"),),
    ),
    "pinned_item": Symbol(
        ID, "u0", "", "8", "", specialized=True, reason="range_refined_to_singleton",
        user_stack=(SourceLine(APP, 525, "f", "torch._check(n == 8)"),),
    ),
}  # fmt: skip


def read(version: str, name: str) -> Symbol:
    values = json.loads((PAYLOADS / version / "symbols" / f"{name}.json").read_text())
    files = {int(number): file for number, file in values["files"].items()}
    (symbol,) = read_symbols(Event(values["name"], 1.0, meta=values["meta"]), ID, files)
    return symbol


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", EXPECTED)
def test_a_symbol_tells_where_it_came_from_and_what_it_stood_for(version: str, name: str) -> None:
    assert read(version, name) == EXPECTED[name]


def test_a_symbol_of_several_inputs_names_them_all() -> None:
    meta = {"symbol": "s0", "sources": ["L['x'].size()[0]", "L['y'].size()[0]"], "value": "3", "user_stack": None}
    (symbol,) = read_symbols(Event("symbolic_shape_specialization", 1.0, meta=meta), ID, {})
    assert symbol.source == "L['x'].size()[0], L['y'].size()[0]"


def test_a_record_without_a_symbol_is_an_error() -> None:
    with pytest.raises(PayloadError):
        read_symbols(Event("create_symbol", 1.0, meta={"val": "3"}), ID, {})
