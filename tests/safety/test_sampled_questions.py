"""A question over a secret sample: its law, by listing every sample, is within the curve that is charged."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from engine.tables import tuples
from safety.worlds import Row, World, question
from sfumato.curator.proposals.questions import Question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.ledger.spending import SampledCharge, read_parts
from sfumato.plan.bounding import BoundedPlan, Strategy
from sfumato.plan.limits import ROW_KEY_BITS, combined_key, hash_prefix, hash_threshold
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.release import releasing
from sfumato.release.prices import Price
from sfumato.release.pricing import PricedRelease, price_release

RATE = Fraction(1, 4)
COLUMNS = {"age": {"type": "integer", "bounds": [0, 2]}}
WORLD = World(True, (1, None, None), COLUMNS, {"who": pa.int64(), "age": pa.int64()}, {}, ())
ASKED = "SELECT COUNT(*) AS n, SUM(age) AS ages FROM people WHERE age > 0"
COUNTED = "SELECT COUNT(*) AS n FROM people WHERE age > 0"
AGES = {1: 1, 2: 2, 3: 2, 4: 0}
"""The units with their ages: the first two are in every database; 3 counts as much as anybody can, and 4 not at all."""
ADDED, EXCHANGED = ((1, 2, 3), (1, 2)), ((1, 2, 3), (1, 2, 4))
Law = np.ndarray[Any, Any]
_REACH = 70


def _rows(units: Sequence[int]) -> list[Row]:
    return [{"who": unit, "age": AGES[unit]} for unit in units]


def _asked(text: str, relation: str) -> Question:
    policy = WORLD.policy(_rows((1, 2)), relation)
    return question(DuckDB(policy, threads=1), policy, text)


def _prepared(text: str, relation: str, price: Price, family: Any = sf.Laplace, rate: Fraction = RATE) -> PricedRelease:
    return price_release(_in_steps(_asked(text, relation)), price, family=family, sample=rate)


def _in_steps(asked: Question) -> list[BoundedPlan]:
    """The bounding that keeps or drops whole rows, whose totals are whole numbers of rows and years."""
    return [each for each in asked.bounding_options if each.strategy is Strategy.SAMPLE]


def _noise_law(mechanism: Any) -> Law:
    steps = np.arange(-_REACH, _REACH + 1)
    if isinstance(mechanism, sf.Laplace):
        mass = np.exp(-np.abs(steps) / float(mechanism.scale))
    else:
        mass = np.exp(-(steps**2) / (2 * float(mechanism.sigma) ** 2))
    return mass / mass.sum()


def _released_law(prepared: PricedRelease, units: Sequence[int], drawn: float | None = None) -> Law:
    """The joint law of the noisy totals: of every sample of the units, and the noise around its totals."""
    share = int(hash_threshold(prepared.bounded.sample or Fraction(1)), 16) / 2**64 if drawn is None else drawn
    noises = [_noise_law(mechanism) for mechanism in prepared.totals_mechanisms]
    law = 0.0
    for taken in itertools.product((0, 1), repeat=len(units)):
        ages = [AGES[unit] for unit, is_in in zip(units, taken, strict=True) if is_in and AGES[unit] > 0]
        totals = (len(ages), sum(ages))
        weight = math.prod(share if is_in else 1 - share for is_in in taken)
        shifted = [np.roll(noise, total) for noise, total in zip(noises, totals, strict=False)]
        law = law + weight * (shifted[0] if len(shifted) == 1 else np.multiply.outer(*shifted))
    return np.asarray(law)


def _excess(p: Law, q: Law, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def _excesses(prepared: PricedRelease, databases: Any, epsilon: float, drawn: float | None = None) -> float:
    first, second = (_released_law(prepared, units, drawn) for units in databases)
    return max(_excess(first, second, epsilon), _excess(second, first, epsilon))


RELATIONS = (("add-remove", ADDED), ("replace", EXCHANGED), ("replace", ADDED))
"""With replace neighbours a unit is exchanged; one that does not count is as good as absent."""


@pytest.mark.parametrize(("relation", "databases"), RELATIONS)
def test_what_is_released_is_within_the_curve_that_is_charged(relation: str, databases: Any) -> None:
    """Two totals, every sample of three units, both directions; and no less than a third of what is charged."""
    price = Price(1)
    prepared = _prepared(ASKED, relation, price)
    (charge,) = prepared.batch.charged
    assert isinstance(charge, SampledCharge)
    assert charge.rate == RATE
    assert price.is_satisfied_by(prepared.curve)
    excesses = {epsilon: _excesses(prepared, databases, epsilon) for epsilon in (0.0, 0.8)}
    bounds = {epsilon: prepared.curve.delta(epsilon) for epsilon in excesses}
    assert all(excesses[epsilon] <= bounds[epsilon] + 1e-12 for epsilon in excesses)
    assert excesses[0.0] >= bounds[0.0] / 3
    assert _excesses(prepared, databases, 1.0) <= 1e-12


@pytest.mark.parametrize(("relation", "databases"), [("add-remove", ((3,), ())), ("replace", ((3,), (4,)))])
def test_a_single_count_leaks_just_what_is_charged(relation: str, databases: Any) -> None:
    """Its worst pair is the charged one, and broken twins are caught: charged at half the rate, or sampled at twice."""
    prepared = _prepared(COUNTED, relation, Price(1))
    (charge,) = prepared.batch.charged
    assert isinstance(charge, SampledCharge)
    epsilon = 0.5
    excess, bound = _excesses(prepared, databases, epsilon), prepared.curve.delta(epsilon)
    assert math.isclose(excess, bound, rel_tol=1e-6)
    assert SampledCharge(charge.charges, RATE / 2).curve.delta(epsilon) < excess / 1.5
    assert _excesses(prepared, databases, epsilon, drawn=float(2 * RATE)) > 1.5 * bound
    assert _excesses(prepared, databases, epsilon, drawn=1.0) > 3 * bound, "as if the sample were known"


@pytest.mark.parametrize(("relation", "databases"), RELATIONS[:2])
def test_gaussian_noise_on_a_sample_keeps_its_price(relation: str, databases: Any, long: bool) -> None:
    price = Price(1, "0.001")
    prepared = _prepared(COUNTED, relation, price, sf.Gaussian)
    for alone in (databases, tuple(tuple(unit for unit in units if unit > 2) for units in databases)):
        excess = _excesses(prepared, alone, 1.0)
        assert excess <= price.delta
        assert not long or excess <= prepared.curve.delta(1) <= price.delta
    assert excess > price.delta * 0.9


def test_several_noises_share_one_sample() -> None:
    """Where one sample serves two noises, a unit that is in it shows in both: more than in two samples of their own."""
    charge = SampledCharge([sf.Charged(sf.Laplace(1), 1), sf.Charged(sf.Laplace(1), 1)], RATE)
    apart = sf.compose([(sf.Laplace(1).curve(1).subsampled(RATE), 2)])
    law = _noise_law(sf.Laplace(1))
    with_unit, without = (
        (1 - float(RATE)) * np.multiply.outer(law, law)
        + float(RATE) * np.multiply.outer(np.roll(law, shift), np.roll(law, shift))
        for shift in (1, 0)
    )
    excess = _excess(with_unit, without, 0.9)
    assert math.isclose(excess, charge.curve.delta("0.9"), rel_tol=1e-6)
    assert apart.delta("0.9") < excess / 2


def test_renyi_divergence_is_within_what_an_account_is_charged() -> None:
    prepared = _prepared(COUNTED, "add-remove", Price(1))
    first, second = (np.log(_released_law(prepared, units)) for units in ((3,), ()))
    for order in (2, 12):
        for p, q in ((first, second), (second, first)):
            divergence = math.log(float(np.exp(order * p + (1 - order) * q).sum())) / (order - 1)
            assert divergence <= prepared.curve.renyi(order) * (1 + 1e-9)


def test_a_price_buys_the_noise_of_a_larger_one_on_the_sample() -> None:
    """ε = 1 on a quarter of the units is ε₀ = ln(1 + 4(e − 1)) on the sample; a price in ρ buys the same noise."""
    prepared = _prepared(COUNTED, "add-remove", Price(1))
    assert math.isclose(1 / float(prepared.totals_mechanisms[0].scale), math.log(1 + 4 * (math.e - 1)), rel_tol=1e-9)
    assert math.isclose(float(prepared.curve.max_divergence or 0), 1, rel_tol=1e-9)
    assert prepared.curve.max_divergence is not None
    assert prepared.curve.max_divergence <= 1
    assert prepared.price == Price(1)
    in_rho = _prepared(COUNTED, "add-remove", Price(rho="0.1"), sf.Gaussian)
    whole = price_release(_in_steps(_asked(COUNTED, "add-remove")), Price(rho="0.1"), family=sf.Gaussian)
    assert in_rho.totals_mechanisms == whole.totals_mechanisms


# The sample itself


def _sampled_units(units: Sequence[object], rate: Fraction, key: int) -> list[object]:
    def hashed(unit: object) -> int:
        return int.from_bytes(hashlib.sha256(f"{hash_prefix(key)}{unit}".encode()).digest()[:8], "big")

    return [unit for unit in units if hashed(unit) < math.floor(rate * 2**64)]


PEOPLE = range(1000, 1400)
POLICY = """
[unit]
name = "person"
neighbours = "RELATION"
budget = { epsilon = 200 }
size = 400
[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 3
[tables.visits.columns]
ward = { values = ["a", "b"] }
cost = { type = "integer", bounds = [0, 10] }
[tables.drugs]
source = "drugs.csv"
id = { via = "visits", on = "visit" }
max_rows = 3
[tables.drugs.columns]
dose = { type = "integer", bounds = [0, 10] }
"""


def _write(folder: Path, relation: str = "add-remove") -> Path:
    visits = ["visit,who,ward,cost", *(f"{p * 10 + v},{p},{'ab'[v % 2]},{p % 7}" for p in PEOPLE for v in range(3))]
    drugs = ["visit,dose", *(f"{p * 10 + v},{v + 1}" for p in PEOPLE for v in range(2))]
    (folder / "visits.csv").write_text("\n".join(visits) + "\n")
    (folder / "drugs.csv").write_text("\n".join(drugs) + "\n")
    path = folder / "policy.toml"
    path.write_text(
        POLICY.replace("RELATION", relation).replace('via = "visits", on', 'via = "visits", key = "visit", on')
    )
    return path


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with sf.Curator(_write(tmp_path_factory.mktemp("clinic"))) as opened:
        yield opened


def _totals(engine: Any, reading: GroupTotals, key: int) -> list[list[int]]:
    """Read exact totals, in whole values."""
    bits = reading.bounded.measures[0].bits
    return [[total >> max(0, bits) for total in row] for row in tuples(engine.read(reading, key))]


def _sampled_reading(asked: Question, rate: Fraction = RATE) -> GroupTotals:
    prepared = price_release(asked.bounding_options, Price(1), sample=rate)
    return prepared.totals.reading(asked.groups)


def test_all_rows_of_a_unit_are_read_or_none_in_every_table(clinic: sf.Curator) -> None:
    """Rows of a table, rows that are owned through another, and a test of one table for rows of another."""
    visits: Any = clinic.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    drugs: Any = clinic.sql("SELECT COUNT(*) AS n, SUM(dose) AS dose FROM drugs")
    tested: Any = clinic.sql(
        "SELECT COUNT(DISTINCT who) AS n FROM visits WHERE who IN (SELECT who FROM visits WHERE cost > 2)"
    )
    engine = visits._context.engine
    for key in (combined_key(2**127 + 12345, 7), combined_key(5, 8)):
        units = _sampled_units(PEOPLE, RATE, key)
        assert 50 < len(units) < 150
        assert _totals(engine, _sampled_reading(visits), key) == [[2 * len(units)], [len(units)]]
        assert _totals(engine, _sampled_reading(drugs), key) == [[2 * len(units), 3 * len(units)]]
        wanted = sum(unit % 7 > 2 for unit in units)  # type: ignore[operator]
        assert _totals(engine, _sampled_reading(tested), key) == [[wanted]]


def test_texts_of_hostile_ids_are_hashed_as_they_are() -> None:
    ids = ["", "0", "00", "é", "e\u0301", "it's", "|", "\\x41", "A", " A", "𝒳", "NULL", *map(str, range(1, 60))]
    world = World(True, (1, None, None), COLUMNS, {"who": pa.string(), "age": pa.int64()}, {}, ())
    policy = world.policy([{"who": each, "age": 1} for each in ids])
    engine = DuckDB(policy, threads=1)
    reading = _sampled_reading(question(engine, policy, COUNTED), Fraction(1, 2))
    for key in (1, 2, 3):
        wanted = len(_sampled_units(ids, Fraction(1, 2), key << ROW_KEY_BITS))
        assert _totals(engine, reading, key << ROW_KEY_BITS) == [[wanted]]
    engine.close()


def test_the_threshold_is_the_rate_rounded_down() -> None:
    for rate in (Fraction(1, 10), Fraction(1, 3), Fraction(999_999, 10**6), Fraction(1, 10**6)):
        threshold = int(hash_threshold(rate), 16)
        assert threshold <= rate * 2**64 < threshold + 1
        assert len(hash_threshold(rate)) == 16


# A release


@pytest.fixture
def unit_keys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the key of every sample that is read; each must be drawn with 128 bits."""
    used: list[int] = []
    drawn: set[int] = set()
    draw, combine = releasing.bits.random_bits, releasing.combined_key

    def record_draw(width: int) -> int:
        value = draw(width)
        drawn.update({value} if width == 128 else ())
        return value

    def record_use(unit_key: int, row_key: int) -> int:
        assert unit_key in drawn
        used.append(unit_key)
        return combine(unit_key, row_key)

    monkeypatch.setattr(releasing.bits, "random_bits", record_draw)
    monkeypatch.setattr(releasing, "combined_key", record_use)
    return used


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_each_release_has_a_secret_key_of_its_own(relation: str, tmp_path: Path, unit_keys: list[int]) -> None:
    """A repeat is stored and free, a fresh one has another sample; the key is in no file and no answer."""
    with sf.Curator(_write(tmp_path, relation)) as curator:
        asked = curator.sql("SELECT ward, COUNT(DISTINCT who) AS n FROM visits GROUP BY ward").limit(rows=2, groups=2)
        first = asked.release(epsilon=40, sample="25 %")
        again = asked.release(epsilon=40, sample="0.25")
        other = asked.release(epsilon=20, sample="50 %")
        fresh = asked.release(epsilon=40, sample="25 %", fresh=True)
        whole = asked.release(epsilon=1)
        assert [answer.receipt.free for answer in (again, other, fresh, whole)] == [True, False, False, False]
        assert again.rows == first.rows
        shown = "".join(map(str, (first, other, fresh, first.to_json(), first.receipt.to_json())))
    assert len(set(unit_keys)) == len(unit_keys) == 3
    for answer, key in ((first, unit_keys[0]), (fresh, unit_keys[2])):  # scaled by 1/q; the noise of ε = 40 is 0
        size = len(_sampled_units(PEOPLE, RATE, combined_key(key, 0)))
        assert [count for _, count in answer.rows] == [4 * size] * 2
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for key in unit_keys:
        written = (str(key), f"{key:x}", f"{key:032x}")
        assert not any(text.encode() in files or text in shown for text in written)


class _KeyRecorder:
    """An opened engine that reads nothing and records the key of each reading."""

    def __init__(self) -> None:
        self.keys: list[int] = []

    def read(self, _reading: object, key: int) -> None:
        self.keys.append(key)


def test_all_readings_of_a_release_share_its_sample_and_no_row_key() -> None:
    recorded = []
    for _ in range(2):
        opened: Any = _KeyRecorder()
        read = releasing._timed_reader(opened, opened, None, lambda _stage: None)
        for sample in (RATE, RATE, None):
            read(SimpleNamespace(bounded=SimpleNamespace(sample=sample)))  # type: ignore[arg-type]
        first, second, whole = opened.keys
        assert first >> ROW_KEY_BITS == second >> ROW_KEY_BITS > 0
        assert first != second
        assert whole < 2**ROW_KEY_BITS
        recorded.append(first >> ROW_KEY_BITS)
    assert recorded[0] != recorded[1]


def test_the_ledger_keeps_what_was_run_and_charges_its_curve(tmp_path: Path) -> None:
    path = _write(tmp_path)
    path.write_text(path.read_text().replace("epsilon = 200", "epsilon = 1"))
    with sf.Curator(path) as curator:
        answer = curator.sql("SELECT COUNT(DISTINCT who) AS n FROM visits").release(epsilon="0.5", sample="10 %")
        charges = [line for line in curator.ledger.lines() if line.parts not in ("", "[]")]
        assert charges[-1].question.endswith("10 % of the units")
        (part,) = read_parts(charges[-1].parts)
        assert isinstance(part, SampledCharge)
        assert part.rate == Fraction(1, 10)
        assert float(part.curve.max_divergence or 0) <= 0.5
        spent = 1 - curator.budget.remaining["pure"]
        assert Fraction(1, 2) - Fraction(1, 10**9) <= spent <= Fraction(1, 2)
    assert answer.receipt.guarantee == "ε = 0.5"
    assert answer.receipt.sample == "10 %"
    assert "a secret 10 % of the units" in str(answer.receipt)
    assert sf.Answer.from_json(answer.to_json()).receipt == answer.receipt
