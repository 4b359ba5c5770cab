"""The calls that a trial makes: what the user gave, in one form; and which sizes differ between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from compiler_lens.measure.changes import MARKS, Change
from compiler_lens.recording.errors import UsageError


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def leaves(self) -> list[tuple[Any, Any]]:
        """Every value among the arguments with its path, in pytree's order."""
        found: list[tuple[Any, Any]] = pytree.tree_flatten_with_path((self.args, dict(self.kwargs)))[0]
        return found

    @property
    def tensors(self) -> list[tuple[Any, torch.Tensor]]:
        """The tensors among the arguments, each with its path."""
        return [(path, leaf) for path, leaf in self.leaves if isinstance(leaf, torch.Tensor)]


def as_calls(inputs: tuple[Any, ...], kwargs: Mapping[str, Any], calls: Any) -> tuple[Call, ...]:
    """The calls to make. One call is made twice: what only shows at the second, like a counter, then shows.

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
    """One call from `(args, kwargs)`, from a tuple of arguments, a dict of named ones, or a single argument."""
    if isinstance(item, Mapping):
        return Call((), item)
    if not isinstance(item, (tuple, list)):
        return Call((item,), {})
    if len(item) == 2 and isinstance(item[0], (tuple, list)) and isinstance(item[1], Mapping):  # noqa: PLR2004
        return Call(tuple(item[0]), item[1])
    return Call(tuple(item), {})


def marks(function: Callable[..., Any], calls: Sequence[Call]) -> Change | None:
    """Marks for the sizes of input tensors that differ from call to call; None if none do."""
    tables = [{str(path): (path, tensor) for path, tensor in call.tensors} for call in calls]
    found: dict[str, tuple[int, ...]] = {}
    for key, (_, tensor) in tables[0].items():
        shapes = {tuple(table[key][1].shape) for table in tables if key in table}
        if len({len(shape) for shape in shapes}) == 1:
            dims = tuple(dim for dim in range(tensor.dim()) if len({shape[dim] for shape in shapes}) > 1)
            if dims:
                found[key] = dims
    code = tuple(_written(function, tables[0][key][0], dims) for key, dims in found.items())
    places = tuple(_places(tables, found))
    return Change(MARKS.name, code, MARKS.price, MARKS.unless, marks=places) if places else None


def _places(
    tables: Sequence[Mapping[str, tuple[Any, torch.Tensor]]], found: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[int, int, int]]:
    for call, table in enumerate(tables):
        for position, key in enumerate(table):
            for dim in found.get(key, ()):
                yield call, position, dim


def mark(change: Change, calls: Sequence[Call]) -> None:
    """Put the marks on the inputs."""
    for call, position, dim in change.marks:
        torch._dynamo.mark_dynamic(calls[call].tensors[position][1], dim)  # noqa: SLF001 -- its documented name


def _written(function: Callable[..., Any], path: Any, dims: tuple[int, ...]) -> str:
    (first, *rest) = path[1:]
    names = _parameters(function)
    where = getattr(first, "idx", None)
    name = f"args[{where}]" if where is not None else str(getattr(first, "key", first))
    if where is not None and where < len(names):
        name = names[where]
    return f"torch._dynamo.mark_dynamic({name}{''.join(map(str, rest))}, {dims[0] if len(dims) == 1 else list(dims)})"


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        known = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function).parameters
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in known.items() if parameter.kind in positional]
