"""Questions draw their error before anything is spent; a budget draws what its ledger tells."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.release.pricing import price_release


@pytest.fixture(scope="module")
def flights() -> sf.Curator:
    return sf.open(sf.example())


def test_the_error_is_drawn_against_epsilon_for_free(flights: sf.Curator) -> None:
    ask = flights.sql("SELECT origin, COUNT(*) AS n, AVG(delay) AS late FROM flights GROUP BY origin")
    before = flights.budget.spent
    picture = ask.plot()  # type: ignore[union-attr]
    assert flights.budget.spent == before
    assert "left: ε = 3" in picture.svg
    assert "nothing was spent" in picture.svg
    words = re.findall(r">([^<>]*)</text>", picture.svg)
    assert {"group of 100", "group of 1,000", "group of 10,000"} <= set(words)
    assert [each for each in words if "half-width (±)" in each] == ["n: half-width (±)", "late: half-width (±)"]
    assert words.count("left: ε = 3") == words.count("ε") == 2  # flights and minutes have axes of their own
    half = ask.error(epsilon="0.01")["n"]  # type: ignore[union-attr]
    assert f"ε = 0.01: ±{half:,.0f}"[:12] in picture.svg
    with pytest.raises(sf.InvalidParameter, match="least"):
        ask.plot(least=2, most=1)  # type: ignore[union-attr]


def test_the_error_at_a_delta_is_priced_at_few_points_and_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Groups found in the data need a δ: their noise is searched for at every price."""
    priced: list[Any] = []
    module = "sfumato.curator.proposals.questions.price_release"
    monkeypatch.setattr(module, lambda *args, **terms: priced.append(args) or price_release(*args, **terms))
    table = sf.Table("visits", pa.table({"who": [1], "town": ["a"]}), {"town": {"type": "text"}}, id="who", max_rows=3)
    policy = sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(3, "1e-6"), {"visits": table})
    with sf.Curator(policy, tmp_path / "ledger") as curator:
        ask: Any = curator.sql("SELECT town, COUNT(*) AS n FROM visits GROUP BY town")
        assert "n: half-width (±)" in ask.plot(delta="1e-7").svg
        assert 2 <= len(priced) <= 9
        first = list(priced)
        ask.plot(delta="1e-7")
        assert priced == first


def test_the_error_is_drawn_as_wide_as_a_phone(flights: sf.Curator) -> None:
    ask: Any = flights.sql("SELECT COUNT(*) AS n, SUM(delay) AS late FROM flights")
    narrow, wide = ask.plot(width=360), ask.plot()
    assert (narrow.width, wide.width) == (360, 760)
    assert narrow.height > wide.height, "panels are below each other"
    for width in (0, 319, 800, "wide"):
        with pytest.raises(sf.InvalidParameter, match="width"):
            ask.plot(width=width)


def test_errors_of_many_columns_fit_on_a_page(flights: sf.Curator) -> None:
    columns = ", ".join(f"COUNT(*) FILTER (WHERE delay > {each}) AS n{each}" for each in range(7))
    picture = flights.sql(f"SELECT {columns} FROM flights").plot()  # type: ignore[union-attr]
    assert picture.svg.count("half-width (±)</text>") == 6
    assert "only the first 6 of 7 columns are shown" in picture.svg
    assert picture.height <= 1000


def test_a_budget_is_drawn_as_stairs_of_what_was_charged(flights: sf.Curator) -> None:
    assert "0 charges" in flights.budget.plot().svg
    ask = flights.sql("SELECT COUNT(*) AS n FROM flights")
    for epsilon in ("0.3", "0.6"):
        ask.release(epsilon=epsilon, fresh=True)  # type: ignore[union-attr]
    picture = flights.budget.plot()
    assert "2 charges" in picture.svg
    assert "ordinary answers 30 %" in picture.svg
    stairs = [way for way in re.findall(r'd="(M[^"]*)"', picture.svg) if way.count("H") == 3 and way.count("V") == 3]
    heights = [float(each) for each in re.findall(r"V([0-9.]+)", stairs[0])]
    bottom = float(re.match(r"M[0-9.]+ ([0-9.]+)", stairs[0])[1])  # type: ignore[index]
    assert (bottom - heights[1]) / (bottom - heights[0]) == pytest.approx(3, rel=1e-2)
    assert "SELECT" not in picture.svg  # what was asked is nobody's to read here


def test_a_budget_with_a_history_is_equal_to_one_without(flights: sf.Curator) -> None:
    own = flights.budget
    plain = own.with_spent(own.totals)
    assert own == plain
    assert sf.dumps(own) == sf.dumps(plain)
    assert repr(own) == repr(plain)
    assert own.plot().svg != plain.plot().svg


def test_buckets_of_a_question_are_a_histogram(flights: sf.Curator) -> None:
    text = "SELECT WIDTH_BUCKET(delay, 0, 100, 10) AS bin, COUNT(*) AS n FROM flights GROUP BY bin ORDER BY n"
    answer = flights.sql(text).preview(epsilon=1)
    assert answer.buckets == (("bin", 0.0, 100.0, 10),)
    assert sf.Answer.from_json(answer.to_json()) == answer
    words = re.findall(r">([^<>]*)</text>", answer.plot().svg)
    assert {"&lt; 0", "≥ 100", "20"} <= set(words)
    assert "≥ 100" not in answer.report().html, "a page without the question names none of its constants"
    assert "≥ 100" in answer.report(questions=True).html
    plain = flights.sql("SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin").preview(epsilon=1)
    assert plain.buckets == ()
    assert "buckets" not in plain.to_json()


@pytest.mark.parametrize(
    "buckets",
    [
        '["n",0,1,3]',
        '["bin",1,0,3]',
        '["bin",0,1,0]',
        '["bin",0,1,1e9]',
        '["bin","nan",1,3]',
        '["bin",0,1]',
        '"bin"',
        "7",
    ],
)
def test_hostile_buckets_are_refused(flights: sf.Curator, buckets: str) -> None:
    text = "SELECT WIDTH_BUCKET(delay, 0, 100, 10) AS bin, COUNT(*) AS n FROM flights GROUP BY bin"
    written = flights.sql(text).preview(epsilon=1).to_json()
    changed = re.sub(r'"buckets":\[\[[^\]]*\]\]', f'"buckets":[{buckets}]', written)
    assert changed != written
    with pytest.raises(sf.InvalidParameter):
        sf.Answer.from_json(changed)


def test_what_is_printed_as_a_table_is_a_table_in_a_notebook(flights: sf.Curator) -> None:
    marginals = flights.marginals("flights", [["origin", "carrier"], ["origin"]])
    shown = (
        marginals.error(rho="0.1"),
        marginals.preview(rho="0.1"),
        flights.limits("flights").preview(epsilon=1),
        flights.bounds("flights", "delay").preview(epsilon=1),
        sf.odometer([sf.Curve.gaussian(5)] * 30, "1e-6"),
    )
    for value in shown:
        page, words = value._repr_html_(), str(value)  # type: ignore[attr-defined]
        assert "<table" in page or "<pre" in page
        assert set(re.findall(r"\d[\d,.e-]*\d", words)) <= set(re.findall(r"\d[\d,.e-]*\d", page)), type(value)
