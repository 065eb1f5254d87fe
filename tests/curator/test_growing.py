"""A table that grows: each month has an account, a question spends the months it reads, and every answer says what is
promised.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from cli.running import run
from sfumato.curator import PeriodStandings, amend, history, standing
from sfumato.errors import AccountDiffers, Overspent, SourceTaken, Unsupported

TEXT = """
[unit]
name = "patient"
period = {{ column = "day", every = "{every}" }}
budget = {{ epsilon = {epsilon}, {delta}per = "{per}" }}
neighbours = "{neighbours}"
size = 100
[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 2
[tables.visits.columns]
day = {{ type = "date", bounds = [2024-01-01, {last}] }}
cost = {{ type = "integer", bounds = [0, 100] }}
[analysts.ana]
share = 0.5
"""
MARCH = "SELECT COUNT(*) AS n FROM visits WHERE day >= DATE '2024-03-01' AND day < DATE '2024-04-01'"
SPRING = "SELECT COUNT(*) AS n FROM visits WHERE day >= DATE '2024-03-01' AND day < DATE '2024-06-01'"


def write(folder: Path, rows: int = 3, **given: object) -> Path:
    told = {"every": "month", "epsilon": 1, "delta": "", "per": "month", "neighbours": "add-remove"}
    told |= {"last": "2024-06-30", **{name: str(each) for name, each in given.items()}}
    (folder / "clinic.toml").write_text(TEXT.format(**told))
    days = [dt.date(2024, month, 5 + each) for month in range(1, 7) for each in range(rows)]
    (folder / "visits.csv").write_text("who,day,cost\n" + "".join(f"{day.day},{day},7\n" for day in days))
    return folder / "clinic.toml"


@pytest.fixture
def clinic(tmp_path: Path) -> sf.Curator:
    return sf.open(write(tmp_path))


def left(curator: sf.Curator) -> dict[str, Fraction]:
    found = curator.standing()
    assert isinstance(found, PeriodStandings)
    return {period: found[period].left["pure"] for period in found.periods}


def test_a_question_spends_the_months_that_it_reads(clinic: sf.Curator) -> None:
    with clinic:
        clinic.sql(MARCH).release(epsilon="0.5")
        clinic.sql(SPRING).release(epsilon="0.25")
        assert left(clinic) == {"2024-03": Fraction(1, 4), "2024-04": Fraction(3, 4), "2024-05": Fraction(3, 4)}
        with pytest.raises(Overspent, match="the account of 2024-03"):
            clinic.sql(SPRING).release(epsilon="0.5", fresh=True)
        assert not clinic.sql(SPRING).error(epsilon="0.5").accepted
        assert clinic.sql(SPRING).error(epsilon="0.2").accepted
        assert left(clinic)["2024-04"] == Fraction(3, 4)
        again = clinic.sql(MARCH).release(epsilon="0.5")
        assert again.receipt.free
        assert clinic.budget.remaining == {"pure": 1}
        assert clinic.ledger.verify().holds


def test_what_is_promised_is_said_with_every_answer(clinic: sf.Curator, tmp_path: Path) -> None:
    words = "ε = 1 for one patient-month, whatever is asked: not for the whole life of one patient"
    with clinic:
        receipt = clinic.sql(MARCH).release(epsilon="0.5").receipt
        assert words in receipt.short()
        assert (
            "left for ordinary answers, in the period with the least left: ε = 0.5 of 1; ε = 1 for each month"
            in receipt.short()
        )
        assert sf.Receipt.from_json(receipt.to_json()) == receipt
        explained = str(clinic.sql(SPRING).explain(epsilon="0.5"))
        assert "the whole price in 3 accounts: 2024-03, 2024-04 and 2024-05" in explained
        assert words in explained
        assert words in str(clinic.auction("visits", "cost", prices=[1, 2]).release("0.1").receipt)
    shown = run("query", tmp_path / "clinic.toml", MARCH, "--epsilon", "0.5").output
    assert words in shown
    assert words in run("budget", tmp_path / "clinic.toml").output
    assert words in run("check", tmp_path / "clinic.toml").output


def test_a_person_with_rows_in_several_months_is_said_to_lose_more(tmp_path: Path) -> None:
    with sf.open(write(tmp_path, every="day", delta="delta = 1e-6, ", neighbours="replace")) as clinic:
        said = clinic.sql(MARCH).release(epsilon="0.25").receipt
    assert "ε = 1, δ = 1e-06 for one patient-day" in said.promise or "δ = 1e-06 for one patient-day" in said.promise
    assert "whose rows in k days may cost k times that ε and more than k times that δ" in said.promise
    assert "each month's account holds half, since a replaced unit may move to another month" in said.promise
    assert said.account.startswith("ε = 0.5, δ = 5e-07")


def test_under_replace_a_month_affords_half(tmp_path: Path) -> None:
    with sf.open(write(tmp_path, neighbours="replace")) as clinic:
        with pytest.raises(Overspent):
            clinic.sql(MARCH).release(epsilon="0.6")
        clinic.sql(SPRING).release(epsilon="0.5")
        assert left(clinic) == dict.fromkeys(("2024-03", "2024-04", "2024-05"), 0)


def test_new_months_open_new_accounts(tmp_path: Path) -> None:
    path = write(tmp_path)
    with sf.open(path) as clinic:
        clinic.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=1)
    write(tmp_path, rows=4, last="2024-08-31")
    july = "SELECT COUNT(*) AS n FROM visits WHERE day >= DATE '2024-07-01'"
    with sf.open(path) as clinic:
        clinic.sql(july).release(epsilon="0.5")
        assert clinic.sql(july)._context.account.periods == ("2024-07", "2024-08")
        assert left(clinic)["2024-08"] == Fraction(1, 2)
        with pytest.raises(Overspent, match="the account of 2024-01"):
            clinic.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon="0.1")


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_rows_beyond_the_bounds_are_of_no_account(tmp_path: Path) -> None:
    """Clamped, they would be read with the last month, which would pay for people who are not in it."""
    path = write(tmp_path, last="2024-06-20", epsilon=2000)
    beyond = "".join(f"{who},{day},7\n" for day in ("2024-07-01", "2023-12-31", "2025-06-05") for who in range(50, 90))
    within = "".join(f"{who},2024-06-29,7\n" for who in range(500, 540))
    (tmp_path / "visits.csv").write_text(f"who,day,cost\n{beyond}{within}")
    with sf.open(path) as clinic:
        june = clinic.sql("SELECT COUNT(*) AS n FROM visits WHERE day > DATE '2024-06-01'")
        assert june._context.account.periods == ("2024-06",)
        for asked in (june, clinic.sql("SELECT COUNT(*) AS n FROM visits")):
            assert asked.release(epsilon=1000).rows[0][0] == pytest.approx(40, abs=1)


def test_an_analysts_share_is_of_each_month(clinic: sf.Curator) -> None:
    with clinic:
        ana = clinic.as_analyst("ana")
        ana.sql(MARCH).release(epsilon="0.4")
        with pytest.raises(Overspent, match="the analyst's share of 2024-03"):
            ana.sql(SPRING).release(epsilon="0.2")
        found = ana.standing()
        assert isinstance(found, PeriodStandings)
        assert found["2024-03"].left == {"pure": Fraction(1, 10)}
        assert found["2024-05"].left == {"pure": Fraction(1, 2)}
        receipt = ana.sql(MARCH).release(epsilon="0.4").receipt
        assert (
            "left of the share of ana for ordinary answers, in the period with the least left: ε = 0.1 of 0.5"
            in str(receipt)
        )
        assert {line.analyst for line in ana.history()} == {"ana"}
        with pytest.raises(sf.InvalidParameter, match="2024-04"):
            found["march"]


def test_standings_and_history_without_data(tmp_path: Path) -> None:
    path = write(tmp_path)
    fresh = standing(path)
    assert isinstance(fresh, PeriodStandings)
    assert fresh.periods == ()
    assert fresh["2024-03"].left == {"pure": 1}
    with sf.open(path) as clinic:
        clinic.sql(SPRING).release(epsilon="0.25")
        found = clinic.standing()
    assert standing(path) == found
    assert isinstance(found, PeriodStandings)
    assert PeriodStandings.from_json(found.to_json()) == found
    kinds = [line.kind for line in history(path)]
    assert kinds == ["account-open", "source", "charge", *["account-open", "period"] * 3, "answer"]
    shown = run("budget", path)
    assert [line.split()[0] for line in shown.output.splitlines()[1:4]] == ["2024-03:", "2024-04:", "2024-05:"]
    assert json.loads(run("budget", path, "--json").output)["kind"].startswith("period-standings")
    assert "2024-03, for line 3" in run("history", path).output
    assert run("ledger", "verify", tmp_path / "sfumato.ledger").exit_code == 0


def test_amending_changes_every_month(tmp_path: Path) -> None:
    path = write(tmp_path)
    with sf.open(path) as clinic:
        clinic.sql(MARCH).release(epsilon="0.75")
    amend(write(tmp_path, epsilon=2), reason="a second year")
    with sf.open(path) as clinic:
        assert left(clinic) == {"2024-03": Fraction(5, 4)}
        assert "the owner changed ε: 1, then 2" in clinic.sql(SPRING).release(epsilon="0.5").receipt.short()
    with pytest.raises(sf.InvalidParameter, match="spent and held"):
        amend(write(tmp_path, epsilon="0.5"), reason="less")


def test_the_length_of_a_period_is_kept_for_life(tmp_path: Path) -> None:
    path = write(tmp_path)
    with sf.open(path) as clinic:
        clinic.sql(MARCH).release(epsilon="0.5")
    write(tmp_path, per="quarter")
    with pytest.raises(AccountDiffers, match="one budget for each month"):
        sf.open(path)
    with pytest.raises(AccountDiffers, match="one for each month"):
        amend(path, reason="coarser")
    path.write_text(path.read_text().replace(', per = "quarter"', "").replace('per = "quarter"', ""))
    with pytest.raises(AccountDiffers, match="one budget for each month"):
        sf.open(path)
    (tmp_path / "copy.toml").write_text(write(tmp_path).read_text())
    with pytest.raises(SourceTaken):
        sf.open(tmp_path / "copy.toml")


def test_what_does_not_keep_to_periods_is_refused_for_free(clinic: sf.Curator) -> None:
    with clinic:
        asked = clinic.sql(MARCH)
        other = clinic.sql(SPRING)
        before = list(clinic.ledger)
        lent = replace(other)
        object.__setattr__(lent, "_context", asked._context)  # a question that others pay for
        with pytest.raises(Unsupported, match="unpaid-periods"):
            lent.release(epsilon="0.5")
        object.__setattr__(lent, "_context", clinic._context)  # one that nobody pays for
        with pytest.raises(Unsupported):
            lent.release(epsilon="0.5")
        assert list(clinic.ledger) == before


def test_declared_values_need_no_period(clinic: sf.Curator) -> None:
    with clinic:
        assert clinic.sql("SELECT DISTINCT DATE_TRUNC('month', day) AS m FROM visits").release().rows
        built = clinic.table("visits").where("day = DATE '2024-02-05'").agg(n=sf.count())
        assert built.having("n > 0")._context.account.periods == ("2024-02",)
        built.limit(rows=1).release(epsilon="0.5")
        assert left(clinic) == {"2024-02": Fraction(1, 2)}


def test_running_totals_bounds_and_limits_spend_the_months_they_read(clinic: sf.Curator) -> None:
    spring = clinic.running(f"{SPRING.replace('COUNT(*) AS n', 'day, COUNT(*) AS n')} GROUP BY day")
    assert len(spring.release(epsilon="0.25").rows) == 92
    assert left(clinic) == dict.fromkeys(("2024-03", "2024-04", "2024-05"), Fraction(3, 4))
    receipts = [clinic.bounds("visits", "cost").release(epsilon="0.25").receipt]
    receipts.append(clinic.limits("visits").release(epsilon="0.25").receipt)
    assert left(clinic)["2024-01"] == Fraction(1, 2)
    assert left(clinic)["2024-03"] == Fraction(1, 4)
    assert all(each is not None and "month" in each.promise for each in receipts)


def test_running_totals_spend_the_accounts_of_the_periods_that_they_read(clinic: sf.Curator) -> None:
    with clinic:
        asked = "SELECT day, COUNT(*) AS n FROM visits WHERE day < DATE '2024-03-01' GROUP BY day"
        found = clinic.running(asked)
        assert found._context.account.periods == ("2024-01", "2024-02")
        found.release(epsilon="0.5")
        assert left(clinic) == {"2024-01": Fraction(1, 2), "2024-02": Fraction(1, 2)}
        built = clinic.table("visits").where("day < DATE '2024-02-01'").group_by("day").agg(n=sf.count())
        clinic.as_analyst("ana").running(built).release(epsilon="0.25")
        assert left(clinic) == {"2024-01": Fraction(1, 4), "2024-02": Fraction(1, 2)}


def test_a_forecast_names_the_accounts_that_would_pay(tmp_path: Path) -> None:
    """A question without a condition spends months to come too: that is said before, in a dry run."""
    path, whole = write(tmp_path), "SELECT COUNT(*) AS n FROM visits"
    in_all = "ε = 0.5 in each of 6 accounts: 6 months from 2024-01 to 2024-06"
    with sf.open(path) as clinic:
        assert clinic.sql(whole).error(epsilon="0.5").price == in_all
        assert clinic.sql(MARCH).error(epsilon="0.5").price == "ε = 0.5 in the account of 2024-03"
        by_day = clinic.running("SELECT day, COUNT(*) AS n FROM visits GROUP BY day")
        assert by_day.error(epsilon="0.5").price == in_all
    assert (
        f"price   {in_all}; the account would accept it now"
        in run("query", path, whole, "--epsilon", "0.5", "--dry-run").output.splitlines()
    )


def test_everything_that_spends_months_explains_which(clinic: sf.Curator) -> None:
    with clinic:
        proposals = (
            clinic.running("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").explain(epsilon=1),
            clinic.bounds("visits", "cost").explain(epsilon=1),
            clinic.limits("visits").explain(epsilon=1),
        )
        for each in proposals:
            assert each.operators[-1].what == "the whole price in 6 accounts: 6 months from 2024-01 to 2024-06"


def test_what_holds_its_price_in_one_account_is_refused_before_it_is_forecast(clinic: sf.Curator) -> None:
    """A forecast that says "accepted" of what is never released would be wrong."""
    with clinic:
        with pytest.raises(
            Unsupported, match="every month has an account of its own here, but a workload must be charged"
        ):
            clinic.workload([MARCH, SPRING])
        with pytest.raises(
            Unsupported, match="every month has an account of its own here, but a session must be charged"
        ):
            clinic.above(5)
        with pytest.raises(
            Unsupported, match="every month has an account of its own here, but a model must be charged"
        ):
            clinic.mwem("visits", ["cost"], 1)
        with pytest.raises(Unsupported, match="a regression with robust errors must be charged to one account"):
            clinic.regress("cost ~ 1", "visits", robust=True)
        with pytest.raises(Unsupported, match="a logistic regression must be charged to one account"):
            clinic.logistic("cost ~ day", "visits")
        with pytest.raises(Unsupported, match="a question that combines several SELECTs must be charged to one"):
            clinic.sql(f"SELECT ({MARCH}) - ({SPRING}) AS n").error(epsilon=1)
        with pytest.raises(
            Unsupported, match="a question with a separately released subquery must be charged to one account"
        ):
            clinic.sql("SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)")
        with pytest.raises(
            Unsupported, match="a count of the rows and values beyond limits and bounds must be charged to one account"
        ):
            clinic.sql(SPRING).clipped()
        with pytest.raises(
            Unsupported, match="every month has an account of its own here, but a synthesis must be charged"
        ):
            clinic.synthesize("visits").release(epsilon=1)
        assert left(clinic) == {}
