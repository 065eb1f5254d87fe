"""Lower bounds on ε from samples of the outputs on two neighbouring inputs, at a stated confidence.

falsifying         the audit itself: sample, select events, bound; samplers for every built-in mechanism
verdicts           the outcome of an audit, its statistical power, and the plot of both distributions
events             distinguishing events, selected on held-out samples; classifiers for multi-column outputs
"""
