"""Lower bounds on ε are found from samples of two worlds, true with a stated confidence.

falsifying         samples, events and the bound they prove; every mechanism of ours, run very often on one input
verdicts           what samples prove, and what they could have proven; both laws, drawn with the telling event
events             how often each output was seen; events that tell two worlds apart, picked on samples of their own;
                   the same for outputs of many columns, by classifiers
"""
