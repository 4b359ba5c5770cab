"""Who of the models of transformers breaks, recompiles or runs eagerly under torch.compile, where and why.

    python benchmarks/zoo.py --work FOLDER [--jobs N] [--minutes N] [--every-class] [--only-failed] [--models NAME …]
    python benchmarks/zoo.py --work FOLDER --fix [--jobs N] [--minutes N] [--models NAME …]
    python benchmarks/zoo.py --work FOLDER --write

Each class that transformers lists and that a small random configuration can make (zoo_models.py) is called twice with
inputs of the same sizes, in a process of its own: by a backend that generates nothing, under a lens. What comes
of it is a JSON line in FOLDER/zoo.jsonl; what is there already is not run again. `--fix` tries `compiler-lens fix
--include transformers` on each that breaks: a JSON line in FOLDER/fix.jsonl. `--write` makes the tables of docs/zoo.md.

Needs transformers, no network and no accelerator: all runs on the CPU, a thread for each process.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import platform
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
os.environ.update(TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false", PYTHONHASHSEED="0")

HERE = Path(__file__).parent
ZOO, FIXES = "zoo.jsonl", "fix.jsonl"
LIBRARY = "transformers"
SECONDS, FIX_SECONDS = 90, 1800  # for a model
FIX_RUN_SECONDS = 120  # for one run of it
MEMORY = 10 << 30  # bytes for a process
POLL = 0.02

Row = dict[str, Any]


# -- a process for each model


class Child:
    """A step in a process forked from this one, which has torch and transformers; it leaves a row in a file."""

    def __init__(self, name: str, step: Callable[[], Row], folder: Path, seconds: float) -> None:
        self.name, self._file, self._seconds = name, folder / f"{name}.json", seconds
        self._began = time.monotonic()
        self._process = os.fork()
        if not self._process:
            self._run(step)

    def _run(self, step: Callable[[], Row]) -> None:
        status = 1
        try:
            os.setsid()
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it ends when this program does
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            with Path(os.devnull).open("r+b") as nothing:
                for stream in range(3):
                    os.dup2(nothing.fileno(), stream)
            row = step()
            self._file.write_text(json.dumps(row))
            status = 0
        except BaseException as error:  # noqa: BLE001 -- whatever it is: it is what came of the model
            self._file.write_text(json.dumps({"status": "failed", "why": _said(error)}))
        finally:
            os._exit(status)

    def row(self) -> Row | None:
        """Return what came of it; None as long as it runs."""
        is_late = time.monotonic() - self._began > self._seconds
        if is_late:
            self.end()
        process, status = os.waitpid(self._process, 0 if is_late else os.WNOHANG)
        if not process:
            return None
        seconds = {"seconds": round(time.monotonic() - self._began, 1)}
        try:
            return {"model": self.name, **json.loads(self._file.read_text()), **seconds}
        except (OSError, ValueError):
            why = f"not done after {self._seconds:g} s" if is_late else f"ended with status {status}"
            return {"model": self.name, "status": "late" if is_late else "failed", "why": why, **seconds}

    def end(self) -> None:
        """End it, and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def run_all(steps: Mapping[str, Callable[[], Row]], into: Path, args: argparse.Namespace, seconds: float) -> None:
    """Run steps in processes, so many at a time, until the minutes are over; write a line for each as it ends."""
    until = time.monotonic() + args.minutes * 60 if args.minutes else float("inf")
    waiting, running, done = list(steps.items()), [], 0
    random.Random(0).shuffle(waiting)  # so that a part of it is a fair sample
    gc.collect()
    gc.freeze()  # so that processes forked from this one share what is here
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder, into.open("a") as lines:
        try:
            while running or (waiting and time.monotonic() < until):
                while waiting and len(running) < args.jobs and time.monotonic() < until:
                    name, step = waiting.pop(0)
                    running.append(Child(name, step, Path(folder), seconds))
                for child in list(running):
                    row = child.row()
                    if row is not None:
                        running.remove(child)
                        lines.write(json.dumps(row) + "\n")
                        lines.flush()
                        done += 1
                        _tell(row, done, len(steps))
                if time.monotonic() > until + args.grace:
                    break
                time.sleep(POLL)
        finally:
            for child in running:
                child.end()


def _tell(row: Row, done: int, of: int) -> None:
    seen = row.get("after") or row.get("before") or row
    figures = " ".join(f"{name}={seen[name]}" for name in ("breaks", "recompiles", "eager") if name in seen)
    said = figures if row["status"] == "ran" else row.get("why", "")[:100]
    print(f"{done}/{of} {row['seconds']:6.1f} s  {row['model']}  {row['status']}  {said}", flush=True)


