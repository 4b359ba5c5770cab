"""A table of the module's that is asked for each number of a tensor is a tensor that is indexed by it."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.recording.model import BreakCause
from tests.fix.rewritten import assert_alike, others, ran

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
LIST = BreakCause("Tensor.tolist() with non-integer tensor")
DEPENDENT = BreakCause("Data dependent operator", context="aten._local_scalar_dense.default")
TEXT = """\
import torch

ENERGIES = {1: -0.5, 6: -37.8, 8: -75.0}


def f(z, x):
    reference = torch.tensor([ENERGIES[int(n)] for n in z])
    return x + reference
"""
ASKED = "[ENERGIES[int(n)] for n in z]"


def looked_up(text: str, cause: BreakCause = ITEM) -> list[str]:
    return [one for one in others(text, cause, "reference =") if "torch.isin(" in one]


def given() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([6, 1, 8, 1]), torch.randn(4)


@pytest.mark.parametrize("cause", [ITEM, LIST, DEPENDENT], ids=lambda one: one.gb_type)
@pytest.mark.parametrize(
    "asked",
    [
        ASKED,
        "[ENERGIES[n.item()] for n in z]",
        "[ENERGIES[n] for n in z.tolist()]",
        "[ENERGIES[int(n)] for n in z.cpu().numpy()]",
        "[ENERGIES[int(n)] for n in z], dtype=x.dtype, device=z.device",
    ],
)
def test_it_is_one_lookup(asked: str, cause: BreakCause) -> None:
    text = TEXT.replace(ASKED, asked)
    (new,) = looked_up(text, cause)
    assert "[z.long()]" in new
    assert_alike(text, new, *given())


def test_whole_numbers_stay_whole() -> None:
    text = TEXT.replace("-0.5", "0").replace("-37.8", "1").replace("-75.0", "-2").replace("x + ", "")
    (new,) = looked_up(text)
    assert ran(new, given())["result"].dtype is torch.int64
    assert_alike(text, new, *given())


def test_a_number_that_the_table_has_not_is_an_error_still() -> None:
    (new,) = looked_up(TEXT)
    with pytest.raises(RuntimeError, match="not in ENERGIES"):
        ran(new, (torch.tensor([1, 7]), torch.randn(2)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{1: -0.5, 6", "{1: -5, 6"),  # the type follows from which of them are asked
        ("{1: -0.5", "{-1: -0.5"),
        ("{1: -0.5", "{10**9: -0.5"),
        ("{1: -0.5", "{'H': -0.5"),
        ("{1: -0.5", "{**OTHERS"),
        ("def f", "ENERGIES[7] = 1.0\nENERGIES = dict(ENERGIES)\n\ndef f"),
        ("    reference", "    ENERGIES = {6: 1.0, 1: 2.0, 8: 1.0}\n    reference"),
        (ASKED, "[ENERGIES[int(n)] for n in z if n > 1]"),
        (ASKED, "[ENERGIES[int(n) + 1] for n in z]"),
        (ASKED, "[ENERGIES.get(int(n)) for n in z]"),
    ],
)
def test_another_list_stays(old: str, new: str) -> None:
    assert looked_up(TEXT.replace(old, new)) == []
