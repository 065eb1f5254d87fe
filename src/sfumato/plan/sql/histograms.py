"""Histograms: the equal bins of a column's declared range, as a group key."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.policy import Type
from sfumato.privacy.numbers import exact_integer, format_exact, format_number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.plan.sql.fragments import Names, Tree
    from sfumato.plan.sql.row_sources import RowSource

MAX_BINS = 500


@dataclass(frozen=True)
class Histogram:
    """A group key of equal bins over the range of a number."""

    of: str
    """The number, as an SQL expression over one row with a known range."""
    bins: int

    def __post_init__(self) -> None:
        if not isinstance(self.of, str):
            raise InvalidParameter("of", self.of, 'a column of numbers, as in sf.histogram("cost")')
        if exact_integer(self.bins, "bins", at_least=1) > MAX_BINS:
            raise InvalidParameter("bins", self.bins, f"at most {MAX_BINS}")

    def bin_number_and_label(self, names: Names, rows: RowSource) -> tuple[Tree, Tree]:
        """Return the number of a row's bin, from 1 on, and the label of that bin; both are NULL where the value is.

        WIDTH_BUCKET puts the upper end of the range into a bin of its own; here it is in the last.
        """
        from sfumato.plan.sql.fragments import (
            parse_expression,
            substitute_columns_in_place,
            substitute_names,
        )  # who only says what to group by needs no parser

        column = substitute_names(parse_expression(self.of), names)
        edges = self._bin_edges(column, rows)
        arguments = {
            "x": column,
            "low": _number_tree(edges[0]),
            "high": _number_tree(edges[-1]),
            "n": parse_expression(str(self.bins)),
        }
        bucket = substitute_columns_in_place(parse_expression("WIDTH_BUCKET(x, low, high, n)"), arguments)
        bin_number = substitute_columns_in_place(
            parse_expression("CASE WHEN b > n THEN n ELSE b END"), {"b": bucket, "n": parse_expression(str(self.bins))}
        )
        labels = " ".join(f"WHEN {index} THEN '{label}'" for index, label in enumerate(_bin_labels(edges), start=1))
        return bin_number, substitute_columns_in_place(parse_expression(f"CASE b {labels} END"), {"b": bin_number})

    def _bin_edges(self, column: Tree, rows: RowSource) -> list[Fraction]:
        from sfumato.plan.sql.sql_expressions import lower_expression

        domain = lower_expression(column.copy(), rows.resolve).domain
        if domain.type not in (Type.INTEGER, Type.REAL):
            rule = f"a histogram needs a numeric column; {self.of} is {domain.type.value}"
            raise Unsupported("histogram", rule, fix="group by the values of the column, or use a numeric expression")
        if domain.range is None or domain.range[0] == domain.range[1]:
            rule = f"a histogram divides the declared range into equal bins, and {self.of} has no such range"
            raise Unsupported("histogram", rule, fix=f"declare bounds for {self.of} in the policy")
        low, high = (Fraction(end) for end in domain.range)  # type: ignore[arg-type]
        return [low + (high - low) * index / self.bins for index in range(self.bins + 1)]

    def __str__(self) -> str:
        return f'histogram("{self.of}", bins={self.bins})'


def histogram(of: str, bins: int = 20) -> Histogram:
    """Group by equal bins of a number: ``group_by(sf.histogram("cost", bins=20))``."""
    return Histogram(of, bins)


def _number_tree(value: Fraction) -> Tree:
    """Return an end of a range, which is a decimal, as a tree."""
    from sfumato.plan.sql.fragments import parse_expression

    return parse_expression(format_exact(value))


def _bin_labels(edges: list[Fraction]) -> list[str]:
    """Return the labels of bins by their ends: all but the last exclude their upper one."""
    end_texts = [_edge_text(edge) for edge in edges]
    pairs = list(pairwise(end_texts))
    return [f"[{low}, {high}{']' if index == len(pairs) else ')'}" for index, (low, high) in enumerate(pairs, start=1)]


def _edge_text(value: Fraction) -> str:
    exact_text = format_exact(value)
    return (
        exact_text
        if len(exact_text) <= 8 and "/" not in exact_text
        else format_number(float(value), 6).replace(",", "")
    )
