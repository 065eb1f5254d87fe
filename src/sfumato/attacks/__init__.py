"""Attacks show what can be learnt of one person from answers: exact, coarse, or private.

answerers          who is asked for sums over groups: exact, coarse, noisy, or a real curator
ceilings           how far any attack can come on answers that keep a guarantee
findings           what an attack reached, beside blind guessing and the ceiling
finding_pictures   the same, drawn
"""

from sfumato.attacks.answerers import (
    Answerer,
    ExactAnswers,
    NoisyAnswers,
    PrivateAnswers,
    RoundedAnswers,
    SuppressedAnswers,
    UncountedAnswers,
    private_answers,
)
from sfumato.attacks.ceilings import for_replacing, guess_ceiling, least_proven, most_right, power_ceiling
from sfumato.attacks.findings import Finding, Findings

__all__ = [
    "Answerer",
    "ExactAnswers",
    "Finding",
    "Findings",
    "NoisyAnswers",
    "PrivateAnswers",
    "RoundedAnswers",
    "SuppressedAnswers",
    "UncountedAnswers",
    "for_replacing",
    "guess_ceiling",
    "least_proven",
    "most_right",
    "power_ceiling",
    "private_answers",
]
