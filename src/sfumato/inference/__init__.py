"""Inference from released numbers: regressions, tests and curves whose intervals account for the noise."""
