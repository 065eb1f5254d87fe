"""Answers of proposals as they are stored: read back without an engine, and without what released them.

They are the outcome of an auction, bounds that a search found, the answers of a session, and the answers of a workload,
both a list and a mapping, with one receipt; and the forecast of a workload.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import field, replace
from fractions import Fraction
from itertools import zip_longest
from operator import attrgetter
from typing import Any, overload

from sfumato.curator.previews.error_forecasts import Forecast
from sfumato.curator.step_counts import StepCounts
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.html_fragments import paragraph, paragraphs, preformatted
from sfumato.mechanisms import Exponential, Laplace
from sfumato.plots.answers import draw_panels
from sfumato.plots.frame import Interval
from sfumato.plots.picture import Picture, save_if_path
from sfumato.policy import Type, Value
from sfumato.policy.domains import parse_value
from sfumato.privacy import codec
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    NONNEGATIVE,
    POSITIVE,
    Number,
    exact,
    format_exact,
    format_percent,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer, format_as_table
from sfumato.release.answers.answer_pictures import caption_lines, mark_notes, wrap_notes
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.answers.stacked_answers import stack_answers
from sfumato.release.comparisons import ThresholdAnswer
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms
from sfumato.untrusted import escape_unprintable


@codec.serialisable("sold")
@dataclass(frozen=True)
class AuctionOutcome:
    """A price drawn for a column of bids, and a noisy count of the bids at or above it if a share of ε paid for it."""

    price: Fraction
    buyers: int | None = None
    selection: Exponential | None = field(default=None, repr=False)
    """The mechanism that selected the price."""
    counter: Laplace | None = field(default=None, repr=False)
    """The noise on the count."""
    purchase: PurchaseTerms = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """What it cost and whom it protects; not stored with the price, since it quotes the current remaining budget."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", exact(self.price, "price", POSITIVE))
        codec.check_simple_fields(self)

    @property
    def is_preview(self) -> bool:
        """Whether it was invented from the policy alone: nothing was read, charged or stored."""
        return self.receipt is not None and self.receipt.is_preview

    def __repr__(self) -> str:
        buyers = "" if self.buyers is None else f", about {self.buyers:,} buyers"
        return f"<Sold at {format_exact(self.price)}{buyers}>{PREVIEW_MARK if self.is_preview else ''}"

    def as_answer(self) -> Answer:
        """Return one row: the price, and the number of buyers with its interval where it was paid for."""
        if self.receipt is None:
            raise InvalidParameter(
                "receipt",
                None,
                "the receipt of a released sale, because a preview cannot be shown as an answer",
                fix="release the sale first: .release(epsilon=…)",
            )
        price = float(self.price)
        if self.buyers is None or self.counter is None:
            return Answer(("price",), (Type.REAL,), ((price,),), {}, ("price",), self.receipt, ())
        half_width = int(self.counter.error(self.receipt.confidence or DEFAULT_CONFIDENCE))
        interval = float(self.buyers - half_width), float(self.buyers + half_width)
        types = (Type.REAL, Type.INTEGER)
        rows = ((price, self.buyers),)
        return Answer(("price", "buyers"), types, rows, {"buyers": (interval,)}, ("price",), self.receipt, ())

    def to_json(self) -> str:
        """Write the sale as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> AuctionOutcome:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def revenue_range(self, confidence: Number = DEFAULT_CONFIDENCE) -> tuple[float, float] | None:
        """Return an interval for the revenue with this confidence; None without a count."""
        if self.buyers is None or self.counter is None:
            return None
        half_width = int(self.counter.error(confidence))
        return float(self.price * max(0, self.buyers - half_width)), float(
            self.price * (max(0, self.buyers) + half_width)
        )


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


@codec.serialisable("session-answers")
@dataclass(frozen=True)
class SessionAnswers:
    """The answers of a session, in the order of its questions; questions after the last "above" have none."""

    questions: tuple[str, ...]
    answers: tuple[ThresholdAnswer, ...]
    receipt: Receipt

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if type(self.answers) is not tuple or not set(map(type, self.answers)) <= {ThresholdAnswer}:
            raise InvalidParameter("answers", self.answers, "a tuple of answers of the session")
        if len(self.answers) > len(self.questions):
            raise InvalidParameter("answers", len(self.answers), "a tuple with at most one answer for each question")
        if not isinstance(self.receipt, Receipt):
            raise InvalidParameter(
                "receipt", self.receipt, "a Receipt", fix="pass the receipt of an answer: answer.receipt"
            )

    def __iter__(self) -> Iterator[ThresholdAnswer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __repr__(self) -> str:
        return repr(self.as_answer())

    def _repr_html_(self) -> str:
        return self.as_answer()._repr_html_()

    def as_answer(self) -> Answer:
        """Return a table with a row per question, with noisy values and intervals where values were paid for.

        A question after the end of the session has no answer in its row.
        """
        confidence = self.receipt.confidence or DEFAULT_CONFIDENCE
        has_values = any(answer.value is not None for answer in self.answers)
        answered_questions = list(zip_longest(self.questions, self.answers))
        values = [
            None if answer is None or answer.value is None else float(answer.value) for _, answer in answered_questions
        ]
        rows = [(question, None if answer is None else answer.above) for question, answer in answered_questions]
        columns, types = ("question", "above"), (Type.TEXT, Type.BOOLEAN)
        if not has_values:
            return Answer(columns, types, tuple(rows), {}, ("question",), self.receipt, ())
        ranges = tuple(_value_interval(answer, confidence) for _, answer in answered_questions)
        return Answer(
            (*columns, "value"),
            (*types, Type.REAL),
            tuple((*row, value) for row, value in zip(rows, values, strict=True)),
            {"value": ranges},
            ("question",),
            self.receipt,
            (),
        )

    def to_json(self) -> str:
        """Write the answers as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> SessionAnswers:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


