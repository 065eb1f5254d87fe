"""Whoever is in the table: one outcome, text, columns, keys, order, statements and charge; and only our own SQL.

The noise is replaced by nothing at all (every noisy total is 0, every choice by ranks the least value), so that
whatever still differs between two tables is a dependence on people outside the one place where noise is added.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from safety.hostile import INJECTIONS, MARK, QUESTIONS
from safety.places import HERE, Place, log, sent
from safety.worlds import FIRST, REGIONS, Row, World
from sfumato.curator.curators import Curator
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.postgres import stored_relations
from sfumato.errors import SfumatoError
from sfumato.mechanisms import Quantiles

pytestmark = pytest.mark.timeout(3600)
_COLUMNS = {
    "region": {"values": list(REGIONS)},
    "age": {"type": "integer", "bounds": [0, 110]},
    "cost": {"type": "real", "bounds": [0, 5000], "grid": "0.01"},
    "flag": {"type": "boolean"},
    "code": {"values": [1, 2, 3]},
    "day": {"type": "date", "bounds": [FIRST, FIRST.replace(month=2)]},
    "note": {"type": "text"},
}
_STORED = {
    "who": pa.int64(),
    "region": pa.string(),
    "age": pa.float64(),
    "cost": pa.float64(),
    "flag": pa.bool_(),
    "code": pa.int64(),
    "day": pa.date32(),
    "note": pa.string(),
}
_PLACES = pa.table({"region": ["north", "north", "south"], "kind": ["big", "small", "big"], "weight": [1, 2, 3]})
_PLAIN: Row = {"region": "north", "age": 40, "cost": 12.5, "flag": True, "code": 1, "day": FIRST, "note": "5"}
_SEVEN: Row = {**_PLAIN, "age": 7, "cost": 0.0, "code": 2, "note": "abc"}
_WILD: Row = {**_PLAIN, "age": float("inf"), "cost": float("nan"), "day": FIRST.replace(year=9999), "note": "1e999"}
_NULL: Row = dict.fromkeys(_PLAIN)
_OTHERS = [{"who": who, **_PLAIN} for who in range(5)]
TABLES: dict[str, list[Row]] = {
    "nobody": [],
    "one person": [{"who": 9, **_PLAIN}],
    "others, and one with wild cells who makes divisors zero": [
        *_OTHERS,
        *({"who": 9, **cells} for cells in (_SEVEN, _WILD, {**_NULL, "note": "a" * 3000})),
    ],
    "others, and one with many rows": [*_OTHERS, *[{"who": 9, **_SEVEN}] * 2000],
}


Turn = Callable[[Sequence[str], int], Sequence[str]]
RELATIONS = ("add-remove units", "replace units", "add-remove rows")


@pytest.fixture(scope="module", params=RELATIONS)
def curators(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    place: Place,
) -> Iterator[list[Curator]]:
    relation, kind = request.param.split()
    made = World(kind == "units", (5, 3, 2), _COLUMNS, _STORED, {"places": _PLACES}, ())
    folder: Path = tmp_path_factory.mktemp("outcomes")
    found = [
        Curator(place.moved(made.policy(rows, relation)), folder / f"{index}.ledger")
        for index, rows in enumerate(TABLES.values())
    ]
    yield found
    for each in found:
        each.close()


@pytest.fixture
def turn(request: pytest.FixtureRequest, long: bool) -> Turn:
    """Every so manieth text, or all in the long run: others under each relation, as none decides what is sent."""
    place = RELATIONS.index(request.node.callspec.params["curators"])
    return lambda texts, step: texts if long else texts[place * step // len(RELATIONS) :: step]


def silenced(_: Any, exact: Any) -> Any:
    """In place of the noise: nothing of the totals is left."""
    return 0 * exact


_choose_groups = Quantiles.choose_groups


def least_chosen(mechanism: Quantiles, values: Any) -> Any:
    """In place of the choice, which is made all the same: the least value that can be chosen."""
    return 0 * _choose_groups(mechanism, values) + mechanism.bounds[0]


@pytest.fixture(autouse=True)
def _silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.release.measurement.add_noise", silenced)
    monkeypatch.setattr(Quantiles, "choose_groups", least_chosen)
    monkeypatch.setattr("sfumato.release.releasing.bits", SimpleNamespace(random_bits=lambda _: 7))


_READ = {"DuckDB": "sf copy of people", "PostgreSQL": '"rows"."people"'}
"""What a statement that reads private rows names."""
_MOMENTARY = ("time", "hash", "line")
"""Not compared: when and where an answer was written down, and the version of the data, which differs by its nature."""
_NAMED = ("policy",)
"""Not compared on a server, where each table has a name of its own: the policy's hash, which is in that of a plan."""


