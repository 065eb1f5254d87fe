"""Accounts of periods in a policy: which go with which units, and every mistake named by rule, place and fix."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.errors import InvalidPolicy
from sfumato.policy import Policy, read
from sfumato.policy.policies import ACCOUNT_PERIODS
from sfumato.policy.toml_files import to_toml
from sfumato.privacy import Neighbours

TEXT = """
[unit]
name = "patient"
{period}
budget = {{ epsilon = 1, {budget} }}
neighbours = "{neighbours}"
size = 100
[tables.visits]
source = "visits.csv"
id = "who"
max_rows = 3
[tables.visits.columns]
day = {{ type = "date", {day} }}
"""


def declared(
    folder: Path, every: str | None, budget: str, day: str = "nullable = false", neighbours: str = "add-remove"
) -> Policy:
    period = "" if every is None else f'period = {{ column = "day", every = "{every}" }}'
    path = folder / "clinic.toml"
    path.write_text(TEXT.format(period=period, budget=budget, day=day, neighbours=neighbours))
    return read(path)


@pytest.mark.parametrize(
    ("every", "per"),
    [(every, per) for every in ("day", "week", "month") for per in ACCOUNT_PERIODS[every]],
)
def test_accounts_are_kept_for_whole_periods_of_the_unit(tmp_path: Path, every: str, per: str) -> None:
    policy = declared(tmp_path, every, f'per = "{per}"')
    assert policy.per == per
    assert policy.account_budget == policy.budget
    (tmp_path / "again.toml").write_text(to_toml(policy, tmp_path))
    assert read(tmp_path / "again.toml").per == per


@pytest.mark.parametrize(
    ("every", "budget", "day", "rule"),
    [
        ("week", 'per = "month"', "", "a week can span two months"),
        ("week", 'per = "year"', "", "a week can span two years"),
        ("month", 'per = "day"', "", "a month has several days"),
        ("month", 'per = "week"', "", "a month has several weeks"),
        ("week", 'per = "day"', "", "a week has several days"),
        (None, 'per = "month"', "", r"but \[unit\] has no period"),
        ("day", 'per = "hour"', "", "per must be day, week, month, quarter or year"),
        ("day", 'per = "decade"', "", "per must be day"),
        ("day", "per = 3", "", "per must be day"),
        ("day", 'per = ["month"]', "", "per must be day"),
        ("day", 'every = "month"', "", "unknown"),
        ("month", 'per = "month"', "values = [2024-01-01]", "it decides the period of a row"),
    ],
)
def test_what_no_account_can_be_kept_for_is_refused(
    tmp_path: Path, every: str | None, budget: str, day: str, rule: str
) -> None:
    with pytest.raises(InvalidPolicy, match=rule) as refused:
        declared(tmp_path, every, budget, day or "nullable = false")
    assert refused.value.place.startswith(("unit.budget", "tables.visits"))
    assert refused.value.fix


def test_under_replace_each_account_holds_half(tmp_path: Path) -> None:
    """A unit that is exchanged may move between two accounts, and then spends both."""
    pure = declared(tmp_path, "month", 'per = "month"', neighbours="replace")
    assert pure.account_budget == sf.Budget("0.5", neighbours="replace")
    both = declared(tmp_path, "month", 'delta = 1e-6, per = "month"', neighbours="replace").account_budget
    assert both == sf.Budget("0.5", "5e-7", neighbours="replace")
    chosen = declared(
        tmp_path, "month", 'delta = 1e-6, reserve = 5e-7, order = 60, per = "month"', neighbours="replace"
    )
    half = chosen.account_budget
    assert (half.reserve, half.order, half.neighbours) == (Fraction(1, 4 * 10**6), 60, Neighbours.REPLACE)
    with pytest.raises(InvalidPolicy, match="order"):  # that leaves half of the budget no allowance
        declared(tmp_path, "month", 'delta = 1e-6, order = 20, per = "month"', neighbours="replace")
    alone = declared(tmp_path, "month", "delta = 1e-6", neighbours="replace")
    assert alone.account_budget is alone.budget
