"""Which frames Dynamo looks at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from enum import Enum
from types import CodeType


class Sees(Enum):
    """What Dynamo does with the frames of a code object, and with those that it calls."""

    ALL = ("DEFAULT", "DEFAULT")
    WHAT_IT_CALLS = ("SKIP", "DEFAULT")
    NOTHING = ("SKIP", "SKIP")


def have_dynamo_see(what: Sees, codes: Iterable[CodeType]) -> None:
    """Have Dynamo look at frames of these code objects or pass over them: then it neither compiles nor counts them.

    torch runs our hooks where its frame callback is active: in a backward that is compiled within a compiled function.
    """
    have_seen = _seeing(what)
    for code in codes:
        have_seen(code)


@functools.cache
def _seeing(what: Sees) -> Callable[[CodeType], None]:
    from torch._dynamo.eval_frame import set_code_exec_strategy
    from torch._dynamo.types import FrameAction, FrameExecStrategy

    strategy = FrameExecStrategy(*(getattr(FrameAction, action) for action in what.value))
    return lambda code: set_code_exec_strategy(code, strategy)
