"""Lives of a ledger on record: after every step of a script, what its lines cost, and what is spent, held and left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from claims.accounts import account_facts, ledger_facts, line_facts
from claims.flattening import claims_of, outcome
from claims.recorded import Claim, check_claims
from ledger.small_accounts import PATIENT
from sfumato.ledger import Charged, Line, PeriodAccounts, StoredAnswer, Tab, entries, spending
from sfumato.ledger.accounts import joined_sources
from sfumato.ledger.accounts.joined_sources import JoinedSource
from sfumato.ledger.accounts.period_accounts import _max_totals
from sfumato.ledger.accounts.reservations import SettledAnswer, _min_epsilon, amended_budget, release_epsilon
from sfumato.ledger.spending import NO_COST, Spending, read_cost, read_totals, write_cost
from sfumato.ledger.transaction import Terms
from sfumato.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, PermuteAndFlip
from sfumato.privacy import Cost, Sensitivity
from sfumato.privacy.numbers import UNIT

BUDGETS: dict[str, sf.Budget] = {
    "pure": sf.Budget(1),
    "approximate": sf.Budget(2, "1e-6"),
    "reserved": sf.Budget(2, "1e-6", reserve="5e-7"),
    "order": sf.Budget(3, "1e-6", order=8),
    "replace": sf.Budget(2, "1e-6", neighbours="replace"),
    "without order": sf.Budget(1, "1e-6", reserve="1e-6"),
}
MONTH = sf.PrivacyUnit("patient", period="month", period_column="day")
SEEN = datetime(2024, 3, 1, tzinfo=UTC)


def entry(part: Any, **rest: Any) -> sf.Entry:
    return sf.Entry(part, **{"question": "how many", **rest})


def noises(relation: str) -> dict[str, Any]:
    moved = Sensitivity(1, 1).for_neighbours(relation, signed=False) if relation == "replace" else 1
    return {
        "laplace": Charged(Laplace(20), moved),
        "thrice": Charged(Laplace(Fraction(200, 3)), moved, 3),
        "gaussian": Charged(Gaussian(30), moved),
        "choice": Charged(Exponential("0.05", 1, neighbours=relation)),
        "flip": Charged(PermuteAndFlip("0.04", 1, neighbours=relation)),
        "gate": Charged(AboveThreshold("0.03", 10, neighbours=relation)),
        "failing": sf.Curve.approximate("0.02", "1e-8", relation),
        "several": (Charged(Laplace(90), moved), Charged(Laplace(70), moved)),
    }


class Life:
    """A script whose every step is recorded with what the account says after it."""

    def __init__(self, ledger: sf.Ledger, account: sf.Account, *analysts: str) -> None:
        self.ledger, self.account, self.analysts = ledger, account, analysts
        self.found: dict[str, Claim] = {}

    def step(self, name: str, run: Callable[[], Any]) -> Any:
        before = self.ledger.head[0]
        got = outcome(run)
        said = line_facts(got) if isinstance(got, Line) else got.body if isinstance(got, StoredAnswer) else got
        said = got.left if isinstance(got, Tab) else said
        label = f"{len([each for each in self.found if each.endswith(' lines')]):02} {name}"
        if isinstance(said, (tuple, str, dict, type(None))):
            self.found |= claims_of(f"{label} said", said, words=True)
        self.found |= claims_of(label, account_facts(self.account, *self.analysts))
        lines = ledger_facts(self.ledger, before)
        self.found |= claims_of(label, lines, words=True) | {f"{label} lines": len(lines)}
        return got


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[sf.Ledger]:
    with sf.Ledger.open(tmp_path / "ledger.db") as opened:
        yield opened


def opened(ledger: sf.Ledger, name: str) -> sf.Account:
    return ledger.account("clinic", unit=PATIENT, budget=BUDGETS[name])


@pytest.mark.parametrize("name", BUDGETS)
def test_charges(ledger: sf.Ledger, name: str) -> None:
    clinic = opened(ledger, name)
    life = Life(ledger, clinic, "ana", "bo")
    life.step("share", lambda: clinic.give_share("ana", "0.25"))
    life.step("share again", lambda: clinic.give_share("ana", "1/4"))
    for kind, part in noises(clinic.budget.neighbours.value).items():
        analyst = "ana" if kind in ("laplace", "gaussian") else "bo" if kind == "choice" else None
        line = life.step(kind, lambda: clinic.charge(entry(part, analyst=analyst, plan=f"p {kind}", data="v")))
        if isinstance(line, Line):
            life.step(f"{kind} answer", lambda: clinic.answer(line, f"body {kind}", {"n": "2.5", "m": 0}))
            life.step(f"{kind} answered", lambda: clinic.answer(line, "again", {}))
            life.found |= claims_of(f"{kind} recomputed", str(clinic.recomputed(line)), words=True)
    life.step("too much for ana", lambda: clinic.charge(entry(sf.Curve.pure("0.5"), analyst="ana")))
    life.step("too much", lambda: clinic.charge(entry(sf.Curve.pure(3))))
    life.step("nothing", lambda: clinic.charge(entry(sf.Curve((), clinic.budget.neighbours))))
    life.step("correct", lambda: clinic.correct(sf.Curve.pure("0.1"), reason="found later", analyst="ana"))
    life.step("all that is left", lambda: clinic.charge(entry(sf.Curve.pure(clinic.budget.largest_pure()))))
    life.step("one unit more", lambda: clinic.charge(entry(sf.Curve.pure(Fraction(1, UNIT)))))
    life.step("correct beyond", lambda: clinic.correct(Cost(UNIT, clinic.cost(sf.Curve.pure(1)).renyi, 0), reason="r"))
    life.step("nothing after that", lambda: clinic.charge(entry(sf.Curve((), clinic.budget.neighbours))))
    life.found |= claims_of("verified", ledger.verify().holds)
    check_claims(f"ledgers/charges_{name.replace(' ', '_')}", life.found)


@pytest.mark.parametrize("name", BUDGETS)
def test_tabs(ledger: sf.Ledger, name: str) -> None:
    clinic = opened(ledger, name)
    relation = clinic.budget.neighbours
    life = Life(ledger, clinic, "ana")
    life.step("share", lambda: clinic.give_share("ana", "0.5"))
    cost = clinic.cost(sf.Curve.pure("0.3", relation))
    tab = life.step("hold", lambda: clinic.open_tab(cost, analyst="ana", question="a series"))
    life.step("step", lambda: tab.step(entry(sf.Curve.pure("0.1", relation))))
    life.step("left", lambda: tab.left)
    life.step("step of another", lambda: tab.step(entry(sf.Curve.pure("0.01", relation), analyst="bo")))
    life.step("too much", lambda: tab.step(entry(sf.Curve.pure("0.21", relation))))
    life.step("hidden", lambda: tab.step(entry(noises(relation.value)["gate"])))
    life.step("all of it", lambda: tab.step(entry(sf.Curve.pure("0.2", relation))))
    life.step("stop", lambda: tab.stop())
    life.step("stop again", lambda: tab.stop())
    life.step("step after", lambda: tab.step(entry(sf.Curve.pure("0.01", relation))))
    for kind in ("laplace", "gaussian", "gate", "failing"):
        part = noises(relation.value)[kind]
        for whole in (False, True):
            held = life.step(f"{kind} {whole}", lambda: clinic.open_tab(entry(part), whole=whole))
            if isinstance(held, Tab):
                life.step(f"{kind} {whole} forfeit", held.forfeit if kind == "laplace" else held.stop)
    settled = life.step("whole", lambda: clinic.open_tab(entry(sf.Curve.pure("0.05", relation)), whole=True))
    nothing = sf.Entry(sf.Curve((), relation), "one answer", "p 1", "v")
    answers = [SettledAnswer(nothing, "1", {"n": 2}), SettledAnswer(nothing, "2", {"n": 1})]
    life.step("settle more", lambda: tuple(map(line_facts, settled.settle(answers[:1], more=True))))
    life.step("settle", lambda: tuple(map(line_facts, settled.settle(answers))))
    life.step("settle after", lambda: settled.settle(answers))
    life.step("settled wrongly", lambda: SettledAnswer(entry(sf.Curve.pure("0.1")), "1", {}))
    gone = life.step("gone", lambda: clinic.open_tab(entry(sf.Curve.pure("0.02", relation))))
    life.step("open tabs", lambda: tuple(line.number for line in clinic.open_tabs()))
    life.step("abandon", lambda: clinic.abandon(gone.number, reason="its process died"))
    life.step("abandon again", lambda: clinic.abandon(gone.number, reason="its process died"))
    life.step("vector", lambda: clinic.open_tab(Cost(5, None if cost.renyi is not None else 7, 0)))
    life.step("endless", lambda: clinic.open_tab(Cost(10**331, cost.renyi, 0)))
    life.step("too wide", lambda: clinic.open_tab(entry(sf.Curve.pure(5, relation))))
    failing = clinic.open_tab(entry(sf.Curve.pure("0.03", relation)))
    failing.step(entry(sf.Curve.pure("0.01", relation)))
    life.step("after an error", lambda: failing.__exit__(ZeroDivisionError, None, None))
    life.found |= claims_of("verified", ledger.verify().holds)
    check_claims(f"ledgers/tabs_{name.replace(' ', '_')}", life.found)


def test_questions_asked_again(ledger: sf.Ledger) -> None:
    clinic = opened(ledger, "approximate")
    life = Life(ledger, clinic)

    def ask(width: Any = 5, *, fresh: bool = False, answer: str = "", **rest: Any) -> Any:
        asked = clinic.ask(entry(sf.Curve.pure("0.05"), **rest), {"n": width}, fresh=fresh)
        known = asked.begin(seconds=0.01)
        if known is None and answer:
            clinic.answer(asked.line, answer, {"n": width})
        return known or ("paid", asked.is_charged(), asked.line.number)

    same = {"plan": "p", "data": "v"}
    life.step("first", lambda: ask(answer="first", **same))
    life.step("again", lambda: ask(**same))
    life.step("coarser", lambda: ask(6, **same))
    life.step("finer", lambda: ask(4, answer="finer", **same))
    life.step("finer again", lambda: ask(4, **same))
    life.step("other data", lambda: ask(answer="other data", plan="p", data="w"))
    life.step("other plan", lambda: ask(answer="other plan", plan="q", data="v"))
    life.step("no plan", lambda: ask(answer="no plan", data="v"))
    life.step("no plan again", lambda: ask(answer="no plan", data="v"))
    life.step("no data", lambda: ask(answer="no data", plan="p"))
    life.step("no data again", lambda: ask(answer="no data again", plan="p"))
    life.step("fresh", lambda: ask(fresh=True, answer="fresh", **same))
    life.step("request", lambda: ask(fresh=True, answer="of r", request_id="r", **same))
    life.step("request again", lambda: ask(fresh=True, request_id="r", **same))
    life.step("request differs", lambda: ask(request_id="r", plan="other", data="v"))
    life.step("request of another", lambda: ask(fresh=True, request_id="r", analyst="bo", answer="bo's", **same))
    life.step("request by text", lambda: ask(request_id="t", answer="by text"))
    life.step("request by text again", lambda: ask(request_id="t"))
    life.step("request by another text", lambda: ask(request_id="t", question="other"))
    life.step("pending", lambda: ask(plan="slow", data="v"))
    life.step("waits", lambda: ask(plan="slow", data="v"))
    life.step("pending request", lambda: ask(plan="slower", data="v", request_id="s"))
    life.step("waits for it", lambda: ask(plan="slower", data="v", request_id="s"))
    stopped = clinic.ask(entry(sf.Curve.pure("0.01"), plan="stopped", data="v", request_id="x"), {})
    life.step("stopped", lambda: (stopped.begin(), stopped.stop(), stopped.is_charged())[2])
    life.step("after it", lambda: ask(plan="stopped", data="v", request_id="x"))
    life.step("equal to it", lambda: ask(plan="stopped", data="v", answer="paid anew"))
    for accuracy in (None, {"n": 4}, {"n": 3}, {"m": 1}):
        life.step(f"stored {accuracy}", lambda: clinic.stored(plan="p", data="v", accuracy=accuracy))
    life.step("requested", lambda: clinic.requested("r"))
    life.step("requested by bo", lambda: clinic.requested("r", analyst="bo", plan="p"))
    life.step("requested nothing", lambda: clinic.requested("none"))
    for until in (1, 3, 5, 10):
        older = clinic.limited(Nothing(), until)
        life.step(f"stored until {until}", lambda: older.stored(plan="p", data="v", accuracy={"n": 5}))
    life.step("published", lambda: tuple(each.number for each in clinic.published("p", data="v")))
    life.found |= claims_of("verified", ledger.verify().holds)
    check_claims("ledgers/asked_again", life.found)


class Nothing:
    """A limit that takes everything."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def reserve(self, epsilon: Fraction | None) -> Nothing:
        self.said.append(epsilon)
        return self

    def settle(self, *, charged: bool) -> None:
        self.said.append(charged)


