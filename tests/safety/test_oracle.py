"""Without noise, answers equal those of an independent reckoning of the same limits in pandas, over real tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from safety.places import HERE, Place
from sfumato.curator.curators import Curator
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

DATA = Path(__file__).parent.parent / "data"
Frame = pd.DataFrame
Column = Callable[[Frame], Any]


@dataclass(frozen=True)
class Part:
    """A piece of SQL and what it means in pandas."""

    sql: str
    meaning: Column
    values: tuple[Any, ...] = ()
    """The groups, for a key."""
    bounds: tuple[float, float] = (0, 1)
    """Of what is added up."""


@dataclass(frozen=True)
class Subject:
    """A table, its limits (rows, groups, rows per group), and the pieces of questions about it."""

    name: str
    source: Path | Frame
    unit: str
    limits: tuple[int, int, int]
    columns: dict[str, dict[str, Any]]
    load: Callable[[], Frame]
    wheres: tuple[Part, ...]
    keys: tuple[Part, ...]
    values: tuple[Part, ...]


def _clamped(frame: Frame, column: str, low: float, high: float) -> Frame:
    return frame.assign(**{column: frame[column].clip(low, high)})


def _flights() -> Frame:
    frame = _clamped(pd.read_parquet(DATA / "flights/flights.parquet"), "dep_delay", -60, 300)
    return _clamped(frame, "distance", 0, 2000)


def _visits() -> Frame:
    return _clamped(_clamped(pd.read_csv(DATA / "visits/visits.csv"), "minutes", 0, 60), "euros", 0, 40)


def _people() -> Frame:
    return _clamped(_clamped(pd.read_csv(DATA / "pums/people.csv"), "age", 0, 100), "income", 0, 100_000)


_ORIGINS = ("EWR", "JFK", "LGA")
_CARRIERS = ("AA", "B6", "DL", "UA", "US")
AREAS = pd.DataFrame({"origin": ["JFK", "JFK", "LGA"], "area": ["Queens", "airports", "Queens"]})
_ALL = Part("", lambda f: np.ones(len(f), bool))
FLIGHTS = Subject(
    "flights",
    DATA / "flights/flights.parquet",
    "tailnum",
    (12, 3, 5),
    {
        "origin": {"values": list(_ORIGINS)},
        "carrier": {"values": list(_CARRIERS)},
        "dep_delay": {"type": "real", "bounds": [-60, 300], "grid": 1},
        "distance": {"type": "integer", "bounds": [0, 2000]},
        "month": {"type": "integer", "bounds": [1, 12]},
        "day": {"type": "integer", "bounds": [1, 31]},
        "hour": {"type": "integer", "bounds": [0, 23]},
    },
    _flights,
    (
        _ALL,
        Part("dep_delay > 15", lambda f: f.dep_delay > 15),
        Part("NOT dep_delay > 15", lambda f: f.dep_delay <= 15),
        Part("origin IN ('JFK', 'LGA') AND hour >= 12", lambda f: f.origin.isin(["JFK", "LGA"]) & (f.hour >= 12)),
        Part("dep_delay IS NULL", lambda f: f.dep_delay.isna()),
        Part(
            "distance BETWEEN 500 AND 1000 OR carrier = 'UA'",
            lambda f: f.distance.between(500, 1000) | (f.carrier == "UA"),
        ),
    ),
    (
        Part("origin", lambda f: f.origin.where(f.origin.isin(_ORIGINS)), _ORIGINS),
        Part("carrier", lambda f: f.carrier.where(f.carrier.isin(_CARRIERS)), _CARRIERS),
        Part("distance > 1000", lambda f: f.distance > 1000, (False, True)),
        Part("CASE WHEN hour < 12 THEN 'am' ELSE 'pm' END", lambda f: np.where(f.hour < 12, "am", "pm"), ("am", "pm")),
        Part("WIDTH_BUCKET(day, 1, 15, 2)", lambda f: 1 + (f.day >= 8), (1, 2, 3)),
        Part("distance // 500", lambda f: f.distance // 500, (0, 1, 2, 3, 4)),
        Part("FLOOR(dep_delay / 100)", lambda f: np.floor(f.dep_delay / 100), (-1, 0, 1, 2, 3)),
    ),
    (
        Part("dep_delay", lambda f: f.dep_delay, bounds=(-60, 300)),
        Part("distance", lambda f: f.distance, bounds=(0, 2000)),
        Part("CASE WHEN dep_delay > 0 THEN 1 ELSE 0 END", lambda f: (f.dep_delay > 0) * 1.0, bounds=(0, 1)),
        Part("distance * 2 - 100", lambda f: f.distance * 2 - 100, bounds=(-100, 3900)),
    ),
)
VISITS = Subject(
    "visits",
    DATA / "visits/visits.csv",
    "visitor",
    (3, 2, 1),
    {
        "minutes": {"type": "integer", "bounds": [0, 60]},
        "euros": {"type": "integer", "bounds": [0, 40]},
        "day": {"type": "integer", "bounds": [1, 7]},
    },
    _visits,
    (
        _ALL,
        Part("euros >= 20", lambda f: f.euros >= 20),
        Part("minutes < 30 AND day > 2", lambda f: (f.minutes < 30) & (f.day > 2)),
    ),
    (
        Part("day", lambda f: f.day, tuple(range(1, 8))),
        Part("day % 2", lambda f: f.day % 2, (0, 1)),
        Part("euros > 10", lambda f: f.euros > 10, (False, True)),
    ),
    (
        Part("minutes", lambda f: f.minutes, bounds=(0, 60)),
        Part("euros - minutes", lambda f: f.euros - f.minutes, bounds=(-60, 40)),
    ),
)
PEOPLE = Subject(
    "people",
    DATA / "pums/people.csv",
    "pid",
    (2, 2, 2),
    {
        "age": {"type": "integer", "bounds": [0, 100]},
        "income": {"type": "integer", "bounds": [0, 100_000]},
        "educ": {"type": "integer", "bounds": [1, 16]},
        "married": {"type": "integer", "values": [0, 1]},
    },
    _people,
    (_ALL, Part("age >= 40", lambda f: f.age >= 40), Part("married = 1", lambda f: f.married == 1)),
    (
        Part("married", lambda f: f.married.where(f.married.isin([0, 1])), (0, 1)),
        Part("educ", lambda f: f.educ.where(f.educ.between(1, 16)), tuple(range(1, 17))),
    ),
    (Part("age", lambda f: f.age, bounds=(0, 100)), Part("income", lambda f: f.income, bounds=(0, 100_000))),
)
LIMITS = (5, 3, 2)
UNITS = ((2, 1), (3, 1), (5, 1), (6, 1), (3, 3), (4, 4), (6, 3), (8, 4), (5, 5), (6, 6))
"""Units of so many rows in so many groups: exactly as many as the limits allow, and one more; as many in each group."""
ALIKE = 30
"""As many of each kind: one row too many of each is far more than what rounding hides."""
_SIDES = tuple("abcdef")
EDGES = pd.DataFrame(
    [
        {"who": kind * ALIKE + copy, "side": _SIDES[row % groups], "size": 10, "balance": 7 if copy % 2 else -2}
        for kind, (rows, groups) in enumerate(UNITS)
        for copy in range(ALIKE)
        for row in range(rows)
    ]
)
AT_THE_LIMITS = Subject(
    "edges",
    EDGES,
    "who",
    LIMITS,
    {
        "side": {"values": list(_SIDES)},
        "size": {"type": "integer", "bounds": [0, 10]},
        "balance": {"type": "integer", "bounds": [-2, 7]},
    },
    lambda: EDGES,
    (_ALL, Part("side <> 'a'", lambda f: f.side != "a"), Part("balance > 0", lambda f: f.balance > 0)),
    (Part("side", lambda f: f.side, _SIDES), Part("balance < 0", lambda f: f.balance < 0, (False, True))),
    (Part("size", lambda f: f["size"], bounds=(0, 10)), Part("balance", lambda f: f.balance, bounds=(-2, 7))),
)
SUBJECTS = (FLIGHTS, VISITS, PEOPLE, AT_THE_LIMITS)
_AGGREGATES = {"filled": "COUNT", "sum": "SUM", "mean": "AVG"}
STRATEGIES = ("whole", "reweight", "clip-l1", "clip-l2")
_UNCOUNTED = ("whole", "reweight")
"""Ways in which units are not counted."""


@dataclass(frozen=True)
class Asked:
    """A question in both tongues."""

    subject: Subject
    where: Part
    keys: tuple[Part, ...]
    measures: tuple[tuple[str, Part, Part], ...]
    """(kind, value, filter)"""
    joined: bool

    @property
    def sql(self) -> str:
        shown = [f"{key.sql} AS k{index}" for index, key in enumerate(self.keys)]
        shown += [f"{self._aggregate(*each)} AS x{index}" for index, each in enumerate(self.measures)]
        text = f"SELECT {', '.join(shown)} FROM {self.subject.name}"
        text += " JOIN areas USING (origin)" if self.joined else ""
        text += f" WHERE {self.where.sql}" if self.where.sql else ""
        return text + (f" GROUP BY {', '.join(str(i + 1) for i in range(len(self.keys)))}" if self.keys else "")

    def _aggregate(self, kind: str, value: Part, only: Part) -> str:
        of = {"rows": "COUNT(*)", "units": f"COUNT(DISTINCT {self.subject.unit})"}
        made = of.get(kind) or f"{_AGGREGATES[kind]}({value.sql})"
        return f"{made} FILTER (WHERE {only.sql})" if only.sql else made


def asked(random: Random, units: bool) -> Asked:
    subject = random.choice(SUBJECTS)
    joined = subject is FLIGHTS and random.random() < 0.3
    kinds = ["rows", "filled", "sum", "mean"] + ["units"] * units
    measures = tuple(
        (random.choice(kinds), random.choice(subject.values), random.choice((_ALL, *subject.wheres)))
        for _ in range(random.randint(1, 3))
    )
    keys = [*subject.keys, Part("area", lambda f: f.area, ("Queens", "airports"))] if joined else list(subject.keys)
    chosen = tuple(random.sample(keys, random.choice((0, 1, 1, 2))))
    return Asked(subject, random.choice(subject.wheres), chosen, measures, joined)


@cache
def _frame(load: Callable[[], Frame]) -> Frame:
    return load()


def expected(question: Asked, strategy: str) -> dict[tuple[Any, ...], list[float | None]]:
    """Every group's numbers, with the limits reckoned here."""
    subject = question.subject
    frame = _frame(subject.load)
    if strategy != "whole":
        frame = frame[frame[subject.unit].notna()]
    if question.joined:
        frame = frame.merge(AREAS, on="origin")
    frame = frame[np.asarray(question.where.meaning(frame), bool)]
    keys = [pd.Series(np.asarray(key.meaning(frame)), index=frame.index, dtype=object) for key in question.keys]
    kept = np.ones(len(frame), bool)
    for key in keys:
        kept &= key.notna().to_numpy()
    frame, keys = frame[kept], [key[kept] for key in keys]
    groups = list(product(*(key.values for key in question.keys)))
    names = list(zip(*keys, strict=True)) if keys else [()] * len(frame)
    columns = [_measured(question, frame, names, len(groups), strategy, *each) for each in question.measures]
    return {group: [column.get(group, empty) for column, empty in columns] for group in groups}


