"""Every remedy, proven on torch: the broken code breaks for its reason, the mended one does not and computes the same."""

import ast
import contextlib
import io
import json
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens
from compiler_lens.decode.graph_breaks import read_causes
from compiler_lens.facts.breaks import remedies
from compiler_lens.facts.breaks.raised import raised
from compiler_lens.facts.breaks.remedies import Shown, for_later, for_line, remedy_for, remedy_table
from compiler_lens.facts.breaks.rewrites import bounds_at, column_of_only, shown_at, used_later, words_for
from compiler_lens.facts.data_file import read_data
from compiler_lens.facts.overview.explanation import explain
from compiler_lens.recording.model import BreakCause, Outcome, SourceLine
from compiler_lens.recording.source_text import Sources
from compiler_lens.views.advice import why

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import broken_and_mended as table  # noqa: E402

TORCH = ".".join(torch.__version__.split(".")[:2])
# Every type in torch/_dynamo/graph_break_registry.json, in its current wording, and the versions that have it.
GB_TYPES = json.loads((HERE / "gb_types.json").read_text())
BY_NAME = remedy_table().remedies
REMEDIES = list(BY_NAME.values())
BY_SYNTAX = {remedy.name for remedy in REMEDIES if remedy.shown}  # chosen by the code, not by torch's words alone


def remedy_name(case):
    """A second case of one remedy ends in a number; a name that Python has already, in an underscore."""
    return re.sub(r"_\d*$", "", case.__name__)


CASES = [
    case
    for case in vars(table).values()
    if isinstance(case, type) and issubclass(case, table.Case) and hasattr(case, "broken")
]
HERE_AND_NOW = [case for case in CASES if TORCH in case.versions]


def named(case):
    return case.__name__


def seed():
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002


def compiled(case, function, inputs, **config):
    """What a function gives under `torch.compile`, None if it raised; its recording; why it was not compiled whole."""
    torch._dynamo.reset()
    seed()
    result = None
    with torch._dynamo.config.patch({**case.config, **config}), Lens(strict=True) as lens:
        call = torch.compile(function, backend=case.backend)
        with contextlib.suppress(Exception):  # some broken ones raise
            for _ in range(case.calls):
                result = call(*inputs())
        recording = lens.recording
    return result, recording, causes_in(recording, effect=case.effect)


def causes_in(recording, *, effect):
    """What is responsible for each break, for each error under compilation, and for each frame given up."""
    causes = [b.causes[-1] if effect else b.root for b in recording.graph_breaks]
    causes += [c.failure for c in recording.compilations if c.failure]
    limits = [c.reason for c in recording.compilations if c.outcome is Outcome.RECOMPILE_LIMIT]
    return causes + [cause for reason in limits for cause in read_causes(reason)]


