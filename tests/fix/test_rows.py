"""Rows that a mask chooses and that end in sums: all rows are computed, and those that it chooses count."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.facts.breaks.rewrites.site import Seen, SeenTensors
from tests.fix.rewritten import SHAPE, assert_alike, others, seen

HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef own(x):\n    return x.exp()\n\n\n"
OF_ROWS = torch.tensor([True, False, True, True, False])
OF_PLACES = torch.tensor([[True, False, True, True], [False, False, True, False]])


def function(*lines: str) -> str:
    return HEAD + "def f(x, y, m):\n" + "".join(f"    {line}\n" for line in lines)


def known(text: str, x: int, y: int, m: int, y_dtype: str = "float32") -> SeenTensors:
    return seen(text, x=Seen("float32", x), y=Seen(y_dtype, y), m=Seen("bool", m))


def given(m: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of three numbers for each place of a mask."""
    torch.manual_seed(1)
    return torch.randn(*m.shape, 3, requires_grad=True), torch.randn(*m.shape, 3, requires_grad=True)


def rewritten(text: str, known: SeenTensors, containing: str = "[m]") -> list[str]:
    """The text with all rows, and the one that has zeros in place of those that are not chosen."""
    found = others(text, SHAPE, containing, known)
    assert found
    assert all(containing not in one.partition("def f")[2] for one in found)
    return found


ENDS = [
    ("return (x[m] * 2).mean()",),
    ("rows = x[m]", "return 1 - rows.exp().mean() ** 2"),
    ("rows = x[m]", "return rows.exp().sum() / 3"),
    ("rows = x[m]", "return rows.exp().max()"),
    ("return x[m].min()",),
    ("a, b = x[m], y[m]", "loss = (a - b).pow(2).sum(-1)", "return loss.mean()"),
    ("a = F.normalize(x[m], dim=-1)", "b = F.normalize(y[m], dim=-1)", "return (1 - (a * b).sum(dim=-1)).mean()"),
    ("return -(x[m].log_softmax(-1) * y[m].softmax(-1)).sum(-1).mean()",),
    ("return F.mse_loss(x[m], y[m])",),
    ("return F.mse_loss(x[m], y[m], reduction='sum')",),
    ("return F.smooth_l1_loss(x[m], y[m], beta=0.5)",),
    ("return F.mse_loss(x[m], y[m], reduction='none').mean()",),
    ("return F.binary_cross_entropy_with_logits(x[m], y[m].sigmoid())",),
    ("rows = x[m]", "return rows[..., 1].mean()"),
]


@pytest.mark.parametrize("m", [OF_ROWS, OF_PLACES], ids=["rows", "places"])
@pytest.mark.parametrize("how", ["mean", "sum"])
def test_rows_of_as_many_dimensions_as_nobody_knows_are_summed_each_first(how: str, m: torch.Tensor) -> None:
    text = function(f"return F.mse_loss(x[m].exp(), y[m], reduction='{how}')")
    plain, better, *_ = others(text, SHAPE, "[m]", seen(text, m=Seen("bool", m.dim())))
    assert ".reshape(" not in plain
    assert ".reshape(*m.shape, -1)" in better
    assert_alike(text, better, *given(m), m)
    one = [tensor[..., 0].detach() for tensor in given(m)]
    assert_alike(text, better, *one, m)


@pytest.mark.parametrize("m", [OF_ROWS, OF_PLACES], ids=["rows", "places"])
@pytest.mark.parametrize("lines", ENDS, ids=" ".join)
def test_what_ends_in_a_number_is_of_the_rows_that_count(lines: tuple[str, ...], m: torch.Tensor) -> None:
    text = function(*lines)
    for better in rewritten(text, known(text, m.dim() + 1, m.dim() + 1, m.dim())):
        assert_alike(text, better, *given(m), m)
        assert_alike(text, better, *given(m), torch.ones_like(m))


@pytest.mark.parametrize("count", ["len(rows)", "rows.shape[0]", "rows.size(0)", "max(len(rows), 1)"])
def test_a_count_of_rows_is_one_of_the_mask(count: str) -> None:
    text = function("rows = x[m]", f"return rows.exp().sum() / {count}")
    for better in rewritten(text, known(text, 2, 2, 1)):
        assert_alike(text, better, *given(OF_ROWS), OF_ROWS)


def test_elements_are_counted_where_each_row_is_one() -> None:
    text = function("rows = x[m]", "return rows.exp().sum() / max(rows.numel(), 1)")
    for better in rewritten(text, known(text, 1, 1, 1)):
        x = torch.randn(5, requires_grad=True)
        assert_alike(text, better, x, x.detach(), OF_ROWS)
        assert_alike(text, better, x, x.detach(), OF_ROWS & False)


