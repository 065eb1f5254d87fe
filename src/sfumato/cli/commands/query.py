"""``sfumato query``: ask one SQL question, or all questions of a file as one release."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import click

from sfumato.cli.commands.accounts import print_currencies
from sfumato.cli.common import options
from sfumato.cli.common.exit_codes import EXIT_CODES_HELP, calls_to_flags, print_warning
from sfumato.cli.common.output import ProgressPrinter, print_table
from sfumato.errors import Unsupported
from sfumato.garbage import exempt_imports
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE

if TYPE_CHECKING:
    from sfumato.curator import Answers, Curator, Listing, Question, WorkloadForecast
    from sfumato.release.answers.answer import Answer


def _explain_forecast_or_release(
    proposal: Any, terms: dict[str, Any], progress: ProgressPrinter, values: Mapping[str, Any]
) -> None:
    """Explain, forecast or release a workload."""
    as_json, calls = values["as_json"], {"fresh": values["fresh"], "joint": values["joint"]}
    if values["explain"]:
        explanation = proposal.explain(**terms)
        click.echo(explanation.to_json() if as_json else calls_to_flags(str(explanation)))
    elif values["dry_run"]:
        _show_workload_forecast(proposal.error(**terms, **calls), as_json)
    else:
        with progress.exit_on_interrupt():
            options = {**calls, "request_id": values["request_id"]}
            answers = _release_with_delta(proposal, terms, options, progress)
            for warning in dict.fromkeys(warning for answer in answers for warning in answer.warnings):
                print_warning(warning)
            progress("showing")
            _show_workload(answers, as_json, values["receipt"])


def group_accuracies_by_question(accuracies: Any) -> Any:
    """Group accuracies by question: q1=50 is for all columns of a question, q1.visits=50 for one of them."""
    if not isinstance(accuracies, dict):
        return accuracies
    widths: dict[str, Any] = {}
    for name, width in accuracies.items():
        question, dot, column = name.partition(".")
        if dot and isinstance(widths.get(question, {}), dict):
            widths.setdefault(question, {})[column] = width
        elif dot or question in widths:
            raise click.UsageError(f"give --within {question}=NUMBER, or one for each of its columns, not both")
        else:
            widths[question] = width
    return widths


def _show_workload_forecast(workload: WorkloadForecast, as_json: bool) -> None:
    if as_json:
        click.echo(workload.to_json())
        return
    click.echo(calls_to_flags(str(workload)))
    for counted in dict.fromkeys(forecast.counted for forecast in workload.forecasts if forecast.counted):
        click.echo(f"counted: {counted}")
    click.echo("Nothing was spent, and no row was read.")


def _show_workload(answers: Answers, as_json: bool, receipt: bool) -> None:
    if as_json:
        click.echo(answers.to_json())
        return
    for name, answer in answers.items():
        question = " ".join(answer.receipt.question.split())
        click.secho(f"{name}  {question.removeprefix(f'{name}: ')}", bold=True)
        print_table(answer.columns, answer.cells(), answer.intervals)
        for ranking in answer.ranked():
            click.echo(ranking)
        click.echo("")
    if answers.receipt is None:
        click.secho("all of these answers were bought before: nothing was spent", dim=True)
    else:
        click.secho(str(answers.receipt) if receipt else answers.short_receipt(), dim=True)


_MAX_BYTES = 1 << 20
"""The most bytes read from stdin: longer than any question that is accepted."""


_question_options = options.combine_decorators(
    options.policy,
    click.argument("sql", required=False),
    click.option(
        "--file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Ask all questions of a .sql file as one release, at one price; --within then takes q1=NUMBER or "
        "q1.COLUMN=NUMBER.",
    ),
    click.option(
        "--param",
        "params",
        metavar="NAME=VALUE",
        multiple=True,
        help="The value of the parameter $NAME or :NAME; for $1 or ?, NAME is its number. VALUE is a number, true, "
        "false, null or text. Repeatable.",
    ),
    click.option(
        "--limit",
        "limits",
        metavar="NAME=NUMBER",
        multiple=True,
        help="A tighter limit per unit for less noise: rows=…, groups=… or rows_per_group=…; --explain shows the gain. "
        "Repeatable.",
    ),
)
_price_options = options.combine_decorators(
    click.option("--epsilon", metavar="NUMBER", help="The price of the answer: its privacy loss ε."),
    click.option(
        "--delta",
        metavar="NUMBER|default",
        default="0",
        help="With --epsilon: the δ of the price, which allows Gaussian noise; write 'default' for the δ "
        "that is proposed where groups are found in the data.",
    ),
    click.option(
        "--rho",
        metavar="NUMBER",
        help="The price in ρ, the loss of zero-concentrated differential privacy (zCDP), instead of --epsilon.",
    ),
    click.option(
        "--within",
        metavar="[COLUMN=]NUMBER",
        multiple=True,
        help="Accuracy instead of price: pay the smallest ε that keeps every number, or every number of COLUMN, within "
        "± NUMBER of its exact value. Repeatable.",
    ),
    click.option(
        "--weight",
        "weights",
        metavar="COLUMN=NUMBER",
        multiple=True,
        help="The weight of a column's error when the price is split over columns. Repeatable.  [default: 1]",
    ),
    click.option(
        "--confidence",
        metavar="NUMBER",
        default=DEFAULT_CONFIDENCE,
        show_default=True,
        help="The confidence level of the range given for each number, such as 0.95.",
    ),
    click.option(
        "--joint",
        is_flag=True,
        help="Make all ranges of an answer hold together with this confidence, not each by itself.",
    ),
    click.option(
        "--mechanism",
        type=click.Choice(["laplace", "gaussian"]),
        help="The noise distribution.  [default: the more accurate one at this price]",
    ),
    click.option(
        "--range",
        type=click.Choice(["value"]),
        help="Also buy a range for the value of each quantile, with half of the price of the quantiles.",
    ),
)
_release_options = options.combine_decorators(
    click.option("--fresh", is_flag=True, help="Buy a new answer with new noise, even if a stored one is free."),
    click.option(
        "--free",
        is_flag=True,
        help="Answer from a synopsis bought earlier, for free; with --within only if it is that accurate.",
    ),
    click.option(
        "--sample-of",
        metavar="NUMBER",
        help="Treat the data as a sample of a larger population, and show the sampling error in addition to the "
        "noise. Give the sampled fraction (such as 0.1) or, if the policy declares a size, the size of the "
        "population.",
    ),
    click.option(
        "--sample",
        metavar="SHARE",
        help="Answer from a secret random sample of the units, such as 10%, with less noise on the sample at the same "
        "price. Numbers are scaled up to all units, and their ± includes the sampling error.",
    ),
    click.option(
        "--clipped",
        is_flag=True,
        help="Instead of the answer, buy noisy estimates of what clipping removes: the share of units over each limit, "
        "and of values outside each column's bounds. One price covers all of them.",
    ),
    options.request_id,
)
_output_options = options.combine_decorators(
    options.explain,
    options.dry_run,
    options.as_json,
    options.as_csv,
    click.option(
        "--plot",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Plot the answer with its ranges to a .svg, .png or .html file; with --dry-run or --explain, the "
        "expected error by ε.",
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
        help="With -o FILE.csv: the separator between cells; choose ';' for spreadsheets that expect decimal commas.",
    ),
    click.option(
        "--flag-above",
        metavar="PART",
        help="Mark with * each number whose ± range exceeds this fraction of it, such as 0.5: too noisy to publish.",
    ),
    options.whole_receipt,
    options.details,
)


@click.command(short_help="Ask a question in SQL, or a file of questions.", epilog=EXIT_CODES_HELP)
@_question_options
@_price_options
@_release_options
@options.analyst
@options.ledger
@options.server
@click.option(
    "--time-limit",
    metavar="SECONDS",
    default="600",
    show_default=True,
    help="Stop after this many seconds; a charge that was already made is not refunded.",
)
@_output_options
def query_command(
    policy: Path,
    file: Path | None,
    analyst: str | None,
    ledger: Path | str | None,
    server: str | None,
    time_limit: str,
    **values: Any,
) -> None:
    """Ask POLICY's tables one question in SQL ("-" reads it from stdin). The price is charged before any row is read.

    \b
    Examples:
      sfumato query clinic.toml "SELECT region, COUNT(*) AS visits FROM visits GROUP BY region" --epsilon 0.5
      sfumato query clinic.toml "SELECT COUNT(*) AS visits FROM visits" --within 50 --dry-run
      sfumato query clinic.toml "SELECT COUNT(*) AS visits FROM visits" --epsilon 1 --dry-run --plot errors.svg
      sfumato query clinic.toml "SELECT COUNT(*) FROM visits" --limit rows=5 --epsilon 1 --explain
      sfumato query clinic.toml "SELECT COUNT(*) FROM visits WHERE age > $age" --param age=40 --epsilon 0.5
      sfumato query clinic.toml "SELECT COUNT(*) FROM visits" --epsilon 1 --sample-of 0.1 --flag-above 0.3
      sfumato query clinic.toml "SELECT AVG(cost) FROM visits" --clipped --epsilon 0.1
      sfumato query clinic.toml - --rho 0.01 --json < question.sql
      sfumato query clinic.toml "DESCRIBE visits"
      sfumato query clinic.toml --file questions.sql --epsilon 1
      sfumato query clinic "SELECT COUNT(*) FROM visits" --epsilon 1 --server https://data.example.org
    """
    _check_options(file, values)
    _check_outputs(values)
    sql_text = "" if file is not None else _read_sql(values["sql"])
    terms = _parse_price(values)
    with ProgressPrinter() as progress, ExitStack() as resources:
        if server is not None:
            curator = resources.enter_context(options.connect_to_server(server, policy, analyst, ledger, progress))
        else:
            curator = resources.enter_context(_open_curator(policy, analyst, ledger, time_limit, progress))
        if file is not None:
            _ask_file_as_workload(curator, file, terms, values, progress)
        else:
            question = _apply_limits(curator.sql(sql_text, _parse_parameters(values["params"])), values["limits"])
            _explain_forecast_or_release_question(question, terms, values, progress)
        if values["details"] and not values["as_json"] and not values["as_csv"]:
            print_currencies(curator.standing())


@contextmanager
def _open_curator(
    policy: Path, analyst: str | None, ledger: Path | str | None, time_limit: str, progress: ProgressPrinter
) -> Iterator[Curator]:
    """Open the curator of a local policy, as an analyst if one is named."""
    exempt_imports("sfumato.curator.curators", "sfumato.curator.proposals.questions", "sfumato.plan.sql.statements")
    from sfumato.curator import Curator

    with Curator(policy, ledger, seconds=time_limit, progress=progress) as curator:
        yield curator if analyst is None else curator.as_analyst(analyst)


_SINGLE_QUESTION_FLAGS = {
    "params": "--param",
    "limits": "--limit",
    "plot": "--plot",
    "range": "--range",
    "free": "--free",
    "sample_of": "--sample-of",
    "sample": "--sample",
    "flag_above": "--flag-above",
    "output": "-o",
    "as_csv": "--csv",
    "clipped": "--clipped",
}
"""Options of a single question that a --file of questions does not take."""
_ANSWER_FLAGS = {
    name: flag for name, flag in _SINGLE_QUESTION_FLAGS.items() if name not in ("params", "limits", "clipped")
}
"""Options of an answer that --clipped does not take."""


def _check_options(file: Path | None, values: Mapping[str, Any]) -> None:
    """Refuse options that cannot be combined."""
    if (values["sql"] is None) is (file is None):
        raise click.UsageError("give one question in SQL, or a --file of questions")
    if file is not None and any(values[name] for name in _SINGLE_QUESTION_FLAGS):
        *other_flags, last_flag = _SINGLE_QUESTION_FLAGS.values()
        raise click.UsageError(f"leave out {', '.join(other_flags)} and {last_flag} with a --file of questions")
    if values["clipped"] and (used := [flag for name, flag in _ANSWER_FLAGS.items() if values[name]]):
        raise click.UsageError(
            f"leave out {' and '.join(used)} with --clipped, which buys counts instead of the answer"
        )
    if values["as_json"] and values["as_csv"]:
        raise click.UsageError("give --json or --csv, not both")
    if values["excel"] is not None and values["output"] is None:
        raise click.UsageError("give --excel together with -o FILE.csv")


def _check_outputs(values: Mapping[str, Any]) -> None:
    """Refuse, before anything is spent, output files and marks that cannot be made."""
    if values["plot"] is not None:
        from sfumato.plots import check_picture_path

        check_picture_path(values["plot"])
    if values["output"] is not None:
        from sfumato.release.answers.answer_pages import checked_answer_path

        checked_answer_path(values["output"], excel=values["excel"] is not None)
    if values["flag_above"] is not None:
        from sfumato.release.answers.answer_pictures import parse_noise_limit

        parse_noise_limit(values["flag_above"])


def _ask_file_as_workload(
    curator: Curator, file: Path, terms: dict[str, Any], values: Mapping[str, Any], progress: ProgressPrinter
) -> None:
    """Ask all questions of a file as one release."""
    if not (values["explain"] or any(terms[name] for name in _PRICES)):
        raise click.UsageError(_ONE_PRICE)
    by_question = group_accuracies_by_question(terms["within"])
    _explain_forecast_or_release(curator.workload(file), {**terms, "within": by_question}, progress, values)


def _explain_forecast_or_release_question(
    question: Question | Listing, terms: dict[str, Any], values: Mapping[str, Any], progress: ProgressPrinter
) -> None:
    """Explain, forecast or release one question."""
    if values["clipped"]:
        _explain_forecast_or_release_clipped(question, terms, values, progress)
        return
    if question.free and values["output"] is not None and not hasattr(question, "limit"):
        raise click.UsageError("leave out -o: only an answer can be written to a file, not a list of tables or columns")
    terms |= {name: values[name] for name in ("range", "sample") if values[name] is not None}
    if not (values["explain"] or values["free"] or question.free or any(terms[name] for name in _PRICES)):
        if not values["dry_run"] or values["as_json"]:
            raise click.UsageError(_ONE_PRICE)
        _show_prices(cast("Question", question), terms)
        _draw_error(question, terms, values["plot"])
    elif values["explain"] or values["dry_run"]:
        _explain_or_forecast(question, terms, values)
    else:
        _release_question(question, terms, values, progress)


def _explain_forecast_or_release_clipped(
    question: Question | Listing, terms: dict[str, Any], values: Mapping[str, Any], progress: ProgressPrinter
) -> None:
    """Explain, forecast or release the counts of what limits and bounds cut."""
    if question.free:
        raise click.UsageError("leave out --clipped: a list of tables or columns reads no rows, so nothing is clipped")
    if not (values["explain"] or any(terms[name] for name in _PRICES)):
        raise click.UsageError(_ONE_PRICE)
    _explain_forecast_or_release(cast("Question", question).clipped(), terms, progress, values)


def _explain_or_forecast(question: Question | Listing, terms: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Explain or forecast one question, and plot its expected error by ε; spends nothing."""
    if values["explain"]:
        _print_explanation(question.explain(**terms), values["as_json"])
    else:
        _print_forecast(question, {**terms, "fresh": values["fresh"], **_joint_term(values)}, values["as_json"])
    _draw_error(question, terms, values["plot"])


