"""`draw`: what a user asks for as a picture. It shows itself in a notebook, and saves as SVG, DOT or PNG."""

from __future__ import annotations

import math
import os
import re
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from compiler_lens.facts.graphs.graph_choice import choose
from compiler_lens.facts.graphs.levels import BoxKind, Level
from compiler_lens.recording.errors import UsageError, writing
from compiler_lens.recording.model import CompileId, GraphStage, Recording
from compiler_lens.recording.output_files import Product, write_whole
from compiler_lens.render.picture.style import fill
from compiler_lens.render.picture.svg import to_svg
from compiler_lens.views.picture.picture import closed_picture
from compiler_lens.views.picture.sheet import sheet
from compiler_lens.views.text import one_line, times

if TYPE_CHECKING:
    from graphviz import Source
    from pydot import Dot

_SIDE, _PIXELS = 32_000.0, 1e8  # of a PNG; cairo's limit is 32,767 on a side
_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')
FORMATS = (".svg", ".dot", ".png")


class Drawing(Struct, frozen=True):
    """A picture of a graph.

    Attributes:
        title: what it shows.
        svg: the picture, as the text of an SVG file.
        name: what a file with it could be called, without an ending.
        level: the boxes and lines of a single graph's picture, closed.
    """

    title: str
    svg: str
    name: str
    level: Level | None = None

    @property
    def dot(self) -> str:
        """The picture's own level, its groups closed, in Graphviz's language. Raises `UsageError` as `pydot` does."""
        return str(self.pydot().to_string())

    def pydot(self) -> Dot:
        """Return the picture's own level, its groups closed, as a `pydot.Dot`.

        Raises:
            UsageError: the picture shows several graphs.
        """
        if self.level is None:
            raise UsageError(f"no DOT of {self.title}: it shows several graphs; draw one of them by its stage")
        import pydot

        graph = pydot.Dot("level", graph_type="digraph", label=_quoted(self.title), labelloc="t", fontname="Helvetica")
        graph.set_node_defaults(fontname="Helvetica", fontsize="11", style=_quoted("filled,rounded"))
        graph.set_edge_defaults(fontname="Helvetica", fontsize="9", color=_quoted("#93a0b0"))
        picture = closed_picture(self.level)
        for number, drawn in enumerate(picture.boxes):
            box, (inside, edge), (name, *more) = drawn.box, fill(drawn.tint), drawn.lines
            node = pydot.Node(
                f"n{number}",
                label=_quoted(f"{name} {times(box.repeats)}" if box.repeats > 1 else name, *more),
                shape="ellipse" if box.kind in {BoxKind.INPUT, BoxKind.OUTPUT} else "box",
                peripheries="2" if box.group else "1",
                fillcolor=_quoted(inside),
                color=_quoted(edge),
                tooltip=_quoted(*drawn.tooltip.split("\n")),
            )
            graph.add_node(node)
        for line in picture.edges:
            graph.add_edge(pydot.Edge(f"n{line.source}", f"n{line.target}", label=_quoted(line.label)))
        return graph

    def graphviz(self) -> Source:
        """Return the text of `dot` as a `graphviz.Source`, which renders where Graphviz is installed.

        Raises:
            UsageError: the picture shows several graphs.
        """
        from graphviz import Source

        return Source(self.dot, filename=f"{self.name}.gv")

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a file, in the format that its name ends with: .svg, .dot or .png.

        Raises:
            UsageError: it cannot be written, or not in that format; or it is there and no picture of ours, and not
                to be overwritten.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in FORMATS:
            raise UsageError(f"cannot write {target}: the name of a picture ends in {', '.join(FORMATS)}")
        content = _png(self.svg) if suffix == ".png" else (self.dot if suffix == ".dot" else self.svg).encode()
        with writing(target, UsageError):
            return write_whole(target, content, Product.PICTURE, overwrite=overwrite)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<drawing of {self.title}>"


def draw(  # noqa: PLR0913 -- what a user chooses
    recording: Recording,
    stage: str | GraphStage = "",
    compile_id: str | CompileId = "",
    *,
    module: str = "",
    depth: int | None = None,
    part: int | None = None,
) -> Drawing:
    """Return a graph of a recording as a picture.

    Args:
        recording: what `compiler_lens.load` or `Lens.recording` gives.
        stage: dynamo, joint, forward, backward, inference, post_grad, post_grad_backward; kernels, kernels_backward;
            training: the forward beside the backward; frame: a function's graphs with the breaks between them.
            Without one, the first of these that there is.
        compile_id: "0/1", or "0" for a frame; without one, the largest graph's, of a
            recompiled function the first that is about as large.
        module: draw this module only: "h.3.attn", or any end of its path.
        depth: how many levels of modules to open in place; without it, as many as stay readable.
        part: which, of a graph that the backend was given in several parts (DDP splits it), counted from 1; without it,
            the largest.

    Raises:
        UsageError: there is no such graph or module; says what there is.
    """
    named = stage.value if isinstance(stage, GraphStage) else stage
    found = sheet(recording, choose(recording, named, str(compile_id), part), module, depth)
    return Drawing(found.title, to_svg(found), found.name, found.level)


def _png(svg: str) -> bytes:
    """At twice the size, for sharp text; less where cairo could not hold it."""
    try:
        import cairosvg
    except (ImportError, OSError) as error:  # OSError: the cairo library is not there
        raise UsageError("no PNG: that needs pip install compiler_lens[png]; an .svg opens in any browser") from error
    size = _SIZE.search(svg)
    width, height = (float(size[1]), float(size[2])) if size else (1.0, 1.0)
    scale = min(2.0, _SIDE / max(width, height), math.sqrt(_PIXELS / (width * height)))
    drawn = bytes(cairosvg.svg2png(bytestring=svg.encode(), scale=scale))
    said = b"tEXtSoftware\0compiler_lens"  # by which we know it again; after the 33 bytes of signature and size
    chunk = struct.pack(">I", len(said) - 4) + said + struct.pack(">I", zlib.crc32(said))
    return drawn[:33] + chunk + drawn[33:]


def _quoted(*lines: str) -> str:
    """Lines as one quoted string of DOT: what stands in them is text, whatever it looks like."""
    plain = (one_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(plain) + '"'
