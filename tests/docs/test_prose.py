"""What the prose of README and docs names in backticks exists: commands, options, Python, policy keys, files, SQL.

Blocks of code are run elsewhere. Each failure says page, line and word: mend the page, or, for a name that is not ours,
add it to ``FOREIGN``.
"""

from __future__ import annotations

import builtins
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.manual.markdown_pages import read_pages

ROOT = Path(__file__).parent.parent.parent
GENERATED = "<!-- Written by"
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [path for path in WRITTEN if GENERATED not in path.read_text()]
FENCE = re.compile(r"^( *)(```+).*?^\1\2", re.M | re.S)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FOREIGN = frozenset(
    {
        *("--long", "--quick", "--draws", "--write", "--sample"),  # ./test and scripts
        *(
            "WorkingDirectory",
            "ExecStart",
            "TimeoutStopSec",
            "ProtectSystem",
            "ReadWritePaths",
            "PrivateTmp",
        ),  # systemd
        *("credentials_file", "synchronous_standby_names", "full_page_writes", "char", "CHAR", "spark"),
        *("df", "pd", "frame", "change", "nunique", "sort_values", "std", "corr"),  # pandas
        *(
            "glimpse",
            "mutate",
            "inner_join",
            "bind_rows",
            "summarise",
            "n_distinct",
            "sd",
            "cor",
            "arrange",
            "desc",
        ),  # dplyr
        *("PatientNr", "patient_id", "icd_level_1", "icd_level_2", "q_25", "q_50", "q_75", "m_A", "t_A", "n_sampling"),
    }
)
"""First names of what other programs call so, and columns of examples."""
VARIABLES = {
    "account": "Account",
    "answer": "Answer",
    "budget": "Budget",
    "curator": "Curator",
    "curve": "Curve",
    "flights": "Curator",
    "ledger": "Ledger",
    "policy": "Policy",
    "receipt": "Receipt",
}
"""Variables that mean the same on every page, and their class in ``sf``."""
MODULES = ("attacks", "audit", "errors", "games", "theorems")


@dataclass(frozen=True)
class Span:
    """A piece of code within a sentence."""

    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}: `{self.text}`"


@cache
def spans() -> list[Span]:
    return [Span(page, line, text) for page in PAGES for line, text in _spans(page.read_text())]


def _spans(markdown: str) -> Iterator[tuple[int, str]]:
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), markdown)
    for number, line in enumerate(prose.splitlines(), start=1):
        yield from ((number, text.replace("\\|", "|")) for text in SPAN.findall(line))


def unknown(problem: Callable[[str], str]) -> list[str]:
    """Return a line for every span that names something unknown; ``problem`` says what, or nothing."""
    found = ((span, problem(span.text)) for span in spans() if _first_name(span.text) not in FOREIGN)
    return [f"{span}: {what}" for span, what in found if what]


def _first_name(text: str) -> str:
    return "".join(re.findall(r"^\.?(-*[\w-]+)", text))


# ── commands and options ───────────────────────────────────────────────────────────────────────


@cache
def commands() -> dict[str, click.Command]:
    """Every command by its words: ``budget``, ``budget amend``."""
    context = click.Context(main, info_name="sfumato")
    top = {name: main.get_command(context, name) for name in main.list_commands(context)}
    below = {
        f"{name} {child}": command.commands[child]
        for name, command in top.items()
        if isinstance(command, click.Group)
        for child in command.commands
    }
    return {name: command for name, command in {**top, **below}.items() if command is not None}


def options(command: click.Command) -> set[str]:
    """Return the flags of a command; of a group also those of its commands, one of which may be the default."""
    params = command.get_params(click.Context(command))
    below = [options(child) for child in command.commands.values()] if isinstance(command, click.Group) else []
    return {flag for param in params for flag in (*param.opts, *param.secondary_opts)}.union(*below)


