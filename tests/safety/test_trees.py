"""What is found of one unit's rows: both neighbour relations, one outcome, and an independent reckoning in Python."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from engine.tables import policy_of
from safety.places import HERE, Place
from safety.test_outcomes import _silence, curators, only_ours, outcome, same  # noqa: F401 - fixtures
from safety.test_replay import replay
from safety.tree_questions import tree
from sfumato.curator.curators import Curator
from sfumato.policy import Table

pytestmark = pytest.mark.timeout(3600)


def replayed(seeds: range, plans: int, many: int, place: Place = HERE, step: int = 1) -> None:
    found = [replay(seed, plans, many, tree, units=True, place=place, step=step) for seed in seeds]
    answered, refused, compared = map(sum, zip(*found, strict=True))
    print(f"{answered} plans, {refused} refused, {compared} comparisons")
    assert answered >= len(seeds) * plans * 0.7


def test_neighbours_differ_by_at_most_the_claim(long: bool) -> None:
    replayed(range(500, 504 if long else 501), 5 if long else 8, 60, step=1 if long else 3)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_thousands_of_trees(part: int) -> None:
    """2,000 trees in all, with units of up to 3,000 rows."""
    replayed(range(5000 + 20 * part, 5020 + 20 * part), 10, 3_000)


TREES = [tree(Random(seed), type("Units", (), {"units": True})()) for seed in range(400)]


@pytest.mark.parametrize("curators", ["add-remove units", "replace units"], indirect=True)
def test_one_outcome_whoever_is_in_the_table(curators: list[Curator], long: bool, place: Place) -> None:  # noqa: F811
    asked = TREES if long else TREES[:: 150 * place.share]
    found = [same(curators, text, epsilon="0.001") for text in asked]
    assert sum("answer" in each for each in found) > len(asked) * 0.7
    for each in found:
        assert "Unanswered" not in str(each.get("refused")), each
        only_ours(each)


@pytest.mark.parametrize("curators", ["add-remove rows"], indirect=True)
def test_rows_that_are_units_are_not_grouped_by_unit(curators: list[Curator]) -> None:  # noqa: F811
    text = "SELECT COUNT(*) FROM (SELECT LAG(age) OVER (PARTITION BY region ORDER BY day) AS n FROM people)"
    found = outcome(curators[3], text, epsilon="0.001")
    assert found["refused"][1] == "rows-are-units"
    assert not found["lines"]


# An independent reckoning

LIMIT = 4
"""Rows of one unit that count in what is found of it."""
KINDS = ("a", "b", "c")
FIRST_DAY = dt.date(2024, 1, 1)
Row = dict[str, Any]


def people(random: Random) -> list[Row]:
    """Units with up to one row more than the limit and far beyond it, ties, missing cells and missing ids."""
    rows = []
    for who in (None, *range(12)):
        for _ in range(random.choice((1, 2, LIMIT, LIMIT + 1, 12))):
            cost = random.choice((None, 0, 5, 10, 2.5, 12.5, 400, -3))
            day = random.choice((None, *(FIRST_DAY + dt.timedelta(each) for each in range(6))))
            kind, flag = random.choice((*KINDS, "zz", None)), random.choice((True, False, None))
            rows.append({"who": who, "cost": cost, "day": day, "kind": kind, "flag": flag})
    return random.sample(rows, len(rows))


COLUMNS = {
    "cost": {"type": "real", "bounds": [0, 20], "grid": "0.5"},
    "day": {"type": "date", "bounds": [FIRST_DAY, "2024-12-31"]},
    "kind": {"values": list(KINDS)},
    "flag": {"type": "boolean"},
}
_TYPES = {"who": pa.int64(), "cost": pa.float64(), "day": pa.date32(), "kind": pa.string(), "flag": pa.bool_()}


def clean(row: Row) -> Row:
    """A row as the policy declares it."""
    cost = row["cost"]
    return {
        **row,
        "cost": None if cost is None else min(max(cost, 0), 20),
        "kind": row["kind"] if row["kind"] in KINDS else None,
    }


def units(rows: Sequence[Row]) -> dict[int, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        if row["who"] is not None:
            found[row["who"]].append(clean(row))
    return found


@dataclass(frozen=True)
class Part:
    """What is found of a unit's rows, in SQL and in Python."""

    sql: str
    meaning: Callable[[list[Row]], Any]


def there(rows: Sequence[Row], name: str) -> list[Any]:
    return [row[name] for row in rows if row[name] is not None]


