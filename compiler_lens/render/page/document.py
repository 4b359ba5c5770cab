"""A Document as a part of the page: what is read stands there as text, tables are data for the script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape
from msgspec import Struct, field

from compiler_lens.render.figures import written
from compiler_lens.render.page.comparison import comparison_data
from compiler_lens.render.page.links import PageLinks
from compiler_lens.render.page.pool import Pool
from compiler_lens.views import document as doc
from compiler_lens.views import parts
from compiler_lens.views.document import Document
from compiler_lens.views.parts import Kind, Tone
from compiler_lens.views.text import clean, one_line, readable, seconds

_PLAIN = doc.Column()
# Elements after which a line ends: for who reads the page's source, and between lines of code for who copies them.
_APART = frozenset(
    ("p", "pre", "dl", "dd", "li", "ol", "ul", "h1", "h2", "div", "details", "summary", "tr", "table", "ins", "del")
)
_LONGEST_TEXT = 2_000
_LONGEST_LINE = 400  # characters of a line of code
_STEPS = {Tone.BAD: "high", Tone.WARN: "medium", Tone.QUIET: "info"}
_LINKS: dict[type, str] = {
    parts.At: "place",
    parts.Compiled: "id",
    parts.KernelName: "name mono",
    parts.ToView: "to",
}


class DocumentPart(Struct, frozen=True):
    """One view's part of the page: its text, and the tables that the script makes in it."""

    title: str
    count: int | None
    html: Markup
    tables: tuple[dict[str, Any], ...]


def document_part(
    view: str, title: str, document: Document, links: PageLinks, pool: Pool | None = None
) -> DocumentPart:
    """Return the part of the page that shows a view's document; addresses call it `view`.

    With a `pool`, code goes there, and is shown by the script; what compares two texts needs one.
    """
    writer = _Writer(view, links, pool)
    inside = _joined(writer.top(title, document.blocks))
    has_head = any(isinstance(block, doc.Verdict) for block in document.blocks)
    head = Markup() if has_head else Markup("<h1>{}</h1>\n").format(title)
    html = Markup('<section class="view" id="view-{}">\n{}{}</section>\n').format(view, head, inside)
    whole = Markup(clean(html))  # noqa: S704 -- addresses and attributes, too: what the script gets is cleaned as it is packed
    return DocumentPart(title, document.count, whole, tuple(writer.tables))


def drawn_part(view: str, document: Document, links: PageLinks, pool: Pool) -> dict[str, Any]:
    """Return a document for the script, which draws it when it is first looked at; code goes to the pool of texts."""
    writer = _Writer(view, links, pool)
    return {"html": writer.blocks(document.blocks), "tables": writer.tables}


