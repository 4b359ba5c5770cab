"""What one writes first: `compiler-lens fix` tries the right change, and recommends none that changes results."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compiler_lens.cli import main


@pytest.fixture
def fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def of(script: str, *options: str) -> Any:
        Path("train.py").write_text("import torch\n\n" + dedent(script).lstrip())
        assert main(["fix", "--json", *options, "train.py"]) == 0
        return json.loads(capsys.readouterr().out)

    return of


def test_a_loss_that_is_rooted_above_a_number_is_chosen_with_its_gradients(fixed: Any) -> None:
    found = fixed("""
        w = torch.zeros(3, requires_grad=True)

        @torch.compile
        def step(x):
            loss = (x * w).pow(2).sum()
            if loss > 1:
                loss = loss.sqrt()
            return loss

        for scale in (0.0, 1.0, 3.0):
            step(torch.ones(3) * scale).backward()
            with torch.no_grad():
                w += 1
    """)
    assert "loss.clamp(min=1).sqrt()" in found["best"]["patch"]
    assert (found["best"]["results"], found["best"]["after"]["graph_breaks"]) == ("equal", 0)


@pytest.mark.long
def test_a_quotient_whose_gradient_is_lost_is_tried_and_not_recommended(fixed: Any) -> None:
    found = fixed("""
        w = torch.ones(3, requires_grad=True)

        @torch.compile
        def step(x):
            x = x * w
            n = x.pow(2).sum()
            if n > 0:
                x = x / n
            return x.sum()

        for scale in (1.0, 0.0):
            step(torch.ones(3) * scale).backward()
    """)
    tried = next(one for one in found["tried"] if "torch.where" in one["offer"])
    assert (tried["results"], tried["helps"]) == ("differ", False)
    assert "gradient" in tried["difference"]
    # The branch, and the sum after it, stay Python.
    assert [one["offer"] for one in found["tried"] if one["helps"]] == ["def step_computed(…): … before if n > 0:"]


@pytest.mark.long
def test_a_setting_whose_effect_another_cause_hides_is_kept(fixed: Any) -> None:
    """Once `forward` is compiled whole, its list makes each call compile again, whatever the counter does."""
    found = fixed(
        """
        class Inner(torch.nn.Module):
            calls = 0

            def forward(self, x):
                self.calls += 1
                return x * self.calls

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.seen = Inner(), []

            def forward(self, x):
                x = self.inner(x)
                if x.sum() > 1e6:
                    x = x / 2
                self.seen.append(x.shape)
                return x + len(self.seen)

        model = Model()
        compiled = torch.compile(model)
        for _ in range(4):
            compiled(torch.ones(3))
        """,
        "--own-inputs",
    )
    assert "allow_unspec_int_on_nn_module = True" in found["best"]["patch"]
    assert found["best"]["after"]["recompiles"] == 3


@pytest.mark.long
def test_a_limit_by_numpy_is_kept_an_array(fixed: Any) -> None:
    """With `capture_scalar_outputs`, too, torch would have to know the larger of both."""
    found = fixed(
        """
        import numpy as np

        @torch.compile
        def kept(x, smallest=0.05):
            sizes = (x * x).numpy()
            limit = max(smallest, float(np.percentile(sizes, 10)))
            return x * torch.from_numpy(sizes > limit)

        for _ in range(3):
            kept(torch.rand(5))
        """,
        "--own-inputs",
    )
    assert "+    limit = np.fmax(smallest, np.percentile(sizes, 10))" in found["best"]["patch"]
    assert (found["best"]["results"], found["best"]["after"]["graph_breaks"]) == ("equal", 0)


@pytest.mark.long
def test_what_keeps_books_stays_python_and_the_rest_is_compiled_whole(fixed: Any) -> None:
    """No line of the program is lost: neither its clock nor its list nor what it says."""
    found = fixed(
        """
        import time

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.calls, self.means, self.times = 0, [], []
                self.layer = torch.nn.Linear(3, 3)

            def forward(self, x):
                started = time.time()
                self.calls += 1
                y = self.layer(x).relu()
                if self.calls % 2 == 0:
                    print("call", self.calls, y.sum().item())
                self.means.append(y.mean().item())
                self.times.append(time.time() - started)
                return y

        model = Model()
        compiled = torch.compile(model)
        for _ in range(4):
            compiled(torch.ones(3)).sum().backward()
        assert len(model.means) == len(model.times) == model.calls == 4
        """,
        "--own-inputs",
    )
    patch = found["best"]["patch"]
    assert "+        y, kept = self.forward_computed(x)" in patch
    assert [line for line in patch.split("\n") if line.startswith("+torch._dynamo") or "is_compiling" in line] == []
    after = found["best"]["after"]
    assert (after["graph_breaks"], after["recompiles"], after["eager_functions"]) == (0, 0, 0)
    assert found["best"]["results"] == "equal"


HISTORY = """
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.history = []

        def forward(self, x, mask):
            scores = self.layer(x) @ x.transpose(-1, -2)
            if mask is not None and not mask.all():
                scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
            weights = scores.softmax(-1)
            self.history.append(weights.detach().mean())
            return x + weights @ x