def assert_same(found, expected):
    if isinstance(found, torch.Tensor):
        torch.testing.assert_close(found, expected)
    elif isinstance(found, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    else:
        assert found == expected


def names(causes):
    return [remedy.name if remedy else f"none for {cause}" for cause in causes for remedy in [remedy_for(cause)]]


@pytest.fixture(autouse=True)
def _nobody_is_there(monkeypatch):
    """A debugger does not stop, and whoever asks for input gets an empty line."""
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n" * 9))


@pytest.mark.parametrize("case", HERE_AND_NOW, ids=named)
def test_the_broken_code_breaks_for_the_reason_that_the_remedy_is_about(case):
    _, recording, causes = compiled(case, case.broken, case.inputs)
    if remedy_name(case) in BY_SYNTAX:
        assert remedy_name(case) in {card.remedy.name for card in explain(recording).cards}
    else:
        assert remedy_name(case) in names(causes)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_mended_code_is_compiled_whole_and_computes_the_same(case):
    found, recording, causes = compiled(case, case.mended, getattr(case, "mended_inputs", case.inputs))
    assert causes == []
    frames = [c for c in recording.compilations if c.compile_id.frame is not None]  # printing a tensor calls others
    assert {c.outcome for c in frames} == {Outcome.COMPILED}
    seed()
    for _ in range(case.calls):
        expected = getattr(case, "answer", case.broken)(*case.inputs())
    assert_same(case.matters(found), case.matters(expected))


# Of these the gradient is another, or there is none on one side, for a reason.
OTHER_GRADIENTS = {
    "not_of_tensor",  # zeros on one side: the gradient of `torch.where` is zeros, and there was none
    "text_of_tensor",  # what was a text is a tensor, of which nobody takes a gradient
    "python_random_2",
    "new_parameter_2",  # random numbers
    "requires_grad",  # its caller does it
    "quantized",  # its caller hands in another tensor
    "deepcopy", "copy_",  # the copy is a leaf of its own, of which no gradient is taken here
}  # fmt: skip


def gradients(case, function, inputs):
    """The gradients of a function's inputs; None where it takes none, or where there is no plain backward."""
    seed()
    arguments = [(a.detach() * 1.5 + 0.3).requires_grad_() if is_plain(a) else a for a in inputs()]
    try:
        found = function(*arguments)
        found = [v for v in (found if isinstance(found, tuple) else (found,)) if isinstance(v, torch.Tensor)]
        taken = [v.sum() for v in found if v.requires_grad]
        sum(taken[1:], taken[0]).backward()
    except Exception:  # noqa: BLE001 -- what needs the compiler, or has no backward
        return None
    return [a.grad for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]


def is_plain(value):
    return type(value) is torch.Tensor and value.is_floating_point() and value.layout is torch.strided


@pytest.mark.parametrize("case", [c for c in CASES if c.__name__ not in OTHER_GRADIENTS], ids=named)
def test_the_mended_code_takes_the_same_gradients(case):
    expected = gradients(case, getattr(case, "answer", case.broken), case.inputs)
    found = gradients(case, case.mended, getattr(case, "mended_inputs", case.inputs))
    for one, other in zip(found or (), expected or found or (), strict=True):
        assert_same(one, other)
    assert expected is None or found is not None


@pytest.mark.parametrize(("broken", "mended"), [(c.broken, c.mended) for c in (table.deepcopy, table.copy_)])
def test_no_gradient_goes_through_what_stands_for_a_copy(broken, mended):
    x = torch.ones(3, requires_grad=True)
    broken(x).sum().backward()
    assert x.grad is None
    assert not mended(x).requires_grad


@pytest.mark.parametrize("name", ["item", "numbers_from_tensor", "tolist_of_floats"])
def test_what_computes_on_with_a_number_is_told_to_detach_the_tensor(name):
    assert ".detach()" in BY_NAME[name].change
    assert ".detach()" in BY_NAME[name].after


@pytest.mark.parametrize("case", [c for c in HERE_AND_NOW if BY_NAME[remedy_name(c)].setting], ids=named)
def test_under_its_setting_the_broken_code_does_not_break_this_way(case):
    remedy = BY_NAME[remedy_name(case)]
    *_, key = remedy.setting.name.split(".")
    value = eval(remedy.setting.value, vars(table))
    *_, causes = compiled(case, case.broken, case.inputs, **{key: value})
    assert remedy.name not in names(causes)


NUMBERS = {"Unsupported Tensor.item() call with capture_scalar_outputs=False", "Data dependent operator"}
NOT_OFFERED = [r for r in REMEDIES if NUMBERS & set(r.gb_types) and not r.setting]


@pytest.mark.parametrize("case", [c for c in HERE_AND_NOW if BY_NAME[remedy_name(c)] in NOT_OFFERED], ids=named)
def test_where_torchs_setting_is_not_offered_it_does_not_do(case):
    """With it the graph breaks in another way, or each value is compiled anew, as `hinted` says."""
    remedy = BY_NAME[remedy_name(case)]
    *_, recording, causes = compiled(case, case.broken, case.inputs, capture_scalar_outputs=True)
    is_for_one_value = any("item() ==" in str(guard) for guard in recording.guards)
    assert causes or (remedy.hinted and is_for_one_value)


def test_every_remedy_has_a_case_and_every_case_a_remedy():
    assert {remedy_name(case) for case in CASES} == set(BY_NAME) - {
        "check_that_saves_work", "check_that_raises", "check_that_leaves",
    }  # fmt: skip


def test_whatever_a_line_shows_has_advice_of_its_own():
    assert {remedy.shown for remedy in REMEDIES} - {None} == set(Shown)


def test_every_list_of_types_and_every_setting_of_the_file_is_used():
    text = Path(remedies.__file__).with_name("remedies.toml").read_text("utf-8")
    data = read_data(Path(remedies.__file__).with_name("remedies.toml"))
    assert [name for name in data["groups"] if f'"@{name}"' not in text] == []
    assert {entry["setting"] for entry in data["remedies"].values() if "setting" in entry} == set(data["settings"])


def test_the_table_is_in_the_registry_and_keeps_to_the_rules_of_words():
    for remedy in REMEDIES:
        assert set(remedy.gb_types) <= {*GB_TYPES, *remedies._ERRORS}, remedy.name
        assert len(set(remedy.gb_types)) == len(remedy.gb_types), remedy.name
        re.compile(remedy.about)
        sentences = [remedy.why, remedy.change, remedy.leave] + ([remedy.setting.price] if remedy.setting else [])
        for sentence in filter(None, sentences):
            assert sentence.endswith(".")
            assert len(sentence) <= 200, sentence
            assert not BANNED.search(re.sub(r"`[^`]*`", "", sentence)), sentence
        ast.parse(inner(remedy.before))
        ast.parse(inner(remedy.after))
        assert remedy.before != remedy.after, remedy.name


def inner(code):
    """An example may return: it is the body of a function."""
    return "def example():\n" + "\n".join(f"    {line}" for line in code.splitlines())


BANNED = re.compile(
    r"bytecode|symbolic_convert|VariableTracker|\bprox(y|ies)\b|dynamo(?!\.config)|\btrac(e|ed|ing)\b|fake tensor",
    re.IGNORECASE,
)


def test_the_settings_exist():
    for remedy in filter(lambda r: r.setting, REMEDIES):
        module, _, key = remedy.setting.name.rpartition(".")
        assert module == "torch._dynamo.config"
        assert hasattr(torch._dynamo.config, key), remedy.setting.name


def test_a_remedy_that_asks_for_words_goes_before_one_that_takes_any():
    asks, takes_any = BY_NAME["compare_tensors"], BY_NAME["numbers_from_tensor"]
    assert remedy_for(BreakCause("Data dependent operator", context="aten.equal.default")) is asks
    assert remedy_for(BreakCause("Data dependent operator", context="aten._local_scalar_dense.default")) is takes_any
    assert remedy_for(BreakCause("no such type")) is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("if x.sum() == 0:\n            continue", "check_that_saves_work"),
        ("if not x.any():\n            continue", "check_that_saves_work"),
        ("if x.sum() > 9:\n            continue", "branch_on_tensor"),
        ("if x.isnan().any():\n            raise ValueError", "check_that_raises"),
        ("if x.isnan().any():\n            return None", "check_that_leaves"),
        ("if not torch.isfinite(x):\n            continue", "check_that_leaves"),
        ('if x.isnan() or x.isinf():\n            print("nan")\n            raise ValueError', "branch_that_tells"),
        ('if not torch.isfinite(x).all():\n            print("overflow", x.shape)', "branch_that_tells"),
        ("if x != x:\n            return x, 0", "check_that_leaves"),
        ("if x.isnan() or x.sum() > 9:\n            return None", "branch_that_tells"),
        ("if x.isnan().any():\n            x = x / 2", "branch_on_tensor"),
        ("if x.sum() > 9:\n            return None", "branch_that_tells"),
        ("if x.sum() > 9:\n            return x, None", "branch_that_tells"),
        ("if x.sum() > 9:\n            return 0", "branch_on_tensor"),
        ("if x.sum() > 9:\n            log.warning('large')", "branch_that_tells"),
        ("if x.sum() > 9:\n            x = x / 2\n            log.warning('large')", "branch_on_tensor"),
        ("if x.sum() > 9:\n            log.warning('large')\n            return x * 2", "branch_on_tensor"),
        ("if x.sum() > 9:\n            log.warning('large')\n        else:\n            x = -x", "branch_on_tensor"),
        ("if x.sum() > 9:\n            self.large += 1", "branch_that_counts"),
        ("if x.sum() > 9:\n            x += 1", "branch_on_tensor"),
        ("if x.sum() > 9:\n            self.scale += x.mean()", "branch_that_changes"),
        ("if self.energy > 0:\n            self.energy.mul_(0.5)", "branch_that_changes"),
        (
            "if not self.initialized:\n            self.mean.copy_(x)\n            self.initialized.fill_(1)",
            "set_up_once",
        ),
        ("if self.done.item() == 0:\n            self.mean = x\n            self.done[0] = 1", "set_up_once"),
        ("if self.done.all() and x is not None:\n            self.done.zero_()", "branch_that_changes"),
        ("if self.needs_init:\n            self.mean.copy_(x)", "set_up_once"),
        ("if x.sum() > 9:\n            y.mul_(2)", "branch_on_tensor"),
        ("if x.sum() == 0:\n            self.skipped += 1\n            continue", "round_that_is_counted"),
        ("if x.sum() > 9:\n            self.large += 1\n            break", "round_that_is_counted"),
        ("if x.isnan().any():\n            self.bad += 1\n            continue", "round_that_is_counted"),
        (
            "if x.sum() > 9:\n            n['skipped'] += 1\n            print(x)\n            continue",
            "round_that_is_told",
        ),
        (
            "if x.sum() > 9:\n            self.large += 1\n            self.stop = True\n            return x",
            "branch_that_tells",
        ),
        ("if x.sum() > 9:\n            x = x / 2", "branch_on_tensor"),
        ("if bool((x > 9).all()):\n            break", "check_that_stops"),
        ("while x.sum() > 9:\n            x = x / 2", "while_on_tensor"),
        ('assert x.sum() > 9, f"{x}"', "assert_on_tensor"),
        ('assert x.sum() > 9, "small"', "branch_on_tensor"),
    ],
)
def test_advice_on_a_branch_is_on_what_it_is_there_for(code, name):
    assert advice_on(code, "g(x)") == name


