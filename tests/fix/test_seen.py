"""What guards say of a function's tensors: dtypes, dimensions, whether they are dense, and from which line on."""

from __future__ import annotations

import linecache
from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.breaks.rewrites.ranks import rank
from compiler_lens.facts.breaks.rewrites.site import Seen, Site, site_at
from compiler_lens.facts.breaks.seen import _seen, seen_tensors
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources, expression
from tests.fix.rewritten import FILE, seen

GUARD = "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, ADInplaceOrView), torch.{}, device=None, requires_grad=False"


@pytest.mark.parametrize(
    ("size", "stride", "dims", "is_contiguous"),
    [
        ("4, 3", "3, 1", 2, True),
        ("4, 3", "1, 4", 2, False),
        ("4, 3", "6, 2", 2, False),
        ("4, 1", "1, 7", 2, True),  # of one there is no step
        ("None, 3", "3, 1", 2, True),
        ("3, None", "None, 1", 2, True),
        ("None, None", "None, 2", 2, False),
        ("", "", 0, True),
        ("5", "1", 1, True),
        ("5", "2", 1, False),
    ],
)
def test_sizes_and_strides_of_a_guard_are_read(size: str, stride: str, dims: int, is_contiguous: bool) -> None:
    guard = f"{GUARD.format('float32')}, size=[{size}], stride=[{stride}])"
    assert _seen(guard, 7) == Seen("float32", dims, 7, is_contiguous)


def test_a_guard_without_them_says_the_dtype() -> None:
    assert _seen(f"{GUARD.format('int64')})", 0) == Seen("int64", None)
    assert _seen("of another version", 3) == Seen("", None, 3)


TEXT = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.zeros(3, dtype=torch.float64))
        self.weight = torch.nn.Parameter(torch.ones(3, 3))

    def forward(self, x, n, other):
        y = x + self.shift * n
        torch._dynamo.graph_break()
        return y.float() @ self.weight + other
"""


@pytest.fixture
def known() -> dict[str, frozenset[Seen]]:
    """What is known after a call of the model."""
    linecache.cache[FILE] = (len(TEXT), None, TEXT.splitlines(keepends=True), FILE)
    module = ModuleType("seen")
    exec(compile(TEXT, FILE, "exec"), module.__dict__)
    model: Any = torch.compile(module.__dict__["Model"](), backend="eager")
    with Lens(strict=True) as lens:
        model(torch.ones(4, 3), 2, torch.ones(4, 6)[:, ::2])
    linecache.cache.pop(FILE)
    return dict(seen_tensors(lens.recording)[FILE][10])


def test_a_recording_says_what_torch_saw(known: dict[str, frozenset[Seen]]) -> None:
    assert known["x"] == {Seen("float32", 2)}
    assert known["self.shift"] == {Seen("float64", 1)}
    assert known["y"] == {Seen("float64", 2, 12)}  # first read after the break
    assert known["self.weight"] == {Seen("float32", 2, 12)}
    assert known["other"] == {Seen("float32", 2, 12, is_contiguous=False)}


def test_what_was_once_no_tensor_is_not_known(known: dict[str, frozenset[Seen]]) -> None:
    assert "n" not in known


CHANGED = """\
import torch


def f(x, w):
    y = x * 2
    print(y)
    x = x.sum(1)
    print(x)
    return x, y
"""


def site(line: int, *seen_x: Seen) -> Site:
    names = {FILE: {4: {"x": frozenset(seen_x), "w": frozenset({Seen("float32", 3)})}}}
    at = SourceLine(FILE, line, "f", CHANGED.split("\n")[line - 1].strip())
    found = site_at(Sources({FILE: CHANGED}), at, names)
    assert found is not None
    return found


def test_the_dimensions_are_those_that_were_seen_last() -> None:
    both = Seen("float32", 2), Seen("float32", 1, 8)
    assert site(6, *both).dims_of("x") == 2
    assert site(9, *both).dims_of("x") == 1
    assert site(6, *both).dims_after("x", 7) == 1
    assert site(6, *both).dims_after("x", 8) is None
    assert site(6, Seen("float32", 2), Seen("float32", 3)).dims_of("x") is None
    assert site(6).dims_of("x") is None


def test_what_is_seen_later_is_another_one_if_it_is_assigned_between() -> None:
    later = Seen("float32", 1, 8)
    assert site(6, later).seen_last("x") == []
    assert site(8, later).seen_last("x") == [later]


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("w", 3),
        ("w[0]", 2),
        ("w[:, -1]", 2),
        ("w[..., None]", 4),
        ("w[x]", None),
        ("w.sum()", 0),
        ("w.sum(1)", 2),
        ("w.mean(dim=-1)", 2),
        ("w.unsqueeze(0)", 4),
        ("w.squeeze(0)", None),
        ("torch.stack([w, w])", 4),
        ("torch.cat([w, w], dim=1)", 3),
        ("w * x[0]", 3),
        ("-w.float()", 3),
    ],
)
def test_the_dimensions_of_what_is_computed_show(text: str, dims: int | None) -> None:
    assert rank(site(6, Seen("float32", 2)), expression(text)) == dims


def test_the_names_of_a_function_are_those_of_its_first_line() -> None:
    assert seen(CHANGED, x=Seen("float32", 2)) == {FILE: {4: {"x": frozenset({Seen("float32", 2)})}}}
