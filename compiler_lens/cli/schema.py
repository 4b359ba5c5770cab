"""`compiler-lens schema`: what stands in the JSON of a view, as a JSON Schema."""

from __future__ import annotations

import argparse

from compiler_lens.cli.output import printed

_DESCRIPTION = """\
Print the JSON Schema (draft 2020-12) of what `show REC VIEW --json` prints; without VIEW, of all views.
"""

_EPILOG = """\
examples:
  compiler-lens schema kernels > kernels.schema.json
  compiler-lens schema breaks | jq '.["$defs"].Place'
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "schema",
        help="the JSON Schema of a view",
        usage="compiler-lens schema [VIEW]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("view", metavar="VIEW", nargs="?", help="a view of `show`, or diff, modes, what_if")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    return printed(lambda: _text(args.view))


def _text(name: str | None) -> str:
    import json

    from compiler_lens.render.json import any_schema, view_schema
    from compiler_lens.views.registry import documented

    schemas = [view_schema(*view) for view in documented(name)]
    return json.dumps(schemas[0] if name else any_schema(schemas), indent=1) + "\n"
