"""An audit finds what a mechanism, a question or a whole curator really does: exactly where it can, by samples
otherwise.

exact_laws        exact laws of small outputs, and their divergences beside the claim
lower_bounds      a lower bound on ε from samples, true with a stated confidence
canaries          canaries in one run, and what right guesses about them prove
invented_tables   tables invented from a policy, with one unit that tries its limits
asked_questions   a question, over the whole path of a policy, on two of them
whole_policies    a whole policy: what is seen, exact changes, noise, releases, and planted faults
museum            broken mechanisms from papers and bug reports, each caught, beside correct twins that pass
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.audit import museum
from sfumato.audit.canaries import OneRun, Planted, one_run, plant
from sfumato.audit.exact_laws.worlds import Enumeration, enumerate
from sfumato.audit.lower_bounds.falsifying import falsify
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.audit.museum import Catch, Exhibit, Tour, catch

if TYPE_CHECKING:
    from sfumato.audit.invented_tables import (
        NeighbouringTables as NeighbouringTables,
        neighbours_of as neighbours_of,
    )
    from sfumato.audit.whole_policies.curator_audits import curator as curator
    from sfumato.audit.whole_policies.curator_findings import CuratorAudit as CuratorAudit, page as page

__all__ = [
    "Catch",
    "CuratorAudit",
    "Enumeration",
    "Exhibit",
    "NeighbouringTables",
    "OneRun",
    "Planted",
    "Tour",
    "Verdict",
    "catch",
    "curator",
    "enumerate",
    "falsify",
    "museum",
    "neighbours_of",
    "one_run",
    "page",
    "plant",
]

_LATER = {
    "CuratorAudit": "whole_policies.curator_findings",
    "NeighbouringTables": "invented_tables",
    "curator": "whole_policies.curator_audits",
    "neighbours_of": "invented_tables",
    "page": "whole_policies.curator_findings",
}
"""What needs an engine is imported when it is first named."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"sfumato.audit.{_LATER[name]}"), name)
    raise AttributeError(f"module 'sfumato.audit' has no attribute {name!r}")
