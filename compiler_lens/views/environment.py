"""Where a recording was made, and what it could not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from msgspec import Struct

from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CaptureProblem, Environment, Recording, Unavailable
from compiler_lens.views.document import Column, Document, Section, Table, paragraph
from compiler_lens.views.parts import Span, Tone, quiet
from compiler_lens.views.text import times


class Data(Struct, frozen=True):
    """Where a recording was made, and what it could not hold."""

    environment: Environment
    problems: tuple[CaptureProblem, ...]
    unavailable: tuple[Unavailable, ...]
    sources_taken: Mapping[str, str]  # a log's files, and those that their text was taken from


def document(recording: Recording, _selection: Selection) -> Document:
    """Return versions, device, changed settings, and all gaps in the recording."""
    environment = recording.environment
    facts = environment_facts(environment)
    known = _table(facts) if facts else paragraph("Nothing of it is in this recording.", indent=2)
    sections = [Section("Environment", (known,))]
    if environment.versions:
        sections.append(Section("Packages", (_table(sorted(environment.versions.items())),)))
    if environment.config:
        rows = sorted(environment.config.items())
        sections.append(Section("Settings that differ from torch's defaults", (_table(rows),)))
    problems = Counter((problem.where, problem.message) for problem in recording.problems)
    missing = Counter((gap.fact, gap.reason) for gap in recording.unavailable)
    for title, counts, tone in (("Could not be read", problems, Tone.BAD), ("Not available", missing, Tone.STRONG)):
        if counts:
            gaps = []
            for (what, why), count in counts.most_common():
                often = quiet(f"  {times(count)}" if count > 1 else "")
                gaps.append(paragraph(Span(what, tone), f": {why}", often, indent=2))
            sections.append(Section(title, tuple(gaps)))
    taken = {source.file: source.read_from for source in recording.sources if source.read_from}
    if taken:
        about = "the log has none: of its files, those that it was taken from"
        sections.append(Section("Source text", (_table(sorted(taken.items())),), about))
    return Document(tuple(sections), Data(environment, recording.problems, recording.unavailable, taken))


def environment_facts(environment: Environment) -> list[tuple[str, str]]:
    """Return what was run, and on what, as names and values."""
    started = datetime.fromtimestamp(environment.started, timezone.utc) if environment.started else None
    facts = {
        "command": " ".join(environment.argv),
        "torch": environment.torch,
        "python": environment.python,
        "triton": environment.triton,
        "device": environment.device,
        "threads": "" if environment.threads is None else str(environment.threads),
        "platform": environment.platform,
        "process": "" if environment.pid is None else str(environment.pid),
        "rank": "" if environment.rank is None else str(environment.rank),
        "started": started.strftime("%Y-%m-%d %H:%M:%S UTC") if started else "",
    }
    return [(name, value) for name, value in facts.items() if value]


def _table(rows: Iterable[tuple[str, str]]) -> Table:
    return Table((Column(tone=Tone.STRONG), Column(flexible=True)), tuple(rows))
