"""SmartNoise metadata: what is read of them, and what is refused by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import InvalidPolicy
from sfumato.policy import Domain
from sfumato.policy.toml_files import read_smartnoise

PUMS = """\
# a comment
PUMS:
  PUMS:
    PUMS:   # the table
      row_privacy: True
      rows: 1000
      age:
        type: int
        lower: 0
        upper: 100
      "in come":
        type: float
        lower: -1.5
        upper: 2e3
      'it''s':
        type: "string"
      born:
        type: datetime
      married:
        type: boolean
    Other:
      max_ids: 3
      pid:
        private_id: true
        type: int
      x:
        type: int
"""


def test_tables_columns_and_bounds_are_read(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(PUMS)
    found = read_smartnoise(tmp_path / "m.yaml")
    assert dict(found["PUMS"].columns) == {
        "age": Domain("integer", bounds=(0, 100)),
        "in come": Domain("real", bounds=("-1.5", "2000")),
        "it's": Domain("text"),
        "born": Domain("timestamp"),
        "married": Domain("boolean"),
    }
    assert (found["PUMS"].id, found["PUMS"].max_rows) == ("row", None)
    assert (found["Other"].id, found["Other"].max_rows) == ("pid", 3)
    assert list(found["Other"].columns) == ["x"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "declares none"),
        ("a:\n  - b\n", "line 2"),
        ("a: &x\n  b: *x\n", "declares none"),
        ("a:\n\tb: 1\n", "line 2"),
        ("just text\n", "line 1"),
        ("a:\n  b:\n    t:\n      x:\n        type: int\n", "private_id"),
        ("a:\n  b:\n    t:\n      row_privacy: True\n      x:\n        type: complex\n", "types"),
        ("a:\n  b:\n    t:\n      max_ids: 0\n      x:\n        type: int\n        private_id: True\n", "max_ids"),
        ("a:\n b:\n  t:\n   row_privacy: True\n   x:\n    type: int\n    lower: 9\n    upper: 1\n", "low"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(InvalidPolicy, match=word):
        read_smartnoise(tmp_path / "m.yaml")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match="cannot be read"):
        read_smartnoise(tmp_path / "none.yaml")
