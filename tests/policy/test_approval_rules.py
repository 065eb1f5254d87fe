"""Approval rules: what they say, what they refuse, and that they change no question's identity."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import InvalidPolicy
from sfumato.plan.relevant_policy import declarations_for_plan, newer_field_declarations
from sfumato.policy import Policy, read
from sfumato.policy.approval_rules import ApprovalRules
from sfumato.policy.toml_files import to_toml

FILE = """
[unit]
name = "patient"
budget = { epsilon = 3 }

[tables.visits]
source = "visits.csv"
id = "patient"
max_rows = 2
[tables.visits.columns]
age = { type = "integer", bounds = [0, 110] }
"""


def parsed(folder: Path, section: str) -> Policy:
    path = folder / "clinic.toml"
    path.write_text(f"{FILE}\n[approval]\n{section}\n")
    return read(path)


@pytest.mark.parametrize(
    ("rules", "release", "reason"),
    [
        ({}, {}, "every release of this policy needs it"),
        ({"above": "0.5"}, {"epsilon": Fraction(1, 2)}, None),
        ({"above": "0.5"}, {"epsilon": Fraction(51, 100)}, "its ε of 0.51 is above the policy's limit of 0.5"),
        ({"above": "0.5"}, {"epsilon": None}, "its ε is unbounded, and so above the policy's limit of 0.5"),
        ({"above": 0}, {"epsilon": Fraction(0)}, None),
        ({"tables": ["staff"]}, {}, None),
        ({"tables": ["visits"]}, {}, "it reads the table visits"),
        ({"tables": ["visits"]}, {"tables": None}, "it may read the table visits"),
        ({"kinds": ["synthesis"]}, {}, None),
        ({"kinds": ["questions"]}, {}, "it is a release of the kind questions"),
        ({"discovered_groups": True}, {}, None),
        ({"discovered_groups": True}, {"discovers_groups": True}, "its groups are discovered in the data"),
        ({"discovered_groups": True}, {"discovers_groups": None}, "its groups are discovered in the data"),
    ],
)
def test_which_releases_need_approval(rules: dict[str, Any], release: dict[str, Any], reason: str | None) -> None:
    asked = {"tables": {"visits"}, "discovers_groups": False, "epsilon": Fraction(1), **release}
    tables = asked.pop("tables")
    assert ApprovalRules(**rules).reason_for_approval("questions", tables, **asked) == reason


@pytest.mark.parametrize(
    "section",
    [
        "approvals = 0",
        "approvals = 1.5",
        "approvals = true",
        "above = -1",
        'above = "x"',
        'tables = "visits"',
        'tables = ["nothing"]',
        "kinds = [1]",
        'discovered_groups = "yes"',
        "days = 0",
        "day = 3",
        "",
    ],
)
def test_a_wrong_section_is_refused_with_its_place(tmp_path: Path, section: str) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        parsed(tmp_path, section)
    assert refused.value.place.startswith("approval")
    assert refused.value.fix


def test_rules_are_written_and_read_back(tmp_path: Path) -> None:
    section = (
        'approvals = 2\nabove = 0.25\ntables = ["visits"]\nkinds = ["synthesis"]\ndiscovered_groups = true\ndays = 9'
    )
    policy = parsed(tmp_path, section)
    (tmp_path / "again.toml").write_text(to_toml(policy, tmp_path))
    assert read(tmp_path / "again.toml").approval == policy.approval
    assert "[approval]" not in to_toml(replace(policy, approval=None), tmp_path)


def test_rules_change_no_questions_identity(tmp_path: Path) -> None:
    policy = parsed(tmp_path, "approvals = 2")
    without = replace(policy, approval=None)
    assert declarations_for_plan((), policy, reads_cells=False) == declarations_for_plan((), without, reads_cells=False)
    assert newer_field_declarations(policy) == newer_field_declarations(without)
