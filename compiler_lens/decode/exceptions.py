"""The exception at the end of a printed traceback."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = "Traceback (most recent call last):\n"
# What Python writes between the tracebacks of an exception and of one that came of it. A message can hold a
# traceback too (of a worker process), but not after one of these sentences.
_CHAINED = re.compile(
    r"\n\n(?:During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception):\n\n" + re.escape(_HEAD)
)
_RAISED = re.compile(r"^(?P<kind>[^\W\d][\w.<>]*)(?:: (?P<message>.*))?$\Z", re.MULTILINE | re.DOTALL)
# augment_exc_message() in torch/_dynamo/exc.py appends both to the message.
_USER_CODE = re.compile(r"\n+from user code:\n")
_ADVICE = re.compile(r"\n+Set TORCHDYNAMO_VERBOSE=1 for .*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RaisedException:
    """An exception as Python prints it."""

    kind: str  # the name of its class, without the module
    message: str  # without what Dynamo appends for the terminal
    user_code: str = ""  # the stack that Dynamo appends


def read_exception(text: str) -> RaisedException | None:
    """Read the last exception of a traceback, the one that was raised in the end; None if there is no traceback."""
    text = text.rstrip()
    begin = text.find(_HEAD)
    if begin < 0:
        return None
    for separator in _CHAINED.finditer(text, begin):
        begin = separator.end() - len(_HEAD)
    found = _RAISED.search(text, begin + len(_HEAD))
    if found is None:
        return None
    message, user_code = _without_appendix(found["message"] or "")
    return RaisedException(found["kind"].rpartition(".")[2], message, user_code)


def _without_appendix(message: str) -> tuple[str, str]:
    message = _ADVICE.sub("", message)
    found = _USER_CODE.search(message)
    if found is None:
        return message.strip(), ""
    return message[: found.start()].strip(), message[found.end() :]
