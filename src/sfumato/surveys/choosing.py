"""Choosing compares the ways in which a form may randomise, and takes the one that errs least.

Of m questions, each may get ε/m (they are *split*: the losses add up to ε), or each respondent may answer one of them,
drawn evenly whatever the answers are, with the whole ε (they are *sampled*).

The measure is the variance of a count, averaged over the cells of a question and summed over the questions, for one
respondent. Split, it is the same for all data: every respondent holds one cell of each question, so the average is
v(ε/m) = (p(1 − p) + (k − 1)·q(1 − q))/(k·(p − q)²). Sampled, 1/m of the respondents answer for all, which gives m·v(ε),
and (m − 1)·f(1 − f) more for a cell of share f, because it matters who was asked: (m − 1)(1 − 1/k)/k on average where
all shares are 1/k, which is the most that it can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sfumato.publish.marginals.attributes import Attribute
from sfumato.surveys.encodings import Encoding, chances


@dataclass(frozen=True)
class Way:
    """A way says how a form is randomised: split or sampled, an encoding for each question, the variances they give."""

    sampled: bool
    encodings: tuple[Encoding, ...]
    variances: tuple[float, ...]
    """Of a count, for one respondent: an average over the cells of each question."""


def share(epsilon: Fraction, questions: int, *, sampled: bool) -> Fraction:
    """Give the ε of one question that is asked."""
    return epsilon if sampled else epsilon / questions


def best(questions: tuple[Attribute, ...], epsilon: Fraction, *, sampled: bool) -> Way:
    """Choose the encoding of each question that errs least."""
    each = share(epsilon, len(questions), sampled=sampled)
    chosen = tuple(_least(question.size, each) for question in questions)
    found = tuple(
        variance(encoding, question.size, each, len(questions) if sampled else 1)
        for encoding, question in zip(chosen, questions, strict=True)
    )
    return Way(sampled, chosen, found)


def better(questions: tuple[Attribute, ...], epsilon: Fraction) -> Way:
    """Choose between splitting and sampling; equal ones are split, which also tells of pairs."""
    ways = [best(questions, epsilon, sampled=sampled) for sampled in (False, True)]
    return min(ways, key=lambda way: sum(way.variances))


def variance(encoding: Encoding, cells: int, epsilon: Fraction, one_of: int) -> float:
    """Compute the mean variance of a count for one respondent, who is asked one of so many questions."""
    alone = chances(encoding.mechanism(epsilon, cells)).mean_variance(cells)
    return one_of * alone + (one_of - 1) * (1 - 1 / cells) / cells


def _least(cells: int, epsilon: Fraction) -> Encoding:
    suitable = [each for each in Encoding if each.suits(epsilon, cells)]
    return min(suitable, key=lambda each: variance(each, cells, epsilon, 1))
