"""The contexts of the templates: a page shows exactly what its context holds.

All texts are plain and escaped by the templates; only pictures, which Sfumato draws itself, are markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from markupsafe import Markup

from sfumato.curator.request_views import RequestView
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class PolicyTab:
    """A link to another page of the same policy."""

    title: str
    address: str
    current: bool


@dataclass(frozen=True)
class PageFrame:
    """What surrounds every page: title, navigation and user."""

    title: str
    tabs: tuple[PolicyTab, ...] = ()
    policy: str = ""
    here: str = ""
    """The path prefix of this policy's pages."""
    user: str = ""
    role: str = ""
    token: str = ""
    """The form token of the session."""
    paused: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    """The URLs of the static files, by name."""
    version: str = ""


@dataclass(frozen=True)
class RefusalMessage:
    """A refusal: the rule that was broken, where, and what works instead."""

    rule: str
    place: str
    fix: str
    status: int = 0
    again: str = ""
    """The address of a page to try again; empty if that makes no sense."""


@dataclass(frozen=True)
class MarkedText:
    """A text split around the part that was refused."""

    before: str
    marked: str
    after: str


@dataclass(frozen=True)
class AskForm:
    """The question and price as typed."""

    sql: str = ""
    epsilon: str = ""
    delta: str = ""
    within: str = ""
    confidence: str = ""


@dataclass(frozen=True)
class PriceVerdict:
    """The forecast of an answer at a price, or the reason why it would be refused. Free."""

    form: AskForm
    price: str = ""
    errors: tuple[tuple[str, str], ...] = ()
    """Every column with its error, in words."""
    confidence: str = ""
    left: str = ""
    now: str = ""
    """The remaining budget, in words."""
    largest: str = ""
    """The largest price that would be accepted, in words."""
    accepted: bool = False
    stored: bool = False
    free: bool = False
    """The answer measures nothing, so it costs nothing."""
    synopsis: str = ""
    warnings: tuple[str, ...] = ()
    counted: str = ""
    request: str = ""
    """The request id of this purchase, the same however often the button is pressed."""
    approval: str = ""
    """Why it waits for an owner's approval; empty if it does not."""
    refusal: RefusalMessage | None = None
    underlined: MarkedText | None = None
    start: int = -1
    """Character index of the underlined part; -1 if there is none."""


@dataclass(frozen=True)
class ExplainedStep:
    """One line of an explanation."""

    name: str
    what: str
    effect: str


@dataclass(frozen=True)
class TextTable:
    """A table of strings."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[bool, ...]
    """Which columns are numeric and aligned right."""
    more: int = 0
    """The number of rows that are not shown."""


@dataclass(frozen=True)
class Preview:
    """How an answer is made, its error against the price, and an invented answer of the same shape."""

    steps: tuple[ExplainedStep, ...] = ()
    reason: str = ""
    advice: str = ""
    curve: Markup | None = None
    preview: TextTable | None = None


@dataclass(frozen=True)
class SelectOption:
    """One choice of a list."""

    value: str
    title: str
    chosen: bool = False


@dataclass(frozen=True)
class BuilderOptions:
    """The options of the question builder."""

    tables: tuple[SelectOption, ...]
    measures: tuple[SelectOption, ...]
    measured: Mapping[str, tuple[SelectOption, ...]]
    """Numeric columns by table."""
    keys: Mapping[str, tuple[SelectOption, ...]]
    """Columns that can be grouped by, by table."""
    filters: Mapping[str, tuple[SelectOption, ...]]
    comparisons: tuple[SelectOption, ...]
    value: str = ""
    open: bool = False


@dataclass(frozen=True)
class CopyableQuestion:
    """An example question."""

    tells: str
    sql: str
    error: str = ""
    price: str = ""


@dataclass(frozen=True)
class TableContext:
    """A table as declared in the policy."""

    name: str
    about: str
    columns: tuple[tuple[str, str], ...]
    questions: tuple[CopyableQuestion, ...] = ()


@dataclass(frozen=True)
class AskPage:
    """The page that asks questions."""

    form: AskForm
    clicks: BuilderOptions
    tables: tuple[TableContext, ...]
    budget: tuple[BudgetBar, ...]
    left: str
    origin: str
    """The server's origin."""
    connecting: str
    """The Python line that connects, for releases that this page does not offer."""
    kinds: tuple[tuple[str, str], ...]
    """Release kinds with a form of their own, and their summaries."""
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
    """The form of one kind of release, with its explanation."""

    kind: str
    summary: str
    fields: tuple[FormField, ...]
    left: str
    request: str
    """The request id of this purchase, the same however often the button is pressed."""
    steps: tuple[ExplainedStep, ...] = ()
    price: str = ""
    refusal: RefusalMessage | None = None
    approval: str = ""
    """Why it waits for an owner's approval; empty if it does not."""


