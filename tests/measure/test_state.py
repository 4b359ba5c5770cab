"""After it, everything is as it was before: bit for bit, whatever the trials did."""

import argparse
import random
from collections import Counter, deque
from dataclasses import dataclass
from enum import Flag
from types import SimpleNamespace

import numpy as np
import programs
import pytest
import torch

import compiler_lens
from compiler_lens.measure.sandbox.restoring import Kept, kept_settings, restoring_state
from compiler_lens.measure.sandbox.state import State


@pytest.mark.parametrize("training", [False, True])
def test_a_model_that_changes_everything_is_as_before(training: bool) -> None:
    module, x = programs.Busy(), torch.randn(6, 4)
    module.norm.eval()
    (module.linear(x).sum() * 2).backward()  # gradients from before
    gradient, seen, before, inputs = module.linear.weight.grad, module.seen, programs.state_of(module), x.clone()
    random_states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    result = compiler_lens.what_if(module, calls=[((x,), {})], training=training)
    assert len(result.trials) > 1
    programs.assert_same(programs.state_of(module), before)
    assert module.linear.weight.grad is gradient
    assert module.seen is seen
    assert torch.equal(x, inputs)
    assert torch.equal(torch.get_rng_state(), random_states[0])
    assert random.getstate() == random_states[1]
    assert np.random.get_state()[1].tolist() == random_states[2]  # noqa: NPY002


def test_each_trial_starts_from_the_same_state() -> None:
    seen = []

    class Noted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = torch.nn.Parameter(torch.zeros(1), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen_by_python(self.step, x)
            self.step.add_(1)
            x.mul_(2)
            return x * x.sum().item()

    @torch.compiler.disable
    def seen_by_python(step: torch.Tensor, x: torch.Tensor) -> None:
        note((step.item(), x.sum().item(), torch.rand(1).item()))

    note = seen.append  # a built-in method: no trial takes back what it notes
    compiler_lens.what_if(Noted(), torch.ones(2))
    begun = [at for at, (step, _, _) in enumerate(seen) if step == 0]
    trials = [seen[start:end] for start, end in zip(begun, [*begun[1:], len(seen)], strict=True)]
    assert len(trials) > 2
    longest = max(trials, key=len)
    assert [trial == longest[: len(trial)] for trial in trials] == [True] * len(trials)
    assert longest[1][0] == 1


def test_a_trial_that_raises_leaves_nothing() -> None:
    class Failing(programs.Busy):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.set_grad_enabled(False)
            super().forward(x)
            return programs.needs_a_bound(x * 0 + 1)

    module, x = Failing(), torch.ones(2, 4)
    before = programs.state_of(module)
    result = compiler_lens.what_if(module, calls=[((x,), {})])
    assert any(trial.error for trial in result.trials)
    assert torch.is_grad_enabled()
    programs.assert_same(programs.state_of(module), before)
    assert torch.equal(x, torch.ones(2, 4))


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interruption_leaves_nothing(stop: type[BaseException]) -> None:
    class Interrupted(programs.Busy):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result = super().forward(x)
            torch._dynamo.config.capture_scalar_outputs = True
            random.random()
            raise_it(stop)
            return result

    module, x = Interrupted(), torch.ones(2, 4)
    before, state = programs.state_of(module), random.getstate()
    with compiler_lens.Lens(progress=False, strict=True) as lens:
        with pytest.raises(stop):
            compiler_lens.what_if(module, x)
        torch.compile(programs.printing, backend="eager")(torch.randn(3))
        assert len(lens.recording.graph_breaks) == 1, "the lens around it hears again"
    programs.assert_same(programs.state_of(module), before)
    assert random.getstate() == state
    assert not torch._dynamo.config.capture_scalar_outputs
    assert torch._dynamo.eval_frame._stance.backend is None


@torch.compiler.disable
def raise_it(kind: type[BaseException]) -> None:
    raise kind


def test_switches_are_as_before() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        switch()
        return x * x.sum().item()

    @torch.compiler.disable
    def switch() -> None:
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)
        torch.set_default_dtype(torch.float64)
        np.random.seed(3)  # noqa: NPY002
        torch.manual_seed(3)

    with torch.enable_grad():
        compiler_lens.what_if(program, torch.randn(3))
        assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert torch.get_default_dtype() is torch.float32


def test_settings_themselves_are_put_back() -> None:
    """Dynamo puts some of them back by itself; a program that runs eagerly has nobody to do so."""
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    with kept_settings():
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.float16)
        torch.set_autocast_cache_enabled(False)
        torch.use_deterministic_algorithms(True)
        torch._dynamo.config.recompile_limit = 3
        np.random.rand()  # noqa: NPY002
    assert not torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") is torch.bfloat16
    assert torch.is_autocast_cache_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_runs_under_the_mode_around_it(mode: type) -> None:
    module = programs.Busy()
    with mode():
        x = torch.randn(6, 4)
        kept = x.clone()
        assert compiler_lens.what_if(module, calls=[((x,), {})]).best is not None
        assert torch.equal(x, kept)


