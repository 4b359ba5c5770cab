"""Causes in the terms of torch's graph break registry, from the text that torch makes of them."""

from __future__ import annotations

import re

from compiler_lens.recording.model import BreakCause

# unimplemented() in torch/_dynamo/exc.py, for a break that came while handling another one.
_CHAIN = "\n\n*** While handling this graph break, another graph break occurred: ***\n\n"
# format_graph_break_message() there writes the block, augment_exc_message_with_hop_name() the operator. Every line of
# a value but its first is indented by four, so a name after two blanks is never part of a value.
_FIELD = re.compile(r"^  (Higher Order Operator|Explanation|Hint|Developer debug context):(?: |$)", re.MULTILINE)
_BLOCK = re.compile(r"^  Explanation:", re.MULTILINE)
_END = re.compile(r"\n(?=\S| {1,3}\S)")
_LINK = re.compile(r"^ For more details about this graph break, please visit: \S*/gb(\d+)\.html", re.MULTILINE)
_INDENT = "    "


def read_causes(text: str, kind: str = "") -> tuple[BreakCause, ...]:
    """Return all causes that a text names, the root first.

    `kind` is the exception's class, for a cause without a block.
    """
    parts = text.split(_CHAIN)
    kinds = [""] * (len(parts) - 1) + [kind]  # the exception is the last cause
    return tuple(_cause(part, kind) for part, kind in zip(parts, kinds, strict=True))


def is_registered(text: str) -> bool:
    """Return whether a text names its cause in the registry's terms."""
    return _BLOCK.search(text) is not None


def _cause(text: str, kind: str) -> BreakCause:
    block = _BLOCK.search(text)
    if block is None:
        return _cause_of_exception(text.strip(), kind)
    fields: dict[str, list[str]] = {}
    found = list(_FIELD.finditer(text))
    for field, following in zip(found, [*found[1:], None], strict=True):
        value = text[field.end() : following.start() if following else len(text)]
        fields.setdefault(field[1], []).append(_value(value))
    link = _LINK.search(text, block.end())
    return BreakCause(
        # A sentence of Dynamo's may stand before the block; a gb_type is one line.
        text[: found[0].start()].removesuffix("\n").rpartition("\n")[2],
        f"GB{link[1]}" if link else None,
        _first(fields, "Explanation"),
        tuple(fields.get("Hint", ())),
        _first(fields, "Developer debug context"),
        _first(fields, "Higher Order Operator"),
    )


def _cause_of_exception(text: str, kind: str) -> BreakCause:
    """A cause that the registry does not know: torch's own words, whole."""
    first_line = text.partition("\n")[0].strip()
    return BreakCause(": ".join(part for part in (kind, first_line) if part), explanation=text)


def _value(text: str) -> str:
    ends = _END.search(text)
    first, *rest = text[: ends.start() if ends else len(text)].split("\n")
    return "\n".join((first, *(line.removeprefix(_INDENT) for line in rest))).strip()


def _first(fields: dict[str, list[str]], name: str) -> str:
    return next(iter(fields.get(name, ())), "")
