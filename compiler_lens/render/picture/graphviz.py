"""Graphviz's own program, where somebody has one: positions, or a PNG. It may hang or fail; then there is no answer."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from tempfile import TemporaryFile

from compiler_lens.render.picture.layout import Link, Placement, Point

_SECONDS = 5.0
_INCH = 72.0


def place_with(
    dot: str, sizes: Sequence[tuple[float, float]], links: Sequence[Link], *, seconds: float = _SECONDS
) -> Placement | None:
    """Positions by `dot`, a path to the program; None where it does not give them in time."""
    boxes = [
        f'n{k} [shape=box,fixedsize=true,label="",width={w / _INCH:.4f},height={h / _INCH:.4f}];'
        for k, (w, h) in enumerate(sizes)
    ]
    arrows = [f"n{link.source} -> n{link.target} [dir=none];" for link in links]
    text = "\n".join(("digraph level {", "ranksep=0.42; nodesep=0.3;", *boxes, *arrows, "}"))
    answer = run_dot(dot, ["-Tplain"], text, seconds=seconds)
    if answer is None:
        return None
    try:
        return _read(answer.decode(), sizes, links)
    except (ValueError, IndexError, KeyError, StopIteration):
        return None


def run_dot(dot: str, options: Sequence[str], text: str, *, seconds: float = _SECONDS) -> bytes | None:
    """What the program answers; None if it fails or takes too long."""
    with TemporaryFile() as asked, TemporaryFile() as answer:  # no pipes: a child of the program's could hold them open
        asked.write(text.encode("utf-8", "replace"))
        asked.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 -- the user's own program
                [dot, *options], stdin=asked, stdout=answer, stderr=subprocess.DEVNULL, start_new_session=True
            )
        except OSError:
            return None
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)
        answer.seek(0)
        return answer.read() or None if status == 0 else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of it running, whatever it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(text: str, sizes: Sequence[tuple[float, float]], links: Sequence[Link]) -> Placement:
    """The format `plain`: a line for the graph, for each node and each edge, in inches from the lower left corner."""
    rows = [shlex.split(line) for line in text.splitlines()]
    head = next(row for row in rows if row[0] == "graph")
    width, height = float(head[2]) * _INCH, float(head[3]) * _INCH
    middle = {row[1]: (float(row[2]) * _INCH, height - float(row[3]) * _INCH) for row in rows if row[0] == "node"}
    places = tuple((middle[f"n{k}"][0] - w / 2, middle[f"n{k}"][1] - h / 2) for k, (w, h) in enumerate(sizes))
    curves: dict[tuple[str, str], list[tuple[Point, ...]]] = {}
    for row in rows:
        if row[0] == "edge":
            numbers = [float(each) * _INCH for each in row[4 : 4 + 2 * int(row[3])]]
            points = tuple((x, height - y) for x, y in zip(numbers[::2], numbers[1::2], strict=True))
            curves.setdefault((row[1], row[2]), []).append(points)
    routes = tuple(curves[f"n{link.source}", f"n{link.target}"].pop(0) for link in links)
    return Placement(width, height, places, routes, curved=True)
