"""An audit finds what a mechanism, a question or a whole curator really does: exactly where it can, by samples
otherwise.

worlds               exact laws of small outputs, and their divergences beside the claim
score_laws, stream_laws, rank_laws, report_laws   the laws of choices, sparse vectors, quantiles, reports and keys
falsifying           a lower bound on ε from samples, true with a stated confidence
verdicts             what samples prove, and what they could have proven
telling_events       events that tell two worlds apart, picked on samples of their own
trained_events       the same for outputs of many columns, by classifiers
mechanism_runs       every mechanism of ours, run very often on one input
canary_guesses       canaries in one run, and what right guesses about them prove
canary_tables        canaries among invented rows of a policy's table
museum               broken mechanisms from papers and bug reports, each caught, beside correct twins that pass
neighbouring_tables  tables invented from a policy, with one unit that tries its limits
asked_worlds         a question, over the whole path of a policy, on two of them
curator_audits       a whole policy: what is seen, exact changes, noise, releases, and planted faults
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.audit import museum
from sfumato.audit.canary_guesses import OneRun, one_run
from sfumato.audit.canary_tables import Planted, plant
from sfumato.audit.falsifying import falsify
from sfumato.audit.museum import Catch, Exhibit, Tour, catch
from sfumato.audit.verdicts import Verdict
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
