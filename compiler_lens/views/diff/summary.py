"""What differs between two recordings, in ten lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compiler_lens.facts.compare.model import RecordingDiff
from compiler_lens.recording.torch_names import Phase
from compiler_lens.views import document as doc
from compiler_lens.views import words
from compiler_lens.views.diff import around as beside
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.kernels import change_link
from compiler_lens.views.diff.views import Asked
from compiler_lens.views.document import Block, Column, Section, Table, line, paragraph
from compiler_lens.views.parts import Cell, Kind, Tone, ToView, quiet, strong
from compiler_lens.views.profile_words import UNUSABLE
from compiler_lens.views.text import plural, seconds

_CHANGES = 4  # the biggest changes of kernels that a summary has
_LISTED, _SETTINGS = 8, 8  # of each, where there is room
_PLACES = 2
_NAME = 44  # columns for a kernel's name
_PHASES = 3
_ARROW = "→"
_OFTEN = "at a place that breaks more or less often"
_BECAME = {
    "fixed": "fixed",
    "new": "new",
    "more": _OFTEN,
    "fewer": _OFTEN,
    "gone": "in code that was not traced AFTER",
    "come": "in code that was not traced BEFORE",
}
_SAME_TIME = 0.05  # seconds: phases that differ by less are left out


def whole(asked: Asked) -> tuple[Block, ...]:
    """Return the summary, and the views that have more; with what leads to all of it, where that can be walked."""
    if asked.halves:
        return tuple(_overview(asked))
    d = asked.diff
    more = ["kernels", "code"] if d.kernels else []
    more += [view for view, found in (("graphs", d.graphs), ("breaks", d.breaks), ("autotune", d.autotunes)) if found]
    if not more and d.is_empty:
        return summary(d, asked.room)
    others = ", ".join([*more, "times", "environment"])
    return *summary(d, asked.room), doc.Command(f"more ({others}): ", more[0] if more else "times", indent=0)


def _overview(asked: Asked) -> Iterator[Block]:
    d = asked.diff
    yield beside.key(asked)
    rest = (f"; {told.NOTHING_ELSE}",) if d.is_empty else ()
    yield doc.Verdict(told.kernels_line(d), rest, Tone.GOOD if d.same_kernels else Tone.PLAIN)
    yield from (paragraph(text, tone=Tone.WARN) for text in gap_words(d))
    if d.kernels:
        launches = [(what, n) for what, n in told.launch_counts(d) if n]
        every = sum(n for _, n in launches)
        counts: list[tuple[Cell, ...]] = [(what, n, n / every, n) for what, n in launches]
        columns = (
            Column(unseen="verdict"), Column("launches", Kind.COUNT), Column("share", Kind.SHARE), Column("", Kind.BAR),
        )  # fmt: skip
        yield Table(columns, tuple(counts), is_short=True)
    settings: list[Block] = [beside.setting_table(d, _SETTINGS) if d.settings else paragraph("no setting differs")]
    if len(d.settings) > _SETTINGS:
        settings.append(paragraph(ToView(plural(len(d.settings) - _SETTINGS, "more setting"), "environment")))
    yield Section("Asked of the compiler", tuple(settings))
    if lines := tuple(paragraph(ToView(text, view), tone=tone) for view, text, tone in cause(d)):
        yield Section("What the program does", lines, "the kernels follow from it")
    if d.kernels:
        listed = [change_link(asked, n, told.change_line(d.kernels[n])) for n in range(len(d.kernels))[:_LISTED]]
        tree = doc.Tree(tuple(doc.Branch((one,)) for one in listed), is_counted=True)
        more = f"{plural(len(d.kernels) - _LISTED, 'more change')}, " if len(d.kernels) > _LISTED else ""
        all_of_them = paragraph(ToView(f"{more}every kernel", "kernels"))
        yield Section("Kernels", (tree, all_of_them), "what weighs most first")
    if lines := tuple(paragraph(ToView(text, view), tone=tone) for view, text, tone in around(d)):
        yield Section("Around the kernels", lines)
    times: list[Section] = []
    if compiling := compile_time_words(d):
        times.append(Section("Compile time", (beside.phase_table(d), paragraph(ToView(compiling, "times"))), ""))
    if call := tuple(beside.call_blocks(d)):
        times.append(Section("One call of the model", call))
    yield doc.Columns(tuple(times))


def summary(d: RecordingDiff, room: int) -> tuple[Block, ...]:
    """Return what was compared, what the kernels do differently, and what else; a kernel's name has `room` columns."""
    asked = ", ".join(f"{s.name} {s.before or 'default'} {_ARROW} {s.after or 'default'}" for s in d.settings)
    blocks: list[Block] = [paragraph(strong("Diff"), quiet(f"  {asked or 'no setting differs'}"), limit=2)]
    blocks += [paragraph(text, tone=Tone.WARN) for text in gap_words(d)]
    blocks += [paragraph(text, tone=tone, limit=2) for _, text, tone in cause(d)]
    blocks.append(paragraph(told.kernels_line(d), tone=Tone.GOOD if d.same_kernels else Tone.PLAIN, limit=2))
    blocks += [paragraph(told.change_line(change, room), indent=2, limit=2) for change in d.kernels[:_CHANGES]]
    if len(d.kernels) > _CHANGES:
        blocks.append(line(quiet(f"… {plural(len(d.kernels) - _CHANGES, 'more change')}"), indent=2))
    blocks += [paragraph(text, tone=tone, limit=2) for _, text, tone in around(d)]
    if compiling := compile_time_words(d):
        blocks.append(paragraph(compiling, tone=Tone.QUIET, limit=3))
    return *blocks, *(paragraph(text) for text in call_words(d))


