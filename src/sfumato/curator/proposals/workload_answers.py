"""The answers of a workload are a list and a mapping at once, with one receipt; what they will be is forecast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, overload

from sfumato.curator.previews.forecasts import Forecast
from sfumato.errors import InvalidParameter
from sfumato.notebook_html import paragraph, preformatted
from sfumato.plots.answers import draw_panels
from sfumato.plots.picture import Picture, saved
from sfumato.privacy import codec
from sfumato.release.answers.answer import Answer, as_table, stacked
from sfumato.release.answers.answer_pictures import foot, notes
from sfumato.release.answers.receipts import Receipt
from sfumato.untrusted import printable


@codec.value("answers")
@dataclass(frozen=True)
class Answers:
    """The answers to several questions, by name and by place: ``found["q1"]`` and ``found[0]`` are one."""

    names: tuple[str, ...]
    """Of the questions, in order."""
    answers: tuple[Answer, ...]
    receipt: Receipt | None = None
    """Of what was charged for all of them together; None where nothing was."""

    def __post_init__(self) -> None:
        _pair(self, "answers", Answer)
        codec.check_fields(self)

    @property
    def rehearsed(self) -> bool:
        """Return whether the numbers are invented, from the policy alone."""
        return any(each.rehearsed for each in self.answers)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Describe why what was paid for all of them promises little, where it does, and what single answers may miss."""
        paid = () if self.receipt is None else self.receipt.weak
        return tuple(dict.fromkeys([*paid, *(said for each in self.answers for said in each.warnings)]))

    def items(self) -> list[tuple[str, Answer]]:
        """Return names and answers side by side."""
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
        """Return all answers as one: below each other, with the name of its question in every row."""
        return stacked(self.names, self.answers, self._last_receipt, self.warnings)

    @property
    def _last_receipt(self) -> Receipt:
        """Return the receipt of all, or the last of theirs where all were bought before."""
        if not self.answers:
            raise InvalidParameter("answers", (), "at least one: rows are given of what was asked")
        return self.receipt or max((each.receipt for each in self.answers), key=attrgetter("line"))

    def plot(self, path: str | None = None) -> Picture:
        """Draw a small panel for each number of each question; with a path (.svg, .png, .html) it is saved, too."""
        charts = [
            replace(each.chart_data(column), name=f"{printable(name)}: {printable(column)}")
            for name, each in self.items()
            for column in each.columns
            if column in each.intervals
        ]
        below = foot(self._last_receipt)
        return saved(draw_panels(charts, "Answers to each question", below, notes(charts)), path)

    def to_json(self) -> str:
        """Write all answers as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Answers:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __repr__(self) -> str:
        said = [f"{name}\n{as_table(answer)}" for name, answer in self.items()]
        return "\n\n".join(said) + (f"\n\n{self.receipt.short()}" if self.receipt is not None else "")

    def _repr_html_(self) -> str:
        return "".join(paragraph(name, strong=True) + answer._repr_html_() for name, answer in self.items())


@codec.value("workload-forecast")
@dataclass(frozen=True)
class WorkloadForecast:
    """A forecast of a workload gives that of each question, and the price of those that are not stored."""

    names: tuple[str, ...]
    forecasts: tuple[Forecast, ...]
    price: str
    accepted: bool
    """Whether the account, and the analyst's share of it, would accept the whole now."""
    warnings: tuple[str, ...] = ()
    """What answers may miss because nobody declared it, and what the whole would end."""

    def __post_init__(self) -> None:
        _pair(self, "forecasts", Forecast)
        codec.check_fields(self)

    @property
    def stored(self) -> tuple[str, ...]:
        """List the questions whose answers were bought before: they are free."""
        return tuple(name for name, each in zip(self.names, self.forecasts, strict=True) if each.stored)

    def __getitem__(self, name: str) -> Forecast:
        return dict(zip(self.names, self.forecasts, strict=True))[name]

    def to_json(self) -> str:
        """Write the forecast as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> WorkloadForecast:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        lines = [
            f"{name}: {'; '.join(each.parts()) or 'exact'}{', stored: free' if each.stored else ''}"
            for name, each in zip(self.names, self.forecasts, strict=True)
        ]
        verdict = "accepts" if self.accepted else "REFUSES"
        together = f"together: {self.price}; the account {verdict} it now"
        return "\n".join([*lines, together, *(f"warning: {each}" for each in self.warnings)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def _pair(owner: Any, what: str, kind: type) -> None:
    """Check that there is one name, each once, for each value of this kind."""
    names, values = tuple(owner.names), tuple(getattr(owner, what))
    if (
        len(set(names)) != len(values)
        or len(names) != len(values)
        or not all(isinstance(each, kind) for each in values)
    ):
        raise InvalidParameter(what, "something else", "one for each name")
    object.__setattr__(owner, "names", names)
    object.__setattr__(owner, what, values)
