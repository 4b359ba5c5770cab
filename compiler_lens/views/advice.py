"""Findings in words: what it is, what it does, what to change. Shared by console, page and JSON; no colours here."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard, Rank, computed_at, specific_hints
from compiler_lens.facts.breaks.remedies import remedy_for
from compiler_lens.facts.overview import evidence as kinds
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.program.coverage import Function, FunctionName
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.reports import RecompileCause, RecompileReport
from compiler_lens.recording.model import BreakOutcome, Results, Stance, Tried
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.views import words
from compiler_lens.views.parts import At, Parts, Span, Tone, strong
from compiler_lens.views.text import clean, microseconds, one_line, percent, plural, seconds, times

_SERIES = 6
_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"


class Advice(Struct, frozen=True):
    """A finding for a reader: what to look at, what happens there, what to change."""

    subject: Parts  # "model.py:41" or "`GPT.forward` (model.py:7)"
    code: str = ""  # the line itself
    what: str = ""
    change: str = ""
    instead: tuple[str, ...] = ()  # lines of code to write instead
    setting: str = ""  # the configuration that would do
    rank: str = ""  # how much is known of it: tried, sure by rule, general


def advice(finding: Finding) -> Advice:
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
            return Advice(_function(evidence.name), what=f"runs entirely in eager: {_reason(evidence.reason)}.")
        case kinds.NothingSeen():
            change = "Call what torch.compile made, with `backend=lens`, in a `with` block, or by `compiler-lens run`."
            subject = (strong("Nothing entered the compiler:"),)
            return Advice(subject, what="no call of a compiled function was recorded.", change=change)
        case _:
            return _silent(evidence) or _others(evidence)


def _reason(text: str) -> str:
    """torch's reason within a sentence of ours, which has its own full stop."""
    return one_line(text, 200).rstrip(".") or "torch gave no reason"


def _card(card: BreakCard) -> Advice:
    """What to do about a graph break: the rewrite of this very line if there is one, else the remedy, else torch's."""
    hint, setting = next(iter(specific_hints(card.cause)), ""), card.setting
    return Advice(
        (At(card.place, Tone.STRONG) if card.place else strong("an unknown place"),),
        one_line(card.place.code, 120) if card.place else "",
        f"{why(card)} {sentence(effect(card))}",
        card.remedy.change if card.remedy else one_line(hint, 600),
        card.rewrite.after if card.rewrite else (),
        f"{setting.name} = {setting.value}" if setting else "",
        ranked(card),
    )


_RANKS = {Rank.SURE: "Not tried, but sure by its rule.", Rank.GENERAL: "General advice, not tried here."}
_FIGURES = {"eager_functions": "eager functions", "graph_breaks": "graph breaks", "recompiles": "recompiles"}
_RESULTS = {
    Results.EQUAL: "the same results",
    Results.DIFFER: "other results",
    Results.UNKNOWN: "results that could not be compared",
}


def ranked(card: BreakCard) -> str:
    """One sentence on how much is known of a card's first offer; empty where it has none."""
    if not (card.rewrite or card.remedy or card.tried):
        return ""
    trial = card.trial_of(card.rewrite) if card.rewrite else next(iter(card.tried), None)
    if trial is None and card.rewrite and card.rank is Rank.GENERAL:
        return "Not tried; it takes more for granted than the recording shows."
    return tried_sentence(trial) if trial else _RANKS[card.rank]


def tried_sentence(trial: Tried) -> str:
    """`Tried: graph breaks 3 → 1, with the same results.`"""
    if trial.after is None:
        return f"Tried: it raises {one_line(trial.error, 200)}"
    before, after = trial.before, trial.after
    pairs = [(words, getattr(before, name), getattr(after, name)) for name, words in _FIGURES.items() if before]
    gain = ", ".join(f"{words} {was:,} → {now:,}" for words, was, now in pairs if was != now)
    return f"Tried: {gain or ('no gain' if before else 'it compiles')}, with {_RESULTS[trial.results]}."


