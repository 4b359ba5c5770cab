"""A Document as a part of the page: what is read stands there as text, tables are data for the script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape
from msgspec import Struct, field

from compiler_lens.render.figures import written
from compiler_lens.render.page.comparison import comparison_data
from compiler_lens.render.page.links import PageLinks
from compiler_lens.render.page.markup import beside, change, element, excerpt, joined, link, text_of, ticks
from compiler_lens.render.page.pool import Pool
from compiler_lens.views.document import (
    Annotated,
    Aside,
    Block,
    Branch,
    Card,
    Change,
    Column,
    Columns,
    Command,
    Comparison,
    Document,
    Excerpt,
    Fields,
    Fold,
    Gap,
    KeyFigures,
    Lead,
    Line,
    Listing,
    Paragraph,
    Quoted,
    Section,
    Steps,
    Table,
    Tiles,
    Timeline,
    Tree,
    Verdict,
)
from compiler_lens.views.parts import (
    At,
    Cell,
    Compiled,
    Figure,
    File,
    KernelName,
    Kind,
    Part,
    Parts,
    Places,
    RecordingName,
    Span,
    Stacked,
    Tone,
    ToView,
    Web,
)
from compiler_lens.views.text import clean, one_line, seconds

_LONGEST_TEXT = 2_000


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

    With a `pool`, code goes there, and is shown by the script.
    """
    writer = _Writer(view, links, pool)
    inside = joined(writer.top(title, document.blocks))
    has_head = any(isinstance(block, Verdict) for block in document.blocks)
    head = Markup() if has_head else Markup("<h1>{}</h1>\n").format(title)
    html = Markup('<section class="view" id="view-{}">\n{}{}</section>\n').format(view, head, inside)
    return DocumentPart(title, document.count, html, tuple(writer.tables))


def drawn_part(view: str, document: Document, links: PageLinks, pool: Pool) -> dict[str, Any]:
    """Return a document for the script, which draws it when it is first looked at; code goes to the pool of texts."""
    writer = _Writer(view, links, pool)
    return {"html": writer.blocks(document.blocks), "tables": writer.tables}


