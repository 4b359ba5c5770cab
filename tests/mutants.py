"""Asks whether tests notice small faults: `nox -s mutants -- REV`, on what changed since a revision.

cosmic-ray makes each fault in a copy of the project, and the tests that are nearest to the file run there. Where they
pass, a mutant survived: it is printed as a diff. Without REV the mutants are of the whole package; `--sample N` takes
some of them, the same ones for the same `--seed` and the same sources; `--under PATH` those of a folder or a file.
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
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkResult

ROOT = Path(__file__).parent.parent
PACKAGE = "compiler_lens"

# The tests of a file are those of the longest path here that it begins with; the nearest and quickest first.
NEAREST: dict[str, tuple[str, ...]] = {
    "": ("tests/test_layers.py", "tests/cli", "tests/test_capture_torch.py"),
    "capture": (
        "tests/test_capture_fusion.py", "tests/test_sources.py", "tests/test_capture_torch.py", "tests/test_torch_api.py",
        "tests/test_graph_text_live.py", "tests/test_provenance_live.py", "tests/test_fusion_live.py",
        "tests/faults/test_trace_logger.py", "tests/faults/test_our_errors.py", "tests/faults/test_several_lenses.py",
    ),
    "capture/progress": ("tests/test_progress.py",),
    "capture/sidecar": ("tests/test_sidecar.py", "tests/faults/test_our_errors.py"),
    "capture/sources": ("tests/test_sources.py", "tests/explain/test_sources.py"),
    "capture/torch_api": (
        "tests/test_torch_api.py", "tests/test_capture_torch.py", "tests/faults/test_our_errors.py",
        "tests/test_graph_text_live.py",
    ),
    "cli": (
        "tests/cli", "tests/diff/test_text.py", "tests/pictures/test_command.py", "tests/measure/test_modes_command.py",
        "tests/measure/test_command.py",
    ),
    "decode": (
        "tests/readers", "tests/test_fold_cudagraphs.py", "tests/test_fold_epochs.py", "tests/test_fold_fusion.py",
        "tests/test_fold_graphs.py", "tests/test_fold_kernels.py", "tests/test_fold_spans.py",
        "tests/test_recording_file.py", "tests/test_torch_log.py", "tests/test_sources.py", "tests/gpu/test_recordings.py",
        "tests/analysis/test_provenance.py", "tests/analysis/test_fusion.py", "tests/gold",
    ),
    "decode/disk_sources": ("tests/test_disk_sources.py",),
    "facts": ("tests/analysis", "tests/gold"),
    "facts/breaks": (
        "tests/analysis/test_cards.py", "tests/analysis/test_fallout.py", "tests/render/test_advice.py",
        "tests/remedies/test_remedies.py", "tests/fix/test_beside.py", "tests/gold",
    ),
    "facts/breaks/rewrites": ("tests/analysis/test_rewrites.py", "tests/fix/test_numbers_alike.py"),
    "facts/compare": ("tests/diff", "tests/gold"),
    "facts/graphs": ("tests/pictures",),
    "facts/kernels": (
        "tests/analysis/test_roofline.py", "tests/analysis/test_traffic.py", "tests/analysis/test_flops.py",
        "tests/analysis/test_computed.py", "tests/analysis/test_tuned.py", "tests/analysis/test_groups.py",
        "tests/analysis/test_provenance.py", "tests/analysis/test_line_story.py", "tests/analysis/test_fusion.py",
        "tests/render/test_kernel_views.py", "tests/render/test_fusion.py", "tests/render/test_profile.py",
        "tests/gold",
    ),
    "facts/kernels/graph_flow": ("tests/pictures",),
    "facts/measured": (
        "tests/analysis/test_what_if.py", "tests/analysis/test_modes.py", "tests/render/test_modes.py",
        "tests/measure/test_what_if.py", "tests/fix/test_edits.py", "tests/fix/test_search.py", "tests/fix/test_apply.py",
        "tests/gold",
    ),
    "facts/overview": (
        "tests/analysis/test_findings.py", "tests/analysis/test_rules.py", "tests/analysis/test_explanation.py",
        "tests/analysis/test_line_story.py", "tests/analysis/test_source_view.py", "tests/render/test_screen.py",
        "tests/render/test_profile.py", "tests/gold",
    ),
    "facts/program": (
        "tests/analysis/test_coverage.py", "tests/analysis/test_findings.py", "tests/analysis/test_cards.py",
        "tests/analysis/test_fallout.py", "tests/render/test_screen.py", "tests/render/test_views.py", "tests/cli/test_show.py",
        "tests/gold",
    ),
    "facts/recompiles": (
        "tests/render/test_recompile_cards.py", "tests/analysis/test_dimensions.py", "tests/analysis/test_reports.py",
        "tests/gold",
    ),
    "facts/time": (
        "tests/analysis/test_phases.py", "tests/render/test_screen.py", "tests/render/test_views.py", "tests/gold",
    ),
    "measure": ("tests/measure/test_what_if.py", "tests/measure/test_as_written.py", "tests/measure/test_state.py"),
    "measure/profile/ceilings": ("tests/measure/test_other_vendors.py", "tests/measure/test_profile.py"),
    "measure/fix": ("tests/fix",),
    "measure/modes": ("tests/measure/test_modes_command.py", "tests/measure/test_modes.py"),
    "measure/profile": (
        "tests/measure/test_profile_match.py", "tests/measure/test_other_vendors.py",
        "tests/measure/test_profile_unsettled.py", "tests/measure/test_profile.py",
    ),
    "recording": (
        "tests/test_ids.py", "tests/test_codec.py", "tests/test_journal.py", "tests/test_recording_file.py", "tests/readers",
        "tests/test_fold_kernels.py", "tests/test_fold_graphs.py", "tests/render/test_views.py", "tests/gold",
    ),
    "recording/redact": ("tests/html/test_redact.py", "tests/cli/test_redact.py", "tests/cli/test_redact_planted.py"),
    "recording/source": (
        "tests/analysis/test_source_view.py", "tests/analysis/test_fallout.py", "tests/analysis/test_coverage.py",
        "tests/test_sources.py", "tests/analysis/test_rewrites.py", "tests/gold",
    ),
    "recording/torch_log": ("tests/test_torch_log.py",),
    "recording/torch_names": (
        "tests/analysis/test_phases.py", "tests/analysis/test_coverage.py", "tests/readers", "tests/gold",
    ),
    "render": ("tests/render", "tests/html/test_page.py", "tests/cli/test_show.py", "tests/gold"),
    "render/chart": ("tests/render/test_modes.py", "tests/gold"),
    "render/page": ("tests/html",),
    "render/picture": (
        "tests/pictures/test_ranks.py", "tests/pictures/test_layout.py", "tests/pictures/test_dot.py",
        "tests/pictures/test_svg.py", "tests/pictures",
    ),
    "views": ("tests/render", "tests/html/test_page.py", "tests/cli/test_show.py", "tests/gold"),
    "views/diff": ("tests/diff", "tests/html/test_diff_page.py", "tests/gold"),
    "views/picture": ("tests/pictures",),
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
        begin, end = (self.line, 0), (self.line + 1, 0)
        return MutationSpec(root / self.file, f"core/{self.operator}", self.occurrence, begin, end)


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
    """Yield where annotations, decorators, arguments of classes, blocks for type checkers and `strict=` stand: from and up to (line, column)."""
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
        case ast.ClassDef(decorator_list=decorators, keywords=keywords):
            return [*decorators, *keywords]
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


@dataclass(frozen=True, slots=True)
class Bench:
    """Where mutants are tried: a copy of the project, and what is known of its tests without a mutant."""

    root: Path
    python: str
    passes: dict[str, bool]

    def tried(self, mutant: Mutant) -> WorkResult:
        """Run the nearest tests on a mutant. Only a test that passes without the mutant can kill it."""
        while True:
            left_out = [name for name, passes in self.passes.items() if not passes]
            words = ["-x", "-rfE", *nearest_tests(mutant.file), *(f"--deselect={name}" for name in left_out)]
            command = shlex.join(test_command(self.python, self.root, words))
            result = mutate_and_test([mutant.spec(self.root)], command, PATIENCE)
            failed = re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", result.output or "", re.MULTILINE)
            if all(self._passes(name) for name in failed):
                return result

    def _passes(self, name: str) -> bool:
        if name not in self.passes:
            words = [name] if "::" in name else ["--collect-only", name]
            ran = subprocess.run(test_command(self.python, self.root, words), capture_output=True, check=False)
            self.passes[name] = ran.returncode == 0
            if ran.returncode:
                print(f"fails without a mutant, too: {name}", flush=True)
        return self.passes[name]


def survivors(mutants: list[Mutant], python: str, jobs: int) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant that no test notices, with its diff, as `jobs` copies of the project find them."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        benches: SimpleQueue[Bench] = SimpleQueue()
        passes: dict[str, bool] = {}
        for number in range(jobs):
            benches.put(Bench(copy_of_project(Path(folder, str(number)), python), python, passes))

        def attempt(mutant: Mutant) -> WorkResult:
            bench = benches.get()
            try:
                return bench.tried(mutant)
            finally:
                benches.put(bench)

        with ThreadPoolExecutor(jobs) as pool:
            tried = {pool.submit(attempt, mutant): mutant for mutant in mutants}
            for number, done in enumerate(as_completed(tried), 1):
                mutant, result = tried[done], done.result()
                told = f"{number:>4} {mutant.file}:{mutant.line} {mutant.operator}: {result.test_outcome.value}"
                print(told, flush=True)
                if result.test_outcome is not TestOutcome.KILLED:
                    yield mutant, result.diff or result.output


def main() -> int:
    """Print the mutants that survive and how many died; return 0 where enough did."""
    asked = argparse.ArgumentParser(prog="nox -s mutants --", description=__doc__)
    asked.add_argument("revision", nargs="?", metavar="REV", help="mutate the files that changed since this revision")
    asked.add_argument("--under", default=PACKAGE, metavar="PATH", help="only files of this folder, or this file")
    asked.add_argument("--sample", type=int, metavar="N", help="try N mutants, chosen at random")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--jobs", type=int, default=1, metavar="N", help="copies of the project to work in at once")
    asked.add_argument("--python", default=sys.executable, help="the interpreter that runs the tests")
    told = asked.parse_args()
    files = [file for file in changed_files(told.revision) if file.startswith(told.under)]
    mutants = [mutant for file in files for mutant in mutants_of(file)]
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
