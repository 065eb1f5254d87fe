"""Small steps of the samplers and their widths, each beside the same by another route: whole numbers, 40 digits."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.mechanisms import bits, gaussian, grids, key_thresholds, noise_sums
from sfumato.mechanisms.grids import CHUNK, add_noise_on_grid
from sfumato.mechanisms.laplace import MagnitudeConstants
from sfumato.mechanisms.races import EXPONENTIAL, GUMBEL, LAPLACE, _UnrankedCandidate
from sfumato.privacy.losses import ResponseLoss

F = Fraction
MP = mpmath.MPContext()
MP.dps = 40


def mp(value: Fraction | float) -> mpmath.mpf:
    return MP.mpf(F(value).numerator) / F(value).denominator


class CountingCipher:
    """A cipher whose stream is the numbers 0, 1, 2, … modulo 251, so that each byte shows its place."""

    def __init__(self) -> None:
        self.position = 0

    def update(self, zeros: bytes) -> bytes:
        start, self.position = self.position, self.position + len(zeros)
        return bytes(i % 251 for i in range(start, self.position))


def counting_stream(monkeypatch: pytest.MonkeyPatch) -> tuple[bits.RandomByteStream, list[CountingCipher]]:
    stream, ciphers = bits.RandomByteStream(), list[CountingCipher]()
    plain = bits.RandomByteStream._rekey

    def rekey(self: bits.RandomByteStream) -> None:
        plain(self)
        ciphers.append(CountingCipher())
        self._encrypt = ciphers[-1]

    monkeypatch.setattr(bits.RandomByteStream, "_rekey", rekey)
    return stream, ciphers


def test_the_pool_gives_every_byte_once_and_none_is_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, ciphers = counting_stream(monkeypatch)
    pool = bits._POOL
    taken = b"".join(stream.take(pool // 4) for _ in range(8))
    assert taken == bytes(i % 251 for i in range(2 * pool))
    (cipher,) = ciphers
    assert cipher.position == 2 * pool  # the last byte of a pool is used before another is drawn
    assert stream.take(pool // 4 + 1) == bytes((2 * pool + i) % 251 for i in range(pool // 4 + 1))
    assert stream.take(3) == bytes((2 * pool + pool // 4 + 1 + i) % 251 for i in range(3))
    rest = stream.take(pool // 4)
    assert stream.take(pool // 4)[0] == (rest[-1] + 1) % 251


def test_a_stream_is_keyed_anew_when_its_bytes_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, ciphers = counting_stream(monkeypatch)
    monkeypatch.setattr(bits, "_REKEY_AFTER", 3 * bits._POOL)
    for _ in range(3):
        stream.take(bits._POOL)
    assert (len(ciphers), stream._left) == (1, 0)
    stream.take(bits._POOL)
    assert len(ciphers) == 2
    monkeypatch.setattr(bits, "_REKEY_AFTER", 1)
    ciphers.clear()
    stream._left = 1
    stream.take(1)  # one byte is left: the old key still serves
    assert (len(ciphers), stream._left) == (0, 1 - bits._POOL if stream._next == 1 else 1)


def test_sixteen_bit_words_come_from_the_source_that_is_given() -> None:
    asked: list[int] = []

    def source(count: int) -> bytes:
        asked.append(count)
        return bytes(range(count))

    assert bits.random_uint16(3, source).tolist() == [0x0100, 0x0302, 0x0504]
    assert asked == [6]
    assert bits.random_uint16(5).size == 5


def test_noise_is_added_in_steps_and_keeps_the_shape() -> None:
    starts: list[tuple[int, int]] = []

    def draw(start: int, count: int) -> np.ndarray:
        starts.append((start, count))
        return np.arange(start, start + count, dtype=np.int64)

    def add(value: int) -> int:
        return value + 5

    assert add_noise_on_grid(3, None, add, draw) == 8
    assert add_noise_on_grid(3, F(1, 4), add, draw) == 4.25
    assert add_noise_on_grid(F(7, 8), F(1, 4), add, draw) in (2.0, 2.25)
    assert_refused(lambda: add_noise_on_grid(F(1, 2), None, add, draw))
    assert not starts
    scalar = add_noise_on_grid(np.int64(3), None, add, draw)
    assert isinstance(scalar, np.int64)
    assert scalar == 3
    table = add_noise_on_grid(np.full((2, 3), 10), None, add, draw)
    assert table.tolist() == [[10, 11, 12], [13, 14, 15]]
    assert table.dtype == np.int64
    floats = add_noise_on_grid(np.array([0.5, 1.0]), F(1, 2), add, draw)
    assert floats.tolist() == [0.5, 1.5]
    assert floats.dtype == np.float64
    starts.clear()
    for _ in range(2):
        add_noise_on_grid(np.array([1, 2]), None, add, draw)
    assert starts == [(0, 2), (0, 2)]  # noise is drawn anew
    starts.clear()
    many = add_noise_on_grid(np.zeros(CHUNK + 3, np.int64), None, add, draw)
    assert starts == [(0, CHUNK), (CHUNK, 3)]
    assert (many == np.arange(CHUNK + 3)).all()


def test_a_magnitude_s_constants_are_those_of_its_law() -> None:
    for scale, width, two_sided in ((F(3), 63, True), (F(1, 7), 63, False), (F(10**6, 3), 52, True), (F(5), 52, False)):
        constants = MagnitudeConstants.for_scale(scale, two_sided=two_sided, width=width)
        b, two = mp(scale), MP.mpf(2)
        c = MP.log(2 / (1 + MP.exp(-1 / b))) if two_sided else MP.mpf(0)
        assert constants.scale == float(scale)
        assert abs(constants.lift - b * (c + width * MP.log(two))) <= b * MP.mpf("1e-14")
        # of v = 2⁴⁵ units: from there on the interval of v adds at most 2⁻⁴⁵ of a scale
        assert abs(constants.last - b * (c + (width - 45) * MP.log(two))) <= b * MP.mpf("1e-14")
        error = 90 * b * 8 * MP.mpf(2) ** -53 + b * MP.mpf(2) ** -45
        assert error < constants.margin < 3 * error + MP.mpf(2) ** -49


def test_keys_beyond_the_threshold_are_kept_by_the_exact_recurrence() -> None:
    """In fractions, with e^ε in 50 digits: every cut is the floor of its probability in 2⁻⁶⁴."""
    for epsilon, delta in (
        (F(1), F(1, 100)),
        (F(1, 2), F(1, 10**4)),
        (F(3), F(1, 10**6)),
        (F(9), F(1, 3)),
        (F(3), F(1, 10**25)),
    ):
        with mpmath.workdps(70):
            growth = F(int(mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator) * 10**60), 10**60)
        keep, cuts = F(0), []
        while keep < 1:
            cuts.append(int(keep * 2**64))
            keep = min(growth * keep + delta, 1 - (1 - keep - delta) / growth, F(1))
        found = key_thresholds._keep_probability_cuts(epsilon, delta)
        assert list(found) == [min(cut, 2**64 - 2) for cut in cuts]


def test_sums_are_taken_in_chunks_and_smoothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row's width is that of continuous noise of the same deviations, and the smoothing's Chernoff bound."""
    rng = np.random.default_rng(5)
    weights, scales = rng.uniform(0.5, 2, (5, 3)), rng.uniform(1, 4, (5, 3))
    calls: list[tuple[int, bool]] = []

    def continuous(decoder: np.ndarray, miss: float, *, try_series: bool) -> np.ndarray:
        assert miss == 0.01
        calls.append((len(decoder), try_series))
        return decoder @ np.array([1.0, 10.0, 100.0])

    monkeypatch.setattr(noise_sums, "_continuous_laplace_widths", continuous)
    monkeypatch.setattr(noise_sums, "_LONGEST_SERIES", 12)
    expected = []
    for row, sizes in zip(weights.tolist(), scales.tolist(), strict=True):
        deviations = [mp(a) / (2 * MP.tanh(1 / (2 * mp(s)))) for a, s in zip(row, sizes, strict=True)]
        smoothing = MP.fsum(mp(a) ** 2 for a in row) * MP.log(2 / (mp(0.01) * mp(noise_sums._SLACK))) / 2
        expected.append(deviations[0] + 10 * deviations[1] + 100 * deviations[2] + MP.sqrt(smoothing))
    for most, rows in ((250_000, [5]), (6, [2, 2, 1]), (8, [2, 2, 1]), (3, [1] * 5), (1, [1] * 5)):
        calls.clear()
        monkeypatch.setattr(noise_sums, "_MOST", most)
        for width, least in zip(noise_sums.mixed_laplace_widths(weights, scales, 0.01), expected, strict=True):
            assert least <= width <= least * (1 + MP.mpf("1.1e-9"))
        assert calls == [(count, 3 * sum(rows[:i]) < 12) for i, count in enumerate(rows)]


