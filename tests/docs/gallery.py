"""The commonest mistakes, each with its message and its fix. Run this file to write docs/reference/mistakes.md anew.

Every mistake is made and every fix is run, in a folder with the bundled example: what stands on the page was printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from click.testing import CliRunner

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import SfumatoError

PAGE = Path(__file__).parents[2] / "docs/reference/mistakes.md"
_PRICE = "--epsilon 0.05"

INTRODUCTION = """\
# Fifty common mistakes

Each of these is refused before anything is charged, and says the rule, the place and the fix. This page is written by
a test that makes every mistake and then runs the fix, in a folder with the bundled example (`sfumato demo --keep
flights`). In Python, `flights` is `sf.open("flights.toml")`.
"""


@dataclass(frozen=True)
class Mistake:
    """A mistake has a title, what was written, what should have been, and a word that the message hints at."""

    title: str
    wrong: str
    right: str
    hint: str
    """Stands in the message and in the fix."""
    before: str = ""
    """What was done before."""
    named: bool = True
    """Whether the message names what to write; otherwise it describes it, and the hint stands in the message alone."""


@dataclass(frozen=True)
class Made:
    """This is what a mistake was told, and how it and its fix ended."""

    message: str
    refused: bool
    mended: bool
    after: str
    """What the fix printed, for whoever has to find out why it did not work."""


class Command(Mistake):
    """The mistake is a command."""

    language = "sh"

    def make(self) -> Made:
        if self.before:
            _run(self.before)
        code, message = _run(self.wrong)
        mended, after = _run(self.right)
        return Made(message, code != 0, mended == 0, after)


class Declaration(Mistake):
    """The mistake is a line of the policy, in the place of the right one."""

    language = "toml"

    def make(self) -> Made:
        policy = Path("flights.toml")
        written = policy.read_text()
        assert written.count(self.right) == 1, self.right
        policy.write_text(written.replace(self.right, self.wrong))
        code, message = _run("sfumato check flights.toml --public")
        policy.write_text(written)
        mended, after = _checked(written)
        return Made(message, code != 0, mended == 0, after)


class Call(Mistake):
    """The mistake is a line of Python."""

    language = "py"

    def make(self) -> Made:
        message = _called(self.wrong)
        after = _called(self.right)
        return Made(message, bool(message), not after, after)


def _run(command: str) -> tuple[int, str]:
    words = shlex.split(command)
    done = CliRunner().invoke(main, words[1:], prog_name=words[0], env={"NO_COLOR": "1"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@cache
def _checked(written: str) -> tuple[int, str]:
    """Check the policy of this folder, as it is written there: the fix of every mistake in it is the same text."""
    assert Path("flights.toml").read_text() == written
    return _run("sfumato check flights.toml --public")


def _called(code: str) -> str:
    with sf.open("flights.toml") as flights, contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(code, {"sf": sf, "flights": flights})
        except SfumatoError as refusal:
            return f"sfumato.errors.{type(refusal).__name__}: {refusal}"
    return ""


@contextlib.contextmanager
def example() -> Iterator[Path]:
    """Work in a new folder with the bundled example."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(sf.example(Path(folder, "flights")).parent)
        try:
            yield Path.cwd()
        finally:
            os.chdir(here)


def _asked(title: str, wrong: str, right: str, hint: str) -> Command:
    wrong, right = (f"sfumato query flights.toml {shlex.quote(sql)} {_PRICE}" for sql in (wrong, right))
    return Command(title, wrong, right, hint)


def _flags(title: str, wrong: str, right: str, hint: str, sql: str = "SELECT COUNT(*) AS n FROM flights") -> Command:
    wrong, right = (f"sfumato query flights.toml {shlex.quote(sql)} {flags}".rstrip() for flags in (wrong, right))
    return Command(title, wrong, right, hint)


_INIT = "sfumato init airlines.csv -o new.toml --unit airline"
_ROWS = "--id row --epsilon 1 --yes"

