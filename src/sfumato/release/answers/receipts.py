"""Receipts: whom an answer protects, how, at what price, on which data, and at which ledger line.

Where every period has its own account, the guarantee covers one unit in one period.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime

from sfumato.errors import InvalidParameter
from sfumato.html_fragments import preformatted
from sfumato.plan import account_periods
from sfumato.plan.descriptions import INTERVAL_COVERAGE
from sfumato.policy import Policy
from sfumato.privacy import Neighbours, codec
from sfumato.privacy.amounts import format_guarantee
from sfumato.privacy.numbers import CONFIDENCE, exact, format_percent
from sfumato.quick_dataclass import dataclass

VERSION = 1
PREVIEW_NOTE = "preview: the numbers are invented, from the policy alone; no row was read, and nothing was charged"
"""Shown with every invented answer."""


PREVIEW_MARK = " (preview: invented)"
"""The short form, beside a number or a name."""


@codec.serialisable("receipt")
@dataclass(frozen=True)
class Receipt:
    """Everything a reader needs to judge an answer. All of it is public."""

    question: str
    unit: str
    neighbours: str
    guarantee: str
    """The guarantee of this release alone."""
    account: str
    """The guarantee of everything ever released from the account."""
    mechanisms: tuple[str, ...]
    strategy: str
    limits: str
    bounds: tuple[str, ...]
    policy: str
    data: str
    software: str
    line: int
    hash: str
    time: str
    free: bool
    """Whether it was bought before, so that nothing was charged."""
    confidence: str
    """The confidence of every interval; empty where numbers have none."""
    remaining: str
    epsilons: tuple[str, ...] = ()
    """Every ε that the account has had, oldest first."""
    share: str = ""
    """The analyst whose share of the account ``remaining`` is about; empty for the whole account."""
    periods: str = ""
    """Where every period has its own account, the periods that are charged; ``account`` is that of each."""
    promise: str = ""
    """What per-period accounts guarantee, and what not."""
    weak: tuple[str, ...] = ()
    """Why the price of this release is a weak guarantee; empty for a strong one."""
    is_preview: bool = field(default=False, metadata=codec.stored_name_metadata("rehearsed"))
    """Whether the answer was invented from the policy alone: it is in no ledger and reveals nothing."""
    joint: bool = False
    """Whether all intervals hold together with this confidence, or each by itself."""
    version: int = VERSION
    sample: str = ""
    """The share of the units that was read, as a secret sample; empty where all were."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if self.confidence:
            exact(self.confidence, "confidence", CONFIDENCE)
        try:
            datetime.fromisoformat(self.time)
        except ValueError:
            raise InvalidParameter("time", self.time, "a time such as 2024-01-31T12:00:00+00:00") from None

    def to_json(self) -> str:
        """Serialize the receipt as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Receipt:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def terms(self) -> dict[str, str | int | bool]:
        """Return what travels with the numbers of an answer: whom it protects, its price, its intervals, its line."""
        terms: dict[str, str | int | bool] = {
            "question": self.question,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "guarantee": self.guarantee,
            "confidence": self.confidence,
            "joint": self.joint,
            "limits": self.limits,
            "line": self.line,
            "hash": self.hash,
            "time": self.time,
        }
        return {**terms, "preview": PREVIEW_NOTE} if self.is_preview else terms

    @property
    def _coverage_phrase(self) -> str:
        scope = "all together cover" if self.joint else "each covers"
        errors = "the noise and the sampling" if self.sample else "the noise"
        return f"{scope} {errors} with {format_percent(self.confidence)} confidence"

    @property
    def _guarantee_suffix(self) -> str:
        if self.is_preview:
            return ", if the answer were bought"
        return ", bought before: free" if self.free else ""

    @property
    def _lifetime_or_periods(self) -> str:
        return self.periods or "for life"

    @property
    def _remaining_label(self) -> str:
        label = f"left{f' of the share of {self.share}' if self.share else ''} for ordinary answers"
        return f"{label}, in the period with the least left" if self.periods else label

    @property
    def _epsilon_changes_phrase(self) -> str:
        if len(self.epsilons) < 2:
            return ""
        return f"; the owner changed ε: {', then '.join(self.epsilons)}; the guarantee is the largest ε ever allowed"

    def short(self, *, limits: bool = True) -> str:
        """Return the essential lines: the first three, the guarantee per period, and what intervals do not cover;
        without ``limits`` where a line beside each number says that.
        """
        lines = str(self).splitlines()[: 3 + bool(self.promise) + bool(self.is_preview) + len(self.weak)]
        counted = [f"{'counted':<11}  {self._limits_note}"] if limits and self.may_drop_rows else []
        return "\n".join([*lines, *counted])

    @property
    def may_drop_rows(self) -> bool:
        """Return whether rows of one unit may be dropped or down-weighted, which no interval covers."""
        return bool(self.confidence) and self.strategy not in ("", "whole")

    @property
    def _limits_note(self) -> str:
        return f"{self.limits};\n{'':<11}  {INTERVAL_COVERAGE}"

    def __str__(self) -> str:
        when = datetime.fromisoformat(self.time).strftime("%Y-%m-%d %H:%M UTC")
        lines = [
            *([("preview", PREVIEW_NOTE.removeprefix("preview: "))] if self.is_preview else []),
            ("protects", f"{self.unit}, {self.neighbours} neighbours"),
            ("this answer", f"{self.guarantee}{self._guarantee_suffix}"),
            *(("warning", reason) for reason in self.weak),
            (
                "the account",
                f"{self._remaining_label}: {self.remaining}; "
                f"{self.account} {self._lifetime_or_periods}{self._epsilon_changes_phrase}",
            ),
            *([("promised", self.promise)] if self.promise else []),
            ("noise", "; ".join(dict.fromkeys(self.mechanisms))),
            *([("ranges", self._coverage_phrase)] if self.confidence else []),
            *([("sample", f"a secret {self.sample} of the units; numbers are scaled to all")] if self.sample else []),
            ("limits", f"{self.limits} ({self.strategy})"),
            ("bounds", "; ".join(self.bounds) or "none needed"),
            ("data", self.data[:16]),
            ("policy", self.policy[:16]),
            ("ledger", f"line {self.line}, {self.hash[:16]}, {when}" if self.line else f"no line, {when}"),
            ("software", self.software),
        ]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def describe_guarantee(policy: Policy) -> str:
    """Describe the policy's guarantee: for life, or of each unit in its period."""
    return (
        describe_period_guarantee(policy) or f"{format_guarantee(policy.budget.epsilon, policy.budget.delta)} for life"
    )


def describe_period_guarantee(policy: Policy) -> str:
    """Describe what per-period accounts guarantee, and what not; empty where one account covers all time."""
    if policy.per is None:
        return ""
    unit, budget = policy.unit, policy.budget
    amount = format_guarantee(budget.epsilon, budget.delta)
    per_period = (
        f"{amount} for one {unit.name}-{unit.period}, whatever is asked: not for the whole life of one {unit.name}"
    )
    delta_text = " and more than k times that δ" if budget.delta else ""
    across_periods = f"whose rows in k {unit.period}s may cost k times that ε{delta_text}"
    if policy.neighbours is not Neighbours.REPLACE:
        return f"{per_period}, {across_periods}"
    halved = f"each {policy.per}'s account holds half, since a replaced unit may move to another {policy.per}"
    return f"{per_period}, {across_periods}; {halved}"


def describe_charged_periods(policy: Policy, periods: tuple[str, ...]) -> str:
    """Describe which periods' accounts pay."""
    if policy.per is None:
        return ""
    period_names = account_periods.describe_periods(periods, policy.per) if periods else "none of them"
    return f"for each {policy.per}, here of {period_names}"
