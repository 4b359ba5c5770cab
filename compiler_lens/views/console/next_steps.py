"""What to do next: one to three things, the one that costs most first."""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.evidence import (
    CacheBypassed,
    CudagraphsSkipped,
    DeviceIdle,
    FrameFailed,
    NothingSeen,
    TinyGraphs,
    Unfinished,
)
from compiler_lens.facts.overview.findings import Finding, Severity
from compiler_lens.facts.overview.summary import Summary, summarize
from compiler_lens.facts.program.coverage import Function
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import Recording
from compiler_lens.render.console.page import BAD, CODE, DIM, GOOD, PLACE, WARN, Page, command, line, paragraph, title
from compiler_lens.views import words
from compiler_lens.views.advice import Advice, advice
from compiler_lens.views.text import clean, plural, seconds

_MOST = 3
_LINES = 4  # of a suggestion's code
# What the first makes of `.item()`, the second cannot print: together they break the graph anew (GB0296).
_APART = {"capture_scalar_outputs", "reorderable_logging_functions"}
_PROFILE = "compiler-lens profile FILE:FACTORY"
_FACTORY = "FACTORY is a function in FILE: def make(): return model, (x,)"
_STYLES = {Severity.HIGH: BAD, Severity.MEDIUM: WARN, Severity.LOW: "", Severity.INFO: DIM}


def next_steps(recording: Recording, summary: Summary, page: Page, hints: int) -> list[Text]:
    """The last section of the report; the first `hints` steps come with what to change."""
    worth = [finding for finding in summary.findings if not finding.benign]
    if not worth:
        return nothing_to_fix(recording, summary, page)
    lines = [title("Next")]
    given: set[str] = set()
    settings: list[str] = []
    for i, finding in enumerate(worth[:_MOST], 1):
        told = _with_others(advice(finding, page.at), settings)
        if told.change in given:  # said once, it need not be said for each line
            told = replace(told, change="", setting="")
        lines += _step(i, told, page, change=i <= hints)
        given.add(told.change)
    hidden = len(worth) - _MOST
    if hidden > 0:
        return [*lines, command(f"{plural(hidden, 'more finding')}: ", page.show("findings"))]
    return [*lines, command("All details: ", page.show(view_of(worth[0])))]


def finding_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC findings` shows: all of them, with severity, cost and what to change."""
    found = summarize(recording, selection.user_paths).findings
    if not found:
        return [line("  ", ("Nothing to fix", f"bold {GOOD}"), ".")]
    worth = sum(not finding.benign for finding in found)
    told = f"{plural(worth, 'thing')} to fix" if worth else "nothing to fix"
    lines = [title("Findings", f"{told}, {len(found) - worth:,} to know")]
    settings: list[str] = []
    for finding in found:
        lines += [Text(), *_finding(finding, settings, page)]
    return lines


def _with_others(told: Advice, settings: list[str]) -> Advice:
    """Without a setting that does not go with one given before; `settings` grows by what is given."""
    name = told.setting.partition(" ")[0].rpartition(".")[2]
    if any({name, before} == _APART for before in settings):
        return replace(told, setting="")
    settings.append(name)
    return told


def _finding(finding: Finding, settings: list[str], page: Page) -> list[Text]:
    cost = f", {seconds(finding.seconds)} {words.BASES[finding.basis]}" if finding.seconds else ""
    told = _with_others(advice(finding, page.at), settings)
    heading = line((f"{words.SEVERITIES[finding.severity]}{cost}", _STYLES[finding.severity]), indent=2)
    more = [command("more: ", page.show(view_of(finding)), indent=4)]
    return [heading, *_body(told, page, 4, change=True), *more]


def _step(number: int, told: Advice, page: Page, *, change: bool) -> list[Text]:
    lines = _body(told, page, 5, change=change)
    return [line(f"  {number}. ", lines[0][5:]), *lines[1:]]


def _body(told: Advice, page: Page, indent: int, *, change: bool) -> list[Text]:
    code = line("  ", (told.code, CODE)) if told.code else Text()
    head = line((told.subject, PLACE), code)
    lines: list[Text] = []
    if told.code:
        lines += [line(head, indent=indent), *paragraph(told.what, page.width, indent, "", 3)]
    else:
        lines += paragraph(line(head, f" {told.what}"), page.width, indent, "", 4)
    return lines + (_change(told, page, indent) if change else [])


def _change(told: Advice, page: Page, indent: int) -> list[Text]:
    lines = paragraph(told.change, page.width, indent, GOOD, 6) if told.change else []
    for text in told.instead[:_LINES]:
        lines.append(Text(" " * (indent + 2) + clean(text), style=CODE, no_wrap=True))
    if len(told.instead) > _LINES:
        lines.append(line(("…", DIM), indent=indent + 2))
    return lines + ([line(("or set ", DIM), (told.setting, CODE), indent=indent)] if told.setting else [])


def nothing_to_fix(recording: Recording, summary: Summary, page: Page) -> list[Text]:
    """What is said where no finding asks for anything."""
    unfinished = sum(isinstance(finding.evidence, Unfinished) for finding in summary.findings)
    if unfinished:
        ends = f"The recording ends while {plural(unfinished, 'frame')} was being compiled: record again to the end."
        return [title("Next"), line(ends, indent=2)]
    known = [
        "no graph breaks" if not recording.graph_breaks else "graphs are cut on purpose only",
        "no recompiles"
        if not recording.recompiles
        else f"{plural(len(recording.recompiles), 'recompile')}, as expected",
    ]
    return [
        title("Next"),
        line("  ", ("Nothing to fix", f"bold {GOOD}"), f": {', '.join(known)}."),
        *_closer(recording, page),
    ]


def _closer(recording: Recording, page: Page) -> list[Text]:
    """Where to look in what compiles as it should: from lines to kernels, and what these take."""
    if not recording.kernels:
        return [command("Look closer: ", page.show("graphs"))]
    lines = command("The kernels of your lines: ", page.show("line"))
    if recording.profiles:
        return [command("What each kernel takes: ", page.show("profile")), lines]
    return [command("What each kernel takes: ", _PROFILE), line((_FACTORY, DIM), indent=4), lines]


def view_of(finding: Finding) -> str:
    """The view with the evidence."""
    views: dict[type, str] = {
        BreakCard: "breaks", FrameFailed: "frames", RecompileReport: "recompiles", Function: "frames",
        CudagraphsSkipped: "cudagraphs", CacheBypassed: "caches", TinyGraphs: "graphs", NothingSeen: "environment",
        DeviceIdle: "profile",
    }  # fmt: skip
    return views.get(type(finding.evidence), "times" if finding.seconds else "frames")