def test_a_backward_that_is_still_to_come_works() -> None:
    """Parameters and inputs must not look changed to autograd."""
    module, x = programs.Busy(), torch.randn(6, 4)
    loss = (module.linear(x) ** 2).sum()
    compiler_lens.what_if(module, calls=[((x,), {})], training=True)
    loss.backward()
    earlier = torch.randn(6, 4, requires_grad=True)
    middle = earlier * 2
    outer = (middle**2).sum()
    compiler_lens.what_if(torch.nn.Linear(4, 4), middle, training=True)
    assert earlier.grad is None, "no trial runs into the graph of the inputs"
    outer.backward()
    assert torch.allclose(earlier.grad, 8 * earlier)


def test_what_a_function_reaches_is_put_back() -> None:
    total, table, model = 0, {"a": torch.zeros(2)}, torch.nn.BatchNorm1d(3)
    queue: deque[int] = deque([1], maxlen=2)

    def program(x: torch.Tensor) -> torch.Tensor:
        nonlocal total
        total += 1
        table["b"] = x
        table["a"].add_(1)
        queue.append(2)
        return model(x) * x.sum().item()

    mean = model.running_mean.clone()
    compiler_lens.what_if(program, torch.randn(4, 3))
    assert total == 0
    assert list(table) == ["a"]
    assert torch.equal(table["a"], torch.zeros(2))
    assert torch.equal(model.running_mean, mean)
    assert list(queue) == [1]


def test_global_names_are_put_back() -> None:
    compiler_lens.what_if(programs.with_globals, torch.randn(3))
    assert programs.last_input is None
    assert programs.TOTALS == {"calls": 0}


def test_a_generator_goes_on_where_it_was() -> None:
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    state = State({"generator": generator})
    torch.rand(3, generator=generator)
    state.restore()
    assert torch.equal(generator.get_state(), before)


def test_containers_of_ones_own_get_back_what_they_held() -> None:
    class Items(list[int]):
        label = "first"

    class Table(dict[str, int]):
        pass

    class Last(deque[int]):
        pass

    items, table, counts, last = Items([1, 2]), Table(a=1), Counter("aab"), Last([1, 2])
    items.label = "second"
    state = State({"items": items, "table": table, "counts": counts, "last": last})
    state.restore()
    assert (items, table, counts, last) == ([1, 2], {"a": 1}, {"a": 2, "b": 1}, deque([1, 2]))
    items.append(3)
    table["b"] = 2
    counts.update("bc")
    last.appendleft(0)
    items.label = "third"
    state.restore()
    assert (items, table, counts, last) == ([1, 2], {"a": 1}, {"a": 2, "b": 1}, deque([1, 2]))
    assert items.label == "second"


def test_a_tensor_replaced_or_made_to_need_a_gradient() -> None:
    weight = torch.ones(2, requires_grad=True)
    plain, moved = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    state = State({"weight": weight, "plain": plain, "moved": moved})
    plain.mul_(weight)
    moved.data = torch.zeros(5)
    state.restore()
    assert plain.is_leaf
    assert not plain.requires_grad
    assert torch.equal(plain, torch.ones(2))
    assert torch.equal(moved, torch.ones(2))
    assert plain._version == 0


def test_a_view_of_much_keeps_little() -> None:
    whole = torch.zeros(1000, 10)
    state = State(whole[5:7])
    whole[5:8] = 1
    state.restore()
    assert sum(kept.numel() for _, kept in state._memory) == 2 * 10 * 4
    assert torch.equal(whole[5:7], torch.zeros(2, 10))
    assert torch.equal(whole[7], torch.ones(10)), "what it was not given is not its business"


def test_strange_tensors_and_arrays() -> None:
    array = np.zeros(3)
    values = [
        torch.randn(3).to_sparse(),
        torch.zeros(2, 3, device="meta"),
        torch.zeros(1).expand(4),
        torch.zeros(0),
        torch.zeros(3, dtype=torch.complex64).conj(),
        array,
    ]
    state = State(values)
    values[2].untyped_storage().fill_(1)
    array += 1
    values.append(torch.ones(1))
    state.restore()
    assert len(values) == 6
    assert torch.equal(values[2], torch.zeros(4))
    assert not array.any()


def test_torch_still_knows_which_sizes_vary() -> None:
    """What was compiled is dropped; but a size that torch has learned to vary is not learned anew."""
    compiled = torch.compile(programs.by_size, backend="eager")
    for size in (8, 4):
        compiled(torch.randn(size, 3))
    compiler_lens.what_if(programs.item, torch.randn(4))
    with compiler_lens.Lens(progress=False, strict=True) as lens:
        for size in (8, 4, 5):
            compiled(torch.randn(size, 3))
    assert len(lens.recording.compilations) == 1