def why(card: BreakCard) -> str:
    """One sentence on why the compiler cannot go on there; torch's own words where we have none."""
    if card.remedy is None:
        return sentence(one_line(card.cause.explanation, 600) or card.gb_type)
    if (at := computed_at(card)) is None:
        return card.remedy.why
    elsewhere = "" if card.place and at.file == card.place.file else f" of {at.file.rpartition('/')[2]}"
    return f"{card.remedy.why} It comes from line {at.line}{elsewhere}: `{one_line(at.code, 80)}`."


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
    cause = report.causes[0]
    others = len(report.causes) - 1
    more = f"; and for {plural(others, 'other reason')}" if others else ""
    limit = " It hit the recompile limit: calls that fit no compilation so far run eagerly." if report.limit else ""
    price = f" {seconds(report.seconds)} of recompiling." if report.seconds else ""
    what = f"was recompiled {often(report.recompiles)}: {changed(cause)}{more}.{price}{limit}"
    if report.repeats_breaks:
        what += f" {sentence(recurred(report))}"
    return Advice(_function(report.function), what=what, change=cause.fix.leave if report.benign else cause.fix.change)


def recurred(report: RecompileReport) -> str:
    """Return `the same 2 graph breaks recurred`: breaks of recompilations where the first compilation broke too."""
    several = report.repeats_breaks > 1
    return f"the same {f'{report.repeats_breaks:,} graph breaks' if several else 'graph break'} recurred"


def changed(cause: RecompileCause) -> str:
    """`x.shape[0]` changed (batch size): 8 → 4 → 1."""
    if not (name := one_line(cause.subject, 80)):
        return f"torch gave no reason{_series(cause)}"
    kind = "" if cause.cause is CauseClass.OTHER else f" ({kind_of(cause)})"
    return f"{name if ' of the ' in name else f'`{name}`'} changed{kind}{_series(cause)}"


def kind_of(cause: RecompileCause) -> str:
    """Return the class of what changed; of one that is about several values, those that came."""
    values = {step.value for step in cause.series}
    if cause.cause is CauseClass.BOOL_OR_NONE and "Tensor" in values:
        return "None or a tensor"
    return cause.cause.value


def _series(cause: RecompileCause) -> str:
    """`: 8 → 4 → 1`, what repeats with its count."""
    told: list[str] = []
    for step in cause.series[:_SERIES]:
        several = f" {times(step.times)}" if step.times > 1 else ""
        told.append(f"{one_line(step.value, 32)}{several}" if step.value else "?")
    more = " → …" if len(cause.series) > _SERIES else ""
    return f": {' → '.join(told)}{more}" if told else ""


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
    failed, card = kinds.failed_compilation(finding.frame), finding.card
    reason = failed.failure.gb_type if failed.failure else finding.frame.reason
    name, place = f"`{finding.frame.name.name}`", failed.failure_line
    doing = name if failed.door else f"compiling {name}"
    if _NO_COMPILER in reason:
        what = f"Inductor builds CPU kernels with one, and found none when it compiled {name}."
        return Advice((strong("No C++ compiler"),), what=what, change="Install a C++ compiler such as g++.")
    remedy = remedy_for(failed.failure) if failed.failure else None
    hints = specific_hints(failed.failure) if failed.failure else ()
    also = f" {sentence('it also breaks graphs: ' + effect(card))}" if card else ""
    return Advice(
        (At(place or finding.frame.name, Tone.STRONG),),
        one_line(place.code, 120) if place else "",
        f"{doing} failed: {sentence(one_line(reason, 200))}{also}",
        remedy.change if remedy else one_line(hints[0], 600) if hints else "",
        card.rewrite.after if card and card.rewrite else (),
    )


_STANCE_CHANGE = (
    'Remove it where speed counts, or end it with torch.compiler.set_stance("default"); torch keeps no count of the'
    " calls that it changes."
)
_STANCES: Mapping[str, str] = {
    "force_eager": "calls of compiled functions run eagerly while it is in force",
    "eager_on_recompile": "calls that fit no compilation so far run eagerly while it is in force",
    "fail_on_recompile": "calls that fit no compilation so far raise while it is in force",
}


