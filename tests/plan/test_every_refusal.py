"""Every refusal of a question is met by a statement, and whatever statement its fix proposes is priced as it stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from plan import test_joins
from plan.described import CATALOG, HOSPITALS, LISTS, VISITS
from plan.samples import read
from plan.sql.test_sql_expressions import REFUSED
from plan.test_fixes import EXPRESSIONS, QUESTIONS
from plan.test_sql import pairs
from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog
from sfumato.plan.sql.statements import parse

ALIASED = "SELECT COUNT(*) FROM visits v JOIN visits w ON v.patient_id = w.patient_id"
BY_UNIT = "FROM visits GROUP BY patient_id"
COLUMNS = ", ".join(f"SUM(age + {index}) AS s{index}" for index in range(101))
FIRSTS = ", ".join(f"FIRST(age ORDER BY day, cost + {index}) AS s{index}" for index in range(21))
SHOWN = [
    "SELECT STRING_AGG(region, ',') FROM visits",
    "SELECT GROUP_CONCAT(region) FROM visits GROUP BY urgent",
    "SELECT LIST(DISTINCT region ORDER BY day) FROM visits",
    "SELECT ARRAY_AGG(age) FROM visits",
    "SELECT ARG_MAX(region, age) FROM visits",
    "SELECT MIN_BY(age, day) AS m FROM visits GROUP BY region",
    "SELECT FIRST(region) FROM visits",
    "SELECT ANY_VALUE(region) FROM visits",
    "SELECT LAG(age) OVER (ORDER BY day) FROM visits",
    "SELECT age, LAG(age) OVER (ORDER BY day) FROM visits",
    "SELECT LEAD(region, 2) OVER (PARTITION BY urgent ORDER BY day) FROM visits",
    "SELECT SUM(age) OVER (ORDER BY day) AS running FROM visits",
    "SELECT ROW_NUMBER() OVER (ORDER BY cost DESC) FROM visits",
    "SELECT COUNT(DISTINCT patient_id, day) FROM visits",
    "SELECT COUNT(DISTINCT day, region, patient_id) FROM visits",
]
"""What would show single rows, with the statement that answers it."""
MONTHS = "WITH m AS (SELECT region, urgent, COUNT(*) AS n, SUM(age) AS ages FROM visits GROUP BY region, urgent)"
PIVOTS = [
    "PIVOT visits ON region USING COUNT(*)",
    "PIVOT visits ON region IN ('north', 'south') USING SUM(age), COUNT(*) AS n",
    "PIVOT visits ON ward USING COUNT(*) GROUP BY region",
    "PIVOT visits ON hospital USING AVG(cost)",
    "PIVOT visits ON day USING COUNT(*)",
    "PIVOT visits ON score USING COUNT(*)",
    "PIVOT visits ON region, urgent USING COUNT(*)",
    "PIVOT visits ON region",
    "PIVOT visits ON region IN (age) USING COUNT(*) GROUP BY urgent",
    "PIVOT visits ON urgent USING COUNT(*)",
    "PIVOT visits ON region USING COUNT(*) GROUP BY UPPER(region)",
    "PIVOT (SELECT urgent, region FROM visits) ON region USING COUNT(*)",
    "PIVOT (SELECT * FROM visits) ON region USING COUNT(*)",
    "PIVOT (SELECT age FROM visits) ON age USING COUNT(*)",
    "PIVOT (SELECT ward, age, day FROM visits) ON ward USING SUM(age)",
    "SELECT * FROM visits PIVOT (COUNT(*) FOR region IN ('north', 'south'))",
    f"{MONTHS} PIVOT m ON n USING SUM(ages)",
    f"{MONTHS} PIVOT m ON region, urgent USING SUM(n)",
    f"{MONTHS} PIVOT m ON region IN (n) USING SUM(n)",
    f"{MONTHS} UNPIVOT m ON n, nothing",
    f"{MONTHS} UNPIVOT m ON nothing",
    "UNPIVOT visits ON age, cost",
    "UNPIVOT visits ON region, ward INTO NAME k VALUE v",
    "UNPIVOT (SELECT age, cost FROM visits) ON age, cost",
    "SELECT * FROM visits UNPIVOT (v FOR k IN (age))",
]
"""Pivots without values, groups or aggregates: the proposal is a whole statement."""
COMBINED = [
    f"{MONTHS} SELECT n FROM m a JOIN m b USING (region, urgent)",
    f"{MONTHS} SELECT a.n FROM m a JOIN m b ON a.n > b.n",
    f"{MONTHS[:-1]} HAVING COUNT(*) > 5) SELECT a.n FROM m a JOIN m b USING (region, urgent)",
    "SELECT COUNT(*) / (SELECT COUNT(*) FROM visits GROUP BY region) AS share FROM visits",
    "SELECT region, COUNT(*) AS n FROM visits GROUP BY region UNION ALL SELECT COUNT(*) AS n FROM visits",
    " UNION ALL ".join(f"SELECT COUNT(*) AS n FROM visits WHERE age > {index}" for index in range(60)),
]
VALUES = [
    "SELECT COUNT(*) FROM visits WHERE age > (SELECT AVG(age) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits))",
    "SELECT COUNT(*) FROM visits v WHERE age > (SELECT AVG(age) FROM visits w WHERE w.region = v.region)",
    "SELECT COUNT(*) FROM visits v WHERE age > (SELECT AVG(age) FROM visits w WHERE v.region = w.region) - 1",
    "SELECT COUNT(*) / (SELECT COUNT(*) FROM visits) AS n FROM visits WHERE age > (SELECT AVG(age) FROM visits)",
    "SELECT COUNT(*) FROM visits v WHERE (SELECT SUM(w.age) FROM visits w WHERE w.patient_id = v.patient_id) > 9",
]
"""Rows compared with a value of all rows, or of a unit."""
FURTHER = [
    "SELECT COUNT(*) FROM visits v WHERE age > (SELECT v.age)",
    *SHOWN,
    *VALUES,
    *PIVOTS,
    *COMBINED,
    "SELECT COUNT(*) FROM visits WHERE LPAD(ward, 5, '') = 'x'",
    "SELECT COUNT(*) FROM visits JOIN hospitals ON patient_id = id",
    f"{ALIASED} WHERE age > 5",
    "SELECT COUNT(*) FROM visits WHERE age IS 5",
    "SELECT COUNT(*) FROM visits GROUP BY 'x'",
    "SELECT MODE(5) FROM visits",
    "SELECT CAST(COUNT(*) AS VARCHAR) AS n FROM visits",
    "SELECT COUNT(*) FROM (SELECT age FROM visits) AS t(x)",
    "SELECT COUNT(*) FROM visits ORDER BY COUNT(*) WITH FILL",
    f"SELECT AVG(s) FROM (SELECT FIRST(age ORDER BY 1) AS s {BY_UNIT})",
    "SELECT COUNT(*) FROM visits WHERE " + "(" * 30 + "age > 1" + ")" * 30,
    "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(f"ward = '{index}x'" for index in range(9_000)),
    f"SELECT {COLUMNS} FROM visits",
    f"SELECT AVG(s0) FROM (SELECT {FIRSTS} {BY_UNIT})",
    "SELECT APPROX_TOP_K(region, 0) FROM visits",
    "SELECT COUNT(*) FROM (SELECT age + 1 FROM visits)",
    "SELECT " + "CONCAT(" + ", ".join(["ward"] * 101) + ") AS c, COUNT(*) FROM visits GROUP BY c",
    "SELECT COUNT(*) FROM visits WHERE CASE " + "age + " * 20 + "1 WHEN 1 THEN TRUE END",
    "SELECT COUNT(*) FROM visits JOIN hospitals ON score = id",
    "SELECT COUNT(*) FROM visits" + "".join(f" JOIN hospitals h{n} ON hospital = h{n}.id" for n in range(17)),
    "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(["UPPER(ward) LIKE '%a%b%c%d%e%f%g%'"] * 40),
    "SELECT AVG(COUNT(*) OVER ()) FROM visits HAVING ward",
    "SELECT age AS total, COUNT(*) FROM visits GROUP BY age HAVING SUM(total) > COUNT(RANK() OVER ())",
]
ROWS = [
    "SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY region)",
    "SELECT LAG(cost) OVER () FROM visits",
]
"""Where every row is a unit of its own."""
PERIODS = [
    "SELECT COUNT(*) FROM visits v JOIN claims c USING (who)",
    "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY who)",
]
ELSEWHERE = {
    "bands": "an engine without band joins",
    "histogram": "the builder's histograms",
    "join-real": "public whole numbers beyond 2^53",
    "keys-too-costly": "listing groups",
    "listing": "SHOW and DESCRIBE",
    "no-common-unit": "tables whose rows are units",
    "no-groups": "listing groups",
    "no-period": "accounts per period",
    "no-question": "files of questions",
    "no-unit-name": "the builder",
    "not-text": "what is no text",
    "one-expression": "the builder's expressions",
    "part": "expressions over noisy rows",
    "rows-are-units": "tables whose rows are units",
    "subquery-rows": "public tables with rows",
    "too-large": "expressions doubled by subqueries",
    "too-many-groups": "listing groups",
    "too-many-periods": "accounts per period",
    "too-many-questions": "files of questions",
    "uncoded-column": "coded cells",
    "unknown-keys": "listing groups",
}
"""Codes that no statement over these catalogs raises, and what does; each has tests of its own."""


def _refusal(text: str, catalog: Catalog | None) -> Unsupported | None:
    try:
        read(text) if catalog is None else parse(text, catalog)
    except Unsupported as refused:
        return refused
    return None


@cache
def refusals() -> list[tuple[str, Unsupported]]:
    """Return every statement that is refused, with its refusal."""
    statements: list[tuple[str, Catalog | None]] = [
        (text, None) for text in (*REFUSED, *(each[0] for each in EXPRESSIONS))
    ]
    statements += [
        (text, CATALOG) for text in (*FURTHER, *(text for text, _ in pairs()), *(each[0] for each in QUESTIONS))
    ]
    statements += [(each[0], test_joins.catalog()) for each in test_joins.REFUSED]
    statements += [(text, test_joins.catalog(rows=True)) for text in ROWS]
    statements += [(text, test_joins.catalog("week")) for text in PERIODS]
    found = [(text, _refusal(text, catalog)) for text, catalog in statements]
    return [(text, refused) for text, refused in found if refused is not None]


def _raised_codes() -> set[str]:
    """Return the codes that the sources of plans raise."""
    codes = set()
    for path in (Path(sf.__file__).parent / "plan").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("refusal_at", "Unsupported"):
                named = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
                codes |= {each for each in named if isinstance(each, str) and re.fullmatch(r"[a-z]+(-[a-z]+)*", each)}
    return codes


def test_every_refusal_is_met() -> None:
    met = {refused.code for _, refused in refusals()}
    assert sorted(_raised_codes() - met - ELSEWHERE.keys()) == []
    assert sorted(ELSEWHERE.keys() - _raised_codes()) == []


def test_every_refusal_has_a_rule_a_place_and_a_fix() -> None:
    for text, refused in refusals():
        assert refused.rule, text
        assert refused.fix, text
        assert "None" not in refused.fix, (text, refused.fix)
        assert len(refused.fix) < 1_000, text


_STATEMENT = re.compile(
    r"(?:WITH [^;…<]*)?\b(?:UNPIVOT|PIVOT) [^;…<]* ON [^;…<]*?(?=; |, or |$)|SELECT [^;…<]* FROM [^;…<]*?(?=; |, or |$)"
)
"""A whole statement in a fix: it names its tables, and nothing is left out."""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    """A curator over the tables of the catalog."""
    cells = {name: pa.array([], pa.string()) for name in (*VISITS, *LISTS)}
    cells |= {name: pa.array([], pa.list_(pa.string())) for name in LISTS}
    visits = pa.table({**cells, "patient_id": pa.array([], pa.int64())})
    hospitals = pa.table({name: list(domain.values or ())[:2] for name, domain in HOSPITALS.items()})
    tables = {
        "visits": sf.Table("visits", visits, {**VISITS, **LISTS}, id="patient_id", max_rows=10, max_groups=4),
        "hospitals": sf.Table("hospitals", hospitals, public=True),
    }
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(3, "1e-6"), tables)
    with sf.Curator(policy, tmp_path_factory.mktemp("fixes") / "account.ledger") as opened:
        yield opened


def proposed_statements() -> list[str]:
    """Return the whole statements that fixes propose, as they would be typed."""
    fixes = {refused.fix for text, refused in refusals() if "visits" in text and "claims" not in refused.fix}
    return sorted({found for fix in fixes for found in _STATEMENT.findall(fix) if "who" not in found})


def test_a_proposed_statement_is_priced_as_it_stands(clinic: sf.Curator) -> None:
    statements = proposed_statements()
    assert len(statements) >= 10
    for statement in statements:
        assert str(clinic.sql(statement).error(epsilon=1, delta="1e-7")), statement


@pytest.mark.parametrize("text", VALUES)
def test_a_value_of_all_rows_or_of_a_unit_is_asked_for_on_its_own(clinic: sf.Curator, text: str) -> None:
    refused = _refusal(text, CATALOG)
    assert refused is not None
    assert refused.code == "subquery-value"
    (statement,) = _STATEMENT.findall(refused.fix)
    assert str(clinic.sql(statement).error(epsilon=1, delta="1e-7"))


@pytest.mark.parametrize("text", PIVOTS)
def test_a_refused_pivot_is_told_a_statement_that_is_priced(clinic: sf.Curator, text: str) -> None:
    refused = _refusal(text, CATALOG)
    assert refused is not None
    (statement,) = _STATEMENT.findall(refused.fix)
    assert re.search(r"\b(UN)?PIVOT ", statement)
    assert str(clinic.sql(statement).error(epsilon=1, delta="1e-7"))


@pytest.mark.parametrize("text", SHOWN)
def test_what_shows_rows_is_told_what_answers_it(clinic: sf.Curator, text: str) -> None:
    """By the name that was typed, with a statement or an aggregate that is priced, or the way on in pandas."""
    refused = _refusal(text, CATALOG)
    assert refused is not None
    function = re.search(r"(\w+)\(", text)
    assert function is not None
    assert function[1] in refused.rule or refused.code == "distinct"
    for statement in _STATEMENT.findall(refused.fix) or [f"SELECT {refused.fix.rpartition(': ')[2]} FROM visits"]:
        assert str(clinic.sql(statement).error(epsilon=1, delta="1e-7"))


def test_a_broken_proposal_is_noticed(clinic: sf.Curator) -> None:
    """The twin of the test above: a fix that does not work when it is typed is an error there."""
    with pytest.raises(sf.Unsupported):
        clinic.sql("SELECT AVG(x) FROM (SELECT LAG(age) OVER (ORDER BY day) AS x FROM visits)")
