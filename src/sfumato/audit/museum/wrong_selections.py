"""Room 4: selections that leak more than the selected candidate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Mechanism, Outputs, Room, encode_digits
from sfumato.privacy import Neighbours

_PEOPLE = 100


def _noisy_scores(noise: Noise, scores: Sequence[float], runs: int, scale: float) -> Outputs:
    return np.asarray(np.array(scores) + noise.laplace(scale, runs, len(scores)))


def _noisy_argmax(scale: float) -> Mechanism:
    return lambda noise, scores, runs: _noisy_scores(noise, scores, runs, scale).argmax(axis=1)


def _noisy_max_value(noise: Noise, scores: Sequence[int], runs: int) -> Outputs:
    return np.asarray(_noisy_scores(noise, scores, runs, 2).max(axis=1))


def _select_by_weight(noise: Noise, scores: Sequence[float], runs: int, exponent_per_point: float) -> Outputs:
    """Select a candidate with probability proportional to e^(exponent_per_point·score)."""
    return np.asarray((np.array(scores) * exponent_per_point + noise.gumbel(1, runs, len(scores))).argmax(axis=1))


def _exponential_at_rate(rate: float) -> Mechanism:
    return lambda noise, scores, runs: _select_by_weight(noise, scores, runs, rate)


def _scale_by_max(noise: Noise, counts: Sequence[int], runs: int) -> Outputs:
    """Divide by the largest count, as if one person changed the quotients by 1/100."""
    return _select_by_weight(noise, [count / max(counts) for count in counts], runs, _PEOPLE / 2)


def _scale_by_public_size(noise: Noise, counts: Sequence[int], runs: int) -> Outputs:
    return _select_by_weight(noise, [count / _PEOPLE for count in counts], runs, _PEOPLE / 2)


def _top_three_of(scale: float) -> Mechanism:
    """Return the three candidates with the largest noisy scores, in order."""

    def run(noise: Noise, scores: Sequence[int], runs: int) -> Outputs:
        noisy = np.array(scores) + noise.gumbel(scale, runs, len(scores))
        return encode_digits(np.argsort(-noisy, axis=1)[:, :3], base=len(scores))

    return run


_EQUAL_SCORES, _SPLIT_SCORES = (0,) * 20, (1, *(-1,) * 19)
_SPLIT_WORLDS = "twenty scores of 0; and one of 1, the others −1"

ROOM = Room(
    "Choices",
    "A selection reveals which candidate scores best, and nothing else. Its noise is made for that.",
    (
        Exhibit(
            "The largest noisy score, told",
            wrong="Report noisy max tells which candidate has the largest noisy score. Its score was released too, "
            "which is a function of all of them: the noise was for the name alone.",
            mended="Only the name is released. A score is a question of its own.",
            seen="Ten noisy scores that are all small.",
            source="Ding, Wang, Wang, Zhang & Kifer 2018, Detecting violations of differential privacy (noisy max "
            "with values)",
            inputs=((0,) * 10, (1,) * 10),
            worlds="ten scores of 0, and of 1",
            samples=15_000,
            broken=_noisy_max_value,
            correct=_noisy_argmax(2),
        ),
        Exhibit(
            "Noisy max with half the noise",
            wrong="The noise of each score is Δ/ε. That is enough where a person moves all scores the same way. Here "
            "one rises and another falls, so their difference moves by 2.",
            mended="The noise is 2Δ/ε.",
            seen="The candidate that was behind wins too often.",
            source="Dwork & Roth 2014, The algorithmic foundations of differential privacy (Claim 3.9 is for monotone "
            "scores)",
            inputs=((0, 4), (1, 3)),
            worlds="scores of 0 and 4, and of 1 and 3",
            samples=15_000,
            broken=_noisy_argmax(1),
            correct=_noisy_argmax(2),
        ),
        Exhibit(
            "The exponential mechanism at twice the rate",
            wrong="A candidate is chosen in proportion to e^(εs/Δ). The two in e^(εs/2Δ) was forgotten: it pays for "
            "the sum that the weights are divided by, which changes as well.",
            mended="Weights are e^(εs/2Δ).",
            seen="One candidate, e^1.7 times as often.",
            source="McSherry & Talwar 2007, Mechanism design via differential privacy (Theorem 6 has the two)",
            inputs=(_EQUAL_SCORES, _SPLIT_SCORES),
            worlds=_SPLIT_WORLDS,
            broken=_exponential_at_rate(1),
            correct=_exponential_at_rate(1 / 2),
        ),
        Exhibit(
            "The monotone rate under replacement",
            wrong="The scores are counts, and adding a person raises some and lowers none, so the weights are "
            "e^(εs/Δ). But the claim is about replacing a person: one count falls while another rises.",
            mended="Under replacement the weights are e^(εs/2Δ).",
            seen="The less frequent of two values.",
            source="McKenna & Sheldon 2020, Permute-and-flip (monotone scores)",
            inputs=((5, 5), (6, 4)),
            worlds="counts of 5 and 5, and of 6 and 4 after one person was replaced",
            neighbours=Neighbours.REPLACE,
            broken=_exponential_at_rate(1),
            correct=_exponential_at_rate(1 / 2),
        ),
        Exhibit(
            "Scores scaled by the largest of them",
            wrong="Counts are divided by the largest count to lie between 0 and 1, and claimed to change by 1/100, as "
            "there are a hundred people. The divisor is private too: here one person moves a quotient from 0 to "
            "1.",
            mended="Counts are divided by a public number.",
            seen="The candidate nobody voted for wins half of the time, or never.",
            source="McSherry & Talwar 2007, Mechanism design via differential privacy (Δ is the most over all tables)",
            inputs=((0, 1), (1, 1)),
            worlds="counts of 0 and 1, and of 1 and 1",
            broken=_scale_by_max,
            correct=_scale_by_public_size,
        ),
        Exhibit(
            "Three winners at the price of one",
            wrong="The three largest noisy scores are named with the noise of one choice. Each name costs.",
            mended="The noise is three times as wide: one draw for all three, charged as three choices.",
            seen="Which three, and in which order.",
            source="Durfee & Rogers 2019, Practical differentially private top-k selection with pay-what-you-get "
            "composition",
            inputs=((0,) * 6, (1, 1, 1, -1, -1, -1)),
            worlds="six scores of 0; and three of 1, three of −1",
            samples=30_000,
            broken=_top_three_of(2),
            correct=_top_three_of(6),
        ),
    ),
)
