"""Questions over a secret sample of the units: what is refused beforehand, and what every skin passes on."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from cli.running import run
from sfumato.curator.proposals.sampled_questions import key_with_sample
from sfumato.plan.bounding import Strategy
from sfumato.plan.canonical import PlanKey
from sfumato.release.prices import Price
from sfumato.release.pricing import price_release

POLICY = """
[unit]
name = "patient"
neighbours = "add-remove"
budget = { epsilon = 900 }
[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 2
[tables.visits.columns]
day = { type = "date", bounds = ["2024-01-01", "2024-12-31"] }
ward = { values = ["a", "b"] }
drug = { type = "text" }
cost = { type = "integer", bounds = [0, 10] }
debt = { type = "integer", bounds = [-10, 10] }
"""
COUNT = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY ward"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("clinic")
    rows = (
        f"{who},2024-03-0{1 + who % 9},{'ab'[v]},x,{who % 11},{who % 5 - 2}" for who in range(600) for v in range(2)
    )
    (made / "visits.csv").write_text("who,day,ward,drug,cost,debt\n" + "\n".join(rows) + "\n")
    (made / "policy.toml").write_text(POLICY)
    return made


@pytest.fixture(scope="module")
def clinic(folder: Path) -> Iterator[sf.Curator]:
    with sf.Curator(folder / "policy.toml") as opened:
        yield opened


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ("0", "a share of the units"),
        ("100 %", "a share of the units"),
        (1, "a share of the units"),
        (10, "write 10 % as 0.1"),
        ("-5 %", "a share of the units"),
        ("ten", "a share of the units"),
        ("0.0000001", "a share of the units"),
        ("10 %%", "a share of the units"),
        (float("nan"), "a share of the units"),
        ("0,1", "0.1"),
    ],
)
def test_a_share_that_is_none_is_refused(clinic: sf.Curator, sample: Any, said: str) -> None:
    with pytest.raises(sf.InvalidParameter, match="sample") as refused:
        clinic.sql(COUNT).release(epsilon=1, sample=sample)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("SELECT drug, COUNT(*) AS n FROM visits GROUP BY drug", "groups are found in the data"),
        ("SELECT MEDIAN(cost) AS cost FROM visits", "quantiles"),
        ("SELECT COUNT(DISTINCT cost) AS n FROM visits", "distinct"),
        ("SELECT SUM(debt) AS debt FROM visits", "may be negative"),
        ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)", "subtotals"),
    ],
)
def test_a_question_that_a_sample_cannot_answer_is_refused(clinic: sf.Curator, asked: str, said: str) -> None:
    before = clinic.budget.remaining
    for call in ("release", "error", "explain"):
        with pytest.raises(sf.Unsupported, match=said) as refused:
            getattr(clinic.sql(asked), call)(epsilon=1, sample="10 %")
        assert "leave out sample" in str(refused.value)
    assert clinic.budget.remaining == before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('id = "who"\nmax_rows = 2', 'id = "row"', "every row is a unit"),
        ('name = "patient"', 'name = "patient"\nperiod = { column = "day", every = "day" }', "one patient in one day"),
    ],
)
def test_a_policy_without_ids_of_units_is_refused(folder: Path, old: str, new: str, said: str) -> None:
    path = folder / f"{len(new)}.toml"
    path.write_text(POLICY.replace(old, new))
    with sf.Curator(path, folder / f"{len(new)}.ledger") as curator, pytest.raises(sf.Unsupported, match=said):
        curator.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=1, sample="10 %")


def test_what_does_not_fit_a_sample_is_refused(clinic: sf.Curator) -> None:
    asked = clinic.sql(COUNT)
    with pytest.raises(sf.InvalidParameter, match="within"):
        asked.release(within=50, sample="10 %")
    with pytest.raises(sf.InvalidParameter, match="sample_of"):
        asked.release(epsilon=1, sample="10 %", sample_of="0.1")
    with pytest.raises(sf.InvalidParameter, match="delta"):
        asked.release(epsilon=1, delta="0.2", sample="10 %")
    with pytest.raises(sf.InvalidParameter, match="sample"):
        asked.release(free=True, sample="10 %")
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        asked.release(epsilon=500, sample="10 %")
    combined = clinic.sql("SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) AS n FROM visits WHERE cost > 3")
    with pytest.raises((sf.InvalidParameter, sf.Unsupported), match="sample"):
        combined.release(epsilon=1, sample="10 %")


def test_releases_of_several_steps_take_no_sample(clinic: sf.Curator) -> None:
    """A sample is drawn for one batch: nothing that is charged in steps has the argument."""
    proposals = (
        clinic.workload([COUNT]),
        clinic.above(20),
        clinic.synthesize("visits", columns=["ward"]),
        clinic.online("visits", ["ward"], 1, 2),
        clinic.marginals("visits", 1, columns=["ward"]),
    )
    for proposal in proposals:
        assert "sample" not in inspect.signature(proposal.release).parameters


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_ranges_of_a_sample_hold_the_exact_numbers(clinic: sf.Curator) -> None:
    """Twenty fresh samples, each range at 80 %. Were a sample to miss with all four numbers or none, more than fourteen
    misses would be rarer than 1e-6; ranges of the noise alone miss nearly always.
    """
    asked = clinic.sql(
        "SELECT COUNT(*) AS n, AVG(cost) AS cost, SUM(cost) AS total, COUNT(DISTINCT who) AS p FROM visits"
    )
    exact = {"n": 1200, "cost": sum(who % 11 for who in range(600)) / 600, "p": 600}
    exact["total"] = 1200 * exact["cost"]
    misses = 0
    for _ in range(20):
        answer = asked.release(epsilon=20, sample="20 %", confidence="0.8", fresh=True)
        for name, (interval,) in answer.intervals.items():
            misses += not interval[0] <= exact[name] <= interval[1]
    assert misses <= 4 * 14


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_an_answer_from_a_small_sample_is_none_from_a_larger_one(clinic: sf.Curator) -> None:
    """Also where its noise is smaller, so that it would be taken for the better answer."""
    asked = clinic.sql("SELECT COUNT(DISTINCT who) AS n FROM visits WHERE cost > 1")
    small = asked.release(epsilon=20, sample="10 %")
    large = asked.release(epsilon="0.5", sample="50 %")
    assert not large.receipt.free
    assert large.receipt.sample == "50 %"
    assert asked.release(epsilon=20, sample="0.1").rows == small.rows
    assert asked.release(epsilon="0.5", sample="1/2").rows == large.rows


def test_each_rate_has_a_key_of_its_own(clinic: sf.Curator) -> None:
    asked: Any = clinic.sql(COUNT)
    rates = (None, Fraction(1, 10), Fraction(1, 2))
    prepared = [price_release(asked.bounding_options, Price(1), sample=rate) for rate in rates]
    key = PlanKey("current", "former")
    assert len({key_with_sample(key, priced) for priced in prepared}) == 3


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_a_unit_adds_all_its_rows_at_the_bound(folder: Path, relation: str) -> None:
    """Five rows of at most 100 each are 500, whoever is a neighbour: the limit that the range of a sample reads."""
    path = folder / f"limit-{relation}.toml"
    policy = POLICY.replace("max_rows = 2", "max_rows = 5").replace("bounds = [0, 10]", "bounds = [0, 100]")
    path.write_text(policy.replace('"add-remove"', f'"{relation}"\nsize = 600'))
    with sf.Curator(path, folder / f"limit-{relation}.ledger") as curator:
        asked: Any = curator.sql("SELECT COUNT(*) AS n, SUM(cost) AS cost FROM visits")
        options = [each for each in asked.bounding_options if each.strategy is Strategy.SAMPLE]
        prepared = price_release(options, Price(1), sample=Fraction(1, 10))
    assert [scale.unit_limit for scale in prepared.noisy_scales] == [5, 500]  # type: ignore[union-attr]


def test_forecasts_and_explanations_name_the_sample(clinic: sf.Curator) -> None:
    asked = clinic.sql(COUNT)
    whole, sampled = asked.error(epsilon=1), asked.error(epsilon=1, sample="10 %")
    widths = sampled["n"]
    assert isinstance(widths, dict)
    assert list(widths) == [100, 1000, 10_000]
    assert np.all(np.diff([*widths.values()]) > 0)
    assert min(widths.values()) > float(whole["n"])  # type: ignore[arg-type]
    explained = asked.explain(epsilon=1, sample="10 %")
    (operator,) = [each for each in explained.operators if each.name == "sample"]
    assert "each patient with probability 10 %" in operator.what
    assert "ε = 2.9" in operator.effect  # ln(1 + 10(e − 1))
    assert asked.preview(epsilon=1, sample="10 %").receipt.sample == "10 %"


def test_the_command_line_takes_a_sample(folder: Path) -> None:
    shown = run("query", folder / "policy.toml", COUNT, "--epsilon", "1", "--sample", "10%", "--receipt")
    assert shown.exit_code == 0, shown.output
    assert "a secret 10 % of the units" in shown.output
    forecast = run("query", folder / "policy.toml", COUNT, "--epsilon", "2", "--sample", "10%", "--dry-run")
    assert "in a group of 1,000" in forecast.output
    refused = run(
        "query", folder / "policy.toml", "--file", folder / "policy.toml", "--epsilon", "1", "--sample", "0.1"
    )
    assert "--sample" in refused.output
    assert refused.exit_code == 2
