"""How good each kernel is: the call, the kernels by what they could gain, what else ran, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from compiler_lens.facts.kernels.kernels import is_generated
from compiler_lens.facts.kernels.launch_costs import Bound
from compiler_lens.facts.kernels.profile_doubts import Doubt
from compiler_lens.facts.kernels.roofline import GroupCost, Roofline, roofline, shares_by_bound
from compiler_lens.facts.overview.profile_part import ProfilePart, profile_part
from compiler_lens.facts.program.select import EVERYTHING, Selection, select_launches, short_name
from compiler_lens.recording.model import Recording
from compiler_lens.render.console.open_page import page_for
from compiler_lens.render.console.page import (
    DIM,
    GOOD,
    PLACE,
    WARN,
    Page,
    command,
    line,
    paragraph,
    render,
    title,
)
from compiler_lens.views.console.profile_table import how_often, names_in, rate, table_lines
from compiler_lens.views.profile_words import BOUNDS, CEILING_TOO_LOW, DOUBTS, TO_DO, note_words
from compiler_lens.views.text import microseconds, number, percent, plural

_OTHERS = 4

_TIMES = "\N{MULTIPLICATION SIGN}"


def profile_report(
    recording: Recording, *, width: int | None = None, color: bool | None = None, path: str = "", part: str = ""
) -> str:
    """The last profile of a recording as text, or a part of it by name.

    `path` is where it can be asked for more, if it is in a file.
    """
    page = page_for(recording, width=width, color=color, path=path)
    return render(profile_lines(recording, select_launches(recording, part) if part else EVERYTHING, page), page)


def profile_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC profile [ID | LINE | MODULE | KERNEL]` shows: the last profile, all kernels or those launches."""
    if not recording.profiles:
        return [
            *paragraph("No profile in this recording: nothing was timed.", page.width, 0),
            *paragraph("in Python: lens.profile(model, x)", page.width, 2, DIM),
            *paragraph("or: compiler-lens profile FILE:FACTORY -o REC", page.width, 2, DIM),
            *paragraph("where FACTORY is a function in FILE: def make(): return model, (x,)", page.width, 2, DIM),
        ]
    found = roofline(recording, recording.profiles[-1])
    part = profile_part(recording, found, selection)
    groups = part.groups if found.is_usable else sorted(part.groups, key=lambda group: -group.total)
    return [
        *_doubts(found, page),
        *_call(found, page),
        *_ceilings(found, page),
        *_bounds(found, groups, page),
        Text(),
        *_named(part, found, page),
        *table_lines(recording, groups, page, usable=found.is_usable),
        *([] if part.named else _others(found, page)),
        *_notes(found, len(recording.profiles), page),
        *_next(found, recording, part, page),
    ]


def profile_head(recording: Recording, page: Page) -> list[Text]:
    """What is said of the last profile beside its table: the call, the device, what to do."""
    if not recording.profiles:
        return []
    found = roofline(recording, recording.profiles[-1])
    return [
        *_doubts(found, page),
        *_call(found, page),
        *_ceilings(found, page),
        *_bounds(found, found.groups, page),
        *_others(found, page),
        *_notes(found, len(recording.profiles), page),
        *(told for one in found.advice for told in paragraph(f"{TO_DO[one]}.", page.width, 2, GOOD)),
    ]


def _call(found: Roofline, page: Page) -> Iterator[Text]:
    profile, parts = found.profile, found.parts
    what = "training step" if profile.training else "call"
    median = f"median of {number(profile.calls)}, quartiles {microseconds(profile.spread)} apart"
    yield title("Profile", f"{microseconds(profile.microseconds)} a {what}, {median}")
    on_cpu = all(group.group.first.device.startswith("cpu") for group in found.groups)
    names = ("kernels", "other ops", "between them") if on_cpu else ("kernels", "other device work", "idle")
    split = zip(names, (parts.kernels, parts.other, parts.idle), strict=True)
    fits = parts.kernels <= parts.total  # else the profiler, or a busy machine, held the kernels up
    shares = ", ".join(
        f"{name} {microseconds(value)}{_of(value, parts.total) if fits else ''}" for name, value in split
    )
    launches = f"{how_often(parts.launches)} {'launch' if parts.launches == 1 else 'launches'}"
    told = f"{launches}; {'' if on_cpu else 'device '}busy {percent(parts.busy_share, 1)}: {shares}"
    yield from paragraph(told, page.width, 2)