def _measured(
    question: Asked, frame: Frame, names: list[Any], groups: int, strategy: str, kind: str, value: Part, only: Part
) -> tuple[dict[Any, Any], Any]:
    """A measure's number by group, and that of a group without rows. A sum or a number of values of which the mean is
    measured is made from its two totals, which are limited together.
    """
    own_kind, kind = kind, "mean" if _of_the_mean(question, kind, value, only) else kind
    counted = np.asarray(only.meaning(frame), bool)
    low, high = value.bounds
    x = np.asarray(value.meaning(frame), float)
    if kind in ("filled", "sum", "mean"):
        counted = counted & ~np.isnan(x)
    x = np.nan_to_num(x)
    parts = {"sum": [x], "mean": [x - low, high - x]}.get(kind, [np.ones(len(frame))])
    largest = {"sum": max(abs(low), abs(high)), "mean": high - low}.get(kind, 1)
    rows = pd.DataFrame({f"v{i}": np.where(counted, each, 0.0) for i, each in enumerate(parts)}, index=frame.index)
    rows["g"] = pd.Series(names, index=frame.index, dtype=object)
    rows["u"] = frame[question.subject.unit] if strategy != "whole" else 0
    own = [f"v{i}" for i in range(len(parts))]
    limits = question.subject.limits
    box = (min(low, 0), max(high, 0)) if kind == "sum" else (0, largest)
    totals = _limited(rows, own, strategy, limits, groups, box, units=kind == "units", grouped=bool(question.keys))
    if kind != "mean":
        return dict(zip(totals.index, totals["v0"], strict=True)), 0.0
    a, b = totals["v0"], totals["v1"]
    if own_kind != "mean":
        made = (a + b if own_kind == "filled" else high * a + low * b) / (high - low)
        return dict(zip(totals.index, made, strict=True)), 0.0
    means = {
        g: None if p + q <= 0 else (high * p + low * q) / (p + q) for g, p, q in zip(totals.index, a, b, strict=True)
    }
    return means, None


