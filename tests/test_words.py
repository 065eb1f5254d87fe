"""Nothing that is shown to people is the repr of an internal value, in whatever way it is shown."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from enum import Enum
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from cli.running import COUNTS, run
from sfumato.privacy import Curve
from sfumato.privacy.amounts import gaussian_warning

INTERNAL = re.compile(r"Domain\(|<Budget|Fraction\(|object at 0x|mappingproxy|<sfumato\.|PosixPath\(|datetime\.d")
LISTED = ["origin", "carrier"]


def shown(value: Any) -> list[str]:
    """Everything that a terminal or a notebook would show of a value."""
    pages = [value._repr_html_()] if hasattr(value, "_repr_html_") else []
    return [repr(value), str(value), *pages]


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> sf.Curator:
    return sf.open(sf.example(tmp_path_factory.mktemp("words") / "flights"))


def proposals(curator: sf.Curator) -> list[Any]:
    running = curator.running("SELECT day, COUNT(*) AS n FROM flights GROUP BY day")
    marginals = curator.marginals("flights", [["origin"], ["carrier"]])
    workload = curator.workload([COUNTS])
    return [
        *(curator.table("flights"), curator.table("flights").group_by("origin")),
        *(curator.sql(COUNTS), curator.sql("SHOW TABLES"), curator.sql("DESCRIBE flights")),
        *(running, running.error(epsilon=1), marginals, marginals.error(epsilon=1), marginals.explain(epsilon=1)),
        *(workload, workload.error(epsilon=1), curator.above(100), curator.histogram("flights", LISTED)),
        *(curator.synthesize("flights", columns=LISTED), curator.mwem("flights", LISTED, 1)),
        *(curator.online("flights", LISTED, 1), curator.bounds("flights", "delay"), curator.limits("flights")),
    ]


def values(curator: sf.Curator) -> list[Any]:
    question = curator.sql(COUNTS)
    answer = question.release(epsilon="0.1")
    table = curator.policy.tables["flights"]
    return [
        *(
            curator,
            curator.policy,
            table,
            table.columns,
            curator.policy.unit,
            curator.tables,
            curator.tables["flights"],
        ),
        *(curator.ledger, *curator.history()),
        *(curator.budget, curator.standing(), curator.check(private=False), *curator.check(private=False).tables),
        *(question.explain(), question.error(epsilon=1), question.advise(), answer, answer.receipt, answer.plot()),
        *(curator.bounds("flights", "delay").release(epsilon="0.1"), curator.limits("flights").release(epsilon="0.1")),
        *(curator.workload([COUNTS]).release(epsilon="0.1"), sf.precedents(sf.Guarantee(1))),
    ]


def plain_values() -> list[Any]:
    return [
        *(sf.Guarantee(1), sf.Curve.laplace(2), sf.Budget(1), sf.Budget(1, "1e-6").cost(Curve.pure(1))),
        *(sf.Laplace(2), sf.Gaussian(3), sf.RandomizedResponse(1, 3), sf.PermuteAndFlip(1), sf.Exponential("0.1")),
        *(sf.NoisyMax("1/3"), sf.AboveThreshold("0.1", 10), sf.Sensitivity(1, "0.1"), sf.reading(sf.Guarantee(1))),
        *(sf.Domain("real", bounds=(0, "0.1"), grid="0.01"), sf.count(), sf.mean("delay"), sf.quantile("delay", 0.1)),
        *(sf.top_k("ward", 3), sf.odometer([Curve.pure(1)], delta="1e-6"), sf.Strategy.SAMPLE, sf.Neighbours.REPLACE),
    ]


def test_no_value_shows_the_repr_of_an_internal_one(curator: sf.Curator) -> None:
    for value in (*values(curator), *proposals(curator), *plain_values()):
        for text in shown(value):
            assert not INTERNAL.search(text), f"{type(value).__name__}: {text[:300]}"


COMMANDS = (
    ("budget", "{policy}"),
    ("budget", "{policy}", "--details"),
    ("budget", "{policy}", "--json"),
    ("history", "{policy}"),
    ("history", "{policy}", "--details"),
    ("describe", "{policy}"),
    ("describe", "{policy}", "flights"),
    ("check", "{policy}", "--public"),
    ("read", "{policy}"),
    ("read", "--epsilon", "1", "--delta", "1e-6", "--json"),
    ("query", "{policy}", COUNTS, "--epsilon", "0.1"),
    ("query", "{policy}", COUNTS, "--epsilon", "0.1", "--receipt"),
    ("query", "{policy}", COUNTS, "--epsilon", "0.1", "--explain"),
    ("query", "{policy}", COUNTS, "--epsilon", "0.1", "--dry-run"),
    ("query", "{policy}", COUNTS, "--epsilon", "7"),
    ("query", "{policy}", "SELECT nothing FROM flights", "--epsilon", "1"),
    ("query", "{policy}", "DESCRIBE flights"),
    ("bounds", "{policy}", "flights", "delay", "--epsilon", "0.1"),
    ("limits", "{policy}", "flights", "--epsilon", "0.1"),
    ("publish", "{policy}", "flights", "--of", "origin", "--epsilon", "0.1", "-o", "{folder}/o.sfu"),
    ("synopsis", "show", "{folder}/o.sfu"),
    ("ask", "{folder}/o.sfu", COUNTS),
    ("ledger", "verify", "{folder}/sfumato.ledger"),
)


def test_no_command_prints_the_repr_of_an_internal_value(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    for command in COMMANDS:
        done = run(*(each.format(policy=policy, folder=policy.parent) for each in command))
        assert done.output, command
        assert done.exit_code in (0, 1, 3), (command, done.output)
        assert not INTERNAL.search(done.output), (command, done.output)


class Tags(HTMLParser):
    """Collects the tags and attributes of a page: a text that was not escaped would add its own."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(f"@{name}" for name, _ in attrs)}


