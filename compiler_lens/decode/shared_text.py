"""Texts that many events refer to: each is read once, also where that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from compiler_lens.recording.journal import INLINE_LIMIT

Read = TypeVar("Read")


class Texts:
    """What was read of the texts of one recording."""

    def __init__(self, *, are_shared: bool = True) -> None:
        """Begin with none.

        Args:
            are_shared: whether events may refer to one text. Where each has its own, none is kept.
        """
        self._are_shared = are_shared
        self._known: dict[tuple[Callable[[str], Any], str], Any] = {}
        self._failed: dict[tuple[Callable[[str], Any], str], Exception] = {}

    def read(self, by: Callable[[str], Read], text: str) -> Read:
        """Return what *by* makes of a text, or made of it before. Raises what *by* raises, or raised."""
        if not self._are_shared or len(text) <= INLINE_LIMIT:
            return by(text)
        key = by, text
        if key in self._failed:
            raise self._failed[key].with_traceback(None)
        if key not in self._known:
            try:
                self._known[key] = by(text)
            except Exception as error:
                self._failed[key] = error
                raise
        found: Read = self._known[key]
        return found


EACH_ITS_OWN = Texts(are_shared=False)
