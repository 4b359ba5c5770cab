"""Advice must hold for the very line that it is given for."""

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.recording.model import BreakCause, GraphStage, Outcome, Recording
from compiler_lens.render.console import report, view
from compiler_lens.render.console.page import page_for

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
LOGGER = BreakCause("logging.Logger method not supported for non-export cases", context="Logger.warning")


def setting(cause, code):
    """The configuration that the card of one break offers."""
    (card,) = break_cards(Recording(graph_breaks=(samples.graph_break(0, cause, 7, code),)))
    return card.setting


@pytest.mark.parametrize("code", ["if loss.item() > 1.0:", "while x.item():", "assert x.item() < 3"])
def test_capturing_a_number_is_no_help_where_it_is_branched_on(code):
    assert setting(ITEM, code) is None


def test_capturing_a_number_helps_where_it_is_used():
    assert setting(ITEM, "s = x.sum().item()").name == "torch._dynamo.config.capture_scalar_outputs"


def test_the_logging_method_to_ignore_is_that_of_the_line():
    assert "warning" in setting(LOGGER, 'logger.warning("mean %s", y)').value
    assert "info" not in setting(LOGGER, 'logger.warning("mean %s", y)').value


@pytest.mark.parametrize("view_name", ["", "findings"])
def test_settings_that_break_each_other_are_not_both_advised(view_name):
    """`print` under `reorderable_logging_functions` fails on what `capture_scalar_outputs` makes of `.item()`: GB0296."""
    item = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False", "GB0124")
    made = tuple(samples.compilation(i) for i in (1, 2))
    breaks = (
        samples.graph_break(1, item, 18, "s = x.sum().item()"),
        samples.graph_break(2, samples.PRINTING, 19, "print(s)"),
    )
    run = Recording(compilations=made, graph_breaks=breaks)
    page = page_for(run, width=100, color=False)
    text = view(run, view_name, page) if view_name else report(run, width=100, color=False)
    assert "capture_scalar_outputs = True" in text
    assert "or set torch._dynamo.config.reorderable_logging_functions" not in text
    apart = replace(run, graph_breaks=breaks[1:])
    assert "reorderable_logging_functions" in report(apart, width=100, color=False)


def test_the_headline_counts_what_the_limit_counts():
    """torch's limit is on one part of a function: what another part was compiled is not part of it."""
    made = samples.compilation(0, function="forward", line=10)
    refused = replace(made, compile_id=samples.compile_id(0, 1), outcome=Outcome.RECOMPILE_LIMIT)
    rest = samples.compilation(1, function="torch_dynamo_resume_in_forward_at_12", resumes="forward", line=12)
    graphs = (samples.graph(made.compile_id, GraphStage.DYNAMO, 4),)
    run = Recording(compilations=(made, refused, rest), graphs=graphs)
    assert "1 was compiled once, then hit the recompile limit" in report(run, width=100, color=False)
