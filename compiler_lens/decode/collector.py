"""Python's cyclic garbage collector, held off while a recording is built, or a page of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect nothing meanwhile: hundreds of thousands of objects come and none goes.

    Each pass of the collector would walk all of them, and in a training process all of torch's: a third of the time,
    and more the larger the recording.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