@dataclass(frozen=True)
class BudgetBar:
    """How much of one currency of the budget is left."""

    title: str
    allowed: str
    spent: str
    left: str
    part: str
    """The remaining part in per cent, with one decimal, from 0.0 to 100.0."""
    closed: bool = False


@dataclass(frozen=True)
class BudgetBars:
    """The bars of one account, share or period."""

    title: str
    bars: tuple[BudgetBar, ...]
    lines: tuple[str, ...]
    """The same in words."""


@dataclass(frozen=True)
class BudgetPage:
    """The remaining budget, and an owner's controls."""

    budgets: tuple[BudgetBars, ...]
    details: tuple[str, ...]
    shares: tuple[BudgetBars, ...]
    overruns: int | None
    """PRIVATE: for the owner alone."""
    owner: bool
    refusal: RefusalMessage | None = None
    done: str = ""
    weaknesses: tuple[str, ...] = ()
    """Why the guarantee for life is weak, for the owner, from the policy alone."""


@dataclass(frozen=True)
class AnswerPage:
    """An answer that was bought."""

    line: int
    question: str
    price: str
    free: bool
    is_preview: bool
    confidence: str
    grid: TextTable | None
    text: str
    """The printed form of an answer without rows."""
    notes: tuple[str, ...]
    picture: bool
    receipt: tuple[tuple[str, str], ...]
    forms: tuple[str, ...]
    left: str
    again: AskForm | None


@dataclass(frozen=True)
class HistoryRow:
    """A ledger line, with the answer that it paid for."""

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
    """Ledger lines, newest first."""

    rows: tuple[HistoryRow, ...]
    older: int | None
    everybody: bool


@dataclass(frozen=True)
class DataPage:
    """The tables, and who is protected."""

    unit: str
    size: str
    promise: tuple[str, ...]
    """Who is protected and what that means, in whole sentences."""
    facts: tuple[tuple[str, str], ...]
    tables: tuple[TableContext, ...]
    asks: bool


@dataclass(frozen=True)
class PersonRow:
    """A user, as owners see them."""

    name: str
    role: str
    created: str
    disabled: bool
    is_visitor: bool
    """Whether it is the visitor, who cannot disable themselves."""


@dataclass(frozen=True)
class TokenRow:
    """A token, without its secret text."""

    number: int
    user: str
    label: str
    created: str
    expires: str
    most: str
    spent: str
    ended: str
    """"revoked" or "expired"; empty while the token works."""


@dataclass(frozen=True)
class ActRow:
    """A recorded act of an owner."""

    number: int
    time: str
    by: str
    act: str
    about: str


@dataclass(frozen=True)
class PeoplePage:
    """Users and tokens for owners, and acts for owners and auditors."""

    users: tuple[PersonRow, ...] | None
    tokens: tuple[TokenRow, ...]
    acts: tuple[ActRow, ...]
    older: int | None
    roles: tuple[str, ...]
    secret: str = ""
    """A newly created token or link, shown only once."""
    secret_title: str = ""
    refusal: RefusalMessage | None = None


@dataclass(frozen=True)
class LedgerPage:
    """Verification, anchor and export of the ledger."""

    checked: str
    holds: bool
    anchor: str
    head: str
    line: int


@dataclass(frozen=True)
class RequestsPage:
    """Requests for approval, newest first, and an owner's form that grants a share."""

    requests: tuple[RequestView, ...]
    everybody: bool
    owner: bool
    users: tuple[str, ...] = ()
    refusal: RefusalMessage | None = None


@dataclass(frozen=True)
class RequestPage:
    """One request: what is asked, what it costs and reveals, and the buttons of the visitor."""

    request: RequestView
    decides: bool
    """Whether the visitor may approve or refuse it."""
    approves: bool
    """Whether an approval of the visitor is still missing."""
    is_requester: bool
    key: str
    """The request id of its release, the same however often the button is pressed."""
    caution: str
    refusal: RefusalMessage | None = None


@dataclass(frozen=True)
class PolicyCard:
    """A policy in the list of policies."""

    name: str
    address: str
    protects: str
    left: str
    bars: tuple[BudgetBar, ...]
    tables: tuple[str, ...]


@dataclass(frozen=True)
class HomePage:
    """The list of policies."""

    policies: tuple[PolicyCard, ...]


@dataclass(frozen=True)
class SignInPage:
    """The page that a one-time link opens."""

    link: str


@dataclass(frozen=True)
class WaitingPage:
    """The page shown while an answer takes long."""

    phase: str


@dataclass(frozen=True)
class EmptyContext:
    """The context of a page that needs the frame alone."""
