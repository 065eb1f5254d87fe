"""Sfumato is a trusted curator for tables about people, with differential privacy.

import sfumato as sf
sf.Curve.laplace(scale=2).epsilon(0)
"""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato import errors
from sfumato.errors import (
    AccountDiffers,
    AlreadyAnswered,
    AnswerPending,
    BundleDamaged,
    Draining,
    InvalidParameter,
    InvalidPolicy,
    LedgerBehind,
    LedgerDamaged,
    LedgerInDoubt,
    LedgerUnavailable,
    NeighboursDiffer,
    Overspent,
    RequestDiffers,
    SessionClosed,
    SessionInterrupted,
    SfumatoError,
    SourceTaken,
    SynopsisDamaged,
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
    as_histogram,
    calibrate,
    codec,
    compose,
    distance,
    divergences,
    dumps,
    loads,
    neighbours,
    odometer,
    reading,
    theorems,
)
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato import attacks as attacks, audit as audit, games as games, quality as quality, reports as reports
    from sfumato.client import connect as connect
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
    from sfumato.curator.curators import protect as protect
    from sfumato.data import example as example
    from sfumato.inference.published_moments import regress as regress
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
    from sfumato.plan.limits import Strategy as Strategy
    from sfumato.plan.sql.aggregations import (
        Aggregation as Aggregation,
        correlation as correlation,
        count as count,
        count_distinct as count_distinct,
        covariance as covariance,
        histogram as histogram,
        intercept as intercept,
        maximum as maximum,
        mean as mean,
        median as median,
        minimum as minimum,
        mode as mode,
        quantile as quantile,
        quantiles as quantiles,
        r_squared as r_squared,
        slope as slope,
        stddev as stddev,
        sum as sum,
        top_k as top_k,
        variance as variance,
    )
    from sfumato.policy import Domain as Domain, Policy as Policy, PublicFace as PublicFace, Table as Table
    from sfumato.privacy.precedents import precedents as precedents
    from sfumato.publish.published_files import synopsis as synopsis
    from sfumato.publish.synopsis import Synopsis as Synopsis
    from sfumato.publish.synthetic import Synthetic as Synthetic
    from sfumato.publish.synthetic_tables import SyntheticTables as SyntheticTables
    from sfumato.release.answers.answer import Answer as Answer
    from sfumato.release.answers.receipts import Receipt as Receipt
    from sfumato.surveys import collect as collect, form as form

    avg, min, max, std, var = mean, minimum, maximum, stddev, variance
    corr, nunique = correlation, count_distinct

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
    "BundleDamaged",
    "Charged",
    "Cost",
    "Curator",
    "Curve",
    "Domain",
    "Draining",
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
    "LedgerInDoubt",
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
    "PublicFace",
    "Quantiles",
    "Question",
    "RandomizedResponse",
    "Reading",
    "Receipt",
    "RequestDiffers",
    "Sensitivity",
    "SessionClosed",
    "SessionInterrupted",
    "SfumatoError",
    "SourceTaken",
    "Standing",
    "StoredAnswer",
    "Strategy",
    "Synopsis",
    "SynopsisDamaged",
    "Synthetic",
    "SyntheticTables",
    "Tab",
    "TabClosed",
    "Table",
    "TableView",
    "TopK",
    "Unanswered",
    "Unsupported",
    "WeakPrivacy",
    "__version__",
    "as_histogram",
    "attacks",
    "audit",
    "best_selection",
    "calibrate",
    "collect",
    "compose",
    "connect",
    "correlation",
    "count",
    "count_distinct",
    "covariance",
    "distance",
    "divergences",
    "dumps",
    "errors",
    "example",
    "form",
    "games",
    "histogram",
    "intercept",
    "loads",
    "maximum",
    "mean",
    "median",
    "minimum",
    "mode",
    "neighbours",
    "odometer",
    "open",
    "precedents",
    "protect",
    "quality",
    "quantile",
    "quantiles",
    "r_squared",
    "reading",
    "regress",
    "reports",
    "slope",
    "stddev",
    "sum",
    "synopsis",
    "theorems",
    "top_k",
    "variance",
]

# fmt: off
_LATER = {
    "sfumato.client": ("connect",),
    "sfumato.curator": ("Curator", "Explanation", "Forecast", "Listing", "Question", "Standing", "TableView", "open"),
    "sfumato.curator.curators": ("protect",),
    "sfumato.data": ("example",),
    "sfumato.inference.published_moments": ("regress",),
    "sfumato.ledger": ("Account", "Anchor", "Charged", "Entry", "Ledger", "Line", "StoredAnswer", "Tab"),
    "sfumato.mechanisms": (
        "AboveThreshold", "Exponential", "FrequentValues", "Gaussian", "KeyThreshold", "Laplace", "NoisyMax",
        "OptimalLocalHashing", "OptimizedUnaryEncoding", "PermuteAndFlip", "Quantiles", "RandomizedResponse", "TopK",
        "best_selection",
    ),
    "sfumato.plan.sql.aggregations": (
        "Aggregation", "correlation", "count", "count_distinct", "covariance", "histogram", "intercept", "maximum",
        "mean", "median", "minimum", "mode", "quantile", "quantiles", "r_squared", "slope", "stddev", "sum", "top_k",
        "variance",
    ),
    "sfumato.plan.limits": ("Strategy",),
    "sfumato.policy": ("Domain", "Policy", "PublicFace", "Table"),
    "sfumato.privacy.precedents": ("precedents",),
    "sfumato.publish.published_files": ("synopsis",),
    "sfumato.publish.synopsis": ("Synopsis",),
    "sfumato.publish.synthetic_tables": ("SyntheticTables",),
    "sfumato.publish.synthetic": ("Synthetic",),
    "sfumato.release.answers.answer": ("Answer",),
    "sfumato.release.answers.receipts": ("Receipt",),
    "sfumato.surveys": ("collect", "form"),
}
# fmt: on
"""What only some users need is imported when it is first named."""
_HOMES = {name: module for module, names in _LATER.items() for name in names}
_OTHER_NAMES = {
    "avg": "mean",
    "min": "minimum",
    "max": "maximum",
    "std": "stddev",
    "var": "variance",
    "corr": "correlation",
    "nunique": "count_distinct",
}
"""Names of SQL and pandas for the same functions. They are not in ``__all__``: a star import keeps the built-in min."""
_REGISTERING = (
    "attacks",
    "ledger",
    "mechanisms",
    "policy",
    "release.measured",
    "publish.marginals.planning",
    "publish.files.model_files",
    "surveys",
    "curator.described_tables",
    "curator.listings",
    "curator.standings",
    "release.answers.answer",
)
"""Modules of stored values, which are read back without an import of their own."""
for _module in _REGISTERING:
    codec.register_module(f"sfumato.{_module}")


def __getattr__(name: str) -> Any:
    if name in {"attacks", "audit", "games", "quality", "reports"}:
        return import_module(f"sfumato.{name}")
    current_name = _OTHER_NAMES.get(name, name)
    if current_name in _HOMES:
        return getattr(import_module(_HOMES[current_name]), current_name)
    # names that tools look for in every module, such as __wrapped__, are no mistakes of a reader
    close_names = [] if name.startswith("_") else difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {close_names[0]}?" if close_names else ""
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    """List what there is, also what is imported only when it is named."""
    return [*__all__, "__all__", "__doc__"]