def _joint_term(values: Mapping[str, Any]) -> dict[str, bool]:
    return {"joint": True} if values["joint"] else {}


def _draw_error(question: Question | Listing, terms: dict[str, Any], path: Path | None) -> None:
    if path is None:
        return
    if question.free:
        raise click.UsageError("leave out --plot: a list of tables or columns has no error to plot")
    cast("Question", question).plot(path, delta=terms["delta"], confidence=terms["confidence"])


def _release_question(
    question: Question | Listing, terms: dict[str, Any], values: Mapping[str, Any], progress: ProgressPrinter
) -> None:
    """Release one question; print, save and plot its answer."""
    for warning in question.warnings:
        print_warning(warning)
    release_options = {name: values[name] for name in ("fresh", "free", "request_id", "sample_of")} | _joint_term(
        values
    )
    with progress.exit_on_interrupt():
        answer = _release_with_delta(question, terms, release_options, progress)
        for warning in answer.warnings:
            if warning not in question.warnings:
                print_warning(warning)
        if values["flag_above"] is not None and _is_answer(answer):
            answer = answer.flagged(values["flag_above"])
        progress("showing")
        _print_answer(answer, values["as_json"], values["as_csv"], values["receipt"] or values["details"])
        if values["output"] is not None:
            excel = values["excel"]
            cast("Answer", answer).save(values["output"], excel=excel is not None, separator=excel or ",")
        if values["plot"] is not None:
            _plot_answer(answer, values["plot"])