def _stance(stance: Stance) -> str:
    """What a stance does to calls."""
    told = [_STANCES[stance.name]] if stance.name in _STANCES else []
    told += ["guards are not checked"] if stance.skips_guards else []
    told += [f"everything is compiled with `{one_line(stance.backend, 60)}`"] if stance.backend else []
    return f"takes the stance `{one_line(stance.name, 60)}`: {'; '.join(told) or 'calls are compiled later'}."


def _silent(evidence: object) -> Advice | None:
    """What went on without a word of torch's."""
    match evidence:
        case kinds.StanceTaken(stance):
            at = At(stance.place, Tone.STRONG) if stance.place else strong("torch.compiler.set_stance")
            return Advice((at,), what=_stance(stance), change=_STANCE_CHANGE)
        case kinds.NeverCalled(site):
            name = site.module or site.defined.function
            what = f"gives `{name}` to torch.compile, and no call of what that made entered the compiler."
            change = "Call what torch.compile returned."
            if site.in_place:
                change = "Write `model = torch.compile(model)` in place of `model.compile()`, and call that."
            if site.methods:
                methods = ", ".join(f"`{method}`" for method in site.methods)
                change += f" Calls of its methods ({methods}) do not go through it: compile what they call by "
                change += "`model.forward = torch.compile(model.forward)`, or the method itself."
            return Advice((At(site.place, Tone.STRONG) if site.place else strong(name),), what=what, change=change)
        case kinds.FailureSuppressed(frame, reason):
            what = f"runs entirely in eager: compiling it failed, and `suppress_errors` hides that: {_reason(reason)}."
            change = (
                "Take away `torch._dynamo.config.suppress_errors = True`, and torch raises the error with its place."
            )
            return Advice(_function(frame.name), what=what, change=change)
        case kinds.HoldsNothing(function, wrapper):
            what = f"holds nothing that is compiled: `{wrapper}` breaks the graph, and what it wraps runs eagerly."
            change = "Compile before you wrap: `model = torch.compile(model)` first, then DDP or `fully_shard` of that."
            return Advice(_function(function.name), what=what, change=change)
    return None


def _others(evidence: object) -> Advice:  # noqa: PLR0911 -- one for each kind
    match evidence:
        case kinds.CudagraphsSkipped(outcomes):
            stack = outcomes[0].user_stack
            what = f"{plural(len(outcomes), 'graph')} without CUDA graphs: {_reason(outcomes[0].reason)}."
            return Advice((At(stack[-1], Tone.STRONG) if stack else strong("CUDA graphs"),), what=what)
        case kinds.CacheBypassed(layer, outcomes):
            what = f"{plural(len(outcomes), 'graph')} not kept, so every new process compiles again: "
            return Advice((strong(f"{layer.value} cache"),), what=f"{what}{_reason(outcomes[0].reason)}.")
        case kinds.TinyGraphs(function, graphs):
            what = f"fell into {plural(graphs, 'graph')} of three ops or fewer: too small to be worth compiling."
            return Advice(_function(function.name), what=what, change="Take away the graph breaks between them first.")
        case kinds.PhaseDominates(phase, share):
            return Advice(
                (strong("Compile time:"),), what=f"{percent(share, 1)} of it went into {words.PHASES[phase]}."
            )
        case kinds.DeviceIdle(call, idle, mode):
            what = f"waits {percent(idle, call)} of a call, as measured: {microseconds(idle)} of {microseconds(call)}."
            better = "max-autotune" if mode.startswith("max-autotune") else "reduce-overhead"
            change = f'Compile with mode="{better}": CUDA graphs launch the kernels, and the CPU is not waited for.'
            return Advice((strong("The device"),), what=what, change=change)
        case kinds.DisabledOnPurpose(line):
            called = f" in `{plain_function(line.function)}`" if line.function else ""
            what = f"calls a function that is kept out of the compiler on purpose{called}: the graph is cut there."
            return Advice((At(line, Tone.STRONG),), one_line(line.code, 120), what)
        case kinds.Unfinished(frame):
            what = "was still being compiled when the recording ends."
            subject = strong(f"`{frame.name.name}` ("), At(frame.name, Tone.STRONG), strong(")")
            return Advice(subject, what=what, change="Record again to the end.")
    return Advice(())
