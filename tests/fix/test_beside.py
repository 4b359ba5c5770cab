"""What was tried on a program, kept beside its recording and shown with it."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import sys
import time
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

import compiler_lens
from compiler_lens.cli import fix as command
from compiler_lens.cli import main
from compiler_lens.decode.recording_file import beside, save, save_tried
from compiler_lens.facts.breaks.following import Following, Known
from compiler_lens.facts.breaks.ranks import OfferKind, Rank
from compiler_lens.facts.measured.edits import Setting
from compiler_lens.facts.measured.fix import Fix, Observed, Offer, Target, Trial
from compiler_lens.measure.fix.plan import Program
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Figures, NextBreak, Results, Tried
from compiler_lens.views.advice import following

RECORDED = Path(__file__).parent.parent / "pictures" / "data" / "broken.clens.gz"
RECOMPILED = Path(__file__).parent.parent / "gpu" / "data" / "decoder-default-profiled.clens.gz"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return Path(shutil.copy(RECORDED, tmp_path / "breaks.clens.gz"))


def tried(recording: Path, after: Figures | None = None) -> Tried:
    """The rewrite of the first card that has one, tried."""
    card = next(card for card in compiler_lens.explain(compiler_lens.load(recording)).cards if card.rewrite)
    assert card.rewrite is not None
    code = "\n".join(card.rewrite.after)
    return Tried(card.place, card.gb_type, code, Figures(3, 1, 0), after, Results.EQUAL, "" if after else "No: \x1b")


def test_an_offer_that_was_tried_says_so_wherever_it_is_shown(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tried(recording, Figures(1, 1, 0))
    assert save_tried([one], recording) == recording.with_name("breaks.fix.json")
    card = next(card for card in compiler_lens.explain(compiler_lens.load(recording)).cards if card.tried)
    offer = card.offers[0]
    assert (offer.kind, offer.rank, offer.tried) == (OfferKind.REWRITE, Rank.TRIED, one)
    said = "Tried on a copy of this program: graph breaks 3 → 1, with the same results."
    for view in ("breaks", "findings"):
        assert main(["show", str(recording), view]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
    assert main(["show", str(recording), "breaks", "--json"]) == 0
    cards = json.loads(capsys.readouterr().out)["cards"]
    shown = [offer for card in cards for offer in card["offers"] if offer["rank"] == "tried"]
    assert shown[0]["tried"]["after"] == {"graph_breaks": 1, "recompiles": 1, "eager_functions": 0}
    assert main(["show", str(recording), "findings", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert shown == [offer for one in found for offer in one["advice"]["offers"] if offer["rank"] == "tried"]
    page = recording.with_name("page.html")
    assert main(["report", str(recording), "-o", str(page)]) == 0
    assert said in page.read_text()


def test_one_that_raised_is_shown_without_what_acts_on_a_terminal(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tried([tried(recording)], recording)
    assert main(["show", str(recording), "breaks"]) == 0
    shown = capsys.readouterr().out
    assert "Tried on a copy of this program: do not use it, it raises No:" in " ".join(shown.split())
    assert "\x1b" not in shown


def test_other_results_are_no_recommendation(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = tried(recording, Figures(1, 1, 0))
    save_tried([replace(one, results=Results.DIFFER)], recording)
    assert main(["show", str(recording), "breaks"]) == 0
    assert "graph breaks 3 → 1, but other results: do not use it." in " ".join(capsys.readouterr().out.split())


def test_one_that_was_not_looked_at_closer_is_no_offer_that_was_not_tried(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_tried([replace(tried(recording, Figures(1, 1, 0)), is_checked=False)], recording)
    assert main(["show", str(recording), "breaks"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "graph breaks 3 → 1, with the same results; other inputs were not tried." in said


def test_what_was_not_tried_is_sure_or_general(recording: Path) -> None:
    for card in compiler_lens.explain(compiler_lens.load(recording)).cards:
        is_sure = card.rewrite is not None and card.rewrite.is_complete and not card.rewrite.needs
        first, *others = [offer.rank for offer in card.offers]
        assert first is (Rank.SURE if is_sure else Rank.GENERAL)
        assert set(others) <= {Rank.GENERAL}


def test_what_was_tried_is_of_the_offer_that_it_was(recording: Path) -> None:
    """A setting that was tried says nothing of the rewrite beside it."""
    card = next(card for card in compiler_lens.explain(compiler_lens.load(recording)).cards if card.setting)
    assert card.setting is not None
    code = f"{card.setting.name} = {card.setting.value}"
    save_tried([Tried(card.place, card.gb_type, code, Figures(3, 1, 0), Figures(1, 1, 0), Results.EQUAL)], recording)
    again = next(card for card in compiler_lens.explain(compiler_lens.load(recording)).cards if card.tried)
    first, second = again.offers
    assert first.rank is not Rank.TRIED
    assert (second.kind, second.rank, second.change) == (OfferKind.SETTING, Rank.TRIED, code)


def test_a_setting_that_torch_names_is_named_again_where_it_is_said_what_it_did(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its hint stands further up, and what the rewrite did in between."""
    cards = compiler_lens.explain(compiler_lens.load(recording)).cards
    card = next(one for one in cards if one.setting and any(hint.text == one.setting.code for hint in one.hints))
    assert card.setting is not None
    code = card.setting.code
    save_tried([Tried(card.place, card.gb_type, code, Figures(3, 1, 0), Figures(1, 1, 0), Results.EQUAL)], recording)
    assert main(["show", str(recording), "findings"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"`{code}`: Tried on a copy of this program: graph breaks 3 → 1, with the same results." in said


def test_what_helped_stands_before_a_hint_of_torchs_that_did_not(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = next(
        card for card in compiler_lens.explain(compiler_lens.load(recording)).cards if card.setting and card.hints
    )
    assert card.setting is not None
    better, worse = Figures(2, 1, 0), Figures(3, 1, 1)
    changes = ((card.setting.code, worse), ("def f(…) in parts, without for row in rows:", better))
    made = [Tried(card.place, card.gb_type, code, Figures(3, 1, 0), after, Results.EQUAL) for code, after in changes]
    save_tried(made, recording)
    for view in ("breaks", "findings"):
        assert main(["show", str(recording), view]) == 0
        said = " ".join(capsys.readouterr().out.split())
        here = said.index("without for row in rows")
        assert "graph breaks 3 → 2" in said[here : here + 120]
        assert said.index("graph breaks 3 → 2") < said.index(card.hints[0].text.split("`")[0].strip()[:20], here - 300)
        assert said.index("eager functions 0 → 1") > here
        assert "rows:`:" not in said


def test_an_offer_for_a_recompile_is_shown_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = Path(shutil.copy(RECOMPILED, tmp_path))
    reports = compiler_lens.explain(compiler_lens.load(recording)).recompiles
    cause = next(cause for report in reports for cause in report.causes if not cause.benign)
    code = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
    one = Tried(cause.line, cause.cause.value, code, Figures(3, 4, 0), Figures(3, 1, 0), Results.EQUAL)
    save_tried([one], recording)
    assert main(["show", str(recording), "recompiles"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{code}: Tried on a copy of this program: recompiles 4 → 1, with the same results." in said


def test_what_a_trial_brought_up_stands_on_the_card(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = tried(recording, Figures(1, 1, 0))
    assert one.place is not None
    new = NextBreak(replace(one.place, line=one.place.line + 90, code="size = x.nonzero()"), "Dynamic shape operator")
    save_tried([replace(one, next=(new,))], recording)
    card = next(card for card in compiler_lens.explain(compiler_lens.load(recording)).cards if card.tried)
    assert card.following[-1].known is Known.TRIED
    said = f"After this fix it breaks at line {new.line.line} (`size = x.nonzero()`), as the trial showed."
    for view in ("breaks", "findings"):
        assert main(["show", str(recording), view]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
    page = recording.with_name("page.html")
    assert main(["report", str(recording), "-o", str(page)]) == 0
    assert "<code>size = x.nonzero()</code>" in page.read_text()


def test_a_line_at_which_several_things_break_next_is_named_once(recording: Path) -> None:
    card = next(card for card in compiler_lens.explain(compiler_lens.load(recording)).cards if card.place)
    assert card.place is not None
    lines = [replace(card.place, line=number) for number in (78, 80, 80)]
    for known in Known:
        several = tuple(Following(line, f"kind {n}", known) for n, line in enumerate(lines))
        told = following(replace(card, following=several, unseen=None))
        assert (told.count("78"), told.count("80")) == (1, 1)


def test_a_script_known_by_its_name_alone_is_found_and_another_line_is_not(recording: Path) -> None:
    one = tried(recording, Figures(1, 1, 0))
    assert one.place is not None
    (name, line, function, code) = (Path(one.place.file).name, one.place.line + 5, "f", one.place.code)
    assert one.is_for(type(one.place)(name, line, function, f"  {code}"), one.kind)
    assert not one.is_for(type(one.place)(name, line, function, "return x"), one.kind)
    assert not one.is_for(one.place, "another")
    assert not one.is_for(None, one.kind)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"compiler_lens": 99}\n', b"\xff" * 100])
def test_a_recording_opens_whatever_lies_beside_it(recording: Path, content: bytes) -> None:
    whole = compiler_lens.load(recording)
    beside(recording).write_bytes(content)
    found = compiler_lens.load(recording)
    assert found.graph_breaks == whole.graph_breaks
    assert not found.tried
    assert any(problem.where in {"what was tried", "journal"} for problem in found.problems)


@pytest.mark.parametrize(("field", "value"), [("after", 7), ("results", "fine"), ("place", []), ("code", None)])
def test_a_damaged_offer_costs_itself_alone(recording: Path, field: str, value: object) -> None:
    one = tried(recording, Figures(1, 1, 0))
    file = save_tried([one, one], recording)
    header, first, *rest = file.read_text().splitlines()
    damaged = json.loads(first)
    damaged["m"][field] = value
    file.write_text("\n".join([header, json.dumps(damaged), *rest, ""]))
    found = compiler_lens.load(recording)
    assert found.tried == (one,)
    assert [problem.where for problem in found.problems] == ["lens.tried"]


def test_a_file_that_is_not_ours_stays(recording: Path) -> None:
    beside(recording).write_text("mine")
    with pytest.raises(UsageError, match="is not a recording of compiler_lens"):
        save_tried([], recording)
    assert beside(recording).read_text() == "mine"


def test_a_saved_recording_keeps_it_and_a_redacted_one_does_not(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tried(recording, Figures(1, 1, 0))
    save_tried([one], recording)
    copy = recording.with_name("copy.clens")
    save(compiler_lens.load(recording), copy)
    assert compiler_lens.load(copy).tried == (one,)
    other = recording.with_name("redacted.clens")
    assert main(["redact", str(recording), str(other)]) == 0
    assert not compiler_lens.load(other).tried


SCRIPT = """
import torch

def f(x):
    return x + 1

torch.compile(f, backend="eager")(torch.ones(2))
"""


@pytest.mark.parametrize(
    ("program", "text", "is_found"),
    [
        (Program("train.py", ("--steps", "2")), SCRIPT, True),
        (Program("pkg.train", ("--steps", "2"), is_module=True), SCRIPT, True),
        (Program("train.py"), SCRIPT, False),
        (Program("train.py", ("--steps", "2")), SCRIPT.replace("1", "2"), False),
        (Program("trainer.py", ("--steps", "2")), SCRIPT, False),
        (Program("train.py", ("--steps", "2"), factory="make"), SCRIPT, False),
    ],
)
def test_what_was_tried_is_kept_beside_the_recording_of_the_same_program_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program, text: str, *, is_found: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "--steps", "2"])
    Path("train.py").write_text(SCRIPT)
    torch._dynamo.reset()
    for name in ("train.clens", "train-2.clens", "other.clens"):
        with compiler_lens.Lens(name):
            runpy.run_path("train.py")
    newest = time.time() + 10
    os.utime("train-2.clens", (newest, newest))
    (file,) = (source.file for source in compiler_lens.load("train.clens").sources)
    seen = Observed(Figures(0, 0, 0), None)
    trial = Trial((Offer(Target(None, "break"), Setting("x = 1")),), {}, Figures(1, 0, 0), seen, helps=True)
    fix = Fix(seen, (trial,), texts={file: text})
    assert command._recording_of(program, fix) == (Path("train-2.clens") if is_found else None)
    assert command._recording_of(program, replace(fix, tried=())) is None


def test_a_recording_that_counts_otherwise_is_said_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def program(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    torch._dynamo.reset()
    with compiler_lens.Lens("train.clens") as lens:
        torch.compile(program, backend="eager")(torch.ones(2))
    there = len(lens.recording.graph_breaks), len(lens.recording.recompiles)
    assert there == (1, 0)
    for here, steps, said in (
        (Figures(1, 0, 0), 0, ""),
        (None, 0, ""),
        (
            Figures(1, 2, 0),
            0,
            "counts 1 graph break and 0 recompiles, this 1 and 2: here random numbers are drawn from",
        ),
        (Figures(3, 0, 0), 4, "and graphs run as Dynamo captured them, and a run ends after 4 calls"),
    ):
        found = command._counted_otherwise(Fix(Observed(here, None)), Path("train.clens"), steps)
        assert said in found
        assert bool(found) is bool(said)
    Path("none.clens").write_text('{"compiler_lens": 99}\n')
    assert not command._counted_otherwise(Fix(Observed(Figures(3, 0, 0), None)), Path("none.clens"), 0)


def test_a_recording_that_cannot_be_read_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.clens").write_text('{"compiler_lens": 99}\n')
    seen = Observed(Figures(0, 0, 0), None)
    trial = Trial((Offer(Target(None, "break"), Setting("x = 1")),), {}, Figures(1, 0, 0), seen, helps=True)
    assert command._recording_of(Program("train.py"), Fix(seen, (trial,))) is None


def test_what_is_only_said_in_words_is_not_to_be_tried_yet(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(recording), "breaks"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "General advice; not tried." in said
    assert main(["show", str(recording)]) == 0
    assert f"compiler-lens fix --beside {recording} " in capsys.readouterr().out
