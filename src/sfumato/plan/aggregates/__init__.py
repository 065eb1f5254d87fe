"""Aggregates: the totals each one needs, their sensitivity, and the estimator of the result."""
