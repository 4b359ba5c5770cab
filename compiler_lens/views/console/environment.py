"""Where a recording was made, and what it could not hold."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone

from rich.text import Text

from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Environment, Recording
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import BAD, DIM, PLACE, Page, line, paragraph, title
from compiler_lens.views.text import times


def environment_lines(recording: Recording, _selection: Selection, page: Page) -> list[Text]:
    """What `show REC environment` shows: versions, device, changed settings, and all gaps."""
    environment = recording.environment
    lines = [title("Environment"), *_table(environment_facts(environment), page)]
    if environment.versions:
        lines += [Text(), title("Packages"), *_table(sorted(environment.versions.items()), page)]
    if environment.config:
        lines += [Text(), title("Settings that differ from torch's defaults")]
        lines += _table(sorted(environment.config.items()), page)
    return lines + _gaps(recording, page)


def environment_facts(environment: Environment) -> list[tuple[str, str]]:
    """What was run, on what."""
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


def _table(rows: list[tuple[str, str]], page: Page) -> list[Text]:
    return table((Column(style=PLACE), Column(flexible=True)), rows, page.width)


def _gaps(recording: Recording, page: Page) -> list[Text]:
    problems = Counter((p.where, p.message) for p in recording.problems).most_common()
    missing = Counter((u.fact, u.reason) for u in recording.unavailable).most_common()
    lines: list[Text] = []
    if problems:
        lines += [Text(), title("Could not be read")]
    for (where, message), n in problems:
        lines += paragraph(line((where, BAD), f": {message}", (f"  {times(n)}" if n > 1 else "", DIM)), page.width, 2)
    if missing:
        lines += [Text(), title("Not available")]
    for (fact, reason), n in missing:
        lines += paragraph(line((fact, PLACE), f": {reason}", (f"  {times(n)}" if n > 1 else "", DIM)), page.width, 2)
    return lines
