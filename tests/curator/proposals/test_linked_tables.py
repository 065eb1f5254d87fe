"""Linked tables as one proposal: one price, keys that fit, limits that hold, refusals for nothing."""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from covering_cases import covering
from publish.linked.worlds import (
    LIMIT,
    PARENTS,
    RELATIONS,
    clinic_policy,
    curator,
    people,
    pharmacy_policy,
)
from sfumato.cli import main
from sfumato.curator.proposals.linked_tables import LinkedTablesProposal, split_price_evenly
from sfumato.curator.proposals.synthesis_series import SynthesisStepRunner
from sfumato.curator.proposals.tab_releases import TabSeries
from sfumato.errors import InvalidParameter, SfumatoError, Unanswered, Unsupported
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.publish.links import POSITIONS, TableLink
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.publish.synthesis.state import SynthesisState
from sfumato.publish.synthetic_tables import position_cells
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
PRICES: tuple[dict[str, Any], ...] = ({"epsilon": 4}, {"epsilon": 2, "delta": "1e-9"}, {"rho": "0.5"})
TABLES = ["patients", "visits"]
KEYS = 7_000_000
"""What is added to the ids of the data, so that none could be a new key."""


def _far(count: int = 60) -> tuple[list[Any], list[Any]]:
    patients, visits = people(2, count)
    return [(who + KEYS, *row) for who, *row in patients], [(who + KEYS, *row) for who, *row in visits]


@covering({"relation": RELATIONS, "price": PRICES, "order": (None, "day")})
def test_one_hold_pays_for_every_step_of_both_tables(
    tmp_path: Path, relation: str, price: dict[str, Any], order: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[SynthesisState] = []
    begin = SynthesisState.__init__
    monkeypatch.setattr(SynthesisState, "__init__", lambda own, setting: (states.append(own), begin(own, setting))[1])
    with curator(tmp_path, clinic_policy(_far(), relation)) as clinic:
        tables = clinic.synthesize(TABLES, order=order).release(**price)
        account, lines = clinic._context.account, list(clinic.history())
        steps = [line for line in lines if line.kind == "step"]
        assert len(steps) == len(tables.parent.steps) + len(tables.child.steps)
        assert len([line for line in lines if line.kind == "tab-open"]) == 1
        assert not account.open_tabs()
        spent = sum(state.budget.spent for state in states if state.released)
        if price == {"epsilon": 4}:
            assert account.spent["pure"] == 4 == spent
        elif "rho" in price:
            assert Fraction("0.4999") < spent <= Fraction("0.5")
        checks = tables.verify().checks
        assert all(check.holds for check in checks)
        assert codec.loads_as(type(tables.link), codec.dumps(tables.link)) == tables.link


def test_every_step_is_charged_for_its_own_tables_limit(tmp_path: Path) -> None:
    """Noise of a parent's count has scale 1/amount, that of a child's 3/amount: one child is not the price of three."""
    with curator(tmp_path, clinic_policy(_far())) as clinic:
        tables = clinic.synthesize(TABLES).release(rho="0.5")
        for model, limit in ((tables.parent, 1), (tables.child, LIMIT)):
            for step in model.steps:
                if step.sensitivity is not None:
                    assert step.sensitivity.total * model.released.unit_value == limit


def test_prices_of_both_tables_add_up_to_the_price() -> None:
    for price in (Price(3), Price("0.7", "1e-9"), Price(rho="0.01"), Price("1/3")):
        parent, child = split_price_evenly(price)
        if price.rho is not None:
            assert Fraction("0.00999999") < parent.rho + child.rho <= price.rho
        elif not price.delta:
            assert parent.epsilon + child.epsilon == price.epsilon


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.SyntheticTables]:
    with curator(tmp_path_factory.mktemp("clinic"), clinic_policy(_far(300))) as clinic:
        yield clinic.synthesize(TABLES, order="day").release(epsilon=30)