def _sum(values: Sequence[float]) -> float | None:
    return min(max(sum(values), 0), 20 * LIMIT) if values else None


def _mode(values: Sequence[Any]) -> Any:
    """The most frequent value; of several, the least."""
    counted = Counter(values)
    return min(counted, key=lambda value: (-counted[value], value), default=None)


def ordered(rows: Sequence[Row], *names: str) -> list[Row]:
    """NULL last in each."""
    found = list(rows)
    for name in reversed(names):
        found = sorted((row for row in found if row[name] is not None), key=lambda row: row[name]) + [
            row for row in found if row[name] is None
        ]
    return found


NUMBERS = (
    Part("COUNT(*)", lambda r: min(len(r), LIMIT)),
    Part("LEAST(COUNT(*), 2)", lambda r: min(len(r), 2)),
    Part("LEAST(7, COUNT(*))", lambda r: min(len(r), 7)),
    Part("COUNT(cost)", lambda r: min(len(there(r, "cost")), LIMIT)),
    Part("COUNT(*) FILTER (WHERE flag)", lambda r: min(sum(row["flag"] is True for row in r), LIMIT)),
    Part("COUNT_IF(kind = 'a')", lambda r: min(sum(row["kind"] == "a" for row in r), LIMIT)),
    Part("SUM(cost)", lambda r: _sum(there(r, "cost"))),
    Part("SUM(cost) FILTER (WHERE kind = 'b')", lambda r: _sum(there([x for x in r if x["kind"] == "b"], "cost"))),
    Part("AVG(cost)", lambda r: sum(v) / len(v) if (v := there(r, "cost")) else None),
    Part("MIN(cost)", lambda r: min(there(r, "cost"), default=None)),
    Part(
        "MAX(cost) FILTER (WHERE NOT flag)",
        lambda r: max(there([x for x in r if x["flag"] is False], "cost"), default=None),
    ),
    Part("COUNT(DISTINCT kind)", lambda r: min(len(set(there(r, "kind"))), LIMIT)),
    Part("COUNT(DISTINCT day)", lambda r: min(len(set(there(r, "day"))), LIMIT)),
    Part("COUNT(DISTINCT who)", lambda _: 1),
    Part(
        "COUNT(DISTINCT kind, flag)",
        lambda r: min(len({(x["kind"], x["flag"]) for x in r if None not in (x["kind"], x["flag"])}), LIMIT),
    ),
    Part("COUNT(DISTINCT (kind, day))", lambda r: min(len({(x["kind"], x["day"]) for x in r}), LIMIT)),
    Part("MODE(cost)", lambda r: _mode(there(r, "cost"))),
    Part("MODE(cost) FILTER (WHERE flag)", lambda r: _mode(there([x for x in r if x["flag"]], "cost"))),
    Part(
        "ARG_MAX(cost, day)",
        lambda r: next(
            (
                x["cost"]
                for x in sorted(
                    (y for y in r if None not in (y["cost"], y["day"])),
                    key=lambda y: (-y["day"].toordinal(), y["cost"]),
                )
            ),
            None,
        ),
    ),
    Part("FIRST(cost ORDER BY day)", lambda r: ordered(r, "day", "cost")[0]["cost"]),
    Part("LAST(cost ORDER BY day)", lambda r: ordered(r, "day", "cost")[-1]["cost"]),
    Part(
        "FIRST(cost ORDER BY day) FILTER (WHERE flag)",
        lambda r: next((x["cost"] for x in ordered([y for y in r if y["flag"]], "day", "cost")), None),
    ),
    Part(
        "ARG_MIN(cost, day)",
        lambda r: next(
            (x["cost"] for x in ordered([y for y in r if None not in (y["cost"], y["day"])], "day", "cost")), None
        ),
    ),
    Part("COUNT(*) % 3", lambda r: min(len(r), LIMIT) % 3),  # no range of what is computed stands in for the limit
)
MODE = next(part for part in NUMBERS if part.sql == "MODE(cost)")
NAMES = (
    Part("FIRST(kind ORDER BY day, cost)", lambda r: ordered(r, "day", "cost", "kind")[0]["kind"]),
    Part("MAX(kind)", lambda r: max(there(r, "kind"), default=None)),
    Part("MODE(kind)", lambda r: _mode(there(r, "kind"))),
    Part("MODE() WITHIN GROUP (ORDER BY kind)", lambda r: _mode(there(r, "kind"))),
    Part("MODE(flag)", lambda r: _mode(there(r, "flag"))),
    Part("BOOL_OR(flag)", lambda r: any(v) if (v := there(r, "flag")) else None),
    Part("BOOL_AND(flag)", lambda r: all(v) if (v := there(r, "flag")) else None),
    Part("MAX(flag)", lambda r: max(there(r, "flag"), default=None)),
)


