"""Requests on record: what every proposal says of a price without buying, and which requests are refused."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from claims.clinics import clinic, table
from claims.flattening import claims_of, figures, outcome
from claims.recorded import Claim, check_claims
from publish.worlds import attribute
from sfumato.curator.proposals import marginals, mwem, online, scores, sessions, synthesis, table_auctions
from sfumato.curator.proposals.bought_synopses import FreeAnswer, _is_less_noisy, _max_half_width
from sfumato.curator.proposals.running_counts import _mechanism_of_size
from sfumato.curator.proposals.selected_columns import is_select_text
from sfumato.curator.proposals.workloads import error_cache_key
from sfumato.mechanisms import Gaussian, Laplace
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Domain
from sfumato.privacy import Sensitivity
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.release.noisy_rows.finishing import count_jointly_held_ranges
from sfumato.release.prices import Price
from sfumato.release.requests import PriceRequest

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
PRICES: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": "1.5"},
    "approximate": {"epsilon": 1, "delta": "1e-7"},
    "concentrated": {"rho": "0.2"},
    "small": {"epsilon": "1e-5"},
    "none": {},
}
BOTH = (pytest.param("people", marks=pytest.mark.long), "rows")
"""The other clinic's proposals are on record by default, with their releases."""


def record(name: str, found: dict[str, Claim]) -> None:
    check_claims(f"requests/{name.replace(' ', '_')}", found)


@pytest.fixture(scope="module")
def clinics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, sf.Curator]]:
    """Clinics of which nothing is bought here."""
    with (
        clinic(tmp_path_factory.mktemp("people"), "people") as people,
        clinic(tmp_path_factory.mktemp("rows"), "rows") as rows,
    ):
        yield {"people": people, "rows": rows}


def free(asked: Any, goals: Any = (), *, joint: bool = False, forecast: bool = True) -> dict[str, Claim]:
    """What a proposal says for nothing at every kind of price."""
    found: dict[str, Claim] = {}
    for kind, price in PRICES.items():
        found |= claims_of(f"explain {kind}", figures(outcome(lambda: asked.explain(**price))))
        if forecast:
            said = outcome(lambda: asked.error(**price, confidence="0.8"))
            found |= claims_of(f"error {kind}", said if isinstance(said, (float, tuple)) else figures(repr(said)))
        if joint:
            found |= claims_of(f"joint {kind}", figures(repr(outcome(lambda: asked.error(**price, joint=True)))))
    for goal in goals:
        for terms in ({}, {"delta": "1e-7"}, {"confidence": "0.8"}):
            found |= claims_of(f"price {goal} {sorted(terms)}", outcome(lambda: asked.price(goal, **terms)))
    return found


@pytest.mark.parametrize("world", BOTH)
def test_marginals(clinics: dict[str, sf.Curator], world: str) -> None:
    here = clinics[world]
    found = free(here.marginals("visits", 2, columns=["sex", "age", "smokes"]), (12,), joint=True)
    asked = here.marginals("visits", [["sex", "age"], ["smokes"]], weights={("age", "sex"): 3})
    found |= {f"named {key}": each for key, each in free(asked, (12,)).items()}
    for objective in ("total", "worst"):
        leveled = here.marginals("visits", [["sex", "city"], ["city"]], objective=objective)
        found |= {f"leveled {objective} {key}": each for key, each in free(leveled, (12,)).items()}
    for columns in (["smokes"], ["sex"], ["age", "sex"], ["town"]):
        for delta in (0, "1e-7"):
            found |= claims_of(f"for {columns} {delta}", outcome(lambda: asked.price(9, columns, delta=delta)))
    for noise in (sf.Laplace, sf.Gaussian):
        for kind in ("pure", "approximate", "concentrated"):
            said = outcome(lambda: asked.explain(**PRICES[kind], mechanism=noise))
            found |= claims_of(f"{noise.__name__} {kind}", figures(said))
    worst = here.marginals("visits", 2, columns=["sex", "smokes", "town"], objective="worst")
    found |= {f"worst {key}": each for key, each in free(worst, forecast=False).items()}
    record(f"marginals {world}", found)


