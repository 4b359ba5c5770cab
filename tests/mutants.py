"""Asks whether tests notice small faults: `nox -s mutants -- REV`, on what changed since a revision.

cosmic-ray makes each fault in a copy of the project, and the tests that are nearest to the file run there. Where they
pass, a mutant survived: it is printed as a diff. Without REV the mutants are of the whole package; `--sample N` takes
some of them, the same ones for the same `--seed` and the same sources.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkResult

ROOT = Path(__file__).parent.parent
PACKAGE = "compiler_lens"

_ANALYSIS, _PICTURES, _DIFF = "tests/analysis", ("tests/pictures",), ("tests/diff",)

# The tests of a file are those of the longest path here that it begins with.
NEAREST: dict[str, tuple[str, ...]] = {
    "": ("tests/test_layers.py", "tests/test_capture_torch.py", "tests/cli"),
    "capture": (
        "tests/test_capture_torch.py", "tests/test_capture_fusion.py", "tests/test_sources.py", "tests/test_progress.py",
        "tests/test_fusion_live.py", "tests/test_provenance_live.py", "tests/test_graph_text_live.py",
        "tests/faults/test_our_errors.py", "tests/faults/test_trace_logger.py",
    ),
    "capture/progress": ("tests/test_progress.py",),
    "cli": ("tests/cli", "tests/diff/test_text.py", "tests/pictures/test_command.py", "tests/measure/test_modes_command.py"),
    "decode": (
        "tests/readers", "tests/test_recording_file.py", "tests/test_sources.py", "tests/gpu/test_recordings.py",
        "tests/test_fold_cudagraphs.py", "tests/test_fold_epochs.py", "tests/test_fold_fusion.py",
        "tests/test_fold_graphs.py", "tests/test_fold_kernels.py", "tests/test_fold_spans.py",
        f"{_ANALYSIS}/test_provenance.py", f"{_ANALYSIS}/test_fusion.py",
    ),
    "facts": (_ANALYSIS,),
    "facts/breaks": (
        f"{_ANALYSIS}/test_cards.py", f"{_ANALYSIS}/test_fallout.py", f"{_ANALYSIS}/test_coverage.py",
        f"{_ANALYSIS}/test_rewrites.py", "tests/render/test_advice.py",
    ),
    "facts/breaks/rewrites": (f"{_ANALYSIS}/test_rewrites.py",),
    "facts/compare": _DIFF,
    "facts/graphs": _PICTURES,
    "facts/kernels": (
        f"{_ANALYSIS}/test_computed.py", f"{_ANALYSIS}/test_flops.py", f"{_ANALYSIS}/test_fusion.py",
        f"{_ANALYSIS}/test_groups.py", f"{_ANALYSIS}/test_provenance.py", f"{_ANALYSIS}/test_roofline.py",
        f"{_ANALYSIS}/test_traffic.py", f"{_ANALYSIS}/test_tuned.py", f"{_ANALYSIS}/test_line_story.py",
        "tests/render/test_kernel_views.py", "tests/render/test_fusion.py", "tests/render/test_profile.py",
    ),
    "facts/kernels/graph_flow": _PICTURES,
    "facts/measured": (f"{_ANALYSIS}/test_modes.py", "tests/render/test_modes.py", "tests/measure/test_what_if.py"),
    "facts/recompiles": (
        f"{_ANALYSIS}/test_reports.py", f"{_ANALYSIS}/test_dimensions.py", "tests/render/test_recompile_cards.py",
    ),
    "measure": ("tests/measure/test_what_if.py", "tests/measure/test_state.py", "tests/measure/test_as_written.py"),
    "measure/ceilings": ("tests/measure/test_profile.py", "tests/measure/test_other_vendors.py"),
    "measure/modes": ("tests/measure/test_modes.py", "tests/measure/test_modes_command.py"),
    "measure/profile": (
        "tests/measure/test_profile_match.py", "tests/measure/test_profile.py", "tests/measure/test_profile_unsettled.py",
        "tests/measure/test_other_vendors.py",
    ),
    "recording": (
        "tests/test_codec.py", "tests/test_journal.py", "tests/test_torch_log.py", "tests/test_recording_file.py",
        "tests/html/test_redact.py", "tests/readers", f"{_ANALYSIS}/test_source_view.py", f"{_ANALYSIS}/test_coverage.py",
        f"{_ANALYSIS}/test_fallout.py",
    ),
    "render": ("tests/render", "tests/html/test_page.py", "tests/cli/test_show.py"),
    "render/chart": ("tests/render/test_modes.py",),
    "render/page": ("tests/html",),
    "render/picture": _PICTURES,
    "views": ("tests/render", "tests/html/test_page.py", "tests/cli/test_show.py"),
    "views/diff": (*_DIFF, "tests/html/test_diff_page.py"),
    "views/page": ("tests/html",),
    "views/picture": _PICTURES,
}  # fmt: skip

# One replacement for each kind of operator: more of them would ask the same question again.
OPERATORS = (
    "AddNot",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_BitAnd_BitOr",
    "ReplaceBinaryOperator_BitOr_BitAnd",
    "ReplaceBinaryOperator_Div_Mul",
    "ReplaceBinaryOperator_FloorDiv_Mul",
    "ReplaceBinaryOperator_Mod_Add",
    "ReplaceBinaryOperator_Mul_Div",
    "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBreakWithContinue",
    "ReplaceComparisonOperator_Eq_NotEq",
    "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_IsNot_Is",
    "ReplaceComparisonOperator_Is_IsNot",
    "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceContinueWithBreak",
    "ReplaceFalseWithTrue",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "ZeroIterationForLoop",
)
PATIENCE = 900  # seconds for the tests of one mutant: only what hangs takes as long
ENOUGH = 5 / 6  # of the mutants must die


@dataclass(frozen=True, slots=True)
class Mutant:
    """One small fault: the file below the project's root, and cosmic-ray's name for the change."""

    file: str
    operator: str
    occurrence: int
    line: int

    def spec(self, root: Path) -> MutationSpec:
        """Return it as cosmic-ray takes it, for the copy of the project at `root`."""
        place = (self.line, 0)
        return MutationSpec(root / self.file, f"core/{self.operator}", self.occurrence, place, place)


def mutants_of(file: str) -> Iterator[Mutant]:
    """Yield every mutant of a file but those that change nothing at run time."""
    tree = get_ast_from_path(ROOT / file)
    inert = set(_inert(ast.parse((ROOT / file).read_text())))
    nodes = list(ast_nodes(tree))
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        starts = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(starts):
            if not any(begin <= (line, column) < end for begin, end in inert):
                yield Mutant(file, name, occurrence, line)


def _inert(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where annotations, decorators, blocks for type checkers and `strict=` stand: from and up to (line, column)."""
    for node in ast.walk(tree):
        for part in _inert_parts(node):
            yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def _inert_parts(node: ast.AST) -> Iterable[ast.AST]:
    match node:
        case (
            ast.FunctionDef(decorator_list=decorators, returns=returns)
            | ast.AsyncFunctionDef(decorator_list=decorators, returns=returns)
        ):
            return [*decorators, *([returns] if returns else [])]
        case ast.ClassDef(decorator_list=decorators):
            return decorators
        case ast.arg(annotation=ast.AST() as annotation) | ast.AnnAssign(annotation=annotation):
            return [annotation]
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.keyword(arg="strict"):
            return [node]
        case ast.Assign(value=ast.BinOp(op=ast.BitOr()) as value):  # a name for a type
            return [value] if _is_type(value) else []
    return []


