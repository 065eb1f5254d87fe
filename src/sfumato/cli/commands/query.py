"""The command ``sfumato query`` asks one question, or all questions of a file together.

Questions of a file are asked together: this prints what ``sfumato query --file`` says of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import click

from sfumato.cli.commands.budget import show_currencies
from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES, as_flags, warn
from sfumato.cli.common.output import ProgressLines, show

if TYPE_CHECKING:
    from sfumato.curator import Answers, Curator, Listing, Question, WorkloadForecast
    from sfumato.release.answers.answer import Answer


def ask_all(
    curator: Curator,
    file: Path,
    asked: dict[str, Any],
    progress: ProgressLines,
    *,
    explain: bool,
    dry_run: bool,
    fresh: bool,
    request_id: str | None,
    as_json: bool,
    receipt: bool,
) -> None:
    """Explain, forecast or ask all questions of a file."""
    proposal = curator.workload(file)
    if explain:
        said = proposal.explain(**asked)
        click.echo(said.to_json() if as_json else as_flags(str(said)))
    elif dry_run:
        _show_workload_forecast(proposal.error(**asked, fresh=fresh), as_json)
    else:
        with progress.until_shown():
            answers = proposal.release(**asked, fresh=fresh, request_id=request_id)
            for each in dict.fromkeys(said for answer in answers for said in answer.warnings):
                warn(each)
            progress("showing")
            _show_workload(answers, as_json, receipt)


def by_question(given: Any) -> Any:
    """Read q1=50 as what is wanted of a question, and q1.visits=50 of one of its columns."""
    if not isinstance(given, dict):
        return given
    found: dict[str, Any] = {}
    for name, width in given.items():
        question, dot, column = name.partition(".")
        if dot and isinstance(found.get(question, {}), dict):
            found.setdefault(question, {})[column] = width
        elif dot or question in found:
            raise click.UsageError(f"give --within {question}=NUMBER, or one for each of its columns, not both")
        else:
            found[question] = width
    return found


def _show_workload_forecast(found: WorkloadForecast, as_json: bool) -> None:
    if as_json:
        click.echo(found.to_json())
        return
    click.echo(as_flags(str(found)))
    for each in dict.fromkeys(one.counted for one in found.forecasts if one.counted):
        click.echo(f"counted: {each}")
    click.echo("Nothing was spent, and no row was read.")


def _show_workload(answers: Answers, as_json: bool, receipt: bool) -> None:
    if as_json:
        click.echo(answers.to_json())
        return
    for name, answer in answers.items():
        click.secho(f"{name}  {' '.join(answer.receipt.question.split())}", bold=True)
        show(answer.columns, answer.cells(), answer.intervals)
        for each in answer.ranked():
            click.echo(each)
        click.echo("")
    if answers.receipt is None:
        click.secho("all of it was bought before: nothing was spent", dim=True)
    else:
        click.secho(str(answers.receipt if receipt else answers.receipt.short()), dim=True)


_MOST_BYTES = 1 << 20
"""Read from stdin: more than any question has; longer ones are refused by their length."""


_asked = options.several(
    options.policy,
    click.argument("sql", required=False),
    click.option(
        "--file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Ask all questions of a .sql file together, at one price; --within then takes q1=NUMBER or "
        "q1.COLUMN=NUMBER.",
    ),
    click.option(
        "--param",
        "params",
        metavar="NAME=VALUE",
        multiple=True,
        help="The value of $NAME, :NAME or, by number, of $1 and ?: a number, true, false, null, else text. "
        "Repeatable.",
    ),
    click.option(
        "--limit",
        "limits",
        metavar="NAME=NUMBER",
        multiple=True,
        help="Count less of one unit, for less noise: rows=…, groups=… or rows_per_group=…, as .limit(rows=…) in "
        "Python. --explain says what it would gain. Repeatable.",
    ),
)
_priced = options.several(
    click.option("--epsilon", metavar="NUMBER", help="The price: by itself the release is ε-private."),
    click.option(
        "--delta", metavar="NUMBER", default="0", help="With --epsilon: (ε, δ)-private, Gaussian noise allowed."
    ),
    click.option("--rho", metavar="NUMBER", help="The price in zero-concentrated terms, instead of --epsilon."),
    click.option(
        "--within",
        metavar="[COLUMN=]NUMBER",
        multiple=True,
        help="Accuracy first: pay the least ε that keeps every number, or this column, within ± NUMBER. Repeatable.",
    ),
    click.option(
        "--weight",
        "weights",
        metavar="COLUMN=NUMBER",
        multiple=True,
        help="How much the error of a column counts when the price is split; 1 for the others. Repeatable.",
    ),
    click.option("--confidence", metavar="NUMBER", default="0.95", show_default=True, help="Of every ± range."),
    click.option(
        "--mechanism", type=click.Choice(["laplace", "gaussian"]), help="The noise, instead of the best for the price."
    ),
    click.option(
        "--range", type=click.Choice(["value"]), help="Buy ranges of the values of quantiles, for half their price."
    ),
)
_released = options.several(
    click.option(
        "--fresh", is_flag=True, help="Buy a new draw even if this question has a stored answer, which is free."
    ),
    click.option(
        "--free",
        is_flag=True,
        help="Take what a synopsis that was bought says, for nothing; with --within only if it is as close.",
    ),
    click.option(
        "--sample-of",
        metavar="NUMBER",
        help="The rows are a sample: of this share of a population (0.1), or of one of so many units where the policy "
        "declares the size. Sampling error then stands beside noise.",
    ),
    options.request_id,
)
_shown = options.several(
    click.option("--explain", is_flag=True, help="Only say what would happen, operator by operator. Spends nothing."),
    click.option("--dry-run", is_flag=True, help="Only say what it costs and how wrong it will be. Spends nothing."),
    options.as_json,
    options.as_csv,
    click.option(
        "--plot",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Draw the answer with its ranges: .svg, .png or .html. With --dry-run or --explain: its error against ε.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Also write the answer to a .csv, .json or .parquet file.",
    ),
    click.option(
        "--excel",
        type=click.Choice([",", ";"]),
        help="With -o FILE.csv: so that spreadsheets read it; with ; where they expect decimal commas.",
    ),
    click.option(
        "--flag-above",
        metavar="PART",
        help="Mark with * every number whose range reaches further than this part of it, such as 0.5: too noisy to "
        "print.",
    ),
    click.option("--receipt", is_flag=True, help="Print the whole receipt below the table."),
    options.details,
)


@click.command(short_help="Ask a question in SQL, or a file of them.", epilog=EXIT_CODES)
@_asked
@_priced
@_released
@options.analyst
@options.ledger
@options.server
@click.option(
    "--time-limit",
    metavar="SECONDS",
    default="600",
    show_default=True,
    help="Stop checking, and reading, after this long; a charge stands.",
)
@_shown
def command(
    policy: Path,
    file: Path | None,
    analyst: str | None,
    ledger: Path | str | None,
    server: str | None,
    time_limit: str,
    **given: Any,
) -> None:
    """Ask POLICY's tables one question in SQL ("-" reads it from stdin). The price is charged before a row is read.

    \b
    Examples:
      sfumato query clinic.toml "SELECT region, COUNT(*) AS visits FROM visits GROUP BY region" --epsilon 0.5
      sfumato query clinic.toml "SELECT COUNT(*) AS visits FROM visits" --within 50 --dry-run
      sfumato query clinic.toml "SELECT COUNT(*) AS visits FROM visits" --epsilon 1 --dry-run --plot errors.svg
      sfumato query clinic.toml "SELECT COUNT(*) FROM visits" --limit rows=5 --epsilon 1 --explain
      sfumato query clinic.toml "SELECT COUNT(*) FROM visits WHERE age > $age" --param age=40 --epsilon 0.5
      sfumato query clinic.toml "SELECT COUNT(*) FROM visits" --epsilon 1 --sample-of 0.1 --flag-above 0.3
      sfumato query clinic.toml - --rho 0.01 --json < question.sql
      sfumato query clinic.toml "DESCRIBE visits"
      sfumato query clinic.toml --file questions.sql --epsilon 1
      sfumato query clinic "SELECT COUNT(*) FROM visits" --epsilon 1 --server https://data.example.org
    """
    _check_together(file, given)
    _check_shown(given)
    text = "" if file is not None else _text(given["sql"])
    asked = _price(given)
    with ProgressLines() as progress, ExitStack() as opened:
        if server is not None:
            asking = opened.enter_context(options.connected(server, policy, analyst, ledger, progress))
        else:
            asking = opened.enter_context(_curator(policy, analyst, ledger, time_limit, progress))
        if file is not None:
            _ask_file(asking, file, asked, given, progress)
        else:
            question = _limited(asking.sql(text, _parameters(given["params"])), given["limits"])
            _ask(question, asked, given, progress)
        if given["details"] and not given["as_json"] and not given["as_csv"]:
            show_currencies(asking.standing())


@contextmanager
def _curator(
    policy: Path, analyst: str | None, ledger: Path | str | None, time_limit: str, progress: ProgressLines
) -> Iterator[Curator]:
    """Open the policy's files, as an analyst where one is named."""
    from sfumato.curator import Curator

    with Curator(policy, ledger, seconds=time_limit, progress=progress) as curator:
        yield curator if analyst is None else curator.as_analyst(analyst)


