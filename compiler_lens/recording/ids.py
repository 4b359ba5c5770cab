"""What things of a recording are known by: named types, to be used as keys and printed, wherever something is meant.

Each is a small frozen value that says the same in every part of the program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from msgspec import Struct


class Direction(Enum):
    """Which of a compilation's programs a compiled artifact belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"


class GraphStage(Enum):
    """How far down the stack a graph was taken."""

    DYNAMO = "dynamo"
    AOT_JOINT = "joint"
    AOT_FORWARD = "forward"
    AOT_BACKWARD = "backward"
    AOT_INFERENCE = "inference"
    POST_GRAD = "post_grad"
    POST_GRAD_BACKWARD = "post_grad_backward"


# The post-grad graph that each output code is made from, and the AOT graph that this one is made from.
LOWERED: Mapping[Direction, GraphStage] = {
    Direction.FORWARD: GraphStage.POST_GRAD,
    Direction.INFERENCE: GraphStage.POST_GRAD,
    Direction.BACKWARD: GraphStage.POST_GRAD_BACKWARD,
}
POST_GRADS = frozenset(LOWERED.values())
TRACED: Mapping[Direction, GraphStage] = {
    Direction.FORWARD: GraphStage.AOT_FORWARD,
    Direction.INFERENCE: GraphStage.AOT_INFERENCE,
    Direction.BACKWARD: GraphStage.AOT_BACKWARD,
}


_COMPILE_ID = re.compile(r"(?:!(\d{1,18})(?:/(?=\d))?)?(?:(\d{1,18})/(\d{1,18}|None))?(?:@(\d{1,18}))?|-")


class CompileId(Struct, frozen=True, order=True):
    """One compiling of one frame, as torch numbers it: printed `0/1`, in reports `[0/1]`.

    torch counts from zero again after `torch.compiler.reset()`: `epoch` counts those lives, and the
    second `0/0` of a process prints as `0/0@1`.
    """

    frame: int | None
    recompile: int | None
    epoch: int = 0
    autograd: int | None = None  # compiled autograd's own number, torch prints it as !0

    def __str__(self) -> str:
        head = "" if self.autograd is None else f"!{self.autograd}"
        frame = "" if self.frame is None else f"{self.frame}/{self.recompile}"
        epoch = f"@{self.epoch}" if self.epoch else ""
        return "/".join(part for part in (head, frame) if part) + epoch or "-"

    @classmethod
    def parse(cls, text: str) -> CompileId:
        """Return the id that prints as *text*. Raises `ValueError` where none does."""
        found = _COMPILE_ID.fullmatch(text) if text else None
        if found is None:
            raise ValueError(f"{text!r} is not a compile id")
        autograd, frame, recompile, epoch = (int(n) if n and n != "None" else None for n in found.groups())
        return cls(frame, recompile, epoch or 0, autograd)

    @property
    def or_none(self) -> CompileId | None:
        """The id; None for the one that stands for no compilation, `-`."""
        return None if self == NO_COMPILATION else self

    @property
    def of_frame(self) -> CompileId:
        """What all compilations of the same frame have in common: the id without `recompile`."""
        return CompileId(self.frame, None, self.epoch, self.autograd)


NO_COMPILATION = CompileId(None, None)


class GraphId(Struct, frozen=True):
    """One graph of a compilation."""

    compile_id: CompileId
    stage: GraphStage
    ordinal: int = 0  # counts graphs of one stage within one compilation (DDP splits make several)


class CodeId(Struct, frozen=True):
    """One output code: the file that Inductor writes for one graph."""

    compile_id: CompileId
    direction: Direction
    ordinal: int = 0  # counts output codes of one direction within one compilation

    @property
    def graph(self) -> GraphId:
        """The post-grad graph that it is made from.

        Forward and inference share a stage, and only one of the two exists: torch does not say of a post-grad graph
        which it is.
        """
        return GraphId(self.compile_id, LOWERED[self.direction], self.ordinal)

    @property
    def traced(self) -> GraphId:
        """The graph of AOTAutograd that the post-grad graph is made from."""
        return GraphId(self.compile_id, TRACED[self.direction], self.ordinal)


class KernelId(Struct, frozen=True):
    """One kernel: no two of an output code share a name."""

    code: CodeId
    name: str


class LaunchId(Struct, frozen=True):
    """One call of a kernel."""

    code: CodeId
    kernel: str
    launch: int  # which of the kernel's launches, from 0


class SourcePlace(Struct, frozen=True, order=True):
    """A place in a file of Python; of a stretch, lines and columns are those where it begins and ends."""

    file: str
    line: int  # from 1; 0 where only the file is known
    end_line: int | None = None
    column: int | None = None  # from 0, in characters
    end_column: int | None = None
    function: str = ""


class TorchFunction(Struct, frozen=True, order=True):
    """A code object as torch knows it: what Dynamo counts frames by."""

    file: str
    line: int  # its first
    name: str  # co_name: "forward"
