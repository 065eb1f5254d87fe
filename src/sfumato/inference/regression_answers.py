"""The released table of a regression: coefficients with the ± of their noise and of their sample.

Predictions of released coefficients for rows that their holder has: free, since they read no private row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.inference.design import Design
from sfumato.inference.formula import in_labelled_range
from sfumato.inference.linear import Coefficient, LinearFit
from sfumato.inference.robust import RobustFit
from sfumato.plots.answers import draw_answer
from sfumato.plots.picture import Picture, save_if_path
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import exact, format_number, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_pictures import caption_lines, mark_notes, wrap_notes
from sfumato.release.answers.receipts import Receipt

_CENTRED = re.compile(r"center\((?P<column>.*), (?P<centre>-?[\d.e+-]+)\)")
_CENTRE_MISSING = re.compile(r"center\([^,]*\)")


def predicted_probability(coefficients: Mapping[str, float], rows: Any) -> Any:
    """Return σ(β·x) for every row of a data frame, or for one row as a mapping of single values.

    A value that no coefficient names counts as the reference value of its category.
    """
    is_one = isinstance(rows, Mapping) and not any(np.ndim(value) for value in rows.values())
    columns = {str(name): np.atleast_1d(np.asarray(rows[name])) for name in rows}
    score: Floats = np.zeros(max((len(values) for values in columns.values()), default=1))
    for label, coefficient in coefficients.items():
        values = np.ones(1) if label == "intercept" else _regressor_values(label, columns)
        if values is None:
            raise _unknown_regressor_error(label, columns)
        score = score + coefficient * values
    probability = 1 / (1 + np.exp(-np.clip(score, -700, 700)))
    return float(probability[0]) if is_one else probability


def _unknown_regressor_error(label: str, columns: Mapping[str, NDArray[Any]]) -> InvalidParameter:
    if _CENTRE_MISSING.search(label):
        rule = "labels in which each centred column has its centre, as in center(age, 40)"
        return InvalidParameter("coefficients", label, rule, fix="write the centre as a number after the column")
    given = ValueWords(f"the columns {', '.join(sorted(columns)[:20])}")
    rule = f"a table that has every column named in the coefficient '{label}'"
    return InvalidParameter("rows", given, rule, fix="add the missing column to rows")


def _regressor_values(label: str, columns: Mapping[str, NDArray[Any]]) -> Floats | None:
    """Return the values of a regressor by its label: of a product of two factors, or of one; None for another label.

    Products come first: ``sex[M]:arm[a]`` would also be the value ``M]:arm[a`` of sex.
    """
    for position in (match.start() for match in re.finditer(":", label)):
        first, second = _factor_values(label[:position], columns), _factor_values(label[position + 1 :], columns)
        if first is not None and second is not None:
            return first * second
    return _factor_values(label, columns)


def _factor_values(label: str, columns: Mapping[str, NDArray[Any]]) -> Floats | None:
    """Return a number, a square, a centred number or an indicator such as ``sex[F]`` or ``age[20 to <40]``; None for
    another label.
    """
    if label in columns:
        return columns[label].astype(float)
    if label.endswith("^2"):
        base = _factor_values(label[:-2], columns)
        return None if base is None else base**2
    centred = _CENTRED.fullmatch(label)
    if centred and centred["column"] in columns:
        return columns[centred["column"]].astype(float) - float(centred["centre"])
    name, bracket, value = label.partition("[")
    if bracket and value.endswith("]") and name in columns:
        cells = columns[name].tolist()
        is_value = np.array([_label_text(cell) == value[:-1] for cell in cells], bool)
        return (is_value | in_labelled_range(value[:-1], cells)).astype(float)
    return None


def _label_text(cell: object) -> str:
    """Write a value as a label does; pandas makes reals of whole numbers where one is missing."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


COLUMNS = ("term", "coefficient", "z", "p", "low", "high")
TYPES = (Type.TEXT, *(Type.REAL,) * 5)
WEAK = 5.0
"""Below this ratio of the smallest eigenvalue to its noise, columns can hardly be told apart."""


@dataclass(frozen=True, repr=False)
class CoefficientTable(Answer):
    """A table with one row for each coefficient of a fitted model.

    The interval of a coefficient is for the table at hand, and covers the noise; ``sampling`` is the ± of another
    sample alone. ``low`` and ``high`` are the interval for the population, which covers both; z and p test that the
    population's coefficient is 0.
    """

    formula: str = ""
    rows_used: float = 0.0
    """The released number of rows without a missing value."""
    references: tuple[str, ...] = ()
    """The reference value of each category, such as ``sex[F]``."""

    column_names: ClassVar[tuple[str, ...]] = COLUMNS

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rows_used", codec.parse_float(self.rows_used, "rows_used"))
        if self.columns != self.column_names:
            raise InvalidParameter("columns", self.columns, ", ".join(self.column_names))

    @property
    def coefficients(self) -> dict[str, float]:
        """The coefficients by name."""
        return dict(zip(self.column("term"), self.column("coefficient"), strict=True))

    def __getitem__(self, term: str) -> float:
        """Return one coefficient."""
        if term not in self.coefficients:
            raise InvalidParameter("term", term, f"one of {', '.join(self.coefficients)}")
        return self.coefficients[term]

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The terms whose coefficient cannot be told at this price: their interval has no end."""
        ranges = zip(self.column("term"), self.intervals["coefficient"], strict=True)
        return tuple(term for term, interval in ranges if interval is None or not all(map(math.isfinite, interval)))

    def _format_number(self, name: str, index: int, value: Any) -> str:
        if name in self.column_names[2:]:
            return _format_statistic(name, value)
        return super()._format_number(name, index, value)

    @property
    def model_words(self) -> str:
        """What the fit says of the whole model, in words."""
        return ""

    def footer_lines(self) -> list[str]:
        """Return what stands below the table first: the formula, the rows, the model and the reference values."""
        words = f"; {self.model_words}" if self.model_words else ""
        lines = [f"{self.formula}; {self.rows_used:,.0f} rows without missing values{words}"]
        if self.references:
            lines.append(f"reference: {', '.join(self.references)}")
        return lines

    @property
    def sampling_words(self) -> str:
        """What the sampling error supposes."""
        return "assuming errors of equal variance"

    def note_lines(self) -> list[str]:
        """Return what the intervals cover."""
        confidence = format_percent(exact(self.receipt.confidence, "confidence"))
        if self.sampling is None:
            return [
                f"±: noise, {confidence} confidence, for the table at hand; rows of one unit correlate, so no sampling "
                "error, z or p is shown"
            ]
        return [
            f"±: noise, {confidence} confidence, for the table at hand; low and high: noise and sampling, for the "
            f"population, {self.sampling_words}"
        ]

    def ranked(self) -> list[str]:
        """Describe the fit and what its intervals cover, then what every answer says."""
        return [
            *self.footer_lines(),
            *self.note_lines(),
            *(line for line in super().ranked() if not line.startswith("sampling:")),
        ]

    def plot(self, path: str | None = None) -> Picture:
        """Draw the slopes with two error bars each: that of the noise, and that of the sample.

        The picture shows itself in a notebook; with a path (.svg, .png, .html) it is also saved.
        """
        slopes = self._without_intercept()
        charts = [slopes.chart_data("coefficient")]
        marks = [*mark_notes(charts, self.above), *wrap_notes([*self.footer_lines(), *self.note_lines()])]
        keys = slopes._chart_keys()  # noqa: SLF001 - the same class
        return save_if_path(draw_answer(charts, keys, caption_lines(self.receipt), marks), path)

    def _without_intercept(self) -> Self:
        """Leave out the intercept, beside which slopes could not be seen, unless it is alone."""
        row_indices = [index for index, term in enumerate(self.column("term")) if term != "intercept"] or [0]
        ranges, sampling = self.intervals["coefficient"], (self.sampling or {}).get("coefficient")
        return replace(
            self,
            rows=tuple(self.rows[index] for index in row_indices),
            intervals={"coefficient": tuple(ranges[index] for index in row_indices)},
            sampling=None if sampling is None else {"coefficient": tuple(sampling[index] for index in row_indices)},
        )


@codec.serialisable("regression-answer")
@dataclass(frozen=True, repr=False)
class RegressionAnswer(CoefficientTable):
    """The table of a linear regression."""

    r_squared: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """R² with its range."""
    residual_clamp: float = 0.0
    """The size beyond which residuals count as this in robust errors; 0 without robust errors."""
    is_clustered: bool = False
    """Whether sampling errors add up the scores of a unit's rows, which may correlate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "residual_clamp", codec.parse_float(self.residual_clamp, "residual_clamp"))
        ends = tuple(codec.parse_float(end, "r_squared") for end in self.r_squared)
        if len(ends) != 3:
            raise InvalidParameter("r_squared", self.r_squared, "R² and the two ends of its range")
        object.__setattr__(self, "r_squared", ends)

    @property
    def model_words(self) -> str:
        value, low, high = self.r_squared
        return f"R² {value:.3f} [{low:.3f}, {high:.3f}]" if (low, high) != (0.0, 1.0) else "R² cannot be determined"

    @property
    def sampling_words(self) -> str:
        if not self.residual_clamp:
            return super().sampling_words
        robust_to = "unequal variances and correlated rows of a unit" if self.is_clustered else "unequal variances"
        return f"robust to {robust_to}, residuals beyond ±{format_number(self.residual_clamp, 3)} are clamped"


FOR_PREDICTION = (
    "for prediction only: with this many columns, coefficients come from gradients alone and have no intervals"
)
ODDS_COLUMNS = (*COLUMNS, "odds ratio", "odds low", "odds high")


@codec.serialisable("logistic-answer")
@dataclass(frozen=True, repr=False)
class LogisticAnswer(CoefficientTable):
    """The table of a logistic regression: coefficients are logarithms of odds ratios.

    The odds ratio's interval is for the population where there is one, else for the table at hand.
    """

    column_names: ClassVar[tuple[str, ...]] = ODDS_COLUMNS

    event: str = ""
    """The value of the target whose odds are modelled, such as ``income[>50K]``."""
    for_prediction: bool = False
    """Whether the coefficients are for prediction alone, and have no intervals."""

    def predict(self, rows: Any) -> Any:
        """Return the probability of the event for every row of a data frame, or for one row as a mapping of values."""
        return predicted_probability(self.coefficients, rows)

    @property
    def unbounded(self) -> tuple[str, ...]:
        return () if self.for_prediction else super().unbounded

    def _format_number(self, name: str, index: int, value: Any) -> str:
        if self.for_prediction and name == "coefficient":
            return format_number(value, 4)
        return super()._format_number(name, index, value)

    def note_lines(self) -> list[str]:
        return [FOR_PREDICTION] if self.for_prediction else super().note_lines()

    @property
    def odds_ratios(self) -> dict[str, float]:
        """The odds ratios by term."""
        return dict(zip(self.column("term"), self.column("odds ratio"), strict=True))

    @property
    def model_words(self) -> str:
        return f"odds of {self.event}"

    @property
    def sampling_words(self) -> str:
        return "if the model holds"


def logistic_answer(fit: LinearFit, event: str, receipt: Receipt, warnings: tuple[str, ...]) -> LogisticAnswer:
    """Build the table of a logistic fit at the receipt's confidence."""
    table = fit.coefficients(float(Fraction(receipt.confidence)))
    return LogisticAnswer(
        ODDS_COLUMNS,
        (Type.TEXT, *(Type.REAL,) * 8),
        tuple((*_coefficient_row(coefficient), *_odds_ratio_with_ends(coefficient)) for coefficient in table),
        **_shared_table_fields(fit, table, receipt, warnings),
        event=event,
    )


def prediction_answer(
    design: Design, references: tuple[int, ...], coefficients: Mapping[str, float], event: str, **parts: Any
) -> LogisticAnswer:
    """Build the table of coefficients without intervals; ``parts`` are the rows used, the receipt and the warnings."""
    missing = (None,) * 4
    rows = tuple(
        (name, value, *missing, _exponential_or_infinity(value), None, None) for name, value in coefficients.items()
    )
    labels = (design.level_label(level) for level in enumerate(references))
    return LogisticAnswer(
        ODDS_COLUMNS,
        (Type.TEXT, *(Type.REAL,) * 8),
        rows,
        intervals={"coefficient": (None,) * len(rows)},
        keys=("term",),
        formula="" if design.formula is None else design.formula.text,
        references=tuple(labels),
        event=event,
        for_prediction=True,
        **parts,
    )


def _odds_ratio_with_ends(coefficient: Coefficient) -> tuple[float, float, float]:
    low, high = coefficient.noise if coefficient.combined is None else coefficient.combined
    return _exponential_or_infinity(coefficient.value), _exponential_or_infinity(low), _exponential_or_infinity(high)


def _exponential_or_infinity(value: float) -> float:
    """Return e to the power of a value, ∞ where that is no number."""
    return math.exp(value) if value < 700 else math.inf


def regression_answer(fit: LinearFit, receipt: Receipt, warnings: tuple[str, ...]) -> RegressionAnswer:
    """Build the table of a fit at the receipt's confidence."""
    confidence = float(Fraction(receipt.confidence))
    table = fit.coefficients(confidence)
    return RegressionAnswer(
        COLUMNS,
        TYPES,
        tuple(_coefficient_row(coefficient) for coefficient in table),
        **_shared_table_fields(fit, table, receipt, warnings),
        r_squared=fit.r_squared(confidence),
    )


def robust_answer(fit: RobustFit, receipt: Receipt, warnings: tuple[str, ...]) -> RegressionAnswer:
    """Build the table of a fit with robust errors at the receipt's confidence."""
    return replace(
        regression_answer(fit, receipt, warnings),
        residual_clamp=fit.clamp * fit.target_middle_and_slope[1],
        is_clustered=fit.rows_per_unit > 1,
    )


def _shared_table_fields(
    fit: LinearFit, table: tuple[Coefficient, ...], receipt: Receipt, warnings: tuple[str, ...]
) -> dict[str, Any]:
    """Return what every table of coefficients holds beside its rows."""
    formula = fit.design.formula
    terms = {coefficient.name for coefficient in table}  # without an intercept, the first category keeps all its values
    references = (fit.design.level_label(level) for level in enumerate(fit.references))
    return {
        "intervals": {"coefficient": tuple(coefficient.noise for coefficient in table)},
        "keys": ("term",),
        "receipt": receipt,
        "warnings": (*warnings, *fit_warnings(fit, table)),
        "sampling": {"coefficient": tuple(coefficient.sampling for coefficient in table)}
        if fit.shows_sampling_errors
        else None,
        "formula": "" if formula is None else formula.text,
        "rows_used": fit.rows,
        "references": tuple(label for label in references if label not in terms),
    }


def _coefficient_row(
    coefficient: Coefficient,
) -> tuple[str, float | None, float | None, float | None, float | None, float | None]:
    low, high = (None, None) if coefficient.combined is None else coefficient.combined
    return coefficient.name, coefficient.value, coefficient.z, coefficient.p, low, high


def fit_warnings(fit: LinearFit, table: tuple[Coefficient, ...]) -> tuple[str, ...]:
    """Warn of what released numbers show: coefficients that cannot be told, and columns that resemble each other."""
    warnings = []
    unbounded = [coefficient.name for coefficient in table if not all(map(math.isfinite, coefficient.noise))]
    if unbounded:
        warnings.append(f"{', '.join(unbounded[:5])}{', …' * (len(unbounded) > 5)} cannot be determined at this price")
    ratio, names = fit.weakest_direction_and_terms
    if ratio < WEAK and not unbounded:
        pair = (
            f"{names[0]} and {names[1]} can hardly be distinguished" if len(names) > 1 else f"{names[0]} hardly varies"
        )
        warnings.append(
            f"{pair} at this price: the noise is {format_number(1 / max(ratio, 1e-9), 2)} times the variation"
        )
    if fit.rows < 10 * len(fit.regressors):
        warnings.append(f"about {max(0, round(fit.rows)):,} rows for {len(fit.regressors)} coefficients")
    return tuple(warnings)


def _format_statistic(kind: str, value: float | None) -> str:
    if value is None:
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if kind == "z":
        return f"{value:.2f}"
    if kind == "p":
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    return format_number(value, 4)
