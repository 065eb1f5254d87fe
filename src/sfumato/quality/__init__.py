"""Utility metrics of synthetic data: an exact comparison with the real table, for the real table's owner alone.

Nothing here is protected by noise: these figures are NOT FOR PUBLICATION. To publish, use the free quality of a
synthetic table from its own noisy measurements, or ``curator.score``, which is charged.

distances        total variation of all 1-, 2- and 3-way marginals, NIST's k-marginal score; Cramér's V, correlations;
                 distance of synthetic rows to the nearest real row, with its caveat
learning         the columns of both tables as numbers and cells; train on synthetic, test on real (extra ``quality``);
                 propensity score of a logistic model (pMSE)
comparing        ``compare``, the public entry point: all figures as one value, in words, and as an HTML page with plots
"""

from sfumato.quality.comparing import Comparison, compare

__all__ = ["Comparison", "compare"]
