"""Synopses that were bought answer questions to the curator: for nothing, and as the curator would."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sfumato as sf
from ledger.small_accounts import script
from sfumato.cli import main
from sfumato.curator.proposals import bought_synopses
from sfumato.curator.proposals.marginals import MarginalsProposal
from sfumato.errors import InvalidParameter, LedgerDamaged, Unsupported
from sfumato.ledger import Account, Publication
from sfumato.plan.canonical import PlanKey
from sfumato.publish.marginals.measuring import MarginalsRelease

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")

COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"], "nullable": True},
    "age": {"type": "integer", "bounds": [0, 99], "bins": [0, 18, 40, 65, 99]},
    "smokes": {"type": "boolean"},
    "day": {"type": "date", "bounds": ["2024-01-01", "2024-04-30"], "bins": "month"},
    "town": {"values": ["a", "b", "c"]},
    "age_level_1": {"values": [1, 2]},
}
STORED = (pa.int64(), pa.string(), pa.int64(), pa.bool_(), pa.date32(), pa.string(), pa.int64())
SETS = [["sex", "age"], ["age", "smokes"], ["sex", "day"]]
RHO = 10**6
"""So dear that noise is below half a row."""


def table(rows: int = 300, seed: int = 5) -> pa.Table:
    """Rows with values that are missing, that nobody declared, and beyond their bounds."""
    draw = Random(seed)
    first = dt.date(2024, 1, 1)
    found = [
        (
            each // 3,
            draw.choice(["f", "m", "x", None]),
            draw.choice([-5, 0, 17, 18, 39, 64, 65, 99, 120, None]),
            draw.choice([True, False, None]),
            draw.choice([None, first + dt.timedelta(draw.randint(-20, 150))]),
            draw.choice(["a", "b", "z"]),
            draw.choice([1, 2]),
        )
        for each in range(rows)
    ]
    cells = zip(("who", *COLUMNS), zip(*found, strict=True), STORED, strict=True)
    return pa.table({name: pa.array(each, kind) for name, each, kind in cells})


def policy(*, units: bool = False, data: pa.Table | Path | str | None = None, **more: Any) -> sf.Policy:
    limits = {"max_rows": 3} if units else {}
    people = sf.Table("people", table() if data is None else data, COLUMNS, id="who" if units else "row", **limits)
    unit = sf.PrivacyUnit("person", every_row=not units)
    return sf.Policy(unit, sf.Budget(10**7, "1e-6"), {"people": people}, **more)


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[sf.Curator]:
    with sf.open(policy(), ledger=tmp_path / "ledger.db") as opened:
        yield opened


def spent(curator: sf.Curator) -> Any:
    return curator._context.account.spent


QUESTIONS = [
    "SELECT COUNT(*) AS n FROM people",
    "SELECT COUNT(*) AS n FROM people WHERE age >= 18 AND sex = 'f'",
    "SELECT COUNT(*) AS n FROM people WHERE age < 18 OR smokes",
    "SELECT COUNT(*) AS n FROM people WHERE age IS NULL",
    "SELECT COUNT(*) AS n FROM people WHERE sex IS NULL OR age >= 65",
    "SELECT COUNT(sex) AS n, COUNT(*) FILTER (WHERE age >= 40) AS old FROM people",
    "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY sex",
    "SELECT sex, COUNT(*) AS n FROM people WHERE day >= DATE '2024-03-01' GROUP BY sex ORDER BY n DESC, sex LIMIT 2",
    "SELECT smokes, age >= 40 AS old, COUNT(*) AS n FROM people GROUP BY smokes, age >= 40 ORDER BY 1, 2",
    "SELECT EXTRACT(month FROM day) AS month, COUNT(*) AS n FROM people GROUP BY 1 ORDER BY 1",
    "SELECT SUM(CASE WHEN smokes THEN 2 ELSE -1 END) AS n FROM people WHERE age >= 18",
    "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING COUNT(*) > 30 ORDER BY sex",
]


@pytest.mark.parametrize("units", [False, True])
def test_a_free_answer_is_what_the_curator_would_say(units: bool, tmp_path: Path) -> None:
    """Noise is below half a row in both, and nobody has more rows than count, so they agree; also on what nobody
    declared.
    """
    with sf.open(policy(units=units), ledger=tmp_path / "ledger.db") as curator:
        curator.marginals("people", SETS).release(rho=RHO)
        for text in QUESTIONS:
            question = curator.sql(text)
            before = spent(curator)
            free = question.release(free=True)
            assert spent(curator) == before, text
            paid = question.release(epsilon=400)
            assert (free.columns, free.rows) == (paid.columns, paid.rows), text
            assert any("a unit with more than 3 rows" in each for each in free.warnings) is units


def test_the_receipt_names_the_line_and_says_that_it_was_free(curator: sf.Curator) -> None:
    bought = curator.marginals("people", SETS).release(rho=RHO)
    free = curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f'").release(free=True)
    assert free.receipt.free
    assert (free.receipt.line, free.receipt.hash) == (bought.receipt.line, bought.receipt.hash)
    assert free.warnings[0].startswith(f"answered from the synopsis of line {bought.receipt.line}: ")
    assert sf.Answer.from_json(free.to_json()) == free


def test_explaining_and_forecasting_offer_it(curator: sf.Curator) -> None:
    question = curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f'")
    assert question.error(epsilon=1).free == ""
    assert "free" not in [each.name for each in question.explain(epsilon=1).operators]
    line = curator.marginals("people", SETS).release(rho="0.01").receipt.line
    found = question.error(epsilon=1)
    width = question.release(free=True).intervals["n"][0]
    assert width is not None
    half = (width[1] - width[0]) / 2
    assert found.free.startswith(f"a synopsis bought on line {line} answers this for free, n within ±{half:.4g}"[:-2])
    assert found.free in str(found)
    assert type(found).from_json(found.to_json()) == found
    assert found.free in str(question.explain(epsilon=1))
    assert question.error(epsilon=1, fresh=True).free == ""


def test_what_is_wanted_decides(curator: sf.Curator) -> None:
    """The best of several is taken; one that is not as close as is wanted is refused, and nothing is spent."""
    proposal = curator.marginals("people", SETS)
    _, best, _ = [proposal.release(rho=rho, fresh=True).receipt.line for rho in ("0.001", "0.1", "0.01")]
    question, before = curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f'"), spent(curator)
    answer = question.release(free=True, within=100)
    assert answer.receipt.line == best
    with pytest.raises(
        Unsupported, match=rf"from a bought synopsis \(line {best} of the ledger\) .* not ±2"
    ) as refusal:
        question.release(free=True, within={"n": 2})
    assert refusal.value.code == "too-wide"
    with pytest.raises(InvalidParameter, match=r"keys are columns of numbers \(n\)"):
        question.release(free=True, within={"k": 2})
    assert spent(curator) == before


REFUSED = {
    "SELECT COUNT(*) AS n FROM people WHERE town = 'a'": "'town' was not published",
    "SELECT COUNT(*) AS n FROM people WHERE age_level_1 = 1": "'age_level_1' was not published",
    "SELECT age, COUNT(*) AS n FROM people GROUP BY age": "groups by its values",
    "SELECT COUNT(DISTINCT sex) AS n FROM people": "can answer only COUNT, SUM and AVG",
    "SELECT age < 30 AS young, COUNT(*) AS n FROM people GROUP BY age < 30": "the same for all rows of a bin",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_means_something_else_there_is_not_answered(text: str, curator: sf.Curator) -> None:
    curator.marginals("people", SETS).release(rho=RHO)
    before = spent(curator)
    with pytest.raises(Unsupported, match=REFUSED[text]) as refusal:
        curator.sql(text).release(free=True)
    assert refusal.value.code == "no-synopsis"
    assert spent(curator) == before


def test_a_level_does_not_answer_for_a_column_of_its_name(tmp_path: Path) -> None:
    """The level day_level_1 of a published column is asked by its name in the synopsis; here that is another column."""
    named = {**COLUMNS, "day": {**COLUMNS["day"], "levels": ["quarter"]}, "day_level_1": {"values": ["a", "b"]}}
    named.pop("town")
    data = table().rename_columns(["who", *(name if name != "town" else "day_level_1" for name in COLUMNS)])
    people = sf.Table("people", data, named, id="row")
    unit = sf.PrivacyUnit("person", every_row=True)
    made = sf.Policy(unit, sf.Budget(10**7, "1e-6"), {"people": people})
    with sf.open(made, ledger=tmp_path / "ledger.db") as curator:
        synopsis = curator.marginals("people", SETS).release(rho=RHO)
        text = "SELECT COUNT(*) AS n FROM people WHERE day_level_1 = 'a'"
        assert synopsis.sql(text).basis == {"n": ("measured",)}
        with pytest.raises(Unsupported, match="'day_level_1' was not published"):
            curator.sql(text).release(free=True)


def test_no_synopsis_no_free_answer(curator: sf.Curator) -> None:
    question = curator.sql("SELECT COUNT(*) AS n FROM people")
    with pytest.raises(Unsupported, match="no bought synopsis of people answers this question: there is none for"):
        question.release(free=True)
    curator.marginals("people", SETS, where="sex = 'f'").release(rho=1)
    with pytest.raises(Unsupported, match="the bought synopsis covers only the rows where sex = 'f'"):
        question.release(free=True)


@pytest.mark.parametrize(
    "price",
    [{"epsilon": 1}, {"rho": 1}, {"delta": "1e-9"}, {"fresh": True}, {"request_id": "r"}, {"weights": {"n": 1}}],
)
def test_a_free_answer_has_no_price(price: dict[str, Any], curator: sf.Curator) -> None:
    with pytest.raises(InvalidParameter, match="left out if a price, mechanism"):
        curator.sql("SELECT COUNT(*) AS n FROM people").release(free=True, **price)


def test_only_of_the_same_data_policy_and_limits(tmp_path: Path) -> None:
    text = "SELECT COUNT(*) AS n FROM people"
    source = tmp_path / "people.parquet"

    def opened(**more: Any) -> sf.Curator:
        people = sf.Table("people", source, {**COLUMNS, **more}, id="who", max_rows=3)
        made = sf.Policy(sf.PrivacyUnit("person"), sf.Budget(10**7, "1e-6"), {"people": people})
        return sf.open(made, ledger=tmp_path / "ledger.db")

    pq.write_table(table(), source)
    with opened() as curator:
        curator.marginals("people", SETS, rows=2).release(rho=1)
        with pytest.raises(Unsupported, match="at most 2 rows per unit, but the question counts up to 3"):
            curator.sql(text).release(free=True)
        assert curator.sql(text).limit(rows=2).release(free=True).receipt.free
    with opened(sex={"values": ["f"]}) as curator, pytest.raises(Unsupported, match="no bought synopsis"):
        curator.sql(text).limit(rows=2).release(free=True)
    with opened(town={"values": ["a", "b"]}) as curator:  # no bought marginal is about towns
        assert curator.sql(text).limit(rows=2).release(free=True).receipt.free
    pq.write_table(table(seed=6), source)
    with opened() as curator, pytest.raises(Unsupported, match="no bought synopsis"):
        curator.sql(text).limit(rows=2).release(free=True)


def test_other_tables_have_their_own(tmp_path: Path) -> None:
    tables = {
        name: sf.Table(name, table(seed=seed), COLUMNS, id="row") for seed, name in enumerate(("people", "staff"))
    }
    both = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(10**7, "1e-6"), tables)
    with sf.open(both, ledger=tmp_path / "ledger.db") as curator:
        curator.marginals("people", SETS).release(rho=1)
        assert curator.sql("SELECT COUNT(*) AS n FROM people").release(free=True).receipt.free
        with pytest.raises(Unsupported, match=r"of staff answers this question: there is none .* \[no-synopsis\]"):
            curator.sql("SELECT COUNT(*) AS n FROM staff").release(free=True)


def test_other_accounts_have_their_own(tmp_path: Path) -> None:
    with sf.Ledger.open(tmp_path / "ledger.db") as ledger, sf.open(policy(), ledger=ledger) as curator:
        curator.marginals("people", SETS).release(rho=1)
        account, engine = curator._context.account, curator._context.engine
        shelf = bought_synopses.synopsis_key_prefixes(curator._context, "people").current
        assert len(account.published(shelf, data=engine.identity())) == 1
        other = ledger.account("other", unit=sf.PrivacyUnit("person", every_row=True), budget=sf.Budget(1, "1e-6"))
        assert other.published(shelf, data=engine.identity()) == ()


def test_an_analyst_may_use_what_the_account_published(tmp_path: Path) -> None:
    """What was published is public: it answers an analyst who has nothing left, and whoever bought it is not named."""
    analysts = {"ana": "0.5", "ben": "0.000001"}
    with sf.open(policy(analysts=analysts), ledger=tmp_path / "ledger.db") as curator:
        curator.as_analyst("ana").marginals("people", SETS).release(rho=1)
        ana, ben = (curator.as_analyst(each).sql("SELECT COUNT(*) AS n FROM people") for each in analysts)
        assert ana.release(free=True).receipt.share == "ana"
        answer = ben.release(free=True)
        assert answer.receipt.free
        assert answer.receipt.share == "ben"
        assert "ana" not in answer.to_json().replace("analyst", "")


def test_rows_are_not_read_and_a_long_ledger_is_not_searched(
    curator: sf.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator.marginals("people", SETS).release(rho=RHO)
    for town, sex in itertools.product("abc", "fm"):
        curator.sql(f"SELECT COUNT(*) AS n FROM people WHERE town = '{town}' AND sex = '{sex}'").release(epsilon=1)
    monkeypatch.setattr(type(curator._context.engine), "read", None)
    seen: set[str] = set()
    connection = curator.ledger._guarded.store._connection
    connection.set_trace_callback(lambda text: seen.add(text) if text.startswith("SELECT") else None)
    curator.sql("SELECT COUNT(*) AS n FROM people").release(free=True)
    connection.set_trace_callback(None)
    searched = [text for text in seen if "INDEXED BY by_plan" in text]
    assert len(searched) == 2  # under the current prefix, and under that of earlier versions
    for text in searched:
        plans = [each[3] for each in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
        assert "SEARCH lines USING INDEX by_plan (account=? AND plan>? AND plan<?)" in plans
        assert "SEARCH lines USING INTEGER PRIMARY KEY (rowid=?)" in plans
        assert not any(each.startswith("SCAN") for each in plans)


def test_a_lost_synopsis_hinders_no_question(curator: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file beside the ledger that holds its numbers is gone: a question can still be priced and bought."""
    curator.marginals("people", SETS).release(rho=1)

    def lost(_: Account, publication: Publication) -> None:
        raise LedgerDamaged(publication.number, "the file that holds its answer is missing")

    monkeypatch.setattr(Account, "read_published", lost)
    question = curator.sql("SELECT COUNT(*) AS n FROM people")
    assert question.error(epsilon=1).free == ""
    assert not question.release(epsilon=1).receipt.free
    with pytest.raises(Unsupported, match="the file that holds its answer is missing"):
        question.release(free=True)


