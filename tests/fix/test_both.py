"""Both sides of a branch, computed at each call, and a choice; a branch that guards nothing is left out."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.facts.breaks.rewrites import rewrite
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources
from tests.alike import applied
from tests.fix.rewritten import FILE, JUMP, assert_alike, others, ran

HEAD = "import torch\n\n\n"


def function(*lines: str) -> str:
    return HEAD + "def f(x, y):\n" + "".join(f"    {line}\n" for line in lines)


def rewritten(text: str) -> str:
    """The text with both sides, or without the branch."""
    found = others(text, JUMP, "    if ")
    assert found
    assert "    if " not in found[-1]
    return found[-1]


def given(is_positive: bool) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor([0.5, 2.0, 1.5]) * (1 if is_positive else -1)
    return x.requires_grad_(), torch.tensor([1.0, -2.0, 3.0], requires_grad=True)


CHOICES = [
    ("if x.sum() > 0:", "    z = torch.linalg.norm(x)", "else:", "    z = torch.linalg.norm(y) * 2", "return z"),
    ("z = y", "if x.sum() > 0:", "    z = torch.linalg.norm(x) * z", "return z"),
    ("z = y * 1", "if x.sum() > 0:", "    z += torch.linalg.norm(x)", "return z"),
    ("if x.sum() > 0:", "    a, b = x.sort()", "else:", "    a, b = y.sort()", "return a * b"),
    (
        "if x.sum() > 0:", "    a, b = torch.linalg.norm(x), y", "else:", "    a, b = torch.linalg.norm(y), x",
        "return a * b",
    ),
    (
        "z = y", "if x.sum() > 0:", "    z = torch.linalg.norm(x)", "    z = z * 2", "    w = z + 1", "    z = w * y",
        "return z",
    ),
    (
        "if x.sum() > 0:", "    k = 2.0", "    z = torch.linalg.norm(x)", "else:", "    k = 1.0", "    z = x.sum()",
        "return z * k",
    ),
    ("loss = [y, y]", "if x.sum() > 0:", "    loss[0] = torch.linalg.norm(x) * y", "return loss"),
    (
        "loss = {'a': y}", "if x.sum() > 0:", "    loss['a'] = torch.linalg.norm(x) * y", "else:",
        "    loss['a'] = torch.linalg.norm(y) * y", "return loss",
    ),
    ("z = y.clone()", "if x.sum() > 0:", "    z[0] = torch.linalg.norm(x)", "return z"),
]  # fmt: skip


@pytest.mark.parametrize("lines", CHOICES, ids=" ".join)
def test_what_the_test_says_is_chosen_of_both_sides(lines: tuple[str, ...]) -> None:
    text = function(*lines)
    better = rewritten(text)
    assert "_if = " in better or "_if, " in better
    for is_positive in (True, False):
        assert_alike(text, better, *given(is_positive))


@pytest.mark.parametrize(
    "change",
    [
        "y.copy_(torch.linalg.norm(x) + y)", "y.add_(torch.linalg.norm(x), alpha=2)", "y.add_(1)", "y.zero_()",
        "y.fill_(3.0)", "y.sub_(torch.linalg.norm(x))", "y.mul_(-1)", "y.clamp_(min=1)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("other", ["", "y.sub_(torch.linalg.norm(x))", "y.zero_()"])
def test_what_is_written_in_place_stays_the_same_tensor(change: str, other: str) -> None:
    last = ("else:", f"    {other}") if other else ()
    text = function("kept = y", "if x.sum() > 0:", f"    {change}", *last, "return kept")
    better = rewritten(text)
    assert "y.copy_(torch.where(" in better
    for is_positive in (True, False):
        x, y = given(is_positive)
        assert_alike(text, better, x, y.detach())


CLIPPED = function(
    "norm = torch.linalg.norm(x)",
    "if norm > 2.0:",
    "    scale = 2.0 / norm",
    "    for p in y:",
    "        p.mul_(scale.to(p.dtype))",
    "return y",
)


@pytest.mark.parametrize("scaled", ["p.mul_(scale)", "p.mul_(scale.to(p.dtype))", "p *= scale"])
@pytest.mark.parametrize("large", [True, False])
def test_what_is_not_to_be_scaled_is_multiplied_by_one(scaled: str, large: bool) -> None:
    text = CLIPPED.replace("p.mul_(scale.to(p.dtype))", scaled)
    better = rewritten(text)
    assert "torch.where(norm > 2.0, 2.0 / norm, 1.0)" in better
    assert_alike(text, better, torch.ones(3) * (9 if large else 0.1), [torch.ones(2), torch.arange(3.0)])


def test_gradients_of_parameters_are_clipped() -> None:
    text = CLIPPED.replace("p.mul_(", "p.grad.mul_(").replace("return y", "return [p.grad for p in y]")
    better = rewritten(text)
    for size in (9.0, 0.1):
        parts = [torch.ones(2), torch.arange(3.0)]
        for one in parts:
            one.grad = torch.full_like(one, size)
        assert_alike(text, better, torch.full((3,), size), parts)


@pytest.mark.parametrize("part", ["x[keep]", "x[keep] * 1", "x[x > 0]", "x[:2]", "x[1:]"])
def test_a_part_of_a_tensor_is_no_side_to_choose(part: str) -> None:
    """It has another size where something is left out: to choose would raise."""
    text = function("keep = x > 0", "if x.sum() > 0:", f"    x = {part}", "return x * 2")
    assert not any("torch.where(" in one for one in others(text, JUMP, "    if "))
    whole = text.replace(f"x = {part}", "x = x[:]")
    assert any("torch.where(" in one for one in others(whole, JUMP, "    if "))


SELECTED = function(
    "loss = (x - y) ** 2", "if loss.max() > 3:", "    loss = loss[loss > 0.5]", "else:", "    loss = loss[:2]",
    "return loss.mean()",
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("else:\n        loss = loss[:2]\n    ", ""),
        ("return loss.mean()", "loss = loss.mean()\n    return loss * 2"),
    ],
)
@pytest.mark.parametrize("bound", ["3", "100"])
def test_selections_of_other_sizes_are_both_reduced(old: str, new: str, bound: str) -> None:
    text = SELECTED.replace(old, new).replace("> 3", f"> {bound}")
    better = rewritten(text)
    assert "loss_else = " in better
    # A graph has no place for a size that values say: what is compared is what Python computes.
    assert_alike(text, better, *given(True), is_compiled=False)


NEEDLESS = function(
    "m = x > 1", "if m.any():", "    z = torch.linalg.norm(y)", "    y = torch.where(m, z, y)", "return y"
)


@pytest.mark.parametrize("test", ["m.any()", "torch.any(m)", "m.sum() > 0"])
@pytest.mark.parametrize("is_positive", [True, False])
def test_a_branch_that_asks_whether_anything_is_chosen_is_needless(test: str, is_positive: bool) -> None:
    text = NEEDLESS.replace("m.any()", test)
    better = rewritten(text)
    assert "_if" not in better
    assert_alike(text, better, *given(is_positive))


def test_a_value_that_is_kept_makes_it_a_choice_of_both_sides() -> None:
    text = NEEDLESS.replace("return y", "return y + z").replace("m = x > 1", "m = x > 1\n    z = y")
    better = rewritten(text)
    assert "z_if = " in better
    for is_positive in (True, False):
        assert_alike(text, better, *given(is_positive))


ONE = function("z = y", "if x.sum() > 0:", "    z = torch.linalg.norm(x) * z", "return z")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* z\n", "* z\n        print(z)\n"),
        ("* z\n", "* z\n        print('here')\n"),
        ("z = y\n", "kept = []\n    z = y\n"),
        ("z = torch.linalg.norm(x) * z", "z = torch.nn.init.normal_(z)"),
        ("z = torch.linalg.norm(x) * z", "z = torch.rand(3)"),
        ("z = torch.linalg.norm(x) * z", "assert (x > 1).all()"),
        ("z = torch.linalg.norm(x) * z", "for row in x:\n            z = torch.linalg.norm(row) * z"),
        ("return z", "else:\n        w = torch.linalg.norm(x)\n    return z, w"),  # each side another name
    ],
)
def test_a_branch_with_effects_or_names_of_one_side_stays(old: str, new: str) -> None:
    text = ONE.replace(old, new)
    if "kept" in new:
        text = text.replace("* z\n", "* z\n        kept.append(z)\n")
    assert text != ONE
    assert "z_if = " in rewritten(ONE)
    assert others(text, JUMP, "if ") == []


COUNTED = BreakCause("Data-dependent branching", context="attempted to jump with SymNodeVariable()")
GUARDED = BreakCause("UserError: Consider annotating your code using torch._check*(). Could not guard on data-"
                     "dependent expression u0 > 0 (unhinted: u0 > 0).", explanation="Could not guard on data-dependent expression u0 > 0")  # fmt: skip


@pytest.mark.parametrize("cause", [COUNTED, GUARDED], ids=["jump", "guard"])
@pytest.mark.parametrize("test", ["rows.numel() > 0", "rows.shape[0] != 0", "len(rows)", "n >= 1"])
def test_a_test_of_how_many_rows_there_are_is_asked_as_a_tensor(cause: BreakCause, test: str) -> None:
    lines = ["rows = x[x > 0]", "n = rows.shape[0]", f"if {test}:", "    z = rows.exp().mean()", "else:"]
    text = function(*lines, "    z = y.sum()", "return z")
    (new,) = (one for one in others(text, cause, "    if ") if "_if" in one)
    assert "torch.scalar_tensor(" in new
    for x in (given(True)[0], given(False)[0]):
        assert_alike(text, new, x, given(True)[1], is_compiled=False)
        torch._dynamo.reset()
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            assert_alike(text, new, x, given(True)[1])


EARLY = [
    ("if x.sum() > 0:", "    return torch.linalg.norm(x)", "z = torch.linalg.norm(y) * 2", "return z + 1"),
    ("if x.sum() > 0:", "    return x * 1", "w = y * 2", "w = torch.sort(w)[0]", "return w"),
]
STATE = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("is_begun", torch.tensor(False))
        self.register_buffer("table", torch.zeros(3))

    def begin(self, x):
        if self.is_begun:
            return
        first = x.detach().sort()[0]
        self.table.copy_(first)
        self.is_begun.fill_(True)

    def forward(self, x, y):
        self.begin(x)
        return x * self.table + y
"""


