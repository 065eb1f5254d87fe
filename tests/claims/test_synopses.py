"""Answers of a synopsis on record: every number, range and basis of fixed questions, under noise that is keyed."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from claims.flattening import claims_of, figures, outcome
from claims.recorded import Claim, check_claims
from mechanisms.recorded import keyed
from publish.cells.test_answering import CUT, GROUPED, SURE
from publish.tables import ATTRIBUTES, DOMAINS, NAMES, counts, people, planned, published
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import level_labels
from sfumato.publish.cells.groups import _cell_key_values, _next_value
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell, PublicTableFacts, RangeCell
from sfumato.publish.synopsis import Synopsis, cell_keys, key_type
from sfumato.release.answers.answer import Answer

TABLE = counts(people(1))
RULES = ("sex = 'f' AND smokes", "age < 18 AND score > 1", "missing = 1")
MORE = [
    "SELECT code_level_1 AS part, COUNT(*) AS n FROM people GROUP BY 1",
    "SELECT day_level_1 AS part, sex, COUNT(*) AS n FROM people GROUP BY 1, 2",
    "SELECT age, COUNT(*) AS n, SUM(CASE WHEN smokes THEN -1 ELSE 2 END) AS s FROM people GROUP BY age",
    "SELECT sex, smokes, AVG(score) AS n FROM people GROUP BY CUBE (sex, smokes)",
    "SELECT COUNT(*) AS n FROM people WHERE sex = 'f' AND age >= 65 AND smokes",
    "SELECT COUNT(*) AS n, COUNT(*) / 2 AS half FROM people WHERE sex = 'f' AND code = 'A1' AND score < 0.5",
    "SELECT code, n / SUM(n) OVER () AS share FROM (SELECT code, COUNT(*) AS n FROM people GROUP BY code)",
]
REFUSED = [
    "SELECT MIN(age) FROM people",
    "SELECT age % 3 AS k, COUNT(*) AS n FROM people GROUP BY 1",
    "SELECT COUNT(*) FROM people WHERE sex = 'x'",
    "SELECT sex, COUNT(*) FROM people WHERE sex = 'f' AND sex = 'm' GROUP BY sex",
    "SELECT COUNT(*) FROM people p JOIN people q ON p.age = q.age",
    "SELECT COUNT(*) FROM (SELECT age, COUNT(*) AS n FROM people GROUP BY age) WHERE n > 2 AND age = 1",
]
QUESTIONS = (*SURE[::2], *GROUPED, *CUT[::2], *MORE)


@cache
def synopsis(kind: str) -> Synopsis:
    with keyed(f"a synopsis of {kind}"):
        pairs = [*itertools.combinations(NAMES, 2)]
        if kind == "laplace":
            return published(planned([NAMES[:2], NAMES[2:4]], epsilon=1), TABLE, noisy=True)
        first = published(planned(pairs), TABLE, noisy=True)
        if kind == "zeros":
            own = PublicTableFacts(DOMAINS, RULES, "people", (("code", "sex"), ("sex", "smokes")))
            return published(planned(pairs), TABLE, noisy=True, face=own)
        if kind == "added":
            second = published(planned([("sex", "age", "smokes")], rho=2), TABLE, noisy=True, line=9)
            return first + second
        return first


def shown(found: Answer) -> dict[str, Any]:
    return {
        "rows": found.rows,
        "ranges": found.intervals,
        "basis": dict(found.basis or {}),
        "notes": figures(found.warnings),
    }


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", ["pairs", "added", "zeros"])
def test_answers(kind: str, part: int) -> None:
    found: dict[str, Claim] = {}
    own = synopsis(kind)
    for question in QUESTIONS[part::4]:
        for terms in ({},) if kind != "pairs" else ({}, {"confidence": "0.8", "together": True}):
            made = outcome(lambda: shown(own.sql(question, **terms)))
            found |= claims_of(f"{question} {sorted(terms)}", made)
    check_claims(f"synopses/answers_{kind}_{part}", found)


def test_answers_with_laplace_noise() -> None:
    found: dict[str, Claim] = {}
    for question in (*SURE[:4], *CUT[:2], "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"):
        found |= claims_of(question, outcome(lambda: shown(synopsis("laplace").sql(question))))
    check_claims("synopses/answers_laplace", found)


def test_refusals() -> None:
    found: dict[str, Claim] = {}
    for question in REFUSED:
        found |= claims_of(question, outcome(lambda: shown(synopsis("pairs").sql(question))))
    check_claims("synopses/refusals", found)


@pytest.mark.parametrize("kind", ["pairs", "added", "zeros", "laplace"])
def test_marginals(kind: str) -> None:
    own = synopsis(kind)
    found: dict[str, Claim] = {"columns": own.columns, "sets": own.sets, "said": figures(own)}
    for names in (["sex"], ["smokes", "age"], ["score"], ["code", "sex", "age"]):
        for terms in ({"consistent": False}, {"consistent": False, "confidence": "0.8", "together": True}):
            made = outcome(lambda: shown(own.marginal(names, **terms)))
            found |= claims_of(f"{names} {sorted(terms)}", made)
    for refused in ([], ["sex", "sex"], ["sexx"], "sex", ["nothing"]):
        found |= claims_of(f"refused {refused}", outcome(lambda: own.marginal(refused)))
    found |= claims_of("places", own.attribute_indices(["Age", "sex"]))
    found |= claims_of("verified", [each.holds for each in own.verify().checks])
    found |= claims_of("figures", figures(own.verify()))
    check_claims(f"synopses/marginals_{kind}", found)


def test_consistent_counts() -> None:
    """Where a search ends depends on the last bits: such counts are recorded as whole rows."""
    found: dict[str, Claim] = {}
    sets = [("sex", "smokes"), ("sex", "age"), ("smokes", "age")]
    own = PublicTableFacts(DOMAINS[:3], RULES, "people", (("sex", "smokes"),))
    with keyed("consistent"):
        made = published(planned(sets, attributes=ATTRIBUTES[:3]), TABLE.sum((3, 4, 5)), noisy=True, face=own)
    for places, cells in made._zeros.items():
        found |= claims_of(f"zeros {places}", cells)
    for names in (["smokes", "sex"], ["age"]):
        answer = made.marginal(names)
        found |= claims_of(f"{names}", [round(each) for each in answer.column("consistent")])
        found |= claims_of(f"{names} ranges", answer.intervals["consistent"])
    check_claims("synopses/consistent", found)


def test_conditions_on_cells() -> None:
    found: dict[str, Claim] = {}
    face = synopsis("pairs").face
    for text in (
        "sex = 'f'",
        "sex IS NULL",
        "NOT smokes",
        "smokes OR sex = 'm'",
        "age < 30",
        "age >= 40 AND score > 0.5",
        "score > 2.5",
        "COALESCE(smokes, FALSE)",
        "code LIKE 'A%'",
    ):
        made = answering.parse_condition(face, text)
        found |= claims_of(text, {"axes": made.axes, "truths": made.truths, "surely": made.certain_cells})
        found |= {f"{text} columns": tuple((str(place), level) for _, place, level in made.columns)}
    check_claims("synopses/conditions", found)


def test_what_is_no_synopsis() -> None:
    own, found = synopsis("pairs"), {}
    laplace = synopsis("laplace")
    other = published(planned([NAMES[:2]]), TABLE, line=7, data="2" * 64)
    tried: dict[str, Any] = {
        "published": lambda: Synopsis(None, own.receipt),  # type: ignore[arg-type]
        "receipt": lambda: Synopsis(own.published, None),  # type: ignore[arg-type]
        "earlier": lambda: Synopsis(own.published, own.receipt, [own]),  # type: ignore[arg-type]
        "earlier parts": lambda: Synopsis(own.published, own.receipt, (None,)),  # type: ignore[arg-type]
        "itself": lambda: own + own,
        "laplace": lambda: own + laplace,
        "laplace first": lambda: laplace + published(planned([NAMES[:2]]), TABLE, line=8),
        "other data": lambda: own + other,
        "sum saved": lambda: synopsis("added").save("x.sfu"),
    }
    for name, run in tried.items():
        found |= claims_of(name, outcome(run))
    check_claims("synopses/none", found)


def test_names_of_cells() -> None:
    found: dict[str, Claim] = {}
    spiked = Attribute(
        "age", "integer", (ListedCell(0), ListedCell(18), RangeCell(0, 18), RangeCell(18, 40, True), OtherCell())
    )
    real = Attribute(
        "cost", "real", (ListedCell(Fraction(1, 2)), RangeCell("0.5", "2"), RangeCell("2", "3", True), OtherCell())
    )
    leveled = Attribute(
        "when", "date", ATTRIBUTES[3].cells, ((0, 0, 1, 1, 2), (0, 0, 0, 0, 1)), (("early", "late"), ())
    )
    for each in (*ATTRIBUTES, spiked, real, leveled):
        found |= claims_of(f"{each.name} {len(each.cells)} labels", _cell_key_values(each), words=True)
        found |= claims_of(f"{each.name} {len(each.cells)} keys", cell_keys([each, ATTRIBUTES[0]])[:9], words=True)
        found |= {f"{each.name} {len(each.cells)} type": key_type(each).value}
        for level in range(len(each.levels)):
            found |= claims_of(f"{each.name} level {level}", level_labels(each, level), words=True)
    found |= claims_of("after", [_next_value(1), _next_value(Fraction(1, 2)) > Fraction(1, 2)])
    check_claims("synopses/names", found)
