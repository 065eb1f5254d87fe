"""A dry charge is what the release charges, for every kind of release; it reads no row and writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

import sfumato as sf
from compatibility import workspace
from sfumato.curator.dry_charges import DryCharge
from sfumato.ledger.accounts.approvals import RequestUse
from sfumato.ledger.approval_requests import ProposedCharge
from sfumato.ledger.transaction import Transaction

TEXT = workspace.QUESTIONS[1]
Release = Callable[[sf.Curator, str], Any]
RELEASES: dict[str, Release] = {
    "questions": lambda to, key: to.sql(TEXT).release(epsilon="0.125", request_id=key, fresh=True),
    "gaussian": lambda to, key: to.sql(TEXT).release(rho="0.011", request_id=key, fresh=True),
    "within": lambda to, key: to.sql(TEXT).release(within=40, request_id=key, fresh=True),
    "workloads": lambda to, key: to.workload(list(workspace.QUESTIONS[:2])).release(
        epsilon="0.125", request_id=key, fresh=True
    ),
    "marginals": lambda to, key: to.marginals("visits", [["region", "day"]]).release(epsilon="0.125", request_id=key),
    "synopses": lambda to, key: to.mwem("visits", ["region", "day"], 1, rounds=1).release(
        epsilon="0.125", request_id=key
    ),
    "synthesis": lambda to, key: to.synthesize("visits", columns=["region", "urgent"]).release(
        rho="0.02", request_id=key
    ),
    "running": lambda to, key: to.running("SELECT day, COUNT(*) AS n FROM visits GROUP BY day").release(
        epsilon="0.125", request_id=key, fresh=True
    ),
    "bounds": lambda to, key: to.bounds("visits", "age").release(epsilon="0.125", request_id=key),
    "limits": lambda to, key: to.limits("visits", by=["urgent"]).release(epsilon="0.125", request_id=key),
    "auctions": lambda to, key: to.auction("visits", "cost", prices=[1, 2]).release(epsilon="0.125", request_id=key),
    "sessions": lambda to, key: to.above(100, questions=workspace.QUESTIONS[:1]).release(
        epsilon="0.125", request_id=key
    ),
}


@dataclass
class Watching:
    """A condition that admits every charge, and keeps it."""

    charges: list[tuple[ProposedCharge, Fraction | None]] = field(default_factory=list)

    def require(self, transaction: Transaction, charge: ProposedCharge, epsilon: Fraction | None) -> RequestUse | None:  # noqa: ARG002
        self.charges.append((charge, epsilon))
        return None


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    with workspace.curators(workspace.copied_workspace(tmp_path_factory.mktemp("dry"))) as opened:
        yield opened[0]


def _dry(curator: sf.Curator, release: Release) -> DryCharge:
    charge = curator.dry_charge(release)
    assert charge is not None
    return charge


@pytest.mark.parametrize("kind", RELEASES)
def test_a_dry_charge_is_what_is_charged(clinic: sf.Curator, kind: str) -> None:
    head, release = clinic.ledger.head, RELEASES[kind]
    dry = _dry(clinic, release)
    assert dry == _dry(clinic, release)
    assert clinic.ledger.head == head
    assert dry.tables == (None if kind == "sessions" else {"visits"})
    watching = Watching()
    release(clinic.conditioned(watching), f"paid-{kind}")
    assert watching.charges == [(dry.charge, dry.epsilon)]


def test_what_is_stored_charges_nothing(clinic: sf.Curator) -> None:
    clinic.sql(TEXT).release(epsilon="0.125")
    assert clinic.dry_charge(lambda to, key: to.sql(TEXT).release(epsilon="0.125", request_id=key)) is None


def test_discovered_groups_are_noticed(clinic: sf.Curator) -> None:
    text = next(each for each in workspace.QUESTIONS if "town" in each)

    def release(to: sf.Curator, key: str) -> object:
        return to.sql(text).release(epsilon="0.5", delta="1e-9", request_id=key, fresh=True)

    assert _dry(clinic, release).discovers_groups
    assert not _dry(clinic, RELEASES["questions"]).discovers_groups


def test_another_list_of_questions_is_another_charge(clinic: sf.Curator) -> None:
    def release(to: sf.Curator, key: str) -> object:
        return to.above(100, questions=["SELECT COUNT(*) AS n FROM visits WHERE urgent"]).release(
            epsilon="0.125", request_id=key
        )

    assert _dry(clinic, release).charge.plan != _dry(clinic, RELEASES["sessions"]).charge.plan
