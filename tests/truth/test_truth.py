"""Programs in the shape of real issues: the right fix is right, and the table of what we say of them stays true."""

import pytest
import torch
from msgspec.structs import replace

from compiler_lens.facts.breaks import cards
from tests.truth.case import case, every_case
from tests.truth.table import PAGE, row
from tests.truth.trial import compiled, eager, equal
from tests.truth.verdict import verdict

# It names the line that calls for a guard of the function that is called, and not where a branch's number is computed.
NOT_IN_2_11 = {"noise_level": "line", "task_prompt": "line", "quantizer_dropout": "cause"}
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
    found = verdict(one, before, reference)
    if torch.__version__ < "2.12" and name in NOT_IN_2_11:
        assert not getattr(found, NOT_IN_2_11[name])
        found = replace(found, **{NOT_IN_2_11[name]: True})
    assert row(found) in PAGE.read_text(), "run `python -m tests.truth`, and look at what changed"


@pytest.mark.parametrize("name", ["action_bounds", "expert_split", "longest_text", "named_timestep", "stop_tokens"])
def test_the_expression_is_known_also_where_torch_does_not_underline_it(name, monkeypatch):
    """As torch 2.11 does not."""
    monkeypatch.setattr(cards, "_column", lambda _event, _at: None)
    one = case(name)
    assert row(verdict(one, compiled(name, one.source), eager(name, one.source))) in PAGE.read_text()
