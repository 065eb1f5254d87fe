"""The noisy totals behind an answer, with the law of each: what tests are computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.inference.noise_laws import NoiseLaw
from sfumato.inference.score_tests import GroupSums, PairSums
from sfumato.plan.aggregates.measures import Count, MeanEstimate
from sfumato.plan.aggregates.moments import CentredRange, CorrelationEstimate, SpreadEstimate
from sfumato.plan.nodes import GroupValues, Query
from sfumato.plan.released_values import require_no_released_values
from sfumato.plan.values.expressions import Column, Key, Result
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.formatting import key_text
from sfumato.release.measured import NoisyMeasurements, ResultEstimator, linear_factors

_CUT_FIX = "leave out HAVING and LIMIT; sorting and filtering the answer afterwards is free"


@dataclass(frozen=True, eq=False)
class ReleasedNumbers:
    """The groups of an answer without NULL, and the noisy totals of each of its columns."""

    key_names: tuple[str, ...]
    groups: tuple[GroupValues, ...]
    measured: NoisyMeasurements
    results: dict[str, ResultEstimator]
    """The estimator of each column that is an aggregate and nothing else;"""
    count_columns: frozenset[str]
    """of these, the columns that count rows."""

    @classmethod
    def from_measurements(cls, query: Query, noisy_measurements: NoisyMeasurements, max_rows: int) -> ReleasedNumbers:
        """Return the numbers of an answer that shows every group, with at most one row of each unit; refuse others."""
        require_unselected_rows(query)
        if noisy_measurements.selection is not None:
            raise discovered_groups_refusal()
        if max_rows > 1:
            raise Unsupported(
                "test-of-several-rows",
                f"a test needs independent rows, but here up to {max_rows} rows of the same unit are counted",
                fix="ask with .limit(rows=1), or declare max_rows = 1 for the table",
            )
        names: dict[int, str] = {}
        results: dict[str, ResultEstimator] = {}
        counted: set[str] = set()
        for output in query.finish.outputs:
            reference = output.expression.reference if isinstance(output.expression, Column) else None
            if isinstance(reference, Key):
                names[reference.index] = output.name
            elif isinstance(reference, Result):
                results[output.name] = noisy_measurements.results[reference.index]
                counted |= {output.name} if isinstance(query.plan.measures[reference.index], Count) else set()
        keys = tuple(names.get(index, f"key {index + 1}") for index in range(len(query.plan.keys)))
        return cls(keys, noisy_measurements.keys.groups, noisy_measurements, results, frozenset(counted))

    def key_values(self, key: int) -> tuple[Any, ...]:
        """Return the values of one key, in order, without NULL."""
        return tuple(dict.fromkeys(group[key] for group in self.groups if group[key] is not None))

    def column_to_test(self, name: str | None, estimator_type: type, estimate_name: str) -> str:
        """Return the column to test: the named one, or the only one with such an estimator."""
        candidates = [name for name, result in self.results.items() if isinstance(result.estimator, estimator_type)]
        return self._only_column(name, candidates, estimate_name)

    def _only_column(self, name: str | None, candidates: Sequence[str], estimate_name: str) -> str:
        chosen = [column for column in candidates if not name or column == name]
        if len(chosen) == 1:
            return chosen[0]
        rule = f"the name of a column that holds only {estimate_name}"
        fix = f"ask for {estimate_name}; columns of this answer: {', '.join(self.results) or 'none'}"
        raise InvalidParameter("column", name, rule, fix=f"name one of {', '.join(chosen)}" if chosen else fix)

    def _noisy_totals_and_law(self, scale_index: int) -> tuple[list[Floats], NoiseLaw]:
        """Return the noisy columns of one scale, in the unit of the measure, and the law of their noise."""
        start = sum(scale.columns for scale in self.measured.scales[:scale_index])
        scale = self.measured.scales[scale_index]
        columns = self.measured.columns[start : start + scale.columns]
        return [
            np.array(column, dtype=np.float64) * float(scale.unit_value) for column in columns
        ], NoiseLaw.from_scale(scale)

    def counts_and_noise_law(self, column: str | None) -> tuple[Floats, NoiseLaw]:
        """Return a table of noisy counts, a dimension for each key, and their law.

        A count that is taken together with other measures is a sum of totals of one measurement: independent noises of
        one law, each in units of rows.
        """
        result = self.results[
            self._only_column(column, [name for name in self.results if name in self.count_columns], "COUNT(*)")
        ]
        factors = linear_factors(result.estimator)
        columns = [(index, total) for index in result.scales for total in self._noisy_totals_and_law(index)[0]]
        totals = sum(float(factor) * total for factor, (_, total) in zip(factors, columns, strict=True))
        scales = self.measured.scales
        laws = {NoiseLaw.from_scale(scales[index], factor) for factor, (index, _) in zip(factors, columns, strict=True)}
        (law,) = (replace(law, noises=len(factors)) for law in laws)
        positions = [
            {value: index for index, value in enumerate(self.key_values(key))} for key in range(len(self.key_names))
        ]
        cells = np.zeros([len(values) for values in positions])
        for group, total in zip(self.groups, np.asarray(totals), strict=True):
            if None not in group:
                cells[tuple(values[value] for values, value in zip(positions, group, strict=True))] = total
        return cells, law

    def group_sums_and_estimate(self, column: str | None) -> tuple[GroupSums, MeanEstimate]:
        """Return the two sums of each group's mean, with its variance if the answer has it, and the mean's range."""
        result = self.results[self.column_to_test(column, MeanEstimate, "AVG(…)")]
        estimator = result.estimator
        assert isinstance(estimator, MeanEstimate)
        (above, below), law = self._noisy_totals_and_law(result.scales[0])
        is_complete = np.array([None not in group for group in self.groups])
        width = float(estimator.high - estimator.low)
        variances = self._released_variances(result.scales[0], is_complete)
        sums = GroupSums(above[is_complete], below[is_complete], law, width, variances, float(estimator.low))
        return sums, estimator

    def _released_variances(self, mean_scale: int, is_complete: Any) -> Floats | None:
        """Return each group's variance from released squares, one standard deviation of their noise above it."""
        for result in self.results.values():
            if isinstance(result.estimator, SpreadEstimate) and result.scales[0] == mean_scale:
                axis = result.estimator.axis
                (above, below), _ = self._noisy_totals_and_law(mean_scale)
                (squares,), law = self._noisy_totals_and_law(result.scales[1])
                rows = np.maximum((above + below) / axis.width, 1.0)
                centre = above / rows + float(axis.low - axis.middle)
                return np.asarray((squares + np.sqrt(law.variance)) / rows - centre**2)[is_complete]
        return None

    def pair_totals(self, column: str | None) -> PairTotals:
        """Return the totals of two columns that their correlation was computed from."""
        result = self.results[self.column_to_test(column, CorrelationEstimate, "CORR(y, x)")]
        estimator = result.estimator
        assert isinstance(estimator, CorrelationEstimate)
        noisy = [self._noisy_totals_and_law(index) for index in result.scales]
        totals = np.array([total[0] for scale_totals, _ in noisy for total in scale_totals])
        laws = tuple(law for scale_totals, law in noisy for _ in scale_totals)
        return PairTotals(estimator.x, estimator.y, totals, laws)

    def require_key_count(self, count: int, test: str, required_keys: str) -> None:
        """Refuse an answer with another number of keys."""
        if len(self.key_names) != count:
            given = f"is grouped by {', '.join(self.key_names)}" if self.key_names else "has no groups"
            rule = f"{test} needs {required_keys}; this answer {given}"
            column_words = {0: "leave out GROUP BY", 1: "group by one column", 2: "group by two columns"}
            raise Unsupported("test-keys", rule, fix=column_words[count])