_ALONE = {
    "params": "--param",
    "limits": "--limit",
    "plot": "--plot",
    "range": "--range",
    "free": "--free",
    "sample_of": "--sample-of",
    "flag_above": "--flag-above",
    "output": "-o",
    "as_csv": "--csv",
}
"""What says something about one question, and not about a file of them."""


def _check_together(file: Path | None, given: Mapping[str, Any]) -> None:
    """Refuse what does not go together."""
    if (given["sql"] is None) is (file is None):
        raise click.UsageError("give one question in SQL, or a --file of questions")
    if file is not None and any(given[name] for name in _ALONE):
        *others, last = _ALONE.values()
        raise click.UsageError(f"leave out {', '.join(others)} and {last} with a --file of questions")
    if given["as_json"] and given["as_csv"]:
        raise click.UsageError("give --json or --csv, not both")
    if given["excel"] is not None and given["output"] is None:
        raise click.UsageError("give --excel together with -o FILE.csv")


def _check_shown(given: Mapping[str, Any]) -> None:
    """Refuse files, and marks, that cannot be made before anything is spent."""
    if given["plot"] is not None:
        from sfumato.plots import check_picture

        check_picture(given["plot"])
    if given["output"] is not None:
        from sfumato.release.answers.answer_pages import check_file

        check_file(given["output"], excel=given["excel"] is not None)
    if given["flag_above"] is not None:
        from sfumato.release.answers.answer_pictures import threshold

        threshold(given["flag_above"])


