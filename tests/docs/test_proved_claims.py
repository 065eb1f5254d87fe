"""Every function and test named on the page of proved claims exists, in the file that the link names."""

from __future__ import annotations

import inspect
import pkgutil
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs/explanation/what-is-proved.md"
LINK = re.compile(r"\[`(?P<name>[\w.]+)`\]\((?P<path>\.\./\.\./(?:src|tests)/[^)]+)\)")
ROWS = [line for line in PAGE.read_text().splitlines() if " | " in line and not line.startswith("claim and theorem | ")]


def dangling_links(text: str) -> list[str]:
    """Return the names whose link does not lead to the file that defines them."""
    links = [(match["name"], (PAGE.parent / match["path"]).resolve()) for match in LINK.finditer(text)]
    return [name for name, path in links if not _defines(path, name)]


def _defines(path: Path, name: str) -> bool:
    if not path.is_file():
        return False
    if name.startswith("test_"):
        return re.search(rf"^def {name}\(", path.read_text(), re.M) is not None
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return inspect.getsourcefile(found) == str(path)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("**")[1])
def test_a_claim_has_a_theorem_a_function_and_a_test(row: str) -> None:
    claim, names = row.split(" | ")
    assert re.fullmatch(r"\*\*.+\*\*<br>.+", claim), "a claim, and its theorem below it"
    assert "`sfumato." in names
    assert "`test_" in names


def test_every_named_function_and_test_exists() -> None:
    text = PAGE.read_text()
    assert len(LINK.findall(text)) > 50
    assert len(re.findall(r"`(?:sfumato\.|test_)", text)) == len(LINK.findall(text)), "a name without a link"
    assert dangling_links(text) == []


@pytest.mark.parametrize(
    "link",
    [
        "[`sfumato.privacy.Budgets`](../../src/sfumato/privacy/budget.py)",
        "[`sfumato.privacy.Budget`](../../src/sfumato/privacy/curve.py)",
        "[`sfumato.privacies.Budget`](../../src/sfumato/privacy/budget.py)",
        "[`test_no_adversary_beats_it`](../../tests/privacy/test_adversary.py)",
        "[`test_no_adversary_beats_the_account`](../../tests/privacy/test_adversaries.py)",
    ],
)
def test_a_name_that_is_gone_is_reported(link: str) -> None:
    assert len(dangling_links(link)) == 1