def test_the_command_takes_it(tmp_path: Path) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(table(), tmp_path / "people.csv")
    (tmp_path / "people.toml").write_text(
        '[unit]\nname = "person"\nbudget = { epsilon = 10, delta = 1e-6 }\n[tables.people]\nsource = "people.csv"\n'
        'id = "row"\n[tables.people.columns]\nsex = { values = ["f", "m"] }\nsmokes = { type = "boolean" }\n'
    )
    given = str(tmp_path / "people.toml")
    text = "SELECT COUNT(*) AS n FROM people WHERE sex = 'f'"
    runner = CliRunner()
    refused = runner.invoke(main, ["query", given, text, "--free"])
    assert refused.exit_code != 0
    assert "no bought synopsis of" in refused.output
    made = runner.invoke(main, ["publish", given, "people", "--epsilon", "1", "-o", str(tmp_path / "people.sfu")])
    assert made.exit_code == 0, made.output
    dry = runner.invoke(main, ["query", given, text, "--epsilon", "0.1", "--dry-run"])
    assert "free    a synopsis bought on line" in dry.output
    taken = runner.invoke(main, ["query", given, text, "--free"])
    assert taken.exit_code == 0, taken.output
    assert "bought before: free" in taken.output
    near = runner.invoke(main, ["query", given, text, "--free", "--within", "0.001"])
    assert near.exit_code != 0
    assert "too-wide" in near.output


