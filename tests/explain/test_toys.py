"""Programs that break in one way each: one card for each line to change, at that line, and every event on one card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from msgspec.structs import replace
from observing import Seen, observe
from toys import NEW, TOYS, Toy

from compiler_lens.facts.overview.evidence import DisabledOnPurpose, FrameFailed
from compiler_lens.facts.overview.findings import Severity
from compiler_lens.facts.program.coverage import Function
from compiler_lens.recording.model import BreakCause
from compiler_lens.render.console import view
from compiler_lens.render.console.page import Page


@pytest.fixture(scope="module")
def seen() -> Callable[[Toy], Seen]:
    """A toy's recording, made when it is first asked for."""

    kept: dict[str, Seen] = {}

    def record(toy: Toy) -> Seen:
        if toy.name not in kept:
            torch.manual_seed(0)
            kept[toy.name] = observe(toy.function, [(torch.rand(4, 4) + 0.1, *flags) for flags in toy.flags])
        return kept[toy.name]

    return record


each_toy = pytest.mark.parametrize("toy", TOYS, ids=lambda toy: toy.name)


@each_toy
def test_every_break_that_torch_raised_is_an_event(toy, seen):
    assert len(seen(toy).recording.graph_breaks) == seen(toy).breaks > 0


@each_toy
def test_the_cards_partition_the_events(toy, seen):
    events = [event for card in seen(toy).explanation.cards for event in card.events]
    assert Counter(map(id, events)) == Counter(map(id, seen(toy).recording.graph_breaks))


@each_toy
def test_each_line_to_change_is_a_card_and_no_other_line_is(toy, seen):
    places = [(card.place.file, card.place.line) for card in seen(toy).explanation.cards]
    assert Counter(places) == Counter(toy.marks)


@each_toy
def test_what_only_follows_is_counted_as_such(toy, seen):
    cards = seen(toy).explanation.cards
    assert sum(len(card.events) - card.direct for card in cards) == toy.follow


@each_toy
def test_every_function_is_treated_as_torch_treated_it(toy, seen):
    functions = seen(toy).explanation.coverage.functions
    treated = {f.name.name: f.treatment.value for f in functions if f.treatment.value != "empty"}
    assert treated == {name: kind for name, kind in toy.treatments.items() if kind != "empty"}


@each_toy
def test_every_card_is_a_finding_with_a_remedy(toy, seen):
    found = seen(toy).explanation.findings
    cards = [f.evidence for f in found if not isinstance(f.evidence, (DisabledOnPurpose, FrameFailed))]
    if toy.on_purpose:
        assert all(f.severity is Severity.INFO for f in found)
        return
    for card in seen(toy).explanation.cards:
        assert card in cards
        assert card.own
        assert card.excerpt


@each_toy
def test_nothing_is_lost_on_the_way(toy, seen):
    assert not seen(toy).recording.problems


@pytest.mark.skipif(not NEW, reason="2.11 tells nothing of the generators that it refuses")
def test_a_generator_that_an_eager_function_calls_is_no_thing_to_fix_first(seen):
    toy = next(toy for toy in TOYS if toy.name == "generator_context")
    (found,) = (f for f in seen(toy).explanation.findings if isinstance(f.evidence, Function))
    assert (found.evidence.name.name, found.severity) == ("labelled", Severity.LOW)
    assert found.evidence.reason.startswith("Generators cannot be compiled directly")


def test_where_we_have_no_advice_torchs_words_are_shown_in_full(seen):
    toy = next(toy for toy in TOYS if toy.name == "saving")
    recording = seen(toy).recording
    (event,) = recording.graph_breaks
    unknown = BreakCause(
        "A type of tomorrow", None, "It is explained at length. " * 20, ("Do that.",), "context=<tomorrow>"
    )
    changed = replace(recording, graph_breaks=(replace(event, causes=(unknown,)),))
    shown = "".join(view(changed, "breaks", Page(width=100)).split())
    for words in (unknown.gb_type, unknown.explanation, unknown.context, unknown.hints[0]):
        assert "".join(words.split()) in shown
