"""What two runs computed, compared."""

from __future__ import annotations

import time
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest
import torch

from compiler_lens.facts.measured.fix import Difference
from compiler_lens.facts.measured.other_inputs import Gave, Inputs, OtherInputs
from compiler_lens.measure.fix import results
from compiler_lens.measure.fix.objects import held
from compiler_lens.measure.fix.results import Keeper, Kept, compared, load, save
from compiler_lens.recording.model import Results


def kept(*values: object, kind: str = "result") -> list[results.Kept]:
    keeper = Keeper()
    keeper.keep(kind, 0, values)
    return keeper.kept


X = torch.randn(8, 4)


def test_tensors_without_a_gradient_are_passed_over_where_one_run_reaches_more_of_them() -> None:
    """A graph of more code has more inputs, also of what needs no gradient there."""
    few, many = kept(X, X[0], kind="gradient"), kept(None, X, None, X[0], None, kind="gradient")
    assert compared(many, few)[0] is Results.EQUAL
    assert compared(few, many)[0] is Results.EQUAL
    assert compared(kept(None, X, X[1], None, kind="gradient"), few)[0] is Results.DIFFER
    assert compared(kept(X, X[0], X[1], kind="gradient"), few)[0] is Results.DIFFER
    assert compared(kept(None, X[0], kind="gradient"), few)[0] is Results.DIFFER


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (X, X * (1 + 1e-7)),
        (torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0])),
        (X.bfloat16(), X.bfloat16() * (1 + 1e-3)),
        (1.0, 1.0 + 1e-9),
        ("a", "a"),
        (None, None),
        (X.to_sparse(), X.to_sparse()),
        (torch.empty(0), torch.empty(0)),
        (torch.empty(3, device="meta"), torch.empty(3, device="meta")),
    ],
)
def test_what_is_equal_but_for_rounding(value: object, other: object, tmp_path: Path) -> None:
    save(kept(value), tmp_path / "results.pt")
    assert compared(kept(other), load(tmp_path / "results.pt")) == (Results.EQUAL, None)


