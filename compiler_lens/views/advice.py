"""Findings in words: what it is, what it does, what to change. Shared by console, page and JSON; no colours here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard, marked_function
from compiler_lens.facts.breaks.following import Known
from compiler_lens.facts.breaks.hints import Hint, hints_for
from compiler_lens.facts.breaks.raised import failure_of, raised
from compiler_lens.facts.breaks.ranks import Offered, OfferKind, Rank, offered
from compiler_lens.facts.breaks.remedies import remedy_for
from compiler_lens.facts.overview import evidence as kinds
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.overview.unintended import Unintended
from compiler_lens.facts.program.coverage import GENERATOR, Function, FunctionName, Treatment
from compiler_lens.facts.program.owners import Owner, Whose
from compiler_lens.facts.recompiles.causes import RecompileCause, Step
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.facts.recompiles.serving import Stage
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import BreakOutcome, ChildProcess, Compilation, Results, SourceLine, Stance, Tried
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.torch_names import DISPATCH_MODE, TRACING_DISABLED
from compiler_lens.views import words
from compiler_lens.views.doubts import unintended
from compiler_lens.views.parts import At, Part, Parts, Span, Tone, code, quiet, strong
from compiler_lens.views.text import clean, joined, microseconds, one_line, percent, plural, seconds, times

_FROM = 2  # lines that a number comes from
_FIRST, _LAST = 5, 2  # of a long series
_VALUE = 32  # characters
_DIGITS = re.compile(r"\d\.\d{6,}")
# Of one object nothing changed: each has its own value.
INSTANCES = (CauseClass.ANOTHER_MODULE, CauseClass.ANOTHER_INSTANCE)
_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"


class Advice(Struct, frozen=True):
    """A finding for a reader: what to look at, what happens there, what to change."""

    subject: Parts  # "model.py:41" or "`GPT.forward` (model.py:7)"
    code: str = ""  # the line itself
    what: str = ""
    change: str = ""
    instead: tuple[str, ...] = ()  # lines of code to write instead
    setting: str = ""  # the configuration that would do
    offers: tuple[Offered, ...] = ()  # what all that is to be changed by, each with how much is known of it
    after: str = ""  # what breaks next, once this does not
    hints: tuple[Hint, ...] = ()  # what torch itself says to do about it: before anything of ours

    @property
    def rank(self) -> Rank | None:
        """How much is known of the first offer; None where there is none."""
        return self.offers[0].rank if self.offers else None

    @property
    def first(self) -> str:
        """How much is known of what stands first, in words."""
        return ranked(self.offers[0]) if self.offers else ""

    @property
    def is_hinted(self) -> bool:
        """Whether torch names the setting, too: then it stands among its hints."""
        return any(hint.is_setting for hint in self.hints)

    @property
    def others(self) -> tuple[Offered, ...]:
        """The other offers that were tried, but for that which leads."""
        return tuple(offer for offer in self.offers[1:] if offer.tried and offer != self.leads)

    @property
    def leads(self) -> Offered | None:
        """The offer that stands before torch's hints and ours."""
        return leading(self.offers)


def leading(offers: Sequence[Offered]) -> Offered | None:
    """Return the offer that was tried and helped, where what else would stand first was not or did not."""
    helped = [offer for offer in offers if offer.tried and offer.tried.is_better]
    return None if not helped or helped[0] == offers[0] or helped[0].kind is OfferKind.SETTING else helped[0]


def advice(finding: Finding) -> Advice:  # noqa: PLR0911 -- one for each kind
    """The words for one finding."""
    evidence = finding.evidence
    match evidence:
        case BreakCard():
            return _card(evidence)
        case RecompileReport():
            return _report(evidence)
        case kinds.FrameFailed():
            return _failed(evidence)
        case Function():
            return _eager(evidence)
        case kinds.NothingSeen():
            change = (
                "Call what torch.compile made, with `backend=lens`, in a `with` block, or by `compiler-lens run`. It"
                " makes nothing where `TORCHDYNAMO_DISABLE=1` is set, or by torch.compile(…, disable=True)."
            )
            subject = (strong("Nothing entered the compiler:"),)
            return Advice(subject, what="no call of a compiled function was recorded.", change=change)
        case Unintended():
            what, change = unintended(evidence)
            if (at := evidence.place) is None:
                return Advice((strong("A graph"),), "", what, change)
            return Advice((At(at, Tone.STRONG),), one_line(at.code, 120), what, change)
        case _:
            return _silent(evidence) or _others(evidence)


