"""The view of recompiles: a card for each function, what changed in plain words, what to do, torch's own words last."""

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.recording.model import (
    BreakOutcome,
    Compilation,
    CompileId,
    Guard,
    GuardFailure,
    Outcome,
    Recompile,
    Recording,
    SourceLine,
)
from compiler_lens.render.console import view
from compiler_lens.render.console.page import page_for

LINE = SourceLine("/app/model.py", 14, "forward", "self.step += 1")


def shown(recording, width=80):
    return view(recording, "recompiles", page_for(recording, width=width, color=False))


def words(recording):
    return " ".join(shown(recording).split())


def counted(compilations, *, limit=False):
    """A module whose counter grows."""
    made = [
        Compilation(CompileId(0, i), "forward", "/app/model.py", 12, Outcome.COMPILED, module="Model", seconds=0.5)
        for i in range(compilations)
    ]
    if limit:
        made.append(replace(made[0], compile_id=CompileId(0, compilations), outcome=Outcome.RECOMPILE_LIMIT))
    recompiles = tuple(
        Recompile(
            CompileId(0, i),
            (GuardFailure(f"0/{i - 1}", f"self.step == {i - 1}", "self.step", str(i - 1), "", (LINE,)),),
        )
        for i in range(1, len(made))
    )
    return Recording(compilations=tuple(made), recompiles=recompiles)


def sized():
    made = [
        Compilation(CompileId(0, i), "forward", "/app/model.py", 12, Outcome.COMPILED, module="Model") for i in (0, 1)
    ]
    text = "tensor 'x' size mismatch at index 0. expected 8, actual 4"
    guard = Guard(CompileId(0, 0), "TENSOR_MATCH", TENSOR, "L['x']", LINE)
    failure = GuardFailure("0/0", text, "x", "8", "4")
    return Recording(compilations=tuple(made), recompiles=(Recompile(CompileId(0, 1), (failure,)),), guards=(guard,))


TENSOR = (
    "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, BackendSelect), torch.float32, device=None, "
    "requires_grad=False, size=[8, 3], stride=[3, 1])"
)


def test_the_headline_says_what_changed_what_it_cost_and_what_runs_now():
    text = words(counted(8, limit=True))
    assert (
        "Model.forward (model.py:12) was compiled 8 times: self.step changed 0 → 1 → 2 → 3 → 4 → 5 → 6 → 7 → … (attribute)"
        in text
    )
    assert "; 4.00 s" in text
    assert (
        "It hit the recompile limit at [0/8]: what fits no compilation runs eagerly since, with all it calls." in text
    )
    assert "nothing to do" not in text


def test_the_line_stands_with_its_code_and_the_fix_has_the_users_names():
    text = shown(counted(3))
    assert "      model.py:14  self.step += 1\n" in text
    assert 'self.register_buffer("step",' in text


def test_a_buffer_begins_with_what_the_first_compilation_had():
    recording = counted(4)
    size = GuardFailure("0/0", "tensor 'x' size mismatch at index 0. expected 8, actual 4", "x", "8", "4")
    recompiles = (Recompile(CompileId(0, 1), (size,)), *recording.recompiles[1:])
    guard = Guard(CompileId(0, 0), "EQUALS_MATCH", "L['self'].step == 5", "L['self'].step", LINE)
    text = words(replace(recording, recompiles=recompiles, guards=(guard,)))
    assert 'self.register_buffer("step", torch.tensor(5), persistent=False)' in text


def test_torchs_own_words_come_last_and_folded():
    text = shown(counted(8))
    assert text.index("fix ") < text.index("[0/1] self.step == 0")
    assert "[0/3] self.step == 2\n      and 4 more like it in --json\n" in text
    assert "self.step == 3" not in text


def test_what_is_normal_says_so():
    text = words(sized())
    assert "x.shape[0] changed 8 → 4 (batch size); nothing to do" in text
    assert "fine One recompile is how torch learns that a size varies." in text
    assert "1 recompile of 1 function, nothing to do" in text


def test_what_needs_something_done_comes_first():
    fine = sized()
    moved = [replace(c, compile_id=replace(c.compile_id, frame=1), line=40) for c in counted(3).compilations]
    recompiles = [
        replace(
            r,
            compile_id=replace(r.compile_id, frame=1),
            failures=tuple(replace(f, entry="1" + f.entry[1:]) for f in r.failures),
        )
        for r in counted(3).recompiles
    ]
    both = replace(fine, compilations=(*fine.compilations, *moved), recompiles=(*fine.recompiles, *recompiles))
    text = shown(both)
    assert text.index("model.py:40") < text.index("model.py:12")


def test_breaks_that_come_again_are_told_as_such():
    recording = counted(3)
    breaks = [
        replace(
            samples.graph_break(0, samples.PRINTING, 1, BreakOutcome.SPLIT),
            compile_id=CompileId(0, i),
            user_stack=(LINE,),
        )
        for i in range(3)
    ]
    assert "the same 2 graph breaks recurred" in words(replace(recording, graph_breaks=tuple(breaks)))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_card_fits_the_page(width):
    assert max(map(len, shown(counted(8, limit=True), width).splitlines())) <= width