@pytest.mark.parametrize("world", BOTH)
def test_models(clinics: dict[str, sf.Curator], world: str) -> None:
    here = clinics[world]
    found: dict[str, Claim] = {}
    counted = [{"sex": "f"}, {"sex": ["m", None], "age": None}]
    asked = {
        "plain": lambda: here.mwem("visits", ["sex", "age", "smokes"], 2, rounds=3),
        "textbook": lambda: here.mwem("visits", ["sex", "age"], 1, rounds=2, textbook=True),
        "queries": lambda: here.mwem("visits", ["sex", "age"], queries=counted),
        "one round": lambda: here.mwem("visits", ["sex"], 1, rounds=1),
    }
    for label, make in asked.items():
        found |= {f"{label} {key}": each for key, each in free(make(), (40,) if label == "plain" else ()).items()}
        found |= claims_of(f"{label} asked", [list(each) for each in make().workload])
    for name in ("pure", "approximate", "concentrated"):
        steps = asked["plain"]()._steps_for_price(Price(**PRICES[name]))
        found |= claims_of(
            f"steps {name}", [repr(steps.row_count_step.noise), repr(steps.selection), repr(steps.noise)], words=True
        )
        found |= claims_of(
            f"leak {name}",
            [steps.curve.epsilon("1e-7"), *(e.epsilon("1e-9") for e in steps.row_choice_and_measurement_curves)],
        )
    record(f"mwem {world}", found)


@pytest.mark.parametrize("world", BOTH)
def test_sessions(clinics: dict[str, sf.Curator], world: str) -> None:
    here = clinics[world]
    found: dict[str, Claim] = {}
    for textbook in (False, True):
        asked = here.online("visits", ["sex", "age", "smokes"], 1, 3, textbook=textbook)
        found |= {f"online {textbook} {key}": each for key, each in free(asked).items()}
        found |= claims_of(f"online {textbook} price", outcome(lambda: asked.price(90, delta="1e-7")))
        draw = asked._strategy_at(Price(rho=2))
        found |= claims_of(f"online {textbook} gate", repr(draw.batch.gate), words=True)
        found |= claims_of(f"online {textbook} noise", [repr(draw.batch.noise), draw.batch.rounds], words=True)
        found |= claims_of(f"online {textbook} leak", draw.batch.curve.epsilon("1e-7"))
    for terms in ({}, {"sensitivity": "1.5"}, {"monotone": True}, {"monotone": False}, {"tables": ["visits"]}):
        label = f"above {sorted(terms.items())}"
        session = outcome(lambda: here.above("12.25", 3, **terms))
        if isinstance(session, tuple):
            found |= claims_of(label, session)
            continue
        found |= claims_of(label, [session.grid, session.sensitivity, session.monotone, session.positives])
        for values in (None, "0.25"):
            mechanism = session.mechanism("1.5", values)
            found |= claims_of(f"{label} {values}", [repr(mechanism), *mechanism.scales], words=True)
            found |= claims_of(f"{label} {values} said", figures(session.explain("1.5", values_epsilon=values)))
            error = session.error("1.5", values_epsilon=values, questions=9, confidence="0.8")
            found |= claims_of(f"{label} {values} error", error)
        found |= claims_of(f"{label} price", session.price(30, questions=4, confidence="0.8"))
    record(f"sessions {world}", found)


COMPARED = (
    "SELECT COUNT(*) FROM visits",
    "SELECT SUM(cost) FROM visits WHERE age > 2",
    "SELECT COUNT(DISTINCT who) FROM visits",
    "SELECT COUNT(*) + 1 FROM visits",
    "SELECT AVG(cost) FROM visits",
    "SELECT sex, COUNT(*) FROM visits GROUP BY sex",
    "SELECT COUNT(*), SUM(cost) FROM visits",
    "SELECT COUNT(*) FROM visits HAVING COUNT(*) > 1",
    "SELECT COUNT(*) FROM visits LIMIT 1",
    "SELECT MAX(n) FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex)",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM visits)",
    "SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM visits)",
    "SELECT MEDIAN(age) FROM visits",
    "SELECT COUNT(*) FILTER (WHERE smokes) FROM visits",
)


@pytest.mark.parametrize("world", BOTH)
def test_questions_of_a_session(clinics: dict[str, sf.Curator], world: str) -> None:
    here, found = clinics[world], {}
    for sensitivity in (1, 5, 30, "0.3"):
        session = here.above(10, sensitivity=sensitivity)
        for text in COMPARED:
            found |= claims_of(f"{sensitivity} {text}", outcome(lambda: session.parse_question(text).text), words=True)
    for text in COMPARED:
        asked = outcome(lambda: here.sql(text))
        if isinstance(asked, tuple):
            found |= claims_of(text, asked)
            continue
        total = outcome(lambda: sessions.compared_total(asked, Fraction(1, 4)))
        said = total if isinstance(total, tuple) else total.bounded.measures[0].sensitivity
        found |= claims_of(f"{text} moved", said)
    record(f"compared {world}", found)


