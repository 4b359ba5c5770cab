"""Arguments of a call made of the program's own: other tensors, or one bool or number turned."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import Module

from compiler_lens.capture.torch_api import asked
from compiler_lens.capture.torch_api.measuring import pytree
from compiler_lens.facts.measured.other_inputs import Inputs, Way

_LARGE = 1_000
_DEEPEST = 3  # objects in one another that are looked into
_FLAGS, _NUMBERS = 6, 3  # of a call, that are turned
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


def ways(function: Any, given: Any) -> Iterator[Way]:
    """Yield the ways to make other arguments of some, those that the program may well get first.

    Args:
        function: what they are given to, as it is written.
        given: a tuple and a dict.
    """
    turned = {inputs: tuple(_with_another(inputs, function, given)) for inputs in _OTHER}
    for inputs in Inputs:
        if inputs in turned:
            yield from (Way(inputs, argument) for argument in turned[inputs])
        elif _with_other_tensors(inputs, given) is not None:
            yield Way(inputs)


def made(way: Way, function: Any, given: Any) -> Any:
    """Return arguments made of others, in one of the `ways`."""
    if way.inputs.has_other_tensors:
        return _with_other_tensors(way.inputs, given)
    return _with_another(way.inputs, function, given)[way.argument]


def not_made(given: Any) -> str:
    """Return what among some arguments no other tensors can be made of; empty where no tensor is among them."""
    every = _leaves(given)
    tensors = [leaf for leaf in every if isinstance(leaf, torch.Tensor)]
    strange = [_named(one) for one in tensors if not _is_plain(one)]
    objects = [type(leaf).__name__ for leaf in every if not isinstance(leaf, (torch.Tensor, *_PLAIN))]
    return next(iter([*strange, *map(_named, tensors), *objects]), "")


# -- bools and numbers


def _with_another(inputs: Inputs, function: Any, given: Any) -> Mapping[str, Any]:
    """Return arguments with one bool or number turned each, by what that is: `verbose=True`."""
    parameters = _parameters(function)
    kind, most = _OTHER[inputs]
    found = {}
    flat, spec = pytree.tree_flatten_with_path(given)
    for place, (path, leaf) in enumerate(flat):
        if isinstance(leaf, (bool, float)) and type(leaf) is kind and math.isfinite(leaf):
            values = [one for _, one in flat]
            values[place] = _other(leaf)
            found[f"{_name(path, parameters)}={values[place]}"] = pytree.tree_unflatten(values, spec)
    if inputs is Inputs.FLAG:
        found |= {f"{name}={one}": (given[0], {**given[1], name: one}) for name, one in _defaults(parameters, given)}
    return dict(list(found.items())[:most])


_OTHER: Mapping[Inputs, tuple[type, int]] = {Inputs.FLAG: (bool, _FLAGS), Inputs.NUMBER: (float, _NUMBERS)}


def _other(value: bool | float) -> bool | float:
    """Return another value: half of a number, as a probability or a weight may not be larger, nor below zero."""
    return not value if isinstance(value, bool) else value / 2 or 0.5


def _name(path: Sequence[Any], parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return what an argument is called, with where a value stands in it."""
    side, first, *rest = path
    within: str = pytree.keystr(tuple(rest))
    if side.idx:  # those by keyword
        return f"{first.key}{within}"
    names = [name for name, one in parameters.items() if one.kind in _BY_PLACE]
    name = names[first.idx] if first.idx < len(names) else f"argument {first.idx + 1}"
    return name + within


