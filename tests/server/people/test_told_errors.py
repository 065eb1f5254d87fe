"""Where the server's files are is told to owners alone, whatever goes wrong, over the interface and on pages."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from server.small_server import COUNT, SmallServer, held_server, open_server, questions
from sfumato.errors import (
    InvalidPolicy,
    LedgerBehind,
    LedgerDamaged,
    LedgerInDoubt,
    LedgerUnavailable,
    NotThere,
    Overspent,
    SfumatoError,
    Unsupported,
    WeakLedger,
    WeakPrivacy,
    outcome,
)
from sfumato.server.activity_log import ActivityLog
from sfumato.server.people.users import Role, redact_error
from sfumato.server.releases.running_releases import Phase
from sfumato.server.serving import build_application, route_ledger_warnings

PATH = "/srv/clinic/sfumato.ledger"
EPSILON = {"epsilon": "0.1"}
OTHERS = (Role.ANALYST, Role.AUDITOR, None)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallServer]:
    found = open_server(tmp_path, answer_after=0.5)
    yield found
    found.close()


@pytest.mark.parametrize(
    "error",
    [
        LedgerUnavailable("the disk is full", place=PATH, fix=f"make room in {PATH}"),
        InvalidPolicy("the policy file cannot be read", place=PATH, fix="check its permissions"),
        SfumatoError("altair is not installed", place="plot", fix=f"run {PATH}/python -m pip install"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_path_is_told_to_owners_alone(error: SfumatoError, capsys: pytest.CaptureFixture[str]) -> None:
    assert redact_error(error, Role.OWNER) is error
    for role in OTHERS:
        said = redact_error(error, role)
        assert isinstance(error, type(said))
        assert PATH not in f"{said} {said.__dict__}"
    assert (PATH in capsys.readouterr().err) is isinstance(error, LedgerUnavailable)  # whoever runs the server is told


def test_what_is_about_the_call_is_told_to_everybody_as_it_is() -> None:
    for error in (
        Unsupported("no-picture", "nothing has either", fix="ask for it to be explained"),
        InvalidPolicy("bounds are declared", place="tables.visits.columns.age", fix="declare them"),
        NotThere("policy clinic"),
        Overspent({"pure": 1}, {"pure": 0}, 0),
        ValueError(PATH),  # a fault has one text already (``responses``)
    ):
        assert all(redact_error(error, role) is error for role in (Role.OWNER, *OTHERS))


def test_an_auditor_is_told_which_line_of_a_ledger_is_damaged() -> None:
    for error in (LedgerDamaged(3, "its hash differs"), LedgerBehind(3)):
        assert redact_error(error, Role.AUDITOR) is error
        assert redact_error(error, Role.ANALYST) is not error


@pytest.mark.parametrize("role", OTHERS)
def test_whoever_asked_is_told_that_it_is_not_known_whether_it_was_charged(role: Role | None) -> None:
    said = redact_error(LedgerInDoubt(7, 8, "mine"), role)
    assert isinstance(said, LedgerInDoubt)
    assert (said.code, outcome(said).http_status, said.place) == ("ledger-in-doubt", 503, "the server")
    assert "it is unknown whether this was charged (request id 'mine')" in said.rule
    assert "same request id" in said.fix


def test_what_is_weak_about_the_ledger_is_printed_where_the_server_runs_and_in_its_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings(), closing(ActivityLog(str(tmp_path / "log"))) as log:
        route_ledger_warnings(log)
        warnings.warn("a failover can forget", WeakLedger, stacklevel=1)
        warnings.warn("a large delta", WeakPrivacy, stacklevel=1)
    said = capsys.readouterr().err
    assert "WeakLedger: a failover can forget" in said
    assert "delta" not in said
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert json.loads(line)["warning"] == "WeakLedger: a failover can forget"


def _answers(small: SmallServer, token: str, *paths: str) -> list[httpx.Response]:
    async def called() -> list[httpx.Response]:
        transport = httpx.ASGITransport(build_application(small.counter))
        shown = {"Authorization": f"Bearer {token}", "Cookie": "sfumato=nobody"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=shown) as client:
            return [await client.get(path) for path in paths]

    return asyncio.run(called())


def test_no_path_is_told_where_the_file_of_users_is_destroyed(small: SmallServer) -> None:
    _, text = small.people.new_token("ana", by="olga")
    small.people.database.close()
    for each in small.folder.glob("*.people*"):
        each.write_bytes(b"something else" * 1000)
    answers = _answers(small, text, "/v1/policies", "/v1/policies/clinic/budget", "/", "/p/clinic/ask", "/login/x")
    for answer in answers[:-1]:
        assert answer.status_code == 503
    for answer in answers:
        assert str(small.folder) not in f"{answer.text} {answer.headers}"


def test_no_path_is_told_where_an_answer_cannot_be_written_down(tmp_path: Path) -> None:
    """The people file is destroyed while a release is read, so its flight ends with that refusal."""
    small, due = held_server(tmp_path)
    flight = small.counter.start(small.ana, "clinic", "questions", COUNT, EPSILON, "r1")
    mine = small.counter.start(small.owner, "clinic", "questions", questions(1), EPSILON, "r2")
    while not flight.phase is mine.phase is Phase.CHARGED:
        time.sleep(0.005)
    small.people.database.close()
    for each in small.folder.glob("*.people*"):
        each.write_bytes(b"something else" * 1000)
    due.set()
    with pytest.raises(LedgerUnavailable) as refused:
        flight.wait_for_result()
    assert str(small.folder) not in f"{refused.value} {refused.value.__dict__}"
    with pytest.raises(LedgerUnavailable, match="the file of users and tokens cannot be read or written") as refused:
        mine.wait_for_result()
    assert str(small.folder) in str(refused.value)