def _value_interval(answer: ThresholdAnswer | None, confidence: str) -> Interval:
    """Return the interval around a noisy value; None without one."""
    half_width = None if answer is None else answer.error(confidence)
    if answer is None or answer.value is None or half_width is None:
        return None
    return float(answer.value - half_width), float(answer.value + half_width)


@codec.serialisable("answers")
@dataclass(frozen=True)
class Answers:
    """The answers to several questions, by name and by index: ``answers["q1"]`` and ``answers[0]`` are the same."""

    names: tuple[str, ...]
    """The names of the questions, in order."""
    answers: tuple[Answer, ...]
    receipt: Receipt | None = None
    """The receipt of the joint charge; None if nothing was charged."""

    def __post_init__(self) -> None:
        _set_checked_tuples(self, "answers", Answer)
        codec.check_simple_fields(self)

    @property
    def is_preview(self) -> bool:
        """Return whether the numbers are invented from the policy alone."""
        return any(answer.is_preview for answer in self.answers)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the price gives weak privacy, and the warnings of single answers."""
        weak_reasons = () if self.receipt is None else self.receipt.weak
        return tuple(
            dict.fromkeys([*weak_reasons, *(warning for answer in self.answers for warning in answer.warnings)])
        )

    def items(self) -> list[tuple[str, Answer]]:
        """Return pairs of name and answer."""
        return list(zip(self.names, self.answers, strict=True))

    @overload
    def __getitem__(self, which: str | int) -> Answer: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[Answer, ...]: ...
    def __getitem__(self, which: str | int | slice) -> Answer | tuple[Answer, ...]:
        if isinstance(which, str):
            return dict(self.items())[which]
        return self.answers[which]

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def as_answer(self) -> Answer:
        """Return all answers stacked as one, with the name of its question in every row."""
        return stack_answers(self.names, self.answers, self._joint_or_latest_receipt, self.warnings)

    @property
    def _joint_or_latest_receipt(self) -> Receipt:
        """The receipt of the batch, or the latest one where all answers were bought before."""
        if not self.answers:
            raise InvalidParameter("answers", (), "non-empty", fix="release the workload first")
        return self.receipt or max((answer.receipt for answer in self.answers), key=attrgetter("line"))

    def plot(self, path: str | None = None) -> Picture:
        """Draw a small panel for each number of each question; with a path (.svg, .png, .html) it is also saved."""
        charts = [
            replace(answer.chart_data(column), name=f"{escape_unprintable(name)}: {escape_unprintable(column)}")
            for name, answer in self.items()
            for column in answer.columns
            if column in answer.intervals
        ]
        caption = caption_lines(self._joint_or_latest_receipt)
        caveats = dict.fromkeys(line for answer in self.answers for line in answer.caveat_lines())
        chart_notes = [*mark_notes(charts), *wrap_notes(list(caveats))]
        return save_if_path(draw_panels(charts, "Answers to each question", caption, chart_notes), path)

    def to_json(self) -> str:
        """Serialize all answers as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Answers:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __repr__(self) -> str:
        tables = [f"{name}\n{format_as_table(answer)}" for name, answer in self.items()]
        return "\n\n".join(tables) + (f"\n\n{self.short_receipt()}" if self.receipt is not None else "")

    def short_receipt(self) -> str:
        """Return the essential lines of the joint receipt; what limits do is said beside the numbers."""
        assert self.receipt is not None
        return self.receipt.short(limits=not any(answer.caveats for answer in self.answers))

    def _repr_html_(self) -> str:
        return "".join(paragraph(name, strong=True) + answer._repr_html_() for name, answer in self.items())


