"""An edit of the policy makes a bought answer cost again only if the question's answer depends on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.curator.context import Context
from sfumato.plan.canonical import digest
from sfumato.plan.relevant_policy import FIELDS, declarations_for_plan
from sfumato.policy import Domain, ListColumn, Policy, Table, Type, Via
from sfumato.policy.approval_rules import ApprovalRules
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.codings import Coding, Level
from sfumato.privacy import Budget, PrivacyUnit

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")

ROWS: dict[str, dict[str, list[Any]]] = {
    "patients": {"who": [1, 2, 3, 4], "pid": [11, 12, 13, 14], "born": [1950, 1960, 1970, 1980]},
    "visits": {
        "pid": [11, 11, 12, 13, 14],
        "region": ["north", "south", "north", "south", "north"],
        "age": [30, 31, 64, 20, 50],
        "cost": [10.0, 20.0, 5.0, 7.5, 30.0],
        "day": [1, 1, 2, 3, 3],
        "tags": [["a"], ["b"], [], ["a", "b"], ["b"]],
    },
    "bills": {"who": [1, 2, 3], "paid": [5, 6, 7], "kind": ["x", "y", "x"]},
    "regions": {"name": ["north", "south"], "people": [10, 20], "area": [1, 2]},
}
AGES = {"type": "integer", "bounds": [0, 99], "bins": [0, 40, 99], "levels": [[0, 99]], "spikes": [64]}


def make_policy(folder: Path) -> Policy:
    """Return a policy with two private tables of which one is owned through the other, an unrelated one, and a public
    one; every field that has a default is also declared somewhere.
    """
    for name, columns in ROWS.items():
        if not (folder / f"{name}.parquet").exists():
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    visits: dict[str, Any] = {
        "region": {"values": ["north", "south"]},
        "age": AGES,
        "cost": {"type": "real", "bounds": [0, 100], "grid": "0.5"},
        "day": {"type": "integer", "values": [1, 2, 3]},
        "tags": {"values": ["a", "b"], "most_items": 2},
    }
    bills = {"paid": {"type": "integer", "bounds": [0, 9]}, "kind": {"values": ["x", "y"]}}
    tables = (
        Table("patients", folder / "patients.parquet", {"born": {"type": "integer"}}, id="who", max_rows=1),
        Table(
            "visits",
            folder / "visits.parquet",
            visits,
            id=Via("patients", "pid"),
            max_rows=2,
            implies={"region": "age"},
        ),
        Table("bills", folder / "bills.parquet", bills, id="who", max_rows=3),
        Table(
            "regions",
            folder / "regions.parquet",
            {"name": {"type": "text"}, "people": {"type": "integer"}},
            public=True,
        ),
    )
    return Policy(PrivacyUnit("patient"), Budget(1000, "1e-6"), {table.name: table for table in tables}, path=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("edits")


@pytest.fixture(scope="module")
def policy(folder: Path) -> Policy:
    return make_policy(folder)


BY_REGION, OF_BILLS = "by region", "of bills"
JOINED, UNNESTED, CELLS = "joined", "unnested", "cells"
SQL = {
    BY_REGION: "SELECT region, COUNT(*) AS n FROM visits GROUP BY region",
    OF_BILLS: "SELECT SUM(paid) AS s FROM bills WHERE kind = 'x'",
    JOINED: "SELECT COUNT(*) AS n FROM visits JOIN regions ON visits.region = regions.name WHERE regions.people > 5",
    UNNESTED: "SELECT tag, COUNT(*) AS n FROM visits CROSS JOIN UNNEST(visits.tags) AS t(tag) GROUP BY tag",
}
OF_VISITS = {BY_REGION, JOINED, UNNESTED, CELLS}
EVERY = {*OF_VISITS, OF_BILLS}


@pytest.fixture(scope="module")
def plans(policy: Policy, folder: Path) -> Iterator[Mapping[str, Any]]:
    """The plans of questions of the policy as it was, before any edit."""
    with sf.open(policy, ledger=folder / "plans.db") as curator:
        plans = {name: curator.sql(text).query.plan for name, text in SQL.items()}
        yield {**plans, CELLS: curator.marginals("visits", [["region", "age"]]).query.plan}


def relevant_hash(plans: Mapping[str, Any], name: str, policy: Policy) -> str:
    return digest(declarations_for_plan(plans[name], policy, reads_cells=name == CELLS))


Edit = Callable[[Policy], Policy]


def table(name: str, /, **changes: Any) -> Edit:
    return lambda policy: replace(policy, tables={**policy.tables, name: replace(policy.tables[name], **changes)})


def entry(name: str, field: str, column: str, change: Callable[[Any], Any]) -> Edit:
    """Change what one field of a table declares about one column."""

    def edit(policy: Policy) -> Policy:
        declared = getattr(policy.tables[name], field)
        return table(name, **{field: {**declared, column: change(declared.get(column))}})(policy)

    return edit


def domain(name: str, column: str, /, **changes: Any) -> Edit:
    return entry(name, "columns", column, lambda declared: replace(declared, **changes))


def coding(**changes: Any) -> Edit:
    return entry("visits", "codings", "age", lambda declared: replace(declared, **changes))


def level(**changes: Any) -> Edit:
    return entry(
        "visits", "codings", "age", lambda declared: replace(declared, levels=(replace(declared.levels[0], **changes),))
    )


def unit(**changes: Any) -> Edit:
    return lambda policy: _unchecked(policy, unit=replace(policy.unit, **changes))


def _unchecked(policy: Policy, **changes: Any) -> Policy:
    """Edit fields that are only valid together with others: here each of them is looked at by itself."""
    edited = object.__new__(Policy)
    for field in dataclasses.fields(Policy):
        object.__setattr__(edited, field.name, changes.get(field.name, getattr(policy, field.name)))
    return edited


def whole(**changes: Any) -> Edit:
    return lambda policy: _unchecked(policy, **changes)


def budget(**changes: Any) -> Edit:
    return lambda policy: replace(policy, budget=Budget(**{"epsilon": 1000, "delta": "1e-6"} | changes))


def unchecked_table(name: str, /, **changes: Any) -> Edit:
    def edit(policy: Policy) -> Policy:
        edited = object.__new__(Table)
        for field in dataclasses.fields(Table):
            value = getattr(policy.tables[name], field.name)
            object.__setattr__(edited, field.name, changes.get(field.name, value))
        return _unchecked(policy, tables={**policy.tables, name: edited})

    return edit


def spent(field: str) -> Edit:
    return budget(**{field: 10**20})


NOBODY: set[str] = set()
EDITS: dict[tuple[type, str], list[tuple[Edit, set[str]]]] = {
    (Policy, "unit"): [(whole(unit=PrivacyUnit("person")), EVERY)],
    (Policy, "budget"): [(budget(epsilon=2000), NOBODY)],
    (Policy, "tables"): [
        (lambda policy: replace(policy, tables=dict(reversed(policy.tables.items()))), NOBODY),
        (lambda policy: replace(policy, tables={n: t for n, t in policy.tables.items() if n != "bills"}), {OF_BILLS}),
    ],
    (Policy, "size"): [(lambda policy: replace(policy, size=4), NOBODY)],
    (Policy, "analysts"): [(lambda policy: replace(policy, analysts={"ana": "0.5"}), NOBODY)],
    (Policy, "path"): [(whole(path=Path("clinic.toml")), NOBODY)],
    (Policy, "id_type"): [(lambda policy: replace(policy, id_type="text"), EVERY)],
    (Policy, "per"): [(whole(per="month"), EVERY)],
    (Policy, "account"): [(lambda policy: replace(policy, account="clinic"), NOBODY)],
    (Policy, "ledger"): [(lambda policy: replace(policy, ledger="postgresql://host/ledger"), NOBODY)],
    (Policy, "allow_large_delta"): [(lambda policy: replace(policy, allow_large_delta=True), NOBODY)],
    (Policy, "approval"): [(lambda policy: replace(policy, approval=ApprovalRules(above="0.5")), NOBODY)],
    (PrivacyUnit, "name"): [(unit(name="person"), EVERY)],
    (PrivacyUnit, "every_row"): [(unit(every_row=True), EVERY)],
    (PrivacyUnit, "period"): [(unit(period="day"), EVERY)],
    (PrivacyUnit, "path"): [(unit(path=("pid",)), EVERY)],
    (PrivacyUnit, "period_column"): [(unit(period="day", period_column="day"), EVERY)],
    (Budget, "epsilon"): [(budget(epsilon=2), NOBODY)],
    (Budget, "delta"): [(budget(delta="1e-7"), NOBODY)],
    (Budget, "reserve"): [(budget(reserve="1e-8"), NOBODY)],
    (Budget, "order"): [(budget(order=3), NOBODY)],
    (Budget, "neighbours"): [(lambda policy: budget(neighbours="replace")(replace(policy, size=4)), EVERY)],
    (Budget, "spent_pure"): [(spent("spent_pure"), NOBODY)],
    (Budget, "spent_renyi"): [(spent("spent_renyi"), NOBODY)],
    (Budget, "spent_failure"): [(spent("spent_failure"), NOBODY)],
    (Budget, "allowances"): [(budget(epsilon=3), NOBODY)],  # computed from the others
    (Table, "name"): [(unchecked_table("visits", name="calls"), OF_VISITS)],
    (Table, "source"): [
        (table("visits", source="elsewhere.parquet"), NOBODY)
    ],  # the data have an identity of their own
    (Table, "columns"): [
        (entry("visits", "columns", "height", lambda _: Domain("integer")), NOBODY),
        (domain("visits", "cost", bounds=(0, 50)), NOBODY),
        (domain("bills", "paid", bounds=(0, 50)), {OF_BILLS}),
        (domain("regions", "people", bounds=(0, 50)), {JOINED}),
        (domain("regions", "name", max_length=5), {JOINED}),
        (entry("regions", "columns", "area", lambda _: Domain("integer")), NOBODY),
        (entry("visits", "columns", "pid", lambda _: Domain("integer")), OF_VISITS),
        (entry("patients", "columns", "pid", lambda _: Domain("integer")), OF_VISITS),
        (entry("patients", "columns", "who", lambda _: Domain("integer")), OF_VISITS),
        (domain("patients", "born", bounds=(1900, 2000)), NOBODY),
    ],
    (Table, "rules"): [
        (table("visits", rules={"cost": CellRules(nulls=("NA",))}), NOBODY),
        (table("visits", rules={"region": CellRules(nulls=("NA",))}), {BY_REGION, JOINED, CELLS}),
        (table("visits", rules={"cost": CellRules(possible=(-1, 200))}), NOBODY),
        (table("bills", rules={"paid": CellRules(possible=(-1, 200))}), {OF_BILLS}),
    ],
    (Table, "nulls"): [(table("visits", nulls=("NA",)), OF_VISITS), (table("bills", nulls=("NA",)), {OF_BILLS})],
    (Table, "id"): [
        (table("visits", id="pid"), OF_VISITS),
        (table("patients", id="pid"), OF_VISITS),
        (table("bills", id=Via("patients", "who")), {OF_BILLS}),
    ],
    (Table, "max_rows"): [(table("visits", max_rows=3), OF_VISITS), (table("bills", max_rows=1), {OF_BILLS})],
    (Table, "max_groups"): [(table("visits", max_groups=1), OF_VISITS), (table("bills", max_groups=1), {OF_BILLS})],
    (Table, "max_rows_per_group"): [(table("visits", max_rows_per_group=1), OF_VISITS)],
    (Table, "possible_rows"): [
        (table("patients", possible_rows=9), OF_VISITS),
        (table("bills", possible_rows=9), {OF_BILLS}),
    ],
    (Table, "public"): [
        (unchecked_table("visits", public=True), OF_VISITS),
        (unchecked_table("bills", public=True), {OF_BILLS}),
    ],
    (Table, "relation"): [
        (unchecked_table("visits", relation="main.visits"), OF_VISITS),
        (unchecked_table("patients", relation="p"), OF_VISITS),
    ],
    (Table, "row_ceiling"): [(table("visits", row_ceiling=1000), NOBODY)],
    (Table, "period"): [
        (unchecked_table("visits", period="day"), OF_VISITS),
        (unchecked_table("patients", period="day"), OF_VISITS),
    ],
    (Table, "lists"): [
        (entry("visits", "lists", "notes", lambda _: ListColumn(Domain("text"), 3)), NOBODY),
        (entry("bills", "lists", "notes", lambda _: ListColumn(Domain("text"), 3)), NOBODY),
    ],
    (Table, "codings"): [
        (entry("visits", "codings", "cost", lambda _: Coding((0,), 100)), NOBODY),
        (table("visits", codings={}, implies={}), {CELLS}),
        (entry("bills", "codings", "paid", lambda _: Coding((0, 5), 9)), NOBODY),
    ],
    (Table, "impossible"): [
        (table("visits", impossible=("age = 99 AND region = 'north'",)), {CELLS}),
        (table("bills", impossible=("kind = 'x' AND kind = 'y'",)), NOBODY),
    ],
    (Table, "implies"): [(table("visits", implies={}), {CELLS})],
    (Via, "via"): [(unchecked_table("visits", id=Via("bills", "pid")), OF_VISITS)],
    (Via, "on"): [(unchecked_table("visits", id=Via("patients", "age", "pid")), OF_VISITS)],
    (Via, "key"): [(unchecked_table("visits", id=Via("patients", "pid", "who")), OF_VISITS)],
    (Domain, "type"): [(domain("bills", "paid", type=Type.REAL), {OF_BILLS})],
    (Domain, "bounds"): [(domain("visits", "age", bounds=(0, 120)), {CELLS})],
    (Domain, "values"): [
        (domain("visits", "region", values=("north", "south", "west")), {BY_REGION, JOINED, CELLS}),
        (domain("bills", "kind", values=("x",)), {OF_BILLS}),
    ],
    (Domain, "grid"): [(domain("visits", "cost", grid="0.1"), NOBODY)],
    (Domain, "nullable"): [(domain("visits", "region", nullable=True), {BY_REGION, JOINED, CELLS})],
    (Domain, "max_length"): [(domain("regions", "name", max_length=9), {JOINED})],
    (Domain, "other"): [(domain("visits", "region", other="west"), {BY_REGION, JOINED, CELLS})],
    (Domain, "max_letters"): [(domain("regions", "name", max_length=8), {JOINED})],  # computed from the others
    (ListColumn, "items"): [
        (entry("visits", "lists", "tags", lambda tags: replace(tags, items=Domain("text", values=("a",)))), {UNNESTED})
    ],
    (ListColumn, "max_items"): [
        (entry("visits", "lists", "tags", lambda tags: replace(tags, max_items=1)), {UNNESTED})
    ],
    (Coding, "starts"): [(coding(starts=(0, 50)), {CELLS})],
    (Coding, "end"): [(coding(end=98), {CELLS})],
    (Coding, "levels"): [(coding(levels=()), {CELLS})],
    (Coding, "spikes"): [(coding(spikes=(18,)), {CELLS})],
    (Level, "parts"): [(level(parts=(0, 0, 1)), {CELLS})],
    (Level, "name"): [(level(name="life"), {CELLS})],
    (Level, "labels"): [(level(labels=("all",)), {CELLS})],
}


def classes_in(value: object) -> Iterator[type]:
    """Iterate over the classes of all values of which a policy consists, without where its rows are."""
    if isinstance(value, Mapping):
        yield from (kind for part in value.values() for kind in classes_in(part))
    elif isinstance(value, tuple):
        yield from (kind for part in value for kind in classes_in(part))
    elif dataclasses.is_dataclass(value):
        yield type(value)
        names = [field.name for field in dataclasses.fields(value) if field.name not in ("source", "allowances")]
        yield from (kind for name in names for kind in classes_in(getattr(value, name)))


def test_every_field_of_a_policy_is_edited(policy: Policy) -> None:
    fields = {(kind, field.name) for kind in classes_in(policy) for field in dataclasses.fields(kind)}
    assert fields == set(EDITS), "add an edit of every new field, and classify fields of Policy, Budget and Table"
    for kind in FIELDS:
        assert set(FIELDS[kind]) == {field.name for field in dataclasses.fields(kind)}, kind


@pytest.mark.parametrize(
    ("edit", "paying"),
    [
        pytest.param(*case, id=f"{kind.__name__}.{name} {i}")
        for (kind, name), cases in EDITS.items()
        for i, case in enumerate(cases)
    ],
)
def test_an_edit_counts_for_the_questions_it_concerns(
    edit: Edit, paying: set[str], policy: Policy, plans: Mapping[str, Any]
) -> None:
    edited = edit(policy)
    asked = EVERY & {name for name in plans if name != OF_BILLS or "bills" in edited.tables}
    changed = {name for name in asked if relevant_hash(plans, name, policy) != relevant_hash(plans, name, edited)}
    assert changed == paying & asked


LATER_TABLE: Any = dataclasses.make_dataclass(
    "LaterTable", [("later", tuple, dataclasses.field(default=()))], bases=(Table,), frozen=True
)
LATER_DOMAIN: Any = dataclasses.make_dataclass(
    "LaterDomain", [("nulls", tuple, dataclasses.field(default=(), compare=False))], bases=(Domain,), frozen=True
)


def with_nulls(policy: Policy, nulls: tuple[str, ...]) -> Policy:
    """Return the policy of a later version, whose tables have one more field."""
    visits = object.__new__(LATER_TABLE)
    for field in dataclasses.fields(Table):
        object.__setattr__(visits, field.name, getattr(policy.tables["visits"], field.name))
    object.__setattr__(visits, "later", nulls)
    return _unchecked(policy, tables={**policy.tables, "visits": visits})


def test_a_field_that_nobody_classified_counts(policy: Policy, plans: Mapping[str, Any]) -> None:
    """What later versions add counts as soon as it is declared, in the key and in the version of the policy."""
    undeclared, declared = with_nulls(policy, ()), with_nulls(policy, ("NA",))
    assert relevant_hash(plans, BY_REGION, undeclared) == relevant_hash(plans, BY_REGION, policy)
    assert relevant_hash(plans, BY_REGION, declared) != relevant_hash(plans, BY_REGION, policy)
    assert relevant_hash(plans, OF_BILLS, declared) == relevant_hash(plans, OF_BILLS, policy)
    versions = [_version(each) for each in (policy, undeclared, declared)]
    assert versions[0] == versions[1] != versions[2]


def test_where_a_later_field_is_declared_the_owners_of_all_tables_count(
    policy: Policy, plans: Mapping[str, Any]
) -> None:
    """Rules about cells may leave out the columns through which rows of other tables get an owner."""
    edit = table("bills", id=Via("visits", "paid", "day"))
    for before, is_same in ((policy, True), (with_nulls(policy, ("NA",)), False)):
        after = (
            edit(before)
            if is_same
            else _unchecked(before, tables={**edit(policy).tables, "visits": before.tables["visits"]})
        )
        assert (relevant_hash(plans, BY_REGION, before) == relevant_hash(plans, BY_REGION, after)) is is_same


def test_a_field_of_a_column_counts_even_if_it_is_not_compared(policy: Policy, plans: Mapping[str, Any]) -> None:
    def parts(*nulls: str) -> Any:
        region = LATER_DOMAIN("text", values=("north", "south"), nulls=nulls)
        edited = unchecked_table("visits", columns={**policy.tables["visits"].columns, "region": region})(policy)
        return declarations_for_plan(plans[BY_REGION], edited, reads_cells=False)

    assert parts() == parts()
    assert parts("NA") != parts()


def _version(policy: Policy) -> str:
    return Context(policy, None, None, print, "").policy_version  # type: ignore[arg-type]


# ── with a ledger ───────────────────────────────────────────────────────────────────────────────

PROPOSALS: dict[str, Callable[[sf.Curator], Any]] = {
    **{name: lambda curator, text=text: curator.sql(text) for name, text in SQL.items()},
    CELLS: lambda curator: curator.marginals("visits", [["region", "age"]]),
    "workload": lambda curator: curator.workload({"a": SQL[BY_REGION], "b": "SELECT SUM(cost) AS s FROM visits"}),
    "limits": lambda curator: curator.limits("visits"),
    "bounds": lambda curator: curator.bounds("visits", "cost"),
    "running": lambda curator: curator.running("SELECT day, COUNT(*) AS n FROM visits GROUP BY day"),
}
IRRELEVANT: tuple[Edit, ...] = (
    entry("bills", "codings", "paid", lambda _: Coding((0, 5), 9)),
    domain("bills", "paid", bounds=(0, 20)),
    domain("patients", "born", bounds=(1900, 2000)),
    entry("regions", "columns", "area", lambda _: Domain("integer")),
    table("visits", row_ceiling=1000),
    lambda policy: replace(policy, size=4, analysts={"ana": "0.5"}),
)


def bought(policy: Policy, ledger: Path, names: set[str]) -> dict[str, bool]:
    """Release proposals, and return whether each was charged."""
    charged = {}
    with sf.open(policy, ledger=ledger) as curator:
        for name in sorted(names):
            before = len(list(curator.history()))
            PROPOSALS[name](curator).release(epsilon=1)
            charged[name] = len(list(curator.history())) > before
    return charged


def test_what_was_bought_stays_free_after_unrelated_edits(policy: Policy, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    names = set(PROPOSALS) - {OF_BILLS}
    assert all(bought(policy, ledger, names).values())
    for edit in IRRELEVANT:
        policy = edit(policy)
    assert not any(bought(policy, ledger, names).values())


def test_what_was_bought_costs_again_after_edits_that_concern_it(policy: Policy, tmp_path: Path) -> None:
    ledger, names = tmp_path / "ledger.db", {BY_REGION, CELLS, "workload", "running", "limits"}
    bought(policy, ledger, names)
    assert bought(table("visits", max_rows=3)(policy), ledger, names) == dict.fromkeys(names, True)
    assert bought(table("patients", id="pid")(policy), ledger, names) == dict.fromkeys(names, True)
    wider = domain("visits", "region", values=("north", "south", "west"))(policy)
    assert all(bought(wider, ledger, {CELLS, "workload"}).values())
    assert not any(bought(wider, ledger, {"limits", "running"}).values())
    pq.write_table(pa.table(ROWS["bills"]).slice(1), tmp_path / "bills.parquet")
    assert all(bought(table("bills", source=tmp_path / "bills.parquet")(policy), ledger, names).values())


def test_a_count_of_clamped_cells_is_bought_again_when_the_rules_of_its_column_change(tmp_path: Path) -> None:
    """It reads the column without its bounds, under another name."""
    pq.write_table(pa.table({"who": range(100), "cost": ["999"] * 60 + ["1"] * 40}), tmp_path / "a.parquet")

    def clamped(**rules: Any) -> tuple[float, bool]:
        column = {"type": "integer", "bounds": (0, 10), **rules}
        declared = Table("a", tmp_path / "a.parquet", {"cost": column}, id="who", max_rows=1)
        policy = Policy(PrivacyUnit("person"), Budget(1000), {"a": declared}, account="account")
        with sf.Curator(policy, tmp_path / "ledger") as curator:
            cut = curator.sql("SELECT AVG(cost) AS m FROM a").clipped().release(epsilon=20).answers[1]
        return cut.rows[0][1], cut.receipt.free

    assert clamped() == (60, False)
    assert clamped() == (60, True)
    assert clamped(nulls=["999"]) == (0, False)
