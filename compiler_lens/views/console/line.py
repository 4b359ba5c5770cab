"""What became of a line, or of a module: its ops, its kernels of both passes, and what else is in those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from compiler_lens.facts.kernels.kernel_rows import Costs
from compiler_lens.facts.kernels.lineage import LaunchMatch, Role
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.line_story import Fate, LineStory, line_rows, line_story
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CompileId, Recording, Trust
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import CODE, DIM, PLACE, WARN, Page, command, joined, line, paragraph, title
from compiler_lens.views import words
from compiler_lens.views.console.lineage import modules_text
from compiler_lens.views.profile_words import UNUSABLE
from compiler_lens.views.text import microseconds, plural, times

_OPS = 8
_KERNELS = 16
_SHARES = 6


def line_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC line FILE:N` and `show REC line MODULE` show."""
    own = Ownership.of(selection.user_paths)
    if not selection.place:
        return _every_line(Provenance.of(recording, own), page)
    story = line_story(recording, Provenance.of(recording, own), selection.place, own)
    lines = [_heading(story, page), *ops_lines(story, page)]
    if words.FATES[story.fate]:
        lines += paragraph(words.FATES[story.fate], page.width, 2)
    costs = Costs.of(recording)
    for name, backward in (("forward", False), ("backward", True)):
        lines += _kernels(costs, name, story.of_pass(backward=backward), page)
    if story.launches and not costs.is_usable:
        lines += paragraph(UNUSABLE, page.width, 2, WARN)
    lines += inside_lines(story, page)
    lines += _shares(story, page)
    lines += [*_doubt(story, page), *_unknown(story, page)]
    if story.launches:
        lines += [Text(), command("one of them: ", page.show(f"kernel {story.launches[0].lineage.kernel.name}"))]
    return lines


def _every_line(provenance: Provenance, page: Page) -> list[Text]:
    rows = line_rows(provenance)
    if not rows:
        return [line("No kernel here leads to a line.")]
    columns = (
        Column("line", style=PLACE),
        Column("forward", right=True),
        Column("backward", right=True),
        Column(style=CODE, flexible=True),
    )
    cells = [(page.at(row.line), _count(row.forward), _count(row.backward), row.line.code.strip()) for row in rows]
    lines = [title("Lines", f"{plural(len(rows), 'line')} with launches"), *table(columns, cells, page.width)]
    most = max(rows, key=lambda row: row.forward + row.backward).line
    return [*lines, Text(), command("one of them: ", page.show(f"line {page.name(most)}"))]


def _count(count: int) -> str:
    return f"{count:,}" if count else ""


def _heading(story: LineStory, page: Page) -> Text:
    if story.asked.module:
        kinds = dict.fromkeys(op.module_type for op in story.ops if op.module == story.asked.module and op.module_type)
        return line((story.asked.module, PLACE), (f"  {', '.join(kinds)}", DIM))
    made = line((f"{page.path(story.asked.file)}:{story.asked.line}", PLACE), (f"  {story.code}", CODE))
    made.truncate(page.width, overflow="ellipsis")
    return made


def ops_lines(story: LineStory, page: Page) -> list[Text]:
    """The torch ops of the line, and what they became."""
    if not story.ops:
        return []
    called = "" if story.asked.found.direct else " in what it calls"
    by_compilation: dict[CompileId, list[str]] = {}
    for op in story.ops:
        by_compilation.setdefault(op.compile_id, []).append(op.target)
    targets = next(iter(by_compilation.values()))
    alike = all(other == targets for other in by_compilation.values())
    targets = targets if alike else [op.target for op in story.ops]
    several = (
        f" in {'each of' if alike else 'all'} {len(by_compilation):,} compilations" if len(by_compilation) > 1 else ""
    )
    lines = _counted(f"{plural(len(targets), 'torch op')}{called}{several}: ", targets, page)
    modules = modules_text((op.module for op in story.ops if op.module), 4)
    if modules and not story.asked.module:
        lines += paragraph(line(("of ", DIM), modules), page.width, 4, "", 2)
    for told, passed in (("forward: ", [op for d in story.decompositions for op in d.forward]),
                         ("backward: ", [op for d in story.decompositions for op in d.backward])):  # fmt: skip
        lines += _counted(f"ATen {told}", passed, page) if passed else []
    return lines


