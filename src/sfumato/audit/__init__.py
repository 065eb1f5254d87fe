"""An audit finds what a mechanism, a question or a whole curator really does: exactly where it can, by samples
otherwise.

worlds               exact laws of small outputs, and their divergences beside the claim
falsifying           a lower bound on ε from samples, true with a stated confidence
museum               broken mechanisms from papers and bug reports, each caught, beside correct twins that pass
neighbouring_tables  tables invented from a policy, with one unit that tries its limits
asked_worlds         a question, over the whole path of a policy, on two of them
curator_audits       a whole policy: what is seen, exact changes, noise, releases, and planted faults
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.audit import museum
from sfumato.audit.falsifying import Verdict, falsify
from sfumato.audit.museum import Catch, Exhibit, Tour, catch
from sfumato.audit.worlds import Enumeration, enumerate

if TYPE_CHECKING:
    from sfumato.audit.audit_pages import page as page
    from sfumato.audit.curator_audits import curator as curator
    from sfumato.audit.curator_findings import CuratorAudit as CuratorAudit
    from sfumato.audit.neighbouring_tables import (
        NeighbouringTables as NeighbouringTables,
        neighbours_of as neighbours_of,
    )

__all__ = [
    "Catch",
    "CuratorAudit",
    "Enumeration",
    "Exhibit",
    "NeighbouringTables",
    "Tour",
    "Verdict",
    "catch",
    "curator",
    "enumerate",
    "falsify",
    "museum",
    "neighbours_of",
    "page",
]

_LATER = {
    "CuratorAudit": "curator_findings",
    "NeighbouringTables": "neighbouring_tables",
    "curator": "curator_audits",
    "neighbours_of": "neighbouring_tables",
    "page": "audit_pages",
}
"""What needs an engine is imported when it is first named."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"sfumato.audit.{_LATER[name]}"), name)
    raise AttributeError(f"module 'sfumato.audit' has no attribute {name!r}")
