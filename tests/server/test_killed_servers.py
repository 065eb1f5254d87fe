"""A server that is killed gives no answer without a charge, and never forgets a charge without an answer."""

from __future__ import annotations

import http.client
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import sfumato as sf
from server.forked_servers import ForkedServer, Reply, forked_server
from server.test_many_clients import clinic
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.token_spending_limits import TokenLimit

PRICE = Fraction(1, 1000)
USERS = ["ana", "ben", "cleo"]


class Kills:
    """What clients saw of a server that is killed again and again, beside what its ledger says."""

    def __init__(self, served: ForkedServer) -> None:
        self.served = served
        self.answered: dict[str, tuple[int, str]] = {}
        """By key: the line and the numbers that somebody was given."""
        self.sent: list[tuple[str, str, int]] = []
        self.again = 0
        """Requests that were sent once more after the server had come back."""

    def round(self, number: int, seconds: float) -> None:
        """Let everybody ask, kill the server in the middle of it, look at the ledger, and start again."""
        asked = [(user, f"{user}-{number}", number) for user in USERS]
        self.sent += asked
        with ThreadPoolExecutor(len(asked)) as pool:
            waiting = [pool.submit(self.ask, *each) for each in asked]
            time.sleep(seconds)
            self.served.kill()
            self.check()
            self.served.start()  # it answers those, too, whom nobody had listened to
            for each in waiting:
                each.result()

    def ask(self, user: str, key: str, number: int) -> Reply | None:
        """Ask, and remember what came back; None where the server was gone before."""
        sql = f"SELECT COUNT(*) AS n FROM visits WHERE age > {number % 100}"
        with suppress(OSError, http.client.HTTPException):
            reply = self.served.buy(user, "clinic", key, sql, epsilon=str(PRICE), fresh=True)
            if reply.status == 200:
                found = reply.json()
                seen = found["line"], json.dumps(found["result"]["rows"])
                assert self.answered.setdefault(key, seen) == seen  # the same for ever
            return reply
        return None

    def check(self) -> int:
        """Compare with the ledger, which nobody serves now; give how many charges it has."""
        given = dict(self.answered)
        with sf.Ledger.open(self.served.ledger) as ledger:
            assert ledger.verify().holds
            lines = list(ledger)
            charged = [line for line in lines if line.kind == "charge"]
            answers = {line.number for line in lines if line.kind == "answer"}
            assert {line for line, _ in given.values()} <= answers
            assert len(answers) <= len(charged) <= len(self.sent) + self.again
            left = ledger.account("clinic").budget.remaining["pure"]
            assert left == 1000 - len(charged) * PRICE  # every charge counts, answered or not
        return len(charged)


def test_no_answer_without_a_charge_and_no_charge_is_forgotten(tmp_path: Path, long: bool) -> None:
    policy = clinic(tmp_path, "1000", USERS)
    rng = random.Random(20)
    with forked_server([policy], USERS, most="900", answer_after=0.05, free_per_second=1000) as served:
        kills = Kills(served)
        for number in range(1000 if long else 30):
            kills.round(number, rng.uniform(0, 0.25))
        before = dict(kills.answered)
        kills.again = len(kills.sent)
        replies = [kills.ask(*each) for each in kills.sent[-60:]]
        assert {each.status for each in replies if each is not None} <= {200, 503}
        assert before.items() <= kills.answered.items()
        assert served.stop() == [0]
        charged = kills.check()
    assert 0 < len(kills.answered) <= charged
    _tokens_spent_no_less(served, charged)


def _tokens_spent_no_less(served: ForkedServer, charged: int) -> None:
    """What was reserved when a process was killed counts as spent: no token has more left than its charges leave."""
    with closing(PeopleFile(served.given.people)) as people:
        for token in people.tokens():
            TokenLimit(people.database, token.number).reserve(PRICE).settle(charged=False)
        assert sum(token.spent for token in people.tokens()) >= charged * PRICE
