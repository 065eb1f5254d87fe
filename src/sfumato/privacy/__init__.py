"""Privacy loss has its mathematics here: guarantee, sensitivity, curve, budget.

numbers, codec        what a number means; one JSON form for every frozen value (codec_schemas: its schema)
guarantee, sensitivity  what is promised, to whom; how much one unit changes
losses                what a privacy loss says (stable_functions, pairs: small parts)
noise_losses, losses  the losses we know exactly: of noise; of promises and finite pairs
threshold_losses, vector_losses  those of keys; those of Gaussian noise on several coordinates
inversion             δ(ε) of a composition from its moments, with a proven error
composition, shape    readings of many losses together
curve                 the value users hold: what a release leaks
calibration, budget, odometer    the least noise; what may be spent; what was
divergences, theorems, reading   definitions, textbook results, and their meaning for one person
"""

from sfumato.privacy import theorems
from sfumato.privacy.budget import Budget, Cost
from sfumato.privacy.calibration import Noise, calibrate
from sfumato.privacy.codec import dumps, loads
from sfumato.privacy.curve import Curve, compose
from sfumato.privacy.guarantee import Guarantee, Neighbours, PrivacyUnit
from sfumato.privacy.odometer import Odometer, odometer
from sfumato.privacy.reading import Reading, reading
from sfumato.privacy.sensitivity import Sensitivity
from sfumato.privacy.shape import PrivacyLoss

__all__ = [
    "Budget",
    "Cost",
    "Curve",
    "Guarantee",
    "Neighbours",
    "Noise",
    "Odometer",
    "PrivacyLoss",
    "PrivacyUnit",
    "Reading",
    "Sensitivity",
    "calibrate",
    "compose",
    "divergences",
    "dumps",
    "loads",
    "odometer",
    "reading",
    "theorems",
]
