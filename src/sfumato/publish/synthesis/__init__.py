"""Adaptive synthesis: buy a model of a whole table step by step, choosing measurements from what was released."""
