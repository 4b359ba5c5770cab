"""Where a recording is made: versions, device, settings."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from compiler_lens.capture.torch_api import settings

_PACKAGES = ("torch", "triton", "transformers", "numpy", "compiler_lens")


def describe_environment(dynamic: bool | None = None) -> dict[str, Any]:
    """The meta of a `lens.environment` event, while a frame compiles that was given this `dynamic`.

    Does not start CUDA: the program may fork yet.
    """
    versions = {name: version for name in _PACKAGES if (version := _version(name))}
    return {
        "torch": _torch_version(),
        "triton": versions.get("triton", ""),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": _device(),
        "threads": _threads(),
        "argv": [str(word)[:300] for word in sys.argv[:50]],
        "pid": os.getpid(),
        "rank": _rank(),
        "config": settings.config_lines(dynamic),
        "versions": versions,
    }


def _torch_version() -> str:
    """With the build: the wheel's metadata leaves out `+cu130`."""
    import torch

    return str(torch.__version__)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _device() -> str:
    import torch

    if torch.cuda.is_initialized():
        return str(torch.cuda.get_device_name())
    return f"CPU, {os.cpu_count()} cores"


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


def _rank() -> int | None:
    from torch import distributed

    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else None
