"""`compiler-lens report`: a recording, or what differs between two, as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

from compiler_lens.cli.output import add_user_path, check_is_other_file, printed
from compiler_lens.recording.errors import UsageError

_DESCRIPTION = """\
Write a recording as one HTML file, to read in a browser and to send to somebody: what to do first, the source line by
line, graphs, kernels, graph breaks, recompiles. Of two recordings: what differs, side by side. It needs no network, and
no torch."""

_EPILOG = """\
The file holds the program's source code and paths. --redact leaves out source text, strings, your own Triton kernels,
and the folders and names of your files; names of functions, modules, arguments, keys and kernels stay.

examples:
  compiler-lens report run.clens                      writes run.html
  compiler-lens report run.clens -o report.html --open
  compiler-lens report run.clens --redact             for somebody who should not see the code
  compiler-lens report /tmp/torch_trace/              a TORCH_TRACE log that we did not write
  compiler-lens report default.clens tuned.clens      what differs, as `compiler-lens diff` finds it
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "report",
        help="a recording, or what differs between two, as one HTML file",
        usage="compiler-lens report REC [AFTER] [-o FILE.html] [--open] [--redact] [--user-path P]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recording", metavar="REC", help="a recording, a TORCH_TRACE log, or a folder with one of them")
    parser.add_argument("after", metavar="AFTER", nargs="?", help="another one: what differs in it from REC")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the file to write; by default the recording's name.html"
    )
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.add_argument("--redact", action="store_true", help="without source text, and without the paths of files")
    add_user_path(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    return printed(lambda: _text(args))


def _text(args: argparse.Namespace) -> str:
    from compiler_lens.decode.collector import collector_paused
    from compiler_lens.views.text import nbytes

    target = Path(args.output or _name(args.recording, args.after))
    check_is_other_file(target, args.recording, args.after)
    with collector_paused():  # from reading to writing: nothing goes in between
        (_write_diff if args.after else _write_report)(args, target)
    written = f"{target}  {nbytes(target.stat().st_size)}\n"
    return written if not args.open or _opened(target) else f"{written}no browser was found: open it yourself\n"


def _opened(target: Path) -> bool:
    import webbrowser

    return webbrowser.open(target.absolute().as_uri())


def _write_report(args: argparse.Namespace, target: Path) -> None:
    from compiler_lens.decode.recording_file import open_recording
    from compiler_lens.render.page.page import write_page

    recording, own = open_recording(args.recording), tuple(args.user_path or ())
    write_page(recording, target, user_paths=own, name=args.recording, redact=args.redact)


def _write_diff(args: argparse.Namespace, target: Path) -> None:
    from compiler_lens.render.results.comparison import diff

    if args.after.endswith((".html", ".htm")) and not Path(args.after).exists():
        raise UsageError(f"{args.after} is not a recording. To write it: -o {args.after}")
    diff(args.recording, args.after).html(target, user_paths=tuple(args.user_path or ()), redact=args.redact)


def _name(recording: str, after: str | None) -> str:
    """`run.html` for `run.clens`, where one works; `default-to-tuned.html` for two."""
    return f"{'-to-'.join(_stem(path) for path in (recording, after) if path)}.html"


def _stem(recording: str) -> str:
    name = Path(recording).resolve().name.removesuffix(".gz")
    return name.removesuffix(".clens").removesuffix(".log")