_DISABLED = (
    "`torch._dynamo.config.disable` is True. `TORCH_COMPILE_DISABLE=1` in the environment sets it: unset that, or"
    " set it to False where the program begins."
)
_MODE = (
    "Call it outside of the `with` block of a TorchDispatchMode, such as FlopCounterMode: within one torch compiles"
    " nothing."
)
# torch/_dynamo/convert_frame.py says no more than this, whoever set it.
_ON_AGAIN: Mapping[str, str] = {
    TRACING_DISABLED: _DISABLED,
    DISPATCH_MODE: _MODE,
}
# torch marks the code that it passed over, and looks at it no more (torch/csrc/dynamo/eval_frame_cpp.cpp).
_FOR_GOOD = " That is for good, also for calls that fit what was compiled, until `torch._dynamo.reset()`."


def _eager(function: Function) -> Advice:
    """What runs eagerly though nothing broke it: always, or since torch passed over what was compiled."""
    since = function.treatment is Treatment.PASSED_OVER
    how = "was compiled, and every call since torch passed over it ran eagerly" if since else "runs entirely in eager"
    what = f"{how}: {_reason(function.reason)}.{_FOR_GOOD if since else ''}{_of(function.owner)}"
    change = _ON_AGAIN.get(function.reason.rstrip("."), function.owner.change)
    return Advice(_function(function.name), what=what, change=change)


def _reason(text: str) -> str:
    """torch's reason within a sentence of ours, which has its own full stop."""
    return one_line(text, 200).rstrip(".") or "torch gave no reason"


def _card(card: BreakCard) -> Advice:
    """What to do about a graph break: the rewrite of this very line if there is one, else the remedy, else torch's."""
    setting = card.setting
    if not card.owner.is_yours:
        return _theirs(card)
    return Advice(
        (At(card.place, Tone.STRONG) if card.place else strong("an unknown place"),),
        one_line(card.place.code, 120) if card.place else "",
        f"{why(card)} {sentence(effect(card))}",
        card.remedy.change if card.remedy else one_line(card.hint, 600),
        card.rewrite.after if card.rewrite else (),
        setting.code if setting else "",
        card.offers,
        following(card) if card.unseen else " ".join(next_tried(card)),
        card.hints if card.remedy else (),  # else they are the advice
    )


def _theirs(card: BreakCard) -> Advice:
    """What to do about a break that is not the user's: from their line that leads there, and nothing at a library's."""
    owner, setting, at = card.owner, card.setting, card.owner.line or card.place
    return Advice(
        (At(at, Tone.STRONG) if at else strong("an unknown place"),),
        one_line(at.code, 120) if at else "",
        f"{_where(card)} {why(card)} {sentence(effect(card))}",
        owner.change,
        card.rewrite.after if card.rewrite else (),
        setting.code if setting else "",
        card.offers,
        hints=tuple(hint for hint in card.hints if hint.is_setting),  # the others are for whoever can change that code
    )


def _where(card: BreakCard) -> str:
    """`By design of accelerate's hooks (hooks.py:49).`"""
    inside = card.inside[0] if card.own and card.inside else card.place
    at = f" ({inside.file.rpartition('/')[2]}:{inside.line})" if inside and inside != card.owner.line else ""
    return f"{belongs(card.owner)}{at}."


def belongs(owner: Owner) -> str:
    """`By design of FSDP`, `Inside transformers`."""
    return f"By design of {owner.label}" if owner.whose is Whose.BY_DESIGN else f"Inside {owner.label}"


def _of(owner: Owner) -> str:
    """Return whose it is, as a sentence to add; nothing of what is the user's."""
    return "" if owner.is_yours else f" {belongs(owner)}."


