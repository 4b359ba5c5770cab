"""Programs in which torch runs hooks of ours while Dynamo's frame callback is active, or compiles what is out of the way.

A file for each subject, a tuple of programs for each kind. A program takes what compiles a function, and returns what
to call; it is called more than once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Step = Callable[[], object]
Compiled = Callable[..., Any]
Program = Callable[[Compiled], Step]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def ones(*sizes: int) -> Tensor:
    return torch.ones(*sizes).requires_grad_()


def kinds() -> dict[str, dict[str, Program]]:
    """Return the programs by kind and name."""
    from counted_programs import backwards, breaks, operators, python, shapes

    modules = (backwards, operators, shapes, breaks, python)
    return {kind: {p.__name__: p for p in found} for module in modules for kind, found in module.KINDS.items()}
