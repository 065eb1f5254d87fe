"""Room 1: noise that is too small, too regular, or absent."""

from __future__ import annotations

import math

import numpy as np

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Mechanism, Outputs, Room, row_minimum
from sfumato.privacy import Guarantee

_CELLS = 4
_STEPS_PER_UNIT = 1000
"""Gaussian exhibits count in thousandths: integers have no low-order bits that could leak."""


def _noisy_count(noise: Noise, count: int, runs: int) -> Outputs:
    return count + noise.laplace(1, runs)


def _redraw_until_nonnegative(noise: Noise, count: int, runs: int) -> Outputs:
    answers = count + noise.laplace(1, runs)
    while (negative := answers < 0).any():
        answers[negative] = count + noise.laplace(1, int(negative.sum()))
    return answers


def _sign_and_magnitude(noise: Noise, count: int, runs: int) -> Outputs:
    size = noise.generator.geometric(-math.expm1(-1), runs) - 1
    return np.asarray(count + np.where(noise.bernoulli(0.5, runs), size, -size))


def _clip_noise(noise: Noise, count: int, runs: int) -> Outputs:
    return np.asarray(count + np.clip(noise.laplace(1, runs), -3, 3))


def _noise_from_one_byte(noise: Noise, count: int, runs: int) -> Outputs:
    """Compute Laplace noise from one of 256 uniform numbers by inverting its distribution function."""
    uniform = (noise.uniform_integers(0, 255, runs) + 0.5) / 256 - 0.5
    return np.asarray(count + np.rint(-np.sign(uniform) * np.log1p(-2 * np.abs(uniform))).astype(np.int64))


def _noise_from_fixed_seed(_: Noise, count: int, runs: int) -> Outputs:
    return np.full(runs, count + int(Noise.from_labels("the seed of a configuration file").laplace(1, 1)[0]))


def _share_one_draw(noise: Noise, sums: tuple[int, int], runs: int) -> Outputs:
    return np.asarray(np.array(sums) + noise.laplace(2, runs, 1))


def _draw_noise_for_each_cell(noise: Noise, sums: tuple[int, int], runs: int) -> Outputs:
    return np.asarray(np.array(sums) + noise.laplace(2, runs, 2))


def _reuse_daily_noise(noise: Noise, days: tuple[int, ...], runs: int) -> Outputs:
    return np.asarray(np.array(days) + noise.laplace(len(days), runs, 1))


def _fresh_daily_noise(noise: Noise, days: tuple[int, ...], runs: int) -> Outputs:
    return np.asarray(np.array(days) + noise.laplace(len(days), runs, len(days)))


def _noise_cached_by_set(noise: Noise, matches: int, runs: int) -> Outputs:
    """Count a set of forty and perhaps one more, then without that person: equal sets get equal noise."""
    first = noise.laplace(2, runs)
    second = noise.laplace(2, runs) if matches else first
    return np.stack([40 + matches + first, 40 + second], axis=1)


def _noise_cached_by_question(noise: Noise, matches: int, runs: int) -> Outputs:
    return np.stack([40 + matches + noise.laplace(2, runs), 40 + noise.laplace(2, runs)], axis=1)


def _gaussian_in_thousandths(deviation: float) -> Mechanism:
    return lambda noise, value, runs: value * _STEPS_PER_UNIT + noise.gaussian(deviation * _STEPS_PER_UNIT, runs)


def _least_on_path(noise: Noise, present: int, runs: int, scale: float) -> Outputs:
    """Return the least noisy count on a leaf-to-root path of a tree over eight days."""
    return row_minimum(present + noise.laplace(scale, runs, _CELLS))


_CLASSICAL_DEVIATION = math.sqrt(2 * math.log(1.25 / 0.5)) / 6
_ANALYTIC_DEVIATION = 0.27
"""A deviation at which (6, 1/2)-DP holds: δ(6) = 0.4875 (Balle & Wang 2018, Theorem 8)."""
_GRADIENT_DEVIATION = 3.74
"""A deviation at which (1, 10⁻⁵)-DP holds: δ(1) = 9.6·10⁻⁶."""

_COUNT_WORLDS = "a count of 0, and of 1"