_BY_PLACE = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function; of a module, and of what calls one, those of its forward."""
    called = asked.whose_call(function)
    try:
        return inspect.signature(called.forward if isinstance(called, Module) else called).parameters
    except (TypeError, ValueError):  # one in C, or what says nothing of itself
        return {}


def _defaults(parameters: Mapping[str, inspect.Parameter], given: Any) -> Iterator[tuple[str, bool]]:
    """Yield bools that a call did not give, turned: the program may get them from another call of its own."""
    for number, (name, one) in enumerate(parameters.items()):
        is_given = name in given[1] or (one.kind is one.POSITIONAL_OR_KEYWORD and number < len(given[0]))
        if isinstance(one.default, bool) and not is_given and one.kind is not one.POSITIONAL_ONLY:
            yield name, not one.default


# -- tensors


def _with_other_tensors(inputs: Inputs, given: Any) -> Any:
    """Return arguments with other tensors; None where they would be the same, or cannot be made."""
    tensors = [leaf for leaf in _leaves(given) if isinstance(leaf, torch.Tensor)]
    if not all(map(_is_plain, tensors)) or (inputs is Inputs.ONE_ROW and not _have_rows(tensors)):
        return None
    if inputs is Inputs.GRADIENTS and not torch.is_grad_enabled():
        return None
    new = {id(one): _new(inputs, one) for one in tensors}  # one tensor that is given twice stays one
    if all(new[id(one)] is one for one in tensors):
        return None
    return _with_new(given, new)


def _leaves(given: Any, deep: int = _DEEPEST) -> list[Any]:
    """Return what some arguments hold, also in objects that a batch may come as."""
    found: list[Any] = []
    for leaf in pytree.tree_leaves(given):
        names = _fields(leaf) if deep else ()
        found += [one for name in names for one in _leaves(getattr(leaf, name), deep - 1)] if names else [leaf]
    return found


def _with_new(given: Any, new: Mapping[int, torch.Tensor], deep: int = _DEEPEST) -> Any:
    """Return arguments with other tensors, and the objects that hold these copied."""

    def one(leaf: Any) -> Any:
        names = _fields(leaf) if deep else ()
        if not names:
            return new.get(id(leaf), leaf)
        made = copy.copy(leaf)
        for name in names:
            object.__setattr__(made, name, _with_new(getattr(leaf, name), new, deep - 1))  # it may be frozen
        return made

    return pytree.tree_map(one, given)


def _fields(leaf: Any) -> Sequence[str]:
    """Return the names of what a dataclass or a namespace holds; none of anything else."""
    if type(leaf) is SimpleNamespace:
        return list(vars(leaf))
    if not dataclasses.is_dataclass(leaf) or isinstance(leaf, (type, Module)):
        return ()
    return [one.name for one in dataclasses.fields(leaf) if hasattr(leaf, one.name)]


def _named(tensor: torch.Tensor) -> str:
    kinds = [str(tensor.dtype), "" if tensor.layout is torch.strided else str(tensor.layout), _state(tensor)]
    return f"{type(tensor).__name__} ({', '.join(filter(None, kinds))})"


def _state(tensor: torch.Tensor) -> str:
    known = {"nested": tensor.is_nested, "meta": tensor.is_meta, "made in inference mode": tensor.is_inference()}
    empty = "" if tensor.is_nested or tensor.numel() else "empty"
    return next((word for word, is_so in known.items() if is_so), empty)


def _is_plain(tensor: torch.Tensor) -> bool:
    is_known = type(tensor) in {torch.Tensor, torch.nn.Parameter} and tensor.layout is torch.strided
    return is_known and not (tensor.is_nested or tensor.is_meta or tensor.is_quantized or tensor.is_inference())


def _have_rows(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether all tensors have the same number of rows, more than one."""
    rows = {len(one) if one.dim() else 1 for one in tensors}
    return len(rows) == 1 and rows != {1}


def _new(inputs: Inputs, tensor: torch.Tensor) -> torch.Tensor:
    """Return another tensor in place of one; that one itself where there is none of this kind."""
    kind = "float" if tensor.is_floating_point() else "bool" if tensor.dtype is torch.bool else "int"
    make = None if tensor.is_complex() or not tensor.numel() else _NEW[inputs].get(kind)
    with torch.no_grad():
        new = make(tensor.detach()) if make else None
    if new is None:
        return tensor
    return new.requires_grad_(tensor.requires_grad or inputs is Inputs.GRADIENTS) if kind == "float" else new


def _turned(tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor.flip(*range(tensor.dim())) if tensor.dim() else None


def _with_nan(tensor: torch.Tensor) -> torch.Tensor:
    new = tensor.clone()
    new[(0,) * tensor.dim()] = torch.nan
    return new


def _strided(tensor: torch.Tensor) -> torch.Tensor | None:
    return torch.stack((tensor, tensor), -1)[..., 0] if tensor.dim() else None


def _first_row(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].clone()


_Make = Callable[[torch.Tensor], "torch.Tensor | None"]
_NEW: Mapping[Inputs, Mapping[str, _Make]] = {
    Inputs.NEGATED: {"float": torch.neg, "bool": torch.logical_not, "int": _turned},  # an index may not be negative
    Inputs.ZEROS: dict.fromkeys(("float", "bool", "int"), torch.zeros_like),
    Inputs.ONES: dict.fromkeys(("float", "bool"), torch.ones_like),
    Inputs.LARGE: {"float": lambda tensor: tensor * _LARGE},
    Inputs.NAN: {"float": _with_nan},
    Inputs.HALF: {"float": lambda tensor: None if tensor.dtype is torch.float16 else tensor.half()},
    Inputs.DOUBLE: {"float": lambda tensor: None if tensor.dtype is torch.float64 else tensor.double()},
    Inputs.ONE_ROW: dict.fromkeys(("float", "bool", "int"), _first_row),
    Inputs.STRIDED: dict.fromkeys(("float", "bool", "int"), _strided),
    Inputs.GRADIENTS: {"float": lambda tensor: None if tensor.requires_grad else tensor.clone()},
}
