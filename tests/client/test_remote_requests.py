"""Requests for approval and the calls of owners, through the client and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

import sfumato as sf
from client.curators import served_policy, serving
from sfumato.cli import main
from sfumato.client import RemoteCurator
from sfumato.curator.policy_account import read_policy
from sfumato.errors import ApprovalNeeded, InvalidParameter, NotAllowed, NotThere, Paused, RequestDecided, SfumatoError
from sfumato.reports import verify_bundle
from sfumato.reports.account_reports import reviewed_lines
from sfumato.reports.bundles import bundle
from sfumato.reports.signing_keys import SigningKey
from sfumato.server.people.database import people_file_path
from sfumato.server.people.people_file import PeopleFile, open_owner_check

COUNT = "SELECT COUNT(*) AS n FROM visits"
People = Callable[[str], RemoteCurator]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str], Path]]:
    policy = served_policy(tmp_path_factory.mktemp("approving"))
    policy.write_text(f"{policy.read_text()}\n[approval]\nabove = 0.1\n")
    with serving(policy) as (where, token):
        people = PeopleFile(people_file_path(policy.parent / "sfumato.ledger"))
        tokens = {"ana": token}
        for name, role in (("olga", "owner"), ("audrey", "auditor")):
            people.add_user(name, role, by="tests")
            tokens[name] = people.new_token(name, by="tests")[1]
        people.close()
        yield where, tokens, policy


@pytest.fixture
def people(address: tuple[str, dict[str, str], Path]) -> Iterator[People]:
    opened: list[RemoteCurator] = []

    def connect(name: str) -> RemoteCurator:
        opened.append(sf.connect(address[0], token=address[1][name]))
        return opened[-1]

    yield connect
    for curator in opened:
        curator.close()


def test_a_request_through_the_client(people: People) -> None:
    ana, olga = people("ana"), people("olga")
    question = ana.sql(COUNT)
    assert question.release(epsilon="0.1", request_id="cheap").receipt.line
    dear = ana.sql(f"{COUNT} WHERE age > 5")
    with pytest.raises(ApprovalNeeded, match=r"its ε of 0\.5 is above the policy's limit of 0\.1"):
        dear.release(epsilon="0.5")
    filed = ana.requests.file(dear, epsilon="0.5", purpose="the annual report")
    assert filed == ana.requests.file(dear, epsilon="0.5", purpose="the annual report")
    assert ana.requests.list()[0].number == filed.number
    with pytest.raises(NotAllowed):
        ana.requests.approve(filed.number)
    assert olga.requests.approve(filed.number, "as agreed").approvers == ("olga",)
    answer = ana.requests.release(filed.number)
    assert answer.receipt.line in range(filed.number, 1000)
    shown = ana.requests.show(filed.number)
    assert shown.state == "released"
    assert "olga, approved: as agreed" in shown.steps[0]
    with pytest.raises(RequestDecided):
        olga.requests.refuse(filed.number, "too late")


def test_other_kinds_shares_and_ends(people: People) -> None:
    ana, olga = people("ana"), people("olga")
    marginals = ana.marginals("visits", [["region"]])
    filed = ana.requests.file(marginals, "0.4", purpose="a table")
    assert filed.release_kind == "marginals"
    assert ana.requests.withdraw(filed.number, "not needed").state == "withdrawn"
    again = ana.requests.file(marginals, "0.4", purpose="a table", days=2)
    assert olga.requests.refuse(again.number, "too fine").reason == "too fine"
    limits = {"tables": ["visits"], "kinds": ["marginals"], "measures": ["count"]}
    for wrong in ({}, {"days": 7, "until": "2999-01-01"}, {"until": "2020-01-01"}, {"until": "30.6."}, {"until": 7}):
        with pytest.raises(InvalidParameter, match=r"days|until"):
            olga.requests.grant("ana", epsilon="0.5", purpose="drafts", **wrong)
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    for until in (tomorrow, str(tomorrow)):
        dated = olga.requests.grant("audrey", epsilon="0.1", until=until, purpose="drafts")
        assert dated.expires == f"{tomorrow + timedelta(days=1)} 00:00 UTC"
    share = olga.requests.grant("ana", epsilon="0.5", days=7, purpose="drafts", **limits)
    assert share.words.endswith("kinds: marginals; tables: visits; counts only")
    assert marginals.release(epsilon="0.4").receipt.line
    assert ana.requests.show(share.number).used == "0.4"
    with pytest.raises(InvalidParameter):
        ana.requests.file(COUNT, epsilon=1, purpose="text")
    with pytest.raises(NotThere):
        ana.requests.show(10**6)


def test_owners_administer_a_server(people: People) -> None:
    olga, ana = people("olga"), people("ana")
    server = olga.server
    assert {user.name for user in server.users()} >= {"ana", "olga", "audrey"}
    assert server.add_user("ben").role == "analyst"
    assert server.disable_user("ben").disabled
    assert server.login_link("ana").startswith("http://127.0.0.1")
    token, text = server.new_token("ana", days=3, most="1/3", label="one")
    assert (token.most, token.spent, token.revoked) == (Fraction(1, 3), 0, False)
    assert text
    assert server.revoke_token(token.number).revoked
    assert [each.number for each in server.tokens()][-1] == token.number
    assert server.verify().holds
    assert server.anchor().number > 1
    assert [act.by for act in server.acts()].count("olga") >= 4
    olga.pause()
    with pytest.raises(Paused):
        ana.sql(f"{COUNT} WHERE age > 77").release(epsilon="0.01")
    olga.pause(paused=False)
    assert set(olga.shares()) == {"ana"}
    for call in (ana.server.users, ana.pause, ana.shares, ana.server.verify):
        with pytest.raises(NotAllowed):
            call()
    assert people("audrey").server.verify().holds


def test_the_command_line(address: tuple[str, dict[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    where, tokens, _ = address

    def run(who: str, *arguments: str) -> str:
        monkeypatch.setenv("SFUMATO_TOKEN", tokens[who])
        done = CliRunner().invoke(main, ["requests", *arguments, "--server", where], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    filed = run("ana", "file", "clinic", f"{COUNT} WHERE age > 9", "--epsilon", "0.3", "--purpose", "a chart")
    number = filed.split(":")[0].removeprefix("request ")
    assert "a chart" in run("olga", "list", "clinic")
    assert "not covered by the privacy guarantee" in run("olga", "show", "clinic", number)
    assert "approved" in run("olga", "approve", "clinic", number)
    assert "n" in run("ana", "release", "clinic", number)
    spec = '{"table": "visits", "ways": [["region", "day"]]}'
    other = run("ana", "file", "clinic", "--kind", "marginals", "--spec", spec, "--epsilon", "0.3", "--purpose", "x")
    number = other.split(":")[0].removeprefix("request ")
    assert "withdrawn" in run("ana", "withdraw", "clinic", number)
    dated = run("olga", "grant", "clinic", "ana", "--epsilon", "0.01", "--until", "2036-01-31", "--purpose", "y")
    assert "expires 2036-02-01 00:00 UTC" in dated
    for terms in ((), ("--days", "3", "--until", "2036-01-31")):
        command = ["requests", "grant", "clinic", "ana", "--epsilon", "0.1", "--purpose", "y", *terms]
        refused = CliRunner().invoke(main, [*command, "--server", where])
        assert (refused.exit_code, "give --days or --until, and not both" in refused.output) == (2, True)
    terms = ("--epsilon", "0.2", "--days", "3", "--purpose", "y", "--measure", "count")
    granted = run("olga", "grant", "clinic", "ana", *terms)
    assert "up to ε = 0.2" in granted
    assert "counts only" in granted
    assert "ε = 0 of 0.2 used" in run("olga", "list", "clinic")
    monkeypatch.setenv("SFUMATO_TOKEN", tokens["ana"])
    wrong = CliRunner().invoke(main, ["requests", "file", "clinic", "--purpose", "x", "--server", where])
    assert wrong.exit_code == 2


def test_marked_answers_are_approved_and_signed(
    people: People, address: tuple[str, dict[str, str], Path], tmp_path: Path
) -> None:
    ana, olga, policy = people("ana"), people("olga"), read_policy(address[2])
    shown = ana.sql(f"{COUNT} WHERE age > 21").release(epsilon="0.05").receipt.line
    other = ana.sql(f"{COUNT} WHERE age > 22").release(epsilon="0.05").receipt.line
    owned = olga.sql(f"{COUNT} WHERE age > 23").release(epsilon="0.05").receipt.line
    with pytest.raises(SfumatoError, match="no answer is both marked"):
        reviewed_lines(policy)
    marked = ana.requests.publish([shown], purpose="the yearly report")
    assert marked.publishes == (shown,)
    for wrong in ([owned], [1], [10**9], []):
        with pytest.raises(SfumatoError):
            ana.requests.publish(wrong, purpose="not mine")
    with pytest.raises(SfumatoError, match="no answer is both marked"):
        reviewed_lines(policy)
    with pytest.raises(NotAllowed):
        ana.requests.approve(marked.number)
    assert olga.requests.approve(marked.number).state == "approved"
    with open_owner_check(policy) as (is_owner, people_file):
        assert [is_owner(name) for name in ("olga", "ana", "nobody")] == [True, False, False]
        assert reviewed_lines(policy, is_owner=is_owner, people=people_file) == (shown,)
    with pytest.raises(SfumatoError, match="no answer is both marked"):
        reviewed_lines(policy, is_owner=lambda name: name != "olga")  # disabled since
    signer, path = SigningKey.new(), tmp_path / "bundle.zip"
    report = bundle(policy, signer, path, questions=reviewed_lines(policy))
    assert [each.answer_line for each in report.questions if each.answer is not None] == [shown]
    assert other not in [each.answer_line for each in report.questions if each.question is not None]
    verify_bundle(path, signer.public, policy=policy)