@pytest.fixture(scope="module", params=range(3))
def asked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Curator, list[Row]]]:
    rows = people(Random(request.param))
    source = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in _TYPES.items()})
    policy = policy_of(Table("visits", source, COLUMNS, id="who", max_rows=LIMIT))
    with Curator(policy, tmp_path_factory.mktemp("trees") / "account.ledger") as curator:
        yield curator, rows


@pytest.fixture
def _noiseless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", lambda _, exact: exact)


def read(curator: Curator, text: str, strategy: str | None = None) -> list[tuple[Any, ...]]:
    proposal = curator.sql(text)
    proposal = proposal if strategy is None else proposal.limit(strategy=strategy)
    return list(proposal.release(epsilon="0.0001", fresh=True).rows)


@pytest.fixture(autouse=True)
def _after_silence(request: pytest.FixtureRequest, _silence: None) -> None:  # noqa: F811
    """Without noise, in place of without totals, where answers are reckoned."""
    if "asked" in request.fixturenames:
        request.getfixturevalue("_noiseless")


@pytest.mark.parametrize("part", NUMBERS, ids=lambda part: part.sql)
def test_numbers_of_one_unit(asked: tuple[Curator, list[Row]], part: Part) -> None:
    curator, rows = asked
    values = [each for own in units(rows).values() if (each := part.meaning(own)) is not None]
    text = f"SELECT COUNT(*), COUNT(v), SUM(v), AVG(v) FROM (SELECT {part.sql} AS v FROM visits GROUP BY who)"
    ((count, filled, total, mean),) = read(curator, text)
    assert (count, filled) == (len(units(rows)), len(values))
    assert total == pytest.approx(sum(values), abs=0.5)
    assert mean == pytest.approx(sum(values) / len(values), abs=1e-3)


@pytest.mark.parametrize("part", NAMES, ids=lambda part: part.sql)
def test_groups_of_units(asked: tuple[Curator, list[Row]], part: Part) -> None:
    curator, rows = asked
    wanted = Counter(part.meaning(own) for own in units(rows).values())
    text = f"SELECT v, COUNT(*) FROM (SELECT {part.sql} AS v FROM visits GROUP BY who) GROUP BY v"
    for value, count in read(curator, text):
        assert count == wanted[value]


@pytest.mark.parametrize("part", [NUMBERS[0], NUMBERS[6], MODE], ids=lambda part: part.sql)
def test_one_row_for_each_unit_and_key(asked: tuple[Curator, list[Row]], part: Part) -> None:
    """Within limits that nobody exceeds: a unit has at most four kinds, NULL among them."""
    curator, rows = asked
    groups = defaultdict(list)
    for own in units(rows).values():
        for kind in {row["kind"] for row in own}:
            groups[kind].append(part.meaning([row for row in own if row["kind"] == kind]))
    inner = f"SELECT who, kind, {part.sql} AS v FROM visits GROUP BY who, kind"
    text = f"SELECT kind, COUNT(*), SUM(v) FROM ({inner}) GROUP BY kind"
    for kind, count, total in read(curator, text, "reweight"):
        assert count == len(groups[kind])
        assert total == pytest.approx(sum(each for each in groups[kind] if each is not None), abs=0.5)


WINDOWS = (
    Part("ROW_NUMBER() OVER (PARTITION BY who ORDER BY day)", lambda r: [min(i + 1, LIMIT + 1) for i in range(len(r))]),
    Part("RANK() OVER (PARTITION BY who ORDER BY day)", lambda r: [min(1 + _before(r, x), LIMIT + 1) for x in r]),
    Part("LAG(cost) OVER (PARTITION BY who ORDER BY day)", lambda r: [None, *(x["cost"] for x in _o(r)[:-1])]),
    Part(
        "LEAD(cost, 2, 7) OVER (PARTITION BY who ORDER BY day)",
        lambda r: [*(x["cost"] for x in _o(r)[2:]), *[7] * min(2, len(r))],
    ),
    Part("FIRST_VALUE(cost) OVER (PARTITION BY who ORDER BY day)", lambda r: [_o(r)[0]["cost"]] * len(r)),
    Part("LAST_VALUE(cost) OVER (PARTITION BY who ORDER BY day)", lambda r: [_o(_peers(r, x))[-1]["cost"] for x in r]),
    Part(
        "COUNT(*) OVER (PARTITION BY who ORDER BY day)",
        lambda r: [min(_before(r, x) + len(_peers(r, x)), LIMIT) for x in r],
    ),
    Part("SUM(cost) OVER (PARTITION BY who ORDER BY day ROWS UNBOUNDED PRECEDING)", lambda r: _running(_o(r))),
    Part("SUM(cost) OVER (PARTITION BY who)", lambda r: [_sum(there(r, "cost"))] * len(r)),
    Part("MAX(cost) OVER (PARTITION BY who)", lambda r: [max(there(r, "cost"), default=None)] * len(r)),
)


