"""What `fix` ends with: each line that is left with its cause and what to do, and why a function still runs eagerly."""

from __future__ import annotations

import json
import linecache
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens
from compiler_lens.facts.measured.edits import Apart, EndApart, Lines, Setting
from compiler_lens.facts.measured.fix import (
    Difference,
    Fix,
    NotTriedBecause,
    Observed,
    Offer,
    OwnBackend,
    StillEager,
    Target,
    Trial,
)
from compiler_lens.facts.measured.left import Came, TriedFor, what_is_left
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.measured.other_inputs import Gave, Inputs, OtherCall
from compiler_lens.facts.measured.printed import OtherWords
from compiler_lens.facts.measured.what_if import Counts
from compiler_lens.facts.overview.eager import EagerPart, Extent, Reason
from compiler_lens.facts.program.coverage import Function, FunctionName
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Figures, Recording, Results, SourceLine
from compiler_lens.render.console import fix_report
from compiler_lens.render.json import document_json
from compiler_lens.views.measured.fix import data
from compiler_lens.views.measured.left import cause, to_do

TEXT = """
import random
import time
import torch

def timed(x):
    began = time.time()
    return x + began

def drawn(x):
    return x * random.random()

def looped(x):
    for i in range(3):
        if x.sum() > i:
            x = x + i
    return x

def halved(x):
    y = x.sin()
    torch._dynamo.graph_break()
    for i in range(3):
        torch._dynamo.graph_break()
    return y.cos()

def checked(x):
    loss = x.sin().sum()
    if torch.isnan(loss):
        return None
    return loss.exp()

import math

def perplexity(x):
    total = x.sum().item()
    count = (x > 0).sum().item()
    y = x * 2
    return y * math.exp(total / count)

def chosen(x):
    total = x.sum().item()
    y = x * 2
    return y * [1.0, 2.0][int(total > 3)]

def convolved(x):
    return torch.nn.functional.conv1d(x, torch.ones(1, 2, 1))

def mild(x):
    return x * 2

def averaged(x):
    (width,) = x.shape
    loss = torch.nn.functional.mse_loss(x, torch.zeros(width))
    if torch.isnan(loss):
        return None
    return loss.exp()

def stopped(x, target=9):
    kl = x.sin().sum()
    if kl > target:
        counts["stopped"] += 1
        print("stopped")
        return None
    return kl.exp()

counts = {"stopped": 0}

def picked(x):
    left, kept = list(range(3)), []
    while left:
        kept.append(left.pop(0))
        left = [one for one in left if (x[one] - x[kept[-1]]).item() < 5]
    return kept

def counted(x):
    parts = []
    for i in range(3):
        if x.sum() > i:
            parts.append(x)
    return sum(len(part) for part in parts) * x

class Counted:
    def __init__(self):
        self.seen = []

    def whole(self, x):
        self.seen.append(1)
        return x * len(self.seen)

    def stopped(self, x):
        high = x.sum().item()
        y = x * 2
        self.seen.append(1)
        if high > 4:
            print(f"high {high:.2f}")
            return None
        return y * len(self.seen)

    def after(self, x):
        x = x.sin()
        torch._dynamo.graph_break()
        self.seen.append(1)
        return x * len(self.seen)

@torch._dynamo.decorators.skip
def kept(x):
    return x * 2

def calls_kept(x):
    return kept(x.sin()).cos()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.history = 0, []

    def forward(self, x):
        self.step += 1
        self.history.append(1)
        return x * min(1.0, self.step / 10)

def over_time(frames):
    total = 0
    for step in frames:
        total = total + step.sin()
    return total
"""
FILE = "/home/user/app/left_model.py"
X = torch.ones(3)


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return written(TEXT, monkeypatch)


def written(text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module that a text is, as if it stood in the file."""
    monkeypatch.setitem(linecache.cache, FILE, (len(text), None, text.splitlines(keepends=True), FILE))
    module = ModuleType("left_model")
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def recorded(function: Callable[..., object], inputs: Sequence[object] = (X,)) -> Recording:
    """Record a function, compiled and called with each of some inputs."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager")
    with Lens(strict=True) as lens:
        for one in inputs:
            compiled(one)
    return lens.recording


def seen(function: Callable[..., object], inputs: Sequence[object] = (X,)) -> Observed:
    return replace(observed(recorded(function, inputs), Ownership()), calls=1)


def said(fix: Fix) -> str:
    """The end of what is shown, on one line."""
    return " ".join(fix_report(fix, width=100).split())


