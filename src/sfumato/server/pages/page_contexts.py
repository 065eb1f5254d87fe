"""Each template is given one of these values, and nothing else: what a page can show is what stands here.

All texts are plain. Templates escape them; nothing here is HTML but pictures, which are drawn by ourselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from markupsafe import Markup


@dataclass(frozen=True)
class PolicyTab:
    """A tab leads to another page of the same policy."""

    title: str
    address: str
    current: bool


@dataclass(frozen=True)
class PageFrame:
    """A frame is what every page has around it."""

    title: str
    tabs: tuple[PolicyTab, ...] = ()
    policy: str = ""
    here: str = ""
    """What the addresses of this policy's pages begin with."""
    user: str = ""
    role: str = ""
    token: str = ""
    """What each form of this session sends back."""
    paused: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    """The addresses of the style and the script."""
    version: str = ""


@dataclass(frozen=True)
class RefusalMessage:
    """A refusal says which rule was broken, where, and what works instead."""

    rule: str
    place: str
    fix: str
    status: int = 0
    again: str = ""
    """The address of a page to try once more; empty where that makes no sense."""


@dataclass(frozen=True)
class Underlined:
    """This is a text with the part of it that was refused."""

    before: str
    marked: str
    after: str


@dataclass(frozen=True)
class AskForm:
    """This is what was typed to ask: a question, and a price or how close the answer is to be."""

    sql: str = ""
    epsilon: str = ""
    delta: str = ""
    within: str = ""
    confidence: str = ""


@dataclass(frozen=True)
class PriceVerdict:
    """A verdict says what an answer would be like at a price, or why there would be none. All of it is free."""

    asked: AskForm
    price: str = ""
    errors: tuple[tuple[str, str], ...] = ()
    """Every column with how far it may be off, in words."""
    confidence: str = ""
    left: str = ""
    now: str = ""
    """What is left now, in words."""
    largest: str = ""
    """What would be accepted now, in words, where this is not."""
    accepted: bool = False
    stored: bool = False
    free: bool = False
    """Nothing is measured, so it costs nothing."""
    synopsis: str = ""
    warnings: tuple[str, ...] = ()
    counted: str = ""
    request: str = ""
    """The name of this one purchase, however often its button is pressed."""
    refusal: RefusalMessage | None = None
    underlined: Underlined | None = None
    start: int = -1
    """Where what is underlined begins, in letters; -1 where nothing is."""


@dataclass(frozen=True)
class Step:
    """A step is one line of an explanation."""

    name: str
    what: str
    effect: str


