"""Which life of the process a compilation belongs to, when torch counts from zero again."""

from compiler_lens.decode.fold import fold
from compiler_lens.recording.event import NO_ID, Event


def ids(*torch_ids):
    """The compile ids that a fold makes of compilations seen in this order, each in a run of its own."""
    started = {"function": "f", "file": "f.py", "line": 1, "backend": "eager"}
    events = [
        Event("lens.frame_start", float(run), run, (*torch_id, None), meta=started)
        for run, torch_id in enumerate(torch_ids)
    ]
    return [str(c.compile_id) for c in fold(events, strict=True).compilations]


def test_all_compilations_of_one_life_share_its_epoch():
    assert ids((0, 0), (0, 1), (1, 0)) == ["0/0", "0/1", "1/0"]
    # The third life is the first with a second recompile: it is the third all the same.
    assert ids((0, 0), (0, 1), (0, 0), (0, 1), (0, 0), (0, 1), (0, 2)) == [
        "0/0", "0/1", "0/0@1", "0/1@1", "0/0@2", "0/1@2", "0/2@2",
    ]  # fmt: skip


def test_what_has_no_id_begins_no_life():
    passed_over = {
        "function": "g", "file": "g.py", "line": 1, "backend": "eager", "mode": "", "options": {}, "dynamic": None,
        "reason": "no reason",
    }  # fmt: skip
    events = [Event("lens.frame_skipped", float(run), run, NO_ID, meta=passed_over) for run in range(3)]
    assert len({c.compile_id for c in fold(events, strict=True).compilations}) == 3
    events.append(Event("lens.frame_start", 4.0, 9, (0, 0, None), meta=passed_over))
    assert "0/0" in {str(c.compile_id) for c in fold(events, strict=True).compilations}
