"""Once compiled, a call runs as if there were no lens. (That it does for every model is a law in laws.py.)"""

import pytest
import scenes
from observation import Folders, run


@pytest.fixture(scope="module")
def entered(folders: Folders) -> dict[str, int]:
    """How often Python entered our functions."""
    return run(scenes.first_and_later_calls, folders)


def test_profiling_sees_our_code_where_it_runs(entered: dict[str, int]) -> None:
    """Compiling enters it, so that its absence later means something."""
    assert entered["first"] > 100


def test_a_later_call_enters_none_of_it_forward_or_backward(entered: dict[str, int]) -> None:
    """Not even to look whether a lens is open."""
    assert entered["later"] == 0


def test_a_later_call_in_another_thread_enters_none_of_it(entered: dict[str, int]) -> None:
    """Dynamo keeps its callback by thread."""
    assert entered["elsewhere"] == 0


def test_calls_leave_nothing_in_the_journal_and_recompiles_do(folders: Folders) -> None:
    """A training loop of days must not fill a disk."""
    events = run(scenes.journal_growth, folders)
    assert events["compiled"] == events["called"] < events["recompiled"]
