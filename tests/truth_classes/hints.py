"""Which of torch's hints are not printed, or only after words of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.breaks.hints import specific_hints

# Hints that torch gives with each break of a type, and what stands in the line or the context where they are about it.
_ABOUT_OTHERS = {
    "Use `torch.cond`": r"\bif\b|\belif\b",
    "For the common pattern `if": r"^\s*(if|elif)\b",
    "Note: Python `or`/`and`": r"\b(and|or)\b",
    "If you are attempting to call a logging function": r"print|warn|log",
    "If it is a third-party C/C++": r"module: (?!time|<unknown module>)",
}


def unprinted(cards: Iterable[BreakCard], words: str) -> list[str]:
    """Return the specific hints of cards that a view of all breaks does not have before our own words."""
    whole = dict(zip(_numbers(words), _parts(words), strict=True))
    missing = []
    for number, card in enumerate(cards, 1):
        ours = card.remedy.change if card.remedy else card.owner.change
        hints = [hint for hint in specific_hints(card.cause) if not card.owner.harmless and not _may_miss(hint, card)]
        missing += [hint for hint in hints if not _is_printed(whole, number, _searched(hint, card), ours)]
    return missing


def _is_printed(whole: Mapping[int, str], number: int, wanted: str, ours: str) -> bool:
    """Return whether a text stands in a card before ours; or there, that it is as in one above that has it."""
    if printed_first(whole[number], wanted, ours):
        return True
    above = [int(found[1]) for found in re.finditer(r"[Aa]s for break (\d+)", whole[number])]
    named = next((f"As for break {n}." for n in above if n < number and wanted in whole[n]), "")
    return bool(named) and printed_first(whole[number], named, ours)


def printed_first(words: str, wanted: str, ours: str) -> bool:
    """Return whether a text stands there, and before another where that does."""
    at, change = words.find(wanted), words.find(ours) if ours else -1
    return at >= 0 and (change < 0 or at < change)


def _searched(hint: str, card: BreakCard) -> str:
    named = card.setting is not None and card.setting.name.rpartition(".")[2] in hint
    return card.setting.code if named and card.setting else hint.partition(" Consider using an equivalent")[0].strip()


def _may_miss(hint: str, card: BreakCard) -> bool:
    """Whether it is about other lines, or ours begins with the same."""
    code = card.place.code if card.place else ""
    shown = f"{code}\n{card.cause.context}" if hint.startswith("If ") else code
    about = next((pattern for start, pattern in _ABOUT_OTHERS.items() if hint.startswith(start)), None)
    ours = card.remedy.change if card.remedy else ""
    is_same = hint.startswith(("Avoid calling ", "Remove the ")) and ours.startswith("Remove ")
    is_same |= hint.startswith("Use `torch.cond` to") and "`torch.cond`" in ours
    return is_same or (about is not None and re.search(about, shown) is None)


def _numbers(words: str) -> list[int]:
    return [int(number) for number in re.findall(r"^ +(\d+)\. ", words, re.MULTILINE)]


def _parts(words: str) -> list[str]:
    return re.split(r"^ +\d+\. ", words, flags=re.MULTILINE)[1:]
