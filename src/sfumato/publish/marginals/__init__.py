"""Marginals: planned, measured as noisy blocks, estimated and made consistent; the foundation of this package."""
