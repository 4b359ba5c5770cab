"""Which program is meant: one that is compiled is unwrapped, one that only calls such a program is not."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from compiler_lens.capture.torch_api.dynamo import as_written


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_a_compiled_program_is_unwrapped_with_its_dynamic() -> None:
    module = nn.Linear(2, 2)
    assert as_written(torch.compile(module, backend="eager", dynamic=True)) == (module, True)
    assert as_written(torch.compile(double, backend="eager", dynamic=False)) == (double, False)
    assert as_written(torch.compile(double, backend="eager")) == (double, None)
    copied = copy.deepcopy(torch.compile(module, backend="eager"))
    assert as_written(copied)[0] is copied._orig_mod
    assert as_written(double) == (double, None)
    assert as_written(3) == (3, None)


def test_what_wraps_a_compiled_function_is_not_that_function() -> None:
    compiled = torch.compile(double, backend="eager")

    @functools.wraps(compiled)
    def more(x: torch.Tensor) -> torch.Tensor:
        return compiled(x) + 1

    assert as_written(more)[0] is more


class Wrapper:
    """Hands attributes on, as FullyShardedDataParallel does."""

    def __init__(self, module: Callable[..., Any]) -> None:
        self.module = module

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x) + 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["module"], name)


def test_what_hands_attributes_on_is_not_what_it_holds() -> None:
    wrapper = Wrapper(torch.compile(nn.Linear(2, 2), backend="eager"))
    assert as_written(wrapper)[0] is wrapper