def _o(rows: Sequence[Row]) -> list[Row]:
    return ordered(rows, "day", "cost")


def _peers(rows: Sequence[Row], row: Row) -> list[Row]:
    return [each for each in rows if each["day"] == row["day"]]


def _before(rows: Sequence[Row], row: Row) -> int:
    later = [each for each in rows if row["day"] is None or (each["day"] is not None and each["day"] < row["day"])]
    return sum(each["day"] is not None for each in later)


def _running(rows: Sequence[Row]) -> list[float | None]:
    return [_sum(there(rows[: place + 1], "cost")) for place in range(len(rows))]


@pytest.mark.parametrize("part", WINDOWS, ids=lambda part: part.sql)
def test_windows(asked: tuple[Curator, list[Row]], part: Part) -> None:
    """Every value, as a histogram over the units' rows: each unit counts whole, by one row for each of its values."""
    curator, rows = asked
    wanted: Counter[Any] = Counter()
    for own in units(rows).values():
        wanted.update({each for each in part.meaning(own) if each is not None})
    values = sorted(wanted)
    met = ", ".join(f"BOOL_OR(v = {value}) AS met{index}" for index, value in enumerate(values))
    inner = f"SELECT {met} FROM (SELECT who, {part.sql} AS v FROM visits) GROUP BY who"
    counts = ", ".join(f"COUNT(*) FILTER (WHERE met{index})" for index in range(len(values)))
    assert read(curator, f"SELECT {counts} FROM ({inner})") == [tuple(wanted[value] for value in values)]


def test_the_first_row_of_each_unit(asked: tuple[Curator, list[Row]]) -> None:
    """Ties in the day are decided by what is read; at most one row of a unit is left, and the price is that of one."""
    curator, rows = asked
    first = [_o(own)[0]["cost"] or 0 for own in units(rows).values()]
    inner = "SELECT cost, ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) AS place FROM visits"
    for asked_ in (
        f"SELECT COUNT(*), SUM(cost) FROM ({inner}) WHERE place = 1",
        f"SELECT COUNT(*), SUM(cost) FROM ({inner} QUALIFY place < 2)",
    ):
        assert curator.sql(asked_).bounding_options[0].measures[0].sensitivity.l1 == 1
        assert read(curator, asked_) == [(len(first), sum(first))]


NUMBERED = "SELECT kind, cost, day, ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) AS place FROM visits"
KEPT = {
    "place IN (1, 3)": 2,
    "place IN (3, 1)": 2,
    "place = 3": 1,
    "place <= 3": 3,
    "place < 3": 2,
    "place BETWEEN 2 AND 3": 2,
    "place = 0": 0,
    "place <= 2.5": 2,
    "NOT place > 2": 2,
    "place >= 2": 11,
    "place <> 2": 11,
    "place <= 1000000000": 12,
    f"place = {LIMIT + 1}": 8,
    "kind = 'a'": 12,
    "day = DATE '2024-01-01'": 1,
    "kind = 'a' AND place < 3": 2,
}
"""Conditions, each with the rows of the one unit of the table that meet it."""


def _one_unit(rows: int) -> pa.Table:
    made = [{"who": 1, "cost": 1, "kind": "a", "flag": True, "day": FIRST_DAY + dt.timedelta(n)} for n in range(rows)]
    return pa.table({name: pa.array([row[name] for row in made], kind) for name, kind in _TYPES.items()})


