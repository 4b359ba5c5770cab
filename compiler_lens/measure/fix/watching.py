"""A program watched while it runs: each outermost call of a compiled function, and what it gave."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch.nn.modules import module as modules

from compiler_lens.capture.torch_api import dynamo
from compiler_lens.capture.torch_api.measuring import pytree, version_of
from compiler_lens.capture.torch_api.places import Function, put_in
from compiler_lens.measure.fix.results import Keeper
from compiler_lens.measure.program import leaves


class _Thread(threading.local):
    is_inside = False  # of a compiled call


class Watch:
    """Keeps what compiled functions return, what they change in place, and the gradients of parameters.

    Args:
        steps: how many outermost calls there may be; 0 for any number.
        enough: called before the call that would be one too many. It does not return.
    """

    def __init__(self, steps: int, enough: Callable[[], object]) -> None:
        self.keeper = Keeper()
        self.calls = 0
        self._steps, self._enough = steps, enough
        self._here = _Thread()
        # Parameters and buffers, in the order of their making. They are kept alive: when a program's are collected
        # depends on how it is compiled.
        self._state: dict[int, torch.Tensor] = {}
        self._given: list[torch.Tensor] = []  # leaves that need a gradient, of the last call

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch all calls of the process while the block runs."""
        compiled, backward = dynamo.COMPILED.find(), dynamo.BACKWARD.find()
        hooks = [
            modules.register_module_parameter_registration_hook(self._register),
            modules.register_module_buffer_registration_hook(self._register),
        ]
        undo = [put_in(*compiled[:2], self._compiles), put_in(*backward[:2], self._backward)]
        try:
            yield
        finally:
            for step in (*undo, *(hook.remove for hook in hooks)):
                step()

    def keep_state(self) -> None:
        """Keep gradients, parameters and buffers as they are in the end."""
        self._keep_gradients()
        self.keeper.keep("state", self.calls, self._state.values())

    # -- calls

    def _compiles(self, original: Function) -> Function:
        @functools.wraps(original)
        def compiles(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            return self._watched(made) if isinstance(made, FunctionType) else made  # else a module: its forward

        return compiles

    def _watched(self, compiled: Function) -> Function:
        @functools.wraps(compiled)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._here.is_inside:
                return compiled(*args, **kwargs)
            if self._steps and self.calls >= self._steps:
                self._enough()
            given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            before = [_version(tensor) for tensor in given]
            self._here.is_inside = True
            try:
                result = compiled(*args, **kwargs)
            finally:
                self._here.is_inside = False
            self._keep(result, given, before)
            return result

        return dynamo.in_place_of(watched, compiled)  # type: ignore[no-any-return]

    def _keep(self, result: Any, given: list[torch.Tensor], before: list[int]) -> None:
        changed = [tensor for tensor, version in zip(given, before, strict=True) if _version(tensor) != version]
        self.keeper.keep("result", self.calls, leaves(result))
        self.keeper.keep("argument", self.calls, changed)
        self._given = [tensor for tensor in given if tensor.is_leaf and tensor.requires_grad]
        self.calls += 1

    # -- gradients

    def _register(self, _module: Any, _name: str, tensor: Any) -> None:
        if isinstance(tensor, torch.Tensor):
            self._state.setdefault(id(tensor), tensor)

    def _backward(self, original: Function) -> Function:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if not self._here.is_inside:
                self._keep_gradients()
            return result

        return backward

    def _keep_gradients(self) -> None:
        # One for each: what has none in one run and has one in another differs.
        self.keeper.keep("gradient", self.calls, [t.grad for t in (*self._state.values(), *self._given) if t.is_leaf])


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else version_of(tensor)