NAME = '<img src=x onerror="alert(1)">&amp;'
HOSTILE = f"{NAME}\x1b[31m"
OURS = {"table", "thead", "tbody", "tr", "th", "td", "caption", "p", "br", "strong", "pre", "details", "summary", "div"}
OURS |= {"@style", "@role", "@aria-label"}


@pytest.fixture
def hostile(tmp_path: Path) -> sf.Curator:
    """A table whose column, values and name are written by somebody who wants to be run."""
    import pyarrow

    rows = pyarrow.table({"pid": [1, 2, 3], NAME: [HOSTILE, "b", "b"], "age": [1, 2, 3]})
    columns = {NAME: {"values": [HOSTILE, "b"]}, "age": {"type": "integer", "bounds": (0, 9)}}
    table = sf.Table("people", rows, columns, id="pid", max_rows=1)
    policy = sf.Policy(sf.PrivacyUnit("<b>person</b>"), sf.Budget(9, "1e-6"), {"people": table}, account="people")
    return sf.Curator(policy, tmp_path / "ledger")


def test_html_escapes_hostile_names_and_texts(hostile: sf.Curator) -> None:
    key = '"' + NAME.replace('"', '""') + '"'
    question = hostile.sql(f'SELECT {key}, COUNT(*) AS "<script>n</script>", AVG(age) AS a FROM people GROUP BY {key}')
    answer = question.release(epsilon=1)
    told = (
        *(hostile, hostile.tables, hostile.tables["people"], hostile.budget, hostile.standing(), question, answer),
        *(question.explain(), question.error(epsilon=1), question.advise(), answer.receipt, hostile.sql("SHOW TABLES")),
        *(hostile.sql("DESCRIBE people"), hostile.workload([question]).release(epsilon="0.5")),
    )
    for value in told:
        page = value._repr_html_()
        tags = Tags()
        tags.feed(page)
        assert tags.found <= OURS, (type(value).__name__, tags.found - OURS)
        assert "\x1b" not in page
    assert "&lt;img src=x" in answer._repr_html_()
    assert "&lt;script&gt;n" in answer._repr_html_()


def test_what_is_listed_to_have_html_has_it(curator: sf.Curator) -> None:
    question = curator.sql(COUNTS)
    answer = question.release(epsilon="0.1")
    pages = [each._repr_html_() for each in (answer, question, curator, curator.budget)]
    pages += [each._repr_html_() for each in (question.explain(), question.error(epsilon=1))]
    assert "EWR" in pages[0]
    assert "GROUP BY origin" in pages[1]
    assert "±" in pages[1]
    assert "tailnum" in pages[2]
    assert "budget left for ordinary answers: ε = " in pages[3]
    assert "<details><summary>details" in pages[3]
    assert "Laplace" in pages[4]
    assert "the account would accept it now" in pages[5]