def summary_lines(d: RecordingDiff) -> list[str]:
    """Return the same as plain lines, without settings and compile times."""
    changes = [told.change_line(change, _NAME) for change in d.kernels[:_CHANGES]]
    return [*(text for _, text, _ in cause(d)), told.kernels_line(d), *changes, *(text for _, text, _ in around(d))]


def gap_words(d: RecordingDiff) -> list[str]:
    """Return a word on each side that could not be recorded or read whole."""
    found: list[str] = []
    for name, side in (("BEFORE", d.before), ("AFTER", d.after)):
        found += [words.unfinished(side.unfinished, name)] if side.unfinished else []
        if side.problems > bool(side.unfinished):
            problems = plural(side.problems, "problem")
            found.append(f"{name} has gaps, which may be what differs: {problems} while it was recorded or read")
        children = words.CHILDREN.get(side.children_compiled)
        found += [f"{name}: {children}"] if children else []
        found += [] if side.is_timed_well else [f"{name}: {UNUSABLE}"]
    return found


def cause(d: RecordingDiff) -> Iterator[tuple[str, str, Tone]]:
    """Return where the program itself differs, that: the kernels follow from it. As `around` has the rest."""
    if beside.is_cause(d.graphs):
        yield from (("graphs", text, Tone.PLAIN) for text in beside.graph_lines(d.graphs))


def around(d: RecordingDiff) -> Iterator[tuple[str, str, Tone]]:
    """Return what differs around the kernels: a line each, with the view that has all of it."""
    if not beside.is_cause(d.graphs):
        yield from (("graphs", text, Tone.PLAIN) for text in beside.graph_lines(d.graphs))
    for text in beside.frame_lines(d.frames)[:_PLACES]:
        yield "breaks", text, Tone.PLAIN
    if d.breaks:
        known = Counter(_BECAME[beside.break_verdict(change)] for change in d.breaks)
        is_worse = any(change.after > change.before for change in d.breaks)
        is_better = any(beside.break_verdict(change) == "fixed" for change in d.breaks)
        text = ", ".join(f"{known[what]:,} {what}" for what in dict.fromkeys(_BECAME.values()) if known[what])
        yield "breaks", f"Graph breaks: {text}", Tone.BAD if is_worse else Tone.GOOD if is_better else Tone.WARN
    if d.recompiles:
        before, after = (sum(getattr(change, side) for change in d.recompiles) for side in ("before", "after"))
        is_gone = any(change.before and not change.after for change in d.frames)  # fewer functions compile again less
        tone = Tone.BAD if after > before else Tone.PLAIN if is_gone else Tone.GOOD
        yield "breaks", f"Recompiles: {before:,} {_ARROW} {after:,}", tone
    if d.cudagraphs:
        yield "cudagraphs", beside.cudagraph_line(d.cudagraphs), Tone.PLAIN
    if d.autotunes:
        yield "autotune", beside.autotune_line(d.autotunes), Tone.PLAIN


def compile_time_words(d: RecordingDiff) -> str:
    """Return `Compile time: 6.34 s → 9.28 s`, and the phases that differ most; empty where a side was not timed."""
    before, after = d.before.phases, d.after.phases
    if not (before.timed and after.timed):
        return ""
    phases: list[str] = []
    for phase, (one, other) in beside.phase_rows(d):
        if abs(one - other) > _SAME_TIME:
            files = sorted((d.before.files, d.after.files))
            is_telling = phase is Phase.KERNEL_COMPILATION and 2 * files[0] < files[1]
            compiled = f" for {d.before.files:,} {_ARROW} {d.after.files:,} C++ files" if is_telling else ""
            phases.append(f"{words.PHASES[phase]} {seconds(one)} {_ARROW} {seconds(other)}{compiled}")
    told_phases = f": {'; '.join(phases[:_PHASES])}" if phases else ""
    return f"Compile time: {seconds(before.total)} {_ARROW} {seconds(after.total)}{told_phases}"


def call_words(d: RecordingDiff) -> list[str]:
    """Return what one call of the model takes, and its kernels, where both sides were profiled."""
    found = []
    if kernel_time := d.kernel_times:
        found.append(f"Kernels in one call: {told.spent(kernel_time)} ({told.gain(kernel_time)}){told.timed_words(d)}")
    if call := d.call_times:
        found.append(f"One call of the model: {told.spent(call)} ({told.gain(call)}){told.idle(d)}")
    return found
