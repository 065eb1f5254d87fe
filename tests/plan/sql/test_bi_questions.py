"""What Metabase, Superset, Power BI and Tableau write around a question is read, and its columns are known unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.curator.describing import PolicyWithoutData, open_without_data
from sfumato.errors import Unsupported
from sfumato.policy import Type, read

POLICY = """
[unit]
name = "patient"
budget = { epsilon = 3.0, delta = 1e-6 }

[tables.visits]
source = "visits.parquet"
id = "patient_id"
max_rows = 10
[tables.visits.columns]
region = { values = ["north", "south"] }
age = { type = "integer", bounds = [0, 110] }
cost = { type = "real", bounds = [0, 5000], grid = 0.01 }
ward = { type = "text" }
day = { type = "date", bounds = ["2024-01-01", "2024-12-31"] }
seen = { type = "timestamp", bounds = ["2024-01-01", "2024-12-31"] }
"""
METABASE = {
    'SELECT "public"."visits"."region" AS "region", COUNT(*) AS "count" FROM "public"."visits" '
    'GROUP BY "public"."visits"."region" ORDER BY "public"."visits"."region" ASC': ("region", "count"),
    'SELECT CAST(DATE_TRUNC(\'month\', "public"."visits"."day") AS DATE) AS "day", COUNT(*) AS "count" FROM '
    '"public"."visits" GROUP BY CAST(DATE_TRUNC(\'month\', "public"."visits"."day") AS DATE) '
    'ORDER BY CAST(DATE_TRUNC(\'month\', "public"."visits"."day") AS DATE) ASC': ("day", "count"),
    'SELECT "source"."region" AS "region", AVG("source"."cost") AS "avg" FROM (SELECT "public"."visits"."region" AS '
    '"region", "public"."visits"."cost" AS "cost" FROM "public"."visits" WHERE "public"."visits"."age" > 30) AS '
    '"source" GROUP BY "source"."region"': ("region", "avg"),
    'SELECT FLOOR(("public"."visits"."age" / 10.0)) * 10 AS "age", COUNT(*) AS "count" FROM "public"."visits" GROUP BY '
    'FLOOR(("public"."visits"."age" / 10.0)) * 10 ORDER BY FLOOR(("public"."visits"."age" / 10.0)) * 10 ASC': (
        "age",
        "count",
    ),
}
SUPERSET = {
    "SELECT DATE_TRUNC('month', day) AS __timestamp, COUNT(*) AS count FROM public.visits WHERE day >= "
    "TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND day < "
    "TO_TIMESTAMP('2024-06-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY DATE_TRUNC('month', day) "
    "ORDER BY count DESC LIMIT 50000": ("__timestamp", "count"),
    "SELECT region AS region, count(*) AS \"COUNT(*)\" FROM public.visits WHERE day >= TO_DATE('2024-01-01', "
    "'YYYY-MM-DD') GROUP BY region LIMIT 1000": ("region", "COUNT(*)"),
    "SELECT region AS region, count(*) AS count FROM (SELECT * FROM visits) AS virtual_table GROUP BY region "
    "ORDER BY count DESC LIMIT 10000": ("region", "count"),
    "SELECT * FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) AS virtual_table LIMIT 0": (
        "region",
        "n",
    ),
}
POWER_BI = {
    'select "_"."region", "_"."a0" from (select "rows"."region" as "region", sum(cast("rows"."age" as decimal)) as '
    '"a0" from (select "region", "age" from "public"."visits" "$Table") "rows" group by "region") "_" '
    'where not "_"."a0" is null limit 1000001': ("region", "a0"),
    'select "rows"."region" as "region", count(1) as "a0" from "public"."visits" "rows" group by "region"': (
        "region",
        "a0",
    ),
}
TABLEAU = {
    'SELECT "visits"."region" AS "region", SUM(1) AS "cnt:visits:ok" FROM "public"."visits" "visits" GROUP BY 1': (
        "region",
        "cnt:visits:ok",
    ),
    'SELECT AVG(CAST("visits"."age" AS DOUBLE PRECISION)) AS "avg:age:ok" FROM "public"."visits" "visits" '
    "HAVING (COUNT(1) > 0)": ("avg:age:ok",),
    'SELECT CAST("visits"."region" AS TEXT) AS "region", COUNT(1) AS "n" FROM "public"."visits" "visits" GROUP BY 1 '
    "HAVING (COUNT(1) > 0)": ("region", "n"),
    'SELECT CAST(EXTRACT(YEAR FROM "visits"."day") AS INTEGER) AS "yr:day:ok", COUNT(1) AS "n" FROM "public"."visits" '
    '"visits" GROUP BY 1': ("yr:day:ok", "n"),
    'SELECT "clinic"."public"."visits"."region" AS "region", SUM("clinic"."public"."visits"."cost") AS "s" FROM '
    '"clinic"."public"."visits" "visits" GROUP BY "clinic"."public"."visits"."region"': ("region", "s"),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyWithoutData]:
    path: Path = tmp_path_factory.mktemp("bi") / "clinic.toml"
    path.write_text(POLICY)
    with open_without_data(read(path)) as opened:
        yield opened


@pytest.mark.parametrize("sql", [*METABASE, *SUPERSET, *POWER_BI, *TABLEAU], ids=lambda sql: sql[:60])
def test_questions_of_bi_tools_are_described_without_asking(sql: str, alone: PolicyWithoutData) -> None:
    expected = (METABASE | SUPERSET | POWER_BI | TABLEAU)[sql]
    assert tuple(column.name for column in alone.question(sql).columns) == expected


def test_columns_have_types(alone: PolicyWithoutData) -> None:
    sql = "SELECT region, DATE_TRUNC('month', day) AS m, COUNT(*) AS n, AVG(cost) AS a FROM visits GROUP BY 1, 2"
    types = [column.type for column in alone.question(sql).columns]
    assert types == [Type.TEXT, Type.DATE, Type.INTEGER, Type.REAL]


def test_another_database_is_not_read(alone: PolicyWithoutData) -> None:
    for table in ("other.public.visits", "clinic.private.visits", "clinic.visits"):
        with pytest.raises(Unsupported, match="table-clause"):
            alone.question(f"SELECT COUNT(*) FROM {table}")
    with pytest.raises(Unsupported):
        alone.question("SELECT other.public.visits.region, COUNT(*) FROM visits GROUP BY 1")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("TO_DATE('2024-03-05', 'YYYY-MM-DD')", "DATE '2024-03-05'"),
        ("TO_DATE('05.03.2024', 'DD.MM.YYYY')", "DATE '2024-03-05'"),
        ("TO_TIMESTAMP('2024-03-05 06:07:08.5', 'YYYY-MM-DD HH24:MI:SS.US')", "TIMESTAMP '2024-03-05 06:07:08.5'"),
        ("TO_TIMESTAMP('2024-03-05T06:07', 'YYYY-MM-DD\"T\"HH24:MI')", "TIMESTAMP '2024-03-05 06:07:00'"),
    ],
)
def test_a_written_date_is_the_question_with_a_literal(written: str, meant: str, alone: PolicyWithoutData) -> None:
    question = "SELECT COUNT(*) AS n FROM visits WHERE seen >= {}"
    assert alone.question(question.format(written)).query == alone.question(question.format(meant)).query


@pytest.mark.parametrize(
    "written",
    [
        "TO_DATE('2024-13-05', 'YYYY-MM-DD')",
        "TO_DATE('2024-03-05', 'YYYY-Mon-DD')",
        "TO_DATE('x', '')",
        "TO_DATE('2024', 'YYYY%m')",
        "TO_TIMESTAMP('2024-03-05', 'YYYY-MM-DD HH24')",
    ],
)
def test_a_written_date_that_is_none_is_refused(written: str, alone: PolicyWithoutData) -> None:
    with pytest.raises(Unsupported, match="date-literal") as refused:
        alone.question(f"SELECT COUNT(*) FROM visits WHERE seen >= {written}")
    assert "DATE '2024-01-31'" in refused.value.fix


@pytest.mark.parametrize("written", ["TO_DATE(ward, 'YYYY-MM-DD')", "TO_TIMESTAMP(age)", "TO_DATE(ward, region)"])
def test_texts_of_a_column_are_not_parsed_so(written: str, alone: PolicyWithoutData) -> None:
    with pytest.raises(Unsupported, match="function"):
        alone.question(f"SELECT COUNT(*) FROM visits WHERE seen >= {written}")


@pytest.mark.parametrize("limit", ["10::INTEGER", "CAST(10 AS BIGINT)", "(10)", "(10::int)::bigint"])
def test_a_cast_number_of_rows_is_the_number(limit: str, alone: PolicyWithoutData) -> None:
    grouped = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY n LIMIT"
    assert alone.question(f"{grouped} {limit}").query == alone.question(f"{grouped} 10").query


@pytest.mark.parametrize("limit", ["10::TEXT", "CAST(2.5 AS DOUBLE)", "(-1)", "'10'::INTEGER"])
def test_a_number_of_rows_that_is_none_is_refused(limit: str, alone: PolicyWithoutData) -> None:
    with pytest.raises(Unsupported, match="limit") as refused:
        alone.question(f"SELECT region, COUNT(*) AS n FROM visits GROUP BY region LIMIT {limit}")
    assert refused.value.fix


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ('SELECT * FROM "public"."visits" LIMIT 100', "star"),
        ('SELECT "public"."visits"."patient_id" FROM "public"."visits" LIMIT 10000', "unit-column"),
        ('SELECT "visits"."ward" AS "ward" FROM "public"."visits" "visits" LIMIT 10000', ""),
    ],
)
def test_row_samples_are_refused(sql: str, code: str, alone: PolicyWithoutData) -> None:
    with pytest.raises(Unsupported) as refused:
        alone.question(sql)
    assert code in refused.value.code
    assert refused.value.fix
