"""Bounds that a search found, readable without the engine."""

from __future__ import annotations

import datetime as dt
from dataclasses import field
from fractions import Fraction

from sfumato.curator.step_counts import StepCounts
from sfumato.errors import InvalidParameter
from sfumato.html_fragments import paragraphs, preformatted
from sfumato.policy import Type, Value
from sfumato.policy.domains import parse_value
from sfumato.privacy import codec
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, Number, exact, format_exact, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms


@codec.serialisable("bounds")
@dataclass(frozen=True, repr=False)
class Bounds:
    """The bounds found for a column; ``low`` and ``high`` are None if none could be found."""

    column: str
    type: Type
    low: Value | None
    high: Value | None
    steps: StepCounts
    """The noisy step counts, and the numbers of values inside and outside the bounds."""
    purchase: PurchaseTerms = NOT_BOUGHT
    receipt: Receipt | None = field(default=None, compare=False)
    """What it cost and whom it protects; not stored with the bounds, since it quotes the current remaining budget."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "type", Type.of(self.type))
        for name in ("low", "high"):
            bound = getattr(self, name)
            object.__setattr__(self, name, None if bound is None else parse_value(self.type, bound, name))

    @property
    def is_preview(self) -> bool:
        """Whether it was invented from the policy alone: nothing was read, charged or stored."""
        return self.receipt is not None and self.receipt.is_preview

    @property
    def bounds(self) -> tuple[Value, Value] | None:
        """The bounds as a policy declares them; None if none could be found."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def toml(self) -> str:
        """The line to paste into the policy; empty if nothing was found."""
        return "" if self.bounds is None else f"bounds = [{', '.join(map(toml_value, self.bounds))}]"

    def __repr__(self) -> str:
        return f"<Bounds of {self.column}: {self.toml or 'none found'}{PREVIEW_MARK if self.is_preview else ''}>"

    def __str__(self) -> str:
        summary = self.words(
            DEFAULT_CONFIDENCE if self.receipt is None else self.receipt.confidence or DEFAULT_CONFIDENCE
        )
        return f"{self.toml}\n{summary}" if self.toml else summary

    def _repr_html_(self) -> str:
        *toml, summary = str(self).rsplit("\n", 1)
        return "".join(map(preformatted, toml)) + paragraphs([summary])

    def words(self, confidence: Number = DEFAULT_CONFIDENCE) -> str:
        """Describe the bounds, and how many values lie outside, with this confidence."""
        confidence_text = format_percent(exact(confidence, "confidence", CONFIDENCE))
        half_width = self.steps.count_half_width(confidence)
        mark = PREVIEW_MARK if self.is_preview else ""
        if self.bounds is None:
            return f"no bounds were found for {self.column}: there are too few values to be seen above the noise{mark}"
        share, _ = self.steps.covered_share_range(confidence)
        return (
            f"{self.column} in [{', '.join(map(toml_value, self.bounds))}]: {max(0, self.steps.outside):,} values "
            f"outside (± {half_width:,}), {max(0, self.steps.inside):,} inside, so with {confidence_text} confidence "
            f"at least {format_percent(Fraction(int(share * 1000), 1000))} are covered{mark}"
        )

    def as_answer(self) -> Answer:
        """Return one row: the bounds, and the numbers of values inside and outside with their intervals."""
        if self.receipt is None:
            raise InvalidParameter(
                "receipt",
                None,
                "the receipt of released bounds, because a preview cannot be shown as an answer",
                fix="release the bounds first: .release(epsilon=…)",
            )
        half_width = self.steps.count_half_width(self.receipt.confidence or DEFAULT_CONFIDENCE)
        counts = {"inside": self.steps.inside, "outside": self.steps.outside}
        bounds = (float(bound) if isinstance(bound, Fraction) else bound for bound in (self.low, self.high))
        return Answer(
            ("column", "low", "high", *counts),
            (Type.TEXT, self.type, self.type, Type.INTEGER, Type.INTEGER),
            ((self.column, *bounds, *counts.values()),),
            {name: ((float(count - half_width), float(count + half_width)),) for name, count in counts.items()},
            ("column",),
            self.receipt,
            (),
        )

    def to_json(self) -> str:
        """Write the bounds as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Bounds:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


def toml_value(value: Value) -> str:
    """Format a bound as a policy writes it."""
    if isinstance(value, Fraction):
        return format_exact(value)
    return value.isoformat() if isinstance(value, dt.date) else str(value)
