"""Processes that a program starts are not recorded, and the first screen says so."""

from __future__ import annotations

import multiprocessing

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from compiler_lens import Lens


def double(x: Tensor) -> Tensor:
    return x * 2


def child() -> None:
    torch.compile(double, backend="eager")(torch.ones(3))


class Doubled(Dataset[Tensor]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Tensor:
        return torch.ones(3) * index


def _fork() -> None:
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0


def _load() -> None:
    assert len(list(DataLoader(Doubled(), num_workers=1, batch_size=1))) == 2


@pytest.mark.parametrize("start", [_fork, _load, None])
def test_processes_that_are_not_recorded_are_said_to_be(start) -> None:  # type: ignore[no-untyped-def]
    with Lens(strict=True) as lens:
        torch.compile(double, backend="eager")(torch.ones(3))
        if start:
            start()
    shown = " ".join(lens.report(color=False, width=120).split())
    assert ("processes that this one started are not recorded, and may compile, too: test_children.py:" in shown) == (
        start is not None
    )
    assert f"Nothing to fix{' in this process' if start else ''}: no graph breaks" in shown
