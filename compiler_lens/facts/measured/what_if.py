"""What settings of torch.compile do with a program, in the figures of every other view; and which is best."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.cards import break_cards, broken_at
from compiler_lens.facts.program.coverage import coverage
from compiler_lens.facts.recompiles.reports import recompile_reports
from compiler_lens.recording.model import CaptureProblem, GraphStage, Outcome, Recording, SourceLine, Stance

_EAGER = (Outcome.SKIPPED, Outcome.RECOMPILE_LIMIT, Outcome.FAILED)


class Counts(Struct, frozen=True):
    """How a program was compiled."""

    graphs: int
    breaks: int  # graph break events
    eager_frames: int  # frames that run eagerly: skipped, or over the recompile limit
    compilations: int
    recompiles: int
    seconds: float  # of Dynamo: nothing was generated
    benign_graphs: int = 0  # of the graphs, breaks and recompiles: those of recompiles that are as they should be
    benign_breaks: int = 0
    benign_recompiles: int = 0
    has_frames: bool = True  # whether anything of it entered the compiler

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """What hurts most first: of two configurations, the one with less of it is better."""
        return (
            self.eager_frames,
            self.breaks - self.benign_breaks,
            self.recompiles - self.benign_recompiles,
            self.graphs - self.benign_graphs,
        )


class Left(Struct, frozen=True):
    """A place that breaks graphs, or that a function is compiled again for."""

    gb_type: str  # of recompiles "recompile", and what changed
    line: SourceLine | None

    @property
    def key(self) -> tuple[str, int] | str:
        """What stays the same where a change makes another break of one."""
        return (self.line.file, self.line.line) if self.line else self.gb_type


class Trial(Struct, frozen=True):
    """One configuration, tried on the program."""

    name: str
    code: tuple[str, ...]  # what to write to get it, a line each
    price: str  # what it costs, in words
    before: Counts | None  # as the program is; None: that raised
    after: Counts | None  # None: it raised
    error: str = ""  # what it raised, in one line
    error_line: SourceLine | None = None  # the user's line where it raised
    left: tuple[Left, ...] = ()  # what still breaks graphs, or recompiles, the costliest first
    problems: tuple[CaptureProblem, ...] = ()  # what could not be recorded: the figures may be too low

    @property
    def helps(self) -> bool:
        """Whether the program is compiled better than it is now."""
        return self.after is not None and (self.before is None or self.after.cost < self.before.cost)


class NotTried(Struct, frozen=True):
    """A configuration that was not tried, and why."""

    name: str
    reason: str


class WhatIf(Struct, frozen=True):
    """What every configuration that could matter does with a program. The first trial is the program as it is."""

    trials: tuple[Trial, ...]
    not_tried: tuple[NotTried, ...] = ()
    calls: int = 1  # made in each trial
    stance: Stance | None = None  # that the program has taken, and no trial: None is torch's default

    @property
    def baseline(self) -> Trial:
        """The program as it is."""
        return self.trials[0]

    @property
    def worst(self) -> Left | None:
        """What hurts most of the program as it is; None where nothing does, or it raises."""
        return next(iter(self.baseline.left), None)

    @property
    def best(self) -> Trial | None:
        """The trial that helps most of those that end the worst; of several, the one with the least to write."""
        return self._most([trial for trial in self.trials[1:] if not self._leaves_worst(trial)])

    @property
    def beside(self) -> Trial | None:
        """Where the worst is left by all of them, the trial that helps most with the rest."""
        return None if self.best else self._most(self.trials[1:])

    def _leaves_worst(self, trial: Trial) -> bool:
        return self.worst is not None and self.worst.key in {left.key for left in trial.left}

    @staticmethod
    def _most(trials: Sequence[Trial]) -> Trial | None:
        helping = [trial for trial in trials if trial.helps]
        return min(helping, key=lambda one: (one.after.cost if one.after else (), len(one.code)), default=None)

    @property
    def is_clean(self) -> bool:
        """Whether there was nothing to try: no breaks, no recompiles but benign ones, nothing runs eagerly."""
        counts = self.baseline.after
        return counts is not None and not any(counts.cost[:-1])


def count(recording: Recording) -> Counts:
    """Return the figures of a recording."""
    covered = coverage(recording)
    outcomes = covered.counts
    captured = [graph.compile_id for graph in recording.graphs if graph.stage is GraphStage.DYNAMO]
    causes = [cause for report in recompile_reports(recording) if report.benign for cause in report.causes]
    benign = {change.recompile.compile_id for cause in causes for change in cause.changes}
    elsewhere = {broken_at(event) for event in recording.graph_breaks if event.compile_id not in benign}
    repeated = [e for e in recording.graph_breaks if e.compile_id in benign and broken_at(e) in elsewhere]
    return Counts(
        graphs=len(captured),
        breaks=len(recording.graph_breaks),
        eager_frames=sum(outcomes.get(outcome, 0) for outcome in _EAGER),
        compilations=len(recording.compilations),
        recompiles=len(recording.recompiles),
        seconds=sum(c.seconds or 0.0 for c in recording.compilations),
        benign_graphs=sum(compile_id in benign for compile_id in captured),
        benign_breaks=len(repeated),
        benign_recompiles=sum(recompile.compile_id in benign for recompile in recording.recompiles),
        has_frames=bool(covered.frames),
    )


def left_of(recording: Recording) -> tuple[Left, ...]:
    """Return what breaks graphs in a recording and what recompiles, each place once, the costliest first."""
    limited: list[Left] = []
    others: list[Left] = []
    for report in recompile_reports(recording):
        causes = [Left(f"recompile: {one.cause.value}", one.line) for one in report.causes if not one.benign]
        (limited if report.limit else others).extend(causes)
    return (*limited, *(Left(card.gb_type, card.place) for card in break_cards(recording)), *others)