def outcome(curator: Curator, text: str, *, explained: bool = True, **price: Any) -> dict[str, Any]:
    """Return everything an analyst can see of a question, and what was sent to the engine for it; its explanation too
    where it is ``explained``.
    """
    engine: Any = curator._context.engine
    here = isinstance(engine, DuckDB)
    log(engine).clear()
    before, spent = len(list(curator.ledger)), curator.budget.remaining
    seen: dict[str, Any] = {}
    try:
        question = curator.sql(text)
        if explained:
            seen["explained"] = str(question.explain()), str(question.error(epsilon=1))
        answer = question.release(fresh=True, **price)
        left_out = _MOMENTARY if here else (*_MOMENTARY, *_NAMED)
        receipt = {name: value for name, value in vars(answer.receipt).items() if name not in left_out}
        seen["answer"] = answer.columns, answer.rows, answer.intervals, answer.keys, receipt
    except SfumatoError as error:
        seen["refused"] = type(error).__name__, getattr(error, "code", None), str(error)
    left = curator.budget.remaining
    seen["charged"] = {name: spent[name] - left[name] for name in left}
    lines = list(curator.ledger)[before:]
    seen["lines"] = [(line.kind, line.question, line.plan if here else "") for line in lines]
    seen["statements"] = sent(engine)
    return seen


def same(curators: list[Curator], text: str, *, explained: bool = True, **price: Any) -> dict[str, Any]:
    """Return the one outcome of a question, whichever table it is asked of. An explanation reads no row: it is compared
    between the first table and the last, which are furthest apart.
    """
    ends = (curators[0], curators[-1])
    found = [outcome(curator, text, explained=explained and curator in ends, **price) for curator in curators]
    first, *_, last = found
    assert first.pop("explained", None) == last.pop("explained", None), text
    for index, other in enumerate(found):
        assert repr(other) == repr(first), (text, index)
    return first


def test_one_outcome_whoever_is_in_the_table(
    curators: list[Curator],
    turn: Turn,
    place: Place,
    long: bool,
) -> None:
    """Every third question is explained too, or all in the long run: that takes as long as asking it."""
    asked = turn(QUESTIONS, 81 if place is HERE else 160)
    found = [same(curators, text, explained=long or not at % 3, epsilon="0.001") for at, text in enumerate(asked)]
    answered = sum("answer" in each for each in found)
    assert answered > len(asked) * 0.3
    for each in found:
        assert "Unanswered" not in str(each.get("refused")), each
        assert bool(any(each["charged"].values())) == ("answer" in each), each
        assert "answer" not in each or any(_READ[place.name] in sent for sent in each["statements"]), each


def test_a_refusal_reads_no_row_and_costs_nothing(
    curators: list[Curator],
    long: bool,
    place: Place,
) -> None:
    """Nothing is sent but questions about declared values and public tables."""
    for text in QUESTIONS[:: 1 if long else 5 * place.share]:
        try:
            curators[0].sql(text).bounding_options  # noqa: B018
        except SfumatoError:
            for curator in curators[::3]:
                found = outcome(curator, text, epsilon="0.001")
                assert "refused" in found
                assert not found["lines"]
                assert not any(_READ[place.name] in each for each in found["statements"]), found["statements"]