def test_a_candidate_s_key_lies_between_its_bounds() -> None:
    """For both ends of what is known of U, in 1000 digits; the bounds are no wider than the stated slack."""
    high = mpmath.MPContext()
    high.dps = 1000
    context = bits.decimal_context(20)  # for what has no end
    cases = [(5, 9, 63), (2**62 + 12345, 40, 63), (3, 1, 127), (2**126 + 77, 2, 127), (2, 7, 1023)]
    for kind in (GUMBEL, EXPONENTIAL, LAPLACE):
        for v, multiplicities, width in cases:
            for sign in (False, True):
                gap = F(22, 7)
                digits = 20 + 20 * -(-width // 64)  # as they are decided
                context = bits.decimal_context(digits)
                bounds = _UnrankedCandidate(0, v, width, sign, gap, multiplicities).key(kind, context)
                ends = []
                for end in (v, v + 1):
                    u = high.mpf(end) / high.mpf(2) ** width
                    e = -high.log(1 - u if kind.smallest else u)
                    moved = high.mpf(22) / 7 - high.log(multiplicities)
                    ends.append(
                        high.log(e) + moved if kind is GUMBEL else moved + e if kind is LAPLACE and sign else moved - e
                    )
                low, top = (high.mpf(str(bound)) for bound in bounds)
                for margin, end in ((min(ends) - low, min(ends)), (top - max(ends), max(ends))):
                    # a rounding of so many digits is far below
                    assert high.mpf(10) ** (9 - digits) < margin < (abs(end) + 1) * high.mpf(10) ** (10 - digits) * 1.01
    assert _UnrankedCandidate(0, 0, 63, False, F(1), 1).key(EXPONENTIAL, context)[0] == Decimal("-Infinity")
    assert _UnrankedCandidate(0, 0, 63, True, F(1), 1).key(LAPLACE, context)[1] == Decimal("Infinity")
    assert _UnrankedCandidate(0, 0, 63, False, F(1), 1).key(GUMBEL, context)[0] == Decimal("-Infinity")


def test_a_session_s_parameters_are_checked_at_their_ends() -> None:
    """The scales of ε = 1/k, one positive and sensitivity 1 that a session draws are within 0.001 and 10¹²."""
    for threshold in (-(2**62), 2**62):
        assert sf.AboveThreshold(1, threshold).threshold == threshold
    for threshold in (2**62 + 1, -(2**62) - 1, 1.0, True, "3", None):
        assert_refused(lambda t=threshold: sf.AboveThreshold(1, t), "whole number of at most 2^62")  # type: ignore[misc]
    kept = sf.AboveThreshold("0.5", 7, 3, 4, False, "0.25", "replace")
    assert (kept.epsilon, kept.threshold, kept.positives, kept.sensitivity) == (F(1, 2), 7, 3, 4)
    assert (kept.monotone, kept.values_epsilon, kept.neighbours.value) == (False, F(1, 4), "replace")
    assert sf.AboveThreshold(1, 7).values_epsilon is None
    assert sf.AboveThreshold(1, 7, monotone=True).monotone is True
    for monotone in (1, None, "yes"):
        assert_refused(lambda m=monotone: sf.AboveThreshold(1, 7, monotone=m), "True or False")  # type: ignore[misc]
    assert_refused(
        lambda: sf.AboveThreshold(1, 7, monotone=True, neighbours="replace"), "False under replace neighbours"
    )
    for name in ("positives", "sensitivity"):
        assert getattr(sf.AboveThreshold(1, 7, **{name: 1}), name) == 1
        assert_refused(lambda n=name: sf.AboveThreshold(1, 7, **{n: 0}), "≥ 1")  # type: ignore[misc]
    # the value's scale is positives·sensitivity/ε₃, exactly
    assert sf.AboveThreshold(1, 7, 1, 1, values_epsilon=1000).scales[2] == F(1, 1000)
    assert sf.AboveThreshold(1, 7, 1, 1, values_epsilon="1e-12").scales[2] == 10**12
    for values_epsilon in (F(1001), F(10**6 + 1, 1000), F(1, 10**12 + 1), F(1, 2 * 10**12)):
        assert_refused(lambda e=values_epsilon: sf.AboveThreshold(1, 7, values_epsilon=e), "between 0.001 and 1e12")  # type: ignore[misc]
    assert_refused(lambda: sf.AboveThreshold(10**5, 7), "between 0.001 and 1e12")
    assert_refused(lambda: sf.AboveThreshold("1e-12", 7), "between 0.001 and 1e12")


@pytest.mark.parametrize(("kind", "size"), [("laplace", F(3)), ("gaussian", F(5, 2)), ("half gaussian", F(7))])
def test_a_guide_table_is_the_law_s_quantiles(kind: str, size: Fraction) -> None:
    """Every cut and every cell, from the sums of 60 digits; cells that hold a cut, and both ends, are left open."""
    table = gaussian.build_guide_table(kind, size)
    assert table is not None
    high = mpmath.MPContext()
    high.dps = 60
    reach = int(size * (60 if kind == "laplace" else 12)) + 5
    scale = high.mpf(size.numerator) / size.denominator
    half = [high.exp(-(x / scale) if kind == "laplace" else -((x / scale) ** 2) / 2) for x in range(reach + 1)]
    weights = dict(enumerate(half)) if kind == "half gaussian" else {x: half[abs(x)] for x in range(-reach, reach + 1)}
    total, below, cuts = high.fsum(weights.values()), high.mpf(0), {}
    for x, weight in weights.items():
        below += weight
        cuts[x] = int(below / total * 2**64)
    inside = [(x, cut) for x, cut in cuts.items() if 0 < cut < 2**64 - 1]
    assert table.first == inside[0][0]
    assert table.cuts.tolist() == [cut for _, cut in inside]
    cells, width = table.cells, 64 - gaussian._CELL
    inside_cuts = [cut for _, cut in inside]
    cut_cells = {cut >> width for cut in inside_cuts} | {0, len(cells) - 1}
    for cell, x in enumerate(cells.tolist()):
        if cell in cut_cells:
            assert x == gaussian._UNDECIDED
        else:
            assert x == inside[0][0] + bisect_right(inside_cuts, cell << width)


def test_a_cut_is_bounded_by_all_that_its_two_sums_may_be() -> None:
    for total, error in itertools.product((9, 30, 2**64 - 1, 2**64, 2**70 + 7), range(4)):
        for part in {error, 4, total // 3, total - 1, total}:
            near_part, near_total = (range(number - error, number + error + 1) for number in (part, total))
            cuts = [(p << 64) // t for p, t in itertools.product(near_part, near_total)]
            assert gaussian._bounds_of_cut(part, total, error) == (min(cuts), max(cuts))


def test_cuts_are_certain_only_where_no_error_moves_them_to_another_word() -> None:
    """Sums of 2⁶⁶ in all: four of them are a word, and the first and the last word part nothing."""
    last = 2**64 - 1
    for words, inside in (((5, 9, last), {0: 5, 1: 9}), ((0, 7, last - 1), {1: 7, 2: last - 1}), ((0, last), {})):
        sums = [4 * word + 2 for word in words] + [2**66]
        for error in (0, 1):
            assert gaussian._certain_cuts(sums, error) == inside
    for word, certain in ((5, {0: 5, 1: 9}), (1, {0: 1, 1: 9}), (last, {1: 9})):
        at_a_word = [4 * word, 4 * 9 + 2, 2**66]
        assert gaussian._certain_cuts(at_a_word, 0) == certain
        assert gaussian._certain_cuts(at_a_word, 1) == {}


def test_a_law_of_one_outcome_has_no_table() -> None:
    assert gaussian.build_guide_table("laplace", F(1, 100)) is None
    assert gaussian.build_guide_table("gaussian", F(1, 100)) is None


def test_words_near_a_cut_are_decided_exactly_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = sf.KeyThreshold(1, "0.01")
    cuts = key_thresholds._keep_probability_cuts(F(1), F(1, 100))
    asked: list[int] = []

    def never_below(word: int, width: int, _: object) -> bool:
        assert width == 64
        asked.append(word)
        return False

    monkeypatch.setattr(bits, "is_uniform_below", never_below)
    for count in (1, 2, len(cuts) - 1):
        cut = cuts[count]
        words = [cut - 2, cut - 1, cut, cut + 1, cut + 2, 2**63, 2**64 - 1]
        counts = [count] * 5 + [0, len(cuts)]
        monkeypatch.setattr(bits, "random_uint64", lambda size, words=words: np.array(words[:size], np.uint64))
        asked.clear()
        assert rule.choose(counts).tolist() == [True, False, False, False, False, False, True]
        assert asked == [cut - 1, cut, cut + 1]
    words = [cuts[-1], cuts[-1]]
    asked.clear()
    assert rule.choose([len(cuts), len(cuts) + 5]).tolist() == [True, True]
    assert not asked  # what is sure needs no bits


def test_counts_are_decided_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def even(_: object, counts: np.ndarray) -> np.ndarray:
        sizes.append(counts.size)
        return counts % 2 == 0

    monkeypatch.setattr(grids, "CHUNK", 4)
    monkeypatch.setattr(sf.KeyThreshold, "_select_keys_by_optimal_rule", even)
    counts = np.arange(11)[::-1]
    assert sf.KeyThreshold(1, "0.01").choose(counts).tolist() == [n % 2 == 0 and n > 0 for n in counts.tolist()]
    assert sizes == [4, 4, 3]
    for epsilon, delta in ((1, 0), (0, "1e-6")):
        assert_refused(lambda e=epsilon, d=delta: sf.KeyThreshold.gaussian(e, d, 2), "above 0")  # type: ignore[misc]


def test_a_leak_is_rounded_up_at_the_fortieth_digit() -> None:
    high = mpmath.MPContext()
    high.dps = 60
    for scale, threshold, groups in ((F(3), 20, 4), (F(7, 2), 40, 3)):
        b = high.mpf(scale.numerator) / scale.denominator
        passing = {w: high.exp(-(threshold - w) / b) / (1 + high.exp(-1 / b)) for w in range(1, groups + 1)}
        splits = {3: [(3,), (2, 1), (1, 1, 1)], 4: [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]}[groups]
        worst = max(1 - high.fprod(1 - passing[w] for w in split) for split in splits)
        for weighted, truth in ((True, worst), (False, 1 - (1 - passing[1]) ** groups)):
            leak = key_thresholds.leak_probability(threshold, scale, groups, weighted)
            apart = high.mpf(leak.numerator) / leak.denominator - truth
            assert high.mpf("0.9e-40") < apart < high.mpf("1.1e-40")


def test_a_response_s_losses_lie_on_its_lattice() -> None:
    assert ResponseLoss(F(1, 3)).spacing_and_offset == (F(2, 3), F(1, 3))  # ±1/3 alone
    assert ResponseLoss(F(1, 3), 3).spacing_and_offset == (F(1, 3), F(0))
    assert ResponseLoss(F(0)).spacing_and_offset is None