class _Writer(Struct):
    view: str
    links: PageLinks
    pool: Pool | None = None  # where code goes that the script shows
    tables: list[dict[str, Any]] = field(default_factory=list)

    def top(self, title: str, blocks: Sequence[Block]) -> Iterable[Markup]:
        for block in blocks:
            if isinstance(block, Section) and block.title == title:  # which stands above it already
                yield element("p", element("span", text_of(block.summary)), "figures")
                yield self.blocks(block.blocks)
            else:
                yield self._block(block)

    def blocks(self, blocks: Sequence[Block]) -> Markup:
        return joined(self._block(block) for block in blocks)

    def _block(self, block: Block) -> Markup:  # noqa: C901, PLR0911, PLR0912 -- one for each type of block
        match block:
            case Gap() | Command():  # commands are for who reads this on a terminal
                return Markup()
            case Line(parts=parts, note=note) if note:
                return element(
                    "p", element("span", self._parts(parts)) + element("span", self._parts(note), "chip"), "head"
                )
            case Line() | Paragraph():
                tone = block.tone if isinstance(block, Paragraph) else Tone.PLAIN
                return element("p", self._parts(block.parts), tone.value)
            case Quoted():
                quoted = one_line(block.text, _LONGEST_TEXT)
                return element("p", escape(quoted), block.tone.value) if quoted else Markup()
            case Table():
                return self._standing(block) if block.beneath or block.is_short else self._table(block)
            case Fields():
                ranked = sorted(block.fields, key=lambda one: not one.is_action)
                rows = (element("dt", text_of(one.label)) + element("dd", self.blocks(one.blocks)) for one in ranked)
                return element("dl", joined(rows))
            case Excerpt():
                return excerpt(block)
            case Change():
                return change(block)
            case Listing():
                return self._listing(block)
            case Annotated():
                return Markup()  # the script draws files: render/page/source.py has what it reads
            case Comparison():
                self.tables.append({"both": comparison_data(block, self.pool or Pool())})
                return self._drawn("later", "code, before and after")
            case Tree():
                return self._branches(block.branches)
            case Tiles():
                tiles = joined(
                    element(
                        "div",
                        element("dt", text_of(one.label)) + element("dd", self._part(one.value) + beside(one.note)),
                    )
                    for one in block.tiles
                )
                return element("dl", tiles, "tiles") if block.tiles else Markup()
            case Lead():
                return element("div", self.blocks(block.blocks), "lead")
            case Card():
                return self._card(block)
            case Steps():
                steps = (
                    element("li", self.blocks(step.blocks), f"step {_STEPS.get(step.tone, '')}") for step in block.steps
                )
                return element("ol" if block.is_counted else "ul", joined(steps), "steps")
            case Verdict():
                return element("h1", text_of(block.news) + self._parts(block.rest), f"verdict {block.tone.value}")
            case KeyFigures():
                return element("p", joined(element("span", self._part(part)) for part in block.figures), "figures")
            case Columns():
                return element("div", joined(element("div", self._block(one)) for one in block.sections), "columns")
            case Aside():
                return element("details", element("summary", text_of(block.title)) + self.blocks(block.blocks))
            case Fold():
                head = element("summary", self._parts(block.head) + beside(block.summary))
                return element("details", head + self.blocks(block.blocks))
            case Timeline():
                self.tables.append({"strip": timeline_data(block)})
                return self._drawn("strip later", "compilations in order")
            case Section():
                head = element("h2", text_of(block.title) + beside(block.summary)) if block.title else Markup()
                return head + self.blocks(block.blocks)

    def _card(self, card: Card) -> Markup:
        note = Markup(" ") + element("span", self._parts(card.note), "chip") if card.note else Markup()
        head, inside = self._parts(card.head) + note, self.blocks(card.blocks)
        if not card.number:
            return element("div", element("p", head, "head") + inside, "chapter")
        counted = element("span", text_of(f"{card.number}."), "quiet") + Markup(" ") if card.is_counted else Markup()
        return Markup('<article class="card" id="{}-{}">\n{}{}</article>\n').format(
            self.view, card.number, element("h2", counted + head), inside
        )

    def _listing(self, block: Listing) -> Markup:
        if self.pool is None:
            return element("pre", text_of(block.code), "code")
        pack, place = self.pool.add(block.code)
        return Markup('<div class="later" data-text="{}-{}" data-language="{}"></div>\n').format(
            pack, place, block.language
        )

    def _branches(self, branches: Sequence[Branch]) -> Markup:
        if not branches:
            return Markup()
        items = (element("li", self._parts(one.parts) + self._branches(one.children)) for one in branches)
        return element("ul", joined(items), "tree")

    def _parts(self, parts: Parts) -> Markup:
        return joined(self._part(part) for part in parts)

    def _part(self, part: Part) -> Markup:
        if isinstance(part, str):
            return ticks(part)
        if isinstance(part, Places):
            return Markup(", ").join(link(text, address, "place") for text, address in self._lines(part))
        told, address = self._told(part)
        if isinstance(part, Span) and part.tone is Tone.CODE:
            return element("code", escape(told))
        if isinstance(part, Web):
            return Markup('<a href="{}" rel="noreferrer noopener" target="_blank">{}</a>').format(address, told)
        if address:
            return link(told, address, _LINKS[type(part)])
        text = ticks(told) if isinstance(part, Span) else escape(told)
        return element("span", text, part.tone.value) if part.tone is not Tone.PLAIN else text

    def _told(self, part: Part) -> tuple[str, str]:  # noqa: C901, PLR0911 -- one for each type of part
        """How a part is written, and where it leads to."""
        match part:
            case At(place=place):
                return self.links.at(place), self.links.href(place)
            case Places():
                return ", ".join(text for text, _ in self._lines(part)), ""
            case File(path=path):
                return clean(self.links.names.file(path)), ""
            case Compiled(compile_id=compile_id):
                return f"[{compile_id}]", self.links.graph(compile_id)
            case KernelName(name=name, index=index):
                return clean(name), self.links.kernel_at(index)
            case ToView(words=words, view=view, card=card):
                return clean(words), f"#/{view}/{card}" if card else f"#/{view}"
            case Web(title=title, address=address):
                return clean(title), address
            case RecordingName():
                return clean(self.links.target), ""
            case Figure(value=value, kind=kind):
                return ("~" if part.about else "") + written(value, kind), ""
            case Span(text=text):
                return clean(text), ""
            case str():
                return clean(part), ""

    def _lines(self, part: Places) -> tuple[tuple[str, str], ...]:
        """How each line is written, and where it leads to."""
        told = []
        last = ""
        for at in part.places:
            told.append((str(at.line) if at.file == last else self.links.at(at), self.links.href(at)))
            last = at.file
        return tuple(told)

    def _table(self, table: Table) -> Markup:
        self.tables.append(self._data(table))
        return self._drawn("later", table.title or "table")

    def _drawn(self, kind: str, name: str) -> Markup:
        """Where the script puts what was noted last in `tables`."""
        return Markup('<div class="{}" data-table="{}" data-of="{}" aria-label="{}"></div>\n').format(
            kind, len(self.tables) - 1, self.view, name
        )

    def _standing(self, table: Table) -> Markup:
        """A table that is read, not searched, and needs no script."""
        used = [i for i, _ in enumerate(table.columns) if any(row[i] not in {None, ""} for row in table.rows)]
        columns = [table.columns[i] for i in used]
        names = element("tr", joined(map(_heading, columns)))
        head = element("thead", names) if any(one.name for one in columns) else Markup()
        bars = [i for i in used if table.columns[i].kind is Kind.BAR]
        longest = max((length for row in table.rows for i in bars for length in _lengths(row[i])), default=0.0)
        rows = []
        for number, row in enumerate(table.rows):
            cells = (self._standing_cell(row[i], table.columns[i], longest) for i in used)
            rows.append(element("tr", joined(cells)))
            beneath = self.blocks(table.beneath[number]) if table.beneath else ""
            if beneath:
                rows.append(Markup('<tr class="under"><td colspan="{}">{}</td></tr>\n').format(len(used), beneath))
        return element("table", head + element("tbody", joined(rows)), "small" if table.is_short else "list")

    def _standing_cell(self, value: Cell, column: Column, longest: float) -> Markup:
        if column.kind is Kind.BAR:
            return _bars(_lengths(value), longest)
        if isinstance(value, Stacked):
            value = value.upper
        if value is None or isinstance(value, (int, float)):
            shown = escape(written(value, column.kind))
        else:
            shown = self._parts(value if isinstance(value, tuple) else (value,))
        return element("td", shown, "n" if column.kind.is_figure else column.tone.value)

    def _data(self, table: Table) -> dict[str, Any]:
        """A table for the script: each column with what stands in it, each once, and which of that each row has."""
        made = []
        for number, column in enumerate(table.columns):
            if column.kind is Kind.BAR:
                continue
            places: dict[Any, int] = {}
            rows = [places.setdefault(self._cell(row[number], column), len(places)) for row in table.rows]
            if any(cell != "" for cell in places):
                name = f"{column.name}\n{column.beneath}".rstrip()
                made.append({"name": _sign(column) + name, "cells": list(places), "rows": rows})
        return {"table": table.title, "note": "", "size": len(table.rows), "columns": made}

    def _cell(self, value: Cell, column: Column) -> Any:  # noqa: PLR0911 -- one for each type of cell
        """Text; or text, what it is sorted by, and where it leads to; then what stands beneath, and the like of it."""
        if isinstance(value, Stacked):
            return self._stacked(value, column)
        if value is None or isinstance(value, str):
            return clean(value or column.missing)
        if isinstance(value, (int, float)):
            text = written(value, column.kind)
            return (text, value) if text else ""
        if isinstance(value, Places):
            return ("", None, self._lines(value)) if value.places else ""
        if isinstance(value, Figure):
            return (self._told(value)[0], value.value)
        if isinstance(value, tuple):
            told = [self._told(part) for part in value]
            address = next((address for _, address in told if address), None)
            return "".join(text for text, _ in told), None, address
        text, address = self._told(value)
        return (text, None, address) if address else text

    def _stacked(self, value: Stacked, column: Column) -> Any:
        upper, beneath = self._cell(value.upper, column), self._cell(value.beneath, _PLAIN)
        if not beneath and not value.found_by:
            return upper
        text, *more = upper if isinstance(upper, tuple) else (upper,)
        rank, address = (*more, None, None)[:2]
        under, under_rank = beneath[:2] if isinstance(beneath, tuple) else (beneath, None)
        return text, rank, address, under, clean(value.found_by) or under, under_rank


