"""An answer elsewhere: frames with ranges, CSV that computes nothing, text that moves no cursor, pictures of a page."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

import sfumato as sf
from sfumato.plots.frame import PAGE_HEIGHT
from sfumato.release.answers.formatting import format_with_half_width, key_text, round_outward
from sfumato.untrusted import escape_for_spreadsheet, escape_unprintable


@pytest.fixture(scope="module")
def flights() -> Iterator[sf.Curator]:
    with sf.open(sf.example()) as curator:
        yield curator


@pytest.fixture(scope="module")
def answer(flights: sf.Curator) -> sf.Answer:
    text = "SELECT origin, COUNT(*) AS n, AVG(delay) AS d, COUNT(*) AS n_low FROM flights GROUP BY origin"
    return flights.sql(text).release(epsilon="0.5")


NAMES = ["origin", "n", "d", "n_low", "n_low_", "n_high", "d_low", "d_high", "n_low_low", "n_low_high"]


def test_frames_carry_the_ranges_under_names_of_their_own(answer: sf.Answer) -> None:
    assert answer.to_arrow().column_names == NAMES
    assert list(answer.to_pandas().columns) == NAMES
    assert answer.to_polars().columns == NAMES
    assert answer.to_arrow()["n_high"].to_pylist() == [high for _, high in answer.intervals["n"]]  # type: ignore[misc]
    for made in (answer.to_arrow(ranges=False).column_names, list(answer.to_pandas(ranges=False).columns)):
        assert made == ["origin", "n", "d", "n_low"]


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_missing_library_is_named_with_its_extra(
    answer: sf.Answer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(sf.SfumatoError, match=rf"pip install 'sfumato\[{name}\]'"):
        getattr(answer, f"to_{name}")()


def test_csv_has_no_more_digits_than_a_range_means(answer: sf.Answer) -> None:
    rows = list(csv.DictReader(io.StringIO(answer.to_csv())))
    for row, (low, high) in zip(rows, answer.intervals["d"], strict=True):  # type: ignore[misc]
        assert float(row["d_low"]) <= low <= high <= float(row["d_high"])
        assert len(row["d_low"].lstrip("-").replace(".", "")) <= 6
        assert "." not in row["n_high"]


ends = st.floats(-1e15, 1e15, allow_nan=False)


@given(low=ends, width=st.floats(1e-9, 1e12))
def test_a_shorter_range_holds_what_the_longer_held(low: float, width: float) -> None:
    short = round_outward((low, low + width))
    assert short[0] <= low
    assert short[1] >= low + width
    assert short[1] - short[0] <= max((width + math.ulp(low)) * 1.03, 16 * math.ulp(max(abs(low), width)))


def test_a_range_keeps_three_digits_of_its_half_width() -> None:
    assert round_outward((1.23456, 2.34567)) == (1.234, 2.346)
    assert round_outward((-123456.7, 987654.3)) == (-124000, 988000)
    assert round_outward((5.0, 5.0)) == (5.0, 5.0)
    assert round_outward((-math.inf, 1.23456)) == (-math.inf, 1.23456)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0"])
def test_a_spreadsheet_computes_no_cell(answer: sf.Answer, text: str) -> None:
    hostile = replace(answer, rows=((text, 1, 2.0, -3), *answer.rows[1:]), columns=("origin", "n", "d", "n_low"))
    first = next(csv.DictReader(io.StringIO(hostile.to_csv())))
    assert first["origin"] == f"'{text}"
    assert first["n_low"] == "-3"
    named = replace(answer, columns=(text, "n", "d", "n_low"), keys=(text,))
    assert next(csv.reader(io.StringIO(named.to_csv())))[0] == f"'{text}"


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\rb", "a\nb", "\u202eabc", "\x07", "a\tb", "\ttab=1"])
def test_no_text_moves_a_cursor(answer: sf.Answer, text: str) -> None:
    columns = (text, "n", "d", "n_low")
    hostile = replace(answer, rows=((text, 1, 2.0, 3), *answer.rows[1:]), columns=columns, keys=(text,))
    for shown in (hostile.to_csv(), repr(hostile), hostile._repr_html_(), hostile.bars("n")):
        assert text not in shown
        assert escape_unprintable(text) in shown.replace("&#x27;", "'")
    assert json.loads(hostile.to_json())["rows"][0][0] == text


def test_letters_of_every_script_stay_as_they_are() -> None:
    for text in ("café", "Ελλάδα", "東京", "a b", "it's", ""):
        assert escape_unprintable(text) == escape_for_spreadsheet(text) == text


def test_years_and_decades_are_no_amounts(flights: sf.Curator) -> None:
    made = flights.sql(
        "SELECT EXTRACT(year FROM day) AS year, FLOOR(EXTRACT(year FROM day) / 10) * 10 AS decade, COUNT(*) AS n "
        "FROM flights GROUP BY 1, 2"
    ).release(epsilon="0.1")
    assert [row[:2] for row in made.cells()] == [["2013", "2010"]]
    assert made.to_csv().splitlines()[1].startswith("2013,2010,")
    assert [key_text(each) for each in (1985, 1980.0, 2.5, None, True, 0.1)] == [
        "1985",
        "1980",
        "2.5",
        "NULL",
        "true",
        "0.1",
    ]


def test_numbers_have_the_digits_their_errors_leave() -> None:
    shown = {
        (1234567.891, 25.0): "1,234,568 ± 25",
        (12.3456, 0.5): "12.35 ± 0.50",
        (3, 1.0): "3 ± 1",
        (4.0, 1.0): "4.0 ± 1.0",
        (1262, 9.0): "1,262 ± 9",
        (1262, 3.3): "1,262 ± 4",
        (1e20, 1e18): "1e+20 ± 1e+18",
        (1e-9, 1e-10): "1e-09 ± 1e-10",
        (5, 0.0): "5",
        (1262, 0.0): "1,262",
    }
    for (value, reach), text in shown.items():
        assert format_with_half_width(value, (value - reach, value + reach)) == text


def test_only_the_noise_that_suits_it_goes_with_a_bounding(flights: sf.Curator) -> None:
    ask = flights.sql("SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin")
    length, size = ask.limit(strategy="clip-l2"), ask.limit(strategy="clip-l1")
    for call in (length.error, length.explain, length.release):
        with pytest.raises(sf.InvalidParameter, match="clip-l2 works only with Gaussian noise"):
            call(epsilon=1)
    with pytest.raises(sf.InvalidParameter, match="clip-l2 works only with Gaussian"):
        length.price(500)
    with pytest.raises(sf.InvalidParameter, match="clip-l1 works only with Laplace"):
        size.error(rho=1, mechanism=sf.Gaussian)
    assert "Gaussian" in str(length.explain(epsilon=1, delta="1e-9"))
    assert length.error(within=5000, delta="1e-9")["n"] <= 5000  # type: ignore[operator]
    assert "Laplace" in str(size.explain(epsilon=1, delta="1e-9"))


def test_what_there_is_can_be_seen() -> None:
    assert {"open", "Curator", "Policy", "games", "audit", "example"} <= set(dir(sf))
    assert all(hasattr(sf, name) for name in dir(sf))


# ── pictures ───────────────────────────────────────────────────────────────────────────────────


def _panels(made: sf.Answer) -> list[dict[str, object]]:
    return list(made.to_altair().to_dict()["hconcat"])


def test_a_missing_number_leaves_its_row_where_it_is(answer: sf.Answer) -> None:
    rows = [list(row) for row in answer.rows]
    rows[1][2] = None
    ranges = {**answer.intervals, "d": (answer.intervals["d"][0], None, answer.intervals["d"][2])}
    made = replace(answer, rows=tuple(map(tuple, rows)), intervals=ranges)
    panels = _panels(made)
    assert len(panels) == 3
    for panel in panels:
        layers: list[dict[str, dict[str, dict[str, object]]]] = panel["layer"]  # type: ignore[assignment]
        assert all(each["encoding"]["y"]["scale"] == {"domain": [0, 1, 2]} for each in layers)
    assert len({panel["height"] for panel in panels}) == 1


@pytest.mark.parametrize("count", [1, 40, 150, 5000])
def test_a_picture_is_at_most_a_page_high(answer: sf.Answer, count: int) -> None:
    rows = tuple((f"group {index}", index) for index in range(count))
    ranges = {"n": tuple((index - 1.0, math.inf) for index in range(count))}
    made = replace(
        answer,
        columns=("origin", "n"),
        types=("text", "integer"),
        rows=rows,
        intervals=ranges,
        possible={},
        caveats=None,
    )
    (panel,) = _panels(made)
    assert panel["height"] == min(20 * count, 800)
    assert ("the first 200 of 5,000 rows" in json.dumps(panel)) is (count == 5000)
    picture = made.plot()
    assert picture.height <= PAGE_HEIGHT
    assert ("only the first 200 of 5,000 rows are shown" in picture.svg) is (count == 5000)