def test_a_long_answer_says_in_html_how_many_rows_are_not_shown(curator: sf.Curator) -> None:
    answer = curator.sql("SELECT day, COUNT(*) AS n FROM flights GROUP BY day").release(epsilon="0.1")
    assert "… 52 more rows" in answer._repr_html_()


# ── what is left, in words ─────────────────────────────────────────────────────────────────────


def test_a_budget_says_first_what_is_left_for_ordinary_answers() -> None:
    budget = sf.Budget(3, "1e-6").charge(Curve.pure("1.8"))
    assert repr(budget).splitlines()[0] == "budget left for ordinary answers: ε = 1.2 of 3"
    after = sf.Budget(3, "1e-6").charge(Curve.gaussian(10))
    assert re.match(r"up to ε = [0-9.]+ in one answer, since Gaussian noise was used", after.remaining_words)
    assert repr(sf.Budget(1).charge(Curve.pure(1))).startswith("budget left for ordinary answers: ε = 0 of 1\n")


def test_what_is_said_to_be_left_is_accepted_and_a_little_more_is_not() -> None:
    open_, ended = sf.Budget(3, "1e-6").charge(Curve.pure("1.8")), sf.Budget(3, "1e-6").charge(Curve.gaussian(10))
    many = sf.Budget(3, "1e-6")
    for _ in range(60):
        many = many.charge(Curve.pure("0.05"))
    for budget in (open_, ended, many):
        said = re.search(r"ε = ([0-9.]+)", budget.remaining_words)
        assert said is not None
        assert budget.affords(Curve.pure(said[1]))
        assert not budget.affords(Curve.pure(str(float(said[1]) * 1.001)))
    assert "since the answers so far add up to ε = 3 or more" in many.remaining_words


def test_a_share_says_no_more_is_left_than_the_account_has() -> None:
    account = sf.Budget(3).charge(Curve.pure("2.5"))
    share = sf.Budget(3).share("0.5")
    assert share.remaining_words_with(account) == "ε = 0.5 of 1.5"
    assert sf.Standing.of(account, share).ordinary == "ε = 0.5 of 1.5"


def refused(budget: sf.Budget, curve: Curve) -> sf.Overspent:
    with pytest.raises(sf.Overspent) as refusal:
        budget.charge(curve)
    return refusal.value


def test_a_refusal_speaks_of_epsilon_and_keeps_the_currencies_for_details() -> None:
    budget = sf.Budget(3, "1e-6").charge(Curve.pure(1))
    ordinary, gaussian = refused(budget, Curve.pure(3)), refused(budget, Curve.gaussian("0.5"))
    assert ordinary.rule.endswith("it needs ε = 3, and ε = 2 of 3 is left for ordinary answers, which is 1 too little")
    assert re.search("its Gaussian noise needs [0-9.]+ times what is left for Gaussian noise", gaussian.rule)
    assert (
        "needs a budget for Gaussian noise, and none is left"
        in refused(budget.charge(Curve.pure(1)), Curve.gaussian(1)).rule
    )
    assert "it needs δ = 0.5, and δ = 1e-07 is left" in refused(budget, Curve.approximate("0.1", "0.5")).rule
    assert "its Gaussian noise cannot be paid from this budget" in refused(sf.Budget(1), Curve.gaussian(1)).rule
    for each in (ordinary, gaussian):
        assert not re.search("pure|renyi|currency", str(each))
        assert "pure: requested" in each.details
    assert "fix:   for an ordinary answer, choose at most ε = 2" in str(ordinary)


def test_what_gaussian_noise_ends_is_said_before_and_after(tmp_path: Path) -> None:
    curator = sf.open(sf.example(tmp_path / "flights"))
    question = curator.sql(COUNTS)
    price = {"epsilon": 1, "delta": "1e-7", "mechanism": "gaussian"}
    ends = "and the ε = 3 left in the plain ε total, where the ε of each answer is added, can no longer be spent"
    assert ends in str(question.explain(**price))
    assert ends in str(question.error(**price))
    assert ends in str(curator.standing())
    assert ends not in str(question.explain(epsilon=1))
    answer = question.release(**price)
    assert "in one answer, since Gaussian noise was used;" in answer.receipt.short()
    for said in (question.explain(**price), question.error(**price), curator.standing()):
        assert "After a Gaussian answer" not in str(said)
    assert "All answers are now charged to the budget for Gaussian noise." in str(curator.standing())
    assert gaussian_warning(curator.budget.remaining) == ""


