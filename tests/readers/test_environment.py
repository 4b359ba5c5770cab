"""The environment of a recording, also of one that a later version of ours wrote."""

from compiler_lens.decode.whole import read_own_event
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId


def test_what_is_not_known_costs_nothing_of_what_is():
    event = Event("lens.environment", 7.0, meta={"torch": "2.13.0", "argv": ["train.py"], "weather": "fair"})
    (found,) = read_own_event(event, CompileId(None, None), {})

    assert (found.torch, found.argv, found.started) == ("2.13.0", ("train.py",), 7.0)
