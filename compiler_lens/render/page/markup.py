"""Elements of a page. All text in them is escaped here."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from compiler_lens.views.text import clean

# Elements after which a line ends: for who reads the page's source, and between lines of code for who copies them.
_APART = frozenset(
    ("p", "pre", "dl", "dd", "li", "ol", "ul", "h1", "h2", "div", "details", "summary", "tr", "table", "ins", "del")
)


def link(text: str, address: str, kind: str) -> Markup:
    """Return a link, or only its text where the address is empty."""
    return Markup('<a class="{}" href="{}">{}</a>').format(kind, address, text) if address else escape(text)


def ticks(text: str) -> Markup:
    """Return text whose backticks mark code."""
    if "`" not in text:
        return text_of(text)
    parts = clean(text).split("`")
    return joined(element("code", escape(part)) if i % 2 else escape(part) for i, part in enumerate(parts))


def beside(summary: str) -> Markup:
    """Return what stands beside a heading."""
    return Markup(" ") + element("span", text_of(summary), "quiet") if summary else Markup()


def text_of(text: str) -> Markup:
    """Return text, clean and escaped."""
    return escape(clean(text))


def element(tag: str, inside: Markup, kind: str = "") -> Markup:
    """Return an element; its name and its class are ours. This is far faster than `Markup.format`."""
    given = f' class="{kind}"' if kind else ""
    end = "\n" if tag in _APART else ""
    return Markup(f"<{tag}{given}>{inside}</{tag}>{end}")  # noqa: S704


def joined(parts: Iterable[Markup]) -> Markup:
    """Return parts that are marked up one after another."""
    return Markup("".join(parts))  # noqa: S704