@pytest.mark.parametrize("lines", EARLY, ids=range(2))
@pytest.mark.parametrize("is_positive", [True, False])
def test_what_follows_an_early_return_is_computed_and_chosen(lines: tuple[str, ...], is_positive: bool) -> None:
    text = function(*lines)
    (new,) = (one for one in others(text, JUMP, "    if ") if "return torch.where(" in one)
    assert_alike(text, new, *given(is_positive))


@pytest.mark.parametrize("is_positive", [True, False])
def test_losses_of_other_sizes_are_chosen_from(is_positive: bool) -> None:
    text = function(
        "few = x[:2]",
        "if x.sum() > 0:",
        "    return torch.nn.functional.mse_loss(few, y[:2])",
        "both = torch.cat([few, y[1:]])",
        "return torch.nn.functional.mse_loss(both, both.exp())",
    )
    better = rewritten(text)
    assert "return torch.where(" in better
    assert_alike(text, better, *given(is_positive))
    of_each = text.replace("y[:2])", "y[:2], reduction='none')")
    assert not any("torch.where(" in one for one in others(of_each, JUMP, "    if "))


@pytest.mark.parametrize(
    ("old", "new"), [("w = y * 2", "w = y[x > 0]"), ("x * 1", "x[:1]"), ("return w", "return w.topk(2)[0]")]
)
def test_what_has_another_size_is_not_chosen_from(old: str, new: str) -> None:
    text = function(*EARLY[1]).replace(old, new)
    assert text != function(*EARLY[1])
    assert not any("torch.where(" in one for one in others(text, JUMP, "    if "))


