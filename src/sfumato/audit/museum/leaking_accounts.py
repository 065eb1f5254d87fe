"""Room 6: privacy budgets charged late, once for many answers, or by the wrong theorem."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Mechanism, Outputs, Room, row_minimum
from sfumato.privacy import Guarantee, Neighbours

_ATTEMPTS = 12
_REPEATS = 16
_SAMPLING_RATE, _RELEASES = 0.1, 5


def _least_of_answers(number: int, scale: float) -> Mechanism:
    """Return the least of ``number`` noisy counts."""
    return lambda noise, count, runs: row_minimum(count + noise.laplace(scale, runs, number))


def _charge_on_success(noise: Noise, count: int, runs: int) -> Outputs:
    """Ask until an answer is not negative, charging only that one; return the number of refusals before it."""
    negative = count + noise.laplace(1, runs, _ATTEMPTS) < 0
    return np.where(negative.all(axis=1), _ATTEMPTS, (~negative).argmax(axis=1))


def _charge_first(noise: Noise, count: int, runs: int) -> Outputs:
    return np.asarray(count + noise.laplace(1, runs) < 0)


def _redraw_answer(noise: Noise, count: int, runs: int) -> Outputs:
    return np.asarray((count + noise.laplace(1, runs, _REPEATS)).sum(axis=1))


def _replay_stored(noise: Noise, count: int, runs: int) -> Outputs:
    return np.asarray(_REPEATS * (count + noise.laplace(1, runs)))


def _unamplified_epsilon(claim: float, rate: float) -> float:
    """Return the ε₀ with ln(1 + rate·(e^ε₀ − 1)) = claim: amplification by subsampling (Li, Qardaji & Su 2012)."""
    return math.log1p(math.expm1(claim) / rate)


def _subsampled_count(noise: Noise, present: int, runs: int, epsilon: float, rate: float) -> Outputs:
    return np.asarray((present * noise.bernoulli(rate, runs)) + noise.laplace(1 / epsilon, runs))


_SUBSAMPLED_EPSILON = _RELEASES * math.log1p(_SAMPLING_RATE * math.expm1(1))
"""The ε of five releases, each with ε = 1 on a fresh sample of a tenth of the people."""


def _sample_once(noise: Noise, present: int, runs: int) -> Outputs:
    return row_minimum(present * noise.bernoulli(_SAMPLING_RATE, runs, 1) + noise.laplace(1, runs, _RELEASES))


def _sample_each_time(noise: Noise, present: int, runs: int) -> Outputs:
    return row_minimum(present * noise.bernoulli(_SAMPLING_RATE, runs, _RELEASES) + noise.laplace(1, runs, _RELEASES))


def _marker_probability(group: int, epsilon: float, delta: float) -> float:
    """Return δ(1 + e^ε + … + e^((k−1)ε)), the largest probability after k steps of (ε, δ)-DP from 0."""
    return delta * sum(math.exp(epsilon * step) for step in range(group))


def _show_marker(delta: float) -> Mechanism:
    """Show a marker as often as (2, δ)-DP per person allows, for a household of this size."""
    return lambda noise, household, runs: noise.bernoulli(_marker_probability(household, 2, delta), runs)


def _change_of_group(noise: Noise, counts: Sequence[int], runs: int, scale: float) -> Outputs:
    """Return a number that is large only if the first count is small and the second large."""
    noisy = np.array(counts) + noise.laplace(scale, runs, 2)
    return np.asarray(np.minimum(1 - noisy[:, 0], noisy[:, 1]))


def _keep_total_exact(noise: Noise, halves: Sequence[int], runs: int) -> Outputs:
    """Release two noisy halves and their exact total."""
    return np.stack([*(np.array(halves) + noise.laplace(1, runs, 2)).T, np.full(runs, sum(halves))], axis=1)


def _sum_noisy_halves(noise: Noise, halves: Sequence[int], runs: int) -> Outputs:
    noisy = np.array(halves) + noise.laplace(1, runs, 2)
    return np.stack([*noisy.T, noisy.sum(axis=1)], axis=1)


_ABSENT_PRESENT = "a count of 0, and of 1"

ROOM = Room(
    "Accounts that leak",
    "Every answer costs, and costs add up. These count too few answers, too late, or at the wrong price.",
    (
        Exhibit(
            "Charged when it went well",
            wrong="The charge is made after the answer, and an answer that fails (here, one below zero) is not "
            "charged. The analyst asks until it succeeds, but the failures were answers too.",
            mended="The charge is made before anything is read, whatever the outcome.",
            seen="How many times it failed.",
            source="seen in several libraries: charged after success only, or an early return that skips the charge",
            inputs=(0, 1),
            worlds=_ABSENT_PRESENT,
            samples=15_000,
            broken=_charge_on_success,
            correct=_charge_first,
        ),
        Exhibit(
            "Fresh noise for the same question",
            wrong="A question that was paid for may be asked again for free, and each time the noise is new. The "
            "mean of sixteen answers has a quarter of the noise.",
            mended="The stored answer is returned again.",
            seen="The sum of sixteen answers.",
            source="Asghar & Kaafar 2020, Averaging attacks on bounded noise-based disclosure control algorithms "
            "(averaging)",
            inputs=(0, 1),
            worlds=_ABSENT_PRESENT,
            broken=_redraw_answer,
            correct=_replay_stored,
        ),
        Exhibit(
            "Lazy noise",
            wrong="The noise is part of a lazy plan: it is drawn when a result is looked at, and again when it is "
            "saved. Two answers were given, one was paid for.",
            mended="The noise is drawn once, and what was drawn is kept.",
            seen="The smaller of the answer on the screen and the answer in the file.",
            source="seen in libraries on Spark, whose plans are lazy: each action draws the noise again",
            inputs=(0, 1),
            worlds=_ABSENT_PRESENT,
            broken=_least_of_answers(2, 1),
            correct=lambda noise, count, runs: count + noise.laplace(1, runs),
        ),
        Exhibit(
            "A budget that forgets",
            wrong="What was spent is kept in memory. Each restart begins with the whole budget: four of them in a "
            "week.",
            mended="Each charge is on disk before the data are read. Four answers share the budget.",
            seen="The smallest of four answers.",
            source="dpcreator issue 100 (a budget that does not survive a restart)",
            inputs=(0, 1),
            worlds=_ABSENT_PRESENT,
            broken=_least_of_answers(4, 1),
            correct=_least_of_answers(4, 4),
        ),
        Exhibit(
            "A budget for each analyst, and a promise to the people",
            wrong="Three analysts have an ε of 1 each, and people were told that ε is 1. Analysts talk to each other.",
            mended="The ε that people are told is the limit for all analysts together.",
            seen="The smallest of three answers.",
            source="Rogers, Roth, Ullman & Vadhan 2016, Privacy odometers and filters (what one account has to cover)",
            inputs=(0, 1),
            worlds=_ABSENT_PRESENT,
            broken=_least_of_answers(3, 1),
            correct=_least_of_answers(3, 3),
        ),
        Exhibit(
            "Parallel composition over groups that overlap",
            wrong="Counts by diagnosis are charged once, as groups of different people are. But one person has three "
            "diagnoses.",
            mended="The price is multiplied by the most groups that one person is in.",
            seen="The smallest of the three counts.",
            source="McSherry 2009, Privacy integrated queries (parallel composition asks for disjoint parts)",
            inputs=(0, 1),
            worlds="three diagnoses without and with a person who has all of them",
            broken=_least_of_answers(3, 1),
            correct=_least_of_answers(3, 3),
        ),
        Exhibit(
            "Parallel composition under replacement",
            wrong="Two groups of different people are charged the larger of their prices. A person who is replaced "
            "leaves one group and enters the other: both answers move.",
            mended="Under replacement the price is the sum of the two largest.",
            seen="The first count is small, and the second large.",
            source="opendp issue 2945 (a bound that forgot the group a person moves to)",
            inputs=((1, 0), (0, 1)),
            worlds="a person in the first of two groups, and in the second",
            neighbours=Neighbours.REPLACE,
            broken=lambda noise, counts, runs: _change_of_group(noise, counts, runs, 1),
            correct=lambda noise, counts, runs: _change_of_group(noise, counts, runs, 2),
        ),
        Exhibit(
            "Sampling that is counted twice",
            wrong="Half of the people are sampled, which makes a release cheaper. The reduced price was reduced once "
            "more.",
            mended="The price is reduced once: ln(1 + (e^ε₀ − 1)/2).",
            seen="One count, as easy to tell apart as if ε were 1.49.",
            source="Balle, Barthe & Gaboardi 2018, Privacy amplification by subsampling",
            inputs=(0, 1),
            worlds=_ABSENT_PRESENT + ", before half of the people are sampled",
            broken=lambda noise, present, runs: _subsampled_count(
                noise, present, runs, _unamplified_epsilon(1, 0.25), 0.5
            ),
            correct=lambda noise, present, runs: _subsampled_count(
                noise, present, runs, _unamplified_epsilon(1, 0.5), 0.5
            ),
        ),
        Exhibit(
            "One sample for many releases",
            wrong="A tenth of the people was sampled once, and five releases about them were each charged the reduced "
            "price. Whoever is in the sample is in all five.",
            mended="Each release draws its own sample.",
            seen="The smallest of five answers.",
            source="Balle, Barthe & Gaboardi 2018, Privacy amplification by subsampling (each release draws its own "
            "sample)",
            inputs=(0, 1),
            worlds=_ABSENT_PRESENT + ", before a tenth of the people is sampled",
            claim=Guarantee(str(round(_SUBSAMPLED_EPSILON, 6))),
            samples=20_000,
            broken=_sample_once,
            correct=_sample_each_time,
        ),
        Exhibit(
            "δ times three for three people",
            wrong="A household of three is promised (3ε, 3δ). The ε of a group grows like that, the δ does not: it "
            "grows by the factor 1 + e^ε + e^2ε.",
            mended="One person's δ is the household's, divided by 1 + e^ε + e^2ε.",
            seen="A marker that is shown with probability 0.63, and the claim allows 0.03.",
            source="Dwork & Roth 2014, The algorithmic foundations of differential privacy (Theorem 2.2 is for δ = 0)",
            inputs=(0, 3),
            worlds="a household that is absent, and its three people",
            claim=Guarantee(6, "0.03"),
            samples=30_000,
            broken=_show_marker(0.01),
            correct=_show_marker(0.03 / (1 + math.exp(2) + math.exp(4))),
        ),
        Exhibit(
            "A total that is kept exact",
            wrong="The noisy counts of parts are published beside the exact total, because everybody knows the total. "
            "Not everybody did, and no price was paid for it.",
            mended="The total is the sum of the noisy parts.",
            seen="The total.",
            source="opendp issues 2938–2940 (invariants that were taken to be free)",
            inputs=((3, 4), (3, 5)),
            worlds="two parts, and a person more in the second",
            broken=_keep_total_exact,
            correct=_sum_noisy_halves,
        ),
        Exhibit(
            "Any ε is taken",
            wrong="A request with ε = 10³⁰⁸ is accepted, and its noise rounds to zero. Infinite and "
            "negative ε, and δ = 2, were accepted too.",
            mended="A price above what is left is refused, before anything is read. Here all that is left is spent.",
            seen="The exact count.",
            source="seen in several libraries: δ = 2, ε = −1, ε = ∞ and ε = 10³⁰⁸ accepted",
            inputs=(0, 1),
            worlds=_ABSENT_PRESENT,
            broken=lambda noise, count, runs: count + np.rint(noise.floating_laplace(1e-308, runs)).astype(np.int64),
            correct=lambda noise, count, runs: count + noise.laplace(1, runs),
        ),
    ),
)
