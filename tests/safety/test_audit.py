"""Samples of whole releases cannot refute the promise, and do refute a twin whose claim is halved.

A question goes the whole way (text, plan, bounding, price, statement, exact totals, noise); only the noise is drawn
many times over the same totals, as if that many answers had been bought.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from engine.tables import tuples
from safety.test_tightness import TABLES, halved
from safety.worlds import Row, World, question
from sfumato.curator.curators import Curator
from sfumato.curator.proposals.questions import Question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.release.prices import Price
from sfumato.release.pricing import PricedRelease, price_release

_COLUMNS = {
    "region": {"values": [f"region {index}" for index in range(8)]},
    "age": {"type": "integer", "bounds": [-2, 10]},
    "cost": {"type": "real", "bounds": [0, 50], "grid": "0.5"},
}
_STORED = {"who": pa.int64(), "region": pa.string(), "age": pa.int64(), "cost": pa.float64()}
CONFIDENCE = "0.999999"
"""Each verdict on a sound release is wrong with probability at most 1e-6."""

TEMPLATES = {
    "count": ("SELECT COUNT(*) FROM people", "", "many"),
    "grouped count": ("SELECT region, COUNT(*) FROM people GROUP BY region", "", "spread"),
    "sum": ("SELECT SUM(age) FROM people", "", "many"),
    "mean": ("SELECT AVG(cost) FROM people", "", "many"),
    "distinct": ("SELECT region, COUNT(DISTINCT who) FROM people GROUP BY region", "", "spread"),
    "replaced count": ("SELECT region, COUNT(*) FROM people GROUP BY region", "spread", "away"),
    "replaced sum": ("SELECT region, SUM(cost) FROM people GROUP BY region", "many", "elsewhere"),
    "replaced mean": ("SELECT region, AVG(cost) FROM people GROUP BY region", "many", "elsewhere"),
    "replaced distinct": ("SELECT region, COUNT(DISTINCT who) FROM people GROUP BY region", "spread", "away"),
}
PRICES = {"pure": Price(1), "approximate": Price(1, "1e-6")}


def _policy(rows: list[Row], relation: str) -> Any:
    return World(True, (5, 3, 2), _COLUMNS, _STORED, {}, ()).policy(rows, relation)


def _asked(name: str) -> tuple[list[Question], str]:
    text, *tables = TEMPLATES[name]
    relation = "replace" if name.startswith("replaced") else "add-remove"
    policies = [_policy(TABLES[table], relation) for table in tables]
    return [question(DuckDB(policy), policy, text) for policy in policies], text


def _verdict(asked: list[Question], prepared: PricedRelease, price: Price, samples: int) -> sf.audit.Verdict:
    """Of an attacker who knows both tables and looks at each release through its likelihood ratio."""
    exact = [tuples(each._context.engine.read(GroupTotals(prepared.bounded, each.groups), 7)) for each in asked]
    first, second = (np.array(each, dtype=np.float64) for each in exact)

    def sampler(totals: Any) -> Any:
        def sample(count: int) -> Any:
            many = np.tile(totals, (count, 1))
            drawn = [each.draw(each.reading.extract(many)) for each in prepared.batch.measurements]
            noisy = np.hstack(drawn).astype(np.float64).reshape(count, *first.shape)
            if isinstance(prepared.totals_mechanisms[0], sf.Gaussian):
                return ((second - first) * noisy).sum(axis=(1, 2))
            return (np.abs(noisy - first) - np.abs(noisy - second)).sum(axis=(1, 2))

        return sample

    claim = sf.Guarantee(price.epsilon or 0, price.delta)
    return sf.audit.falsify([sampler(each) for each in exact], claim, samples, CONFIDENCE)


def _twin(options: tuple[Any, ...], price: Price, family: Any) -> PricedRelease:
    """What a claim of half the sensitivity would have prepared, with the real bounding."""
    return price_release([halved(each) for each in options], price, family=family)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("price", PRICES)
def test_the_promise_is_not_refuted_and_half_a_claim_is(name: str, price: str, long: bool) -> None:
    asked, _ = _asked(name)
    paid = PRICES[price]
    family = sf.Gaussian if paid.delta else sf.Laplace
    few = 40_000 if name in ("replaced count", "replaced distinct") else 10_000  # changes thinly spread over groups
    samples = 1_000_000 if long else few
    sound = price_release(asked[0].bounding_options, paid, family=family)
    assert _verdict(asked, sound, paid, samples).holds
    if price == "pure":
        verdict = _verdict(asked, _twin(asked[0].bounding_options, paid, family), paid, samples)
        assert not verdict.holds, str(verdict)
    for each in asked:
        each._context.engine.close()


@pytest.mark.long
def test_answers_bought_one_by_one(tmp_path: Path) -> None:
    """The same through ``release``, ledger and all; the twin's claim is a tenth, so that few answers tell."""
    text = TEMPLATES["count"][0]
    policies = [_policy(TABLES[table], "add-remove") for table in ("", "many")]
    curators = [Curator(policy, tmp_path / f"{index}.ledger") for index, policy in enumerate(policies)]

    def bought(curator: Curator, epsilon: Any) -> Any:
        asked = curator.sql(text)
        return lambda count: np.array([asked.release(epsilon=epsilon, fresh=True).rows[0][0] for _ in range(count)])

    claim = sf.Guarantee("0.05")
    sound = sf.audit.falsify([bought(each, "0.05") for each in curators], claim, 1500, CONFIDENCE)
    assert sound.holds
    twin = sf.audit.falsify([bought(each, "0.5") for each in curators], claim, 1500, CONFIDENCE)
    assert not twin.holds, str(twin)
    for each in curators:
        each.close()