_PLAIN = Column()


def _heading(column: Column) -> Markup:
    side = Markup(' class="n"') if column.kind.is_right else ""
    return Markup('<th scope="col"{}>{}</th>').format(side, column.name)


def _lengths(value: Cell) -> list[float]:
    """Those of the bars in a cell: one, or one below the other."""
    both = (value.upper, value.beneath) if isinstance(value, Stacked) else (value,)
    return [one for one in both if isinstance(one, (int, float))]


def _bars(lengths: Sequence[float], longest: float) -> Markup:
    high = len(lengths) or 1
    bars = [
        Markup('<rect{} width="{:.2f}" height="1"/>').format(
            Markup(' y="{}"').format(1.1 * i) if i else "", 100 * one / longest if longest else 0.0
        )
        for i, one in enumerate(lengths or [0.0])
    ]
    return Markup(
        '<td class="fill"><svg class="bar" viewBox="0 0 100 {}" preserveAspectRatio="none" aria-hidden="true">'
        "{}</svg></td>"
    ).format(1.1 * high - 0.1 if high > 1 else 1, joined(bars))


def _sign(column: Column) -> str:
    """How a column's name tells the script what it holds: figures, few values to choose from, code."""
    if column.kind.is_figure:
        return "#"
    if column.choice:
        return "="
    return "`" if column.kind is Kind.CODE else ""


def timeline_data(timeline: Timeline) -> dict[str, Any]:
    """Return a timeline for the script: of each compilation where it leads to, its name, seconds, and what happened."""
    bars = []
    for bar in timeline.bars:
        told = f"[{bar.compile_id}] {clean(bar.name)}, {seconds(bar.seconds)}"
        parts = [round(part, 6) for part in bar.parts]
        address = PageLinks.graph(bar.compile_id)
        bars.append([address, told, bar.seconds or 0.0, parts, bar.graph_breaks, int(bar.is_recompile)])
    return {"phases": list(timeline.phases), "bars": bars}


_STEPS = {Tone.BAD: "high", Tone.WARN: "medium", Tone.QUIET: "info"}
_LINKS: dict[type, str] = {At: "place", Compiled: "id", KernelName: "name mono", ToView: "to"}
