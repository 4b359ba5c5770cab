"""Whether "nothing to fix" may be said: everything that could contradict it, in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.overview import evidence as seen
from compiler_lens.facts.overview.explanation import Explanation
from compiler_lens.facts.overview.unintended import Unintended
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.recording.model import DAMAGE, THE_END, AutotuneResult, Recording, SourceLine


class Contradiction(Enum):
    """What stands against "nothing to fix", though no finding asks for a change. The values are public: JSON has them.

    What a finding asks for need not be here: then nobody says it.
    """

    DAMAGED = "damaged"
    UNFINISHED = "unfinished"  # the recording has no end, or ends while something is compiled
    NOT_RECORDED = "not_recorded"  # it was there, and could not be read
    NOT_OFFERED = "not_offered"  # facts that this torch does not give
    LOG = "log"  # of torch's own: it tells of no stance, no process and nothing that is never called
    NOT_WHOLE = "not_whole"  # functions that are compiled in part, or not
    CUT = "cut"  # graphs that are cut on purpose, or by design
    STANCE = "stance"
    CHILDREN = "children"  # that compiled, or may have, and are not recorded
    RECOMPILES = "recompiles"  # as they should be: one clean compilation would take less
    AGAIN = "compiled_again"  # after a reset of torch's, which forgets all that was compiled
    TUNING = "tuning"  # that took long and gained little
    UNINTENDED = "unintended"  # what compiled as written and may not be meant


class Against(Struct, frozen=True):
    """One thing that contradicts "nothing to fix"."""

    what: Contradiction
    count: int = 1
    seconds: float | None = None
    calls: int | None = None  # after which tuning has paid off; None: it saves nothing that was measured
    places: tuple[SourceLine, ...] = ()
    said: str = ""


Look = Callable[[Recording, Explanation], Against | None]
_NOT_OFFERED = "not offered by this torch"  # how such a reason begins
_DONE = (Treatment.WHOLE, Treatment.EMPTY, Treatment.TRACED)
_TUNED_LONG = 1.0  # seconds
_PAYS = 1_000  # calls: what has paid off by then is well spent


def against(recording: Recording, explained: Explanation) -> tuple[Against, ...]:
    """Return all that contradicts "nothing to fix"; without any, and no finding to act on, it is so."""
    return tuple(found for look in _LOOKS.values() if (found := look(recording, explained)))


def _damaged(recording: Recording, _: Explanation) -> Against | None:
    return Against(Contradiction.DAMAGED, said=recording.damage) if recording.damage else None


def _unfinished(recording: Recording, explained: Explanation) -> Against | None:
    frames = sum(isinstance(finding.evidence, seen.Unfinished) for finding in explained.findings)
    is_open = bool(recording.unfinished or frames)
    return Against(Contradiction.UNFINISHED, frames, said=recording.unfinished) if is_open else None


def _not_recorded(recording: Recording, _: Explanation) -> Against | None:
    lost = [problem for problem in recording.problems if problem.where not in {DAMAGE, THE_END}]
    return Against(Contradiction.NOT_RECORDED, len(lost), said=lost[0].message) if lost else None


def _not_offered(recording: Recording, _: Explanation) -> Against | None:
    facts = list(dict.fromkeys(u.fact for u in recording.unavailable if u.reason.startswith(_NOT_OFFERED)))
    return Against(Contradiction.NOT_OFFERED, len(facts), said=facts[0]) if facts else None


def _log(recording: Recording, _: Explanation) -> Against | None:
    known = any(compilation.backend or compilation.door for compilation in recording.compilations)
    return None if known else Against(Contradiction.LOG)


def _not_whole(_: Recording, explained: Explanation) -> Against | None:
    functions = explained.coverage.functions
    # What is cut is told by its cuts, and what is not done compiling as unfinished.
    rest = [f for f in functions if f.treatment not in {*_DONE, Treatment.SPLIT, Treatment.UNFINISHED}]
    names = [*(one.name.name for one in rest), *(one.name.name for one in explained.coverage.kept_out)]
    return Against(Contradiction.NOT_WHOLE, len(names), said=names[0]) if names else None


def _cut(recording: Recording, explained: Explanation) -> Against | None:
    if not recording.graph_breaks:
        return None
    lines = (card.owner.line or card.place for card in explained.cards)  # the user's, where a library's leads from it
    places = tuple(dict.fromkeys(line for line in lines if line))
    return Against(Contradiction.CUT, len(explained.cards), places=places)


def _stance(recording: Recording, _: Explanation) -> Against | None:
    places = tuple(stance.place for stance in recording.stances if stance.place)
    return Against(Contradiction.STANCE, len(recording.stances), places=places) if recording.stances else None


def _children(recording: Recording, _: Explanation) -> Against | None:
    children = [child for child in recording.children if child.compiled is not False]
    places = tuple(child.place for child in children if child.place)
    return Against(Contradiction.CHILDREN, len(children), places=places) if children else None


def _recompiles(recording: Recording, explained: Explanation) -> Against | None:
    if not recording.recompiles:
        return None
    return Against(
        Contradiction.RECOMPILES, len(recording.recompiles), sum(report.seconds for report in explained.recompiles)
    )


def _again(_: Recording, explained: Explanation) -> Against | None:
    lives = [{f.id.epoch for f in function.frames if f.graphs} for function in explained.coverage.functions]
    again = sum(len(epochs) - 1 for epochs in lives if epochs)
    return Against(Contradiction.AGAIN, again) if again else None


def _tuning(recording: Recording, _: Explanation) -> Against | None:
    """What was tuned in this run, against the choice that would have run without: a library's."""
    spent = sum((r.seconds or 0.0) + (r.precompile_seconds or 0.0) for r in recording.autotunes if not r.cached)
    if spent < _TUNED_LONG:
        return None
    from compiler_lens.facts.kernels.provenance import Provenance  # little else asks for it on the first screen
    from compiler_lens.facts.kernels.tuned import Tuned

    tuned = Tuned.of(recording)
    launches = Counter(i for lineage in Provenance.of(recording).lineages for i in tuned.indices(lineage))
    saved = sum(_saved(one) * max(launches[i], 1) for i, one in enumerate(tuned.every) if not one.cached)
    if saved * _PAYS >= spent:
        return None
    return Against(Contradiction.TUNING, len(recording.autotunes), spent, round(spent / saved) if saved else None)


