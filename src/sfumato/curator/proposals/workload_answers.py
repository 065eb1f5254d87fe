"""The answers of a workload, both a list and a mapping, with one receipt; and their forecast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import Any, overload

from sfumato.curator.previews.error_forecasts import Forecast
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.html_fragments import paragraph, preformatted
from sfumato.plots.answers import draw_panels
from sfumato.plots.picture import Picture, save_if_path
from sfumato.privacy import codec
from sfumato.privacy.numbers import NONNEGATIVE, exact
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer, format_as_table
from sfumato.release.answers.answer_pictures import caption_lines, mark_notes, wrap_notes
from sfumato.release.answers.receipts import Receipt
from sfumato.release.answers.stacked_answers import stack_answers
from sfumato.untrusted import escape_unprintable


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
