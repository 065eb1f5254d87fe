"""Sfumato: a trusted curator for tables about people, with differential privacy.

import sfumato as sf
sf.Curve.laplace(scale=2).epsilon(0)
"""

from sfumato import errors
from sfumato.errors import InvalidParameter, NeighboursDiffer, Overspent, SfumatoError
from sfumato.privacy import (
    Budget,
    Cost,
    Curve,
    Guarantee,
    Neighbours,
    Noise,
    Odometer,
    PrivacyLoss,
    PrivacyUnit,
    Reading,
    Sensitivity,
    calibrate,
    compose,
    divergences,
    dumps,
    loads,
    odometer,
    reading,
    theorems,
)

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "Cost",
    "Curve",
    "Guarantee",
    "InvalidParameter",
    "Neighbours",
    "NeighboursDiffer",
    "Noise",
    "Odometer",
    "Overspent",
    "PrivacyLoss",
    "PrivacyUnit",
    "Reading",
    "Sensitivity",
    "SfumatoError",
    "__version__",
    "calibrate",
    "compose",
    "divergences",
    "dumps",
    "errors",
    "loads",
    "odometer",
    "reading",
    "theorems",
]
