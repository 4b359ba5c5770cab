"""Whole models: nothing to fix in what compiles whole, and one card for each line to change in what does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import zoo
from models import CLEAN, CountingMoE, Generator, Recurrent, RowMoE, Stack
from observing import Seen, observe
from torch import nn
from toys import MARK, marks

from compiler_lens.facts.overview.explanation import explain
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.program.owners import Whose
from tests.sampled import one_of

OLD = torch.__version__ < "2.12"
RNN = "eager" if torch.__version__ < "2.14" else "split"  # 2.15 goes on behind the refused LSTM


@dataclass(frozen=True)
class Broken:
    """A model that breaks, and what is to be said about it."""

    name: str
    make: Callable[[], Callable[..., Any]]
    calls: Callable[[], Any]
    places: Callable[[], Counter[tuple[str, int]]]  # of the cards
    treatments: Mapping[str, str]  # of the functions that hold the places
    events: int | None = None  # where all versions of torch agree


def _x() -> list[tuple[torch.Tensor]]:
    return [(torch.rand(6, 16) + 0.1,)] * 2


def _tokens() -> list[tuple[torch.Tensor]]:
    return [(torch.randint(1, 20, (2, 3)),)] * 2


def _marked(model: type) -> Callable[[], Counter[tuple[str, int]]]:
    return lambda: Counter(marks(model.forward))


def _of(function: Callable[..., Any], *codes: str) -> Callable[[], Counter[tuple[str, int]]]:
    """The lines of a function that nobody may mark, by what stands in them."""
    import inspect

    def found() -> Counter[tuple[str, int]]:
        inner = inspect.unwrap(function)
        lines, first = inspect.getsourcelines(inner)
        file = inspect.getsourcefile(inner) or ""
        return Counter((file, n) for n, line in enumerate(lines, first) if any(code in line for code in codes))

    return found


def _mixtral_forward() -> Any:
    from transformers.models.mixtral.modeling_mixtral import MixtralExperts

    return MixtralExperts.forward


def _specimen(name: str) -> zoo.Specimen:
    return next(s for s in zoo.SPECIMENS if s.name == name)


BROKEN = (
    Broken(
        "mixtral_eager_experts",
        _specimen("mixtral_eager_experts").make,
        _specimen("mixtral_eager_experts").calls,
        lambda: _of(_mixtral_forward(), ".nonzero()")(),  # noqa: PLW0108 -- transformers is imported late
        {"MixtralExperts.forward": "partly_eager"},
        None if OLD else 13,
    ),
    Broken("lstm", lambda: Recurrent(nn.LSTM), _x, _marked(Recurrent), {"Recurrent.forward": RNN}, 1),
    Broken("gru", lambda: Recurrent(nn.GRU), _x, _marked(Recurrent), {"Recurrent.forward": RNN}, 1),
    Broken(
        "tagger",
        _specimen("tagger").make,
        _specimen("tagger").calls,
        _of(zoo.Tagger.forward, "self.lstm("),
        {"Tagger.forward": RNN},
        1,
    ),
    Broken(
        "looped_moe",
        _specimen("looped_moe").make,
        _specimen("looped_moe").calls,
        _of(zoo.LoopedMoE.forward, "torch.where("),
        {"LoopedMoE.forward": "eager"},
        1,
    ),
    Broken(
        "chatty",
        _specimen("chatty").make,
        _specimen("chatty").calls,
        _of(zoo.Chatty.forward, "print(", "if x.sum()"),
        {"Chatty.forward": "split"},
        2,
    ),
    Broken("counting_moe", CountingMoE, _x, _marked(CountingMoE), {"CountingMoE.forward": "split"}, 2),
    Broken("row_moe", RowMoE, _x, _marked(RowMoE), {"RowMoE.forward": "partly_eager"}),
    Broken("generator", Generator, _tokens, _marked(Generator), {"Generator.forward": "eager"}, 1),
    Broken("stack", Stack, _x, lambda: Counter(marks(type(Stack().layers[0]).forward)), {"Layer.forward": "split"}),
)


@pytest.fixture(scope="module")
def seen() -> Callable[[Any], Seen]:
    """A model's recording, made when it is first asked for."""
    kept: dict[str, Seen] = {}

    def record(model: Any) -> Seen:
        if model.name not in kept:
            torch.manual_seed(0)
            with torch.set_grad_enabled(getattr(model, "training", False)):
                kept[model.name] = observe(model.make(), model.calls())
        return kept[model.name]

    return record