def following(card: BreakCard) -> str:
    """Return what breaks next in the same function once a break is mended; empty where nothing is known of that."""
    if card.place is None:
        return ""
    function = f"`{plain_function(card.place.function)}`"
    said = []
    if unseen := card.unseen:
        lines = f"lines {unseen.first} to {unseen.last}" if unseen.first != unseen.last else f"line {unseen.last}"
        said.append(
            f"Dynamo gave up at line {card.place.line} and never came to {lines} of {function}: what breaks there"
            " shows only after this fix."
        )
    told = list(dict.fromkeys(f"{one.line.line}" for one in card.following if one.known is Known.RECORDED))
    if told:
        lines = f"lines {', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else f"line {told[0]}"
        said.append(f"After this fix {function} still breaks at {lines}.")
    said += next_tried(card)
    return " ".join(said)


def next_tried(card: BreakCard) -> list[str]:
    """Return what came up where an offer was tried, as a sentence."""
    new = list({one.line.line: one.line for one in card.following if one.known is Known.TRIED}.values())
    told = joined([f"line {line.line} (`{one_line(line.code, 48)}`)" for line in new], 3)
    return [f"After this fix it breaks at {told}, as the trial showed."] if new else []


def hinted(hints: Sequence[Hint]) -> Parts:
    """Return torch's hints in torch's words, each with what comes of it; nothing where there are none."""
    parts: list[Part] = []
    for hint in hints:
        parts += [" "] if parts else []
        parts += ["Set ", code(hint.text)] if hint.is_setting else [hint.text]
        parts += [quiet(f" {hint.check}")] if hint.check else []
    return tuple(parts)


_FIGURES = {"eager_functions": "eager functions", "graph_breaks": "graph breaks", "recompiles": "recompiles"}
_RESULTS = {
    Results.EQUAL: "the same results",
    Results.DIFFER: "but other results: do not use it",
    Results.UNKNOWN: "results that could not be compared",
}


_WHOSE = {OfferKind.HINT: "torch's hint", OfferKind.REWRITE: "Your line, rewritten"}


def ranked(offer: Offered) -> str:
    """Return one sentence or two on how much is known of an offer, and what to check before it is used."""
    head = "" if offer.kind is OfferKind.SETTING else "Check before you use it: "
    check = f" {sentence(head + offer.check)}" if offer.check else ""
    if offer.tried:
        return f"{tried_sentence(offer.tried)}{check}"
    if offer.kind is OfferKind.SKETCH:
        return f"A sketch: the rest of it is left to you. {sentence(offer.check)}".rstrip()
    if offer.rank is Rank.SURE:
        return "Sure by rule: it works for any such line, as tests show. Not tried yet."
    whose = _WHOSE.get(offer.kind, "General advice")
    when = " yet" if offer.can_be_tried else ""  # what is only said in words never is
    return f"{whose}; not tried{when}.{check}"


def tried_sentence(trial: Tried) -> str:
    """`Tried on a copy of this program: graph breaks 3 → 1, with the same results.`"""
    others = f", with {plural(trial.beside, 'other change')}" if trial.beside else ""
    head = f"Tried on a copy of this program{others}:"
    if trial.after is None:
        return f"{head} do not use it, it raises {one_line(trial.error, 200)}"
    before, after = trial.before, trial.after
    pairs = [(words, getattr(before, name), getattr(after, name)) for name, words in _FIGURES.items() if before]
    gain = ", ".join(f"{words} {was:,} → {now:,}" for words, was, now in pairs if was != now)
    joint = ", " if trial.results is Results.DIFFER else ", with "
    alone = "" if trial.is_checked else "; other inputs were not tried"
    did = gain or ("it changes nothing" if before else "it compiles")
    return f"{head} {did}{joint}{_RESULTS[trial.results]}{alone}."


def why(card: BreakCard) -> str:
    """Return why the compiler cannot go on there: what an operator raised, and why; in torch's words without ours."""
    if card.owner.means:
        return card.owner.means
    error = raised(card.cause)
    if card.remedy is None:
        return sentence(error or one_line(_for_users(card.cause.explanation), 600) or card.gb_type)
    said = f"{sentence(error)} {card.remedy.why}" if error else card.remedy.why
    from_there = [_of_line(at, card) for at in ((card.computed,) if card.computed else card.taken)]
    return f"{said} It comes from {' and '.join(from_there[:_FROM])}." if from_there else said