def _is_type(value: ast.BinOp) -> bool:
    names = [part.id for part in ast.walk(value) if isinstance(part, ast.Name)]
    return all(name[:1].isupper() or name in dir(__builtins__) for name in names)


def nearest_tests(file: str) -> tuple[str, ...]:
    """Return the tests of a file, as arguments of pytest."""
    inside = file.removeprefix(f"{PACKAGE}/")
    return NEAREST[max((prefix for prefix in NEAREST if inside.startswith(prefix)), key=len)]


def changed_files(revision: str | None) -> list[str]:
    """Return the package's files that differ from a revision, or all of them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", PACKAGE]
    if revision is not None:
        command = ["git", "diff", "--name-only", "--diff-filter=d", revision, "--", PACKAGE]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8").stdout.splitlines()
    return sorted({name for name in listed if name.endswith(".py") and (ROOT / name).exists()})


def copy_of_project(target: Path, python: str) -> Path:
    """Copy what git would keep, and compile it: Python sees by a file's time and size when it is a mutant."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8").stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run([python, "-m", "compileall", "-q", str(target / PACKAGE)], check=True)
    return target


def test_command(python: str, root: Path, words: Iterable[str]) -> list[str]:
    """Return the command that runs tests in a copy of the project."""
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return ["env", f"--chdir={root}", f"PYTHONPATH={root}", *pytest, *words]


