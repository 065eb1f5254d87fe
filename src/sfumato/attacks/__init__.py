"""Attacks show what can be learnt of one person from answers: exact, coarse, or private.

answerers          who is asked for sums over groups: exact, coarse, noisy, or a real curator
ceilings           how far any attack can come on answers that keep a guarantee
differencing       two totals that differ by one person
averaging          the same question, again and again
reconstruction     everybody's bit from many sums over random groups
census             everybody's ancestry from small tables of their block
linkage            names put back by columns that two tables share
fitting            values that agree with many answers: least squares, linear programmes
sweeps             an attack at many sizes of one thing
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
from sfumato.attacks.averaging import average, averaging, averaging_by_times
from sfumato.attacks.ceilings import for_replacing, guess_ceiling, least_proven, most_right, power_ceiling
from sfumato.attacks.census import census
from sfumato.attacks.differencing import difference, differencing
from sfumato.attacks.findings import Finding, Findings
from sfumato.attacks.linkage import Person, homogeneous, linkage, linkage_people
from sfumato.attacks.reconstruction import Method, reconstruct, reconstruction, reconstruction_by_noise
from sfumato.attacks.sweeps import Sweep

__all__ = [
    "Answerer",
    "ExactAnswers",
    "Finding",
    "Findings",
    "Method",
    "NoisyAnswers",
    "Person",
    "PrivateAnswers",
    "RoundedAnswers",
    "SuppressedAnswers",
    "Sweep",
    "UncountedAnswers",
    "average",
    "averaging",
    "averaging_by_times",
    "census",
    "difference",
    "differencing",
    "for_replacing",
    "guess_ceiling",
    "homogeneous",
    "least_proven",
    "linkage",
    "linkage_people",
    "most_right",
    "power_ceiling",
    "private_answers",
    "reconstruct",
    "reconstruction",
    "reconstruction_by_noise",
]
