"""A line that needs a size as a number is offered in words that take any size, and the all-clear is not given before."""

from __future__ import annotations

import linecache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import Recording

TEXT = """\
import torch


def neighbours(pos, cutoff):
    near = (pos[:, None] - pos[None]).norm(dim=-1) < cutoff
    near.fill_diagonal_(False)
    return near.float()


def energy(z, pos):
    return (neighbours(pos, 3.0) @ z[:, None].float()).sum()
"""
LINE = "near.fill_diagonal_(False)"


def recorded(text: str, path: Path, sizes: tuple[int, ...]) -> tuple[Recording, list[Any]]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    path.write_text(text)
    linecache.checkcache()
    module = ModuleType("energy")
    exec(compile(text, str(path), "exec"), module.__dict__)
    with Lens(strict=True) as lens:
        called = torch.compile(module.__dict__["energy"], backend="eager")
        found = [called(torch.arange(n), torch.randn(n, 3)) for n in sizes]
    return lens.recording, found


def test_a_size_that_is_pinned_again_is_no_recompile_as_expected_and_a_rewrite_ends_it(tmp_path: Path) -> None:
    before, wanted = recorded(TEXT, tmp_path / "energy.py", (19, 31, 21))
    assert len(before.recompiles) == 2
    seen = observed(before, Ownership())
    (offer,) = (one for one in seen.offers if isinstance(one.edit, Lines))
    assert offer.target.at is not None
    assert offer.target.at.code.strip() == LINE
    assert seen.hurts == 2
    (new,) = offer.edit.after
    assert "masked_fill_(torch.eye(" in new
    after, found = recorded(TEXT.replace(LINE, new.strip()), tmp_path / "other.py", (19, 31, 21))
    assert len(after.recompiles) == 1
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("line", ["near.fill_diagonal_(False, wrap=True)", "near[range(5), range(5)] = False"])
def test_another_line_has_no_such_offer(line: str, tmp_path: Path) -> None:
    before, _ = recorded(TEXT.replace(LINE, line), tmp_path / "energy.py", (19, 31, 21))
    assert not [one for one in observed(before, Ownership()).offers if isinstance(one.edit, Lines)]


def test_two_sizes_ask_for_nothing_yet(tmp_path: Path) -> None:
    before, _ = recorded(TEXT, tmp_path / "energy.py", (19, 31))
    assert observed(before, Ownership()).hurts == 0
