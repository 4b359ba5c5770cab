"""What some versions of torch have and others lack: a named flag for each difference, with the reason why it matters.

A flag asks the torch that runs, not its number: nightlies and vendors' builds have numbers of their own.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from msgspec import Struct


class Flag(Struct, frozen=True):
    """A difference between versions of torch: where it shows, and why it matters to us."""

    module: str
    name: str  # "attribute", "Class.attribute" or "Class(parameter)"
    reason: str

    @property
    def is_here(self) -> bool:
        """Whether the torch that runs has it."""
        path, _, parameter = self.name.removesuffix(")").partition("(")
        try:
            found: Any = importlib.import_module(self.module)
            for part in path.split("."):
                found = getattr(found, part)
            return not parameter or parameter in inspect.signature(found).parameters
        except (ImportError, AttributeError, TypeError, ValueError):
            return False


WRAPPER_NAME = Flag(
    "torch",
    "_TorchCompileInductorWrapper(name)",
    "torch 2.11 knows no name of a compilation; 2.13 takes one, and only 2.15 hands it to a backend like ours",
)
SIZES_LEARNED = Flag(
    "torch._dynamo.pgo",
    "_CODE_STATE",
    "where torch 2.11 to 2.15 keeps what it has learned of sizes that vary; without it the user's next calls would "
    "compile more often than before",
)
FLOAT8_PRODUCT = Flag(
    "torch",
    "_scaled_mm",
    "the product of float8 matrices has no public name in torch 2.11 to 2.15",
)