"""


def test_a_list_in_each_layer_is_added_to_after_the_call_where_nothing_else_keeps_books(fixed: Any) -> None:
    found = fixed(
        HISTORY
        + """
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Attention() for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x, None)
            return x

    model = Model()
    compiled = torch.compile(model, backend="aot_eager")
    for n in range(10):
        compiled(torch.randn(2, 3, 4)).sum().backward()
    assert [len(layer.history) for layer in model.layers] == [10, 10]
    """,
        "--own-inputs",
    )
    after = found["best"]["after"]
    assert (after["graph_breaks"], after["recompiles"], after["eager_functions"]) == (0, 0, 0)
    assert found["best"]["results"] == "equal"
    assert "+            added.append((self, weights.detach().mean()))" in found["best"]["patch"]
    assert "                owner.history.append(value)" in found["best"]["patch"]
    assert not found["left"]


@pytest.mark.long
def test_a_mask_a_list_in_each_layer_a_counter_a_length_and_a_warning_are_mended_together(fixed: Any) -> None:
    """By itself each of them only brings the function as far as the next one, and to the recompile limit."""
    found = fixed(
        "\n    import warnings\n"
        + HISTORY
        + """
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Attention() for _ in range(2))
            self.step = 0

        def forward(self, x, lengths):
            self.step += 1
            longest = lengths.max().item()
            x = x[:, :longest]
            mask = torch.arange(longest)[None, :] < lengths[:, None]
            for layer in self.layers:
                x = layer(x, mask)
            if x.abs().max() > 1e3:
                warnings.warn(f"large at step {self.step}: {x.abs().max()}")
            return x.tanh(), mask

    model = Model()
    compiled = torch.compile(model, backend="aot_eager")
    for n in range(10):
        y, mask = compiled(torch.randn(2, 5, 4), torch.tensor([5, 4 + n % 2]))
        y[mask].sum().backward()
    """,
        "--own-inputs",
    )
    after = found["best"]["after"]
    assert (after["graph_breaks"], after["recompiles"], after["eager_functions"]) == (0, 0, 0)
    assert found["best"]["results"] == "equal"
    patch = found["best"]["patch"]
    assert "+        if mask is not None:\n             scores = scores.masked_fill(" in patch
    assert "                owner.history.append(value)" in patch
    assert "+torch._dynamo.config.capture_scalar_outputs = True" in patch


@pytest.mark.long
def test_pythons_random_numbers_are_drawn_in_the_graph_as_they_were(fixed: Any) -> None:
    found = fixed(
        """
        import random

        @torch.compile
        def step(x):
            y = x.abs() * random.random()
            return y + 1 if x.dim() > 5 else y

        for _ in range(3):
            step(torch.randn(3))
        """,
        "--own-inputs",
    )
    tried = next(one for one in found["tried"] if "random.uniform(0.0, 1.0)" in one["offer"])
    assert tried["results"] == "equal"
    assert tried["after"]["graph_breaks"] == 0
