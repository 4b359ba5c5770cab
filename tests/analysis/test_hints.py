"""torch's own hints on a break: printed before anything of ours, said once, and not where they are about other lines."""

import html
import json
import re
from pathlib import Path

import pytest
import sample_recordings as samples

import compiler_lens
from compiler_lens import explain
from compiler_lens.facts.breaks.cards import BreakCard, break_cards
from compiler_lens.facts.breaks.hints import specific_hints
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.recording.model import BreakCause, Recording
from compiler_lens.render.console import report, view
from compiler_lens.render.console.page import Page
from compiler_lens.render.json import view_json
from compiler_lens.render.page.page import report_page
from compiler_lens.views.advice import advice
from tests.truth_classes.hints import printed_first, unprinted

TESTS = Path(__file__).parents[1]
WITH_BREAKS = [
    *sorted(TESTS.glob("theirs/recordings/*.clens.gz")),
    TESTS / "pictures/data/broken.clens.gz",
    TESTS / "pictures/data/ddp.clens.gz",
    TESTS / "gpu/data/decoder-default-profiled.clens.gz",
]
WIDE = Page(width=1000, color=False)
ITEM = BreakCause(
    "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    hints=("Set `torch._dynamo.config.capture_scalar_outputs = True` or so to include these operations.",),
)
SETTING = "torch._dynamo.config.capture_scalar_outputs = True"


@pytest.mark.parametrize("path", WITH_BREAKS, ids=lambda path: path.name)
def test_each_specific_hint_of_a_recorded_break_is_printed_before_our_own_words(path: Path) -> None:
    recording = compiler_lens.load(path)
    cards = explain(recording).cards
    assert cards
    assert unprinted(cards, view(recording, "breaks", WIDE)) == []


def step_of(recording: Recording) -> tuple[Finding, BreakCard]:
    found = next(finding for finding in explain(recording).findings if isinstance(finding.evidence, BreakCard))
    assert isinstance(found.evidence, BreakCard)
    return found, found.evidence


def broken(cause: BreakCause, code: str) -> Recording:
    return Recording(compilations=(samples.compilation(1),), graph_breaks=(samples.graph_break(1, cause, 18, code),))


def test_a_setting_that_torch_names_is_said_once_and_first() -> None:
    run = broken(ITEM, "s = x.sum().item()")
    for text in (
        report(run, width=1000, color=False).partition("\nNext\n")[2],
        view(run, "findings", WIDE),
        view(run, "breaks", WIDE),
    ):
        assert text.count(SETTING) == 1
        assert text.index(SETTING) < text.index("Keep it a tensor")
        assert "or set" not in text
    page = html.unescape(re.sub(r"<[^>]+>", "", report_page(run)))
    for part in re.split(r"Keep it a tensor", page)[1:2]:
        assert part  # ours is there, and torch's before it
    assert page.index(SETTING) < page.index("Keep it a tensor")
    (finding,) = [one for one in json.loads(view_json(run, "findings"))["findings"] if one["kind"] == "graph-break"]
    assert [hint["text"] for hint in finding["advice"]["hints"]] == [SETTING]


def test_a_setting_that_does_not_help_here_is_torchs_hint_with_what_comes_of_it() -> None:
    run = broken(ITEM, "if x.sum().item() > 1:")
    words = view(run, "breaks", WIDE)
    assert f"Set `{SETTING}` or so to include these operations. By itself it is not enough here" in words
    assert words.index("not enough here") < words.index("change ")
    assert json.loads(view_json(run, "breaks"))["cards"][0]["hints"][0]["check"].startswith("By itself")


ABOUT = [
    ("Use `torch.cond` to express dynamic control flow.", "inside = low.all() and high.all()", False),
    ("For the common pattern `if tensor_cond: x = f(x)`, use torch.where.", "while x.sum() < 3:", False),
    ("For the common pattern `if tensor_cond: x = f(x)`, use torch.where.", "if x.sum() < 3:", True),
    ("Note: Python `or`/`and` between tensors. Use `torch.logical_or`.", "if mask.any():", False),
    ("Note: Python `or`/`and` between tensors. Use `torch.logical_or`.", "if a.any() or b.any():", True),
    ("Note: Python `or`/`and` between tensors. Use `torch.logical_or`.", "if (a.any()", True),  # it goes on below
    ("Please file an issue to PyTorch.", "f(x)", False),
    ("Rename it to something else.", "f(x)", True),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "code", "is_told"), ABOUT)
def test_a_hint_is_told_where_the_line_is_what_it_is_about(hint: str, code: str, is_told: bool) -> None:
    cause = BreakCause("Data-dependent branching", hints=(samples.GENERIC, hint))
    (card,) = break_cards(broken(cause, code))
    assert ([one.text for one in card.hints] == [hint]) == is_told


def test_what_ours_says_in_the_same_words_is_said_once() -> None:
    hint = "Use `torch.cond` to express dynamic control flow."
    run = broken(BreakCause("Data-dependent branching", hints=(hint,)), "if x.sum() > 0:")
    finding, card = step_of(run)
    assert specific_hints(card.cause) == (hint,)
    assert advice(finding).hints == ()
    assert view(run, "breaks", WIDE).count("torch.cond") == 1


def test_settings_that_break_each_other_are_not_both_hinted() -> None:
    printing = BreakCause(
        samples.PRINTING.gb_type,
        context="builtin print",
        hints=("You can try adding it to `torch._dynamo.config.reorderable_logging_functions`.",),
    )
    run = Recording(
        compilations=tuple(samples.compilation(i) for i in (1, 2)),
        graph_breaks=(
            samples.graph_break(1, ITEM, 18, "s = x.sum().item()"),
            samples.graph_break(2, printing, 19, "print(s)"),
        ),
    )
    assert "reorderable" not in report(run, width=1000, color=False).partition("\nNext\n")[2]
    assert printed_first(
        view(run, "breaks", WIDE), "torch._dynamo.config.reorderable_logging_functions = {print}", "Remove it"
    )