ROOM = Room(
    "Noise that hides too little",
    "One person changes a number by at most Δ. Noise of scale Δ/ε hides that change. Less noise, noise with an edge, "
    "or noise that is used twice does not.",
    (
        Exhibit(
            "Half the noise",
            wrong="The noise has scale Δ/2ε: a factor of two was lost on the way from a formula to the code.",
            mended="The scale is Δ/ε.",
            seen="The far side of the count is e² times likelier in one world, and the claim allows e.",
            source="Kifer, Messing, Roth, Thakurta & Zhang 2020, Guidelines for implementing and auditing "
            "differentially private systems",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            broken=lambda noise, count, runs: count + noise.laplace(1 / 2, runs),
            correct=_noisy_count,
        ),
        Exhibit(
            "ε where 1/ε belongs",
            wrong="The scale of the noise is ε instead of 1/ε, so that asking for more privacy gives less.",
            mended="The scale is 1/ε.",
            seen="At ε = 1/2 the two counts are told apart as if ε were 2.",
            source="Ding, Wang, Wang, Zhang & Kifer 2018, Detecting violations of differential privacy (the wrong "
            "histogram)",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            claim=Guarantee("0.5"),
            broken=lambda noise, count, runs: count + noise.laplace(1 / 2, runs),
            correct=lambda noise, count, runs: count + noise.laplace(2, runs),
        ),
        Exhibit(
            "Success with probability ε",
            wrong="Geometric noise falls by the factor 1 − ε from one number to the next. The law requires e^−ε, "
            "which is larger: the noise is too narrow.",
            mended="The factor is e^−ε.",
            seen="At ε = 1/2 every ratio is 2, and the claim allows e^½ = 1.65.",
            source="Ghosh, Roughgarden & Sundararajan 2009, Universally utility-maximizing privacy mechanisms (the "
            "law)",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            claim=Guarantee("0.5"),
            samples=15_000,
            broken=lambda noise, count, runs: count + noise.two_sided_geometric(1 / 2, runs),
            correct=lambda noise, count, runs: count + noise.laplace(2, runs),
        ),
        Exhibit(
            "Zero drawn twice",
            wrong="A size is drawn, then a sign. Zero comes up with either sign, so it is twice as likely as it "
            "should be.",
            mended="A negative zero is thrown away, and both are drawn again.",
            seen="The exact count is too frequent: the ratio there is 2e.",
            source="Canonne, Kamath & Steinke 2020, The discrete Gaussian for differential privacy (Algorithm 2 "
            "rejects it)",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            broken=_sign_and_magnitude,
            correct=_noisy_count,
        ),
        Exhibit(
            "Drawn again until it looks right",
            wrong="A negative count looks silly, so the noise is drawn again until the answer is not negative. How "
            "often that happens depends on the count, and the remaining probabilities are scaled up by it.",
            mended="The noise is drawn once. A negative answer is shown as 0, which costs nothing.",
            seen="The answer 0 is 3.35 times likelier when nobody is there, and the claim allows e = 2.72.",
            source="Holohan, Antonatos, Braghin & Mac Aonghusa 2018, The bounded Laplace mechanism in differential "
            "privacy",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            samples=20_000,
            broken=_redraw_until_nonnegative,
            correct=lambda noise, count, runs: np.maximum(0, _noisy_count(noise, count, runs)),
        ),
        Exhibit(
            "Noise cut off at three scales",
            wrong="Large noise annoyed users, so it is limited to ±3. An answer of 4 then proves that the count was "
            "not 0.",
            mended="The tails are kept. (Truncated noise exists, and its price has a δ.)",
            seen="The answer 4 never comes from a count of 0.",
            source="Geng, Ding, Guo & Kumar 2020, Tight analysis of privacy and utility tradeoff in approximate "
            "differential privacy",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            samples=15_000,
            broken=_clip_noise,
            correct=_noisy_count,
        ),
        Exhibit(
            "A little uniform noise",
            wrong="Every cell of a published table is moved by a whole number from −3 to 3, each as likely. At the "
            "edge the true value shows, and the average of several questions finds it.",
            mended="Laplace noise has no edge.",
            seen="The answer −3 proves a count of 0.",
            source="Asghar & Kaafar 2020, Averaging attacks on bounded noise-based disclosure control algorithms",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            broken=lambda noise, count, runs: count + noise.uniform_integers(-3, 3, runs),
            correct=_noisy_count,
        ),
        Exhibit(
            "Noise from one random byte",
            wrong="The noise is computed from a uniform number with eight random bits. It takes few values, and the "
            "largest of them is an edge, as in the exhibits above.",
            mended="The noise is drawn from as many random bits as its law needs.",
            seen="An answer beyond the largest noise proves that the count was higher.",
            source="Garfinkel & Leclerc 2020, Randomness concerns when deploying differential privacy",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            samples=30_000,
            broken=_noise_from_one_byte,
            correct=_noisy_count,
        ),
        Exhibit(
            "Seeded noise",
            wrong="The generator starts from a seed that stands in a configuration file. Whoever reads it can subtract "
            "the noise.",
            mended="The noise comes from the operating system's secure generator, and nobody knows its state.",
            seen="The same count gives the same answer every time, another count gives another.",
            source="Garfinkel & Leclerc 2020, Randomness concerns when deploying differential privacy",
            inputs=(0, 1),
            worlds=_COUNT_WORLDS,
            broken=_noise_from_fixed_seed,
            correct=_noisy_count,
        ),
        Exhibit(
            "The same noise every day",
            wrong="A growing count is published on three days with one and the same noise, to save budget. The "
            "difference of two days is exact.",
            mended="Each day has noise of its own, three times as wide, because the three share the price.",
            seen="The second day minus the first.",
            source="Dwork, Naor, Pitassi & Rothblum 2010, Differential privacy under continual observation (the "
            "problem)",
            inputs=((5, 5, 5), (5, 6, 6)),
            worlds="counts of three days, without and with a person who came on the second",
            broken=_reuse_daily_noise,
            correct=_fresh_daily_noise,
        ),
        Exhibit(
            "Two sums share one noise",
            wrong="A sum and a count are released together, and one draw is added to both. Each number alone looks "
            "fine: only together do they reveal the sum.",
            mended="Each number has a draw of its own, twice as wide.",
            seen="The difference of the two columns is exact, while no column alone reveals anything.",
            source="Kifer, Messing, Roth, Thakurta & Zhang 2020, Guidelines for implementing and auditing "
            "differentially private systems",
            inputs=((3, 7), (4, 7)),
            worlds="two sums, where a person adds 1 to the first",
            broken=_share_one_draw,
            correct=_draw_noise_for_each_cell,
        ),
        Exhibit(
            "Noise seeded by who is counted",
            wrong="To stop averaging, the noise is a function of the set of people counted. An attacker words one "
            "question in two ways that differ in one person: if the two answers are equal, so were the sets.",
            mended="The noise is fresh for each question, and each question is paid for. (A repeated question gets "
            "the stored answer.)",
            seen="The difference of two answers is exactly 0.",
            source="Gadotti, Houssiau, Rocher, Livshits & de Montjoye 2019, When the signal is in the noise",
            inputs=(0, 1),
            worlds="a set of forty, and with one person more, who is left out of the second question",
            broken=_noise_cached_by_set,
            correct=_noise_cached_by_question,
        ),
        Exhibit(
            "The classical Gaussian at a large ε",
            wrong="The textbook's deviation √(2 ln(1.25/δ))/ε is proved only for ε < 1. It was used at ε = 6, where "
            "it is too small. (δ = 1/2 is chosen so that few samples show it: the formula fails at every δ once ε is "
            "large.)",
            mended="The deviation is the least at which the exact formula gives δ at ε.",
            seen="A large answer has probability above δ in one world, and almost none in the other.",
            source="Balle & Wang 2018, Improving the Gaussian mechanism for differential privacy",
            inputs=(0, 1),
            worlds="a sum of 0, and of 1",
            claim=Guarantee(6, "0.5"),
            samples=120_000,
            broken=_gaussian_in_thousandths(_CLASSICAL_DEVIATION),
            correct=_gaussian_in_thousandths(_ANALYTIC_DEVIATION),
        ),
        Exhibit(
            "Noise divided by the batch",
            wrong="A learner clips the gradient of each example to length 1 and adds them up, but scales the noise as "
            "if they had been averaged over a batch of eight. A published learner claimed ε = 0.21, and an audit "
            "proved 2.79.",
            mended="The noise is scaled to what one example changes in the number that is released.",
            seen="The sum of gradients with and without one example, far apart compared with the noise.",
            source="Tramèr, Terzis, Steinke, Song, Jagielski & Carlini 2022, Debugging differential privacy",
            inputs=(0, 1),
            worlds="a sum of gradients without and with one example of length 1",
            claim=Guarantee(1, "1e-5"),
            broken=_gaussian_in_thousandths(_GRADIENT_DEVIATION / 8),
            correct=_gaussian_in_thousandths(_GRADIENT_DEVIATION),
        ),
        Exhibit(
            "A tree with noise for one level",
            wrong="Running counts are kept in a binary tree over eight days. A person is in a leaf and in every node "
            "above it, four in all, and the noise is made for one.",
            mended="The noise of every node is four times as wide.",
            seen="The smallest of the four nodes on the path from the leaf to the root.",
            source="Chan, Shi & Song 2011, Private and continual release of statistics (the right tree)",
            inputs=(0, 1),
            worlds="the four nodes above one day, without and with a person",
            broken=lambda noise, present, runs: _least_on_path(noise, present, runs, 1),
            correct=lambda noise, present, runs: _least_on_path(noise, present, runs, _CELLS),
        ),
        Exhibit(
            "The wrong norm",
            wrong="A person is in four cells. Their change has length √4 = 2 by Pythagoras, which is what Gaussian "
            "noise needs; it was used for Laplace noise, which needs the sum of all changes, 4.",
            mended="Laplace noise is scaled to the sum of the changes.",
            seen="The smallest of the four cells.",
            source="Dwork & Roth 2014, The algorithmic foundations of differential privacy (Definitions 3.1 and 3.8)",
            inputs=(0, 1),
            worlds="four cells, without and with a person who is in all of them",
            broken=lambda noise, present, runs: _least_on_path(noise, present, runs, math.sqrt(_CELLS)),
            correct=lambda noise, present, runs: _least_on_path(noise, present, runs, _CELLS),
        ),
    ),
)
