"""Recordings of real packages: what their wrappers break is not the user's, and what is said is what the user can do.

tests/theirs/record.py made them from tests/theirs/programs/, so that the packages need not be here.
"""

from __future__ import annotations

import html
import json
import re
from functools import cache
from pathlib import Path

import pytest
from msgspec import toml

import compiler_lens
from compiler_lens import explain
from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.facts.measured.fix import NotTriedBecause, Offer
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.overview.explanation import Explanation
from compiler_lens.facts.program.owners import Whose, owner_of
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import BreakCause, BreakOutcome, CompileId, GraphBreak, Recording, SourceLine
from compiler_lens.render.console import report
from compiler_lens.render.json import view_json
from compiler_lens.render.page.page import report_page
from compiler_lens.views.advice import advice

DATA = Path(__file__).with_name("recordings")
NAMES = sorted(path.name.removesuffix(".clens.gz") for path in DATA.glob("*.clens.gz"))
# What is said of each library, and what to do from the user's own code.
SAID = {
    "accelerate_step": ("By design of accelerate", r"accelerator\.prepare\(torch\.compile\(model\)\)"),
    "accelerate_offload": ("By design of accelerate's hooks", "without `device_map` and offloading"),
    "fabric_step": ("By design of Fabric", r"fabric\.setup\(torch\.compile\(model\), optimizer\)"),
    "generate_loop": ("By design of generate", r"model\.forward = torch\.compile\(model\.forward\)"),
    "output_hooks": ("By design of output hooks of transformers", "`output_hidden_states` and `output_attentions` out of"),
    "quantize_inside": ("By design of torchao's quantize_", r"Quantize first, then compile"),
    "graph_network": ("Inside torch_geometric", "Pass `batch_size` and `max_num_nodes`"),
    "metric_update": ("By design of torchmetrics", "Update metrics after the compiled function"),
    "peft_adalora": ("Inside peft", "look in peft for an argument or a newer version"),
}  # fmt: skip


@cache
def recording(name: str) -> Recording:
    return compiler_lens.load(DATA / f"{name}.clens.gz", strict=True)


@cache
def explained(name: str) -> Explanation:
    return explain(recording(name))


def screen(name: str) -> str:
    return " ".join(report(recording(name), color=False, width=120).partition("\nNext\n")[2].split())


def test_every_program_is_recorded_and_the_paths_are_nobodys() -> None:
    assert set(NAMES) == {path.stem for path in DATA.with_name("programs").glob("*.py")}
    for name in NAMES:
        files = {at.file for event in recording(name).graph_breaks for at in event.user_stack}
        assert all(re.match(r"/venv/|/usr/|/home/me/|<", file) for file in files), files
        assert f"/home/me/{name}.py" in files


@pytest.mark.parametrize("name", SAID)
def test_the_first_screen_says_whose_it_is_and_what_to_do_from_the_users_line(name: str) -> None:
    whose, change = SAID[name]
    shown = screen(name)
    assert whose in shown
    assert re.search(change, shown)
    assert re.search(rf"\d\. {name}\.py:\d+ ", shown)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_told_to_edit_a_library(name: str) -> None:
    theirs = [finding for finding in explained(name).findings if not finding.owner.is_yours]
    assert theirs
    for finding in theirs:
        told = advice(finding)
        assert not re.search(r"[Rr]emove it|[Mm]end |[Ee]dit |your own line", f"{told.what} {told.change}"), told
        assert not told.instead
        if finding.place and finding.owner.line:
            assert f"/home/me/{name}.py" in {finding.owner.line.file, finding.place.file}
    for card in explained(name).cards:
        assert card.owner.is_yours or (card.remedy is None and card.rewrite is None)


@pytest.mark.parametrize("name", NAMES)
def test_the_users_own_stand_before_a_librarys_and_what_is_harmless_last(name: str) -> None:
    found = [finding for finding in explained(name).findings if finding.severity.value in {"high", "medium"}]
    whose = [finding.owner.is_yours for finding in found]
    assert whose == sorted(whose, reverse=True)
    benign = [finding.benign for finding in explained(name).findings]
    assert benign == sorted(benign)


def test_a_value_that_the_users_hook_asks_for_is_theirs_though_transformers_calls_it() -> None:
    first = explained("output_hooks").findings[0]
    assert first.owner.is_yours
    assert first.place
    assert first.place.code.strip() == "seen.append(out.sum().item())"


def test_a_branch_of_the_users_comes_before_those_of_torch_geometric() -> None:
    first = explained("graph_network").findings[0]
    assert first.place
    assert (first.owner.whose, first.place.code.strip()) == (Whose.YOURS, "if x.sum() > 0:")


def test_what_lightning_logs_is_to_know() -> None:
    kept_out = [card for card in explained("lightning_log").cards if "log" in card.owner.label]
    assert kept_out
    for finding in explained("lightning_log").findings:
        if finding.evidence in kept_out:
            assert finding.benign


def test_a_package_is_the_users_where_they_say_so() -> None:
    own = explain(recording("graph_network"), user_paths=("torch_geometric",))
    assert all(card.owner.is_yours and card.own for card in own.cards)
    assert any(card.remedy for card in own.cards)


@pytest.mark.parametrize("name", NAMES)
def test_recompiles_of_a_library_are_its_own(name: str) -> None:
    for finding in explained(name).findings:
        if finding.evidence in explained(name).recompiles and "/venv/" in finding.evidence.function.file:
            assert not finding.owner.is_yours or finding.owner.line
            assert "outside of" not in advice(finding).change


