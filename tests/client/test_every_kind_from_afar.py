"""Every kind of release from afar: each free call gives what the curator in the server's process gives, in its type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import sfumato as sf
from server.requests.test_proposals import EDGE_SPECS, LINKED_SPECS, NEED_DELTA, PATIENT_SPECS, SPECS
from server.running_server import RunningServer, running_server
from sfumato.client.remote_proposals import RemoteProposal
from sfumato.errors import Unsupported
from sfumato.server.requests import proposals

OFFERED: dict[str, tuple[str, dict[str, Any]]] = {
    **{kind: ("flights", spec) for kind, spec in SPECS.items()},
    **{kind: ("club", spec) for kind, spec in (EDGE_SPECS | PATIENT_SPECS).items()},
    **{kind: ("clinic", spec) for kind, spec in LINKED_SPECS.items()},
}
"""By kind: a policy and what is proposed of it."""
NO_FORECAST = {"synthesis", "linked"}
"""Their error depends on the data."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("kinds"), club=True, free_per_second=1000) as running:
        yield running


@pytest.mark.parametrize("kind", OFFERED)
def test_free_calls_give_the_same_here_and_from_afar(served: RunningServer, kind: str) -> None:
    policy, spec = OFFERED[kind]
    price: dict[str, Any] = {"epsilon": "0.5", **({"delta": "1e-9"} if kind in NEED_DELTA else {})}
    sent = json.dumps({"act": "explain", "spec": spec, "price": price}).encode()
    here = proposals.propose(
        served.counter.served.curator(policy), kind, proposals.decode_act_spec_and_price(kind, sent)[1]
    )
    with sf.connect(served.url, policy, token=served.tokens["olga"]) as remote:
        there = RemoteProposal.propose(remote.policy_connection, kind, spec)
        assert there.columns == here.columns
        assert there.explain(**price) == here.explain(**price)
        if kind not in NEED_DELTA:  # a search that takes long
            assert repr(there.price(500)) == repr(here.price(500))
        if kind in NO_FORECAST:
            with pytest.raises(Unsupported, match="depends on the data"):
                there.error(**price)
        else:
            ours, theirs = here.error(**price), there.error(**price)
            assert (type(theirs), theirs) == (type(ours), ours)
