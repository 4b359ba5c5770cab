"""Answers of torch's compile caches, of three torch versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_lens.decode.whole import read_cache
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CacheLayer, CacheOutcome, CacheResult, CompileId

PAYLOADS = Path(__file__).parent.parent / "payloads"
TEXTS = sorted(PAYLOADS.glob("*/caches/*.json"))
AOT, FX = CacheLayer.AOT_AUTOGRAD, CacheLayer.FX_GRAPH
HIT, MISS, BYPASS = CacheResult.HIT, CacheResult.MISS, CacheResult.BYPASS

# Event -> layer, answer, bundled, whether it has a key, whether it tells the time saved.
EXPECTED = {
    "aotautograd_cache_hit": (AOT, HIT, False, True, True),
    "aotautograd_cache_miss": (AOT, MISS, False, True, False),
    "aotautograd_cache_bypass": (AOT, BYPASS, False, False, False),
    "fx_graph_cache_hit": (FX, HIT, False, True, True),
    "fx_graph_cache_miss": (FX, MISS, False, True, False),
    "fx_graph_cache_bypass": (FX, BYPASS, False, False, False),
    "fx_graph_bundled_cache_hit": (FX, HIT, True, False, False),
}


def read(name: str, text: str) -> CacheOutcome:
    (outcome,) = read_cache(Event(name, 1.0, text=text), CompileId(2, 0), {})
    return outcome


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parts[-3]}/{p.stem}")
def test_an_answer_tells_layer_key_reason_and_time_saved(path: Path) -> None:
    found = read(path.stem, path.read_text())
    told = (found.layer, found.result, found.bundled, bool(found.key), found.seconds_saved is not None)
    assert told == EXPECTED[path.stem]
    assert bool(found.reason) is (found.result is BYPASS)
    assert found.compile_id == CompileId(2, 0)


def test_each_kind_of_answer_is_tried() -> None:
    assert {path.stem for path in TEXTS} == set(EXPECTED)


def test_time_saved_is_in_seconds() -> None:
    assert read("fx_graph_cache_hit", '{"key": "k", "time_saved_ns": 1500000000}').seconds_saved == 1.5
    assert read("aotautograd_cache_hit", '{"key": "k", "time_saved_ms": 681.0}').seconds_saved == 0.681


def test_a_clock_that_was_set_back_saved_no_time() -> None:
    assert read("fx_graph_cache_hit", '{"key": "k", "time_saved_ns": -3600000000000}').seconds_saved == 0
    assert read("aotautograd_cache_hit", '{"key": "k", "time_saved_ms": -3600000.0}').seconds_saved == 0


def test_a_bypass_gives_torchs_reason() -> None:
    text = (PAYLOADS / "2.13" / "caches" / "fx_graph_cache_bypass.json").read_text()
    assert read("fx_graph_cache_bypass", text).reason == "Can't cache HigherOrderOperator: cond"


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_what_is_no_answer_is_an_error(text: str) -> None:
    with pytest.raises(PayloadError):
        read("fx_graph_cache_hit", text)
