"""Sizes that may vary and sizes that a line pinned, on real torch and by hand."""

import pytest

from compiler_lens import Lens
from compiler_lens.facts.recompiles.dimensions import dimensions
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.recording.model import CompileId, Guard, Recording, Symbol
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for

torch = pytest.importorskip("torch")

ONES = torch.ones


def found(function, *calls, **options):
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(function, backend="eager", **options)
        for arguments in calls:
            compiled(*arguments)
    return lens.recording


def by_name(recording):
    return {dimension.name: dimension for dimension in dimensions(recording)}


def padded(x):
    return x + torch.ones(16)


def looped(x):
    for i in range(x.shape[0]):
        x = x + i
    return x


def branched(x):
    if x.shape[0] == 16:
        return x + 1
    return x - 1


def sliced(x):
    n = x.shape[0]
    return x * torch.arange(n)[:, None]


def ranged(x):
    return x + 1 if x.shape[0] > 10 else x - 1


def eights(x, k):
    return x + k if x.shape[0] % 8 == 0 else x - k


@pytest.mark.parametrize(
    ("function", "call", "code"),
    [
        (padded, ONES(16), "return x + torch.ones(16)"),
        (looped, ONES(3), "for i in range(x.shape[0]):"),
        (branched, ONES(16), "if x.shape[0] == 16:"),
    ],
)
def test_a_pinned_size_has_its_value_and_the_line_that_needed_it(function, call, code):
    dimension = by_name(found(function, (call,), dynamic=True))["x.shape[0]"]
    assert dimension.pinned
    assert [(pin.value, pin.line.code) for pin in dimension.pins] == [(str(call.shape[0]), code)]
    assert (dimension.low, dimension.high) == (call.shape[0], call.shape[0])
    assert dimension.function.name == function.__name__


def test_a_size_that_was_pinned_and_is_free_by_now_has_its_pin_and_all_values():
    dimension = by_name(found(branched, (ONES(16),), (ONES(18),), dynamic=True))["x.shape[0]"]
    assert not dimension.pinned
    assert (len(dimension.pins), dimension.seen, dimension.low, dimension.high) == (1, ("16", "18"), 2, None)
    assert [(c.text, c.line.code) for c in dimension.conditions] == [("x.shape[0] != 16", "if x.shape[0] == 16:")]


def test_a_size_that_became_free_has_the_values_from_before_too():
    dimension = by_name(found(sliced, (ONES(8, 3),), (ONES(4, 3),), (ONES(1, 3),)))["x.shape[0]"]
    assert (dimension.role, dimension.seen) == (CauseClass.BATCH_SIZE, ("8", "4", "1"))
    assert (dimension.low, dimension.high, dimension.pins) == (2, None, ())


def test_a_range_and_a_condition_come_from_the_guards():
    assert by_name(found(ranged, (ONES(16),), dynamic=True))["x.shape[0]"].low == 11
    recording = found(ranged, (ONES(16),), (ONES(5),), dynamic=True)
    (dimension,) = dimensions(recording)
    assert (dimension.low, dimension.high, dimension.conditions) == (2, 10, ())


def test_conditions_are_of_the_value_that_they_name():
    made = by_name(found(eights, (ONES(16), 3), (ONES(24), 4), dynamic=True))
    assert [c.text for c in made["x.shape[0]"].conditions] == ["(x.shape[0] % 8) == 0"]
    assert made["k"].role is CauseClass.INT_ARGUMENT
    assert made["k"].conditions == ()


def test_lines_that_compute_with_a_size_are_told():
    dimension = by_name(found(sliced, (ONES(8, 3),), (ONES(4, 3),)))["x.shape[0]"]
    assert [line.code for line in dimension.used] == ["return x * torch.arange(n)[:, None]"]


def test_a_librarys_module_has_the_names_of_its_forward():
    recording = found(torch.nn.Sequential(torch.nn.Linear(4, 4)), (ONES(5, 4),), (ONES(6, 4),))
    assert [(d.function.name, d.name, d.seen) for d in dimensions(recording)] == [
        ("Sequential.forward", "input.shape[0]", ("5", "6"))
    ]


def test_pinned_sizes_come_first_and_stand_below_the_recompiles():
    def cut(x):
        return x + torch.ones(3)

    recording = found(cut, (ONES(5, 3),), dynamic=True)
    assert [d.pinned for d in dimensions(recording)] == sorted((d.pinned for d in dimensions(recording)), reverse=True)
    text = view(recording, "recompiles", page_for(recording, width=80, color=False))
    assert text.startswith("No recompiles.\n\nPinned sizes")
    assert "is 3 only" in text


def test_one_symbol_of_two_attempts_is_one_dimension_with_one_pin():
    pin = Symbol(CompileId(0, 0), "s0", "L['x'].size()[0]", "16", specialized=True)
    free = Symbol(CompileId(0, 0), "s0", "L['x'].size()[0]", "16", "[2, int_oo]")
    (dimension,) = dimensions(Recording(symbols=(free, pin, free, pin)))
    assert (len(dimension.pins), dimension.seen, dimension.pinned) == (1, ("16",), True)


@pytest.mark.parametrize("expression", ["2 <= L['x'].size()[0] <= 9", "L['x'].size()[0] <= 9"])
def test_an_upper_bound_is_one(expression):
    free = Symbol(CompileId(0, 0), "s0", "L['x'].size()[0]", "4", "[2, int_oo]")
    guard = Guard(CompileId(0, 0), "LAMBDA_GUARD", expression)
    (dimension,) = dimensions(Recording(symbols=(free,), guards=(guard,)))
    assert (dimension.low, dimension.high) == (2, 9)


@pytest.mark.parametrize("source", ["", "L['x']._base.size()[0]"])
def test_a_symbol_of_no_argument_is_no_dimension(source):
    argument = Symbol(CompileId(0, 0), "s0", "L['x'].size()[0]", "16", "[2, int_oo]")
    other = Symbol(CompileId(0, 0), "s1", source, "4", "[2, int_oo]")
    assert [d.name for d in dimensions(Recording(symbols=(other, argument)))] == ["x.shape[0]"]
