"""benchmarks/zoo.py: small models that another process makes again, what is recorded of one, and the page of all."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import zoo_models
import zoo_page

sys.path.pop(0)

BENCHMARKS = Path(zoo_models.__file__).parent


def _zoo() -> Any:
    """Import it by its path: tests/zoo.py is there, too."""
    spec = importlib.util.spec_from_file_location("zoo_of_benchmarks", BENCHMARKS / "zoo.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


zoo = _zoo()

NAMES = ("BertForMaskedLM", "ViTForImageClassification", "Gemma3ForConditionalGeneration")


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_makes_the_same_model_and_calls_again(name: str) -> None:
    recipe, why = zoo_models.recipe(name)
    assert recipe is not None, why
    assert recipe["parameters"] < 2_000_000
    results = []
    for _ in range(2):
        model, calls = zoo_models.made(json.loads(json.dumps(recipe)))
        assert len(calls) == 2
        results += [[model(*args, **kwargs)[0] for args, kwargs in calls]]
    assert torch.equal(results[0][0], results[1][0])
    assert not torch.equal(results[0][0], results[0][1])


def test_images_have_their_places_in_the_text() -> None:
    recipe, _ = zoo_models.recipe("Gemma3ForConditionalGeneration")
    assert recipe is not None
    assert zoo_models.medium(recipe) == "multimodal"
    _, [(_, kwargs), _] = zoo_models.made(recipe)
    token, count = recipe["inputs"]["input_ids"][3][0]
    assert (kwargs["input_ids"] == token).sum(1).tolist() == [count, count]


def test_what_breaks_is_recorded_with_its_line_in_the_library() -> None:
    row = zoo.look_at("XLMWithLMHeadModel", "xlm")
    assert row["status"] == "ran"
    assert row["breaks"] == sum(cause["breaks"] for cause in row["causes"]) > 0
    assert row["causes"][0]["file"] == "transformers/models/xlm/modeling_xlm.py"
    assert row["causes"][0]["code"].startswith("assert lengths.max()")


def row(name: str, **figures: Any) -> dict[str, Any]:
    cause = {
        "file": "transformers/models/a/modeling_a.py",
        "line": 7,
        "kind": "a kind",
        "breaks": figures.get("breaks"),
    }
    counts = {"breaks": 0, "recompiles": 0, "eager": 0, "raised": "", **figures}
    lists = {"causes": [cause] if counts["breaks"] else [], "failures": [], "recompiled": [], "eagerly": []}
    return {"model": name, "status": "ran", "medium": "text", **counts, **lists}


def test_the_page_counts_models_and_what_became_of_them() -> None:
    versions = {"torch": "2", "transformers": "5", "python": "3", "status": "versions"}
    found = {"": versions, "A": row("A", breaks=4), "B": row("B"), "C": row("C", breaks=1), "D": row("D")}
    found["E"] = {"model": "E", "status": "not_made"}
    none, four = {"breaks": 0, "recompiles": 0, "eager": 0}, {"breaks": 4, "recompiles": 0, "eager": 0}
    mended = {"before": four, "after": none, "results": "equal", "left": [], "failed": []}
    stuck = {"file": "/x/site-packages/transformers/a.py", "line": 3, "kind": "a kind", "reason": "no_edit"}
    fixes = {
        "A": {"model": "A", "status": "ran", **mended},
        "C": {"model": "C", "status": "ran", **mended, "after": four, "results": "", "left": [stuck]},
    }
    text = "\n".join(zoo_page.made(found, fixes))
    assert "| **all** | 4 | 2 (50.0%) | 2 (50.0%) | 0 | 0 | 0 |" in text
    assert "Not run: 1 of which" in text
    assert "| a kind | 2 | 5 |" in text
    assert "| no breaks left | 1 (50.0%) | 1 | 0 |" in text
    assert "| A | text | 4 |  |  | `a/modeling_a.py:7` | a kind | compiled whole | equal |" in text
    assert "| C | `a.py:3` | a kind | no edit is known |" in text