def test_recompiles_of_torch_geometric_say_what_the_call_can_do() -> None:
    theirs = [r for r in explained("graph_network").recompiles if r.owner.label == "torch_geometric"]
    assert theirs
    said = {True: r"follows from the graph break at \w+\.py:\d+ in", False: r"This is code of .*graph_network\.py:\d+"}
    causes = [cause for report in theirs for cause in report.causes]
    assert {cause.follows is not None for cause in causes} == {True, False}
    assert all(re.search(said[cause.follows is not None], cause.fix.change) for cause in causes)
    assert all("torch_geometric" in cause.fix.change for cause in causes)


@pytest.mark.parametrize("name", NAMES)
def test_fix_changes_no_line_of_a_library(name: str) -> None:
    seen = observed(recording(name), Ownership())
    for offer in seen.offers:
        file = getattr(offer.edit, "file", f"/home/me/{name}.py")
        assert isinstance(offer, Offer)
        assert file == f"/home/me/{name}.py"
    theirs = {card.place for card in explained(name).cards if not card.owner.is_yours}
    for other in seen.not_tried:
        if other.target.at in theirs:
            assert other.reason is NotTriedBecause.NOT_OWN


@pytest.mark.parametrize("name", NAMES)
def test_json_and_the_page_say_whose_under_one_name(name: str) -> None:
    found = json.loads(view_json(recording(name), "findings"))["findings"]
    cards = json.loads(view_json(recording(name), "breaks"))["cards"]
    assert [one["owner"]["whose"] for one in found] == [f.owner.whose.value for f in explained(name).findings]
    assert {"library", "by_design"} & {card["owner"]["whose"] for card in cards}
    label = next(card.owner.label for card in explained(name).cards if not card.owner.is_yours)
    assert label in html.unescape(report_page(recording(name)))


MINE = SourceLine("/home/me/train.py", 7, "forward", "x = self.pool(x)")
PACKAGES = "/venv/lib/python3.11/site-packages"


def line(path: str, function: str = "forward") -> SourceLine:
    return SourceLine(f"{PACKAGES}/{path}", 1, function)


@pytest.mark.parametrize(
    ("inside", "whose", "label"),
    [
        ((), Whose.YOURS, ""),
        (("torch/nn/modules/linear.py",), Whose.YOURS, ""),
        (("torch/optim/optimizer.py", "torch/optim/adam.py"), Whose.BY_DESIGN, "torch.optim"),
        (("torch/optim/lr_scheduler.py",), Whose.BY_DESIGN, "a learning rate scheduler"),
        (("accelerate/optimizer.py", "torch/optim/optimizer.py"), Whose.BY_DESIGN, "torch.optim"),
        (("flash_attn/flash_attn_interface.py",), Whose.LIBRARY, "flash-attention"),
        (("apex/normalization/fused_layer_norm.py",), Whose.LIBRARY, "apex"),
        (("somebody/model.py", "torch/nn/modules/linear.py"), Whose.LIBRARY, "somebody"),
        (("outer/model.py", "inner/ops.py"), Whose.LIBRARY, "inner"),
        (("transformers/utils/output_capturing.py",), Whose.BY_DESIGN, "output hooks of transformers"),
        (
            ("transformers/utils/output_capturing.py", "transformers/models/mixtral/modeling_mixtral.py"),
            Whose.LIBRARY,
            "transformers",
        ),
    ],
)
def test_the_innermost_call_that_is_known_decides(inside: tuple[str, ...], whose: Whose, label: str) -> None:
    owner = owner_of((MINE, *map(line, inside)), Ownership())
    assert (owner.whose, owner.label, owner.line) == (whose, label, MINE)
    assert bool(owner.change) == (whose is not Whose.YOURS)
    assert owner_of((*map(line, inside), MINE), Ownership()).is_yours, "what a library calls of the user's is theirs"


def test_what_a_pooling_layer_calls_is_said_of_pooling() -> None:
    scatter = line("torch_geometric/utils/_scatter.py", "scatter")
    assert "counted outside" in owner_of((MINE, scatter), Ownership()).change
    below = (
        MINE,
        line("torch_geometric/nn/pool/topk_pool.py"),
        line("torch_geometric/nn/pool/select/topk.py"),
        scatter,
    )
    assert "Pool outside" in owner_of(below, Ownership()).change


def test_a_break_at_a_line_of_torchs_own_is_nothing_to_edit() -> None:
    at = line("torch/nn/modules/rnn.py")
    broken = GraphBreak(
        CompileId(0, 0), 0, (BreakCause("Data-dependent branching"),), "", (at,), at, BreakOutcome.SPLIT
    )
    (card,) = break_cards(Recording(graph_breaks=(broken,)))
    assert (card.owner.whose, card.owner.label, card.remedy, card.rewrite) == (Whose.LIBRARY, "torch", None, None)


def test_the_table_says_nothing_twice_and_edits_nothing() -> None:
    file = Path(compiler_lens.__file__).parent / "facts" / "program" / "owners.toml"
    entries = toml.decode(file.read_bytes())["owners"]
    keys = [(path, tuple(entry.get("functions", ()))) for entry in entries.values() for path in entry["files"]]
    assert len(keys) == len(set(keys))
    for name, entry in entries.items():
        assert not re.search(r"site-packages|[Ee]dit|Remove", entry["change"]), name
        assert entry["means"].endswith(".")
        assert entry["change"].endswith(".")
        assert entry.get("by_design") or not entry.get("harmless"), name