@pytest.mark.parametrize("world", BOTH)
def test_scores(clinics: dict[str, sf.Curator], world: str) -> None:
    here, found = clinics[world], {}
    candidate = table(60).select(["sex", "age", "smokes"])
    for label, terms in {
        "mean": {},
        "worst": {"worst": True},
        "public": {"total": 90},
        "where": {"where": "age > 2"},
    }.items():
        asked = here.score(candidate, "visits", k=2, columns=["sex", "age", "smokes"], **terms)
        goals = (200,) if label == "mean" else ()
        found |= {f"{label} {key}": each for key, each in free(asked, goals).items()}
        found |= claims_of(f"{label} rows", asked.error(epsilon=1, rows=500))
        for kind in ("pure", "approximate", "concentrated"):
            draw = asked._strategy_at(Price(**PRICES[kind]))
            said = [repr(draw.noise), repr(draw.rows_noise), draw.view.grid, draw.view.total, draw.unit_value]
            found |= claims_of(f"{label} {kind} noise", said, words=True)
            found |= claims_of(f"{label} {kind} leak", draw.batch.curve.epsilon("1e-7"))
            found |= claims_of(f"{label} {kind} stored", dict(draw.accuracy_for_reuse))
    small = here.score(candidate, "visits", k=2, columns=["sex", "age", "smokes"])
    for epsilon in ("1e-8", "1e-11", "1e-12", "1e-14"):
        found |= claims_of(f"tiny {epsilon}", outcome(lambda: small.error(epsilon=epsilon)))
    record(f"scores {world}", found)


RUNNING = (
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day",
    "SELECT sex, day, SUM(cost) AS s FROM visits GROUP BY sex, day",
    "SELECT age, COUNT(cost) AS n, town FROM visits GROUP BY town, age",
    "SELECT day, AVG(cost) AS a FROM visits GROUP BY day",
    "SELECT day, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY day",
    "SELECT day, COUNT(*) + 1 AS n FROM visits GROUP BY day",
    "SELECT COUNT(*) AS n FROM visits GROUP BY day",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day HAVING COUNT(*) > 2",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day LIMIT 2",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY n",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY day DESC",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY day",
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex",
    "SELECT day, note, COUNT(*) AS n FROM visits GROUP BY day, note",
    "SELECT day, COUNT(*) AS n FROM visits GROUP BY ROLLUP (day)",
    "SELECT day, COUNT(*) AS n FROM visits WHERE day > DATE '2024-02-01' GROUP BY day",
    "SELECT day, DATE_TRUNC('week', day) AS w, COUNT(*) AS n FROM visits GROUP BY day, w",
    "SELECT town FROM visits",
)


@pytest.mark.parametrize("world", BOTH)
def test_running_totals(clinics: dict[str, sf.Curator], world: str) -> None:
    here, found = clinics[world], {}
    for turn, text in enumerate(RUNNING):
        asked = outcome(lambda: here.running(text))
        if isinstance(asked, tuple):
            found |= claims_of(text, asked)
            continue
        found |= claims_of(text, [asked.period, len(asked.periods), len(asked.series)])
        if turn < 2:
            found |= {f"{text} {key}": each for key, each in free(asked, (60,), joint=turn == 0).items()}
            for noise in (sf.Laplace, sf.Gaussian):
                for kind in ("pure", "approximate", "concentrated"):
                    said = outcome(lambda: asked.error(**PRICES[kind], mechanism=noise))
                    found |= claims_of(f"{text} {noise.__name__} {kind}", figures(repr(said)))
            found |= claims_of(f"{text} half", outcome(lambda: asked.price("0.5")))
            found |= claims_of(f"{text} limited", figures(outcome(lambda: asked.limit(rows=1).explain(epsilon=1))))
    record(f"running {world}", found)


