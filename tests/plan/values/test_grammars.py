"""Texts that are read, and what LOWER means."""

from __future__ import annotations

import datetime as dt
import re
from itertools import product

import pytest

from sfumato.plan.values import grammars
from sfumato.plan.values.grammars import BEYOND, DECIMAL, GRAMMARS, LOCAL, ZERO, ZONED
from sfumato.policy import Type


def read(text: str, kind: Type) -> bool:
    return re.fullmatch(GRAMMARS[kind], text) is not None


YEARS = (0, 1, 4, 96, 99, 100, 400, 1000, 1200, 1900, 1996, 2000, 2023, 2024, 2100, 9996, 9999)


def test_dates_are_those_that_exist() -> None:
    for year, month, day in product(YEARS, range(14), range(33)):
        text = f"{year:04}-{month:02}-{day:02}"
        try:
            dt.date.fromisoformat(text)
        except ValueError:
            assert not read(text, Type.DATE), text
        else:
            assert read(text, Type.DATE), text


@pytest.mark.parametrize(
    "text", ["2024-1-1", "24-01-01", "2024-01-01\n", "2024-01-01T", "+2024-01-01", "10000-01-01", ""]
)
def test_other_texts_are_no_dates(text: str) -> None:
    assert not read(text, Type.DATE)
    assert not read(text, Type.TIMESTAMP)


@pytest.mark.parametrize("clock", ["", " 00:00", "T23:59", " 12:34:56", "T00:00:59.5", " 23:59:59.999999"])
def test_times_are_dates_with_a_clock(clock: str) -> None:
    assert read(f"2024-02-29{clock}", Type.TIMESTAMP)
    assert not read(f"2023-02-29{clock}", Type.TIMESTAMP)


@pytest.mark.parametrize(
    "clock", [" 24:00", " 12", "  12:00", " 12:60", " 12:00:60", " 12:00z", " 12:00+1", " 12:00+15", " 12:00:00."]
)
def test_other_clocks_are_no_times(clock: str) -> None:
    assert not read(f"2024-01-01{clock}", Type.TIMESTAMP)


@pytest.mark.parametrize("text", ["0", "-7", "+7", "007", "9" * 18, "1 ", " 1", "8" + "9" * 18])
def test_whole_numbers(text: str) -> None:
    assert read(text, Type.INTEGER)
    assert read(text, Type.REAL)


@pytest.mark.parametrize("text", ["", "-", "1 1", "\u00a01", "1_000", "0x1A", "9" * 19, "--1", "٣", "1\n"])
def test_other_texts_are_no_whole_numbers(text: str) -> None:
    assert not read(text, Type.INTEGER)


@pytest.mark.parametrize("text", ["1.", ".5", "-0.25", "1e3", "1E-199", "12.5e+07", "9" * 40 + "." + "9" * 40 + "e199"])
def test_reals_that_every_engine_holds(text: str) -> None:
    assert read(text, Type.REAL)
    assert abs(float(text)) < 1e300


@pytest.mark.parametrize(
    "text", [".", "1e", "e5", "nan", "inf", "-infinity", "1e200", "1e-200", "1,5", "1e3.5", "0x1p3"]
)
def test_other_texts_are_no_reals(text: str) -> None:
    assert not read(text, Type.REAL)


@pytest.mark.parametrize("text", ["1e200", "-1e200", "0e999", "1e-200", ".5E+300", "inf", "-Infinity", "1e9999", "nan"])
def test_reals_no_engine_converts_are_0_or_beyond_every_bound_by_their_spelling(text: str) -> None:
    below, above = (re.fullmatch(each, text) is not None for each in BEYOND[Type.REAL])
    zero = re.fullmatch(ZERO, text) is not None
    assert not read(text, Type.REAL)
    assert not (below and above)
    if zero:
        assert float(text) == 0 or abs(float(text)) < 2.0**-500
    elif below or above:
        assert float(text) < -(2.0**500) if below else float(text) > 2.0**500
    else:
        assert text in ("1e9999", "nan")


def test_the_parts_of_a_grammar_belong_to_it() -> None:
    for text in ("7", "-.5", " 0.25 ", "9" * 40):
        assert re.fullmatch(DECIMAL, text)
        assert read(text, Type.REAL)
    for text, local in (("2024-01-05", True), ("2024-01-05 10:00", True), ("2024-01-05 10:00+02", False)):
        assert (re.fullmatch(LOCAL, text) is not None) is local
        assert (re.fullmatch(ZONED, text) is None) is local
        assert read(text, Type.TIMESTAMP)


def test_letters_become_small_one_for_one() -> None:
    assert grammars.lower("İSTANBUL ΑΣ Straße") == "istanbul ασ straße"
    everything = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert len(grammars.lower(everything)) == len(everything)