@pytest.mark.usefixtures("_noiseless")
def test_a_condition_outside_a_window_counts_as_many_rows_as_the_claim_allows(tmp_path: Path) -> None:
    """The empty table and the one with one unit of twelve rows are neighbours: their counts differ by at most the
    claim, and a condition on another column than the row number is as good a question as any.
    """
    policy = policy_of(Table("visits", _one_unit(12), COLUMNS, id="who", max_rows=LIMIT))
    with Curator(policy, tmp_path / "ledger") as curator:
        for condition, kept in KEPT.items():
            question = curator.sql(f"SELECT COUNT(*) FROM ({NUMBERED}) WHERE {condition}")
            (measure,) = question.bounding_options[-1].measures  # in whole rows: all of them, or a sample
            ((counted,),) = read(curator, question.text)
            claim = measure.sensitivity.l1
            assert counted <= claim, condition
            assert counted == min(kept, LIMIT), condition
            assert claim == (kept or 1) or claim == LIMIT, condition
    assert sum(kept <= LIMIT for kept in KEPT.values()) > 8


@pytest.mark.usefixtures("_noiseless")
def test_the_order_of_rows_decides_nothing(tmp_path: Path) -> None:
    rows = people(Random(9))
    asked = [
        "SELECT SUM(v) FROM (SELECT FIRST(cost ORDER BY flag) AS v FROM visits GROUP BY who)",
        "SELECT SUM(v) FROM (SELECT LAST(cost ORDER BY kind) AS v FROM visits GROUP BY who)",
        "SELECT SUM(v) FROM (SELECT cost AS v, ROW_NUMBER() OVER (PARTITION BY who ORDER BY flag) AS n FROM visits) "
        "WHERE n = 1",
        "SELECT SUM(v * n) FROM (SELECT LAG(cost, 1, 0) OVER (PARTITION BY who ORDER BY flag) AS v, "
        "ROW_NUMBER() OVER (PARTITION BY who ORDER BY flag) AS n FROM visits)",
        "SELECT SUM(v) FROM (SELECT LAST_VALUE(cost) OVER (PARTITION BY who ORDER BY flag) AS v FROM visits)",
        "SELECT SUM(v) FROM (SELECT SUM(cost) OVER (PARTITION BY who ORDER BY flag ROWS UNBOUNDED PRECEDING) AS v "
        "FROM visits)",
    ]
    found = []
    for seed in range(6):
        shuffled = Random(seed).sample(rows, len(rows))
        source = pa.table({name: pa.array([row[name] for row in shuffled], kind) for name, kind in _TYPES.items()})
        policy = policy_of(Table("visits", source, COLUMNS, id="who", max_rows=LIMIT))
        with Curator(policy, tmp_path / f"{seed}.ledger") as curator:
            found.append([read(curator, text) for text in asked])
    assert all(each == found[0] for each in found)


def test_a_unit_costs_one_row(asked: tuple[Curator, list[Row]]) -> None:
    """COUNT, AVG and SUM over units have the sensitivity of one row; counting units beside a public table too."""
    curator, _ = asked
    inner = "SELECT who, COUNT(*) AS n FROM visits GROUP BY who"
    (only,) = curator.sql(f"SELECT COUNT(*), SUM(n), AVG(n), COUNT(DISTINCT who) FROM ({inner})").bounding_options
    # sum and count are made from the two sums of the mean and from the rows without a value, which are measured
    # together: one unit moves one of the parts, by no more than the width of the mean's range
    assert [each.sensitivity.l1 for each in only.measures] == [LIMIT - 1, 1]
    with pytest.raises(sf.InvalidParameter, match="at most 1"):
        curator.sql(f"SELECT COUNT(*) FROM ({inner})").limit(rows=2)


def test_explained_in_words(asked: tuple[Curator, list[Row]]) -> None:
    curator, _ = asked
    inner = "SELECT cost, ROW_NUMBER() OVER (PARTITION BY who, kind ORDER BY day) AS n FROM visits"
    lines = str(curator.sql(f"SELECT COUNT(*) FROM ({inner}) WHERE n = 1").explain(epsilon=1))
    assert f"ROW_NUMBER() OVER (PARTITION BY unit, kind ORDER BY day) in [1, {LIMIT + 1}]" in lines
    assert "every unit has one row" not in lines  # it has one for each kind
    inner = "SELECT kind, SUM(cost) AS s FROM visits GROUP BY who, kind"
    lines = str(curator.sql(f"SELECT kind, SUM(s) FROM ({inner}) GROUP BY kind").explain(epsilon=1))
    assert f"SUM(cost) in [0, {20 * LIMIT}]" in lines
    assert "one row for each unit and kind" in lines