@pytest.mark.parametrize("world", BOTH)
def test_workloads(clinics: dict[str, sf.Curator], world: str) -> None:
    here, found = clinics[world], {}
    texts = {
        "all": "SELECT COUNT(*) AS n FROM visits",
        "old": "SELECT COUNT(*) AS n FROM visits WHERE age > 5",
        "twice": "SELECT COUNT(*) * 2 AS m FROM visits",
        "sums": "SELECT sex, SUM(cost) AS s, COUNT(*) AS n FROM visits GROUP BY sex",
    }
    asked = here.workload(texts)
    found |= {"measured": len(asked.measured_questions)} | claims_of("asked", free(asked))
    for label, terms in {
        "weighed": {"epsilon": 1, "weights": {"old": 3, "twice": 2}},
        "unknown weight": {"epsilon": 1, "weights": {"new": 3}},
        "within": {"within": {"all": {"n": 20}, "old": {"n": 30}, "sums": {"s": 300}}},
        "within all": {"within": 25},
        "missing": {"within": {"all": {"n": 20}}},
        "both": {"within": 5, "epsilon": 1},
        "laplace": {"epsilon": 1, "delta": "1e-7", "mechanism": sf.Laplace},
        "gaussian": {"epsilon": 1, "delta": "1e-7", "mechanism": sf.Gaussian},
    }.items():
        found |= claims_of(label, figures(repr(outcome(lambda: asked.error(**terms)))))
        found |= claims_of(f"{label} explained", figures(outcome(lambda: asked.explain(**terms))))
    for delta in (0, "1e-7"):
        found |= claims_of(f"price {delta}", outcome(lambda: asked.price(25, delta=delta)))
    notes = here.workload(["SELECT note, COUNT(*) FROM visits GROUP BY note"])
    found |= claims_of("found", figures(outcome(lambda: notes.error(epsilon=1))))
    found |= claims_of("free", outcome(lambda: here.workload(["SELECT DISTINCT town FROM visits"]).error(epsilon=1)))
    found |= claims_of("empty", outcome(lambda: here.workload([])))
    record(f"workloads {world}", found)


