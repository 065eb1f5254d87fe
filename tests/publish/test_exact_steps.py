"""Small steps of published models, each beside plain Python; what they are given is a stand-in with public fields."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from refusals import assert_refused
from sfumato.mechanisms import Gaussian
from sfumato.policy import Type
from sfumato.publish import links, online, synthetic, synthetic_tables
from sfumato.publish.marginals.attributes import (
    Attribute,
    ListedCell,
    OtherCell,
    RangeCell,
    _checked_labels,
    with_branching_levels,
)
from sfumato.publish.marginals.group_totals import AmountBounds, _clip_and_scale, fit_max_entropy
from sfumato.publish.online import SessionBatch, first_hypothesis, with_integer_weights
from sfumato.publish.synopsis import _free_receipt
from sfumato.publish.synthesis import state
from sfumato.publish.synthesis.candidates import NoisyCells, decided_cells, deciding_pairs
from sfumato.publish.synthesis.state import SynthesisState
from sfumato.publish.tab_steps import CachingReader


def column(name: str, cells: int) -> Attribute:
    return Attribute(name, Type.INTEGER, (*map(ListedCell, range(cells)), OtherCell()))


def test_bands_of_children_are_exact_and_then_grow_by_two_fifths() -> None:
    for limit in range(1, 300):
        bands = links.child_count_bands(limit)
        assert bands[0] == 0
        assert bands[-1] == limit
        if limit <= 12:
            assert bands == tuple(range(limit + 1))
            continue
        assert bands[:6] == (0, 1, 2, 3, 4, 5)
        for low, high in pairwise(bands[5:-1]):
            assert high == low + max(1, 2 * low // 5)
        assert bands[-2] < limit <= bands[-2] + max(1, 2 * bands[-2] // 5)


def test_labels_name_each_part_but_the_last() -> None:
    assert _checked_labels((("a",),), ((0, 1),)) == (("a",),)
    assert _checked_labels([["a"]], ((0,),)) == (("a",),)  # a level of the missing alone
    assert _checked_labels(((), ("a", "b")), ((0, 1, 2), (0, 1, 2))) == ((), ("a", "b"))
    assert _checked_labels((), ((0, 1),)) == ()
    levels = ((0, 1, 2),)
    for labels in ((("a",),), (("a", "a"),), (("a", ""),), (("a", 3),), ("ab",), "ab", (("a", "b"), ()), 7):
        assert_refused(lambda labels=labels: _checked_labels(labels, levels), "level")


def test_branching_levels_join_what_was_joined_before() -> None:
    for cells in (1, 2, 3, 5, 6, 8, 9, 27):
        for branching in (2, 3, 4):
            parts, levels = list(range(cells)), []
            while max(parts) >= branching:
                parts = [part // branching for part in parts]
                levels.append((*parts, max(parts) + 1))
            found = with_branching_levels(column("x", cells), branching)
            assert found.levels == tuple(levels)
            assert found.labels == ()
    named = Attribute("x", Type.INTEGER, column("x", 3).cells, ((0, 0, 1, 2),), (("low", "high"),))
    assert with_branching_levels(named, 2) == with_branching_levels(column("x", 3), 2)
    for branching in (1, 0, 2.0, True):
        assert_refused(lambda branching=branching: with_branching_levels(column("x", 5), branching), "≥ 2")


class Known:
    """Marginals as a synopsis would know them, from a table."""

    def __init__(self, table: np.ndarray, sets: tuple[tuple[int, ...], ...] = ()) -> None:
        self.table, self.sets = table.astype(float), sets
        self.attributes = tuple(column(f"c{i}", size - 1) for i, size in enumerate(table.shape))

    def marginal(self, places: tuple[int, ...]) -> np.ndarray:
        return np.asarray(self.table.sum(tuple(i for i in range(self.table.ndim) if i not in places)))


def test_a_marginal_is_clipped_and_scaled_to_the_total() -> None:
    assert _clip_and_scale(np.array([-1.0, 3.0, 1.0]), 8.0).tolist() == [0, 6, 2]
    assert _clip_and_scale(np.array([0.125, 0.375]), 8.0).tolist() == [2, 6]
    assert _clip_and_scale(np.array([-1.0, 0.0]), 8.0).tolist() == [0, 0]
    assert _clip_and_scale(np.array([1.0, 1.0]), 0.0).tolist() == [0, 0]


def test_the_most_entropy_given_marginals() -> None:
    rng = np.random.default_rng(3)
    table = rng.integers(1, 30, (3, 4, 2))
    known: Any = Known(table)
    total = table.sum()
    uniform = fit_max_entropy(known, (0, 1), ())
    assert uniform == pytest.approx(np.full((3, 4), total / 12))
    one = fit_max_entropy(known, (0, 1), ((), (1,)))
    assert one == pytest.approx(np.broadcast_to(table.sum((0, 2)) / 3, (3, 4)))
    independent = fit_max_entropy(known, (0, 2), ((0,), (2,)))
    assert independent == pytest.approx(np.outer(table.sum((1, 2)), table.sum((0, 1))) / total)
    # a chain is fitted in one round: P(a, b)·P(b, c)/P(b)
    first, second = table.sum(2)[:, :, None], table.sum(0)[None]
    chain = fit_max_entropy(known, (0, 1, 2), ((0, 1), (1, 2)), 1)
    assert chain == pytest.approx(first * second / table.sum((0, 2))[None, :, None])
    triangle = fit_max_entropy(known, (0, 1, 2), ((0, 1), (1, 2), (0, 2)), 200)
    for axis in range(3):
        assert triangle.sum(axis) == pytest.approx(table.sum(axis), rel=1e-6)
    negative: Any = Known(np.array([[-5, 2], [1, 1]]))
    assert fit_max_entropy(negative, (0,), ()).tolist() == [0, 0]
    empty: Any = Known(np.array([[0, 0], [3, 1]]))
    assert fit_max_entropy(empty, (0, 1), ((0,), (0, 1))).tolist() == [[0, 0], [3, 1]]


def test_a_guess_is_rounded_to_steps_within_sixty_bits() -> None:
    guess = np.array([-1e30, 1e30, 2.5, -3.0, 0.24])
    assert online.round_to_steps(guess, Fraction(1, 2)).tolist() == [-(1 << 60), 1 << 60, 5, -6, 0]


def test_noise_of_larger_rows_is_as_much_larger() -> None:
    batch: Any = SimpleNamespace(noise=Gaussian(5))
    assert SessionBatch.noise_for(batch, 1) is batch.noise
    uneven: Any = SimpleNamespace(noise=SimpleNamespace(sizes=(3, 5, 4)))
    assert SessionBatch.noise_for(uneven, 2) == Gaussian(10)
    for effect in (2, 3, 17):
        assert SessionBatch.noise_for(batch, effect) == Gaussian(5 * effect)


def test_the_first_hypothesis_is_the_fit_with_a_thousandth_of_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.array([[8, 0], [1, 3]])
    known: Any = Known(table, ((0,), (1,)))
    textbook = first_hypothesis(known, textbook=True)
    assert (textbook.counts.tolist(), textbook.total, textbook.textbook) == ([[3, 3], [3, 3]], 12, True)
    fitted = np.outer([8, 4], [9, 3]) / 12
    hypothesis = first_hypothesis(known)
    assert hypothesis.counts == pytest.approx(0.999 * fitted + 0.001 * 3)
    assert (hypothesis.total, hypothesis.textbook) == (12, False)
    none: Any = Known(np.zeros((2, 2)))
    assert first_hypothesis(none).total == 1
    rounds: list[int] = []

    def fit(known: Any, axes: Any, sets: Any, count: int) -> np.ndarray:
        assert (axes, sets) == ((0, 1), known.sets)
        rounds.append(count)
        return fitted

    monkeypatch.setattr(online, "fit_max_entropy", fit)
    for most in (10**9, 8 * 30 - 1, 8 * 17, 8 * 3 - 1, 8, 1):  # 4 cells of 2 sets are 8 updates a round
        monkeypatch.setattr(online, "_MAX_CELL_UPDATES", most)
        first_hypothesis(known)
    assert rounds == [30, 29, 17, 2, 2, 2]


def test_weights_become_whole_by_the_least_power_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Totals:
        weights: tuple[AmountBounds, ...]

    def totals(*weights: float) -> Any:
        low = np.array(weights)
        return Totals((AmountBounds(low, low),))

    for weights, scale in (((1, -3), 1), ((0.5, 2), 10), ((0.25, 1), 100), ((0.001, 4), 1000)):
        scaled = with_integer_weights([totals(1, 1), totals(*weights)])
        assert scaled is not None
        assert scaled.scale == scale
        assert scaled.parts[1].weights[0].low.tolist() == [round(weight * scale) for weight in weights]
        assert scaled.parts[0].weights[0].low.tolist() == [scale, scale]
    assert with_integer_weights([totals(1 / 3)]) is None
    digits = online._MAX_DIGITS
    last = with_integer_weights([totals(123457 / 10.0**digits)])
    assert last is not None
    assert last.scale == 10**digits
    assert with_integer_weights([totals(1234567 / 10.0 ** (digits + 1))]) is None
    monkeypatch.setattr(online, "_MAX_WEIGHT", 50.0)
    assert with_integer_weights([totals(0.5, 4.9)]) is not None
    assert with_integer_weights([totals(0.5, 5)]) is None
    assert with_integer_weights([totals(0.5, -5)]) is None


def test_a_free_answer_says_its_question() -> None:
    @dataclass(frozen=True)
    class Answered:
        question: str
        free: bool
        confidence: str
        number: int

    assert _free_receipt(Answered("old", False, "0.9", 7), "new", "0.95") == Answered("new", True, "0.95", 7)  # type: ignore[arg-type, comparison-overlap]


def test_noisy_cells_are_a_text() -> None:
    assert NoisyCells.from_counts(np.array([1, -2, 1 << 40])).counts.tolist() == [1, -2, 1 << 40]
    for values in (7, None, b"AAAA", ["AAAA"]):
        assert_refused(lambda values=values: NoisyCells(values), "a string")  # type: ignore[misc]


def test_cells_are_decided_by_the_labels_of_a_level_of_the_deciding_column() -> None:
    domain = SimpleNamespace(type=Type.TEXT, values=("north", "south"))
    named = SimpleNamespace(labels=("south", "north"), parts=(0, 1, 1))
    unnamed = SimpleNamespace(labels=(), parts=(0, 0, 1))
    other = SimpleNamespace(labels=("south", "west"), parts=(0, 0, 1))

    def decided(*levels: Any, starts: Any = (), **changes: Any) -> Any:
        columns = {"region": SimpleNamespace(**{**vars(domain), **changes})}
        coding = SimpleNamespace(starts=starts, levels=levels)
        table: Any = SimpleNamespace(columns=columns, codings={"town": coding})
        return decided_cells(table, "town", "region")

    assert decided(named) == decided(unnamed, other, named) == (1, 0, 0, 2)
    assert decided() is decided(unnamed) is decided(other) is None
    assert decided(named, starts=(1, 2)) is None
    assert decided(named, values=None) is None
    assert decided(named, type=Type.INTEGER) is None
    bare: Any = SimpleNamespace(columns={"region": domain}, codings={})
    assert decided_cells(bare, "town", "region") is None


def test_pairs_that_decide_are_both_here_and_hold_single_values() -> None:
    ranges = Attribute("age", Type.INTEGER, (RangeCell(0, 9), RangeCell(10, 19), OtherCell()))
    attributes = (column("town", 3), ranges, column("region", 2))
    face: Any = SimpleNamespace(
        implies=[("town", "region"), ("age", "region"), ("town", "gone"), ("gone", "town"), ("region", "age")]
    )
    assert deciding_pairs(attributes, face) == ((0, 2), (2, 1))


def test_candidates_may_have_the_share_of_the_cells_that_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def within(among: Any, model: Any, sets: Any, most: float) -> list[tuple[int, ...]]:
        assert (set(among), model, sets) == ({(0, 1), (0, 2), (1, 2)}, "model", [(0,), (1,), (7,)])
        limits.append(most)
        return [(0, 1), (1, 2)]

    monkeypatch.setattr(state, "candidates_within_cells", within)
    reading = SimpleNamespace(distinct_sets={(0, 1), (0, 2)})
    setting = SimpleNamespace(zeros=[((7,), None)], max_cells=1000, reading=reading, sizes=(2, 2, 2))
    marginals = [SimpleNamespace(attribute_set=(0,)), SimpleNamespace(attribute_set=(1,))]
    synthesis: Any = SimpleNamespace(setting=setting, model="model", marginals=marginals, released=(), total=100)
    among = {(0, 1): 5, (0, 2): 6, (1, 2): 7}
    assert SynthesisState.candidates_within_model_size(synthesis, among, 0.25) == {(0, 1): 5}
    assert limits == [250]


def test_a_cost_that_cannot_be_summed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = iter((Fraction(1, 10), None, Fraction(1, 10)))
    monkeypatch.setattr(synthetic, "step_cost", lambda *_, **__: next(costs))
    released: Any = SimpleNamespace(price=SimpleNamespace(allows_gaussian=True))
    steps: Any = (None, None, None)
    (check,) = synthetic._check_charge(released, steps, SimpleNamespace())  # type: ignore[arg-type]
    assert (check.name, check.holds) == ("charge", None)
    assert "cannot be added up" in check.finding


def test_a_reading_is_opened_once_and_then_comes_from_the_cache() -> None:
    asked: list[Any] = []

    class Opened:
        def read(self, reading: Any, key: int) -> Any:
            asked.append(("read", reading, key))
            return f"{reading}!"

        def close(self) -> None:
            asked.append("close")

    class Engine:
        def check(self, *readings: Any) -> Any:
            asked.append(("check", readings))
            return Opened()

    engine: Any = Engine()
    reader = CachingReader(engine)
    one, two = "one", "two"
    with reader.check(one) as opened:  # type: ignore[arg-type]
        assert opened.read(one, 3) == opened.read(one, 4) == "one!"  # type: ignore[arg-type]
    assert asked == [("check", ("one",)), ("read", "one", 3), "close"]
    asked.clear()
    assert reader.check(one).read(one, 5) == "one!"  # type: ignore[arg-type]
    assert not asked  # nothing is opened for what is there
    assert reader.check(one, two).read(two, 6) == "two!"  # type: ignore[arg-type]
    assert asked == [("check", ("two",)), ("read", "two", 6)]


def linked_pair(previous: tuple[str, ...]) -> tuple[Any, list[str]]:
    names = ["n", "up", "prev_x", "x"]
    link = SimpleNamespace(
        child_count_column="n",
        bands=(0, 1, 3),
        parent_conditioning_columns={"p": "up"},
        conditioning_columns=("n", "up", *(["prev_x"] if previous else [])),
        previous_columns=previous,
        ends=False,
        previous_name=lambda name: f"prev_{name}",
        band_labels=["0", "1-2", "3"],
    )
    cells = (ListedCell("3"), ListedCell("1-2"), OtherCell())
    attributes = (SimpleNamespace(cells=cells, size=3), *(SimpleNamespace(cells=(), size=5) for _ in range(3)))
    child = SimpleNamespace(columns=names, attributes=attributes, sampling_model="model")
    parent = SimpleNamespace(columns=["q", "p"])
    return synthetic_tables.ModelPair(link, parent, child), names  # type: ignore[arg-type]


@pytest.mark.parametrize("ordered", [False, True])
def test_children_are_drawn_given_their_band_parent_and_elder(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pair, _ = linked_pair(("x",) if ordered else ())
    children = np.array([2, 0, 3, 1])
    owners = np.repeat(np.arange(4), children)
    parents = np.array([[9, 1], [9, 2], [9, 3], [9, 0]], np.int32)
    given: list[Any] = []
    sizes: list[int] = []

    def extend(conditionals: Any, codes: np.ndarray, source: object) -> None:
        assert (conditionals, source) == ("conditionals", None)
        sizes.append(len(codes))
        codes[:, 3] = codes[:, 1] * 10 + codes[:, 2] + 1

    monkeypatch.setattr(
        synthetic_tables,
        "conditional_distributions",
        lambda model, places: (given.append((model, places)), "conditionals")[1],
    )
    monkeypatch.setattr(synthetic_tables, "extend_codes", extend)
    codes = pair._draw_cells(parents, children, owners)
    assert given == [("model", [0, 1, 2] if ordered else [0, 1])]
    # bands 1-2 and 3 are cells 1 and 0 of the child
    assert codes[:, 0].tolist() == [1, 1, 0, 0, 0, 1]
    assert codes[:, 1].tolist() == [1, 1, 3, 3, 3, 0]
    expected, elder = [], dict[int, int]()
    for owner in owners.tolist():
        before = elder.get(owner, 4) if ordered else 0  # the cell of a missing value
        elder[owner] = int(parents[owner, 1]) * 10 + before + 1
        expected.append([before, elder[owner]])
    assert codes[:, 2:].tolist() == expected
    assert sizes == ([3, 2, 1] if ordered else [6])
