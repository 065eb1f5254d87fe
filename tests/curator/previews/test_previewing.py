"""A rehearsal has the answer's shape, says that it is one wherever it is shown, and touches neither data nor ledger."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from mechanisms.recorded import seeded
from sfumato.curator.previews.previewing import preview_context, with_context
from sfumato.curator.proposals.stored_answers import Answers
from sfumato.publish.published_files import FittedModel
from sfumato.publish.synopsis import Synopsis
from sfumato.publish.synthetic import Synthetic
from sfumato.release.answers.receipts import PREVIEW_MARK, PREVIEW_NOTE
from sfumato.release.comparisons import ThresholdAnswer

POLICY = """
[unit]
name = "patient"
size = 4
neighbours = "{neighbours}"
budget = {{ epsilon = 30.0, delta = 1e-5{per} }}
{period}
[tables.visits]
source = "visits.parquet"
id = "{id}"
{limits}

[tables.visits.columns]
ward = {{ values = ["A", "B"] }}
day = {{ type = "date", bounds = [2024-01-01, 2024-03-31] }}
age = {{ type = "integer", bounds = [0, 110] }}
cost = {{ type = "real", bounds = [0, 100] }}
note = {{ type = "text" }}

[tables.wards]
source = "wards.csv"
public = true

[analysts]
ana = {{ share = 0.5 }}
"""
LIMITS = "max_rows = 3\nmax_groups = 2\nrow_ceiling = 900"
ROWS = {
    "who": ["a", "a", "b", "c"],
    "ward": ["A", "B", "A", "B"],
    "day": [19_723, 19_724, 19_750, 19_780],
    "age": [1, 2, 3, 4],
    "cost": [1.0, 2.0, 3.0, 4.0],
    "note": ["x", "y", "x", "z"],
}
RELATIONS = ("add-remove", "replace")


def write(folder: Path, neighbours: str, rows: dict[str, list[Any]] = ROWS, **more: str) -> Path:
    folder.mkdir(exist_ok=True)
    days = pa.array(rows["day"], pa.int32()).cast(pa.date32())
    from pyarrow import parquet

    parquet.write_table(pa.table({**rows, "day": days}), folder / "visits.parquet")
    (folder / "wards.csv").write_text("ward,floor\nA,1\nB,2\n")
    given = {"per": "", "period": "", "id": "who", "limits": LIMITS, **more}
    (folder / "clinic.toml").write_text(POLICY.format(neighbours=neighbours, **given))
    return folder / "clinic.toml"


@pytest.fixture(params=["add-remove", pytest.param("replace", marks=pytest.mark.long)], scope="module")
def clinic(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with sf.open(write(tmp_path_factory.mktemp("clinic"), request.param)) as curator:
        yield curator


COUNTS = "SELECT ward, day, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY ward, day"

PROPOSALS: dict[str, tuple[Callable[[sf.Curator], Any], dict[str, Any]]] = {
    "question": (lambda curator: curator.sql(COUNTS), {"epsilon": 1}),
    "gaussian": (lambda curator: curator.sql("SELECT COUNT(*) AS n FROM visits"), {"epsilon": 1, "delta": "1e-6"}),
    "joined": (
        lambda curator: curator.sql("SELECT floor, COUNT(*) AS n FROM visits JOIN wards USING (ward) GROUP BY floor"),
        {"epsilon": 1},
    ),
    "median": (lambda curator: curator.sql("SELECT ward, MEDIAN(age) AS m FROM visits GROUP BY ward"), {"epsilon": 1}),
    "found keys": (
        lambda curator: curator.sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note"),
        {"epsilon": 1, "delta": "1e-6"},
    ),
    "declared": (lambda curator: curator.sql("SELECT DISTINCT ward FROM visits"), {}),
    "builder": (lambda curator: curator.table("visits").agg(n="COUNT(*)"), {"epsilon": 1}),
    "running": (
        lambda curator: curator.running("SELECT day, COUNT(*) AS n FROM visits GROUP BY day"),
        {"epsilon": 1},
    ),
    "workload": (
        lambda curator: curator.workload({"a": "SELECT COUNT(*) AS n FROM visits", "b": COUNTS}),
        {"epsilon": 1},
    ),
    "marginals": (lambda curator: curator.marginals("visits", [["ward"]]), {"rho": "0.1"}),
    "histogram": (lambda curator: curator.histogram("visits", ["ward"]), {"epsilon": 1}),
    "bounds": (lambda curator: curator.bounds("visits", "age"), {"epsilon": 1}),
    "limits": (lambda curator: curator.limits("visits", by="ward"), {"epsilon": 1}),
    "auction": (lambda curator: curator.auction("visits", "age", prices=[10, 20]), {"epsilon": 1, "counting": "0.5"}),
    "session": (lambda curator: curator.above(3), {"epsilon": 1, "values_epsilon": "0.5"}),
    "online": (
        lambda curator: curator.online("visits", ["ward"], 1, 2),
        {"epsilon": 1, "delta": "1e-6", "question": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"},
    ),
    "mwem": (lambda curator: curator.mwem("visits", ["ward"], 1, rounds=1), {"epsilon": 1}),
    "synthesis": (lambda curator: curator.synthesize("visits", "independent", 1, columns=["ward"]), {"epsilon": 1}),
    "score": (
        lambda curator: curator.score(pa.table({"ward": ["A", "A", "B"]}), "visits", k=1, columns=["ward"]),
        {"epsilon": 1},
    ),
}
every_kind = pytest.mark.parametrize("name", PROPOSALS)


def rehearse(curator: sf.Curator, name: str) -> Any:
    make, price = PROPOSALS[name]
    return make(curator).preview(**price)


class Poison:
    """Whoever touches it is found out."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