def test_requests_that_are_refused(clinics: dict[str, sf.Curator]) -> None:
    here, rows = clinics["people"], clinics["rows"]
    candidate = table(5).select(["sex", "age"])
    coded = ["sex", "age", "smokes", "town", "other"]
    tried: list[Any] = [
        lambda: here.marginals("visits", 0),
        lambda: here.marginals("visits", 6),
        lambda: len(here.marginals("visits", 5).sets),
        lambda: here.marginals("visits", 2, columns=["sex"]),
        lambda: here.marginals("visits", 1, columns=["sex", "Sex"]),
        lambda: here.marginals("visits", 1, columns=[]),
        lambda: here.marginals("visits", 1, columns="sex"),
        lambda: here.marginals("visits", 1, columns=[5]),
        lambda: here.marginals("visits", [["sex"]], columns=["sex"]),
        lambda: here.marginals("visits", "sex"),
        lambda: here.marginals("visits", []),
        lambda: here.marginals("visits", [["sex", "age"], ["age", "sex"]]),
        lambda: here.marginals("visits", [["sex", "age"], ["age"]]).workload.sets,
        lambda: here.marginals("visits", [["town", "sex"], ["age"]]).workload.sets,
        lambda: here.marginals("visits", [["sex", "sex"]]),
        lambda: here.marginals("visits", [["cost"]]),
        lambda: here.marginals("visits", [["who"]]),
        lambda: here.marginals("visits", 1, objective="best"),
        lambda: here.marginals("visits", 1, columns=["sex", "age"], weights=[1]),
        lambda: here.marginals("visits", 1, columns=["sex", "age"], weights=[1, 0]),
        lambda: here.marginals("visits", 1, columns=["sex", "age"], weights=[1, 2]).workload.weights,
        lambda: here.marginals("visits", 1, columns=["sex", "age"], weights={"age": 3}).workload.weights,
        lambda: here.marginals("visits", 1, columns=["sex", "age"], weights={"town": 3}),
        lambda: here.marginals("visits", 1, columns=["sex"], rows=2).limits.rows,
        lambda: here.marginals("visits", 1, columns=["sex"], rows=4),
        lambda: rows.marginals("visits", 1, columns=["sex"], rows=1),
        lambda: here.mwem("visits", ["sex"]),
        lambda: here.mwem("visits", ["sex"], 1, queries=[{"sex": "f"}]),
        lambda: here.mwem("visits", ["sex"], 2),
        lambda: here.mwem("visits", ["sex"], 0),
        lambda: here.mwem("visits", ["sex"], 1, rounds=0),
        lambda: here.mwem("visits", ["sex"], 1, rounds=mwem._MAX_ROUNDS).rounds,
        lambda: here.mwem("visits", ["sex"], 1, rounds=mwem._MAX_ROUNDS + 1),
        lambda: here.mwem("visits", ["sex"], 1, textbook=1),
        lambda: here.mwem("visits", ["sex"], queries=[]),
        lambda: here.mwem("visits", ["sex"], queries=[{}]),
        lambda: here.mwem("visits", ["sex"], queries=[{"age": 1}]),
        lambda: here.mwem("visits", ["sex"], queries=[{"sex": "x"}]),
        lambda: here.mwem("visits", ["sex"], queries=[{"sex": []}]),
        lambda: here.mwem("visits", ["sex"], queries=[{"sex": "f"}, {"SEX": ["f"]}]),
        lambda: here.mwem("visits", ["sex", "age"], [["sex"], ["age", "sex"]]).workload,
        lambda: here.mwem("visits", ["sex", "age"], [["sex", "age"], ["age", "sex"]]),
        lambda: here.mwem("visits", ["sex", "age"], [["sex", "sex"]]),
        lambda: here.mwem("visits", ["sex", "age"], ["sex"]),
        lambda: here.mwem("visits", ["sex", "age"], []),
        lambda: here.mwem("visits", ["sex"], 1).error(epsilon="1e-9"),
        lambda: here.online("visits", ["sex"], 1, 0),
        lambda: here.online("visits", ["sex"], 1, 2, textbook=1),  # type: ignore[arg-type]
        lambda: here.online("visits", ["sex"], 2, 2),
        lambda: here.above(10, 0),
        lambda: here.above(10, 1, sensitivity=0),
        lambda: here.above(10, 1, sensitivity=2, tables=["visits"]),
        lambda: here.above(10, 1, tables=["other"]),
        lambda: here.above(10, 1, tables="visits").sensitivity,
        lambda: here.above(10, 1, questions=[]),
        lambda: here.above(10, 1, questions=["SELECT AVG(cost) FROM visits"]),
        lambda: here.above(10).mechanism(1, 1),
        lambda: here.above(10).mechanism(1, "0.999").values_epsilon,
        lambda: here.score(candidate, "visits", k=3, columns=["sex", "age"]),
        lambda: here.score(candidate, "visits", k=0, columns=["sex", "age"]),
        lambda: here.score(candidate, "visits", k=2, columns=["sex", "age"], total=0),
        lambda: here.score(candidate, "visits", k=2, columns=["sex", "age"], worst=1),
        lambda: here.score(candidate.slice(0, 0), "visits", k=2, columns=["sex", "age"]),
        lambda: len(here.score(candidate, k=1, columns=["sex", "age"]).sets),
        lambda: here.bounds("visits", "sex"),
        lambda: here.bounds("visits", "who"),
        lambda: here.bounds("visits", "none"),
        lambda: here.bounds("none", "cost"),
        lambda: here.bounds("visits", "day"),
        lambda: here.bounds("visits", "cost", cover=1),
        lambda: here.limits("visits", share=1),
        lambda: here.limits("visits", by=["sex", "sex"]),
        lambda: here.limits("visits", by="who"),
        lambda: rows.limits("visits"),
        lambda: here.degrees("visits", "town"),
        lambda: rows.degrees("visits", []),
        lambda: rows.degrees("visits", ["town", "town"]),
        lambda: rows.degrees("visits", ["town", "other", "sex"]),
        lambda: rows.degrees("visits", "note"),
        lambda: rows.degrees("visits", "town", 0),
        lambda: rows.degrees("visits", "town", 2).max_degree,
        lambda: rows.degrees("visits", "town").max_degree,
        lambda: rows.degrees("visits", "town", 10**7),
        lambda: here.auction("visits", "sex", prices=[1]),
        lambda: here.auction(prices=[1]),
        lambda: here.auction("visits", "cost", prices=[]),
        lambda: here.auction("visits", "cost", prices=[0]),
        lambda: here.auction("visits", "cost", prices=[2, 1, 1]).prices,
        lambda: here.histogram("visits", []),
        lambda: here.histogram("visits", "sex"),
        lambda: here.workload({"a": 5}),
        lambda: here.running(5),
        lambda: here.sql("SELECT COUNT(*) AS n FROM visits").price({"m": 1}),
        lambda: here.sql("SELECT COUNT(*) AS n FROM visits").error(epsilon=1, rho=1),
        lambda: here.sql("SELECT COUNT(*) AS n FROM visits").release(free=True, fresh=True),
        lambda: here.sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note").release(free=True),
        lambda: here.sql("SELECT COUNT(*) AS n FROM visits").explain(epsilon=1, weights={"x": 1}),
        lambda: len(coded),
    ]
    found: dict[str, Claim] = {}
    for number, run in enumerate(tried):
        found |= claims_of(f"{number:03}", outcome(lambda: said(run())), words=False)
    record("refused", found)


def said(made: Any) -> Any:
    return made if isinstance(made, (int, float, Fraction, tuple, str)) else type(made).__name__


