"""Questions to a synopsis: the same as of the rows without noise, and never outside the range."""

from __future__ import annotations

import datetime as dt
import itertools
from random import Random

import numpy as np
import pytest

import sfumato as sf
from publish.tables import ATTRIBUTES, NAMES, RECEIPT, asked_of_rows, counts, holds, people, planned, published
from sfumato.errors import Unsupported
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.publish.marginals.measuring import PublishedMarginals, encode_integers, measured_shapes
from sfumato.publish.synopsis import Synopsis

ROWS = people(1)
TABLE = counts(ROWS)
WHOLE = published(planned([NAMES], rho=10**7), TABLE)
PAIRS = published(planned(itertools.combinations(NAMES, 2), rho=10**7), TABLE)

SURE = [
    "SELECT COUNT(*) AS n FROM people",
    "SELECT COUNT(*) AS n FROM people WHERE sex = 'f' OR smokes",
    "SELECT COUNT(*) AS n FROM people WHERE NOT (sex = 'f') AND age >= 18",
    "SELECT COUNT(*) AS n FROM people WHERE sex <> 'f' OR sex IS NULL",
    "SELECT COUNT(sex) AS n, COUNT(*) FILTER (WHERE age < 65) AS k FROM people WHERE day < DATE '2024-03-01'",
    "SELECT COUNT(*) AS n FROM people WHERE age BETWEEN 18 AND 39 AND code IN ('A1', 'B2')",
    "SELECT COUNT(*) AS n FROM people WHERE code LIKE 'A%' AND smokes IS NOT TRUE",
    "SELECT COUNT(*) AS n FROM people WHERE EXTRACT(month FROM day) = 2 OR score < 0.5",
    "SELECT COUNT(*) AS n FROM people WHERE CASE WHEN sex = 'f' THEN age < 40 ELSE smokes END",
    "SELECT COUNT(*) AS n FROM people WHERE COALESCE(smokes, sex = 'm')",
    "SELECT COUNT(*) AS n FROM people WHERE (age > 17) = (sex = 'm')",
    "SELECT COUNT(*) AS n FROM people WHERE DATE_TRUNC('month', day) >= DATE '2024-02-01'",
    "SELECT COUNT(*) AS n FROM people WHERE DATE_DIFF('month', DATE '2024-01-01', day) >= 2",
    "SELECT COUNT(*) AS n FROM people WHERE day + INTERVAL '1 month' < DATE '2024-04-01'",
    "SELECT SUM(CASE WHEN smokes THEN 2 ELSE -1 END) AS n FROM people WHERE age >= 40",
    "SELECT AVG(CASE WHEN sex = 'f' THEN 3 WHEN smokes THEN 1 END) AS n FROM people",
    "SELECT SUM(LEAST(CASE WHEN smokes THEN 2 ELSE 0 END, CASE WHEN sex = 'f' THEN 1 END)) AS n FROM people",
    "SELECT COUNT(*) AS n FROM people WHERE NULLIF(sex, 'f') = 'm' AND NOT smokes",
    "SELECT COUNT(*) AS n FROM people WHERE LOWER(code) LIKE 'a%' OR UPPER(sex) = 'F'",
    "SELECT SUM(LENGTH(code || COALESCE(sex, '?'))) AS n FROM people WHERE SUBSTR(code, 2, 1) = '1'",
    "SELECT SUM(EXP(CASE WHEN smokes THEN 1 ELSE 0 END)) AS n FROM people WHERE LN(age + 1) >= 2.92",
    "SELECT COUNT(*) AS n FROM people WHERE POW(age, 2) < 300 AND CAST(RIGHT(code, 1) AS BIGINT) = 2",
]
GROUPED = [
    "SELECT sex, COUNT(*) AS n FROM people WHERE sex IS NOT NULL GROUP BY sex ORDER BY sex",
    "SELECT smokes, code, COUNT(*) AS n FROM people WHERE age < 65 GROUP BY smokes, code ORDER BY 1 NULLS FIRST, 2",
    "SELECT age >= 40 AS old, COUNT(*) AS n FROM people WHERE age IS NOT NULL GROUP BY age >= 40 ORDER BY 1",
    "SELECT smokes, COUNT(*) FILTER (WHERE sex = 'm') AS n FROM people GROUP BY smokes ORDER BY n DESC LIMIT 2",
    "SELECT code, COUNT(*) AS n FROM people GROUP BY code HAVING COUNT(*) > 70 ORDER BY code",
    "SELECT sex = 'f' OR smokes AS x, COUNT(*) AS n FROM people WHERE sex IS NOT NULL AND smokes IS NOT NULL GROUP BY 1"
    " ORDER BY 1",
    "SELECT code, smokes, COUNT(*) AS n FROM people GROUP BY ROLLUP (code, smokes)"
    " ORDER BY GROUPING(code), GROUPING(smokes), 1, 2",
    "SELECT SUM(n) AS s, MAX(n) AS m FROM (SELECT code, COUNT(*) AS n FROM people GROUP BY code)",
    "SELECT sex, AVG(CASE WHEN smokes THEN 1 ELSE 0 END) AS n FROM people WHERE sex IS NOT NULL GROUP BY 1 ORDER BY 1",
    "SELECT LEFT(code, 1) AS chapter, COUNT(*) AS n FROM people WHERE code IS NOT NULL GROUP BY 1 ORDER BY 1",
    "SELECT STRFTIME(day, '%m') AS month, COUNT(*) AS n FROM people WHERE day IS NOT NULL GROUP BY 1 ORDER BY 1",
]
CUT = [
    "SELECT COUNT(*) AS n FROM people WHERE age < 30",
    "SELECT SUM(age) AS n FROM people WHERE sex = 'f'",
    "SELECT AVG(age) AS n FROM people",
    "SELECT AVG(score) AS n, SUM(score) AS s FROM people WHERE smokes",
    "SELECT COUNT(*) AS n FROM people WHERE score > 2",
    "SELECT COUNT(*) AS n FROM people WHERE score IS NULL",
    "SELECT COUNT(*) AS n FROM people WHERE age % 2 = 0 AND day > DATE '2024-02-10'",
    "SELECT SUM(age * score) AS n FROM people WHERE age / 2 > 10",
    "SELECT COUNT(*) AS n FROM people WHERE EXTRACT(dow FROM day) = 1",
    "SELECT SUM(ABS(age - 50)) AS n, SUM(ROUND(score)) AS s FROM people",
    "SELECT sex, AVG(age) AS n FROM people WHERE sex IS NOT NULL AND age <> 14 GROUP BY sex ORDER BY sex",
    "SELECT SUM(LN(age + 1)) AS n, SUM(POW(score, 2)) AS s FROM people WHERE EXP(score) > 2",
]