def _for_users(explanation: str) -> str:
    """Return what torch explains without what it tells its own developers, as it does for iterators (2.13)."""
    told, _, more = explanation.partition(". Add ")
    return f"{told}." if "to this VariableTracker subclass" in more else explanation


def _of_line(at: SourceLine, card: BreakCard) -> str:
    elsewhere = "" if card.place and at.file == card.place.file else f" of {at.file.rpartition('/')[2]}"
    return f"line {at.line}{elsewhere}: `{one_line(at.code, 80)}`"


def effect(card: BreakCard) -> str:
    """What the breaks of a card do, counted."""
    skipped, rest = card.functions_that(BreakOutcome.SKIPPED_FRAME), card.functions_that(BreakOutcome.SKIPPED_REST)
    cut = card.functions_that(BreakOutcome.SPLIT)
    parts = []
    if skipped:
        parts.append(f"{plural(skipped, 'function')} {'runs' if skipped == 1 else 'run'} entirely in eager")
    if rest:
        parts.append(f"the rest of {plural(rest, 'function')} runs eagerly")
    if cut:
        into = f" into {plural(card.parts, 'part')}" if card.parts > cut else ""
        parts.append(f"{plural(cut, 'function')} {'is' if cut == 1 else 'are'} cut{into}")
    return "; ".join(parts)


def link(card: BreakCard) -> str:
    """torch's own page on this type of break; empty for one without an id."""
    return f"{_SITE}{quote(clean(card.cause.gbid.lower()), safe='')}.html" if card.cause.gbid else ""


def _report(report: RecompileReport) -> Advice:
    """What to do about the recompiles of a function: the fix for what changed most often."""
    cause, first = report.causes[0], report.subjects[0]
    others, spent = len(report.causes) - len(first), sum(one.seconds for one in first)
    more = f"; and for {plural(others, 'other reason')}" if others else ""
    share = f", {seconds(spent)} of it for this" if others and spent else ""
    costliest = max(report.causes, key=lambda one: one.seconds)
    if share and costliest.seconds > spent:
        share += f" and {seconds(costliest.seconds)} for `{one_line(costliest.subject, 40)}`"
    price = f" {seconds(report.seconds)} of recompiling{share}." if report.seconds else ""
    whose = _of(report.owner)
    what = f"was recompiled {often(report.recompiles)}: {changed(*first)}{more}.{whose}{price}"
    for told in (also(report), limit(report), recurred(report) if report.repeats_breaks else "", serving(report)):
        what += f" {sentence(told)}" if told else ""
    if report.follows:
        what += f" {cause.fix.why}"
    change, offers = cause.fix.change, cause.offers
    if report.benign:
        change, offers = cause.fix.leave, ()
    return Advice(_function(report.function), what=what, change=change, offers=offers)


def limit(report: RecompileReport) -> str:
    """Return how near the recompile limit is, or what runs eagerly since it was hit; empty where it is far."""
    if report.limit:
        since = "what fits no compilation runs eagerly since, with all it calls"
        since = "a call that fits no compilation raises since" if report.is_error else since
        usual = report.limit_name == "recompile_limit"
        which = "the recompile limit" if usual else f"`torch._dynamo.config.{report.limit_name}`"
        return f"it hit {which} at [{report.limit}]: {since}"
    if not report.is_near_limit:
        return ""
    used = f"{report.entries:,} of the {report.allowed:,} compilations that torch keeps of it are used"
    return f"{used}: the next call that fits none runs eagerly" if report.entries >= report.allowed else used


def also(report: RecompileReport) -> str:
    """Return what else was another value in each compilation; empty where nothing is known of that."""
    told = [f"`{one_line(name, 80)}`{f' at line {at.line}' if at else ''}" for name, at in report.also]
    verb = "was" if len(told) == 1 else "were"
    return (
        f"{joined(told, 3)} {verb} another value in each compilation, too: torch names the first alone" if told else ""
    )


