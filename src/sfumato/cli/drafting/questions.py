"""The questions of ``sfumato init`` stand here: their words, their defaults, and what a ? explains."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

from sfumato.cli.drafting.interview import Asked
from sfumato.policy import ROW

SKIP = "-"
ALL = "*"


def read_rows(files: str) -> Asked:
    return Asked(
        "read rows",
        f"May rows of {files} be read, to find types and how they are written (yes/no)",
        "yes",
        "Texts in a CSV or SQLite file do not say what they mean. With yes the rows are read on this machine, and what "
        "is found is shown to you alone: this is private reading, protected by no noise. Only the types that you "
        "confirm are written. It costs no budget. With no, every column is proposed as text and you type the types.",
        "--read-rows or --no-read-rows",
    )


def copy(label: str, target: str, reasons: Sequence[str]) -> Asked:
    return Asked(
        f"copy {label}",
        f"Copy {label} as {target} beside it, because {'; '.join(reasons)} (yes/no)",
        "yes",
        "The engine reads CSV with commas in UTF-8, Parquet and DuckDB. The copy holds the same cells, with the same "
        "permissions as the original, so it is as private: it takes disk space, and you delete both when you delete "
        "one. Questions are then asked of the copy: a change of the original needs a new copy. With no, the table is "
        "left out.",
        "--copy or --no-copy",
    )


def unit(default: str) -> Asked:
    return Asked(
        "unit",
        "The unit you protect, in one word (patient, customer, household …)",
        default,
        "Nobody who sees the answers can tell whether any one of these units, with all its rows, is in the data. It is "
        "a word, printed with every answer; the default is guessed from the names of columns. A larger unit (a "
        "household) protects more and makes answers less exact.",
        "--unit WORD",
    )


def role(table: str, default: str) -> Asked:
    return Asked(
        f"{table}.role",
        f"{table}: private, public, or {SKIP} to leave it out",
        default,
        "A private table is about the people you protect. A public one is about nobody (a list of airports): it is "
        "read freely, everything in it may be shown, and it costs nothing. When in doubt, it is private.",
        f"--public {quote(table)}, or --skip {quote(table)}",
    )


def name(table: str) -> Asked:
    return Asked(
        f"{table}.name",
        f"A name for the table {table}",
        table,
        "Questions name the table by it: SELECT COUNT(*) FROM this_name. It costs nothing.",
        f"--name {quote(table)}=NAME",
    )


def owner(table: str, unit: str, default: str | None) -> Asked:
    return Asked(
        f"{table}.id",
        f"{table}: the column that says whose row it is, or {ROW} when every row is one {unit}",
        default,
        f"All rows with the same value there are one {unit}. Where another table knows whose row it is, write "
        f"TABLE.COLUMN, the table and the column that both have. With {ROW} every row is protected by itself: if a "
        f"{unit} has several rows, then it is not protected as a whole. The default is guessed from the names.",
        f"--id {quote(table)}=COLUMN, --id {quote(table)}={ROW} or --id {quote(table)}=OTHER.COLUMN",
    )


def max_rows(table: str, unit: str) -> Asked:
    return Asked(
        f"{table}.max_rows",
        f"{table}: rows of one {unit} that may count",
        "10",
        f"Of a {unit} with more rows, this many count in a question and the others do not. Noise grows with "
        "the number, "
        "so 10 makes a count ten times as noisy as 1; too small a number leaves rows out. Choose it from what you know "
        "of the field. Choosing it from exact figures of these data tells of the people in them. sfumato check shows "
        "what a limit costs, and sfumato limits finds one privately.",
        f"--max-rows {quote(table)}=NUMBER, or --max-rows NUMBER for all tables",
    )


def budget(unsafe: bool) -> Asked:
    return Asked(
        "budget",
        "The budget for life: an epsilon, and a delta if any (such as 3 1e-6)",
        None if unsafe else "1",
        "All answers together, for ever, change what anybody can learn about one unit by at most a factor e^ε, where "
        "the budget is epsilon (ε). ε = 1 is cautious: a suspicion of 50 % can rise to 73 %. ε = 3: to 95 %. More ε "
        "buys more or better answers. Delta (δ), such as 1e-6, is the chance that the promise fails: far less than one "
        "in the number of people. It allows groups that nobody listed, and Gaussian noise. sfumato read --epsilon 3 "
        "says what an ε means for one person.",
        "--epsilon NUMBER and --delta NUMBER",
    )


def kind(table: str, column: str, default: str) -> Asked:
    return Asked(
        f"{table}.columns.{column}.type",
        f"{column}: type",
        default,
        "One of integer, real, text, boolean, date, timestamp. A cell that is not of the type is read as missing. "
        f"{SKIP} leaves the column out: nobody can ask about it. {ALL} takes what is proposed for this column and all "
        "that follow in this table. Leave out what nobody needs, such as names and ids. It costs nothing.",
        f"--column {_flag(column, 'integer 0 110')}, or --column {_flag(column, SKIP)}",
    )


def values(table: str, column: str) -> Asked:
    return Asked(
        f"{table}.columns.{column}.values",
        f"{column}: its values, separated by commas (empty: not known)",
        "",
        "List what people could have answered, from the form or the code book. Listed values can be grouped by; any "
        "other cell is read as missing. A list that is copied from the data tells who is in them: a rare diagnosis is "
        "one person. Without a list, grouping needs a δ, and shows only what enough people share.",
        f"--column {_flag(column, 'text north,south')}",
    )


def bounds(table: str, column: str, default: str) -> Asked:
    return Asked(
        f"{table}.columns.{column}.bounds",
        f"{column}: bounds, low and high; or values 0,1 (empty: none)"
        if not default
        else f"{column}: bounds ({SKIP}: none)",
        default,
        "A value outside is moved to the nearer bound. Sums and means are as noisy as the bounds are wide: twice as "
        "wide is twice the noise. Take them from what you know: nobody is older than 120. The least and the greatest "
        "value in the data are two people's values: to choose bounds from exact figures is itself a disclosure. "
        "Without bounds the column can be counted, not added up; sfumato bounds buys some, privately. Codes, such as 0 "
        "and 1, are listed: values 0,1, or values 1..16 for all from 1 to 16. What is to be published is cut into bins "
        "behind the bounds: 0 110 bins 11 for equal ones, 0 110 bins 0,18,65,110 for edges, and of dates bins month.",
        f"--column {_flag(column, 'integer 0 110')}, or {_flag(column, 'integer values 0,1')}, or "
        f"{_flag(column, 'integer 0 110 bins 11')}",
    )


def _flag(column: str, declared: str) -> str:
    """Write a column and what it is as a shell reads them, whatever letters the name has."""
    return f"{quote(column)}={declared if declared == SKIP else quote(declared)}"