@pytest.mark.parametrize("question", SURE + GROUPED)
def test_without_noise_the_answer_is_that_of_the_rows(question: str) -> None:
    made = WHOLE.sql(question)
    wanted = asked_of_rows(ROWS, question)
    assert len(made.rows) == len(wanted)
    for found, row in zip(made.rows, wanted, strict=True):
        assert [None if each is None else pytest.approx(each, abs=1e-4) for each in row] == list(found)
    assert all(set(each) == {"measured"} for each in (made.basis or {}).values())


@pytest.mark.parametrize("synopsis", [WHOLE, PAIRS], ids=["whole", "pairs"])
@pytest.mark.parametrize("question", SURE + GROUPED + CUT)
def test_every_range_holds_the_answer_of_the_rows(synopsis: Synopsis, question: str) -> None:
    if " LIMIT " in question or " HAVING " in question:
        return  # which rows are shown is decided by the numbers themselves
    made, wanted = synopsis.sql(question), asked_of_rows(ROWS, question)
    assert len(made.rows) == len(wanted)
    for index, row in enumerate(wanted):
        for name, truth in zip(made.columns, row, strict=True):
            if name in made.intervals:
                assert holds(made.intervals[name][index], truth), (name, truth, made.intervals[name][index])
            else:
                assert made.column(name)[index] == truth


