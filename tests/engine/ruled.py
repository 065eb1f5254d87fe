"""Cells that columns with rules store, and what each means: by hand, and by a reading of their own in Python."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa

from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

DAY = dt.date(2024, 3, 5)


def at(*clock: int) -> dt.datetime:
    return dt.datetime(2024, 3, 5, *clock)


@dataclass(frozen=True)
class RuledColumn:
    """A declared column, and what its cells mean."""

    declared: Mapping[str, Any]
    cells: Mapping[Any, Any]


COLUMNS = {
    "german": RuledColumn(
        {"type": "date", "format": "%d.%m.%Y"},
        {
            "05.03.2024": DAY,
            "5.3.2024": DAY,
            "  5.3.2024 ": DAY,
            "29.2.2024": dt.date(2024, 2, 29),
            "29.2.2023": None,
            "29.2.1900": None,
            "29.2.2000": dt.date(2000, 2, 29),
            "31.4.2024": None,
            "31.12.9999": dt.date(9999, 12, 31),
            "1.1.0001": dt.date(1, 1, 1),
            "1.1.0000": None,
            "1.1.1": None,
            "05-03-2024": None,
            "05x03x2024": None,
            "005.3.2024": None,
            "2024-03-05": None,
            "5.3.2024\n": None,
            "5.3.2024 x": None,
            "٥.٣.٢٠٢٤": None,
            "５.３.２０２４": None,
            "": None,
            " ": None,
            "NA": None,
            "infinity": None,
            "\u202e5.3.2024": None,
            " " * 91 + "5.3.2024": DAY,
            " " * 93 + "5.3.2024": None,
            "5.3.2024" + "9" * 2000: None,
            "😀" * 300: None,
            None: None,
        },
    ),
    "names": RuledColumn(
        {"type": "date", "format": ["%B %d %Y", "%a, %d %b %y", "%d.%m.%y", "%y.%m.%d"]},
        {
            "March 5 2024": DAY,
            "mArCh   05 2024": DAY,
            "Mar 5 2024": None,
            "May 5 2024": dt.date(2024, 5, 5),
            "Tue, 05 Mar 24": DAY,
            "Sun, 5 mar 24": DAY,
            "Tuesday, 05 Mar 24": None,
            "Tue, 05 Mar 69": dt.date(1969, 3, 5),
            "Tue, 05 Mar 68": dt.date(2068, 3, 5),
            "05.03.24": DAY,
            "31.02.05": dt.date(2031, 2, 5),
            "31.02.30": None,
            "Märch 5 2024": None,
            "ſeptember 5 2024": None,
            "June 31 2024": None,
            None: None,
        },
    ),
    "packed": RuledColumn(
        {"type": "date", "format": "%Y%m%d"},
        {"20240305": DAY, "2024305": None, "20240230": None, "20240305 ": DAY, "+20240305": None, None: None},
    ),
    "moment": RuledColumn(
        {"type": "timestamp", "format": ["%d/%m/%Y %H:%M:%S.%f", "%d/%m/%Y %I:%M %p", "%d/%m/%Y %H:%M%z", "%d/%m/%Y"]},
        {
            "5/3/2024 7:08:09.5": at(7, 8, 9, 500_000),
            "5/3/2024 07:08:09.123456": at(7, 8, 9, 123_456),
            "5/3/2024 07:08:09.1234567": None,
            "5/3/2024 12:30 AM": at(0, 30),
            "5/3/2024 12:30 pm": at(12, 30),
            "5/3/2024 1:30 PM": at(13, 30),
            "5/3/2024 13:30 PM": None,
            "5/3/2024 0:30 AM": None,
            "5/3/2024 11:59 Am": at(11, 59),
            "5/3/2024 12:00+0200": at(10),
            "5/3/2024 12:00-05:30": at(17, 30),
            "5/3/2024 12:00Z": at(12),
            "5/3/2024 12:00+15:00": None,
            "5/3/2024 24:00Z": None,
            "5/3/2024": at(),
            "1/1/0001 0:00+14:00": None,
            None: None,
        },
    ),
    "day_of_moment": RuledColumn(
        {"type": "date", "format": "%Y-%m-%dT%H:%M:%S"},
        {"2024-03-05T23:59:59": DAY, "2024-03-05T23:59:60": None, "2024-03-05": None, None: None},
    ),
    "bounded_day": RuledColumn(
        {"type": "date", "format": "%m/%d/%Y", "bounds": ["2024-02-01", "2024-02-28"]},
        {"3/5/2024": dt.date(2024, 2, 28), "1/31/2024": dt.date(2024, 2, 1), "2/30/2024": None, None: None},
    ),
    "sentinel_day": RuledColumn(
        {"type": "date", "format": "%d.%m.%Y", "nulls": ["9999-12-31", "00.00.0000"]},
        {"31.12.9999": None, "30.12.9999": dt.date(9999, 12, 30), "00.00.0000": None, "5.3.2024": DAY, None: None},
    ),
    "euro": RuledColumn(
        {"type": "real", "decimal": ",", "thousands": ".", "currency": "€", "nulls": ["-999"]},
        {
            "1.234,50 €": 1234.5,
            "€1.234,50": 1234.5,
            "€ 5": 5.0,
            "-€5": -5.0,
            "€-5": -5.0,
            "- € 5": -5.0,
            "-5\u00a0€": -5.0,
            "−5": None,
            "--5": None,
            "-€-5": None,
            "€5€": None,
            "1.23,4": None,
            "1234.567,8": None,
            "1.234.567,8": 1234567.8,
            "1234567,8": 1234567.8,
            "1.5": None,
            ",5": 0.5,
            "5,": 5.0,
            "1e3": 1000.0,
            "1,5e-3 €": 0.0015,
            "€": None,
            "": None,
            ".": None,
            "-999": None,
            "-999,00 €": None,
            "-0.999": None,
            "inf": None,
            "1" * 41: None,
            "1e999": None,
            "1e-999": 0.0,
            "1\u20095": None,
            None: None,
        },
    ),
    "swiss": RuledColumn(
        {"type": "integer", "thousands": "'", "currency": "CHF", "bounds": [0, 2000]},
        {"CHF 1'234": 1234, "1'234.00": 1234, "1'234.5": None, "9'999": 2000, "-1": 0, "1’234": None, None: None},
    ),
    "french": RuledColumn(
        {"type": "real", "decimal": ",", "thousands": " "},
        {
            "1 234,5": 1234.5,
            "1\u202f234,5": 1234.5,
            "1\u00a0234\u202f567": 1234567.0,
            "1  234": None,
            "12 34": None,
            "\u00a05 ": 5.0,
            "5 €": None,
            None: None,
        },
    ),
    "dollar": RuledColumn(
        {"type": "real", "thousands": ",", "currency": "R$"},
        {"R$ 1,234.5": 1234.5, "$ 5": None, "R5": None, "5R$": 5.0, "R$$5": None, "${x}": None, None: None},
    ),
    "odd_day": RuledColumn(
        {"type": "date", "format": ["[%d] (%m)|%Y.*+?^{}", "%d\\%m\\%Y $", "%%%d_%m'%Y\"", "%d年%m月%Y-é"]},
        {
            "[5] (3)|2024.*+?^{}": DAY,
            "5 (3)|2024.*+?^{}": None,
            "[5] (3)|2024x*+?^{}": None,
            "5\\3\\2024 $": DAY,
            "%5_3'2024\"": DAY,
            "5年3月2024-é": DAY,
            "5年3月2024-e": None,
            None: None,
        },
    ),
    "percent": RuledColumn(
        {"type": "integer", "currency": "%"}, {"12 %": 12, "%": None, "12%": 12, "12.5%": None, None: None}
    ),
    "smoker": RuledColumn(
        {"type": "boolean", "true": ["Y", "2"], "false": ["N", "1"], "nulls": ["?"]},
        {
            "Y": True,
            " Y ": True,
            "y": None,
            "N": False,
            "1": False,
            "2": True,
            "0": False,
            "true": True,
            "?": None,
            None: None,
        },
    ),
    "sex": RuledColumn(
        {
            "values": ["Female", "male", "other"],
            "other": "other",
            "trim": True,
            "case": "lower",
            "map": {"f": "Female", "female": "Female", "m": "male", "": "other"},
            "nulls": ["NA"],
        },
        {
            " F": "Female",
            "FEMALE": "Female",
            "Female ": "Female",
            "m": "male",
            "MALE": "male",
            "\tm": "other",
            "İ": "other",
            "": "other",
            "na": "other",
            "NA": None,
            "  NA ": None,
            "m" + " " * 2000: "other",
            None: None,
        },
    ),
    "upper": RuledColumn(
        {"values": ["STRAßE", "ΑΣ"], "case": "upper"}, {"straße": "STRAßE", "ας": "ΑΣ", " ας": None, None: None}
    ),
    "word": RuledColumn(
        {"type": "text", "nulls": ["NA", "\\N", ""], "max_length": 3},
        {
            "NA": None,
            " NA": None,
            "\\N": None,
            "": None,
            "  ": None,
            "na": "na",
            "NAM": "NAM",
            "NAMI": "NAM",
            None: None,
        },
    ),
    "whole": RuledColumn(
        {"type": "integer", "nulls": ["-999", "NA", "0.5"], "bounds": [0, 100]},
        {
            "-999": None,
            " -999.0": None,
            "-9.99e2": None,
            "-998": 0,
            "NA": None,
            "0": 0,
            "7": 7,
            "0.5": None,
            None: None,
        },
    ),
    "possible_whole": RuledColumn(
        {"type": "integer", "bounds": [0, 9], "possible": [-1, 20]},
        {
            "-1": 0,
            "5": 5,
            "20": 9,
            "20.0": 9,
            "21": None,
            "-2": None,
            "1e30": None,
            "-inf": None,
            "inf": None,
            "9" * 30: None,
            "x": None,
            None: None,
        },
    ),
    "possible_euro": RuledColumn(
        {"type": "real", "decimal": ",", "bounds": [0, 1], "possible": ["-0.1", "1.1"], "nulls": ["0,5"]},
        {"-0,1": 0.0, "1,1": 1.0, "1,2": None, "0,5": None, "0,25": 0.25, "1e400": None, "nan": None, None: None},
    ),
    "possible_day": RuledColumn(
        {
            "type": "date",
            "format": "%d.%m.%Y",
            "bounds": ["2024-03-01", "2024-03-31"],
            "possible": ["2024-01-01", "2024-12-31"],
        },
        {
            "5.3.2024": DAY,
            "1.1.2024": dt.date(2024, 3, 1),
            "31.12.2023": None,
            "31.12.2024": dt.date(2024, 3, 31),
            "1.1.2025": None,
            None: None,
        },
    ),
}
"""Columns of texts, by name."""
STORED = {
    "stored_whole": (
        pa.int64(),
        {"type": "integer", "nulls": ["-999"], "thousands": ","},
        {-999: None, 5: 5, None: None},
    ),
    "stored_real": (
        pa.float64(),
        {"type": "real", "nulls": ["-999.5", "NA"], "decimal": ","},
        {-999.5: None, -999.0: -999.0, None: None},
    ),
    "stored_day": (
        pa.date32(),
        {"type": "date", "nulls": ["1900-01-01"], "format": "%d.%m.%Y"},
        {dt.date(1900, 1, 1): None, DAY: DAY, None: None},
    ),
    "possible_number": (
        pa.float64(),
        {"type": "real", "bounds": [0, 1], "possible": [-2, 2]},
        {-2.0: 0.0, 2.0: 1.0, 2.5: None, -3.0: None, float("inf"): None, float("nan"): None, 1e200: None, None: None},
    ),
    "possible_moment": (
        pa.timestamp("us"),
        {"type": "timestamp", "bounds": ["2024-03-05", "2024-03-06"], "possible": ["2024-03-01", "2024-03-10"]},
        {
            at(7): at(7),
            dt.datetime(2024, 3, 10): dt.datetime(2024, 3, 6),
            dt.datetime(2024, 3, 10, 1): None,
            None: None,
        },
    ),
    "possible_large": (
        pa.int64(),
        {"type": "integer", "bounds": [0, 5], "possible": [0, 2**62]},
        {2**62: 5, 2**62 + 1: None, 2**63 - 1: None, -1: None, 3: 3, None: None},
    ),
    "packed_whole": (
        pa.int64(),
        {"type": "date", "format": "%Y%m%d"},
        {20240305: DAY, 20240230: None, -1: None, None: None},
    ),
    "coded_truth": (
        pa.int64(),
        {"type": "boolean", "true": ["2"], "false": ["1"], "nulls": ["9"]},
        {1: False, 2: True, 9: None, 3: None, 0: False, None: None},
    ),
    "coded_text": (
        pa.int64(),
        {"values": ["a", "b"], "map": {"1": "a", "2": "b"}},
        {1: "a", 2: "b", 3: None, None: None},
    ),
}
"""Columns of other stored types: rules read whole numbers as their digits, and leave other types as they are."""


def policy_of(columns: Mapping[str, Any], rows: pa.Table, **more: Any) -> Policy:
    """A policy of one private table t in which every row is a unit."""
    return Policy(PrivacyUnit("row", every_row=True), Budget(1), {"t": Table("t", rows, columns, id="row", **more)})


def _numbered(columns: Mapping[str, tuple[Any, Mapping[str, Any], Sequence[Any]]]) -> Policy:
    """A policy over columns of cells, given as stored type, declaration and cells; rows are numbered by ``n``."""
    length = max(len(cells) for _, _, cells in columns.values())
    stored = {"n": pa.array(range(length))} | {
        name: pa.array([*cells, *[None] * (length - len(cells))], kind) for name, (kind, _, cells) in columns.items()
    }
    declared = {"n": {"type": "integer"}, **{name: each for name, (_, each, _) in columns.items()}}
    return policy_of(declared, pa.table(stored))


def _by_hand() -> dict[str, tuple[Any, Mapping[str, Any], Mapping[Any, Any]]]:
    return {name: (pa.string(), each.declared, each.cells) for name, each in COLUMNS.items()} | STORED


def hand_made() -> tuple[Policy, dict[str, list[Any]]]:
    """A policy over all cells above, and what each column of it means row by row."""
    policy = _numbered({name: (kind, declared, list(cells)) for name, (kind, declared, cells) in _by_hand().items()})
    length = policy.tables["t"].source.table.num_rows
    meant = {name: [*cells.values(), *[None] * (length - len(cells))] for name, (_, _, cells) in _by_hand().items()}
    return policy, {"n": list(range(length)), **meant}


def all_cells(count: int, storable: Callable[[str], bool] = lambda _: True) -> Policy:
    """A policy over all cells above, and as many random ones of each column below."""
    columns: dict[str, Any] = {name: (kind, each, list(cells)) for name, (kind, each, cells) in _by_hand().items()}
    for name, (declared, _, _) in READINGS.items():
        cells = random_cells(name, count, Random(f"{name} on every engine"))
        columns[name] = pa.string(), declared, [cell for cell in cells if storable(cell)]
    return _numbered(columns)


# An independent reading: strptime and exact numbers, no pattern of ours.


def _strptime(text: str, formats: list[str]) -> dt.datetime | None:
    for written in formats:
        try:
            moment = dt.datetime.strptime(text.strip(" "), written)
        except ValueError:
            continue
        return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
    return None


def _number(text: str, decimal: str, thousands: str, currency: str) -> float | None:
    spaces = " \u00a0\u202f"
    body = text.strip(spaces)
    sign = ""
    if body[:1] in ("+", "-") and body[:1]:
        sign, body = body[0], body[1:]
        body = body.lstrip(spaces) if body.lstrip(spaces).startswith(currency) else body
    if body.startswith(currency):
        body = body[len(currency) :].lstrip(spaces)
        if not sign and body[:1] in ("+", "-") and body[:1]:
            sign, body = body[0], body[1:]
    elif body.endswith(currency):
        body = body[: -len(currency)].rstrip(spaces)
    whole, point, rest = body.partition(decimal)
    first, *groups = whole.split(thousands)
    grouped = not groups or (1 <= len(first) <= 3 and len(groups) <= 13 and all(len(group) == 3 for group in groups))
    digits = "".join([first, *groups])
    if (
        not grouped
        or not (digits + rest)
        or not set(digits + rest) <= set("0123456789")
        or len(digits) > 40
        or len(rest) > 40
    ):
        return None
    if not digits and not (point and rest):
        return None
    return float(Fraction(int(digits + rest), 10 ** len(rest)) * (-1 if sign == "-" else 1))


READINGS: dict[str, tuple[Mapping[str, Any], Callable[[str], Any], str]] = {
    "day": (
        {"type": "date", "format": ["%d.%m.%Y", "%B %d, %Y"]},
        lambda text: (moment := _strptime(text, ["%d.%m.%Y", "%B %d, %Y"])) and moment.date(),
        "0123456789.  , MarchMayJune2024",
    ),
    "clock": (
        {"type": "timestamp", "format": "%Y-%m-%d %I:%M:%S.%f %p"},
        lambda text: _strptime(text, ["%Y-%m-%d %I:%M:%S.%f %p"]),
        "0123456789-: .AMpm",
    ),
    "price": (
        {"type": "real", "decimal": ",", "thousands": ".", "currency": "kr"},
        lambda text: _number(text, ",", ".", "kr"),
        "0123456789.,-+ \u00a0kr",
    ),
}
"""For each column its declaration, what a cell means, and the letters of random cells."""
_WHOLE = {
    "day": ["{d}.{m}.{Y}", "{d:02}.{m:02}.{Y}", " {d}.{m}.{Y} ", "March {d}, {Y}", "june  {d:02}, {Y}"],
    "clock": ["{Y}-{m:02}-{d:02} {I}:{M:02}:{S:02}.{f} PM", "{Y}-{m}-{d} {I:02}:{M}:{S}.{f} am"],
    "price": ["{Y}.{f3},{d} kr", "kr {f3}.{f3}", "-kr{Y}", "{d},{f}", "{f3}.{f3}.{f3},{d}\u00a0kr", "kr -{d}"],
}


def random_cells(column: str, count: int, random: Random) -> list[str]:
    """Texts of a column's form, some with letters put in, left out or changed, and texts of its letters alone."""
    letters, cells = READINGS[column][2] + "\0٣\u202ex", []
    while len(cells) < count:
        parts = {"Y": random.randint(1, 9999), "m": random.randint(1, 13), "d": random.randint(1, 32)}
        parts |= {"I": random.randint(1, 13), "M": random.randint(0, 60), "S": random.randint(0, 60)}
        parts |= {"f": random.randint(0, 10**6), "f3": f"{random.randint(0, 999):03}", "Y": f"{parts['Y']:04}"}
        text = random.choice(_WHOLE[column]).format(**parts)
        for _ in range(random.choice((0, 0, 0, 1, 2))):
            place = random.randrange(len(text) + 1)
            text = text[:place] + random.choice(["", random.choice(letters)]) + text[place + random.randint(0, 1) :]
        cells.append(text if random.random() < 0.95 else "".join(random.choices(letters, k=random.randint(0, 30))))
    return cells


_UNREAD = re.compile("[^ -~]")
"""White space and digits that strptime reads as those of ASCII, and our formats do not."""


def meaning(column: str, cell: str) -> Any:
    """What a random cell means."""
    if column != "price" and (_UNREAD.search(cell) or len(cell) > 100):
        return None
    return READINGS[column][1](cell)
