"""Questions are drawn from a grammar: a seed tells which, all parts of it occur, and names of any kind are written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

import sfumato as sf
from audit.test_neighbouring_tables import NOWHERE
from sfumato.audit.asked_questions.generated_questions import RandomQuestion, query_templates, random_questions
from sfumato.audit.asked_questions.release_sampling import temporary_curator
from sfumato.audit.generated_tables import neighbours_of
from sfumato.engine.opening import open_engine
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

_UNREAD = ("not-sql", "one-statement", "unknown-column", "unknown-table", "unknown-alias")
ODD = {
    "select": {"values": ["A", "it's", 'say "no"']},
    "âge du patient": {"type": "integer", "bounds": [0, 20]},
    'with "quotes"': {"type": "real", "bounds": [-1, 1]},
    "from": {"type": "date", "bounds": ["2024-01-01", "2024-03-31"]},
    "group by": {"type": "boolean"},
}


def odd_policy(*, every_row: bool = False) -> Policy:
    """Declare a table whose names are words of SQL, or need quotes."""
    limits: dict[str, Any] = {} if every_row else {"max_rows": 3, "max_groups": 2}
    table = Table("order", NOWHERE, ODD, id="row" if every_row else "who is it", **limits)
    return Policy(PrivacyUnit("person", every_row=every_row), Budget(3, "1e-6"), {"order": table}, size=100)


@pytest.fixture(scope="module", params=["units", pytest.param("rows", marks=pytest.mark.long)])
def curator(request: pytest.FixtureRequest) -> Iterator[tuple[sf.Curator, Any]]:
    tables = neighbours_of(odd_policy(every_row=request.param == "rows"))
    opened = tables.policy_over(tables.ordinary_population)
    engine = open_engine(opened, None, 1)
    with temporary_curator(opened) as found:
        yield found, engine.catalog()
    engine.close()


def drawn(catalog: Any, seed: int, many: int) -> list[RandomQuestion]:
    return list(islice(random_questions(catalog, seed), many))


def test_a_seed_draws_the_same_questions_and_another_seed_others(curator: tuple[sf.Curator, Any]) -> None:
    catalog = curator[1]
    assert drawn(catalog, 5, 40) == drawn(catalog, 5, 60)[:40]
    assert len({str(each) for each in drawn(catalog, 5, 60)}) == 60
    assert not {str(each) for each in drawn(catalog, 5, 10)} >= {str(each) for each in drawn(catalog, 6, 10)}


def test_all_parts_of_the_grammar_are_drawn(curator: tuple[sf.Curator, Any]) -> None:
    asked, catalog = curator
    found = drawn(catalog, 1, 600)
    text = "\n".join(map(str, found))
    parts = ["SUM(", "AVG(", "STDDEV(", "MEDIAN(", "MAX(", "MODE(", "COUNT(DISTINCT ", "FILTER (WHERE ", " WHERE "]
    parts += ["GROUP BY k0", "ROLLUP (k0", "HAVING", "ORDER BY", "CASE WHEN", "COALESCE(", " OR ", "NOT (", "IS NULL"]
    parts += ["DATE_TRUNC('month', \"from\")", '"âge du patient"', '"with ""quotes"""', "'it''s'", "DATE '2024-03-31'"]
    if not asked.policy.unit.every_row:
        parts += ["FROM (SELECT", "strategy='sample'", "strategy='reweight'", "strategy='clip-l2'", "limit(rows=3"]
    assert [each for each in parts if each not in text] == []
    assert 100 < sum(each.gaussian for each in found) < 200
    if asked.policy.unit.every_row:
        assert not any(each.limits for each in found)


def _refusal(asked: sf.Curator, each: str | RandomQuestion) -> str | None:
    """Give the code of the refusal of a question, or its class; None where it is understood."""
    try:
        question: Any = asked.sql(each) if isinstance(each, str) else each(asked)
        question.explain(epsilon=1, delta="1e-8")
    except sf.SfumatoError as refused:
        return getattr(refused, "code", type(refused).__name__)
    return None


def test_names_that_are_words_of_sql_are_asked_about(curator: tuple[sf.Curator, Any], long: bool) -> None:
    """Nothing that is drawn fails to be read; most of it is answered, and what is refused has a rule."""
    asked, catalog = curator
    tried = [*query_templates(catalog)[: None if long else 3], *drawn(catalog, 2, 400 if long else 5)]
    refusals = {str(each): _refusal(asked, each) for each in tried}
    assert [each for each, code in refusals.items() if code in _UNREAD and "nobody_declared_this" not in each] == []
    assert sum(code is None for code in refusals.values()) > len(tried) / 2


def test_what_is_drawn_can_be_asked_with_limits_and_says_so() -> None:
    question = RandomQuestion("SELECT COUNT(*) AS n FROM t", {"rows": 2, "strategy": "sample"})
    assert str(question) == "SELECT COUNT(*) AS n FROM t .limit(rows=2, strategy='sample')"
    assert str(RandomQuestion("SELECT COUNT(*) AS n FROM t")) == "SELECT COUNT(*) AS n FROM t"


def test_drawn_limits_are_asked_with(curator: tuple[sf.Curator, Any]) -> None:
    asked, _ = curator
    question = RandomQuestion('SELECT COUNT(*) AS n FROM "order"', {"rows": 2})
    if asked.policy.unit.every_row:
        with pytest.raises(sf.InvalidParameter, match="every row is a unit"):
            question(asked)
    else:
        assert question(asked).limits.rows == 2