def _release_with_delta(
    question: Any, terms: dict[str, Any], release_options: dict[str, Any], progress: ProgressPrinter
) -> Any:
    """Release a question or workload; where it lacks a δ, ask at a terminal whether the offered one is accepted."""
    try:
        return question.release(**terms, **release_options)
    except Unsupported as refusal:
        if refusal.code != "unknown-keys" or not _can_ask_person():
            raise
        forecast = question.error(**terms)
        if not forecast.assumed_delta or not forecast.accepted:
            raise
        progress.stop_printing()
        needs_delta = "The groups are found in the data, which needs a δ."
        if not click.confirm(f"{needs_delta} Ask at {forecast.price}?", default=True, err=True):
            raise
        return question.release(**{**terms, "delta": forecast.assumed_delta}, **release_options)


def _can_ask_person() -> bool:
    """Return whether a person can be asked: stdin and stderr are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _apply_limits(question: Question | Listing, texts: tuple[str, ...]) -> Question | Listing:
    """Return the question with the limits of --limit applied."""
    pairs = [text.partition("=") for text in texts]
    names = [name for name, _, _ in pairs]
    limit_names = ("rows", "groups", "rows_per_group")
    if not all(name in limit_names and number.isdecimal() for name, _, number in pairs) or len(set(names)) < len(names):
        raise click.UsageError("give --limit rows=NUMBER, groups=NUMBER or rows_per_group=NUMBER, each at most once")
    if not pairs:
        return question
    if question.free:
        raise click.UsageError("leave out --limit: a list of tables or columns reads no rows that could be limited")
    limits: dict[str, Any] = {name: int(number) for name, _, number in pairs}
    return cast("Question", question).limit(**limits)


def _parse_parameters(texts: tuple[str, ...]) -> dict[str, Any] | None:
    """Parse parameters by name, typed by how they are written; single quotes make a text."""
    pairs = [text.partition("=") for text in texts]
    names = [name for name, _, _ in pairs]
    if not all(name and equals for name, equals, _ in pairs) or len(set(names)) < len(names):
        raise click.UsageError("give --param NAME=VALUE, once for each parameter of the question")
    return {name: _parse_parameter_value(value) for name, _, value in pairs} or None


_NUMBER = re.compile(r"-?([0-9]+|[0-9]*[.][0-9]+|[0-9]+[.])([eE][+-]?[0-9]+)?")


def _parse_parameter_value(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    constants = {"true": True, "false": False, "null": None}
    if text.lower() in constants:
        return constants[text.lower()]
    if not _NUMBER.fullmatch(text) or len(text) > _MAX_NUMBER_LENGTH:
        return text
    return int(text) if text.lstrip("-").isdecimal() else Decimal(text)


_MAX_NUMBER_LENGTH = 100


_PRICES = ("epsilon", "rho", "within")
_ONE_PRICE = "name one price: --epsilon 0.5, --rho 0.01 or --within 50; there is no default"


def _parse_price(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the price as keyword arguments of the library."""
    if len([name for name in _PRICES if values[name]]) > 1:
        raise click.UsageError(_ONE_PRICE)
    terms = {name: values[name] for name in ("epsilon", "delta", "rho", "confidence", "mechanism")}
    return {**terms, "within": _parse_within(values["within"]), "weights": _parse_weights(values["weights"])}