def test_gaussian_and_rho_prices_too(curators: list[Curator]) -> None:
    for price in ({"epsilon": "0.1", "delta": "1e-9", "mechanism": sf.Gaussian}, {"rho": "1e-4"}):
        text = "SELECT region, COUNT(*), AVG(LEAST(1 / (age + 1), 2)) FROM people GROUP BY region"
        assert "answer" in same(curators, text, explained=False, **price)


_HERE = (
    "SELECT system_identifier::text, d.datname::text, d.oid::text FROM pg_control_system(), pg_database AS d "
    "WHERE d.datname = current_database()"
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_OURS = """
    abs all and array_to_string as between bigint boolean by case cast ceil coalesce concat_ws contains count cross
    date date_diff date_part date_trunc dense_rank distinct double else end enum epoch_us exp false floor from greatest
    group having hugeint in inner is join lambda last least left length like list_transform ln lower ltrim max md
    not null nulls on or order over partition piece power prepare regexp_full_match replace round row_number rtrim
    select sf_unit sign sqrt string_split substr sum then timestamp to_days to_months
    to_years trim true trunc try_cast union upper values varchar when where with
    a b c d e g h i j n q r s t u x y z range to_hours integer make_timestamp regexp_matches
    current desc exists first following lag lead min preceding rank row rows unbounded
"""
_OURS += """
    array as bigint btrim c collate concat_ws costs div double explain extract epoch generate_series interval
    m numeric off offset precision sf text timestamptz zone at time date_trunc unnest second month hour day year
    dow doy escape float isodow minute nullif pg_catalog week quarter
"""
"""What PostgreSQL's statements have beside these."""
_OURS += " collate isnan materialized sf_row sf_scan strlen "
"""What clean scans have beside these."""
_CATALOG = (
    stored_relations._RELATION_SQL,
    stored_relations._COLUMNS_SQL,
    stored_relations._DEPENDENCIES_SQL,
    stored_relations._OIDS_SQL,
    _HERE,
)
"""Constant statements, which look at what a server has."""
_NUMBERS = re.compile(r"\b[0-9][0-9.]*(e[+-]?[0-9]+)?|\b[abcdklnptvwx][0-9]+\b|(?<=md)5")
_LIST = re.compile(r"CAST\(\$[1-9][0-9]? AS [A-Z ]+\[\]\)")
"""A list of public values that is handed over as a parameter."""


def test_every_statement_is_one_we_generated(
    curators: list[Curator],
    turn: Turn,
    place: Place,
) -> None:
    """Outside quoted texts and declared names there are only our own words; what an attacker wrote is quoted."""
    for text in [*turn(INJECTIONS, 3 * place.share), *turn(QUESTIONS, 72 * place.share)]:
        only_ours(outcome(curators[3], text, epsilon="0.001"))


def only_ours(found: dict[str, Any]) -> None:
    """Every statement that was sent for a question is made of our own words."""
    for statement in found["statements"]:
        if statement in _CATALOG:
            continue
        assert MARK not in _LITERAL.sub("''", statement), statement
        bare = _LIST.sub(" ", _QUOTED.sub(" ", statement))
        assert not set(bare) & set(";$\\@?#`'\"{}"), statement
        assert "--" not in bare, statement
        assert "/*" not in bare, statement
        words = set(re.findall(r"[a-z_]+", _NUMBERS.sub(" ", bare.lower())))
        assert words <= set(_OURS.split()), (words - set(_OURS.split()), statement)


def test_the_log_is_not_empty(curators: list[Curator], place: Place) -> None:
    """A marked text does reach the engine, quoted: the check above looks at something."""
    text = f"SELECT COUNT(*) FROM people WHERE note = 'asked once {MARK}'"
    sent = outcome(curators[3], text, epsilon="0.001")["statements"]
    *_, bound, run = (each for each in sent if each not in _CATALOG)
    assert bound.endswith(run)
    assert bound.startswith(run if place is HERE else "EXPLAIN ")
    assert f"'asked once {MARK}'" in run
