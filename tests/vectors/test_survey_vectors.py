"""Vectors of surveys: reports enumerated, limits searched for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.response import PRIME, OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse
from sfumato.surveys import collect, counts
from sfumato.surveys.counts import PairSupport
from sfumato.surveys.encodings import Encoding, SupportProbabilities, _collision_probability, support_probabilities
from sfumato.surveys.forms import _format_rounded_up
from vectors.laws import (
    MP,
    Real,
    binomial,
    down,
    real,
    response,
    root,
    up,
    upper,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            ("surveys",),
            words=frozenset(
                {
                    "above",
                    "chances",
                    "error",
                    "estimated",
                    "estimates",
                    "half",
                    "held",
                    "interval",
                    "largest",
                    "limits",
                    "meeting",
                    "miss",
                    "most",
                    "other",
                    "share",
                    "variance",
                    "variances",
                    "widths",
                }
            ),
            parameters=frozenset({"miss"}),
        ),
    ),
    exempt={
        "surveys.forms.Form._pair_counts": "it joins estimates to half-widths that have vectors",
    },
)


@REGISTRY.formula("surveys.encodings.support_probabilities")
def _chances() -> Iterator[Vector]:
    for epsilon, cells in (("1", 2), ("0.001", 5), ("4", 30)):
        both = response(epsilon, cells)
        yield exact(
            (both[1][0], both[0][0] - both[1][0]),
            lambda e=epsilon, k=cells: ((c := support_probabilities(RandomizedResponse(e, k))).q, c.gap),
        )
        q = response(epsilon)[1][0]
        yield exact(
            (q, MP.mpf("0.5") - q),
            lambda e=epsilon, k=cells: ((c := support_probabilities(OptimizedUnaryEncoding(e, k))).q, c.gap),
        )
        hashed = max(2, round(math.exp(float(epsilon))) + 1)
        told, meet = response(epsilon, hashed), _meets(hashed)
        other = meet * told[0][0] + (1 - meet) * told[1][0]
        yield exact(
            (other, told[0][0] - other),
            lambda e=epsilon, k=cells: ((c := support_probabilities(OptimalLocalHashing(e, k))).q, c.gap),
        )


def _meets(cells: int) -> Real:
    """Two different numbers below the prime fall into one cell: counted cell by cell."""
    sizes = [len(range(cell, PRIME, cells)) for cell in range(cells)]
    return MP.fsum(MP.mpf(n) * (n - 1) for n in sizes) / (MP.mpf(PRIME) * (PRIME - 1))


@REGISTRY.formula("surveys.encodings._collision_probability")
def _meeting_vectors() -> Iterator[Vector]:
    for cells in (2, 4, 1000):
        yield exact(_meets(cells), _collision_probability, cells)


_CHANCE = SupportProbabilities(0.25, 0.5)


@REGISTRY.formula("surveys.encodings.SupportProbabilities.true_cell_variance")
@REGISTRY.formula("surveys.encodings.SupportProbabilities.other_cell_variance")
@REGISTRY.formula("surveys.encodings.SupportProbabilities.mean_variance")
def _report_variances() -> Iterator[Vector]:
    """E[X²] − E[X]² of X = (S − q)/(p − q) for one report, S a coin."""
    for q, gap, cells in ((F(1, 4), F(1, 2), 3), (F(1, 8), F(3, 4), 2), (F(1, 2), F(1, 4), 10)):

        def variance(chance: F, q: F = q, gap: F = gap) -> F:
            one, none = (1 - q) / gap, -q / gap
            mean = chance * one + (1 - chance) * none
            return chance * one**2 + (1 - chance) * none**2 - mean**2

        held, other = variance(q + gap), variance(q)
        mean = sum([held, *[other] * (cells - 1)]) / cells
        made = SupportProbabilities(float(q), float(gap))
        yield exact(
            tuple(map(float, (held, other, mean))),
            lambda c=made, k=cells: (
                c.true_cell_variance,
                c.other_cell_variance,
                c.mean_variance(k),
            ),
        )


@REGISTRY.formula("surveys.counts.epsilon_per_question")
@REGISTRY.formula("surveys.counts.mean_count_variance")
def _ways() -> Iterator[Vector]:
    """One of m questions: the variance of m times a count among those asked, and of who is asked."""
    for epsilon, cells, questions, sampled in (("1", 3, 2, True), ("2", 4, 1, True), ("1", 2, 3, False)):
        each = F(epsilon) if sampled else F(epsilon) / questions
        both = response(each, cells)
        p, q = both[0][0], both[1][0]
        alone = (p * (1 - p) + (cells - 1) * q * (1 - q)) / (cells * (p - q) ** 2)
        m = questions if sampled else 1
        drawn = m * (MP.mpf(1) / cells) * (1 - MP.mpf(1) / cells) * (1 - MP.mpf(1) / m)  # m²·f(1−f)/m, less f(1−f)
        yield exact(
            (each, m * alone + drawn),
            lambda e=epsilon, k=cells, n=questions, s=sampled, m=m: (
                (share := counts.epsilon_per_question(F(e), n, sampled=s)),
                counts.mean_count_variance(Encoding.RESPONSE, k, share, m),
            ),
        )


def _limits(found: int, asked: int, miss: Real) -> tuple[Real, Real]:
    low = root(lambda p: MP.fsum(binomial(asked, p)[found:]) - miss, 0, 1, 45) if found else MP.mpf(0)
    high = root(lambda p: miss - MP.fsum(binomial(asked, p)[: found + 1]), 0, 1, 45) if found < asked else MP.mpf(1)
    return min(low, max(MP.mpf(0), MP.mpf(found - 1) / asked)), max(high, min(MP.mpf(1), MP.mpf(found + 1) / asked))


@REGISTRY.formula("surveys.counts.frequency_limits")
def _frequency_limits() -> Iterator[Vector]:
    """Clopper and Pearson's, and one event further at least."""
    for found, asked, miss in ((3, 20, "0.025"), (0, 12, "0.01"), (12, 12, "0.1"), (8, 16, "0.45")):
        low, high = _limits(found, asked, real(miss))
        yield between(
            (down(low * (1 - MP.mpf("1e-6"))), up(high)),
            (down(low) if low else 0.0, up(min(1, high + MP.mpf("1e-6")))),
            counts.frequency_limits,
            found,
            asked,
            float(miss),
        )
    yield exact((0.0, 1.0), counts.frequency_limits, 0, 0, 0.1)


