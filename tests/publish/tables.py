"""A small table of people, published with noise or without, and the same questions asked of its rows."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.mechanisms import Gaussian, Laplace
from sfumato.policy import Domain
from sfumato.publish.marginals import blocks as block_algebra
from sfumato.publish.marginals.attributes import (
    Attribute,
    Attributes,
    ListedCell,
    OtherCell,
    PublicTableFacts,
    RangeCell,
)
from sfumato.publish.marginals.measuring import PublishedMarginals, encode_integers
from sfumato.publish.marginals.planning import MarginalWorkload, NoisePlan, plan_gaussian, plan_laplace
from sfumato.publish.synopsis import Synopsis
from sfumato.release.answers.receipts import Receipt
from sfumato.release.payers import PurchaseTerms
from sfumato.release.prices import Price

FIRST = dt.date(2024, 1, 1)
MONTHS = [dt.date(2024, month, 1) for month in (1, 2, 3, 4)]
ATTRIBUTES: Attributes = (
    Attribute("sex", "text", (ListedCell("f"), ListedCell("m"), OtherCell())),
    Attribute(
        "age", "integer", (RangeCell(0, 18), RangeCell(18, 40), RangeCell(40, 65), RangeCell(65, 99, True), OtherCell())
    ),
    Attribute("smokes", "boolean", (ListedCell(False), ListedCell(True), OtherCell())),
    Attribute(
        "day",
        "date",
        (
            *(RangeCell(*pair) for pair in pairwise(MONTHS)),
            RangeCell(MONTHS[-1], dt.date(2024, 4, 30), True),
            OtherCell(),
        ),
        ((0, 0, 0, 1, 2),),
    ),
    Attribute("score", "real", (RangeCell("0", "0.5"), RangeCell("0.5", "2", True), OtherCell())),
    Attribute("code", "text", (*map(ListedCell, ("A1", "A2", "B1", "B2")), OtherCell()), ((0, 0, 1, 1, 2),)),
)
DOMAINS = (
    Domain("text", values=("f", "m")),
    Domain("integer", bounds=(0, 99)),
    Domain("boolean", nullable=True),
    Domain("date", bounds=(FIRST, dt.date(2024, 4, 30))),
    Domain("real", bounds=("0", "3")),
    Domain("text", values=("A1", "A2", "B1", "B2"), nullable=True),
)
NAMES = tuple(each.name for each in ATTRIBUTES)
STORED = (pa.string(), pa.int64(), pa.bool_(), pa.date32(), pa.float64(), pa.string())
RECEIPT = Receipt(
    question="the marginals of people",
    unit="person",
    neighbours="add-remove",
    guarantee="ρ = 0.5",
    account="ε = 5, δ = 1e-6",
    mechanisms=("Gaussian",),
    strategy="whole",
    limits="1 row",
    bounds=(),
    policy="0" * 64,
    data="1" * 64,
    software="sfumato",
    line=3,
    hash="2" * 64,
    time="2026-01-01T00:00:00+00:00",
    free=False,
    confidence="0.95",
    remaining="nothing",
)


def people(seed: int, count: int = 400) -> list[tuple[Any, ...]]:
    draw = Random(seed)
    return [
        (
            draw.choice(["f", "m", "m", None]),
            draw.choice([None, *range(0, 100, 7)]),
            draw.choice([True, False, False, None]),
            draw.choice([None, *(FIRST + dt.timedelta(days=each) for each in range(0, 121, 5))]),
            draw.choice([None, 0.0, 0.25, 0.5, 1.75, 2.0, 2.5, 3.0]),
            draw.choice(["A1", "A2", "B1", "B2", None]),
        )
        for _ in range(count)
    ]


def counts(rows: list[tuple[Any, ...]], attributes: Attributes = ATTRIBUTES) -> np.ndarray:
    """Count the rows in every cell, by its meaning."""
    found = np.zeros([each.size for each in attributes], np.int64)
    for row in rows:
        found[tuple(_cell(each, value) for each, value in zip(attributes, row, strict=False))] += 1
    return found


def _cell(attribute: Attribute, value: Any) -> int:
    for place, cell in enumerate(attribute.cells[:-1]):
        if isinstance(cell, ListedCell) and value == cell.value and value is not None:
            return place
        inside = isinstance(cell, RangeCell) and value is not None and cell.low <= value <= cell.high
        if inside and (cell.closed or value < cell.high):
            return place
    return attribute.size - 1


def asked_of_rows(rows: list[tuple[Any, ...]], question: str) -> list[tuple[Any, ...]]:
    """What DuckDB answers on the rows themselves."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(NAMES)
    arrays = {name: pa.array(each, kind) for name, each, kind in zip(NAMES, columns, STORED, strict=True)}
    session = _session()
    session.register("people", pa.table(arrays))
    return session.execute(question).fetchall()


@cache
def _session() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def planned(
    sets: Any, *, rho: Any = Fraction(1, 2), epsilon: Any = None, attributes: Attributes = ATTRIBUTES
) -> NoisePlan:
    """The plan of some marginals, named by the first letters of their columns' names, or given by places."""
    names = [each.name for each in attributes]
    places = tuple(tuple(sorted(names.index(name) for name in each)) for each in sets)
    if epsilon is not None:
        return plan_laplace(MarginalWorkload(places), attributes, epsilon=epsilon)
    return plan_gaussian(MarginalWorkload(places), attributes).at_price(rho)


def published(plan: NoisePlan, table: np.ndarray, *, noisy: bool = False, **more: Any) -> Synopsis:
    """Publish a table of counts, with the noise of the plan or with none."""
    values = []
    for block in plan.blocks:
        own = _summed(table, block_algebra.block_attribute_indices(block.block))
        exact = block_algebra.scaled_residual(own, block.block, plan.attributes, block.grid)
        values.append(encode_integers(np.asarray(Gaussian(block.deviation).apply(exact)) if noisy else exact))
    for marginal in plan.marginals:
        exact = _summed(table, marginal.attribute_set)
        values.append(encode_integers(np.asarray(Laplace(marginal.scale).apply(exact)) if noisy else exact))
    price = Price(rho=Fraction(1, 2)) if plan.blocks else Price(1)
    face = (
        PublicTableFacts(DOMAINS[: len(plan.attributes)], (), "people")
        if plan.attributes == ATTRIBUTES
        else PublicTableFacts()
    )
    terms = PurchaseTerms(str(price), data="1" * 64)
    own = PublishedMarginals(plan, tuple(values), "people", "", terms, price, more.pop("face", face))
    return Synopsis(own, replace(RECEIPT, guarantee=str(price), **more))


def _summed(table: np.ndarray, places: tuple[int, ...]) -> np.ndarray:
    return np.asarray(table.sum(tuple(axis for axis in range(table.ndim) if axis not in places)), np.int64)


def holds(interval: tuple[float, float] | None, truth: Any) -> bool:
    """Whether a range holds a number, but for rounding; a mean of no row is any."""
    if truth is None or interval is None:
        return True
    slack = 1e-6 * max(1.0, abs(float(truth)))
    return interval[0] - slack <= float(truth) <= interval[1] + slack or math.isinf(interval[0])