def test_prices_in_rho() -> None:
    found: dict[str, Claim] = {}
    for price in (Price(1, "1e-7"), Price("0.1", "1e-9"), Price(8, "1e-5"), Price(rho="0.3")):
        found |= claims_of(f"rho {price}", marginals.price_in_rho(price))
    for price in (Price(1), Price(1, "1e-7"), Price(rho="0.3")):
        for family in (None, Laplace, Gaussian):
            paid = str(outcome(lambda: marginals._price_for_noise_family(price, family)))
            found |= claims_of(f"paid {price} {family}", paid, words=True)
    for value in (Fraction(2), Fraction(1, 3), Fraction(10**20, 7), Fraction(4)):
        found |= {
            f"above {value}": str(mwem._square_root_rounded_up(value)),
            f"below {value}": str(online._square_root_rounded_down(value)),
        }
    changes = {"one": Sensitivity(1, 1), "three": Sensitivity(2, 3, 5, 11)}
    changes["replaced"] = Sensitivity(1, 2, neighbours="replace")
    for name, moved in changes.items():
        for gaussian in (False, True):
            found |= {f"size {name} {gaussian}": str(scores._calibrated_noise_size(moved, Fraction(2, 7), gaussian))}
            found |= {f"noise {name} {gaussian}": repr(scores._calibrated_noise(moved, Fraction(2, 7), gaussian))}
    for size in (Fraction(10**12), Fraction(10**12) + 1, Fraction(1, 10**12)):
        for family in (Laplace, Gaussian):
            made = repr(outcome(lambda: _mechanism_of_size(family, size, Price(1))))
            found |= claims_of(f"made {size} {family.__name__}", made, words=True)
    record("prices", found)


def test_sets_of_columns() -> None:
    found: dict[str, Claim] = {}
    names = ["a", "b", "c", "d"]
    for ways in (0, 1, 2, 4, 5, [["a"], ["B", "a"]], [["a", "a"]], [["x"]], [["a"], ["A"]], [], "ab", [[]], None):
        found |= claims_of(f"sets {ways}", outcome(lambda: mwem.parse_column_sets(ways, names)))
    sizes = [2, 3, 4, 5]
    for ways in (1, 2, 3, 4, 9, [["a", "b"]], [["c", "d"], ["a"]]):
        for most in (0, 4, 6, 7, 100):
            made = outcome(lambda: mwem.fitting_sets_and_dropped_count(ways, names, sizes, most))
            found |= claims_of(f"workload {ways} {most}", made)
    many = [f"c{index}" for index in range(108)]
    for ways, count in ((3, 108), (3, 107), (106, 108)):
        made = outcome(lambda: len(mwem.fitting_sets_and_dropped_count(ways, many[:count], [2] * count, 1 << 40)[0]))
        found |= claims_of(f"many {ways} {count}", made)
    big = outcome(lambda: mwem.fitting_sets_and_dropped_count([["a", "b"]], ["a", "b"], [1000, 1000], 5))
    found |= claims_of("big", big)
    weights: dict[Any, Any] = {"a": 3, ("a", "b"): 2, ("c",): 5, "d": Fraction(1, 2)}
    for places in ((0,), (0, 1), (2,), (0, 1, 3), (3,)):
        found |= claims_of(f"weight {places}", mwem.product_weight_of_set(places, names, weights))
    for given in ({}, {"a": 0}, {"x": 1}, {("a", "b"): 1}, {("a", "c"): 1}, 5):
        made = outcome(lambda: mwem.require_valid_weights(given, names, [(0, 1), (2,)]))
        found |= claims_of(f"checked {given}", made)
    for cells in (10**5, 10**5 + 1, 10**6 + 1, 10**7):
        made = outcome(lambda: synthesis.refuse_too_many_cells(["a", "b"], [3, cells]))
        found |= claims_of(f"columns {cells}", made)
    for memory in (1, 0, -1, "1 GiB", "1.5 MiB", "2kb", "3 B", "0 B", "x", None, True, "0.1 B"):
        found |= claims_of(f"memory {memory}", outcome(lambda: synthesis.parse_memory(memory)))
    few = ((1, [2, 3]), (2, [2, 3]), (3, [2, 3]))
    for k, own in (*few, (2, [3163, 3163, 2]), (2, [3162, 3162, 2]), (3, [2] * 106), (3, [2] * 107)):
        found |= claims_of(f"score {k} {own[:3]} {len(own)}", outcome(lambda: scores._refuse_too_many_sets(k, own)))
    for source in ("visits", "SELECT 1", " with x AS (SELECT 1) SELECT 2", "select", "selected things", "VISITS "):
        found |= {f"select {source}": is_select_text(source)}
    sex = Attribute("sex", "text", (ListedCell("f"), ListedCell("m"), OtherCell()))
    for cells in ("f", ["m", "f"], None, [None, "m", "m"], "x", [], [["f"]]):
        found |= claims_of(f"cells {cells}", outcome(lambda: mwem._parse_cell_indices(cells, sex)))
    for query in ({"sex": "f"}, {"a": None, "sex": ["f", None]}, {"b": 1}, {"sex": "f", "SEX": "m"}):
        found |= claims_of(
            f"query {query}", outcome(lambda: mwem._parse_query_columns_and_cells(query, (sex, attribute(3))))
        )
    record("sets", found)