@pytest.mark.parametrize("question", CUT)
def test_what_bins_do_not_tell_is_bounded(question: str) -> None:
    made = WHOLE.sql(question)
    assert set(made.basis["n"]) == {"bounded"}  # type: ignore[index]
    assert any("only whole bins were published" in each for each in made.warnings)


def _condition(draw: Random, depth: int = 2) -> str:
    """A random condition over all columns."""
    if depth and draw.random() < 0.6:
        one, other = _condition(draw, depth - 1), _condition(draw, depth - 1)
        return draw.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})"])
    return draw.choice(
        [
            f"sex {draw.choice(['=', '<>'])} '{draw.choice('fm')}'",
            f"age {draw.choice(['<', '<=', '>', '>=', '='])} {draw.choice([0, 17, 18, 33, 40, 65, 99])}",
            f"smokes IS {draw.choice(['NULL', 'TRUE', 'NOT FALSE'])}",
            f"day {draw.choice(['<', '>='])} DATE '2024-0{draw.choice([1, 2, 3, 4])}-{draw.choice(['01', '15'])}'",
            f"score {draw.choice(['<', '>='])} {draw.choice(['0.5', '1', '2'])}",
            f"code IN ('A1', '{draw.choice(['A2', 'B1', 'X'])}')",
            "(age > 40) = smokes",
            "code IS NULL",
        ]
    )


def _random_question(draw: Random) -> str:
    what = draw.choice(["COUNT(*)", "SUM(age)", "AVG(score)", "SUM(CASE WHEN smokes THEN age ELSE 1 END)"])
    key = draw.choice(["", "", "smokes", "code"])
    having = f" FILTER (WHERE {_condition(draw, 1)})" if draw.random() < 0.4 else ""
    where = f" WHERE {_condition(draw)}" if draw.random() < 0.8 else ""
    if key:
        return f"SELECT {key}, {what}{having} AS n FROM people{where} GROUP BY {key} ORDER BY {key} NULLS LAST"
    return f"SELECT {what}{having} AS n FROM people{where}"


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(each, marks=pytest.mark.long) for each in range(2, 20))])
def test_random_questions_hold_the_answer_of_the_rows(seed: int) -> None:
    draw, checked = Random(seed), 0
    rows = people(seed + 100, 60)
    table = counts(rows)
    known = [published(planned(each, rho=10**7), table) for each in ([NAMES], itertools.combinations(NAMES, 2))]
    while checked < 25:
        question = _random_question(draw)
        try:
            made = [each.sql(question) for each in known]
        except Unsupported as refusal:
            if refusal.code != "no-groups":
                raise
            continue
        checked += 1
        truth = {row[:-1]: row[-1] for row in asked_of_rows(rows, question)}
        for answer in made:
            for index, row in enumerate(answer.rows):
                empty = 0 if "COUNT" in question else None
                exact = truth.get(tuple(row[:-1]), empty)
                if exact is None and "SUM" in question:
                    exact = 0
                assert holds(answer.intervals["n"][index], exact), (question, row, exact, answer.intervals["n"][index])
                if answer.basis["n"][index] == "measured" and exact is not None:  # type: ignore[index]
                    assert row[-1] == pytest.approx(exact, abs=1e-3), question
            assert set(truth) <= {tuple(row[:-1]) for row in answer.rows} or not truth


def test_subtotals_are_sums_of_the_groups_that_are_shown() -> None:
    question = "SELECT sex, smokes, COUNT(*) AS n FROM people GROUP BY ROLLUP (sex, smokes) ORDER BY 1, 2, 3"
    wanted = asked_of_rows([row for row in ROWS if row[0] is not None], question)
    assert sorted(WHOLE.sql(question).rows, key=str) == sorted(wanted, key=str)