def serving(report: RecompileReport) -> str:
    """Return `prefill is [0/0], decode is [0/1] and [0/2]`; empty where there are not both."""
    of_stage = grouped(report.stages, lambda one: one[1])
    return "; ".join(
        f"{'one token (decode)' if stage is Stage.DECODE else 'several tokens (prefill)'}: "
        f"{', '.join(f'[{compile_id}]' for compile_id, _ in ids)}"
        for stage, ids in of_stage.items()
    )


def recurred(report: RecompileReport) -> str:
    """Return `the same 2 graph breaks recurred`: breaks of recompilations where the first compilation broke too."""
    several = report.repeats_breaks > 1
    return f"the same {f'{report.repeats_breaks:,} graph breaks' if several else 'graph break'} recurred"


def changed(cause: RecompileCause, *others: RecompileCause) -> str:
    """`x.shape[0]` changed (batch size): 8 → 4 → 1; with the kinds of all causes that are about it."""
    steps = cause.whole_series
    told = series_words(steps) if any(step.value for step in steps) else ""
    return what_changed(cause, *others) + (f": {told}" if told else "")


def what_changed(cause: RecompileCause, *others: RecompileCause) -> str:
    """`x.shape[0]` changed (batch size)."""
    if cause.cause is CauseClass.TORCH_ERROR:
        return "torch found nothing that changed"
    if not (name := one_line(cause.subject, 80)):
        return "torch gave no reason"
    kinds = ", ".join(dict.fromkeys(kind_of(one) for one in (cause, *others) if one.cause is not CauseClass.OTHER))
    verb = "differs" if cause.cause in INSTANCES else "changed"
    return f"{name if ' of the ' in name else f'`{name}`'} {verb}{f' ({kinds})' if kinds else ''}"


def kind_of(cause: RecompileCause) -> str:
    """Return the class of what changed; of one that is about several values, those that came."""
    values = {step.value for step in cause.series}
    if cause.cause is CauseClass.BOOL_OR_NONE and "Tensor" in values:
        return "None or a tensor"
    if cause.objects:
        return f"{cause.cause.value}, {cause.objects:,} of them"
    return cause.cause.value


def series_words(steps: Sequence[Step]) -> str:
    """`8 → 4 → 1`; a long series without its middle, a question mark for a value that nobody told."""
    # A last value that nobody told is that of a call for which torch compiled no more.
    known = steps[:-1] if len(steps) > 2 and not steps[-1].value else steps  # noqa: PLR2004 -- from one to another
    told: list[str] = []
    for step in known:
        text = one_line(_DIGITS.sub(lambda m: m[0][:6], step.value), _VALUE) or "?"
        told.append(f"{text} {times(step.times)}" if step.times > 1 and len(steps) > 1 else text)
    if len(steps) == 1:  # values that look the same, as two functions of one type do
        return f"from one {told[0]} to another"
    if len(told) > _FIRST + _LAST + 1:
        told[_FIRST:-_LAST] = ["…"]
    if len(known) < len(steps):
        told.append("…")
    return " → ".join(told)


def often(count: int) -> str:
    """once, twice, 3 times."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def sentence(text: str) -> str:
    """A text as a sentence: a capital, a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".") if text else ""


def spelled(parts: Parts) -> str:
    """Return a subject as plain text, with its file as it is."""
    return "".join(
        f"{part.place.file}:{part.place.line}" if isinstance(part, At) else part.text
        for part in parts
        if isinstance(part, (At, Span))
    )


def _function(function: FunctionName) -> Parts:
    name = strong(f"`{function.name}`")
    return (name, strong(" ("), At(function, Tone.STRONG), strong(")")) if function.file else (name,)


# The exception of get_cpp_compiler() in torch/_inductor/cpp_builder.py: nothing in the user's code is to be fixed.
_NO_COMPILER = "InvalidCxxCompiler"


