"""JSON is a public interface: what is printed is what the schema says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sample_recordings
from jsonschema import Draft202012Validator

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.model import Recording
from compiler_lens.render.json import any_schema, view_json, view_schema
from compiler_lens.views.registry import FORMAT, OVERVIEW, VIEWS, Asks, documented

TESTS = Path(__file__).parent.parent
EVERY_VIEW = [OVERVIEW, *VIEWS]
RECORDINGS = sorted(path for path in TESTS.rglob("*.clens.gz") if ".nox" not in path.parts)
PLACE = {"file", "line", "end_line", "column", "end_column", "function", "code"}


def recordings() -> list[tuple[str, Recording]]:
    makers = (sample_recordings.empty, sample_recordings.clean, sample_recordings.broken, sample_recordings.hostile)
    made = [(make.__name__, make()) for make in makers]
    return [*((path.name, compiler_lens.load(path)) for path in RECORDINGS), *made]


@pytest.fixture(scope="module")
def every_recording() -> list[tuple[str, Recording]]:
    return recordings()


def selection(view: Any, recording: Recording) -> Selection | None:
    """What the view is asked for: all, or where it needs a name, the first."""
    if view.asks is not Asks.KERNEL:
        return EVERYTHING
    return Selection(kernel=recording.kernels[0].name) if recording.kernels else None


@pytest.mark.parametrize("view", EVERY_VIEW, ids=lambda view: view.name)
def test_every_view_of_every_recording_is_as_its_schema_says(
    view: Any, every_recording: list[tuple[str, Recording]]
) -> None:
    schema = view_schema(view.name, view.data)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for name, recording in every_recording:
        chosen = selection(view, recording)
        if chosen is not None:
            document = json.loads(view_json(recording, view.name, chosen))
            errors = [f"{name}: {error.json_path}: {error.message[:200]}" for error in validator.iter_errors(document)]
            assert errors == []
            assert (document["format"], document["view"]) == (FORMAT, view.name)


@pytest.mark.parametrize("view", EVERY_VIEW, ids=lambda view: view.name)
def test_a_schema_knows_every_key(view: Any) -> None:
    """A document with a key less is not valid: every key is promised."""
    objects = [one for one in view_schema(view.name, view.data)["$defs"].values() if "properties" in one]
    assert objects
    assert all(set(one["required"]) == set(one["properties"]) for one in objects)


def places(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [place for item in value for place in places(item)]
    if not isinstance(value, dict):
        return []
    own = [value] if {"file", "line"} <= value.keys() and "outcome" not in value else []
    return own + [place for item in value.values() for place in places(item)]


def test_a_place_has_one_shape(every_recording: list[tuple[str, Recording]]) -> None:
    found = 0
    for _, recording in every_recording:
        for name in ("guards", "cudagraphs", "frames"):
            for place in places(json.loads(view_json(recording, name))):
                assert set(place) == PLACE, (name, place)
                found += 1
    assert found > 100


def test_files_of_the_program_are_relative_to_it() -> None:
    recording = compiler_lens.load(TESTS / "pictures" / "data" / "broken.clens.gz")
    files = {place["file"] for place in places(json.loads(view_json(recording, "guards")))}
    assert any(not file.startswith("/") for file in files), files


def test_the_command_prints_the_schema_of_one_view_or_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "guards"]) == 0
    assert json.loads(capsys.readouterr().out) == view_schema(
        "guards", next(v for v in VIEWS if v.name == "guards").data
    )
    assert main(["schema"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert every == any_schema([view_schema(*view) for view in documented()])
    assert {"urn:compiler_lens:2:diff", "urn:compiler_lens:2:modes", "urn:compiler_lens:2:what_if"} <= every[
        "$defs"
    ].keys()
    validator = Draft202012Validator(every)
    document = json.loads(view_json(sample_recordings.broken(), "caches"))
    assert validator.is_valid(document)
    assert not validator.is_valid(document | {"lookups": 1})


def test_a_view_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "gards"]) == 2
    assert "no view 'gards'. Did you mean guards?" in capsys.readouterr().err


def test_a_diff_is_as_its_schema_says() -> None:
    data = TESTS / "diff" / "data"
    validator = Draft202012Validator(view_schema(*documented("diff")[0]))
    for after in ("op", "shape", "dtype", "inference", "twin", "max-autotune"):
        text = compiler_lens.diff(data / "base.clens.gz", data / f"{after}.clens.gz").to_json()
        assert [error.message[:200] for error in validator.iter_errors(json.loads(text))] == []