def test_what_may_be_missing_may_add_nothing() -> None:
    """The last cell of score holds what is missing and what is above 2: its sum may be 0, or 3 for each row."""
    rows = [("f", 20, True, None, None, "A1")] * 10
    found = published(planned([["sex", "score"]], rho=10**7), counts(rows))
    low, high = found.sql("SELECT SUM(score) AS n FROM people").intervals["n"][0]  # type: ignore[misc]
    assert (low, high) == (pytest.approx(0, abs=0.1), pytest.approx(30, abs=0.1))


def test_levels_are_columns() -> None:
    made = WHOLE.sql("SELECT code_level_1 AS chapter, COUNT(*) AS n FROM people GROUP BY 1 ORDER BY 1")
    wanted = asked_of_rows(ROWS, "SELECT LEFT(code, 1), COUNT(*) FROM people GROUP BY 1 ORDER BY 1 NULLS LAST")
    assert made.column("chapter") == ["A1 … A2", "B1 … B2", None]
    assert made.column("n") == [count for _, count in wanted]


def test_a_binned_column_is_grouped_by_its_bins() -> None:
    made = WHOLE.sql("SELECT age, COUNT(*) AS n FROM people GROUP BY age")
    assert made.column("age") == [0, 18, 40, 65]
    edges = [0, 18, 40, 65, 100]
    ages = [row[1] for row in ROWS if row[1] is not None]
    assert made.column("n") == [sum(a <= age < b for age in ages) for a, b in itertools.pairwise(edges)]
    assert any("each key is the start of a bin" in each for each in made.warnings)
    days = WHOLE.sql("SELECT day, COUNT(*) AS n FROM people WHERE day >= DATE '2024-03-01' GROUP BY day")
    assert days.column("day") == [dt.date(2024, 3, 1), dt.date(2024, 4, 1)]


def test_bounds_are_as_tight_as_the_marginals_allow() -> None:
    """Fréchet: at most the smallest pair, at least what two pairs that overlap leave."""
    made = PAIRS.sql("SELECT COUNT(*) AS n FROM people WHERE sex = 'm' AND smokes = false AND code <> 'B2'")
    m, smokes, code = (np.array([row[k] for row in ROWS], object) for k in (0, 2, 5))
    tests = [m == "m", smokes == False, np.isin(code.astype(str), ["A1", "A2", "B1"])]  # noqa: E712
    pairs = {pair: int((tests[pair[0]] & tests[pair[1]]).sum()) for pair in itertools.combinations(range(3), 2)}
    lows = [
        pairs[a, b] + pairs[c, d] - int(tests[each].sum())
        for (a, b), (c, d), each in (((0, 1), (0, 2), 0), ((0, 1), (1, 2), 1), ((0, 2), (1, 2), 2))
    ]
    low, high = made.intervals["n"][0]  # type: ignore[misc]
    assert (low, high) == (pytest.approx(max(0, *lows), abs=0.1), pytest.approx(min(pairs.values()), abs=0.1))
    assert low <= made.column("n")[0] <= high


REFUSED = {
    "SELECT COUNT(*) FROM people WHERE town = 'x'": "unknown-column",
    "SELECT COUNT(*) FROM others": "unknown-table",
    "SELECT MEDIAN(age) FROM people": "aggregate",
    "SELECT COUNT(DISTINCT sex) FROM people": "aggregate",
    "SELECT VARIANCE(age) FROM people": "aggregate",
    "SELECT age < 30, COUNT(*) FROM people GROUP BY age < 30": "cut-key",
    "SELECT COUNT(*) FROM people WHERE CAST(code AS DATE) > DATE '2024-01-01'": "function",
    "SELECT COUNT(*) FROM people a JOIN people b ON a.sex = b.sex": "",
    "SELECT COUNT(*) FROM people WHERE sex = 'f' AND sex = 'm' GROUP BY sex": "no-groups",
    "SELECT sex FROM people": "not-grouped",
}


