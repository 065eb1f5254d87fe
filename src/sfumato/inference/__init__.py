"""Inference from released numbers: regressions, components and tests whose intervals account for the noise."""