def poisoned(curator: sf.Curator, name: str) -> Any:
    """Rehearse where neither the engine of the data nor the account may be touched."""
    make, price = PROPOSALS[name]
    here = replace(curator._context, engine=Poison(), account=Poison())  # type: ignore[arg-type]
    if name == "synthesis":  # its own rehearsal runs on invented cells, and reads the terms of the account alone
        here = replace(here, account=curator._context.account)
    if name == "session":
        price = {**price, "question": with_context(curator.sql("SELECT COUNT(*) FROM visits"), here)}
    return with_context(make(curator), here).preview(**price)


@every_kind
def test_every_proposal_is_rehearsed_without_data_or_ledger_and_says_so(clinic: sf.Curator, name: str) -> None:
    """No private row, and nothing of the ledger, has a part in it: there is nothing to be charged for."""
    before = clinic.ledger.head
    found = poisoned(clinic, name)
    assert found.is_preview is True
    assert clinic.ledger.head == before
    assert "preview" in f"{found!r} {found}"
    again = type(found).from_json(found.to_json())
    assert again.is_preview is True
    if isinstance(found, ThresholdAnswer | Answers) and getattr(found, "receipt", None) is None:
        return
    assert (found.receipt.is_preview, found.receipt.line, found.receipt.hash) == (True, 0, "")
    assert found.receipt.remaining == "not shown in a preview"
    assert "preview" in found.receipt.short()


@pytest.mark.parametrize("name", ["question", "gaussian", "joined", "median", "running", "builder"])
def test_a_rehearsed_answer_has_the_shape_of_the_bought_one(clinic: sf.Curator, name: str) -> None:
    make, price = PROPOSALS[name]
    proposal = make(clinic)
    invented, bought = proposal.preview(**price), proposal.release(**price)
    assert invented.columns == bought.columns == tuple(each.name for each in proposal.columns)
    assert invented.types == bought.types == tuple(each.type for each in proposal.columns)
    assert (invented.keys, set(invented.intervals)) == (bought.keys, set(bought.intervals))
    assert [[row[invented.columns.index(key)] for key in invented.keys] for row in invented.rows] == [
        [row[bought.columns.index(key)] for key in bought.keys] for row in bought.rows
    ]
    assert not bought.is_preview
    assert "preview" not in repr(bought) + bought.to_csv() + bought.to_json()


