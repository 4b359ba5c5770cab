"""`compiler-lens show` and `source`: the report of a recording and the views behind it; `schema`: their JSON Schema."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from compiler_lens.cli.command import (
    A_RECORDING,
    LIMITS,
    REDACT,
    SOURCES,
    Command,
    all_or_none,
    argument,
    check_width,
    look,
    opened,
    printed,
    user_path,
)
from compiler_lens.recording.errors import UsageError
from compiler_lens.views.registry import BY_NAME, REPORT, VIEWS, Asks, checked_view

if TYPE_CHECKING:
    from compiler_lens.facts.program.select import Selection
    from compiler_lens.recording.model import Recording

_LISTED = 20  # recordings of a folder that a message names

_SHOW_EPILOG = (
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
  compiler-lens show /tmp/torch_trace/ --sources .  with the text of your files below this folder
  compiler-lens show run.clens kernels --json | jq '.kernels[].name'
"""
)

_SOURCE_EPILOG = """\
FILE is any ending of a file's path: model.py, models/model.py. Without one: the list of your files that
something happened in, and the first of them.

examples:
  compiler-lens source run.clens
  compiler-lens source run.clens model.py
  compiler-lens source run.clens model.py:41     the lines around line 41
"""

_SCHEMA_EPILOG = """\
examples:
  compiler-lens schema kernels > kernels.schema.json
  compiler-lens schema breaks | jq '.["$defs"].Place'
"""


def show(args: argparse.Namespace) -> int:
    """Print one view. Say at once what is wrong with the command; reading a large recording takes a moment."""
    args.recording = _named(args)
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
    return printed(partial(_view, asks), args)


def _named(args: argparse.Namespace) -> str:
    """The recording that is meant: in a folder with one recording, that one."""
    from compiler_lens.decode.recording_file import recordings_in

    named = args.recording
    path = Path(named or ".")
    rest = [] if args.view == REPORT else [args.view, *args.what]
    if named is None or (named in BY_NAME and not path.exists()):
        raise UsageError(f"show which recording? {_meant(recordings_in(Path()), [named or '', *rest])}")
    found = recordings_in(path) if path.is_dir() else ()
    if len(found) > 1:
        names = "\n  ".join(map(str, found[:_LISTED]))
        more = f"\n  … {len(found) - _LISTED:,} more" if len(found) > _LISTED else ""
        raise UsageError(f"{named} holds {len(found):,} recordings. {_meant(found, rest)}\n  {names}{more}")
    return str(found[0]) if found else str(named)


def _meant(found: Sequence[Path], rest: Sequence[str]) -> str:
    newest = " the newest" if len(found) > 1 else ""
    typed = " ".join(["compiler-lens show", quote(str(found[0])) if found else "FILE", *rest]).strip()
    if not found:
        return f"Type {typed}, and FILE is what compiler-lens run or Lens(path) wrote"
    return f"Did you mean{newest}? {typed}"


def _view(asks: Asks, args: argparse.Namespace) -> Iterable[str]:
    recording, name = opened(args), args.recording
    if args.redact:
        from compiler_lens.facts.program.ownership import Ownership
        from compiler_lens.recording.redact import redacted

        recording, name = redacted(recording, Ownership.of(tuple(args.user_path)).owns), "REC"
    selection = _selection(recording, args, asks)
    if args.json:
        from compiler_lens.render.json import view_parts

        return all_or_none(chain(view_parts(recording, args.view, selection), "\n"))
    from compiler_lens.render import console
    from compiler_lens.render.console.page import page_for

    color = args.color
    if color is None and not sys.stdout.isatty() and not {"FORCE_COLOR", "TTY_COMPATIBLE"} & os.environ.keys():
        color = False  # what rich would say, too, after a while: importing its console takes a tenth of the time
    options = [] if args.redact else _read_with(args)
    page = page_for(recording, width=args.width, color=color, path=name, options=options)
    if args.view == REPORT:
        return (console.report_on(page, recording, selection.user_paths),)
    return (console.view(recording, args.view, page, selection),)


def _read_with(args: argparse.Namespace) -> list[str]:
    """The options that say how to read the recording: without them another command would read another one."""
    given = [("--sources", each) for each in args.sources] + [("--user-path", each) for each in args.user_path]
    given += [("--max-size", str(args.max_size))] if args.max_size else []
    given += [("--max-nesting", str(args.max_nesting))] if args.max_nesting else []
    return [word for pair in given for word in pair]


def _selection(recording: Recording, args: argparse.Namespace, asks: Asks) -> Selection:
    from compiler_lens.facts.program.select import Selection, select_ids, select_kernels, select_launches, select_stage

    own = tuple(args.user_path)
    named = args.what[0] if args.what else ""
    match asks:
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


def _schema(args: argparse.Namespace) -> str:
    import json

    from compiler_lens.render.json import any_schema, view_schema
    from compiler_lens.views.registry import documented

    schemas = [view_schema(*view) for view in documented(args.view)]
    return json.dumps(schemas[0] if args.view else any_schema(schemas), indent=1) + "\n"


COMMANDS = {
    "show": Command(
        run=show,
        help="show a recording, or a TORCH_TRACE log",
        usage="REC [VIEW] [ID] [STAGE] [--sources DIR] [--user-path P] [--redact]"
        " [--max-size SIZE] [--max-nesting N] [--json] [--width N] [--no-color]",
        description="Show a recording: without a view, one screen that ends with what to do next.",
        epilog=_SHOW_EPILOG,
        arguments=(
            # Optional only for argparse, whose own message would not say what to type.
            (A_RECORDING[0], A_RECORDING[1] | {"nargs": "?"}),
            argument("view", metavar="VIEW", nargs="?", default=REPORT, help="what to look at, see below"),
            argument("what", metavar="ID", nargs="*", help="a compile id; after `kernel`, the kernel's name"),
            argument("--id", metavar="ID", help="with `kernel`: the compile id, where several have that name"),
            SOURCES,
            user_path(", where breaks are placed; may be repeated"),
            REDACT,
            *LIMITS,
            *look(),
        ),
    ),
    "source": Command(
        run=show,
        help="your file line by line: compiled, broken, eager",
        usage="REC [FILE[:LINE]] [--sources DIR] [--user-path P] [--max-size SIZE] [--max-nesting N]"
        " [--json] [--width N] [--no-color]",
        description="Show a file of yours with what became of each of its lines; the same as show REC source.",
        epilog=_SOURCE_EPILOG,
        arguments=(
            argument("recording", metavar="REC", nargs="?", help="a recording, or a folder with one"),
            argument("what", metavar="FILE[:LINE]", nargs="*", help="the file; with a line, what is around it"),
            SOURCES,
            user_path(""),
            *LIMITS,
            *look(),
        ),
        defaults={"view": "source", "id": None, "redact": False},
    ),
    "schema": Command(
        run=partial(printed, _schema),
        help="the JSON Schema of a view",
        usage="[VIEW]",
        description="Print the JSON Schema (draft 2020-12) of what `show REC VIEW --json` prints; without VIEW, of all"
        " views.\n",
        epilog=_SCHEMA_EPILOG,
        arguments=(argument("view", metavar="VIEW", nargs="?", help="a view of `show`, or diff, modes, what_if"),),
    ),
}
