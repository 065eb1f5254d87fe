"""An audit finds what a mechanism really does, exactly on small worlds and statistically on large ones.

worlds             exact laws of small outputs, and their divergences beside the claim
falsifying         a lower bound on ε from samples, true with a stated confidence
museum             broken mechanisms from papers and bug reports, each caught, beside correct twins that pass
"""

from sfumato.audit import museum
from sfumato.audit.falsifying import Verdict, falsify
from sfumato.audit.museum import Catch, Exhibit, Tour, catch
from sfumato.audit.worlds import Enumeration, enumerate

__all__ = ["Catch", "Enumeration", "Exhibit", "Tour", "Verdict", "catch", "enumerate", "falsify", "museum"]