@REGISTRY.formula("surveys.counts.count_interval")
def _interval() -> Iterator[Vector]:
    for found, asked, respondents in ((9, 20, 20), (9, 20, 60), (1, 15, 15)):
        low, high = (
            (each - MP.mpf("0.25")) / MP.mpf("0.5") * respondents for each in _limits(found, asked, MP.mpf("0.025"))
        )
        half = (high - low) / 2  # an end never comes nearer to its own edge than this
        low, high = max(MP.mpf(0), min(low, respondents - half)), min(MP.mpf(respondents), max(high, half))
        slack = 1e-4
        yield between(
            (down(low) - slack if low else 0.0, up(high)),
            (down(low), min(float(respondents), up(high) + slack)),
            counts.count_interval,
            found,
            asked,
            respondents,
            _CHANCE,
            0.05,
        )


@REGISTRY.formula("surveys.counts.unbiased_counts")
def _estimated() -> Iterator[Vector]:
    """The expected supports of known holders give their number back."""
    for holders, asked, respondents in (((10, 30), 40, 40), ((0, 12), 12, 48), ((5, 15, 20), 40, 40)):
        supports = np.array([0.75 * x + 0.25 * (asked - x) for x in holders])
        wanted = [x * respondents / asked for x in holders]
        yield between(
            [w - 1e-9 for w in wanted],
            [w + 1e-9 for w in wanted],
            counts.unbiased_counts,
            supports,
            asked,
            respondents,
            _CHANCE,
        )
    yield exact([3.0, 3.0, 3.0], counts.unbiased_counts, np.zeros(3), 0, 9, _CHANCE)