def _counted(told: str, targets: Sequence[str], page: Page) -> list[Text]:
    names = Counter(words.op_name(target) for target in targets if target)
    shown = [f"{name} {times(n)}" if n > 1 else name for name, n in names.most_common(_OPS)]
    more = f", {len(names) - _OPS} more" if len(names) > _OPS else ""
    return paragraph(line((told, DIM), (", ".join(shown) + more, CODE)), page.width, 2, "", 2)


def _kernels(costs: Costs, name: str, matches: Sequence[LaunchMatch], page: Page) -> list[Text]:
    """One row for each kernel, with its launches for this line and how much of them is of it."""
    if not matches:
        return []
    by_kernel: dict[int, list[LaunchMatch]] = {}
    for match in sorted(matches, key=is_only_views):
        by_kernel.setdefault(match.lineage.index, []).append(match)
    whole = costs.microseconds(match.lineage for match in matches if not is_only_views(match))
    counts = f"{plural(len(by_kernel), 'kernel')}, {plural(len(matches), 'launch', 'launches')}"
    counts += f", {microseconds(whole)} in all" if whole is not None else ""
    rows = []
    for members in by_kernel.values():
        took = costs.microseconds(match.lineage for match in members if not is_only_views(match))
        told = "" if took is None else microseconds(took)
        rows.append((members[0].lineage.kernel.name, launches_words(members), share_words(members), told))
    columns = (Column(flexible=True, middle=True), Column(style=DIM), Column(), Column(right=True))
    lines = [
        Text(),
        line((name, PLACE), (f"  {counts}", DIM), indent=2),
        *table(columns, rows[:_KERNELS], page.width, 4),
    ]
    more = len(rows) - _KERNELS
    return lines + ([line((f"… {plural(more, 'kernel')} more with --json", DIM), indent=4)] if more > 0 else [])


def is_only_views(match: LaunchMatch) -> bool:
    """Whether the launch computes nothing of it, but reads it in another shape."""
    return all(traced.is_view for traced in match.nodes)


def launches_words(members: Sequence[LaunchMatch]) -> str:
    """How many of a kernel's launches."""
    whole = len(members[0].lineage.kernel.launches)
    return f"{len(members)} of {plural(whole, 'launch', 'launches')}" if whole > 1 else ""


def share_words(members: Sequence[LaunchMatch]) -> str:
    """Of the ops of these launches, how many are of the line; views count as nothing."""
    own = sum(not traced.is_view for match in members for traced in match.nodes)
    whole = sum(not traced.is_view for match in members for traced in match.lineage.nodes)
    if not own:
        return "only views"
    roles = {match.role for match in members}
    part = "all of it" if own == whole else f"{own} of {whole} ops"
    again = {Role.RECOMPUTES: ", recomputed", Role.FEEDS: ", feeds it"}
    return part + (again.get(roles.pop(), "") if len(roles) == 1 else "")


def inside_lines(story: LineStory, page: Page) -> list[Text]:
    """What works only for what is called on the line."""
    if not story.inside:
        return []
    modules = modules_text((op.module for op in story.asked.found.calls if op.module), 3)
    told = f"what is called here has {plural(len(story.inside), 'launch', 'launches')} more"
    return [Text(), *paragraph(line(told, (f": {modules}" if modules else "", DIM)), page.width, 2)]


def _shares(story: LineStory, page: Page) -> list[Text]:
    if not story.shares:
        return []
    lines = [Text(), line(("in the same launches", PLACE), indent=2)]
    columns = (Column(style=PLACE), Column(style=DIM), Column(style=CODE, flexible=True))
    rows = [(page.at(at), plural(n, "launch", "launches"), at.code.strip()) for at, n in story.shares]
    lines += table(columns, rows[:_SHARES], page.width, 4)
    more = len(rows) - _SHARES
    return lines + ([line((f"… {plural(more, 'line')} more with --json", DIM), indent=4)] if more > 0 else [])


def _unknown(story: LineStory, page: Page) -> list[Text]:
    if not story.unknown:
        return []
    names = [f"{kernel.name} in [{kernel.compile_id}]" for kernel in story.unknown]
    told = "kernels of the same compilation that lead to no line, and may be of this one: "
    return paragraph(line((told, DIM), joined(names, _SHARES)), page.width, 2, "", 3)


def _doubt(story: LineStory, page: Page) -> list[Text]:
    doubtful = sum(match.trust is Trust.TEXT for match in story.launches)
    if not doubtful or story.fate is not Fate.KERNELS:
        return []
    whose = "these links are" if doubtful == len(story.launches) else f"{doubtful:,} of these links are"
    return paragraph(f"{whose} {words.TRUST[Trust.TEXT]}", page.width, 2, DIM)
