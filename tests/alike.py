"""Runs a function and its rewrite on many inputs, and says what of each run is another with the rewrite."""

from __future__ import annotations

import copy
import inspect
import linecache
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import NamedTuple

import torch

from compiler_lens.facts.breaks.rewrites import Rewrite

Arguments = Mapping[str, torch.Tensor]

UP = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 4.0, 0.5]])
ARGUMENTS: Arguments = {  # what a parameter of each name is given
    "x": UP,
    "y": torch.tensor([[0.5, -2.0, 1.5], [3.0, 0.25, -1.0]]),
    "w": torch.tensor([1.5, -0.5, 2.0]),
    "t": torch.tensor(0.75),
    "m": torch.tensor([[True, False, True], [False, True, False]]),
    "rows": torch.tensor([True, False]),
    "on": torch.tensor(True),
}


FILE = "/home/user/app/user_model.py"


def loaded(text: str, **names: object) -> ModuleType:
    """The user's module, with its lines where torch looks for them: torch 2.11 wraps functions without a file."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    module = ModuleType("user_model")
    module.__dict__.update(names)
    sys.modules["user_model"] = module  # torch.cond's functions are found by the name of their module
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def forget_loaded() -> None:
    """Take the lines and the module away again."""
    linecache.cache.pop(FILE, None)
    sys.modules.pop("user_model", None)


class Run(NamedTuple):
    """One way to call both."""

    name: str
    arguments: Arguments
    takes_gradients: bool = False
    of_leaves: bool = False
    changed_after: bool = False  # arguments are changed in place after the call


class Ended(NamedTuple):
    """What became of a call."""

    raised: str
    results: object = None
    arguments: tuple[torch.Tensor, ...] = ()
    gradients: tuple[torch.Tensor | None, ...] = ()
    backward_raised: str = ""


def applied(text: str, found: Rewrite) -> str:
    """The text with the lines replaced, as a user would do it."""
    lines, size = text.split("\n"), len(found.before)
    for start in range(len(lines) - size + 1):
        indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
        if [line.rstrip() for line in lines[start : start + size]] == [f"{indent}{b}".rstrip() for b in found.before]:
            return "\n".join([*lines[:start], *(f"{indent}{a}" for a in found.after), *lines[start + size :]])
    raise AssertionError(found.before)


def differences(old: ModuleType, new: ModuleType) -> dict[str, list[str]]:
    """What differs of `f` in two modules, with the names of the runs in which it does."""
    found: dict[str, list[str]] = {}
    for run in runs(old.f):
        for what in _differing(_ended(old, run), _ended(new, run)):
            found.setdefault(what, []).append(run.name)
    return found


# -- the runs

VALUES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as given": lambda t: t,
    "negated": lambda t: -t,
    "zeros": lambda t: t * 0,
    "ones": lambda t: t * 0 + 1,
    "above 0": lambda t: t.abs() + 0.1,
    "below 0": lambda t: -t.abs() - 0.1,
    "with nan": lambda t: torch.where(t == t.max(), torch.nan, t),
    "nan": lambda t: t * torch.nan,
    "with inf": lambda t: torch.where(t == t.max(), torch.inf, t),
    "with 0": lambda t: torch.where(t == t.max(), 0.0, t),
    "large": lambda t: t * 1e30,
    "small": lambda t: t / 1e3,
}
DTYPES = (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool)


def runs(f: Callable[..., object]) -> Iterator[Run]:
    """Yield each way to call a function."""
    given = {name: ARGUMENTS[name] for name in inspect.signature(f).parameters if name in ARGUMENTS}
    for name, change in VALUES.items():
        values = {n: change(t) if t.is_floating_point() else t for n, t in given.items()}
        yield Run(name, values)
        yield Run(f"{name}, backward", values, takes_gradients=True)
    inverted = {n: ~t if t.dtype == torch.bool else t for n, t in given.items()}
    no_true = {n: t & False if t.dtype == torch.bool else t for n, t in given.items()}
    for name, values in (("inverted", inverted), ("nothing true", no_true)):
        if any(t.dtype == torch.bool for t in given.values()):
            yield Run(name, values)
            yield Run(f"{name}, backward", values, takes_gradients=True)
    for sign in (1, -1):
        signed = {n: t * sign if t.is_floating_point() else t for n, t in given.items()}
        of = "" if sign > 0 else ", negated"
        yield Run(f"of leaves{of}", signed, takes_gradients=True, of_leaves=True)
        yield Run(f"changed after{of}", signed, changed_after=True)
        for dtype in DTYPES:
            yield Run(f"{dtype}{of}", {n: _as(t, dtype) for n, t in signed.items()})
            yield Run(f"no dimensions of {dtype}{of}", {n: _as(t, dtype).flatten()[0] for n, t in signed.items()})
            for one in given if len(given) > 1 else ():
                yield Run(f"{one} {dtype}{of}", {n: _as(t, dtype) if n == one else t for n, t in signed.items()})
        yield Run(f"float16, backward{of}", {n: _as(t, torch.float16) for n, t in signed.items()}, takes_gradients=True)
        for name, shaped in SHAPES.items():
            yield Run(f"{name}{of}", {n: shaped(t) for n, t in signed.items()})
            for one in given if len(given) > 1 else ():
                yield Run(f"{one}, {name}{of}", {n: shaped(t) if n == one else t for n, t in signed.items()})


SHAPES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one row": lambda t: t[:1] if t.dim() else t,
    "no rows": lambda t: t[:0] if t.dim() else t,
    "without rows' dimension": lambda t: t[0] if t.dim() else t,
    "one element": lambda t: t.flatten()[:1],
    "no dimensions": lambda t: t.flatten()[0],
    "a dimension more": lambda t: t[None],
    "a dimension more at the end": lambda t: t[..., None],
    "not contiguous": lambda t: t.t().contiguous().t() if t.dim() == 2 else t,
    "every second": lambda t: t.repeat_interleave(2, -1)[..., ::2] if t.dim() else t,
}


def _as(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


# -- one call


def _ended(module: ModuleType, run: Run) -> Ended:
    leaves = [t.clone(memory_format=torch.preserve_format) for t in run.arguments.values()]
    if run.takes_gradients:
        leaves = [t.requires_grad_(t.is_floating_point()) for t in leaves]
    arguments = list(leaves)
    if run.takes_gradients and not run.of_leaves:
        arguments = [t * 1 if t.requires_grad else t for t in leaves]
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = module.f(*arguments)
        except Exception as error:  # noqa: BLE001 -- whatever it raises, both have to
            return Ended(f"{type(error).__name__}: {error}"[:200], arguments=tuple(t.detach() for t in arguments))
        if run.changed_after:
            for one in arguments:
                one.logical_not_() if one.dtype == torch.bool else one.add_(1)
        kept = copy.deepcopy(_detached(results))
        if not run.takes_gradients:
            return Ended("", kept, tuple(t.detach().clone() for t in arguments))
        return _after_backward(results, kept, arguments, [*leaves, *_parameters(module)])


def _parameters(module: ModuleType) -> list[torch.Tensor]:
    values = list(vars(module).values())
    found = [p for value in values if isinstance(value, torch.nn.Module) for p in value.parameters()]
    return found + [value for value in values if isinstance(value, torch.Tensor) and value.requires_grad]


def _after_backward(results: object, kept: object, arguments: list[torch.Tensor], leaves: list[torch.Tensor]) -> Ended:
    leaves = [t for t in leaves if t.requires_grad and t.is_leaf]
    sources = [t for t in _tensors([results, arguments]) if t.requires_grad]
    after = tuple(t.detach().clone() for t in arguments)
    if not sources or not leaves:
        return Ended("", kept, after, (None,) * len(leaves))
    total = sum((t * torch.linspace(0.5, 1.5, t.numel()).view(t.shape)).sum().double() for t in sources)
    try:
        return Ended("", kept, after, torch.autograd.grad(total, leaves, allow_unused=True))
    except Exception as error:  # noqa: BLE001
        return Ended("", kept, after, (), f"{type(error).__name__}: {error}"[:200])


def _tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for one in value for t in _tensors(one)] if isinstance(value, (list, tuple)) else []


def _detached(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, dict):
        return {key: _detached(one) for key, one in value.items()}
    return type(value)(_detached(one) for one in value) if isinstance(value, (list, tuple)) else value


# -- what differs


def _differing(old: Ended, new: Ended) -> Iterator[str]:
    """Yield what differs, in a few words that a rewrite's condition can be held against."""
    if old.raised or new.raised:
        if not (old.raised and new.raised):
            yield "raises" if new.raised else "raises no more"
        return
    if (one := _unlike(old.results, new.results)) is not None:
        yield one
    for a, b in zip(old.arguments, new.arguments, strict=True):
        if _unlike(a, b) is not None:
            yield "arguments"
    if old.backward_raised or new.backward_raised:
        if bool(old.backward_raised) != bool(new.backward_raised):
            yield "backward raises" if new.backward_raised else "backward raises no more"
        return
    for a, b in zip(old.gradients, new.gradients, strict=True):
        if (found := _unlike_gradient(a, b)) is not None:
            yield found


def _unlike_gradient(old: torch.Tensor | None, new: torch.Tensor | None) -> str | None:
    if old is None or new is None:
        if old is not None:
            return "none for a gradient"
        return None if new is None else "gradient for none" if new.any() else "zeros for none"
    if _unlike(old, new) is None:
        return None
    return "nan gradient" if bool((new.isnan() & ~old.isnan()).any()) else "gradient"


def _unlike(old: object, new: object) -> str | None:
    if type(old) is not type(new):
        return "kind"
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        if old.shape != new.shape or old.dtype != new.dtype:
            return "shape" if old.shape != new.shape else "dtype"
        return None if _close(old, new) else "values"
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        if len(old) != len(new):
            return "kind"
        return next((found for a, b in zip(old, new, strict=True) if (found := _unlike(a, b)) is not None), None)
    return None if old == new or old != old else "values"  # noqa: PLR0124 -- nan


def _close(old: torch.Tensor, new: torch.Tensor) -> bool:
    if not old.is_floating_point():
        return torch.equal(old, new)
    eps = torch.finfo(old.dtype).eps
    return torch.allclose(old, new, rtol=4 * eps, atol=4 * eps, equal_nan=True)
