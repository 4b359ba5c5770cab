"""Where a recording is made: versions, device, settings."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from importlib import metadata
from typing import Any

from compiler_lens.capture.torch_api import settings

_PACKAGES = ("torch", "triton", "transformers", "numpy", "compiler_lens")


def describe_environment(dynamic: bool | None = None) -> dict[str, Any]:
    """Return the meta of a `lens.environment` event, while a frame compiles that was given this `dynamic`.

    Does not start CUDA: the program may fork yet.
    """
    import torch
    from torch import distributed

    versions: dict[str, str] = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    on_cuda = torch.cuda.is_initialized()
    is_distributed = distributed.is_available() and distributed.is_initialized()
    return {
        "torch": str(torch.__version__),  # with the build: the wheel's metadata leaves out `+cu130`
        "triton": versions.get("triton", ""),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": str(torch.cuda.get_device_name()) if on_cuda else f"CPU, {os.cpu_count()} cores",
        "threads": int(torch.get_num_threads()),
        "argv": [str(word)[:300] for word in sys.argv[:50]],
        "pid": os.getpid(),
        "rank": distributed.get_rank() if is_distributed else None,
        "config": settings.config_lines(dynamic),
        "versions": versions,
    }