@dataclass(frozen=True, eq=False)
class PairTotals:
    """The seven noisy totals of two columns, with the range of each column."""

    x: CentredRange
    y: CentredRange
    totals: Floats
    """Σ(x − low), Σ(high − x), the same of y, Σ(x − c)², Σ(y − d)² and Σ(x − c)(y − d), c and d the middles."""
    laws: tuple[NoiseLaw, ...]
    """The law of the noise of each total."""

    @property
    def sums(self) -> PairSums:
        """The sums about the middles; the number of rows is the mean of those that both columns tell."""
        above_x, below_x, above_y, below_y, squares_x, squares_y, products = self.totals.tolist()
        return PairSums(
            ((above_x + below_x) / self.x.width + (above_y + below_y) / self.y.width) / 2,
            (_centred_sum(above_x, below_x, self.x), _centred_sum(above_y, below_y, self.y)),
            (squares_x, squares_y),
            products,
            (self.laws[0], self.laws[2]),
            self.laws[6],
            (self.x.largest_distance, self.y.largest_distance),
        )


def _centred_sum(above: float, below: float, axis: CentredRange) -> float:
    """Return Σ(x − middle): half the difference of both sums where the middle is that of the range."""
    rows = (above + below) / axis.width
    return float((above - below) / 2 + rows * float((axis.low + axis.high) / 2 - axis.middle))


def discovered_groups_refusal() -> Unsupported:
    rule = "groups found in the data are shown only where they are large, so a test on them would reject too often"
    return Unsupported("test-of-discovered-groups", rule, fix="declare the values of the key in the policy")


def require_unselected_rows(query: Query) -> None:
    """Refuse a question whose rows are selected by noisy numbers, or computed from them: selection biases a test."""
    finish = query.finish
    require_no_released_values(query)
    if finish.having is not None or finish.limit is not None or finish.offset:
        rule = (
            "HAVING and LIMIT select groups by their noisy numbers, so a test on the remaining groups would reject "
            "too often"
        )
        raise Unsupported("test-of-cut-answer", rule, fix=_CUT_FIX)
    if query.outer or query.combined or finish.sets or finish.windows or finish.qualify:
        rule = "only plain counts, means and correlations by group can be tested"
        raise Unsupported("test-of-computed-answer", rule, fix="write a single SELECT without ROLLUP, windows or UNION")


def group_labels(values: Sequence[Any]) -> list[str]:
    """Return group values as they are printed."""
    return [key_text(value) for value in values]
