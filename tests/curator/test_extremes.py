"""Numbers as large and as small as anybody can write: refused before the charge, or answered; never charged in vain."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import sfumato as sf

PRICES: tuple[dict[str, Any], ...] = (
    {"epsilon": 1},
    {"epsilon": "1e-6"},
    {"epsilon": 10**5},
    {"epsilon": 1, "delta": "1e-9"},
    {"epsilon": 1, "delta": "1e-9", "mechanism": sf.Gaussian},
    {"rho": "0.1"},
    {"rho": "0.1", "mechanism": sf.Laplace},
    {"rho": 10**5, "mechanism": sf.Gaussian},
    {"within": "1e200"},
    {"within": "1e-200"},
    {"within": 10, "confidence": "0.999999"},
)
SIZES = ("1e-308", "1e-300", "1e-200", "1e-150", "1e150", "1e200", "1e300", "1e308")
WHOLES = (2**31, 2**53, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64)
VALUES = (
    *(f"x {operator} {size}" for size in SIZES for operator in ("+", "-", "*", "/")),
    *(f"LEAST(GREATEST(x, 0), {size})" for size in SIZES),
    *(f"LEAST(GREATEST(x, -{size}), {size})" for size in SIZES),
    *(f"w + {whole}" for whole in WHOLES),
    *(f"w * {whole}" for whole in WHOLES),
    *(f"w - {whole}" for whole in WHOLES),
    "x * 1e200 * 1e200",
    "x / 1e200 / 1e200",
    "2.5",
    "0",
    "x - x",
)
BOUNDS: tuple[tuple[Any, ...], ...] = (
    ("-1e300", "1e300"),
    ("-1e150", "1e150"),
    ("0", "1e-300"),
    ("0", "1e-150"),
    ("-1e-300", "0"),
    ("-1e300", "-1e299"),
    ("1e150", "1e150"),
    ("0", "1e300", "1e300"),
    ("0", "1e150", "1e-150"),
    ("-1e-150", "1e-150", "1e-300"),
    ("0", "0"),
    (-(2**62), 2**62),
)


def curator(path: Path, real: sf.Domain, whole: sf.Domain) -> sf.Curator:
    rows = pyarrow.table({"x": [0.25, None, 1.0], "w": [1, 2, 3], "who": [1, 1, 2]})
    table = sf.Table("people", rows, {"x": real, "w": whole}, id="who", max_rows=2)
    budget = sf.Budget(10**9, "9e-4")
    return sf.Curator(sf.Policy(sf.PrivacyUnit("person"), budget, {"people": table}), path)


def outcomes(made: sf.Curator, questions: list[str], prices: tuple[dict[str, Any], ...]) -> Iterator[str]:
    """What became of every question at every price: answered, refused for free, or wrong."""
    for text in questions:
        for price in prices:
            before = made.budget.spent
            try:
                answer = made.sql(text).release(**price, fresh=True)
                shown = f"{answer!r}{answer.to_csv()}{answer.to_json()}{answer._repr_html_()}"
                outcome = "answered" if shown else ""
            except (sf.Unsupported, sf.InvalidParameter, sf.Overspent) as refusal:
                outcome = "refused" if made.budget.spent == before else f"charged in vain: {text} at {price}: {refusal}"
            except Exception as error:  # whatever else it is, it must not be
                outcome = f"{type(error).__name__}: {text} at {price}: {error}"
            yield outcome


UNIT, SMALL = sf.Domain("real", bounds=(0, 1)), sf.Domain("integer", bounds=(0, 10))


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
@pytest.mark.parametrize("aggregate", ["SUM", "AVG"])
def test_no_literal_is_charged_and_not_answered(tmp_path: Path, aggregate: str, long: bool) -> None:
    """Half of the values for the sum and the others for the mean, or all for both in the long run."""
    values = VALUES if long else VALUES[aggregate == "AVG" :: 2]
    questions = [f"SELECT {aggregate}({value}) AS a, COUNT(*) AS n FROM people" for value in values]
    with curator(tmp_path / "a.ledger", UNIT, SMALL) as made:
        found = [*outcomes(made, questions, PRICES[:1]), *outcomes(made, questions[:: 11 if long else 33], PRICES[1:])]
    assert set(found) == {"answered", "refused"}


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_no_bound_is_charged_and_not_answered(tmp_path: Path, bounds: tuple[Any, ...], long: bool) -> None:
    """Each at a price of its own, or at all in the long run."""
    low, high, *grid = bounds
    try:
        if isinstance(low, int):
            domains = UNIT, sf.Domain("integer", bounds=(low, high))
        else:
            domains = sf.Domain("real", bounds=(low, high), grid=grid[0] if grid else None), SMALL
        made = curator(tmp_path / "a.ledger", *domains)
    except (sf.InvalidParameter, sf.InvalidPolicy):
        return  # refused before there is an account
    column = "w" if isinstance(low, int) else "x"
    questions = [f"SELECT {measure}({column}) AS a FROM people" for measure in ("SUM", "AVG", "COUNT")]
    questions += [f"SELECT SUM({column}) / AVG({column}) * 1e30 AS a FROM people HAVING SUM({column}) > -1e30"]
    with made:
        prices = PRICES if long else (PRICES[BOUNDS.index(bounds) % len(PRICES)],)
        assert set(outcomes(made, questions, prices)) <= {"answered", "refused"}


def test_finishing_may_be_as_extreme_as_the_measures(tmp_path: Path) -> None:
    made = [f"COUNT(*) {operator} {size}" for size in SIZES for operator in ("+", "*", "/", "%")]
    made += ["ROUND(COUNT(*), 308)", "ROUND(COUNT(*), -308)", "SQRT(COUNT(*) * 1e308)", "COUNT(*) / 0"]
    made += [f"COUNT(*) + {whole}" for whole in WHOLES]
    questions = [f"SELECT {each} AS a FROM people ORDER BY 1 LIMIT 1" for each in made]
    with curator(tmp_path / "a.ledger", UNIT, SMALL) as shop:
        assert set(outcomes(shop, questions, ({"epsilon": 1},))) == {"answered", "refused"}


def test_what_cannot_be_written_down_is_refused_before_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is: the form of the answer, its accuracy or how it is shown."""

    def refused(*_: object, **__: object) -> None:
        raise sf.InvalidParameter("unit_value", "1e999", "moderate")

    def overflown(*_: object, **__: object) -> None:
        raise OverflowError

    with curator(tmp_path / "a.ledger", UNIT, SMALL) as made:
        ask = made.sql("SELECT COUNT(*) AS n FROM people")
        for place in (
            "releasing.codec.dumps",
            "releasing.codec.loads",
            "releasing.entries.write_widths",
            "measured._in_measure_units",
            "answers.answer.format_as_table",
        ):
            for fails in (refused, overflown):
                with monkeypatch.context() as broken:
                    broken.setattr(f"sfumato.release.{place}", fails)
                    with pytest.raises(sf.Unsupported) as refusal:
                        ask.release(epsilon=1)
                assert refusal.value.code == "extreme-numbers"
        assert made.budget.spent["pure"] == 0


