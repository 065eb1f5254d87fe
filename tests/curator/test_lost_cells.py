"""Check counts what rules leave missing, and names the rule that would read lost cells, for the owner alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.curator.cell_proposals import suggest_cell_rules
from sfumato.curator.checking import check
from sfumato.errors import InvalidPolicy
from sfumato.policy import Domain
from sfumato.policy.cell_rules import CellRules, parse_rules

DATE, TIME, REAL, TRUTH = (Domain(kind) for kind in ("date", "timestamp", "real", "boolean"))
LISTED = Domain("text", values=("female", "male"))


@pytest.mark.parametrize(
    ("domain", "cells", "keys"),
    [
        (DATE, ["31.12.2024", "5.3.2024", "x"], 'format = "%d.%m.%Y"'),
        (DATE, ["12/31/2024", "3/5/2024"], 'format = "%m/%d/%Y"'),
        (DATE, ["March 5 2024", "June 7 2024"], 'format = "%B %d %Y"'),
        (DATE, ["Tue, 5 Mar 2024"], 'format = "%a, %d %b %Y"'),
        (DATE, ["20240305"], 'format = "%Y%m%d"'),
        (DATE, ["05.03.24"], 'format = "%d.%m.%y"'),
        (DATE, ["01/02/2024"], 'format = "%d/%m/%Y" or format = "%m/%d/%Y"'),
        (TIME, ["5/3/2024 7:08 PM"], 'format = "%d/%m/%Y %I:%M %p" or format = "%m/%d/%Y %I:%M %p"'),
        (TIME, ["13.02.2024"], 'format = "%d.%m.%Y"'),
        (DATE, ["5.3.2024", "March 5, 2024"], 'format = ["%d.%m.%Y", "%B %d, %Y"]'),
        (TIME, ["5.3.2024 17:08:09.5"], 'format = "%d.%m.%Y %H:%M:%S.%f"'),
        (REAL, ["1.234,50 €", "2 €"], 'decimal = ",", thousands = ".", currency = "€"'),
        (REAL, ["1,5", "2,25"], 'decimal = ","'),
        (REAL, ["1,234"], 'decimal = "," or thousands = ","'),
        (Domain("integer"), ["1,234"], 'thousands = ","'),
        (REAL, ["12%", "7%"], ""),
        (REAL, ["NA", "NA", "?"], 'nulls = ["NA", "?"]'),
        (TRUTH, ["Y", "N", "n"], 'true = ["Y", "y"], false = ["N", "n"]'),
        (TRUTH, ["Vrai", "Faux"], 'true = ["Vrai", "VRAI", "vrai"], false = ["Faux", "FAUX", "faux"]'),
        (
            Domain("text", values=("Paris", "Lyon")),
            ["paris ", "LYON"],
            'case = "lower", trim = true, map = { paris = "Paris", lyon = "Lyon" }',
        ),
        (LISTED, [" Female", "MALE"], 'case = "lower", trim = true'),
        (LISTED, ["Female", "MALE"], 'case = "lower"'),
        (Domain("text"), ["\\N", "NA"], 'nulls = ["NA", "\\\\N"]'),
        (DATE, ["yesterday", "12:00", "", "%d", "1" * 500], 'nulls = [""]'),
        (REAL, ["abc", "x1", "--5"], ""),
        (LISTED, ["unknown"], ""),
    ],
)
def test_the_rule_that_reads_most_lost_cells_is_named(domain: Domain, cells: list[str], keys: str) -> None:
    assert str(suggest_cell_rules(domain, Counter(cells), CellRules())) == keys


def test_a_named_rule_is_one_that_a_policy_takes() -> None:
    import tomllib

    keys = str(suggest_cell_rules(DATE, {"31.12.2024": 9, "NA": 1}, CellRules()))
    rules = parse_rules(tomllib.loads(keys.replace(", format", "\nformat")), DATE)
    assert rules == CellRules(format=("%d.%m.%Y",), nulls=("NA",))
    assert not suggest_cell_rules(DATE, {"31.12.2024": 9, "NA": 1}, rules)


POLICY = """
[unit]
name = "visit"
budget = {{ epsilon = 1 }}
[tables.visits]
source = "visits.csv"
id = "row"
[tables.visits.columns]
day = {{ type = "date"{day} }}
ward = {{ type = "text" }}
"""


def test_check_names_the_rule_and_counts_what_it_leaves_missing(tmp_path: Path) -> None:
    """A date column in another form is all NULL; with its rule, check counts what stays missing, in private alone."""
    days = ["5.3.2024"] * 6 + ["NA"] * 3 + ["31.2.2024"]
    pd.DataFrame({"day": days, "ward": ["north"] * 8 + ["\\N"] * 2}).to_csv(tmp_path / "visits.csv", index=False)
    path = tmp_path / "visits.toml"
    path.write_text(POLICY.format(day=""))
    with pytest.raises(InvalidPolicy) as refused:
        check(path).require_values_kept()
    assert 'add nulls = ["NA"], format = "%d.%m.%Y" to it' in refused.value.fix
    path.write_text(POLICY.format(day=', format = "%d.%m.%Y", nulls = ["NA"]'))
    shown, public = (
        CliRunner().invoke(main, ["check", str(path), *flags], catch_exceptions=False).output
        for flags in ([], ["--public"])
    )
    private = shown.partition("PRIVATE")[2]
    assert "nulls leaves 3 of 10 cells missing; 1 fit no format" in private
    assert 'cells look missing: to count them as missing, add nulls = ["\\\\N"]' in private
    assert "written as %d.%m.%Y" in public
    assert "leaves" not in public
    assert "look missing" not in public
