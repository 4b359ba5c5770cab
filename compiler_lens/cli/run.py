"""`compiler-lens run`: record an unchanged script.

The script is run by Python itself: this process becomes `python script.py args…` (exec), with one module of ours in
front of PYTHONPATH that opens a lens in it, see startup/sitecustomize.py. So whatever a script can see or do is as
without us: `__main__`, `sys.argv`, tracebacks, exit status, signals, standard streams, child processes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from itertools import count
from pathlib import Path

import compiler_lens
from compiler_lens.cli.command import (
    FORCE,
    Command,
    argument,
    check_can_be_written,
    check_script,
    interpreter,
    say_what_is_passed_on,
)
from compiler_lens.cli.recorded_script import put_by
from compiler_lens.recording.errors import UsageError, visible
from compiler_lens.recording.journal import JournalWriter
from compiler_lens.recording.output_files import Product

_DESCRIPTION = """\
Run a Python script, or with -m a module, exactly as Python would, and record every compilation of torch.compile in
its process, whatever the backend. Everything after the script's name is the script's. Its exit status is kept; the
report is printed to the standard error when it ends."""

_EPILOG = """\
The recording is written while the script runs: it is there, too, when the script fails or is killed. Without -o it is
named after the script, in the current folder: train.clens, then train-2.clens, and so on; with -o FILE, an earlier
recording of that name is written over, any other file only with --force. The ranks of a distributed job (RANK,
WORLD_SIZE) write a file each, train.rank0.clens and so on:

  compiler-lens run train.py --epochs 1
  compiler-lens run -o before.clens -m package.train
  torchrun --nproc-per-node 2 --no-python compiler-lens run train.py

Only this process is recorded: not processes that the script starts. A script that never imports torch, or fails before
it compiles anything, leaves no recording, and an earlier one of that name as it was."""


def run(args: argparse.Namespace) -> int:
    """Become the script. Comes back only with a `UsageError`."""
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise UsageError("compiler-lens run cannot work under python -E, -I or -S: it needs PYTHONPATH and site")
    script, *arguments = args.command
    if not args.module and script != "-":
        check_script(script, "run")
    path = _output(args.output, script, is_module=args.module)
    if not args.no_report:
        say_what_is_passed_on(args, "run", COMMANDS["run"].arguments)
    if path.exists() and Path(script).exists() and path.samefile(script):
        raise UsageError(f"{path} is the script itself: name another file with -o")
    path = _begun(path, args)
    unbuffered = ["-u"] if getattr(sys.stdout, "write_through", False) else []
    python = [*interpreter(), *unbuffered, *(["-m"] if args.module else []), script, *arguments]
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    chosen = {"strict": args.strict, "report": not args.no_report, "progress": not args.no_progress}
    options = " ".join(option for option, is_on in chosen.items() if is_on)
    os.execve(sys.executable, python, _environment(path, options))  # noqa: S606 -- the user's own command


def _begun(path: Path, args: argparse.Namespace) -> Path:
    """Write an empty recording: one is there even if the script never comes to compile. Return where it is."""
    is_named = bool(args.output) and not Path(args.output).is_dir()
    if is_named and not path.is_file():  # of one that is there, the journal tells whose it is, and who records to it
        check_can_be_written(str(path), Product.RECORDING, overwrite=args.force)
    earlier = _put_by(path, is_named=is_named)
    try:
        journal = JournalWriter(path, overwrite=args.force)
    except UsageError:
        earlier.unlink(missing_ok=True)
        raise
    journal.close()
    if journal.path != path:
        earlier.unlink(missing_ok=True)
    if journal.path not in (None, path):
        told = f"{path} is being recorded to already: this recording is {journal.path}"
        sys.stderr.write(f"compiler-lens: {visible(told)}\n")
        path = journal.path
    if journal.failure:
        sys.stderr.write(f"compiler-lens: {visible(journal.failure)}: there will be a report, but no recording\n")
    return path


def _output(wanted: str | None, script: str, *, is_module: bool) -> Path:
    """Where the recording goes, as an absolute path: the script may change the folder."""
    rank = f".rank{os.environ.get('RANK', '0')}" if os.environ.get("WORLD_SIZE", "1") != "1" else ""
    target = Path("" if wanted is None else wanted.replace("{pid}", str(os.getpid()))).absolute()
    if wanted is None or target.is_dir():
        stem = "stdin" if script == "-" else Path(script).absolute().stem
        if is_module:
            stem = script.rpartition(".")[2]
        return _made_anew(target, f"{stem}{rank}")
    return target.with_name(f"{target.stem}{rank}{target.suffix}") if rank else target


def _put_by(path: Path, *, is_named: bool) -> Path:
    """Copy what is there under this name: it comes back if this run has nothing to record. We make an unnamed one."""
    copy = put_by(str(path))
    if is_named and path.is_file():
        with contextlib.suppress(OSError):  # then it is written over, as the help says
            shutil.copy2(path, copy)
    return copy


def _made_anew(folder: Path, stem: str) -> Path:
    """Make a file under a name that nothing has, for the user alone: others may write in the folder, links too."""
    for number in count(1):
        path = folder / (f"{stem}.clens" if number == 1 else f"{stem}-{number}.clens")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            continue
        except OSError:  # the journal says why
            pass
        break
    return path


def _environment(path: Path, options: str) -> dict[str, str]:
    """The environment for the script, with our messages to startup/sitecustomize.py, which takes them out again."""
    startup = str(Path(__file__).with_name("startup"))
    before = os.environ.get("PYTHONPATH")
    ours = {
        "PYTHONPATH": os.pathsep.join([startup, *([before] if before else [])]),
        "COMPILER_LENS_PATH": str(path),
        "COMPILER_LENS_OPTIONS": options,
        "COMPILER_LENS_HOME": str(Path(compiler_lens.__file__).parent.parent),
    }
    return {**os.environ, **ours, **({} if before is None else {"COMPILER_LENS_PYTHONPATH": before})}


COMMANDS = {
    "run": Command(
        run=run,
        help="run a script and record what it compiles",
        usage="[-o FILE] [--force] [--strict] [--no-report] [--no-progress] (script | -m module) [args ...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        arguments=(
            argument("-o", "--output", metavar="FILE", help="the recording, or a folder to put it in"),
            FORCE,
            argument("-m", "--module", action="store_true", help="run a module by its name, as python -m does"),
            argument("--strict", action="store_true", help="fail where compiler_lens fails, instead of noting it"),
            argument("--no-report", action="store_true", help="print nothing when the script ends"),
            argument("--no-progress", action="store_true", help="no live line on the terminal while it compiles"),
            # PARSER is "one, then all that follows, options and -- included".
            argument("command", nargs=argparse.PARSER, metavar="script", help="the script, and its own arguments"),
        ),
        allows_abbreviations=False,  # argparse looks for abbreviations in the script's arguments, too
    )
}
