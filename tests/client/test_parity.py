"""The client has what a curator in one's own process has, under the same names and with the same arguments."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import sfumato as sf
from client.curators import served_policy, serving
from sfumato.client import RemoteCurator, remote_curators, remote_proposals, wire
from sfumato.curator import Curator, Standing
from sfumato.errors import InvalidParameter, LedgerUnavailable, NotAllowed, NotThere, WeakPrivacy
from sfumato.ledger import Line
from sfumato.server.people.database import people_file_path
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.releases.running_releases import RunningReleases
from sfumato.server.rest.interface import OPERATIONS

LOCAL_ALONE = {
    "as_analyst": "the token decides who asks; an owner has standing(analyst) and history(analyst)",
    "check": "it reads rows and shows exact figures: sfumato check, on the machine with the sources",
    "check_files": "the server checks the files itself before each release",
    "close_when_unused": "of the sources, which the server has open",
    "conditioned": "a condition on charges is the server's",
    "drain": "a server drains when it is stopped",
    "dry_charge": "it shows a charge before it is made; from afar: requests.file(…), or .price()",
    "ledger": "the file; from afar: history() and server.verify(), .anchor() and .export()",
    "limited": "a limit on spending is the token's",
    "policy_hash": "what approvals are bound to at the server",
    "rebind": "it takes a proposal of another curator in this process; from afar: propose it again",
    "reopen": "the server opens changed data by itself",
}
"""What only a curator in one's own process has, and why."""
REMOTE_ALONE = {
    "overruns": "answers are late at a server alone",
    "pause": "only a server goes on answering others",
    "policy_connection": "where the server is",
    "requests": "only a server has people who decide",
    "server": "users, tokens and acts are a server's",
    "shares": "sf.Curator.standing(analyst) of each analyst, in one call",
}
OTHER_PARAMETERS = {"amend": "the server's own policy file is read: a client has no other to give"}
REST_ALONE = {
    "alive": "for a load balancer",
    "ready": "for a load balancer",
    "metrics": "for a monitoring system",
    "describe": "for those who generate a client: /v1/openapi.json",
}


def public_names(class_: type) -> set[str]:
    return {name for name in dir(class_) if not name.startswith("_")}


def test_every_public_name_of_a_curator_is_in_the_client_or_excepted_with_a_reason(tmp_path: Path) -> None:
    with sf.Curator(served_policy(tmp_path)) as curator:
        local = public_names(Curator) | {name for name in vars(curator) if not name.startswith("_")}
    remote = public_names(RemoteCurator)
    assert local - remote == set(LOCAL_ALONE)
    assert remote - local == set(REMOTE_ALONE)
    assert all(len(reason) > 10 for reason in (LOCAL_ALONE | REMOTE_ALONE | OTHER_PARAMETERS | REST_ALONE).values())


def test_what_both_have_takes_the_same_arguments_and_returns_the_same_type() -> None:
    callables = [
        name for name in public_names(Curator) & public_names(RemoteCurator) if callable(getattr(Curator, name))
    ]
    assert {"standing", "history", "amend", "sql", "table", "workload"} <= set(callables)
    other = set()
    for name in callables:
        here, afar = (inspect.signature(getattr(class_, name)) for class_ in (Curator, RemoteCurator))
        if [(each.name, each.kind, each.default) for each in here.parameters.values()] != [
            (each.name, each.kind, each.default) for each in afar.parameters.values()
        ]:
            other.add(name)
        same_type = afar.return_annotation == here.return_annotation
        assert same_type or name in ("sql", "table"), name  # a question and a table of the server's
    assert other == set(OTHER_PARAMETERS)


def test_the_client_names_every_address_of_the_rest_interface_or_has_a_reason_not_to() -> None:
    modules = (remote_curators, remote_proposals, remote_proposals, remote_curators, wire)
    source = "".join(inspect.getsource(module) for module in modules).replace("'", '"')
    missing = set()
    for operation in OPERATIONS:
        parts = [part for part in operation.path.removeprefix("/v1").split("/") if part and "{" not in part]
        if any(f'"{part}"' not in source for part in parts):
            missing.add(operation.name)
    assert missing == set(REST_ALONE)