@pytest.mark.parametrize(
    "end",
    ["rows.exp().sum()", "rows.exp().mean()", "rows.exp().sum() / max(rows.shape[0], 1)"],
)
@pytest.mark.parametrize("m", [OF_ROWS & False, OF_PLACES & False], ids=["rows", "places"])
def test_of_no_rows_it_is_the_same(end: str, m: torch.Tensor) -> None:
    text = function("rows = x[m]", f"return {end}")
    for better in rewritten(text, known(text, m.dim() + 1, m.dim() + 1, m.dim())):
        assert_alike(text, better, *given(m), m)


@pytest.mark.parametrize("reduction", ["", ", reduction='sum'"])
@pytest.mark.parametrize("m", [OF_ROWS, OF_PLACES], ids=["rows", "places"])
def test_a_loss_of_classes_leaves_rows_out(m: torch.Tensor, reduction: str) -> None:
    text = function(f"return F.cross_entropy(x[m] * 2, y[m]{reduction})")
    for better in rewritten(text, known(text, m.dim() + 1, m.dim(), m.dim(), "int64")):
        assert_alike(text, better, given(m)[0], torch.randint(3, m.shape), m)


MODEL = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)
        self.loss = nn.MSELoss()

    def forward(self, x, y, m):
        x = self.head(x)
        return self.loss(x[m], y[m])