def test_a_line_that_is_left_says_why_and_what_to_do(user: ModuleType) -> None:
    first = seen(user.timed)
    text = said(Fix(first, not_tried=first.not_tried))
    assert "To mend by hand (fix has no edit for it): left_model.py:7 began = time.time() The clock must" in text
    assert "Take the time outside of the compiled function" in text


@pytest.mark.parametrize(
    ("name", "words", "change"),
    [
        (
            "perplexity",
            "It comes from line 35: `total = x.sum().item()` and line 36: `count = (x > 0).sum().item()`.",
            "Compute with the tensor, before `.item()`",
        ),
        ("chosen", "It comes from line 41: `total = x.sum().item()`.", "Compute with the tensor itself"),
    ],
)
def test_a_number_that_torch_does_not_know_has_the_line_that_took_it(
    user: ModuleType, name: str, words: str, change: str
) -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        first = seen(getattr(user, name))
    (one,) = what_is_left(Fix(first, not_tried=first.not_tried))
    assert words in cause(one)
    assert change in to_do(one)
    assert "Could not guard" not in said(Fix(first, not_tried=first.not_tried))


def test_a_check_for_nan_is_said_to_belong_outside(user: ModuleType) -> None:
    first = seen(user.checked)
    text = said(Fix(first, not_tried=first.not_tried))
    assert "if torch.isnan(loss): The branch asks whether a value is nan or infinite" in text
    assert "Such a check belongs outside: return the value, and ask where the compiled function is called." in text
    assert "torch._assert_async" in text
    assert "torch.where" not in text


def test_a_branch_that_counts_and_returns_is_no_choice_of_two_tensors(user: ModuleType) -> None:
    first = seen(user.stopped)
    text = said(Fix(first, not_tried=first.not_tried))
    assert "and computes nothing that `torch.where` could choose." in text
    assert "Return what the test asks for (`kl`) with the result, and test, count, print and stop in the caller" in text
    assert "Compute both sides" not in text


def test_that_fix_has_no_edit_is_said_once(user: ModuleType) -> None:
    first = seen(user.halved)
    assert [one.reason for one in first.not_tried] == [NotTriedBecause.NO_EDIT] * 2
    text = said(Fix(first, not_tried=first.not_tried))
    assert text.count("fix has no edit") == text.count("To mend by hand (fix has no edit for it):") == 1
    (other, *_) = seen(user.timed).not_tried
    mixed = (*first.not_tried, replace(other, reason=NotTriedBecause.LIMIT))
    text = said(Fix(first, not_tried=mixed))
    assert text.count("fix has no edit") == text.count("(where nothing else is said, fix has no edit for it):") == 1
    assert "Not tried: enough was." in text


def test_a_line_at_which_several_things_are_left_stands_once(user: ModuleType) -> None:
    """Each of them is told below it; what the same words tell, once, with all that was tried."""
    first = seen(user.drawn)
    (offer,) = (one for one in first.offers if isinstance(one.edit, Lines))
    (one, *_) = seen(user.timed).not_tried
    assert one.target.at is not None
    others = [replace(one, target=replace(one.target, kind=kind)) for kind in ("odd", "Odd", "strange")]
    here = replace(offer, target=others[1].target)
    tried = replace(first, targets=(here.target,), results=Results.DIFFER, difference=Difference("result", 0, 0))
    trial = Trial((here,), {}, first.figures, tried, helps=False)
    bare = replace(first, findings=(), targets=tuple(other.target for other in others), eager=())
    text = said(Fix(bare, (trial,), not_tried=tuple(others)))
    assert text.count(f"left_model.py:{one.target.at.line} {one.target.at.code}") == 1
    assert (text.count(" Odd."), text.count(" Strange.")) == (1, 1)
    assert "Odd. Tried: change 1 gives other results." in text


def test_what_recompiles_is_left_with_the_values_that_changed(user: ModuleType) -> None:
    first = seen(user.Counted().whole, [X] * 3)
    (one,) = what_is_left(Fix(first, not_tried=first.not_tried))
    assert one.cause is not None
    text = said(Fix(first, not_tried=first.not_tried))
    assert "Compiled again twice: `len(self.seen)` changed (length of a list): 0 → 1 → 2." in text
    assert one.cause.fix.change in text


