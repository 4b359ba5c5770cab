"""Advice must hold for the very line that it is given for."""

import pytest
import sample_recordings as samples

from compiler_lens.analysis.cards import break_cards
from compiler_lens.model import BreakCause, Recording
from compiler_lens.render.advice import setting_of

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
LOGGER = BreakCause("logging.Logger method not supported for non-export cases", context="Logger.warning")


def setting(cause, code):
    """The configuration that the card of one break offers."""
    (card,) = break_cards(Recording(graph_breaks=(samples.graph_break(0, cause, 7, code),)))
    return setting_of(card)


@pytest.mark.parametrize("code", ["if loss.item() > 1.0:", "while x.item():", "assert x.item() < 3"])
def test_capturing_a_number_is_no_help_where_it_is_branched_on(code):
    assert setting(ITEM, code) is None


def test_capturing_a_number_helps_where_it_is_used():
    assert setting(ITEM, "s = x.sum().item()").name == "torch._dynamo.config.capture_scalar_outputs"


def test_the_logging_method_to_ignore_is_that_of_the_line():
    assert "warning" in setting(LOGGER, 'logger.warning("mean %s", y)').value
    assert "info" not in setting(LOGGER, 'logger.warning("mean %s", y)').value
