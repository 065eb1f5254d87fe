"""An audit finds what a mechanism really does, exactly on small worlds and statistically on large ones.

worlds             exact laws of small outputs, and their divergences beside the claim
score_laws, stream_laws, rank_laws, report_laws   the laws of choices, sparse vectors, quantiles, reports and keys
falsifying         a lower bound on ε from samples, true with a stated confidence
verdicts           what samples prove, and what they could have proven
telling_events     events that tell two worlds apart, picked on samples of their own
trained_events     the same for outputs of many columns, by classifiers
canary_guesses     canaries in one run, and what right guesses about them prove
canary_tables      canaries among invented rows of a policy's table
mechanism_runs     every mechanism of ours, run very often on one input
"""

from sfumato.audit.canary_guesses import OneRun, one_run
from sfumato.audit.canary_tables import Planted, plant
from sfumato.audit.falsifying import falsify
from sfumato.audit.verdicts import Verdict
from sfumato.audit.worlds import Enumeration, enumerate

__all__ = ["Enumeration", "OneRun", "Planted", "Verdict", "enumerate", "falsify", "one_run", "plant"]