@pytest.mark.parametrize(
    ("came", "words", "changed"),
    [
        (Came.RAISES, "raises", {"error": "RuntimeError: no", "figures": None, "targets": ()}),
        (Came.DIFFERS, "gives other results", {"results": Results.DIFFER, "difference": Difference("result", 0, 0)}),
        (Came.STAYS, "does not end it", {}),
        (Came.NO_GAIN, "makes nothing more compile", {"targets": ()}),
    ],
)
def test_what_came_of_an_offer_stands_with_the_line_that_it_was_for(
    user: ModuleType, came: Came, words: str, changed: dict[str, object]
) -> None:
    first = seen(user.drawn)
    (offer,) = (one for one in first.offers if isinstance(one.edit, Lines))
    trial = Trial((offer,), {}, first.figures, replace(replace(first, results=Results.EQUAL), **changed), helps=False)
    fix = Fix(first, (trial,))
    (one,) = what_is_left(fix)
    assert [(made.offer, made.came) for made in one.offers] == [(offer, came)]
    assert f"Tried: change 1 {words}." in said(fix)
    written = json.loads(document_json("fix", data(fix)))["left"][0]
    assert (written["place"]["line"], written["offers"][0]["came"]) == (11, came.value)
    assert written["why"].startswith("Python's random numbers")


@pytest.mark.parametrize(
    ("code", "results", "is_told"),
    [
        ("x = torch.where(x.sum() > i, x + i, x)", Results.DIFFER, False),
        ("x = torch.where(x.sum() > i, x + i, x)", Results.EQUAL, True),
        ("x = x + i * (x.sum() > i)", Results.DIFFER, True),
    ],
)
def test_nobody_is_told_to_do_what_a_trial_has_just_refused(
    user: ModuleType, code: str, results: Results, is_told: bool
) -> None:
    first = seen(user.looped)
    (target,) = first.targets
    assert target.at is not None
    offer = Offer(target, Lines(target.at.file, target.at.line, ("if x.sum() > i:", "    x = x + i"), (code,)))
    fix = Fix(first, (Trial((offer,), {}, first.figures, replace(first, results=results), helps=False),))
    (one,) = what_is_left(fix)
    assert ("`torch.where`" in to_do(one)) is is_told
    assert (to_do(replace(one, offers=())) in said(fix).replace("\n      ", " ")) is is_told


def test_a_change_of_the_best_that_does_not_end_its_break_says_so(user: ModuleType) -> None:
    """The target is still there, by the line of the user's file and not of the copy."""
    first = seen(user.drawn)
    (offer,) = (one for one in first.offers if isinstance(one.edit, Lines))
    (target,) = first.targets
    assert target.at is not None
    file = target.at.file
    moved = replace(first, results=Results.EQUAL, targets=(replace(target, at=replace(target.at, line=14)),))
    best = Trial((offer,), {file: f"\n\n\n{TEXT}"}, first.figures, moved, helps=True)
    (one,) = what_is_left(Fix(first, (best,), best, texts={file: TEXT}))
    assert one.target == target
    assert [(made.offer, made.came) for made in one.offers] == [(offer, Came.STAYS)]