BOUNDED_QUESTIONS = (
    "SELECT COUNT(*) AS n FROM people WHERE sex = 'f' AND smokes",  # not published together
    "SELECT AVG(age) AS n FROM people WHERE age >= 18",  # a mean is as well known as its rows are many
    "SELECT COUNT(*) FILTER (WHERE age < 18) * COUNT(*) AS n FROM people",
)


@pytest.mark.parametrize("question", BOUNDED_QUESTIONS)
def test_ranges_hold_although_noise_decides_which_synopsis_is_best(curator: sf.Curator, question: str) -> None:
    """The narrowest of k ranges misses up to k times as often as each: of 8 that hold with 95 %, it missed 16 %."""
    bought = [curator.marginals("people", SETS).release(rho="0.01", fresh=True) for _ in range(4)]
    answer = curator.sql(question).release(free=True, confidence="0.8")
    own = {each.receipt.line: each for each in bought}[answer.receipt.line]
    assert answer.intervals["n"] == own.sql(question, confidence="0.95").intervals["n"]
    assert answer.receipt.confidence == "0.8"
    assert any("the best of 4" in each for each in answer.warnings)


def test_what_was_measured_is_as_wide_as_ever_where_several_synopses_answer(curator: sf.Curator) -> None:
    question = "SELECT sex, COUNT(*) AS n, COUNT(age) AS k FROM people WHERE age >= 18 GROUP BY sex"
    bought = [curator.marginals("people", SETS).release(rho=rho, fresh=True) for rho in ("0.01", "0.04", "0.02")]
    answer = curator.sql(question).release(free=True)
    assert answer.receipt.line == bought[1].receipt.line
    assert answer.intervals["n"] == bought[1].sql(question).intervals["n"]