@pytest.mark.parametrize("name", BUDGETS)
def test_limits_beside_an_account(ledger: sf.Ledger, name: str) -> None:
    clinic = opened(ledger, name)
    limit = Nothing()
    beside = clinic.limited(limit)
    relation = clinic.budget.neighbours
    for kind, part in noises(relation.value).items():
        limit.said.append(kind)
        outcome(lambda: beside.charge(entry(part)))
        outcome(lambda: beside.open_tab(entry(part)).stop())
        outcome(lambda: beside.open_tab(entry(part), whole=True))
        outcome(lambda: beside.ask(entry(part, plan=kind, data="v"), {"n": 1}).begin())
    outcome(lambda: beside.open_tab(clinic.cost(sf.Curve.pure("0.01", relation))).stop())
    outcome(lambda: beside.charge(entry(sf.Curve.pure(9, relation))))
    found = claims_of("said", limit.said)
    for kind, part in noises(relation.value).items():
        leaked = entry(part).curve
        cost = clinic.cost(leaked)
        found |= claims_of(f"{kind} with its curve", release_epsilon(cost, leaked, BUDGETS[name]))
        found |= claims_of(f"{kind} without", release_epsilon(cost, None, BUDGETS[name]))
        found |= claims_of(f"{kind} unbounded", release_epsilon(Cost(None, cost.renyi, 0), None, BUDGETS[name]))
    check_claims(f"ledgers/limited_{name.replace(' ', '_')}", found)


