"""Several private tables about the same unit, put together in Python: the same plans as in SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import sfumato as sf
from questions.asked import HERE

Build = Callable[[sf.Curator], sf.Question]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with sf.Curator(HERE / "fleet.toml", tmp_path_factory.mktemp("ledger") / "fleet.ledger") as curator:
        yield curator


def test_a_limit_that_is_raised_is_raised_in_every_group(fleet: sf.Curator) -> None:
    """All joined rows of a plane may be in one group: to raise their number alone would change nothing."""
    pairs = fleet.sql("SELECT COUNT(*) AS n FROM flights a JOIN flights b USING (tailnum)")
    rows = pairs.limits.rows
    raised = pairs.limit(rows=2 * rows)
    assert raised.limits == type(raised.limits)(2 * rows, 2 * rows, 2 * rows)
    assert raised.error(epsilon=1)["n"] > 1.9 * pairs.error(epsilon=1)["n"]
    assert pairs.limit(rows=2 * rows, rows_per_group=rows).limits.rows_per_group == rows
    assert pairs.limit(rows=3).limit(rows=2).limits.rows_per_group == 2


PAIRS: list[tuple[Build, str]] = [
    (
        lambda fleet: (
            fleet.table("flights").join("planes").group_by("engine").agg(n=sf.count(), late=sf.mean("arr_delay"))
        ),
        "SELECT engine, COUNT(*) AS n, AVG(arr_delay) AS late FROM flights JOIN planes USING (tailnum) GROUP BY engine",
    ),
    (
        lambda fleet: (
            fleet.table("flights").where("dep_delay > 15").join("planes", on="tailnum").where("planes.year < 1990")
        ).agg(n=sf.count()),
        "SELECT COUNT(*) AS n FROM flights f JOIN planes p ON f.tailnum = p.tailnum "
        "WHERE f.dep_delay > 15 AND p.year < 1990",
    ),
    (
        lambda fleet: (
            fleet.table("flights").left_join("planes").group_by("engine").agg(p=sf.count_distinct("flights.tailnum"))
        ),
        "SELECT engine, COUNT(DISTINCT f.tailnum) AS p FROM flights f LEFT JOIN planes p ON f.tailnum = p.tailnum "
        "GROUP BY engine",
    ),
    (
        lambda fleet: fleet.table("flights").join(fleet.table("planes").where("year < 1990")).agg(n=sf.count()),
        "SELECT COUNT(*) AS n FROM flights f JOIN (SELECT * FROM planes WHERE year < 1990) p USING (tailnum)",
    ),
    (
        lambda fleet: (
            fleet.table("flights").join(fleet.table("flights", alias="all").per_unit(k=sf.count())).agg(k=sf.mean("k"))
        ),
        "SELECT AVG(k) AS k FROM flights f "
        "JOIN (SELECT tailnum, COUNT(*) AS k FROM flights GROUP BY tailnum) g USING (tailnum)",
    ),
    (
        lambda fleet: (
            fleet.table("flights")
            .join(fleet.table("flights", alias="later"), on=["tailnum", "later.day = flights.day + 1"])
            .agg(n=sf.count())
        ),
        "SELECT COUNT(*) AS n FROM flights a JOIN flights b ON a.tailnum = b.tailnum AND b.day = a.day + 1",
    ),
    (
        lambda fleet: (
            fleet.table("flights")
            .join("airlines", on="carrier")
            .join("planes")
            .per_unit("name", n=sf.count())
            .group_by("name")
            .agg(n=sf.mean("n"))
        ),
        "SELECT name, AVG(n) AS n FROM (SELECT tailnum, name, COUNT(*) AS n FROM flights JOIN airlines USING (carrier) "
        "JOIN planes USING (tailnum) GROUP BY tailnum, name) GROUP BY name",
    ),
    (
        lambda fleet: fleet.table("flights").where("tailnum NOT IN (SELECT tailnum FROM planes)").agg(n=sf.count()),
        "SELECT COUNT(*) AS n FROM flights WHERE tailnum NOT IN (SELECT tailnum FROM planes)",
    ),
    (
        lambda fleet: (
            fleet.table("flights")
            .where("tailnum IN (SELECT tailnum FROM flights WHERE dep_delay > 60)")
            .join("planes")
            .agg(n=sf.count())
        ),
        "SELECT COUNT(*) AS n FROM (SELECT * FROM flights WHERE tailnum IN (SELECT tailnum FROM flights "
        "WHERE dep_delay > 60)) AS f JOIN planes USING (tailnum)",
    ),
    (
        lambda fleet: (
            fleet.table("planes")
            .join("flights")
            .derive(k="ROW_NUMBER() OVER (PARTITION BY tailnum ORDER BY day, sched_dep_time)")
            .where("k = 1")
            .agg(seats=sf.mean("seats"))
        ),
        "SELECT AVG(seats) AS seats FROM (SELECT seats, ROW_NUMBER() OVER (PARTITION BY tailnum ORDER BY day, "
        "sched_dep_time) AS k FROM planes JOIN flights USING (tailnum)) WHERE k = 1",
    ),
    (
        lambda fleet: fleet.table("flights").union_all(fleet.table("planes")).group_by("year").agg(n=sf.count()),
        "SELECT year, COUNT(*) AS n FROM (SELECT tailnum, year FROM flights "
        "UNION ALL SELECT tailnum, year FROM planes) AS t GROUP BY year",
    ),
]


@pytest.mark.parametrize(("build", "text"), PAIRS, ids=lambda each: each[:60] if isinstance(each, str) else "")
def test_tables_of_one_unit_have_the_plan_of_the_text(build: Build, text: str, fleet: sf.Curator) -> None:
    built, written = build(fleet), fleet.sql(text)
    assert built.query == written.query
    assert built.identity == written.identity == fleet.sql(built.text).identity
    assert built.error(epsilon=1) == written.error(epsilon=1)


def test_what_sql_refuses_of_private_tables_is_refused(fleet: sf.Curator) -> None:
    flights = fleet.table("flights")
    for build, code in (
        (lambda: flights.join("planes", on="year"), "join-without-unit"),
        (lambda: flights.join("flights"), "duplicate-alias"),
        (lambda: flights.join("planes").where("year = 2013"), "ambiguous-column"),
        (lambda: flights.where("tailnum = 'N1'"), "unit-column"),
        (lambda: flights.derive(k="RANK() OVER (PARTITION BY carrier ORDER BY day)"), "not-by-unit"),
    ):
        with pytest.raises(sf.Unsupported) as refusal:
            build()
        assert refusal.value.code == code
