"""What to do next: one to three things, the one that costs most first, each with the first advice that torch gives."""

from __future__ import annotations

from rich.text import Text

from compiler_lens.analysis.coverage import Frame
from compiler_lens.analysis.findings import (
    BreaksHere,
    CudagraphsSkipped,
    Finding,
    FrameFailed,
    LimitHit,
    NothingSeen,
    Recompiles,
    RunsEagerly,
    failed_compilation,
)
from compiler_lens.analysis.places import Place, specific_hints
from compiler_lens.analysis.recompiles import RecompileCause
from compiler_lens.analysis.summary import Summary
from compiler_lens.model import BreakCause, BreakOutcome, Outcome, Recording
from compiler_lens.render.console.page import CODE, GOOD, PLACE, Page, command, line, paragraph, title
from compiler_lens.render.console.recompiles import change_series, short_failure
from compiler_lens.render.text import one_line, plural, seconds

_MOST = 3
_HINT_LINES = 5


def next_steps(recording: Recording, summary: Summary, page: Page, hints: int) -> list[Text]:
    """The last section of the report; the first `hints` steps come with torch's advice."""
    if not summary.findings:
        return _nothing_to_fix(recording, summary, page)
    lines = [title("Next")]
    given: set[str] = set()
    for i, finding in enumerate(summary.findings[:_MOST], 1):
        what, advice = _told(finding, page)
        for n, part in enumerate(paragraph(what, page.width, 5, "", 3)):
            lines.append(line(f"  {i}. ", part[5:]) if n == 0 else part)
        lines += paragraph(advice, page.width, 5, CODE, _HINT_LINES) if i <= hints and advice not in given else []
        given.add(advice)
    hidden = len(summary.findings) - _MOST
    more = f"{plural(hidden, 'more finding')} and all details" if hidden > 0 else "All details"
    return [*lines, command(f"{more}: ", page.show(_view(summary.findings[0])))]


def _nothing_to_fix(recording: Recording, summary: Summary, page: Page) -> list[Text]:
    told = f"no graph breaks, {plural(len(recording.recompiles), 'recompile')}" if recording.recompiles else (
        "no graph breaks, no recompiles"
    )  # fmt: skip
    unfinished = summary.coverage.counts[Outcome.UNFINISHED]
    if unfinished:
        return [
            title("Next"),
            line(
                f"  The recording ends while {plural(unfinished, 'frame')} was being compiled: record again to the end."
            ),
        ]
    return [
        title("Next"),
        line("  ", ("Nothing to fix", f"bold {GOOD}"), f": {told}."),
        command("Look closer: ", page.show("kernels")),
    ]


# The exception of get_cpp_compiler() in torch/_inductor/cpp_builder.py: nothing in the user's code is to be fixed.
_NO_COMPILER = "InvalidCxxCompiler"


def _told(finding: Finding, page: Page) -> tuple[Text, str]:
    """What to do, and the advice that goes with it."""
    told: Text
    match finding:
        case BreaksHere(place):
            return _break(place, page), _hint(place.cause)
        case FrameFailed(frame):
            return _failed(finding, page), _hint(failed_compilation(frame).failure)
        case LimitHit():
            told = _limit(finding, page)
        case Recompiles(cause):
            return _recompiles(finding, page), (cause.failure.hint if cause.failure else "") or _size_hint(cause)
        case RunsEagerly(frame):
            told = _eager(frame, page)
        case CudagraphsSkipped():
            told = _cudagraphs(finding, page)
        case NothingSeen():
            told = line("Call the compiled model or function while the lens records: nothing entered the compiler.")
    return told, ""


def _view(finding: Finding) -> str:
    """The view with the evidence."""
    views = {
        BreaksHere: "breaks", FrameFailed: "frames", LimitHit: "recompiles", Recompiles: "recompiles",
        RunsEagerly: "frames", CudagraphsSkipped: "cudagraphs", NothingSeen: "environment",
    }  # fmt: skip
    return views[type(finding)]