def command_problem(text: str) -> str:
    if not text.startswith("sfumato "):
        return ""
    first, _, rest = text.removeprefix("sfumato ").partition(" ")
    if first.startswith("-"):
        return "" if first in options(main) else f"sfumato has no {first}"
    name = next((name for name in (f"{first} {rest.partition(' ')[0]}", first) if name in commands()), None)
    if name is None:
        return f"there is no command {first}"
    known = options(commands()[name])
    return ", ".join(f"sfumato {name} has no {flag}" for flag in _flags(rest) if flag not in known)


def option_problem(text: str) -> str:
    if not text.startswith("--"):
        return ""
    return ", ".join(f"no command has {flag}" for flag in _flags(text) if flag not in all_options() | FOREIGN)


@cache
def all_options() -> set[str]:
    return {flag for command in (main, *commands().values()) for flag in options(command)}


def _flags(text: str) -> list[str]:
    return re.findall(r"(?<!\S)--[a-z][a-z-]*", re.sub(r"\"[^\"]*\"|'[^']*'", "", text))


def test_commands_and_options_exist() -> None:
    wrong = unknown(command_problem) + unknown(option_problem)
    assert not wrong, "\n" + "\n".join(wrong)


# ── Python ─────────────────────────────────────────────────────────────────────────────────────


@cache
def source_names() -> set[str]:
    """Words in the code of src, without docstrings and remarks: names, and texts such as the keys of a policy."""
    code = (re.sub(r'"""(?s:.*?)"""|#.*', "", path.read_text()) for path in (ROOT / "src").rglob("*.py"))
    return {name for text in code for name in re.findall(r"[A-Za-z_]\w*", text)}


@cache
def members() -> set[str]:
    """Names that a class of src can have: functions, and fields in the body of a class."""
    return {
        "".join(names)
        for path in (ROOT / "src").rglob("*.py")
        for names in re.findall(r"^ *(?:async )?def (\w+)|^ {4}(\w+)(?:: | = )|self\.(\w+)\b", path.read_text(), re.M)
    }


@cache
def names_of_tests() -> set[str]:
    return {name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}


def python_problem(text: str) -> str:
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", text)
    if match := re.match(r"sf\.[\w.]*\w", bare):
        return _missing(sf, match[0].split(".")[1:])
    if re.fullmatch(r"sfumato\.[\w.]+", text) and not _is_file_name(text):
        return _unresolved(text)
    match = re.match(r"(\w*)\.([a-z]\w*)", bare)
    if match is None or _is_file_name(bare):
        return ""
    variable, member = match[1], match[2]
    if variable in MODULES:
        return _missing(getattr(sf, variable), [member])
    if variable in VARIABLES:
        return _missing(getattr(sf, VARIABLES[variable]), [member])
    named = re.findall(r"\.([a-z]\w*)", re.sub(r"\([^()]*\)", "", bare))
    return ", ".join(f"no class has {name}" for name in named if name not in members())


def _missing(item: Any, names: list[str]) -> str:
    for name in names:
        fields = {field for kind in getattr(item, "__mro__", ()) for field in getattr(kind, "__annotations__", ())}
        if not hasattr(item, name):
            return "" if name in fields else f"{getattr(item, '__name__', item)} has no {name}"
        item = getattr(item, name)
    return ""


def _unresolved(path: str) -> str:
    try:
        pkgutil.resolve_name(path)
    except (ImportError, AttributeError) as error:
        return str(error)
    return ""


def _is_file_name(text: str) -> bool:
    return bool(
        re.search(r"\.(csv|duckdb|gz|html|json|ledger|md|parquet|people|png|pub|py|sfu|svg|toml|tsv|venv)\b", text)
    )


