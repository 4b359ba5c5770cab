"""Programs whose results a change leaves as they are, while it counts, collects or draws otherwise: it is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.measure.fix.objects import generators, held

CACHE = """\
    import torch

    class Cache:
        def __init__(self):
            self.last, self.n = torch.zeros(4, 8), 0

        def update(self, q):
            self.last = q * 2
            self.n += 1
            return self.last

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)

        def forward(self, x, cache):
            q = self.fc(x)
            if q.abs().max().item() > 100:
                return None
            kept = cache.update(q)
            return (q * kept).sum(-1)

    torch.manual_seed(0)
    net, cache = torch.compile(Net()), Cache()
    for n in range(4):
        net(torch.randn(4, 8) * (1000 if n == 2 else 1), cache)
    """

NOISE = """\
    import torch

    def step(x):
        h = x * 2
        if torch.isnan(h).any():
            return None
        return (h + torch.randn_like(h)).sum()

    torch.manual_seed(0)
    compiled = torch.compile(step)
    for n in range(4):
        compiled(torch.ones(4) * (float("nan") if n == 3 else 1))
    """

STATISTICS = """\
    import torch

    class Trunk(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)
            self.head = torch.nn.Sequential(torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))

    def step(net, x):
        h = net.fc(x)
        if torch.isnan(h).any():
            return None
        out = net.head(h)
        return out.sum()

    torch.manual_seed(0)
    net, compiled = Trunk(), torch.compile(step)
    for n in range(3):
        compiled(net, torch.randn(4, 8))
    """

NOT_OFFERED = {
    "a cache that a skipped call writes to": CACHE,
    "random numbers that a skipped call draws": NOISE,
    "statistics of a call that is to be skipped": STATISTICS,
}
OFFERED_NEITHER = [
    program if name.startswith("a cache") else pytest.param(program, marks=pytest.mark.long)
    for name, program in NOT_OFFERED.items()
]


@pytest.mark.parametrize("program", OFFERED_NEITHER, ids=NOT_OFFERED)
def test_a_split_that_changes_what_stays_behind_is_not_offered(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(dedent(program))
    main(["fix", "--json", str(script)])
    found = json.loads(capsys.readouterr().out)
    assert not [one["offer"] for one in found["tried"] if one["offer"].endswith("_computed(…): …")]


LOGGED = """\
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.act = torch.nn.Linear(8, 8), torch.nn.ReLU(inplace=True)
            self.means = []

        def forward(self, x):
            h = self.fc(x)
            print("mean", round(h.mean().item(), 3))
            self.act(h)
            self.means.append(h.mean().item())
            torch.sigmoid_(h)
            return h.sum()

    torch.manual_seed(0)
    net = torch.compile(Net())
    for n in range(3):
        with torch.no_grad():
            net(torch.randn(4, 8))
    """


@pytest.mark.long
def test_what_a_split_tells_of_is_computed_before_it_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(dedent(LOGGED))
    main(["fix", "--json", str(script)])
    found = json.loads(capsys.readouterr().out)
    split = next(one for one in found["tried"] if one["offer"].startswith("def forward_computed("))
    assert (split["results"], split["printed"], split["after"]["graph_breaks"]) == ("equal", None, 0)


def test_what_objects_hold_is_named_as_a_user_would() -> None:
    class Counts(torch.nn.Module):
        limit = 3

        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList([torch.nn.BatchNorm1d(2, affine=False)])
            self.seen = {"rows": [1, 2.5]}

    found = held([("net", Counts())])
    assert found["net.seen['rows'][1]"] == 2.5
    assert found["len(net.seen['rows'])"] == 2
    assert found["net.blocks.0.running_mean"].tolist() == [0, 0]
    assert "net.blocks.0.running_mean" not in held([("net", Counts())], with_weights=False)


def test_a_count_of_zero_is_as_none() -> None:
    """As two counters are equal then, but not two dicts."""
    many, few = Counter({"a": 2, "b": 0}), Counter({"a": 2})
    assert held([("", SimpleNamespace(seen=many))]) == held([("", SimpleNamespace(seen=few))])
    assert held([("", SimpleNamespace(seen=dict(many)))]) != held([("", SimpleNamespace(seen=dict(few)))])


def test_what_torch_puts_on_a_compiled_module_is_no_state_of_the_program() -> None:
    model = torch.nn.Linear(2, 2)
    model.calls = 3
    found = held([("net", torch.compile(model, backend="eager"))], with_weights=False)
    assert found["net._orig_mod.calls"] == 3
    assert not [name for name in found if "_torchdynamo" in name]


def test_random_generators_are_told_apart_where_torch_has_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_tensor: torch.Tensor) -> None:
        raise RuntimeError("Numpy is not available")

    torch.manual_seed(0)
    before = generators()
    monkeypatch.setattr(torch.Tensor, "numpy", missing)
    assert generators() == before
    torch.rand(1)
    assert generators() != before
