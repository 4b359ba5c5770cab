"""The calls to make of the user's program: what the user gave, in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct

from compiler_lens.capture.torch_api.tensors import leaves_with_paths
from compiler_lens.recording.errors import UsageError


class Call(Struct, frozen=True):
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def leaves(self) -> list[tuple[Any, Any]]:
        """Every value among the arguments with its path, in pytree's order."""
        return leaves_with_paths((self.args, dict(self.kwargs)))

    @property
    def tensors(self) -> list[tuple[Any, torch.Tensor]]:
        """The tensors among the arguments, each with its path."""
        return [(path, leaf) for path, leaf in self.leaves if isinstance(leaf, torch.Tensor)]


def as_calls(inputs: tuple[Any, ...], kwargs: Mapping[str, Any], calls: Any) -> tuple[Call, ...]:
    """Return the calls to make. One call is made twice: what only shows at the second, like a counter, then shows.

    Raises `UsageError` for what cannot be meant.
    """
    if calls is None:
        one = Call(inputs, kwargs)
        return one, one
    if inputs or kwargs:
        raise UsageError("give the inputs either as arguments, or as calls=[(args, kwargs), …]; not both")
    if not isinstance(calls, Sequence) or isinstance(calls, (str, bytes)) or not calls:
        raise UsageError(f"calls is a list with one (args, kwargs) for each call, not {type(calls).__name__}")
    return tuple(as_call(item) for item in calls)


def as_call(item: Any) -> Call:
    """Return one call from `(args, kwargs)`, from a tuple of arguments, a dict of named ones, or a single argument."""
    if isinstance(item, Mapping):
        return Call((), item)
    if not isinstance(item, (tuple, list)):
        return Call((item,), {})
    if len(item) == 2 and isinstance(item[0], (tuple, list)) and isinstance(item[1], Mapping):  # noqa: PLR2004
        return Call(tuple(item[0]), item[1])
    return Call(tuple(item), {})
