"""`compiler-lens graph`: a graph as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler_lens.cli.output import check_is_other_file, printed

_EPILOG = """\
STAGE is one of dynamo, joint, forward, backward, inference, post_grad, post_grad_backward;
  kernels, kernels_backward   the post-grad graph with its kernels as boxes round their ops
  training                    the forward beside the backward, and the tensors saved between them
  frame                       a function's graphs, and the graph breaks between them

A box with a double edge is a module: --module draws it, --depth opens it in place.

examples:
  compiler-lens graph run.clens
  compiler-lens graph run.clens 0/0 --stage kernels -o kernels.svg
  compiler-lens graph run.clens --stage backward --module h.3.attn
  compiler-lens graph run.clens --stage forward -o forward.dot
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "graph",
        help="draw a graph: SVG, DOT or PNG",
        usage="compiler-lens graph REC [ID] [--stage STAGE] [--module PATH] [--depth N] [--part N] [-o FILE]",
        description="Draw a graph, by modules, repeats folded: a picture that can be read at any size.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recording", metavar="REC", help="a recording, or a TORCH_TRACE log")
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        default="",
        help="a compile id: 0/1; by default the largest graph's, before its recompiles",
    )
    parser.add_argument(
        "--stage", metavar="STAGE", default="", help="which graph, see below; by default the first there is"
    )
    parser.add_argument(
        "--module", metavar="PATH", default="", help="only this module: h.3.attn, or an end of its path"
    )
    parser.add_argument(
        "--depth", metavar="N", type=int, help="levels of modules to open; by default what stays readable"
    )
    parser.add_argument(
        "--part", metavar="N", type=int, help="which part, of a graph compiled in several (DDP); by default the largest"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="FILE.svg, FILE.dot or FILE.png; by default a name that fits"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write one picture and say where it is."""
    return printed(lambda: _text(args))


def _text(args: argparse.Namespace) -> str:
    from compiler_lens.decode.recording_file import open_recording
    from compiler_lens.recording.errors import UsageError
    from compiler_lens.render.picture.drawing import FORMATS, draw
    from compiler_lens.views import words
    from compiler_lens.views.text import one_line

    if args.output and Path(args.output).suffix.lower() not in FORMATS:
        raise UsageError(f"-o {args.output}: the name of a picture ends in {', '.join(FORMATS)}")
    if args.output:
        check_is_other_file(Path(args.output), args.recording)
    recording = open_recording(args.recording)
    drawing = draw(recording, args.stage, args.id, module=args.module, depth=args.depth, part=args.part)
    target = drawing.save(args.output or f"{drawing.name}.svg")
    unfinished = words.unfinished(recording.unfinished)
    return "".join(f"{line}\n" for line in (f"{target}: {one_line(drawing.title)}", unfinished) if line)