@dataclass(frozen=True)
class TextTable:
    """A grid is a table of texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[bool, ...]
    """Which columns are of numbers, and stand on the right."""
    more: int = 0
    """Rows that are not shown."""


@dataclass(frozen=True)
class Preview:
    """A preview shows how an answer is made, how its error falls with the price, and what it looks like: invented."""

    steps: tuple[Step, ...] = ()
    reason: str = ""
    advice: str = ""
    curve: Markup | None = None
    rehearsal: TextTable | None = None


@dataclass(frozen=True)
class Option:
    """An option is one choice of a list."""

    value: str
    title: str
    chosen: bool = False


@dataclass(frozen=True)
class Clicks:
    """Clicks are the choices from which a question is written."""

    tables: tuple[Option, ...]
    measures: tuple[Option, ...]
    measured: Mapping[str, tuple[Option, ...]]
    """By table, the columns that can be added up."""
    keys: Mapping[str, tuple[Option, ...]]
    """By table, the columns that rows can be told apart by."""
    filters: Mapping[str, tuple[Option, ...]]
    comparisons: tuple[Option, ...]
    value: str = ""
    open: bool = False


@dataclass(frozen=True)
class Suggested:
    """A suggestion is a question to copy."""

    tells: str
    sql: str
    error: str = ""
    price: str = ""


@dataclass(frozen=True)
class ShownTable:
    """A table is shown as it is declared."""

    name: str
    about: str
    columns: tuple[tuple[str, str], ...]
    questions: tuple[Suggested, ...] = ()


@dataclass(frozen=True)
class AskPage:
    """This page takes questions."""

    asked: AskForm
    clicks: Clicks
    tables: tuple[ShownTable, ...]
    budget: tuple[Bar, ...]
    left: str
    origin: str
    """The address of this server."""
    connecting: str
    """How what this page does not sell is bought: a line of Python."""
    kinds: tuple[tuple[str, str], ...]
    """Kinds of release that have a form of their own, and what each does."""
    verdict: PriceVerdict | None = None
    preview: Preview | None = None


@dataclass(frozen=True)
class FormField:
    """One field of a form."""

    name: str
    form: str
    """text, number, count, flag, choice or list."""
    help: str
    required: bool
    value: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class KindPage:
    """The form of one kind of release, and what it would do."""

    kind: str
    summary: str
    fields: tuple[FormField, ...]
    left: str
    request: str
    """The name of this one purchase, however often its button is pressed."""
    steps: tuple[Step, ...] = ()
    price: str = ""
    refusal: RefusalMessage | None = None


@dataclass(frozen=True)
class Bar:
    """A bar shows how much of one currency is spent."""

    title: str
    allowed: str
    spent: str
    left: str
    part: str
    """What is spent, in per cent with one digit: from 0.0 to 100.0."""
    closed: bool = False


@dataclass(frozen=True)
class Bars:
    """These are the bars of one account, share or period."""

    title: str
    bars: tuple[Bar, ...]
    lines: tuple[str, ...]
    """The same in words."""


@dataclass(frozen=True)
class BudgetPage:
    """This page says what is left."""

    own: tuple[Bars, ...]
    details: tuple[str, ...]
    shares: tuple[Bars, ...]
    overruns: int | None
    """PRIVATE: for the owner alone."""
    owner: bool
    refusal: RefusalMessage | None = None
    done: str = ""


@dataclass(frozen=True)
class AnswerPage:
    """This page shows an answer that was bought."""

    line: int
    question: str
    price: str
    free: bool
    rehearsed: bool
    confidence: str
    grid: TextTable | None
    text: str
    """What has no rows is shown as it is printed."""
    notes: tuple[str, ...]
    picture: bool
    receipt: tuple[tuple[str, str], ...]
    forms: tuple[str, ...]
    left: str
    again: AskForm | None


@dataclass(frozen=True)
class HistoryRow:
    """This is a line of the ledger, with the answer that it paid for."""

    number: int
    time: str
    moment: str
    analyst: str
    kind: str
    question: str
    cost: str
    answer: int | None


@dataclass(frozen=True)
class HistoryPage:
    """This page lists what was asked, newest first."""

    rows: tuple[HistoryRow, ...]
    older: int | None
    everybody: bool


@dataclass(frozen=True)
class DataPage:
    """This page says what there is, and who is protected."""

    unit: str
    size: str
    promise: tuple[str, ...]
    """Who is protected and what that means, in whole sentences."""
    facts: tuple[tuple[str, str], ...]
    tables: tuple[ShownTable, ...]
    asks: bool


@dataclass(frozen=True)
class PersonRow:
    """This is a user, as an owner sees them."""

    name: str
    role: str
    made: str
    disabled: bool
    own: bool
    """Whether it is who looks: nobody shuts themselves out."""


@dataclass(frozen=True)
class TokenRow:
    """This is a token, without its text."""

    number: int
    user: str
    label: str
    made: str
    expires: str
    most: str
    spent: str
    revoked: bool


@dataclass(frozen=True)
class ActRow:
    """This is something that an owner did."""

    number: int
    time: str
    by: str
    act: str
    about: str


@dataclass(frozen=True)
class PeoplePage:
    """This page lists users and tokens for owners; auditors see what owners did."""

    users: tuple[PersonRow, ...] | None
    tokens: tuple[TokenRow, ...]
    acts: tuple[ActRow, ...]
    older: int | None
    roles: tuple[str, ...]
    secret: str = ""
    """A token or a link that was made just now: it is shown this once."""
    secret_title: str = ""
    refusal: RefusalMessage | None = None


@dataclass(frozen=True)
class LedgerPage:
    """This page says whether the ledger holds, and gives it away."""

    checked: str
    holds: bool
    anchor: str
    head: str
    line: int


@dataclass(frozen=True)
class PolicyCard:
    """This is a policy among those that may be asked about."""

    name: str
    address: str
    protects: str
    left: str
    bars: tuple[Bar, ...]
    tables: tuple[str, ...]


@dataclass(frozen=True)
class HomePage:
    """This page lists policies."""

    policies: tuple[PolicyCard, ...]


@dataclass(frozen=True)
class SignInPage:
    """This page is opened by a one-time link."""

    link: str


@dataclass(frozen=True)
class WaitingPage:
    """This page is shown while an answer takes long."""

    phase: str


@dataclass(frozen=True)
class Nothing:
    """This value is empty: its page needs nothing but the frame."""