@codec.serialisable("workload-forecast")
@dataclass(frozen=True)
class WorkloadForecast:
    """The forecast of each question, and the price of those without a stored answer."""

    names: tuple[str, ...]
    forecasts: tuple[Forecast, ...]
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept the whole now."""
    warnings: tuple[str, ...] = ()
    """What answers may miss for lack of declarations, and whether the release closes the plain ε total."""
    assumed_delta: Fraction = Fraction(0)
    """The δ of this forecast where groups are found in the data and none was given: a release must accept it."""

    def __post_init__(self) -> None:
        _set_checked_tuples(self, "forecasts", Forecast)
        object.__setattr__(self, "assumed_delta", exact(self.assumed_delta, "assumed_delta", NONNEGATIVE))
        codec.check_simple_fields(self)

    @property
    def stored(self) -> tuple[str, ...]:
        """The questions with stored answers, which are free."""
        return tuple(name for name, forecast in zip(self.names, self.forecasts, strict=True) if forecast.stored)

    def __getitem__(self, name: str) -> Forecast:
        return dict(zip(self.names, self.forecasts, strict=True))[name]

    def to_json(self) -> str:
        """Serialize the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> WorkloadForecast:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        lines = [
            f"{name}: {'; '.join(forecast.parts()) or 'exact'}{', stored: free' if forecast.stored else ''}"
            for name, forecast in zip(self.names, self.forecasts, strict=True)
        ]
        verdict = "accepts" if self.accepted else "REFUSES"
        total = f"together: {self.price}; the account {verdict} it now"
        return "\n".join([*lines, total, *(f"warning: {warning}" for warning in self.warnings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def _set_checked_tuples(owner: Any, field_name: str, value_type: type) -> None:
    """Check that there is one distinct name for each value, and that values have this type."""
    names, values = tuple(owner.names), tuple(getattr(owner, field_name))
    if (
        len(set(names)) != len(values)
        or len(names) != len(values)
        or not all(isinstance(value, value_type) for value in values)
    ):
        raise InvalidParameter(
            field_name, ValueWords("a value of another length or type"), "a list with one value for each name"
        )
    object.__setattr__(owner, "names", names)
    object.__setattr__(owner, field_name, values)