# -- what is run


def look_at(name: str, kind: str) -> Row:
    """Compile a model as far as Dynamo goes, and return what the recording says."""
    import torch
    import zoo_models

    import compiler_lens

    began = time.monotonic()
    recipe, why = zoo_models.recipe(name)
    if recipe is None:
        return {"kind": kind, "status": "not_made", "why": why}
    torch.manual_seed(0)
    model, calls = zoo_models.made(recipe)
    error = ""
    build = time.monotonic() - began
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.clens"
        with compiler_lens.Lens(file):
            # Not model.compile(): what is compiled is the call of the module, as torch.compile(model) has it.
            compiled = torch.compile(model, backend="eager")
            try:
                for args, kwargs in calls:
                    compiled(*args, **kwargs)
            except Exception as raised:  # noqa: BLE001 -- which it does without torch.compile not
                error = _said(raised)
        recording = compiler_lens.load(file)
    kind = model.config.model_type or kind
    row: Row = {"kind": kind, "status": "ran", "medium": zoo_models.medium(recipe), "recipe": recipe, "raised": error}
    return {**row, "made_in": round(build, 1), **facts(recording)}


def facts(recording: Any) -> Row:
    """Return what a recording says of a model: counts, and each cause with its line in the library."""
    import compiler_lens
    from compiler_lens.facts.measured.offers import observed
    from compiler_lens.facts.program.ownership import Ownership

    seen = observed(recording, Ownership((LIBRARY,)))
    explained = compiler_lens.explain(recording, user_paths=LIBRARY)
    causes = [
        {
            **_place(card.place),
            "kind": card.gb_type,
            "why": _first_line(card.cause.explanation or card.cause.context),
            "context": _first_line(card.cause.context),
            "remedy": card.remedy.name if card.remedy else "",
            "rewrite": bool(card.rewrite and card.rewrite.is_complete),
            "setting": card.setting.name if card.setting else "",
            "breaks": len(card.events),
            "skips": any("SKIPPED" in outcome.name for outcome, _ in card.outcomes),
        }
        for card in explained.cards
    ]
    failures = [
        {**_place(one.failure_line), "kind": one.failure.gb_type if one.failure else "failure", "why": one.reason[:200]}
        for one in recording.compilations
        if one.outcome.name == "FAILED"
    ]
    recompiles = [
        {"function": report.function.name, "kind": cause.cause.value, **_place(cause.line), "times": cause.count}
        for report in explained.recompiles
        for cause in report.causes
    ]
    eager = [
        {"function": one.name.name, "as": one.treatment.value}
        for one in explained.coverage.functions
        if not one.treatment.is_compiled and not one.treatment.is_idle and not one.generator
    ]
    figures = seen.figures
    return {
        "breaks": figures.graph_breaks if figures else None,
        "recompiles": figures.recompiles if figures else None,
        "eager": figures.eager_functions if figures else None,
        "graphs": sum(one.stage.value == "dynamo" for one in recording.graphs),
        "causes": causes,
        "failures": failures,
        "recompiled": recompiles,
        "eagerly": eager,
    }


def _first_line(text: str) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")[:200]


def _place(at: Any) -> Row:
    if at is None:
        return {"file": "", "line": 0, "function": "", "code": ""}
    name = at.file.split("/site-packages/")[-1].split("/dist-packages/")[-1]
    return {"file": name, "line": at.line, "function": at.function, "code": at.code.strip()[:160]}


def fix(row: Row) -> Row:
    """Try the offers of `compiler-lens fix --include transformers` on a model that breaks."""
    import zoo_models

    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        program = Path(folder) / "zoo_model.py"
        program.write_text(zoo_models.factory(row["recipe"], str(HERE)))
        command = [sys.executable, "-m", "compiler_lens", "fix", "--json", "--include", LIBRARY]
        command += ["--timeout", str(FIX_RUN_SECONDS), f"{program}:make"]
        paths = filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"kind": row["kind"], "status": "failed", "why": done.stderr.strip()[-300:]}
    return {"kind": row["kind"], "status": "ran", "medium": row["medium"], **tried(json.loads(done.stdout), row)}


def tried(data: Row, row: Row) -> Row:
    """Return what `fix --json` says in short."""
    best, before = data["best"], {name: row[name] for name in ("breaks", "recompiles", "eager")}
    if data["tried"]:
        before = _figures(data["tried"][0]["before"])
    after = _figures(best["after"]) if best else before
    left = [_short(one, "kind", "change", "reason") for one in data["not_tried"]]
    failed = [_short(one, "offer", "results", "difference", "error") for one in data["tried"] if not one["helps"]]
    return {
        "deterministic": data["deterministic"],
        "before": before,
        "after": after,
        "results": best["results"] if best else "",
        "offers": list(best["offers"]) if best else [],
        "patch": best["patch"] if best else "",
        "trials": len(data["tried"]),
        "left": left,
        "failed": failed,
    }