@pytest.mark.parametrize("then", ["y = y / x.sum()", "y /= x.sum()", "y = y + z[x].mean()"])
def test_a_check_that_guards_a_division_is_not_to_be_deleted(then):
    assert advice_on("if x.sum() == 0:\n            continue", then) == "branch_on_tensor"


NAMED = """
class Learner:
    def step(self, pos, loss):
        kl = (loss - self.old).mean()
        skipped = 0
        {code}
        return loss
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("if kl > self.target:\n  self.stopped += 1\n  print(kl)\n  return None", "(`kl`) with the result, and test, count, print and stop in the caller"),
        ("if torch.isnan(loss) or loss.abs() > kl:\n  logging.warning('x')\n  return", "(`loss` and `kl`) with the result, and test, log and stop in the"),
        ("if self.value > 3:\n  warnings.warn('x')\n  raise ValueError", "(`self.value`) with the result, and test, warn and raise in the"),
        ("if helper():\n  print('x')", "Return what the test asks for with the result, and test, count, print and stop"),
        ("if pos.sum() == 0:\n  self.skipped += 1", "from the beginning: `self.skipped = self.skipped + (pos.sum() == 0)`."),
        ("if pos.sum().item() == 0:\n  skipped -= 2", "from the beginning: `skipped = skipped - 2 * (pos.sum() == 0)`."),
        ("if not pos.any():\n  skipped += 1", "from the beginning: `skipped = skipped + (~pos.any())`."),
        ("if pos.sum().item():\n  skipped += 1", "Keep the count as a tensor, from the beginning, and add the test to it."),
        ("if int(pos.sum()) == 0:\n  skipped += 1", "Keep the count as a tensor, from the beginning, and add the test to it."),
        ("while True:\n  if kl > 3:\n   print(kl)\n   break", "return what the test asks for (`kl`) of each round, and test, print and stop in"),
        ("while True:\n  if kl > 3:\n   self.n += 1\n   break", "Keep the count as a tensor (`self.n = self.n + (kl > 3)`) and let the loop"),
    ],
)  # fmt: skip
def test_advice_on_a_branch_that_computes_nothing_names_what_it_asks_for(code, words):
    lines = [" " * 8 + line for line in code.split("\n")]
    text = NAMED.format(code="\n".join(lines).lstrip())
    number, line = next(pair for pair in enumerate(text.split("\n"), 1) if pair[1].lstrip().startswith("if"))
    known, at = Sources({"/app/model.py": text}), SourceLine("/app/model.py", number, "step", line.strip())
    remedy = remedy_for(BreakCause("Data-dependent branching"), shown_at(known, at))
    assert words in for_line(remedy, at.code, words_for(known, at)).change


def test_what_is_said_by_names_keeps_to_the_rules_of_words():
    for name, change in remedy_table().named.items():
        assert not change or (change.endswith(".") and len(change) <= 200), name
        assert not change or change != BY_NAME[name].change


def advice_on(code, then):
    text = f"def f(xs):\n    for x in xs:\n        {code}\n        {then}\n"
    line = SourceLine("/app/model.py", 3, "f", code.split("\n", maxsplit=1)[0])
    shown = shown_at(Sources({"/app/model.py": text}), line)
    cause = BreakCause("Data-dependent branching", context="attempted to jump with TensorVariable()")
    return remedy_for(cause, shown).name


@pytest.mark.parametrize(
    ("code", "broke", "shown"),
    [
        ("y = x if 3 in x else -x", "3 in x", Shown.IN),
        ("y = x if x.item() in (3, 4) else -x", "x.item()", Shown.BRANCH),
        ("y = x.any() or x.all()", "x.any()", Shown.LOGICAL),
        ("y = x[1 : lengths.max()].item()", "1 :", Shown.SLICE),
        ("y = x[1:3].sum().item()", "x[", None),
        ("y = x.view(sizes.tolist())", "sizes", Shown.SIZES),
        ('y = table[f"{x.item()}"]', "x.item", Shown.TEXT),
        ("if flag: y = x.item()", "x.item", None),
        ("if x.item() > 3: y = x", "x.item", Shown.BRANCH),
        ("if 0 in x: y = x", "0 in", Shown.IN),
        ("if x.item() in (3, 4): y = x", "x.item", Shown.BRANCH),
        ("y = x.new_empty(sizes.tolist())", "sizes", Shown.SIZES),
        ("y = x.view([2 * n for n in sizes.tolist()])", "sizes", Shown.SIZES),
        ("y = torch.zeros(max(sizes.tolist()))", "sizes", Shown.SIZES),
        ("y = torch.tensor([table[i] for i in x.flatten().tolist()]).view(2, 3)", "x.flatten", Shown.LOOKED_UP),
        ("y = [table.get(i, 0) for i in x.tolist()]", "x.tolist", Shown.LOOKED_UP),
        ("y = torch.tensor([i * 2 for i in x.tolist()]).view(2, 3)", "x.tolist", None),
        ("y = torch.stack([torch.tensor(x.tolist()).repeat(2)])", "x.tolist", None),
        ("if torch.rand(1).item() > flag: y = layer(x)", "torch", Shown.LEAVES_OUT),
        ("if flag and torch.rand(()) < 0.1: y = self.layer(x)", "torch", Shown.LEAVES_OUT),
        ("if torch.rand(1).item() > flag: y = x.abs()", "torch", Shown.BRANCH),
        ("if x.sum().item() > flag: y = layer(x)", "x.sum", Shown.BRANCH),
        ("if np.random.rand() < flag: y = x", "np.random", Shown.DRAWN),
        ("if flag and np.random.uniform(0, 1) < 3: raise ValueError", "np.random", Shown.DRAWN),
        ("y = x if 3 < numpy.random.randint(flag) else -x", "numpy.random", Shown.DRAWN),
        ("y = x * np.random.rand()", "np.random", None),
        ("if np.random.choice(x.tolist()): y = x", "x.tolist", Shown.BRANCH),
    ],
)
def test_what_asks_for_a_value_is_seen_where_torch_says_what_broke(code, broke, shown):
    text = f"def f(x, lengths, sizes, table, flag):\n    {code}\n    return y\n"
    assert (
        shown_at(Sources({"/app/model.py": text}), SourceLine("/app/model.py", 2, "f", code), code.index(broke))
        is shown
    )


@pytest.mark.parametrize(
    ("code", "is_branch", "begins"),
    [
        ("y = (x > 0).all() and (x < 9).all()", True, "(x > 0)"),
        ("y = x if x.sum() > 0 else -x", True, "x.sum() > 0"),
        ("return not x.any()", True, "not"),
        ("y = 0 < x.sum() < 9", True, "0 <"),
        ("return x in table", True, "x in"),
        ("if x.sum() > 0: y = layer(x if flag else y)", True, "x.sum()"),
        ("if flag and x.sum() > 0: y = x", True, None),  # either may have
        ("y = (x.any() or flag), (flag or x.all())", True, None),
        ("y = x + 1", True, None),
        ("y = f'{int(x.sum().item())}'", False, "x.sum()"),
        ("y = torch.split(x, lengths.tolist())", False, "lengths"),
        ("y = float(x.max())", False, "float"),
        ("y = x[: lengths]", False, ": lengths"),
        ("y = x.item() + lengths.item()", False, None),
    ],
)
def test_the_one_expression_that_can_have_broken_is_found_where_torch_does_not_say_which(code, is_branch, begins):
    text = f"def f(x, lengths, table, flag):\n    {code}\n    return y\n"
    known, line = Sources({"/app/model.py": text}), SourceLine("/app/model.py", 2, "f", code)
    found = column_of_only(known, line, is_branch=is_branch)
    assert found == (None if begins is None else code.index(begins))


def test_a_drawn_number_is_one_also_where_it_has_a_name():
    text = "def f(x, p):\n    u = np.random.rand()\n    if u < p:\n        return x\n    return -x\n"
    line = SourceLine("/app/model.py", 2, "f", "u = np.random.rand()")
    assert used_later(Sources({"/app/model.py": text}), line) is Shown.DRAWN
    assert used_later(Sources({"/app/model.py": text.replace("if u < p", "if p")}), line) is None


@pytest.mark.parametrize(
    ("later", "why"),
    [
        ("y = x * 2\n    return y[best:].sum()", "Line 4 has this number among the bounds of a slice"),
        ("return x[0, :best + 1].sum()", "Line 3 has this number among the bounds of a slice"),
        ("return x[:other].sum() + x[best:]", "Line 3 has"),
        ("return x.sum() * best", ""),
    ],
)
def test_a_number_that_another_line_slices_with_is_told_with_that_line(later, why):
    text = f"def f(x, order, other):\n    best = order[0].item()\n    {later}\n"
    line = SourceLine("/app/model.py", 2, "f", "best = order[0].item()")
    remedy = remedy_table().remedies["bounds_of_slice"]
    said = for_later(remedy, bounds_at(Sources({"/app/model.py": text}), line)).why
    assert said.startswith(why or remedy.why)


@pytest.mark.parametrize(
    ("explanation", "context", "said"),
    [
        ("", "TypeError <built-in function f>: f(): argument 'a' must be bool", "TypeError: f(): argument 'a' must be bool"),
        ("Failed: call_function <f>(*(T(size=(3,)),), **{}): got RuntimeError('a: 3\\n')", "", "RuntimeError: a: 3"),
        ("Failed: call_function <f>(*(), **{}): got Mine<3>", "", "Mine<3>"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_what_an_operator_raised_is_said_whole(explanation, context, said):
    assert raised(BreakCause("TypeError when making fake tensor call", "", explanation, (), context)) == said
    assert not raised(BreakCause("Data-dependent branching", "", explanation, (), context))


def test_what_torch_tells_its_own_developers_is_not_said_to_users():
    case = table.flag_of_sizes
    _, recording, _ = compiled(case, case.broken, case.inputs)
    (card,) = explain(recording).cards
    told = "Dynamo does not support next() on enumerate. Add tp_iternext_impl to this VariableTracker subclass."
    cause = BreakCause("Missing tp_iternext", "", told, (), "")
    assert why(replace(card, remedy=None, cause=cause)) == "Dynamo does not support next() on enumerate."
    other = replace(cause, explanation="It is not known. Add a rule.")
    assert why(replace(card, remedy=None, cause=other)) == "It is not known. Add a rule."


def test_what_an_operator_raised_comes_before_our_words():
    case = table.flag_of_sizes
    _, recording, _ = compiled(case, case.broken, case.inputs)
    (card,) = explain(recording).cards
    error = "TypeError: sum(): argument 'keepdim' must be bool, not SymBool."
    if torch.__version__ < "2.12":
        assert why(card).startswith(
            "TypeError: sum() received an invalid combination of arguments - got (int, keepdim="
        )
        assert why(card).endswith(BY_NAME["flag_of_sizes"].why)
    else:
        assert why(card) == f"{error} {BY_NAME['flag_of_sizes'].why}"
    case = table.wrong_shapes
    *_, (cause,) = compiled(case, case.broken, case.inputs)
    assert raised(cause) == "RuntimeError: a and b must have same reduction dim, but got [3, 4] X [3, 4]."


def test_a_check_that_only_saves_work_may_be_deleted():
    masks, x = [torch.tensor([True, False]), torch.tensor([False, False])], torch.ones(2)
    saves_work = BY_NAME["check_that_saves_work"]
    results = []
    for code in (saves_work.before, saves_work.after):
        names = {"torch": torch, "masks": masks, "x": x, "y": torch.zeros(2)}
        exec(code, names)
        results.append(names["y"])
    torch.testing.assert_close(*results)
    assert "if" not in saves_work.after


def test_no_example_compiles_the_model_that_breaks():
    """What stands around the call of a compiled function is no change of what breaks in it."""
    assert not [remedy.name for remedy in REMEDIES if "compiled_model(x)" in remedy.after]


def test_no_remedy_is_hidden_by_another():
    """Two without words of their own for one type: the second would never be seen."""
    plain = [(gb_type, remedy.shown) for remedy in REMEDIES if not remedy.about for gb_type in remedy.gb_types]
    assert len(plain) == len(set(plain))