def _saved(result: AutotuneResult) -> float:
    """Seconds of a launch that the winner is faster than a library's kernel."""
    library = next((c.milliseconds for c in result.choices if c.kind.is_library and c.milliseconds), None)
    won = result.winner.milliseconds if result.winner else None
    return max(library - won, 0.0) / 1000 if library and won else 0.0


def _unintended(_: Recording, explained: Explanation) -> Against | None:
    found = [one for finding in explained.findings if isinstance(one := finding.evidence, Unintended)]
    places = tuple(one.place for one in found if one.place)
    return Against(Contradiction.UNINTENDED, len(found), places=places, said=found[0].doubt.value) if found else None


_LOOKS: Mapping[Contradiction, Look] = {
    Contradiction.DAMAGED: _damaged,
    Contradiction.UNFINISHED: _unfinished,
    Contradiction.NOT_RECORDED: _not_recorded,
    Contradiction.NOT_OFFERED: _not_offered,
    Contradiction.LOG: _log,
    Contradiction.NOT_WHOLE: _not_whole,
    Contradiction.CUT: _cut,
    Contradiction.STANCE: _stance,
    Contradiction.CHILDREN: _children,
    Contradiction.RECOMPILES: _recompiles,
    Contradiction.AGAIN: _again,
    Contradiction.TUNING: _tuning,
    Contradiction.UNINTENDED: _unintended,
}
