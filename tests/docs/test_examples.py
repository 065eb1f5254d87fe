"""Every example runs as a reader runs it, and what it leaves behind is what its page says."""

from __future__ import annotations

import ast
import csv
import re
import runpy
import sys
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import pytest

import sfumato as sf

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
_MOST_LINES = 60
_PLAIN = {"sfumato", "numpy", "pyarrow", "duckdb"}
"""What is there without any extra."""


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Example:
    return Example(tmp_path, monkeypatch, capsys)


class Example:
    """Runs a script under its own name, in a folder of its own; what it writes anywhere else is a failure."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, shown: pytest.CaptureFixture[str]) -> None:
        self.folder, self._patch, self._shown = folder, patch, shown

    def __call__(self, name: str) -> str:
        """Run the script and give what it printed."""
        path = EXAMPLES / f"{name}.py"
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        self._patch.chdir(elsewhere)
        self._patch.setattr(sys, "argv", [str(path), str(self.folder)])
        runpy.run_path(str(path), run_name="__main__")
        assert not list(elsewhere.iterdir())
        return self._shown.readouterr().out

    def spent(self, ledger: Path) -> tuple[Fraction | None, int]:
        """Read the ledger that the script left: the ε of its one account, and how many releases were charged."""
        with sf.Ledger.open(ledger) as opened:
            (name,) = opened.accounts
            account = opened.account(name)
            return account.spent["pure"], sum(line.kind == "charge" for line in opened)


def test_an_answer_has_error_bars_a_picture_and_a_file(example: Example) -> None:
    said = example("ask_with_error_bars")
    assert example.spent(example.folder / "flights" / "sfumato.ledger") == (Fraction(1, 2), 1)  # asked twice, paid once
    assert "Asked again, it costs nothing: True." in said
    assert "Spent so far: ε = 0.5." in said
    with open(example.folder / "airlines.csv", encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 16
    assert all(float(row["flights_low"]) < float(row["flights"]) < float(row["flights_high"]) for row in rows)
    drawn = ElementTree.parse(example.folder / "airlines.svg").getroot()
    assert rows[0]["airline"] in "".join(drawn.itertext())


def test_two_analysts_share_one_budget(example: Example) -> None:
    said = example("share_a_budget")
    spent, charges = example.spent(example.folder / "sfumato.ledger")
    assert (spent, charges) == (Fraction(13, 10), 2)  # what was refused is not among them
    assert "ana is refused, and nothing is spent: the analyst's share cannot afford this release" in said
    assert re.search(r"left for ana: .*0\.2\b", said)
    assert re.search(r"left for ben: .*0\.7\b", said)  # of the account, though more is left of the share
    assert said.count("charge") == 2


def test_what_is_published_is_good_and_verified_without_the_data(example: Example) -> None:
    said = example("publish_a_synthetic_table")
    (example.folder / "ma2019.csv").unlink()
    for name in ("counts.sfu", "invented.sfu"):
        found = sf.synopsis(example.folder / name)
        assert found.verify().holds
        assert str(found.guarantee) == "ε = 1, δ = 1e-09"
    with open(example.folder / "invented.csv", encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert all(row["MSP"] in ("N", "") for row in rows if row["AGEP"] and int(row["AGEP"]) < 15)
    exact = re.search(r"for the owner's eyes alone: a score of (\d+) of 1000", said)
    assert exact
    assert int(exact[1]) > 920  # twelve draws had 960 to 969; columns that are right one by one alone have 875
    assert example.spent(example.folder / "sfumato.ledger")[1] == 2  # counts and score; the rows were paid step by step


def test_the_broken_mechanism_is_refuted_and_its_twin_is_not(example: Example) -> None:
    """The sound one loses ε = 105/110 and is refuted once in 10⁶ runs; the broken one loses more than 4."""
    said = example("catch_a_broken_mechanism")
    broken, sound = said.split("sound: ")
    assert broken.startswith("broken: 1-DP IS REFUTED")
    assert sound.startswith("1-DP is not refuted")
    for name in ("broken", "sound"):
        ElementTree.parse(example.folder / f"{name}.svg")


def test_exact_answers_tell_everything_and_private_ones_little(example: Example) -> None:
    """Of 24 uniform secrets theory lets any attack tell 18 on average; these are fixed, and so is the noise here."""
    said = example("attack_exact_answers")
    assert "exact totals differ by 152,000: the income of one person" in said
    assert example.spent(example.folder / "attacked.ledger") == (Fraction(1), 2)
    assert "which tells nothing: each is known to ±1,198,293" in said
    exact, private = re.findall(r"totals (?:tell the secrets )?of (\d+)", said)
    assert (int(exact), int(private) < 24) == (24, True)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_is_short_says_what_it_shows_and_is_listed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= _MOST_LINES
    told = ast.get_docstring(ast.parse(text)) or ""
    assert told.split("\n")[0].endswith(".")
    assert f"Run it: python examples/{path.name} [folder]" in told
    read = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    named = {getattr(node, "module", None) or node.names[0].name for node in read}
    assert {name.partition(".")[0] for name in named} <= sys.stdlib_module_names | _PLAIN, "an extra is needed"
    assert f"[{path.name}]({path.name})" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert f'example("{path.stem}")' in Path(__file__).read_text(encoding="utf-8")  # and run above