def _parse_weights(texts: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [text.rpartition("=") for text in texts]
    names = [name for name, _, _ in pairs]
    if not all(names) or len(set(names)) < len(names):
        raise click.UsageError("give --weight COLUMN=NUMBER only once for each column")
    return {name: weight for name, _, weight in pairs} or None


def _parse_within(texts: tuple[str, ...]) -> str | dict[str, str] | None:
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    pairs = [text.rpartition("=") for text in texts]
    if not all(name for name, _, _ in pairs):
        raise click.UsageError("give --within one number for all columns, or COLUMN=NUMBER for each")
    return {name: width for name, _, width in pairs} or None


def _read_sql(sql: str) -> str:
    if sql != "-":
        return sql
    stdin_bytes = sys.stdin.buffer.read(_MAX_BYTES)
    return stdin_bytes.decode("utf-8", errors="surrogateescape")  # invalid UTF-8 is refused by the parser


def _print_explanation(explanation: Any, as_json: bool) -> None:
    click.echo(explanation.to_json() if as_json else calls_to_flags(str(explanation)))


def _print_forecast(question: Question | Listing, terms: dict[str, Any], as_json: bool) -> None:
    forecast = question.error(**terms)
    if as_json:
        click.echo(forecast.to_json())
        return
    if forecast.stored:
        verdict = "an answer at least as accurate was bought before: it is free"
    else:
        refused_words = "would REFUSE it now: sfumato budget shows what is left"
        verdict = f"the account {'would accept it now' if forecast.accepted else refused_words}"
    click.echo(f"price   {forecast.price}; {verdict}")
    for index, part in enumerate(forecast.parts()):
        click.echo(f"{'' if index else 'error':<6}  {part}")
    if forecast.counted:
        click.echo(f"counted {forecast.counted}")
    for line in forecast.caveat_lines():
        click.echo(f"caveat  {line}")
    if forecast.free:
        click.echo(f"free    {calls_to_flags(forecast.free)}")
    if forecast.advice:
        click.echo(f"advice  {calls_to_flags(forecast.advice)}")
    for warning in forecast.warnings:
        click.echo(f"warning: {calls_to_flags(warning)}")
    click.echo("Nothing was spent, and no row was read.")


def _show_prices(question: Question, terms: dict[str, Any]) -> None:
    """Print the expected error at some sample prices, when no price is named."""
    forecasts = [question.error(**{**terms, "epsilon": epsilon}) for epsilon in _SAMPLE_PRICES]
    common = [
        warning for warning in forecasts[0].warnings if all(warning in forecast.warnings for forecast in forecasts)
    ]
    for forecast in forecasts:
        click.echo(f"at {forecast.price}: {'; '.join(forecast.parts())}")
        for warning in forecast.warnings:
            if warning not in common:
                click.echo(f"  {calls_to_flags(warning)}")
    for warning in common:
        click.echo(f"warning: {calls_to_flags(warning)}")
    click.echo("To ask, name a price, such as --epsilon 0.5, or an accuracy, such as --within 50.")
    click.echo("Nothing was spent, and no row was read.")


_SAMPLE_PRICES = ("0.1", "0.5", "1")
"""The ε for which errors are forecast when no price is named."""


def _print_answer(answer: Answer | Listing, as_json: bool, as_csv: bool, receipt: bool) -> None:
    if as_json:
        click.echo(answer.to_json())
    elif as_csv:
        click.echo(answer.to_csv(), nl=False)
    else:
        from sfumato.cli.common.output import print_table

        if _is_answer(answer):
            print_table(answer.columns, answer.cells(), answer.intervals)
            for ranking in answer.ranked():
                click.echo(calls_to_flags(ranking))
            click.secho(f"\n{answer.receipt if receipt else answer.short_receipt()}", dim=True)
        else:
            print_table(answer.columns, answer.cells())


def _plot_answer(answer: Answer | Listing, path: Path) -> None:
    if _is_answer(answer):
        answer.plot(str(path))
    else:
        raise click.UsageError("leave out --plot: a list of tables or columns has no numbers to plot")


def _is_answer(answer: Answer | Listing) -> TypeGuard[Answer]:
    """Return whether this is an answer with numbers, not a list of tables or columns."""
    from sfumato.curator import Listing

    return not isinstance(answer, Listing)