def test_torchs_own_counters_are_as_before() -> None:
    torch._dynamo.utils.counters["mine"]["count"] += 1
    before = {name: dict(counter) for name, counter in torch._dynamo.utils.counters.items()}
    compiler_lens.what_if(programs.item, torch.randn(4))
    assert {name: dict(counter) for name, counter in torch._dynamo.utils.counters.items()} == before
    del torch._dynamo.utils.counters["mine"]


class Tally:
    """Counts in its class, in slots, and in the class above."""

    __slots__ = ("__hidden", "empty", "slot")
    calls, names, table, cache = 0, [], torch.zeros(2), None

    def __init__(self) -> None:
        self.slot, self.__hidden = 0, [0]

    def count(self) -> None:
        Tally.calls += 1
        Tally.cache = torch.ones(1)
        Tally.added = 1
        self.names.append("one")
        self.table.add_(1)
        self.slot += 1
        self.__hidden[0] += 1
        self.empty = 1

    def counted(self) -> tuple[object, ...]:
        filled = hasattr(self, "empty"), hasattr(Tally, "added")
        return self.calls, list(self.names), self.table.tolist(), self.cache, self.slot, self.__hidden[0], *filled


class LaterTally(Tally):
    """Has a `__dict__` besides the slots above."""

    def count(self) -> None:
        super().count()
        self.more = 1


@dataclass(frozen=True, slots=True)
class Frozen:
    """Refuses to be set."""

    at: int = 0


class Color(Flag):
    """Python itself writes to this class."""

    RED, BLUE = 1, 2


def test_every_kind_of_holder_is_put_back() -> None:
    space, options, data = SimpleNamespace(n=0), argparse.Namespace(n=0), bytearray(b"abc")
    tally, frozen = LaterTally(), Frozen()

    @torch.compiler.disable
    def count() -> None:
        space.n += 1
        options.n += 1
        options.new = 1
        data.extend(b"d")
        tally.count()
        object.__setattr__(frozen, "at", frozen.at + 1)

    def program(x: torch.Tensor) -> torch.Tensor:
        count()
        return x * x.sum().item()

    before = tally.counted()
    compiler_lens.what_if(program, torch.randn(3))
    assert (vars(space), vars(options), data) == ({"n": 0}, {"n": 0}, b"abc")
    assert tally.counted() == before == (0, [], [0, 0], None, 0, 0, False, False)
    assert not vars(tally)
    assert frozen.at == 0


def test_counters_in_classes_of_models_and_in_classes_alone() -> None:
    class Counter:
        calls = 0

    class Base(torch.nn.Module):
        calls, training_steps = 0, {"all": 0}

    class Model(Base):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count(self)
            return x * x.sum().item()

    @torch.compiler.disable
    def count(module: Base) -> None:
        Base.calls += 1
        Counter.calls += 1
        type(module).calls = 5
        module.training_steps["all"] += 1

    compiler_lens.what_if(Model(), torch.randn(3))
    assert (Base.calls, Model.calls, Counter.calls) == (0, 0, 0)
    assert "calls" not in vars(Model)
    assert Base.training_steps == {"all": 0}


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (random.Random(3), lambda g: g.gauss(0, 1)),
        (np.random.default_rng(3), lambda g: g.random(dtype="float32")),
        (np.random.Generator(np.random.MT19937(3)), lambda g: g.normal()),
        (np.random.RandomState(3), lambda g: g.normal()),
        (np.random.RandomState(np.random.PCG64(3)), lambda g: g.normal()),
        (np.random.PCG64(3), lambda g: g.random_raw()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_random_generators_go_on_where_they_were(generator: object, draw: object) -> None:
    draw(generator)
    state = State({"g": generator})
    first = [draw(generator) for _ in range(3)]
    state.restore()
    assert [draw(generator) for _ in range(3)] == first
    state.restore()
    assert draw(generator) == first[0], "as often as one likes"


def test_what_cannot_be_put_back_is_left_alone() -> None:
    state = State(random.SystemRandom(), Color.RED, Color, torch.nn.Linear, type)
    both = Color.RED | Color.BLUE
    state.restore()
    assert both is Color.RED | Color.BLUE


def test_the_device_is_that_of_the_programs_first_tensor_that_is_not_on_the_cpu() -> None:
    model = torch.nn.Linear(2, 2)
    with restoring_state(model, torch.ones(2)) as kept:
        assert kept.device == torch.device("cpu")
    with restoring_state(lambda: 3) as kept:
        assert kept.device is None
    # No other device is here to have tensors on.
    there = [SimpleNamespace(device=torch.device(name)) for name in ("meta", "cpu", "xpu:1", "cuda:0")]
    kept = Kept(SimpleNamespace(tensors=there), lambda: None)
    assert kept.device == torch.device("xpu:1")
