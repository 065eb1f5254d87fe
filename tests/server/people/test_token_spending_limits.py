"""What a token may ever spend holds across processes, and through a kill between reserving and charging."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.errors import Overspent
from sfumato.ledger import Ledger
from sfumato.server.people.database import people_file_path
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.token_spending_limits import AnswerNotStored, NoSpending, TokenLimit

TESTS = Path(__file__).parent.parent.parent
SPENDING = """
import sys
sys.path.insert(0, sys.argv[1])
from fractions import Fraction
from sfumato.errors import Overspent
from sfumato.ledger import Charged, Entry, Ledger
from sfumato.mechanisms import Laplace
from sfumato.server.people.database import people_file_path
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.token_spending_limits import TokenLimit

ledger, tries, name = Ledger.open(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
account = ledger.account("clinic").limited(TokenLimit(PeopleFile(people_file_path(sys.argv[2])).database, 1))
print("ready", flush=True)
sys.stdin.readline()
for number in range(tries):
    try:
        account.charge(Entry(Charged(Laplace(10), 1), "how many", f"{name} {number}", "data"))
    except Overspent:
        print("refused", flush=True)
    else:
        print("charged", flush=True)
"""
DYING = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from sfumato.ledger import Charged, Entry, Ledger
from sfumato.ledger.guarded import GuardedStore
from sfumato.mechanisms import Laplace
from sfumato.server.people.database import people_file_path
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people import token_spending_limits

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[3] == "before the charge":
    GuardedStore.admit = die
else:
    token_spending_limits._PendingTokenCharge.settle = die
account = Ledger.open(sys.argv[2]).account("clinic")
limited = account.limited(token_spending_limits.TokenLimit(PeopleFile(people_file_path(sys.argv[2])).database, 1))
limited.charge(Entry(Charged(Laplace(10), 1), "how many", "plan", "data"))
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    from sfumato.privacy import Budget, PrivacyUnit

    path = tmp_path / "sfumato.ledger"
    with Ledger.open(path) as opened:
        opened.account("clinic", unit=PrivacyUnit("patient"), budget=Budget(100))
    people = PeopleFile(people_file_path(path))
    people.add_user("ana", "analyst", by="olga")
    people.new_token("ana", most="0.5", by="olga")
    people.close()
    return path


def spent(ledger: Path) -> Fraction:
    with Ledger.open(ledger) as opened:
        found = opened.account("clinic").spent["pure"]
    assert found is not None
    return found


def test_three_processes_together_spend_no_more_than_the_limit(ledger: Path) -> None:
    command = [sys.executable, "-c", SPENDING, str(TESTS), str(ledger), "6"]
    processes = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "abc"
    ]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    said = []
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in processes:
        said += each.communicate(timeout=60)[0].split()
        assert each.returncode == 0
    assert sorted(said) == ["charged"] * 5 + ["refused"] * 13
    assert spent(ledger) == Fraction(1, 2)
    people = PeopleFile(people_file_path(ledger))
    assert people.token(1).spent == Fraction(1, 2)
    people.close()


@pytest.mark.parametrize(("moment", "charged"), [("before the charge", 0), ("after the charge", 1)])
def test_what_a_killed_process_reserved_is_spent(ledger: Path, moment: str, charged: int) -> None:
    done = subprocess.run([sys.executable, "-c", DYING, str(TESTS), str(ledger), moment], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert spent(ledger) == Fraction(charged, 10)
    people = PeopleFile(people_file_path(ledger))
    limit = TokenLimit(people.database, 1)
    limit.reserve(Fraction("0.4")).settle(charged=True)
    assert people.token(1).spent == Fraction(1, 2)
    with pytest.raises(Overspent) as refused:
        limit.reserve(Fraction(1, 10**30))
    assert refused.value.remaining == {"pure": 0}
    people.close()


def test_the_last_unit_fits_and_one_more_does_not(ledger: Path) -> None:
    people = PeopleFile(people_file_path(ledger))
    limit = TokenLimit(people.database, 1)
    unit = Fraction(1, 10**30)
    limit.reserve(Fraction(1, 2) - unit).settle(charged=True)
    with pytest.raises(Overspent):
        limit.reserve(2 * unit)
    with pytest.raises(Overspent):
        limit.reserve(None)
    held = limit.reserve(unit / 3)  # rounded up to what there is
    with pytest.raises(Overspent):
        limit.reserve(unit)
    held.settle(charged=False)
    held.settle(charged=True)  # once is enough
    assert people.token(1).spent == Fraction(1, 2) - unit
    people.close()


def test_what_cannot_be_settled_stays_reserved(ledger: Path) -> None:
    people = PeopleFile(people_file_path(ledger))
    limit = TokenLimit(people.database, 1)
    held = limit.reserve(Fraction("0.3"))
    os.rename(ledger.parent, f"{ledger.parent} moved")
    people.database.close()
    held.settle(charged=False)  # it does not fail
    os.rename(f"{ledger.parent} moved", ledger.parent)
    with pytest.raises(Overspent):
        limit.reserve(Fraction("0.3"))
    people.close()


def test_within_nothing_there_is_only_what_was_bought() -> None:
    with pytest.raises(AnswerNotStored):
        NoSpending().reserve(Fraction(0))


def test_thirds_fill_a_limit(tmp_path: Path) -> None:
    people = PeopleFile(people_file_path(tmp_path / "ledger.db"))
    people.add_user("ana", "analyst", by="olga")
    token, _ = people.new_token("ana", most=1, by="olga")
    limit = TokenLimit(people.database, token.number)
    for charged in (True, False, True, True):
        limit.reserve(Fraction(1, 3)).settle(charged=charged)
    with pytest.raises(Overspent) as refusal:
        limit.reserve(Fraction(1, 10**30))
    assert refusal.value.remaining == {"pure": 0}