def test_columns_of_every_kind_are_told_without_a_release(clinic: sf.Curator) -> None:
    before = clinic.ledger.head
    told = {name: make(clinic).columns for name, (make, _) in PROPOSALS.items()}
    assert clinic.ledger.head == before
    plain = {name: [(each.name, each.type.value) for each in told[name]] for name in told if name != "workload"}
    assert plain["question"] == [("ward", "text"), ("day", "date"), ("n", "integer"), ("c", "real")]
    assert plain["marginals"] == plain["histogram"] == plain["online"] == plain["mwem"]
    assert plain["marginals"] == [("ward", "text"), ("count", "real")]
    assert plain["bounds"] == [("low", "integer"), ("high", "integer")]
    assert plain["limits"] == [("max_rows", "integer"), ("max_groups", "integer")]
    assert plain["auction"] == [("price", "real"), ("buyers", "integer")]
    assert plain["session"] == [("above", "boolean"), ("value", "real")]
    assert plain["synthesis"] == [("ward", "text")]
    assert plain["score"] == [("score", "real")]
    assert set(told["workload"]) == {"a", "b"}
    for each in told["question"]:
        assert type(each).from_json(each.to_json()) == each


def test_the_mark_is_wherever_an_answer_is_shown(clinic: sf.Curator, tmp_path: Path) -> None:
    found = rehearse(clinic, "question")
    assert PREVIEW_NOTE in repr(found)
    assert PREVIEW_NOTE in found._repr_html_()
    assert found.to_csv().startswith(f"# {PREVIEW_NOTE}\n")
    assert "preview: the numbers" in found.plot().svg
    assert found.bars("n").startswith(PREVIEW_NOTE)
    assert found.chart_data("n").name == "n (preview)"
    assert found.to_arrow().schema.metadata[b"sfumato"].decode() == PREVIEW_NOTE
    assert found.to_pandas().attrs["sfumato"]["preview"] == PREVIEW_NOTE
    found.save(tmp_path / "answer.parquet")
    from pyarrow import parquet

    assert parquet.read_schema(tmp_path / "answer.parquet").metadata[b"sfumato"].decode() == PREVIEW_NOTE
    assert sf.Answer.from_json(found.to_json()).is_preview
    assert "preview: the numbers" in rehearse(clinic, "running").plot().svg
    for name, kind in (("marginals", Synopsis), ("mwem", FittedModel), ("synthesis", Synthetic)):
        made = rehearse(clinic, name)
        assert isinstance(made, kind)
        if name != "mwem":
            assert "preview" in made.plot().svg
    marginal = rehearse(clinic, "marginals").marginal(["ward"])
    assert marginal.is_preview
    assert PREVIEW_MARK in str(rehearse(clinic, "session"))


OTHERS: dict[str, dict[str, list[Any]]] = {
    "one unit more": {name: [*cells, *cells[:1] * 4] for name, cells in ROWS.items()}
    | {"who": [*ROWS["who"], *"dddd"]},
    "one unit less": {name: cells[:3] for name, cells in ROWS.items()},
    "a unit replaced": {name: [*cells[:3], cells[0]] for name, cells in ROWS.items()} | {"who": ["a", "a", "b", "d"]},
    "more rows than the limit": {name: [*cells, *cells[3:] * 30] for name, cells in ROWS.items()},
}


@pytest.mark.parametrize("neighbours", [pytest.param("add-remove", marks=pytest.mark.long), "replace"])
def test_equal_coins_give_equal_rehearsals_whatever_the_data_and_the_spending(tmp_path: Path, neighbours: str) -> None:
    names = ("question", "marginals")  # what is read in an order of its own, such as found keys, differs by that

    def told(rows: dict[str, list[Any]], folder: str, spend: bool) -> list[str]:
        with sf.open(write(tmp_path / folder, neighbours, rows)) as curator:
            if spend:
                curator.sql(COUNTS).release(epsilon=3)
                curator.marginals("visits", [["ward"]]).release(rho="0.2")
            found = []
            for name in names:
                with seeded(7):
                    made = rehearse(curator, name)
                found.append(type(made).to_json(replace(made, receipt=replace(made.receipt, time="2024-01-01"))))
            return found

    first = told(ROWS, "first", spend=False)
    assert told(ROWS, "spent", spend=True) == first
    for number, rows in enumerate(OTHERS.values()):
        assert told(rows, f"other {number}", spend=bool(number % 2)) == first