def _failed(finding: kinds.FrameFailed) -> Advice:
    failed, card = finding.failed, finding.card
    failure = failure_of(failed)
    reason = raised(failed.failure) or failed.failure.gb_type if failed.failure else finding.frame.reason
    name, at = f"`{finding.frame.name.name}`", finding.inside
    place = None if at else failed.failure_line
    doing = name if failed.door else f"compiling {name}"
    if _NO_COMPILER in reason:
        what = f"Inductor builds CPU kernels with one, and found none when it compiled {name}."
        return Advice((strong("No C++ compiler"),), what=what, change="Install a C++ compiler such as g++.")
    remedy = remedy_for(failure) if failure else None
    hints = hints_for(failure, place.code if place else "", remedy, None) if failure else ()
    also = f" {sentence('it also breaks graphs: ' + effect(card))}" if card else ""
    inside = f" inside {at.file.rpartition('/')[2]}:{at.line}, `{one_line(at.code, 80)}`" if at else ""
    change, hint = remedy.change if remedy else finding.owner.change, one_line(" ".join(one.text for one in hints), 600)
    rewrite = card.rewrite if card else None
    if finding.owner.means and not at:  # the exception is a library's, whose line torch forgot
        what = f"{doing} failed: {sentence(one_line(reason, 200))} {finding.owner.means}{also}"
        subject = (At(place or finding.frame.name, Tone.STRONG),)
        return Advice(subject, one_line(place.code, 120) if place else "", what, finding.owner.change)
    return Advice(
        (At(place or finding.frame.name, Tone.STRONG),),
        one_line(place.code, 120) if place else "",
        f"{doing} failed{inside}: {sentence(one_line(reason, 200))}{also}",
        change or hint,
        rewrite.after if rewrite else (),
        offers=offered(change, hint, rewrite, (), finding.tried),
        hints=hints if remedy else (),
    )


STANCE_CHANGE = 'Remove it where speed counts, or end it with torch.compiler.set_stance("default").'
_STANCES: Mapping[str, str] = {
    "force_eager": "calls of compiled functions run eagerly while it is in force",
    "eager_on_recompile": "calls that fit no compilation so far run eagerly while it is in force",
    "fail_on_recompile": "calls that fit no compilation so far raise while it is in force",
}


def taken(stance: Stance) -> str:
    """Return what a stance does to calls, for a sentence that says who takes it."""
    told = [_STANCES[stance.name]] if stance.name in _STANCES else []
    told += ["guards are not checked"] if stance.skips_guards else []
    told += [f"everything is compiled with `{one_line(stance.backend, 60)}`"] if stance.backend else []
    return f"takes the stance `{one_line(stance.name, 60)}`: {'; '.join(told) or 'calls are compiled later'}."


_SUPPRESSED = "Take away `torch._dynamo.config.suppress_errors = True`, and torch raises the error with its place."


def _uncalled(evidence: kinds.NeverCalled) -> Advice:
    site = evidence.site
    name = site.module or site.defined.function
    subject: Parts = (At(site.place, Tone.STRONG) if site.place else strong(name),)
    if site.is_dropped:
        what = f"gives `{name}` to torch.compile and does nothing with what that returns: "
        what += f"calls of this `{name}` are not compiled."
        if evidence.is_entered:
            what = f"{what[:-1]} by that. Compiled is what another line gave to torch.compile."
        change = "Keep what torch.compile returns, and call that"
        change += ", or compile the module in place: `model.compile()`." if site.module else "."
        return Advice(subject, what=what, change=change)
    if evidence.is_marked:
        what = f"gives `{name}` to torch.compile, but a mark where `{name}` is defined has torch pass over it."
        return Advice(subject, what=what, change="Take one of the two away: the mark, or torch.compile there.")
    if site.is_disabled:
        return Advice(subject, what=f"gives `{name}` to torch.compile, and Dynamo is switched off.", change=_DISABLED)
    if site.is_generator:
        return Advice(subject, what=f"gives `{name}` to torch.compile, which runs eagerly all the same: {GENERATOR}")
    if evidence.children:
        return Advice(subject, what=_elsewhere(name, evidence.children), change=_IN_CHILDREN)
    what = f"gives `{name}` to torch.compile, and no call of what that made entered the compiler."
    return Advice(subject, what=what, change=_to_call(evidence))


