"""Our place on torch's trace logger: taken, noticed when somebody takes it away, given back."""

from __future__ import annotations

import logging
from typing import Any

from compiler_lens.capture.torch_api import structured_trace
from compiler_lens.capture.trace import TraceHandler, WantedOnly

# As _init_logs() in torch/_logging/_internal.py sets them. logging.config.dictConfig() disables loggers that it does
# not know, or has them propagate: then each trace record is an empty line among the user's messages.
_SETTINGS = {"level": logging.DEBUG, "propagate": False, "disabled": False}


class Subscription:
    """A handler among those of torch's trace logger, and the settings under which records arrive there."""

    def __init__(self, handler: TraceHandler) -> None:
        self._handler = handler
        self._before: dict[str, Any] = {}

    @property
    def is_whole(self) -> bool:
        """Whether records arrive: nobody has cleared the logger or changed its settings since."""
        logger = structured_trace.trace_logger()
        is_there = isinstance(logger.handlers, WantedOnly) and self._handler in logger.handlers
        return is_there and all(getattr(logger, k) == v for k, v in _SETTINGS.items())

    def take(self) -> None:
        """Have records arrive. May be called again at any time."""
        logger = structured_trace.trace_logger()
        for name, value in _SETTINGS.items():
            if getattr(logger, name) != value:
                self._before[name] = getattr(logger, name)
                setattr(logger, name, value)
        if "isEnabledFor" not in vars(logger):
            # logging.disable() silences the trace of torch 2.11; later ones set the same override in _init_logs().
            logger.isEnabledFor = self._is_enabled_for  # type: ignore[method-assign]
        others = [handler for handler in logger.handlers if handler is not self._handler]
        # First of all: LazyTraceHandler removes itself while the list is walked, and the next one is passed over.
        logger.handlers = WantedOnly([self._handler, *others], self._handler, structured_trace.trace_structured_code())

    def give_back(self) -> None:
        """Leave the logger as it was found, but for what others have changed since."""
        logger = structured_trace.trace_logger()
        logger.handlers = [handler for handler in logger.handlers if handler is not self._handler]
        if vars(logger).get("isEnabledFor") == self._is_enabled_for:
            del logger.isEnabledFor
        for name, value in self._before.items():
            if getattr(logger, name) == _SETTINGS[name]:
                setattr(logger, name, value)
        self._before.clear()

    @staticmethod
    def _is_enabled_for(level: int) -> bool:
        return level >= structured_trace.trace_logger().level
