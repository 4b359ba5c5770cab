"""`compiler-lens run`: record an unchanged script.

The script is run by Python itself: this process becomes `python script.py args…` (exec), with one module of ours in
front of PYTHONPATH that opens a lens in it, see startup/sitecustomize.py. So whatever a script can see or do is as
without us: `__main__`, `sys.argv`, tracebacks, exit status, signals, standard streams, child processes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

import compiler_lens
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.journal import JournalWriter, is_journal
from compiler_lens.recording.torch_log import is_torch_log

_DESCRIPTION = """\
Run a Python script, or with -m a module, exactly as Python would, and record every compilation of torch.compile in
its process, whatever the backend. Everything behind the script's name is the script's. Its exit status is kept; the
report is printed to the standard error when it ends."""

_EPILOG = """\
The recording is written while the script runs: it is there, too, when the script fails or is killed. Without -o it is
named after the script, in the current folder: train.clens, then train-2.clens, and so on; with -o FILE, an earlier
recording of that name is written over. The ranks of a distributed job (RANK, WORLD_SIZE) write a file each,
train.rank0.clens and so on:

  compiler-lens run train.py --epochs 1
  compiler-lens run -o before.clens -m package.train
  torchrun --nproc-per-node 2 --no-python compiler-lens run train.py

Only this process is recorded: not processes that the script starts. A script that never imports torch, or fails before
it compiles anything, leaves no recording."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="run a script and record what it compiles",
        usage="compiler-lens run [-o FILE] [--strict] [--no-report] [--no-progress] (script | -m module) [args ...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # argparse looks for abbreviations in the script's arguments, too
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the recording, or a folder to put it in")
    parser.add_argument("-m", "--module", action="store_true", help="run a module by its name, as python -m does")
    parser.add_argument("--strict", action="store_true", help="fail where compiler_lens fails, instead of noting it")
    parser.add_argument("--no-report", action="store_true", help="print nothing when the script ends")
    parser.add_argument("--no-progress", action="store_true", help="no live line on the terminal while it compiles")
    # PARSER is "one, then all that follows, options and -- included".
    parser.add_argument("command", nargs=argparse.PARSER, metavar="script", help="the script, and its own arguments")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Become the script. Comes back only with a `UsageError`."""
    _check_interpreter()
    script, *arguments = args.command
    if not args.module:
        _check_script(script)
    path = _output(args.output, script, is_module=args.module)
    _create(path)
    python = [sys.executable, *_interpreter_flags(), *(["-m"] if args.module else []), script, *arguments]
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os.execve(sys.executable, python, _environment(path, _options(args)))  # noqa: S606 -- the user's own command


def _check_interpreter() -> None:
    if sys.flags.ignore_environment or sys.flags.no_site:
        raise UsageError("compiler-lens run cannot work under python -E, -I or -S: it needs PYTHONPATH and site")


def _check_script(script: str) -> None:
    if script == "-":
        return
    if Path(script).exists():
        _check_no_recording(Path(script))
        return
    name = Path(script).name
    if name.startswith("python"):
        raise UsageError(f"no such script: {script} (leave it out: compiler-lens run script.py)")
    if name == "torchrun":
        raise UsageError("no such script: torchrun (run it round us: torchrun --no-python compiler-lens run script.py)")
    raise UsageError(f"no such script: {script}")


def _check_no_recording(script: Path) -> None:
    if not script.is_file() or not os.access(script, os.R_OK):
        return  # Python has the word
    show = f"compiler-lens show {shlex.quote(str(script))}"
    if is_journal(script):
        raise UsageError(f"{script} is a recording, no script. To see it: {show}")
    # Not by what is in it alone: a script may hold lines of a log.
    if script.suffix in {".log", ".gz"} and is_torch_log(script):
        raise UsageError(f"{script} is a TORCH_TRACE log, no script. To see it: {show}")


def _output(wanted: str | None, script: str, *, is_module: bool) -> Path:
    """Where the recording goes, as an absolute path: the script may change the folder."""
    rank = f".rank{os.environ.get('RANK', '0')}" if os.environ.get("WORLD_SIZE", "1") != "1" else ""
    target = Path("" if wanted is None else wanted.replace("{pid}", str(os.getpid()))).absolute()
    if wanted is None or target.is_dir():
        return _unused(target, _stem(script, is_module=is_module) + rank)
    if target.is_file() and target.stat().st_size and not is_journal(target):
        raise UsageError(f"{target} is there and is not a recording: name another file with -o")
    return target.with_name(f"{target.stem}{rank}{target.suffix}") if rank else target


def _stem(script: str, *, is_module: bool) -> str:
    if is_module:
        return script.rpartition(".")[2]
    return "stdin" if script == "-" else Path(script).absolute().stem


def _unused(folder: Path, stem: str) -> Path:
    path, number = folder / f"{stem}.clens", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.clens"
    return path


def _create(path: Path) -> None:
    """Begin an empty recording, so that one is there even if the script never comes to compile."""
    journal = JournalWriter(path)
    journal.close()
    if journal.failure:
        sys.stderr.write(f"compiler-lens: {journal.failure}: there will be a report, but no recording\n")


def _interpreter_flags() -> list[str]:
    # multiprocessing uses the same function to start interpreters like the present one.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    unbuffered = getattr(sys.stdout, "write_through", False)
    return [*flags, "-u"] if unbuffered else flags


def _options(args: argparse.Namespace) -> str:
    chosen = {"strict": args.strict, "report": not args.no_report, "progress": not args.no_progress}
    return " ".join(option for option, is_on in chosen.items() if is_on)


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