def call_problem(text: str) -> str:
    """A call without a variable, a keyword argument, a class, or a name in snake case; or a test."""
    if text.startswith("test_"):
        return "" if text in names_of_tests() else "there is no such test"
    called = re.findall(r"(?<![.\w])([a-z]\w*)\(", re.sub(r"\"[^\"]*\"|'[^']*'", "", text))
    unknown_calls = [name for name in called if name not in members() and not hasattr(builtins, name)]
    if unknown_calls:
        return ", ".join(f"src has no {name}()" for name in unknown_calls)
    names = re.findall(r"^([a-z]\w*) ?=|^([A-Z][a-z]+[A-Z]\w+)|^([a-z]+_\w+)$", text)
    return ", ".join(f"src has no {name}" for name in map("".join, names) if name not in source_names())


def test_python_names_and_policy_keys_exist() -> None:
    wrong = unknown(python_problem) + unknown(call_problem)
    assert not wrong, "\n" + "\n".join(wrong)


# ── files, SQL, links ──────────────────────────────────────────────────────────────────────────


def path_problem(text: str) -> str:
    """A file of the repository: in CONTRIBUTING they are below src/sfumato."""
    if not re.fullmatch(r"(?:bench|docs|examples|scripts|src|tests)/[\w./-]+|(?:\w+/)+\w+\.py", text):
        return ""
    return "" if any((folder / text).exists() for folder in (ROOT, ROOT / "src/sfumato")) else "there is no such file"


def sql_problem(text: str) -> str:
    """A function, which the page on what can be asked lists as something to write or as refused."""
    known = (ROOT / "docs/reference/what-can-be-asked.md").read_text()
    names = re.findall(r"\b([A-Z][A-Z_]+)\(", re.sub(r"'[^']*'", "", text))
    return ", ".join(f"What can be asked has no {name}" for name in names if not re.search(rf"\b{name}\b", known))


def test_files_and_sql_functions_exist() -> None:
    wrong = unknown(path_problem) + unknown(sql_problem)
    assert not wrong, "\n" + "\n".join(wrong)


def test_links_into_the_docs_lead_to_headings() -> None:
    """From README, CONTRIBUTING and the examples; the site checks those between its own pages."""
    anchors = {page.path: {section.anchor for section in page.sections} for page in read_pages(ROOT / "docs")}
    link = re.compile(r"\]\((?:\.\./)*docs/([^)#]+)#([^)]+)\)")
    wrong = [
        f"{page.relative_to(ROOT)}:{number}: docs/{path}#{anchor}"
        for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples/README.md")
        for number, line in enumerate(page.read_text().splitlines(), start=1)
        for path, anchor in link.findall(line)
        if anchor not in anchors.get(path, ())
    ]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("sfumato query p.toml --within 5", False),
        ("sfumato budget p.toml --analyst ana", False),
        ("sfumato ledger verify", False),
        ("sfumato querry", True),
        ("sfumato query p.toml --witin 5", True),
        ("--epsilon 1", False),
        ("--epsilom 1", True),
        ("sf.Curve.laplace(scale=2)", False),
        ("sf.Curve.lapalace(scale=2)", True),
        ("curator.sql(…).release(epsilon=1)", False),
        ("curator.sqll(…)", True),
        ("answer.receipt", False),
        ("sfumato.privacy.curve.Curve.laplace", False),
        ("sfumato.privacy.curves", True),
        ("sfumato.privacy.curve.Curve.lapalace", True),
        ("audit.falsify", False),
        ("audit.falsified", True),
        ("ask.limit(rows=5)", False),
        ("ask.limitt(rows=5)", True),
        ("max_rows = 100", False),
        ("max_row = 100", True),
        ("policy.toml", False),
        ("test_a_misspelt_name_is_noticed", False),
        ("test_a_misspelt_name_is_missed", True),
        ("KeyThreshold(…)", False),
        ("KeyTreshold(…)", True),
        ("bench/noise.py", False),
        ("bench/noises.py", True),
        ("QUANTILE_CONT(x, 0.9)", False),
        ("QUANTILES_CONT(x, 0.9)", True),
    ],
)
def test_a_misspelt_name_is_noticed(text: str, wrong: bool) -> None:
    problems = (command_problem, option_problem, python_problem, call_problem, path_problem, sql_problem)
    assert any(problem(text) for problem in problems) == wrong
