"""Room 3: broken variants of the sparse vector technique."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Mechanism, Outputs, Room, encode_digits
from sfumato.privacy import Guarantee

_EPSILON = 2.0
_NO_VALUE = -100


def _above_threshold(
    noise: Noise, answers: Sequence[int], runs: int, threshold_scale: float, query_scale: float, max_above: int | None
) -> NDArray[np.bool_]:
    """Return which queries are answered "above", up to ``max_above`` of them; later ones are not asked."""
    noisy = np.array(answers) + noise.laplace(query_scale, runs, len(answers))
    above = noisy >= noise.laplace(threshold_scale, runs, 1)
    return above if max_above is None else above & (np.cumsum(above, axis=1) <= max_above)


def _sparse_vector(threshold_scale: float, query_scale: float, max_above: int | None) -> Mechanism:
    return lambda noise, answers, runs: encode_digits(
        _above_threshold(noise, answers, runs, threshold_scale, query_scale, max_above)
    )


def _correct_sparse_vector(max_above: int, share: float = 0.5) -> Mechanism:
    """The sparse vector of Lyu, Su & Li (2017, Algorithm 1), with query noise 2c/ε₂."""
    return _sparse_vector(1 / (share * _EPSILON), 2 * max_above / ((1 - share) * _EPSILON), max_above)


def _value_of_last_above(noise: Noise, answers: Sequence[int], runs: int, fresh: bool) -> Outputs:
    """Return the noisy value of the last query if it alone is above."""
    noisy_threshold = noise.laplace(2 if fresh else 1, runs, 1)
    noisy = np.array(answers) + noise.laplace(4 if fresh else 1, runs, len(answers))
    above = noisy >= noisy_threshold
    value = answers[-1] + noise.laplace(1, runs) if fresh else noisy[:, -1]
    last_alone = above[:, -1] & ~above[:, :-1].any(axis=1)
    return np.where(last_alone, value, _NO_VALUE)


def _first_above(
    noise: Noise, answers: Sequence[int], runs: int, threshold_scale: float, query_scale: float
) -> Outputs:
    """Return the index of the first query that is above, or the number of queries if none is."""
    above = _above_threshold(noise, answers, runs, threshold_scale, query_scale, 1)
    return np.where(above.any(axis=1), above.argmax(axis=1), len(answers))


ROOM = Room(
    "Sparse vectors",
    "Many questions are compared with one noisy threshold, and only the few that are above it are paid for. Lyu, Su "
    "and Li collected six published variants, of which four are wrong. All of these claim ε = 2.",
    (
        Exhibit(
            "The value from the noise that decided",
            wrong="Where a question is above, its noisy value is shown, with the noise that was compared. The value "
            "bounds the threshold, and the threshold was what hid the questions below it.",
            mended="A value that is shown gets noise of its own, and is paid for.",
            seen="Many questions below, then one above with a small value.",
            source="Roth 2011, lecture notes (Algorithm 3 in Lyu, Su & Li 2017, Understanding the sparse vector "
            "technique)",
            inputs=((0, 0, 0, 0, 1), (1, 1, 1, 1, 1)),
            worlds="five counts, of which four rise by 1",
            claim=Guarantee(2),
            samples=60_000,
            broken=lambda noise, answers, runs: _value_of_last_above(noise, answers, runs, fresh=False),
            correct=lambda noise, answers, runs: _value_of_last_above(noise, answers, runs, fresh=True),
        ),
        Exhibit(
            "Noise that does not grow with the answers above",
            wrong="The noise of the questions is that of one answer above, and c = 3 are given. What is really spent "
            "is (1 + 6c)/4 times the claim.",
            mended="The noise of a question is 2c/ε₂.",
            seen="Questions below, then three above.",
            source="Lee & Clifton 2014, Top-k frequent itemsets via differentially private FP-trees (Algorithm 4 in "
            "Lyu, Su & Li 2017)",
            inputs=((0, 0, 0, 1, 1, 1), (1, 1, 1, 0, 0, 0)),
            worlds="six counts, of which three rise and three fall by 1",
            claim=Guarantee(2),
            samples=15_000,
            broken=_sparse_vector(4 / _EPSILON, 4 / (3 * _EPSILON), 3),
            correct=_correct_sparse_vector(3, 0.25),
        ),
        Exhibit(
            "No noise on the questions",
            wrong="Only the threshold is noisy. A question below and a later one above then order the exact counts: "
            "one order is impossible.",
            mended="Every question has noise of its own.",
            seen="Below, then above: it never happens where the first count is the larger.",
            source="Stoddard, Chen & Machanavajjhala 2014, Differentially private algorithms for empirical machine "
            "learning (Algorithm 5 in Lyu, Su & Li 2017)",
            inputs=((0, 1), (1, 0)),
            worlds="two counts, of which one rises and one falls by 1",
            claim=Guarantee(2),
            broken=_sparse_vector(2 / _EPSILON, 0, None),
            correct=_correct_sparse_vector(1),
        ),
        Exhibit(
            "No end to the answers above",
            wrong="The questions have noise, but there is no limit to how many may be above. Each of them costs.",
            mended="It stops after c answers above, and the noise of a question grows with c.",
            seen="Three questions below, three above.",
            source="Chen, Xiao, Zhang & Xu 2015, Differentially private high-dimensional data publication via "
            "sampling-based inference (Algorithm 6 in Lyu, Su & Li 2017)",
            inputs=((0,) * 6, (1, 1, 1, -1, -1, -1)),
            worlds="six counts of 0; and three of 1, three of −1",
            claim=Guarantee(2),
            samples=15_000,
            broken=_sparse_vector(2 / _EPSILON, 2 / _EPSILON, None),
            correct=_correct_sparse_vector(3),
        ),
        Exhibit(
            "No end, whatever the shares",
            wrong="The variants without an end differ in how ε is shared between threshold and questions. No share "
            "helps: the threshold's noise pays for the answers below alone, and each answer above costs.",
            mended="It stops after the first answer above.",
            seen="Many questions below, then many above.",
            source="Chen & Machanavajjhala 2015, On the privacy properties of variants on the sparse vector technique",
            inputs=((0,) * 8, (1,) * 4 + (-1,) * 4),
            worlds="eight counts of 0; and four of 1, four of −1",
            claim=Guarantee(2),
            broken=_sparse_vector(1.5, 0.75, None),
            correct=_correct_sparse_vector(1),
        ),
        Exhibit(
            "The monotone rate for counts that go both ways",
            wrong="Half the noise is enough where one person moves all counts the same way. Here some rise and some "
            "fall.",
            mended="The noise of a question is 2c/ε₂.",
            seen="The position of the first answer above.",
            source="Lyu, Su & Li 2017, Understanding the sparse vector technique (half the noise is for monotone "
            "questions)",
            inputs=((*(-1,) * 6, 0), (*(0,) * 6, -1)),
            worlds="six counts that rise by 1, and a last one that falls by 1",
            claim=Guarantee(2),
            samples=30_000,
            broken=lambda noise, answers, runs: _first_above(noise, answers, runs, 2 / _EPSILON, 2 / _EPSILON),
            correct=lambda noise, answers, runs: _first_above(noise, answers, runs, 2 / _EPSILON, 4 / _EPSILON),
        ),
        Exhibit(
            "A threshold without noise",
            wrong="The questions are noisy and the threshold is not, so every question below it costs as much as one "
            "above.",
            mended="The threshold gets noise once, which pays for all questions below together.",
            seen="The position of the first answer above.",
            source="Dwork & Roth 2014, The algorithmic foundations of differential privacy (Section 3.6: why it is "
            "noisy)",
            inputs=((-1,) * 12, (0,) * 12),
            worlds="twelve counts one below the threshold, and at it",
            claim=Guarantee(2),
            samples=40_000,
            broken=lambda noise, answers, runs: _first_above(noise, answers, runs, 0, 4 / _EPSILON),
            correct=lambda noise, answers, runs: _first_above(noise, answers, runs, 2 / _EPSILON, 4 / _EPSILON),
        ),
    ),
)
