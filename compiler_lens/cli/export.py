"""`compiler-lens report`, `graph` and `redact`: a recording as a page, a graph as a picture, a recording redacted."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from compiler_lens.cli.command import (
    A_RECORDING,
    FORCE,
    LIMITS,
    REDACT,
    SOURCES,
    Command,
    argument,
    check_target,
    opened,
    printed,
    user_path,
)
from compiler_lens.recording.errors import UsageError, visible
from compiler_lens.recording.output_files import Product

_REPORT_DESCRIPTION = """\
Write a recording as one HTML file, to read in a browser and to send to somebody: what to do first, the source line by
line, graphs, kernels, graph breaks, recompiles. Of two recordings: what differs, side by side. It needs no network, and
no torch."""

_REPORT_EPILOG = """\
The file holds the program's source code and paths. --redact leaves out source text, strings, your own Triton kernels,
keys of dicts, and the folders and names of your files; names of functions, modules, arguments and kernels stay.

examples:
  compiler-lens report run.clens                      writes run.html
  compiler-lens report run.clens -o report.html --open
  compiler-lens report run.clens --redact             for somebody who should not see the code
  compiler-lens report /tmp/torch_trace/              a TORCH_TRACE log that we did not write
  compiler-lens report default.clens tuned.clens      what differs, as `compiler-lens diff` finds it
"""

_GRAPH_EPILOG = """\
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

_REDACT_DESCRIPTION = """\
Write a recording without source text, strings, keys of dicts, your own Triton kernels, and the folders and names of
your files.
Names of functions, modules, arguments and kernels stay. What is written is a recording like any other: `show`,
`report`, `graph` and `diff` take it."""

_REDACT_EPILOG = """\
examples:
  compiler-lens redact run.clens for-a-bug-report.clens.gz
  compiler-lens redact /tmp/torch_trace/ log.clens         from a TORCH_TRACE log that we did not write
"""


def _report(args: argparse.Namespace) -> str:
    """Write the page, and return where it is."""
    from compiler_lens.decode.fold import collector_paused
    from compiler_lens.views.text import nbytes

    recording, after, own = args.recording, args.after, tuple(args.user_path)
    names = [Path(path).resolve().name.removesuffix(".gz") for path in (recording, after) if path]
    stems = [name.removesuffix(".clens").removesuffix(".log") for name in names]
    target = Path(args.output or f"{'-to-'.join(stems)}.html")
    check_target(target, Product.PAGE, recording, after, overwrite=args.force)
    with collector_paused():  # from reading to writing: nothing goes in between
        if after:
            from compiler_lens.render.results import diff

            if after.endswith((".html", ".htm")) and not Path(after).exists():
                raise UsageError(f"{after} is not a recording. To write it: -o {after}")
            read = diff(recording, after, sources=args.sources, max_size=args.max_size, max_nesting=args.max_nesting)
            read.html(target, user_paths=own, redact=args.redact, overwrite=args.force)
        else:
            from compiler_lens.render.page.page import write_page

            write_page(opened(args), target, user_paths=own, name=recording, redact=args.redact, overwrite=args.force)
    written = f"{visible(str(target))}  {nbytes(target.stat().st_size)}\n"
    if args.open:
        import webbrowser

        if not webbrowser.open(target.absolute().as_uri()):
            return f"{written}no browser was found: open it yourself\n"
    return written


def _graph(args: argparse.Namespace) -> str:
    """Write one picture, and return where it is."""
    from compiler_lens.render.picture.drawing import FORMATS, draw
    from compiler_lens.views import words
    from compiler_lens.views.text import one_line

    if args.output and Path(args.output).suffix.lower() not in FORMATS:
        raise UsageError(f"-o {args.output}: the name of a picture ends in {', '.join(FORMATS)}")
    if args.output:
        check_target(Path(args.output), Product.PICTURE, args.recording, overwrite=args.force)
    recording = opened(args)
    drawing = draw(recording, args.stage, args.id, module=args.module, depth=args.depth, part=args.part)
    target = drawing.save(args.output or f"{drawing.name}.svg", overwrite=args.force)
    warnings = (words.unfinished(recording.unfinished), words.damaged(recording.damage))
    return "".join(f"{line}\n" for line in (f"{visible(str(target))}: {one_line(drawing.title)}", *warnings) if line)


def _redact(args: argparse.Namespace) -> str:
    """Write the redacted recording, and return where it is."""
    from compiler_lens.decode.recording_file import save
    from compiler_lens.facts.program.ownership import Ownership
    from compiler_lens.recording.redact import redacted
    from compiler_lens.views.text import nbytes

    target = Path(args.out)
    check_target(target, Product.RECORDING, args.recording, overwrite=args.force)
    save(redacted(opened(args), Ownership.of(tuple(args.user_path)).owns), target, overwrite=args.force)
    return f"{visible(str(target))}  {nbytes(target.stat().st_size)}\n"


COMMANDS = {
    "report": Command(
        run=partial(printed, _report),
        help="a recording, or what differs between two, as one HTML file",
        usage="REC [AFTER] [-o FILE.html] [--force] [--open] [--redact] [--sources DIR] [--user-path P]"
        " [--max-size SIZE] [--max-nesting N]",
        description=_REPORT_DESCRIPTION,
        epilog=_REPORT_EPILOG,
        arguments=(
            A_RECORDING,
            argument("after", metavar="AFTER", nargs="?", help="another one: what differs in it from REC"),
            argument(
                "-o", "--output", metavar="FILE", help="the file to write; by default the recording's name.html"
            ),
            FORCE,
            argument("--open", action="store_true", help="open it in the browser"),
            REDACT,
            SOURCES,
            user_path(),
            *LIMITS,
        ),
    ),
    "graph": Command(
        run=partial(printed, _graph),
        help="draw a graph: SVG, DOT or PNG",
        usage="REC [ID] [--stage STAGE] [--module PATH] [--depth N] [--part N] [--sources DIR]"
        " [--max-size SIZE] [--max-nesting N] [-o FILE] [--force]",
        description="Draw a graph, by modules, repeats folded: a picture that can be read at any size.",
        epilog=_GRAPH_EPILOG,
        arguments=(
            argument("recording", metavar="REC", help="a recording, or a TORCH_TRACE log"),
            argument(
                "id", metavar="ID", nargs="?", default="",
                help="a compile id: 0/1; by default the largest graph's, before its recompiles",
            ),
            argument(
                "--stage", metavar="STAGE", default="", help="which graph, see below; by default the first there is"
            ),
            argument(
                "--module", metavar="PATH", default="", help="only this module: h.3.attn, or an end of its path"
            ),
            argument(
                "--depth", metavar="N", type=int, help="levels of modules to open; by default what stays readable"
            ),
            argument(
                "--part", metavar="N", type=int,
                help="which part, of a graph compiled in several (DDP); by default the largest",
            ),
            SOURCES,
            argument(
                "-o", "--output", metavar="FILE", help="FILE.svg, FILE.dot or FILE.png; by default a name that fits"
            ),
            FORCE,
            *LIMITS,
        ),
    ),
    "redact": Command(
        run=partial(printed, _redact),
        help="a recording without source text and paths, as a recording",
        usage="REC OUT [--force] [--sources DIR] [--user-path P] [--max-size SIZE] [--max-nesting N]",
        description=_REDACT_DESCRIPTION,
        epilog=_REDACT_EPILOG,
        arguments=(
            A_RECORDING,
            argument("out", metavar="OUT", help="the file to write; gzipped, if its name ends with .gz"),
            FORCE,
            SOURCES,
            user_path(),
            *LIMITS,
        ),
    ),
}  # fmt: skip