def test_lines_that_are_left_are_those_of_the_file_as_it_is(user: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a change added lines above: the place of the line, and the line that its value comes from."""
    after = f"# added\n# by the change\n{TEXT}"
    copy = written(after, monkeypatch)
    first = seen(user.mild)
    with_it = replace(seen(copy.averaged), results=Results.EQUAL)
    other = Offer(Target(None, "something else"), Setting("x = 1"))
    best = Trial((other,), {FILE: after}, first.figures, with_it, helps=True)
    fix = Fix(first, (best,), best, texts={FILE: TEXT})
    number = TEXT.split("\n").index("    loss = torch.nn.functional.mse_loss(x, torch.zeros(width))") + 1
    text = said(fix)
    assert f"left_model.py:{number + 1} if torch.isnan(loss):" in text
    assert (f"It comes from line {number}: `loss = torch" in text) == (torch.__version__ > "2.12")


@pytest.mark.parametrize(
    ("made", "calls", "words"),
    [
        (lambda user: user.Counted().whole, 12, "`Counted.whole`: it hit the recompile limit at [0/8]"),
        (lambda user: user.Counted().after, 12, "`Counted.after`: it hit the recompile limit at [1/8]"),
        (lambda user: user.looped, 1, "`looped`: nothing of it is compiled, for the graph break at left_model.py:15"),
        (
            lambda user: user.halved, 1,
            "`halved`: what comes after the graph break at left_model.py:23, `torch._dynamo.graph_break()`",
        ),
    ],
)  # fmt: skip
def test_why_a_function_still_runs_eagerly_is_said_by_its_name(
    user: ModuleType, made: Callable[[ModuleType], Callable[..., object]], calls: int, words: str
) -> None:
    first = seen(made(user), [X] * calls)
    assert first.figures is not None
    assert first.figures.eager_functions == len(first.eager) == 1
    other = Offer(Target(None, "something else"), Setting("x = 1"))
    best = Trial((other,), {}, first.figures, replace(first, results=Results.EQUAL), helps=True)
    text = said(Fix(first, (best,), best))
    assert f"1 function still runs eagerly: {words}" in text
    assert ("Recompiled 8 times: `len(self.seen)` changed" in text) is (calls > 1)


def test_a_function_that_hit_the_limit_after_a_break_says_so_before_the_break_there(user: ModuleType) -> None:
    first = seen(user.Counted().stopped, [torch.full((3,), value) for value in (0.0, 0.5, 2.0, *[0.0] * 9)])
    text = said(Fix(first))
    assert "`Counted.stopped`: it hit the recompile limit at [1/8]" in text
    assert "What comes after the graph break at left_model.py:" in text
    assert "is not compiled, either." in text


def test_at_the_limit_all_that_differs_in_each_compilation_is_named(user: ModuleType) -> None:
    """torch gives the first guard that fails, of a step; the length of the list is in a later one."""
    first = seen(user.Net(), [X] * 12)
    number = TEXT.split("\n").index("        self.history.append(1)") + 1
    (one,) = what_is_left(Fix(first, not_tried=first.not_tried))
    named = f"`len(self.history)` at line {number} was another value in each compilation, too"
    assert "`self.step` changed" in cause(one)
    assert named in cause(one)
    assert said(Fix(first)).count(named) >= 1
    assert "len(self.history)" not in said(Fix(seen(user.Counted().whole, [X] * 12)))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a list comprehension has no frame of its own there")
def test_a_comprehension_that_torch_tries_by_itself_is_no_cause_of_its_own(user: ModuleType) -> None:
    first = seen(user.picked, [torch.arange(3.0)])
    (one,) = what_is_left(Fix(first, not_tried=first.not_tried))
    text = said(Fix(first, not_tried=first.not_tried))
    assert one.target.kind.startswith("Unsupported Tensor.item()")
    assert "This iterator was made outside" not in text
    assert "1 function runs eagerly" in text
    assert "`picked`: nothing of it is compiled" in text
    assert "<listcomp>" not in text


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 says nothing of generators")
def test_a_generator_expression_is_a_part_of_its_function(user: ModuleType) -> None:
    first = seen(user.counted)
    text = said(Fix(first, not_tried=first.not_tried))
    assert "<genexpr>" not in text
    assert "error was suppressed" not in text
    assert not [one for one in first.findings if isinstance(one.evidence, Function)]


def test_breaks_that_the_change_itself_makes_are_counted(user: ModuleType) -> None:
    first, with_it = seen(user.drawn), replace(seen(user.calls_kept), results=Results.EQUAL)
    other = Offer(Target(None, "something else"), Setting("x = 1"))
    best = Trial((other,), {}, first.figures, with_it, helps=True)
    named = "1 of these graph breaks is at calls of kept, which the change keeps in Python."
    assert named in said(Fix(first, (best,), best))
    assert "which the change keeps" not in said(Fix(with_it, (best,), best))


def test_recompiles_that_are_as_expected_are_told_of(user: ModuleType) -> None:
    """The table counts them, and nothing else stands for them below it."""
    with_it = replace(seen(user.mild, [torch.ones(3), torch.ones(4), torch.ones(5)]), results=Results.EQUAL)
    best = Trial((Offer(Target(None, "else"), Setting("x = 1")),), {}, FIRST.figures, with_it, helps=True)
    text = said(Fix(FIRST, (best,), best))
    assert "recompiles 22 → 1" in text
    assert "1 recompile is as expected: x.shape[0] changed (size): 3 → 4." in text
    assert "as expected: x.shape[0]" in said(Fix(with_it, (replace(best, helps=False),)))
    others = replace(with_it, figures=Figures(0, 4, 0))
    assert "1 of the 4 recompiles is as expected" in said(Fix(FIRST, (best,), replace(best, observed=others)))
    others = replace(with_it, figures=Figures(0, 4, 1), eager=FIRST.eager[:1])
    text = said(Fix(FIRST, (best,), replace(best, observed=others)))
    name = FIRST.eager[0].function.name
    assert text.index(f"1 function still runs eagerly: `{name}`: ") < text.index("is as expected")


def test_recompiles_as_expected_are_told_of_also_beside_others_of_their_function(user: ModuleType) -> None:
    first = seen(user.Counted().whole, [torch.ones(3), torch.ones(4), torch.ones(4)])
    (report,) = (one.evidence for one in first.findings if isinstance(one.evidence, RecompileReport))
    assert {cause.benign for cause in report.causes} == {True, False}
    with_it = replace(first, results=Results.EQUAL)
    best = Trial((Offer(Target(None, "else"), Setting("x = 1")),), {}, FIRST.figures, with_it, helps=True)
    text = said(Fix(FIRST, (best,), best))
    assert "1 of the 2 recompiles is as expected: x.shape[0] changed (size): 3 → 4." in text


def test_functions_that_are_divided_share_what_that_costs() -> None:
    names = ("Net.forward", "Net.loss", "pick")
    prices = (
        "is Python from now on: its parts are compiled",
        "is Python from now on: its parts are compiled",
        "is odd",
    )
    offers = [
        Offer(Target(None, name), Apart("net.py", name, ("x.item()",)), f"`{name}` {price}", keeps_computed=True)
        for name, price in zip(names, prices, strict=True)
    ]
    best = Trial(tuple(offers), {}, FIRST.figures, replace(FIRST, results=Results.EQUAL), helps=True)
    text = said(Fix(FIRST, (best,), best))
    assert "- `Net.forward` and `Net.loss` are Python from now on: its parts are compiled." in text
    assert "- `pick` is odd." in text
    assert text.count("from now on: its parts") == 1


def test_a_function_whose_compilation_fails_says_with_what() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def backend(graph: torch.fx.GraphModule, inputs: object) -> None:
        raise NotImplementedError("no such device")

    torch._dynamo.reset()
    with Lens(strict=True) as lens, pytest.raises(Exception, match="no such device"):
        torch.compile(program, backend=backend)(X)
    first = replace(observed(lens.recording, Ownership()), calls=1)
    assert "compiling it failed: " in said(Fix(first))
    assert "no such device" in said(Fix(first)).partition("compiling it failed: ")[2]


def test_nothing_is_left_where_nothing_breaks(user: ModuleType) -> None:
    first = seen(torch.sin)
    assert what_is_left(Fix(first)) == ()
    assert "To mend" not in said(Fix(first))


def test_each_reason_for_not_trying_has_its_words(user: ModuleType) -> None:
    first = seen(user.timed)
    texts = {said(Fix(first, not_tried=(replace(first.not_tried[0], reason=one),))) for one in NotTriedBecause}
    assert len(texts) == len(NotTriedBecause)


def test_an_offer_that_helps_by_itself_and_is_not_in_the_best_says_so(user: ModuleType) -> None:
    first = seen(user.drawn)
    (offer,) = (one for one in first.offers if isinstance(one.edit, Lines))
    gone = replace(seen(user.mild), results=Results.EQUAL)
    alone = Trial((offer,), {}, first.figures, gone, helps=True)
    other = Offer(offer.target, replace(offer.edit, after=("return x",)))
    best = Trial((other,), {}, first.figures, replace(first, results=Results.EQUAL), helps=True)
    (one,) = what_is_left(Fix(first, (alone, best), best))
    assert [(made.offer, made.came) for made in one.offers] == [(offer, Came.IS_LEFT_OUT), (other, Came.STAYS)]


def test_an_offer_that_compiles_no_more_than_the_program_as_it_is_does_not_help_by_itself(user: ModuleType) -> None:
    """What it is for is gone, and something else stands in its place."""
    first = seen(user.drawn)
    (offer,) = (one for one in first.offers if isinstance(one.edit, Lines))
    gone = replace(first, results=Results.EQUAL, targets=())
    alone = Trial((offer,), {}, first.figures, gone, helps=True)
    other = Offer(offer.target, replace(offer.edit, after=("return x",)))
    best = Trial((other,), {}, first.figures, replace(first, results=Results.EQUAL), helps=True)
    (one,) = what_is_left(Fix(first, (alone, best), best))
    assert (one.offers[0].offer, one.offers[0].came) == (offer, Came.NO_GAIN)
    assert "change 1 makes nothing more compile; " in said(Fix(first, (alone, best), best))


OFFER = Offer(Target(None, "break"), Setting("x = 1"))
MARK = Offer(Target(None, "break"), Setting("x = 2"), is_last_resort=True, keeps_computed=True, is_final=True)
UNKNOWN = Offer(Target(None, "break"), Setting("torch._dynamo.config.capture_scalar_outputs = True"))
LIMITED = EagerPart(None, Reason.LIMIT, Extent.UNFIT, "", None)


def counted(  # noqa: PLR0913 -- what a run showed
    eager: int,
    breaks: int,
    recompiles: int,
    *named: str,
    expected: int = 0,
    difference: Difference | None = None,
    computed: frozenset[tuple[str, str]] = frozenset(),
    targets: tuple[Target, ...] = (),
) -> Observed:
    results = Results.DIFFER if difference else Results.EQUAL
    counts = Counts(1, breaks, eager, 1, recompiles, 0.0, benign_recompiles=expected)
    functions = tuple(
        StillEager(FunctionName(name, "model.py", n + breaks), "", (LIMITED,)) for n, name in enumerate(named)
    )
    return Observed(
        Figures(breaks, recompiles, eager), counts, (), (), targets, results, difference, calls=2, eager=functions,
        computed=computed,
    )  # fmt: skip


FIRST = counted(1, 15, 22, "Net.forward", targets=(OFFER.target,), computed=frozenset({("model.py", "x + 1")}))
KEPT = counted(1, 6, 10, "Net.forward", computed=FIRST.computed)


def trial(*offers: Offer, seen: Observed, helps: bool = False, new: int = 1) -> Trial:
    return Trial(offers, {}, FIRST.figures, seen, helps, new)


def tried_for(*trials: Trial, best: Trial | None = None) -> dict[Offer, Came]:
    """What is said to have come of each offer for what is left, which is what all of them are for."""
    left_with = best and replace(best, observed=replace(best.observed, targets=(OFFER.target,)))
    (one,) = what_is_left(Fix(FIRST, trials, left_with))
    return {made.offer: made.came for made in one.offers}


@pytest.mark.parametrize(
    ("offer", "with_it", "came", "words"),
    [
        (
            OFFER, counted(2, 7, 15, "Net.forward", "Block.forward"), Came.MORE_OF_ELSE,
            "but 1 more function runs eagerly: Block.forward, which hits the recompile limit",
        ),
        (OFFER, counted(1, 16, 5), Came.MORE_OF_ELSE, "fewer recompiles (22 → 5), but more graph breaks (15 → 16)"),
        (MARK, counted(1, 2, 3), Came.TAKES_TOO_MUCH, "but it takes more out of graphs than the function that"),
        (
            replace(MARK, edit=EndApart("net.py", "Net.forward", "x")), replace(KEPT, figures=Figures(14, 22, 1), operators=5),
            Came.ENDS_TOO_LITTLE,
            "but it leaves more than half of what hurts: too much for Net.forward to stay Python for good.",
        ),
        (
            replace(MARK, edit=Lines("net.py", 3, ("def loss(y):",), ("@torch.compiler.disable", "def loss(y):"))),
            counted(1, 2, 3), Came.TAKES_TOO_MUCH, "but it takes more out of graphs than loss.",
        ),
        (MARK, replace(KEPT, figures=Figures(4, 9, 2), counts=Counts(1, 4, 2, 1, 9, 0.0)), Came.MORE_OF_ELSE, "1 more"),
    ],
)  # fmt: skip
def test_what_has_better_figures_and_is_not_built_upon_says_why(
    offer: Offer, with_it: Observed, came: Came, words: str
) -> None:
    """Not that nothing helps, below a table in which it does."""
    refused = trial(offer, seen=with_it)
    assert tried_for(refused) == {offer: came}
    text = said(Fix(FIRST, (refused,)))
    assert (
        "There is no patch. What was tried and ends graph breaks or recompiles is not built upon: - change 1: fewer"
        in text
    )
    assert words in text
    assert "helps without a change" not in text
    assert "makes nothing more compile" not in text


@pytest.mark.parametrize(("breaks", "eager", "is_said"), [(6, 1, True), (2, 1, False), (6, 0, False)])
def test_a_row_with_fewer_graph_breaks_than_the_best_says_why_it_is_not(
    breaks: int, eager: int, *, is_said: bool
) -> None:
    second = replace(OFFER, edit=Setting("x = 3"))
    best = trial(second, seen=counted(eager, breaks, 10), helps=True)
    text = said(Fix(FIRST, (trial(MARK, seen=counted(1, 2, 3)), best), best))
    why = f"Not change 1, with fewer graph breaks ({breaks} → 2): it takes more out of graphs than the function that"
    assert (why in text) is is_said


def test_what_has_another_function_hit_the_recompile_limit_does_not_stand() -> None:
    """All that it calls runs eagerly since, though there are fewer graph breaks and recompiles."""
    helps = trial(OFFER, seen=counted(1, 1, 8, "step"), helps=True)
    assert tried_for(helps) == {OFFER: Came.HITS_LIMIT}
    text = said(Fix(FIRST, (helps,)))
    assert (
        "- change 1: fewer graph breaks (15 → 1) and recompiles (22 → 8), but it has step hit the recompile limit"
        in text
    )
    as_before = trial(OFFER, seen=counted(1, 1, 8, "Net.forward"), helps=True)
    assert tried_for(as_before) == {OFFER: Came.IS_LEFT_OUT}


def test_of_what_does_no_better_with_more_only_the_least_is_named() -> None:
    second = replace(OFFER, edit=Setting("x = 3"))
    better = counted(2, 7, 15, "Net.forward", "Block.forward")
    every = trial(OFFER, second, seen=better, new=2)
    text = said(Fix(FIRST, (trial(OFFER, seen=better), trial(second, seen=counted(2, 9, 16)), every)))
    assert "- change 1: fewer graph breaks (15 → 7)" in text
    assert "- change 2: fewer graph breaks (15 → 9)" in text
    assert "- changes 1 + 2" not in text


def test_of_what_gives_other_results_or_has_no_better_figures_nothing_more_is_said() -> None:
    other = trial(OFFER, seen=counted(2, 7, 15, difference=Difference("result", 0, 0)))
    same = trial(MARK, seen=FIRST)
    assert "Nothing that was tried helps without a change of the results." in said(Fix(FIRST, (other, same)))


def test_what_ends_only_expected_recompiles_says_so() -> None:
    first = counted(1, 15, 22, expected=10, targets=(OFFER.target,))
    fewer = Trial((OFFER,), {}, first.figures, counted(1, 15, 14, expected=2), helps=False)
    (one,) = what_is_left(Fix(first, (fewer,)))
    assert [made.came for made in one.offers] == [Came.ENDS_EXPECTED]


@pytest.mark.parametrize(
    ("difference", "came", "words"),
    [
        (
            Difference("error", 0, 0, in_backend="LoweringException: no: such"), Came.RAISES_IN_BACKEND,
            "raises LoweringException past Dynamo, in what compiles its graphs",
        ),
        (Difference("error", 0, 0, without="TypeError: no"), Came.RAISES_WITHOUT, "raises TypeError without torch.comp"),
        (Difference("result", 0, 0, without=""), Came.DIFFERS, "gives other results"),
    ],
)  # fmt: skip
def test_what_raises_elsewhere_says_that_it_raises_and_where(difference: Difference, came: Came, words: str) -> None:
    refused = trial(OFFER, seen=counted(0, 0, 0, difference=difference))
    assert tried_for(refused) == {OFFER: came}
    assert f"Tried: change 1 {words}" in said(Fix(FIRST, (refused,)))


@pytest.mark.parametrize(
    ("changed", "came"),
    [
        ({"printed": OtherWords("a", "b")}, Came.PRINTS_OTHERS),
        ({"unseen": (Setting("x = 1"),)}, Came.ONE_SIDED),
        ({"refuted_by": OtherCall(0, Inputs.ZEROS, Gave.ERROR, error="ValueError: no")}, Came.RAISES_WITH_OTHERS),
        ({"refuted_by": OtherCall(0, Inputs.ZEROS, Gave.OTHER, "result")}, Came.DIFFERS),
    ],
)
def test_what_is_refused_says_what_the_table_says(changed: dict[str, object], came: Came) -> None:
    seen = replace(counted(0, 0, 0), results=Results.DIFFER, **changed)
    assert tried_for(trial(OFFER, seen=seen)) == {OFFER: came}


def test_where_the_backend_refuses_unknown_numbers_it_does_so_in_all_trials() -> None:
    other = replace(OFFER, edit=Setting("x = 3"))
    alone = trial(UNKNOWN, seen=counted(1, 8, 10))
    refused = trial(
        UNKNOWN, other, seen=counted(0, 0, 2, difference=Difference("error", 0, 0, in_backend="NoError: no"))
    )
    best = trial(other, seen=counted(0, 2, 3), helps=True)
    fix = Fix(FIRST, (alone, refused, best), replace(best, observed=replace(best.observed, targets=(UNKNOWN.target,))))
    (one,) = what_is_left(fix)
    assert (one.offers[0].came, one.offers[0].error) == (Came.RAISES_IN_BACKEND, "NoError: no")


def test_only_what_was_run_by_itself_is_said_to_help_by_itself() -> None:
    second = replace(OFFER, edit=Setting("x = 3"), target=Target(None, "other"))
    every = trial(OFFER, second, seen=counted(0, 4, 8), helps=True, new=2)
    best = trial(second, seen=counted(0, 4, 8), helps=True)
    assert tried_for(every, best, best=best) == {OFFER: Came.IS_NEEDLESS}
    worse = trial(second, seen=counted(0, 5, 8), helps=True)
    assert tried_for(every, worse, best=worse) == {OFFER: Came.HELPS_BESIDE}
    alone = trial(OFFER, seen=counted(0, 6, 8), helps=True)
    assert tried_for(every, alone, worse, best=worse) == {OFFER: Came.IS_LEFT_OUT}


def test_a_row_of_the_table_names_a_mark_and_its_function() -> None:
    """Two marks for one line begin alike."""
    at = SourceLine("model.py", 3, "f", "y = x.item()")
    mark = '@torch.compiler.disable(reason="it breaks")'
    offers = [
        Offer(Target(at, "break"), Lines("model.py", n, (definition,), (mark, definition)), keeps_computed=True)
        for n, definition in ((1, "def inner(x):"), (7, "def outer(x, y):"))
    ]
    fix = Fix(FIRST, tuple(trial(one, seen=FIRST) for one in offers))
    text = " ".join(fix_report(fix, width=200).split())
    assert f"1 model.py:1 {mark} def inner" in text
    assert f"2 model.py:7 {mark} def outer" in text
    assert [one.edit.title for one in offers] == [f"{mark} def inner", f"{mark} def outer"]


def test_nobody_is_told_to_compile_for_all_sizes_after_that_was_tried(user: ModuleType) -> None:
    first = seen(user.mild, (X, X.double()))
    found = next(one for one in what_is_left(Fix(first)) if one.cause)
    assert found.cause is not None
    change = "Compile with `torch.compile(…, dynamic=True)`, or pad the last batch."
    one = replace(found, cause=replace(found.cause, fix=replace(found.cause.fix, change=change)))
    assert to_do(one) == change
    offer = Offer(one.target, Lines("left_model.py", 7, ("torch.compile(f)",), ("torch.compile(f, dynamic=True)",)))
    trial = Trial((offer,), {}, first.figures, first, helps=False)
    assert to_do(replace(one, offers=(TriedFor(offer, Came.STAYS, trial, first),))) == ""


def test_nobody_is_told_to_mend_a_line_that_a_change_has_written(user: ModuleType) -> None:
    first = seen(user.Counted().whole, [X] * 3)
    (target,) = first.targets
    assert target.at is not None
    offer = Offer(target, Lines(target.at.file, target.at.line, ("seen()",), (target.at.code,)))
    text = TEXT.replace(target.at.code.strip(), "seen()")
    trial = Trial((offer,), {target.at.file: TEXT}, first.figures, first, helps=True)
    shown = said(Fix(first, (trial,), trial, texts={target.at.file: text}))
    told = f"A line that the changes write, {target.at.code.strip()}: Compiled again twice: len(self.seen) changed"
    assert told in shown
    assert "To mend by hand" not in shown
    assert "Still to mend" not in shown


def test_a_loop_that_is_a_large_graph_for_each_length_is_told(user: ModuleType) -> None:
    several = [torch.ones(length, 3) for length in (4, 5, 6)]
    with_it = replace(seen(user.over_time, several), results=Results.EQUAL, operators=900, launches=3)
    best = Trial((Offer(Target(None, "else"), Setting("x = 1")),), {}, FIRST.figures, with_it, helps=True)
    told = "for step in frames: is unrolled: each frames.shape[0] is a graph of its own, of some 300 operators"
    assert told in said(Fix(FIRST, (best,), best))
    small = replace(best, observed=replace(with_it, operators=90))
    assert "is unrolled" not in said(Fix(FIRST, (small,), small))


def test_recompiles_by_the_programs_own_backend_are_told_where_they_are_more(user: ModuleType) -> None:
    several = [torch.ones(1, 2, 4), torch.ones(1, 2, 5), torch.ones(1, 2, 6)]
    with_it = replace(seen(user.convolved, several), results=Results.EQUAL)
    best = Trial((Offer(Target(None, "else"), Setting("x = 1")),), {}, FIRST.figures, with_it, helps=True)
    unknown = Fix(FIRST, (best,), best)
    assert "Inductor may compile a convolution for each size by itself" in said(unknown)
    more = said(replace(unknown, own_backend=OwnBackend(("inductor",), recompiles=9)))
    assert "With its own backend it is 9 recompiles, not 1: Inductor compiles some convolutions" in more
    assert "may compile a convolution" not in more
    same = said(replace(unknown, own_backend=OwnBackend(("inductor",), recompiles=1)))
    assert "convolution" not in same
    assert "own backend" not in same
    plain = replace(seen(user.mild, several), results=Results.EQUAL)
    assert "convolution" not in said(Fix(FIRST, (best,), replace(best, observed=plain)))