_TWO = SupportProbabilities(0.125, 0.75)


@REGISTRY.formula("surveys.counts.PairSupport.estimates")
def _pair_estimates() -> Iterator[Vector]:
    """Expected supports, alone and together, of people who hold both, one or none."""
    for both, first, second, none in ((5, 10, 20, 15), (0, 8, 8, 0), (30, 0, 0, 2)):
        people = both + first + second + none
        p1, q1, p2, q2 = 0.75, 0.25, 0.875, 0.125
        one = np.array([p1 * (both + first) + q1 * (second + none)])
        two = np.array([p2 * (both + second) + q2 * (first + none)])
        joint = np.array([[both * p1 * p2 + first * p1 * q2 + second * q1 * p2 + none * q1 * q2]])
        yield between(both - 1e-9, both + 1e-9, PairSupport(one, two, joint, people, (_CHANCE, _TWO)).estimates)


@REGISTRY.formula("surveys.counts.PairSupport.variances")
def _pair_variances() -> Iterator[Vector]:
    """Everybody's variance is enumerated; the bound takes as many as can hold both, and is reached by them."""

    def variance(chance_one: F, chance_two: F) -> F:
        total = square = F(0)
        for s, t in itertools.product((0, 1), repeat=2):
            chance = (chance_one if s else 1 - chance_one) * (chance_two if t else 1 - chance_two)
            value = (s - F(1, 4)) / F(1, 2) * ((t - F(1, 8)) / F(3, 4))
            total, square = total + chance * value, square + chance * value**2
        return square - total**2

    kinds = {(a, b): variance(F(3, 4) if a else F(1, 4), F(7, 8) if b else F(1, 8)) for a in (0, 1) for b in (0, 1)}
    for first, second, people in ((10, 20, 50), (7, 7, 7), (0, 5, 9)):
        every = [
            both * kinds[1, 1]
            + (first - both) * kinds[1, 0]
            + (second - both) * kinds[0, 1]
            + (people - first - second + both) * kinds[0, 0]
            for both in range(min(first, second) + 1)
            if people - first - second + both >= 0
        ]
        found = PairSupport(np.zeros(1), np.zeros(1), np.zeros((1, 1)), people, (_CHANCE, _TWO))
        yield between(
            float(max(every)) * (1 - 1e-12),
            float(max(every)) * (1 + 1e-12),
            found.variances,
            np.array([float(first)]),
            np.array([float(second)]),
        )


