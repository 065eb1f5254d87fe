"""Draws the diagrams of the documentation as plain SVG: the system, an answer's life, units with limits, the wire.

They are 460 units wide, so that a phone shows the letters at three quarters of their size, and they bring their own
paper and ink for light and dark readers. Run with: .venv/bin/python docs/pictures/diagrams.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import NamedTuple

from sfumato.plots.picture import text_width

HERE = Path(__file__).parent
WIDTH = 460
MARGIN = 14
SIZE = 17
SMALL = 16
LINE = 22
INNER = WIDTH - 2 * MARGIN

LIGHT = {
    "paper": "#ffffff",
    "ink": "#24292f",
    "quiet": "#4f5964",
    "line": "#8994a0",
    "card": "#eaf0f6",
    "money": "#fbeadd",
    "out": "#e6f1e1",
    "strong": "#3b5b7c",
    "warn": "#a4481a",
}
DARK = {
    "paper": "#15191e",
    "ink": "#e6eaee",
    "quiet": "#b3bdc8",
    "line": "#7d8894",
    "card": "#243240",
    "money": "#452c1d",
    "out": "#223a22",
    "strong": "#8fb4da",
    "warn": "#f0a573",
}
"""Colours by role: paper, two inks, lines, three kinds of cards, and two accents."""


class Drawing(NamedTuple):
    """SVG elements and the y coordinate below them."""

    elements: tuple[str, ...]
    bottom: float


def wrap(text: str, room: float, size: float) -> list[str]:
    """Break a text into lines of at most ``room`` pixels."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def written(x: float, y: float, text: str, role: str = "ink", size: int = SIZE, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text class="{role}" x="{x:g}" y="{y:g}" font-size="{size}"{weight}>{escape(text, quote=False)}</text>'


def paragraph(x: float, y: float, room: float, text: str, role: str = "ink", size: int = SMALL) -> Drawing:
    """Write a wrapped text whose first line has its top at ``y``."""
    lines = wrap(text, room, size)
    elements = [written(x, y + 16 + LINE * number, line, role, size) for number, line in enumerate(lines)]
    return Drawing(tuple(elements), y + LINE * len(lines))


def rectangle(x: float, y: float, width: float, height: float, role: str, *, dashed: bool = False) -> str:
    kind = "dashed" if dashed else role
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7"/>'


def arrow(x: float, top: float, bottom: float, *, up: bool = False) -> tuple[str, str]:
    """Draw a vertical arrow with its head at the bottom, or at the top."""
    head, tail = (top, bottom) if up else (bottom, top)
    back = head + (9 if up else -9)
    return (
        f'<path class="stroke" d="M{x:g} {tail:g}V{back:g}"/>',
        f'<polygon class="head" points="{x:g},{head:g} {x - 6:g},{back:g} {x + 6:g},{back:g}"/>',
    )


def card(x: float, y: float, width: float, title: str, text: str, role: str, height: float = 0) -> Drawing:
    """Draw a titled box, at least ``height`` high."""
    heading = wrap(title, width - 20, SIZE)
    titles = [written(x + 10, y + 24 + LINE * n, line, size=SIZE, bold=True) for n, line in enumerate(heading)]
    body = paragraph(x + 10, y + 10 + LINE * len(heading), width - 20, text, "quiet")
    bottom = max(body.bottom + 10, y + height)
    return Drawing((rectangle(x, y, width, bottom - y, role), *titles, *body.elements), bottom)


def columns(y: float, cards: Iterable[tuple[str, str, str]], left: float = MARGIN, width: float = INNER) -> Drawing:
    """Draw cards side by side, all as high as the highest."""
    parts = list(cards)
    gap = 8
    each = (width - gap * (len(parts) - 1)) / len(parts)
    places = [(left + n * (each + gap), part) for n, part in enumerate(parts)]
    height = max(card(x, y, each, *part).bottom for x, part in places) - y
    drawn = [card(x, y, each, *part, height) for x, part in places]
    return Drawing(tuple(element for one in drawn for element in one.elements), y + height)


def svg(title: str, elements: Iterable[str], height: float) -> str:
    """Return the whole picture: its own paper, and inks for light and dark readers."""
    dark = "".join(_rules(DARK))
    style = (
        f"text{{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif}}{''.join(_rules(LIGHT))}"
        f"@media(prefers-color-scheme:dark){{{dark}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}"'
        f' role="img"><title>{escape(title)}</title><style>{style}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{height:g}" rx="8"/>\n' + "\n".join(elements) + "\n</svg>\n"
    )


