"""The mathematics of privacy loss: guarantees, sensitivity, curves, budgets.

numbers, amounts      what a number means, and functions that do not cancel; amounts of a currency, and their words
codec, codec_schemas  the JSON form of every frozen value, and its schema
guarantee             the guarantee and its unit
sensitivity           how much one unit changes; databases as vectors, their distance, and which are neighbours
losses                the interface of a privacy loss; losses of guarantees and finite pairs (pairs)
noise_losses          losses of noise, on one coordinate and on several, and of key thresholds
inversion             δ(ε) of a composition from its moments, with a proven error
shape, subsampled_losses  readings of a product of losses; the loss of a release on a secret sample
curve                 the value users hold: the privacy loss of a release
calibration, budget, odometer    the least noise; the spending rule; the loss so far
divergences, theorems, reading   definitions, textbook results, and their meaning for one person
precedents, pictures  guarantees of real deployments; drawings
"""

from sfumato.privacy import theorems
from sfumato.privacy.budget import Budget, Cost
from sfumato.privacy.calibration import Noise, calibrate
from sfumato.privacy.codec import dumps, loads
from sfumato.privacy.curve import Curve, compose
from sfumato.privacy.guarantee import Guarantee, Neighbours, PrivacyUnit
from sfumato.privacy.odometer import Odometer, odometer
from sfumato.privacy.reading import Reading, reading
from sfumato.privacy.sensitivity import Sensitivity, as_histogram, distance, neighbours
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
    "as_histogram",
    "calibrate",
    "compose",
    "distance",
    "divergences",
    "dumps",
    "loads",
    "neighbours",
    "odometer",
    "reading",
    "theorems",
]