@REGISTRY.formula("surveys.counts.PairSupport.half_widths")
@REGISTRY.formula("surveys.counts.PairSupport._max_holders")
@REGISTRY.formula("surveys.counts._max_deviation")
def _pair_widths() -> Iterator[Vector]:
    """Bernstein's bound is half of the miss: a root; the variance where the most that limits allow hold each cell."""
    for first, second, people, miss in ((9, 8, 20, "0.05"), (5, 12, 16, "0.01"), (10, 3, 12, "0.2")):
        most = [
            min(MP.mpf(people), (_limits(found, people, real(miss) / 4)[1] - MP.mpf(q)) / MP.mpf(gap) * people)
            for found, q, gap in ((first, "0.25", "0.5"), (second, "0.125", "0.75"))
        ]
        held = [max(MP.mpf(0), each) for each in most]
        rises = [
            1
            + MP.mpf(c.p) * (1 - MP.mpf(c.p)) / MP.mpf(c.gap) ** 2
            - MP.mpf(c.q) * (1 - MP.mpf(c.q)) / MP.mpf(c.gap) ** 2
            for c in (_CHANCE, _TWO)
        ]
        others = [MP.mpf(c.q) * (1 - MP.mpf(c.q)) / MP.mpf(c.gap) ** 2 for c in (_CHANCE, _TWO)]
        spread = people * others[0] * others[1] + held[0] * rises[0] * others[1] + held[1] * others[0] * rises[1]
        spread += max(MP.mpf(0), rises[0] * rises[1] - 1) * min(held)
        largest = (
            MP.mpf("0.75") / MP.mpf("0.5") * (MP.mpf("0.875") / MP.mpf("0.75")) + 1
        )  # S·S' less its mean, which is 0 or 1
        width = root(
            lambda t, v=spread, m=largest, p=miss: real(p) / 2 - 2 * MP.exp(-t * t / (2 * v + 2 * m * t / 3)), 0, 10**4
        )
        found = PairSupport(
            np.array([float(first)]), np.array([float(second)]), np.zeros((1, 1)), people, (_CHANCE, _TWO)
        )
        yield upper(width * (1 - MP.mpf("1e-12")), 1e-5, lambda f=found, m=miss: float(f.half_widths(float(m))[0, 0]))


@REGISTRY.formula("surveys.forms.Form.error")
@REGISTRY.formula("surveys.forms.Form._miss_probability")
def _form_error() -> Iterator[Vector]:
    """Half of what limits leave possible at the expected number of supports, of all or of those asked."""
    for epsilon, split, together, respondents in (
        ("2", True, False, 24),
        ("2", True, True, 30),
        ("3", False, False, 40),
    ):
        form = collect({"a": ["x", "y"], "b": ["u", "v", "w"]}, epsilon, split=split)
        asked = respondents if split else respondents // 2
        miss = real("0.05") / (7 if together else 1)  # 3 + 4 cells: one more each for no answer
        wanted = []
        for cells, encoding in zip((3, 4), form.encodings, strict=True):
            chance = support_probabilities(encoding.mechanism(F(epsilon) / (2 if split else 1), cells))
            expected = round(asked * (chance.q + chance.gap / cells))
            low, high = _limits(expected, asked, miss / 2)
            wanted.append(min(MP.mpf(respondents), respondents * (high - low) / (2 * MP.mpf(chance.gap))))
        yield upper(
            [w * (1 - MP.mpf("1e-9")) for w in wanted],
            1e-5,
            lambda f=form, n=respondents, t=together: f.error(n, together=t),
        )


@REGISTRY.formula("surveys.forms.Form._pair_error")
def _form_pairs() -> Iterator[Vector]:
    """A pair's own half-width at expected supports, of cells and pairs together where all shall hold at once."""
    for respondents, together in ((20, False), (30, True), (25, False)):
        form = collect({"a": ["x"], "b": ["u", "v"]}, 6, split=True)
        miss = 0.05 / (2 + 3 + 6 if together else 1)
        ways = [
            support_probabilities(encoding.mechanism(F(3), cells))
            for cells, encoding in zip((2, 3), form.encodings, strict=True)
        ]
        expected = [
            np.array([float(round(respondents * (c.q + c.gap / k)))]) for c, k in zip(ways, (2, 3), strict=True)
        ]
        alone = PairSupport(*expected, np.zeros((1, 1)), respondents, (ways[0], ways[1])).half_widths(miss)[0, 0]
        wanted = min(float(respondents), float(alone))
        yield exact(
            wanted, lambda f=form, n=respondents, t=together: f.error(n, pairs=[("a", "b")], together=t)["a", "b"]
        )


@REGISTRY.formula("surveys.forms._format_rounded_up")
def _rounded_up() -> Iterator[Vector]:
    for number, words in ((math.e, "2.719"), (20.0855369, "20.09"), (1.0005, "1.001"), (12345.6, "12,350")):
        yield exact(words, _format_rounded_up, number)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
