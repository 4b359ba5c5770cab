"""Programs in the shape of real issues: the right fix is right, and the table of what we say of them stays true."""

import pytest

from compiler_lens.facts.breaks import cards
from tests.truth.case import case, every_case
from tests.truth.table import PAGE, row
from tests.truth.trial import compiled, eager, equal
from tests.truth.verdict import verdict

NAMES = [one.name for one in every_case()]


@pytest.mark.parametrize("name", NAMES)
def test_the_fix_is_right_and_the_table_true(name):
    one = case(name)
    reference, before, after = eager(name, one.source), compiled(name, one.source), compiled(name, one.fixed)
    assert before.events or one.truth.kind == "eager"
    assert not after.error
    assert equal(before.results, reference)
    assert equal(eager(name, one.fixed), reference)
    assert equal(after.results, reference)
    assert after.graphs
    assert len(after.recording.graph_breaks) == one.truth.breaks
    assert len(after.recording.recompiles) <= one.truth.recompiles
    left = [finding.evidence for finding in after.explained.findings if not finding.benign]
    assert left == [] or one.truth.kind == "fine"
    found = row(verdict(one, before, reference))
    assert found in PAGE.read_text(), "run `python -m tests.truth`, and look at what changed"


@pytest.mark.parametrize("name", ["action_bounds", "expert_split", "longest_text", "named_timestep", "stop_tokens"])
def test_the_expression_is_known_also_where_torch_does_not_underline_it(name, monkeypatch):
    """As torch 2.11 does not."""
    monkeypatch.setattr(cards, "_column", lambda _event, _at: None)
    one = case(name)
    assert row(verdict(one, compiled(name, one.source), eager(name, one.source))) in PAGE.read_text()