def _break(place: Place, page: Page) -> Text:
    where = page.at(place.line) if place.line else "the graph break without a place"
    code = f"`{one_line(place.line.code, 80)}`" if place.line and place.line.code.strip() else ""
    inside = f", inside {page.at(place.inside[0])}" if place.inside else ""
    return line(
        ("Fix ", PLACE), (where, PLACE), ": " if code else " ", (code, CODE), " " if code else "",
        f"{_effect(place)}{inside} ({place.gb_type[:1].lower()}{place.gb_type[1:]}).",
    )  # fmt: skip


def _effect(place: Place) -> str:
    skipped = place.frames(BreakOutcome.SKIPPED_FRAME)
    if skipped:
        return f"makes {plural(skipped, 'frame')} run eagerly"
    rest = place.frames(BreakOutcome.SKIPPED_REST)
    if rest:
        return f"makes the rest of {plural(rest, 'frame')} run eagerly"
    return f"splits the graph {plural(len(place.breaks), 'time')}" if len(place.breaks) > 1 else "splits the graph"


def _hint(cause: BreakCause | None) -> str:
    hints = specific_hints(cause) if cause else ()
    return one_line(hints[0], 600) if hints else ""


def _failed(finding: FrameFailed, page: Page) -> Text:
    frame = finding.frame
    failed = failed_compilation(frame)
    why = failed.failure.gb_type if failed.failure else frame.reason
    if _NO_COMPILER in why:
        return line(
            ("Install a C++ compiler", PLACE), " such as g++: Inductor builds CPU kernels with one, and "
            f"found none when it compiled `{frame.name.name}`.",
        )  # fmt: skip
    also = f" It also {_effect(finding.place)}." if finding.place else ""
    where = page.at(failed.failure_line or frame.name)
    return line(
        ("Fix ", PLACE), (where, PLACE), f": compiling `{frame.name.name}` failed ({one_line(why, 200)}).{also}"
    )


def _limit(finding: LimitHit, page: Page) -> Text:
    name = finding.frame.name
    cause = finding.cause
    why = f" because {short_failure(cause.failure)} keeps changing" if cause else ""
    values = f" ({change_series(cause.changes)})" if cause and cause.changes else ""
    return line(
        ("Keep ", PLACE), (f"`{name.name}`", PLACE), f" ({page.at(name)}) from recompiling: it hit the recompile limit",
        f" and runs eagerly now{why}{values}.",
    )  # fmt: skip


def _size_hint(cause: RecompileCause) -> str:
    if cause.failure is None or "size mismatch" not in cause.failure.text:
        return ""
    return "If that size varies, say so before the first call: torch.compile(..., dynamic=True), or mark_dynamic()."


def _recompiles(finding: Recompiles, page: Page) -> Text:
    cause, name = finding.cause, finding.cause.function
    share = f", {seconds(finding.seconds)} of {seconds(finding.total_seconds)} compiling" if finding.seconds else ""
    values = f" ({change_series(cause.changes)})" if cause.changes else ""
    return line(
        (f"`{name.name}`", PLACE), f" ({page.at(name)}) was recompiled {plural(len(cause.recompiles), 'time')}: "
        f"{short_failure(cause.failure)}{values}{share}.",
    )  # fmt: skip


def _eager(frame: Frame, page: Page) -> Text:
    why = f": {one_line(frame.reason, 200)}" if frame.reason else ", torch gave no reason"
    return line((f"`{frame.name.name}`", PLACE), f" ({page.at(frame.name)}) runs eagerly{why}.")


def _cudagraphs(finding: CudagraphsSkipped, page: Page) -> Text:
    first = finding.outcomes[0]
    at = f" ({page.at(first.user_stack[-1])})" if first.user_stack else ""
    graphs = plural(len(finding.outcomes), "graph")
    return line(f"{graphs} without CUDA graphs: {one_line(first.reason, 200) or 'torch gave no reason'}{at}.")
