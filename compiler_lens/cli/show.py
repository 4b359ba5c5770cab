"""`compiler-lens show`: the report of a recording, and the views behind it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from compiler_lens.cli.output import add_look, check_width, printed
from compiler_lens.recording.errors import UsageError

if TYPE_CHECKING:
    from compiler_lens.facts.program.select import Selection
    from compiler_lens.recording.model import Recording

_REPORT = "report"
_LISTED = 20  # recordings of a folder that a message names

_VIEWS: Mapping[str, str] = {
    "findings": "everything worth knowing, ranked: severity, cost, what to change",
    "breaks": "graph breaks by place in your code: why, and what to change",
    "graphs": "compilations; with ID its graphs, with ID STAGE the code of one",
    "kernels": "every kernel, and the lines and modules that it is for; with ID, LINE, MODULE or KERNEL those of it",
    "kernel": "one kernel by NAME, or a part of it: from your lines to its launches and its source",
    "line": "what became of a LINE, model.py:41, or of a MODULE, layers.3.attn; alone, every line with kernels",
    "profile": "how long each kernel takes, against the least that this device needs; the same can be named as there",
    "fusion": "launches that share memory and are not one kernel: what that costs, and why",
    "recompiles": "what changed from one compilation of a function to the next, and what to do",
    "guards": "the conditions for reusing compiled code; with ID every one",
    "caches": "hit, miss or bypass, for every question to torch's caches",
    "times": "compile time by phase, by compilation, by torch's own events",
    "frames": "what became of every function: compiled, skipped, failed",
    "source": "your file line by line: compiled, broken, eager; with FILE[:LINE] that one",
    "autotune": "what max-autotune tried for each op, and what won",
    "cudagraphs": "which graphs run as CUDA graphs, and why not the others",
    "environment": "versions, device, changed settings, gaps in the recording",
}

_EPILOG = (
    "views:\n"
    + "\n".join(f"  {view:<12} {told}" for view, told in _VIEWS.items())
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
        usage="compiler-lens show REC [VIEW] [ID] [STAGE] [--user-path P] [--json] [--width N] [--no-color]",
        description="Show a recording: without a view, one screen that ends with what to do next.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Optional only for argparse, whose own message would not say what to type.
    parser.add_argument(
        "recording", metavar="REC", nargs="?", help="a recording, a TORCH_TRACE log, or a folder with one of them"
    )
    parser.add_argument("view", metavar="VIEW", nargs="?", default=_REPORT, help="what to look at, see below")
    parser.add_argument("what", metavar="ID", nargs="*", help="a compile id; after `kernel`, the kernel's name")
    parser.add_argument("--id", metavar="ID", help="with `kernel`: the compile id, where several have that name")
    parser.add_argument(
        "--user-path",
        metavar="P",
        action="append",
        help="a file, folder or package to count as your own code, where breaks are placed; may be repeated",
    )
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
    rest = [] if args.view == _REPORT else [args.view, *args.what]
    if named is None or (named in _VIEWS and not path.exists()):
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
    if args.view != _REPORT and args.view not in _VIEWS:
        from compiler_lens.facts.program.select import nearest

        meant = nearest(args.view, _VIEWS)
        hint = f" Did you mean {meant}?" if meant else ""
        raise UsageError(f"no view {args.view!r}.{hint} There are {', '.join(_VIEWS)}")
    if args.view == "kernel" and len(args.what) != 1:
        raise UsageError("which kernel? compiler-lens show REC kernel NAME, and `kernels` lists the names")
    most = {_REPORT: 0, "graphs": 2}.get(args.view, 1)
    if len(args.what) > most:
        raise UsageError(f"too much: {' '.join(args.what[most:])} (view {args.view} takes {most} of ID or NAME)")
    check_width(args.width)
    if args.id and args.view != "kernel":
        raise UsageError(f"--id goes with `kernel`; here: compiler-lens show REC {args.view} {args.id}")


def _text(args: argparse.Namespace) -> str:
    from compiler_lens.decode.recording_file import open_recording

    recording = open_recording(args.recording)
    selection = _selection(recording, args)
    if args.json:
        from compiler_lens.views.json import to_json

        return to_json(recording, args.view, selection) + "\n"
    from compiler_lens.render.console import report, view
    from compiler_lens.render.console.open_page import page_for

    color = False if args.no_color else None
    if args.view == _REPORT:
        return report(recording, width=args.width, color=color, path=args.recording, user_paths=selection.user_paths)
    page = page_for(recording, width=args.width, color=color, path=args.recording)
    return view(recording, args.view, page, selection)


def _selection(recording: Recording, args: argparse.Namespace) -> Selection:
    from compiler_lens.facts.program.select import Selection, select_ids, select_kernels, select_launches, select_stage

    if args.view == "kernel":
        ids = select_ids(recording, args.id) if args.id else None
        select_kernels(recording, args.what[0], ids)
        return Selection(ids=ids, kernel=args.what[0])
    own = tuple(args.user_path or ())
    if args.view == "source":
        return Selection(file=args.what[0] if args.what else "", user_paths=own)
    if args.view == "line":
        return Selection(place=args.what[0] if args.what else "", user_paths=own)
    if args.view in {"kernels", "profile"} and args.what:
        return select_launches(recording, args.what[0], own)
    ids = select_ids(recording, args.what[0]) if args.what else None
    stage = select_stage(recording, ids, args.what[1]) if ids and len(args.what) > 1 else None
    return Selection(ids=ids, stage=stage, user_paths=own)
