"""Marks on the inputs whose sizes differ from call to call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from compiler_lens.measure.calls import Call
from compiler_lens.measure.what_if.changes import MARKS, Change


def marks(function: Callable[..., Any], calls: Sequence[Call]) -> Change | None:
    """Return marks for the sizes of input tensors that differ from call to call; None if none do."""
    tables = [{str(path): (path, tensor) for path, tensor in call.tensors} for call in calls]
    found: dict[str, tuple[int, ...]] = {}
    for key, (_, tensor) in tables[0].items():
        shapes = {tuple(table[key][1].shape) for table in tables if key in table}
        if len({len(shape) for shape in shapes}) == 1:
            dims = tuple(dim for dim in range(tensor.dim()) if len({shape[dim] for shape in shapes}) > 1)
            if dims:
                found[key] = dims
    places: list[tuple[int, int, int]] = []
    for call, table in enumerate(tables):
        for position, key in enumerate(table):
            places += [(call, position, dim) for dim in found.get(key, ())]
    code = tuple(_written(function, tables[0][key][0], dims) for key, dims in found.items())
    return Change(MARKS.name, code, MARKS.price, MARKS.unless, marks=tuple(places)) if places else None


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
