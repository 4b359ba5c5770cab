"""torch's structured trace, received in the process while it compiles.

torch renders all records as soon as anybody listens on its trace logger, also those that nobody reads (a graph before
each pass, 34 to 61 ms each): `WantedOnly` answers that nobody does, and has what we want rendered itself. Where others
listen, too, a `logging.Handler` sees what torch renders for them. `Subscription` is our place on the logger: taken,
noticed when somebody takes it away, given back.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Mapping
from types import CodeType, FrameType
from typing import Any

from compiler_lens.capture.torch_api import structured_trace
from compiler_lens.capture.torch_api.frames import Sees, have_dynamo_see
from compiler_lens.decode.fold import WANTED
from compiler_lens.recording.event import RECORD_CONTEXT
from compiler_lens.recording.journal import TIMED
from compiler_lens.recording.resume_names import is_bytecode


class TraceHandler(logging.Handler):
    """Takes each record that a reader wants."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)

    def take(self, name: str, meta: Any, text: str | None) -> None:
        """Take a record: its name, metadata and payload. Must not raise: we are inside a compilation."""
        raise NotImplementedError

    def render(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Take a record from the locals of trace_structured(). Must not raise, either."""
        raise NotImplementedError

    def handle(self, record: logging.LogRecord) -> bool:
        """Take a record without the handler's lock, which a forked child could inherit locked."""
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):  # somebody else's message
            return True
        name = next((key for key in metadata if key not in RECORD_CONTEXT), None)
        if name is None:
            return True
        value = metadata[name]
        if name == "artifact" and isinstance(value, dict):
            name = str(value.get("name"))
        if is_wanted(name) and name != TIMED:
            self.take(name, value, getattr(record, "payload", None))
        return True


def is_wanted(name: str) -> bool:
    """Return whether a reader takes records of this name: bytecode of a resume function has that one's in its own."""
    return name in WANTED or is_bytecode(name)


class WantedOnly(list[logging.Handler]):
    """The logger's handlers, which answers "is there any?" by whether somebody else listens.

    trace_structured() in torch/_logging/_internal.py asks `if trace_log.handlers:` before it renders a record; what
    it was called with is read from its frame, and rendered here if we want it: the log record, the hash of the text
    and the stack that torch makes of it are read by nobody. Where others listen, the answer is yes and all is
    rendered, as without us.
    """

    def __init__(self, handlers: Iterable[logging.Handler], ours: TraceHandler, trace_code: Any) -> None:
        super().__init__(handlers)
        self._ours = ours
        self._only_ours = [ours]
        self._trace_code = trace_code
        self._passed_over: dict[int, CodeType] = {}  # what sends records that are not looked at, by its id

    def copy(self) -> WantedOnly:
        """Return a list that answers as this one: newer Pythons' `removeHandler` takes a handler out of a copy."""
        return WantedOnly(self, self._ours, self._trace_code)

    @property
    def others_listen(self) -> bool:
        """Whether all would be rendered without us, too."""
        return self != self._only_ours and any(
            handler is not self._ours and getattr(handler, "root_dir", handler) is not None for handler in self
        )

    def __bool__(self) -> bool:
        frame = sys._getframe(1)  # noqa: SLF001 -- the one way to see who asks
        is_ours_alone = self == self._only_ours
        if is_ours_alone and frame.f_code is self._trace_code:
            caller = frame.f_back
            if caller is not None and id(caller.f_code) in self._passed_over:
                return False
            return self._is_left_to_torch(frame)
        if not is_ours_alone and self.others_listen:
            return True
        # The partitioner asks too, and renders extra graphs on failure if anybody listens. And a LazyTraceHandler
        # without a folder (no TORCH_TRACE) is to find out at a record that it has none to write.
        return frame.f_code is self._trace_code

    def _is_left_to_torch(self, frame: FrameType) -> bool:
        """Render a record ourselves, if we want it; True where it is not known how."""
        try:
            parameters = frame.f_locals
            name = structured_trace.name_of(parameters)
            if name in structured_trace.PASSED_OVER:
                if (caller := frame.f_back) is not None:
                    self._passed_over[id(caller.f_code)] = caller.f_code
                return False
        except Exception:  # noqa: BLE001 -- torch's locals, whatever they have become: it renders, and `handle` sees it
            return True
        if is_wanted(name):
            self._ours.render(name, parameters)
        return False


def cache_answer(meta: Mapping[str, Any], text: str) -> tuple[Mapping[str, Any], str]:
    """Return an FX graph cache event with the parts of its key taken out of the text, into texts of their own.

    They are 70 kB a graph, of which the settings are the same in every compilation: apart, the journal keeps them once.
    """
    try:
        answer = json.loads(text)
        parts: list[str] = answer.pop("components")
        settings = "\n".join(part for part in parts if "] inductor_config[" in part[:90])
        others = "\n".join(part for part in parts if "] inductor_config[" not in part[:90])
    except (ValueError, KeyError, TypeError):
        return meta, text
    return {**meta, "key_settings": settings, "key_parts": others}, json.dumps(answer)


# As _init_logs() in torch/_logging/_internal.py sets them. logging.config.dictConfig() disables loggers that it does
# not know, or has them propagate: then each trace record is an empty line among the user's messages.
_SETTINGS = {"level": logging.DEBUG, "propagate": False, "disabled": False}
_ARRIVES = tuple(_SETTINGS.values())


class Subscription:
    """A handler among those of torch's trace logger, and the settings under which records arrive there."""

    def __init__(self, handler: TraceHandler) -> None:
        self._handler = handler
        self._logger = structured_trace.trace_logger()
        self._before: dict[str, Any] = {}
        self._is_hidden = False  # what it takes to render a record

    @property
    def is_whole(self) -> bool:
        """Whether records arrive: nobody has cleared the logger or changed its settings since."""
        logger = self._logger
        is_there = isinstance(logger.handlers, WantedOnly) and self._handler in logger.handlers
        return is_there and (logger.level, logger.propagate, logger.disabled) == _ARRIVES

    def take(self) -> None:
        """Have records arrive. May be called again at any time."""
        logger = self._logger
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
        self.hide_rendering()

    @property
    def is_alone(self) -> bool:
        """Whether nobody else listened when this was last looked at: torch renders nothing."""
        return self._is_hidden

    def hide_rendering(self) -> None:
        """Keep Dynamo from what it takes to render a record, unless others listen and torch renders it anyway.

        dataclasses.asdict and logging are frames, which Dynamo would compile and count.
        """
        handlers = self._logger.handlers
        self._hide(not (isinstance(handlers, WantedOnly) and handlers.others_listen))

    def _hide(self, is_hidden: bool) -> None:
        if is_hidden is not self._is_hidden:
            have_dynamo_see(Sees.NOTHING if is_hidden else Sees.ALL, [structured_trace.trace_structured_code()])
            self._is_hidden = is_hidden

    def give_back(self) -> None:
        """Leave the logger as it was found, but for what others have changed since."""
        self._hide(False)
        logger = self._logger
        logger.handlers = [handler for handler in logger.handlers if handler is not self._handler]
        if vars(logger).get("isEnabledFor") == self._is_enabled_for:
            del logger.isEnabledFor
        for name, value in self._before.items():
            if getattr(logger, name) == _SETTINGS[name]:
                setattr(logger, name, value)
        self._before.clear()

    def _is_enabled_for(self, level: int) -> bool:
        # Where others listen, too, Dynamo sees and counts the frame of logging's own answer.
        return logging.Logger.isEnabledFor(self._logger, level) or level >= self._logger.level
