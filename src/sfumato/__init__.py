"""Sfumato is a trusted curator for tables about people, with differential privacy.

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
    AnswerPending,
    InvalidParameter,
    InvalidPolicy,
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
    Unanswered,
    Unsupported,
    WeakPrivacy,
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
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato import audit as audit, games as games
    from sfumato.curator import (
        Curator as Curator,
        Explanation as Explanation,
        Forecast as Forecast,
        Listing as Listing,
        Question as Question,
        Standing as Standing,
        TableView as TableView,
        open as open,
    )
    from sfumato.data import example as example
    from sfumato.ledger import (
        Account as Account,
        Anchor as Anchor,
        Charged as Charged,
        Entry as Entry,
        Ledger as Ledger,
        Line as Line,
        StoredAnswer as StoredAnswer,
        Tab as Tab,
    )
    from sfumato.mechanisms import (
        AboveThreshold as AboveThreshold,
        Exponential as Exponential,
        FrequentValues as FrequentValues,
        Gaussian as Gaussian,
        KeyThreshold as KeyThreshold,
        Laplace as Laplace,
        NoisyMax as NoisyMax,
        OptimalLocalHashing as OptimalLocalHashing,
        OptimizedUnaryEncoding as OptimizedUnaryEncoding,
        PermuteAndFlip as PermuteAndFlip,
        Quantiles as Quantiles,
        RandomizedResponse as RandomizedResponse,
        TopK as TopK,
        best_selection as best_selection,
    )
    from sfumato.plan.aggregations import (
        Aggregation as Aggregation,
        count as count,
        count_distinct as count_distinct,
        mean as mean,
        mode as mode,
        sum as sum,
        top_k as top_k,
    )
    from sfumato.plan.limits import Strategy as Strategy
    from sfumato.policy import Domain as Domain, Policy as Policy, Table as Table
    from sfumato.release.answers import Answer as Answer
    from sfumato.release.receipts import Receipt as Receipt

__all__ = [
    "AboveThreshold",
    "Account",
    "AccountDiffers",
    "Aggregation",
    "AlreadyAnswered",
    "Anchor",
    "Answer",
    "AnswerPending",
    "Budget",
    "Charged",
    "Cost",
    "Curator",
    "Curve",
    "Domain",
    "Entry",
    "Explanation",
    "Exponential",
    "Forecast",
    "FrequentValues",
    "Gaussian",
    "Guarantee",
    "InvalidParameter",
    "InvalidPolicy",
    "KeyThreshold",
    "Laplace",
    "Ledger",
    "LedgerBehind",
    "LedgerDamaged",
    "LedgerUnavailable",
    "Line",
    "Listing",
    "Neighbours",
    "NeighboursDiffer",
    "Noise",
    "NoisyMax",
    "Odometer",
    "OptimalLocalHashing",
    "OptimizedUnaryEncoding",
    "Overspent",
    "PermuteAndFlip",
    "Policy",
    "PrivacyLoss",
    "PrivacyUnit",
    "Quantiles",
    "Question",
    "RandomizedResponse",
    "Reading",
    "Receipt",
    "RequestDiffers",
    "Sensitivity",
    "SessionClosed",
    "SfumatoError",
    "SourceTaken",
    "Standing",
    "StoredAnswer",
    "Strategy",
    "Tab",
    "TabClosed",
    "Table",
    "TableView",
    "TopK",
    "Unanswered",
    "Unsupported",
    "WeakPrivacy",
    "__version__",
    "audit",
    "best_selection",
    "calibrate",
    "compose",
    "count",
    "count_distinct",
    "divergences",
    "dumps",
    "errors",
    "example",
    "games",
    "loads",
    "mean",
    "mode",
    "odometer",
    "open",
    "reading",
    "sum",
    "theorems",
    "top_k",
]

# fmt: off
_LATER = {
    "sfumato.curator": ("Curator", "Explanation", "Forecast", "Listing", "Question", "Standing", "TableView", "open"),
    "sfumato.data": ("example",),
    "sfumato.ledger": ("Account", "Anchor", "Charged", "Entry", "Ledger", "Line", "StoredAnswer", "Tab"),
    "sfumato.mechanisms": (
        "AboveThreshold", "Exponential", "FrequentValues", "Gaussian", "KeyThreshold", "Laplace", "NoisyMax",
        "OptimalLocalHashing", "OptimizedUnaryEncoding", "PermuteAndFlip", "Quantiles", "RandomizedResponse", "TopK",
        "best_selection",
    ),
    "sfumato.plan.aggregations": ("Aggregation", "count", "count_distinct", "mean", "mode", "sum", "top_k"),
    "sfumato.plan.limits": ("Strategy",),
    "sfumato.policy": ("Domain", "Policy", "Table"),
    "sfumato.release.answers": ("Answer",),
    "sfumato.release.receipts": ("Receipt",),
}
# fmt: on
"""What only some users need is imported when it is first named."""
_HOMES = {name: module for module, names in _LATER.items() for name in names}
for _module in ("ledger", "mechanisms", "policy", "release.measured", "curator"):
    codec.later(f"sfumato.{_module}")


def __getattr__(name: str) -> Any:
    if name in {"audit", "games"}:
        return import_module(f"sfumato.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what there is, also what is imported only when it is named."""
    return [*__all__, "__all__", "__doc__"]
