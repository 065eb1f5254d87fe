"""An audit finds what a mechanism really does, exactly on small worlds and statistically on large ones.

worlds             exact laws of small outputs, and their divergences beside the claim
falsifying         a lower bound on ε from samples, true with a stated confidence
"""

from sfumato.audit.falsifying import Verdict, falsify
from sfumato.audit.worlds import Enumeration, enumerate

__all__ = ["Enumeration", "Verdict", "enumerate", "falsify"]