def _ask_file(
    curator: Curator, file: Path, asked: dict[str, Any], given: Mapping[str, Any], progress: ProgressLines
) -> None:
    """Ask all questions of a file together."""
    if not (given["explain"] or any(asked[name] for name in _PRICES)):
        raise click.UsageError(_ONE_PRICE)
    how = {name: given[name] for name in ("explain", "dry_run", "fresh", "request_id", "as_json", "receipt")}
    ask_all(curator, file, {**asked, "within": by_question(asked["within"])}, progress, **how)


def _ask(
    question: Question | Listing, asked: dict[str, Any], given: Mapping[str, Any], progress: ProgressLines
) -> None:
    """Explain, forecast or ask one question."""
    if question.free and given["output"] is not None and not hasattr(question, "limit"):
        raise click.UsageError("leave out -o: what is listed from the policy is no answer")
    asked |= {} if given["range"] is None else {"range": given["range"]}
    if not (given["explain"] or given["free"] or question.free or any(asked[name] for name in _PRICES)):
        if not given["dry_run"] or given["as_json"]:
            raise click.UsageError(_ONE_PRICE)
        _show_prices(cast("Question", question), asked)
        _draw_error(question, asked, given["plot"])
    elif given["explain"] or given["dry_run"]:
        _foretell(question, asked, given)
    else:
        _release(question, asked, given, progress)