@pytest.fixture(scope="module")
def curators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RemoteCurator]]:
    policy = served_policy(tmp_path_factory.mktemp("parity"))
    with serving(policy) as (where, token):
        people = PeopleFile(people_file_path(policy.parent / "sfumato.ledger"))
        tokens = {"ana": token}
        for name, role in (("olga", "owner"), ("audrey", "auditor")):
            people.add_user(name, role, by="tests")
            tokens[name] = people.new_token(name, by="tests")[1]
        people.close()
        opened = {name: sf.connect(where, token=token) for name, token in tokens.items()}
        opened["ana"].sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=1)
        opened["olga"].sql("SELECT COUNT(*) AS n FROM visits WHERE age > 5").release(epsilon=2)
        yield opened
        for curator in opened.values():
            curator.close()


@pytest.mark.parametrize("name", ["olga", "audrey"])
def test_owners_and_auditors_name_an_analyst_as_at_home(curators: dict[str, RemoteCurator], name: str) -> None:
    curator, own = curators[name], curators["ana"].standing()
    assert curator.standing("ana") == own != curator.standing()
    assert [line.kind for line in curator.history("ana")] == ["share", "charge", "answer"]
    assert len(tuple(curator.history())) > 4
    assert len(tuple(curator.history("ana", limit=1))) == 1
    assert tuple(curator.history("nobody")) == ()
    with pytest.raises(InvalidParameter, match="one of the analysts in the policy"):
        curator.standing("nobody")


def test_an_analyst_can_name_themselves_alone(curators: dict[str, RemoteCurator]) -> None:
    ana = curators["ana"]
    assert isinstance(ana.standing("ana"), Standing)
    assert [line.number for line in ana.history("ana")] == [line.number for line in ana.history()]
    for call in (ana.standing, lambda other: tuple(ana.history(other))):
        with pytest.raises(InvalidParameter, match="left out or 'ana', your own name"):
            call("olga")


def test_an_amendment_returns_its_line_and_warns_as_at_home(tmp_path: Path) -> None:
    policy = served_policy(tmp_path)
    with serving(policy) as (where, token):
        people = PeopleFile(people_file_path(policy.parent / "sfumato.ledger"))
        people.add_user("olga", "owner", by="tests")
        _, owner_token = people.new_token("olga", by="tests")
        people.close()
        policy.write_text(policy.read_text().replace("epsilon = 300", "epsilon = 400"))
        with sf.connect(where, token=owner_token) as olga:
            with pytest.warns(WeakPrivacy) as warned:
                line = olga.amend(reason="another year")
            assert isinstance(line, Line)
            assert (line.kind, line.question) == ("amend", "another year")
            assert line in tuple(olga.history())  # a source may be recorded meanwhile
        with pytest.warns(WeakPrivacy) as at_home:
            sf.Curator(policy, tmp_path / "other.ledger").close()
        assert {str(each.message) for each in warned} == {str(each.message) for each in at_home}
        with sf.connect(where, token=token) as ana, pytest.raises(NotAllowed):
            ana.amend(reason="mine")


@pytest.mark.parametrize("form", ["json", "csv", "arrow"])
def test_the_ledger_is_exported_to_a_new_private_file(
    curators: dict[str, RemoteCurator], tmp_path: Path, form: str
) -> None:
    target = tmp_path / "lines"
    curators["audrey"].server.export(form, target)
    assert target.stat().st_mode & 0o777 == 0o600
    content = target.read_bytes()
    if form == "json":
        assert len(json.loads(content)) == len(tuple(curators["olga"].history()))
    else:
        assert b"number" in content
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        curators["olga"].server.export(form, target)
    assert target.read_bytes() == content


def test_what_is_refused_leaves_no_file(curators: dict[str, RemoteCurator], tmp_path: Path) -> None:
    target = tmp_path / "lines"
    with pytest.raises(NotAllowed):
        curators["ana"].server.export("json", target)
    with pytest.raises(InvalidParameter, match="one of arrow, csv, json"):
        curators["olga"].server.export("xml", target)
    assert not target.exists()


def test_overruns_are_for_owners(curators: dict[str, RemoteCurator], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningReleases, "overrun_count", lambda _, account: 7 if account == "clinic" else 0)
    assert curators["olga"].overruns() == 7
    for name in ("ana", "audrey"):
        with pytest.raises((NotAllowed, NotThere)):
            curators[name].overruns()
