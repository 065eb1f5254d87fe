"""Proposals on record: what each says before it is bought, what it releases under keyed noise, and what it charges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from claims.clinics import answer_facts, clinic, receipt_facts, spent_facts, table
from claims.flattening import claims_of, figures, outcome
from claims.recorded import Claim, check_claims

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
PRICES: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": "1.5"},
    "approximate": {"epsilon": 1, "delta": "1e-7"},
    "concentrated": {"rho": "0.2"},
}
KINDS = ("pure", "concentrated")
TWO = ("people", pytest.param("rows", marks=pytest.mark.long))
two_worlds = pytest.mark.parametrize("world", TWO)


def record(name: str, found: dict[str, Claim]) -> None:
    check_claims(f"proposals/{name.replace(' ', '_')}", found)


def forecasts(asked: Any, goals: Sequence[Any] = (), kinds: Sequence[str] = KINDS) -> dict[str, Claim]:
    """What a proposal says for nothing at some kinds of price."""
    found: dict[str, Claim] = {}
    for kind in kinds:
        said = outcome(lambda: asked.explain(**PRICES[kind], confidence="0.9"))
        found |= claims_of(f"explain {kind}", figures(said))
        found |= claims_of(f"error {kind}", shown_error(outcome(lambda: asked.error(**PRICES[kind], confidence="0.9"))))
    for goal in goals:
        found |= claims_of(f"price {goal}", outcome(lambda: asked.price(goal)))
    return found


def shown_error(said: Any) -> Any:
    return said if isinstance(said, (int, float, tuple)) else figures(repr(said))


def bought(curator: sf.Curator, label: str, run: Callable[[], Any], facts: Callable[[Any], Any]) -> dict[str, Claim]:
    """What a release gives and charges, or how it is refused."""
    before = curator.ledger.head[0]
    made = outcome(run)
    said = made if isinstance(made, tuple) else facts(made)
    return claims_of(label, {"said": said, "charged": spent_facts(curator, before)}, words=False)


QUESTIONS = {
    "count": "SELECT COUNT(*) AS n FROM visits",
    "grouped": "SELECT sex, COUNT(*) AS n, SUM(cost) AS s, AVG(age) AS a FROM visits GROUP BY sex",
    "filtered": "SELECT town, COUNT(*) FILTER (WHERE age > 4) AS n FROM visits WHERE smokes GROUP BY town ORDER BY n",
    "people": "SELECT COUNT(DISTINCT who) AS n FROM visits",
    "median": "SELECT smokes, MEDIAN(age) AS m, MAX(cost) AS x FROM visits GROUP BY smokes",
    "spread": "SELECT VAR_POP(cost) AS v, STDDEV_SAMP(age) AS d FROM visits",
    "found": "SELECT note, COUNT(*) AS n FROM visits GROUP BY note",
    "ratio": "SELECT SUM(cost) / COUNT(*) AS r, 2 * COUNT(*) + 1 AS k FROM visits HAVING COUNT(*) > 3",
    "values": "SELECT DISTINCT town FROM visits",
    "rollup": "SELECT sex, town, COUNT(*) AS n FROM visits GROUP BY ROLLUP (sex, town) LIMIT 7",
}


_MORE = ("filtered", "median", "spread", "ratio", "rollup")
"""Of such questions test_questions.py has releases on record, too."""


@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=[pytest.mark.long] if each in _MORE else []) for each in QUESTIONS]
)
def test_questions(tmp_path: Path, kind: str) -> None:
    with clinic(tmp_path, "people", kind) as here:
        asked = here.sql(QUESTIONS[kind])
        found: dict[str, Claim] = {"free": asked.free} | forecasts(asked, ({"n": 9},))
        found |= bought(here, "pure", lambda: asked.release(**PRICES["pure"]), answer_facts)
        found |= bought(here, "again", lambda: asked.release(epsilon="0.5"), answer_facts)
        if kind == "found":
            found |= bought(here, "approximate", lambda: asked.release(**PRICES["approximate"]), answer_facts)
    record(f"question {kind}", found)


@two_worlds
def test_questions_in_both_worlds(tmp_path: Path, world: str) -> None:
    with clinic(tmp_path, world, "questions") as here:
        asked = here.sql("SELECT sex, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY sex")
        found = forecasts(asked, ({"n": 9, "s": 40},))
        found |= bought(here, "weighed", lambda: asked.release(epsilon=1, weights={"n": 3}), answer_facts)
        found |= bought(here, "concentrated", lambda: asked.release(rho="0.1", fresh=True), answer_facts)
        found |= bought(here, "within", lambda: asked.release(within={"n": 20}, joint=True), answer_facts)
        found |= bought(here, "sampled", lambda: asked.release(epsilon=2, sample_of=500), answer_facts)
        found |= claims_of("limited", figures(outcome(lambda: asked.limit(rows=1, groups=1).explain(epsilon=1))))
        found |= claims_of("advice", figures(outcome(lambda: asked.advise(epsilon=1))))
        found |= claims_of("free", outcome(lambda: asked.release(free=True)))
        priced_and_free = outcome(lambda: asked.release(free=True, epsilon=1))
        found |= claims_of("free at a price", priced_and_free)
    record(f"questions {world}", found)


def every_answer(got: Any) -> list[dict[str, Any]]:
    return [answer_facts(each) for each in got]


@two_worlds
def test_workloads(tmp_path: Path, world: str) -> None:
    named = {name: QUESTIONS[name] for name in ("count", "filtered", "ratio", "median")}
    with clinic(tmp_path, world, "workload") as here:
        asked = here.workload(named)
        found: dict[str, Claim] = {"measured": tuple(asked.measured_questions)} | forecasts(asked)
        goals = {"count": {"n": 15}, "filtered": {"n": 20}}
        found |= claims_of("price", outcome(lambda: asked.price(goals)))
        for name in ("pure", "concentrated"):
            price = PRICES[name]
            found |= bought(here, name, lambda: asked.release(**price), every_answer)
        found |= bought(here, "again", lambda: asked.release(epsilon="0.5"), every_answer)
    record(f"workload {world}", found)


@two_worlds
def test_running_totals(tmp_path: Path, world: str) -> None:
    questions = {
        "count": "SELECT day, COUNT(*) AS n FROM visits GROUP BY day",
        "sum": "SELECT sex, day, SUM(cost) AS s FROM visits GROUP BY sex, day",
    }
    found: dict[str, Claim] = {}
    for kind, text in questions.items():
        with clinic(tmp_path / kind if (tmp_path / kind).mkdir() is None else tmp_path, world, kind) as here:
            asked = here.running(text)
            found |= {f"{kind} {key}": each for key, each in forecasts(asked, (30,)).items()}
            for name in ("pure", "concentrated"):
                price = PRICES[name]
                found |= bought(here, f"{kind} {name}", lambda: asked.release(**price), answer_facts)
            found |= bought(here, f"{kind} joint", lambda: asked.release(epsilon=1, joint=True), answer_facts)
    record(f"running {world}", found)


def synopsis_facts(got: Any) -> dict[str, Any]:
    names = [each.name for each in got.attributes]
    marginals = {name: answer_facts(got.marginal([name], consistent=False)) for name in names}
    plan = got.plan
    noise: list[Any] = [(each.block, each.deviation, each.grid) for each in plan.blocks]
    noise += [(each.attribute_set, each.scale) for each in plan.marginals]
    return {"marginals": marginals, "noise": noise, "unit": plan.unit_value, "holds": got.verify().holds}


@two_worlds
def test_marginals(tmp_path: Path, world: str) -> None:
    with clinic(tmp_path, world, "marginals") as here:
        asked = here.marginals("visits", 2, columns=["sex", "age", "smokes"])
        found = forecasts(asked, (12,))
        for name, price in PRICES.items() if world == "people" else [("concentrated", PRICES["concentrated"])]:
            found |= bought(here, name, lambda: asked.release(**price, fresh=True), synopsis_facts)
        others = {
            "worst": here.marginals("visits", [["sex", "age"], ["smokes"]], objective="worst"),
            "weighed": here.marginals("visits", [["sex", "age"], ["smokes"]], weights=[3, 1]),
            "where": here.marginals("visits", 1, columns=["sex", "town"], where="age > 3"),
            "histogram": here.histogram("visits", ["town"]),
        }
        for label, other in others.items():
            for name in ("pure", "concentrated"):
                said = outcome(lambda: other.error(**PRICES[name], joint=True))
                found |= claims_of(f"{label} {name}", figures(repr(said)))
                found |= claims_of(f"{label} {name} explained", figures(outcome(lambda: other.explain(**PRICES[name]))))
            found |= claims_of(f"{label} price", outcome(lambda: other.price(9, joint=True)))
        found |= bought(here, "where", lambda: others["where"].release(rho=1), synopsis_facts)
    record(f"marginals {world}", found)


@two_worlds
def test_mwem(tmp_path: Path, world: str) -> None:
    with clinic(tmp_path, world, "mwem") as here:
        asked = here.mwem("visits", ["sex", "age", "smokes"], 2, rounds=3)
        book = here.mwem("visits", ["sex", "smokes"], 2, rounds=2, textbook=True)
        found = forecasts(asked, (12,))
        for label, own in (("plain", asked), ("textbook", book)):
            for name, price in PRICES.items():
                if name != "approximate":
                    found |= bought(here, f"{label} {name}", lambda: own.release(**price), fitted_facts)
        found |= claims_of("explained", figures(book.explain(epsilon=1)))
    record(f"mwem {world}", found)


def fitted_facts(got: Any) -> dict[str, Any]:
    rounds = [(each.columns, each.cells, each.counts, figures(each.price)) for each in got.rounds]
    asked = outcome(lambda: answer_facts(got.sql("SELECT sex, COUNT(*) AS n FROM visits WHERE smokes GROUP BY sex")))
    counts = [row[-1] for row in got.marginal(["smokes", "sex"]).rows]
    return {"rounds": rounds, "total": got.total, "asked": asked, "counts": counts, **receipt_facts(got.receipt)}


ONLINE = (
    "SELECT COUNT(*) AS n FROM visits WHERE sex = 'f'",
    "SELECT sex, age, smokes, COUNT(*) AS n FROM visits GROUP BY sex, age, smokes",
    "SELECT COUNT(*) AS n FROM visits WHERE sex = 'f' AND age >= 5 AND smokes",
    "SELECT smokes, SUM(CASE WHEN sex = 'f' THEN 2 WHEN age < 3 THEN -1 ELSE 0.5 END) AS s FROM visits GROUP BY smokes",
    "SELECT AVG(CASE WHEN sex = 'f' AND age < 3 AND smokes THEN 3 ELSE 1 END) AS a, COUNT(*) AS n FROM visits",
    "SELECT SUM(age) AS s FROM visits WHERE smokes AND sex = 'm'",
)


@two_worlds
def test_online(tmp_path: Path, world: str) -> None:
    found: dict[str, Claim] = {}
    with clinic(tmp_path, world, "online") as here:
        for textbook in (False, True):
            asked = here.online("visits", ["sex", "age", "smokes"], 1, 3, textbook=textbook)
            found |= {f"{textbook} {key}": each for key, each in forecasts(asked, (), ("concentrated",)).items()}
            found |= bought(here, f"{textbook}", lambda: asked.release(rho=20), session_facts)
    record(f"online {world}", found)


def session_facts(got: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"left": got.remaining}
    for turn, question in enumerate(ONLINE):
        found[f"{turn}"] = outcome(lambda: answer_facts(got.sql(question, confidence="0.9")))
        found[f"{turn} left"] = got.remaining
    found["strict"] = outcome(lambda: answer_facts(got.sql(ONLINE[2], strict=True)))
    got.close()
    return found | {"after": outcome(lambda: answer_facts(got.sql(ONLINE[2]))), "closed": got.remaining}


@two_worlds
def test_sessions(tmp_path: Path, world: str) -> None:
    found: dict[str, Claim] = {}
    texts = [f"SELECT COUNT(*) FROM visits WHERE age > {age}" for age in (8, 5, 2, 1)]
    with clinic(tmp_path, world, "sessions") as here:
        for monotone, threshold in ((None, 40), (True, "30.5")):
            asked = outcome(lambda: here.above(threshold, 2, monotone=monotone))
            label = f"{monotone} {threshold}"
            if isinstance(asked, tuple):
                found |= claims_of(label, asked)
                continue
            for values in (None, "0.3"):
                own = f"{label} {values}"
                found |= claims_of(f"{own} explained", figures(asked.explain(1, values_epsilon=values)))
                found |= claims_of(f"{own} error", asked.error(1, values_epsilon=values, questions=7, confidence="0.9"))
                found |= claims_of(f"{own} scales", asked.mechanism(1, values).scales)
            found |= claims_of(f"{label} price", outcome(lambda: asked.price(20, questions=5)))
        asked = here.above(30, 2, questions=texts)
        found |= claims_of("asked", [asked.error(2), asked.price(9), figures(asked.explain(2))])
        facts = lambda got: {"answers": got.as_answer().rows, "ranges": got.as_answer().intervals}  # noqa: E731
        found |= bought(here, "plain", lambda: asked.release(2), facts)
        found |= bought(here, "valued", lambda: asked.release(3, values_epsilon=1), facts)
        found |= bought(here, "wide", lambda: here.above(30, 1, sensitivity=9).release(1).ask(texts[0]), repr)
        found |= bought(here, "narrow", lambda: here.above(30, 1, sensitivity="0.5").release(1).ask(texts[0]), repr)
        found |= claims_of("too much", outcome(lambda: here.above(30).mechanism(1, 1)))
    record(f"session {world}", found)


@two_worlds
def test_scores(tmp_path: Path, world: str) -> None:
    candidate = table(60).select(["sex", "age", "smokes"])
    with clinic(tmp_path, world, "scores") as here:
        found: dict[str, Claim] = {}
        for label, terms in {
            "mean": {},
            "worst": {"worst": True},
            "public": {"total": 90},
            "where": {"where": "age > 2"},
        }.items():
            asked = here.score(candidate, "visits", k=2, columns=["sex", "age", "smokes"], **terms)
            found |= {
                f"{label} {key}": each for key, each in forecasts(asked, (200,) if label == "mean" else ()).items()
            }
            for name, price in PRICES.items():
                if name == ("pure" if label != "mean" else "concentrated"):
                    found |= bought(here, f"{label} {name}", lambda: asked.release(**price), score_facts)
    record(f"score {world}", found)


def score_facts(got: Any) -> dict[str, Any]:
    return {
        "score": got.score,
        "variation": got.total_variation,
        "rows": got.rows,
        "ranges": (got.interval(), got.interval("0.8"), got.nist_interval(), got.nist_interval("0.8")),
        "drawn": (got.distance, got.total, got.grid, got.unit_value),
        "noise": (repr(got.noise), repr(got.rows_noise)),
        "said": figures(got),
    }


@two_worlds
def test_searches(tmp_path: Path, world: str) -> None:
    """Bounds, limits, degrees and auctions: what is priced by one ε."""
    found: dict[str, Claim] = {}
    with clinic(tmp_path, world, "searches") as here:
        searches = {
            "bounds": lambda: here.bounds("visits", "cost"),
            "ages": lambda: here.bounds("visits", "age", cover="0.9"),
            "limits": lambda: here.limits("visits"),
            "limits by": lambda: here.limits("visits", by=["sex"], share="0.8"),
            "degrees": lambda: here.degrees("visits", ["town", "other"]),
            "degrees of one": lambda: here.degrees("visits", "town", most=4),
            "auction": lambda: here.auction("visits", "cost", prices=[1, 5, 10, 15]),
        }
        for name, make in searches.items():
            asked = outcome(make)
            if isinstance(asked, tuple):
                found |= claims_of(name, asked)
                continue
            for epsilon in ("0.5", 2):
                found |= claims_of(f"{name} {epsilon} explained", figures(outcome(lambda: asked.explain(epsilon))))
                found |= claims_of(f"{name} {epsilon} error", outcome(lambda: asked.error(epsilon, confidence="0.9")))
            if name != "limits by":  # it tries every price on each group's ladder
                found |= claims_of(f"{name} price", outcome(lambda: asked.price(7)))
            found |= bought(here, name, lambda: asked.release(2), lambda got: figures(repr(got)))
            found |= bought(here, f"{name} again", lambda: asked.release(1), lambda got: figures(repr(got)))
        auction = searches["auction"]()
        found |= claims_of("counted", [auction.error(1, "0.5"), figures(auction.explain(1, "0.5"))])
        found |= bought(here, "counted", lambda: auction.release(1, "0.5"), lambda got: answer_facts(got.as_answer()))
    record(f"searches {world}", found)
