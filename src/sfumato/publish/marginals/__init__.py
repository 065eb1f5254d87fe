"""Marginals are planned, measured as noisy blocks, estimated and made consistent: the ground of all else here."""
