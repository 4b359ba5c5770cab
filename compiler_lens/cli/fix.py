"""`compiler-lens fix`: try what a recording of a program advises, on copies of its files."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import compiler_lens
from compiler_lens.cli.command import (
    Command,
    argument,
    check_script,
    check_width,
    in_front,
    interpreter,
    look,
    printed,
    say_what_is_passed_on,
    user_path,
    write,
)
from compiler_lens.cli.factory import CONTRACT, target
from compiler_lens.decode.recording_file import load, recordings_in, save_tried
from compiler_lens.facts.measured.fix import Fix, Observed
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.measure.fix.machine import cores
from compiler_lens.measure.fix.plan import Program
from compiler_lens.measure.fix.process import Limits, OutOfTime, Processes
from compiler_lens.measure.fix.trials import Asked, tried
from compiler_lens.recording.errors import LensError, RecordingFileError, UsageError, visible, writing
from compiler_lens.recording.journal_reader import is_journal
from compiler_lens.recording.model import Results
from compiler_lens.recording.output_files import put_in_place
from compiler_lens.views.measured.fix import counted_otherwise, patch_command
from compiler_lens.views.text import one_line

_DESCRIPTION = """\
Run a Python script, or with -m a module, and try what would make more of it compile: each change in a fresh process,
on a copy of your file (the file itself is not touched), as far as Dynamo goes (nothing is generated), with fixed seeds.
It counts graph breaks, recompiles and functions that run eagerly, and compares the results of every call of what
torch.compile made, and gradients, with those of a run without the change. Then what helps is tried together. It shows
what was tried, and the diff of the best. Everything after the script's name is the script's. Only your own files are
changed, even in copies; --include PACKAGE has it change copies of that package's files, too, for a patch."""

_MOST_JOBS = 8

_EPILOG = (
    """The script runs many times, in the current folder: what it writes is written each time. --steps N ends it early.

  compiler-lens fix train.py --epochs 1
  compiler-lens fix --steps 3 --patch fix.patch train.py
  compiler-lens fix --apply -m package.train
  compiler-lens fix model.py:make
  compiler-lens fix --include transformers --patch transformers.patch train.py

In place of a script, FILE:FACTORY: """
    + CONTRACT
)


def run(args: argparse.Namespace) -> int:
    """Try, print, and write what was asked for."""
    check_width(args.width)
    program = _program(args)
    if not program.factory:
        say_what_is_passed_on(args, "fix", COMMANDS["fix"].arguments)
    numbers = {"--steps": args.steps, "--timeout": args.timeout, "--within": args.within, "--jobs": args.jobs}
    for name, value in numbers.items():
        if value is not None and not value > 0:
            raise UsageError(f"{name} {value:g}: one or more")
    if args.patch:
        _check_new(Path(args.patch))
    if args.include and args.apply:
        raise UsageError("--apply changes your own files, and --include tries changes of others': use --patch FILE")
    if args.beside and not (Path(args.beside).is_file() and is_journal(Path(args.beside))):
        raise UsageError(f"{args.beside} is no recording: --beside takes what compiler-lens run -o REC wrote")
    return printed(partial(_fixed, program), args)


def _program(args: argparse.Namespace) -> Program:
    name, *rest = args.command
    if args.module:
        return Program(name, tuple(rest), is_module=True)
    if not Path(name).exists() and ":" in name:
        wanted = target(name, "fix")
        if rest:
            ours, others = in_front(rest, COMMANDS["fix"].arguments)
            hint = f". Write: {shlex.join(['compiler-lens', 'fix', *ours, name])}" if ours and not others else ""
            raise UsageError(f"too much: {' '.join(rest)} (a factory takes no arguments){hint}")
        return Program(str(wanted.file), factory=wanted.name, training=args.training)
    check_script(name, "fix")
    return Program(name, tuple(rest))


def _package(name: str) -> str:
    """Return the folder of a package that is installed, or the file of a module. Raises `UsageError` for any other."""
    root = name.partition(".")[0]
    try:
        spec = importlib.util.find_spec(root) if root.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise UsageError(f"--include {name}: no such package is installed")
    if root in {"torch", "compiler_lens"} or root in sys.stdlib_module_names:
        raise UsageError(f"--include {name}: {root} runs the trials, so it cannot be changed in them")
    found = Path(next(iter(spec.submodule_search_locations or ()), spec.origin or ""), *name.split(".")[1:])
    path = found if found.exists() else found.with_suffix(".py")
    if not path.exists():
        raise UsageError(f"--include {name}: {root} has no such part")
    return str(path)


