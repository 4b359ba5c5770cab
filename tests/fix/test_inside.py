"""What compiles is given to torch.compile by itself, where what calls it does not compile."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens
from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import Apart, Edit, Lines, Setting, Texts, edited
from compiler_lens.facts.measured.fix import Fix, Observed, Offer, StillEager, Target, Trial
from compiler_lens.facts.measured.marked_inside import Inside, as_written
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.measured.what_if import Counts
from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.measure.fix.choices import compiles_beyond, compiles_more, runs_more
from compiler_lens.measure.fix.search import Search
from compiler_lens.recording.model import Figures, Results, SourceLine

NET = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.seen = []

        def scores(self, x):
            y = torch.relu(self.linear(x)) + 1
            return torch.tanh(y) * y.sum(-1, keepdim=True)

        def picked(self, scores):
            kept = [row for row in scores if row[0].item() > 0]
            self.seen.append(len(kept))
            return kept

        def forward(self, x):
            return self.picked(self.scores(x))


    def loss_of(net, x):
        y = torch.tanh(net.linear(x)) - 1
        return y.pow(2).mean()


    def step(net, x):
        loss = loss_of(net, x)
        print("loss", round(loss.item(), 3))
        if loss > 1:
            loss = loss * 0.5
        return loss


    {given}
"""


def program(folder: Path, given: str) -> Path:
    file = folder / "program.py"
    head, _, _ = dedent(NET).lstrip().partition("{given}")
    # Code of two files that is the same at the same lines is one for Dynamo.
    file.write_text("\n" * len(given) + head + dedent(given).lstrip())
    return file


def offered(file: Path) -> list[Inside]:
    torch._dynamo.reset()
    with Lens(strict=True, progress=False) as lens:
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": "__main__", "torch": torch})
    seen = observed(lens.recording, Ownership((str(file.parent),)))
    return [one.edit for one in seen.inside if isinstance(one.edit, Inside)]


def lines_of(text: str, before: str) -> list[str]:
    """What is new in a text."""
    return [line.strip() for line in text.splitlines() if line not in before.splitlines()]


