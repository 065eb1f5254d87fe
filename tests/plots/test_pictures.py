"""Every kind of picture is well-formed, loads nothing, keeps to its page, and shows no text over another."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, strategies as st

import sfumato as sf
from sfumato.plots.answers import Buckets, GroupColumn, draw_answer, draw_lines, draw_panels
from sfumato.plots.bars import bar_panels, parse_bins
from sfumato.plots.frame import (
    PAGE_HEIGHT,
    ChartData,
    KeyScale,
    LinearScale,
    LogScale,
    TimeScale,
    format_tick,
    seconds_since_1970,
    unframed_picture,
)
from sfumato.plots.heat_maps import HeatMapGrid, colour, heat_map, text_colour_on
from sfumato.plots.lines import LineAxes, PlottedLine, line_chart
from sfumato.plots.picture import (
    SUFFIXES,
    Picture,
    escape,
    escape_all,
    format_length,
    format_lengths,
    label,
    labels,
    text_width,
    tooltip_element,
    tooltip_elements,
    truncate,
)

SVG = "{http://www.w3.org/2000/svg}"
FOOT = ["protects one person", "ε = 0.5 for this answer", "ranges hold with 95 % confidence", "2026-11-15"]
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quotes\" & 'more' ]]>",
    "nul\x00 tab\t escape\x1b[31m \ud800 \ufffe",
    "\u202eturned round",
    "שלום עולם",
    "日本語のラベル" * 30,
    "e" + "\u0301" * 500,
    "x" * 10_000,
    "",
)


def key(name: str, values: Sequence[Any]) -> GroupColumn:
    return GroupColumn(name, tuple(values), tuple("NULL" if each is None else str(each) for each in values))


def column(name: str, labels: Sequence[str], values: Sequence[float | None], half: float = 20.0) -> ChartData:
    ranges = tuple(None if each is None else (each - half, each + half) for each in values)
    cells = tuple("NULL" if each is None else f"{each:,.0f} ± {half:.0f}" for each in values)
    noisy = tuple(each is not None and half > abs(each) / 2 for each in values)
    return ChartData(name, "by", tuple(labels), tuple(values), ranges, cells, noisy)


def numbers(count: int) -> list[float]:
    return [float(7919 * each % 997) for each in range(1, count + 1)]


def bars(count: int, columns: int = 1) -> Picture:
    labels = [f"a county with a name {each}" for each in range(count)]
    own = [column(f"number {each}", labels, numbers(count)) for each in range(columns)]
    return draw_answer(own, [key("county", labels)], FOOT)


def days(count: int) -> list[dt.date]:
    return [dt.date(2024, 1, 1) + dt.timedelta(days=each) for each in range(count)]


def lines(count: int, columns: int = 1) -> Picture:
    at = days(count)
    return draw_answer(
        [column(f"n{each}", list(map(str, at)), numbers(count)) for each in range(columns)], [key("day", at)], FOOT
    )


def several_lines(series: int) -> Picture:
    at, who = [each for each in days(10) for _ in range(series)], [f"line {each}" for each in range(series)] * 10
    own = column("n", list(map(str, at)), numbers(10 * series))
    return draw_lines([own], key("day", at), [key("who", who)], FOOT)


def grid(rows: int, across: int) -> Picture:
    one, other = zip(*((f"row {a}", f"a column {b}") for a in range(rows) for b in range(across)), strict=True)
    own = column("n", [f"{a} {b}" for a, b in zip(one, other, strict=True)], numbers(rows * across))
    return draw_answer([own], [key("row", one), key("column", other)], FOOT)


def histogram(bins: int) -> Picture:
    labels = [f"[{each * 250}, {each * 250 + 250})" for each in range(bins)]
    return draw_answer([column("visits", labels, numbers(bins))], [key("cost", labels)], FOOT)


def numbered_buckets(count: int) -> Picture:
    rows = range(count + 2)
    own = column("visits", list(map(str, rows)), numbers(count + 2))
    return draw_answer([own], [replace(key("cost", rows), buckets=Buckets(-0.125, 1e6, count))], FOOT)


def panels(count: int) -> Picture:
    own = [
        column(f"c{each}", [f"v{one}" for one in range(3 + 9 * each)], numbers(3 + 9 * each)) for each in range(count)
    ]
    return draw_panels(own, "Counts", FOOT)


PICTURES: dict[str, Callable[[], Picture]] = {
    **{f"{count} bars": partial(bars, count) for count in (1, 2, 40, 51, 200, 5000)},
    "many bars with notes": lambda: draw_answer(
        [column("n", list("ab" * 900), numbers(1800))], [key("k", "ab" * 900)], FOOT, ["a note", "and another"]
    ),
    **{f"{columns} columns of bars": partial(bars, 30, columns) for columns in (2, 3, 6, 9)},
    "two columns of many bars": partial(bars, 300, 2),
    **{f"{count} days": partial(lines, count) for count in (3, 40, 400, 4000)},
    **{f"{count} panels of days": partial(lines, 30, count) for count in (2, 4, 7)},
    **{f"{count} lines": partial(several_lines, count) for count in (1, 5, 20)},
    "a map": partial(grid, 5, 4),
    "a large map": partial(grid, 70, 60),
    "a histogram": partial(histogram, 20),
    "a fine histogram": partial(histogram, 500),
    **{f"{count} numbered buckets": partial(numbered_buckets, count) for count in (2, 10, 1000)},
    **{f"{count} small panels": partial(panels, count) for count in (1, 2, 9)},
    "a curve": lambda: sf.Curve.gaussian(2).plot(),
    "a pure curve": lambda: sf.Curve.pure(1).plot(),
    "a curve of nothing": lambda: sf.Curve.pure(0).plot(),
    "a curve that fails": lambda: sf.Curve.approximate(1, "0.01").plot(),
    "a budget": lambda: sf.Budget(1, "1e-6").charge(sf.Curve.pure("0.3")).plot(),
    "hostile": lambda: draw_answer(
        [column(HOSTILE[0], HOSTILE, numbers(9))], [key(HOSTILE[1], HOSTILE)], HOSTILE, HOSTILE
    ),
    "a hostile map": lambda: draw_answer(
        [column(HOSTILE[7], HOSTILE * 2, numbers(18))], [key("<a>", HOSTILE * 2), key("<b>", "x" * 9 + "y" * 9)], FOOT
    ),
}


@cache
def drawn(name: str) -> Picture:
    return PICTURES[name]()


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Picture:
    """A picture by its name: drawn when it is first asked for, not where tests are collected."""
    return drawn(request.param)


def parsed(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg)


@pytest.mark.parametrize("picture", PICTURES, indirect=True)
def test_pictures_are_well_formed_and_load_and_run_nothing(picture: Picture) -> None:
    tags = {each.tag.removeprefix(SVG) for each in parsed(picture).iter()}
    assert tags <= {"svg", "g", "rect", "path", "polygon", "circle", "text", "title"}
    names = {name for each in parsed(picture).iter() for name in each.attrib}
    assert not [name for name in names if name.lower().startswith("on") or "href" in name or name in {"class", "id"}]
    assert "url(" not in picture.svg
    assert picture.svg.count("http") == 1  # the name of the format


@pytest.mark.parametrize("picture", PICTURES, indirect=True)
def test_pictures_are_at_most_a_page(picture: Picture) -> None:
    assert picture.height <= PAGE_HEIGHT
    assert picture.width == 760


def texts(node: ElementTree.Element, x: float = 0.0, y: float = 0.0) -> list[tuple[float, float, float, float, str]]:
    """Give the room of every text that lies, as it is measured here: what is measured is not below what is drawn."""
    shift = re.match(r"translate\(([-0-9.]+) ([-0-9.]+)\)", node.get("transform", ""))
    turned = "rotate" in node.get("transform", "")
    x, y = (x + float(shift[1]), y + float(shift[2])) if shift else (x, y)
    found = []
    if node.tag == f"{SVG}text" and not turned:
        said = "".join([node.text or "", *(each.tail or "" for each in node)])
        size = float(node.get("font-size", "12"))
        wide, at = text_width(said, size) * 0.9, x + float(node.get("x", "0"))
        start = at - {"start": 0.0, "middle": wide / 2, "end": wide}[node.get("text-anchor", "start")]
        base = y + float(node.get("y", "0"))
        found.append((start, base - 0.7 * size, start + wide, base + 0.1 * size, said))
    return found + [each for child in node for each in texts(child, x, y)]


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_lies_over_another_or_outside(name: str) -> None:
    picture = drawn(name)
    found = [each for each in texts(parsed(picture)) if each[4]]
    for left, top, right, bottom, said in found:
        assert left >= 0, said
        assert right <= picture.width + 1, said
        assert top >= 0, said
        assert bottom <= picture.height, said
    if len(found) < 600:
        for one, other in combinations(found, 2):
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)


def test_the_same_numbers_give_the_same_text() -> None:
    assert bars(30, 2).svg == bars(30, 2).svg
    assert grid(5, 4).svg == grid(5, 4).svg


def test_terms_stand_on_every_picture_of_an_answer() -> None:
    for name, picture in ((name, drawn(name)) for name in PICTURES):
        if not re.search("curve|budget|hostile", name):
            for words in FOOT:
                assert words in picture.svg, name


def marks(picture: Picture, tag: str) -> list[ElementTree.Element]:
    return list(parsed(picture).iter(f"{SVG}{tag}"))


def test_bars_are_as_long_as_their_numbers() -> None:
    picture = draw_answer([column("n", "abc", [100, 300, -50], 1)], [key("k", "abc")])
    drawn = marks(picture, "rect")[1:]
    wide = [float(each.get("width", "0")) for each in drawn]
    assert [round(each / wide[0], 2) for each in wide] == [1, 3, 0.5]
    ends = [
        float(each.get("x", "0")) + each_wide for each, each_wide in zip(marks(picture, "rect")[1:], wide, strict=True)
    ]
    assert ends[2] == pytest.approx(float(marks(picture, "rect")[1].get("x", "0")), abs=0.02)  # below zero: to the left


def test_whiskers_end_where_ranges_end() -> None:
    data = ChartData("n", "", ("a", "b"), (10.0, 20.0), ((5.0, 15.0), (0.0, math.inf)), ("", ""))
    way = max(
        (each.get("d", "") for each in marks(unframed_picture(bar_panels([data])), "path")),
        key=lambda each: each.count("H"),
    )
    spans = [tuple(map(float, each)) for each in re.findall(r"M([0-9.]+) [0-9.]+H([0-9.]+)", way)]
    scale = (spans[0][1] - spans[0][0]) / 10
    assert spans[1][1] - spans[1][0] > 20 * scale * 0.99  # to the edge of the panel
    assert way.count("V") == 3  # no cap at what has no end


def test_a_missing_number_leaves_its_row_where_it_is() -> None:
    labels = "abc"
    own = [column("n", labels, [1, None, 3]), column("m", labels, [None, 2, 3])]
    picture = draw_answer(own, [key("k", labels)])
    rows = {each[4]: each[1] for each in texts(parsed(picture)) if each[4] in labels}
    missing = [each[1] for each in texts(parsed(picture)) if each[4] == "no number"]
    assert [round(each - 0.95, 0) for each in missing] == [round(rows["b"], 0), round(rows["a"], 0)] or len(
        missing
    ) == 2
    assert abs(missing[0] - rows["b"]) < 3
    assert abs(missing[1] - rows["a"]) < 3


def test_keys_decide_what_is_drawn() -> None:
    assert len(marks(lines(10), "polygon")) == 1
    assert not marks(bars(10), "polygon")
    years = list(range(1990, 2000))
    assert marks(draw_answer([column("n", list(map(str, years)), numbers(10))], [key("year", years)]), "polygon")
    shuffled = [3, 1, 2]
    assert not marks(draw_answer([column("n", "312", numbers(3))], [key("year", shuffled)]), "polygon")
    assert len(marks(several_lines(5), "polygon")) == 5
    at = [each for each in days(4) for _ in range(2)]
    own = column("n", list(map(str, at)), numbers(8))
    assert len(marks(draw_answer([own], [key("day", at), key("who", "ab" * 4)]), "polygon")) == 2
    assert len(marks(grid(5, 4), "rect")) > 20


def test_a_gap_in_a_line_is_left_open() -> None:
    at = days(7)
    picture = draw_answer([column("n", list(map(str, at)), [1, 2, None, 4, 5, 6, 7])], [key("day", at)])
    assert len(marks(picture, "polygon")) == 2


def test_a_key_that_is_null_is_said_beside_the_line() -> None:
    at = [*days(4), None]
    assert "day NULL: 5 ± 20" in draw_answer([column("n", [*"abcde"], [1, 2, 3, 4, 5])], [key("day", at)]).svg


def test_what_is_too_noisy_is_hollow() -> None:
    picture = draw_answer([column("n", "ab", [100, 30], 20)], [key("k", "ab")])
    assert [each.get("stroke-dasharray") for each in marks(picture, "rect")[1:]] == [None, "3 2"]


def test_a_map_gives_noise_no_colour_and_no_part_in_the_scale() -> None:
    """A number below its ± may be the largest of all: it would be the darkest cell, and fade those that are known."""
    grid = HeatMapGrid("n", ("r",), ("a", "b", "c"), ((100.0, 50.0, 900.0),), noisy=((False, False, True),))
    cells = "".join(heat_map(grid).parts)
    assert cells.count(colour(1.0, signed=False)) == 2  # the largest number, and the end of the legend
    assert colour(0.5, signed=False) in cells
    assert colour(50 / 900, signed=False) not in cells
    assert cells.count('stroke-dasharray="3 2"') == 1


def long_line(values: Sequence[float | None]) -> tuple[list[tuple[str, str]], list[str]]:
    """Draw a line of many days; return the width and the steps of each of its strokes, and the fills of its dots."""
    at = days(len(values))
    picture = draw_answer([column("n", list(map(str, at)), values)], [key("day", at)])
    strokes = [each for each in marks(picture, "path") if each.get("stroke-linejoin")]
    return [(each.get("stroke-width") or "1", re.sub("[^ML]", "", each.get("d") or "")) for each in strokes], [
        each.get("fill") or "" for each in marks(picture, "circle")
    ]


def test_a_long_line_is_thin_where_it_is_too_noisy() -> None:
    strokes, dots = long_line([500.0] * 50 + [1.0] * 3 + [500.0] * 50)
    assert strokes == [("0.7", "M" + "L" * 102), ("2", "M" + "L" * 49), ("2", "M" + "L" * 49)]
    assert dots == []


def test_a_point_without_neighbours_has_a_dot_however_long_the_line() -> None:
    """A stroke of one point shows nothing: precise values vanished between missing or noisy ones."""
    _, dots = long_line([*[500.0] * 50, None, 500.0, None, 1.0, None, 1.0, 500.0, 1.0, *[500.0] * 50])
    assert dots[1] == "#ffffff"
    assert [each == "#ffffff" for each in dots] == [False, True, False]
    assert sum(path == "M" for _, path in long_line([500.0] * 60)[0]) == 0


def test_a_line_without_tooltips_shows_a_single_point() -> None:
    drawing = line_chart([PlottedLine("a", (1.0, 2.0, 3.0), (5.0, None, 7.0))], LineAxes("n"))
    assert sum("<circle" in part for part in drawing.parts) == 2


def buckets(numbers_of_rows: Sequence[int | None], values: Sequence[float]) -> Picture:
    own = column("n", list(map(str, numbers_of_rows)), values)
    return draw_answer([own], [replace(key("bin", numbers_of_rows), buckets=Buckets(0.0, 100.0, 4))])


def test_numbered_buckets_are_a_histogram_in_their_order() -> None:
    picture = buckets([5, 0, 1, 3, 2, 4], [60, 10, 20, 40, 30, 50])
    bars = marks(picture, "rect")[1:]
    lefts = [float(each.get("x") or 0) for each in bars]
    heights = [float(each.get("height") or 0) for each in bars]
    assert lefts == sorted(lefts)
    assert heights == sorted(heights)
    gaps = [round(after - before) for before, after in pairwise(lefts)]
    assert gaps[0] == gaps[-1] > max(gaps[1:-1]), "what is below and above stands apart"
    texts = [each.text for each in marks(picture, "text")]
    assert {"< 0", "≥ 100", "0", "100"} <= set(texts)
    titles = [each.text for each in parsed(picture).iter(f"{SVG}title")]
    assert "[25, 50): 30 ± 20" in titles


def test_a_bucket_of_missing_values_is_said_beside_the_histogram() -> None:
    assert "bin NULL: n 7 ± 20" in buckets([1, 2, 3, 4, None], [10, 20, 30, 40, 7]).svg


@pytest.mark.parametrize("numbered", [[0, 1, 9], [1, 1, 2], [-1, 0, 1], ["a", "b", "c"], [1, 2]])
def test_what_numbers_no_buckets_is_no_histogram(numbered: list[Any]) -> None:
    picture = buckets(numbered, numbers(len(numbered)))
    assert not {"< 0", "≥ 100"} & {each.text for each in marks(picture, "text")}


def test_a_bucket_that_is_not_shown_leaves_its_place_empty() -> None:
    bars = marks(buckets([1, 2, 4], [10, 20, 40]), "rect")[1:]
    lefts = [float(each.get("x") or 0) for each in bars]
    assert lefts[2] - lefts[1] == pytest.approx(2 * (lefts[1] - lefts[0]), abs=0.1)


def test_what_is_left_out_is_said() -> None:
    assert "only the first 200 of 5,000 rows are shown" in drawn("5000 bars").svg
    assert "the first 6 of 9 columns" in drawn("9 columns of bars").svg
    assert "only the first 8 of 20 lines are shown" in drawn("20 lines").svg
    assert "only the first 40 of 70 rows are shown" in drawn("a large map").svg
    assert "the first 6 of 9 panels" in drawn("9 small panels").svg


def test_labels_name_bins_or_do_not() -> None:
    assert parse_bins(["[0, 500)", "[500, 1000]"]) == [(0, 500), (500, 1000)]
    for named in (["[0, 500)"], ["[0, 500)", "[600, 1000]"], ["a", "b"], ["[0, 500)", "NULL"], ["[1, 0)", "[0, -1)"]):
        assert parse_bins(named) is None


def test_an_answer_without_numbers_is_refused() -> None:
    with pytest.raises(sf.InvalidParameter, match="at least one column of numbers"):
        draw_answer([], [])


# ── texts and scales ───────────────────────────────────────────────────────────────────────────


def test_texts_are_cut_to_their_room() -> None:
    assert truncate("short", 100) == "short"
    for text in HOSTILE:
        shown = truncate(text, 80)
        assert text_width(shown) <= 81
        assert len(shown) <= 201
        assert shown.isprintable()
    assert truncate("x" * 10_000, 80).endswith("…")


def test_no_pile_of_marks_leaves_its_line() -> None:
    assert truncate("e" + "\u0301" * 150 + "a\u0323\u0301", 80) == "e\u0301\u0301\u0301a\u0323\u0301"
    written = "".join(each[4] for name in PICTURES for each in texts(parsed(drawn(name))))
    assert "\u0301" in written
    assert "\u0301" * 4 not in written


def test_all_numbers_beside_an_axis_are_in_one_unit() -> None:
    assert [text for _, text in LinearScale(0, 23_000, 0, 100).ticks(6)] == ["0", "5k", "10k", "15k", "20k"]
    assert [text for _, text in LinearScale(0, 2.3e6, 0, 100).ticks(6)] == ["0", "0.5M", "1M", "1.5M", "2M"]
    assert [text for _, text in LinearScale(0, 9000, 0, 100).ticks(6)] == ["0", "2,000", "4,000", "6,000", "8,000"]


def test_numbers_are_written_as_people_write_them() -> None:
    told = [format_tick(each, 1) for each in (0, 7, 1500, 20_000, 1_250_000, 3e9, -5)]
    assert told == ["0", "7", "1,500", "20k", "1.25M", "3bn", "−5"]
    assert [text for _, text in KeyScale(1990, 2010, 0, 100).ticks(5)] == ["1990", "1995", "2000", "2005", "2010"]
    assert [text for _, text in LinearScale(0, 1, 0, 100).ticks(6)] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert [text for _, text in LogScale(0.01, 10, 0, 100).ticks(5)] == ["0.01", "0.1", "1", "10"]
    years = TimeScale(seconds_since_1970(dt.date(2020, 1, 1)), seconds_since_1970(dt.date(2022, 1, 1)), 0, 1)
    assert [text for _, text in years.ticks(3)] == ["2020", "2021", "2022"]


@pytest.mark.parametrize(
    "values",
    [
        [dt.date(2013, month, 1) for month in (6, 7, 8)],
        [dt.datetime(2013, 6, 1), dt.datetime(2013, 7, 1), None, dt.datetime(2013, 8, 1)],
    ],
)
def test_the_ticks_of_a_monthly_series_are_its_months(values: Sequence[dt.date | None]) -> None:
    months = key("month", values)
    ends = [seconds_since_1970(end) for end in (dt.date(2013, 6, 1), dt.date(2013, 8, 1))]
    ticks = months.scale_class(*ends, 0, 700).ticks(20)
    assert [text for _, text in ticks] == ["Jun 2013", "Jul 2013", "Aug 2013"]
    in_month = key("day", [*values, dt.date(2013, 7, 15) if None not in values else dt.datetime(2013, 7, 1, 12)])
    assert len(in_month.scale_class(*ends, 0, 700).ticks(20)) > 3


def test_the_ticks_of_a_weekly_series_are_mondays() -> None:
    weeks = key("week", [dt.date(2013, 5, 27) + dt.timedelta(weeks=week) for week in range(14)])
    ends = [weeks.coordinate(row) for row in (0, 13)]
    for most, step in ((14, 7), (8, 14)):
        ticks = [
            dt.datetime.fromtimestamp(moment, dt.UTC) for moment, _ in weeks.scale_class(*ends, 0, 700).ticks(most)
        ]
        assert {tick.weekday() for tick in ticks} == {0}
        assert {(later - earlier).days for earlier, later in pairwise(ticks)} == {step}


@pytest.mark.parametrize("ends", [(0, 0), (-1e300, 1e300), (1e-300, 2e-300), (5, 5), (0, 1e-9)])
def test_scales_keep_to_their_ends(ends: tuple[float, float]) -> None:
    scale = LinearScale(*ends, 10, 90)
    for number in (*ends, -math.inf, math.inf):
        assert 10 <= scale(number) <= 90
    assert len(scale.ticks(5)) <= 7


def test_extreme_numbers_are_drawn() -> None:
    data = ChartData(
        "n", "", ("a", "b", "c"), (1e308, -1e308, 0.0), ((-math.inf, math.inf), (-1e308, 0.0), (0.0, 0.0)), ("", "", "")
    )
    assert "nan" not in draw_answer([data], []).svg
    assert "inf" not in draw_answer([data], []).svg


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("signed", [False, True])
def test_numbers_can_be_read_on_every_colour(signed: bool) -> None:
    for share in range(-100, 101):
        fill = colour(share / 100, signed=signed)
        light, dark = sorted((luminance(fill), luminance(text_colour_on(fill))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, share


def test_colours_can_be_told_apart_without_colour() -> None:
    steps = [luminance(colour(each / 8, signed=False)) for each in range(9)]
    assert steps == sorted(steps, reverse=True)
    from sfumato.plots.picture import DASHES, INK, LINES, QUIET

    assert len(set(DASHES)) == len(LINES) == len(DASHES)
    for each in (*LINES, INK, QUIET):
        assert 1.05 / (luminance(each) + 0.05) >= 4.5, each  # on white


# ── files ──────────────────────────────────────────────────────────────────────────────────────


def test_a_picture_is_saved_and_shown(tmp_path: Path) -> None:
    picture = bars(3)
    for kind in SUFFIXES:
        picture.save(tmp_path / f"it{kind}")
    assert (tmp_path / "it.svg").read_text() == picture.svg == picture._repr_svg_()
    assert str(picture) == "<Picture 'number 0 by county', 760 × 207: .svg, .save('picture.svg')>"
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in picture._repr_html_()
    assert "<svg" in (tmp_path / "it.html").read_text()
    for name in ("it.pdf", "no/folder.svg", "."):
        with pytest.raises(sf.InvalidParameter):
            picture.save(tmp_path / name)


def test_a_png_needs_the_extra_and_svg_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(sf.SfumatoError, match="not installed") as refusal:
        bars(3).save(tmp_path / "it.png")
    assert "sfumato[plot]" in refusal.value.fix
    bars(3).save(tmp_path / "it.svg")


def test_a_picture_for_a_page_has_no_style_of_its_own() -> None:
    name = '<a style="max-width:100%;height:auto">'
    picture = draw_answer([ChartData(name, name, (name,), (1.0,), ((0.5, 1.5),), (name,))], [])
    assert " style=" in picture.svg
    assert ElementTree.fromstring(picture.without_style()).get("style") is None
    assert not [each for each in ElementTree.fromstring(picture.without_style()).iter() if each.get("style")]


# ── many marks are written at once as one is ───────────────────────────────────────────────────


@given(st.lists(st.floats() | st.floats(-1000, 1000) | st.integers(-(10**6), 10**6).map(lambda each: each / 1000)))
@example([0.0, -0.0, -0.001, 0.004, -0.006, 100.0, -100.0, 1.5, 10.05, 1e300, 0.1])
def test_many_lengths_are_written_as_each_of_them_is(numbers: list[float]) -> None:
    assert format_lengths(numbers) == [format_length(each) for each in numbers]


@given(st.lists(st.text() | st.sampled_from(HOSTILE)))
def test_many_texts_are_escaped_as_each_of_them_is(texts: list[str]) -> None:
    assert escape_all(texts) == [escape(each) for each in texts]
    assert tooltip_elements(texts) == [tooltip_element(each) for each in texts]
    heights = [format_length(10.0 * place) for place in range(len(texts))]
    expected = [label(8, 10.0 * place, text, anchor="end", max_width=60.0) for place, text in enumerate(texts)]
    assert labels(8, heights, texts, 60.0, anchor="end") == expected


@pytest.mark.parametrize(
    "scale", [LinearScale(-2.0, 7.0, 10.0, 90.0), LinearScale(1.0, 1.0, 0.0, 8.0), LogScale(0.1, 90.0, 8.0, 0.0)]
)
def test_many_numbers_are_placed_as_each_of_them_is(scale: LinearScale) -> None:
    numbers = [-math.inf, -3.0, 0.05, 1.0, 6.9, 7.0, 1e9, math.inf]
    assert scale.coordinates(numbers) == [scale(each) for each in numbers]
    assert scale.coordinates(numbers) == sorted(scale.coordinates(numbers), reverse=scale.end < scale.start)


def test_a_number_that_is_none_has_no_bar_and_ranges_without_ends_stay_inside() -> None:
    """Neither is ever answered; a picture would not say "nan" all the same."""
    data = ChartData("n", "", ("a", "b"), (math.nan, 3.0), ((math.nan, 1.0), (-math.inf, math.inf)), ("", ""))
    assert "nan" not in draw_answer([data], []).svg
    assert "inf" not in draw_answer([data], []).svg
