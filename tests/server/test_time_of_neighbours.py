"""How long a release takes, and how long others wait meanwhile, does not tell which of two neighbours was read.

By default time is not real: it goes on by reading alone, as long as a table's rows decide, and by waiting for the
clock. So what is seen over HTTP is exact, on however busy a machine. The long run measures real time, which needs a
machine that is not busy: rows that are not read within ``answer_after`` are seen, as is said of it.

What is measured then is the AUC: how often a time of one table is longer than one of the other, of all pairs; it is ½
where they cannot be told apart. Which table is asked next is drawn by lot, so that if the table decides nothing all
orders of the times are equally likely, whatever else the machine does: then the AUC has mean ½ and variance
(m + n + 1)/(12mn) (Mann & Whitney 1947), and lies more than 5 standard deviations away once in 1.7 million tests. The
same is measured of two tables that differ in nothing but their rows' order, and of a server without the clock, which is
told apart.
"""

from __future__ import annotations

import math
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from server.forked_servers import ForkedServer, forked_server
from server.running_server import BY_ORIGIN, COUNT, RunningServer, running_server
from sfumato.server.releases import flights
from sfumato.server.releases.answer_clock import AnswerClock, DelayedProgress

POLICY = """
[unit]
name = "patient"
budget = {{ epsilon = 1000000 }}
size = 100000

[tables.visits]
source = "{name}.parquet"
id = "patient"
max_rows = 4
[tables.visits.columns]
region = {{ values = ["north", "south"] }}
age = {{ type = "integer", bounds = [0, 110] }}
"""
QUESTION = "SELECT region, COUNT(*) AS n, SUM(age) AS s FROM visits GROUP BY region"
OTHERS, MUCH = 1_000, 60_000
"""Rows of everybody else, and of one unit that is there or is not."""
USERS = ["ana", "ben", "cleo", "dora", "eve", "finn"]
SIGMAS = 5


def write_table(folder: Path, name: str, much: int, seed: int) -> Path:
    """Write a table in which one unit has so many rows, and its policy; a seed decides the order of rows alone."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(OTHERS + much)
    who = np.array([f"p{number // 2}" for number in range(OTHERS)] + ["one"] * much)[order]
    region = np.array(["north", "south"])[order % 2]
    parquet.write_table(
        pyarrow.table({"patient": who, "region": region, "age": order % 110}), folder / f"{name}.parquet"
    )
    shares = "".join(f"[analysts.{each}]\nshare = 1\n" for each in USERS)
    (folder / f"{name}.toml").write_text(POLICY.format(name=name) + shares)
    return folder / f"{name}.toml"


@contextmanager
def three_tables(
    folder: Path, *, much: int = MUCH, clocked: bool = True, holding: bool = False, after: float
) -> Iterator[ForkedServer]:
    """Serve two neighbours, and one more that is equal to the first."""
    policies = [write_table(folder, *each) for each in (("there", much, 1), ("empty", 0, 1), ("again", much, 2))]
    with forked_server(
        policies, USERS, clocked=clocked, holding=holding, answer_after=after, free_per_second=100_000, queue=1000
    ) as served:
        yield served


def auc(first: Sequence[float], second: Sequence[float]) -> float:
    """Tell how often the first is larger; equal ones count half."""
    both = np.concatenate([first, second])
    _, place, many = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(many) - (many - 1) / 2)[place]
    m, n = len(first), len(second)
    return float((ranks[:m].sum() - m * (m + 1) / 2) / (m * n))


def told_apart(first: Sequence[float], second: Sequence[float], tests: int = 1) -> bool:
    """Tell whether two lists of times are not of one law; wrongly once in a million times, in all of so many tests."""
    m, n = len(first), len(second)
    sigmas = SIGMAS + math.log2(tests) / 8
    return abs(auc(first, second) - 0.5) > sigmas * math.sqrt((m + n + 1) / (12 * m * n))


def lots(names: Sequence[str], each: int) -> list[str]:
    """Draw an order in which every name occurs so often."""
    order = [name for name in names for _ in range(each)]
    random.Random(len(order)).shuffle(order)
    return order


def times(served: ForkedServer, names: Sequence[str], each: int) -> dict[str, list[float]]:
    """Measure so many releases of each table, asked by several users at once."""
    found: dict[str, list[float]] = {name: [] for name in names}

    def asked(user: str, order: Sequence[tuple[int, str]]) -> None:
        with closing(served.connect()) as over:
            for number, name in order:
                start = time.perf_counter()
                reply = served.buy(user, name, f"{each}-{number}", QUESTION, over, epsilon="0.001", fresh=True)
                found[name].append(time.perf_counter() - start)
                assert reply.status == 200, reply.body

    order = list(enumerate(lots(names, each)))
    with ThreadPoolExecutor(len(USERS)) as pool:
        parts = [order[place :: len(USERS)] for place in range(len(USERS))]
        list(pool.map(asked, USERS, parts))
    return found


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_answers_time_does_not_tell_neighbours_apart(tmp_path: Path) -> None:
    """5,000 releases of each table, beside as many of two equal ones, of six users at once: an hour."""
    with three_tables(tmp_path, after=1.0) as served:
        neighbours = times(served, ["there", "empty"], 5000)
        equal = times(served, ["there", "again"], 5001)
    found = auc(*neighbours.values()), auc(*equal.values())
    assert all(0.47 <= value <= 0.53 for value in found), found
    assert not told_apart(*neighbours.values())


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_without_the_clock_neighbours_are_told_apart(tmp_path: Path) -> None:
    with three_tables(tmp_path, clocked=False, after=0.25) as served:
        found = times(served, ["there", "empty"], 500)
    assert told_apart(*found.values()), auc(*found.values())


# ── time that is not real ──────────────────────────────────────────────────────────────────────

READING = {"at the limit": 0.01, "beyond it": 0.02, "half of all rows": 0.3, "all that fits": 0.5}
"""How long the rows of some tables take to be read."""
AFTER = 0.5


class Time:
    """Time goes on by reading, and by waiting for the clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reading = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def phases(self, broken: bool) -> Callable[..., DelayedProgress]:
        """Make what is told the phases of a release; a broken one waits for nothing."""
        here = self

        class Phases(DelayedProgress):
            def __init__(self, clock: AnswerClock, doublings: int, told: Callable[[str], None]) -> None:
                mine = AnswerClock(0.0 if broken else clock.answer_after, lambda: here.now, here.sleep)
                super().__init__(mine, doublings, told)

            def __call__(self, phase: str) -> None:
                if phase == "adding noise":
                    here.now += here.reading
                if not broken or phase not in ("writing down", "stopping", "closed"):
                    super().__call__(phase)

        return Phases


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("time"), answer_after=AFTER, free_per_second=1000) as running:
        yield running


