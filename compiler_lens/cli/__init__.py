"""The command line: `compiler-lens COMMAND …`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from compiler_lens.recording.errors import LensError, visible

_DESCRIPTION = """\
See what torch.compile did to your program: what was compiled and what was not,
where graphs break and why, which kernels came out, and where compile time went.
"""

_EXAMPLES = """\
start here:
  compiler-lens run -o run.clens train.py     record a script as it is
  compiler-lens show run.clens                one screen: what happened, what to do next
  compiler-lens show run.clens breaks         every graph break, with torch's advice
  compiler-lens report run.clens              all of it as one HTML file
  compiler-lens graph run.clens               a graph as a picture
  compiler-lens diff old.clens new.clens      what the compiler did differently
  compiler-lens redact run.clens out.clens    the same for other eyes: no source text, no paths
  compiler-lens fix train.py                  try its advice on copies of your files, and show the diff
  compiler-lens what-if model.py:make         which setting of torch.compile would help
  compiler-lens modes model.py:make           which mode of torch.compile is fastest
  compiler-lens profile model.py:make         how long each kernel takes, and its possible saving

Or in Python: lens = compiler_lens.Lens(); torch.compile(model, backend=lens);
call the model; print(lens.report()).
"""

# The module that has a command in its COMMANDS; in the order of the help.
_WHERE: Mapping[str, str] = {
    "run": "run",
    "show": "show",
    "report": "export",
    "source": "show",
    "graph": "export",
    "diff": "diff",
    "redact": "export",
    "fix": "fix",
    "what-if": "measure",
    "profile": "measure",
    "modes": "measure",
    "schema": "show",
}
_LONGEST = 300  # what an exception says, at most
_BROKEN = 3  # the exit status where something of ours failed
_ONE = (None, 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is 0 if it did what was asked for."""
    typed = sys.argv[1:] if argv is None else argv
    args = _parser(typed[0] if typed else "").parse_args(typed)
    try:
        return int(args.run(args))
    except LensError as error:
        sys.stderr.write(f"compiler-lens: {error}\n")
        return error.exit_code
    except Exception as error:  # a mistake of ours, in one line
        if args.traceback:
            raise
        from compiler_lens.views.text import one_line

        command = next(word for word in typed if not word.startswith("-"))
        intact = "the recording is intact; " if _is_intact(getattr(args, "recording", None)) else ""
        said = one_line(f"{type(error).__name__}: {error}").rstrip(": ")[:_LONGEST]
        asked = f"{intact}please report it, with --traceback for details"
        sys.stderr.write(f"compiler-lens: {command} failed: {said}; {asked}\n")
        return _BROKEN


def _is_intact(recording: str | None) -> bool:
    """Whether a recording is named, and all of it can be read."""
    from compiler_lens.decode.recording_file import open_recording

    try:
        return recording is not None and not open_recording(recording).problems
    except Exception:  # noqa: BLE001 -- something else is being told
        return False


def _parser(named: str = "") -> argparse.ArgumentParser:
    """The parser of all commands; where one is *named*, it loads no other."""
    parser = _MixedParser(
        prog="compiler-lens",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in [named] if named in _WHERE else _WHERE:
        command = importlib.import_module(f"compiler_lens.cli.{_WHERE[name]}").COMMANDS[name]
        added = commands.add_parser(
            name,
            help=command.help,
            usage=f"compiler-lens {name} {command.usage}",
            description=command.description,
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=command.allows_abbreviations,
        )
        for names, details in command.arguments:
            added.add_argument(*names, **details)
        added.add_argument("--traceback", action="store_true", help=argparse.SUPPRESS)
        added.set_defaults(run=command.run, **command.defaults)
    return parser


class _MixedParser(argparse.ArgumentParser):
    """Takes options also between its other arguments: `graph run.clens --stage kernels 0/0`.

    argparse gives optional positional arguments away before the first option, and then knows no place for later ones.
    """

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse, options first."""
        passes_on = any(not action.option_strings and action.nargs in {"...", "A..."} for action in self._actions)
        if args is None or passes_on:  # what a command passes on to a script stays as it is
            return super().parse_known_args(args, namespace)
        options: list[str] = []
        others: list[str] = []
        rest = iter(args)
        for argument in rest:
            if argument == "--":
                others += ["--", *rest]
                break
            if not argument.startswith("-") or argument == "-":
                others.append(argument)
                continue
            options.append(argument)
            if self._takes_next(argument):
                value = next(rest, None)
                if value is None:  # an option without its value stays last, and does not take another argument
                    others.append(options.pop())
                else:
                    options.append(value)
        return super().parse_known_args([*options, *others], namespace)

    def error(self, message: str) -> NoReturn:
        """Quote what was typed so that it cannot act."""
        super().error(visible(message))

    def _takes_next(self, argument: str) -> bool:
        """Whether an option's value is the argument behind it."""
        known = self._option_string_actions
        fitting = {id(a): a for name, a in known.items() if name == argument} or {
            id(a): a for name, a in known.items() if argument.startswith("--") and name.startswith(argument)
        }
        return len(fitting) == 1 and next(iter(fitting.values())).nargs in _ONE


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from compiler_lens import __version__

        sys.stdout.write(f"compiler-lens {__version__}\n")
        parser.exit()