def test_the_currencies_are_shown_under_details_alone(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    assert run("query", policy, COUNTS, "--epsilon", "1").exit_code == 0
    for command in ("budget", "history"):
        assert not re.search("pure|renyi|failure|currency", run(command, policy).output)
        assert "pure" in run(command, policy, "--details").output
    assert run("budget", policy).output.startswith("budget left for ordinary answers: ε = 2 of 3\n")
    assert "ε = 1" in run("history", policy).output


# ── ε in context ───────────────────────────────────────────────────────────────────────────────


def test_read_prints_the_reading_beside_all_deployments(tmp_path: Path) -> None:
    done = run("read", "--epsilon", "1", "--delta", "1e-6", "--plot", tmp_path / "context.svg")
    assert done.exit_code == 0
    assert "a belief of 1 % becomes at most 2.8 %" in done.output
    said = "Of 41 real deployments, 35 state their promise: 5 with an ε below 1, 28 with an ε above it."
    assert said in done.output
    assert "FLEX (Uber, 2018)" in done.output
    assert "this promise: ε = 1" in (tmp_path / "context.svg").read_text()
    told = json.loads(run("read", "--epsilon", "1", "--delta", "1e-6", "--json").output)
    assert len(told["deployments"]) == 41
    assert (told["smaller"], told["larger"]) == (5, 28)


def test_read_of_a_policy_marks_what_is_spent(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    assert run("query", policy, COUNTS, "--epsilon", "0.5").exit_code == 0
    assert "protects all rows of one plane." in run("read", policy, "--plot", tmp_path / "context.svg").output
    picture = (tmp_path / "context.svg").read_text()
    assert "this promise: ε = 3" in picture
    assert "spent so far: ε = 0.5" in picture


@pytest.mark.parametrize(
    "arguments", [(), ("nowhere.toml", "--epsilon", "1"), ("nowhere.toml", "--delta", "1e-6"), ("--epsilon", "x")]
)
def test_read_refuses_what_it_cannot_read(arguments: tuple[str, ...]) -> None:
    assert run("read", *arguments).exit_code == 2


PACKAGES = ("", ".curator", ".games", ".audit", ".surveys", ".publish", ".quality", ".ledger", ".mechanisms", ".policy")
INNER = re.compile("Fraction|Domain|Budget|Mapping|date|Any|Path|NDArray")


def exported() -> set[type]:
    """Every class of ours that a package hands out."""
    modules = [import_module(f"sfumato{each}") for each in (*PACKAGES, ".privacy", ".plots")]
    found = {getattr(module, name) for module in modules for name in getattr(module, "__all__", ())}
    return {each for each in found if inspect.isclass(each) and each.__module__.startswith("sfumato")}


def test_no_exported_class_shows_what_python_makes_of_its_fields() -> None:
    """A class with exact numbers, domains or paths inside says itself how it is shown; none is shown by its address."""
    for kind in exported():
        if getattr(kind, "_is_protocol", False) or issubclass(kind, (Enum, BaseException)):
            continue
        assert kind.__repr__ is not object.__repr__, kind
        if dataclasses.is_dataclass(kind) and inspect.unwrap(kind.__repr__).__code__.co_filename == "<string>":
            inner = [each.name for each in dataclasses.fields(kind) if each.repr and INNER.search(str(each.type))]
            assert not inner, (kind, inner)


def test_the_rows_of_a_table_in_memory_are_never_shown() -> None:
    import pyarrow

    table = sf.Table("people", pyarrow.table({"pid": [7_654_321]}), {"pid": {"type": "integer"}}, id="row")
    assert "7654321" not in f"{table!r} {table.source!r} {table.source}"


def test_a_delta_that_is_used_up_is_told_apart_from_epsilon() -> None:
    budget = sf.Budget(3, "1e-6")
    too_large = refused(budget, Curve.approximate("0.1", "1e-6"))
    assert "fix:   choose a δ of at most 1e-07, or group by columns whose values the policy lists" in str(too_large)
    used_up = refused(budget.charge(Curve.approximate("0.1", "1e-7")), Curve.approximate("0.1", "1e-9"))
    assert "and no δ is left" in str(used_up)
    assert "fix:   group by columns whose values the policy lists" in str(used_up)


def test_a_promise_without_a_delta_names_none() -> None:
    assert "δ" not in repr(sf.Budget(2))
    assert "for life: ε = 2, δ = 1e-06 (" in repr(sf.Budget(2, "1e-6"))
