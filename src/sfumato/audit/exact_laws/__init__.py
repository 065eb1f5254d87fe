"""Laws of small outputs are computed exactly, in two neighbouring worlds, and their divergences put beside the claim.

worlds        two laws and the largest loss between them
score_laws    choices: exponential, permute-and-flip, noisy max
stream_laws   sparse vectors over short streams
rank_laws     quantiles
report_laws   randomised reports, and thresholds of keys
"""
