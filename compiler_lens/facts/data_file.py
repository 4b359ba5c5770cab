"""Data files of this package in TOML, as they stand beside the code that reads them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def read_data(file: Path) -> dict[str, Any]:
    """Return the contents of a TOML file. Raise TOMLDecodeError, with line and column, where it is not TOML."""
    # Late: a recording without breaks and recompiles needs no advice.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    data: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))
    return data
