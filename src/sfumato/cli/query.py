"""The command ``sfumato query`` asks one question, or all questions of a file together."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from sfumato.cli import options
from sfumato.cli.exit_codes import EXIT_CODES, warn
from sfumato.cli.progress import ProgressLines
from sfumato.cli.workload import ask_all, by_question

if TYPE_CHECKING:
    from sfumato.curator import Listing, Question
    from sfumato.release.answers import Answer

_MOST_BYTES = 1 << 20
"""Read from stdin: more than any question has; longer ones are refused by their length."""


@click.command(short_help="Ask a question in SQL, or a file of them.", epilog=EXIT_CODES)
@options.policy
@click.argument("sql", required=False)
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ask all questions of a .sql file together, at one price; --within then takes q1=NUMBER or q1.COLUMN=NUMBER.",
)
@click.option("--epsilon", metavar="NUMBER", help="The price: by itself the release is ε-private.")
@click.option("--delta", metavar="NUMBER", default="0", help="With --epsilon: (ε, δ)-private, Gaussian noise allowed.")
@click.option("--rho", metavar="NUMBER", help="The price in zero-concentrated terms, instead of --epsilon.")
@click.option(
    "--within",
    metavar="[COLUMN=]NUMBER",
    multiple=True,
    help="Accuracy first: pay the least ε that keeps every number, or this column, within ± NUMBER. Repeatable.",
)
@click.option(
    "--weight",
    "weights",
    metavar="COLUMN=NUMBER",
    multiple=True,
    help="How much the error of a column counts when the price is split; 1 for the others. Repeatable.",
)
@click.option(
    "--param",
    "params",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of $NAME, :NAME or, by number, of $1 and ?: a number, true, false, null, else text. Repeatable.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    multiple=True,
    help="Count less of one unit, for less noise: rows=…, groups=… or rows_per_group=…, as .limit(rows=…) in Python. "
    "--explain says what it would gain. Repeatable.",
)
@click.option("--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of every ± range.")
@click.option(
    "--mechanism", type=click.Choice(["laplace", "gaussian"]), help="The noise, instead of the best for the price."
)
@click.option(
    "--range",
    "ranged",
    type=click.Choice(["value"]),
    help="Buy ranges of the values of quantiles, for half their price.",
)
@click.option("--fresh", is_flag=True, help="Buy a new draw even if this question has a stored answer, which is free.")
@click.option(
    "--free",
    is_flag=True,
    help="Take what a synopsis that was bought says, for nothing; with --within only if it is as close.",
)
@click.option(
    "--request-id", metavar="ID", help="Ask again with the same id after a crash: answered once, charged once."
)
@options.analyst
@options.ledger
@click.option(
    "--time-limit",
    metavar="SECONDS",
    default="600",
    show_default=True,
    help="Stop checking, and reading, after this long; a charge stands.",
)
@click.option("--explain", is_flag=True, help="Only say what would happen, operator by operator. Spends nothing.")
@click.option("--dry-run", is_flag=True, help="Only say what it costs and how wrong it will be. Spends nothing.")
@options.as_json
@options.as_csv
@options.plot
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the answer to a .csv, .json or .parquet file.",
)
@click.option(
    "--excel",
    type=click.Choice([",", ";"]),
    help="With -o FILE.csv: so that spreadsheets read it; with ; where they expect decimal commas.",
)
@click.option("--receipt", is_flag=True, help="Print the whole receipt below the table.")
def command(
    policy: Path,
    sql: str | None,
    file: Path | None,
    params: tuple[str, ...],
    limits: tuple[str, ...],
    analyst: str | None,
    ledger: Path | None,
    time_limit: str,
    explain: bool,
    dry_run: bool,
    as_json: bool,
    as_csv: bool,
    plot: Path | None,
    output: Path | None,
    excel: str | None,
    receipt: bool,
    fresh: bool,
    free: bool,
    request_id: str | None,
    ranged: str | None,
    **price: Any,
) -> None:
    """Ask POLICY's tables one question in SQL ("-" reads it from stdin). The price is charged before a row is read.

    \b
    Examples:
      sfumato query clinic.toml "SELECT region, COUNT(*) AS visits FROM visits GROUP BY region" --epsilon 0.5
      sfumato query clinic.toml "SELECT COUNT(*) AS visits FROM visits" --within 50 --dry-run
      sfumato query clinic.toml "SELECT COUNT(*) FROM visits" --limit rows=5 --epsilon 1 --explain
      sfumato query clinic.toml "SELECT COUNT(*) FROM visits WHERE age > $age" --param age=40 --epsilon 0.5
      sfumato query clinic.toml - --rho 0.01 --json < question.sql
      sfumato query clinic.toml "DESCRIBE visits"
      sfumato query clinic.toml --file questions.sql --epsilon 1
    """
    if (sql is None) is (file is None):
        raise click.UsageError("give one question in SQL, or a --file of questions")
    if file is not None and (params or limits or plot or request_id or as_csv or ranged or free or output):
        left = "--param, --limit, --plot, --request-id, --range, --free, -o and --csv"
        raise click.UsageError(f"leave out {left} with a --file of questions")
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    text = "" if sql is None else _text(sql)
    asked = _price(price)
    if plot is not None:
        from sfumato.plots import check_picture

        check_picture(plot)
    if output is not None:
        from sfumato.release.answer_files import check_file

        check_file(output, excel=excel is not None)
    elif excel is not None:
        raise click.UsageError("give --excel together with -o FILE.csv")
    from sfumato.curator import Curator

    with ProgressLines() as progress, Curator(policy, ledger, seconds=time_limit, progress=progress) as curator:
        asking = curator if analyst is None else curator.as_analyst(analyst)
        if file is not None:
            if not (explain or any(asked[name] for name in _PRICES)):
                raise click.UsageError(_ONE_PRICE)
            how = {"explain": explain, "dry_run": dry_run, "fresh": fresh, "as_json": as_json, "receipt": receipt}
            ask_all(asking, file, {**asked, "within": by_question(asked["within"])}, progress, **how)
            return
        question = _limited(asking.sql(text, _parameters(params)), limits)
        if question.free and output is not None and not hasattr(question, "limit"):
            raise click.UsageError("leave out -o: what is listed from the policy is no answer")
        asked |= {} if ranged is None else {"range": ranged}
        if not (explain or free or question.free or any(asked[name] for name in _PRICES)):
            raise click.UsageError(_ONE_PRICE)
        if explain:
            _say(question.explain(**asked), as_json)
        elif dry_run:
            _forecast(question, {**asked, "fresh": fresh}, as_json)
        else:
            for each in question.warnings:
                warn(each)
            with progress.until_shown():
                answer = question.release(**asked, fresh=fresh, free=free, request_id=request_id)
                for each in answer.warnings:
                    if each not in question.warnings:
                        warn(each)
                progress("showing")
                _show(answer, as_json, as_csv, receipt)
                if output is not None:
                    cast("Answer", answer).save(output, excel=excel is not None, separator=excel or ",")
                if plot is not None:
                    _plot(answer, plot)


def _limited(question: Question | Listing, given: tuple[str, ...]) -> Question | Listing:
    """Make the same question with tighter limits; what is listed has none."""
    pairs = [each.partition("=") for each in given]
    names = [name for name, _, _ in pairs]
    known = ("rows", "groups", "rows_per_group")
    if not all(name in known and number.isdecimal() for name, _, number in pairs) or len(set(names)) < len(names):
        raise click.UsageError("give --limit rows=NUMBER, groups=NUMBER or rows_per_group=NUMBER, each once")
    if not pairs:
        return question
    if question.free:
        raise click.UsageError("leave out --limit: what is listed from the policy has no limits")
    given_limits: dict[str, Any] = {name: int(number) for name, _, number in pairs}
    return cast("Question", question).limit(**given_limits)


def _parameters(given: tuple[str, ...]) -> dict[str, Any] | None:
    """Values by name, each of the type it is written in; quotes make it text."""
    pairs = [each.partition("=") for each in given]
    names = [name for name, _, _ in pairs]
    if not all(name and equals for name, equals, _ in pairs) or len(set(names)) < len(names):
        raise click.UsageError("give --param NAME=VALUE, once for each parameter of the question")
    return {name: _value(value) for name, _, value in pairs} or None


_NUMBER = re.compile(r"-?([0-9]+|[0-9]*[.][0-9]+|[0-9]+[.])([eE][+-]?[0-9]+)?")


def _value(written: str) -> Any:
    if len(written) > 1 and written[0] == written[-1] == "'":
        return written[1:-1]
    known = {"true": True, "false": False, "null": None}
    if written.lower() in known:
        return known[written.lower()]
    if not _NUMBER.fullmatch(written) or len(written) > _LONGEST_NUMBER:
        return written
    return int(written) if written.lstrip("-").isdecimal() else Decimal(written)


_LONGEST_NUMBER = 100


_PRICES = ("epsilon", "rho", "within")
_ONE_PRICE = "name one price: --epsilon 0.5, --rho 0.01 or --within 50; there is no default"


def _price(given: dict[str, Any]) -> dict[str, Any]:
    """Read the price as the library takes it."""
    if len([name for name in _PRICES if given[name]]) > 1:
        raise click.UsageError(_ONE_PRICE)
    return {**given, "within": _within(given["within"]), "weights": _weights(given["weights"])}


def _weights(given: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [each.rpartition("=") for each in given]
    names = [name for name, _, _ in pairs]
    if not all(names) or len(set(names)) < len(names):
        raise click.UsageError("give --weight COLUMN=NUMBER, each column once")
    return {name: weight for name, _, weight in pairs} or None


def _within(given: tuple[str, ...]) -> str | dict[str, str] | None:
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = [each.rpartition("=") for each in given]
    if not all(name for name, _, _ in pairs):
        raise click.UsageError("give --within one number for all columns, or COLUMN=NUMBER for each")
    return {name: width for name, _, width in pairs} or None


def _text(sql: str) -> str:
    if sql != "-":
        return sql
    read = sys.stdin.buffer.read(_MOST_BYTES)
    return read.decode("utf-8", errors="surrogateescape")  # what is no text is refused as such


def _say(made: Any, as_json: bool) -> None:
    click.echo(made.to_json() if as_json else str(made))


def _forecast(question: Question | Listing, asked: dict[str, Any], as_json: bool) -> None:
    found = question.error(**asked)
    if as_json:
        click.echo(found.to_json())
        return
    if found.stored:
        verdict = "an answer as good was bought before: it is free"
    else:
        verdict = f"the account {'would accept it now' if found.accepted else 'would REFUSE it now'}"
    click.echo(f"price   {found.price}; {verdict}")
    for index, part in enumerate(found.parts()):
        click.echo(f"{'' if index else 'error':<6}  {part}")
    if found.free:
        click.echo(f"free    {found.free}")
    for each in found.warnings:
        click.echo(f"warning: {each}")
    click.echo("Nothing was spent, and no row was read.")


def _show(answer: Answer | Listing, as_json: bool, as_csv: bool, receipt: bool) -> None:
    if as_json:
        click.echo(answer.to_json())
    elif as_csv:
        click.echo(answer.to_csv(), nl=False)
    else:
        from sfumato.cli.text_tables import show
        from sfumato.curator import Listing

        if isinstance(answer, Listing):
            show(answer.columns, answer.cells())
            return
        show(answer.columns, answer.cells(), answer.intervals)
        for each in answer.ranked():
            click.echo(each)
        click.secho(f"\n{answer.receipt if receipt else answer.receipt.short()}", dim=True)


def _plot(answer: Answer | Listing, path: Path) -> None:
    from sfumato.curator import Listing

    if isinstance(answer, Listing):
        raise click.UsageError("a list of tables or columns has no numbers to draw: leave out --plot")
    answer.plot(str(path))