def test_ranges_of_bought_synopses() -> None:
    found: dict[str, Claim] = {}
    widths = {"one": {"a": 1.0, "b": 2.0}, "same": {"a": 1.0, "b": 2.0}, "less": {"a": 1.0, "b": 1.5}}
    widths |= {"other": {"c": 0.1}, "mixed": {"a": 0.5, "b": 9.0}, "part": {"a": 0.9}}
    for one, own in widths.items():
        for other, given in widths.items():
            found |= {f"{one} {other}": _is_less_noisy(own, given)}
    for ranges in ([], [None], [(1.0, 4.0), None, (0.0, 9.0)], [(-1.0, 1.0)]):
        found |= claims_of(f"width {ranges}", _max_half_width(ranges))
    answer: Any = None
    known = FreeAnswer(answer, {"n": 5.0, "m": 7.0})
    for goals in ({}, {"n": 5}, {"n": 4, "m": 7}, {"m": 6.9}):
        found |= claims_of(f"misses {goals}", known.columns_wider_than(goals))
    prices = (Fraction(1), Fraction(5), Fraction(10))
    bid = Column(Field(0, "visits", "cost"), Domain("real", bounds=(0, 20)))
    found |= claims_of(
        "reaching", str(table_auctions._count_of_reached_prices_expression(bid, prices, 0, 3)).count("cost")
    )
    record("ranges", found)


@pytest.mark.parametrize("world", BOTH)
def test_steps_of_weights_at_small_prices(clinics: dict[str, sf.Curator], world: str) -> None:
    here, found = clinics[world], {}
    model = here.synthesize("visits", columns=["sex", "age"], ways=2)
    counts = here.marginals("visits", 2, columns=["sex", "age"])
    fitted = here.mwem("visits", ["sex", "age"], 2, rounds=3)
    found |= claims_of("uncut", counts._unclipped_bits(counts._base_plan(False)))
    for power in range(12):
        price = Price(rho=Fraction(1, 10**power))
        found |= claims_of(f"synthesis {power}", outcome(lambda: model.setting(price).unit_value))
        found |= claims_of(f"marginals {power}", outcome(lambda: counts._strategy_at(price, None).plan.unit_value))
        found |= claims_of(f"mwem {power}", outcome(lambda: fitted._weight_bits(price)))
        pure = Price(Fraction(1, 10**power))
        found |= claims_of(f"pure synthesis {power}", outcome(lambda: model.setting(pure).unit_value))
        found |= claims_of(f"pure marginals {power}", outcome(lambda: counts._strategy_at(pure, None).plan.unit_value))
        found |= claims_of(f"pure mwem {power}", outcome(lambda: fitted._weight_bits(pure)))
    record(f"steps {world}", found)


def test_a_column_may_be_called_as_the_number_of_a_row_is(tmp_path: Path) -> None:
    own = pa.table({"who": [1, 1, 2], "number_0": ["a", "b", "a"]})
    named = sf.Table("visits", own, {"number_0": {"values": ["a", "b"]}}, id="who", max_rows=2)
    policy = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(9), {"visits": named}, size=2)
    with sf.Curator(policy, tmp_path / "l.ledger") as here:
        asked = here.synthesize("visits", ways=1, one_row_per="unit", order="number_0 DESC")
        record("numbered", claims_of("explained", figures(asked.explain(epsilon=1))))


