"""Graphical models of many attributes are fitted to noisy marginals here, and give every other marginal exactly.

Nothing in this package knows what is private: it computes with what was released.
"""
