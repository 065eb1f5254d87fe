"""The life of a question where no SQL is needed: the same on DuckDB and on an engine that adds up arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import sfumato as sf
from engine.integers import Integers
from sfumato.engine.opening import open_engine

WHOLE = {"day": sf.Domain("integer", bounds=(1, 7)), "minutes": sf.Domain("integer", bounds=(0, 120))}
BY_DAY = "SELECT day, COUNT(*) AS n, SUM(minutes) AS minutes FROM visits GROUP BY day"
Open = Callable[..., sf.Curator]


def policy(visitors: int = 400, *, every_row: bool = False) -> sf.Policy:
    rows = [(each, 1 + (each * 7 + k) % 7, 20 + each % 50) for each in range(visitors) for k in range(1 + each % 6)]
    held = pyarrow.table(dict(zip(("visitor", "day", "minutes"), map(list, zip(*rows, strict=True)), strict=True)))
    limits = {"id": "row"} if every_row else {"id": "visitor", "max_rows": 5}
    table = sf.Table("visits", held, WHOLE, **limits)  # type: ignore[arg-type]
    unit = sf.PrivacyUnit("visitor", every_row=every_row)
    return sf.Policy(unit, sf.Budget(3, "1e-6"), {"visits": table}, analysts={"ana": "0.5"})  # type: ignore[dict-item]


@pytest.fixture(params=[open_engine, Integers], ids=["DuckDB", "integers"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Open]:
    monkeypatch.setattr("sfumato.curator.curators.open_engine", request.param)
    made: list[sf.Curator] = []

    def open_curator(ledger: str = "shop", **how: Any) -> sf.Curator:
        made.append(sf.Curator(policy(**how), tmp_path / f"{ledger}.ledger"))
        return made[-1]

    yield open_curator
    for each in made:
        each.close()


def lines(curator: sf.Curator) -> list[str]:
    return [line.kind for line in curator.ledger.lines()]


def asked(curator: sf.Curator, text: str = BY_DAY) -> Any:
    return curator.sql(text).limit(strategy="reweight")


def test_an_answer_has_every_group_its_ranges_and_a_receipt(opened: Open) -> None:
    shop = opened()
    answer = asked(shop).release(epsilon=1)
    assert answer.columns == ("day", "n", "minutes")
    assert answer.column("day") == [1, 2, 3, 4, 5, 6, 7]
    assert all(low <= n <= high for n, (low, high) in zip(answer.column("n"), answer.intervals["n"], strict=True))
    assert answer.receipt.guarantee == "ε = 1"
    assert shop.ledger.verify()
    assert lines(shop) == ["account-open", "source", "charge", "answer"]


def test_numbers_are_near_the_truth(opened: Open) -> None:
    """One count and one sum of 1,400 rows at ε = 1 each: Laplace noise misses by 15 scales with chance e^-15 < 1e-6."""
    shop = opened(every_row=True)
    n, m = shop.sql("SELECT COUNT(*) AS n, SUM(minutes) AS m FROM visits").release(epsilon=2).rows[0]
    rows = policy(every_row=True).tables["visits"].source.table.to_pydict()
    assert abs(n - len(rows["day"])) < 15
    assert abs(m - sum(rows["minutes"])) < 15 * 120


def test_the_same_question_is_answered_once(opened: Open) -> None:
    shop = opened()
    first = asked(shop).release(epsilon=1)
    again = asked(shop).release(epsilon="0.5")
    assert again.receipt.free
    assert again.rows == first.rows
    assert not asked(shop).release(epsilon="0.1", fresh=True).receipt.free
    assert asked(shop, "SELECT COUNT(*) FROM visits").release(epsilon="0.1", request_id="monday").rows == (
        asked(shop, "SELECT COUNT(*) FROM visits").release(epsilon=2, request_id="monday").rows
    )


def test_an_overspend_is_refused_and_costs_nothing(opened: Open) -> None:
    shop = opened()
    before = lines(shop)
    with pytest.raises(sf.Overspent):
        asked(shop).release(epsilon="3.5")
    shop.as_analyst("ana")
    with pytest.raises(sf.Overspent):
        asked(shop.as_analyst("ana")).release(epsilon="1.6")
    assert [kind for kind in lines(shop) if kind != "share"] == before


@pytest.mark.usefixtures("opened")
def test_a_closed_curator_charges_nothing(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "kept.ledger") as ledger:
        shop = sf.Curator(policy(), ledger)
        question = asked(shop)
        shop.close()
        with pytest.raises(sf.SfumatoError, match="closed"):
            question.release(epsilon=1)
        assert [line.kind for line in ledger.lines()] == ["account-open", "source"]


def test_a_budget_and_its_answers_outlive_a_curator(opened: Open) -> None:
    with opened() as shop:
        asked(shop).release(epsilon=2)
    with opened() as shop:
        assert shop.budget.remaining["pure"] == 1
        assert asked(shop).release(epsilon=2).receipt.free
    with opened(visitors=401) as shop:  # other data: another answer
        assert not asked(shop).release(epsilon="0.5").receipt.free
        assert lines(shop).count("source") == 2


def test_threads_share_one_curator(opened: Open) -> None:
    shop = opened()
    done: list[sf.Answer | Exception] = []

    def ask() -> None:
        try:
            done.append(asked(shop).release(epsilon="0.5", fresh=True))
        except sf.Overspent as refusal:
            done.append(refusal)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(each, sf.Answer) for each in done) == 6
    assert shop.ledger.verify()