def _of_the_mean(question: Asked, kind: str, value: Part, only: Part) -> bool:
    """Whether a mean of the same rows is measured: it is asked, or both the sum and the number are."""
    asked = {each for each, *of in question.measures if of == [value, only]}
    return kind in ("sum", "filled") and ("mean" in asked or asked >= {"sum", "filled"})


def _limited(
    rows: Frame,
    own: list[str],
    strategy: str,
    limits: tuple[int, int, int],
    groups: int,
    box: tuple[float, float],
    *,
    units: bool,
    grouped: bool,
) -> Frame:
    """Totals by group, each unit cut to its limits; one row adds a number in the box, or several that add up to it."""
    largest = max(map(abs, box))
    most, reach, per_group = limits[0], min(limits[1], groups), limits[2]
    if strategy == "whole":
        return rows.groupby("g")[own].sum()
    if strategy == "reweight":
        weight = (most / rows.groupby("u")["u"].transform("size")).clip(upper=1)
        return rows[own].mul(weight, axis=0).assign(g=rows.g).groupby("g")[own].sum()
    cells = rows.groupby(["u", "g"])[own].agg("max" if units else "sum")
    cap, total = (1, reach) if units else (per_group, min(most, reach * per_group))
    if len(own) == 1:
        cells = cells.clip(cap * box[0], cap * box[1])
    else:
        size = cells.abs().sum(axis=1)
        cells = cells.mul((cap * largest / size.where(size > 0, 1)).clip(upper=1), axis=0)
    if grouped:
        power = 1 if strategy == "clip-l1" else 2
        norm = (cells.abs() ** power).sum(axis=1).groupby("u").transform("sum") ** (1 / power)
        full, rest = divmod(total, cap)  # the longest vector of so many rows, so many in a group
        bound = largest * (total if power == 1 else (full * cap**2 + rest**2) ** 0.5)
        cells = cells.mul((bound / norm.where(norm > 0, 1)).clip(upper=1), axis=0)
    return cells.groupby("g")[own].sum()