of_clean = one_of(2, {model.name: model for model in CLEAN})
each_clean = pytest.mark.parametrize("model", of_clean)
each_broken = pytest.mark.parametrize("model", BROKEN, ids=lambda model: model.name)


@each_clean
def test_what_compiles_whole_needs_no_fixing(model, seen):
    if OLD and model.name in {"t5", "whisper", "bart"}:
        pytest.skip("2.11 breaks on this transformers' mask functions")
    found = seen(model).explanation
    assert not found.cards
    assert [f for f in found.findings if not f.benign] == []
    assert "Nothing to fix" in seen(model).report


@each_clean
def test_what_compiles_whole_is_covered_whole(model, seen):
    functions = seen(model).explanation.coverage.functions
    assert functions
    if not seen(model).breaks:
        assert {f.treatment for f in functions} == {Treatment.WHOLE}
        assert "compiled" in seen(model).report.splitlines()[1]


@pytest.mark.parametrize("model", [*of_clean, *(pytest.param(model, id=model.name) for model in BROKEN)])
def test_every_break_that_torch_raised_is_on_exactly_one_card(model, seen):
    events = seen(model).recording.graph_breaks
    assert len(events) == seen(model).breaks
    cards = seen(model).explanation.cards
    assert Counter(id(event) for card in cards for event in card.events) == Counter(map(id, events))
    assert not seen(model).recording.problems


@each_broken
def test_each_line_to_change_is_a_card_and_no_other_line_is(model, seen):
    cards = seen(model).explanation.cards
    assert Counter((card.place.file, card.place.line) for card in cards) == model.places() != Counter()
    if model.events is not None:
        assert sum(len(card.events) for card in cards) == model.events


@each_broken
def test_every_broken_function_is_treated_as_torch_treated_it(model, seen):
    functions = {f.name.name: f.treatment.value for f in seen(model).explanation.coverage.functions}
    assert {name: functions.get(name) for name in model.treatments} == model.treatments


@each_broken
def test_every_card_is_something_to_fix(model, seen):
    found = seen(model).explanation
    assert {id(card) for card in found.cards} <= {id(f.evidence) for f in found.findings if not f.benign}
    assert all(card.remedy if card.owner.is_yours else card.owner.change for card in found.cards)
    assert not [card for card in found.cards if card.owner.whose is Whose.BY_DESIGN]


@pytest.mark.long
def test_naming_a_library_moves_the_places_into_it():
    model = _specimen("mixtral_eager_experts").make()
    torch.manual_seed(0)

    def classify(tokens: torch.Tensor) -> torch.Tensor:
        return model(tokens).logits.argmax(-1)

    seen = observe(classify, [(zoo.ids(),)])
    (mine,) = seen.explanation.cards  # also the branch on what nonzero() gave, deep inside
    theirs = explain(seen.recording, user_paths=["transformers"]).cards
    (place,) = _of(_mixtral_forward(), ".nonzero()")()
    assert (mine.place.file, mine.own, mine.place.code.strip()) == (
        __file__,
        True,
        "return model(tokens).logits.argmax(-1)",
    )
    assert place in [(at.file, at.line) for at in mine.inside]
    assert [(card.place.file, card.place.line, card.own) for card in theirs] == [(*place, True)]
    assert Counter(map(id, mine.events)) == Counter(id(event) for card in theirs for event in card.events)


def test_marks_are_found_where_they_stand():
    assert all(MARK in Path(file).read_text().splitlines()[line - 1] for file, line in marks(Recurrent))
