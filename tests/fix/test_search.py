"""Which changes are tried, and on top of which: with a program that is a table of what would come of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest
from msgspec.structs import replace

from compiler_lens.facts.measured.edits import Apart, Lines, Setting, Split, Texts
from compiler_lens.facts.measured.fix import Fix, NotTried, NotTriedBecause, Observed, Offer, StillEager, Target
from compiler_lens.facts.measured.in_python import runs_less
from compiler_lens.facts.measured.marked_inside import Inside
from compiler_lens.facts.measured.other_inputs import OtherInputs
from compiler_lens.facts.measured.printed import OtherWords
from compiler_lens.facts.measured.what_if import Counts
from compiler_lens.facts.overview.eager import EagerPart, Extent, Reason
from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.measure.fix.choices import as_one
from compiler_lens.measure.fix.search import Search
from compiler_lens.recording.model import Figures, Results, SourceLine

TEXT = "import torch\na = 1\nb = 1\nc = 1\n"


def offer(name: str, new: str = "2") -> Offer:
    """Change the line of a name."""
    line = SourceLine("train.py", TEXT.splitlines().index(f"{name} = 1") + 1, "f", f"{name} = 1")
    return Offer(Target(line, "break"), Lines("train.py", line.line, (f"{name} = 1",), (f"{name} = {new}",)))


def seen(breaks: int, *offers: Offer, eager: int = 0, results: Results = Results.EQUAL, error: str = "") -> Observed:
    counts = Counts(1, breaks, eager, 1, 0, 0.0)
    figures = None if error else Figures(breaks, 0, eager)
    targets = tuple(one.target for one in offers)
    return Observed(figures, counts, offers, (), targets, results=results, error=error, calls=1)


class Program:
    """What comes of each text: its lines without the first."""

    def __init__(self, outcomes: Mapping[str, Observed]) -> None:
        self.outcomes = dict(outcomes)
        self.runs: list[str] = []
        self.confirmed: list[tuple[Offer, ...]] = []

    def __call__(self, texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        values = "".join(line[-1] for line in texts["train.py"].splitlines()[-3:])
        self.runs.append(values)
        return self.outcomes[values]

    def searched(self, first: Observed, refuted: tuple[tuple[Offer, ...], ...] = ()) -> Fix:
        def confirm(seen: Observed, _texts: Texts, offers: tuple[Offer, ...]) -> Observed:
            self.confirmed.append(offers)
            is_refuted = any(set(one) <= set(offers) for one in refuted)
            return replace(seen, results=Results.DIFFER) if is_refuted else seen

        return Search(first, {"train.py": TEXT}, "train.py", self, confirm=confirm).result()


A, B, C = map(offer, "abc")


def test_what_helps_by_itself_is_tried_together() -> None:
    program = Program({"211": seen(2, B, C), "121": seen(2, A, C), "112": seen(3, A, B, C), "221": seen(1, C)})
    program.outcomes = {**program.outcomes, "222": seen(1, C)}
    found = program.searched(seen(3, A, B, C))
    assert program.runs == ["211", "121", "112", "221", "222"]
    assert found.best is not None
    assert found.best.offers == (A, B)
    assert [trial.helps for trial in found.tried] == [True, True, False, True, False]


def test_of_the_best_without_what_is_needless_the_closer_look_is_kept() -> None:
    """It tells with how many other inputs it gives the same."""
    program = Program({"211": seen(2, B), "221": seen(0), "121": seen(0)})

    def confirm(seen: Observed, _texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        return replace(seen, others=OtherInputs(lost=1))

    found = Search(seen(3, A), {"train.py": TEXT}, "train.py", program, confirm=confirm).result()
    assert found.best is not None
    assert found.best.offers == (B,)
    assert found.best.observed.others.lost == 1


def test_what_is_needless_stays_where_a_closer_look_counts_more_without_it() -> None:
    program = Program({"211": seen(2, B), "221": seen(0), "121": seen(0)})

    def confirm(looked_at: Observed, _texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        return seen(1) if offers == (B,) else looked_at

    found = Search(seen(3, A), {"train.py": TEXT}, "train.py", program, confirm=confirm).result()
    assert found.best is not None
    assert found.best.offers == (A, B)


def test_what_a_closer_look_refutes_is_not_built_upon() -> None:
    program = Program({"211": seen(1, B), "121": seen(1, A), "221": seen(0), "112": seen(2, A, B)})
    found = program.searched(seen(2, A, B), refuted=((A,),))
    assert found.best is not None
    assert found.best.offers == (B,)
    assert [(trial.offers, trial.helps) for trial in found.tried] == [((A,), False), ((B,), True), ((A, B), False)]
    assert program.confirmed == [(A, B), (A,), (B,)]  # each once: the last of all, then one by one


def test_where_a_closer_look_refutes_several_together_the_best_of_them_is_taken() -> None:
    program = Program({"211": seen(1, B), "121": seen(2, A), "221": seen(0)})
    found = program.searched(seen(3, A, B), refuted=((A, B),))
    assert found.best is not None
    assert found.best.offers == (A,)


def test_what_changes_results_or_raises_is_not_the_best_and_not_built_upon() -> None:
    outcomes = {
        "211": seen(0, results=Results.DIFFER),
        "121": seen(0, error="RuntimeError: no"),
        "112": seen(1, A, B),
    }
    program = Program(outcomes)
    found = program.searched(seen(2, A, B, C))
    assert program.runs == ["211", "121", "112"]
    assert found.best is not None
    assert found.best.offers == (C,)


def test_of_three_that_were_made_at_once_two_are_left() -> None:
    """What came of the first two alone is not known."""
    outcomes = {"211": seen(2, B, C), "121": seen(2, A, C), "112": seen(2, A, B), "222": seen(0), "122": seen(0)}
    program = Program(outcomes)
    found = program.searched(seen(3, A, B, C))
    assert program.runs == ["211", "121", "112", "222", "122"]
    assert found.best is not None
    assert found.best.offers == (B, C)


def test_what_does_not_end_an_error_that_was_there_is_tried_again_once_that_is_gone() -> None:
    outcomes = {"211": seen(0, A, B, error="no"), "121": seen(2, A), "221": seen(0)}
    found = Program(outcomes).searched(seen(0, A, B, error="no"))
    assert found.best is not None
    assert found.best.offers == (B, A)


def test_a_break_behind_another_is_found() -> None:
    """The function ran eagerly from its first break on: with that mended it breaks at the next, no better counted."""
    program = Program({"211": seen(1, B, eager=1), "221": seen(0), "121": seen(1, A, eager=1)})
    found = program.searched(seen(1, A, eager=1))
    assert program.runs == ["211", "221", "121"]  # the last: whether B alone would do
    assert found.best is not None
    assert found.best.offers == (A, B)


def test_what_another_change_hid_is_tried_on_top_of_it() -> None:
    """A setting ends the break in a loop's head, and the line's own change the one that comes up after that."""
    setting = Offer(A.target, Lines("train.py", 3, ("b = 1",), ("b = 3",)))  # stands elsewhere, as a setting does
    program = Program({"211": seen(3, C), "131": seen(2, C), "132": seen(2, C), "231": seen(0)})
    found = program.searched(seen(3, A, setting))
    assert found.best is not None
    assert found.best.offers == (setting, A)
    assert found.best.observed.cost == seen(0).cost


def test_a_change_that_only_leads_to_another_break_is_no_help() -> None:
    program = Program({"211": seen(1, B), "221": seen(1, B)})
    found = program.searched(seen(1, A))
    assert found.best is None


def test_of_two_changes_for_one_line_only_one_is_in_a_combination() -> None:
    other = offer("a", "3")
    program = Program({"211": seen(1, B), "311": seen(1, B), "121": seen(1, A, other), "221": seen(0)})
    found = program.searched(seen(2, A, other, B))
    assert program.runs == ["211", "311", "121", "221"]
    assert found.best is not None
    assert found.best.offers == (A, B)


def test_what_brings_nothing_by_itself_is_not_tried_together_with_what_does() -> None:
    """B only leads to another break (16 to 16); A and C make more compile, also without it."""
    hidden = Offer(B.target, Lines("train.py", 3, ("z = 1",), ("z = 2",)))
    outcomes = {"211": seen(10, B, C), "121": seen(16, A, C), "112": seen(12, A, B), "212": seen(6, hidden)}
    found = Program(outcomes).searched(seen(16, A, B, C))
    assert found.best is not None
    assert found.best.offers == (A, C)
    assert found.best.observed.figures == Figures(6, 0, 0)


def test_what_the_rest_makes_needless_is_left_out() -> None:
    """A and B help by themselves; C, which comes up with them, ends what B is for as well."""
    outcomes = {"211": seen(2, B), "121": seen(2, A), "221": seen(1, C), "222": seen(0), "122": seen(1), "212": seen(0)}
    program = Program(outcomes)
    found = program.searched(seen(3, A, B))
    assert program.runs == ["211", "121", "221", "222", "122", "212"]
    assert found.best is not None
    assert found.best.offers == (A, C)
    assert found.patch.count("\n+b") == 0


def test_what_another_cause_of_the_same_function_hides_is_kept() -> None:
    """A and B help by themselves; D, which is left of the same function, hides what A does."""
    a, b = (replace(one, target=replace(one.target, frame="f")) for one in (A, B))
    left = {
        frame: replace(seen(1), targets=(Target(SourceLine("train.py", 9, "g", "d"), "list", frame),))
        for frame in ("f", "g", "h")
    }
    left["h"] = replace(left["h"], inlined=frozenset({("h", "f")}))  # `f`, in which A is, is a part of what is left
    for frame, kept in (("f", (a, b)), ("g", (b,)), ("h", (a, b))):
        outcomes = {"211": seen(2, b), "121": left[frame], "221": left[frame]}
        found = Program(outcomes).searched(seen(3, a, b))
        assert found.best is not None
        assert set(found.best.offers) == set(kept)  # in any order


def test_a_setting_that_several_breaks_ask_for_is_made_once() -> None:
    """It helps by itself, then for another line on top of A and B; what is left may hide the first one again."""
    setting = Setting("torch._dynamo.config.capture_scalar_outputs = True")
    hidden, later = (Offer(Target(SourceLine("train.py", 9, "f", name), "item", "f"), setting) for name in "xy")
    left = replace(seen(1), targets=(Target(SourceLine("train.py", 9, "f", "d"), "list", "f"),))
    outcomes = {
        frozenset((A.edit,)): seen(3, B), frozenset((setting,)): seen(5, A), frozenset((A.edit, setting)): seen(3, B),
        frozenset((A.edit, B.edit)): seen(2, later), frozenset((A.edit, B.edit, setting)): left,
    }  # fmt: skip

    def attempt(texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        assert texts["train.py"].count("capture_scalar_outputs") <= 1
        return outcomes.get(frozenset(offer.edit for offer in offers), seen(6))

    found = Search(seen(6, A, hidden), {"train.py": TEXT}, "train.py", attempt).result()
    assert found.best is not None
    assert found.best.offers == (A, B, later)


def test_of_several_that_helped_at_once_none_is_said_to_have() -> None:
    """A, B and C are made at once, and then it shows that B and C do: nothing was ever made of A and B alone."""
    outcomes = {"211": seen(3, B, C), "121": seen(3, A, C), "112": seen(3, A, B), "222": seen(1), "122": seen(1)}
    found = Program(outcomes).searched(seen(4, A, B, C))
    assert found.best is not None
    assert set(found.best.offers) == {B, C}


def test_a_program_that_raises_is_mended_by_what_ends_that() -> None:
    program = Program({"211": seen(0)})
    found = program.searched(seen(1, A, error="Unsupported: no", results=Results.UNKNOWN))
    assert found.best is not None


def test_a_setting_helps_where_it_is_not_made_yet() -> None:
    code = "torch._dynamo.config.allow_rnn = True"
    made = Offer(A.target, Setting(code))
    program = Program({"111": seen(0)})
    found = program.searched(seen(1, made))
    assert found.best is not None
    assert found.best.texts["train.py"] == TEXT.replace("import torch\n", f"import torch\n{code}\n")


def test_what_cannot_be_edited_is_said_to_be_so() -> None:
    gone = Offer(A.target, Lines("train.py", 2, ("z = 1",), ("z = 2",)))
    found = Program({}).searched(seen(1, gone))
    assert [(one.target, one.reason) for one in found.not_tried] == [(A.target, NotTriedBecause.NOT_THERE)]


@pytest.mark.parametrize("test", ["", " and torch.isnan(loss)"])
def test_of_changes_that_compile_as_much_the_one_that_keeps_what_the_program_does_is_the_best(test: str) -> None:
    """A `print` that compiled code leaves out, or a setting under which it prints."""
    line = A.target.at
    assert line is not None
    after = (f"if not torch.compiler.is_compiling(){test}:", "    a = 1")
    dropping = Offer(A.target, Lines("train.py", line.line, ("a = 1",), after))
    keeping = Offer(A.target, Setting("torch._dynamo.config.reorderable_logging_functions = {print}"))
    assert (dropping.drops, keeping.drops) == (True, False)
    runs: list[tuple[Offer, ...]] = []

    def attempt(_texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        runs.append(offers)
        return seen(0)

    found = Search(seen(1, dropping, keeping), {"train.py": TEXT}, "train.py", attempt).result()
    assert runs == [(dropping,), (keeping,)]
    assert found.best is not None
    assert found.best.offers == (keeping,)


def test_what_was_not_tried_stands_once_with_the_lines_of_the_file_as_it_is() -> None:
    """In the copy, a change above moved the line; and a rest of the function says it once more."""
    before, moved = (SourceLine("train.py", line, name, "c = 1") for line, name in ((4, "f"), (7, "f after a break")))
    left = [NotTried(Target(at, "break"), "do it", NotTriedBecause.NO_EDIT) for at in (before, moved)]
    first, after = (replace(seen(n, A), not_tried=(one,)) for n, one in zip((2, 1), left, strict=True))
    after = replace(after, offers=(), targets=(left[1].target,))
    found = Program({"211": after}).searched(first)
    assert [(one.target.at and one.target.at.line, one.change) for one in found.not_tried] == [(4, "do it")]


def test_a_line_that_one_change_was_made_of_is_not_said_to_be_missing_for_another() -> None:
    other = offer("a", "3")
    program = Program({"211": seen(1, A, other), "311": seen(1, A, other)})
    found = program.searched(seen(2, A, other))
    assert found.best is not None
    assert not [one for one in found.not_tried if one.reason is NotTriedBecause.NOT_THERE]


UNKNOWN = replace(A, edit=Setting("torch._dynamo.config.capture_scalar_outputs = True"))
VALUE_A, VALUE_B = (replace(one, is_last_resort=True, takes_value=True) for one in (A, B))


class WithSetting(Program):
    """What comes of each text, and of whether a setting is made: "s" before its lines."""

    def __call__(self, texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        lines = texts["train.py"].splitlines()
        made = "s" if any("config" in line for line in lines) else ""
        self.runs.append(made + "".join(line[-1] for line in lines[-3:]))
        return self.outcomes[self.runs[-1]]

    def searched(self, first: Observed) -> Fix:
        return Search(first, {"train.py": TEXT}, "train.py", self, lambda seen: seen).result()


def test_where_unknown_numbers_lead_nowhere_values_are_taken_all_at_once_without_them() -> None:
    program = WithSetting({
        "s111": seen(2, C, VALUE_B), "s112": seen(2, C), "s121": seen(0, error="an unknown number"),
        "211": seen(2, VALUE_B), "121": seen(3, UNKNOWN, VALUE_A), "221": seen(0),
    })  # fmt: skip
    found = program.searched(seen(4, UNKNOWN, VALUE_A, VALUE_B))
    assert program.runs == ["s111", "s112", "s121", "221", "121", "211"]
    assert found.best is not None
    assert found.best.offers == (VALUE_A, VALUE_B)


def test_where_unknown_numbers_compile_whole_no_value_is_taken() -> None:
    program = WithSetting({"s111": seen(0)})
    found = program.searched(seen(4, UNKNOWN, VALUE_A, VALUE_B))
    assert program.runs == ["s111"]
    assert found.best is not None
    assert found.best.offers == (UNKNOWN,)


def test_a_setting_that_failed_is_tried_again_once_values_are_taken() -> None:
    program = WithSetting({
        "s111": seen(0, error="an unknown number"), "211": seen(1, UNKNOWN), "s211": seen(0),
    })  # fmt: skip
    found = program.searched(seen(4, UNKNOWN, VALUE_A))
    assert program.runs == ["s111", "211", "s211"]
    assert found.best is not None
    assert found.best.offers == (VALUE_A, UNKNOWN)


def test_a_setting_that_raised_is_tried_again_on_top_of_a_mark_and_once_only() -> None:
    """What raised, as torch knew no number there, is out of the graph by the mark."""
    setting = Offer(A.target, Setting("torch._dynamo.config.capture_scalar_outputs = True"))
    mark, end = replace(B, is_last_resort=True), replace(C, is_last_resort=True)
    runs: list[str] = []

    def attempt(texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        runs.append(texts["train.py"].partition("\n")[2])
        is_set, is_marked, is_apart = (word in runs[-1] for word in ("config", "b = 2", "c = 2"))
        if is_set:
            return seen(0, error="GuardOnDataDependentSymNode") if not is_apart else seen(0)
        return seen(3 - is_marked - is_apart, setting, *([] if is_marked else [mark]), *([] if is_apart else [end]))

    found = Search(seen(3, setting, mark), {"train.py": TEXT}, "train.py", attempt, lambda one: one).result()
    assert found.best is not None
    assert {one.edit for one in found.best.offers} >= {setting.edit, end.edit}
    assert sum("config" in run for run in runs) < 6, runs


def test_a_mark_that_takes_lines_out_of_graphs_is_no_help() -> None:
    mark = replace(A, keeps_computed=True)
    both, one = frozenset((("train.py", "x * 2"), ("train.py", "y * 2"))), frozenset((("train.py", "x * 2"),))
    first = replace(seen(3, mark), computed=one)
    assert Program({"211": replace(seen(1), computed=both)}).searched(first).best is not None
    assert Program({"211": replace(seen(1), computed=frozenset())}).searched(first).best is None


def test_no_more_trials_follow_than_was_said_before_each() -> None:
    """The bound of a round is that of its own trials; what came together may follow those."""
    outcomes = {"211": seen(2, B, C), "121": seen(2, A, C), "112": seen(3, A, B, C), "221": seen(1, C)}
    program = Program({**outcomes, "222": seen(1, C)})
    said: list[tuple[int, int]] = []

    def attempt(texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        said.append(search.ahead)
        return program(texts, offers)

    search = Search(seen(3, A, B, C), {"train.py": TEXT}, "train.py", attempt)
    search.result()
    assert program.runs == ["211", "121", "112", "221", "222"]
    assert said == [(3, 39), (2, 38), (1, 37), (0, 36), (1, 35)]
    assert all(most >= len(said) - number for number, (_, most) in enumerate(said, 1))


def test_what_comes_next_is_said_before_it_runs_and_nothing_that_is_known() -> None:
    outcomes = {"211": seen(2, B, C), "121": seen(2, A, C), "112": seen(3, A, B, C), "221": seen(1, C)}
    program = Program({**outcomes, "222": seen(0), "122": seen(0)})
    said: list[list[str]] = []

    def expect(several: Sequence[tuple[Texts, tuple[Offer, ...]]]) -> None:
        said.append(["".join(line[-1] for line in t["train.py"].splitlines()[1:]) for t, _ in several])
        assert not set(said[-1]) & set(program.runs)

    Search(seen(3, A, B, C), {"train.py": TEXT}, "train.py", program, expect=expect).result()
    assert [one for one in said if one] == [["211", "121", "112"], ["222"], ["122", "212"]]
    assert program.runs[:3] == ["211", "121", "112"]
    assert not said[-1]


def test_a_line_that_is_left_out_is_better_than_all_messages_of_its_kind() -> None:
    silenced = Offer(A.target, Setting("torch._dynamo.config.ignore_logging_functions = {log.info}"))
    assert silenced.silences
    assert not A.silences

    def attempt(_texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        left = () if silenced in offers else tuple(one for one in (A, B) if one not in offers)
        return seen(len(left), *left, *([silenced] if A in left else []))

    found = Search(seen(2, A, B, silenced), {"train.py": TEXT}, "train.py", attempt).result()
    assert found.best is not None
    assert found.best.offers == (A, B)
    assert next(trial.offers for trial in found.tried if trial.observed.figures == Figures(0, 0, 0)) == (silenced,)


def test_many_changes_that_help_at_once_are_one_program() -> None:
    text = "import torch\n" + "".join(f"{name} = 1\n" for name in "abcdef")
    lines = [SourceLine("train.py", number, "f", f"{name} = 1") for number, name in enumerate("abcdef", 2)]
    offers = [
        Offer(Target(at, "break"), Lines("train.py", at.line, (at.code,), (at.code.replace("1", "2"),))) for at in lines
    ]

    def attempt(texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        left = [one for one in offers if one.target.at and one.target.at.code in texts["train.py"]]
        return seen(len(left), *left)

    found = Search(seen(6, *offers), {"train.py": text}, "train.py", attempt).result()
    assert found.best is not None
    assert set(found.best.offers) == set(offers)
    assert len(found.tried) < 20


def test_of_changes_that_compile_as_much_the_one_that_prints_the_same_is_the_best() -> None:
    silent, loud = offer("a"), offer("a", "3")

    def attempt(texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        printed = OtherWords("3 rows", "0 rows", is_number=True) if "a = 3" in texts["train.py"] else None
        return replace(seen(0), printed=printed)

    found = Search(seen(1, loud, silent), {"train.py": TEXT}, "train.py", attempt).result()
    assert found.best is not None
    assert found.best.offers == (silent,)


# -- many at once

LETTERS = "abcdef"
MANY_TEXT = "import torch\n" + "".join(f"{name} = 1\n" for name in LETTERS)


def many(name: str, new: str = "2") -> Offer:
    at = SourceLine("train.py", LETTERS.index(name) + 2, "f", f"{name} = 1")
    return Offer(Target(at, "break"), Lines("train.py", at.line, (at.code,), (f"{name} = {new}",)))


class ManyLines:
    """A program in which each line breaks until it is `= 2`; some lines, once changed, make it raise."""

    def __init__(self, offers: Iterable[Offer], raising: str = "", refuted: str = "") -> None:
        self.offers, self.raising, self.refuted = tuple(offers), raising, refuted
        self.runs: list[str] = []
        self.looks: list[str] = []

    def __call__(self, texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        values = {line[0]: line[-1] for line in texts["train.py"].splitlines()[1:]}
        self.runs.append("".join(values.values()))
        if any(values[name] != "1" for name in self.raising):
            return seen(0, error="RuntimeError: no")
        left = [one for one in self.offers if one.target.at and values[one.target.at.code[0]] == "1"]
        wrong = [
            Target(SourceLine("train.py", 2, "f", f"{name} = {value}"), "break")
            for name, value in values.items()
            if value not in "12"
        ]
        found = seen(len({one.target.key for one in left}) + len(wrong), *left)
        return replace(found, targets=(*found.targets, *wrong))

    def look(self, seen: Observed, texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        values = {line[0]: line[-1] for line in texts["train.py"].splitlines()[1:]}
        self.looks.append("".join(values.values()))
        is_refuted = any(values[name] != "1" for name in self.refuted)
        return replace(seen, results=Results.DIFFER) if is_refuted else seen

    def searched(self) -> Fix:
        first = seen(len({one.target.key for one in self.offers}), *self.offers)
        return Search(first, {"train.py": MANY_TEXT}, "train.py", self, confirm=self.look).result()


def made(found: Fix) -> str:
    return "".join(sorted(one.target.at.code[0] for one in found.best.offers if one.target.at)) if found.best else ""


def test_many_things_are_mended_in_one_run_and_looked_at_closer_once() -> None:
    program = ManyLines(map(many, LETTERS))
    found = program.searched()
    assert made(found) == LETTERS
    assert program.runs == ["222222"]
    assert program.looks == ["222222"]
    assert [(one.beside, one.after) for one in found.of_each] == [(5, Figures(0, 0, 0))] * 6


def test_of_many_at_once_the_one_that_raises_is_found_by_halves() -> None:
    program = ManyLines(map(many, LETTERS), raising="c")
    assert made(program.searched()) == "abdef"
    assert len(program.runs) <= 8


def test_of_many_at_once_the_one_that_a_closer_look_refutes_is_found_by_halves() -> None:
    program = ManyLines(map(many, LETTERS), refuted="e")
    assert made(program.searched()) == "abcdf"
    assert len(program.looks) <= 8


class OneByOne(ManyLines):
    """The same, of which one line is offered at a time: each shows once the one before is mended."""

    def __call__(self, texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        found = super().__call__(texts, _offers)
        return replace(found, offers=found.offers[:1])

    def searched(self) -> Fix:
        first = seen(len(self.offers), *self.offers)
        first = replace(first, offers=first.offers[:1])
        return Search(first, {"train.py": MANY_TEXT}, "train.py", self, confirm=self.look).result()


@pytest.mark.parametrize("refuted", ["a", "b", "c", "d", "e", "f"])
def test_of_a_refuted_patch_the_change_that_is_wrong_is_found_and_the_others_stay(refuted: str) -> None:
    """Wherever it stands: not the last change is the wrong one because it is the last."""
    program = OneByOne([many(name) for name in LETTERS], refuted=refuted)
    found = program.searched()
    assert made(found) == LETTERS.replace(refuted, "")
    assert found.best is not None
    assert found.best.is_checked
    assert len(program.looks) <= 6, program.looks  # all, at most three of those made first, the rest, and no other
    # What has it is not said to help: not what was run, but not looked at.
    wrong = [one for one in found.tried if refuted in {o.target.at.code[0] for o in one.offers if o.target.at}]
    assert not any(one.helps for one in wrong if len(one.offers) >= LETTERS.index(refuted) + 1)


def test_of_a_refuted_patch_each_of_two_changes_that_are_wrong_is_found() -> None:
    program = OneByOne([many(name) for name in LETTERS], refuted="be")
    assert made(program.searched()) == "acdf"
    assert len(program.looks) <= 8, program.looks


def test_where_a_later_change_is_made_of_the_one_that_is_wrong_it_goes_on_from_what_was_right_before() -> None:
    """The third line is written by the second change: without that one there is nothing to change."""
    first, later = offer("a"), Offer(B.target, Lines("train.py", 3, ("b = 2",), ("b = 3",)))
    program = Program({"211": seen(3, B), "221": seen(2, later), "231": seen(1), "131": seen(2)})
    found = program.searched(seen(4, first), refuted=((B,),))
    assert found.best is not None
    assert found.best.offers == (first,)


def test_what_brings_nothing_by_itself_is_not_taken_for_wrong_where_a_patch_is_looked_through() -> None:
    """The first line alone ends nothing; with any other it does."""

    class Beside(ManyLines):
        def __call__(self, texts: Texts, offers: tuple[Offer, ...]) -> Observed:
            found = super().__call__(texts, offers)
            is_alone = "b = 1\nc = 1\nd = 1\ne = 1\nf = 1" in texts["train.py"]
            return seen(len(self.offers), *found.offers) if is_alone else found

    program = Beside(map(many, LETTERS), refuted="b")
    assert made(program.searched()) == "acdef"
    assert "211111" in program.looks


def test_changes_whose_branch_went_one_way_are_left_out_at_once() -> None:
    """Which they are is known: nothing has to be looked for."""
    a, e = (replace(many(name), needs_both=True) for name in "ae")
    offers = [a, *map(many, "bcd"), e, many("f")]

    class OneWay(ManyLines):
        def look(self, seen: Observed, texts: Texts, offers: tuple[Offer, ...]) -> Observed:
            unseen = tuple(one.edit for one in offers if one.needs_both)
            seen = super().look(seen, texts, offers)
            return replace(seen, results=Results.DIFFER, unseen=unseen) if unseen else seen

    program = OneWay(offers)
    assert made(program.searched()) == "bcdf"
    assert program.looks == ["222222", "122212"]


def test_what_is_ended_has_no_change_that_has_to_be_seen_on_both_sides_and_was_not() -> None:
    def confirm(_seen: Observed, _texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        raise KeyboardInterrupt

    a = replace(A, needs_both=True)
    outcomes = {"211": seen(1, B), "121": seen(1, a), "221": seen(0)}
    search = Search(seen(2, a, B), {"train.py": TEXT}, "train.py", Program(outcomes), confirm=confirm)
    with pytest.raises(KeyboardInterrupt):
        search.result()
    found = search.so_far()
    assert found.best is not None
    assert found.best.offers == (B,)


def test_what_is_ended_has_what_stood_beside_a_change_whose_branch_went_one_way() -> None:
    a = replace(A, needs_both=True)
    looked_at: list[tuple[Offer, ...]] = []

    def confirm(seen: Observed, _texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        looked_at.append(offers)
        if len(looked_at) > 1:
            raise KeyboardInterrupt
        return replace(seen, results=Results.DIFFER, unseen=(a.edit,))

    outcomes = {"211": seen(1, B), "121": seen(1, a), "221": seen(0)}
    search = Search(seen(2, a, B), {"train.py": TEXT}, "train.py", Program(outcomes), confirm=confirm)
    with pytest.raises(KeyboardInterrupt):
        search.result()
    found = search.so_far()
    assert looked_at == [(a, B), (B,)]
    assert found.best is not None
    assert (found.best.offers, found.is_unchecked) == ((B,), True)


def test_what_is_ended_has_nothing_in_which_all_stands_that_was_refuted_together() -> None:
    """Each of them is right beside others: it is not known which two must not stand together."""
    looked_at: list[tuple[Offer, ...]] = []

    def confirm(seen: Observed, _texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        looked_at.append(offers)
        if len(looked_at) > 2:
            raise KeyboardInterrupt
        return replace(seen, results=Results.DIFFER) if {A, B} <= set(offers) else seen

    outcomes = {"211": seen(3, B), "221": seen(2, C), "222": seen(0), "212": seen(1), "121": seen(3)}
    search = Search(seen(4, A), {"train.py": TEXT}, "train.py", Program(outcomes), confirm=confirm)
    with pytest.raises(KeyboardInterrupt):
        search.result()
    found = search.so_far()
    assert found.best is None or not {A, B} <= set(found.best.offers)


def test_of_many_at_once_the_next_offer_takes_the_place_of_one_that_does_not_help() -> None:
    offers = [many("a"), many("b", "3"), many("b"), many("c"), many("d", "4")]
    found = ManyLines(offers).searched()
    assert found.best is not None
    assert made(found) in {"abc", "abcd"}  # what only leads to another break at its line may stay
    assert "b = 2\n" in found.best.texts["train.py"]


def test_what_is_ended_has_the_best_so_far_and_says_whether_that_was_looked_at_closer() -> None:
    program = ManyLines(map(many, LETTERS), raising="c")

    def ended_in_look(_seen: Observed, _texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        raise KeyboardInterrupt

    first = seen(6, *program.offers)
    search = Search(first, {"train.py": MANY_TEXT}, "train.py", program, confirm=ended_in_look)
    with pytest.raises(KeyboardInterrupt):
        search.result()
    runs = len(program.runs)
    found = search.so_far()
    assert len(program.runs) == runs
    assert found.best is not None
    assert (found.is_unfinished, found.is_unchecked) == (True, True)


def test_what_is_ended_has_no_change_that_may_be_why_others_gave_something_else() -> None:
    looked_at: list[tuple[Offer, ...]] = []

    def confirm(seen: Observed, _texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        looked_at.append(offers)
        if len(looked_at) > 1:
            raise KeyboardInterrupt
        return replace(seen, results=Results.DIFFER)

    outcomes = {"211": seen(2, B, C), "121": seen(2, A, C), "112": seen(2, A, B), "221": seen(1, C), "222": seen(0)}
    search = Search(seen(3, A, B, C), {"train.py": TEXT}, "train.py", Program(outcomes), confirm=confirm)
    with pytest.raises(KeyboardInterrupt):
        search.result()
    found = search.so_far()
    assert len(looked_at) > 1
    assert found.best is None


def test_of_two_causes_of_recompiles_that_hide_each_other_both_are_mended() -> None:
    """Neither change brings anything by itself: the other cause has each call compile again."""
    a, b = (replace(one, target=replace(one.target, kind=CauseClass.MODULE_ATTRIBUTE.value)) for one in (A, B))
    both = seen(4, a, b)
    found = Program({"211": both, "121": both, "221": seen(0)}).searched(both)
    assert found.best is not None
    assert set(found.best.offers) == {a, b}


TWO_CALLS = """
class Net(torch.nn.Module):
    def forward(self, x):
        self.calls += 1
        y = x * 2
        self.means.append(y.mean().item())
        return y