@pytest.mark.parametrize("is_begun", [True, False])
def test_what_an_early_return_passes_over_is_written_where_it_is_to_be(is_begun: bool) -> None:
    text = STATE.replace("tensor(False)", f"tensor({is_begun})")
    (new,) = (one for one in others(text, JUMP, "if self.is_begun") if "self.is_begun.copy_(" in one)
    assert "return\n" not in new
    assert_alike(text, new, *given(True))


@pytest.mark.parametrize(
    "said",
    ['print("begun", len(first))', 'if not torch.compiler.is_compiling():\n            print("begun", len(first))'],
)
@pytest.mark.parametrize("is_begun", [True, False])
def test_a_message_after_an_early_return_is_said_where_it_was(
    is_begun: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = STATE.replace("tensor(False)", f"tensor({is_begun})")
    text = text.replace("self.is_begun.fill_(True)", f"self.is_begun.fill_(True)\n        {said}")
    (new,) = (one for one in others(text, JUMP, "if self.is_begun") if "self.is_begun.copy_(" in one)
    assert_alike(text, new, *given(True), is_compiled=False)
    assert capsys.readouterr().out == ("" if is_begun else "begun 3\n" * 2)
    assert_alike(text, new, *given(True))  # one graph, that says nothing
    assert capsys.readouterr().out == ("" if is_begun else "begun 3\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            return\n", "            return x\n"),
        ("        self.is_begun.fill_(True)", "        self.is_begun.fill_(True)\n        return x"),
        ("        self.is_begun.fill_(True)", "        print(first, file=self.log)"),
        ("        self.is_begun.fill_(True)", "        print(self.counts.pop())"),
        ("        self.is_begun.fill_(True)", "        self.counts.append(1)"),
        (
            "        if self.is_begun:\n            return",
            "        for _ in x:\n            if self.is_begun:\n                return",
        ),
    ],
)
def test_an_early_return_before_what_is_not_known_stays(old: str, new: str) -> None:
    text = STATE.replace(old, new)
    assert text != STATE
    compile(text, "both.py", "exec")
    assert not any(".copy_(torch.where(" in one for one in others(text, JUMP, "if self.is_begun"))


