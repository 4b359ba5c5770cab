"""A graph out of a cache may be of other settings than those in force: torch's key does not hold all (pytorch#185449)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from compiler_lens import Lens, explain


def attends(q: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, q, q)


def adds(q: Tensor) -> Tensor:
    return q + 1


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))


def recorded(function: object, *kernels: SDPBackend) -> Lens:
    torch._dynamo.reset()
    with Lens(strict=True) as lens, torch.no_grad():
        compiled = torch.compile(function, backend=lens)  # type: ignore[call-overload]
        if kernels:
            with sdpa_kernel(list(kernels)):
                compiled(torch.ones(1, 2, 16, 8))
        else:
            compiled(torch.ones(1, 2, 16, 8))
    return lens


def rules(lens: Lens) -> list[str]:
    found = [finding.rule for finding in explain(lens.recording).findings]
    return [rule for rule in found if rule != "phase-dominates"]  # on a slow machine


def runs_flash(lens: Lens) -> bool:
    return any("flash" in node.target for graph in lens.recording.graphs for node in graph.nodes)


def test_a_cached_graph_of_other_settings_is_told_and_what_it_advises_helps() -> None:
    assert rules(recorded(attends)) == []
    assert rules(recorded(attends)) == []  # a hit under the same
    wrong = recorded(attends, SDPBackend.MATH)
    assert runs_flash(wrong)
    assert rules(wrong) == ["cached-under-other-settings"]
    shown = " ".join(wrong.report(color=False, width=120).split())
    assert "was traced while `torch.nn.attention.sdpa_kernel` allowed flash, " in shown
    assert ": now math." in shown
    assert "return functional.scaled_dot_product_attention(q, q, q)" in shown
    assert "Nothing to fix" not in shown
    with torch.compiler.config.patch(force_disable_caches=True):
        right = recorded(attends, SDPBackend.MATH)
    assert not runs_flash(right)
    assert rules(right) == []


def test_where_the_graph_has_no_such_op_nothing_is_said() -> None:
    recorded(adds)
    assert rules(recorded(adds, SDPBackend.MATH)) == []
