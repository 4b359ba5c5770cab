"""Handing over to Inductor, exactly as `torch.compile(backend="inductor")` would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler_lens.capture.torch_api import inductor


class Delegates:
    """The Inductor wrappers of one lens, one for each mode and set of options that it was used with."""

    def __init__(self) -> None:
        self._wrappers: list[tuple[Any, Callable[..., Any]]] = []

    def wrapper(self, mode: str | None, options: dict[str, Any] | None, name: str | None) -> Callable[..., Any]:
        """Return the wrapper for a mode and options, made at its first use. Raises what torch raises for others."""
        # torch hands over the user's own dict, who may change it for the next model.
        key = (mode, dict(options) if options else options, name)
        for known, wrapper in self._wrappers:
            if known == key:
                return wrapper
        wrapper = inductor.inductor_wrapper(mode, options, name)
        self._wrappers.append((key, wrapper))
        return wrapper

    def reset(self) -> None:
        """Forget CUDA graph pools, as `torch.compiler.reset()` asks of a backend."""
        for _, wrapper in self._wrappers:
            wrapper.reset()  # type: ignore[attr-defined]
