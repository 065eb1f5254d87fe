"""Rows are drawn from a model: cell by cell, with the types of the policy, and none that it rules out."""
