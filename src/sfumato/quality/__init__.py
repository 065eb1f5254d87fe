"""Quality compares a synthetic table with the real one, exactly, for the owner of the real one alone.

Nothing here is protected by noise: these figures are NOT FOR PUBLICATION. What may be published is the free quality of
a synthetic table from its own noisy measurements, and ``curator.score``, which is charged.

paired_columns   the columns of both tables as numbers and cells
distances        total variation of all marginals of one, two and three columns, and NIST's k-marginal score; Cramér's
                 V of all pairs, correlations of numbers
learning         what a model learns from synthetic rows, tried on real ones (extra ``quality``); whether a logistic
                 model can tell the rows apart (pMSE)
nearest_rows     how far a synthetic row is from the nearest real one, with its caveat
page             the same in words, and as HTML with pictures; all figures as one value
comparing        what users call
"""

from sfumato.quality.comparing import Comparison, compare

__all__ = ["Comparison", "compare"]
