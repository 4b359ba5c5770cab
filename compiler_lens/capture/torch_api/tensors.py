"""Tensors and containers of them, where torch has no public name for it. For code that imports torch anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from compiler_lens.capture.torch_api import versions

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]


def leaves_with_paths(tree: Any) -> list[tuple[Any, Any]]:
    """Return every value in nested containers with its path, in pytree's order."""
    found: list[tuple[Any, Any]] = pytree.tree_flatten_with_path(tree)[0]
    return found


def leaves_of(tree: Any) -> list[Any]:
    """Return every value in nested containers, in pytree's order."""
    return list(pytree.tree_leaves(tree))


def map_tensors(change: Callable[[torch.Tensor], torch.Tensor], tree: Any) -> Any:
    """Return nested containers with every tensor in them changed."""
    return pytree.tree_map_only(torch.Tensor, change, tree)


def version_of(tensor: torch.Tensor) -> int:
    """Return how often a tensor was changed in place, as autograd counts."""
    return int(tensor._version)


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set autograd's count of a tensor's changes in place."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def float8_product(a: torch.Tensor, b: torch.Tensor) -> Callable[[], object]:
    """Return a function that multiplies two matrices of float8. Raises NotImplementedError where torch has none."""
    if not versions.FLOAT8_PRODUCT.is_here:
        raise NotImplementedError
    one = torch.ones((), device=a.device)
    scaled: Callable[..., Any] = torch._scaled_mm
    return lambda: scaled(a, b, one, one, out_dtype=torch.bfloat16)
