"""Sfumato: a trusted curator for tables about people, with differential privacy.

import sfumato as sf
sf.Curve.laplace(scale=2).epsilon(0)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato import errors
from sfumato.errors import (
    AccountDiffers,
    AlreadyAnswered,
    InvalidParameter,
    LedgerBehind,
    LedgerDamaged,
    LedgerUnavailable,
    NeighboursDiffer,
    Overspent,
    RequestDiffers,
    SessionClosed,
    SfumatoError,
    SourceTaken,
    TabClosed,
)
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
    codec,
    compose,
    divergences,
    dumps,
    loads,
    odometer,
    reading,
    theorems,
)

if TYPE_CHECKING:
    from sfumato import audit as audit
    from sfumato.ledger import (
        Account as Account,
    )
    from sfumato.ledger import (
        Anchor as Anchor,
    )
    from sfumato.ledger import (
        Entry as Entry,
    )
    from sfumato.ledger import (
        Ledger as Ledger,
    )
    from sfumato.ledger import (
        Line as Line,
    )
    from sfumato.ledger import (
        StoredAnswer as StoredAnswer,
    )
    from sfumato.ledger import (
        Tab as Tab,
    )
    from sfumato.mechanisms import (
        AboveThreshold as AboveThreshold,
    )
    from sfumato.mechanisms import (
        Exponential as Exponential,
    )
    from sfumato.mechanisms import (
        Gaussian as Gaussian,
    )
    from sfumato.mechanisms import (
        KeyThreshold as KeyThreshold,
    )
    from sfumato.mechanisms import (
        Laplace as Laplace,
    )
    from sfumato.mechanisms import (
        NoisyMax as NoisyMax,
    )
    from sfumato.mechanisms import (
        OptimalLocalHashing as OptimalLocalHashing,
    )
    from sfumato.mechanisms import (
        OptimizedUnaryEncoding as OptimizedUnaryEncoding,
    )
    from sfumato.mechanisms import (
        PermuteAndFlip as PermuteAndFlip,
    )
    from sfumato.mechanisms import (
        Quantiles as Quantiles,
    )
    from sfumato.mechanisms import (
        RandomizedResponse as RandomizedResponse,
    )
    from sfumato.mechanisms import (
        TopK as TopK,
    )
    from sfumato.mechanisms import (
        best_selection as best_selection,
    )

__version__ = "0.1.0"

__all__ = [
    "AboveThreshold",
    "Account",
    "AccountDiffers",
    "AlreadyAnswered",
    "Anchor",
    "Budget",
    "Cost",
    "Curve",
    "Entry",
    "Exponential",
    "Gaussian",
    "Guarantee",
    "InvalidParameter",
    "KeyThreshold",
    "Laplace",
    "Ledger",
    "LedgerBehind",
    "LedgerDamaged",
    "LedgerUnavailable",
    "Line",
    "Neighbours",
    "NeighboursDiffer",
    "Noise",
    "NoisyMax",
    "Odometer",
    "OptimalLocalHashing",
    "OptimizedUnaryEncoding",
    "Overspent",
    "PermuteAndFlip",
    "PrivacyLoss",
    "PrivacyUnit",
    "Quantiles",
    "RandomizedResponse",
    "Reading",
    "RequestDiffers",
    "Sensitivity",
    "SessionClosed",
    "SfumatoError",
    "SourceTaken",
    "StoredAnswer",
    "Tab",
    "TabClosed",
    "TopK",
    "__version__",
    "audit",
    "best_selection",
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

_MECHANISMS = {
    "AboveThreshold",
    "Exponential",
    "Gaussian",
    "KeyThreshold",
    "Laplace",
    "NoisyMax",
    "OptimalLocalHashing",
    "OptimizedUnaryEncoding",
    "PermuteAndFlip",
    "Quantiles",
    "RandomizedResponse",
    "TopK",
    "best_selection",
}
_LEDGER = {"Account", "Anchor", "Entry", "Ledger", "Line", "StoredAnswer", "Tab"}
codec.later("sfumato.ledger")
codec.later("sfumato.mechanisms")


def __getattr__(name: str) -> Any:
    """What only some users need is imported when it is first named."""
    if name == "audit":
        return import_module("sfumato.audit")
    if name in _LEDGER:
        return getattr(import_module("sfumato.ledger"), name)
    if name in _MECHANISMS:
        return getattr(import_module("sfumato.mechanisms"), name)
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