def test_a_name_that_may_have_no_value_stays() -> None:
    text = function("for _ in range(2):", "    if x.sum() > 0:", "        z = torch.linalg.norm(x)", "return z")
    assert "z_if = " in rewritten(text.replace("for _", "z = y\n    for _"))
    assert others(text, JUMP, "if ") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return y", "return y, scale"),
        ("        p.mul_(scale.to(p.dtype))", "        p.add_(scale)"),
        ("        p.mul_(scale.to(p.dtype))", "        p.mul_(scale * 2)"),
        ("for p in y:", "for p in [*y, scale]:"),
    ],
)
def test_what_does_more_than_to_scale_stays(old: str, new: str) -> None:
    text = CLIPPED.replace(old, new)
    assert text != CLIPPED
    assert others(CLIPPED, JUMP, "if ")
    assert others(text, JUMP, "if ") == []


@pytest.mark.parametrize("number", ['float("nan")', 'float("-inf")', "torch.inf", "math.nan", "-math.inf", "0.5"])
@pytest.mark.parametrize("is_positive", [True, False])
def test_a_number_is_chosen_however_it_is_written(number: str, is_positive: bool) -> None:
    """Nothing that a tensor has may be asked of it: `float("nan").clone()` would raise where the branch is taken."""
    text = "import math\n" + function("if x.sum() > 0:", f"    return {number}", "return x.sum() * y.sum()")
    line = text.split("\n").index("    if x.sum() > 0:") + 1
    found = rewrite(JUMP, Sources({FILE: text}), SourceLine(FILE, line, "f", "if x.sum() > 0:"))
    assert found is not None
    assert f"return torch.where(x.sum() > 0, {number}, x.sum() * y.sum())" in found.after
    wanted = ran(text, given(is_positive))["result"]
    new = ran(applied(text, found), given(is_positive))["result"]
    torch.testing.assert_close(new, torch.as_tensor(wanted), equal_nan=True)