FORMS = {
    "a module": (
        'model = torch.compile(Net(), backend="eager", dynamic=False)\nfor _ in range(3): model(torch.randn(5, 4))',
        '@torch.compile(backend="eager", dynamic=False)',
        ["@torch.compiler.disable"],
        ["model = Net()"],
    ),
    "a module in its own place": (
        "net = Net()\nnet = torch.compile(net, backend='eager')\nfor _ in range(3): net(torch.randn(5, 4))",
        "@torch.compile(backend='eager')",
        ["@torch.compiler.disable"],
        [],
    ),
    "a module with options": (
        'model = torch.compile(Net(), backend="eager", options={"a": 1})\nmodel(torch.randn(5, 4))',
        '@torch.compile(backend="eager", options={"a": 1})',
        ["@torch.compiler.disable"],
        ["model = Net()"],
    ),
    "a module with a method": (
        "net = Net().eval()\nmodel = torch.compile(net, backend='eager')\nfor _ in range(3): model(torch.randn(5, 4))",
        "@torch.compile(backend='eager')",
        ["@torch.compiler.disable"],
        ["model = net"],
    ),
    "a module, in place": (
        "net = Net()\nnet.compile(backend='eager')\nfor _ in range(3): net(torch.randn(5, 4))",
        "@torch.compile(backend='eager')",
        ["@torch.compiler.disable"],
        [],
    ),
    "a function": (
        "net = Net()\nrun = torch.compile(step, backend='eager')\nfor _ in range(3): run(net, torch.randn(5, 4))",
        "@torch.compile(backend='eager')",
        ["@torch.compiler.disable", "run = torch.compile(lambda *args, **kwargs: step(*args, **kwargs), backend='eager')"],
        ["run = step"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_it_is_tried_under_what_was_given_and_written_without_it(tmp_path: Path, form: str) -> None:
    given, mark, tried, wanted = FORMS[form]
    file = program(tmp_path, given)
    before = file.read_text()
    (edit,) = offered(file)
    texts = edited(edit, {str(file): before}, str(file))
    assert texts is not None
    inner = "loss_of" if form == "a function" else "scores"
    assert [name.rpartition(".")[2] for _, name in edit.inner] == [inner]
    assert sorted(lines_of(texts[str(file)], before)) == sorted([mark, *tried])
    after = as_written(edit, texts)
    assert after is not None
    assert sorted(lines_of(after[str(file)], before)) == sorted([mark, *wanted])
    assert f"{mark}\n" in after[str(file)].partition(f"def {inner}(")[0][-len(mark) - 10 :]
    assert "torch.compile(" not in after[str(file)].partition("def step(")[2]
    assert ".compile(" not in after[str(file)].partition("def step(")[2]


def test_a_mark_that_gives_a_function_moves_to_what_it_calls(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    text = dedent(NET).lstrip().partition("{given}")[0].replace(
        "def step(", "@torch.compile(\n    backend='eager',\n)\ndef step("
    )  # fmt: skip
    file.write_text(text + "net = Net()\nfor _ in range(3): step(net, torch.randn(5, 4))\n")
    (edit,) = offered(file)
    texts = edited(edit, {str(file): file.read_text()}, str(file))
    after = as_written(edit, texts) if texts else None
    assert after is not None
    assert after[str(file)].count("torch.compile") == 1
    assert "@torch.compile(backend='eager')\ndef loss_of(" in after[str(file)]
    assert "\n\n\ndef step(" in after[str(file)]


KNOWN_THERE = """
    chosen = "eager"
    model = torch.compile(Net(), backend=chosen)
    for _ in range(3): model(torch.randn(5, 4))
"""
TWICE = """
    net = Net()
    one = torch.compile(net, backend="eager")
    other = torch.compile(net, backend="eager", dynamic=True)
    for model in (one, other): model(torch.randn(5, 4))
"""


IF_ASKED = """
    model = Net()
    if not hasattr(torch, "no such thing"):
        model = torch.compile(model, backend="eager")
    for _ in range(3): model(torch.randn(5, 4))
"""
OTHERS_TOO = """
    def prepared(module):
        return torch.compile(module, backend="eager")

    small = prepared(nn.Linear(4, 4))
    model = prepared(Net())
    for _ in range(3): model(small(torch.randn(5, 4)))
"""
OF_A_LOOP = """
    models = [Net()]
    for one in models: one.compile(backend="eager")
    for _ in range(3): models[0](torch.randn(5, 4))
"""
UNLESS_ASKED = """
    def made(is_plain):
        net = Net()
        if is_plain:
            return net
        return torch.compile(net, backend="eager")

    model = made(False)
    for _ in range(3): model(torch.randn(5, 4))
"""
IF_CALLED = """
    def sped_up(net):
        return torch.compile(net, backend="eager")

    def made(net):
        return sped_up(net)

    model = Net()
    if not hasattr(torch, "no such thing"):
        model = made(model)
    for _ in range(3): model(torch.randn(5, 4))
"""
LOOKED_UP = """
    NETS = {"large": nn.Linear, "small": Net}
    model = torch.compile(NETS["small"](), backend="eager")
    for _ in range(3): model(torch.randn(5, 4))
"""
CHOSEN = """
    def made(is_large):
        if is_large:
            return nn.Linear(4, 4)
        return Net()

    model = made(False).eval()
    model = torch.compile(model, backend="eager")
    for _ in range(3): model(torch.randn(5, 4))
"""
CUDA_GRAPHS = """
    model = torch.compile(Net(), backend="eager", mode="{mode}")
    for _ in range(3): model(torch.randn(5, 4))
""".format(mode="reduce" + "-overhead")
HESSIAN = """
    net = Net()
    model = torch.compile(net, backend="eager")
    for _ in range(3): model(torch.randn(5, 4))
    torch.{functional}.hessian(lambda x: net.linear(x).sum(), torch.ones(2, 4))
""".format(functional="autograd." + "functional")
CALLED_ELSEWHERE = """
    net = Net()
    model = torch.compile(net, backend="eager")
    for _ in range(3): model(torch.randn(5, 4))
    print(net.scores(torch.ones(2, 4)).sum())
"""
TWO_BACKWARDS = """
    net = Net()
    model = torch.compile(net, backend="eager")
    for _ in range(3): model(torch.randn(5, 4))
    x = torch.ones(2, 4, requires_grad=True)
    torch.autograd.{grad}(net.linear(x).sum(), x, {graph}=True)
""".format(grad="grad", graph="create" + "_graph")  # this file is one of the user's, too


@pytest.mark.parametrize(
    "given",
    [
        KNOWN_THERE,
        TWICE,
        IF_ASKED,
        OTHERS_TOO,
        OF_A_LOOP,
        UNLESS_ASKED,
        IF_CALLED,
        CUDA_GRAPHS,
        HESSIAN,
        CALLED_ELSEWHERE,
        TWO_BACKWARDS,
    ],
)
def test_it_is_not_offered_where_it_cannot_be_written(tmp_path: Path, given: str) -> None:
    assert offered(program(tmp_path, given)) == []


CONSTANT = """
    import numpy as np
    import torch


    def bank():
        made = np.linspace(0.0, 1.0, 4)
        for _ in range({operators}):
            made = np.sin(made)
        return torch.from_numpy(made).float()


    def features(x):
        return (x * bank()).exp()


    def step(x):
        y = features(x)
        print(y.sum().item())
        return y


    run = torch.compile(step, backend="eager")
    for _ in range(3): run(torch.ones(4))
"""


def test_what_is_computed_of_no_input_is_no_graphs_worth(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(dedent(CONSTANT).format(operators=60))
    assert offered(file) == []
    file.write_text(
        dedent(CONSTANT)
        .format(operators=60)
        .replace("np.linspace(0.0, 1.0, 4)", "x.numpy()")
        .replace("bank(", "bank(x")
    )
    assert [edit.inner for edit in offered(file)] == [((str(file), "features"),)]


def test_a_module_whose_names_of_parameters_are_kept_stays_given(tmp_path: Path) -> None:
    given = """
        model = torch.compile(Net(), backend="eager")
        for _ in range(3): model(torch.randn(5, 4))
        print(list(model.{state}()))
    """.format(state="state" + "_dict")
    file = program(tmp_path, given)
    (edit,) = offered(file)
    texts = edited(edit, {str(file): file.read_text()}, str(file))
    assert texts is not None
    assert as_written(edit, texts) == texts
    assert "@torch.compiler.disable\n    def forward" in texts[str(file)]
    assert 'model = torch.compile(Net(), backend="eager")' in texts[str(file)]


def test_where_all_that_computes_is_cut_nothing_is_offered(tmp_path: Path) -> None:
    given = """
        @torch.compile(backend="eager")
        def alone(x):
            y = x.sin() + x.cos()
            print("alone")
            return y * 2 + y.exp()
        for _ in range(3): alone(torch.ones(3))
    """
    assert offered(program(tmp_path, given)) == []


@pytest.mark.long
def test_fix_writes_it_and_the_program_does_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = """
        torch.manual_seed(0)
        net = Net()
        model = torch.compile(net, backend="aot_eager")
        total = 0.0
        for size in (5, 7, 6, 9):
            total += sum(float(row.sum()) for row in model(torch.randn(size, 4)))
        print(net.seen, round(total, 4))
    """
    file = program(tmp_path, given)
    branch = "kept = []\n        for row in scores:\n            if row[0] > 0:\n                kept.append(row)"
    file.write_text(file.read_text().replace("kept = [row for row in scores if row[0].item() > 0]", branch))
    patch = tmp_path / "fix.patch"
    assert main(["fix", "--json", "--within", "240", "--patch", str(patch), str(file)]) == 0
    best = json.loads(capsys.readouterr()[0])["best"]
    assert best["after"]["graph_breaks"] == best["after"]["eager_functions"] == 0
    assert best["results"] == "equal"
    assert best["sides"] == []  # the branch stays as it is
    added = [line[1:].strip() for line in patch.read_text().splitlines() if line.startswith("+") and line[1:2] == " "]
    assert added == ['@torch.compile(backend="aot_eager")', "torch._dynamo.maybe_mark_dynamic(x, 0)"]  # its rows vary
    assert "+model = net\n" in patch.read_text()
    assert main(["fix", "--own-inputs", "--within", "240", str(file)]) == 0
    assert "With its own backend" not in capsys.readouterr()[0]  # what only calls `forward` while it is tried


ALSO_ALONE = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        y = torch.relu(self.first(x)) + x.sum(-1, keepdim=True)
        return torch.tanh(self.second(y)) * y.mean(-1, keepdim=True)


class Trainer:
    def __init__(self):
        self.net, self.kept = Block(), []

    def step(self, x):
        y = self.net(x)
        if y.mean().item() > 0:
            self.kept.append(y.max().item())
        while len(self.kept) > 2:
            self.kept.pop(0)
        return [row for row in y if row[0] > 0]


torch.manual_seed(0)
trainer = Trainer()
step = torch.compile(trainer.step)
for _ in range(4):
    step(torch.randn(5, 4))
print(round(trainer.net(torch.ones(3, 4)).sum().item(), 3))
"""


@pytest.mark.long
def test_what_else_calls_what_is_compiled_by_itself_is_no_call_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "train.py"
    file.write_text(ALSO_ALONE)
    assert main(["fix", "--json", "--within", "240", str(file)]) == 0
    tried = json.loads(capsys.readouterr()[0])["tried"]
    alone = [one["results"] for one in tried if "@torch.compile def Block.forward, not Trainer.step" in one["offer"]]
    assert alone
    assert set(alone) == {"equal"}


# -- which of them is tried, and is best

FILE = "train.py"
SEARCHED = """import torch


def books(x):
    return x


def loss_of(x):
    return x + 1


def net(x):
    return x * 2


def step(x):
    return books(loss_of(net(x)))


run = torch.compile(step)
"""
CALL = "torch.compile(step)"
BREAK = Target(SourceLine(FILE, 5, "books", "return x"), "break")
KEEPS = Target(SourceLine(FILE, 9, "loss_of", "return x + 1"), CauseClass.DICT_KEYS.value)


def by_itself(*names: str) -> Offer:
    edit = Inside(FILE, "step", tuple((FILE, name) for name in names), "", FILE, CALL)
    return Offer(BREAK, edit, is_last_resort=True, keeps_computed=True, is_final=True)


def found_by(first: Observed, outcomes: dict[frozenset[Edit], Observed]) -> tuple[Fix, list[frozenset[Edit]]]:
    runs: list[frozenset[Edit]] = []

    def attempt(_texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        runs.append(frozenset(one.edit for one in offers))
        return outcomes[runs[-1]]

    return Search(first, {FILE: SEARCHED}, FILE, attempt, lambda one: one).result(), runs


def shown(breaks: int, recompiles: int = 0, *, ops: int = 100, launches: int = 9, kept: int = 0) -> Observed:
    targets = (*(BREAK,) * bool(breaks - kept), *(KEEPS,) * bool(recompiles))
    return Observed(
        Figures(breaks, recompiles, 0), Counts(1, breaks, 0, 1, recompiles, 0.0), (), (), targets, results=Results.EQUAL,
        calls=1, operators=ops, launches=launches, kept_out=("step",) * kept,
    )  # fmt: skip


def test_it_is_tried_first_and_the_break_at_what_was_given_is_none() -> None:
    both = by_itself("loss_of", "net")
    first = replace(shown(3), results=Results.UNKNOWN, inside=(both,))
    found, runs = found_by(first, {frozenset({both.edit}): shown(1, ops=60, launches=2, kept=1)})
    assert runs == [frozenset({both.edit})]
    assert found.best is not None
    assert found.best.offers == (both,)


def test_what_is_compiled_again_and_again_is_left_out() -> None:
    both, one, other = by_itself("loss_of", "net"), by_itself("net"), by_itself("loss_of")
    first = replace(shown(3, 6), results=Results.UNKNOWN, inside=(both,))
    outcomes = {
        frozenset({both.edit}): shown(1, 5, ops=90, launches=2, kept=1),
        frozenset({one.edit}): shown(1, 0, ops=60, launches=1, kept=1),
        frozenset({other.edit}): shown(1, 5, ops=30, launches=1, kept=1),
    }
    found, _ = found_by(first, outcomes)
    assert found.best is not None
    assert [one.edit for one in found.best.offers] == [one.edit]


def test_too_little_in_graphs_is_no_gain() -> None:
    one = by_itself("net")
    first = replace(shown(3), results=Results.UNKNOWN, inside=(one,))
    found, _ = found_by(first, {frozenset({one.edit}): shown(1, ops=30, launches=8, kept=1)})
    assert found.best is None


def test_what_takes_nothing_for_granted_is_better_than_more_in_graphs_that_does() -> None:
    one, setting = by_itself("net"), Setting("torch._dynamo.config.capture_dynamic_output_shape_ops = True")
    unknown = Offer(BREAK, setting)
    first = replace(shown(9, 9), results=Results.UNKNOWN, inside=(one,))
    first = replace(first, offers=(unknown,))
    outcomes = {
        frozenset({one.edit}): shown(1, ops=60, launches=2, kept=1),
        frozenset[Edit]({setting}): shown(2, ops=100, launches=2),
        frozenset[Edit]({setting, one.edit}): shown(2, ops=60, launches=2, kept=1),
    }
    found, _ = found_by(first, outcomes)
    assert found.best is not None
    assert [made.edit for made in found.best.offers] == [one.edit]


@pytest.mark.parametrize(("ops", "launches", "is_mark"), [(95, 6, True), (95, 12, False), (62, 6, False)])
def test_a_mark_that_leaves_clearly_more_in_graphs_is_better(ops: int, launches: int, *, is_mark: bool) -> None:
    one = by_itself("net")
    head = "def books(x):"
    mark = Offer(
        BREAK, Lines(FILE, 4, (head,), (f"@torch.compiler.disable\n{head}",)), is_last_resort=True, is_final=True
    )
    best = Trial((one,), {}, None, shown(1, ops=60, launches=9, kept=1), helps=True)
    other = Trial((mark,), {}, None, shown(2, ops=ops, launches=launches, kept=2), helps=True)
    assert list(compiles_more(best, (best, other))) == [other] * is_mark
    assert not list(compiles_more(other, (best, other)))
    broken = replace(other, observed=shown(2, ops=ops, launches=launches, kept=1))
    assert not list(compiles_more(best, (broken,)))


def test_what_only_hides_eager_lines_gives_way_to_parts_that_compile_them() -> None:
    """As it is, what comes after the break in its function runs eagerly: so it does where nobody compiles it."""
    one, other = by_itself("net"), Apart(FILE, "step", ("return books(loss_of(net(x)))",))
    parts = Offer(BREAK, other, is_last_resort=True, keeps_computed=True, is_final=True)
    function = StillEager(FunctionName("step", FILE, 3), "")
    first = replace(shown(1, ops=60), results=Results.UNKNOWN, inside=(one,), parts=(parts,), eager=(function,))
    first = replace(first, figures=Figures(1, 0, 1))
    outcomes = {
        frozenset({one.edit}): shown(0, ops=60, launches=12),
        frozenset[Edit]({other}): shown(0, ops=64, launches=9),
    }
    found, _ = found_by(first, outcomes)
    assert found.best is not None
    assert [made.edit for made in found.best.offers] == [other]
    fewer = {**outcomes, frozenset[Edit]({other}): shown(0, ops=50, launches=9)}
    found, _ = found_by(first, fewer)
    assert found.best is not None
    assert [made.edit for made in found.best.offers] == [one.edit]


@pytest.mark.parametrize(("ops", "is_better"), [(95, True), (90, True), (80, False)])
def test_parts_that_leave_nearly_all_in_graphs_are_better_than_what_compiles_a_good_part(
    ops: int, *, is_better: bool
) -> None:
    one = by_itself("net")
    parts = Offer(BREAK, Apart(FILE, "step", ("books(x)",)), is_last_resort=True, keeps_computed=True, is_final=True)
    first = shown(4, 4, launches=30)
    best = Trial((one,), {}, None, shown(1, ops=60, launches=9, kept=1), helps=True)
    other = Trial((parts,), {}, None, shown(0, ops=ops, launches=10), helps=True)
    assert list(runs_more(best, (best, other), first)) == [other] * is_better
    unknown = replace(parts, edit=Setting("torch._dynamo.config.capture_scalar_outputs = True"))
    assert not list(runs_more(best, (replace(other, offers=(unknown,)),), first))


@pytest.mark.parametrize(("launches", "cuts", "is_better"), [(9, 2, False), (8, 2, True), (9, 0, True)])
def test_what_cuts_no_graph_is_not_given_up_for_a_little_more_in_cut_ones(
    launches: int, cuts: int, *, is_better: bool
) -> None:
    parts = Offer(BREAK, Apart(FILE, "step", ("books(x)",)), is_last_resort=True, keeps_computed=True, is_final=True)
    setting = Offer(BREAK, Setting("torch._dynamo.config.capture_dynamic_output_shape_ops = True"))
    best = Trial((parts,), {}, None, shown(0, ops=80, launches=9), helps=True)
    other = Trial((setting,), {}, None, shown(cuts, ops=95, launches=launches), helps=True)
    assert list(runs_more(best, (best, other), shown(8, 8, launches=30))) == [other] * is_better


@pytest.mark.parametrize(
    ("breaks", "recompiles", "launches", "is_better"),
    [(4, 8, 10, True), (5, 8, 10, False), (4, 9, 10, False), (4, 8, 16, False)],
)
def test_what_compiles_less_than_half_gives_way_to_what_cuts_half(
    breaks: int, recompiles: int, launches: int, *, is_better: bool
) -> None:
    """Of what runs in graphs as the program is most would be Python, and some recompiles are no worse than that."""
    unknown = Offer(BREAK, Setting("torch._dynamo.config.capture_dynamic_output_shape_ops = True"))
    first = shown(8, 8, launches=30)
    best = Trial((by_itself("net"),), {}, None, shown(1, ops=30, launches=9, kept=1), helps=True)
    other = Trial((unknown,), {}, None, shown(breaks, recompiles, ops=100, launches=launches), helps=True)
    assert list(runs_more(best, (best, other), first)) == [other] * is_better


@pytest.mark.parametrize(
    ("ops", "launches", "error", "is_beyond"),
    [
        (150, 9, "", True),
        (150, 10, "", False),
        (120, 6, "", False),
        (90, 5, "", True),
        (80, 5, "", False),
        (150, 9, "it raises", False),
    ],
)
def test_what_compiles_clearly_more_may_break_elsewhere(
    ops: int, launches: int, error: str, *, is_beyond: bool
) -> None:
    base, more = shown(3, launches=10), replace(shown(8, ops=ops, launches=launches), error=error)
    assert compiles_beyond(more, base) is is_beyond
    assert not compiles_beyond(replace(more, results=Results.DIFFER), base)