# ── chosen from all that was bought ────────────────────────────────────────────────────────────

LATER = 30


def _widths(answer: sf.Answer) -> list[float]:
    return [(high - low) / 2 for low, high in filter(None, answer.intervals["n"])]


def test_a_synopsis_answers_however_many_were_bought_later(curator: sf.Curator) -> None:
    """Later ones are of other columns, of some rows alone, or noisier: none of them takes its place."""
    first = curator.marginals("people", SETS).release(rho=RHO)
    for index in range(LATER):
        columns, where = [(["town"], None), (["sex", "age"], "smokes"), (["sex", "age"], None)][index % 3]
        curator.marginals("people", [columns], where=where).release(rho="0.001", fresh=True)
    question, before = curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f' AND age >= 18"), spent(curator)
    answer = question.release(free=True, within="0.5")
    assert answer.receipt.line == first.receipt.line
    assert str(first.receipt.line) in question.error(epsilon=1).free
    assert spent(curator) == before


def test_the_best_of_many_different_synopses_is_taken(curator: sf.Curator) -> None:
    """More cover the columns than are asked; the one with the least noise on them was bought before nearly all."""
    wide = ["sex", "age", "smokes", "town", "day"]
    sets = [[wide[:size], [each]] for size in (1, 2, 3, 4) for each in wide[size:]]
    rhos = ["0.01", "1", *["0.01"] * (len(sets) - 2)]
    bought = [curator.marginals("people", one).release(rho=rho) for one, rho in zip(sets, rhos, strict=True)]
    assert len(bought) > bought_synopses._MAX_CANDIDATES
    text = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
    answer = curator.sql(text).release(free=True)
    least = min(max(_widths(each.sql(text))) for each in bought)
    assert max(_widths(answer)) == pytest.approx(least, rel=1e-9)
    assert answer.receipt.line == bought[1].receipt.line