def _foretell(question: Question | Listing, asked: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Explain or forecast one question, and draw its error against ε: nothing is spent."""
    if given["explain"]:
        _say(question.explain(**asked), given["as_json"])
    else:
        _forecast(question, {**asked, "fresh": given["fresh"]}, given["as_json"])
    _draw_error(question, asked, given["plot"])


def _draw_error(question: Question | Listing, asked: dict[str, Any], path: Path | None) -> None:
    if path is None:
        return
    if question.free:
        raise click.UsageError("leave out --plot: what is listed from the policy has no error to draw")
    cast("Question", question).plot(path, delta=asked["delta"], confidence=asked["confidence"])


def _release(
    question: Question | Listing, asked: dict[str, Any], given: Mapping[str, Any], progress: ProgressLines
) -> None:
    """Ask one question, and show its answer in every way that is wanted."""
    for each in question.warnings:
        warn(each)
    how = {name: given[name] for name in ("fresh", "free", "request_id", "sample_of")}
    with progress.until_shown():
        answer = question.release(**asked, **how)
        for each in answer.warnings:
            if each not in question.warnings:
                warn(each)
        if given["flag_above"] is not None and _is_answer(answer):
            answer = answer.flagged(given["flag_above"])
        progress("showing")
        _show(answer, given["as_json"], given["as_csv"], given["receipt"] or given["details"])
        if given["output"] is not None:
            excel = given["excel"]
            cast("Answer", answer).save(given["output"], excel=excel is not None, separator=excel or ",")
        if given["plot"] is not None:
            _plot(answer, given["plot"])


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


def _price(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the price as the library takes it."""
    if len([name for name in _PRICES if given[name]]) > 1:
        raise click.UsageError(_ONE_PRICE)
    plain = {name: given[name] for name in ("epsilon", "delta", "rho", "confidence", "mechanism")}
    return {**plain, "within": _within(given["within"]), "weights": _weights(given["weights"])}


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
    click.echo(made.to_json() if as_json else as_flags(str(made)))


def _forecast(question: Question | Listing, asked: dict[str, Any], as_json: bool) -> None:
    found = question.error(**asked)
    if as_json:
        click.echo(found.to_json())
        return
    if found.stored:
        verdict = "an answer as good was bought before: it is free"
    else:
        refused = "would REFUSE it now: sfumato budget says what is left"
        verdict = f"the account {'would accept it now' if found.accepted else refused}"
    click.echo(f"price   {found.price}; {verdict}")
    for index, part in enumerate(found.parts()):
        click.echo(f"{'' if index else 'error':<6}  {part}")
    if found.counted:
        click.echo(f"counted {found.counted}")
    if found.free:
        click.echo(f"free    {as_flags(found.free)}")
    for each in found.warnings:
        click.echo(f"warning: {as_flags(each)}")
    click.echo("Nothing was spent, and no row was read.")


def _show_prices(question: Question, asked: dict[str, Any]) -> None:
    """Say how wrong an answer would be at some prices, for whoever has named none."""
    tried = [question.error(**{**asked, "epsilon": epsilon}) for epsilon in _TRIED]
    common = [each for each in tried[0].warnings if all(each in found.warnings for found in tried)]
    for found in tried:
        click.echo(f"at {found.price}: {'; '.join(found.parts())}")
        for each in found.warnings:
            if each not in common:
                click.echo(f"  {as_flags(each)}")
    for each in common:
        click.echo(f"warning: {as_flags(each)}")
    click.echo("Name a price to ask, such as --epsilon 0.5, or an accuracy, such as --within 50.")
    click.echo("Nothing was spent, and no row was read.")


_TRIED = ("0.1", "0.5", "1")
"""Prices that errors are told for when none is named."""


def _show(answer: Answer | Listing, as_json: bool, as_csv: bool, receipt: bool) -> None:
    if as_json:
        click.echo(answer.to_json())
    elif as_csv:
        click.echo(answer.to_csv(), nl=False)
    else:
        from sfumato.cli.common.output import show

        if _is_answer(answer):
            show(answer.columns, answer.cells(), answer.intervals)
            for each in answer.ranked():
                click.echo(each)
            click.secho(f"\n{answer.receipt if receipt else answer.receipt.short()}", dim=True)
        else:
            show(answer.columns, answer.cells())


def _plot(answer: Answer | Listing, path: Path) -> None:
    if _is_answer(answer):
        answer.plot(str(path))
    else:
        raise click.UsageError("a list of tables or columns has no numbers to draw: leave out --plot")


def _is_answer(answer: Answer | Listing) -> TypeGuard[Answer]:
    """Tell whether it has numbers: a list of tables or columns has none."""
    from sfumato.curator import Listing

    return not isinstance(answer, Listing)