def test_keys_are_new_and_every_child_has_a_parent(released: sf.SyntheticTables) -> None:
    for count in (None, 1, 57):
        tables = released.to_pandas(count)
        patients, visits = tables["patients"], tables["visits"]
        assert patients.who.tolist() == list(range(1, len(patients) + 1))
        assert {*visits.who} <= {*patients.who}
        assert visits.groupby("who").size().max() <= LIMIT
        assert len(patients) == (count or round(released.parent.total))
        assert list(patients) == ["who", "sex", "age"]
        assert list(visits) == ["who", "ward", "day"]
    assert released.tables()["visits"] is released["visits"]


def test_children_are_in_order_and_follow_each_other(released: sf.SyntheticTables) -> None:
    """In the data every visit of a patient is in one ward; among independent visits half would change it."""
    visits = released.to_pandas(2000)["visits"]
    assert visits.groupby("who").day.apply(lambda days: days.is_monotonic_increasing).all()
    changed = visits.ward != visits.groupby("who").ward.shift()
    assert changed[visits.duplicated("who")].mean() < 0.2


def test_first_last_and_only_children_are_drawn_as_such(tmp_path: Path) -> None:
    """Every patient enters through ward A and leaves through B; who comes once is in A. Kept in drawn rows, and stated
    in SQL too, with the limits and the order of days.
    """
    patients = [(who + KEYS, "fm"[who % 2], 30) for who in range(300)]
    visits = [(who, "AB"[number > 0], 9 * number) for who, _, _ in patients for number in range(who % (LIMIT + 1))]
    with curator(tmp_path, clinic_policy((patients, visits))) as clinic:
        tables = clinic.synthesize(TABLES, order="day", given=["sex"], ends=True).release(epsilon=30)
        with pytest.raises(InvalidParameter, match='"ends" must be left out, because the child rows have no order'):
            clinic.synthesize(TABLES, ends=True)
        with pytest.raises(InvalidParameter, match='"ends" must be left out, because there is only one table'):
            clinic.synthesize("patients", ends=True)
    drawn = tables.to_pandas(2000)["visits"]
    groups = drawn.groupby("who")
    assert groups.size().max() == LIMIT
    assert groups.day.apply(lambda days: days.is_monotonic_increasing).all()
    is_several = groups.ward.transform("size") > 1
    assert (groups.ward.first() == "A").mean() > 0.9
    assert (drawn[is_several].groupby("who").ward.last() == "B").mean() > 0.9
    question = f"SELECT ward, COUNT(*) AS n FROM visits WHERE \"{tables.link.position_column}\" = 'only' GROUP BY ward"
    counts = dict(tables.sql(question).rows)
    assert abs(counts["A"] - 75) < 30 > counts["B"]
    assert sf.SyntheticTables.from_json(tables.to_json()).link.ends


def test_positions_of_drawn_children_follow_from_their_number() -> None:
    cells = tuple(ListedCell(position) for position in POSITIONS)
    attribute = Attribute("position", Type.TEXT, (*cells, OtherCell()))
    drawn = [POSITIONS[cell] for cell in position_cells(attribute, np.array([0, 1, 2, 0, 4]))]
    assert drawn == ["only", "first", "last", "first", "between", "between", "last"]


@pytest.mark.parametrize("limit", [1, 2, 3, 30])
def test_a_position_is_possible_where_some_number_of_children_has_it(limit: int) -> None:
    """In the top band are any numbers from the limit on: a patient of limit 2 may have a visit between."""
    link = TableLink("p", "v", "id", "p", "id", 1, limit, ("a",), ("day",), (), (), "day", ends=True)
    for band, low in enumerate(link.bands[1:], start=1):
        is_top = band == len(link.bands) - 1
        numbers = range(low, limit + 5 if is_top else link.bands[band + 1])
        had = {name for number in numbers for name, count in link.position_counts(number).items() if count}
        assert {name for name in POSITIONS if link.is_possible_position(band, name)} == had