def _check_new(patch: Path) -> None:
    if patch.is_dir() or not patch.absolute().parent.is_dir():
        raise UsageError(f"cannot write {patch}: {'it is a folder' if patch.is_dir() else 'no such folder'}")
    if patch.exists():
        raise UsageError(f"{patch} is there: name another file")


def _fixed(program: Program, args: argparse.Namespace) -> str:
    included = tuple(map(_package, args.include))
    asked = Asked(program, Ownership.of((*args.user_path, *included)), args.steps or 0, included, args.own_inputs)
    environment = {"PYTHONHASHSEED": "0", **os.environ}  # sets in one order, in each run
    home = str(Path(compiler_lens.__file__).parent.parent)
    limits = Limits(args.timeout, args.within, args.jobs or min(cores(), _MOST_JOBS))
    with _termination_as_interrupt(), Processes(interpreter(), home, environment, limits) as processes:
        try:
            fix = tried(asked, processes, _tell)
        except OutOfTime:
            said = f"nothing was tried: the program as it is was not done within {args.within:g} s"
            raise UsageError(f"{said}: give it longer, or end it after N calls with --steps N") from None
    text = _shown(fix, args)
    if args.patch and fix.best:
        with writing(args.patch), Path(args.patch).open("x", encoding="utf-8", newline="") as file:
            file.write(fix.patch)
        _say(f"patch written; make it with: {patch_command(fix, args.patch)}")
    elif args.patch:
        _say(f"no patch: {args.patch} was not written")
    recording = Path(args.beside) if args.beside else _recording_of(program, fix)
    if recording:
        _say(f"kept for show and report of {recording.name} in {save_tried(fix.of_each, recording)}")
        if said := _counted_otherwise(fix, recording, args.steps or 0):
            _say(said)
    if args.apply:
        _apply(fix)
    if fix.is_unfinished and args.within is None:  # Ctrl-C: what is known is said, and the exit status is that of it
        write(text)
        raise KeyboardInterrupt
    return text


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """End as with Ctrl-C where somebody ends this process, `timeout` say: with what helped by then."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler) if is_main else None
    try:
        yield
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _recording_of(program: Program, fix: Fix) -> Path | None:
    """Return the newest recording in this folder that `run` names after the script, if it is of this very program."""
    stem = program.target.rpartition(".")[2] if program.is_module else Path(program.target).stem
    named = [path for path in recordings_in(Path()) if _is_named_after(path.name, stem)]
    if not named or not fix.tried or program.factory or not os.access(named[0].parent, os.W_OK):
        return None
    try:
        recording = load(named[0])
    except LensError:
        return None
    argv, texts = recording.environment.argv, {source.file: source.text for source in recording.sources}
    shared = [file for file in fix.texts if file in texts]
    is_same = argv[1:] == program.args and shared and all(texts[file] == fix.texts[file] for file in shared)
    return named[0] if is_same else None


def _is_named_after(name: str, script: str) -> bool:
    """Whether a file is called as `run` calls recordings of a script: `train.clens`, `train-2.clens`."""
    stem, _, number = name.removesuffix(".clens").rpartition("-")
    return name == f"{script}.clens" or (stem == script and number.isdecimal() and name.endswith(".clens"))


def _counted_otherwise(fix: Fix, path: Path, steps: int) -> str:
    """Say why the recording of the same program has other counts; empty where it has not, or cannot be read."""
    try:
        known = load(path)
    except LensError:
        return ""
    counts = len(known.graph_breaks), len(known.recompiles)
    return counted_otherwise(fix.first.figures, counts, name=path.name, steps=steps)


def _shown(fix: Fix, args: argparse.Namespace) -> str:
    if args.json:
        from compiler_lens.render.json import document_json
        from compiler_lens.views.measured.fix import data

        return document_json("fix", data(fix)) + "\n"
    from compiler_lens.render.console import fix_report

    is_written = bool(args.patch or args.apply)
    kept = "" if is_written else _kept(fix)
    return fix_report(fix, width=args.width, color=args.color, is_written=is_written, kept=kept)


def _kept(fix: Fix) -> str:
    """Keep the patch where temporary files are: to try again takes minutes. Empty where it cannot be kept."""
    if fix.best is None:
        return ""
    stem = Path(fix.changed[0]).stem
    try:
        descriptor, path = tempfile.mkstemp(".patch", f"{stem}.fix-")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(fix.patch)
    except OSError:
        return ""
    return path


def _tell(text: str) -> None:
    """One line before each run: it may take minutes."""
    _say(f"running {one_line(text, 1_000)}")


def _say(text: str) -> None:
    sys.stderr.write(f"{visible(text)}\n")
    sys.stderr.flush()


# -- writing


def _not_to_be_applied(fix: Fix, best: Observed) -> str:
    """Return why the best is not to be written unseen; empty where it may be."""
    if best.results is not Results.EQUAL:
        return "the results could not be compared. Look at it with --patch FILE"
    if best.printed:
        return "the program prints something else then. Look at it with --patch FILE"
    return "" if fix.is_checked else "it was ended before all was tried. Give it longer"


def _apply(fix: Fix) -> None:
    """Write the files, whole or none of them, and first the patch that undoes it."""
    if fix.best is None:
        _say("nothing was applied: nothing helped")
        return
    if said := _not_to_be_applied(fix, fix.best.observed):
        raise UsageError(f"nothing was applied: {said}")
    for file in fix.changed:
        if Path(file).read_bytes() != fix.texts[file].encode():
            raise UsageError(f"nothing was applied: {file} has changed since it was tried. Run it again")
        if not os.access(file, os.W_OK):
            raise RecordingFileError(f"nothing was applied: cannot write {file}")
    patch = _written_anew(Path(fix.changed[0]).stem, fix.patch)
    done: list[str] = []
    try:
        for file in fix.changed:
            with writing(file):
                put_in_place(Path(os.path.realpath(file)), fix.best.texts[file].encode())
            done.append(file)
    except RecordingFileError:
        for file in done:
            put_in_place(Path(os.path.realpath(file)), fix.texts[file].encode())
        raise
    _say(f"changed {', '.join(fix.changed)}; undo it with: {patch_command(fix, str(patch), undo='-R ')}")


def _written_anew(stem: str, text: str) -> Path:
    """Write a patch into the current folder, under a name that is free."""
    number = 1
    while True:
        path = Path(f"{stem}.fix.patch" if number == 1 else f"{stem}.fix-{number}.patch").absolute()
        try:
            with writing(path), path.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
        except RecordingFileError as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
            number += 1
        else:
            return path


COMMANDS = {
    "fix": Command(
        run=run,
        help="try changes of your code on copies of it, and show the best as a diff",
        usage="[--steps N] [--timeout SECONDS] [--within SECONDS] [--jobs N] [--patch FILE] [--apply]\n"
        "         [--beside REC] [--user-path P] [--include PACKAGE] [--own-inputs] [--training] [--json]\n"
        "         [--width N] [--no-color]\n"
        "         (script | -m module | FILE:FACTORY) [args ...]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        arguments=(
            argument("-m", "--module", action="store_true", help="run a module by its name, as python -m does"),
            argument(
                "--steps", metavar="N", type=int, help="end each run after N calls of what torch.compile made"
            ),
            argument(
                "--timeout", metavar="SECONDS", type=float, default=300.0, help="for each run; by default 300"
            ),
            argument(
                "--within", metavar="SECONDS", type=float,
                help="end after so long, with what helped by then, as Ctrl-C does",
            ),
            argument(
                "--jobs", metavar="N", type=int,
                help=f"how many runs at once; by default as many as there are cores and memory, at most {_MOST_JOBS}, "
                "and one where the script's runs would meet in what they write",
            ),
            argument("--patch", metavar="FILE", help="write the best as a patch, for patch -p0"),
            argument(
                "--apply", action="store_true",
                help="change your files, if the results are the same; patch -R undoes it",
            ),
            argument(
                "--beside", metavar="REC",
                help="keep what each change did beside a recording of the program: show and report have it then; by "
                "default beside the one that run made of it here, if there is one",
            ),
            argument(
                "--include", metavar="PACKAGE", action="append", default=[],
                help="try changes of this installed package, too, on copies of its files: for a patch, never applied; "
                "may be repeated",
            ),
            argument(
                "--own-inputs", action="store_true",
                help="do not try other inputs, made of the program's own: quicker, and it shows less",
            ),
            argument("--training", action="store_true", help="of a factory's model: run a backward after each call"),
            user_path(),
            *look(),
            # PARSER is "one, then all that follows, options and -- included".
            argument("command", nargs=argparse.PARSER, metavar="script", help="the script, and its own arguments"),
        ),
        allows_abbreviations=False,  # argparse looks for abbreviations in the script's arguments, too
    )
}  # fmt: skip