def moments(served: RunningServer, broken: bool, sql: str) -> set[float]:
    """Buy an answer of each table, and give how long after the request each was there."""
    found = set()
    for name, seconds in READING.items():
        hours = Time()
        hours.reading = seconds
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(flights, "DelayedProgress", hours.phases(broken))
            reply = served.buy("ana", f"{name}-{broken}-{len(sql)}".replace(" ", "-"), sql, price=PRICE)
        assert reply.status_code == 200, reply.text
        found.add(round(hours.now - 100, 9))
    return found


PRICE = {"epsilon": "0.001", "fresh": True}


@pytest.mark.parametrize("sql", [COUNT, BY_ORIGIN])
def test_an_answer_is_there_at_one_moment_whatever_rows_are_read(served: RunningServer, sql: str) -> None:
    assert moments(served, broken=False, sql=sql) == {AFTER}


def test_without_the_clock_the_moment_tells_of_rows(served: RunningServer) -> None:
    assert len(moments(served, broken=True, sql=COUNT)) == len(READING)


# ── a client who only pings ────────────────────────────────────────────────────────────────────

SEEN: dict[str, Callable[[list[float]], float]] = {
    "how many pings were answered": len,
    "their mean": statistics.fmean,
    "their median": statistics.median,
    "the longest": max,
    "the ninth tenth": lambda pings: float(np.quantile(pings, 0.9)),
}


def pinged(served: ForkedServer, names: Sequence[str], each: int) -> dict[str, list[list[float]]]:
    """Let one user ask, and another ping all the time: give the times of the pings during each release."""
    pings: list[tuple[float, float]] = []
    over = threading.Event()

    def ping() -> None:
        with closing(served.connect()) as mine:
            while not over.is_set():
                start = time.perf_counter()
                mine.request("GET", "/healthz")
                mine.getresponse().read()
                pings.append((start, time.perf_counter() - start))

    found: dict[str, list[list[float]]] = {name: [] for name in names}
    pinging = threading.Thread(target=ping)
    pinging.start()
    try:
        with closing(served.connect()) as asking:
            for number, name in enumerate(lots(names, each)):
                pings.clear()
                start = time.perf_counter()
                reply = served.buy("ana", name, f"{each}-{number}", QUESTION, asking, epsilon="0.001", fresh=True)
                assert reply.status == 200
                found[name].append([took for began, took in list(pings) if began >= start] or [0.0])
    finally:
        over.set()
        pinging.join()
    return found


def pings_told_apart(served: ForkedServer, each: int) -> tuple[list[str], dict[str, float]]:
    """Return the statistics of pings by which neighbours are told apart, and the AUC of every one."""
    found = pinged(served, ["there", "empty"], each)
    seen = {what: [[of(pings) for pings in found[name]] for name in found] for what, of in SEEN.items()}
    told = [what for what, both in seen.items() if told_apart(*both, len(SEEN))]
    return told, {what: round(auc(*both), 4) for what, both in seen.items()}


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_who_only_pings_does_not_tell_neighbours_apart(tmp_path: Path) -> None:
    """One unit has 150,000 rows, or none. 5,000 releases of each table take three quarters of an hour."""
    with three_tables(tmp_path, much=150_000, after=0.25) as served:
        told, figures = pings_told_apart(served, 5000)
    assert not told, figures


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_who_pings_a_server_that_holds_its_threads_tells_neighbours_apart(tmp_path: Path) -> None:
    with three_tables(tmp_path, much=150_000, holding=True, after=0.25) as served:
        told, figures = pings_told_apart(served, 250)
    assert told, figures