@pytest.mark.parametrize("name", ["pure", "approximate", "replace"])
def test_periods(ledger: sf.Ledger, name: str) -> None:
    clinic = ledger.account("clinic", unit=MONTH, budget=BUDGETS[name], per="month")
    assert isinstance(clinic, PeriodAccounts)
    relation = clinic.budget.neighbours
    spring, one = clinic.for_periods(("2024-03", "2024-04", "2024-03")), clinic.for_periods(("2024-04",))
    life = Life(ledger, spring, "ana")
    life.step("share", lambda: clinic.give_share("ana", "0.5"))
    life.step("both", lambda: spring.charge(entry(sf.Curve.pure("0.2", relation), analyst="ana")))
    life.step("one", lambda: one.charge(entry(sf.Curve.pure("0.3", relation))))
    life.step("gaussian", lambda: one.charge(entry(noises(relation.value)["gaussian"])))
    life.step("ana in one", lambda: one.charge(entry(sf.Curve.pure("0.25", relation), analyst="ana")))
    life.step("ana too much", lambda: spring.charge(entry(sf.Curve.pure("0.9", relation), analyst="ana")))
    life.step("too much", lambda: spring.charge(entry(sf.Curve.pure(3, relation))))
    life.step("asked", lambda: spring.ask(entry(sf.Curve.pure("0.01", relation), plan="p", data="v"), {}).begin())
    life.step("none", lambda: clinic.charge(entry(sf.Curve.pure("0.01", relation))))
    life.step("no tab", lambda: spring.open_tab(entry(sf.Curve.pure("0.01", relation))))
    life.step("over none", lambda: clinic.for_periods(()))
    life.step("amend", lambda: clinic.amend(reason="more", epsilon=4))
    life.step("amend below", lambda: clinic.amend(reason="less", epsilon="0.1"))
    for label, each in (("spring", spring), ("one", one), ("new", clinic.for_periods(("2025-01",))), ("all", clinic)):
        life.found |= claims_of(f"{label} budget", each.budget.remaining)
        for analyst in (None, "ana", "bo"):
            life.found |= claims_of(f"{label} {analyst}", [own.remaining for own in each.budgets(analyst)])
    life.found |= claims_of("opened", clinic.opened) | claims_of("verified", ledger.verify().holds)
    costs = [Cost(1, None, 5), Cost(None, 7, 2), Cost(3, 9, 1)]
    for kept in ([0], [0, 2], [0, 1], [0, 1, 2]):
        life.found |= claims_of(f"most {kept}", str(_max_totals([costs[index] for index in kept])), words=True)
    check_claims(f"ledgers/periods_{name}", life.found)


