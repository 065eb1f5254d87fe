"""The price of a question over a secret Poisson sample of the units.

Theorem. Let a release on all units be (ε₀, δ₀)-DP. On a sample in which each unit is with probability at most q it is
(ln(1 + q(e^ε₀ − 1)), q·δ₀)-DP, under add-remove neighbours and, if the release bounds the presence of a unit, under
replace (``privacy.subsampled_losses``; Balle, Barthe & Gaboardi 2018, Thms 8 and 2). So a price (ε, δ) buys the noise
of (ln(1 + (e^ε − 1)/q), δ/q) on the sample. A ρ-zCDP release stays ρ-zCDP on a sample, since D_α is quasi-convex, and
no smaller ρ holds at every order for Gaussian noise: a price in ρ buys the same noise, and the account is charged less,
by the curve.

What the theorem needs, and where it is kept:

- Everything that depends on rows is computed from the sample: the filter is in every scan (``plan.limits``), and
  who owns a row does not depend on other units (``engine.duckdb.owners``). Groups, bounds and limits are the policy's.
- The sample is secret, and each release has its own key: a reader who knows the key knows who is in it, and is
  protected by ε₀ alone.
- One unit's coin is tossed once: its rows are together. A row without an id has no text that the other rows lack, and a
  unit in a period is no unit of the sampled accounts: both are refused.
- The number of units that a policy declares is that of all units, not of the sample: no sensitivity uses it.
- Only noise on totals is run on a sample. Groups that are discovered in the data would be shown more often where the
  sample has many of their units, and ranges would not hold for those shown; quantiles have no range in rows of all.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.release.parts.question_parts import rounded_down_to_13_digits
from sfumato.release.prices import Price

_MAX_EPSILON = 400
"""Beyond this a loss on a sample is not told from a failure."""


def price_before_sampling(price: Price, rate: Fraction) -> Price:
    """Return the price that a release over all units may have, so that on the sample it has this one.

    ε is rounded down by more than the logarithms err.
    """
    if price.epsilon is None:
        return price
    if price.epsilon > _MAX_EPSILON:
        rule = f"at most {_MAX_EPSILON} for a release on a sample"
        fix = "give a smaller epsilon, or leave out sample (--sample)"
        raise InvalidParameter("epsilon", float(price.epsilon), rule, fix=fix)
    epsilon = rounded_down_to_13_digits(
        Fraction(_epsilon_before_sampling(float(price.epsilon), float(rate))) * (1 - Fraction(1, 10**12))
    )
    delta = price.delta / rate
    if delta >= 1:
        rule = f"below the sampled share of the units, {float(rate):g}"
        raise InvalidParameter("delta", float(price.delta), rule, fix="give a delta of 1e-6 or less")
    return Price(epsilon, delta)


def _epsilon_before_sampling(epsilon: float, rate: float) -> float:
    """Compute ln(1 + (e^ε − 1)/q)."""
    return math.log1p(math.expm1(epsilon) / rate)