def _rules(colours: dict[str, str]) -> Iterable[str]:
    yield from (f".{role}{{fill:{colour}}}" for role, colour in colours.items() if role != "line")
    line = colours["line"]
    yield f".stroke{{stroke:{line};stroke-width:2;fill:none}}.head{{fill:{line}}}"
    yield f".dashed{{fill:none;stroke:{line};stroke-width:1.5;stroke-dasharray:6 4}}"
    yield f".hollow{{fill:none;stroke:{colours['warn']};stroke-width:1.5}}"


ASKING = (
    ("Owner", "writes the policy: limits and budget", "card"),
    ("Analyst", "asks; sees price and ± first", "card"),
    ("Publisher", "releases once, for everybody", "card"),
)
LEAVING = (
    ("Answers", "numbers with ± and a receipt", "out"),
    ("Files", "counts or rows, paid once", "out"),
    ("Reports", "what was spent, signed", "out"),
)


def system() -> str:
    """Who asks what, where the rows and the ledger are, and what leaves."""
    asking = columns(MARGIN, ASKING)
    house = _house(asking.bottom + 34)
    out = columns(house.bottom + 34, LEAVING)
    elements = [*asking.elements, *house.elements, *out.elements]
    for column in range(3):
        elements += arrow(MARGIN + INNER / 3 * (column + 0.5), asking.bottom + 3, asking.bottom + 31)
    elements += arrow(WIDTH / 2, house.bottom + 3, house.bottom + 31)
    elements.append(written(WIDTH / 2 + 16, house.bottom + 24, "all that leaves", "quiet", SMALL))
    return svg("Who asks, where rows and ledger are, and what leaves", elements, out.bottom + MARGIN)


def _house(top: float) -> Drawing:
    """Draw what stays with the owner: the curator above rows and ledger, and what passes between them."""
    x, room = MARGIN + 10, INNER - 20
    heading = written(x, top + 22, "On the owner's machines", "strong", SMALL, bold=True)
    work = "prices a question from the policy alone, charges, reads totals, adds noise"
    curator = card(x, top + 32, room, "Sfumato, the curator", work, "card")
    kept = columns(
        curator.bottom + 54,
        [
            ("Rows", "stay in your files, PostgreSQL or Spark", "card"),
            ("Ledger", "a charge is on disk before a row is read", "money"),
        ],
        x,
        room,
    )
    elements = [heading, *curator.elements, *kept.elements]
    for middle, left, right in ((x + room / 4, "statement", "totals"), (x + room * 3 / 4, "charge", "answer")):
        ends, baseline = (curator.bottom + 4, curator.bottom + 50), curator.bottom + 32
        elements += [*arrow(middle - 7, *ends), *arrow(middle + 7, *ends, up=right == "totals")]
        elements.append(written(middle - 18 - text_width(left, SMALL), baseline, left, "quiet", SMALL))
        elements.append(written(middle + 18, baseline, right, "quiet", SMALL))
    bottom = kept.bottom + 12
    return Drawing((*elements, rectangle(MARGIN, top, INNER, bottom - top, "", dashed=True)), bottom)


STEPS = (
    ("1  Plan", "SQL or Python becomes a typed plan", "refused, free", "card"),
    ("2  Bound", "limits and sensitivity, from the policy alone", "refused, free", "card"),
    ("3  Price", "noise and ±, from the policy alone", "refused, free", "card"),
    ("4  Charge", "the engine checks the statement; the ledger syncs the charge to disk", "refused, free", "money"),
    ("5  Read", "the engine adds up exact totals within the limits", "charged, no answer", "money"),
    ("6  Noise", "drawn exactly, from the system's entropy", "charged, no answer", "money"),
    ("7  Answer", "stored in the ledger, then shown with ±", "stored: ask again, free", "out"),
)
"""The steps of a release: title, what happens, what a failure here means, and the kind of card."""


def answer_life() -> str:
    """The seven steps of a release, and what a failure at each of them costs."""
    left, right = 286, MARGIN + 286 + 14
    elements = [
        written(MARGIN, MARGIN + 18, "What happens", "strong", SIZE, bold=True),
        written(right, MARGIN + 18, "If it fails here", "warn", SIZE, bold=True),
    ]
    y: float = MARGIN + 30
    for number, (title, text, failure, role) in enumerate(STEPS):
        step = card(MARGIN, y, left, title, text, role)
        note = paragraph(right, y + 8, WIDTH - MARGIN - right, failure, "warn")
        elements += [*step.elements, *note.elements]
        if number < len(STEPS) - 1:
            elements += arrow(MARGIN + left / 2, step.bottom + 2, step.bottom + 22)
        y = step.bottom + 24
    return svg("The life of an answer, and what a failure costs", elements, y - 24 + MARGIN)


