"""Which periods a question spends and how its scans keep to them, and what conditions tell of columns, on record."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pyarrow as pa
import pytest

from claims.claimed_questions import Claims, with_prefix
from claims.recorded import Claim, check_claims
from engine.tables import private
from plan.described import CATALOG
from plan.test_account_periods import _plan, _policy
from sfumato.engine.opening import open_engine
from sfumato.engine.protocols import Engine
from sfumato.errors import Unsupported
from sfumato.plan import account_periods
from sfumato.plan.descriptions import expression_sql
from sfumato.plan.keys import conditions_met_by_rows, possible_group_keys, undeclared_key_indices
from sfumato.plan.nodes import Filter, relations
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.narrowing import limits_by_expression

WHERES = (
    "TRUE",
    "day > DATE '2024-03-31'",
    "day >= DATE '2024-03-31'",
    "day < DATE '2024-03-01'",
    "day <= DATE '2024-03-01'",
    "day = DATE '2024-12-31'",
    "day BETWEEN DATE '2024-05-31' AND DATE '2024-08-01'",
    "day IN (DATE '2024-01-31', DATE '2024-02-01', DATE '2024-12-30')",
    "day < DATE '2024-01-08' OR day > DATE '2024-12-24'",
    "(day < DATE '2024-04-01' OR cost = 3) AND day > DATE '2024-02-15'",
    "DATE_TRUNC('month', day) = DATE '2024-06-01'",
    "EXTRACT(month FROM day) = 5",
    "day > DATE '2023-01-01' AND day < DATE '2026-01-01'",
    "day > DATE '2025-01-01'",
    "NOT day > DATE '2024-02-10'",
    "DATE '2024-07-04' > day AND DATE '2024-06-04' <= day",
)
SOURCES = (
    "SELECT COUNT(*) FROM visits WHERE {}",
    "SELECT COUNT(*) FROM (SELECT day, cost FROM visits UNION ALL SELECT day, cost FROM claims) t WHERE {}",
    "SELECT COUNT(*) FROM (SELECT * FROM visits WHERE {}) v",
    "SELECT COUNT(*) FROM (SELECT day AS d, cost AS c FROM visits WHERE {}) v WHERE d < DATE '2024-11-15'",
    "SELECT SUM(s) FROM (SELECT who, SUM(cost) AS s FROM visits WHERE {} GROUP BY who, DATE_TRUNC('month', day)) t",
)
_LATE = "b.day > DATE '2024-10-03'"
_MET = "a.who = b.who AND DATE_TRUNC('month', a.day) = DATE_TRUNC('month', b.day)"
JOINS = (
    f"SELECT COUNT(*) FROM visits a JOIN claims b ON {_MET} WHERE a.day < DATE '2024-12-02' AND {_LATE}",
    f"SELECT COUNT(*) FROM visits a LEFT JOIN claims b ON {_MET} WHERE a.day < DATE '2024-05-02'",
    f"SELECT COUNT(*) FROM visits a WHERE EXISTS (SELECT 1 FROM claims b WHERE {_MET} AND {_LATE})",
    f"SELECT COUNT(*) FROM visits a WHERE NOT EXISTS (SELECT 1 FROM claims b WHERE {_MET} AND {_LATE})",
)


_PERIODS = (("month", "month"), ("quarter", "month"), ("year", "month"), ("week", "day"), ("day", "day"))


@pytest.mark.parametrize(("per", "every"), _PERIODS)
def test_spent_periods(per: str, every: str) -> None:
    policy = _policy(per=per, every=every)
    sources = SOURCES if per == "month" else SOURCES[:1]
    texts = [source.format(where) for source, where in product(sources, WHERES)]
    claims: Claims = {}
    for text in [*texts, *JOINS]:
        try:
            plan = _plan(policy, text)
            periods = account_periods.charged_periods(plan, policy)
            kept = account_periods.restrict_to_periods(plan, policy, periods)
            again = account_periods.restrict_to_periods(kept, policy, periods)
            tests = [expression_sql(node.predicate) for node in relations(kept.source) if isinstance(node, Filter)]
            keeps = [account_periods.reads_only_periods(each.source, policy, periods) for each in (plan, kept, again)]
            named = account_periods.period_names(periods, per)
            assert account_periods.parse_periods(named, per) == periods
            claims[text] = (*(f"{first} {last}" for first, last in periods), len(named), *tests, *keeps, again == kept)
        except Unsupported as refused:
            claims[text] = refused.code
    check_claims(f"periods/{per}", claims)


CONDITIONS = (
    "age > 10",
    "age >= 10 AND age < 20",
    "10 < age AND 20 >= age",
    "age = 7",
    "age IN (3, 9, 5)",
    "age BETWEEN 3 AND 9",
    "NOT age > 10",
    "age > 10 OR age < 3",
    "age <> 10",
    "age > 10.5 AND age < 12.5",
    "age > 200",
    "cost > 2.5 AND cost <= 100",
    "day >= DATE '2024-02-01' AND day < DATE '2024-02-03'",
    "DATE_TRUNC('month', day) = DATE '2024-02-01'",
    "DATE_TRUNC('month', day) IN (DATE '2024-02-01', DATE '2024-05-01')",
    "DATE_TRUNC('quarter', day) >= DATE '2024-04-01'",
    "DATE_TRUNC('week', day) < DATE '2024-01-15'",
    "EXTRACT(year FROM day) = 2024",
    "EXTRACT(month FROM day) = 2",
    "day = '2024-03-05'",
    "at >= TIMESTAMP '2024-01-01 12:00:00' AND at < TIMESTAMP '2024-01-01 13:00:00'",
    "CAST(at AS DATE) = DATE '2024-01-02'",
    "region = 'north'",
    "region IN ('north', 'south')",
    "region <> 'north' AND region <> 'west'",
    "region > 'm'",
    "region LIKE 'n%'",
    "urgent",
    "NOT urgent",
    "urgent = FALSE",
    "hospital > 17 AND hospital <= 19",
    "hospital % 7 = 3",
    "age + 1 > 10",
    "region IS NULL",
    "region IS NOT NULL AND urgent IS NOT NULL",
    "COALESCE(region, 'none') = 'none'",
)
KEYS = (
    "region",
    "age",
    "day",
    "DATE_TRUNC('month', day)",
    "EXTRACT(month FROM day)",
    "hospital // 5",
    "region, urgent",
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    opened = open_engine(private(pa.table({"a": [1]}), {"a": {"type": "integer"}}), None, 1)
    yield opened
    opened.close()


@pytest.mark.parametrize("part", range(6))
def test_narrowed_columns(part: int, engine: Engine) -> None:
    """What a condition tells of a column is what is known of it above, and which groups are listed."""
    claims: Claims = {}
    for where in CONDITIONS[part::6]:
        claims |= with_prefix(where, _narrowed(where, engine))
    check_claims(f"periods/narrowed {part}", claims)


def _narrowed(where: str, engine: Engine) -> Claims:
    plan = parse(f"SELECT COUNT(*), SUM(age) AS s FROM visits WHERE {where}", CATALOG).plan
    within = conditions_met_by_rows(plan.source)
    claims: Claims = {"conditions": tuple(map(expression_sql, within))}
    claims["limits"] = tuple(
        f"{expression_sql(each)} {limit.low} {limit.high}" for each, limit in limits_by_expression(within).items()
    )
    claims["size"] = str(plan.measures[1].value.domain if plan.measures[1].value is not None else "")
    return claims | {f"by {key}": _groups(key, where, engine) for key in KEYS}


def _groups(key: str, where: str, engine: Engine) -> Claim:
    keyed = parse(f"SELECT {key}, COUNT(*) FROM visits WHERE {where} GROUP BY {key}", CATALOG).plan
    known = conditions_met_by_rows(keyed.source)
    if undeclared_key_indices(keyed.keys, known):
        return "not declared"
    try:
        listed = [" ".join(map(str, each)) for each in possible_group_keys(keyed.keys, engine.values, known)]
    except Unsupported as refused:
        return refused.code
    return len(listed), *listed[:6], *listed[-2:]