def test_bought_synopses_answer_for_nothing(tmp_path: Path) -> None:
    """Several synopses are bought; questions take the best, and say how wide it is."""
    texts = (
        "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex",
        "SELECT COUNT(*) AS n FROM visits WHERE sex = 'f' AND smokes",
        "SELECT COUNT(*) AS n FROM visits WHERE sex = 'f' AND town = 'a'",
        "SELECT COUNT(*) AS n FROM visits WHERE age > 5",
        "SELECT AVG(CASE WHEN smokes THEN 1 ELSE 0 END) AS a FROM visits",
        "SELECT COUNT(*) AS n FROM visits WHERE cost > 5",
    )
    found: dict[str, Claim] = {}
    with clinic(tmp_path, "people", "bought") as here:
        here.marginals("visits", 2, columns=["sex", "smokes"]).release(rho="0.5")
        here.marginals("visits", 1, columns=["sex", "town", "age"]).release(rho=1)
        here.marginals("visits", 1, columns=["sex", "town", "age"]).release(rho=2, fresh=True)
        here.marginals("visits", 1, columns=["sex"], where="age > 2").release(rho=2)
        for text in texts:
            asked = here.sql(text)
            for terms in ({}, {"confidence": "0.8"}, {"within": 9}, {"within": 30}, {"joint": True}):
                made = outcome(lambda: asked.release(free=True, **terms))
                facts = made if isinstance(made, tuple) else [made.rows, made.intervals, figures(made.warnings)]
                found |= claims_of(f"{text} {sorted(terms.items())}", facts)
            found |= claims_of(f"{text} explained", figures(outcome(lambda: asked.explain(epsilon=1))))
    record("bought", found)


ASKED = {
    "count": "SELECT COUNT(*) AS n FROM visits",
    "two": "SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits",
    "rounded": "SELECT SUM(age * 1000000000000) AS n FROM visits",
    "grouped": "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY sex",
    "found": "SELECT note, COUNT(*) AS n FROM visits GROUP BY note",
    "found two": "SELECT note, sex, COUNT(*) AS n FROM visits GROUP BY note, sex",
    "median": "SELECT MEDIAN(age) AS m FROM visits",
    "distinct": "SELECT COUNT(DISTINCT town) AS n FROM visits",
    "mode": "SELECT MODE(town) AS n FROM visits",
    "outer": "SELECT MAX(n) AS m FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex)",
    "rollup": "SELECT sex, town, COUNT(*) AS n FROM visits GROUP BY ROLLUP (sex, town)",
    "rollup of found": "SELECT note, COUNT(*) AS n FROM visits GROUP BY ROLLUP (note)",
    "window": "SELECT sex, SUM(COUNT(*)) OVER () AS n, COUNT(*) * 2 AS k FROM visits GROUP BY sex",
    "limited": "SELECT town, COUNT(*) AS n FROM visits WHERE sex = 'f' GROUP BY town ORDER BY n DESC LIMIT 2",
}


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("world", BOTH)
def test_what_a_question_measures(clinics: dict[str, sf.Curator], world: str, kind: str) -> None:
    asked = clinics[world].sql(ASKED[kind])
    said: dict[str, Any] = {"alone": error_cache_key(asked) is None, "found": asked.discovered_keys, "free": asked.free}
    said |= {"groups": asked.groups, "most": outcome(lambda: asked._max_groups), "whole": asked.integer_columns}
    said |= {"columns": [(each.name, each.type.value) for each in asked.columns], "warnings": figures(asked.warnings)}
    for name, member in (("options", "bounding_options"), ("others", "other_parts")):
        made = outcome(lambda: getattr(asked, member))
        said[name] = made if made and isinstance(made[0], str) else [bounding(each) for each in made]
    said |= {
        f"ranges {joint}": outcome(lambda: count_jointly_held_ranges(asked.query, lambda: asked._max_groups, joint))
        for joint in (False, True)
    }
    for weights in ({}, {"n": 3}, {"m": 2, "n": 1}, {"n": 0}):
        said[f"weights {weights}"] = outcome(
            lambda: PriceRequest(weights=weights).result_weights(asked.query.finish, len(asked.shared_parts.requests))
        )
    for delta in (0, "1e-7"):
        said[f"delta {delta}"] = outcome(lambda: figures(repr(asked.error(epsilon=2, delta=delta))))
    for terms in ({"rows": 1}, {"groups": 1}, {"rows": 9}, {"strategy": "clip"}, {"strategy": "none"}):
        limited = outcome(lambda: asked.limit(**terms))
        shown = (
            limited
            if isinstance(limited, tuple)
            else outcome(lambda: [bounding(each) for each in limited.bounding_options])
        )
        said[f"limited {terms}"] = shown
    record(f"asked {kind} {world}", claims_of("said", said))


def bounding(found: Any) -> Any:
    bounded = getattr(found, "bounded", found)
    return bounded.strategy.value, [(one.sensitivity, one.unit_value) for one in bounded.measures]
