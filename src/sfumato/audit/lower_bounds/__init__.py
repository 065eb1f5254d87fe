"""Lower bounds on ε are found from samples of two worlds, true with a stated confidence.

falsifying         samples, events and the bound they prove
verdicts           what samples prove, and what they could have proven
telling_events     events that tell two worlds apart, picked on samples of their own
trained_events     the same for outputs of many columns, by classifiers
mechanism_runs     every mechanism of ours, run very often on one input
told_laws          how often each output was seen
verdict_pictures   both laws, drawn with the telling event
"""
