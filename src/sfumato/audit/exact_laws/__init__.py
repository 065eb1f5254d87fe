"""Exact output distributions of small mechanisms on two neighbouring inputs, and their divergences against the claim.

worlds        the enumeration of both distributions, the largest privacy loss and the hockey-stick divergence
choice_laws   selections: exponential mechanism, permute-and-flip, report noisy max; quantiles
stream_laws   the sparse vector technique over short streams
report_laws   local randomisers and key thresholds
"""