def _held(source: Path | Frame) -> pa.Table:
    """A source in memory, from where it can be moved to a server."""
    if isinstance(source, Path):
        source = pd.read_parquet(source) if source.suffix == ".parquet" else pd.read_csv(source)
    return pa.Table.from_pandas(source, preserve_index=False)


@pytest.fixture(scope="module")
def curators(
    tmp_path_factory: pytest.TempPathFactory,
    place: Place,
) -> Iterator[dict[tuple[str, bool], Curator]]:
    folder = tmp_path_factory.mktemp("oracle")
    found = {}
    for subject, units in product(SUBJECTS, (True, False)):
        most, reach, per_group = subject.limits if units else (None, None, None)
        table = Table(
            subject.name,
            subject.source if place is HERE else _held(subject.source),
            subject.columns,
            id=subject.unit if units else "row",
            max_rows=most,
            max_groups=reach,
            max_rows_per_group=per_group,
        )
        tables = {subject.name: table, "areas": Table("areas", AREAS, public=True)}
        policy = Policy(PrivacyUnit("unit", every_row=not units), Budget(10**6, "1e-3"), tables, allow_large_delta=True)
        found[subject.name, units] = Curator(place.moved(policy), folder / f"{subject.name}-{units}.ledger")
    yield found
    for each in found.values():
        each.close()


@pytest.fixture(autouse=True)
def _noiseless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)


def compare(curators: dict[tuple[str, bool], Curator], seed: int) -> None:
    random = Random(seed)
    strategy = random.choice(STRATEGIES)
    _agree(curators, asked(random, strategy not in _UNCOUNTED), strategy, seed)


