"""What `fix` says beside its table: nothing of what the recording shows is left out, and nothing is offered in vain."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens
from compiler_lens.facts.measured.edits import Apart, EndApart, Lines, Setting
from compiler_lens.facts.measured.fix import Fix, Observed, Offer, Target, Trial
from compiler_lens.facts.measured.marked_inside import Inside
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.measured.time_for_all import enough_for_all
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.measure.program import described
from compiler_lens.recording.model import Figures, Recording, Results, SourceLine
from compiler_lens.render.console import fix_report
from compiler_lens.views.measured.fix import _without_remark

FILE = "/home/user/app/user_model.py"
TEXT = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return self.encode(x)

    def encode(self, x):
        return x.sin()

class Scaled(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x * self.k

def looped(x):
    for i in range(3):
        torch._dynamo.graph_break()
        x = x + i
    return x

def prices_of(x):
    prices = [1.0, 2.0, 4.0]
    return torch.tensor([prices[i] for i in x.tolist()])

@torch.library.custom_op("told::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    raise RuntimeError("twice takes no vectors")

def doubled(x):
    return twice(x) + 1

def labelled(x, label):
    return x * len(label)
"""


@pytest.fixture
def user() -> Iterator[ModuleType]:
    linecache.cache[FILE] = (len(TEXT), None, TEXT.splitlines(keepends=True), FILE)
    module = ModuleType("user_model")
    sys.modules["user_model"] = module
    exec(compile(TEXT, FILE, "exec"), module.__dict__)
    yield module
    linecache.cache.pop(FILE, None)
    sys.modules.pop("user_model", None)


def recorded(*calls: object) -> Recording:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        for call in calls:
            call()  # type: ignore[operator]
    return lens.recording


def test_a_finding_that_no_change_is_about_is_told_beside_what_was_tried(user: ModuleType) -> None:
    def program() -> None:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        torch.compile(user.Net(), backend="eager").encode(torch.ones(2))

    first = replace(observed(recorded(program), Ownership()), calls=1)
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    trial = Trial((Offer(Target(None, "break"), Setting("x = 1")),), {}, Figures(1, 0, 0), seen, helps=False)
    shown = " ".join(fix_report(Fix(first, (trial,)), width=120).split())
    assert "Beside that, of the program as it is:" in shown
    assert "gives `Net` to torch.compile, and no call of what that made entered the compiler" in shown
    assert shown.index("Nothing that was tried helps") < shown.index("Beside that")
    assert "Not all was tried" not in shown
    hurried = " ".join(fix_report(Fix(first, (trial,), is_unfinished=True, is_hurried=True), width=120).split())
    assert "Not all was tried: a third of the time that --within gives is kept for a closer look" in hurried
    assert "It was ended" not in hurried
    assert "--within 600" not in hurried
    hurried = fix_report(Fix(first, (trial,), is_unfinished=True, is_hurried=True, enough_within=600), width=400)
    assert "--within 600 would probably do for all." in hurried


@pytest.mark.parametrize(
    ("seconds", "runs", "waiting", "enough"),
    [(39, 13, 4, 180), (195, 20, 6, 900), (195, 0, 1, 5400), (9000, 30, 2, 28800)],
)
def test_how_long_would_do_is_estimated_from_runs_that_were_made_and_wait(
    seconds: float, runs: int, waiting: int, enough: int
) -> None:
    found = enough_for_all(seconds, runs, waiting, 0.35)
    assert found == enough
    assert found > seconds / (1 - 0.35) * (runs + waiting) / max(runs, 1)


def test_of_functions_in_parts_the_name_says_so(user: ModuleType) -> None:
    """Also where two changes of one function begin with the same words."""
    first = replace(observed(recorded(lambda: None), Ownership()), calls=1)
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    lines = ("print(x.sum().item())", "print(x.mean().item())")
    ends = (Offer(Target(None, "break"), EndApart(FILE, "Net.forward", line)) for line in lines)
    apart = (Offer(Target(None, "break"), Apart(FILE, "Net.forward", (line,))) for line in lines)
    trials = tuple(Trial((one,), {}, Figures(1, 0, 0), seen, helps=False) for one in (*apart, *ends))
    shown = " ".join(fix_report(Fix(first, trials), width=140).split())
    assert all(f"def forward_computed(…): … before {line}" in shown for line in lines)
    assert "……" not in shown
    assert all(f"def forward(…) in parts, without {line}" in shown for line in lines)


def test_what_torch_compile_was_given_itself_gets_no_mark(user: ModuleType) -> None:
    """An operator of all that was to be compiled compiles nothing."""
    found = observed(recorded(lambda: torch.compile(user.looped, backend="eager")(torch.ones(2))), Ownership())
    assert found.targets
    assert not found.is_markable
    called = lambda: torch.compile(lambda x: user.looped(x) * 2, backend="eager")(torch.ones(2))  # noqa: E731
    assert observed(recorded(called), Ownership()).is_markable


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        (
            "prices_of",
            "return torch.tensor([prices[i]",
            "GuardOnDataDependentSymNode: Could not extract specialized integer",
        ),
        ("doubled", "return twice(x) + 1", "RuntimeError: twice takes no vectors."),
    ],
)
def test_what_raises_only_when_it_is_compiled_is_left_to_mend_with_what_it_raised(
    user: ModuleType, name: str, line: str, said: str
) -> None:
    raised: list[BaseException] = []

    def program() -> None:
        try:
            torch.compile(getattr(user, name), backend="eager")(torch.tensor([0, 2]))
        except Exception as error:  # noqa: BLE001 -- the type is torch's own
            raised.append(error)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        first = replace(observed(recorded(program), Ownership()), calls=1)
    message, at = described(raised[0])
    assert at is not None
    assert at.code.startswith(line)
    assert said.rstrip(".") in message
    shown = " ".join(fix_report(Fix(replace(first, error=message)), width=200).split())
    assert f"{line}" in shown.partition("To mend by hand")[2]
    assert f"compiling `{name}` failed: {said}" in shown.partition("To mend by hand")[2]