def test_a_rehearsal_needs_no_source_and_no_budget(tmp_path: Path) -> None:
    policy = write(tmp_path / "clinic", "add-remove")
    with sf.open(policy) as curator:
        with pytest.warns(sf.WeakPrivacy):
            curator.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=30)
        ask = curator.as_analyst("ana").sql(COUNTS)
        with pytest.raises(sf.Overspent):
            ask.release(epsilon=1)
        (policy.parent / "visits.parquet").unlink()
        found = ask.preview(epsilon=1)
        assert found.is_preview
        assert found.receipt.share == "ana"
    with pytest.raises(sf.Overspent), sf.Curator(*_again(policy)) as curator:
        curator.sql(COUNTS).preview(epsilon=31)  # more than there ever was


def _again(policy: Path) -> tuple[Path, Path]:
    write(policy.parent, "add-remove")
    return policy, policy.parent / "another.ledger"


def test_a_weak_price_is_told_in_a_rehearsal_and_warned_of_only_when_it_is_paid(clinic: sf.Curator) -> None:
    ask = clinic.sql("SELECT COUNT(*) AS n FROM visits")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        invented = ask.preview(epsilon=9)
    assert any("weak privacy" in each for each in invented.warnings)
    with pytest.warns(sf.WeakPrivacy):
        ask.release(epsilon=9)


def test_without_a_price_it_is_rehearsed_at_one(clinic: sf.Curator) -> None:
    assert clinic.sql(COUNTS).preview().receipt.guarantee == "ε = 1"
    found = clinic.sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note").preview()
    assert found.receipt.guarantee == "ε = 1, δ = 1e-09"


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_accounts_of_periods_are_rehearsed_too(tmp_path: Path, neighbours: str) -> None:
    period = 'period = { column = "day", every = "month" }\n'
    policy = write(tmp_path / "clinic", neighbours, per=', per = "month"', period=period)
    with sf.open(policy) as curator:
        head = curator.ledger.head
        found = curator.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").preview(epsilon=1)
        assert found.is_preview
        assert len(found.rows) == 2
        assert curator.bounds("visits", "age").preview(epsilon=1).is_preview
        assert curator.ledger.head == head


def test_rows_as_units_and_listings(tmp_path: Path) -> None:
    with sf.open(write(tmp_path / "clinic", "replace", id="row", limits="")) as curator:
        assert curator.sql(COUNTS).preview(epsilon=1).is_preview
        degrees = curator.degrees("visits", "ward", 3)
        assert [each.name for each in degrees.columns] == ["degree", "nodes"]
        found = degrees.preview(epsilon=1)
        assert found.is_preview
        assert PREVIEW_MARK in repr(found)
        listing = curator.sql("SHOW TABLES")
        assert listing.preview(epsilon=1) is listing


def test_what_is_invented_is_not_kept(clinic: sf.Curator) -> None:
    with preview_context(clinic._context) as here:
        place = Path(here.account._guarded.store.place)
        assert here.is_preview
        assert here.engine is not clinic._context.engine
        assert here.account._guarded is not clinic._context.account._guarded
    assert not place.exists()
    ask = clinic.sql("SELECT SUM(age) AS years FROM visits")
    ask.preview(epsilon=1)
    assert not ask.error(epsilon=1).stored
    assert not ask.release(epsilon=1).receipt.free


def test_the_earlier_name_previews_too_and_warns(clinic: sf.Curator) -> None:
    question, head = clinic.sql("SELECT COUNT(*) AS n FROM visits"), clinic.ledger.head
    with pytest.warns(DeprecationWarning, match=r"now called preview\(\)"):
        assert question.rehearse(epsilon=1).is_preview
    assert clinic.ledger.head == head