class _Writer(Struct):
    view: str
    links: PageLinks
    pool: Pool | None = None  # where code goes that the script shows
    tables: list[dict[str, Any]] = field(default_factory=list)

    def top(self, title: str, blocks: Sequence[doc.Block]) -> Iterable[Markup]:
        for block in blocks:
            if isinstance(block, doc.Section) and block.title == title:  # which stands above it already
                yield _element("p", _element("span", _text_of(block.summary)), "figures")
                yield self.blocks(block.blocks)
            else:
                yield self._block(block)

    def blocks(self, blocks: Sequence[doc.Block]) -> Markup:
        return _joined(self._block(block) for block in blocks)

    def _block(self, block: doc.Block) -> Markup:  # noqa: C901, PLR0911, PLR0912 -- one for each type of block
        match block:
            case doc.Gap() | doc.Command() | doc.Annotated():
                return Markup()  # commands are for who reads this on a terminal; render/page/page.py has files
            case doc.Line(note=note) if note:
                line = _element("span", self._inline(block.parts)) + _element("span", self._inline(note), "chip")
                return _element("p", line, "head")
            case doc.Line():
                return _element("p", self._inline(block.parts))
            case doc.Paragraph():
                return _element("p", self._inline(block.parts), block.tone.value)
            case doc.Quoted():
                quoted = one_line(block.text, _LONGEST_TEXT)
                return _element("p", escape(quoted), block.tone.value) if quoted else Markup()
            case doc.Table():
                if block.beneath or block.is_short:
                    return self._standing(block)
                return self._drawn("later", block.title or "table", self._data(block))
            case doc.Fields():
                ranked = sorted(block.fields, key=lambda one: not one.is_action)
                rows = (_element("dt", _text_of(one.label)) + _element("dd", self.blocks(one.blocks)) for one in ranked)
                return _element("dl", _joined(rows))
            case doc.Excerpt():
                lines = []
                for number, text in enumerate(block.lines, block.first):
                    code = escape(clean(text)[:_LONGEST_LINE])
                    if number == block.marked and block.columns:
                        code = _underlined(clean(text)[:_LONGEST_LINE], *block.columns)
                    line = _element("i", _text_of(str(number))) + code
                    lines.append(_element("span", line, "hit" if number == block.marked else ""))
                return _element("pre", _joined(lines), "code numbered")
            case doc.Change():
                lines = [_element("del", _text_of(text)) for text in block.before]
                lines += [_element("ins", _text_of(text)) for text in block.after]
                return _element("pre", _joined(lines), "code swap")
            case doc.Listing():
                if self.pool is None:
                    return _element("pre", escape(clean(block.code)), "code")
                later = Markup('<div class="later" data-text="{}-{}" data-language="{}"></div>\n')
                return later.format(*self.pool.add(block.code), block.language)
            case doc.Comparison():
                if self.pool is None:
                    raise TypeError("a comparison needs a pool for its texts")
                data = {"both": comparison_data(block, self.pool)}
                return self._drawn("later", "code, before and after", data)
            case doc.Tree():
                return self._branches(block.branches, "ol" if block.is_counted else "ul")
            case doc.Tiles():
                tiles = []
                for one in block.tiles:
                    value = _element("dd", self._part(one.value) + _beside(one.note))
                    tiles.append(_element("div", _element("dt", _text_of(one.label)) + value))
                return _element("dl", _joined(tiles), "tiles") if tiles else Markup()
            case doc.Lead():
                return _element("div", self.blocks(block.blocks), "lead")
            case doc.Card():
                return self._card(block)
            case doc.Steps():
                steps = [(f"step {_STEPS.get(step.tone, '')}", self.blocks(step.blocks)) for step in block.steps]
                items = _joined(_element("li", inside, kind) for kind, inside in steps)
                return _element("ol" if block.is_counted else "ul", items, "steps")
            case doc.Verdict():
                return _element("h1", _text_of(block.news) + self._inline(block.rest), f"verdict {block.tone.value}")
            case doc.KeyFigures():
                return _element("p", _joined(_element("span", self._part(part)) for part in block.figures), "figures")
            case doc.Columns():
                return _element("div", _joined(_element("div", self._block(one)) for one in block.sections), "columns")
            case doc.Aside():
                return _element("details", _element("summary", _text_of(block.title)) + self.blocks(block.blocks))
            case doc.Fold():
                head = _element("summary", self._inline(block.head) + _beside(block.summary))
                return _element("details", head + self.blocks(block.blocks))
            case doc.Timeline():
                return self._drawn("strip later", "compilations in order", {"strip": _timeline(block)})
            case doc.Section():
                head = _element("h2", _text_of(block.title) + _beside(block.summary)) if block.title else Markup()
                return head + self.blocks(block.blocks)

    def _card(self, card: doc.Card) -> Markup:
        note = Markup(" ") + _element("span", self._inline(card.note), "chip") if card.note else Markup()
        head, inside = self._inline(card.head) + note, self.blocks(card.blocks)
        if not card.number:
            return _element("div", _element("p", head, "head") + inside, "chapter")
        counted = _element("span", _text_of(f"{card.number}."), "quiet") + Markup(" ") if card.is_counted else Markup()
        article = Markup('<article class="card" id="{}-{}">\n{}{}</article>\n')
        return article.format(self.view, card.number, _element("h2", counted + head), inside)

    def _branches(self, branches: Sequence[doc.Branch], tag: str = "ul") -> Markup:
        items = (_element("li", self._inline(one.parts) + self._branches(one.children)) for one in branches)
        return _element(tag, _joined(items), "tree") if branches else Markup()

    def _drawn(self, kind: str, name: str, data: dict[str, Any]) -> Markup:
        """Where the script puts a table, or what else it draws."""
        self.tables.append(data)
        place = Markup('<div class="{}" data-table="{}" data-of="{}" aria-label="{}"></div>\n')
        return place.format(kind, len(self.tables) - 1, self.view, clean(name))

    # -- parts of a line

    def _inline(self, given: parts.Parts) -> Markup:
        return _joined(self._part(part) for part in given)

    def _part(self, part: parts.Part) -> Markup:
        if isinstance(part, str):
            return _ticks(part)
        if isinstance(part, parts.Places):
            return Markup(", ").join(_link(text, address, "place") for text, address in self._lines(part))
        told, address = self._told(part)
        if isinstance(part, parts.Span) and part.tone is Tone.CODE:
            return _element("code", escape(told))
        if isinstance(part, parts.Web):
            return Markup('<a href="{}" rel="noreferrer noopener" target="_blank">{}</a>').format(address, told)
        if address:
            return _link(told, address, _LINKS[type(part)])
        text = _ticks(told) if isinstance(part, parts.Span) else escape(told)
        return _element("span", text, part.tone.value) if part.tone is not Tone.PLAIN else text

    def _told(self, part: parts.Part) -> tuple[str, str]:  # noqa: C901, PLR0911 -- one for each type of part
        """How a part is written, and where it leads to."""
        match part:
            case str():
                return readable(part), ""
            case parts.Span():
                return readable(part.text), ""
            case parts.At(place=place):
                return self.links.at(place), self.links.href(place)
            case parts.Places():
                return ", ".join(text for text, _ in self._lines(part)), ""
            case parts.File():
                return readable(self.links.names.file(part.path)), ""
            case parts.Compiled():
                return f"[{part.compile_id}]", self.links.graph(part.compile_id)
            case parts.KernelName():
                return readable(part.name), self.links.kernel_at(part.index)
            case parts.ToView(view=view, card=card):
                return readable(part.words), f"#/{view}/{card}" if card else f"#/{view}"
            case parts.Web():
                return clean(part.title), part.address
            case parts.RecordingName():
                return clean(self.links.target), ""
            case parts.Figure():
                return ("~" if part.about else "") + written(part.value, part.kind), ""

    def _lines(self, part: parts.Places) -> tuple[tuple[str, str], ...]:
        """How each line is written, and where it leads to."""
        told = []
        last = ""
        for at in part.places:
            told.append((str(at.line) if at.file == last else self.links.at(at), self.links.href(at)))
            last = at.file
        return tuple(told)

    # -- tables

    def _standing(self, table: doc.Table) -> Markup:
        """A table that is read, not searched, and needs no script."""
        used = [i for i, _ in enumerate(table.columns) if any(row[i] not in {None, ""} for row in table.rows)]
        names, lengths = [], [0.0]
        for i in used:
            column = table.columns[i]
            side = ' class="n"' if column.kind.is_right else ""
            unseen = column.unseen or ("bars" if column.kind is Kind.BAR else "")
            name = _text_of(column.name) or (_element("span", escape(unseen), "unseen") if unseen else Markup())
            names.append(Markup(f'<th scope="col"{side}>{name}</th>' if name else "<td></td>"))  # noqa: S704
            if column.kind is Kind.BAR:
                lengths += [length for row in table.rows for length in _lengths(row[i])]
        has_names, longest = any(table.columns[i].name for i in used), max(lengths)
        is_unnamed = has_names and len(used) > 1 and not table.columns[used[0]].name
        heading = used[0] if is_unnamed else None  # the column that names the rows
        head = _element("thead", _element("tr", _joined(names))) if has_names else Markup()
        rows = []
        for number, row in enumerate(table.rows):
            cells = (
                self._standing_cell(row[i], table.columns[i], longest, "th" if i == heading else "td") for i in used
            )
            rows.append(_element("tr", _joined(cells)))
            beneath = self.blocks(table.beneath[number]) if table.beneath else ""
            if beneath:
                rows.append(Markup('<tr class="under"><td colspan="{}">{}</td></tr>\n').format(len(used), beneath))
        return _element("table", head + _element("tbody", _joined(rows)), "small" if table.is_short else "list")

    def _standing_cell(self, value: parts.Cell, column: doc.Column, longest: float, tag: str) -> Markup:
        if column.kind is Kind.BAR:
            return _bars(_lengths(value), longest)
        if isinstance(value, parts.Stacked):
            value = value.upper
        if value is None or isinstance(value, (int, float)):
            shown = escape(written(value, column.kind))
        elif isinstance(value, str):
            shown = _ticks(value)
        else:
            shown = self._inline(value if isinstance(value, tuple) else (value,))
        return _element(tag, shown, "n" if column.kind.is_figure else column.tone.value)

    def _data(self, table: doc.Table) -> dict[str, Any]:
        """A table for the script: each column with what stands in it, each once, and which of that each row has.

        The first sign of a column's name says what it holds: figures, few values to choose from, code.
        """
        made = []
        for number, column in enumerate(table.columns):
            if column.kind is Kind.BAR:
                continue
            places: dict[Any, int] = {}
            rows = [places.setdefault(self._cell(row[number], column), len(places)) for row in table.rows]
            if any(cell != "" for cell in places):
                sign = "#" if column.kind.is_figure else "=" if column.choice else "`" * (column.kind is Kind.CODE)
                name = f"{column.name}\n{column.beneath}".rstrip()
                made.append({"name": sign + name, "cells": list(places), "rows": rows})
        return {"table": table.title, "note": "", "size": len(table.rows), "columns": made}

    def _cell(self, value: parts.Cell, column: doc.Column) -> Any:  # noqa: PLR0911 -- one for each type of cell
        """Text; or text, what it is sorted by, and where it leads to; then what stands beneath, and the like of it."""
        if isinstance(value, parts.Stacked):
            return self._stacked(value, column)
        if value is None or isinstance(value, str):
            return readable(value or column.missing)
        if isinstance(value, (int, float)):
            text = written(value, column.kind)
            return (text, value) if text else ""
        if isinstance(value, parts.Places):
            return ("", None, self._lines(value)) if value.places else ""
        if isinstance(value, parts.Figure):
            return (self._told(value)[0], value.value)
        if isinstance(value, tuple):
            told = [self._told(part) for part in value]
            address = next((address for _, address in told if address), None)
            return "".join(text for text, _ in told), None, address
        text, address = self._told(value)
        return (text, None, address) if address else text

    def _stacked(self, value: parts.Stacked, column: doc.Column) -> Any:
        upper, beneath = self._cell(value.upper, column), self._cell(value.beneath, _PLAIN)
        if not beneath and not value.found_by:
            return upper
        text, *more = upper if isinstance(upper, tuple) else (upper,)
        rank, address = (*more, None, None)[:2]
        under, under_rank = beneath[:2] if isinstance(beneath, tuple) else (beneath, None)
        return text, rank, address, under, clean(value.found_by) or under, under_rank