@pytest.mark.parametrize("other", [{"epsilon": 2}, {"confidence": "0.9"}, {"joint": True}, {"within": 3}])
def test_what_is_asked_otherwise_than_before_is_rehearsed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any]
) -> None:
    """Only the same release, shown in the same way, needs no second rehearsal."""

    def overflown(*_: object, **__: object) -> None:
        raise OverflowError

    with curator(tmp_path / "a.ledger", UNIT, SMALL) as made:
        ask = made.sql("SELECT COUNT(*) AS n FROM people")
        ask.release(epsilon=1)
        spent = made.budget.spent["pure"]
        price = {} if "within" in other else {"epsilon": 1}
        with monkeypatch.context() as broken:
            broken.setattr("sfumato.release.answers.answer.format_as_table", overflown)
            with pytest.raises(sf.Unsupported) as refusal:
                ask.release(**{**price, **other}, fresh=True)
        assert refusal.value.code == "extreme-numbers"
        assert made.budget.spent["pure"] == spent
        with monkeypatch.context() as broken:
            broken.setattr("sfumato.release.proposal.check_dry_run", overflown)
            assert not ask.release(epsilon=1, fresh=True).receipt.free


def test_confidence_has_a_range_that_is_said_before_the_charge(tmp_path: Path) -> None:
    with curator(tmp_path / "a.ledger", UNIT, SMALL) as made:
        ask = made.sql("SELECT COUNT(*) AS n FROM people")
        before = list(made.ledger.lines())
        for wrong in ("1e-300", 0, 1, "0.001", 1 - Fraction(1, 10**31), "nan", -1, "0.95%", None, True):
            for call in (ask.release, ask.error, ask.explain):
                with pytest.raises(sf.InvalidParameter, match="confidence must be a number from 0"):
                    call(epsilon=1, confidence=wrong)
            with pytest.raises(sf.InvalidParameter, match="confidence must be a number from 0"):
                ask.price(10, confidence=wrong)  # type: ignore[arg-type]
        assert list(made.ledger.lines()) == before
        for right in ("0.01", 1 - Fraction(1, 10**30)):
            assert ask.release(epsilon=1, confidence=right).intervals["n"][0] is not None
            assert ask.explain(confidence=right)


def test_whole_numbers_beyond_64_bits_are_exported_too(tmp_path: Path) -> None:
    """An answer that was paid for could not become an Arrow table: its sum did not fit 64 bits."""
    rows = pyarrow.table({"k": pyarrow.array([2**62] * 5, pyarrow.int64())})
    table = sf.Table("people", rows, {"k": {"type": "integer", "bounds": [0, 2**62]}}, id="row")
    policy = sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(10), {"people": table})
    with sf.Curator(policy, tmp_path / "l.ledger") as curator:
        answer = curator.sql("SELECT SUM(k) AS s, COUNT(*) AS n FROM people").release(epsilon=5)
    found = answer.to_arrow()
    assert [int(cell) for cell in found.column("s").to_pylist()] == answer.column("s")
    assert str(found.schema.field("n").type) == "int64"