def test_a_time_is_the_same_in_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers differ by more than rounding once minutes are over."""
    then = time.time()
    before, other = kept(then), kept(then - 3600)
    monkeypatch.setattr(time, "time", lambda: then + 3600)
    assert compared(kept(then + 3599), before) == (Results.EQUAL, None)
    assert compared(kept(then + 3599), other)[0] is Results.DIFFER  # than any other number


@pytest.mark.parametrize(
    ("value", "other", "is_equal"),
    [
        (torch.tensor(0.1), 0.1, True),
        (torch.tensor(3), 3, True),
        (torch.tensor(True), True, True),
        (torch.tensor(0.2), 0.1, False),
        (torch.tensor([0.1]), 0.1, False),
        (torch.tensor(0.1), "0.1", False),
        (0.1, torch.tensor(0.1), False),
    ],
)
def test_a_result_may_be_a_tensor_for_a_number_which_is_counted(value: object, other: object, is_equal: bool) -> None:
    assert (compared(kept(value), kept(other))[0] is Results.EQUAL) == is_equal
    assert results.kept_tensors(kept(value), kept(other)) == is_equal
    assert compared(kept(value, kind="argument"), kept(other, kind="argument"))[0] is Results.DIFFER


NAN = torch.tensor(float("nan"))


@pytest.mark.parametrize(
    ("result", "gradient", "other", "gave"),
    [
        (NAN, torch.tensor([float("nan"), 1.0]), torch.tensor([2.0, 1.0]), Gave.NAN),
        (NAN, torch.tensor([float("nan"), 1.0]), torch.tensor([2.0, 3.0]), Gave.OTHER),
        (NAN, torch.tensor([2.0, 1.0]), torch.tensor([2.0, float("nan")]), Gave.OTHER),
        (torch.tensor(1.0), torch.tensor([float("nan"), 1.0]), torch.tensor([2.0, 1.0]), Gave.OTHER),
        (NAN, torch.tensor([2.0, 1.0]), torch.tensor([2.0, 1.0]), Gave.SAME),
    ],
)
def test_a_loss_that_is_nan_has_no_gradients_to_compare(
    result: torch.Tensor, gradient: torch.Tensor, other: torch.Tensor, gave: Gave
) -> None:
    sides = []
    for one in (gradient, other):
        keeper = Keeper()
        keeper.keep("result", 0, [result], Inputs.NAN.value)
        keeper.keep("gradient", 0, [one], Inputs.NAN.value)
        sides.append(keeper.kept)
    (call,) = results.compared_calls(*sides)
    assert call.gave is gave
    assert (OtherInputs((call,)).against(may_raise=False) is None) == (gave is not Gave.OTHER)


NEAR, FAR = torch.tensor([1.0, 2.0001]), torch.tensor([1.0, 2.5])


@pytest.mark.parametrize(
    ("other", "gave"),
    [
        (NEAR, Gave.SAME),
        (FAR, Gave.OTHER),
        (NEAR.double(), Gave.OTHER),
        (torch.tensor([1.0, float("nan")]), Gave.OTHER),
        (torch.tensor([[1.0, 2.0001]]), Gave.OTHER),
    ],
)
@pytest.mark.parametrize("named", ["", "Net.average"])
def test_what_generated_code_rounds_otherwise_is_the_same_with_other_inputs(
    other: torch.Tensor, gave: Gave, named: str
) -> None:
    sides = []
    for one in (torch.tensor([1.0, 2.0]), other):
        keeper = Keeper()
        keeper.keep("result", 0, [torch.ones(2) if named else one], Inputs.ONES.value)
        results.keep_changed(keeper, 0, {}, {named: one} if named else {}, Inputs.ONES.value)
        sides.append(keeper.kept)
    (strict,), (rough,) = results.compared_calls(*sides), results.compared_calls(*sides, is_rough=True)
    assert strict.gave is Gave.OTHER
    assert rough.gave is gave


@pytest.mark.parametrize(("unsure", "gave"), [("Net.times[0]", Gave.SAME), ("Net.losses[0]", Gave.OTHER)])
def test_a_time_that_another_call_takes_is_one_of_the_same_list(unsure: str, gave: Gave) -> None:
    sides = []
    for taken in (0.5, 0.9):
        keeper = Keeper()
        keeper.keep("result", 2, [torch.ones(2)], Inputs.NEGATED.value)
        results.keep_changed(keeper, 2, {}, {"Net.times[1]": taken}, Inputs.NEGATED.value)
        sides.append(keeper.kept)
    (call,) = results.compared_calls(*sides, frozenset({unsure}))
    assert call.gave is gave


@pytest.mark.parametrize(
    ("value", "other", "largest"),
    [
        (X, X + 1, 1.0),
        (X, X.double(), 0.0),
        (X, X[:4], None),
        (X, None, None),
        (1, 2, 1.0),
        (True, 1, 0.0),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), 1.0),
        (torch.empty(3, device="meta"), torch.empty(4, device="meta"), None),
    ],
)
def test_what_differs(value: object, other: object, largest: float | None) -> None:
    found, difference = compared(kept(0, value), kept(0, other))
    assert found is Results.DIFFER
    assert difference is not None
    assert (difference.kind, difference.call, difference.index) == ("result", 0, 1)
    assert difference.largest == pytest.approx(largest)


def test_a_gradient_of_zeros_where_there_was_none_is_equal_and_counted() -> None:
    before, zeros = kept(None, torch.ones(2), kind="gradient"), kept(torch.zeros(2), torch.ones(2), kind="gradient")
    assert results.compared(zeros, before) == (Results.EQUAL, None)
    assert (results.zero_gradients(zeros, before), results.zero_gradients(before, before)) == (1, 0)
    assert results.compared(before, zeros)[0] is Results.DIFFER
    assert results.compared(kept(torch.zeros(2)), kept(None))[0] is Results.DIFFER  # a result is no gradient


def test_a_gradient_that_is_gone_and_results_that_are_missing_differ() -> None:
    assert compared(kept(None, kind="gradient"), kept(X, kind="gradient"))[0] is Results.DIFFER
    assert compared(kept(X), kept(X, X)) == (Results.DIFFER, Difference("result", 0, 0, numbers=(2, 1)))
    assert compared([], kept(X)) == (Results.DIFFER, Difference("call", 0, 0, numbers=(1, 0)))


def test_of_a_large_tensor_a_sample_and_its_mean_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_LARGEST", 1000)
    monkeypatch.setattr(results, "_SAMPLE", 100)
    large = torch.randn(100, 100)
    assert sum(part.value.numel() for part in kept(large) if isinstance(part.value, torch.Tensor)) < 200
    assert compared(kept(large), kept(large.clone()))[0] is Results.EQUAL
    shifted = large.clone()
    shifted[1::2] += 1  # also where no element is in the sample
    assert compared(kept(shifted), kept(large))[0] is Results.DIFFER


def test_no_more_is_kept_than_memory_is_meant_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_MOST", 1000)
    keeper = Keeper()
    for call in range(100):
        keeper.keep("result", call, [X])
    assert not keeper.is_whole
    assert len(keeper.kept) < 20


class Level(IntEnum):
    """A number of a class of its own."""

    HIGH = 3


class Name(str):
    """A text of one."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (Level.HIGH, 3),
        (Name("a"), "a"),
    ],
)
def test_numbers_and_texts_of_other_classes_are_kept_as_pythons_and_read_again(
    value: object, kept: object, tmp_path: Path
) -> None:
    keeper = Keeper()
    keeper.keep("result", 0, [value])
    keeper.keep_named("object", 0, held([("best", [value])], with_weights=False))
    save(keeper.kept, tmp_path / "kept.pt")
    found = load(tmp_path / "kept.pt")
    assert [(one.name, one.value) for one in found] == [("", kept), ("len(best)", [1]), ("best[0]", [kept])]
    assert type(found[0].value) is type(found[2].value[0]) is type(kept)