def _lengths(value: parts.Cell) -> list[float]:
    """Those of the bars in a cell: one, or one below the other."""
    both = (value.upper, value.beneath) if isinstance(value, parts.Stacked) else (value,)
    return [one for one in both if isinstance(one, (int, float))]


def _bars(lengths: Sequence[float], longest: float) -> Markup:
    high = len(lengths) or 1
    bars = []
    for i, length in enumerate(lengths or [0.0]):
        place = Markup(' y="{}"').format(1.1 * i) if i else ""
        width = 100 * length / longest if longest else 0.0
        bars.append(Markup('<rect{} width="{:.2f}" height="1"/>').format(place, width))
    return Markup(
        '<td class="fill"><svg class="bar" viewBox="0 0 100 {}" preserveAspectRatio="none" aria-hidden="true">'
        "{}</svg></td>"
    ).format(1.1 * high - 0.1 if high > 1 else 1, _joined(bars))


def _timeline(timeline: doc.Timeline) -> dict[str, Any]:
    """A timeline for the script: of each compilation where it leads to, its name, seconds, and what happened."""
    bars = []
    for bar in timeline.bars:
        told = f"[{bar.compile_id}] {readable(bar.name)}, {seconds(bar.seconds)}"
        lengths = [round(part, 6) for part in bar.parts]
        address = PageLinks.graph(bar.compile_id)
        bars.append([address, told, bar.seconds or 0.0, lengths, bar.graph_breaks, int(bar.is_recompile)])
    return {"phases": list(timeline.phases), "bars": bars}


