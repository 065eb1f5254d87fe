"""Synthetic tables on record: how a price is split, what is chosen and measured, and what the released model says."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from claims.clinics import clinic, receipt_facts, spent_facts
from claims.flattening import claims_of, figures, outcome
from claims.recorded import Claim, check_claims
from mechanisms.recorded import keyed
from publish.synthesis.clinic import METHODS, PRICES, curator, exact, people, policy_of
from publish.synthesis.test_forecasting import SPEED
from sfumato.plan.readings.cell_rows import CellCounts
from sfumato.policy import Domain
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.publish.graph.models import GraphicalModel, Potential
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell, PublicTableFacts, RangeCell
from sfumato.publish.mwem import CellView, MwemModel, MwemRound, NoisyCounts, replay_rounds, update_weights
from sfumato.publish.synthesis import candidates
from sfumato.publish.synthesis.budget import (
    Concentrated,
    Pure,
    RoundAmounts,
    SynthesisBudget,
    _drawable_noise_size,
    _root_rounded_up,
    price_in_currency,
    round_amount_down,
)
from sfumato.publish.synthesis.candidates import require_possible_rows, zeros_from_policy
from sfumato.publish.synthesis.forecasting import (
    _nearest_in_size,
    draw_invented_rows,
    expected_run,
    predicted_memory,
    predicted_seconds,
)
from sfumato.publish.synthesis.methods import _unconnected_pairs, expected_rounds
from sfumato.publish.synthesis.state import l1_change, mean_absolute_noise, round_to_steps
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")


def record(name: str, found: dict[str, Claim]) -> None:
    check_claims(f"synthesis/{name}", found)


def test_prices_are_split_exactly() -> None:
    found: dict[str, Claim] = {}
    changes = {"one": Sensitivity(1, 1), "three": Sensitivity(2, 3, 5, 11)}
    changes["replaced"] = Sensitivity(1, 2, neighbours="replace")
    for label, own in (("pure", Pure(Fraction(3, 2))), ("concentrated", Concentrated(Fraction(1, 3)))):
        said: dict[str, Any] = {"total": own.total, "halved": own.half_noise_factor}
        said |= {f"first_round_sharpness {columns}": own.first_round_sharpness(columns) for columns in (1, 5)}
        for amount, (name, change) in itertools.product((Fraction(1, 7), Fraction(3, 10**8)), changes.items()):
            noise = own.noise(amount, change)
            said |= {f"noise {amount} {name}": repr(noise), f"cost {amount} {name}": own.noise_cost(noise, change)}
            said |= {f"size {amount} {name}": mean_absolute_noise(noise, Fraction(1, 4))}
        said |= {f"hold {delta}": own.total_curve(Neighbours.ADD_REMOVE).epsilon(delta) for delta in ("1e-6", "1e-2")}
        found |= claims_of(label, said)
        funds = SynthesisBudget(own).charge(Fraction(1, 9))
        found |= claims_of(f"{label} funds", [funds.spent, funds.remaining, funds.used_share])
        found |= claims_of(f"{label} all", funds.charge(funds.remaining).remaining)
        found |= claims_of(f"{label} more", outcome(lambda: funds.charge(funds.remaining + Fraction(1, 10**30))))
        found |= claims_of(f"{label} amounts", RoundAmounts.of_round(Fraction(5, 7)).with_halved_noise(own))
        found |= claims_of(f"{label} whole", RoundAmounts.of_round(Fraction(5, 7)).total)
    for price in (Price("0.5"), Price(1, "1e-9"), Price(rho="0.2")):
        found |= claims_of(f"currency {price}", price_in_currency(price))
    for amount in (Fraction(2, 3), Fraction(1, 10**9), Fraction(2, 3 * 10**9), Fraction(2, 3 * 10**12)):
        found |= {f"rounded {amount}": str(round_amount_down(amount)), f"root {amount}": str(_root_rounded_up(amount))}
    for size in (Fraction(10**12), Fraction(10**12) + 1, Fraction(1, 10**9), Fraction(5)):
        found |= claims_of(f"held {size}", outcome(lambda: _drawable_noise_size(size)))
    record("budget", found)


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_choices_and_expectations(price: dict[str, Any]) -> None:
    found: dict[str, Claim] = {}
    for units, relation in ((False, "add-remove"), (True, "replace")):
        policy = policy_of(people(1, 30), units=units, relation=relation)
        proposal, _ = exact(policy, Price(**price))
        setting = proposal.setting(Price(**price))
        label = f"{units}"
        said: dict[str, Any] = {"candidates": {str(key): each for key, each in setting.candidates.items()}}
        said |= {"unit": setting.unit_value, "rows": setting.max_rows, "pairs": setting.pairs}
        said |= {f"rounds {rows}": expected_rounds(setting, rows) for rows in (10.0, 300.0, 10**4, 10**6)}
        for places in ((), (0,), (0, 1)):
            change = CellCounts(setting.reading, places).sensitivity
            said[f"moved {places}"] = (change.l0, change.per_group, change.total, change.squares)
        for method, rows in itertools.product(METHODS, (50, 10**5)):
            course = expected_run(setting, method, rows)
            said[f"{method} {rows}"] = course
            said[f"{method} {rows} sets"] = course.sets(3)
            said[f"{method} {rows} memory"] = predicted_memory(setting, course, rows)
            said[f"{method} {rows} seconds"] = predicted_seconds(setting, course, rows, SPEED)
        found |= claims_of(label, said)
        with keyed("invented"):
            made = draw_invented_rows(setting, 40)
        found |= claims_of(f"{label} invented", [[each.tolist() for each in made.codes], made.totals.tolist()])
    record(f"expected_{'_'.join(price)}", found)


def test_candidates() -> None:
    found: dict[str, Claim] = {}
    workload = {(0, 1): Fraction(1), (1, 2, 3): Fraction(1, 2), (4,): Fraction(3)}
    found |= claims_of("closure", {str(key): each for key, each in candidates.weighted_subsets(workload).items()})
    found |= claims_of(
        "within", {str(key): each for key, each in candidates.subsets_with_largest_weight(workload).items()}
    )
    found |= claims_of("sets", [each.tolist() for each in candidates.subset_index_arrays(workload)])
    for weights in ((Fraction(1, 3), Fraction(2)), (Fraction(1), Fraction(10**9)), (Fraction(6), Fraction(4))):
        made = candidates.integer_weights(dict(zip(((0,), (1,)), weights, strict=True)))
        found |= claims_of(f"whole {list(map(str, weights))}", list(made.values()))
    sizes = (2, 3, 4, 5, 2)
    model = GraphicalModel.from_potentials(sizes, [Potential((0, 1), np.zeros((2, 3)))], 10.0)
    for most in (0, 5, 6, 7, 30, 200):
        sets = [(0,), (0, 1), (1, 2), (2, 3), (0, 4), (1, 2, 3)]
        found |= claims_of(f"affordable {most}", candidates.candidates_within_cells(sets, model, [(0, 1)], most))
    by_size = candidates.subset_index_arrays({(0, 1, 2): Fraction(1), (2, 3, 4): Fraction(1)})
    for wanted, count in itertools.product((0.5, 6.0, 40.0), (3, 9)):
        found |= claims_of(f"by size {wanted} {count}", _nearest_in_size(by_size, sizes, wanted, count))
    for edges in ([], [(0, 1)], [(0, 1), (2, 3)], [(0, 1), (1, 2), (2, 3)]):
        found |= claims_of(f"joining {edges}", _unconnected_pairs(edges, 4))
    found |= claims_of("moved", l1_change(np.array([1.0, 5.0]), np.array([4.0, 3.0])))
    found |= claims_of("steps", round_to_steps(np.array([[1.26, -2.0], [1e30, 0.1]]), 0.5).tolist())
    record("candidates", found)


def test_columns_that_decide_others() -> None:
    town = Attribute("town", "text", (ListedCell("a"), ListedCell("b"), OtherCell()))
    region = Attribute("region", "text", (ListedCell("n"), ListedCell("s"), OtherCell()))
    age = Attribute("age", "integer", (RangeCell(0, 1), RangeCell(1, 9, True), OtherCell()))
    binned = Attribute("cost", "real", (RangeCell("0", "1"), RangeCell("1", "2", True), OtherCell()))
    own = (region, town, age, binned)
    domains = (Domain("text", values=("n", "s")), Domain("text", values=("a", "b"), nullable=True))
    numbers = (Domain("integer", bounds=(0, 9)), Domain("real", bounds=(0, 2), nullable=True))
    declared = (("town", "region"), ("age", "town"), ("cost", "town"), ("town", "nothing"))
    impossible = ("town = 'a' AND region = 's'", "age > 1 AND town = 'b'", "x = 1")
    face = PublicTableFacts((*domains, *numbers), impossible, "x", declared)
    found: dict[str, Claim] = claims_of("pairs", candidates.deciding_pairs(own, face))
    found |= claims_of("cells", [candidates.deciding_cells(own, place).tolist() for place in range(4)])
    found |= claims_of("required", candidates.non_nullable_attributes(face))
    found |= claims_of("last", candidates.missing_value_cell(own, 1))
    found |= claims_of("sets", candidates.distinct_sets(((1, 0), (0, 1), (2, 1))))
    for pair in ((1, 0), (0, 1)):
        made = candidates.zeros_of_pair(pair, (1, 0, 2), np.array([True, True, False]), 3)
        found |= claims_of(f"zeros {pair}", made)
    counts = np.log(np.array([[5.0, 1.0, 2.0], [1.0, 7.0, 2.0], [9.0, 1.0, 3.0]]))
    model = GraphicalModel.from_potentials((3, 3, 3, 3), [Potential((0, 1), counts), Potential((1, 2), counts.T)], 50.0)
    zeros = zeros_from_policy("visits", own, face)
    found |= claims_of("declared", zeros)
    for required in ((), (0,), (1,)):
        for given in ((), zeros):
            made = candidates.zeros_from_model(model, own, ((1, 0), (2, 1)), given, required)
            found |= claims_of(f"model {required} {bool(given)}", made)
    for most in (0, 5, 6, 9, 100):
        found |= claims_of(f"checked {most}", outcome(lambda: require_possible_rows(zeros, (3, 3, 3, 3), most)))
    nothing = (((0,), np.ones(3, bool)),)
    found |= claims_of("nothing left", outcome(lambda: require_possible_rows(nothing, (3, 3, 3, 3), 100)))
    record("implications", found)


def synthetic_facts(got: Any) -> dict[str, Any]:
    own = got.released
    rounds = [(each.columns, each.what, figures(each.price), float(f"{each.gain:.6g}")) for each in own.rounds]
    measured = [(each.attribute_set, each.values.tolist(), each.size, each.laplace) for each in own.measured]
    asked = got.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM people WHERE NOT smokes GROUP BY sex")
    within = got.sql("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", confidence="0.8", together=True)
    quality = got.quality()
    return {
        "rounds": rounds,
        "measured": measured,
        "total": own.total,
        "planned": own.planned,
        "ranges": [asked.intervals, within.intervals],
        "basis": asked.basis,
        "noise": [each.noise for each in quality.marginals],
        "rows": [quality.rows, quality.total_range],
        "verified": figures(got.verify()),
        "holds": got.verify().holds,
        "unit": own.unit_value,
        **receipt_facts(got.receipt),
    }


@pytest.mark.parametrize(
    ("method", "price"),
    [
        pytest.param(method, price, marks=[] if (one + two) % 3 == 0 else [pytest.mark.long])
        for one, method in enumerate(METHODS)
        for two, price in enumerate(PRICES)
    ],
    ids=str,
)
def test_released_models(tmp_path: Path, method: str, price: dict[str, Any]) -> None:
    units = method in ("mst", "mwem")
    relation = "replace" if method in ("mwem", "independent") else "add-remove"
    found: dict[str, Claim] = {}
    with keyed(f"{method} {sorted(price)}"), curator(tmp_path, people(1, 40), units=units, relation=relation) as here:
        asked = here.synthesize("people", method, 2)
        for name, terms in (("named", price), ("unnamed", {})):
            found |= claims_of(f"explain {name}", figures(asked.explain(**terms, confidence="0.9")))
        if "rho" not in price:
            found |= claims_of("price", asked.price(9, delta=price.get("delta", 0), confidence="0.9"))
        said = asked.forecast(**price)
        found |= claims_of("forecast", [said.memory, said.rounds, said.cells, said.rows, said.accepted])
        found |= claims_of("released", synthetic_facts(asked.release(**price)))
        found |= claims_of("charged", spent_facts(here))
    record(f"{method}_{'_'.join(price)}", found)


@pytest.mark.parametrize("method", METHODS)
def test_models_of_part_of_a_table(tmp_path: Path, method: str) -> None:
    found: dict[str, Claim] = {}
    with clinic(tmp_path, "people", method) as here:
        asked = here.synthesize(
            "visits", method, [["sex", "age"], ["smokes"]], columns=["sex", "age", "smokes"],
            weights={"sex": 3}, where="age < 8", rows=2, memory="64 KiB",
        )  # fmt: skip
        found |= claims_of("explain", figures(asked.explain(rho=1)))
        found |= claims_of("workload", {str(key): each for key, each in asked.workload.items()})
        got = asked.release(rho=1)
        found |= claims_of("total", got.total)
        found |= claims_of("measured", [each.values.tolist() for each in got.released.measured])
        found |= claims_of("charged", spent_facts(here))
    record(f"part_{method}", found)


def test_refused_requests(tmp_path: Path) -> None:
    found: dict[str, Claim] = {}
    with clinic(tmp_path, "people", "refused") as here:
        tried: dict[str, Any] = {
            "method": lambda: here.synthesize("visits", "other"),
            "uncoded": lambda: here.synthesize("visits"),
            "memory": lambda: here.synthesize("visits", columns=["sex"], memory="much"),
            "little memory": lambda: here.synthesize("visits", columns=["sex", "age"], ways=2, memory=1).dropped_sets,
            "some memory": lambda: here.synthesize("visits", columns=["sex"], ways=1, memory="0.5 MiB").max_cells,
            "order": lambda: here.synthesize("visits", columns=["sex"], order="day"),
            "one row": lambda: here.synthesize("visits", columns=["sex"], one_row_per="unit"),
            "weights": lambda: here.synthesize("visits", columns=["sex", "age"], weights={"town": 2}),
            "ways": lambda: here.synthesize("visits", columns=["sex", "age"], ways=3),
            "small price": lambda: here.synthesize("visits", columns=["sex"], ways=1).release(rho="1e-30"),
            "large price": lambda: here.synthesize("visits", columns=["sex"], ways=1).release(epsilon=100),
        }
        for name, run in tried.items():
            found |= claims_of(name, outcome(run))
        found |= claims_of("charged", spent_facts(here))
    record("refused", found)


def test_dense_models() -> None:
    """The model of MWEM over every cell, from released counts alone."""
    found: dict[str, Claim] = {}
    rounds = [
        MwemRound(CellView((0,)), (9, 21)),
        MwemRound(CellView((0, 1)), (4, 3, 2, 6, 9, 6)),
        MwemRound(CellView((0, 1), (0, 4)), (11, 40)),
        MwemRound(CellView((1,), (2,)), (-3,)),
    ]
    for textbook, rows in itertools.product((False, True), (30, 0, -5)):
        start = MwemModel.uniform((2, 3), rows, 4, textbook=textbook)
        found |= {f"passes {textbook} {rows}": start.passes}
        for count in range(1, len(rounds) + 1):
            made = replay_rounds(start, rounds[:count])
            found |= claims_of(f"{textbook} {rows} {count}", made.fitted_weights)
            found |= claims_of(f"{textbook} {rows} {count} said", made.predicted_counts(CellView((1,))))
    for cells, count in ((10**3, 10), (10**6, 10), (10**6, 100)):
        found |= {f"passes {cells} {count}": MwemModel.uniform((cells,), 5, count).passes}
    found |= claims_of("large", MwemModel.uniform((2,), 1 << 61, 1).total)
    for each in rounds:
        found |= claims_of(f"multiplied {each.view.attribute_set}", update_weights(np.full((2, 3), 5.0), 30.0, each))
    for values in ((), (1.5,), (1, 2)):
        found |= claims_of(f"counts {values}", outcome(lambda: NoisyCounts(values)))
    record("dense_models", found)
