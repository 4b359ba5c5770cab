"""How many runs there is room for: a container's share of a machine, not the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_lens.measure.fix import machine


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "_GROUP", tmp_path)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "cores"), [("300000 100000\n", 3), ("50000 100000\n", 1), ("max 100000\n", 16), ("", 16)]
)
def test_cores_are_those_of_the_container(group: Path, text: str, cores: int) -> None:
    (group / "cpu.max").write_text(text)
    assert machine.cores() == cores


def test_memory_is_what_is_left_of_the_containers(group: Path) -> None:
    free = machine.free_memory()
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("1000\n")
    assert (machine.free_memory() is None) is (free is None)
    (group / "memory.max").write_text("5000\n")
    assert machine.free_memory() == 4000