def test_tables_are_written_and_read_back(released: sf.SyntheticTables, tmp_path: Path) -> None:
    again = sf.SyntheticTables.from_json(released.to_json())
    assert (again.link, again.price) == (released.link, released.price)
    assert again.to_json() == sf.SyntheticTables.from_json(again.to_json()).to_json()
    assert [*map(str, again.verify().checks)] == [*map(str, released.verify().checks)]
    for form in ("parquet", "csv"):
        released.write(tmp_path / form, form)
        read = pd.read_parquet if form == "parquet" else pd.read_csv
        for name in released.names:
            assert len(read(tmp_path / form / f"{name}.{form}")) == released[name].num_rows
    with pytest.raises(InvalidParameter, match="format must be one of"):
        released.write(tmp_path, "xlsx")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidParameter, match="folder must be writable"):
        released.write(tmp_path / "file" / "below")
    for text in ("{}", released.parent.to_json(), released.to_json().replace("table-link", "price")):
        with pytest.raises(SfumatoError):
            sf.SyntheticTables.from_json(text)


@pytest.mark.parametrize("form", ["duckdb", "sqlite"])
def test_one_database_holds_all_tables(released: sf.SyntheticTables, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"clinic.{form}"
    for _ in range(2):  # an older file is replaced
        released.write(path)
    connect: Any = duckdb.connect if form == "duckdb" else sqlite3.connect
    with closing(connect(path)) as connection:
        for name in released.names:
            rows = connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0]
            assert rows == released[name].num_rows
    assert [*tmp_path.iterdir()] == [path]
    with pytest.raises(InvalidParameter, match="can be written"):
        released.write(tmp_path / "missing" / path.name)


def test_a_seed_draws_the_same_tables_again(released: sf.SyntheticTables, tmp_path: Path) -> None:
    once, again, other = (released.draw(40, seed=seed) for seed in (7, 7, 8))
    assert all(once[name].equals(again[name]) for name in released.names)
    assert not any(once[name].equals(other[name]) for name in released.names)
    assert released.tables(seed=7)["patients"].num_rows == released["patients"].num_rows
    for folder in ("one", "two"):
        released.write(tmp_path / folder, "csv", parents=9, seed=3)
    assert (tmp_path / "one/visits.csv").read_bytes() == (tmp_path / "two/visits.csv").read_bytes()
    with pytest.raises(InvalidParameter, match="seed"):
        released.draw(5, seed=-1)


def test_each_table_has_a_card_with_the_guarantee_of_all(released: sf.SyntheticTables) -> None:
    cards = released.cards(name="Clinic", licence="CC0")
    assert [*cards] == [*released.names]
    for table, card in cards.items():
        assert card.guarantee == f"{released.price}, for all tables together"
        assert (card.name, card.licence) == (f"Clinic: {table}", "CC0")
        assert card.rows == released.models[table].quality().total
    assert "visits" in released.cards()["visits"].name