@pytest.mark.parametrize("question", REFUSED)
def test_what_cannot_be_answered_is_refused(question: str) -> None:
    with pytest.raises(Unsupported) as refusal:
        PAIRS.sql(question)
    assert REFUSED[question] in ("", refusal.value.code)


def test_too_many_cells_are_refused_with_the_columns_to_drop() -> None:
    sizes = {"small": 1, "c0": 240, "c1": 240, "c2": 240}
    columns = tuple(
        Attribute(name, "integer", (*map(ListedCell, range(size)), OtherCell())) for name, size in sizes.items()
    )
    plan = planned([[name] for name in sizes], attributes=columns)
    zeros = tuple(encode_integers(np.zeros(shape, np.int64)) for shape in measured_shapes(plan))
    synopsis = Synopsis(PublishedMarginals(plan, zeros, "people"), RECEIPT)
    with pytest.raises(Unsupported, match=r"(?s)27,995,042.*: c0, c1, c2 have") as refusal:
        synopsis.sql("SELECT COUNT(*) FROM people WHERE small = 0 OR c0 = 1 OR c1 = 1 OR c2 = 1")
    assert refusal.value.code == "too-many-cells"


def test_ranges_that_hold_together_are_wider() -> None:
    question = "SELECT smokes, COUNT(*) AS n FROM people GROUP BY smokes"
    alone, both = PAIRS.sql(question), PAIRS.sql(question, together=True)
    wide = PAIRS.sql(question, confidence="0.99")
    width = [high - low for low, high in (each.intervals["n"][0] for each in (alone, both, wide))]  # type: ignore[misc]
    assert width[0] < width[1] < width[2]
    assert both.receipt.free
    assert "each covers the noise with 95 %" in str(alone.receipt)
    assert "all together cover the noise with 95 %" in str(both.receipt)
    assert wide.receipt.confidence == "0.99"


def test_answers_keep_their_basis_in_every_form() -> None:
    made = PAIRS.sql("SELECT sex, COUNT(*) AS n, COUNT(*) FILTER (WHERE age < 30) AS k FROM people GROUP BY sex")
    assert sf.Answer.from_json(made.to_json()) == made
    assert made.to_arrow().column("k_basis").to_pylist() == ["bounded", "bounded"]
    assert "n_basis" in made.to_csv().splitlines()[0]
    assert "perhaps" in str(made)


def test_attributes_of_the_world_are_those_of_the_rows() -> None:
    assert int(TABLE.sum()) == len(ROWS)
    assert [each.size for each in ATTRIBUTES] == list(TABLE.shape)


SINGLE = (
    Attribute("a", "integer", (OtherCell(),)),
    Attribute("b", "text", (ListedCell("x"), OtherCell())),
    Attribute("c", "boolean", (ListedCell(False), ListedCell(True), OtherCell())),
)


@pytest.mark.parametrize("epsilon", [None, 1])
@pytest.mark.parametrize("sets", [[["a", "b"], ["b", "c"]], [["a"], ["b"], ["c"]]])
def test_an_empty_table_and_one_cell(sets: list[list[str]], epsilon: int | None) -> None:
    plan = planned(sets, attributes=SINGLE, epsilon=epsilon)
    found = published(plan, np.zeros((1, 2, 3), np.int64))
    for question in (
        "SELECT COUNT(*) AS n FROM people",
        "SELECT c, b, COUNT(*) AS n FROM people GROUP BY c, b",
        "SELECT COUNT(*) AS n FROM people WHERE false",
        "SELECT COUNT(*) AS n FROM people WHERE a IS NULL AND (c OR b = 'x')",
    ):
        made = found.sql(question)
        assert set(made.column("n")) == {0}
        assert all(low <= 0 <= high for low, high in made.intervals["n"])  # type: ignore[misc]
    assert made.nonnegative().column("n") == [0]