def _to_call(evidence: kinds.NeverCalled) -> str:
    """What to call, or to compile, where no call goes through what torch.compile made."""
    site = evidence.site
    change = "Call what torch.compile returned."
    if site.in_place:
        change = "Write `model = torch.compile(model)` in place of `model.compile()`, and call that."
    if not site.methods:
        return change
    methods = ", ".join(f"`{method}`" for method in site.methods)
    one = f"model.{site.methods[0]}"
    past = f"Calls of its methods ({methods}) do not go through it"
    alone = f"compile the method that you call, as by `{one} = torch.compile({one})`"
    if site.in_place or evidence.calls_forward is False:
        return f"{change} {past}: {alone}."
    which = "the forward that they call" if evidence.calls_forward else "the forward, if they call that"
    forward = "`model.forward = torch.compile(model.forward)`"
    return f"{past}: compile {which}, by {forward}, or where that is as `self(…)` by `model.compile()`. Or {alone}."


_IN_CHILDREN = "Record in the process that calls it: with `with compiler_lens.Lens() as lens:` round its calls there."


def _elsewhere(name: str, children: Sequence[ChildProcess]) -> str:
    """That nothing was called here, where it may have been called in processes that nobody recorded."""
    places = list(dict.fromkeys(f"{at.file.rpartition('/')[2]}:{at.line}" for one in children if (at := one.place)))
    started = f" ({joined(places, 3)})" if places else ""
    what = f"gives `{name}` to torch.compile, and no call of what that made entered the compiler in this process. "
    have = "have compiled" if any(one.compiled for one in children) else "may have called it"
    return f"{what}Processes that it started{started} {have}, and are not recorded."


def _suppressed(name: FunctionName, failed: Compilation) -> Advice:
    """A failure that nobody heard of: with torch's op and the user's line, as far as torch said them."""
    said = failed.failure.explanation if failed.failure else failed.reason
    why = f"compiling it failed, and `suppress_errors` hides that: {_reason(said)}."
    remedy = remedy_for(failed.failure) if failed.failure else None
    change = f"{remedy.change} {_SUPPRESSED}" if remedy else _SUPPRESSED
    if (at := failed.failure_line) is None:
        return Advice(_function(name), what=f"runs entirely in eager: {why}", change=change)
    what = f"`{name.name}` runs entirely in eager: {why}"
    return Advice((At(at, Tone.STRONG),), one_line(at.code, 120), what, change)


def _silent(evidence: object) -> Advice | None:
    """What went on without a word of torch's."""
    match evidence:
        case kinds.StanceTaken(stance, calls):
            at = At(stance.place, Tone.STRONG) if stance.place else strong("torch.compiler.set_stance")
            counted = f" So ran {plural(calls, 'call')}." if calls else ""
            return Advice((at,), what=taken(stance) + counted, change=STANCE_CHANGE)
        case kinds.NeverCalled():
            return _uncalled(evidence)
        case kinds.FailureSuppressed(frame, failed):
            return _suppressed(frame.name, failed)
        case kinds.HoldsNothing(function, wrapper):
            what = f"holds nothing that is compiled: `{wrapper}` breaks the graph, and what it wraps runs eagerly."
            change = "Compile before you wrap: `model = torch.compile(model)` first, then DDP or `fully_shard` of that."
            return Advice(_function(function.name), what=what, change=change)
        case kinds.MarkedAway():
            return _marked_away(evidence)
    return None


# Of hooks of all modules torch has no guards at all.
_BEFORE = (
    "Register it before the first call of what torch.compile made, or call `torch.compiler.reset()` once it is"
    " registered: the next call then compiles with it."
)
_HOOK_GUARDS = (
    " Or set `torch._dynamo.config.skip_nnmodule_hook_guards = False` where the program begins: torch then looks for"
    " new hooks at every call, and compiles again for them."
)