def _agree(curators: dict[tuple[str, bool], Curator], question: Asked, strategy: str, seed: object) -> None:
    proposal = curators[question.subject.name, strategy != "whole"].sql(question.sql)
    if strategy != "whole":
        proposal = proposal.limit(strategy=strategy)
    noise: dict[str, Any] = {"delta": "1e-9", "mechanism": sf.Gaussian} if strategy == "clip-l2" else {}
    answer = proposal.release(epsilon=1, fresh=True, **noise)
    width, found = len(question.keys), expected(question, strategy)
    shown = {row[:width] for row in answer.rows}
    assert shown <= set(found), (seed, question.sql)
    assert all(not any(numbers) for group, numbers in found.items() if group not in shown)  # impossible: day 2 is odd
    assert answer.receipt.strategy == strategy
    for row in answer.rows:
        for (kind, value, _), got, wanted in zip(question.measures, row[width:], found[row[:width]], strict=True):
            place = (seed, strategy, question.sql, row, wanted)
            assert (got is None) == (wanted is None), place
            if got is not None and wanted is not None:
                assert abs(got - wanted) <= _slack(strategy, kind, value), place


def _slack(strategy: str, kind: str, value: Part) -> float:
    """Fractions of a row round toward zero, at most one part in 2^17 of a row each; whole results are shown rounded."""
    size = {"sum": max(map(abs, value.bounds)), "mean": value.bounds[1] - value.bounds[0]}.get(kind, 1)
    rounding = 0.0 if strategy == "whole" else 0.1 * size if kind != "mean" else 0.001 * size
    return rounding + (1e-9 * size if kind == "mean" or strategy == "whole" else 0.5)


@pytest.mark.timeout(3600)
def test_answers_without_noise_equal_an_independent_reckoning(
    curators: dict[tuple[str, bool], Curator],
    long: bool,
    place: Place,
) -> None:
    for seed in range(600) if long else range(11) if place is HERE else range(2, 5):
        compare(curators, seed)


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        (kind, strategy)
        for kind in ("rows", "sum", "mean", "units")
        for strategy in STRATEGIES
        if kind != "units" or strategy not in _UNCOUNTED
    ],
)
@pytest.mark.parametrize("grouped", [True, False])
def test_units_at_the_limits_and_one_beyond(
    curators: dict[tuple[str, bool], Curator], kind: str, strategy: str, grouped: bool
) -> None:
    keys = AT_THE_LIMITS.keys[:1] if grouped else ()
    measures = tuple((kind, value, _ALL) for value in AT_THE_LIMITS.values)
    _agree(curators, Asked(AT_THE_LIMITS, _ALL, keys, measures, joined=False), strategy, "limits")


def test_samples_of_units_at_the_limits_and_one_beyond(curators: dict[tuple[str, bool], Curator]) -> None:
    """Which rows are kept is random; how many is not, for units with as many rows in each of their groups."""
    asked = "SELECT side, COUNT(*), SUM(size), COUNT(DISTINCT who) FROM edges GROUP BY side"
    answer = curators["edges", True].sql(asked).limit(strategy="sample").release(epsilon=1, fresh=True)
    most, reach, per_group = LIMITS
    kept = [min(most, min(reach, groups) * min(per_group, rows // groups)) for rows, groups in UNITS]
    assert sum(row[1] for row in answer.rows) == ALIKE * sum(kept)
    assert sum(row[2] for row in answer.rows) == ALIKE * sum(kept) * 10
    assert sum(row[3] for row in answer.rows) <= ALIKE * sum(min(reach, groups) for _, groups in UNITS)
    alone = "SELECT COUNT(*) FROM edges"
    answer = curators["edges", True].sql(alone).limit(strategy="sample").release(epsilon=1, fresh=True)
    assert answer.rows[0][0] == ALIKE * sum(min(most, per_group, rows) for rows, _ in UNITS)


def test_the_reckoning_tells_limits_apart(curators: dict[tuple[str, bool], Curator]) -> None:
    """The limits bite on these tables: one taken for another would not pass."""
    question = Asked(FLIGHTS, _ALL, (FLIGHTS.keys[0],), (("rows", FLIGHTS.values[0], _ALL),), joined=False)
    found = {strategy: [numbers[0] for numbers in expected(question, strategy).values()] for strategy in STRATEGIES}
    for first, second in (("whole", "reweight"), ("reweight", "clip-l1"), ("clip-l1", "clip-l2")):
        assert max(abs(a - b) for a, b in zip(found[first], found[second], strict=True)) > 1  # type: ignore[operator]
    assert curators
