"""Code as it is: whole lines, cleaned, highlighted where the page has colours."""

from __future__ import annotations

from rich.text import Text

from compiler_lens.render.console.page import Page
from compiler_lens.views.text import clean

_HIGHLIGHTED = 200_000  # characters: more takes pygments longer than a reader waits
_LONGEST_LINE = 2_000


def code_lines(code: str, page: Page, language: str = "python") -> list[Text]:
    """The lines of some code. They are never cut: whoever asks for source wants all of it."""
    text = clean(code).rstrip("\n")
    if page.color and len(text) <= _HIGHLIGHTED and max(map(len, text.split("\n"))) <= _LONGEST_LINE:
        made = list(_highlighted(text, language).split("\n", allow_blank=True))
    else:
        made = [Text(one) for one in text.split("\n")]
    for one in made:
        one.no_wrap, one.overflow = True, "ignore"
    return made


def _highlighted(text: str, language: str) -> Text:
    from rich.syntax import Syntax

    made = Syntax("", language, theme="ansi_dark", background_color="default").highlight(text)
    made.rstrip()
    return made