# -- elements: all text in them is escaped here


def _element(tag: str, inside: Markup, kind: str = "") -> Markup:
    """An element; its name and its class are ours. This is far faster than `Markup.format`."""
    given = ' scope="row"' if tag == "th" else ""  # those of columns are made where they are
    given += f' class="{kind}"' if kind else ""
    end = "\n" if tag in _APART else ""
    return Markup(f"<{tag}{given}>{inside}</{tag}>{end}")  # noqa: S704


def _underlined(text: str, start: int, end: int) -> Markup:
    """A line of code of which a part is what it is about."""
    parts = escape(text[:start]), _element("u", escape(text[start:end])), escape(text[end:])
    return _joined(parts)


def _joined(given: Iterable[Markup]) -> Markup:
    return Markup("".join(given))  # noqa: S704


def _text_of(text: str) -> Markup:
    return escape(readable(text))


def _ticks(text: str) -> Markup:
    """Text whose backticks mark code."""
    if "`" not in text:
        return _text_of(text)
    pieces = enumerate(readable(text).split("`"))
    return _joined(_element("code", escape(piece)) if i % 2 else escape(piece) for i, piece in pieces)


def _link(text: str, address: str, kind: str) -> Markup:
    """A link, or only its text where the address is empty."""
    return Markup('<a class="{}" href="{}">{}</a>').format(kind, address, text) if address else escape(text)


def _beside(summary: str) -> Markup:
    """What stands beside a heading."""
    return Markup(" ") + _element("span", _text_of(summary), "quiet") if summary else Markup()
