"""What a fix says of one cause, in the author's names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.program.uses import Use
from compiler_lens.facts.recompiles.fixes import CauseClass, Fix, fix_table
from compiler_lens.facts.recompiles.written import WORD

OF_TENSOR = re.compile(
    r"(?P<tensor>.+?)\.(?:shape\[|stride\(|storage_offset\(|dtype|device|dim\(|requires_grad)(?P<axis>\d*)"
)
_UNNAMED = re.compile(r".* of (?:the )?(?P<what>(?:\w+ argument|value at line \d+))")
_LONGEST = 200  # characters of torch's message
_LOOP = ": compile the body of the loop, and loop over that"


class Named(Struct, frozen=True):
    """What the words of a fix name."""

    kind: CauseClass
    subject: str  # what changed
    function: str
    values: tuple[str, ...]  # that came, in order, before and after each change
    first: str  # a number that came first
    uses: frozenset[Use]
    line: int | None  # the break that hands it over, or what needs it as a number
    message: str = ""  # torch's, of the first change; empty where it gave none


def worded(fix: Fix, of: Named) -> Fix:
    """Return a fix with the names of a cause filled in."""
    names = _names(of, fix)
    why, change, leave = (text.format(**names) for text in (fix.why, fix.change, fix.leave))
    return replace(fix, why=why, change=change, leave=leave)


def _names(of: Named, fix: Fix) -> dict[str, str]:
    name = tensor = of.subject.removeprefix("global ") or "the value"
    axis = "0"
    if found := OF_TENSOR.match(of.subject):
        tensor, axis = found["tensor"].removesuffix("._base"), found["axis"]
    if unnamed := _UNNAMED.match(of.subject):
        tensor = f"<{unnamed['what']}>"
        axis = next(iter(re.findall(r"\d+", of.subject)), axis)
    classes = list(dict.fromkeys(of.values))
    masked, setting = _masked(of.kind, of.subject), fix.setting.code if fix.setting else ""
    return {
        "value": of.first,
        "uses": " and ".join(sorted(use.value for use in of.uses)),
        "line": "" if of.line is None else str(of.line),
        "loop": f"{_LOOP}{masked}" if Use.LOOP in of.uses else "",
        "masked": masked,
        "setting": setting,
        "unspec": fix_table().unspec.format(setting=setting) if setting else "",
        "name": name,
        "tensor": tensor,
        "axis": axis,
        "list": name.removeprefix("len(").removesuffix(")"),
        "attribute": next(reversed(WORD.findall(name)), name),
        "function": of.function,
        "message": _quoted(of.message),
        "keywords": _came_and_went(of.values),
        "classes": f": it was {' and '.join(classes)}" if len(classes) > 1 else "",
    }


def _quoted(message: str) -> str:
    text = " ".join(message.replace("`", "'").split())
    return f"`{text[:_LONGEST]}{'…' if text[_LONGEST:] else ''}`" if text else "it gave no reason"


def _masked(kind: CauseClass, subject: str) -> str:
    """What else to do where a number is how often a loop runs: what is handed in may be a tensor if no loop asks it."""
    if kind is not CauseClass.INT_ARGUMENT:
        return ""
    return f"; or run the largest count, mask what is too much by `torch.tensor({subject})`, and hand that in"


def _came_and_went(values: Sequence[str]) -> str:
    """Return the keywords that not every call had."""
    sets = [frozenset(text.split(", ")) for text in values]
    some = sorted(
        {keyword for each in sets for keyword in each if any(keyword not in other for other in sets)} - {"none"}
    )
    return f", {', '.join(f'`{keyword}`' for keyword in some)} among them" if some else ""