"""


@pytest.mark.parametrize("name", ["MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"])
def test_a_loss_that_the_model_holds_is_known_by_its_class(name: str) -> None:
    text = MODEL.replace("MSELoss", name)
    for better in rewritten(text, known(text, 2, 2, 1)):
        assert_alike(text, better, *given(OF_ROWS), OF_ROWS)


def test_so_is_one_of_classes() -> None:
    text = MODEL.replace("MSELoss", "CrossEntropyLoss")
    for better in rewritten(text, known(text, 2, 1, 1, "int64")):
        assert_alike(text, better, given(OF_ROWS)[0], torch.tensor([0, 1, 2, 0, 1]), OF_ROWS)


@pytest.mark.parametrize(
    "places",
    [
        "torch.where(m)[0]", "torch.nonzero(m).squeeze(-1)", "m.nonzero().flatten()",
        "torch.nonzero(m, as_tuple=True)[0]", "m.nonzero(as_tuple=True)[0]",
    ],
)  # fmt: skip
def test_the_places_of_the_rows_may_have_a_name(places: str) -> None:
    text = function(f"at = {places}", "loss = (x[at] - y[at]).abs().sum(-1)", "return loss.sum() / max(len(at), 1)")
    for better in rewritten(text, known(text, 2, 2, 1), places):
        assert_alike(text, better, *given(OF_ROWS), OF_ROWS)
        assert_alike(text, better, *given(OF_ROWS), OF_ROWS & False)


@pytest.mark.parametrize("m", [OF_ROWS, OF_PLACES], ids=["rows", "places"])
@pytest.mark.parametrize(
    "target", ["torch.zeros(*m.shape, 3)", "torch.full_like(x, 2.0)", "x * 1"], ids=["zeros", "full", "computed"]
)
def test_rows_of_a_new_tensor_are_written(target: str, m: torch.Tensor) -> None:
    text = function(f"out = {target}", "out[m] = own(y[m])", "return out")
    names = seen(text, x=Seen("float32", 3), out=Seen("float32", m.dim() + 1), m=Seen("bool", m.dim()))
    for better in rewritten(text, names, "out[m]"):
        assert "out = torch.where(" in better
        assert_alike(text, better, *given(m), m)
        assert_alike(text, better, *given(m), m & False)


def test_rows_of_a_tensor_that_is_given_are_written_in_place() -> None:
    text = function("x[m] = own(y[m])", "return x.sum()")
    for better in rewritten(text, known(text, 2, 2, 1), "x[m]"):
        assert "x[...] = torch.where(" in better
        x, y = given(OF_ROWS)
        assert_alike(text, better, x.detach(), y, OF_ROWS)


def test_rows_that_are_not_dense_are_when_a_function_has_them() -> None:
    text = function("return own(x[m]).sum()").replace("x.exp()", "x.view(-1).view(-1, 3).sum(1)")
    strided = seen(text, x=Seen("float32", 2, is_contiguous=False), m=Seen("bool", 1))
    better = rewritten(text, strided)[0]
    assert "own(x.contiguous())" in better
    assert "own(x)" in rewritten(text, known(text, 2, 2, 1))[0]
    x = torch.randn(3, 5).t()
    assert_alike(text, better, x, x, OF_ROWS)
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="view"):
        assert_alike(text, better.replace(".contiguous()", ""), x, x, OF_ROWS)


def test_rows_that_are_not_chosen_may_hold_what_is_no_number() -> None:
    text = function("rows = x[m]", "return (rows.log() - y[m]).pow(2).mean()")
    _, zeros, ones = rewritten(text, known(text, 2, 2, 1))
    x, y = (one.detach().abs() + 0.1 for one in given(OF_ROWS))
    x[~OF_ROWS], y[~OF_ROWS] = float("nan"), float("nan")
    x, y = x.requires_grad_(), y.requires_grad_()
    assert_alike(text, ones, x, y, OF_ROWS)
    assert_alike(text.replace(".log()", ".log1p()"), zeros.replace(".log()", ".log1p()"), x, y, OF_ROWS)


def test_rows_that_something_is_divided_by_are_ones_where_they_are_not_chosen() -> None:
    text = function("one, other = x[m], y[m]", "return (one / other).abs().sqrt().sum()")
    *_, ones = rewritten(text, known(text, 2, 2, 1))
    x, y = (one.detach().abs() + 0.1 for one in given(OF_ROWS))
    x[~OF_ROWS], y[~OF_ROWS] = 0.0, 0.0
    assert_alike(text, ones, x.requires_grad_(), y.requires_grad_(), OF_ROWS)


SUM = function("rows = x[m] * 2", "return rows.mean()")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return rows.mean()", "return rows"),
        ("return rows.mean()", "return rows.mean(), rows"),
        ("return rows.mean()", "kept = [rows]\n    return rows.mean(), kept"),
        ("return rows.mean()", "return rows.mean(0)"),
        ("return rows.mean()", "return (rows - rows.mean(0)).sum()"),
        ("return rows.mean()", "return rows.std()"),
        ("return rows.mean()", "return rows.median()"),
        ("return rows.mean()", "return rows.sort(0).values.sum()"),
        ("return rows.mean()", "return rows.sort().values[0].sum()"),
        ("return rows.mean()", "return rows.cumsum(0).sum()"),
        ("return rows.mean()", "return (rows @ rows.t()).sum()"),
        ("return rows.mean()", "return rows[:2].sum()"),
        ("return rows.mean()", "return rows[0].sum()"),
        ("return rows.mean()", "return rows.sum() / rows.numel()"),
        ("return rows.mean()", "for row in rows:\n        y = y + row\n    return y.mean()"),
        ("return rows.mean()", "print(rows)\n    return rows.mean()"),
        ("return rows.mean()", "m = ~m\n    return rows.mean() + y[m].mean()"),
        ("rows = x[m] * 2", "first = y[m]\n    rows = x[m] * 2"),  # the line is not the first with the mask
        ("x[m] * 2", "x[m, 0] * 2"),
    ],
)
def test_rows_that_are_used_otherwise_stay_a_choice(old: str, new: str) -> None:
    names = known(SUM, 2, 2, 1)
    text = SUM.replace(old, new)
    assert text != SUM
    assert others(SUM, SHAPE, "rows = x[m", names)
    assert others(text, SHAPE, "rows = x[m", names) == []


@pytest.mark.parametrize("m", [OF_ROWS, ~OF_ROWS, OF_ROWS & False], ids=["some", "others", "none"])
def test_rows_in_a_loop_that_counts_are_all_rows(m: torch.Tensor) -> None:
    lines = ("rows, found = x[m], []", "for c in range(3):", "    found.append((rows > c).sum())")
    text = function(*lines, "return torch.stack(found)")
    for new in rewritten(text, known(text, 2, 2, 1)):
        assert_alike(text, new, *given(m), m)


def test_a_mask_of_what_is_then_chosen_gets_a_name() -> None:
    text = function("x, y = x[y > 0], y[y > 0]", "return (x * y).sum()")
    for new in rewritten(text, known(text, 2, 2, 1), "y[y > 0]"):
        assert "kept = y > 0" in new
        assert_alike(text, new, *given(OF_ROWS), OF_ROWS)


def test_rows_that_a_loop_makes_others_of_stay_a_choice() -> None:
    text = function("rows = x[m]", "for c in range(3):", "    rows = rows.sum()", "return rows")
    assert others(text, SHAPE, "x[m]", known(text, 2, 2, 1)) == []


def test_an_index_that_may_be_numbers_is_no_mask() -> None:
    assert others(SUM, SHAPE, "x[m]", known(SUM, 2, 2, 1))
    names = seen(SUM, x=Seen("float32", 2), m=Seen("int64", 1))
    assert others(SUM, SHAPE, "x[m]", names) == []
    assert others(SUM, SHAPE, "x[m]") == []


def test_what_others_may_assign_is_no_mask() -> None:
    text = function("def change():", "    nonlocal m", "    m = ~m", "change()", "return x[m].mean()")
    own = text.replace("nonlocal m", "m = 0")
    assert others(own, SHAPE, "x[m]", known(own, 2, 2, 1))
    assert others(text, SHAPE, "x[m]", known(text, 2, 2, 1)) == []


def test_rows_that_one_side_of_a_branch_makes_something_else_of_are_left() -> None:
    text = "import torch\n\n\ndef f(x, t):\n    hard = x[x > 0.5]\n    if t:\n        hard, _ = x.topk(3)\n    return hard.mean()\n"
    assert others(text, SHAPE, "hard = x[") == []
    assert others(text.replace("hard, _ = x.topk(3)", "hard = hard * 2"), SHAPE, "hard = x[")