def test_bodies_of_other_columns_are_not_loaded(curator: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    first = curator.marginals("people", SETS).release(rho=RHO)
    for index in range(5):
        curator.marginals("people", [["town"]]).release(rho=f"0.0{index + 1}", fresh=True)
        curator.marginals("people", SETS).release(rho=f"0.0{index + 1}", fresh=True)
    read, own = [], Account.read_published
    monkeypatch.setattr(Account, "read_published", lambda self, each: read.append(each) or own(self, each))
    curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f'").release(free=True)
    assert [each.number for each in read] == [first.receipt.line]


def test_lines_are_read_once_by_a_process(curator: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    question = curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f'")
    for _ in range(3):
        curator.marginals("people", SETS).release(rho="0.01", fresh=True)
    question.release(free=True)
    described, own = [], Publication.from_row.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Publication, "from_row", classmethod(lambda cls, row: described.append(row.number) or own(cls, row))
    )
    question.release(free=True)
    assert described == []
    line = curator.marginals("people", SETS).release(rho=RHO).receipt.line
    assert question.release(free=True, within="0.5").receipt.line == line
    assert described == [line]


def test_old_lines_without_columns_answer_too(curator: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    proposal = curator.marginals("people", SETS)
    former = PlanKey(proposal.plan_key.former, "")
    monkeypatch.setattr(MarginalsRelease, "written_accuracy", property(lambda self: self.accuracy_for_reuse))
    monkeypatch.setattr(MarginalsProposal, "plan_key", former)
    best = proposal.release(rho=RHO)
    monkeypatch.undo()
    assert proposal.release(rho="0.01").receipt.line == best.receipt.line, "what was stored is still as good"
    for _ in range(9):
        curator.marginals("people", [["town"]]).release(rho="0.01", fresh=True)
    answer = curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f'").release(free=True, within="0.5")
    assert answer.receipt.line == best.receipt.line


_BUYING = """
import sys
from curator.proposals.test_bought_synopses import SETS, RHO, policy, sf
with sf.open(policy(data=sys.argv[1]), ledger=sys.argv[2]) as curator:
    for _ in range(10):
        curator.marginals("people", [["town"]]).release(rho="0.01", fresh=True)
    print(curator.marginals("people", SETS).release(rho=RHO, fresh=True).receipt.line)
"""


def test_what_another_process_bought_answers(tmp_path: Path) -> None:
    source, place = tmp_path / "people.parquet", tmp_path / "ledger.db"
    pq.write_table(table(), source)
    with sf.open(policy(data=source), ledger=place) as curator:
        curator.marginals("people", SETS).release(rho="0.001")
        question = curator.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'f'")
        with pytest.raises(Unsupported, match="too-wide"):
            question.release(free=True, within="0.5")
        line = int(script(_BUYING, source, place).stdout)
        assert question.release(free=True, within="0.5").receipt.line == line


BINNED = {
    "grade": {"type": "integer", "bounds": [1, 4], "bins": 4},
    "year": {"type": "integer", "bounds": [1, 4], "bins": 2},
    "day": {"type": "date", "bounds": ["2024-01-01", "2024-01-03"], "bins": "day"},
}


def test_bins_of_one_value_are_grouped_by_as_values_are(tmp_path: Path) -> None:
    grades = [1, 1, 2, 4, 4, 4, 0, 9, None]  # what is beyond the bounds is at them, and what is missing in no group
    days = [dt.date(2024, 1, 1 + each % 4) for each in range(len(grades))]
    data = pa.table({"grade": grades, "year": grades, "day": pa.array(days, pa.date32())})
    people = sf.Table("people", data, BINNED, id="row")
    declared = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(10**7, "1e-6"), {"people": people})
    with sf.open(declared, ledger=tmp_path / "ledger.db") as curator:
        bought = curator.marginals("people", [["grade"], ["year"], ["day"]]).release(rho=RHO)
        asked = curator.sql("SELECT grade, COUNT(*) AS n FROM people GROUP BY grade ORDER BY grade")
        free = asked.release(free=True)
        assert list(free.rows) == [(1, 3), (2, 1), (3, 0), (4, 4)] == list(asked.release(epsilon=10**5).rows)
        assert not any("start of a bin" in each for each in bought.sql(asked.text).warnings)
        daily = curator.sql("SELECT day, COUNT(*) AS n FROM people GROUP BY day ORDER BY day")
        assert list(daily.release(free=True).rows) == list(daily.release(epsilon=10**5).rows)
        with pytest.raises(Unsupported, match="only bins of year were published"):
            curator.sql("SELECT year, COUNT(*) AS n FROM people GROUP BY year").release(free=True)