def test_nothing_but_values_is_unpickled(tmp_path: Path) -> None:
    torch.save([["result", 0, 0, Path("x")]], tmp_path / "results.pt")
    with pytest.raises(Exception, match="Weights only load failed"):
        load(tmp_path / "results.pt")


def test_a_number_that_an_object_holds_may_be_a_tensor_and_a_count_is_exact() -> None:
    def differing(value: object, other: object) -> tuple[str, ...]:
        keepers = Keeper(), Keeper()
        for keeper, one in zip(keepers, (value, other), strict=True):
            keeper.keep_named("object", 0, {"net.seen": one})
        return results.names_that_differ(keepers[0].kept, keepers[1].kept)

    assert not differing(3, torch.tensor(3))
    assert not differing(0.50001, 0.5)
    assert differing(1_000_001, 1_000_000) == ("net.seen",)
    assert differing(0.51, 0.5) == ("net.seen",)


def test_of_a_list_of_times_those_are_unsure_too_that_are_alike_in_two_runs() -> None:
    known = [
        "net.times[0]",
        "net.times[1]",
        "net.times[2]",
        "net.log[0][0]",
        "net.log[0][1]",
        "net.of['a']",
        "net.seen",
    ]
    assert results.with_most_of_lists(("net.times[0]", "net.times[2]", "net.log[0][0]", "net.of['b']"), known) == (
        "net.times[0]", "net.times[2]", "net.log[0][0]", "net.of['b']", "net.times[1]",
    )  # fmt: skip
    assert results.with_most_of_lists(("net.times[0]",), known) == ("net.times[0]",)  # that one alone


def test_a_gradient_is_as_exact_as_its_largest_number() -> None:
    small, large = torch.tensor([6e5, 2.0]), torch.tensor([6e5, 2.125])
    gradient, other = (Kept("gradient", 0, 0, one) for one in (small, large))
    assert compared([gradient], [other]) == (Results.EQUAL, None)
    assert (
        compared([Kept("gradient", 0, 0, small * 1e-3)], [Kept("gradient", 0, 0, torch.tensor([6e2, 0.05]))])[0]
        is Results.DIFFER
    )
    assert compared([Kept("result", 0, 0, small)], [Kept("result", 0, 0, large)])[0] is Results.DIFFER


def test_results_may_drift_as_far_as_rounding_alone_moves_them_and_no_further() -> None:
    def values(*numbers: float, kind: str = "result") -> list[Kept]:
        return [Kept(kind, call, 0, torch.tensor([1.0, number])) for call, number in enumerate(numbers)]

    reference, noisy = values(0.5, 0.5), values(0.5, 0.50002)
    assert compared(values(0.5, 0.5001), reference, noisy) == (Results.EQUAL, None)
    assert compared(values(0.5, 0.5001), reference)[0] is Results.DIFFER
    assert compared(values(0.5001, 0.5), reference, noisy)[0] is Results.DIFFER  # rounding moves nothing there
    assert compared(values(0.5, 0.51), reference, values(0.5, 0.6))[0] is Results.DIFFER  # however far it does
    assert compared(values(0.5, 0.5005), reference, values(0.5, 0.6)) == (Results.EQUAL, None)
    names = [*values(0.5), Kept("result", 1, 0, "a")]
    assert (
        compared([*values(0.5001), names[1]], names, [*values(0.50002), Kept("result", 1, 0, "b")])[0] is Results.DIFFER
    )


def test_gradients_of_zeros_are_the_same_where_nothing_needs_one() -> None:
    result = Kept("result", 0, 0, torch.ones(2))
    zeros, ones = (Kept("gradient", 0, 0, torch.full((2,), number)) for number in (0.0, 1.0))
    assert compared([result, zeros], [result]) == (Results.EQUAL, None)
    assert compared([result, ones], [result])[0] is Results.DIFFER
    assert compared([result, zeros], [result, ones])[0] is Results.DIFFER
