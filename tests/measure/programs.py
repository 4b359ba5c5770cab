"""Programs to try, each with the way it breaks."""

import logging
from typing import Any

import torch

logger = logging.getLogger("a program")


def item(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * x.sum().item()
    return y + y.mean().item()


def rows(x: torch.Tensor) -> torch.Tensor:
    return x.relu().nonzero().float().sin()


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    print("half way")
    return y.cos()


def calls_printing(x: torch.Tensor) -> torch.Tensor:
    return printing(x * 2) + 1


def logging_function(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    logger.debug("half way")
    return y.cos()


def branching(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    return y * 2 if y.sum() > 0 else y


def needs_a_bound(x: torch.Tensor) -> torch.Tensor:
    """Captured with its number as a size, it fails: torch cannot know how often to go round."""
    count = int(x.abs().sum().item())
    return torch.stack([x.sin() for _ in range(count)]) if count else x


def by_size(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * x.shape[0]


TOTALS = {"calls": 0}
last_input: Any = None


def with_globals(x: torch.Tensor) -> torch.Tensor:
    global last_input  # noqa: PLW0603
    last_input = x
    noted()
    return x * x.sum().item()


def noted() -> None:
    TOTALS["calls"] += 1


class Experts(torch.nn.Module):
    """A mixture of experts by hand: a branch in a loop, on how many rows an expert gets."""

    def __init__(self) -> None:
        super().__init__()
        self.router = torch.nn.Linear(8, 2)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice, out = self.router(x).argmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            chosen = torch.where(choice == number)[0]
            if chosen.numel() > 0:
                out = out.index_add(0, chosen, expert(x[chosen]))
        return out


class BranchFree(Experts):
    """The same without the branch: only the op is in the way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice, out = self.router(x).argmax(-1), torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            chosen = torch.where(choice == number)[0]
            out = out.index_add(0, chosen, expert(x[chosen]))
        return out


class Tagger(torch.nn.Module):
    """An LSTM in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.lstm, self.head = torch.nn.Linear(4, 4), torch.nn.LSTM(4, 4), torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.first(x))[0])


class Counting(torch.nn.Module):
    """Compiled anew at each step."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        return x * self.step


class Busy(torch.nn.Module):
    """Everything that a call can change: buffers, attributes, lists, random numbers, its input; it breaks on .item()."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))
        self.step, self.history, self.notes, self.last = 0, [], {"calls": 0}, None
        self.helper = Helper()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        self.step += 1
        self.history.append(self.step)
        self.notes["calls"] += 1
        self.helper.calls += 1
        y = torch.nn.functional.dropout(self.norm(self.linear(x)), 0.5, training=True)
        self.seen = self.seen + y.detach().sum(0)
        self.last = y.detach()
        return y * y.sum().item()


class Helper:
    """A plain object in an attribute."""

    def __init__(self) -> None:
        self.calls = 0


def state_of(module: Any) -> dict[str, Any]:
    """All that `Busy` has, as values to compare."""
    return {
        **{name: value.clone() for name, value in module.state_dict().items()},
        **{f"{name}.grad": p.grad if p.grad is None else p.grad.clone() for name, p in module.named_parameters()},
        **{f"{name}._version": p._version for name, p in (*module.named_parameters(), *module.named_buffers())},
        "modes": [m.training for m in module.modules()],
        "plain": (module.step, list(module.history), dict(module.notes), module.last, module.helper.calls),
    }


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Bit for bit."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other[name]), name
        else:
            assert value == other[name], name
