"""A small server to test with: one policy or two, one ledger, everybody in every role, and a short clock."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.curator import Curator
from sfumato.ledger import Ledger
from sfumato.policy import Policy
from sfumato.release.running_work import Progress
from sfumato.server.activity_log import ActivityLog
from sfumato.server.gateway import Gateway
from sfumato.server.people.database import people_file_path
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.users import Caller, Credentials, Role
from sfumato.server.releases.answer_clock import AnswerClock
from sfumato.server.served_policies import ServedPolicies
from sfumato.server.settings import ServerSettings

POLICY = """
[unit]
name = "patient"
budget = {{ epsilon = {epsilon} }}
size = 40

[tables.{table}]
source = "{table}.csv"
id = "patient"
max_rows = 2
[tables.{table}.columns]
region = {{ values = ["north", "south"] }}
age = {{ type = "integer", bounds = [0, 110] }}
"""
COUNT = {"sql": "SELECT COUNT(*) AS n FROM visits"}
AFTER = 0.05
BOTH = ("clinic", "school")


def questions(number: int) -> dict[str, str]:
    """Make so many different questions."""
    return {"sql": f"SELECT COUNT(*) AS n FROM visits WHERE age > {number}"}


def propose(curator: Curator, kind: str, spec: Mapping[str, Any]) -> Any:
    """Make the proposals that are tested here."""
    if kind == "marginals":
        return curator.marginals(spec["table"], spec.get("ways", 1))
    if kind == "synthesis":
        return curator.synthesize(spec["table"], "independent", spec["ways"], columns=spec["columns"])
    if kind == "synopses":
        return curator.mwem(spec["table"], spec["columns"], ways=1, rounds=spec["rounds"])
    if kind == "workloads":
        return curator.workload(spec["questions"])
    if kind == "sessions":
        return curator.above(spec["threshold"], questions=spec["questions"], tables=spec["tables"])
    assert kind == "questions"
    return curator.sql(spec["sql"])


def write_policies(folder: Path, epsilon: str = "3") -> list[Path]:
    """Write two policies: one names ana and ben, the other ben alone."""
    found = []
    for name, table, analysts in (("clinic", "visits", {"ana": "0.5", "ben": "1"}), ("school", "pupils", {"ben": "1"})):
        rows = [f"{name}{number // 2},{('north', 'south')[number % 2]},{number}" for number in range(80)]
        (folder / f"{table}.csv").write_text("\n".join(["patient,region,age", *rows]) + "\n")
        shares = "".join(f"[analysts.{each}]\nshare = {share}\n" for each, share in analysts.items())
        path = folder / f"{name}.toml"
        path.write_text(POLICY.format(epsilon=epsilon, table=table) + shares)
        found.append(path)
    return found


@dataclass
class SmallServer:
    """A counter with what it stands on."""

    counter: Gateway
    people: PeopleFile
    served: ServedPolicies
    folder: Path
    ana: Caller
    ben: Caller
    owner: Caller
    auditor: Caller

    @property
    def ledger(self) -> Any:
        return self.served.ledger

    def charges(self) -> int:
        return sum(line.kind == "charge" for line in self.ledger.lines())

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def with_token(self, user: str, **limits: Any) -> Caller:
        _, text = self.people.new_token(user, by="olga", **limits)
        return self.counter.caller(Credentials(token=text))

    def again(self, **settings: Any) -> SmallServer:
        """Open a second counter on the same files, as another process would."""
        return open_server(self.folder, self.served.names, fresh=False, **settings)

    def close(self) -> None:
        self.counter.drain(60)
        self.served.close()
        self.people.close()


def open_server(
    folder: Path,
    names: Sequence[str] = ("clinic",),
    *,
    fresh: bool = True,
    epsilon: str = "3",
    clock: AnswerClock | None = None,
    opening: Callable[[Policy, Ledger, Progress], Curator] | None = None,
    people_file: Path | None = None,
    **settings: Any,
) -> SmallServer:
    """Open the counter of a folder with the policies of these names; a fresh one is written first."""
    if fresh:
        write_policies(folder, epsilon)
    served = ServedPolicies([folder / f"{name}.toml" for name in names], open_curator=opening)
    people = PeopleFile(people_file or people_file_path(served.ledger_path))
    if fresh:
        for name, role in (("ana", "analyst"), ("ben", "analyst"), ("olga", "owner"), ("otto", "auditor")):
            people.add_user(name, role, by="olga")
    chosen = ServerSettings(**{"answer_after": AFTER, "free_per_second": 10_000, **settings})
    log = ActivityLog(str(folder / "log"))
    counter = Gateway(chosen, people, served, propose, log=log, clock=clock)
    who = {role: Caller(name, role) for name, role in (("olga", Role.OWNER), ("otto", Role.AUDITOR))}
    ana, ben = (Caller(name, Role.ANALYST) for name in ("ana", "ben"))
    return SmallServer(counter, people, served, folder, ana, ben, who[Role.OWNER], who[Role.AUDITOR])


def held_server(folder: Path, **settings: Any) -> tuple[SmallServer, threading.Event]:
    """Open a counter whose clock stands still until the event is set: what is charged is answered then, however slow
    the machine is.
    """
    due, moment = threading.Event(), [0.0]

    def sleep(_: float) -> None:
        assert due.wait(120)
        moment[0] += 1e9

    return open_server(folder, clock=AnswerClock(100.0, lambda: moment[0], sleep), **settings), due
