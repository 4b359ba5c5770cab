"""How much is known of what is offered: tried on the program, sure by its rule, or general advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Rewrite, Setting
from compiler_lens.recording.model import Tried


class Rank(Enum):
    """How much is known of an offer."""

    TRIED = "tried"  # on a copy of this program
    SURE = "sure_by_rule"  # the line alone shows all that the rule needs, and tests have tried the rule
    GENERAL = "general"  # it usually helps with this kind


class OfferKind(Enum):
    """What an offer is."""

    REWRITE = "rewrite"  # lines to write in place of the user's
    SKETCH = "sketch"  # the same, with a part left to the user
    SETTING = "setting"  # of torch's, to make where the program begins
    WORDS = "words"  # what to do, without code
    HINT = "hint"  # the same, as torch says it of this event


class Offered(Struct, frozen=True):
    """Something to change, and how much is known of it."""

    kind: OfferKind
    rank: Rank
    change: str  # the lines to write, the setting, or what to do
    check: str = ""  # what it counts on, or costs
    tried: Tried | None = None  # what it did, made by itself in a copy of the program

    @property
    def can_be_tried(self) -> bool:
        """Whether it is code, and has not been tried."""
        return self.tried is None and self.kind in {OfferKind.REWRITE, OfferKind.SETTING}


def offered(
    words: str, hint: str, rewrite: Rewrite | None, settings: Sequence[Setting], tried: Sequence[Tried]
) -> tuple[Offered, ...]:
    """Return what is offered: the rewrite of the lines, else what to do in words; the settings; what else was tried.

    Args:
        words: our advice on this kind of thing.
        hint: torch's on this event, for where we have none.
        rewrite: what to write in place of the lines.
        settings: under which the same code would do.
        tried: what was made in copies of the program for it.
    """
    trials = {one.code: one for one in tried}
    found = list(_code(rewrite, settings, trials))
    if rewrite is None and (words or hint):
        found.insert(0, Offered(OfferKind.WORDS if words else OfferKind.HINT, Rank.GENERAL, words or hint))
    return tuple(found)


def _code(rewrite: Rewrite | None, settings: Sequence[Setting], trials: dict[str, Tried]) -> Iterator[Offered]:
    if rewrite:
        code = "\n".join(rewrite.after)
        kind = OfferKind.REWRITE if rewrite.is_complete else OfferKind.SKETCH
        is_sure = rewrite.is_complete and not rewrite.needs
        yield _ranked(Offered(kind, Rank.SURE if is_sure else Rank.GENERAL, code, rewrite.needs), trials)
    for setting in settings:
        code = setting.code
        yield _ranked(Offered(OfferKind.SETTING, Rank.GENERAL, code, setting.price), trials)
    for code, one in trials.items():
        kind = OfferKind.SETTING if code.startswith("torch._dynamo.config.") else OfferKind.REWRITE
        yield Offered(kind, Rank.TRIED, code, tried=one)


def _ranked(offer: Offered, trials: dict[str, Tried]) -> Offered:
    one = trials.pop(offer.change, None)
    return Offered(offer.kind, Rank.TRIED, offer.change, offer.check, one) if one else offer