def _late_hook(evidence: kinds.HookAfterCompile) -> Advice:
    """A hook that nothing calls: torch leaves out the guards that would find it."""
    modules = joined([f"`{name}`" for name in evidence.modules], 3)
    on = f"on {modules}, which was" if len(evidence.modules) == 1 else f"on {modules}, which were"
    on = on if modules else "for all modules, some of which were"
    does = "puts, without registering it," if evidence.by_hand else "registers"
    what = f"{does} a {evidence.hook} {on} compiled before that: the compiled code does not call it."
    at = At(evidence.place, Tone.STRONG) if evidence.place else strong("The program")
    return Advice((at,), what=what, change=_BEFORE + (_HOOK_GUARDS if modules else ""))


def _marked_away(evidence: kinds.MarkedAway) -> Advice:
    """Nothing is compiled because a mark of the user's says so: where that is, and torch's hint."""
    name, at = evidence.function.name, evidence.mark
    called = f"`{marked_function(evidence.cause)}`" if marked_function(evidence.cause) else "what it calls"
    what = f"`{name.name}` holds nothing that is compiled: "
    what += f"a mark {'here ' if at else ''}keeps {called} out of the compiler."
    hints = hints_for(evidence.cause, at.code if at else "", None, None)
    subject = (At(at, Tone.STRONG),) if at else _function(name)
    change = "Leave torch.compile out where the mark is meant."
    return Advice(subject, one_line(at.code, 120) if at else "", what, change, hints=hints)


def _others(evidence: object) -> Advice:  # noqa: PLR0911 -- one for each kind
    match evidence:
        case kinds.HookAfterCompile():
            return _late_hook(evidence)
        case kinds.CudagraphsSkipped(outcomes):
            stack = outcomes[0].user_stack
            what = f"{plural(len(outcomes), 'graph')} without CUDA graphs: {_reason(outcomes[0].reason)}."
            return Advice((At(stack[-1], Tone.STRONG) if stack else strong("CUDA graphs"),), what=what)
        case kinds.CacheBypassed(layer, outcomes):
            what = f"{plural(len(outcomes), 'graph')} not kept, so every new process compiles again: "
            return Advice((strong(f"{layer.value} cache"),), what=f"{what}{_reason(outcomes[0].reason)}.")
        case kinds.CachedUnder(told, place):
            what = f"comes from a cache, and was traced while `{told.setting}` allowed {one_line(told.then, 80)}: now "
            what += f"{one_line(told.now, 80) or 'nothing'}. torch's key leaves that setting out."
            change = "Set `torch.compiler.config.force_disable_caches = True` for this run, or give it its own cache."
            at = At(place, Tone.STRONG) if place else strong("A graph")
            return Advice((at,), one_line(place.code, 120) if place else "", what, change)
        case kinds.TinyGraphs(function, graphs):
            what = f"fell into {plural(graphs, 'graph')} of three ops or fewer: too small to be worth compiling."
            what, change = what + _of(function.owner), function.owner.change
            change = change or "Take away the graph breaks between them first."
            return Advice(_function(function.name), what=what, change=change)
        case kinds.PhaseDominates(phase, share):
            return Advice(
                (strong("Compile time:"),), what=f"{percent(share, 1)} of it went into {words.PHASES[phase]}."
            )
        case kinds.DeviceIdle(call, idle, mode):
            what = f"waits {percent(idle, call)} of a call, as measured: {microseconds(idle)} of {microseconds(call)}."
            better = "max-autotune" if mode.startswith("max-autotune") else "reduce-overhead"
            change = f'Compile with mode="{better}": CUDA graphs launch the kernels, and the CPU is not waited for.'
            return Advice((strong("The device"),), what=what, change=change)
        case kinds.DisabledOnPurpose(line, owner):
            called = f" in `{plain_function(line.function)}`" if line.function else ""
            kept = "on purpose" if owner.is_yours else f"by {owner.label}"
            what = f"calls a function that is kept out of the compiler {kept}{called}: the graph is cut there."
            return Advice((At(line, Tone.STRONG),), one_line(line.code, 120), what)
        case kinds.Unfinished(frame):
            what = "was still being compiled when the recording ends."
            subject = strong(f"`{frame.name.name}` ("), At(frame.name, Tone.STRONG), strong(")")
            return Advice(subject, what=what, change="Record again to the end.")
    return Advice(())
