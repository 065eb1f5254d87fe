"""Principal components of noisy moments, with the largest angle that the noise can have turned them by.

The covariance of columns scaled to [−1, 1] is C = A/n − μμᵀ of released moments. To first order its noise D is a linear
map of the moments' Gaussian noises, so ‖D‖² in Frobenius norm is a quadratic form of them: with probability 1 − β it is
at most h² = T + 2√(S·t) + 2·L·t, where T, S and L are the trace of the form's matrix, that of its square, and its
largest eigenvalue, and t = ln(1/β) (Laurent & Massart 2000, Lemma 1). Then every variance is off by at most h (Weyl),
and a component whose released variance is g away from its neighbours is turned by at most arcsin(h/(g − h)) (Davis &
Kahan 1970); where g ≤ 2h nothing is known of its direction: 90°.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.array_types import Floats
from sfumato.caching import cached_property
from sfumato.inference.design import Coordinate, Design, DesignBuilder
from sfumato.inference.moments import MomentEstimates
from sfumato.policy import Domain, Type
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import Receipt


def components_design(columns: Sequence[str], domains: dict[str, Domain], scale: int) -> Design:
    """Return the design of some columns of numbers and an intercept."""
    builder = DesignBuilder(scale, domains)
    for column in columns:
        builder.add_block([Coordinate(column=builder.scaled_column_index(column))])
    return builder.build()


@dataclass(frozen=True)
class ComponentsFit:
    """The principal components of a design's columns, from noisy moments."""

    design: Design
    moments: MomentEstimates

    @property
    def rows(self) -> float:
        """The released number of rows, at least 1."""
        return max(1.0, float(self.moments.values[0]))

    @cached_property
    def covariance(self) -> Floats:
        """C: the covariance of the scaled columns."""
        gram = self.moments.gram(self.design) / self.rows
        return gram[1:, 1:] - np.outer(gram[0, 1:], gram[0, 1:])

    @cached_property
    def _variances_and_loadings(self) -> tuple[Floats, Floats]:
        values, vectors = np.linalg.eigh(self.covariance)
        order = np.argsort(-values)
        vectors = vectors[:, order]
        signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(len(order))])
        return values[order], vectors * np.where(signs == 0, 1.0, signs)

    @property
    def variances(self) -> Floats:
        """The released variances along the components, falling; noise may have made some negative."""
        return self._variances_and_loadings[0]

    @property
    def loadings(self) -> Floats:
        """One column for each component, of length 1, its largest number positive."""
        return self._variances_and_loadings[1]

    def covariance_error(self, confidence: float) -> float:
        """Return h, which bounds the noise of C in Frobenius norm with this confidence, to first order."""
        noises = self._noise_directions.reshape(len(self._noise_directions), -1)
        form = noises @ noises.T
        trace, squares = float(np.trace(form)), float((form**2).sum())
        largest, tail = float(np.linalg.eigvalsh(form)[-1]), math.log(1 / (1 - confidence))
        return math.sqrt(trace + 2 * math.sqrt(squares * tail) + 2 * largest * tail)

    @cached_property
    def _noise_directions(self) -> Floats:
        """What each independent noise of deviation 1 adds to C: of A/n, of n and of the means."""
        index, gram = self.design.gram_index, self.moments.gram(self.design) / self.rows
        means = gram[0, 1:]
        parts = []
        for noise in self.moments.factor.T:
            change = np.where(index >= 0, noise[index], 0.0) / self.rows
            change = change - gram * change[0, 0]  # the count is a divisor of all of them
            moved = np.outer(means, change[0, 1:])
            parts.append(change[1:, 1:] - moved - moved.T)
        return np.array(parts)

    def angles(self, confidence: float) -> tuple[float, ...]:
        """Return the largest angle in degrees between each component and that of the table at hand."""
        error, values = self.covariance_error(confidence), self.variances
        angles = []
        for index, value in enumerate(values):
            others = np.delete(values, index)
            gap = float(np.abs(others - value).min()) if len(others) else math.inf
            angles.append(90.0 if gap <= 2 * error else math.degrees(math.asin(error / (gap - error))))
        return tuple(angles)


@codec.serialisable("components-answer")
@dataclass(frozen=True, repr=False)
class ComponentsAnswer(Answer):
    """Principal components: a row for each, with its variance, its share of all, its angle's error and its loadings."""

    rows_used: float = 0.0
    """The released number of rows without a missing value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "rows_used", codec.parse_float(self.rows_used, "rows_used"))

    def ranked(self) -> list[str]:
        lines = [
            "variance: of columns scaled to [−1, 1] by their declared bounds; angle: how far noise may have "
            "turned a component, in degrees (90: its direction is unknown)"
        ]
        return [*lines, *super().ranked()]

    def _format_number(self, name: str, index: int, value: object) -> str:
        if name in self.intervals or not isinstance(value, float):
            return super()._format_number(name, index, value)
        return f"{value:.1f}" if name == "angle" else f"{value:.3f}"


def components_answer_columns(columns: Sequence[str]) -> Columns:
    """Return the columns of an answer about these columns."""
    real = ("variance", "share", "angle", *(f"loading {name}" for name in columns))
    return AnswerColumn("component", Type.INTEGER), *(AnswerColumn(name, Type.REAL) for name in real)


def components_answer(
    fit: ComponentsFit, receipt: Receipt, confidence: float, warnings: tuple[str, ...]
) -> ComponentsAnswer:
    """Build the table of components at a confidence."""
    columns = components_answer_columns([column.factors[0] for column in fit.design.columns])
    error, angles, values = fit.covariance_error(confidence), fit.angles(confidence), fit.variances.tolist()
    total = max(sum(max(0.0, value) for value in values), 1e-300)
    rows = tuple(
        (index + 1, value, max(0.0, value) / total, angles[index], *fit.loadings[:, index].tolist())
        for index, value in enumerate(values)
    )
    unknown = sum(angle == 90.0 for angle in angles)
    note = (f"the directions of {unknown} of {len(angles)} components cannot be determined at this price",)
    return ComponentsAnswer(
        tuple(column.name for column in columns),
        tuple(column.type for column in columns),
        rows,
        {"variance": tuple((value - error, value + error) for value in values)},
        ("component",),
        receipt,
        (*warnings, *(note if unknown else ())),
        rows_used=float(fit.moments.values[0]),
    )
