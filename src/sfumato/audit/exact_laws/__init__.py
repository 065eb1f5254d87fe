"""Laws of small outputs are computed exactly, in two neighbouring worlds, and their divergences put beside the claim.

worlds        two laws and the largest loss between them
choice_laws   choices: exponential, permute-and-flip, noisy max; quantiles
stream_laws   sparse vectors over short streams
report_laws   randomised reports, and thresholds of keys
"""