def test_of_recompiles_that_hit_the_limit_something_is_said_also_where_each_is_expected(user: ModuleType) -> None:
    models = [user.Scaled(k) for k in range(2, 12)]

    def program() -> None:
        for model in models:
            torch.compile(model, backend="eager")(torch.ones(2))

    with torch._dynamo.config.patch(recompile_limit=4):
        recording = recorded(program)
    found = observed(recording, Ownership())
    assert {target.kind for target in found.targets} == {"another module"}
    assert [one.change for one in found.not_tried if "recompile_limit" in one.change]


def test_a_mark_is_told_at_the_function_that_has_it() -> None:
    text = "def marked(x):\n    return x\n\ndef step(x):\n    if x > 0:\n        return marked(x)\n    return x\n"
    target = Target(SourceLine("train.py", 5, "step", "    if x > 0:"), "other")
    mark = Lines("train.py", 1, ("def marked(x):",), ("@torch.compiler.disable", "def marked(x):"))
    written = Lines("train.py", 5, ("if x > 0:",), ("if f(x):",))
    seen = Observed(None, None)
    tried = tuple(Trial((Offer(target, edit),), {}, None, seen, helps=False) for edit in (mark, written))
    shown = fix_report(Fix(seen, tried, None, texts={"train.py": text}), width=100)
    assert "1 train.py:1 @torch.compiler.disable def marked" in shown
    assert "2 train.py:5 if f(x):" in shown


def test_of_changes_that_begin_alike_no_name_is_cut_at_a_dot() -> None:
    target = Target(SourceLine("train.py", 1, "", "if value != value:"), "break")
    lines = [
        Lines("train.py", 1, ("if value != value:",), (f"if not torch.compiler.is_compiling(){more}:",))
        for more in ("", " and (value != value)")
    ]
    settings = [Setting(f"torch._dynamo.config.capture_{name}_outputs = True") for name in ("scalar", "scalars")]
    seen = Observed(None, None)
    tried = tuple(Trial((Offer(target, edit),), {}, None, seen, helps=False) for edit in (*lines, *settings))
    shown = fix_report(Fix(seen, tried, None, texts={"train.py": "if value != value:"}), width=200)
    assert "1 train.py:1 …torch.compiler.is_compiling():" in shown
    assert "2 train.py:1 …torch.compiler.is_compiling() and (value != value):" in shown
    assert "3 …capture_scalar_outputs = True for train.py:1" in shown


def test_of_a_function_in_parts_a_line_that_was_rewritten_is_not_to_be_mended(user: ModuleType) -> None:
    """It stayed Python where the function was divided without the change."""
    first = replace(
        observed(recorded(lambda: torch.compile(user.looped, backend="eager")(torch.ones(2))), Ownership()), calls=1
    )
    (line,) = {target.at for target in first.targets if target.at}
    apart = Apart(line.file, "looped", (line.code.strip(),))
    offer = Offer(Target(line, "break"), apart, keeps_computed=True, is_last_resort=True, is_final=True)
    after = replace(first, figures=Figures(0, 0, 0), targets=(), results=Results.EQUAL, operators=9, launches=3)
    for text, is_told in ((TEXT, True), (TEXT.replace(line.code.strip(), "pass"), False)):
        trial = Trial((offer,), {FILE: text}, first.figures, after, helps=True)
        shown = " ".join(fix_report(Fix(first, (trial,), trial, texts={FILE: TEXT}), width=200).split())
        assert ("Left to Python, so no graph breaks there any more" in shown) is is_told
        assert "1 function left to Python, operators that run in graphs 0 → 9, runs of graphs 0 → 3" in shown


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("net = torch.compile(net, dynamic=True)  # three calls a step", "net = torch.compile(net, dynamic=True)"),
        ('print("a  # b")', 'print("a  # b")'),
        ("print('a  # b')", "print('a  # b')"),
    ],
)
def test_a_change_is_named_without_the_users_remark(line: str, title: str) -> None:
    assert _without_remark(line) == title


@pytest.mark.parametrize("is_compiled", [False, True])
def test_what_is_compiled_again_no_more_as_it_is_python_is_told_with_what_to_do(
    user: ModuleType, *, is_compiled: bool
) -> None:
    def program() -> None:
        step = torch.compile(user.labelled, backend="eager")
        for label in ("a", "bb", "ccc"):
            step(torch.ones(2), label)

    first = replace(observed(recorded(program), Ownership()), calls=3)
    (line,) = {target.at for target in first.targets if target.at}
    inside = Inside(FILE, "labelled", ((FILE, "doubled"),), "", FILE, "torch.compile(labelled)")
    offer = Offer(Target(line, "string"), inside, keeps_computed=True, is_last_resort=True, is_final=True)
    targets = first.targets if is_compiled else ()
    after = replace(
        first, figures=Figures(0, 0, 0), targets=targets, findings=(), results=Results.EQUAL, operators=9, launches=3
    )
    trial = Trial((offer,), {FILE: TEXT}, first.figures, after, helps=True)
    shown = " ".join(fix_report(Fix(first, (trial,), trial, texts={FILE: TEXT}), width=200).split())
    told = "Left to Python, so no graph breaks there, and nothing is compiled again, any more"
    assert (told in shown) is not is_compiled
    assert ("user_model.py:41 return x * len(label) label changed (string): 'a' → 'bb' → 'ccc'." in shown) is (
        not is_compiled
    )