VISITS = {"Alma": 2, "Bo": 1, "Cleo": 4, "Dan": 2}
LEFT_OUT = "Cleo"
LIMIT = 2


def _people(x: float, y: float, visits: dict[str, int], limit: int | None) -> Drawing:
    """Draw one line per person and one square per row, filled as far as the row counts."""
    elements: list[str] = []
    for person, rows in visits.items():
        elements.append(written(x, y + 19, person, size=SIZE))
        for row in range(rows):
            corner = x + 58 + 30 * row
            filled = 22 * min(1, (limit or rows) / rows)
            role = "warn" if person == LEFT_OUT else "strong"
            top = y + 25 - filled
            elements.append(f'<rect class="{role}" x="{corner:g}" y="{top:g}" width="22" height="{filled:g}" rx="3"/>')
            if filled < 22:
                elements.append(f'<rect class="hollow" x="{corner:g}" y="{y + 3:g}" width="22" height="22" rx="3"/>')
        y += 32
    return Drawing(tuple(elements), y)


def units() -> str:
    """A table and its neighbour without one person, before and after a limit of rows."""
    neighbour = {person: rows for person, rows in VISITS.items() if person != LEFT_OUT}
    right = WIDTH / 2 + 14
    elements: list[str] = []
    y: float = MARGIN
    for limit, heading in (
        (None, "A unit is a patient with all visits. Neighbouring tables differ in one unit."),
        (LIMIT, f"With the limit max_rows = {LIMIT}, a patient counts for {LIMIT} visits at most."),
    ):
        text = paragraph(MARGIN, y, INNER, heading, "ink", SIZE)
        elements += text.elements
        y = text.bottom + 8
        for x, title, table in ((MARGIN, "The table", VISITS), (right, f"Without {LEFT_OUT}", neighbour)):
            people = _people(x, y + 26, table, limit)
            counted = sum(min(visits, limit or visits) for visits in table.values())
            elements.append(written(x, y + 17, title, "strong", SIZE, bold=True))
            elements += [*people.elements, written(x, y + 26 + 32 * len(VISITS) + 20, f"count = {counted}", bold=True)]
        y += 26 + 32 * len(VISITS) + 42
    rows = VISITS[LEFT_OUT]
    missing = f"{LEFT_OUT}'s {rows} visits count as {Fraction(LIMIT, rows)} each, so {rows - LIMIT} are missing"
    below = columns(
        y,
        [
            ("Hidden by noise", f"the difference: {LIMIT} at most, the sensitivity. Laplace scale {LIMIT}/ε", "out"),
            ("Not covered by ±", missing, "money"),
        ],
    )
    return svg("Units, neighbours and limits", [*elements, *below.elements], below.bottom + MARGIN)


CLIENTS = (
    ("People who ask", "psql, psycopg, pandas, DBeaver: one question at a time", "card"),
    ("Dashboards", "Superset, Metabase, Power BI: many questions, again and again", "card"),
)
DATABASES = (
    ("clinic", "each new question is priced and charged; the same one again is free", "money"),
    ("clinic_published", "answers from what was bought, any number of times, free", "out"),
)
"""Who connects by PostgreSQL's protocol, and to which database."""


def wire() -> str:
    """Which database a PostgreSQL client connects to: the one that costs, or the free one."""
    clients = columns(MARGIN, CLIENTS)
    databases = columns(clients.bottom + 56, DATABASES)
    sources = columns(
        databases.bottom + 34,
        [
            ("Rows", "read after the charge", "card"),
            ("Synopses, synthetic tables", "bought once; no row is read", "card"),
        ],
    )
    elements = [*clients.elements, *databases.elements, *sources.elements]
    for column in range(2):
        middle = MARGIN + INNER / 2 * (column + 0.5)
        elements += arrow(middle, clients.bottom + 3, clients.bottom + 53)
        elements += arrow(middle, databases.bottom + 3, databases.bottom + 31)
    elements.append(written(MARGIN + INNER / 4 + 14, clients.bottom + 34, "price, user, token", "quiet", SMALL))
    elements.append(written(MARGIN + INNER * 3 / 4 + 14, clients.bottom + 34, "user, token", "quiet", SMALL))
    return svg("Which database costs, and which is free", elements, sources.bottom + MARGIN)


DRAWINGS: dict[str, Callable[[], str]] = {
    "diagram-system": system,
    "diagram-answer": answer_life,
    "diagram-units": units,
    "diagram-wire": wire,
}
"""File names without .svg, and what draws them."""


def diagrams() -> None:
    """Write all of them."""
    for name, draw in DRAWINGS.items():
        (HERE / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    diagrams()
