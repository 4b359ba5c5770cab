"""Operators that an offer makes of functions: whether their fakes say of each call what it really returned."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from compiler_lens.capture.torch_api.measuring import as_fakes, pytree
from compiler_lens.facts.measured.fix import Difference, WrongFake


class Operators:
    """Compares what some operators return with what their fakes say, while a program runs.

    Args:
        names: of the operators, with their namespaces.
        calls: returns how many calls of compiled functions there were so far.
    """

    def __init__(self, names: frozenset[str], calls: Callable[[], int]) -> None:
        self._names, self._calls = names, calls
        self.difference: Difference | None = None  # the first

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch each of these operators that is made while the block runs."""
        original = torch.library.custom_op
        torch.library.custom_op = self._making(original)
        try:
            yield
        finally:
            torch.library.custom_op = original

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def custom_op(name: str, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
            if name not in self._names:
                return original(name, function, **options)
            if function is None:
                return functools.partial(custom_op, name, **options)
            # By the function itself: what its annotations name is found in its own module.
            options["schema"] = torch.library.infer_schema(function, mutates_args=options["mutates_args"])
            made: list[Any] = []
            made.append(original(name, self._checked(name, function, made), **options))
            return made[0]

        return custom_op

    def _checked(self, name: str, function: Callable[..., Any], made: Sequence[Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            told = _told_by_fake(made[0], args, kwargs)
            result = function(*args, **kwargs)
            self._compare(name, told, _specs(result))
            return result

        return checked

    def _compare(self, name: str, told: Sequence[str], real: Sequence[str]) -> None:
        if self.difference is not None or tuple(told) == tuple(real):
            return
        pairs = enumerate(zip(told, real, strict=False))
        index = next((n for n, (one, other) in pairs if one != other), min(len(told), len(real)))
        wrong = WrongFake(name, *(side[index] if index < len(side) else "nothing" for side in (told, real)))
        self.difference = Difference("fake", self._calls(), index, fake=wrong)


def _told_by_fake(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """What the operator's fake says of a call: before the call, which may change its arguments."""
    try:
        with as_fakes() as fake:
            given = pytree.tree_map_only(torch.Tensor, fake, (args, kwargs))
            return _specs(operator(*given[0], **given[1]))
    except Exception as error:  # noqa: BLE001 -- whatever a fake raises, it would raise while torch compiles
        return (f"{type(error).__name__}: {error}",)


def _specs(result: Any) -> tuple[str, ...]:
    return tuple(_spec(leaf) for leaf in pytree.tree_leaves(result))


def _spec(value: Any) -> str:
    """All that compiled code relies on: of a dimension with one element, or of no element, no stride matters."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    sizes = tuple(map(int, value.shape))
    steps = [int(step) if size > 1 and value.numel() else "_" for size, step in zip(sizes, value.stride(), strict=True)]
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{dtype}{list(sizes)}, strides [{', '.join(map(str, steps))}], {value.device}"
