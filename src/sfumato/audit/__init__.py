"""Empirical privacy audits of a mechanism, a query or a whole curator: exact by enumeration where possible, by
sampling otherwise.

exact_laws        exact output distributions of small mechanisms, and their divergences against the claim; exact laws
                  of single mechanisms, computed apart from the code that draws
lower_bounds      lower bounds on ε from samples, at a stated confidence
canaries          one-run audits with canaries, and the lower bound that correct guesses prove
generated_tables  neighbouring generated tables for a policy, with one unit that tests its limits
asked_questions   one query, run end to end under a policy on two neighbouring tables
whole_policies    a whole policy: visible output, exact sensitivities, noise, releases and injected faults
museum            broken mechanisms from papers and bug reports, each beside a correct twin that passes
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.audit import museum
from sfumato.audit.canaries import OneRun, Planted, one_run, plant
from sfumato.audit.exact_laws import Enumeration, enumerate
from sfumato.audit.lower_bounds.falsifying import falsify
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.audit.museum import Catch, Exhibit, Tour, catch

if TYPE_CHECKING:
    from sfumato.audit.generated_tables import (
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

_LAZY_MODULES = {
    "CuratorAudit": "whole_policies.curator_findings",
    "NeighbouringTables": "generated_tables",
    "curator": "whole_policies.curator_audits",
    "neighbours_of": "generated_tables",
    "page": "whole_policies.curator_findings",
}
"""The submodule of each attribute that needs an engine; imported on first access."""


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return getattr(import_module(f"sfumato.audit.{_LAZY_MODULES[name]}"), name)
    raise AttributeError(f"module 'sfumato.audit' has no attribute {name!r}")