def test_questions_about_each_table_and_about_the_join(released: sf.SyntheticTables) -> None:
    """At ε = 30 ranges are narrow, and hold the truth."""
    patients, visits = _far(300)
    sexes = {who: sex for who, sex, _ in patients}
    answer = released.sql("SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex")
    assert answer.basis["n"] == ("measured",) * 2
    for key, counted in answer.rows:
        assert abs(counted - sum(sex == key for sex in sexes.values())) < 15
    often = released.sql("SELECT COUNT(*) AS n FROM patients WHERE \"number of visits\" = '0'")
    assert abs(often.rows[0][0] - sum(who not in {row[0] for row in visits} for who in sexes)) < 15
    kept = pd.DataFrame(visits, columns=["who", "ward", "day"]).assign(sex=lambda rows: rows.who.map(sexes))
    for join in ("ON v.who = p.who", "USING (who)"):
        text = f"SELECT p.sex, v.ward, COUNT(*) AS n FROM visits v JOIN patients p {join} GROUP BY p.sex, v.ward"
        joined = released.sql(text)
        assert joined.columns == ("sex", "ward", "n")
        for sex, ward, counted in joined.rows:
            true = ((kept.sex == sex) & (kept.ward == ward)).sum()
            assert abs(counted - true) < 60 + 0.3 * true  # a patient of four visits counts as one of three
    unqualified = released.sql("SELECT sex, COUNT(*) AS n FROM patients JOIN visits USING (who) GROUP BY sex")
    assert [key for key, _ in unqualified.rows] == ["f", "m"]
    assert {*released.quality()} == {*TABLES}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT COUNT(*) FROM visits v LEFT JOIN patients p ON v.who = p.who", "join"),
        ("SELECT COUNT(*) FROM visits v JOIN patients p ON v.day = p.age", "join"),
        ("SELECT COUNT(*) FROM visits v JOIN doctors d ON v.who = d.who", "join"),
        ("SELECT COUNT(*) FROM visits v JOIN patients p USING (who) WHERE p.name = 'x'", "unknown-column"),
        ("SELECT who, COUNT(*) FROM visits GROUP BY who", "unknown-column"),
        ("SELECT COUNT(*) FROM doctors", "unknown-table"),
    ],
)
def test_other_questions_are_refused(released: sf.SyntheticTables, text: str, code: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        released.sql(text)
    assert refusal.value.code == code
    assert refusal.value.fix


def test_visits_of_one_patient_and_their_drugs_keep_both_limits(tmp_path: Path) -> None:
    """Parents with several rows of one unit, by a foreign key, beyond both limits in the data."""
    generator = np.random.default_rng(3)
    visits = [
        (who, KEYS + 10 * who + number, "AB"[number % 2], number) for who in range(80) for number in range(who % 5)
    ]
    drugs = [(visit, "x" if ward == "A" else "y") for _, visit, ward, _ in visits for _ in range(generator.integers(4))]
    with curator(tmp_path, pharmacy_policy((visits, drugs))) as pharmacy:
        proposal = pharmacy.synthesize(["drugs", "visits"])
        assert (proposal.first_link.parent, proposal.first_link.child) == ("visits", "drugs")
        tables = proposal.release(epsilon=40).to_pandas(400)
    parents, children = tables["visits"], tables["drugs"]
    assert parents.visit.tolist() == list(range(1, 401))
    assert parents.groupby("who").size().max() == PARENTS
    assert {*parents.who} == {*range(1, parents.who.max() + 1)}
    joined = children.merge(parents, on="visit")
    assert len(joined) == len(children) > 0
    assert joined.groupby("who").size().max() <= LIMIT
    assert ((joined.ward == "A") == (joined.drug == "x")).mean() > 0.8


# ── before the purchase ──────────────────────────────────────────────────────────────────────────


def test_a_file_of_both_tables_names_neither_buyer_nor_remaining_budget(released: sf.SyntheticTables) -> None:
    own = replace(released, receipt=replace(released.receipt, share="ana", remaining="ε = 12.25 of 50"))
    again = sf.SyntheticTables.from_json(own.to_json())
    assert (again.receipt.share, again.receipt.question) == ("", released.receipt.question)
    assert "ana" not in own.to_json().split('"')
    assert "12.25" not in own.to_json()


def _promised(tables: sf.SyntheticTables, price: Price) -> bool | None:
    stated = replace(tables, price=price, receipt=replace(tables.receipt, guarantee=str(price)))
    return {check.name: check.holds for check in stated.verify().checks}["promise"]


def test_the_promise_is_that_of_both_models_together(released: sf.SyntheticTables) -> None:
    """ε = 30 was split: less than the sum is not kept, however much more than either of the two."""
    assert [_promised(released, Price(epsilon)) for epsilon in (31, 30, "29.999", 16)] == [True, True, False, False]
    other = replace(released, receipt=replace(released.receipt, guarantee=str(Price(31))))
    assert {check.name: check.holds for check in other.verify().checks}["promise"] is False


def test_everything_but_release_is_free(tmp_path: Path) -> None:
    with curator(tmp_path, clinic_policy(_far())) as clinic:
        proposal = clinic.synthesize(TABLES)
        assert isinstance(proposal, LinkedTablesProposal)
        text = str(proposal.explain(epsilon=1))
        assert ", of ε = " in text
        assert "visits are drawn given number of visits, patients.sex, patients.age" in text
        assert 0 < proposal.price(within=30) < proposal.price(within=10)
        forecast = proposal.forecast(epsilon=1)
        assert forecast.accepted
        assert forecast.seconds > 0
        preview = proposal.preview(epsilon=1, rows=200)
        assert preview.is_preview
        assert "none: this was a preview" in repr(preview)
        assert {*preview.to_pandas(20)} == {*TABLES}
        assert not any(line.kind in ("charge", "tab-open", "step") for line in clinic.history())


def test_the_same_request_gives_the_same_tables(tmp_path: Path) -> None:
    with curator(tmp_path, clinic_policy(_far())) as clinic:
        bought = [clinic.synthesize(TABLES).release(epsilon=2, request_id="one") for _ in range(2)]
        assert bought[0].parent.released.total == bought[1].parent.released.total
        assert bought[1].receipt.free
        assert clinic._context.account.spent["pure"] == 2


def test_tables_in_another_order_are_another_purchase(tmp_path: Path) -> None:
    """Even where both models are fitted to the same rows: an order without room for a previous child only sorts."""
    with curator(tmp_path, clinic_policy(_far())) as clinic:
        proposal = clinic.synthesize(TABLES)
        assert isinstance(proposal, LinkedTablesProposal)
        ordered = replace(proposal, links=(replace(proposal.first_link, order="day"),))
        assert ordered.plan_key.current != proposal.plan_key.current


def test_an_interrupt_before_children_are_counted_returns_nothing_and_frees_the_rest(tmp_path: Path) -> None:
    def stop_at_the_third_step(phase: str) -> None:
        if "round 2" in phase:
            raise KeyboardInterrupt

    with curator(tmp_path, clinic_policy(_far())) as clinic:
        with pytest.raises(KeyboardInterrupt):
            clinic.synthesize(TABLES).release(epsilon=2, progress=stop_at_the_third_step)
        assert 0 < clinic._context.account.spent["pure"] < 1
        assert not clinic._context.account.open_tabs()


def test_an_interrupt_after_children_are_counted_returns_tables_that_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[SynthesisState] = []
    begin = SynthesisState.__init__
    monkeypatch.setattr(SynthesisState, "__init__", lambda own, setting: (states.append(own), begin(own, setting))[1])

    def stop_among_the_childrens_rounds(phase: str) -> None:
        if "round" in phase and states[-1].has_model:
            raise KeyboardInterrupt

    with curator(tmp_path, clinic_policy(_far())) as clinic:
        tables = clinic.synthesize(TABLES).release(epsilon=2, progress=stop_among_the_childrens_rounds)
    assert (tables.parent.released.complete, tables.child.released.complete) == (True, False)


_NO_VALUES = {"name": {"type": "text"}}


def _hospital(**changes: Any) -> sf.Policy:
    """The clinic with further tables: of rows, of text without values, public ones and drugs by an undeclared key."""
    policy = clinic_policy(people(1, 5))
    wards = pa.table({"ward": ["A", "B"], "beds": [5, 6]})
    notes = pa.table({"who": [1], "name": ["x"]})
    drugs = pa.table({"who": [1], "drug": ["x"]})
    tables = {
        **policy.tables,
        "wards": sf.Table("wards", wards, public=True),
        "notes": sf.Table("notes", notes, _NO_VALUES, id="who", max_rows=2),
        "drugs": sf.Table("drugs", drugs, {"drug": {"values": ["x"]}}, id={"via": "notes", "on": "who"}, max_rows=2),
        "stays": sf.Table("stays", drugs, {"drug": {"values": ["x"]}}, id="who", max_rows=2),
    }
    return replace(policy, tables=tables, **changes)


@pytest.mark.parametrize("reached", ["between two steps", "while a step is checked"])
def test_a_time_limit_before_children_are_counted_frees_nothing(
    reached: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long the parents took to read may depend on their rows: neither the charge nor the words may."""
    release_step = TabSeries.release_step

    def checked_too_slowly(series: TabSeries, *arguments: Any) -> Any:
        if series._step_count:
            raise Unsupported("slow-check", "the check takes too long", fix="give it more time")
        return release_step(series, *arguments)

    if reached == "between two steps":
        monkeypatch.setattr(SynthesisStepRunner, "_remaining_seconds", lambda own: 0.0 if own.paid else 100.0)
    else:
        monkeypatch.setattr(TabSeries, "release_step", checked_too_slowly)
    with curator(tmp_path, clinic_policy(_far())) as clinic:
        with pytest.raises(Unanswered):
            clinic.synthesize(TABLES).release(epsilon=2, seconds=100)
        assert clinic._context.account.spent["pure"] == 2
        assert not clinic._context.account.open_tabs()


@pytest.mark.parametrize("rho", ["0.05", "0.1", "0.3"])
def test_a_price_that_is_kept_exactly_is_verified(tmp_path: Path, rho: str) -> None:
    with curator(tmp_path, clinic_policy(_far())) as clinic:
        tables = clinic.synthesize(TABLES).release(rho=rho)
        assert _promised(tables, Price(rho=rho)) is True
        assert _promised(tables, Price(rho=Fraction(rho) * Fraction("0.999"))) is False


@pytest.fixture(scope="module")
def uncharged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    """A curator that refuses, and is charged nothing."""
    with curator(tmp_path_factory.mktemp("hospital"), _hospital()) as clinic:
        yield clinic


@pytest.mark.parametrize(
    ("tables", "options", "rule"),
    [
        ([], {}, "two or more different tables"),
        (["patients"], {}, "two or more different tables"),
        (["patients", "patients"], {}, "two or more different tables"),
        (["patients", "visits", "visits"], {}, "two or more different tables"),
        (["visits", "patients", "stays"], {}, "one patient may have 3 rows in 'visits'"),
        (["patients", "visits", "stays"], {"order": "visits.drug"}, "order must be a column of visits or stays: "),
        (["patients", "visits", "stays"], {"given": ["visits.ward"]}, '"given" must be a list of columns of patients'),
        (
            ["patients", "visits", "stays"],
            {"columns": ["ward"]},
            "the column 'ward' must be written with the name of its table",
        ),
        (["patients", "doctors"], {}, "the policy has no table called doctors"),
        (["patients", "wards"], {}, "wards is public"),
        (["visits", "patients"], {}, "one patient may have 3 rows in 'visits'"),
        (["visits", "stays"], {}, "one patient may have 3 rows in 'visits'"),
        (["patients", "notes"], {}, "'name' of 'notes' cannot be counted by values or bins"),
        (["notes", "drugs"], {}, "but notes does not declare"),
        (["patients", "visits"], {"order": "who"}, "order must be a column of visits"),
        (["patients", "visits"], {"order": 3}, "order must be a column of visits"),
        (["patients", "visits"], {"given": ["ward"]}, '"given" must be a list of columns of patients'),
        (["patients", "visits"], {"given": "sex"}, '"given" must be a list of columns of patients'),
        (["patients", "visits"], {"columns": ["stays.drug"]}, "'stays.drug' is not a column of 'patients' or 'visits'"),
        (["patients", "visits"], {"columns": ["visits.who"]}, "'visits.who' is not a column of 'patients' or 'visits'"),
        (
            ["patients", "visits"],
            {"columns": "visits.ward"},
            'columns must be a list of columns such as ["visits.day"]',
        ),
        (["patients", "visits"], {"columns": []}, "columns must be a list of columns"),
        (["patients", "visits"], {"columns": {"visits": ["ward"]}}, "columns must be a list of columns"),
        (["patients", "visits"], {"method": "mst"}, "left out, because there are several tables"),
        (["patients", "visits"], {"where": "sex = 'f'"}, "left out, because there are several tables"),
        (["patients", "visits"], {"ways": 0}, "ways must be"),
        (["patients", "visits"], {"ways": [["sex"]]}, "ways must be a whole number"),
        (["patients", "visits"], {"memory": "much"}, "memory must be"),
    ],
)
def test_what_cannot_be_linked_is_refused_for_nothing(
    uncharged: sf.Curator, tables: list[str], options: dict[str, Any], rule: str
) -> None:
    with pytest.raises((InvalidParameter, Unsupported)) as refusal:
        uncharged.synthesize(tables, **options)
    assert rule in str(refusal.value)
    assert "place:" in str(refusal.value)
    assert not any(line.kind in ("charge", "tab-open") for line in uncharged.history())


def test_tables_of_other_units_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"sex": ["f"]})
    table = sf.Table("people", rows, {"sex": {"values": ["f", "m"]}}, id="row")
    other = replace(table, name="others")
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(1), {"people": table, "others": other})
    with curator(tmp_path, policy) as opened, pytest.raises(Unsupported, match="a unit of its own") as refusal:
        opened.synthesize(["people", "others"])
    assert refusal.value.code == "different-units"


def test_chosen_columns_and_given_ones(tmp_path: Path) -> None:
    with curator(tmp_path, clinic_policy(_far())) as clinic:
        options: dict[str, Any] = {"columns": ["visits.WARD"], "given": ["sex"]}
        proposal = clinic.synthesize(TABLES, **options)
        assert proposal.first_link.linked_columns == ("sex",)
        assert list(proposal.release(epsilon=2)["visits"].column_names) == ["who", "ward"]


def test_a_key_is_never_a_column_of_a_model(tmp_path: Path) -> None:
    """Even if the policy gives it bins: it would be drawn near the keys of the data."""
    policy = pharmacy_policy(([(1, 50, "A", 1)], [(50, "x")]))
    binned = {"type": "integer", "bounds": [0, 99], "bins": 10}
    tables = {name: replace(table, columns={**table.columns, "visit": binned}) for name, table in policy.tables.items()}
    with curator(tmp_path, replace(policy, tables=tables)) as pharmacy:
        link = pharmacy.synthesize(["visits", "drugs"]).first_link
    assert link.parent_columns == ("ward", "day")
    assert link.child_columns == ("drug",)


def test_the_command_prints_tables_that_are_read_again(tmp_path: Path) -> None:
    patients, visits = people(4, 40)
    pd.DataFrame(patients, columns=["who", "sex", "age"]).to_csv(tmp_path / "patients.csv", index=False)
    pd.DataFrame(visits, columns=["who", "ward", "day"]).to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "clinic.toml").write_text(_CLINIC)
    words = [tmp_path / "clinic.toml", "patients", "visits", "--epsilon", "1", "--delta", "1e-9", "--given", "sex"]
    explained = CliRunner().invoke(main, ["linked", *map(str, words), "--explain"])
    assert ", of ε = " in explained.stdout, explained.stderr
    done = CliRunner().invoke(main, ["linked", *map(str, words), "--json"])
    assert {*sf.SyntheticTables.from_json(done.stdout).to_pandas(3)} == {*TABLES}


_CLINIC = """
[unit]
name = "patient"
budget = { epsilon = 2.0, delta = 1e-6 }
[tables.patients]
source = "patients.csv"
id = "who"
max_rows = 1
columns = { sex = { values = ["f", "m"] } }
[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 3
columns = { ward = { values = ["A", "B"] } }
"""


# ── quality ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def planes() -> ModuleType:
    path = Path(__file__).parents[3] / "bench" / "synthesis_tables.py"
    spec = importlib.util.spec_from_file_location("synthesis_tables", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_planes_and_flights_fit_each_other_better_than_tables_made_alone(planes: ModuleType) -> None:
    """On real tables at ε = 4: errors across the link and of flights per plane are less than half of those without."""
    real = planes.read_tables()
    together, alone = planes.errors(real, planes.linked(real, "4")), planes.errors(real, planes.independent(real, "4"))
    assert together["link"] < alone["link"] / 2
    assert together["person"] < alone["person"] / 2
    assert together["table"] < 0.2
