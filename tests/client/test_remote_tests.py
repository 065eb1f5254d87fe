"""Tests, their power and regressions of selected rows from afar: the same results, and no test is charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from client.curators import serving
from sfumato.client import RemoteCurator
from sfumato.errors import InvalidParameter, Unsupported

POLICY = """
[unit]
name = "patient"
budget = { epsilon = 8, delta = 0.000001 }

[tables.trial]
source = "trial.csv"
id = "patient"
max_rows = 1
[tables.trial.columns]
arm = { values = ["new", "old"] }
cured = { values = ["no", "yes"] }
age = { type = "integer", bounds = [0, 110] }
cost = { type = "real", bounds = [0, 100] }

[analysts.ana]
share = 1
"""
BY_ARM = "SELECT arm, cured, COUNT(*) AS n FROM trial GROUP BY arm, cured"
PRICE = {"epsilon": "0.5"}
ASSUMED = {"sizes": [900, 1000], "shares": ["0.4", "0.6"]}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    rows = [
        f"p{each},{('new', 'old')[each % 2]},{('no', 'yes')[each % 3 == 0]},{each % 90},{each % 70}"
        for each in range(400)
    ]
    (folder / "trial.csv").write_text("\n".join(["patient,arm,cured,age,cost", *rows]) + "\n")
    (folder / "clinic.toml").write_text(POLICY)
    return folder / "clinic.toml"


@pytest.fixture(scope="module")
def ana(policy: Path) -> Iterator[RemoteCurator]:
    with serving(policy) as (where, token), sf.connect(where, token=token) as curator:
        yield curator


def spent(curator: RemoteCurator) -> object:
    return curator.budget.spent


def test_a_bought_answer_is_tested_at_the_server_for_nothing(ana: RemoteCurator) -> None:
    answer = ana.sql(BY_ARM).release(**PRICE)
    before = spent(ana)
    tested = answer.test("independence")
    assert tested == ana.test("independence", BY_ARM).release(**PRICE)
    assert 0 <= tested.p_value <= 1
    assert answer.flagged().test("difference", outcome="yes").p_value <= 1
    with pytest.raises(sf.SfumatoError, match="nothing of the sort"):
        answer.test("nothing of the sort")
    assert spent(ana) == before


def test_what_is_not_stored_is_refused_and_not_charged(ana: RemoteCurator) -> None:
    before, question = spent(ana), ana.sql(f"{BY_ARM} HAVING COUNT(*) > 2")
    address, spec = ana.policy_connection, {"test": "independence", "question": BY_ARM}
    with pytest.raises(Unsupported, match="no stored answer is at least as accurate"):
        address.wire.call_free(address.policy, "test", "stored", spec, {"epsilon": "0.75"})
    with pytest.raises(Unsupported, match="no stored answer is at least as accurate"):
        address.wire.call_free(address.policy, "questions", "stored", question.spec, {"epsilon": "0.75"})
    assert spent(ana) == before


def test_an_answer_of_a_built_question_says_how_it_is_tested(ana: RemoteCurator) -> None:
    built = ana.table("trial").group_by("arm", "cured").agg(n=sf.count()).release(**PRICE)
    with pytest.raises(InvalidParameter, match=r"in SQL without parameters or limits"):
        built.test("independence")


def test_power_is_the_same_from_afar(ana: RemoteCurator, policy: Path) -> None:
    before = spent(ana)
    with sf.open(policy) as local:
        here = local.test("difference", BY_ARM, outcome="yes").power(**PRICE, **ASSUMED)
    there = ana.test("difference", BY_ARM, outcome="yes")
    assert there.power(**PRICE, **ASSUMED) == there.power("0.5", **ASSUMED) == here
    assert float(there.power(**PRICE, sizes=1000, shares=["0.5", "0.5"], level="0.01")) < float(here)
    for wrong in ({}, {"sizes": 10}, {**ASSUMED, "shares": ["2", "3"]}, {**ASSUMED, "confidence": "0.9"}):
        with pytest.raises(sf.SfumatoError):
            there.power(**PRICE, **wrong)
    with pytest.raises(sf.SfumatoError, match="the call 'release' for the kind 'test' does not take it"):
        there.release(**PRICE, sizes=10)
    address = ana.policy_connection
    with pytest.raises(Unsupported, match="'power' is available only for hypothesis tests"):
        address.wire.call_free(address.policy, "questions", "power", {"sql": BY_ARM}, {})
    assert spent(ana) == before


def test_power_of_counts_and_of_a_correlation_is_told_from_afar(ana: RemoteCurator, policy: Path) -> None:
    asked, assumed = "SELECT CORR(cost, age) AS r FROM trial", {"sizes": 300, "means": [40, 50], "deviation": [20, 15]}
    with sf.open(policy) as local:
        here = local.test("correlation", asked).power(**PRICE, correlation="0.5", **assumed)
    assert ana.test("correlation", asked).power(**PRICE, correlation="0.5", **assumed) == here
    with pytest.raises(sf.SfumatoError, match="each of 4 groups"):
        ana.test("independence", BY_ARM).power(**PRICE, counts=[100, 200])


def test_selected_rows_are_regressed(ana: RemoteCurator) -> None:
    selected = ana.table("trial").where("age > 20 OR age < 3").where("arm = 'new'")
    proposal = selected.regress("cost ~ age", rows=1)
    where = "(age > 20 OR age < 3) AND (arm = 'new')"
    assert str(proposal.explain()) == str(ana.regress("cost ~ age", "trial", where=where, rows=1).explain())
    assert str(ana.table("trial").regress(target="cost", on=["age"]).error(epsilon=1, delta="1e-7"))
    assert "squared residuals" in str(selected.regress("cost ~ age", rows=1, robust=True).explain())
    with pytest.raises(InvalidParameter) as refused:
        ana.table("trial").regress("cost ~ ag")
    assert refused.value.fix == "did you mean age?"


MODELS: dict[str, Callable[[Any], Any]] = {
    "derived": lambda curator: curator.table("trial", "t").derive(older="age + 1").regress("cost ~ older"),
    "joined": lambda curator: (
        curator.table("trial").join(curator.table("trial", "t").per_unit(least="MIN(age)")).logistic("cured ~ least")
    ),
    "one of each unit": lambda curator: (
        curator.table("trial")
        .per_unit(oldest=sf.max("age"), cost="LEAST(SUM(cost), 100)")
        .components(["oldest", "cost"])
    ),
    "a union": lambda curator: curator.table("trial").union_all(curator.table("trial")).regress("cost ~ age + arm"),
    "survival": lambda curator: curator.table("trial").where("age > 3").survival("age", "cured", "arm", event_is="yes"),
    "a SELECT": lambda curator: curator.regress(
        "cost ~ age", "SELECT MIN(age) AS age, MAX(cost) AS cost FROM trial GROUP BY patient"
    ),
}


@pytest.mark.parametrize("model", MODELS)
def test_models_of_views_are_the_same_from_afar(model: str, ana: RemoteCurator, policy: Path) -> None:
    with sf.open(policy) as local:
        here, there = MODELS[model](local), MODELS[model](ana)
        price = {"epsilon": "0.1", "delta": "1e-8"}
        assert str(there.explain(**price)) == str(here.explain(**price))
        assert there.release(**price).receipt.question == here.question.text


def test_a_view_that_is_a_question_has_no_rows_to_model(ana: RemoteCurator) -> None:
    address = ana.policy_connection
    steps = [{"step": "agg", "named": {"n": {"asks": "aggregate", "name": "count"}}}]
    for kind, fields in {"regress": {"formula": "cost ~ age"}, "components": {"columns": ["age", "cost"]}}.items():
        spec = {"table": {"table": "trial", "steps": steps}, **fields}
        with pytest.raises(sf.SfumatoError, match="a question, not rows of a table"):
            address.wire.call_free(address.policy, kind, "propose", spec, {})


def test_a_sample_of_what_is_of_all_units_is_refused_with_a_way_out(policy: Path) -> None:
    with sf.open(policy) as local:
        by_arm = "SELECT arm, cured, COUNT(*) AS n FROM trial GROUP BY arm, cured"
        for proposal in (
            local.regress("cost ~ age", "trial"),
            local.components(["age", "cost"], "trial"),
            local.survival("trial", "age", "cured", event_is="yes", every=11),
            local.test("independence", by_arm),
        ):
            with pytest.raises(
                InvalidParameter, match=r"sample must be left out, because .* always cover all units"
            ) as refused:
                proposal.release(epsilon="0.5", delta="1e-7", sample="50 %")
            assert "leave it out" in refused.value.fix