def _short(one: Row, *names: str) -> Row:
    at = one["place"] or {}
    return {**{name: at.get(name) for name in ("file", "line", "function")}, **{name: one[name] for name in names}}


def _figures(given: Row | None) -> Row | None:
    short = {"graph_breaks": "breaks", "recompiles": "recompiles", "eager_functions": "eager"}
    return {short[name]: given[name] for name in short} if given else None


# -- the command


def rows(file: Path) -> dict[str, Row]:
    """Return the last row of each model."""
    found = {}
    for text in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(ValueError):  # cut short
            row = json.loads(text)
            found[row["model"]] = row
    return found


def has_problem(row: Row) -> bool:
    """Whether a model breaks, recompiles for the same inputs, runs eagerly in part, or raises."""
    return row["status"] == "ran" and bool(row["breaks"] or row["recompiles"] or row["eager"] or row["raised"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--minutes", type=float, default=0, help="begin nothing after so many minutes")
    parser.add_argument("--grace", type=float, default=45, help="seconds after that, for what has begun")
    parser.add_argument("--models", nargs="+", default=[], metavar="NAME", help="these classes alone, and anew")
    parser.add_argument("--every-class", action="store_true", help="not only the first class of each kind of model")
    parser.add_argument("--only-failed", action="store_true", help="again what was late, failed, or could not be made")
    parser.add_argument("--fix", action="store_true", help="try compiler-lens fix on what breaks")
    parser.add_argument("--write", action="store_true", help="make the tables of docs/zoo.md")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.write:
        import zoo_page

        zoo_page.write(rows(args.work / ZOO), rows(args.work / FIXES))
        return
    for folder in (HERE, HERE.parent):
        sys.path.insert(0, str(folder))
    if args.fix:
        _fix_all(args)
    else:
        _look_at_all(args)


def _look_at_all(args: argparse.Namespace) -> None:
    preload()
    import zoo_models

    known = rows(args.work / ZOO)
    every = zoo_models.class_names(every=args.every_class or bool(args.models))
    wanted = {name: every.get(name, "") for name in args.models} if args.models else every
    if args.only_failed:
        wanted = {name: kind for name, kind in wanted.items() if name in known and known[name]["status"] != "ran"}
    elif not args.models:
        wanted = {name: kind for name, kind in wanted.items() if name not in known}
    steps = {name: partial(look_at, name, kind) for name, kind in wanted.items()}
    versions(args.work)
    run_all(steps, args.work / ZOO, args, SECONDS)
    _summary(rows(args.work / ZOO))


def _fix_all(args: argparse.Namespace) -> None:
    found = {name: row for name, row in rows(args.work / ZOO).items() if row["status"] == "ran"}
    done = rows(args.work / FIXES)
    if args.models:
        wanted = {name: found[name] for name in args.models}
    elif args.only_failed:
        wanted = {name: found[name] for name, row in done.items() if row["status"] != "ran" and name in found}
    else:
        wanted = {name: row for name, row in found.items() if has_problem(row) and name not in done}
    run_all({name: partial(fix, row) for name, row in wanted.items()}, args.work / FIXES, args, FIX_SECONDS)


def preload() -> None:
    """Import what every model needs, before processes are forked."""
    import transformers
    import transformers.cache_utils
    import transformers.masking_utils
    import transformers.modeling_utils  # noqa: F401 -- all of these

    import compiler_lens

    with tempfile.TemporaryDirectory() as folder, compiler_lens.Lens(Path(folder) / "first.clens"):
        pass  # which imports what hooks go into


def versions(work: Path) -> None:
    """Write which versions these are results of."""
    import torch
    import transformers

    told = {"model": "", "status": "versions", "torch": torch.__version__, "transformers": transformers.__version__}
    with (work / ZOO).open("a") as lines:
        lines.write(json.dumps({**told, "python": platform.python_version()}) + "\n")


def _summary(found: Mapping[str, Row]) -> None:
    ran = [row for row in found.values() if row["status"] == "ran"]
    for what, some in (("run", ran), ("have a problem", [*filter(has_problem, ran)])):
        print(len(some), what)
    print(len(found) - 1 - len(ran), "were not run")


if __name__ == "__main__":
    main()