"""


def test_what_else_is_offered_for_a_function_in_two_is_tried_beside_the_rest() -> None:
    """By itself the function in two is best; beside the other change its calls break the graph of what calls it."""
    split = replace(A, edit=Split("train.py", "Net.forward"))
    outcomes = {
        frozenset((A.edit,)): seen(4, B), frozenset((split.edit,)): seen(3, B), frozenset((B.edit,)): seen(4, A),
        frozenset((split.edit, B.edit)): seen(2, C), frozenset((A.edit, B.edit)): seen(0),
    }  # fmt: skip

    def attempt(_texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        return outcomes.get(frozenset(offer.edit for offer in offers), seen(6))

    found = Search(seen(5, A, split, B), {"train.py": TEXT + TWO_CALLS}, "train.py", attempt).result()
    assert found.best is not None
    assert set(found.best.offers) == {A, B}


def test_what_is_the_very_last_is_tried_in_place_of_a_mark_that_leaves_breaks_on_purpose() -> None:
    """Both change one line, as two marks on one function do; what helps beside them stays."""
    mark = replace(B, is_last_resort=True, keeps_computed=True)
    end = replace(offer("b", "3"), is_last_resort=True, is_final=True, keeps_computed=True)
    program = Program({"211": seen(4, mark, end), "221": seen(2, C), "222": seen(2, C), "231": seen(0)})
    program.outcomes |= {"121": seen(4, A), "131": seen(5)}
    found = Search(seen(6, A, mark, end), {"train.py": TEXT}, "train.py", program, more=lambda one: one).result()
    assert found.best is not None
    assert found.best.offers == (A, end)
    assert program.runs[-2:] == ["231", "131"]  # what is needless is left out last

    whole = Program({"211": seen(4, mark, end), "221": seen(0), "121": seen(4, A)})
    found = Search(seen(6, A, mark, end), {"train.py": TEXT}, "train.py", whole, more=lambda one: one).result()
    assert found.best is not None
    assert found.best.offers == (A, mark)
    assert "231" not in whole.runs  # nothing is left


def test_what_is_kept_beside_a_recording_says_whether_it_was_looked_at_closer_if_only_as_a_part_of_the_best() -> None:
    other = offer("a", "3")
    program = Program({"211": seen(1, B), "311": seen(1, B), "121": seen(1, A, other), "221": seen(0)})
    found = program.searched(seen(2, A, other, B))
    assert program.confirmed == [(A, B)]
    assert [(one.code, one.is_checked) for one in found.of_each] == [("a = 2", True), ("a = 3", False), ("b = 2", True)]


def test_what_is_left_of_the_best_is_a_row_of_the_table_as_it_is_after_the_closer_look() -> None:
    found = Program({"211": seen(1, B), "221": seen(0), "121": seen(0)}).searched(seen(2, A))
    assert found.best is not None
    assert found.best.offers == (B,)
    assert found.best.is_checked
    assert found.best in found.tried


def test_a_function_that_a_change_keeps_from_being_divided_is_divided_without_it() -> None:
    """Nothing of `f` is compiled: what was changed there leads nowhere, and defines functions."""
    elsewhere = replace(A, target=replace(A.target, frame="forward"))
    inside = offer("b", "lambda: 2")
    inside = replace(inside, target=replace(inside.target, frame="f"))
    apart = replace(offer("c"), keeps_computed=True, is_last_resort=True, is_final=True)
    eager = (StillEager(FunctionName("f", "train.py", 1), "a break"),)
    outcomes = {
        "221": replace(seen(1, eager=1), eager=eager), "211": replace(seen(2, inside, eager=1), eager=eager, parts=(apart,)),
        "121": seen(3, elsewhere, eager=1), "212": seen(0), "112": seen(1),
    }  # fmt: skip
    found = Search(seen(4, elsewhere, inside, eager=1), {"train.py": TEXT}, "train.py", Program(outcomes)).result()
    assert found.best is not None
    assert found.best.offers == (elsewhere, apart)


def test_no_change_stands_with_which_another_function_hits_the_recompile_limit() -> None:
    limited = (EagerPart(None, Reason.LIMIT, Extent.UNFIT, "", None),)
    step, other = (StillEager(FunctionName(name, "train.py", 1), "", limited) for name in ("step", "update"))
    outcomes = {"211": replace(seen(1), eager=(step,))}
    first = replace(seen(4, A), eager=(other,))
    assert Search(first, {"train.py": TEXT}, "train.py", Program(outcomes)).result().best is None
    outcomes = {"211": replace(seen(1), eager=(replace(other, function=FunctionName("update", "train.py", 2)),))}
    found = Search(first, {"train.py": TEXT}, "train.py", Program(outcomes)).result()
    assert found.best is not None
    assert found.best.offers == (A,)


def test_functions_are_divided_on_top_of_what_helps_where_half_of_the_program_as_it_is_is_left() -> None:
    """Of what is left beside the other changes it is more than half."""
    apart = replace(offer("c"), keeps_computed=True, is_last_resort=True, is_final=True)
    outcomes = {"211": replace(seen(3), parts=(apart,)), "212": seen(2), "112": seen(3)}
    found = Search(replace(seen(6, A), parts=(apart,)), {"train.py": TEXT}, "train.py", Program(outcomes)).result()
    assert found.best is not None
    assert found.best.offers == (A, apart)


def test_a_line_that_breaks_in_two_ways_once_another_is_mended_is_mended_at_once() -> None:
    """A setting brings up a branch in a loop: the function is skipped for it, and what is compiled alone raises."""
    again = replace(B.target, kind="UserError: Could not guard on data-dependent expression")
    after = replace(seen(1, B, eager=1), targets=(B.target, again), operators=40, launches=8)
    whole = replace(seen(0), operators=100, launches=5)
    program = Program({"211": after, "221": whole, "121": replace(seen(2, A), operators=100, launches=10)})
    found = program.searched(replace(seen(2, A), operators=100, launches=10))
    assert program.runs[:2] == ["211", "221"]
    assert found.best is not None
    assert found.best.offers == (A, B)


def test_what_breaks_in_the_parts_of_functions_is_mended() -> None:
    """Nothing of these was compiled before: nobody knew of it."""
    apart = replace(offer("c"), keeps_computed=True, is_last_resort=True, is_final=True)
    outcomes = {"112": seen(1, B), "122": seen(0), "121": seen(0)}
    first = replace(seen(6, eager=1), parts=(apart,))
    program = Program(outcomes)
    found = Search(first, {"train.py": TEXT}, "train.py", program).result()
    assert program.runs[:2] == ["112", "122"]
    assert found.best is not None
    assert set(found.best.offers) <= {apart, B}


@pytest.mark.parametrize(
    ("eager", "left", "operators", "is_taken"),
    [(1, 0, 100, True), (0, 0, 100, False), (1, 2, 100, False), (1, 0, 90, False)],
)
def test_what_ends_all_cuts_may_recompile(eager: int, left: int, operators: int, is_taken: bool) -> None:
    """Of what ran eagerly there were no recompiles; as long as as much runs in graphs, and nothing is cut."""
    apart = replace(offer("c"), keeps_computed=True, is_last_resort=True, is_final=True)
    after = replace(
        seen(left), figures=Figures(left, 14, 0), counts=Counts(1, left, 0, 1, 14, 0.0), operators=operators, launches=9
    )
    first = replace(seen(5, eager=eager), figures=Figures(5, 6, eager), counts=Counts(1, 5, eager, 1, 6, 0.0))
    first = replace(first, parts=(apart,), operators=100, launches=9)
    found = Search(first, {"train.py": TEXT}, "train.py", Program({"112": after})).result()
    assert (found.best is not None) == is_taken


MARK = replace(offer("b"), keeps_computed=True, is_last_resort=True, is_final=True)


def marked(outcomes: Mapping[str, Observed], first: Observed) -> Fix:
    return Search(first, {"train.py": TEXT}, "train.py", Program(outcomes), more=lambda seen: seen).result()


def test_a_mark_is_measured_with_what_a_function_in_two_keeps_in_python() -> None:
    """Lines that another change has taken out of the graphs are not lost by the mark that makes it needless."""
    checked = replace(offer("a"), may_lose=frozenset({("train.py", "check")}))
    first = replace(seen(4, checked), computed=frozenset({("train.py", "check")}))
    found = marked({"211": seen(2, MARK), "221": seen(0), "121": seen(0)}, first)
    assert found.best is not None
    assert found.best.offers == (MARK,)


@pytest.mark.parametrize(("kept_out", "expected", "is_taken"), [((), 0, False), (("f", "f"), 0, True), ((), 2, True)])
def test_what_is_meant_or_expected_hurts_nobody(kept_out: tuple[str, ...], expected: int, is_taken: bool) -> None:
    """What a mark leaves of three breaks is two at its own calls, or two recompiles as expected."""
    counts = Counts(1, 0 if expected else 2, 0, 1, expected, 0.0, benign_recompiles=expected)
    figures = Figures(counts.breaks, expected, 0)
    left = replace(seen(0), counts=counts, figures=figures, kept_out=kept_out)
    before = Counts(1, 3, 0, 1, expected, 0.0, benign_recompiles=expected)
    first = replace(seen(3, MARK), counts=before, figures=Figures(3, expected, 0))
    assert (marked({"121": left}, first).best is not None) is is_taken


SETTING = Offer(A.target, Setting("torch._dynamo.config.capture_scalar_outputs = True"))


class Refusing(WithSetting):
    """The same, with a backend that says no to settings that give unknown numbers."""

    def searched(self, first: Observed) -> Fix:
        search = Search(first, {"train.py": TEXT}, "train.py", self, confirm=lambda seen, _texts, _offers: seen)
        found = search.result()
        assert found.best is not None
        assert SETTING in found.best.offers
        return search.again_without_unknown("it raises")


def test_where_the_backend_speaks_against_a_setting_the_other_changes_are_tried_together() -> None:
    program = Refusing({
        "111": seen(4, A, B), "211": seen(2, B), "121": seen(2, A), "s111": seen(0), "s121": seen(0), "221": seen(1, C), "222": seen(1, C),
    })  # fmt: skip
    found = program.searched(seen(4, A, SETTING, B))
    assert "s111" in program.runs
    assert found.best is not None
    assert set(found.best.offers) == {A, B}


def test_a_setting_that_gives_unknown_numbers_is_not_tried_where_other_changes_mend_all() -> None:
    program = Refusing({"111": seen(4, A, B), "211": seen(2, B), "121": seen(2, A), "221": seen(0)})
    found = Search(seen(4, A, SETTING, B), {"train.py": TEXT}, "train.py", program).result()
    assert found.best is not None
    assert set(found.best.offers) == {A, B}
    assert not any(run.startswith("s") for run in program.runs)


def test_what_cannot_be_compared_yet_is_built_upon_and_is_not_the_best() -> None:
    """Of numbers that only Python draws alike it is not known what a change does until compiled code draws none."""
    unknown = Results.UNKNOWN
    found = Program({"211": seen(1, B, results=unknown), "121": seen(3, A), "221": seen(0)}).searched(seen(4, A))
    assert found.best is not None
    assert found.best.offers == (A, B)
    alone = Program({"211": seen(1, results=unknown)}).searched(seen(4, A))
    assert alone.best is None


def test_a_setting_that_leaves_open_whether_results_are_the_same_is_not_built_upon() -> None:
    program = WithSetting({"s111": seen(0, results=Results.UNKNOWN), "121": seen(1)})
    search = Search(
        seen(4, SETTING, B), {"train.py": TEXT}, "train.py", program, confirm=lambda seen, _texts, _offers: seen
    )
    found = search.result()
    assert found.best is not None
    assert found.best.offers == (B,)


def test_of_equals_lines_that_are_mended_come_before_a_setting_that_gives_unknown_numbers() -> None:
    first = replace(seen(4, A, B, SETTING), targets=(A.target, B.target))
    left = [replace(seen(2, *rest), targets=tuple(one.target for one in rest)) for rest in ((B,), (A,), ())]
    more = replace(seen(0), targets=(C.target,))
    program = WithSetting({"211": left[0], "121": left[1], "221": more, "s111": more, "s121": more, "s211": more})
    found = Search(first, {"train.py": TEXT}, "train.py", program, confirm=lambda seen, _texts, _offers: seen).result()
    assert found.best is not None
    assert found.best.offers == (A, B)


def test_what_a_closer_look_counts_more_of_is_mended_further() -> None:
    """AOTAutograd compiles again where Dynamo does not, and the change for that comes with its count."""
    program = Program({"211": seen(1), "221": seen(0), "121": seen(4, A)})
    counted = seen(2, B)

    def confirm(found: Observed, _texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        return counted if offers == (A,) else found

    found = Search(seen(4, A), {"train.py": TEXT}, "train.py", program, confirm=confirm).result()
    assert found.best is not None
    assert found.best.offers == (A, B)


# -- what torch is told before the first call


def varying(seen: Observed, recompiles: int, *told: Offer) -> Observed:
    """The same with recompiles that are as expected, and what tells torch of them."""
    figures = seen.figures and replace(seen.figures, recompiles=recompiles)
    counts = seen.counts and replace(seen.counts, recompiles=recompiles, benign_recompiles=recompiles)
    return replace(seen, figures=figures, counts=counts, told_ahead=((told),) if told else ())


def test_what_spares_recompiles_as_expected_is_told_ahead_with_no_closer_look() -> None:
    program = Program({"211": varying(seen(0), 2, B), "221": seen(0)})
    found = program.searched(varying(seen(1, A), 2, B))
    assert found.best is not None
    assert found.best.offers == (A, B)
    assert program.confirmed == [(A,)]


def test_what_is_told_ahead_and_spares_nothing_is_left_out() -> None:
    program = Program({"211": varying(seen(0), 2, B), "221": varying(seen(0), 2)})
    found = program.searched(varying(seen(1, A), 2, B))
    assert found.best is not None
    assert found.best.offers == (A,)


def test_of_what_is_told_ahead_and_spares_nothing_together_one_may_do() -> None:
    together, alone = varying(seen(0), 3), varying(seen(0), 1)
    program = Program({"211": varying(seen(0), 2, B, C), "222": together, "221": together, "212": alone})
    found = program.searched(varying(seen(1, A), 2, B, C))
    assert found.best is not None
    assert found.best.offers == (A, C)


def test_what_is_told_ahead_is_left_out_alone_where_the_programs_own_backend_raises_for_it() -> None:
    a = Offer(A.target, Lines("train.py", 2, ("a = 1",), ("a = x.detach()  # 2",)))
    program = Program({"211": varying(seen(0), 2, B), "221": seen(0)})
    first = varying(seen(1, a), 2, B)
    search = Search(first, {"train.py": TEXT}, "train.py", program, confirm=lambda seen, _texts, _offers: seen)
    assert search.result().best is not None
    best = search.again_without_unknown("InductorError").best
    assert best is not None
    assert best.offers == (a,)


# -- a change with which more breaks, and what mends that


def test_a_change_that_has_another_line_break_is_gone_on_from_where_that_can_be_written_otherwise() -> None:
    program = Program({"211": seen(3, B), "221": seen(0), "121": seen(1, A)})
    found = program.searched(seen(1, A))
    assert found.best is not None
    assert found.best.offers == (A, B)
    more = replace(seen(3, B), targets=(B.target, C.target), launches=3)  # nothing is offered for the other one
    stuck = Program({"211": more})
    assert stuck.searched(replace(seen(1, A), launches=1)).best is None


def test_without_a_look_at_what_takes_unknown_numbers_the_best_of_known_ones_is_told() -> None:
    program = WithSetting({"s111": seen(1, B), "121": seen(2, UNKNOWN), "s121": seen(0)})
    search = Search(seen(4, UNKNOWN, B), {"train.py": TEXT}, "train.py", program)
    best = search.result().best
    assert best is not None
    assert UNKNOWN in best.offers
    known = search.known_so_far().best
    assert known is not None
    assert known.offers == (B,)


def test_a_function_of_which_a_part_is_to_be_divided_is_divided_once() -> None:
    def apart(name: str, *lines: str) -> Offer:
        loses = frozenset(("train.py", line) for line in lines)
        return replace(A, edit=Apart("train.py", name, lines), may_lose=loses)

    offers = (A, apart("Net.forward", "a()"), apart("Other.forward", "b()"))
    parts = (apart("Net.forward_computed_2", "c()"), apart("Net.forward_computed", "d()", "a()"), apart("step", "e()"))
    same, net, other = as_one(offers, parts)
    assert (same, other) == (A, offers[2])
    assert net.edit == Apart("train.py", "Net.forward", ("a()", "c()", "d()"))
    assert net.may_lose == {("train.py", line) for line in ("a()", "c()", "d()")}


def test_what_is_compiled_by_itself_is_a_third_of_the_program_at_least() -> None:
    """However many launches of graphs it spares: with less the program is not compiled any more."""
    inside = replace(A, edit=Inside("train.py", "Step.forward", (("train.py", "Pool.forward"),)))
    before = replace(seen(4), operators=527, launches=163, calls=25)
    few, some = (replace(seen(0), operators=number, launches=25, calls=25) for number in (125, 190))
    assert runs_less([inside], few, before)
    assert not runs_less([inside], some, before)
