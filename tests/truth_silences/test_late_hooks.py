"""A hook that is registered once a module is compiled is never called there, and torch says nothing of that."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as all_modules
from torch.utils.flop_counter import FlopCounterMode

from compiler_lens import Lens, explain
from compiler_lens.cli.command import interpreter

RULE = "hook-after-compile"
Register = Callable[["Net", Callable[..., None]], object]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).relu()


REGISTER: dict[str, Register] = {
    "forward hook": lambda net, hook: net.inner.register_forward_hook(hook),
    "forward pre-hook": lambda net, hook: net.inner.register_forward_pre_hook(hook),
    "backward hook": lambda net, hook: net.inner.register_full_backward_hook(hook),
    "backward pre-hook": lambda net, hook: net.inner.register_full_backward_pre_hook(hook),
}


def nothing() -> None:
    """Done between registering and the next call."""


def called(
    register: Register, then: Callable[[], object] = nothing, *, early: Register | None = None
) -> tuple[int, Lens]:
    """How often a hook is called that is registered after the first call; and the recording."""
    calls: list[int] = []

    def hook(*_: object) -> None:
        calls.append(1)

    net = Net()
    if early is not None:
        early(net, lambda *_: None)
    with Lens(strict=True) as lens:
        compiled = torch.compile(net, backend="eager")
        compiled(torch.ones(2, 3)).sum().backward()
        register(net, hook)
        then()
        compiled(torch.ones(2, 3)).sum().backward()
    return len(calls), lens


def of(net: Net) -> Callable[[Tensor], Tensor]:
    """A function that calls it: all of its call is compiled, also its own hooks."""

    def step(x: Tensor) -> Tensor:
        return net(x) + 1

    return step


def rules(lens: Lens) -> list[str]:
    return [finding.rule for finding in explain(lens.recording).findings if not finding.benign]


def screen(lens: Lens) -> str:
    return " ".join(lens.report(color=False, width=120).split())


@pytest.mark.parametrize("kind", REGISTER)
def test_a_hook_that_compiled_code_does_not_call_is_told_with_its_line(kind: str) -> None:
    calls, lens = called(REGISTER[kind])
    assert calls == 0
    (finding,) = explain(lens.recording).findings
    assert finding.rule == RULE
    assert finding.place is not None
    assert finding.place.file == __file__
    shown = screen(lens)
    assert (
        f"registers a {kind} on `Linear`, which was compiled before that: the compiled code does not call it" in shown
    )
    assert "Nothing to fix" not in shown


def test_what_is_advised_has_the_hook_called_and_nothing_is_said() -> None:
    calls, lens = called(REGISTER["forward hook"], torch.compiler.reset)
    assert (calls, RULE in rules(lens)) == (1, False)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
        calls, lens = called(REGISTER["forward hook"])
    assert (calls, RULE in rules(lens)) == (1, False)


def test_a_hook_beside_one_that_was_compiled_makes_torch_compile_again() -> None:
    calls, lens = called(REGISTER["forward hook"], early=REGISTER["forward hook"])
    assert (calls, RULE in rules(lens)) == (1, False)


def test_a_hook_of_the_module_whose_forward_is_compiled_is_called() -> None:
    calls, lens = called(lambda net, hook: net.register_forward_hook(hook))
    assert (calls, rules(lens)) == (1, [])


def test_a_hook_of_all_modules_is_not_called_for_those_that_are_compiled() -> None:
    inputs = torch.ones(2, 3)
    calls: list[str] = []
    net = Net()
    with Lens(strict=True) as lens:
        compiled = torch.compile(of(net), backend="eager")
        compiled(inputs)
        handle = all_modules.register_module_forward_hook(lambda one, *_: calls.append(type(one).__name__))
        compiled(inputs)
        handle.remove()
    assert calls == []
    assert rules(lens) == [RULE]
    shown = screen(lens)
    assert "registers a forward hook for all modules, some of which were compiled before that" in shown
    assert "skip_nnmodule_hook_guards" not in shown  # torch has no such guards of these


def test_a_hook_of_torchs_own_is_not_told() -> None:
    with Lens(strict=True) as lens:
        net = Net()
        torch.compile(net, backend="eager")(torch.ones(2, 3))
        with FlopCounterMode(net, display=False):
            net(torch.ones(2, 3))
    assert rules(lens) == []


def test_a_hook_of_a_module_that_was_not_compiled_is_not_told() -> None:
    other = Net()
    _, lens = called(lambda _net, hook: REGISTER["forward hook"](other, hook))
    assert rules(lens) == []


def test_many_modules_of_one_line_are_one_finding() -> None:
    def every(net: Net, hook: Callable[..., None]) -> None:
        for module in (net.inner, net):
            module.register_forward_hook(hook)

    with Lens(strict=True) as lens:
        net = Net()
        compiled = torch.compile(of(net), backend="eager")
        compiled(torch.ones(2, 3))
        every(net, lambda *_: None)
    (finding,) = explain(lens.recording).findings
    assert finding.rule == RULE
    assert "`Linear`, `Net`, which were compiled" in screen(lens)


def test_torch_is_left_as_it_was() -> None:
    before = nn.Module.register_forward_hook
    _, lens = called(REGISTER["forward hook"])
    lens.close()
    assert nn.Module.register_forward_hook is before


def removed(net: Net, hook: Callable[..., None], then: Callable[[], object] = nothing) -> None:
    handle = net.inner.register_forward_hook(hook)
    then()
    handle.remove()


def test_a_hook_that_is_taken_out_before_the_next_call_is_not_told() -> None:
    calls, lens = called(removed)
    assert (calls, rules(lens)) == (0, [])


def test_a_hook_that_is_taken_out_after_a_call_that_left_it_out_is_told() -> None:
    inputs, calls = torch.ones(2, 3), list[int]()
    with Lens(strict=True) as lens:
        net = Net()
        compiled = torch.compile(net, backend="eager")
        compiled(inputs)
        removed(net, lambda *_: calls.append(1), lambda: compiled(inputs))
    assert (calls, rules(lens)) == ([], [RULE])


def test_a_call_that_a_stance_makes_eager_calls_the_hook() -> None:
    inputs, calls = torch.ones(2, 3), list[int]()
    with Lens(strict=True) as lens:
        net = Net()
        compiled = torch.compile(net, backend="eager")
        compiled(inputs)
        with torch.compiler.set_stance("force_eager"):
            removed(net, lambda *_: calls.append(1), lambda: compiled(inputs))
        compiled(inputs)
    assert (calls, RULE in rules(lens)) == ([1], False)


def test_calls_are_heard_no_longer_than_until_the_next_one() -> None:
    inputs, before = torch.ones(2, 3), torch._dynamo.eval_frame._callback_from_stance
    with Lens(strict=True):
        net = Net()
        compiled = torch.compile(net, backend="eager")
        compiled(inputs)
        net.inner.register_forward_hook(lambda *_: None)
        assert torch._dynamo.eval_frame._callback_from_stance is not before
        compiled(inputs)
        assert torch._dynamo.eval_frame._callback_from_stance is before


BY_HAND: dict[str, Register] = {
    "forward hook": lambda net, hook: net.inner._forward_hooks.__setitem__(7, hook),
    "forward pre-hook": lambda net, hook: net.inner._forward_pre_hooks.__setitem__(7, hook),
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_a_hook_that_is_put_into_a_table_by_hand_is_told(kind: str) -> None:
    calls, lens = called(BY_HAND[kind])
    assert (calls, rules(lens)) == (0, [RULE])
    assert f"puts, without registering it, a {kind} on `Linear`, which was compiled before that" in screen(lens)


def test_a_hook_that_is_put_in_by_hand_beside_one_that_was_registered_is_told() -> None:
    def put(net: Net, hook: Callable[..., None]) -> None:
        removed(net, hook)
        BY_HAND["forward hook"](net, hook)

    calls, lens = called(put)
    assert (calls, rules(lens)) == (0, [RULE])
    assert "puts, without registering it" in screen(lens)


def test_a_hook_that_was_put_in_by_hand_before_the_first_call_is_not_told() -> None:
    calls, lens = called(lambda *_: None, early=BY_HAND["forward hook"])
    assert (calls, RULE in rules(lens)) == (0, False)


def test_a_hook_that_was_put_in_by_hand_is_told_as_long_as_a_lens_is_open() -> None:
    lens, net = Lens(strict=True), Net()
    compiled = torch.compile(net, backend=lens)
    compiled(torch.ones(2, 3))
    assert RULE not in rules(lens)
    net.inner._forward_hooks[7] = lambda *_: None
    assert RULE in rules(lens)
    lens.close()


SCRIPT = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(3, 3))
compiled = torch.compile(net, backend="eager")
compiled(torch.ones(2, 3))
net[0]._forward_hooks[7] = lambda *_: None
compiled(torch.ones(2, 3))
"""


def test_what_a_script_puts_in_by_hand_is_told_at_its_end(tmp_path: Path) -> None:
    """Once Python has begun to end, torch drops what was compiled."""
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [*interpreter(), "-m", "compiler_lens", "run", "train.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    assert "puts, without registering it, a forward hook on `Linear`" in " ".join((ran.stdout + ran.stderr).split())