AREAS: dict[str, tuple[Mistake, ...]] = {
    "Drafting a policy": (
        Command("The file is not there", "sfumato init airline.csv --yes", f"{_INIT} {_ROWS}", "airlines.csv"),
        Command(
            "A file would be written over",
            "sfumato init airlines.csv -o flights.toml --unit airline --id row --epsilon 1 --yes",
            f"{_INIT} {_ROWS}",
            "-o",
        ),
        Command("Nobody said whose rows these are", f"{_INIT} --epsilon 1 --yes", f"{_INIT} {_ROWS}", "--id"),
        Command("The id is misspelt", f"{_INIT} --id carier --epsilon 1 --yes", f"{_INIT} {_ROWS}", "--id"),
        Command(
            "A column is misspelt",
            f"{_INIT} --column nam=text {_ROWS}",
            f"{_INIT} --column name=text {_ROWS}",
            "name",
        ),
    ),
    "The policy file": (
        Declaration(
            "A key is misspelt",
            'bound = ["2013-06-01", "2013-08-31"]',
            'bounds = ["2013-06-01", "2013-08-31"]',
            "bounds",
        ),
        Declaration(
            "A type is called otherwise",
            'type = "int", bounds = [0, 5000]',
            'type = "integer", bounds = [0, 5000]',
            "integer",
        ),
        Declaration("Bounds stand the wrong way round", "bounds = [5000, 0]", "bounds = [0, 5000]", "[0, 5000]"),
        Declaration(
            "A date is written with points",
            '["01.06.2013", "2013-08-31"]',
            '["2013-06-01", "2013-08-31"]',
            "2024-01-31",
            named=False,
        ),
        Declaration(
            "The source is not there", 'source = "flight.parquet"', 'source = "flights.parquet"', "path", named=False
        ),
        Declaration("The id is misspelt", 'id = "tailnumber" ', 'id = "tailnum" ', "tailnum"),
        Declaration("Nobody said whose rows these are", "# no id", 'id = "tailnum"', "id ="),
        Declaration("A column is misspelt", "orign ", "origin ", "origin"),
        Declaration(
            "Neighbours are misspelt", 'neighbours = "add or remove"', 'neighbours = "add-remove"', "add-remove"
        ),
        Declaration("A share is written in hundredths", "share = 50", "share = 0.5", "0.5"),
        Declaration("A budget has a decimal comma", "epsilon = 3,0", "epsilon = 3.0", "3.0"),
    ),
    "Questions in SQL": (
        _asked("A keyword is misspelt", "SELEC COUNT(*) FROM flights", "SELECT COUNT(*) FROM flights", "SELECT"),
        _asked("Another keyword is misspelt", "SELECT COUNT(*) FORM flights", "SELECT COUNT(*) FROM flights", "FROM"),
        _asked("A table is misspelt", "SELECT COUNT(*) FROM fligths", "SELECT COUNT(*) FROM flights", "flights"),
        _asked(
            "A column is misspelt",
            "SELECT COUNT(*) FROM flights WHERE orign = 'JFK'",
            "SELECT COUNT(*) FROM flights WHERE origin = 'JFK'",
            "origin",
        ),
        _asked(
            "A text stands within double quotes",
            'SELECT COUNT(*) FROM flights WHERE origin = "JFK"',
            "SELECT COUNT(*) FROM flights WHERE origin = 'JFK'",
            "'JFK'",
        ),
        _asked("Rows are asked for", "SELECT * FROM flights", "SELECT COUNT(*) FROM flights", "COUNT(*)"),
        _asked(
            "A column is not grouped by",
            "SELECT origin, COUNT(*) AS n FROM flights",
            "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin",
            "GROUP BY origin",
        ),
        _asked(
            "People are listed",
            "SELECT tailnum, COUNT(*) AS n FROM flights GROUP BY tailnum",
            "SELECT COUNT(DISTINCT tailnum) AS n FROM flights",
            "COUNT(DISTINCT tailnum)",
        ),
        _asked(
            "Two columns have one name",
            "SELECT COUNT(*) AS n, AVG(delay) AS n FROM flights",
            "SELECT COUNT(*) AS n, AVG(delay) AS delay FROM flights",
            "AS",
        ),
        _asked(
            "A text is added up",
            "SELECT SUM(origin) FROM flights",
            "SELECT SUM(CASE WHEN origin = 'JFK' THEN 1 ELSE 0 END) FROM flights",
            "CASE",
        ),
        _asked(
            "The clock is asked",
            "SELECT COUNT(*) FROM flights WHERE day > TODAY()",
            "SELECT COUNT(*) FROM flights WHERE day > DATE '2013-07-01'",
            "DATE '",
        ),
        _asked(
            "A public table is asked alone",
            "SELECT COUNT(*) FROM airlines",
            "SELECT COUNT(*) FROM flights JOIN airlines USING (carrier)",
            "JOIN",
        ),
        _asked("Something is to be changed", "DELETE FROM flights", "SELECT COUNT(*) FROM flights", "SELECT"),
    ),
    "Flags of the command line": (
        _flags("No price is named", "", _PRICE, "--epsilon 0"),
        _flags("The price has a decimal comma", "--epsilon 0,05", "--epsilon 0.05", "0.05"),
        _flags(
            "The confidence is written in hundredths",
            f"{_PRICE} --confidence 95",
            f"{_PRICE} --confidence 0.95",
            "0.95",
        ),
        _flags("A flag is misspelt", "--epsilom 0.05", _PRICE, "--epsilon"),
        _flags(
            "A limit is larger than the policy's",
            f"{_PRICE} --limit rows=500",
            f"{_PRICE} --limit rows=50",
            "--limit rows=",
        ),
        _flags("A column of --within is misspelt", "--within m=5000", "--within n=5000", "n"),
        _flags(
            "A parameter has no value",
            _PRICE,
            f"{_PRICE} --param minutes=60",
            "--param",
            "SELECT COUNT(*) FROM flights WHERE delay > $minutes",
        ),
        _flags("The analyst is not known", f"{_PRICE} --analyst anna", f"{_PRICE} --analyst ana", "ana"),
        _flags("The file has an unknown ending", f"{_PRICE} -o n.xlsx", f"{_PRICE} -o n.csv", ".csv"),
        Command("A command is misspelt", "sfumato discribe flights.toml", "sfumato describe flights.toml", "describe"),
    ),
    "Budget and ledger": (
        _flags("More is asked for than is left", "--epsilon 5", "--epsilon 3", "3"),
        Command(
            "The ledger is named in the place of the policy",
            "sfumato history sfumato.ledger",
            "sfumato history flights.toml",
            ".toml",
            before=f"sfumato query flights.toml 'SELECT COUNT(*) FROM flights' {_PRICE}",
        ),
        Command(
            "The policy is named in the place of the ledger",
            "sfumato ledger verify flights.toml",
            "sfumato ledger verify sfumato.ledger",
            "sfumato.ledger",
            before=f"sfumato query flights.toml 'SELECT COUNT(*) FROM flights' {_PRICE}",
        ),
        Command(
            "A budget is changed without a reason",
            "sfumato budget amend flights.toml",
            "sfumato budget amend flights.toml --reason 'second year'",
            "--reason",
            before=f"sfumato query flights.toml 'SELECT COUNT(*) FROM flights' {_PRICE}",
        ),
    ),
    "Publishing and synthetic tables": (
        Command(
            "No file is named",
            "sfumato publish flights.toml flights --epsilon 0.2",
            "sfumato publish flights.toml flights --epsilon 0.2 -o flights.sfu",
            "-o",
        ),
        Command(
            "More columns are crossed than there are",
            "sfumato publish flights.toml flights --ways 4 --epsilon 0.2 -o flights.sfu",
            "sfumato publish flights.toml flights --ways 2 --epsilon 0.2 -o flights.sfu",
            "2",
        ),
        Command(
            "Columns of numbers have no cells",
            "sfumato publish flights.toml flights --of origin,delay --epsilon 0.2 -o flights.sfu",
            "sfumato publish flights.toml flights --of origin,carrier --epsilon 0.2 -o flights.sfu",
            "bins",
        ),
    ),
    "Calls in Python": (
        Call(
            "No price is named",
            'flights.sql("SELECT COUNT(*) AS n FROM flights").release()',
            'flights.sql("SELECT COUNT(*) AS n FROM flights").release(epsilon="0.05")',
            "epsilon",
        ),
        Call(
            "A column of the builder is misspelt",
            'flights.table("flights").group_by("orign").agg(n=sf.count())',
            'flights.table("flights").group_by("origin").agg(n=sf.count())',
            "origin",
        ),
        Call("The noise has no scale", "sf.Laplace(scale=0)", "sf.Laplace(scale=2)", "scale"),
        Call("The analyst is not known", 'flights.as_analyst("anna")', 'flights.as_analyst("ana")', "ana"),
    ),
}


def page() -> str:
    """Write the page: every mistake is made, and every fix is run."""
    made = [INTRODUCTION]
    for area, mistakes in AREAS.items():
        made.append(f"## {area}\n")
        for each in mistakes:
            with example() as folder:
                found = each.make()
            made.append(section(each, found, folder))
    return "\n".join(made)


def section(mistake: Mistake, made: Made, folder: Path) -> str:
    language = getattr(mistake, "language", "")
    message = "\n".join(line.rstrip() for line in made.message.replace(f"{folder}/", "").strip().splitlines())
    return f"""\
### {mistake.title}

```{language}
{mistake.wrong}
```

```text
{message}
```

The fix, which was run:

```{language}
{mistake.right}
```
"""


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    PAGE.write_text(page())
