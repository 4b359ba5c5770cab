"""`compiler-lens show`: the report of a recording, and the views behind it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from compiler_lens.cli.output import add_look, add_user_path, check_width, printed
from compiler_lens.recording.errors import UsageError
from compiler_lens.views.registry import REPORT, VIEWS, Asks, checked_view, view_named

if TYPE_CHECKING:
    from compiler_lens.facts.program.select import Selection
    from compiler_lens.recording.model import Recording

_LISTED = 20  # recordings of a folder that a message names

_EPILOG = (
    "views:\n"
    + "\n".join(f"  {view.name:<12} {view.answers}" for view in VIEWS)
    + """

ID is a compile id as torch prints it, 0/1 or [0/1]; a frame alone, 0, means all its compilations.
STAGE is one of dynamo, joint, forward, backward, inference, post_grad, post_grad_backward.

examples:
  compiler-lens show run.clens                      one screen: what happened, what to do next
  compiler-lens show run.clens graphs 0/0 forward   the ATen graph of the forward, as code
  compiler-lens show run.clens kernel triton_poi_fused_add_0
  compiler-lens show run.clens line model.py:41     the kernels of a line, forward and backward
  compiler-lens show /tmp/torch_trace/ breaks       a TORCH_TRACE log that we did not write
  compiler-lens show run.clens kernels --json | jq '.kernels[].name'
"""
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "show",
        help="show a recording, or a TORCH_TRACE log",
        usage="compiler-lens show REC [VIEW] [ID] [STAGE] [--user-path P] [--redact] [--json] [--width N] [--no-color]",
        description="Show a recording: without a view, one screen that ends with what to do next.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Optional only for argparse, whose own message would not say what to type.
    parser.add_argument(
        "recording", metavar="REC", nargs="?", help="a recording, a TORCH_TRACE log, or a folder with one of them"
    )
    parser.add_argument("view", metavar="VIEW", nargs="?", default=REPORT, help="what to look at, see below")
    parser.add_argument("what", metavar="ID", nargs="*", help="a compile id; after `kernel`, the kernel's name")
    parser.add_argument("--id", metavar="ID", help="with `kernel`: the compile id, where several have that name")
    add_user_path(parser, ", where breaks are placed; may be repeated")
    parser.add_argument("--redact", action="store_true", help="without source text, and without the paths of files")
    add_look(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one view."""
    args.recording = _named(args)
    _check(args)
    return printed(lambda: _text(args))


def _named(args: argparse.Namespace) -> str:
    """The recording that is meant: in a folder with one recording, that one."""
    from compiler_lens.decode.recording_file import recordings_in

    named = args.recording
    path = Path(named or ".")
    rest = [] if args.view == REPORT else [args.view, *args.what]
    if named is None or (view_named(named) and not path.exists()):
        raise UsageError(f"show which recording? {_meant(recordings_in(Path()), [named or '', *rest])}")
    found = recordings_in(path) if path.is_dir() else ()
    if len(found) > 1:
        names = "\n  ".join(map(str, found[:_LISTED]))
        more = f"\n  … {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
        raise UsageError(f"{named} holds {len(found):,} recordings. {_meant(found, rest)}\n  {names}{more}")
    return str(found[0]) if found else str(named)


def _meant(found: Sequence[Path], rest: Sequence[str]) -> str:
    newest = " the newest" if len(found) > 1 else ""
    file = quote(str(found[0])) if found else "FILE"
    typed = " ".join(["compiler-lens show", file, *rest]).strip()
    if not found:
        return f"Type {typed}, and FILE is what compiler-lens run or Lens(path) wrote"
    return f"Did you mean{newest}? {typed}"


def _check(args: argparse.Namespace) -> None:
    """Say at once what is wrong with the command; reading a large recording takes a moment."""
    asks = Asks.NOTHING if args.view == REPORT else checked_view(args.view).asks
    if asks is Asks.KERNEL and len(args.what) != 1:
        raise UsageError("which kernel? compiler-lens show REC kernel NAME, and `kernels` lists the names")
    if len(args.what) > asks.most:
        raise UsageError(
            f"too much: {' '.join(args.what[asks.most :])} (view {args.view} takes {asks.most} of ID or NAME)"
        )
    check_width(args.width)
    if args.id and asks is not Asks.KERNEL:
        raise UsageError(f"--id goes with `kernel`; here: compiler-lens show REC {args.view} {args.id}")


def _text(args: argparse.Namespace) -> str:
    from compiler_lens.decode.recording_file import open_recording

    recording, name = open_recording(args.recording), args.recording
    if args.redact:
        from compiler_lens.facts.program.ownership import Ownership
        from compiler_lens.recording.redact import redacted

        recording, name = redacted(recording, Ownership.of(tuple(args.user_path or ())).owns), "REC"
    selection = _selection(recording, args)
    if args.json:
        from compiler_lens.render.json import view_json

        return view_json(recording, args.view, selection) + "\n"
    from compiler_lens.render.console import report, view
    from compiler_lens.render.console.open_page import page_for

    color = False if args.no_color else None
    if args.view == REPORT:
        return report(recording, width=args.width, color=color, path=name, user_paths=selection.user_paths)
    page = page_for(recording, width=args.width, color=color, path=name)
    return view(recording, args.view, page, selection)


def _selection(recording: Recording, args: argparse.Namespace) -> Selection:
    from compiler_lens.facts.program.select import Selection, select_ids, select_kernels, select_launches, select_stage

    own = tuple(args.user_path or ())
    view = view_named(args.view)
    named = args.what[0] if args.what else ""
    match view.asks if view else Asks.NOTHING:
        case Asks.KERNEL:
            ids = select_ids(recording, args.id) if args.id else None
            select_kernels(recording, named, ids)
            return Selection(ids=ids, kernel=named, user_paths=own)
        case Asks.FILE:
            return Selection(file=named, user_paths=own)
        case Asks.LINE:
            return Selection(place=named, user_paths=own)
        case Asks.LAUNCHES if named:
            return select_launches(recording, named, own)
    ids = select_ids(recording, named) if named else None
    stage = select_stage(recording, ids, args.what[1]) if ids and len(args.what) > 1 else None
    return Selection(ids=ids, stage=stage, user_paths=own)
