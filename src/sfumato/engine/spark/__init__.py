"""Spark is an engine: plans become frames of its own, classic or Connect, and their rows become arrays of totals."""