@pytest.mark.parametrize("name", BUDGETS)
def test_amendments(ledger: sf.Ledger, name: str) -> None:
    clinic = opened(ledger, name)
    relation = clinic.budget.neighbours
    life = Life(ledger, clinic)
    life.step("reserve", lambda: clinic.amend(reason="r", reserve="2e-7"))
    life.step("charge", lambda: clinic.charge(entry(sf.Curve.pure("0.4", relation))))
    for terms in (
        {"epsilon": 5},
        {"epsilon": "0.4"},
        {"epsilon": "0.39"},
        {"epsilon": 2, "delta": "1e-7"},
        {"delta": 0},
        {"delta": "1e-5"},
        {"reserve": "3e-7"},
        {"epsilon": "0.0001"},
    ):
        life.step(f"{terms}", lambda: clinic.amend(reason="why not", **terms))
    life.step("no reason", lambda: clinic.amend(reason=" ", epsilon=9))
    life.found |= claims_of("epsilons", clinic.epsilons)
    life.found |= claims_of("history", [line.kind for line in ledger])
    own = BUDGETS[name]
    for spent in (NO_COST, Cost(UNIT // 2, None if own.order is None else UNIT // 50, 0), Cost(None, None, 10)):
        for epsilon in ("0.0001", "0.5", "0.4999", 3):
            made = outcome(lambda: str(amended_budget(own, epsilon, own.delta, own.reserve, spent)))
            life.found |= claims_of(f"amended {spent} {epsilon}", made)
    life.found |= claims_of(
        "least", [_min_epsilon(own.order, own.delta - own.reserve), _min_epsilon(own.order, Fraction(0))]
    )
    check_claims(f"ledgers/amended_{name.replace(' ', '_')}", life.found)


def test_arithmetic_of_lines() -> None:
    found: dict[str, Claim] = {}
    third = Fraction(1, 3)
    costs = [NO_COST, Cost(5, 7, 11), Cost(None, 2, 3), Cost(third, None, third), Cost(1, None, 0)]
    for index, cost in enumerate(costs):
        found |= {f"written {index}": write_cost(cost), f"read {index}": str(read_cost(write_cost(cost)) == cost)}
        for before in costs:
            for left in costs:
                total = Spending(3, 4, 5, third + 9, 8, 20, 2).after(cost, before, left)
                label = f"{cost} {before} {left}"
                found |= {label: str(total), f"{label} read": read_totals(str(total)) == total}
                found |= {f"{label} totals": f"{total.spent} | {total.held} | {total.total}"}
    first = Spending().after(costs[1]).after(costs[2])
    found |= {"first": str(first), "empty": str(read_totals("")), "closed": str(first.after(costs[4]))}
    check_claims("ledgers/spending", found)


def test_what_was_run() -> None:
    found: dict[str, Claim] = {}
    parts = noises("add-remove")
    flat = [each for part in parts.values() for each in (part if isinstance(part, tuple) else (part,))]
    for name, part in parts.items():
        made = entry(part)
        found |= claims_of(
            name, {"parts": spending.write_parts(made.parts), "interactive": made.interactive}, words=True
        )
        found |= claims_of(f"{name} epsilon", [made.curve.epsilon(delta) for delta in ("0", "1e-9", "1e-6")])
        found |= {f"{name} read": spending.read_parts(spending.write_parts(made.parts)) == made.parts}
    gathered = spending.merge_equal_parts([each for each in (*flat, *flat[:2]) if isinstance(each, Charged)])
    found |= claims_of("gathered", [each.times for each in gathered])
    found |= claims_of("nothing", spending.read_parts(""))
    refused: list[Any] = [
        lambda: Charged(Laplace(1)),
        lambda: Charged(Exponential(1, 1), 1),
        lambda: Charged(Laplace(1), 1, 0),
        lambda: Charged("Laplace", 1),  # type: ignore[arg-type]
        lambda: sf.Entry(()),
        lambda: sf.Entry("x"),  # type: ignore[arg-type]
        lambda: entries.checked_name("", "name"),
        lambda: entries.checked_name("x" * 200, "name"),
        lambda: entries.checked_name("x" * 201, "name"),
        lambda: entries.checked_name(" x", "name"),
        lambda: entries.checked_name("x\n", "name"),
        lambda: entries.checked_text("x" * 11, "text", 10),
        lambda: entries.checked_text("x" * 10, "text", 10),
        lambda: entries.checked_text("\0", "text"),
        lambda: entries.checked_text("\ud800", "text"),
        lambda: entries.checked_text("é", "text"),
        lambda: entries.checked_reason(" "),
        lambda: entries.checked_line_number(0, "line"),
        lambda: entries.checked_line_number(1, "line"),
        lambda: entries.checked_line_number((1 << 63) - 1, "line"),
        lambda: entries.checked_line_number(1 << 63, "line"),
        lambda: entries.checked_line_number(True, "line"),
        lambda: entries.checked_widths({"n": -1}),
        lambda: entries.checked_widths({"n": 0}),
        lambda: entries.checked_widths(5),  # type: ignore[arg-type]
        lambda: entries.checked_microseconds(datetime(2024, 1, 1), "time"),
        lambda: entries.checked_microseconds(SEEN, "time"),
        lambda: entries.datetime_from_microseconds(entries.checked_microseconds(SEEN, "time")) == SEEN,
        lambda: entries._parse_time("2024-01-01"),
        lambda: entries._parse_time("never"),
        lambda: entries._parse_time(None),
        lambda: str(entries._parse_time("2024-01-01T00:00:00+00:00")),
    ]
    for number, run in enumerate(refused):
        found |= claims_of(f"checked {number:02}", outcome(run))
    names = ("account", "analyst", "question", "plan", "data", "request_id", "parts", "detail", "body", "file")
    texts: dict[str, Any] = dict.fromkeys(names, "x")
    costs = {"cost": Cost(1, 2, 3), "spent": Cost(4, 5, 6), "held": NO_COST}
    line = Line(number=3, time=SEEN, kind="charge", tab=None, about=2, previous="p", hash="h", **texts, **costs)
    found |= {"line": line.to_json(), "line read": Line.from_json(line.to_json()) == line}
    found |= claims_of("summary", line.summary(), words=True) | claims_of("words", line.words(details=True), words=True)
    wide = {"n": Fraction(5), "m": Fraction(0)}
    for asked in ({}, {"n": Fraction(5)}, {"n": Fraction(4)}, {"k": Fraction(9)}, {"m": Fraction(0), "n": Fraction(6)}):
        found |= {f"within {sorted(asked)} {list(map(str, asked.values()))}": entries.is_accurate_enough(wide, asked)}
    written = entries.write_widths(wide)
    found |= {"widths": written, "widths read": entries.read_widths(written) == wide}
    check_claims("ledgers/parts", found)


def test_terms_of_accounts(ledger: sf.Ledger) -> None:
    found: dict[str, Claim] = {}
    gaussian = sf.Budget(1, "1e-6").charge(sf.Curve.gaussian(30))
    tried: dict[str, Any] = {
        "spent": lambda: Terms(PATIENT, sf.Budget(1).charge(sf.Curve.pure("0.1"))),
        "closed": lambda: Terms(PATIENT, sf.Budget(1).with_spent(Cost(None, None, 0))),
        "gaussian": lambda: Terms(PATIENT, gaussian),
        "unit": lambda: Terms("patient", sf.Budget(1)),  # type: ignore[arg-type]
        "budget": lambda: Terms(PATIENT, 1),  # type: ignore[arg-type]
        "period of a period": lambda: Terms(MONTH, sf.Budget(1), "month", "clinic"),
        "per": lambda: Terms(MONTH, sf.Budget(1), 5),  # type: ignore[arg-type]
        "sound": lambda: Terms(MONTH, sf.Budget(1), "month").per,
        "opened": lambda: opened(ledger, "pure").name,
        "again": lambda: opened(ledger, "pure").name,
        "other budget": lambda: opened(ledger, "approximate").name,
        "other unit": lambda: ledger.account("clinic", unit=MONTH, budget=BUDGETS["pure"]).name,
        "per month": lambda: ledger.account("clinic", unit=MONTH, budget=BUDGETS["pure"], per="month").name,
        "unnamed": lambda: ledger.account("", unit=PATIENT, budget=sf.Budget(1)),
    }
    for name, run in tried.items():
        found |= claims_of(name, outcome(run))
    found |= claims_of("lines", [line.kind for line in ledger])
    check_claims("ledgers/terms", found)


def test_joined_data() -> None:
    found: dict[str, Claim] = {}
    base = JoinedSource("/data/a.csv", "content", "size", "file", "look", "")
    others = {
        "same": base,
        "content": JoinedSource("/data/b.csv", "content", "size", "other"),
        "file": JoinedSource("/data/b.csv", "other", "size", "file"),
        "path": JoinedSource("/data/a.csv", "other", "more", "other"),
        "size": JoinedSource("/data/b.csv", "other", "size", "other"),
        "part": JoinedSource("/data/a.csv", "content", "size", "file", "look", "table"),
        "memory": JoinedSource(joined_sources.MEMORY, "content", part="table"),
        "memory too": JoinedSource(joined_sources.MEMORY, "content", part="other"),
        "unknown": JoinedSource("/data/c.csv"),
    }
    keyed: Any = lambda kind, value: f"{kind} {value}"  # noqa: E731
    for name, other in others.items():
        found |= {f"changed {name}": joined_sources.has_content_changed(other, [base])}
        found |= {f"changed back {name}": joined_sources.has_content_changed(base, [base, other])}
        found |= {f"same {name}": joined_sources._is_same_data(base, other, keyed)}
        found |= {f"same as {name}": joined_sources._is_same_data(other, base, keyed)}
        found |= {
            f"taken {name}": joined_sources.other_owning_account(
                [("mine", base), ("other", other)], "mine", base, keyed
            )
        }
        found |= {f"version {name}": joined_sources.count_content_changes([base, other, base, other, other])}
    found |= {
        "none": joined_sources.count_content_changes([]),
        "all": joined_sources.count_content_changes(list(others.values())),
    }
    check_claims("ledgers/joined", found)