def failing_before(python: str, root: Path, tests: Iterable[str]) -> list[str]:
    """Return the tests that fail already without a mutant: no sign of anything."""
    command = test_command(python, root, ["-rfE", "--no-header", *tests])
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    found = re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", ran.stdout, re.MULTILINE)
    if ran.returncode and not found:
        sys.exit(f"these do not run: {shlex.join(command)}\n{ran.stdout[-2000:]}")
    for name in found:
        print(f"fails already without a mutant: {name}", flush=True)
    return found


def tried(mutant: Mutant, python: str, root: Path, left_out: Iterable[str]) -> WorkResult:
    """Run the nearest tests on a mutant in a copy of the project."""
    words = ["-x", *nearest_tests(mutant.file), *(f"--deselect={name}" for name in left_out)]
    return mutate_and_test([mutant.spec(root)], shlex.join(test_command(python, root, words)), PATIENCE)


def survivors(mutants: list[Mutant], python: str, jobs: int) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant that no test notices, with its diff, as `jobs` copies of the project find them."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            copies.put(copy_of_project(Path(folder, str(number)), python))

        def attempt(mutant: Mutant) -> WorkResult:
            root = copies.get()
            try:
                return tried(mutant, python, root, failing[nearest_tests(mutant.file)])
            finally:
                copies.put(root)

        def before(tests: tuple[str, ...]) -> list[str]:
            root = copies.get()
            try:
                return failing_before(python, root, tests)
            finally:
                copies.put(root)

        groups = sorted({nearest_tests(mutant.file) for mutant in mutants})
        with ThreadPoolExecutor(jobs) as pool:
            failing = dict(zip(groups, pool.map(before, groups), strict=True))
            for mutant, result in zip(mutants, pool.map(attempt, mutants), strict=True):
                print(f"{mutant.file}:{mutant.line} {mutant.operator}: {result.test_outcome.value}", flush=True)
                if result.test_outcome is not TestOutcome.KILLED:
                    yield mutant, result.diff or result.output


def main() -> int:
    """Print the mutants that survive and how many died; return 0 where enough did."""
    asked = argparse.ArgumentParser(prog="nox -s mutants --", description=__doc__)
    asked.add_argument("revision", nargs="?", metavar="REV", help="mutate the files that changed since this revision")
    asked.add_argument("--sample", type=int, metavar="N", help="try N mutants, chosen at random")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--jobs", type=int, default=1, metavar="N", help="copies of the project to work in at once")
    asked.add_argument("--python", default=sys.executable, help="the interpreter that runs the tests")
    told = asked.parse_args()
    mutants = [mutant for file in changed_files(told.revision) for mutant in mutants_of(file)]
    if told.sample is not None and told.sample < len(mutants):
        mutants = sorted(
            random.Random(told.seed).sample(mutants, told.sample), key=lambda mutant: (mutant.file, mutant.line)
        )
    alive = list(survivors(mutants, told.python, told.jobs))
    for _, diff in alive:
        print(diff, end="\n\n")
    print(f"{len(mutants) - len(alive)} of {len(mutants)} mutants died")
    return 0 if len(mutants) - len(alive) >= ENOUGH * len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
