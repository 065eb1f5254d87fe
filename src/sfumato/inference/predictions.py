"""Predictions of released coefficients for rows that their holder has: free, since they read no private row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.inference.number_ranges import in_labelled_range

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
