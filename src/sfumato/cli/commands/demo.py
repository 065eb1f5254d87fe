"""``sfumato demo``: a guided tour that runs the code it shows."""

from __future__ import annotations

import ast
import shlex
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from sfumato.errors import SfumatoError
from sfumato.quick_dataclass import dataclass

WIDTH = 92
"""Characters per line."""


@dataclass(frozen=True)
class TourStep:
    """A step of the tour: its title, an explanation, and the code it runs."""

    title: str
    explanation: str
    code: str


TOUR_STEPS = (
    TourStep(
        "A question, and how wrong its answer will be",
        """
        The table: every flight that left New York in the summer of 2013 (real, public: see ORIGIN.md). The policy says
        whom to protect: a plane, with all its flights. Read "plane" as "patient" and "flight" as "visit".
        Nothing in this step reads a row or costs anything.
        """,
        '''
flights = sf.open(policy)
ask = flights.sql("""
    SELECT name AS airline, COUNT(*) AS flights
    FROM flights JOIN airlines USING (carrier)
    GROUP BY name ORDER BY flights DESC LIMIT 8
""")
ask.error(epsilon=1)
round(ask.price({"flights": 1000}), 3)      # the ε that would give ±1000
''',
    ),
    TourStep(
        "The answer",
        """
        Only release spends. The charge is on disk before the first row is read; then noise is added, and every number
        comes with a range that contains the exact value with 95 % confidence.
        """,
        """
answer = ask.release(epsilon=1)
print(answer.bars("flights", width=40))
print(answer.receipt.short())
""",
    ),
    TourStep(
        "The same question again: free",
        """
        A second draw of noise would reveal more about the planes, so it would cost; the stored answer reveals nothing
        new.
        """,
        """
ask.release(epsilon=1).rows == answer.rows
""",
    ),
    TourStep(
        "A budget that holds",
        """
        The policy allows ε = 3 for life: for all analysts together, across restarts. A question that does not fit is
        refused before anything is read, and the refusal says what would fit.
        """,
        """
ask.release(epsilon=2.5, fresh=True)
""",
    ),
    TourStep(
        "An attack on exact answers",
        """
        On 28 August SkyWest had a single flight. Anybody who gets exact totals with it and without it can subtract.
        THESE TWO NUMBERS ARE EXACT: they do not come from the curator. They are shown because this table is public.
        """,
        """
import pyarrow.compute as pc, pyarrow.parquet as parquet
rows = parquet.read_table(policy.with_name("flights.parquet"))
that_day = rows.filter(pc.equal(rows["day"], datetime.date(2013, 8, 28)))
others = that_day.filter(pc.not_equal(that_day["carrier"], "OO"))
everyone = pc.sum(that_day["delay"]).as_py()
without = pc.sum(others["delay"]).as_py()
print(f"{everyone:,} - {without:,} = {everyone - without} minutes: its delay")
""",
    ),
    TourStep(
        "The same attack on private answers",
        """
        The same two questions, asked of the curator (limited to five flights per plane, for less noise).
        """,
        """
total = "SELECT SUM(delay) AS minutes FROM flights WHERE day = DATE '2013-08-28'"
asks = [flights.sql(total), flights.sql(total + " AND carrier <> 'OO'")]
everyone, without = (ask.limit(rows=5).release(epsilon=0.5) for ask in asks)
for each in (everyone, without): print(each.cells()[0][0])
difference = everyone.rows[0][0] - without.rows[0][0]
print(f"{difference:,} minutes: noise that hides a plane also hides one flight")
""",
    ),
)


@click.command(short_help="Take a guided tour: a few seconds, no set-up.")
@click.option("--pause", is_flag=True, help="Wait for a key between the steps.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep the example's policy, tables and ledger in this new folder.",
)
def demo_command(pause: bool, keep: Path | None) -> None:
    """Take a guided tour on a bundled real table: a question, its expected error, its answer, the budget, an attack.

    \b
    Examples:
      sfumato demo
      sfumato demo --keep flights
    """
    from sfumato.data import example

    with _demo_folder(keep) as folder:
        policy = example(folder)
        run_tour(policy, pause=pause)
    _print_next_steps(policy if keep else None)


def run_tour(policy: Path, *, pause: bool) -> None:
    """Run all steps in one namespace, like an interactive session."""
    import datetime

    import sfumato

    scope: dict[str, Any] = {"sf": sfumato, "policy": policy, "datetime": datetime}
    try:
        for number, step in enumerate(TOUR_STEPS, start=1):
            click.secho(f"\n{number}. {step.title}", bold=True)
            click.echo(_indented(textwrap.fill(" ".join(step.explanation.split()), WIDTH - 3)) + "\n")
            _run_step(step.code.strip(), scope)
            _print_remaining_budget(scope["flights"].budget)
            if pause and number < len(TOUR_STEPS):
                click.pause("\n   … press any key")
    finally:
        if "flights" in scope:
            scope["flights"].close()


def _run_step(code: str, scope: dict[str, Any]) -> None:
    """Print each statement and then its output; a refusal is printed as its caller would see it."""
    for statement in ast.parse(code).body:
        lines = code.splitlines()[statement.lineno - 1 : statement.end_lineno]
        click.secho("\n".join(f"   {'...' if index else '>>>'} {line}" for index, line in enumerate(lines)), fg="cyan")
        try:
            value = _evaluate(statement, scope)
        except SfumatoError as refusal:
            message_lines = f"{type(refusal).__name__}: {refusal}".splitlines()
            folded = (textwrap.fill(line, WIDTH - 3, subsequent_indent="  ") for line in message_lines)
            click.secho(_indented("\n".join(folded)), fg="yellow")
        else:
            if value is not None:
                click.echo(_indented(repr(value)))


def _evaluate(statement: ast.stmt, scope: dict[str, Any]) -> object:
    scope["print"] = lambda text: click.echo(_indented(text))
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), "<demo>", "eval"), scope)
    exec(compile(ast.Module([statement], []), "<demo>", "exec"), scope)
    return None


def _indented(text: str) -> str:
    return "\n".join(f"   {line}".rstrip() for line in text.splitlines())


def _print_remaining_budget(budget: Any) -> None:
    """Print a bar of the remaining budget."""
    remaining_share = float(budget.remaining["pure"] / budget.epsilon)
    filled = round(30 * remaining_share)
    bar = "█" * filled + "░" * (30 - filled)
    click.secho(
        f"\n   budget left  {bar}  ε = {float(budget.remaining['pure']):g} of {float(budget.epsilon):g}", fg="green"
    )


@contextmanager
def _demo_folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        yield Path(folder)


def _print_next_steps(saved_policy: Path | None) -> None:
    click.secho("\nWhere to go next", bold=True)
    policy_path = saved_policy or Path("flights/flights.toml")
    lines = (
        []
        if saved_policy
        else ["sfumato demo --keep flights             the same tour, with its files kept in flights/"]
    )
    lines += [
        f'sfumato query {policy_path} "SELECT COUNT(*) AS n FROM flights" --within 900',
        f"sfumato budget {policy_path}",
        "sfumato query --help",
        "docs/tutorials/getting-started.md       the same in Python, step by step",
        "docs/explanation/threat-model.md        what is guaranteed, and what is not",
    ]
    click.echo("\n".join(f"   {line}" for line in [*_activation_lines(), *lines]))


def _activation_lines() -> list[str]:
    """Return what to type so that the shell finds the command; nothing if it already does."""
    activate = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("sfumato") is not None or not activate.exists():
        return []
    return [f". {shlex.quote(str(activate))}", "   makes this shell find sfumato (or write ./sfumato beside ./demo)"]