ROUNDS = """\
import torch


def f(x, y):
    total, count = 0.0, 0
    for c in range(3):
        chosen = x[:, c] > 0
        if chosen.sum() == 0:
            continue
        part = (y[:, c] * chosen).sum()
        total = total + part / chosen.sum()
        count += 1
    return total / max(count, 1)
"""


@pytest.mark.parametrize("places", [(), (0,), (0, 2), (0, 1, 2)])
def test_what_follows_a_continue_is_computed_in_each_round_and_kept_where_it_is_to_be(places: tuple[int, ...]) -> None:
    (new,) = (one for one in others(ROUNDS, JUMP, "if chosen.sum()") if "total_else" in one)
    assert "continue" not in new
    x = torch.zeros(5, 3)
    x[1:3, places] = 1.0
    old, then = ran(ROUNDS, (x, torch.ones(5, 3))), ran(new, (x, torch.ones(5, 3)), is_compiled=True)
    torch.testing.assert_close(torch.as_tensor(then["result"]), torch.as_tensor(old["result"]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        count += 1\n", "        count += 1\n        if c:\n            break\n"),
        ("        count += 1\n", "        count += 1\n        last = part\n"),  # which has no value before
        ("            continue\n", "            count += 1\n            continue\n"),
        ("        total = total + part / chosen.sum()\n        count += 1\n", ""),
    ],
)
def test_what_is_more_than_kept_stays_under_a_continue(old: str, new: str) -> None:
    text = ROUNDS.replace(old, new).replace(
        "return total /", "return last + total /" if "last" in new else "return total /"
    )
    assert text != ROUNDS
    assert not [one for one in others(text, JUMP, "if chosen.sum()") if "_else" in one]


COX = function(
    "if y.sum() == 0:",
    "    return x.sum() * 0",
    "order = torch.argsort(x.abs(), descending=True)",
    "x, y = x[order], y[order]",
    "z = torch.logcumsumexp(x, 0)",
    "return -(torch.where(y > 0, x - z, 0).sum() / y.sum())",
)


@pytest.mark.parametrize("chosen", [[0.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
def test_a_loss_of_none_chosen_has_finite_gradients_where_its_rest_divides_by_none(chosen: list[float]) -> None:
    better = rewritten(COX)
    assert "    no_y = y.sum() == 0\n    early = x.sum() * 0\n" in better
    assert "    x, y = x[order], y[order]\n" in better
    assert_alike(COX, better, torch.tensor([0.5, -1.0, 2.0], requires_grad=True), torch.tensor(chosen))


IMPUTED = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        missing = torch.isnan(x)
        if missing.any():
            if self.training:
                self.seen += 1
                self.mean += (torch.nanmean(x, 0) - self.mean) / self.seen
            x = torch.where(missing, self.mean, x)
        return torch.cat([x, missing.float()], 1)
"""


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("first", [float("nan"), 1.0])
def test_a_branch_of_python_under_a_tensors_test_stays_one(is_training: bool, first: float) -> None:
    text = IMPUTED if is_training else IMPUTED.replace("__init__()\n", "__init__()\n        self.eval()\n")
    (better,) = (one for one in others(text, JUMP, "if missing.any()") if "_if" in one)
    assert "        if self.training:\n            seen_if = " in better
    assert "        self.mean.copy_(torch.where(has_missing, mean_if, self.mean))" in better
    assert_alike(text, better, torch.tensor([[first, 2.0, 3.0], [4.0, 5.0, 6.0]]))
