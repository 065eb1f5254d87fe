"""Room 7: local randomisers with the wrong probabilities, or used too often."""

from __future__ import annotations

import math

import numpy as np

from sfumato.audit.museum.exhibits import DemonstrationNoise as Noise, Exhibit, Mechanism, Outputs, Room, encode_digits
from sfumato.privacy import Neighbours

_ANSWERS = 4
_DAYS = 5


def _randomized_response(truth_probability: float) -> Mechanism:
    """Answer truthfully with this probability, else with one of the other answers."""

    def run(noise: Noise, answer: int, runs: int) -> Outputs:
        other = (answer + noise.uniform_integers(1, _ANSWERS - 1, runs)) % _ANSWERS
        return np.where(noise.bernoulli(truth_probability, runs), answer, other)

    return run


def _unary_encoding(epsilon: float) -> Mechanism:
    """Send one bit per possible answer, each kept with odds e^ε."""

    def run(noise: Noise, answer: int, runs: int) -> Outputs:
        bits = np.arange(_ANSWERS) == answer
        return encode_digits(bits ^ noise.bernoulli(1 / (1 + math.exp(epsilon)), runs, _ANSWERS))

    return run


def _fresh_daily_reports(noise: Noise, bit: int, runs: int) -> Outputs:
    """Return on how many days the randomised bit was 1."""
    return np.asarray((bit ^ noise.bernoulli(1 / (1 + math.e), runs, _DAYS)).sum(axis=1))


def _memoized_reports(noise: Noise, bit: int, runs: int) -> Outputs:
    return np.asarray(_DAYS * (bit ^ noise.bernoulli(1 / (1 + math.e), runs)))


def _reports_of_present(noise: Noise, people: int, runs: int) -> Outputs:
    """Return the number of reports and of those that say yes, if nobody's true answer is yes."""
    said_yes = noise.bernoulli(1 / (1 + math.e), runs, people).sum(axis=1)
    return np.stack([np.full(runs, people), said_yes], axis=1)


def _reports_of_invited(noise: Noise, people: int, runs: int) -> Outputs:
    """Take a report of each of ten invited people; a fair coin reports for those who are absent."""
    reported_yes = noise.bernoulli(1 / (1 + math.e), runs, people).sum(axis=1)
    return np.stack([np.full(runs, 10), reported_yes + noise.bernoulli(0.5, runs, 10 - people).sum(axis=1)], axis=1)


ROOM = Room(
    "Answers that people randomise themselves",
    "Nobody collects true answers, so each report has to protect its sender, in every bit and on every day.",
    (
        Exhibit(
            "The coin for two answers, with four",
            wrong="The truth is told with probability e^ε/(e^ε + 1), which is right for two answers. With four, each "
            "other answer is three times as rare.",
            mended="The truth is told with probability e^ε/(e^ε + 3).",
            seen="One report, as easy to tell apart as if ε were 1 + ln 3.",
            source="Wang, Blocki, Li & Jha 2017, Locally differentially private protocols for frequency estimation",
            inputs=(0, 1),
            worlds="the first of four answers, and the second",
            neighbours=Neighbours.REPLACE,
            broken=_randomized_response(math.e / (math.e + 1)),
            correct=_randomized_response(math.e / (math.e + 3)),
        ),
        Exhibit(
            "The whole ε for every bit",
            wrong="A report has one bit for each possible answer, and each bit is flipped as if it were the only one. "
            "A different answer changes two bits.",
            mended="Each bit has half of ε.",
            seen="The bits of both answers together.",
            source="Erlingsson, Pihur & Korolova 2014, RAPPOR (Theorem 1 has the two)",
            inputs=(0, 1),
            worlds="the first of four answers, and the second",
            neighbours=Neighbours.REPLACE,
            broken=_unary_encoding(1),
            correct=_unary_encoding(1 / 2),
        ),
        Exhibit(
            "Fresh coins every day",
            wrong="A phone reports the same fact each day with new coins, and the ε that was announced is for one day. "
            "After five days the mean of the reports is close to the truth.",
            mended="The first randomised answer is remembered and sent again.",
            seen="On how many of five days the report was yes.",
            source="Tang, Korolova, Bai, Wang & Wang 2017, Privacy loss in Apple's implementation of differential "
            "privacy on macOS 10.12",
            inputs=(0, 1),
            worlds="a person whose answer is no, and yes",
            neighbours=Neighbours.REPLACE,
            broken=_fresh_daily_reports,
            correct=_memoized_reports,
        ),
        Exhibit(
            "Who took part",
            wrong="Every report protects its answer, and the claim was that it hides whether somebody took part. The "
            "number of reports reveals that.",
            mended="Each of ten invited people sends a report; the coins of those who do not take part are fair.",
            seen="The number of reports.",
            source="Kasiviswanathan, Lee, Nissim, Raskhodnikova & Smith 2011, What can we learn privately? (local "
            "privacy is about replaced answers)",
            inputs=(5, 6),
            worlds="five people who took part, and six",
            broken=_reports_of_present,
            correct=_reports_of_invited,
        ),
    ),
)
