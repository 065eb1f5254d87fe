"""Graphical models of many attributes, fitted to noisy marginals, that yield every other marginal exactly.

Nothing in this package knows what is private: it computes with what was released.
"""