def _doubts(found: Roofline, page: Page) -> Iterator[Text]:
    reasons = [DOUBTS[doubt] for doubt in found.doubts if doubt.is_fatal]
    if reasons:
        told = f"These times are not usable: measure again on a quiet machine ({'; '.join(reasons)})"
        yield from paragraph(told, page.width, 0, WARN)
    elif Doubt.CEILING in found.doubts:
        yield from paragraph(CEILING_TOO_LOW, page.width, 0, WARN)


def _ceilings(found: Roofline, page: Page) -> Iterator[Text]:
    ceilings = found.profile.ceilings
    known = []
    if ceilings.bytes_per_second:
        known.append(f"{rate(ceilings.bytes_per_second, 'B/s')} copying")
    known += [f"{rate(most, 'FLOP/s')} {dtype}" for dtype, most in ceilings.flops_per_second.items()]
    if ceilings.launch_microseconds:
        known.append(f"{microseconds(ceilings.launch_microseconds)} the shortest launch")
    if known:
        yield from paragraph(f"{ceilings.device} can do, as measured: {', '.join(known)}", page.width, 2, DIM)


def _bounds(found: Roofline, groups: Sequence[GroupCost], page: Page) -> Iterator[Text]:
    spent = sorted(shares_by_bound(groups).items(), key=lambda pair: -pair[1])
    bounds = ", ".join(f"{BOUNDS[bound]} {microseconds(value)}" for bound, value in spent if bound is not Bound.UNKNOWN)
    if bounds and found.is_usable:
        yield from paragraph(f"kernels are bound by: {bounds}", page.width, 2)


def _named(part: ProfilePart, found: Roofline, page: Page) -> Iterator[Text]:
    """What the table is of, where that is not all."""
    if not part.named:
        return
    spent, gain = sum(g.total for g in part.groups), sum(g.above for g in part.groups)
    above = f", of which {microseconds(gain)} above the floor" if found.is_usable and part.groups else ""
    untimed = f"; {plural(part.untimed, 'launch', 'launches')} without a time" if part.untimed else ""
    counted = f"{plural(len(part.groups), 'kernel')} with {plural(part.launches, 'launch', 'launches')}"
    yield line((part.named, PLACE))
    yield from paragraph(
        f"{counted}, {microseconds(spent)}{_of(spent, found.parts.kernels)} of kernels{above}{untimed}", page.width, 2
    )


def _others(found: Roofline, page: Page) -> Iterator[Text]:
    others = found.others
    if not others:
        return
    listed = ", ".join(f"{o.name} {microseconds(o.microseconds)}{_times(o.runs)}" for o in others[:_OTHERS])
    more = f", {plural(len(others) - _OTHERS, 'more name')}" if len(others) > _OTHERS else ""
    told = f"Not of a kernel: {microseconds(sum(o.microseconds for o in others))} a call: {listed}{more}"
    yield from paragraph(told, page.width, 2, DIM, 3)


def _notes(found: Roofline, profiles: int, page: Page) -> Iterator[Text]:
    notes = [note_words(note) for note in found.profile.notes]
    if not all(group.is_exact for group in found.groups):
        notes.append("~ where times are told by place between neighbours, or bytes by arguments, not by the compiler")
    if profiles > 1:
        notes.append(f"the last of {profiles} profiles in this recording")
    for note in notes:
        yield from paragraph(note, page.width, 2, DIM, 2)


def _next(found: Roofline, recording: Recording, part: ProfilePart, page: Page) -> Iterator[Text]:
    """What to do: of a part only where to go on, advice is on the whole."""
    advised = () if part.named and found.is_usable else found.advice
    yield from [title("Next")] if advised or not part.named else []
    for advice in advised:
        yield from paragraph(f"{TO_DO[advice]}.", page.width, 2, GOOD)
    if not page.target:
        if part.named:
            return
        told = "to go on from here, to one kernel with its source, keep the recording: -o REC, in Python path="
        yield from paragraph(told, page.width, 2)
        return
    with_source = [group.worst.kernel for group in part.groups if is_generated(group.worst.kernel)]
    if with_source:
        yield command(
            "one kernel, with its source: ", page.show(f"kernel {short_name(with_source[0].name, names_in(recording))}")
        )


# -- figures


def _of(value: float, whole: float) -> str:
    return f" ({percent(value, whole)})"


def _times(runs: float) -> str:
    return "" if runs == 1 else f" {_TIMES}{how_often(runs)}"
